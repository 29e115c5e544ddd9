//! The walk over a tensor of codes: its axes merged where they can be, the packed one last.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, View};

use super::format::{CodeLayout, Packed, Scales};
use crate::Result;
use crate::family::{BOX_LIMIT, FastDiv, shape};

/// Axes after merging: `RF_CODE_AXES`.
pub(crate) const AXES: usize = 8;
/// Most bytes that a lane reads or writes at once.
const VECTOR_BYTES: usize = 16;

/// `rf::CodeWalk`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct CodeWalk {
    x: [i64; AXES],
    words: [i64; AXES],
    scales: [i64; AXES],
    extent: [FastDiv; AXES],
    block: [FastDiv; AXES],
    axes: u32,
    count: u32,
    last_extent: u32,
    scale_kind: u32,
}
const _: () = assert!(size_of::<CodeWalk>() == 400);

/// What a launcher needs to know of a walk besides its argument struct.
pub(crate) struct Walk {
    pub args: CodeWalk,
    /// The words' type in the kernel: wider than the tensor's where bytes lie in fours.
    pub word: DType,
    /// Codes in such a word, or in all words of a lane.
    pub per: usize,
    /// Neighbouring words of a lane.
    pub wide: usize,
    /// Whether the elements of a word are neighbours, whole and aligned.
    pub vector: bool,
    /// Words to visit, or lanes' words.
    pub count: usize,
}

/// How the elements of a lane's words have their scales: `QUANT_SPAN` of `dequantise.hip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Span {
    /// Each its own, wherever that is.
    Each,
    /// All the same.
    One,
    /// Each the next one, whole vectors of them.
    Beside,
}

impl Walk {
    /// Axes that are left of the tensor's.
    pub(crate) fn axes(&self) -> usize {
        self.args.axes as usize
    }

    /// How the elements of a lane's words have these scales.
    pub(crate) fn span(&self, scales: Option<&Scales<'_>>) -> Span {
        let Some(scales) = scales else { return Span::One };
        let (args, axes) = (&self.args, self.axes());
        let (step, block) = (args.scales[axes - 1], args.block[axes - 1].divisor());
        if step == 0 || block.is_multiple_of(self.per) {
            return Span::One;
        }
        let size = scales.kind.dtype().size_bytes();
        let vector = (self.per * size).min(VECTOR_BYTES);
        let is_aligned = |stride: i64| (stride * size as i64) % vector as i64 == 0;
        let beside = step == 1
            && block == 1
            && (args.last_extent as usize).is_multiple_of(self.per)
            && scales.view.device_address().is_multiple_of(vector as u64)
            && args.scales[..axes - 1].iter().copied().all(is_aligned);
        if beside { Span::Beside } else { Span::Each }
    }
}

/// One axis: elements (on the last one also words), strides, elements per block.
#[derive(Clone, Copy, Default)]
struct Axis {
    extent: usize,
    x: i64,
    words: i64,
    scales: i64,
    block: usize,
}

/// Bytes that lie in whole, aligned fours along an axis are read as words of four: that axis, and codes per word.
pub(super) fn fours(words: &View<'_>, layout: &CodeLayout, per: usize, extents: &[usize]) -> Option<usize> {
    if words.dtype() == DType::U32 || !words.device_address().is_multiple_of(4) {
        return None;
    }
    let strides = words.layout().strides();
    let whole = |axis: usize| {
        let others = (0..strides.len()).filter(|&other| other != axis && words.shape()[other] > 1);
        strides[axis] == 1
            && words.shape()[axis].is_multiple_of(4)
            && extents[axis].is_multiple_of(4 * per)
            && others.into_iter().all(|other| strides[other] % 4 == 0)
    };
    match layout.packed {
        Some(Packed { axis, .. }) => whole(axis).then_some(axis),
        None if layout.format.bits() == 8 => (0..strides.len()).rev().find(|&axis| whole(axis)),
        None => None,
    }
}

/// Words of `bytes` along axis `last` that a lane can read at once, of `per` codes each: as many as have up to `codes` codes and lie in whole,
/// aligned vectors.
fn neighbours(words: &View<'_>, [last, bytes, per]: [usize; 3], extents: &[usize], codes: usize) -> usize {
    let (strides, size) = (words.layout().strides(), words.dtype().size_bytes());
    let fits = |wide: usize| {
        let elements = wide * bytes / size;
        let others = (0..strides.len()).filter(|&other| other != last && words.shape()[other] > 1);
        strides[last] == 1
            && extents[last].is_multiple_of(wide * per)
            && words.device_address().is_multiple_of((wide * bytes) as u64)
            && others.into_iter().all(|other| strides[other] % elements as i64 == 0)
    };
    [4, 2].into_iter().find(|&wide| wide * bytes <= VECTOR_BYTES && wide * per <= codes && fits(wide)).unwrap_or(1)
}

