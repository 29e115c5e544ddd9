//! `rope`: the launchers of `rope.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Error, Source, Stream, View, ViewMut};

use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};

const OP: &str = "rope";
/// Most rows of a launch times its parts: HIP's limit along the first axis, in threads.
const GROUPS_MAX: usize = (1 << 24) - 1;

/// Which elements form a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RopeStyle {
    /// Element `i` and `i + rot / 2`, as in GPT-NeoX and Llama.
    #[default]
    NeoX,
    /// Elements `2 i` and `2 i + 1`, as in GPT-J.
    GptJ,
}

/// Where the angles come from.
#[derive(Clone, Copy, Debug)]
pub enum RopeAngles<'a> {
    /// Cosines and sines, `[positions, rot / 2]`, contiguous, f32 (f64 for f64): see [`rope_table`]. A position outside takes the
    /// nearest row.
    Tables {
        /// Cosines.
        cosines: View<'a>,
        /// Sines.
        sines: View<'a>,
    },
    /// Computed where they are needed, from radians per position.
    Computed {
        /// `[rot / 2]`, f64, contiguous: [`super::RopeFrequencies::inverse`].
        inverse: View<'a>,
        /// [`super::RopeFrequencies::magnitude`].
        magnitude: f64,
    },
}

/// The position of each row, to which the offset is added.
#[derive(Clone, Copy, Debug, Default)]
pub enum RopePositions<'a> {
    /// The row's number.
    #[default]
    InOrder,
    /// `[batches, rows]`, I32 or I64, any strides.
    Given(View<'a>),
    /// Sequences one after the other: I32, `[sequences + 1]`, contiguous; a row counts from its sequence's start.
    Starts(View<'a>),
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RopeParams<'a> {
    /// Which elements form a pair.
    pub style: RopeStyle,
    /// How many elements of a head are turned, an even number; `None`: all. The others are copied.
    pub rot: Option<usize>,
    /// Where rows are.
    pub positions: RopePositions<'a>,
    /// Added to every position.
    pub offset: i64,
    /// Turns back: the gradient.
    pub inverse: bool,
}

/// A tensor that is turned, and where the result goes.
#[derive(Debug)]
pub struct RopeTensor<'a> {
    /// `[batches, heads, rows, depth]`, the last axis contiguous; `None`: what `to` holds, in place.
    pub from: Option<View<'a>>,
    /// The same shape.
    pub to: ViewMut<'a>,
}

/// Turns pairs of elements by their row's position, of one tensor or two (queries and keys) in one launch.
///
/// # Shapes
/// Tensors as [`RopeTensor`] says, of the same batches, rows and depth, heads their own. Rows before heads is the view with two
/// axes swapped; sequences one after the other are one batch with [`RopePositions::Starts`].
/// # Types
/// f64, f32, f16, bf16, the same for all.
/// # Numerics
/// Angles are computed and reduced in f64, the rest in f32 (f64 for f64), with one rounding at the store.
/// # Errors
/// `Shape` for shapes, strides and tables that do not fit, and for an output that overlaps an input without being it;
/// `Unsupported` for other types; errors of compilation and launch.
pub fn rope(
    stream: &Stream,
    tensors: &mut [RopeTensor<'_>],
    angles: &RopeAngles<'_>,
    params: &RopeParams<'_>,
) -> Result<()> {
    let call = Call::new(stream, tensors, angles, params)?;
    if call.empty {
        return Ok(());
    }
    static SOURCES: Sources<RopeKey> = Sources::new();
    let source = SOURCES.get(call.key, source);
    let parts = call.parts;
    let rows = call.args.rows as usize;
    if rows * parts > GROUPS_MAX || call.batches > GRID_YZ_MAX {
        let got = format!("{} batches of {rows} rows", call.batches);
        return Err(shape(OP, "from", format!("at most {GRID_YZ_MAX} batches, {GROUPS_MAX} workgroups of rows"), got));
    }
    let grid = [rows * parts, call.batches, tensors.len()];
    let first: &Buffer = tensors[0].to.buffer();
    let written = [first, tensors.last().map_or(first, |tensor| tensor.to.buffer())];
    // SAFETY:
    // - `RopeArgs` is the twin of the kernel's struct, sizes asserted on both sides. Views were checked to have the shapes in it
    //   and lie inside their buffers; rows of tables and sequences are held inside of what there is.
    // - It writes the outputs only.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, "rope"), grid, [BLOCK, 1, 1])
            .run(&call.args, &written[..tensors.len()])?
    };
    Ok(())
}

