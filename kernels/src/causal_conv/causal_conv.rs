//! `causal_conv`: the launcher of `causal_conv.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use crate::Result;
use crate::family::{BLOCK, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};
use crate::sequences::{SequenceArgs, Sequences, apart, argument};

const OP: &str = "causal_conv";
/// Channels that a lane takes at once where they lie side by side.
const CHANNELS: usize = 4;
/// Rows of a lane, the most first: those are taken that leave enough lanes.
const RUNS: [usize; 3] = [16, 4, 1];
/// Rows that a lane loads at once where those of a channel lie side by side, and the most that it has.
const SIDE_BY_SIDE: usize = 4;
/// Fewest lanes that are given several rows: a wave on each SIMD of a quarter of the largest device.
const LANES_MIN: usize = 16384;

/// Where in a slot's line, of as many places as the pool's last axis has, the inputs before a sequence's first row lie, and which are put
/// there.
#[derive(Clone, Copy, Debug)]
pub enum Window<'a> {
    /// At the first `w - 1` places, and the last `w - 1` inputs are put there. Others are left as they are.
    First,
    /// From place `n - 1` on, where n, I32, `[sequences]`, tells how many rows of the sequence's last call were accepted. From the first
    /// place on a call puts the `w - 2` inputs before its rows, then all its rows, so that the next can go on behind any of them. Rows
    /// that are too many for that leave the last `w - 1` inputs at the first places, as [`Window::First`] does: then n is 1. A sequence
    /// that is not fresh and whose n is not from 1 to `places - (w - 2)` gives zeros, and reads and writes no state.
    Accepted(View<'a>),
    /// Before place `n % places` of a circle, where n, I32, `[sequences]`, tells how many rows the sequence has had; its rows are put
    /// there and behind. If n is negative it gives zeros, and reads and writes no state.
    Circular(View<'a>),
}

impl<'a> Window<'a> {
    /// The kernel's number for it, and what is told of each sequence, by name.
    fn told(&self) -> (&'static str, Option<(&'static str, View<'a>)>) {
        match *self {
            Window::First => ("0", None),
            Window::Accepted(accepted) => ("1", Some(("accepted", accepted))),
            Window::Circular(lengths) => ("2", Some(("lengths", lengths))),
        }
    }
}

/// What [`causal_conv`] reads.
#[derive(Clone, Copy, Debug)]
pub struct CausalConv<'a> {
    /// Rows of all sequences, `[tokens, dim]`.
    pub x: View<'a>,
    /// `[dim, w]`, w from 2 to 4, the last of them for the row itself.
    pub weight: View<'a>,
    /// `[dim]`, of the weight's type.
    pub bias: Option<View<'a>>,
    /// Where sequences begin, and their slots.
    pub sequences: Sequences<'a>,
    /// Where in a slot the last inputs are.
    pub window: Window<'a>,
    /// Whether the result goes through `x · sigmoid(x)`.
    pub is_silu: bool,
}

