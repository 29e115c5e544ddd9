//! `rocfire prebuild` as a user runs it, and a program that runs from a pack with no compiler in reach.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a command of a copy of the program, with this cache, and packs and a PATH where they are given.
fn run(program: &Path, arguments: &[&str], cache: &Path, packs: Option<&Path>, path: Option<&Path>) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("ROCFIRE_DEVICE", "emulated:gfx942").env("ROCFIRE_CACHE_DIR", cache);
    command.env_remove("ROCFIRE_PACKS").env_remove("ROCFIRE_MATRIX");
    packs.map(|packs| command.env("ROCFIRE_PACKS", packs));
    path.map(|path| command.env("PATH", path));
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const RIGHT: &str = "GEMM 67x59x101 f32: right in every element";

#[test]
fn a_program_without_a_compiler_runs_from_a_pack_that_another_run_left() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let rocfire = Path::new(env!("CARGO_BIN_EXE_rocfire"));
    let (cache, pack, nowhere) = (place("cache"), place("kernels.rocpack"), place("nowhere"));
    std::fs::create_dir(&nowhere).unwrap();

    let first = text(&run(rocfire, &["doctor"], &cache, None, None));
    if first.contains("GEMM: not run") {
        println!("skipped: {first}");
        return;
    }
    assert!(first.contains(RIGHT) && first.contains("0 from packs, 0 from the cache, 1 compiled"), "{first}");

    let pack_text = pack.to_str().unwrap();
    let arguments = ["prebuild", "--arch", "gfx942;gfx1100", "--level", "0", "--from-cache", "--out", pack_text];
    let made = text(&run(rocfire, &arguments, &cache, None, None));
    assert!(made.contains("gfx942: 1 kernels in the cache") && made.contains("gfx1100: 0 kernels"), "{made}");
    assert!(made.contains(&format!("written: {pack_text}, 1 kernels, ")) && made.contains(" MiB, "), "{made}");

    let without = |packs| text(&run(rocfire, &["doctor"], &place("empty"), packs, Some(&nowhere)));
    let from_pack = without(Some(&*pack));
    assert!(
        from_pack.contains(RIGHT) && from_pack.contains("1 from packs, 0 from the cache, 0 compiled"),
        "{from_pack}"
    );
    assert!(from_pack.contains("1 kernels for gfx942 by "), "{from_pack}");
    let none = Path::new("none");
    let compiles_anyway = without(Some(none)).contains("1 compiled");

    // Beside the program it is found by itself.
    let copy = place("bin").join("rocfire");
    std::fs::create_dir(place("bin")).unwrap();
    std::fs::copy(rocfire, &copy).unwrap();
    std::fs::copy(&pack, place("bin").join("mine.rocpack")).unwrap();
    let beside = text(&run(&copy, &["doctor"], &place("empty"), None, Some(&nowhere)));
    assert!(beside.contains(RIGHT) && beside.contains("1 from packs"), "{beside}");

    // Damaged, it is named with the reason, and nothing wrong is computed.
    let mut bytes = std::fs::read(&pack).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&pack, &bytes).unwrap();
    let damaged = without(Some(&*pack));
    assert!(damaged.contains(&format!("kernel pack {pack_text}: damaged")), "{damaged}");
    assert!(damaged.contains("not used: "), "{damaged}");
    assert_eq!(damaged.contains(RIGHT), compiles_anyway, "{damaged}");
}

#[test]
fn what_cannot_be_packed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let rocfire = Path::new(env!("CARGO_BIN_EXE_rocfire"));
    let out = folder.path().join("out.rocpack");
    let refused = |arguments: &[&str]| {
        let arguments = [&["prebuild", "--out", out.to_str().unwrap()], arguments].concat();
        let output = run(rocfire, &arguments, &folder.path().join("cache"), None, None);
        assert!(!output.status.success() && !out.exists(), "{}", text(&output));
        text(&output)
    };
    assert!(refused(&["--arch", "gfx1999"]).contains("gfx1999"));
    assert!(refused(&["--level", "4"]).contains("0..=3"));
    assert!(refused(&["--level", "0"]).contains("no kernel to pack"));
    assert!(refused(&["--level", "0", "--from-cache", "--arch", "gfx942"]).contains("no kernel to pack"));
}
