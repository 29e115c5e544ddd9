//! A device with one theme's kernels loaded, and what their references share: arguments, inputs, comparison.

use std::sync::Arc;

use bytemuck::{NoUninit, Pod};
use rocfire_arch::ArchInfo;
use rocfire_emulator::{Checks, Counters, Error, Gpu, Launch, Module, Options};
use rocfire_hal::{Config, emulator_options};
use rocfire_tests::corpus::Variant;

/// Device memory that a case may take.
const MEMORY_BYTES: u64 = 256 << 20;
/// Instructions of a wave, a hundred times what the longest case takes: a lock that nobody opens must end.
const STEP_LIMIT: u64 = 20_000_000;

/// A kernel, or a few that belong together, and its reference.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name, the kernel's where there is one.
    pub name: &'static str,
    /// Whether an architecture has what it is about.
    pub needs: fn(&ArchInfo) -> bool,
    /// Launches it and compares; panics where it is wrong.
    pub check: fn(&Bench),
}

impl Case {
    /// A case for every architecture.
    pub const fn new(name: &'static str, check: fn(&Bench)) -> Case {
        Case { name, needs: |_| true, check }
    }

    /// A case for those architectures only that have what it is about.
    pub const fn needing(name: &'static str, needs: fn(&ArchInfo) -> bool, check: fn(&Bench)) -> Case {
        Case { name, needs, check }
    }
}

/// The cases of a theme: functions of the same names.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub const CASES: &[crate::bench::Case] = &[$(crate::bench::Case::new(stringify!($name), $name)),*];
    };
}
pub(crate) use cases;

/// Kernel arguments in their order.
macro_rules! args {
    ($($value:expr),* $(,)?) => { crate::bench::Args::default()$(.with($value))* };
}
pub(crate) use args;

/// Kernel arguments, each aligned to its size, or a struct to that of its widest field: 8 where it says so.
#[derive(Default)]
pub struct Args {
    bytes: Vec<u8>,
}

impl Args {
    pub fn with<T: NoUninit>(mut self, value: T) -> Args {
        self.bytes.resize(self.bytes.len().next_multiple_of(align_of::<T>()), 0);
        self.bytes.extend_from_slice(bytemuck::bytes_of(&value));
        self
    }
}

/// Sizes of a grid or a workgroup.
pub trait Extent {
    fn extent(self) -> [u32; 3];
}
impl Extent for u32 {
    fn extent(self) -> [u32; 3] {
        [self, 1, 1]
    }
}
impl Extent for [u32; 2] {
    fn extent(self) -> [u32; 3] {
        [self[0], self[1], 1]
    }
}
impl Extent for [u32; 3] {
    fn extent(self) -> [u32; 3] {
        self
    }
}

/// A device with a theme's kernels.
pub struct Bench {
    gpu: Gpu,
    module: Arc<Module>,
    variant: Variant,
}

impl Bench {
    pub fn new(variant: Variant, code_object: &[u8], checks: Option<Checks>) -> Bench {
        // `ROCFIRE_CHECK` holds here too.
        let config = Config::from_env().unwrap_or_else(|error| panic!("{error}"));
        let mut options: Options = emulator_options(&config);
        options.checks = checks.unwrap_or(options.checks);
        options.memory_bytes = MEMORY_BYTES;
        options.step_limit = STEP_LIMIT;
        let gpu = Gpu::new(variant.arch, options).unwrap_or_else(|error| panic!("{error}"));
        let module = gpu.load(code_object).unwrap_or_else(|error| panic!("{error}"));
        Bench { gpu, module, variant }
    }

