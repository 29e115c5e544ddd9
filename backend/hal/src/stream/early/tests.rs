//! Which launches begin before what is ahead of them has ended, over a driver that runs nothing.

use crate::profile::Work;
use crate::queue::tests::scale;
use crate::{Config, DType, Device, DeviceId, Function, Launch, Tensor};

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
