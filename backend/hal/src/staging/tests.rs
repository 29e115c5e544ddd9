//! What the rings put on which stream, in which order, over a engine that notes it. The copies' bytes are judged by `gpu/tests.rs`.

use std::sync::Mutex;

use super::*;
use crate::host_device::HostEvent;

/// What a engine was asked for; addresses by where they are, bytes in KiB.
#[derive(Default)]
struct Noting(Mutex<Vec<String>>);

/// Where the second ring begins.
const DEVICE: u64 = 1 << 40;

impl Noting {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn place(address: u64) -> String {
    if address >= DEVICE { format!("ring+{}", (address - DEVICE) >> 10) } else { format!("memory+{}", address >> 10) }
}

impl CopyEngine for Noting {
    fn pin(&self, bytes: usize) -> Result<*mut u8> {
        Ok(Box::leak(vec![0; bytes].into_boxed_slice()).as_mut_ptr())
    }

    unsafe fn unpin(&self, memory: *mut u8) -> Result<()> {
        // SAFETY: it came from `pin`, of that many bytes.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, RING_BYTES)) });
        Ok(())
    }

    fn reserve(&self, bytes: usize) -> Result<u64> {
        assert_eq!(bytes, RING_BYTES);
        self.note("reserve".to_owned());
        Ok(DEVICE)
    }

    unsafe fn release(&self, address: u64) -> Result<()> {
        assert_eq!(address, DEVICE);
        self.note("release".to_owned());
        Ok(())
    }

    fn order(&self, first: StreamName, second: StreamName) -> Result<()> {
        self.note(format!("{second:?} waits for {first:?}"));
        Ok(())
    }

    unsafe fn move_on_device(&self, target: u64, source: u64, bytes: usize) -> Result<()> {
        self.note(format!("Compute: {} from {}, {}", place(target), place(source), bytes >> 10));
        Ok(())
    }

    unsafe fn upload(&self, stream: StreamName, target: u64, _source: *const u8, bytes: usize) -> Result<()> {
        self.note(format!("{stream:?}: {} from the host, {}", place(target), bytes >> 10));
        Ok(())
    }

    unsafe fn download(&self, _target: *mut u8, source: u64, bytes: usize) -> Result<()> {
        self.note(format!("Compute: the host from {}, {}", place(source), bytes >> 10));
        Ok(())
    }

    fn mark(&self, _again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        self.note("Compute: mark".to_owned());
        Ok(Box::new(HostEvent::now()))
    }
}

#[test]
fn large_writes_go_beside_the_computations_and_all_else_with_them_in_order() {
    let (engine, staging) = (Noting::default(), Staging::default());
    let mut host = vec![0; 5 << 20];
    let memory = 64 << 10;
    // SAFETY: the engine accesses no memory.
    let write = |bytes: &[u8]| assert_eq!(unsafe { staging.write(&engine, memory, bytes) }.unwrap(), Staged::Yes);
    write(&host[..LARGE_BYTES - 1024]);
    assert_eq!(engine.taken(), ["Compute: memory+64 from the host, 1023"]);
    write(&host);
    let expected = [
        "reserve",
        "Transfer: ring+1023 from the host, 4096",
        "Compute waits for Transfer",
        "Compute: memory+64 from ring+1023, 4096",
        "Compute: mark",
        "Transfer: ring+5119 from the host, 1024",
        "Compute waits for Transfer",
        "Compute: memory+4160 from ring+5119, 1024",
    ];
    assert_eq!(engine.taken(), expected);
    // SAFETY: as above.
    unsafe { staging.read(&engine, &mut [(memory, &mut host[..2 << 20])]) }.unwrap();
    assert_eq!(engine.taken(), ["Compute: the host from memory+64, 2048", "Compute: mark"]);
    // SAFETY: as above.
    unsafe { staging.read(&engine, &mut [(memory, &mut host[..1024])]) }.unwrap();
    assert_eq!(engine.taken(), ["Compute: the host from memory+64, 1", "Compute: mark"]);
    staging.close(&engine);
    assert_eq!(engine.taken(), ["release"]);
}
