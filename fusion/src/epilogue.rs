//! A graph as the epilogue of another kernel: of a matrix product or a convolution.
//!
//! The graph's first input is the result of that kernel, element by element; the others are tensors that broadcast to the
//! result's shape. The kernel's source gets [`Epilogue::text`] in front of it, and its argument struct an `EpilogueArgs`
//! at the end ([`Epilogue::push_args`]). The kernel hands each element to `Epilogue::put` instead of storing it. `put` rounds what
//! the graph computes as [`crate::run()`] does, and stores every output. So the outputs have the bits that the kernel and then
//! the graph would have given.
//!
//! A kernel moves over the result along axes counted from the last, as tensors do here: 0 is the column, 1 the row of a
//! matrix, the others are batches. It may merge axes ([`EpilogueTensor`] has the strides) where every tensor allows.
//!
//! A kernel whose columns lie side by side may hand over runs of them instead ([`Epilogue::runs_text`]). Values that vary by column
//! only are then computed once for many lines, and memory is moved a run at a time. The bits are the same.
//!
//! A graph with reductions, values per row, lookups or coordinates cannot be an epilogue: [`Epilogue::new`] gives an error.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rocfire_hal::{Buffer, DType, MAX_RANK, View, ViewMut};

use crate::error::{Error, Result};
use crate::geometry::{Geometry, Role};
use crate::graph::{Graph, Kind, Node};
use crate::plan::{Argument, Plan, Shape, arguments};
use crate::render;
use crate::run::{check_aliases, check_dtype, shape_error};
use crate::scalar::Scalar;
use crate::sigmoid::Defined;

/// The most tensors besides the kernel's own result. Each takes registers of that kernel for a pointer and strides.
pub const EPILOGUE_TENSORS: usize = 12;

/// How many neighbouring columns a kernel hands over at once, if it does so by runs.
pub const EPILOGUE_RUN: usize = render::RUN;

/// The bytes of a lane's longest memory access.
const ACCESS_BYTES: usize = 16;

/// A graph that was checked and rendered as an epilogue.
pub(crate) struct PreparedEpilogue {
    pub graph: Graph,
    hash: u128,
    /// The graph to use instead for certain scalars: sigmoids as they are defined.
    defined: Option<Defined>,
    /// Its tensors without the kernel's own result.
    pub arguments: Vec<Argument>,
    text: String,
}

static PREPARED: RwLock<Option<HashMap<u128, Arc<PreparedEpilogue>>>> = RwLock::new(None);

impl PreparedEpilogue {
    /// The epilogue of a graph for these scalars.
    fn of(graph: &Graph, scalars: &[Scalar]) -> Result<Arc<PreparedEpilogue>> {
        let prepared = PreparedEpilogue::known(graph)?;
        match &prepared.defined {
            Some(defined) if defined.holds(scalars) => PreparedEpilogue::known(&defined.graph),
            _ => Ok(prepared),
        }
    }

    fn known(graph: &Graph) -> Result<Arc<PreparedEpilogue>> {
        let key = graph.hash();
        let map = PREPARED.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = map.as_ref().and_then(|map| map.get(&key)) {
            return Ok(Arc::clone(found));
        }
        drop(map);
        let made = Arc::new(PreparedEpilogue::new(graph)?);
        let mut map = PREPARED.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(map.get_or_insert_default().entry(key).or_insert(made)))
    }

    fn new(graph: &Graph) -> Result<PreparedEpilogue> {
        graph.verify()?;
        let invalid = |reason: &str| Error::Invalid { value: graph.nodes.len(), reason: reason.to_owned() };
        if !matches!(graph.nodes.first(), Some((Node::Input(0), _))) {
            return Err(invalid("an epilogue's first value is its kernel's result"));
        }
        let hash = graph.hash();
        let graph = graph.simplify();
        let plan = Plan::new(&graph);
        if plan.shape == Shape::Rows || !graph.nodes.iter().all(|(node, _)| node.is_in_place()) {
            return Err(invalid("an epilogue computes element by element, without coordinates or lookups"));
        }
        let mut arguments = arguments(&graph, &plan);
        arguments.retain(|argument| !matches!(argument, Argument::Input(0, _)));
        if arguments.len() > EPILOGUE_TENSORS {
            let (bytes, most) = (arguments.len() * TENSOR_BYTES, EPILOGUE_TENSORS * TENSOR_BYTES);
            return Err(Error::Arguments { graph: graph.name(), bytes, most });
        }
        let text = render::epilogue(&graph, &plan, &arguments);
        let defined = graph.defined_sigmoids();
        Ok(PreparedEpilogue { graph, hash, defined, arguments, text })
    }
}

