//! `combine`: the launchers of `combine.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{matrix, vector};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape, sum_dtype};
use crate::graphs::float;

const OP: &str = "combine";

/// What rows of experts are added by.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CombineParams<'a> {
    /// The weight of each choice, `[tokens, k]`, f32 (f64 for rows of f64), rows contiguous; 1 if not given.
    pub weights: Option<View<'a>>,
    /// Where each group of rows begins, and the end, `[groups + 1]`, i32: rows from the end on are no choice's. If not given, every
    /// row is one's.
    pub offsets: Option<View<'a>>,
    /// What is added to each row of a group before it is weighted, `[groups, n]`, of the rows' type, rows contiguous. Only with
    /// offsets.
    pub bias: Option<View<'a>>,
}

/// Where gradients go; what is not given is not computed.
#[derive(Debug, Default)]
pub struct CombineGradients<'a> {
    /// Of the rows: like them. A row that is no choice's is left as it is.
    pub rows: Option<ViewMut<'a>>,
    /// Of the weights: like them, rows contiguous.
    pub weights: Option<ViewMut<'a>>,
}

/// `y[t] = Σ weights[t, s] · (rows[p] + bias[group of p])` over the places `p = places[t, s]` of a token's choices, in their order.
///
/// # Shapes
/// `rows`: `[places, n]`, `y`: `[tokens, n]`, rows contiguous; `places`: `[tokens, k]`, i32, contiguous, as
/// [`sort_by_expert`](super::sort_by_expert()) gives them in its inverse. A place that is negative, or not below the last offset,
/// counts nothing; a token without any has zeros.
/// # Types
/// Any float; `y` of the rows' type, or of 16 bits for rows of f32.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store. A token's bits depend on its own choices alone.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ choices; `Unsupported` for what is no float.
/// # Source
/// AITER's `moe_sum`, with weights and bias as gpt-oss has them.
pub fn combine(
    stream: &Stream,
    rows: View<'_>,
    places: View<'_>,
    params: &CombineParams<'_>,
    y: ViewMut<'_>,
) -> Result<()> {
    let checked = Checked::new(stream, &rows, &places, params, ("y", &y.view()))?;
    family::writable(OP, "y", &y)?;
    checked.disjoint("y", &y)?;
    if y.is_empty() {
        return Ok(());
    }
    let (y_address, y_stride) = matrix(OP, "y", stream, &y, [checked.tokens, checked.n], &[y.dtype()])?;
    let vec = checked.vector(&[(y_address, y_stride, y.dtype())]);
    let key = CombineKey { input: rows.dtype(), output: y.dtype(), vec };
    let runs = checked.n.div_ceil(BLOCK * vec);
    let (grid, block) = ([checked.tokens * runs, 1, 1], [BLOCK, 1, 1]);
    if grid[0] >= BOX_LIMIT {
        return Err(shape(OP, "y", format!("fewer than {BOX_LIMIT} workgroups"), grid[0]));
    }
    let args = CombineArgs {
        of: checked.args,
        rows: checked.rows.0,
        y: y_address,
        row_stride: checked.rows.1,
        y_stride,
        runs: FastDiv::new(runs),
        padding: 0,
    };
    // SAFETY:
    // - `CombineArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads the places and weights of
    //   `tokens * k` choices, rows at places below how many there are, biases of groups, offsets: inside checked views.
    // - It writes `y` only.
    unsafe { KernelLaunch::new(stream, &source(key), (OP, "combine"), grid, block).run(&args, &[y.buffer()]) }
}

