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
    pub(crate) fn at(self) -> usize {
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

/// What a node computes. `bits` are memory images as of [`Scalar::bits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Input {
        slot: u32,
    },
    RowInput {
        slot: u32,
    },
    /// The input's element at an index along an axis of its own.
    Lookup {
        slot: u32,
        index: Value,
    },
    /// The same, one value per row.
    RowLookup {
        slot: u32,
        index: Value,
    },
    /// An index, of which the host is told if it is outside 0 to an extent.
    Check {
        op: IndexOp,
        index: Value,
        extent: Value,
    },
    Scalar {
        slot: u32,
    },
    Constant {
        bits: u64,
    },
    Index {
        axis: u32,
    },
    Unary(Unary, Value),
    Binary(Binary, Value, Value),
    Compare(Compare, Value, Value),
    Select(Value, Value, Value),
    Cast(Value),
    Reduce(Reduce, Value),
    /// A word of the random numbers that seed, offset and replay name (scalars), at an index.
    Draw([Value; 4]),
}

impl Node {
    /// The values this node reads.
    pub(crate) fn operands(&self) -> impl Iterator<Item = Value> + use<> {
        let (list, count) = match *self {
            Node::Input { .. }
            | Node::RowInput { .. }
            | Node::Scalar { .. }
            | Node::Constant { .. }
            | Node::Index { .. } => ([Value(0); 4], 0),
            Node::Unary(_, a)
            | Node::Cast(a)
            | Node::Reduce(_, a)
            | Node::Lookup { index: a, .. }
            | Node::RowLookup { index: a, .. } => ([a; 4], 1),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) | Node::Check { index: a, extent: b, .. } => {
                ([a, b, b, b], 2)
            }
            Node::Select(a, b, c) => ([a, b, c, c], 3),
            Node::Draw(list) => (list, 4),
        };
        list.into_iter().take(count)
    }

    /// The same node with every operand passed through `map`.
    pub(crate) fn map(self, mut map: impl FnMut(Value) -> Value) -> Node {
        match self {
            Node::Input { .. }
            | Node::RowInput { .. }
            | Node::Scalar { .. }
            | Node::Constant { .. }
            | Node::Index { .. } => self,
            Node::Unary(op, a) => Node::Unary(op, map(a)),
            Node::Binary(op, a, b) => Node::Binary(op, map(a), map(b)),
            Node::Compare(op, a, b) => Node::Compare(op, map(a), map(b)),
            Node::Select(c, a, b) => Node::Select(map(c), map(a), map(b)),
            Node::Cast(a) => Node::Cast(map(a)),
            Node::Reduce(op, a) => Node::Reduce(op, map(a)),
            Node::Lookup { slot, index } => Node::Lookup { slot, index: map(index) },
            Node::RowLookup { slot, index } => Node::RowLookup { slot, index: map(index) },
            Node::Check { op, index, extent } => Node::Check { op, index: map(index), extent: map(extent) },
            Node::Draw(list) => Node::Draw(list.map(map)),
        }
    }

    /// Its kind, where `of` says its operands'; one that is not known counts as uniform.
    pub(crate) fn kind(self, of: impl Fn(Value) -> Option<Kind>) -> Kind {
        match self {
            Node::Input { .. } | Node::Index { .. } | Node::Lookup { .. } => Kind::Full,
            Node::RowInput { .. } | Node::RowLookup { .. } | Node::Reduce(..) => Kind::Row,
            Node::Scalar { .. } | Node::Constant { .. } => Kind::Uniform,
            Node::Unary(..)
            | Node::Binary(..)
            | Node::Compare(..)
            | Node::Select(..)
            | Node::Cast(_)
            | Node::Check { .. }
            | Node::Draw(_) => self.operands().filter_map(of).max().unwrap_or(Kind::Uniform),
        }
    }

    /// Whether it reads an input at an index.
    pub(crate) fn is_lookup(self) -> bool {
        matches!(self, Node::Lookup { .. } | Node::RowLookup { .. })
    }
}

/// A computation over one iteration space: inputs, scalars, operators in SSA form, outputs.
///
/// Two graphs with the same structure are the same kernel, whatever their names.
#[derive(Clone, Debug)]
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
        self.push(Node::Input { slot }, dtype)
    }

    /// The next input tensor, with one element per row: its last axis has extent 1, or it lacks it.
    ///
    /// Equal to [`Graph::input`] with a broadcast last axis, but what is computed from it stays one value per row, may be
    /// a per-row output, and is computed once per row.
    pub fn row_input(&mut self, dtype: DType) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::RowInput { slot }, dtype)
    }

    /// An element of the next input tensor for each element of the iteration space: the tensor has one axis more than the
    /// space, its first, along which `index` (i64) counts, while the others broadcast. An index outside that axis gives 0.
    pub fn lookup(&mut self, dtype: DType, index: Value) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::Lookup { slot, index }, dtype)
    }

    /// The same with one element for each row, at an `index` per row: the tensor's other axes broadcast as those of
    /// [`Graph::row_input`] do. An element of the row itself is that of a view in which the last axis comes first.
    pub fn row_lookup(&mut self, dtype: DType, index: Value) -> Value {
        let slot = self.inputs;
        self.inputs += 1;
        self.push(Node::RowLookup { slot, index }, dtype)
    }

    /// `index` (i64) as it is. One outside 0 to `extent` (i64) is told of at the device's next read or wait, as an index of `op`;
    /// what follows it must see to it itself. Nothing is told of a value that no output needs.
    pub fn check(&mut self, op: IndexOp, index: Value, extent: Value) -> Value {
        self.push(Node::Check { op, index, extent }, DType::I64)
    }

    /// The next scalar argument of the launch. Changing its value compiles nothing.
    pub fn scalar(&mut self, dtype: DType) -> Value {
        let slot = self.scalars;
        self.scalars += 1;
        self.push(Node::Scalar { slot }, dtype)
    }

    /// A constant of the kernel, converted to `dtype` as [`Scalar`] says.
    pub fn constant(&mut self, dtype: DType, value: impl Into<Scalar>) -> Value {
        let bits = value.into().bits(dtype);
        self.push(Node::Constant { bits }, dtype)
    }

    /// The `i64` coordinate along an axis, counted from the last (0 is the last axis); 0 on an axis that is not there.
    pub fn index(&mut self, axis: usize) -> Value {
        let axis = u32::try_from(axis).unwrap_or(u32::MAX);
        self.push(Node::Index { axis }, DType::I64)
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
        let mut known: Vec<Value> = Vec::with_capacity(other.nodes.len());
        for &(node, dtype) in &other.nodes {
            assert!(!node.is_lookup(), "an input that is looked up is no value");
            let value = match node {
                Node::Input { slot } | Node::RowInput { slot } => inputs[slot as usize],
                Node::Scalar { .. } => self.scalar(dtype),
                _ => self.push(node.map(|operand| known[operand.at()]), dtype),
            };
            known.push(value);
        }
        other.outputs.iter().map(|output| known[output.at()]).collect()
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
            Node::Input { .. } | Node::Lookup { .. } => Some((dtype, Kind::Full)),
            Node::RowInput { .. } | Node::RowLookup { .. } => Some((dtype, Kind::Row)),
            _ => None,
        })
    }

    /// Scalar arguments, in slot order.
    pub fn scalars(&self) -> impl Iterator<Item = DType> + '_ {
        self.nodes.iter().filter(|(node, _)| matches!(node, Node::Scalar { .. })).map(|&(_, dtype)| dtype)
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
