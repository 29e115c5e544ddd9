//! `v_cvt_scalef32_*`: conversions between ordinary floats and those of 8, 6 and 4 bits, with a scale that is a power of
//! two. Down, values are divided by it, up, multiplied; one rounding follows.
//!
//! The mnemonic says it all: `v_cvt_scalef32_[sr_][pk_|pk32_|2xpk16_]<to>_<from>`. `sr` rounds by random bits, which all
//! elements share; `2xpk16` takes even elements from its first source and odd ones from its second. The scale is the last
//! source, of which only the exponent counts (all ones: NaN). `op_sel` bits 1 and 0 say where in a register narrow sources
//! stand, bits 3 and 2 where a narrow result goes; the rest of that register stays. The low element comes first.

use rocfire_isa::{Inst, Op};

use crate::env::Env;
use crate::numeric::*;
use crate::step::{Flow, Handlers, Selected, Step};
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
    const NAMES: [(&'static str, Element); 8] = [
        ("f32", Element::F32),
        ("f16", Element::F16),
        ("bf16", Element::Bf16),
        ("fp8", Element::Small(Float8::OcpE4M3)),
        ("bf8", Element::Small(Float8::OcpE5M2)),
        ("fp6", Element::Small(Float8::E2M3)),
        ("bf6", Element::Small(Float8::E3M2)),
        ("fp4", Element::Small(Float8::E2M1)),
    ];

    fn named(name: &str) -> Option<i64> {
        Element::NAMES.iter().position(|(other, _)| *other == name).map(|index| index as i64)
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

/// What an instruction converts, as [`Step::imm`] holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    to: Element,
    from: Element,
    count: u32,
    random: bool,
    interleaved: bool,
}

impl Form {
    /// From the mnemonic, in the bits of an immediate.
    fn parse(mnemonic: &str) -> Option<i64> {
        let rest = mnemonic.strip_prefix("v_cvt_scalef32_")?;
        let (random, rest) = rest.strip_prefix("sr_").map_or((0, rest), |rest| (1, rest));
        let layouts = [("2xpk16_", 32, 1), ("pk32_", 32, 0), ("pk_", 2, 0), ("", 1, 0)];
        let (count, interleaved, rest) = layouts
            .into_iter()
            .find_map(|(prefix, count, interleaved)| Some((count, interleaved, rest.strip_prefix(prefix)?)))?;
        let (to, from) = rest.split_once('_')?;
        Some(Element::named(to)? | Element::named(from)? << 4 | count << 8 | random << 16 | interleaved << 17)
    }

    fn from_imm(imm: i64) -> Form {
        let element = |at: u32| Element::NAMES[(imm >> at & 7) as usize].1;
        Form {
            to: element(0),
            from: element(4),
            count: (imm >> 8 & 0xff) as u32,
            random: imm >> 16 & 1 != 0,
            interleaved: imm >> 17 & 1 != 0,
        }
    }
}

/// The handler of a scaled conversion.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let imm = Form::parse(Op::mnemonic(inst.op))?;
    Some(Selected::lanes(Handlers::same(convert)).with_imm(imm))
}

/// `bits` bits of the registers from `first` on, from bit `at`.
fn read_bits(w: &Wave, first: u16, lane: usize, at: u32, bits: u32) -> u32 {
    let (register, shift) = (first + (at / 32) as u16, at % 32);
    let low = u64::from(w.lane(register, lane));
    let high = if shift + bits > 32 { u64::from(w.lane(register + 1, lane)) } else { 0 };
    ((low | high << 32) >> shift & ((1 << bits) - 1)) as u32
}

fn convert(w: &mut Wave, _: &mut Env, st: &Step) -> Flow {
    st.spread(w);
    let form = Form::from_imm(st.imm);
    let mods = &st.inst.mods;
    let op_sel = u32::from(mods.op_sel);
    // Two f32 come from two registers named apart, but for the random forms, which need the second source.
    let two_sources = form.interleaved || form.count == 2 && form.from == Element::F32 && !form.random;
    let data = if two_sources { 2 } else { 1 };
    let scale_source = st.src[data + usize::from(form.random)];
    let read_width = form.count * form.from.bits();
    let read_at = match (form.from, read_width) {
        (Element::F32, _) => 0,
        (_, 8) => 8 * (op_sel & 3),
        (_, 16) => 16 * (op_sel & 1),
        _ => 0,
    };
    let write_width = form.count * form.to.bits();
    let write_at = match write_width {
        8 => 8 * (op_sel >> 2 & 3),
        16 => 16 * (op_sel >> 3 & 1),
        _ => 0,
    };
    let saturate = w.mode & FP16_OVFL != 0;
    let sign = 1u32 << (form.from.bits() - 1);
    let exec = w.exec();
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let random = form.random.then(|| w.lane(st.src[1], lane));
        let exponent = (w.lane(scale_source, lane) >> 23 & 0xff) as i32;
        let down = matches!(form.to, Element::Small(_));
        let factor = if down { 127 - exponent } else { exponent - 127 };
        let factor = f64::from_bits(((1023 + factor) as u64) << 52);
        let mut out = [0u32; 32];
        for i in 0..form.count {
            let (source, at) = match two_sources {
                true => ((i & 1) as usize, (i / 2) * form.from.bits()),
                false => (0, read_at + i * form.from.bits()),
            };
            let mut bits = read_bits(w, st.src[source], lane, at, form.from.bits());
            if mods.abs >> source & 1 != 0 {
                bits &= !sign;
            }
            if mods.neg >> source & 1 != 0 {
                bits ^= sign;
            }
            let value = f64::from(form.from.widen(bits));
            let value = if exponent == 0xff { f64::NAN } else { value * factor };
            let bits = u64::from(form.to.narrow(value, random, saturate));
            let at = i * form.to.bits();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_say_what_is_converted() {
        let form = |name| Form::parse(name).map(Form::from_imm);
        let small = Element::Small;
        let plain =
            Form { to: Element::F32, from: small(Float8::OcpE4M3), count: 1, random: false, interleaved: false };
        assert_eq!(form("v_cvt_scalef32_f32_fp8"), Some(plain));
        let packed = Form { to: small(Float8::E2M1), from: Element::Bf16, count: 2, random: true, interleaved: false };
        assert_eq!(form("v_cvt_scalef32_sr_pk_fp4_bf16"), Some(packed));
        let long = Form { to: small(Float8::E3M2), from: Element::F32, count: 32, random: false, interleaved: true };
        assert_eq!(form("v_cvt_scalef32_2xpk16_bf6_f32"), Some(long));
        assert_eq!(form("v_cvt_f32_fp8"), None);
    }
}
