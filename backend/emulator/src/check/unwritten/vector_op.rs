//! Vector operations: lane by lane where something is undefined, at once where nothing is.

use rocfire_isa::{Format, Inst, Modifiers, Op, Part, SdwaSel, SdwaUnused};

use super::scalar_op::above;
use super::{Unwritten, WaveState};
use crate::exec::valu::dpp;
use crate::instrument::uses::{Named, named};
use crate::instrument::{At, Registers, Verdict};
use crate::wave::{LANES, Wave, scalar};

/// A source in a lane, 32 bits of it.
#[derive(Clone, Copy, Default)]
struct Bits {
    value: u32,
    undefined: u32,
}

/// All bytes of a register.
const WHOLE: u8 = 0b1111;
const LOW: u8 = 0b0011;
const HIGH: u8 = 0b1100;

impl Unwritten {
    /// Follows a vector operation, or the two of a pair, and checks that it leaves EXEC defined.
    pub(super) fn vector_op(&mut self, at: &At<'_>, w: &Wave) -> Verdict {
        let Some(pair) = &at.step.pair else {
            return self.single_op(at, w);
        };
        let [x, y] = &**pair;
        let Some([x_uses, y_uses]) = at.uses.halves.as_deref() else {
            unreachable!("the registers of a pair's halves were looked up with its own")
        };
        // The second half reads what was there before the first wrote.
        let register = usize::from(x.dst[0]);
        let state = self.state(w);
        let (old, old_origin) = (state.vector[register], state.vector_origin[register]);
        self.single_op(&At { step: x, uses: x_uses, ..*at }, w)?;
        let state = self.state(w);
        let (new, new_origin) = (state.vector[register], state.vector_origin[register]);
        (state.vector[register], state.vector_origin[register]) = (old, old_origin);
        self.single_op(&At { step: y, uses: y_uses, ..*at }, w)?;
        let state = self.state(w);
        (state.vector[register], state.vector_origin[register]) = (new, new_origin);
        Ok(())
    }

    fn single_op(&mut self, at: &At<'_>, w: &Wave) -> Verdict {
        let inst = &at.step.inst;
        let facts = inst.op.facts();
        let matrix = facts.class.is_matrix();
        let lanes = if matrix { w.live } else { w.exec() };
        let read = if matrix || moves_between_lanes(inst) { !0 } else { lanes };
        if self.reads_are_defined(at, w, read) {
            let (bytes, lanes) = (written_bytes(inst), lanes & dpp_writes(inst, w));
            let state = self.state(w);
            match inst.op {
                Op::VWritelaneB32 => {
                    let lane = w_lane(at, w);
                    at.uses.vector_writes.iter().for_each(|&r| state.define_vector(r, 1 << lane, WHOLE));
                }
                _ => at.uses.vector_writes.iter().for_each(|&r| state.define_vector(r, lanes, bytes)),
            }
            at.uses.scalar_writes.iter().for_each(|&registers| state.define_scalar(registers));
            return Ok(());
        }
        let origin = self.origin_of_reads(at, w, read);
        match inst.op {
            _ if matrix => self.matrix_op(at, w, origin),
            _ if facts.swaps => self.swap(at, w),
            Op::VReadlaneB32 | Op::VReadfirstlaneB32 => self.read_lane(at, w, origin),
            Op::VWritelaneB32 => {
                let source = self.source(at, w, 0, 0, 0);
                let lane = w_lane(at, w);
                let register = at.step.dst[0];
                self.state(w).set_vector_bits(register, lane, source.undefined, WHOLE, origin);
            }
            _ if facts.crosses_lanes => self.permute_lanes(at, w, origin),
            _ => self.lanes_op(at, w, origin),
        }
        if at.uses.scalar_writes.iter().any(|registers| registers.range().contains(&scalar::EXEC)) {
            return self.check_exec(at, w, origin);
        }
        Ok(())
    }

