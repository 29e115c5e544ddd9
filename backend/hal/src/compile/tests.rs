use std::sync::atomic::AtomicU32;

use super::*;

/// A compiler that knows one target, counts, and gives a code object made beforehand.
struct Fake {
    target: &'static str,
    calls: AtomicU32,
    outcome: fn() -> Result<Vec<u8>, Failure>,
}

impl Compiler for Fake {
    fn identity(&self) -> &str {
        "fake 1"
    }

    fn compile(&self, unit: &Unit<'_>, tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        tick();
        if unit.target != self.target {
            return Err(Failure::UnknownTarget);
        }
        assert!(unit.defines.iter().any(|(name, _)| name == "ARCH_WAVE_SIZE"));
        (self.outcome)()
    }
}

const SCALE: &str = include_str!("../../tests/kernels/scale.hip");

fn arch(name: &str) -> Arch {
    Arch::parse(name).unwrap()
}

/// The machine's clang; without one the test says that it was skipped.
fn clang_or_skip(test: &str) -> Option<&'static Clang> {
    let clang = clang();
    if let Err(rejected) = clang {
        println!("skipped {test}: {}", describe_rejected(rejected));
    }
    clang.ok()
}

fn config(folder: &tempfile::TempDir) -> Config {
    Config::default().with_cache_dir(folder.path().to_owned())
}

fn fake(target: &'static str, outcome: fn() -> Result<Vec<u8>, Failure>) -> Arc<Fake> {
    Arc::new(Fake { target, calls: AtomicU32::new(0), outcome })
}

#[test]
fn an_unknown_architecture_is_tried_as_its_generic_target_then_refused_with_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let never = || Err(Failure::Diagnostics("reached".to_owned()));
    let source = Source::new("scale", SCALE, &[]);
    let generic = fake("gfx11-generic", never);
    let pipeline = Pipeline::new(arch("gfx1153"), Arc::clone(&generic) as Arc<dyn Compiler>, &config(&folder));
    assert!(pipeline.one(&source).unwrap_err().to_string().ends_with("reached"));
    assert_eq!(generic.calls.load(Ordering::Relaxed), 2);
    let none = fake("gfx1", never);
    let refused = |name| {
        let pipeline = Pipeline::new(arch(name), Arc::clone(&none) as Arc<dyn Compiler>, &config(&folder));
        pipeline.one(&source).unwrap_err().to_string()
    };
    assert_eq!(refused("gfx1153"), "fake 1 can compile neither for gfx1153 nor for gfx11-generic");
    assert!(refused("gfx90a").contains("neither for gfx90a nor for a generic target"));
}

#[test]
fn garbage_from_a_compiler_is_an_error_and_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = fake("gfx942", || Ok(b"not an ELF file".to_vec()));
    let pipeline = Pipeline::new(arch("gfx942"), Arc::clone(&compiler) as Arc<dyn Compiler>, &config(&folder));
    for calls in 1..3 {
        let error = pipeline.one(&Source::new("scale", SCALE, &[])).unwrap_err();
        assert!(matches!(error, Error::CodeObject { .. }), "{error}");
        assert_eq!(compiler.calls.load(Ordering::Relaxed), calls);
    }
}

#[test]
fn clang_compiles_behind_the_prelude_and_the_metadata_is_read() {
    let Some(clang) = clang_or_skip("clang_compiles_behind_the_prelude_and_the_metadata_is_read") else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["gfx90a", "gfx942", "gfx1100"] {
        let pipeline = Pipeline::new(arch(name), Arc::new(clang.clone()), &config(&folder));
        let code = pipeline.one(&Source::new("scale", SCALE, &[("SCALE_BLOCK", "128")])).unwrap();
        let kernel = code.kernels().iter().find(|kernel| kernel.name == "scale_f32").unwrap();
        assert_eq!(kernel.explicit_kernarg_bytes, 24);
        assert_eq!(kernel.max_workgroup_threads, 128);
        assert_eq!(kernel.wave_size, arch(name).info().wave_size);
        assert!(kernel.vgprs > 0 && kernel.spilled_vgprs == 0 && kernel.kernarg_bytes >= 24);
    }
}

