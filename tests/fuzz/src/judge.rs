//! Whether a result is right: the reference computes the same operator on the same operands, floats in f64.
//!
//! Each operator is judged on the operands that our own device gave it, so no error of an earlier one counts, and no bound has
//! to grow along a program.

use std::cell::LazyCell;

use rocfire_hal::DType;

use crate::bounds::{cancelled, of_variance};
use crate::data::{Data, limits, unit_roundoff};
use crate::machine::{Machine, attempt};
use crate::program::Call;
use crate::table::{Numerics, Row};

/// What came of judging.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is right.
    Right,
    /// It could not be judged, for this reason.
    Open(String),
    /// It is wrong: which result, and how.
    Wrong(usize, String),
}

/// Judges the results of a call on operands that are known. `coarse` is for what was written out in steps: see [`written_out`].
pub fn judge<M: Machine>(
    reference: &M,
    row: &Row,
    call: &Call,
    operands: &[Data],
    got: &[Data],
    coarse: Option<f64>,
) -> Verdict {
    let inputs = |operands: &[Data]| operands.iter().map(|data| reference.input(data)).collect::<Vec<M::Value>>();
    let read = |made: Vec<M::Value>| made.into_iter().map(|value| reference.read(value)).collect::<Vec<Data>>();
    let run = |operands: &[Data]| attempt(|| read(reference.call(call.row, inputs(operands), &call.params)));
    let in_f64 = !matches!(row.numerics, Numerics::Exact | Numerics::Wide | Numerics::Order | Numerics::Unjudged(_));
    let widened: Vec<Data> = match row.numerics {
        Numerics::Wide => operands.iter().map(widen_integers).collect(),
        _ if in_f64 => operands.iter().map(widen).collect(),
        _ => operands.to_vec(),
    };
    let want = match run(&widened) {
        Ok(want) => want,
        Err(said) => return Verdict::Open(format!("the reference refuses: {said}")),
    };
    if let Some(verdict) = differ_in_shape(got, &want) {
        return verdict;
    }
    let passed = attempt(|| read(reference.passed(call.row, inputs(&widened), &call.params)));
    let passed = passed.unwrap_or_default();
    if in_f64 && leaves_range(operands, &passed, got) {
        return Verdict::Open("what a step in between makes leaves the range".to_owned());
    }
    let case = Case { operands, widened: &widened, passed: &passed, got, want: &want };
    let mut bounds: Vec<Vec<f64>> = match bounds(row.numerics, &case, run) {
        Ok(bounds) => bounds,
        Err(open) => return Verdict::Open(open),
    };
    if let Some(share) = coarse
        && in_f64
    {
        match written_out(row.numerics, share, &case, run) {
            Ok(steps) => {
                let each = bounds.iter_mut().flatten().zip(steps.into_iter().flatten());
                each.for_each(|(bound, step)| *bound += step);
            }
            Err(open) => return Verdict::Open(open),
        }
    }
    // The other way: what was computed in f64 where it is judged in its own type, and in its own where that is f64.
    let other = LazyCell::new(|| match in_f64 {
        true => run(operands).ok(),
        false => run(&operands.iter().map(widen).collect::<Vec<_>>()).ok(),
    });
    for (number, ((got, want), bounds)) in got.iter().zip(&want).zip(&bounds).enumerate() {
        let fault = match row.numerics {
            Numerics::Order if number + 1 == call.results && got.dtype.is_int() => {
                wrong_order(&operands[0], call.params.axis, got, want)
            }
            _ if got.dtype.is_float() => {
                // A step in between may leave the type's range where f64 does not: then what the reference has in that type is
                // right too. And what one rounding decides is right as f64 rounded, where the reference leaves denormals out or
                // rounds twice.
                let excused = |at: usize| {
                    let one = |other: &Vec<Data>| is_right(got, at, other[number].number(at), bounds[at]);
                    other.as_ref().is_some_and(one)
                };
                wrong_float(got, want, bounds, excused)
            }
            _ => wrong_integer(got, want),
        };
        if let Some(said) = fault {
            return Verdict::Wrong(number, said);
        }
    }
    Verdict::Right
}

