//! Graphs written as arithmetic.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Sub};

use rocfire_fusion::{Binary, Compare, Graph, Reduce, Scalar, Unary, Value};
use rocfire_hal::DType;

/// A graph that is being written.
pub(super) struct Draft(RefCell<Graph>);

impl Draft {
    /// The graph whose output `write` gives.
    pub(super) fn graph(name: &'static str, write: impl FnOnce(&Draft) -> Term<'_>) -> Graph {
        Draft::several(name, |g| [write(g)])
    }

    /// The same of several outputs.
    pub(super) fn several<const COUNT: usize>(
        name: &'static str,
        write: impl FnOnce(&Draft) -> [Term<'_>; COUNT],
    ) -> Graph {
        let draft = Draft(RefCell::new(Graph::new(name)));
        let outputs = write(&draft).map(|term| term.value);
        let mut graph = draft.0.into_inner();
        outputs.into_iter().for_each(|output| graph.output(output));
        graph
    }

    /// What a call of the graph's gives.
    pub(super) fn term(&self, make: impl FnOnce(&mut Graph) -> Value) -> Term<'_> {
        Term { draft: self, value: make(&mut self.0.borrow_mut()) }
    }

    pub(super) fn input(&self, of: DType) -> Term<'_> {
        self.term(|g| g.input(of))
    }

    pub(super) fn lookup(&self, of: DType, index: Term<'_>) -> Term<'_> {
        self.term(|g| g.lookup(of, index.value))
    }

    pub(super) fn scalar(&self, of: DType) -> Term<'_> {
        self.term(|g| g.scalar(of))
    }

    pub(super) fn index(&self, axis: usize) -> Term<'_> {
        self.term(|g| g.index(axis))
    }
}

/// A value of a graph that is being written.
#[derive(Clone, Copy)]
pub(super) struct Term<'g> {
    draft: &'g Draft,
    pub(super) value: Value,
}

impl<'g> Term<'g> {
    pub(super) fn dtype(self) -> DType {
        self.draft.0.borrow().dtype(self.value)
    }

    /// A constant of its type.
    pub(super) fn number(self, number: impl Into<Scalar>) -> Term<'g> {
        let of = self.dtype();
        self.draft.term(|g| g.constant(of, number))
    }

    pub(super) fn cast(self, to: DType) -> Term<'g> {
        if self.dtype() == to { self } else { self.draft.term(|g| g.cast(self.value, to)) }
    }

    pub(super) fn unary(self, op: Unary) -> Term<'g> {
        self.draft.term(|g| g.unary(op, self.value))
    }

    pub(super) fn binary(self, op: Binary, other: Term<'g>) -> Term<'g> {
        self.draft.term(|g| g.binary(op, self.value, other.value))
    }

    pub(super) fn is(self, op: Compare, other: Term<'g>) -> Term<'g> {
        self.draft.term(|g| g.compare(op, self.value, other.value))
    }

    /// `a` where this condition holds, else `b`.
    pub(super) fn choose(self, a: Term<'g>, b: Term<'g>) -> Term<'g> {
        self.draft.term(|g| g.select(self.value, a.value, b.value))
    }

    pub(super) fn reduce(self, op: Reduce) -> Term<'g> {
        self.draft.term(|g| g.reduce(op, self.value))
    }
}

macro_rules! arithmetic {
    ($($op:ident $name:ident,)*) => {$(
        impl<'g> $op for Term<'g> {
            type Output = Term<'g>;
            fn $name(self, other: Term<'g>) -> Term<'g> {
                self.binary(Binary::$op, other)
            }
        }
    )*};
}
arithmetic! { Add add, Sub sub, Mul mul, Div div, }
