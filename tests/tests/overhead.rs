//! What a launch costs the host, on the device that runs nothing: no heap allocation besides handles of tensors.

use std::alloc::{GlobalAlloc, Layout as AllocLayout, System};
use std::cell::Cell;

use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};
use rocfire_tests::case;

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
static COUNTING_ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

fn device() -> Device {
    Device::open(DeviceId::noop(rocfire_arch::DEFAULT_EMULATED).unwrap(), Config::from_env().unwrap()).unwrap()
}

/// Operators whose launcher reads a count back before it knows its output's shape, and waits for it: on a device that runs
/// nothing the count is 0, and they refuse the output.
const COUNTING: [&str; 2] = ["mask_select", "argwhere"];

/// Operators of a list of caches, which a program makes once and the case at every launch; what a launch writes is a list of the
/// caches' memory, as long as that.
const LISTING: [&str; 1] = ["cache_copy"];

/// Every launcher, in every case that the operators are judged by: what it needs besides its outputs, partial sums and
/// copies of layouts that it cannot read, is a block of the pool and its handle, and nothing else.
#[test]
fn a_launch_whose_kernels_are_known_allocates_only_handles() {
    let device = device();
    let mut wrong = Vec::new();
    let cases = case::all();
    for case in &cases {
        if COUNTING.contains(&case.operator) || LISTING.contains(&case.operator) {
            continue;
        }
        let mut run = case.prepare(&device).unwrap();
        run.launch().unwrap();
        let (blocks, launches) = (device.memory().blocks, device.launches());
        let heap = allocations(|| run.launch().unwrap());
        let blocks = device.memory().blocks - blocks;
        if heap > blocks {
            let launches = device.launches() - launches;
            wrong.push(format!("{}: {heap} allocations for {blocks} blocks, {launches} launches", case.name()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn a_tensor_allocates_only_its_handle() {
    let device = device();
    // A block of the pool that was had before costs nothing; the handle is one allocation.
    drop(Tensor::empty(&device, &[64, 64], DType::F32).unwrap());
    assert_eq!(allocations(|| drop(Tensor::empty(&device, &[64, 64], DType::F32).unwrap())), 1);
    let tensor = Tensor::empty(&device, &[64, 64], DType::F32).unwrap();
    assert_eq!(allocations(|| drop(tensor.clone())), 0);
}
