//! Chains of elementwise kernels as one kernel, and as the first part of a softmax or norm of rows.
//!
//! A chain is its kernels' graphs as one, in which each result is rounded to its type: so the bits are those of the kernels one by
//! one. It is written and compiled when it comes for the third time.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::rocfire::{Merged, Node, Window};
use rocfire_fusion::{Graph, Scalar, Value};
use rocfire_hal::{DType, Source};

use super::Group;
use crate::each::{self, Elements, HEAD};
use crate::family::elementwise::Elementwise;
use crate::family::{self, Words};
use crate::geometry::{self, BLOCK};
use crate::table::{Entry, Family};

/// Kernels of a chain, tensors from outside, and operands with strides, most: what fits into arguments of 4 KiB.
const OPS_MOST: usize = 8;
const OUTSIDE_MOST: usize = 12;
const STRIDED_MOST: usize = 6;
/// How often a chain has come before it gets a kernel of its own.
const SEEN_LEAST: usize = 2;

const ROWS: &str = concat!(
    include_str!("../device/rows.h"),
    include_str!("../device/norm.hip"),
    include_str!("../device/softmax.hip"),
    include_str!("../device/rows_of.hip"),
);
const PARTS: &str = concat!(
    include_str!("../device/rows.h"),
    include_str!("../device/reduce.hip"),
    include_str!("../device/rows_of.hip"),
);
/// `CANDLE_ROWS` of a softmax of its parts.
const SOFTMAX_OF_PARTS: u8 = 3;

/// An elementwise launch.
#[derive(Clone)]
pub(crate) struct Op {
    number: usize,
    entry: &'static Entry,
    known: &'static Elementwise,
    count: u64,
    /// Addresses of the operands, and whether each is dense.
    operands: [(u64, bool); 3],
    result: u64,
}

impl Op {
    /// `None` for one that other launches must not move beside.
    pub(super) fn of(window: &Window<'_>, number: usize, entry: &'static Entry) -> Option<Op> {
        let node = window.node(number);
        if window.overwrites(number, number) {
            return None;
        }
        let known = entry.elementwise()?;
        let mut operands = [(0, true); 3];
        for (at, (operand, &(slot, _))) in operands.iter_mut().zip(&known.operands).enumerate() {
            *operand = (node.word(slot), is_dense(node, at + 1));
        }
        Some(Op { number, entry, known, count: node.word(0), operands, result: node.word(known.result) })
    }

    /// Its place among the launches.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Candle's name for it.
    pub(super) fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// What it computes.
    pub(super) fn graph(&self) -> &'static Graph {
        &self.known.graph
    }

    /// The graph's scalars.
    pub(super) fn numbers(&self, window: &Window<'_>) -> impl Iterator<Item = Scalar> {
        let bits = self.number_bits(window);
        self.known.numbers.iter().zip(bits).map(|(&(_, dtype), bits)| Scalar::from_bits(dtype, bits))
    }

    /// As memory has them.
    fn number_bits(&self, window: &Window<'_>) -> impl Iterator<Item = u64> {
        let node = window.node(self.number);
        self.known.numbers.iter().map(|&(slot, dtype)| {
            let mut word = [0; 8];
            word.iter_mut().zip(node.argument(slot)).take(dtype.size_bytes()).for_each(|(to, byte)| *to = *byte);
            u64::from_le_bytes(word)
        })
    }

    /// Elements.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Where an operand begins.
    pub(super) fn operand(&self, at: usize) -> u64 {
        self.operands[at].0
    }

    /// Where the result begins.
    pub(super) fn result(&self) -> u64 {
        self.result
    }

    /// Bytes of an element, if it moves strided elements and does nothing else.
    pub(super) fn moved_bytes(&self) -> Option<usize> {
        (self.entry.family == Family::Copy && !self.operands[0].1).then_some(self.known.widest)
    }

    /// Where its elements lie: the number of axes, extents and strides, as few as say so.
    pub(super) fn place(&self, window: &Window<'_>) -> (usize, [u64; cudarc::rocfire::INFO_WORDS]) {
        collapsed(window.node(self.number), &[1])
    }

    /// The result's type.
    pub(super) fn to(&self) -> DType {
        self.known.to
    }

    /// The types of a cast of dense elements.
    pub(super) fn dense_cast(&self) -> Option<[DType; 2]> {
        let from = self.known.operands.first()?.1;
        (self.entry.family == Family::Cast && self.operands[0].1).then_some([from, self.known.to])
    }

    /// The operands: where each begins, whether it is dense, its type.
    pub(super) fn operands(&self) -> impl Iterator<Item = (u64, bool, DType)> {
        self.operands.iter().zip(&self.known.operands).map(|(&(address, dense), &(_, dtype))| (address, dense, dtype))
    }

    fn result_end(&self) -> u64 {
        self.result + self.count * self.known.to.size_bytes() as u64
    }
}

