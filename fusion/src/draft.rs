//! Graphs written as arithmetic: a [`Term`] is a value that knows the graph to which it belongs.

use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Sub};

use rocfire_hal::DType;

use crate::graph::{Graph, Value};
use crate::op::{Binary, Compare, Reduce, Unary};
use crate::scalar::Scalar;

/// A graph that is being written.
#[derive(Debug)]
pub struct Draft(RefCell<Graph>);

impl Draft {
    /// A graph whose only output is the term that `write` gives.
    pub fn graph(name: &'static str, write: impl FnOnce(&Draft) -> Term<'_>) -> Graph {
        Draft::several(name, |g| [write(g)])
    }

    /// The same with several outputs.
    pub fn several<const COUNT: usize>(name: &'static str, write: impl FnOnce(&Draft) -> [Term<'_>; COUNT]) -> Graph {
        let draft = Draft::new(name);
        write(&draft).into_iter().for_each(|output| draft.output(output));
        draft.finish()
    }

    /// An empty graph, as [`Graph::new`].
    pub fn new(name: &'static str) -> Draft {
        Draft(RefCell::new(Graph::new(name)))
    }

    /// Makes a term the next output.
    pub fn output(&self, term: Term<'_>) {
        self.0.borrow_mut().output(term.value);
    }

    /// The graph as it has been written.
    pub fn finish(self) -> Graph {
        self.0.into_inner()
    }

    /// The value that a call on the graph gives, as a term.
    pub fn term(&self, make: impl FnOnce(&mut Graph) -> Value) -> Term<'_> {
        Term { draft: self, value: make(&mut self.0.borrow_mut()) }
    }

    /// [`Graph::input`].
    pub fn input(&self, of: DType) -> Term<'_> {
        self.term(|g| g.input(of))
    }

    /// [`Graph::row_input`].
    pub fn row_input(&self, of: DType) -> Term<'_> {
        self.term(|g| g.row_input(of))
    }

    /// [`Graph::lookup`].
    pub fn lookup(&self, of: DType, index: Term<'_>) -> Term<'_> {
        self.term(|g| g.lookup(of, index.value))
    }

    /// [`Graph::scalar`].
    pub fn scalar(&self, of: DType) -> Term<'_> {
        self.term(|g| g.scalar(of))
    }

    /// [`Graph::constant`].
    pub fn constant(&self, of: DType, number: impl Into<Scalar>) -> Term<'_> {
        self.term(|g| g.constant(of, number))
    }

    /// [`Graph::index`].
    pub fn index(&self, axis: usize) -> Term<'_> {
        self.term(|g| g.index(axis))
    }
}

/// A value of a graph that is being written. A number in arithmetic with it becomes a constant of its dtype.
#[derive(Clone, Copy, Debug)]
pub struct Term<'g> {
    draft: &'g Draft,
    /// The value.
    pub value: Value,
}

impl<'g> Term<'g> {
    /// Its dtype.
    pub fn dtype(self) -> DType {
        self.draft.0.borrow().dtype(self.value)
    }

    /// A constant of its dtype.
    pub fn number(self, number: impl Into<Scalar>) -> Term<'g> {
        self.draft.constant(self.dtype(), number)
    }

    /// [`Graph::cast`]; the term itself if it has that dtype already.
    pub fn cast(self, to: DType) -> Term<'g> {
        if self.dtype() == to { self } else { self.draft.term(|g| g.cast(self.value, to)) }
    }

    /// [`Graph::unary`].
    pub fn unary(self, op: Unary) -> Term<'g> {
        self.draft.term(|g| g.unary(op, self.value))
    }

    /// [`Graph::binary`].
    pub fn binary(self, op: Binary, other: Term<'g>) -> Term<'g> {
        self.draft.term(|g| g.binary(op, self.value, other.value))
    }

    /// [`Graph::compare`].
    pub fn is(self, op: Compare, other: Term<'g>) -> Term<'g> {
        self.draft.term(|g| g.compare(op, self.value, other.value))
    }

    /// `a` where this condition holds, else `b`.
    pub fn choose(self, a: Term<'g>, b: Term<'g>) -> Term<'g> {
        self.draft.term(|g| g.select(self.value, a.value, b.value))
    }

    /// [`Graph::reduce`].
    pub fn reduce(self, op: Reduce) -> Term<'g> {
        self.draft.term(|g| g.reduce(op, self.value))
    }
}

impl<'g> Neg for Term<'g> {
    type Output = Term<'g>;
    fn neg(self) -> Term<'g> {
        self.unary(Unary::Neg)
    }
}

macro_rules! arithmetic {
    ($($op:ident $name:ident $binary:ident;)*) => {$(
        impl<'g> $op for Term<'g> {
            type Output = Term<'g>;
            fn $name(self, other: Term<'g>) -> Term<'g> {
                self.binary(Binary::$binary, other)
            }
        }
    )*};
}
arithmetic! { Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; BitAnd bitand And; BitOr bitor Or; }

macro_rules! with_numbers {
    ($($op:ident $name:ident,)*) => {$(
        impl<'g> $op<f64> for Term<'g> {
            type Output = Term<'g>;
            fn $name(self, other: f64) -> Term<'g> {
                $op::$name(self, self.number(other))
            }
        }

        impl<'g> $op<Term<'g>> for f64 {
            type Output = Term<'g>;
            fn $name(self, other: Term<'g>) -> Term<'g> {
                $op::$name(other.number(self), other)
            }
        }
    )*};
}
with_numbers! { Add add, Sub sub, Mul mul, Div div, }
