//! `selective_scan`: the launcher of `selective_scan.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use crate::Result;
use crate::family::{BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};
use crate::sequences::{SequenceArgs, Sequences, apart, argument, slot_table};

const OP: &str = "selective_scan";
/// The most numbers of a channel's state.
pub const SELECTIVE_SCAN_STATES_MAX: usize = LANES_MAX * 16;
/// Lanes of a workgroup: `THREADS` of the source.
const THREADS: usize = 128;
/// Lanes of a channel at most: those that reach each other without LDS.
const LANES_MAX: usize = 16;
/// Numbers on end that a lane has: `PIECE` of the source.
const PIECE: usize = 4;

/// What [`selective_scan`] reads; N is the number of numbers of a channel's state.
#[derive(Clone, Copy, Debug)]
pub struct SelectiveScan<'a> {
    /// Rows of all sequences, `[tokens, dim]`.
    pub x: View<'a>,
    /// Steps, `[tokens, dim]`.
    pub dt: View<'a>,
    /// `[dim, N]`, f32.
    pub a: View<'a>,
    /// What comes into states, `[tokens, groups, N]`; a group's channels lie side by side.
    pub b: View<'a>,
    /// What comes out of them, as `b`.
    pub c: View<'a>,
    /// The share of `x` that goes past the state, `[dim]`.
    pub d: Option<View<'a>>,
    /// A gate: the result is multiplied by `z · sigmoid(z)`, `[tokens, dim]`.
    pub z: Option<View<'a>>,
    /// What is added to steps, `[dim]`, of `d`'s type.
    pub dt_bias: Option<View<'a>>,
    /// Whether steps are `log(1 + e^dt)`, the bias added before.
    pub is_softplus: bool,
    /// Where sequences begin, and their slots; with `kept`, those to read, `[sequences]` or `[sequences, places]`.
    pub sequences: Sequences<'a>,
    /// Slots to write that are not those to read, as engines that speculate have them; `None`: a slot is read and written.
    pub kept: Option<ScanKept<'a>>,
}

/// Where states are written, and with which of several each sequence goes on.
#[derive(Clone, Copy, Debug)]
pub struct ScanKept<'a> {
    /// The slot to write of each sequence, that which it reads or one that no other reads: I32, `[sequences]`, any strides. Or
    /// `[sequences, places]`: the state after each token is written to the place of the token's number in its sequence, unless the slot
    /// there is none; of a sequence with more tokens than places the state after the last one alone is, to the first place.
    pub to: View<'a>,
    /// The place among its slots to read at which a sequence that does not begin goes on, counted from 1: how many tokens of its last
    /// call, which kept the state after each, were accepted. I32, `[sequences]`; `None`: all go on at the first place.
    pub accepted: Option<View<'a>>,
}

