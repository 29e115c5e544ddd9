//! Groups of rows by a matrix each: offsets, counts and choices of rows, empty groups, every operand layout; and the products of
//! groups of rows of two matrices.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm_grouped, gemm_grouped_transposed};

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
            let dtype = FLOATS[(turn + 2 * step) % 4];
            cases.push(grouped(dtype, rows, size, step == 1, layout));
            cases.push(chosen(FLOATS[(turn + step) % 4], rows, size, [1, 2, 8][(turn + step) % 3], layout));
            cases.push(transposed(dtype, rows, size, layout));
        }
    }
    cases.push(grouped(DType::I8, &[20, 0, 45], [48, 80], false, [Placement::Contiguous, Placement::Transposed]));
    cases.push(chosen(DType::I8, &[20, 0, 45], [48, 80], 4, [Placement::Contiguous, Placement::Transposed]));
    cases.push(chosen(DType::BF16, &[70, 0, 130], [96, 128], 8, [Placement::Contiguous, Placement::Contiguous]));
    cases.push(transposed(DType::I8, &[20, 0, 45], [48, 80], [Placement::Contiguous, Placement::Transposed]));
    cases.push(transposed(DType::BF16, &[1500, 0, 130], [64, 128], [Placement::Contiguous, Placement::Contiguous]));
    cases
}

/// Up to five groups, some of them empty.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let rows: Vec<usize> = (0..=draw.below(5)).map(|_| if draw.below(4) == 3 { 0 } else { draw.extent(65) }).collect();
    let (n, k, dtype) = (draw.extent(65), draw.extent(257), draw.float());
    let layout = [Placement::ALL[draw.below(3)], Placement::ALL[draw.below(2)]];
    match draw.below(4) {
        2 => chosen(dtype, forever(&rows), [n, k], 1 + draw.below(8), layout),
        3 => transposed(dtype, forever(&rows), [n, k], layout),
        by => grouped(dtype, forever(&rows), [n, k], by == 1, layout),
    }
}

fn output_of(dtype: DType) -> DType {
    if dtype == DType::I8 { DType::I32 } else { dtype }
}

/// Where groups of so many rows begin, and the end: a row before the first group is none's.
fn starts(rows: &[usize]) -> Vec<f64> {
    (0..=rows.len()).map(|group| (1 + rows[..group].iter().sum::<usize>()) as f64).collect()
}

fn name_of(rows: &[usize]) -> String {
    rows.iter().map(usize::to_string).collect::<Vec<_>>().join("+")
}

/// Rows of the result are choices of rows of A, `each` of one row, in no order; one beyond A takes its last row.
fn chosen(dtype: DType, rows: &'static [usize], [n, k]: [usize; 2], each: usize, layout: [Placement; 2]) -> Case {
    let (count, total) = (rows.len(), rows.iter().sum::<usize>());
    let places = total + 3;
    let tokens = places.div_ceil(each);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [a, b, offsets, order] = inputs else { return Err("four inputs".into()) };
        rocfire_fusion::eager::fill(outputs[0].view_mut(), rocfire_fusion::Scalar::Int(0))?;
        let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each };
        let params = GemmParams::default();
        Ok(gemm_grouped(stream, a.view(), b.view(), &groups, outputs[0].view_mut(), &params)?)
    };
    let oracle = move |inputs: &[Array]| {
        let [a, b, offsets, order] = inputs else { return Vec::new() };
        let mut c = vec![0.0; places * n];
        for group in 0..count {
            for place in offsets.values[group] as usize..offsets.values[group + 1] as usize {
                let row = (order.values[place] as usize / each).min(tokens - 1);
                for column in 0..n {
                    let pair = |at: usize| (a.values[row * k + at], b.values[(group * k + at) * n + column]);
                    c[place * n + column] = dot((0..k).map(pair));
                }
            }
        }
        vec![c]
    };
    // The places in a turn that meets all, and one choice that there is not.
    let choice = |place: usize| if place == 2 { (tokens * each + 5) as f64 } else { (place * 7 % places) as f64 };
    let starts = starts(rows);
    let inputs = vec![
        (Array::random(&[tokens, k], dtype, 1), layout[0]),
        (Array::random(&[count, k, n], dtype, 2), layout[1]),
        (Array::new(&[starts.len()], DType::I32, starts), Placement::Contiguous),
        (Array::new(&[places], DType::I32, (0..places).map(choice).collect()), Placement::Contiguous),
    ];
    let size = format!("{} x {n} x {k} by choices of {each} {:?} {:?}", name_of(rows), layout[0], layout[1]);
    let call = Call { inputs, outputs: vec![(vec![places, n], output_of(dtype))], launch, oracle };
    Case::new("gemm_grouped", dtype, size, 2.0 * (total * n * k) as f64, call).summing(k)
}

/// `[M, rows] x [rows, N]` of each group.
fn transposed(dtype: DType, rows: &'static [usize], [n, m]: [usize; 2], layout: [Placement; 2]) -> Case {
    let (count, total) = (rows.len(), rows.iter().sum::<usize>());
    let all = total + 3;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [a, b, offsets] = inputs else { return Err("three inputs".into()) };
        let params = GemmParams::default();
        Ok(gemm_grouped_transposed(stream, a.view(), b.view(), offsets.view(), outputs[0].view_mut(), &params)?)
    };
    let oracle = move |inputs: &[Array]| {
        let [a, b, offsets] = inputs else { return Vec::new() };
        let element = |at: usize| {
            let (group, row, column) = (at / (m * n), at / n % m, at % n);
            let of_group = offsets.values[group] as usize..offsets.values[group + 1] as usize;
            dot(of_group.map(|at| (a.values[at * m + row], b.values[at * n + column])))
        };
        vec![(0..count * m * n).map(element).collect()]
    };
    let starts = starts(rows);
    let inputs = vec![
        (Array::random(&[all, m], dtype, 1), layout[0]),
        (Array::random(&[all, n], dtype, 2), layout[1]),
        (Array::new(&[starts.len()], DType::I32, starts), Placement::Contiguous),
    ];
    let size = format!("{} to {m} x {n} {:?} {:?}", name_of(rows), layout[0], layout[1]);
    let call = Call { inputs, outputs: vec![(vec![count, m, n], output_of(dtype))], launch, oracle };
    let longest = rows.iter().copied().max().unwrap_or(0);
    Case::new("gemm_grouped_transposed", dtype, size, 2.0 * (total * n * m) as f64, call).summing(longest)
}

/// `counted`: groups of as many rows as the longest, of which each counts its own. What is no group's is not written: there the
/// case has zeros from before.
fn grouped(dtype: DType, rows: &'static [usize], [n, k]: [usize; 2], counted: bool, layout: [Placement; 2]) -> Case {
    let (count, total) = (rows.len(), rows.iter().sum::<usize>());
    // A row before the first group and two behind the last belong to none.
    let each = rows.iter().copied().max().unwrap_or(0) + 1;
    let output = output_of(dtype);
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
    let by = if counted { "counts" } else { "offsets" };
    let size = format!("{} x {n} x {k} by {by} {:?} {:?}", name_of(rows), layout[0], layout[1]);
    let call = Call { inputs, outputs: vec![(shape(n), output)], launch, oracle };
    Case::new("gemm_grouped", dtype, size, 2.0 * (total * n * k) as f64, call).summing(k)
}
