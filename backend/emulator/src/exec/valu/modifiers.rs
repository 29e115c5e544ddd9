//! Everything between registers and an operation that is not plain: SDWA, DPP, negation, absolute value, `op_sel`, output
//! multiplier, clamp, and the float modes of MODE that are not the usual ones.
//!
//! Each modified source is copied, changed, into its staging registers, so that an operation across lanes never reads what
//! it wrote; a modified result is written to staging first and moved by [`finish`]. Steps without modifiers in a wave with
//! usual modes pass by all of this.

use rocfire_isa::{Format, Inst, OperandKind, Sdwa, SdwaSel, SdwaUnused};

use super::dpp;
use super::overflow;
use super::word::Kind;
use crate::env::Env;
use crate::error::FaultKind;
use crate::numeric::{f16_to_f32, f32_to_f16, flush_f16, flush_f32, flush_f64, quiet_f16, quiet_f32, quiet_f64};
use crate::step::{Flow, MicroOp};
use crate::wave::{LANES, Lanes, STAGE, Wave};

/// Bits of [`MicroOp::imm`] for this class.
pub(crate) mod flag {
    /// The encoding has modifiers.
    pub(crate) const MODIFIED: i64 = 1;
    /// A 16-bit result leaves the other half of its register alone; `op_sel` bit 3 says which half is its own.
    pub(crate) const KEEP_HALF: i64 = 2;
    /// The same, and it is always the high half.
    pub(crate) const KEEP_LOW: i64 = 4;
    /// An 8-bit result leaves the other bytes alone; `op_sel` bits 2 and 3 say which is its own.
    pub(crate) const KEEP_BYTES: i64 = 8;
    /// A comparison also writes EXEC.
    pub(crate) const EXEC: i64 = 16;
    /// A comparison's result is the opposite.
    pub(crate) const NOT: i64 = 32;
    /// A comparison is false (before [`NOT`]), whatever its sources are.
    pub(crate) const NEVER: i64 = 64;
    /// The lane mask that is written is one register: the wave has 32 lanes.
    pub(crate) const MASK32: i64 = 128;
    /// There are no modifiers but signs of f32 sources, and in packed operations which half is taken.
    pub(crate) const SIGNS: i64 = 256;
}

/// MODE with the usual settings of compiled code: round to nearest, denormals kept everywhere, IEEE on.
pub(crate) const USUAL_MODE: u32 = 0x2f0;
/// The bits of MODE that [`USUAL_MODE`] is compared in: rounding, denormals, IEEE, FP16_OVFL.
pub(crate) const MODE_MASK: u32 = 0x80_02ff;
/// The rounding modes among them.
pub(crate) const ROUNDING: u32 = 0xf;
const DX10_CLAMP: u32 = 1 << 8;
const IEEE: u32 = 1 << 9;
/// Results of 16 and 8 bits that overflow become the largest number.
pub(super) const FP16_OVFL: u32 = 1 << 23;

/// Where the result is staged, two registers.
const RESULT: u16 = STAGE + 8;

/// The registers that an operation works on.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// First result register.
    pub(crate) dst: u16,
    /// First register of each source.
    pub(crate) src: [u16; 4],
    /// Lanes that write.
    pub(crate) exec: u64,
    /// Lanes whose infinite result is a true infinity and no overflow, for the low and the high half of a packed result.
    /// Only looked at under FP16_OVFL.
    pub(crate) infinite: [u64; 2],
}

/// Before anything is known.
pub(crate) const ALL_INFINITE: [u64; 2] = [!0; 2];

/// Whether the encoding asks for more than the plain operation.
pub(crate) fn is_modified(inst: &Inst, kinds: &[Kind]) -> bool {
    let m = &inst.mods;
    let swizzles = m.dpp.is_some() || m.dpp8.is_some();
    if m.sdwa.is_some() || swizzles || m.omod != 0 || m.clamp || m.op_sel != 0 || m.neg != 0 || m.abs != 0 {
        return true;
    }
    kinds.iter().enumerate().any(|(i, kind)| match kind {
        Kind::Mix => true,
        // The halves of a packed source stay where they are only if the high one is selected for the high result.
        Kind::PkB16 | Kind::PkF16 => inst.format == Format::Vop3p && m.op_sel_hi >> i & 1 == 0,
        Kind::PkF32 => m.op_sel_hi >> i & 1 == 0 || is_constant(inst.src[i].kind),
        Kind::B32 | Kind::F32 | Kind::B16 | Kind::F16 | Kind::B64 | Kind::F64 => false,
    })
}