    /// D is undefined where C is, and everywhere if anything of the other sources is.
    fn matrix_op(&mut self, at: &At<'_>, w: &Wave, origin: u32) {
        let inst = &at.step.inst;
        let state = &mut self.waves[w.number as usize];
        let operands = inst.src[..2].iter().chain(inst.mods.scale.iter().flat_map(|scale| [&scale.a, &scale.b]));
        let undefined_in = |state: &WaveState, operand| match named(operand) {
            Some(Named::Vector(registers)) => {
                let registers = state.vector.get(usize::from(registers.first)..usize::from(registers.range().end));
                registers.unwrap_or_default().iter().flatten().any(|lanes| lanes & w.live != 0)
            }
            _ => false,
        };
        let everything = operands.into_iter().any(|operand| undefined_in(state, operand));
        let Some(Named::Vector(to)) = named(&inst.dst[0]) else { return };
        let c = match named(&inst.src[2]) {
            Some(Named::Vector(c)) if c.count == to.count => Some(c.first),
            _ => None,
        };
        let states: Vec<_> = (0..to.count)
            .map(|i| match (everything, c) {
                (true, _) => [w.live; 4],
                (false, Some(first)) => state.vector[usize::from(first + i)].map(|lanes| lanes & w.live),
                (false, None) => [0; 4],
            })
            .collect();
        for (register, new) in to.range().zip(states) {
            state.vector[usize::from(register)] = new;
            state.vector_origin[usize::from(register)] = origin;
        }
    }

    fn swap(&mut self, at: &At<'_>, w: &Wave) {
        let exec = w.exec();
        let (a, b) = (usize::from(at.step.dst[0]), usize::from(at.step.src[0]));
        let op = at.step.inst.op;
        let state = self.state(w);
        if a.max(b) >= state.vector.len() {
            return;
        }
        // Lanes of `a` that get those of `b` so many lanes below; those of `b` get theirs back.
        let (to, distance) = match op {
            Op::VPermlane32SwapB32 => (0xffff_ffff_0000_0000, 32),
            Op::VPermlane16SwapB32 => (0xffff_0000_ffff_0000, 16),
            _ => (exec, 0),
        };
        for byte in 0..4 {
            let (old_a, old_b) = (state.vector[a][byte], state.vector[b][byte]);
            let from: u64 = to >> distance;
            state.vector[a][byte] = old_a & !to | (old_b & from) << distance;
            state.vector[b][byte] = old_b & !from | (old_a & to) >> distance;
        }
        state.vector_origin.swap(a, b);
    }

    fn read_lane(&mut self, at: &At<'_>, w: &Wave, origin: u32) {
        let lane = match at.step.inst.op {
            Op::VReadfirstlaneB32 => w.exec().trailing_zeros() as usize % LANES,
            _ => self.source(at, w, 1, 0, 0).value as usize % LANES,
        };
        let source = self.source(at, w, 0, 0, lane);
        let register = at.step.dst[0];
        self.state(w).set_scalar(register, source.undefined, origin);
    }