/// `out[t, c] = act(bias[c] + Σₖ weight[c, k] · x[t - (w - 1) + k, c])`, each channel along its own sequence. Inputs before a sequence's
/// first row are those that its slot of `state` holds, and its last `w - 1` inputs are put there, older ones behind the first row
/// where it is shorter; where exactly, [`Window`] says. A sequence may go on in any number of calls.
///
/// # Shapes
/// As [`CausalConv`] says; `state`: `[slots, dim, places]`, `w - 1` at least, the oldest first; `out`: `[tokens, dim]`. Any strides: `x` and `out` may be
/// `[dim, tokens]` with its axes swapped.
/// # Types
/// f32, f16 or bf16, `out` as `x`; `weight` and `state` each of `x`'s type or f32.
/// # Numerics
/// Sums in f32, the oldest input first, one rounding at the store. States are inputs as they were, bit by bit. A row's bits depend on
/// its own sequence alone, not on how it is cut into calls. Slots that there are not: see [`Sequences`].
/// # Errors
/// `Shape` for shapes, types and memory that do not fit, and for 2³¹ rows, slots or lanes or more; `Unsupported` for another type of
/// `x`.
/// # Source
/// Mamba's `causal_conv1d`, arXiv:2312.00752.
pub fn causal_conv(stream: &Stream, inputs: &CausalConv<'_>, state: ViewMut<'_>, out: ViewMut<'_>) -> Result<()> {
    let &CausalConv { x, weight, bias, sequences, window, is_silu } = inputs;
    let &[tokens, dim] = x.shape() else {
        return Err(shape(OP, "x", "[tokens, dim]", format!("{:?}", x.shape())));
    };
    let dtype = x.dtype();
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype, arch: x.arch() }.into());
    }
    let taps = weight.shape().last().copied().unwrap_or(0);
    if !(2..=4).contains(&taps) {
        return Err(shape(OP, "weight", "[dim, 2 to 4]", format!("{:?}", weight.shape())));
    }
    let (slots, places) = match *state.shape() {
        [slots, of, places] if of == dim && (taps - 1..BOX_LIMIT).contains(&places) => (slots, places),
        _ => {
            let expected = format!("[slots, {dim}, {} or more]", taps - 1);
            return Err(shape(OP, "state", expected, format!("{:?}", state.shape())));
        }
    };
    let either = [dtype, DType::F32];
    argument(OP, "x", stream, &x, &[dtype], &[tokens, dim])?;
    argument(OP, "weight", stream, &weight, &either, &[dim, taps])?;
    if let Some(bias) = &bias {
        argument(OP, "bias", stream, bias, &[weight.dtype()], &[dim])?;
    }
    argument(OP, "state", stream, &state, &either, &[slots, dim, places])?;
    argument(OP, "out", stream, &out, &[dtype], &[tokens, dim])?;
    let sequence_args = sequences.args(OP, stream, [tokens, slots], false)?;
    let (number, told) = window.told();
    if let Some((arg, told)) = &told {
        argument(OP, arg, stream, told, &[DType::I32], &[sequence_args.count()])?;
    }
    let read = [("x", x), ("weight", weight)].into_iter().chain(bias.map(|bias| ("bias", bias))).chain(told);
    apart(OP, [out.view(), state.view()], read.chain(sequences.views()))?;

    let plan = Plan::new(&x, &out);
    let channels = dim / plan.vector;
    let runs = tokens.div_ceil(plan.run);
    let lanes = runs * channels;
    if lanes >= BOX_LIMIT {
        return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} lanes of {} rows", plan.run), lanes));
    }
    if lanes == 0 || sequence_args.count() == 0 {
        return Ok(());
    }
    let key = CausalConvKey {
        dtype,
        state: state.dtype(),
        weight: weight.dtype(),
        taps,
        window: number,
        vector: plan.vector,
        by_tokens: plan.by_tokens,
        is_whole: matches!(window, Window::First)
            && places == taps - 1
            && plan.vector == CHANNELS
            && in_runs(&weight)
            && bias.iter().all(in_runs)
            && in_runs(&state),
        is_silu,
    };
    static SOURCES: Sources<CausalConvKey> = Sources::new();
    let source = SOURCES.get(key, source);
    let (x_strides, out_strides) = (x.layout().strides(), out.layout().strides());
    let (weight_strides, state_strides) = (weight.layout().strides(), state.layout().strides());
    let args = CausalConvArgs {
        x: x.device_address(),
        out: out.device_address(),
        weight: weight.device_address(),
        bias: bias.map_or(0, |bias| bias.device_address()),
        state: state.device_address(),
        told: told.map_or(0, |(_, told)| told.device_address()),
        x_token: x_strides[0],
        x_channel: x_strides[1],
        out_token: out_strides[0],
        out_channel: out_strides[1],
        weight_channel: weight_strides[0],
        weight_tap: weight_strides[1],
        bias_channel: bias.map_or(0, |bias| bias.layout().strides()[0]),
        state_slot: state_strides[0],
        state_channel: state_strides[1],
        state_place: state_strides[2],
        told_stride: told.map_or(0, |(_, told)| told.layout().strides()[0]),
        sequences: sequence_args,
        across: FastDiv::new(if plan.by_tokens { runs } else { channels }),
        lanes: lanes as u32,
        run: plan.run as u32,
        places: places as u32,
    };
    let grid = [lanes.div_ceil(BLOCK), 1, 1];
    let bytes = 2 * tokens * dim * dtype.size_bytes();
    let work = Work { category: Category::Other, shape: x.shape(), bytes: bytes as u64, ..Work::default() };
    // SAFETY:
    // - `CausalConvArgs` is the twin of the kernel's struct, sizes asserted on both sides. Starts are taken as rows of `x` whatever
    //   they are, slots are followed where the pool has them, windows where a line has their places, and lanes have channels below
    //   `dim`: all of it inside checked views.
    // - It writes `out` and `state` only.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, OP), grid, [BLOCK, 1, 1])
            .with(0, work)
            .run(&args, &[out.buffer(), state.buffer()])
    }
}

/// How lanes share rows and channels.
struct Plan {
    by_tokens: bool,
    /// Channels of a lane.
    vector: usize,
    /// Rows of a lane.
    run: usize,
}

