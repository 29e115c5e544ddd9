//! Where the elements are: tensors laid over an iteration space, axes merged, offsets in bytes.
//!
//! Axes are counted from the last. All arrays are inline, because this runs at every launch.

use rocfire_hal::{MAX_RANK, View};

use crate::graph::Kind;

/// Most tensors of one kernel: what its argument block holds with 64-bit offsets.
pub(crate) const TENSORS_MOST: usize = 40;

/// Extents of two axes from which on tiles of them pay.
const TILED_LEAST: usize = 16;

/// How a kernel reads a tensor along the last axis; the numbers are `fuse.h`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One element for all.
    Splat = 0,
    /// Neighbours, aligned to a vector.
    Packed = 1,
    /// Element by element.
    Strided = 2,
}

/// A tensor laid over the space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Device address of the element at coordinates 0.
    pub address: u64,
    pub element_bytes: i64,
    /// Bytes from one element to the next along each axis; 0 where it broadcasts.
    pub strides: [i64; MAX_RANK],
    pub written: bool,
    pub kind: Kind,
    /// Bytes from one element to the next along the axis that a lookup's index counts, and that axis's extent.
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
    /// Read at every element of the space, or of its rows.
    Read(Kind),
    /// Read at an index along its first axis, which the space does not have, for every element or for every row.
    LookedUp(Kind),
    /// Written.
    Written(Kind),
}

/// Tensors over one space.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub rank: usize,
    /// Extents from the last axis on; 1 beyond the rank.
    pub extents: [usize; MAX_RANK],
    placements: [Placement; TENSORS_MOST],
    count: usize,
}

impl Geometry {
    /// A space of `shape`, which has at most [`MAX_RANK`] axes, without tensors.
    pub(crate) fn new(shape: &[usize]) -> Geometry {
        let mut extents = [1; MAX_RANK];
        for (extent, &of_shape) in extents.iter_mut().zip(shape.iter().rev()) {
            *extent = of_shape;
        }
        Geometry { rank: shape.len().max(1), extents, placements: [NOWHERE; TENSORS_MOST], count: 0 }
    }

    pub(crate) fn placements(&self) -> &[Placement] {
        &self.placements[..self.count]
    }

    /// Bytes of all tensors, each element of each once: what must be read and written at least.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |placement: &Placement| {
            let axes = (0..self.rank).filter(|&axis| placement.strides[axis] != 0);
            axes.map(|axis| self.extents[axis] as u64).product::<u64>() * placement.element_bytes as u64
        };
        self.placements().iter().map(of).sum()
    }

    /// Rows: the product of all extents but the last.
    pub(crate) fn rows(&self) -> usize {
        self.extents[1..].iter().product()
    }

    /// Lays a view over the space; `false` if its shape does not fit. An output may not broadcast.
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
            // Position of the axis in the view, counted from its own last; axes it lacks broadcast.
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
        self.placements[self.count] = placement;
        self.count += 1;
        true
    }

    /// Whether a written tensor has two elements at one address because of a stride of 0.
    pub(crate) fn overlaps(&self, at: usize) -> bool {
        let first = usize::from(self.placements[at].kind == Kind::Row);
        (first..self.rank).any(|axis| self.extents[axis] > 1 && self.placements[at].strides[axis] == 0)
    }

    /// Merges what the tensors allow: axes of extent 1 go, and neighbours that every tensor steps through as through one
    /// become one. With `keep_last` the last axis stays as it is.
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

    /// Whether every tensor's step on `outer` is where its steps on `inner` end.
    fn continues(&self, inner: usize, outer: usize) -> bool {
        let extent = self.extents[inner] as i64;
        self.placements().iter().all(|placement| placement.strides[outer] == placement.strides[inner] * extent)
    }

    fn move_strides(&mut self, from: usize, to: usize) {
        for placement in &mut self.placements[..self.count] {
            placement.strides[to] = placement.strides[from];
        }
    }

    /// The axis along which more elements are packed than along the last, if there is one: rows lie side by side. What is one value a
    /// row, or one for each column, is little beside what has both.
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

    /// Whether a tensor has one element for all of `axis`, or neighbours there that are read in one access of `count` of them.
    pub(crate) fn comes_in(&self, count: usize, placement: &Placement, axis: usize) -> bool {
        let bytes = placement.element_bytes * count as i64;
        let apart = |other: usize| other == axis || placement.strides[other] % bytes == 0;
        placement.strides[axis] == 0
            || (placement.strides[axis] == placement.element_bytes
                && placement.address.is_multiple_of(bytes as u64)
                && self.extents[axis].is_multiple_of(count)
                && (0..self.rank).all(apart))
    }

    /// Orders the axes by the steps of the first tensor that is written, so that its neighbours lie along the last one. For
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

    /// The axis along which the most inputs are packed that are not along the last, if what is written is; both are long.
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

    /// Whether an input's neighbours lie along `axis` and not along the last.
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
        for placement in &mut self.placements[..self.count] {
            placement.strides.swap(a, b);
        }
    }

    /// Makes `axis` the one that row numbers count first.
    pub(crate) fn count_first(&mut self, axis: usize) {
        self.swap(1, axis);
    }

    /// Bytes from a tensor's element at coordinates 0 down to the lowest it touches, and from there to its end.
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

    /// Whether every tensor with more than one value a row lies packed, so that a kernel moves `width` neighbours at once.
    pub(crate) fn is_packed(&self, width: usize) -> bool {
        let full = |placement: &&Placement| placement.kind == Kind::Full;
        self.extents[0].is_multiple_of(width)
            && self
                .placements()
                .iter()
                .filter(full)
                .all(|placement| placement.looked_up.is_none() && self.mode(placement, width) == Mode::Packed)
    }

    /// How a kernel that moves `width` neighbours at once reads a tensor.
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
