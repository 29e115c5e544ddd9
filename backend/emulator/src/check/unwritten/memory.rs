//! Memory instructions: addresses, and the state that goes to and comes from memory.

use rocfire_isa::{Format, Op, Part};

use super::vector_op::written_bytes;
use super::{DEFINED, STORED_UNDEFINED, Source, UNWRITTEN, Unwritten, WINDOWS};
use crate::env::Env;
use crate::error::Access;
use crate::exec::memory::lane_at;
use crate::instrument::uses::{Named, named};
use crate::instrument::{At, Event, EventKind, Finding, MemorySpace, Registers, Verdict};
use crate::memory::Window;
use crate::wave::{LANES, Wave, scalar};

/// Most bytes of a lane's access.
const WIDEST: usize = 64;

impl Unwritten {
    /// That the address registers of a memory instruction are defined.
    pub(super) fn addresses(&mut self, at: &At<'_>, w: &Wave) -> Verdict {
        let inst = &at.step.inst;
        let exec = w.exec();
        // For a DS instruction the other sources are data; for SMEM the third is.
        let operands: &[usize] = match inst.format {
            Format::Ds => &[0],
            Format::Smem => &[0, 1],
            _ => &[0, 2, 3],
        };
        for operand in operands.iter().map(|&i| &inst.src[i]) {
            let state = self.state(w);
            let (undefined, source, known) = match named(operand) {
                Some(Named::Vector(registers)) => {
                    let mut lanes = 0;
                    let mut first = registers.first;
                    for register in registers.range().rev() {
                        let Some(bytes) = state.vector.get(usize::from(register)) else { continue };
                        let here = (bytes[0] | bytes[1] | bytes[2] | bytes[3]) & exec;
                        if here != 0 {
                            first = register;
                        }
                        lanes |= here;
                    }
                    (lanes, Source::Vector(first), state.vector_origin.get(usize::from(first)).copied())
                }
                Some(Named::Scalar(registers)) if inst.format == Format::Smem || exec != 0 => {
                    let undefined = |&r: &u16| state.scalar.get(usize::from(r)).is_some_and(|&bits| bits != 0);
                    match registers.range().find(undefined) {
                        Some(r) => (1, Source::Scalar(r), state.scalar_origin.get(usize::from(r)).copied()),
                        None => continue,
                    }
                }
                Some(Named::Scalar(_)) | None => continue,
            };
            // Data that is only moved between lanes has no address in source 0 of a swizzle.
            if undefined != 0 && inst.op != Op::DsSwizzleB32 {
                let origin = match known.unwrap_or(0) {
                    0 => self.origin(source, at.index),
                    known => known,
                };
                let lanes = if matches!(source, Source::Vector(_)) { undefined } else { 0 };
                return Err(self.finding(at, "the address".to_owned(), origin, lanes));
            }
        }
        Ok(())
    }

