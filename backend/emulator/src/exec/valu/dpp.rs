//! DPP: which lane a lane reads its first source from.

use rocfire_isa::{Dpp, Dpp8};

use crate::wave::LANES;

const ROW: usize = 16;

/// The lane that `lane` reads under `dpp_ctrl`, `None` where that is outside the row or wave; the outer `None` is for a
/// reserved encoding. (ISA, "DPP_CTRL enumeration".) Which of them a family has, the decoder knows.
pub(crate) fn source_lane(ctrl: u16, lane: usize) -> Option<Option<usize>> {
    let row = lane / ROW * ROW;
    let in_row = lane % ROW;
    let n = (ctrl & 0xf) as usize;
    let inside = |condition: bool, from: usize| condition.then_some(from);
    Some(match ctrl {
        // quad_perm: two bits for each lane of a quad.
        0x000..=0x0ff => Some((lane & !3) | (ctrl >> (2 * (lane & 3)) & 3) as usize),
        // row_shl
        0x101..=0x10f => inside(in_row + n < ROW, lane + n),
        // row_shr
        0x111..=0x11f => inside(in_row >= n, lane.wrapping_sub(n)),
        // row_ror
        0x121..=0x12f => Some(row + (in_row + ROW - n) % ROW),
        // wave_shl, wave_rol, wave_shr, wave_ror by one lane
        0x130 => inside(lane + 1 < LANES, lane + 1),
        0x134 => Some((lane + 1) % LANES),
        0x138 => inside(lane > 0, lane.wrapping_sub(1)),
        0x13c => Some((lane + LANES - 1) % LANES),
        // row_mirror, row_half_mirror
        0x140 => Some(row + ROW - 1 - in_row),
        0x141 => Some(lane ^ 7),
        // row_bcast15: the last lane of a row goes to all of the next row.
        0x142 => inside(lane >= ROW, row.wrapping_sub(1)),
        // row_bcast31: lane 31 goes to the upper two rows.
        0x143 => inside(lane >= 2 * ROW, 2 * ROW - 1),
        // row_newbcast of CDNA, row_share of RDNA
        0x150..=0x15f => Some(row + n),
        // row_xmask
        0x160..=0x16f => Some(row + (in_row ^ n)),
        _ => return None,
    })
}

/// Where every lane reads from, and which lanes write.
pub(crate) struct Swizzle {
    /// The source lane; 64 reads as zero.
    pub(crate) from: [u8; LANES],
    /// Lanes that write.
    pub(crate) writes: u64,
}

/// Resolves the fields for a wave with this EXEC. A lane whose source does not exist or is switched off reads zero with
/// `bound_ctrl` and keeps its old destination without. `None` for a reserved encoding.
pub(crate) fn swizzle(dpp: &Dpp, exec: u64) -> Option<Swizzle> {
    let mut out = Swizzle { from: [LANES as u8; LANES], writes: 0 };
    for lane in 0..LANES {
        let enabled = dpp.row_mask >> (lane / ROW) & 1 != 0 && dpp.bank_mask >> (lane % ROW / 4) & 1 != 0;
        let from = source_lane(dpp.ctrl, lane)?.filter(|&from| exec >> from & 1 != 0 || dpp.fetch_inactive);
        if let Some(from) = from {
            out.from[lane] = from as u8;
        }
        if enabled && (from.is_some() || dpp.bound_ctrl) {
            out.writes |= 1 << lane;
        }
    }
    Some(out)
}

/// Resolves a permutation within each eight lanes. All lanes write; a source that is switched off reads as zero.
pub(crate) fn swizzle_eights(dpp: &Dpp8, exec: u64) -> Swizzle {
    let mut out = Swizzle { from: [LANES as u8; LANES], writes: !0 };
    for lane in 0..LANES {
        let from = lane & !7 | usize::from(dpp.lanes[lane & 7]);
        if exec >> from & 1 != 0 || dpp.fetch_inactive {
            out.from[lane] = from as u8;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ctrl: u16, lane: usize) -> Option<usize> {
        source_lane(ctrl, lane).unwrap()
    }

    #[test]
    fn every_control_reads_the_lane_that_the_isa_names() {
        assert_eq!((from(0x1b, 4), from(0x1b, 7)), (Some(7), Some(4)), "quad_perm:[3,2,1,0]");
        assert_eq!((from(0x101, 14), from(0x101, 15)), (Some(15), None), "row_shl:1");
        assert_eq!((from(0x111, 17), from(0x111, 16)), (Some(16), None), "row_shr:1");
        assert_eq!((from(0x121, 16), from(0x12f, 16)), (Some(31), Some(17)), "row_ror");
        assert_eq!((from(0x130, 15), from(0x130, 63)), (Some(16), None), "wave_shl");
        assert_eq!(
            (from(0x138, 0), from(0x138, 16), from(0x13c, 0), from(0x134, 63)),
            (None, Some(15), Some(63), Some(0))
        );
        assert_eq!((from(0x140, 16), from(0x141, 16), from(0x141, 15)), (Some(31), Some(23), Some(8)), "mirrors");
        assert_eq!((from(0x142, 15), from(0x142, 20), from(0x142, 63)), (None, Some(15), Some(47)), "row_bcast15");
        assert_eq!((from(0x143, 31), from(0x143, 32), from(0x143, 63)), (None, Some(31), Some(31)), "row_bcast31");
        assert_eq!((from(0x153, 0), from(0x15f, 63)), (Some(3), Some(63)), "row_newbcast");
        assert_eq!((from(0x161, 0), from(0x16f, 16), from(0x163, 63)), (Some(1), Some(31), Some(60)), "row_xmask");
        assert!(source_lane(0x100, 0).is_none() && source_lane(0x170, 0).is_none());
    }

    #[test]
    fn masks_and_missing_sources_decide_who_writes() {
        let dpp = Dpp { ctrl: 0x111, row_mask: 0b0001, bank_mask: 0b1110, bound_ctrl: false, fetch_inactive: false };
        assert_eq!(swizzle(&dpp, !0).unwrap().writes, 0xfff0);
        let dpp = Dpp { row_mask: 0xf, bank_mask: 0xf, ..dpp };
        assert_eq!(swizzle(&dpp, !0).unwrap().writes, 0xfffe_fffe_fffe_fffe);
        assert_eq!(swizzle(&dpp, !(1 << 4)).unwrap().writes, 0xfffe_fffe_fffe_ffde);
        let dpp = Dpp { bound_ctrl: true, ..dpp };
        let zeroed = swizzle(&dpp, !0).unwrap();
        assert_eq!((zeroed.writes, zeroed.from[0], zeroed.from[1]), (!0, 64, 0));
    }
}
