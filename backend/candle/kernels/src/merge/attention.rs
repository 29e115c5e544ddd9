//! Attention as models write it out, as one launch: a product, the softmax of its rows, and the product of that with the values.
//!
//! When all launches are known, the softmax of a product's rows joins that product and the one that reads it, if nobody else reads
//! what they pass on. Before the softmax the rows may be scaled, capped, and have a bias (a mask) added.
//! `rocfire_kernels::pattern` knows how attention is written out, as it does for Burn's plans. Copies that only move heads, before
//! the first product and behind the last, join too: attention reads and writes the tensors on their far side. The bits are not those
//! of the launches one by one: sums have another order, and scores are not rounded on their way. A row of scores that are all minus
//! infinity gives zeros, not NaN.

use cudarc::cublas::result::Product;
use cudarc::driver::DriverError;
use cudarc::rocfire::{Operator, Window};
use rocfire_fusion::Scalar;
use rocfire_hal::{Layout, Tensor};
use rocfire_kernels::attention::{AttentionInputs, AttentionParams, attention, is_fast};
use rocfire_kernels::pattern::attention::{self as pattern, Factor, ProgramOp};

use super::compose::Op;
use super::{Group, Kind, Plan};
use crate::program::{info_word, tensor};
use crate::table::{Entry, Family};

/// One attention: the tensors that it reads and writes, each `[batches, heads, rows, depth]`.
pub(crate) struct Attention {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// Added to the scores before the softmax, broadcast over `[batches, heads, rows, keys]`.
    bias: Option<Tensor>,
    params: AttentionParams,
    out: Tensor,
}

/// What names a tensor to `rocfire_kernels::pattern`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    /// The address of its first element.
    At(u64),
    /// The number of a tensor between the steps of Candle's softmax, which is one launch and does not store it.
    Inside(u8),
}

/// What attention does with the scores between its two products.
struct Scores {
    params: AttentionParams,
    /// The launch of the chain that adds a bias, and which of its operands that is.
    bias: Option<(usize, usize)>,
}

impl Scores {
    /// `None` if the chain `ops` does not make the left matrix of `weighted` by a softmax of the result of `scored`.
    fn of(ops: &[Op], scored: &Product, weighted: &Product) -> Option<Scores> {
        let [q, k, now] = [scored.b, scored.a, scored.c].map(|operand| Name::At(operand.address));
        let (mut pattern, mut factors) = (pattern::Attention::start(q, k, now), Vec::new());
        let (rows, mut value) = ([scored.batch * scored.n, scored.m], scored.c.address);
        for op in ops {
            for (step, out) in steps(op, value, rows, &mut factors)? {
                if !pattern.take(step, out) {
                    return None;
                }
            }
            value = op.result();
        }
        let last = ops.last()?;
        let [weights, values, out] =
            [Name::At(last.result()), Name::At(weighted.a.address), Name::At(weighted.c.address)];
        if last.to() != scored.dtype || !pattern.take(ProgramOp::Product(weights, values), out) {
            return None;
        }
        let place = |name: &Name| {
            let mut operands =
                ops.iter().enumerate().flat_map(|(at, op)| (0..op.program().inputs).map(move |n| (at, n)));
            operands.find(|&(at, n)| Name::At(ops[at].operand(n)) == *name)
        };
        let bias = match &pattern.biases()?[..] {
            [] => None,
            [bias] => Some(place(bias)?),
            _ => return None,
        };
        Some(Scores { params: pattern.params(|at| factors[at as usize])?, bias })
    }

    /// Batches and heads as the bias has them; `None` if its axes are others. Where no bias tells, all are batches of one head.
    fn heads(&self, window: &Window<'_>, ops: &[Op], [batch, rows, keys]: [usize; 3]) -> Option<[usize; 2]> {
        let Some((at, operand)) = self.bias else { return Some([batch, 1]) };
        match axes(window, &ops[at], operand + 1)[..] {
            [[batches, _], [heads, _], [r, _], [k, _]] if [batches * heads, r, k] == [batch, rows, keys] => {
                Some([batches, heads])
            }
            [] => Some([batch, 1]),
            _ => None,
        }
    }
}