/// The walk over `x` and `words`, both checked; a lane has a word, or neighbouring words of up to `codes` codes.
pub(crate) fn walk(
    op: &'static str,
    x: &View<'_>,
    words: &View<'_>,
    layout: &CodeLayout,
    scales: Option<&Scales<'_>>,
    codes: usize,
) -> Result<Walk> {
    let extents = x.shape();
    let rank = extents.len();
    let own = layout.per_word(words.dtype());
    let four = fours(words, layout, own, extents);
    let (per, word, divide) = match four {
        Some(_) => (4 * own, DType::U32, 4),
        None => (own, if words.dtype() == DType::U32 { DType::U32 } else { DType::U8 }, 1),
    };
    let last = four.or(layout.packed.map(|packed| packed.axis)).unwrap_or(rank.saturating_sub(1));
    let wide = if rank == 0 { 1 } else { neighbours(words, [last, word.size_bytes(), per], extents, codes) };
    let (per, divide) = (per * wide, divide * wide as i64);
    let blocked = scales.filter(|scales| !scales.block.is_empty());
    let axis_of = |axis: usize| {
        let stride = words.layout().strides()[axis];
        let (scale_stride, block) = match blocked {
            Some(scales) if scales.view.shape()[axis] > 1 => (scales.view.layout().strides()[axis], scales.block[axis]),
            _ => (0, 1),
        };
        Axis {
            extent: extents[axis],
            x: x.layout().strides()[axis],
            words: if axis == last { stride } else { stride / divide },
            scales: scale_stride,
            block,
        }
    };
    let whole = Axis { extent: 1, block: 1, ..Axis::default() };
    let mut axes = [whole; AXES];
    let mut count = 0;
    for axis in (0..rank).filter(|&axis| axis != last && extents[axis] != 1) {
        let next = axis_of(axis);
        if count > 0
            && let Some(merged) = merge(axes[count - 1], next, next.extent)
        {
            axes[count - 1] = merged;
            continue;
        }
        if count + 1 == AXES {
            return Err(shape(op, "x", format!("at most {AXES} axes that do not merge"), format!("{extents:?}")));
        }
        axes[count] = next;
        count += 1;
    }
    let inner = if rank == 0 { whole } else { axis_of(last) };
    let in_words = inner.extent.div_ceil(per);
    let merged = (count > 0 && inner.extent.is_multiple_of(per)).then(|| merge(axes[count - 1], inner, in_words));
    match merged.flatten() {
        Some(merged) => axes[count - 1] = merged,
        None => {
            axes[count] = inner;
            count += 1;
        }
    }
    finish(op, x, &axes[..count], scales, (word, per, wide))
}

/// Two neighbouring axes as one, where elements, words (`inner_words` of them along the inner axis) and scales allow, and the
/// kernel's division by an extent does.
fn merge(outer: Axis, inner: Axis, inner_words: usize) -> Option<Axis> {
    let follows = outer.x == inner.x * inner.extent as i64 && outer.words == inner.words * inner_words as i64;
    let blocks = inner.extent / inner.block.max(1);
    let (scales, block) = match (outer.scales, inner.scales) {
        (0, 0) => (0, 1),
        (stride, 0) if outer.block == 1 => (stride, inner.extent),
        (stride, next)
            if outer.block == 1 && inner.extent.is_multiple_of(inner.block) && stride == next * blocks as i64 =>
        {
            (next, inner.block)
        }
        _ => return None,
    };
    let merged = Axis { extent: outer.extent * inner.extent, x: inner.x, words: inner.words, scales, block };
    (follows && merged.extent < BOX_LIMIT).then_some(merged)
}

fn finish(
    op: &'static str,
    x: &View<'_>,
    axes: &[Axis],
    scales: Option<&Scales<'_>>,
    (word, per, wide): (DType, usize, usize),
) -> Result<Walk> {
    let inner = axes[axes.len() - 1];
    let in_words = inner.extent.div_ceil(per);
    let count: usize = axes[..axes.len() - 1].iter().map(|axis| axis.extent).product::<usize>() * in_words;
    if count >= BOX_LIMIT || axes.iter().any(|axis| axis.extent >= BOX_LIMIT) {
        return Err(shape(op, "x", format!("fewer than {BOX_LIMIT} words and elements along an axis"), count));
    }
    let size = x.dtype().size_bytes();
    let vector = (per * size).min(VECTOR_BYTES);
    let aligned = |stride: i64| (stride * size as i64) % vector as i64 == 0;
    let vector = inner.x == 1
        && inner.extent.is_multiple_of(per)
        && x.device_address().is_multiple_of(vector as u64)
        && axes[..axes.len() - 1].iter().all(|axis| aligned(axis.x));
    let one = FastDiv::new(1);
    let mut args = CodeWalk {
        x: [0; AXES],
        words: [0; AXES],
        scales: [0; AXES],
        extent: [one; AXES],
        block: [one; AXES],
        axes: axes.len() as u32,
        count: count as u32,
        last_extent: inner.extent as u32,
        scale_kind: scales.map_or(0, |scales| scales.kind.number()),
    };
    for (n, axis) in axes.iter().enumerate() {
        let extent = if n + 1 == axes.len() { in_words } else { axis.extent };
        (args.x[n], args.words[n], args.scales[n]) = (axis.x, axis.words, axis.scales);
        (args.extent[n], args.block[n]) = (FastDiv::new(extent), FastDiv::new(axis.block));
    }
    Ok(Walk { args, word, per, wide, vector, count })
}
