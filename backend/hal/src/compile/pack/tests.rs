use std::fs;

use super::*;
use crate::compile::{Compiler, Failure, Pipeline, Source, Unit, clang};

const SCALE: &str = include_str!("../../../tests/kernels/scale.hip");

fn arch(name: &str) -> Arch {
    Arch::parse(name).unwrap()
}

fn source(n: u32) -> Source {
    Source::new("scale", SCALE, &[("SCALE_BLOCK", &(64 * n).to_string())])
}

/// Code that is told from others by its bytes; long enough that zstd leaves more than a header.
fn code(n: u8) -> Vec<u8> {
    let mut code = vec![0; 3000];
    blake3::Hasher::new().update(&[n]).finalize_xof().fill(&mut code);
    code
}

/// A pack of three entries for two architectures, written without a compiler.
fn made(folder: &Path) -> PathBuf {
    let path = folder.join("made.rocpack");
    let mut maker = PackMaker::new(&Config::default());
    for (n, name) in [(1, "gfx942"), (2, "gfx942"), (3, "gfx1100")] {
        maker.add(arch(name), "fake 1", &[n; 32], &code(n)).unwrap();
    }
    assert_eq!(maker.write(&path).unwrap(), fs::metadata(&path).unwrap().len());
    path
}

fn key(name: &str, n: u8) -> Hash {
    contract(arch(name), &crate::compile::arch_defines(arch(name), true)).update(&[n; 32]).finalize()
}

fn reason(path: &Path) -> String {
    match Pack::open(path).and_then(|pack| pack.verify()) {
        Err(Error::Pack { path: named, reason }) if named == path => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn what_was_packed_is_found_by_its_key_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let pack = Pack::open(&path).unwrap();
    pack.verify().unwrap();
    assert_eq!((pack.path(), pack.bytes()), (&*path, fs::metadata(&path).unwrap().len()));
    for (name, n) in [("gfx942", 1), ("gfx942", 2), ("gfx1100", 3)] {
        assert_eq!(pack.read(&key(name, n)).unwrap().unwrap(), code(n));
    }
    for (name, n) in [("gfx1100", 1), ("gfx942", 3), ("gfx90a", 1), ("gfx942", 4)] {
        assert!(pack.read(&key(name, n)).unwrap().is_none(), "{name} {n}");
    }
    let packed: Vec<_> = pack.packed().iter().map(|packed| (&*packed.arch, packed.kernels)).collect();
    assert_eq!(packed, [("gfx942", 2), ("gfx1100", 1)]);
    assert_eq!(pack.packed()[0].compilers, ["fake 1"]);
}

#[test]
fn a_kernel_without_the_matrix_unit_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut maker = PackMaker::new(&Config::default().with_matrix(false));
    maker.add(arch("gfx942"), "fake 1", &[1; 32], &code(1)).unwrap();
    let path = folder.path().join("plain.rocpack");
    maker.write(&path).unwrap();
    assert!(Pack::open(&path).unwrap().read(&key("gfx942", 1)).unwrap().is_none());
}

#[test]
fn every_byte_that_is_changed_is_noticed_and_the_pack_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let whole = fs::read(&path).unwrap();
    let mut reasons = std::collections::BTreeSet::new();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).unwrap();
        let reason = reason(&path);
        reasons.insert(reason.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default().to_owned());
    }
    // Of the magic, of the format, of the counts, of the head, of an entry.
    for part in ["not a kernel pack", "its format is", "damaged: its head is not", "damaged: bytes"] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "{part}: {reasons:?}");
    }
}

#[test]
fn a_pack_of_another_length_is_refused_whatever_the_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(13).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..length]).unwrap();
        let reason = reason(&path);
        assert!(reason.contains("not a kernel pack") || reason.contains("damaged"), "{length}: {reason}");
    }
    fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
    assert!(reason(&path).contains("bytes long"));
    assert!(reason(&folder.path().join("none.rocpack")).contains("cannot be opened"));
    fs::create_dir(folder.path().join("folder.rocpack")).unwrap();
    assert!(!reason(&folder.path().join("folder.rocpack")).is_empty());
}

