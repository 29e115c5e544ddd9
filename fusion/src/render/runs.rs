//! Renders the epilogue of a kernel that hands over its result in runs of neighbouring columns, line after line. `runs.h` says what
//! members the functor has. It computes the same as that of `epilogue.rs`, two elements at a time.

use std::fmt::Write as _;

use super::body::{self, Step};
use super::epilogue;
use super::{Kernel, expr, pairs, room};
use crate::epilogue::Runs;
use crate::graph::{Graph, Kind, Node, Value};
use crate::plan::{Argument, Pass, Plan};

/// How many elements a run has.
pub(crate) const RUN: usize = 8;

/// Renders `EpilogueArgs`, and `Epilogue` with `start`, `move`, `hold`, `fetch` and `put`.
pub(crate) fn runs(graph: &Graph, plan: &Plan, arguments: &[Argument], runs: Runs) -> String {
    let split = Split::new(graph, plan, arguments, runs);
    let kernel = Kernel {
        graph,
        plan: &split.plan,
        arguments: arguments.to_vec(),
        lookups: Vec::new(),
        pairs: true,
        members: 1,
    };
    let mut out = epilogue::begin(&kernel, &[pairs::HEADER, include_str!("runs.h")]);
    let count = arguments.len();
    let _ = writeln!(out, "    static const int TENSORS = {count}, WIDTH = {RUN};");
    for (name, values) in [("Kept", &split.kept), ("Read", &split.passing), ("Row", &split.by_line)] {
        let _ = writeln!(out, "    struct {name} {{");
        body::arrays(&kernel, values, RUN, false, "        ", &mut out);
        out.push_str("    };\n");
    }
    out.push_str("    struct Written {\n");
    body::written_arrays(&kernel, &kernel.plan.passes[1], RUN, "        ", &mut out);
    let _ = writeln!(out, "    }};\n    RF_FN static void modes(fuse::Tensor (&tensor)[{count}]) {{");
    for at in 0..count {
        let _ = writeln!(out, "        tensor[{at}].mode = fuse::{};", runs.mode(at));
    }
    out.push_str("    }\n");
    columns(&kernel, &split, &mut out);
    lines(&kernel, &split, &mut out);
    out.push_str("};\ntypedef fuse::EndOfRuns<EpilogueGraph> Epilogue;\n");
    out
}

/// A graph split into what is computed once for a run's columns, and what for each line.
struct Split {
    /// The plan with two passes: first that of the columns, then that of a line.
    plan: Plan,
    /// Values per column that lines need.
    kept: Vec<Value>,
    /// Inputs that only the values per column need.
    passing: Vec<Value>,
    /// Inputs that lines need, without the result.
    by_line: Vec<Value>,
}

impl Split {
    fn new(graph: &Graph, plan: &Plan, arguments: &[Argument], runs: Runs) -> Split {
        let mut varies = vec![false; graph.nodes.len()];
        for (at, (node, _)) in graph.nodes.iter().enumerate() {
            let own = |argument: &Argument| matches!(argument, Argument::Input(_, value) if value.at() == at);
            varies[at] = match node {
                Node::Input(0) => true,
                Node::Input(_) => arguments.iter().position(own).is_some_and(|place| !runs.is_held(place)),
                _ => node.operands().any(|operand| varies[operand.at()]),
            };
        }
        let is_full = |at: usize| plan.live[at] && plan.kinds[at] == Kind::Full;
        let values = |keep: &dyn Fn(usize) -> bool| -> Vec<Value> {
            (0..varies.len()).filter(|&at| is_full(at) && keep(at)).map(|at| Value(at as u32)).collect()
        };
        let is_input = |at: usize| matches!(graph.nodes[at].0, Node::Input(_));
        let mut kept = vec![false; varies.len()];
        for at in (0..varies.len()).filter(|&at| is_full(at) && varies[at]) {
            graph.nodes[at].0.operands().for_each(|operand| kept[operand.at()] |= !varies[operand.at()]);
        }
        graph.outputs.iter().for_each(|output| kept[output.at()] |= !varies[output.at()]);
        let columns = Pass { needs: values(&|at| !varies[at]), ..Pass::default() };
        let lines =
            Pass { needs: values(&|at| varies[at]), stores: (0..graph.outputs.len()).collect(), ..Pass::default() };
        Split {
            plan: Plan {
                passes: vec![columns, lines],
                first: varies.iter().map(|&varies| usize::from(varies)).collect(),
                kept: kept.clone(),
                ..plan.clone()
            },
            kept: values(&|at| kept[at]),
            passing: values(&|at| !varies[at] && !kept[at] && is_input(at)),
            by_line: values(&|at| at > 0 && varies[at] && is_input(at)),
        }
    }
    /// The array that has a value.
    fn array(&self, value: Value) -> String {
        let holds = |values: &[Value]| values.contains(&value);
        let of = match (holds(&self.kept), holds(&self.by_line)) {
            (true, _) => "k.",
            (_, true) => "row.",
            _ if holds(&self.passing) => "in.",
            // The result is an argument of the step.
            _ => "",
        };
        format!("{of}x{}", value.0)
    }
}

