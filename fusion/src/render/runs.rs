//! The end of a kernel that hands over its result in runs of neighbours along the columns, line after line.
//!
//! What differs from column to column only (a bias, the statistics of a normalisation, the root and the quotient made of them) is
//! computed once by `hold` and kept for all lines of a lane; `fetch` reads what else a line needs, so that several lines' reads are
//! under way together, and `put` computes and stores the line. The elements are those of [`super::epilogue`], two by two.

use std::fmt::Write as _;

use super::body::{self, Step};
use super::epilogue;
use super::{HEADER, Kernel, expr, pairs, room};
use crate::epilogue::Runs;
use crate::graph::{Graph, Kind, Node, Value};
use crate::plan::{Argument, Pass, Plan};

/// Elements of a run.
pub(crate) const RUN: usize = 8;

/// What `put` gets: the result's elements as memory has them.
const UNPACK: &str = "namespace rf {
namespace fuse {
template <class S> RF_FN void unpack(Halves<S, 8>& to, const Vec<u32, 4>& words) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to.word[i] = words[i];
}
template <class S> RF_FN void unpack(float (&to)[8], const Vec<u32, 4>& words) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = Half<S>::low(words[i]);
        to[2 * i + 1] = Half<S>::high(words[i]);
    }
}
}  // namespace fuse
}  // namespace rf
";

/// `EpilogueArgs`, and `Epilogue` with `start`, `move`, `hold`, `fetch` and `put`.
pub(crate) fn runs(graph: &Graph, plan: &Plan, arguments: &[Argument], runs: Runs) -> String {
    let mut out = String::from("#undef FUSE_WIDE\n#define FUSE_WIDE 1\n");
    out.push_str(HEADER);
    out.push_str(pairs::HEADER);
    out.push_str(UNPACK);
    let split = Split::new(graph, plan, arguments, runs);
    let kernel = Kernel { graph, plan: &split.plan, arguments: arguments.to_vec(), lookups: Vec::new(), pairs: true };
    epilogue::begin(graph, arguments, &mut out);
    let count = arguments.len();
    out.push_str("    // Of each column.\n");
    body::arrays(&kernel, &split.kept, RUN, false, "    ", &mut out);
    out.push_str("    // Of each element of a line.\n    struct Row {\n");
    body::arrays(&kernel, &split.by_line, RUN, false, "        ", &mut out);
    let _ = writeln!(out, "    }};\n    struct Places {{\n        fuse::Tensor tensor[{count}];");
    if graph.scalars > 0 {
        let _ = writeln!(out, "        rf::u64 scalar[{}];", graph.scalars);
    }
    out.push_str("    };\n");
    places(&kernel, runs, &mut out);
    hold(&kernel, &split, &mut out);
    fetch(&kernel, &split, &mut out);
    put(&kernel, &split, &mut out);
    out.push_str("};\n");
    out
}

/// What is computed once, and what for each line.
struct Split {
    /// With two passes: the columns', then the lines'.
    plan: Plan,
    /// Values of the columns that lines need.
    kept: Vec<Value>,
    /// Inputs that only columns need.
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
                Node::Input { slot: 0 } => true,
                Node::Input { .. } => arguments.iter().position(own).is_some_and(|place| !runs.is_held(place)),
                _ => node.operands().any(|operand| varies[operand.at()]),
            };
        }
        let is_full = |at: usize| plan.live[at] && plan.kinds[at] == Kind::Full;
        let values = |keep: &dyn Fn(usize) -> bool| -> Vec<Value> {
            (0..varies.len()).filter(|&at| is_full(at) && keep(at)).map(|at| Value(at as u32)).collect()
        };
        let is_input = |at: usize| matches!(graph.nodes[at].0, Node::Input { .. });
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
}

