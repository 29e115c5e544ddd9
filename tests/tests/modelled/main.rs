//! What the library's main kernels come to on emulated cards by the counts of `backend/emulator/MODEL.md`, printed as a table.
//!
//! `ROCFIRE_TEST_FULL=1 cargo test --test modelled -- --nocapture` (without it, some kernels on gfx942) runs a few workgroups of each kernel at a size that fills a card, with the tiles that the card
//! itself would get, and fails where one spills registers, has bank conflicts in more than 2% of its LDS clocks in either order
//! of lanes, touches more than 1.05 times the bytes that it asks for, leaves a SIMD fewer than two waves, or, of what is run
//! whole, products of 32 rows and layers that decode, fetches more than 1.05 times its operands or has less than 4 KiB of loads under way in
//! a SIMD. What is printed without a limit is
//! what the issue asks to report. `KNOWN` are those that miss a limit, each with its reason: a row that holds is an error too.

mod codes;
mod gguf;
mod recurrent;

use rocfire_hal::modelled::{Profile, Sample};
use rocfire_hal::{Config, DType, Device, DeviceId, Layout, Tensor};
use rocfire_kernels::attention::{
    AttentionInputs, AttentionParams, AttentionSaved, PagedInputs, PagedParams, attention, attention_backward,
    paged_attention,
};
use rocfire_kernels::cache::{Cache, CacheCodes, CacheLayout, CacheMut, Pages, ScaleRule, gather, write};
use rocfire_kernels::conv::{ConvParams, conv};
use rocfire_kernels::experts::{ByExpert, GroupScore, Groups, RouteParams, Score, SortParams, route, sort_by_expert};
use rocfire_kernels::gate::{Activation, GateParams, gate};
use rocfire_kernels::gemm::{GemmParams, gemm};
use rocfire_kernels::hadamard::hadamard;
use rocfire_kernels::loss::{CrossEntropy, cross_entropy};
use rocfire_kernels::mla::{AbsorbInputs, ExpandInputs, ExpandWeight, absorb, expand};
use rocfire_kernels::norm::{NormGradients, NormKind, NormParams, norm, norm_backward};
use rocfire_kernels::quant::{Format, Gguf, Granularity, MxRounding, RowCodes, norm_quantise, quantise_activations};
use rocfire_kernels::rope::{RopeAngles, RopeParams, RopeStyle, RopeTensor, rope};
use rocfire_kernels::sample::{Draw, SampleParams, TopK, sample, top_k};
use rocfire_kernels::softmax::softmax;
use rocfire_kernels::sort::Order;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Workgroups of a launch that are run.
const SAMPLE: u64 = 3;
const ARCHES: [&str; 3] = ["gfx942", "gfx90a", "gfx1100"];

/// What is measured: a name, the launches, and of what is run whole, products of few rows and layers that decode, the bytes of operands
/// and results.
struct Subject {
    name: &'static str,
    compulsory: Option<u64>,
    /// Whether it is run where not everything is: on gfx942.
    always: bool,
    run: fn(&Device) -> Outcome,
}

const fn sampled(name: &'static str, run: fn(&Device) -> Outcome) -> Subject {
    Subject { name, compulsory: None, always: false, run }
}

const fn always(name: &'static str, run: fn(&Device) -> Outcome) -> Subject {
    Subject { name, compulsory: None, always: true, run }
}

/// The number of the largest tiling in the library's table, 128 x 128 on CDNA and 128 x 64 on RDNA, which a large product gets on a card (`rocfire explain gemm 4096
/// 4096 4096 bf16 --arch gfx942`); an emulated device is taken to be small and would get another.
fn large_tile(device: &Device) -> GemmParams {
    let mut params = GemmParams::default();
    params.tiling = Some(if device.arch().name().starts_with("gfx9") { 0 } else { 5 });
    params.slice_k = Some(false);
    params
}

