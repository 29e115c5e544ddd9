//! How many waves of a kernel can be resident: the smallest of what its registers, its LDS, barriers and wave slots allow.
//!
//! Rules and numbers are those by which LLVM works out `Occupancy` (`AMDGPUBaseInfo.cpp`, `AMDGPUSubtarget.cpp`), except
//! that whole workgroups and LDS's granules are counted: LLVM says how many waves a SIMD could hold, which a large workgroup
//! may not reach.

use rocfire_arch::{Accumulation, Unit};

/// What a kernel takes, as its code object and a launch say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// VGPRs of a lane.
    pub vgprs: u32,
    /// Accumulation registers of a lane.
    pub agprs: u32,
    /// Scalar registers of a wave, VCC and the like included.
    pub sgprs: u32,
    /// LDS of a workgroup, static and dynamic.
    pub lds_bytes: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Waves of a workgroup.
    pub waves_per_group: u32,
}

/// What keeps more waves from being resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All wave slots are taken.
    Slots,
    /// Vector registers, accumulation registers included.
    Vgprs,
    /// Scalar registers.
    Sgprs,
    /// LDS.
    Lds,
    /// Barriers: every workgroup of more than one wave needs one.
    Barriers,
}

impl Limit {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Slots => "wave slots",
            Limit::Vgprs => "vector registers",
            Limit::Sgprs => "scalar registers",
            Limit::Lds => "LDS",
            Limit::Barriers => "barriers",
        }
    }
}

/// Waves that can be resident in a [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Waves that a SIMD could hold by its registers and slots.
    pub waves_per_simd_max: u32,
    /// Workgroups of the unit; 0: it does not fit at all.
    pub groups_per_unit: u32,
    /// Waves of the unit, of whole workgroups.
    pub waves_per_unit: u32,
    /// SIMDs of the unit.
    pub simds: u32,
    /// Wave slots of a SIMD.
    pub slots_per_simd: u32,
    /// What limits it.
    pub limit: Limit,
}

impl Occupancy {
    /// Waves of a SIMD, on average.
    pub fn waves_per_simd(&self) -> f64 {
        f64::from(self.waves_per_unit) / f64::from(self.simds)
    }
}

/// Vector registers that a wave gets, in the unit's registers.
fn vector_registers(unit: &Unit, resources: &Resources) -> u32 {
    let lanes = match unit.accumulation {
        Accumulation::None => resources.vgprs,
        Accumulation::Separate => resources.vgprs.max(resources.agprs),
        // Accumulation registers start at a multiple of four.
        Accumulation::Unified if resources.agprs > 0 => resources.vgprs.next_multiple_of(4) + resources.agprs,
        Accumulation::Unified => resources.vgprs,
    };
    let width = if unit.wave32 && resources.wave_size == 64 { 2 } else { 1 };
    (lanes.max(1) * width).next_multiple_of(unit.vgpr_granule)
}

/// Waves of a SIMD by scalar registers: 800 of them in blocks, a table in LLVM (`getOccupancyWithNumSGPRs`).
fn waves_by_sgprs(unit: &Unit, sgprs: u32) -> u32 {
    match sgprs {
        _ if !unit.sgprs_limit_waves => unit.waves_per_simd,
        0..=80 => 10,
        81..=88 => 9,
        89..=100 => 8,
        _ => 7,
    }
}

