//! Reductions, softmax, norms, rotary embeddings.

use candle_kernels::REDUCE;
use cudarc::driver::LaunchConfig;

use crate::harness::{Arg, Data, assert_close, elements, noise, on_each_card, rounded, rows, sweeps, values};

sweeps! {
    reductions_over_lines_are_candles,
    sums_of_few_elements_are_one_lane_each,
    softmax_rows_sum_to_one,
    norms_are_candles,
    norms_go_without_weights,
    rotary_embeddings_turn_pairs,
}

const FLOATS: [&str; 4] = ["bf16", "f16", "f32", "f64"];
const DTYPES: [&str; 9] = ["bf16", "f16", "f32", "f64", "u8", "u32", "i64", "i16", "i32"];

fn reduced(op: &str, dtype: &str, line: &[f64]) -> f64 {
    let numbers = || line.iter().copied().filter(|x| !x.is_nan());
    match op {
        "sum" => {
            let sum: f64 = line.iter().sum();
            if dtype == "u8" { sum.rem_euclid(256.0) } else { sum }
        }
        "max" | "min" if line[0].is_nan() => f64::NAN,
        "max" => numbers().fold(f64::NEG_INFINITY, f64::max),
        "min" => numbers().fold(f64::INFINITY, f64::min),
        _ if line[0].is_nan() => 0.0,
        "argmax" => place(line, reduced("max", "f64", line)),
        _ => place(line, reduced("min", "f64", line)),
    }
}

fn place(line: &[f64], value: f64) -> f64 {
    line.iter().position(|&x| x == value).unwrap() as f64
}

/// Lines of every length class: below a wave, at the block's ends, above; dense and with the lines' elements apart.
fn cases() -> Vec<(usize, usize, bool)> {
    [1, 33, 63, 65, 512, 513, 1500, 8200]
        .into_iter()
        .flat_map(|extent| [(3, extent, true), (3, extent, false)])
        .collect()
}

fn reductions_over_lines_are_candles() {
    on_each_card(|card| {
        for dtype in DTYPES {
            for op in ["sum", "min", "max", "argmin", "argmax"] {
                let name = format!("fast_{op}_{dtype}");
                let out = if op.starts_with("arg") { "u32" } else { dtype };
                for (lines, extent, dense) in cases() {
                    let mut x = values(dtype, lines * extent, 30);
                    if FLOATS.contains(&dtype) && extent > 64 && op != "sum" {
                        // In the second line a NaN comes first, in the third one somewhere.
                        x[if dense { extent } else { 1 }] = f64::NAN;
                        x[if dense { 2 * extent + 9 } else { 9 * lines + 2 }] = f64::NAN;
                    }
                    let strides = if dense { [extent, 1] } else { [1, lines] };
                    let args = [
                        Arg::Size((lines * extent) as u64),
                        Arg::Size(extent as u64),
                        Arg::Size(2),
                        Arg::Info(vec![lines, extent, strides[0], strides[1]]),
                        Arg::In(Data::new(dtype, &x)),
                        Arg::Out(Data::unwritten(out, lines)),
                    ];
                    let block = extent.min(1024).next_power_of_two() as u32;
                    let got = card.run(&REDUCE, &name, rows(lines, (block, 1, 1)), &args);
                    let line = |l: usize| (0..extent).map(|i| x[l * strides[0] + i * strides[1]]).collect::<Vec<_>>();
                    let expected: Vec<f64> = (0..lines).map(|l| reduced(op, dtype, &line(l))).collect();
                    assert_close(&format!("{name} of {extent} on {}", card.name), &got[0], &expected, 60.0);
                }
            }
        }
    });
}

