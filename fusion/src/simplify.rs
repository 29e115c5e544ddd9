//! Simplifies graphs: the same values, bit for bit, from fewer operators.
//!
//! One forward pass rebuilds the graph node by node. Operands are replaced by what they became, a rule may replace the node
//! by an earlier value or by a cheaper node, and equal nodes become one. Then a backward pass drops what no output needs.
//! Inputs and scalars stay, used or not, because the launch's arguments are counted by them.
//!
//! A rule here holds for every bit pattern of every dtype it is applied to (a NaN may change its payload, never into a
//! number), and it may not change a value's kind: an output per element must not become one per row. Rules that are true
//! only of real numbers (`x · 0 = 0`, `(a + b) + c = a + (b + c)`) have no place in this file.

use std::collections::HashMap;

use rocfire_hal::DType;

use crate::graph::{Graph, Kind, Node, Value};
use crate::op::{Binary, Compare, Unary};
use crate::scalar::Scalar;

impl Graph {
    /// An equivalent graph: the same arguments and the same outputs bit for bit, fewer operators.
    ///
    /// The graph must be valid ([`Graph::verify`]).
    pub fn simplify(&self) -> Graph {
        let mut pass = Pass { graph: Graph::new(self.name()), kinds: Vec::new(), known: HashMap::new() };
        let mut became: Vec<Value> = Vec::with_capacity(self.nodes.len());
        for &(node, dtype) in &self.nodes {
            let node = node.map(|operand| became[operand.at()]);
            became.push(pass.add(node, dtype));
        }
        let outputs: Vec<Value> = self.outputs.iter().map(|output| became[output.at()]).collect();
        drop_dead(&pass.graph, &outputs)
    }
}

/// The forward pass.
struct Pass {
    /// The simplified graph as far as it has come, and the kind of each node.
    graph: Graph,
    kinds: Vec<Kind>,
    /// Its nodes, to find equal ones.
    known: HashMap<(Node, DType), Value>,
}

/// What a rule puts in place of a node: an earlier value, or another node.
enum Rewrite {
    Value(Value),
    Node(Node),
}

impl Pass {
    fn add(&mut self, node: Node, dtype: DType) -> Value {
        let mut node = canonical(node);
        let kind = self.kind(node);
        // Each rule leaves fewer or cheaper operators, so this ends.
        while let Some(rewrite) = self.rule(node, dtype) {
            match rewrite {
                Rewrite::Value(value) if self.kinds[value.at()] == kind => return value,
                Rewrite::Node(next) if self.kind(next) == kind => node = canonical(next),
                Rewrite::Value(_) | Rewrite::Node(_) => break,
            }
        }
        let own = is_argument(node);
        if let (false, Some(&value)) = (own, self.known.get(&(node, dtype))) {
            return value;
        }
        let value = self.graph.push(node, dtype);
        self.kinds.push(kind);
        self.known.insert((node, dtype), value);
        value
    }

    fn kind(&self, node: Node) -> Kind {
        node.kind(|operand| Some(self.kinds[operand.at()]))
    }

    fn node(&self, value: Value) -> Node {
        self.graph.nodes[value.at()].0
    }

    fn constant(&self, value: Value) -> Option<Scalar> {
        match self.graph.nodes[value.at()] {
            (Node::Constant(bits), dtype) => Some(Scalar::from_bits(dtype, bits)),
            _ => None,
        }
    }

    fn rule(&mut self, node: Node, dtype: DType) -> Option<Rewrite> {
        match node {
            Node::Cast(a) => self.cast_rule(a, dtype),
            Node::Unary(op, a) => self.unary_rule(op, a, dtype),
            Node::Binary(op, a, b) => self.binary_rule(op, a, b, dtype),
            Node::Select(condition, a, b) => self.select_rule(condition, a, b),
            Node::Input(_)
            | Node::RowInput(_)
            | Node::Scalar(_)
            | Node::Constant(_)
            | Node::Index(_)
            | Node::Compare(..)
            | Node::Lookup(..)
            | Node::RowLookup(..)
            | Node::Check(..)
            | Node::Draw(_)
            | Node::Reduce(..) => None,
        }
    }

    fn cast_rule(&self, a: Value, to: DType) -> Option<Rewrite> {
        // cast<T>(x: T) == x
        if self.graph.dtype(a) == to {
            return Some(Rewrite::Value(a));
        }
        // cast<C>(cast<B>(x: A)) == cast<C>(x) where every A is a B: the inner cast loses nothing.
        match self.node(a) {
            Node::Cast(x) if embeds(self.graph.dtype(x), self.graph.dtype(a)) => Some(Rewrite::Node(Node::Cast(x))),
            _ => None,
        }
    }

