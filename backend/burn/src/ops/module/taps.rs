//! Weighted sums along one axis: what interpolation and mean pooling are made of.
//!
//! Each output index is a short list of input indices with weights, so `y[o] = Σ w · x[i]`. The elements are gathered with
//! one `select`, weighted and summed in one launch. The gradient is the same operation with the lists turned around, so it
//! needs no scatter and its order of summation is fixed. Costs memory of the longest list times the output.

use rocfire_fusion::{Binary, Compare, Reduce};
use rocfire_hal::{DType, Tensor};

use crate::error::Result;
use crate::ops::{fused, index, memory, view};

/// The lists of one axis.
pub(crate) struct Taps {
    /// Extent of the axis that is read.
    inputs: usize,
    /// Per output index: input index and weight.
    lists: Vec<Vec<(usize, f64)>>,
}

impl Taps {
    /// Lists over an axis of extent `inputs`; every index is below it.
    pub(crate) fn new(inputs: usize, lists: Vec<Vec<(usize, f64)>>) -> Taps {
        debug_assert!(lists.iter().flatten().all(|&(index, _)| index < inputs), "a tap outside its axis");
        Taps { inputs, lists }
    }

    /// For every input index, the output indices it went into: the lists of the gradient.
    pub(crate) fn transposed(&self) -> Taps {
        let mut lists = vec![Vec::new(); self.inputs];
        for (output, taps) in self.lists.iter().enumerate() {
            for &(input, weight) in taps {
                lists[input].push((output, weight));
            }
        }
        Taps { inputs: self.lists.len(), lists }
    }

    /// The number of taps of each output index.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        self.lists.iter().map(Vec::len).collect()
    }

    /// The sums over `axis` of `x`. The result is f32 (f64 for f64), except where each output is one input unweighted:
    /// then it keeps the element type.
    pub(crate) fn apply(&self, x: &Tensor, axis: usize) -> Result<Tensor> {
        let longest = self.lists.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let mut places = vec![0_i32; self.lists.len() * longest];
        let mut weights = vec![0_f64; self.lists.len() * longest];
        for (output, taps) in self.lists.iter().enumerate() {
            for (slot, &(input, weight)) in taps.iter().enumerate() {
                places[output * longest + slot] = input as i32;
                weights[output * longest + slot] = weight;
            }
        }
        if x.layout().is_empty() || self.lists.is_empty() {
            let mut shape = x.shape().to_vec();
            shape[axis] = self.lists.len();
            return memory::full(x.device(), &shape, fused::wide(x.dtype()), 0.0.into());
        }
        let places = memory::table(x.device(), &[places.len()], DType::I32, &places)?;
        let picked = index::select(x, axis, &places)?;
        if longest == 1 && weights.iter().all(|&weight| weight == 1.0) {
            return Ok(picked);
        }
        self.weigh(&picked, axis, longest, &weights)
    }

    fn weigh(&self, picked: &Tensor, axis: usize, longest: usize, weights: &[f64]) -> Result<Tensor> {
        let (from, to) = (picked.dtype(), fused::wide(picked.dtype()));
        let outputs = self.lists.len();
        let mut split = picked.shape().to_vec();
        split[axis] = outputs;
        let shape = split.clone();
        split.insert(axis + 1, longest);
        let (rows, _) = crate::ops::reduce::axis_last(&view::reshape(picked, &split)?, axis + 1)?;
        let mut weight_shape = vec![1; split.len() - axis];
        weight_shape[0] = outputs;
        *weight_shape.last_mut().expect("an axis and the taps behind it") = longest;
        let weights = match to {
            DType::F64 => memory::table(picked.device(), &weight_shape, DType::F64, weights)?,
            _ => {
                let narrow: Vec<f32> = weights.iter().map(|&weight| weight as f32).collect();
                memory::table(picked.device(), &weight_shape, DType::F32, &narrow)?
            }
        };
        // Slots without a tap have weight 0 and whatever element lies at index 0: an infinity there must not become NaN.
        let graph = fused::graph("taps", &[from], |g| {
            let (x, weight) = (g.input(from), g.input(to));
            let x = fused::to(g, x, to);
            let zero = g.constant(to, 0.0);
            let used = g.compare(Compare::Ne, weight, zero);
            let product = g.binary(Binary::Mul, x, weight);
            let product = g.select(used, product, zero);
            let sum = g.reduce(Reduce::Sum, product);
            g.output(sum);
        });
        let sums = fused::per_row(&graph, &[&rows, &weights], &[], to)?;
        view::reshape(&sums, &shape)
    }
}