/// The gradients of [`combine()`] from that of `y`, in one launch.
///
/// # Shapes, types
/// As there; `grad` like `y`.
/// # Numerics
/// As there; a weight's gradient is a sum in an order of its own.
/// # Errors
/// As there.
pub fn combine_backward(
    stream: &Stream,
    grad: View<'_>,
    rows: View<'_>,
    places: View<'_>,
    params: &CombineParams<'_>,
    to: CombineGradients<'_>,
) -> Result<()> {
    let checked = Checked::new(stream, &rows, &places, params, ("grad", &grad))?;
    let (tokens, k) = (checked.tokens, checked.k);
    let grad_lies = matrix(OP, "grad", stream, &grad, [tokens, checked.n], &[grad.dtype()])?;
    let mut lies = [(0, 0); 2];
    let outputs = [
        ("rows_grad", to.rows.as_ref(), [rows.shape()[0], checked.n], rows.dtype()),
        ("weights_grad", to.weights.as_ref(), [tokens, k], sum_dtype(rows.dtype())),
    ];
    for (at, (arg, output, extents, dtype)) in outputs.into_iter().enumerate() {
        let Some(output) = output else { continue };
        lies[at] = matrix(OP, arg, stream, output, extents, &[dtype])?;
        family::writable(OP, arg, output)?;
        checked.disjoint(arg, output)?;
        family::disjoint(OP, arg, output, &grad)?;
    }
    if let (Some(rows), Some(weights)) = (&to.rows, &to.weights) {
        family::disjoint(OP, "weights_grad", weights, rows)?;
    }
    let Some(first) = to.rows.as_ref().or(to.weights.as_ref()) else { return Ok(()) };
    if tokens * k == 0 {
        return Ok(());
    }
    let [(rows_grad, rows_grad_stride), (weights_grad, weights_grad_stride)] = lies;
    let vec = checked.vector(&[(grad_lies.0, grad_lies.1, grad.dtype()), (rows_grad, rows_grad_stride, rows.dtype())]);
    let key = CombineKey { input: rows.dtype(), output: grad.dtype(), vec };
    let args = CombineBackwardArgs {
        of: checked.args,
        grad: grad_lies.0,
        rows: checked.rows.0,
        rows_grad,
        weights_grad,
        grad_stride: grad_lies.1,
        row_stride: checked.rows.1,
        rows_grad_stride,
        weights_grad_stride,
        k: FastDiv::new(k),
        padding: 0,
    };
    let written = [first.buffer(), to.weights.as_ref().unwrap_or(first).buffer()];
    let (grid, block) = ([tokens * k, 1, 1], [BLOCK, 1, 1]);
    // SAFETY:
    // - As above; the kernel reads the gradient of `tokens` rows too.
    // - It writes rows at places below how many there are, and weights of choices, where they are given.
    unsafe { KernelLaunch::new(stream, &source(key), (OP, "combine_backward"), grid, block).run(&args, &written) }
}

/// What both launchers read, checked.
struct Checked<'a> {
    args: ChoicesArgs,
    /// Address and stride of the rows.
    rows: (u64, i64),
    views: [Option<(&'static str, View<'a>)>; 5],
    tokens: usize,
    k: usize,
    n: usize,
    dtype: DType,
}

