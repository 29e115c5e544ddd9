//! Launches a graph: checks and lays out its tensors, chooses a schedule, finds the kernel, and writes the arguments.

use std::sync::PoisonError;

use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{
    Buffer, DType, Dims, Function, JoinedKernel, Launch, Layout, MAX_RANK, Stream, Tensor, View, ViewMut,
};

use crate::block::Block;
use crate::error::{Error, Result};
use crate::geometry::{Geometry, Placement, Role, TENSORS_MOST};
use crate::graph::{Graph, Kind, Value};
use crate::kernel::{Held, Prepared, prepare};
use crate::launch;
use crate::order::{self, QUAD};
use crate::plan::{Argument, Shape};
use crate::render::{
    self, COLUMN_LEVELS, COLUMN_ROWS, COLUMN_WAVES, COLUMN_WIDE_WAVES, SPLIT_CHUNKS, SPLIT_COLUMN_WAVES, Schedule,
    THREADS, capacity,
};
use crate::scalar::Scalar;

/// With more workgroups than this, each takes several items in turn, which spares starting waves. It is eight workgroups of four
/// waves on each of 256 compute units.
const GROUPS_MANY: usize = 2048;

/// How many items such a workgroup takes. They are few, so that at the end of the launch no compute unit waits long for another.
const ITEMS_OF_GROUP: usize = 4;

/// The most workgroups of a launch whose workgroups take a row each.
const GROUPS_MOST: usize = 1 << 20;

/// The mode of an input that is read through the first tile; `fuse.h` has the same number.
const TILED: u64 = 3;

/// The fewest chains that a lane runs through in [`Schedule::Columns`], if a row has so many. With few, more waves wait for memory at
/// the same time.
const COLUMN_CHAINS_LEAST: usize = 4;

/// The fewest rows for which [`Schedule::Columns`] pays: with fewer, most lanes of a wave would have nothing to do.
const COLUMN_ROWS_LEAST: usize = 16;

/// The fewest workgroups for which a lane takes several rows there: with fewer, more waves are worth more than wide accesses.
const COLUMN_WIDE_GROUPS_LEAST: usize = 128;

/// With at most so many rows, the chunks of a long row go to different workgroups. More rows fill the device by themselves.
const SPLIT_ROWS_MOST: usize = 128;

/// With at most so many long rows that do not fit registers, each pass is a launch of its own: one workgroup per row that reads its
/// row again in every pass keeps too few accesses under way.
const STAGED_ROWS_MOST: usize = 1024;

/// With so many workgroups and more, each takes several chunks of a long row in turn, so that fewer totals are left for the second
/// launch.
const SPLIT_GROUPS_MANY: usize = 1024;

/// With so many workgroups of [`Schedule::Columns`] and more, rows that lie side by side are not shared by several workgroups: the
/// device is full.
const SPLIT_COLUMN_GROUPS_MOST: usize = 256;

/// The fewest elements for which such rows, or passes over few rows, are shared by several workgroups: fewer elements take less time
/// than another launch.
const SHARED_ELEMENTS_LEAST: usize = 1 << 18;

/// A launch of at most so many workgroups waits for others of its kernel. A larger one takes so long that the next arrives before it
/// ends.
const TOGETHER_GROUPS_MOST: u32 = 512;

/// The bytes of the longest access; also a multiple of those of an access of [`COLUMN_ROWS`] elements.
const ALIGNMENT: u64 = 16;

/// Items must stay below 2^31 for the division by multiplication.
const NARROW_ITEMS: u64 = 1 << 31;