/// Whether places lead to other elements than the reference's do.
fn wrong_order(elements: &Data, axis: usize, got: &Data, want: &Data) -> Option<String> {
    let stride = |shape: &[usize]| shape[axis + 1..].iter().product::<usize>();
    let inner = stride(&got.shape);
    let at = |places: &Data, index: usize| {
        let outer = index / (inner * places.shape[axis]);
        let place = usize::try_from(places.integer(index)).ok().filter(|place| *place < elements.shape[axis])?;
        Some(elements.number((outer * elements.shape[axis] + place) * inner + index % inner))
    };
    let same = |a: Option<f64>, b: Option<f64>| {
        a.is_some() && (a == b || a.is_some_and(f64::is_nan) && b.is_some_and(f64::is_nan))
    };
    let wrong = (0..got.bits.len()).find(|&index| !same(at(got, index), at(want, index)))?;
    Some(format!(
        "place {wrong} of {:?} is {}, the reference has {}",
        got.shape,
        got.integer(wrong),
        want.integer(wrong)
    ))
}

fn widen(data: &Data) -> Data {
    if data.dtype.is_float() { data.converted(DType::F64) } else { data.clone() }
}

/// Integers of fewer than 64 bits as ones of 64.
fn widen_integers(data: &Data) -> Data {
    if data.dtype.is_int() && data.dtype.size_bytes() < 8 { data.converted(DType::I64) } else { data.clone() }
}

fn differ_in_shape(got: &[Data], want: &[Data]) -> Option<Verdict> {
    if got.len() != want.len() {
        return Some(Verdict::Wrong(0, format!("{} results, the reference has {}", got.len(), want.len())));
    }
    let other = |got: &Data, want: &Data| got.shape != want.shape || got.dtype.is_float() != want.dtype.is_float();
    let number = (0..got.len()).find(|&number| other(&got[number], &want[number]))?;
    let (got, want) = (&got[number], &want[number]);
    let said = format!("{} {:?}, the reference has {} {:?}", got.dtype, got.shape, want.dtype, want.shape);
    Some(Verdict::Wrong(number, said))
}

/// What is judged, and what for.
struct Case<'a> {
    operands: &'a [Data],
    /// The operands as the reference had them.
    widened: &'a [Data],
    /// What the reference made in between.
    passed: &'a [Data],
    got: &'a [Data],
    want: &'a [Data],
}

impl Case<'_> {
    /// The most terms that a sum in there can have.
    fn terms(&self) -> usize {
        let all = self.operands.iter().chain(self.passed).chain(self.got);
        all.map(|data| data.bits.len()).max().unwrap_or(1)
    }
}

/// The largest magnitude of floats; NaN counts as infinite.
fn largest<'a>(data: impl IntoIterator<Item = &'a Data>) -> f64 {
    let floats = data.into_iter().filter(|data| data.dtype.is_float());
    let size = |number: f64| if number.is_nan() { f64::INFINITY } else { number.abs() };
    floats.flat_map(Data::numbers).fold(0.0, |most, number| f64::max(most, size(number)))
}

/// The largest magnitude of floats that are finite.
fn largest_finite(data: &[Data]) -> f64 {
    let floats = data.iter().filter(|data| data.dtype.is_float()).flat_map(Data::numbers);
    floats.filter(|number| number.is_finite()).fold(0.0, |most: f64, number| most.max(number.abs()))
}

/// Whether what is made in between is more than the type of the results holds, though no operand is: then infinities go on from
/// there, where f64 goes on with numbers.
fn leaves_range(operands: &[Data], passed: &[Data], got: &[Data]) -> bool {
    let Some(dtype) = got.iter().map(|data| data.dtype).find(|dtype| dtype.is_float()) else { return false };
    largest_finite(passed) > largest_finite(operands).max(limits(dtype).0 / 4.0)
}

