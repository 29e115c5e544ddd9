//! How the part of a GPU that runs a workgroup is built: what occupancy and cost bounds are worked out from.
//!
//! A [`Unit`] is a compute unit on GCN and CDNA, and a workgroup processor, which is two compute units, on RDNA: what a
//! workgroup's waves are spread over, with the LDS that they share. The emulator's cost model reads it; nothing here is
//! measured.
//!
//! Sources: LLVM's `AMDGPUBaseInfo.cpp` and clang 22's occupancy remarks (waves, registers and their granules, barriers),
//! LLVM's AMDGPU usage guide (LDS granule), ROCm's GPU specifications and AMD's CDNA and RDNA white papers (SIMDs, LDS,
//! caches), ROCm Compute Profiler's performance model (cache bandwidth), HipKittens' measurements (LDS banks of gfx950).

use crate::info::Family;

/// Where accumulation registers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// There are none.
    None,
    /// In a file of their own, as large as that of the VGPRs: the larger of the two counts.
    Separate,
    /// In one file with the VGPRs, behind them: the sum counts.
    Unified,
}

/// See the module. "Of a SIMD" is one SIMD of the unit, "in a clock" one cycle of the shader clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Compute units in it, as cards count them.
    pub compute_units: u32,
    /// SIMDs.
    pub simds: u32,
    /// Lanes that a SIMD executes in a clock.
    pub simd_lanes: u32,
    /// Clocks between two turns of a SIMD to issue: an instruction of each kind, from different waves, at each turn.
    pub issue_clocks: u32,
    /// Wave slots of a SIMD.
    pub waves_per_simd: u32,
    /// VGPRs of a SIMD, each as wide as a wave32 where [`Unit::wave32`] (a wave64's takes two), else as a wave64.
    pub vgprs: u32,
    /// In what multiples of those a wave gets them.
    pub vgpr_granule: u32,
    /// Whether there are wave32s.
    pub wave32: bool,
    /// Accumulation registers.
    pub accumulation: Accumulation,
    /// Whether waves share a file of scalar registers, so that many of them cost occupancy.
    pub sgprs_limit_waves: bool,
    /// LDS of the unit; a workgroup can have [`ArchInfo::lds_bytes`](crate::ArchInfo::lds_bytes).
    pub lds_bytes: u32,
    /// In what multiples a workgroup gets LDS.
    pub lds_granule_bytes: u32,
    /// LDS banks, each 4 bytes wide, that one access is spread over.
    pub lds_banks: u32,
    /// LDS accesses that go on at the same time: one for each compute unit.
    pub lds_ports: u32,
    /// Workgroups of more than one wave at a time: each needs a barrier.
    pub barriers: u32,
    /// Vector L1 of a compute unit.
    pub l1_bytes: u32,
    /// Its line, one of which is looked up in a clock.
    pub l1_line_bytes: u32,
    /// What it gives or takes in a clock.
    pub l1_bytes_per_clock: u32,
}

const KIB: u32 = 1024;

/// The unit of a family; `vgprs_and_a_half` for the chips whose register files are half as large again.
pub(crate) const fn unit(family: Family, vgprs_and_a_half: bool) -> Option<Unit> {
    let gcn = Unit {
        compute_units: 1,
        simds: 4,
        simd_lanes: 16,
        issue_clocks: 4,
        waves_per_simd: 10,
        vgprs: 256,
        vgpr_granule: 4,
        wave32: false,
        accumulation: Accumulation::None,
        sgprs_limit_waves: true,
        lds_bytes: 64 * KIB,
        lds_granule_bytes: 512,
        lds_banks: 32,
        lds_ports: 1,
        barriers: 16,
        l1_bytes: 16 * KIB,
        l1_line_bytes: 64,
        l1_bytes_per_clock: 64,
    };
    let cdna2 = Unit { waves_per_simd: 8, vgprs: 512, vgpr_granule: 8, accumulation: Accumulation::Unified, ..gcn };
    let cdna3 = Unit { l1_bytes: 32 * KIB, l1_line_bytes: 128, l1_bytes_per_clock: 128, ..cdna2 };
    let rdna = Unit {
        compute_units: 2,
        simds: 4,
        simd_lanes: 32,
        issue_clocks: 1,
        waves_per_simd: 16,
        vgprs: if vgprs_and_a_half { 1536 } else { 1024 },
        vgpr_granule: if vgprs_and_a_half { 24 } else { 16 },
        wave32: true,
        accumulation: Accumulation::None,
        sgprs_limit_waves: false,
        lds_bytes: 128 * KIB,
        lds_granule_bytes: 512,
        lds_banks: 32,
        lds_ports: 2,
        barriers: 32,
        l1_bytes: 16 * KIB,
        l1_line_bytes: 128,
        l1_bytes_per_clock: 128,
    };
    match family {
        Family::Gcn5 => Some(gcn),
        Family::Cdna1 => Some(Unit { accumulation: Accumulation::Separate, ..gcn }),
        Family::Cdna2 => Some(cdna2),
        Family::Cdna3 => Some(cdna3),
        Family::Cdna4 => Some(Unit { lds_bytes: 160 * KIB, lds_granule_bytes: 1280, lds_banks: 64, ..cdna3 }),
        Family::Rdna1 => Some(Unit { waves_per_simd: 20, vgpr_granule: 8, ..rdna }),
        Family::Rdna2 => Some(rdna),
        Family::Rdna3 | Family::Rdna35 | Family::Rdna4 => Some(Unit { l1_bytes: 32 * KIB, ..rdna }),
        // Its emulation does not exist, and NVIDIA's chips are built otherwise.
        Family::Gfx125 | Family::Ampere | Family::Ada | Family::Hopper => None,
    }
}
