//! The state of a wave in device memory: what a kernel takes it from before a case and puts it to after it.
//!
//! A slot is a dword for each of 64 lanes. Vector registers have a slot each, accumulation registers behind them; a scalar has
//! one too, which is the same in all lanes. LDS follows as it lies.

use std::fmt::Write as _;

use rocfire_emulator::filetest::{Case, FRESH, LDS_BYTES, Location, MEM_BYTES, Target, place, value};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 64 * 4;
/// The slot of `s0`; accumulation registers are numbered, and lie, between the vector registers and it.
const SCALARS: usize = 512;
/// The slot of SCC: behind every number of a scalar operand that is a register.
const SCC: usize = SCALARS + 128;
const MODE: usize = SCC + 1;
/// Where LDS begins, bytes.
pub const LDS: usize = (MODE + 1) * SLOT_BYTES;
/// Bytes of all of it.
pub const STATE_BYTES: usize = LDS + LDS_BYTES;

/// Where the slot of a vector register is, bytes.
pub fn vector(register: u16) -> usize {
    usize::from(register) * SLOT_BYTES
}

/// Where the slot of a scalar register is, by its number as an operand, bytes.
pub fn scalar(register: u16) -> usize {
    (SCALARS + usize::from(register)) * SLOT_BYTES
}

/// Where the slot of SCC is, bytes.
pub fn scc() -> usize {
    SCC * SLOT_BYTES
}

/// Where the slot of MODE is, bytes.
pub fn mode() -> usize {
    MODE * SLOT_BYTES
}

/// The state and the buffer of a case, on the host.
pub struct State {
    /// [`STATE_BYTES`].
    pub wave: Vec<u8>,
    /// [`MEM_BYTES`].
    pub mem: Vec<u8>,
}

impl State {
    /// What a case starts from; `mem_address` is where its buffer lies on the device.
    pub fn before(case: &Case, target: Target, mem_address: u64) -> Result<State, String> {
        let mut state = State { wave: vec![0; STATE_BYTES], mem: vec![0; MEM_BYTES as usize] };
        state.wave[LDS..].fill(FRESH);
        let exec = place("exec", target.lanes()).ok_or("EXEC is no place")?;
        let full = u64::MAX >> (64 - target.lanes());
        state.set(&exec, 0, 0, full as u32);
        state.set(&exec, 1, 0, (full >> 32) as u32);
        for (name, text) in &case.init {
            each(name, text, target, mem_address, |place, i, lane, value| state.set(place, i, lane, value))?;
        }
        Ok(state)
    }

    /// What differs from what the case expects, a line each.
    pub fn differences(&self, case: &Case, target: Target, mem_address: u64) -> Result<String, String> {
        let mut wrong = String::new();
        for (name, text) in &case.expect {
            each(name, text, target, mem_address, |place, i, lane, expected| {
                let got = self.get(place, i, lane);
                if got != expected {
                    let _ = write!(wrong, "\n  {name}, lane {lane}, dword {i}: {got:#010x}, expected {expected:#010x}");
                }
            })?;
        }
        Ok(wrong)
    }

    fn dword(&mut self, place: &Location, i: u16, lane: usize) -> &mut [u8] {
        let (bytes, at) = match *place {
            Location::Vector { first, .. } => (&mut self.wave, vector(first + i) + 4 * lane),
            Location::Scalar { first, .. } => (&mut self.wave, scalar(first + i)),
            Location::Scc => (&mut self.wave, scc()),
            Location::Mode => (&mut self.wave, mode()),
            Location::Lds(offset) => (&mut self.wave, LDS + offset as usize),
            Location::Mem(offset) => (&mut self.mem, offset as usize),
        };
        &mut bytes[at..at + 4]
    }

    fn set(&mut self, place: &Location, i: u16, lane: usize, value: u32) {
        self.dword(place, i, lane).copy_from_slice(&value.to_le_bytes());
    }

    fn get(&self, place: &Location, i: u16, lane: usize) -> u32 {
        let (bytes, at) = match *place {
            Location::Vector { first, .. } => (&self.wave, vector(first + i) + 4 * lane),
            Location::Scalar { first, .. } => (&self.wave, scalar(first + i)),
            Location::Scc => (&self.wave, scc()),
            Location::Mode => (&self.wave, mode()),
            Location::Lds(offset) => (&self.wave, LDS + offset as usize),
            Location::Mem(offset) => (&self.mem, offset as usize),
        };
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }
}

/// Calls `act` with each dword that a place covers, and its value.
fn each(
    name: &str,
    text: &str,
    target: Target,
    mem_address: u64,
    mut act: impl FnMut(&Location, u16, usize, u32),
) -> Result<(), String> {
    let place = place(name, target.lanes()).ok_or_else(|| format!("`{name}` is no place"))?;
    let (lanes, dwords) = place.extent();
    for lane in lanes {
        let value = value(text, lane, mem_address).ok_or_else(|| format!("`{text}` is no value"))?;
        for i in 0..dwords {
            act(&place, i, lane, (value >> (32 * i.min(1))) as u32);
        }
    }
    Ok(())
}