/// How much farther off each element may be where the operator was written out in steps of the framework's own, with a rounding
/// at each: to 16 bits, or to f32 on the way. None of these formulas has more than 16 steps whose errors add up; each is half a
/// unit of what the step makes, which is no more than the largest operand or result, or 1, where nothing cancels; and what cancels
/// shows when the operands change in their last place. `share` of the largest is how far the formula itself is off. Of sums, it is the
/// sum of magnitudes instead. Powers up to the third of what is added up must have room.
fn written_out(
    numerics: Numerics,
    share: f64,
    case: &Case<'_>,
    run: impl Fn(&[Data]) -> Result<Vec<Data>, String>,
) -> Result<Vec<Vec<f64>>, String> {
    const STEPS: f64 = 16.0;
    let Some(dtype) = case.got.iter().map(|data| data.dtype).find(|dtype| dtype.is_float()) else {
        return Ok(case.got.iter().map(|got| vec![0.0; got.bits.len()]).collect());
    };
    let narrow = if dtype == DType::F64 { DType::F32 } else { dtype };
    let sums = match numerics {
        Numerics::Sum => run(&case.widened.iter().map(magnitude).collect::<Vec<_>>())?,
        _ => Vec::new(),
    };
    let scale = largest(case.operands.iter().chain(case.want).chain(&sums)).max(1.0);
    if case.terms().max(1) as f64 * scale.powi(3) > limits(narrow).0 / 4.0 {
        return Err("powers of the operands leave the range of the steps in between".to_owned());
    }
    let unit = unit_roundoff(narrow).max(unit_roundoff(DType::F32));
    let changes = changes(case, unit, &run)?;
    let one = |change: &f64| 8.0 * change + (STEPS * unit + share) * scale;
    Ok(changes.iter().map(|changes| changes.iter().map(one).collect()).collect())
}

/// How far each element moves, at most, when operands change by a unit of their own type, or by `least` of themselves.
fn changes(
    case: &Case<'_>,
    least: f64,
    run: impl Fn(&[Data]) -> Result<Vec<Data>, String>,
) -> Result<Vec<Vec<f64>>, String> {
    let mut changes: Vec<Vec<f64>> = case.want.iter().map(|want| vec![0.0; want.bits.len()]).collect();
    for pattern in 0..3 {
        let pairs = case.operands.iter().zip(case.widened);
        let near: Vec<Data> = pairs.map(|(own, wide)| nudged(own, wide, least, pattern)).collect();
        for ((changes, near), want) in changes.iter_mut().zip(run(&near)?).zip(case.want) {
            for ((change, near), want) in changes.iter_mut().zip(near.numbers()).zip(want.numbers()) {
                let moved = (near - want).abs();
                *change = if near == want { *change } else { change.max(moved) };
                if near.is_nan() != want.is_nan() {
                    *change = f64::INFINITY;
                }
            }
        }
    }
    Ok(changes)
}

/// For each element, whether the squares of what it is made of leave the range, so that a variance is infinite: of its row where
/// the one result has the operand's shape, else of all.
fn squares_leave_range(operands: &[Data], got: &Data, is_one: bool) -> Vec<bool> {
    let most = limits(got.dtype).0.max(limits(DType::F32).0) / 4.0;
    let leaves = |numbers: &mut dyn Iterator<Item = f64>, count: usize| {
        let largest = numbers.filter(|number| number.is_finite()).fold(0.0, |most: f64, number| most.max(number.abs()));
        count as f64 * largest * largest > most
    };
    let count = got.bits.len();
    match operands.first() {
        Some(x) if is_one && x.shape == got.shape && count > 0 => {
            let row = x.shape.last().copied().unwrap_or(1);
            let of_row = |start: usize| leaves(&mut (start..start + row).map(|at| x.number(at)), row);
            (0..count).step_by(row).flat_map(|start| vec![of_row(start); row]).collect()
        }
        _ => {
            let elements = operands.iter().map(|data| data.bits.len()).max().unwrap_or(1);
            let mut numbers = operands.iter().filter(|data| data.dtype.is_float()).flat_map(Data::numbers);
            vec![leaves(&mut numbers, elements); count]
        }
    }
}

