//! Quantised types: decoding, rows, products with f32 and int8 activations, mixtures of experts.

use candle_kernels::QUANTIZED;
use cudarc::driver::LaunchConfig;

use crate::harness::{Arg, Data, assert_close, noise, on_each_card, sweeps, values};
use crate::weights::{
    TYPES, block, blocks, decoded, gained, packed, packed_with_sums, product, quantised, quantised_with_sums, restored,
};

sweeps! {
    every_type_decodes_as_its_format_says,
    rows_are_found_by_their_ids,
    activations_become_int8_with_a_scale_per_32,
    products_with_f32_activations_are_sums_of_decoded_weights,
    products_with_int8_activations_are_exact_but_for_rounding,
    products_with_int8_activations_are_as_near_as_candles_on_cuda_and_nearer,
    a_product_without_a_whole_block_is_zero,
    products_of_many_rows_go_through_16_bits,
    experts_have_weights_of_their_own,
}

/// Columns that are whole blocks, and no multiple of the padding.
const COLUMNS: usize = 768;
const PADDED: usize = 1024;

fn grid(x: usize, y: usize, z: usize, block: (u32, u32, u32)) -> LaunchConfig {
    LaunchConfig { grid_dim: (x as u32, y as u32, z as u32), block_dim: block, shared_mem_bytes: 0 }
}

/// Compares with a share of the greatest magnitude: sums cancel.
fn close(what: &str, got: &Data, expected: &[f64], share: f64) {
    let size = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (at, (got, expected)) in got.values().into_iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= share * size, "{what}: element {at} is {got}, expected {expected}");
    }
    assert_eq!(got.values().len(), expected.len(), "{what}");
}

fn every_type_decodes_as_its_format_says() {
    on_each_card(|card| {
        for name in TYPES.into_iter().chain(["q8_K"]) {
            let (size, _) = block(name);
            // As many weights as two blocks of 256.
            let data = blocks(name, 512 / size, 50);
            for out in ["f32", "f16"] {
                let kernel = format!("dequantize_block_{name}_{out}");
                let mut args = vec![Arg::In(Data::raw(data.clone())), Arg::Out(Data::unwritten(out, 512))];
                let mut config = grid(2, 1, 1, (32, 1, 1));
                match name {
                    "q5_0" | "q5_1" => {
                        args.push(Arg::Int(512));
                        config = grid(1, 1, 1, (256, 1, 1));
                    }
                    _ if size == 32 => args.push(Arg::Int(16)),
                    _ => {}
                }
                let got = card.run(&QUANTIZED, &kernel, config, &args);
                assert_close(&format!("{kernel} on {}", card.name), &got[0], &decoded(name, &data), 2.0);
            }
        }
    });
}

fn rows_are_found_by_their_ids() {
    const ROWS: usize = 5;
    on_each_card(|card| {
        for name in TYPES.into_iter().chain(["f32", "f16", "bf16"]) {
            let float = name.starts_with('f') || name.starts_with('b');
            let (data, rows) = if float {
                let x = values(if name == "bf16" { "bf16" } else { name_of(name) }, ROWS * COLUMNS, 51);
                (Data::new(name_of(name), &x).bytes, x)
            } else {
                let data = blocks(name, ROWS * COLUMNS / block(name).0, 51);
                let rows = decoded(name, &data);
                (data, rows)
            };
            let ids = [3.0, 0.0, 4.0, 3.0];
            let row_bytes = data.len() / ROWS;
            let args = [
                Arg::In(Data::raw(with_padding(data, if float { row_bytes / COLUMNS } else { 0 }, name))),
                Arg::In(Data::new("u32", &ids)),
                Arg::Out(Data::unwritten("f32", ids.len() * COLUMNS)),
                Arg::Size(COLUMNS as u64),
                Arg::Size(row_bytes as u64),
            ];
            let kernel = format!("get_rows_{name}");
            let got = card.run(&QUANTIZED, &kernel, grid(ids.len(), 3, 1, (64, 1, 1)), &args);
            let expected: Vec<f64> =
                ids.iter().flat_map(|&id| rows[id as usize * COLUMNS..][..COLUMNS].to_vec()).collect();
            assert_close(&format!("{kernel} on {}", card.name), &got[0], &expected, 2.0);
        }
    });
}

/// What Candle allocates for weights: 512 more, of so many bytes each or in blocks.
fn with_padding(mut data: Vec<u8>, float_bytes: usize, name: &str) -> Vec<u8> {
    let padding = if float_bytes > 0 { 512 * float_bytes } else { 512 / block(name).0 * block(name).1 };
    data.resize(data.len() + padding, 0);
    data
}

fn name_of(name: &str) -> &'static str {
    match name {
        "f32" => "f32",
        "f16" => "f16",
        _ => "bf16",
    }
}

