//! Totals under the names of AMD's hardware counters, so that they can be laid beside those of a real card.
//!
//! What each counts is in `MODEL.md`. Hardware sums over shader engines and samples in windows; these are whole and exact.

use rocfire_isa::{FloatKind, MatrixType};

use crate::counters::Class;

use super::{Profile, Row};

/// A counter's name and value.
pub type NamedCounter = (&'static str, u64);

/// Matrix instructions by type, as AMD names the counters: instructions, and operations in units of 512.
const MATRIX: [(MatrixType, &str, &str); 9] = [
    (MatrixType::F16, "SQ_INSTS_VALU_MFMA_F16", "SQ_INSTS_VALU_MFMA_MOPS_F16"),
    (MatrixType::Bf16, "SQ_INSTS_VALU_MFMA_BF16", "SQ_INSTS_VALU_MFMA_MOPS_BF16"),
    (MatrixType::F32, "SQ_INSTS_VALU_MFMA_F32", "SQ_INSTS_VALU_MFMA_MOPS_F32"),
    (MatrixType::Xf32, "SQ_INSTS_VALU_MFMA_XF32", "SQ_INSTS_VALU_MFMA_MOPS_XF32"),
    (MatrixType::F64, "SQ_INSTS_VALU_MFMA_F64", "SQ_INSTS_VALU_MFMA_MOPS_F64"),
    (MatrixType::F8, "SQ_INSTS_VALU_MFMA_F8", "SQ_INSTS_VALU_MFMA_MOPS_F8"),
    (MatrixType::F6F4, "SQ_INSTS_VALU_MFMA_F6F4", "SQ_INSTS_VALU_MFMA_MOPS_F6F4"),
    (MatrixType::I8, "SQ_INSTS_VALU_MFMA_I8", "SQ_INSTS_VALU_MFMA_MOPS_I8"),
    (MatrixType::I4, "SQ_INSTS_VALU_MFMA_I4", "SQ_INSTS_VALU_MFMA_MOPS_I4"),
];

/// Operations of one unit of the MOPS counters.
const MOPS: u64 = 512;

impl Profile {
    /// The counters, of the workgroups that were looked at; those of types that do not occur are left out.
    pub fn counters(&self) -> Vec<NamedCounter> {
        let executions = |wanted: &dyn Fn(&Row) -> bool| -> u64 {
            self.rows.iter().filter(|row| wanted(row)).map(|row| row.tally.executions).sum()
        };
        let of = |class: Class| executions(&|row: &Row| row.class == class);
        let clocks = self.clocks();
        let total = self.total();
        let matrix = executions(&|row: &Row| row.cost.matrix.is_some());
        let full = u64::from(self.full_clocks());
        let vector = || self.rows.iter().filter(|row| matches!(row.class, Class::Valu | Class::Mfma));
        let thread_cycles: u64 = vector().map(|row| row.tally.lanes * u64::from(row.cost.valu) / full).sum();
        let mut counters = vec![
            ("SQ_WAVES", self.counted_groups * u64::from(self.resources.waves_per_group)),
            ("SQ_INSTS_VALU", of(Class::Valu) + of(Class::Mfma)),
            ("SQ_INSTS_MFMA", matrix),
            ("SQ_INSTS_SALU", of(Class::Salu)),
            ("SQ_INSTS_SMEM", of(Class::Smem)),
            ("SQ_INSTS_BRANCH", of(Class::Branch)),
            ("SQ_INSTS_VMEM_RD", of(Class::VmemRead) + executions(&|row| row.class == Class::Scratch && row.loads)),
            (
                "SQ_INSTS_VMEM_WR",
                of(Class::VmemWrite)
                    + of(Class::VmemAtomic)
                    + executions(&|row| row.class == Class::Scratch && !row.loads),
            ),
            ("SQ_INSTS_FLAT", executions(&|row: &Row| row.flat)),
            ("SQ_INSTS_LDS", of(Class::Lds)),
            ("SQ_INSTS_INTERNAL", of(Class::Barrier) + of(Class::NoEffect)),
            ("SQ_ACTIVE_INST_VALU", vector().map(|row| row.clocks().valu / full).sum()),
            ("SQ_THREAD_CYCLES_VALU", thread_cycles),
            ("SQ_VALU_MFMA_BUSY_CYCLES", clocks.matrix),
            ("SQ_LDS_IDX_ACTIVE", clocks.lds),
            ("SQ_LDS_BANK_CONFLICT", self.rows.iter().map(|row| row.tally.lds_conflicts()).sum()),
            ("LDS_BANK_CONFLICT_SEQUENTIAL", total.lds_conflicts_sequential),
            ("LDS_BANK_CONFLICT_INTERLEAVED", total.lds_conflicts_interleaved),
            ("VMEM_ACCESS_CYCLES", clocks.vmem),
            ("VMEM_REQUESTED_BYTES", self.sum_of_vector_memory(|row| row.tally.requested_bytes)),
            ("VMEM_SEGMENTS_64B", self.sum_of_vector_memory(|row| row.tally.segments_64)),
            ("VMEM_SEGMENTS_128B", self.sum_of_vector_memory(|row| row.tally.segments_128)),
            ("UNIQUE_LINES_READ", self.lines.read),
            ("UNIQUE_LINES_WRITTEN", self.lines.written),
        ];
        for (kind, instructions, mops) in MATRIX {
            let rows = || self.rows.iter().filter(|row| row.cost.matrix.is_some_and(|matrix| matrix.kind == kind));
            let executed: u64 = rows().map(|row| row.tally.executions).sum();
            if executed > 0 {
                let operations = |row: &Row| row.cost.matrix.map_or(0, |matrix| matrix.operations);
                counters.push((instructions, executed));
                counters.push((mops, rows().map(|row| row.tally.executions * operations(row) / MOPS).sum()));
            }
        }
        let operations = self.operations();
        for (kind, name) in [
            (FloatKind::F16, "VALU_OPERATIONS_F16"),
            (FloatKind::F32, "VALU_OPERATIONS_F32"),
            (FloatKind::F64, "VALU_OPERATIONS_F64"),
        ] {
            let count = operations.vector[kind as usize];
            if count > 0 {
                counters.push((name, count));
            }
        }
        counters
    }

    /// One counter; 0 for what did not occur.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters().iter().find(|(other, _)| *other == name).map_or(0, |&(_, value)| value)
    }

    /// Clocks of a full-rate vector instruction.
    fn full_clocks(&self) -> u32 {
        let lanes = self.arch.info().unit.map_or(16, |unit| unit.simd_lanes);
        self.resources.wave_size.div_ceil(lanes).max(1)
    }

    fn sum_of_vector_memory(&self, of: impl Fn(&Row) -> u64) -> u64 {
        self.rows.iter().filter(|row| row.class != Class::Smem).map(of).sum()
    }
}
