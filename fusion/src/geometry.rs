//! Lays the tensors of a launch over the iteration space: merges axes, and gives strides in bytes.
//!
//! Axes are counted from the last. All arrays are inline, so that a launch allocates nothing.

use arrayvec::ArrayVec;
use rocfire_hal::{MAX_RANK, View};

use crate::graph::Kind;

/// The most tensors of one kernel: as many as its argument block holds with 64-bit offsets.
pub(crate) const TENSORS_MOST: usize = 40;

/// The least extents of two axes for which tiles of them pay.
const TILED_LEAST: usize = 16;

/// How a kernel reads a tensor along the last axis. The numbers are those of `fuse.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It has one element for the whole axis.
    Splat = 0,
    /// Its elements lie side by side, aligned to a vector.
    Packed = 1,
    /// It is read element by element.
    Strided = 2,
}

/// A tensor laid over the space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Device address of the element at coordinates 0.
    pub address: u64,
    pub element_bytes: i64,
    /// Bytes from one element to the next along each axis; 0 where it is broadcast.
    pub strides: [i64; MAX_RANK],
    pub written: bool,
    pub kind: Kind,
    /// For a lookup, the axis along which its index counts: bytes from one element to the next, and the extent.
    pub looked_up: Option<(i64, usize)>,
}

const NOWHERE: Placement = Placement {
    address: 0,
    element_bytes: 1,
    strides: [0; MAX_RANK],
    written: false,
    kind: Kind::Uniform,
    looked_up: None,
};

/// What a tensor is to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is read for every element of the space, or for every row.
    Read(Kind),
    /// It is read at an index along its first axis, which the space does not have, for every element or for every row.
    LookedUp(Kind),
    /// It is written for every element, or for every row.
    Written(Kind),
}

/// An iteration space with the tensors that were laid over it.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub rank: usize,
    /// The extents, from the last axis on; 1 beyond the rank.
    pub extents: [usize; MAX_RANK],
    placements: ArrayVec<Placement, TENSORS_MOST>,
}

impl Geometry {
    /// A space of `shape`, which has at most [`MAX_RANK`] axes, without tensors.
    pub(crate) fn new(shape: &[usize]) -> Geometry {
        let mut extents = [1; MAX_RANK];
        for (extent, &of_shape) in extents.iter_mut().zip(shape.iter().rev()) {
            *extent = of_shape;
        }
        Geometry { rank: shape.len().max(1), extents, placements: ArrayVec::new() }
    }

