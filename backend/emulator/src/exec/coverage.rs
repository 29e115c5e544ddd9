//! Which operations of each family's tables the emulator does not execute, and why.
//!
//! The operations are found by decoding: every opcode of every format, with a few settings of the other fields. What
//! decodes and is not selected must stand in [`GAPS`], and nothing may stand there that is selected or does not exist.
//! A step without handler faults as unknown and names the instruction, so the list is also what a kernel is refused for.

use std::collections::BTreeMap;

use rocfire_arch::Arch;
use rocfire_isa::{Inst, WaveSize, decode_dual};

use crate::program::has_no_effect;

/// Families, by a GPU of each.
const FAMILIES: &[&str] =
    &["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1150", "gfx1201"];

/// Every family of the CDNA line and before.
const GFX9: &[&str] = &["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"];

/// Every family of the RDNA line.
const RDNA: &[&str] = &["gfx1010", "gfx1030", "gfx1100", "gfx1150", "gfx1201"];
const BEFORE_RDNA4: &[&str] = &["gfx1010", "gfx1030", "gfx1100", "gfx1150"];

/// Why operations are not executed, the families that have them, and their names, with `*` for any end.
type Gap = (&'static str, &'static [&'static str], &'static [&'static str]);

/// What is not executed.
const GAPS: &[Gap] = &[
    ("sparse matrices", &["gfx942", "gfx950"], &["v_smfmac_*"]),
    (
        "names two LDS addresses by its offset, and no compiler emits it",
        &["gfx906", "gfx908", "gfx1010"],
        &[
            "ds_add_src2_*",
            "ds_and_src2_*",
            "ds_dec_src2_*",
            "ds_inc_src2_*",
            "ds_max_src2_*",
            "ds_min_src2_*",
            "ds_or_src2_*",
            "ds_rsub_src2_*",
            "ds_sub_src2_*",
            "ds_write_src2_*",
            "ds_xor_src2_*",
        ],
    ),
    ("the order of graphics waves", &["gfx906", "gfx908"], &["ds_ordered_count"]),
    ("sparse matrices", &["gfx1201"], &["v_swmmac_*"]),
    (
        "scratch of a whole wave, and caches without what they hold: no compiler emits them",
        &["gfx1010"],
        &["s_scratch_*", "s_dcache_discard*"],
    ),
    (
        "numbers the waves of a workgroup as they come, which no compiler uses",
        &["gfx1010"],
        &["s_get_waveid_in_workgroup"],
    ),
    ("global wave sync, the order of graphics waves", BEFORE_RDNA4, &["ds_gws_*", "ds_ordered_count"]),
    ("counts of geometry shaders", &["gfx1100", "gfx1150"], &["ds_add_gs_reg_rtn", "ds_sub_gs_reg_rtn"]),
    ("ray tracing", &["gfx1100", "gfx1150", "gfx1201"], &["ds_bvh_stack_*"]),
    (
        "formats of buffers belong to graphics",
        &["gfx1010", "gfx1030"],
        &["buffer_load_format_*", "buffer_store_format_*"],
    ),
    (
        "formats of buffers belong to graphics",
        &["gfx1100", "gfx1150", "gfx1201"],
        &[
            "buffer_load_d16_format_*",
            "buffer_load_d16_hi_format_x",
            "buffer_load_format_*",
            "buffer_store_d16_format_*",
            "buffer_store_d16_hi_format_x",
            "buffer_store_format_*",
        ],
    ),
    ("the end of graphics waves", BEFORE_RDNA4, &["s_endpgm_ordered_ps_done"]),
    (
        "for trap handlers and debuggers only",
        RDNA,
        &["s_rfe_b64", "s_sethalt", "s_setkill", "s_sendmsghalt", "s_code_end"],
    ),
    ("for debuggers only", BEFORE_RDNA4, &["s_cbranch_cdbg*"]),
    ("loops over the halves of a wave64, which no compiler makes", BEFORE_RDNA4, &["s_subvector_loop_*"]),
    ("asks the memory system about an address, which no compiler does", RDNA, &["s_atc_probe*"]),
    (
        "addresses by the lane's number, and no compiler emits it",
        &["gfx1030"],
        &["global_load_dword_addtid", "global_store_dword_addtid"],
    ),
    (
        "addresses by the lane's number, and no compiler emits it",
        &["gfx1100", "gfx1150", "gfx1201"],
        &["global_load_addtid_b32", "global_store_addtid_b32"],
    ),
    (
        "barriers other than the workgroup's, which HIP has no name for",
        &["gfx1201"],
        &["s_barrier_init", "s_barrier_join", "s_barrier_leave", "s_get_barrier_state"],
    ),
    (
        "moves as many registers as M0 says, which compilers do only when asked to",
        &["gfx1201"],
        &["global_load_block", "global_store_block", "scratch_load_block", "scratch_store_block"],
    ),
    ("transposes while it loads, which no compiler does unasked", &["gfx1201"], &["global_load_tr_*"]),
    ("an order of waves that graphics asks for", &["gfx1201"], &["global_atomic_ordered_add_b64"]),
    ("global wave sync", GFX9, &["ds_gws_*"]),
    ("formats of buffers belong to graphics", GFX9, &["buffer_load_format_*", "buffer_store_format_*"]),
    ("belongs to graphics", GFX9, &["v_screen_partition_4se_b32", "s_endpgm_ordered_ps_done"]),
    ("for trap handlers and debuggers only", GFX9, &["s_rfe_*", "s_sethalt", "s_setkill", "s_sendmsghalt"]),
    ("for debuggers only", GFX9, &["s_cbranch_cdbg*"]),
    ("forks of waves, which no compiler makes", GFX9, &["s_cbranch_g_fork", "s_cbranch_i_fork", "s_cbranch_join"]),
    (
        "scratch of a whole wave, and caches without what they hold: no compiler emits them",
        GFX9,
        &["s_scratch_*", "s_dcache_discard*", "s_atc_probe*"],
    ),
];

/// Whether a row's name, which may end in `*`, is the mnemonic's.
fn is_named(name: &str, mnemonic: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => mnemonic.starts_with(start),
        None => name == mnemonic,
    }
}

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
fn what_is_not_executed_is_listed_with_a_reason() {
    let mut wrong = Vec::new();
    for &name in FAMILIES {
        let arch = Arch::parse(name).unwrap();
        let operations = operations(arch, WaveSize::usual(arch));
        let gaps = || GAPS.iter().filter(|(_, families, _)| families.contains(&name)).flat_map(|(_, _, names)| *names);
        for (mnemonic, inst) in &operations {
            let listed = gaps().any(|gap| is_named(gap, mnemonic));
            let inst = super::canonical(*inst);
            let selected = has_no_effect(inst.op) || super::select(arch, &inst).is_some();
            match (selected, listed) {
                (false, false) => wrong.push(format!("{name} {mnemonic} is not executed")),
                (true, true) => wrong.push(format!("{name} {mnemonic} is listed, and is executed")),
                (true, false) | (false, true) => {}
            }
        }
        for gap in gaps().filter(|gap| !operations.keys().any(|mnemonic| is_named(gap, mnemonic))) {
            wrong.push(format!("{name} has no {gap}"));
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}
