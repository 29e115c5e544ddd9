//! `cross_entropy` of logits and the numbers of classes, and its gradient: nothing of the size of the logits is written but the
//! gradient itself.

use rocfire_fusion::{Compare, Graph, IndexOp, Reduce, Scalar, Term, Unary};
use rocfire_hal::{DType, MAX_RANK, Stream, View, ViewMut};

use crate::Result;
use crate::family::{self, shape};
use crate::graphs::{self, Graphs, Inputs, Maker, apart_or_same, columns, float, same_shape, wide};

/// What is asked for besides the logits.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CrossEntropy<'a> {
    /// `[.., classes]`, any float.
    pub logits: View<'a>,
    /// The class of each row, `[..]`, I32 or I64.
    pub targets: View<'a>,
    /// Rows of this target have loss 0 and no gradient.
    pub ignored: Option<i64>,
    /// The share of the loss that is spread over all classes alike, 0 to 1.
    pub smoothing: f64,
    /// What each class's part of a loss is multiplied by, `[classes]`, any float. Losses are not divided by what they add up to.
    pub weights: Option<View<'a>>,
}

impl<'a> CrossEntropy<'a> {
    /// Every row counts, nothing is smoothed.
    pub fn new(logits: View<'a>, targets: View<'a>) -> CrossEntropy<'a> {
        CrossEntropy { logits, targets, ignored: None, smoothing: 0.0, weights: None }
    }
}

/// The loss of each row, `(1 - s) (lse - x[target]) + s (lse - mean x)`, and `lse = ln Σ eˣ`, which the gradient needs. With weights
/// `w` of the classes it is `(1 - s) w[target] (lse - x[target]) + s (lse mean w - mean w x)`.
///
/// # Shapes
/// `loss`, `lse`: `[..]`, any strides, f32 (f64 for f64).
/// # Numerics
/// In f32 (f64 for f64). A target that is no class, and not the ignored one, makes its loss NaN: nothing is read for it, and the
/// next read or wait is [`rocfire_hal::Error::Index`].
/// # Errors
/// `Shape` for shapes, types or memory that do not fit; `Unsupported` for logits that are no floats; errors of compilation and
/// launch.
pub fn cross_entropy(stream: &Stream, call: &CrossEntropy<'_>, loss: ViewMut<'_>, lse: ViewMut<'_>) -> Result<()> {
    const OP: &str = "cross_entropy";
    let classes = check(OP, stream, call)?;
    for (arg, output) in [("loss", &loss), ("lse", &lse)] {
        family::on_device(OP, arg, stream, output)?;
        family::same_dtype(OP, arg, output, wide(call.logits.dtype()))?;
        same_shape(OP, arg, output, call.targets.shape())?;
        family::writable(OP, arg, output)?;
        family::disjoint(OP, "logits", output, &call.logits)?;
        family::disjoint(OP, "targets", output, &call.targets)?;
        if let Some(weights) = &call.weights {
            family::disjoint(OP, "weights", output, weights)?;
        }
    }
    family::disjoint(OP, "lse", &loss, &lse)?;
    static GRAPHS: Graphs<Key> = Graphs::new();
    let graph = GRAPHS.get(Key::new(call), forward_graph);
    let mut inputs = Inputs::<5>::new(call.logits);
    inputs.push(Some(call.targets));
    inputs.push(call.weights);
    inputs.push(Some(classes_first(call.logits)?));
    inputs.push(call.weights);
    graphs::run(stream, &graph, call.logits.shape(), inputs.views(), &scalars(call, classes), &mut [loss, lse])
}