const SUBJECTS: &[Subject] = &[
    always("product bf16 4096x4096x4096 nt", |d| product(d, DType::BF16, [4096; 3], true)),
    sampled("product bf16 4096x4096x4096 nn", |d| product(d, DType::BF16, [4096; 3], false)),
    sampled("product f16 4096x4096x4096 nt", |d| product(d, DType::F16, [4096; 3], true)),
    sampled("product i8 4096x4096x4096 nt", |d| product(d, DType::I8, [4096; 3], true)),
    sampled("product bf16 32768x512x7168 nt", |d| product(d, DType::BF16, [32768, 512, 7168], true)),
    Subject {
        name: "product bf16 32x2048x2048 nt",
        compulsory: Some(2 * (32 * 2048 + 2048 * 2048 + 32 * 2048)),
        always: true,
        run: |d| thin(d, [32, 2048, 2048]),
    },
    always("a8w8 fp8 4096x4096x4096 tokens", |d| codes::coded(d, [4096; 3], codes::TOKENS, false)),
    always("a8w8 fp8 4096x4096x4096 tokens, laid out", |d| codes::coded(d, [4096; 3], codes::TOKENS, true)),
    sampled("a8w8 fp8 4096x4096x4096 blocks", |d| codes::coded(d, [4096; 3], codes::BLOCKS, false)),
    sampled("a8w8 fp8 4096x4096x4096 blocks, laid out", |d| codes::coded(d, [4096; 3], codes::BLOCKS, true)),
    Subject {
        name: "a8w8 fp8 32x2048x2048 tokens, laid out",
        compulsory: Some(32 * 2048 + 2048 * 2048 + 2 * 32 * 2048 + 4 * (32 + 2048)),
        always: false,
        run: |d| codes::coded(d, [32, 2048, 2048], codes::TOKENS, true),
    },
    always("w4a16 bf16 1x14336x4096", |d| codes::packed(d, [1, 14336, 4096])),
    sampled("w4a16 bf16 16x14336x4096", |d| codes::packed(d, [16, 14336, 4096])),
    sampled("w4a16 bf16 64x14336x4096", |d| codes::packed(d, [64, 14336, 4096])),
    sampled("attention bf16 H4 S1024 D128", |d| attend(d, [1024, 128], false)),
    sampled("attention bf16 H4 S1024 D128 causal", |d| attend(d, [1024, 128], true)),
    sampled("attention gradients bf16 H4 S512 D128", |d| attend_back(d, 128)),
    sampled("attention bf16 H4 S1024 D64", |d| attend(d, [1024, 64], false)),
    sampled("attention gradients bf16 H4 S512 D64", |d| attend_back(d, 64)),
    sampled("attention f32 H32 S1024 D64", attend_f32),
    always("paged decode bf16 4x2048 H32/8 D128", |d| decode(d, None)),
    sampled("paged decode fp8 4x2048 H32/8 D128", |d| decode(d, Some(fp8(d)))),
    sampled("mla decode bf16 4x2048 H128 D576/512", |d| latent_decode(d, false)),
    sampled("sparse mla decode bf16 4x2048 H128 D576/512", |d| latent_decode(d, true)),
    sampled("mla absorb bf16 64xH128x(128+64) to 512", absorbed),
    sampled("mla expand bf16 1024x512 to H128x(128+64, 128)", expanded),
    sampled("cache write bf16 8192x8x128", |d| written(d, None)),
    sampled("cache write fp8 by token 8192x8x128", |d| written(d, Some(fp8(d)))),
    sampled("cache gather bf16 4x2048x8x128", gathered),
    sampled("convolution f16 N8 56x56 128->256 3x3", convolve),
    always("RMSNorm bf16 8192x4096", |d| normalise(d, NormKind::Rms, COLS)),
    sampled("LayerNorm bf16 8192x4096", |d| normalise(d, NormKind::Layer, COLS)),
    always("LayerNorm bf16 8192x1024", |d| normalise(d, NormKind::Layer, 1024)),
    sampled("gradients of RMSNorm bf16 8192x4096", |d| normalise_back(d, NormKind::Rms)),
    sampled("gradients of LayerNorm bf16 8192x4096", |d| normalise_back(d, NormKind::Layer)),
    sampled("RMSNorm to fp8 1x128 8192x4096", norm_coded),
    always("softmax bf16 8192x4096", |d| soften(d, DType::BF16, COLS)),
    sampled("softmax f32 8192x512", |d| soften(d, DType::F32, 512)),
    sampled("cross-entropy bf16 8192x32000", entropy),
    always("silu gate bf16 8192x4096", gated),
    sampled("rotary embedding bf16 8x32x1024x128", turned),
    sampled("Hadamard bf16 262144x128", |d| transformed(d, [262_144, 128])),
    sampled("Hadamard bf16 8192x4096", |d| transformed(d, [ROWS, COLS])),
    always("quantise fp8 by token 8192x4096", |d| quantised(d, Granularity::Token)),
    always("quantise mxfp4 8192x4096", |d| quantised(d, Granularity::Mx(MxRounding::Up))),
    sampled("copy of a transposed f16 4096x4096", transposed),
    always("sample top-k top-p f32 64x128256", |d| sampled_tokens(d, 50)),
    sampled("sample top-p f32 64x128256", |d| sampled_tokens(d, 0)),
    sampled("largest 2048 f32 64x65536", largest),
    always("route 8 of 256 f32 8192", routed),
    sampled("sort by expert 8192x8 of 256", sorted_by_expert),
    Subject {
        name: "experts fp8 16x4 of 32 2048x1024",
        compulsory: Some(32 * 2048 * 1024 + 2 * 16 * 2048 + 2 * 64 * 1024 + 4 * 32 * 16 * 8),
        always: true,
        run: |d| codes::experts(d, Format::E4M3, false),
    },
    Subject {
        name: "experts fp8 16x4 of 32 2048x1024, codes along K",
        compulsory: Some(32 * 2048 * 1024 + 2 * 16 * 2048 + 2 * 64 * 1024 + 4 * 32 * 16 * 8),
        always: true,
        run: |d| codes::experts(d, Format::E4M3, true),
    },
    Subject {
        name: "experts mxfp4 16x4 of 32 2048x1024, codes along K",
        compulsory: Some(32 * 2048 * 1024 / 2 + 2 * 16 * 2048 + 2 * 64 * 1024 + 32 * 1024 * 2048 / 32),
        always: true,
        run: |d| codes::experts(d, Format::E2M1, true),
    },
    Subject {
        name: "experts a8w8 fp8 16x4 of 32 2048x1024 tokens",
        compulsory: Some(32 * 2048 * 1024 + 16 * 2048 + 2 * 64 * 1024 + 4 * (16 + 32 * 1024)),
        always: true,
        run: |d| codes::scaled_experts(d, 16, codes::TOKENS, false),
    },
    Subject {
        name: "experts a8w8 fp8 16x4 of 32 2048x1024 blocks",
        compulsory: Some(32 * 2048 * 1024 + 16 * 2048 + 2 * 64 * 1024 + 4 * 16 * (16 + 32 * 8)),
        always: false,
        run: |d| codes::scaled_experts(d, 16, codes::BLOCKS, false),
    },
    Subject {
        name: "experts a8w8 fp8 1x4 of 32 2048x1024 blocks",
        compulsory: Some(4 * 2048 * 1024 + 2048 + 2 * 4 * 1024 + 4 * 16 * (1 + 4 * 8)),
        always: false,
        run: |d| codes::scaled_experts(d, 1, codes::BLOCKS, false),
    },
    Subject {
        name: "experts a8w8 fp8 16x4 of 32 2048x1024 tokens, laid out",
        compulsory: Some(32 * 2048 * 1024 + 16 * 2048 + 2 * 64 * 1024 + 4 * (16 + 32 * 1024)),
        always: true,
        run: |d| codes::scaled_experts(d, 16, codes::TOKENS, true),
    },
    Subject {
        name: "experts a8w8 fp8 1x4 of 32 2048x1024 blocks, laid out",
        compulsory: Some(4 * 2048 * 1024 + 2048 + 2 * 4 * 1024 + 4 * 16 * (1 + 4 * 8)),
        always: false,
        run: |d| codes::scaled_experts(d, 1, codes::BLOCKS, true),
    },
    always("experts Q4_K 64x8 of 128 2048x768", |d| gguf::experts(d, 64)),
    sampled("experts Q4_K 8x8 of 128 2048x768", |d| gguf::experts(d, 8)),
    sampled("experts Q4_K 1024x8 of 128 2048x768", |d| gguf::experts(d, 1024)),
    sampled("weights of Q4_K 4096x14336", |d| gguf::decoded(d, Gguf::Q4K)),
    sampled("weights of Q6_K 4096x14336", |d| gguf::decoded(d, Gguf::Q6K)),
    sampled("weights of w4a16 4096x14336", gguf::decoded_words),
];

