//! `v_cvt_scalef32_*`: conversions between ordinary floats and those of 8, 6 and 4 bits, with a scale that is a power of
//! two. Down, values are divided by it, up, multiplied; one rounding follows.
//!
//! The row says what is converted: `v_cvt_scalef32_[sr_][pk_|pk32_|2xpk16_]<to>_<from>`.
//!
//! - `sr` rounds by random bits, which all elements share.
//! - `2xpk16` takes even elements from its first source and odd ones from its second.
//! - The scale is the last source, of which only the exponent counts (all ones: NaN).
//! - `op_sel` bits 1 and 0 say where in a register narrow sources stand, bits 3 and 2 where a narrow result goes. The rest of that
//!   register stays. The low element comes first.

use crate::env::Env;
use crate::numeric::*;
use crate::step::{Flow, Handlers, MicroOp, Selected};
use crate::wave::{LANES, Wave};

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    F32,
    F16,
    Bf16,
    Small(Float8),
}

impl Element {
    fn of(element: rocfire_isa::Element) -> Element {
        match element {
            rocfire_isa::Element::F32 => Element::F32,
            rocfire_isa::Element::F16 => Element::F16,
            rocfire_isa::Element::Bf16 => Element::Bf16,
            rocfire_isa::Element::Fp8 => Element::Small(Float8::OcpE4M3),
            rocfire_isa::Element::Bf8 => Element::Small(Float8::OcpE5M2),
            rocfire_isa::Element::Fp6 => Element::Small(Float8::E2M3),
            rocfire_isa::Element::Bf6 => Element::Small(Float8::E3M2),
            rocfire_isa::Element::Fp4 => Element::Small(Float8::E2M1),
        }
    }

    fn bits(self) -> u32 {
        match self {
            Element::F32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::Small(format) => format.bits(),
        }
    }

    /// As f32, exact.
    fn widen(self, bits: u32) -> f32 {
        match self {
            Element::F32 => f32::from_bits(bits),
            Element::F16 => f16_to_f32(bits as u16),
            Element::Bf16 => bf16_to_f32(bits as u16),
            Element::Small(format) => float8_to_f32(format, bits as u8),
        }
    }

    /// From a value that is exact in f64, with one rounding.
    fn narrow(self, value: f64, random: Option<u32>, saturate: bool) -> u32 {
        match (self, random) {
            (Element::F32, _) => {
                let value = value as f32;
                if value.is_nan() { NAN_F32 } else { value.to_bits() }
            }
            (Element::F16, _) => f64_to_f16(value).into(),
            (Element::Bf16, _) => f64_to_bf16(value).into(),
            (Element::Small(format), None) => f32_to_float8(format, round_odd_f32(value), saturate).into(),
            (Element::Small(format), Some(random)) => {
                f32_to_float8_stochastic(format, round_odd_f32(value), random, saturate).into()
            }
        }
    }
}

/// The handler of a scaled conversion.
pub(crate) fn select() -> Selected {
    Selected::lanes(Handlers::same(convert))
}

/// `bits` bits of the registers from `first` on, from bit `at`.
fn read_bits(w: &Wave, first: u16, lane: usize, at: u32, bits: u32) -> u32 {
    let (register, shift) = (first + (at / 32) as u16, at % 32);
    let low = u64::from(w.lane(register, lane));
    let high = if shift + bits > 32 { u64::from(w.lane(register + 1, lane)) } else { 0 };
    ((low | high << 32) >> shift & ((1 << bits) - 1)) as u32
}

fn convert(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    st.spread(w);
    let Some(scaling) = st.inst.op.facts().scaling else { unreachable!("only scaled conversions have this handler") };
    let (to, from, count) = (Element::of(scaling.to), Element::of(scaling.from), u32::from(scaling.count));
    let mods = &st.inst.mods;
    let op_sel = u32::from(mods.op_sel);
    // Two f32 come from two registers named apart, but for the random forms, which need the second source.
    let two_sources = scaling.interleaved || count == 2 && from == Element::F32 && !scaling.random;
    let data = if two_sources { 2 } else { 1 };
    let scale_source = st.src[data + usize::from(scaling.random)];
    let read_width = count * from.bits();
    let read_at = match (from, read_width) {
        (Element::F32, _) => 0,
        (_, 8) => 8 * (op_sel & 3),
        (_, 16) => 16 * (op_sel & 1),
        _ => 0,
    };
    let write_width = count * to.bits();
    let write_at = match write_width {
        8 => 8 * (op_sel >> 2 & 3),
        16 => 16 * (op_sel >> 3 & 1),
        _ => 0,
    };
    let saturate = w.mode & FP16_OVFL != 0;
    let sign = 1u32 << (from.bits() - 1);
    let exec = w.exec();
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let random = scaling.random.then(|| w.lane(st.src[1], lane));
        let exponent = (w.lane(scale_source, lane) >> 23 & 0xff) as i32;
        let down = matches!(to, Element::Small(_));
        let factor = if down { 127 - exponent } else { exponent - 127 };
        let factor = f64::from_bits(((1023 + factor) as u64) << 52);
        let mut out = [0u32; 32];
        for i in 0..count {
            let (source, at) = match two_sources {
                true => ((i & 1) as usize, (i / 2) * from.bits()),
                false => (0, read_at + i * from.bits()),
            };
            let mut bits = read_bits(w, st.src[source], lane, at, from.bits());
            if mods.abs >> source & 1 != 0 {
                bits &= !sign;
            }
            if mods.neg >> source & 1 != 0 {
                bits ^= sign;
            }
            let value = f64::from(from.widen(bits));
            let value = if exponent == 0xff { f64::NAN } else { value * factor };
            let bits = u64::from(to.narrow(value, random, saturate));
            let at = i * to.bits();
            let place = bits << (at % 32);
            out[(at / 32) as usize] |= place as u32;
            if place >> 32 != 0 {
                out[(at / 32) as usize + 1] |= (place >> 32) as u32;
            }
        }
        if write_width < 32 {
            let mask = ((1u32 << write_width) - 1) << write_at;
            let old = w.lane(st.dst[0], lane);
            w.set_lane(st.dst[0], lane, old & !mask | out[0] << write_at);
        } else {
            for register in 0..write_width / 32 {
                w.set_lane(st.dst[0] + register as u16, lane, out[register as usize]);
            }
        }
    }
    Flow::Next
}

/// FP16_OVFL in MODE: narrow results are held to the largest value.
const FP16_OVFL: u32 = 1 << 23;