/// Word `at` of a launch's extents and strides.
pub(super) fn info_word(info: &[u8], at: usize) -> u64 {
    info.get(8 * at..8 * at + 8).map_or(0, |word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
}

/// As `is_dense` of `info.h`.
fn is_dense(node: &Node, operand: usize) -> bool {
    let (axes, info) = (node.word(1) as usize, node.argument(2));
    if axes == 0 || info_word(info, 0) == 0 {
        return true;
    }
    let mut run = 1;
    (0..axes).rev().all(|axis| {
        let extent = info_word(info, axis);
        let follows = extent <= 1 || info_word(info, operand * axes + axis) == run;
        run *= extent;
        follows
    })
}

/// Whether a launch can be the next of a chain: it reads results of the chain as they were written, and as much as `sources`
/// says.
pub(super) fn extends(chain: &[Op], next: &Op, sources: u64) -> bool {
    let outside = || chain.iter().chain([next]).flat_map(Op::operands);
    let strided = outside().filter(|&(_, dense, _)| !dense).count();
    if next.count != chain[0].count
        || chain.len() == OPS_MOST
        || outside().count() > OUTSIDE_MOST
        || strided > STRIDED_MOST
    {
        return false;
    }
    let mut read = 0_u64;
    for (address, dense, dtype) in next.operands() {
        for op in chain.iter().filter(|op| op.result <= address && address < op.result_end()) {
            if address != op.result || !dense || dtype != op.known.to {
                return false;
            }
            read |= 1 << op.number;
        }
    }
    read == sources
}

/// What is done with the rows that a chain computes.
#[derive(Clone, Copy)]
pub(crate) struct RowsOp {
    /// `CANDLE_ROWS` of `rows_of.hip`.
    kind: u8,
    dtype: DType,
    x: u64,
    rows: u32,
    columns: u32,
    y: u64,
    weight: u64,
    bias: u64,
    eps: u32,
}

impl RowsOp {
    /// `CANDLE_PARTS_LANES` and `CANDLE_PARTS_KEPT` of a softmax of its parts.
    fn parts(self) -> Option<[u64; 2]> {
        (self.kind == SOFTMAX_OF_PARTS).then(|| geometry::parts(self.columns.into()))
    }

    /// Of a softmax, where its result begins, and how many rows and columns it has.
    pub(super) fn softmax(&self) -> Option<(u64, [u64; 2])> {
        matches!(self.kind, 0 | SOFTMAX_OF_PARTS).then_some((self.y, [self.rows.into(), self.columns.into()]))
    }

    pub(super) fn of(node: &Node, entry: &'static Entry) -> RowsOp {
        let (kind, weight, bias, columns, eps) = match entry.family {
            Family::RmsNorm => (1, node.word(2), 0, node.int(3), node.int(5)),
            Family::LayerNorm => (2, node.word(2), node.word(3), node.int(4), node.int(6)),
            _ => (0, 0, 0, node.int(2), 0),
        };
        let (dtype, rows) = (Words(&entry.words).dtype(0), node.asked().grid_dim.0);
        RowsOp { kind, dtype, x: node.word(0), rows, columns, y: node.word(1), weight, bias, eps }
    }

    /// A softmax of its parts, of so many rows and columns; `None` if there are more than launches count.
    pub(super) fn of_parts(word: &str, x: u64, size: [u64; 2], y: u64) -> Option<RowsOp> {
        let dtype = family::dtype(word).filter(|dtype| dtype.is_float())?;
        let (rows, columns) = (u32::try_from(size[0]).ok()?, u32::try_from(size[1]).ok()?);
        Some(RowsOp { kind: SOFTMAX_OF_PARTS, dtype, x, rows, columns, y, weight: 0, bias: 0, eps: 0 })
    }

    /// Whether the rows are all that the chain computes last, and `sources` says that nothing else of it is read.
    pub(super) fn reads(&self, chain: &[Op], sources: u64) -> bool {
        let Some(last) = chain.last() else { return false };
        let count = u64::from(self.rows) * u64::from(self.columns);
        last.result == self.x && last.known.to == self.dtype && last.count == count && sources == 1 << last.number
    }
}

/// Where an operand of a chain comes from: an earlier op, or outside.
#[derive(Clone, Copy)]
enum From {
    Op(usize),
    Outside(usize),
}

/// A tensor from outside: address and type, and for a strided one the op and the number of its operand.
type Outside = (u64, DType, Option<(usize, usize)>);

/// A chain laid out: what it reads from outside, and which results are stored.
struct Laid<'a> {
    ops: &'a [Op],
    outside: Vec<Outside>,
    operands: Vec<Vec<From>>,
    stored: Vec<bool>,
}

