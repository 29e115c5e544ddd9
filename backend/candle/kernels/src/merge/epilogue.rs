//! A matrix product with the chain of graphs behind it as its epilogue: a bias, an activation, a factor.
//!
//! When all launches are known, a chain that begins with a product's result joins the product, if nobody else reads that
//! result. A product that the choice gives to a vendor's library stays alone: the library has no epilogues of ours, and is faster
//! than our kernel with one.

use std::sync::Arc;

use cudarc::driver::DriverError;
use cudarc::rocfire::{Operator, Window};
use rocfire_fusion::{EPILOGUE_TENSORS, Epilogue, Graph, Scalar, Value};
use rocfire_hal::{DType, Tensor};
use rocfire_kernels::gemm::gemm_fused;

use super::compose::{Laid, Op, stored};
use super::{Group, Kind, Plan};
use crate::program::tensor;

impl Plan<'_, '_> {
    /// Joins the chain of group `at` to the product whose result it begins with; `None` if it stays a group of its own.
    pub(super) fn join_epilogue(&mut self, at: usize) -> Option<()> {
        let window = self.window;
        let Group { members, mask, kind } = &self.groups[at];
        let Kind::Graph(ops) = kind else { return None };
        let first = *members.first()?;
        let is_read =
            |group: &Group| matches!(group.kind, Kind::Product(None)) && group.mask & window.sources(first) != 0;
        let product_at = self.groups[..at].iter().rposition(is_read)?;
        let product = *self.groups[product_at].members.first()?;
        let reads_other = |group: &Group| members.iter().any(|&member| window.after(member) & group.mask != 0);
        let is_theirs = window.readers(product) & !mask == 0 && !window.is_owned(product);
        let overwrites = members.iter().any(|&member| window.overwrites(member, product));
        if self.groups[product_at + 1..at].iter().any(reads_other) || !is_theirs || overwrites {
            return None;
        }
        if !window.node(product).product()?.is_ours(window.device().stream(), window.turn()) {
            return None;
        }
        let epilogue = ProductEpilogue::new(window, product, ops, *mask)?;
        let Group { members, mask, .. } = self.groups.remove(at);
        let joined = &mut self.groups[product_at];
        joined.members.extend(members);
        joined.mask |= mask;
        joined.kind = Kind::Product(Some(Box::new(epilogue)));
        Some(())
    }
}

/// A chain of graphs as the epilogue of a product.
pub(crate) struct ProductEpilogue {
    graph: Arc<Graph>,
    scalars: Vec<Scalar>,
    /// Tensors that it reads besides the product, each as a view over the product's `[batch, rows, columns]`.
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl ProductEpilogue {
    /// The chain `ops` behind product `number`. `None` where it cannot be an epilogue: it looks at whole rows, has too many tensors, or
    /// one of them cannot be walked along the product's axes.
    fn new(window: &Window<'_>, number: usize, ops: &[Op], mask: u64) -> Option<ProductEpilogue> {
        let node = window.node(number);
        let (product, result) = (node.product()?.product, node.result()?);
        let is_dense = product.c.leading == product.m as i64
            && (product.batch == 1 || product.c.stride == (product.m * product.n) as i64);
        let is_of_rows = ops.iter().any(|op| op.program().has_rows);
        if !is_dense || is_of_rows || !matches!(product.dtype, DType::F32 | DType::F16 | DType::BF16) {
            return None;
        }
        let shape = [product.batch, product.n, product.m];
        let over = |op: &Op, operand: usize| {
            let (launch, node) = (&op.launch, window.node(op.number()));
            let steps = launch.axes.steps_over(operand, &shape)?;
            let of = (&shape[..], &steps[..shape.len()]);
            let dtype = op.program().operands[operand].dtype;
            tensor(node, window.turn(), launch.addresses[operand], dtype, of).ok()
        };
        let laid = Laid::new(ops, stored(window, ops, mask));
        let mut inputs = Vec::new();
        // Whether each input is the product's result. `kind` is the same for the key of the graph, behind a word that no other key
        // begins with.
        let (mut of_product, mut kind) = (Vec::new(), vec![u32::MAX]);
        for (op, operand) in laid.outside() {
            let (input, dtype) = (over(op, operand)?, op.program().operands[operand].dtype);
            let is_product = (result.0..result.1).contains(&op.operand(operand));
            of_product.push(is_product);
            kind.push(is_product.into());
            if !is_product {
                inputs.push(input);
            } else if op.operand(operand) != result.0 || dtype != product.dtype || !input.layout().is_contiguous() {
                return None;
            }
        }
        let graph = laid.kept(&kind, 0, || {
            let mut graph = Graph::new("candle_epilogue");
            let value = graph.input(product.dtype);
            let input = |((op, operand), of_product): ((&Op, usize), &bool)| match of_product {
                true => value,
                false => graph.input(op.program().operands[operand].dtype),
            };
            let outside: Vec<Value> = laid.outside().zip(&of_product).map(input).collect();
            laid.graph(&mut graph, &outside);
            graph
        })?;
        let outputs = laid.stored().map(|(op, output)| over(op, output)).collect::<Option<Vec<_>>>()?;
        let fits = inputs.len() + outputs.len() <= EPILOGUE_TENSORS;
        fits.then(|| ProductEpilogue { graph, scalars: laid.scalars(), inputs, outputs })
    }
}

/// The product and its chain as one operator. It is made when they first come together, not after some repeats as in `compose.rs`:
/// the bits differ from those of the launches one by one, so they must not depend on how often the chain has come.
pub(super) fn with_epilogue(window: &Window<'_>, number: usize, epilogue: ProductEpilogue) -> Option<Operator> {
    let ProductEpilogue { graph, scalars, inputs, outputs } = epilogue;
    let product = window.node(number).product()?;
    let ([left, right, _], shape, params) =
        (product.tensors(window.turn()).ok()?, product.shape(), product.product.params());
    Some(Box::new(move |stream| {
        let mut outputs = outputs.clone();
        let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
        let outputs: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
        let failed = |error: &dyn std::fmt::Display| DriverError::new(format!("a product's epilogue: {error}"));
        let epilogue = Epilogue::new(&graph, &shape, &views, &scalars, &outputs).map_err(|error| failed(&error))?;
        gemm_fused(stream, left.view(), right.view(), &epilogue, &params).map_err(|error| failed(&error))
    }))
}
