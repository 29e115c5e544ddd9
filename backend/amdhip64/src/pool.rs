//! Memory pools: all of them take their memory where `hipMalloc` does, count it, and keep nothing back when it is freed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};

use crate::call::{Failure, Result, export};
use crate::foreign::{In, Out};
use crate::handle::{Handle, Table};
use crate::memory;
use crate::peers;
use crate::runtime::{healthy, lock, runtime};
use crate::status::Status;

/// `hipMemAllocationTypePinned` and `hipMemLocationTypeDevice`.
const PINNED: c_int = 1;
const ON_DEVICE: c_int = 1;
/// `hipMemAccessFlagsProtNone` and `…ProtReadWrite`.
const NO_ACCESS: c_int = 0;
const ALL_ACCESS: c_int = 3;

/// `hipMemPoolAttr`.
mod attribute {
    use std::ffi::c_int;
    /// The first and last of those that say how memory is used again: numbers of 32 bits.
    pub const REUSE: std::ops::RangeInclusive<c_int> = 1..=3;
    pub const RELEASE_THRESHOLD: c_int = 4;
    pub const RESERVED: c_int = 5;
    pub const RESERVED_HIGH: c_int = 6;
    pub const USED: c_int = 7;
    pub const USED_HIGH: c_int = 8;
}

/// `hipMemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Location {
    kind: c_int,
    id: c_int,
}

/// `hipMemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Access {
    location: Location,
    flags: c_int,
}

/// `hipMemPoolProps`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Properties {
    kind: c_int,
    handles: c_int,
    location: Location,
    security: u64,
    most_bytes: u64,
    reserved: [u8; 56],
}

struct Pool {
    device: c_int,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: u64,
    high: u64,
    threshold: u64,
    reuse: [c_int; 3],
    /// What other devices may do.
    access: BTreeMap<c_int, c_int>,
}

static POOLS: LazyLock<Table<Pool>> = LazyLock::new(Table::default);

/// Which pools devices have, and which pool memory is of.
#[derive(Default)]
struct Places {
    default: BTreeMap<c_int, Handle>,
    current: BTreeMap<c_int, Handle>,
    blocks: HashMap<u64, (Handle, u64)>,
}

static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);

fn pool(handle: Handle) -> Result<std::sync::Arc<Pool>> {
    POOLS.get(handle).ok_or_else(|| Status::INVALID_VALUE.into())
}

fn device_exists(device: c_int) -> Result {
    let exists = (0..runtime()?.devices).contains(&device);
    if exists { Ok(()) } else { Err(Status::INVALID_DEVICE.into()) }
}

fn default_of(device: c_int) -> Result<Handle> {
    device_exists(device)?;
    let made = || POOLS.insert(Pool { device, state: Mutex::default() });
    Ok(*lock(&PLACES).default.entry(device).or_insert_with(made))
}

fn current_of(device: c_int) -> Result<Handle> {
    let chosen = lock(&PLACES).current.get(&device).copied();
    chosen.map_or_else(|| default_of(device), Ok)
}

fn allocate_from(handle: Handle, bytes: u64) -> Result<u64> {
    let pool = pool(handle)?;
    let address = memory::allocate_device(healthy()?, bytes)?;
    if address != 0 {
        lock(&PLACES).blocks.insert(address, (handle, bytes));
        let mut state = lock(&pool.state);
        state.used += bytes;
        state.high = state.high.max(state.used);
    }
    Ok(address)
}

/// Memory of the current pool of the thread's device.
///
/// # Errors
/// As `hipMalloc`.
pub fn allocate(bytes: u64) -> Result<u64> {
    allocate_from(current_of(peers::current())?, bytes)
}

/// Memory has been freed; its pool has it no longer.
pub fn freed(address: u64) {
    let Some((handle, bytes)) = lock(&PLACES).blocks.remove(&address) else { return };
    if let Some(pool) = POOLS.get(handle) {
        let mut state = lock(&pool.state);
        state.used = state.used.saturating_sub(bytes);
    }
}

