//! The clocks for which an instruction occupies the pipe that executes it, memory's own costs left out.
//!
//! On GCN and CDNA a SIMD of 16 lanes takes four clocks for a wave; on RDNA one of 32 lanes takes one for a wave32 and two
//! for a wave64. Slower classes take a multiple, which differs by family: `MODEL.md` has the table.

use rocfire_arch::{ArchInfo, Family, Unit};
use rocfire_isa::{FloatKind, Inst, Op, Speed};

use crate::counters::Class;

use super::bound::PipeClocks;
use super::matrix::{self, MatrixCost};

/// What executes instructions beside one another. A SIMD issues at most one instruction to each in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pipe {
    /// The matrix unit of a SIMD.
    Matrix,
    /// The vector lanes of a SIMD: vector instructions, and matrix ones outside their shadow.
    Valu,
    /// RDNA's unit for transcendental functions. On GCN and CDNA they are executed by the vector lanes.
    Transcendental,
    /// The LDS of a compute unit.
    Lds,
    /// Address and cache pipeline of a compute unit: loads and stores of device memory and scratch.
    Vmem,
    /// Scalar instructions and scalar loads of a SIMD.
    Scalar,
    /// Branches of a SIMD.
    Branch,
    /// Waves' own turns: a wave issues one instruction in a turn, so few resident waves cannot fill the pipes.
    Issue,
}

impl Pipe {
    /// All of them.
    pub const ALL: [Pipe; 8] = [
        Pipe::Matrix,
        Pipe::Valu,
        Pipe::Transcendental,
        Pipe::Lds,
        Pipe::Vmem,
        Pipe::Scalar,
        Pipe::Branch,
        Pipe::Issue,
    ];

    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Pipe::Matrix => "matrix",
            Pipe::Valu => "VALU",
            Pipe::Transcendental => "transcendental",
            Pipe::Lds => "LDS",
            Pipe::Vmem => "VMEM",
            Pipe::Scalar => "scalar",
            Pipe::Branch => "branch",
            Pipe::Issue => "issue",
        }
    }

    /// Six letters at most.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Pipe::Transcendental => "trans",
            Pipe::Matrix | Pipe::Valu | Pipe::Lds | Pipe::Vmem | Pipe::Scalar | Pipe::Branch | Pipe::Issue => {
                self.name()
            }
        }
    }

    /// Its part of some clocks; of scalar instructions, branches and waves' turns, their number.
    pub fn clocks_in(self, clocks: &PipeClocks) -> u64 {
        match self {
            Pipe::Matrix => clocks.matrix,
            Pipe::Valu => clocks.valu,
            Pipe::Transcendental => clocks.transcendental,
            Pipe::Lds => clocks.lds,
            Pipe::Vmem => clocks.vmem,
            Pipe::Scalar => clocks.scalar,
            Pipe::Branch => clocks.branch,
            Pipe::Issue => clocks.turns,
        }
    }
}

/// The cost of an instruction that does not depend on addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Clocks of the vector lanes; of a matrix instruction those outside its shadow.
    pub(crate) valu: u32,
    /// Clocks of RDNA's transcendental unit.
    pub(crate) transcendental: u32,
    /// A matrix instruction.
    pub(crate) matrix: Option<MatrixCost>,
    /// Whether it goes to the scalar pipe, which takes one in a turn.
    pub(crate) scalar: bool,
    /// Whether it is a branch.
    pub(crate) branch: bool,
    /// Floating-point operations of a lane, as the instruction's row counts them.
    pub(crate) float_operations: u32,
    /// Their precision.
    pub(crate) float_kind: FloatKind,
    /// Whether it is dropped before it issues to any pipe (`s_nop`, waits): takes a turn of its wave only.
    pub(crate) internal: bool,
}

