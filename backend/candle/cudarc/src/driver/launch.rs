//! Launches: arguments are pushed in Candle's order, and packed as the kernel takes them.

use rocfire_hal::Function;

use super::memory::MemoryPart;
use super::queue::{self, Call, Node, Touched};
use super::{CudaFunction, CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr, DriverError, Kernel, Runs};
use crate::rocfire::{Argument, INFO_WORDS, KernelSpec, Launch};

/// Workgroups and threads of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Workgroups per axis.
    pub grid_dim: (u32, u32, u32),
    /// Threads of a workgroup per axis.
    pub block_dim: (u32, u32, u32),
    /// LDS beyond what the kernel declares, bytes.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// A thread for each of `elements`, in workgroups of 1024; no workgroup for no elements.
    pub fn for_num_elems(elements: u32) -> LaunchConfig {
        const THREADS: u32 = 1024;
        LaunchConfig { grid_dim: (elements.div_ceil(THREADS), 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }
    }

    /// Whether every device can launch this geometry, so that a launch may wait without being refused later.
    pub(crate) fn is_never_refused(self) -> bool {
        const YZ_MOST: u32 = 65535;
        let ((x, y, z), (threads_x, threads_y, threads_z)) = (self.grid_dim, self.block_dim);
        let threads = u64::from(threads_x) * u64::from(threads_y) * u64::from(threads_z);
        let fits = (1..=1024).contains(&threads) && u64::from(x) * u64::from(threads_x) <= u64::from(u32::MAX);
        fits && y.max(z) <= YZ_MOST && self.shared_mem_bytes == 0
    }
}

/// An argument as it was pushed.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Number(Number<'a>),
    Memory(MemoryPart<'a>),
}

/// The bytes of a number, which live until the launch.
#[derive(Clone, Copy)]
pub(crate) struct Number<'a> {
    pub bytes: &'a [u8],
    align: usize,
}

impl Number<'_> {
    /// The number as a word, which may be an address; `None` unless it has eight bytes.
    pub(crate) fn word(self) -> Option<u64> {
        self.bytes.try_into().ok().map(u64::from_ne_bytes)
    }
}

/// The arguments of a launch, in the order in which the kernel takes them.
pub struct LaunchArgs<'a> {
    stream: &'a CudaStream,
    function: &'a CudaFunction,
    values: Vec<Value<'a>>,
}

/// A type that can be an argument.
///
/// # Safety
/// - What is pushed is what the kernel takes there.
pub unsafe trait PushKernelArg<T> {
    /// Adds the next argument.
    fn arg(&mut self, argument: T) -> &mut Self;
}

// SAFETY: the number's own bytes are pushed, with its alignment.
unsafe impl<'a, 'b: 'a, T: DeviceRepr> PushKernelArg<&'b T> for LaunchArgs<'a> {
    fn arg(&mut self, argument: &'b T) -> &mut Self {
        let bytes = super::host::bytes_of(std::slice::from_ref(argument));
        self.values.push(Value::Number(Number { bytes, align: align_of::<T>() }));
        self
    }
}

// SAFETY: the pushed place knows its address.
unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b CudaSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, argument: &'b CudaSlice<T>) -> &mut Self {
        self.values.push(Value::Memory(argument.place()));
        self
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b mut CudaSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, argument: &'b mut CudaSlice<T>) -> &mut Self {
        self.values.push(Value::Memory(argument.place()));
        self
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, 'c: 'b, T> PushKernelArg<&'b CudaView<'c, T>> for LaunchArgs<'a> {
    fn arg(&mut self, argument: &'b CudaView<'c, T>) -> &mut Self {
        self.values.push(Value::Memory(argument.place()));
        self
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, 'c: 'b, T> PushKernelArg<&'b mut CudaViewMut<'c, T>> for LaunchArgs<'a> {
    fn arg(&mut self, argument: &'b mut CudaViewMut<'c, T>) -> &mut Self {
        self.values.push(Value::Memory(argument.place()));
        self
    }
}

/// Room for arguments that is enough for most kernels.
const USUAL_ARGUMENTS: usize = 16;
/// Room in bytes for arguments that is enough for most kernels.
const USUAL_BYTES: usize = 2 * INFO_WORDS * 8;

