//! Not a schedule but a function: what happens to one element of another kernel's result.

use std::fmt::Write as _;

use super::{HEADER, expr};
use crate::graph::{Graph, Node, Value};
use crate::plan::{Argument, Plan};

/// `EpilogueArgs`, and `Epilogue` with `start`, `move` and `put`.
pub(crate) fn epilogue(graph: &Graph, plan: &Plan, arguments: &[Argument]) -> String {
    let mut out = String::from("#undef FUSE_WIDE\n#define FUSE_WIDE 1\n");
    out.push_str(HEADER);
    begin(graph, arguments, &mut out);
    put(graph, plan, arguments, &mut out);
    out.push_str("};\n");
    out
}

/// `EpilogueArgs`, and of `Epilogue` what is the same for every graph.
pub(super) fn begin(graph: &Graph, arguments: &[Argument], out: &mut String) {
    for line in graph.to_string().lines() {
        let _ = writeln!(out, "// {line}");
    }
    let count = arguments.len();
    let scalars = if graph.scalars > 0 { format!("    rf::u64 scalar[{}];\n", graph.scalars) } else { String::new() };
    // Offsets are in bytes; axes count from the last.
    let _ = write!(
        out,
        "struct EpilogueTensor {{\n    rf::u64 base;\n    rf::i64 stride[8];\n}};\n\
         struct EpilogueArgs {{\n    EpilogueTensor tensor[{count}];\n{scalars}}};\n\
         struct Epilogue {{\n    rf::u64 at[{count}];\n\
         \x20   RF_FN void start(const EpilogueArgs& a) {{\n#pragma unroll\n\
         \x20       for (int k = 0; k < {count}; ++k) at[k] = a.tensor[k].base;\n    }}\n\
         \x20   RF_FN void move(const EpilogueArgs& a, int axis, rf::i64 by) {{\n#pragma unroll\n\
         \x20       for (int k = 0; k < {count}; ++k) at[k] += (rf::u64)(by * a.tensor[k].stride[axis]);\n    }}\n"
    );
}

fn put(graph: &Graph, plan: &Plan, arguments: &[Argument], out: &mut String) {
    let result = expr::storage(graph.nodes[0].1);
    let _ = writeln!(
        out,
        "    RF_FN void put(const EpilogueArgs& a, rf::i64 down, rf::i64 right, {result} result) const {{\n\
         \x20       const {} v0 = fuse::Reg<{result}>::get(result);",
        expr::register(graph.nodes[0].1)
    );
    let place = |at: usize| {
        format!("fuse::memory(at[{at}]) + (down * a.tensor[{at}].stride[1] + right * a.tensor[{at}].stride[0])")
    };
    let live = (1..graph.nodes.len()).filter(|&at| plan.live[at]);
    for value in live.map(|at| Value(at as u32)) {
        let (node, dtype) = graph.nodes[value.at()];
        let text = match node {
            Node::Input { .. } => {
                let found = arguments.iter().position(|arg| matches!(arg, Argument::Input(_, own) if *own == value));
                let (at, storage) = (found.expect("every live input is an argument"), expr::storage(dtype));
                format!("fuse::Reg<{storage}>::get(*(const {storage}*)({}))", place(at))
            }
            _ => expr::expression(graph, &plan.kinds, value, |operand| format!("v{}", operand.0)),
        };
        let _ = writeln!(out, "        const {} v{} = {text};", expr::register(dtype), value.0);
    }
    for (slot, &value) in graph.outputs.iter().enumerate() {
        let found = arguments.iter().position(|&argument| argument == Argument::Output(slot));
        let (at, storage) = (found.expect("every output is an argument"), expr::storage(graph.dtype(value)));
        let _ = writeln!(out, "        *({storage}*)({}) = fuse::Reg<{storage}>::put(v{});", place(at), value.0);
    }
    out.push_str("    }\n");
}
