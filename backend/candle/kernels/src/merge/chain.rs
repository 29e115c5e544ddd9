//! Chains of elementwise kernels as one kernel, and as the first part of a softmax or norm of rows.
//!
//! The text of a chain is written from the templates' own functors, each result rounded to its type: so the bits are those of
//! the kernels one by one. A chain is written and compiled when it comes for the third time.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::rocfire::{Merged, Node, Window};
use rocfire_hal::Source;

use super::Group;
use crate::family::{self, Words};
use crate::geometry::{self, BLOCK};
use crate::table::{Entry, Family};

/// Kernels of a chain, tensors from outside, and operands with strides, most: what fits into arguments of 4 KiB.
const OPS_MOST: usize = 8;
const OUTSIDE_MOST: usize = 12;
const STRIDED_MOST: usize = 6;
/// How often a chain has come before it gets a kernel of its own.
const SEEN_LEAST: usize = 2;

const HEAD: &str = concat!(
    include_str!("../device/info.h"),
    include_str!("../device/each.h"),
    include_str!("../device/operators.h"),
    include_str!("../device/chain.h"),
);
const EACH: &str = include_str!("../device/chain.hip");
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

/// What a kernel computes, by its name.
#[derive(Debug)]
struct Known {
    /// The slots of the operands, with their types; the slot of the result.
    operands: Vec<(usize, &'static str)>,
    result: usize,
    to: &'static str,
    to_bytes: usize,
    /// Bytes of the widest type.
    bytes: usize,
    code: Code,
}

#[derive(Debug)]
enum Code {
    /// Unchanged.
    Move,
    /// Another type's.
    Cast,
    /// A functor of `operators.h`, with numbers from these slots.
    Map(String, &'static [usize]),
    Two(String),
    Choose,
}

impl Known {
    fn of(entry: &'static Entry) -> &'static Known {
        static KNOWN: LazyLock<Mutex<HashMap<&'static str, &'static Known>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // There are as many as names of elementwise kernels.
        known.entry(&entry.name).or_insert_with(|| Box::leak(Box::new(Known::new(entry))))
    }

    fn new(entry: &'static Entry) -> Known {
        let words = Words(&entry.words);
        let functor = || {
            let spec = family::spec(entry).expect("elementwise kernels can be reached");
            let defined = spec.defines.into_iter().find(|(name, _)| name == "CANDLE_OP");
            defined.expect("their templates have a functor").1
        };
        let dtype = words.dtype(usize::from(words.has(1)));
        let (t, bytes) = (dtype.device, dtype.bytes);
        let one = |slot, result, code| Known { operands: vec![(slot, t)], result, to: t, to_bytes: bytes, bytes, code };
        let two = |to, to_bytes, code| Known { operands: vec![(3, t), (4, t)], result: 5, to, to_bytes, bytes, code };
        match entry.family {
            Family::Affine => one(3, 4, Code::Map(functor(), &[5, 6])),
            Family::Copy => one(3, 4, Code::Move),
            Family::UnaryParameter => one(4, 5, Code::Map(functor(), &[3])),
            Family::Binary => two(t, bytes, Code::Two(functor())),
            Family::Compare => two("u8", 1, Code::Two(functor())),
            Family::Cast => {
                let from = words.dtype(0);
                let widest = bytes.max(from.bytes);
                Known { operands: vec![(3, from.device)], bytes: widest, ..one(3, 4, Code::Cast) }
            }
            Family::Where => {
                let id = words.dtype(0);
                let operands = vec![(3, id.device), (4, t), (5, t)];
                Known { operands, bytes: bytes.max(id.bytes), ..one(3, 6, Code::Choose) }
            }
            _ => one(3, 4, Code::Map(functor(), &[])),
        }
    }
}

/// An elementwise launch.
#[derive(Clone)]
pub(crate) struct Op {
    number: usize,
    known: &'static Known,
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
        let known = Known::of(entry);
        let mut operands = [(0, true); 3];
        for (at, (operand, &(slot, _))) in operands.iter_mut().zip(&known.operands).enumerate() {
            *operand = (node.word(slot), is_dense(node, at + 1));
        }
        Some(Op { number, known, count: node.word(0), operands, result: node.word(known.result) })
    }

    /// Its place among the launches.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The functor that it applies; `None` for a cast, a choice or what only moves.
    pub(super) fn functor(&self) -> Option<&'static str> {
        match &self.known.code {
            Code::Map(functor, _) | Code::Two(functor) => Some(functor),
            Code::Move | Code::Cast | Code::Choose => None,
        }
    }

