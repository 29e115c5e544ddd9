//! One step of a pass: load some elements of the last axis, compute, fold into reductions, store.
//!
//! The same text serves every schedule; they differ in how many elements a step has, where it is, and whether values
//! are kept from one pass to the next.

use std::fmt::{Display, Write as _};

use rocfire_hal::DType;

use super::{Kernel, expr, pairs};
use crate::graph::{Kind, Node, Value};
use crate::op::Binary;
use crate::order::QUAD;
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
    /// Whether computed 16-bit values are kept two in a register, as inputs are.
    pub halves: bool,
    /// Whether the inputs are in such arrays already: [`preload`] has read those of several steps at once.
    pub preloaded: bool,
    /// The side of the tiles that inputs may have been put in: `tiles`, read at `column` and `line`.
    pub tile: Option<usize>,
    pub indent: &'a str,
    /// The accumulator of a reduction, an lvalue: one of each quad where a step has several.
    pub chain: &'a dyn Fn(Value) -> String,
    /// Whether stores need the lane's `live` flag.
    pub guarded: bool,
    /// Whether all lies packed, and a step's elements are all there or, with a `count` of 0, none.
    pub packed: bool,
    /// Whether results are stored past the caches: where rows are so long that a launch fills them.
    pub once: bool,
}

impl<'a> Step<'a> {
    /// A step whose elements are read and computed anew, in a graph without reductions; a schedule says what is otherwise.
    pub fn anew(pass: &'a Pass, number: usize, width: usize) -> Step<'a> {
        Step {
            pass,
            number,
            width,
            keeps: false,
            halves: true,
            preloaded: false,
            tile: None,
            indent: "        ",
            chain: &|_| unreachable!("there are no reductions"),
            guarded: false,
            packed: false,
            once: false,
        }
    }
}

/// Renders a step. The text around it defines `column` (its first element), `count` (elements that are there) and `offset` (of every
/// tensor, at column 0 of the row); with `keeps` also `q`, and one accumulator per reduction.
pub(super) fn render(kernel: &Kernel<'_>, step: &Step<'_>, out: &mut String) {
    let computed: Vec<Value> = step.pass.needs.iter().copied().filter(|&value| step.computes(kernel, value)).collect();
    if !step.preloaded {
        loads(kernel, step, &computed, out);
    }
    results(kernel, step, out);
    let (indent, width) = (step.indent, step.width);
    for &value in &computed {
        if let Some((from, by)) = step.divides(kernel, value) {
            let at = value.0;
            let _ =
                writeln!(out, "{indent}float d{at}[{width}];\n{indent}fuse::divide_each(d{at}, {from}, v{});", by.0);
        }
    }
    let next = if kernel.pairs { "e += 2" } else { "++e" };
    let _ = writeln!(out, "#pragma unroll\n{indent}for (int e = 0; e < {width}; {next}) {{");
    for &value in &computed {
        compute(kernel, step, value, out);
    }
    for &reduce in &step.pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let place = |e: &str| if width == QUAD { e.to_owned() } else { format!("e / {QUAD}][{e} % {QUAD}") };
        let mut put = |e, value: String| {
            let _ = writeln!(out, "{indent}    s{}[{}] = ({functor}::A){value};", reduce.0, place(e));
        };
        if kernel.pairs {
            let pair = pairs::name(kernel, step, operand);
            put("e", format!("{pair}.low()"));
            put("(e + 1)", format!("{pair}.high()"));
        } else {
            put("e", step.name(kernel, operand));
        }
    }
    for &slot in &step.pass.stores {
        let value = kernel.graph.outputs[slot];
        let _ = if kernel.pairs {
            let (storage, pair) = (expr::storage(kernel.graph.dtype(value)), pairs::name(kernel, step, value));
            writeln!(out, "{indent}    fuse::put_two<{storage}>(y{slot}, e, {pair});")
        } else {
            writeln!(out, "{indent}    y{slot}[e] = {};", step.name(kernel, value))
        };
    }
    let _ = writeln!(out, "{indent}}}");
    for &reduce in &step.pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let (chain, quads) = ((step.chain)(reduce), width / QUAD);
        let whole = if step.packed { "_whole" } else { "" };
        let _ = match quads {
            1 => writeln!(out, "{indent}{chain} = fuse::fold{whole}<{functor}>({chain}, s{}, count);", reduce.0),
            _ => writeln!(out, "{indent}fuse::fold_each{whole}<{functor}, {quads}>({chain}, s{}, count);", reduce.0),
        };
    }
    stores(kernel, step, out);
}