/// The pack with a word of its description changed, signed anew as whoever made it would have.
fn described(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len(), "lengths stand in the head");
    let mut bytes = fs::read(path).unwrap();
    let start = FIXED_BYTES + HASH_BYTES;
    let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (description, end) = (length(12), start + length(12) + length(16) * INDEX_BYTES);
    let text = String::from_utf8(bytes[start..start + description].to_vec()).unwrap();
    assert!(text.contains(from), "{text}");
    bytes[start..start + description].copy_from_slice(text.replacen(from, to, 1).as_bytes());
    let hash = blake3::Hasher::new().update(&bytes[..FIXED_BYTES]).update(&bytes[start..end]).finalize();
    bytes[FIXED_BYTES..start].copy_from_slice(hash.as_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn packs_of_another_version_prelude_or_architecture_are_refused_though_nothing_is_damaged() {
    let here = env!("CARGO_PKG_VERSION");
    let other = here.replace(|c: char| c.is_ascii_digit(), "9");
    let prelude = Hash::from_bytes(rocfire_prelude::hash()).to_hex();
    let of_942 = contract(arch("gfx942"), &crate::compile::arch_defines(arch("gfx942"), true)).finalize().to_hex();
    for (from, to, expected) in [
        (here, &*other, "made by rocfire 9"),
        (&*prelude, &"0".repeat(64), "another prelude"),
        (&*of_942, &"1".repeat(64), "kernels of gfx942 were compiled for other facts"),
        ("gfx1100", "gfx1999", "gfx1999, which is not known"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = made(folder.path());
        described(&path, from, to);
        let reason = reason(&path);
        assert!(reason.contains(expected), "{reason}");
    }
}

/// A compiler that is not there.
fn none(arch: Arch) -> crate::compile::Find {
    Box::new(move || Err(Error::NoCompiler { arch, searched: "everywhere".to_owned() }))
}

/// A pack of the machine's clang, and the code that is in it; without one the test says that it was skipped.
fn by_clang(test: &str, folder: &tempfile::TempDir) -> Option<(PathBuf, Vec<u8>)> {
    if clang().is_err() {
        println!("skipped {test}: no clang");
        return None;
    }
    let config = Config::default().with_cache_dir(folder.path().join("cache"));
    let mut maker = PackMaker::new(&config);
    let told = Mutex::new(Vec::new());
    let failures = maker.compile(arch("gfx942"), &[source(1)], &|name| told.lock().unwrap().push(name.to_owned()));
    assert!(failures.unwrap().is_empty());
    assert_eq!(told.into_inner().unwrap(), ["scale"]);
    let path = folder.path().join("clang.rocpack");
    maker.write(&path).unwrap();
    let code = Pipeline::new(arch("gfx942"), Arc::new(clang().unwrap().clone()), &config).one(&source(1)).unwrap();
    Some((path, code.bytes().to_vec()))
}

fn without_compiler(folder: &tempfile::TempDir, packs: Vec<PathBuf>) -> Pipeline {
    let config = Config::default().with_cache_dir(folder.path().join("empty")).with_packs(packs);
    Pipeline::finding(arch("gfx942"), none(arch("gfx942")), &config)
}

#[test]
fn with_a_pack_no_compiler_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some((path, code)) = by_clang("with_a_pack_no_compiler_is_looked_for", &folder) else { return };
    let pipeline = without_compiler(&folder, vec![path.clone()]);
    assert_eq!(pipeline.one(&source(1)).unwrap().bytes(), code);
    let stats = pipeline.stats();
    assert_eq!((stats.packed, stats.cached, stats.compiled), (1, 0, 0));
    let message = pipeline.one(&source(2)).unwrap_err().to_string();
    assert_eq!(message, "no compiler for gfx942: everywhere");
    assert!(!folder.path().join("empty").exists(), "what comes from a pack is not written to the cache");
}

#[test]
fn a_damaged_entry_is_an_error_with_its_file_or_compiled_where_there_is_a_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let Some((path, code)) = by_clang("a_damaged_entry_is_an_error_with_its_file", &folder) else { return };
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = without_compiler(&folder, vec![path.clone()]).one(&source(1)).unwrap_err();
    assert!(matches!(&error, Error::Pack { path: named, .. } if *named == path), "{error}");
    let config = Config::default().with_cache_dir(folder.path().join("empty")).with_packs(vec![path]);
    let pipeline = Pipeline::new(arch("gfx942"), Arc::new(clang().unwrap().clone()), &config);
    assert_eq!(pipeline.one(&source(1)).unwrap().bytes(), code);
    assert_eq!((pipeline.stats().packed, pipeline.stats().compiled), (0, 1));
}