    /// Lanes of a row or of the other row: undefined if any lane that is on is.
    fn permute_lanes(&mut self, at: &At<'_>, w: &Wave, origin: u32) {
        let exec = w.exec();
        let any = (0..LANES)
            .filter(|lane| exec >> lane & 1 != 0)
            .fold(0, |any, lane| any | self.source(at, w, 0, 0, lane).undefined);
        let register = at.step.dst[0];
        let state = self.state(w);
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            state.set_vector_bits(register, lane, any, WHOLE, origin);
        }
    }

    /// A product and sum of 64 bits of which the vector sources alone are undefined, as compilers make of an index that is to
    /// be widened: all lanes at once. Whether it was one.
    fn wide_sum(&mut self, at: &At<'_>, w: &Wave, origin: u32) -> bool {
        let inst = &at.step.inst;
        let Some(Named::Vector(to)) = named(&inst.dst[0]) else { return false };
        if !matches!(inst.op, Op::VMadU64U32 | Op::VMadI64I32) || moves_between_lanes(inst) {
            return false;
        }
        let exec = w.exec();
        let state = self.state(w);
        let mut bytes = [0u64; 8];
        for operand in &inst.src[..3] {
            match named(operand) {
                Some(Named::Vector(registers)) => {
                    let registers = state.vector.get(usize::from(registers.first)..usize::from(registers.range().end));
                    let own = registers.unwrap_or_default().iter().flatten();
                    bytes.iter_mut().zip(own).for_each(|(any, lanes)| *any |= lanes & exec);
                }
                Some(Named::Scalar(registers)) => {
                    let undefined =
                        |register: u16| state.scalar.get(usize::from(register)).is_some_and(|&bits| bits != 0);
                    if registers.range().any(undefined) {
                        return false;
                    }
                }
                None => {}
            }
        }
        // A carry reaches all bytes above.
        for byte in 1..8 {
            bytes[byte] |= bytes[byte - 1];
        }
        for (register, new) in to.range().zip(bytes.as_chunks::<4>().0) {
            let Some(own) = state.vector.get_mut(usize::from(register)) else { continue };
            own.iter_mut().zip(new).for_each(|(own, new)| *own = *own & !exec | new);
            if *new != [0; 4] {
                state.vector_origin[usize::from(register)] = origin;
            }
        }
        for registers in &at.uses.scalar_writes {
            for (half, register) in registers.range().enumerate() {
                state.set_scalar(register, (bytes[7] >> (32 * (half % 2))) as u32, origin);
            }
        }
        true
    }

    fn lanes_op(&mut self, at: &At<'_>, w: &Wave, origin: u32) {
        if self.wide_sum(at, w, origin) {
            return;
        }
        let inst = &at.step.inst;
        let exec = w.exec();
        let rows = inst.mods.dpp.and_then(|fields| dpp::swizzle(&fields, exec));
        let swizzle = rows.or_else(|| inst.mods.dpp8.map(|fields| dpp::swizzle_eights(&fields, exec)));
        let writes = dpp_writes(inst, w) & exec;
        let bytes = written_bytes(inst);
        let destination = match named(&inst.dst[0]) {
            Some(Named::Vector(registers)) => Some(registers),
            _ => None,
        };
        let count = destination.map_or(1, |registers| registers.count).min(2);
        // The results of all lanes first: a lane may read what another writes.
        let mut results = vec![[0u32; 2]; LANES];
        let mut mask = 0u64;
        for lane in (0..LANES).filter(|lane| writes >> lane & 1 != 0) {
            let from = swizzle.as_ref().map_or(lane, |swizzle| usize::from(swizzle.from[lane]));
            let result = self.lane_result(at, w, lane, from, count);
            mask |= u64::from(result[0] | result[1] != 0) << lane;
            results[lane] = result;
        }
        let scalar_writes = &at.uses.scalar_writes;
        let state = &mut self.waves[w.number as usize];
        for registers in scalar_writes {
            for (half, register) in registers.range().enumerate() {
                let undefined = (mask >> (32 * (half % 2))) as u32;
                state.set_scalar(register, undefined, origin);
            }
        }
        let Some(destination) = destination else { return };
        for lane in (0..LANES).filter(|lane| writes >> lane & 1 != 0) {
            for (i, register) in destination.range().enumerate() {
                let undefined = results[lane][i % 2];
                state.set_vector_bits(register, lane, undefined, bytes, origin);
            }
        }
    }

    /// Undefined bits of the result in a lane, for one or two registers. Source 0 comes from lane `from`.
    fn lane_result(&self, at: &At<'_>, w: &Wave, lane: usize, from: usize, count: u16) -> [u32; 2] {
        let inst = &at.step.inst;
        let source = |i: usize, dword: u16| match (i, from) {
            (0, LANES..) => Bits::default(),
            (0, from) => select(inst, 0, self.source(at, w, 0, dword, from)),
            _ => select(inst, i, self.source(at, w, i, dword, lane)),
        };
        let facts = inst.op.facts();
        if inst.format == Format::Vop3p && (facts.packs_halves || facts.packs_words) {
            return self.packed_result(inst, source, facts.packs_words);
        }
        let all = |bits: [Bits; 3]| if bits.iter().any(|bits| bits.undefined != 0) { !0 } else { 0 };
        if count == 1 && inst.src.iter().all(|operand| operand.dwords <= 1 || is_mask(inst, operand)) {
            let sources = [source(0, 0), source(1, 0), source(2, 0)];
            if let Some(result) = exact(inst, sources, || self.mask_bit(at, w, lane)) {
                return [result, 0];
            }
            let narrowed = [0, 1, 2].map(|i| narrow(inst, i, sources[i]));
            let destination = match facts.accumulates {
                true => self.waves[w.number as usize].vector_bits(at.step.dst[0], lane),
                false => 0,
            };
            let carry = self.carry_in(at, w, lane);
            let result = if carry || destination != 0 { !0 } else { all(narrowed) };
            return [result, 0];
        }
        let wide = |i: usize| {
            let high = if inst.src[i].dwords > 1 { source(i, 1) } else { Bits::default() };
            let low = source(i, 0);
            let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            (join(low.value, high.value), join(low.undefined, high.undefined))
        };
        if let Some(undefined) = exact_wide(inst.op, [0, 1, 2].map(wide)) {
            return [undefined as u32, (undefined >> 32) as u32];
        }
        let mut any = self.carry_in(at, w, lane);
        for (i, operand) in inst.src.iter().enumerate().take(3) {
            if !is_mask(inst, operand) {
                for dword in 0..u16::from(operand.dwords.min(4)) {
                    any |= source(i, dword).undefined != 0;
                }
            }
        }
        if facts.accumulates
            && let Some(Named::Vector(Registers { first, count })) = named(&inst.dst[0])
        {
            let state = &self.waves[w.number as usize];
            any |= (first..first + count).any(|register| state.vector_bits(register, lane) != 0);
        }
        if any { [!0, !0] } else { [0, 0] }
    }

    /// Two results side by side: halves of a register for 16 bits, two registers for 32.
    fn packed_result(&self, inst: &Inst, source: impl Fn(usize, u16) -> Bits, wide: bool) -> [u32; 2] {
        let Modifiers { op_sel, op_sel_hi, .. } = inst.mods;
        let pick = |mask: u8, i: usize| mask >> i & 1;
        if inst.op == Op::VPkMovB32 {
            // Of each source one register is moved: the first one's to the first, the second one's to the second.
            return [0, 1].map(|half| source(half, u16::from(pick(op_sel, half))).undefined);
        }
        let sources = inst.src.iter().take(3).enumerate().filter(|(_, operand)| operand.is_some());
        let mut halves = [false; 2];
        for (i, operand) in sources {
            for (half, mask) in [op_sel, op_sel_hi].into_iter().enumerate() {
                let undefined = match wide {
                    true if operand.dwords > 1 => source(i, u16::from(pick(mask, i))).undefined,
                    true => source(i, 0).undefined,
                    false => source(i, 0).undefined >> (16 * pick(mask, i)) & 0xffff,
                };
                halves[half] |= undefined != 0;
            }
        }
        let all = |undefined: bool| if undefined { !0u32 } else { 0 };
        match wide {
            true => halves.map(all),
            false => [all(halves[0]) & 0xffff | all(halves[1]) & 0xffff_0000, 0],
        }
    }

    /// Dword `dword` of source `i` in a lane.
    fn source(&self, at: &At<'_>, w: &Wave, i: usize, dword: u16, lane: usize) -> Bits {
        let state = &self.waves[w.number as usize];
        match named(&at.step.inst.src[i]) {
            Some(Named::Vector(registers)) => {
                let register = registers.first + dword;
                Bits { value: w.lane(register, lane), undefined: state.vector_bits(register, lane) }
            }
            Some(Named::Scalar(registers)) => {
                let register = registers.first + dword.min(registers.count - 1);
                let undefined = state.scalar.get(usize::from(register)).copied().unwrap_or(0);
                Bits { value: w.scalar_source(register), undefined }
            }
            None if at.step.is_constant(i) => {
                Bits { value: (at.step.k[i] >> (32 * dword.min(1))) as u32, undefined: 0 }
            }
            None => Bits::default(),
        }
    }

    /// The lane's bit of the mask that selects or carries, and whether it is undefined.
    fn mask_bit(&self, at: &At<'_>, w: &Wave, lane: usize) -> (bool, bool) {
        let inst = &at.step.inst;
        let state = &self.waves[w.number as usize];
        let operand = inst.src.iter().rev().find(|operand| is_mask(inst, operand));
        let Some(Named::Scalar(registers)) = operand.and_then(named) else { return (false, false) };
        let register = registers.first + (lane / 32) as u16;
        let value = w.scalar_source(register) >> (lane % 32) & 1 != 0;
        (value, state.scalar.get(usize::from(register)).is_some_and(|bits| bits >> (lane % 32) & 1 != 0))
    }

    fn carry_in(&self, at: &At<'_>, w: &Wave, lane: usize) -> bool {
        self.mask_bit(at, w, lane).1
    }
}

