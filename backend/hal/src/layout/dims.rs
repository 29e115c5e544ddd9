//! A shape without a heap allocation.

use std::fmt;
use std::ops::Deref;

use crate::{Error, Result};

/// Most axes a tensor can have.
pub const MAX_RANK: usize = 8;

/// The extents of a tensor's axes, slowest first; a `[usize]` of at most [`MAX_RANK`] elements, stored inline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dims {
    /// Extents past `rank` are zero, so that equality and hash may look at the whole.
    extents: [usize; MAX_RANK],
    rank: u8,
}

impl Dims {
    /// The extents of a slice.
    ///
    /// # Errors
    /// [`Error::Rank`] for more than [`MAX_RANK`] axes.
    #[inline]
    pub fn new(extents: &[usize]) -> Result<Dims> {
        if extents.len() > MAX_RANK {
            return Err(Error::Rank { rank: extents.len() });
        }
        let mut dims = Dims { extents: [0; MAX_RANK], rank: extents.len() as u8 };
        dims.extents[..extents.len()].copy_from_slice(extents);
        Ok(dims)
    }

    /// Number of elements: the product, 1 for rank 0.
    #[inline]
    pub fn elements(&self) -> usize {
        // Without the test, extents around a zero could overflow on the way to it.
        if self.contains(&0) { 0 } else { self.iter().product() }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [usize] {
        &mut self.extents[..usize::from(self.rank)]
    }
}

impl Deref for Dims {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.extents[..usize::from(self.rank)]
    }
}

impl TryFrom<&[usize]> for Dims {
    type Error = Error;
    fn try_from(extents: &[usize]) -> Result<Dims> {
        Dims::new(extents)
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
