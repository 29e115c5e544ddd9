//! Groups of rows by a matrix of codes each: every format, codes along either axis, scales by row, group, block and one for all, by
//! offsets, counts and choices of rows.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{CodeLayout, CodedMatrix, Format, ScaleKind, Scales, q_matmul_grouped};

use super::drawn::{Draw, forever};
use super::quant::sizes;
use super::{Call, Case, Failure};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// Codes, and how they lie: bytes where `axis` is none, else words packed along it, of 0 or 1, K or N.
#[derive(Clone, Copy, Debug)]
struct Codes {
    format: Format,
    axis: Option<usize>,
    placement: Placement,
    /// K and N that share a scale; none: one for all.
    block: Option<[usize; 2]>,
    kind: ScaleKind,
}

/// How groups are told.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    Offsets,
    Counts,
    Choices(usize),
}

/// Rows of groups in C, and how they are told: a row before the first group and two behind the last belong to none.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupRows {
    pub of: &'static [usize],
    pub by: By,
}

impl GroupRows {
    pub fn total(&self) -> usize {
        self.of.iter().sum()
    }

    /// Lines of a group that is counted.
    fn each(&self) -> usize {
        self.of.iter().copied().max().unwrap_or(0) + 1
    }

    /// C's extents but for its columns.
    pub fn lines(&self) -> Vec<usize> {
        match self.by {
            By::Counts => vec![self.of.len(), self.each()],
            _ => vec![self.total() + 3],
        }
    }

    /// Rows of C.
    pub fn places(&self) -> usize {
        self.lines().iter().product()
    }

    /// The rows of C that are a group's.
    pub fn places_of(&self, group: usize) -> std::ops::Range<usize> {
        let start = match self.by {
            By::Counts => group * self.each(),
            _ => 1 + self.of[..group].iter().sum::<usize>(),
        };
        start..start + self.of[group]
    }

    /// Rows of A, and how often each is chosen.
    fn tokens(&self) -> [usize; 2] {
        match self.by {
            By::Choices(each) => [self.places().div_ceil(each), each],
            _ => [self.places(), 1],
        }
    }

    /// The row of A that a row of C is the product of, by the places that are chosen.
    pub fn row_of(&self, order: &[f64], place: usize) -> usize {
        let [tokens, chosen] = self.tokens();
        let row = if matches!(self.by, By::Choices(_)) { order[place] as usize / chosen } else { place };
        row.min(tokens - 1)
    }

    pub fn shape_of_a(&self, k: usize) -> Vec<usize> {
        match self.by {
            By::Counts => vec![self.of.len(), self.each(), k],
            _ => vec![self.tokens()[0], k],
        }
    }

    /// Bounds, and the places in a turn that meets all, with one choice that there is not.
    pub fn told(&self) -> [(Array, Placement); 2] {
        let bounds: Vec<f64> = match self.by {
            By::Counts => self.of.iter().map(|&rows| rows as f64).collect(),
            _ => std::iter::once(1)
                .chain((0..self.of.len()).map(|group| self.places_of(group).end))
                .map(|at| at as f64)
                .collect(),
        };
        let ([tokens, chosen], places) = (self.tokens(), self.places());
        let choice = |place: usize| if place == 2 { (tokens * chosen + 5) as f64 } else { (place * 7 % places) as f64 };
        let whole = |values: Vec<f64>| (Array::new(&[values.len()], DType::I32, values), CONTIGUOUS);
        [whole(bounds), whole((0..places).map(choice).collect())]
    }

    /// The groups by what [`GroupRows::told`] gives.
    pub fn groups<'a>(&self, bounds: &'a Tensor, order: &'a Tensor) -> GemmGroups<'a> {
        match self.by {
            By::Offsets => GemmGroups::Offsets(bounds.view()),
            By::Counts => GemmGroups::Counts(bounds.view()),
            By::Choices(each) => GemmGroups::Choices { offsets: bounds.view(), order: order.view(), each },
        }
    }

    pub fn name(&self) -> String {
        match self.of.len() {
            0..10 => self.of.iter().map(usize::to_string).collect::<Vec<_>>().join("+"),
            count => format!("{} of {count}", self.total()),
        }
    }
}

const CONTIGUOUS: Placement = Placement::Contiguous;
const ALONG_K: Placement = Placement::Transposed;

const fn bytes(format: Format, placement: Placement, block: Option<[usize; 2]>, kind: ScaleKind) -> Codes {
    Codes { format, axis: None, placement, block, kind }
}

const fn words(format: Format, axis: usize, placement: Placement, block: [usize; 2], kind: ScaleKind) -> Codes {
    Codes { format, axis: Some(axis), placement, block: Some(block), kind }
}

