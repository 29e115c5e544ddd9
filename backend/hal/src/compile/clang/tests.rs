use super::*;

#[test]
fn versions_are_read_from_what_vendors_print() {
    assert_eq!(major_version("Debian clang version 22.1.8 (1~deb12u1)"), Some(22));
    assert_eq!(major_version("clang version 20.1.2"), Some(20));
    assert_eq!(major_version("AMD clang version 19.0.0git (https://github.com/RadeonOpenCompute)"), Some(19));
    assert_eq!(major_version("Apple clang version 15.0.0"), Some(15));
    assert_eq!(major_version("gcc (Debian) 12.2"), None);
}

#[test]
fn names_of_sources_become_names_of_files() {
    assert_eq!(file_name("gemm/f32"), "k_gemm_f32.hip");
    assert_eq!(file_name("../-x"), "k_..--x.hip".replace("--", "_-"));
    assert!(file_name(&"long".repeat(100)).len() < 128);
}

/// A program that answers as some clang would.
#[cfg(unix)]
fn fake(folder: &Path, name: &str, version: &str, targets: &str, linker: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\n--version) echo '{version}';;\n--print-targets) echo '{targets}';;\n*) echo '{linker}';;\nesac\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    // A process that another test was starting meanwhile has the file open for writing until it runs its own program.
    let is_busy = |error: std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
    while Command::new(&path).output().is_err_and(is_busy) {}
    path
}

#[cfg(unix)]
#[test]
fn unfit_compilers_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let fake = |name, version, targets, linker| Clang::probe(&fake(folder.path(), name, version, targets, linker));
    let old = fake("a", "clang version 19.1.7", "amdgcn", "/bin/sh").unwrap_err();
    assert!(old.contains("clang 19; 20 or newer is needed") && old.contains("wave32"), "{old}");
    let x86 = fake("b", "clang version 22.1.0", "  x86-64 - 64-bit X86", "/bin/sh").unwrap_err();
    assert_eq!(x86, "clang 22 without the AMDGPU target");
    let linker = fake("c", "clang version 22.1.0", "  amdgcn - AMD GCN GPUs", "no-such-lld").unwrap_err();
    assert_eq!(linker, "clang 22 without lld (package lld-22)");
    let gcc = fake("d", "gcc 12", "", "").unwrap_err();
    assert!(gcc.contains("is not clang"), "{gcc}");
    let good = fake("e", "clang version 22.1.0", "  amdgcn - AMD GCN GPUs", "/bin/sh").unwrap();
    assert_eq!(good.version(), "clang version 22.1.0");
    assert!(good.identity().contains("-ffp-contract=off"), "options are part of the cache's key");
    let missing = Clang::probe(&folder.path().join("none")).unwrap_err();
    assert!(missing.starts_with("cannot be run"), "{missing}");
}

#[test]
fn what_was_refused_is_told_with_its_path() {
    let rejected = [Rejected { path: "/usr/bin/clang-19".into(), reason: "is clang 19".to_owned() }];
    assert!(describe(&rejected).contains("/usr/bin/clang-19 is clang 19"));
    assert!(describe(&[]).contains("clang-22"));
}

/// The machine's clang behind a program that dies of a signal unless told how slots of the stack are given out.
#[cfg(unix)]
#[test]
fn a_compiler_that_crashes_is_asked_again_and_one_that_always_does_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let Ok(clang) = find() else {
        println!("skipped a_compiler_that_crashes_is_asked_again: no clang");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let crashing = |name: &str, unless: &str| {
        let path = folder.path().join(name);
        let answers = format!("case \"$*\" in {unless}) exec '{}' \"$@\";; esac", clang.path().display());
        // As clang's driver ends when its front end has died: a plain exit code, and this text.
        let crash = "echo 'PLEASE submit a bug report' >&2; exit 139";
        let count = format!("echo \"$*\" >> '{}.calls'", path.display());
        // The driver is all that is asked here: it does not tell what it would run.
        let closed = "case \"$*\" in *-###*) exit 1;; esac";
        fs::write(&path, format!("#!/bin/sh\n{closed}\n{count}\n{answers}\n{crash}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Clang { path, ..clang.clone() }
    };
    let defines: Vec<_> = rocfire_arch::Arch::parse("gfx942").unwrap().info().defines().into_iter().collect();
    let defines: Vec<_> = defines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let text = include_str!("../../../tests/kernels/scale.hip");
    let unit = Unit {
        name: "scale",
        text,
        target: "gfx942",
        defines: &defines,
        flags: &[],
        hip: false,
        line_tables: false,
        prelude: None,
    };
    let calls = |clang: &Clang| fs::read_to_string(format!("{}.calls", clang.path.display())).unwrap().lines().count();

    let once = crashing("once", "*-no-stack-slot-sharing*");
    let code = once.compile(&unit, &mut || {}).ok().expect("the second try compiles");
    assert_eq!(crate::compile::CodeObject::parse("scale", code).unwrap().kernels().len(), 2);
    assert_eq!(calls(&once), 2);

    let always = crashing("always", "nothing");
    let Err(Failure::Diagnostics(log)) = always.compile(&unit, &mut || {}) else { panic!("no code was made") };
    assert!(log.contains("PLEASE submit a bug report"), "{log}");
    assert_eq!(calls(&always), 2, "it is asked twice, not for ever");

    // A mistake in the source is no crash.
    let wrong = crashing("wrong", "*");
    let Err(Failure::Diagnostics(log)) = wrong.compile(&Unit { text: "#error here", ..unit }, &mut || {}) else {
        panic!("the source is wrong")
    };
    assert!(log.contains("here") && calls(&wrong) == 1, "{log}");
}
