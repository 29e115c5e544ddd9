//! What can go wrong: [`Error`] for calls, [`Fault`] for what a kernel did.

use std::fmt;

use rocfire_arch::Arch;

/// Why a call on the emulated device failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No instruction tables exist for this architecture's family.
    #[error("{arch} cannot be emulated yet")]
    UnsupportedArch {
        /// The architecture asked for.
        arch: Arch,
    },
    /// The device memory is full. The device stays usable.
    #[error("out of device memory: {requested} bytes requested, {free} of {capacity} free")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes not allocated.
        free: u64,
        /// Bytes that the device has.
        capacity: u64,
    },
    /// An address given by the host is no allocation, or a range leaves its allocation.
    #[error("{call}: {bytes} bytes at {address:#x} are not inside an allocation ({nearest})")]
    BadAddress {
        /// The call.
        call: &'static str,
        /// Its address.
        address: u64,
        /// Its length.
        bytes: u64,
        /// What is closest.
        nearest: Nearest,
    },
    /// The bytes are no code object that this device can load.
    #[error("cannot load code object: {reason}")]
    BadCodeObject {
        /// What is wrong with it.
        reason: String,
    },
    /// A launch whose numbers the kernel or the device does not allow.
    #[error("cannot launch {kernel}: {reason}")]
    BadLaunch {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
    /// A kernel did what it must not.
    #[error(transparent)]
    Fault(Box<Fault>),
}

/// What a kernel did wrong, and where.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// Name of the kernel that was launched.
    pub kernel: String,
    /// Guest address of the instruction.
    pub pc: u64,
    /// Byte offset of the instruction from the start of its code section, as a disassembler prints it.
    pub code_offset_bytes: u64,
    /// Its text.
    pub disassembly: String,
    /// Which workgroup.
    pub workgroup: [u32; 3],
    /// Which wave of the workgroup.
    pub wave: u32,
    /// Which lane, where one lane is to blame; the first of `lanes`.
    pub lane: Option<u32>,
    /// All lanes to blame, a bit each; zero where no lane is.
    pub lanes: u64,
    /// Where in the source, if the code object has line tables: `file:line:column (function)`, and where that was inlined.
    pub source: Option<String>,
    /// The address, for a bad access: guest address, or offset in LDS or scratch.
    pub address: Option<u64>,
    /// Bytes accessed there by the lane.
    pub bytes: u32,
    /// The allocation closest to the address, for accesses of device memory.
    pub nearest: Nearest,
}

impl std::error::Error for Fault {}

impl Fault {
    /// Names the lines of the instructions that it speaks of, by a function of their byte offset in the code section. Lines
    /// that are known stay.
    pub fn name_lines(&mut self, source_of: impl Fn(u64) -> Option<String>) {
        self.source = self.source.take().or_else(|| source_of(self.code_offset_bytes));
        if let FaultKind::LdsRace { other, .. } | FaultKind::GlobalRace { other, .. } = &mut self.kind {
            other.source = other.source.take().or_else(|| source_of(other.code_offset_bytes));
        }
    }
}

/// Kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Access outside every allocation, or outside the bytes asked for.
    OutOfBounds(Access),
    /// Access to a block that was freed.
    UseAfterFree(Access),
    /// Write to code, kernel arguments or constants.
    ReadOnly,
    /// Access outside the workgroup's LDS.
    LdsOutOfBounds {
        /// Bytes that the workgroup has.
        lds_bytes: u32,
    },
    /// Access outside the lane's scratch memory.
    ScratchOutOfBounds {
        /// Bytes that each lane has.
        scratch_bytes: u32,
    },
    /// An atomic operation whose address is no multiple of its size.
    Misaligned,
    /// The bytes are no instruction, or one that the emulator does not have.
    UnknownInstruction,
    /// A jump to where no instruction starts.
    BadJump,
    /// A wave ran more instructions than [`Options::step_limit`](crate::Options::step_limit).
    StepLimit {
        /// The limit.
        limit: u64,
    },
    /// A wave ran for far longer than as many instructions should take; see [`Options::step_limit`](crate::Options::step_limit).
    ClockLimit {
        /// The limit.
        seconds: u64,
    },
    /// A wave does the same over and over, and waits for what nobody will write.
    EndlessWait(Wait),
    /// Waves of a workgroup wait at a barrier that others, which have ended, never reached.
    BarrierDivergence {
        /// The waves that have ended, a bit each.
        ended: u64,
    },
    /// Something depends on what nobody wrote.
    Unwritten {
        /// What depends on it: an address, a branch, a stored value.
        what: String,
        /// What nobody wrote, and where it was first read.
        origin: String,
    },
    /// A register, or LDS, is used before the wait for the load that fills it; or memory after a barrier that does not order
    /// it behind another wave's store.
    NotWaitedFor {
        /// The register, or the memory.
        what: String,
        /// Whether it is overwritten, and not read.
        overwrites: bool,
        /// The counter that should have been waited for.
        counter: &'static str,
        /// The load; or the store, of another wave.
        by: String,
        /// Where that is in the code.
        by_code_offset_bytes: u64,
        /// The wave that stored, and went to a barrier without waiting for it; `None` for a load of this wave.
        by_wave: Option<u32>,
    },
    /// Two waves of a workgroup on one byte of LDS, with no barrier between.
    LdsRace {
        /// What this wave did.
        access: Access,
        /// What the other did.
        other: Box<RacingAccess>,
        /// Whether this wave wrote the bytes that were there, so that nobody can tell.
        equal: bool,
    },
    /// Two workgroups on one byte of device memory, which nothing orders.
    GlobalRace {
        /// What this workgroup did.
        access: Access,
        /// What the other did.
        other: Box<RacingAccess>,
    },
    /// The kernel executed `s_trap`.
    Trap(u32),
    /// The instruction is known but was asked for something the emulator does not model.
    Unsupported(&'static str),
}

