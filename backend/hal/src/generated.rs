//! The launch of kernels whose text a generator made.
//!
//! A hand-written kernel and its launcher are two texts that must agree, so [`Stream::launch`] is unsafe and the launcher argues
//! for it. A generated kernel computes every address from the layouts that the generator was given, and the generator is code
//! that forbids unsafe: this is the one place that argues for all of its kernels.

use crate::{Buffer, Error, Function, Launch, Result, Stream, View};

impl Stream {
    /// Puts a generated kernel on the stream. Allocates nothing unless it fails.
    ///
    /// For generators whose kernels access only what the views in `reads` and the buffers in `launch.outputs` cover, by
    /// construction: `rocfire-fusion`'s, whose every offset is a sum of coordinate times stride over a view's own layout.
    /// Both are checked to be on this device. On an emulated device every access is checked as well.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for memory of another device; as [`Stream::launch`].
    pub fn launch_generated(&self, function: &Function, launch: &Launch<'_>, reads: &[View<'_>]) -> Result<()> {
        self.require_all_here(launch, reads)?;
        // SAFETY:
        // - The generator writes `args` from the same description that it renders the struct from, and `launch` compares
        //   the sizes; the addresses are those of views, each of which lies inside its buffer, and the buffers are
        //   borrowed until this returns.
        // - `outputs` is every buffer of the views that the kernel stores to.
        unsafe { self.launch(function, launch) }
    }

    pub(crate) fn require_all_here(&self, launch: &Launch<'_>, reads: &[View<'_>]) -> Result<()> {
        let written = launch.outputs.iter().map(|&buffer| ("output", buffer));
        let mut all = written.chain(reads.iter().map(|view| ("input", view.buffer())));
        all.try_for_each(|(arg, buffer)| self.require_here(launch.label, arg, buffer))
    }

    fn require_here(&self, op: &'static str, arg: &'static str, buffer: &Buffer) -> Result<()> {
        if std::ptr::eq(buffer.device().stream(), self) {
            return Ok(());
        }
        let (expected, got) = (self.device().id().to_string(), buffer.device().id().to_string());
        Err(Error::DeviceMismatch { op, arg, expected, got })
    }
}
