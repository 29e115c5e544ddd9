//! `delta_rule`: the launcher of `delta.hip` and `chunk.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{Arch, ArchInfo, Matrix};
use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{Buffer, DType, Error, Source, Stream, Tensor, View, ViewMut};

use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};

const OP: &str = "delta_rule";
/// Channels of a key at most: those of a state's columns lie in registers.
pub const DELTA_K_MAX: usize = 256;
/// Threads of a workgroup, and the columns of a state that it has.
const THREADS: usize = 64;
const TILE: usize = 32;
/// Lanes that share a column.
const PARTS: usize = 8;
/// Columns of a lane.
const COLUMNS: usize = 4;
/// Most threads of a grid along its first axis: HIP's own limit.
const THREADS_MAX: usize = u32::MAX as usize;
/// Tokens that are taken at once on the matrix unit, waves of a workgroup that does, and channels of a key that it is made for.
const CHUNK: usize = 64;
const WAVES: usize = 4;
const CHUNK_CHANNELS: [usize; 2] = [64, 128];
/// Columns of one access of values and outputs there.
const CHUNK_VECTOR: usize = 8;
/// f32 elements of a workspace for each token and head: two rows of 16-bit floats, and four factors.
const WORKSPACE: usize = 2 * CHUNK / 2 + 4;
/// Rows of a key's channels in 16-bit floats that are there beside, where each row of a state has a decay.
const KEY_ROWS: usize = 3;
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// How much of a state stays, and how strongly a token is taken into it.
#[allow(clippy::large_enum_variant)] // It lives for a call.
#[derive(Clone, Copy, Debug)]
pub enum DeltaGates<'a> {
    /// As numbers.
    Given {
        /// The logarithm of what a state is multiplied by: f32 `[tokens, heads]`, any strides, or one for each row of a state,
        /// `[tokens, heads, key channels]`, the last axis contiguous.
        g: View<'a>,
        /// f32, `[tokens, heads]`, any strides.
        beta: View<'a>,
    },
    /// From a layer's products: `g = -exp(a_log) · softplus(a + dt_bias)`, `beta = sigmoid(b)`.
    Made {
        /// As `g`, of f32 or the type of `q`.
        a: View<'a>,
        /// As `beta`, of the type of `a`.
        b: View<'a>,
        /// f32, `[heads]`, contiguous.
        a_log: View<'a>,
        /// f32, `[heads]`, or `[heads, key channels]` where each row of a state has a decay; contiguous.
        dt_bias: View<'a>,
        /// Where it is given, `g = bound · sigmoid(exp(a_log) · (a + dt_bias))`.
        bound: Option<f64>,
    },
}

/// What the gated delta rule reads, states aside.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInputs<'a> {
    /// Queries, `[tokens, key heads, key channels]`, the last axis contiguous.
    pub q: View<'a>,
    /// Keys, the same.
    pub k: View<'a>,
    /// Values, `[tokens, heads, channels]`, the last axis contiguous; of a number of heads that those of keys divide.
    pub v: View<'a>,
    /// Decays and strengths.
    pub gates: DeltaGates<'a>,
    /// Which tokens are whose: those of sequence s are `starts[s]` to `starts[s + 1]`. i32, `[sequences + 1]`, contiguous.
    pub starts: View<'a>,
    /// At least the tokens of the longest sequence. It decides how they are computed; more than that are right too, and slow.
    pub longest: usize,
}