#[test]
fn clang_takes_the_generic_target_for_a_processor_it_does_not_know() {
    let Some(clang) = clang_or_skip("clang_takes_the_generic_target_for_a_processor_it_does_not_know") else { return };
    let defines: Vec<_> =
        arch("gfx1100").info().defines().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let compile = |target| {
        let unit = Unit {
            name: "scale",
            text: SCALE,
            target,
            defines: &defines,
            flags: &[],
            hip: false,
            line_tables: false,
            prelude: None,
        };
        clang.compile(&unit, &mut || {})
    };
    assert!(matches!(compile("gfx1199"), Err(Failure::UnknownTarget)));
    let code = compile("gfx11-generic").ok().unwrap();
    assert_eq!(CodeObject::parse("scale", code).unwrap().kernels().len(), 2);
}

#[test]
fn the_kernels_of_all_objects_that_were_linked_are_known() {
    let Some(clang) = clang_or_skip("the_kernels_of_all_objects_that_were_linked_are_known") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let done = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let clang = || std::process::Command::new(clang.path());
    for kernel in ["first", "second"] {
        std::fs::write(file(kernel), format!("kernel void {kernel}(global int *to) {{ *to = 1; }}")).unwrap();
        let target = ["-x", "cl", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib", "-c"];
        done(clang().args(target).arg(file(kernel)).arg("-o").arg(file(&format!("{kernel}.o"))));
    }
    let linker = done(clang().arg("-print-prog-name=ld.lld"));
    let objects = ["first.o", "second.o"].map(file);
    done(std::process::Command::new(linker).arg("-shared").args(objects).arg("-o").arg(file("both.co")));
    let code = CodeObject::parse("both", std::fs::read(file("both.co")).unwrap()).unwrap();
    let names: Vec<&str> = code.kernels().iter().map(|kernel| &*kernel.name).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn flags_reach_the_compiler_and_the_key() {
    let Some(clang) = clang_or_skip("flags_reach_the_compiler_and_the_key") else { return };
    let folder = tempfile::tempdir().unwrap();
    let pipeline = Pipeline::new(arch("gfx1100"), Arc::new(clang.clone()), &config(&folder));
    let source = Source::new("scale", SCALE, &[("SCALE_BLOCK", "128")]);
    let wide = source.clone().with_flags(&["-mwavefrontsize64"]);
    assert_ne!(source.hash(), wide.hash());
    assert_eq!(pipeline.one(&source).unwrap().kernels()[0].wave_size, 32);
    assert_eq!(pipeline.one(&wide).unwrap().kernels()[0].wave_size, 64);
    assert_eq!(pipeline.compiled(), 2);
}

#[test]
fn line_tables_leave_the_code_as_it_is() {
    let Some(clang) = clang_or_skip("line_tables_leave_the_code_as_it_is") else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = Source::new("scale", SCALE, &[]);
    let pipeline = Pipeline::new(arch("gfx1100"), Arc::new(clang.clone()), &config(&folder));
    let (plain, lines) = (pipeline.one(&source).unwrap(), pipeline.with_lines(&source).unwrap());
    assert_eq!(pipeline.compiled(), 2, "each has its own key");
    let (plain, lines) = (plain.bytes(), lines.bytes());
    let section = |code: &[u8], name: &str| {
        use object::{Object as _, ObjectSection as _};
        let file = object::File::parse(code).unwrap();
        file.section_by_name(name).map(|section| section.data().unwrap().to_vec())
    };
    assert!(section(plain, ".debug_line").is_none() && section(lines, ".debug_line").is_some());
    assert_eq!(section(plain, ".text").unwrap(), section(lines, ".text").unwrap());
}

#[test]
fn a_failed_compile_gives_the_compilers_log() {
    let Some(clang) = clang_or_skip("a_failed_compile_gives_the_compilers_log") else { return };
    let folder = tempfile::tempdir().unwrap();
    let pipeline = Pipeline::new(arch("gfx942"), Arc::new(clang.clone()), &config(&folder));
    let error = pipeline.one(&Source::new("broken", "int x = undeclared_thing;", &[])).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("broken did not compile for gfx942:") && message.contains("undeclared_thing"),
        "{message}"
    );
}

#[test]
fn a_second_process_compiles_nothing_and_a_damaged_file_is_compiled_again() {
    let Some(clang) = clang_or_skip("a_second_process_compiles_nothing") else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = Source::new("scale", SCALE, &[]);
    let code = Pipeline::new(arch("gfx942"), Arc::new(clang.clone()), &config(&folder)).one(&source).unwrap();
    // A compiler of the same identity that fails shows that the second process does not ask it.
    struct Same(String);
    impl Compiler for Same {
        fn identity(&self) -> &str {
            &self.0
        }
        fn compile(&self, _unit: &Unit<'_>, _tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
            Err(Failure::Diagnostics("asked".to_owned()))
        }
    }
    let same: Arc<dyn Compiler> = Arc::new(Same(clang.identity().to_owned()));
    let second =
        |source: &Source, config: &Config| Pipeline::new(arch("gfx942"), Arc::clone(&same), config).one(source);
    assert_eq!(second(&source, &config(&folder)).unwrap().bytes(), code.bytes());
    // Whatever goes into the code is part of the key.
    for other in [
        Source::new("scale", SCALE, &[("SCALE_BLOCK", "512")]),
        Source::new("scale", format!("{SCALE}\n"), &[]),
        Source::new("scale2", SCALE, &[]),
    ] {
        assert!(second(&other, &config(&folder)).is_err(), "{other:?}");
    }
    assert!(second(&source, &config(&folder).with_matrix(false)).is_err());
    for file in std::fs::read_dir(code_folder(&config(&folder))).unwrap() {
        std::fs::write(file.unwrap().path(), b"rocfire1 damaged").unwrap();
    }
    assert!(second(&source, &config(&folder)).is_err());
    let again = Pipeline::new(arch("gfx942"), Arc::new(clang.clone()), &config(&folder)).one(&source).unwrap();
    assert_eq!(again.bytes(), code.bytes());
}

#[test]
fn jobs_are_limited_by_cores_and_memory_and_never_none() {
    assert_eq!(limit_jobs(None, 8, None), 8);
    assert_eq!(limit_jobs(Some(3), 8, Some(1 << 40)), 3);
    assert_eq!(limit_jobs(Some(100), 8, Some(1 << 40)), 8);
    assert_eq!(limit_jobs(Some(100), 64, Some(8 * JOB_BYTES)), 4);
    assert_eq!(limit_jobs(None, 64, Some(0)), 1);
    assert!(available_memory_bytes().is_none_or(|bytes| bytes > 0));
}

#[test]
fn many_are_compiled_in_their_order_and_each_has_its_own_outcome() {
    let Some(_) = clang_or_skip("many_are_compiled_in_their_order_and_each_has_its_own_outcome") else { return };
    let folder = tempfile::tempdir().unwrap();
    let sources: Vec<Source> = (1..=4)
        .map(|n| match n {
            3 => Source::new("broken", "#error here", &[]),
            n => Source::new("scale", SCALE, &[("SCALE_BLOCK", &(n * 64).to_string())]),
        })
        .collect();
    let codes = compile_many(arch("gfx942"), &sources, &config(&folder)).unwrap();
    for (n, code) in codes.into_iter().enumerate() {
        match code {
            Ok(code) => assert_eq!(code.kernels()[0].max_workgroup_threads, (n as u32 + 1) * 64),
            Err(error) => assert!(n == 2 && matches!(error, Error::Compile { .. }), "{n}: {error}"),
        }
    }
}

#[test]
fn a_slow_compile_is_told_of_while_it_runs_and_when_it_ends() {
    struct Slow;
    impl Compiler for Slow {
        fn identity(&self) -> &str {
            "slow"
        }
        fn compile(&self, _unit: &Unit<'_>, tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
            for _ in 0..11 {
                std::thread::sleep(Duration::from_millis(100));
                tick();
            }
            Err(Failure::Diagnostics(String::new()))
        }
    }
    static TOLD: Mutex<Vec<SlowCompile>> = Mutex::new(Vec::new());
    on_slow_compile(|slow| TOLD.lock().unwrap().push(slow.clone()));
    let folder = tempfile::tempdir().unwrap();
    let pipeline = Pipeline::new(arch("gfx942"), Arc::new(Slow), &config(&folder));
    assert!(pipeline.one(&Source::new("a_slow_one", "", &[])).is_err());
    let told: Vec<SlowCompile> =
        TOLD.lock().unwrap().iter().filter(|slow| slow.name == "a_slow_one").cloned().collect();
    assert_eq!(told.iter().map(|slow| slow.done).collect::<Vec<_>>(), [false, true]);
    assert!(told.iter().all(|slow| slow.elapsed >= SLOW));
}

#[test]
fn hash_of_a_source_tells_apart_what_only_looks_the_same_when_joined() {
    let one = Source::new("a", "bc", &[("x", "yz")]);
    for other in
        [Source::new("ab", "c", &[("x", "yz")]), Source::new("a", "bc", &[("xy", "z")]), Source::new("a", "bc", &[])]
    {
        assert_ne!(one.hash(), other.hash(), "{other:?}");
    }
    assert_eq!(one.hash(), Source::new("a", "bc".to_owned(), &[("x", "yz")]).hash());
}
