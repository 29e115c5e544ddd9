//! `group_norm`: normalisation of groups of channels, and its gradients.
//!
//! Statistics of the groups in one launch, then the result element by element: a group's elements share no row with the weights,
//! which are a channel's.

use rocfire_fusion::{Graph, Reduce, Scalar};
use rocfire_hal::{DType, Layout, MAX_RANK, Stream, Tensor, View, ViewMut};

use super::norm::{NormKind, Normal};
use super::norm_backward::{check_gradients, sum_parts};
use crate::Result;
use crate::family::{self, shape};
use crate::graphs::{self, Graphs, Inputs, Maker, apart_or_same, float, reshaped, same_shape, wide};

/// What is asked for besides `x`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GroupNormParams<'a> {
    /// Groups of equally many neighbouring channels.
    pub groups: usize,
    /// Added to the variance under the root.
    pub epsilon: f64,
    /// Factors of the channels, `[channels]`, any float.
    pub weight: Option<View<'a>>,
    /// Added to the channels, `[channels]`, any float.
    pub bias: Option<View<'a>>,
}

impl<'a> GroupNormParams<'a> {
    /// Without weight and bias.
    pub fn new(groups: usize, epsilon: f64) -> GroupNormParams<'a> {
        GroupNormParams { groups, epsilon, weight: None, bias: None }
    }
}

/// Where gradients go.
#[derive(Debug)]
pub struct GroupNormGradients<'a> {
    /// Of `x`: its shape and type.
    pub x: ViewMut<'a>,
    /// Of the weight, `[channels]`, its type.
    pub weight: Option<ViewMut<'a>>,
    /// Of the bias, `[channels]`, its type.
    pub bias: Option<ViewMut<'a>>,
}

/// `y = (x - mean) / √(variance + ε) · weight + bias`, mean and variance over each group of channels and all that is behind them.
///
/// # Shapes
/// `x`, `y`: `[batch, channels, ..]`, any strides; `y` may be `x` itself. One group is LayerNorm over everything, as many as
/// channels instance normalisation.
/// # Types
/// `x` of any float, `y` of the same.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store.
/// # Errors
/// `Shape` for shapes, types or memory that do not fit; `Unsupported` for what is no float; errors of compilation and launch.
pub fn group_norm(stream: &Stream, x: View<'_>, params: &GroupNormParams<'_>, y: ViewMut<'_>) -> Result<()> {
    const OP: &str = "group_norm";
    let groups = Groups::new(OP, stream, &x, params)?;
    family::on_device(OP, "y", stream, &y)?;
    family::same_dtype(OP, "y", &y, x.dtype())?;
    same_shape(OP, "y", &y, x.shape())?;
    family::writable(OP, "y", &y)?;
    apart_or_same(OP, "x", &y, &x)?;
    for (arg, view) in [("weight", params.weight), ("bias", params.bias)] {
        if let Some(view) = view {
            family::disjoint(OP, arg, &y, &view)?;
        }
    }
    let statistics = groups.statistics(stream, x, params.epsilon)?;
    let key = ApplyKey {
        x: x.dtype(),
        weight: params.weight.map(|view| view.dtype()),
        bias: params.bias.map(|view| view.dtype()),
    };
    static GRAPHS: Graphs<ApplyKey> = Graphs::new();
    let graph = GRAPHS.get(key, apply_graph);
    let mut inputs = Inputs::<5>::new(groups.split(x)?);
    inputs.push(Some(groups.per_group(&statistics.mean)?));
    inputs.push(Some(groups.per_group(&statistics.inverse)?));
    for view in [params.weight, params.bias].into_iter().flatten() {
        inputs.push(Some(groups.per_channel(view)?));
    }
    let layout = groups.split_layout(y.layout())?;
    let space = groups.space();
    graphs::run(stream, &graph, &space[..groups.rank + 1], inputs.views(), &[], &mut [y.with_layout(layout)?])
}

