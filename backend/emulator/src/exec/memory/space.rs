//! From address registers to checked host pointers.
//!
//! [`Space::resolve`] looks at the whole wave at once. Mostly the lanes lie in one window, and one check covers all of them:
//! [`AccessPattern::Linear`] where they follow one another without gaps, [`AccessPattern::Span`] otherwise.
//!
//! Where they do not, or one of them is bad, [`Space::lane_ptr`] is asked lane by lane ([`AccessPattern::Scattered`]). It finds the
//! first lane to blame, and [`deny`] the others.

use crate::env::{Cause, Env};
use crate::error::{Access, FaultKind, Nearest};
use crate::instrument::{Event, EventKind, MemorySpace};
use crate::step::{Flow, MicroOp, PRIVATE_APERTURE, RangeRule, SHARED_APERTURE};
use crate::wave::{LANES, Lanes, Wave};

/// Addresses of all lanes; those of lanes that are off mean nothing.
pub(super) type Addresses = [u64; LANES];

/// Where the lanes' bytes are.
// It lives in one handler's frame for one instruction: a box would cost more than the difference in size.
#[allow(clippy::large_enum_variant)]
pub(super) enum AccessPattern {
    /// All lanes are on, and lane `i`'s bytes are `i` accesses after the pointer.
    Linear(*mut u8),
    /// Lane `i`'s bytes are at an offset from the pointer; lanes that are off have the offset of one that is on.
    Span(*mut u8, Lanes),
    /// To be looked at one by one.
    Scattered,
}

/// Where the bytes of all lanes are, if that follows a simple rule.
pub(super) enum Spacing {
    /// Lane `i`'s are `i` accesses after the pointer.
    Consecutive(*mut u8),
    /// All lanes have the same.
    Same(*mut u8),
}

/// Whether the numbers of a wave's lanes step by `BYTES` without overflow (true), or are the same (false); `None` if neither.
#[inline(always)]
fn steps<const BYTES: usize>(w: &Wave, lanes: &Lanes) -> Option<bool> {
    if w.lanes == LANES { steps_of::<BYTES>(&lanes.0) } else { steps_of::<BYTES>(&lanes.0[..HALF]) }
}

/// Lanes of a wave32.
const HALF: usize = LANES / 2;

/// Lanes that the wave has.
#[inline(always)]
fn lanes_of(w: &Wave) -> usize {
    if w.lanes == LANES { LANES } else { HALF }
}

/// Whether all lanes of the wave are on.
#[inline(always)]
fn all_on(w: &Wave) -> bool {
    w.exec() == u64::MAX >> (LANES - w.lanes)
}

#[inline(always)]
fn steps_of<const BYTES: usize>(lanes: &[u32]) -> Option<bool> {
    let first = lanes[0];
    let step = lanes[1].wrapping_sub(first);
    let mut different = 0;
    if step == BYTES as u32 {
        for (i, lane) in lanes.iter().enumerate() {
            different |= lane ^ first.wrapping_add((i * BYTES) as u32);
        }
        (different == 0 && lanes[lanes.len() - 1] > first).then_some(true)
    } else if step == 0 {
        for lane in lanes {
            different |= lane ^ first;
        }
        (different == 0).then_some(false)
    } else {
        None
    }
}

/// A kind of memory.
pub(super) trait Space {
    /// Bytes that are looked at one by one where an access is wider: a descriptor's range check is for each dword.
    const PIECE: usize = 16;
    /// The memory that it is, at the addresses as they are, if there is only one.
    const ONLY: Option<MemorySpace> = None;

    /// The lanes' addresses, `offset_bytes` included.
    fn addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses;

    /// The pattern of the lanes' accesses of `BYTES` bytes each; some lane is on.
    fn resolve<const BYTES: usize>(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        offset_bytes: i64,
        access: Access,
    ) -> AccessPattern;

    /// The lanes' places as a [`Spacing`], if all lanes are on and the address registers show one. It is asked first, because it
    /// needs no list of addresses; `None` may mean that there is no rule, or that an address is bad.
    #[inline(always)]
    fn line<const BYTES: usize>(_: &Wave, _: &mut Env, _: &MicroOp, _: i64, _: Access) -> Option<Spacing> {
        None
    }

