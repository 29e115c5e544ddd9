//! Where a tensor's elements are: shape, strides, offset, and the algebra on them.
//!
//! A [`Layout`] is a map from coordinates to element numbers of a buffer. Every operation here gives a map onto a
//! subset of the elements of the one it started from, so that what lies inside a buffer stays inside; `tensor.rs`
//! checks the first one. Nothing here touches memory, and nothing allocates.

mod dims;

use std::fmt;
use std::ops::Range;

pub use dims::{Dims, MAX_RANK};

use crate::{Error, Result};

/// Shape, strides and offset of a view, all in elements.
///
/// The element at coordinates `c` is number `offset + Σ c[i] · strides[i]` of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Dims,
    /// Strides past the rank are zero, so that equality and hash may look at the whole.
    strides: [i64; MAX_RANK],
    offset: i64,
}

impl Layout {
    /// Row-major, without gaps, from element 0.
    ///
    /// # Errors
    /// [`Error::Rank`] for more than [`MAX_RANK`] axes; [`Error::Shape`] if the number of elements overflows.
    pub fn contiguous(shape: &[usize]) -> Result<Layout> {
        let shape = Dims::new(shape)?;
        checked_elements(&shape)?;
        Ok(Layout { shape, strides: contiguous_strides(&shape), offset: 0 })
    }

    /// Any shape with any strides, from element `offset`. Whether that lies inside a buffer is checked where the two
    /// meet.
    ///
    /// # Errors
    /// [`Error::Rank`] for more than [`MAX_RANK`] axes; [`Error::Shape`] if there is not one stride per axis, or if the
    /// number of elements or an element's number overflows.
    pub fn strided(shape: &[usize], strides: &[i64], offset: i64) -> Result<Layout> {
        Layout::measured(shape, strides, offset).map(|(layout, _)| layout)
    }

    /// As [`Layout::strided`], with its [`Layout::extent`].
    #[inline]
    pub(crate) fn measured(shape: &[usize], strides: &[i64], offset: i64) -> Result<(Layout, Range<i64>)> {
        let shape = Dims::new(shape)?;
        checked_elements(&shape)?;
        if strides.len() != shape.len() {
            return Err(Error::shape("layout", "strides", format!("{} values", shape.len()), strides.len()));
        }
        let mut layout = Layout { shape, strides: [0; MAX_RANK], offset };
        layout.strides[..strides.len()].copy_from_slice(strides);
        let overflows = || Error::shape("layout", "strides", "within 63 bits", format!("{strides:?} for {shape:?}"));
        let extent = layout.checked_extent().ok_or_else(overflows)?;
        Ok((layout, extent))
    }

    /// The extents.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The extents, as a value.
    pub fn dims(&self) -> Dims {
        self.shape
    }