type Row = (DType, &'static [usize], [usize; 2], Codes, By, Placement);

/// Type, rows of each group, N and K, codes, groups, how A lies.
const CASES: [Row; 28] = {
    use DType::{BF16, F16, F32};
    use Placement::{Flipped, Strided, Transposed};
    let blocks = Some([128, 128]);
    [
        // As checkpoints have them and laid out along N, by 128 x 128, by channel, microscaled.
        (
            F16,
            &[1, 0, 17, 5],
            [160, 256],
            bytes(Format::E4M3, CONTIGUOUS, blocks, ScaleKind::F32),
            By::Choices(4),
            CONTIGUOUS,
        ),
        (
            BF16,
            &[33, 0, 3, 1],
            [129, 384],
            bytes(Format::E4M3, ALONG_K, blocks, ScaleKind::F32),
            By::Choices(8),
            CONTIGUOUS,
        ),
        (
            BF16,
            &[2, 1, 0, 0, 1, 3],
            [64, 96],
            words(Format::E2M1, 1, CONTIGUOUS, [32, 1], ScaleKind::E8M0),
            By::Choices(8),
            CONTIGUOUS,
        ),
        (F16, &[2, 31], [65, 64], words(Format::E2M1, 0, ALONG_K, [32, 1], ScaleKind::E8M0), By::Offsets, CONTIGUOUS),
        (
            BF16,
            &[3, 0, 1],
            [64, 96],
            words(Format::I4, 1, CONTIGUOUS, [32, 1], ScaleKind::F16),
            By::Offsets,
            CONTIGUOUS,
        ),
        (
            F32,
            &[4, 7, 0],
            [67, 130],
            bytes(Format::I8, CONTIGUOUS, Some([130, 1]), ScaleKind::F32),
            By::Counts,
            CONTIGUOUS,
        ),
        (
            BF16,
            &[5, 0, 8],
            [64, 128],
            bytes(Format::I8, CONTIGUOUS, Some([128, 1]), ScaleKind::F32),
            By::Choices(2),
            CONTIGUOUS,
        ),
        // MXFP8, of few rows and of many, as checkpoints have it and along N.
        (
            BF16,
            &[2, 1, 0, 3],
            [64, 96],
            bytes(Format::E4M3, CONTIGUOUS, Some([32, 1]), ScaleKind::E8M0),
            By::Choices(8),
            CONTIGUOUS,
        ),
        (
            F16,
            &[33, 0, 5],
            [65, 160],
            bytes(Format::E4M3, ALONG_K, Some([32, 1]), ScaleKind::E8M0),
            By::Choices(2),
            CONTIGUOUS,
        ),
        (F32, &[1, 7], [40, 64], bytes(Format::E4M3, ALONG_K, Some([32, 1]), ScaleKind::E8M0), By::Offsets, CONTIGUOUS),
        // Codes along K of few rows: by blocks, by row, by groups of K, by two scales of a lane's codes, with a last slab that is cut off;
        // columns and rows of a workgroup, one less and one more.
        (
            BF16,
            &[1, 0, 2, 3],
            [128, 1024],
            bytes(Format::E4M3, ALONG_K, blocks, ScaleKind::F32),
            By::Choices(8),
            CONTIGUOUS,
        ),
        (F16, &[7, 9], [63, 528], bytes(Format::I8, ALONG_K, Some([528, 1]), ScaleKind::F32), By::Counts, CONTIGUOUS),
        (BF16, &[15, 16, 17], [65, 256], bytes(Format::I8, ALONG_K, None, ScaleKind::F32), By::Offsets, CONTIGUOUS),
        (
            BF16,
            &[3, 0, 1],
            [31, 512],
            words(Format::I4, 0, ALONG_K, [128, 1], ScaleKind::F16),
            By::Choices(2),
            CONTIGUOUS,
        ),
        (F16, &[2, 5], [33, 320], words(Format::I4, 0, ALONG_K, [32, 1], ScaleKind::BF16), By::Offsets, CONTIGUOUS),
        (
            BF16,
            &[2, 0, 33],
            [72, 672],
            words(Format::E2M1, 0, ALONG_K, [32, 1], ScaleKind::E8M0),
            By::Choices(4),
            CONTIGUOUS,
        ),
        (BF16, &[1, 4], [40, 96], words(Format::E2M1, 0, ALONG_K, [16, 1], ScaleKind::E4M3), By::Offsets, CONTIGUOUS),
        (F16, &[1, 1], [1, 128], words(Format::I2, 0, ALONG_K, [64, 1], ScaleKind::F32), By::Choices(1), CONTIGUOUS),
        // A wave and a lane less or more, tiles of the other height, more rows than few are.
        (
            F16,
            &[31, 32, 33, 63, 64, 65],
            [32, 64],
            bytes(Format::E4M3Fnuz, CONTIGUOUS, blocks, ScaleKind::BF16),
            By::Offsets,
            CONTIGUOUS,
        ),
        (
            BF16,
            &[130, 2, 67],
            [72, 160],
            bytes(Format::I8, CONTIGUOUS, Some([32, 8]), ScaleKind::F32),
            By::Choices(2),
            CONTIGUOUS,
        ),
        (
            F32,
            &[70, 0, 1],
            [40, 600],
            words(Format::I4, 1, CONTIGUOUS, [64, 1], ScaleKind::BF16),
            By::Choices(1),
            CONTIGUOUS,
        ),
        // Strips, of which chunks of K follow one another, and rows that lie apart.
        (
            F32,
            &[1, 2, 0, 7],
            [96, 1100],
            words(Format::I4, 1, CONTIGUOUS, [64, 1], ScaleKind::F16),
            By::Choices(3),
            Strided,
        ),
        (F32, &[1, 1], [64, 520], bytes(Format::E4M3, CONTIGUOUS, blocks, ScaleKind::F32), By::Counts, Transposed),
        (F16, &[3, 20, 1], [48, 96], bytes(Format::E5M2, CONTIGUOUS, None, ScaleKind::F32), By::Counts, Flipped),
        (BF16, &[9, 2], [33, 45], words(Format::I2, 1, CONTIGUOUS, [45, 33], ScaleKind::E4M3), By::Offsets, Transposed),
        (
            BF16,
            &[2, 0, 6],
            [64, 64],
            words(Format::I2, 1, CONTIGUOUS, [32, 1], ScaleKind::F32),
            By::Choices(2),
            CONTIGUOUS,
        ),
        // No row at all; one of everything.
        (BF16, &[0, 0], [32, 64], bytes(Format::E4M3, CONTIGUOUS, blocks, ScaleKind::F32), By::Offsets, CONTIGUOUS),
        (F16, &[1], [1, 1], bytes(Format::E5M2Fnuz, CONTIGUOUS, None, ScaleKind::F32), By::Choices(1), CONTIGUOUS),
    ]
};

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = CASES.into_iter().map(coded).collect();
    // More groups than a wave has lanes, most of them empty.
    let rows: Vec<usize> = (0..150).map(|group| usize::from(group % 9 == 2) * (1 + group / 9 % 3)).collect();
    let codes = bytes(Format::E4M3, CONTIGUOUS, Some([32, 32]), ScaleKind::F32);
    cases.push(coded((DType::BF16, forever(&rows), [32, 64], codes, By::Choices(8), CONTIGUOUS)));
    cases
}

