//! Tables of NVIDIA's functions, one file per library. The only place of this driver that calls them.

pub mod cublaslt;
pub mod libcuda;
pub mod nvrtc;

pub(super) use crate::foreign::Library;
pub(crate) use crate::foreign::table;