/// Where the tensors are, each with its mode as a constant: the compiler drops the other ways to read it.
fn places(kernel: &Kernel<'_>, runs: Runs, out: &mut String) {
    out.push_str("    RF_FN Places places(const EpilogueArgs& args) const {\n        Places a;\n");
    for at in 0..kernel.arguments.len() {
        let _ = writeln!(
            out,
            "        a.tensor[{at}].base = at[{at}];\n        a.tensor[{at}].mode = fuse::{};\n        a.tensor[{at}].stride[0] = (index_t)args.tensor[{at}].stride[0];",
            runs.mode(at)
        );
    }
    for slot in 0..kernel.graph.scalars {
        let _ = writeln!(out, "        a.scalar[{slot}] = args.scalar[{slot}];");
    }
    out.push_str("        return a;\n    }\n");
}

/// What every function begins with; `offset` is the text of a tensor's offset.
fn begin(kernel: &Kernel<'_>, offset: impl Fn(usize) -> String, out: &mut String) {
    let offsets: Vec<String> = (0..kernel.arguments.len()).map(offset).collect();
    let (count, offsets) = (offsets.len(), offsets.join(", "));
    let _ =
        writeln!(out, "        const Places a = places(args);\n        const index_t offset[{count}] = {{{offsets}}};");
}

fn of_line(at: usize) -> String {
    format!("(index_t)(down * args.tensor[{at}].stride[1])")
}

/// Reads inputs into arrays of their names, or of `row`.
fn read(kernel: &Kernel<'_>, inputs: impl Iterator<Item = Value>, row: &str, out: &mut String) {
    for input in inputs {
        let (at, storage) = (kernel.input(input), expr::storage(kernel.graph.dtype(input)));
        let _ = writeln!(out, "        fuse::load_full<{storage}>({row}x{}, a.tensor[{at}], offset[{at}]);", input.0);
    }
}

fn hold(kernel: &Kernel<'_>, split: &Split, out: &mut String) {
    out.push_str("    // At the first column of a run.\n    RF_FN void hold(const EpilogueArgs& args) {\n");
    let needs = &kernel.plan.passes[0].needs;
    if !needs.is_empty() {
        begin(kernel, |_| "0".to_owned(), out);
        kernel.declare_uniforms(out);
        body::arrays(kernel, &split.passing, RUN, false, "        ", out);
        let inputs = needs.iter().copied().filter(|&value| room::is_input(kernel.graph, value));
        read(kernel, inputs, "", out);
        render(kernel, split, 0, out);
    }
    out.push_str("    }\n");
}

fn fetch(kernel: &Kernel<'_>, split: &Split, out: &mut String) {
    out.push_str("    RF_FN void fetch(const EpilogueArgs& args, rf::i64 down, Row& row) const {\n");
    if !split.by_line.is_empty() {
        begin(kernel, of_line, out);
        read(kernel, split.by_line.iter().copied(), "row.", out);
    }
    out.push_str("    }\n");
}

fn put(kernel: &Kernel<'_>, split: &Split, out: &mut String) {
    out.push_str(
        "    RF_FN void put(const EpilogueArgs& args, rf::i64 down, const rf::Vec<rf::u32, 4>& result, const Row& row) const {\n",
    );
    begin(kernel, of_line, out);
    let result = expr::storage(kernel.graph.nodes[0].1);
    let _ = writeln!(out, "        fuse::Several<{result}, {RUN}> x0;\n        fuse::unpack<{result}>(x0, result);");
    kernel.declare_uniforms(out);
    out.push_str("        struct {\n");
    body::written_arrays(kernel, &kernel.plan.passes[1], RUN, "            ", out);
    out.push_str("        } to;\n");
    render(kernel, split, 1, out);
    for slot in 0..kernel.graph.outputs.len() {
        let (at, storage) = (kernel.output(slot), expr::storage(kernel.graph.dtype(kernel.graph.outputs[slot])));
        let _ = writeln!(out, "        fuse::store_full<{storage}>(to.y{slot}, a.tensor[{at}], offset[{at}]);");
    }
    out.push_str("    }\n");
}

fn render(kernel: &Kernel<'_>, split: &Split, number: usize, out: &mut String) {
    let array = |value: Value| format!("{}x{}", if split.by_line.contains(&value) { "row." } else { "" }, value.0);
    let pass = &kernel.plan.passes[number];
    let step = Step { pass, number, width: RUN, keeps: true, halves: false, preloaded: true, arrays: [&array, &array] };
    step.render(kernel, &|_| false, "        ", out);
}