/// The logits as each row's own is looked up in them.
fn classes_first(logits: View<'_>) -> Result<View<'_>> {
    let mut axes = [0; MAX_RANK];
    let rank = logits.shape().len();
    axes[0] = rank - 1;
    axes[1..rank].iter_mut().enumerate().for_each(|(at, axis)| *axis = at);
    Ok(logits.with_layout(logits.layout().permute(&axes[..rank])?)?)
}

/// `dx = d_loss · (e^(x - lse) - (1 - s) [class = target] - s / classes)`, 0 in ignored rows. With weights
/// `dx = d_loss · (((1 - s) w[target] + s mean w) e^(x - lse) - (1 - s) w[target] [class = target] - s w / classes)`.
///
/// # Shapes
/// `lse`: as [`cross_entropy`] wrote it; `d_loss`: `[..]` of its type, any strides, so that one element may stand for all rows;
/// `dx`: of the logits' shape and type, and may be the logits themselves.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store. The gradient of a row whose target is no class is NaN.
/// # Errors
/// As [`cross_entropy`].
pub fn cross_entropy_backward(
    stream: &Stream,
    call: &CrossEntropy<'_>,
    lse: View<'_>,
    d_loss: View<'_>,
    dx: ViewMut<'_>,
) -> Result<()> {
    const OP: &str = "cross_entropy_backward";
    let classes = check(OP, stream, call)?;
    for (arg, view) in [("lse", &lse), ("d_loss", &d_loss)] {
        family::on_device(OP, arg, stream, view)?;
        family::same_dtype(OP, arg, view, wide(call.logits.dtype()))?;
        same_shape(OP, arg, view, call.targets.shape())?;
        family::disjoint(OP, arg, &dx, view)?;
    }
    family::on_device(OP, "dx", stream, &dx)?;
    family::same_dtype(OP, "dx", &dx, call.logits.dtype())?;
    same_shape(OP, "dx", &dx, call.logits.shape())?;
    family::writable(OP, "dx", &dx)?;
    family::disjoint(OP, "targets", &dx, &call.targets)?;
    if let Some(weights) = &call.weights {
        family::disjoint(OP, "weights", &dx, weights)?;
    }
    apart_or_same(OP, "logits", &dx, &call.logits)?;
    static GRAPHS: Graphs<Key> = Graphs::new();
    let graph = GRAPHS.get(Key::new(call), backward_graph);
    let mut inputs = Inputs::<5>::new(call.logits);
    inputs.push(Some(call.targets));
    inputs.push(call.weights);
    [lse, d_loss].into_iter().for_each(|view| inputs.push(Some(view)));
    graphs::run(stream, &graph, call.logits.shape(), inputs.views(), &scalars(call, classes), &mut [dx])
}

/// The number of classes.
fn check(op: &'static str, stream: &Stream, call: &CrossEntropy<'_>) -> Result<usize> {
    float(op, "logits", stream, &call.logits)?;
    let classes = columns(op, "logits", &call.logits)?;
    family::on_device(op, "targets", stream, &call.targets)?;
    if !matches!(call.targets.dtype(), DType::I32 | DType::I64) {
        return Err(shape(op, "targets", "i32 or i64", call.targets.dtype()));
    }
    same_shape(op, "targets", &call.targets, &call.logits.shape()[..call.logits.shape().len() - 1])?;
    if let Some(weights) = &call.weights {
        float(op, "weights", stream, weights)?;
        same_shape(op, "weights", weights, &[classes])?;
    }
    if !(0.0..=1.0).contains(&call.smoothing) {
        return Err(shape(op, "smoothing", "a share from 0 to 1", call.smoothing));
    }
    Ok(classes)
}

/// What varies in the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    logits: DType,
    targets: DType,
    ignores: bool,
    smooths: bool,
    weights: Option<DType>,
}

impl Key {
    fn new(call: &CrossEntropy<'_>) -> Key {
        Key {
            logits: call.logits.dtype(),
            targets: call.targets.dtype(),
            ignores: call.ignored.is_some(),
            smooths: call.smoothing != 0.0,
            weights: call.weights.map(|weights| weights.dtype()),
        }
    }
}

/// Classes, the ignored target, the share of the target's class, and of each class.
fn scalars(call: &CrossEntropy<'_>, classes: usize) -> [Scalar; 4] {
    [
        Scalar::Int(classes as i64),
        Scalar::Int(call.ignored.unwrap_or(-1)),
        Scalar::Float(1.0 - call.smoothing),
        Scalar::Float(call.smoothing / classes.max(1) as f64),
    ]
}

