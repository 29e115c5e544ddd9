//! The launchers that Candle calls as C functions: products with quantised weights, mixtures of experts.
//!
//! They return nothing, so a failure is kept, and the next call on the device that can return an error returns it. Addresses are
//! looked up in the device's memory before anything is launched: one that leads nowhere, or to fewer bytes than the sizes say, is
//! such a failure. The stream is the number that `CudaStream::cu_stream` gave.

use core::ffi::c_void;

use cudarc::driver::{DriverError, LaunchConfig};
use cudarc::rocfire::{Call, Touched};
use rocfire_hal::{DType, Layout, Tensor};
use rocfire_kernels::experts::{Blocks, ByExpert, SortParams, sort_by_expert};
use rocfire_kernels::quant::{GgufMatrices, ListedRows, gguf_matmul_listed};

use crate::experts::{self, Part, Prefill};
use crate::family::quantized::{self, Gguf, MAT_VEC_ROWS, TYPES};
use crate::product::{Product, int};
use crate::run::{self, Args, MatVecKind, Use};

type Result<T = ()> = std::result::Result<T, DriverError>;

/// An element type of activations.
#[derive(Clone, Copy)]
struct Element {
    /// Its name in device code.
    device: &'static str,
    dtype: DType,
    bytes: u64,
    /// A number that tells the types apart.
    tag: u64,
}

const F32: Element = Element { device: "float", dtype: DType::F32, bytes: 4, tag: 0 };
const F16: Element = Element { device: "f16", dtype: DType::F16, bytes: 2, tag: 1 };
const BF16: Element = Element { device: "bf16", dtype: DType::BF16, bytes: 2, tag: 2 };

/// Runs a launcher on the stream that Candle gave, and keeps its failure for the next call that can return an error.
fn on_stream(name: &str, stream: *mut c_void, launch: impl FnOnce(&Call) -> Result) {
    match Call::on(stream.cast()) {
        Some(call) => call.record(launch(&call).map_err(|error| DriverError::new(format!("{name}: {error}")))),
        // Without a stream there is no device to keep the failure for.
        None => eprintln!("rocfire: {name}: {stream:p} is no stream of a live device; nothing was launched"),
    }
}

/// The `bytes` bytes from address `first` on, as memory that a launch reads or writes. An error names `what` if they are not
/// live memory.
fn touched(call: &Call, what: &str, first: u64, bytes: u64, is_written: bool) -> Result<Touched> {
    let (memory, skipped) = call.memory(what, first)?;
    if memory.bytes() - skipped < bytes {
        let got = memory.bytes() - skipped;
        return Err(DriverError::new(format!("{what} must have {bytes} bytes from {first:#x}, got {got}")));
    }
    Ok(Touched::part(memory, first, bytes, is_written))
}

fn read(call: &Call, what: &str, address: u64, bytes: u64) -> Result<Touched> {
    touched(call, what, address, bytes, false)
}

fn written(call: &Call, what: &str, address: u64, bytes: u64) -> Result<Touched> {
    touched(call, what, address, bytes, true)
}

/// A count of Candle's, which must not be negative.
fn count(what: &str, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| DriverError::new(format!("{what} must be 0 or more, got {value}")))
}

/// Bytes of a row of int8 activations: 32 codes and a scale of 4 bytes take 36.
fn activation_bytes(padded: usize) -> usize {
    padded / 32 * 36
}

