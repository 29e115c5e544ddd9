//! The modelled profile of a launch: counts by instruction, occupancy, and the bounds that follow.
//!
//! [`Gpu::profile`](crate::Gpu::profile) runs a launch in the instrumented loop. Its observer (`observer`) counts executions, lanes, LDS
//! conflicts, segments and lines for each instruction. Costs come from `model`; `MODEL.md` defines every one.
//!
//! [`Profile`] adds them up ([`Profile::counters`] under AMD's names, [`Profile::bound`]), and `annotate` prints the instructions with
//! what they cost. Every number is the same on any host and number of threads. None is a time.

mod annotate;
mod named;
mod observer;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::Arc;

use rocfire_arch::Arch;

use crate::counters::{Class, Counters};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::instrument::Instrument;
use crate::launch::{self, Launch};
use crate::model::bound::{self, Bound, Operations, PipeClocks, Work};
use crate::model::issue::{Cost, Pipe};
use crate::model::lines::LINE_BYTES;
use crate::model::occupancy::{Occupancy, Resources};
use crate::module::{Kernel, Module};

use observer::{Found, Profiler};
use trace::{Trace, Tracer};

pub use trace::{Residents, Timeline};

/// Which workgroups a profile looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Most workgroups, spread evenly over the grid; `None`: all of them.
    pub groups: Option<u64>,
    /// Whether the other workgroups are left out altogether. Memory then lacks what they would have written. A kernel
    /// whose workgroups see one another's atomics is run whole all the same.
    pub skip_others: bool,
    /// Whether the first workgroup and the one in the middle are followed instruction by instruction, for [`Profile::timeline`]:
    /// 12 bytes for each that a wave executes.
    pub timeline: bool,
}

impl Sample {
    /// Whether workgroup `group` of `groups` is looked at.
    pub(crate) fn includes(&self, group: u64, groups: u64) -> bool {
        let Some(most) = self.groups.filter(|&most| most < groups).map(|most| most.max(1)) else { return true };
        // Number i of the sample is workgroup i · groups / most: is there an i that gives this one?
        let wide = |n: u64| u128::from(n);
        let i = (wide(group) * wide(most)).div_ceil(wide(groups));
        i < wide(most) && i * wide(groups) / wide(most) == wide(group)
    }
}

/// What was counted of one instruction, summed over waves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Waves that executed it.
    pub executions: u64,
    /// Lanes that were on.
    pub lanes: u64,
    /// Clocks of LDS without conflicts.
    pub lds_phases: u64,
    /// Clocks that conflicts add, with the lanes of a phase in order.
    pub lds_conflicts_sequential: u64,
    /// The same with the lanes of wide accesses interleaved.
    pub lds_conflicts_interleaved: u64,
    /// Clocks of the address and cache pipeline.
    pub vmem_clocks: u64,
    /// Accesses of device memory or scratch.
    pub accesses: u64,
    /// Bytes that lanes asked for, in device memory or scratch.
    pub requested_bytes: u64,
    /// Aligned 64-byte segments touched, access by access.
    pub segments_64: u64,
    /// Aligned 128-byte segments touched, access by access.
    pub segments_128: u64,
}

impl Tally {
    /// The fewer conflicts of the two orders, which is what bounds and totals take.
    pub fn lds_conflicts(&self) -> u64 {
        self.lds_conflicts_sequential.min(self.lds_conflicts_interleaved)
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.executions += other.executions;
        self.lanes += other.lanes;
        self.lds_phases += other.lds_phases;
        self.lds_conflicts_sequential += other.lds_conflicts_sequential;
        self.lds_conflicts_interleaved += other.lds_conflicts_interleaved;
        self.vmem_clocks += other.vmem_clocks;
        self.accesses += other.accesses;
        self.requested_bytes += other.requested_bytes;
        self.segments_64 += other.segments_64;
        self.segments_128 += other.segments_128;
    }
}

