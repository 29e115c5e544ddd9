//! `compact`: the launcher of `compact.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Dims, MAX_RANK, Source, Stream, Tensor, View, ViewMut};

use super::{same_shape, word_type};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, KernelLaunch, Sources, c_type, shape};
use crate::scan::{Cumulative, cumulative};

const OP: &str = "compact";
/// Elements of the mask per lane, so that a chunk's sum in LDS is shared by as many.
const ITEMS: usize = 8;
/// Elements of the mask per workgroup.
const CHUNK: usize = BLOCK * ITEMS;

/// What a mask chooses: how many, and what is needed to write them.
///
/// Making one reads the number back, since outputs need it; nothing else leaves the device.
#[derive(Debug)]
pub struct Chosen {
    mask: Tensor,
    /// By chunk, how many are chosen up to its end.
    ends: Tensor,
    shape: Dims,
    count: usize,
}

impl Chosen {
    /// Counts what `mask` chooses. Waits for the device.
    ///
    /// # Shapes
    /// `mask`: any shape and strides, `Bool`.
    /// # Errors
    /// `Shape` for another type and for 2³¹ elements or more; what the device says when the number is read.
    pub fn of(stream: &Stream, mask: &Tensor) -> Result<Chosen> {
        let view = mask.view();
        family::on_device(OP, "mask", stream, &view)?;
        family::same_dtype(OP, "mask", &view, DType::Bool)?;
        if view.len() >= BOX_LIMIT {
            return Err(shape(OP, "mask", format!("fewer than {BOX_LIMIT} elements"), view.len()));
        }
        let plain = view.layout().is_contiguous();
        let own = Dims::new(view.shape())?;
        let mask = if plain { mask.clone() } else { family::contiguous(stream, view)? };
        let chunks = mask.layout().len().div_ceil(CHUNK);
        let ends = Tensor::empty(mask.device(), &[chunks], DType::U32)?;
        let mut chosen = Chosen { mask, ends, shape: own, count: 0 };
        if chunks > 0 {
            chosen.count(stream, chunks)?;
        }
        Ok(chosen)
    }

    fn count(&mut self, stream: &Stream, chunks: usize) -> Result<()> {
        let counts = Tensor::empty(self.mask.device(), &[chunks], DType::U32)?;
        let key = CompactKey { word: 4, index: DType::I32 };
        let args = CompactArgs { counts: counts.view().device_address(), ..self.args() };
        self.launch(stream, key, "compact_count", &args, counts.buffer())?;
        cumulative(stream, Cumulative::Sum, 0, counts.view(), self.ends.view_mut())?;
        let last = self.ends.with_layout(self.ends.layout().slice(0, chunks - 1, chunks, 1)?)?;
        let bytes = last.to_bytes()?;
        self.count = bytemuck::pod_read_unaligned::<u32>(&bytes) as usize;
        Ok(())
    }

    /// How many elements are chosen.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// `out` = the elements of `x` where the mask holds, row after row.
    ///
    /// # Shapes
    /// `x` as the mask, any strides; `out`: `[len]`, contiguous. One type, any.
    /// # Errors
    /// `Shape` for shapes, types or layouts that do not fit.
    pub fn values(&self, stream: &Stream, x: View<'_>, out: ViewMut<'_>) -> Result<()> {
        family::on_device(OP, "x", stream, &x)?;
        same_shape(OP, "x", &x, &self.shape)?;
        family::same_dtype(OP, "out", &out, x.dtype())?;
        self.check_output(stream, &out, &[self.count])?;
        family::disjoint(OP, "out", &out, &x)?;
        if self.count == 0 {
            return Ok(());
        }
        let copy = if x.layout().is_contiguous() { None } else { Some(family::contiguous(stream, x)?) };
        let x = copy.as_ref().map_or(x, Tensor::view);
        let key = CompactKey { word: x.dtype().size_bytes(), index: DType::I32 };
        let args = CompactArgs { x: x.device_address(), values: out.device_address(), ..self.args() };
        self.launch(stream, key, "compact_values", &args, out.buffer())
    }

    /// `out` = the coordinates of the elements where the mask holds, row after row.
    ///
    /// # Shapes
    /// `out`: `[len, rank of the mask]`, contiguous, i32 or i64.
    /// # Errors
    /// `Shape` for shapes, types or layouts that do not fit.
    pub fn places(&self, stream: &Stream, out: ViewMut<'_>) -> Result<()> {
        if !matches!(out.dtype(), DType::I32 | DType::I64) {
            return Err(shape(OP, "out", "i32 or i64", out.dtype()));
        }
        self.check_output(stream, &out, &[self.count, self.shape.len()])?;
        if out.is_empty() {
            return Ok(());
        }
        let key = CompactKey { word: 4, index: out.dtype() };
        let args = CompactArgs { places: out.device_address(), ..self.args() };
        self.launch(stream, key, "compact_places", &args, out.buffer())
    }

    fn check_output(&self, stream: &Stream, out: &View<'_>, expected: &[usize]) -> Result<()> {
        family::on_device(OP, "out", stream, out)?;
        same_shape(OP, "out", out, expected)?;
        if !out.layout().is_contiguous() {
            return Err(shape(OP, "out", "contiguous", format!("strides {:?}", out.layout().strides())));
        }
        family::disjoint(OP, "out", out, &self.mask.view())
    }

    fn args(&self) -> CompactArgs {
        let mut extents = [1; MAX_RANK];
        for (to, &from) in extents.iter_mut().zip(self.shape.iter()) {
            *to = from as u32;
        }
        CompactArgs {
            mask: self.mask.view().device_address(),
            counts: 0,
            ends: self.ends.view().device_address(),
            x: 0,
            values: 0,
            places: 0,
            n: self.mask.layout().len() as u32,
            rank: self.shape.len() as u32,
            shape: extents,
        }
    }

    fn launch(
        &self,
        stream: &Stream,
        key: CompactKey,
        kernel: &'static str,
        args: &CompactArgs,
        written: &Buffer,
    ) -> Result<()> {
        static SOURCES: Sources<CompactKey> = Sources::new();
        let source = SOURCES.get(key, source);
        let grid = [self.mask.layout().len().div_ceil(CHUNK), 1, 1];
        // SAFETY:
        // - `CompactArgs` is the twin of the kernel's struct, sizes asserted on both sides. A kernel reads the mask and, to
        //   write values, `x` of the same shape, and writes as many elements as the mask was counted to choose, which is what
        //   the output was checked to hold; the mask is owned by `self` and no launcher writes to it.
        // - It writes the one output that its arguments name.
        unsafe { KernelLaunch::new(stream, &source, (OP, kernel), grid, [BLOCK, 1, 1]).run(args, &[written]) }
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompactKey {
    /// Bytes of an element.
    pub word: usize,
    pub index: DType,
}

/// The source of one variant.
pub(crate) fn source(key: CompactKey) -> Source {
    let items = ITEMS.to_string();
    let defines = [
        ("COMPACT_WORD", word_type(key.word)),
        ("COMPACT_INDEX", c_type(key.index)),
        ("COMPACT_ITEMS", items.as_str()),
    ];
    Source::new("compact", include_str!("compact.hip"), &defines)
}

/// `CompactArgs` of `compact.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CompactArgs {
    mask: u64,
    counts: u64,
    ends: u64,
    x: u64,
    values: u64,
    places: u64,
    n: u32,
    rank: u32,
    shape: [u32; MAX_RANK],
}
const _: () = assert!(size_of::<CompactArgs>() == 88);
