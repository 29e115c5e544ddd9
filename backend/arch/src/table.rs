//! The rows. Append only: a row's index is part of a device's id.
//!
//! Sources: LLVM's AMDGPU usage guide (processors, features, generic targets, `EF_AMDGPU_MACH`; the machine numbers
//! were read off clang 22's output for each name), AMD's instruction-set guides (wave size, LDS, registers), AMD's and
//! NVIDIA's data sheets (cards).

use crate::info::{ArchInfo, Card, Evidence, Family, Fp8, Matrix, Vendor};
use crate::unit::unit;

const KIB: u32 = 1024;

/// What the architectures of one family share.
const fn amd(name: &'static str, family: Family, elf_machine: u8) -> ArchInfo {
    let (wave_size, lds_bytes, vgprs, matrix, fp8, generic_target) = match family {
        Family::Gcn5 => (64, 64 * KIB, 256, Matrix::None, Fp8::None, Some("gfx9-generic")),
        Family::Cdna1 => (64, 64 * KIB, 512, Matrix::Mfma(1), Fp8::None, None),
        Family::Cdna2 => (64, 64 * KIB, 512, Matrix::Mfma(2), Fp8::None, None),
        Family::Cdna3 => (64, 64 * KIB, 512, Matrix::Mfma(3), Fp8::Fnuz, Some("gfx9-4-generic")),
        Family::Cdna4 => (64, 160 * KIB, 512, Matrix::Mfma(4), Fp8::Ocp, Some("gfx9-4-generic")),
        Family::Rdna1 => (32, 64 * KIB, 256, Matrix::None, Fp8::None, Some("gfx10-1-generic")),
        Family::Rdna2 => (32, 64 * KIB, 256, Matrix::None, Fp8::None, Some("gfx10-3-generic")),
        Family::Rdna3 | Family::Rdna35 => (32, 64 * KIB, 256, Matrix::Wmma11, Fp8::None, Some("gfx11-generic")),
        Family::Rdna4 => (32, 64 * KIB, 256, Matrix::Wmma12, Fp8::Ocp, Some("gfx12-generic")),
        Family::Gfx125 => (32, 320 * KIB, 1024, Matrix::Wmma125, Fp8::Ocp, None),
        Family::Ampere | Family::Ada | Family::Hopper => panic!("not AMD's"),
    };
    ArchInfo {
        name,
        vendor: Vendor::Amd,
        family,
        wave_size,
        lds_bytes,
        vgprs,
        matrix,
        fp8,
        packed_f32: matches!(family, Family::Cdna2 | Family::Cdna3 | Family::Cdna4 | Family::Gfx125),
        sramecc: matches!(
            family,
            Family::Gcn5 | Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4 | Family::Gfx125
        ),
        xnack: matches!(
            family,
            Family::Gcn5
                | Family::Cdna1
                | Family::Cdna2
                | Family::Cdna3
                | Family::Cdna4
                | Family::Rdna1
                | Family::Gfx125
        ),
        generic_target,
        elf_machine: Some(elf_machine),
        card: None,
        unit: unit(family, false),
        evidence: Evidence::Unverified,
    }
}

const fn nvidia(name: &'static str, family: Family, lds_kib: u32, fp8: Fp8) -> ArchInfo {
    ArchInfo {
        name,
        vendor: Vendor::Nvidia,
        family,
        wave_size: 32,
        lds_bytes: lds_kib * KIB,
        vgprs: 255,
        matrix: Matrix::MmaSync,
        fp8,
        packed_f32: false,
        sramecc: false,
        xnack: false,
        generic_target: None,
        elf_machine: None,
        card: None,
        unit: None,
        evidence: Evidence::Unverified,
    }
}

/// Figures of a card's data sheet: compute units, f32 and f16 TFLOP/s, GB/s, MHz, MiB of L2 and of the cache behind it.
type Sheet = (u32, f64, f64, f64, f64, u64, u64);

