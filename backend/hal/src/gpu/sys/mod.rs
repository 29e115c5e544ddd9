//! Tables of the interfaces that AMD's and NVIDIA's libraries share under names of their own, a file for each.

pub(crate) mod blas;
pub(crate) mod compiler;
pub(crate) mod runtime;