/// Where states lie.
#[derive(Debug)]
pub struct DeltaStates<'a> {
    /// `[slots, heads, key channels, channels]`, any strides, f32 or bf16.
    pub pool: ViewMut<'a>,
    /// The slot where each sequence's state is, i32, `[sequences]`, contiguous; or slots of which `accepted` names one,
    /// `[sequences, places]`, those of a sequence side by side.
    pub from: View<'a>,
    /// The slot where it is written: the same numbers, or others that no sequence reads. As `from`. If there are several places, the
    /// state after each token is written to that of the token's number in its sequence, unless the slot there is none; of a sequence
    /// with more tokens than places the state after the last one alone is, to the first place.
    pub to: View<'a>,
    /// 0 for a sequence that begins, whose state is zero whatever lies in its slot. i32, `[sequences]`, contiguous; if not given, all go
    /// on.
    pub continues: Option<View<'a>>,
    /// The place in `from` at which a sequence that does not begin goes on, counted from 1: how many tokens of its last call, which kept
    /// the state after each, were accepted. As `continues`; if not given, all go on at the first place.
    pub accepted: Option<View<'a>>,
    /// A number of a slot that stands for none, as negative ones do. `None`: no other.
    pub pad: Option<i32>,
}

/// What is done to queries and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DeltaParams {
    /// Factor of the queries; `None`: `1 / sqrt(key channels)`.
    pub scale: Option<f64>,
    /// Whether each query and key is first divided by `sqrt(Σ x² + 10⁻⁶)`.
    pub normalises: bool,
    /// Whether tokens of no sequence, before the first one's and behind the last one's, become zeros; else they are left as they are.
    pub fills: bool,
}

/// f32 elements of a workspace for [`delta_rule`] at the most, 0 where it never takes one.
pub fn delta_workspace(inputs: &DeltaInputs<'_>) -> usize {
    let by_row =
        matches!(inputs.gates, DeltaGates::Given { g: a, .. } | DeltaGates::Made { a, .. } if a.shape().len() == 3);
    let channels = inputs.q.shape().last().copied().unwrap_or(0);
    let fits = inputs.longest > CHUNK && CHUNK_CHANNELS.contains(&channels) && inputs.q.dtype() != DType::F32;
    let &[tokens, heads, ..] = inputs.v.shape() else { return 0 };
    match (fits, by_row) {
        (false, _) => 0,
        (true, false) => tokens * heads * WORKSPACE,
        (true, true) => {
            let of_tokens = tokens * heads * (WORKSPACE + KEY_ROWS * channels / 2);
            // What chunks leave of rows; a sequence has a chunk more than it fills at the most.
            of_tokens + (tokens / CHUNK + inputs.starts.len()) * heads * channels
        }
    }
}