/// Gradients of [`group_norm`].
///
/// # Shapes
/// `x`, `dy`: as `x` there, of one type; gradients apart from all that is read.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store.
/// # Errors
/// As [`group_norm`], also for a gradient of what is not there.
pub fn group_norm_backward(
    stream: &Stream,
    x: View<'_>,
    params: &GroupNormParams<'_>,
    dy: View<'_>,
    gradients: GroupNormGradients<'_>,
) -> Result<()> {
    const OP: &str = "group_norm_backward";
    let groups = Groups::new(OP, stream, &x, params)?;
    family::on_device(OP, "dy", stream, &dy)?;
    family::same_dtype(OP, "dy", &dy, x.dtype())?;
    same_shape(OP, "dy", &dy, x.shape())?;
    let outputs = [
        ("gradients.x", Some(&gradients.x), Some(x)),
        ("gradients.weight", gradients.weight.as_ref(), params.weight),
        ("gradients.bias", gradients.bias.as_ref(), params.bias),
    ];
    check_gradients(OP, stream, &outputs, &[Some(x), Some(dy), params.weight, params.bias])?;
    let statistics = groups.statistics(stream, x, params.epsilon)?;
    // Of each channel: the sums of dy, and of dy times what x became.
    let (mut x_copy, mut dy_copy) = (None, None);
    let [batch, channels] = [groups.batch, groups.channels];
    let flat = [batch, groups.groups, channels / groups.groups, groups.spatial];
    let x_flat = reshaped(stream, x, &flat, &mut x_copy)?;
    let dy_flat = reshaped(stream, dy, &flat, &mut dy_copy)?;
    let wide = wide(x.dtype());
    let per_channel = || Tensor::empty(x.device(), &[batch, channels], wide);
    let (mut sums, mut products) = (per_channel()?, per_channel()?);
    let per_group = Layout::contiguous(&[batch, groups.groups, 1, 1])?;
    let (mean, inverse) = (&statistics.mean, &statistics.inverse);
    let mean_flat = mean.view().with_layout(per_group)?;
    let inverse_flat = inverse.view().with_layout(per_group)?;
    static SUMS: Graphs<DType> = Graphs::new();
    let graph = SUMS.get(x.dtype(), sums_graph);
    let by_group = |layout: &Layout| layout.reshape(&flat[..3]).expect("a fresh tensor is contiguous");
    {
        let (sums_layout, products_layout) = (by_group(sums.layout()), by_group(products.layout()));
        let outputs =
            &mut [sums.view_mut().with_layout(sums_layout)?, products.view_mut().with_layout(products_layout)?];
        graphs::run(stream, &graph, &flat, &[x_flat, dy_flat, mean_flat, inverse_flat], &[], outputs)?;
    }
    // Of each group: their means with the weights.
    let mut levels = Tensor::empty(x.device(), &[batch, groups.groups], wide)?;
    let mut along = Tensor::empty(x.device(), &[batch, groups.groups], wide)?;
    let weight_dtype = params.weight.map(|view| view.dtype());
    static MEANS: Graphs<(DType, Option<DType>)> = Graphs::new();
    let graph = MEANS.get((wide, weight_dtype), means_graph);
    let sums_view = sums.view().with_layout(by_group(sums.layout()))?;
    let products_view = products.view().with_layout(by_group(products.layout()))?;
    let mut inputs = Inputs::<3>::new(sums_view);
    inputs.push(Some(products_view));
    if let Some(weight) = params.weight {
        inputs.push(Some(weight.with_layout(weight.layout().reshape(&flat[1..3]).expect("a split of one axis"))?));
    }
    let share = [Scalar::Float(1.0 / groups.spatial as f64)];
    let outputs = &mut [levels.view_mut(), along.view_mut()];
    graphs::run(stream, &graph, &flat[..3], inputs.views(), &share, outputs)?;
    // dx, element by element.
    static APPLY: Graphs<(DType, Option<DType>)> = Graphs::new();
    let graph = APPLY.get((x.dtype(), weight_dtype), gradient_graph);
    let mut inputs = Inputs::<7>::new(groups.split(x)?);
    inputs.push(Some(groups.split(dy)?));
    for tensor in [mean, inverse, &levels, &along] {
        inputs.push(Some(groups.per_group(tensor)?));
    }
    if let Some(weight) = params.weight {
        inputs.push(Some(groups.per_channel(weight)?));
    }
    let GroupNormGradients { x: dx, weight: d_weight, bias: d_bias } = gradients;
    let layout = groups.split_layout(dx.layout())?;
    let space = groups.space();
    graphs::run(stream, &graph, &space[..groups.rank + 1], inputs.views(), &[], &mut [dx.with_layout(layout)?])?;
    if let Some(d_weight) = d_weight {
        sum_parts(stream, &products, d_weight)?;
    }
    if let Some(d_bias) = d_bias {
        sum_parts(stream, &sums, d_bias)?;
    }
    Ok(())
}

