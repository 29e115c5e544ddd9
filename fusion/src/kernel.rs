//! The table of a process's kernels: one entry per graph and device, with a kernel per schedule, compiled when it is first needed.
//!
//! Looking a kernel up allocates nothing. Compiling goes through `hal`, whose cache on disk makes it a load in every process
//! but the first.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use rocfire_hal::{Device, Function, Generic, Source, Stream};
use rustc_hash::FxHashMap;

use crate::block;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node};
use crate::order::QUAD;
use crate::plan::{Argument, Plan, arguments, lookups};
use crate::render::{self, Schedule, THREADS};
use crate::run::Recent;
use crate::scalar::Scalar;
use crate::sigmoid::Defined;
use crate::stages::Stages;

/// How a workgroup takes a row that it keeps in registers.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub schedule: Schedule,
    pub threads: usize,
    /// How many elements a thread reads at once.
    pub width: usize,
}

/// The schedules that keep a long row in registers, each with the most quads that one of [`THREADS`] threads would hold.
const HELD: [(usize, Schedule); 6] = [
    (2, Schedule::Held2),
    (4, Schedule::Held4),
    (8, Schedule::Held8),
    (16, Schedule::HeldLong2),
    (32, Schedule::HeldLong4),
    (64, Schedule::HeldLong8),
];

/// The most threads that a workgroup can have on every device.
const THREADS_MOST: usize = 1024;

/// Kernels by schedule and by whether indices have 64 bits.
type Kernels = [[OnceLock<Function>; 2]; Schedule::ALL.len()];

/// A graph that was analysed for one device, with its kernels there.
pub(crate) struct Prepared {
    pub graph: Graph,
    /// The graph to run instead for certain scalars: sigmoids as they are defined.
    defined: Option<Defined>,
    pub plan: Plan,
    pub arguments: Vec<Argument>,
    /// How many elements a lane takes at once in the elementwise schedule.
    pub vector: usize,
    /// Whether a lane may take one element instead, where the last axis is shorter than a vector.
    pub may_be_single: bool,
    /// How many elements a lane takes at once of a short row that lies packed.
    pub wave_width: usize,
    /// Whether a lane may take several rows in [`Schedule::Columns`].
    pub wide_columns: bool,
    /// The schedules of `HELD`; `None` where there are not enough registers.
    held: [Option<Held>; HELD.len()],
    functions: Kernels,
    /// The graph cut between its passes, once that was wanted; `None` inside if it cannot be.
    stages: OnceLock<Option<Stages>>,
    /// The kernels for joined launches.
    several: Kernels,
    /// The last launches, to repeat them with other memory.
    pub recent: Mutex<Recent>,
    /// Keeps the device open, so that its stream's address names no other while this is in the map.
    device: Device,
}

type Map = FxHashMap<(usize, u128), Arc<Prepared>>;

static PREPARED: RwLock<Option<Map>> = RwLock::new(None);

/// The entry of a graph on the stream's device for these scalars. The graph is analysed at its first use.
///
/// # Errors
/// [`Error::Invalid`], [`Error::Arguments`].
pub(crate) fn prepare(stream: &Stream, graph: &Graph, scalars: &[Scalar]) -> Result<Arc<Prepared>> {
    let prepared = known(stream, graph)?;
    match &prepared.defined {
        Some(defined) if defined.holds(scalars) => known(stream, &defined.graph),
        _ => Ok(prepared),
    }
}

fn known(stream: &Stream, graph: &Graph) -> Result<Arc<Prepared>> {
    let key = (std::ptr::from_ref(stream) as usize, graph.hash());
    let map = PREPARED.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = map.as_ref().and_then(|map| map.get(&key)) {
        return Ok(Arc::clone(found));
    }
    drop(map);
    let made = Arc::new(Prepared::new(stream.device(), graph)?);
    let mut map = PREPARED.write().unwrap_or_else(PoisonError::into_inner);
    Ok(Arc::clone(map.get_or_insert_default().entry(key).or_insert(made)))
}

