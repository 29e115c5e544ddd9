//! Launches that come again in the same order, put on a GPU as one graph of its driver's.
//!
//! A launch costs the host 2.6 to 3.7 µs in CUDA's driver, one of a graph's sixteen 0.1 µs. Setting its arguments before costs 0.4 µs
//! over and over, but in a training step of a transformer, whose memory is cold by then, as much as a launch (H200, CUDA 13.0,
//! 2026-11-28: `cuLaunchKernelEx`, `cuGraphLaunch`, `cuGraphExecKernelNodeSetParams`). So within [`crate::Stream::together`] launches are
//! held until there are `HELD_MOST`, or something comes that no graph here has: a copy, a product by a vendor's library, a read, a
//! wait. What is held is a segment. Its arguments are compared with those of the last times that the same kernels came with the same
//! grids and blocks; once at most half of its launches have others, it becomes a graph, and is replayed whenever that is so again, the
//! ones that differ set before. Else its launches go one by one. Where arguments come back in turns, as memory often does, there are
//! up to `INSTANCES_MOST` graphs of a segment.
//!
//! Each instance's first replay, and the first with arguments that were set, are compared with the launches one by one, every byte
//! that these write; a segment that differs there is never replayed again. `stream/replay.rs` does all that; here is what is kept.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::{Arc, Weak};

use rustc_hash::{FxHashMap, FxHasher};

use crate::Function;
use crate::buffer::Memory;
use crate::command::{Action, Command, StreamName};
use crate::driver::{LaunchGraph, RawLaunch};
use crate::profile::{Category, Work};

/// Most launches of a segment. A graph of so many costs the host less than one launch; more would let the device wait for the first.
pub(crate) const HELD_MOST: usize = 16;
/// Fewest: what a graph costs besides its launches is half a launch.
pub(crate) const HELD_LEAST: usize = 3;
/// How often a segment has come when its arguments begin to be remembered: most never come again.
const SEEN_LEAST: u32 = 2;
/// Most graphs of one segment.
const INSTANCES_MOST: usize = 4;
/// Of how many times before the arguments are remembered.
const TURNS_MOST: usize = 4;
/// Most segments that are known. All are forgotten when there are more: shapes have changed all the time.
const KNOWN_MOST: usize = 1024;

/// What a stream has replayed since its device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replays {
    /// Graphs that were made.
    pub graphs: u64,
    /// Replays.
    pub replays: u64,
    /// Launches in them.
    pub launches: u64,
    /// Those whose arguments were set before.
    pub updates: u64,
    /// Segments that a driver's graph did wrongly, or not at all.
    pub refused: u64,
}

impl Replays {
    /// What has come since an earlier count.
    pub fn since(&self, earlier: &Replays) -> Replays {
        Replays {
            graphs: self.graphs - earlier.graphs,
            replays: self.replays - earlier.replays,
            launches: self.launches - earlier.launches,
            updates: self.updates - earlier.updates,
            refused: self.refused - earlier.refused,
        }
    }
}

/// Memory that a held launch writes. It is not kept: what nobody has any more, nobody reads.
pub(crate) struct Written {
    pub memory: Weak<Memory>,
    pub address: u64,
    pub bytes: u64,
}

/// What a launch has in common with its like in a graph.
#[derive(Clone)]
struct Shape {
    function: Function,
    grid: [u32; 3],
    block: [u32; 3],
    lds_bytes: u32,
    begins_late: bool,
}

impl Shape {
    fn is(&self, other: &Shape) -> bool {
        self.function.same(&other.function)
            && (self.grid, self.block, self.lds_bytes) == (other.grid, other.block, other.lds_bytes)
            && self.begins_late == other.begins_late
    }
}

struct HeldLaunch {
    label: &'static str,
    category: Category,
    shape: Shape,
    /// Where its arguments, and what it writes, end in those of all.
    args_end: usize,
    written_end: usize,
}

/// Launches that are held, in their order. Its memory is kept when they have gone.
#[derive(Default)]
pub(crate) struct Held {
    launches: Vec<HeldLaunch>,
    args: Vec<u8>,
    written: Vec<Written>,
    hash: FxHasher,
    /// Room for the memory of a launch that goes by itself.
    pub room: Vec<Arc<Memory>>,
}

