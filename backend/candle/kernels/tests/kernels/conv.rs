//! Window kernels: im2col, col2im, transposed convolutions, pools, resizing.

use candle_kernels::CONV;

use crate::harness::{Arg, Card, Data, assert_close, elements, on_each_card, sweeps, values};

sweeps! {
    im2col_puts_zeros_beyond_the_image,
    im2col_of_lines_puts_zeros_beyond_them,
    col2im_adds_what_overlaps,
    transposed_convolutions_are_the_gradient_of_convolutions,
    pools_take_the_mean_and_the_greatest,
    nearest_neighbours_are_rounded_down,
    bilinear_values_lie_between_their_neighbours,
}

const DT6: [&str; 6] = ["bf16", "f16", "f32", "f64", "u8", "u32"];

/// An image of extents [2, 3, 6, 5], and one seen with its last two axes swapped.
const IMAGE: [usize; 4] = [2, 3, 6, 5];
const SWAPPED: [usize; 4] = [2, 3, 5, 6];

struct Image {
    dims: [usize; 4],
    strides: [usize; 4],
}

const IMAGES: [Image; 2] =
    [Image { dims: IMAGE, strides: [90, 30, 5, 1] }, Image { dims: SWAPPED, strides: [90, 30, 1, 5] }];

impl Image {
    fn info(&self) -> Vec<usize> {
        [self.dims, self.strides].concat()
    }

    fn at(&self, x: &[f64], place: [usize; 4]) -> f64 {
        x[place.iter().zip(self.strides).map(|(place, stride)| place * stride).sum::<usize>()]
    }
}

fn sizes(values: &[usize]) -> Vec<Arg> {
    values.iter().map(|&value| Arg::Size(value as u64)).collect()
}

fn run(card: &Card, name: &str, dtype: &'static str, head: Vec<Arg>, inputs: &[&[f64]], expected: &[f64], scale: f64) {
    let mut args = head;
    args.extend(inputs.iter().map(|x| Arg::In(Data::new(dtype, x))));
    args.push(Arg::Out(Data::unwritten(dtype, expected.len())));
    let got = card.run(&CONV, name, elements(expected.len()), &args);
    assert_close(&format!("{name} on {}", card.name), &got[0], expected, scale);
}

/// What an integer type keeps.
fn integer(dtype: &str, value: f64) -> f64 {
    match dtype {
        "u8" => value.rem_euclid(256.0).trunc(),
        "u32" => value.trunc(),
        _ => value,
    }
}

fn im2col_puts_zeros_beyond_the_image() {
    const KERNEL: [usize; 2] = [3, 2];
    const STRIDE: usize = 2;
    const PADDING: usize = 1;
    const DILATION: usize = 2;
    on_each_card(|card| {
        for dtype in DT6 {
            for image in &IMAGES {
                let x = values(dtype, 180, 40);
                let out =
                    |extent: usize, kernel: usize| (extent + 2 * PADDING - DILATION * (kernel - 1) - 1) / STRIDE + 1;
                let [b, c, h, w] = image.dims;
                let (h_out, w_out) = (out(h, KERNEL[0]), out(w, KERNEL[1]));
                let mut expected = Vec::new();
                for place in (0..b * h_out * w_out * c * KERNEL[0] * KERNEL[1])
                    .map(|at| split(at, &[h_out, w_out, c, KERNEL[0], KERNEL[1]]))
                {
                    let [b, y, x_out, c, ky, kx] = place;
                    let row = (y * STRIDE + ky * DILATION).checked_sub(PADDING).filter(|&row| row < h);
                    let column = (x_out * STRIDE + kx * DILATION).checked_sub(PADDING).filter(|&column| column < w);
                    expected.push(match (row, column) {
                        (Some(row), Some(column)) => image.at(&x, [b, c, row, column]),
                        _ => 0.0,
                    });
                }
                let mut head = sizes(&[expected.len(), h_out, w_out, KERNEL[0], KERNEL[1], STRIDE, PADDING, DILATION]);
                head.push(Arg::Info(image.info()));
                run(card, &format!("im2col_{dtype}"), dtype, head, &[&x], &expected, 0.0);
            }
        }
    });
}

/// Six coordinates of a number, the first the rest.
fn split(mut at: usize, extents: &[usize; 5]) -> [usize; 6] {
    let mut place = [0; 6];
    for (axis, extent) in extents.iter().enumerate().rev() {
        place[axis + 1] = at % extent;
        at /= extent;
    }
    place[0] = at;
    place
}

