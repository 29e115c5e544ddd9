//! What `Fused` makes of Burn's streams: how many launches, and the numbers that `Rocm` gives one by one.
//!
//! Launches are counted by the device, which all tests share, so each test that counts holds a lock. Programs are written
//! against `Backend`, as Burn's modules hand them down: softmax, layer normalisation and the rest arrive as primitives.

mod attention;
mod bits;
#[path = "../ops/check.rs"]
#[allow(dead_code, unused_macros, unused_imports)]
mod check;
mod convolution;
mod elementwise;
mod graph;
mod harness;
mod limits;
mod matmul;
mod moved;
mod narrow;
mod norm;
mod nothing;
#[path = "../ops/outcomes.rs"]
mod outcomes;
mod outside;
mod programs;
mod quantized;
mod random;
mod recompute;
mod report;
mod rows;
mod threads;
mod training;
#[path = "../version/mod.rs"]
#[allow(dead_code)]
mod version;
mod views;