    /// DS instructions that move data between lanes and do not touch LDS.
    pub(super) fn lane_move(&mut self, at: &At<'_>, w: &Wave) {
        let inst = &at.step.inst;
        let exec = w.exec();
        let data = match inst.op {
            Op::DsBpermuteB32 | Op::DsPermuteB32 => at.step.src[1],
            Op::DsSwizzleB32 => at.step.src[0],
            _ => return,
        };
        let marked = &self.waves[w.number as usize].marked;
        let all_on = exec == u64::MAX >> (LANES - w.lanes);
        if !marked.meets(&at.uses.reads) && !marked.meets(&at.uses.writes) && (all_on || !self.follows_shuffles) {
            return;
        }
        let address = w.v[usize::from(at.step.src[0])];
        let on = |lane: usize| exec >> lane & 1 != 0;
        let state = self.state(w);
        let bits: Vec<u32> = (0..LANES).map(|lane| if on(lane) { state.vector_bits(data, lane) } else { 0 }).collect();
        let known = state.vector_origin[usize::from(data)];
        let origin = match (known, bits.iter().any(|&bits| bits != 0)) {
            (0, true) => self.origin(Source::Vector(data), at.index),
            (known, _) => known,
        };
        let arch = at.program.arch;
        let other = |lane: usize| lane_at(w, arch, at.step, lane, address.0[lane]);
        let is_off = |lane: &usize| on(*lane) && !on(other(*lane));
        let off = match inst.op {
            Op::DsBpermuteB32 if self.follows_shuffles => (0..LANES).find(is_off),
            _ => None,
        };
        let origin = match off {
            Some(lane) if bits.iter().all(|&bits| bits == 0) => {
                self.origin(Source::LaneOff { register: data, lane: other(lane) as u8 }, at.index)
            }
            _ => origin,
        };
        let mut moved = vec![0; LANES];
        match inst.op {
            Op::DsBpermuteB32 => (0..LANES).for_each(|lane| {
                let from = other(lane);
                moved[lane] = if off.is_some() && !on(from) { !0 } else { bits[from] };
            }),
            Op::DsPermuteB32 => (0..LANES).filter(|&lane| on(lane)).for_each(|lane| moved[other(lane)] = bits[lane]),
            // A pattern within 32 lanes: undefined if any lane there is.
            _ => (0..LANES).for_each(|lane| {
                let half = lane & !31;
                moved[lane] = bits[half..half + 32].iter().fold(0, |any, bits| any | bits);
            }),
        }
        let register = at.step.dst[0];
        let state = self.state(w);
        for lane in (0..LANES).filter(|&lane| on(lane)) {
            state.set_vector_bits(register, lane, moved[lane], 0b1111, origin);
        }
    }

    /// What an instruction has loaded or stored.
    pub(super) fn memory_op(&mut self, at: &At<'_>, w: &Wave, env: &Env, events: &[Event]) -> Verdict {
        let inst = &at.step.inst;
        let bytes = written_bytes(&at.step.inst);
        let exec = w.exec();
        if !matches!(inst.op, Op::DsBpermuteB32 | Op::DsPermuteB32 | Op::DsSwizzleB32) {
            // What comes is defined unless an event says otherwise: a descriptor's bounds give zero, clocks are clocks.
            let state = self.state(w);
            if state.marked.meets(&at.uses.writes) {
                at.uses.vector_writes.iter().for_each(|&registers| state.define_vector(registers, exec, bytes));
                at.uses.scalar_writes.iter().for_each(|&registers| state.define_scalar(registers));
                state.mark(at.uses);
            }
        }
        for event in events {
            match event.kind {
                EventKind::ScalarLoad => self.scalar_load(at, w, env, event),
                EventKind::Load => self.load(at, w, env, event),
                // Whether the data is defined was seen at the instruction's scalar sources.
                EventKind::Store | EventKind::Atomic if inst.format == Format::Smem => {
                    self.device_write(at, env, event.addresses[0], event.bytes);
                }
                EventKind::Store => self.store(at, w, env, event)?,
                EventKind::Atomic => self.atomic(at, w, env, event)?,
                EventKind::ToLds if event.space == MemorySpace::Global => {
                    for (lane, address) in event.lane_addresses() {
                        self.incoming[lane] = self.device_unwritten(at, env, address, event.bytes);
                    }
                }
                EventKind::ToLds => {
                    self.lds_is_defined = false;
                    for (lane, address) in event.lane_addresses() {
                        for byte in 0..event.bytes as usize {
                            if let Some(place) = self.lds.get_mut(address as usize + byte) {
                                let undefined = self.incoming[lane] >> byte & 1 != 0;
                                *place = if undefined { STORED_UNDEFINED } else { DEFINED };
                            }
                        }
                    }
                    // What the next piece brings is its own.
                    self.incoming.fill(0);
                }
            }
        }
        Ok(())
    }