/// The gated delta rule: of each head and token `S = e^g S`, `u = beta (v - Sᵀ k)`, `S = S + k uᵀ`, `out = Sᵀ (scale q)`.
/// Value head `h` has the key head `h / (heads / key heads)`.
///
/// # Shapes
/// As [`DeltaInputs`] and [`DeltaStates`] say, keys of at most [`DELTA_K_MAX`] channels. `out`: as `v`. Tokens of no sequence are left
/// as they are, unless `params` says otherwise. A sequence of which a slot is negative or outside the pool gives zeros, and writes no
/// state, and so does one that goes on at a place that is not there; one without tokens reads and writes nothing. Of slots to write,
/// where there are several for a sequence, those that are none keep nothing, and nothing else comes of it. `workspace`: f32, contiguous, at least [`delta_workspace`] elements; `None`: it
/// is allocated where chunks are taken.
/// # Types
/// f32, f16 or bf16, one for `q`, `k`, `v` and `out`; states f32 or bf16.
/// # Numerics
/// In f32, token after token; a state is rounded once, where it is written. Where that is after each token, what comes next goes on from
/// what was rounded: results are the bits of a call for each token. Where `longest` is above 64, of 16 bits, with keys of 64 or
/// 128 channels, values of 32, 64, … and rows of `q` and `k` at multiples of 16 bytes, AMD's matrix units take chunks of 64 tokens,
/// unless there are several slots to write for a sequence: operands of products are then rounded to the type of `q`, sums and states
/// stay f32. With decays by row such operands are keys and queries times decays over a chunk, which in f16 must not grow beyond its
/// range, and `g` counts as -100 where it is less. A sequence's results are the same bits whatever else is in the batch, as long as
/// `longest` is on the same side of 64; those of the first way do not depend on how tokens are spread over launches if states are f32.
/// # Errors
/// `Shape` for shapes, types and strides that do not fit, for outputs that overlap an input; `Unsupported` for another type of `q`;
/// errors of compilation and launch.
/// # Source
/// Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024; decays by row: Kimi Linear, 2025.
pub fn delta_rule(
    stream: &Stream,
    inputs: &DeltaInputs<'_>,
    params: &DeltaParams,
    states: DeltaStates<'_>,
    out: ViewMut<'_>,
    workspace: Option<ViewMut<'_>>,
) -> Result<()> {
    let call = Call::new(stream, inputs, params, &states, &out)?;
    if let Some(given) = &workspace {
        check_workspace(stream, inputs, given, [&states.pool, &out])?;
    }
    if call.groups == 0 {
        if params.fills {
            // Nobody has a token.
            eager::fill(out, Scalar::Int(0))?;
        }
        return Ok(());
    }
    static SOURCES: Sources<DeltaKey> = Sources::new();
    let source = SOURCES.get(call.key, source);
    if !call.key.in_chunks {
        let written = [out.buffer(), states.pool.buffer()];
        // SAFETY:
        // - `DeltaArgs` is the twin of the kernel's struct, sizes asserted on both sides. Tokens are held below those of `q`, `k`, `v`,
        //   gates and `out`, slots below those of the pool; rows and columns below those of a state: all inside checked views.
        // - It writes `out` and the pool only.
        return unsafe {
            KernelLaunch::new(stream, &source, (OP, "delta_steps"), [call.groups, 1, 1], [THREADS, 1, 1])
                .run(&call.args, &written)
        };
    }
    let allocated;
    let memory = match &workspace {
        Some(given) => given.view(),
        None => {
            allocated = Tensor::empty(&stream.device(), &[delta_workspace(inputs)], DType::F32)?;
            allocated.view()
        }
    };
    // What is of 16 bytes first.
    let lines = (out.shape()[0] * out.shape()[1]) as u64;
    let factors = memory.device_address();
    let t = factors + lines * 16;
    let p = t + lines * 2 * CHUNK as u64;
    let [old_k, old_q, new_k, lasts] =
        [0, 1, 2, 3].map(|rows| p + lines * 2 * (CHUNK + rows * call.key.channels) as u64);
    let args = ChunkArgs { all: call.args, t, p, factors, old_k, old_q, new_k, lasts };
    let threads = [WAVES * stream.device().arch().info().wave_size as usize, 1, 1];
    let pairs = call.groups / (out.shape()[2] / TILE);
    let launch = |kernel: &str, grid: [usize; 3], written: &[&Buffer]| {
        // SAFETY:
        // - `ChunkArgs` is the twin of the kernels' struct, sizes asserted on both sides. Of views they touch what the other way does,
        //   of the workspace the rows of tokens that there are.
        // - The first writes the workspace only, the second `out` and the pool.
        unsafe { KernelLaunch::new(stream, &source, (OP, kernel), grid, threads).run(&args, written) }
    };
    launch("delta_chunks", [pairs, call.args.chunks as usize, 1], &[memory.buffer()])?;
    launch("delta_walk", [call.groups, 1, 1], &[out.buffer(), states.pool.buffer()])
}

