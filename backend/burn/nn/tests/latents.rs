//! MLA around its cache: rows chosen for each query, queries absorbed, rows expanded, against f64.

#[path = "../../../../kernels/tests/oracle/latents.rs"]
mod oracle;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use oracle::{CHOSEN, EPSILON, FIXED, HEADS, Layer, ROW, TURNED, decoded, e4m3, near, slot};
use rocfire_burn::RocmDevice;
use rocfire_burn_nn::{
    AbsorbInputs, CodedMatrices, Format, LatentCache, MatrixCoding, PagedParams, RopeFrequencies, RopeScaling,
    RopeStyle, RotaryEncoding, ScaleKind, Sequences,
};

const LATENT: usize = 128;
const CHANNELS: usize = 192;
const BLOCK: usize = 4;

fn device() -> Device {
    Device::from(RocmDevice::emulated("gfx942").unwrap().burn())
}

/// Numbers between -1 and 1 that have nothing to do with each other and that every type has.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    let number = |at: usize| (((seed * 7919 + at) as f32 * 12.9898).sin() * 43758.547).fract();
    (0..count).map(|at| (number(at) * 64.0).round() / 64.0).collect()
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], dtype: DType) -> Tensor<D> {
    Tensor::<D>::from_data(TensorData::new(values, shape), &device()).cast(dtype)
}

fn integers<const D: usize>(values: Vec<i32>, shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::<D, Int>::from_data(TensorData::new(values, shape), &device())
}

fn read<const D: usize>(x: Tensor<D>) -> Vec<f64> {
    x.into_data().convert::<f64>().try_into_vec::<f64>().unwrap()
}