impl Held {
    pub fn len(&self) -> usize {
        self.launches.len()
    }

    /// Adds a command; `false` if it is no kernel's launch.
    pub fn push<'m>(&mut self, command: &Command<'_>, written: impl Iterator<Item = &'m Arc<Memory>>) -> bool {
        let Action::Kernel { function, grid, block, lds_bytes, args } = command.action else { return false };
        self.args.extend_from_slice(args);
        self.written.extend(written.map(|memory| Written {
            memory: Arc::downgrade(memory),
            address: memory.address(),
            bytes: memory.bytes(),
        }));
        self.hash.write_usize(function.number());
        grid.iter().chain(&block).for_each(|&word| self.hash.write_u32(word));
        self.hash.write_u32(lds_bytes);
        // Ahead of the first may be copies that a comparison makes.
        let begins_late = command.begins_late || command.early.is_some() && self.len() == 0;
        self.hash.write_u8(begins_late.into());
        let shape = Shape { function: function.clone(), grid, block, lds_bytes, begins_late };
        let (args_end, written_end) = (self.args.len(), self.written.len());
        let (label, category) = (command.label, command.work.category);
        self.launches.push(HeldLaunch { label, category, shape, args_end, written_end });
        true
    }

    /// How many of them have other arguments than these, which are of launches of the same kernels.
    fn different(&self, args: &[u8]) -> usize {
        let mut first = 0;
        let differs = |launch: &&HeldLaunch| {
            let range = std::mem::replace(&mut first, launch.args_end)..launch.args_end;
            self.args[range.clone()] != args[range]
        };
        self.launches.iter().filter(differs).count()
    }

    fn start(&self, at: usize, end: impl Fn(&HeldLaunch) -> usize) -> usize {
        at.checked_sub(1).map_or(0, |before| end(&self.launches[before]))
    }

    fn args(&self, at: usize) -> &[u8] {
        &self.args[self.start(at, |launch| launch.args_end)..self.launches[at].args_end]
    }

    /// What one of them writes.
    pub fn written(&self, at: usize) -> &[Written] {
        &self.written[self.start(at, |launch| launch.written_end)..self.launches[at].written_end]
    }

    /// What all of them write.
    pub fn all_written(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.written.iter().map(|written| (written.address, written.bytes))
    }

    /// One of them, to be done.
    pub fn command(&self, at: usize) -> Command<'_> {
        let HeldLaunch { label, category, shape, .. } = &self.launches[at];
        let &Shape { ref function, grid, block, lds_bytes, begins_late } = shape;
        let action = Action::Kernel { function, grid, block, lds_bytes, args: self.args(at) };
        let work = Work { category: *category, ..Work::default() };
        Command { label, stream: StreamName::Compute, action, work, early: None, begins_late }
    }

    /// One of them, as a driver gets it, and its kernel.
    pub fn raw(&self, at: usize) -> (&Function, RawLaunch<'_>) {
        let &Shape { ref function, grid, block, lds_bytes, begins_late } = &self.launches[at].shape;
        (function, RawLaunch { grid, block, lds_bytes, args: self.args(at), begins_late })
    }

    pub fn clear(&mut self) {
        self.launches.clear();
        self.args.clear();
        self.written.clear();
        self.hash = FxHasher::default();
    }
}

/// A graph of a segment, with the arguments that it has by now.
pub(crate) struct Instance {
    graph: Box<dyn LaunchGraph>,
    args: Vec<u8>,
    /// Whether a replay as it was made, and one with arguments that were set, was compared with the launches.
    pub is_compared: [bool; 2],
}

impl Instance {
    pub fn new(graph: Box<dyn LaunchGraph>, held: &Held) -> Instance {
        Instance { graph, args: held.args.clone(), is_compared: [false; 2] }
    }

    pub fn graph(&mut self) -> &mut dyn LaunchGraph {
        &mut *self.graph
    }