/// In how many times a full-rate instruction's clocks one of this speed is done.
fn slowness(family: Family, speed: Speed) -> u32 {
    let gcn = matches!(family, Family::Gcn5 | Family::Cdna1);
    let cdna = matches!(family, Family::Cdna2 | Family::Cdna3 | Family::Cdna4);
    match speed {
        Speed::Full => 1,
        Speed::IntMul if cdna => 1,
        Speed::IntMul => 4,
        Speed::Convert if gcn || cdna => 4,
        Speed::Convert => 1,
        // Said to be twice as fast on CDNA 4; the smaller cost is the safe one in a lower bound.
        Speed::Transcendental if family == Family::Cdna4 => 2,
        Speed::Transcendental => 4,
        Speed::Int64 if cdna => 1,
        Speed::Int64 => 2,
        // From the data sheets' f64 peaks: half of f32 on GCN, equal on CDNA 2 and later; on RDNA a sixteenth of what the
        // lanes do in f32 without dual issue.
        Speed::Double if gcn => 2,
        Speed::Double if cdna => 1,
        Speed::Double => 16,
        Speed::DoubleTranscendental if gcn => 8,
        Speed::DoubleTranscendental if cdna => 4,
        Speed::DoubleTranscendental => 16,
    }
}

/// The cost of an instruction in a wave of `wave_size` lanes.
pub(crate) fn cost(info: &ArchInfo, unit: &Unit, inst: &Inst, class: Class, wave_size: u32) -> Cost {
    let nothing = Cost {
        valu: 0,
        transcendental: 0,
        matrix: None,
        scalar: false,
        branch: false,
        float_operations: 0,
        float_kind: FloatKind::F32,
        internal: false,
    };
    match class {
        // RDNA's matrix instructions stand among the vector ones.
        Class::Valu | Class::Mfma => match matrix::cost(info.family, info.matrix, inst) {
            Some(matrix) => Cost { valu: matrix.clocks - matrix.shadow, matrix: Some(matrix), ..nothing },
            None => vector(info.family, unit, inst, wave_size, nothing),
        },
        Class::Salu | Class::Smem => Cost { scalar: true, ..nothing },
        Class::Branch => Cost { branch: true, ..nothing },
        Class::Barrier | Class::NoEffect => Cost { internal: true, ..nothing },
        // What they cost follows from their addresses.
        Class::VmemRead | Class::VmemWrite | Class::VmemAtomic | Class::Scratch | Class::Lds => nothing,
    }
}