/// Checks a workspace that is given.
fn check_workspace(stream: &Stream, inputs: &DeltaInputs<'_>, given: &View<'_>, outputs: [&View<'_>; 2]) -> Result<()> {
    family::on_device(OP, "workspace", stream, given)?;
    family::same_dtype(OP, "workspace", given, DType::F32)?;
    let needed = delta_workspace(inputs);
    let is_aligned = needed == 0 || given.device_address().is_multiple_of(16);
    if given.len() < needed || !given.layout().is_contiguous() || !is_aligned {
        let got = format!("{:?}, strides {:?}", given.shape(), given.layout().strides());
        return Err(shape(
            OP,
            "workspace",
            format!("{needed} elements from a multiple of 16 bytes on, contiguous"),
            got,
        ));
    }
    let (DeltaGates::Given { g: a, beta: b } | DeltaGates::Made { a, b, .. }) = inputs.gates;
    for view in [&inputs.q, &inputs.k, &inputs.v, &inputs.starts, &a, &b].into_iter().chain(outputs) {
        family::disjoint(OP, "workspace", given, view)?;
    }
    Ok(())
}

/// Whether an architecture has products of 16 rows and columns in a type as `chunk.hip` wants them: operands straight from memory.
pub(crate) fn has_products(info: &ArchInfo, dtype: DType) -> bool {
    dtype != DType::F32 && matches!(info.matrix, Matrix::Mfma(_) | Matrix::Wmma11 | Matrix::Wmma12)
}

/// A checked call.
struct Call {
    key: DeltaKey,
    args: DeltaArgs,
    groups: usize,
}

impl Call {
    fn new(
        stream: &Stream,
        inputs: &DeltaInputs<'_>,
        params: &DeltaParams,
        states: &DeltaStates<'_>,
        out: &View<'_>,
    ) -> Result<Call> {
        let DeltaInputs { q, k, v, starts, .. } = inputs;
        let dtype = q.dtype();
        if !FLOATS.contains(&dtype) {
            return Err(Error::Unsupported { op: OP, dtype, arch: q.arch() }.into());
        }
        let axes = |arg, view: &View<'_>, names: &str| {
            <[usize; 3]>::try_from(view.shape()).map_err(|_| shape(OP, arg, names, format!("{:?}", view.shape())))
        };
        let [tokens, key_heads, key_channels] = axes("q", q, "[tokens, key heads, key channels]")?;
        let [_, heads, channels] = axes("v", v, "[tokens, heads, channels]")?;
        if key_channels == 0 || key_channels > DELTA_K_MAX {
            return Err(shape(OP, "q", format!("1 to {DELTA_K_MAX} channels"), key_channels));
        }
        if key_heads == 0 || heads % key_heads != 0 {
            return Err(shape(OP, "v", format!("a number of heads that {key_heads} divides"), heads));
        }
        if tokens >= BOX_LIMIT || channels >= BOX_LIMIT {
            let expected = format!("fewer than {BOX_LIMIT} tokens and channels");
            return Err(shape(OP, "v", expected, format!("{:?}", v.shape())));
        }
        let of_key = [tokens, key_heads, key_channels];
        for (arg, view, expected) in [
            ("q", q, of_key),
            ("k", k, of_key),
            ("v", v, [tokens, heads, channels]),
            ("out", out, [tokens, heads, channels]),
        ] {
            given(stream, arg, view, &expected, &[dtype])?;
            rows(arg, view)?;
        }
        let sequences = starts.shape().first().map_or(0, |bounds| bounds.saturating_sub(1));
        let integers = [
            ("starts", Some(*starts), sequences + 1),
            ("continues", states.continues, sequences),
            ("accepted", states.accepted, sequences),
        ];
        for (arg, view, count) in integers {
            if let Some(view) = &view {
                given(stream, arg, view, &[count], &[DType::I32])?;
                contiguous(arg, view)?;
            }
        }
        let tables = [("from", states.from), ("to", states.to)];
        for (arg, view) in &tables {
            table(stream, arg, view, sequences)?;
        }
        let slots = states.pool.shape().first().copied().unwrap_or(0);
        let pool: &View<'_> = &states.pool;
        given(stream, "pool", pool, &[slots, heads, key_channels, channels], &[DType::F32, DType::BF16])?;
        if slots >= BOX_LIMIT {
            return Err(shape(OP, "pool", format!("fewer than {BOX_LIMIT} slots"), slots));
        }
        let gates = Gates::new(stream, &inputs.gates, dtype, [tokens, heads, key_channels])?;
        let groups = sequences * heads * channels.div_ceil(TILE);
        if groups >= BOX_LIMIT || groups * THREADS > THREADS_MAX {
            let expected = format!("fewer than {} tiles of {TILE} columns", THREADS_MAX / THREADS);
            return Err(shape(OP, "v", expected, groups));
        }
        let integers = integers.into_iter().filter_map(|(arg, view, _)| Some((arg, view?))).chain(tables);
        apart(inputs, &gates, integers, pool, out)?;
        let vectors = vectors(inputs, &gates, pool, out);
        let args = args(inputs, params, states, out, &gates);
        let device = stream.device();
        let keeps = states.to.shape().len() == 2;
        let in_chunks = device.config().matrix
            && !keeps
            && has_products(device.arch().info(), dtype)
            && delta_workspace(inputs) > 0
            && channels.is_multiple_of(TILE)
            && vectors[1] == 16 / dtype.size_bytes();
        let vector = if in_chunks && vectors[0] == COLUMNS && [v, out].into_iter().all(|view| whole(view, CHUNK_VECTOR))
        {
            CHUNK_VECTOR
        } else if in_chunks {
            1
        } else {
            vectors[0]
        };
        let key = DeltaKey {
            dtype,
            state: pool.dtype(),
            gate: gates.a.dtype(),
            channels: key_channels,
            form: gates.form,
            by_row: gates.by_row,
            vector,
            key_vector: vectors[1],
            in_chunks,
            keeps,
        };
        Ok(Call { key, args, groups: if tokens == 0 { 0 } else { groups } })
    }
}