/// What misses a limit. A part that is empty says nothing of that.
const KNOWN: &[Known] = &[
    (
        "preshuffle",
        "laid out",
        "",
        Limit::Fetched,
        "weights are read and written once to be laid out, also those of experts that nobody has chosen; the product after it fetches its operands once",
    ),
    (
        "paged",
        "paged decode",
        "",
        Limit::Conflicts,
        "of results, which a wave stores once for the sum over waves, two lanes each meet; CDNA's pairs of tiles have their scales a turn of the banks apart",
    ),
    (
        "paged",
        "mla decode",
        "",
        Limit::Conflicts,
        "none with lanes in order, as is published for reads; taken out of order, keys whose rows lie whole turns of the banks apart meet",
    ),
    (
        "paged",
        "mla decode",
        "",
        Limit::Waves,
        "sums of 64 rows and Q take 288 registers of a lane, and LDS has room for one workgroup",
    ),
    (
        "gemm",
        "mla",
        "gfx1100",
        Limit::Segments,
        "results are stored 32 bytes of a row at once, and with K of 128 or 512 they are as many as operands",
    ),
    (
        "absorb",
        "mla",
        "gfx1100",
        Limit::Segments,
        "each of eight waves reads its token's position and slot, a few bytes of a segment each",
    ),
    (
        "attention",
        "attention f32",
        "gfx1100",
        Limit::Conflicts,
        "1.2% with lanes in order, as is published for stores; taken out of order, stores of two rows that lie four banks apart meet",
    ),
    (
        "attention_backward",
        "attention gradients bf16 H4 S512 D64",
        "gfx9",
        Limit::Conflicts,
        "none with lanes in order, as is published for stores; taken out of order, lanes of rows of 64 channels meet, which those of 128 do not",
    ),
    (
        "sample_rows",
        "sample top-k top-p",
        "",
        Limit::Conflicts,
        "of the few clocks that LDS takes: items of 8 bytes are brought to order in it, and peaks of lanes counted there",
    ),
    (
        "sample_rows",
        "sample top-p",
        "",
        Limit::Conflicts,
        "every element is counted in the bin of its weight: lanes of a wave meet in bins and in banks as their numbers do",
    ),
    (
        "top_k_rows",
        "largest",
        "",
        Limit::Conflicts,
        "elements beyond the bound are counted in bins of keys, as numbers fall",
    ),
    (
        "sort_by_expert",
        "sort by expert",
        "",
        Limit::Conflicts,
        "each wave counts the choices of each group: counters lie where the groups of neighbouring choices happen to",
    ),
    (
        "sort_by_expert_place",
        "sort by expert",
        "",
        Limit::Segments,
        "a choice is written where its expert's rows are: words that neighbouring lanes write lie apart",
    ),
    (
        "few_along",
        "codes along K",
        "gfx1100",
        Limit::Segments,
        "each of sixteen lanes reads 16 bytes of a column of its own, and the other lanes the same: what is left of a line meets its next accesses, which are under way together",
    ),
    (
        "few_along",
        "mxfp4",
        "gfx9",
        Limit::Segments,
        "a scale is a byte that a lane reads of its column for 16 bytes of codes; the column's next scales meet their line in a cache",
    ),
    (
        "q_matmul",
        "experts Q4_K",
        "",
        Limit::Conflicts,
        "none with lanes in order, as is published for stores; taken out of order, columns further apart meet than those that pieces of LDS are exchanged for",
    ),
    (
        "gguf_matrix",
        "experts Q4_K",
        "gfx1100",
        Limit::Conflicts,
        "of sums alone, which are read once at the end: with one column a lane, those of two waves side by side lie whole turns of the banks apart",
    ),
    (
        "gguf_dequantise",
        "weights of Q6_K",
        "",
        Limit::Conflicts,
        "blocks of 210 bytes begin at multiples of two, so lanes read runs of 16 bytes by words, and the same word of eight runs is in two banks",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Spills,
    Conflicts,
    Segments,
    Waves,
    Fetched,
    UnderWay,
}

fn zeros(device: &Device, shape: &[usize], dtype: DType) -> rocfire_hal::Result<Tensor> {
    let bytes = shape.iter().product::<usize>() * dtype.size_bytes();
    Tensor::from_bytes(device, shape, dtype, &vec![0; bytes])
}

fn product(device: &Device, dtype: DType, [m, n, k]: [usize; 3], across: bool) -> Outcome {
    let a = zeros(device, &[m, k], dtype)?;
    let b = zeros(device, &if across { [n, k] } else { [k, n] }, dtype)?;
    let mut c = zeros(device, &[m, n], if dtype == DType::I8 { DType::I32 } else { dtype })?;
    let b = if across { b.view().with_layout(b.layout().swap(0, 1)?)? } else { b.view() };
    Ok(gemm(device.stream(), a.view(), b, c.view_mut(), &large_tile(device))?)
}

fn thin(device: &Device, [m, n, k]: [usize; 3]) -> Outcome {
    let (a, b) = (zeros(device, &[m, k], DType::BF16)?, zeros(device, &[n, k], DType::BF16)?);
    let mut c = zeros(device, &[m, n], DType::BF16)?;
    let b = b.view().with_layout(b.layout().swap(0, 1)?)?;
    Ok(gemm(device.stream(), a.view(), b, c.view_mut(), &GemmParams::default())?)
}

/// The device's own 8-bit floats where it has them.
fn fp8(device: &Device) -> Format {
    if device.arch().name() == "gfx942" { Format::E4M3Fnuz } else { Format::E4M3 }
}

fn inputs<'a>(q: &'a Tensor, k: &'a Tensor, v: &'a Tensor) -> AttentionInputs<'a> {
    let (q, k, v) = (q.view(), k.view(), v.view());
    AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None }
}

