//! Kernels called as Candle calls them, through `cudarc`, on an emulated card of 64 lanes a wave and one of 32.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError};

use candle_kernels::Module;
use cudarc::driver::{CudaContext, CudaModule, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use half::{bf16, f16};
use rocfire_hal::{Config, Device, DeviceId};

/// A check of some kernels on each card. It runs once in a process, whoever asks first: its own test, or the one that wants to
/// know that every kernel ran.
pub struct Sweep {
    once: Once,
    check: fn(),
}

impl Sweep {
    pub const fn new(check: fn()) -> Sweep {
        Sweep { once: Once::new(), check }
    }

    /// Runs it, or waits until it has run.
    ///
    /// # Panics
    /// If it fails, or has failed.
    pub fn run(&self) {
        self.once.call_once(self.check);
    }
}

/// Makes sweeps of functions, a test of each, and `sweeps()`, all of them.
macro_rules! sweeps {
    ($($name:ident,)*) => {
        #[allow(non_upper_case_globals)] // They have the functions' names.
        mod once {
            $(pub static $name: crate::harness::Sweep = crate::harness::Sweep::new(super::$name);)*
        }

        mod test {
            $(
                #[test]
                fn $name() {
                    super::once::$name.run();
                }
            )*
        }

        pub fn sweeps() -> Vec<&'static crate::harness::Sweep> {
            vec![$(&once::$name),*]
        }
    };
}
pub(crate) use sweeps;

/// The kernels that ran in this process, by card.
static RAN: LazyLock<Mutex<HashSet<(&'static str, String)>>> = LazyLock::new(Mutex::default);

/// A card with all modules.
pub struct Card {
    pub name: &'static str,
    stream: Arc<CudaStream>,
    modules: Vec<Arc<CudaModule>>,
}

static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| ["gfx942", "gfx1100"].into_iter().map(Card::open).collect());

/// Runs a check on every card.
pub fn on_each_card(check: impl Fn(&Card)) {
    CARDS.iter().for_each(check);
}

/// An argument, in Candle's order.
#[derive(Clone, Debug)]
pub enum Arg {
    Size(u64),
    Int(u32),
    Float(f32),
    Double(f64),
    Flag(bool),
    /// A number of an element type.
    Of(&'static str, f64),
    /// Extents and strides; null if there are none.
    Info(Vec<usize>),
    In(Data),
    /// Memory that holds something before, and is given back.
    Out(Data),
    /// A null pointer.
    Null,
}

/// Elements of a type, as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    pub dtype: &'static str,
    pub bytes: Vec<u8>,
}

impl Data {
    pub fn new(dtype: &'static str, values: &[f64]) -> Data {
        Data { dtype, bytes: values.iter().flat_map(|&value| encode(dtype, value)).collect() }
    }

    /// Bytes with nothing that a test could take for a result.
    pub fn unwritten(dtype: &'static str, count: usize) -> Data {
        Data { dtype, bytes: vec![0x5a; count * size_of_dtype(dtype)] }
    }

    pub fn raw(bytes: Vec<u8>) -> Data {
        Data { dtype: "u8", bytes }
    }

    pub fn values(&self) -> Vec<f64> {
        self.bytes.chunks_exact(size_of_dtype(self.dtype)).map(|bytes| decode(self.dtype, bytes)).collect()
    }
}

pub fn size_of_dtype(dtype: &str) -> usize {
    match dtype {
        "u8" => 1,
        "bf16" | "f16" | "i16" => 2,
        "f32" | "u32" | "i32" => 4,
        _ => 8,
    }
}

/// A value as the element type stores it.
pub fn encode(dtype: &str, value: f64) -> Vec<u8> {
    match dtype {
        "u8" => vec![value as u8],
        "bf16" => bf16::from_f64(value).to_le_bytes().to_vec(),
        "f16" => f16::from_f64(value).to_le_bytes().to_vec(),
        "i16" => (value as i16).to_le_bytes().to_vec(),
        "f32" => (value as f32).to_le_bytes().to_vec(),
        "u32" => (value as u32).to_le_bytes().to_vec(),
        "i32" => (value as i32).to_le_bytes().to_vec(),
        "i64" => (value as i64).to_le_bytes().to_vec(),
        "f64" => value.to_le_bytes().to_vec(),
        _ => panic!("no element type {dtype}"),
    }
}