impl ArchInfo {
    const fn on(self, name: &'static str, sheet: Sheet) -> Self {
        let (compute_units, f32_tflops, f16_tflops, memory_gbs, clock_mhz, l2_mib, last_level_mib) = sheet;
        let (l2_bytes, last_level_bytes) = (l2_mib << 20, last_level_mib << 20);
        let card =
            Card { name, compute_units, f32_tflops, f16_tflops, memory_gbs, clock_mhz, l2_bytes, last_level_bytes };
        ArchInfo { card: Some(card), ..self }
    }

    /// With register files half as large again (LLVM's `Feature1_5xVGPRs`).
    const fn with_more_vgprs(self) -> Self {
        ArchInfo { unit: unit(self.family, true), ..self }
    }

    const fn emulated(self) -> Self {
        ArchInfo { evidence: Evidence::Emulated, ..self }
    }
}

pub(crate) const ROWS: &[ArchInfo] = &[
    amd("gfx906", Family::Gcn5, 0x2f).on("Instinct MI50", (60, 13.3, 26.5, 1024.0, 1725.0, 4, 0)).emulated(),
    amd("gfx908", Family::Cdna1, 0x30).on("Instinct MI100", (120, 23.1, 184.6, 1228.8, 1502.0, 8, 0)).emulated(),
    amd("gfx90a", Family::Cdna2, 0x3f)
        .on("Instinct MI250X, one die", (110, 23.95, 191.5, 1638.4, 1700.0, 8, 0))
        .emulated(),
    amd("gfx942", Family::Cdna3, 0x4c).on("Instinct MI300X", (304, 163.4, 1307.4, 5300.0, 2100.0, 32, 256)).emulated(),
    amd("gfx950", Family::Cdna4, 0x4f).on("Instinct MI355X", (256, 157.3, 2516.6, 8000.0, 2400.0, 32, 256)).emulated(),
    amd("gfx1010", Family::Rdna1, 0x33).on("Radeon RX 5700 XT", (40, 9.75, 19.5, 448.0, 1905.0, 4, 0)),
    amd("gfx1011", Family::Rdna1, 0x34),
    amd("gfx1012", Family::Rdna1, 0x35),
    amd("gfx1030", Family::Rdna2, 0x36).on("Radeon RX 6900 XT", (80, 23.04, 46.08, 512.0, 2250.0, 4, 128)).emulated(),
    amd("gfx1031", Family::Rdna2, 0x37),
    amd("gfx1032", Family::Rdna2, 0x38),
    amd("gfx1033", Family::Rdna2, 0x39),
    amd("gfx1034", Family::Rdna2, 0x3e),
    amd("gfx1035", Family::Rdna2, 0x3d),
    amd("gfx1036", Family::Rdna2, 0x45),
    amd("gfx1100", Family::Rdna3, 0x41)
        .with_more_vgprs()
        .on("Radeon RX 7900 XTX", (96, 61.4, 122.8, 960.0, 2498.0, 6, 96))
        .emulated(),
    amd("gfx1101", Family::Rdna3, 0x46).with_more_vgprs(),
    amd("gfx1102", Family::Rdna3, 0x47),
    amd("gfx1103", Family::Rdna3, 0x44),
    amd("gfx1150", Family::Rdna35, 0x43),
    amd("gfx1151", Family::Rdna35, 0x4a).with_more_vgprs(),
    amd("gfx1152", Family::Rdna35, 0x55),
    amd("gfx1153", Family::Rdna35, 0x58),
    amd("gfx1200", Family::Rdna4, 0x48).with_more_vgprs(),
    amd("gfx1201", Family::Rdna4, 0x4e)
        .with_more_vgprs()
        .on("Radeon RX 9070 XT", (64, 48.7, 195.0, 640.0, 2970.0, 8, 64))
        .emulated(),
    amd("gfx1250", Family::Gfx125, 0x49),
    nvidia("sm_80", Family::Ampere, 163, Fp8::None),
    nvidia("sm_89", Family::Ada, 99, Fp8::Ocp),
    nvidia("sm_90", Family::Hopper, 227, Fp8::Ocp),
];

/// Names that AMD's tools once had, with what stands in their place.
pub(crate) const REMOVED: &[(&str, &str)] = &[("gfx940", "gfx942"), ("gfx941", "gfx942")];
