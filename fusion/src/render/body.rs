//! One step of a pass: load some elements of the last axis, compute, fold into reductions, store.
//!
//! The same text serves every schedule; they differ in how many elements a step has, where it is, and whether values
//! are kept from one pass to the next.

use std::fmt::Write as _;

use super::{Kernel, expr};
use crate::graph::{Kind, Node, Value};
use crate::plan::Pass;

/// Where the step is and what it may keep.
pub(super) struct Step<'a> {
    pub pass: &'a Pass,
    /// Which pass it is.
    pub number: usize,
    /// Elements of the step.
    pub width: usize,
    /// Whether values are kept in arrays `k…[q]` between passes.
    pub keeps: bool,
    pub indent: &'a str,
    /// The accumulator of a reduction, an lvalue.
    pub chain: &'a dyn Fn(Value) -> String,
    /// Whether stores need the lane's `live` flag.
    pub guarded: bool,
}

/// Renders a step. The text around it defines `column` (its first element), `count` (elements that are there) and `offset` (of every
/// tensor, at column 0 of the row); with `keeps` also `q`, and one accumulator per reduction.
pub(super) fn render(kernel: &Kernel<'_>, step: &Step<'_>, out: &mut String) {
    let computed: Vec<Value> = step.pass.needs.iter().copied().filter(|&value| step.computes(kernel, value)).collect();
    loads(kernel, step, &computed, out);
    results(kernel, step, out);
    let (indent, width) = (step.indent, step.width);
    let _ = writeln!(out, "#pragma unroll\n{indent}for (int e = 0; e < {width}; ++e) {{");
    for &value in &computed {
        compute(kernel, step, value, out);
    }
    for &reduce in &step.pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let _ = writeln!(out, "{indent}    s{}[e] = ({functor}::A){};", reduce.0, step.name(kernel, operand));
    }
    for &slot in &step.pass.stores {
        let _ = writeln!(out, "{indent}    y{slot}[e] = {};", step.name(kernel, kernel.graph.outputs[slot]));
    }
    let _ = writeln!(out, "{indent}}}");
    for &reduce in &step.pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let chain = (step.chain)(reduce);
        let _ = writeln!(out, "{indent}{chain} = fuse::fold<{functor}>({chain}, s{}, count);", reduce.0);
    }
    stores(kernel, step, out);
}

impl Step<'_> {
    /// Whether this pass computes (or loads) the value, rather than finding it kept.
    fn computes(&self, kernel: &Kernel<'_>, value: Value) -> bool {
        !self.keeps || kernel.plan.first[value.at()] == self.number
    }

    fn kept(&self, kernel: &Kernel<'_>, value: Value) -> bool {
        self.keeps && kernel.plan.kept[value.at()]
    }

    /// The text of a value in the element loop.
    fn name(&self, kernel: &Kernel<'_>, value: Value) -> String {
        let at = value.0;
        if kernel.plan.kinds[value.at()] != Kind::Full {
            return format!("v{at}");
        }
        let input = matches!(kernel.graph.nodes[value.at()].0, Node::Input { .. });
        match (self.kept(kernel, value), input) {
            (true, _) if input || !self.computes(kernel, value) => format!("k{at}[q][e]"),
            (_, true) => format!("x{at}[e]"),
            (_, false) => format!("v{at}"),
        }
    }
}

fn loads(kernel: &Kernel<'_>, step: &Step<'_>, computed: &[Value], out: &mut String) {
    let (indent, width) = (step.indent, step.width);
    let inputs: Vec<Value> = computed
        .iter()
        .copied()
        .filter(|value| matches!(kernel.graph.nodes[value.at()].0, Node::Input { .. }))
        .collect();
    if inputs.is_empty() {
        return;
    }
    for &input in inputs.iter().filter(|&&input| !step.kept(kernel, input)) {
        let _ = writeln!(out, "{indent}{} x{}[{width}];", expr::register(kernel.graph.dtype(input)), input.0);
    }
    let mut full = String::new();
    let mut part = String::new();
    for &input in &inputs {
        let (at, storage) = (kernel.input(input), expr::storage(kernel.graph.dtype(input)));
        let array = if step.kept(kernel, input) { format!("k{}[q]", input.0) } else { format!("x{}", input.0) };
        let place = format!("a.tensor[{at}], offset[{at}] + column * a.tensor[{at}].stride[0]");
        let _ = writeln!(full, "{indent}    fuse::load_full<{storage}>({array}, {place});");
        let _ = writeln!(part, "{indent}    fuse::load_part<{storage}>({array}, {place}, count);");
    }
    let _ = writeln!(out, "{indent}if (count == {width}) {{\n{full}{indent}}} else {{\n{part}{indent}}}");
}

/// Arrays for what the element loop leaves behind.
fn results(kernel: &Kernel<'_>, step: &Step<'_>, out: &mut String) {
    let (indent, width) = (step.indent, step.width);
    for &reduce in &step.pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let _ = writeln!(out, "{indent}{functor}::A s{}[{width}];", reduce.0);
    }
    for &slot in &step.pass.stores {
        let register = expr::register(kernel.graph.dtype(kernel.graph.outputs[slot]));
        let _ = writeln!(out, "{indent}{register} y{slot}[{width}];");
    }
}

fn compute(kernel: &Kernel<'_>, step: &Step<'_>, value: Value, out: &mut String) {
    let (node, dtype) = kernel.graph.nodes[value.at()];
    let text = match node {
        Node::Input { .. } => return,
        Node::Index { axis: 0 } => "(rf::i64)(column + (index_t)e)".to_owned(),
        Node::Index { axis } => format!("(rf::i64)at[{axis}]"),
        _ => expr::expression(kernel.graph, value, |operand| step.name(kernel, operand)),
    };
    let (indent, at) = (step.indent, value.0);
    let _ = writeln!(out, "{indent}    const {} v{at} = {text};", expr::register(dtype));
    if step.kept(kernel, value) {
        let _ = writeln!(out, "{indent}    k{at}[q][e] = v{at};");
    }
}

fn stores(kernel: &Kernel<'_>, step: &Step<'_>, out: &mut String) {
    if step.pass.stores.is_empty() {
        return;
    }
    let (indent, width) = (step.indent, step.width);
    let mut full = String::new();
    let mut part = String::new();
    for &slot in &step.pass.stores {
        let (at, storage) = (kernel.output(slot), expr::storage(kernel.graph.dtype(kernel.graph.outputs[slot])));
        let place = format!("a.tensor[{at}], offset[{at}] + column * a.tensor[{at}].stride[0]");
        let _ = writeln!(full, "{indent}    fuse::store_full<{storage}>(y{slot}, {place});");
        let _ = writeln!(part, "{indent}    fuse::store_part<{storage}>(y{slot}, {place}, count);");
    }
    let (first, second) = if step.guarded { ("live && ", "if (live) ") } else { ("", "") };
    let _ =
        writeln!(out, "{indent}if ({first}count == {width}) {{\n{full}{indent}}} else {second}{{\n{part}{indent}}}");
}
