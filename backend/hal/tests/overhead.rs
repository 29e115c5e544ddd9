//! What a launch costs the host, on the device that runs nothing: no heap allocation, and its time.
#![cfg(feature = "noop")]

use std::alloc::{GlobalAlloc, Layout as AllocLayout, System};
use std::cell::Cell;
use std::time::Instant;

use rocfire_hal::{Config, DType, Device, DeviceId, Error, Launch, Source, Tensor};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; the count is a plain thread-local number without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: AllocLayout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: AllocLayout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: AllocLayout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn a_cached_launch_allocates_nothing_and_a_tensor_only_its_handle() {
    let device = Device::open(DeviceId::noop("gfx942").unwrap(), Config::default()).unwrap();
    let source = Source::new("scale", include_str!("kernels/scale.hip"), &[]);
    match device.module(&source) {
        Ok(_) => {}
        Err(error @ Error::NoCompiler { .. }) => {
            println!("skipped a_cached_launch_allocates_nothing_and_a_tensor_only_its_handle: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let tensor = Tensor::empty(&device, &[1000], DType::F32).unwrap();
    let args = [0_u8; 24];
    let launch = || {
        // As an operator does: module, function and launch, each time by name.
        let function = device.module(&source).unwrap().function("scale_f32").unwrap();
        let outputs = [tensor.buffer()];
        let launch = Launch {
            label: "scale",
            grid: [4, 1, 1],
            block: [256, 1, 1],
            lds_bytes: 0,
            args: &args,
            outputs: &outputs,
        };
        // SAFETY: the device runs nothing.
        unsafe { device.stream().launch(&function, &launch).unwrap() };
    };
    launch();
    assert_eq!(allocations(|| (0..100).for_each(|_| launch())), 0);
    assert_eq!(device.launches(), 101);

    // A block of the pool that was had before costs nothing; the handle is one allocation.
    drop(Tensor::empty(&device, &[64, 64], DType::F32).unwrap());
    assert_eq!(allocations(|| drop(Tensor::empty(&device, &[64, 64], DType::F32).unwrap())), 1);
    assert_eq!(allocations(|| drop(tensor.clone())), 0);

    const LAUNCHES: u32 = 100_000;
    let begun = Instant::now();
    (0..LAUNCHES).for_each(|_| launch());
    println!("host time of a cached launch: {:.0} ns", begun.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES));
}
