//! `copy_blocks`, the launcher of `blocks.hip`, and the ways of pages between caches and to the host: of all layers at once.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Device, Source, Stream, Tensor, View};

use super::form::Cache;
use crate::Result;
use crate::family::{self, BLOCK, GRID_YZ_MAX, KernelLaunch, Sources, shape};

const OP: &str = "cache_copy";
const SWAP: &str = "swap_blocks";
/// Bytes of a page that a workgroup moves: `GROUP_BYTES`.
const GROUP_BYTES: usize = 16384;

/// The pages of some caches, those of every layer of a model mostly: where they lie, made once. It keeps their memory.
#[derive(Debug)]
pub struct CacheList {
    entries: Tensor,
    parts: Vec<Part>,
    buffers: Vec<Buffer>,
    pages: usize,
}

/// Pages that lie one after the other, with what is between them.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Which of the buffers.
    buffer: usize,
    first_byte: u64,
    /// From page to page.
    page_bytes: i64,
    bytes: u64,
}

impl CacheList {
    /// Keys and values of caches with as many pages each, and their scales of pages and tokens.
    ///
    /// # Errors
    /// `Shape` for none, for caches of different numbers of pages, and for pages with gaps inside; errors of memory and copying.
    pub fn new(stream: &Stream, caches: &[&Cache<'_>]) -> Result<CacheList> {
        let Some(first) = caches.first() else { return Err(shape(OP, "caches", "at least one", 0)) };
        let pages = first.extents.blocks;
        let (mut parts, mut buffers) = (Vec::new(), Vec::new());
        for cache in caches {
            cache.on_device(OP, stream)?;
            if cache.extents.blocks != pages {
                return Err(shape(OP, "caches", format!("{pages} pages each"), cache.extents.blocks));
            }
            let planes = if cache.is_latent { 1 } else { 2 };
            for plane in &[cache.k, cache.v][..planes] {
                add(&mut parts, &mut buffers, plane)?;
            }
            let scales = cache.codes.map(|codes| [codes.k_scales, codes.v_scales]);
            for scales in scales.iter().flat_map(|both| &both[..planes]) {
                match scales.shape() {
                    [_, heads, _] => {
                        // Those of a head may lie apart from another's.
                        for head in 0..*heads {
                            let layout = scales.layout().slice(1, head, head + 1, 1)?;
                            add(&mut parts, &mut buffers, &scales.with_layout(layout)?)?;
                        }
                    }
                    [_, _] if scales.len() > 1 => add(&mut parts, &mut buffers, scales)?,
                    _ => {}
                }
            }
        }
        if parts.len() > GRID_YZ_MAX {
            return Err(shape(OP, "caches", format!("at most {GRID_YZ_MAX} parts of pages"), parts.len()));
        }
        let entries: Vec<u64> = parts
            .iter()
            .flat_map(|part: &Part| {
                [buffers[part.buffer].device_address() + part.first_byte, part.page_bytes as u64, part.bytes]
            })
            .collect();
        let device: Device = stream.device();
        let entries = Tensor::from_bytes(&device, &[entries.len()], DType::U64, bytemuck::cast_slice(&entries))?;
        Ok(CacheList { entries, parts, buffers, pages })
    }

    /// Bytes of a page in all of the caches together.
    pub fn page_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes as usize).sum()
    }

    /// Copies pages from the device one after the other, each as [`CacheList::page_bytes`]: what was swapped out.
    ///
    /// # Errors
    /// `Shape` for a page that is not there, or another number of bytes; errors of copying. It waits for the device.
    pub fn to_host(&self, stream: &Stream, pages: &[usize], host: &mut [u8]) -> Result<()> {
        self.check_host(pages, host.len())?;
        let mut left = host;
        for (&page, part) in self.each(pages) {
            let (here, rest) = left.split_at_mut(part.bytes as usize);
            stream.copy_to_host(&self.buffers[part.buffer], part.at(page), here)?;
            left = rest;
        }
        Ok(())
    }

    /// Copies pages back, one after the other.
    ///
    /// # Errors
    /// As [`CacheList::to_host`].
    pub fn from_host(&self, stream: &Stream, host: &[u8], pages: &[usize]) -> Result<()> {
        self.check_host(pages, host.len())?;
        let mut left = host;
        for (&page, part) in self.each(pages) {
            let (here, rest) = left.split_at(part.bytes as usize);
            stream.copy_to_device(here, &self.buffers[part.buffer], part.at(page))?;
            left = rest;
        }
        Ok(())
    }

    /// Copies pages of this list to another one, `(from, to)` each, a copy for every page and part: between caches of a device.
    ///
    /// # Errors
    /// `Shape` for lists whose pages are not alike and for pages that are not there; errors of copying.
    pub fn swap_blocks(&self, stream: &Stream, to: &CacheList, pairs: &[(usize, usize)]) -> Result<()> {
        let sizes = |list: &CacheList| list.parts.iter().map(|part| part.bytes).collect::<Vec<_>>();
        if sizes(self) != sizes(to) {
            return Err(shape(SWAP, "to", format!("pages of {:?} bytes", sizes(self)), format!("{:?}", sizes(to))));
        }
        for &(source, target) in pairs {
            self.check_page("from", source)?;
            to.check_page("to", target)?;
            for (a, b) in self.parts.iter().zip(&to.parts) {
                let (source_buffer, target_buffer) = (&self.buffers[a.buffer], &to.buffers[b.buffer]);
                stream.copy(source_buffer, a.at(source), target_buffer, b.at(target), a.bytes)?;
            }
        }
        Ok(())
    }

    fn each<'a>(&'a self, pages: &'a [usize]) -> impl Iterator<Item = (&'a usize, &'a Part)> {
        pages.iter().flat_map(|page| self.parts.iter().map(move |part| (page, part)))
    }

    fn check_host(&self, pages: &[usize], bytes: usize) -> Result<()> {
        pages.iter().try_for_each(|&page| self.check_page("pages", page))?;
        let expected = pages.len() * self.page_bytes();
        if bytes == expected { Ok(()) } else { Err(shape(SWAP, "host", format!("{expected} bytes"), bytes)) }
    }

    fn check_page(&self, arg: &'static str, page: usize) -> Result<()> {
        if page < self.pages { Ok(()) } else { Err(shape(SWAP, arg, format!("pages below {}", self.pages), page)) }
    }
}

