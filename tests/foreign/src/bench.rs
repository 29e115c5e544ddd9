//! A device with one foreign kernel loaded, and the arguments that it is launched with.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use rocfire_arch::Arch;
use rocfire_emulator::{Error, Gpu, Kernel, Launch, Options, Profile, Sample};
use rocfire_kernels::aiter::mended;

use crate::case::Object;

/// A device of its own for one run of one kernel.
pub struct Bench {
    gpu: Gpu,
    kernel: Kernel,
    /// Whether the device looks for what nobody has written.
    unwritten: bool,
    /// What was counted of each launch; `None`: nothing is.
    profiles: Option<RefCell<Vec<Profile>>>,
}

/// Why a kernel could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Unrun {
    /// The emulator says no.
    #[error(transparent)]
    Emulator(#[from] Error),
    /// The file cannot be read.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The architecture is none.
    #[error(transparent)]
    Arch(#[from] rocfire_arch::Error),
    /// The kernel is not there, or is not the only one where none was named.
    #[error("not the kernel that was looked for among {0}")]
    Kernels(usize),
    /// What it is launched with does not fit the kernel.
    #[error("{0}")]
    Description(String),
}

impl Bench {
    /// Loads the kernel of a code object.
    ///
    /// # Errors
    /// [`Unrun`].
    pub fn new(object: &Object, options: Options) -> Result<Bench, Unrun> {
        let unwritten = options.checks.unwritten;
        let gpu = Gpu::new(Arch::parse(object.arch)?, options)?;
        let kernel = kernel(&gpu, &object.path, object.kernel.as_deref())?;
        Ok(Bench { kernel, gpu, unwritten, profiles: None })
    }

    /// The same, counting every launch by instruction.
    ///
    /// # Errors
    /// [`Unrun`].
    pub fn counting(object: &Object, options: Options) -> Result<Bench, Unrun> {
        Ok(Bench { profiles: Some(RefCell::default()), ..Bench::new(object, options)? })
    }

    /// What was counted, launch by launch.
    pub fn into_profiles(self) -> Vec<Profile> {
        self.profiles.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Bytes of arguments that the kernel says it takes.
    pub fn argument_bytes(&self) -> usize {
        self.kernel.explicit_kernarg_bytes() as usize
    }

    /// The address of these values on the device, with nothing behind the last.
    ///
    /// # Errors
    /// The device is full.
    pub fn upload<T: bytemuck::NoUninit>(&self, values: &[T]) -> Result<u64, Unrun> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let address = self.gpu.allocate(bytes.len() as u64)?;
        self.gpu.write(address, bytes)?;
        Ok(address)
    }

    /// The same with `room` bytes behind the last, for a kernel that reads past it. They read as no number.
    ///
    /// # Errors
    /// The device is full.
    pub fn upload_with_room<T: bytemuck::NoUninit>(&self, values: &[T], room: usize) -> Result<u64, Unrun> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let padded: Vec<u8> = bytes.iter().copied().chain(std::iter::repeat_n(0xff, room)).collect();
        self.upload(&padded)
    }

    /// The address of bytes that a kernel is to write: nobody has, and they read as no number.
    ///
    /// # Errors
    /// The device is full.
    pub fn output(&self, bytes: usize) -> Result<u64, Unrun> {
        let address = self.gpu.allocate(bytes as u64)?;
        // Written by the host, it would count as written.
        if !self.unwritten {
            self.gpu.fill(address, 0xff, bytes as u64)?;
        }
        Ok(address)
    }

    /// The address of bytes that a kernel adds to.
    ///
    /// # Errors
    /// The device is full.
    pub fn zeros(&self, bytes: usize) -> Result<u64, Unrun> {
        self.upload(&vec![0u8; bytes])
    }

    /// Values from the device.
    ///
    /// # Errors
    /// They do not lie in one allocation.
    pub fn download<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &self,
        address: u64,
        count: usize,
    ) -> Result<Vec<T>, Unrun> {
        let mut values = vec![T::zeroed(); count];
        self.gpu.read(address, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// Launches workgroups of `threads` and waits.
    ///
    /// # Errors
    /// What the kernel did wrong.
    pub fn launch(&self, grid: [usize; 3], threads: u32, arguments: &Arguments) -> Result<(), Unrun> {
        self.launch_kernel(&self.kernel, grid, threads, 0, arguments)
    }

    /// The same with so many bytes of LDS besides the kernel's own.
    ///
    /// # Errors
    /// What the kernel did wrong.
    pub fn launch_with_lds(
        &self,
        grid: [usize; 3],
        (threads, lds_bytes): (u32, u32),
        arguments: &Arguments,
    ) -> Result<(), Unrun> {
        self.launch_kernel(&self.kernel, grid, threads, lds_bytes, arguments)
    }

    /// The same with the only kernel of another code object.
    ///
    /// # Errors
    /// [`Unrun`].
    pub fn launch_other(
        &self,
        object: &Path,
        grid: [usize; 3],
        threads: u32,
        arguments: &Arguments,
    ) -> Result<(), Unrun> {
        self.launch_kernel(&kernel(&self.gpu, object, None)?, grid, threads, 0, arguments)
    }

    fn launch_kernel(
        &self,
        kernel: &Kernel,
        grid: [usize; 3],
        threads: u32,
        lds_bytes: u32,
        arguments: &Arguments,
    ) -> Result<(), Unrun> {
        let launch = Launch {
            grid: grid.map(|count| count as u32),
            block: [threads, 1, 1],
            dynamic_lds_bytes: lds_bytes,
            kernarg: &arguments.0,
        };
        match &self.profiles {
            Some(profiles) => {
                let sample = Sample { timeline: true, ..Sample::default() };
                profiles.borrow_mut().push(self.gpu.profile(kernel, &launch, sample)?);
            }
            None => drop(self.gpu.launch(kernel, &launch)?),
        }
        Ok(())
    }
}

/// The kernel of this name, or the only one.
fn kernel(gpu: &Gpu, object: &Path, name: Option<&str>) -> Result<Kernel, Unrun> {
    let module = gpu.load(&mended(&fs::read(object)?))?;
    let names: Vec<String> = module.kernel_names().map(str::to_owned).collect();
    let only = names.first().filter(|_| names.len() == 1).map(String::as_str);
    name.or(only).and_then(|name| module.kernel(name)).ok_or(Unrun::Kernels(names.len()))
}

/// The arguments of a launch: bytes with values at offsets.
#[derive(Clone, Debug)]
pub struct Arguments(Vec<u8>);

impl Arguments {
    /// So many bytes of zero.
    pub fn new(bytes: usize) -> Arguments {
        Arguments(vec![0; bytes])
    }

    /// The bytes of a struct.
    pub fn of(args: &impl bytemuck::NoUninit) -> Arguments {
        Arguments(bytemuck::bytes_of(args).to_vec())
    }

    /// These bytes at the start.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Arguments {
        self.0[..bytes.len()].copy_from_slice(bytes);
        self
    }

    fn with<const N: usize>(mut self, at: usize, value: [u8; N]) -> Arguments {
        self.0[at..at + N].copy_from_slice(&value);
        self
    }

    /// Addresses at these offsets.
    #[must_use]
    pub fn pointers(self, all: &[(usize, u64)]) -> Arguments {
        all.iter().fold(self, |arguments, &(at, address)| arguments.with(at, address.to_le_bytes()))
    }

    /// Whole numbers of 32 bits at these offsets.
    #[must_use]
    pub fn words(self, all: &[(usize, usize)]) -> Arguments {
        all.iter().fold(self, |arguments, &(at, value)| arguments.with(at, (value as u32).to_le_bytes()))
    }

    /// An f32 at this offset.
    #[must_use]
    pub fn float(self, at: usize, value: f32) -> Arguments {
        self.with(at, value.to_le_bytes())
    }

    /// Without what is behind so many bytes.
    #[must_use]
    pub fn cut(mut self, bytes: usize) -> Arguments {
        self.0.truncate(bytes);
        self
    }
}