fn im2col_of_lines_puts_zeros_beyond_them() {
    const KERNEL: usize = 3;
    on_each_card(|card| {
        for dtype in DT6 {
            let (batch, channels, length) = (2, 3, 9);
            let x = values(dtype, 54, 41);
            let (stride, padding, dilation) = (2, 1, 2);
            let out = (length + 2 * padding - dilation * (KERNEL - 1) - 1) / stride + 1;
            let mut expected = Vec::new();
            for (b, l) in (0..batch).flat_map(|b| (0..out).map(move |l| (b, l))) {
                for (c, k) in (0..channels).flat_map(|c| (0..KERNEL).map(move |k| (c, k))) {
                    let at = (l * stride + k * dilation).checked_sub(padding).filter(|&at| at < length);
                    // Stored with the channels last.
                    expected.push(at.map_or(0.0, |at| x[(b * length + at) * channels + c]));
                }
            }
            let threads = batch * out * channels;
            let mut args = sizes(&[threads, out, KERNEL, stride, padding, dilation]);
            args.push(Arg::Info(vec![batch, channels, length, channels * length, 1, channels]));
            args.push(Arg::In(Data::new(dtype, &x)));
            args.push(Arg::Out(Data::unwritten(dtype, expected.len())));
            let name = format!("im2col1d_{dtype}");
            let got = card.run(&CONV, &name, elements(threads), &args);
            assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 0.0);
        }
    });
}

fn col2im_adds_what_overlaps() {
    on_each_card(|card| {
        for dtype in DT6 {
            let (batch, input, channels) = (2, 5, 3);
            for (kernel, stride) in [(4, 2), (2, 3), (3, 1), (11, 1)] {
                let length = (input - 1) * stride + kernel;
                let x = values(dtype, batch * input * channels * kernel, 42);
                let mut expected = vec![0.0; batch * channels * length];
                for (at, x) in x.iter().enumerate() {
                    let [_, _, b, i, c, k] = split(at, &[1, batch, input, channels, kernel]);
                    expected[(b * channels + c) * length + i * stride + k] += x;
                }
                let expected: Vec<f64> = expected.into_iter().map(|x| integer(dtype, x)).collect();
                let head = sizes(&[expected.len(), length, input, channels, kernel, stride]);
                run(card, &format!("col2im1d_{dtype}"), dtype, head, &[&x], &expected, 60.0);
            }
        }
    });
}

fn transposed_convolutions_are_the_gradient_of_convolutions() {
    const OUT_CHANNELS: usize = 2;
    on_each_card(|card| {
        for dtype in DT6 {
            for (image, (stride, padding, dilation)) in IMAGES.iter().zip([(2, 1, 1), (1, 0, 2)]) {
                for axes in [1, 2] {
                    let [batch, channels, mut h, w] = image.dims;
                    let (mut kernel_h, kernel_w) = (3, 2);
                    if axes == 1 {
                        (h, kernel_h) = (1, 1);
                    }
                    let out = |extent: usize, kernel: usize| {
                        (extent - 1) * stride + dilation * (kernel - 1) + 1 - 2 * padding
                    };
                    let (h_out, w_out) =
                        if axes == 1 { (1, out(w, kernel_w)) } else { (out(h, kernel_h), out(w, kernel_w)) };
                    let x: Vec<f64> = values(dtype, 180, 43);
                    let kernel = values(dtype, channels * OUT_CHANNELS * kernel_h * kernel_w, 44);
                    let mut expected = vec![0.0; batch * OUT_CHANNELS * h_out * w_out];
                    for at in 0..batch * channels * h * w * OUT_CHANNELS * kernel_h * kernel_w {
                        let [rest, j, o, ky, kx, c] = split(at, &[w, OUT_CHANNELS, kernel_h, kernel_w, channels]);
                        let (b, i) = (rest / h, rest % h);
                        let y = if axes == 1 { Some(0) } else { (i * stride + ky * dilation).checked_sub(padding) };
                        let column = (j * stride + kx * dilation).checked_sub(padding);
                        let (Some(y), Some(column)) = (y, column) else { continue };
                        if y < h_out && column < w_out {
                            let weight = kernel[((c * OUT_CHANNELS + o) * kernel_h + ky) * kernel_w + kx];
                            expected[((b * OUT_CHANNELS + o) * h_out + y) * w_out + column] +=
                                image.at(&x, [b, c, i, j]) * weight;
                        }
                    }
                    let expected: Vec<f64> = expected.into_iter().map(|x| integer(dtype, x)).collect();
                    let mut head = if axes == 1 { sizes(&[0, w_out]) } else { sizes(&[0, w_out, h_out]) };
                    head.extend(sizes(&[stride, padding, 0, dilation]));
                    let keep = |values: [usize; 4]| {
                        if axes == 1 { vec![values[0], values[1], values[3]] } else { values.to_vec() }
                    };
                    let dims = [channels, OUT_CHANNELS, kernel_h, kernel_w];
                    let strides = [OUT_CHANNELS * kernel_h * kernel_w, kernel_h * kernel_w, kernel_w, 1];
                    head.push(Arg::Info([keep(image.dims), keep(image.strides), keep(dims), keep(strides)].concat()));
                    run(card, &format!("conv_transpose{axes}d_{dtype}"), dtype, head, &[&x, &kernel], &expected, 100.0);
                }
            }
        }
    });
}

