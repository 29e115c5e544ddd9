//! Kernels of this crate on a stream: the one place of it that is unsafe.
//!
//! A kernel that somebody wrote and its launcher are two texts that must agree, so `rocfire-hal` leaves it to each launcher to argue
//! for its launch. Here both come from one description, and this argues for all of them.

use rocfire_hal::{Function, JoinedKernel, Launch, Result, Stream, View};

/// Puts a rendered kernel on the stream, or lets it wait for others of its kind. `reads` is every view that the kernel reads.
///
/// # Errors
/// As [`Stream::launch_joinable`].
#[allow(unsafe_code, reason = "a launch is the caller's to argue for")]
pub(crate) fn launch(
    stream: &Stream,
    function: &Function,
    launch: &Launch<'_>,
    reads: &[View<'_>],
    joined: &JoinedKernel<'_>,
) -> Result<()> {
    // SAFETY:
    // - The argument block is written from the same description that its struct is rendered from, and the stream compares the
    //   sizes; so is the kernel for several of them.
    // - Every offset that the kernel computes is a sum of coordinate times stride over a view's own layout, which lies inside
    //   its buffer, and an index that it looks up is compared with the axis first. The buffers are borrowed until this returns.
    // - `launch.outputs` is every buffer of the views that the kernel stores to, `reads` every view that it reads; the stream
    //   compares their device with its own.
    unsafe { stream.launch_joinable(function, launch, reads, joined) }
}
