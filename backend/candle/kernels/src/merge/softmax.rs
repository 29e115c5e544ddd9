//! A softmax as `candle_nn::ops::softmax` writes it: greatest, difference, exponential, sum, quotient of rows.
//!
//! When the quotient comes, the launches before it are looked at: if they are the other four, over what a chain computes last,
//! and nobody else reads what they pass on, all of them are one launch behind the chain.

use cudarc::rocfire::{Node, Window};

use super::chain::{RowsOp, info_word};
use super::{Kind, Plan};

/// Columns that a workgroup keeps in registers: `CANDLE_PARTS_KEPT` of `rows_of.hip` for each of 256 lanes. Up to 32 Candle
/// sums by another kernel.
const COLUMNS_MOST: u64 = 2048;
const COLUMNS_LEAST: u64 = 33;

/// The launches of a softmax behind the one that computes its input.
struct Parts {
    input: usize,
    greatest: usize,
    difference: usize,
    exponential: usize,
    sum: usize,
    rows: RowsOp,
}

impl Plan<'_, '_> {
    /// Makes one group of a quotient with what it is the end of; whether it is such an end.
    pub(super) fn join_softmax(&mut self, quotient: usize) -> bool {
        let Some(parts) = Parts::of(self.window, quotient) else { return false };
        let Parts { input, greatest, difference, exponential, sum, rows } = parts;
        let middle = [greatest, difference, exponential, sum];
        let moved = [greatest, difference, exponential, sum, quotient];
        let Some(first) = self.groups.iter().position(|group| group.mask >> input & 1 == 1) else { return false };
        let taken = moved.iter().fold(0, |mask, &member| mask | 1_u64 << member);
        // What is passed on must be theirs alone, and so must their groups.
        let is_theirs = |group: &super::Group| group.mask & taken == 0 || group.mask & !taken == 0;
        let is_early = |group: &super::Group| {
            group.mask & taken != 0 || moved.iter().all(|&member| self.window.after(member) & group.mask == 0)
        };
        let behind = &self.groups[first + 1..];
        if !behind.iter().all(|group| is_theirs(group) && is_early(group)) {
            return false;
        }
        let group = &self.groups[first];
        let Kind::Chain(chain) = &group.kind else { return false };
        let only_reads =
            |&member: &usize| self.window.after(member) & group.mask == self.window.sources(member) & group.mask;
        let overwrites = group.members.iter().any(|&member| self.window.overwrites(quotient, member));
        if overwrites || !moved.iter().all(only_reads) || !rows.reads(chain, 1 << input) {
            return false;
        }
        let Kind::Chain(chain) = std::mem::replace(&mut self.groups[first].kind, Kind::Alone) else { return false };
        self.groups[first].kind = Kind::Rows(chain, rows);
        self.groups[first].members.extend(middle.into_iter().chain([quotient]));
        self.groups[first].mask |= taken;
        let mut at = 0;
        self.groups.retain(|group| {
            at += 1;
            at <= first + 1 || group.mask & taken == 0
        });
        true
    }
}

impl Parts {
    fn of(window: &Window<'_>, quotient: usize) -> Option<Parts> {
        let dtype = name(window, quotient)?.strip_prefix("bdiv_")?;
        let is = |number: usize, prefix: &str| name(window, number)?.strip_prefix(prefix).filter(|&of| of == dtype);
        let [exponential, sum] = ones(window.sources(quotient))?;
        is(exponential, "uexp_")?;
        is(sum, "fast_sum_")?;
        let [greatest, difference] = [window.sources(sum), window.sources(exponential)].map(ones);
        let ([summed], [difference]) = (greatest?, difference?);
        is(difference, "bsub_")?;
        let [input, greatest] = ones(window.sources(difference))?;
        is(greatest, "fast_max_")?;
        let [compared] = ones(window.sources(greatest))?;
        if summed != exponential || compared != input {
            return None;
        }
        let passed_on = [
            (greatest, 1 << difference),
            (difference, 1 << exponential),
            (exponential, 1 << sum | 1 << quotient),
            (sum, 1 << quotient),
        ];
        let is_passed_on =
            |&(number, readers): &(usize, u64)| window.readers(number) == readers && !window.is_owned(number);
        if !passed_on.iter().all(is_passed_on) {
            return None;
        }
        let node = |number: usize| window.node(number);
        let (count, columns) = (node(greatest).word(0), node(greatest).word(1));
        if !(COLUMNS_LEAST..=COLUMNS_MOST).contains(&columns) || !count.is_multiple_of(columns) {
            return None;
        }
        let x = node(greatest).word(4);
        let [difference_out, exponential_out] =
            [(difference, 5), (exponential, 4)].map(|(at, slot)| node(at).word(slot));
        let is_softmax = is_of_rows(node(greatest), count, columns)
            && is_of_rows(node(sum), count, columns)
            && node(sum).word(4) == exponential_out
            && is_with_rows(node(difference), [x, node(greatest).word(5)], count, columns)
            && node(exponential).word(0) == count
            && is_dense(node(exponential))
            && node(exponential).word(3) == difference_out
            && is_with_rows(node(quotient), [exponential_out, node(sum).word(5)], count, columns);
        let rows = RowsOp::of_parts(dtype, x, [count / columns, columns], node(quotient).word(5))?;
        is_softmax.then_some(Parts { input, greatest, difference, exponential, sum, rows })
    }
}

fn name(window: &Window<'_>, number: usize) -> Option<&'static str> {
    window.node(number).name()
}

/// The numbers of a mask's bits, if there are so many.
fn ones<const COUNT: usize>(mask: u64) -> Option<[usize; COUNT]> {
    let mut rest = mask;
    let numbers = std::array::from_fn(|_| {
        let number = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        number
    });
    (mask.count_ones() as usize == COUNT).then_some(numbers)
}

/// Whether a map reads its elements as they lie.
fn is_dense(node: &Node) -> bool {
    let axes = node.word(1) as usize;
    axes == 0 || info_word(node.argument(2), 0) == 0 || is_row_major(node.argument(2), axes, axes, 1)
}

/// Whether the strides of the first `axes` extents, which begin at word `at`, are those of rows of `inner` elements without gaps.
fn is_row_major(info: &[u8], at: usize, axes: usize, inner: u64) -> bool {
    let mut run = inner;
    (0..axes).rev().all(|axis| {
        let extent = info_word(info, axis);
        let follows = extent <= 1 || info_word(info, at + axis) == run;
        run *= extent;
        follows
    })
}

/// Whether a reduction is over the last axis of `count` elements without gaps.
fn is_of_rows(node: &Node, count: u64, columns: u64) -> bool {
    let axes = node.word(2) as usize;
    node.word(0) == count && node.word(1) == columns && is_row_major(node.argument(3), axes, axes, 1)
}

/// Whether an operator of two is of elements as they lie with one number for each of their rows.
fn is_with_rows(node: &Node, operands: [u64; 2], count: u64, columns: u64) -> bool {
    let (axes, info) = (node.word(1) as usize, node.argument(2));
    let Some(outer) = axes.checked_sub(1) else { return false };
    node.word(0) == count
        && [node.word(3), node.word(4)] == operands
        && info_word(info, outer) == columns
        && is_row_major(info, axes, axes, 1)
        && info_word(info, 2 * axes + outer) == 0
        && is_row_major(info, 2 * axes, outer, 1)
}
