//! Groups of rows by matrices in blocks of GGUF: every type, few rows and many, by offsets, counts and choices of rows; rows of a list.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::quant::{Gguf, GgufMatrices, ListedRows, gguf_matmul, gguf_matmul_grouped, gguf_matmul_listed};

use super::drawn::{Draw, forever};
use super::grouped_codes::{By, GroupRows};
use super::{Call, Case, Failure};
use crate::data::{Array, Placement};
use crate::oracle::dot;

const CONTIGUOUS: Placement = Placement::Contiguous;

/// Type of A and of C, rows of each group, N and K, blocks and how many lie behind a line, groups, how A lies.
pub(super) type Row = ([DType; 2], &'static [usize], [usize; 2], (Gguf, usize), By, Placement);

const CASES: [Row; 23] = {
    use DType::{BF16, F16, F32};
    use Gguf::{Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    use Placement::{Flipped, Strided, Transposed};
    const fn lies(kind: Gguf) -> (Gguf, usize) {
        (kind, 0)
    }
    [
        // By tiles: of every type, with groups of none, of one, a wave and a row more or less, and of a prime.
        ([F16, F16], &[1, 0, 17, 5], [67, 96], lies(Q8_0), By::Choices(4), CONTIGUOUS),
        ([BF16, BF16], &[33, 0, 3, 1], [64, 256], lies(Q4K), By::Choices(8), CONTIGUOUS),
        ([F16, F32], &[2, 31], [65, 512], lies(Q6K), By::Offsets, CONTIGUOUS),
        ([BF16, BF16], &[13, 4], [32, 160], lies(Q4_0), By::Offsets, CONTIGUOUS),
        ([F16, F16], &[7, 9], [33, 32], lies(Q4_1), By::Counts, CONTIGUOUS),
        ([F32, F32], &[4, 11, 0], [67, 224], lies(Q5_0), By::Counts, CONTIGUOUS),
        ([BF16, F32], &[5, 0, 8], [64, 320], lies(Q5_1), By::Choices(2), Strided),
        ([F16, F16], &[5, 12], [72, 256], lies(Q2K), By::Choices(1), CONTIGUOUS),
        ([F32, F32], &[40, 2], [31, 512], lies(Q3K), By::Offsets, CONTIGUOUS),
        ([BF16, BF16], &[9, 3], [63, 768], lies(Q5K), By::Offsets, Transposed),
        // Higher tiles.
        ([F16, F16], &[31, 33, 63, 65], [32, 256], lies(Q4K), By::Offsets, CONTIGUOUS),
        ([BF16, BF16], &[70, 2], [72, 96], lies(Q8_0), By::Choices(2), CONTIGUOUS),
        // Few rows a group, by lanes: one column, a lane and a workgroup of them more or less.
        ([F16, F16], &[1, 0, 3, 2], [15, 256], lies(Q4K), By::Choices(2), CONTIGUOUS),
        ([BF16, F32], &[5, 1], [17, 1056], lies(Q8_0), By::Offsets, CONTIGUOUS),
        ([F32, F32], &[1, 4], [33, 512], lies(Q6K), By::Counts, Transposed),
        ([F16, F16], &[2, 1], [5, 64], lies(Q5_1), By::Choices(3), Flipped),
        ([BF16, BF16], &[8], [16, 256], lies(Q2K), By::Choices(1), Strided),
        ([F16, F16], &[1, 1, 1], [31, 96], lies(Q4_0), By::Offsets, CONTIGUOUS),
        ([F32, F32], &[3, 1, 0], [8, 256], lies(Q3K), By::Choices(2), CONTIGUOUS),
        // Lines that lie apart; no row at all; one of everything.
        ([F16, F16], &[3, 14], [16, 512], (Q5K, 1), By::Choices(2), CONTIGUOUS),
        ([BF16, BF16], &[2, 1], [16, 64], (Q8_0, 1), By::Offsets, CONTIGUOUS),
        ([BF16, BF16], &[0, 0], [32, 64], lies(Q8_0), By::Offsets, CONTIGUOUS),
        ([F16, F16], &[1], [1, 32], lies(Q5_0), By::Choices(1), CONTIGUOUS),
    ]
};

/// Tiles of several steps of 256 of K, whose lines begin where no segment of memory does, of low tiles and of high ones.
const MANY_STEPS: [Row; 8] = {
    use DType::{BF16, F16, F32};
    use Gguf::{Q2K, Q3K, Q4_0, Q4K, Q5_1, Q6K, Q8_0};
    [
        ([F16, F16], &[3, 14], [70, 1056], (Q4_0, 0), By::Offsets, CONTIGUOUS),
        ([BF16, BF16], &[9, 8], [67, 1280], (Q6K, 1), By::Choices(2), CONTIGUOUS),
        ([F16, F16], &[66, 1, 70], [66, 1280], (Q3K, 0), By::Offsets, CONTIGUOUS),
        ([BF16, F32], &[12, 7], [65, 1024], (Q4K, 0), By::Counts, CONTIGUOUS),
        ([F32, F32], &[10, 9], [65, 544], (Q8_0, 0), By::Offsets, CONTIGUOUS),
        ([F16, F16], &[70, 65, 3], [65, 800], (Q8_0, 0), By::Choices(2), CONTIGUOUS),
        ([BF16, BF16], &[66, 2], [64, 768], (Q2K, 1), By::Offsets, CONTIGUOUS),
        ([BF16, BF16], &[67], [33, 1120], (Q5_1, 0), By::Offsets, CONTIGUOUS),
    ]
};

/// Type of A and of C, entries and how many choices have a row of A, N and K, blocks, whether there are factors, how A lies.
type Entries = ([DType; 2], [usize; 2], [usize; 2], Gguf, bool, Placement);

/// Of every type: one entry, one token's, and several tokens'; a column and a workgroup of them more or less.
const LISTED: [Entries; 10] = {
    use DType::{BF16, F16, F32};
    use Gguf::{Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    use Placement::{Strided, Transposed};
    [
        ([F32, F32], [9, 2], [5, 256], Q4K, false, CONTIGUOUS),
        ([BF16, F32], [8, 8], [33, 512], Q6K, false, CONTIGUOUS),
        ([F16, F16], [5, 1], [17, 96], Q4_0, true, Strided),
        ([F32, F32], [4, 1], [4, 1056], Q8_0, true, CONTIGUOUS),
        ([BF16, BF16], [1, 1], [1, 32], Q5_1, false, CONTIGUOUS),
        ([F16, F32], [13, 4], [31, 768], Q2K, false, Transposed),
        ([F16, F16], [6, 2], [9, 256], Q3K, false, CONTIGUOUS),
        ([BF16, F32], [10, 5], [7, 512], Q5K, true, CONTIGUOUS),
        ([F32, F32], [2, 2], [3, 64], Q4_1, false, CONTIGUOUS),
        ([BF16, BF16], [11, 3], [15, 160], Q5_0, true, CONTIGUOUS),
    ]
};

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = CASES.into_iter().map(coded).collect();
    // More groups than a wave has lanes, most of them empty.
    let rows: Vec<usize> = (0..150).map(|group| usize::from(group % 9 == 2) * (1 + group / 9 % 3)).collect();
    let blocks = (Gguf::Q4K, 0);
    cases.push(coded(([DType::BF16; 2], forever(&rows), [24, 256], blocks, By::Choices(8), CONTIGUOUS)));
    cases.extend(MANY_STEPS.into_iter().map(coded));
    cases.extend(LISTED.into_iter().map(|entries| listed(entries, true)));
    cases
}

/// Types of A and C, rows of each group, columns and K, blocks, how groups are told.
type Of16Bits = ([DType; 2], &'static [usize], [usize; 2], Gguf, By);

/// Of few rows of 16 bits, which the matrix unit takes: every type by one row, a few, a prime, a tile and one more, 32, with groups of none,
/// columns that end inside of a tile, one block and several along K; and tiles of such rows.
pub fn of_16_bits() -> Vec<Case> {
    use DType::{BF16, F16, F32};
    use Gguf::{Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    let few: [Of16Bits; 26] = [
        ([BF16, BF16], &[1], [33, 32], Q4_0, By::Offsets),
        ([F16, F16], &[2, 0, 17], [17, 320], Q4_0, By::Choices(2)),
        ([BF16, BF16], &[0, 7, 2], [35, 160], Q4_1, By::Choices(3)),
        ([F16, F16], &[1], [65, 96], Q4_1, By::Counts),
        ([BF16, BF16], &[17], [31, 192], Q5_0, By::Offsets),
        ([F16, F16], &[7, 1], [66, 32], Q5_0, By::Choices(1)),
        ([BF16, BF16], &[32], [33, 96], Q5_1, By::Counts),
        ([F16, F16], &[2], [40, 352], Q5_1, By::Offsets),
        ([BF16, BF16], &[1], [70, 1056], Q8_0, By::Offsets),
        ([BF16, F32], &[7, 0, 2], [33, 32], Q8_0, By::Choices(2)),
        ([BF16, BF16], &[17, 1], [47, 160], Q8_0, By::Counts),
        ([F16, F16], &[32], [34, 128], Q8_0, By::Offsets),
        ([F16, F16], &[2, 1], [97, 288], Q8_0, By::Choices(4)),
        ([BF16, BF16], &[2], [33, 512], Q2K, By::Choices(1)),
        ([F16, F16], &[17], [18, 256], Q2K, By::Offsets),
        ([BF16, BF16], &[7, 1], [35, 256], Q3K, By::Counts),
        ([F16, F16], &[1], [66, 1280], Q3K, By::Offsets),
        ([BF16, BF16], &[1], [70, 1280], Q4K, By::Offsets),
        ([BF16, F32], &[2, 0, 0, 7], [35, 256], Q4K, By::Choices(2)),
        ([BF16, BF16], &[32, 3], [33, 512], Q4K, By::Offsets),
        ([F16, F16], &[17, 1], [47, 768], Q4K, By::Choices(3)),
        ([BF16, BF16], &[17], [33, 256], Q5K, By::Counts),
        ([F16, F16], &[7], [34, 768], Q5K, By::Choices(7)),
        ([BF16, BF16], &[2, 1], [66, 1024], Q6K, By::Choices(2)),
        ([BF16, F32], &[32], [33, 256], Q6K, By::Offsets),
        ([F16, F16], &[1, 0, 17], [40, 512], Q6K, By::Counts),
    ];
    let tiles: [Of16Bits; 6] = [
        ([F16, F16], &[66, 70], [33, 256], Q4K, By::Offsets),
        ([BF16, BF16], &[131], [34, 256], Q6K, By::Offsets),
        ([F16, F32], &[60, 71], [17, 96], Q8_0, By::Choices(2)),
        ([BF16, BF16], &[65], [33, 256], Q2K, By::Counts),
        ([BF16, BF16], &[67], [32, 64], Q4_1, By::Offsets),
        ([F16, F16], &[66], [31, 96], Q5_0, By::Choices(3)),
    ];
    // Rows that are no vectors go to lanes.
    let strided = ([F16; 2], &[1, 0, 3, 2][..], [15, 256], (Gguf::Q4K, 0), By::Choices(2), Placement::Strided);
    let rows = few
        .into_iter()
        .chain(tiles)
        .map(|(types, rows, sides, kind, by)| (types, rows, sides, (kind, 0), by, CONTIGUOUS));
    // K that waves cut, by whole stages of 256 and not, columns by whole strips and not.
    let cut: [Of16Bits; 12] = [
        ([BF16, BF16], &[1], [48, 2048], Q4K, By::Offsets),
        ([F16, F16], &[1], [33, 2304], Q6K, By::Offsets),
        ([BF16, BF16], &[1], [32, 2080], Q8_0, By::Offsets),
        ([BF16, BF16], &[9], [64, 2048], Q8_0, By::Counts),
        ([F16, F16], &[5], [64, 2560], Q6K, By::Choices(2)),
        ([BF16, BF16], &[32], [64, 2304], Q4K, By::Offsets),
        ([F16, F16], &[16], [32, 2048], Q4_0, By::Offsets),
        ([BF16, BF16], &[3, 0, 6], [64, 2048], Q3K, By::Offsets),
        ([F16, F16], &[27], [40, 2112], Q5_1, By::Choices(4)),
        ([BF16, BF16], &[13, 2], [96, 2304], Q2K, By::Counts),
        ([F16, F32], &[4], [33, 2176], Q5_0, By::Offsets),
        ([BF16, BF16], &[20], [64, 4096], Q5K, By::Offsets),
    ];
    let cut = cut.into_iter().map(|(types, rows, sides, kind, by)| (types, rows, sides, (kind, 0), by, CONTIGUOUS));
    rows.chain([strided]).chain(cut).map(coded).collect()
}

/// Up to five groups, some of them empty.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let rows: Vec<usize> = (0..=draw.below(5)).map(|_| if draw.below(4) == 3 { 0 } else { draw.extent(40) }).collect();
    let dtype = draw.pick(&[DType::F32, DType::F16, DType::BF16]);
    let kind = draw.pick(&Gguf::ALL);
    let most = if kind.weights() == 32 { 9 } else { 2 };
    let (n, k) = (draw.extent(97), kind.weights() * (1 + draw.below(most)));
    let by = draw.pick(&[By::Offsets, By::Counts, By::Choices(3)]);
    let output = if draw.flag() { DType::F32 } else { dtype };
    coded(([dtype, output], forever(&rows), [n, k], (kind, draw.below(2)), by, draw.placement()))
}

/// A scale of f16.
fn half(block: &[u8], at: usize) -> f64 {
    // Finite ones alone are made here: a sign, five bits of exponent, ten of mantissa.
    let bits = u16::from_le_bytes([block[at], block[at + 1]]);
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    let size = if exponent == 0 { mantissa * 2f64.powi(-14) } else { (1.0 + mantissa) * 2f64.powi(exponent - 15) };
    if bits >> 15 == 1 { -size } else { size }
}

/// Where a block has its scales as f16.
fn halves(kind: Gguf) -> &'static [usize] {
    match kind {
        Gguf::Q4_0 | Gguf::Q5_0 | Gguf::Q8_0 => &[0],
        Gguf::Q4_1 | Gguf::Q5_1 | Gguf::Q4K | Gguf::Q5K => &[0, 2],
        Gguf::Q2K => &[80, 82],
        Gguf::Q3K => &[108],
        Gguf::Q6K => &[208],
    }
}

/// Any bytes, with scales such that weights stay of the order of one.
pub(super) fn block(kind: Gguf, seed: usize) -> Vec<u8> {
    let byte = |at: usize| ((seed * 2_654_435_761 + at * 40_503 + (seed + at) * (seed + at) * 7919) >> 7) as u8;
    let mut block: Vec<u8> = (0..kind.bytes()).map(byte).collect();
    // A power of two.
    let unit: i32 = match kind {
        Gguf::Q4_0 | Gguf::Q4_1 | Gguf::Q5_0 | Gguf::Q5_1 => -4,
        Gguf::Q8_0 => -7,
        Gguf::Q2K | Gguf::Q3K => -6,
        Gguf::Q4K | Gguf::Q5K => -9,
        Gguf::Q6K => -11,
    };
    for (number, &at) in halves(kind).iter().enumerate() {
        // 1 to 2 times the unit in steps of an eighth, of both signs.
        let (eighths, is_negative) = ((seed * 5 + number * 3) % 8, (seed + number) % 3 == 1);
        let bits = (unit + 15) as u16 * 1024 + eighths as u16 * 128 + u16::from(is_negative) * 0x8000;
        block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    }
    block
}

/// Scale and least value of a group of 32 weights, of six bits each in 12 bytes.
fn six_bits(scales: &[u8], group: usize) -> [u8; 2] {
    match group {
        0..4 => [scales[group] & 63, scales[group + 4] & 63],
        _ => [scales[group + 4] & 15 | scales[group - 4] >> 6 << 4, scales[group + 4] >> 4 | scales[group] >> 6 << 4],
    }
}

/// Weight `at` of a block, as ggml's `dequantize_row` of the type has it.
pub(super) fn weight(kind: Gguf, block: &[u8], at: usize) -> f64 {
    let nibble = |byte: u8, high: bool| if high { byte >> 4 } else { byte & 15 };
    // Of the older types.
    let (byte, is_high) = (at % 16, at / 16 == 1);
    let fifth = |bits: &[u8]| (bits[at / 8 % 4] >> (at % 8) & 1) << 4;
    // Of 256 weights: which 128, which 32 of them, which of these; and the scale of 16.
    let (side, line, place) = (at / 128, at / 32 % 4, at % 32);
    let sixteen = 8 * side + 2 * line + place / 16;
    match kind {
        Gguf::Q4_0 => half(block, 0) * (f64::from(nibble(block[2 + byte], is_high)) - 8.0),
        Gguf::Q4_1 => half(block, 0) * f64::from(nibble(block[4 + byte], is_high)) + half(block, 2),
        Gguf::Q5_0 => {
            let code = nibble(block[6 + byte], is_high) | fifth(&block[2..6]);
            half(block, 0) * (f64::from(code) - 16.0)
        }
        Gguf::Q5_1 => {
            let code = nibble(block[8 + byte], is_high) | fifth(&block[4..8]);
            half(block, 0) * f64::from(code) + half(block, 2)
        }
        Gguf::Q8_0 => half(block, 0) * f64::from(block[2 + at] as i8),
        Gguf::Q2K => {
            let (code, scale) = (block[16 + 32 * side + place] >> (2 * line) & 3, block[sixteen]);
            half(block, 80) * f64::from(scale & 15) * f64::from(code) - half(block, 82) * f64::from(scale >> 4)
        }
        Gguf::Q3K => {
            let scales = &block[96..108];
            let low = nibble(scales[sixteen % 8], sixteen >= 8);
            let scale = low | (scales[8 + sixteen % 4] >> (2 * (sixteen / 4)) & 3) << 4;
            let code = block[32 + 32 * side + place] >> (2 * line) & 3;
            let third = if block[place] >> (4 * side + line) & 1 == 1 { 0.0 } else { 4.0 };
            half(block, 108) * (f64::from(scale) - 32.0) * (f64::from(code) - third)
        }
        Gguf::Q4K | Gguf::Q5K => {
            let codes = if kind == Gguf::Q4K { 16 } else { 48 };
            let group = at / 32;
            let mut code = nibble(block[codes + 32 * (group / 2) + place], group % 2 == 1);
            if kind == Gguf::Q5K {
                code |= (block[16 + place] >> group & 1) << 4;
            }
            let [scale, least] = six_bits(&block[4..16], group);
            half(block, 0) * f64::from(scale) * f64::from(code) - half(block, 2) * f64::from(least)
        }
        Gguf::Q6K => {
            let low = nibble(block[64 * side + 32 * (line % 2) + place], line >= 2);
            let high = block[128 + 32 * side + place] >> (2 * line) & 3;
            let scale = block[192 + sixteen] as i8;
            half(block, 208) * f64::from(scale) * (f64::from(low | high << 4) - 32.0)
        }
    }
}

/// The product; what is no group's is not written: there the case has zeros from before.
pub(super) fn coded(([dtype, output], rows, [n, k], (kind, behind), by, a_placement): Row) -> Case {
    let (count, grouped) = (rows.len(), GroupRows { of: rows, by });
    let (in_line, apart) = (k / kind.weights(), k / kind.weights() + behind);
    let blocks: Vec<u8> = (0..count * n * apart).flat_map(|seed| block(kind, seed)).collect();
    let bytes: Vec<f64> = blocks.iter().map(|&byte| f64::from(byte)).collect();
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [a, blocks, bounds, order] = inputs else { return Err("four inputs".into()) };
        rocfire_fusion::eager::fill(outputs[0].view_mut(), rocfire_fusion::Scalar::Int(0))?;
        let groups = grouped.groups(bounds, order);
        let lies = blocks.layout().slice(2, 0, in_line * kind.bytes(), 1)?;
        let matrices = GgufMatrices { blocks: blocks.view().with_layout(lies)?, kind };
        Ok(gguf_matmul_grouped(stream, a.view(), &matrices, &groups, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let (a, order) = (&inputs[0].values, &inputs[3].values);
        let mut c = vec![0.0; grouped.places() * n];
        for group in 0..grouped.of.len() {
            for column in 0..n {
                let weights: Vec<f64> = (0..k)
                    .map(|at| {
                        let number = (group * n + column) * apart + at / kind.weights();
                        let block = &blocks[number * kind.bytes()..][..kind.bytes()];
                        weight(kind, block, at % kind.weights())
                    })
                    .collect();
                for place in grouped.places_of(group) {
                    let row = grouped.row_of(order, place);
                    c[place * n + column] = dot((0..k).map(|at| (a[row * k + at], weights[at])));
                }
            }
        }
        vec![c]
    };
    let [bounds, order] = grouped.told();
    let inputs = vec![
        (Array::random(&grouped.shape_of_a(k), dtype, 1), a_placement),
        (Array::new(&[count, n, apart * kind.bytes()], DType::U8, bytes), CONTIGUOUS),
        bounds,
        order,
    ];
    let name = grouped.name();
    let size = format!("{name} x {n} x {k} {by:?} {kind:?} {behind} {output} {a_placement:?}");
    let output = ([&grouped.lines()[..], &[n]].concat(), output);
    let call = Call { inputs, outputs: vec![output], launch, oracle };
    Case::new("gguf_matmul_grouped", dtype, size, 2.0 * (grouped.total() * n * k) as f64, call).summing(k)
}

/// Rows by one matrix: a few, by lanes and by operands, tiles, and so many that weights are written out; axes before the rows.
pub fn plain() -> Vec<Case> {
    use DType::{BF16, F16, F32};
    use Placement::{Strided, Transposed};
    type Plain = ([DType; 2], &'static [usize], [usize; 2], Gguf, Placement);
    let of: [Plain; 14] = [
        ([BF16, BF16], &[1], [70, 1280], Gguf::Q4K, CONTIGUOUS),
        ([F16, F16], &[2, 3], [33, 96], Gguf::Q4_0, CONTIGUOUS),
        ([F32, F32], &[1], [17, 512], Gguf::Q6K, CONTIGUOUS),
        ([F32, F32], &[13], [31, 160], Gguf::Q5_1, Transposed),
        ([BF16, F32], &[17], [47, 256], Gguf::Q2K, CONTIGUOUS),
        ([F16, F16], &[32], [40, 320], Gguf::Q5_0, CONTIGUOUS),
        ([BF16, BF16], &[3, 11], [65, 256], Gguf::Q5K, CONTIGUOUS),
        ([BF16, BF16], &[67], [33, 512], Gguf::Q3K, Strided),
        ([F16, F32], &[80], [72, 1056], Gguf::Q8_0, CONTIGUOUS),
        ([BF16, BF16], &[2, 130], [48, 256], Gguf::Q4K, CONTIGUOUS),
        ([F16, F32], &[257], [33, 64], Gguf::Q4_1, Strided),
        ([BF16, BF16], &[256], [1, 32], Gguf::Q8_0, CONTIGUOUS),
        ([F16, F16], &[0], [16, 64], Gguf::Q8_0, CONTIGUOUS),
        ([BF16, BF16], &[1], [1, 32], Gguf::Q5_0, CONTIGUOUS),
    ];
    of.into_iter()
        .map(|([dtype, output], rows, [n, k], kind, placement)| {
            let in_line = k / kind.weights();
            let blocks: Vec<u8> = (0..n * in_line).flat_map(|seed| block(kind, seed)).collect();
            let bytes = blocks.iter().map(|&byte| f64::from(byte)).collect();
            let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
                let w = GgufMatrices { blocks: inputs[1].view(), kind };
                Ok(gguf_matmul(stream, inputs[0].view(), &w, outputs[0].view_mut())?)
            };
            let oracle = move |inputs: &[Array]| {
                let of = |at: usize| {
                    let block = &blocks[at / kind.weights() * kind.bytes()..][..kind.bytes()];
                    weight(kind, block, at % kind.weights())
                };
                let weights: Vec<f64> = (0..n * k).map(of).collect();
                let a = &inputs[0].values;
                let cell = |at: usize| dot((0..k).map(|i| (a[at / n * k + i], weights[at % n * k + i])));
                vec![(0..a.len() / k * n).map(cell).collect()]
            };
            let shape = |last: usize| rows.iter().copied().chain([last]).collect::<Vec<_>>();
            let inputs = vec![
                (Array::random(&shape(k), dtype, 1), placement),
                (Array::new(&[1, n, in_line * kind.bytes()], DType::U8, bytes), CONTIGUOUS),
            ];
            let (flops, size) =
                (2.0 * (rows.iter().product::<usize>() * n * k) as f64, format!("{rows:?} x {n} x {k}"));
            let call = Call { inputs, outputs: vec![(shape(n), output)], launch, oracle };
            Case::new("gguf_matmul", dtype, format!("{size} {kind:?} {output} {placement:?}"), flops, call).summing(k)
        })
        .collect()
}

/// Lists of matrices alone, whose entries are the choices: one, one token's, several tokens', and more than an axis of a grid has.
pub fn in_order() -> Vec<Case> {
    use DType::{BF16, F16, F32};
    let of: [Entries; 4] = [
        ([BF16, BF16], [1, 1], [33, 256], Gguf::Q4K, false, CONTIGUOUS),
        ([F16, F32], [8, 8], [7, 512], Gguf::Q6K, true, CONTIGUOUS),
        ([F32, F32], [13, 4], [31, 96], Gguf::Q8_0, true, Placement::Strided),
        ([F32, F32], [65_600, 8], [1, 32], Gguf::Q4_0, false, CONTIGUOUS),
    ];
    of.into_iter().map(|entries| listed(entries, false)).collect()
}

/// Rows of a list, of which one is not there and one has no matrix; what no entry has keeps the zeros from before. `chosen`: the list says
/// which choice an entry is.
fn listed(([dtype, output], [entries, each], [n, k], kind, has_factors, a_placement): Entries, chosen: bool) -> Case {
    const COUNT: usize = 4;
    let in_line = k / kind.weights();
    let blocks: Vec<u8> = (0..COUNT * n * in_line).flat_map(|seed| block(kind, seed)).collect();
    let bytes: Vec<f64> = blocks.iter().map(|&byte| f64::from(byte)).collect();
    let choices: Vec<f64> =
        (0..entries).map(|at| if !chosen { at } else if at == 2 { entries + 5 } else { at * 7 % entries } as f64).collect();
    let matrices: Vec<f64> =
        (0..entries).map(|at| if at == 3 { -1.0 } else { ((at * 5 + 1) % COUNT) as f64 }).collect();
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [a, blocks, choices, matrices, factors] = inputs else { return Err("five inputs".into()) };
        rocfire_fusion::eager::fill(outputs[0].view_mut(), rocfire_fusion::Scalar::Int(0))?;
        let factors = has_factors.then(|| factors.view());
        let choices = chosen.then(|| choices.view());
        let list = ListedRows { choices, matrices: matrices.view(), each, factors };
        let w = GgufMatrices { blocks: blocks.view(), kind };
        Ok(gguf_matmul_listed(stream, a.view(), &w, &list, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let (a, choices, matrices, factors) =
            (&inputs[0].values, &inputs[2].values, &inputs[3].values, &inputs[4].values);
        let mut c = vec![0.0; entries * n];
        for (&choice, &matrix) in choices.iter().zip(matrices).filter(|&(&c, &m)| c < entries as f64 && m >= 0.0) {
            let (choice, matrix) = (choice as usize, matrix as usize);
            for column in 0..n {
                let line = &blocks[(matrix * n + column) * in_line * kind.bytes()..];
                let weight_at =
                    |at: usize| weight(kind, &line[at / kind.weights() * kind.bytes()..], at % kind.weights());
                let product = dot((0..k).map(|at| (a[choice / each * k + at], weight_at(at))));
                c[choice * n + column] = product * if has_factors { factors[choice] } else { 1.0 };
            }
        }
        vec![c]
    };
    let whole = |values: Vec<f64>| (Array::new(&[values.len()], DType::I32, values), CONTIGUOUS);
    let inputs = vec![
        (Array::random(&[entries.div_ceil(each), k], dtype, 1), a_placement),
        (Array::new(&[COUNT, n, in_line * kind.bytes()], DType::U8, bytes), CONTIGUOUS),
        whole(choices),
        whole(matrices),
        (Array::random(&[entries], DType::F32, 2), CONTIGUOUS),
    ];
    let with = if has_factors { "factors" } else { "none" };
    let order = if chosen { "" } else { "in order " };
    let size = format!("{entries}/{each} x {n} x {k} {kind:?} {with} {output} {order}{a_placement:?}");
    let call = Call { inputs, outputs: vec![(vec![entries, n], output)], launch, oracle };
    Case::new("gguf_matmul_listed", dtype, size, 2.0 * (entries * n * k) as f64, call).summing(k)
}
