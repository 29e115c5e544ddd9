//! From clocks by pipe to the pipe that binds a kernel, and to its distance from a card's roofline.
//!
//! The steady state: waves keep every pipe as busy as the work allows, no latency is exposed, clocks are at their peak. So
//! what comes out is a lower bound of clocks and an upper bound of every share; a real run is never better, by this model,
//! and may be much worse.

use rocfire_arch::{ArchInfo, Card, Family, Unit};
use rocfire_isa::{FloatKind, MatrixType};

use super::issue::Pipe;
use super::matrix;
use super::occupancy::Occupancy;

/// Clocks by pipe, and turns of waves, summed over waves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipeClocks {
    /// Of matrix units.
    pub matrix: u64,
    /// Of vector lanes, matrix instructions outside their shadow included.
    pub valu: u64,
    /// Of RDNA's transcendental units.
    pub transcendental: u64,
    /// Of LDS, the fewer conflicts of both orders included.
    pub lds: u64,
    /// Of address and cache pipelines.
    pub vmem: u64,
    /// Scalar instructions, each a turn of its SIMD.
    pub scalar: u64,
    /// Branches, each a turn of its SIMD.
    pub branch: u64,
    /// All instructions, each a turn of its wave.
    pub turns: u64,
}

impl std::ops::AddAssign for PipeClocks {
    fn add_assign(&mut self, other: PipeClocks) {
        self.matrix += other.matrix;
        self.valu += other.valu;
        self.transcendental += other.transcendental;
        self.lds += other.lds;
        self.vmem += other.vmem;
        self.scalar += other.scalar;
        self.branch += other.branch;
        self.turns += other.turns;
    }
}

/// Operations by type, summed over lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Of matrix instructions.
    pub matrix: Vec<(MatrixType, u64)>,
    /// Of vector instructions on f16, f32 and f64.
    pub vector: [u64; 3],
}

impl Operations {
    pub(crate) fn add_matrix(&mut self, kind: MatrixType, count: u64) {
        match self.matrix.binary_search_by_key(&kind, |&(kind, _)| kind) {
            Ok(at) => self.matrix[at].1 += count,
            Err(at) => self.matrix.insert(at, (kind, count)),
        }
    }

    pub(crate) fn add_vector(&mut self, kind: FloatKind, count: u64) {
        self.vector[kind as usize] += count;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.matrix.iter().map(|&(_, count)| count).chain(self.vector).sum()
    }
}

/// What a launch does, as counted.
#[derive(Clone, Debug)]
pub(crate) struct Work<'a> {
    /// Workgroups of the launch.
    pub(crate) groups: u64,
    /// Workgroups in which the rest was counted.
    pub(crate) counted_groups: u64,
    /// Waves of a workgroup.
    pub(crate) waves_per_group: u32,
    pub(crate) clocks: PipeClocks,
    pub(crate) operations: &'a Operations,
    /// Bytes that memory must deliver and take, of the whole launch, at least.
    pub(crate) memory_bytes: u64,
}

/// What binds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A pipe of the units.
    Pipe(Pipe),
    /// The card's memory.
    Memory,
}

impl Binding {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Pipe(pipe) => pipe.name(),
            Binding::Memory => "memory",
        }
    }
}

/// Modelled bounds of a launch on a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Clocks of each pipe in the unit that has most work, at least.
    pub pipes: [(Pipe, f64); Pipe::ALL.len()],
    /// The pipe with most of them.
    pub longest: Pipe,
    /// The share of that pipe's clocks in which the matrix units are busy, at most.
    pub matrix_busy: f64,
    /// Against the card; `None` if none is recorded for the architecture.
    pub card: Option<CardBound>,
}

/// The part of a [`Bound`] that depends on the card.
#[derive(Clone, Debug, PartialEq)]
pub struct CardBound {
    /// Its name.
    pub name: &'static str,
    /// Share of its units that have a workgroup when all are taken up in turns.
    pub units_filled: f64,
    /// Clocks in which its memory moves the compulsory bytes, at least.
    pub memory_clocks: f64,
    /// What takes longest.
    pub binding: Binding,
    /// Clocks of the card at peak rate on the same operations and compulsory bytes, over those that the binding part
    /// needs: how much of the card's roofline the kernel can reach, at most.
    pub roofline: f64,
    /// Whether the roofline is that of memory, and not of arithmetic.
    pub roofline_is_memory: bool,
    /// Operations for each compulsory byte.
    pub intensity: Option<f64>,
}

impl Bound {
    /// Clocks of a pipe in the unit with most work, at least.
    pub fn clocks(&self, pipe: Pipe) -> f64 {
        self.pipes.iter().find(|&&(other, _)| other == pipe).map_or(0.0, |&(_, clocks)| clocks)
    }

    /// Clocks of a pipe over those of the longest one, 0 to 1.
    pub fn share(&self, pipe: Pipe) -> f64 {
        let longest = self.clocks(self.longest);
        if longest > 0.0 { self.clocks(pipe) / longest } else { 0.0 }
    }

