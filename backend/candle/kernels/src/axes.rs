//! Iteration spaces: the axes that launches walk over, and how the axes of several launches become the same.

use rocfire_hal::{Dims, MAX_RANK};

/// The most tensors that one launch of Candle's has.
pub(crate) const OPERANDS_MOST: usize = 6;

/// For each operand, the elements from one to the next along an axis.
pub(crate) type Steps = [i64; OPERANDS_MOST];

/// The axes of an iteration space, outermost first, as few as possible: neighbouring axes that all operands step through as through
/// one are one axis, and only a row's axis may have extent 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Axes {
    count: usize,
    /// Axes before this number are not merged with the next one that is added.
    closed: usize,
    extents: [usize; MAX_RANK],
    steps: [Steps; MAX_RANK],
}

impl Axes {
    /// Adds an axis inside the others; `None` if there are too many.
    pub(crate) fn push(&mut self, extent: usize, steps: Steps) -> Option<()> {
        if extent == 1 {
            return Some(());
        }
        let outer = self.count.checked_sub(1).filter(|&outer| outer >= self.closed);
        let continues =
            |outer: &usize| self.steps[*outer].iter().zip(&steps).all(|(outer, inner)| *outer == inner * extent as i64);
        if let Some(outer) = outer.filter(continues) {
            self.extents[outer] *= extent;
            self.steps[outer] = steps;
            return Some(());
        }
        self.put(extent, steps)
    }

    fn put(&mut self, extent: usize, steps: Steps) -> Option<()> {
        *self.extents.get_mut(self.count)? = extent;
        self.steps[self.count] = steps;
        self.count += 1;
        Some(())
    }

    /// Axes that are added from here on lie within a row.
    pub(crate) fn begin_row(&mut self) {
        self.closed = self.count;
    }

    /// Ends the row, which is the last axis; `None` if its elements lie along several axes.
    pub(crate) fn end_row(&mut self) -> Option<()> {
        match self.count - self.closed {
            0 => self.put(1, Steps::default()),
            1 => Some(()),
            _ => None,
        }
    }

    /// The extent of each axis.
    pub(crate) fn extents(&self) -> &[usize] {
        &self.extents[..self.count]
    }

    /// An operand's step along an axis, in elements.
    pub(crate) fn step(&self, operand: usize, axis: usize) -> i64 {
        self.steps[axis][operand]
    }

    /// The same axes for new operands, each of which steps as the one that `operands` names.
    pub(crate) fn of_steps(&self, operands: &[usize]) -> Axes {
        let mut axes = *self;
        for (own, steps) in self.steps.iter().zip(&mut axes.steps) {
            *steps = std::array::from_fn(|at| operands.get(at).map_or(0, |&operand| own[operand]));
        }
        axes
    }

    /// How many elements the space has.
    pub(crate) fn elements(&self) -> usize {
        self.extents().iter().product()
    }

    /// An operand's steps over other extents with as many elements. An axis may be cut, and axes may be joined that the operand steps
    /// through as through one; `None` where it does not.
    pub(crate) fn steps_over(&self, operand: usize, extents: &[usize]) -> Option<[i64; MAX_RANK]> {
        let mut steps = [0; MAX_RANK];
        // The number of the own axis that is being cut, what is left of it, and the operand's step there.
        let (mut own, mut left, mut step) = (self.count, 1, 0);
        for (at, &extent) in extents.iter().enumerate().rev() {
            let (mut wanted, mut next) = (extent, None);
            while wanted > 1 {
                while left == 1 {
                    own = own.checked_sub(1)?;
                    (left, step) = (self.extents[own], self.steps[own][operand]);
                }
                let taken = wanted.min(left);
                if !wanted.is_multiple_of(taken) || !left.is_multiple_of(taken) {
                    return None;
                }
                match next {
                    None => steps[at] = step,
                    Some(next) if next == step => {}
                    Some(_) => return None,
                }
                step *= taken as i64;
                next = Some(step);
                (wanted, left) = (wanted / taken, left / taken);
            }
        }
        (left == 1 && self.extents[..own].iter().all(|&extent| extent == 1)).then_some(steps)
    }

    /// Whether an operand's elements lie in memory in the order of the axes, without gaps.
    pub(crate) fn is_dense(&self, operand: usize) -> bool {
        let mut next = 1;
        let mut axes = self.extents().iter().zip(&self.steps).rev().filter(|(extent, _)| **extent != 1);
        axes.all(|(&extent, steps)| {
            let is_next = steps[operand] == next;
            next *= extent as i64;
            is_next && extent != 0
        })
    }

