//! The few vector instructions that fit no lane function: two results, four-register operands, lane numbers, no effect.

use rocfire_isa::{Inst, Op};

use crate::env::Env;
use crate::numeric::window_msad_u8;
use crate::step::{Constant, Flow, Handlers, MicroOp, Role, Selected};
use crate::wave::{LANES, Wave};

/// The handler of such an instruction.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    Some(match inst.op {
        Op::VNop | Op::VClrexcp => Selected::lanes(Handlers::same(nothing)),
        Op::VSwapB32 => Selected::lanes(Handlers::same(swap)),
        Op::VPermlane16SwapB32 => Selected::lanes(Handlers::same(|w, _, st| swap_rows(w, st, 16))),
        Op::VPermlane32SwapB32 => Selected::lanes(Handlers::same(|w, _, st| swap_rows(w, st, 32))),
        Op::VMbcntLoU32B32 => Selected::lanes(Handlers::same(mbcnt_lo)),
        Op::VMbcntHiU32B32 => Selected::lanes(Handlers::same(mbcnt_hi)),
        Op::VMqsadU32U8 => Selected::lanes(Handlers::same(mqsad))
            .with_role(0, Role::Lanes(Constant::B64))
            .with_role(2, Role::Block(Constant::B32)),
        _ => return None,
    })
}

fn nothing(_: &mut Wave, _: &mut Env, _: &MicroOp) -> Flow {
    Flow::Next
}

/// `D, S0 = S0, D`
fn swap(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    let exec = w.exec();
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let (a, b) = (w.lane(st.dst[0], lane), w.lane(st.src[0], lane));
        w.set_lane(st.dst[0], lane, b);
        w.set_lane(st.src[0], lane, a);
    }
    Flow::Next
}

/// Exchanges the odd rows of the destination with the even rows of the source, each a row of `row` lanes. A lane whose
/// partner is off stays as it is, or with `bound_ctrl` becomes zero, unless `fi` lets lanes that are off be read.
fn swap_rows(w: &mut Wave, st: &MicroOp, row: usize) -> Flow {
    let exec = w.exec();
    let (fetch_inactive, bound_ctrl) = match st.inst.mods.dpp {
        Some(dpp) => (dpp.fetch_inactive, dpp.bound_ctrl),
        None => (st.inst.mods.op_sel & 1 != 0, st.inst.mods.op_sel & 2 != 0),
    };
    let is_on = |lane: usize| exec >> lane & 1 != 0;
    let moved = |old: u32, value: u32, from: usize| match is_on(from) || fetch_inactive {
        true => value,
        false if bound_ctrl => 0,
        false => old,
    };
    for even in (0..LANES).filter(|lane| lane & row == 0) {
        let odd = even + row;
        let (a, b) = (w.lane(st.dst[0], odd), w.lane(st.src[0], even));
        if is_on(odd) {
            w.set_lane(st.dst[0], odd, moved(a, b, even));
        }
        if is_on(even) {
            w.set_lane(st.src[0], even, moved(b, a, odd));
        }
    }
    Flow::Next
}

/// `D = S1 + ones of S0 below the lane`, lanes 0 to 31; those above count all 32 bits.
fn mbcnt_lo(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    mbcnt(w, st, |lane| if lane >= 32 { u32::MAX } else { (1 << lane) - 1 })
}

/// `D = S1 + ones of S0 below the lane`, lanes 32 to 63; those below count none.
fn mbcnt_hi(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    mbcnt(w, st, |lane| if lane < 32 { 0 } else { (1 << (lane - 32)) - 1 })
}

#[inline(always)]
fn mbcnt(w: &mut Wave, st: &MicroOp, below: impl Fn(usize) -> u32) -> Flow {
    st.spread(w);
    let exec = w.exec();
    for lane in 0..LANES {
        if exec >> lane & 1 != 0 {
            let ones = (w.lane(st.src[0], lane) & below(lane)).count_ones();
            let sum = w.lane(st.src[1], lane).wrapping_add(ones);
            w.set_lane(st.dst[0], lane, sum);
        }
    }
    Flow::Next
}

/// `D.u32[i] = S2.u32[i] + masked sum of |S0 window i - S1|` for i in 0..4
fn mqsad(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    st.spread(w);
    let exec = w.exec();
    for lane in 0..LANES {
        if exec >> lane & 1 == 0 {
            continue;
        }
        let data = u64::from(w.lane(st.src[0] + 1, lane)) << 32 | u64::from(w.lane(st.src[0], lane));
        let reference = w.lane(st.src[1], lane);
        let sums: [u32; 4] = std::array::from_fn(|i| {
            let add = if st.is_constant(2) { st.k[2] as u32 } else { w.lane(st.src[2] + i as u16, lane) };
            window_msad_u8(data, reference, i as u32, add)
        });
        for (i, sum) in sums.into_iter().enumerate() {
            w.set_lane(st.dst[0] + i as u16, lane, sum);
        }
    }
    Flow::Next
}