/// The occupancy of a kernel.
pub fn occupancy(unit: &Unit, resources: &Resources) -> Occupancy {
    let waves = resources.waves_per_group.max(1);
    let by_vgprs = unit.vgprs / vector_registers(unit, resources);
    let by_sgprs = waves_by_sgprs(unit, resources.sgprs);
    let (mut waves_per_simd_max, mut limit) = (unit.waves_per_simd, Limit::Slots);
    for (most, what) in [(by_vgprs, Limit::Vgprs), (by_sgprs, Limit::Sgprs)] {
        if most < waves_per_simd_max {
            (waves_per_simd_max, limit) = (most, what);
        }
    }
    let mut groups_per_unit = waves_per_simd_max * unit.simds / waves;
    if resources.lds_bytes > 0 {
        let by_lds = unit.lds_bytes / resources.lds_bytes.next_multiple_of(unit.lds_granule_bytes);
        if by_lds < groups_per_unit {
            (groups_per_unit, limit) = (by_lds, Limit::Lds);
        }
    }
    if waves > 1 && unit.barriers < groups_per_unit {
        (groups_per_unit, limit) = (unit.barriers, Limit::Barriers);
    }
    Occupancy {
        waves_per_simd_max,
        groups_per_unit,
        waves_per_unit: groups_per_unit * waves,
        simds: unit.simds,
        slots_per_simd: unit.waves_per_simd,
        limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocfire_arch::Arch;

    fn unit(name: &str) -> Unit {
        Arch::parse(name).unwrap().info().unit.unwrap()
    }

    const SMALL: Resources =
        Resources { vgprs: 8, agprs: 0, sgprs: 16, lds_bytes: 0, wave_size: 64, waves_per_group: 1 };

    fn by_vgprs(name: &str, wave_size: u32, vgprs: u32) -> u32 {
        occupancy(&unit(name), &Resources { vgprs, wave_size, ..SMALL }).waves_per_simd_max
    }

    /// AMD's table for MI200 ("Register pressure in AMD CDNA2 GPUs", AMD lab notes): the most VGPRs for each occupancy.
    #[test]
    fn cdna_unified_file_as_in_amds_table() {
        for (vgprs, waves) in [(64, 8), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (256, 2), (512, 1)] {
            for name in ["gfx90a", "gfx942", "gfx950"] {
                assert_eq!(by_vgprs(name, 64, vgprs), waves, "{name}, {vgprs} VGPRs");
                let one_more = by_vgprs(name, 64, vgprs + 1);
                assert!(one_more < waves, "{name}, {} VGPRs: {one_more}", vgprs + 1);
            }
        }
    }

    /// AMD's table for GCN ("AMD GCN3 ISA optimisation guide", VGPRs and waves).
    #[test]
    fn gcn_file_as_in_amds_table() {
        let table = [(24, 10), (28, 9), (32, 8), (36, 7), (40, 6), (48, 5), (64, 4), (84, 3), (128, 2), (256, 1)];
        for (vgprs, waves) in table {
            assert_eq!(by_vgprs("gfx906", 64, vgprs), waves, "{vgprs} VGPRs");
        }
    }

    /// What clang 22 prints as `Occupancy` for kernels that use exactly so many VGPRs.
    #[test]
    fn rdna_files_as_clang_says() {
        let rows = [
            ("gfx1030", 32, [(64, 16), (72, 12), (80, 12), (96, 10), (120, 8), (128, 8), (168, 5), (192, 5), (240, 4)]),
            ("gfx1030", 64, [(32, 16), (40, 12), (48, 10), (64, 8), (72, 7), (96, 5), (120, 4), (168, 3), (256, 2)]),
            (
                "gfx1100",
                32,
                [(96, 16), (120, 12), (128, 10), (168, 9), (192, 8), (216, 7), (240, 6), (256, 5), (64, 16)],
            ),
            ("gfx1201", 64, [(48, 16), (64, 10), (72, 10), (80, 9), (96, 8), (120, 6), (128, 5), (216, 3), (256, 2)]),
            ("gfx1102", 32, [(64, 16), (72, 12), (80, 12), (96, 10), (120, 8), (168, 5), (216, 4), (240, 4), (256, 4)]),
            (
                "gfx1151",
                32,
                [(96, 16), (120, 12), (128, 10), (168, 9), (192, 8), (216, 7), (240, 6), (256, 5), (80, 16)],
            ),
        ];
        for (name, wave_size, table) in rows {
            for (vgprs, waves) in table {
                assert_eq!(by_vgprs(name, wave_size, vgprs), waves, "{name}, wave{wave_size}, {vgprs} VGPRs");
            }
        }
    }

    /// Clang 22 again: 60 + 68 registers are 128 in one file, and 68 of the larger of two.
    #[test]
    fn accumulation_registers_count_by_family() {
        let waves =
            |name, vgprs, agprs| occupancy(&unit(name), &Resources { vgprs, agprs, ..SMALL }).waves_per_simd_max;
        assert_eq!([waves("gfx90a", 32, 32), waves("gfx90a", 60, 68), waves("gfx942", 256, 256)], [8, 4, 1]);
        assert_eq!([waves("gfx908", 32, 32), waves("gfx908", 60, 68), waves("gfx908", 128, 128)], [8, 3, 2]);
        // 61 VGPRs end at 64 before the accumulation registers start: 64 + 64 = 128.
        assert_eq!(waves("gfx942", 61, 64), 4);
    }

    #[test]
    fn scalar_registers_limit_before_rdna_only() {
        let waves = |name, sgprs| occupancy(&unit(name), &Resources { sgprs, ..SMALL }).waves_per_simd_max;
        assert_eq!(
            [waves("gfx906", 80), waves("gfx906", 88), waves("gfx906", 96), waves("gfx906", 106)],
            [10, 9, 8, 7]
        );
        assert_eq!([waves("gfx942", 100), waves("gfx942", 106), waves("gfx1030", 106)], [8, 7, 16]);
    }

    /// Clang 22's `Occupancy` of kernels by LDS and workgroup size, as waves of a SIMD rounded up.
    #[test]
    fn lds_limits_whole_workgroups() {
        let rows = [
            (
                "gfx942",
                64,
                [(4096, 64, 4), (8192, 64, 2), (16384, 64, 1), (16384, 256, 4), (20000, 256, 3), (65536, 256, 1)],
            ),
            (
                "gfx950",
                64,
                [(4096, 64, 8), (8192, 64, 5), (16384, 64, 3), (32000, 256, 5), (65536, 256, 2), (90000, 1024, 4)],
            ),
            (
                "gfx1030",
                32,
                [(8192, 64, 8), (16384, 64, 4), (20000, 64, 3), (20000, 256, 12), (32768, 256, 8), (65536, 256, 4)],
            ),
            (
                "gfx1030",
                64,
                [(4096, 64, 8), (20000, 64, 2), (16384, 256, 8), (20000, 256, 6), (65536, 256, 2), (65536, 1024, 8)],
            ),
        ];
        for (name, wave_size, table) in rows {
            for (lds_bytes, block, waves) in table {
                let waves_per_group = block / wave_size;
                let resources = Resources { lds_bytes, wave_size, waves_per_group, ..SMALL };
                let occupancy = occupancy(&unit(name), &resources);
                let per_simd = occupancy.waves_per_unit.div_ceil(occupancy.simds);
                assert_eq!(per_simd, waves, "{name}, wave{wave_size}, {lds_bytes} bytes, {block} work-items");
                if waves < occupancy.slots_per_simd {
                    assert_eq!(occupancy.limit, Limit::Lds);
                }
            }
        }
    }

    /// gfx950 hands out LDS in 1280 bytes: of 32 KiB, 33 280 with that, four fit and not the five that LLVM counts.
    #[test]
    fn lds_is_counted_in_granules() {
        let resources = Resources { lds_bytes: 32768, waves_per_group: 4, ..SMALL };
        assert_eq!(occupancy(&unit("gfx950"), &resources).groups_per_unit, 4);
    }

    /// Sixteen waves in a workgroup, and five fit a SIMD: one workgroup of four waves a SIMD, not five.
    #[test]
    fn only_whole_workgroups_are_resident() {
        let resources = Resources { vgprs: 96, waves_per_group: 16, ..SMALL };
        let occupancy = occupancy(&unit("gfx942"), &resources);
        assert_eq!((occupancy.waves_per_simd_max, occupancy.groups_per_unit), (5, 1));
        assert_eq!(occupancy.waves_per_simd(), 4.0);
        assert_eq!(occupancy.limit, Limit::Vgprs);
    }

    /// Workgroups of two waves on GCN: 16 barriers let 32 waves be resident, 8 a SIMD of 10.
    #[test]
    fn barriers_limit_small_workgroups() {
        let occupancy = occupancy(&unit("gfx906"), &Resources { waves_per_group: 2, ..SMALL });
        assert_eq!((occupancy.groups_per_unit, occupancy.limit), (16, Limit::Barriers));
    }

    /// 512 registers a lane and 16 waves: four of them fit.
    #[test]
    fn what_does_not_fit_has_no_workgroups() {
        let resources = Resources { vgprs: 256, agprs: 256, waves_per_group: 16, ..SMALL };
        assert_eq!(occupancy(&unit("gfx942"), &resources).groups_per_unit, 0);
    }
}
