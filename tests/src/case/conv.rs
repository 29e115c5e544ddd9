//! Convolutions and their gradients: every number of axes, strides, dilations, uneven padding, groups, layouts, tiles.

use rocfire_fusion::{Binary, Draft, Epilogue, Graph};
use rocfire_hal::{DType, MAX_RANK, Stream, Tensor, ViewMut};
use rocfire_kernels::conv::{
    ConvParams, conv, conv_fused, conv_input_gradient, conv_output_shape, conv_weight_gradient,
};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement, unravel};

/// What is convolved with what, and how.
#[derive(Clone)]
struct Shape {
    /// Batch, channels, spatial extents.
    x: Vec<usize>,
    channels_out: usize,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<(usize, usize)>,
    dilation: Vec<usize>,
    groups: usize,
}

/// One of the operators.
#[derive(Clone, Copy)]
enum Operator {
    Forward {
        bias: bool,
    },
    /// With a shift of each channel and the activation `max(·, 0)` in its epilogue.
    Fused,
    /// The same into a result with its channels innermost.
    FusedLast,
    Input,
    /// The same into a result with its channels innermost.
    InputLast,
    Weight,
}

impl Shape {
    fn new(x: &[usize], channels_out: usize, kernel: &[usize]) -> Shape {
        let axes = kernel.len();
        Shape {
            x: x.to_vec(),
            channels_out,
            kernel: kernel.to_vec(),
            stride: vec![1; axes],
            padding: vec![(0, 0); axes],
            dilation: vec![1; axes],
            groups: 1,
        }
    }

    fn stride(mut self, stride: &[usize]) -> Shape {
        self.stride = stride.to_vec();
        self
    }

    fn padding(mut self, padding: &[(usize, usize)]) -> Shape {
        self.padding = padding.to_vec();
        self
    }

    fn dilation(mut self, dilation: &[usize]) -> Shape {
        self.dilation = dilation.to_vec();
        self
    }

    fn groups(mut self, groups: usize) -> Shape {
        self.groups = groups;
        self
    }

