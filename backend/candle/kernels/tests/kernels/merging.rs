//! Launches that wait and become one: the same bytes as one by one, in fewer launches.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use candle_kernels::{AFFINE, BINARY, CAST, FILL, Module, REDUCE, UNARY, ffi};
use cudarc::cublas::result::gemm_strided_batched_ex;
use cudarc::cublas::sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
use cudarc::cublas::sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT_TENSOR_OP;
use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::sys::cudaDataType_t::{CUDA_R_16BF, CUDA_R_32F};
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use half::bf16;
use rocfire_hal::{Config, Device, DeviceId};

use crate::harness::{encode, noise, rounded, rows, size_of_dtype};
use crate::weights::blocks;

/// How often a chain comes before it is merged.
const REPEATS: usize = 3;

struct Card {
    stream: Arc<CudaStream>,
    modules: Mutex<HashMap<usize, Arc<CudaModule>>>,
    functions: Mutex<HashMap<String, CudaFunction>>,
}

/// A card where launches wait, and one where they do not.
static CARDS: LazyLock<[Card; 2]> = LazyLock::new(|| [true, false].map(Card::open));

/// The cards, for one test at a time: launches are counted.
fn cards() -> (&'static [Card; 2], MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::new(());
    (&CARDS, ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[derive(Clone)]
enum Arg<'a> {
    Word(u64),
    Int(u32),
    Float(f32),
    Of(&'static str, f64),
    Info(Vec<usize>),
    /// Memory, from this element on.
    At(&'a Mem, usize),
}

struct Mem {
    slice: CudaSlice<u8>,
    dtype: &'static str,
}

fn at(mem: &Mem) -> Arg<'_> {
    Arg::At(mem, 0)
}

impl Card {
    fn open(fusion: bool) -> Card {
        // With the joins that only a run has that need not be deterministic.
        let config = Config::from_env().unwrap().with_fusion(fusion).with_deterministic(false);
        let device = Device::open(DeviceId::emulated("gfx1100").unwrap(), config).unwrap();
        let stream = CudaContext::with_device(0, device).unwrap().per_thread_stream();
        Card { stream, modules: Mutex::default(), functions: Mutex::default() }
    }

    fn mem(&self, dtype: &'static str, values: &[f64]) -> Mem {
        let bytes: Vec<u8> = values.iter().flat_map(|&value| encode(dtype, value)).collect();
        Mem { slice: self.stream.clone_htod(&bytes).unwrap(), dtype }
    }

    fn empty(&self, dtype: &'static str, count: usize) -> Mem {
        self.mem(dtype, &vec![77.0; count])
    }

    fn function(&self, module: &Module, kernel: &str) -> CudaFunction {
        let mut modules = self.modules.lock().unwrap();
        let module = modules
            .entry(module.index())
            .or_insert_with(|| self.stream.context().load_module(Ptx::from(module.ptx())).unwrap());
        let mut functions = self.functions.lock().unwrap();
        functions.entry(kernel.to_owned()).or_insert_with(|| module.load_function(kernel).unwrap()).clone()
    }

    fn launch(&self, module: &Module, kernel: &str, config: LaunchConfig, args: &[Arg<'_>]) {
        let function = self.function(module, kernel);
        let word = |arg: &Arg<'_>| match arg {
            Arg::Word(word) => *word,
            Arg::At(mem, first) => mem.slice.device_ptr(&self.stream).0 + (first * size_of_dtype(mem.dtype)) as u64,
            Arg::Int(int) => u64::from(*int),
            Arg::Float(float) => u64::from(float.to_bits()),
            Arg::Of(dtype, value) => {
                let mut bytes = encode(dtype, *value);
                bytes.resize(8, 0);
                u64::from_le_bytes(bytes.try_into().unwrap())
            }
            Arg::Info(_) => 0,
        };
        let words: Vec<u64> = args.iter().map(word).collect();
        let (halves, ints): (Vec<u16>, Vec<u32>) = words.iter().map(|&word| (word as u16, word as u32)).unzip();
        let infos: Vec<CudaSlice<usize>> = args
            .iter()
            .map(|arg| match arg {
                Arg::Info(words) => self.stream.clone_htod(words).unwrap(),
                _ => self.stream.clone_htod::<usize, _>(&[]).unwrap(),
            })
            .collect();
        let mut launch = self.stream.launch_builder(&function);
        for (at, arg) in args.iter().enumerate() {
            match arg {
                Arg::Info(words) if !words.is_empty() => launch.arg(&infos[at]),
                Arg::Int(_) | Arg::Float(_) => launch.arg(&ints[at]),
                Arg::Of(dtype, _) if size_of_dtype(dtype) == 2 => launch.arg(&halves[at]),
                Arg::Of(dtype, _) if size_of_dtype(dtype) == 4 => launch.arg(&ints[at]),
                _ => launch.arg(&words[at]),
            };
        }
        // SAFETY: the tests' arguments cover what kernels access; the emulator checks each access besides.
        unsafe { launch.launch(config) }.unwrap();
    }

    /// A dense map of `count` elements.
    fn map(&self, kernel: &str, x: &Mem, out: &Mem, count: usize) {
        let module = if kernel.starts_with("cast") { &CAST } else { &UNARY };
        let args = [Arg::Word(count as u64), Arg::Word(1), Arg::Info(vec![]), at(x), at(out)];
        self.launch(module, kernel, LaunchConfig::for_num_elems(count as u32), &args);
    }

    fn affine(&self, x: &Mem, out: &Mem, count: usize, factor: f64, summand: f64) {
        let dtype = x.dtype;
        let numbers = [Arg::Of(dtype, factor), Arg::Of(dtype, summand)];
        let args = [Arg::Word(count as u64), Arg::Word(1), Arg::Info(vec![]), at(x), at(out)];
        let name = format!("affine_{dtype}");
        self.launch(&AFFINE, &name, LaunchConfig::for_num_elems(count as u32), &[&args[..], &numbers].concat());
    }

    /// `out = a OP b`; extents and strides, or none.
    fn two(&self, op: &str, info: &[usize], axes: usize, operands: [&Mem; 3], count: usize) {
        let [a, b, out] = operands;
        let args = [Arg::Word(count as u64), Arg::Word(axes as u64), Arg::Info(info.to_vec()), at(a), at(b), at(out)];
        let name = format!("{op}_{}", a.dtype);
        self.launch(&BINARY, &name, LaunchConfig::for_num_elems(count as u32), &args);
    }

    fn copy2d(&self, x: Arg<'_>, out: Arg<'_>, dtype: &str, shape: [u32; 2], strides: [u32; 2]) {
        let numbers = [shape[0], shape[1], strides[0], strides[1]].map(Arg::Int);
        let config = LaunchConfig::for_num_elems(shape[0] * shape[1]);
        self.launch(&FILL, &format!("copy2d_{dtype}"), config, &[&[x, out][..], &numbers].concat());
    }

    /// `out = x · wᵀ`, of `[rows, inputs]` and `[outputs, inputs]`.
    fn multiply(&self, blas: &CudaBlas, [x, w, out]: [&Mem; 3], [rows, inputs, outputs]: [usize; 3]) {
        let dtype = match x.dtype {
            "f32" => CUDA_R_32F,
            _ => CUDA_R_16BF,
        };
        let pointer = |mem: &Mem| mem.slice.device_ptr(&self.stream).0 as *mut std::ffi::c_void;
        let [m, n, k] = [outputs, rows, inputs].map(|size| size as i32);
        let (one, zero) = (1.0_f32, 0.0_f32);
        // SAFETY: the factors are floats, as the type of computation says.
        unsafe {
            gemm_strided_batched_ex(
                *blas.handle(),
                CUBLAS_OP_T,
                CUBLAS_OP_N,
                m,
                n,
                k,
                (&raw const one).cast(),
                pointer(w),
                dtype,
                k,
                0,
                pointer(x),
                dtype,
                k,
                0,
                (&raw const zero).cast(),
                pointer(out),
                dtype,
                m,
                0,
                1,
                CUBLAS_COMPUTE_32F,
                CUBLAS_GEMM_DEFAULT_TENSOR_OP,
            )
        }
        .unwrap();
    }

    fn bytes(&self, mem: &Mem) -> Vec<u8> {
        self.stream.clone_dtoh(&mem.slice).unwrap()
    }

    fn launches(&self) -> u64 {
        self.stream.context().device().stream().launches()
    }
}

/// Runs a program some times on both cards: the bytes it gives must be equal, and the last run must take `launches`.
fn same_bytes(what: &str, launches: u64, program: impl Fn(&Card) -> Vec<Vec<u8>>) {
    let ([merging, plain], _one) = cards();
    let expected = program(plain);
    for repeat in 0..=REPEATS {
        let before = merging.launches();
        let got = program(merging);
        assert_eq!(got, expected, "{what}, run {repeat}");
        if repeat == REPEATS {
            assert_eq!(merging.launches() - before, launches, "{what}: launches");
        }
    }
}

#[test]
fn a_chain_is_one_launch_with_the_same_bits() {
    for dtype in ["f32", "bf16", "f16"] {
        for (rows, columns) in [(3, 40), (2, 37), (1, 1)] {
            let count = rows * columns;
            same_bytes(&format!("{dtype} {rows} x {columns}"), 1, |card| {
                let (x, bias) = (card.mem(dtype, &noise(count, 1)), card.mem(dtype, &noise(columns, 2)));
                let (scaled, out, wide) =
                    (card.empty(dtype, count), card.empty(dtype, count), card.empty("f64", count));
                {
                    let (silu, sum) = (card.empty(dtype, count), card.empty(dtype, count));
                    card.affine(&x, &scaled, count, 1.7, -0.3);
                    card.map(&format!("usilu_{dtype}"), &scaled, &silu, count);
                    // The bias stands for every row.
                    card.two("badd", &[rows, columns, columns, 1, 0, 1], 2, [&silu, &bias, &sum], count);
                    card.two("bmul", &[], 1, [&sum, &scaled, &out], count);
                }
                card.map(&format!("cast_{dtype}_f64"), &out, &wide, count);
                [&scaled, &out, &wide].map(|mem| card.bytes(mem)).into()
            });
        }
    }
}

#[test]
fn rows_of_a_chain_are_one_launch_with_the_same_bits() {
    for dtype in ["f32", "bf16"] {
        // The last has more columns than lanes keep.
        for (count, columns) in [(3, 40), (2, 513), (2, 2100)] {
            let total = count * columns;
            same_bytes(&format!("norms of {dtype}, {columns} columns"), 2, |card| {
                let (x, y) = (card.mem(dtype, &noise(total, 3)), card.mem(dtype, &noise(total, 4)));
                let weight = card.mem(dtype, &noise(columns, 5));
                let (sum, normed, second) =
                    (card.empty(dtype, total), card.empty(dtype, total), card.empty(dtype, total));
                let numbers = [Arg::Int(columns as u32), Arg::Int(32), Arg::Float(1e-5)];
                card.two("badd", &[], 1, [&x, &y, &sum], total);
                let args = [&[at(&sum), at(&normed), at(&weight)][..], &numbers].concat();
                card.launch(&REDUCE, &format!("rmsnorm_{dtype}"), rows(count, (32, 1, 1)), &args);
                {
                    let double = card.empty(dtype, total);
                    card.two("badd", &[], 1, [&sum, &normed, &double], total);
                    let args = [&[at(&double), at(&second), at(&weight), at(&weight)][..], &numbers].concat();
                    card.launch(&REDUCE, &format!("layernorm_{dtype}"), rows(count, (32, 1, 1)), &args);
                }
                [&sum, &normed, &second].map(|mem| card.bytes(mem)).into()
            });
        }
    }
    same_bytes("scale and softmax", 1, |card| {
        let (x, out) = (card.mem("f32", &noise(5 * 70, 6)), card.empty("f32", 5 * 70));
        {
            let scaled = card.empty("f32", 5 * 70);
            card.affine(&x, &scaled, 5 * 70, 0.125, 0.0);
            let args = [at(&scaled), at(&out), Arg::Int(70)];
            card.launch(&REDUCE, "softmax_f32", rows(5, (1, 32, 1)), &args);
        }
        vec![card.bytes(&out)]
    });
}

/// Candle's softmax of rows that a chain computes, one launch for each of its parts.
fn softmax_of_parts(
    card: &Card,
    dtype: &'static str,
    [count, columns]: [usize; 2],
    keeps_exponentials: bool,
) -> Vec<Vec<u8>> {
    let total = count * columns;
    let mut values = noise(total, 40);
    // Masked elements; one row has no others.
    values.iter_mut().step_by(7).for_each(|value| *value = f64::NEG_INFINITY);
    values[..columns].fill(f64::NEG_INFINITY);
    let (x, mask) = (card.mem(dtype, &values), card.mem(dtype, &noise(columns, 41)));
    let out = card.empty(dtype, total);
    let mut kept = vec![];
    {
        let [scaled, masked, difference, exponential] = [(); 4].map(|()| card.empty(dtype, total));
        let [greatest, sum] = [(); 2].map(|()| card.empty(dtype, count));
        let reduce = |op: &str, x: &Mem, out: &Mem| {
            let numbers = [total, columns, 2].map(|word| Arg::Word(word as u64));
            let args = [&numbers[..], &[Arg::Info(vec![count, columns, columns, 1]), at(x), at(out)]].concat();
            let block = columns.min(1024).next_power_of_two() as u32;
            card.launch(&REDUCE, &format!("fast_{op}_{dtype}"), rows(count, (block, 1, 1)), &args);
        };
        card.affine(&x, &scaled, total, 0.125, 0.0);
        card.two("badd", &[count, columns, columns, 1, 0, 1], 2, [&scaled, &mask, &masked], total);
        let by_rows = [count, columns, columns, 1, 1, 0];
        reduce("max", &masked, &greatest);
        card.two("bsub", &by_rows, 2, [&masked, &greatest, &difference], total);
        card.map(&format!("uexp_{dtype}"), &difference, &exponential, total);
        reduce("sum", &exponential, &sum);
        card.two("bdiv", &by_rows, 2, [&exponential, &sum, &out], total);
        kept.extend(keeps_exponentials.then_some(exponential));
    }
    [&out].into_iter().chain(&kept).map(|mem| card.bytes(mem)).collect()
}

#[test]
fn a_softmax_of_parts_is_one_launch_with_the_same_bits() {
    for dtype in ["f32", "bf16", "f64"] {
        for size in [[5, 40], [3, 513], [2, 2048]] {
            let what = format!("softmax of {dtype} {size:?}");
            same_bytes(&what, 1, |card| softmax_of_parts(card, dtype, size, false));
        }
    }
    same_bytes("exponentials that somebody keeps", 1, |card| softmax_of_parts(card, "f32", [5, 40], true));
    // More columns than a workgroup keeps: the chain, greatest, the difference's exponential, sum, quotient, of which the sum and the
    // greatest are two each.
    same_bytes("long rows", 7, |card| softmax_of_parts(card, "f32", [2, 8193], false));
}

#[test]
fn copies_into_parts_and_casts_of_them_are_one_launch() {
    // Two matrices side by side, then each row of the whole three times, as another type.
    same_bytes("a concatenation, repeated and cast", 2, |card| {
        let (a, b) = (card.mem("bf16", &noise(4 * 24, 7)), card.mem("bf16", &noise(4 * 8, 8)));
        let (query, wide_query) = (card.mem("bf16", &noise(19, 9)), card.empty("f32", 19));
        let (both, wide) = (card.empty("bf16", 4 * 32), card.empty("f32", 3 * 4 * 32));
        card.copy2d(at(&a), at(&both), "bf16", [4, 24], [24, 32]);
        card.copy2d(at(&b), Arg::At(&both, 24), "bf16", [4, 8], [8, 32]);
        {
            let thrice = card.empty("bf16", 3 * 4 * 32);
            for part in 0..3 {
                card.copy2d(at(&both), Arg::At(&thrice, 32 * part), "bf16", [4, 32], [32, 96]);
            }
            card.map("cast_bf16_f32", &query, &wide_query, 19);
            card.map("cast_bf16_f32", &thrice, &wide, 3 * 4 * 32);
        }
        [&both, &wide, &wide_query].map(|mem| card.bytes(mem)).into()
    });
}

/// `[2, 5, 3, width]` with its middle axes exchanged.
fn exchanged(card: &Card, x: &Mem, out: &Mem, width: usize) {
    let total = 30 * width;
    let info = Arg::Info(vec![2, 3, 5, width, 15 * width, width, 3 * width, 1]);
    let args = [Arg::Word(total as u64), Arg::Word(4), info, at(x), at(out)];
    card.launch(&UNARY, &format!("ucopy_{}", x.dtype), LaunchConfig::for_num_elems(total as u32), &args);
}

#[test]
fn copies_of_strided_elements_are_one_launch() {
    let numbers = |total: usize, first: usize| (0..total).map(|at| ((at + first) % 120) as f64).collect::<Vec<f64>>();
    // Whole runs and single elements, more than a workgroup's.
    for (dtype, width) in [("f32", 48), ("f32", 7), ("bf16", 16), ("u8", 3), ("i64", 2)] {
        same_bytes(&format!("exchanged axes of {dtype}, {width} wide"), 1, |card| {
            let of = [1, 2, 3].map(|first| card.mem(dtype, &numbers(30 * width, first)));
            let to = [(); 3].map(|()| card.empty(dtype, 30 * width));
            of.iter().zip(&to).for_each(|(x, out)| exchanged(card, x, out, width));
            to.iter().map(|out| card.bytes(out)).collect()
        });
    }
    // The second reads what the first wrote, the third overwrites what the first read: it may go with the second.
    same_bytes("copies of copies", 2, |card| {
        let [first, other] = [1, 2].map(|first| card.mem("f32", &numbers(240, first)));
        let [second, third] = [(); 2].map(|()| card.empty("f32", 240));
        exchanged(card, &first, &second, 8);
        exchanged(card, &second, &third, 8);
        exchanged(card, &other, &first, 8);
        [&first, &second, &third].map(|mem| card.bytes(mem)).into()
    });
}

#[test]
fn ropes_are_one_launch() {
    same_bytes("two ropes", 1, |card| {
        let (q, k) = (card.mem("bf16", &noise(4 * 16, 10)), card.mem("bf16", &noise(2 * 16, 11)));
        let (cos, sin) = (card.mem("bf16", &noise(8, 12)), card.mem("bf16", &noise(8, 13)));
        let outs = [card.empty("bf16", 4 * 16), card.empty("bf16", 2 * 16)];
        for ((x, heads), out) in [(&q, 4), (&k, 2)].into_iter().zip(&outs) {
            let numbers = [heads, 16, 16, 0].map(Arg::Int);
            let args = [&[at(x), at(&cos), at(&sin), at(out)][..], &numbers].concat();
            card.launch(&REDUCE, "rope_bf16", LaunchConfig::for_num_elems(heads * 8), &args);
        }
        outs.iter().map(|mem| card.bytes(mem)).collect()
    });
}

#[test]
fn what_was_overwritten_or_read_between_is_seen_in_order() {
    same_bytes("hazards", 6, |card| {
        let (x, y) = (card.mem("f32", &noise(64, 14)), card.empty("f32", 64));
        let (first, second, third) = (card.empty("f32", 64), card.empty("f32", 64), card.empty("f32", 64));
        // x is read, then overwritten in part, then read again.
        card.affine(&x, &first, 64, 2.0, 0.0);
        card.copy2d(at(&first), Arg::At(&x, 16), "f32", [1, 8], [8, 8]);
        card.affine(&x, &second, 64, 3.0, 1.0);
        // In place; then copies of overlapping parts, the later one wins.
        card.map("uexp_f32", &second, &second, 64);
        card.copy2d(at(&first), at(&y), "f32", [1, 48], [48, 48]);
        card.copy2d(Arg::At(&second, 8), Arg::At(&y, 32), "f32", [1, 32], [32, 32]);
        card.two("badd", &[], 1, [&y, &x, &third], 64);
        [&x, &y, &first, &second, &third].map(|mem| card.bytes(mem)).into()
    });
}

/// A copy, a rotary embedding, a permutation, a map: what launches of one kind join, when all that stands between is free of them.
#[derive(Clone, Copy, Debug)]
enum Joins {
    Copy,
    Rope,
    Permute,
    Cast,
}

impl Joins {
    /// `x` into `out`, 240 elements each.
    fn launch(self, card: &Card, x: &Mem, out: &Mem) {
        match self {
            Joins::Copy => card.copy2d(at(x), at(out), "f32", [10, 24], [24, 24]),
            Joins::Rope => {
                let numbers = [15, 16, 16, 0].map(Arg::Int);
                let (cos, sin) = (card.mem("f32", &noise(8, 12)), card.mem("f32", &noise(8, 13)));
                let args = [&[at(x), at(&cos), at(&sin), at(out)][..], &numbers].concat();
                card.launch(&REDUCE, "rope_f32", LaunchConfig::for_num_elems(120), &args);
            }
            Joins::Permute => exchanged(card, x, out, 8),
            // A chain joins what it reads: a cast of nothing that waits joins copies.
            Joins::Cast => {
                let half = card.mem("f16", &noise(240, 15));
                card.map("cast_f16_f32", &half, out, 240);
            }
        }
    }
}

#[test]
fn a_write_stays_behind_the_reads_and_writes_before_it() {
    for joins in [Joins::Copy, Joins::Rope, Joins::Permute, Joins::Cast] {
        same_result(&format!("{joins:?} over what was read"), |card| {
            let [a, b, x] = [1, 2, 3].map(|seed| card.mem("f32", &noise(240, seed)));
            let [first, read] = [(); 2].map(|()| card.empty("f32", 240));
            // The second could join the first, but for what is read in between and written by it.
            joins.launch(card, &a, &first);
            card.affine(&x, &read, 240, 2.0, 1.0);
            joins.launch(card, &b, &x);
            [&first, &read, &x].map(|mem| card.bytes(mem)).into()
        });
        same_result(&format!("{joins:?} over what was written"), |card| {
            let [a, b, x] = [1, 2, 3].map(|seed| card.mem("f32", &noise(240, seed)));
            let [first, out] = [(); 2].map(|()| card.empty("f32", 240));
            joins.launch(card, &a, &first);
            card.affine(&x, &out, 240, 2.0, 1.0);
            joins.launch(card, &b, &out);
            [&first, &out].map(|mem| card.bytes(mem)).into()
        });
    }
    // A chain whose later kernel overwrites what an earlier one, or another launch, still has to read.
    same_result("a chain over its own input", |card| {
        let [x, y] = [1, 2].map(|seed| card.mem("f32", &noise(240, seed)));
        let [sum, other] = [(); 2].map(|()| card.empty("f32", 240));
        card.two("badd", &[], 1, [&x, &y, &sum], 240);
        exchanged(card, &x, &other, 8);
        card.map("uexp_f32", &sum, &x, 240);
        card.two("bmul", &[], 1, [&x, &sum, &y], 240);
        [&x, &y, &sum, &other].map(|mem| card.bytes(mem)).into()
    });
}

/// As [`same_bytes`], whatever number of launches it takes.
fn same_result(what: &str, program: impl Fn(&Card) -> Vec<Vec<u8>>) {
    let ([merging, plain], _one) = cards();
    let expected = program(plain);
    for repeat in 0..=REPEATS {
        assert_eq!(program(merging), expected, "{what}, run {repeat}");
    }
}

/// A program of random launches over a few tensors, some of which are dropped and made anew.
fn random_program(card: &Card, seed: u64) -> Vec<Vec<u8>> {
    const COUNT: usize = 48;
    let draws = noise(400, seed);
    let mut draws = draws.iter().map(|value| ((value + 1.0) * 1e6) as usize);
    let mut draw = |below: usize| draws.next().unwrap() % below;
    let mut tensors: Vec<Mem> = (0..4).map(|at| card.mem("f32", &noise(COUNT, 20 + at))).collect();
    for _ in 0..40 {
        let [a, b, out] = [draw(4), draw(4), draw(4)];
        let fresh = card.empty("f32", COUNT);
        let target = if draw(3) == 0 { &tensors[out] } else { &fresh };
        match draw(5) {
            0 => card.affine(&tensors[a], target, COUNT, 0.5, 0.25),
            1 => card.map("utanh_f32", &tensors[a], target, COUNT),
            2 => card.two("bmul", &[], 1, [&tensors[a], &tensors[b], target], COUNT),
            // Transposed, into other memory.
            3 => card.two("badd", &[6, 8, 1, 6, 8, 1], 2, [&tensors[a], &tensors[b], &fresh], COUNT),
            _ => {
                let (rows, part) = (1 + draw(4) as u32, draw(12));
                card.copy2d(Arg::At(&tensors[a], 2), Arg::At(&fresh, part), "f32", [rows, 5], [7, 9]);
            }
        }
        tensors[out] = fresh;
    }
    tensors.iter().map(|mem| card.bytes(mem)).collect()
}

#[test]
fn random_programs_give_the_same_bytes() {
    let ([merging, plain], _one) = cards();
    for seed in 100..112 {
        assert_eq!(random_program(merging, seed), random_program(plain, seed), "program {seed}");
    }
}

#[test]
fn thin_products_share_a_launch() {
    let ([card, _], _one) = cards();
    let blas = CudaBlas::new(Arc::clone(&card.stream)).unwrap();
    // The last are so many outputs that waves work alone.
    for (rows, columns, outputs) in
        [(1, 64, [33, 9]), (3, 40, [33, 9]), (2, 37, [33, 9]), (1, 2056, [5, 2]), (1, 24, [4097, 4099])]
    {
        let upload = |count: usize, seed: u64| {
            let values: Vec<f64> = noise(count, seed).iter().map(|&value| rounded("bf16", value)).collect();
            let bits: Vec<bf16> = values.iter().map(|&value| bf16::from_f64(value)).collect();
            (values, card.stream.clone_htod(&bits).unwrap())
        };
        let (x, x_memory) = upload(rows * columns, 30);
        let weights = outputs.map(|count| upload(count * columns, 31 + count as u64));
        // Kernels by name make the merger known.
        card.function(&UNARY, "uexp_f32");
        let before = card.launches();
        let mut results: Vec<CudaSlice<bf16>> =
            outputs.iter().map(|count| card.stream.alloc_zeros::<bf16>(rows * count).unwrap()).collect();
        for (((_, w), out), count) in weights.iter().zip(&mut results).zip(outputs) {
            let config = GemmConfig {
                transa: CUBLAS_OP_T,
                transb: CUBLAS_OP_N,
                m: count as i32,
                n: rows as i32,
                k: columns as i32,
                alpha: bf16::ONE,
                lda: columns as i32,
                ldb: columns as i32,
                beta: bf16::ZERO,
                ldc: count as i32,
            };
            // SAFETY: none is needed.
            unsafe { blas.gemm(config, w, &x_memory, out) }.unwrap();
        }
        assert_eq!(card.launches() - before, 1, "{rows} rows of {columns}");
        for (((w, _), out), count) in weights.iter().zip(&results).zip(outputs) {
            for (at, got) in card.stream.clone_dtoh(out).unwrap().into_iter().enumerate() {
                let (row, line) = (at / count, at % count);
                let terms = (0..columns).map(|k| x[row * columns + k] * w[line * columns + k]);
                let (expected, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                let allowed = expected.abs() / 256.0 + 1e-6 * size;
                assert!((got.to_f64() - expected).abs() <= allowed, "{rows} {columns}: {at} is {got}, not {expected}");
            }
        }
    }
}

/// A linear layer with a bias and what follows, as Candle launches it: a product, then kernels over its result.
#[derive(Clone, Copy)]
enum Behind {
    Bias,
    BiasGelu,
    /// Activations that Candle launches by one name and several operators are.
    Activation(&'static str),
    ScaleResidual,
    /// A factor for each row.
    RowFactor,
}

/// What a linear layer gives, and how many launches it was.
fn linear(card: &Card, dtype: &'static str, [rows, inputs, outputs]: [usize; 3], behind: Behind) -> (Vec<u8>, u64) {
    let blas = CudaBlas::new(Arc::clone(&card.stream)).unwrap();
    let count = rows * outputs;
    let (x, w) = (card.mem(dtype, &noise(rows * inputs, 50)), card.mem(dtype, &noise(inputs * outputs, 51)));
    let (bias, residual) = (card.mem(dtype, &noise(outputs, 52)), card.mem(dtype, &noise(count, 53)));
    let out = card.empty(dtype, count);
    let before;
    {
        let [result, middle] = [(); 2].map(|()| card.empty(dtype, count));
        before = card.launches();
        card.multiply(&blas, [&x, &w, &result], [rows, inputs, outputs]);
        let by_columns = [rows, outputs, outputs, 1, 0, 1];
        match behind {
            Behind::Bias => card.two("badd", &by_columns, 2, [&result, &bias, &out], count),
            Behind::BiasGelu => {
                card.two("badd", &by_columns, 2, [&result, &bias, &middle], count);
                card.map(&format!("ugelu_erf_{dtype}"), &middle, &out, count);
            }
            Behind::Activation(name) => card.map(&format!("u{name}_{dtype}"), &result, &out, count),
            Behind::RowFactor => {
                card.two("bmul", &[rows, outputs, outputs, 1, 1, 0], 2, [&result, &bias, &out], count);
            }
            Behind::ScaleResidual => {
                card.affine(&result, &middle, count, 0.25, 1.5);
                card.two("badd", &[], 1, [&residual, &middle, &out], count);
            }
        }
    }
    (card.bytes(&out), card.launches() - before)
}

#[test]
fn a_bias_and_an_activation_end_the_product() {
    let ([merging, plain], _one) = cards();
    // Kernels by name make the merger known.
    merging.function(&UNARY, "uexp_f32");
    for (dtype, allowed) in [("f32", 1e-6), ("bf16", 1e-2)] {
        let activations = ["gelu", "relu", "sigmoid", "silu", "tanh"].map(Behind::Activation);
        let others = [Behind::Bias, Behind::BiasGelu, Behind::ScaleResidual, Behind::RowFactor];
        for behind in others.into_iter().chain(activations) {
            let size = [7, 40, 24];
            let (expected, _) = linear(plain, dtype, size, behind);
            let (first, _) = linear(merging, dtype, size, behind);
            let numbers = |bytes: &[u8]| decoded(dtype, bytes);
            for (got, expected) in numbers(&first).into_iter().zip(numbers(&expected)) {
                let error = (got - expected).abs();
                assert!(error <= allowed * (1.0 + expected.abs()), "{dtype}: {got}, not {expected}");
            }
            // How often it came changes neither.
            for _ in 0..REPEATS {
                assert_eq!(linear(merging, dtype, size, behind), (first.clone(), 1), "{dtype}");
            }
        }
    }
}

/// The numbers in bytes.
fn decoded(dtype: &str, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        "f32" => bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()).into()).collect(),
        _ => bytes.chunks_exact(2).map(|two| bf16::from_le_bytes(two.try_into().unwrap()).to_f64()).collect(),
    }
}

/// Three mat-vecs of one row, each behind a quantisation of it, as Candle launches queries, keys and values.
fn queries_keys_values(card: &Card) -> Vec<Vec<u8>> {
    const COLUMNS: usize = 512;
    const OUTPUTS: [usize; 3] = [6, 3, 9];
    let stream = &card.stream;
    let number = stream.cu_stream().cast();
    let pointer = |memory: &CudaSlice<u8>| memory.device_ptr(stream).0 as *mut std::ffi::c_void;
    // The second input follows behind the first's products, in the same codes.
    let inputs = [60, 61].map(|seed| card.mem("f32", &noise(COLUMNS, seed)));
    let codes = stream.clone_htod(&vec![0_u8; COLUMNS / 32 * 36]).unwrap();
    let weights = OUTPUTS.map(|outputs| stream.clone_htod(&blocks("q4_K", outputs * COLUMNS / 256, 62)).unwrap());
    let results: Vec<CudaSlice<u8>> = inputs
        .iter()
        .flat_map(|_| OUTPUTS.map(|outputs| stream.clone_htod(&vec![0_u8; 4 * outputs]).unwrap()))
        .collect();
    for (input, results) in inputs.iter().zip(results.chunks(3)) {
        for ((weights, result), outputs) in weights.iter().zip(results).zip(OUTPUTS) {
            // SAFETY: the memory is the device's, and as long as the sizes say.
            unsafe {
                ffi::launch_mmvq_gguf_quantize_q8_1_f32(
                    pointer(&input.slice),
                    pointer(&codes),
                    COLUMNS as i32,
                    COLUMNS as i32,
                    1,
                    number,
                );
                ffi::launch_mmvq_gguf_q4_k_f32_plain(
                    pointer(weights),
                    pointer(&codes),
                    pointer(result),
                    COLUMNS as i32,
                    outputs as i32,
                    (COLUMNS / 32) as i32,
                    outputs as i32,
                    1,
                    number,
                );
            }
        }
    }
    results.iter().map(|result| stream.clone_dtoh(result).unwrap()).collect()
}

#[test]
fn quantised_products_of_one_input_share_its_codes_and_a_launch() {
    // A quantisation and a launch of products for each input.
    same_bytes("queries, keys, values", 4, |card| {
        card.function(&UNARY, "uexp_f32");
        queries_keys_values(card)
    });
}