/// Checks device, type and shape.
fn given(stream: &Stream, arg: &'static str, view: &View<'_>, expected: &[usize], dtypes: &[DType]) -> Result<()> {
    family::on_device(OP, arg, stream, view)?;
    if !dtypes.contains(&view.dtype()) {
        return Err(shape(OP, arg, format!("of {dtypes:?}"), view.dtype()));
    }
    if view.shape() != expected {
        return Err(shape(OP, arg, format!("{expected:?}"), format!("{:?}", view.shape())));
    }
    Ok(())
}

/// Checks that the last axis is contiguous.
fn rows(arg: &'static str, view: &View<'_>) -> Result<()> {
    let (extents, strides) = (view.shape(), view.layout().strides());
    let (Some(&extent), Some(&stride)) = (extents.last(), strides.last()) else { return Ok(()) };
    if extent > 1 && stride != 1 {
        return Err(shape(OP, arg, "rows whose elements lie side by side", format!("strides {strides:?}")));
    }
    Ok(())
}

/// Checks slots of sequences, one for each or a row of them.
fn table(stream: &Stream, arg: &'static str, view: &View<'_>, sequences: usize) -> Result<()> {
    let &[_, places] = view.shape() else {
        given(stream, arg, view, &[sequences], &[DType::I32])?;
        return contiguous(arg, view);
    };
    given(stream, arg, view, &[sequences, places], &[DType::I32])?;
    if places == 0 || places >= BOX_LIMIT {
        return Err(shape(OP, arg, "rows of at least a slot", format!("{:?}", view.shape())));
    }
    rows(arg, view)
}

fn contiguous(arg: &'static str, view: &View<'_>) -> Result<()> {
    if view.layout().is_contiguous() {
        return Ok(());
    }
    Err(shape(OP, arg, "contiguous", format!("strides {:?}", view.layout().strides())))
}

/// Where gates come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Given,
    Made,
    Bounded,
}

/// Checked gates.
struct Gates<'a> {
    form: Form,
    by_row: bool,
    a: View<'a>,
    b: View<'a>,
    /// `a_log` and `dt_bias`.
    made_with: Option<[View<'a>; 2]>,
    bound: f64,
}