/// The bytes of a tensor in `EpilogueArgs`.
const TENSOR_BYTES: usize = 8 + 8 * MAX_RANK;

/// Where a tensor of an epilogue lies. A kernel may merge its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpilogueTensor {
    /// Device address of the element at coordinates 0.
    pub address: u64,
    /// Bytes from one element to the next along each axis of the result, counted from the last; 0 where it broadcasts.
    pub strides: [i64; MAX_RANK],
}

/// How the tensors of an epilogue lie for a kernel that hands over runs of neighbours along axis 0, line after line along axis 1. The
/// epilogue's text depends on it. Each field has a bit for each tensor, in the order of [`Epilogue::tensors`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Runs {
    /// It is read, and is the same in every line.
    held: u16,
    /// Its elements of a run lie side by side, and are aligned to one access.
    packed: u16,
    /// It has one element for the whole run.
    splat: u16,
}
const _: () = assert!(EPILOGUE_TENSORS <= u16::BITS as usize, "a bit for each tensor");

impl Runs {
    pub(crate) fn is_held(self, tensor: usize) -> bool {
        self.held >> tensor & 1 == 1
    }

    /// The name of the mode of `fuse.h` in which a run of the tensor is read.
    pub(crate) fn mode(self, tensor: usize) -> &'static str {
        match (self.packed >> tensor & 1, self.splat >> tensor & 1) {
            (1, _) => "PACKED",
            (_, 1) => "SPLAT",
            _ => "STRIDED",
        }
    }
}

/// An epilogue with its tensors, which were checked against the shape of the kernel's result.
pub struct Epilogue<'a> {
    prepared: Arc<PreparedEpilogue>,
    scalars: &'a [Scalar],
    inputs: &'a [View<'a>],
    outputs: &'a [ViewMut<'a>],
    tensors: [EpilogueTensor; EPILOGUE_TENSORS],
}

