//! Launches that wait on the host, so that several can become one.
//!
//! Candle launches a kernel for every operator. Launches of kernels by name and of matrix products are recorded here instead, with
//! the memory that they read and write. They go to the device when the queue is full, when somebody looks (a copy to the host, a
//! wait, memory lent to others), or when something comes about which nothing is known (a user's kernel). Then a [`Merger`], which
//! knows what the kernels compute, says which of them one launch can do; the rest run as they were asked for.
//!
//! Nothing that Candle can see changes: arguments are checked when the launch is asked for; memory that was dropped is kept
//! until the last launch that waits has gone; launches change their order only where neither touches what the other writes, byte
//! by byte for copies and dense results. A result that nobody owns any more, and no other launch reads, need not be stored. Rust
//! drops most temporaries only after the next operators, so the newest launches wait on when the older ones run. What fails while
//! it runs is told, as ever, by the next copy to the host or wait.
//!
//! Memory of launches that wait is [`Kept`]: it has an address and lends nothing. Work outside the queue gets the memory, and the
//! stream, from [`Settled`].
//!
//! `ROCFIRE_FUSION=0` and `ROCFIRE_SYNC=1` leave the queue out.

mod kept;
mod settled;

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use rocfire_hal::profile::Work as Profiled;
use rocfire_hal::{Access, Buffer, Bytes, DType, Dependencies, Device, Function, Hazards, Source, Tensor};

use super::shared::Shared;
use super::{CudaFunction, DriverError, Kernel, LaunchConfig, Runs};
use crate::cublas::result::Resolved;
use crate::rocfire::Extent;

pub use kept::{Kept, Turn};
pub use settled::Settled;
pub(crate) use settled::tensor;

/// The most launches that wait at a time.
const WAITING_MOST: usize = Hazards::COMMANDS_MOST;
/// The most launches that wait on when older ones run. Between the copies of keys that Candle's attention makes and the point where
/// Rust drops them there are some 20 launches.
const WAITING_ON: usize = 26;
/// The first time after everything has run, the device has nothing to do. So the oldest launches run as soon as `FIRST_MOST` wait,
/// and `FIRST_ON` wait on. Each further time `MORE_EACH_TIME` more may wait, and wait on.
const FIRST_MOST: usize = 16;
const FIRST_ON: usize = 8;
const MORE_EACH_TIME: usize = 10;
/// The most bytes of results that waiting launches write: more would hold back memory that others want.
const WRITTEN_BYTES_MOST: u64 = 1 << 30;

/// Memory that a launch reads or writes.
#[derive(Clone, Debug)]
pub struct Touched {
    /// The allocation that it is part of.
    pub memory: Kept,
    /// Which bytes, and whether they are read or written.
    pub access: Access,
    /// The address that the launch was given as its argument.
    pub asked: u64,
}

impl Touched {
    /// The `bytes` bytes from the address `first` on, written or else read.
    pub fn part(memory: Kept, first: u64, bytes: u64, is_written: bool) -> Touched {
        let bytes = Bytes { first, end: first + bytes, rows: None };
        Touched { memory, access: Access { bytes, is_read: !is_written, is_written }, asked: first }
    }

    /// A whole allocation.
    pub(crate) fn whole(memory: Kept, is_read: bool, is_written: bool) -> Touched {
        let first = memory.address();
        let bytes = Bytes { first, end: first + memory.bytes(), rows: None };
        Touched { memory, access: Access { bytes, is_read, is_written }, asked: first }
    }

    /// Narrows the access to an extent from the address on; `None` leaves it as it is.
    pub(crate) fn narrow_to(&mut self, extent: Option<Extent>) {
        let Some(Extent { rows, row_bytes, stride_bytes }) = extent else { return };
        let span = rows.saturating_sub(1).saturating_mul(stride_bytes).saturating_add(row_bytes);
        let end = self.asked.saturating_add(span).min(self.access.bytes.end);
        let rows = (rows > 1 && row_bytes <= stride_bytes).then_some((row_bytes, stride_bytes));
        self.access.bytes = Bytes { first: self.asked, end, rows };
    }
}

/// A launch of a kernel by name.
pub(crate) struct Call {
    pub function: CudaFunction,
    /// The geometry that Candle asked for.
    pub asked: LaunchConfig,
    /// The geometry that it is launched with.
    pub config: LaunchConfig,
    /// The arguments as the kernel reads them.
    pub bytes: Vec<u8>,
    /// The byte at which each argument begins.
    pub at: Vec<u16>,
}