impl Step<'_> {
    /// Whether this pass computes (or loads) the value, rather than finding it kept.
    fn computes(&self, kernel: &Kernel<'_>, value: Value) -> bool {
        !self.keeps || kernel.plan.first[value.at()] == self.number || self.pass.again.contains(&value)
    }

    fn kept(&self, kernel: &Kernel<'_>, value: Value) -> bool {
        let input = || matches!(kernel.graph.nodes[value.at()].0, Node::Input { .. });
        (self.keeps && kernel.plan.kept[value.at()]) || (self.preloaded && input())
    }

    /// The array in which a value per element is, if it is in one and not computed by this pass.
    pub(super) fn array(&self, kernel: &Kernel<'_>, value: Value) -> Option<String> {
        let at = value.0;
        let input = matches!(kernel.graph.nodes[value.at()].0, Node::Input { .. });
        match (self.kept(kernel, value), input) {
            (true, _) if input || !self.computes(kernel, value) => Some(format!("k{at}[q]")),
            (_, true) => Some(format!("x{at}")),
            (_, false) => None,
        }
    }

    /// The array of dividends and the divisor of a quotient of floats that is computed before the element loop: where the dividends are
    /// there and share the divisor.
    fn divides(&self, kernel: &Kernel<'_>, value: Value) -> Option<(String, Value)> {
        let (Node::Binary(Binary::Div, a, b), DType::F32) = kernel.graph.nodes[value.at()] else { return None };
        let shared = kernel.plan.kinds[a.at()] == Kind::Full && kernel.plan.kinds[b.at()] < Kind::Full;
        let apart = self.preloaded && shared && !kernel.pairs;
        apart.then(|| self.array(kernel, a)).flatten().map(|from| (from, b))
    }

    /// The text of a value in the element loop.
    fn name(&self, kernel: &Kernel<'_>, value: Value) -> String {
        let at = value.0;
        if kernel.plan.kinds[value.at()] != Kind::Full {
            return format!("v{at}");
        }
        match self.array(kernel, value) {
            Some(array) => format!("{array}[e]"),
            None => format!("v{at}"),
        }
    }
}

fn loads(kernel: &Kernel<'_>, step: &Step<'_>, computed: &[Value], out: &mut String) {
    let (indent, width) = (step.indent, step.width);
    let inputs = inputs_of(kernel, computed);
    if inputs.is_empty() {
        return;
    }
    for &input in inputs.iter().filter(|&&input| !step.kept(kernel, input)) {
        let dtype = kernel.graph.dtype(input);
        let _ = match kernel.pairs && expr::is_half(dtype) {
            true => writeln!(out, "{indent}fuse::Halves<{}, {width}> x{};", expr::storage(dtype), input.0),
            false => writeln!(out, "{indent}{} x{}[{width}];", expr::register(dtype), input.0),
        };
    }
    let array = |input: Value| match step.kept(kernel, input) {
        true => format!("k{}[q]", input.0),
        false => format!("x{}", input.0),
    };
    if let Some(side) = step.tile {
        for &input in &inputs {
            let (at, storage, array) = (kernel.input(input), expr::storage(kernel.graph.dtype(input)), array(input));
            let (full, part) = load_texts(kernel, &[input], |_| array.clone(), indent);
            let tile = format!("(const {storage}*)tiles[a.tensor[{at}].mode - fuse::TILED]");
            let _ = writeln!(
                out,
                "{indent}if (a.tensor[{at}].mode >= fuse::TILED) {{\n{indent}    fuse::load_turned<{storage}, {side}>({array}, {tile}, column, line);"
            );
            let _ =
                writeln!(out, "{indent}}} else if (count == {width}) {{\n{full}{indent}}} else {{\n{part}{indent}}}");
        }
        return;
    }
    let (full, part) = load_texts(kernel, &inputs, array, indent);
    let _ = writeln!(out, "{indent}if (count == {width}) {{\n{full}{indent}}} else {{\n{part}{indent}}}");
}

/// Loads of whole steps, and of steps that the row's end cuts.
fn load_texts(
    kernel: &Kernel<'_>,
    inputs: &[Value],
    array: impl Fn(Value) -> String,
    indent: &str,
) -> (String, String) {
    let (mut full, mut part) = (String::new(), String::new());
    for &input in inputs {
        let (at, storage, array) = (kernel.input(input), expr::storage(kernel.graph.dtype(input)), array(input));
        let place = format!("a.tensor[{at}], offset[{at}] + column * a.tensor[{at}].stride[0]");
        let _ = writeln!(full, "{indent}    fuse::load_full<{storage}>({array}, {place});");
        let _ = writeln!(part, "{indent}    fuse::load_part<{storage}>({array}, {place}, count);");
    }
    (full, part)
}

