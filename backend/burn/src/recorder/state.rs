//! A device's recordings and tensors, behind one lock: records, runs what must run, and lets threads use each other's tensors.
//!
//! Operations run in the order in which their thread recorded them, and only when they must: when an operation comes that
//! no kernel computes, when a value is read, or when a stretch is long. If a thread uses a tensor that another thread has recorded
//! and not yet run, that recording runs first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use burn_backend::ExecutionError;
use burn_backend::StreamId;
use burn_ir::{OperationIr, TensorError, TensorId, TensorIr, TensorStatus};
use burn_router::TensorInterpreter;
use rustc_hash::FxHashMap;

use super::forms::{Forms, Next, Stretch};
use super::recall::Recall;
use super::recording::Recording;
use super::spent::Recorded;
use crate::error::{execution, told};
use crate::fusion::handle::Handle;
use crate::fusion::handles::Handles;
use crate::fusion::{Fuser, Taken};
use crate::{Rocm, RocmDevice};

/// A function that runs one operation on tensors of the device, and gives the handles of its outputs, in order.
pub(super) type Run<'a> = dyn FnOnce(&mut Handles) -> Result<Vec<Handle>, ExecutionError> + 'a;

/// All that is recorded and alive on a device.
pub(super) struct State {
    device: RocmDevice,
    /// Whether operations are fused; if not, each runs as it comes.
    fuses: bool,
    /// From so many bytes on a stretch does not keep the results that can be computed again.
    recompute_bytes: u64,
    handles: Handles,
    /// The tensors that are not kept.
    recalls: FxHashMap<TensorId, Recall>,
    forms: Forms,
    /// The recordings of threads that have recorded something lately, one each.
    recordings: Vec<Recording>,
    /// Runs operations that no kernel computes, on the eager backend.
    interpreter: TensorInterpreter<Rocm>,
    pub(super) spent: Recorded,
}

/// The error of a tensor whose operations were not recorded again. It would be a defect of the recorder.
const LOST: &str = "a tensor was not kept, and what it is computed from is gone";

/// From so many recordings on, those without operations are removed before another is added.
const RECORDINGS_MOST: usize = 8;

impl State {
    pub(super) fn new(device: RocmDevice) -> State {
        State {
            device,
            // If the device cannot be opened, its first tensor reports that.
            fuses: device.open().is_ok_and(|open| open.config().fusion),
            recompute_bytes: device.open().map_or(u64::MAX, |open| open.config().recompute_kb.saturating_mul(1 << 10)),
            handles: Handles::default(),
            recalls: FxHashMap::default(),
            forms: Forms::new(),
            recordings: Vec::new(),
            interpreter: TensorInterpreter::new(device),
            spent: Recorded::default(),
        }
    }

    /// The index of this thread's recording, which is added if it is new.
    fn own(&mut self) -> usize {
        let stream = StreamId::current();
        let found = self.recordings.iter().position(|recording| recording.stream == stream);
        found.unwrap_or_else(|| {
            if self.recordings.len() >= RECORDINGS_MOST {
                self.recordings.retain(|recording| recording.count > 0);
            }
            self.recordings.push(Recording::new(stream));
            self.recordings.len() - 1
        })
    }

    /// Records an operation, and runs what must run before it, or with it.
    pub(super) fn record(&mut self, operation: &mut OperationIr) {
        let own = self.own();
        match operation {
            OperationIr::Drop(tensor) if !self.recordings[own].knows(tensor.id) => return self.drop_elsewhere(tensor),
            OperationIr::Drop(_) => (),
            _ => self.spent.operators += 1,
        }
        if self.recordings.len() > 1 {
            self.await_others(own, operation);
        }
        if !self.fuses {
            return self.run_alone(operation.clone());
        }
        loop {
            if !self.recalls.is_empty() {
                self.recall_operands(operation);
            }
            let Recording { tables, at, count, fuser, .. } = &mut self.recordings[own];
            tables.relative(operation);
            let known = match fuser {
                None => self.forms.next(*at, operation),
                Some(_) => None,
            };
            let next = known.unwrap_or_else(|| {
                let start = Instant::now();
                let fuser = fuser.get_or_insert_with(|| replay(self.device, &self.forms.operations(*at)));
                let next = match fuser.take(operation) {
                    Taken::Joins => self.forms.join(*at, operation.clone(), false),
                    Taken::Closes => self.forms.join(*at, operation.clone(), true),
                    Taken::Refused => self.forms.end(*at, operation.clone()),
                };
                self.spent.planning += start.elapsed();
                next
            });
            match next {
                Next::Joins(to) => {
                    (*at, *count) = (to, *count + 1);
                    return;
                }
                Next::Closes(to) => {
                    (*at, *count) = (to, *count + 1);
                    return self.run(own);
                }
                Next::Ends => {
                    tables.absolute(operation);
                    if *count == 0 {
                        self.recordings[own].clear();
                        return self.run_alone(operation.clone());
                    }
                    self.run(own);
                }
            }
        }
    }