impl<'a> Gates<'a> {
    fn new(
        stream: &Stream,
        gates: &DeltaGates<'a>,
        dtype: DType,
        [tokens, heads, key_channels]: [usize; 3],
    ) -> Result<Gates<'a>> {
        let (names, a, b, made_with, bound) = match *gates {
            DeltaGates::Given { g, beta } => (["g", "beta"], g, beta, None, None),
            DeltaGates::Made { a, b, a_log, dt_bias, bound } => (["a", "b"], a, b, Some([a_log, dt_bias]), bound),
        };
        let form = match (&made_with, bound) {
            (None, _) => Form::Given,
            (Some(_), None) => Form::Made,
            (Some(_), Some(_)) => Form::Bounded,
        };
        if bound.is_some_and(|bound| !bound.is_finite()) {
            return Err(shape(OP, "bound", "a finite number", format!("{bound:?}")));
        }
        let by_row = a.shape().len() == 3;
        let extents = [tokens, heads, key_channels];
        let dtypes = if form == Form::Given { [DType::F32; 2] } else { [DType::F32, dtype] };
        given(stream, names[0], &a, &extents[..if by_row { 3 } else { 2 }], &dtypes)?;
        if by_row {
            rows(names[0], &a)?;
        }
        given(stream, names[1], &b, &extents[..2], &[a.dtype()])?;
        if let Some([a_log, dt_bias]) = &made_with {
            given(stream, "a_log", a_log, &[heads], &[DType::F32])?;
            given(stream, "dt_bias", dt_bias, &extents[1..if by_row { 3 } else { 2 }], &[DType::F32])?;
            contiguous("a_log", a_log)?;
            contiguous("dt_bias", dt_bias)?;
        }
        Ok(Gates { form, by_row, a, b, made_with, bound: bound.unwrap_or(0.0) })
    }

    /// By their names.
    fn views(&self) -> impl Iterator<Item = (&'static str, View<'a>)> {
        let names = if self.form == Form::Given { ["g", "beta"] } else { ["a", "b"] };
        let made_with = self.made_with.map(|[a_log, dt_bias]| [("a_log", a_log), ("dt_bias", dt_bias)]);
        [(names[0], self.a), (names[1], self.b)].into_iter().chain(made_with.into_iter().flatten())
    }
}

/// Checks that what is written is written once, and is apart from what is read.
fn apart<'a>(
    inputs: &DeltaInputs<'a>,
    gates: &Gates<'a>,
    integers: impl Iterator<Item = (&'static str, View<'a>)>,
    pool: &View<'_>,
    out: &View<'_>,
) -> Result<()> {
    family::writable(OP, "out", out)?;
    family::writable(OP, "pool", pool)?;
    family::disjoint(OP, "pool", out, pool)?;
    let read = [("q", inputs.q), ("k", inputs.k), ("v", inputs.v)].into_iter().chain(gates.views());
    for (arg, view) in read.chain(integers) {
        family::disjoint(OP, arg, out, &view)?;
        family::disjoint(OP, arg, pool, &view)?;
    }
    Ok(())
}

/// Whether rows are whole accesses of so many elements.
fn whole(view: &View<'_>, step: usize) -> bool {
    let (extents, strides) = (view.shape(), view.layout().strides());
    let last = extents.len() - 1;
    let outer = extents[..last].iter().zip(strides).all(|(&extent, &stride)| extent < 2 || stride % step as i64 == 0);
    let bytes = (step * view.dtype().size_bytes()).min(16) as u64;
    outer && strides[last] == 1 && extents[last].is_multiple_of(step) && view.device_address().is_multiple_of(bytes)
}

