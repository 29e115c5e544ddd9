//! The graph, a computation in SSA form over one broadcast iteration space, and its builder.
//!
//! An iteration space has a shape that is known only at the launch. A value is of one of three kinds ([`Kind`]): the
//! same everywhere, one per row (a row is everything but the last axis), or one per element. Reductions run over the last
//! axis and turn elements into rows; a row value broadcasts back wherever an element is expected.
//!
//! The builder never fails. Mistakes (mixed dtypes, a value of another graph) are named by [`Graph::verify`], which every launch of
//! a new graph calls.

use std::sync::OnceLock;

use rocfire_hal::DType;

use crate::op::{Binary, Compare, IndexOp, Reduce, Unary};
use crate::scalar::Scalar;

/// A value of a [`Graph`]: the index of the node that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

impl Value {
    /// The node's number in the graph.
    #[inline]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// How a value varies over the iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The same everywhere.
    Uniform,
    /// One value per row, that is for each index of all axes but the last.
    Row,
    /// One value per element.
    Full,
}

/// What a node computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The element of the input with this number.
    Input(u32),
    /// The same for an input with one element per row.
    RowInput(u32),
    /// The element of the input with this number at an index along an axis that the iteration space does not have.
    Lookup(u32, Value),
    /// The same with one element per row.
    RowLookup(u32, Value),
    /// An index, which is passed on. The host is told if it is outside 0 to an extent.
    Check(IndexOp, Value, Value),
    /// The scalar argument with this number.
    Scalar(u32),
    /// A constant, as the bits that [`Scalar::bits`] gives.
    Constant(u64),
    /// The coordinate along an axis, counted from the last.
    Index(u32),
    /// An operator of one value.
    Unary(Unary, Value),
    /// An operator of two values.
    Binary(Binary, Value, Value),
    /// A comparison of two values.
    Compare(Compare, Value, Value),
    /// The second value where the first (a `bool`) holds, else the third.
    Select(Value, Value, Value),
    /// The value converted to the node's dtype.
    Cast(Value),
    /// The value reduced over the last axis.
    Reduce(Reduce, Value),
    /// A random word: the values are three scalars (seed, offset, replay) and an index.
    Draw([Value; 4]),
}

impl Node {
    /// The values this node reads.
    #[inline]
    pub fn operands(self) -> impl Iterator<Item = Value> + use<> {
        let (list, count) = match self {
            Node::Input(_) | Node::RowInput(_) | Node::Scalar(_) | Node::Constant(_) | Node::Index(_) => {
                ([Value(0); 4], 0)
            }
            Node::Unary(_, a) | Node::Cast(a) | Node::Reduce(_, a) => ([a; 4], 1),
            Node::Lookup(_, a) | Node::RowLookup(_, a) => ([a; 4], 1),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) | Node::Check(_, a, b) => ([a, b, b, b], 2),
            Node::Select(a, b, c) => ([a, b, c, c], 3),
            Node::Draw(list) => (list, 4),
        };
        list.into_iter().take(count)
    }

    /// The same node with `map` of each operand in its place.
    pub(crate) fn map(self, mut map: impl FnMut(Value) -> Value) -> Node {
        match self {
            Node::Input(_) | Node::RowInput(_) | Node::Scalar(_) | Node::Constant(_) | Node::Index(_) => self,
            Node::Unary(op, a) => Node::Unary(op, map(a)),
            Node::Binary(op, a, b) => Node::Binary(op, map(a), map(b)),
            Node::Compare(op, a, b) => Node::Compare(op, map(a), map(b)),
            Node::Select(c, a, b) => Node::Select(map(c), map(a), map(b)),
            Node::Cast(a) => Node::Cast(map(a)),
            Node::Reduce(op, a) => Node::Reduce(op, map(a)),
            Node::Lookup(slot, index) => Node::Lookup(slot, map(index)),
            Node::RowLookup(slot, index) => Node::RowLookup(slot, map(index)),
            Node::Check(op, index, extent) => Node::Check(op, map(index), map(extent)),
            Node::Draw(list) => Node::Draw(list.map(map)),
        }
    }

    /// The node's kind. `of` gives the kind of an operand; an operand for which it gives `None` counts as uniform.
    #[inline]
    pub fn kind(self, of: impl Fn(Value) -> Option<Kind>) -> Kind {
        match self {
            Node::Input(_) | Node::Index(_) | Node::Lookup(..) => Kind::Full,
            Node::RowInput(_) | Node::RowLookup(..) | Node::Reduce(..) => Kind::Row,
            Node::Scalar(_) | Node::Constant(_) => Kind::Uniform,
            Node::Unary(..)
            | Node::Binary(..)
            | Node::Compare(..)
            | Node::Select(..)
            | Node::Cast(_)
            | Node::Check(..)
            | Node::Draw(_) => self.operands().filter_map(of).max().unwrap_or(Kind::Uniform),
        }
    }

    /// Whether it reads an input at an index.
    pub(crate) fn is_lookup(self) -> bool {
        matches!(self, Node::Lookup(..) | Node::RowLookup(..))
    }

    /// Whether an epilogue can have the node: it computes an element from elements at the same coordinates and from scalars.
    pub fn is_in_place(self) -> bool {
        match self {
            Node::Input(_) | Node::Scalar(_) | Node::Constant(_) => true,
            Node::Unary(..) | Node::Binary(..) | Node::Compare(..) | Node::Select(..) | Node::Cast(_) => true,
            Node::RowInput(_) | Node::Lookup(..) | Node::RowLookup(..) | Node::Check(..) => false,
            Node::Index(_) | Node::Reduce(..) | Node::Draw(_) => false,
        }
    }
}

