//! Arithmetic of the vector unit as pure functions of values: no wave, no registers, no modes held anywhere.
//!
//! Everything here yields the same bits on every host and for every CPU variant. Only `+ - * /`, square root and the exact fused
//! multiply-add of [`Cpu`] are used, never a math library whose last bit may differ. Where AMD documents an error bound
//! instead of bits (`v_rcp`, `v_exp`, …) the functions are our own and stay within that bound.
//!
//! The instruction handlers in `exec` call it. It does not know about EXEC, modifiers, or denormal *modes*: the caller applies a
//! flushing mode to sources and results with [`flush_f32`] and its siblings.

mod class;
mod convert;
mod cpu;
mod cube;
mod directed;
mod division;
mod float8;
mod fma;
mod half_float;
mod integer;
mod minmax;
mod nan;
mod round;
mod sad;
#[cfg(test)]
pub(crate) mod tests_support;
mod transcendental;
mod trig_preop;

pub(crate) use class::{class_f16, class_f32, class_f64};
pub(crate) use convert::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use cpu::{Avx2, Avx512};
pub(crate) use cpu::{Baseline, Body, Cpu};
pub(crate) use cube::{cube_id, cube_ma, cube_sc, cube_tc};
pub(crate) use directed::*;
pub(crate) use division::*;
pub(crate) use float8::{Float8, e8m0_to_f32, f32_to_float8, f32_to_float8_stochastic, float8_to_f32};
#[cfg(test)]
pub(crate) use fma::{fma_f32_soft, fma_f64_scaled, fma_f64_soft};
pub(crate) use fma::{fma_f64_directed, round_odd_f32};
pub(crate) use half_float::*;
pub(crate) use integer::*;
pub(crate) use minmax::*;
pub(crate) use nan::*;
pub(crate) use round::*;
pub(crate) use sad::*;
pub(crate) use transcendental::*;
pub(crate) use trig_preop::trig_preop_f64;