/// Cosines and sines of positions from `first` on, for [`RopeAngles::Tables`].
///
/// # Shapes
/// `inverse`: `[rot / 2]`, f64, contiguous; `cosines`, `sines`: `[positions, rot / 2]`, contiguous, f32 or f64.
/// # Errors
/// `Shape` for other shapes or types; errors of compilation and launch.
pub fn rope_table(
    stream: &Stream,
    inverse: View<'_>,
    magnitude: f64,
    first: i64,
    cosines: ViewMut<'_>,
    sines: ViewMut<'_>,
) -> Result<()> {
    const OP: &str = "rope_table";
    let dtype = cosines.dtype();
    family::same_dtype(OP, "inverse", &inverse, DType::F64)?;
    family::same_dtype(OP, "sines", &sines, dtype)?;
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(shape(OP, "cosines", "f32 or f64", dtype));
    }
    for (arg, view) in [("inverse", &inverse), ("cosines", &cosines), ("sines", &sines)] {
        family::on_device(OP, arg, stream, view)?;
        if !view.layout().is_contiguous() {
            return Err(shape(OP, arg, "contiguous", format!("strides {:?}", view.layout().strides())));
        }
    }
    let half = inverse.len();
    let fits = |view: &View<'_>| view.shape() == cosines.shape() && view.shape().get(1) == Some(&half);
    if !fits(&cosines) || !fits(&sines) || inverse.layout().rank() != 1 {
        let got = format!("{:?} and {:?} for {:?}", cosines.shape(), sines.shape(), inverse.shape());
        return Err(shape(OP, "cosines, sines", "[positions, rot / 2]", got));
    }
    family::disjoint(OP, "sines", &cosines, &sines)?;
    family::disjoint(OP, "inverse", &cosines, &inverse)?;
    family::disjoint(OP, "inverse", &sines, &inverse)?;
    if cosines.is_empty() {
        return Ok(());
    }
    let count = cosines.len();
    if count.div_ceil(BLOCK) > GROUPS_MAX {
        return Err(shape(OP, "cosines", format!("at most {} elements", GROUPS_MAX * BLOCK), count));
    }
    static SOURCES: Sources<RopeKey> = Sources::new();
    let key = RopeKey { dtype, position: DType::I32, vector: 1, style: RopeStyle::NeoX, tables: true };
    let source = SOURCES.get(key, source);
    let args = TableArgs {
        inverse: inverse.device_address(),
        cosines: cosines.device_address(),
        sines: sines.device_address(),
        first,
        count: count as i64,
        magnitude,
        half: half as u32,
        padding: 0,
    };
    let written = [cosines.buffer(), sines.buffer()];
    let grid = [count.div_ceil(BLOCK), 1, 1];
    // SAFETY:
    // - `TableArgs` is the twin of the kernel's struct; both tables have `count` elements, `inverse` has `half`.
    // - It writes both tables only.
    unsafe { KernelLaunch::new(stream, &source, (OP, "rope_table"), grid, [BLOCK, 1, 1]).run(&args, &written)? };
    Ok(())
}

/// A checked call.
struct Call {
    key: RopeKey,
    args: RopeArgs,
    batches: usize,
    /// Workgroups of a row.
    parts: usize,
    empty: bool,
}

impl Call {
    fn new(
        stream: &Stream,
        tensors: &[RopeTensor<'_>],
        angles: &RopeAngles<'_>,
        params: &RopeParams<'_>,
    ) -> Result<Call> {
        let Some(first) = tensors.first().filter(|_| tensors.len() <= 2) else {
            return Err(shape(OP, "tensors", "one or two", tensors.len()));
        };
        let dtype = first.to.dtype();
        if !dtype.is_float() {
            return Err(Error::Unsupported { op: OP, dtype, arch: first.to.arch() }.into());
        }
        let [batches, _, rows, depth] = extents("to", &first.to)?;
        let rot = params.rot.unwrap_or(depth);
        if !rot.is_multiple_of(2) || rot > depth || rot == 0 {
            return Err(shape(OP, "rot", format!("even, above 0 and at most {depth}"), rot));
        }
        let mut vector = 16 / dtype.size_bytes();
        for tensor in tensors {
            check_tensor(stream, tensor, dtype, [batches, rows, depth])?;
            while vector > 1 && !readable(tensor, rot, depth, vector) {
                vector /= 2;
            }
        }
        if let RopeAngles::Tables { cosines, sines } = angles {
            // What a lane reads of a table at once, where that is not in tensors aligned already.
            let whole = |view: &View<'_>, vector: usize| {
                view.device_address().is_multiple_of((vector * view.dtype().size_bytes()).min(16) as u64)
            };
            while vector > 1 && !(whole(cosines, vector) && whole(sines, vector)) {
                vector /= 2;
            }
        }
        let mut args = RopeArgs::zeroed();
        args.set_angles(stream, angles, dtype, rot)?;
        let position = args.set_positions(stream, &params.positions, [batches, rows])?;
        let in_place = tensors.iter().all(|tensor| tensor.from.is_none());
        args.rotated_chunks = (rot / 2 / vector) as u32;
        let chunks = args.rotated_chunks as usize + if in_place { 0 } else { (depth - rot) / vector };
        for (to, tensor) in args.tensor.iter_mut().zip(tensors) {
            *to = TensorArgs::of(tensor);
        }
        let heads = tensors.iter().map(|tensor| tensor.to.shape()[1]).max().unwrap_or(0);
        let lanes = heads * chunks;
        if lanes >= BOX_LIMIT {
            return Err(shape(OP, "to", format!("fewer than {BOX_LIMIT} accesses to a row of all heads"), lanes));
        }
        let parts = lanes.div_ceil(BLOCK).max(1);
        (args.parts, args.chunks) = (FastDiv::new(parts), FastDiv::new(chunks));
        args.offset = params.offset;
        args.sign = if params.inverse { -1.0 } else { 1.0 };
        (args.rows, args.half) = (rows as u32, (rot / 2) as u32);
        let tables = matches!(angles, RopeAngles::Tables { .. });
        let key = RopeKey { dtype, position, vector, style: params.style, tables };
        let empty = tensors.iter().all(|tensor| tensor.to.is_empty());
        Ok(Call { key, args, batches, parts, empty })
    }
}

