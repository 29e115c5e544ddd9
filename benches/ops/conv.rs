//! Convolutions, pools and resizing on the shapes of image networks, for `ops.rs`.

use std::cell::RefCell;
use std::rc::Rc;

use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::conv::{ConvParams, conv, conv_input_gradient, conv_weight_gradient};
use rocfire_kernels::interpolate::{Interpolation, interpolate};
use rocfire_kernels::pool::{Nan, PoolParams, max_pool};

use crate::op::{Error, Make, Op, ROTATION_BYTES, compare, elements, filled, tolerance};

/// A 3 x 3 convolution of square images with one element of padding.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    side: usize,
    channels_in: usize,
    channels_out: usize,
}

const KERNEL: usize = 3;
const PARAMS: ConvParams<'_> = ConvParams { stride: &[1, 1], padding: &[(1, 1), (1, 1)], dilation: &[1, 1], groups: 1 };
/// Elements of each result that are compared with the reference.
const CHECKED: usize = 64;

const fn shape(side: usize, channels_in: usize, channels_out: usize) -> Shape {
    Shape { batch: 32, side, channels_in, channels_out }
}

#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Forward,
    Input,
    Weight,
}

pub const OPS: &[Make] = &[
    ("conv f16", |device, name| convolution(device, name, Operator::Forward, shape(224, 3, 64))),
    ("conv f16", |device, name| convolution(device, name, Operator::Forward, shape(112, 64, 128))),
    ("conv f16", |device, name| convolution(device, name, Operator::Forward, shape(56, 128, 256))),
    ("conv f16", |device, name| convolution(device, name, Operator::Forward, shape(28, 256, 512))),
    ("conv f16 by input", |device, name| convolution(device, name, Operator::Input, shape(56, 128, 256))),
    ("conv f16 by weight", |device, name| convolution(device, name, Operator::Weight, shape(56, 128, 256))),
    ("max pool f16", |device, name| {
        let run: Run = |x, y| {
            let params = PoolParams { kernel: &[3, 3], stride: &[2, 2], padding: &[1, 1], dilation: &[1, 1] };
            Ok(max_pool(x.device().stream(), x.view(), &params, Nan::Any, y.view_mut(), None)?)
        };
        images(device, name, [112, 56], run, |image, side, row, column| {
            let near = |at: usize| (2 * at).saturating_sub(1)..(2 * at + 2).min(side);
            near(row).flat_map(|y| near(column).map(move |x| image[y * side + x])).fold(f64::MIN, f64::max)
        })
    }),
    ("bilinear f16", |device, name| {
        let run: Run =
            |x, y| Ok(interpolate(x.device().stream(), x.view(), Interpolation::Bilinear, false, y.view_mut())?);
        images(device, name, [56, 112], run, |image, side, row, column| {
            // Of twice the size, a pixel is a quarter of one neighbour and three of the other.
            let near = |at: usize| {
                let other = if at.is_multiple_of(2) { (at / 2).saturating_sub(1) } else { (at / 2 + 1).min(side - 1) };
                [(at / 2, 0.75), (other, 0.25)]
            };
            let pairs = near(row).map(|(y, a)| near(column).map(|(x, b)| a * b * image[y * side + x]));
            pairs.iter().flatten().sum()
        })
    }),
];

