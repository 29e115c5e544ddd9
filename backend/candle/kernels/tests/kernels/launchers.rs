//! The launchers that Candle calls as C functions.

use core::ffi::c_void;

use candle_kernels::ffi;
use cudarc::driver::{CudaSlice, DevicePtr};

use crate::harness::{Card, Data, noise, on_each_card, rounded, values};
use crate::weights::{TYPES, block, blocks, decoded, gained, more, product, quantised, quantised_with_sums, restored};

const COLUMNS: usize = 768;
const PADDED: usize = 1024;
const OUTPUTS: usize = 6;

type MatVec = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void, i32, i32, i32, i32, i32, *mut c_void);
type Product = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
    i64,
    i64,
    i64,
    i64,
    i64,
    i32,
    i32,
    i64,
    i32,
    *mut c_void,
);

/// By type: to bf16, f16, f32.
const MAT_VECS: [[MatVec; 3]; 10] = [
    [ffi::launch_mmvq_gguf_q4_0_bf16_plain, ffi::launch_mmvq_gguf_q4_0_f16_plain, ffi::launch_mmvq_gguf_q4_0_f32_plain],
    [ffi::launch_mmvq_gguf_q4_1_bf16_plain, ffi::launch_mmvq_gguf_q4_1_f16_plain, ffi::launch_mmvq_gguf_q4_1_f32_plain],
    [ffi::launch_mmvq_gguf_q5_0_bf16_plain, ffi::launch_mmvq_gguf_q5_0_f16_plain, ffi::launch_mmvq_gguf_q5_0_f32_plain],
    [ffi::launch_mmvq_gguf_q5_1_bf16_plain, ffi::launch_mmvq_gguf_q5_1_f16_plain, ffi::launch_mmvq_gguf_q5_1_f32_plain],
    [ffi::launch_mmvq_gguf_q8_0_bf16_plain, ffi::launch_mmvq_gguf_q8_0_f16_plain, ffi::launch_mmvq_gguf_q8_0_f32_plain],
    [ffi::launch_mmvq_gguf_q2_k_bf16_plain, ffi::launch_mmvq_gguf_q2_k_f16_plain, ffi::launch_mmvq_gguf_q2_k_f32_plain],
    [ffi::launch_mmvq_gguf_q3_k_bf16_plain, ffi::launch_mmvq_gguf_q3_k_f16_plain, ffi::launch_mmvq_gguf_q3_k_f32_plain],
    [ffi::launch_mmvq_gguf_q4_k_bf16_plain, ffi::launch_mmvq_gguf_q4_k_f16_plain, ffi::launch_mmvq_gguf_q4_k_f32_plain],
    [ffi::launch_mmvq_gguf_q5_k_bf16_plain, ffi::launch_mmvq_gguf_q5_k_f16_plain, ffi::launch_mmvq_gguf_q5_k_f32_plain],
    [ffi::launch_mmvq_gguf_q6_k_bf16_plain, ffi::launch_mmvq_gguf_q6_k_f16_plain, ffi::launch_mmvq_gguf_q6_k_f32_plain],
];

const PRODUCTS: [Product; 10] = [
    ffi::launch_mmq_gguf_q4_0,
    ffi::launch_mmq_gguf_q4_1,
    ffi::launch_mmq_gguf_q5_0,
    ffi::launch_mmq_gguf_q5_1,
    ffi::launch_mmq_gguf_q8_0,
    ffi::launch_mmq_gguf_q2_k,
    ffi::launch_mmq_gguf_q3_k,
    ffi::launch_mmq_gguf_q4_k,
    ffi::launch_mmq_gguf_q5_k,
    ffi::launch_mmq_gguf_q6_k,
];

fn upload(card: &Card, bytes: &[u8]) -> CudaSlice<u8> {
    card.stream().clone_htod(bytes).unwrap()
}

fn address(card: &Card, memory: &CudaSlice<u8>) -> *mut c_void {
    memory.device_ptr(card.stream()).0 as *mut c_void
}

fn number(card: &Card) -> *mut c_void {
    card.stream().cu_stream().cast()
}