/// Four heads of those that fill a card: every head is the same work, and every round of keys.
fn attend(device: &Device, [rows, depth]: [usize; 2], causal: bool) -> Outcome {
    let shape = [1, 4, rows, depth];
    let [q, k, v, mut out] = [(); 4].map(|()| zeros(device, &shape, DType::BF16));
    let (q, k, v) = (q?, k?, v?);
    let mut params = AttentionParams::default();
    params.causal = causal;
    Ok(attention(
        device.stream(),
        &inputs(&q, &k, &v),
        &params,
        out.as_mut().map_err(|e| e.to_string())?.view_mut(),
        None,
    )?)
}

fn attend_back(device: &Device, depth: usize) -> Outcome {
    let shape = [1, 4, 512, depth];
    let made = |_| zeros(device, &shape, DType::BF16);
    let all: Vec<Tensor> = (0..5).map(made).collect::<Result<_, _>>()?;
    let mut gradients: Vec<Tensor> = (0..3).map(made).collect::<Result<_, _>>()?;
    let lse = zeros(device, &shape[..3], DType::F32)?;
    let saved = AttentionSaved { out: all[3].view(), lse: lse.view(), dout: all[4].view() };
    let [dq, dk, dv] = &mut gradients[..] else { return Err("three gradients".into()) };
    let gradients = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
    let inputs = inputs(&all[0], &all[1], &all[2]);
    Ok(attention_backward(device.stream(), &inputs, &saved, &AttentionParams::default(), gradients)?)
}

fn attend_f32(device: &Device) -> Outcome {
    let made = |_| zeros(device, &[1, 32, 1024, 64], DType::F32);
    let mut all: Vec<Tensor> = (0..4).map(made).collect::<Result<_, _>>()?;
    let [q, k, v, out] = &mut all[..] else { return Err("four tensors".into()) };
    Ok(attention(device.stream(), &inputs(q, k, v), &AttentionParams::default(), out.view_mut(), None)?)
}

const PAGED: [usize; 2] = [4, 2048];
const KV: [usize; 2] = [8, 128];

/// Keys and values on pages of 16 tokens, scales of tokens, and every sequence's pages and keys.
fn paged(device: &Device, format: Option<Format>) -> rocfire_hal::Result<[Tensor; 5]> {
    let ([sequences, keys], [heads, depth]) = (PAGED, KV);
    let pages = sequences * keys / 16;
    let plane = zeros(device, &[pages, 16, heads, depth], if format.is_some() { DType::U8 } else { DType::BF16 })?;
    let values = zeros(device, plane.shape(), plane.dtype())?;
    let integers = |shape: &[usize], values: &mut dyn Iterator<Item = i32>| {
        Tensor::from_bytes(device, shape, DType::I32, &values.flat_map(i32::to_le_bytes).collect::<Vec<_>>())
    };
    let table = integers(&[sequences, keys / 16], &mut (0..pages as i32))?;
    let lens = integers(&[sequences], &mut (0..sequences).map(|_| keys as i32))?;
    Ok([plane, values, zeros(device, &[pages, heads, 16], DType::F32)?, table, lens])
}

fn codes(format: Option<Format>, scales: &Tensor) -> Option<CacheCodes<'_>> {
    format.map(|format| CacheCodes { format, k_scales: scales.view(), v_scales: scales.view() })
}

