//! A queue: a thread that is the command processor, takes packets in order and does what they ask for.
//!
//! The runtime writes a packet, its header last, and rings the doorbell. The doorbell is a word of memory, so the thread looks
//! at it: without a pause while there is work, and then at growing ones. It goes up to the write index of that moment, and
//! waits for headers that are not written yet. The next packet begins when the last one's kernel has ended, which is what
//! a barrier bit asks for.
//!
//! A packet that fails stops the queue, and the runtime is told: of bad accesses by the event for them, of others by the
//! queue's own signal. What it was stands on standard error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rocfire_emulator::{Access, Error as EmulatorError, Fault, FaultKind};

use crate::abi::{CreateQueue, Errno, MemoryException};
use crate::card::{Card, GPU_ID, now_ns};
use crate::packet::{self, BYTES, INVALID, Order, Packet};
use crate::signal::Signal;

/// What a doorbell holds that nobody has rung.
pub const UNRUNG: u64 = u64::MAX;
/// The first pause of a queue that has nothing to do.
const PAUSE_MIN: Duration = Duration::from_micros(20);
/// The longest: what a launch waits for after a while without one.
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// Looks without a pause before the first one.
const EAGER_LOOKS: u32 = 200;

/// From a queue's read index to its field for where that stands in `amd_queue_t`, and to its signal for errors.
const QUEUE_INACTIVE_SIGNAL: u64 = 64;

/// Codes of that signal: a grid or a workgroup that cannot be, a kernel that is none, a packet that is none, an instruction
/// that is none, and an exception.
mod code {
    pub const DIMENSIONS: i64 = 2;
    pub const KERNEL: i64 = 8;
    pub const PACKET: i64 = 32;
    pub const INSTRUCTION: i64 = 0x4000_0000;
    pub const EXCEPTION: i64 = 0x8000_0000;
}

/// A queue of the process.
pub struct Queue {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Pauses that grow.
struct Pause {
    looks: u32,
    next: Duration,
}

impl Pause {
    fn new() -> Pause {
        Pause { looks: 0, next: PAUSE_MIN }
    }

    fn take(&mut self) {
        self.looks += 1;
        if self.looks < EAGER_LOOKS {
            std::hint::spin_loop();
            return;
        }
        std::thread::sleep(self.next);
        self.next = (2 * self.next).min(PAUSE_MAX);
    }
}

/// What the thread has.
struct Worker {
    card: &'static Card,
    stop: Arc<AtomicBool>,
    args: CreateQueue,
    doorbell: &'static AtomicU64,
    /// Packets of the ring.
    places: u64,
}

/// Why a packet was not done: what the queue's signal is told, or the address that was not to be accessed.
enum Failure {
    Queue(i64, String),
    Memory(MemoryException, String),
    /// The queue is being unmade.
    Stopped,
}

impl Queue {
    /// Starts one with the doorbell given.
    ///
    /// # Errors
    /// `EINVAL` if ring or indices are not in memory that the card has.
    pub fn start(card: &'static Card, args: &CreateQueue, doorbell: &'static AtomicU64) -> Result<Queue, Errno> {
        let places = u64::from(args.ring_size) / BYTES as u64;
        let has = |address: u64, bytes: u64| card.buffers.host(address, bytes).is_some();
        let ring = places.is_power_of_two() && has(args.ring_base_address, args.ring_size.into());
        let indices = [args.read_pointer_address, args.write_pointer_address];
        if !ring || !args.ring_base_address.is_multiple_of(BYTES as u64) {
            return Err(Errno(libc::EINVAL));
        }
        if indices.iter().any(|&at| !at.is_multiple_of(8) || !has(at, 8)) {
            return Err(Errno(libc::EINVAL));
        }
        doorbell.store(UNRUNG, Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker { card, stop: stop.clone(), args: *args, doorbell, places };
        let thread = std::thread::Builder::new().name("rocfire-queue".into()).spawn(move || worker.run());
        Ok(Queue { stop, thread: thread.map_err(|_| Errno(libc::ENOMEM))? })
    }

    /// Stops it after the packet that it is at, and waits for that.
    pub fn end(self) {
        self.stop.store(true, Ordering::Release);
        // A worker that panicked has said so.
        let _ended = self.thread.join();
    }
}

impl Worker {
    fn run(&self) {
        let mut limit = 0;
        let mut pause = Pause::new();
        let Some(mut read) = self.index(self.args.read_pointer_address).map(|index| index.load(Ordering::Relaxed))
        else {
            return;
        };
        while !self.stop.load(Ordering::Acquire) {
            if self.doorbell.swap(UNRUNG, Ordering::AcqRel) != UNRUNG {
                let Some(write) = self.index(self.args.write_pointer_address) else { return };
                limit = write.load(Ordering::Acquire);
            }
            let Some(taken) = (read < limit).then(|| self.take(read)).flatten() else {
                pause.take();
                continue;
            };
            pause = Pause::new();
            let start_ns = now_ns();
            let done = taken.and_then(|packet| self.execute(&packet.order).map(|()| packet.completion));
            let completion = match done {
                Ok(completion) => completion,
                Err(failure) => return self.fail(failure),
            };
            // The place is free before anybody is told that the packet is done.
            read += 1;
            if let Some(index) = self.index(self.args.read_pointer_address) {
                index.store(read, Ordering::Release);
            }
            let signal = (completion != 0).then(|| Signal::at(&self.card.buffers, completion)).flatten();
            self.set(signal.and_then(|signal| signal.complete(start_ns, now_ns())));
        }
    }

