//! What holds of the decoder whatever the bytes.

use proptest::prelude::*;
use rocfire_arch::Arch;
use rocfire_isa::{DecodeError, Op, OperandKind, decode, disassemble};

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