fn decode(device: &Device, format: Option<Format>) -> Outcome {
    let [k, v, scales, table, lens] = paged(device, format)?;
    let shape = [PAGED[0], 4 * KV[0], KV[1]];
    let (q, mut out) = (zeros(device, &shape, DType::BF16)?, zeros(device, &shape, DType::BF16)?);
    let cache = Cache::new(k.view(), v.view(), CacheLayout::Nhd, codes(format, &scales))?;
    let pages = Pages::Table { pages: table.view(), lens: lens.view() };
    let inputs = PagedInputs::new(q.view(), cache, pages, PAGED[1]);
    Ok(paged_attention(device.stream(), &inputs, &PagedParams::default(), out.view_mut(), None, None)?)
}

fn latent_decode(device: &Device, is_sparse: bool) -> Outcome {
    let [.., table, lens] = paged(device, None)?;
    let [sequences, keys] = PAGED;
    let latents = zeros(device, &[sequences * keys / 16, 16, 576], DType::BF16)?;
    let q = zeros(device, &[sequences, 128, 576], DType::BF16)?;
    let mut out = zeros(device, &[sequences, 128, 512], DType::BF16)?;
    let slots: Vec<u8> =
        (0..sequences * keys).flat_map(|n| ((n * 7919 % (sequences * keys)) as i32).to_le_bytes()).collect();
    let slots = Tensor::from_bytes(device, &[sequences, keys], DType::I32, &slots)?;
    let pages = match is_sparse {
        true => Pages::Slots { slots: slots.view(), lens: None },
        false => Pages::Table { pages: table.view(), lens: lens.view() },
    };
    let inputs = PagedInputs::new(q.view(), Cache::latent(latents.view(), 512, None)?, pages, keys);
    Ok(paged_attention(device.stream(), &inputs, &PagedParams::default(), out.view_mut(), None, None)?)
}

fn absorbed(device: &Device) -> Outcome {
    let bf16 = |shape: &[usize]| zeros(device, shape, DType::BF16);
    let (q, weight, rows, norm) = (bf16(&[64, 128, 192])?, bf16(&[128, 128, 512])?, bf16(&[64, 576])?, bf16(&[512])?);
    let (table, numbers) = (zeros(device, &[64, 32], DType::F32)?, zeros(device, &[64], DType::I32)?);
    let (mut cache, mut out) = (bf16(&[4, 16, 576])?, bf16(&[64, 128, 576])?);
    let slice = |from, to| rows.layout().slice(1, from, to, 1).and_then(|layout| rows.view().with_layout(layout));
    let inputs = AbsorbInputs {
        q: q.view(),
        weight: weight.view(),
        latents: slice(0, 512)?,
        keys: slice(512, 576)?,
        norm: Some((norm.view(), 1e-6)),
        tables: [table.view(); 2],
        style: RopeStyle::GptJ,
        positions: numbers.view(),
        slots: numbers.view(),
    };
    Ok(absorb(device.stream(), &inputs, out.view_mut(), &mut CacheMut::latent(cache.view_mut(), 512, None)?)?)
}

fn expanded(device: &Device) -> Outcome {
    let [.., table, lens] = paged(device, None)?;
    let [sequences, _] = PAGED;
    let rows = 1024;
    let latents = zeros(device, &[sequences * PAGED[1] / 16, 16, 576], DType::BF16)?;
    let weight = zeros(device, &[128, 256, 512], DType::BF16)?;
    let starts: Vec<u8> =
        (0..=sequences).flat_map(|sequence| ((sequence * rows / sequences) as i32).to_le_bytes()).collect();
    let starts = Tensor::from_bytes(device, &[sequences + 1], DType::I32, &starts)?;
    let (mut keys, mut values) =
        (zeros(device, &[rows, 128, 192], DType::BF16)?, zeros(device, &[rows, 128, 128], DType::BF16)?);
    let inputs = ExpandInputs {
        cache: Cache::latent(latents.view(), 512, None)?,
        pages: Pages::Table { pages: table.view(), lens: lens.view() },
        starts: starts.view(),
        keys_most: PAGED[1],
        weight: ExpandWeight::Floats(weight.view()),
    };
    Ok(expand(device.stream(), &inputs, keys.view_mut(), values.view_mut(), None)?)
}

fn written(device: &Device, format: Option<Format>) -> Outcome {
    let [mut k, mut v, scales, ..] = paged(device, format)?;
    let tokens = PAGED[0] * PAGED[1];
    let rows = zeros(device, &[tokens, KV[0], KV[1]], DType::BF16)?;
    let slots: Vec<u8> = (0..tokens as i64).flat_map(i64::to_le_bytes).collect();
    let slots = Tensor::from_bytes(device, &[tokens], DType::I64, &slots)?;
    let mut cache = CacheMut::new(k.view_mut(), v.view_mut(), CacheLayout::Nhd, codes(format, &scales))?;
    let rule = if format.is_some() { ScaleRule::Token } else { ScaleRule::Given };
    Ok(write(device.stream(), rows.view(), rows.view(), &mut cache, slots.view(), rule)?)
}

fn gathered(device: &Device) -> Outcome {
    let [k, v, _, table, lens] = paged(device, None)?;
    let [sequences, keys] = PAGED;
    let made = || zeros(device, &[sequences * keys, KV[0], KV[1]], DType::BF16);
    let (mut key, mut value) = (made()?, made()?);
    let starts: Vec<u8> = (0..=sequences).flat_map(|sequence| ((sequence * keys) as i32).to_le_bytes()).collect();
    let starts = Tensor::from_bytes(device, &[sequences + 1], DType::I32, &starts)?;
    let cache = Cache::new(k.view(), v.view(), CacheLayout::Nhd, None)?;
    let pages = Pages::Table { pages: table.view(), lens: lens.view() };
    Ok(gather(device.stream(), &cache, &pages, starts.view(), keys, key.view_mut(), value.view_mut())?)
}