/// Who waits for ever, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The memory that it reads; `None` if it reads none, and just loops.
    pub reads: Option<&'static str>,
    /// Other waves of the workgroup that wait so.
    pub waves: u32,
    /// Waves of the workgroup at a barrier.
    pub at_barrier: u32,
    /// Other workgroups that wait.
    pub workgroups: u64,
    /// Workgroups that have not begun, because those that wait take all the room on the device.
    pub without_room: u64,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reads {
            Some(memory) => {
                write!(f, "endless wait: {memory} is read over and over, and nobody who still runs writes it")?
            }
            None => f.write_str("endless loop, which reads and changes nothing")?,
        }
        let mut also = Vec::new();
        let mut count = |n: u64, what: &str| {
            if n > 0 {
                also.push(format!("{n} {what}{}", if n == 1 { "" } else { "s" }));
            }
        };
        count(self.waves.into(), "other wave");
        count(self.workgroups, "other workgroup");
        if !also.is_empty() {
            write!(f, " ({} wait too)", also.join(" and "))?;
        }
        if self.at_barrier > 0 {
            write!(f, "; {} of its workgroup's waves are at a barrier", self.at_barrier)?;
        }
        if self.without_room > 0 {
            write!(f, "; {} workgroups have no room on the device before one ends", self.without_room)?;
        }
        f.write_str(",")
    }
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An atomic operation.
    Atomic,
}

/// The other side of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RacingAccess {
    /// What it did.
    pub access: Access,
    /// Its workgroup, where it is another one; `None` if there were several.
    pub workgroup: Option<[u32; 3]>,
    /// Its wave; `None` if there were several.
    pub wave: Option<u32>,
    /// Where the instruction is in the code; of several, the last.
    pub code_offset_bytes: u64,
    /// The instruction.
    pub disassembly: String,
    /// Its lane; of several, the last.
    pub lane: Option<u32>,
    /// Where in the source; see [`Fault::source`].
    pub source: Option<String>,
}

impl fmt::Display for RacingAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by ", self.access)?;
        match (self.workgroup, self.wave) {
            (Some([x, y, z]), None) => write!(f, "workgroup ({x}, {y}, {z})")?,
            (Some([x, y, z]), Some(wave)) => write!(f, "workgroup ({x}, {y}, {z}) wave {wave}")?,
            (None, Some(wave)) => write!(f, "wave {wave}")?,
            (None, None) => f.write_str("several others")?,
        }
        if let Some(lane) = self.lane {
            write!(f, " lane {lane}")?;
        }
        write!(f, " at code offset {:#x}: `{}`", self.code_offset_bytes, self.disassembly)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, " {source}"))
    }
}

