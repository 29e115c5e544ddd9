use std::sync::Arc;

use rocfire_arch::{Arch, Vendor};

use super::super::rtc::{open, over, tables};
use super::*;
use crate::Config;
use crate::compile::{Compiler, Pipeline, Prelude, Source};
use crate::foreign::Library;
use crate::gpu::tests::built_or_skip;

const SCALE: &str = include_str!("../../../tests/kernels/scale.hip");
const WRONG: &str = "#error it is wrong";

/// The fake NVRTC, with precompiled headers or without; without `rustc` the test says that it was skipped.
fn fake_or_skip(test: &str, precompiles: bool) -> Option<Rtc> {
    let vendor = if precompiles { Vendor::Nvidia } else { Vendor::Amd };
    let (_folder, path) = built_or_skip(test, "nvrtc", vendor)?;
    let library = Library::open("fake", &[path]).unwrap();
    // Never closed, as the real one.
    Some(over(Box::leak(Box::new(tables(Arc::new(library))))).unwrap())
}

fn macros(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn unit<'a>(text: &'a str, defines: &'a [(String, String)], prelude: Option<&'a Prelude>) -> Unit<'a> {
    Unit { name: "scale", text, target: "sm_90", defines, flags: &[], hip: false, line_tables: false, prelude }
}

fn code(nvrtc: &Rtc, unit: &Unit<'_>) -> Result<Vec<u8>, String> {
    nvrtc.compile(unit, &mut || {}).map_err(told)
}

#[test]
fn a_source_behind_it_is_what_it_is_without() {
    let Some(nvrtc) = fake_or_skip("a_source_behind_it_is_what_it_is_without", true) else { return };
    let of_arch = macros(&[("ARCH_WAVE_SIZE", "32"), ("ARCH_MATRIX", "5")]);
    let prelude = Prelude::from(nvrtc.precompile("sm_90", &of_arch).unwrap());
    for own in [
        &[][..],
        &[("BLOCK", "64"), ("OF(x)", "((x) + 1)"), ("NOTHING", "")],
        // None of these is the same as a line.
        &[("TWO", "1 +\\\n 2")],
        &[("COMMENT", "a//b")],
        &[("COMMENT", "a/*b*/")],
    ] {
        let defines = [of_arch.clone(), macros(own)].concat();
        let lines = as_lines(&macros(own));
        let behind = super::compile(nvrtc.table, &Unit { target: "sm_90a", ..unit(SCALE, &defines, Some(&prelude)) });
        assert_eq!(behind.unwrap().is_some(), lines.is_some(), "{own:?}");
        let with = code(&nvrtc, &unit(SCALE, &defines, Some(&prelude))).unwrap();
        assert!(with == code(&nvrtc, &unit(SCALE, &defines, None)).unwrap(), "{own:?}");
    }
    // With the architecture's macros otherwise, and without them.
    for other in [macros(&[("ARCH_WAVE_SIZE", "64"), ("ARCH_MATRIX", "5")]), macros(&[("BLOCK", "64")])] {
        assert!(super::compile(nvrtc.table, &unit(SCALE, &other, Some(&prelude))).unwrap().is_none());
    }
    assert_eq!(prelude.refused(), None);
}

#[test]
fn one_that_is_not_read_is_refused_and_a_mistake_is_told_as_without() {
    let test = "one_that_is_not_read_is_refused_and_a_mistake_is_told_as_without";
    let Some(nvrtc) = fake_or_skip(test, true) else { return };
    let of_arch = macros(&[("ARCH_WAVE_SIZE", "32")]);
    let plain = code(&nvrtc, &unit(SCALE, &of_arch, None)).unwrap();
    let wrong = code(&nvrtc, &unit(WRONG, &of_arch, None)).unwrap_err();
    let good = Prelude::from(nvrtc.precompile("sm_90", &of_arch).unwrap());
    assert_eq!(code(&nvrtc, &unit(WRONG, &of_arch, Some(&good))).unwrap_err(), wrong);
    assert_eq!(good.refused(), None, "the mistake is the source's");
    let of_another = nvrtc.precompile("sm_80", &of_arch).unwrap();
    let cannot_be_read = std::fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
    for (form, why) in [(of_another, "do not match"), (Form::File(cannot_be_read, of_arch.clone()), "Catastrophic")] {
        let prelude = Prelude::from(form);
        assert!(code(&nvrtc, &unit(SCALE, &of_arch, Some(&prelude))).unwrap() == plain);
        assert!(prelude.refused().is_some_and(|told| told.contains(why)), "{:?}", prelude.refused());
    }
}