fn vector(family: Family, unit: &Unit, inst: &Inst, wave_size: u32, nothing: Cost) -> Cost {
    let facts = inst.op.facts();
    let full = wave_size.div_ceil(unit.simd_lanes);
    let cost = Cost { float_operations: facts.float_operations.into(), float_kind: facts.float_kind, ..nothing };
    if matches!(inst.op, Op::VNop | Op::VReadfirstlaneB32) {
        return Cost { valu: full, ..cost };
    }
    let clocks = full * slowness(family, facts.speed);
    match facts.speed {
        // A unit of its own: the lanes are free again after the turn in which it issues.
        Speed::Transcendental if unit.wave32 => Cost { valu: full, transcendental: clocks, ..cost },
        _ => Cost { valu: clocks, ..cost },
    }
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;
    use rocfire_arch::Arch;

    fn clocks(arch: &str, mnemonic: &str, wave_size: u32) -> (u32, u32) {
        let info = Arch::parse(arch).unwrap().info();
        let unit = info.unit.unwrap();
        let cost = cost(info, &unit, &named(mnemonic), Class::Valu, wave_size);
        (cost.valu, cost.transcendental)
    }

    #[test]
    fn a_wave64_takes_four_clocks_of_sixteen_lanes() {
        assert_eq!(clocks("gfx942", "v_add_f32", 64), (4, 0));
        assert_eq!(clocks("gfx942", "v_pk_fma_f32", 64), (4, 0));
        assert_eq!(clocks("gfx1030", "v_add_f32", 32), (1, 0));
        assert_eq!(clocks("gfx1030", "v_add_f32", 64), (2, 0));
    }

    /// A quarter of the rate; on RDNA in a unit beside the lanes.
    #[test]
    fn transcendental_functions_are_quarter_rate() {
        for name in ["v_exp_f32", "v_rsq_f16", "v_sqrt_f32", "v_sin_f32"] {
            assert_eq!(clocks("gfx942", name, 64), (16, 0), "{name}");
            assert_eq!(clocks("gfx950", name, 64), (8, 0), "{name}");
            assert_eq!(clocks("gfx1100", name, 32), (1, 4), "{name}");
        }
    }

    /// MI50 does f64 at half of f32's rate, MI250X and later at all of it, Radeon at a sixteenth: 6.6, 23.9 (a die), 81.7,
    /// 78.6 and (RX 6900 XT) 1.44 TFLOP/s on the data sheets.
    #[test]
    fn f64_rates_are_those_of_the_data_sheets() {
        for (arch, wave_size, clocks_of_fma, sheet_tflops) in [
            ("gfx906", 64, 8, 6.63),
            ("gfx90a", 64, 4, 23.95),
            ("gfx942", 64, 4, 81.7),
            ("gfx950", 64, 4, 78.6),
            ("gfx1030", 32, 16, 1.44),
        ] {
            assert_eq!(clocks(arch, "v_fma_f64", wave_size), (clocks_of_fma, 0), "{arch}");
            let info = Arch::parse(arch).unwrap().info();
            let (unit, card) = (info.unit.unwrap(), info.card.unwrap());
            let simds = f64::from(card.compute_units / unit.compute_units * unit.simds);
            let per_clock = f64::from(2 * wave_size) / f64::from(clocks_of_fma);
            let tflops = simds * per_clock * card.clock_mhz * 1e-6;
            assert!((tflops / sheet_tflops - 1.0).abs() < 0.01, "{arch}: {tflops}");
        }
    }

    #[test]
    fn integer_products_and_conversions_differ_by_family() {
        assert_eq!([clocks("gfx906", "v_mul_lo_u32", 64).0, clocks("gfx942", "v_mul_lo_u32", 64).0], [16, 4]);
        assert_eq!(clocks("gfx1030", "v_mul_lo_u32", 32).0, 4);
        assert_eq!([clocks("gfx942", "v_cvt_f32_f16", 64).0, clocks("gfx1030", "v_cvt_f32_f16", 32).0], [16, 1]);
        assert_eq!([clocks("gfx906", "v_lshlrev_b64", 64).0, clocks("gfx942", "v_lshlrev_b64", 64).0], [8, 4]);
        assert_eq!([clocks("gfx906", "v_cmp_lt_i64", 64).0, clocks("gfx906", "v_cmp_lt_i32", 64).0], [8, 4]);
    }

    #[test]
    fn float_operations_are_counted_as_amd_does() {
        let counted = |mnemonic: &str| {
            let info = Arch::parse("gfx1201").unwrap().info();
            let cost = cost(info, &info.unit.unwrap(), &named(mnemonic), Class::Valu, 32);
            (cost.float_operations, cost.float_kind)
        };
        assert_eq!(counted("v_fma_f32"), (2, FloatKind::F32));
        assert_eq!(counted("v_pk_fma_f32"), (4, FloatKind::F32));
        assert_eq!(counted("v_pk_mul_f16"), (2, FloatKind::F16));
        assert_eq!(counted("v_add_f64"), (1, FloatKind::F64));
        assert_eq!(counted("v_exp_f32"), (1, FloatKind::F32));
        // Of a scalar too, and each product and sum of a dot product.
        assert_eq!(counted("v_s_exp_f32"), (1, FloatKind::F32));
        assert_eq!(counted("v_s_rsq_f16"), (1, FloatKind::F16));
        assert_eq!(counted("v_dot2_f32_bf16"), (4, FloatKind::F32));
        assert_eq!(counted("v_dot4_f32_fp8_bf8"), (8, FloatKind::F32));
        let none =
            ["v_max_f32", "v_cmp_lt_f32", "v_cvt_f32_i32", "v_add_u32", "v_mul_lo_u32", "v_mov_b32", "v_dot2_i32_i16"];
        for name in none {
            assert_eq!(counted(name).0, 0, "{name}");
        }
    }
}