    fn unary_rule(&self, op: Unary, a: Value, dtype: DType) -> Option<Rewrite> {
        match (op, self.node(a)) {
            // -(-x) == x: a sign bit flipped twice; two's complement negation is its own inverse.
            (Unary::Neg, Node::Unary(Unary::Neg, x)) => Some(Rewrite::Value(x)),
            // !!x == x
            (Unary::Not, Node::Unary(Unary::Not, x)) => Some(Rewrite::Value(x)),
            // ||x|| == |x|; the least integer is a fixed point of both.
            (Unary::Abs, Node::Unary(Unary::Abs, _)) => Some(Rewrite::Value(a)),
            // A number without a sign is its own magnitude.
            (Unary::Abs, _) if dtype.is_unsigned_int() => Some(Rewrite::Value(a)),
            // |-x| == |x|
            (Unary::Abs, Node::Unary(Unary::Neg, x)) => Some(Rewrite::Node(Node::Unary(Unary::Abs, x))),
            // !(a == b) is (a != b), for NaN too. The orders have no such pair: !(NaN < 1) is true, NaN >= 1 is false.
            (Unary::Not, Node::Compare(Compare::Eq, x, y)) => Some(Rewrite::Node(Node::Compare(Compare::Ne, x, y))),
            (Unary::Not, Node::Compare(Compare::Ne, x, y)) => Some(Rewrite::Node(Node::Compare(Compare::Eq, x, y))),
            // The rounding operators are idempotent, and each leaves an integer, which every other leaves alone.
            (
                Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc,
                Node::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc, _),
            ) if dtype.is_float() => Some(Rewrite::Value(a)),
            _ => None,
        }
    }

    fn binary_rule(&mut self, op: Binary, a: Value, b: Value, dtype: DType) -> Option<Rewrite> {
        if a == b && matches!(op, Binary::Min | Binary::Max | Binary::And | Binary::Or) {
            // min(x, x) == x, x & x == x, and their duals.
            return Some(Rewrite::Value(a));
        }
        if let Some(rewrite) = self.neutral_rule(op, a, b, dtype) {
            return Some(rewrite);
        }
        match (op, self.node(a), self.node(b)) {
            // x + -y == x - y: subtraction is defined as the addition of the negative, in IEEE 754 and modulo 2^n alike.
            (Binary::Add, _, Node::Unary(Unary::Neg, y)) => Some(Rewrite::Node(Node::Binary(Binary::Sub, a, y))),
            (Binary::Add, Node::Unary(Unary::Neg, x), _) => Some(Rewrite::Node(Node::Binary(Binary::Sub, b, x))),
            // x - -y == x + y
            (Binary::Sub, _, Node::Unary(Unary::Neg, y)) => Some(Rewrite::Node(Node::Binary(Binary::Add, a, y))),
            // -x · -y == x · y: the sign of a product is the exclusive or of the signs.
            (Binary::Mul, Node::Unary(Unary::Neg, x), Node::Unary(Unary::Neg, y)) => {
                Some(Rewrite::Node(Node::Binary(Binary::Mul, x, y)))
            }
            (Binary::Div, _, _) => self.power_of_two_rule(a, b, dtype),
            _ => None,
        }
    }

    /// Rules for an operator with its neutral element on one side.
    fn neutral_rule(&self, op: Binary, a: Value, b: Value, dtype: DType) -> Option<Rewrite> {
        let is = |value: Value, wanted: Scalar| match self.node(value) {
            Node::Constant(bits) => bits == wanted.bits(dtype),
            _ => false,
        };
        let either = |wanted: Scalar| {
            if is(b, wanted) {
                Some(Rewrite::Value(a))
            } else if is(a, wanted) {
                Some(Rewrite::Value(b))
            } else {
                None
            }
        };
        let right = |wanted: Scalar| is(b, wanted).then_some(Rewrite::Value(a));
        let float = dtype.is_float();
        match op {
            // x · 1 == x
            Binary::Mul => either(Scalar::Int(1)),
            // x / 1 == x
            Binary::Div => right(Scalar::Int(1)),
            // x + -0.0 == x for every x; x + +0.0 is not: it turns -0.0 into +0.0. Integers have one zero.
            Binary::Add if float => either(Scalar::Float(-0.0)),
            Binary::Add => either(Scalar::Int(0)),
            // x - +0.0 == x + -0.0 == x
            Binary::Sub => right(Scalar::Int(0)),
            // x | 0 == x, x ^ 0 == x, and for bool x | false, x ^ false.
            Binary::Or | Binary::Xor => either(Scalar::Int(0)),
            // x & ~0 == x; bool's ~0 is true.
            Binary::And if dtype == DType::Bool => either(Scalar::Bool(true)),
            Binary::And => either(Scalar::Int(-1)),
            // x << 0 == x, x >> 0 == x
            Binary::Shl | Binary::Shr => right(Scalar::Int(0)),
            Binary::Rem
            | Binary::Pow
            | Binary::Min
            | Binary::Max
            | Binary::Atan2
            | Binary::Hypot
            | Binary::CopySign => None,
        }
    }

    /// `x / 2^k == x · 2^-k` where both powers are normal numbers of the dtype: each side rounds the same real number once.
    fn power_of_two_rule(&mut self, a: Value, b: Value, dtype: DType) -> Option<Rewrite> {
        let Some(Scalar::Float(divisor)) = self.constant(b) else { return None };
        let reciprocal = 1.0 / divisor;
        // Only powers of two have an empty fraction. In f16 those from 2^-14 to 2^14 have a normal reciprocal.
        let power = divisor.is_normal() && divisor.to_bits() << 12 == 0;
        let exponent = 14;
        let within = divisor.abs() <= f64::from(1 << exponent) && divisor.abs() >= 1.0 / f64::from(1 << exponent);
        if !power || !within {
            return None;
        }
        let node = Node::Constant(Scalar::Float(reciprocal).bits(dtype));
        let factor = self.add(node, dtype);
        Some(Rewrite::Node(Node::Binary(Binary::Mul, a, factor)))
    }

    fn select_rule(&self, condition: Value, a: Value, b: Value) -> Option<Rewrite> {
        // c ? x : x == x
        if a == b {
            return Some(Rewrite::Value(a));
        }
        match self.node(condition) {
            // !c ? x : y == c ? y : x
            Node::Unary(Unary::Not, c) => Some(Rewrite::Node(Node::Select(c, b, a))),
            // true ? x : y == x, false ? x : y == y
            Node::Constant(bits) => Some(Rewrite::Value(if bits != 0 { a } else { b })),
            _ => None,
        }
    }
}

