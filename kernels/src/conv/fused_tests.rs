//! A convolution with its epilogue against the convolution and then the graph: the same bits.

use rocfire_fusion::{Binary, Draft, Epilogue, Graph, Scalar, Unary};
use rocfire_hal::{DType, Device, Tensor};

use super::{ConvParams, conv, conv_fused, conv_output_shape};
use crate::testing::{Lie, Numbers, device, device_without_matrix_unit, tensor};

/// A batch normalisation by known statistics, a residual, an activation; the normalised value itself in a wider type.
fn chain(dtype: DType) -> Graph {
    Draft::several("Convolution", |g| {
        let y = g.input(dtype);
        let [mean, variance, gamma, beta, residual] = std::array::from_fn(|_| g.input(dtype));
        let deviation = (variance + g.scalar(dtype)).unary(Unary::Sqrt);
        let shifted = (y - mean) / deviation * gamma + beta;
        [(shifted + residual).binary(Binary::Max, y.number(0)), shifted.cast(DType::F64)]
    })
}

fn contiguous(from: &Tensor) -> Tensor {
    let mut to = Tensor::empty(from.device(), from.shape(), from.dtype()).unwrap();
    rocfire_fusion::eager::copy_into(from.view(), to.view_mut()).unwrap();
    to
}

#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    x: &'a [usize],
    weight: &'a [usize],
    params: ConvParams<'a>,
    bias: bool,
    /// Of the residual and of `x`.
    lie: Lie,
    /// Whether what is fused has its channels innermost, `x`, residual and results.
    last: bool,
}

/// A copy whose channels are innermost.
fn channels_last(from: &Tensor) -> Tensor {
    let mut to = empty_last(from.device(), from.shape(), from.dtype());
    rocfire_fusion::eager::copy_into(from.view(), to.view_mut()).unwrap();
    to
}

fn empty_last(device: &Device, shape: &[usize], dtype: DType) -> Tensor {
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    axes[1..].rotate_left(1);
    let last: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
    let whole = Tensor::empty(device, &last, dtype).unwrap();
    axes = (0..shape.len()).collect();
    axes[1..].rotate_right(1);
    let layout = whole.layout().permute(&axes).unwrap();
    whole.with_layout(layout).unwrap()
}

impl Case<'_> {
    fn check(&self, device: &Device, dtype: DType) {
        let stream = device.stream();
        let mut numbers = Numbers::new(7);
        let mut make = |shape: &[usize], lie| {
            // Not so round that sums were exact in any order.
            let values = numbers.values(shape.iter().product(), dtype);
            let values: Vec<f64> = values.iter().map(|value| value * 1.1).collect();
            tensor(device, shape, dtype, &values, lie)
        };
        let shape = conv_output_shape("conv", self.x, self.weight, &self.params).unwrap();
        let mut per_channel = vec![1; shape.len() - 1];
        per_channel[0] = self.weight[0];
        let (x, weight) = (make(self.x, self.lie), make(self.weight, Lie::Plain));
        let bias = self.bias.then(|| make(&self.weight[..1], Lie::Plain));
        let [mean, gamma, beta] = std::array::from_fn(|_| make(&per_channel, Lie::Plain));
        let positive: Vec<f64> = (0..self.weight[0]).map(|n| 0.5 + n as f64 / 16.0).collect();
        let variance = tensor(device, &per_channel, dtype, &positive, Lie::Plain);
        let residual = make(&shape, self.lie);
        let inputs = [&mean, &variance, &gamma, &beta, &residual].map(|tensor| tensor.view());
        let (graph, scalars) = (chain(dtype), [Scalar::Float(1e-3)]);
        let outputs = || [dtype, DType::F64].map(|dtype| Tensor::empty(device, &shape, dtype).unwrap());

        let (mut y, mut apart) = (Tensor::empty(device, &shape, dtype).unwrap(), outputs());
        let own = bias.as_ref().map(Tensor::view);
        conv(stream, x.view(), weight.view(), own, y.view_mut(), &self.params).unwrap();
        let mut all = vec![y.view()];
        all.extend(inputs);
        let mut views: Vec<_> = apart.iter_mut().map(Tensor::view_mut).collect();
        rocfire_fusion::run(stream, &graph, &shape, &all, &scalars, &mut views).unwrap();

        let (x, residual, mut fused) = match self.last {
            false => (x, residual, outputs()),
            true => {
                let fused = [dtype, DType::F64].map(|dtype| empty_last(device, &shape, dtype));
                (channels_last(&x), channels_last(&residual), fused)
            }
        };
        let inputs = [&mean, &variance, &gamma, &beta, &residual].map(|tensor| tensor.view());
        let views: Vec<_> = fused.iter_mut().map(Tensor::view_mut).collect();
        let epilogue = Epilogue::new(&graph, &shape, &inputs, &scalars, &views).unwrap();
        conv_fused(stream, x.view(), weight.view(), own, &epilogue, &self.params).unwrap();
        drop(views);
        for (slot, (fused, apart)) in fused.iter().zip(&apart).enumerate() {
            let fused = if self.last { contiguous(fused) } else { fused.clone() };
            assert!(fused.to_bytes().unwrap() == apart.to_bytes().unwrap(), "{self:?} {dtype}, output {slot}");
        }
        if self.last {
            let mut bare = empty_last(device, &shape, dtype);
            conv(stream, x.view(), weight.view(), own, bare.view_mut(), &self.params).unwrap();
            assert!(contiguous(&bare).to_bytes().unwrap() == y.to_bytes().unwrap(), "{self:?} {dtype}, by itself");
        }
    }
}

