//! What instructions do. Each class of `isa`'s rows has its own module, or function of one, which matches on the operation
//! and gives the handler; [`select`] goes by the class. The contract of handlers and operands is in [`step`](crate::step).
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
use rocfire_isa::{Class, Inst, Op};

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

/// The handler of `inst` on `arch`, if there is one.
pub(crate) fn select(arch: Arch, inst: &Inst) -> Option<Selected> {
    select_as(class(arch, inst.op), arch, inst)
}

/// The class of an operation. On RDNA some read halves of registers, or have another NaN, and are among its own.
fn class(arch: Arch, op: Op) -> Class {
    match op {
        Op::VAlignbitB32 | Op::VAlignbyteB32 | Op::VSatPkU8I16 if arch.info().family.is_rdna() => Class::Rdna,
        Op::VMinimum3F32 | Op::VMaximum3F32 if arch.info().family.is_rdna() => Class::Ieee2019,
        op => op.facts().class,
    }
}

/// The handler of `inst`, were it of `class`.
fn select_as(class: Class, arch: Arch, inst: &Inst) -> Option<Selected> {
    if let Some(dpp) = &inst.mods.dpp {
        // A reserved `dpp_ctrl` is an unknown instruction wherever it stands.
        valu::dpp::source_lane(dpp.ctrl, 0)?;
    }
    let rdna = arch.info().family.is_rdna();
    let choice = match class {
        Class::NoEffect | Class::Unmodelled | Class::SparseMatrix => return None,
        Class::Scalar => return scalar::select(inst),
        Class::ScalarFloat => return scalar::float::select(inst),
        Class::ScalarTranscendental => return scalar::float::select_elementary(inst),
        Class::ScalarLoad => return scalar::load::select(inst),
        Class::ScalarStore => return scalar::store::select(inst),
        Class::ScalarAtomic => return Some(scalar::store::select_atomic()),
        Class::Load
        | Class::Store
        | Class::LoadToLds
        | Class::Pair
        | Class::Exchange
        | Class::Transpose
        | Class::Atomic => return memory::select(class, inst),
        Class::Lane => return lane::select(inst),
        Class::Mfma => return mfma::select(arch, inst),
        Class::Wmma => return wmma::select(inst),
        Class::Special => return valu::special::select(inst),
        Class::ScaledConversion => return Some(valu::scaled::select()),
        Class::Bitop3 => return valu::bitop3::select(inst),
        Class::Permute => return valu::permute::select(inst),
        Class::Rdna | Class::Ieee2019 if !rdna => return None,
        Class::Rdna => valu::rdna::choose(inst),
        Class::Ieee2019 => valu::rdna::choose_2019(inst),
        Class::Float32 => valu::float32::choose(inst),
        Class::Conversion => valu::float32::choose_conversion(inst),
        Class::Int32 => valu::int32::choose(inst),
        Class::Compare => valu::compare::choose(inst),
        Class::Mask => valu::mask::choose(inst),
        Class::Int64 => valu::int64::choose(inst),
        Class::Packed => valu::packed::choose(inst),
        Class::Dot => valu::packed::choose_dot(inst),
        Class::Float64 => valu::float64::choose(inst),
        Class::Float16 => valu::float16::choose(inst),
        Class::Int16 => valu::int16::choose(inst),
        Class::Bfloat16 => valu::bfloat16::choose(inst),
        Class::Float8 => valu::float8::choose(arch, inst),
        Class::Minimum3 => valu::minimum3::choose(inst),
    }?;
    Some(if rdna { choice.keep_half() } else { choice }.select(inst))
}