/// One order of operands for operators that do not depend on it, so that equal nodes are found equal.
fn canonical(node: Node) -> Node {
    match node {
        Node::Binary(op, a, b) if a > b && commutes(op) => Node::Binary(op, b, a),
        Node::Compare(op @ (Compare::Eq | Compare::Ne), a, b) if a > b => Node::Compare(op, b, a),
        // a > b == b < a, a >= b == b <= a
        Node::Compare(Compare::Gt, a, b) => Node::Compare(Compare::Lt, b, a),
        Node::Compare(Compare::Ge, a, b) => Node::Compare(Compare::Le, b, a),
        other => other,
    }
}

fn commutes(op: Binary) -> bool {
    match op {
        Binary::Add | Binary::Mul | Binary::And | Binary::Or | Binary::Xor => true,
        // Of two zeros of unlike sign, an extreme gives one or the other, depending on their order.
        Binary::Min | Binary::Max => false,
        Binary::Sub
        | Binary::Div
        | Binary::Rem
        | Binary::Pow
        | Binary::Atan2
        | Binary::Hypot
        | Binary::CopySign
        | Binary::Shl
        | Binary::Shr => false,
    }
}

/// Whether every value of `from` is a value of `to`.
fn embeds(from: DType, to: DType) -> bool {
    // Integers of so many bits are exact in a float dtype.
    let exact_bits = |dtype: DType| match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 0,
    };
    let width = |dtype: DType| dtype.size_bytes() * 8;
    if from == DType::Bool {
        return true;
    }
    if to == DType::Bool {
        return false;
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => to == DType::F64 || (to == DType::F32 && from.size_bytes() == 2),
        (true, false) => false,
        // 2^11 is the last power that f16 counts to without gaps, and 8 bits stay below its range.
        (false, true) => width(from) <= exact_bits(to),
        (false, false) => match (from.is_signed_int(), to.is_signed_int()) {
            (true, true) | (false, false) => width(from) <= width(to),
            (false, true) => width(from) < width(to),
            (true, false) => false,
        },
    }
}

/// Whether a node is one of the launch's arguments.
fn is_argument(node: Node) -> bool {
    match node {
        Node::Input(_) | Node::RowInput(_) | Node::Lookup(..) | Node::RowLookup(..) | Node::Scalar(_) => true,
        Node::Constant(_)
        | Node::Index(_)
        | Node::Check(..)
        | Node::Unary(..)
        | Node::Binary(..)
        | Node::Compare(..)
        | Node::Select(..)
        | Node::Cast(_)
        | Node::Reduce(..)
        | Node::Draw(_) => false,
    }
}

/// The nodes that `outputs` need, and every argument, renumbered.
fn drop_dead(graph: &Graph, outputs: &[Value]) -> Graph {
    let arguments = graph.nodes().filter(|(_, node, _)| is_argument(*node)).map(|(value, ..)| value);
    let live = graph.needed(outputs.iter().copied().chain(arguments));
    let mut kept = Graph::new(graph.name());
    let became = kept.copy(graph, |value| live[value.at()], |_, _, _, _| None);
    for output in outputs {
        kept.output(became[output.at()]);
    }
    kept
}
