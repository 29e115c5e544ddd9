//! Operations that move no elements: transpositions, reshapes, broadcasts. Of a tensor in memory they make a view, of a computed value
//! the same value with another frame.

use burn_ir::TensorIr;
use rocfire_fusion::Value;

use super::axes::{Frame, Group, ONE, Regroup, regroup};
use super::refusal::Refusal;
use super::trace::{Entry, EntryId, Origin, Trace};
use super::translate::Result;
use super::view::ViewOp;

impl Trace {
    /// The same elements under another name.
    pub(super) fn same(&mut self, input: &TensorIr, out: &TensorIr) -> Result<()> {
        self.place(input, out, ViewOp::Same, |_, frame| Ok(frame))
    }

    pub(super) fn swap(&mut self, input: &TensorIr, out: &TensorIr, a: usize, b: usize) -> Result<()> {
        self.place(input, out, ViewOp::Swap(a, b), |_, mut frame| {
            frame.groups_mut().swap(a, b);
            Ok(frame)
        })
    }

    pub(super) fn permute(&mut self, input: &TensorIr, out: &TensorIr, axes: &[usize]) -> Result<()> {
        self.place(input, out, ViewOp::Permute(axes.to_vec()), |_, frame| {
            let mut permuted = frame;
            for (to, from) in permuted.groups_mut().iter_mut().zip(axes) {
                *to = frame.groups()[*from];
            }
            Ok(permuted)
        })
    }

    /// Broadcasting a computed value costs nothing as long as the iteration space stays as it is. A wider space is refused: a view of the
    /// value in memory would be broadcast for free.
    pub(super) fn expand(&mut self, input: &TensorIr, out: &TensorIr) -> Result<()> {
        self.place(input, out, ViewOp::Expand, |trace, frame| {
            let at = trace.find(input.id).expect("the operand was entered before its frame was asked for");
            let added = out.shape.rank().checked_sub(input.shape.rank()).ok_or(Refusal::Operation)?;
            let mut wide = Frame::ones(out.shape.rank()).ok_or(Refusal::Rank)?;
            wide.groups_mut()[added..].copy_from_slice(frame.groups());
            trace.adopt(&out.shape, &mut wide, &[at]);
            let is_placed =
                out.shape.iter().zip(wide.groups()).all(|(extent, group)| *extent == ONE || !group.is_none());
            if is_placed { Ok(wide) } else { Err(Refusal::Moved) }
        })
    }

    pub(super) fn reshape(&mut self, input: &TensorIr, out: &TensorIr) -> Result<()> {
        self.place(input, out, ViewOp::Reshape, |trace, frame| {
            let at = trace.find(input.id).expect("the operand was entered before its frame was asked for");
            trace.regrouped(at, frame, out)
        })
    }

    /// For a view that reorders axes: the tensor in memory of which it is a view, and for each axis of the view the tensor's axes. Axes
    /// that the view merges would need a copy if they were read through the view; read by the tensor's own axes they need none.
    pub(super) fn seen_through(&self, view: EntryId) -> Option<(EntryId, Vec<Vec<usize>>)> {
        let (mut views, mut base) = (Vec::new(), view);
        while let Origin::View { of, by } = &self.entries[usize::from(base)].origin {
            match by {
                ViewOp::Same | ViewOp::Swap(..) | ViewOp::Permute(_) | ViewOp::Reshape => views.push((base, by)),
                _ => break,
            }
            base = *of;
        }
        views.iter().find(|(_, by)| matches!(by, ViewOp::Swap(..) | ViewOp::Permute(_)))?;
        let extents = &self.entries[usize::from(base)].shape;
        let own = |dim: usize| if extents[dim] == ONE { vec![] } else { vec![dim] };
        let mut dims: Vec<Vec<usize>> = (0..extents.len()).map(own).collect();
        for (at, by) in views.into_iter().rev() {
            match by {
                ViewOp::Swap(a, b) => dims.swap(*a, *b),
                ViewOp::Permute(axes) => dims = axes.iter().map(|axis| dims[*axis].clone()).collect(),
                ViewOp::Reshape => {
                    let shape = &self.entries[usize::from(at)].shape;
                    let flat = dims.concat();
                    let from: Vec<_> = flat.iter().map(|dim| extents[*dim]).collect();
                    let kept: Vec<usize> = (0..shape.len()).filter(|dim| shape[*dim] != ONE).collect();
                    let to: Vec<_> = kept.iter().map(|dim| shape[*dim]).collect();
                    let Some(Regroup::Groups(ranges)) = regroup(&from, &to) else { return None };
                    dims = vec![vec![]; shape.len()];
                    for (dim, range) in kept.into_iter().zip(ranges) {
                        dims[dim] = flat[range].to_vec();
                    }
                }
                _ => {}
            }
        }
        Some((base, dims))
    }

    /// The value of a tensor in memory that is read by its own axes, and the frame of the view whose axes are `dims`.
    pub(super) fn value_through(&mut self, base: EntryId, dims: &[Vec<usize>]) -> Result<(Value, Frame)> {
        let Entry { id, shape, .. } = self.entries[usize::from(base)].clone();
        let own = self.resolve_shape(id, &shape, &[base])?;
        let mut frame = Frame::ones(dims.len()).ok_or(Refusal::Rank)?;
        for (group, dims) in frame.groups_mut().iter_mut().zip(dims) {
            let axes = dims.iter().flat_map(|dim| own.groups()[*dim].axes().iter().copied());
            *group = Group::collect(axes).ok_or(Refusal::Rank)?;
        }
        Ok((self.value(base, &own)?, frame))
    }

    /// The frame of a computed value after a reshape; primitive axes are split if the reshape splits them.
    fn regrouped(&mut self, at: EntryId, frame: Frame, out: &TensorIr) -> Result<Frame> {
        let flat: Vec<_> = frame.flat().collect();
        let from: Vec<_> = flat.iter().map(|axis| self.axes[usize::from(*axis)].extent).collect();
        let dims: Vec<usize> = (0..out.shape.rank()).filter(|dim| out.shape[*dim] != ONE).collect();
        let to: Vec<_> = dims.iter().map(|dim| out.shape[*dim]).collect();
        let mut result = Frame::ones(out.shape.rank()).ok_or(Refusal::Rank)?;
        match regroup(&from, &to).ok_or(Refusal::Moved)? {
            Regroup::Groups(ranges) => {
                for (dim, range) in dims.into_iter().zip(ranges) {
                    result.groups_mut()[dim] = Group::collect(flat[range].iter().copied()).ok_or(Refusal::Rank)?;
                }
            }
            Regroup::Split { at: place, parts } => {
                self.split(flat[place], out, &dims[place..place + parts.len()])?;
                let (_, refined) = self.value_of(at).expect("only computed values are regrouped");
                let singles: Vec<_> = refined.flat().collect();
                for (dim, axis) in dims.into_iter().zip(singles) {
                    result.groups_mut()[dim] = Group::one(axis);
                }
            }
        }
        Ok(result)
    }

    /// Makes `out` a view of a tensor in memory, or a computed value with the frame that `frame` gives.
    fn place(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        by: ViewOp,
        frame: impl FnOnce(&mut Trace, Frame) -> Result<Frame>,
    ) -> Result<()> {
        let entry = self.operand(input)?;
        match self.value_of(entry) {
            None => self.view(entry, by, out),
            Some((node, own)) => {
                let moved = frame(self, own)?;
                self.define(out, node, moved, &[entry])?;
                Ok(())
            }
        }
    }
}
