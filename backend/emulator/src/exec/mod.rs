//! What instructions do. Each class has its own module with a `select`, which matches on the operation and gives the
//! handler; [`select`] asks them in turn. The contract of handlers and operands is in [`step`](crate::step).
//!
//! | module | instructions |
//! | --- | --- |
//! | [`scalar`] | SOP1, SOP2, SOPK, SOPC, SOPP, SMEM |
//! | [`lane`] | `v_readlane`, `v_readfirstlane`, `v_writelane` |
//! | [`index`] | vector instructions while `s_set_gpr_idx_on` is in force |
//! | [`memory`] | GLOBAL, FLAT, SCRATCH, MUBUF, DS |
//! | [`mfma`] | VOP3P-MAI, without the moves to and from accumulation registers |
//! | [`wmma`] | `v_wmma_*` |
//! | [`valu`] | all other VOP1, VOP2, VOPC, VOP3, VOP3P, with SDWA and DPP |
//! | [`dual`] | pairs of vector instructions (VOPD) |
//! | [`narrow`] | instructions of a wave32 that would write the upper half of EXEC |
//!
//! Operations have the names that GFX9 gave them (`Op::canonical`), those that AMD only renamed later included.

use rocfire_arch::Arch;
use rocfire_isa::{Format, Inst, Op};

use crate::step::Selected;

#[cfg(test)]
mod coverage;
pub(crate) mod dual;
pub(crate) mod index;
pub(crate) mod lane;
#[cfg(test)]
pub(crate) mod matrix_table;
pub(crate) mod memory;
pub(crate) mod mfma;
pub(crate) mod narrow;
pub(crate) mod scalar;
pub(crate) mod valu;
pub(crate) mod wmma;

/// The instruction under its first name, and with what its encoding leaves unsaid: `v_fmac_f16` adds to the half that it
/// writes.
pub(crate) fn canonical(inst: Inst) -> Inst {
    let mut inst = Inst { op: inst.op.canonical(), ..inst };
    if inst.op == Op::VFmacF16 {
        inst.mods.op_sel = inst.mods.op_sel & !4 | inst.mods.op_sel >> 1 & 4;
    }
    inst
}

/// The handler of `inst` on `arch`, if any class knows it.
pub(crate) fn select(arch: Arch, inst: &Inst) -> Option<Selected> {
    match inst.format {
        Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc | Format::Sopp | Format::Smem => scalar::select(inst),
        Format::Global | Format::Flat | Format::Scratch | Format::Mubuf | Format::Ds => memory::select(inst),
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p | Format::Vop3pMai => {
            lane::select(inst)
                .or_else(|| scalar::select_elementary(inst))
                .or_else(|| mfma::select(arch, inst))
                .or_else(|| wmma::select(inst))
                .or_else(|| valu::select(arch, inst))
        }
    }
}