/// The allocation closest to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Not looked for.
    Unknown,
    /// There are no allocations.
    None,
    /// None: it is an address of the host's own memory, which it has not given to the device.
    Host {
        /// What the host has there, as its system calls it.
        what: &'static str,
    },
    /// This one.
    Block {
        /// Its guest address.
        address: u64,
        /// The bytes asked for.
        bytes: u64,
        /// Distance of the bad address from its start.
        offset_bytes: i64,
        /// Whether it is live.
        live: bool,
    },
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nearest::Unknown => f.write_str("nearest block not looked for"),
            Nearest::None => f.write_str("nothing is allocated"),
            Nearest::Host { what } => write!(f, "a host pointer: the host's {what}, which was not given to the device"),
            Nearest::Block { address, bytes, offset_bytes, live } => {
                let state = if *live { "" } else { "freed " };
                let block = format!("the {state}{bytes}-byte block at {address:#x}");
                match u64::try_from(*offset_bytes) {
                    Err(_) => write!(f, "{} bytes before {block}", offset_bytes.unsigned_abs()),
                    Ok(offset) if offset >= *bytes => write!(f, "{} bytes past the end of {block}", offset - bytes),
                    Ok(offset) => write!(f, "offset {offset} of {block}"),
                }
            }
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic",
        })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::OutOfBounds(access) => write!(f, "out-of-bounds {access}"),
            FaultKind::UseAfterFree(access) => write!(f, "use after free ({access})"),
            FaultKind::ReadOnly => f.write_str("write to read-only memory"),
            FaultKind::LdsOutOfBounds { lds_bytes } => {
                write!(f, "access outside the workgroup's {lds_bytes} bytes of LDS")
            }
            FaultKind::ScratchOutOfBounds { scratch_bytes } => {
                write!(f, "access outside the lane's {scratch_bytes} bytes of scratch")
            }
            FaultKind::Misaligned => f.write_str("misaligned atomic"),
            FaultKind::UnknownInstruction => f.write_str("unknown instruction"),
            FaultKind::BadJump => f.write_str("jump to where no instruction starts"),
            FaultKind::StepLimit { limit } => {
                write!(
                    f,
                    "endless loop? more than {limit} instructions of one wave (ROCFIRE_HANG_SECONDS sets how many),"
                )
            }
            FaultKind::ClockLimit { seconds } => {
                write!(f, "endless loop? more than {seconds} s of one wave (ROCFIRE_HANG_SECONDS sets how many),")
            }
            FaultKind::EndlessWait(wait) => wait.fmt(f),
            FaultKind::BarrierDivergence { ended } => {
                write!(f, "barrier not reached by all waves: ended before it have {},", lane_list(*ended))
            }
            FaultKind::Unwritten { what, origin } => write!(f, "{what} depends on {origin},"),
            FaultKind::NotWaitedFor { what, overwrites, counter, by, by_code_offset_bytes, by_wave } => {
                let done = if *overwrites { "overwritten" } else { "read" };
                let by = format!("`{by}` at code offset {by_code_offset_bytes:#x}");
                match by_wave {
                    None => write!(f, "{what} {done} before the wait ({counter}) for the load that fills it, {by},"),
                    Some(wave) => write!(
                        f,
                        "{what} {done} after a barrier that wave {wave} reached without the wait ({counter}) for its store, {by},"
                    ),
                }
            }
            FaultKind::LdsRace { access, other, equal } => {
                let same = if *equal { " of the bytes that are there" } else { "" };
                write!(f, "race on LDS: {access}{same} with no barrier after {other};")
            }
            FaultKind::GlobalRace { access, other } => {
                write!(f, "race between workgroups: {access} after {other};")
            }
            FaultKind::Trap(code) => write!(f, "s_trap {code}"),
            FaultKind::Unsupported(what) => write!(f, "not emulated: {what}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(
            f,
            "{} in {} at code offset {:#x}: `{}`; ",
            self.kind, self.kernel, self.code_offset_bytes, self.disassembly
        )?;
        if let Some(source) = &self.source {
            write!(f, "{source}; ")?;
        }
        write!(f, "workgroup ({x}, {y}, {z}), wave {}", self.wave)?;
        match (self.lanes.count_ones(), self.lane) {
            (0 | 1, Some(lane)) => write!(f, ", lane {lane}")?,
            (0, None) => {}
            _ => write!(f, ", lanes {}", lane_list(self.lanes))?,
        }
        if let Some(address) = self.address {
            write!(f, "; {} bytes at {address:#x}", self.bytes)?;
        }
        match self.nearest {
            Nearest::Unknown => Ok(()),
            nearest => write!(f, ", {nearest}"),
        }
    }
}

/// `0-15, 20`.
fn lane_list(lanes: u64) -> String {
    let mut parts = Vec::new();
    let mut lane = 0;
    while lane < 64 {
        let run = (lanes >> lane).trailing_ones();
        match run {
            0 => lane += 1,
            1 => parts.push(lane.to_string()),
            _ => parts.push(format!("{lane}-{}", lane + run - 1)),
        }
        lane += run;
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_listed_as_ranges() {
        assert_eq!(lane_list(0xf01), "0, 8-11");
        assert_eq!(lane_list(!0), "0-63");
        assert_eq!(lane_list(1 << 63 | 1 << 61), "61, 63");
    }

    #[test]
    fn the_nearest_block_comes_with_its_distance() {
        let block = |offset_bytes| Nearest::Block { address: 0x1000, bytes: 16, offset_bytes, live: true }.to_string();
        assert_eq!(block(-4), "4 bytes before the 16-byte block at 0x1000");
        assert_eq!(block(4), "offset 4 of the 16-byte block at 0x1000");
        assert_eq!(block(20), "4 bytes past the end of the 16-byte block at 0x1000");
    }
}
