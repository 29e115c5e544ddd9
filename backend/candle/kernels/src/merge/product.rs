//! A matrix product with the chain behind it as its epilogue: a bias, an activation, a factor.
//!
//! When all launches are known, a chain that begins with a product's result joins the product, if nobody else reads that
//! result. A product that the dispatch gives to a vendor's library stays alone:
//! it has no epilogues of ours, and is the faster one.

use cudarc::driver::DriverError;
use cudarc::rocfire::{Operator, Window};
use rocfire_fusion::{EPILOGUE_TENSORS, Epilogue, Graph, Scalar, Value};
use rocfire_hal::{DType, Layout, Tensor};
use rocfire_kernels::gemm::gemm_fused;

use super::chain::{Op, info_word};
use super::{Group, Kind, Plan};

impl Plan<'_, '_> {
    /// The chain at `at` joins its product; `None` if it stays.
    pub(super) fn join_tail(&mut self, at: usize) -> Option<()> {
        let window = self.window;
        let Group { members, mask, kind } = &self.groups[at];
        let Kind::Chain(ops) = kind else { return None };
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
        let tail = Tail::new(window, product, ops, *mask)?;
        let Group { members, mask, .. } = self.groups.remove(at);
        let joined = &mut self.groups[product_at];
        joined.members.extend(members);
        joined.mask |= mask;
        joined.kind = Kind::Product(Some(Box::new(tail)));
        Some(())
    }
}

/// A chain as a graph over a product.
pub(crate) struct Tail {
    graph: Graph,
    scalars: Vec<Scalar>,
    /// What it reads besides the product, over the product's `[batch, rows, columns]`.
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl Tail {
    /// `None` where an operand does not lie as rows.
    fn new(window: &Window<'_>, number: usize, ops: &[Op], mask: u64) -> Option<Tail> {
        let product = window.node(number).product()?.product;
        let dtype = product.dtype;
        let is_dense = product.c.leading == product.m as i64
            && (product.batch == 1 || product.c.stride == (product.m * product.n) as i64);
        let shape = [product.batch, product.n, product.m];
        let count = shape.iter().product::<usize>() as u64;
        if !is_dense || !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return None;
        }
        let tensor = |number: usize, address: u64, dtype: DType, strides: [i64; 3]| {
            let (buffer, first) = window.node(number).memory(address, window.turn())?;
            let layout = Layout::strided(&shape, &strides, (first / dtype.size_bytes() as u64) as i64).ok()?;
            Tensor::from_buffer(buffer, layout, dtype).ok()
        };
        let mut graph = Graph::new("candle_tail");
        let result = graph.input(dtype);
        let mut values: Vec<(u64, Value)> = vec![(product.c.address, result)];
        let (mut scalars, mut inputs, mut outputs) = (Vec::new(), Vec::<Tensor>::new(), Vec::new());
        let last = ops.len() - 1;
        for (at, op) in ops.iter().enumerate() {
            let number = op.number();
            if op.count() != count {
                return None;
            }
            let mut operands = Vec::with_capacity(3);
            for (slot, (address, is_whole, of)) in op.operands().enumerate() {
                let known = values.iter().find(|(known, _)| *known == address);
                operands.push(match known {
                    Some(&(_, value)) if is_whole && graph.dtype(value) == of => value,
                    Some(_) => return None,
                    None => {
                        let strides = row_strides(window, op, slot, is_whole, shape)?;
                        inputs.push(tensor(number, address, of, strides)?);
                        let value = graph.input(of);
                        // Strided operands of one address may differ in strides: only whole ones are found again.
                        values.extend(is_whole.then_some((address, value)));
                        value
                    }
                });
            }
            let &[value] = &graph.append(op.graph(), &operands)[..] else { return None };
            scalars.extend(op.numbers(window));
            values.push((op.result(), value));
            if at == last || window.is_owned(number) || window.readers(number) & !mask != 0 {
                graph.output(value);
                outputs.push(tensor(number, op.result(), op.to(), [(shape[1] * shape[2]) as i64, shape[2] as i64, 1])?);
            }
        }
        let fits = inputs.len() + outputs.len() <= EPILOGUE_TENSORS;
        fits.then_some(Tail { graph, scalars, inputs, outputs })
    }
}

/// The strides of an operand over batch, rows and columns: it lies like the product, or has one value per column, or one.
fn row_strides(window: &Window<'_>, op: &Op, slot: usize, is_whole: bool, shape: [usize; 3]) -> Option<[i64; 3]> {
    let [_, rows, columns] = shape;
    if is_whole {
        return Some([(rows * columns) as i64, columns as i64, 1]);
    }
    let node = window.node(op.number());
    let (axes, info) = (node.word(1) as usize, node.argument(2));
    let inner = axes.checked_sub(1)?;
    let stride = |axis: usize| info_word(info, (slot + 1) * axes + axis);
    let is_same_for_rows = (0..inner).all(|axis| info_word(info, axis) <= 1 || stride(axis) == 0);
    let is_of_columns = info_word(info, inner) == columns as u64 && stride(inner) <= 1;
    (is_same_for_rows && is_of_columns).then(|| [0, 0, stride(inner) as i64])
}

/// The product and its chain as one operator, the first time too: the bits are not those of the launches one by one, so how often
/// it came must not decide them.
pub(super) fn with_tail(window: &Window<'_>, number: usize, tail: Tail) -> Option<Operator> {
    let Tail { graph, scalars, inputs, outputs } = tail;
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