/// How far each element may be off; infinite where anything goes. `Err` is why nothing can be said.
fn bounds(
    numerics: Numerics,
    case: &Case<'_>,
    run: impl Fn(&[Data]) -> Result<Vec<Data>, String>,
) -> Result<Vec<Vec<f64>>, String> {
    let Case { operands, widened, got, want, .. } = *case;
    let each = |bound: &dyn Fn(&Data, f64) -> f64| -> Vec<Vec<f64>> {
        got.iter().zip(want).map(|(got, want)| want.numbers().map(|want| bound(got, want)).collect()).collect()
    };
    let elements = operands.iter().map(|data| data.bits.len()).max().unwrap_or(1);
    // How many roundings of the magnitudes' sum a sum is off by. Of f64 the reference is no wider than we are, and adds up one after the
    // other, where equal terms are rounded the same way each time: n (Higham, 4.2).
    let roundings = |dtype| {
        let of_reference = if dtype == DType::F64 { elements as f64 } else { 0.0 };
        8.0 + 4.0 * (elements as f64).sqrt() + of_reference
    };
    match numerics {
        Numerics::Exact | Numerics::Wide | Numerics::Order => Ok(each(&|_, _| 0.0)),
        Numerics::Unjudged(reason) => Err(reason.to_owned()),
        Numerics::Units(units) => Ok(each(&|got, want| {
            let units = if got.dtype.size_bytes() == 2 { units.min(2.0) } else { units };
            units * unit_roundoff(got.dtype) * want.abs() + limits(got.dtype).1
        })),
        Numerics::Reciprocal(units) => Ok(each(&|got, want| {
            let narrow = if got.dtype.size_bytes() == 2 { units.min(2.0) } else { units };
            let beyond = limits(got.dtype).0.max(limits(DType::F32).0).recip();
            narrow * unit_roundoff(got.dtype) * want.abs() + limits(got.dtype).1 + beyond
        })),
        Numerics::Product if has_wide_product(operands, 1.0) => Err("partial products leave the range".to_owned()),
        // The product times the product by a factor.
        Numerics::Quotient if has_wide_product(operands, 0.5) => Err("products leave the range".to_owned()),
        Numerics::Sum | Numerics::SumOfRounded | Numerics::Product | Numerics::Mean | Numerics::Average => {
            let magnitudes: Vec<Data> = widened.iter().map(magnitude).collect();
            let sizes = run(&magnitudes)?;
            let bound = |((got, want), sizes): ((&Data, &Data), &Data)| -> Vec<f64> {
                let narrow = unit_roundoff(got.dtype);
                let accumulated = narrow.min(unit_roundoff(DType::F32));
                let (most, least) = limits(got.dtype);
                let is_mean = numerics == Numerics::Mean;
                let is_divided = is_mean || numerics == Numerics::Average;
                let terms = if is_divided { elements.div_ceil(got.bits.len().max(1)) as f64 } else { 1.0 };
                let one = |(want, size): (f64, f64)| {
                    // A partial sum may leave the range where the whole one does not.
                    if terms * size > limits(if most < 1e30 && !is_mean { DType::F32 } else { got.dtype }).0 / 4.0 {
                        return f64::INFINITY;
                    }
                    // A mean is rounded as a sum, times 1/n, which is rounded itself, and as a product.
                    (if is_mean { 4.0 } else { 2.0 }) * narrow * want.abs()
                        + roundings(got.dtype) * accumulated * size
                        + if numerics == Numerics::SumOfRounded { narrow * size } else { 0.0 }
                        // A product below the normal numbers is off by half of the least, here or in the reference.
                        + (4.0 + 0.5 * elements as f64) * least
                };
                want.numbers().zip(sizes.numbers()).map(one).collect()
            };
            Ok(got.iter().zip(want).zip(&sizes).map(bound).collect())
        }
        Numerics::Codes => Ok(vec![codes_bounds(&operands[0], &operands[1], &want[0])]),
        Numerics::Variance => Ok(vec![of_variance(&operands[0], &got[0], &want[0])]),
        Numerics::Conditioned
        | Numerics::Quotient
        | Numerics::Squares
        | Numerics::LogOfSum
        | Numerics::Cancelling { .. }
        | Numerics::Terms
        | Numerics::Sampled
        | Numerics::Slope { .. } => {
            let changes = changes(case, least_change(numerics, case), &run)?;
            let sizes = match numerics {
                Numerics::Terms => Some(run(&widened.iter().map(magnitude).collect::<Vec<_>>())?),
                _ => None,
            };
            let bound = |(number, ((got, want), changes)): (usize, ((&Data, &Data), &Vec<f64>))| -> Vec<f64> {
                let most = |data: &Data| data.numbers().filter(|x| x.is_finite()).fold(0.0, |a: f64, b| a.max(b.abs()));
                // What lies in between is as large as this at least.
                let between = match numerics {
                    Numerics::LogOfSum => 1.0,
                    Numerics::Slope { .. } => operands.last().map_or(0.0, most),
                    _ => 0.0,
                };
                let largest = between.max(most(want));
                // Of f64 the reference is no wider: one after the other, n terms are off by n - 1 roundings of their sum
                // (Higham, Accuracy and Stability, 4.2), and where they cancel by what moves them, the square root of n times.
                let terms = if got.dtype == DType::F64 { case.terms() as f64 } else { 0.0 };
                let total = |data: &Data| data.numbers().filter(|x| x.is_finite()).map(f64::abs).sum::<f64>();
                // A sum of what arrives, rounded some times.
                let summed = match numerics {
                    Numerics::Slope { sums: true } => operands.last().map_or(0.0, total),
                    _ => 0.0,
                };
                let units = (8.0 + terms) * largest + 8.0 * summed;
                let accumulated = unit_roundoff(got.dtype).min(unit_roundoff(DType::F32));
                let own = unit_roundoff(got.dtype) * units + 4.0 * limits(got.dtype).1;
                // A partial sum may leave the range where the whole one does not.
                let own = if largest > limits(got.dtype).0 / 4.0 { f64::INFINITY } else { own };
                let is_in_range = |size: f64| size <= limits(got.dtype).0 / 4.0;
                let lost = |at: usize| match (numerics, &sizes) {
                    (Numerics::Cancelling { ours }, _) => cancelled(operands[0].number(at), got.dtype, ours),
                    (_, Some(sizes)) if !is_in_range(sizes[number].number(at).abs()) => f64::INFINITY,
                    (_, Some(sizes)) => roundings(got.dtype) * accumulated * sizes[number].number(at).abs(),
                    _ => 0.0,
                };
                let one = |(at, change): (usize, &f64)| (8.0 + terms.sqrt()) * change + own + lost(at);
                changes.iter().enumerate().map(one).collect()
            };
            let mut bounds: Vec<Vec<f64>> = got.iter().zip(want).zip(&changes).enumerate().map(bound).collect();
            for ((bounds, got), want) in bounds.iter_mut().zip(got).zip(want) {
                let squares = match numerics {
                    Numerics::Squares => squares_leave_range(operands, got, case.got.len() == 1),
                    _ => vec![false; bounds.len()],
                };
                // Of f64 the reference leaves the range itself, at other partial sums; and beside an infinity nothing shows whether
                // a partial sum was one already, of the other sign. A gradient is a product of three.
                let hides = got.dtype == DType::F64 || largest(operands).is_infinite();
                let reference_leaves = hides && largest_finite(operands) > limits(got.dtype).0.cbrt();
                for ((bound, leaves), want) in bounds.iter_mut().zip(squares).zip(want.numbers()) {
                    if leaves || reference_leaves && !want.is_finite() {
                        *bound = f64::INFINITY;
                    }
                }
            }
            Ok(bounds)
        }
    }
}