/// The steps of the pattern that a launch over the scores does, each with its result. `None` if the pattern has no such step, or if
/// the launch reads the scores in another order. `value` is the address of the result of the launch before it, `rows` the number of
/// rows and their length. Factors are added to `factors`, and the steps have their numbers.
fn steps(op: &Op, value: u64, rows: [usize; 2], factors: &mut Vec<f64>) -> Option<Vec<(ProgramOp<Name>, Name)>> {
    let (name, out) = (|at: usize| Name::At(op.operand(at)), Name::At(op.result()));
    let is_dense = |at: usize| op.launch.axes.is_dense(at);
    // An operand with one element for each row.
    let is_of_rows = |at: usize| op.launch.axes.steps_over(at, &rows).is_some_and(|steps| steps[..2] == [1, 0]);
    let is_over_rows = || is_dense(0) && op.launch.axes.extents().last() == Some(&rows[1]);
    let is_value = |at: usize| op.operand(at) == value && is_dense(at);
    let Entry { family, words, .. } = op.entry();
    let step = match (family, words[0]) {
        _ if op.count() != rows[0] * rows[1] => return None,
        (Family::Affine, _) if is_dense(0) => match op.scalars() {
            [Scalar::Float(factor), Scalar::Float(0.0)] => {
                factors.push(*factor);
                ProgramOp::Scale(name(0), Factor::Times(factors.len() as u64 - 1))
            }
            _ => return None,
        },
        (Family::Cast, _) if is_dense(0) => ProgramOp::Cast(name(0)),
        (Family::Unary, "tanh") if is_dense(0) => ProgramOp::Tanh(name(0)),
        (Family::Unary, "exp") if is_dense(0) => ProgramOp::Exp(name(0)),
        (Family::Binary, "add") if is_value(0) || is_value(1) => ProgramOp::Add(name(0), name(1)),
        (Family::Binary, "sub") if is_dense(0) && is_of_rows(1) => ProgramOp::Sub(name(0), name(1)),
        (Family::Binary, "div") if is_dense(0) && is_of_rows(1) => ProgramOp::Div(name(0), name(1)),
        (Family::Reduce, "max") if is_over_rows() => ProgramOp::RowMax(name(0)),
        (Family::Reduce, "sum") if is_over_rows() => ProgramOp::RowSum(name(0)),
        (Family::Softmax, _) if is_over_rows() => {
            let [most, shifted, exponentials, sum] = [0, 1, 2, 3].map(Name::Inside);
            return Some(vec![
                (ProgramOp::RowMax(name(0)), most),
                (ProgramOp::Sub(name(0), most), shifted),
                (ProgramOp::Exp(shifted), exponentials),
                (ProgramOp::RowSum(exponentials), sum),
                (ProgramOp::Div(exponentials, sum), out),
            ]);
        }
        _ => return None,
    };
    Some(vec![(step, out)])
}

/// A tensor `[batches, heads, rows, depth]`, and the copy between it and the product, which attention makes unnecessary.
struct Heads {
    tensor: Tensor,
    copy: Option<usize>,
}

impl Plan<'_, '_> {
    /// Makes each softmax one group with the products around it.
    pub(super) fn join_attentions(&mut self) {
        let mut at = 0;
        while at < self.groups.len() {
            at = if self.join_attention(at).is_some() { 0 } else { at + 1 };
        }
    }