fn pools_take_the_mean_and_the_greatest() {
    on_each_card(|card| {
        for dtype in DT6 {
            for image in &IMAGES {
                let (kernel, stride) = ([3, 2], [2, 1]);
                let mut x = values(dtype, 180, 45);
                if !dtype.starts_with('u') {
                    // First in some windows, later in others.
                    x[7] = f64::NAN;
                }
                let [batch, channels, first, second] = image.dims;
                let (firsts, seconds) = ((first - kernel[0]) / stride[0] + 1, (second - kernel[1]) / stride[1] + 1);
                for op in ["avg", "max"] {
                    let mut expected = Vec::new();
                    for at in 0..batch * channels * firsts * seconds {
                        let [_, _, b, c, i, j] = split(at, &[1, batch, channels, firsts, seconds]);
                        let window: Vec<f64> = (0..kernel[0])
                            .flat_map(|u| (0..kernel[1]).map(move |v| (u, v)))
                            .map(|(u, v)| image.at(&x, [b, c, i * stride[0] + u, j * stride[1] + v]))
                            .collect();
                        expected.push(match op {
                            "avg" => integer(dtype, integer(dtype, window.iter().sum::<f64>()) * (1.0 / 6.0)),
                            // As on Candle's CPU device, a NaN stays where it comes first.
                            _ => window.into_iter().reduce(|most, x| if most < x { x } else { most }).unwrap(),
                        });
                    }
                    let mut head = sizes(&[180, kernel[0], kernel[1], stride[0], stride[1]]);
                    head.push(Arg::Info(image.info()));
                    run(card, &format!("{op}_pool2d_{dtype}"), dtype, head, &[&x], &expected, 20.0);
                }
            }
        }
    });
}

fn nearest_neighbours_are_rounded_down() {
    on_each_card(|card| {
        for dtype in DT6 {
            for image in &IMAGES {
                let [batch, channels, first, second] = image.dims;
                let x = values(dtype, 180, 46);
                let (firsts, seconds) = (9, 4);
                let scales = (first as f64 / firsts as f64, second as f64 / seconds as f64);
                let of = |at: usize| {
                    let [_, _, b, c, i, j] = split(at, &[1, batch, channels, firsts, seconds]);
                    let near = |at: usize, scale: f64, extent: usize| ((at as f64 * scale) as usize).min(extent - 1);
                    image.at(&x, [b, c, near(i, scales.0, first), near(j, scales.1, second)])
                };
                let expected: Vec<f64> = (0..batch * channels * firsts * seconds).map(of).collect();
                let mut head = sizes(&[firsts, seconds]);
                head.extend([Arg::Double(scales.0), Arg::Double(scales.1), Arg::Info(image.info())]);
                run(card, &format!("upsample_nearest2d_{dtype}"), dtype, head, &[&x], &expected, 0.0);
            }
        }
    });
}

/// Two neighbours and the second one's weight.
fn neighbours(at: usize, input: usize, output: usize, align: bool, factor: Option<f64>) -> (usize, usize, f64) {
    let place = if align {
        if output > 1 { at as f64 * ((input - 1) as f64 / (output - 1) as f64) } else { 0.0 }
    } else {
        factor.map_or(input as f64 / output as f64, |factor| 1.0 / factor) * (at as f64 + 0.5) - 0.5
    };
    let place = place.max(0.0);
    let low = (place as usize).min(input - 1);
    (low, (low + 1).min(input - 1), (place - low as f64).clamp(0.0, 1.0))
}

fn bilinear_values_lie_between_their_neighbours() {
    on_each_card(|card| {
        for dtype in DT6 {
            for image in &IMAGES {
                for (align, factor) in [(true, None), (false, None), (false, Some(1.5))] {
                    let [batch, channels, h, w] = image.dims;
                    let x = values(dtype, 180, 47);
                    let (h_out, w_out) = (h * 3 / 2, w * 3 / 2);
                    let of = |at: usize| {
                        let [_, _, b, c, i, j] = split(at, &[1, batch, channels, h_out, w_out]);
                        let (top, bottom, down) = neighbours(i, h, h_out, align, factor);
                        let (left, right, across) = neighbours(j, w, w_out, align, factor);
                        let line = |row: usize| {
                            image.at(&x, [b, c, row, left]) * (1.0 - across) + image.at(&x, [b, c, row, right]) * across
                        };
                        integer(dtype, line(top) * (1.0 - down) + line(bottom) * down)
                    };
                    let expected: Vec<f64> = (0..batch * channels * h_out * w_out).map(of).collect();
                    let mut head = sizes(&[w_out, h_out]);
                    let given = factor.is_some();
                    let number = factor.unwrap_or(0.0);
                    head.extend([
                        Arg::Flag(align),
                        Arg::Flag(given),
                        Arg::Double(number),
                        Arg::Flag(given),
                        Arg::Double(number),
                    ]);
                    head.push(Arg::Info(image.info()));
                    run(card, &format!("upsample_bilinear2d_{dtype}"), dtype, head, &[&x], &expected, 1.0);
                }
            }
        }
    });
}
