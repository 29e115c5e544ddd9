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
    /// Which lane, where one lane is to blame.
    pub lane: Option<u32>,
    /// The address, for a bad access: guest address, or offset in LDS or scratch.
    pub address: Option<u64>,
    /// Bytes accessed there by the lane.
    pub bytes: u32,
    /// The allocation closest to the address, for accesses of device memory.
    pub nearest: Nearest,
}

impl std::error::Error for Fault {}

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
    /// Waves of a workgroup wait at a barrier that others, which have ended, never reached.
    BarrierDivergence,
    /// The kernel executed `s_trap`.
    Trap(u32),
    /// The instruction is known but was asked for something the emulator does not model.
    Unsupported(&'static str),
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

/// The allocation closest to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Not looked for.
    Unknown,
    /// There are no allocations.
    None,
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
            Nearest::Block { address, bytes, offset_bytes, live } => {
                let state = if *live { "" } else { "freed " };
                write!(f, "offset {offset_bytes} of the {state}{bytes}-byte block at {address:#x}")
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
            FaultKind::StepLimit { limit } => write!(f, "endless loop? more than {limit} instructions"),
            FaultKind::BarrierDivergence => f.write_str("barrier not reached by all waves"),
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
        write!(f, "workgroup ({x}, {y}, {z}), wave {}", self.wave)?;
        if let Some(lane) = self.lane {
            write!(f, ", lane {lane}")?;
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
