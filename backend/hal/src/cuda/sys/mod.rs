//! Tables of functions that only NVIDIA's libraries have, one file per library.

pub mod cublaslt;
pub mod libcuda;
pub mod nvrtc;