impl<'a> LaunchArgs<'a> {
    pub(crate) fn new(stream: &'a CudaStream, function: &'a CudaFunction) -> LaunchArgs<'a> {
        LaunchArgs { stream, function, values: Vec::with_capacity(USUAL_ARGUMENTS) }
    }

    /// Puts the kernel on the stream. A grid without workgroups does nothing.
    ///
    /// # Errors
    /// An argument that is not what the kernel takes, named by its slot; a geometry that the device does not have. What goes wrong
    /// while the kernel runs is an error of the next copy to the host or wait.
    ///
    /// # Safety
    /// - The memory of every argument covers what the kernel accesses for this geometry and these arguments.
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<(), DriverError> {
        self.stream.context().check_err()?;
        let (x, y, z) = config.grid_dim;
        if x == 0 || y == 0 || z == 0 {
            return Ok(());
        }
        let mut packed = Packed::new(self.stream, self.function);
        match self.function.kernel() {
            Kernel::Text(function) => {
                for (slot, value) in self.values.iter().enumerate() {
                    packed.as_pushed(slot, value)?;
                }
                // SAFETY: the caller's duty; every argument that may be an address is listed as written.
                unsafe { packed.launch(function, config) }
            }
            Kernel::Named(spec, runs) => {
                self.require_count(spec)?;
                for (slot, (value, &argument)) in self.values.iter().zip(&spec.arguments).enumerate() {
                    packed.as_named(slot, value, argument)?;
                }
                if let Some(slot) = spec.room_of {
                    packed.put(&self.room(slot)?.to_ne_bytes(), 8);
                }
                let asked = config;
                let seen = self.seen(asked);
                let config = spec.geometry.map_or(asked, |geometry| geometry(&seen));
                let Packed { bytes, at, mut touched, .. } = packed;
                if let Some(extent) = spec.extent {
                    for (slot, touched) in &mut touched {
                        touched.narrow_to(extent(&seen, usize::from(*slot), touched.access.is_written));
                    }
                }
                let call = Call { function: self.function.clone(), asked, config, bytes, at };
                let touched = touched.into_iter().map(|(_, touched)| touched).collect();
                let node = Node::new(queue::Work::Call(call), touched);
                let context = self.stream.context();
                // A launch that waits must not be refused for its geometry later.
                let can_wait = matches!(runs, Runs::Operators(_)) || config.is_never_refused();
                if can_wait && context.shared().has_queue() {
                    context.shared().wait(node);
                    return Ok(());
                }
                node.run(context.opened(), self.stream.settled().turn())
            }
        }
    }

    /// The launch as functions of a [`KernelSpec`] see it.
    fn seen(&self, asked: LaunchConfig) -> Launch<'_> {
        Launch { asked, values: &self.values }
    }

    /// The length of the slice in a slot, in elements.
    fn room(&self, slot: usize) -> Result<u64, DriverError> {
        match self.values.get(slot) {
            Some(Value::Memory(place)) => Ok(place.len as u64),
            _ => Err(DriverError::new(format!("{}: argument {slot} must be a slice or a view", self.function.name()))),
        }
    }

    fn require_count(&self, spec: &KernelSpec) -> Result<(), DriverError> {
        let (expected, got) = (spec.arguments.len(), self.values.len());
        if expected == got {
            return Ok(());
        }
        let name = self.function.name();
        Err(DriverError::new(format!("{name}: takes {expected} arguments ({:?}), got {got}", spec.arguments)))
    }
}

/// The arguments as the kernel reads them, each at the next multiple of its alignment.
struct Packed<'a> {
    stream: &'a CudaStream,
    label: &'static str,
    bytes: Vec<u8>,
    /// The byte at which each argument begins.
    at: Vec<u16>,
    /// What the kernel reads and writes, each with the slot of its address.
    touched: Vec<(u16, Touched)>,
}

