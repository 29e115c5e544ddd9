//! Computed values at other places: the nodes of a value again, with other coordinates and readings in them.
//!
//! What is in registers cannot be fetched from another lane, but it can be computed there: a slice of `exp(x)` is the `exp` of
//! a slice. A [`Change`] says what becomes of coordinates and readings; everything else is the same operator of the changed
//! operands. What a change leaves alone is the very node that was there, so that nothing is computed twice without need.

use std::collections::HashMap;

use rocfire_hal::DType;

use super::axes::Group;
use super::refusal::Refusal;
use super::trace::{Node, NodeId, Read, Trace};
use super::translate::Result;

/// Most nodes that are made again for one value: a longer chain is computed once and written.
const COPIES_MOST: usize = 48;

/// What becomes of the places that a value is computed from.
pub(super) trait Change {
    /// The coordinate along a group; `None` if it stays.
    fn index(&self, trace: &mut Trace, group: Group) -> Result<Option<NodeId>>;

    /// A reading, with the index of a lookup, which has been changed already; `None` if the reading stays.
    fn read(&self, trace: &mut Trace, read: Read, index: Option<NodeId>) -> Result<Option<NodeId>>;

    /// Whether the place that takes that of an element is one of the tensor's; `None` where it always is. What is computed at others
    /// is used by nobody.
    fn is_there(&self, trace: &mut Trace) -> Result<Option<NodeId>>;

    /// What a reduction reduces, where the rows are those of the change.
    fn reduced(&self, trace: &mut Trace, operand: NodeId) -> Result<NodeId>;
}

impl Trace {
    /// The value of `node` after a change.
    pub(super) fn changed(&mut self, node: NodeId, change: &impl Change) -> Result<NodeId> {
        let before = self.nodes.len();
        let copy = self.changed_within(node, change, &mut HashMap::new())?;
        if self.nodes.len() - before > COPIES_MOST { Err(Refusal::Moved) } else { Ok(copy) }
    }

    fn changed_within(
        &mut self,
        node: NodeId,
        change: &impl Change,
        known: &mut HashMap<NodeId, NodeId>,
    ) -> Result<NodeId> {
        if let Some(copy) = known.get(&node) {
            return Ok(*copy);
        }
        let (what, dtype) = self.nodes[usize::from(node)];
        let copy = match what {
            Node::Scalar(_) | Node::Constant(_) | Node::Extent(..) | Node::Start(..) | Node::Step(_) => node,
            // Its elements come from a kernel of another kind, which computes each of them once.
            Node::Product => return Err(Refusal::Moved),
            Node::Index(group) => change.index(self, group)?.unwrap_or(node),
            Node::Read(read) => change.read(self, self.reads[usize::from(read)], None)?.unwrap_or(node),
            Node::Lookup(number, index) => {
                let (read, moved) = (self.reads[usize::from(number)], self.changed_within(index, change, known)?);
                match change.read(self, read, Some(moved))? {
                    Some(copy) => copy,
                    None if moved == index => node,
                    None => self.look_up_in(read, moved)?,
                }
            }
            Node::Check(op, a, extent) => {
                let [mut x, mut most] = self.changed_all([a, extent], change, known)?;
                if let Some(is_there) = change.is_there(self)? {
                    let [none, one] = [self.whole_number(0)?, self.whole_number(1)?];
                    (x, most) = (self.choose(is_there, x, none)?, self.choose(is_there, most, one)?);
                }
                self.again(node, [x, most] == [a, extent], Node::Check(op, x, most), dtype)?
            }
            Node::Reduce(op, operand) => {
                let moved = change.reduced(self, operand)?;
                self.again(node, moved == operand, Node::Reduce(op, moved), dtype)?
            }
            Node::Unary(op, a) => {
                let moved = self.changed_within(a, change, known)?;
                self.again(node, moved == a, Node::Unary(op, moved), dtype)?
            }
            Node::Cast(a) => {
                let moved = self.changed_within(a, change, known)?;
                self.again(node, moved == a, Node::Cast(moved), dtype)?
            }
            Node::Draw(number, a) => {
                let moved = self.changed_within(a, change, known)?;
                self.again(node, moved == a, Node::Draw(number, moved), dtype)?
            }
            Node::Binary(op, a, b) => {
                let [x, y] = self.changed_all([a, b], change, known)?;
                self.again(node, [x, y] == [a, b], Node::Binary(op, x, y), dtype)?
            }
            Node::Compare(op, a, b) => {
                let [x, y] = self.changed_all([a, b], change, known)?;
                self.again(node, [x, y] == [a, b], Node::Compare(op, x, y), dtype)?
            }
            Node::Select(c, a, b) => {
                let [z, x, y] = self.changed_all([c, a, b], change, known)?;
                self.again(node, [z, x, y] == [c, a, b], Node::Select(z, x, y), dtype)?
            }
        };
        known.insert(node, copy);
        Ok(copy)
    }

    fn changed_all<const N: usize>(
        &mut self,
        mut nodes: [NodeId; N],
        change: &impl Change,
        known: &mut HashMap<NodeId, NodeId>,
    ) -> Result<[NodeId; N]> {
        for node in &mut nodes {
            *node = self.changed_within(*node, change, known)?;
        }
        Ok(nodes)
    }

    fn again(&mut self, node: NodeId, is_same: bool, copy: Node, dtype: DType) -> Result<NodeId> {
        if is_same { Ok(node) } else { self.push(copy, dtype) }
    }
}

/// Whether two groups share an axis.
pub(super) fn meet(a: &Group, b: &Group) -> bool {
    a.axes().iter().any(|axis| b.axes().contains(axis))
}