/// Up to five groups, some of them empty.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let rows: Vec<usize> = (0..=draw.below(5)).map(|_| if draw.below(4) == 3 { 0 } else { draw.extent(65) }).collect();
    let dtype = draw.pick(&[DType::F32, DType::F16, DType::BF16]);
    // Half of them such that vectors and slabs of K are whole.
    let whole = draw.flag();
    let extent = |draw: &mut Draw<'_>| if whole { 32 * draw.extent(4) } else { draw.extent(129) };
    let [n, k] = [extent(draw), extent(draw)];
    let format = draw.pick(&Format::ALL);
    let axis = (format.bits() < 8 || draw.flag()).then(|| draw.below(2));
    let kind = draw.pick(&ScaleKind::ALL);
    let block = draw.pick(&[Some([32, 1]), Some([k, 1]), Some([128, 128]), Some([8, 3]), None]);
    let codes = Codes { format, axis, placement: draw.pick(&[CONTIGUOUS, ALONG_K]), block, kind };
    let by = draw.pick(&[By::Offsets, By::Counts, By::Choices(3)]);
    coded((dtype, forever(&rows), [n, k], codes, by, draw.placement()))
}

/// What the codes of a format stand for, of those that are numbers of up to 16: sums of these stay in the range of f16.
pub(super) fn numbers(format: Format) -> Vec<(u32, f64)> {
    let bits = format.bits();
    (0..1u32 << bits).filter_map(|code| number(format, code).map(|value| (code, value))).collect()
}

/// The number of a code; none for what is no number, and for those beyond 16.
pub(super) fn number(format: Format, code: u32) -> Option<f64> {
    let bits = format.bits() as u32;
    let value = if format.is_int() {
        f64::from(((code << (32 - bits)) as i32) >> (32 - bits))
    } else {
        let half = 1 << (bits - 1);
        let size = *sizes(format).get((code % half) as usize)?;
        // The kinds with one zero have NaN in the other's place.
        let is_nan = code == half && matches!(format, Format::E4M3Fnuz | Format::E5M2Fnuz);
        if is_nan {
            return None;
        }
        if code < half { size } else { -size }
    };
    (value.abs() <= 16.0).then_some(value)
}