/// By which share of themselves operands change at least: those that become places by as much as a place is rounded, which is
/// counted from the end of its axis.
fn least_change(numerics: Numerics, case: &Case<'_>) -> f64 {
    let longest = || case.operands[0].shape.iter().copied().max().unwrap_or(1) as f64;
    match (numerics, case.got.first()) {
        (Numerics::Sampled, Some(got)) => longest() * unit_roundoff(got.dtype).min(unit_roundoff(DType::F32)),
        _ => f64::EPSILON,
    }
}

/// For a product of codes. Each of 32 activations is off by half of a step of its block at most, of variance 1/12, which its weight
/// carries on; the weight is at most the greatest of its own 32. Seven standard deviations, 2^-11 of each block for its scale of 16
/// bits, and the rounding of both sides' sums.
fn codes_bounds(x: &Data, weights: &Data, want: &Data) -> Vec<f64> {
    let length = weights.shape[1];
    let most = |data: &Data| -> Vec<f64> {
        let numbers: Vec<f64> = data.numbers().map(f64::abs).collect();
        numbers.chunks(32).map(|block| block.iter().copied().fold(0.0, f64::max)).collect()
    };
    let (of_x, of_weights, blocks) = (most(x), most(weights), length / 32);
    let one = |at: usize| {
        let (row, output) = (at / weights.shape[0], at % weights.shape[0]);
        let block = |n: usize| of_x[row * blocks + n] * of_weights[output * blocks + n];
        let squares: f64 = (0..blocks).map(|n| 32.0 / 12.0 * (block(n) / 127.0).powi(2)).sum();
        let sizes: f64 = (0..blocks).map(|n| 32.0 * block(n)).sum();
        7.0 * squares.sqrt() + 2.0_f64.powi(-11) * sizes
    };
    (0..want.bits.len()).map(one).collect()
}

