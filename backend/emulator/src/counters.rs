//! What a launch did, in numbers that are the same on every run and host. `MODEL.md` in this crate states what each counts.

use rocfire_isa::{Format, Inst, Op};

use crate::env::Bytes;

/// Counts of one launch, or of several added up. Instructions are counted once a wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Workgroups run.
    pub workgroups: u64,
    /// Waves run.
    pub waves: u64,
    /// Vector ALU instructions, without matrix ones.
    pub valu: u64,
    /// Matrix instructions.
    pub mfma: u64,
    /// Scalar ALU instructions.
    pub salu: u64,
    /// Branches, jumps and calls, taken or not.
    pub branch: u64,
    /// Scalar memory instructions.
    pub smem: u64,
    /// Loads from device memory (GLOBAL, FLAT, MUBUF).
    pub vmem_read: u64,
    /// Stores to device memory.
    pub vmem_write: u64,
    /// Atomics on device memory.
    pub vmem_atomic: u64,
    /// Loads and stores of SCRATCH.
    pub scratch: u64,
    /// DS instructions.
    pub lds: u64,
    /// Barriers.
    pub barrier: u64,
    /// Instructions with no effect in the emulator: waits, hints, cache control.
    pub no_effect: u64,
    /// Bytes that lanes asked to load from device memory.
    pub global_read_bytes: u64,
    /// Bytes that lanes asked to store to device memory.
    pub global_written_bytes: u64,
    /// Bytes that lanes asked to load from LDS.
    pub lds_read_bytes: u64,
    /// Bytes that lanes asked to store to LDS.
    pub lds_written_bytes: u64,
    /// Bytes that lanes asked to load from or store to SCRATCH.
    pub scratch_bytes: u64,
    /// Bytes of scalar loads.
    pub scalar_read_bytes: u64,
}

/// Which counter an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Valu,
    Mfma,
    Salu,
    Branch,
    Smem,
    VmemRead,
    VmemWrite,
    VmemAtomic,
    Scratch,
    Lds,
    Barrier,
    NoEffect,
}

/// The class of an instruction.
pub(crate) fn class(inst: &Inst) -> Class {
    if crate::program::has_no_effect(inst.op) {
        return Class::NoEffect;
    }
    match inst.format {
        Format::Sopp if matches!(inst.op, Op::SBarrier | Op::SBarrierWait) => Class::Barrier,
        Format::Sopp if crate::exec::scalar::is_direct_branch(inst.op) => Class::Branch,
        Format::Sopp if matches!(inst.op, Op::SEndpgm | Op::SEndpgmSaved | Op::STrap) => Class::Branch,
        Format::Sopp => Class::NoEffect,
        Format::Sop1 if matches!(inst.op, Op::SSetpcB64 | Op::SSwappcB64) => Class::Branch,
        Format::Sopk if inst.op == Op::SCallB64 => Class::Branch,
        Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc => Class::Salu,
        Format::Smem => Class::Smem,
        Format::Vop3pMai if is_accumulator_move(inst.op) => Class::Valu,
        Format::Vop3pMai => Class::Mfma,
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p => Class::Valu,
        Format::Ds => Class::Lds,
        Format::Scratch => Class::Scratch,
        Format::Global | Format::Flat | Format::Mubuf => match inst.op.facts().class == rocfire_isa::Class::Atomic {
            true => Class::VmemAtomic,
            // A store has data and no destination.
            false if inst.dst[0].is_some() || !inst.src[1].is_some() => Class::VmemRead,
            false => Class::VmemWrite,
        },
    }
}

fn is_accumulator_move(op: Op) -> bool {
    matches!(op, Op::VAccvgprReadB32 | Op::VAccvgprWriteB32 | Op::VAccvgprMovB32)
}

impl Counters {
    /// Adds `count` executions of an instruction.
    pub(crate) fn record(&mut self, class: Class, count: u64) {
        *match class {
            Class::Valu => &mut self.valu,
            Class::Mfma => &mut self.mfma,
            Class::Salu => &mut self.salu,
            Class::Branch => &mut self.branch,
            Class::Smem => &mut self.smem,
            Class::VmemRead => &mut self.vmem_read,
            Class::VmemWrite => &mut self.vmem_write,
            Class::VmemAtomic => &mut self.vmem_atomic,
            Class::Scratch => &mut self.scratch,
            Class::Lds => &mut self.lds,
            Class::Barrier => &mut self.barrier,
            Class::NoEffect => &mut self.no_effect,
        } += count;
    }

    /// Adds bytes asked for.
    pub(crate) fn record_bytes(&mut self, bytes: &Bytes) {
        self.global_read_bytes += bytes.global_read;
        self.global_written_bytes += bytes.global_written;
        self.lds_read_bytes += bytes.lds_read;
        self.lds_written_bytes += bytes.lds_written;
        self.scratch_bytes += bytes.scratch;
        self.scalar_read_bytes += bytes.scalar_read;
    }

    /// All instructions.
    pub fn instructions(&self) -> u64 {
        let vector =
            self.valu + self.mfma + self.vmem_read + self.vmem_write + self.vmem_atomic + self.scratch + self.lds;
        vector + self.salu + self.branch + self.smem + self.barrier + self.no_effect
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.workgroups += other.workgroups;
        self.waves += other.waves;
        self.valu += other.valu;
        self.mfma += other.mfma;
        self.salu += other.salu;
        self.branch += other.branch;
        self.smem += other.smem;
        self.vmem_read += other.vmem_read;
        self.vmem_write += other.vmem_write;
        self.vmem_atomic += other.vmem_atomic;
        self.scratch += other.scratch;
        self.lds += other.lds;
        self.barrier += other.barrier;
        self.no_effect += other.no_effect;
        self.global_read_bytes += other.global_read_bytes;
        self.global_written_bytes += other.global_written_bytes;
        self.lds_read_bytes += other.lds_read_bytes;
        self.lds_written_bytes += other.lds_written_bytes;
        self.scratch_bytes += other.scratch_bytes;
        self.scalar_read_bytes += other.scalar_read_bytes;
    }
}
