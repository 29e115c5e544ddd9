//! Codes that an operator lays out of a tensor once, for as long as it is given the same one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rocfire_hal::{Stream, Tensor};

use crate::Result;
use crate::quant::{Format, PreshuffledStack};

/// The matrices of experts laid out, as [`q_matmul_preshuffled_grouped`](crate::quant::q_matmul_preshuffled_grouped) takes them: when they are
/// first multiplied by codes, and anew for other codes than those of the call before. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MatrixLayout(Arc<Kept<PreshuffledStack>>);

impl MatrixLayout {
    /// Whether it has matrices that lie in tiles: not before they were multiplied by, nor where that gains nothing.
    pub fn is_laid_out(&self) -> bool {
        let kept = self.0.of.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().is_some_and(|(_, stack)| stack.is_laid_out())
    }

    /// `multiply` by the matrices of these codes.
    pub(super) fn with<T>(
        &self,
        (stream, format): (&Stream, Format),
        codes: &Tensor,
        multiply: impl FnOnce(&PreshuffledStack) -> Result<T>,
    ) -> Result<T> {
        self.0.with(codes, || PreshuffledStack::new(stream, format, codes), multiply)
    }
}

/// What was made of a tensor, which it keeps as well, so that no other can come to lie where it does.
pub(super) struct Kept<T> {
    of: Mutex<Option<(Tensor, T)>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept { of: Mutex::new(None) }
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl<T> Kept<T> {
    /// `take` what was made of this tensor, or is now.
    pub fn with<R>(
        &self,
        of: &Tensor,
        make: impl FnOnce() -> Result<T>,
        take: impl FnOnce(&T) -> Result<R>,
    ) -> Result<R> {
        let mut kept = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |codes: &Tensor| codes.buffer().same(of.buffer()) && codes.layout() == of.layout();
        let made = match kept.take().filter(|(codes, _)| same(codes)) {
            Some((_, made)) => made,
            None => make()?,
        };
        take(&kept.insert((of.clone(), made)).1)
    }
}