fn decode(dtype: &str, bytes: &[u8]) -> f64 {
    match dtype {
        "u8" => f64::from(bytes[0]),
        "bf16" => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        "f16" => f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        "i16" => f64::from(i16::from_le_bytes(bytes.try_into().unwrap())),
        "f32" => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        "u32" => f64::from(u32::from_le_bytes(bytes.try_into().unwrap())),
        "i32" => f64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
        "i64" => i64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        "f64" => f64::from_le_bytes(bytes.try_into().unwrap()),
        _ => panic!("no element type {dtype}"),
    }
}

/// What an element type makes of a value.
pub fn rounded(dtype: &str, value: f64) -> f64 {
    decode(dtype, &encode(dtype, value))
}

impl Card {
    fn open(name: &'static str) -> Card {
        let device = Device::open(DeviceId::emulated(name).unwrap(), Config::from_env().unwrap()).unwrap();
        let context = CudaContext::with_device(0, device).unwrap();
        let modules = MODULES.iter().map(|module| context.load_module(Ptx::from(module.batched())).unwrap());
        Card { name, stream: context.per_thread_stream(), modules: modules.collect() }
    }

    /// Calls a kernel with Candle's geometry; what [`Arg::Out`] holds afterwards, in order.
    pub fn run(&self, module: &Module, kernel: &str, config: LaunchConfig, args: &[Arg]) -> Vec<Data> {
        let function = self.modules[module.index()].load_function(kernel).unwrap();
        let outputs = self.call(&function, config, args);
        RAN.lock().unwrap_or_else(PoisonError::into_inner).insert((self.name, kernel.to_owned()));
        outputs
    }

    /// Whether a kernel has run and its outputs were read.
    pub fn has_run(&self, kernel: &str) -> bool {
        RAN.lock().unwrap_or_else(PoisonError::into_inner).contains(&(self.name, kernel.to_owned()))
    }

    /// The same with the kernel compiled alone, as for Candle.
    pub fn run_alone(&self, module: &Module, kernel: &str, config: LaunchConfig, args: &[Arg]) -> Vec<Data> {
        let module = self.stream.context().load_module(Ptx::from(module.ptx())).unwrap();
        self.call(&module.load_function(kernel).unwrap(), config, args)
    }

    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    fn call(&self, function: &cudarc::driver::CudaFunction, config: LaunchConfig, args: &[Arg]) -> Vec<Data> {
        let memory: Vec<Option<CudaSlice<u8>>> = args
            .iter()
            .map(|arg| match arg {
                Arg::In(data) | Arg::Out(data) => Some(self.stream.clone_htod(&data.bytes).unwrap()),
                _ => None,
            })
            .collect();
        let infos: Vec<Option<CudaSlice<usize>>> = args
            .iter()
            .map(|arg| match arg {
                Arg::Info(words) if !words.is_empty() => Some(self.stream.clone_htod(words).unwrap()),
                _ => None,
            })
            .collect();
        let numbers: Vec<u64> = args.iter().map(bits).collect();
        let narrow: Vec<(u8, u16, u32)> = numbers.iter().map(|&word| (word as u8, word as u16, word as u32)).collect();
        let mut launch = self.stream.launch_builder(function);
        for (at, arg) in args.iter().enumerate() {
            let bytes = match arg {
                Arg::Int(_) | Arg::Float(_) => 4,
                Arg::Flag(_) => 1,
                Arg::Of(dtype, _) => size_of_dtype(dtype),
                _ => 8,
            };
            match (&memory[at], &infos[at]) {
                (Some(memory), _) => launch.arg(memory),
                (_, Some(info)) => launch.arg(info),
                _ => match bytes {
                    1 => launch.arg(&narrow[at].0),
                    2 => launch.arg(&narrow[at].1),
                    4 => launch.arg(&narrow[at].2),
                    _ => launch.arg(&numbers[at]),
                },
            };
        }
        // SAFETY: the tests' arguments cover what kernels access; the emulator checks each access besides.
        unsafe { launch.launch(config) }.unwrap();
        let outputs = args.iter().zip(&memory).filter_map(|(arg, memory)| match arg {
            Arg::Out(data) => {
                let bytes = self.stream.clone_dtoh(memory.as_ref().expect("outputs have memory")).unwrap();
                Some(Data { dtype: data.dtype, bytes })
            }
            _ => None,
        });
        outputs.collect()
    }
}