fn convolve(device: &Device) -> Outcome {
    let (x, weight) = (zeros(device, &[8, 128, 56, 56], DType::F16)?, zeros(device, &[256, 128, 3, 3], DType::F16)?);
    let mut y = zeros(device, &[8, 256, 56, 56], DType::F16)?;
    let (one, padding) = ([1, 1], [(1, 1), (1, 1)]);
    let params = ConvParams { stride: &one, padding: &padding, dilation: &one, groups: 1 };
    Ok(conv(device.stream(), x.view(), weight.view(), None, y.view_mut(), &params)?)
}

const ROWS: usize = 8192;
const COLS: usize = 4096;

fn normalise(device: &Device, kind: NormKind, cols: usize) -> Outcome {
    let (x, weight) = (zeros(device, &[ROWS, cols], DType::BF16)?, zeros(device, &[cols], DType::BF16)?);
    let mut y = zeros(device, &[ROWS, cols], DType::BF16)?;
    let mut params = NormParams::new(kind, 1e-6);
    params.weight = Some(weight.view());
    Ok(norm(device.stream(), x.view(), &params, y.view_mut(), None)?)
}

fn normalise_back(device: &Device, kind: NormKind) -> Outcome {
    let made = |_| zeros(device, &[ROWS, COLS], DType::BF16);
    let mut rows: Vec<Tensor> = (0..3).map(made).collect::<Result<_, _>>()?;
    let mut columns: Vec<Tensor> = (0..3).map(|_| zeros(device, &[COLS], DType::BF16)).collect::<Result<_, _>>()?;
    let ([x, dy, dx], [weight, d_weight, d_bias]) = (&mut rows[..], &mut columns[..]) else {
        return Err("three tensors of each".into());
    };
    let mut params = NormParams::new(kind, 1e-6);
    (params.weight, params.bias) = (Some(weight.view()), Some(weight.view()));
    let gradients = NormGradients {
        x: dx.view_mut(),
        weight: Some(d_weight.view_mut()),
        bias: Some(d_bias.view_mut()),
        gate: None,
    };
    Ok(norm_backward(device.stream(), x.view(), &params, dy.view(), None, gradients)?)
}

fn norm_coded(device: &Device) -> Outcome {
    let granularity = Granularity::Group(128);
    let (x, weight) = (zeros(device, &[ROWS, COLS], DType::BF16)?, zeros(device, &[COLS], DType::BF16)?);
    let mut codes = zeros(device, &[ROWS, COLS], DType::U8)?;
    let mut scales = zeros(device, &granularity.scales_shape([ROWS, COLS]), granularity.kind().dtype())?;
    let to = RowCodes { format: fp8(device), granularity, codes: codes.view_mut(), scales: scales.view_mut() };
    let mut params = NormParams::new(NormKind::Rms, 1e-6);
    params.weight = Some(weight.view());
    Ok(norm_quantise(device.stream(), x.view(), &params, to, None)?)
}

fn entropy(device: &Device) -> Outcome {
    let (x, targets) = (zeros(device, &[ROWS, 32000], DType::BF16)?, zeros(device, &[ROWS], DType::I32)?);
    let (mut loss, mut lse) = (zeros(device, &[ROWS], DType::F32)?, zeros(device, &[ROWS], DType::F32)?);
    let call = CrossEntropy::new(x.view(), targets.view());
    Ok(cross_entropy(device.stream(), &call, loss.view_mut(), lse.view_mut())?)
}

fn soften(device: &Device, dtype: DType, cols: usize) -> Outcome {
    let (x, mut y) = (zeros(device, &[ROWS, cols], dtype)?, zeros(device, &[ROWS, cols], dtype)?);
    Ok(softmax(device.stream(), x.view(), 1, y.view_mut())?)
}

fn gated(device: &Device) -> Outcome {
    let (x, mut y) = (zeros(device, &[ROWS, 2 * COLS], DType::BF16)?, zeros(device, &[ROWS, COLS], DType::BF16)?);
    Ok(gate(device.stream(), x.view(), &GateParams::new(Activation::Silu), y.view_mut())?)
}

fn turned(device: &Device) -> Outcome {
    let shape = [8, 32, 1024, 128];
    let (x, mut y) = (zeros(device, &shape, DType::BF16)?, zeros(device, &shape, DType::BF16)?);
    let [cosines, sines] = [(); 2].map(|()| zeros(device, &[1024, 64], DType::F32));
    let (cosines, sines) = (cosines?, sines?);
    let angles = RopeAngles::Tables { cosines: cosines.view(), sines: sines.view() };
    let mut tensors = [RopeTensor { from: Some(x.view()), to: y.view_mut() }];
    Ok(rope(device.stream(), &mut tensors, &angles, &RopeParams::default())?)
}

fn transformed(device: &Device, shape: [usize; 2]) -> Outcome {
    let (x, mut y) = (zeros(device, &shape, DType::BF16)?, zeros(device, &shape, DType::BF16)?);
    Ok(hadamard(device.stream(), x.view(), 1, 1.0, y.view_mut())?)
}

