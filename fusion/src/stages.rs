//! Cuts a graph of rows between its passes, for rows so few and so long that one workgroup per row leaves most of the device idle.
//!
//! Every pass becomes a graph of its own whose outputs are values per row only, so that several workgroups can share a row. What it
//! reduces, and what is computed from that per row, is stored for the graphs after it. The last graph has the outputs per element
//! and no reductions, so it can walk its axes in the order in which they lie in memory. Each value is rounded to its dtype wherever it
//! is, and the order of a reduction depends on its extent alone, so the bits are those of one kernel.

use rocfire_hal::{DType, Stream, Tensor, View, ViewMut};

use crate::block;
use crate::error::Result;
use crate::graph::{Graph, Kind, Node, Value};
use crate::plan::Plan;
use crate::run::run;
use crate::scalar::Scalar;

/// Where a tensor of a stage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The whole graph's input or output of a slot.
    Given(usize),
    /// The whole graph's input of a slot, which has a value per row but is read for every element.
    Spread(usize),
    /// The tensor of this number that a stage makes for later ones.
    Made(usize),
}

/// One of the graphs, and where its arguments come from.
#[derive(Debug)]
struct Stage {
    graph: Graph,
    inputs: Vec<Place>,
    /// Slots of the whole graph's scalars.
    scalars: Vec<usize>,
    outputs: Vec<Place>,
}

impl Stage {
    fn given(places: &[Place]) -> impl Iterator<Item = usize> + '_ {
        places.iter().filter_map(|place| match *place {
            Place::Given(slot) | Place::Spread(slot) => Some(slot),
            Place::Made(_) => None,
        })
    }
}

/// A graph that was cut.
#[derive(Debug)]
pub(crate) struct Stages {
    /// The stages in order.
    list: Vec<Stage>,
    /// The dtypes of the values per row that stages make for later ones.
    made: Vec<DType>,
}

impl Stages {
    /// Cuts a simplified graph. `None` if it is one stage already, if it would report an index twice, or if a stage would have too many
    /// arguments.
    pub(crate) fn new(graph: &Graph, plan: &Plan) -> Option<Stages> {
        let is_check = |at: usize| plan.live[at] && matches!(graph.nodes[at].0, Node::Check(..));
        let reducing = plan.passes.iter().filter(|pass| !pass.reduces.is_empty()).count();
        if reducing == 0 || plan.splits() || (0..graph.nodes.len()).any(is_check) {
            return None;
        }
        let mut cut = Cut { graph, plan, known: vec![None; graph.nodes.len()], made: Vec::new() };
        let mut list: Vec<Stage> = (0..reducing).map(|pass| cut.rows(pass)).collect();
        if plan.passes.iter().any(|pass| !pass.stores.is_empty()) {
            list.push(cut.elements());
        }
        let has_room = |stage: &Stage| {
            let lookups = stage.graph.nodes.iter().filter(|(node, _)| node.is_lookup()).count();
            block::has_room(stage.inputs.len() + stage.outputs.len(), lookups, stage.scalars.len())
        };
        list.iter().all(has_room).then_some(Stages { list, made: cut.made })
    }

    /// Whether no stage writes memory that a later stage reads, as it would if an output per row is in an input's memory.
    pub(crate) fn may_run(&self, inputs: &[View<'_>], outputs: &[ViewMut<'_>]) -> bool {
        self.list.iter().enumerate().all(|(number, stage)| {
            Stage::given(&stage.outputs).all(|output| {
                let mut later = self.list[number + 1..].iter().flat_map(|stage| Stage::given(&stage.inputs));
                later.all(|input| !inputs[input].buffer().same(outputs[output].buffer()))
            })
        })
    }

