//! Kernels of quantised weights: `quantise.hip`, `dequantise.hip`, `get_rows.hip`, `mat_vec.hip`, those of mixtures of experts, and
//! products made of several of them.

use cudarc::driver::LaunchConfig;
use cudarc::rocfire::Argument::{Read, ReadWrite, Write};
use cudarc::rocfire::{KernelSpec, Launch};
use rocfire_fusion::storage;
use rocfire_kernels::quant;

use super::{INT, SIZE, Words, kernel, template};
use crate::{geometry, product};

const QUANTISE: (&str, &str) = template!(gguf "coded_rows.h" => "quantise.hip");
const DEQUANTISE: (&str, &str) = template!(gguf => "dequantise.hip");
const DEQUANTISE_Q8K: (&str, &str) = template!("template.h" => "dequantise_q8k.hip");
const GET_ROWS: (&str, &str) = template!("template.h" => "get_rows.hip");
const CODES_TO_F16: (&str, &str) = template!(gguf "coded_rows.h" => "codes_to_f16.hip");
const SCALE_ROWS: (&str, &str) = template!("template.h" => "scale_rows.hip");
const MOE_GEMM: (&str, &str) = template!(gguf => "moe_gemm.hip");
const MOE_ROWS: (&str, &str) = template!("template.h" => "moe_rows.hip");
const MAT_VEC: (&str, &str) = template!(gguf "template.h" "coded_rows.h" => "mat_vec.hip");

/// A quantised type of GGUF that weights come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gguf {
    /// Its name, in small letters.
    pub name: &'static str,
    /// Its name in `gguf.h`.
    pub device: &'static str,
    /// The library's word for it.
    pub kind: quant::Gguf,
    /// Weights in a block.
    pub size: usize,
    /// Bytes of a block.
    pub bytes: usize,
}

pub(crate) const TYPES: [Gguf; 10] = [
    Gguf::new("q4_0", "Q4_0", quant::Gguf::Q4_0),
    Gguf::new("q4_1", "Q4_1", quant::Gguf::Q4_1),
    Gguf::new("q5_0", "Q5_0", quant::Gguf::Q5_0),
    Gguf::new("q5_1", "Q5_1", quant::Gguf::Q5_1),
    Gguf::new("q8_0", "Q8_0", quant::Gguf::Q8_0),
    Gguf::new("q2_k", "Q2_K", quant::Gguf::Q2K),
    Gguf::new("q3_k", "Q3_K", quant::Gguf::Q3K),
    Gguf::new("q4_k", "Q4_K", quant::Gguf::Q4K),
    Gguf::new("q5_k", "Q5_K", quant::Gguf::Q5K),
    Gguf::new("q6_k", "Q6_K", quant::Gguf::Q6K),
];

impl Gguf {
    const fn new(name: &'static str, device: &'static str, kind: quant::Gguf) -> Gguf {
        Gguf { name, device, kind, size: kind.weights(), bytes: kind.bytes() }
    }

    /// The type that a word of a kernel's name stands for, with or without an underscore, in small or large letters.
    pub(crate) fn of(word: &str) -> Gguf {
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let found = TYPES.into_iter().find(|gguf| plain(gguf.name) == plain(word));
        found.expect("names.txt has quantised types where families want them")
    }
}

/// `quantize_q8_1`
pub(super) fn quantise() -> KernelSpec {
    quantise_from("float")
}

/// Quantises activations of a type in device code to int8, in Candle's geometry.
pub(crate) fn quantise_from(device: &str) -> KernelSpec {
    kernel(QUANTISE, &[Read, Write, INT, INT]).define("CANDLE_T", device)
}