const PLAIN: ConvParams<'_> = ConvParams { stride: &[1, 1], padding: &[(0, 0); 2], dilation: &[1, 1], groups: 1 };
const STRIDED: ConvParams<'_> = ConvParams { stride: &[2, 2], padding: &[(1, 1); 2], dilation: &[1, 1], groups: 1 };

fn case<'a>(x: &'a [usize], weight: &'a [usize], params: ConvParams<'a>) -> Case<'a> {
    Case { x, weight, params, bias: false, lie: Lie::Plain, last: false }
}

#[test]
fn an_epilogue_gives_the_bits_of_its_graph() {
    let device = device();
    let first = case(&[2, 6, 19, 17], &[35, 6, 3, 3], STRIDED);
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        first.check(&device, dtype);
    }
    Case { bias: true, lie: Lie::Swapped, ..first }.check(&device, DType::F32);
    first.check(&device_without_matrix_unit(), DType::F32);
    // More images, channels and places than tiles; channels in groups.
    let grouped = ConvParams { groups: 2, ..STRIDED };
    case(&[3, 16, 33, 31], &[140, 8, 3, 3], grouped).check(&device, DType::F16);
}

#[test]
fn an_epilogue_runs_behind_tiles_of_vectors() {
    // So many places that the image is laid out for vectors of channels.
    let same = ConvParams { stride: &[1, 1], padding: &[(1, 1); 2], dilation: &[1, 1], groups: 1 };
    let large = case(&[1, 8, 67, 66], &[35, 8, 3, 3], same);
    large.check(&device(), DType::F16);
    Case { bias: true, ..large }.check(&device(), DType::F32);
}

#[test]
fn no_layout_changes_a_bit() {
    let same = ConvParams { padding: &[(1, 1); 2], ..PLAIN };
    let last = |x, weight, params| Case { last: true, ..case(x, weight, params) };
    let device = device();
    last(&[2, 64, 23, 23], &[136, 64, 1, 1], PLAIN).check(&device, DType::F16);
    Case { bias: true, ..last(&[1, 8, 33, 35], &[40, 8, 3, 3], same) }.check(&device, DType::BF16);
    // Few channels, filled up with zeros; images that are not merged into one axis of places.
    last(&[2, 3, 51, 49], &[64, 3, 5, 5], STRIDED).check(&device, DType::F16);
    // A sum that a product of matrices would cut.
    last(&[1, 1032, 33, 32], &[32, 1032, 1, 1], PLAIN).check(&device, DType::F16);
    // Groups, and too few places for vectors.
    let grouped = ConvParams { groups: 2, ..same };
    last(&[3, 32, 19, 19], &[80, 16, 3, 3], grouped).check(&device, DType::F16);
    last(&[1, 16, 9, 9], &[32, 16, 3, 3], same).check(&device, DType::F16);
    Case { lie: Lie::Swapped, ..last(&[1, 16, 33, 35], &[32, 16, 3, 3], same) }.check(&device, DType::F16);
}

#[test]
fn an_epilogue_runs_along_one_and_three_axes() {
    let device = device();
    let line = ConvParams { stride: &[2], padding: &[(1, 2)], dilation: &[2], groups: 1 };
    case(&[3, 5, 41], &[9, 5, 3], line).check(&device, DType::F32);
    let solid = ConvParams { stride: &[1, 2, 1], padding: &[(1, 1); 3], dilation: &[1; 3], groups: 1 };
    case(&[2, 3, 5, 6, 7], &[5, 3, 3, 2, 3], solid).check(&device, DType::F32);
}

#[test]
fn an_epilogue_runs_behind_small_groups() {
    let device = device();
    let groups = ConvParams { groups: 12, ..STRIDED };
    case(&[2, 12, 9, 11], &[12, 1, 3, 3], groups).check(&device, DType::F16);
    Case { bias: true, ..case(&[2, 12, 9, 11], &[24, 1, 3, 3], groups) }.check(&device, DType::F32);
}

#[test]
fn an_epilogue_runs_behind_the_product_of_single_elements() {
    let device = device();
    let plain = case(&[2, 16, 7, 5], &[24, 16, 1, 1], PLAIN);
    plain.check(&device, DType::BF16);
    Case { bias: true, ..plain }.check(&device, DType::F32);
    // Places that are no one axis: the convolution's own kernel.
    Case { lie: Lie::Swapped, ..plain }.check(&device, DType::F32);
    case(&[2, 16, 7, 5], &[24, 8, 1, 1], ConvParams { groups: 2, ..PLAIN }).check(&device, DType::F32);
}

#[test]
fn an_epilogue_of_another_shape_or_type_is_refused() {
    let device = device();
    let stream = device.stream();
    let make = |shape: &[usize], dtype| Tensor::empty(&device, shape, dtype).unwrap();
    let (x, weight) = (make(&[1, 3, 8, 8], DType::F32), make(&[4, 3, 3, 3], DType::F32));
    let refuse = |shape: &[usize], dtype: DType, part: &str| {
        let graph = Draft::graph("Convolution", |g| -g.input(dtype));
        let mut y = make(shape, dtype);
        let outputs = [y.view_mut()];
        let epilogue = Epilogue::new(&graph, shape, &[], &[], &outputs).unwrap();
        let error = conv_fused(stream, x.view(), weight.view(), None, &epilogue, &STRIDED).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refuse(&[1, 4, 8, 8], DType::F32, "[1, 4, 4, 4]");
    refuse(&[1, 4, 4, 4], DType::F16, "x must be f16");
}
