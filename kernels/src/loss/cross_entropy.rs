//! `cross_entropy` of logits and the numbers of classes, and its gradient: nothing of the size of the logits is written but the
//! gradient itself.

use rocfire_fusion::{Binary, Compare, Graph, IndexOp, Reduce, Scalar, Unary, Value};
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
struct Targets {
    /// As it was given.
    given: Value,
    /// The class: told of where it is none, and any where the target is the ignored one.
    target: Value,
    classes: Value,
    ignored: Option<Value>,
    share: Value,
    every: Option<Value>,
    weights: Option<Value>,
}

impl Targets {
    fn new(make: &mut Maker, op: IndexOp, key: Key) -> Targets {
        let given = make.graph.row_input(key.targets);
        let given = make.cast(given, DType::I64);
        let weights = key.weights.map(|dtype| make.input(dtype));
        let [classes, ignored] = [(); 2].map(|()| make.graph.scalar(DType::I64));
        let [share, every] = [(); 2].map(|()| make.scalar());
        let (ignored, every) = (key.ignores.then_some(ignored), key.smooths.then_some(every));
        let followed = match ignored {
            Some(ignored) => {
                let (skips, first) =
                    (make.graph.compare(Compare::Eq, given, ignored), make.graph.constant(DType::I64, 0i64));
                make.graph.select(skips, first, given)
            }
            None => given,
        };
        let target = make.graph.check(op, followed, classes);
        Targets { given, target, classes, ignored, share, every, weights }
    }

    /// Whether an element is that of its row's target.
    fn hit(&self, make: &mut Maker) -> Value {
        let class = make.graph.index(0);
        make.graph.compare(Compare::Eq, class, self.target)
    }

    /// The share of the target's class, with its weight.
    fn weighted(&self, make: &mut Maker, hit: Value) -> Value {
        let Some(weights) = self.weights else { return self.share };
        let zero = make.constant(0.0);
        let own = make.graph.select(hit, weights, zero);
        let own = make.sum(own);
        make.mul(own, self.share)
    }

    /// `value`, NaN where the target is no class, 0 where it is the ignored one.
    fn finish(&self, make: &mut Maker, value: Value) -> Value {
        let (nan, zero) = (make.constant(f64::NAN), make.constant(0.0));
        let least = make.graph.constant(DType::I64, 0i64);
        let below = make.graph.compare(Compare::Lt, self.given, least);
        let above = make.graph.compare(Compare::Ge, self.given, self.classes);
        let outside = make.graph.binary(Binary::Or, below, above);
        let value = make.graph.select(outside, nan, value);
        match self.ignored {
            Some(ignored) => {
                let skips = make.graph.compare(Compare::Eq, self.given, ignored);
                make.graph.select(skips, zero, value)
            }
            None => value,
        }
    }
}

fn forward_graph(key: Key) -> Graph {
    let mut make = Maker::new("cross_entropy", wide(key.logits));
    let x = make.input(key.logits);
    let targets = Targets::new(&mut make, IndexOp::CrossEntropy, key);
    let most = make.graph.reduce(Reduce::Max, x);
    let shifted = make.sub(x, most);
    let exp = make.unary(Unary::ExpBelow, shifted);
    let total = make.sum(exp);
    let log = make.unary(Unary::Log, total);
    let lse = make.add(most, log);
    let own = make.row_lookup(key.logits, targets.target);
    let mut loss = make.sub(lse, own);
    if let Some(dtype) = key.weights {
        let weight = make.row_lookup(dtype, targets.target);
        loss = make.mul(loss, weight);
    }
    if targets.every.is_some() || targets.weights.is_some() {
        loss = make.mul(loss, targets.share);
    }
    if targets.every.is_some() {
        let rest = match targets.weights {
            Some(weights) => {
                let product = make.mul(weights, x);
                let (mean, of_weights) = (make.mean(product), make.mean(weights));
                let all = make.mul(lse, of_weights);
                make.sub(all, mean)
            }
            None => {
                let mean = make.mean(x);
                make.sub(lse, mean)
            }
        };
        let one = make.constant(1.0);
        let smoothing = make.sub(one, targets.share);
        let spread = make.mul(rest, smoothing);
        loss = make.add(loss, spread);
    }
    let loss = targets.finish(&mut make, loss);
    make.graph.output(loss);
    make.graph.output(lse);
    make.graph
}

fn backward_graph(key: Key) -> Graph {
    let mut make = Maker::new("cross_entropy_backward", wide(key.logits));
    let x = make.input(key.logits);
    let targets = Targets::new(&mut make, IndexOp::CrossEntropyBackward, key);
    let [lse, d_loss] = [(); 2].map(|()| make.row_input(wide(key.logits)));
    let shifted = make.sub(x, lse);
    let mut dx = make.unary(Unary::Exp, shifted);
    let (hit, zero) = (targets.hit(&mut make), make.constant(0.0));
    let share = targets.weighted(&mut make, hit);
    if let Some(weights) = targets.weights {
        let mut all = share;
        if let Some(every) = targets.every {
            let sum = make.sum(weights);
            let spread = make.mul(sum, every);
            all = make.add(all, spread);
        }
        dx = make.mul(dx, all);
    }
    let own = make.graph.select(hit, share, zero);
    dx = make.sub(dx, own);
    if let Some(mut every) = targets.every {
        if let Some(weights) = targets.weights {
            every = make.mul(weights, every);
        }
        dx = make.sub(dx, every);
    }
    dx = make.mul(dx, d_loss);
    let dx = targets.finish(&mut make, dx);
    make.output(dx, key.logits);
    make.graph
}
