//! Pointers that C programs pass, as types that check for null: all that this library believes of a caller is here.
//!
//! The types have C's representation and cannot be made in Rust; they only come in through exported functions, whose
//! caller promises by HIP's reference that a pointer which is not null leads to what its type says, for as long as the
//! call lasts. That is the reason for every `unsafe` here.

use std::ffi::{CStr, c_char};

use crate::call::Result;
use crate::status::Status;

/// Where a result goes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Puts the result there.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for null.
    pub fn put(&self, value: T) -> Result {
        self.check()?;
        // SAFETY: not null, so the caller has promised room for a value there.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Puts the result there, unless the caller does not want it.
    pub fn put_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so the caller has promised room for a value there.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What is there: for arguments that are both.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for null.
    pub fn get(&self) -> Result<T> {
        self.check()?;
        // SAFETY: not null, so the caller has promised a value there.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Puts as many values there as the caller has said there is room for.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for null.
    pub fn put_all(&self, values: &[T]) -> Result {
        self.check()?;
        for (index, &value) in values.iter().enumerate() {
            // SAFETY: not null, so the caller has promised room for as many as it has said.
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Ok(())
    }

    /// The same place for a narrower type, where another argument says which it is.
    pub fn narrow<N>(&self) -> Out<N> {
        const { assert!(size_of::<N>() <= size_of::<T>()) }
        Out(self.0.cast())
    }

    /// Whether the caller does not want it.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// # Errors
    /// `hipErrorInvalidValue` for null, before anything is done that would have to be undone.
    pub fn check(&self) -> Result {
        if self.0.is_null() { Err(Status::INVALID_VALUE.into()) } else { Ok(()) }
    }
}

/// A value, or a list of values, to be read.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> In<T> {
    /// Nothing.
    pub fn null() -> In<T> {
        In(std::ptr::null())
    }
}

impl<T: Copy> In<T> {
    /// The value.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for null.
    pub fn get(&self) -> Result<T> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        // SAFETY: not null, so the caller has promised a value there.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// As many values as the caller has said; null is the same as none.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for null where there must be some.
    pub fn list(&self, count: usize) -> Result<Vec<T>> {
        if count > 0 && self.0.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        // SAFETY: not null, so the caller has promised as many values there.
        Ok((0..count).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }

    /// Whether there is none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// A text that ends with a zero.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// The text; bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for null.
    pub fn get(self) -> Result<String> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        // SAFETY: not null, so the caller has promised a text that ends with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }

    /// The text; empty for null.
    pub fn get_or_empty(self) -> String {
        self.get().unwrap_or_default()
    }
}

/// Bytes of host memory at an address that the caller has given together with their number.
///
/// # Safety
/// - HIP's caller has promised that `bytes` bytes can be read there, for as long as the slice is used.
pub unsafe fn host_bytes<'a>(address: u64, bytes: u64) -> &'a [u8] {
    let pointer = std::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: the caller's duty; callers exclude null.
    unsafe { std::slice::from_raw_parts(pointer, bytes as usize) }
}

/// As [`host_bytes`], to be written.
///
/// # Safety
/// - HIP's caller has promised that `bytes` bytes can be written there, and that nothing else uses them meanwhile.
pub unsafe fn host_bytes_mut<'a>(address: u64, bytes: u64) -> &'a mut [u8] {
    let pointer = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: the caller's duty; callers exclude null.
    unsafe { std::slice::from_raw_parts_mut(pointer, bytes as usize) }
}
