//! Epilogues behind kernels: where an epilogue's tensors lie for the kernel that it ends, and its arguments behind the kernel's own.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Pod;
use rocfire_fusion::{EPILOGUE_TENSORS, Epilogue, EpilogueTensor};
use rocfire_hal::{Buffer, MAX_RANK, Source, View};

use crate::Result;
use crate::family::{KernelLaunch, Sharing};

/// Bytes of a kernel's own arguments and those of the longest epilogue.
const ARGS_MOST: usize = 2048;
/// Bytes of arguments that every driver takes.
const SHARED_ARGS_BYTES: usize = 4096;
/// Most launches that share one; more are rarely of one input.
const SHARED_MOST: usize = 8;

/// An epilogue with its tensors' strides along the axes that a kernel counts, from the last of the result unless said otherwise.
#[derive(Clone, Copy)]
pub(crate) struct BoundEpilogue<'a> {
    epilogue: &'a Epilogue<'a>,
    tensors: [EpilogueTensor; EPILOGUE_TENSORS],
}

impl<'a> Deref for BoundEpilogue<'a> {
    type Target = Epilogue<'a>;

    fn deref(&self) -> &Epilogue<'a> {
        self.epilogue
    }
}

impl<'a> BoundEpilogue<'a> {
    pub(crate) fn new(epilogue: &'a Epilogue<'a>) -> BoundEpilogue<'a> {
        let known = epilogue.tensors();
        let mut tensors = [EpilogueTensor { address: 0, strides: [0; MAX_RANK] }; EPILOGUE_TENSORS];
        tensors[..known.len()].copy_from_slice(known);
        BoundEpilogue { epilogue, tensors }
    }

    pub(crate) fn tensors(&self) -> &[EpilogueTensor] {
        &self.tensors[..self.epilogue.tensors().len()]
    }

    pub(crate) fn tensors_mut(&mut self) -> &mut [EpilogueTensor] {
        &mut self.tensors[..self.epilogue.tensors().len()]
    }

    /// The epilogue from index `by` of an axis on.
    pub(crate) fn from(mut self, axis: usize, by: usize) -> BoundEpilogue<'a> {
        for tensor in self.tensors_mut() {
            tensor.address = tensor.address.wrapping_add_signed(tensor.strides[axis] * by as i64);
        }
        self
    }
}

/// The hash and the text of an epilogue, or of none: what a table of sources and a source take.
pub(crate) fn hash_and_text<'a>(epilogue: Option<&'a BoundEpilogue<'_>>) -> (u128, &'a str) {
    epilogue.map_or((0, ""), |epilogue| (epilogue.hash(), epilogue.text()))
}

/// A kernel's text behind that of an epilogue, or of none.
pub(crate) fn in_front(epilogue: &str, kernel: &'static str) -> Cow<'static, str> {
    if epilogue.is_empty() { Cow::Borrowed(kernel) } else { Cow::Owned([epilogue, kernel].concat()) }
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

impl KernelLaunch<'_> {
    /// Launches a kernel with the epilogue's arguments behind `args`; allocates nothing. `shared`: with which launches it may wait.
    ///
    /// # Safety
    /// As [`KernelLaunch::run_shared`], where without an epilogue `written` is the only output.
    pub(crate) unsafe fn run_with_epilogue<A: Pod>(
        &self,
        args: &A,
        epilogue: Option<&BoundEpilogue<'_>>,
        written: &Buffer,
        shared: Option<&Shared<'_>>,
    ) -> Result<()> {
        let own = bytemuck::bytes_of(args);
        let mut bytes = [0; ARGS_MOST];
        bytes[..own.len()].copy_from_slice(own);
        let (mut used, mut count) = (own.len(), 1);
        let mut outputs = [written; EPILOGUE_TENSORS];
        if let Some(epilogue) = epilogue {
            used = epilogue.push_args(epilogue.tensors(), &mut bytes, own.len());
            count = 0;
            for (to, from) in outputs.iter_mut().zip(epilogue.written()) {
                *to = from;
                count += 1;
            }
        }
        let (bytes, outputs) = (&bytes[..used], &outputs[..count]);
        let Some(shared) = shared else {
            // SAFETY: the caller's duties, passed on; the epilogue names its outputs.
            return unsafe { self.run_bytes(bytes, outputs) };
        };
        let [a, b] = shared.reads;
        let mut reads = [a; EPILOGUE_TENSORS + 2];
        reads[1] = b;
        let inputs = epilogue.map_or(&[][..], |epilogue| epilogue.inputs());
        reads[2..2 + inputs.len()].copy_from_slice(inputs);
        let capacity = capacity(used);
        let several = || (shared.several)(capacity);
        let sharing =
            Sharing { capacity, common: a.device_address(), several: &several, reads: &reads[..2 + inputs.len()] };
        // SAFETY: the caller's duties, passed on; the epilogue names its outputs, and its inputs are among what is read.
        unsafe { self.run_shared(bytes, outputs, Some(&sharing)) }
    }
}
