//! SOP2: two sources, one result, SCC.

use rocfire_isa::Op;

use super::handler;
use crate::step::{Flow, Selected};

/// 32-bit result and SCC from 32-bit sources.
macro_rules! alu32 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = (s.s32(w, 0), s.s32(w, 1));
            let (result, scc): (u32, bool) = $result;
            w.set_s32(s.dst[0], result);
            w.scc = scc;
            Flow::Next
        })
    };
}

/// 32-bit result; SCC says whether it is not zero.
macro_rules! logic32 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        alu32!(|$a, $b| {
            let result: u32 = $result;
            (result, result != 0)
        })
    };
}

/// 32-bit result; SCC stays.
macro_rules! plain32 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = (s.s32(w, 0), s.s32(w, 1));
            w.set_s32(s.dst[0], $result);
            Flow::Next
        })
    };
}

/// 64-bit result from 64-bit sources; SCC stays.
macro_rules! plain64 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = (s.s64(w, 0), s.s64(w, 1));
            w.set_s64(s.dst[0], $result);
            Flow::Next
        })
    };
}

/// 64-bit result from 64-bit sources; SCC says whether it is not zero.
macro_rules! logic64 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = (s.s64(w, 0), s.s64(w, 1));
            let result: u64 = $result;
            w.set_s64(s.dst[0], result);
            w.scc = result != 0;
            Flow::Next
        })
    };
}

/// 64-bit result from a 64-bit and a 32-bit source; SCC says whether it is not zero.
macro_rules! shift64 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = (s.s64(w, 0), s.s32(w, 1));
            let result: u64 = $result;
            w.set_s64(s.dst[0], result);
            w.scc = result != 0;
            Flow::Next
        })
    };
}

/// `(a << SHIFT) + b`, SCC the carry out of 32 bits.
macro_rules! shift_add {
    ($shift:literal) => {
        alu32!(|a, b| {
            let sum = (u64::from(a) << $shift) + u64::from(b);
            (sum as u32, sum >> 32 != 0)
        })
    };
}

