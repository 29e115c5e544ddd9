//! The queue of a stream: launches that wait for others of their kernel, so that one launch does them all.
//!
//! The update of a model's parameters is one small kernel for each of them, with the same code and other tensors; so are the
//! products of one input with several weights. Such a launch is given to [`Stream::launch_joinable`]: it waits on the host,
//! and whatever of the same kernel comes next joins it, as long as neither touches what the other writes ([`Hazards`]). All
//! that waits goes to the device, as one [`Command`] for each kernel, before anything else does: another kernel that cannot
//! wait, a copy of what it touches, a wait. What waits is therefore never seen to wait. Nothing waits while launches are timed
//! or recorded for a graph. A launch that nothing joined is launched as if it had never waited.
//!
//! A kernel for several is the same code behind an argument struct `{u32 count, unused; u32 first[capacity]; Args
//! member[capacity]}`: `first` is the first workgroup of each member along the first axis of the grid.

use std::sync::Arc;

use crate::buffer::Memory;
use crate::command::Command;
use crate::hazard::{Access, Bytes, Hazards};
use crate::profile::Work;
use crate::{Buffer, Error, Function, Launch, Result, Stream, View, ViewMut};

/// Most buffers that the launches of a group write.
const WRITTEN_MOST: usize = 96;

/// The kernel that does several launches of another at once.
#[derive(Clone, Copy)]
pub struct JoinedKernel<'a> {
    /// How many launches it takes; even. Below 2 the launch does not wait.
    pub capacity: usize,
    /// What members must have in common besides the kernel: the address of an input, or 0 where nothing is asked.
    pub common: u64,
    /// What the launch writes, where it is less than all of its outputs; empty where that is not known.
    pub writes: &'a [ViewMut<'a>],
    /// The kernel; asked for when a second launch joins the first.
    pub function: &'a dyn Fn() -> Result<Function>,
}

/// Memory that a launch which waits touches, and which nobody else counts: see [`Buffer::is_unique`]. It keeps no device: the
/// stream that it waits on is the device's own.
struct HeldMemory {
    memory: Arc<Memory>,
    is_written: bool,
}

impl HeldMemory {
    fn new(buffer: &Buffer, is_written: bool) -> HeldMemory {
        HeldMemory { memory: buffer.hold(), is_written }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.memory.release();
    }
}

/// Launches of one kernel that wait. Its memory is kept when they have gone.
#[derive(Default)]
struct JoinedLaunch {
    label: &'static str,
    single: Option<Function>,
    several: Option<Function>,
    capacity: usize,
    block: [u32; 3],
    /// What members' grids have in common: all axes but the first.
    across: [u32; 2],
    lds_bytes: u32,
    common: u64,
    /// First workgroup of each member.
    firsts: Vec<u32>,
    groups: u32,
    /// Buffers that they write.
    written: usize,
    /// Arguments of all members, one behind the other.
    args: Vec<u8>,
    held: Vec<HeldMemory>,
    /// The argument struct of the launch.
    whole: Vec<u8>,
}

impl JoinedLaunch {
    fn is_of(&self, function: &Function, launch: &Launch<'_>, common: u64) -> bool {
        self.single.as_ref().is_some_and(|single| single.same(function))
            && self.label == launch.label
            && self.block == launch.block
            && self.across == launch.grid[1..]
            && self.lds_bytes == launch.lds_bytes
            && self.common == common
            && self.groups.checked_add(launch.grid[0]).is_some()
            && self.written + launch.outputs.len() <= WRITTEN_MOST
    }