/// An instruction of the kernel, executed or not.
#[derive(Clone, Debug)]
pub struct Row {
    /// Bytes from the start of its code section.
    pub code_offset_bytes: u64,
    /// What was counted.
    pub tally: Tally,
    pub(crate) class: Class,
    pub(crate) cost: Cost,
    /// A FLAT instruction, which reaches LDS or scratch by address.
    pub(crate) flat: bool,
    /// It has a destination.
    pub(crate) loads: bool,
    /// Its number in the complete program.
    pub(crate) step: usize,
}

impl Row {
    /// Clocks that it adds to each pipe.
    pub fn clocks(&self) -> PipeClocks {
        let times = self.tally.executions;
        PipeClocks {
            matrix: times * u64::from(self.cost.matrix.map_or(0, |matrix| matrix.clocks)),
            valu: times * u64::from(self.cost.valu),
            transcendental: times * u64::from(self.cost.transcendental),
            lds: self.tally.lds_phases + self.tally.lds_conflicts(),
            vmem: self.tally.vmem_clocks,
            scalar: if self.cost.scalar { times } else { 0 },
            branch: if self.cost.branch { times } else { 0 },
            turns: times,
        }
    }

    /// The pipe that it mostly occupies; `None` for what issues to none.
    pub fn pipe(&self) -> Option<Pipe> {
        match self.class {
            _ if self.cost.matrix.is_some() => Some(Pipe::Matrix),
            Class::Valu | Class::Mfma if self.cost.transcendental > 0 => Some(Pipe::Transcendental),
            Class::Valu | Class::Mfma => Some(Pipe::Valu),
            Class::Salu | Class::Smem => Some(Pipe::Scalar),
            Class::Branch => Some(Pipe::Branch),
            Class::Lds => Some(Pipe::Lds),
            Class::VmemRead | Class::VmemWrite | Class::VmemAtomic | Class::Scratch => Some(Pipe::Vmem),
            Class::Barrier | Class::NoEffect => None,
        }
    }
}

/// Lines of device memory, 128 bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinesTouched {
    /// Different lines read, in all workgroups that were looked at together.
    pub read: u64,
    /// Different lines written.
    pub written: u64,
    /// Different lines read in a workgroup, summed over workgroups.
    pub read_by_groups: u64,
    /// Different lines written in a workgroup, summed over workgroups.
    pub written_by_groups: u64,
}

/// A launch, counted.
#[derive(Clone)]
pub struct Profile {
    /// The kernel.
    pub kernel: String,
    /// Guest address of its first instruction: kernels of one name in several modules differ in it.
    pub code_address: u64,
    /// The architecture that it ran on.
    pub arch: Arch,
    /// Workgroups in x, y and z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// Workgroups of the launch.
    pub groups: u64,
    /// Workgroups that were looked at.
    pub counted_groups: u64,
    /// What a wave and a workgroup take.
    pub resources: Resources,
    /// Waves that can be resident.
    pub occupancy: Occupancy,
    /// The kernel's instructions in order of address, from the first to the last one executed.
    pub rows: Vec<Row>,
    /// Lines of memory that the workgroups touched.
    pub lines: LinesTouched,
    /// What a launch counts anyway, of all workgroups that ran; see `MODEL.md`.
    pub plain: Counters,
    /// For the text of instructions.
    module: Arc<Module>,
    /// For the timeline.
    trace: Option<Arc<Trace>>,
}

impl Profile {
    /// Clocks of every pipe, of the workgroups that were looked at.
    pub fn clocks(&self) -> PipeClocks {
        let mut sum = PipeClocks::default();
        self.rows.iter().for_each(|row| sum += row.clocks());
        sum
    }

    /// Floating-point and matrix operations of the workgroups that were looked at; lanes that are off count not.
    pub fn operations(&self) -> Operations {
        let mut operations = Operations::default();
        for row in &self.rows {
            if let Some(matrix) = row.cost.matrix {
                operations.add_matrix(matrix.kind, row.tally.executions * matrix.operations);
            } else if row.cost.float_operations > 0 {
                operations.add_vector(row.cost.float_kind, row.tally.lanes * u64::from(row.cost.float_operations));
            }
        }
        operations
    }

