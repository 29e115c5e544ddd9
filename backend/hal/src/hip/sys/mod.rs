//! Tables of AMD's functions, one file per library. The only place of this driver that calls them.

pub mod amdhip64;
pub mod hipblaslt;
pub mod hiprtc;
pub mod rocblas;

pub(super) use crate::foreign::Library;
pub(crate) use crate::foreign::table;