    fn params(&self) -> ConvParams<'_> {
        ConvParams { stride: &self.stride, padding: &self.padding, dilation: &self.dilation, groups: self.groups }
    }

    fn weight(&self) -> Vec<usize> {
        let mut weight = vec![self.channels_out, self.x[1] / self.groups];
        weight.extend(&self.kernel);
        weight
    }

    fn y(&self) -> Vec<usize> {
        conv_output_shape("conv", &self.x, &self.weight(), &self.params()).expect("the shapes of a case fit")
    }

    /// Tells `each` every product of the convolution: the numbers of the elements of `y`, `x` and the weight.
    fn products(&self, mut each: impl FnMut(usize, usize, usize)) {
        let (y, weight) = (self.y(), self.weight());
        let (per_group, rank) = (self.channels_out / self.groups, y.len());
        let (mut at, mut tap) = (vec![0; rank], vec![0; rank - 1]);
        for number in 0..y.iter().product() {
            unravel(number, &y, &mut at);
            for n in 0..weight[1..].iter().product() {
                unravel(n, &weight[1..], &mut tap);
                let mut from = at[0] * self.x[1] + at[1] / per_group.max(1) * weight[1] + tap[0];
                let mut inside = true;
                for axis in 0..self.kernel.len() {
                    let place = at[2 + axis] * self.stride[axis] + tap[1 + axis] * self.dilation[axis];
                    let coordinate = place.wrapping_sub(self.padding[axis].0);
                    inside &= coordinate < self.x[2 + axis];
                    from = from * self.x[2 + axis] + coordinate.min(self.x[2 + axis]);
                }
                if inside {
                    each(number, from, at[1] * weight[1..].iter().product::<usize>() + n);
                }
            }
        }
    }

    /// How many elements of `y` are more than the bias: the windows of the others hold padding alone.
    fn sums(&self) -> usize {
        let y = self.y();
        let of_axis = |axis: usize| {
            let reaches = |at: &usize| {
                let first = at * self.stride[axis];
                let mut places = (0..self.kernel[axis]).map(|tap| first + tap * self.dilation[axis]);
                places.any(|place| place.wrapping_sub(self.padding[axis].0) < self.x[2 + axis])
            };
            (0..y[2 + axis]).filter(reaches).count()
        };
        y[0] * y[1] * (0..self.kernel.len()).map(of_axis).product::<usize>()
    }

    fn case(self, operator: Operator, dtype: DType, placement: [Placement; 2]) -> Case {
        let (x, weight, y) = (self.x.clone(), self.weight(), self.y());
        let (name, shapes, terms) = match operator {
            Operator::Forward { .. } => ("conv", [&x, &weight, &y], weight[1..].iter().product()),
            Operator::Fused | Operator::FusedLast => ("conv_fused", [&x, &weight, &y], weight[1..].iter().product()),
            Operator::Input | Operator::InputLast => {
                ("conv_input_gradient", [&y, &weight, &x], y[1] * weight[2..].iter().product::<usize>())
            }
            Operator::Weight => ("conv_weight_gradient", [&x, &y, &weight], y[0] * y[2..].iter().product::<usize>()),
        };
        let mut inputs = vec![
            (Array::random(shapes[0], dtype, 1), placement[0]),
            (Array::random(shapes[1], dtype, 2), placement[1]),
        ];
        let bias = matches!(operator, Operator::Forward { bias: true });
        if bias || matches!(operator, Operator::Fused | Operator::FusedLast) {
            inputs.push((Array::random(&[self.channels_out], dtype, 3), Placement::Contiguous));
        }
        let flops = 2.0 * (y.iter().product::<usize>() * weight[1..].iter().product::<usize>()) as f64;
        let is_last = matches!(operator, Operator::FusedLast | Operator::InputLast);
        let mut in_memory = shapes[2].clone();
        if is_last {
            in_memory[1..].rotate_left(1);
        }
        let outputs = vec![(in_memory, dtype)];
        let suffix = if is_last { " to channels innermost" } else { "" };
        let size = format!("{self} {placement:?}{}{suffix}", if bias { " bias" } else { "" });
        let numbers = match operator {
            Operator::Forward { .. } => self.sums(),
            // Half of them are held at 0.
            Operator::Fused | Operator::FusedLast => self.sums() / 2,
            Operator::Input | Operator::InputLast | Operator::Weight => shapes[2].iter().product(),
        };
        let for_oracle = self.clone();
        let ending = shift_and_hold(dtype);
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let (a, b, mut out) = (inputs[0].view(), inputs[1].view(), outputs[0].view_mut());
            if is_last {
                let rank = out.view().layout().rank();
                let mut axes: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
                axes[1..rank].rotate_right(1);
                let seen = out.view().layout().permute(&axes[..rank])?;
                out = out.with_layout(seen)?;
            }
            match operator {
                Operator::Forward { .. } => conv(stream, a, b, inputs.get(2).map(Tensor::view), out, &self.params())?,
                Operator::Fused | Operator::FusedLast => self.fused(stream, &ending, inputs, out)?,
                Operator::Input | Operator::InputLast => conv_input_gradient(stream, a, b, None, out, &self.params())?,
                Operator::Weight => conv_weight_gradient(stream, a, b, out, &self.params())?,
            }
            Ok(())
        };
        let oracle = move |inputs: &[Array]| vec![for_oracle.oracle(operator, inputs)];
        Case::new(name, dtype, size, flops, Call { inputs, outputs, launch, oracle })
            .summing(terms)
            .with_numbers(numbers)
    }

    fn fused(&self, stream: &Stream, ending: &Graph, inputs: &[Tensor], out: ViewMut<'_>) -> Result<(), Failure> {
        let mut per_channel = [1; MAX_RANK];
        per_channel[0] = self.channels_out;
        let per_channel = &per_channel[..=self.kernel.len()];
        let shift = inputs[2].layout().reshape(per_channel).expect("a vector has an axis of one element anywhere");
        let (shift, outputs) = ([inputs[2].view().with_layout(shift)?], [out]);
        let mut shape = [0; MAX_RANK];
        let rank = outputs[0].view().shape().len();
        shape[..rank].copy_from_slice(outputs[0].view().shape());
        let epilogue = Epilogue::new(ending, &shape[..rank], &shift, &[], &outputs)?;
        Ok(conv_fused(stream, inputs[0].view(), inputs[1].view(), None, &epilogue, &self.params())?)
    }

    /// Product after product in f64.
    fn oracle(&self, operator: Operator, inputs: &[Array]) -> Vec<f64> {
        let (a, b) = (&inputs[0].values, &inputs[1].values);
        let y = self.y();
        let places: usize = y[2..].iter().product();
        let mut out = match operator {
            Operator::Forward { .. } | Operator::Fused | Operator::FusedLast => {
                let bias = |number: usize| inputs.get(2).map_or(0.0, |bias| bias.values[number / places % y[1]]);
                (0..y.iter().product()).map(bias).collect()
            }
            Operator::Input | Operator::InputLast => vec![0.0; self.x.iter().product()],
            Operator::Weight => vec![0.0; self.weight().iter().product()],
        };
        self.products(|y, x, weight| match operator {
            Operator::Forward { .. } | Operator::Fused | Operator::FusedLast => out[y] += a[x] * b[weight],
            Operator::Input | Operator::InputLast => out[x] += a[y] * b[weight],
            Operator::Weight => out[weight] += a[x] * b[y],
        });
        if matches!(operator, Operator::Fused | Operator::FusedLast) {
            out.iter_mut().for_each(|value| *value = value.max(0.0));
        }
        if matches!(operator, Operator::FusedLast | Operator::InputLast) {
            let of = if matches!(operator, Operator::FusedLast) { &y } else { &self.x };
            let (channels, places) = (of[1], of[2..].iter().product::<usize>());
            let place = |number: usize| {
                number / channels / places * channels * places + number % channels * places + number / channels % places
            };
            out = (0..out.len()).map(|number| out[place(number)]).collect();
        }
        out
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |shape: &[usize]| shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        write!(f, "{} * {}", name(&self.x), name(&self.weight()))?;
        if self.stride.iter().any(|&stride| stride > 1) {
            write!(f, " stride {}", name(&self.stride))?;
        }
        if self.padding.iter().any(|&padding| padding != (0, 0)) {
            write!(f, " padding {:?}", self.padding)?;
        }
        if self.dilation.iter().any(|&dilation| dilation > 1) {
            write!(f, " dilation {}", name(&self.dilation))?;
        }
        if self.groups > 1 { write!(f, " groups {}", self.groups) } else { Ok(()) }
    }
}

