//! Which loads and stores of device memory are atomic ones, as far as the instruction tells.
//!
//! HIP's atomic loads and stores of device scope are ordinary instructions whose bits make them pass the caches that
//! workgroups do not share (LLVM's "User Guide for AMDGPU Backend", section "Memory Model"):
//!
//! | families | load | store |
//! | --- | --- | --- |
//! | GCN 5, CDNA 1 and 2 | `glc`, without `slc` (which is non-temporal) | no bit: as any other |
//! | CDNA 3 and 4 | `sc1` | `sc1` |
//! | RDNA 1 and 2 | `glc dlc` | no bit |
//! | RDNA 3 | `glc` | no bit |
//! | RDNA 4 | scope of the device or the system | the same |
//!
//! Volatile ones have the same bits and are taken for atomics. In LDS nothing tells them apart.

use rocfire_arch::Family;
use rocfire_isa::Inst;

/// RDNA 4's `scope` from which on all workgroups are in it.
const SCOPE_DEVICE: u8 = 2;

/// Whether a load sees what other workgroups have stored meanwhile.
pub(super) fn is_coherent_load(inst: &Inst, family: Family) -> bool {
    let mods = &inst.mods;
    match family {
        Family::Gcn5 | Family::Cdna1 | Family::Cdna2 => mods.sc0 && !mods.nt,
        Family::Cdna3 | Family::Cdna4 => mods.sc1,
        Family::Rdna1 | Family::Rdna2 => mods.sc0 && mods.dlc,
        Family::Rdna3 | Family::Rdna35 => mods.sc0,
        Family::Rdna4 | Family::Gfx125 => mods.scope >= SCOPE_DEVICE,
        Family::Ampere | Family::Ada | Family::Hopper => unreachable!("the emulator has no such device"),
    }
}

/// Whether a store is seen by other workgroups at once; `None` where the instruction does not say.
pub(super) fn is_coherent_store(inst: &Inst, family: Family) -> Option<bool> {
    match family {
        Family::Cdna3 | Family::Cdna4 => Some(inst.mods.sc1),
        Family::Rdna4 | Family::Gfx125 => Some(inst.mods.scope >= SCOPE_DEVICE),
        Family::Gcn5
        | Family::Cdna1
        | Family::Cdna2
        | Family::Rdna1
        | Family::Rdna2
        | Family::Rdna3
        | Family::Rdna35 => None,
        Family::Ampere | Family::Ada | Family::Hopper => unreachable!("the emulator has no such device"),
    }
}
