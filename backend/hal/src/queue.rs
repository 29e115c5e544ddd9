//! The queue of a stream: launches that wait for others of their kernel, so that one launch does them all.
//!
//! The update of a model's parameters is one small kernel for each of them, with the same code and other tensors; so are the
//! products of one input with several weights. Such a launch is given to [`Stream::launch_joinable`]: it waits on the host,
//! and whatever of the same kernel comes next joins it, as long as neither touches what the other writes ([`Hazards`]). Those
//! of a kernel go to the device as one [`Command`] when a launch comes that must come after one of them. All that waits goes
//! before a kernel that cannot wait, and before a wait. So nobody can see that a launch has waited. Nothing waits while
//! launches are timed or recorded for a graph. A launch that nothing joined is launched as if it had never waited.
//!
//! A kernel for several is the same code behind an argument struct `{u32 count, unused; u32 first[capacity]; Args
//! member[capacity]}`: `first` is the first workgroup of each member along the first axis of the grid.

use std::sync::Arc;

use crate::buffer::Memory;
use crate::command::Command;
use crate::hazard::{Access, Bytes, Hazards};
use crate::profile::{Category, Work};
use crate::stream::State;
use crate::{Buffer, Error, Function, Launch, Result, Stream, View, ViewMut};

/// Most buffers that the launches of a group write.
const WRITTEN_MOST: usize = 96;

/// Most kernels whose launches wait: each more is one more that a launch is compared with.
const GROUPS_MOST: usize = 16;
const _: () = assert!(GROUPS_MOST <= Hazards::COMMANDS_MOST);

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
    category: Category,
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

/// All launches that wait on a stream. None touches what another writes, so they may go in any order.
#[derive(Default)]
pub(crate) struct Queue {
    groups: Vec<JoinedLaunch>,
    /// What they access, by their places in `groups`.
    hazards: Hazards,
    /// Groups that have gone, whose memory serves the next.
    spare: Vec<JoinedLaunch>,
    /// Room for the accesses of a launch.
    accesses: Vec<Access>,
}

/// What a launch reads and writes.
fn accesses(launch: &Launch<'_>, reads: &[View<'_>], joined: &JoinedKernel<'_>) -> impl Iterator<Item = Access> {
    let whole = if joined.writes.is_empty() { launch.outputs } else { &[] };
    let parts = joined.writes.iter().map(|view| Bytes::of(view));
    let written = parts.chain(whole.iter().map(|buffer| Bytes::all(buffer)));
    written.map(Access::written).chain(reads.iter().map(Bytes::of).map(Access::read))
}

impl Queue {
    /// The group that a launch joins.
    fn group_of(&self, function: &Function, launch: &Launch<'_>, common: u64) -> Option<usize> {
        self.groups.iter().position(|group| group.is_of(function, launch, common))
    }

    /// A new group for launches like this one.
    fn begin(&mut self, function: &Function, launch: &Launch<'_>, joined: &JoinedKernel<'_>) -> usize {
        let mut group = self.spare.pop().unwrap_or_default();
        group.single = Some(function.clone());
        (group.label, group.block, group.capacity) = (launch.label, launch.block, joined.capacity);
        (group.across, group.lds_bytes) = ([launch.grid[1], launch.grid[2]], launch.lds_bytes);
        (group.common, group.category) = (joined.common, launch.work.category);
        self.groups.push(group);
        self.groups.len() - 1
    }

    /// Takes a group out, for its launch; give it back with [`Queue::spare`].
    fn take(&mut self, at: usize) -> JoinedLaunch {
        self.hazards.keep(!(1 << at));
        self.groups.remove(at)
    }

    fn spare(&mut self, mut group: JoinedLaunch) {
        group.clear();
        self.spare.push(group);
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
        let mut all = std::mem::take(&mut state.queue.accesses);
        all.clear();
        all.extend(accesses(launch, reads, joined));
        self.settle_before(&mut state, &all);
        let added = self.add(&mut state, function, launch, reads, joined, &all);
        state.queue.accesses = all;
        added
    }

    /// Lets a launch wait; its group goes if that has become full.
    fn add(
        &self,
        state: &mut State,
        function: &Function,
        launch: &Launch<'_>,
        reads: &[View<'_>],
        joined: &JoinedKernel<'_>,
        accesses: &[Access],
    ) -> Result<()> {
        let mut at = state.queue.group_of(function, launch, joined.common);
        if let Some(group) = at
            && state.queue.groups[group].several.is_none()
        {
            match (joined.function)() {
                Ok(several) => state.queue.groups[group].several = Some(several),
                // A pack may have the kernel for one alone: what waits goes by itself.
                Err(Error::NoCompiler { .. }) => {
                    self.put_group(state, group);
                    at = None;
                }
                Err(error) => return Err(error),
            }
        }
        let at = match at {
            Some(at) => at,
            None => {
                if state.queue.groups.len() == GROUPS_MOST {
                    self.settle(state);
                }
                state.queue.begin(function, launch, joined)
            }
        };
        state.queue.hazards.add(at, accesses);
        let group = &mut state.queue.groups[at];
        group.push(launch, reads);
        if group.firsts.len() == group.capacity {
            self.put_group(state, at);
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

    /// Launches everything that waits, for others of its kind or for its kernel.
    pub(crate) fn settle_all(&self) {
        self.with_all_put(|| ());
    }

    /// The same, and then something else before another thread's launches.
    pub(crate) fn with_all_put<R>(&self, then: impl FnOnce() -> R) -> R {
        let mut state = self.lock();
        state.replays.open();
        self.settle(&mut state);
        state.replays.close();
        self.drain(&mut state);
        then()
    }

    /// The same where the lock is held.
    pub(crate) fn settle(&self, state: &mut State) {
        state.queue.hazards.keep(0);
        while let Some(last) = state.queue.groups.len().checked_sub(1) {
            self.put_group(state, last);
        }
    }

    /// Launches what waits and must come before work with these accesses.
    fn settle_before(&self, state: &mut State, accesses: &[Access]) {
        let mut groups = state.queue.hazards.dependencies(accesses).all;
        while let Some(last) = groups.checked_ilog2() {
            groups ^= 1 << last;
            self.put_group(state, last as usize);
        }
    }

    /// Lets what waits go first if it touches `buffer`.
    pub(crate) fn settle_for(&self, buffer: &Buffer) {
        self.settle_before(&mut self.lock(), &[Access::written(Bytes::all(buffer))]);
    }

    fn put_group(&self, state: &mut State, at: usize) {
        let mut group = state.queue.take(at);
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
            work: Work { category: group.category, ..Work::default() },
        };
        let written = group.held.iter().filter(|held| held.is_written).map(|held| &held.memory);
        // SAFETY: `launch_joinable` has asked for it, of the kernel for several too, whose struct is what this module's
        // description says; `check` compares its size. The memory is held until the launch is on the stream.
        let put = |()| unsafe { self.submit(state, &Command::kernel(function, &launch), written.clone()) };
        if let Err(error) = self.check(function, &launch).and_then(put) {
            let fault = state.fail(error.to_string());
            written.for_each(|memory| memory.set_poison(Some(Arc::clone(&fault))));
        }
        state.queue.spare(group);
    }
}

#[cfg(all(test, feature = "noop"))]
pub(crate) mod tests;