/// Elements that one access moves: of values, outputs and states, and of queries, keys and decays of rows.
fn vectors(inputs: &DeltaInputs<'_>, gates: &Gates<'_>, pool: &View<'_>, out: &View<'_>) -> [usize; 2] {
    let of_columns = [&inputs.v, pool, out].iter().all(|view| whole(view, COLUMNS));
    let of_keys = |step: usize| {
        let each = inputs.q.shape()[2].div_ceil(PARTS);
        let decays = !gates.by_row || whole(&gates.a, step.min(4));
        each.is_multiple_of(step) && decays && whole(&inputs.q, step) && whole(&inputs.k, step)
    };
    let most = 16 / inputs.q.dtype().size_bytes();
    let of_keys = [most, 4, 2].into_iter().find(|&step| of_keys(step)).unwrap_or(1);
    [if of_columns { COLUMNS } else { 1 }, of_keys]
}

fn args(
    inputs: &DeltaInputs<'_>,
    params: &DeltaParams,
    states: &DeltaStates<'_>,
    out: &View<'_>,
    gates: &Gates<'_>,
) -> DeltaArgs {
    let [tokens, key_heads, key_channels] = [0, 1, 2].map(|axis| inputs.q.shape()[axis]);
    let [heads, channels] = [1, 2].map(|axis| out.shape()[axis]);
    let stride = |view: &View<'_>, axis: usize| view.layout().strides()[axis];
    let places = |view: &View<'_>| view.shape().get(1).map_or(1, |&places| places as u32);
    let address = |view: Option<View<'_>>| view.map_or(0, |view| view.device_address());
    let pool: &View<'_> = &states.pool;
    DeltaArgs {
        q: inputs.q.device_address(),
        k: inputs.k.device_address(),
        v: inputs.v.device_address(),
        out: out.device_address(),
        a: gates.a.device_address(),
        b: gates.b.device_address(),
        a_log: address(gates.made_with.map(|[a_log, _]| a_log)),
        dt_bias: address(gates.made_with.map(|[_, dt_bias]| dt_bias)),
        states: pool.device_address(),
        starts: inputs.starts.device_address(),
        from: states.from.device_address(),
        to: states.to.device_address(),
        continues: address(states.continues),
        accepted: address(states.accepted),
        q_token: stride(&inputs.q, 0),
        q_head: stride(&inputs.q, 1),
        k_token: stride(&inputs.k, 0),
        k_head: stride(&inputs.k, 1),
        v_token: stride(&inputs.v, 0),
        v_head: stride(&inputs.v, 1),
        out_token: stride(out, 0),
        out_head: stride(out, 1),
        a_token: stride(&gates.a, 0),
        a_head: stride(&gates.a, 1),
        b_token: stride(&gates.b, 0),
        b_head: stride(&gates.b, 1),
        state_slot: stride(pool, 0),
        state_head: stride(pool, 1),
        state_row: stride(pool, 2),
        state_column: stride(pool, 3),
        from_row: stride(&states.from, 0),
        to_row: stride(&states.to, 0),
        tiles: FastDiv::new(channels.div_ceil(TILE)),
        heads: FastDiv::new(heads),
        group: FastDiv::new(heads / key_heads),
        tokens: tokens as u32,
        slots: pool.shape()[0] as u32,
        columns: channels as u32,
        normalises: u32::from(params.normalises),
        scale: params.scale.unwrap_or_else(|| 1.0 / (key_channels as f64).sqrt()) as f32,
        bound: gates.bound as f32,
        chunks: inputs.longest.div_ceil(CHUNK).clamp(1, GRID_YZ_MAX) as u32,
        sequences: if params.fills { inputs.starts.len() as u32 - 1 } else { 0 },
        from_places: places(&states.from),
        to_places: places(&states.to),
        pad: states.pad.unwrap_or(-1),
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeltaKey {
    pub dtype: DType,
    pub state: DType,
    pub gate: DType,
    /// Of a key.
    pub channels: usize,
    pub form: Form,
    pub by_row: bool,
    pub vector: usize,
    pub key_vector: usize,
    pub in_chunks: bool,
    /// Whether there are slots for the state after each token.
    pub keeps: bool,
}

/// The source of one variant.
pub(crate) fn source(key: DeltaKey) -> Source {
    let [channels, vector, key_vector] = [key.channels, key.vector, key.key_vector].map(|number| number.to_string());
    let form = match key.form {
        Form::Given => "0",
        Form::Made => "1",
        Form::Bounded => "2",
    };
    let defines = [
        ("DELTA_TYPE", c_type(key.dtype)),
        ("DELTA_STATE", c_type(key.state)),
        ("DELTA_GATE", c_type(key.gate)),
        ("DELTA_K", &channels),
        ("DELTA_GATES", form),
        ("DELTA_ROWS", if key.by_row { "1" } else { "0" }),
        ("DELTA_KEEPS", if key.keeps { "1" } else { "0" }),
        ("DELTA_VEC", &vector),
        ("DELTA_K_VEC", &key_vector),
    ];
    let text = match key.in_chunks {
        true => concat!(include_str!("delta.h"), include_str!("chunk.hip")),
        false => concat!(include_str!("delta.h"), include_str!("delta.hip")),
    };
    Source::new(OP, text, &defines)
}

/// The sources of the family: heads of 128, given and made gates, decays by row, states kept after each token, chunks where there is a matrix unit for them.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let forms = [(Form::Given, false), (Form::Given, true), (Form::Made, false), (Form::Bounded, true)];
    let made = move |(form, by_row)| {
        let (gate, state) = if form == Form::Given { (DType::F32, DType::F32) } else { (dtype, DType::BF16) };
        let key_vector = 16 / dtype.size_bytes();
        let of = move |in_chunks| {
            let vector = if in_chunks { CHUNK_VECTOR } else { COLUMNS };
            let keeps = false;
            DeltaKey { dtype, state, gate, channels: 128, form, by_row, vector, key_vector, in_chunks, keeps }
        };
        let chunks = has_products(arch.info(), dtype);
        let keys = [Some(of(false)), Some(DeltaKey { keeps: true, ..of(false) }), chunks.then(|| of(true))];
        keys.into_iter().flatten().map(|key| (OP, source(key)))
    };
    forms.into_iter().filter(move |_| FLOATS.contains(&dtype)).flat_map(made)
}

/// `DeltaArgs` of `delta.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct DeltaArgs {
    q: u64,
    k: u64,
    v: u64,
    out: u64,
    a: u64,
    b: u64,
    a_log: u64,
    dt_bias: u64,
    states: u64,
    starts: u64,
    from: u64,
    to: u64,
    continues: u64,
    accepted: u64,
    q_token: i64,
    q_head: i64,
    k_token: i64,
    k_head: i64,
    v_token: i64,
    v_head: i64,
    out_token: i64,
    out_head: i64,
    a_token: i64,
    a_head: i64,
    b_token: i64,
    b_head: i64,
    state_slot: i64,
    state_head: i64,
    state_row: i64,
    state_column: i64,
    from_row: i64,
    to_row: i64,
    tiles: FastDiv,
    heads: FastDiv,
    group: FastDiv,
    tokens: u32,
    slots: u32,
    columns: u32,
    normalises: u32,
    scale: f32,
    bound: f32,
    chunks: u32,
    sequences: u32,
    from_places: u32,
    to_places: u32,
    pad: i32,
}
const _: () = assert!(size_of::<DeltaArgs>() == 336);

/// `ChunkArgs` of `chunk.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ChunkArgs {
    all: DeltaArgs,
    t: u64,
    p: u64,
    factors: u64,
    old_k: u64,
    old_q: u64,
    new_k: u64,
    lasts: u64,
}
const _: () = assert!(size_of::<ChunkArgs>() == 392);

#[cfg(test)]
mod tests;