    /// Clocks of what takes longest, memory included, at least.
    pub fn needed_clocks(&self) -> f64 {
        self.clocks(self.longest).max(self.card.as_ref().map_or(0.0, |card| card.memory_clocks))
    }
}

/// Vector operations of a unit in a clock at peak: two of each lane, four where f32 comes in pairs or f16 is packed.
fn vector_peak(info: &ArchInfo, unit: &Unit, kind: FloatKind) -> f64 {
    let lanes = f64::from(unit.simds * unit.simd_lanes);
    let family = info.family;
    let pairs = info.packed_f32 || matches!(family, Family::Rdna3 | Family::Rdna35 | Family::Rdna4);
    match kind {
        FloatKind::F16 => 4.0 * lanes,
        FloatKind::F32 if pairs => 4.0 * lanes,
        FloatKind::F32 => 2.0 * lanes,
        FloatKind::F64 if unit.wave32 => lanes / 8.0,
        FloatKind::F64 if matches!(family, Family::Gcn5 | Family::Cdna1) => lanes,
        FloatKind::F64 => 2.0 * lanes,
    }
}

/// Clocks of one unit at its peak rates on all operations: matrix and vector ones go beside one another.
fn peak_clocks(info: &ArchInfo, unit: &Unit, operations: &Operations) -> f64 {
    let matrix: f64 = operations
        .matrix
        .iter()
        .filter_map(|&(kind, count)| Some(count as f64 / matrix::peak(info.matrix, unit, kind)? as f64))
        .sum();
    let vector = [FloatKind::F16, FloatKind::F32, FloatKind::F64]
        .map(|kind| operations.vector[kind as usize] as f64 / vector_peak(info, unit, kind));
    matrix.max(vector.into_iter().sum())
}

/// The bounds of a launch.
pub(crate) fn bound(info: &ArchInfo, unit: &Unit, occupancy: &Occupancy, work: &Work<'_>) -> Bound {
    let units = info.card.map(|card| u64::from(card.compute_units / unit.compute_units));
    // Without a card one unit stands for all: shares are the same, and nothing else is said.
    let groups_of_unit = work.groups.div_ceil(units.unwrap_or(1)).max(1);
    let scale = groups_of_unit as f64 / work.counted_groups.max(1) as f64;
    let waves_of_unit = groups_of_unit.saturating_mul(u64::from(work.waves_per_group)).max(1);
    let simds = waves_of_unit.min(u64::from(unit.simds)) as f64;
    let resident = waves_of_unit.min(u64::from(occupancy.waves_per_unit.max(1))) as f64;
    let ports = groups_of_unit.min(u64::from(unit.lds_ports)).max(1) as f64;
    let turn = f64::from(unit.issue_clocks);
    let clocks = &work.clocks;
    let pipes = Pipe::ALL.map(|pipe| {
        let of_unit = match pipe {
            Pipe::Matrix => clocks.matrix as f64 / simds,
            Pipe::Valu => clocks.valu as f64 / simds,
            Pipe::Transcendental => clocks.transcendental as f64 / simds,
            Pipe::Lds => clocks.lds as f64 / ports,
            Pipe::Vmem => clocks.vmem as f64 / f64::from(unit.compute_units),
            Pipe::Scalar => clocks.scalar as f64 * turn / simds,
            Pipe::Branch => clocks.branch as f64 * turn / simds,
            Pipe::Issue => clocks.turns as f64 * turn / resident,
        };
        (pipe, of_unit * scale)
    });
    // The first of equals, in the order of `Pipe::ALL`.
    let longest = pipes.iter().fold(pipes[0], |most, &pipe| if pipe.1 > most.1 { pipe } else { most });
    let matrix_busy = if longest.1 > 0.0 { pipes[0].1 / longest.1 } else { 0.0 };
    let card = info.card.as_ref().map(|card| card_bound(info, unit, card, work, longest));
    Bound { pipes, longest: longest.0, matrix_busy, card }
}