    /// One lane's pointer, valid until the next call. `None`: the access is to be left out, and a load gives zero.
    fn lane_ptr(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        lane: usize,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Option<*mut u8>, Box<Cause>>;

    /// Counts the bytes asked for.
    fn count(env: &mut Env, bytes: u64, access: Access);

    /// Which memory a lane's address is in, and where there; `None` if the access is left out.
    fn place_of(address: u64) -> Option<(MemorySpace, u64)>;
}

/// Tells who watches the launch what the lanes that are on are about to do, with `bytes` bytes each. `register`: see
/// [`Event`]. Every handler that reaches memory calls it, before it changes a register.
#[inline(always)]
pub(super) fn observe<S: Space>(
    w: &Wave,
    env: &mut Env,
    s: &MicroOp,
    (offset_bytes, bytes, register): (i64, usize, u16),
    access: Access,
) {
    if env.observed {
        tell::<S>(w, env, s, (offset_bytes, bytes, register), access);
    }
}

#[inline(never)]
fn tell<S: Space>(
    w: &Wave,
    env: &mut Env,
    s: &MicroOp,
    (offset_bytes, bytes, register): (i64, usize, u16),
    access: Access,
) {
    let kind = match access {
        Access::Read => EventKind::Load,
        Access::Write => EventKind::Store,
        Access::Atomic => EventKind::Atomic,
    };
    for (at, bytes) in pieces::<S>(w, s, offset_bytes, bytes) {
        let (addresses, register) = (S::addresses(w, s, offset_bytes + at as i64), register + at as u16 / 4);
        record::<S>(env, w.exec(), &addresses, (bytes as u32, register), kind);
    }
}

/// The pieces of an access, each with its distance from the first byte and its length: one, unless there are lanes of which
/// only a part is left out.
pub(super) fn pieces<S: Space>(
    w: &Wave,
    s: &MicroOp,
    offset_bytes: i64,
    bytes: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let mut piece = S::PIECE.min(bytes);
    if piece < bytes {
        let exec = w.exec();
        let first = S::addresses(w, s, offset_bytes);
        let apart = |at: usize| {
            let here = S::addresses(w, s, offset_bytes + at as i64);
            (0..LANES).any(|lane| {
                exec >> lane & 1 != 0 && S::place_of(first[lane]).is_some() != S::place_of(here[lane]).is_some()
            })
        };
        if !(piece..bytes).step_by(piece).any(apart) {
            piece = bytes;
        }
    }
    (0..bytes).step_by(piece.max(1)).map(move |at| (at, piece))
}

/// Records an event for each kind of memory that the lanes of `exec` reach.
#[inline(never)]
pub(super) fn record<S: Space>(
    env: &mut Env,
    exec: u64,
    addresses: &Addresses,
    (bytes, register): (u32, u16),
    kind: EventKind,
) {
    if let Some(space) = S::ONLY {
        env.events.push(Event::new(kind, space, exec, (bytes, register), addresses));
        return;
    }
    // Masks and addresses by kind of memory, in the order in which lanes reach them.
    let mut found: [(Option<MemorySpace>, u64, Addresses); 3] = [(None, 0, [0; LANES]); 3];
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let Some((space, address)) = S::place_of(addresses[lane]) else { continue };
        let place = found.iter().position(|(other, ..)| other.is_none_or(|other| other == space)).unwrap_or(0);
        let (of, lanes, places) = &mut found[place];
        *of = Some(space);
        *lanes |= 1 << lane;
        places[lane] = address;
    }
    for (space, lanes, places) in &found {
        let Some(space) = *space else { break };
        env.events.push(Event::new(kind, space, *lanes, (bytes, register), places));
    }
}

/// GLOBAL.
pub(super) struct Device;
/// FLAT: device memory, LDS or scratch by address.
pub(super) struct Flat;
/// SCRATCH.
pub(super) struct Scratch;
/// MUBUF: device memory through a resource descriptor.
pub(super) struct Buffer;
/// DS.
pub(super) struct Lds;

/// A bad access of one lane.
#[cold]
fn cause(kind: FaultKind, lane: usize, address: u64, bytes: u64, nearest: Nearest) -> Box<Cause> {
    Box::new(Cause { kind, lane: Some(lane as u32), address: Some(address), bytes: bytes as u32, nearest })
}

/// What the lanes of an instruction do, each with `bytes` bytes.
pub(super) struct Attempt<'a> {
    pub(super) addresses: &'a Addresses,
    pub(super) bytes: u64,
    pub(super) access: Access,
}