/// One element, one window, odd sizes around a tile, empty each way, every option, small groups and larger ones.
fn shapes() -> Vec<Shape> {
    vec![
        Shape::new(&[1, 1, 1], 1, &[1]),
        Shape::new(&[2, 3, 37], 5, &[4]).stride(&[3]).padding(&[(1, 2)]),
        Shape::new(&[2, 3, 9, 11], 7, &[3, 3]).padding(&[(1, 1), (1, 1)]),
        Shape::new(&[1, 8, 13, 7], 33, &[3, 2]).stride(&[2, 1]).padding(&[(0, 2), (1, 0)]),
        Shape::new(&[2, 5, 12, 9], 6, &[2, 3]).stride(&[2, 3]).dilation(&[3, 2]).padding(&[(2, 2), (1, 1)]),
        Shape::new(&[3, 6, 8, 8], 9, &[1, 1]),
        Shape::new(&[3, 6, 8, 8], 9, &[1, 1]).stride(&[2, 2]),
        Shape::new(&[1, 12, 6, 5], 20, &[3, 3]).groups(2).padding(&[(1, 1), (1, 1)]),
        Shape::new(&[2, 6, 7, 9], 6, &[3, 3]).groups(6).stride(&[2, 1]).padding(&[(1, 1), (1, 1)]),
        Shape::new(&[1, 4, 5, 9], 8, &[3, 2]).groups(4).dilation(&[1, 2]),
        Shape::new(&[1, 2, 4, 5, 6], 3, &[2, 3, 2])
            .stride(&[1, 2, 1])
            .padding(&[(1, 1), (0, 0), (2, 1)])
            .dilation(&[2, 1, 1]),
        Shape::new(&[0, 3, 5, 5], 4, &[3, 3]),
        Shape::new(&[2, 0, 5, 5], 4, &[3, 3]),
        Shape::new(&[2, 3, 2, 5], 4, &[3, 3]),
    ]
}

