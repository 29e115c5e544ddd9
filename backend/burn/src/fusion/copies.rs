//! Computed values at other places: the nodes of a value again, with other coordinates and readings in them.
//!
//! What is in registers cannot be fetched from another lane, but it can be computed there: a slice of `exp(x)` is the `exp` of
//! a slice. A [`Change`] says what becomes of coordinates and readings; everything else is the same operator of the changed
//! operands. A node that a change leaves alone stays the same node, so that nothing is computed twice without need.

use std::collections::HashMap;

use rocfire_fusion::{Node, Value};

use super::axes::Group;
use super::refusal::Refusal;
use super::trace::{Read, Trace};
use super::translate::Result;

/// Most nodes that are made again for one value: a longer chain is computed once and written.
const COPIES_MOST: usize = 48;

/// What becomes of the places that a value is computed from.
pub(super) trait Change {
    /// The coordinate along a group; `None` if it stays.
    fn index(&self, trace: &mut Trace, group: Group) -> Result<Option<Value>>;

    /// A reading; `index` is that of a lookup, after the change. `None` if the reading stays.
    fn read(&self, trace: &mut Trace, read: Read, index: Option<Value>) -> Result<Option<Value>>;

    /// Whether an element's new place lies inside the tensor; `None` where it always does. Nobody uses what is computed outside.
    fn is_there(&self, trace: &mut Trace) -> Result<Option<Value>>;

    /// What a reduction reduces, where the rows are those of the change.
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
                // The elements of a product come from a kernel of another kind, which computes each of them once.
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