    /// The same for the chain of group `at`; `None` if it is no softmax between two products.
    fn join_attention(&mut self, at: usize) -> Option<()> {
        let window = self.window;
        let group = &self.groups[at];
        let Kind::Graph(ops) = &group.kind else { return None };
        // Most chains reduce no rows, and are no softmax.
        if !ops.iter().any(|op| matches!(op.entry().family, Family::Softmax | Family::Reduce)) {
            return None;
        }
        let (&last, inner) = group.members.split_last()?;
        let (first, weights) = (ops.first()?, ops.last()?.result());
        let is_inside = |number: usize| window.readers(number) & !group.mask == 0 && !window.is_owned(number);
        if !inner.iter().all(|&number| is_inside(number)) || window.is_owned(last) {
            return None;
        }
        // The products before and behind the softmax.
        let before = self.product_among(window.sources(first.number()))?;
        let after = self.product_among(window.readers(last)).filter(|&after| window.readers(last) == 1 << after)?;
        let [scored, weighted] = [before, after].map(|number| window.node(number).product());
        let (scored, weighted) = (scored?.product, weighted?.product);
        let (batch, q_rows) = (scored.batch, scored.n);
        let is_dense = |leading: i64, stride: i64, columns: usize, rows: usize| {
            leading == columns as i64 && (batch == 1 || stride == (rows * columns) as i64)
        };
        let fits = is_dense(scored.c.leading, scored.c.stride, scored.m, q_rows)
            && (weighted.batch, weighted.n, weighted.k, weighted.dtype) == (batch, q_rows, scored.m, scored.dtype)
            && weighted.b.address == weights
            && !weighted.b.is_transposed
            && is_dense(weighted.b.leading, weighted.b.stride, scored.m, q_rows)
            && is_dense(weighted.c.leading, weighted.c.stride, weighted.m, q_rows);
        if !fits || !is_inside(before) || !is_fast(window.device(), scored.dtype, [scored.k, weighted.m]) {
            return None;
        }
        let scores = Scores::of(ops, &scored, &weighted)?;
        let count = [batch, q_rows, scored.m];
        let heads = self.heads(before, after, &scored, &weighted).or_else(|| scores.heads(window, ops, count))?;

        let [left, right, _] = window.node(before).product()?.tensors(window.turn()).ok()?;
        let [_, values, result] = window.node(after).product()?.tensors(window.turn()).ok()?;
        let turned = right.layout().swap(1, 2).ok()?;
        let q = self.place(before, left, heads)?;
        let k = self.place(before, right.with_layout(turned).ok()?, heads)?;
        let v = self.place(after, values, heads)?;
        let bias = match scores.bias {
            Some(operand) => Some(bias(window, ops, operand, heads, count)?),
            None => None,
        };
        let out = self.stored(after, result, heads)?;
        let copies: Vec<usize> = [&q, &k, &v, &out].into_iter().filter_map(|place| place.copy).collect();
        let taken = copies.iter().fold(group.mask | 1 << before | 1 << after, |mask, &copy| mask | 1 << copy);
        let params = scores.params;
        let attention = Attention { q: q.tensor, k: k.tensor, v: v.tensor, bias, params, out: out.tensor };

        // All of it runs where its last group stands. So no other group between the first and the last may depend on a member.
        let is_theirs = |group: &Group| group.mask & taken != 0;
        let (begin, end) = (self.groups.iter().position(is_theirs)?, self.groups.iter().rposition(is_theirs)?);
        let waits =
            |group: &Group| !is_theirs(group) && group.members.iter().any(|&member| window.after(member) & taken != 0);
        if self.groups[begin..end].iter().any(waits) {
            return None;
        }
        let members = (0..window.len()).filter(|number| taken >> number & 1 == 1).collect();
        self.groups[end] = Group { members, mask: taken, kind: Kind::Attention(Box::new(attention)) };
        let mut number = 0;
        self.groups.retain(|group| {
            number += 1;
            number - 1 == end || group.mask & taken == 0
        });
        Some(())
    }

    /// The product among the launches of `mask`; `None` if there is none, several, or one that something has joined.
    fn product_among(&self, mask: u64) -> Option<usize> {
        let mut found =
            self.groups.iter().filter(|group| group.mask & mask != 0 && matches!(group.kind, Kind::Product(None)));
        let number = *found.next()?.members.first()?;
        found.next().is_none().then_some(number)
    }

    /// The copy, alone in its group, of strided elements into dense ones from the address `result` on, if only `reader` reads them.
    fn copy_of(&self, result: u64, reader: usize) -> Option<&Op> {
        let copy = self.groups.iter().find_map(|group| match &group.kind {
            Kind::Graph(ops) if ops.len() == 1 && ops[0].result() == result && ops[0].moves() => Some(&ops[0]),
            _ => None,
        })?;
        let is_read = self.window.readers(copy.number()) == 1 << reader && !self.window.is_owned(copy.number());
        is_read.then_some(copy)
    }

    /// Batches and heads, as the axes of a copy in front of the products have them.
    fn heads(&self, before: usize, after: usize, scored: &Product, weighted: &Product) -> Option<[usize; 2]> {
        let in_front = [(before, scored.b.address), (before, scored.a.address), (after, weighted.a.address)];
        let found = in_front.into_iter().find_map(|(reader, address)| {
            let axes = axes(self.window, self.copy_of(address, reader)?, 1);
            (axes.len() == 4).then(|| [axes[0][0], axes[1][0]])
        });
        found.filter(|[batches, heads]| batches * heads == scored.batch)
    }

    /// Rows `[batch, rows, depth]` that `reader` reads, as heads. If a copy made them that nobody else reads, the tensor is what the
    /// copy reads.
    fn place(&self, reader: usize, dense: Tensor, [batches, heads]: [usize; 2]) -> Option<Heads> {
        let (shape, strides) = (dense.shape().to_vec(), dense.layout().strides().to_vec());
        let shape = [batches, heads, shape[1], shape[2]];
        let is_dense = strides[1..] == [shape[3] as i64, 1]
            && (batches * heads == 1 || strides[0] == (shape[2] * shape[3]) as i64);
        let found = is_dense.then(|| self.copy_of(dense.view().device_address(), reader)).flatten();
        if let Some(copy) = found
            && let Some(steps) = copy.launch.axes.steps_over(0, &shape)
        {
            let tensor = elements(self.window, copy, copy.operand(0), &shape, &steps[..4])?;
            return Some(Heads { tensor, copy: Some(copy.number()) });
        }
        let strides = [strides[0] * heads as i64, strides[0], strides[1], strides[2]];
        let layout = Layout::strided(&shape, &strides, dense.layout().offset()).ok()?;
        Some(Heads { tensor: dense.with_layout(layout).ok()?, copy: None })
    }