/// Stops the wave for what `lane` must not do, and blames every lane behind it that must not either.
#[cold]
#[inline(never)]
pub(super) fn deny<S: Space>(
    w: &Wave,
    env: &mut Env,
    s: &MicroOp,
    attempt: &Attempt<'_>,
    lane: usize,
    cause: Cause,
) -> Flow {
    let Attempt { addresses, bytes, access } = *attempt;
    let behind = (lane..LANES).filter(|lane| w.exec() >> lane & 1 != 0);
    let refused = |&lane: &usize| S::lane_ptr(w, env, s, lane, addresses[lane], bytes, access).is_err();
    let lanes = behind.filter(refused).fold(1 << lane, |lanes, lane| lanes | 1 << lane);
    env.fault_lanes = lanes;
    env.fail_with(cause)
}

/// The 64-bit address registers plus an offset.
#[inline(always)]
fn vector_addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses {
    let (low, high) = (&w.v[s.src[0] as usize].0, &w.v[s.src[0] as usize + 1].0);
    std::array::from_fn(|i| (u64::from(low[i]) | u64::from(high[i]) << 32).wrapping_add(offset_bytes as u64))
}

/// Whether lane `i`'s address is lane 0's plus `i * BYTES`, without overflow.
#[inline(always)]
fn is_linear<const BYTES: usize>(addresses: &[u64]) -> bool {
    let first = addresses[0];
    let mut different = 0;
    for (i, address) in addresses.iter().enumerate() {
        different |= address ^ first.wrapping_add((i * BYTES) as u64);
    }
    different == 0 && first < u64::MAX - (LANES * BYTES) as u64
}

/// Lowest address and offsets from it, with lanes that are off moved to one that is on. `None` if they are 2^31 or more
/// apart.
#[inline(always)]
fn spread(addresses: &Addresses, exec: u64, lanes: usize) -> Option<(u64, u64, Lanes)> {
    let first = addresses[exec.trailing_zeros() as usize % LANES];
    let (mut lowest, mut highest) = (i64::MAX, i64::MIN);
    let mut deltas = [0i64; LANES];
    for i in 0..lanes {
        let delta = if exec >> i & 1 != 0 { addresses[i].wrapping_sub(first) as i64 } else { 0 };
        deltas[i] = delta;
        lowest = lowest.min(delta);
        highest = highest.max(delta);
    }
    if lowest <= -(1 << 30) || highest >= 1 << 30 {
        return None;
    }
    let mut offsets = Lanes::ZERO;
    for i in 0..lanes {
        offsets.0[i] = (deltas[i] - lowest) as u32;
    }
    Some((first.wrapping_add(lowest as u64), (highest - lowest) as u64, offsets))
}

/// The pattern of an access to device memory.
#[inline(always)]
fn resolve_device<const BYTES: usize>(
    w: &Wave,
    env: &mut Env,
    s: &MicroOp,
    addresses: &Addresses,
    access: Access,
) -> AccessPattern {
    let exec = w.exec();
    let is_linear = match w.lanes {
        LANES => exec == !0 && is_linear::<BYTES>(addresses),
        _ => all_on(w) && is_linear::<BYTES>(&addresses[..HALF]),
    };
    if is_linear {
        return match env.device_ptr(s.site, addresses[0], (w.lanes * BYTES) as u64, access) {
            Ok(host) => AccessPattern::Linear(host),
            Err(_) => AccessPattern::Scattered,
        };
    }
    let Some((lowest, extent, offsets)) = spread(addresses, exec, lanes_of(w)) else { return AccessPattern::Scattered };
    match env.device_ptr(s.site, lowest, extent + BYTES as u64, access) {
        Ok(host) => AccessPattern::Span(host, offsets),
        Err(_) => AccessPattern::Scattered,
    }
}

fn device_lane_ptr(
    env: &mut Env,
    s: &MicroOp,
    lane: usize,
    address: u64,
    bytes: u64,
    access: Access,
) -> Result<Option<*mut u8>, Box<Cause>> {
    match env.device_ptr(s.site, address, bytes, access) {
        Ok(host) => Ok(Some(host)),
        Err(bad) => Err(cause(bad.denied.kind.clone(), lane, address, bytes, bad.denied.nearest)),
    }
}

