//! Indices outside their axis: how kernels tell of the first one, and how the host finds out.
//!
//! A kernel that follows indices reads nothing and writes nothing for one that is outside. Whoever asked for it should be told,
//! as a CPU would tell: so the branch that such an index takes, and no other, notes operator, index and extent in a record of
//! the device. The record lies where the host can look without asking the device, and it looks when it has waited anyway: at
//! reads and at [`crate::Stream::synchronize`]. Nothing is launched, copied or allocated for it.
//!
//! A kernel finds the record through a variable of its module, [`VARIABLE`], which is filled in when the module is loaded. So
//! no argument carries it, a recorded graph needs nothing, and where `ROCFIRE_CHECK_INDEX=0` leaves the variable zero the same
//! code objects tell nothing.
//!
//! Of several such indices one is reported, that of the lane that came first. The emulator runs the workgroups of such kernels in
//! their order, so there it is the same one every time.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::driver::{Driver, DriverModule};
use crate::{Error, Result};

/// The variable: two addresses, `rf::IndexRecord` of the prelude. A source says that it has one by `RF_CHECKS_INDICES`.
const VARIABLE: &str = "rf_index_record";
/// What the text of a source that has the variable contains.
const DECLARATION: &str = "RF_CHECKS_INDICES";

/// Words of [`IndexMemory::details`]: whether the others are there, the operator's name, index, extent.
pub(crate) const DETAIL_WORDS: usize = 6;
const NAME: std::ops::Range<usize> = 1..4;
const INDEX: usize = 4;
const EXTENT: usize = 5;

/// An index that was not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFault {
    /// The operator.
    pub op: String,
    /// The index; of an unsigned type of 64 bits, as if it were signed.
    pub index: i64,
    /// The extent of the axis that it should be in.
    pub extent: i64,
}

impl fmt::Display for IndexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexFault { op, index, extent } = self;
        write!(
            f,
            "{op}: index {index} is outside an axis of {extent} elements; it was not followed: zeros were read, or nothing was \
             written (ROCFIRE_CHECK_INDEX=0 leaves it at that)"
        )
    }
}

/// What a driver says that finds no variable of this name and size.
pub(crate) fn no_variable(name: &'static str, value: &[u8]) -> Error {
    Error::CodeObject { name: name.to_owned(), reason: format!("no variable of {} bytes", value.len()) }
}

/// Where a device's record is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexMemory {
    /// A word of device memory, which the first lane to tell takes.
    pub claim: u64,
    /// The device's address of the other words.
    pub details: u64,
    /// The host's address of them, where it has one.
    pub host: Option<HostWords>,
}

/// [`DETAIL_WORDS`] words that device and host both see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostWords(pub *mut u64);

// SAFETY: the words are alive as long as the driver, and are accessed by volatile reads and writes only.
unsafe impl Send for HostWords {}
// SAFETY: as above; the host changes them under `IndexRecord`'s lock.
unsafe impl Sync for HostWords {}

/// A device's record.
#[derive(Debug)]
pub(crate) struct IndexRecord {
    wanted: bool,
    /// `None` where the driver runs no kernels.
    memory: OnceLock<Option<IndexMemory>>,
    taking: Mutex<()>,
}

impl IndexRecord {
    pub fn new(wanted: bool) -> IndexRecord {
        IndexRecord { wanted, memory: OnceLock::new(), taking: Mutex::new(()) }
    }

    /// Tells a module that was just loaded where the record is, if its source says that it wants to know.
    pub fn attach(&self, driver: &dyn Driver, module: &dyn DriverModule, text: &str) -> Result<()> {
        if !self.wanted || !text.contains(DECLARATION) {
            return Ok(());
        }
        let _one = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match self.memory.get() {
            Some(memory) => *memory,
            None => {
                let made = driver.index_memory()?;
                *self.memory.get_or_init(|| made)
            }
        };
        let Some(IndexMemory { claim, details, .. }) = memory else { return Ok(()) };
        module.set_variable(VARIABLE, &[claim.to_le_bytes(), details.to_le_bytes()].concat())
    }

    /// What a kernel told since the last time; the device has been waited for.
    pub fn take(&self, driver: &dyn Driver) -> Result<Option<IndexFault>> {
        let Some(Some(memory)) = self.memory.get() else { return Ok(None) };
        if let Some(host) = memory.host
            && !host.is_filled()
        {
            return Ok(None);
        }
        let _one = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let words = memory.words(driver)?;
        if words[0] == 0 {
            return Ok(None);
        }
        memory.clear(driver)?;
        let name: Vec<u8> =
            words[NAME].iter().flat_map(|word| word.to_le_bytes()).take_while(|&byte| byte != 0).collect();
        Ok(Some(IndexFault {
            op: String::from_utf8_lossy(&name).into_owned(),
            index: words[INDEX] as i64,
            extent: words[EXTENT] as i64,
        }))
    }
}

impl HostWords {
    fn is_filled(self) -> bool {
        // SAFETY: the words are alive while the driver is, and the driver is the caller's.
        unsafe { self.0.read_volatile() != 0 }
    }
}

impl IndexMemory {
    fn words(&self, driver: &dyn Driver) -> Result<[u64; DETAIL_WORDS]> {
        let mut words = [0; DETAIL_WORDS];
        match self.host {
            Some(host) => words.iter_mut().enumerate().for_each(|(at, word)| {
                // SAFETY: there are as many words, alive while the driver is.
                *word = unsafe { host.0.add(at).read_volatile() };
            }),
            None => {
                let mut bytes = [0; DETAIL_WORDS * size_of::<u64>()];
                // SAFETY: the words are one block of the driver's, which is never freed.
                unsafe { driver.read(self.details, &mut bytes)? };
                for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                    *word = u64::from_le_bytes(*bytes);
                }
            }
        }
        Ok(words)
    }

    /// Makes room for the next: the host's view at once, the claim in the order of the stream.
    fn clear(&self, driver: &dyn Driver) -> Result<()> {
        match self.host {
            // SAFETY: the word is alive while the driver is; no kernel writes it before it has taken the claim anew.
            Some(host) => unsafe { host.0.write_volatile(0) },
            // SAFETY: the words are one block of the driver's, which is never freed.
            None => unsafe { driver.fill(self.details, 0, size_of::<u64>() as u64)? },
        }
        // SAFETY: as above.
        unsafe { driver.fill(self.claim, 0, size_of::<u64>() as u64) }
    }
}