    /// Sets the arguments that are others; how many launches have such.
    ///
    /// # Errors
    /// The driver's own; the instance is of no use any more.
    pub fn set(&mut self, held: &Held) -> crate::Result<usize> {
        let mut count = 0;
        let (mut first, all) = (0, &mut self.args);
        for (at, launch) in held.launches.iter().enumerate() {
            let range = std::mem::replace(&mut first, launch.args_end)..launch.args_end;
            if all[range.clone()] != held.args[range.clone()] {
                self.graph.set(at, &held.raw(at).1)?;
                all[range.clone()].copy_from_slice(&held.args[range]);
                count += 1;
            }
        }
        Ok(count)
    }
}

/// What is done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// An instance is replayed.
    Replay(usize),
    /// Another is made.
    Make,
    /// Its launches go one by one.
    Each,
}

/// A segment that has come before.
pub(crate) struct Segment {
    shapes: Vec<Shape>,
    pub instances: Vec<Instance>,
    /// The arguments that it came with lately while no instance had most of them, the newest last.
    turns: VecDeque<Vec<u8>>,
}

impl Segment {
    fn new(held: &Held) -> Segment {
        let shapes = held.launches.iter().map(|launch| launch.shape.clone()).collect();
        Segment { shapes, instances: Vec::new(), turns: VecDeque::with_capacity(TURNS_MOST) }
    }

    fn is_of(&self, held: &Held) -> bool {
        self.shapes.len() == held.len()
            && self.shapes.iter().zip(&held.launches).all(|(shape, launch)| shape.is(&launch.shape))
    }

    /// What is done this time.
    pub fn choose(&mut self, held: &Held) -> Choice {
        let most = held.len() / 2;
        let counts = self.instances.iter().map(|instance| held.different(&instance.args));
        if let Some((at, count)) = counts.enumerate().min_by_key(|(_, count)| *count)
            && count <= most
        {
            return Choice::Replay(at);
        }
        let before = self.turns.len();
        self.turns.retain(|turn| held.different(turn) > most);
        if self.turns.len() < before {
            return Choice::Make;
        }
        let oldest = if self.turns.len() == TURNS_MOST { self.turns.pop_front() } else { None };
        let mut turn = oldest.unwrap_or_default();
        turn.clear();
        turn.extend_from_slice(&held.args);
        self.turns.push_back(turn);
        Choice::Each
    }

    /// Whether there are as many instances as there may be.
    pub fn is_full(&self) -> bool {
        self.instances.len() == INSTANCES_MOST
    }
}

enum Known {
    /// How often it has come.
    Seen(u32),
    Kept(Box<Segment>),
    /// It is not replayed.
    Refused,
}

/// What a stream keeps for replays.
#[derive(Default)]
pub(crate) struct Replaying {
    /// How many would have launches put together.
    open: usize,
    pub held: Held,
    known: FxHashMap<u64, Known>,
    pub counts: Replays,
}

impl Replaying {
    /// From now on launches are held.
    pub fn open(&mut self) {
        self.open += 1;
    }

    /// Ends that; whether nobody else would have them held.
    pub fn close(&mut self) -> bool {
        self.open -= 1;
        self.open == 0
    }

    pub fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Whether so many segments are known that no other can be.
    pub fn is_full(&self) -> bool {
        self.known.len() >= KNOWN_MOST
    }

    /// Forgets all of them; no replay may be under way.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Takes out the segment that is held, if it is to be replayed; give it back with [`Replaying::keep`].
    pub fn take(&mut self, held: &Held) -> Option<Box<Segment>> {
        let known = self.known.entry(held.hash.finish()).or_insert(Known::Seen(0));
        match known {
            Known::Seen(count) if *count < SEEN_LEAST => {
                *count += 1;
                None
            }
            Known::Seen(_) => {
                *known = Known::Refused;
                Some(Box::new(Segment::new(held)))
            }
            Known::Kept(segment) if !segment.is_of(held) => None,
            Known::Kept(_) => match std::mem::replace(known, Known::Refused) {
                Known::Kept(segment) => Some(segment),
                Known::Seen(_) | Known::Refused => unreachable!("it was looked at"),
            },
            Known::Refused => None,
        }
    }

    /// Keeps a segment for its next time. One that is not given back is not replayed again.
    pub fn keep(&mut self, held: &Held, segment: Box<Segment>) {
        self.known.insert(held.hash.finish(), Known::Kept(segment));
    }
}
