//! Laws over shapes, strides and types: what an operator gives does not depend on where its elements lie, and is what Candle's CPU
//! device gives.

mod common;

use candle_core::{DType, Result, Tensor};
use common::{Inputs, gpu, same, tolerance};
use proptest::prelude::*;

/// A view: extents in memory, the order of its axes, what is cut off at either end of each.
#[derive(Clone, Debug)]
struct View {
    extents: Vec<usize>,
    order: Vec<usize>,
    cuts: Vec<(usize, usize)>,
}

impl View {
    fn of(&self, inputs: &Inputs, dtype: DType) -> Result<Tensor> {
        let mut tensor = inputs.make(&self.extents, dtype)?;
        for (axis, &(before, behind)) in self.cuts.iter().enumerate() {
            let extent = self.extents[axis];
            let before = before.min(extent - 1);
            tensor = tensor.narrow(axis, before, (extent - before).saturating_sub(behind).max(1))?;
        }
        tensor.permute(self.order.clone())
    }
}

fn views() -> impl Strategy<Value = View> {
    let axes = prop::collection::vec((1_usize..9, (0_usize..3, 0_usize..3)), 1..=4);
    axes.prop_flat_map(|axes| {
        let (extents, cuts): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let order: Vec<usize> = (0..extents.len()).collect();
        Just(order).prop_shuffle().prop_map(move |order| View { extents: extents.clone(), order, cuts: cuts.clone() })
    })
}

fn types() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![DType::F32, DType::F16, DType::U8, DType::I64])
}

/// The same on both devices.
fn agree(multiple: f64, compute: impl Fn(&Inputs) -> Result<Tensor>) {
    let expected = compute(&Inputs::new(&candle_core::Device::Cpu, 5)).unwrap();
    let got = compute(&Inputs::new(&gpu(), 5)).unwrap();
    same("law", &got, &expected, multiple * tolerance(expected.dtype()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_are_copied_as_they_are_seen(view in views(), dtype in types()) {
        agree(0.0, |inputs| view.of(inputs, dtype)?.contiguous());
    }

    #[test]
    fn operators_see_through_views(view in views(), dtype in types(), axis in 0_usize..4) {
        agree(1.0, |inputs| {
            let x = view.of(inputs, dtype)?;
            // One axis of the other operand is broadcast.
            let mut shape = x.dims().to_vec();
            let axis = axis % shape.len();
            shape[axis] = 1;
            let other = inputs.range(&shape, dtype, 1.0, 3.0)?;
            x.broadcast_mul(&other)
        });
    }

    #[test]
    fn reductions_see_through_views(view in views(), axis in 0_usize..4, keep in any::<bool>()) {
        agree(4.0, |inputs| {
            let x = view.of(inputs, DType::F32)?;
            let axis = axis % x.rank();
            if keep { x.max_keepdim(axis) } else { x.sum(axis) }
        });
    }

    #[test]
    fn selections_see_through_views(view in views(), ids in prop::collection::vec(0_u32..100, 1..6), axis in 0_usize..4) {
        agree(0.0, |inputs| {
            let x = view.of(inputs, DType::F32)?.contiguous()?;
            let axis = axis % x.rank();
            let extent = x.dim(axis)? as u32;
            let ids: Vec<u32> = ids.iter().map(|id| id % extent).collect();
            x.index_select(&Tensor::new(ids, inputs.device())?, axis)
        });
    }

    #[test]
    fn products_of_any_extents_agree(m in 1_usize..40, k in 1_usize..40, n in 1_usize..40, batch in 1_usize..4, turned in any::<bool>()) {
        agree(4.0, |inputs| {
            let lhs = inputs.make(&[batch, m, k], DType::F32)?;
            let rhs = if turned {
                inputs.make(&[batch, n, k], DType::F32)?.transpose(1, 2)?
            } else {
                inputs.make(&[batch, k, n], DType::F32)?
            };
            lhs.matmul(&rhs)
        });
    }
}
