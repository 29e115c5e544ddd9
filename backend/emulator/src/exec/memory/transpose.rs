//! CDNA 4's transposing reads from LDS, and the rarer DS addressing: by lane number, and the conditional exchange.

use rocfire_isa::Op;

use super::space::{Addresses, Attempt, Lds, Space, deny, lds_lane_ptr, record};
use crate::env::Env;
use crate::error::Access;
use crate::instrument::EventKind;
use crate::step::{Flow, Handlers, MicroOp};
use crate::wave::{LANES, Wave, scalar};

/// The handler of such an instruction.
pub(super) fn select(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::DsReadB64TrB4 => transposed::<2, 4>,
        Op::DsReadB96TrB6 => transposed::<3, 6>,
        Op::DsReadB64TrB8 => transposed::<2, 8>,
        Op::DsReadB64TrB16 => transposed::<2, 16>,
        Op::DsReadAddtidB32 => read_by_lane,
        Op::DsWriteAddtidB32 => write_by_lane,
        Op::DsCondxchg32RtnB64 => conditional_exchange,
        _ => return None,
    }))
}

/// Lanes whose data is one matrix.
const GROUP: usize = 16;

/// A lane's `N` dwords of LDS.
fn load<const N: usize>(
    w: &Wave,
    env: &mut Env,
    s: &MicroOp,
    lane: usize,
    addresses: &Addresses,
) -> Result<[u32; N], Flow> {
    match lds_lane_ptr(env, lane, addresses[lane], 4 * N as u64) {
        // SAFETY: `lds_lane_ptr` gave a pointer to `4 * N` bytes that no other thread reaches.
        Ok(host) => Ok(unsafe { host.cast::<[u32; N]>().read_unaligned() }),
        Err(cause) => {
            let attempt = Attempt { addresses, bytes: 4 * N as u64, access: Access::Read };
            Err(deny::<Lds>(w, env, s, &attempt, lane, *cause))
        }
    }
}

/// Writes a lane's `N` dwords to LDS.
fn store<const N: usize>(
    w: &Wave,
    env: &mut Env,
    s: &MicroOp,
    lane: usize,
    addresses: &Addresses,
    value: [u32; N],
) -> Flow {
    match lds_lane_ptr(env, lane, addresses[lane], 4 * N as u64) {
        Ok(host) => {
            // SAFETY: `lds_lane_ptr` gave a pointer to `4 * N` bytes that no other thread reaches.
            unsafe { host.cast::<[u32; N]>().write_unaligned(value) };
            Flow::Next
        }
        Err(cause) => {
            let attempt = Attempt { addresses, bytes: 4 * N as u64, access: Access::Write };
            deny::<Lds>(w, env, s, &attempt, lane, *cause)
        }
    }
}

/// Each lane reads `DWORDS` dwords. Those of 16 lanes, one after the other, are a matrix with 16 columns of elements of
/// `BITS` bits; lane `i` of the 16 gets column `i`. (CDNA 4 ISA, "MFMA Transpose Load from LDS".)
fn transposed<const DWORDS: usize, const BITS: u32>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let exec = w.exec();
    let addresses = Lds::addresses(w, s, s.imm);
    Lds::count(env, u64::from(exec.count_ones()) * 4 * DWORDS as u64, Access::Read);
    if env.observed && exec != 0 {
        record::<Lds>(env, exec, &addresses, (4 * DWORDS as u32, 0), EventKind::Load);
    }
    let mut raw = [0u128; LANES];
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        match load::<DWORDS>(w, env, s, lane, &addresses) {
            Ok(dwords) => {
                raw[lane] = dwords.iter().rev().fold(0, |bits, &dword| bits << 32 | u128::from(dword));
            }
            Err(flow) => return flow,
        }
    }
    let elements = DWORDS * 32 / BITS as usize;
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let (first, column) = (lane / GROUP * GROUP, lane % GROUP);
        let mut bits = 0u128;
        for row in 0..elements {
            let element = row * GROUP + column;
            let from = raw[first + element / elements] >> (BITS as usize * (element % elements));
            bits |= (from & ((1 << BITS) - 1)) << (BITS as usize * row);
        }
        for dword in 0..DWORDS {
            w.set_lane(s.dst[0] + dword as u16, lane, (bits >> (32 * dword)) as u32);
        }
    }
    Flow::Next
}

/// The lane's own dword: at M0, plus the offset, plus four times its number.
fn own_address(w: &Wave, s: &MicroOp, lane: usize) -> u64 {
    u64::from(w.s32(scalar::M0) & 0xffff) + s.imm as u64 + 4 * lane as u64
}

fn read_by_lane(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let exec = w.exec();
    let addresses = std::array::from_fn(|lane| own_address(w, s, lane));
    Lds::count(env, u64::from(exec.count_ones()) * 4, Access::Read);
    if env.observed && exec != 0 {
        record::<Lds>(env, exec, &addresses, (4, 0), EventKind::Load);
    }
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        match load::<1>(w, env, s, lane, &addresses) {
            Ok([value]) => w.set_lane(s.dst[0], lane, value),
            Err(flow) => return flow,
        }
    }
    Flow::Next
}

fn write_by_lane(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let exec = w.exec();
    let addresses = std::array::from_fn(|lane| own_address(w, s, lane));
    Lds::count(env, u64::from(exec.count_ones()) * 4, Access::Write);
    if env.observed && exec != 0 {
        record::<Lds>(env, exec, &addresses, (4, 0), EventKind::Store);
    }
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let flow = store(w, env, s, lane, &addresses, [w.lane(s.src[1], lane)]);
        if flow != Flow::Next {
            return flow;
        }
    }
    Flow::Next
}

/// Each of two dwords is replaced by the low 31 bits of its data where the data's top bit is set; both old ones are
/// returned.
fn conditional_exchange(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let exec = w.exec();
    let addresses = Lds::addresses(w, s, s.imm).map(|address| address & !7);
    Lds::count(env, u64::from(exec.count_ones()) * 8, Access::Atomic);
    if env.observed && exec != 0 {
        record::<Lds>(env, exec, &addresses, (8, 0), EventKind::Atomic);
    }
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let old = match load::<2>(w, env, s, lane, &addresses) {
            Ok(old) => old,
            Err(flow) => return flow,
        };
        let data = [w.lane(s.src[1], lane), w.lane(s.src[1] + 1, lane)];
        let new = std::array::from_fn(|i| if data[i] >> 31 != 0 { data[i] & 0x7fff_ffff } else { old[i] });
        let flow = store::<2>(w, env, s, lane, &addresses, new);
        if flow != Flow::Next {
            return flow;
        }
        w.set_lane(s.dst[0], lane, old[0]);
        w.set_lane(s.dst[0] + 1, lane, old[1]);
    }
    Flow::Next
}
