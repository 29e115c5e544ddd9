//! Which pages sequences have.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Stream, View};

use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, shape};

/// The pages of sequences, in device memory. What lies behind a sequence's last page is not read.
#[derive(Clone, Copy, Debug)]
pub enum Pages<'a> {
    /// A row of page numbers for each sequence.
    Table {
        /// I32, `[sequences, most pages]`, the last axis contiguous.
        pages: View<'a>,
        /// Keys of each sequence, I32, `[sequences]`, contiguous. One of 0 has none; more than its row holds are those that it holds.
        lens: View<'a>,
    },
    /// Page numbers of all sequences one after the other.
    List {
        /// Where each sequence's begin, and the end: I32, `[sequences + 1]`, contiguous.
        starts: View<'a>,
        /// I32, one axis, contiguous.
        pages: View<'a>,
        /// Keys on each sequence's last page, I32, `[sequences]`, contiguous; `None`: as many as a page has.
        last: Option<View<'a>>,
    },
    /// A row of slots for each sequence, `slot = page · tokens of a page + offset`: its keys themselves, in any order, as sparse attention
    /// chooses them.
    Slots {
        /// I32, `[sequences, most keys]`, the last axis contiguous. One below 0 is no key.
        slots: View<'a>,
        /// How many of its row's slots a sequence has, I32, `[sequences]`, contiguous; `None`: all.
        lens: Option<View<'a>>,
    },
}

impl Pages<'_> {
    /// How many sequences there are.
    pub fn sequences(&self) -> usize {
        match self {
            Pages::Table { lens, .. } => lens.len(),
            Pages::List { starts, .. } => starts.len().saturating_sub(1),
            Pages::Slots { slots, .. } => slots.shape().first().copied().unwrap_or(0),
        }
    }

    /// Checks them, for a cache of `blocks` pages of `block` tokens; `keys_most`: more than that many keys of a sequence are not
    /// looked at.
    pub(crate) fn args(
        &self,
        op: &'static str,
        stream: &Stream,
        [blocks, block]: [usize; 2],
        keys_most: usize,
    ) -> Result<PageArgs> {
        let line = |arg: &'static str, view: &View<'_>, len: Option<usize>| -> Result<()> {
            family::on_device(op, arg, stream, view)?;
            family::same_dtype(op, arg, view, DType::I32)?;
            let fits = view.layout().rank() == 1 && len.is_none_or(|len| view.len() == len);
            if !fits || !view.layout().is_contiguous() {
                let expected = format!("[{}], contiguous", len.map_or("..".to_owned(), |len| len.to_string()));
                let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
                return Err(shape(op, arg, expected, got));
            }
            Ok(())
        };
        let rows = |arg: &'static str, view: &View<'_>, sequences: usize| -> Result<[i64; 2]> {
            family::on_device(op, arg, stream, view)?;
            family::same_dtype(op, arg, view, DType::I32)?;
            let strides = view.layout().strides();
            let [rows, width] = *view.shape() else {
                return Err(shape(op, arg, format!("[{sequences}, ..]"), format!("{:?}", view.shape())));
            };
            if rows != sequences || width > 1 && strides[1] != 1 {
                let got = format!("{:?}, strides {strides:?}", view.shape());
                return Err(shape(op, arg, format!("[{sequences}, ..], the last axis contiguous"), got));
            }
            Ok([if rows > 1 { strides[0] } else { 0 }, width as i64])
        };
        let sequences = self.sequences();
        let mut keys_most = keys_most;
        let (table, lens, starts, row, width) = match self {
            Pages::Table { pages, lens } => {
                line("lens", lens, None)?;
                let [row, width] = rows("pages", pages, sequences)?;
                (pages.device_address(), lens.device_address(), 0, row, width as usize)
            }
            Pages::Slots { slots, lens } => {
                if let Some(lens) = lens {
                    line("lens", lens, Some(sequences))?;
                }
                let [row, width] = rows("slots", slots, sequences)?;
                keys_most = keys_most.min(width as usize);
                let lens = lens.map_or(0, |lens| lens.device_address());
                (slots.device_address(), lens, 0, row, width as usize)
            }
            Pages::List { starts, pages, last } => {
                line("starts", starts, None)?;
                line("pages", pages, None)?;
                if starts.is_empty() {
                    return Err(shape(op, "starts", "[sequences + 1]", "[0]"));
                }
                if let Some(last) = last {
                    line("last", last, Some(sequences))?;
                }
                let last = last.map_or(0, |last| last.device_address());
                (pages.device_address(), last, starts.device_address(), 0, pages.len())
            }
        };
        for (arg, number) in [("pages", width), ("keys_most", keys_most), ("lens", sequences)] {
            if number >= BOX_LIMIT {
                return Err(shape(op, arg, format!("fewer than {BOX_LIMIT}"), number));
            }
        }
        Ok(PageArgs {
            table,
            lens,
            starts,
            row,
            block: FastDiv::new(block),
            sequences: sequences as u32,
            width: width as u32,
            pages: blocks as u32,
            keys_most: keys_most as u32,
            padding: 0,
        })
    }
}

/// `CachePages` of `cache.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct PageArgs {
    table: u64,
    lens: u64,
    starts: u64,
    row: i64,
    block: FastDiv,
    sequences: u32,
    width: u32,
    pages: u32,
    keys_most: u32,
    padding: u32,
}
const _: () = assert!(size_of::<PageArgs>() == 64);
