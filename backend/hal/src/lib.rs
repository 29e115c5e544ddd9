#![doc = include_str!("../README.md")]
// What only the drivers of cards call and construct.
#![cfg_attr(not(any(feature = "hip", feature = "cuda")), allow(dead_code))]
//!
//! # What there is
//!
//! The layer between tensors and drivers. A [`Device`] is opened by its [`DeviceId`] and owns a memory pool, a
//! [`Stream`] and loaded [`Module`]s; a [`Tensor`] is a share of a [`Buffer`] seen through a [`Layout`]. Kernels are
//! compiled from [`Source`] behind the prelude, kept on disk, and launched with one struct of arguments.
//!
//! Who checks what: launchers check shapes, types and aliasing; this crate checks that views lie inside their buffers and
//! that argument structs have the size the code object says; drivers check nothing and report everything. Four kinds of devices
//! stand behind the one trait in `driver.rs`, each a Cargo feature: `hip` (AMD GPUs) and `cuda` (NVIDIA's, by the same kernel
//! sources), which are one driver over two platforms, `emulated` (the emulator, in the process), `noop` (runs nothing).
//!
//! Callers are `fusion` and `kernels`, and through them the adapters. This crate knows no operator and no framework.
//!
//! # A kernel of one's own
//!
//! ```no_run
//! use rocfire_hal::profile::Work;
//! use rocfire_hal::{DType, Device, DeviceId, Launch, Source, Tensor};
//!
//! # fn main() -> rocfire_hal::Result<()> {
//! let source = Source::new(
//!     "double",
//!     "struct Args { float* x; unsigned n; };
//!      extern \"C\" __global__ void double_f32(Args a) {
//!          unsigned i = rf::group_x() * 256 + rf::thread_x();
//!          if (i < a.n) a.x[i] *= 2.0f;
//!      }",
//!     &[],
//! );
//! let device = Device::get(DeviceId::from_env()?)?;
//! let mut x = Tensor::from_bytes(&device, &[256], DType::F32, &[0; 1024])?;
//! let function = device.function(&source, "double_f32")?;
//! let mut args = x.view().device_address().to_le_bytes().to_vec();
//! args.extend([256_u32.to_le_bytes(), [0; 4]].concat()); // the struct, with what fills it up to its alignment
//! let launch = Launch {
//!     label: "double",
//!     grid: [1, 1, 1],
//!     block: [256, 1, 1],
//!     lds_bytes: 0,
//!     args: &args,
//!     outputs: &[x.buffer()],
//!     work: Work::default(),
//! };
//! // SAFETY: `args` is the kernel's struct; `x` has 256 elements, is alive until the call returns, and is all that is written.
//! unsafe { device.stream().launch(&function, &launch)? };
//! let doubled = x.to_bytes()?; // waits, and tells of what went wrong
//! # let _ = (doubled, &mut x);
//! # Ok(())
//! # }
//! ```

mod buffer;
pub mod collective;
mod command;
pub mod compile;
mod config;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod device_id;
pub mod doctor;
// A build without a real driver still has the trait that the others implement.
#[cfg_attr(not(any(feature = "hip", feature = "cuda", feature = "emulated")), allow(dead_code))]
mod driver;
mod dtype;
#[cfg(feature = "emulated")]
mod emulated;
mod error;
mod exit;
mod fault;
#[cfg(any(feature = "hip", feature = "cuda"))]
mod foreign;
#[cfg(any(feature = "hip", feature = "cuda"))]
mod gpu;
mod graph;
mod hazard;
#[cfg(feature = "hip")]
mod hip;
#[cfg(any(feature = "noop", feature = "emulated", test))]
mod host_device;
mod index_fault;
mod layout;
mod log;
#[cfg(feature = "emulated")]
pub mod modelled;
mod module;
#[cfg(feature = "noop")]
mod noop;
mod pool;
mod print;
pub mod profile;
mod queue;
pub mod replay;
mod rocm;
pub mod round;
mod staging;
mod stream;
mod tensor;
// A build without a real driver still has the door.
#[cfg_attr(not(any(feature = "hip", feature = "cuda")), allow(dead_code))]
pub mod vendor;
pub mod watch;

pub use buffer::Buffer;
pub use command::StreamName;
pub use compile::{KernelInfo, Source};
pub use config::{Checks, Config, Generic, Precision, SETTINGS, Setting};
pub use device::Device;
pub use device_id::{DeviceChoice, DeviceId, DriverKind};
pub use driver::DeviceInfo;
pub use dtype::DType;
#[cfg(feature = "emulated")]
pub use emulated::{emulator_options, stand_in};
pub use error::{Error, Result};
pub use fault::Fault;
pub use graph::Graph;
pub use hazard::{Access, Bytes, Dependencies, Hazards};
pub use index_fault::IndexFault;
pub use layout::{Dims, Layout, MAX_RANK};
pub use log::Level;
pub use module::{Function, Module};
pub use pool::{MemoryStats, SegmentStats};
#[cfg(feature = "emulated")]
pub use print::print;
pub use queue::JoinedKernel;
pub use stream::{Event, HostCopy, Launch, Stream};
pub use tensor::{Tensor, View, ViewMut};
