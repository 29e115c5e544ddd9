//! Every operator of the backend against Burn's CPU backend, on the emulated GPU.
//!
//! The cases are small, since what is tested is the operator's meaning and its composition; kernels have their own tests
//! with their own oracles. Shapes include 1, primes, nothing at all, broadcasts and views.

mod activation;
#[cfg(feature = "next")]
mod added;
mod attention;
mod check;
mod ctc;
mod custom;
mod devices;
mod dtypes;
mod elementwise;
mod errors;
mod index;
mod integers;
mod matmul;
mod modules;
mod nothing;
mod operators;
mod outcomes;
mod pooling;
mod quantized;
mod random;
mod reduce;
mod shape;
#[path = "../version/mod.rs"]
#[allow(dead_code)]
mod version;