/// Whether the modifiers are nothing but negation, absolute value, and in packed f32 operations the choice of registers.
pub(crate) fn has_only_signs(inst: &Inst, kinds: &[Kind]) -> bool {
    let m = &inst.mods;
    if m.sdwa.is_some() || m.dpp.is_some() || m.dpp8.is_some() || m.omod != 0 || m.clamp {
        return false;
    }
    kinds.iter().enumerate().all(|(i, kind)| match kind {
        Kind::F32 => m.op_sel == 0,
        Kind::PkF32 => !is_constant(inst.src[i].kind),
        Kind::Mix | Kind::PkB16 | Kind::PkF16 | Kind::B32 | Kind::B16 | Kind::F16 | Kind::B64 | Kind::F64 => false,
    })
}

fn is_constant(kind: OperandKind) -> bool {
    matches!(kind, OperandKind::Int(_) | OperandKind::Float(_) | OperandKind::Literal(_))
}

/// One source while it is being modified.
struct Source {
    low: [u32; LANES],
    high: [u32; LANES],
}

impl Source {
    fn map(&mut self, f: impl Fn(u32) -> u32) {
        for x in &mut self.low {
            *x = f(*x);
        }
    }

    fn map_high(&mut self, f: impl Fn(u32) -> u32) {
        for x in &mut self.high {
            *x = f(*x);
        }
    }

    fn map_both(&mut self, f: impl Fn(u64) -> u64) {
        for (low, high) in self.low.iter_mut().zip(&mut self.high) {
            let out = f(u64::from(*high) << 32 | u64::from(*low));
            (*low, *high) = (out as u32, (out >> 32) as u32);
        }
    }
}

/// Stages the modified sources and, if it is modified too, the result. `Some` if the wave cannot go on.
#[inline(never)]
pub(crate) fn prepare(
    w: &mut Wave,
    e: &mut Env,
    st: &MicroOp,
    frame: &mut Frame,
    kinds: &[Kind],
    result: Option<Kind>,
) -> Option<Flow> {
    let swizzle = match &st.inst.mods.dpp {
        None => st.inst.mods.dpp8.as_ref().map(|dpp| dpp::swizzle_eights(dpp, frame.exec)),
        Some(dpp) => match dpp::swizzle(dpp, frame.exec) {
            Some(swizzle) => Some(swizzle),
            None => return Some(e.fail(FaultKind::UnknownInstruction)),
        },
    };
    for (i, &kind) in kinds.iter().enumerate() {
        let bound = if kind == Kind::F32 { overflow::bound_of_source(w, e.program.arch, st) } else { None };
        if !source_changes(w, st, i, kind) && bound.is_none() {
            continue;
        }
        let from = frame.src[i];
        let mut source = Source { low: w.v[from as usize].0, high: [0; LANES] };
        if kind.dwords() == 2 {
            source.high = w.v[from as usize + 1].0;
        }
        if let (0, Some(swizzle)) = (i, &swizzle) {
            let take = |lanes: &[u32; LANES]| swizzle.from.map(|from| lanes.get(from as usize).copied().unwrap_or(0));
            source = Source { low: take(&source.low), high: take(&source.high) };
        }
        modify(&mut source, w.mode, st, i, kind);
        if let Some(bound) = bound {
            source.map(|x| overflow::hold(x, bound));
        }
        let to = STAGE + 2 * i as u16;
        w.v[to as usize] = Lanes(source.low);
        if kind.dwords() == 2 {
            w.v[to as usize + 1] = Lanes(source.high);
        }
        frame.src[i] = to;
    }
    if let Some(swizzle) = swizzle {
        frame.exec &= swizzle.writes;
    }
    if w.mode & FP16_OVFL != 0 && matches!(result, Some(Kind::F16 | Kind::PkF16)) {
        frame.infinite = overflow::true_infinities(w, st, &frame.src, kinds);
    }
    if result.is_some_and(|kind| result_changes(w, st, kind)) {
        frame.dst = RESULT;
    }
    None
}

fn flushes_source(mode: u32, kind: Kind) -> bool {
    match kind {
        Kind::F32 | Kind::PkF32 | Kind::Mix => mode & 1 << 4 == 0,
        Kind::F16 | Kind::F64 | Kind::PkF16 => mode & 1 << 6 == 0,
        Kind::B32 | Kind::B16 | Kind::B64 | Kind::PkB16 => false,
    }
}