/// The lane that `v_writelane` writes.
fn w_lane(at: &At<'_>, w: &Wave) -> usize {
    at.step.s32(w, 1) as usize % LANES
}

/// Whether a source is a mask with a bit for each lane: the select of `v_cndmask`, a carry, the flag of `v_div_fmas`.
fn is_mask(inst: &Inst, operand: &rocfire_isa::Operand) -> bool {
    inst.op.facts().takes_mask && inst.src.iter().rev().find(|operand| operand.is_some()) == Some(operand)
}

fn moves_between_lanes(inst: &Inst) -> bool {
    inst.op.facts().crosses_lanes || inst.mods.dpp.is_some() || inst.mods.dpp8.is_some()
}

/// Lanes that DPP's masks let write.
fn dpp_writes(inst: &Inst, w: &Wave) -> u64 {
    inst.mods.dpp.and_then(|fields| dpp::swizzle(&fields, w.exec())).map_or(!0, |swizzle| swizzle.writes)
}

/// The part of a source that SDWA selects, in the low bits.
fn select(inst: &Inst, i: usize, bits: Bits) -> Bits {
    let Some(sdwa) = inst.mods.sdwa.filter(|_| i < 2) else { return bits };
    let (shift, mask) = match sdwa.src_sel[i] {
        SdwaSel::Byte0 => (0, 0xff),
        SdwaSel::Byte1 => (8, 0xff),
        SdwaSel::Byte2 => (16, 0xff),
        SdwaSel::Byte3 => (24, 0xff),
        SdwaSel::Word0 => (0, 0xffff),
        SdwaSel::Word1 => (16, 0xffff),
        SdwaSel::Dword => (0, !0),
    };
    let undefined = bits.undefined >> shift & mask;
    // The sign is spread over the rest.
    let top = sdwa.src_sext[i] && undefined != 0;
    Bits { value: bits.value >> shift & mask, undefined: if top { !0 } else { undefined } }
}