    /// The same space over the axes `extents`, for the first `operands` operands; `None` if the steps of one do not allow it.
    pub(crate) fn over(&self, extents: &[usize], operands: usize) -> Option<Axes> {
        let mut axes = Axes { count: extents.len(), ..Axes::default() };
        axes.extents[..extents.len()].copy_from_slice(extents);
        for operand in 0..operands {
            let steps = self.steps_over(operand, extents)?;
            (0..extents.len()).for_each(|axis| axes.steps[axis][operand] = steps[axis]);
        }
        Some(axes)
    }
}

/// The fewest axes that are cut wherever those of `a` or of `b` are. `row`, if given, is the extent of the last axis, which stays
/// whole. `None` where the cuts do not divide each other.
pub(crate) fn common(a: &[usize], b: &[usize], row: Option<usize>) -> Option<Dims> {
    let mut found = [0; MAX_RANK];
    let mut first = MAX_RANK;
    let mut put = |extent: usize| {
        first = first.checked_sub(1)?;
        found[first] = extent;
        Some(())
    };
    let [mut a, mut b] = [a, b].map(|extents| extents.iter().rev().copied().filter(|&extent| extent != 1));
    let (mut of_a, mut of_b) = (1, 1);
    if row == Some(1) {
        put(1)?;
    }
    loop {
        let left_a = if of_a == 1 { a.next() } else { Some(of_a) };
        let left_b = if of_b == 1 { b.next() } else { Some(of_b) };
        let (left_a, left_b) = match (left_a, left_b) {
            (Some(a), Some(b)) => (a, b),
            (None, None) => break,
            _ => return None,
        };
        let taken = left_a.min(left_b);
        if taken == 0 || left_a % taken != 0 || left_b % taken != 0 {
            return None;
        }
        put(taken)?;
        (of_a, of_b) = (left_a / taken, left_b / taken);
    }
    let is_whole = row.is_none_or(|row| found.last() == Some(&row) && first < MAX_RANK);
    if first == MAX_RANK {
        return Dims::new(&[]).ok();
    }
    is_whole.then(|| Dims::new(&found[first..]).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Axes of one operand, from extents and steps.
    fn axes(of: &[(usize, i64)]) -> Axes {
        let mut axes = Axes::default();
        for &(extent, step) in of {
            axes.push(extent, [step, 0, 0, 0, 0, 0]).unwrap();
        }
        axes
    }

    #[test]
    fn neighbours_that_are_one_walk_are_one_axis() {
        assert_eq!(axes(&[(2, 60), (3, 20), (1, 7), (20, 1)]).extents(), [120]);
        assert_eq!(axes(&[(2, 60), (3, 20), (5, 1), (4, 5)]).extents(), [6, 5, 4]);
        let mut row = Axes::default();
        row.push(4, [6, 1, 0, 0, 0, 0]).unwrap();
        row.begin_row();
        row.push(2, [3, 0, 0, 0, 0, 0]).unwrap();
        row.push(3, [1, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!((row.end_row(), row.extents()), (Some(()), &[4, 6][..]));
    }

    #[test]
    fn spaces_that_are_cut_alike_are_one() {
        let found = |a: &[usize], b: &[usize], row: Option<usize>| common(a, b, row).map(|dims| dims.to_vec());
        assert_eq!(found(&[24], &[2, 12], None), Some(vec![2, 12]));
        assert_eq!(found(&[4, 6], &[8, 3], None), Some(vec![4, 2, 3]));
        assert_eq!(found(&[4, 6], &[6, 4], None), None);
        assert_eq!(found(&[24], &[2, 13], None), None);
        assert_eq!(found(&[24], &[4, 6], Some(6)), Some(vec![4, 6]));
        assert_eq!(found(&[8, 3], &[4, 6], Some(6)), None);
        assert_eq!(found(&[4], &[4, 1], Some(1)), Some(vec![4, 1]));
    }

    #[test]
    fn steps_are_found_over_other_extents() {
        let turned = axes(&[(2, 60), (5, 4), (3, 20), (4, 1)]);
        assert_eq!(turned.steps_over(0, &[2, 5, 12]), None);
        assert_eq!(
            turned.steps_over(0, &[2, 5, 3, 2, 2]).map(|steps| steps[..5].to_vec()),
            Some(vec![60, 4, 20, 2, 1])
        );
        let dense = axes(&[(24, 1)]);
        assert_eq!(dense.steps_over(0, &[2, 3, 4]).map(|steps| steps[..3].to_vec()), Some(vec![12, 4, 1]));
        assert!(dense.is_dense(0) && !turned.is_dense(0));
        assert_eq!(dense.steps_over(0, &[2, 11]), None);
    }
}