/// The bits of a number, from the lowest.
fn bits(arg: &Arg) -> u64 {
    match arg {
        Arg::Size(value) => *value,
        Arg::Int(value) => u64::from(*value),
        Arg::Float(value) => u64::from(value.to_bits()),
        Arg::Double(value) => value.to_bits(),
        Arg::Flag(value) => u64::from(*value),
        Arg::Of(dtype, value) => {
            let mut word = [0; 8];
            let bytes = encode(dtype, *value);
            word[..bytes.len()].copy_from_slice(&bytes);
            u64::from_le_bytes(word)
        }
        Arg::Info(_) | Arg::In(_) | Arg::Out(_) | Arg::Null => 0,
    }
}

const MODULES: [Module; 11] = [
    candle_kernels::AFFINE,
    candle_kernels::BINARY,
    candle_kernels::CAST,
    candle_kernels::CONV,
    candle_kernels::FILL,
    candle_kernels::INDEXING,
    candle_kernels::QUANTIZED,
    candle_kernels::REDUCE,
    candle_kernels::SORT,
    candle_kernels::TERNARY,
    candle_kernels::UNARY,
];

/// Candle's geometry for so many elements.
pub fn elements(count: usize) -> LaunchConfig {
    LaunchConfig::for_num_elems(count as u32)
}

/// Candle's geometry of a workgroup per row.
pub fn rows(rows: usize, block: (u32, u32, u32)) -> LaunchConfig {
    LaunchConfig { grid_dim: (rows as u32, 1, 1), block_dim: block, shared_mem_bytes: 0 }
}

/// Values that repeat from run to run, in [-1, 1).
pub fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Values fit for an element type: integers count from 0, or from -50 where they have a sign.
pub fn values(dtype: &str, count: usize, seed: u64) -> Vec<f64> {
    let value = |x: f64| match dtype {
        "u8" | "u32" => ((x + 1.0) * 50.0).floor(),
        "i16" | "i32" | "i64" => (x * 50.0).floor(),
        _ => rounded(dtype, x * 4.0),
    };
    noise(count, seed).into_iter().map(value).collect()
}

/// The element's share of itself by which a result of a few rounded operations may be off, and what is too small to matter.
pub fn tolerance(dtype: &str) -> f64 {
    match dtype {
        "bf16" => 8e-3,
        "f16" => 1e-3,
        "f32" => 2e-6,
        "f64" => 1e-13,
        _ => 0.0,
    }
}

/// Compares with values before their rounding to the type, NaN with NaN; `scale` is how many times the type's usual error,
/// of the value or, for values that are small because larger ones cancel, of 0.1.
pub fn assert_close(what: &str, got: &Data, expected: &[f64], scale: f64) {
    let values = got.values();
    assert_eq!(values.len(), expected.len(), "{what}");
    for (at, (&got_value, &expected)) in values.iter().zip(expected).enumerate() {
        let expected = rounded(got.dtype, expected);
        let allowed = scale * tolerance(got.dtype) * expected.abs().max(0.1);
        let same = got_value == expected
            || (got_value.is_nan() && expected.is_nan())
            || (got_value - expected).abs() <= allowed;
        assert!(same, "{what}: element {at} is {got_value}, expected {expected}");
    }
}
