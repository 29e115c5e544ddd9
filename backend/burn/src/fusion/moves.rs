//! Operations that move nothing as changes of place: of a tensor in memory a view, of a computed value another frame.

use burn_ir::TensorIr;

use super::axes::{Frame, Group, ONE, Regroup, regroup};
use super::refusal::Refusal;
use super::trace::{EntryId, Trace};
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

    /// Broadcasting a computed value costs nothing as long as the iteration space stays what it is; a wider one would
    /// only materialise what a view says for free.
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

    /// A view of a tensor in memory, or the new frame of a computed value.
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
