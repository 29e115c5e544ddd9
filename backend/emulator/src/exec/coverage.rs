//! That every operation of each family's tables is executed, by one class, or that its row says why not.
//!
//! The operations are found by decoding: every opcode of every format, with a few settings of the other fields. What
//! decodes and is not selected must have a reason in its row, and nothing may have one that is selected.
//! A step without handler faults as unknown and names the instruction, so those are also what a kernel is refused for.

use std::collections::{BTreeMap, BTreeSet};

use rocfire_arch::Arch;
use rocfire_isa::{Class, Inst, Op, WaveSize, decode_dual};

use crate::program::has_no_effect;

/// Families, by a GPU of each.
const FAMILIES: &[&str] =
    &["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1150", "gfx1201"];

/// Settings of the fields behind the first word: scalar sources; one, two and three vector sources, with accumulation
/// registers too; and no scalar address, as each generation says it.
const REST: [u32; 10] = [
    0,
    0x0000_0100,
    0x0002_0100,
    0x0402_0100,
    0x1c02_0100,
    0x1800_0100,
    0x1802_0100,
    0x007f_0000,
    0x007d_0000,
    0x007c_0000,
];

/// Settings of the first word's low byte: a register, and EXEC, which is all that some compares may write.
const LOW: [u32; 2] = [0, 126];

/// One instruction of each operation.
pub(crate) fn operations(arch: Arch, wave: WaveSize) -> BTreeMap<&'static str, Inst> {
    let mut found = BTreeMap::new();
    for high in 0..=0xffffu32 {
        // The formats whose opcode reaches below bit 16: VOP1, SOP1, and RDNA 4's memory formats.
        let deep =
            high >> 9 == 0b011_1111 || high >> 7 == 0b1_0111_1101 || high >> 10 == 0b11_0001 || high >> 10 == 0b11_1011;
        for low in (0..=0xffu32).step_by(if deep { 1 } else { 0x40 }) {
            for rest in REST {
                for lowest in LOW {
                    // A third word has a register of its own or an offset.
                    let words = [high << 16 | low << 8 | lowest, rest, 0, 0];
                    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
                    if let Ok(decoded) = decode_dual(arch, wave, &bytes) {
                        for inst in [Some(decoded.first), decoded.second].into_iter().flatten() {
                            found.entry(inst.op.mnemonic()).or_insert(inst);
                        }
                    }
                }
            }
        }
    }
    found
}

#[test]
fn what_is_not_executed_has_a_reason() {
    let mut wrong = Vec::new();
    let classes: BTreeSet<Class> = Op::ALL.iter().map(|op| op.facts().class).collect();
    for &name in FAMILIES {
        let arch = Arch::parse(name).unwrap();
        for (mnemonic, inst) in operations(arch, WaveSize::usual(arch)) {
            let inst = super::canonical(inst);
            let facts = inst.op.facts();
            let selected = has_no_effect(inst.op) || super::select(arch, &inst).is_some();
            match (selected, facts.not_executed) {
                (false, "") => wrong.push(format!("{name} {mnemonic} is not executed")),
                (true, reason) if !reason.is_empty() => wrong.push(format!("{name} {mnemonic} is executed: {reason}")),
                _ => {}
            }
            // Every class answers for its own operations alone. Two have no match on the operation.
            let own = [super::class(arch, inst.op), facts.class, Class::ScalarAtomic, Class::ScaledConversion];
            for class in classes.iter().filter(|class| !own.contains(class)) {
                if super::select_as(*class, arch, &inst).is_some() {
                    wrong.push(format!("{name} {mnemonic} is {:?}, and {class:?} has it too", own[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}
