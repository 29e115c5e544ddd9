//! What is recorded of an architecture.

use crate::unit::Unit;

/// Who makes it, which says which drivers can run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// AMD: the `hip` and the `emulated` driver.
    Amd,
    /// NVIDIA: the `cuda` driver.
    Nvidia,
}

/// Instruction-set family: the unit in which decoders, emulators and compilers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// GCN 5.1 (Radeon VII, MI50, MI60).
    Gcn5,
    /// CDNA 1 (MI100).
    Cdna1,
    /// CDNA 2 (MI200 series).
    Cdna2,
    /// CDNA 3 (MI300 series).
    Cdna3,
    /// CDNA 4 (MI350 series).
    Cdna4,
    /// RDNA 1 (RX 5000).
    Rdna1,
    /// RDNA 2 (RX 6000).
    Rdna2,
    /// RDNA 3 (RX 7000).
    Rdna3,
    /// RDNA 3.5 (Ryzen AI).
    Rdna35,
    /// RDNA 4 (RX 9000).
    Rdna4,
    /// GFX12.5, AMD's data-centre line after CDNA 4.
    Gfx125,
    /// NVIDIA Ampere.
    Ampere,
    /// NVIDIA Ada.
    Ada,
    /// NVIDIA Hopper.
    Hopper,
}

impl Family {
    /// Whether it is of AMD's RDNA line: waves of 32 or 64 lanes, 16-bit results that keep the rest of their register.
    pub const fn is_rdna(self) -> bool {
        match self {
            Family::Rdna1 | Family::Rdna2 | Family::Rdna3 | Family::Rdna35 | Family::Rdna4 | Family::Gfx125 => true,
            Family::Gcn5
            | Family::Cdna1
            | Family::Cdna2
            | Family::Cdna3
            | Family::Cdna4
            | Family::Ampere
            | Family::Ada
            | Family::Hopper => false,
        }
    }
}

/// The matrix unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// None: matrix products run on the vector units.
    None,
    /// Matrix cores of the CDNA line; the number is the CDNA generation (1 gfx908 … 4 gfx950).
    Mfma(u8),
    /// WMMA as on gfx11: operands doubled over the two halves of a wave.
    Wmma11,
    /// WMMA as on gfx12: operands spread over the wave once.
    Wmma12,
    /// WMMA as on gfx1250, wave32 only, its own shapes.
    Wmma125,
    /// NVIDIA's `mma.sync`.
    MmaSync,
}

/// Which 8-bit floats the hardware converts and multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fp8 {
    /// None.
    None,
    /// AMD's own: no infinities, one NaN at 0x80, exponent bias one larger than OCP's.
    Fnuz,
    /// The Open Compute Project's E4M3 and E5M2.
    Ocp,
}

/// How rocfire knows that its kernels are right on an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Every operator case passes on our emulator: CI runs all on the default architecture and a share on each other.
    Emulated,
    /// Kernels compile for it; nothing has executed them.
    Unverified,
}

/// A card with this architecture, for rooflines. Figures are the vendor's data sheet, at peak clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    /// Product name.
    pub name: &'static str,
    /// Compute units (of one die where a card has two devices).
    pub compute_units: u32,
    /// Vector f32, TFLOP/s.
    pub f32_tflops: f64,
    /// Dense f16 on the fastest unit, TFLOP/s.
    pub f16_tflops: f64,
    /// Memory, GB/s (10⁹ bytes).
    pub memory_gbs: f64,
    /// Shader clock at which the peaks above are reached, MHz.
    pub clock_mhz: f64,
    /// L2, all of it.
    pub l2_bytes: u64,
    /// Cache between L2 and memory (Infinity Cache), 0 for none.
    pub last_level_bytes: u64,
}

impl Card {
    /// Bytes that memory delivers in one shader clock.
    pub fn memory_bytes_per_clock(&self) -> f64 {
        self.memory_gbs * 1e3 / self.clock_mhz
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArchInfo {
    /// AMD's or NVIDIA's name: `gfx942`, `sm_90`.
    pub name: &'static str,
    /// Who makes it.
    pub vendor: Vendor,
    /// Instruction-set family.
    pub family: Family,
    /// Lanes in the waves that our kernels are compiled for.
    pub wave_size: u32,
    /// LDS (shared memory) that one workgroup can have, bytes.
    pub lds_bytes: u32,
    /// 32-bit vector registers a lane can address, accumulation registers included.
    pub vgprs: u32,
    /// Matrix unit.
    pub matrix: Matrix,
    /// 8-bit floats.
    pub fp8: Fp8,
    /// Whether f32 operations come in packed pairs (`v_pk_fma_f32`).
    pub packed_f32: bool,
    /// Whether a target name may carry `sramecc`.
    pub sramecc: bool,
    /// Whether a target name may carry `xnack`.
    pub xnack: bool,
    /// LLVM's generic target that runs on it, tried when a compiler does not know the name.
    pub generic_target: Option<&'static str>,
    /// `EF_AMDGPU_MACH`, the low byte of an ELF code object's flags; `None` for NVIDIA.
    pub elf_machine: Option<u8>,
    /// A card that has it.
    pub card: Option<Card>,
    /// How what runs a workgroup is built; `None` where nothing is modelled.
    pub unit: Option<Unit>,
    /// What shows that our kernels are right on it.
    pub evidence: Evidence,
}

impl ArchInfo {
    /// The macros that device code sees, name and value; the only way an architecture's facts reach a kernel.
    pub fn defines(&self) -> Vec<(&'static str, String)> {
        let (matrix, generation) = match self.matrix {
            Matrix::None => ("ARCH_MATRIX_NONE", 0),
            Matrix::Mfma(generation) => ("ARCH_MATRIX_MFMA", generation),
            Matrix::Wmma11 => ("ARCH_MATRIX_WMMA11", 0),
            Matrix::Wmma12 => ("ARCH_MATRIX_WMMA12", 0),
            Matrix::Wmma125 => ("ARCH_MATRIX_WMMA125", 0),
            Matrix::MmaSync => ("ARCH_MATRIX_MMA_SYNC", 0),
        };
        let fp8 = match self.fp8 {
            Fp8::None => "ARCH_FP8_NONE",
            Fp8::Fnuz => "ARCH_FP8_FNUZ",
            Fp8::Ocp => "ARCH_FP8_OCP",
        };
        let mut defines: Vec<(&'static str, String)> = [
            "ARCH_MATRIX_NONE",
            "ARCH_MATRIX_MFMA",
            "ARCH_MATRIX_WMMA11",
            "ARCH_MATRIX_WMMA12",
            "ARCH_MATRIX_WMMA125",
            "ARCH_MATRIX_MMA_SYNC",
            "ARCH_FP8_NONE",
            "ARCH_FP8_FNUZ",
            "ARCH_FP8_OCP",
        ]
        .into_iter()
        .enumerate()
        .map(|(value, name)| (name, value.to_string()))
        .collect();
        defines.push(("ARCH_WAVE_SIZE", self.wave_size.to_string()));
        defines.push(("ARCH_LDS_BYTES", self.lds_bytes.to_string()));
        defines.push(("ARCH_MATRIX", matrix.to_string()));
        defines.push(("ARCH_MFMA_GENERATION", generation.to_string()));
        defines.push(("ARCH_FP8", fp8.to_string()));
        defines.push(("ARCH_PACKED_F32", u8::from(self.packed_f32).to_string()));
        defines.push(("ARCH_AMD", u8::from(self.vendor == Vendor::Amd).to_string()));
        defines
    }
}