impl Prepared {
    fn new(device: Device, graph: &Graph) -> Result<Prepared> {
        graph.verify()?;
        let graph = graph.simplify();
        let plan = Plan::new(&graph);
        let arguments = arguments(&graph, &plan);
        let lookups = lookups(&graph, &plan).len();
        let scalars = graph.scalars as usize;
        if !block::has_room(arguments.len(), lookups, scalars) {
            let bytes = block::longest(arguments.len(), lookups, scalars);
            return Err(Error::Arguments { graph: graph.name(), bytes, most: block::BLOCK_BYTES });
        }
        let vector = render::vector(&graph, &plan);
        let may_be_single = render::may_be_single(&graph, &plan);
        let held = HELD.map(|(turns, schedule)| {
            let (threads, chains) = render::threads(&graph, &plan, turns);
            let fits = render::fits(&graph, &plan, turns) && threads <= THREADS_MOST;
            fits.then_some(Held { schedule, threads, width: QUAD * chains })
        });
        let wave_width = QUAD * render::wave_chains(&graph, &plan);
        let wide_columns = render::can_be_wide(&graph, &plan);
        let (functions, several) = Default::default();
        let defined = graph.defined_sigmoids();
        Ok(Prepared {
            graph,
            defined,
            plan,
            arguments,
            vector,
            may_be_single,
            wave_width,
            wide_columns,
            held,
            functions,
            stages: OnceLock::new(),
            several,
            recent: Mutex::default(),
            device,
        })
    }

    /// How a long row of `extent` elements is kept in registers; `None` if there are not enough of them.
    pub(crate) fn held(&self, extent: usize) -> Option<Held> {
        let turns = extent.div_ceil(QUAD).div_ceil(THREADS);
        self.held[HELD.iter().position(|(most, _)| turns <= *most)?]
    }

    /// Whether the graph reads tensors with one value per row.
    pub(crate) fn has_row_inputs(&self) -> bool {
        let is_row_input = |&(node, _): &(Node, _)| matches!(node, Node::RowInput(_));
        self.graph.nodes.iter().zip(&self.plan.live).any(|(node, &live)| live && is_row_input(node))
    }

    /// The graph cut between its passes; `None` if it cannot be cut.
    pub(crate) fn stages(&self) -> Option<&Stages> {
        self.stages.get_or_init(|| Stages::new(&self.graph, &self.plan)).as_ref()
    }

    /// The kernel of a schedule, compiled or loaded at its first use.
    ///
    /// # Errors
    /// [`Error::Hal`].
    pub(crate) fn function(&self, schedule: Schedule, wide: bool) -> Result<&Function> {
        self.kept(&self.functions, schedule, wide, 1, Device::function)
    }

    /// Whether [`Schedule::Group`] runs rows now in the place of another schedule.
    ///
    /// # Errors
    /// [`Error::Hal`].
    pub(crate) fn has_stand_in(&self, schedule: Schedule, wide: bool) -> Result<bool> {
        if schedule == Schedule::Group {
            return Ok(false);
        }
        Ok(match self.device.generic() {
            Generic::Never => false,
            Generic::Always => true,
            // A recording keeps for ever what it once has.
            Generic::First => !self.is_at_hand(schedule, wide)? && !self.device.is_capturing(),
        })
    }

    /// Whether the kernel of a schedule is at hand. If not, it is compiled behind what launches wait for.
    ///
    /// # Errors
    /// [`Error::Hal`].
    fn is_at_hand(&self, schedule: Schedule, wide: bool) -> Result<bool> {
        Ok(self.kept(&self.functions, schedule, wide, 1, Device::function_behind)?.has_come())
    }

    /// The kernel of a schedule for `members` joined launches, compiled or loaded at its first use.
    ///
    /// # Errors
    /// [`Error::Hal`].
    pub(crate) fn several(&self, schedule: Schedule, wide: bool, members: usize) -> Result<&Function> {
        self.kept(&self.several, schedule, wide, members, Device::function)
    }

    /// The kernel that a table has in a schedule's place, asked of the device where it has none.
    fn kept<'a>(
        &self,
        kernels: &'a Kernels,
        schedule: Schedule,
        wide: bool,
        members: usize,
        ask: fn(&Device, &Source, &str) -> rocfire_hal::Result<Function>,
    ) -> Result<&'a Function> {
        let slot = &kernels[schedule as usize][usize::from(wide)];
        if let Some(function) = slot.get() {
            return Ok(function);
        }
        let source = render::source(&self.graph, &self.plan, schedule, wide, members);
        let function = ask(&self.device, &source, render::ENTRY)?;
        Ok(slot.get_or_init(|| function))
    }
}