/// Computes `graph` over an iteration space of `shape`.
///
/// # Shapes
/// An input broadcasts to `shape`, aligned at the last axis; a row input and a per-row output have extent 1 on the last axis or
/// lack it; a looked-up input has an axis before those of `shape`, to which its others broadcast; any other output has exactly
/// `shape`. Views may have any strides, but an output no stride of 0. An output may be an
/// input's memory if both have the same layout.
///
/// # Numerics
/// Each value is rounded to its dtype; reductions follow a fixed order: see the crate's documentation.
///
/// # Errors
/// [`Error::Invalid`] for a wrong graph; [`Error::Arity`], [`Error::DType`], [`Error::Shape`], [`Error::Overlap`] and
/// [`Error::Alias`] for tensors that do not fit it; [`Error::Arguments`] for too many; [`Error::Hal`] if compiling or launching
/// fails.
pub fn run(
    stream: &Stream,
    graph: &Graph,
    shape: &[usize],
    inputs: &[View<'_>],
    scalars: &[Scalar],
    outputs: &mut [ViewMut<'_>],
) -> Result<()> {
    let prepared = prepare(stream, graph, scalars)?;
    check_arity(graph, inputs, scalars, outputs)?;
    if shape.len() > MAX_RANK {
        return Err(shape_error(graph, "iteration space", 0, shape, shape));
    }
    let call = Call { stream, prepared: &prepared, shape, inputs, scalars, outputs };
    if let Some(done) = call.again() {
        return done;
    }
    let mut geometry = Geometry::new(shape);
    for argument in &prepared.arguments {
        lay(&prepared, &mut geometry, shape, *argument, inputs, outputs)?;
    }
    check_aliases(&prepared.graph, &prepared.arguments, |slot| &inputs[slot], outputs)?;
    let stages = match prepared.plan.shape {
        Shape::Elementwise => return call.elementwise(&mut geometry),
        Shape::Rows => match call.rows(&mut geometry)? {
            Rows::Launched => return Ok(()),
            Rows::InStages => prepared.stages(),
        },
    };
    stages.map_or(Ok(()), |stages| stages.run(stream, shape, (inputs, scalars), outputs))
}

fn check_arity(graph: &Graph, inputs: &[View<'_>], scalars: &[Scalar], outputs: &[ViewMut<'_>]) -> Result<()> {
    let checks = [
        ("inputs", graph.inputs as usize, inputs.len()),
        ("scalars", graph.scalars as usize, scalars.len()),
        ("outputs", graph.outputs.len(), outputs.len()),
    ];
    for (what, expected, got) in checks {
        if expected != got {
            return Err(Error::Arity { graph: graph.name(), what, expected, got });
        }
    }
    for (slot, ((expected, _), view)) in graph.inputs().zip(inputs).enumerate() {
        check_dtype(graph, "input", slot, expected, view.dtype())?;
    }
    for (slot, (&value, view)) in graph.outputs.iter().zip(outputs).enumerate() {
        check_dtype(graph, "output", slot, graph.dtype(value), view.dtype())?;
    }
    Ok(())
}

pub(crate) fn check_dtype(graph: &Graph, what: &'static str, slot: usize, expected: DType, got: DType) -> Result<()> {
    if expected == got { Ok(()) } else { Err(Error::DType { graph: graph.name(), what, slot, expected, got }) }
}

pub(crate) fn shape_error(graph: &Graph, what: &'static str, slot: usize, got: &[usize], space: &[usize]) -> Error {
    Error::Shape { graph: graph.name(), what, slot, got: got.to_vec(), space: space.to_vec() }
}

fn lay(
    prepared: &Prepared,
    geometry: &mut Geometry,
    shape: &[usize],
    argument: Argument,
    inputs: &[View<'_>],
    outputs: &[ViewMut<'_>],
) -> Result<()> {
    let graph = &prepared.graph;
    // An output that is the same everywhere is still written for every element.
    let kind = |value: Value| if prepared.plan.kinds[value.at()] == Kind::Row { Kind::Row } else { Kind::Full };
    let (what, slot, view, role) = match argument {
        Argument::Input(slot, value) if graph.nodes[value.at()].0.is_lookup() => {
            ("looked-up input", slot, &inputs[slot], Role::LookedUp(kind(value)))
        }
        Argument::Input(slot, value) => ("input", slot, &inputs[slot], Role::Read(kind(value))),
        Argument::Output(slot) => ("output", slot, &*outputs[slot], Role::Written(kind(graph.outputs[slot]))),
    };
    if !geometry.lay(view, role) {
        return Err(shape_error(graph, what, slot, view.shape(), shape));
    }
    if matches!(role, Role::Written(_)) && geometry.overlaps(geometry.placements().len() - 1) {
        return Err(Error::Overlap { graph: graph.name(), slot });
    }
    Ok(())
}

/// An output may lie in an input's memory only with the same layout. Otherwise it would depend on the schedule whether an element is
/// read before or after it is overwritten.
pub(crate) fn check_aliases<'a>(
    graph: &Graph,
    arguments: &[Argument],
    inputs: impl Fn(usize) -> &'a View<'a>,
    outputs: &[ViewMut<'_>],
) -> Result<()> {
    for argument in arguments {
        let Argument::Input(input, _) = *argument else { continue };
        let read = inputs(input);
        for (output, written) in outputs.iter().enumerate() {
            if !read.buffer().same(written.buffer()) || read.layout() == written.layout() {
                continue;
            }
            let (a, b) = (read.layout().extent(), written.layout().extent());
            let (a_bytes, b_bytes) = (read.dtype().size_bytes() as i64, written.dtype().size_bytes() as i64);
            if a.start * a_bytes < b.end * b_bytes && b.start * b_bytes < a.end * a_bytes {
                return Err(Error::Alias { graph: graph.name(), input, output });
            }
        }
    }
    Ok(())
}

/// What [`Call::rows`] did with a graph of rows.
enum Rows {
    Launched,
    /// Nothing: [`Stages`](crate::stages::Stages) should run it.
    InStages,
}

/// The arguments of [`run`], with the prepared graph.
struct Call<'a> {
    stream: &'a Stream,
    prepared: &'a Prepared,
    shape: &'a [usize],
    inputs: &'a [View<'a>],
    scalars: &'a [Scalar],
    outputs: &'a [ViewMut<'a>],
}

/// The fields of `fuse.h`'s `Space` other than the axes.
#[derive(Clone, Copy, Default)]
struct Space {
    items: usize,
    step: usize,
    lanes_log2: u32,
    turns: usize,
    quads: usize,
    chains: usize,
    /// How many items there are along axis 0, and along axis 1 if that is not its extent.
    first: usize,
    second: Option<usize>,
}

/// The schedule, grid and workgroup of a launch. A schedule of two launches also has the address of the totals that pass between them,
/// and how many there are per row.
#[derive(Clone, Copy)]
pub(crate) struct Shot {
    schedule: Schedule,
    grid: [u32; 3],
    block: [u32; 3],
    partials: Option<(u64, u64)>,
    /// Whether another schedule takes its place soon: it is not remembered, nor joined with others.
    stands_in: bool,
}

impl Shot {
    /// Whether the same launch may come again, remembered or joined with others: it has no totals of its own, and its schedule stays.
    fn may_come_again(&self) -> bool {
        self.partials.is_none() && !self.stands_in
    }
}

impl<'a> Call<'a> {
    fn elementwise(&self, geometry: &mut Geometry) -> Result<()> {
        if geometry.extents.contains(&0) {
            return Ok(());
        }
        let plan = &self.prepared.plan;
        let is_row = |placement: &Placement| placement.kind == Kind::Row;
        if plan.index_axes.is_none() {
            let may_turn = !geometry.placements().iter().any(is_row);
            if may_turn {
                geometry.follow_output();
            }
            geometry.merge(false);
            if let (true, Some(axis)) = (may_turn, geometry.tiled_axis()) {
                geometry.count_first(axis);
                return self.tiled(geometry);
            }
        }
        let Prepared { vector, may_be_single, .. } = *self.prepared;
        let (schedule, width) = match may_be_single && geometry.extents[0] < vector {
            true => (Schedule::Single, 1),
            false => (Schedule::Elementwise, vector),
        };
        let first = geometry.extents[0].div_ceil(width);
        let items = first * geometry.rows();
        let groups = groups(items.div_ceil(THREADS));
        let space = Space { items, step: groups * THREADS, first, ..Space::default() };
        self.launch(geometry, &space, width, &group_shot(schedule, groups))
    }

    /// Launches [`Schedule::Tiled`], by squares of axes 0 and 1.
    fn tiled(&self, geometry: &Geometry) -> Result<()> {
        let side = render::side(&self.prepared.graph, &self.prepared.plan);
        let (first, second) = (geometry.extents[0].div_ceil(side), geometry.extents[1].div_ceil(side));
        let items = first * second * geometry.extents[2..].iter().product::<usize>();
        let step = items.min(GROUPS_MOST);
        let space = Space { items, step, quads: geometry.extents[1], first, second: Some(second), ..Space::default() };
        self.launch(geometry, &space, self.prepared.vector, &group_shot(Schedule::Tiled, step))
    }

    fn rows(&self, geometry: &mut Geometry) -> Result<Rows> {
        let plan = &self.prepared.plan;
        let (rows, extent) = (geometry.rows(), geometry.extents[0]);
        let full_outputs = plan.passes.iter().any(|pass| !pass.stores.is_empty());
        let row_outputs = self.prepared.graph.outputs.iter().any(|output| plan.kinds[output.at()] == Kind::Row);
        if rows == 0 || (extent == 0 && !row_outputs) || !(row_outputs || full_outputs) {
            return Ok(Rows::Launched);
        }
        let launched = |()| Rows::Launched;
        let (chunks, is_large) = (order::chunks(extent), rows * extent >= SHARED_ELEMENTS_LEAST);
        let mut column_axis = None;
        // If the graph asks for coordinates of other axes than the last, these must stay as they are.
        if plan.index_axes.is_none_or(|highest| highest == 0) {
            geometry.merge(true);
            column_axis = geometry.column_axis().filter(|_| rows >= COLUMN_ROWS_LEAST);
        }
        if let Some(axis) = column_axis {
            let few = rows.div_ceil(self.wave_size()) < SPLIT_COLUMN_GROUPS_MOST;
            let is_shared = few && extent > order::SHORT_MOST && is_large;
            if is_shared && !plan.splits() && self.may_cut() {
                return Ok(Rows::InStages);
            }
            if is_shared && plan.splits() {
                geometry.count_first(axis);
                return self.split_columns(geometry, rows, extent).map(launched);
            }
            if chunks < 2 << COLUMN_LEVELS {
                geometry.count_first(axis);
                return self.columns(geometry, rows, extent).map(launched);
            }
        }
        if extent <= order::SHORT_MOST {
            return self.wave(geometry, rows, extent).map(launched);
        }
        if chunks > 1 && rows <= SPLIT_ROWS_MOST && plan.splits() {
            return self.split(geometry, rows, extent).map(launched);
        }
        let held = self.prepared.held(extent);
        let held = held.filter(|held| extent <= order::CHUNK_QUADS * QUAD || geometry.is_packed(held.width));
        if held.is_none() && chunks > 1 && is_large && rows <= STAGED_ROWS_MOST && self.may_cut() {
            return Ok(Rows::InStages);
        }
        let space = group_space(rows, extent);
        let group = Held { schedule: Schedule::Group, threads: THREADS, width: QUAD };
        let Held { schedule, threads, width } = held.unwrap_or(group);
        let shot = Shot { block: [threads as u32, 1, 1], ..group_shot(schedule, space.step) };
        self.row_launch(geometry, &space, width, &shot).map(launched)
    }

    /// Launches a schedule of rows, or [`Schedule::Group`], which takes rows of any length, as long as that stands in for it.
    fn row_launch(&self, geometry: &Geometry, space: &Space, width: usize, shot: &Shot) -> Result<()> {
        let (rows, extent) = (space.items, geometry.extents[0]);
        let stands_in = extent > 0 && self.prepared.has_stand_in(shot.schedule, is_wide(geometry, space))?;
        if !stands_in {
            return self.launch(geometry, space, width, shot);
        }
        let space = group_space(rows, extent);
        let shot = Shot { stands_in, ..group_shot(Schedule::Group, space.step) };
        self.launch(geometry, &space, QUAD, &shot)
    }

    /// Whether the graph can run in stages with these tensors.
    fn may_cut(&self) -> bool {
        self.prepared.stages().is_some_and(|stages| stages.may_run(self.inputs, self.outputs))
    }

    fn slots(&self) -> u64 {
        render::slots(&self.prepared.graph, &self.prepared.plan) as u64
    }

    fn wave_size(&self) -> usize {
        self.stream.device().arch().info().wave_size as usize
    }

    fn wave(&self, geometry: &Geometry, rows: usize, extent: usize) -> Result<()> {
        let packed = extent > 0 && geometry.is_packed(self.prepared.wave_width);
        let width = if packed { self.prepared.wave_width } else { QUAD };
        let steps = extent.div_ceil(width);
        let lanes = steps.next_power_of_two().min(self.wave_size()).min(order::SHORT_CHAINS * QUAD / width);
        let turns = steps.div_ceil(lanes);
        let rows_per_group = THREADS / lanes;
        let groups = groups(rows.div_ceil(rows_per_group));
        let space = Space {
            items: rows,
            step: groups * rows_per_group,
            lanes_log2: lanes.ilog2(),
            turns,
            quads: extent.div_ceil(QUAD),
            chains: order::chains(extent),
            first: extent,
            second: None,
        };
        self.row_launch(geometry, &space, width, &group_shot(render::wave_schedule(turns, packed), groups))
    }

    /// Whether [`COLUMN_ROWS`] neighbouring rows can be read in one access.
    fn rows_come_in_pairs(&self, geometry: &Geometry) -> bool {
        let read = |placement: &&Placement| placement.kind == Kind::Full;
        self.prepared.wide_columns
            && geometry.extents[1].is_multiple_of(COLUMN_ROWS)
            && geometry.placements().iter().filter(read).all(|placement| geometry.comes_in(COLUMN_ROWS, placement, 1))
    }

    fn columns(&self, geometry: &Geometry, rows: usize, extent: usize) -> Result<()> {
        let (quads, chains, lanes) = (extent.div_ceil(QUAD), order::chains(extent), self.wave_size());
        let is_wide = order::chunks(extent) == 1
            && rows >= COLUMN_WIDE_GROUPS_LEAST * lanes * COLUMN_ROWS
            && !self.prepared.has_row_inputs()
            && self.rows_come_in_pairs(geometry);
        let (schedule, each, most) = match is_wide {
            true => (Schedule::ColumnsWide, COLUMN_ROWS, COLUMN_WIDE_WAVES),
            false => (Schedule::Columns, 1, COLUMN_WAVES),
        };
        let waves = quads.min(chains).div_ceil(COLUMN_CHAINS_LEAST).next_power_of_two().min(most);
        let groups = groups(rows.div_ceil(lanes * each));
        let space = Space {
            items: rows,
            step: groups * lanes * each,
            lanes_log2: waves.ilog2(),
            quads,
            chains,
            first: extent,
            ..Space::default()
        };
        let shot = Shot { block: [lanes as u32, waves as u32, 1], ..group_shot(schedule, groups) };
        self.launch(geometry, &space, QUAD, &shot)
    }

    /// Launches [`Schedule::SplitColumns`] and then [`Schedule::Join`]. A workgroup of the first sums a part of the chains of a chunk, for
    /// as many rows as a wave has lanes, or twice as many; the second adds the totals of each row. The chains of a part are a power of
    /// two, so that its total is that of a subtree, and the totals of a row are the leaves of one tree.
    fn split_columns(&self, geometry: &Geometry, rows: usize, extent: usize) -> Result<()> {
        let (schedule, each) = match self.rows_come_in_pairs(geometry) {
            true => (Schedule::SplitColumnsWide, COLUMN_ROWS),
            false => (Schedule::SplitColumns, 1),
        };
        let (chunks, lanes) = (order::chunks(extent), self.wave_size());
        let groups = rows.div_ceil(lanes * each);
        let mut parts = 1;
        while parts * SPLIT_COLUMN_WAVES < order::LONG_CHAINS && groups * chunks * parts < SPLIT_GROUPS_MANY {
            parts *= 2;
        }
        let totals = chunks * parts;
        let space =
            Space { items: rows, step: groups * lanes * each, lanes_log2: parts.ilog2(), ..group_space(rows, extent) };
        let first = Shot {
            grid: [totals as u32, groups as u32, 1],
            block: [lanes as u32, SPLIT_COLUMN_WAVES as u32, 1],
            ..group_shot(schedule, totals)
        };
        self.split_into(geometry, &space, totals, first)
    }

    /// Launches [`Schedule::Split`] and then [`Schedule::Join`]: a workgroup of the first sums some chunks of a row, the second adds the
    /// totals of each row.
    fn split(&self, geometry: &Geometry, rows: usize, extent: usize) -> Result<()> {
        let chunks = order::chunks(extent);
        let mut turns = 1;
        while turns < SPLIT_CHUNKS && chunks.div_ceil(2 * turns) * rows >= SPLIT_GROUPS_MANY {
            turns *= 2;
        }
        let totals = chunks.div_ceil(turns);
        let space = Space { turns, ..group_space(rows, extent) };
        let first = Shot { grid: [totals as u32, rows as u32, 1], ..group_shot(Schedule::Split, totals) };
        self.split_into(geometry, &space, totals, first)
    }

    /// Launches `first`, which makes `totals` totals of each row and reduction, and then [`Schedule::Join`], which adds them and finishes
    /// the rows.
    fn split_into(&self, geometry: &Geometry, space: &Space, totals: usize, first: Shot) -> Result<()> {
        let (rows, reductions) = (space.items, self.prepared.plan.passes[0].reduces.len());
        let partials = Tensor::empty(&self.stream.device(), &[reductions, rows, totals], DType::U64)?;
        let address = Some((partials.buffer().device_address(), totals as u64));
        let first = Shot { partials: address, ..first };
        self.launch_into(geometry, space, QUAD, &first, &[partials.buffer()])?;
        let space = group_space(rows, geometry.extents[0]);
        let second = Shot { partials: address, ..group_shot(Schedule::Join, space.step) };
        self.launch(geometry, &space, QUAD, &second)
    }

    fn launch(&self, geometry: &Geometry, space: &Space, width: usize, shot: &Shot) -> Result<()> {
        self.written(|written| self.launch_into(geometry, space, width, shot, written))
    }

    /// Calls `then` with the buffers of the outputs.
    fn written(&self, then: impl FnOnce(&[&Buffer]) -> Result<()>) -> Result<()> {
        let Some(first) = self.outputs.first() else { return Ok(()) };
        let mut list = [first.buffer(); TENSORS_MOST];
        list.iter_mut().zip(self.outputs).for_each(|(slot, output)| *slot = output.buffer());
        then(&list[..self.outputs.len()])
    }

    /// The views of all tensors, inputs first.
    fn views(&self) -> impl Iterator<Item = &'a View<'a>> {
        self.inputs.iter().chain(self.outputs.iter().map(|output| &**output))
    }

    /// Repeats an earlier launch, if only memory and scalars differ from it; `None` if there is no such launch.
    fn again(&self) -> Option<Result<()>> {
        let recent = &mut *self.prepared.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let last = recent.find(self)?;
        let shot = last.shot?;
        if let Err(error) =
            check_aliases(&self.prepared.graph, &self.prepared.arguments, |slot| &self.inputs[slot], self.outputs)
        {
            return Some(Err(error));
        }
        let inputs = self.inputs.len();
        for (argument, &base) in self.prepared.arguments.iter().zip(&last.bases) {
            let (view, at) = match *argument {
                Argument::Input(slot, _) => (&self.inputs[slot], slot),
                Argument::Output(slot) => (&*self.outputs[slot], inputs + slot),
            };
            let word = &mut last.bytes[base..base + 8];
            let moved = view.device_address().wrapping_sub(last.tensors[at].1);
            let known = u64::from_le_bytes((&*word).try_into().expect("eight bytes"));
            word.copy_from_slice(&known.wrapping_add(moved).to_le_bytes());
        }
        last.tensors.iter_mut().zip(self.views()).for_each(|(known, view)| known.1 = view.device_address());
        let scalars = self.scalars.iter().zip(self.prepared.graph.scalars());
        for (word, (scalar, dtype)) in last.bytes[last.numbers..].chunks_exact_mut(8).zip(scalars) {
            word.copy_from_slice(&scalar.bits(dtype).to_le_bytes());
        }
        let work = Work { category: Category::Elementwise, ..Work::default() };
        let put = |written: &[&Buffer]| {
            let function = self.prepared.function(shot.schedule, last.wide)?;
            self.put(function, &shot, last.wide, &last.bytes, (written, work))
        };
        Some(self.written(put))
    }

    fn launch_into(
        &self,
        geometry: &Geometry,
        space: &Space,
        width: usize,
        shot: &Shot,
        written: &[&Buffer],
    ) -> Result<()> {
        let wide = is_wide(geometry, space);
        let function = self.prepared.function(shot.schedule, wide)?;
        let mut block = Block::new(wide);
        write_space(&mut block, geometry, space);
        let slots = if shot.schedule == Schedule::Tiled { self.slots() } else { 0 };
        let mut tiles = TILED..TILED + slots;
        let mut bases = [0; TENSORS_MOST];
        for (placement, base) in geometry.placements().iter().zip(&mut bases) {
            let (below, _) = geometry.reach(placement);
            *base = block.bytes().len();
            block.word(placement.address - below);
            block.index(below);
            let mode = if tiles.end > tiles.start && geometry.crosses(placement, 1) {
                tiles.start += 1;
                tiles.start - 1
            } else {
                geometry.mode(placement, width) as u64
            };
            block.index(mode);
            for stride in placement.strides {
                block.index(stride as u64);
            }
        }
        for (stride, extent) in geometry.placements().iter().filter_map(|placement| placement.looked_up) {
            block.index(stride as u64);
            block.index(extent as u64);
        }
        let numbers = block.bytes().len();
        for (scalar, dtype) in self.scalars.iter().zip(self.prepared.graph.scalars()) {
            block.word(scalar.bits(dtype));
        }
        if let Some((address, chunks)) = shot.partials {
            block.word(address);
            block.word(chunks);
        }
        let mut shape = geometry.extents;
        let mut work = Work { category: Category::Elementwise, ..Work::default() };
        if self.stream.is_profiled() {
            shape[..geometry.rank].reverse();
            let shape = &shape[..geometry.rank];
            // Each operator counts once per element, whatever it costs; a reduction does too, as it adds every element.
            let flops = shape.iter().product::<usize>() as u64 * self.prepared.graph.operators() as u64;
            work = Work { shape, bytes: geometry.bytes(), flops, ..work };
        }
        if shot.may_come_again() {
            let mut recent = self.prepared.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.oldest().keep(self, block.bytes(), (&bases[..geometry.placements().len()], numbers), (*shot, wide));
        }
        self.put(function, shot, wide, block.bytes(), (written, work))
    }

    fn put(
        &self,
        function: &Function,
        shot: &Shot,
        wide: bool,
        args: &[u8],
        (outputs, work): (&[&Buffer], Work<'_>),
    ) -> Result<()> {
        let label = self.prepared.graph.name();
        let launch = Launch { work, label, grid: shot.grid, block: shot.block, lds_bytes: 0, args, outputs };
        let is_small = shot.grid[0] <= TOGETHER_GROUPS_MOST && shot.grid[1] == 1 && shot.may_come_again();
        let capacity = if is_small { capacity(launch.args.len()) } else { 0 };
        let several = || match self.prepared.several(shot.schedule, wide, capacity) {
            Ok(function) => Ok(function.clone()),
            Err(Error::Hal(error)) => Err(error),
            Err(other) => unreachable!("a graph that is launched was checked before: {other}"),
        };
        let joined = JoinedKernel { capacity, common: 0, writes: self.outputs, function: &several };
        Ok(launch::launch(self.stream, function, &launch, self.inputs, &joined)?)
    }
}

/// How many launches of a graph are remembered: a model runs one graph over a few shapes in turn.
const RECENT_MOST: usize = 4;

/// The last launches of a graph, the newest first.
#[derive(Default)]
pub(crate) struct Recent([Last; RECENT_MOST]);

impl Recent {
    /// A remembered launch that differs from `call` in memory and scalars only; it becomes the newest.
    fn find(&mut self, call: &Call<'_>) -> Option<&mut Last> {
        let at = self.0.iter().position(|last| last.shot.is_some() && last.fits(call))?;
        self.0[..=at].rotate_right(1);
        Some(&mut self.0[0])
    }

    /// The launch that was not used for longest, to be overwritten; it becomes the newest.
    fn oldest(&mut self) -> &mut Last {
        self.0.rotate_right(1);
        &mut self.0[0]
    }
}

/// A remembered launch of a graph. When it is overwritten, its lists keep their memory.
#[derive(Default)]
struct Last {
    shape: Dims,
    /// Each tensor's layout and address, inputs first.
    tensors: Vec<(Layout, u64)>,
    /// The argument block.
    bytes: Vec<u8>,
    /// For each tensor, the byte of its address in the block.
    bases: Vec<usize>,
    /// The byte at which the scalars begin.
    numbers: usize,
    /// `None` if no launch was kept here yet.
    shot: Option<Shot>,
    wide: bool,
}

impl Last {
    fn keep(&mut self, call: &Call<'_>, bytes: &[u8], (bases, numbers): (&[usize], usize), (shot, wide): (Shot, bool)) {
        self.shape = Dims::new(call.shape).expect("the rank was checked");
        self.tensors.clear();
        self.tensors.extend(call.views().map(|view| (*view.layout(), view.device_address())));
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.bases.clear();
        self.bases.extend_from_slice(bases);
        (self.numbers, self.shot, self.wide) = (numbers, Some(shot), wide);
    }

    /// Whether a launch differs from this one in memory and scalars only. Addresses must be aligned alike for the longest access.
    fn fits(&self, call: &Call<'_>) -> bool {
        let is_like = |(known, view): (&(Layout, u64), &View<'_>)| {
            known.0.is_like(view.layout()) && (known.1 ^ view.device_address()).is_multiple_of(ALIGNMENT)
        };
        *self.shape == *call.shape && !call.stream.is_profiled() && self.tensors.iter().zip(call.views()).all(is_like)
    }
}

fn group_space(rows: usize, extent: usize) -> Space {
    Space {
        items: rows,
        step: rows.min(GROUPS_MOST),
        lanes_log2: 0,
        turns: 0,
        quads: extent.div_ceil(QUAD),
        chains: order::chains(extent),
        first: extent,
        second: None,
    }
}

/// How many workgroups to launch for work that is enough for `enough` of them.
fn groups(enough: usize) -> usize {
    if enough <= GROUPS_MANY { enough } else { GROUPS_MANY.max(enough.div_ceil(ITEMS_OF_GROUP)) }
}

fn group_shot(schedule: Schedule, groups: usize) -> Shot {
    Shot { schedule, grid: [groups as u32, 1, 1], block: [THREADS as u32, 1, 1], partials: None, stands_in: false }
}

/// Whether offsets or item numbers need 64 bits.
fn is_wide(geometry: &Geometry, space: &Space) -> bool {
    // Lanes behind the end of a row compute a column up to one sweep beyond it before they find that it is not there.
    let beyond = (THREADS * QUAD) as u64;
    space.items as u64 + space.step as u64 >= NARROW_ITEMS
        || geometry.extents[0] as u64 + beyond >= NARROW_ITEMS
        || geometry.placements().iter().any(|placement| geometry.reach(placement).1 > u64::from(u32::MAX))
}

fn write_space(block: &mut Block, geometry: &Geometry, space: &Space) {
    block.index(space.items as u64);
    block.index(space.step as u64);
    block.index(geometry.extents[0] as u64);
    block.index(geometry.rank as u64);
    block.index(space.lanes_log2.into());
    block.index(space.turns as u64);
    block.index(space.quads as u64);
    block.index(space.chains as u64);
    for axis in 0..MAX_RANK {
        let extent = match (axis, space.second) {
            (0, _) => space.first,
            (1, Some(second)) => second,
            _ => geometry.extents[axis],
        } as u64;
        let (multiplier, shift) = divider(extent);
        block.index(extent);
        block.index(multiplier);
        block.index(shift.into());
    }
}

/// Multiplier and shift with which `((n · multiplier >> 32) + n) >> shift` is `n / divisor` for every `n < 2^31`
/// (Granlund and Montgomery 1994, figure 4.1). A divisor of 2^31 or more only occurs where 64 bits are used, which divide.
fn divider(divisor: u64) -> (u64, u32) {
    if divisor == 0 || divisor >= NARROW_ITEMS {
        return (0, 0);
    }
    let shift = divisor.next_power_of_two().ilog2();
    let multiplier = ((1u64 << 32) * ((1 << shift) - divisor)) / divisor + 1;
    (multiplier, shift)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn division_by_multiplication_is_division(n in 0u64..NARROW_ITEMS, divisor in 1u64..NARROW_ITEMS) {
            let (multiplier, shift) = divider(divisor);
            prop_assert!(multiplier <= u64::from(u32::MAX));
            // Tried for the number itself and beside a multiple of the divisor, where the quotient changes.
            let below = n - n % divisor;
            for n in [n, below, below.saturating_sub(1)] {
                prop_assert_eq!((((n * multiplier) >> 32) + n) >> shift, n / divisor);
            }
        }
    }

    #[test]
    fn a_tensor_that_reaches_over_4_gib_takes_64_bit_offsets() {
        let device = rocfire_hal::DeviceId::noop("gfx942").unwrap();
        let device = rocfire_hal::Device::open(device, rocfire_hal::Config::default()).unwrap();
        let all = rocfire_hal::Tensor::empty(&device, &[1 << 16, 1 << 15], rocfire_hal::DType::F32).unwrap();
        // Both parts have 2^20 elements: 32 whole rows, and 16 whole columns.
        for (axis, length, reaches_far) in [(0, 32, false), (1, 16, true)] {
            let part = all.with_layout(all.layout().slice(axis, 0, length, 1).unwrap()).unwrap();
            let mut geometry = Geometry::new(part.shape());
            assert!(geometry.lay(&part.view(), Role::Read(Kind::Full)));
            let items = part.shape().iter().product();
            let space = Space { items, step: 1, lanes_log2: 0, turns: 1, quads: 1, chains: 1, first: 1, second: None };
            assert_eq!(is_wide(&geometry, &space), reaches_far);
        }
    }
}
