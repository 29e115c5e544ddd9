//! The order in which commands reach a driver that runs nothing.

use StreamName::{Compute, Transfer};

use crate::command::Recorded;
use crate::profile::Work;
use crate::staging::LARGE_BYTES;
use crate::{
    Config, DType, Device, DeviceId, Error, Function, JoinedKernel, Launch, Source, Stream, StreamName, Tensor,
};

/// A kernel of one address in and one out; `None` without a compiler, which the test says.
pub(crate) fn scale(device: &Device, test: &str) -> Option<Function> {
    let source = Source::new("scale", include_str!("../../tests/kernels/scale.hip"), &[]);
    match device.module(&source) {
        Err(error @ Error::NoCompiler { .. }) => {
            println!("skipped {test}: {error}");
            None
        }
        module => Some(module.unwrap().function("scale_f32").unwrap()),
    }
}

/// A launch that may wait for others of its label.
fn wait(stream: &Stream, function: &Function, label: &'static str, read: &Tensor, written: &Tensor) {
    let outputs = &[written.buffer()][..];
    let launch = Launch {
        label,
        grid: [1; 3],
        block: [256, 1, 1],
        lds_bytes: 0,
        args: &[0; 24],
        outputs,
        work: Work::default(),
    };
    let several = || unreachable!("no two are of one label");
    let joined = JoinedKernel { capacity: 4, common: 0, writes: &[], function: &several };
    // SAFETY: the driver runs nothing.
    unsafe { stream.launch_joinable(function, &launch, &[read.view()], &joined) }.unwrap();
}

/// What has reached the driver, in order, on either stream.
fn reached(stream: &Stream) -> Vec<(StreamName, &'static str)> {
    let log = &stream.lock().log;
    log.iter().map(Recorded::command).map(|command| (command.stream, command.label)).collect()
}

/// The labels alone.
fn launched(stream: &Stream) -> Vec<&'static str> {
    reached(stream).into_iter().map(|(_, label)| label).collect()
}

#[test]
fn only_what_must_come_before_goes_to_the_driver() {
    let device = Device::open(DeviceId::noop("gfx942").unwrap(), Config::default()).unwrap();
    let Some(function) = scale(&device, "only_what_must_come_before_goes_to_the_driver") else { return };
    let stream = device.stream();
    let [x, y, z, w, v] = std::array::from_fn(|_| Tensor::empty(&device, &[4], DType::F32).unwrap());
    wait(stream, &function, "y of x", &x, &y);
    wait(stream, &function, "w of z", &z, &w);
    assert!(launched(stream).is_empty(), "nothing needs either");
    wait(stream, &function, "v of y", &y, &v);
    assert_eq!(launched(stream), ["y of x"], "the one whose result is read");
    wait(stream, &function, "z of x", &x, &z);
    assert_eq!(launched(stream), ["y of x", "w of z"], "the one that reads what is overwritten");
    stream.fill(y.buffer(), 0, 0, 16).unwrap();
    let first = ["y of x", "w of z", "v of y", "fill"];
    assert_eq!(launched(stream), first, "the one that reads what is filled");
    stream.copy(w.buffer(), 0, v.buffer(), 0, 16).unwrap();
    assert_eq!(launched(stream)[first.len()..], ["copy on the device"], "what a copy touches has gone before");
    stream.synchronize().unwrap();
    assert_eq!(launched(stream)[first.len() + 1..], ["z of x"]);
}

#[test]
fn a_large_write_comes_after_what_uses_its_memory_and_before_what_will() {
    const TEST: &str = "a_large_write_comes_after_what_uses_its_memory_and_before_what_will";
    let device = Device::open(DeviceId::noop("gfx942").unwrap(), Config::default()).unwrap();
    let Some(function) = scale(&device, TEST) else { return };
    let stream = device.stream();
    let tensor = || Tensor::empty(&device, &[LARGE_BYTES / 4], DType::F32).unwrap();
    let [x, y, z] = [(); 3].map(|()| tensor());
    wait(stream, &function, "y of x", &x, &y);
    wait(stream, &function, "z of y", &y, &z);
    wait(stream, &function, "x of z", &z, &x);
    assert_eq!(launched(stream), ["y of x", "z of y"]);
    let bytes = vec![0; LARGE_BYTES];
    stream.copy_to_device(&bytes, y.buffer(), 0).unwrap();
    let written =
        [(Transfer, "copy to the device"), (Compute, "wait for another stream"), (Compute, "copy on the device")];
    assert_eq!(reached(stream)[2..], written, "what does not touch its memory waits on");
    stream.copy_to_device(&bytes[..4], x.buffer(), 0).unwrap();
    assert_eq!(reached(stream)[5..], [(Compute, "x of z"), (Compute, "copy to the device")]);
    wait(stream, &function, "z of x", &x, &z);
    stream.synchronize().unwrap();
    assert_eq!(reached(stream)[7..], [(Compute, "z of x")]);
}

#[test]
fn as_many_kernels_wait_as_there_is_room_for() {
    let device = Device::open(DeviceId::noop("gfx942").unwrap(), Config::default()).unwrap();
    let Some(function) = scale(&device, "as_many_kernels_wait_as_there_is_room_for") else { return };
    let stream = device.stream();
    let labels = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];
    assert_eq!(labels.len(), super::GROUPS_MOST + 1);
    let x = Tensor::empty(&device, &[4], DType::F32).unwrap();
    let results = labels.map(|_| Tensor::empty(&device, &[4], DType::F32).unwrap());
    for (label, y) in labels.into_iter().zip(&results) {
        wait(stream, &function, label, &x, y);
    }
    assert_eq!(launched(stream).len(), super::GROUPS_MOST, "the last one finds no room");
    assert_eq!(stream.launches() as usize, labels.len());
}
