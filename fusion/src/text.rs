//! Prints and parses the text form of a graph.
//!
//! Each node is a line, in order, with its dtype and, unless it is per element, its kind:
//!
//! ```text
//! %0: f32 = input
//! %1: f32 row = reduce.max %0
//! %2: f32 = sub %0, %1
//! output %2
//! ```
//!
//! `;` starts a comment. The parser accepts what the printer writes and rejects a line whose dtype or kind is not what the
//! graph says, so that a filetest cannot claim a wrong one. It does not verify: a filetest must be able to write a wrong graph.

use std::fmt;
use std::str::FromStr;

use rocfire_hal::DType;

use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Node, Value};
use crate::op::{Binary, Compare, IndexOp, Reduce, Unary};
use crate::scalar::Scalar;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Uniform => "uniform",
            Kind::Row => "row",
            Kind::Full => "full",
        })
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (&(node, dtype), kind)) in self.nodes.iter().zip(self.kinds()).enumerate() {
            write!(f, "%{at}: {}", dtype.name())?;
            if kind != Kind::Full {
                write!(f, " {kind}")?;
            }
            f.write_str(" = ")?;
            match node {
                Node::Input(_) => f.write_str("input")?,
                Node::RowInput(_) => f.write_str("row_input")?,
                Node::Lookup(_, index) => write!(f, "lookup {index}")?,
                Node::RowLookup(_, index) => write!(f, "row_lookup {index}")?,
                Node::Check(op, index, extent) => write!(f, "check.{op} {index}, {extent}")?,
                Node::Scalar(_) => f.write_str("scalar")?,
                Node::Constant(bits) => write_constant(f, dtype, bits)?,
                Node::Index(axis) => write!(f, "index {axis}")?,
                Node::Unary(op, a) => write!(f, "{op} {a}")?,
                Node::Binary(op, a, b) => write!(f, "{op} {a}, {b}")?,
                Node::Compare(op, a, b) => write!(f, "{op} {a}, {b}")?,
                Node::Select(c, a, b) => write!(f, "select {c}, {a}, {b}")?,
                Node::Cast(a) => write!(f, "cast {a}")?,
                Node::Reduce(op, a) => write!(f, "reduce.{op} {a}")?,
                Node::Draw([seed, offset, replay, index]) => write!(f, "draw {seed}, {offset}, {replay}, {index}")?,
            }
            f.write_str("\n")?;
        }
        for output in &self.outputs {
            writeln!(f, "output {output}")?;
        }
        Ok(())
    }
}

// A NaN is written as bits, because its decimal form would lose the payload.
fn write_constant(f: &mut fmt::Formatter<'_>, dtype: DType, bits: u64) -> fmt::Result {
    match Scalar::from_bits(dtype, bits) {
        Scalar::Float(value) if value.is_nan() => write!(f, "constant bits {bits:#x}"),
        Scalar::Float(value) => write!(f, "constant {value:?}"),
        Scalar::Int(value) => write!(f, "constant {value}"),
        Scalar::Uint(value) => write!(f, "constant {value}"),
        Scalar::Bool(value) => write!(f, "constant {value}"),
    }
}

impl FromStr for Graph {
    type Err = Error;

    /// Reads the text form.
    ///
    /// # Errors
    /// [`Error::Parse`] with the number of the line.
    fn from_str(text: &str) -> Result<Graph> {
        let mut graph = Graph::new("parsed");
        for (at, line) in text.lines().enumerate() {
            let line = line.split(';').next().unwrap_or_default().trim();
            if !line.is_empty() {
                parse_line(&mut graph, line).map_err(|reason| Error::Parse { line: at + 1, reason })?;
            }
        }
        Ok(graph)
    }
}

type Parsed<T> = std::result::Result<T, String>;