    /// Runs what every thread has recorded.
    pub(super) fn run_all(&mut self) {
        (0..self.recordings.len()).for_each(|at| self.run(at));
    }

    /// Runs what this thread has recorded.
    pub(super) fn run_own(&mut self) {
        let own = self.own();
        self.run(own);
    }

    /// Runs all that a recording has.
    fn run(&mut self, at: usize) {
        let recording = &mut self.recordings[at];
        if recording.count == 0 {
            return;
        }
        // From here on the recording counts as empty, so that nothing that runs meanwhile waits for it.
        recording.count = 0;
        let (end, fuser, held) = (recording.at, recording.fuser.take(), std::mem::take(&mut recording.held));
        let dropped = std::mem::take(&mut recording.dropped);
        let stretch = self.forms.stretch(end).unwrap_or_else(|| {
            let start = Instant::now();
            let stretch = self.forms.learn(end);
            self.spent.planning += start.elapsed();
            stretch
        });
        let recomputes = self.recomputes(&stretch, at);
        let kernel = stretch.kernel(recomputes).unwrap_or_else(|| {
            let start = Instant::now();
            let fuser = fuser.unwrap_or_else(|| replay(self.device, &self.forms.operations(end)));
            let left_out = if recomputes { &stretch.recipes[..] } else { &[] };
            let kernel = self.forms.keep(end, recomputes, fuser.finish(left_out));
            self.spent.planning += start.elapsed();
            kernel
        });
        for (id, handle) in &held {
            self.handles.put(*id, handle.clone());
        }
        let tables = &self.recordings[at].tables;
        let ending: Vec<TensorId> = stretch.ending.iter().map(|number| tables.tensors[*number].id).collect();
        ending.iter().for_each(|id| self.keep_for_others(*id));
        let mut bindings = self.recordings[at].tables.lend(std::mem::take(&mut self.handles));
        let start = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| kernel.run(&mut bindings)));
        self.spent.running += start.elapsed();
        self.spent.launching += bindings.launching;
        self.spent.stretches += 1;
        self.handles = std::mem::take(&mut bindings.handles);
        if let Err(panic) = ran {
            let error = TensorError::new(told(panic));
            let made = stretch.made.iter().map(|number| bindings.tensors[*number].id);
            made.for_each(|id| self.handles.fail_if_unwritten(id, error.clone()));
        }
        self.recordings[at].tables.take_back(bindings);
        if recomputes {
            self.remember(&stretch, at);
        }
        self.recordings[at].clear();
        let ended = dropped.into_iter().map(|tensor| tensor.id).chain(held.into_iter().map(|(id, _)| id));
        ending.into_iter().chain(ended).for_each(|id| self.end(id));
        if self.forms.is_full() && self.recordings.iter().all(|recording| recording.count == 0) {
            self.forms = Forms::new();
        }
    }

    /// Whether a recording runs without keeping what can be computed again: there is enough of that.
    fn recomputes(&self, stretch: &Stretch, at: usize) -> bool {
        let bytes = stretch.recipes.iter().map(|recipe| {
            let tensor = &self.recordings[at].tables.tensors[recipe.tensor.id.value() as usize];
            (tensor.shape.num_elements() * tensor.dtype.size()) as u64
        });
        !stretch.recipes.is_empty() && bytes.sum::<u64>() >= self.recompute_bytes
    }

    /// Keeps how to compute again what a recording that has just run did not keep.
    fn remember(&mut self, stretch: &Stretch, at: usize) {
        let tables = &self.recordings[at].tables;
        for recipe in stretch.recipes.iter() {
            let id = tables.tensors[recipe.tensor.id.value() as usize].id;
            // It is there all the same if it has failed, or several kernels have read it.
            if self.handles.knows(id) {
                continue;
            }
            match Recall::new(recipe, tables, &self.handles) {
                Some(recall) => drop(self.recalls.insert(id, recall)),
                None => {
                    let failed = |source: &TensorId| {
                        let error = self.handles.error(tables.tensors[source.value() as usize].id)?;
                        Some(error.propagated())
                    };
                    let error = recipe.sources.iter().find_map(failed);
                    let lost = || TensorError::new(ExecutionError::with_context(String::from(LOST)));
                    let error = error.unwrap_or_else(lost);
                    self.handles.fail(id, error);
                }
            }
        }
    }

    /// Has operands that were not kept computed again, in front of an operation that reads them.
    fn recall_operands(&mut self, operation: &OperationIr) {
        if matches!(operation, OperationIr::Drop(_)) {
            return;
        }
        let missing: Vec<TensorId> =
            operation.inputs().map(|input| input.id).filter(|id| self.recalls.contains_key(id)).collect();
        missing.into_iter().for_each(|id| self.recall(id));
    }

    /// Records the operations that compute a tensor again, if it was not kept.
    fn recall(&mut self, id: TensorId) {
        let Some(recall) = self.recalls.remove(&id) else { return };
        let own = self.own();
        self.spent.recomputed += 1;
        let tables = &self.recordings[own];
        let operations = recall.operations(id, &mut self.handles, |source| !tables.ends(source));
        for mut operation in operations {
            self.record(&mut operation);
        }
    }

    /// Ends the life of a tensor.
    fn end(&mut self, id: TensorId) {
        self.recalls.remove(&id);
        drop(self.handles.remove(id));
    }

    /// Runs an operation by itself. What this thread recorded before it has run already.
    fn run_alone(&mut self, operation: OperationIr) {
        if let OperationIr::Drop(tensor) = &operation {
            self.keep_for_others(tensor.id);
            self.end(tensor.id);
            return;
        }
        let outputs: Vec<TensorIr> = operation.outputs().cloned().collect();
        let inputs: Vec<TensorIr> = operation.inputs().cloned().collect();
        let mut interpreter = std::mem::replace(&mut self.interpreter, TensorInterpreter::new(self.device));
        let run = |handles: &mut Handles| {
            for input in &inputs {
                interpreter.register_tensor_to_device(input.id, handles.take(input.id, &input.status).into());
            }
            interpreter.register_op(operation);
            for input in inputs.iter().filter(|input| input.status == TensorStatus::ReadOnly) {
                let ended = TensorIr { status: TensorStatus::ReadWrite, ..input.clone() };
                interpreter.register_op(OperationIr::Drop(ended));
            }
            let mut take = |output: &TensorIr| {
                interpreter.get_tensor_handle(&TensorIr { status: TensorStatus::ReadWrite, ..output.clone() })
            };
            Ok(outputs.iter().map(&mut take).collect())
        };
        let made: Vec<TensorId> = outputs.iter().map(|tensor| tensor.id).collect();
        // An interpreter that failed in the middle of an operation may still hold tensors, so it is not used again.
        if self.run_with(&inputs, &made, run) {
            self.interpreter = interpreter;
        }
    }

    /// Runs an operation of ours that Burn has no name for, behind all that this thread has recorded.
    pub(super) fn run_custom(&mut self, inputs: &[TensorIr], outputs: &[TensorIr], run: Box<Run<'_>>) {
        let made: Vec<TensorId> = outputs.iter().map(|tensor| tensor.id).collect();
        self.spent.operators += 1;
        self.run_own();
        inputs.iter().for_each(|input| self.await_tensor(input.id));
        self.run_with(inputs, &made, run);
    }

    /// Runs something that takes its inputs from the handles. A failure becomes the error of its outputs. Returns whether it ran.
    fn run_with(
        &mut self,
        inputs: &[TensorIr],
        made: &[TensorId],
        run: impl FnOnce(&mut Handles) -> Result<Vec<Handle>, ExecutionError>,
    ) -> bool {
        let ended = || inputs.iter().filter(|input| input.status == TensorStatus::ReadWrite);
        ended().for_each(|input| self.keep_for_others(input.id));
        let start = Instant::now();
        let failed = inputs.iter().find_map(|input| self.handles.error(input.id)).map(TensorError::propagated);
        let ran = match failed {
            Some(error) => Err(error),
            None => match catch_unwind(AssertUnwindSafe(|| {
                inputs.iter().try_for_each(|input| self.handles.widen(input)).map_err(execution)?;
                run(&mut self.handles)
            })) {
                Ok(ran) => ran.map_err(TensorError::new),
                Err(panic) => Err(TensorError::new(told(panic))),
            },
        };
        let has_run = ran.is_ok();
        self.spent.alone += 1;
        self.spent.running_alone += start.elapsed();
        match ran {
            Ok(handles) => made.iter().zip(handles).for_each(|(id, handle)| self.handles.put(*id, handle)),
            Err(error) => made.iter().for_each(|id| self.handles.fail(*id, error.clone())),
        }
        ended().for_each(|input| drop(self.handles.remove(input.id)));
        has_run
    }

    /// The handle of a tensor that is read or moved to another device. What makes it runs first.
    pub(super) fn take(&mut self, tensor: &TensorIr) -> Result<Handle, TensorError> {
        self.await_tensor(tensor.id);
        if tensor.status == TensorStatus::ReadWrite {
            self.keep_for_others(tensor.id);
        }
        match self.handles.error(tensor.id).cloned() {
            Some(error) => {
                if tensor.status == TensorStatus::ReadWrite {
                    self.handles.remove(tensor.id);
                }
                Err(error)
            }
            None => {
                self.handles.widen(tensor).map_err(|error| TensorError::new(execution(error)))?;
                Ok(self.handles.take(tensor.id, &tensor.status))
            }
        }
    }

    /// Gives a name to a tensor that exists.
    pub(super) fn register(&mut self, id: TensorId, handle: Handle) {
        self.handles.put(id, handle);
    }

    /// Ends the life of a tensor that this thread's recording does not know.
    fn drop_elsewhere(&mut self, tensor: &TensorIr) {
        if self.is_there(tensor.id) {
            self.keep_for_others(tensor.id);
            self.end(tensor.id);
        } else if let Some(maker) = self.recordings.iter_mut().find(|recording| recording.knows(tensor.id)) {
            maker.dropped.push(tensor.clone());
        }
    }

    /// Runs those recordings of other threads that make what an operation reads.
    fn await_others(&mut self, own: usize, operation: &OperationIr) {
        let is_missing = |id: TensorId| !self.recordings[own].knows(id) && !self.is_there(id);
        let missing: Vec<TensorId> = operation.inputs().map(|input| input.id).filter(|id| is_missing(*id)).collect();
        for id in missing {
            self.run_maker(id);
        }
    }

    /// Runs what makes a tensor until it is in memory, or has failed.
    fn await_tensor(&mut self, id: TensorId) {
        while !self.handles.knows(id) {
            self.recall(id);
            if !self.run_maker(id) {
                break;
            }
        }
    }

    /// Runs the recording that makes a tensor; whether there is one.
    fn run_maker(&mut self, id: TensorId) -> bool {
        let maker = self.recordings.iter().position(|recording| recording.knows(id));
        if let Some(at) = maker {
            self.run(at);
        }
        maker.is_some()
    }

    /// Whether a tensor has been made, or has failed, or can be computed again at once.
    fn is_there(&self, id: TensorId) -> bool {
        self.handles.knows(id) || self.recalls.contains_key(&id)
    }

    /// Called before a tensor's life ends: gives its handle to the recordings that still read it.
    fn keep_for_others(&mut self, id: TensorId) {
        if self.recordings.iter().all(|recording| recording.count == 0) {
            return;
        }
        let Some(handle) = self.handles.get(id) else { return };
        for recording in self.recordings.iter_mut().filter(|recording| recording.knows(id)) {
            recording.held.push((id, handle.clone()));
        }
    }
}

/// A fuser that has taken these operations again, as they are known only to the tree.
fn replay(device: RocmDevice, operations: &[&OperationIr]) -> Fuser {
    let mut fuser = Fuser::new(device);
    operations.iter().for_each(|operation| _ = fuser.take(operation));
    fuser
}