fn flushes_result(mode: u32, kind: Kind) -> bool {
    match kind {
        Kind::F32 | Kind::PkF32 | Kind::Mix => mode & 1 << 5 == 0,
        Kind::F16 | Kind::F64 | Kind::PkF16 => mode & 1 << 7 == 0,
        Kind::B32 | Kind::B16 | Kind::B64 | Kind::PkB16 => false,
    }
}

fn source_changes(w: &Wave, st: &MicroOp, i: usize, kind: Kind) -> bool {
    let m = &st.inst.mods;
    i == 0 && (m.dpp.is_some() || m.dpp8.is_some())
        || i < 2 && m.sdwa.is_some()
        || (m.neg | m.abs | m.op_sel) >> i & 1 != 0
        || is_modified_packing(st, i, kind)
        || kind.is_float() && (flushes_source(w.mode, kind) || w.mode & IEEE == 0)
}

fn is_modified_packing(st: &MicroOp, i: usize, kind: Kind) -> bool {
    match kind {
        Kind::Mix => true,
        Kind::PkB16 | Kind::PkF16 => st.inst.format == Format::Vop3p && st.inst.mods.op_sel_hi >> i & 1 == 0,
        Kind::PkF32 => st.inst.mods.op_sel_hi >> i & 1 == 0 || st.is_constant(i),
        Kind::B32 | Kind::F32 | Kind::B16 | Kind::F16 | Kind::B64 | Kind::F64 => false,
    }
}

/// Applies, in the hardware's order, selection, absolute value, negation and the modes to source `i`.
fn modify(source: &mut Source, mode: u32, st: &MicroOp, i: usize, kind: Kind) {
    let m = &st.inst.mods;
    if let (Some(sdwa), true) = (&m.sdwa, i < 2) {
        let (sel, sext) = (sdwa.src_sel[i], sdwa.src_sext[i]);
        source.map(|x| select_sdwa(x, sel, sext));
    }
    let bit = |field: u8| field >> i & 1 != 0;
    let (neg, abs) = (bit(m.neg), bit(m.abs));
    match kind {
        Kind::PkB16 | Kind::PkF16 if st.inst.format == Format::Vop3p => {
            let (low, high) = (if bit(m.op_sel) { 16 } else { 0 }, if bit(m.op_sel_hi) { 16 } else { 0 });
            // For packed operations the field of `abs` negates the high half.
            let sign = if kind == Kind::PkF16 { u32::from(neg) << 15 | u32::from(abs) << 31 } else { 0 };
            source.map(|x| (x >> low & 0xffff | (x >> high & 0xffff) << 16) ^ sign);
        }
        Kind::PkF32 => {
            if st.is_constant(i) {
                // A constant is one f32, for both results.
                let k = st.k[i];
                let float = matches!(st.inst.src[i].kind, OperandKind::Float(_));
                let value = if float { (f64::from_bits(k) as f32).to_bits() } else { k as u32 };
                *source = Source { low: [value; LANES], high: [value; LANES] };
            }
            let (low, high) = (source.low, source.high);
            source.low = if bit(m.op_sel) { high } else { low };
            source.high = if bit(m.op_sel_hi) { high } else { low };
            let (sign, sign_high) = (u32::from(neg) << 31, u32::from(abs) << 31);
            source.map(|x| x ^ sign);
            source.map_high(|x| x ^ sign_high);
        }
        Kind::B16 | Kind::F16 | Kind::PkB16 | Kind::PkF16 => {
            let shift = if bit(m.op_sel) { 16 } else { 0 };
            let (clear, sign) = (u32::from(abs) << 15, u32::from(neg) << 15);
            source.map(|x| ((x >> shift) & !clear) ^ sign);
        }
        Kind::B32 | Kind::F32 | Kind::Mix => {
            if kind == Kind::Mix && bit(m.op_sel_hi) {
                let shift = if bit(m.op_sel) { 16 } else { 0 };
                source.map(|x| f16_to_f32((x >> shift) as u16).to_bits());
            }
            let (clear, sign) = (u32::from(abs) << 31, u32::from(neg) << 31);
            source.map(|x| (x & !clear) ^ sign);
        }
        Kind::B64 | Kind::F64 => {
            let (clear, sign) = (u32::from(abs) << 31, u32::from(neg) << 31);
            source.map_high(|x| (x & !clear) ^ sign);
        }
    }
    if flushes_source(mode, kind) {
        for_each_float(source, kind, flush_f32, flush_f16, flush_f64);
    }
    if kind.is_float() && mode & IEEE == 0 {
        // Without IEEE mode a signalling NaN is as good as a quiet one.
        for_each_float(source, kind, quiet_f32, quiet_f16, quiet_f64);
    }
}

