use std::path::Path;

use super::super::{Clang, Compiler, Config, Failure, Pipeline, Unit, arch_defines, clang, describe_rejected};
use super::*;
use rocfire_arch::Arch;

const SCALE: &str = include_str!("../../../tests/kernels/scale.hip");
/// Uses what the prelude has more of than one function.
const MUCH: &str = "extern \"C\" __global__ __launch_bounds__(ARCH_WAVE_SIZE) void much(float *x, rf::f16 *y) {\n\
    unsigned i = rf::group_x() * ARCH_WAVE_SIZE + rf::thread_x();\n\
    x[i] = rf::exp(rf::sin(x[i])) + rf::wave_reduce(x[i], rf::Sum()) + SHIFT;\n    y[i] = rf::cast<rf::f16>(rf::tanh(x[i]));\n}\n";

fn cache(folder: &Path) -> Cache {
    Cache::new(folder.to_owned(), 1 << 30)
}

fn key() -> Hash {
    blake3::hash(b"key")
}

/// The machine's clang; without one the test says that it was skipped.
fn clang_or_skip(test: &str) -> Option<&'static Clang> {
    let clang = clang();
    if let Err(rejected) = clang {
        println!("skipped {test}: {}", describe_rejected(rejected));
    }
    clang.ok()
}

#[test]
fn the_second_compile_makes_it_and_the_next_process_has_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let first = Precompiled::new(Level::Off);
    assert!(first.get(&cache, &key(), false, || unreachable!("one compile is not worth it")).is_none());
    for _ in 0..2 {
        let made = first.get(&cache, &key(), false, || Ok(Form::Bytes(b"made".to_vec()))).unwrap();
        assert_eq!(made.bytes(), Some(&b"made"[..]));
    }
    let second = Precompiled::new(Level::Off);
    assert_eq!(second.get(&cache, &key(), false, || unreachable!("it is kept")).unwrap().bytes(), Some(&b"made"[..]));
    // One that is damaged is made again, one that cannot be made is not asked for twice.
    for file in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::write(file.unwrap().path(), b"rocfire3 damaged").unwrap();
    }
    let third = Precompiled::new(Level::Off);
    assert!(third.get(&cache, &key(), false, || unreachable!("one compile is not worth it")).is_none());
    assert!(third.get(&cache, &key(), false, || Err("it cannot".to_owned())).is_none());
    assert!(third.get(&cache, &key(), false, || unreachable!("it could not be made")).is_none());
}

#[test]
fn many_threads_make_it_once_and_do_not_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, made) = (cache(folder.path()), AtomicU32::new(0));
    let precompiled = Precompiled::new(Level::Off);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        // Whoever asks meanwhile goes without; waiting for the lock that is held here would never end.
                        let other = std::thread::scope(|inner| {
                            let ask = || {
                                precompiled.get(&cache, &key(), false, || unreachable!("another makes it")).is_none()
                            };
                            inner.spawn(ask).join().unwrap()
                        });
                        assert!(other);
                        Ok(Form::Bytes(b"made".to_vec()))
                    };
                    if let Some(prelude) = precompiled.get(&cache, &key(), false, make) {
                        assert_eq!(prelude.bytes(), Some(&b"made"[..]));
                    }
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn where_sources_are_read_one_at_a_time_the_others_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, made) = (cache(folder.path()), AtomicU32::new(0));
    let precompiled = Precompiled::new(Level::Off);
    let (making, asked) = (std::sync::Barrier::new(2), AtomicU32::new(0));
    let make = || -> Result<Form, String> {
        made.fetch_add(1, Ordering::Relaxed);
        making.wait();
        // Time for the other to come; it must get what is made here, however late it comes.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(asked.load(Ordering::Relaxed), 0, "nobody is answered before it is made");
        Ok(Form::File(tempfile::tempfile().unwrap(), Vec::new()))
    };
    assert!(precompiled.get(&cache, &key(), true, || unreachable!("one compile is not worth it")).is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(precompiled.get(&cache, &key(), true, make).is_some()));
        making.wait();
        let other = precompiled.get(&cache, &key(), true, || unreachable!("another makes it")).unwrap();
        asked.store(1, Ordering::Relaxed);
        assert_eq!(other.bytes(), None);
    });
    assert_eq!(made.into_inner(), 1);
    // No other process could read it.
    assert!(cache.read(&key()).is_none());
}

#[test]
fn processes_that_make_it_at_once_leave_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (cache, process) = (cache(folder.path()), Precompiled::new(Level::Off));
                while process.get(&cache, &key(), false, || Ok(Form::Bytes(bytes.clone()))).is_none() {}
            });
        }
    });
    assert!(cache(folder.path()).read(&key()).unwrap() == bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn one_that_is_refused_is_forgotten_and_not_made_again_by_this_process() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let precompiled = Precompiled::new(Level::Off);
    assert!(precompiled.get(&cache, &key(), false, || Err("it cannot".to_owned())).is_none());
    precompiled.get(&cache, &key(), false, || Ok(Form::Bytes(b"stale".to_vec()))).unwrap().refuse("it is stale");
    assert!(precompiled.get(&cache, &key(), false, || unreachable!("it was refused")).is_none());
    assert!(cache.read(&key()).is_none());
}