fn card_bound(info: &ArchInfo, unit: &Unit, card: &Card, work: &Work<'_>, longest: (Pipe, f64)) -> CardBound {
    let units = u64::from(card.compute_units / unit.compute_units);
    let memory_clocks = work.memory_bytes as f64 / card.memory_bytes_per_clock();
    let scale = work.groups as f64 / work.counted_groups.max(1) as f64;
    let peak = peak_clocks(info, unit, work.operations) * scale / units as f64;
    let needed = longest.1.max(memory_clocks);
    let operations = work.operations.total() as f64 * scale;
    CardBound {
        name: card.name,
        units_filled: work.groups as f64 / (work.groups.div_ceil(units).max(1) * units) as f64,
        memory_clocks,
        binding: if memory_clocks > longest.1 { Binding::Memory } else { Binding::Pipe(longest.0) },
        roofline: if needed > 0.0 { peak.max(memory_clocks) / needed } else { 0.0 },
        roofline_is_memory: memory_clocks >= peak,
        intensity: (work.memory_bytes > 0).then(|| operations / work.memory_bytes as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::occupancy::{Resources, occupancy};
    use rocfire_arch::Arch;

    const RESOURCES: Resources =
        Resources { vgprs: 64, agprs: 0, sgprs: 32, lds_bytes: 0, wave_size: 64, waves_per_group: 4 };

    fn on(arch: &str, work: &Work<'_>) -> Bound {
        let info = Arch::parse(arch).unwrap().info();
        let unit = info.unit.unwrap();
        let resources = Resources { waves_per_group: work.waves_per_group, ..RESOURCES };
        bound(info, &unit, &occupancy(&unit, &resources), work)
    }

    /// Four waves, a loop of 100: one 32x32x8 f16 MFMA (32 clocks, 4 outside its shadow) and 10 vector instructions (40
    /// clocks): the lanes are busy for 44 clocks a round, the matrix unit for 32.
    #[test]
    fn vector_instructions_beyond_the_shadow_bind() {
        let mut operations = Operations::default();
        operations.add_matrix(MatrixType::F16, 4 * 100 * 16384);
        let clocks = PipeClocks { matrix: 4 * 3200, valu: 4 * 4400, turns: 4 * 1100, ..PipeClocks::default() };
        let work = Work {
            groups: 304,
            counted_groups: 1,
            waves_per_group: 4,
            clocks,
            operations: &operations,
            memory_bytes: 0,
        };
        let bound = on("gfx942", &work);
        assert_eq!(bound.longest, Pipe::Valu);
        assert!((bound.matrix_busy - 32.0 / 44.0).abs() < 1e-12);
        // One wave a SIMD: 1100 turns of 4 clocks, which is as many as the lanes need.
        assert_eq!(bound.pipes[7], (Pipe::Issue, 4400.0));
        let card = bound.card.unwrap();
        assert_eq!(card.units_filled, 1.0);
        assert!((card.roofline - 32.0 / 44.0).abs() < 1e-12);
    }

    /// A copy of 2 × 64 MiB on MI300X: 134 217 728 bytes at 2523.8 in a clock.
    #[test]
    fn a_copy_is_bound_by_memory() {
        let operations = Operations::default();
        let clocks = PipeClocks { vmem: 16, turns: 40, ..PipeClocks::default() };
        let work = Work {
            groups: 65536,
            counted_groups: 1,
            waves_per_group: 4,
            clocks,
            operations: &operations,
            memory_bytes: 1 << 27,
        };
        let bound = on("gfx942", &work);
        let card = bound.card.unwrap();
        assert!((card.memory_clocks - 53_180.6).abs() < 0.1, "{}", card.memory_clocks);
        assert_eq!(card.binding, Binding::Memory);
        assert_eq!((card.roofline, card.roofline_is_memory), (1.0, true));
        assert_eq!(card.intensity, Some(0.0));
    }

    /// 305 workgroups on 304 units: one unit has two, and half of the card waits for it.
    #[test]
    fn the_last_workgroups_leave_units_empty() {
        let mut operations = Operations::default();
        operations.add_matrix(MatrixType::F16, 4 * 16384);
        let clocks = PipeClocks { matrix: 4 * 32, valu: 4 * 4, turns: 4, ..PipeClocks::default() };
        let work = Work {
            groups: 305,
            counted_groups: 1,
            waves_per_group: 4,
            clocks,
            operations: &operations,
            memory_bytes: 0,
        };
        let card = on("gfx942", &work).card.unwrap();
        assert!((card.units_filled - 305.0 / 608.0).abs() < 1e-12);
        assert!((card.roofline - 305.0 / 608.0).abs() < 1e-12);
    }

    /// One wave alone on a unit uses one SIMD of four, and its own turns bind it.
    #[test]
    fn a_single_wave_cannot_fill_a_unit() {
        let operations = Operations::default();
        let clocks = PipeClocks { valu: 400, scalar: 50, turns: 150, ..PipeClocks::default() };
        let work =
            Work { groups: 1, counted_groups: 1, waves_per_group: 1, clocks, operations: &operations, memory_bytes: 0 };
        let bound = on("gfx942", &work);
        assert_eq!(bound.pipes[1], (Pipe::Valu, 400.0));
        assert_eq!((bound.longest, bound.pipes[7].1), (Pipe::Issue, 600.0));
    }

    #[test]
    fn without_a_card_there_are_shares_only() {
        let operations = Operations::default();
        let clocks = PipeClocks { valu: 100, lds: 100, turns: 10, ..PipeClocks::default() };
        let work = Work {
            groups: 100,
            counted_groups: 10,
            waves_per_group: 8,
            clocks,
            operations: &operations,
            memory_bytes: 128,
        };
        let bound = on("gfx1101", &work);
        assert_eq!(bound.card, None);
        // Four SIMDs share the vector work, two ports that of LDS.
        assert_eq!((bound.longest, bound.share(Pipe::Valu)), (Pipe::Lds, 0.5));
    }
}