/// Bytes of the destination that an instruction writes; the others keep what they had.
pub(super) fn written_bytes(inst: &Inst) -> u8 {
    if let Some(sdwa) = inst.mods.sdwa {
        return match (sdwa.dst_unused, sdwa.dst_sel) {
            (SdwaUnused::Pad | SdwaUnused::Sext, _) | (SdwaUnused::Preserve, SdwaSel::Dword) => WHOLE,
            (SdwaUnused::Preserve, SdwaSel::Byte0) => 1,
            (SdwaUnused::Preserve, SdwaSel::Byte1) => 2,
            (SdwaUnused::Preserve, SdwaSel::Byte2) => 4,
            (SdwaUnused::Preserve, SdwaSel::Byte3) => 8,
            (SdwaUnused::Preserve, SdwaSel::Word0) => LOW,
            (SdwaUnused::Preserve, SdwaSel::Word1) => HIGH,
        };
    }
    let to_high = inst.mods.op_sel & 8 != 0;
    match inst.op.facts().part {
        Part::Low => LOW,
        Part::High => HIGH,
        Part::Half if !to_high => LOW,
        Part::Half => HIGH,
        Part::Byte => 1 << (inst.mods.op_sel >> 2 & 3),
        Part::Whole if to_high && inst.format == Format::Vop3 => HIGH,
        Part::Whole => WHOLE,
    }
}

