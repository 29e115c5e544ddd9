//! A program as a test over Burn's backend traits.

use std::fmt::Write;

use crate::print::{call_text, elements};
use crate::program::{Call, Program, Step};
use crate::run::moved;
use crate::table::{Kind, Row};

/// What the calls of a test need: the file that they are made with.
const PASTE: &str = include_str!("paste.rs");

fn read(kind: Kind, id: usize) -> String {
    let name = match kind {
        Kind::Float => "float",
        Kind::Int => "int",
        Kind::Bool => "bool",
    };
    format!("read_sync(B::{name}_into_data(t{id}.clone())).unwrap()")
}

/// What a step of a program stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// The operator.
    Operators,
    /// The gradients of its float operands.
    Gradients,
}

/// The gradients of a call's float operands as an expression.
fn gradients(row: &Row, call: &Call) -> String {
    let floats: Vec<usize> =
        call.operands.iter().zip(row.operands).filter(|(_, kind)| **kind == Kind::Float).map(|(id, _)| *id).collect();
    let mut distinct = floats.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let leaf =
        |id: &usize| format!("let t{id} = A::<B>::float_set_require_grad(A::<B>::from_inner(t{id}.clone()), true); ");
    let leaves: String = distinct.iter().map(leaf).collect();
    let made = call_text(row, call, &[]).replace("B::", "A::<B>::");
    let each: Vec<String> = floats.iter().map(|id| format!("A::<B>::grad(&t{id}, &g).unwrap()")).collect();
    let each = if each.len() == 1 { each.concat() } else { format!("({})", each.join(", ")) };
    format!(
        "{{ {leaves}let y = {made}; let g = A::<B>::backward(A::<B>::float_sum(A::<B>::float_mul(y.clone(), A::<B>::float_detach(y)))); {each} }}"
    )
}

/// The test: the program on `Fused`, on `Rocm` and on Flex.
pub(crate) fn test(program: &Program, rows: &[Row], name: &str, calls: Calls) -> String {
    let mut body = String::new();
    let mut reads = Vec::new();
    let mut live: Vec<usize> = Vec::new();
    for (at, (step, first)) in program.steps.iter().zip(program.firsts()).enumerate() {
        let meta = program.metas.get(first);
        let kind = meta.map_or("float", |meta| match meta.kind {
            Kind::Float => "float",
            Kind::Int => "int",
            Kind::Bool => "bool",
        });
        let input = |data: crate::data::Data| {
            let shape = format!("{:?}", data.shape).replace("[]", "[0_usize; 0]");
            format!("let t{first} = B::{kind}_from_data(TensorData::new({}, {shape}), device);", elements(&data))
        };
        let line = match step {
            Step::Input(given) => input(given.data()),
            Step::Given(data) => input(data.clone()),
            Step::Call(call) => {
                let moved = moved(&program.steps, at);
                live.retain(|id| !moved.contains(id));
                let names: Vec<String> = (first..first + call.results).map(|id| format!("t{id}")).collect();
                let names = if names.len() == 1 { names.concat() } else { format!("({})", names.join(", ")) };
                let made = match calls {
                    Calls::Operators => call_text(&rows[call.row], call, &moved),
                    Calls::Gradients => gradients(&rows[call.row], call),
                };
                format!("let {names} = {made};")
            }
            Step::Read(id) => {
                reads.push(format!("r{at}"));
                format!("let r{at} = {};", read(program.metas[*id].kind, *id))
            }
            Step::Drop(id) if live.contains(id) => {
                live.retain(|live| live != id);
                format!("drop(t{id});")
            }
            Step::Drop(_) => continue,
        };
        let made = match step {
            Step::Input(_) | Step::Given(_) => 1,
            Step::Call(call) => call.results,
            Step::Read(_) | Step::Drop(_) => 0,
        };
        live.extend(first..first + made);
        writeln!(body, "        {line}").expect("writing to a string cannot fail");
    }
    reads.extend(live.into_iter().map(|id| read(program.metas[id].kind, id)));
    let helpers = PASTE.replace("pub(crate) ", "");
    // A macro is in scope without being named.
    let left_out = |line: &str| ["//", "use crate", "use tuple"].iter().any(|start| line.starts_with(start));
    let helpers = helpers.lines().filter(|line| !left_out(line));
    let helpers: Vec<&str> = helpers.collect();
    format!(
        "{}
#[derive(Clone, Copy, Debug)]
enum Number {{ Float(f64), Int(i64), Bool(bool) }}
#[derive(Clone, Copy, Debug)]
struct Window {{ kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3], dilation: [usize; 3], extra: [usize; 3], groups: usize }}

// {:?}
#[test]
fn {name}() {{
    #[allow(unused_imports)]
    use burn_autodiff::Autodiff as A;
    #[allow(unused_imports)]
    use burn_backend::ops::{{ActivationOps, BoolTensorOps, FloatTensorOps, IntTensorOps, ModuleOps, QTensorOps}};
    #[allow(unused_imports)]
    use burn_backend::{{AutodiffBackend, Backend, TensorData, TensorMetadata, read_sync}};

    fn program<B: Backend>(device: &B::Device) -> Vec<TensorData> {{
{body}        vec![{}]
    }}
    let device = rocfire_burn::RocmDevice::default();
    let joined = program::<rocfire_burn::Fused>(&device);
    let alone = program::<rocfire_burn::Rocm>(&device);
    let theirs = program::<burn_flex::Flex>(&burn_flex::FlexDevice);
    println!(\"fused {{joined:?}}\\nalone {{separate:?}}\\nFlex  {{theirs:?}}\");
    let same = |a: &TensorData, b: &TensorData| a.as_bytes() == b.as_bytes();
    assert!(joined.iter().zip(&alone).all(|(a, b)| same(a, b)), \"fused and alone\");
    assert!(alone.iter().zip(&theirs).all(|(a, b)| same(a, b)), \"alone and Flex: bits, where the operator is exact\");
}}
",
        helpers.join("\n").trim(),
        program.way,
        reads.join(", ")
    )
}
