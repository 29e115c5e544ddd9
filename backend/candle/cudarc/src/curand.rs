//! Random numbers by `rocfire_kernels::random`: Philox, which gives the same numbers for a seed on every device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rocfire_hal::{DType, Tensor};
use rocfire_kernels::random::{self, Seed};

use crate::driver::queue::Settled;
use crate::driver::{CudaStream, DevicePtrMut, DriverError};
use result::CurandError;

/// The error of drawing.
pub mod result {
    use crate::driver::DriverError;

    /// Why drawing failed, in rocfire's words.
    #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
    #[error("random numbers: {0}")]
    pub struct CurandError(pub DriverError);

    impl<E: Into<DriverError>> From<E> for CurandError {
        fn from(error: E) -> CurandError {
            CurandError(error.into())
        }
    }
}

/// A generator. Each draw's numbers depend on the seed and on how many draws came before.
#[derive(Debug)]
pub struct CudaRng {
    seed: u64,
    /// How many draws there were so far.
    draws: AtomicU64,
    stream: Arc<CudaStream>,
}

/// An element type of random numbers.
pub trait Sample: Copy + Into<f64> {
    /// The element type's value in [`DType`].
    const DTYPE: DType;
}

impl Sample for f32 {
    const DTYPE: DType = DType::F32;
}

impl Sample for f64 {
    const DTYPE: DType = DType::F64;
}

impl CudaRng {
    /// A generator that has drawn nothing yet.
    ///
    /// # Errors
    /// None.
    pub fn new(seed: u64, stream: Arc<CudaStream>) -> Result<CudaRng, CurandError> {
        Ok(CudaRng { seed, draws: AtomicU64::new(0), stream })
    }

    /// Draws uniformly from `[0, 1)`, as Candle's CPU device does. cuRAND draws from `(0, 1]`.
    ///
    /// # Errors
    /// As `rocfire_kernels::random::uniform`.
    pub fn fill_with_uniform<T: Sample, S: DevicePtrMut<T>>(&self, target: &mut S) -> Result<(), CurandError> {
        let settled = self.stream.settled();
        let Some(mut tensor) = self.target(&settled, target)? else { return Ok(()) };
        Ok(random::uniform(settled.stream(), self.next(), 0.0, 1.0, tensor.view_mut())?)
    }

    /// Draws from the normal distribution.
    ///
    /// # Errors
    /// As `rocfire_kernels::random::normal`.
    pub fn fill_with_normal<T: Sample, S: DevicePtrMut<T>>(
        &self,
        target: &mut S,
        mean: T,
        deviation: T,
    ) -> Result<(), CurandError> {
        let settled = self.stream.settled();
        let Some(mut tensor) = self.target(&settled, target)? else { return Ok(()) };
        Ok(random::normal(settled.stream(), self.next(), mean.into(), deviation.into(), tensor.view_mut())?)
    }

    fn next(&self) -> Seed {
        Seed { seed: self.seed, offset: self.draws.fetch_add(1, Ordering::Relaxed) }
    }

    fn target<T: Sample, S: DevicePtrMut<T>>(
        &self,
        settled: &Settled<'_>,
        target: &mut S,
    ) -> Result<Option<Tensor>, DriverError> {
        let len = target.len();
        let address = target.device_ptr_mut(&self.stream).0;
        if len == 0 {
            return Ok(None);
        }
        settled.tensor("the target", address, &[len], T::DTYPE).map(Some)
    }
}
