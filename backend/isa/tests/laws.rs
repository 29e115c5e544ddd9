//! What holds of the decoder whatever the bytes.

use proptest::prelude::*;
use rocfire_arch::Arch;
use rocfire_isa::{Class, DecodeError, Element, Op, OperandKind, Scaling, decode, disassemble};

/// Top bits of every format, so that random words reach opcodes behind long prefixes too.
fn prefixed_word() -> impl Strategy<Value = u32> {
    let prefixes = [
        (0x0000_0000, 0x7fff_ffff),
        (0x7c00_0000, 0x03ff_ffff),
        (0x8000_0000, 0x3fff_ffff),
        (0xbe80_0000, 0x01ff_ffff),
        (0xc000_0000, 0x03ff_ffff),
        (0xd000_0000, 0x03ff_ffff),
        (0xd380_0000, 0x007f_ffff),
        (0xd800_0000, 0x03ff_ffff),
        (0xdc00_0000, 0x03ff_ffff),
        (0xe000_0000, 0x03ff_ffff),
        (0x0000_0000, 0xffff_ffff),
    ];
    // Every third word asks for the sub-dword or swizzle form.
    (
        prop::sample::select(prefixes.to_vec()),
        any::<u32>(),
        prop::sample::select(vec![None, None, Some(249), Some(250)]),
    )
        .prop_map(|((prefix, mask), word, first)| {
            let word = prefix | word & mask;
            first.map_or(word, |first: u32| word & !0x1ff | first)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn decode_never_panics_and_consumes_whole_words(first in prefixed_word(), rest in prop::array::uniform2(any::<u32>())) {
        let arch = Arch::parse("gfx942").unwrap();
        let words = [first, rest[0], rest[1]];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match decode(arch, &bytes) {
            Ok(inst) => {
                prop_assert!([4, 8, 12].contains(&inst.bytes));
                prop_assert!(disassemble(arch, &inst).starts_with(inst.op.mnemonic()));
                for operand in inst.dst.iter().chain(&inst.src) {
                    if let OperandKind::Vgpr(n) | OperandKind::Agpr(n) = operand.kind {
                        prop_assert!(n + u16::from(operand.dwords) <= 256);
                    }
                    if let OperandKind::Sgpr(n) = operand.kind {
                        prop_assert!(n + u16::from(operand.dwords) <= 102);
                    }
                }
                // The bytes it consumed are all it looked at.
                let exact = decode(arch, &bytes[..usize::from(inst.bytes)]);
                prop_assert_eq!(exact, Ok(inst));
            }
            Err(DecodeError::Invalid { word, .. }) => prop_assert_eq!(word, first),
            Err(other) => prop_assert!(false, "three words cannot be {}", other),
        }
    }

    #[test]
    fn decode_never_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
        for arch in Arch::all() {
            if let Ok(inst) = decode(arch, &bytes) {
                prop_assert!(usize::from(inst.bytes) <= bytes.len());
            }
        }
    }
}

#[test]
fn variants_are_named_after_mnemonics() {
    for &op in Op::ALL {
        let name: String = op
            .mnemonic()
            .split('_')
            .flat_map(|part| part.chars().enumerate().map(|(i, c)| if i == 0 { c.to_ascii_uppercase() } else { c }))
            .collect();
        assert_eq!(format!("{op:?}"), name);
    }
}

#[test]
fn every_operation_has_one_row_in_order() {
    for pair in Op::ALL.windows(2) {
        assert!(pair[0].mnemonic() < pair[1].mnemonic(), "{:?} stands before {:?}", pair[0], pair[1]);
    }
}

#[test]
fn renamed_operations_have_the_facts_of_their_first_name() {
    for op in Op::ALL {
        assert_eq!(op.facts(), op.canonical().facts(), "{op:?}");
    }
    assert_eq!(Op::DsLoadB32.facts().class, Class::Load);
}

#[test]
fn widths_of_sources_are_those_of_their_types() {
    let halves = |op: Op| op.facts().halves;
    for op in [Op::VAddF16, Op::VCvtF32F16, Op::VCmpLtU16] {
        assert_eq!(halves(op), 0b111, "{op:?}");
    }
    for op in [Op::VCvtF16F32, Op::VDot2F32F16, Op::VAddF32] {
        assert_eq!(halves(op), 0, "{op:?}");
    }
    assert_eq!((halves(Op::VMadU32U16), halves(Op::VCmpClassF16)), (0b011, 0b001));
}

#[test]
fn scaled_conversions_say_what_they_convert() {
    let scaling = |to, from, count, random, interleaved| Some(Scaling { to, from, count, random, interleaved });
    let of = |op: Op| op.facts().scaling;
    assert_eq!(of(Op::VCvtScalef32F32Fp8), scaling(Element::F32, Element::Fp8, 1, false, false));
    assert_eq!(of(Op::VCvtScalef32SrPkFp4Bf16), scaling(Element::Fp4, Element::Bf16, 2, true, false));
    assert_eq!(of(Op::VCvtScalef322xpk16Bf6F32), scaling(Element::Bf6, Element::F32, 32, false, true));
    assert_eq!(of(Op::VCvtF32Fp8), None);
}