/// Rows of activations: noise, and one group of nothing.
fn activations(rows: usize, columns: usize) -> Vec<f64> {
    let mut x: Vec<f64> = noise(rows * columns, 52).into_iter().map(|x| f64::from(x as f32)).collect();
    x[32..64].fill(0.0);
    x
}

fn activations_become_int8_with_a_scale_per_32() {
    on_each_card(|card| {
        let x = activations(2, COLUMNS);
        let args = [
            Arg::In(Data::new("f32", &x)),
            Arg::Out(Data::unwritten("u8", 2 * PADDED / 32 * 36)),
            Arg::Int(COLUMNS as u32),
            Arg::Int(PADDED as u32),
        ];
        let got = card.run(&QUANTIZED, "quantize_q8_1", grid(PADDED / 256, 2, 1, (256, 1, 1)), &args);
        let (codes, scales, sums) = quantised_with_sums(&x, COLUMNS, PADDED);
        assert_eq!(got[0].bytes, packed_with_sums(&codes, &scales, &sums, PADDED), "on {}", card.name);
    });
}

fn products_with_f32_activations_are_sums_of_decoded_weights() {
    const OUTPUTS: usize = 6;
    on_each_card(|card| {
        for name in TYPES {
            let data = blocks(name, OUTPUTS * COLUMNS / block(name).0, 53);
            let x = activations(1, COLUMNS);
            let kernel = if block(name).0 == 32 {
                format!("dequantize_mul_mat_vec_{name}_cuda")
            } else {
                format!("dequantize_mul_mat_vec_{}", name.to_lowercase())
            };
            let expected = product(&decoded(name, &data), &x, COLUMNS, COLUMNS);
            let args = [
                Arg::In(Data::raw(data)),
                Arg::In(Data::new("f32", &x)),
                Arg::Out(Data::unwritten("f32", OUTPUTS)),
                Arg::Int(COLUMNS as u32),
                Arg::Int(OUTPUTS as u32),
            ];
            let got = card.run(&QUANTIZED, &kernel, grid(OUTPUTS, 1, 1, (32, 1, 1)), &args);
            close(&format!("{kernel} on {}", card.name), &got[0], &expected, 2e-5);
        }
    });
}

fn products_with_int8_activations_are_exact_but_for_rounding() {
    const OUTPUTS: usize = 6;
    on_each_card(|card| {
        for name in TYPES {
            let data = blocks(name, OUTPUTS * COLUMNS / block(name).0, 54);
            let weights = decoded(name, &data);
            for rows in 1..=8 {
                let (codes, scales) = quantised(&activations(rows, COLUMNS), COLUMNS, PADDED);
                let args = [
                    Arg::In(Data::raw(data.clone())),
                    Arg::In(Data::raw(packed(&codes, &scales, PADDED))),
                    Arg::Out(Data::unwritten("f32", rows * OUTPUTS)),
                    Arg::Int(COLUMNS as u32),
                    Arg::Int(OUTPUTS as u32),
                    Arg::Int(PADDED as u32),
                    Arg::Int(OUTPUTS as u32),
                ];
                let kernel = format!("mul_mat_vec_{name}_q8_1_cuda{rows}");
                let groups = if rows == 1 { OUTPUTS } else { OUTPUTS.div_ceil(2) };
                let got = card.run(&QUANTIZED, &kernel, grid(groups, 1, 1, (32, 4, 1)), &args);
                let expected = product(&weights, &restored(&codes, &scales), COLUMNS, PADDED);
                close(&format!("{kernel} on {}", card.name), &got[0], &expected, 2e-5);
                // The product of any number of rows is the same one.
                let mut args = args.to_vec();
                args.insert(5, Arg::Int(rows as u32));
                let of_many = format!("mul_mat_{name}");
                let again = card.run(&QUANTIZED, &of_many, grid(groups, 1, 1, (32, 4, 1)), &args);
                assert_eq!(again[0].bytes, got[0].bytes, "{of_many} and {kernel} on {}", card.name);
            }
        }
    });
}

/// The root of the mean square of differences.
fn apart(got: &[f64], expected: &[f64]) -> f64 {
    let squares: f64 = got.iter().zip(expected).map(|(got, expected)| (got - expected).powi(2)).sum();
    (squares / got.len() as f64).sqrt()
}

/// Activations rounded to the nearest codes, as ggml and Candle's CUDA kernels have them: what they stand for, and how much
/// more the f16 sums beside them are.
fn nearest(x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut stood_for, mut more) = (Vec::new(), Vec::new());
    for group in x.chunks_exact(32) {
        let scale = group.iter().fold(0.0f64, |most, x| most.max(x.abs())) / 127.0;
        let kept = half::f16::from_f64(scale).to_f64();
        let values: Vec<f64> = group.iter().map(|x| (x / scale).round() * kept).collect();
        more.push(half::f16::from_f64(group.iter().sum()).to_f64() - values.iter().sum::<f64>());
        stood_for.extend(values);
    }
    (stood_for, more)
}

