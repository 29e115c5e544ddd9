//! Launches that read memory before the launch ahead of them has ended, as `cuda/dependent.rs` says.
//!
//! By the time that such a launch begins, all that came before the launch ahead has ended: every kernel waits for what is ahead of it
//! before it lets others begin. So what is read must not be what the launch ahead itself writes. That is looked at when a
//! launch takes its place in the stream's order; where it is so, or something else than a kernel is ahead, the launch begins when all ahead
//! of it has ended, as launches do elsewhere.

use super::{Launch, Stream};
use crate::command::{Action, Command};
use crate::{Buffer, Function, Result};

/// What the newest command of a stream is, for the launch that comes behind it.
#[derive(Default)]
pub(crate) struct Ahead {
    is_kernel: bool,
    /// What it writes: addresses and bytes.
    written: Vec<(u64, u64)>,
}

impl Ahead {
    /// Takes down that a command takes its place. Whether it must not begin before what is ahead has ended.
    pub fn put(&mut self, command: &Command<'_>, written: impl Iterator<Item = (u64, u64)>) -> bool {
        let overlap = |(address, bytes): (u64, u64)| {
            self.written.iter().any(|&(other, more)| address < other + more && other < address + bytes)
        };
        let begins_late = command.early.is_some_and(|early| !self.is_kernel || overlap(early));
        self.forget();
        if matches!(command.action, Action::Kernel { .. }) {
            self.is_kernel = true;
            self.written.extend(written);
        }
        begins_late
    }

    /// Something else comes next, or nothing is known of what did.
    pub fn forget(&mut self) {
        self.is_kernel = false;
        self.written.clear();
    }
}

impl Stream {
    /// As [`Stream::launch`], of a kernel that reads a buffer before it waits for the launch ahead.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    ///
    /// # Safety
    /// - As [`Stream::launch`]; all that the kernel accesses before it waits is in `early`, from where it reads by way of L2 alone.
    pub unsafe fn launch_reading_early(&self, function: &Function, launch: &Launch<'_>, early: &Buffer) -> Result<()> {
        let command =
            Command { early: Some((early.device_address(), early.bytes())), ..Command::kernel(function, launch) };
        // SAFETY: the caller's duties, passed on.
        unsafe { self.launch_command(function, launch, &command) }
    }
}

#[cfg(all(test, feature = "noop"))]
mod tests {
    use crate::profile::Work;
    use crate::{Config, DType, Device, DeviceId, Function, Launch, Tensor};

    use crate::queue::tests::scale;

    fn launch(function: &Function, written: &Tensor, early: Option<&Tensor>) {
        let (outputs, stream) = ([written.buffer()], written.device());
        let launch = Launch {
            label: "scale",
            grid: [1; 3],
            block: [256, 1, 1],
            lds_bytes: 0,
            args: &[0; 24],
            outputs: &outputs,
            work: Work::default(),
        };
        // SAFETY: the driver runs nothing.
        unsafe {
            match early {
                Some(early) => stream.stream().launch_reading_early(function, &launch, early.buffer()),
                None => stream.stream().launch(function, &launch),
            }
        }
        .unwrap();
    }

    /// Of all that has reached the driver, what began late.
    fn late(device: &Device) -> Vec<bool> {
        device.stream().synchronize().unwrap();
        device.stream().lock().log.iter().map(|recorded| recorded.command().begins_late).collect()
    }

    #[test]
    fn only_behind_a_kernel_that_writes_something_else_does_a_launch_begin_early() {
        let device = Device::open(DeviceId::noop("gfx942").unwrap(), Config::default()).unwrap();
        let Some(function) = scale(&device, "only_behind_a_kernel") else { return };
        let [w, x, y] = std::array::from_fn(|_| Tensor::empty(&device, &[4], DType::F32).unwrap());
        launch(&function, &x, Some(&w));
        launch(&function, &w, Some(&y));
        launch(&function, &x, Some(&w));
        launch(&function, &y, Some(&w));
        device.stream().fill(x.buffer(), 0, 0, 16).unwrap();
        launch(&function, &x, Some(&w));
        launch(&function, &w, None);
        device.stream().fill(y.buffer(), 0, 0, 16).unwrap();
        launch(&function, &x, None);
        let expected = [
            true,  // nothing is known to be ahead
            false, // another is written
            true,  // its own is written
            false, // it was written by one before the one ahead
            false, // the fill
            true,  // behind the fill
            false, // reads nothing early
            false, // the fill
            false, // reads nothing early
        ];
        assert_eq!(late(&device), expected);
    }

    #[test]
    fn a_recording_begins_with_nothing_ahead_and_so_does_what_comes_behind_it() {
        let device = Device::open(DeviceId::noop("gfx942").unwrap(), Config::default()).unwrap();
        let Some(function) = scale(&device, "a_recording_begins_with_nothing_ahead") else { return };
        let [w, x, y] = std::array::from_fn(|_| Tensor::empty(&device, &[4], DType::F32).unwrap());
        launch(&function, &x, None);
        device.begin_capture().unwrap();
        launch(&function, &x, Some(&w));
        launch(&function, &y, Some(&w));
        let (recorded, _) = device.stream().end_capture().unwrap();
        let of_graph: Vec<bool> = recorded.commands.iter().map(|of| of.command().begins_late).collect();
        assert_eq!(of_graph, [true, false]);
        launch(&function, &x, Some(&w));
        // SAFETY: the driver runs nothing.
        unsafe { device.stream().run_commands(&recorded.commands) }.unwrap();
        launch(&function, &y, Some(&w));
        let late = late(&device);
        assert_eq!(late[late.len() - 2..], [true, true]);
    }
}