/// The half of a source that an operation on 16 bits reads.
fn narrow(inst: &Inst, i: usize, bits: Bits) -> Bits {
    let facts = inst.op.facts();
    if facts.mixes {
        // `op_sel_hi` says that a source is 16 bits, `op_sel` which.
        let narrow = inst.mods.op_sel_hi >> i & 1 != 0;
        let shift = if inst.mods.op_sel >> i & 1 != 0 { 16 } else { 0 };
        let undefined = if narrow { bits.undefined >> shift & 0xffff } else { bits.undefined };
        return Bits { undefined, ..bits };
    }
    let byte = match inst.op {
        Op::VCvtF32Ubyte0 => Some(0),
        Op::VCvtF32Ubyte1 => Some(8),
        Op::VCvtF32Ubyte2 => Some(16),
        Op::VCvtF32Ubyte3 => Some(24),
        _ => None,
    };
    if let Some(shift) = byte {
        return Bits { undefined: bits.undefined >> shift & 0xff, ..bits };
    }
    if facts.halves >> i & 1 == 0 || inst.mods.sdwa.is_some() {
        return bits;
    }
    let shift = if inst.format == Format::Vop3 && inst.mods.op_sel >> i & 1 != 0 { 16 } else { 0 };
    Bits { undefined: bits.undefined >> shift & 0xffff, ..bits }
}

/// The undefined bits of 64-bit operations that are followed bit by bit, from the sources' values and undefined bits.
fn exact_wide(op: Op, [a, b, c]: [(u64, u64); 3]) -> Option<u64> {
    let shifted = |value: u64, by: (u64, u64), f: fn(u64, u64) -> u64| match by.1 & 63 {
        0 => f(value, by.0 & 63),
        _ => !0,
    };
    Some(match op {
        Op::VMovB64 => a.1,
        // The low bits of a product or a sum depend on the low bits of the sources alone.
        Op::VMadU64U32 | Op::VMadI64I32 => above(a.1 | b.1 | c.1),
        Op::VLshlAddU64 => above(shifted(a.1, b, |bits, by| bits << by) | c.1),
        Op::VLshlrevB64 => shifted(b.1, a, |bits, by| bits << by),
        Op::VLshrrevB64 => shifted(b.1, a, |bits, by| bits >> by),
        Op::VAshrrevI64 => shifted(b.1, a, |bits, by| (bits as i64 >> by) as u64),
        _ => return None,
    })
}

