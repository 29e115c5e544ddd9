//! Tables of functions that only AMD's libraries have, one file per library.

pub mod amdhip64;
pub mod hipblaslt;
pub mod rocblas;