    fn scalar_load(&mut self, at: &At<'_>, w: &Wave, env: &Env, event: &Event) {
        let undefined = self.device_unwritten(at, env, event.addresses[0], event.bytes);
        if undefined == 0 {
            return;
        }
        let address = event.addresses[0] + u64::from(undefined.trailing_zeros());
        let bytes = (undefined >> undefined.trailing_zeros()).trailing_ones();
        let origin = self.origin(Source::Device { address, bytes }, at.index);
        let state = self.state(w);
        for dword in 0..(event.bytes / 4) as u16 {
            let bytes = undefined >> (4 * dword) & 15;
            let bits = (0..4).fold(0, |bits, byte| bits | if bytes >> byte & 1 != 0 { 0xff << (8 * byte) } else { 0 });
            state.set_scalar(event.register + dword, bits, if bits != 0 { origin } else { 0 });
        }
    }

    /// Whether all that a load gets is surely defined. What it does not see at a glance it leaves to the look at each lane.
    fn is_defined(&mut self, at: &At<'_>, env: &Env, event: &Event) -> bool {
        let run = event.bounds().map(|(from, to)| (from, (to - from) as u32));
        match (event.space, run) {
            (MemorySpace::Global, Some((address, bytes))) => {
                self.window(at, env, address, bytes).is_some_and(|window| window.is_written(address, bytes.into()))
            }
            (MemorySpace::Global, None) => {
                event.lane_addresses().all(|(_, address)| self.device_unwritten(at, env, address, event.bytes) == 0)
            }
            (MemorySpace::Lds, _) if self.lds_is_defined => true,
            (MemorySpace::Lds, Some((address, bytes))) => self.is_lds_defined(address, bytes),
            (MemorySpace::Lds, None) => match event.bytes {
                4 => self.lanes_are_defined::<4>(event),
                8 => self.lanes_are_defined::<8>(event),
                16 => self.lanes_are_defined::<16>(event),
                _ => event.lane_addresses().all(|(_, address)| self.is_lds_defined(address, event.bytes)),
            },
            (MemorySpace::Scratch, _) => false,
        }
    }

    /// The same for lanes that are apart, of so many bytes each.
    fn lanes_are_defined<const BYTES: usize>(&self, event: &Event) -> bool {
        let (mut any, mut inside, mut before) = ([DEFINED; BYTES], true, u64::MAX);
        for (_, address) in event.lane_addresses() {
            if address == before {
                continue;
            }
            before = address;
            match self.lds.get(address as usize..).and_then(|states| states.first_chunk::<BYTES>()) {
                Some(states) => any.iter_mut().zip(states).for_each(|(any, state)| *any |= state),
                None => inside = false,
            }
        }
        inside && any == [DEFINED; BYTES]
    }

    fn is_lds_defined(&self, address: u64, bytes: u32) -> bool {
        let states = self.lds.get(address as usize..address as usize + bytes as usize).unwrap_or_default();
        states.iter().fold(DEFINED, |any, state| any | state) == DEFINED
    }

    /// The window that an address of device memory lies in.
    fn window(&mut self, at: &At<'_>, env: &Env, address: u64, bytes: u32) -> Option<&Window> {
        let place = usize::from(at.step.site) % WINDOWS;
        if self.windows[place].host_ptr(address, u64::from(bytes)).is_none() {
            // Nothing is found if the host frees it meanwhile; the launch will tell.
            self.windows[place] = env.memory.find(address, u64::from(bytes), Access::Read).ok()?;
        }
        Some(&self.windows[place])
    }

    /// Notes a store of defined registers to neighbouring bytes, or to LDS; whether it was one.
    fn store_defined(&mut self, at: &At<'_>, w: &Wave, env: &Env, event: &Event) -> bool {
        let registers = (event.bytes.div_ceil(4) as usize).max(1);
        let first = usize::from(event.register);
        let state = &self.waves[w.number as usize].vector;
        let Some(registers) = state.get(first..first + registers) else { return false };
        if registers.iter().flatten().fold(0, |any, lanes| any | lanes) & event.lanes != 0 {
            return false;
        }
        let bytes = event.bytes as usize;
        match (event.space, event.bounds()) {
            (MemorySpace::Global, Some((from, to))) => match self.window(at, env, from, (to - from) as u32) {
                Some(window) => window.mark_written(from, to - from),
                None => return false,
            },
            (MemorySpace::Lds, _) if self.lds_is_defined => {}
            (MemorySpace::Lds, Some((from, to))) => match self.lds.get_mut(from as usize..to as usize) {
                Some(states) => states.fill(DEFINED),
                None => return false,
            },
            (MemorySpace::Lds, None) if bytes == 4 => event.lane_addresses().for_each(|(_, address)| {
                let states = self.lds.get_mut(address as usize..).and_then(|states| states.first_chunk_mut::<4>());
                states.into_iter().for_each(|states| *states = [DEFINED; 4]);
            }),
            (MemorySpace::Lds, None) => event.lane_addresses().for_each(|(_, address)| {
                let states = self.lds.get_mut(address as usize..address as usize + bytes);
                states.into_iter().for_each(|states| states.fill(DEFINED));
            }),
            (MemorySpace::Global, None) | (MemorySpace::Scratch, _) => return false,
        }
        true
    }