fn magnitude(data: &Data) -> Data {
    if data.dtype.is_float() {
        Data::of_numbers(data.dtype, &data.shape, data.numbers().map(f64::abs))
    } else {
        data.clone()
    }
}

/// Whether factors in some order leave this share of the type's range.
fn has_wide_product(operands: &[Data], share: f64) -> bool {
    let size = |number: f64| if number.is_finite() && number != 0.0 { number.abs().log2().abs() } else { 0.0 };
    let special = |data: &Data| data.numbers().any(|number| !number.is_finite());
    let narrow = operands.iter().any(|data| data.dtype == DType::F16);
    let most = share * if narrow { 10.0 } else { 100.0 };
    operands.iter().any(|data| data.numbers().map(size).sum::<f64>() > most || special(data))
}

/// Each element one unit of its own type off, up or down; `least` of itself at least, of f64 two halves of a unit, since fewer
/// would be rounded away.
fn nudged(own: &Data, wide: &Data, least: f64, pattern: usize) -> Data {
    if !wide.dtype.is_float() {
        return wide.clone();
    }
    let unit = unit_roundoff(own.dtype).max(least);
    let up = |index: usize| match pattern {
        0 => true,
        1 => false,
        _ => (index.wrapping_mul(0x9E37_79B9) >> 7) & 1 == 0,
    };
    let near = wide.numbers().enumerate().map(|(at, number)| number * if up(at) { 1.0 + unit } else { 1.0 - unit });
    Data::of_numbers(wide.dtype, &wide.shape, near)
}

