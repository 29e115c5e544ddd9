//! What a process tells of its devices. A process listens once, in the folder of its first device: so there is one test.
#![cfg(all(unix, feature = "emulated"))]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rocfire_hal::profile::Category;
use rocfire_hal::watch::{Process, processes};
use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};

fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("watch")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_process_tells_what_its_devices_do_while_they_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let id = DeviceId::emulated("gfx1030").unwrap();
    let config = || Config::default().with_cache_dir(folder.path().to_owned()).with_pool_mb(64);
    let quiet = Device::open(id, config().with_watch(false)).unwrap();
    let unkept = Device::open(id, config().with_cache_mb(0)).unwrap();
    let nothing = Device::open(DeviceId::noop("gfx1030").unwrap(), config()).unwrap();
    assert_eq!(sockets(folder.path()), [] as [PathBuf; 0], "who is not to be watched has no socket");
    // One that a process with a number that is free now has left.
    std::fs::create_dir(folder.path().join("watch")).unwrap();
    let left = folder.path().join("watch/4294967295-0.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());

    let device = Device::open(id, config()).unwrap();
    assert!(!left.exists() && sockets(folder.path()).len() == 1, "what was left is removed");
    let ask = || -> Process { processes(folder.path()).into_iter().next().expect("this process answers") };
    let before = ask();
    assert_eq!((before.pid, before.devices.len()), (std::process::id(), 1), "{before:?}");
    assert!(before.program.starts_with("watch"), "{before:?}");
    let tensor = Tensor::from_bytes(&device, &[256], DType::F32, &[1; 1024]).unwrap();
    let copy = Tensor::empty(&device, &[256], DType::F32).unwrap();
    device.stream().copy(tensor.buffer(), 0, copy.buffer(), 0, 1024).unwrap();
    let after = ask();
    let told = &after.devices[0];
    assert_eq!(told.id, "emulated:gfx1030");
    assert_eq!((told.memory, told.memory_bytes), (device.memory(), 64 << 20));
    assert_eq!(told.launches.iter().sum::<u64>(), device.launches());
    // The copy was timed, since somebody had asked.
    assert!(told.sampled_us[Category::Other as usize] > 0.0, "{told:?}");

    // Who goes away before the answer does no harm, and any number may ask.
    for _ in 0..8 {
        drop(UnixStream::connect(&sockets(folder.path())[0]).unwrap());
    }
    let second = Device::open(id, config()).unwrap();
    assert_eq!(ask().devices.len(), 2, "the same socket tells of both");
    assert_eq!(sockets(folder.path()).len(), 1);
    drop((tensor, copy, device, second));
    assert_eq!(ask().devices, [], "a device that was closed is not told of");
    drop((quiet, unkept, nothing));
}