impl<'a> Packed<'a> {
    fn new(stream: &'a CudaStream, function: &CudaFunction) -> Packed<'a> {
        let (label, bytes) = (function.name(), Vec::with_capacity(USUAL_BYTES));
        Packed { stream, label, bytes, at: Vec::with_capacity(USUAL_ARGUMENTS), touched: Vec::with_capacity(4) }
    }

    fn put(&mut self, bytes: &[u8], align: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        // No device takes more than 64 KiB of arguments.
        self.at.push(u16::try_from(self.bytes.len()).unwrap_or(u16::MAX));
        self.bytes.extend_from_slice(bytes);
    }

    /// Packs an argument of a kernel about which nothing is known. Its memory may be written, and so may memory that a number of
    /// eight bytes leads to as an address.
    fn as_pushed(&mut self, slot: usize, value: &Value<'_>) -> Result<(), DriverError> {
        match value {
            Value::Number(number) => {
                let memory = number.word().and_then(|word| self.stream.context().shared().memory_at(word));
                self.touched.extend(memory.map(|(kept, _)| (slot as u16, Touched::whole(kept, true, true))));
                self.put(number.bytes, number.align);
                Ok(())
            }
            Value::Memory(_) => self.address(slot, value, true, true),
        }
    }

    /// Packs an argument of a kernel by name, if it is what the kernel takes.
    fn as_named(&mut self, slot: usize, value: &Value<'_>, argument: Argument) -> Result<(), DriverError> {
        match argument {
            Argument::Info => {
                let words = info(value).ok_or_else(|| self.wrong(slot, "extents and strides, or null", value))?;
                if words.len() > INFO_WORDS {
                    return Err(self.too_many_axes(slot, words.len()));
                }
                let start = self.bytes.len().next_multiple_of(8);
                self.put(super::host::bytes_of(words), 8);
                self.bytes.resize(start + 8 * INFO_WORDS, 0);
                Ok(())
            }
            Argument::Read => self.address(slot, value, true, false),
            Argument::Write => self.address(slot, value, false, true),
            Argument::ReadWrite => self.address(slot, value, true, true),
            Argument::Scalar(size) => match value {
                Value::Number(number) if number.bytes.len() == usize::from(size) => {
                    self.put(number.bytes, usize::from(size));
                    Ok(())
                }
                _ => Err(self.wrong(slot, &format!("a number of {size} bytes"), value)),
            },
        }
    }

    /// Packs an address: of a slice or view, or a bare number that is 0 or leads to live memory.
    fn address(&mut self, slot: usize, value: &Value<'_>, is_read: bool, is_written: bool) -> Result<(), DriverError> {
        let (address, memory) = match value {
            Value::Memory(place) => {
                let memory = place.held.memory()?.kept();
                (place.address(), (memory.bytes() > 0).then(|| memory.clone()))
            }
            Value::Number(number) => {
                let address = number.word().ok_or_else(|| self.wrong(slot, "an address", value))?;
                match self.stream.context().shared().memory_at(address) {
                    Some((memory, _)) => (address, Some(memory)),
                    None if address == 0 => (0, None),
                    None => return Err(self.wrong(slot, "an address of live memory of this device", value)),
                }
            }
        };
        if let Some(memory) = memory {
            let mut touched = Touched::whole(memory, is_read, is_written);
            // The launch touches the whole allocation until its kernel's extent narrows that, from this address on.
            touched.asked = address;
            self.touched.push((slot as u16, touched));
        }
        self.put(&address.to_ne_bytes(), 8);
        Ok(())
    }

    fn wrong(&self, slot: usize, expected: &str, value: &Value<'_>) -> DriverError {
        let got = match value {
            Value::Number(number) => match number.word() {
                Some(word) => format!("the number {word:#x}"),
                None => format!("a number of {} bytes", number.bytes.len()),
            },
            Value::Memory(place) => format!("memory of {} elements", place.len),
        };
        DriverError::new(format!("{}: argument {slot} must be {expected}, got {got}", self.label))
    }

    fn too_many_axes(&self, slot: usize, words: usize) -> DriverError {
        DriverError::new(format!(
            "{}: argument {slot} has {words} extents and strides; there is room for {INFO_WORDS}, so for tensors of {} \
             axes with three operands and of {} with one",
            self.label,
            INFO_WORDS / 4,
            INFO_WORDS / 2,
        ))
    }

    /// Launches the kernel at once, behind all that waits.
    ///
    /// # Safety
    /// - As [`LaunchArgs::launch`], and `touched` lists what the kernel writes.
    unsafe fn launch(&self, function: &Function, config: LaunchConfig) -> Result<(), DriverError> {
        let settled = self.stream.settled();
        let written = self.touched.iter().filter(|(_, touched)| touched.access.is_written);
        let outputs = written.map(|(_, touched)| settled.buffer(&touched.memory)).collect::<Result<Vec<_>, _>>()?;
        let device = self.stream.context().opened();
        // SAFETY: the caller's two duties.
        unsafe { queue::put(device, function, self.label, config, &self.bytes, &outputs) }
    }
}

/// Extents and strides that were pushed: words that stayed on the host, or no words for null. `None` if it is something else.
pub(crate) fn info<'a>(value: &Value<'a>) -> Option<&'a [usize]> {
    match value {
        Value::Memory(place) => place.words().map(|words| &**words),
        Value::Number(number) if number.word() == Some(0) => Some(&[]),
        Value::Number(_) => None,
    }
}