pub(super) fn select(op: Op) -> Option<Selected> {
    Some(Selected::scalars(match op {
        Op::SAddU32 => alu32!(|a, b| a.overflowing_add(b)),
        Op::SSubU32 => alu32!(|a, b| a.overflowing_sub(b)),
        Op::SAddI32 => alu32!(|a, b| {
            let (sum, overflow) = (a as i32).overflowing_add(b as i32);
            (sum as u32, overflow)
        }),
        Op::SSubI32 => alu32!(|a, b| {
            let (difference, overflow) = (a as i32).overflowing_sub(b as i32);
            (difference as u32, overflow)
        }),
        Op::SAddcU32 => handler!(|w, _, s| {
            let sum = u64::from(s.s32(w, 0)) + u64::from(s.s32(w, 1)) + u64::from(w.scc);
            w.set_s32(s.dst[0], sum as u32);
            w.scc = sum >> 32 != 0;
            Flow::Next
        }),
        Op::SSubbU32 => handler!(|w, _, s| {
            let (a, b) = (u64::from(s.s32(w, 0)), u64::from(s.s32(w, 1)) + u64::from(w.scc));
            w.set_s32(s.dst[0], a.wrapping_sub(b) as u32);
            w.scc = b > a;
            Flow::Next
        }),
        Op::SMinI32 => alu32!(|a, b| ((a as i32).min(b as i32) as u32, (a as i32) < b as i32)),
        Op::SMinU32 => alu32!(|a, b| (a.min(b), a < b)),
        Op::SMaxI32 => alu32!(|a, b| ((a as i32).max(b as i32) as u32, a as i32 >= b as i32)),
        Op::SMaxU32 => alu32!(|a, b| (a.max(b), a >= b)),
        Op::SMulI32 => plain32!(|a, b| a.wrapping_mul(b)),
        Op::SMulHiU32 => plain32!(|a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        Op::SMulHiI32 => plain32!(|a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
        Op::SAddNcU64 => plain64!(|a, b| a.wrapping_add(b)),
        Op::SSubNcU64 => plain64!(|a, b| a.wrapping_sub(b)),
        Op::SMulU64 => plain64!(|a, b| a.wrapping_mul(b)),
        Op::SAbsdiffI32 => logic32!(|a, b| (a as i32).wrapping_sub(b as i32).unsigned_abs()),
        Op::SLshl1AddU32 => shift_add!(1),
        Op::SLshl2AddU32 => shift_add!(2),
        Op::SLshl3AddU32 => shift_add!(3),
        Op::SLshl4AddU32 => shift_add!(4),
        Op::SCselectB32 => handler!(|w, _, s| {
            let value = if w.scc { s.s32(w, 0) } else { s.s32(w, 1) };
            w.set_s32(s.dst[0], value);
            Flow::Next
        }),
        Op::SCselectB64 => handler!(|w, _, s| {
            let value = if w.scc { s.s64(w, 0) } else { s.s64(w, 1) };
            w.set_s64(s.dst[0], value);
            Flow::Next
        }),
        Op::SAndB32 => logic32!(|a, b| a & b),
        Op::SOrB32 => logic32!(|a, b| a | b),
        Op::SXorB32 => logic32!(|a, b| a ^ b),
        Op::SAndn2B32 => logic32!(|a, b| a & !b),
        Op::SOrn2B32 => logic32!(|a, b| a | !b),
        Op::SNandB32 => logic32!(|a, b| !(a & b)),
        Op::SNorB32 => logic32!(|a, b| !(a | b)),
        Op::SXnorB32 => logic32!(|a, b| !(a ^ b)),
        Op::SAndB64 => logic64!(|a, b| a & b),
        Op::SOrB64 => logic64!(|a, b| a | b),
        Op::SXorB64 => logic64!(|a, b| a ^ b),
        Op::SAndn2B64 => logic64!(|a, b| a & !b),
        Op::SOrn2B64 => logic64!(|a, b| a | !b),
        Op::SNandB64 => logic64!(|a, b| !(a & b)),
        Op::SNorB64 => logic64!(|a, b| !(a | b)),
        Op::SXnorB64 => logic64!(|a, b| !(a ^ b)),
        Op::SLshlB32 => logic32!(|a, b| a << (b & 31)),
        Op::SLshrB32 => logic32!(|a, b| a >> (b & 31)),
        Op::SAshrI32 => logic32!(|a, b| (a as i32 >> (b & 31)) as u32),
        Op::SLshlB64 => shift64!(|a, b| a << (b & 63)),
        Op::SLshrB64 => shift64!(|a, b| a >> (b & 63)),
        Op::SAshrI64 => shift64!(|a, b| (a as i64 >> (b & 63)) as u64),
        Op::SBfeU32 => logic32!(|a, b| field(u64::from(a), b & 31, b >> 16 & 0x7f) as u32),
        Op::SBfeI32 => logic32!(|a, b| signed_field(a as i32 as i64, b & 31, b >> 16 & 0x7f, 32) as u32),
        Op::SBfeU64 => shift64!(|a, b| field(a, b & 63, b >> 16 & 0x7f)),
        Op::SBfeI64 => shift64!(|a, b| signed_field(a as i64, b & 63, b >> 16 & 0x7f, 64) as u64),
        Op::SBfmB32 => plain32!(|a, b| ((1u32 << (a & 31)) - 1) << (b & 31)),
        Op::SBfmB64 => handler!(|w, _, s| {
            let (width, shift) = (s.s32(w, 0) & 63, s.s32(w, 1) & 63);
            w.set_s64(s.dst[0], ((1u64 << width) - 1) << shift);
            Flow::Next
        }),
        Op::SPackLlB32B16 => plain32!(|a, b| a & 0xffff | b << 16),
        Op::SPackLhB32B16 => plain32!(|a, b| a & 0xffff | b & 0xffff_0000),
        Op::SPackHhB32B16 => plain32!(|a, b| a >> 16 | b & 0xffff_0000),
        Op::SPackHlB32B16 => plain32!(|a, b| a >> 16 | b << 16),
        _ => return None,
    }))
}

/// `width` bits of `value` from bit `shift`, zero-extended.
fn field(value: u64, shift: u32, width: u32) -> u64 {
    let moved = value >> shift;
    if width >= 64 { moved } else { moved & ((1u64 << width) - 1) }
}

/// `width` bits of a `bits`-wide value, itself sign-extended to 64, from bit `shift`, sign-extended.
fn signed_field(value: i64, shift: u32, width: u32, bits: u32) -> i64 {
    if width == 0 {
        return 0;
    }
    let moved = value >> shift;
    let width = width.min(bits - shift);
    moved << (64 - width) >> (64 - width)
}

#[cfg(test)]
mod tests {
    use super::{field, signed_field};

    #[test]
    fn fields_are_cut_and_extended() {
        assert_eq!(field(0xabcd_1234, 8, 8), 0x12);
        assert_eq!(field(0xabcd_1234, 0, 0), 0);
        assert_eq!(field(u64::MAX, 0, 64), u64::MAX);
        assert_eq!(signed_field(0x0000_8000, 8, 8, 32), -128);
        assert_eq!(signed_field(i64::from(-1i32), 31, 8, 32), -1);
        assert_eq!(signed_field(0x40, 6, 1, 64), -1);
        assert_eq!(signed_field(5, 0, 0, 64), 0);
    }
}
