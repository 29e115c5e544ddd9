//! The graph: SSA over one broadcast iteration space, and its builder.
//!
//! An iteration space has a shape that is known only at the launch. A value is of one of three kinds ([`Kind`]): the
//! same everywhere, one per row (a row is everything but the last axis), or one per element. Reductions run over the last
//! axis and turn elements into rows; a row value broadcasts back wherever an element is expected.
//!
//! The builder never fails: what it was told wrongly (mixed dtypes, a value of another graph) is named by
//! [`Graph::verify`], which every launch of an unknown graph goes through.

use std::sync::OnceLock;

use rocfire_hal::DType;

use crate::op::{Binary, Compare, IndexOp, Reduce, Unary};
use crate::scalar::Scalar;

/// A value of a [`Graph`]: the index of the node that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

impl Value {
    /// The node's place among those of the graph.
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
    /// The element of the input of this number.
    Input(u32),
    /// The same, one for each row.
    RowInput(u32),
    /// The element of the input of this number at an index along an axis of its own.
    Lookup(u32, Value),
    /// The same, one for each row.
    RowLookup(u32, Value),
    /// An index, of which the host is told if it is outside 0 to an extent.
    Check(IndexOp, Value, Value),
    /// The scalar of this number.
    Scalar(u32),
    /// A memory image as of [`Scalar::bits`].
    Constant(u64),
    /// The coordinate along an axis, counted from the last.
    Index(u32),
    /// An operator of one value.
    Unary(Unary, Value),
    /// An operator of two.
    Binary(Binary, Value, Value),
    /// A comparison of two.
    Compare(Compare, Value, Value),
    /// The second where the first holds, else the third.
    Select(Value, Value, Value),
    /// The value in the node's dtype.
    Cast(Value),
    /// The value reduced over the last axis.
    Reduce(Reduce, Value),
    /// A word of the random numbers that seed, offset and replay name (scalars), at an index.
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

    /// The same node with every operand passed through `map`.
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

    /// Its kind, where `of` says its operands'; one that is not known counts as uniform.
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

    /// Whether an epilogue can have it: an element is computed from elements at its own place and from scalars.
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

    /// The next input tensor, with one element per row: its last axis has extent 1, or it lacks it.
    ///
    /// Equal to [`Graph::input`] with a broadcast last axis, but what is computed from it stays one value per row, may be
    /// a per-row output, and is computed once per row.
    pub fn row_input(&mut self, dtype: DType) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::RowInput(slot), dtype)
    }

    /// An element of the next input tensor for each element of the iteration space: the tensor has one axis more than the
    /// space, its first, along which `index` (i64) counts, while the others broadcast. An index outside that axis gives 0.
    pub fn lookup(&mut self, dtype: DType, index: Value) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::Lookup(slot, index), dtype)
    }

    /// The same with one element for each row, at an `index` per row: the tensor's other axes broadcast as those of
    /// [`Graph::row_input`] do. An element of the row itself is that of a view in which the last axis comes first.
    pub fn row_lookup(&mut self, dtype: DType, index: Value) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::RowLookup(slot, index), dtype)
    }

    /// `index` (i64) as it is. One outside 0 to `extent` (i64) is told of at the device's next read or wait, as an index of `op`;
    /// what follows it must see to it itself. Nothing is told of a value that no output needs.
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

    /// `a` in another dtype. To a float: nearest even. Float to integer: truncation, saturating, NaN to 0. Between integers:
    /// wrap. To bool: "is not zero". From bool: 0 or 1.
    pub fn cast(&mut self, a: Value, dtype: DType) -> Value {
        self.push(Node::Cast(a), dtype)
    }

    /// `a` reduced over the last axis: one value per row.
    pub fn reduce(&mut self, op: Reduce, a: Value) -> Value {
        let dtype = self.operand_dtype(a);
        self.push(Node::Reduce(op, a), dtype)
    }

    /// A word of 32 random bits for each `index` (i64), as `u32`: word `index % 4` of the Philox4x32-10 block with counter
    /// (`index / 4`, offset) under the key seed. Takes three scalars of the launch, u64: seed, offset, and the address of what
    /// a replayed launch adds to the offset, 0 for none.
    pub fn draw(&mut self, index: Value) -> Value {
        let [seed, offset, replay] = [(); 3].map(|()| self.scalar(DType::U64));
        self.push(Node::Draw([seed, offset, replay, index]), DType::U32)
    }

    /// Computes what `other` does of these values in place of its inputs; its scalars become this graph's next. What its outputs are.
    ///
    /// # Panics
    /// If `inputs` are fewer than its inputs, or it looks one up.
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

    /// Copies the nodes of `other` that are needed, with all that they are computed from. `instead` may give another value for one,
    /// which it is told with its dtype; inputs and scalars that are copied become this graph's next. What each node became: those
    /// that are not needed, no value of the graph.
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

    /// The same of inputs in other types, each converted to the one that it had: `own` says the type in memory by slot and dtype.
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

    /// Pushes a node; one that is an argument as the next of its kind.
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

    /// What `value` computes, of these operands instead of its own; itself where they are its own.
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

    /// What makes a value.
    ///
    /// # Panics
    /// If `value` is not of this graph.
    pub fn node(&self, value: Value) -> Node {
        self.nodes[value.at()].0
    }

    /// By node, whether one of these values is computed from it, or is it.
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

    /// Makes `a` the next output: a tensor of the iteration space's shape, or of its rows if `a` is a row value.
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

    // A broken operand must not stop the builder; the verifier rejects the graph whatever dtype is assumed for it.
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