/// Quantises rows of `columns` elements to int8 at address `to`, each row to `padded` codes, zeros behind the columns.
fn quantise(call: &Call, from: Element, x: u64, to: u64, columns: usize, padded: usize, rows: usize) -> Result {
    if rows == 0 || padded == 0 {
        return Ok(());
    }
    let x_access = read(call, "x", x, (rows * columns) as u64 * from.bytes)?;
    let out = written(call, "vy", to, (rows * activation_bytes(padded)) as u64)?;
    let key = (Use::Quantise, "", from.device, 0);
    let source = run::source(key, || quantized::quantise_from(from.device));
    // The second axis of a grid holds so many rows on every card; more rows take more launches.
    const ROWS_MAX: usize = 65535;
    for first in (0..rows).step_by(ROWS_MAX) {
        let rows = ROWS_MAX.min(rows - first);
        let grid_dim = (padded.div_ceil(256) as u32, rows as u32, 1);
        let config = LaunchConfig { grid_dim, block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        let args = Args::new().word(x + (first * columns) as u64 * from.bytes);
        let args = args.word(to + (first * activation_bytes(padded)) as u64).int(int(columns)?).int(int(padded)?);
        // SAFETY:
        // - the arguments are those of quantise.hip (1).
        // - rows and codes are the ranges that were looked up above (2).
        unsafe { run::wait(call, key, from.tag, source, config, &args, vec![x_access.clone(), out.clone()])? };
    }
    Ok(())
}

/// The parameters of the mat-vec launchers. `x` is the address of int8 activations.
struct MatVec {
    weights: u64,
    x: u64,
    out: u64,
    columns: i32,
    outputs: i32,
    /// Blocks of 32 codes in a row of activations.
    x_stride: i32,
    /// Elements from a row of results to the next.
    out_stride: i32,
    rows: i32,
}

fn mat_vec(call: &Call, gguf: Gguf, to: Element, given: &MatVec) -> Result {
    let columns = count("ncols_x", given.columns.into())?;
    let outputs = count("nrows_x", given.outputs.into())?;
    let padded = 32 * count("stride_col_y", given.x_stride.into())?;
    let stride = count("stride_col_dst", given.out_stride.into())?;
    let rows = count("b_size", given.rows.into())?;
    if rows == 0 || outputs == 0 {
        return Ok(());
    }
    if rows > MAT_VEC_ROWS || columns % gguf.size != 0 || padded < columns {
        let sizes = format!("{rows} rows of {columns} columns in {padded} codes");
        return Err(DriverError::new(format!(
            "b_size must be 1 to 8, columns whole blocks that codes cover, got {sizes}"
        )));
    }
    let accesses = vec![
        read(call, "vx", given.weights, (outputs * (columns / gguf.size) * gguf.bytes) as u64)?,
        read(call, "vy", given.x, (rows * activation_bytes(padded)) as u64)?,
        written(call, "dst", given.out, ((rows - 1) * stride + outputs) as u64 * to.bytes)?,
    ];
    let key = (Use::MatVec, gguf.name, to.device, rows);
    let source = run::source(key, || quantized::mat_vec_of(gguf, to.device, &rows.to_string()));
    let args = Args::new().word(given.weights).word(given.x).word(given.out);
    let args = args.int(given.columns).int(given.outputs).int(int(padded)?).int(given.out_stride);
    let tag = MatVecKind { gguf, out: to.device, rows }.tag();
    let config = quantized::mat_vec_grid(outputs as u64, rows);
    // SAFETY:
    // - the arguments are those of mat_vec.hip, kind 0 (1).
    // - the three ranges were looked up above (2).
    unsafe { run::wait(call, key, tag, source, config, &args, accesses) }
}

macro_rules! mat_vec_launchers {
    ($($name:ident $at:literal $element:ident,)*) => {
        $(
            /// Multiplies 1 to 8 rows of int8 activations by quantised weights.
            ///
            /// # Safety
            /// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
            #[allow(clippy::too_many_arguments, reason = "Candle's signature")]
            pub unsafe extern "C" fn $name(
                vx: *const c_void,
                vy: *const c_void,
                dst: *mut c_void,
                ncols_x: i32,
                nrows_x: i32,
                stride_col_y: i32,
                stride_col_dst: i32,
                b_size: i32,
                stream: *mut c_void,
            ) {
                let given = MatVec {
                    weights: vx as u64,
                    x: vy as u64,
                    out: dst as u64,
                    columns: ncols_x,
                    outputs: nrows_x,
                    x_stride: stride_col_y,
                    out_stride: stride_col_dst,
                    rows: b_size,
                };
                on_stream(stringify!($name), stream, |call| mat_vec(call, TYPES[$at], $element, &given));
            }
        )*
    };
}

mat_vec_launchers! {
    launch_mmvq_gguf_q4_0_bf16_plain 0 BF16, launch_mmvq_gguf_q4_0_f16_plain 0 F16, launch_mmvq_gguf_q4_0_f32_plain 0 F32,
    launch_mmvq_gguf_q4_1_bf16_plain 1 BF16, launch_mmvq_gguf_q4_1_f16_plain 1 F16, launch_mmvq_gguf_q4_1_f32_plain 1 F32,
    launch_mmvq_gguf_q5_0_bf16_plain 2 BF16, launch_mmvq_gguf_q5_0_f16_plain 2 F16, launch_mmvq_gguf_q5_0_f32_plain 2 F32,
    launch_mmvq_gguf_q5_1_bf16_plain 3 BF16, launch_mmvq_gguf_q5_1_f16_plain 3 F16, launch_mmvq_gguf_q5_1_f32_plain 3 F32,
    launch_mmvq_gguf_q8_0_bf16_plain 4 BF16, launch_mmvq_gguf_q8_0_f16_plain 4 F16, launch_mmvq_gguf_q8_0_f32_plain 4 F32,
    launch_mmvq_gguf_q2_k_bf16_plain 5 BF16, launch_mmvq_gguf_q2_k_f16_plain 5 F16, launch_mmvq_gguf_q2_k_f32_plain 5 F32,
    launch_mmvq_gguf_q3_k_bf16_plain 6 BF16, launch_mmvq_gguf_q3_k_f16_plain 6 F16, launch_mmvq_gguf_q3_k_f32_plain 6 F32,
    launch_mmvq_gguf_q4_k_bf16_plain 7 BF16, launch_mmvq_gguf_q4_k_f16_plain 7 F16, launch_mmvq_gguf_q4_k_f32_plain 7 F32,
    launch_mmvq_gguf_q5_k_bf16_plain 8 BF16, launch_mmvq_gguf_q5_k_f16_plain 8 F16, launch_mmvq_gguf_q5_k_f32_plain 8 F32,
    launch_mmvq_gguf_q6_k_bf16_plain 9 BF16, launch_mmvq_gguf_q6_k_f16_plain 9 F16, launch_mmvq_gguf_q6_k_f32_plain 9 F32,
}

macro_rules! quantise_launchers {
    ($($name:ident $element:ident,)*) => {
        $(
            /// Quantises rows of activations to int8 with a scale per 32 of them, for a mat-vec.
            ///
            /// # Safety
            /// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
            pub unsafe extern "C" fn $name(
                x: *const c_void,
                vy: *mut c_void,
                kx: i32,
                kx_padded: i32,
                num_rows: i32,
                stream: *mut c_void,
            ) {
                on_stream(stringify!($name), stream, |call| {
                    let (columns, padded) = (count("kx", kx.into())?, count("kx_padded", kx_padded.into())?);
                    quantise(call, $element, x as u64, vy as u64, columns, padded, count("num_rows", num_rows.into())?)
                });
            }
        )*
    };
}

quantise_launchers! {
    launch_mmvq_gguf_quantize_q8_1_bf16 BF16,
    launch_mmvq_gguf_quantize_q8_1_f16 F16,
    launch_mmvq_gguf_quantize_q8_1_f32 F32,
}

/// Candle pads rows of activations to a multiple of this many codes.
const PADDING: usize = 512;

macro_rules! quantise_rows_launchers {
    ($($name:ident,)*) => {
        $(
            /// Quantises rows of f32 activations to int8 with a scale per 32 of them, for a product. The names tell layouts apart
            /// that are all the same here. Candle passes rows without gaps and no list of rows.
            ///
            /// # Safety
            /// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "Candle's name and signature")]
            pub unsafe extern "C" fn $name(
                x: *const c_void,
                ids: *const i32,
                vy: *mut c_void,
                _type_x: i32,
                ne00: i64,
                s01: i64,
                _s02: i64,
                _s03: i64,
                ne0: i64,
                ne1: i64,
                ne2: i64,
                ne3: i64,
                stream: *mut c_void,
            ) {
                on_stream(stringify!($name), stream, |call| {
                    if !ids.is_null() || s01 != ne00 || ne2 != 1 || ne3 != 1 {
                        let got = format!("ids {ids:p}, rows of {ne00} at {s01}, {ne2} × {ne3} matrices");
                        return Err(DriverError::new(format!("x must be one dense matrix without a list of rows, got {got}")));
                    }
                    let (columns, padded) = (count("ne00", ne00)?, count("ne0", ne0)?);
                    quantise(call, F32, x as u64, vy as u64, columns, padded, count("ne1", ne1)?)
                });
            }
        )*
    };
}

quantise_rows_launchers! { launch_mmq_quantize_q8_1_D4, launch_mmq_quantize_q8_1_DS4, launch_mmq_quantize_q8_1_D2S6, }

macro_rules! product_launchers {
    ($($name:ident $at:literal,)*) => {
        $(
            /// Multiplies rows of int8 activations by quantised weights; results are f32.
            ///
            /// # Safety
            /// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
            #[allow(clippy::too_many_arguments, reason = "Candle's signature")]
            pub unsafe extern "C" fn $name(
                _tmp_fixup: *mut c_void,
                x: *const c_void,
                y: *const c_void,
                dst: *mut c_void,
                ncols_x: i64,
                nrows_x: i64,
                ncols_y: i64,
                _stride_row_x: i64,
                stride_col_dst: i64,
                _cc: i32,
                _nsm: i32,
                _smpbo: i64,
                _warp_size: i32,
                stream: *mut c_void,
            ) {
                on_stream(stringify!($name), stream, |call| {
                    let (gguf, columns) = (TYPES[$at], count("ncols_x", ncols_x)?);
                    let (outputs, rows) = (count("nrows_x", nrows_x)?, count("ncols_y", ncols_y)?);
                    let padded = columns.next_multiple_of(PADDING);
                    read(call, "y", y as u64, (rows * activation_bytes(padded)) as u64)?;
                    let on = call.settled();
                    let lines = [outputs, columns / gguf.size * gguf.bytes];
                    let weights = on.tensor("x", x as u64, &lines, DType::U8)?;
                    let mut out = on.tensor("dst", dst as u64, &[rows, count("stride_col_dst", stride_col_dst)?], DType::F32)?;
                    let (weights, x) = (weights.view(), y as u64);
                    Product { gguf, weights, x, columns, outputs, rows, padded }.run(on.stream(), &mut out)
                });
            }
        )*
    };
}

product_launchers! {
    launch_mmq_gguf_q4_0 0,
    launch_mmq_gguf_q4_1 1,
    launch_mmq_gguf_q5_0 2,
    launch_mmq_gguf_q5_1 3,
    launch_mmq_gguf_q8_0 4,
    launch_mmq_gguf_q2_k 5,
    launch_mmq_gguf_q3_k 6,
    launch_mmq_gguf_q4_k 7,
    launch_mmq_gguf_q5_k 8,
    launch_mmq_gguf_q6_k 9,
}

/// The parameters of the launchers of mixtures of experts; `moe_gemm.hip` says what each is.
struct Experts {
    x: u64,
    weights: u64,
    tokens: u64,
    experts: u64,
    factors: u64,
    out: u64,
    all: i32,
    top: i32,
    count: i32,
    outputs: i32,
    columns: i32,
}

impl Experts {
    /// From the addresses and the sizes, in the order of the launchers' parameters.
    fn new([x, weights, tokens, experts, factors, out]: [u64; 6], sizes: [i32; 5]) -> Experts {
        let [all, top, count, outputs, columns] = sizes;
        Experts { x, weights, tokens, experts, factors, out, all, top, count, outputs, columns }
    }
}

/// A mixture whose weights are in blocks of GGUF: of few tokens each reads its expert's where they lie.
fn gguf_mixture(call: &Call, gguf: Gguf, element: Element, given: &Experts) -> Result {
    if i64::from(given.count) >= experts::ROWS_LEAST as i64 * i64::from(given.all) {
        return prefill(call, Some(gguf), element, F32, given);
    }
    let (all, tokens) = (count("num_experts", given.all.into())?, count("size_m", given.count.into())?);
    let (outputs, columns) = (count("size_n", given.outputs.into())?, count("size_k", given.columns.into())?);
    if tokens == 0 || outputs == 0 {
        return Ok(());
    }
    let each = if given.factors == 0 { count("topk", given.top.into())?.max(1) } else { 1 };
    let on = call.settled();
    let x = on.tensor("input", given.x, &[tokens.div_ceil(each), columns], element.dtype)?;
    let line_bytes = columns / gguf.size * gguf.bytes;
    let blocks = on.tensor("weights", given.weights, &[all, outputs, line_bytes], DType::U8)?;
    let choices = on.tensor("sorted_token_ids", given.tokens, &[tokens], DType::I32)?;
    let matrices = on.tensor("expert_ids", given.experts, &[tokens], DType::I32)?;
    let factors = match given.factors {
        0 => None,
        address => Some(on.tensor("topk_weights", address, &[tokens], DType::F32)?),
    };
    let mut out = on.tensor("output", given.out, &[tokens, outputs], DType::F32)?;
    let factors = factors.as_ref().map(Tensor::view);
    let list = ListedRows { choices: Some(choices.view()), matrices: matrices.view(), each, factors };
    let w = GgufMatrices { blocks: blocks.view(), kind: gguf.kind };
    Ok(gguf_matmul_listed(on.stream(), x.view(), &w, &list, out.view_mut())?)
}

/// Few tokens by dense weights of their type, one dot product at a time.
fn moe_gemm(call: &Call, element: Element, given: &Experts) -> Result {
    let (all, tokens) = (count("num_experts", given.all.into())?, count("size_m", given.count.into())?);
    let (outputs, columns) = (count("size_n", given.outputs.into())?, count("size_k", given.columns.into())?);
    if tokens == 0 || outputs == 0 {
        return Ok(());
    }
    let top = count("topk", given.top.into())?.max(1);
    let rows = if given.factors == 0 { tokens.div_ceil(top) } else { tokens };
    let mut accesses = vec![
        read(call, "input", given.x, (rows * columns) as u64 * element.bytes)?,
        read(call, "weights", given.weights, (all * outputs * columns) as u64 * element.bytes)?,
        read(call, "sorted_token_ids", given.tokens, 4 * tokens as u64)?,
        read(call, "expert_ids", given.experts, 4 * tokens as u64)?,
        written(call, "output", given.out, (tokens * outputs) as u64 * element.bytes)?,
    ];
    if given.factors != 0 {
        accesses.push(read(call, "topk_weights", given.factors, 4 * tokens as u64)?);
    }
    let key = (Use::Moe, "", element.device, 0);
    let source = run::source(key, || quantized::moe_gemm(element.device));
    // The second axis of a grid holds so many tokens on every card; more take more launches, each from a later entry of the list on.
    const TOKENS_MAX: usize = 65535;
    for first in (0..tokens).step_by(TOKENS_MAX) {
        let grid_dim = (outputs.div_ceil(4) as u32, TOKENS_MAX.min(tokens - first) as u32, 1);
        let config = LaunchConfig { grid_dim, block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        let skipped = 4 * first as u64;
        let args =
            Args::new().word(given.x).word(given.weights).word(given.tokens + skipped).word(given.experts + skipped);
        let args = args.word(given.factors).word(given.out).int(given.all).int(top as i32);
        let args = args.int(given.count).int(given.outputs).int(given.columns);
        // SAFETY:
        // - the arguments are those of moe_gemm.hip (1).
        // - all ranges were looked up above, and the kernel passes over tokens and experts that lie outside (2).
        unsafe { run::wait(call, key, 0, source, config, &args, accesses.clone())? };
    }
    Ok(())
}

/// Many tokens, by a grouped product. Weights are dense, of the type `element`, where `gguf` is `None`.
fn prefill(call: &Call, gguf: Option<Gguf>, element: Element, to: Element, given: &Experts) -> Result {
    let (all, tokens) = (count("num_experts", given.all.into())?, count("size_m", given.count.into())?);
    let (outputs, columns) = (count("size_n", given.outputs.into())?, count("size_k", given.columns.into())?);
    if tokens == 0 || outputs == 0 || all == 0 {
        return Ok(());
    }
    let top = count("topk", given.top.into())?.max(1);
    let rows = if given.factors == 0 { tokens.div_ceil(top) } else { tokens };
    read(call, "input", given.x, (rows * columns) as u64 * element.bytes)?;
    read(call, "sorted_token_ids", given.tokens, 4 * tokens as u64)?;
    read(call, "expert_ids", given.experts, 4 * tokens as u64)?;
    if given.factors != 0 {
        read(call, "topk_weights", given.factors, 4 * tokens as u64)?;
    }
    let line = gguf.map_or(columns as u64 * element.bytes, |gguf| (columns / gguf.size * gguf.bytes) as u64);
    let weights = read(call, "weights", given.weights, (all * outputs) as u64 * line)?;
    let out = written(call, "output", given.out, (tokens * outputs) as u64 * to.bytes)?;
    let on = call.settled();
    let prefill = Prefill {
        dtype: element.dtype,
        device_type: element.device,
        out_type: to.device,
        x: given.x,
        weights: Part { buffer: on.buffer(&weights.memory)?, first: weights.asked },
        gguf,
        tokens: given.tokens,
        experts: given.experts,
        factors: given.factors,
        out: Part { buffer: on.buffer(&out.memory)?, first: out.asked },
        all,
        top,
        count: tokens,
        outputs,
        columns,
    };
    prefill.run(on.stream())
}

/// The quantised type that Candle gives as a number.
fn gguf_of(number: i32) -> Result<Gguf> {
    let name = match number {
        0 => "q8_0",
        1 => "q4_k",
        2 => "q2_k",
        3 => "q3_k",
        4 => "q5_k",
        5 => "q6_k",
        _ => return Err(DriverError::new(format!("gguf_dtype must be 0 to 5, got {number}"))),
    };
    Ok(Gguf::of(name))
}

/// The 16-bit type that Candle gives as a number.
fn half_of(number: i32) -> Result<Element> {
    match number {
        0 => Ok(F16),
        1 => Ok(BF16),
        _ => Err(DriverError::new(format!("the input's type must be 0 (f16) or 1 (bf16), got {number}"))),
    }
}

/// A mixture of experts with dense 16-bit weights.
///
/// # Safety
/// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
#[allow(clippy::too_many_arguments, reason = "Candle's signature")]
pub unsafe extern "C" fn moe_gemm_wmma(
    input: *const c_void,
    weights: *const c_void,
    sorted_token_ids: *const i32,
    expert_ids: *const i32,
    topk_weights: *const f32,
    output: *mut c_void,
    _expert_counts: *mut i32,
    _expert_offsets: *mut i32,
    num_experts: i32,
    topk: i32,
    size_m: i32,
    size_n: i32,
    size_k: i32,
    dtype: i32,
    is_prefill: bool,
    stream: i64,
) {
    let given = Experts::new(
        [input as u64, weights as u64, sorted_token_ids as u64, expert_ids as u64, topk_weights as u64, output as u64],
        [num_experts, topk, size_m, size_n, size_k],
    );
    on_stream("moe_gemm_wmma", stream as *mut c_void, |call| {
        let element = half_of(dtype)?;
        if is_prefill { prefill(call, None, element, element, &given) } else { moe_gemm(call, element, &given) }
    });
}

/// A mixture of experts with quantised weights and f32 activations.
///
/// # Safety
/// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
#[allow(clippy::too_many_arguments, reason = "Candle's signature")]
pub unsafe extern "C" fn moe_gemm_gguf(
    input: *const f32,
    weights: *const c_void,
    sorted_token_ids: *const i32,
    expert_ids: *const i32,
    topk_weights: *const f32,
    output: *mut c_void,
    num_experts: i32,
    topk: i32,
    size_m: i32,
    size_n: i32,
    size_k: i32,
    gguf_dtype: i32,
    stream: i64,
) {
    let given = Experts::new(
        [input as u64, weights as u64, sorted_token_ids as u64, expert_ids as u64, topk_weights as u64, output as u64],
        [num_experts, topk, size_m, size_n, size_k],
    );
    let run = |call: &Call| gguf_mixture(call, gguf_of(gguf_dtype)?, F32, &given);
    on_stream("moe_gemm_gguf", stream as *mut c_void, run);
}

/// A mixture of experts with quantised weights and 16-bit activations.
///
/// # Safety
/// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
#[allow(clippy::too_many_arguments, reason = "Candle's signature")]
pub unsafe extern "C" fn moe_gemm_gguf_prefill(
    input: *const c_void,
    weights: *const u8,
    sorted_token_ids: *const i32,
    expert_ids: *const i32,
    topk_weights: *const f32,
    output: *mut c_void,
    num_experts: i32,
    topk: i32,
    size_m: i32,
    size_n: i32,
    size_k: i32,
    input_dtype: i32,
    gguf_dtype: i32,
    stream: i64,
) {
    let given = Experts::new(
        [input as u64, weights as u64, sorted_token_ids as u64, expert_ids as u64, topk_weights as u64, output as u64],
        [num_experts, topk, size_m, size_n, size_k],
    );
    on_stream("moe_gemm_gguf_prefill", stream as *mut c_void, |call| {
        gguf_mixture(call, gguf_of(gguf_dtype)?, half_of(input_dtype)?, &given)
    });
}

/// The most experts that the launcher takes.
const EXPERTS_MAX: usize = 1024;

/// Sorts the entries of a list of chosen experts by expert, as [`sort_by_expert`] does, with each expert's share padded to whole
/// blocks. Returns 0 if it was launched, else 1; the next call on the device returns the failure too.
///
/// # Safety
/// The addresses must be of the stream's device. Nothing else is asked: each is looked up before anything is launched.
#[allow(clippy::too_many_arguments, reason = "Candle's signature")]
pub unsafe extern "C" fn candle_launch_moe_align(
    topk_ids: *const i32,
    sorted_token_ids: *mut i32,
    expert_ids: *mut i32,
    num_tokens_post_pad: *mut i32,
    cumsum: *mut i32,
    num_experts: i32,
    block_size: i32,
    numel: i32,
    max_num_tokens_padded: i32,
    stream: *mut c_void,
) -> i32 {
    let mut launched = 1;
    on_stream("candle_launch_moe_align", stream, |call| {
        let (all, entries) = (count("num_experts", num_experts.into())?, count("numel", numel.into())?);
        let most = count("max_num_tokens_padded", max_num_tokens_padded.into())?;
        let block = count("block_size", block_size.into())?;
        // Each share that is not empty is padded by less than a block.
        let needed = entries + all.min(entries) * block.saturating_sub(1);
        if all > EXPERTS_MAX || block == 0 || needed > most {
            let got = format!("{all} experts, blocks of {block}, room for {most} entries of {entries}");
            let expected = format!("at most {EXPERTS_MAX} experts, blocks of 1 or more, room for {needed} entries");
            return Err(DriverError::new(format!("the sizes must be {expected}, got {got}")));
        }
        let ids = read(call, "topk_ids", topk_ids as u64, 4 * entries as u64)?;
        let sorted = written(call, "sorted_token_ids", sorted_token_ids as u64, 4 * most as u64)?;
        let of_blocks = written(call, "expert_ids", expert_ids as u64, 4 * most.div_ceil(block) as u64)?;
        let total = written(call, "num_tokens_post_pad", num_tokens_post_pad as u64, 4)?;
        let starts = written(call, "cumsum", cumsum as u64, 4 * (all as u64 + 1))?;
        let on = call.settled();
        let ints = |at: &Touched, shape: &[usize]| -> Result<Tensor> {
            let buffer = on.buffer(&at.memory)?;
            let first = (at.asked - buffer.device_address()) / 4;
            let strides: Vec<i64> = shape.iter().map(|_| 1).collect();
            Ok(Tensor::from_buffer(buffer.clone(), Layout::strided(shape, &strides, first as i64)?, DType::I32)?)
        };
        let ids = ints(&ids, &[entries, 1])?;
        let (mut sorted, mut of_blocks) = (ints(&sorted, &[most])?, ints(&of_blocks, &[most.div_ceil(block)])?);
        let (mut total, mut starts) = (ints(&total, &[1])?, ints(&starts, &[all + 1])?);
        let mut to = ByExpert::new(sorted.view_mut(), starts.view_mut());
        to.blocks = Some(Blocks { places: block, groups: of_blocks.view_mut(), total: total.view_mut() });
        sort_by_expert(on.stream(), ids.view(), &SortParams::new(all), to)?;
        launched = 0;
        Ok(())
    });
    launched
}