/// Renders the reading and computing of values that vary by column only.
fn columns(kernel: &Kernel<'_>, split: &Split, out: &mut String) {
    let count = kernel.arguments.len();
    let _ = writeln!(out, "    RF_FN void read(const fuse::Line<{count}>& line, Kept& k, Read& in) const {{");
    let needs = &kernel.plan.passes[0].needs;
    read(kernel, split, needs.iter().copied().filter(|&value| room::is_input(kernel.graph, value)), out);
    out.push_str("    }\n    RF_FN void step(const EpilogueArgs& a, Kept& k, const Read& in) const {\n");
    if !needs.is_empty() {
        step(kernel, split, 0, out);
    }
    out.push_str("    }\n");
}

/// Renders the reading, computing and storing of values that vary by line.
fn lines(kernel: &Kernel<'_>, split: &Split, out: &mut String) {
    let (graph, count) = (kernel.graph, kernel.arguments.len());
    let _ = writeln!(out, "    RF_FN void read(const fuse::Line<{count}>& line, Row& row) const {{");
    read(kernel, split, split.by_line.iter().copied(), out);
    out.push_str(
        "    }\n    RF_FN void step(const EpilogueArgs& a, const Kept& k, const Row& row, const fuse::Several<Result, WIDTH>& x0, Written& to) const {\n",
    );
    step(kernel, split, 1, out);
    let _ =
        writeln!(out, "    }}\n    RF_FN void write(const fuse::Line<{count}>& line, const Written& from) const {{");
    for (slot, &value) in graph.outputs.iter().enumerate() {
        let (at, storage) = (kernel.output(slot), expr::storage(graph.dtype(value)));
        let _ =
            writeln!(out, "        fuse::store_full<{storage}>(from.y{slot}, line.tensor[{at}], line.offset[{at}]);");
    }
    out.push_str("    }\n");
}

/// Renders the reading of inputs into their arrays.
fn read(kernel: &Kernel<'_>, split: &Split, inputs: impl Iterator<Item = Value>, out: &mut String) {
    for input in inputs {
        let (at, storage) = (kernel.input(input), expr::storage(kernel.graph.dtype(input)));
        let array = split.array(input);
        let _ = writeln!(out, "        fuse::load_full<{storage}>({array}, line.tensor[{at}], line.offset[{at}]);");
    }
}

/// Renders what a pass computes.
fn step(kernel: &Kernel<'_>, split: &Split, number: usize, out: &mut String) {
    kernel.declare_uniforms(out);
    let array = |value: Value| split.array(value);
    let pass = &kernel.plan.passes[number];
    let step = Step { pass, number, width: RUN, keeps: true, halves: false, preloaded: true, arrays: [&array, &array] };
    step.render(kernel, &|_| false, "        ", out);
}