/// Checked extents.
struct Groups {
    batch: usize,
    channels: usize,
    groups: usize,
    spatial: usize,
    rank: usize,
    /// The shape of `x`.
    shape: [usize; MAX_RANK],
}

/// Mean and inverse deviation of each group, `[batch, groups, 1]`.
struct Statistics {
    mean: Tensor,
    inverse: Tensor,
}

impl Groups {
    fn new(op: &'static str, stream: &Stream, x: &View<'_>, params: &GroupNormParams<'_>) -> Result<Groups> {
        float(op, "x", stream, x)?;
        let &[batch, channels, ref rest @ ..] = x.shape() else {
            return Err(shape(op, "x", "[batch, channels, ..]", format!("{:?}", x.shape())));
        };
        let rank = x.shape().len();
        if rank + 1 > MAX_RANK {
            return Err(shape(op, "x", format!("at most {} axes", MAX_RANK - 1), rank));
        }
        let groups = params.groups;
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(shape(op, "params.groups", format!("a divisor of {channels} channels"), groups));
        }
        if params.epsilon.is_nan() || params.epsilon < 0.0 {
            return Err(shape(op, "params.epsilon", "a number that is not negative", params.epsilon));
        }
        for (arg, view) in [("weight", &params.weight), ("bias", &params.bias)] {
            if let Some(view) = view {
                float(op, arg, stream, view)?;
                same_shape(op, arg, view, &[channels])?;
            }
        }
        let mut extents = [1; MAX_RANK];
        extents[..rank].copy_from_slice(x.shape());
        Ok(Groups { batch, channels, groups, spatial: rest.iter().product(), rank, shape: extents })
    }

    /// The shape of `x` with channels as groups and channels of a group; one axis more than `x` has.
    fn space(&self) -> [usize; MAX_RANK] {
        let mut space = [1; MAX_RANK];
        space[0] = self.batch;
        space[1] = self.groups;
        space[2] = self.channels / self.groups;
        space[3..self.rank + 1].copy_from_slice(&self.shape[2..self.rank]);
        space
    }

    fn split_layout(&self, layout: &Layout) -> Result<Layout> {
        let space = self.space();
        let split = layout.reshape(&space[..self.rank + 1]);
        split.ok_or_else(|| shape("group_norm", "x", "an axis of channels", format!("{:?}", layout.shape())))
    }

    fn split<'a>(&self, view: View<'a>) -> Result<View<'a>> {
        Ok(view.with_layout(self.split_layout(view.layout())?)?)
    }

    /// `[batch, groups, 1 ..]` of what has an element per group.
    fn per_group<'a>(&self, tensor: &'a Tensor) -> Result<View<'a>> {
        let mut space = [1; MAX_RANK];
        (space[0], space[1]) = (self.batch, self.groups);
        let layout = tensor.layout().reshape(&space[..self.rank + 1]).expect("a fresh tensor is contiguous");
        Ok(tensor.view().with_layout(layout)?)
    }

    /// `[1, groups, channels of a group, 1 ..]` of what has an element per channel.
    fn per_channel<'a>(&self, view: View<'a>) -> Result<View<'a>> {
        let mut space = [1; MAX_RANK];
        (space[1], space[2]) = (self.groups, self.channels / self.groups);
        let layout = view.layout().reshape(&space[..self.rank + 1]).expect("a split of one axis");
        Ok(view.with_layout(layout)?)
    }

    fn statistics(&self, stream: &Stream, x: View<'_>, epsilon: f64) -> Result<Statistics> {
        let rows = [self.batch, self.groups, self.channels / self.groups * self.spatial];
        let mut copy = None;
        let x = reshaped(stream, x, &rows, &mut copy)?;
        let tensor = || Tensor::empty(x.device(), &[self.batch, self.groups, 1], wide(x.dtype()));
        let (mut mean, mut inverse) = (tensor()?, tensor()?);
        static GRAPHS: Graphs<DType> = Graphs::new();
        let graph = GRAPHS.get(x.dtype(), |dtype| {
            let make = Maker::new("group_norm_statistics", wide(dtype));
            let normal = Normal::new(NormKind::Layer, make.input(dtype), make.scalar());
            make.draft.output(normal.mean.expect("LayerNorm has a mean"));
            make.draft.output(normal.inverse);
            make.finish()
        });
        let outputs = &mut [mean.view_mut(), inverse.view_mut()];
        graphs::run(stream, &graph, &rows, &[x], &[Scalar::Float(epsilon)], outputs)?;
        Ok(Statistics { mean, inverse })
    }
}