    pub(crate) fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// The bytes of all tensors, each element counted once: the least that must be read and written.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |placement: &Placement| {
            let axes = (0..self.rank).filter(|&axis| placement.strides[axis] != 0);
            axes.map(|axis| self.extents[axis] as u64).product::<u64>() * placement.element_bytes as u64
        };
        self.placements().iter().map(of).sum()
    }

    /// The number of rows: the product of all extents except that of the last axis.
    pub(crate) fn rows(&self) -> usize {
        self.extents[1..].iter().product()
    }

    /// Adds a view to the space; `false` if its shape does not fit. An output may not be broadcast.
    ///
    /// A tensor per row has extent 1 on the last axis, or lacks that axis.
    pub(crate) fn lay(&mut self, view: &View<'_>, role: Role) -> bool {
        let layout = view.layout();
        let (mut shape, mut strides) = (layout.shape(), layout.strides());
        let element_bytes = view.dtype().size_bytes() as i64;
        let (kind, written) = match role {
            Role::Read(kind) | Role::LookedUp(kind) => (kind, false),
            Role::Written(kind) => (kind, true),
        };
        let mut looked_up = None;
        if matches!(role, Role::LookedUp(_)) {
            let (Some((&extent, rest)), Some((&stride, steps))) = (shape.split_first(), strides.split_first()) else {
                return false;
            };
            looked_up = Some((stride * element_bytes, extent));
            (shape, strides) = (rest, steps);
        }
        let full_rank = self.rank;
        let lacks_last = kind == Kind::Row && shape.len() < full_rank;
        let skipped = usize::from(lacks_last);
        if shape.len() + skipped > full_rank {
            return false;
        }
        if kind == Kind::Row && !lacks_last && shape.last().is_some_and(|&last| last != 1) {
            return false;
        }
        let mut placement =
            Placement { address: view.device_address(), element_bytes, written, kind, looked_up, ..NOWHERE };
        for axis in 0..full_rank {
            let expected = if axis == 0 && kind == Kind::Row { 1 } else { self.extents[axis] };
            // The axis's number in the view, counted from the view's last axis. Axes that the view lacks are broadcast.
            let from_last = axis.checked_sub(skipped).filter(|&from_last| from_last < shape.len());
            let (extent, stride) = from_last.map_or((1, 0), |from_last| {
                let at = shape.len() - 1 - from_last;
                (shape[at], strides[at])
            });
            let fits = extent == expected || (extent == 1 && !written);
            if !fits {
                return false;
            }
            placement.strides[axis] = if extent <= 1 { 0 } else { stride * element_bytes };
        }
        self.placements.push(placement);
        true
    }

    /// Whether a written tensor has two elements at one address because of a stride of 0.
    pub(crate) fn overlaps(&self, at: usize) -> bool {
        let first = usize::from(self.placements[at].kind == Kind::Row);
        (first..self.rank).any(|axis| self.extents[axis] > 1 && self.placements[at].strides[axis] == 0)
    }

    /// Merges axes where the tensors allow it. Axes of extent 1 are removed, and neighbouring axes that every tensor steps through as
    /// through one become one. With `keep_last` the last axis stays as it is.
    pub(crate) fn merge(&mut self, keep_last: bool) {
        let mut rank = 1;
        let first_kept = usize::from(keep_last);
        for axis in 1..self.rank {
            if self.extents[axis] == 1 {
                continue;
            }
            let target = rank - 1;
            if target >= first_kept && (self.extents[target] == 1 || self.continues(target, axis)) {
                if self.extents[target] == 1 {
                    self.move_strides(axis, target);
                }
                self.extents[target] *= self.extents[axis];
            } else {
                self.move_strides(axis, rank);
                self.extents[rank] = self.extents[axis];
                rank += 1;
            }
        }
        for axis in rank..self.rank {
            self.extents[axis] = 1;
        }
        self.rank = rank;
    }

    /// Whether for every tensor a step along `outer` is as long as all of `inner`, so that the two can be merged.
    fn continues(&self, inner: usize, outer: usize) -> bool {
        let extent = self.extents[inner] as i64;
        self.placements().iter().all(|placement| placement.strides[outer] == placement.strides[inner] * extent)
    }

    fn move_strides(&mut self, from: usize, to: usize) {
        for placement in &mut self.placements {
            placement.strides[to] = placement.strides[from];
        }
    }

    /// The axis along which more elements are packed than along the last, if there is one; rows then lie side by side. Elements are
    /// counted, so that a tensor with one value per row or per column counts little beside one with both.
    pub(crate) fn column_axis(&self) -> Option<usize> {
        let elements = |placement: &Placement| -> usize {
            (0..self.rank).filter(|&axis| placement.strides[axis] != 0).map(|axis| self.extents[axis]).product()
        };
        let packed = |axis: usize| -> usize {
            let along = |placement: &&Placement| {
                placement.kind == Kind::Full && placement.strides[axis] == placement.element_bytes
            };
            self.placements().iter().filter(along).map(elements).sum()
        };
        let best = (1..self.rank).max_by_key(|&axis| packed(axis))?;
        (packed(best) > packed(0)).then_some(best)
    }

    /// Whether a tensor has one element for all of `axis`, or `count` neighbours along it can be read in one access.
    pub(crate) fn comes_in(&self, count: usize, placement: &Placement, axis: usize) -> bool {
        let bytes = placement.element_bytes * count as i64;
        let apart = |other: usize| other == axis || placement.strides[other] % bytes == 0;
        placement.strides[axis] == 0
            || (placement.strides[axis] == placement.element_bytes
                && placement.address.is_multiple_of(bytes as u64)
                && self.extents[axis].is_multiple_of(count)
                && (0..self.rank).all(apart))
    }

    /// Orders the axes by the strides of the first tensor that is written, so that its neighbours lie along the last one. Only for
    /// computations that do not ask which axis is which.
    pub(crate) fn follow_output(&mut self) {
        let Some(output) = self.placements().iter().position(|placement| placement.written) else { return };
        let key = |geometry: &Geometry, axis: usize| match geometry.extents[axis] {
            1 => u64::MAX,
            _ => geometry.placements[output].strides[axis].unsigned_abs(),
        };
        for axis in 1..self.rank {
            let mut at = axis;
            while at > 0 && key(self, at) < key(self, at - 1) {
                self.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    /// The axis along which the most inputs are packed that are not packed along the last. `None` if there is none, if an output is not
    /// packed along the last axis, or if one of the two is too short for tiles.
    pub(crate) fn tiled_axis(&self) -> Option<usize> {
        let packed = |placement: &Placement, axis: usize| placement.strides[axis] == placement.element_bytes;
        if self.placements().iter().any(|placement| placement.written && !packed(placement, 0)) {
            return None;
        }
        let crossing = |axis: usize| self.placements().iter().filter(|placement| self.crosses(placement, axis)).count();
        let long = |axis: usize| self.extents[axis] >= TILED_LEAST;
        let best = (1..self.rank).filter(|&axis| long(axis)).max_by_key(|&axis| crossing(axis))?;
        (crossing(best) > 0 && long(0)).then_some(best)
    }

    /// Whether a tensor is an input whose neighbours lie along `axis` and not along the last axis.
    pub(crate) fn crosses(&self, placement: &Placement, axis: usize) -> bool {
        let splat = placement.strides[0] == 0;
        let taken = placement.written || placement.looked_up.is_some();
        !taken
            && !splat
            && placement.strides[axis] == placement.element_bytes
            && placement.strides[0] != placement.element_bytes
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.extents.swap(a, b);
        for placement in &mut self.placements {
            placement.strides.swap(a, b);
        }
    }

    /// Makes `axis` axis 1, along which row numbers count first.
    pub(crate) fn count_first(&mut self, axis: usize) {
        self.swap(1, axis);
    }

    /// The bytes from the lowest address that a tensor touches up to its element at coordinates 0, and from the lowest address to its end.
    pub(crate) fn reach(&self, placement: &Placement) -> (u64, u64) {
        let (mut below, mut above) = (0u64, 0u64);
        for axis in 0..self.rank {
            let steps = self.extents[axis].saturating_sub(1) as u64;
            let far = placement.strides[axis].unsigned_abs().saturating_mul(steps);
            if placement.strides[axis] < 0 { below += far } else { above += far }
        }
        if let Some((stride, extent)) = placement.looked_up {
            let far = stride.unsigned_abs().saturating_mul(extent.saturating_sub(1) as u64);
            if stride < 0 { below += far } else { above += far }
        }
        (below, below + above + placement.element_bytes as u64)
    }

    /// Whether every tensor with a value per element lies packed, so that a kernel can move `width` neighbours at once.
    pub(crate) fn is_packed(&self, width: usize) -> bool {
        let full = |placement: &&Placement| placement.kind == Kind::Full;
        self.extents[0].is_multiple_of(width)
            && self
                .placements()
                .iter()
                .filter(full)
                .all(|placement| placement.looked_up.is_none() && self.mode(placement, width) == Mode::Packed)
    }

    /// How a kernel that moves `width` neighbours at once reads or writes a tensor.
    pub(crate) fn mode(&self, placement: &Placement, width: usize) -> Mode {
        if placement.strides[0] == 0 && !placement.written {
            return Mode::Splat;
        }
        let vector_bytes = (placement.element_bytes * width as i64).min(16);
        let aligned = placement.address.is_multiple_of(vector_bytes as u64)
            && (1..self.rank).all(|axis| placement.strides[axis] % vector_bytes == 0);
        if placement.strides[0] == placement.element_bytes && aligned { Mode::Packed } else { Mode::Strided }
    }
}