fn extents(arg: &'static str, view: &View<'_>) -> Result<[usize; 4]> {
    <[usize; 4]>::try_from(view.shape())
        .map_err(|_| shape(OP, arg, "[batches, heads, rows, depth]", format!("{:?}", view.shape())))
}

fn check_tensor(
    stream: &Stream,
    tensor: &RopeTensor<'_>,
    dtype: DType,
    [batches, rows, depth]: [usize; 3],
) -> Result<()> {
    let to = tensor.to.view();
    for (arg, view) in [("to", Some(to)), ("from", tensor.from)] {
        let Some(view) = view else { continue };
        family::on_device(OP, arg, stream, &view)?;
        family::same_dtype(OP, arg, &view, dtype)?;
        let [own_batches, _, own_rows, own_depth] = extents(arg, &view)?;
        if [own_batches, own_rows, own_depth] != [batches, rows, depth] {
            let expected = format!("[{batches}, heads, {rows}, {depth}]");
            return Err(shape(OP, arg, expected, format!("{:?}", view.shape())));
        }
        if depth > 1 && view.layout().strides()[3] != 1 {
            return Err(shape(OP, arg, "a last axis of stride 1", view.layout().strides()[3]));
        }
    }
    family::writable(OP, "to", &to)?;
    let Some(from) = tensor.from else { return Ok(()) };
    if from.shape() != to.shape() {
        return Err(shape(OP, "to", format!("{:?}", from.shape()), format!("{:?}", to.shape())));
    }
    family::disjoint(OP, "from", &to, &from)
}

/// Whether pairs, and what is behind them, can be moved `vector` elements at once.
fn readable(tensor: &RopeTensor<'_>, rot: usize, depth: usize, vector: usize) -> bool {
    let whole = |view: &View<'_>| {
        let bytes = (vector * view.dtype().size_bytes()) as u64;
        let layout = view.layout();
        let axis = |axis: usize| layout.shape()[axis] == 1 || layout.strides()[axis] % vector as i64 == 0;
        (0..3).all(axis) && view.device_address().is_multiple_of(bytes)
    };
    let aligned = whole(&tensor.to) && tensor.from.as_ref().is_none_or(whole);
    aligned && (rot / 2).is_multiple_of(vector) && (depth - rot).is_multiple_of(vector)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RopeKey {
    pub dtype: DType,
    pub position: DType,
    pub vector: usize,
    pub style: RopeStyle,
    /// Whether angles come from tables.
    pub tables: bool,
}

