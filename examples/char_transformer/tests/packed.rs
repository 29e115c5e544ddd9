//! The demo's first step from a pack, with no compiler in reach: the same loss, bit by bit, as where every kernel was compiled.

use std::path::Path;
use std::process::Command;

use burn::tensor::Device as BurnDevice;
use char_transformer::{CONTEXT, Corpus, sizes, train};
use rocfire_burn::RocmDevice;
use rocfire_hal::compile::PackMaker;
use rocfire_hal::{Config, DeviceId};

/// Set for the process that trains; it is this test's own program.
const CHILD: &str = "ROCFIRE_TEST_TRAINS";
const ARCH: &str = "gfx942";

/// What a process that trains one step prints: the loss's bits, then how many kernels were compiled, and taken from packs.
fn child(cache: &Path, packs: &Path, path: Option<&Path>) -> Result<(String, [u64; 2]), String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_first_step_needs_no_compiler_where_there_is_a_pack", "--nocapture"]);
    command.env(CHILD, "1").env("ROCFIRE_DEVICE", format!("emulated:{ARCH}"));
    command.env("ROCFIRE_CACHE_DIR", cache).env("ROCFIRE_PACKS", packs);
    path.map(|path| command.env("PATH", path));
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.split_once("first step: "));
    let Some((_, line)) = line.filter(|_| output.status.success()) else { return Err(text) };
    let mut words = line.split(' ');
    let bits = words.next().unwrap().to_owned();
    Ok((bits, [(); 2].map(|()| words.next().unwrap().parse().unwrap())))
}

/// Trains one step, and validates on what the demo holds out.
fn first_step() {
    let rocm = RocmDevice::default();
    let opened = rocm.open().unwrap();
    let device: BurnDevice = rocm.into();
    let corpus = Corpus::embedded(CONTEXT).unwrap();
    let sizes = sizes(corpus.vocabulary.len());
    let trained = train(&corpus, &sizes, 1, 1, &device, &|| opened.launches()).unwrap();
    assert!(trained.losses[0].is_finite() && trained.validation_loss.is_finite());
    let stats = opened.compile_stats();
    let bits = (trained.losses[0].to_bits(), trained.validation_loss.to_bits());
    println!("\nfirst step: {:08x}-{:016x} {} {}", bits.0, bits.1, stats.compiled, stats.packed);
}

#[test]
fn the_first_step_needs_no_compiler_where_there_is_a_pack() {
    if std::env::var_os(CHILD).is_some() {
        return first_step();
    }
    if let Err(rejected) = rocfire_hal::compile::clang() {
        println!("skipped the_first_step_needs_no_compiler: {rejected:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let (cache, pack, nowhere) = (place("cache"), place("demo.rocpack"), place("nowhere"));
    std::fs::create_dir(&nowhere).unwrap();
    let none = Path::new("none");
    let (compiled, [kernels, packed]) = child(&cache, none, None).unwrap();
    assert!(kernels > 0 && packed == 0, "{kernels} {packed}");

    let mut maker = PackMaker::new(&Config::default().with_cache_dir(cache));
    let held = maker.add_cached(DeviceId::emulated(ARCH).unwrap().arch()).unwrap();
    assert_eq!(held as u64, kernels);
    maker.write(&pack).unwrap();
    let (from_pack, counts) = child(&place("empty"), &pack, Some(&nowhere)).unwrap();
    assert_eq!((from_pack, counts), (compiled, [0, kernels]));

    // Without the pack that process has nothing to run with; where ROCm is installed it has ROCm's compiler.
    if let Err(text) = child(&place("empty"), none, Some(&nowhere)) {
        assert!(text.contains("no compiler for gfx942"), "{text}");
    }
}