fn inputs_of(kernel: &Kernel<'_>, values: &[Value]) -> Vec<Value> {
    let input = |value: &&Value| matches!(kernel.graph.nodes[value.at()].0, Node::Input { .. });
    values.iter().filter(input).copied().collect()
}

/// The inputs per element that a pass reads: all it needs, or with `keeps` those that no pass before it has read.
pub(super) fn inputs(kernel: &Kernel<'_>, number: usize, keeps: bool) -> Vec<Value> {
    let needs = &kernel.plan.passes[number].needs;
    let read_here = |value: &Value| !keeps || kernel.plan.first[value.at()] == number;
    inputs_of(kernel, needs).into_iter().filter(read_here).collect()
}

/// Declares `k…[turns][width]` for values; with `halves`, 16-bit floats are kept two in a register, else as pairs are.
pub(super) fn arrays(
    kernel: &Kernel<'_>,
    values: &[Value],
    (turns, width, halves): (impl Display, usize, bool),
    indent: &str,
    out: &mut String,
) {
    for &value in values {
        let dtype = kernel.graph.dtype(value);
        let (storage, register) = (expr::storage(dtype), expr::register(dtype));
        let _ = match (halves, kernel.pairs) {
            (true, _) if expr::is_half(dtype) => {
                writeln!(out, "{indent}fuse::Halves<{storage}, {width}> k{}[{turns}];", value.0)
            }
            (_, true) if expr::is_half(dtype) => {
                writeln!(out, "{indent}fuse::Several<{storage}, {width}> k{}[{turns}];", value.0)
            }
            _ => writeln!(out, "{indent}{register} k{}[{turns}][{width}];", value.0),
        };
    }
}

/// Reads inputs of one step into `k…[q]`; the text around it defines `column`, `count` and `offset`.
pub(super) fn preload_step(kernel: &Kernel<'_>, inputs: &[Value], width: usize, indent: &str, out: &mut String) {
    let (full, part) = load_texts(kernel, inputs, |input| format!("k{}[q]", input.0), indent);
    let _ = writeln!(out, "{indent}if (count == {width}) {{\n{full}{indent}}} else {{\n{part}{indent}}}");
}

/// Where inputs may lie for [`preload`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    /// All packed, all steps whole and inside the row: no branch stands between the loads, so that all are under way at once.
    Packed,
    /// The same, and this launch reads them only once.
    PackedOnce,
    /// Anywhere, and the row's end may cut a step.
    Anyhow,
}

/// Reads inputs of `turns` steps of `width` into `k…[q]`, one step after another; `column` is the text of step `q`'s first
/// element.
pub(super) fn preload(
    kernel: &Kernel<'_>,
    inputs: &[Value],
    lie: Lie,
    (turns, width, column): (usize, usize, &str),
    indent: &str,
    out: &mut String,
) {
    if inputs.is_empty() {
        return;
    }
    let _ = writeln!(out, "#pragma unroll\n{indent}for (rf::u32 q = 0; q < {turns}; ++q) {{");
    let _ = writeln!(out, "{indent}    const index_t column = {column};");
    if lie != Lie::Anyhow {
        let load = if lie == Lie::PackedOnce { "load_once" } else { "load_packed" };
        for &input in inputs {
            let (at, storage) = (kernel.input(input), expr::storage(kernel.graph.dtype(input)));
            let place = format!("a.tensor[{at}], offset[{at}] + column * (index_t)sizeof({storage})");
            let _ = writeln!(out, "{indent}    fuse::{load}<{storage}>(k{}[q], {place});", input.0);
        }
    } else {
        let (full, part) = load_texts(kernel, inputs, |input| format!("k{}[q]", input.0), &format!("{indent}    "));
        let _ = writeln!(out, "{indent}    const rf::u32 count = fuse::window(column, a.space.extent, {width});");
        let _ =
            writeln!(out, "{indent}    if (count == {width}) {{\n{full}{indent}    }} else {{\n{part}{indent}    }}");
    }
    let _ = writeln!(out, "{indent}}}");
}

/// Reads inputs of a row as [`preload`] does: packed where `packed` says so, an expression that is the same in every lane.
pub(super) fn preload_either(
    kernel: &Kernel<'_>,
    inputs: &[Value],
    (packed, lie): (&str, Lie),
    (turns, width, column): (usize, usize, &str),
    out: &mut String,
) {
    if inputs.is_empty() {
        return;
    }
    let _ = writeln!(out, "        if ({packed}) {{");
    preload(kernel, inputs, lie, (turns, width, &inside(column)), "            ", out);
    out.push_str("        } else {\n");
    preload(kernel, inputs, Lie::Anyhow, (turns, width, column), "            ", out);
    out.push_str("        }\n");
}