/// The source of one variant.
pub(crate) fn source(key: RopeKey) -> Source {
    let real = if key.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let vector = key.vector.to_string();
    let defines = [
        ("ROPE_TYPE", c_type(key.dtype)),
        ("ROPE_REAL", c_type(real)),
        ("ROPE_POSITION", c_type(key.position)),
        ("ROPE_VEC", &vector),
        ("ROPE_PAIRS", if key.style == RopeStyle::GptJ { "1" } else { "0" }),
        ("ROPE_TABLES", if key.tables { "1" } else { "0" }),
    ];
    Source::new("rope", include_str!("rope.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let kinds = [(DType::I32, 16, RopeStyle::NeoX), (DType::I64, 1, RopeStyle::GptJ)];
    let kinds = kinds.into_iter().filter(move |_| dtype.is_float());
    kinds.flat_map(move |(position, vector, style)| {
        let vector = (vector / dtype.size_bytes()).max(1);
        [true, false].map(|tables| (OP, source(RopeKey { dtype, position, vector, style, tables })))
    })
}

/// `RopeTensor` of `rope.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct TensorArgs {
    from: u64,
    to: u64,
    from_strides: [i64; 3],
    to_strides: [i64; 3],
    heads: u32,
    padding: u32,
}

impl TensorArgs {
    fn of(tensor: &RopeTensor<'_>) -> TensorArgs {
        let to = tensor.to.view();
        let from = tensor.from.unwrap_or(to);
        let strides = |view: &View<'_>| {
            let (shape, strides) = (view.layout().shape(), view.layout().strides());
            std::array::from_fn(|axis| if shape[axis] == 1 { 0 } else { strides[axis] })
        };
        let heads = to.shape()[1];
        TensorArgs {
            from: from.device_address(),
            to: to.device_address(),
            from_strides: strides(&from),
            to_strides: strides(&to),
            heads: heads as u32,
            padding: 0,
        }
    }
}

/// `RopeArgs` of `rope.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RopeArgs {
    tensor: [TensorArgs; 2],
    inverse: u64,
    cosines: u64,
    sines: u64,
    positions: u64,
    starts: u64,
    offset: i64,
    positions_batch: i64,
    positions_row: i64,
    table_rows: i64,
    magnitude: f64,
    sign: f64,
    parts: FastDiv,
    chunks: FastDiv,
    rows: u32,
    half: u32,
    rotated_chunks: u32,
    sequences: u32,
}
const _: () = assert!(size_of::<RopeArgs>() == 272);

impl RopeArgs {
    fn set_angles(&mut self, stream: &Stream, angles: &RopeAngles<'_>, dtype: DType, rot: usize) -> Result<()> {
        let contiguous = |arg: &'static str, view: &View<'_>, dtype: DType| -> Result<()> {
            family::on_device(OP, arg, stream, view)?;
            family::same_dtype(OP, arg, view, dtype)?;
            if view.layout().is_contiguous() && view.shape().last() == Some(&(rot / 2)) {
                return Ok(());
            }
            let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
            Err(shape(OP, arg, format!("[.., {}], contiguous", rot / 2), got))
        };
        match angles {
            RopeAngles::Computed { inverse, magnitude } => {
                contiguous("inverse", inverse, DType::F64)?;
                (self.inverse, self.magnitude, self.table_rows) = (inverse.device_address(), *magnitude, 1);
            }
            RopeAngles::Tables { cosines, sines } => {
                let real = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                contiguous("cosines", cosines, real)?;
                contiguous("sines", sines, real)?;
                if cosines.shape() != sines.shape() || cosines.is_empty() {
                    let got = format!("{:?} and {:?}", cosines.shape(), sines.shape());
                    return Err(shape(OP, "cosines, sines", "one shape, with a position", got));
                }
                (self.cosines, self.sines) = (cosines.device_address(), sines.device_address());
                self.table_rows = (cosines.len() / (rot / 2)) as i64;
            }
        }
        Ok(())
    }

    /// Returns the type of positions.
    fn set_positions(&mut self, stream: &Stream, positions: &RopePositions<'_>, expected: [usize; 2]) -> Result<DType> {
        match positions {
            RopePositions::InOrder => Ok(DType::I32),
            RopePositions::Given(view) => {
                family::on_device(OP, "positions", stream, view)?;
                if view.shape() != expected || !matches!(view.dtype(), DType::I32 | DType::I64) {
                    let got = format!("{:?} {}", view.shape(), view.dtype());
                    return Err(shape(OP, "positions", format!("{expected:?}, I32 or I64"), got));
                }
                self.positions = view.device_address();
                (self.positions_batch, self.positions_row) = (view.layout().strides()[0], view.layout().strides()[1]);
                Ok(view.dtype())
            }
            RopePositions::Starts(view) => {
                family::on_device(OP, "starts", stream, view)?;
                family::same_dtype(OP, "starts", view, DType::I32)?;
                if view.layout().rank() != 1 || view.len() < 2 || !view.layout().is_contiguous() || expected[0] != 1 {
                    let got = format!("{:?} for {} batches", view.shape(), expected[0]);
                    return Err(shape(OP, "starts", "[sequences + 1], contiguous, and one batch", got));
                }
                (self.starts, self.sequences) = (view.device_address(), (view.len() - 1) as u32);
                Ok(DType::I32)
            }
        }
    }
}

/// `RopeTableArgs` of `rope.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct TableArgs {
    inverse: u64,
    cosines: u64,
    sines: u64,
    first: i64,
    count: i64,
    magnitude: f64,
    half: u32,
    padding: u32,
}
const _: () = assert!(size_of::<TableArgs>() == 56);
