//! Groups of rows by a matrix each: offsets and counts, empty groups, every operand layout.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm_grouped};

use super::drawn::{Draw, forever};
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// Rows of each group, N, K.
const SIZES: [(&[usize], [usize; 2]); 6] = [
    (&[1], [1, 1]),
    (&[3, 0, 5, 1], [17, 33]),
    (&[33, 64, 0, 0, 31], [65, 64]),
    (&[130, 2], [40, 96]),
    (&[0, 0], [8, 16]),
    (&[7, 9, 11], [24, 1100]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, (rows, size)) in SIZES.into_iter().enumerate() {
        for step in 0..2 {
            let layout = [Placement::ALL[(turn + step) % 3], Placement::ALL[(turn + 2 * step) % 2]];
            cases.push(grouped(FLOATS[(turn + 2 * step) % 4], rows, size, step == 1, layout));
        }
    }
    cases.push(grouped(DType::I8, &[20, 0, 45], [48, 80], false, [Placement::Contiguous, Placement::Transposed]));
    cases
}

/// Up to five groups, some of them empty.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let rows: Vec<usize> = (0..=draw.below(5)).map(|_| if draw.below(4) == 3 { 0 } else { draw.extent(65) }).collect();
    let (n, k, dtype) = (draw.extent(65), draw.extent(257), draw.float());
    let layout = [Placement::ALL[draw.below(3)], Placement::ALL[draw.below(2)]];
    grouped(dtype, forever(&rows), [n, k], draw.flag(), layout)
}

/// `counted`: groups of as many rows as the longest, of which each counts its own. What is no group's is not written: there the
/// case has zeros from before.
fn grouped(dtype: DType, rows: &'static [usize], [n, k]: [usize; 2], counted: bool, layout: [Placement; 2]) -> Case {
    let (count, total) = (rows.len(), rows.iter().sum::<usize>());
    // A row before the first group and two behind the last belong to none.
    let each = rows.iter().copied().max().unwrap_or(0) + 1;
    let output = if dtype == DType::I8 { DType::I32 } else { dtype };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [a, b, bounds] = inputs else { return Err("three inputs".into()) };
        rocfire_fusion::eager::fill(outputs[0].view_mut(), rocfire_fusion::Scalar::Int(0))?;
        let groups = match counted {
            true => GemmGroups::Counts(bounds.view()),
            false => GemmGroups::Offsets(bounds.view()),
        };
        let params = GemmParams::default();
        Ok(gemm_grouped(stream, a.view(), b.view(), &groups, outputs[0].view_mut(), &params)?)
    };
    let starts = move |group: usize| match counted {
        true => group * each,
        false => 1 + rows[..group].iter().sum::<usize>(),
    };
    let oracle = move |inputs: &[Array]| {
        let [a, b, _] = inputs else { return Vec::new() };
        let mut c = vec![0.0; a.values.len() / k * n];
        for (group, &rows) in rows.iter().enumerate() {
            for row in starts(group)..starts(group) + rows {
                for column in 0..n {
                    let pair = |at: usize| (a.values[row * k + at], b.values[(group * k + at) * n + column]);
                    c[row * n + column] = dot((0..k).map(pair));
                }
            }
        }
        vec![c]
    };
    let lines = if counted { vec![count, each] } else { vec![total + 3] };
    let shape = |last: usize| [&lines[..], &[last]].concat();
    let bounds: Vec<f64> = match counted {
        true => rows.iter().map(|&rows| rows as f64).collect(),
        false => (0..=count).map(|group| starts(group) as f64).collect(),
    };
    let inputs = vec![
        (Array::random(&shape(k), dtype, 1), layout[0]),
        (Array::random(&[count, k, n], dtype, 2), layout[1]),
        (Array::new(&[bounds.len()], DType::I32, bounds), Placement::Contiguous),
    ];
    let name = |rows: &[usize]| rows.iter().map(usize::to_string).collect::<Vec<_>>().join("+");
    let by = if counted { "counts" } else { "offsets" };
    let size = format!("{} x {n} x {k} by {by} {:?} {:?}", name(rows), layout[0], layout[1]);
    let call = Call { inputs, outputs: vec![(shape(n), output)], launch, oracle };
    Case::new("gemm_grouped", dtype, size, 2.0 * (total * n * k) as f64, call).summing(k)
}