/// `s = exp(dt · A) s + dt · B · x`, `out = (C · s + D · x) · silu(z)`: by channel and along each sequence, from the state that its slot
/// holds, which is then the last. A sequence may go on in any number of calls.
///
/// # Shapes
/// As [`SelectiveScan`] says, N at most [`SELECTIVE_SCAN_STATES_MAX`]; `state`: `[slots, dim, N]`; `out`: `[tokens, dim]`. Any
/// strides, also 0 where channels of a head share a step and A.
/// # Types
/// f32, f16 or bf16, the same for `x`, `dt`, `b`, `c`, `z` and `out`; `state`, `d` and `dt_bias` each of it or f32.
/// # Numerics
/// In f32; outputs are rounded once, states of 16 bits once in a call. A row's bits depend on its own sequence alone, and with states
/// in f32 not on how it is cut into calls. Where states are kept after each token, what comes next goes on from what was rounded:
/// results are the bits of a call for each token. Slots that there are not: see [`Sequences`]; of several slots to write for a
/// sequence, those keep nothing, and nothing else comes of it. A sequence that goes on at a place that is not there gives zeros, and
/// writes no state.
/// # Errors
/// `Shape` for shapes, types and memory that do not fit, and for 2³¹ rows, slots or workgroups or more; `Unsupported` for another type
/// of `x`.
/// # Source
/// Gu, Dao, "Mamba: linear-time sequence modeling with selective state spaces", arXiv:2312.00752.
pub fn selective_scan(stream: &Stream, inputs: &SelectiveScan<'_>, state: ViewMut<'_>, out: ViewMut<'_>) -> Result<()> {
    let &SelectiveScan { x, d, dt_bias, .. } = inputs;
    let (sequence_args, kept_args) = check(stream, inputs, &state, &out)?;
    let (dim, n) = (x.shape()[1], inputs.a.shape()[1]);
    let lanes = n.div_ceil(PIECE).next_power_of_two().min(LANES_MAX);
    let each = n.div_ceil(lanes * PIECE).next_power_of_two().max(1) * PIECE;
    let blocks = dim.div_ceil(THREADS / lanes);
    let groups = blocks * sequence_args.count();
    if groups >= BOX_LIMIT {
        return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} workgroups"), groups));
    }
    if groups == 0 || x.is_empty() {
        return Ok(());
    }
    let key = SelectiveScanKey {
        dtype: x.dtype(),
        state: state.dtype(),
        weight: d.or(dt_bias).map_or(DType::F32, |view| view.dtype()),
        lanes,
        each,
        is_whole: n % PIECE == 0 && [inputs.b, inputs.c, state.view()].iter().all(in_fours),
        is_softplus: inputs.is_softplus,
        keeps: inputs.kept.is_some(),
    };
    static SOURCES: Sources<SelectiveScanKey> = Sources::new();
    let source = SOURCES.get(key, source);
    let args = arguments(inputs, &state, &out, (sequence_args, kept_args), blocks);
    let work = Work {
        category: Category::Other,
        shape: x.shape(),
        bytes: (3 * x.len() * x.dtype().size_bytes()) as u64,
        ..Work::default()
    };
    // SAFETY:
    // - `SelectiveScanArgs` is the twin of the kernel's struct, sizes asserted on both sides. Starts are taken as rows of `x`
    //   whatever they are, slots are followed where the pool has them and places where there are so many, channels are below `dim`
    //   and numbers below N: all of it inside checked views.
    // - It writes `out` and `state` only.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, OP), [groups, 1, 1], [THREADS, 1, 1])
            .with(0, work)
            .run(&args, &[out.buffer(), state.buffer()])
    }
}

/// Checks every argument.
fn check(
    stream: &Stream,
    inputs: &SelectiveScan<'_>,
    state: &View<'_>,
    out: &View<'_>,
) -> Result<(SequenceArgs, KeptArgs)> {
    let &SelectiveScan { x, dt, a, b, c, d, z, dt_bias, is_softplus: _, sequences, kept } = inputs;
    let &[tokens, dim] = x.shape() else {
        return Err(shape(OP, "x", "[tokens, dim]", format!("{:?}", x.shape())));
    };
    let dtype = x.dtype();
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype, arch: x.arch() }.into());
    }
    let n = a.shape().last().copied().unwrap_or(0);
    if n == 0 || n > SELECTIVE_SCAN_STATES_MAX {
        let expected = format!("[dim, 1 to {SELECTIVE_SCAN_STATES_MAX}]");
        return Err(shape(OP, "a", expected, format!("{:?}", a.shape())));
    }
    let &[_, groups, _] = b.shape() else {
        return Err(shape(OP, "b", "[tokens, groups, N]", format!("{:?}", b.shape())));
    };
    if groups == 0 || dim % groups != 0 {
        return Err(shape(OP, "b", format!("of a number of groups that divides {dim}"), groups));
    }
    let slots = state.shape().first().copied().unwrap_or(0);
    let (either, like_x, by_token) = ([dtype, DType::F32], [tokens, dim], [tokens, groups, n]);
    argument(OP, "x", stream, &x, &[dtype], &like_x)?;
    argument(OP, "dt", stream, &dt, &[dtype], &like_x)?;
    argument(OP, "a", stream, &a, &[DType::F32], &[dim, n])?;
    argument(OP, "b", stream, &b, &[dtype], &by_token)?;
    argument(OP, "c", stream, &c, &[dtype], &by_token)?;
    if let Some(d) = &d {
        argument(OP, "d", stream, d, &either, &[dim])?;
    }
    if let Some(z) = &z {
        argument(OP, "z", stream, z, &[dtype], &like_x)?;
    }
    if let Some(dt_bias) = &dt_bias {
        let same = d.map(|d| [d.dtype(); 2]);
        argument(OP, "dt_bias", stream, dt_bias, &same.unwrap_or(either), &[dim])?;
    }
    argument(OP, "state", stream, state, &either, &[slots, dim, n])?;
    argument(OP, "out", stream, out, &[dtype], &like_x)?;
    let sequence_args = sequences.args(OP, stream, [tokens, slots], kept.is_some())?;
    let kept_args = match &kept {
        Some(kept) => kept.args(stream, &sequences.slots, sequence_args.count())?,
        None => KeptArgs::zeroed(),
    };
    let [to, accepted] = [kept.map(|kept| kept.to), kept.and_then(|kept| kept.accepted)];
    let maybe = [("d", d), ("z", z), ("dt_bias", dt_bias), ("to", to), ("accepted", accepted)];
    let maybe = maybe.into_iter().filter_map(|(arg, view)| Some((arg, view?)));
    let read = [("x", x), ("dt", dt), ("a", a), ("b", b), ("c", c)].into_iter().chain(maybe);
    apart(OP, [*out, *state], read.chain(sequences.views()))?;
    Ok((sequence_args, kept_args))
}

