//! The columns that costs are worked out from, against what must follow from them.

use rocfire_arch::{Accumulation, Arch, ArchInfo, Family, Vendor};

fn info(name: &str) -> &'static ArchInfo {
    Arch::parse(name).unwrap().info()
}

/// Peak f32 of a data sheet is CUs × lanes × 2 (fused multiply-add) × clock, twice that where f32 is packed or dual-issued.
#[test]
fn clocks_and_units_give_the_data_sheets_peaks() {
    for arch in Arch::all() {
        let info = arch.info();
        let (Some(card), Some(unit)) = (info.card, info.unit) else { continue };
        let lanes = unit.simds * unit.simd_lanes / unit.compute_units;
        let doubled = match info.family {
            Family::Cdna3 | Family::Cdna4 | Family::Rdna3 | Family::Rdna35 | Family::Rdna4 => 2.0,
            _ => 1.0,
        };
        let tflops = f64::from(card.compute_units * lanes) * 2.0 * doubled * card.clock_mhz * 1e-6;
        let off = (tflops / card.f32_tflops - 1.0).abs();
        assert!(off < 0.005, "{arch}: {tflops} TFLOP/s from clock and lanes, {} on the sheet", card.f32_tflops);
    }
}

#[test]
fn every_amd_family_with_an_emulation_has_a_unit() {
    for arch in Arch::all() {
        let info = arch.info();
        let wanted = info.vendor == Vendor::Amd && info.family != Family::Gfx125;
        assert_eq!(info.unit.is_some(), wanted, "{arch}");
        if let Some(unit) = info.unit {
            assert!(unit.lds_bytes >= info.lds_bytes, "{arch}: a workgroup cannot have more LDS than the unit");
            assert_eq!(unit.vgprs % unit.vgpr_granule, 0, "{arch}");
            assert_eq!(unit.wave32, info.wave_size == 32, "{arch}");
        }
    }
}

/// Register files by LLVM's `getTotalNumVGPRs`, 1.5 times as large on some chips of a family.
#[test]
fn register_files_are_those_of_llvm() {
    let vgprs = |name| info(name).unit.unwrap().vgprs;
    assert_eq!([vgprs("gfx906"), vgprs("gfx90a"), vgprs("gfx942"), vgprs("gfx950")], [256, 512, 512, 512]);
    assert_eq!([vgprs("gfx1030"), vgprs("gfx1100"), vgprs("gfx1102"), vgprs("gfx1151")], [1024, 1536, 1024, 1536]);
    assert_eq!([vgprs("gfx1150"), vgprs("gfx1200"), vgprs("gfx1201")], [1024, 1536, 1536]);
    assert_eq!(info("gfx908").unit.unwrap().accumulation, Accumulation::Separate);
    assert_eq!(info("gfx90a").unit.unwrap().accumulation, Accumulation::Unified);
}

/// 5300 GB/s at 2100 MHz.
#[test]
fn memory_bytes_per_clock() {
    let card = info("gfx942").card.unwrap();
    assert!((card.memory_bytes_per_clock() - 2523.8).abs() < 0.1);
}