impl<'a> Checked<'a> {
    /// `whole`: the matrix of tokens, by name.
    fn new(
        stream: &Stream,
        rows: &View<'a>,
        places: &View<'a>,
        params: &CombineParams<'a>,
        (arg, whole): (&'static str, &View<'_>),
    ) -> Result<Checked<'a>> {
        float(OP, "rows", stream, rows)?;
        float(OP, arg, stream, whole)?;
        let dtype = rows.dtype();
        if whole.dtype() != dtype && !(dtype == DType::F32 && whole.dtype().size_bytes() == 2) {
            return Err(shape(OP, arg, format!("of {dtype}, or of 16 bits for rows of f32"), whole.dtype()));
        }
        let (&[count, n], &[tokens, own]) = (rows.shape(), whole.shape()) else {
            let got = format!("{:?} and {:?}", rows.shape(), whole.shape());
            return Err(shape(OP, "rows", format!("[places, n], and {arg} [tokens, n]"), got));
        };
        if own != n {
            return Err(shape(OP, arg, format!("[tokens, {n}]"), format!("{:?}", whole.shape())));
        }
        let k = match *places.shape() {
            [own, k] if own == tokens => k,
            _ => return Err(shape(OP, "places", format!("[{tokens}, k]"), format!("{:?}", places.shape()))),
        };
        if tokens * k >= BOX_LIMIT || count >= BOX_LIMIT || n >= BOX_LIMIT {
            let got = format!("{} choices, {count} rows of {n}", tokens * k);
            return Err(shape(OP, "places", format!("fewer than {BOX_LIMIT} choices, rows and columns"), got));
        }
        let groups = params.offsets.map_or(0, |offsets| offsets.len().saturating_sub(1));
        if params.offsets.is_some() && groups == 0 {
            return Err(shape(OP, "offsets", "[groups + 1]", "none"));
        }
        if params.bias.is_some() && params.offsets.is_none() {
            return Err(shape(OP, "bias", "offsets that say whose it is", "none"));
        }
        if !places.layout().is_contiguous() {
            return Err(shape(OP, "places", "contiguous", format!("strides {:?}", places.layout().strides())));
        }
        let rows_lie = matrix(OP, "rows", stream, rows, [count, n], &[dtype])?;
        let (places_address, _) = matrix(OP, "places", stream, places, [tokens, k], &[DType::I32])?;
        let (weights, weight_stride) = match &params.weights {
            Some(weights) => matrix(OP, "weights", stream, weights, [tokens, k], &[sum_dtype(dtype)])?,
            None => (0, 0),
        };
        let (bias, bias_stride) = match &params.bias {
            Some(bias) => matrix(OP, "bias", stream, bias, [groups, n], &[dtype])?,
            None => (0, 0),
        };
        let args = ChoicesArgs {
            places: places_address,
            weights,
            bias,
            offsets: vector(OP, "offsets", stream, params.offsets, groups + 1, DType::I32)?,
            weight_stride,
            bias_stride,
            n: n as u32,
            k: k as u32,
            groups: groups as u32,
            limit: count as u32,
        };
        let views = [
            Some(("rows", *rows)),
            Some(("places", *places)),
            params.weights.map(|view| ("weights", view)),
            params.offsets.map(|view| ("offsets", view)),
            params.bias.map(|view| ("bias", view)),
        ];
        Ok(Checked { args, rows: rows_lie, views, tokens, k, n, dtype })
    }

    /// Nothing that is read lies where this is written.
    fn disjoint(&self, arg: &'static str, output: &ViewMut<'_>) -> Result<()> {
        self.views.iter().flatten().try_for_each(|(_, view)| family::disjoint(OP, arg, output, view))
    }

    /// Elements of one access: 16 bytes of the rows where every row of these matrices begins at a whole one, else one.
    fn vector(&self, others: &[(u64, i64, DType)]) -> usize {
        let vec = 16 / self.dtype.size_bytes();
        let own = [(self.rows.0, self.rows.1, self.dtype), (self.args.bias, self.args.bias_stride, self.dtype)];
        let aligned = |&(address, stride, dtype): &(u64, i64, DType)| {
            address.is_multiple_of((vec * dtype.size_bytes()) as u64) && stride % vec as i64 == 0
        };
        let whole = self.n.is_multiple_of(vec) && own.iter().chain(others).all(aligned);
        if whole { vec } else { 1 }
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CombineKey {
    input: DType,
    output: DType,
    vec: usize,
}

fn source(key: CombineKey) -> std::sync::Arc<Source> {
    static SOURCES: Sources<CombineKey> = Sources::new();
    SOURCES.get(key, made)
}

/// The source of one variant.
fn made(key: CombineKey) -> Source {
    let vec = key.vec.to_string();
    let defines = [
        ("COMBINE_IN", c_type(key.input)),
        ("COMBINE_OUT", c_type(key.output)),
        ("COMBINE_SUM", c_type(sum_dtype(key.input))),
        ("COMBINE_VEC", vec.as_str()),
    ];
    Source::new(OP, include_str!("combine.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let vec = 16 / dtype.size_bytes();
    [vec, 1].into_iter().filter(move |_| dtype.is_float()).map(move |vec| {
        let output = if dtype == DType::F32 && vec == 1 { DType::F16 } else { dtype };
        (OP, made(CombineKey { input: dtype, output, vec }))
    })
}

/// `Choices` of `combine.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ChoicesArgs {
    places: u64,
    weights: u64,
    bias: u64,
    offsets: u64,
    weight_stride: i64,
    bias_stride: i64,
    n: u32,
    k: u32,
    groups: u32,
    limit: u32,
}

/// `CombineArgs` of `combine.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineArgs {
    of: ChoicesArgs,
    rows: u64,
    y: u64,
    row_stride: i64,
    y_stride: i64,
    runs: FastDiv,
    padding: u32,
}
const _: () = assert!(size_of::<CombineArgs>() == 112);

/// `CombineBackwardArgs` of `combine.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineBackwardArgs {
    of: ChoicesArgs,
    grad: u64,
    rows: u64,
    rows_grad: u64,
    weights_grad: u64,
    grad_stride: i64,
    row_stride: i64,
    rows_grad_stride: i64,
    weights_grad_stride: i64,
    k: FastDiv,
    padding: u32,
}
const _: () = assert!(size_of::<CombineBackwardArgs>() == 144);

#[cfg(test)]
mod tests;