/// A computation over one iteration space: inputs, scalars, operators in SSA form, outputs.
///
/// Two graphs with the same structure are the same kernel, whatever their names.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    name: &'static str,
    pub(crate) nodes: Vec<(Node, DType)>,
    pub(crate) inputs: u32,
    pub(crate) scalars: u32,
    pub(crate) outputs: Vec<Value>,
    hash: OnceLock<u128>,
}

impl Graph {
    /// An empty graph. `name` labels its launches in errors and profiles; it is no part of the graph's identity.
    pub fn new(name: &'static str) -> Graph {
        Graph { name, nodes: Vec::new(), inputs: 0, scalars: 0, outputs: Vec::new(), hash: OnceLock::new() }
    }

    pub(crate) fn push(&mut self, node: Node, dtype: DType) -> Value {
        self.hash.take();
        let at = u32::try_from(self.nodes.len()).expect("a graph of 2^32 nodes does not fit in memory");
        self.nodes.push((node, dtype));
        Value(at)
    }

    /// The next input tensor: one element per element of the iteration space. A tensor of smaller shape broadcasts to it.
    pub fn input(&mut self, dtype: DType) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::Input(slot), dtype)
    }

    /// The next input tensor, with one element per row: its last axis has extent 1, or it lacks that axis.
    ///
    /// It has the same values as [`Graph::input`] with a broadcast last axis. But what is computed from it is one value per row, is
    /// computed once per row, and may be an output per row.
    pub fn row_input(&mut self, dtype: DType) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::RowInput(slot), dtype)
    }

    /// An element of the next input tensor for each element of the iteration space, at a computed `index` (i64). The tensor has one axis
    /// more than the space: `index` counts along its first one, the others broadcast. An index outside that axis gives 0.
    pub fn lookup(&mut self, dtype: DType, index: Value) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::Lookup(slot, index), dtype)
    }

    /// The same with one element for each row, at an `index` per row. The tensor's other axes broadcast as those of
    /// [`Graph::row_input`] do. To pick an element of the row itself, give a view in which the last axis comes first.
    pub fn row_lookup(&mut self, dtype: DType, index: Value) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::RowLookup(slot, index), dtype)
    }

    /// `index` (i64) as it is. If it is outside 0 to `extent` (i64), the device's next read or wait reports it as an index of `op`. Nodes
    /// that use it must handle that case themselves. A value that no output needs is not checked.
    pub fn check(&mut self, op: IndexOp, index: Value, extent: Value) -> Value {
        self.push(Node::Check(op, index, extent), DType::I64)
    }

    /// The next scalar argument of the launch. Changing its value compiles nothing.
    pub fn scalar(&mut self, dtype: DType) -> Value {
        let slot = self.scalars;
        self.scalars += 1;
        self.push(Node::Scalar(slot), dtype)
    }

    /// A constant of the kernel, converted to `dtype` as [`Scalar`] says.
    pub fn constant(&mut self, dtype: DType, value: impl Into<Scalar>) -> Value {
        let bits = value.into().bits(dtype);
        self.push(Node::Constant(bits), dtype)
    }

    /// The `i64` coordinate along an axis, counted from the last (0 is the last axis); 0 on an axis that is not there.
    pub fn index(&mut self, axis: usize) -> Value {
        let axis = u32::try_from(axis).unwrap_or(u32::MAX);
        self.push(Node::Index(axis), DType::I64)
    }

    /// `op(a)`.
    pub fn unary(&mut self, op: Unary, a: Value) -> Value {
        let dtype = op.result(self.operand_dtype(a));
        self.push(Node::Unary(op, a), dtype)
    }

    /// `op(a, b)`, of one dtype.
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        let dtype = self.operand_dtype(a);
        self.push(Node::Binary(op, a, b), dtype)
    }

    /// `op(a, b)`, a `bool`.
    pub fn compare(&mut self, op: Compare, a: Value, b: Value) -> Value {
        self.push(Node::Compare(op, a, b), DType::Bool)
    }

    /// `a` where `condition` (a `bool`) holds, else `b`.
    pub fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let dtype = self.operand_dtype(a);
        self.push(Node::Select(condition, a, b), dtype)
    }

    /// `a` converted to another dtype. To a float it rounds to the nearest, ties to even. From a float to an integer it truncates and
    /// saturates, and NaN gives 0. Between integers it wraps. To bool it asks "is not zero"; from bool it gives 0 or 1.
    pub fn cast(&mut self, a: Value, dtype: DType) -> Value {
        self.push(Node::Cast(a), dtype)
    }

    /// `a` reduced over the last axis: one value per row.
    pub fn reduce(&mut self, op: Reduce, a: Value) -> Value {
        let dtype = self.operand_dtype(a);
        self.push(Node::Reduce(op, a), dtype)
    }

    /// A word of 32 random bits for each `index` (i64), as `u32`: word `index % 4` of the Philox4x32-10 block with counter
    /// (`index / 4`, offset) under the key seed. It adds three scalars of type u64 to the launch: seed, offset, and the address of the
    /// number that a replayed launch adds to the offset, or 0 for none.
    pub fn draw(&mut self, index: Value) -> Value {
        let [seed, offset, replay] = [(); 3].map(|()| self.scalar(DType::U64));
        self.push(Node::Draw([seed, offset, replay, index]), DType::U32)
    }

    /// Appends the computation of `other`, with the values `inputs` in place of its inputs. Its scalars become this graph's next ones.
    /// Returns the values of its outputs.
    ///
    /// # Panics
    /// If `inputs` are fewer than its inputs, or if it looks up in an input.
    pub fn append(&mut self, other: &Graph, inputs: &[Value]) -> Vec<Value> {
        let known = self.copy(
            other,
            |_| true,
            |_, _, node, _| match node {
                Node::Input(slot) | Node::RowInput(slot) => Some(inputs[slot as usize]),
                Node::Lookup(..) | Node::RowLookup(..) => panic!("an input that is looked up is no value"),
                _ => None,
            },
        );
        other.outputs.iter().map(|output| known[output.at()]).collect()
    }

    /// Copies the nodes of `other` for which `is_needed` holds; it must hold for their operands too. `instead` may give another value for
    /// a node. Inputs and scalars that are copied become this graph's next ones. Returns what each node became; for a node that is not
    /// needed, that is no value of this graph.
    pub fn copy(
        &mut self,
        other: &Graph,
        is_needed: impl Fn(Value) -> bool,
        mut instead: impl FnMut(&mut Graph, Value, Node, DType) -> Option<Value>,
    ) -> Vec<Value> {
        let mut became: Vec<Value> = Vec::with_capacity(other.nodes.len());
        for (value, node, dtype) in other.nodes() {
            became.push(match is_needed(value).then(|| instead(self, value, node, dtype)) {
                None => Value(u32::MAX),
                Some(Some(value)) => value,
                Some(None) => self.push_next(node.map(|operand| became[operand.at()]), dtype),
            });
        }
        became
    }

    /// The same computation for inputs that have other types in memory, each converted to the graph's type. `own` gives the type in
    /// memory for a slot and the graph's type.
    pub fn reading(&self, own: impl Fn(usize, DType) -> DType) -> Graph {
        let mut copy = Graph::new(self.name);
        let mut became: Vec<Value> = Vec::with_capacity(self.nodes.len());
        for (_, node, dtype) in self.nodes() {
            let own = match node {
                Node::Input(slot) | Node::RowInput(slot) | Node::Lookup(slot, _) | Node::RowLookup(slot, _) => {
                    own(slot as usize, dtype)
                }
                _ => dtype,
            };
            let value = copy.push_next(node.map(|operand| became[operand.at()]), own);
            became.push(if own == dtype { value } else { copy.cast(value, dtype) });
        }
        self.outputs.iter().for_each(|output| copy.output(became[output.at()]));
        copy
    }

    /// Adds a node. An input or scalar becomes the next of this graph.
    fn push_next(&mut self, node: Node, dtype: DType) -> Value {
        match node {
            Node::Input(_) => self.input(dtype),
            Node::RowInput(_) => self.row_input(dtype),
            Node::Lookup(_, index) => self.lookup(dtype, index),
            Node::RowLookup(_, index) => self.row_lookup(dtype, index),
            Node::Scalar(_) => self.scalar(dtype),
            node => self.push(node, dtype),
        }
    }

    /// The node of `value` once more with other operands; `value` itself if the operands are its own.
    ///
    /// # Panics
    /// If they are fewer than its operands.
    pub fn again(&mut self, value: Value, operands: &[Value]) -> Value {
        let (node, dtype) = self.nodes[value.at()];
        let mut next = operands.iter();
        let copy = node.map(|_| *next.next().expect("there are as many operands as the node has"));
        if copy == node { value } else { self.push(copy, dtype) }
    }

    /// Its nodes in order, each with its value and dtype.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (Value, Node, DType)> + ExactSizeIterator + Clone + '_ {
        self.nodes.iter().enumerate().map(|(at, &(node, dtype))| (Value(at as u32), node, dtype))
    }

    /// The node that makes a value.
    ///
    /// # Panics
    /// If `value` is not of this graph.
    pub fn node(&self, value: Value) -> Node {
        self.nodes[value.at()].0
    }

    /// For each node, whether it is one of these values or one of them is computed from it.
    pub fn needed(&self, values: impl IntoIterator<Item = Value>) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        values.into_iter().for_each(|value| needed[value.at()] = true);
        for at in (0..needed.len()).rev() {
            if needed[at] {
                self.nodes[at].0.operands().for_each(|operand| needed[operand.at()] = true);
            }
        }
        needed
    }

    /// Makes `a` the next output: a tensor of the iteration space's shape, or one with an element per row if `a` is a value per row.
    pub fn output(&mut self, a: Value) {
        self.hash.take();
        self.outputs.push(a);
    }

    /// The name given at [`Graph::new`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many operators the graph has, counting everything but inputs, scalars, constants and indices.
    pub fn operators(&self) -> usize {
        self.nodes.iter().filter(|(node, _)| node.operands().next().is_some()).count()
    }

    /// The dtype of `value`.
    ///
    /// # Panics
    /// If `value` is not of this graph.
    pub fn dtype(&self, value: Value) -> DType {
        self.nodes[value.at()].1
    }

    /// How `value` varies over the iteration space.
    ///
    /// # Panics
    /// If `value` is not of this graph.
    pub fn kind(&self, value: Value) -> Kind {
        self.kinds()[value.at()]
    }

    /// Input tensors, in slot order: dtype and kind ([`Kind::Row`] or [`Kind::Full`]).
    pub fn inputs(&self) -> impl Iterator<Item = (DType, Kind)> + '_ {
        self.nodes.iter().filter_map(|&(node, dtype)| match node {
            Node::Input(_) | Node::Lookup(..) => Some((dtype, Kind::Full)),
            Node::RowInput(_) | Node::RowLookup(..) => Some((dtype, Kind::Row)),
            _ => None,
        })
    }

    /// Scalar arguments, in slot order.
    pub fn scalars(&self) -> impl Iterator<Item = DType> + '_ {
        self.nodes.iter().filter(|(node, _)| matches!(node, Node::Scalar(_))).map(|&(_, dtype)| dtype)
    }

    /// Output values, in slot order.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// The kind of every node. An operand out of range counts as uniform: the verifier names it.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::with_capacity(self.nodes.len());
        for (node, _) in &self.nodes {
            kinds.push(node.kind(|v| kinds.get(v.at()).copied()));
        }
        kinds
    }

    /// The graph's identity: a hash of its structure, computed once.
    pub(crate) fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(self.to_string().as_bytes());
            let bytes = *hasher.finalize().as_bytes();
            u128::from_le_bytes(bytes[..16].try_into().expect("16 of the 32 bytes of a blake3 hash"))
        })
    }

    // A wrong operand must not stop the builder. The verifier rejects the graph whatever dtype is assumed here.
    fn operand_dtype(&self, value: Value) -> DType {
        self.nodes.get(value.at()).map_or(DType::F32, |&(_, dtype)| dtype)
    }
}

impl PartialEq for Graph {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.outputs == other.outputs
    }
}

impl Eq for Graph {}