fn convolution(device: &Device, name: &str, operator: Operator, s: Shape) -> Result<Op, Error> {
    let x = vec![s.batch, s.channels_in, s.side, s.side];
    let w = vec![s.channels_out, s.channels_in, KERNEL, KERNEL];
    let y = vec![s.batch, s.channels_out, s.side, s.side];
    // Inputs, then the result.
    let shapes = match operator {
        Operator::Forward => [x, w, y],
        Operator::Input => [y, w, x],
        Operator::Weight => [x, y, w],
    };
    let dtype = DType::F16;
    let bytes: usize = shapes.iter().map(|shape| shape.iter().product::<usize>() * dtype.size_bytes()).sum();
    let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
    let mut tensors = Vec::new();
    for set in 0..sets {
        let made = shapes.iter().enumerate().map(|(slot, shape)| filled(device, shape, dtype, (set * 4 + slot) as u64));
        tensors.push(made.collect::<Result<Vec<_>, _>>()?);
    }
    let tensors = Rc::new(RefCell::new(tensors));
    let of_check = tensors.clone();
    let launch = move |number: usize| -> Result<(), Error> {
        let mut tensors = tensors.borrow_mut();
        let (out, inputs) = tensors[number % sets].split_last_mut().expect("three tensors");
        let stream = inputs[0].device().stream();
        let (a, b) = (inputs[0].view(), inputs[1].view());
        match operator {
            Operator::Forward => conv(stream, a, b, None, out.view_mut(), &PARAMS)?,
            Operator::Input => conv_input_gradient(stream, a, b, None, out.view_mut(), &PARAMS)?,
            Operator::Weight => conv_weight_gradient(stream, a, b, out.view_mut(), &PARAMS)?,
        }
        Ok(())
    };
    let check = move || -> Result<(), Error> {
        let tensors = of_check.borrow();
        let read = |tensor: &Tensor| -> Result<Vec<f64>, Error> {
            Ok(elements(&tensor.to_bytes()?, tensor.dtype(), 0, tensor.layout().len()))
        };
        let (a, b, out) = (read(&tensors[0][0])?, read(&tensors[0][1])?, read(&tensors[0][2])?);
        let numbers: Vec<usize> = (0..CHECKED).map(|n| (out.len() - 1) / (CHECKED - 1) * n).collect();
        let expected: Vec<f64> = numbers.iter().map(|&number| s.element(operator, number, &a, &b)).collect();
        compare(&numbers.iter().map(|&number| out[number]).collect::<Vec<_>>(), &expected, tolerance(dtype))
    };
    let products = s.batch * s.side * s.side * s.channels_out * s.channels_in * KERNEL * KERNEL;
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{}x{}^2 {} -> {}", s.batch, s.side, s.channels_in, s.channels_out),
        bytes: bytes as f64,
        flops: 2.0 * products as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

impl Shape {
    /// One element of a result, by its definition.
    fn element(&self, operator: Operator, number: usize, a: &[f64], b: &[f64]) -> f64 {
        let side = self.side;
        let pixel = |channels: usize, n: usize, c: usize, row: usize, column: usize| {
            ((n * channels + c) * side + row) * side + column
        };
        let weight = |o: usize, c: usize, r: usize, q: usize| ((o * self.channels_in + c) * KERNEL + r) * KERNEL + q;
        let inside = |at: usize, tap: usize| (at + tap).checked_sub(1).filter(|&at| at < side);
        let taps = || (0..KERNEL).flat_map(|r| (0..KERNEL).map(move |q| (r, q)));
        let (column, row) = (number % side, number / side % side);
        let plane = number / (side * side);
        match operator {
            Operator::Forward => {
                let (o, n) = (plane % self.channels_out, plane / self.channels_out);
                let products = (0..self.channels_in).flat_map(|c| taps().map(move |(r, q)| (c, r, q)));
                products
                    .filter_map(|(c, r, q)| {
                        let at = pixel(self.channels_in, n, c, inside(row, r)?, inside(column, q)?);
                        Some(a[at] * b[weight(o, c, r, q)])
                    })
                    .sum()
            }
            Operator::Input => {
                let (c, n) = (plane % self.channels_in, plane / self.channels_in);
                let products = (0..self.channels_out).flat_map(|o| taps().map(move |(r, q)| (o, r, q)));
                products
                    .filter_map(|(o, r, q)| {
                        let at = pixel(self.channels_out, n, o, inside(row, 2 - r)?, inside(column, 2 - q)?);
                        Some(a[at] * b[weight(o, c, r, q)])
                    })
                    .sum()
            }
            Operator::Weight => {
                let (q, r) = (number % KERNEL, number / KERNEL % KERNEL);
                let (c, o) =
                    (number / (KERNEL * KERNEL) % self.channels_in, number / (KERNEL * KERNEL) / self.channels_in);
                let places = (0..self.batch).flat_map(|n| (0..side * side).map(move |place| (n, place)));
                places
                    .filter_map(|(n, place)| {
                        let (row, column) = (place / side, place % side);
                        let at = pixel(self.channels_in, n, c, inside(row, r)?, inside(column, q)?);
                        Some(a[at] * b[pixel(self.channels_out, n, o, row, column)])
                    })
                    .sum()
            }
        }
    }
}

type Run = fn(&Tensor, &mut Tensor) -> Result<(), Error>;
/// A pixel of the result (row, column) from an image of a side.
type Pixel = fn(&[f64], usize, usize, usize) -> f64;

/// An operator from images of one side to images of another, 32 of 64 channels.
fn images(device: &Device, name: &str, sides: [usize; 2], run: Run, pixel: Pixel) -> Result<Op, Error> {
    const IMAGES: [usize; 2] = [32, 64];
    let shapes = sides.map(|side| [IMAGES[0], IMAGES[1], side, side]);
    let bytes: usize = shapes.iter().map(|shape| shape.iter().product::<usize>() * 2).sum();
    let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
    let make = |set: usize| -> Result<[Tensor; 2], Error> {
        Ok([filled(device, &shapes[0], DType::F16, set as u64)?, Tensor::empty(device, &shapes[1], DType::F16)?])
    };
    let tensors = Rc::new(RefCell::new((0..sets).map(make).collect::<Result<Vec<_>, _>>()?));
    let of_check = tensors.clone();
    let launch = move |number: usize| {
        let [x, y] = &mut tensors.borrow_mut()[number % sets];
        run(x, y)
    };
    let check = move || -> Result<(), Error> {
        let [x, y] = &of_check.borrow()[0];
        let (x, y) = (x.to_bytes()?, y.to_bytes()?);
        let [from, to] = sides.map(|side| side * side);
        for image in (0..IMAGES[0] * IMAGES[1]).step_by(IMAGES[1] * 5 + 3) {
            let (x, y) = (elements(&x, DType::F16, image * from, from), elements(&y, DType::F16, image * to, to));
            let expected: Vec<f64> = (0..to).map(|n| pixel(&x, sides[0], n / sides[1], n % sides[1])).collect();
            compare(&y, &expected, tolerance(DType::F16))?;
        }
        Ok(())
    };
    Ok(Op {
        name: name.to_owned(),
        shape: format!("32x64x{}^2 -> {}^2", sides[0], sides[1]),
        bytes: bytes as f64,
        flops: 0.0,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}