impl Part {
    /// The first byte of a page.
    fn at(&self, page: usize) -> u64 {
        self.first_byte.wrapping_add_signed(page as i64 * self.page_bytes)
    }
}

/// Adds the pages of a view, whose first axis they are.
fn add(parts: &mut Vec<Part>, buffers: &mut Vec<Buffer>, view: &View<'_>) -> Result<()> {
    if view.is_empty() {
        return Ok(());
    }
    let size = view.dtype().size_bytes() as i64;
    let inside = view.layout().slice(0, 0, 1, 1)?;
    let len = inside.len() as i64;
    if inside.extent().end - inside.extent().start != len {
        let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
        return Err(shape(OP, "caches", "pages without gaps inside", got));
    }
    let buffer = buffers.iter().position(|known| known.same(view.buffer())).unwrap_or_else(|| {
        buffers.push(view.buffer().clone());
        buffers.len() - 1
    });
    let page_bytes = view.layout().strides()[0] * size;
    let first_byte = (inside.extent().start * size) as u64;
    parts.push(Part { buffer, first_byte, page_bytes, bytes: (len * size) as u64 });
    Ok(())
}

/// Copies whole pages within every cache of a list, `(from, to)` each: what forks of a sequence write to.
///
/// # Shapes
/// `pairs`: `[count, 2]`, I64, contiguous. No page that one pair writes is another's.
/// # Numerics
/// Bytes are moved. A pair with a page outside the cache is passed over, and the next read or wait tells of it.
/// # Errors
/// `Shape` for other pairs; errors of compilation and launch.
pub fn copy_blocks(stream: &Stream, list: &CacheList, pairs: View<'_>) -> Result<()> {
    family::on_device(OP, "pairs", stream, &pairs)?;
    family::same_dtype(OP, "pairs", &pairs, DType::I64)?;
    family::on_device(OP, "list", stream, &list.entries.view())?;
    let [count, 2] = *pairs.shape() else {
        return Err(shape(OP, "pairs", "[count, 2]", format!("{:?}", pairs.shape())));
    };
    if !pairs.layout().is_contiguous() {
        return Err(shape(OP, "pairs", "contiguous", format!("strides {:?}", pairs.layout().strides())));
    }
    static SOURCES: Sources<()> = Sources::new();
    let source = SOURCES.get((), |()| source());
    let largest = list.parts.iter().map(|part| part.bytes as usize).max().unwrap_or(0);
    let written: Vec<&Buffer> = list.buffers.iter().collect();
    let bytes = 2 * count * list.page_bytes();
    for first in (0..count).step_by(GRID_YZ_MAX) {
        let args = BlockArgs {
            entries: list.entries.view().device_address(),
            pairs: pairs.device_address() + 16 * first as u64,
            pages: list.pages as i64,
        };
        let grid = [largest.div_ceil(GROUP_BYTES), (count - first).min(GRID_YZ_MAX), list.parts.len()];
        let work = Work { category: Category::Other, shape: pairs.shape(), bytes: bytes as u64, ..Work::default() };
        if grid.contains(&0) {
            continue;
        }
        // SAFETY:
        // - `BlockArgs` is the twin of the kernel's struct. Entries were made of checked views whose buffers the list keeps; pages
        //   outside are not followed.
        // - It writes what the entries lie in: the list's buffers.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, "cache_copy"), grid, [BLOCK, 1, 1])
                .with(0, work)
                .run(&args, &written)?
        };
    }
    Ok(())
}

fn source() -> Source {
    Source::new("cache_copy", include_str!("blocks.hip"), &[])
}

/// Its row of the registry, whatever the elements are.
pub(super) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    std::iter::once((OP, source())).filter(move |_| dtype == DType::F16)
}

/// `BlockArgs` of `blocks.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct BlockArgs {
    entries: u64,
    pairs: u64,
    pages: i64,
}
const _: () = assert!(size_of::<BlockArgs>() == 24);