pub(super) fn lds_lane_ptr(env: &mut Env, lane: usize, address: u64, bytes: u64) -> Result<*mut u8, Box<Cause>> {
    let lds_bytes = env.lds.len() as u32;
    match env.lds.host_ptr(address, bytes) {
        Some(host) => Ok(host),
        None => Err(cause(FaultKind::LdsOutOfBounds { lds_bytes }, lane, address, bytes, Nearest::Unknown)),
    }
}

fn scratch_lane_ptr(
    w: &Wave,
    env: &mut Env,
    lane: usize,
    address: u64,
    bytes: u64,
) -> Result<Option<*mut u8>, Box<Cause>> {
    let scratch_bytes = env.scratch_bytes;
    let inside = address.checked_add(bytes).is_some_and(|end| end <= u64::from(scratch_bytes));
    let place = (u64::from(w.number) * LANES as u64 + lane as u64) * u64::from(env.scratch_stride_bytes);
    match env.scratch.host_ptr(place + if inside { address } else { 0 }, bytes) {
        Some(host) if inside => Ok(Some(host)),
        _ => Err(cause(FaultKind::ScratchOutOfBounds { scratch_bytes }, lane, address, bytes, Nearest::Unknown)),
    }
}

/// The pattern of an access to scratch.
#[inline(always)]
fn resolve_scratch<const BYTES: usize>(w: &Wave, env: &mut Env, addresses: &Addresses) -> AccessPattern {
    let exec = w.exec();
    let Some(limit) = u64::from(env.scratch_bytes).checked_sub(BYTES as u64) else { return AccessPattern::Scattered };
    let stride = env.scratch_stride_bytes;
    let first = exec.trailing_zeros() as usize % LANES;
    let mut offsets = Lanes::ZERO;
    let mut bad = false;
    for i in 0..lanes_of(w) {
        let lane = if exec >> i & 1 != 0 { i } else { first };
        bad |= addresses[lane] > limit;
        offsets.0[i] = (lane as u32 * stride).wrapping_add(addresses[lane] as u32);
    }
    let bytes = LANES as u64 * u64::from(stride);
    match env.scratch.host_ptr(u64::from(w.number) * bytes, bytes) {
        Some(host) if !bad => AccessPattern::Span(host, offsets),
        _ => AccessPattern::Scattered,
    }
}

fn count_device(env: &mut Env, bytes: u64, access: Access) {
    match access {
        Access::Read => env.bytes.global_read += bytes,
        Access::Write => env.bytes.global_written += bytes,
        Access::Atomic => {
            env.bytes.global_read += bytes;
            env.bytes.global_written += bytes;
        }
    }
}

impl Space for Device {
    const ONLY: Option<MemorySpace> = Some(MemorySpace::Global);

    #[inline(always)]
    fn addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses {
        if s.inst.src[2].is_some() {
            let base = s.s64(w, 2).wrapping_add(offset_bytes as u64);
            let lanes = &w.v[s.src[0] as usize].0;
            std::array::from_fn(|i| base.wrapping_add(u64::from(lanes[i])))
        } else {
            vector_addresses(w, s, offset_bytes)
        }
    }

    #[inline(always)]
    fn resolve<const BYTES: usize>(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        offset_bytes: i64,
        access: Access,
    ) -> AccessPattern {
        resolve_device::<BYTES>(w, env, s, &Self::addresses(w, s, offset_bytes), access)
    }

    #[inline(always)]
    fn line<const BYTES: usize>(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        offset_bytes: i64,
        access: Access,
    ) -> Option<Spacing> {
        if !all_on(w) {
            return None;
        }
        let low = &w.v[s.src[0] as usize];
        let steps = steps::<BYTES>(w, low)?;
        let base = if s.inst.src[2].is_some() {
            s.s64(w, 2)
        } else {
            let high = &w.v[s.src[0] as usize + 1].0;
            let mut different = 0;
            for lane in &high[..if w.lanes == LANES { LANES } else { HALF }] {
                different |= lane ^ high[0];
            }
            if different != 0 {
                return None;
            }
            u64::from(high[0]) << 32
        };
        let address = base.wrapping_add(u64::from(low.0[0])).wrapping_add(offset_bytes as u64);
        let bytes = if steps { w.lanes * BYTES } else { BYTES };
        let host = env.device_ptr(s.site, address, bytes as u64, access).ok()?;
        Some(if steps { Spacing::Consecutive(host) } else { Spacing::Same(host) })
    }