impl<'a> Laid<'a> {
    fn new(ops: &'a [Op], stored: Vec<bool>) -> Laid<'a> {
        let mut laid = Laid { ops, outside: Vec::new(), operands: Vec::with_capacity(ops.len()), stored };
        for (at, op) in ops.iter().enumerate() {
            let operands = op.operands().enumerate().map(|(operand, (address, dense, dtype))| {
                if dense && let Some(source) = ops[..at].iter().position(|source| source.result == address) {
                    return From::Op(source);
                }
                let outside = (address, dtype, (!dense).then_some((at, operand + 1)));
                let known = laid.outside.iter().position(|&known| known == outside);
                From::Outside(known.unwrap_or_else(|| {
                    laid.outside.push(outside);
                    laid.outside.len() - 1
                }))
            });
            let operands = operands.collect();
            laid.operands.push(operands);
        }
        laid
    }

    /// What decides the text.
    fn key(&self, rows: Option<RowsOp>) -> Vec<usize> {
        let kind = rows.map_or(0, |rows| 1 + usize::from(rows.kind));
        let [lanes, kept] = rows.and_then(RowsOp::parts).unwrap_or_default().map(|number| number as usize);
        let mut key = vec![kind, lanes, kept, self.ops.len()];
        for (at, op) in self.ops.iter().enumerate() {
            key.push(op.entry.number);
            key.push(usize::from(self.stored[at]));
            for &operand in &self.operands[at] {
                key.push(match operand {
                    From::Op(source) => 2 * source,
                    From::Outside(outside) => 2 * (2 * outside + usize::from(self.outside[outside].2.is_some())) + 1,
                });
            }
        }
        key
    }

    /// The ops with a strided operand, in order.
    fn strided(&self) -> impl Iterator<Item = usize> {
        (0..self.ops.len()).filter(|&at| self.outside.iter().any(|outside| outside.2.is_some_and(|of| of.0 == at)))
    }

    fn lane_elements(&self) -> usize {
        geometry::lane_elements(self.ops.iter().map(|op| op.known.widest).max().unwrap_or(8))
    }

    /// The ops as one graph: its outputs are what is stored, and what the last op computes.
    fn graph(&self) -> Graph {
        let mut graph = Graph::new("candle_chain");
        let outside: Vec<Value> = self.outside.iter().map(|&(_, dtype, _)| graph.input(dtype)).collect();
        let mut results: Vec<Value> = Vec::with_capacity(self.ops.len());
        for (op, operands) in self.ops.iter().zip(&self.operands) {
            let from = |from: &From| match *from {
                From::Op(source) => results[source],
                From::Outside(at) => outside[at],
            };
            let inputs: Vec<Value> = operands.iter().map(from).collect();
            results.extend(graph.append(op.graph(), &inputs));
        }
        let last = self.ops.len() - 1;
        let is_given = |at: &usize| self.stored[*at] || *at == last;
        (0..=last).filter(is_given).for_each(|at| graph.output(results[at]));
        graph
    }

    /// What the kernel has in front of what it does with the last op's results.
    fn text(&self) -> String {
        let graph = self.graph();
        let stored = self.stored.iter().filter(|stored| **stored).count();
        let mut fields = String::from("    u64 count;\n");
        let mut put = |field: std::fmt::Arguments<'_>| writeln!(fields, "    {field};").expect("a string takes all");
        for (at, (_, dtype, _)) in self.outside.iter().enumerate() {
            put(format_args!("const {}* x{at}", family::device(*dtype)));
        }
        for (at, &output) in graph.outputs()[..stored].iter().enumerate() {
            put(format_args!("{}* y{at}", family::device(graph.dtype(output))));
        }
        self.strided().for_each(|at| put(format_args!("u64 axes{at};\n    Info info{at}")));
        for (at, dtype) in graph.scalars().enumerate() {
            put(format_args!("alignas(8) {} p{at}", family::device(dtype)));
        }
        let places = self.outside.iter().map(|outside| outside.2).collect();
        Elements { graph: &graph, stored, fields, places, may_be_dense: false }.text()
    }

    /// `Args`, as the text has it.
    fn args(&self, window: &Window<'_>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1024);
        let word = |word: u64| word.to_ne_bytes();
        bytes.extend(word(self.ops[0].count));
        self.outside.iter().for_each(|outside| bytes.extend(word(outside.0)));
        for (op, _) in self.ops.iter().zip(&self.stored).filter(|(_, stored)| **stored) {
            bytes.extend(word(op.result));
        }
        for at in self.strided() {
            let operands = self.outside.iter().filter_map(|outside| outside.2).filter(|of| of.0 == at);
            let operands: Vec<usize> = operands.map(|of| of.1).collect();
            let (axes, info) = collapsed(window.node(self.ops[at].number), &operands);
            bytes.extend(word(axes as u64));
            bytes.extend(info.into_iter().flat_map(word));
        }
        self.ops.iter().flat_map(|op| op.number_bits(window)).for_each(|bits| bytes.extend(word(bits)));
        bytes
    }
}

/// A launch's extents and strides with as few axes as say the same of these of its operands: an element costs a division for
/// each axis but one.
fn collapsed(node: &Node, operands: &[usize]) -> (usize, [u64; cudarc::rocfire::INFO_WORDS]) {
    let (axes, info) = (node.word(1) as usize, node.argument(2));
    let mut extents: Vec<u64> = Vec::with_capacity(axes);
    let mut strides: Vec<Vec<u64>> = vec![Vec::with_capacity(axes); operands.len()];
    for axis in 0..axes {
        let extent = info_word(info, axis);
        let own = |operand: usize| info_word(info, operand * axes + axis);
        let follows = |(&operand, strides): (&usize, &Vec<u64>)| {
            strides.last().is_some_and(|&outer| outer == own(operand) * extent)
        };
        if extent == 1 {
            continue;
        }
        match extents.last_mut() {
            Some(outer) if operands.iter().zip(&strides).all(follows) => {
                *outer *= extent;
                let inner = strides.iter_mut().filter_map(|strides| strides.last_mut());
                inner.zip(operands).for_each(|(stride, &operand)| *stride = own(operand));
            }
            _ => {
                extents.push(extent);
                strides.iter_mut().zip(operands).for_each(|(strides, &operand)| strides.push(own(operand)));
            }
        }
    }
    if extents.is_empty() {
        extents.push(1);
        strides.iter_mut().for_each(|strides| strides.push(0));
    }
    let mut words = [0; cudarc::rocfire::INFO_WORDS];
    let count = extents.len();
    words[..count].copy_from_slice(&extents);
    for (strides, &operand) in strides.iter().zip(operands) {
        words[operand * count..][..count].copy_from_slice(strides);
    }
    (count, words)
}

/// A chain, or rows of it, as one launch; `None` for one launch, and until it has come often enough.
pub(super) fn merged(window: &Window<'_>, group: &Group, ops: &[Op], rows: Option<RowsOp>) -> Option<Merged> {
    if group.members.len() < 2 {
        return None;
    }
    let is_stored = |op: &Op| window.is_owned(op.number) || window.readers(op.number) & !group.mask != 0;
    let mut stored: Vec<bool> = ops.iter().map(is_stored).collect();
    if rows.is_none() {
        *stored.last_mut()? = true;
    }
    let laid = Laid::new(ops, stored);
    let source = source(&laid, rows)?;
    let mut bytes = laid.args(window);
    let count = laid.ops[0].count;
    match rows {
        None => {
            let config = geometry::groups(count.div_ceil(u64::from(BLOCK) * laid.lane_elements() as u64), BLOCK);
            Some(Merged { label: "candle_chain", source, entry: "candle_chain", config, bytes })
        }
        Some(rows) => {
            for word in [rows.y, rows.weight, rows.bias, u64::from(rows.columns) | u64::from(rows.eps) << 32] {
                bytes.extend(word.to_ne_bytes());
            }
            let config = match rows.kind {
                SOFTMAX_OF_PARTS => geometry::rows_together(rows.rows, rows.columns.into()),
                _ => geometry::row_groups(rows.rows, rows.columns.into()),
            };
            Some(Merged { label: "candle_rows_of", source, entry: "candle_rows_of", config, bytes })
        }
    }
}

/// The kernel of a chain; `None` until it has come often enough.
fn source(laid: &Laid<'_>, rows: Option<RowsOp>) -> Option<Arc<Source>> {
    type Sources = HashMap<Vec<usize>, (usize, Option<Arc<Source>>)>;
    static SOURCES: LazyLock<Mutex<Sources>> = LazyLock::new(Mutex::default);
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let (seen, source) = sources.entry(laid.key(rows)).or_insert((0, None));
    if *seen < SEEN_LEAST {
        *seen += 1;
        return None;
    }
    let made = source.get_or_insert_with(|| {
        let lane = laid.lane_elements().to_string();
        let (file, end) = match rows.map(|rows| rows.kind) {
            None => ("each.hip", each::kernel("CANDLE_ARGUMENT Args a", "")),
            Some(SOFTMAX_OF_PARTS) => ("rows_of.hip", PARTS.to_owned()),
            Some(_) => ("rows_of.hip", ROWS.to_owned()),
        };
        let kind = rows.map_or(0, |rows| rows.kind).to_string();
        let [lanes, kept] = rows.and_then(RowsOp::parts).unwrap_or_default().map(|number| number.to_string());
        let defines = match rows.map(|rows| family::device(rows.dtype)) {
            None => vec![("CANDLE_V", lane.as_str()), ("CANDLE_NAME", "candle_chain")],
            Some(of) => vec![
                ("CANDLE_ROWS", kind.as_str()),
                ("CANDLE_T", of),
                ("CANDLE_LAYER", "2"),
                ("CANDLE_PARTS_LANES", lanes.as_str()),
                ("CANDLE_PARTS_KEPT", kept.as_str()),
            ],
        };
        Arc::new(Source::new(file, [HEAD.as_str(), &laid.text(), &end].concat(), &defines))
    });
    Some(Arc::clone(made))
}