#[test]
fn each_query_sees_the_rows_that_are_chosen_for_it() {
    const SCALE: f64 = 0.2;
    // Eight heads and more are taken by the matrix unit.
    for (heads, dtype, tolerance) in
        [(4, DType::F32, 1e-5), (4, DType::BF16, 4e-3), (20, DType::F16, 1e-3), (20, DType::BF16, 4e-3)]
    {
        let mut cache = LatentCache::new([10, BLOCK, LATENT, CHANNELS - LATENT], None, dtype, &device()).unwrap();
        let rows: Vec<Vec<f32>> = (0..11).map(|token| numbers(900 + token, CHANNELS)).collect();
        let there = tensor(rows.concat(), [11, CHANNELS], dtype);
        let rotated = there.clone().narrow(1, LATENT, CHANNELS - LATENT);
        cache.write(
            there.narrow(1, 0, LATENT),
            rotated,
            integers((0..11).map(|token| slot(token) as i32).collect(), [11]),
        );
        let q = numbers(70, 3 * heads * CHANNELS);
        let chosen = CHOSEN.iter().flatten().map(|token| token.map_or(-1, |token| slot(token) as i32)).collect();
        let mut params = PagedParams::default();
        params.scale = Some(SCALE);
        let q_there = tensor(q.clone(), [3, heads, CHANNELS], dtype);
        let out = cache.sparse_attention(q_there, integers(chosen, [3, 5]), params, None);
        assert_eq!(out.dims(), [3, heads, LATENT]);
        for (at, (q, got)) in q.chunks(CHANNELS).zip(read(out).chunks(LATENT)).enumerate() {
            let want = oracle::attended(q, &rows, &CHOSEN[at / heads], LATENT, SCALE);
            for (d, (got, want)) in got.iter().zip(want).enumerate() {
                assert!((got - want).abs() <= tolerance, "{dtype:?}, row {at}, {d}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn queries_are_absorbed_and_rows_written_and_expanded() {
    const LATENT: usize = oracle::LATENT;
    const TOKENS: [(usize, i32); 5] = [(0, 9), (1, -1), (7, 8), (8, 21), (30, 20)];
    let frequencies = RopeFrequencies::new(TURNED, 10_000.0, RopeScaling::None).unwrap();
    let rope = RotaryEncoding::new(&frequencies, 40, RopeStyle::GptJ, &device());
    for (dtype, tolerance) in [(DType::F32, 2e-6), (DType::F16, 1e-3), (DType::BF16, 8e-3)] {
        let mut cache = LatentCache::new([6, BLOCK, LATENT, TURNED], None, dtype, &device()).unwrap();
        let before = cache.clone();
        let count = TOKENS.len();
        let each = HEADS * (FIXED + TURNED);
        let (q, kv) = (numbers(1, count * each), numbers(2, count * ROW));
        // Of each head keys, then values.
        let (matrix, norm) = (numbers(3, HEADS * 2 * FIXED * LATENT), numbers(4, LATENT));
        let matrix_there = tensor(matrix.clone(), [HEADS, 2 * FIXED, LATENT], dtype);
        let kv_there = tensor(kv.clone(), [count, ROW], dtype);
        let inputs = AbsorbInputs {
            q: tensor(q.clone(), [count, HEADS, FIXED + TURNED], dtype),
            weight: matrix_there.clone().narrow(1, 0, FIXED),
            latents: kv_there.clone().narrow(1, 0, LATENT),
            keys: kv_there.narrow(1, LATENT, TURNED),
            norm: Some((tensor(norm.clone(), [LATENT], dtype), EPSILON)),
            rope: &rope,
            positions: integers(TOKENS.map(|(position, _)| position as i32).to_vec(), [count]),
            slots: integers(TOKENS.map(|(_, slot)| slot).to_vec(), [count]),
        };
        let once = before.clone().absorb(inputs.clone());
        let out = cache.absorb(inputs);
        assert_eq!(read(once), read(out.clone()), "{dtype:?}: the same once more");
        assert_eq!(out.dims(), [count, HEADS, ROW]);
        // Sequences of two keys on the third page, and of two on the last.
        let of = Sequences {
            pages: integers(vec![2, 5], [2, 1]),
            lens: integers(vec![2, 2], [2]),
            keys_most: BLOCK,
            queries: None,
        };
        let starts = || integers(vec![0, 2, 4], [3]);
        let (out, rows) = (read(out), read(cache.gather(of.clone(), starts(), 4, dtype)));
        let rows_before = read(before.gather(of.clone(), starts(), 4, dtype));
        assert!(rows_before.iter().all(|&x| x == 0.0), "a clone stays as it was");
        let layer = Layer { q: &q, kv: &kv, matrix: &matrix, norm: &norm };
        for (token, (position, slot)) in TOKENS.into_iter().enumerate() {
            for head in 0..HEADS {
                let got = &out[(token * HEADS + head) * ROW..][..ROW];
                let want = layer.query(token, head, position);
                near(&format!("{dtype:?} query of {token}, {head}"), got, &want, tolerance);
            }
            let Some(row) = [8, 9, 20, 21].iter().position(|&own| own == slot) else { continue };
            let want = layer.row(token, position);
            near(&format!("{dtype:?} row of {token}"), &rows[row * ROW..][..ROW], &want, tolerance);
        }
        let [keys, values] = cache.expand(of.clone(), starts(), 5, matrix_there.clone(), FIXED);
        assert_eq!((keys.dims(), values.dims()), ([5, HEADS, FIXED + TURNED], [5, HEADS, FIXED]));
        let (keys, values) = (read(keys), read(values));
        let held: Vec<&[f64]> = rows.chunks(ROW).collect();
        layer.check_expanded(&format!("{dtype:?}"), &held, [&keys, &values], tolerance);

        // The same matrix in codes.
        let [of_n, of_k] = oracle::BLOCK;
        let (format, kind) = (Format::E4M3, ScaleKind::F32);
        let coding = MatrixCoding { format, block: [of_k, of_n], kind, is_transposed: true };
        let by_latent = matrix_there.reshape([1, HEADS * 2 * FIXED, LATENT]).swap_dims(1, 2);
        let coded = CodedMatrices::of(by_latent, coding).unwrap();
        let codes = coded.codes.val().into_data().convert::<u8>().try_into_vec::<u8>().unwrap();
        let scales = coded.scales.as_ref().unwrap().val().into_data().try_into_vec::<f32>().unwrap();
        // As their type has them.
        let matrix = read(tensor(decoded(&codes, &scales), [HEADS * 2 * FIXED, LATENT], dtype));
        let matrix: Vec<f32> = matrix.into_iter().map(|x| x as f32).collect();
        let layer = Layer { matrix: &matrix, ..layer };
        let [keys, values] = cache.expand_coded(of.clone(), (starts(), 5), &coded, [HEADS, FIXED], dtype);
        layer.check_expanded(&format!("{dtype:?} by codes"), &held, [&read(keys), &read(values)], tolerance);

        // Queries of codes are those of their numbers, bit for bit.
        let codes: Vec<u8> = (0..2 * HEADS * ROW).map(|at| (at * 37 % 0x50 + at % 2 * 0x80) as u8).collect();
        let shape = [2, HEADS, ROW];
        let q = codes.iter().map(|&code| e4m3(code) * 0.25).collect();
        let mut params = PagedParams::default();
        params.scale = Some(0.3);
        let want = cache.attention(tensor(q, shape, dtype), of.clone(), params, None);
        let codes = Tensor::<3, Int>::from_data(TensorData::new(codes, shape), (&device(), DType::U8));
        let scale = tensor(vec![0.25], [1], DType::F32);
        let got = cache.attention_of_codes((codes, Format::E4M3), scale, dtype, of, params);
        assert_eq!(read(got), read(want), "{dtype:?} asked by codes");
    }
}
