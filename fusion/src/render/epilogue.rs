//! Renders an epilogue: a functor, for another kernel, that takes one element of its result. `epilogue.h` says what members it has.

use std::fmt::Write as _;

use super::{HEADER, Kernel, expr};
use crate::graph::{Graph, Node, Value};
use crate::plan::{Argument, Plan};

/// Renders `EpilogueArgs`, and `Epilogue` with `start`, `move` and `put`.
pub(crate) fn epilogue(graph: &Graph, plan: &Plan, arguments: &[Argument]) -> String {
    let kernel = Kernel { graph, plan, arguments: arguments.to_vec(), lookups: Vec::new(), pairs: false, members: 1 };
    let mut out = begin(&kernel, &[]);
    types(&kernel, &mut out);
    functions(&kernel, &mut out);
    out.push_str("};\ntypedef fuse::EndOfElements<EpilogueGraph> Epilogue;\n");
    out
}

/// Renders the headers, then those of `more`, then `EpilogueArgs` and the beginning of the functor.
pub(super) fn begin(kernel: &Kernel<'_>, more: &[&str]) -> String {
    let mut out = String::from("#undef FUSE_WIDE\n#define FUSE_WIDE 1\n");
    out.push_str(HEADER);
    out.push_str(include_str!("epilogue.h"));
    more.iter().for_each(|header| out.push_str(header));
    for line in kernel.graph.to_string().lines() {
        let _ = writeln!(out, "// {line}");
    }
    let count = kernel.arguments.len();
    let _ = writeln!(out, "struct EpilogueArgs {{\n    fuse::EndTensor tensor[{count}];");
    if kernel.graph.scalars > 0 {
        let _ = writeln!(out, "    rf::u64 scalar[{}];", kernel.graph.scalars);
    }
    let _ = writeln!(out, "}};\nstruct EpilogueGraph : fuse::Standing<EpilogueArgs, {count}> {{");
    let _ = writeln!(out, "    typedef {} Result;", expr::storage(kernel.graph.nodes[0].1));
    out
}

fn types(kernel: &Kernel<'_>, out: &mut String) {
    out.push_str("    struct Written {\n");
    for (slot, &value) in kernel.graph.outputs.iter().enumerate() {
        let _ = writeln!(out, "        {} y{slot};", expr::register(kernel.graph.dtype(value)));
    }
    out.push_str("    };\n");
}

fn functions(kernel: &Kernel<'_>, out: &mut String) {
    let graph = kernel.graph;
    let name = |value: Value| format!("v{}", value.0);
    let _ = writeln!(
        out,
        "    RF_FN void step(const EpilogueArgs& a, rf::i64 down, rf::i64 right, {} v0, Written& to) const {{",
        expr::register(graph.nodes[0].1)
    );
    for value in (1..graph.nodes.len()).filter(|&at| kernel.plan.live[at]).map(|at| Value(at as u32)) {
        let (node, dtype) = graph.nodes[value.at()];
        let text = match node {
            Node::Input(_) => {
                format!("get<{}>(a, {}, down, right)", expr::storage(dtype), kernel.input(value))
            }
            _ => expr::expression(graph, &kernel.plan.kinds, value, name),
        };
        let _ = writeln!(out, "        const {} v{} = {text};", expr::register(dtype), value.0);
    }
    for (slot, &value) in graph.outputs.iter().enumerate() {
        let _ = writeln!(out, "        to.y{slot} = {};", name(value));
    }
    out.push_str(
        "    }\n    RF_FN void write(const EpilogueArgs& a, rf::i64 down, rf::i64 right, const Written& from) const {\n",
    );
    for (slot, &value) in graph.outputs.iter().enumerate() {
        let (at, storage) = (kernel.output(slot), expr::storage(graph.dtype(value)));
        let _ = writeln!(out, "        put<{storage}>(a, {at}, down, right, from.y{slot});");
    }
    out.push_str("    }\n");
}
