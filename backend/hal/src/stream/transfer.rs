//! Copies of several ranges to the host, and copies between devices.

use super::Stream;
#[cfg(doc)]
use crate::Error;
use crate::{Buffer, Result};

/// What is copied at a time between devices that reach each other through the host only.
const STAGE_BYTES: u64 = 16 << 20;

/// A range of a buffer and where it goes.
#[derive(Debug)]
pub struct HostCopy<'a> {
    /// From.
    pub source: &'a Buffer,
    /// Where the range begins.
    pub first_byte: u64,
    /// To; as long as the range.
    pub target: &'a mut [u8],
}

impl Stream {
    /// Copies ranges to host memory, after all work so far; the device is waited for once, however many there are.
    ///
    /// # Errors
    /// As [`Stream::copy_to_host`].
    pub fn copy_all_to_host(&self, copies: &mut [HostCopy<'_>]) -> Result<()> {
        for HostCopy { source, first_byte, target } in copies.iter() {
            self.require_range("copy_to_host", "source", source, *first_byte, target.len() as u64)?;
        }
        self.refuse_in_capture("a copy to the host")?;
        self.settle_all();
        let poisoned = copies.iter().find(|copy| copy.source.poison().is_some());
        self.raise(poisoned.map(|copy| copy.source))?;
        let bytes: usize = copies.iter().map(|copy| copy.target.len()).sum();
        if bytes == 0 {
            return Ok(());
        }
        let mut parts: Vec<(u64, &mut [u8])> = Vec::with_capacity(copies.len());
        for HostCopy { source, first_byte, target } in copies.iter_mut().filter(|copy| !copy.target.is_empty()) {
            parts.push((source.device_address() + *first_byte, &mut **target));
        }
        // SAFETY: the ranges were checked to lie in their buffers, each of which is one live block.
        self.timed("copy to the host", bytes as u64, || unsafe { self.staging.read(&mut parts) })?;
        self.resolve_profile();
        self.tell()
    }

    /// Copies `bytes` from a buffer of another device to one of this, each from its own first byte: from device to device where
    /// the driver can, else through the host, which then waits. What comes later on either device comes after it.
    ///
    /// # Errors
    /// [`Error::Shape`] if either buffer ends before; [`Error::Capture`] while either device records a graph; through the host
    /// also as [`Stream::copy_to_host`]; the drivers' own.
    pub fn copy_from_device(
        &self,
        source: &Buffer,
        source_byte: u64,
        target: &Buffer,
        target_byte: u64,
        bytes: u64,
    ) -> Result<()> {
        let other = source.device().stream();
        if std::ptr::eq(other, self) {
            return self.copy(source, source_byte, target, target_byte, bytes);
        }
        other.require_range("copy_from_device", "source", source, source_byte, bytes)?;
        self.require_range("copy_from_device", "target", target, target_byte, bytes)?;
        other.refuse_in_capture("a copy to another device")?;
        self.refuse_in_capture("a copy from another device")?;
        if bytes == 0 {
            return Ok(());
        }
        other.settle_for(source);
        self.settle_for(target);
        other.drain_all();
        self.drain_all();
        let (to, from) = (target.device_address() + target_byte, source.device_address() + source_byte);
        let mut copied = false;
        self.timed("copy between devices", bytes, || {
            // SAFETY: both ranges were checked to lie in their buffers, each one live block of its device.
            copied = unsafe { self.driver.copy_from(to, &*other.driver, from, bytes)? };
            Ok(())
        })?;
        if !copied {
            let mut staged = vec![0; STAGE_BYTES.min(bytes) as usize];
            for first in (0..bytes).step_by(staged.len()) {
                let part = staged.len().min((bytes - first) as usize);
                other.copy_to_host(source, source_byte + first, &mut staged[..part])?;
                self.copy_to_device(&staged[..part], target, target_byte + first)?;
            }
        }
        match source.poison() {
            Some(fault) => target.set_poison(Some(fault)),
            None => self.written(target, bytes),
        }
        Ok(())
    }
}