#[test]
fn a_pack_that_is_refused_is_named_where_no_compiler_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.rocpack");
    fs::write(&path, "this is something else, and long enough to have a head, if it were one at all").unwrap();
    let message = without_compiler(&folder, vec![path.clone()]).one(&source(1)).unwrap_err().to_string();
    assert!(message.starts_with("no compiler for gfx942: everywhere; kernel pack "), "{message}");
    assert!(message.contains(&*path.to_string_lossy()) && message.contains("not a kernel pack"), "{message}");
}

#[test]
fn what_programs_left_in_the_cache_can_be_packed_but_not_what_others_left() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_, code)) = by_clang("what_programs_left_in_the_cache_can_be_packed", &folder) else { return };
    /// What wrote the cache before the compiler was another.
    struct Older;
    impl Compiler for Older {
        fn identity(&self) -> &str {
            "older"
        }
        fn compile(&self, unit: &Unit<'_>, tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure> {
            clang().unwrap().compile(unit, tick)
        }
    }
    let config = Config::default().with_cache_dir(folder.path().join("cache"));
    Pipeline::new(arch("gfx942"), Arc::new(Older), &config).one(&source(2)).unwrap();
    Pipeline::new(arch("gfx942"), Arc::new(clang().unwrap().clone()), &config).with_lines(&source(3)).unwrap();
    Pipeline::new(arch("gfx1100"), Arc::new(clang().unwrap().clone()), &config).one(&source(4)).unwrap();
    let mut maker = PackMaker::new(&config);
    assert_eq!(maker.add_cached(arch("gfx942")).unwrap(), 1);
    let path = folder.path().join("cached.rocpack");
    maker.write(&path).unwrap();
    let pipeline = without_compiler(&folder, vec![path]);
    assert_eq!(pipeline.one(&source(1)).unwrap().bytes(), code);
    assert!((2..5).all(|n| pipeline.one(&source(n)).is_err()));
}

#[test]
fn packs_are_looked_into_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, code: &[u8]| {
        let mut maker = PackMaker::new(&Config::default());
        maker.add(arch("gfx942"), "fake 1", source(1).hash(), code).unwrap();
        let path = folder.path().join(name);
        maker.write(&path).unwrap();
        path
    };
    let Some((good, code)) = by_clang("packs_are_looked_into_in_their_order", &folder) else { return };
    let garbage = write("garbage.rocpack", b"not an ELF file");
    let first = without_compiler(&folder, vec![good.clone(), garbage.clone()]);
    assert_eq!(first.one(&source(1)).unwrap().bytes(), code);
    // What is no code object is passed over as what is damaged.
    assert_eq!(without_compiler(&folder, vec![garbage.clone(), good]).one(&source(1)).unwrap().bytes(), code);
    assert!(matches!(without_compiler(&folder, vec![garbage]).one(&source(1)), Err(Error::CodeObject { .. })));
}
