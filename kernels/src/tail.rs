//! A kernel's end: where an epilogue's tensors lie for the kernel that it ends, and its arguments behind the kernel's own.

use std::borrow::Cow;

use bytemuck::Pod;
use rocfire_fusion::{EPILOGUE_TENSORS, Epilogue, EpiloguePlace};
use rocfire_hal::profile::Work;
use rocfire_hal::{Buffer, MAX_RANK, Source, Stream};

use crate::Result;
use crate::family;

/// Bytes of a kernel's own arguments and those of the longest epilogue.
const ARGS_MOST: usize = 2048;

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
    let own = bytemuck::bytes_of(args);
    let Some(tail) = tail else {
        // SAFETY: the caller's duties, passed on.
        return unsafe { family::launch_bytes(stream, source, kernel, grid, block, lds_bytes, own, &[written], work) };
    };
    let mut bytes = [0; ARGS_MOST];
    bytes[..own.len()].copy_from_slice(own);
    let used = tail.epilogue.push_args(tail.places(), &mut bytes, own.len());
    let mut outputs = [written; EPILOGUE_TENSORS];
    let mut count = 0;
    for (to, from) in outputs.iter_mut().zip(tail.epilogue.written()) {
        *to = from;
        count += 1;
    }
    // SAFETY: the caller's duties, passed on; the epilogue names its outputs.
    unsafe {
        family::launch_bytes(stream, source, kernel, grid, block, lds_bytes, &bytes[..used], &outputs[..count], work)
    }
}