/// A launch by one of `candle-kernels`' launchers.
pub(crate) struct LauncherCall {
    pub name: &'static str,
    pub tag: u64,
    pub function: Function,
    pub config: LaunchConfig,
    pub bytes: Vec<u8>,
    pub at: Vec<u16>,
}

/// What a waiting launch does.
pub(crate) enum Work {
    Call(Call),
    Launcher(LauncherCall),
    Product(Box<Resolved>),
}

/// A launch that waits.
pub struct Node {
    pub(crate) work: Work,
    pub(crate) touched: Vec<Touched>,
    /// The earlier launches that must run before it.
    dependencies: Dependencies,
    /// What the kernel's library has read off the arguments, once it has ([`Node::read_once`]).
    read: OnceLock<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Node {
    pub(crate) fn new(work: Work, touched: Vec<Touched>) -> Node {
        Node { work, touched, dependencies: Dependencies::default(), read: OnceLock::new() }
    }

    /// What the kernel's library reads off the arguments. `make` is called once, although a launch can be planned several times before
    /// it runs.
    pub fn read_once<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let made = self.read.get_or_init(|| Some(Arc::new(make()?)));
        Arc::clone(made.as_ref()?).downcast().ok()
    }

    /// What [`Node::read_once`] has made; `None` if it was not called or made nothing.
    pub fn was_read<T: Any>(&self) -> Option<&T> {
        self.read.get()?.as_ref()?.downcast_ref()
    }

    fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.touched.iter().map(|touched| &touched.access)
    }

    fn written(&self) -> impl Iterator<Item = &Touched> {
        self.touched.iter().filter(|touched| touched.access.is_written)
    }

    fn written_bytes(&self) -> u64 {
        self.written().map(|written| written.access.bytes.end - written.access.bytes.first).sum()
    }

    /// Whether it writes any of these bytes.
    fn overwrites<'a>(&self, mut accesses: impl Iterator<Item = &'a Access>) -> bool {
        accesses.any(|access| self.written().any(|written| written.access.bytes.meets(&access.bytes)))
    }

    /// Candle's name for the kernel, or a launcher's name for its own; `None` for a product.
    pub fn name(&self) -> Option<&'static str> {
        match &self.work {
            Work::Call(call) => Some(call.function.name()),
            Work::Launcher(own) => Some(own.name),
            Work::Product(_) => None,
        }
    }

    /// The number by which the library knows a kernel of Candle's; `None` for other launches.
    pub fn number(&self) -> Option<usize> {
        match &self.work {
            Work::Call(call) => match call.function.kernel() {
                Kernel::Named(spec, _) => Some(spec.number),
                Kernel::Text(_) => None,
            },
            Work::Launcher(_) | Work::Product(_) => None,
        }
    }

    /// The number by which a launcher tells kernels of one name apart; `None` for Candle's own launches and for products.
    pub fn tag(&self) -> Option<u64> {
        match &self.work {
            Work::Launcher(own) => Some(own.tag),
            Work::Call(_) | Work::Product(_) => None,
        }
    }

    /// Whether both are the same kernel of a launcher with the same arguments.
    pub fn is_twin(&self, other: &Node) -> bool {
        match (&self.work, &other.work) {
            (Work::Launcher(own), Work::Launcher(other)) => {
                let kernel = |own: &LauncherCall| (own.name, own.tag, own.config);
                kernel(own) == kernel(other) && own.bytes == other.bytes
            }
            _ => false,
        }
    }

    /// The memory that an address leads into and the byte in it; `None` if the launch does not touch it.
    pub fn memory(&self, address: u64, turn: &Turn) -> Option<(&Buffer, u64)> {
        let offset = |touched: &Touched| address.checked_sub(touched.memory.address());
        let mut found = self.touched.iter().filter_map(|touched| Some((touched, offset(touched)?)));
        let (touched, offset) = found.find(|(touched, offset)| *offset < touched.memory.bytes())?;
        Some((touched.memory.buffer(turn), offset))
    }

    /// The first of the memory that it writes; `None` if it writes none.
    pub fn output(&self, turn: &Turn) -> Option<&Buffer> {
        self.written().next().map(|written| written.memory.buffer(turn))
    }

    /// The memory from the address in argument `slot` on, as a contiguous tensor.
    ///
    /// # Errors
    /// There is no memory there, or less than the shape needs; the address is between two elements.
    pub fn tensor(&self, slot: usize, shape: &[usize], dtype: DType, turn: &Turn) -> Result<Tensor, DriverError> {
        let no_memory = || DriverError::new(format!("argument {slot} must be memory"));
        let (buffer, first_byte) = self.memory(self.word(slot), turn).ok_or_else(no_memory)?;
        tensor(buffer, first_byte, shape, dtype)
    }

    /// The product, if it is one.
    pub fn product(&self) -> Option<&Resolved> {
        match &self.work {
            Work::Call(_) | Work::Launcher(_) => None,
            Work::Product(product) => Some(product),
        }
    }

    /// The geometry that Candle or a launcher asked for; one without workgroups for a product.
    pub fn asked(&self) -> LaunchConfig {
        match &self.work {
            Work::Call(call) => call.asked,
            Work::Launcher(own) => own.config,
            Work::Product(_) => LaunchConfig::for_num_elems(0),
        }
    }

    /// The bytes of the argument in a slot, followed by those of the later arguments; none for a product.
    pub fn argument(&self, slot: usize) -> &[u8] {
        let (bytes, at) = match &self.work {
            Work::Call(call) => (&call.bytes, &call.at),
            Work::Launcher(own) => (&own.bytes, &own.at),
            Work::Product(_) => return &[],
        };
        at.get(slot).and_then(|&at| bytes.get(usize::from(at)..)).unwrap_or(&[])
    }

    /// The argument of eight bytes in a slot; 0 where there is none.
    pub fn word(&self, slot: usize) -> u64 {
        self.argument(slot).first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// The argument of four bytes in a slot; 0 where there is none.
    pub fn int(&self, slot: usize) -> u32 {
        self.argument(slot).first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// The addresses of the first byte that it writes and of the byte behind the last; `None` unless it has exactly one result.
    pub fn result(&self) -> Option<(u64, u64)> {
        let mut written = self.written();
        match (written.next(), written.next()) {
            (Some(result), None) => Some((result.access.bytes.first, result.access.bytes.end)),
            _ => None,
        }
    }

    /// Runs it as it was asked for.
    pub(super) fn run(&self, device: &Device, turn: &Turn) -> Result<(), DriverError> {
        let outputs = || self.written().map(|written| written.memory.buffer(turn)).collect::<Vec<_>>();
        match &self.work {
            Work::Product(product) => Ok(product.run(device.stream(), turn).map_err(|error| error.0)?),
            Work::Launcher(own) => {
                // SAFETY: as the launcher has promised; the memory is held by `touched`.
                unsafe { put(device, &own.function, own.name, own.config, &own.bytes, &outputs()) }
            }
            Work::Call(call) => {
                let Kernel::Named(_, runs) = call.function.kernel() else { return Ok(()) };
                let name = call.function.name();
                match runs {
                    // SAFETY: as whoever asked for the launch has promised; the memory is held by `touched`.
                    Runs::Kernel(function) => unsafe {
                        put(device, function, name, call.config, &call.bytes, &outputs())
                    },
                    Runs::Operators(operate) => operate(self, device.stream(), turn)
                        .map_err(|error| DriverError::new(format!("{name}: {error}"))),
                }
            }
        }
    }
}

/// The launches that wait, in the order in which they were asked for.
pub struct Window<'a> {
    nodes: &'a [Node],
    shared: &'a Shared,
    turn: Turn,
}

impl Window<'_> {
    /// Whether a launch writes anything that another reads or writes.
    pub fn disturbs(&self, number: usize, other: usize) -> bool {
        self.nodes[number].overwrites(self.nodes[other].accesses())
    }

    /// How many launches wait.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A launch by its number.
    pub fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// The earlier launches that must run before it, a bit each.
    pub fn after(&self, number: usize) -> u64 {
        self.nodes[number].dependencies.all
    }

    /// The earlier launches whose results it reads, in whole or in part, a bit each.
    pub fn sources(&self, number: usize) -> u64 {
        self.nodes[number].dependencies.sources
    }

    /// All launches whose results another waiting launch reads, in whole or in part, a bit each.
    pub fn read(&self) -> u64 {
        self.nodes.iter().fold(0, |all, node| all | node.dependencies.sources)
    }

    /// The later launches that read its results, in whole or in part, a bit each.
    pub fn readers(&self, number: usize) -> u64 {
        let reads = |(other, node): (usize, &Node)| (node.dependencies.sources >> number & 1) << other;
        self.nodes.iter().enumerate().skip(number + 1).map(reads).fold(0, |all, bit| all | bit)
    }

    /// Whether launch `number` writes memory that launch `reader`, which may be itself, reads.
    pub fn overwrites(&self, number: usize, reader: usize) -> bool {
        self.nodes[number].overwrites(self.nodes[reader].accesses().filter(|access| access.is_read))
    }

    /// Whether somebody outside the queue still owns memory of its results, and so can read it.
    pub fn is_owned(&self, number: usize) -> bool {
        self.nodes[number].written().any(|written| self.shared.is_owned(written.memory.address()))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.shared.device()
    }

    /// What operators show to get the memory that launches touch: they run in the order of the plan.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }
}