fn quantised(device: &Device, granularity: Granularity) -> Outcome {
    let format = if granularity == Granularity::Token { fp8(device) } else { Format::E2M1 };
    let x = zeros(device, &[ROWS, COLS], DType::BF16)?;
    let mut codes = zeros(device, &[ROWS, COLS * format.bits() / 8], DType::U8)?;
    let mut scales = zeros(device, &granularity.scales_shape([ROWS, COLS]), granularity.kind().dtype())?;
    let stream = device.stream();
    Ok(quantise_activations(
        stream,
        x.view(),
        None,
        RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
    )?)
}

fn transposed(device: &Device) -> Outcome {
    let (x, mut y) = (zeros(device, &[COLS, COLS], DType::F16)?, zeros(device, &[COLS, COLS], DType::F16)?);
    let turned = x.view().with_layout(x.layout().swap(0, 1)?)?;
    Ok(rocfire_fusion::eager::copy_into(turned, y.view_mut())?)
}

/// Numbers spread like logits.
fn spread(device: &Device, shape: &[usize]) -> rocfire_hal::Result<Tensor> {
    let mut state = 1_u32;
    let mut part = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let count = shape.iter().product();
    let bytes: Vec<u8> = (0..count).flat_map(|_| (2.0 * (part() + part() + part())).to_le_bytes()).collect();
    Tensor::from_bytes(device, shape, DType::F32, &bytes)
}

fn sampled_tokens(device: &Device, top_k: i32) -> Outcome {
    let x = spread(device, &[64, 128_256])?;
    let k = Tensor::from_bytes(device, &[1], DType::I32, &top_k.to_le_bytes())?;
    let p = Tensor::from_bytes(device, &[1], DType::F32, &0.9_f32.to_le_bytes())?;
    let (words, mut tokens) = (zeros(device, &[64], DType::I64)?, zeros(device, &[64], DType::I32)?);
    let for_all = Layout::strided(&[64], &[0], 0)?;
    let mut params = SampleParams::default();
    (params.top_k, params.top_p) = (Some(k.view().with_layout(for_all)?), Some(p.view().with_layout(for_all)?));
    params.draw = Draw::Seeds { seeds: words.view(), offsets: words.view() };
    Ok(sample(device.stream(), x.view(), &params, tokens.view_mut())?)
}

fn largest(device: &Device) -> Outcome {
    let (x, mut places) = (spread(device, &[64, 65_536])?, zeros(device, &[64, 2048], DType::I32)?);
    let mut params = TopK::new(Order::Descending);
    params.sorted = false;
    Ok(top_k(device.stream(), x.view(), &params, places.view_mut(), None)?)
}

fn routed(device: &Device) -> Outcome {
    let (x, bias) = (spread(device, &[ROWS, 256])?, spread(device, &[256])?);
    let (mut shares, mut ids) = (zeros(device, &[ROWS, 8], DType::F32)?, zeros(device, &[ROWS, 8], DType::I32)?);
    let mut params = RouteParams::new(256, Score::Sigmoid);
    params.bias = Some(bias.view());
    params.groups = Some(Groups { count: 8, kept: 4, score: GroupScore::TwoLargest });
    params.renormalises = true;
    Ok(route(device.stream(), x.view(), &params, shares.view_mut(), ids.view_mut())?)
}

fn sorted_by_expert(device: &Device) -> Outcome {
    let ids: Vec<u8> = (0..ROWS * 8).flat_map(|n| ((n / 8 * 37 + n % 8 * 31) as i32 % 256).to_le_bytes()).collect();
    let ids = Tensor::from_bytes(device, &[ROWS, 8], DType::I32, &ids)?;
    let (mut order, mut offsets) = (zeros(device, &[ROWS * 8], DType::I32)?, zeros(device, &[257], DType::I32)?);
    let to = ByExpert::new(order.view_mut(), offsets.view_mut());
    Ok(sort_by_expert(device.stream(), ids.view(), &SortParams::new(256), to)?)
}

/// A kernel's figures.
struct Figures {
    kernel: String,
    vgprs: u32,
    waves: f64,
    scratch: u64,
    /// Share of LDS clocks that are conflicts, in either order.
    conflicts: [f64; 2],
    /// Bytes of the segments of 64 and of 128 bytes touched, over bytes asked for. Caches are asked in halves of their lines of 128
    /// bytes: the first has the limit.
    segments: [f64; 2],
    /// Bytes of the different lines of memory.
    memory: u64,
    /// Lines that workgroups read, each by itself, over different lines: the others come from caches.
    fetched: f64,
    /// Bytes of loads under way in a SIMD.
    under_way: f64,
    matrix_busy: f64,
    longest: &'static str,
}

impl Figures {
    fn of(profile: &Profile) -> Figures {
        let (total, bound) = (profile.total(), profile.bound());
        let share = |conflicts: u64| conflicts as f64 / (total.lds_phases + conflicts).max(1) as f64;
        let requested = profile.counter("VMEM_REQUESTED_BYTES").max(1);
        let resources = &profile.resources;
        Figures {
            kernel: profile.kernel.clone(),
            vgprs: resources.vgprs + resources.agprs,
            waves: profile.occupancy.waves_per_simd(),
            scratch: profile.plain.scratch,
            conflicts: [share(total.lds_conflicts_sequential), share(total.lds_conflicts_interleaved)],
            segments: [("VMEM_SEGMENTS_64B", 64), ("VMEM_SEGMENTS_128B", 128)]
                .map(|(name, bytes)| (profile.counter(name) * bytes) as f64 / requested as f64),
            memory: profile.memory_bytes().0,
            fetched: profile.lines.read_by_groups as f64 / profile.lines.read.max(1) as f64,
            under_way: under_way(profile) * profile.occupancy.waves_per_simd(),
            matrix_busy: bound.matrix_busy,
            longest: bound.longest.name(),
        }
    }
}