impl<'a> Epilogue<'a> {
    /// `graph` as the epilogue of a kernel whose result has `shape`. `inputs` are the graph's inputs without the first.
    ///
    /// # Errors
    /// As [`crate::run()`]; [`Error::Invalid`] for a graph that cannot be an epilogue.
    pub fn new(
        graph: &Graph,
        shape: &[usize],
        inputs: &'a [View<'a>],
        scalars: &'a [Scalar],
        outputs: &'a [ViewMut<'a>],
    ) -> Result<Epilogue<'a>> {
        let prepared = PreparedEpilogue::of(graph, scalars)?;
        let known = &prepared.graph;
        check_arity(known, inputs.len(), scalars.len(), outputs.len())?;
        for (slot, (expected, _)) in known.inputs().enumerate().skip(1) {
            check_dtype(known, "input", slot, expected, inputs[slot - 1].dtype())?;
        }
        for (slot, (&value, view)) in known.outputs.iter().zip(outputs).enumerate() {
            check_dtype(known, "output", slot, known.dtype(value), view.dtype())?;
        }
        if shape.len() > MAX_RANK {
            return Err(shape_error(known, "iteration space", 0, shape, shape));
        }
        let mut geometry = Geometry::new(shape);
        for argument in &prepared.arguments {
            let (what, slot, view, written) = match *argument {
                Argument::Input(slot, _) => ("input", slot, &inputs[slot - 1], false),
                Argument::Output(slot) => ("output", slot, &*outputs[slot], true),
            };
            let role = if written { Role::Written(Kind::Full) } else { Role::Read(Kind::Full) };
            if !geometry.lay(view, role) {
                return Err(shape_error(known, what, slot, view.shape(), shape));
            }
            if written && geometry.overlaps(geometry.placements().len() - 1) {
                return Err(Error::Overlap { graph: known.name(), slot });
            }
        }
        check_aliases(known, &prepared.arguments, |slot| &inputs[slot - 1], outputs)?;
        let mut tensors = [EpilogueTensor { address: 0, strides: [0; MAX_RANK] }; EPILOGUE_TENSORS];
        for (to, from) in tensors.iter_mut().zip(geometry.placements()) {
            *to = EpilogueTensor { address: from.address, strides: from.strides };
        }
        Ok(Epilogue { prepared, scalars, inputs, outputs, tensors })
    }

    /// The element type of the kernel's result.
    pub fn result(&self) -> DType {
        self.prepared.graph.nodes[0].1
    }

    /// The graph's identity, as a key for a table of sources.
    pub fn hash(&self) -> u128 {
        self.prepared.hash
    }

    /// Device code that defines `EpilogueArgs` and `Epilogue`. It must stand in front of the kernel's text.
    pub fn text(&self) -> &str {
        &self.prepared.text
    }

    /// Its tensors, in the order of `EpilogueArgs`.
    pub fn tensors(&self) -> &[EpilogueTensor] {
        &self.tensors[..self.prepared.arguments.len()]
    }

    /// How its tensors lie for a kernel that hands over runs of [`EPILOGUE_RUN`] columns. `tensors` are those of
    /// [`Epilogue::tensors`] with axes merged by the kernel: axis 0 has the columns, axis 1 the lines. Runs begin at multiples of their
    /// length.
    pub fn runs(&self, tensors: &[EpilogueTensor]) -> Runs {
        let mut runs = Runs::default();
        for (at, (tensor, argument)) in tensors.iter().zip(&self.prepared.arguments).enumerate() {
            let (dtype, is_read) = match *argument {
                Argument::Input(_, value) => (self.prepared.graph.dtype(value), true),
                Argument::Output(slot) => (self.prepared.graph.dtype(self.prepared.graph.outputs[slot]), false),
            };
            let bytes = dtype.size_bytes();
            let access = (bytes * EPILOGUE_RUN).min(ACCESS_BYTES);
            let [column, others @ ..] = tensor.strides;
            let aligned = tensor.address.is_multiple_of(access as u64)
                && others.iter().all(|stride| stride.unsigned_abs().is_multiple_of(access as u64));
            runs.held |= u16::from(is_read && tensor.strides[1] == 0) << at;
            runs.packed |= u16::from(column == bytes as i64 && aligned) << at;
            runs.splat |= u16::from(column == 0) << at;
        }
        runs
    }

    /// As [`Epilogue::text`] for a kernel that hands over runs. It calls `hold` at a run's first column, then `fetch` and `put` for each
    /// line. The kernel's result must be a 16-bit float.
    pub fn runs_text(&self, runs: Runs) -> String {
        let graph = &self.prepared.graph;
        render::runs(graph, &Plan::new(graph), &self.prepared.arguments, runs)
    }

    /// The views it reads.
    pub fn inputs(&self) -> &'a [View<'a>] {
        self.inputs
    }

    /// The views it writes.
    pub fn outputs(&self) -> &'a [ViewMut<'a>] {
        self.outputs
    }

    /// The buffers it writes, for a launch; as many as [`Epilogue::outputs`].
    pub fn written(&self) -> impl Iterator<Item = &'a Buffer> {
        self.outputs.iter().map(|output| output.view().buffer())
    }

    /// Appends the bytes of `EpilogueArgs` to an argument struct, with `tensors` as the kernel has merged them. `used` bytes of `block`
    /// are in use before; returns how many are afterwards.
    ///
    /// # Panics
    /// If `block` is too short or `tensors` are not as many as [`Epilogue::tensors`].
    pub fn push_args(&self, tensors: &[EpilogueTensor], block: &mut [u8], used: usize) -> usize {
        assert_eq!(tensors.len(), self.prepared.arguments.len(), "one for each argument");
        let mut at = used;
        let mut put = |word: u64| {
            block[at..at + 8].copy_from_slice(&word.to_le_bytes());
            at += 8;
        };
        for tensor in tensors {
            put(tensor.address);
            tensor.strides.iter().for_each(|&stride| put(stride as u64));
        }
        for (scalar, dtype) in self.scalars.iter().zip(self.prepared.graph.scalars()) {
            put(scalar.bits(dtype));
        }
        at
    }
}

fn check_arity(graph: &Graph, inputs: usize, scalars: usize, outputs: usize) -> Result<()> {
    let checks = [
        ("inputs", graph.inputs as usize - 1, inputs),
        ("scalars", graph.scalars as usize, scalars),
        ("outputs", graph.outputs.len(), outputs),
    ];
    match checks.into_iter().find(|(_, expected, got)| expected != got) {
        Some((what, expected, got)) => Err(Error::Arity { graph: graph.name(), what, expected, got }),
        None => Ok(()),
    }
}