    fn push(&mut self, launch: &Launch<'_>, reads: &[View<'_>]) {
        self.firsts.push(self.groups);
        self.groups += launch.grid[0];
        self.written += launch.outputs.len();
        self.args.extend_from_slice(launch.args);
        self.held.extend(launch.outputs.iter().map(|buffer| HeldMemory::new(buffer, true)));
        self.held.extend(reads.iter().map(|view| HeldMemory::new(view.buffer(), false)));
    }

    /// The arguments of the kernel for several.
    fn fill_whole(&mut self) {
        let member_bytes = self.args.len() / self.firsts.len();
        self.whole.clear();
        self.whole.extend_from_slice(&(self.firsts.len() as u32).to_le_bytes());
        self.whole.extend_from_slice(&[0; 4]);
        self.whole.extend(self.firsts.iter().flat_map(|first| first.to_le_bytes()));
        self.whole.resize(8 + 4 * self.capacity, 0);
        self.whole.extend_from_slice(&self.args);
        self.whole.resize(8 + (4 + member_bytes) * self.capacity, 0);
    }

    fn clear(&mut self) {
        (self.single, self.several, self.groups, self.written) = (None, None, 0, 0);
        self.firsts.clear();
        self.args.clear();
        self.held.clear();
    }
}

/// All launches that wait on a stream. None touches what another writes.
#[derive(Default)]
pub(crate) struct Queue {
    /// The first `live` of them have members.
    groups: Vec<JoinedLaunch>,
    live: usize,
    /// What all members access.
    hazards: Hazards,
}

/// What a launch reads and writes.
fn accesses(launch: &Launch<'_>, reads: &[View<'_>], joined: &JoinedKernel<'_>) -> impl Iterator<Item = Access> {
    let whole = if joined.writes.is_empty() { launch.outputs } else { &[] };
    let parts = joined.writes.iter().map(|view| Bytes::of(view));
    let written = parts.chain(whole.iter().map(|buffer| Bytes::all(buffer)));
    let read = reads.iter().map(Bytes::of).map(|bytes| Access { bytes, is_written: false });
    written.map(|bytes| Access { bytes, is_written: true }).chain(read)
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Whether work with this access must come after what waits.
    pub fn conflicts(&self, access: &Access) -> bool {
        !self.is_empty() && self.hazards.conflicts(access)
    }

    /// Adds a launch; whether its group has become full.
    fn add(
        &mut self,
        function: &Function,
        launch: &Launch<'_>,
        reads: &[View<'_>],
        joined: &JoinedKernel<'_>,
    ) -> Result<bool> {
        let found = self.groups[..self.live].iter().position(|group| group.is_of(function, launch, joined.common));
        let at = match found {
            Some(at) => {
                if self.groups[at].several.is_none() {
                    self.groups[at].several = Some((joined.function)()?);
                }
                at
            }
            None => {
                if self.live == self.groups.len() {
                    self.groups.push(JoinedLaunch::default());
                }
                let group = &mut self.groups[self.live];
                group.single = Some(function.clone());
                (group.label, group.block, group.capacity) = (launch.label, launch.block, joined.capacity);
                (group.across, group.lds_bytes) = ([launch.grid[1], launch.grid[2]], launch.lds_bytes);
                group.common = joined.common;
                self.live += 1;
                self.live - 1
            }
        };
        self.groups[at].push(launch, reads);
        self.hazards.add(accesses(launch, reads, joined));
        Ok(self.groups[at].firsts.len() == self.groups[at].capacity)
    }

    /// Takes the last group out, for its launch; give it back with [`Queue::keep`]. It keeps its place, and so each group
    /// finds the memory that it had when the same work came before.
    fn take(&mut self) -> JoinedLaunch {
        self.live -= 1;
        if self.live == 0 {
            self.hazards.clear();
        }
        std::mem::take(&mut self.groups[self.live])
    }

    fn keep(&mut self, mut group: JoinedLaunch) {
        group.clear();
        self.groups[self.live] = group;
    }
}