impl ScanKept<'_> {
    /// Checks them, of so many sequences and their slots to read.
    fn args(&self, stream: &Stream, from: &View<'_>, count: usize) -> Result<KeptArgs> {
        let ScanKept { to, accepted } = self;
        slot_table(OP, "to", stream, to, count)?;
        if let Some(accepted) = accepted {
            argument(OP, "accepted", stream, accepted, &[DType::I32], &[count])?;
        }
        let places = |view: &View<'_>| view.shape().get(1).map_or(1, |&places| places as u32);
        let stride = |view: &View<'_>, axis: usize| view.layout().strides().get(axis).copied().unwrap_or(0);
        Ok(KeptArgs {
            to: to.device_address(),
            accepted: accepted.map_or(0, |accepted| accepted.device_address()),
            to_sequence: stride(to, 0),
            to_place: stride(to, 1),
            accepted_sequence: accepted.map_or(0, |accepted| stride(&accepted, 0)),
            from_place: stride(from, 1),
            to_places: places(to),
            from_places: places(from),
            is_each: u32::from(to.shape().len() == 2),
            padding: 0,
        })
    }
}

/// Whether each line begins at a whole four, with its numbers side by side.
fn in_fours(view: &View<'_>) -> bool {
    let (extents, strides) = (view.shape(), view.layout().strides());
    let whole = |axis: usize| extents[axis] <= 1 || strides[axis] % PIECE as i64 == 0;
    strides[2] == 1
        && whole(0)
        && whole(1)
        && view.device_address().is_multiple_of((PIECE * view.dtype().size_bytes()) as u64)
}

/// Address and strides; zeros for what is not given.
fn place<const RANK: usize>(view: Option<&View<'_>>) -> (u64, [i64; RANK]) {
    let Some(view) = view else { return (0, [0; RANK]) };
    let strides = view.layout().strides().try_into().expect("ranks were checked");
    (view.device_address(), strides)
}

