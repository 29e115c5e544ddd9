//! A kernel's end: where an epilogue's tensors lie for the kernel that it ends, and its arguments behind the kernel's own.

use std::borrow::Cow;
use std::sync::Arc;

use bytemuck::Pod;
use rocfire_fusion::{EPILOGUE_TENSORS, Epilogue, EpiloguePlace};
use rocfire_hal::profile::Work;
use rocfire_hal::{Buffer, MAX_RANK, Source, Stream, View};

use crate::Result;
use crate::family;

/// Bytes of a kernel's own arguments and those of the longest epilogue.
const ARGS_MOST: usize = 2048;
/// Bytes of arguments that every driver takes.
const SHARED_ARGS_BYTES: usize = 4096;
/// Most launches that share one; more are rarely of one input.
const SHARED_MOST: usize = 8;

/// An epilogue and its tensors' strides, along axes as the kernel counts them.
#[derive(Clone, Copy)]
pub(crate) struct Tail<'a> {
    pub epilogue: &'a Epilogue<'a>,
    places: [EpiloguePlace; EPILOGUE_TENSORS],
    count: usize,
}

impl<'a> Tail<'a> {
    /// Axes are counted from the last of the result.
    pub(crate) fn new(epilogue: &'a Epilogue<'a>) -> Tail<'a> {
        let known = epilogue.places();
        let mut places = [EpiloguePlace { address: 0, strides: [0; MAX_RANK] }; EPILOGUE_TENSORS];
        places[..known.len()].copy_from_slice(known);
        Tail { epilogue, places, count: known.len() }
    }

    pub(crate) fn places(&self) -> &[EpiloguePlace] {
        &self.places[..self.count]
    }

    pub(crate) fn places_mut(&mut self) -> &mut [EpiloguePlace] {
        &mut self.places[..self.count]
    }

    /// The tail from index `by` of an axis on.
    pub(crate) fn from(mut self, axis: usize, by: usize) -> Tail<'a> {
        for place in self.places_mut() {
            place.address = place.address.wrapping_add_signed(place.strides[axis] * by as i64);
        }
        self
    }
}

/// A kernel's text behind that of an epilogue, or of none.
pub(crate) fn text(epilogue: &str, kernel: &'static str) -> Cow<'static, str> {
    if epilogue.is_empty() { Cow::Borrowed(kernel) } else { Cow::Owned([epilogue, kernel].concat()) }
}

/// Launches a kernel with its dynamic LDS, the epilogue's arguments behind `args`; allocates nothing.
///
/// # Safety
/// As [`family::launch`], where without an epilogue `written` is the only output.
#[allow(clippy::too_many_arguments)] // What a launch is made of.
pub(crate) unsafe fn launch<A: Pod>(
    stream: &Stream,
    source: &Source,
    kernel: (&'static str, &str),
    grid: [usize; 3],
    block: [usize; 3],
    lds_bytes: u32,
    args: &A,
    tail: Option<&Tail<'_>>,
    written: &Buffer,
    work: Work<'_>,
) -> Result<()> {
    // SAFETY: the caller's duties, passed on.
    unsafe { launch_shared(stream, source, kernel, grid, block, lds_bytes, args, tail, written, work, None) }
}

/// A launch that may wait for others of its kernel that read the same first operand: products of one input with several weights
/// come one after the other.
pub(crate) struct Shared<'a> {
    /// What the kernel reads besides the epilogue's inputs.
    pub reads: [View<'a>; 2],
    /// The source of the kernel for so many launches.
    pub several: &'a dyn Fn(usize) -> Arc<Source>,
}

/// How many launches of these arguments share one: as many as a struct takes, and no more than there are of one input.
fn capacity(args_bytes: usize) -> usize {
    let members = (SHARED_ARGS_BYTES - 8) / (args_bytes + 4);
    members.min(SHARED_MOST) & !1
}

/// The same for a launch that may wait for others.
///
/// # Safety
/// As [`launch`] and [`family::launch_shared`].
#[allow(clippy::too_many_arguments)] // What a launch is made of.
pub(crate) unsafe fn launch_shared<A: Pod>(
    stream: &Stream,
    source: &Source,
    kernel: (&'static str, &str),
    grid: [usize; 3],
    block: [usize; 3],
    lds_bytes: u32,
    args: &A,
    tail: Option<&Tail<'_>>,
    written: &Buffer,
    work: Work<'_>,
    shared: Option<&Shared<'_>>,
) -> Result<()> {
    let own = bytemuck::bytes_of(args);
    let mut bytes = [0; ARGS_MOST];
    bytes[..own.len()].copy_from_slice(own);
    let (mut used, mut count) = (own.len(), 1);
    let mut outputs = [written; EPILOGUE_TENSORS];
    if let Some(tail) = tail {
        used = tail.epilogue.push_args(tail.places(), &mut bytes, own.len());
        count = 0;
        for (to, from) in outputs.iter_mut().zip(tail.epilogue.written()) {
            *to = from;
            count += 1;
        }
    }
    let (bytes, outputs) = (&bytes[..used], &outputs[..count]);
    let Some(shared) = shared else {
        // SAFETY: the caller's duties, passed on; the epilogue names its outputs.
        return unsafe { family::launch_bytes(stream, source, kernel, grid, block, lds_bytes, bytes, outputs, work) };
    };
    let [a, b] = shared.reads;
    let mut reads = [a; EPILOGUE_TENSORS + 2];
    reads[1] = b;
    let inputs = tail.map_or(&[][..], |tail| tail.epilogue.inputs());
    reads[2..2 + inputs.len()].copy_from_slice(inputs);
    let capacity = capacity(used);
    let several = || (shared.several)(capacity);
    let sharing =
        family::Sharing { capacity, common: a.device_address(), several: &several, reads: &reads[..2 + inputs.len()] };
    let sharing = Some(&sharing);
    // SAFETY: the caller's duties, passed on; the epilogue names its outputs, and its inputs are among what is read.
    unsafe { family::launch_shared(stream, source, kernel, grid, block, lds_bytes, bytes, outputs, work, sharing) }
}