fn wrong_integer(got: &Data, want: &Data) -> Option<String> {
    let at = (0..got.bits.len()).find(|&at| got.integer(at) != want.integer(at))?;
    Some(format!("element {at} of {:?} is {}, the reference has {}", got.shape, got.integer(at), want.integer(at)))
}

/// The first element that is neither within its bound of the reference nor excused.
fn wrong_float(got: &Data, want: &Data, bounds: &[f64], excused: impl Fn(usize) -> bool) -> Option<String> {
    let wrong = |&at: &usize| !is_right(got, at, want.number(at), bounds[at]) && !excused(at);
    let at = (0..got.bits.len()).find(wrong)?;
    let (got_one, want_one, bound) = (got.number(at), want.number(at), bounds[at]);
    Some(format!("element {at} of {:?} is {got_one:e}, the reference has {want_one:e} ± {bound:e}", got.shape))
}

/// Whether an element is as near to a number as its bound says.
fn is_right(got: &Data, at: usize, want_one: f64, bound: f64) -> bool {
    let got_one = got.number(at);
    let edge = limits(got.dtype).0 * (1.0 - 4.0 * unit_roundoff(got.dtype));
    let rounded = Data::of_numbers(got.dtype, &[1], [want_one]).number(0);
    match () {
        () if bound == f64::INFINITY => true,
        () if want_one.is_nan() || got_one.is_nan() => want_one.is_nan() && got_one.is_nan(),
        () if got_one == want_one || got_one == rounded => true,
        // At the end of the range one rounding decides.
        () if got_one.is_infinite() => {
            want_one.is_finite() && want_one.abs() + bound >= edge && want_one * got_one > 0.0
        }
        () if rounded.is_infinite() => {
            want_one.is_finite() && got_one.abs() + bound >= edge && want_one * got_one > 0.0
        }
        () => (got_one - want_one).abs() <= bound,
    }
}

/// The first element whose bits differ; any NaN is as good as another.
pub fn other_bits(got: &Data, want: &Data) -> Option<String> {
    if got.dtype != want.dtype || got.shape != want.shape {
        return Some(format!("{} {:?} instead of {} {:?}", got.dtype, got.shape, want.dtype, want.shape));
    }
    let same = |at: &usize| {
        got.bits[*at] == want.bits[*at] || got.dtype.is_float() && got.number(*at).is_nan() && want.number(*at).is_nan()
    };
    let at = (0..got.bits.len()).find(|at| !same(at))?;
    let count = (0..got.bits.len()).filter(|at| !same(at)).count();
    let (got_one, want_one) = (got.number(at), want.number(at));
    Some(format!(
        "element {at} of {:?} is {got_one:e}, not {want_one:e}; {count} of {} differ",
        got.shape,
        got.bits.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dtype: DType, shape: &[usize], numbers: &[f64]) -> Data {
        Data::of_numbers(dtype, shape, numbers.iter().copied())
    }

    #[test]
    fn only_rows_whose_variance_is_infinite_are_left_out() {
        let x = of(DType::F32, &[2, 2], &[1e30, 0.0, 3.0, 4.0]);
        assert_eq!(squares_leave_range(std::slice::from_ref(&x), &x, true), [true, true, false, false]);
        assert_eq!(squares_leave_range(std::slice::from_ref(&x), &x, false), [true; 4]);
    }

    #[test]
    fn a_move_of_the_largest_number_is_judged_and_a_product_beyond_it_is_not() {
        let x = of(DType::F16, &[2], &[65504.0, f64::INFINITY]);
        let wide = |number: f64| of(DType::F64, &[1], &[number]);
        let leaves = |passed: Data| leaves_range(std::slice::from_ref(&x), &[passed], std::slice::from_ref(&x));
        assert!(!leaves(wide(65504.0)));
        assert!(leaves(wide(1e6)));
        // Infinite in every type.
        assert!(!leaves(wide(f64::NEG_INFINITY)));
    }
}