impl Stream {
    /// As [`Stream::launch`], but the launch may wait to share one with others of the same kernel. What it gives is the same
    /// as if it had not waited; so are errors of its arguments. Other failures poison its outputs. Members of one launch have
    /// equal grids but for their first axis. Allocates nothing unless it fails or is the first of its kind.
    ///
    /// # Safety
    /// - As [`Stream::launch`], also for the kernel for several with the arguments of all members.
    /// - `reads` is every view that the kernel reads; `joined.writes`, if there are any, every view that it writes.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for memory of another device; as [`Stream::launch`]; those of
    /// making the kernel for several.
    pub unsafe fn launch_joinable(
        &self,
        function: &Function,
        launch: &Launch<'_>,
        reads: &[View<'_>],
        joined: &JoinedKernel<'_>,
    ) -> Result<()> {
        self.require_all_here(launch, reads)?;
        let is_listed = (1..=WRITTEN_MOST).contains(&launch.outputs.len());
        if joined.capacity < 2 || !is_listed || self.waits_for_each() {
            // SAFETY: the caller's duties, passed on.
            return unsafe { self.launch(function, launch) };
        }
        self.check(function, launch)?;
        let mut state = self.lock();
        if state.is_direct() {
            drop(state);
            // SAFETY: the caller's duties, passed on.
            return unsafe { self.launch(function, launch) };
        }
        if accesses(launch, reads, joined).any(|access| state.queue.conflicts(&access)) {
            self.settle(&mut state);
        }
        if state.queue.add(function, launch, reads, joined)? {
            self.settle(&mut state);
        }
        Ok(())
    }

    fn require_all_here(&self, launch: &Launch<'_>, reads: &[View<'_>]) -> Result<()> {
        let written = launch.outputs.iter().map(|&buffer| ("output", buffer));
        let mut all = written.chain(reads.iter().map(|view| ("input", view.buffer())));
        all.try_for_each(|(arg, buffer)| self.require_here(launch.label, arg, buffer))
    }

    fn require_here(&self, op: &'static str, arg: &'static str, buffer: &Buffer) -> Result<()> {
        if std::ptr::eq(buffer.device().stream(), self) {
            return Ok(());
        }
        let (expected, got) = (self.device().id().to_string(), buffer.device().id().to_string());
        Err(Error::DeviceMismatch { op, arg, expected, got })
    }

    /// Launches everything that waits.
    pub(crate) fn settle_all(&self) {
        self.settle(&mut self.lock());
    }

    /// The same where the lock is held.
    pub(crate) fn settle(&self, state: &mut crate::stream::State) {
        while !state.queue.is_empty() {
            self.put_group(state);
        }
    }

    /// Lets what waits go first if it touches `buffer`.
    pub(crate) fn settle_for(&self, buffer: &Buffer) {
        let mut state = self.lock();
        if state.queue.conflicts(&Access { bytes: Bytes::all(buffer), is_written: true }) {
            self.settle(&mut state);
        }
    }

    fn put_group(&self, state: &mut crate::stream::State) {
        let mut group = state.queue.take();
        let is_alone = group.firsts.len() == 1;
        if !is_alone {
            group.fill_whole();
        }
        let function = if is_alone { &group.single } else { &group.several };
        let function =
            function.as_ref().expect("a group has its kernel, and that for several from the second member on");
        let launch = Launch {
            label: group.label,
            grid: [group.groups, group.across[0], group.across[1]],
            block: group.block,
            lds_bytes: group.lds_bytes,
            args: if is_alone { &group.args } else { &group.whole },
            outputs: &[],
            work: Work::default(),
        };
        let written = group.held.iter().filter(|held| held.is_written).map(|held| &*held.memory);
        // SAFETY: `launch_joinable` has asked for it, of the kernel for several too, whose struct is what this module's
        // description says; `check` compares its size. The memory is held until the launch is on the stream.
        let put = |()| unsafe { self.submit(state, &Command::kernel(function, &launch), written.clone()) };
        if let Err(error) = self.check(function, &launch).and_then(put) {
            let fault = state.fail(error.to_string());
            written.for_each(|memory| memory.set_poison(Some(Arc::clone(&fault))));
        }
        state.queue.keep(group);
    }
}