    fn load(&mut self, at: &At<'_>, w: &Wave, env: &Env, event: &Event) {
        if self.is_defined(at, env, event) {
            return;
        }
        let facts = at.step.inst.op.facts();
        let high = facts.part == Part::High;
        let partial = written_bytes(&at.step.inst);
        let mut first = None;
        for (lane, address) in event.lane_addresses() {
            let (undefined, source) = self.unwritten_at(at, w, env, event, lane, address);
            if undefined == 0 {
                continue;
            }
            // The first lane's place stands for all.
            let origin = match first {
                Some(origin) => origin,
                None => self.origin(source, at.index),
            };
            first = Some(origin);
            let state = self.state(w);
            if event.bytes < 4 {
                let mut bits = (0..2)
                    .fold(0, |bits, byte| bits | if undefined >> byte & 1 != 0 { 0xffu32 << (8 * byte) } else { 0 });
                if facts.signed {
                    // The sign goes to all bytes above.
                    bits |= if undefined >> (event.bytes - 1) & 1 != 0 { !0 << (8 * event.bytes) } else { 0 };
                }
                let bits = if high { bits << 16 } else { bits };
                state.set_vector_bits(event.register, lane, bits, partial, origin);
                continue;
            }
            for dword in 0..(event.bytes / 4) as u16 {
                let bytes = undefined >> (4 * dword) & 15;
                let bits =
                    (0..4).fold(0, |bits, byte| bits | if bytes >> byte & 1 != 0 { 0xffu32 << (8 * byte) } else { 0 });
                state.set_vector_bits(event.register + dword, lane, bits, 0b1111, origin);
            }
        }
    }