    /// What is known of the architecture.
    pub fn arch(&self) -> &'static ArchInfo {
        self.variant.arch.info()
    }

    /// Lanes of a wave.
    pub fn wave(&self) -> usize {
        self.variant.wave_size as usize
    }

    /// Device memory with these values.
    pub fn upload<T: NoUninit>(&self, values: &[T]) -> u64 {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let address = self.gpu.allocate(bytes.len() as u64).unwrap();
        self.gpu.write(address, bytes).unwrap();
        address
    }

    /// Device memory for `len` values, all bytes zero.
    pub fn zeros<T: Pod>(&self, len: usize) -> u64 {
        self.upload(&vec![T::zeroed(); len])
    }

    /// Writes over what device memory holds.
    pub fn write<T: NoUninit>(&self, address: u64, values: &[T]) {
        self.gpu.write(address, bytemuck::cast_slice(values)).unwrap();
    }

    /// What device memory holds.
    pub fn download<T: Pod>(&self, address: u64, len: usize) -> Vec<T> {
        let mut values = vec![T::zeroed(); len];
        self.gpu.read(address, bytemuck::cast_slice_mut(&mut values)).unwrap();
        values
    }

    /// Launches, and gives what came of it.
    pub fn try_run(
        &self,
        kernel: &str,
        grid: impl Extent,
        block: impl Extent,
        lds: u32,
        args: Args,
    ) -> Result<Counters, Error> {
        let kernel = self.module.kernel(kernel).unwrap_or_else(|| panic!("there is no kernel {kernel}"));
        let launch =
            Launch { grid: grid.extent(), block: block.extent(), dynamic_lds_bytes: lds, kernarg: &args.bytes };
        self.gpu.launch(&kernel, &launch)
    }

    /// Launches; it must work.
    pub fn run(&self, kernel: &str, grid: impl Extent, block: impl Extent, args: Args) {
        self.run_with_lds(kernel, grid, block, 0, args);
    }

    /// Launches with LDS on top of the static one.
    pub fn run_with_lds(&self, kernel: &str, grid: impl Extent, block: impl Extent, lds: u32, args: Args) {
        if let Err(error) = self.try_run(kernel, grid, block, lds, args) {
            panic!("{error}");
        }
    }

    /// Guest address of a global variable.
    pub fn global(&self, name: &str) -> u64 {
        self.module.global(name).unwrap_or_else(|| panic!("there is no variable {name}")).0
    }
}

/// `len` words without pattern (SplitMix64), the same for the same seed.
pub fn words(seed: u64, len: usize) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..len).map(|_| next()).collect()
}

/// 32 bits without pattern.
pub fn noise(seed: u64, len: usize) -> Vec<u32> {
    words(seed, len).into_iter().map(|word| (word >> 32) as u32).collect()
}

/// Integers below `bound`.
pub fn below(seed: u64, len: usize, bound: u32) -> Vec<u32> {
    noise(seed, len).into_iter().map(|word| ((u64::from(word) * u64::from(bound)) >> 32) as u32).collect()
}

/// Floats in [-1, 1) with 24 bits.
pub fn floats(seed: u64, len: usize) -> Vec<f32> {
    noise(seed, len).into_iter().map(|word| (word >> 8) as f32 / (1u32 << 23) as f32 - 1.0).collect()
}

/// Doubles in [-1, 1).
pub fn doubles(seed: u64, len: usize) -> Vec<f64> {
    words(seed, len).into_iter().map(|word| (word >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

/// Small whole numbers, whose sums and products are exact in any order.
pub fn whole(seed: u64, len: usize) -> Vec<f32> {
    below(seed, len, 17).into_iter().map(|value| value as f32 - 8.0).collect()
}

/// Every value is the same, bit for bit.
#[track_caller]
pub fn same<T: NoUninit + std::fmt::Debug>(got: &[T], want: &[T]) {
    assert_eq!(got.len(), want.len(), "as many values");
    let differs = |(got, want): (&T, &T)| bytemuck::bytes_of(got) != bytemuck::bytes_of(want);
    let wrong: Vec<usize> =
        got.iter().zip(want).enumerate().filter(|(_, pair)| differs(*pair)).map(|(i, _)| i).collect();
    if let Some(&first) = wrong.first() {
        let count = wrong.len();
        panic!("{count} of {} differ, first at {first}: got {:?}, want {:?}", got.len(), got[first], want[first]);
    }
}

/// Every value is within `relative` of the reference's size, or of `floor` where that is smaller.
#[track_caller]
pub fn close(got: &[f32], want: &[f64], relative: f64, floor: f64) {
    assert_eq!(got.len(), want.len(), "as many values");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        let bound = relative * want.abs().max(floor);
        assert!(error <= bound, "at {i}: got {got:e}, want {want:e}, off by {error:e} of {bound:e}");
    }
}

/// As [`close`], for doubles.
#[track_caller]
pub fn close_f64(got: &[f64], want: &[f64], relative: f64, floor: f64) {
    assert_eq!(got.len(), want.len(), "as many values");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (got - want).abs();
        let bound = relative * want.abs().max(floor);
        assert!(error <= bound, "at {i}: got {got:e}, want {want:e}, off by {error:e} of {bound:e}");
    }
}