/// `dequantize_block_TYPE_OUT`
pub(super) fn dequantise(words: Words) -> KernelSpec {
    let out = storage(words.dtype(1));
    if words.word(0) == "q8_K" {
        let spec = kernel(DEQUANTISE_Q8K, &[Read, Write]).define("CANDLE_OUT", out);
        return spec.with_geometry(|launch| per_block(launch, 256));
    }
    let gguf = Gguf::of(words.word(0));
    if gguf.size == 256 {
        let spec = kernel(DEQUANTISE, &[Read, Write]).define("CANDLE_KIND", "1");
        let spec = spec.define("CANDLE_TYPE", gguf.device).define("CANDLE_OUT", out);
        return spec.with_geometry(|launch| per_block(launch, 4));
    }
    // The argument counts weights for these two types, blocks for the others.
    let counted = if matches!(gguf.name, "q5_0" | "q5_1") { 32 } else { 1 };
    let spec = dequantise_counted(gguf, out, counted);
    spec.with_geometry(if counted == 32 {
        |launch| counted_units(launch, 32)
    } else {
        |launch| counted_units(launch, 1)
    })
}

/// Decodes as many units as the kernel's third argument says; each unit counts as `counted` there.
pub(crate) fn dequantise_counted(gguf: Gguf, out: &str, counted: usize) -> KernelSpec {
    let spec = kernel(DEQUANTISE, &[Read, Write, INT]).define("CANDLE_KIND", "0");
    let spec = spec.define("CANDLE_TYPE", gguf.device).define("CANDLE_OUT", out);
    spec.define("CANDLE_COUNTED", counted.to_string())
}

/// Candle's grid, which has a workgroup per 256 weights, with `lanes` lanes a workgroup.
fn per_block(launch: &Launch<'_>, lanes: u32) -> LaunchConfig {
    LaunchConfig { block_dim: (lanes, 1, 1), ..launch.config() }
}

/// A lane for each unit that the third argument counts.
fn counted_units(launch: &Launch<'_>, counted: u64) -> LaunchConfig {
    geometry::groups((launch.integer(2) / counted).div_ceil(u64::from(geometry::BLOCK)), geometry::BLOCK)
}

/// Weights that Candle allocates behind those of a quantised tensor: its `MATRIX_ROW_PADDING`.
const PADDING: &str = "512";

/// `get_rows_TYPE`
pub(super) fn get_rows(words: Words) -> KernelSpec {
    let arguments = [Read, Read, Write, SIZE, SIZE];
    let spec = match words.word(0) {
        "f32" | "f16" | "bf16" => kernel(GET_ROWS, &arguments).define("CANDLE_T", storage(words.dtype(0))),
        word => {
            let spec = kernel(DEQUANTISE, &arguments).define("CANDLE_KIND", "2").define("CANDLE_OUT", "float");
            spec.define("CANDLE_TYPE", Gguf::of(word).device)
        }
    };
    let spec = spec.define("CANDLE_PADDING", PADDING).with_room_of(0);
    spec.with_geometry(|launch| geometry::groups(launch.config().grid_dim.0.into(), geometry::BLOCK))
}

/// `dequantize_mul_mat_vec_TYPE`
pub(super) fn mat_vec_f32(words: Words) -> KernelSpec {
    let spec = kernel(MAT_VEC, &[Read, Read, Write, INT, INT]).define("CANDLE_KIND", "1");
    let spec = spec.define("CANDLE_TYPE", Gguf::of(words.word(0)).device);
    spec.with_geometry(|launch| geometry::groups(launch.integer(4).div_ceil(4), 128))
}

/// `mul_mat_vec_TYPE_q8_1_cudaROWS`
pub(super) fn mat_vec(words: Words) -> KernelSpec {
    let spec = mat_vec_of(Gguf::of(words.word(0)), "float", words.word(1));
    spec.with_geometry(if words.word(1) == "1" {
        |launch| mat_vec_grid(launch.integer(4), 1)
    } else {
        |launch| mat_vec_grid(launch.integer(4), 2)
    })
}

/// A mat-vec with `rows` rows of int8 activations.
pub(crate) fn mat_vec_of(gguf: Gguf, out: &str, rows: &str) -> KernelSpec {
    let spec = kernel(MAT_VEC, &[Read, Read, Write, INT, INT, INT, INT]).define("CANDLE_KIND", "0");
    mat_vec_defines(spec, gguf, out, rows)
}

/// The same for up to `several` matrices of weights in one launch.
pub(crate) fn mat_vecs_of(gguf: Gguf, out: &str, rows: &str, several: usize) -> KernelSpec {
    let spec = kernel(MAT_VEC, &[]).define("CANDLE_KIND", "3").define("CANDLE_SEVERAL", several.to_string());
    mat_vec_defines(spec, gguf, out, rows)
}