/// The column that a lane past the end reads: the row's first, and nothing comes of it.
pub(super) fn inside(column: &str) -> String {
    format!("{column} < a.space.extent ? {column} : 0")
}

/// Whether every input per element lies packed, as an expression that is the same in every lane.
pub(super) fn packed(kernel: &Kernel<'_>, width: usize) -> String {
    let mut inputs: Vec<usize> = (0..kernel.plan.passes.len())
        .flat_map(|number| inputs(kernel, number, true))
        .map(|input| kernel.input(input))
        .collect();
    inputs.sort_unstable();
    let modes = inputs.iter().map(|at| format!(" && a.tensor[{at}].mode == fuse::PACKED")).collect::<String>();
    format!("a.space.extent % {width} == 0{modes}")
}

/// Arrays for what the element loop leaves behind.
fn results(kernel: &Kernel<'_>, step: &Step<'_>, out: &mut String) {
    let (indent, width) = (step.indent, step.width);
    for &reduce in &step.pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let extents = if width == QUAD { QUAD.to_string() } else { format!("{}][{QUAD}", width / QUAD) };
        let _ = writeln!(out, "{indent}{functor}::A s{}[{extents}];", reduce.0);
    }
    for &slot in &step.pass.stores {
        let dtype = kernel.graph.dtype(kernel.graph.outputs[slot]);
        let _ = match kernel.pairs && expr::is_half(dtype) {
            true => writeln!(out, "{indent}fuse::Several<{}, {width}> y{slot};", expr::storage(dtype)),
            false => writeln!(out, "{indent}{} y{slot}[{width}];", expr::register(dtype)),
        };
    }
}

fn compute(kernel: &Kernel<'_>, step: &Step<'_>, value: Value, out: &mut String) {
    let (node, dtype) = kernel.graph.nodes[value.at()];
    if kernel.pairs && !matches!(node, Node::Input { .. }) {
        let (indent, at, storage) = (step.indent, value.0, expr::storage(dtype));
        let _ =
            writeln!(out, "{indent}    const fuse::Two<{storage}> v{at} = {};", pairs::compute(kernel, step, value));
        if step.kept(kernel, value) {
            let _ = writeln!(out, "{indent}    fuse::put_two<{storage}>(k{at}[q], e, v{at});");
        }
        return;
    }
    let text = match node {
        Node::Input { .. } => return,
        Node::Index { axis: 0 } => "(rf::i64)(column + (index_t)e)".to_owned(),
        Node::Index { axis } => format!("(rf::i64)at[{axis}]"),
        Node::Lookup { index, .. } => kernel.look_up(value, &step.name(kernel, index), "e"),
        Node::Check { op, index, extent } => {
            expr::check(op, &step.name(kernel, index), &step.name(kernel, extent), "(rf::u32)e < count")
        }
        _ if step.divides(kernel, value).is_some() => format!("d{}[e]", value.0),
        _ => expr::expression(kernel.graph, &kernel.plan.kinds, value, |operand| step.name(kernel, operand)),
    };
    let (indent, at) = (step.indent, value.0);
    let _ = writeln!(out, "{indent}    const {} v{at} = {text};", expr::register(dtype));
    if step.kept(kernel, value) {
        let _ = match step.halves && expr::is_half(dtype) {
            true => writeln!(out, "{indent}    k{at}[q].put(e, v{at});"),
            false => writeln!(out, "{indent}    k{at}[q][e] = v{at};"),
        };
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
        let tensor = format!("a.tensor[{at}], offset[{at}] + column * ");
        let (store, place) = match (step.packed, step.once) {
            (true, _) => ("store_packed", format!("{tensor}(index_t)sizeof({storage})")),
            (false, true) => ("store_once", format!("{tensor}a.tensor[{at}].stride[0]")),
            (false, false) => ("store_full", format!("{tensor}a.tensor[{at}].stride[0]")),
        };
        let _ = writeln!(full, "{indent}    fuse::{store}<{storage}>(y{slot}, {place});");
        let _ = writeln!(part, "{indent}    fuse::store_part<{storage}>(y{slot}, {place}, count);");
    }
    let (first, second) = if step.guarded { ("live && ", "if (live) ") } else { ("", "") };
    let _ = write!(out, "{indent}if ({first}count == {width}) {{\n{full}{indent}}}");
    let _ = match step.packed {
        true => writeln!(out),
        false => writeln!(out, " else {second}{{\n{part}{indent}}}"),
    };
}