fn sums_of_few_elements_are_one_lane_each() {
    on_each_card(|card| {
        for dtype in DTYPES {
            let name = format!("fast_sum_small_{dtype}");
            for extent in [0, 1, 5, 32] {
                const LINES: usize = 300;
                let x = values(dtype, LINES * extent.max(1), 31);
                let config = LaunchConfig { grid_dim: (2, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
                let args = [
                    Arg::Size(LINES as u64),
                    Arg::Size(extent as u64),
                    Arg::Size(2),
                    Arg::Info(vec![LINES, extent, 1, LINES]),
                    Arg::In(Data::new(dtype, &x)),
                    Arg::Out(Data::unwritten(dtype, LINES)),
                ];
                let got = card.run(&REDUCE, &name, config, &args);
                let sum = |l: usize| (0..extent).map(|i| x[l + i * LINES]).collect::<Vec<_>>();
                let expected: Vec<f64> = (0..LINES).map(|l| reduced("sum", dtype, &sum(l))).collect();
                assert_close(&format!("{name} of {extent} on {}", card.name), &got[0], &expected, 10.0);
            }
        }
    });
}

const COLUMNS: [usize; 7] = [1, 31, 65, 512, 513, 2048, 2500];

fn softmax_rows_sum_to_one() {
    on_each_card(|card| {
        for dtype in FLOATS {
            for columns in COLUMNS {
                let mut x = values(dtype, 2 * columns, 32);
                if columns > 1 {
                    x[0] = f64::NEG_INFINITY;
                }
                let args = [
                    Arg::In(Data::new(dtype, &x)),
                    Arg::Out(Data::unwritten(dtype, 2 * columns)),
                    Arg::Int(columns as u32),
                ];
                let name = format!("softmax_{dtype}");
                let got = card.run(&REDUCE, &name, rows(2, (1, 32, 1)), &args);
                let softmax = |row: &[f64]| {
                    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
                    row.iter().map(|x| (x - max).exp() / sum).collect::<Vec<_>>()
                };
                let expected: Vec<f64> = x.chunks(columns).flat_map(softmax).collect();
                assert_close(&format!("{name} of {columns} on {}", card.name), &got[0], &expected, 4.0);
            }
        }
    });
}

fn norm(row: &[f64], weight: &[f64], bias: Option<&[f64]>, eps: f64) -> Vec<f64> {
    let count = row.len() as f64;
    let mean = if bias.is_some() { row.iter().sum::<f64>() / count } else { 0.0 };
    let spread = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let scale = 1.0 / (spread + eps).sqrt();
    (0..row.len()).map(|at| (row[at] - mean) * scale * weight[at] + bias.map_or(0.0, |bias| bias[at])).collect()
}

fn norms_are_candles() {
    const EPS: f32 = 1e-5;
    on_each_card(|card| {
        for dtype in FLOATS {
            for columns in COLUMNS {
                for (name, layer) in [("rmsnorm", false), ("layernorm", true)] {
                    let x = values(dtype, 2 * columns, 33);
                    let (weight, bias) = (values(dtype, columns, 34), values(dtype, columns, 35));
                    let mut args = vec![
                        Arg::In(Data::new(dtype, &x)),
                        Arg::Out(Data::unwritten(dtype, 2 * columns)),
                        Arg::In(Data::new(dtype, &weight)),
                    ];
                    args.extend(layer.then(|| Arg::In(Data::new(dtype, &bias))));
                    let block = if columns < 1024 { 32 } else { 1024 };
                    args.extend([Arg::Int(columns as u32), Arg::Int(block), Arg::Float(EPS)]);
                    let name = format!("{name}_{dtype}");
                    let got = card.run(&REDUCE, &name, rows(2, (block, 1, 1)), &args);
                    let bias = layer.then_some(&bias[..]);
                    let expected: Vec<f64> =
                        x.chunks(columns).flat_map(|row| norm(row, &weight, bias, f64::from(EPS))).collect();
                    assert_close(&format!("{name} of {columns} on {}", card.name), &got[0], &expected, 40.0);
                }
            }
        }
    });
}

fn norms_go_without_weights() {
    on_each_card(|card| {
        let x = values("f32", 96, 36);
        let out = || Arg::Out(Data::unwritten("f32", 96));
        let tail = [Arg::Int(96), Arg::Int(32), Arg::Float(1e-5)];
        let args = [&[Arg::In(Data::new("f32", &x)), out(), Arg::Null, Arg::Null][..], &tail].concat();
        let got = card.run(&REDUCE, "layernorm_f32", rows(1, (32, 1, 1)), &args);
        let expected = norm(&x, &[1.0; 96], Some(&[0.0; 96]), 1e-5);
        assert_close("layernorm_f32 without weights", &got[0], &expected, 40.0);
    });
}

/// Batch, heads, positions, width of a head.
const ROPE: [usize; 4] = [2, 3, 5, 8];

/// Elements of the pair, and its angle's place in a table of positions and half widths.
fn pairs(kind: &str) -> Vec<(usize, usize, usize, usize)> {
    let [batch, heads, positions, width] = ROPE;
    let mut pairs = Vec::new();
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        for (t, i) in (0..positions).flat_map(|t| (0..width / 2).map(move |i| (t, i))) {
            let row =
                if kind == "rope_thd" { (b * positions + t) * heads + h } else { (b * heads + h) * positions + t };
            let (first, second) = if kind == "rope_i" { (2 * i, 2 * i + 1) } else { (i, i + width / 2) };
            pairs.push((row * width + first, row * width + second, b, t * width / 2 + i));
        }
    }
    pairs
}

fn rotary_embeddings_turn_pairs() {
    let [batch, heads, positions, width] = ROPE.map(|extent| extent as u32);
    let count = (batch * heads * positions * width) as usize;
    let table = (positions * width / 2) as usize;
    on_each_card(|card| {
        for dtype in FLOATS {
            for kind in ["rope", "rope_i", "rope_thd"] {
                // One table for all, and one per batch entry.
                for own in [false, true] {
                    let tables = if own { 2 } else { 1 };
                    let x = values(dtype, count, 37);
                    let angles: Vec<f64> = noise(tables * table, 38).into_iter().map(|x| x * 3.0).collect();
                    let cos: Vec<f64> = angles.iter().map(|a| rounded(dtype, a.cos())).collect();
                    let sin: Vec<f64> = angles.iter().map(|a| rounded(dtype, a.sin())).collect();
                    let stride = if own { heads * positions * width } else { 0 };
                    let numbers = match kind {
                        "rope" => vec![batch * heads, positions * width, width, stride],
                        "rope_i" => vec![batch * heads, positions * width, stride],
                        _ => vec![batch, positions, heads, width, stride],
                    };
                    let mut args = vec![
                        Arg::In(Data::new(dtype, &x)),
                        Arg::In(Data::new(dtype, &cos)),
                        Arg::In(Data::new(dtype, &sin)),
                        Arg::Out(Data::unwritten(dtype, count)),
                    ];
                    args.extend(numbers.into_iter().map(Arg::Int));
                    let name = format!("{kind}_{dtype}");
                    let got = card.run(&REDUCE, &name, elements(count / 2), &args);
                    let mut expected = vec![0.0; count];
                    for (first, second, b, angle) in pairs(kind) {
                        let angle = angle + if own { b * table } else { 0 };
                        expected[first] = x[first] * cos[angle] - x[second] * sin[angle];
                        expected[second] = x[first] * sin[angle] + x[second] * cos[angle];
                    }
                    assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 50.0);
                }
            }
        }
    });
}
