//! Where the elements of A, B, C and D lie (AMD's matrix instruction calculator, dense instructions).
//!
//! | | gfx11 | gfx12 |
//! | --- | --- | --- |
//! | A and B | every 16 lanes hold the whole matrix, `k` ascending from bit 0 of the first register on | the wave holds it once: runs of 64 bits (`k` ascending) are dealt to groups of 16 lanes; in wave64 the runs are of 32 bits, except f16's |
//! | row `i` of D, wave32 | register `i / 2`, lanes from `16·(i % 2)` | register `i % 8`, lanes from `16·(i / 8)` |
//! | row `i` of D, wave64 | register `i / 4`, lanes from `16·(i % 4)` | register `i % 4`, lanes from `32·(i / 4 % 2) + 16·(i / 8)` |
//!
//! A 16-bit D takes one half of those registers on gfx11; on gfx12 neighbouring rows share a register.

use rocfire_isa::{Inst, Op};

/// How an instruction lays out its matrices.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Registers of A and of B; 0 for gfx11, where lanes are copies.
    spread_dwords: u8,
    wave64: bool,
    /// Whether a 16-bit result takes half of a register (gfx11).
    pub(super) halves_of_registers: bool,
    /// All `k`, in dwords.
    depth_dwords: u8,
}

impl Layout {
    /// From the number of registers that the operands have: on gfx11 A has all of its `k` in each lane, on gfx12 the lanes
    /// share them, so that fewer registers do. D has eight registers (four if two rows share one) under wave32.
    pub(super) fn of(inst: &Inst, bits: usize, k: usize) -> Option<Layout> {
        let (a, d) = (inst.src[0].dwords, inst.dst[0].dwords);
        let depth_dwords = (bits * k / 32) as u8;
        let copies = a == depth_dwords;
        // 16-bit results of gfx12 take half the registers.
        let packed = !copies && matches!(inst.op, Op::VWmmaF1616x16x16F16 | Op::VWmmaBf1616x16x16Bf16);
        let wave64 = match (d, packed) {
            (8, false) | (4, true) => false,
            (4, false) | (2, true) => true,
            _ => return None,
        };
        Some(Layout { spread_dwords: if copies { 0 } else { a }, wave64, halves_of_registers: copies, depth_dwords })
    }

    pub(super) fn to_imm(self) -> i64 {
        let flags = u8::from(self.wave64) | u8::from(self.halves_of_registers) << 1;
        i64::from_le_bytes([self.spread_dwords, self.depth_dwords, flags, 0, 0, 0, 0, 0])
    }

    #[inline(always)]
    pub(super) fn from_imm(imm: i64) -> Layout {
        let [spread_dwords, depth_dwords, flags, ..] = imm.to_le_bytes();
        Layout { spread_dwords, wave64: flags & 1 != 0, halves_of_registers: flags & 2 != 0, depth_dwords }
    }

    /// Register, lowest bit and first lane of the sixteen elements with this `k`.
    #[inline(always)]
    pub(super) fn source(&self, bits: usize, k: usize) -> (usize, usize, usize) {
        let (dword, shift) = (k * bits / 32, k * bits % 32);
        let (register, lane) = match (self.spread_dwords, self.wave64, self.depth_dwords) {
            (0, _, _) => (dword, 0),
            // wave32: runs of two registers, or of the one there is.
            (1, false, _) => (0, 16 * dword),
            (_, false, _) => (dword / 4 * 2 + dword % 2, 16 * (dword / 2 % 2)),
            // wave64: eight dwords of 16-bit elements, four of narrower ones, or two.
            (_, true, 8) => (dword % 2, 32 * (dword / 4) + 16 * (dword / 2 % 2)),
            (_, true, 4) => (0, 32 * (dword % 2) + 16 * (dword / 2)),
            (_, true, _) => (0, 16 * dword),
        };
        (register, shift, lane)
    }

    /// Register, lowest bit and first lane of row `i` of D, which has 16 bits if `half`; `upper` is gfx11's choice.
    #[inline(always)]
    pub(super) fn result(&self, i: usize, half: bool, upper: bool) -> (usize, usize, usize) {
        let (register, lane) = match (self.halves_of_registers, self.wave64) {
            (true, false) => (i / 2, 16 * (i % 2)),
            (true, true) => (i / 4, 16 * (i % 4)),
            (false, false) => (i % 8, 16 * (i / 8)),
            (false, true) => (i % 4, 32 * (i / 4 % 2) + 16 * (i / 8)),
        };
        match (half, self.halves_of_registers) {
            (true, true) => (register, if upper { 16 } else { 0 }, lane),
            (true, false) => (register / 2, 16 * (i % 2), lane),
            (false, _) => (register, 0, lane),
        }
    }
}