impl Plan {
    fn new(x: &View<'_>, out: &View<'_>) -> Plan {
        let (tokens, dim) = (x.shape()[0], x.shape()[1]);
        let strides = x.layout().strides();
        let by_tokens = strides[0].abs() == 1 && (strides[1] != 1 || dim == 1) && tokens > 1;
        let is_whole = |view: &View<'_>| {
            let strides = view.layout().strides();
            strides[1] == 1
                && (tokens == 1 || strides[0] % CHANNELS as i64 == 0)
                && view.device_address().is_multiple_of((CHANNELS * view.dtype().size_bytes()) as u64)
        };
        let is_vector = !by_tokens && dim % CHANNELS == 0 && is_whole(x) && is_whole(out);
        let vector = if is_vector { CHANNELS } else { 1 };
        let most = if by_tokens { SIDE_BY_SIDE } else { RUNS[0] };
        let is_enough = |run: usize| run <= most && tokens * (dim / vector) >= run * LANES_MIN;
        Plan { by_tokens, vector, run: RUNS.into_iter().find(|&run| is_enough(run)).unwrap_or(1) }
    }
}

/// Whether what each channel has lies side by side, channel after channel, from a multiple of 16 bytes on; the first of three axes may
/// have any stride that keeps it so.
fn in_runs(view: &View<'_>) -> bool {
    let layout = view.layout();
    let (one, slot) = match (layout.shape(), layout.strides()) {
        (&[slots, _, _], &[stride, _, _]) => (layout.slice(0, 0, slots.min(1), 1), if slots > 1 { stride } else { 0 }),
        _ => (Ok(*layout), 0),
    };
    let size = view.dtype().size_bytes() as i64;
    one.is_ok_and(|one| one.is_contiguous()) && slot * size % 16 == 0 && view.device_address().is_multiple_of(16)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CausalConvKey {
    dtype: DType,
    state: DType,
    weight: DType,
    taps: usize,
    window: &'static str,
    vector: usize,
    by_tokens: bool,
    is_whole: bool,
    is_silu: bool,
}

/// The source of one variant.
fn source(key: CausalConvKey) -> Source {
    const TEXT: &str = concat!(include_str!("../sequences.h"), include_str!("causal_conv.hip"));
    let (taps, vector) = (key.taps.to_string(), key.vector.to_string());
    let flag = |is: bool| if is { "1" } else { "0" };
    let defines = [
        ("CAUSAL_TYPE", c_type(key.dtype)),
        ("CAUSAL_STATE", c_type(key.state)),
        ("CAUSAL_WEIGHT", c_type(key.weight)),
        ("CAUSAL_TAPS", &taps),
        ("CAUSAL_WINDOW", key.window),
        ("CAUSAL_VEC", &vector),
        ("CAUSAL_BY_TOKENS", flag(key.by_tokens)),
        ("CAUSAL_WHOLE", flag(key.is_whole)),
        ("CAUSAL_SILU", flag(key.is_silu)),
    ];
    Source::new(OP, TEXT, &defines)
}

/// The sources of the family: the usual filters of models, by channels and by rows, with every window.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let plain = CausalConvKey {
        dtype,
        state: dtype,
        weight: dtype,
        taps: 4,
        window: "0",
        vector: CHANNELS,
        by_tokens: false,
        is_whole: true,
        is_silu: true,
    };
    let turned = CausalConvKey { vector: 1, by_tokens: true, is_whole: false, state: DType::F32, ..plain };
    let speculative = CausalConvKey { window: "1", is_whole: false, ..plain };
    let circular = CausalConvKey { window: "2", ..speculative };
    let short = CausalConvKey { vector: 1, taps: 2, is_whole: false, is_silu: false, weight: DType::F32, ..plain };
    let is_there = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    [plain, turned, speculative, circular, short].into_iter().filter(move |_| is_there).map(|key| (OP, source(key)))
}

/// `CausalConvArgs` of `causal_conv.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CausalConvArgs {
    x: u64,
    out: u64,
    weight: u64,
    bias: u64,
    state: u64,
    told: u64,
    x_token: i64,
    x_channel: i64,
    out_token: i64,
    out_channel: i64,
    weight_channel: i64,
    weight_tap: i64,
    bias_channel: i64,
    state_slot: i64,
    state_channel: i64,
    state_place: i64,
    told_stride: i64,
    sequences: SequenceArgs,
    across: FastDiv,
    lanes: u32,
    run: u32,
    places: u32,
}
const _: () = assert!(size_of::<CausalConvArgs>() == 224);

#[cfg(test)]
mod tests;