/// The undefined bits of operations that are followed bit by bit. `mask` gives the selecting bit and whether it is undefined.
fn exact(inst: &Inst, [a, b, c]: [Bits; 3], mask: impl Fn() -> (bool, bool)) -> Option<u32> {
    if inst.mods.sdwa.is_some_and(|sdwa| sdwa.dst_sel != SdwaSel::Dword) {
        return None;
    }
    let and = |a: Bits, b: Bits| a.undefined & b.undefined | a.undefined & b.value | b.undefined & a.value;
    let or = |a: Bits, b: Bits| a.undefined & b.undefined | a.undefined & !b.value | b.undefined & !a.value;
    let any = |bits: &[Bits]| bits.iter().fold(0, |any, bits| any | bits.undefined);
    let carried = |bits: &[Bits]| above(u64::from(any(bits))) as u32;
    let shifted = |value: Bits, by: Bits, f: fn(u32, u32) -> u32| match by.undefined & 31 {
        0 => f(value.undefined, by.value & 31),
        _ => !0,
    };
    Some(match inst.op.canonical() {
        Op::VMovB32 | Op::VAccvgprReadB32 | Op::VAccvgprWriteB32 | Op::VAccvgprMovB32 | Op::VNotB32 => a.undefined,
        Op::VXorB32 | Op::VXnorB32 => any(&[a, b]),
        Op::VXor3B32 => any(&[a, b, c]),
        Op::VAndB32 => and(a, b),
        Op::VOrB32 => or(a, b),
        Op::VOr3B32 => {
            let first = Bits { value: a.value | b.value, undefined: or(a, b) };
            or(first, c)
        }
        Op::VAndOrB32 => {
            let first = Bits { value: a.value & b.value, undefined: and(a, b) };
            or(first, c)
        }
        Op::VLshlrevB32 => shifted(b, a, |bits, by| bits << by),
        Op::VLshrrevB32 => shifted(b, a, |bits, by| bits >> by),
        Op::VAshrrevI32 => shifted(b, a, |bits, by| (bits as i32 >> by) as u32),
        Op::VLshlOrB32 => {
            let first = Bits { value: a.value << (b.value & 31), undefined: shifted(a, b, |bits, by| bits << by) };
            or(first, c)
        }
        Op::VBfeU32 | Op::VBfeI32 if any(&[b, c]) == 0 => {
            let field = match c.value & 31 {
                0 => 0,
                bits => u32::MAX >> (32 - bits),
            };
            let undefined = a.undefined >> (b.value & 31) & field;
            match inst.op == Op::VBfeI32 && undefined != 0 {
                true => above(u64::from(undefined)) as u32,
                false => undefined,
            }
        }
        Op::VBfiB32 if a.undefined == 0 => b.undefined & a.value | c.undefined & !a.value,
        // Bytes 0 to 3 are source 1's, 4 to 7 source 0's; higher selectors are signs and constants.
        Op::VPermB32 if c.undefined == 0 => (0..4).fold(0, |result, byte| {
            let wide = u64::from(a.undefined) << 32 | u64::from(b.undefined);
            let undefined = match c.value >> (8 * byte) & 0xff {
                selector @ 0..=7 => (wide >> (8 * selector)) as u32 & 0xff,
                8..=11 if any(&[a, b]) != 0 => 0xff,
                _ => 0,
            };
            result | undefined << (8 * byte)
        }),
        Op::VAlignbitB32 | Op::VAlignbyteB32 if c.undefined == 0 => {
            let wide = u64::from(a.undefined) << 32 | u64::from(b.undefined);
            let unit = if inst.op == Op::VAlignbyteB32 { 8 * (c.value & 3) } else { c.value & 31 };
            (wide >> unit) as u32
        }
        Op::VPackB32F16 => {
            let half =
                |bits: Bits, i: u8| bits.undefined >> if inst.mods.op_sel >> i & 1 != 0 { 16 } else { 0 } & 0xffff;
            half(a, 0) | half(b, 1) << 16
        }
        Op::VAddU32 | Op::VSubU32 | Op::VSubrevU32 => carried(&[a, b]),
        Op::VAddCoU32 | Op::VSubCoU32 | Op::VSubrevCoU32 => carried(&[a, b]),
        Op::VAddcCoU32 | Op::VSubbCoU32 | Op::VSubbrevCoU32 => {
            if mask().1 {
                !0
            } else {
                carried(&[a, b])
            }
        }
        Op::VAdd3U32 => carried(&[a, b, c]),
        Op::VLshlAddU32 => {
            let first = Bits { value: 0, undefined: shifted(a, b, |bits, by| bits << by) };
            carried(&[first, c])
        }
        Op::VMulLoU32 | Op::VMulU32U24 => carried(&[a, b]),
        Op::VCndmaskB32 => match mask() {
            (_, true) => any(&[a, b]) | a.value ^ b.value,
            (false, false) => a.undefined,
            (true, false) => b.undefined,
        },
        _ => return None,
    })
}
