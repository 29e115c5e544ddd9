//! Hardware registers: what `s_getreg` reads and `s_setreg` writes.
//!
//! A register that is not known here stops the wave with the instruction's text, which names it: a zero in its place would
//! be taken for an answer. Numbers and fields are those of AMD's ISA documents (tables of `hwreg` and of each register).

use rocfire_arch::Family;

use crate::env::Env;
use crate::error::FaultKind;
use crate::step::{Flow, MicroOp, PRIVATE_APERTURE, SHARED_APERTURE};
use crate::wave::Wave;

/// What a number means, by generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Mode,
    /// SCC, EXECZ, VCCZ, VALID.
    Status,
    /// The exceptions of float instructions, which are not modelled: none has happened.
    Exceptions,
    /// Where a wave runs, as CDNA and as RDNA lay it out; and what it belongs to.
    HwId,
    HwId1,
    HwId2,
    /// Upper halves of the private and the shared aperture's base.
    MemoryBases,
    /// The number of the accelerator die: there is one.
    XccId,
    /// Scratch of FLAT instructions, which starts at zero here.
    FlatScratch,
    CyclesLow,
    CyclesHigh,
}

/// Bits of MODE that have an effect here: rounding, denormals, DX10_CLAMP, IEEE, FP16_OVFL.
const MODELLED_MODE: u32 = 0x3ff | 1 << 23;

/// Bits of the cycle counter before RDNA 4.
const SHORT_CYCLES: u32 = 0xf_ffff;

fn register(family: Family, number: i64) -> Option<Register> {
    use Family::{Cdna3, Cdna4, Rdna1, Rdna4};
    let (gcn, newest) = (is_gcn(family), family == Rdna4);
    Some(match number {
        1 => Register::Mode,
        2 if !newest => Register::Status,
        3 if !newest => Register::Exceptions,
        17 | 18 if newest => Register::Exceptions,
        4 if gcn => Register::HwId,
        15 if !newest => Register::MemoryBases,
        20 if matches!(family, Cdna3 | Cdna4) => Register::XccId,
        20 | 21 if !gcn => Register::FlatScratch,
        23 if !gcn => Register::HwId1,
        24 if !gcn => Register::HwId2,
        29 if !gcn && family != Rdna1 => Register::CyclesLow,
        30 if newest => Register::CyclesHigh,
        _ => return None,
    })
}

/// GCN and the CDNA line, whose registers are numbered alike.
fn is_gcn(family: Family) -> bool {
    use Family::{Cdna1, Cdna2, Cdna3, Cdna4, Gcn5};
    matches!(family, Gcn5 | Cdna1 | Cdna2 | Cdna3 | Cdna4)
}

/// Lowest bit and bit mask of the field that a `hwreg` immediate names: bits 5..0 the register, 10..6 the offset, 15..11 the
/// width less one.
fn field(imm: i64) -> (u32, u32) {
    let (offset, width) = ((imm >> 6 & 31) as u32, (imm >> 11 & 31) as u32 + 1);
    (offset, u32::MAX >> (32 - width))
}

/// Waves go round the four SIMDs of a compute unit.
fn place(w: &Wave) -> (u32, u32) {
    (w.number % 4, w.number / 4 & 0xf)
}

fn value(w: &Wave, env: &Env, register: Register) -> u32 {
    let (simd, slot) = place(w);
    match register {
        Register::Mode => w.mode,
        Register::Status => u32::from(w.scc) | u32::from(w.exec() == 0) << 9 | u32::from(w.vcc() == 0) << 10 | 1 << 16,
        Register::Exceptions | Register::HwId2 | Register::XccId | Register::FlatScratch => 0,
        Register::HwId => slot | simd << 4,
        Register::HwId1 => slot | simd << 8,
        Register::MemoryBases => PRIVATE_APERTURE >> 16 | SHARED_APERTURE >> 16 << 16,
        Register::CyclesLow if env.program.arch.info().family == Family::Rdna4 => super::clock(w) as u32,
        Register::CyclesLow => super::clock(w) as u32 & SHORT_CYCLES,
        Register::CyclesHigh => (super::clock(w) >> 32) as u32,
    }
}

/// `s_getreg_b32`.
pub(super) fn get(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let Some(register) = register(env.program.arch.info().family, s.imm & 63) else {
        return env.fail(FaultKind::Unsupported("a hardware register that the emulator does not know"));
    };
    let (offset, bits) = field(s.imm);
    let value = value(w, env, register) >> offset & bits;
    w.set_s32(s.dst[0], value);
    Flow::Next
}

/// `s_setreg_b32` and `s_setreg_imm32_b32`.
pub(super) fn set(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let register = register(env.program.arch.info().family, s.imm & 63);
    let (offset, bits) = field(s.imm);
    let old = register.map_or(0, |register| value(w, env, register));
    let new = old & !(bits << offset) | (s.s32(w, 0) & bits) << offset;
    match register {
        Some(Register::Mode) if (old ^ new) & !MODELLED_MODE != 0 => {
            env.fail(FaultKind::Unsupported("a bit of MODE that the emulator does not model"))
        }
        Some(Register::Mode) => {
            w.mode = new;
            Flow::Next
        }
        // Scratch has its place whatever address a prologue computes for it; and no exception is there to be cleared.
        Some(Register::FlatScratch) => Flow::Next,
        Some(Register::Exceptions) if new == 0 => Flow::Next,
        _ => env.fail(FaultKind::Unsupported("writing a hardware register that the emulator does not model")),
    }
}
