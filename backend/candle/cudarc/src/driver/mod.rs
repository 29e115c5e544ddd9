//! Contexts, streams, memory, modules and launches: cudarc's module `driver`.

mod context;
mod error;
mod host;
mod launch;
mod memory;
mod module;
pub(crate) mod pointer;
pub(crate) mod queue;
pub mod result;
mod shared;
mod stream;
pub mod sys;

pub use context::CudaContext;
pub use error::DriverError;
pub use host::{DeviceRepr, HostSlice, ValidAsZeroBits};
pub(crate) use launch::Value;
pub use launch::{LaunchArgs, LaunchConfig, PushKernelArg};
pub use memory::{CudaSlice, CudaView, CudaViewMut};
pub use module::{CudaFunction, CudaModule};
pub(crate) use module::{Kernel, Runs};
pub use pointer::{DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
pub use stream::CudaStream;

/// The same names by the second path that cudarc has for them.
pub mod safe {
    pub use super::{
        CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut,
        DeviceRepr, DeviceSlice, DriverError, HostSlice, LaunchArgs, LaunchConfig, PushKernelArg, SyncOnDrop,
        ValidAsZeroBits,
    };
}
