//! Deformable convolution: each element of a kernel looks at a place of its own, between the pixels.
//!
//! The places are computed by elementwise chains, the four pixels around each are gathered, and the weighted samples are
//! the columns of a matrix product. The gradient goes the same way back and adds into the pixels with `scatter_add`, which
//! keeps a fixed order. See arXiv:1811.11168 for the operator. Memory: the samples four times over.

use burn_backend::ops::DeformConvOptions;
use burn_std::IndexingUpdateOp;
use rocfire_fusion::{Binary, Compare, Reduce, Scalar, Term, Unary, eager};
use rocfire_hal::{DType, Error as HalError, Tensor};

use crate::error::Result;
use crate::ops::{fused, index, matmul, memory, reduce, view};

/// The arguments of the operator.
pub(crate) struct Deform<'a> {
    /// `[batch, channels_in, height, width]`.
    pub(crate) x: &'a Tensor,
    /// `[batch, offset_groups · kernel · 2, out_h, out_w]`: down, then right, for each element of the kernel.
    pub(crate) offset: &'a Tensor,
    /// `[channels_out, channels_in / weight_groups, kernel_h, kernel_w]`.
    pub(crate) weight: &'a Tensor,
    /// `[batch, offset_groups · kernel, out_h, out_w]`.
    pub(crate) mask: Option<&'a Tensor>,
    /// The rest.
    pub(crate) options: &'a DeformConvOptions<2>,
}

/// The gradients, in the order of the arguments.
pub(crate) struct Gradients {
    pub(crate) x: Tensor,
    pub(crate) offset: Tensor,
    pub(crate) weight: Tensor,
    pub(crate) mask: Option<Tensor>,
}

/// One of the four pixels around every place.
struct Corner {
    /// The pixel's number in its image, i32, `[batch, groups, 1, kernel · positions]`; 0 where it is outside.
    number: Tensor,
    /// How much of the sample it is; 0 where it is outside.
    share: Tensor,
    /// The derivative of `share` by the place, down and right.
    slopes: [Tensor; 2],
}

