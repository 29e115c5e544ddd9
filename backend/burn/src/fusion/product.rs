//! A matrix product, or a convolution (`convolution`), as the first value of a kernel. What follows is computed where the product's
//! kernel stores its result.
//!
//! The product's elements are the first input of the graph. Its matrices are tensors in memory, or views of such; nothing else is
//! computed before it. Operations behind it are collected as for any elementwise kernel. They can be the product's epilogue if its
//! own axes are the whole iteration space.

use burn_ir::{MatmulOpIr, TensorIr};
use rocfire_fusion::{Node, Value};

use super::arrange::Arrangement;
use super::axes::Frame;
use super::convolution::Convolution;
use super::refusal::Refusal;
use super::trace::{EntryId, Trace};
use super::translate::Result;
use crate::convert::to_hal;

/// The product or convolution that a trace begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) lhs: EntryId,
    pub(super) rhs: EntryId,
    /// `None` for a matrix product.
    pub(super) convolution: Option<Convolution>,
    out: EntryId,
    node: Value,
}

impl Trace {
    /// A matrix product, the only one of its trace.
    pub(super) fn multiply(&mut self, op: &MatmulOpIr) -> Result<()> {
        self.begin_product(&[Some(&op.lhs), Some(&op.rhs)], &op.out)?;
        let operands = [self.operand(&op.lhs)?, self.operand(&op.rhs)?];
        self.end_product(operands, &op.out, None)
    }

    /// Refuses a product that the trace cannot begin with, or whose tensors are not of one type.
    pub(super) fn begin_product(&self, operands: &[Option<&TensorIr>], out: &TensorIr) -> Result<()> {
        if !self.multiplies {
            return Err(Refusal::Operation);
        }
        if self.product.is_some() {
            return Err(Refusal::SecondProduct);
        }
        let dtype = to_hal(out.dtype).map_err(|_| Refusal::DType)?;
        let is_same = |tensor: &&TensorIr| to_hal(tensor.dtype).is_ok_and(|own| own == dtype);
        if operands.iter().flatten().all(is_same) { Ok(()) } else { Err(Refusal::DType) }
    }

    /// Adds a product whose operands were entered to the trace, as its first value.
    pub(super) fn end_product(
        &mut self,
        [lhs, rhs]: [EntryId; 2],
        out: &TensorIr,
        convolution: Option<Convolution>,
    ) -> Result<()> {
        let dtype = to_hal(out.dtype).map_err(|_| Refusal::DType)?;
        let frame = self.resolve(out, &[])?;
        debug_assert!(self.reads.is_empty(), "a product is the first value, and the graph's first input");
        let node = self.add(|graph| graph.input(dtype))?;
        let out = self.define(out, node, frame, &[])?;
        self.count(out);
        self.product = Some(Product { lhs, rhs, convolution, out, node });
        Ok(())
    }

    /// Whether a trace that must begin with a product computes something before one.
    pub(super) fn lacks_product(&self) -> bool {
        self.multiplies && self.product.is_none() && self.computed().next().is_some()
    }

    /// The frame of the product's result: batches, then rows, then columns.
    pub(super) fn product_frame(&self, product: &Product) -> Frame {
        self.value_of(product.out).expect("a product is a computed value").1
    }

    /// The product in the part of an arrangement, if it is there.
    pub(super) fn product_of(&self, arrangement: &Arrangement) -> Option<&Product> {
        self.product.as_ref().filter(|product| self.root(product.out) == arrangement.root)
    }

    /// Whether the arrangement with the product can be its epilogue.
    pub(super) fn ends_product(&self, arrangements: &[Arrangement]) -> bool {
        let Some(product) = &self.product else { return true };
        let own = arrangements.iter().find(|arrangement| self.product_of(arrangement).is_some());
        own.is_some_and(|arrangement| {
            let inputs = self.needed_nodes(&arrangement.needed).filter(|(_, node)| matches!(node, Node::Input(_)));
            arrangement.needed[product.node.at()]
                && arrangement.row.is_empty()
                && self.product_frame(product).flat().eq(arrangement.outer.iter().copied())
                && self.needed_nodes(&arrangement.needed).all(|(_, node)| node.is_in_place())
                && inputs.count() - 1 + arrangement.stores.len() <= rocfire_fusion::EPILOGUE_TENSORS
        })
    }
}