    /// Runs all stages over an iteration space of `shape`.
    ///
    /// # Errors
    /// As [`run`].
    pub(crate) fn run(
        &self,
        stream: &Stream,
        shape: &[usize],
        (inputs, scalars): (&[View<'_>], &[Scalar]),
        outputs: &mut [ViewMut<'_>],
    ) -> Result<()> {
        let mut of_rows = shape.to_vec();
        if let Some(last) = of_rows.last_mut() {
            *last = 1;
        }
        let device = stream.device();
        let mut made: Vec<Tensor> = Vec::with_capacity(self.made.len());
        for stage in &self.list {
            let known = made.len();
            let new = stage.outputs.iter().filter(|place| matches!(place, Place::Made(_))).count();
            for &dtype in &self.made[known..known + new] {
                made.push(Tensor::empty(&device, &of_rows, dtype)?);
            }
            let (known, new) = made.split_at_mut(known);
            let mut read: Vec<View<'_>> = Vec::with_capacity(stage.inputs.len());
            for place in &stage.inputs {
                read.push(match *place {
                    Place::Given(slot) => inputs[slot],
                    Place::Spread(slot) if inputs[slot].shape().len() < shape.len() => {
                        let layout = inputs[slot].layout();
                        inputs[slot].with_layout(layout.unsqueeze(layout.rank())?)?
                    }
                    Place::Spread(slot) => inputs[slot],
                    Place::Made(number) => known[number].view(),
                });
            }
            let scalars: Vec<Scalar> = stage.scalars.iter().map(|&slot| scalars[slot]).collect();
            let mut given: Vec<_> = outputs.iter_mut().map(|output| Some(output.reborrow())).collect();
            let mut new = new.iter_mut().map(Tensor::view_mut);
            let mut written: Vec<ViewMut<'_>> = Vec::with_capacity(stage.outputs.len());
            for place in &stage.outputs {
                written.extend(match *place {
                    Place::Given(slot) | Place::Spread(slot) => given[slot].take(),
                    Place::Made(_) => new.next(),
                });
            }
            run(stream, &stage.graph, shape, &read, &scalars, &mut written)?;
        }
        Ok(())
    }
}

/// A graph that is being cut.
struct Cut<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    /// For each node, the number of the tensor in which an earlier stage has stored it, if one has.
    known: Vec<Option<usize>>,
    made: Vec<DType>,
}

impl Cut<'_> {
    /// The stage of pass `pass`: what it reduces, and what is computed from that per row, if an output or a later pass needs it.
    fn rows(&mut self, pass: usize) -> Stage {
        let levels = if pass == 0 { 0..=1 } else { pass + 1..=pass + 1 };
        let is_own = |at: usize| {
            self.plan.live[at] && self.plan.kinds[at] == Kind::Row && levels.contains(&self.plan.levels[at])
        };
        let mut is_passed_on = vec![false; self.graph.nodes.len()];
        for (at, (node, _)) in self.graph.nodes.iter().enumerate().filter(|&(at, _)| self.plan.live[at]) {
            let is_later = self.plan.kinds[at] == Kind::Full || self.plan.levels[at] > pass + 1;
            if is_later {
                node.operands().for_each(|operand| is_passed_on[operand.at()] = true);
            }
        }
        let is_row_input = |at: usize| matches!(self.graph.nodes[at].0, Node::RowInput(_));
        let passed_on: Vec<usize> =
            (0..self.graph.nodes.len()).filter(|&at| is_own(at) && is_passed_on[at] && !is_row_input(at)).collect();
        let slots = (0..self.graph.outputs.len()).filter(|&slot| is_own(self.graph.outputs[slot].at()));
        let given = slots.map(|slot| (self.graph.outputs[slot], Place::Given(slot)));
        let first = self.made.len();
        let made = passed_on.iter().enumerate().map(|(number, &at)| (Value(at as u32), Place::Made(first + number)));
        let outputs: Vec<(Value, Place)> = given.chain(made).collect();
        let stage = self.stage(&outputs, true);
        for at in passed_on {
            self.known[at] = Some(self.made.len());
            self.made.push(self.graph.nodes[at].1);
        }
        stage
    }

    /// The stage that stores the outputs per element.
    fn elements(&self) -> Stage {
        let slots = (0..self.graph.outputs.len())
            .filter(|&slot| self.plan.kinds[self.graph.outputs[slot].at()] != Kind::Row)
            .map(|slot| (self.graph.outputs[slot], Place::Given(slot)));
        self.stage(&slots.collect::<Vec<_>>(), false)
    }

    /// The stage that computes some values. With `by_row`, values per row are read as such; else for every element.
    fn stage(&self, outputs: &[(Value, Place)], by_row: bool) -> Stage {
        let nodes = &self.graph.nodes;
        let is_known = |at: usize| self.known[at].is_some();
        let mut needed = vec![false; nodes.len()];
        outputs.iter().for_each(|(value, _)| needed[value.at()] = true);
        for at in (0..nodes.len()).rev().filter(|&at| !is_known(at)) {
            if needed[at] {
                nodes[at].0.operands().for_each(|operand| needed[operand.at()] = true);
            }
        }
        let mut graph = Graph::new(self.graph.name());
        let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
        let mut became = vec![Value(0); nodes.len()];
        for (at, &(node, dtype)) in nodes.iter().enumerate().filter(|&(at, _)| needed[at]) {
            let v = |value: Value| became[value.at()];
            let mut read = |place: Place| inputs.push(place);
            became[at] = match (self.known[at], node) {
                (Some(number), _) => {
                    read(Place::Made(number));
                    if by_row { graph.row_input(dtype) } else { graph.input(dtype) }
                }
                (None, Node::Input(slot)) => {
                    read(Place::Given(slot as usize));
                    graph.input(dtype)
                }
                (None, Node::RowInput(slot)) if by_row => {
                    read(Place::Given(slot as usize));
                    graph.row_input(dtype)
                }
                (None, Node::RowInput(slot)) => {
                    read(Place::Spread(slot as usize));
                    graph.input(dtype)
                }
                (None, Node::Lookup(slot, index)) => {
                    read(Place::Given(slot as usize));
                    graph.lookup(dtype, v(index))
                }
                (None, Node::RowLookup(slot, index)) => {
                    read(Place::Given(slot as usize));
                    graph.row_lookup(dtype, v(index))
                }
                (None, Node::Scalar(slot)) => {
                    scalars.push(slot as usize);
                    graph.scalar(dtype)
                }
                (None, node) => graph.push(node.map(v), dtype),
            };
        }
        outputs.iter().for_each(|(value, _)| graph.output(became[value.at()]));
        Stage { graph, inputs, scalars, outputs: outputs.iter().map(|&(_, place)| place).collect() }
    }
}
