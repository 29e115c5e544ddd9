use super::*;
use crate::compile::CodeObject;

/// hiprtc of this machine; without one the test says that it was skipped.
fn rtc_or_skip(test: &str) -> Option<Rtc> {
    match Rtc::open() {
        Ok(rtc) => Some(rtc),
        Err(error) => {
            println!("skipped {test}: {error}");
            None
        }
    }
}

fn compile(rtc: &Rtc, arch: Arch, text: &str) -> Result<Vec<u8>, Failure> {
    let defines: Vec<_> = arch.info().defines().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let unit = Unit {
        name: "scale",
        text,
        target: arch.name(),
        defines: &defines,
        flags: &[],
        hip: false,
        line_tables: false,
        prelude: None,
    };
    rtc.compile(&unit, &mut || {})
}

#[test]
fn hiprtc_compiles_the_prelude_for_gfx90a() {
    let Some(rtc) = rtc_or_skip("hiprtc_compiles_the_prelude_for_gfx90a") else { return };
    let arch = Arch::parse("gfx90a").unwrap();
    let code = match compile(&rtc, arch, include_str!("../../../tests/kernels/scale.hip")) {
        Ok(code) => CodeObject::parse("scale", code).unwrap(),
        Err(Failure::Diagnostics(log)) => panic!("{log}"),
        Err(_) => panic!("hiprtc could not be run"),
    };
    let kernel = code.kernels().iter().find(|kernel| kernel.name == "scale_f32").unwrap();
    assert_eq!((kernel.explicit_kernarg_bytes, kernel.max_workgroup_threads), (24, 256));
    match compile(&rtc, arch, "int x = undeclared_thing;") {
        Err(Failure::Diagnostics(log)) => assert!(log.contains("undeclared_thing"), "{log}"),
        _ => panic!("a wrong source must give a log"),
    }
}

#[test]
fn hiprtc_is_never_asked_for_a_target_that_is_newer_than_it() {
    let Some(rtc) = rtc_or_skip("hiprtc_is_never_asked_for_a_target_that_is_newer_than_it") else { return };
    let at = |major, minor| Rtc { version: Version { major, minor, patch: Some(0) }, ..rtc.clone() };
    let knows = |rtc: &Rtc, name| rtc.knows(Arch::parse(name).unwrap());
    for (name, major, minor) in [("gfx942", 6, 0), ("gfx1100", 5, 5), ("gfx1201", 6, 4), ("gfx950", 7, 0)] {
        assert!(knows(&at(major, minor), name) && !knows(&at(5, 2), name), "{name}");
    }
    assert!(knows(&at(5, 2), "gfx90a") && knows(&at(5, 2), "gfx1030"));
    assert!(!knows(&at(9, 0), "sm_90"));
}
