//! Burn's operators: the traits in files of their names, what they share below.
//!
//! `view`, `memory`, `elementwise`, `fused`, `reduce`, `index`, `scan`, `sort`, `matmul` and `random` work on [`Tensor`]s of any
//! kind and return results; the trait methods only pick one and turn an error into the panic that Burn expects.

mod activation;
mod bool;
pub(crate) mod elementwise;
mod float;
pub(crate) mod fused;
mod index;
mod int;
pub(crate) mod matmul;
pub(crate) mod memory;
pub(crate) mod module;
mod quantized;
pub(crate) mod random;
mod reduce;
mod rows;
mod scan;
mod sort;
mod transaction;
pub(crate) mod view;

pub(crate) use quantized::{in_shape, refusal};
pub(crate) use random::{next_draw, seed};
pub(crate) use rows::float_unary;
pub(crate) use view::reshape;

use burn_backend::DType as BurnDType;
use burn_std::{BoolDType, FloatDType, IntDType};
use rocfire_hal::{DType, Tensor};

use crate::RocmTensor;
use crate::convert::to_hal;
use crate::error::{Error, OrPanic, Result};

/// A result as Burn takes it.
#[track_caller]
fn out<E: Into<Error>>(result: std::result::Result<Tensor, E>) -> RocmTensor {
    RocmTensor::new(result.map_err(E::into).or_panic())
}

/// Two results as Burn takes them.
#[track_caller]
fn pair(result: Result<(Tensor, Tensor)>) -> (RocmTensor, RocmTensor) {
    let (first, second) = result.or_panic();
    (RocmTensor::new(first), RocmTensor::new(second))
}

fn float_dtype(dtype: FloatDType) -> DType {
    to_hal(BurnDType::from(dtype)).expect("every float type of Burn's is stored as one of ours")
}

fn int_dtype(dtype: IntDType) -> DType {
    to_hal(BurnDType::from(dtype)).expect("every integer type of Burn's is stored as one of ours")
}

/// Bools as Burn takes them, under the name of the store that it asked for.
#[track_caller]
fn bools<E: Into<Error>>(store: BoolDType, result: std::result::Result<Tensor, E>) -> RocmTensor {
    out(result).with_store(store)
}
