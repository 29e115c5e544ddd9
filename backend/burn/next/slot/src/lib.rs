//! The place that Burn 0.23 keeps for cubecl's runtimes, filled by rocfire.
//!
//! Burn's dispatch is a closed enum; one of its variants is whatever Cargo resolves the package `burn-cubecl` to, and asks of it
//! the names below. This crate is that package and nothing else. Programs never name it; they patch it in, with `cubecl-hip`
//! beside it, turn on Burn's feature `rocm`, and write `Device::rocm(0)`, or `RocmDevice` of `rocfire-burn`.

pub use burn_backend::cubecl::Device as CubeDevice;
pub use cubecl;
pub use rocfire_burn::Fused as Cube;

/// Whether Burn's own layer of fusion stands before the backend. It does not: the recorder is inside.
pub const FUSED: bool = false;
