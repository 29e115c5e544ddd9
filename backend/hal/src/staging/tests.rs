//! What writes become on which stream, in which order, on a driver that runs nothing. The copies' bytes are judged by `gpu/tests.rs`.

use std::cell::OnceCell;

use super::*;
use crate::command::{Action, Recorded};
use crate::profile::TimedLaunch;
use crate::{Buffer, Config, Device, DeviceId, Stream};

fn noop() -> Device {
    Device::open(DeviceId::noop("gfx942").unwrap(), Config::default()).unwrap()
}

/// What has reached the driver since the last time: addresses by where they are, the ring's by their distance from the first; all
/// in KiB.
fn taken(stream: &Stream, buffer: &Buffer) -> Vec<String> {
    let memory = buffer.device_address()..buffer.device_address() + buffer.bytes();
    let ring = OnceCell::new();
    let place = |address: u64| match memory.contains(&address) {
        true => format!("memory+{}", (address - memory.start) >> 10),
        false => format!("ring+{}", (address - ring.get_or_init(|| address)) >> 10),
    };
    let told = |recorded: Recorded| {
        let command = recorded.command();
        let what = match command.action {
            Action::Upload { target, source } => format!("{} from the host, {}", place(target), source.len() >> 10),
            Action::Copy { target, source, bytes } => {
                format!("{} from {}, {}", place(target), place(source), bytes >> 10)
            }
            Action::Wait { other } => format!("waits for {other:?}"),
            Action::Kernel { .. } | Action::Product { .. } | Action::Fill { .. } => command.label.to_owned(),
        };
        format!("{:?}: {what}", command.stream)
    };
    std::mem::take(&mut stream.lock().log).into_iter().map(told).collect()
}

#[test]
fn large_writes_go_beside_the_computations_and_all_else_with_them_in_order() {
    let device = noop();
    let (stream, buffer) = (device.stream(), Buffer::new(&device, 6 << 20).unwrap());
    let mut host = vec![0; 5 << 20];
    stream.copy_to_device(&host[..LARGE_BYTES - 1024], &buffer, 0).unwrap();
    assert_eq!(taken(stream, &buffer), ["Compute: memory+0 from the host, 1023"]);
    stream.copy_to_device(&host, &buffer, 1 << 20).unwrap();
    let expected = [
        "Transfer: ring+0 from the host, 4096",
        "Compute: waits for Transfer",
        "Compute: memory+1024 from ring+0, 4096",
        "Transfer: ring+4096 from the host, 1024",
        "Compute: waits for Transfer",
        "Compute: memory+5120 from ring+4096, 1024",
    ];
    assert_eq!(taken(stream, &buffer), expected);
    stream.copy_to_host(&buffer, 0, &mut host).unwrap();
    assert!(taken(stream, &buffer).is_empty(), "a read is waited for, and no command");
}

#[test]
fn a_profile_tells_the_streams_apart() {
    let device = noop();
    let buffer = Buffer::new(&device, LARGE_BYTES as u64).unwrap();
    device.start_profile().unwrap();
    device.stream().copy_to_device(&vec![0; LARGE_BYTES], &buffer, 0).unwrap();
    let timeline = device.take_profile().unwrap().unwrap();
    let told = |launch: &TimedLaunch| (launch.operator.clone(), launch.stream, launch.bytes);
    let expected = [
        ("copy to the device", Transfer, LARGE_BYTES as u64),
        ("wait for another stream", Compute, 0),
        ("copy on the device", Compute, LARGE_BYTES as u64),
    ];
    assert_eq!(
        timeline.launches.iter().map(told).collect::<Vec<_>>(),
        expected.map(|(operator, stream, bytes)| (operator.to_owned(), stream, bytes))
    );
}
