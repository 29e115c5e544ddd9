//! Steps that take two neighbours at a time: those of kernels that compute 16-bit floats.
//!
//! Rounding is most of what such a kernel does, and a device may convert, add and multiply two of these in one instruction.
//! `pairs.h` says what a pair is on which device. [`super::body`] renders the loop; here is what one value is in it.

use super::body::Step;
use super::{Kernel, expr};
use crate::graph::{Graph, Kind, Node, Value};
use crate::op::{Binary, Unary};
use crate::plan::Plan;

/// The header, behind `fuse.h`.
pub(super) const HEADER: &str = include_str!("pairs.h");

/// Whether a kernel's steps take pairs: where a 16-bit float is computed for every element.
pub(super) fn apply(graph: &Graph, plan: &Plan) -> bool {
    (0..graph.nodes.len()).any(|at| {
        let (node, dtype) = graph.nodes[at];
        let computed = !matches!(node, Node::Input(_));
        plan.live[at] && plan.kinds[at] == Kind::Full && computed && expr::is_half(dtype)
    })
}

/// A value's pair at elements `e` and `e + 1`.
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

/// One of the two.
fn half(kernel: &Kernel<'_>, step: &Step<'_>, value: Value, half: &str) -> String {
    match kernel.plan.kinds[value.at()] {
        Kind::Full => format!("{}.{half}()", name(kernel, step, value)),
        Kind::Row | Kind::Uniform => format!("v{}", value.0),
    }
}

/// The pair that a node computes.
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