fn arguments(
    inputs: &SelectiveScan<'_>,
    state: &View<'_>,
    out: &View<'_>,
    (sequences, kept): (SequenceArgs, KeptArgs),
    blocks: usize,
) -> SelectiveScanArgs {
    let SelectiveScan { x, dt, a, b, c, d, z, dt_bias, .. } = inputs;
    let (dim, groups) = (x.shape()[1], b.shape()[1]);
    let ((x, x_strides), (dt, dt_strides), (a, a_strides)) = (place(Some(x)), place(Some(dt)), place(Some(a)));
    let ((b, b_strides), (c, c_strides), (z, z_strides)) = (place(Some(b)), place(Some(c)), place(z.as_ref()));
    let ((d, [d_channel]), (dt_bias, [dt_bias_channel])) = (place(d.as_ref()), place(dt_bias.as_ref()));
    let ((state, state_strides), (out, out_strides)) = (place(Some(state)), place(Some(out)));
    SelectiveScanArgs {
        x,
        dt,
        b,
        c,
        z,
        out,
        a,
        d,
        dt_bias,
        state,
        x_strides,
        dt_strides,
        z_strides,
        out_strides,
        b_strides,
        c_strides,
        a_strides,
        d_channel,
        dt_bias_channel,
        state_strides,
        kept,
        sequences,
        blocks: FastDiv::new(blocks),
        channels: FastDiv::new(dim / groups),
        dim: dim as u32,
        numbers: inputs.a.shape()[1] as u32,
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SelectiveScanKey {
    dtype: DType,
    state: DType,
    weight: DType,
    lanes: usize,
    each: usize,
    is_whole: bool,
    is_softplus: bool,
    keeps: bool,
}

/// The source of one variant.
fn source(key: SelectiveScanKey) -> Source {
    const TEXT: &str = concat!(include_str!("../sequences.h"), include_str!("selective_scan.hip"));
    let (lanes, each) = (key.lanes.to_string(), key.each.to_string());
    let flag = |is: bool| if is { "1" } else { "0" };
    let defines = [
        ("SCAN_TYPE", c_type(key.dtype)),
        ("SCAN_STATE", c_type(key.state)),
        ("SCAN_WEIGHT", c_type(key.weight)),
        ("SCAN_LANES", &lanes),
        ("SCAN_EACH", &each),
        ("SCAN_IS_WHOLE", flag(key.is_whole)),
        ("SCAN_IS_SOFTPLUS", flag(key.is_softplus)),
        ("SCAN_KEEPS", flag(key.keeps)),
        ("SCAN_IS_NEAR", flag(key.dtype != DType::F32)),
    ];
    Source::new(OP, TEXT, &defines)
}

/// The sources of the family: states of 16 numbers in f32, of 128 and of 256; of 16 and 128 kept after each token.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let plain = SelectiveScanKey {
        dtype,
        state: DType::F32,
        weight: DType::F32,
        lanes: 4,
        each: 4,
        is_whole: true,
        is_softplus: true,
        keeps: false,
    };
    let long = SelectiveScanKey { lanes: 16, each: 8, weight: dtype, ..plain };
    let longest = SelectiveScanKey { lanes: 16, each: 16, state: dtype, is_whole: false, is_softplus: false, ..plain };
    let is_there = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    let keeping = [plain, long].map(|key| SelectiveScanKey { keeps: true, ..key });
    [plain, long, longest].into_iter().chain(keeping).filter(move |_| is_there).map(|key| (OP, source(key)))
}

/// `Kept` of `selective_scan.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct KeptArgs {
    to: u64,
    accepted: u64,
    to_sequence: i64,
    to_place: i64,
    accepted_sequence: i64,
    from_place: i64,
    to_places: u32,
    from_places: u32,
    is_each: u32,
    padding: u32,
}
const _: () = assert!(size_of::<KeptArgs>() == 64);

/// `SelectiveScanArgs` of `selective_scan.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SelectiveScanArgs {
    x: u64,
    dt: u64,
    b: u64,
    c: u64,
    z: u64,
    out: u64,
    a: u64,
    d: u64,
    dt_bias: u64,
    state: u64,
    x_strides: [i64; 2],
    dt_strides: [i64; 2],
    z_strides: [i64; 2],
    out_strides: [i64; 2],
    b_strides: [i64; 3],
    c_strides: [i64; 3],
    a_strides: [i64; 2],
    d_channel: i64,
    dt_bias_channel: i64,
    state_strides: [i64; 3],
    kept: KeptArgs,
    sequences: SequenceArgs,
    blocks: FastDiv,
    channels: FastDiv,
    dim: u32,
    numbers: u32,
}
const _: () = assert!(size_of::<SelectiveScanArgs>() == 408);

#[cfg(test)]
mod tests;