/// What varies in the graph that applies the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ApplyKey {
    x: DType,
    weight: Option<DType>,
    bias: Option<DType>,
}

fn apply_graph(key: ApplyKey) -> Graph {
    let make = Maker::new("group_norm", wide(key.x));
    let x = make.input(key.x);
    let [mean, inverse] = [(); 2].map(|()| make.input(wide(key.x)));
    let mut y = (x - mean) * inverse;
    y = key.weight.map_or(y, |dtype| y * make.input(dtype));
    y = key.bias.map_or(y, |dtype| y + make.input(dtype));
    make.output(y, key.x);
    make.finish()
}

/// Of each channel: the sum of `dy`, and that of `dy · n`.
fn sums_graph(dtype: DType) -> Graph {
    let make = Maker::new("group_norm_sums", wide(dtype));
    let [x, dy] = [(); 2].map(|()| make.input(dtype));
    let [mean, inverse] = [(); 2].map(|()| make.input(wide(dtype)));
    let product = dy * ((x - mean) * inverse);
    [dy, product].into_iter().for_each(|value| make.draft.output(value.reduce(Reduce::Sum)));
    make.finish()
}

/// Of each group: the means of `g` and `g · n` over all its elements, from the channels' sums and the share of an element.
fn means_graph((wide, weight): (DType, Option<DType>)) -> Graph {
    let make = Maker::new("group_norm_means", wide);
    let sums = [(); 2].map(|()| make.input(wide));
    let weight = weight.map(|dtype| make.input(dtype));
    let share = make.scalar();
    for sum in sums {
        let weighted = weight.map_or(sum, |weight| sum * weight);
        make.draft.output(weighted.reduce(Reduce::Mean) * share);
    }
    make.finish()
}

/// `dx = inverse · (dy · weight - level - n · along)`.
fn gradient_graph((dtype, weight): (DType, Option<DType>)) -> Graph {
    let make = Maker::new("group_norm_gradient", wide(dtype));
    let [x, dy] = [(); 2].map(|()| make.input(dtype));
    let [mean, inverse, level, along] = [(); 4].map(|()| make.input(wide(dtype)));
    let weight = weight.map(|dtype| make.input(dtype));
    let g = weight.map_or(dy, |weight| dy * weight);
    let back = (x - mean) * inverse * along;
    make.output((g - level - back) * inverse, dtype);
    make.finish()
}
