//! Launchers that are graphs of `fusion`: kept graphs, and the words in which they are written.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rocfire_fusion::{Draft, Graph, Term, Unary};
use rocfire_hal::{DType, Layout, Stream, Tensor, View, ViewMut};

use crate::Result;
use crate::family::{self, shape};

/// Graphs made so far, by what varies in them, so that a launch whose graph is known allocates nothing.
pub(crate) struct Graphs<K>(OnceLock<Mutex<HashMap<K, Arc<Graph>>>>);

impl<K: Eq + Hash + Copy> Graphs<K> {
    pub(crate) const fn new() -> Self {
        Graphs(OnceLock::new())
    }

    pub(crate) fn get(&self, key: K, make: impl FnOnce(K) -> Graph) -> Arc<Graph> {
        let mut graphs = self.0.get_or_init(Default::default).lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(graphs.entry(key).or_insert_with(|| Arc::new(make(key))))
    }
}

/// The type in which floats are computed between load and store.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// How exact powers and reciprocals are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// To the last bits of their type.
    Exact,
    /// Enough for what is rounded to 16 bits.
    Near,
}

impl Precision {
    /// `e^a`.
    pub(crate) fn exp(self, a: Term<'_>) -> Term<'_> {
        a.unary(if self == Precision::Near { Unary::ExpNear } else { Unary::Exp })
    }

    /// `1 / a`.
    pub(crate) fn recip(self, a: Term<'_>) -> Term<'_> {
        a.unary(if self == Precision::Near { Unary::RecipNear } else { Unary::Recip })
    }
}

/// Writes a graph whose arithmetic is in one wide type.
pub(crate) struct Maker {
    pub draft: Draft,
    wide: DType,
    /// Near where all that is written is rounded to 16 bits.
    pub precision: Precision,
}

impl Maker {
    pub(crate) fn new(name: &'static str, wide: DType) -> Maker {
        Maker { draft: Draft::new(name), wide, precision: Precision::Exact }
    }

    /// Of a graph that writes elements of `dtype` alone.
    pub(crate) fn of(name: &'static str, dtype: DType) -> Maker {
        let is_short = matches!(dtype, DType::F16 | DType::BF16);
        let precision = if is_short { Precision::Near } else { Precision::Exact };
        Maker { precision, ..Maker::new(name, wide(dtype)) }
    }

    /// `e^a`.
    pub(crate) fn exp<'g>(&self, a: Term<'g>) -> Term<'g> {
        self.precision.exp(a)
    }

    /// `a / b`, where `b` is the same along a row.
    pub(crate) fn div_by<'g>(&self, a: Term<'g>, b: Term<'g>) -> Term<'g> {
        if self.precision == Precision::Near { a * b.unary(Unary::Recip) } else { a / b }
    }

    /// The next input, widened.
    pub(crate) fn input(&self, dtype: DType) -> Term<'_> {
        self.draft.input(dtype).cast(self.wide)
    }

    /// The next input with one value per row, widened.
    pub(crate) fn row_input(&self, dtype: DType) -> Term<'_> {
        self.draft.row_input(dtype).cast(self.wide)
    }

    /// The next input's element at an index of each row, widened.
    pub(crate) fn row_lookup<'g>(&'g self, dtype: DType, index: Term<'g>) -> Term<'g> {
        self.draft.term(|g| g.row_lookup(dtype, index.value)).cast(self.wide)
    }

    /// The next scalar of the launch.
    pub(crate) fn scalar(&self) -> Term<'_> {
        self.draft.scalar(self.wide)
    }

    pub(crate) fn constant(&self, value: f64) -> Term<'_> {
        self.draft.constant(self.wide, value)
    }

    /// Rounds to `dtype` and makes it the next output.
    pub(crate) fn output(&self, value: Term<'_>, dtype: DType) {
        self.draft.output(value.cast(dtype));
    }

    pub(crate) fn finish(self) -> Graph {
        self.draft.finish()
    }
}

/// The views that a launch reads, as they are told; on the stack.
pub(crate) struct Inputs<'a, const MOST: usize> {
    views: [View<'a>; MOST],
    count: usize,
}

impl<'a, const MOST: usize> Inputs<'a, MOST> {
    pub(crate) fn new(first: View<'a>) -> Self {
        Inputs { views: [first; MOST], count: 1 }
    }

    pub(crate) fn push(&mut self, view: Option<View<'a>>) {
        if let Some(view) = view {
            self.views[self.count] = view;
            self.count += 1;
        }
    }

    pub(crate) fn views(&self) -> &[View<'a>] {
        &self.views[..self.count]
    }
}

/// Checks that a tensor is a float on the stream's device.
pub(crate) fn float(op: &'static str, arg: &'static str, stream: &Stream, view: &View<'_>) -> Result<()> {
    family::on_device(op, arg, stream, view)?;
    if view.dtype().is_float() {
        return Ok(());
    }
    Err(rocfire_hal::Error::Unsupported { op, dtype: view.dtype(), arch: view.arch() }.into())
}

/// Checks an extent of every axis.
pub(crate) fn same_shape(op: &'static str, arg: &'static str, view: &View<'_>, expected: &[usize]) -> Result<()> {
    if view.shape() == expected {
        return Ok(());
    }
    Err(shape(op, arg, format!("{expected:?}"), format!("{:?}", view.shape())))
}

/// Checks an output against an input: apart from it, or in its memory with the same layout and type.
pub(crate) fn apart_or_same(op: &'static str, arg: &'static str, output: &View<'_>, input: &View<'_>) -> Result<()> {
    let same = output.buffer().same(input.buffer())
        && output.layout() == input.layout()
        && output.dtype().size_bytes() == input.dtype().size_bytes();
    if same { Ok(()) } else { family::disjoint(op, arg, output, input) }
}

/// The last axis of a tensor.
pub(crate) fn columns(op: &'static str, arg: &'static str, view: &View<'_>) -> Result<usize> {
    view.shape().last().copied().ok_or_else(|| shape(op, arg, "at least one axis", "none"))
}

/// A view of another shape, or of a copy where strides do not allow it. `copy` keeps the copy.
pub(crate) fn reshaped<'a>(
    stream: &Stream,
    view: View<'a>,
    to: &[usize],
    copy: &'a mut Option<Tensor>,
) -> Result<View<'a>> {
    if let Some(layout) = view.layout().reshape(to) {
        return Ok(view.with_layout(layout)?);
    }
    let copied = copy.insert(family::contiguous(stream, view)?);
    Ok(copied.view().with_layout(Layout::contiguous(to)?)?)
}

/// Runs a graph; errors that name slots were excluded by the launcher's own checks.
pub(crate) fn run(
    stream: &Stream,
    graph: &Graph,
    space: &[usize],
    inputs: &[View<'_>],
    scalars: &[rocfire_fusion::Scalar],
    outputs: &mut [ViewMut<'_>],
) -> Result<()> {
    Ok(rocfire_fusion::run(stream, graph, space, inputs, scalars, outputs)?)
}
