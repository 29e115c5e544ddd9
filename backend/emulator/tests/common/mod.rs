//! Compiles HIP kernels for the tests and launches them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use rocfire_arch::Arch;
use rocfire_emulator::{Counters, Error, Gpu, Launch, Module, Options};

/// Compilers to try, best first.
const CLANGS: [&str; 5] = ["clang-22", "clang-21", "clang-23", "clang-20", "clang"];

/// The compiler, if there is one that knows the target.
fn clang() -> Option<&'static str> {
    CLANGS.into_iter().find(|clang| {
        let output =
            Command::new(clang).args(["--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", "--print-targets"]).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("amdgcn"))
    })
}

/// The code object of `tests/kernels/<name>.hip` for gfx942, or `None` with a word on it where there is no compiler.
#[allow(dead_code)] // Not every binary of tests that has this module in it asks for it.
pub fn compile(name: &str) -> Option<Vec<u8>> {
    compile_for(name, "gfx942", 64)
}

/// The same for any architecture and wave size.
pub fn compile_for(name: &str, arch: &str, wave: u32) -> Option<Vec<u8>> {
    type Key = (String, String, u32);
    // Compiled once for all tests of a binary.
    static COMPILED: Mutex<BTreeMap<Key, Option<Vec<u8>>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap();
    let key = (name.to_owned(), arch.to_owned(), wave);
    compiled.entry(key).or_insert_with(|| run_clang(name, arch, wave)).clone()
}

fn run_clang(name: &str, arch: &str, wave: u32) -> Option<Vec<u8>> {
    let Some(clang) = clang() else {
        println!("skipped: none of {CLANGS:?} compiles for {arch}");
        return None;
    };
    let wide = wave != Arch::parse(arch).unwrap().info().wave_size;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(name).with_extension("hip");
    let object: PathBuf = std::env::temp_dir().join(format!("rocfire-{name}-{arch}-{wave}-{}.co", std::process::id()));
    let output = Command::new(clang)
        .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"])
        .arg(format!("--offload-arch={arch}"))
        .args(wide.then_some("-mwavefrontsize64"))
        .args(wide.then_some("-DWIDE"))
        .args(["-nogpulib", "-nogpuinc", "-O3", "-gline-tables-only", "-ffp-contract=off", "-std=c++17"])
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    Some(bytes)
}

/// A code object for gfx942 of OpenCL C sources, each with its name, that were compiled apart and linked; `None` as [`compile`].
#[allow(dead_code)] // As there.
pub fn linked(sources: &[(&str, String)]) -> Option<Vec<u8>> {
    let Some(clang) = clang() else {
        println!("skipped: none of {CLANGS:?} compiles for gfx942");
        return None;
    };
    let done = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let folder = std::env::temp_dir().join(format!("rocfire-linked-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let objects = sources.iter().map(|(name, text)| {
        let (source, object) = (folder.join(name), folder.join(name).with_extension("o"));
        std::fs::write(&source, text).unwrap();
        let target = ["-x", "cl", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib", "-c"];
        done(Command::new(clang).args(target).arg(source).arg("-o").arg(&object));
        object
    });
    let objects: Vec<PathBuf> = objects.collect();
    let linker = done(Command::new(clang).arg("-print-prog-name=ld.lld"));
    done(Command::new(linker).arg("-shared").args(objects).arg("-o").arg(folder.join("linked.co")));
    let bytes = std::fs::read(folder.join("linked.co")).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    Some(bytes)
}

/// A device with a module loaded.
pub struct Bench {
    pub gpu: Gpu,
    pub module: Arc<Module>,
}

impl Bench {
    /// The kernels of `tests/kernels/<name>.hip` on a device with these options.
    #[allow(dead_code)] // As above.
    pub fn with_options(name: &str, options: Options) -> Option<Bench> {
        let object = compile(name)?;
        let gpu = Gpu::new(Arch::parse("gfx942").unwrap(), options).unwrap();
        let module = gpu.load(&object).unwrap();
        Some(Bench { gpu, module })
    }

    /// The same on another architecture, compiled for waves of this many lanes.
    #[allow(dead_code)] // As above.
    pub fn on(name: &str, arch: &str, wave: u32) -> Option<Bench> {
        Some(Bench::load(&compile_for(name, arch, wave)?, arch, Options::default()))
    }

    /// A code object on a device with these options.
    #[allow(dead_code)] // As above.
    pub fn load(object: &[u8], arch: &str, options: Options) -> Bench {
        let gpu = Gpu::new(Arch::parse(arch).unwrap(), options).unwrap();
        let module = gpu.load(object).unwrap();
        Bench { gpu, module }
    }

    /// The same with the usual options.
    #[allow(dead_code)] // As above.
    pub fn new(name: &str) -> Option<Bench> {
        Bench::with_options(name, Options::default())
    }

    /// Allocates and fills.
    #[allow(dead_code)] // As above.
    pub fn upload<T: bytemuck::NoUninit>(&self, data: &[T]) -> u64 {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let address = self.gpu.allocate(bytes.len() as u64).unwrap();
        self.gpu.write(address, bytes).unwrap();
        address
    }

    /// Reads `len` values.
    #[allow(dead_code)] // As above.
    pub fn download<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(&self, address: u64, len: usize) -> Vec<T> {
        let mut values = vec![T::zeroed(); len];
        self.gpu.read(address, bytemuck::cast_slice_mut(&mut values)).unwrap();
        values
    }

    /// Launches and gives what came of it.
    #[allow(dead_code)] // As above.
    pub fn try_run(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        lds: u32,
        args: &Args,
    ) -> Result<Counters, Error> {
        let kernel = self.module.kernel(kernel).unwrap();
        let launch = Launch { grid, block, dynamic_lds_bytes: lds, kernarg: &args.bytes };
        self.gpu.launch(&kernel, &launch)
    }

    /// Launches with a one-dimensional grid; it must work.
    #[allow(dead_code)] // As above.
    pub fn run(&self, kernel: &str, grid: u32, block: u32, args: &Args) -> Counters {
        self.try_run(kernel, [grid, 1, 1], [block, 1, 1], 0, args).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Kernel arguments, each aligned to its size.
#[derive(Default)]
pub struct Args {
    bytes: Vec<u8>,
}

impl Args {
    pub fn new() -> Args {
        Args::default()
    }

    /// What has been added so far.
    #[allow(dead_code)] // Not every test lays out a launch itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds one.
    pub fn with<T: bytemuck::NoUninit>(mut self, value: T) -> Args {
        self.bytes.resize(self.bytes.len().next_multiple_of(size_of::<T>()), 0);
        self.bytes.extend_from_slice(bytemuck::bytes_of(&value));
        self
    }
}