    /// The result `[batch, rows, depth]` of launch `number`, as heads. If a copy alone reads it, the tensor is what the copy writes.
    fn stored(&self, number: usize, dense: Tensor, [batches, heads]: [usize; 2]) -> Option<Heads> {
        let (rows, depth) = (dense.shape()[1], dense.shape()[2]);
        let shape = [batches, heads, rows, depth];
        let own = [heads * rows * depth, rows * depth, depth, 1];
        let copied = || {
            let window = self.window;
            let reader =
                Some(window.readers(number)).filter(|readers| readers.count_ones() == 1)?.trailing_zeros() as usize;
            let copy = self.groups.iter().find_map(|group| match &group.kind {
                Kind::Graph(ops) if ops.len() == 1 && ops[0].number() == reader && ops[0].moves() => Some(&ops[0]),
                _ => None,
            })?;
            let axes = axes(window, copy, 1);
            let is_whole = copy.operand(0) == dense.view().device_address() && axes.len() == 4;
            if !is_whole || window.is_owned(number) || window.overwrites(reader, number) {
                return None;
            }
            // Each axis of the result must be one of the copy's axes.
            let mut strides = [0; 4];
            for (axis, stride) in strides.iter_mut().enumerate() {
                let found = axes.iter().position(|&of| of == [shape[axis], own[axis]])?;
                *stride = axes[found + 1..].iter().map(|axis| axis[0]).product::<usize>() as i64;
            }
            let product: usize = axes.iter().map(|axis| axis[0]).product();
            if product != batches * heads * rows * depth || shape.contains(&1) {
                return None;
            }
            let tensor = elements(window, copy, copy.result(), &shape, &strides)?;
            Some(Heads { tensor, copy: Some(reader) })
        };
        copied().or_else(|| {
            let layout = Layout::strided(&shape, &own.map(|stride| stride as i64), dense.layout().offset()).ok()?;
            Some(Heads { tensor: dense.with_layout(layout).ok()?, copy: None })
        })
    }
}

/// The extent of each axis of a launch with an operand's stride there, operands counted from 1; empty where all lie dense.
fn axes(window: &Window<'_>, op: &Op, operand: usize) -> Vec<[usize; 2]> {
    let node = window.node(op.number());
    let (count, info) = (node.word(1) as usize, node.argument(2));
    if info_word(info, 0) == 0 {
        return Vec::new();
    }
    let word = |at: usize| info_word(info, at) as usize;
    (0..count).map(|axis| [word(axis), word(operand * count + axis)]).collect()
}

/// A tensor in the memory that a copy reads or writes, from an address on.
fn elements(window: &Window<'_>, copy: &Op, address: u64, shape: &[usize], strides: &[i64]) -> Option<Tensor> {
    tensor(window.node(copy.number()), window.turn(), address, copy.to(), (shape, strides)).ok()
}

/// The bias as a tensor over `[batches, heads, rows, keys]`; `None` if its elements cannot be walked along these axes.
fn bias(
    window: &Window<'_>,
    ops: &[Op],
    (at, operand): (usize, usize),
    heads: [usize; 2],
    [_, rows, keys]: [usize; 3],
) -> Option<Tensor> {
    let (op, shape) = (&ops[at], [heads[0], heads[1], rows, keys]);
    let steps = op.launch.axes.steps_over(operand, &shape)?;
    elements(window, op, op.operand(operand), &shape, &steps[..4])
}

/// The attention as one operator. It is made when the launches first come together, not after some repeats as in `compose.rs`: the
/// bits differ from those of the launches one by one, so they must not depend on how often the attention has come.
pub(super) fn merged(attention_of: Attention) -> Operator {
    let Attention { q, k, v, bias, params, out } = attention_of;
    Box::new(move |stream| {
        let mut out = out.clone();
        let inputs = AttentionInputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            mask: None,
            bias: bias.as_ref().map(Tensor::view),
            starts: None,
            slopes: None,
            sinks: None,
        };
        let done = attention(stream, &inputs, &params, out.view_mut(), None);
        done.map_err(|error| DriverError::new(format!("attention: {error}")))
    })
}