fn products_with_int8_activations_are_as_near_as_candles_on_cuda_and_nearer() {
    const OUTPUTS: usize = 24;
    // What a mat-vec takes, and what the matrix units do.
    const ROWS: [usize; 2] = [8, 24];
    const OUTLIERS: &str = "with outliers";
    type Make = fn(usize, f64) -> f64;
    let kinds: [(&str, Make); 3] = [
        ("centred", |_, x| x),
        ("positive", |_, x| 1.0 + 0.5 * x.abs()),
        (OUTLIERS, |at, x| if at % 128 == 5 { 40.0 * x } else { x }),
    ];
    on_each_card(|card| {
        for (kind, make) in kinds {
            let x = noise(ROWS[1] * PADDED, 57).into_iter().enumerate().map(|(at, x)| make(at, x));
            let x: Vec<f64> = x.map(|x| f64::from(x as f32)).collect();
            let quantise = [
                Arg::In(Data::new("f32", &x)),
                Arg::Out(Data::unwritten("u8", ROWS[1] * PADDED / 32 * 36)),
                Arg::Int(PADDED as u32),
                Arg::Int(PADDED as u32),
            ];
            let codes = card.run(&QUANTIZED, "quantize_q8_1", grid(PADDED / 256, ROWS[1], 1, (256, 1, 1)), &quantise);
            let (stood_for, more) = nearest(&x);
            // Weights of either sign, and for one type such as are all near an end of their range.
            for (name, one_sided) in TYPES.into_iter().map(|name| (name, false)).chain([("q4_0", true)]) {
                let mut data = blocks(name, OUTPUTS * PADDED / block(name).0, 58);
                if one_sided {
                    data.iter_mut().enumerate().filter(|(at, _)| at % 18 >= 2).for_each(|(_, byte)| *byte &= 0x11);
                }
                let weights = decoded(name, &data);
                let exact = product(&weights, &x, PADDED, PADDED);
                let of_codes = product(&weights, &stood_for, PADDED, PADDED);
                let gained = gained(name, &data, PADDED, &more, PADDED);
                let upstream: Vec<f64> =
                    of_codes.iter().zip(gained).map(|(of_codes, gained)| of_codes + gained).collect();
                let squares = |x: &[f64], lines: usize| x.iter().map(|x| x * x).sum::<f64>() / lines as f64;
                let size = (squares(&weights, OUTPUTS) * squares(&x, ROWS[1])).sqrt();
                for rows in ROWS {
                    let args = [
                        Arg::In(Data::raw(data.clone())),
                        Arg::In(Data::raw(codes[0].bytes.clone())),
                        Arg::Out(Data::unwritten("f32", rows * OUTPUTS)),
                        Arg::Int(PADDED as u32),
                        Arg::Int(OUTPUTS as u32),
                        Arg::Int(rows as u32),
                        Arg::Int(PADDED as u32),
                        Arg::Int(OUTPUTS as u32),
                    ];
                    let kernel = format!("mul_mat_{name}");
                    let got = card.run(&QUANTIZED, &kernel, grid(OUTPUTS / 2, 1, 1, (32, 4, 1)), &args);
                    let got = got[0].values();
                    let of_rows = |product: &[f64]| apart(&product[..rows * OUTPUTS], &exact[..rows * OUTPUTS]);
                    let (ours, of_codes, upstream) = (of_rows(&got), of_rows(&of_codes), of_rows(&upstream));
                    let what = format!(
                        "{rows} rows, {name} of one side: {one_sided}, {kind}, on {}: {:.2e} of the factors' lengths; \
                         nearest codes {:.2e}, with f16 sums {:.2e}",
                        card.name,
                        ours / size,
                        of_codes / size,
                        upstream / size
                    );
                    println!("{what}");
                    // What is left of the sums, a sixteenth of a code, is of no account beside other roundings.
                    // Where few outliers make up a row, the matrix units' f16 factors are off by 2^-12 each of them.
                    let f16 = if rows == ROWS[1] && kind == OUTLIERS { 7e-5 } else { 0.0 };
                    assert!(ours <= 1.5 * of_codes.min(upstream) + (1e-5 + f16) * size, "{what}");
                    assert!(ours <= (f16 + if one_sided { 5e-5 } else { 1e-3 }) * size, "{what}");
                }
            }
        }
    });
}

