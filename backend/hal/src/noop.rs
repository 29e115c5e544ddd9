//! The driver that runs nothing: launches are counted, memory is numbers.
//!
//! For measuring and testing what the host does: copies go through pinned memory and two streams as a GPU's do. Reads give zeros;
//! addresses begin where no other driver's do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rocfire_arch::Arch;

use crate::command::StreamName;
use crate::compile::KernelInfo;
use crate::driver::{
    DeviceInfo, Driver, DriverEvent, DriverKernel, DriverModule, LaunchFailure, LaunchGraph, RawLaunch,
};
use crate::host_device::{self, HostEvent};
use crate::{DriverKind, Error, Result};

/// The memory it says it has.
const MEMORY_BYTES: u64 = 64 << 30;
/// Where its addresses begin.
const FIRST_ADDRESS: u64 = 1 << 40;

pub struct Noop {
    info: DeviceInfo,
    next_address: AtomicU64,
    segments: Mutex<Vec<(u64, u64)>>,
    /// A library that tests give it.
    #[cfg(test)]
    pub gemm: Option<Box<dyn crate::vendor::VendorGemm>>,
}

impl Noop {
    pub fn new(arch: Arch) -> Noop {
        Noop {
            info: host_device::info(DriverKind::Noop, arch, MEMORY_BYTES),
            next_address: AtomicU64::new(FIRST_ADDRESS),
            segments: Mutex::new(Vec::new()),
            #[cfg(test)]
            gemm: None,
        }
    }

    fn taken_bytes(&self) -> u64 {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Driver for Noop {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory_bytes(&self) -> Option<u64> {
        Some(MEMORY_BYTES - self.taken_bytes())
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        let live_bytes = self.taken_bytes();
        if bytes > MEMORY_BYTES - live_bytes {
            let limit_bytes = MEMORY_BYTES;
            return Err(Error::OutOfMemory {
                requested_bytes: bytes,
                live_bytes,
                reserved_bytes: live_bytes,
                limit_bytes,
            });
        }
        let address = self.next_address.fetch_add(bytes.next_multiple_of(1 << 12), Ordering::Relaxed);
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).push((address, bytes));
        Ok(address)
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).retain(|(first, _)| *first != address);
        Ok(())
    }

    fn pin(&self, bytes: usize) -> Option<*mut u8> {
        Some(Box::into_raw(vec![0; bytes].into_boxed_slice()).cast())
    }

    unsafe fn unpin(&self, memory: *mut u8, bytes: usize) {
        // SAFETY: it came from `pin`, which made a box of so many bytes.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, bytes)) });
    }

    unsafe fn upload(&self, _stream: StreamName, _target: u64, _source: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn download(&self, target: &mut [u8], _source: u64) -> Result<()> {
        target.fill(0);
        Ok(())
    }

    unsafe fn copy(&self, _target: u64, _source: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn fill(&self, _address: u64, _value: u8, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn load(&self, _code: &[u8]) -> Result<Arc<dyn DriverModule>> {
        Ok(Arc::new(NoopModule))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    #[cfg(test)]
    fn vendor_gemm(&self) -> Result<&dyn crate::vendor::VendorGemm, &str> {
        self.gemm.as_deref().ok_or("no library was given")
    }

    fn replays(&self) -> bool {
        true
    }

    unsafe fn launch_graph(&self, _: &[(&dyn DriverKernel, RawLaunch<'_>)]) -> Result<Box<dyn LaunchGraph>> {
        Ok(Box::new(NoopLaunches))
    }

    fn record_event(&self, _: StreamName, _: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        Ok(Box::new(HostEvent::now()))
    }
}

struct NoopModule;

impl DriverModule for NoopModule {
    fn kernel(self: Arc<Self>, _info: &KernelInfo) -> Result<Box<dyn DriverKernel>> {
        Ok(Box::new(NoopKernel))
    }

    fn set_variable(&self, _name: &'static str, _value: &[u8]) -> Result<()> {
        Ok(())
    }
}

struct NoopLaunches;

impl LaunchGraph for NoopLaunches {
    fn set(&mut self, _number: usize, _launch: &RawLaunch<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn replay(&mut self) -> Result<()> {
        Ok(())
    }
}

struct NoopKernel;

impl DriverKernel for NoopKernel {
    unsafe fn launch(&self, _launch: &RawLaunch<'_>) -> Result<(), LaunchFailure> {
        Ok(())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