fn mat_vec_defines(spec: KernelSpec, gguf: Gguf, out: &str, rows: &str) -> KernelSpec {
    let lines = lines_of(if rows == "1" { 1 } else { 2 }).to_string();
    let spec = spec.define("CANDLE_TYPE", gguf.device).define("CANDLE_OUT", out).define("CANDLE_ROWS", rows);
    spec.define("CANDLE_LINES", lines)
}

/// The most rows of activations that a mat-vec takes.
pub(crate) const MAT_VEC_ROWS: usize = 8;

/// Lanes of a workgroup of mat-vecs, `CANDLE_MAT_VEC_BLOCK` of `mat_vec.hip`.
pub(crate) const MAT_VEC_BLOCK: u32 = 128;

/// How many outputs 32 lanes compute. For one row they are two: activations are read half as often, and twice the weights are on
/// the way from memory. With more rows there are no registers left for that. On an H200 28672 x 8192 weights of Q4_K take 48.5 us
/// by two outputs, 55.2 by one (`candle-models bench gguf`, 2026-11-22).
fn lines_of(rows: usize) -> u64 {
    if rows == 1 { 2 } else { 1 }
}

/// The geometry for so many outputs of so many rows, as `mat_vec.hip` says.
pub(crate) fn mat_vec_grid(outputs: u64, rows: usize) -> LaunchConfig {
    geometry::groups(outputs.div_ceil(u64::from(MAT_VEC_BLOCK / 32) * lines_of(rows)), MAT_VEC_BLOCK)
}

/// `mul_mat_TYPE`. It takes any number of rows of activations; Candle calls it for more than a mat-vec takes.
pub(super) fn mat_mul() -> KernelSpec {
    KernelSpec::by_operators(vec![Read, Read, Write, INT, INT, INT, INT, INT], |node, stream, turn| {
        product::by_name(Gguf::of(Words::of(node).word(0)), node, stream, turn)
    })
}

/// `indexed_moe_forward_TYPE_q8_1`
pub(super) fn moe(words: Words) -> KernelSpec {
    let spec = kernel(MAT_VEC, &[Read, Read, Read, Write, INT, INT, INT, INT, INT, INT]).define("CANDLE_KIND", "2");
    let spec = spec.define("CANDLE_TYPE", Gguf::of(words.word(0)).device);
    let spec = spec.define("CANDLE_PADDING", PADDING).with_room_of(0);
    spec.with_geometry(|launch| {
        let (outputs, batch, top) = launch.config().grid_dim;
        LaunchConfig { grid_dim: (outputs.div_ceil(4), batch, top), block_dim: (128, 1, 1), shared_mem_bytes: 0 }
    })
}

/// Decodes int8 activations to f16.
pub(crate) fn codes_to_f16() -> KernelSpec {
    kernel(CODES_TO_F16, &[Read, Write, Write, INT, INT])
}

/// Multiplies each row of a matrix by its factor.
pub(crate) fn scale_rows() -> KernelSpec {
    kernel(SCALE_ROWS, &[ReadWrite, Read, INT, SIZE])
}

/// Multiplies each token of a list by the dense weights of its expert.
pub(crate) fn moe_gemm(device: &str) -> KernelSpec {
    let arguments = [Read, Read, Read, Read, Read, Write, INT, INT, INT, INT, INT];
    kernel(MOE_GEMM, &arguments).define("CANDLE_T", device)
}

/// Gathers rows in the order of a list that is sorted by expert, and notes where each expert's begin.
pub(crate) fn moe_gather(device: &str) -> KernelSpec {
    let arguments = [Read, Read, Read, Write, Write, INT, INT, INT, INT];
    kernel(MOE_ROWS, &arguments).define("CANDLE_KIND", "0").define("CANDLE_T", device)
}

/// Scatters rows in the order of such a list back to their tokens.
pub(crate) fn moe_scatter(device: &str) -> KernelSpec {
    let arguments = [Read, Read, Read, Read, Write, INT, INT, INT];
    kernel(MOE_ROWS, &arguments).define("CANDLE_KIND", "1").define("CANDLE_T", device)
}