fn parse_line(graph: &mut Graph, line: &str) -> Parsed<()> {
    if let Some(rest) = line.strip_prefix("output ") {
        let value = parse_value(rest.trim())?;
        graph.output(value);
        return Ok(());
    }
    let (head, body) = line.split_once('=').ok_or("expected `%n: dtype = operator …` or `output %n`")?;
    let (name, kinds) = head.split_once(':').ok_or("expected a dtype after `%n:`")?;
    let value = parse_value(name.trim())?;
    if value.at() != graph.nodes.len() {
        return Err(format!("expected %{}, the next value", graph.nodes.len()));
    }
    let mut words = kinds.split_whitespace();
    let dtype = parse_dtype(words.next().ok_or("expected a dtype")?)?;
    let kind = match words.next() {
        None => Kind::Full,
        Some("row") => Kind::Row,
        Some("uniform") => Kind::Uniform,
        Some(word) => return Err(format!("`{word}` is no kind: expected row, uniform or nothing")),
    };
    let made = parse_node(graph, dtype, body.trim())?;
    if graph.dtype(made) != dtype {
        return Err(format!("{made} is {}, not {}", graph.dtype(made).name(), dtype.name()));
    }
    if graph.kind(made) != kind {
        return Err(format!("{made} is {}, not {kind}", graph.kind(made)));
    }
    Ok(())
}

fn parse_node(graph: &mut Graph, dtype: DType, body: &str) -> Parsed<Value> {
    let (op, rest) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    let rest = rest.trim();
    match op {
        "input" => return Ok(graph.input(dtype)),
        "row_input" => return Ok(graph.row_input(dtype)),
        "scalar" => return Ok(graph.scalar(dtype)),
        "constant" => {
            let bits = parse_constant(dtype, rest)?;
            return Ok(graph.push(Node::Constant(bits), dtype));
        }
        "index" => {
            let axis: usize = rest.parse().map_err(|_| format!("`{rest}` is no axis"))?;
            return Ok(graph.index(axis));
        }
        _ => {}
    }
    let operands = rest.split(',').map(|word| parse_value(word.trim())).collect::<Parsed<Vec<Value>>>()?;
    match (op, operands.as_slice()) {
        ("select", &[c, a, b]) => return Ok(graph.select(c, a, b)),
        ("cast", &[a]) => return Ok(graph.cast(a, dtype)),
        ("lookup", &[index]) => return Ok(graph.lookup(dtype, index)),
        ("row_lookup", &[index]) => return Ok(graph.row_lookup(dtype, index)),
        ("draw", &[seed, offset, replay, index]) => {
            return Ok(graph.push(Node::Draw([seed, offset, replay, index]), DType::U32));
        }
        _ => {}
    }
    if let (Some(op), &[a]) = (op.strip_prefix("reduce.").and_then(Reduce::named), operands.as_slice()) {
        return Ok(graph.reduce(op, a));
    }
    if let (Some(op), &[index, extent]) = (op.strip_prefix("check.").and_then(IndexOp::named), operands.as_slice()) {
        return Ok(graph.check(op, index, extent));
    }
    if let (Some(op), &[a]) = (Unary::named(op), operands.as_slice()) {
        return Ok(graph.unary(op, a));
    }
    if let (Some(op), &[a, b]) = (Binary::named(op), operands.as_slice()) {
        return Ok(graph.binary(op, a, b));
    }
    if let (Some(op), &[a, b]) = (Compare::named(op), operands.as_slice()) {
        return Ok(graph.compare(op, a, b));
    }
    Err(format!("`{op}` of {} operands is no operator", operands.len()))
}

fn parse_value(word: &str) -> Parsed<Value> {
    let number = word.strip_prefix('%').and_then(|digits| digits.parse().ok());
    number.map(Value).ok_or_else(|| format!("`{word}` is no value: expected %n"))
}

fn parse_dtype(word: &str) -> Parsed<DType> {
    DType::from_name(word).ok_or_else(|| format!("`{word}` is no dtype"))
}

fn parse_constant(dtype: DType, text: &str) -> Parsed<u64> {
    let wrong = || format!("`{text}` is no {} constant", dtype.name());
    if let Some(hex) = text.strip_prefix("bits 0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| wrong());
    }
    let scalar = if dtype == DType::Bool {
        Scalar::Bool(text.parse().map_err(|_| wrong())?)
    } else if dtype.is_float() {
        Scalar::Float(text.parse().map_err(|_| wrong())?)
    } else if let Ok(value) = text.parse() {
        Scalar::Int(value)
    } else {
        Scalar::Uint(text.parse().map_err(|_| wrong())?)
    };
    Ok(scalar.bits(dtype))
}