fn for_each_float(
    source: &mut Source,
    kind: Kind,
    single: fn(u32) -> u32,
    half: fn(u16) -> u16,
    double: fn(u64) -> u64,
) {
    match kind {
        Kind::F32 | Kind::Mix => source.map(single),
        Kind::PkF32 => {
            source.map(single);
            source.map_high(single);
        }
        Kind::F16 => source.map(|x| x & 0xffff_0000 | u32::from(half(x as u16))),
        Kind::PkF16 => source.map(|x| u32::from(half(x as u16)) | u32::from(half((x >> 16) as u16)) << 16),
        Kind::F64 => source.map_both(double),
        Kind::B32 | Kind::B16 | Kind::B64 | Kind::PkB16 => {}
    }
}

/// Shift and width of a selection.
fn sdwa_field(sel: SdwaSel) -> (u32, u32) {
    match sel {
        SdwaSel::Byte0 => (0, 8),
        SdwaSel::Byte1 => (8, 8),
        SdwaSel::Byte2 => (16, 8),
        SdwaSel::Byte3 => (24, 8),
        SdwaSel::Word0 => (0, 16),
        SdwaSel::Word1 => (16, 16),
        SdwaSel::Dword => (0, 32),
    }
}

fn select_sdwa(x: u32, sel: SdwaSel, sext: bool) -> u32 {
    let (shift, width) = sdwa_field(sel);
    let field = x << (32 - width - shift);
    if sext { ((field as i32) >> (32 - width)) as u32 } else { field >> (32 - width) }
}

fn result_changes(w: &Wave, st: &MicroOp, kind: Kind) -> bool {
    let m = &st.inst.mods;
    let merges = st.imm & (flag::KEEP_HALF | flag::KEEP_LOW | flag::KEEP_BYTES) != 0;
    let holds = w.mode & FP16_OVFL != 0 && matches!(kind, Kind::F16 | Kind::PkF16);
    m.sdwa.is_some() || merges || holds || kind.is_float() && (m.clamp || m.omod != 0 || flushes_result(w.mode, kind))
}

/// Moves a staged result to its destination: output multiplier, clamp, flush, then SDWA or half-register merging.
#[inline(never)]
pub(crate) fn finish(w: &mut Wave, st: &MicroOp, frame: &Frame, kind: Kind) {
    if frame.dst != RESULT {
        return;
    }
    let m = &st.inst.mods;
    let mut result = Source { low: w.v[RESULT as usize].0, high: w.v[RESULT as usize + 1].0 };
    if w.mode & FP16_OVFL != 0 && matches!(kind, Kind::F16 | Kind::PkF16) {
        overflow::hold_halves(&mut result.low, frame.infinite, kind == Kind::PkF16);
    }
    let flushes = flushes_result(w.mode, kind);
    // "Output modifiers are ignored if the IEEE mode bit is set, or if output denormals are enabled."
    if m.omod != 0 && w.mode & IEEE == 0 && flushes {
        multiply(&mut result, kind, [1.0, 2.0, 4.0, 0.5][(m.omod & 3) as usize]);
    }
    if m.clamp {
        clamp(&mut result, kind, w.mode & DX10_CLAMP != 0);
    }
    if flushes {
        for_each_float(&mut result, kind, flush_f32, flush_f16, flush_f64);
    }
    let old = w.v[st.dst[0] as usize].0;
    if let Some(sdwa) = &m.sdwa {
        for (new, old) in result.low.iter_mut().zip(old) {
            *new = merge_sdwa(*new, old, sdwa);
        }
    } else if st.imm & (flag::KEEP_HALF | flag::KEEP_LOW) != 0 {
        let high = st.imm & flag::KEEP_LOW != 0 || m.op_sel & 8 != 0;
        for (new, old) in result.low.iter_mut().zip(old) {
            *new = if high { old & 0xffff | *new << 16 } else { old & 0xffff_0000 | *new & 0xffff };
        }
    } else if st.imm & flag::KEEP_BYTES != 0 {
        let shift = 8 * u32::from(m.op_sel >> 2 & 3);
        for (new, old) in result.low.iter_mut().zip(old) {
            *new = old & !(0xff << shift) | (*new & 0xff) << shift;
        }
    }
    for lane in 0..LANES {
        if frame.exec >> lane & 1 != 0 {
            w.set_lane(st.dst[0], lane, result.low[lane]);
            if kind.dwords() == 2 {
                w.set_lane(st.dst[0] + 1, lane, result.high[lane]);
            }
        }
    }
}

