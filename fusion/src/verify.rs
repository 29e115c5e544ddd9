//! Checks the rules that a graph must obey, once for each graph, before anything is compiled.
//!
//! The tensors of a launch (their number, dtypes and shapes) are not checked here: [`crate::run()`] checks them each time.

use rocfire_hal::{DType, MAX_RANK};

use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Node, Value};
use crate::op::Class;

impl Graph {
    /// Checks every rule of the IR: operands come before their use, dtypes are those the operator takes and agree, constants
    /// fit their dtype, there is an output.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first value that breaks a rule.
    pub fn verify(&self) -> Result<()> {
        for at in 0..self.nodes.len() {
            self.verify_node(at).map_err(|reason| Error::Invalid { value: at, reason })?;
        }
        let whole = |reason: String| Error::Invalid { value: self.nodes.len(), reason };
        if self.outputs.is_empty() {
            return Err(whole("there is no output".into()));
        }
        match self.outputs.iter().find(|output| output.at() >= self.nodes.len()) {
            Some(output) => Err(whole(format!("output {output} is no value of the graph"))),
            None => Ok(()),
        }
    }

    fn verify_node(&self, at: usize) -> std::result::Result<(), String> {
        let (node, dtype) = self.nodes[at];
        if let Some(late) = node.operands().find(|operand| operand.at() >= at) {
            return Err(format!("operand {late} is not defined before its use"));
        }
        match node {
            Node::Input(_) | Node::RowInput(_) | Node::Scalar(_) => Ok(()),
            Node::Constant(bits) => verify_constant(dtype, bits),
            Node::Index(axis) if axis as usize >= MAX_RANK => Err(format!("axis {axis} is beyond rank {MAX_RANK}")),
            Node::Index(_) => Ok(()),
            Node::Unary(op, a) => self.takes(op.name(), op.class(), a),
            Node::Binary(op, a, b) => {
                self.takes(op.name(), op.class(), a)?;
                self.agree(op.name(), a, b)
            }
            Node::Compare(op, a, b) => {
                self.takes(op.name(), op.class(), a)?;
                self.agree(op.name(), a, b)
            }
            Node::Select(condition, a, b) => {
                self.takes("select", Class::Bool, condition)?;
                self.agree("select", a, b)
            }
            Node::Cast(_) => Ok(()),
            Node::Lookup(_, index) | Node::RowLookup(_, index) if self.dtype(index) != DType::I64 => {
                Err(format!("lookup takes an i64 index, {index} is {}", self.dtype(index).name()))
            }
            Node::RowLookup(_, index) if self.kinds()[index.at()] == Kind::Full => {
                Err(format!("row_lookup takes an index per row, {index} is one per element"))
            }
            Node::Check(_, index, extent) => match [index, extent].into_iter().find(|&v| self.dtype(v) != DType::I64) {
                Some(value) => Err(format!("check takes i64, {value} is {}", self.dtype(value).name())),
                None => Ok(()),
            },
            Node::Lookup(..) | Node::RowLookup(..) => Ok(()),
            Node::Reduce(op, a) => self.takes(op.name(), op.class(), a),
            Node::Draw([seed, offset, replay, index]) => {
                let wanted = [(seed, DType::U64), (offset, DType::U64), (replay, DType::U64), (index, DType::I64)];
                match wanted.into_iter().find(|(value, dtype)| self.dtype(*value) != *dtype) {
                    Some((value, dtype)) => {
                        Err(format!("draw takes {}, {value} is {}", dtype.name(), self.dtype(value).name()))
                    }
                    None if dtype != DType::U32 => Err(format!("draw gives u32, not {}", dtype.name())),
                    None => Ok(()),
                }
            }
        }
    }

    fn takes(&self, op: &str, class: Class, operand: Value) -> std::result::Result<(), String> {
        let dtype = self.dtype(operand);
        if class.takes(dtype) {
            return Ok(());
        }
        Err(format!("{op} takes {}, {operand} is {}", class.name(), dtype.name()))
    }

    fn agree(&self, op: &str, a: Value, b: Value) -> std::result::Result<(), String> {
        let (of_a, of_b) = (self.dtype(a), self.dtype(b));
        if of_a == of_b {
            return Ok(());
        }
        Err(format!("{op} takes operands of one dtype, {a} is {} and {b} is {}", of_a.name(), of_b.name()))
    }
}

fn verify_constant(dtype: DType, bits: u64) -> std::result::Result<(), String> {
    let width = dtype.size_bytes() * 8;
    let fits = if dtype == DType::Bool { bits <= 1 } else { width == 64 || bits >> width == 0 };
    if fits { Ok(()) } else { Err(format!("{bits:#x} is no memory image of a {}", dtype.name())) }
}