pub fn cases() -> Vec<Case> {
    let plain = [Placement::Contiguous; 2];
    let mut cases = Vec::new();
    let operators = [Operator::Forward { bias: true }, Operator::Input, Operator::Weight];
    for (turn, shape) in shapes().into_iter().enumerate() {
        for (shift, operator) in operators.into_iter().enumerate() {
            // f32 for every one, and the other types in turn.
            cases.push(shape.clone().case(operator, DType::F32, plain));
            cases.push(shape.clone().case(operator, FLOATS[1 + (turn + shift) % 3], plain));
        }
    }
    for (turn, operator) in operators.into_iter().enumerate() {
        let shape = || Shape::new(&[2, 5, 6, 7], 6, &[3, 2]).stride(&[1, 2]).padding(&[(1, 0), (0, 1)]);
        for placement in Placement::ALL {
            cases.push(shape().case(operator, FLOATS[turn], [placement, Placement::ALL[turn]]));
        }
    }
    // A pointwise convolution without a bias is a product of matrices.
    cases.push(Shape::new(&[2, 12, 5, 9], 10, &[1, 1]).groups(2).case(
        Operator::Forward { bias: false },
        DType::F16,
        plain,
    ));
    // Enough places for the copy with channels innermost, and for sums in slices.
    let large = || Shape::new(&[2, 8, 47, 46], 32, &[3, 3]).padding(&[(1, 1), (1, 1)]);
    for operator in operators.into_iter().chain([Operator::Fused]) {
        cases.push(large().case(operator, DType::F16, plain));
    }
    cases.push(large().case(Operator::Forward { bias: false }, DType::BF16, plain));
    cases.push(large().case(Operator::Fused, DType::F32, plain));
    // Channels innermost: windows, products of single elements in few and many channels, channels filled up with zeros.
    for (turn, shape) in [
        large(),
        Shape::new(&[2, 16, 47, 46], 40, &[3, 3]).groups(2).stride(&[2, 1]).padding(&[(1, 1), (0, 1)]),
        Shape::new(&[3, 40, 23, 19], 72, &[1, 1]),
        Shape::new(&[1, 1040, 32, 32], 32, &[1, 1]),
        Shape::new(&[1, 3, 39, 37], 32, &[5, 3]),
        Shape::new(&[2, 8, 5, 6], 32, &[3, 3]),
        Shape::new(&[1, 8, 1301], 32, &[4]),
    ]
    .into_iter()
    .enumerate()
    {
        cases.push(shape.clone().case(Operator::InputLast, FLOATS[2 - turn % 2], plain));
        cases.push(shape.case(Operator::FusedLast, FLOATS[1 + turn % 2], plain));
    }
    // Taps that are whole rounds of loading: plain, strided, in groups, of three axes; and too many of them for that.
    for (turn, shape) in [
        Shape::new(&[2, 64, 23, 25], 32, &[3, 3]).padding(&[(1, 1), (1, 1)]),
        Shape::new(&[1, 32, 65, 63], 40, &[3, 3]).stride(&[2, 2]).padding(&[(1, 1), (1, 1)]),
        Shape::new(&[1, 64, 37, 33], 128, &[3, 2]).groups(2).dilation(&[2, 1]).padding(&[(1, 2), (0, 1)]),
        Shape::new(&[1, 32, 11, 10, 12], 32, &[2, 3, 2]).padding(&[(1, 0), (1, 1), (0, 1)]),
        Shape::new(&[1, 32, 1101], 32, &[33]),
    ]
    .into_iter()
    .enumerate()
    {
        let (dtype, other) = (FLOATS[1 + turn % 2], FLOATS[2 - turn % 2]);
        cases.push(shape.clone().case(Operator::Forward { bias: true }, dtype, plain));
        cases.push(shape.clone().case(Operator::FusedLast, other, plain));
        cases.push(shape.clone().case(Operator::Input, dtype, plain));
        cases.push(shape.case(Operator::Forward { bias: false }, DType::F32, plain));
    }
    for (turn, shape) in shapes().into_iter().enumerate() {
        cases.push(shape.case(Operator::Fused, FLOATS[turn % FLOATS.len()], plain));
    }
    cases.push(Shape::new(&[2, 3, 61, 37], 4, &[3, 3]).case(Operator::Weight, DType::F32, plain));
    // Enough channels on both sides for the weight's gradient to read both with channels innermost.
    let deep = Shape::new(&[1, 32, 65, 65], 40, &[2, 3]).stride(&[1, 1]).padding(&[(0, 1), (1, 1)]);
    cases.push(deep.case(Operator::Weight, DType::F16, plain));
    // Few channels, or no whole vector of them, that zeros are put behind.
    cases.push(Shape::new(&[1, 3, 39, 37], 32, &[5, 3]).case(Operator::Weight, DType::F16, plain));
    let uneven = Shape::new(&[2, 13, 47, 46], 40, &[3, 3]).stride(&[2, 1]).padding(&[(1, 1), (0, 1)]);
    cases.push(uneven.case(Operator::Weight, DType::BF16, plain));
    cases
}