/// The product; what is no group's is not written: there the case has zeros from before.
fn coded((dtype, rows, [n, k], codes, by, a_placement): Row) -> Case {
    let Codes { format, axis, placement, block, kind } = codes;
    let (count, grouped) = (rows.len(), GroupRows { of: rows, by });
    let layout = match axis {
        Some(axis) => CodeLayout::packed(format, axis + 1, [k, n][axis]),
        None => CodeLayout::bytes(format),
    };
    let word = if axis.is_some() { DType::U32 } else { DType::U8 };
    let per = layout.per_word(word);
    let all = numbers(format);
    let pick = move |group: usize, row: usize, column: usize| {
        all[(group * 7 + row * 5 + column * 3 + row * column % 11 + column / 32) % all.len()]
    };
    let of = pick.clone();
    let extents = layout.words_shape(&[count, k, n], word);
    let one_word = |at: usize| -> f64 {
        let (group, row, column) = (at / (extents[1] * extents[2]), at / extents[2] % extents[1], at % extents[2]);
        let code = |i: usize| {
            let (row, column) = match axis {
                Some(0) => (row * per + i, column),
                Some(_) => (row, column * per + i),
                None => (row, column),
            };
            // A last word that is not full has codes that nobody asks for.
            if row < k && column < n { pick(group, row, column).0 } else { 1 }
        };
        f64::from((0..per).map(|i| code(i) << (i * format.bits())).sum::<u32>())
    };
    let words: Vec<f64> = (0..extents.iter().product()).map(one_word).collect();
    let grid = block.map_or([1, 1, 1], |[of_k, of_n]| [count, k.div_ceil(of_k), n.div_ceil(of_n)]);
    // The bits of scales, and what they stand for.
    let scale = move |at: usize| match kind {
        ScaleKind::E8M0 => (124.0 + (at % 5) as f64, 2f64.powi(at as i32 % 5 - 3)),
        ScaleKind::E4M3 => (40.0 + (at % 9) as f64, sizes(Format::E4M3)[40 + at % 9]),
        _ => ((1 + at % 13) as f64 / 16.0, (1 + at % 13) as f64 / 16.0),
    };
    let scales: Vec<f64> = (0..grid.iter().product()).map(|at| scale(at).0).collect();
    let weight = move |group: usize, row: usize, column: usize| {
        let at = block.map_or(0, |[of_k, of_n]| (group * grid[1] + row / of_k) * grid[2] + column / of_n);
        of(group, row, column).1 * scale(at).1
    };

    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [a, words, scales, bounds, order] = inputs else { return Err("five inputs".into()) };
        rocfire_fusion::eager::fill(outputs[0].view_mut(), rocfire_fusion::Scalar::Int(0))?;
        let groups = grouped.groups(bounds, order);
        let block = block.map(|[of_k, of_n]| [1, of_k, of_n]);
        let block = block.as_ref().map_or(&[][..], |block| &block[..]);
        let scales = Scales { view: scales.view(), kind, block, global: None };
        let matrix = CodedMatrix { words: words.view(), layout: &layout, scales: Some(&scales) };
        Ok(q_matmul_grouped(stream, a.view(), &matrix, &groups, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let (a, order) = (&inputs[0].values, &inputs[4].values);
        let mut c = vec![0.0; grouped.places() * n];
        for group in 0..grouped.of.len() {
            for place in grouped.places_of(group) {
                let row = grouped.row_of(order, place);
                for column in 0..n {
                    c[place * n + column] = dot((0..k).map(|at| (a[row * k + at], weight(group, at, column))));
                }
            }
        }
        vec![c]
    };
    let [bounds, order] = grouped.told();
    let inputs = vec![
        (Array::random(&grouped.shape_of_a(k), dtype, 1), a_placement),
        (Array::new(&extents, word, words), placement),
        (Array::new(&grid, kind.dtype(), scales), CONTIGUOUS),
        bounds,
        order,
    ];
    let name = grouped.name();
    let size =
        format!("{name} x {n} x {k} {by:?} {format:?} {axis:?} {placement:?} by {block:?} {kind:?} {a_placement:?}");
    let output = [&grouped.lines()[..], &[n]].concat();
    let call = Call { inputs, outputs: vec![(output, dtype)], launch, oracle };
    Case::new("q_matmul_grouped", dtype, size, 2.0 * (grouped.total() * n * k) as f64, call).summing(k)
}
