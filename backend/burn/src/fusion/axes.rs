//! How the axes of tensors lie in the iteration space of a kernel.
//!
//! The iteration space has primitive axes, numbered as they appear. Each axis of a tensor is a [`Group`] of them: none for
//! an extent of 1, one in the plain case, several where a reshape merged axes. A [`Frame`] is one group per axis of a
//! tensor; transposing a computed value permutes its frame, reshaping it regroups, and nothing is moved. Extents are
//! Burn's relative ones: a number that stands for an extent, 0 for the extent 1, equal numbers for equal extents.

use rocfire_hal::MAX_RANK;

/// A primitive axis of the iteration space.
pub(super) type Axis = u8;

/// A relative extent: Burn's number for it. [`ONE`] stands for the extent 1.
pub(super) type Extent = usize;

/// The relative extent that always stands for 1.
pub(super) const ONE: Extent = 0;

/// The primitive axes that one axis of a tensor runs over, slowest first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Group {
    axes: [Axis; MAX_RANK],
    len: u8,
}

impl Group {
    /// No axis, for an extent of 1.
    pub(super) const NONE: Group = Group { axes: [0; MAX_RANK], len: 0 };

    /// A group of one axis.
    pub(super) fn one(axis: Axis) -> Group {
        let mut axes = [0; MAX_RANK];
        axes[0] = axis;
        Group { axes, len: 1 }
    }

    /// A group of the axes of an iterator; `None` if they are more than a tensor can have.
    pub(super) fn collect(axes: impl IntoIterator<Item = Axis>) -> Option<Group> {
        let mut group = Group::NONE;
        for axis in axes {
            *group.axes.get_mut(usize::from(group.len))? = axis;
            group.len += 1;
        }
        Some(group)
    }

    pub(super) fn axes(&self) -> &[Axis] {
        &self.axes[..usize::from(self.len)]
    }

    pub(super) fn is_none(&self) -> bool {
        self.len == 0
    }
}

/// Where the axes of a tensor lie in the iteration space: one group for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    groups: [Group; MAX_RANK],
    rank: u8,
}

impl Frame {
    /// A frame of `rank` axes of extent 1; `None` if the rank is above [`MAX_RANK`].
    pub(super) fn ones(rank: usize) -> Option<Frame> {
        (rank <= MAX_RANK).then_some(Frame { groups: [Group::NONE; MAX_RANK], rank: rank as u8 })
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups[..usize::from(self.rank)]
    }

    pub(super) fn groups_mut(&mut self) -> &mut [Group] {
        &mut self.groups[..usize::from(self.rank)]
    }

    /// The primitive axes of all groups in order.
    pub(super) fn flat(&self) -> impl Iterator<Item = Axis> + '_ {
        self.groups().iter().flat_map(|group| group.axes().iter().copied())
    }

    /// Whether some group has `axis`.
    pub(super) fn has(&self, axis: Axis) -> bool {
        self.flat().any(|own| own == axis)
    }

    /// Replaces one primitive axis by several; `None` if a group becomes too long.
    pub(super) fn refine(&mut self, axis: Axis, parts: &[Axis]) -> Option<()> {
        for group in self.groups_mut() {
            if group.axes().contains(&axis) {
                *group = group.refined(axis, parts)?;
            }
        }
        Some(())
    }

    /// Whether the frame has none of the axes of `row`, or all of them side by side in their order.
    pub(super) fn keeps_together(&self, row: &[Axis]) -> bool {
        let present = self.flat().filter(|axis| row.contains(axis)).count();
        if present == 0 {
            return true;
        }
        let mut rest = self.flat().skip_while(|axis| *axis != row[0]);
        present == row.len() && row.iter().all(|axis| rest.next() == Some(*axis))
    }
}

impl Group {
    /// The group with one axis replaced by several; `None` if it becomes too long.
    pub(super) fn refined(&self, axis: Axis, parts: &[Axis]) -> Option<Group> {
        Group::collect(self.axes().iter().flat_map(|own| {
            let replaced = if *own == axis { parts } else { std::slice::from_ref(own) };
            replaced.iter().copied()
        }))
    }
}

/// How a reshape turns axes into others, worked out from relative extents alone.
#[derive(Debug, PartialEq)]
pub(super) enum Regroup {
    /// Each axis of the result is a range of the operand's primitive axes, taken in order.
    Groups(Vec<std::ops::Range<usize>>),
    /// One primitive axis is split first; then each axis of the result is one primitive axis.
    Split {
        /// Which of the operand's primitive axes, taken in order.
        at: usize,
        /// The extents it is split into.
        parts: Vec<Extent>,
    },
}

/// How axes of extents `from` become axes of extents `to` in row-major order. None of the extents is 1.
///
/// Equal extents at both ends stay as they are. In the middle one axis may become several, or several one. `None` for
/// anything else: relative extents do not say that 6·4 is 8·3.
pub(super) fn regroup(from: &[Extent], to: &[Extent]) -> Option<Regroup> {
    let shorter = from.len().min(to.len());
    let head = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let tail = from.iter().rev().zip(to.iter().rev()).take(shorter - head).take_while(|(a, b)| a == b).count();
    let (old, new) = (head..from.len() - tail, head..to.len() - tail);
    let singles = |count: usize, first: usize| (first..first + count).map(|at| at..at + 1);
    match (old.len(), new.len()) {
        (0, 0) => Some(Regroup::Groups(singles(from.len(), 0).collect())),
        (1, 2..) => Some(Regroup::Split { at: head, parts: to[new].to_vec() }),
        (_, 1) if !old.is_empty() => {
            let groups = singles(head, 0).chain(std::iter::once(old.clone())).chain(singles(tail, old.end));
            Some(Regroup::Groups(groups.collect()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regroup_pairs_equal_ends_and_splits_or_merges_the_middle() {
        let rows: [(&[Extent], &[Extent], Option<Regroup>); 7] = [
            (&[1, 2], &[1, 2], Some(Regroup::Groups(vec![0..1, 1..2]))),
            (&[3, 2], &[1, 4, 2], Some(Regroup::Split { at: 0, parts: vec![1, 4] })),
            (&[1, 4, 2], &[3, 2], Some(Regroup::Groups(vec![0..2, 2..3]))),
            (&[1, 4, 2], &[1, 4, 1, 5], Some(Regroup::Split { at: 2, parts: vec![1, 5] })),
            (&[1, 2], &[3, 4], None),
            (&[1, 1], &[1, 1, 1], None),
            (&[], &[], Some(Regroup::Groups(vec![]))),
        ];
        for (from, to, expected) in rows {
            assert_eq!(regroup(from, to), expected, "{from:?} to {to:?}");
        }
    }

    #[test]
    fn keeps_together_wants_the_whole_run_in_order() {
        let frame = |groups: &[&[Axis]]| {
            let mut frame = Frame::ones(groups.len()).unwrap();
            for (to, from) in frame.groups_mut().iter_mut().zip(groups) {
                *to = Group::collect(from.iter().copied()).unwrap();
            }
            frame
        };
        assert!(frame(&[&[0], &[1], &[2]]).keeps_together(&[0, 1]));
        assert!(frame(&[&[2], &[0, 1]]).keeps_together(&[0, 1]));
        assert!(frame(&[&[], &[2]]).keeps_together(&[0, 1]));
        assert!(!frame(&[&[0], &[2], &[1]]).keeps_together(&[0, 1]));
        assert!(!frame(&[&[1], &[0]]).keeps_together(&[0, 1]));
        assert!(!frame(&[&[], &[1]]).keeps_together(&[0, 1]));
    }
}