fn download(card: &Card, dtype: &'static str, memory: &CudaSlice<u8>) -> Vec<f64> {
    Data { dtype, bytes: card.stream().clone_dtoh(memory).unwrap() }.values()
}

/// Compares with a share of the greatest magnitude.
fn close(what: &str, got: &[f64], expected: &[f64], share: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let size = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= share * size, "{what}: element {at} is {got}, expected {expected}");
    }
}

#[test]
fn mat_vecs_take_one_to_eight_rows_of_every_type() {
    on_each_card(|card| {
        for (at, name) in TYPES.into_iter().enumerate() {
            let data = blocks(name, OUTPUTS * COLUMNS / block(name).0, 70);
            for (element, (dtype, share)) in [("bf16", 5e-3), ("f16", 1e-3), ("f32", 1e-5)].into_iter().enumerate() {
                // Every number of rows comes once with some type.
                let rows = (at * 3 + element) % 8 + 1;
                let x = values(dtype, rows * COLUMNS, 71);
                let (weights, rhs) = (upload(card, &data), upload(card, &Data::new(dtype, &x).bytes));
                let codes = upload(card, &vec![0; rows * PADDED / 32 * 36]);
                let out = upload(card, &Data::unwritten(dtype, rows * OUTPUTS).bytes);
                let quantise = match dtype {
                    "bf16" => ffi::launch_mmvq_gguf_quantize_q8_1_bf16,
                    "f16" => ffi::launch_mmvq_gguf_quantize_q8_1_f16,
                    _ => ffi::launch_mmvq_gguf_quantize_q8_1_f32,
                };
                // SAFETY: the memory is the device's, and as long as the sizes say.
                unsafe {
                    quantise(
                        address(card, &rhs),
                        address(card, &codes),
                        COLUMNS as i32,
                        PADDED as i32,
                        rows as i32,
                        number(card),
                    );
                    MAT_VECS[at][element](
                        address(card, &weights),
                        address(card, &codes),
                        address(card, &out),
                        COLUMNS as i32,
                        OUTPUTS as i32,
                        (PADDED / 32) as i32,
                        OUTPUTS as i32,
                        rows as i32,
                        number(card),
                    );
                }
                let (codes, scales, sums) = quantised_with_sums(&x, COLUMNS, PADDED);
                let of_codes = product(&decoded(name, &data), &restored(&codes, &scales), COLUMNS, PADDED);
                let gained = gained(name, &data, COLUMNS, &more(&codes, &scales, &sums), PADDED);
                let expected: Vec<f64> =
                    of_codes.iter().zip(gained).map(|(of_codes, gained)| of_codes + gained).collect();
                let what = format!("{name} to {dtype} with {rows} rows on {}", card.name);
                close(&what, &download(card, dtype, &out), &expected, share);
            }
        }
    });
}

#[test]
fn products_take_more_rows_of_every_type() {
    const ROWS: usize = 9;
    on_each_card(|card| {
        for (at, name) in TYPES.into_iter().enumerate() {
            let data = blocks(name, OUTPUTS * COLUMNS / block(name).0, 72);
            let x = values("f32", ROWS * COLUMNS, 73);
            let (weights, rhs) = (upload(card, &data), upload(card, &Data::new("f32", &x).bytes));
            let codes = upload(card, &vec![0; ROWS * PADDED / 32 * 36]);
            let out = upload(card, &Data::unwritten("f32", ROWS * OUTPUTS).bytes);
            let layouts = [
                ffi::launch_mmq_quantize_q8_1_D4,
                ffi::launch_mmq_quantize_q8_1_DS4,
                ffi::launch_mmq_quantize_q8_1_D2S6,
            ];
            let columns = COLUMNS as i64;
            // SAFETY: the memory is the device's, and as long as the sizes say.
            unsafe {
                layouts[at % 3](
                    address(card, &rhs),
                    std::ptr::null(),
                    address(card, &codes),
                    0,
                    columns,
                    columns,
                    0,
                    0,
                    PADDED as i64,
                    ROWS as i64,
                    1,
                    1,
                    number(card),
                );
                PRODUCTS[at](
                    std::ptr::null_mut(),
                    address(card, &weights),
                    address(card, &codes),
                    address(card, &out),
                    columns,
                    OUTPUTS as i64,
                    ROWS as i64,
                    columns / block(name).0 as i64,
                    OUTPUTS as i64,
                    0,
                    0,
                    0,
                    32,
                    number(card),
                );
            }
            let (codes, scales) = quantised(&x, COLUMNS, PADDED);
            let expected = product(&decoded(name, &data), &restored(&codes, &scales), COLUMNS, PADDED);
            close(&format!("{name} on {}", card.name), &download(card, "f32", &out), &expected, 2e-3);
        }
    });
}