/// A convolution of one to three axes, or a gradient of one.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let axes = 1 + draw.below(3);
    let groups = draw.pick(&[1, 2, 3]);
    let (batch, ins, outs) = (draw.extent(3), groups * draw.extent(8), groups * draw.extent(17));
    let each = |draw: &mut Draw<'_>, least: usize, most: usize| -> Vec<usize> {
        (0..axes).map(|_| least + draw.below(most + 1 - least)).collect()
    };
    let (kernel, stride, dilation) = (each(draw, 1, 3), each(draw, 1, 3), each(draw, 1, 2));
    let padding: Vec<(usize, usize)> = (0..axes).map(|_| (draw.below(3), draw.below(3))).collect();
    let reach = kernel.iter().zip(&dilation).map(|(kernel, dilation)| dilation * (kernel - 1) + 1);
    let spatial: Vec<usize> = reach.map(|reach| reach + draw.below(13)).collect();
    let shape = Shape::new(&[vec![batch, ins], spatial].concat(), outs, &kernel);
    let shape = shape.stride(&stride).padding(&padding).dilation(&dilation).groups(groups);
    let operator = draw.pick(&[Operator::Forward { bias: true }, Operator::Input, Operator::Weight, Operator::Fused]);
    // An epilogue's values are the contiguous ones of its cases.
    let placement = if matches!(operator, Operator::Fused) {
        [Placement::Contiguous; 2]
    } else {
        [draw.placement(), draw.placement()]
    };
    shape.case(operator, draw.float(), placement)
}

/// `max(y + shift, 0)`.
fn shift_and_hold(dtype: DType) -> Graph {
    Draft::graph("Convolution", |g| {
        let sum = g.input(dtype) + g.input(dtype);
        sum.binary(Binary::Max, sum.number(0))
    })
}