/// A step of a merger's plan: some waiting launches, as one or one after the other.
pub struct Planned {
    /// The launches' numbers, in the order in which they run.
    pub members: Vec<usize>,
    /// How they run.
    pub run: Run,
}

/// How the launches of a step run.
pub enum Run {
    /// Each as it was asked for.
    Each,
    /// The first as it was asked for, and the others not at all: they would do the same once more.
    First,
    /// As one launch.
    Merged(Merged),
    /// By an operator of `rocfire_kernels`; where it fails, each as it was asked for.
    By(Operator),
}

/// A function that does what the launches of a step do, on a stream.
pub type Operator = Box<dyn Fn(&rocfire_hal::Stream) -> Result<(), DriverError>>;

/// One launch in place of several.
pub struct Merged {
    /// Its name in messages and profiles.
    pub label: &'static str,
    /// The kernel's text.
    pub source: Arc<Source>,
    /// The name of the kernel in the text.
    pub entry: &'static str,
    /// Its geometry.
    pub config: LaunchConfig,
    /// Its arguments, each at a multiple of its alignment.
    pub bytes: Vec<u8>,
}

/// Decides which waiting launches one launch can do. `candle-kernels` implements it, as it knows what its kernels compute.
pub trait Merger: Sync {
    /// Groups all launches of a window into steps, and returns those steps that run now.
    ///
    /// A launch may move before another that it does not depend on ([`Window::after`]). A merged launch does what its members do, but
    /// need not store results that nobody owns and only other members read. It accesses no other memory than they do. For each step in
    /// order the plan asks `goes` whether its members run now; the other steps wait on.
    fn plan(&self, window: &Window<'_>, goes: &mut dyn FnMut(&[usize]) -> bool) -> Vec<Planned>;
}

/// The launches of a device that wait.
#[derive(Default)]
pub(crate) struct Queue {
    nodes: Vec<Node>,
    /// What the launches access, from which dependencies follow.
    hazards: Hazards,
    written_bytes: u64,
    /// How often the oldest launches have run since all of them last ran.
    times: usize,
    /// How many [`Settled`] live, which lend memory and stream: meanwhile nothing waits.
    lent: usize,
    merger: Option<&'static dyn Merger>,
    /// The hashes of merged kernels' sources that did not compile. They are not tried again.
    refused: HashSet<[u8; 32]>,
}

impl Queue {
    pub(crate) fn set_merger(&mut self, merger: &'static dyn Merger) {
        self.merger = Some(merger);
    }

    /// Runs everything that waits. Until [`Queue::close`] each launch that comes runs at once.
    fn open(&mut self, shared: &Shared) {
        self.run(shared, 0);
        self.lent += 1;
    }

    fn close(&mut self) {
        self.lent -= 1;
    }

    /// Adds a launch. If as many wait as may, the oldest run.
    pub(crate) fn push(&mut self, shared: &Shared, node: Node) {
        self.add(node);
        if self.lent > 0 || self.written_bytes > WRITTEN_BYTES_MOST {
            self.run(shared, 0);
        } else if self.nodes.len() >= self.most() {
            let left = (FIRST_ON + self.times * MORE_EACH_TIME).min(WAITING_ON);
            self.times += 1;
            self.run(shared, left);
        }
    }

    /// How many launches may wait now before the oldest run.
    fn most(&self) -> usize {
        (FIRST_MOST + self.times * MORE_EACH_TIME).min(WAITING_MOST)
    }

    fn add(&mut self, mut node: Node) {
        node.dependencies = self.hazards.dependencies(node.accesses());
        self.hazards.add(self.nodes.len(), node.accesses());
        self.written_bytes += node.written_bytes();
        self.nodes.push(node);
    }

