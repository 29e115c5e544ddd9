//! Finds the logistic function as frameworks write it out, and computes it by its definition.
//!
//! Burn writes `1 / (1 + exp(-x))` out as `exp(-log(1 + exp(-x)))`, which spares a framework without a reciprocal a division. The
//! logarithm and the second power cost more than reading the element, and they lose digits: for an `x` of -80
//! the argument of the last `exp` is rounded at 80, which is forty units in the last place of the result. A kernel of the
//! whole chain computes the definition instead.
//!
//! Burn computes it in f32 whatever the element type. If everything that reads a sigmoid rounds it to 16 bits, the power and the
//! reciprocal are computed to that precision only: more precise ones would take a kernel longer than its memory accesses.
//!
//! This changes bits, so it is not one of the rules in `simplify.rs`. Whether it happens depends on the graph and on the values of
//! its scalars, which frameworks pass at the launch: they must be -1, 1 and -1.

use rocfire_hal::DType;

use crate::graph::{Graph, Node, Value};
use crate::op::{Binary, Unary};
use crate::scalar::Scalar;

/// A graph with sigmoids computed by their definition, and the scalars for which it is the same function.
pub(crate) struct Defined {
    pub graph: Graph,
    /// Slots of scalars, each with the bits that the scalar must have.
    guards: Vec<(usize, u64)>,
}

impl Defined {
    /// Whether the scalars of a launch make the chains sigmoids.
    pub(crate) fn holds(&self, scalars: &[Scalar]) -> bool {
        let is = |&(slot, bits): &(usize, u64)| scalars.get(slot).is_some_and(|value| value.bits(DType::F32) == bits);
        self.guards.iter().all(is)
    }
}

/// A search for one sigmoid, and what it has found that scalars must be.
struct Needs<'a> {
    graph: &'a Graph,
    /// As in [`Defined`].
    guards: Vec<(usize, u64)>,
}

impl Needs<'_> {
    /// Whether `value` is this number. A scalar counts, and is noted: it may be the number at the launch.
    fn number(&mut self, value: Value, number: f64) -> bool {
        let bits = Scalar::Float(number).bits(DType::F32);
        match self.graph.nodes[value.at()].0 {
            Node::Constant(own) => own == bits,
            Node::Scalar(slot) => {
                self.guards.push((slot as usize, bits));
                true
            }
            _ => false,
        }
    }

    /// If `value` is `op` of something and this number, the other operand.
    fn with(&mut self, op: Binary, value: Value, number: f64) -> Option<Value> {
        let Node::Binary(found, a, b) = self.graph.nodes[value.at()].0 else { return None };
        if found != op {
            return None;
        }
        if self.number(b, number) {
            return Some(a);
        }
        self.number(a, number).then_some(b)
    }

    /// If `value` is the negative of something, or that times -1, that operand.
    fn negated(&mut self, value: Value) -> Option<Value> {
        match self.graph.nodes[value.at()].0 {
            Node::Unary(Unary::Neg, x) => Some(x),
            _ => self.with(Binary::Mul, value, -1.0),
        }
    }

    /// If `value` is this function of something, the operand.
    fn of(&self, op: Unary, value: Value) -> Option<Value> {
        match self.graph.nodes[value.at()].0 {
            Node::Unary(found, x) if found == op => Some(x),
            _ => None,
        }
    }

    /// If `value` is a written-out sigmoid, its argument `x`.
    fn sigmoid(&mut self, value: Value) -> Option<Value> {
        if self.graph.dtype(value) != DType::F32 {
            return None;
        }
        let power = self.of(Unary::Exp, value)?;
        let logarithm = self.negated(power)?;
        let sum = self.of(Unary::Log, logarithm)?;
        let term = self.with(Binary::Add, sum, 1.0)?;
        let inner = self.of(Unary::Exp, term)?;
        self.negated(inner)
    }
}

impl Graph {
    /// For each node, whether it is read by casts to 16-bit floats and by nothing else.
    fn rounded_to_halves(&self) -> Vec<bool> {
        let mut readers = vec![(0, 0); self.nodes.len()];
        for (node, dtype) in &self.nodes {
            let is_rounding = matches!(node, Node::Cast(_)) && matches!(dtype, DType::F16 | DType::BF16);
            for operand in node.operands() {
                let (all, rounding) = &mut readers[operand.at()];
                *all += 1;
                *rounding += usize::from(is_rounding);
            }
        }
        self.outputs.iter().for_each(|output| readers[output.at()].0 += 1);
        readers.into_iter().map(|(all, rounding)| all > 0 && all == rounding).collect()
    }

