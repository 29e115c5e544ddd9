//! SOPC: comparisons of two sources into SCC.

use rocfire_isa::Op;

use super::handler;
use crate::step::{Flow, Selected};

/// SCC from two 32-bit sources.
macro_rules! compare {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = (s.s32(w, 0), s.s32(w, 1));
            w.scc = $result;
            Flow::Next
        })
    };
}

/// SCC from a 64-bit source and one that `$read` reads.
macro_rules! compare64 {
    ($read:ident, |$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = (s.s64(w, 0), s.$read(w, 1));
            w.scc = $result;
            Flow::Next
        })
    };
}

pub(super) fn select(op: Op) -> Option<Selected> {
    Some(Selected::scalars(match op {
        Op::SCmpEqI32 | Op::SCmpEqU32 => compare!(|a, b| a == b),
        Op::SCmpLgI32 | Op::SCmpLgU32 => compare!(|a, b| a != b),
        Op::SCmpGtI32 => compare!(|a, b| a as i32 > b as i32),
        Op::SCmpGeI32 => compare!(|a, b| a as i32 >= b as i32),
        Op::SCmpLtI32 => compare!(|a, b| (a as i32) < b as i32),
        Op::SCmpLeI32 => compare!(|a, b| a as i32 <= b as i32),
        Op::SCmpGtU32 => compare!(|a, b| a > b),
        Op::SCmpGeU32 => compare!(|a, b| a >= b),
        Op::SCmpLtU32 => compare!(|a, b| a < b),
        Op::SCmpLeU32 => compare!(|a, b| a <= b),
        Op::SBitcmp0B32 => compare!(|a, b| a >> (b & 31) & 1 == 0),
        Op::SBitcmp1B32 => compare!(|a, b| a >> (b & 31) & 1 == 1),
        Op::SBitcmp0B64 => compare64!(s32, |a, b| a >> (b & 63) & 1 == 0),
        Op::SBitcmp1B64 => compare64!(s32, |a, b| a >> (b & 63) & 1 == 1),
        Op::SCmpEqU64 => compare64!(s64, |a, b| a == b),
        Op::SCmpLgU64 => compare64!(s64, |a, b| a != b),
        Op::SSetGprIdxOn => return super::control::select_gpr_index(op),
        Op::SSetvskip => handler!(|w, _, s| {
            super::vskip::set(w, s);
            Flow::Next
        }),
        _ => return None,
    }))
}