#[test]
fn what_cannot_make_one_says_why_and_leaves_nothing() {
    let test = "what_cannot_make_one_says_why_and_leaves_nothing";
    let (Some(new), Some(old)) = (fake_or_skip(test, true), fake_or_skip(test, false)) else { return };
    let why = |nvrtc: &Rtc, of_arch: &[(&str, &str)]| nvrtc.precompile("sm_90", &macros(of_arch)).err().unwrap();
    assert_eq!(why(&old, &[]), "NVRTC does so since CUDA 12.8");
    let told = why(&new, &[("NO_ROOM", "1")]);
    assert!(told.contains("nvrtcGetPCHCreateStatus") && told.contains("FAKE_NO_PCH"), "{told}");
    // What is made has no name.
    let Form::File(file, _) = new.precompile("sm_90", &[]).unwrap() else { panic!("no other process can read it") };
    let lies = std::fs::read_link(path(&file)).unwrap();
    assert!(lies.to_string_lossy().ends_with("(deleted)"), "{}", lies.display());
    // An older one compiles all the same, and is asked once.
    let code = code(&old, &unit(SCALE, &[], None)).unwrap();
    assert!(String::from_utf8(code).unwrap().contains("scale_f32"));
}

/// With the NVRTC of this machine, in many threads, as a device's pipeline does it.
#[test]
fn code_of_nvrtc_is_the_same_with_and_without() {
    let nvrtc = match open() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return println!("skipped code_of_nvrtc_is_the_same_with_and_without: {error}"),
    };
    let nvrtc = Arc::new(nvrtc);
    let sources: Vec<Source> = ["32", "64", "96", "128", "160", "192", "224", "256"]
        .map(|block| Source::new("scale", SCALE, &[("SCALE_BLOCK", block)]))
        .into_iter()
        .chain([Source::hip(
            "hip",
            "__global__ void k(float *x) { x[threadIdx.x] = sinf(x[blockIdx.x]) * EXTRA; }",
            &[("EXTRA", "2")],
        )])
        .collect();
    for arch in ["sm_80", "sm_90"] {
        let arch = Arch::parse(arch).unwrap();
        let of_arch = macros(&arch.info().defines().iter().map(|(name, value)| (*name, &**value)).collect::<Vec<_>>());
        let prelude = match nvrtc.precompile(arch.name(), &of_arch) {
            Ok(form) => Some(Prelude::from(form)),
            Err(why) => {
                println!("not precompiled for {arch}: {why}");
                None
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let config = Config::default().with_cache_dir(folder.path().to_owned());
        let pipeline = Pipeline::new(arch, Arc::clone(&nvrtc) as Arc<dyn Compiler>, &config);
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = sources.iter().map(|source| scope.spawn(|| pipeline.one(source).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (source, made) in sources.iter().zip(&made) {
            let defines = [of_arch.clone(), source.defines().to_vec()].concat();
            let unit = |prelude| Unit {
                name: source.name(),
                target: arch.name(),
                hip: source.is_hip(),
                ..unit(source.text(), &defines, prelude)
            };
            let plain = code(&nvrtc, &unit(None)).unwrap();
            assert!(plain == made.bytes(), "{source:?} for {arch} by a pipeline");
            if let Some(prelude) = &prelude {
                assert!(plain == code(&nvrtc, &unit(Some(prelude))).unwrap(), "{source:?} for {arch}");
                assert_eq!(prelude.refused(), None, "{source:?} for {arch}");
            }
        }
        assert_eq!(pipeline.cached().len(), sources.len());
        // What NVRTC precompiles is of use to this process alone.
        assert_eq!(std::fs::read_dir(folder.path().join("code")).unwrap().count(), sources.len());
    }
}