    fn lane_ptr(
        _: &Wave,
        env: &mut Env,
        s: &MicroOp,
        lane: usize,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Option<*mut u8>, Box<Cause>> {
        device_lane_ptr(env, s, lane, address, bytes, access)
    }

    #[inline(always)]
    fn count(env: &mut Env, bytes: u64, access: Access) {
        count_device(env, bytes, access);
    }

    fn place_of(address: u64) -> Option<(MemorySpace, u64)> {
        Some((MemorySpace::Global, address))
    }
}

impl Space for Flat {
    #[inline(always)]
    fn addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses {
        vector_addresses(w, s, offset_bytes)
    }

    #[inline(never)]
    fn resolve<const BYTES: usize>(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        offset_bytes: i64,
        access: Access,
    ) -> AccessPattern {
        let addresses = Self::addresses(w, s, offset_bytes);
        let exec = w.exec();
        let is_device = |address: u64| {
            let aperture = (address >> 32) as u32;
            aperture != SHARED_APERTURE && aperture != PRIVATE_APERTURE
        };
        let on = || (0..LANES).filter(|i| exec >> i & 1 != 0).map(|i| addresses[i]);
        if on().all(is_device) {
            resolve_device::<BYTES>(w, env, s, &addresses, access)
        } else if on().all(|address| (address >> 32) as u32 == PRIVATE_APERTURE) {
            resolve_scratch::<BYTES>(w, env, &addresses.map(|address| address & 0xffff_ffff))
        } else {
            AccessPattern::Scattered
        }
    }

    fn lane_ptr(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        lane: usize,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Option<*mut u8>, Box<Cause>> {
        let offset = address & 0xffff_ffff;
        match (address >> 32) as u32 {
            SHARED_APERTURE => lds_lane_ptr(env, lane, offset, bytes).map(Some),
            PRIVATE_APERTURE => scratch_lane_ptr(w, env, lane, offset, bytes),
            _ => device_lane_ptr(env, s, lane, address, bytes, access),
        }
    }

    fn count(env: &mut Env, bytes: u64, access: Access) {
        count_device(env, bytes, access);
    }

    fn place_of(address: u64) -> Option<(MemorySpace, u64)> {
        let offset = address & 0xffff_ffff;
        Some(match (address >> 32) as u32 {
            SHARED_APERTURE => (MemorySpace::Lds, offset),
            PRIVATE_APERTURE => (MemorySpace::Scratch, offset),
            _ => (MemorySpace::Global, address),
        })
    }
}

impl Space for Scratch {
    const ONLY: Option<MemorySpace> = Some(MemorySpace::Scratch);

    #[inline(always)]
    fn addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses {
        let base = if s.inst.src[2].is_some() { s.s32(w, 2) } else { 0 }.wrapping_add(offset_bytes as u32);
        if s.inst.src[0].is_some() {
            let lanes = &w.v[s.src[0] as usize].0;
            std::array::from_fn(|i| u64::from(base.wrapping_add(lanes[i])))
        } else {
            [u64::from(base); LANES]
        }
    }

    #[inline(never)]
    fn resolve<const BYTES: usize>(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        offset_bytes: i64,
        _: Access,
    ) -> AccessPattern {
        resolve_scratch::<BYTES>(w, env, &Self::addresses(w, s, offset_bytes))
    }

    fn lane_ptr(
        w: &Wave,
        env: &mut Env,
        _: &MicroOp,
        lane: usize,
        address: u64,
        bytes: u64,
        _: Access,
    ) -> Result<Option<*mut u8>, Box<Cause>> {
        scratch_lane_ptr(w, env, lane, address, bytes)
    }

    fn count(env: &mut Env, bytes: u64, _: Access) {
        env.bytes.scratch += bytes;
    }