fn multiply(result: &mut Source, kind: Kind, factor: f32) {
    // The output multiplier turns -0 into +0.
    let single = |x: u32| (f32::from_bits(x) * factor + 0.0).to_bits();
    let half = |x: u16| f32_to_f16(f16_to_f32(x) * factor + 0.0);
    match kind {
        Kind::F32 | Kind::Mix => result.map(single),
        Kind::F16 => result.map(|x| half(x as u16).into()),
        Kind::F64 => result.map_both(|x| (f64::from_bits(x) * f64::from(factor) + 0.0).to_bits()),
        // Packed operations have no output multiplier.
        Kind::PkF16 | Kind::PkF32 | Kind::B32 | Kind::B16 | Kind::B64 | Kind::PkB16 => {}
    }
}

/// To [0, 1]; NaN becomes 0 with DX10_CLAMP and stays without.
fn clamp(result: &mut Source, kind: Kind, nan_to_zero: bool) {
    let single = |x: u32| {
        let v = f32::from_bits(x);
        if v.is_nan() {
            if nan_to_zero { 0 } else { x }
        } else if v > 0.0 {
            v.min(1.0).to_bits()
        } else {
            0
        }
    };
    let half = |x: u16| {
        let v = f16_to_f32(x);
        if v.is_nan() && !nan_to_zero { x } else { f32_to_f16(f32::from_bits(single(v.to_bits()))) }
    };
    match kind {
        Kind::F32 | Kind::Mix => result.map(single),
        Kind::PkF32 => {
            result.map(single);
            result.map_high(single);
        }
        Kind::F16 => result.map(|x| half(x as u16).into()),
        Kind::PkF16 => result.map(|x| u32::from(half(x as u16)) | u32::from(half((x >> 16) as u16)) << 16),
        Kind::F64 => result.map_both(|x| {
            let v = f64::from_bits(x);
            match (v.is_nan(), v > 0.0) {
                (true, _) => {
                    if nan_to_zero {
                        0
                    } else {
                        x
                    }
                }
                (false, true) => v.min(1.0).to_bits(),
                (false, false) => 0,
            }
        }),
        // An integer operation saturates by itself.
        Kind::B32 | Kind::B16 | Kind::B64 | Kind::PkB16 => {}
    }
}

fn merge_sdwa(new: u32, old: u32, sdwa: &Sdwa) -> u32 {
    let (shift, width) = sdwa_field(sdwa.dst_sel);
    let mask = (u32::MAX >> (32 - width)) << shift;
    let placed = new << shift & mask;
    match sdwa.dst_unused {
        SdwaUnused::Pad => placed,
        SdwaUnused::Sext => {
            (((placed << (32 - width - shift)) as i32) >> (32 - width - shift)) as u32 & !((1 << shift) - 1)
        }
        SdwaUnused::Preserve => old & !mask | placed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdwa_selects_and_merges_bytes_and_words() {
        assert_eq!(select_sdwa(0x1122_8344, SdwaSel::Byte1, false), 0x83);
        assert_eq!(select_sdwa(0x1122_8344, SdwaSel::Byte1, true), 0xffff_ff83);
        assert_eq!(select_sdwa(0x9122_8344, SdwaSel::Word1, true), 0xffff_9122);
        assert_eq!(select_sdwa(0x9122_8344, SdwaSel::Dword, true), 0x9122_8344);
        let sdwa =
            |dst_sel, dst_unused| Sdwa { dst_sel, dst_unused, src_sel: [SdwaSel::Dword; 2], src_sext: [false; 2] };
        let old = 0xaabb_ccdd;
        assert_eq!(merge_sdwa(0x1ff, old, &sdwa(SdwaSel::Byte2, SdwaUnused::Preserve)), 0xaaff_ccdd);
        assert_eq!(merge_sdwa(0x1ff, old, &sdwa(SdwaSel::Byte2, SdwaUnused::Pad)), 0x00ff_0000);
        assert_eq!(merge_sdwa(0x1ff, old, &sdwa(SdwaSel::Byte2, SdwaUnused::Sext)), 0xffff_0000);
        assert_eq!(merge_sdwa(0x8001, old, &sdwa(SdwaSel::Word0, SdwaUnused::Sext)), 0xffff_8001);
        assert_eq!(merge_sdwa(5, old, &sdwa(SdwaSel::Dword, SdwaUnused::Preserve)), 5);
    }
}