impl Deform<'_> {
    fn batch(&self) -> usize {
        self.x.shape()[0]
    }

    fn kernel(&self) -> usize {
        self.weight.shape()[2] * self.weight.shape()[3]
    }

    fn positions(&self) -> usize {
        self.offset.shape()[2] * self.offset.shape()[3]
    }

    fn channels_per_offset_group(&self) -> usize {
        self.x.shape()[1] / self.options.offset_groups
    }

    /// `[batch, offset_groups, channels / offset_groups, kernel · positions]`.
    fn sample_shape(&self) -> [usize; 4] {
        let columns = self.kernel() * self.positions();
        [self.batch(), self.options.offset_groups, self.channels_per_offset_group(), columns]
    }

    fn check(&self) -> Result<()> {
        let [channels, groups] = [self.x.shape().get(1).copied().unwrap_or(0), self.options.weight_groups];
        let fits = [self.x, self.offset, self.weight].iter().all(|tensor| tensor.shape().len() == 4)
            && self.weight.shape()[1] * groups == channels
            && channels.is_multiple_of(self.options.offset_groups)
            && self.offset.shape()[1] == self.options.offset_groups * self.kernel() * 2;
        if fits {
            return Ok(());
        }
        let got = format!("{:?} with offsets {:?}", self.x.shape(), self.offset.shape());
        Err(HalError::shape("deform_conv2d", "x", format!("one for a weight of {:?}", self.weight.shape()), got).into())
    }

    /// The place of every sample along one axis (0: down, 1: right), `[batch, groups, 1, kernel · positions]`.
    fn places(&self, axis: usize) -> Result<Tensor> {
        let dtype = self.x.dtype();
        let (kernel, positions) = (self.kernel(), self.positions());
        let shape = [self.batch(), self.options.offset_groups, kernel, 2, positions];
        let moved = view::narrow(&view::reshape(self.offset, &shape)?, 3, axis, 1)?;
        let moved = view::reshape(&moved, &[self.batch(), self.options.offset_groups, kernel, positions])?;
        let (kernel_width, out_width) = (self.weight.shape()[3], self.offset.shape()[3]);
        let split = |number: usize, width: usize| if axis == 0 { number / width } else { number % width };
        let (stride, dilation) = (self.options.stride[axis], self.options.dilation[axis]);
        let padding = self.options.padding[axis] as f64;
        let elements: Vec<f64> = (0..kernel).map(|k| (split(k, kernel_width) * dilation) as f64 - padding).collect();
        let starts: Vec<f64> = (0..positions).map(|o| (split(o, out_width) * stride) as f64).collect();
        let device = self.x.device();
        let elements = memory::cast(&memory::table(device, &[kernel, 1], DType::F64, &elements)?, dtype)?;
        let starts = memory::cast(&memory::table(device, &[1, positions], DType::F64, &starts)?, dtype)?;
        let grid = eager::binary(Binary::Add, &elements, &starts)?;
        let places = eager::binary(Binary::Add, &moved, &grid)?;
        view::reshape(&places, &[self.batch(), self.options.offset_groups, 1, kernel * positions])
    }

    fn corners(&self) -> Result<Vec<Corner>> {
        let (down, right) = (self.places(0)?, self.places(1)?);
        let mut corners = Vec::with_capacity(4);
        for (low, left) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            corners.push(self.corner(&down, &right, low, left)?);
        }
        Ok(corners)
    }

    /// The pixel `low` rows below and `left` columns right of the one above and left of each place.
    fn corner(&self, down: &Tensor, right: &Tensor, low: i64, left: i64) -> Result<Corner> {
        let dtype = down.dtype();
        let (height, width) = (self.x.shape()[2] as u64, self.x.shape()[3] as u64);
        let scalars = [Scalar::Uint(height), Scalar::Uint(width), Scalar::Int(low), Scalar::Int(left)];
        let launch = |name, to, which: usize| {
            let graph = fused::graph(name, &[dtype], |g| {
                let (down, right) = (g.input(dtype), g.input(dtype));
                let extents = [g.scalar(dtype), g.scalar(dtype)];
                let steps = [g.scalar(dtype), g.scalar(dtype)];
                let [row, row_inside, row_share, row_slope] = along(down, extents[0], steps[0]);
                let [column, column_inside, column_share, column_slope] = along(right, extents[1], steps[1]);
                let inside = row_inside & column_inside;
                let value = match which {
                    0 => {
                        // 16-bit floats do not hold the number of a pixel.
                        let [row, column, width] = [row, column, extents[1]].map(|part| part.cast(DType::I32));
                        row * width + column
                    }
                    1 => row_share * column_share,
                    2 => row_slope * column_share,
                    _ => row_share * column_slope,
                };
                inside.choose(value, value.number(0_i64))
            });
            fused::elementwise(&graph, &[down, right], &scalars, to)
        };
        Ok(Corner {
            number: launch("deform_number", DType::I32, 0)?,
            share: launch("deform_share", dtype, 1)?,
            slopes: [launch("deform_slope_down", dtype, 2)?, launch("deform_slope_right", dtype, 3)?],
        })
    }

    /// The pixel of a corner, in every channel of its group.
    fn pixels(&self, corner: &Corner) -> Result<Tensor> {
        let pixels = self.x.shape()[2] * self.x.shape()[3];
        let [batch, groups, channels, _] = self.sample_shape();
        let images = view::reshape(self.x, &[batch, groups, channels, pixels])?;
        index::gather(&images, 3, &view::expand(&corner.number, &self.sample_shape())?)
    }

    /// The samples without the mask, `[batch, offset_groups, channels, kernel · positions]`: the pixels around each place by what
    /// `factor` says of each corner.
    fn samples(&self, corners: &[Corner], factor: impl Fn(&Corner) -> &Tensor) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for corner in corners {
            let part = eager::binary(Binary::Mul, &self.pixels(corner)?, factor(corner))?;
            sum = Some(match sum {
                Some(sum) => eager::binary(Binary::Add, &sum, &part)?,
                None => part,
            });
        }
        Ok(sum.expect("a place has four corners"))
    }

    fn masked(&self, samples: &Tensor) -> Result<Tensor> {
        let Some(mask) = self.mask else { return Ok(samples.clone()) };
        let [batch, groups, _, columns] = self.sample_shape();
        Ok(eager::binary(Binary::Mul, samples, &view::reshape(mask, &[batch, groups, 1, columns])?)?)
    }

    /// Samples as the columns of the product: `[batch, weight_groups, channels / weight_groups · kernel, positions]`.
    fn columns(&self, samples: &Tensor) -> Result<Tensor> {
        let depth = self.weight.shape()[1] * self.kernel();
        view::reshape(samples, &[self.batch(), self.options.weight_groups, depth, self.positions()])
    }

    /// The weight as `[batch, weight_groups, channels_out / weight_groups, channels / weight_groups · kernel]`.
    fn rows(&self) -> Result<Tensor> {
        let groups = self.options.weight_groups;
        let per_group = self.weight.shape()[0] / groups;
        let depth = self.weight.shape()[1] * self.kernel();
        let rows = view::reshape(self.weight, &[1, groups, per_group, depth])?;
        view::expand(&rows, &[self.batch(), groups, per_group, depth])
    }

    /// The operator: `[batch, channels_out, out_h, out_w]`, without the bias.
    pub(crate) fn forward(&self) -> Result<Tensor> {
        self.check()?;
        let samples = self.masked(&self.samples(&self.corners()?, |corner| &corner.share)?)?;
        let y = matmul::matmul(&self.rows()?, &self.columns(&samples)?)?;
        let [out_height, out_width] = [self.offset.shape()[2], self.offset.shape()[3]];
        view::reshape(&y, &[self.batch(), self.weight.shape()[0], out_height, out_width])
    }

    /// The gradients for the gradient of the output.
    pub(crate) fn backward(&self, grad: &Tensor) -> Result<Gradients> {
        self.check()?;
        let corners = self.corners()?;
        let samples = self.samples(&corners, |corner| &corner.share)?;
        let groups = self.options.weight_groups;
        let per_group = self.weight.shape()[0] / groups;
        let grad = view::reshape(grad, &[self.batch(), groups, per_group, self.positions()])?;

        let columns = self.columns(&self.masked(&samples)?)?;
        let per_batch = matmul::matmul(&grad, &view::swap(&columns, 2, 3)?)?;
        let weight = view::reshape(&reduce::axis(Reduce::Sum, &per_batch, 0)?, self.weight.shape())?;

        let column_grad = matmul::matmul(&view::swap(&self.rows()?, 2, 3)?, &grad)?;
        let sample_grad = view::reshape(&column_grad, &self.sample_shape())?;
        let mask = match self.mask {
            Some(mask) => {
                let product = eager::binary(Binary::Mul, &sample_grad, &samples)?;
                Some(view::reshape(&reduce::axis(Reduce::Sum, &product, 2)?, mask.shape())?)
            }
            None => None,
        };
        let sample_grad = self.masked(&sample_grad)?;
        Ok(Gradients {
            x: self.image_gradient(&corners, &sample_grad)?,
            offset: self.offset_gradient(&corners, &sample_grad)?,
            weight,
            mask,
        })
    }

    fn image_gradient(&self, corners: &[Corner], sample_grad: &Tensor) -> Result<Tensor> {
        let [batch, groups, channels, _] = self.sample_shape();
        let pixels = self.x.shape()[2] * self.x.shape()[3];
        let mut grad =
            memory::full(self.x.device(), &[batch, groups, channels, pixels], self.x.dtype(), Scalar::Int(0))?;
        for corner in corners {
            let share = eager::binary(Binary::Mul, sample_grad, &corner.share)?;
            let numbers = view::expand(&corner.number, &self.sample_shape())?;
            grad = index::scatter(grad, 3, &numbers, &share, IndexingUpdateOp::Add)?;
        }
        view::reshape(&grad, self.x.shape())
    }

    fn offset_gradient(&self, corners: &[Corner], sample_grad: &Tensor) -> Result<Tensor> {
        let [batch, groups, ..] = self.sample_shape();
        let shape = [batch, groups, self.kernel(), 1, self.positions()];
        let mut directions = Vec::with_capacity(2);
        for direction in 0..2 {
            let slope = self.samples(corners, |corner| &corner.slopes[direction])?;
            let product = eager::binary(Binary::Mul, &slope, sample_grad)?;
            directions.push(view::reshape(&reduce::axis(Reduce::Sum, &product, 2)?, &shape)?);
        }
        view::reshape(&memory::cat(&directions.iter().collect::<Vec<_>>(), 3)?, self.offset.shape())
    }
}

/// Along an axis: the pixel, whether it is inside, its share, and the share's derivative by the place.
fn along<'g>(place: Term<'g>, extent: Term<'g>, step: Term<'g>) -> [Term<'g>; 4] {
    let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|number| step.number(number));
    let base = place.unary(Unary::Floor);
    let pixel = base + step;
    let between = |x: Term<'g>, least| least & x.is(Compare::Lt, extent);
    // A place beyond the outermost pixels by one or more has no sample at all.
    let inside = between(pixel, pixel.is(Compare::Ge, zero)) & between(place, place.is(Compare::Gt, minus_one));
    let (fraction, second) = (place - base, step.is(Compare::Ne, zero));
    [pixel, inside, second.choose(fraction, one - fraction), second.choose(one, minus_one)]
}