fn a_product_without_a_whole_block_is_zero() {
    const ROWS: usize = 9;
    on_each_card(|card| {
        for (columns, whole) in [(16, 0), (48, 32)] {
            let data = blocks("q4_0", 4, 59);
            let (codes, scales) = quantised(&noise(ROWS * columns, 60), columns, 512);
            let args = [
                Arg::In(Data::raw(data.clone())),
                Arg::In(Data::raw(packed(&codes, &scales, 512))),
                Arg::Out(Data::unwritten("f32", ROWS * 4)),
                Arg::Int(columns as u32),
                Arg::Int(4),
                Arg::Int(ROWS as u32),
                Arg::Int(512),
                Arg::Int(4),
            ];
            let got = card.run(&QUANTIZED, "mul_mat_q4_0", grid(1, 1, 1, (32, 4, 1)), &args);
            let expected = match whole {
                0 => vec![0.0; ROWS * 4],
                _ => product(&decoded("q4_0", &data), &restored(&codes, &scales), whole, 512),
            };
            close(&format!("{columns} columns on {}", card.name), &got[0], &expected, 2e-3);
        }
    });
}

fn products_of_many_rows_go_through_16_bits() {
    const OUTPUTS: usize = 20;
    on_each_card(|card| {
        // By the blocks as they lie, and by weights that are decoded first.
        for (name, rows) in TYPES.into_iter().flat_map(|name| [(name, 11), (name, 37)]) {
            let data = blocks(name, OUTPUTS * COLUMNS / block(name).0, 55);
            // Values far beyond f16, which has to be divided by something.
            let x: Vec<f64> = activations(rows, COLUMNS).into_iter().map(|x| x * 1e6).collect();
            let (codes, scales) = quantised(&x, COLUMNS, PADDED);
            let expected = product(&decoded(name, &data), &restored(&codes, &scales), COLUMNS, PADDED);
            let args = [
                Arg::In(Data::raw(data)),
                Arg::In(Data::raw(packed(&codes, &scales, PADDED))),
                Arg::Out(Data::unwritten("f32", rows * OUTPUTS)),
                Arg::Int(COLUMNS as u32),
                Arg::Int(OUTPUTS as u32),
                Arg::Int(rows as u32),
                Arg::Int(PADDED as u32),
                Arg::Int(OUTPUTS as u32),
            ];
            let kernel = format!("mul_mat_{name}");
            let got = card.run(&QUANTIZED, &kernel, grid(1, 1, 1, (32, 4, 1)), &args);
            // Each product is off by two roundings to f16, 2^-11 each.
            close(&format!("{kernel}, {rows} rows on {}", card.name), &got[0], &expected, 2e-3);
        }
    });
}

fn experts_have_weights_of_their_own() {
    const OUTPUTS: usize = 5;
    const TOP: usize = 2;
    const BATCH: usize = 3;
    on_each_card(|card| {
        for (word, name) in
            [("q2k", "q2_K"), ("q3k", "q3_K"), ("q4k", "q4_K"), ("q5k", "q5_K"), ("q6k", "q6_K"), ("q8_0", "q8_0")]
        {
            let data = blocks(name, 4 * OUTPUTS * COLUMNS / block(name).0, 56);
            let weights = decoded(name, &data);
            let experts = [3, 1, 0, 0, 2, 3];
            for own in [1, TOP] {
                let (codes, scales) = quantised(&activations(BATCH * own, COLUMNS), COLUMNS, PADDED);
                let x = restored(&codes, &scales);
                let args = [
                    Arg::In(Data::raw(with_padding(data.clone(), 0, name))),
                    Arg::In(Data::raw(packed(&codes, &scales, PADDED))),
                    Arg::In(Data::new("u32", &experts.map(f64::from))),
                    Arg::Out(Data::unwritten("f32", BATCH * TOP * OUTPUTS)),
                    Arg::Int(OUTPUTS as u32),
                    Arg::Int(COLUMNS as u32),
                    Arg::Int(BATCH as u32),
                    Arg::Int(TOP as u32),
                    Arg::Int(PADDED as u32),
                    Arg::Int(own as u32),
                ];
                let kernel = format!("indexed_moe_forward_{word}_q8_1");
                let got = card.run(&QUANTIZED, &kernel, grid(OUTPUTS, BATCH, TOP, (32, 4, 1)), &args);
                let of = |place: usize| {
                    let row = if own == 1 { place / TOP } else { place };
                    let lines = &weights[experts[place] as usize * OUTPUTS * COLUMNS..][..OUTPUTS * COLUMNS];
                    product(lines, &x[row * PADDED..][..PADDED], COLUMNS, PADDED)
                };
                let expected: Vec<f64> = (0..BATCH * TOP).flat_map(of).collect();
                close(&format!("{kernel} on {}", card.name), &got[0], &expected, 2e-5);
            }
        }
    });
}
