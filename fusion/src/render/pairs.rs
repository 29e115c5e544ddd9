//! Steps that compute two neighbouring elements at a time, in kernels that compute 16-bit floats.
//!
//! Most instructions of such a kernel round, and a device can convert, add and multiply two such floats in one instruction.
//! `pairs.h` says what a pair is on each device. [`super::body`] renders the loop; this file renders one value in it.

use super::body::Step;
use super::{Kernel, expr};
use crate::graph::{Graph, Kind, Node, Value};
use crate::op::{Binary, Unary};
use crate::plan::Plan;

/// The header `pairs.h`, which comes behind `fuse.h`.
pub(super) const HEADER: &str = include_str!("pairs.h");

/// Whether a kernel's steps compute pairs: they do if a 16-bit float is computed for every element.
pub(super) fn apply(graph: &Graph, plan: &Plan) -> bool {
    (0..graph.nodes.len()).any(|at| {
        let (node, dtype) = graph.nodes[at];
        let computed = !matches!(node, Node::Input(_));
        plan.live[at] && plan.kinds[at] == Kind::Full && computed && expr::is_half(dtype)
    })
}

/// The expression of a value at elements `e` and `e + 1`, as a pair.
pub(super) fn name(kernel: &Kernel<'_>, step: &Step<'_>, value: Value) -> String {
    let (at, storage) = (value.0, expr::storage(kernel.graph.dtype(value)));
    if kernel.plan.kinds[value.at()] != Kind::Full {
        return format!("fuse::Two<{storage}>::both(v{at})");
    }
    match step.array(kernel, value) {
        Some(array) => format!("fuse::two<{storage}>({array}, e)"),
        None => format!("v{at}"),
    }
}

/// The expression of a value at one of the two elements.
fn half(kernel: &Kernel<'_>, step: &Step<'_>, value: Value, half: &str) -> String {
    match kernel.plan.kinds[value.at()] {
        Kind::Full => format!("{}.{half}()", name(kernel, step, value)),
        Kind::Row | Kind::Uniform => format!("v{}", value.0),
    }
}

/// The expression of the pair that a node computes.
pub(super) fn compute(kernel: &Kernel<'_>, step: &Step<'_>, value: Value) -> String {
    let (node, dtype) = kernel.graph.nodes[value.at()];
    let pair = format!("fuse::Two<{}>", expr::storage(dtype));
    let named = |operand| name(kernel, step, operand);
    if expr::is_half(dtype) {
        match node {
            Node::Binary(op @ (Binary::Add | Binary::Sub | Binary::Mul), a, b) => {
                return format!("{pair}::{op}({}, {})", named(a), named(b));
            }
            Node::Unary(op @ (Unary::Neg | Unary::Abs), a) => return format!("{pair}::{}({})", op.name(), named(a)),
            _ => {}
        }
    }
    let each = |part: &'static str, e: &str| match node {
        Node::Index(0) => format!("(rf::i64)(column + (index_t){e})"),
        Node::Index(axis) => format!("(rf::i64)at[{axis}]"),
        Node::Lookup(_, index) => kernel.look_up(value, &half(kernel, step, index, part), e),
        Node::Check(op, index, extent) => {
            let operand = |operand| half(kernel, step, operand, part);
            expr::check(op, &operand(index), &operand(extent), &format!("(rf::u32){e} < count"))
        }
        _ => {
            let operand = |operand| half(kernel, step, operand, part);
            let rounded = || expr::expression(kernel.graph, &kernel.plan.kinds, value, operand);
            expr::unrounded(kernel.graph, &kernel.plan.kinds, value, operand).unwrap_or_else(rounded)
        }
    };
    let (low, high) = (each("low", "e"), each("high", "(e + 1)"));
    let made = if expr::unrounded(kernel.graph, &kernel.plan.kinds, value, |_| String::new()).is_some() {
        "fitted"
    } else {
        "of"
    };
    format!("{pair}::{made}({low}, {high})")
}