#[test]
fn what_leads_beyond_memory_is_an_error_of_the_next_call() {
    on_each_card(|card| {
        let weights = upload(card, &blocks("q4_K", 3, 74));
        let (codes, out) = (upload(card, &[0; 1152]), upload(card, &[0; 16]));
        // SAFETY: the launcher refuses the sizes, which are beyond the memory's.
        unsafe {
            ffi::launch_mmvq_gguf_q4_k_f32_plain(
                address(card, &weights),
                address(card, &codes),
                address(card, &out),
                256,
                4,
                32,
                4,
                1,
                number(card),
            );
        }
        let error = card.stream().clone_dtoh(&out).unwrap_err().to_string();
        assert!(error.contains("launch_mmvq_gguf_q4_k_f32_plain: vx must have 576 bytes"), "{error}");
        assert!(card.stream().clone_dtoh(&out).is_ok(), "it is told once");
    });
}

/// Tokens 0 to 4 of a batch with two experts each, sorted by expert.
const TOKENS: [u32; 6] = [4, 0, 3, 1, 5, 2];
const EXPERTS: [u32; 6] = [0, 1, 1, 2, 2, 3];

/// What a mixture gives: for each token of the list its expert's product, times its factor if there are some.
fn mixture(weights: &[f64], x: &[f64], factors: Option<&[f64]>) -> Vec<f64> {
    mixture_of([&TOKENS, &EXPERTS], weights, x, factors)
}

fn mixture_of([tokens, experts]: [&[u32]; 2], weights: &[f64], x: &[f64], factors: Option<&[f64]>) -> Vec<f64> {
    let mut out = vec![0.0; tokens.len() * OUTPUTS];
    for (&token, &expert) in tokens.iter().zip(experts) {
        let (token, row) = (token as usize, factors.map_or(token as usize / 2, |_| token as usize));
        let lines = &weights[expert as usize * OUTPUTS * COLUMNS..][..OUTPUTS * COLUMNS];
        let values = product(lines, &x[row * COLUMNS..][..COLUMNS], COLUMNS, COLUMNS);
        let factor = factors.map_or(1.0, |factors| factors[token]);
        for (to, value) in out[token * OUTPUTS..].iter_mut().zip(values) {
            *to = value * factor;
        }
    }
    out
}