#[test]
fn a_folder_that_cannot_be_written_and_a_cache_that_keeps_nothing_do_without_it_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    std::fs::write(&file, b"").unwrap();
    for cache in [cache(&file), Cache::new(folder.path().join("none"), 0)] {
        let precompiled = Precompiled::new(Level::Off);
        assert!(precompiled.get(&cache, &key(), false, || unreachable!("one compile is not worth it")).is_none());
        assert_eq!(
            precompiled.get(&cache, &key(), false, || Ok(Form::Bytes(b"made".to_vec()))).unwrap().bytes(),
            Some(&b"made"[..])
        );
    }
    assert!(!folder.path().join("none").exists());
}

#[test]
fn sources_that_could_change_the_prelude_do_not_get_it() {
    let arch_defines = [("ARCH_PACKED_F32".to_owned(), "1".to_owned())];
    let fits = |defines: &[(&str, &str)]| fits(&Source::new("scale", SCALE, defines), &arch_defines);
    assert!(fits(&[]) && fits(&[("SCALE_BLOCK", "64"), ("SCALE_OF(x)", "x")]));
    for (name, why) in [
        ("RF_HOST", "the prelude asks for it"),
        ("inline", "the prelude says it"),
        ("cast(x)", "the prelude says it"),
        ("ARCH_PACKED_F32", "it is the architecture's"),
        ("", "it is no name"),
    ] {
        assert!(!fits(&[(name, "1")]), "{name}: {why}");
    }
    assert!(!super::fits(&Source::new("scale", SCALE, &[]).with_flags(&["-O0"]), &arch_defines));
}

/// Compiles as the driver does, front end and linker of their own, and behind the precompiled prelude.
#[test]
fn code_is_the_same_with_and_without() {
    let Some(clang) = clang_or_skip("code_is_the_same_with_and_without") else { return };
    for (arch, matrix) in [("gfx90a", true), ("gfx942", true), ("gfx942", false), ("gfx1030", true), ("gfx1200", true)]
    {
        let arch = Arch::parse(arch).unwrap();
        let of_arch = arch_defines(arch, matrix);
        let prelude = Prelude::from(clang.precompile(arch.name(), &of_arch).expect("clang precompiles the prelude"));
        let sources = [
            Source::new("scale", SCALE, &[("SCALE_BLOCK", "128")]),
            Source::new("much/of it", MUCH, &[("SHIFT", "(1.0f + 2)")]),
            Source::hip(
                "hip",
                "__global__ void k(float *x) { x[threadIdx.x] = sinf(x[blockIdx.x]); }",
                &[("EXTRA", "1")],
            ),
        ];
        for source in sources {
            assert!(fits(&source, &of_arch));
            let defines: Vec<_> = of_arch.iter().chain(source.defines()).cloned().collect();
            let compile = |flags: &[String], prelude| {
                let (name, text, target) = (source.name(), source.text(), arch.name());
                let hip = source.is_hip();
                let unit = Unit { name, text, target, defines: &defines, flags, hip, line_tables: false, prelude };
                match clang.compile(&unit, &mut || {}) {
                    Ok(code) => code,
                    Err(Failure::Diagnostics(log)) => panic!("{source:?} for {arch}: {log}"),
                    Err(_) => panic!("{source:?} for {arch}"),
                }
            };
            // A flag that says what is so anyway leaves it to the driver.
            let by_driver = compile(&["-O3".to_owned()], None);
            assert!(by_driver == compile(&[], None), "{source:?} for {arch} without the driver");
            assert!(by_driver == compile(&[], Some(&prelude)), "{source:?} for {arch} behind the precompiled prelude");
        }
        assert_eq!(prelude.refused(), None);
    }
}

#[test]
fn a_stale_one_is_no_error_and_a_mistake_is_told_as_without() {
    let Some(clang) = clang_or_skip("a_stale_one_is_no_error_and_a_mistake_is_told_as_without") else { return };
    let of_arch = arch_defines(Arch::parse("gfx942").unwrap(), true);
    let compile = |text, prelude: Option<&Prelude>| {
        let (name, target, defines) = ("scale", "gfx942", &of_arch);
        let unit = Unit { name, text, target, defines, flags: &[], hip: false, line_tables: false, prelude };
        clang.compile(&unit, &mut || {})
    };
    let plain = compile(SCALE, None).ok().unwrap();
    let of_another = clang.precompile("gfx1100", &arch_defines(Arch::parse("gfx1100").unwrap(), true)).unwrap();
    for form in [Form::Bytes(b"no header".to_vec()), Form::Bytes(Vec::new()), of_another] {
        let prelude = Prelude::from(form);
        assert!(compile(SCALE, Some(&prelude)).ok().unwrap() == plain);
        assert!(prelude.refused().is_some());
    }
    let good = Prelude::from(clang.precompile("gfx942", &of_arch).unwrap());
    let told = |prelude| match compile("void f() { rf::no_such_name(); }", prelude) {
        Err(Failure::Diagnostics(log)) => log,
        _ => panic!("it does not compile"),
    };
    assert_eq!(told(Some(&good)), told(None));
    assert!(good.refused().is_none(), "the mistake is the source's");
}

#[test]
fn a_pipeline_keeps_one_beside_its_code_objects_and_packs_do_not_take_it() {
    let Some(clang) = clang_or_skip("a_pipeline_keeps_one_beside_its_code_objects") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = Config::default().with_cache_dir(folder.path().to_owned());
    let pipeline = Pipeline::new(Arch::parse("gfx942").unwrap(), Arc::new(clang.clone()), &config);
    for block in ["64", "128", "256"] {
        pipeline.one(&Source::new("scale", SCALE, &[("SCALE_BLOCK", block)])).unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path().join("code")).unwrap().count(), 4);
    assert_eq!(pipeline.cached().len(), 3);
}