export! {
    /// `hipDeviceGetDefaultMemPool`
    fn hipDeviceGetDefaultMemPool(out: Out<Handle>, device: c_int) {
        out.check()?;
        out.put(default_of(device)?)
    }

    /// `hipDeviceGetMemPool`
    fn hipDeviceGetMemPool(out: Out<Handle>, device: c_int) {
        out.check()?;
        device_exists(device)?;
        out.put(current_of(device)?)
    }

    /// `hipDeviceSetMemPool`
    fn hipDeviceSetMemPool(device: c_int, handle: Handle) {
        device_exists(device)?;
        if pool(handle)?.device != device {
            return Err(Status::INVALID_DEVICE.into());
        }
        lock(&PLACES).current.insert(device, handle);
        Ok(())
    }

    /// `hipMemPoolCreate`
    fn hipMemPoolCreate(out: Out<Handle>, with: In<Properties>) {
        out.check()?;
        let Properties { kind, handles, location, .. } = with.get()?;
        if kind != PINNED || location.kind != ON_DEVICE {
            return Err(Status::INVALID_VALUE.into());
        }
        device_exists(location.id)?;
        if handles != 0 {
            return Err(Failure::new(Status::NOT_SUPPORTED, "pools that other processes share are not emulated"));
        }
        out.put(POOLS.insert(Pool { device: location.id, state: Mutex::default() }))
    }

    /// `hipMemPoolDestroy`: its memory lives until it is freed.
    fn hipMemPoolDestroy(handle: Handle) {
        let device = pool(handle)?.device;
        let mut places = lock(&PLACES);
        if places.default.get(&device) == Some(&handle) {
            return Err(Failure::new(Status::INVALID_VALUE, "a device keeps its default pool"));
        }
        places.current.retain(|_, current| *current != handle);
        POOLS.remove(handle);
        Ok(())
    }

    /// `hipMemPoolTrimTo`: nothing is kept back.
    fn hipMemPoolTrimTo(handle: Handle, _bytes: u64) {
        pool(handle).map(|_| ())
    }

    /// `hipMemPoolSetAttribute`: they are kept, and change nothing.
    fn hipMemPoolSetAttribute(handle: Handle, which: c_int, value: Out<u64>) {
        let pool = pool(handle)?;
        let mut state = lock(&pool.state);
        match which {
            which if attribute::REUSE.contains(&which) => {
                state.reuse[which as usize - 1] = value.narrow::<c_int>().get()?;
            }
            attribute::RELEASE_THRESHOLD => state.threshold = value.get()?,
            attribute::RESERVED_HIGH | attribute::USED_HIGH if value.get()? == 0 => state.high = state.used,
            _ => return Err(Status::INVALID_VALUE.into()),
        }
        Ok(())
    }

    /// `hipMemPoolGetAttribute`
    fn hipMemPoolGetAttribute(handle: Handle, which: c_int, value: Out<u64>) {
        let pool = pool(handle)?;
        let state = lock(&pool.state);
        match which {
            which if attribute::REUSE.contains(&which) => value.narrow::<c_int>().put(state.reuse[which as usize - 1]),
            attribute::RELEASE_THRESHOLD => value.put(state.threshold),
            attribute::RESERVED | attribute::USED => value.put(state.used),
            attribute::RESERVED_HIGH | attribute::USED_HIGH => value.put(state.high),
            _ => Err(Status::INVALID_VALUE.into()),
        }
    }

    /// `hipMemPoolSetAccess`
    fn hipMemPoolSetAccess(handle: Handle, list: In<Access>, count: u64) {
        let pool = pool(handle)?;
        for Access { location, flags } in list.list(count as usize)? {
            device_exists(location.id)?;
            if location.kind != ON_DEVICE || (location.id == pool.device && flags == NO_ACCESS) {
                return Err(Status::INVALID_VALUE.into());
            }
            lock(&pool.state).access.insert(location.id, flags);
        }
        Ok(())
    }

    /// `hipMemPoolGetAccess`
    fn hipMemPoolGetAccess(flags: Out<c_int>, handle: Handle, location: In<Location>) {
        flags.check()?;
        let (pool, location) = (pool(handle)?, location.get()?);
        device_exists(location.id)?;
        let own = if location.id == pool.device { ALL_ACCESS } else { NO_ACCESS };
        let given = lock(&pool.state).access.get(&location.id).copied();
        flags.put(given.unwrap_or(own))
    }

    /// `hipMallocFromPoolAsync`
    fn hipMallocFromPoolAsync(address: Out<u64>, bytes: u64, handle: Handle, stream: Handle) {
        address.check()?;
        healthy()?.not_capturing(stream)?;
        address.put(allocate_from(handle, bytes)?)
    }
}
