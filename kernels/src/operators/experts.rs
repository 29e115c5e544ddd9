//! Products of groups of rows, and what is left of them for each token: all but what an epilogue changes with gradients.

use rocfire_fusion::{Epilogue, Graph, Scalar, eager};
use rocfire_hal::{DType, Layout, Stream, Tensor, View};

use super::tokens::of_type;
use super::{Operator, Spec, optional, with_rows};
use crate::Result;
use crate::experts::{self, CombineGradients, CombineParams, combine_backward};
use crate::family::{self, shape};
use crate::gate::Activation;
use crate::gemm::{GemmGroups, GemmParams, gemm_grouped, gemm_grouped_fused, gemm_grouped_transposed};
use crate::graphs::{Graphs, Maker, wide};

/// What becomes of the products of groups before they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupedEpilogue {
    /// Nothing.
    #[default]
    None,
    /// `activation(product) · factor`, the factor `[rows, N]` of the product's type, or what broadcasts to it.
    Gate(Activation),
    /// `product · factor`, the same.
    Scale,
}

impl GroupedEpilogue {
    /// Names of inputs and of the factor, if there is one.
    pub(super) fn names(self, inputs: &[&'static str]) -> Vec<&'static str> {
        let factor = (self != GroupedEpilogue::None).then_some("factor");
        inputs.iter().copied().chain(factor).collect()
    }

    /// `None` where nothing becomes of a product.
    pub(super) fn graph(self, product: DType, factor: Option<DType>) -> Option<std::sync::Arc<Graph>> {
        static GRAPHS: Graphs<(GroupedEpilogue, DType, DType)> = Graphs::new();
        let made = |(epilogue, dtype, factor): (GroupedEpilogue, DType, DType)| {
            let make = Maker::of("grouped_matmul", dtype);
            let (mut product, factor) = (make.input(dtype), make.input(factor));
            if let GroupedEpilogue::Gate(activation) = epilogue {
                product = activation.value(make.precision, product);
            }
            make.output(product * factor, dtype);
            make.finish()
        };
        factor.filter(|_| self != GroupedEpilogue::None).map(|factor| GRAPHS.get((self, product, factor), made))
    }
}

/// The products and what becomes of them.
fn multiply(
    stream: &Stream,
    [a, b]: [View<'_>; 2],
    groups: &GemmGroups<'_>,
    epilogue: GroupedEpilogue,
    factor: Option<&Tensor>,
    c: &mut Tensor,
) -> Result<()> {
    let params = GemmParams::default();
    eager::fill(c.view_mut(), Scalar::Int(0))?;
    let (Some(graph), Some(factor)) = (epilogue.graph(a.dtype(), factor.map(Tensor::dtype)), factor) else {
        return gemm_grouped(stream, a, b, groups, c.view_mut(), &params);
    };
    let (extents, factor) = (c.shape().to_vec(), [factor.view()]);
    let outputs = [c.view_mut()];
    let epilogue = Epilogue::new(&graph, &extents, &factor, &[], &outputs)?;
    gemm_grouped_fused(stream, a, b, groups, &epilogue, &params)
}

/// A tensor with its last two axes the other way round.
fn transposed(b: &Tensor) -> Result<View<'_>> {
    let rank = b.layout().rank();
    Ok(b.view().with_layout(b.layout().swap(rank.saturating_sub(2), rank.saturating_sub(1))?)?)
}

/// Elements on end in another shape of as many.
fn in_shape(x: &Tensor, extents: &[usize]) -> Result<Tensor> {
    let layout = x.layout().reshape(extents).map_or_else(|| Layout::contiguous(extents), Ok)?;
    Ok(Tensor::from_buffer(x.buffer().clone(), layout, x.dtype())?)
}

/// Zeros in rows that are no choice's, as padded blocks have them.
fn clear_padding(rows: &mut Tensor, choices: usize) -> Result<()> {
    if rows.shape()[0] != choices {
        eager::fill(rows.view_mut(), Scalar::Int(0))?;
    }
    Ok(())
}

/// Groups of rows, each by a matrix of its own, as [`gemm_grouped`] and [`gemm_grouped_fused`]. Rows of no group are
/// zeros.
///
/// # Inputs
/// `a` `[rows, K]`; `b` `[groups, K, N]`, of the same type; offsets `[groups + 1]`: the first row of each group,
/// and the end; but for [`GroupedEpilogue::None`] the factor. The output is `[rows, N]`. Without an epilogue `a` and `b` have
/// gradients.
pub fn grouped_matmul(epilogue: GroupedEpilogue) -> Operator {
    let output = |inputs: &[Spec]| vec![Spec::new([inputs[0].extent(0), inputs[1].extent(2)], inputs[0].dtype)];
    let names = epilogue.names(&["a", "b", "offsets"]);
    let forward = Operator::new("grouped_matmul", &names, output, move |stream, inputs, outputs| {
        let offsets = of_type(stream, &inputs[2], DType::I32)?;
        let groups = GemmGroups::Offsets(offsets.view());
        multiply(stream, [inputs[0].view(), inputs[1].view()], &groups, epilogue, inputs.get(3), &mut outputs[0])
    });
    if epilogue != GroupedEpilogue::None {
        return forward;
    }
    forward.with_gradient("grouped_matmul_backward", 2, &["c"], |stream, inputs, outputs| {
        let (offsets, grad) = (of_type(stream, &inputs[2], DType::I32)?, &inputs[4]);
        let [of_a, rest @ ..] = outputs else { unreachable!("one was described at least") };
        let groups = GemmGroups::Offsets(offsets.view());
        multiply(stream, [grad.view(), transposed(&inputs[1])?], &groups, GroupedEpilogue::None, None, of_a)?;
        let Some(of_b) = rest.first_mut() else { return Ok(()) };
        let (a, grad) = (inputs[0].view(), grad.view());
        gemm_grouped_transposed(stream, a, grad, offsets.view(), of_b.view_mut(), &GemmParams::default())
    })
}

/// Rows by the matrices of the experts that they have chosen: [`grouped_matmul`] of choices in the order of experts, whose rows lie
/// in memory once.
///
/// # Inputs
/// `a` `[rows, K]`; `b` `[experts, K, N]`, of the same type; then what [`sort_by_expert`](super::sort_by_expert) gives: offsets, the
/// order `[places]`, and the place of each choice, as many for each row of `a`; but for [`GroupedEpilogue::None`] the factor
/// `[places, N]`. The output is `[places, N]`, rows that are no choice's zeros. Without an epilogue `a` and `b` have gradients.
pub fn expert_matmul(epilogue: GroupedEpilogue) -> Operator {
    let output = |inputs: &[Spec]| vec![Spec::new([inputs[3].extent(0), inputs[1].extent(2)], inputs[0].dtype)];
    let names = epilogue.names(&["a", "b", "offsets", "order", "places"]);
    let forward = Operator::new("expert_matmul", &names, output, move |stream, inputs, outputs| {
        let chosen = Chosen::new(stream, &inputs[0], &inputs[2..5])?;
        let groups = chosen.groups();
        multiply(stream, [inputs[0].view(), inputs[1].view()], &groups, epilogue, inputs.get(5), &mut outputs[0])
    });
    if epilogue != GroupedEpilogue::None {
        return forward;
    }
    forward.with_gradient("expert_matmul_backward", 2, &["c"], |stream, inputs, outputs| {
        let (chosen, a, grad) = (Chosen::new(stream, &inputs[0], &inputs[2..5])?, with_rows(&inputs[0])?, &inputs[6]);
        let [of_a, rest @ ..] = outputs else { unreachable!("one was described at least") };
        let params = GemmParams::default();
        let lines = [chosen.order.shape()[0], a.shape()[1]];
        // What goes back to each choice, before it is added up for its row, and then each choice's row of `a`.
        let mut rows = Tensor::empty(a.device(), &lines, a.dtype())?;
        let groups = GemmGroups::Offsets(chosen.offsets.view());
        gemm_grouped(stream, grad.view(), transposed(&inputs[1])?, &groups, rows.view_mut(), &params)?;
        let by = CombineParams { offsets: Some(chosen.offsets.view()), ..CombineParams::default() };
        experts::combine(stream, rows.view(), chosen.places.view(), &by, of_a.view_mut())?;
        let Some(of_b) = rest.first_mut() else { return Ok(()) };
        let mut own = Tensor::empty(a.device(), &lines, a.dtype())?;
        clear_padding(&mut own, chosen.places.layout().len())?;
        let to = CombineGradients { rows: Some(own.view_mut()), weights: None };
        combine_backward(stream, a.view(), rows.view(), chosen.places.view(), &by, to)?;
        gemm_grouped_transposed(stream, own.view(), grad.view(), chosen.offsets.view(), of_b.view_mut(), &params)
    })
}

/// Choices in the order of experts.
pub(super) struct Chosen {
    offsets: Tensor,
    order: Tensor,
    /// `[rows, each]`.
    places: Tensor,
    each: usize,
}

impl Chosen {
    /// Of rows of `a`, from what [`expert_matmul`] takes of `sort_by_expert`.
    pub(super) fn new(stream: &Stream, a: &Tensor, sorted: &[Tensor]) -> Result<Chosen> {
        let [offsets, order, places] = [0, 1, 2].map(|at| of_type(stream, &sorted[at], DType::I32));
        let (places, rows) = (places?, a.shape().first().copied().unwrap_or(0));
        let choices = places.layout().len();
        if choices.checked_rem(rows).unwrap_or(choices) != 0 {
            return Err(shape("expert_matmul", "places", format!("as many for each of {rows} rows"), choices));
        }
        let each = choices.checked_div(rows).unwrap_or(1);
        let places = in_shape(&places, &[rows, each])?;
        Ok(Chosen { offsets: offsets?, order: order?, places, each })
    }

    pub(super) fn groups(&self) -> GemmGroups<'_> {
        GemmGroups::Choices { offsets: self.offsets.view(), order: self.order.view(), each: self.each.max(1) }
    }
}

/// What the experts of a token gave, weighted and added, as [`experts::combine()`].
///
/// # Inputs
/// Rows `[places, n]`; weights `[tokens, k]`, f32 or cast to it (f64 for rows of f64); the place of each choice `[tokens * k]`; offsets `[experts + 1]`; with `has_bias`
/// a bias `[experts, n]`, which is added to a row before it is weighted. The output is `[tokens, n]` of the rows' type. Rows and
/// weights have gradients.
pub fn combine(has_bias: bool) -> Operator {
    const NAMES: [&str; 5] = ["rows", "weights", "places", "offsets", "bias"];
    let output = |inputs: &[Spec]| vec![Spec::new([inputs[1].extent(0), inputs[0].extent(1)], inputs[0].dtype)];
    let names = &NAMES[..if has_bias { 5 } else { 4 }];
    let forward = Operator::new("combine", names, output, move |stream, inputs, outputs| {
        Combined::new(stream, inputs, has_bias)?
            .with(|rows, places, params| experts::combine(stream, rows, places, params, outputs[0].view_mut()))
    });
    forward.with_gradient("combine_backward", 2, &["y"], move |stream, inputs, outputs| {
        let (combined, grad) = (Combined::new(stream, inputs, has_bias)?, with_rows(&inputs[inputs.len() - 1])?);
        clear_padding(&mut outputs[0], combined.places.layout().len())?;
        let [rows, weights] = optional(outputs);
        // Weights of another type than the launcher's have a gradient of that type.
        let dtype = combined.weights.dtype();
        let mut cast = match &weights {
            Some(weights) if weights.dtype() != dtype => Some(Tensor::empty(grad.device(), weights.shape(), dtype)?),
            _ => None,
        };
        let (of_weights, narrow) = match &mut cast {
            Some(cast) => (Some(cast.view_mut()), weights),
            None => (weights, None),
        };
        let to = CombineGradients { rows, weights: of_weights };
        combined.with(|rows, places, params| combine_backward(stream, grad.view(), rows, places, params, to))?;
        if let (Some(cast), Some(to)) = (cast, narrow) {
            let cast = family::cast(stream, cast.view(), to.dtype())?;
            eager::copy_into(cast.view(), to)?;
        }
        Ok(())
    })
}

/// The inputs of [`combine`] as the launchers take them.
struct Combined {
    rows: Tensor,
    weights: Tensor,
    places: Tensor,
    offsets: Tensor,
    bias: Option<Tensor>,
}

impl Combined {
    fn new(stream: &Stream, inputs: &[Tensor], has_bias: bool) -> Result<Combined> {
        let weights = of_type(stream, &inputs[1], wide(inputs[0].dtype()))?;
        let places = of_type(stream, &inputs[2], DType::I32)?;
        let extents = weights.shape().to_vec();
        if places.layout().len() != extents.iter().product::<usize>() {
            return Err(shape(
                "combine",
                "places",
                format!("one for each weight of {extents:?}"),
                places.layout().len(),
            ));
        }
        let places = in_shape(&places, &extents)?;
        let bias = if has_bias { Some(with_rows(&inputs[4])?) } else { None };
        let (rows, offsets) = (with_rows(&inputs[0])?, of_type(stream, &inputs[3], DType::I32)?);
        Ok(Combined { rows, weights, places, offsets, bias })
    }

    fn with<T>(&self, run: impl FnOnce(View<'_>, View<'_>, &CombineParams<'_>) -> T) -> T {
        let params = CombineParams {
            weights: Some(self.weights.view()),
            offsets: Some(self.offsets.view()),
            bias: self.bias.as_ref().map(Tensor::view),
        };
        run(self.rows.view(), self.places.view(), &params)
    }
}
