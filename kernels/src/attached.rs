//! What the library keeps with a device, each made when it is first asked for.

use std::sync::{Arc, OnceLock};

use rocfire_hal::Device;

use crate::aiter::Tier;
use crate::tuning::Tables;

/// The one type that is attached to a device.
#[derive(Default)]
pub(crate) struct Attached {
    tables: OnceLock<Tables>,
    aiter: OnceLock<Tier>,
}

impl Attached {
    /// What is kept with a device. Allocates nothing after the first call.
    pub fn of(device: &Device) -> Arc<Attached> {
        device.attached(|_| Attached::default())
    }

    /// The tables that its shapes are looked up in.
    pub fn tables(&self, device: &Device) -> &Tables {
        self.tables.get_or_init(|| Tables::of(device))
    }

    /// What it has of AITER's kernels.
    pub fn aiter(&self, device: &Device) -> &Tier {
        self.aiter.get_or_init(|| Tier::of(device))
    }
}
