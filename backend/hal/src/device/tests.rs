use super::*;
use crate::{Buffer, DType, Layout, Precision, Tensor, View};

#[cfg(feature = "noop")]
fn noop(config: Config) -> Device {
    Device::open(DeviceId::noop("gfx942").unwrap(), config).unwrap()
}

#[test]
fn names_of_virtual_devices_are_checked() {
    assert!(DeviceId::emulated("gfx940").unwrap_err().to_string().contains("gfx942"));
    assert!(matches!(DeviceId::noop("sm_90"), Err(Error::Arch(_))));
    assert_eq!(DeviceId::emulated("gfx942:sramecc+:xnack-").unwrap(), DeviceId::emulated("gfx942").unwrap());
}

#[cfg(feature = "noop")]
#[test]
fn the_registry_gives_one_device_per_name() {
    let id = DeviceId::noop("gfx1101").unwrap();
    let (one, two) = (Device::get(id).unwrap(), Device::get(id).unwrap());
    assert_eq!(one, two);
    assert_ne!(one, Device::open(id, Config::default()).unwrap());
    assert_eq!(one.stream().device(), one);
}

#[cfg(feature = "noop")]
#[test]
fn determinism_is_as_set_else_by_driver() {
    assert!(!noop(Config::default()).deterministic());
    assert!(noop(Config::default().with_deterministic(true)).deterministic());
    assert_eq!(noop(Config::default().with_precision(Precision::F16)).config().precision, Precision::F16);
}

#[cfg(feature = "noop")]
#[test]
fn views_outside_their_buffer_are_refused() {
    let device = noop(Config::default());
    let buffer = Buffer::new(&device, 40).unwrap();
    let view = |layout: Layout| View::new(&buffer, layout, DType::F32);
    assert!(view(Layout::contiguous(&[10]).unwrap()).is_ok());
    let message = view(Layout::contiguous(&[11]).unwrap()).unwrap_err().to_string();
    assert_eq!(message, "view of [11] f32 at elements 0..11 is not inside its buffer of 40 bytes");
    assert!(view(Layout::strided(&[2], &[-1], 0).unwrap()).is_err());
    assert!(view(Layout::strided(&[2], &[-1], 1).unwrap()).is_ok());
    assert!(view(Layout::strided(&[2], &[i64::MAX / 2], 0).unwrap()).is_err());
    assert!(view(Layout::strided(&[0], &[1], 1000).unwrap()).is_ok(), "no elements are inside anything");
    let tensor = Tensor::empty(&device, &[2, 5], DType::F32).unwrap();
    assert!(tensor.with_layout(Layout::contiguous(&[3, 5]).unwrap()).is_err());
    let sliced = tensor.with_layout(tensor.layout().slice(0, 1, 2, 1).unwrap()).unwrap();
    assert_eq!(sliced.view().device_address(), tensor.view().device_address() + 20);
    assert!(!tensor.is_unique());
}

#[cfg(feature = "noop")]
#[test]
fn tensors_have_the_bytes_their_shape_says() {
    let device = noop(Config::default());
    let message = Tensor::from_bytes(&device, &[3], DType::F16, &[0; 5]).unwrap_err().to_string();
    assert_eq!(message, "from_bytes: bytes must be 6 long for [3] f16, got 5");
    let tensor = Tensor::from_bytes(&device, &[2, 3], DType::F16, &[1; 12]).unwrap();
    assert_eq!(tensor.to_bytes().unwrap().len(), 12);
    let across = tensor.with_layout(tensor.layout().swap(0, 1).unwrap()).unwrap();
    assert!(across.to_bytes().unwrap_err().to_string().starts_with("to_bytes: layout must be contiguous"));
    let empty = Tensor::from_bytes(&device, &[4, 0], DType::F64, &[]).unwrap();
    assert_eq!((empty.to_bytes().unwrap().len(), empty.buffer().device_address()), (0, 0));
}

#[cfg(feature = "noop")]
#[test]
fn copies_are_checked_against_their_buffers() {
    let device = noop(Config::default());
    let (a, b) = (Buffer::new(&device, 16).unwrap(), Buffer::new(&device, 8).unwrap());
    let stream = device.stream();
    assert!(stream.copy(&a, 8, &b, 0, 8).is_ok());
    assert!(stream.copy(&a, 9, &b, 0, 8).unwrap_err().to_string().starts_with("copy: source"));
    assert!(stream.copy(&a, 0, &b, 1, 8).unwrap_err().to_string().starts_with("copy: target"));
    assert!(stream.copy(&a, 0, &a, 4, 8).unwrap_err().to_string().contains("apart from the source"));
    assert!(stream.copy(&a, 0, &a, 8, 8).is_ok());
    assert!(stream.fill(&b, u64::MAX, 0, 2).is_err());
    assert!(stream.copy_to_host(&b, 0, &mut [0; 9]).is_err());
    let other = noop(Config::default());
    assert!(matches!(other.stream().fill(&b, 0, 0, 8), Err(Error::DeviceMismatch { .. })));
}