    /// The graph with every written-out sigmoid computed by its definition; `None` if there is none. The arguments are the same.
    pub(crate) fn defined_sigmoids(&self) -> Option<Defined> {
        let mut guards = Vec::new();
        let mut graph = Graph::new(self.name());
        let mut became: Vec<Value> = Vec::with_capacity(self.nodes.len());
        let mut found = false;
        let near = self.rounded_to_halves();
        for (at, &(node, dtype)) in self.nodes.iter().enumerate() {
            let mut needs = Needs { graph: self, guards: Vec::new() };
            let value = match needs.sigmoid(Value(at as u32)) {
                Some(x) => {
                    found = true;
                    guards.append(&mut needs.guards);
                    let negated = graph.unary(Unary::Neg, became[x.at()]);
                    let (exp, recip) =
                        if near[at] { (Unary::ExpNear, Unary::RecipNear) } else { (Unary::Exp, Unary::Recip) };
                    let power = graph.unary(exp, negated);
                    let one = graph.constant(dtype, 1.0);
                    let sum = graph.binary(Binary::Add, power, one);
                    graph.unary(recip, sum)
                }
                None => graph.push(node.map(|operand| became[operand.at()]), dtype),
            };
            became.push(value);
        }
        graph.inputs = self.inputs;
        graph.scalars = self.scalars;
        self.outputs.iter().for_each(|output| graph.output(became[output.at()]));
        found.then(|| Defined { graph: graph.simplify(), guards })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `exp(a · log(b + exp(c · x)))` with the scalars a, b and c.
    fn chain() -> Graph {
        let mut g = Graph::new("chain");
        let x = g.input(DType::F32);
        let scalars: Vec<Value> = (0..3).map(|_| g.scalar(DType::F32)).collect();
        let inner = g.binary(Binary::Mul, x, scalars[2]);
        let term = g.unary(Unary::Exp, inner);
        let sum = g.binary(Binary::Add, term, scalars[1]);
        let logarithm = g.unary(Unary::Log, sum);
        let power = g.binary(Binary::Mul, logarithm, scalars[0]);
        let y = g.unary(Unary::Exp, power);
        g.output(y);
        g
    }

    #[test]
    fn a_chain_is_a_sigmoid_for_its_scalars_only() {
        let graph = chain().simplify();
        let defined = graph.defined_sigmoids().expect("the chain is one");
        let logs =
            |graph: &Graph| graph.nodes.iter().filter(|(node, _)| matches!(node, Node::Unary(Unary::Log, _))).count();
        assert_eq!((logs(&graph), logs(&defined.graph)), (1, 0), "{}", defined.graph);
        assert_eq!((defined.graph.inputs, defined.graph.scalars), (1, 3));
        let with = |a: f64, b: f64, c: f64| defined.holds(&[a, b, c].map(Scalar::Float));
        assert!(with(-1.0, 1.0, -1.0));
        assert!(!with(-1.0, 1.0, 1.0) && !with(-2.0, 1.0, -1.0) && !with(-1.0, 0.5, -1.0));
        assert!(!defined.holds(&[]));
    }

    #[test]
    fn only_a_sigmoid_that_is_rounded_to_16_bits_is_near() {
        let functions = |graph: &Graph| {
            let defined = graph.clone().simplify().defined_sigmoids().expect("the chain is a sigmoid");
            let of = |(node, _): &(Node, DType)| match node {
                Node::Unary(op @ (Unary::Exp | Unary::ExpNear | Unary::Recip | Unary::RecipNear), _) => Some(*op),
                _ => None,
            };
            defined.graph.nodes.iter().filter_map(of).collect::<Vec<_>>()
        };
        let mut g = chain();
        let y = g.outputs.pop().expect("its result");
        for dtype in [DType::F16, DType::BF16] {
            let mut g = g.clone();
            let rounded = g.cast(y, dtype);
            g.output(rounded);
            assert_eq!(functions(&g), [Unary::ExpNear, Unary::RecipNear], "{dtype}");
            // A reader that does not round gets the full precision.
            g.output(y);
            assert_eq!(functions(&g), [Unary::Exp, Unary::Recip], "{dtype}");
        }
        let wide = g.cast(y, DType::F64);
        g.output(wide);
        assert_eq!(functions(&g), [Unary::Exp, Unary::Recip]);
    }

    #[test]
    fn other_chains_stay() {
        let mut g = Graph::new("softplus");
        let x = g.input(DType::F32);
        let term = g.unary(Unary::Exp, x);
        let one = g.constant(DType::F32, 1.0);
        let sum = g.binary(Binary::Add, term, one);
        let y = g.unary(Unary::Log, sum);
        g.output(y);
        assert!(g.simplify().defined_sigmoids().is_none());
    }
}
