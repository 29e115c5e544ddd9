//! Not a schedule but a function of one element: what another kernel does to the elements that it has read.

use std::fmt::Write as _;

use super::{HEADER, expr};
use crate::graph::{Graph, Node, Value};

/// What [`functor`]s need in front of them, once in a text.
pub const FUNCTOR_HEADER: &str = HEADER;

/// An elementwise graph as `struct Functor`, whose `of` takes an element of each input, then each scalar, then the place of an element of
/// each output, all as memory has them.
///
/// # Panics
/// If the graph has rows, or asks where an element is.
pub fn functor(graph: &Graph) -> String {
    let mut out = String::new();
    for line in graph.to_string().lines() {
        let _ = writeln!(out, "// {line}");
    }
    let (inputs, scalars) = (graph.inputs().map(|(dtype, _)| dtype), graph.scalars());
    let inputs = inputs.enumerate().map(|(slot, dtype)| format!("const {} x{slot}", expr::storage(dtype)));
    let scalars = scalars.enumerate().map(|(slot, dtype)| format!("const {} p{slot}", expr::storage(dtype)));
    let outputs = graph.outputs().iter().map(|&value| expr::storage(graph.dtype(value)));
    let outputs = outputs.enumerate().map(|(slot, storage)| format!("{storage}& y{slot}"));
    let parameters: Vec<String> = inputs.chain(scalars).chain(outputs).collect();
    let _ = writeln!(out, "struct Functor {{\n    RF_FN static void of({}) {{", parameters.join(", "));
    let kinds = graph.kinds();
    // What is only moved keeps its bits, those of a NaN too: `m` is as memory has it, `v` as registers do.
    let mut moved = vec![false; graph.nodes.len()];
    for (at, &(node, dtype)) in graph.nodes.iter().enumerate() {
        let (storage, register) = (expr::storage(dtype), expr::register(dtype));
        let memory = match node {
            Node::Input { slot } => Some(format!("x{slot}")),
            Node::Scalar { slot } => Some(format!("p{slot}")),
            Node::Select(c, a, b) if moved[a.at()] && moved[b.at()] => Some(format!("v{} ? m{} : m{}", c.0, a.0, b.0)),
            _ => None,
        };
        moved[at] = memory.is_some();
        let text = match memory {
            Some(memory) => {
                let _ = writeln!(out, "        const {storage} m{at} = {memory};");
                format!("fuse::Reg<{storage}>::get(m{at})")
            }
            None => expr::expression(graph, &kinds, Value(at as u32), |operand| format!("v{}", operand.0)),
        };
        let _ = writeln!(out, "        const {register} v{at} = {text};");
    }
    for (slot, &value) in graph.outputs().iter().enumerate() {
        let (at, storage) = (value.at(), expr::storage(graph.dtype(value)));
        let _ = match moved[at] {
            true => writeln!(out, "        y{slot} = m{at};"),
            false => writeln!(out, "        y{slot} = fuse::Reg<{storage}>::put(v{at});"),
        };
    }
    out.push_str("    }\n};\n");
    out
}
