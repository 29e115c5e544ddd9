//! Vector memory instructions: GLOBAL, FLAT, SCRATCH, MUBUF and DS.
//!
//! What kind of memory an instruction reaches is a [`Space`](space::Space), which turns the wave's address registers into
//! host pointers that have been checked; what it does there is in [`load`], [`store`] and [`atomic`]. Lanes act in
//! ascending order, so that where several store to one address the last one wins, always.
//!
//! The instructions of a hot loop (device memory and LDS by 32 bits and more) are compiled for every
//! [`Level`](crate::step::Level); the others have one body.

use rocfire_arch::{Arch, Family};
use rocfire_isa::{Class, Format, Inst};

use self::space::{Buffer, Device, Flat, Lds, Scratch};
use crate::step::{Constant, RangeRule, Role, Selected};

mod atomic;
mod exchange;
mod interleave;
mod load;
mod pair;
mod space;
mod store;
mod to_lds;
mod transpose;

pub(crate) use atomic::{Atomic, scalar as scalar_atomic};
pub(crate) use exchange::lane_at;
pub(crate) use space::SCRATCH_DESCRIPTOR;

/// As [`levels!`](crate::step::levels), with a name for the [`Cpu`](crate::numeric::Cpu) of each level.
macro_rules! by_cpu {
    ($cpu:ident => $body:expr) => {{
        fn baseline(w: &mut crate::wave::Wave, e: &mut crate::env::Env, s: &crate::step::MicroOp) -> crate::step::Flow {
            type $cpu = crate::numeric::Baseline;
            ($body)(w, e, s)
        }
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            fn avx2(w: &mut crate::wave::Wave, e: &mut crate::env::Env, s: &crate::step::MicroOp) -> crate::step::Flow {
                type $cpu = crate::numeric::Avx2;
                ($body)(w, e, s)
            }
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            fn avx512(
                w: &mut crate::wave::Wave,
                e: &mut crate::env::Env,
                s: &crate::step::MicroOp,
            ) -> crate::step::Flow {
                type $cpu = crate::numeric::Avx2;
                ($body)(w, e, s)
            }
            crate::step::Handlers { baseline, avx2, avx512 }
        }
        #[cfg(not(target_arch = "x86_64"))]
        crate::step::Handlers::same(baseline)
    }};
}
pub(crate) use by_cpu;

/// The handler of a memory instruction.
pub(crate) fn select(class: Class, inst: &Inst) -> Option<Selected> {
    let op = inst.op;
    let handlers = match (class, inst.format) {
        (_, Format::Ds) if inst.mods.gds => None,
        (_, Format::Mubuf) if inst.mods.lds => to_lds::buffer(op),
        (Class::Load, Format::Global) => load::global(op),
        (Class::Load, Format::Flat) => load::rare::<Flat>(op),
        (Class::Load, Format::Scratch) => load::rare::<Scratch>(op),
        (Class::Load, Format::Mubuf) => load::rare::<Buffer>(op),
        (Class::Load, Format::Ds) => load::lds(op),
        (Class::Store, Format::Global) => store::global(op),
        (Class::Store, Format::Flat) => store::rare::<Flat>(op),
        (Class::Store, Format::Scratch) => store::rare::<Scratch>(op),
        (Class::Store, Format::Mubuf) => store::rare::<Buffer>(op),
        (Class::Store, Format::Ds) => store::lds(op),
        (Class::LoadToLds, Format::Global) => to_lds::global(op),
        (Class::LoadToLds, Format::Scratch) => to_lds::scratch(op),
        (Class::Atomic, Format::Global) => atomic::select::<Device>(op),
        (Class::Atomic, Format::Flat) => atomic::select::<Flat>(op),
        (Class::Atomic, Format::Mubuf) => atomic::select::<Buffer>(op),
        (Class::Atomic, Format::Ds) => atomic::select::<Lds>(op),
        (Class::Pair, _) => pair::select(op),
        (Class::Exchange, _) => exchange::select(op),
        (Class::Transpose, _) => transpose::select(op),
        _ => None,
    }?;
    let block = Role::Block(Constant::B32);
    let scalar = Role::Scalar(Constant::B32);
    let roles = match inst.format {
        Format::Ds => [block; 4],
        _ => [block, block, scalar, scalar],
    };
    Some(Selected::lanes(handlers).with_roles(roles).with_imm(i64::from(inst.mods.offset)))
}

/// How the architecture's resource descriptors check ranges.
pub(crate) fn range_rule(arch: Arch) -> RangeRule {
    use Family::{Cdna1, Cdna2, Cdna3, Cdna4, Gcn5};
    match arch.info().family {
        Gcn5 | Cdna1 | Cdna2 | Cdna3 | Cdna4 => RangeRule::Index,
        _ => RangeRule::Descriptor,
    }
}

/// Whether the instruction reaches device memory, and so wants a window of its own.
pub(crate) fn has_site(inst: &Inst) -> bool {
    matches!(inst.format, Format::Smem | Format::Global | Format::Flat | Format::Mubuf)
}

/// Whether the result of running workgroups in another order could differ because of this instruction: an atomic that
/// returns what it found, or rounds.
pub(crate) fn is_order_dependent(inst: &Inst) -> bool {
    let device = matches!(inst.format, Format::Global | Format::Flat | Format::Mubuf);
    match inst.op.facts().class {
        Class::ScalarAtomic => inst.dst[0].is_some(),
        Class::Atomic => device && (inst.dst[0].is_some() || inst.mods.sc0 || inst.op.facts().rounds),
        _ => false,
    }
}
