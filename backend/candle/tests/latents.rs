//! MLA around its cache: rows chosen for each query, queries absorbed, rows expanded, against f64 over what the device was given.

mod common;
#[path = "../../../kernels/tests/oracle/latents.rs"]
mod oracle;

use candle_core::DType::{BF16, F16, F32};
use candle_core::{DType, Device, Tensor};
use common::gpu;
use oracle::{CHOSEN, EPSILON, FIXED, HEADS, Layer, ROW, TURNED, decoded, e4m3, near, slot};
use rocfire_candle::{
    AbsorbInputs, CodedMatrices, Format, LatentCache, MatrixCoding, PagedParams, RopeFrequencies, RopeScaling,
    RopeStyle, ScaleKind, Sequences, rope_tables,
};

const LATENT: usize = 512;
const CHANNELS: usize = 576;
const BLOCK: usize = 4;

/// Numbers between -1 and 1 that have nothing to do with each other, as a type has them.
fn numbers(seed: usize, count: usize, dtype: DType) -> Vec<f32> {
    let number = |at: usize| (((seed * 7919 + at) as f32 * 12.9898).sin() * 43758.547).fract();
    let values: Vec<f32> = (0..count).map(number).collect();
    let there = Tensor::new(values, &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
    there.to_dtype(F32).unwrap().to_vec1().unwrap()
}

fn tensor(values: &[f32], shape: &[usize], dtype: DType) -> Tensor {
    Tensor::from_slice(values, shape, &gpu()).unwrap().to_dtype(dtype).unwrap()
}

fn read(x: &Tensor) -> Vec<f64> {
    let x = x.to_dtype(F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    x.into_iter().map(f64::from).collect()
}

#[test]
fn each_query_sees_the_rows_that_are_chosen_for_it() {
    const SCALE: f64 = 0.11;
    let device = gpu();
    // Eight heads and more are taken by the matrix unit.
    for (heads, dtype, tolerance) in [(4, F32, 1e-5), (4, F16, 1e-3), (20, F16, 1e-3), (20, BF16, 4e-3)] {
        let cache = LatentCache::new([10, BLOCK, LATENT, CHANNELS - LATENT], None, dtype, &device).unwrap();
        let rows: Vec<Vec<f32>> = (0..11).map(|token| numbers(900 + token, CHANNELS, dtype)).collect();
        let there = tensor(&rows.concat(), &[11, CHANNELS], dtype);
        let slots = Tensor::new((0..11).map(|token| slot(token) as i64).collect::<Vec<_>>(), &device).unwrap();
        let rotated = there.narrow(1, LATENT, CHANNELS - LATENT).unwrap();
        cache.write(&there.narrow(1, 0, LATENT).unwrap(), &rotated, &slots).unwrap();
        let q = numbers(70, 3 * heads * CHANNELS, dtype);
        let chosen: Vec<u32> =
            CHOSEN.iter().flatten().map(|token| token.map_or(u32::MAX, |token| slot(token) as u32)).collect();
        let chosen = Tensor::from_vec(chosen, (3, 5), &device).unwrap();
        let mut params = PagedParams::default();
        params.scale = Some(SCALE);
        let q_there = tensor(&q, &[3, heads, CHANNELS], dtype);
        let out = cache.sparse_attention(&q_there, &chosen, params, None).unwrap();
        assert_eq!(out.dims(), [3, heads, LATENT]);
        for (at, (q, got)) in q.chunks(CHANNELS).zip(read(&out).chunks(LATENT)).enumerate() {
            let want = oracle::attended(q, &rows, &CHOSEN[at / heads], LATENT, SCALE);
            for (d, (got, want)) in got.iter().zip(want).enumerate() {
                assert!((got - want).abs() <= tolerance, "{dtype:?}, row {at}, {d}: {got}, not {want}");
            }
        }
        params.window = Some(3);
        let error = cache.sparse_attention(&q_there, &chosen, params, None).unwrap_err().to_string();
        assert!(error.contains("window"), "{error}");
    }
}

#[test]
fn queries_are_absorbed_and_rows_written_and_expanded() {
    const LATENT: usize = oracle::LATENT;
    const TOKENS: [(usize, i64); 5] = [(0, 9), (1, -1), (7, 8), (8, 21), (30, 20)];
    let device = gpu();
    let tables = rope_tables(&RopeFrequencies::new(TURNED, 10_000.0, RopeScaling::None).unwrap(), 40, &device).unwrap();
    for (dtype, tolerance) in [(F32, 2e-6), (F16, 1e-3), (BF16, 8e-3)] {
        let cache = LatentCache::new([6, BLOCK, LATENT, TURNED], None, dtype, &device).unwrap();
        let count = TOKENS.len();
        let each = HEADS * (FIXED + TURNED);
        let (q, kv) = (numbers(1, count * each, dtype), numbers(2, count * ROW, dtype));
        // Of each head keys, then values.
        let (matrix, norm) = (numbers(3, HEADS * 2 * FIXED * LATENT, dtype), numbers(4, LATENT, dtype));
        let matrix_there = tensor(&matrix, &[HEADS, 2 * FIXED, LATENT], dtype);
        let kv_there = tensor(&kv, &[count, ROW], dtype);
        let positions = Tensor::new(TOKENS.map(|(position, _)| position as i64).to_vec(), &device).unwrap();
        let slots = Tensor::new(TOKENS.map(|(_, slot)| slot).to_vec(), &device).unwrap();
        let inputs = AbsorbInputs {
            q: &tensor(&q, &[count, HEADS, FIXED + TURNED], dtype),
            weight: &matrix_there.narrow(1, 0, FIXED).unwrap(),
            latents: &kv_there.narrow(1, 0, LATENT).unwrap(),
            keys: &kv_there.narrow(1, LATENT, TURNED).unwrap(),
            norm: Some((&tensor(&norm, &[LATENT], dtype), EPSILON)),
            tables: [&tables[0], &tables[1]],
            style: RopeStyle::GptJ,
            positions: &positions,
            slots: &slots,
        };
        let out = cache.absorb(&inputs).unwrap();
        assert_eq!(out.dims(), [count, HEADS, ROW]);
        assert_eq!(read(&cache.absorb(&inputs).unwrap()), read(&out), "{dtype:?}: the same once more");
        let (out, rows) = (read(&out), read(&cache.rows));
        let layer = Layer { q: &q, kv: &kv, matrix: &matrix, norm: &norm };
        for (token, (position, slot)) in TOKENS.into_iter().enumerate() {
            for head in 0..HEADS {
                let got = &out[(token * HEADS + head) * ROW..][..ROW];
                let want = layer.query(token, head, position);
                near(&format!("{dtype:?} query of {token}, {head}"), got, &want, tolerance);
            }
            let Ok(slot) = usize::try_from(slot) else { continue };
            let want = layer.row(token, position);
            near(&format!("{dtype:?} row of {token}"), &rows[slot * ROW..][..ROW], &want, tolerance);
        }
        let written: Vec<usize> = TOKENS.iter().filter_map(|&(_, slot)| usize::try_from(slot).ok()).collect();
        let is_empty = |slot: usize| rows[slot * ROW..][..ROW].iter().all(|&x| x == 0.0);
        assert!((0..6 * BLOCK).filter(|slot| !written.contains(slot)).all(is_empty), "nothing else is written");

        // Two sequences, of two keys on the third page and of two on the last.
        let pages = Tensor::new(&[[2u32], [5]], &device).unwrap();
        let (lens, starts) = (Tensor::new(&[2u32, 2], &device).unwrap(), Tensor::new(&[0u32, 2, 4], &device).unwrap());
        let of = Sequences { pages: &pages, lens: &lens, keys_most: BLOCK, queries: None };
        let [keys, values] = cache.expand(&of, &starts, 5, &matrix_there, FIXED).unwrap();
        assert_eq!((keys.dims(), values.dims()), (&[5, HEADS, FIXED + TURNED][..], &[5, HEADS, FIXED][..]));
        let (keys, values) = (read(&keys), read(&values));
        let held = [8, 9, 20, 21].map(|slot| &rows[slot * ROW..][..ROW]);
        layer.check_expanded(&format!("{dtype:?}"), &held, [&keys, &values], tolerance);

        // The same matrix in codes: either way round the numbers are those of the codes.
        let [of_n, of_k] = oracle::BLOCK;
        for is_transposed in [true, false] {
            let (format, kind) = (Format::E4M3, ScaleKind::F32);
            let coding = MatrixCoding { format, block: [of_k, of_n], kind, is_transposed };
            let by_latent = matrix_there.reshape((1, HEADS * 2 * FIXED, LATENT)).unwrap().transpose(1, 2).unwrap();
            let coded = CodedMatrices::of(&by_latent, coding).unwrap();
            let by_output = |x: &Tensor| if is_transposed { x.clone() } else { x.transpose(1, 2).unwrap() };
            let codes = by_output(&coded.codes).flatten_all().unwrap().to_vec1().unwrap();
            let scales = by_output(&coded.scales).flatten_all().unwrap().to_vec1().unwrap();
            // As their type has them.
            let matrix = Tensor::new(decoded(&codes, &scales), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
            let matrix: Vec<f32> = matrix.to_dtype(F32).unwrap().to_vec1().unwrap();
            let layer = Layer { matrix: &matrix, ..layer };
            let [keys, values] = cache.expand_coded(&of, (&starts, 5), &coded, [HEADS, FIXED], dtype).unwrap();
            let (keys, values) = (read(&keys), read(&values));
            layer.check_expanded(&format!("{dtype:?} by codes"), &held, [&keys, &values], tolerance);
        }
        let coding = MatrixCoding::new(Format::E4M3, [of_k, of_n]);
        let two =
            CodedMatrices::of(&tensor(&numbers(5, 2 * LATENT * FIXED, dtype), &[2, LATENT, FIXED], dtype), coding);
        let error = cache.expand_coded(&of, (&starts, 5), &two.unwrap(), [1, 8], dtype).unwrap_err().to_string();
        assert!(error.contains("of one matrix"), "{error}");

        // Queries of codes are those of their numbers, bit for bit.
        let codes: Vec<u8> = (0..2 * HEADS * ROW).map(|at| (at * 37 % 0x50 + at % 2 * 0x80) as u8).collect();
        let shape = [2, HEADS, ROW];
        let scale = Tensor::new(&[0.25_f32], &device).unwrap();
        let q: Vec<f32> = codes.iter().map(|&code| e4m3(code) * 0.25).collect();
        let mut params = PagedParams::default();
        params.scale = Some(0.3);
        let want = cache.attention(&tensor(&q, &shape, dtype), &of, params, None).unwrap();
        let codes = Tensor::from_vec(codes, &shape, &device).unwrap();
        let got = cache.attention_of_codes((&codes, Format::E4M3), &scale, dtype, &of, params).unwrap();
        assert_eq!(read(&got), read(&want), "{dtype:?} asked by codes");
        let error = cache.attention_of_codes((&codes, Format::I4), &scale, dtype, &of, params).unwrap_err();
        assert!(error.to_string().contains("q_codes"), "{error}");
    }
}