    fn index(&self, address: u64) -> Option<&AtomicU64> {
        let host = self.card.buffers.host(address, 8)?;
        // SAFETY: the pointer is to eight bytes, aligned (`start`), that both sides reach by atomics only.
        Some(unsafe { AtomicU64::from_ptr(host.as_ptr().cast()) })
    }

    fn set(&self, event: Option<u32>) {
        if let Some(event) = event {
            // An event that was unmade meanwhile has nobody who waits.
            let _gone = self.card.events.set(event);
        }
    }

    /// Takes the packet at an index out of the ring; `None` if it is not written yet.
    fn take(&self, read: u64) -> Option<Result<Packet, Failure>> {
        let address = self.args.ring_base_address + read % self.places * BYTES as u64;
        let host = self.card.buffers.host(address, BYTES as u64)?;
        // SAFETY: the pointer is to a packet's bytes, and aligned as one (`start`); its owner writes the header by an atomic.
        let header = unsafe { AtomicU16::from_ptr(host.as_ptr().cast()) };
        if header.load(Ordering::Acquire) & 0xff == INVALID {
            return None;
        }
        let mut bytes = [0; BYTES];
        // SAFETY: the packet is this side's since its header was written.
        unsafe { std::ptr::copy_nonoverlapping(host.as_ptr(), bytes.as_mut_ptr(), BYTES) };
        let packet = packet::decode(&bytes, address).map_err(|reason| Failure::Queue(code::PACKET, reason));
        header.store(INVALID, Ordering::Release);
        Some(packet)
    }

    fn execute(&self, order: &Order) -> Result<(), Failure> {
        let value = |address: u64| Signal::at(&self.card.buffers, address).and_then(|signal| signal.value());
        match order {
            Order::Dispatch { kernel, dispatch } => {
                let kernel = self.card.code.kernel(&self.card.gpu, *kernel);
                let kernel = kernel.map_err(|error| Failure::Queue(code::KERNEL, error.to_string()))?;
                let run = || self.card.gpu.dispatch(&kernel, dispatch);
                self.card.buffers.while_running(run).map(drop).map_err(failure)
            }
            // A signal that is gone is not waited for.
            Order::Barrier { signals, any: false } => {
                self.until(|| signals.iter().all(|&signal| value(signal).is_none_or(|value| value == 0)))
            }
            Order::Barrier { signals, any: true } => self.until(|| {
                signals.is_empty() || signals.iter().any(|&signal| value(signal).is_none_or(|value| value == 0))
            }),
            Order::BarrierValue { signal, condition, value: reference, mask } => {
                self.until(|| value(*signal).is_none_or(|value| condition.holds(value & mask, *reference)))
            }
            Order::Commands { address, words } => self.commands(*address, *words),
        }
    }

    fn until(&self, holds: impl Fn() -> bool) -> Result<(), Failure> {
        let mut pause = Pause::new();
        while !holds() {
            if self.stop.load(Ordering::Acquire) {
                return Err(Failure::Stopped);
            }
            pause.take();
        }
        Ok(())
    }

    /// Commands that order memory are done: the emulator's memory has one order.
    fn commands(&self, address: u64, words: u32) -> Result<(), Failure> {
        let bad = |reason: String| Failure::Queue(code::PACKET, reason);
        let mut bytes = vec![0; 4 * words as usize];
        self.card.gpu.read(address, &mut bytes).map_err(|error| bad(error.to_string()))?;
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        packet::check_commands(&words).map_err(bad)
    }

    fn fail(&self, failure: Failure) {
        let (code, reason) = match failure {
            Failure::Stopped => return,
            Failure::Queue(code, reason) => (code, reason),
            Failure::Memory(exception, reason) => {
                crate::tell(&reason);
                if self.card.events.raise(exception) {
                    return;
                }
                (code::EXCEPTION, "nobody waits for bad accesses".to_owned())
            }
        };
        crate::tell(&reason);
        let handle = self.index(self.args.read_pointer_address + QUEUE_INACTIVE_SIGNAL);
        let handle = handle.map(|handle| handle.load(Ordering::Acquire)).unwrap_or(0);
        let signal = Signal::at(&self.card.buffers, handle);
        self.set(signal.and_then(|signal| signal.store(code)));
    }
}

/// What a card says of what the emulator says.
fn failure(error: EmulatorError) -> Failure {
    let reason = error.to_string();
    match error {
        EmulatorError::Fault(fault) => match exception(&fault) {
            Some(exception) => Failure::Memory(exception, reason),
            None if fault.kind == FaultKind::UnknownInstruction => Failure::Queue(code::INSTRUCTION, reason),
            None => Failure::Queue(code::EXCEPTION, reason),
        },
        EmulatorError::BadLaunch { .. } => Failure::Queue(code::DIMENSIONS, reason),
        _ => Failure::Queue(code::KERNEL, reason),
    }
}

/// Of a bad access to the card's memory.
fn exception(fault: &Fault) -> Option<MemoryException> {
    let (not_present, read_only) = match fault.kind {
        FaultKind::OutOfBounds(access) | FaultKind::UseAfterFree(access) => (1, u32::from(access != Access::Read)),
        FaultKind::ReadOnly => (0, 1),
        _ => return None,
    };
    let va = fault.address? & !0xfff;
    Some(MemoryException { not_present, read_only, va, gpu_id: GPU_ID, ..MemoryException::default() })
}