/// Most bytes of loads that one wave has under way: loads in program order, less those that a wait on their counter lets
/// finish. Twice over the loop that most of them are in would find no more, as a round ends with its waits.
fn under_way(profile: &Profile) -> f64 {
    let mut open: Vec<f64> = Vec::new();
    let mut most = 0f64;
    for row in profile.rows.iter().filter(|row| row.tally.executions > 0) {
        let text = profile.text(row);
        if row.tally.accesses > 0 && text.contains("load") {
            open.push(row.tally.requested_bytes as f64 / row.tally.executions as f64);
            most = most.max(open.iter().sum());
        } else if text.starts_with("s_waitcnt") {
            let left = |name: &str| {
                let rest = text.split_once(name)?.1;
                rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
            };
            let plain = text.split_whitespace().nth(1) == Some("0");
            if let Some(left) = left("vmcnt(").or(if plain { Some(0) } else { None }) {
                open.drain(..open.len().saturating_sub(left));
            }
        }
    }
    most
}

#[test]
fn main_kernels_keep_the_limits_of_the_cost_model() {
    let mut missed = Vec::new();
    let full = std::env::var_os("ROCFIRE_TEST_FULL").is_some();
    println!(
        "| kernel of | on | kernel | VGPRs | waves a SIMD | scratch | LDS conflicts % in order, interleaved | segments of 64, 128 ÷ asked | read by workgroups ÷ lines | KiB under way a SIMD | matrix busy % | bound by |"
    );
    println!("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    for subject in SUBJECTS.iter().chain(recurrent::SUBJECTS).filter(|subject| full || subject.always) {
        for arch in &ARCHES[..if full { ARCHES.len() } else { 1 }] {
            let whole = subject.compulsory.is_some();
            let sample =
                Sample { groups: if whole { None } else { Some(SAMPLE) }, skip_others: !whole, timeline: false };
            let config = Config::from_env().unwrap().with_profile(sample);
            let device = Device::open(DeviceId::emulated(arch).unwrap(), config).unwrap();
            (subject.run)(&device).unwrap_or_else(|error| panic!("{} on {arch}: {error}", subject.name));
            device.sync().unwrap();
            for kernel in device.modelled().unwrap_or_default() {
                let figures = Figures::of(&kernel.largest);
                print_row(subject.name, arch, &figures);
                missed.extend(misses(subject, arch, &figures));
            }
        }
    }
    for (_, _, text) in &missed {
        println!("{text}");
    }
    let unexpected: Vec<&String> = missed.iter().filter(|(_, known, _)| !known).map(|(_, _, text)| text).collect();
    assert!(unexpected.is_empty(), "{} limits missed:\n{unexpected:#?}", unexpected.len());
    for known in KNOWN.iter().chain(recurrent::KNOWN).filter(|_| full) {
        assert!(missed.iter().any(|(row, _, _)| *row == Some(known)), "{known:?} holds: its row must go");
    }
}

fn print_row(subject: &str, arch: &str, figures: &Figures) {
    let Figures {
        kernel, vgprs, waves, scratch, conflicts, segments, fetched, under_way, matrix_busy, longest, ..
    } = figures;
    println!(
        "| {subject} | {arch} | {kernel} | {vgprs} | {waves:.1} | {scratch} | {:.2}, {:.2} | {:.3}, {:.3} | {fetched:.2} | {:.1} | {:.1} | {longest} |",
        100.0 * conflicts[0],
        100.0 * conflicts[1],
        segments[0],
        segments[1],
        under_way / 1024.0,
        100.0 * matrix_busy,
    );
}

/// Part of a kernel's, a subject's and an architecture's name, the limit, why it is missed.
type Known = (&'static str, &'static str, &'static str, Limit, &'static str);

/// The limits that a kernel misses: the row that knows of it, whether there is one, and what to print.
fn misses(subject: &Subject, arch: &str, figures: &Figures) -> Vec<(Option<&'static Known>, bool, String)> {
    let thin = subject.compulsory.is_some();
    let fetched = subject.compulsory.map_or(0.0, |bytes| figures.memory as f64 / bytes as f64);
    let conflicts = figures.conflicts[0].max(figures.conflicts[1]);
    let limits = [
        (Limit::Spills, figures.scratch > 0, figures.scratch as f64),
        (Limit::Conflicts, conflicts > 0.02, conflicts),
        (Limit::Segments, figures.segments[0] > 1.05, figures.segments[0]),
        (Limit::Waves, figures.waves < 2.0, figures.waves),
        (Limit::Fetched, fetched > 1.05, fetched),
        (Limit::UnderWay, thin && figures.under_way < 4096.0, figures.under_way),
    ];
    let found = limits.into_iter().filter(|(_, missed, _)| *missed);
    found
        .map(|(limit, _, value)| {
            let known = KNOWN.iter().chain(recurrent::KNOWN).find(|(kernel, of, on, which, _)| {
                figures.kernel.contains(kernel) && subject.name.contains(of) && arch.contains(on) && *which == limit
            });
            let why = known.map_or("NOT EXPECTED", |row| row.4);
            let text = format!("{} of {} on {arch}: {limit:?} {value:.3}: {why}", figures.kernel, subject.name);
            (known, known.is_some(), text)
        })
        .collect()
}