    /// The functor's numbers; none for a type that is no float.
    pub(super) fn numbers(&self, window: &Window<'_>) -> Vec<f64> {
        let Code::Map(_, slots) = &self.known.code else { return Vec::new() };
        let number = |&slot: &usize| {
            let bytes = window.node(self.number).argument(slot);
            match self.known.operands[0].1 {
                "float" => Some(f64::from(f32::from_ne_bytes(*bytes.first_chunk()?))),
                "f16" => Some(half::f16::from_ne_bytes(*bytes.first_chunk()?).to_f64()),
                "bf16" => Some(half::bf16::from_ne_bytes(*bytes.first_chunk()?).to_f64()),
                _ => None,
            }
        };
        slots.iter().filter_map(number).collect()
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
        (matches!(self.known.code, Code::Move) && !self.operands[0].1).then_some(self.known.to_bytes)
    }

    /// Where its elements lie: the number of axes, extents and strides, as few as say so.
    pub(super) fn place(&self, window: &Window<'_>) -> (usize, [u64; cudarc::rocfire::INFO_WORDS]) {
        collapsed(window.node(self.number), &[1])
    }

    /// The result's type.
    pub(super) fn to(&self) -> &'static str {
        self.known.to
    }

    /// The types of a cast of dense elements, with their sizes.
    pub(super) fn dense_cast(&self) -> Option<[(&'static str, usize); 2]> {
        let Known { code: Code::Cast, operands, to, to_bytes, .. } = self.known else { return None };
        let (from, to) = (operands[0].1, (*to, *to_bytes));
        self.operands[0].1.then(|| [(from, size_of_type(from)), to])
    }

    /// The operands: where each begins, whether it is dense, its type.
    pub(super) fn operands(&self) -> impl Iterator<Item = (u64, bool, &'static str)> {
        self.operands.iter().zip(&self.known.operands).map(|(&(address, dense), &(_, dtype))| (address, dense, dtype))
    }

    fn result_end(&self) -> u64 {
        self.result + self.count * self.known.to_bytes as u64
    }
}

fn size_of_type(device: &str) -> usize {
    match device {
        "u8" => 1,
        "bf16" | "f16" | "i16" => 2,
        "float" | "u32" | "i32" => 4,
        _ => 8,
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
    dtype: &'static str,
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
        let (dtype, rows) = (Words(&entry.words).dtype(0).device, node.asked().grid_dim.0);
        RowsOp { kind, dtype, x: node.word(0), rows, columns, y: node.word(1), weight, bias, eps }
    }

    /// A softmax of its parts, of so many rows and columns; `None` if there are more than launches count.
    pub(super) fn of_parts(word: &str, x: u64, size: [u64; 2], y: u64) -> Option<RowsOp> {
        let dtype = match word {
            "f32" => "float",
            "f64" => "double",
            "f16" => "f16",
            "bf16" => "bf16",
            _ => return None,
        };
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
type Outside = (u64, &'static str, Option<(usize, usize)>);

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
            key.push(std::ptr::from_ref(op.known).addr());
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
        geometry::lane_elements(self.ops.iter().map(|op| op.known.bytes).max().unwrap_or(8))
    }

    /// `CandleChainArgs` and `CandleChain`.
    fn text(&self) -> String {
        let mut text = String::from("struct CandleChainArgs {\n    u64 count;\n");
        let mut put = |line: std::fmt::Arguments<'_>| {
            text.write_fmt(line).expect("a string takes all");
            text.push('\n');
        };
        for (at, (_, dtype, _)) in self.outside.iter().enumerate() {
            put(format_args!("    const {dtype}* x{at};"));
        }
        let is_stored = |at: &usize| self.stored[*at];
        for at in (0..self.ops.len()).filter(is_stored) {
            put(format_args!("    {}* y{at};", self.ops[at].known.to));
        }
        for at in self.strided() {
            put(format_args!("    u64 axes{at};\n    Info info{at};"));
        }
        for (at, op) in self.ops.iter().enumerate() {
            if let Code::Map(_, slots) = &op.known.code {
                let dtype = op.known.operands[0].1;
                (0..slots.len()).for_each(|slot| put(format_args!("    alignas(8) {dtype} p{at}_{slot};")));
            }
        }
        let last = self.ops.len() - 1;
        put(format_args!("}};\nstruct CandleChain {{\n    const CandleChainArgs& a;"));
        let to = self.ops[last].known.to;
        put(format_args!("    // W elements from element n on; the last results are given too."));
        put(format_args!("    template <int W> RF_FN void go(u32 n, {to}* last) const {{"));
        for (at, (_, dtype, strided)) in self.outside.iter().enumerate() {
            match strided {
                None => put(format_args!("        {dtype} x{at}[W];\n        Part<W>::load(a.x{at}, n, x{at});")),
                Some((op, operand)) => put(format_args!(
                    "        {dtype} x{at}[W];\n        Part<W>::load(a.info{op}, a.axes{op}, {operand}, a.x{at}, n, x{at});"
                )),
            }
        }
        for at in 0..self.ops.len() {
            let (to, code) = (self.ops[at].known.to, self.code(at));
            put(format_args!("        {to} v{at}[W];\n        {code}"));
            if self.stored[at] {
                put(format_args!("        Part<W>::store(a.y{at}, n, v{at});"));
            }
        }
        put(format_args!("        for (int j = 0; j < W; ++j) last[j] = v{last}[j];\n    }}"));
        let runs: String =
            self.outside.iter().filter_map(|outside| outside.2).fold(String::new(), |all, (op, operand)| {
                all + &format!(" && has_runs<V>(a.info{op}, (u32)a.axes{op}, {operand})")
            });
        put(format_args!("    template <int V> RF_FN bool has_all_runs() const {{ return true{runs}; }}"));
        let types = self.outside.iter().enumerate().map(|(at, outside)| (outside.1, format!("x{at}")));
        let stored = (0..self.ops.len()).filter(is_stored).map(|at| (self.ops[at].known.to, format!("y{at}")));
        let aligned = types
            .chain(stored)
            .fold(String::new(), |all, (dtype, name)| all + &format!(" && is_aligned<{dtype}, V>(a.{name})"));
        put(format_args!("    template <int V> RF_FN bool is_all_aligned() const {{ return true{aligned}; }}\n}};"));
        text
    }

    /// How an op's elements are computed.
    fn code(&self, at: usize) -> String {
        let known = self.ops[at].known;
        let name = |operand: usize| match self.operands[at][operand] {
            From::Op(source) => format!("v{source}[j]"),
            From::Outside(outside) => format!("x{outside}[j]"),
        };
        let (from, to) = (known.operands[0].1, known.to);
        let each = format!("for (int j = 0; j < W; ++j) v{at}[j] =");
        match &known.code {
            Code::Move => format!("{each} {};", name(0)),
            Code::Cast => format!("{each} cast<{to}>(Wide<{from}>::of({}));", name(0)),
            Code::Map(functor, []) => {
                format!("{{ {functor} f; {each} cast<{to}>(f.of(Wide<{from}>::of({}))); }}", name(0))
            }
            Code::Map(functor, slots) => {
                let numbers: Vec<String> =
                    (0..slots.len()).map(|slot| format!("Wide<{from}>::of(a.p{at}_{slot})")).collect();
                let numbers = numbers.join(", ");
                let made = format!("{functor}<Wide<{from}>::type> f = {{{numbers}}};");
                format!("{{ {made} {each} cast<{to}>(f.of(Wide<{from}>::of({}))); }}", name(0))
            }
            Code::Two(functor) => {
                let (x, y) = (name(0), name(1));
                format!("{each} cast<{to}>({functor}::of(Wide<{from}>::of({x}), Wide<{from}>::of({y})));")
            }
            Code::Choose => format!("{each} {} != 0 ? {} : {};", name(0), name(1), name(2)),
        }
    }

    /// `CandleChainArgs`.
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
        for op in self.ops {
            if let Code::Map(_, slots) = &op.known.code {
                let size = size_of_type(op.known.operands[0].1);
                for &slot in *slots {
                    bytes.extend_from_slice(&window.node(op.number).argument(slot)[..size]);
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                }
            }
        }
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
        let strides = laid.strided().next().is_some().to_string();
        let (file, end) = match rows.map(|rows| rows.kind) {
            None => ("chain.hip", EACH),
            Some(SOFTMAX_OF_PARTS) => ("rows_of.hip", PARTS),
            Some(_) => ("rows_of.hip", ROWS),
        };
        let kind = rows.map_or(0, |rows| rows.kind).to_string();
        let [lanes, kept] = rows.and_then(RowsOp::parts).unwrap_or_default().map(|number| number.to_string());
        let last = laid.ops.last().map_or("u8", Op::to);
        let mut defines = vec![("CANDLE_V", lane.as_str()), ("CANDLE_STRIDES", &strides), ("CANDLE_LAST", last)];
        if let Some(rows) = rows {
            defines.extend([("CANDLE_ROWS", kind.as_str()), ("CANDLE_T", rows.dtype), ("CANDLE_LAYER", "2")]);
            defines.extend([("CANDLE_PARTS_LANES", lanes.as_str()), ("CANDLE_PARTS_KEPT", &kept)]);
        }
        Arc::new(Source::new(file, [HEAD, &laid.text(), end].concat(), &defines))
    });
    Some(Arc::clone(made))
}