/// Targets and shares as graphs read them.
struct Targets<'g> {
    /// As it was given.
    given: Term<'g>,
    /// The class: told of where it is none, and any where the target is the ignored one.
    target: Term<'g>,
    classes: Term<'g>,
    ignored: Option<Term<'g>>,
    share: Term<'g>,
    every: Option<Term<'g>>,
    weights: Option<Term<'g>>,
}

impl<'g> Targets<'g> {
    fn new(make: &'g Maker, op: IndexOp, key: Key) -> Targets<'g> {
        let given = make.draft.row_input(key.targets).cast(DType::I64);
        let weights = key.weights.map(|dtype| make.input(dtype));
        let [classes, ignored] = [(); 2].map(|()| make.draft.scalar(DType::I64));
        let [share, every] = [(); 2].map(|()| make.scalar());
        let (ignored, every) = (key.ignores.then_some(ignored), key.smooths.then_some(every));
        let skips = |ignored: Term<'g>| given.is(Compare::Eq, ignored).choose(given.number(0i64), given);
        let followed = ignored.map_or(given, skips);
        let target = make.draft.term(|g| g.check(op, followed.value, classes.value));
        Targets { given, target, classes, ignored, share, every, weights }
    }

    /// `value`, NaN where the target is no class, 0 where it is the ignored one.
    fn finish(&self, make: &'g Maker, value: Term<'g>) -> Term<'g> {
        let (nan, zero) = (make.constant(f64::NAN), make.constant(0.0));
        let below = self.given.is(Compare::Lt, self.given.number(0i64));
        let above = self.given.is(Compare::Ge, self.classes);
        let value = (below | above).choose(nan, value);
        self.ignored.map_or(value, |ignored| self.given.is(Compare::Eq, ignored).choose(zero, value))
    }
}

fn forward_graph(key: Key) -> Graph {
    let make = Maker::new("cross_entropy", wide(key.logits));
    let x = make.input(key.logits);
    let targets = Targets::new(&make, IndexOp::CrossEntropy, key);
    let most = x.reduce(Reduce::Max);
    let lse = most + (x - most).unary(Unary::ExpBelow).reduce(Reduce::Sum).unary(Unary::Log);
    let mut loss = lse - make.row_lookup(key.logits, targets.target);
    if let Some(dtype) = key.weights {
        loss = loss * make.row_lookup(dtype, targets.target);
    }
    if targets.every.is_some() || targets.weights.is_some() {
        loss = loss * targets.share;
    }
    if targets.every.is_some() {
        let rest = match targets.weights {
            Some(weights) => {
                let mean = (weights * x).reduce(Reduce::Mean);
                lse * weights.reduce(Reduce::Mean) - mean
            }
            None => lse - x.reduce(Reduce::Mean),
        };
        loss = loss + rest * (1.0 - targets.share);
    }
    make.draft.output(targets.finish(&make, loss));
    make.draft.output(lse);
    make.finish()
}

fn backward_graph(key: Key) -> Graph {
    let make = Maker::new("cross_entropy_backward", wide(key.logits));
    let x = make.input(key.logits);
    let targets = Targets::new(&make, IndexOp::CrossEntropyBackward, key);
    let Targets { target, share, weights, every, .. } = targets;
    let [lse, d_loss] = [(); 2].map(|()| make.row_input(wide(key.logits)));
    let mut dx = (x - lse).unary(Unary::Exp);
    let (hit, zero) = (make.draft.index(0).is(Compare::Eq, target), make.constant(0.0));
    // The share of the target's class, with its weight.
    let share = weights.map_or(share, |weights| hit.choose(weights, zero).reduce(Reduce::Sum) * share);
    if let Some(weights) = weights {
        let all = every.map_or(share, |every| share + weights.reduce(Reduce::Sum) * every);
        dx = dx * all;
    }
    dx = dx - hit.choose(share, zero);
    if let Some(every) = every {
        dx = dx - weights.map_or(every, |weights| weights * every);
    }
    make.output(targets.finish(&make, dx * d_loss), key.logits);
    make.finish()
}
