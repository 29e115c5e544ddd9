//! A program as a test over Candle's tensors.

use std::fmt::Write;

use crate::print::{call_text, elements};
use crate::program::{Program, Step};
use crate::table::Row;

/// What the calls of a test need: the file that they are made with.
const PASTE: &str = include_str!("paste.rs");

/// The test: the program on our device and on Candle's CPU.
pub(crate) fn test(program: &Program, rows: &[Row], name: &str) -> String {
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
        if matches!(step, Step::Input(_) | Step::Given(_) | Step::Call(_)) {
            live.push(first);
        }
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