    fn place_of(address: u64) -> Option<(MemorySpace, u64)> {
        Some((MemorySpace::Scratch, address))
    }
}

/// Address of a lane that the descriptor's range check has refused: no allocation is there.
const OUT_OF_RANGE: u64 = u64::MAX;

/// The bit of a descriptor's last word by which the lane's number is part of the address (ADD_TID_ENABLE).
const ADD_LANE: u32 = 1 << 23;

/// The resource descriptor of scratch, for targets that reach it through MUBUF. Its base is zero because scratch has no
/// address here, and the wave's own offset, which kernels add to it, is zero too.
pub(crate) const SCRATCH_DESCRIPTOR: [u32; 4] = [0, 0, u32::MAX, ADD_LANE];

/// Whether a buffer instruction goes to scratch.
fn is_scratch(w: &Wave, s: &MicroOp) -> bool {
    w.s32(s.src[2] + 3) & ADD_LANE != 0
}

/// Addresses of a buffer instruction that goes to scratch, in the private aperture. Scratch is interleaved by dwords, so
/// that one byte of the scalar offset, which is not, is worth as many less to each lane as a wave has lanes.
fn swizzled_addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses {
    let base = (s.s32(w, 3) / w.lanes as u32).wrapping_add(offset_bytes as u32);
    std::array::from_fn(|i| {
        let offset = if s.inst.mods.offen { w.lane(s.src[0], i) } else { 0 };
        u64::from(PRIVATE_APERTURE) << 32 | u64::from(base.wrapping_add(offset))
    })
}

/// How a resource descriptor's range check counts.
enum Range {
    /// Bytes from the base, the scalar offset among them; whether the whole access must be inside, or its first byte.
    Bytes { whole: bool },
    /// Records of the stride's length by their index; whether the access must also end inside its record.
    Records { inside: bool },
    /// Nothing but whether there are any records.
    Any,
}

impl Range {
    /// The rule of a descriptor whose last word is `last`. Before RDNA an index counts records, and everything without an
    /// index bytes (CDNA 3 ISA, "Range checking"); on RDNA the descriptor says it in OOB_SELECT (RDNA 2 and 3 ISA, table
    /// "OOB_SELECT"), where a rule about records needs a stride.
    fn of(s: &MicroOp, last: u32, stride: u64) -> Range {
        let indexed = s.inst.mods.idxen;
        match (s.range_rule, last >> 28 & 3) {
            (RangeRule::Index, _) if indexed && stride != 0 => Range::Records { inside: false },
            (RangeRule::Index, _) => Range::Bytes { whole: false },
            (RangeRule::Descriptor, 0) if stride != 0 => Range::Records { inside: true },
            (RangeRule::Descriptor, 1) if stride != 0 => Range::Records { inside: false },
            (RangeRule::Descriptor, 2) => Range::Any,
            (RangeRule::Descriptor, _) => Range::Bytes { whole: true },
        }
    }
}

impl Space for Buffer {
    const PIECE: usize = 4;

    fn addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses {
        if is_scratch(w, s) {
            return swizzled_addresses(w, s, offset_bytes);
        }
        // The descriptor: base in bits 47..0, stride in 61..48, records in 95..64.
        let (low, records) = (s.s64(w, 2), u64::from(w.s32(s.src[2] + 2)));
        let (base, stride) = (low & 0xffff_ffff_ffff, low >> 48 & 0x3fff);
        let range = Range::of(s, w.s32(s.src[2] + 3), stride);
        let bytes = u64::from(s.inst.op.facts().piece_bytes);
        let scalar_offset = u64::from(s.s32(w, 3));
        let mods = &s.inst.mods;
        std::array::from_fn(|i| {
            let mut register = s.src[0];
            let mut next = || {
                register += 1;
                u64::from(w.lane(register - 1, i))
            };
            let index = if mods.idxen { next() } else { 0 };
            let offset = (if mods.offen { next() } else { 0 }).wrapping_add(offset_bytes as u64);
            let in_range = match range {
                Range::Bytes { whole: true } => index * stride + offset + scalar_offset + bytes <= records,
                Range::Bytes { whole: false } => offset + scalar_offset < records,
                Range::Records { inside } => index < records && !(inside && offset + bytes > stride),
                Range::Any => records != 0,
            };
            if in_range { base + scalar_offset + index * stride + offset } else { OUT_OF_RANGE }
        })
    }

    #[inline(never)]
    fn resolve<const BYTES: usize>(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        offset_bytes: i64,
        access: Access,
    ) -> AccessPattern {
        if is_scratch(w, s) {
            // They were counted as bytes of device memory.
            let bytes = u64::from(w.exec().count_ones()) * BYTES as u64;
            match access {
                Access::Read => env.bytes.global_read -= bytes,
                Access::Write | Access::Atomic => env.bytes.global_written -= bytes,
            }
            env.bytes.scratch += bytes;
            let addresses = swizzled_addresses(w, s, offset_bytes);
            return resolve_scratch::<BYTES>(w, env, &addresses.map(|address| address & 0xffff_ffff));
        }
        // Some lanes may be out of range, which is no error here.
        AccessPattern::Scattered
    }

