//! The vector ALU: VOP1, VOP2, VOPC, VOP3 and VOP3P, in all their encodings.
//!
//! An operation is written once, as a function of one lane's sources ([`driver::Op`] and its siblings), whatever encoding
//! it came in; [`driver`] has the loops over the lanes and instantiates them for each CPU level; [`modifiers`] does what an
//! encoding adds (SDWA, DPP, negation, clamp, `op_sel`) around the same loops. One file for each class of operations, each
//! with a `choose` that matches on the mnemonic. The most frequent have a second form, on host vectors ([`vector`]). Moves between lanes and the matrix unit are elsewhere in `exec`.
//!
//! [`rdna`] has the operations of the RDNA line, and [`permute`] its moves between lanes.
//!
//! What is not here: `v_nop` and `v_clrexcp`, which do nothing, are handled by an empty handler below;
//! `v_screen_partition_4se_b32` belongs to graphics and stays unknown.

mod bfloat16;
mod bitop3;
mod compare;
mod directed;
pub(crate) mod dpp;
pub(crate) mod driver;
mod float16;
mod float32;
mod float64;
mod float8;
#[cfg(target_arch = "x86_64")]
mod forms;
mod int16;
mod int32;
mod int64;
mod mask;
mod minimum3;
mod modifiers;
mod overflow;
mod packed;
mod permute;
mod rdna;
mod scaled;
mod special;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;
/// Without the host's vector registers, the loops over lanes are all there is.
#[cfg(not(target_arch = "x86_64"))]
mod vector {
    pub(crate) use super::driver::{
        Compare as HotCompare, MaskOp as HotMask, Op as Hot, Op as HotPair, compare_handlers, mask_handlers,
        op_handlers, op_handlers as wide_handlers, pair_handlers,
    };
}
mod word;

use rocfire_arch::Arch;
use rocfire_isa::Inst;

use crate::step::Selected;

/// The handler of a vector ALU instruction on `arch`; `None` if the emulator does not have it.
pub(crate) fn select(arch: Arch, inst: &Inst) -> Option<Selected> {
    if let Some(dpp) = &inst.mods.dpp {
        // A reserved `dpp_ctrl` is an unknown instruction wherever it stands.
        dpp::source_lane(dpp.ctrl, 0)?;
    }
    let choosers = [
        float32::choose,
        int32::choose,
        compare::choose,
        mask::choose,
        int64::choose,
        float32::choose_conversion,
        packed::choose,
        packed::choose_dot,
        float64::choose,
        float16::choose,
        int16::choose,
        bfloat16::choose,
        minimum3::choose,
    ];
    let rdna = arch.info().family.is_rdna();
    let own = if rdna { rdna::choose(inst) } else { None };
    let choice = own.or_else(|| choosers.iter().find_map(|choose| choose(inst))).or_else(|| float8::choose(arch, inst));
    match choice.map(|choice| if rdna { choice.keep_half() } else { choice }) {
        Some(choice) => Some(choice.select(inst)),
        None => special::select(inst)
            .or_else(|| scaled::select(inst))
            .or_else(|| bitop3::select(inst))
            .or_else(|| permute::select(inst)),
    }
}
