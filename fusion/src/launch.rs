//! Launches kernels of this crate. This is the crate's only unsafe code.
//!
//! A kernel that somebody wrote and its launcher are two texts that must agree, so `rocfire-hal` asks each launcher to argue that its
//! launch is safe. Here kernel and launch come from one description, so one argument holds for all of them.

use rocfire_hal::{Function, JoinedKernel, Launch, Result, Stream, View};

/// Launches a rendered kernel, or lets the launch wait for others of the same kernel. `reads` is every view that the kernel reads.
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