    fn store(&mut self, at: &At<'_>, w: &Wave, env: &Env, event: &Event) -> Verdict {
        if self.store_defined(at, w, env, event) {
            return Ok(());
        }
        self.lds_is_defined &= event.space != MemorySpace::Lds;
        let shift = if at.step.inst.op.facts().part == Part::High { 2 } else { 0 };
        for (lane, address) in event.lane_addresses() {
            let state = self.state(w);
            let mut undefined = 0u64;
            for byte in 0..event.bytes as usize {
                let place = byte + shift;
                let register = usize::from(event.register) + place / 4;
                let bytes = state.vector.get(register).copied().unwrap_or_default();
                undefined |= (bytes[place % 4] >> lane & 1) << byte;
            }
            match event.space {
                MemorySpace::Global if undefined != 0 => {
                    let register = event.register + (undefined.trailing_zeros() as u16 + shift as u16) / 4;
                    return Err(self.stored_finding(at, w, register, event));
                }
                MemorySpace::Global => self.device_write(at, env, address, event.bytes),
                MemorySpace::Lds | MemorySpace::Scratch => {
                    if let Some(bytes) = self.local_bytes(w, event.space, lane, address, event.bytes) {
                        for (byte, place) in bytes.iter_mut().enumerate() {
                            *place = if undefined >> byte & 1 != 0 { STORED_UNDEFINED } else { DEFINED };
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The report of an undefined register whose value goes to memory.
    fn stored_finding(&mut self, at: &At<'_>, w: &Wave, register: u16, event: &Event) -> Box<Finding> {
        let state = self.state(w);
        let (bytes, known) = (state.vector[usize::from(register)], state.vector_origin[usize::from(register)]);
        let lanes = (bytes[0] | bytes[1] | bytes[2] | bytes[3]) & event.lanes;
        let origin = match known {
            0 => self.origin(Source::Vector(register), at.index),
            known => known,
        };
        self.finding(at, "a value stored to device memory".to_owned(), origin, lanes)
    }

    fn atomic(&mut self, at: &At<'_>, w: &Wave, env: &Env, event: &Event) -> Verdict {
        for (lane, address) in event.lane_addresses() {
            let (undefined, source) = self.unwritten_at(at, w, env, event, lane, address);
            if undefined != 0 && !at.step.inst.op.facts().exchanges {
                let origin = self.origin(source, at.index);
                return Err(self.finding(at, "the result of an atomic".to_owned(), origin, 1 << lane));
            }
            if undefined != 0
                && let Some(Named::Vector(Registers { first, count })) = named(&at.step.inst.dst[0])
            {
                let origin = self.origin(source, at.index);
                let state = self.state(w);
                (first..first + count).for_each(|r| state.set_vector_bits(r, lane, !0, 0b1111, origin));
            }
        }
        // `ds_append` and `ds_consume` have no data.
        if event.register == 0 && at.step.src[1] == 0 && !at.step.inst.src[1].is_some() {
            return Ok(());
        }
        self.store(at, w, env, event)
    }

    /// Bytes at an address that are undefined, a bit each, and the first of them.
    fn unwritten_at(
        &mut self,
        at: &At<'_>,
        w: &Wave,
        env: &Env,
        event: &Event,
        lane: usize,
        address: u64,
    ) -> (u64, Source) {
        if event.space == MemorySpace::Global {
            let undefined = self.device_unwritten(at, env, address, event.bytes);
            let skipped = undefined.trailing_zeros() & 63;
            let bytes = (undefined >> skipped).trailing_ones();
            return (undefined, Source::Device { address: address + u64::from(skipped), bytes });
        }
        let space = event.space;
        let bytes = self.local_bytes(w, space, lane, address, event.bytes).map(|bytes| &*bytes).unwrap_or_default();
        let undefined =
            bytes.iter().enumerate().fold(0, |bits, (byte, &state)| bits | u64::from(state != DEFINED) << byte);
        let first = bytes.iter().position(|&state| state != DEFINED).unwrap_or(0);
        let stored = bytes.get(first).is_some_and(|&state| state != UNWRITTEN);
        let address = address + first as u64;
        let source = match space {
            MemorySpace::Scratch => Source::Scratch { address, stored },
            MemorySpace::Lds | MemorySpace::Global => Source::Lds { address, stored },
        };
        (undefined, source)
    }

    /// The states of bytes of LDS or of a lane's scratch.
    fn local_bytes(
        &mut self,
        w: &Wave,
        space: MemorySpace,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Option<&mut [u8]> {
        let start = match space {
            MemorySpace::Scratch => (w.number as usize * LANES + lane) * self.scratch_bytes + address as usize,
            MemorySpace::Lds | MemorySpace::Global => address as usize,
        };
        let all = if space == MemorySpace::Scratch { &mut self.scratch } else { &mut self.lds };
        all.get_mut(start..start + bytes as usize)
    }

    /// Bytes of device memory that nobody wrote, a bit each.
    fn device_unwritten(&mut self, at: &At<'_>, env: &Env, address: u64, bytes: u32) -> u64 {
        debug_assert!(bytes as usize <= WIDEST);
        self.window(at, env, address, bytes).map_or(0, |window| window.unwritten(address, bytes))
    }

    fn device_write(&mut self, at: &At<'_>, env: &Env, address: u64, bytes: u32) {
        if let Some(window) = self.window(at, env, address, bytes) {
            window.mark_written(address, u64::from(bytes));
        }
    }
}

/// M0 is a scalar register, so that the address of `ds_append` is checked as one of the others.
const _: () = assert!((scalar::M0 as usize) < scalar::FILE);
