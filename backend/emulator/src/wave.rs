//! The state of one wave: its registers, as whole vectors over the lanes.
//!
//! A vector register is a [`Lanes`]: 64 dwords, one a lane. All of a wave's vector registers stand in one file with fixed
//! places, so that a pre-decoded operand is a plain index that does not depend on the kernel:
//!
//! | index | what |
//! | --- | --- |
//! | `0 .. 256` | VGPRs |
//! | [`AGPR`]` .. AGPR + 256` | accumulation registers |
//! | [`STAGE`]` .. STAGE + `[`STAGES`] | staging: scalar operands spread over the lanes, SDWA and DPP results |
//!
//! Scalar registers stand in one file as well, numbered as AMD's encodings number them (see [`scalar`]), EXEC, VCC and M0
//! included. Every handler reads and writes through this type; it holds no memory (that is [`Env`](crate::env::Env)) and
//! knows nothing of instructions.
//!
//! # How a vector handler works
//!
//! In chunks of [`CHUNK`] lanes: load each source's chunk by value, compute, store. Loading a whole chunk of every source
//! before the chunk is stored makes a destination that is also a source harmless, for operations that stay within their
//! lane; an operation across lanes copies the whole source first.

use crate::group::Turn;
use crate::spin::Watch;

/// Lanes in a wave64, and in the storage of a wave32, which uses the lower half.
pub(crate) const LANES: usize = 64;

/// Lanes that a handler holds in host registers at a time. 16 dwords are one AVX-512 register or two AVX2 ones; wider
/// chunks spill, and a copy of all 64 lanes was five times slower when measured.
pub(crate) const CHUNK: usize = 16;

/// Chunks in a register.
pub(crate) const CHUNKS: usize = LANES / CHUNK;

/// One dword for each lane.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Lanes(pub(crate) [u32; LANES]);

impl Lanes {
    /// Zero in all lanes.
    pub(crate) const ZERO: Lanes = Lanes([0; LANES]);
}

/// Index of `a0` in the vector file.
pub(crate) const AGPR: u16 = 256;

/// Index of the first staging register in the vector file. Source `i` of an instruction owns `STAGE + 2 * i` and the one
/// after it, from `STAGE + 8` on they are free for any handler's use within one instruction.
pub(crate) const STAGE: u16 = 512;

/// Where the first half of a pair's destination is kept for the second half, which reads it unchanged.
pub(crate) const BEFORE: u16 = STAGE + 16;

/// How many staging registers there are.
pub(crate) const STAGES: u16 = 17;

/// Length of the vector file.
pub(crate) const VECTOR_FILE: usize = (STAGE + STAGES) as usize;

/// Numbers of the scalar file, those of the SSRC encoding.
pub(crate) mod scalar {
    /// `flat_scratch_lo`.
    pub(crate) const FLAT_SCRATCH: u16 = 102;
    /// `xnack_mask_lo`.
    pub(crate) const XNACK_MASK: u16 = 104;
    /// `vcc_lo`; `vcc_hi` is the next.
    pub(crate) const VCC: u16 = 106;
    /// `ttmp0`.
    pub(crate) const TTMP: u16 = 108;
    /// `m0`.
    pub(crate) const M0: u16 = 124;
    /// `exec_lo`; `exec_hi` is the next.
    pub(crate) const EXEC: u16 = 126;
    /// Two registers that nothing reads: what is written to RDNA's `null`. As a source `null` is the constant zero.
    pub(crate) const SINK: u16 = 128;
    /// Length of the scalar file.
    pub(crate) const FILE: usize = 130;
    /// Not in the file: SCC as a source.
    pub(crate) const SCC: u16 = 130;
    /// Not in the file: VCCZ as a source.
    pub(crate) const VCCZ: u16 = 131;
    /// Not in the file: EXECZ as a source.
    pub(crate) const EXECZ: u16 = 132;
}

/// The registers of one wave.
pub(crate) struct Wave {
    /// The vector file; see the module's table.
    pub(crate) v: Box<[Lanes; VECTOR_FILE]>,
    /// The scalar file.
    pub(crate) s: [u32; scalar::FILE],
    /// The scalar condition code.
    pub(crate) scc: bool,
    /// The MODE register as hardware lays it out: bits 0–1 rounding of f32, 2–3 of f16 and f64, 4–5 denormals of f32, 6–7
    /// of f16 and f64, 8 DX10_CLAMP, 9 IEEE.
    pub(crate) mode: u32,
    /// Index of the next step; changed through [`Env::jump`](crate::env::Env::jump) only.
    pub(crate) pc: usize,
    /// Instructions run up to the last jump.
    pub(crate) executed: u64,
    /// Instructions after which the next jump is looked at.
    pub(crate) look_at: u64,
    /// What that goes by.
    pub(crate) watch: Watch,
    /// The wave's number in its workgroup.
    pub(crate) number: u32,
    /// Lanes of a full wave: 64, or 32. In a wave32 `exec_hi` is zero, so that the upper lanes are always off; `vcc_hi` is
    /// one more scalar register.
    pub(crate) lanes: usize,
    /// Lanes that exist: all but in the last wave of a workgroup whose size is no multiple of the wave's.
    pub(crate) live: u64,
    /// Its turn, where waves take turns.
    pub(crate) turn: Turn,
}