    /// Elements from one index to the next, per axis; negative when flipped, 0 when broadcast.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.rank()]
    }

    /// Number of the element at coordinates 0.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape.elements()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the elements lie row-major without gaps, wherever they begin. Strides of axes of extent 1 do not matter.
    pub fn is_contiguous(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut expected = 1;
        for (&extent, &stride) in self.shape.iter().zip(self.strides()).rev() {
            if extent != 1 {
                if stride != expected {
                    return false;
                }
                expected *= extent as i64;
            }
        }
        true
    }

    /// Whether both have one shape and the same strides, wherever they begin.
    #[inline]
    pub fn is_like(&self, other: &Layout) -> bool {
        self.shape == other.shape && self.strides == other.strides
    }

    /// The numbers of the elements that are touched, gaps included; empty for no elements.
    pub fn extent(&self) -> Range<i64> {
        self.checked_extent().expect("every constructor has checked that no element's number overflows")
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of `self`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `axes` names every axis once.
    pub fn permute(&self, axes: &[usize]) -> Result<Layout> {
        let mut seen = [false; MAX_RANK];
        let once = |&axis: &usize| axis < self.rank() && !std::mem::replace(&mut seen[axis], true);
        if axes.len() != self.rank() || !axes.iter().all(once) {
            let expected = format!("each of 0..{} once", self.rank());
            return Err(Error::shape("permute", "axes", expected, format!("{axes:?}")));
        }
        let mut result = *self;
        for (i, &axis) in axes.iter().enumerate() {
            result.shape.as_mut_slice()[i] = self.shape[axis];
            result.strides[i] = self.strides[axis];
        }
        Ok(result)
    }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// [`Error::Shape`] for an axis that does not exist.
    pub fn swap(&self, a: usize, b: usize) -> Result<Layout> {
        self.require_axis("swap", a)?;
        self.require_axis("swap", b)?;
        let mut result = *self;
        result.shape.as_mut_slice().swap(a, b);
        result.strides.swap(a, b);
        Ok(result)
    }

    /// Indices `start..end` of one axis, every `|step|`-th of them: from `start` upwards for a positive step, from
    /// `end - 1` downwards for a negative one. The extent becomes `ceil((end - start) / |step|)`.
    ///
    /// # Errors
    /// [`Error::Shape`] for an axis that does not exist, unless `start <= end <= extent`, and for a step of 0.
    pub fn slice(&self, axis: usize, start: usize, end: usize, step: isize) -> Result<Layout> {
        self.require_axis("slice", axis)?;
        let extent = self.shape[axis];
        if start > end || end > extent {
            return Err(Error::shape("slice", "range", format!("inside 0..{extent}"), format!("{start}..{end}")));
        }
        if step == 0 {
            return Err(Error::shape("slice", "step", "not 0", step));
        }
        let mut result = *self;
        let taken = (end - start).div_ceil(step.unsigned_abs());
        result.shape.as_mut_slice()[axis] = taken;
        if taken == 0 {
            return Ok(result);
        }
        let first = if step > 0 { start } else { end - 1 };
        // An axis of extent 1 may have any stride, and a step may be as long as its axis: nothing is multiplied by them.
        result.offset += if first == 0 { 0 } else { first as i64 * self.strides[axis] };
        result.strides[axis] = if taken > 1 { self.strides[axis] * step as i64 } else { 1 };
        Ok(result)
    }

    /// Broadcast to `shape`, aligned at the last axis: axes of extent 1 are repeated (stride 0), missing ones added.
    ///
    /// # Errors
    /// [`Error::Shape`] if an extent is neither 1 nor the one asked for, or if `shape` has fewer axes;
    /// [`Error::Rank`] if it has too many.
    pub fn expand(&self, shape: &[usize]) -> Result<Layout> {
        let target = Dims::new(shape)?;
        checked_elements(&target)?;
        let wrong = || {
            Error::shape("expand", "shape", format!("one that {:?} broadcasts to", self.shape), format!("{shape:?}"))
        };
        let added = shape.len().checked_sub(self.rank()).ok_or_else(wrong)?;
        let mut result = Layout { shape: target, strides: [0; MAX_RANK], offset: self.offset };
        for axis in 0..self.rank() {
            if self.shape[axis] == shape[added + axis] {
                result.strides[added + axis] = self.strides[axis];
            } else if self.shape[axis] != 1 {
                return Err(wrong());
            }
        }
        Ok(result)
    }

    /// Axes run backwards.
    ///
    /// # Errors
    /// [`Error::Shape`] for an axis that does not exist.
    pub fn flip(&self, axes: &[usize]) -> Result<Layout> {
        axes.iter().try_fold(*self, |layout, &axis| {
            layout.require_axis("flip", axis)?;
            layout.slice(axis, 0, layout.shape[axis], -1)
        })
    }

    /// An axis of extent 1 put in front of `axis`, or at the end where `axis` is the rank.
    ///
    /// # Errors
    /// [`Error::Shape`] for an `axis` past the end; [`Error::Rank`] if there would be too many.
    pub fn unsqueeze(&self, axis: usize) -> Result<Layout> {
        if axis > self.rank() {
            return Err(Error::shape("unsqueeze", "axis", format!("at most {}", self.rank()), axis));
        }
        if self.rank() == MAX_RANK {
            return Err(Error::Rank { rank: MAX_RANK + 1 });
        }
        let mut extents = [1; MAX_RANK];
        extents[..axis].copy_from_slice(&self.shape[..axis]);
        extents[axis + 1..=self.rank()].copy_from_slice(&self.shape[axis..]);
        let mut result =
            Layout { shape: Dims::new(&extents[..=self.rank()])?, strides: self.strides, offset: self.offset };
        result.strides[axis] = 1;
        result.strides[axis + 1..=self.rank()].copy_from_slice(&self.strides[axis..self.rank()]);
        Ok(result)
    }

    /// An axis of extent 1 taken out.
    ///
    /// # Errors
    /// [`Error::Shape`] for an axis that does not exist or has another extent.
    pub fn squeeze(&self, axis: usize) -> Result<Layout> {
        self.require_axis("squeeze", axis)?;
        if self.shape[axis] != 1 {
            return Err(Error::shape("squeeze", "axis", "of extent 1", self.shape[axis]));
        }
        let rank = self.rank() - 1;
        let mut extents = [0; MAX_RANK];
        extents[..axis].copy_from_slice(&self.shape[..axis]);
        extents[axis..rank].copy_from_slice(&self.shape[axis + 1..]);
        let mut result = Layout { shape: Dims::new(&extents[..rank])?, strides: self.strides, offset: self.offset };
        result.strides.copy_within(axis + 1..=rank, axis);
        result.strides[rank] = 0;
        Ok(result)
    }

    /// The same elements in the same order under another shape, without moving them: `None` where that needs a copy, or
    /// where the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        let target = Dims::new(shape).ok()?;
        if checked_elements(&target).ok()? != self.len() {
            return None;
        }
        let mut result = Layout { shape: target, strides: contiguous_strides(&target), offset: self.offset };
        if self.is_empty() {
            return Some(result);
        }
        // Runs of old axes and runs of new axes with equal products are matched from the left; an old run can be
        // regrouped only if it is contiguous in itself.
        let (mut old, mut new) = (0, 0);
        while old < self.rank() && new < target.len() {
            let (old_first, new_first) = (old, new);
            let (mut old_product, mut new_product) = (self.shape[old], target[new]);
            (old, new) = (old + 1, new + 1);
            while old_product != new_product {
                if old_product < new_product {
                    old_product *= self.shape[old];
                    old += 1;
                } else {
                    new_product *= target[new];
                    new += 1;
                }
            }
            let mut stride = self.run_stride(old_first..old)?;
            for axis in (new_first..new).rev() {
                result.strides[axis] = stride;
                stride = stride.checked_mul(target[axis] as i64)?;
            }
        }
        // What is left over on either side has extent 1: old strides there do not matter, new ones are as they are.
        Some(result)
    }

    /// The stride of the innermost element of a run of axes that is contiguous in itself, `None` if it is not.
    fn run_stride(&self, axes: Range<usize>) -> Option<i64> {
        let mut innermost = None;
        let mut expected = 1;
        for axis in axes.rev().filter(|&axis| self.shape[axis] != 1) {
            let stride = self.strides[axis];
            if innermost.is_some() && stride != expected {
                return None;
            }
            innermost = innermost.or(Some(stride));
            expected = stride.checked_mul(self.shape[axis] as i64)?;
        }
        Some(innermost.unwrap_or(1))
    }

    #[inline]
    fn checked_extent(&self) -> Option<Range<i64>> {
        let (mut first, mut last) = (self.offset, self.offset);
        if self.is_empty() {
            return Some(first..first);
        }
        for (&extent, &stride) in self.shape.iter().zip(self.strides()) {
            let reach = stride.checked_mul(extent as i64 - 1)?;
            if reach < 0 {
                first = first.checked_add(reach)?;
            } else {
                last = last.checked_add(reach)?;
            }
        }
        Some(first..last.checked_add(1)?)
    }

    fn require_axis(&self, op: &'static str, axis: usize) -> Result<()> {
        if axis < self.rank() {
            return Ok(());
        }
        Err(Error::shape(op, "axis", format!("below {}", self.rank()), axis))
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} strides {:?} offset {}", self.shape(), self.strides(), self.offset)
    }
}

fn contiguous_strides(shape: &Dims) -> [i64; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let mut stride = 1;
    for (axis, &extent) in shape.iter().enumerate().rev() {
        strides[axis] = stride;
        // An empty tensor's strides stay finite and positive.
        stride *= extent.max(1) as i64;
    }
    strides
}

/// The product of the extents, with every partial product of non-zero extents inside `i64`, so that strides and loops
/// over axes cannot overflow either.
#[inline]
fn checked_elements(shape: &Dims) -> Result<usize> {
    let fits = shape.iter().try_fold(1_i64, |product, &extent| product.checked_mul(i64::try_from(extent.max(1)).ok()?));
    match fits {
        Some(product) => Ok(if shape.contains(&0) { 0 } else { product as usize }),
        None => Err(Error::shape("layout", "shape", "fewer than 2^63 elements", format!("{shape:?}"))),
    }
}

#[cfg(test)]
mod tests;