    /// Runs all launches except some of the newest `left`, and what must come behind those.
    pub(crate) fn run(&mut self, shared: &Shared, left: usize) {
        if left == 0 {
            self.times = 0;
        }
        if self.nodes.is_empty() {
            return;
        }
        let (nodes, end) = (&self.nodes, self.nodes.len() - left);
        let mut waiting_on = 0_u64;
        let mut goes = |members: &[usize]| {
            let is_late = |&member: &usize| member >= end || nodes[member].dependencies.all & waiting_on != 0;
            let waits = left > 0 && members.iter().any(is_late);
            if waits {
                waiting_on |= members.iter().fold(0, |mask, &member| mask | 1 << member);
            }
            !waits
        };
        let steps: Vec<Planned> = match self.merger {
            // A single launch is planned too: a merger may run it in a way of its own, and does so whatever waits beside it.
            Some(merger) => merger.plan(&Window { nodes, shared, turn: Turn::new() }, &mut goes),
            None => {
                let alone = (0..nodes.len()).filter(|&node| goes(&[node]));
                alone.map(|node| Planned { members: vec![node], run: Run::Each }).collect()
            }
        };
        let run: usize = steps.iter().map(|step| step.members.len()).sum();
        debug_assert_eq!(run + waiting_on.count_ones() as usize, nodes.len(), "each once");
        steps.iter().for_each(|step| self.put(shared, step));
        self.hazards.keep(waiting_on);
        let mut numbers = 0..WAITING_MOST;
        self.nodes.retain(|_| numbers.next().is_some_and(|number| waiting_on >> number & 1 == 1));
        for node in &mut self.nodes {
            node.dependencies = node.dependencies.kept(waiting_on);
        }
        self.written_bytes = self.nodes.iter().map(Node::written_bytes).sum();
        if self.nodes.len() == WAITING_MOST {
            // All launches depend on each other, and nothing could run: nothing is gained by waiting.
            self.run(shared, 0);
        }
    }

    fn put(&mut self, shared: &Shared, step: &Planned) {
        let device = shared.device();
        let members = match &step.run {
            Run::Each => &step.members[..],
            Run::First => &step.members[..1],
            Run::Merged(merged) => match self.put_merged(shared, step, merged) {
                true => &[],
                false => &step.members[..],
            },
            Run::By(operator) => match operator(device.stream()) {
                Ok(()) => &[],
                Err(error) => {
                    device.report(rocfire_hal::Level::Warn, format_args!("launched one by one: {error}"));
                    &step.members[..]
                }
            },
        };
        for &member in members {
            shared.record_err(self.nodes[member].run(device, &Turn::new()));
        }
    }

    /// Launches the members as one. `false`, and nothing is launched, if its kernel does not compile.
    fn put_merged(&mut self, shared: &Shared, step: &Planned, merged: &Merged) -> bool {
        if self.refused.contains(merged.source.hash()) {
            return false;
        }
        let device = shared.device();
        match device.module(&merged.source).and_then(|module| module.function(merged.entry)) {
            Ok(function) => {
                let members = step.members.iter().flat_map(|&member| self.nodes[member].written());
                let turn = Turn::new();
                let outputs: Vec<&Buffer> = members.map(|written| written.memory.buffer(&turn)).collect();
                // SAFETY: the merger's promise, and that of whoever asked for the members; their memory is held.
                let done = unsafe { put(device, &function, merged.label, merged.config, &merged.bytes, &outputs) };
                shared.record_err(done);
                true
            }
            Err(error) => {
                let kernel = merged.source.name();
                device.report(rocfire_hal::Level::Warn, format_args!("{kernel}: launched one by one: {error}"));
                self.refused.insert(*merged.source.hash());
                false
            }
        }
    }
}

/// Launches a kernel on the device's stream.
///
/// # Safety
/// As [`rocfire_hal::Stream::launch`].
pub(crate) unsafe fn put(
    device: &Device,
    function: &Function,
    label: &'static str,
    config: LaunchConfig,
    args: &[u8],
    outputs: &[&Buffer],
) -> Result<(), DriverError> {
    let ((x, y, z), (threads_x, threads_y, threads_z)) = (config.grid_dim, config.block_dim);
    let launch = rocfire_hal::Launch {
        label,
        grid: [x, y, z],
        block: [threads_x, threads_y, threads_z],
        lds_bytes: config.shared_mem_bytes,
        args,
        outputs,
        work: Profiled::default(),
    };
    // SAFETY: the caller's duties; the size of the arguments is compared with the code object's there.
    unsafe { device.stream().launch(function, &launch)? };
    Ok(())
}

#[cfg(test)]
mod tests;