impl Wave {
    /// A wave with all registers zero.
    pub(crate) fn new() -> Wave {
        let v: Box<[Lanes]> = vec![Lanes::ZERO; VECTOR_FILE].into_boxed_slice();
        let Ok(v) = v.try_into() else { unreachable!("the slice was made with this length") };
        let (look_at, watch) = (0, Watch::new());
        let (s, turn) = ([0; scalar::FILE], Turn::endless());
        Wave { v, s, scc: false, mode: 0, pc: 0, executed: 0, look_at, watch, number: 0, lanes: LANES, live: !0, turn }
    }

    /// The EXEC mask.
    #[inline(always)]
    pub(crate) fn exec(&self) -> u64 {
        self.s64(scalar::EXEC)
    }

    /// The VCC mask.
    #[inline(always)]
    pub(crate) fn vcc(&self) -> u64 {
        self.s64(scalar::VCC) & (u64::MAX >> (LANES - self.lanes))
    }

    /// One scalar register of the file; `index` below [`scalar::FILE`].
    #[inline(always)]
    pub(crate) fn s32(&self, index: u16) -> u32 {
        self.s[index as usize]
    }

    /// A pair of scalar registers, low one first.
    #[inline(always)]
    pub(crate) fn s64(&self, index: u16) -> u64 {
        let i = index as usize;
        u64::from(self.s[i]) | u64::from(self.s[i + 1]) << 32
    }

    /// Writes one scalar register.
    #[inline(always)]
    pub(crate) fn set_s32(&mut self, index: u16, value: u32) {
        self.s[index as usize] = value;
    }

    /// Writes a pair of scalar registers. It is one store of the host: EXEC and VCC are read as 64 bits right after, which
    /// two stores of half the width would hold up until both have left the store queue.
    #[inline(always)]
    pub(crate) fn set_s64(&mut self, index: u16, value: u64) {
        let i = index as usize;
        self.s[i..i + 2].copy_from_slice(&[value as u32, (value >> 32) as u32]);
    }

    /// A scalar source, those outside the file ([`scalar::SCC`] and on) included.
    #[inline(always)]
    pub(crate) fn scalar_source(&self, index: u16) -> u32 {
        match index {
            scalar::SCC => self.scc as u32,
            scalar::VCCZ => (self.vcc() == 0) as u32,
            scalar::EXECZ => (self.exec() == 0) as u32,
            index => self.s[index as usize],
        }
    }

    /// Chunk `chunk` of a vector register.
    #[inline(always)]
    pub(crate) fn chunk(&self, register: u16, chunk: usize) -> [u32; CHUNK] {
        let lanes = &self.v[register as usize].0;
        std::array::from_fn(|i| lanes[chunk * CHUNK + i])
    }

    /// Writes a chunk in all its lanes.
    #[inline(always)]
    pub(crate) fn set_chunk(&mut self, register: u16, chunk: usize, values: [u32; CHUNK]) {
        let lanes = &mut self.v[register as usize].0;
        for i in 0..CHUNK {
            lanes[chunk * CHUNK + i] = values[i];
        }
    }

    /// Writes a chunk in the lanes whose bit of `exec`, the whole wave's mask, is set.
    #[inline(always)]
    pub(crate) fn set_chunk_masked(&mut self, register: u16, chunk: usize, values: [u32; CHUNK], exec: u64) {
        let mask = (exec >> (chunk * CHUNK)) as u32;
        let lanes = &mut self.v[register as usize].0;
        for i in 0..CHUNK {
            let old = lanes[chunk * CHUNK + i];
            lanes[chunk * CHUNK + i] = if mask & (1 << i) != 0 { values[i] } else { old };
        }
    }

    /// One lane of a vector register.
    #[inline(always)]
    pub(crate) fn lane(&self, register: u16, lane: usize) -> u32 {
        self.v[register as usize].0[lane]
    }

    /// Writes one lane of a vector register.
    #[inline(always)]
    pub(crate) fn set_lane(&mut self, register: u16, lane: usize, value: u32) {
        self.v[register as usize].0[lane] = value;
    }
}
