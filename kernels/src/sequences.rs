//! Sequences whose states lie in a pool: where their rows are, and which slots they have.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Stream, View};

use crate::Result;
use crate::family::{self, BOX_LIMIT, shape};

/// Rows of sequences one after the other, and the slots of a pool that hold what each leaves behind. All of it lies on the device: a
/// launch depends on extents alone, and a graph of it can be replayed with other lengths, slots and flags.
///
/// A sequence whose slot is negative gives zeros, and reads and writes no state; so does one whose slot is behind the last, and the
/// next read or wait tells of it. A sequence without rows leaves its state as it is. Rows that no sequence has are not written. Two
/// sequences with rows have different slots.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    /// Where the rows of each begin, ascending, and the end: I32, `[sequences + 1]`, contiguous.
    pub starts: View<'a>,
    /// I32, `[sequences]`.
    pub slots: View<'a>,
    /// Which begin with a state of zeros, whatever their slot holds: Bool, U8 or I32, `[sequences]`; `None`: none does.
    pub fresh: Option<View<'a>>,
    /// A number of a slot that stands for none, as negative ones do: that of a block which engines keep for padding. `None`: no other.
    pub pad: Option<i32>,
}

impl<'a> Sequences<'a> {
    /// Checks them, of `tokens` rows and a pool of `pool` states; whether slots may be rows of several.
    pub(crate) fn args(
        &self,
        op: &'static str,
        stream: &Stream,
        [tokens, pool]: [usize; 2],
        has_places: bool,
    ) -> Result<SequenceArgs> {
        let starts = self.starts.len();
        if starts == 0 || starts >= BOX_LIMIT {
            return Err(shape(op, "starts", format!("[sequences + 1], fewer than {BOX_LIMIT}"), starts));
        }
        argument(op, "starts", stream, &self.starts, &[DType::I32], &[starts])?;
        if !self.starts.layout().is_contiguous() {
            return Err(shape(op, "starts", "contiguous", format!("strides {:?}", self.starts.layout().strides())));
        }
        let count = starts - 1;
        match has_places {
            true => slot_table(op, "slots", stream, &self.slots, count)?,
            false => argument(op, "slots", stream, &self.slots, &[DType::I32], &[count])?,
        }
        let mut args = SequenceArgs {
            starts: self.starts.device_address(),
            slots: self.slots.device_address(),
            slot_stride: self.slots.layout().strides()[0],
            count: count as u32,
            tokens: tokens as u32,
            pool: pool as u32,
            pad: self.pad.unwrap_or(-1),
            ..SequenceArgs::zeroed()
        };
        if let Some(fresh) = &self.fresh {
            argument(op, "fresh", stream, fresh, &[DType::Bool, DType::U8, DType::I32], &[count])?;
            args.fresh_stride = fresh.layout().strides()[0];
            args.fresh = fresh.device_address();
            args.fresh_bytes = fresh.dtype().size_bytes() as u32;
        }
        for (arg, number) in [("x", tokens), ("state", pool)] {
            if number >= BOX_LIMIT {
                return Err(shape(op, arg, format!("fewer than {BOX_LIMIT} rows"), number));
            }
        }
        Ok(args)
    }

    /// What a launch reads of them, by name.
    pub(crate) fn views(&self) -> impl Iterator<Item = (&'static str, View<'a>)> {
        let always = [("starts", self.starts), ("slots", self.slots)];
        always.into_iter().chain(self.fresh.map(|fresh| ("fresh", fresh)))
    }
}

/// `Sequences` of `sequences.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct SequenceArgs {
    starts: u64,
    slots: u64,
    fresh: u64,
    slot_stride: i64,
    fresh_stride: i64,
    count: u32,
    tokens: u32,
    pool: u32,
    fresh_bytes: u32,
    pad: i32,
    padding: u32,
}
const _: () = assert!(size_of::<SequenceArgs>() == 64);

impl SequenceArgs {
    /// How many sequences there are.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }
}

/// Checks that what a launch writes names each element once, is apart from what it reads, and from what else it writes.
pub(crate) fn apart<'a>(
    op: &'static str,
    [out, state]: [View<'_>; 2],
    inputs: impl Iterator<Item = (&'static str, View<'a>)>,
) -> Result<()> {
    family::writable(op, "out", &out)?;
    family::writable(op, "state", &state)?;
    family::disjoint(op, "state", &out, &state)?;
    for (arg, input) in inputs {
        family::disjoint(op, arg, &out, &input)?;
        family::disjoint(op, arg, &state, &input)?;
    }
    Ok(())
}

/// Checks slots, one of each sequence or a row of several.
pub(crate) fn slot_table(
    op: &'static str,
    arg: &'static str,
    stream: &Stream,
    view: &View<'_>,
    sequences: usize,
) -> Result<()> {
    let fits = match *view.shape() {
        [count] => count == sequences,
        [count, places] => count == sequences && (1..BOX_LIMIT).contains(&places),
        _ => false,
    };
    if !fits {
        let expected = format!("[{sequences}], or [{sequences}, places] with at least a place");
        return Err(shape(op, arg, expected, format!("{:?}", view.shape())));
    }
    argument(op, arg, stream, view, &[DType::I32], view.shape())
}

/// Checks an argument: where it lies, its types and its shape.
pub(crate) fn argument(
    op: &'static str,
    arg: &'static str,
    stream: &Stream,
    view: &View<'_>,
    dtypes: &[DType],
    expected: &[usize],
) -> Result<()> {
    family::on_device(op, arg, stream, view)?;
    if !dtypes.contains(&view.dtype()) {
        return Err(shape(op, arg, format!("of {dtypes:?}"), view.dtype()));
    }
    if view.shape() != expected {
        return Err(shape(op, arg, format!("{expected:?}"), format!("{:?}", view.shape())));
    }
    Ok(())
}