#[cfg(feature = "noop")]
#[test]
fn out_of_memory_leaves_the_device_usable_and_memory_is_counted() {
    let device = noop(Config::default().with_pool_mb(4));
    assert!(matches!(Buffer::new(&device, 5 << 20), Err(Error::OutOfMemory { .. })));
    let buffer = Buffer::new(&device, 3 << 20).unwrap();
    assert_eq!(device.memory().live_bytes, 3 << 20);
    drop(buffer);
    assert_eq!((device.memory().live_bytes, device.memory().peak_bytes), (0, 3 << 20));
    device.trim_memory().unwrap();
    assert_eq!(device.memory().reserved_bytes, 0);
}

/// Launches that wait hold memory, and the stream that they wait on is the device's own.
#[cfg(feature = "noop")]
#[test]
fn a_device_goes_although_launches_wait_on_it() {
    let device = noop(Config::default());
    let source = Source::new("scale", include_str!("../../tests/kernels/scale.hip"), &[]);
    let function = match device.module(&source) {
        Err(error @ Error::NoCompiler { .. }) => {
            println!("skipped a_device_goes_although_launches_wait_on_it: {error}");
            return;
        }
        module => module.unwrap().function("scale_f32").unwrap(),
    };
    let tensor = || Tensor::empty(&device, &[100], DType::F32).unwrap();
    let (x, y) = (tensor(), tensor());
    let launch = crate::Launch {
        label: "scale",
        grid: [1; 3],
        block: [256, 1, 1],
        lds_bytes: 0,
        args: &[0; 24],
        outputs: &[y.buffer()],
        work: crate::profile::Work::default(),
    };
    let several = || unreachable!("no second launch joins it");
    let joined = crate::JoinedKernel { capacity: 4, common: 0, writes: &[], function: &several };
    // SAFETY: the driver runs nothing.
    unsafe { device.stream().launch_joinable(&function, &launch, &[x.view()], &joined) }.unwrap();
    assert!(y.is_unique(), "what waits is not counted");
    let (weak, pool) = (Arc::downgrade(&device.0), Arc::downgrade(&device.pool()));
    drop((x, y));
    assert_eq!(pool.upgrade().unwrap().lock().unwrap().stats().live_blocks, 2, "the launch still needs them");
    drop((device, function));
    assert!(weak.upgrade().is_none() && pool.upgrade().is_none());
}

#[cfg(feature = "noop")]
#[test]
fn a_device_goes_although_a_graph_is_being_recorded() {
    let device = noop(Config::default());
    device.begin_capture().unwrap();
    let weak = Arc::downgrade(&device.0);
    drop(device);
    assert!(weak.upgrade().is_none());
}

#[cfg(all(feature = "noop", feature = "emulated"))]
#[test]
fn copies_between_devices_go_through_the_host_where_drivers_differ() {
    let open = |name: &str| Device::open(DeviceId::emulated(name).unwrap(), Config::default()).unwrap();
    let (one, other) = (open("gfx942"), open("gfx1100"));
    let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n * 7) as u8).collect();
    let source = Tensor::from_bytes(&one, &[20_000], DType::U8, &bytes).unwrap();
    let moved = source.to_device(&other).unwrap();
    assert_eq!(moved.device(), &other);
    assert!(moved.to_bytes().unwrap() == bytes);
    // Only what a view shows.
    let part = source.with_layout(source.layout().slice(0, 100, 300, 1).unwrap()).unwrap();
    assert_eq!(part.to_device(&other).unwrap().to_bytes().unwrap(), bytes[100..300]);
    let across = source.with_layout(source.layout().slice(0, 0, 300, 2).unwrap()).unwrap();
    assert!(across.to_device(&other).unwrap_err().to_string().contains("contiguous"));
    let empty = Tensor::empty(&one, &[0, 3], DType::F32).unwrap().to_device(&other).unwrap();
    assert_eq!((empty.shape(), empty.device()), (&[0, 3][..], &other));
    // A device that runs nothing reads zeros.
    assert_eq!(
        Tensor::empty(&noop(Config::default()), &[4], DType::U8).unwrap().to_device(&one).unwrap().to_bytes().unwrap(),
        [0; 4]
    );
    // Reads of tensors of several devices come in their order.
    let read = Tensor::read_all(&[&part, &moved, &source]).unwrap();
    assert!(read == [bytes[100..300].to_vec(), bytes.clone(), bytes]);
    one.begin_capture().unwrap();
    assert!(matches!(source.to_device(&other), Err(Error::Capture { .. })));
    assert!(one.end_capture().is_err());
}

/// What one thread does is not lost in what others do.
#[cfg(feature = "emulated")]
#[test]
fn many_threads_use_one_device() {
    let device = Device::open(DeviceId::emulated("gfx942").unwrap(), Config::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let value = thread.wrapping_mul(31).wrapping_add(round);
                    let size = 1 + usize::from(round) * 97;
                    let tensor = Tensor::from_bytes(device, &[size], DType::U8, &vec![value; size]).unwrap();
                    let copy = Tensor::empty(device, &[size], DType::U8).unwrap();
                    device.stream().copy(tensor.buffer(), 0, copy.buffer(), 0, size as u64).unwrap();
                    drop(tensor);
                    assert_eq!(copy.to_bytes().unwrap(), vec![value; size]);
                }
            });
        }
    });
    assert_eq!(device.memory().live_blocks, 0);
}
