//! A program as a test over Candle's tensors.

use std::fmt::Write;

use crate::print::{call_text, elements};
use crate::program::{Call, Program, Step};
use crate::table::Row;

/// What the calls of a test need: the file that they are made with.
const PASTE: &str = include_str!("paste.rs");

/// What a step of a program stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// The operator.
    Operators,
    /// The gradients of its float operands.
    Gradients,
}

/// The gradients of a call's float operands as a statement that binds them.
fn gradients(row: &Row, call: &Call, first: usize) -> String {
    let (arriving, operands) = call.operands.split_last().expect("what arrives is the last operand");
    let taken: Vec<String> = operands.iter().map(|id| format!("t{id}")).collect();
    let inner: Vec<String> = (0..operands.len()).map(|at| format!("let t{at} = &o[{at}]; ")).collect();
    let own = Call { operands: (0..operands.len()).collect(), ..call.clone() };
    let text = call_text(row, &own, &own.operands);
    let made: Vec<String> = (first..first + call.results).map(|id| format!("v{id}")).collect();
    let bound: String = (first..first + call.results).map(|id| format!(" let t{id} = &v{id};")).collect();
    format!(
        "let [{}] = <[Tensor; {}]>::try_from(gradients(&[{}], t{arriving}, |o| {{ {}{text} }})?).unwrap();{bound}",
        made.join(", "),
        call.results,
        taken.join(", "),
        inner.concat()
    )
}

/// The test: the program on our device and on Candle's CPU.
pub(crate) fn test(program: &Program, rows: &[Row], name: &str, calls: Calls) -> String {
    let mut body = String::new();
    let mut reads = Vec::new();
    let mut live: Vec<usize> = Vec::new();
    for (at, (step, first)) in program.steps.iter().zip(program.firsts()).enumerate() {
        let input = |data: crate::data::Data| {
            let shape = format!("{:?}", data.shape);
            format!(
                "let v{first} = Tensor::from_vec({}, vec!{shape}, device)?; let t{first} = &v{first};",
                elements(&data)
            )
        };
        let line = match step {
            Step::Input(given) => input(given.data()),
            Step::Given(data) => input(data.clone()),
            Step::Call(call) if calls == Calls::Gradients && call.operands.len() > rows[call.row].operands.len() => {
                gradients(&rows[call.row], call, first)
            }
            Step::Call(call) => {
                // A row's operands are references.
                let text = call_text(&rows[call.row], call, &call.operands);
                format!("let v{first} = ({text})?; let t{first} = &v{first};")
            }
            Step::Read(id) => {
                reads.push(format!("r{at}"));
                format!("let r{at} = bytes(t{id})?;")
            }
            Step::Drop(id) => {
                live.retain(|live| live != id);
                format!("drop(v{id});")
            }
        };
        let made = match step {
            Step::Input(_) | Step::Given(_) => 1,
            Step::Call(call) => call.results,
            Step::Read(_) | Step::Drop(_) => 0,
        };
        live.extend(first..first + made);
        writeln!(body, "        {line}").expect("writing to a string cannot fail");
    }
    reads.extend(live.into_iter().map(|id| format!("bytes(t{id})?")));
    let helpers = PASTE.replace("pub(crate) ", "");
    let helpers: Vec<&str> =
        helpers.lines().filter(|line| !line.starts_with("//") && !line.starts_with("use crate")).collect();
    format!(
        "{}
#[derive(Clone, Copy, Debug)]
enum Number {{ Float(f64), Int(i64), Bool(bool) }}

// {:?}
#[test]
fn {name}() {{
    use candle_core::D;
    use candle_nn::{{ops, rotary_emb}};

    fn program(device: &Device) -> Result<Vec<Vec<u8>>> {{
{body}        Ok(vec![{}])
    }}
    let ours = program(&rocfire_candle::device().unwrap().device).unwrap();
    assert_eq!(ours, program(&rocfire_candle::device().unwrap().device).unwrap(), \"twice\");
    assert_eq!(ours, program(&Device::Cpu).unwrap(), \"bits, where the operator is exact\");
}}
",
        helpers.join("\n").trim(),
        program.way,
        reads.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Params;

    #[test]
    fn calls_are_written_without_anything_that_a_test_has_not() {
        for (number, row) in crate::candle::rows().iter().enumerate() {
            let operands: Vec<usize> = (0..row.operands.len()).collect();
            let call = Call { row: number, operands, params: Params::default(), results: 1 };
            let text = call_text(row, &call, &call.operands);
            assert!(!text.contains("p.") && !text.contains("Window"), "{}: {text}", row.name);
        }
    }
}
