//! The place that Burn 0.22 keeps for LibTorch, filled by rocfire.
//!
//! Burn's dispatch is a closed enum; one of its variants is whatever Cargo resolves the package `burn-tch` to, and asks
//! of it the two names below. This crate is that package and nothing else: it gives the backend of `rocfire-burn` the
//! names that Burn expects, so the deprecated word LibTorch occurs nowhere else. Programs never name this crate; they
//! patch it in, depend on `rocfire-burn`, and write `RocmDevice`. Burn 0.23 has another: `../next`.

pub use rocfire_burn::{Fused as LibTorch, RocmDevice as LibTorchDevice};