#[test]
fn mixtures_of_experts_scale_by_the_router() {
    const ALL: usize = 4;
    on_each_card(|card| {
        let words = |list: &[u32]| upload(card, &list.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        let (tokens, experts) = (words(&TOKENS), words(&EXPERTS));
        let factors: Vec<f64> = noise(TOKENS.len(), 75).into_iter().map(|x| rounded("f32", x)).collect();
        for scaled in [false, true] {
            let rows = if scaled { TOKENS.len() } else { TOKENS.len() / 2 };
            let given = upload(card, &Data::new("f32", &factors).bytes);
            let factor_ptr = if scaled { address(card, &given) } else { std::ptr::null_mut() };
            let used = scaled.then_some(&factors[..]);
            for (number_of_type, name) in ["q8_0", "q4_K", "q2_K", "q3_K", "q5_K", "q6_K"].into_iter().enumerate() {
                let data = blocks(name, ALL * OUTPUTS * COLUMNS / block(name).0, 76);
                for (kind, dtype) in ["f16", "bf16", "f32"].into_iter().enumerate() {
                    let x = values(dtype, rows * COLUMNS, 77);
                    let (weights, input) = (upload(card, &data), upload(card, &Data::new(dtype, &x).bytes));
                    let out = upload(card, &Data::unwritten("f32", TOKENS.len() * OUTPUTS).bytes);
                    let (count, outputs, columns) = (TOKENS.len() as i32, OUTPUTS as i32, COLUMNS as i32);
                    // SAFETY: the memory is the device's, and as long as the sizes say.
                    unsafe {
                        if dtype == "f32" {
                            ffi::moe_gemm_gguf(
                                address(card, &input).cast(),
                                address(card, &weights),
                                address(card, &tokens).cast(),
                                address(card, &experts).cast(),
                                factor_ptr.cast(),
                                address(card, &out),
                                ALL as i32,
                                2,
                                count,
                                outputs,
                                columns,
                                number_of_type as i32,
                                number(card) as i64,
                            );
                        } else {
                            ffi::moe_gemm_gguf_prefill(
                                address(card, &input),
                                address(card, &weights).cast(),
                                address(card, &tokens).cast(),
                                address(card, &experts).cast(),
                                factor_ptr.cast(),
                                address(card, &out),
                                ALL as i32,
                                2,
                                count,
                                outputs,
                                columns,
                                kind as i32,
                                number_of_type as i32,
                                number(card) as i64,
                            );
                        }
                    }
                    let expected = mixture(&decoded(name, &data), &x, used);
                    let what = format!("{name} with {dtype} on {}", card.name);
                    close(&what, &download(card, "f32", &out), &expected, 1e-5);
                }
            }
        }
    });
}

#[test]
fn mixtures_of_experts_decode_their_weights_for_prompts() {
    const ALL: usize = 3;
    on_each_card(|card| {
        let words = |list: &[u32]| upload(card, &list.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        // Tokens with two experts each, of three experts one that has none: so few that codes are operands, and more, for which weights
        // are of the tokens' type.
        let runs = [(0, "q8_0", "f16", 18), (1, "q4_K", "bf16", 18), (0, "q8_0", "f16", 108), (1, "q4_K", "bf16", 108)];
        for (number_of_type, name, dtype, choices) in runs {
            let tokens: Vec<u32> = (0..choices).map(|n| n * 7 % choices).collect();
            let experts: Vec<u32> = (0..choices).map(|n| if n < 5 { 0 } else { 2 }).collect();
            let (token_memory, expert_memory) = (words(&tokens), words(&experts));
            let data = blocks(name, ALL * OUTPUTS * COLUMNS / block(name).0, 81);
            let x = values(dtype, tokens.len() / 2 * COLUMNS, 82);
            let (weights, input) = (upload(card, &data), upload(card, &Data::new(dtype, &x).bytes));
            let out = upload(card, &Data::unwritten("f32", tokens.len() * OUTPUTS).bytes);
            // SAFETY: the memory is the device's, and as long as the sizes say.
            unsafe {
                ffi::moe_gemm_gguf_prefill(
                    address(card, &input),
                    address(card, &weights).cast(),
                    address(card, &token_memory).cast(),
                    address(card, &expert_memory).cast(),
                    std::ptr::null(),
                    address(card, &out),
                    ALL as i32,
                    2,
                    tokens.len() as i32,
                    OUTPUTS as i32,
                    COLUMNS as i32,
                    i32::from(dtype == "bf16"),
                    number_of_type,
                    number(card) as i64,
                );
            }
            let of_type = |weight| if choices > 32 * ALL as u32 { rounded(dtype, weight) } else { weight };
            let decoded: Vec<f64> = decoded(name, &data).into_iter().map(of_type).collect();
            let expected = mixture_of([&tokens, &experts], &decoded, &x, None);
            close(&format!("{name} with {dtype} on {}", card.name), &download(card, "f32", &out), &expected, 1e-5);
        }
    });
}

#[test]
fn mixtures_of_experts_take_dense_weights() {
    const ALL: usize = 4;
    on_each_card(|card| {
        let words = |list: &[u32]| upload(card, &list.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        let (tokens, experts) = (words(&TOKENS), words(&EXPERTS));
        let factors: Vec<f64> = (0..TOKENS.len()).map(|token| 0.25 + 0.5 * token as f64).collect();
        let factor_memory = upload(card, &Data::new("f32", &factors).bytes);
        // In turn by grouped products and alone, with a row for each token and its factor, and with one for two tokens.
        for (number_of_run, (dtype, is_prefill, scaled)) in
            [("f16", true, false), ("bf16", true, true), ("bf16", false, false), ("f16", false, true)]
                .into_iter()
                .enumerate()
        {
            let kind = i32::from(dtype == "bf16");
            let x_rows = if scaled { TOKENS.len() } else { TOKENS.len() / 2 };
            let (w, x) = (
                values(dtype, ALL * OUTPUTS * COLUMNS, 78),
                values(dtype, x_rows * COLUMNS, 79 + number_of_run as u64),
            );
            let (weights, input) =
                (upload(card, &Data::new(dtype, &w).bytes), upload(card, &Data::new(dtype, &x).bytes));
            let out = upload(card, &Data::unwritten(dtype, TOKENS.len() * OUTPUTS).bytes);
            // SAFETY: the memory is the device's, and as long as the sizes say.
            unsafe {
                ffi::moe_gemm_wmma(
                    address(card, &input),
                    address(card, &weights),
                    address(card, &tokens).cast(),
                    address(card, &experts).cast(),
                    if scaled { address(card, &factor_memory).cast() } else { std::ptr::null() },
                    address(card, &out),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    ALL as i32,
                    2,
                    TOKENS.len() as i32,
                    OUTPUTS as i32,
                    COLUMNS as i32,
                    kind,
                    is_prefill,
                    number(card) as i64,
                );
            }
            let expected = mixture(&w, &x, scaled.then_some(&factors[..]));
            close(
                &format!("{dtype} prefill {is_prefill} on {}", card.name),
                &download(card, dtype, &out),
                &expected,
                5e-3,
            );
        }
    });
}

#[test]
fn lists_are_sorted_by_expert_in_whole_blocks() {
    const ALL: usize = 5;
    const BLOCK: i32 = 4;
    const MOST: usize = 40;
    let ids = [3, 0, 3, -1, 4, 3, 0, 3, 3, -1, 4];
    on_each_card(|card| {
        let words = |count: usize| upload(card, &vec![0x5a; 4 * count]);
        let list = upload(card, &Data::new("i32", &ids.map(f64::from)).bytes);
        let (sorted, experts, total, starts) = (words(MOST), words(MOST / 4), words(1), words(ALL + 1));
        // SAFETY: the memory is the device's, and as long as the sizes say.
        let launched = unsafe {
            ffi::candle_launch_moe_align(
                address(card, &list).cast(),
                address(card, &sorted).cast(),
                address(card, &experts).cast(),
                address(card, &total).cast(),
                address(card, &starts).cast(),
                ALL as i32,
                BLOCK,
                ids.len() as i32,
                MOST as i32,
                number(card),
            )
        };
        assert_eq!(launched, 0);
        // Two entries of expert 0 in a block, five of expert 3 in two, two of expert 4 in one.
        assert_eq!(download(card, "i32", &starts), [0.0, 4.0, 4.0, 4.0, 12.0, 16.0], "on {}", card.name);
        assert_eq!(download(card, "i32", &total), [16.0]);
        let none = -1.0;
        assert_eq!(download(card, "i32", &experts), [0.0, 3.0, 3.0, 4.0, none, none, none, none, none, none]);
        let rest = ids.len() as f64;
        let mut expected = vec![1.0, 6.0, rest, rest, 0.0, 2.0, 5.0, 7.0, 8.0, rest, rest, rest, 4.0, 10.0];
        expected.resize(MOST, rest);
        assert_eq!(download(card, "i32", &sorted), expected, "on {}", card.name);
        // SAFETY: the launcher refuses room for fewer entries than there can be.
        let refused = unsafe {
            let null = std::ptr::null_mut();
            ffi::candle_launch_moe_align(null, null, null, null, null, 5, BLOCK, 11, 20, number(card))
        };
        assert_eq!(refused, 1);
        let error = card.stream().clone_dtoh(&list).unwrap_err().to_string();
        assert!(error.contains("candle_launch_moe_align: the sizes must be"), "{error}");
    });
}