    /// Bytes that memory must move for the whole launch if nothing is in a cache before it: at least, and at most by the
    /// workgroups that were looked at. Where all were, both are every line once. In a sample the least is what the sample
    /// itself touches, and the most what it would be if no two workgroups shared a line.
    pub fn memory_bytes(&self) -> (u64, u64) {
        let lines = &self.lines;
        let least = (lines.read + lines.written) * LINE_BYTES;
        if self.counted_groups == self.groups {
            return (least, least);
        }
        let of_groups = u128::from((lines.read_by_groups + lines.written_by_groups) * LINE_BYTES);
        let most = of_groups * u128::from(self.groups) / u128::from(self.counted_groups.max(1));
        (least, u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// The modelled bounds, with the least bytes of memory.
    pub fn bound(&self) -> Bound {
        self.bound_with(self.memory_bytes().0)
    }

    /// The modelled bounds if memory has to move so many bytes.
    fn bound_with(&self, memory_bytes: u64) -> Bound {
        let info = self.arch.info();
        let unit = info.unit.expect("a profile is made only for what has a unit");
        let work = Work {
            groups: self.groups,
            counted_groups: self.counted_groups,
            waves_per_group: self.resources.waves_per_group,
            clocks: self.clocks(),
            operations: &self.operations(),
            memory_bytes,
        };
        bound::bound(info, &unit, &self.occupancy, &work)
    }

    /// Lanes on in vector instructions, over all lanes, 0 to 1.
    pub fn lane_utilisation(&self) -> f64 {
        let vector = self.rows.iter().filter(|row| row.class == Class::Valu);
        let (lanes, executions) =
            vector.fold((0, 0), |(lanes, times), row| (lanes + row.tally.lanes, times + row.tally.executions));
        if executions == 0 { 0.0 } else { lanes as f64 / (executions * u64::from(self.resources.wave_size)) as f64 }
    }

    /// The text of an instruction.
    pub fn text(&self, row: &Row) -> String {
        let program = self.module.complete_program();
        program.disassembly(&program.steps[row.step])
    }

    /// Where it comes from in the program's source, if the code object has line tables.
    pub fn source(&self, row: &Row) -> Option<String> {
        self.module.source_of(self.module.complete_program().address + row.code_offset_bytes)
    }

    /// Everything that was counted, added up.
    pub fn total(&self) -> Tally {
        let mut sum = Tally::default();
        self.rows.iter().for_each(|row| sum += row.tally);
        sum
    }
}

/// Runs a launch and counts.
pub(crate) fn run(gpu: &Gpu, kernel: &Kernel, launch: &Launch<'_>, sample: Sample) -> Result<Profile, Error> {
    let arch = gpu.arch();
    let unit = arch.info().unit.ok_or(Error::UnsupportedArch { arch })?;
    let ordered = kernel.info.ordered;
    let profiler = Profiler::new(arch, unit, Sample { skip_others: sample.skip_others && !ordered, ..sample });
    let tracer = Tracer::new(arch, unit);
    let instruments: [&dyn Instrument; 2] = [&profiler, &tracer];
    let plain = launch::run(gpu, kernel, launch, &instruments[..1 + usize::from(sample.timeline)])?;
    let trace = sample.timeline.then(|| tracer.into_trace(kernel.module.complete_program(), kernel.wave_size()));
    let Found { setup, tallies, lines, counted_groups } = profiler.into_found();
    let resources = Resources {
        vgprs: kernel.vgprs(),
        agprs: kernel.agprs(),
        sgprs: kernel.sgprs(),
        lds_bytes: setup.lds_bytes,
        wave_size: kernel.wave_size(),
        waves_per_group: setup.waves_per_group,
    };
    Ok(Profile {
        kernel: kernel.name().to_owned(),
        code_address: kernel.info.entry_address,
        arch,
        grid: launch.grid,
        block: launch.block,
        groups: setup.groups,
        counted_groups,
        resources,
        occupancy: crate::model::occupancy::occupancy(&unit, &resources),
        rows: observer::rows(kernel, arch, &unit, &tallies),
        lines,
        plain,
        module: kernel.module.clone(),
        trace: trace.map(Arc::new),
    })
}