    fn lane_ptr(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        lane: usize,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Option<*mut u8>, Box<Cause>> {
        match (address, (address >> 32) as u32) {
            (OUT_OF_RANGE, _) => Ok(None),
            (_, PRIVATE_APERTURE) => scratch_lane_ptr(w, env, lane, address & 0xffff_ffff, bytes),
            _ => device_lane_ptr(env, s, lane, address, bytes, access),
        }
    }

    fn count(env: &mut Env, bytes: u64, access: Access) {
        count_device(env, bytes, access);
    }

    fn place_of(address: u64) -> Option<(MemorySpace, u64)> {
        match (address, (address >> 32) as u32) {
            (OUT_OF_RANGE, _) => None,
            (_, PRIVATE_APERTURE) => Some((MemorySpace::Scratch, address & 0xffff_ffff)),
            _ => Some((MemorySpace::Global, address)),
        }
    }
}

impl Space for Lds {
    const ONLY: Option<MemorySpace> = Some(MemorySpace::Lds);

    #[inline(always)]
    fn line<const BYTES: usize>(w: &Wave, env: &mut Env, s: &MicroOp, offset_bytes: i64, _: Access) -> Option<Spacing> {
        if !all_on(w) {
            return None;
        }
        let lanes = &w.v[s.src[0] as usize];
        let steps = steps::<BYTES>(w, lanes)?;
        let bytes = if steps { w.lanes * BYTES } else { BYTES };
        let host = env.lds.host_ptr(u64::from(lanes.0[0].wrapping_add(offset_bytes as u32)), bytes as u64)?;
        Some(if steps { Spacing::Consecutive(host) } else { Spacing::Same(host) })
    }

    #[inline(always)]
    fn addresses(w: &Wave, s: &MicroOp, offset_bytes: i64) -> Addresses {
        let lanes = &w.v[s.src[0] as usize].0;
        std::array::from_fn(|i| u64::from(lanes[i].wrapping_add(offset_bytes as u32)))
    }

    #[inline(always)]
    fn resolve<const BYTES: usize>(
        w: &Wave,
        env: &mut Env,
        s: &MicroOp,
        offset_bytes: i64,
        _: Access,
    ) -> AccessPattern {
        let exec = w.exec();
        let lanes = &w.v[s.src[0] as usize].0;
        let offset = offset_bytes as u32;
        let whole = env.lds.len() as u64;
        let Some(host) = env.lds.host_ptr(0, whole) else { return AccessPattern::Scattered };
        let Some(limit) = (whole as u32).checked_sub(BYTES as u32) else { return AccessPattern::Scattered };
        let mut offsets = Lanes::ZERO;
        let mut highest = 0;
        let mut different = 0;
        let first = lanes[exec.trailing_zeros() as usize % LANES].wrapping_add(offset);
        for i in 0..lanes_of(w) {
            let address = if exec >> i & 1 != 0 { lanes[i].wrapping_add(offset) } else { first };
            offsets.0[i] = address;
            highest = highest.max(address);
            different |= address ^ first.wrapping_add((i * BYTES) as u32);
        }
        if highest > limit {
            AccessPattern::Scattered
        } else if different == 0 && all_on(w) {
            // SAFETY: `first` is not above `highest`, which is inside.
            AccessPattern::Linear(unsafe { host.add(first as usize) })
        } else {
            AccessPattern::Span(host, offsets)
        }
    }

    fn lane_ptr(
        _: &Wave,
        env: &mut Env,
        _: &MicroOp,
        lane: usize,
        address: u64,
        bytes: u64,
        _: Access,
    ) -> Result<Option<*mut u8>, Box<Cause>> {
        lds_lane_ptr(env, lane, address, bytes).map(Some)
    }

    #[inline(always)]
    fn count(env: &mut Env, bytes: u64, access: Access) {
        match access {
            Access::Read => env.bytes.lds_read += bytes,
            Access::Write => env.bytes.lds_written += bytes,
            Access::Atomic => {
                env.bytes.lds_read += bytes;
                env.bytes.lds_written += bytes;
            }
        }
    }

    fn place_of(address: u64) -> Option<(MemorySpace, u64)> {
        Some((MemorySpace::Lds, address))
    }
}
