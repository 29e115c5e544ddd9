//! Computed values at other coordinates: the nodes of a value once more, with other coordinates and readings in them.
//!
//! A value in another lane's registers cannot be read, but it can be computed again: a slice of `exp(x)` is the `exp` of a slice. A
//! [`Change`] says what becomes of coordinates and readings; every other node is the same operator of the changed operands. A node
//! that a change leaves alone stays the same node, so that nothing is computed twice without need.

use std::collections::HashMap;

use rocfire_fusion::{Node, Value};

use super::axes::Group;
use super::refusal::Refusal;
use super::trace::{Read, Trace};
use super::translate::Result;

/// The most nodes that are made again for one value. A longer chain is computed once and written to memory.
const COPIES_MOST: usize = 48;

/// How the coordinates and readings change from which a value is computed.
pub(super) trait Change {
    /// The new coordinate along a group; `None` if it stays as it is.
    fn index(&self, trace: &mut Trace, group: Group) -> Result<Option<Value>>;

    /// The new value of a reading; `index` is the changed index if it is a lookup. `None` if the reading stays as it is.
    fn read(&self, trace: &mut Trace, read: Read, index: Option<Value>) -> Result<Option<Value>>;

    /// Whether the new coordinates lie inside the tensor; `None` where they always do. What is computed outside is not used.
    fn is_there(&self, trace: &mut Trace) -> Result<Option<Value>>;

    /// The new operand of a reduction.
    fn reduced(&self, trace: &mut Trace, operand: Value) -> Result<Value>;
}

impl Trace {
    /// The value of `node` after a change.
    pub(super) fn changed(&mut self, node: Value, change: &impl Change) -> Result<Value> {
        let before = self.graph.nodes().len();
        let copy = self.changed_within(node, change, &mut HashMap::new())?;
        if self.graph.nodes().len() - before > COPIES_MOST { Err(Refusal::Moved) } else { Ok(copy) }
    }

    fn changed_within(
        &mut self,
        node: Value,
        change: &impl Change,
        known: &mut HashMap<Value, Value>,
    ) -> Result<Value> {
        if let Some(copy) = known.get(&node) {
            return Ok(*copy);
        }
        let what = self.graph.node(node);
        let copy = match what {
            Node::Index(number) => change.index(self, self.coordinates[number as usize])?.unwrap_or(node),
            Node::Input(_) => match self.read_by(what).copied() {
                Some(read) => change.read(self, read, None)?.unwrap_or(node),
                // The elements of a product come from a kernel of another kind, which computes each of them once, so they cannot be moved.
                None => return Err(Refusal::Moved),
            },
            Node::Lookup(_, index) => {
                let read = *self.read_by(what).expect("a product is not looked up");
                let moved = self.changed_within(index, change, known)?;
                match change.read(self, read, Some(moved))? {
                    Some(copy) => copy,
                    None if moved == index => node,
                    None => self.look_up_in(read, moved)?,
                }
            }
            Node::Check(_, index, extent) => {
                let mut moved =
                    [self.changed_within(index, change, known)?, self.changed_within(extent, change, known)?];
                if let Some(is_there) = change.is_there(self)? {
                    let otherwise = [self.whole_number(0)?, self.whole_number(1)?];
                    for (moved, otherwise) in moved.iter_mut().zip(otherwise) {
                        *moved = self.choose(is_there, *moved, otherwise)?;
                    }
                }
                self.add(|graph| graph.again(node, &moved))?
            }
            Node::Reduce(_, operand) => {
                let moved = change.reduced(self, operand)?;
                self.add(|graph| graph.again(node, &[moved]))?
            }
            operator => {
                let operands = operator.operands().map(|operand| self.changed_within(operand, change, known));
                let operands = operands.collect::<Result<Vec<_>>>()?;
                self.add(|graph| graph.again(node, &operands))?
            }
        };
        known.insert(node, copy);
        Ok(copy)
    }
}

/// Whether two groups share an axis.
pub(super) fn meet(a: &Group, b: &Group) -> bool {
    a.axes().iter().any(|axis| b.axes().contains(axis))
}
