//! Launches of one kind in one: copies, rotary embeddings, thin products. Members stand behind each other along the grid.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::rocfire::{Merged, Node, Window};
use rocfire_hal::{DType, Source};

use super::Group;
use super::chain::Op;
use crate::family::{self, Words, device, template};
use crate::geometry::{self, BLOCK};
use crate::table::Entry;

/// Members of each kind, most: [`COPIES_MOST`] of 40 bytes, the others of 72 and 48.
const COPIES_MOST: usize = 32;
pub(super) const ROPES_MOST: usize = 8;
const THIN_MOST: usize = 8;
/// Members of 296 bytes.
pub(super) const PERMUTES_MOST: usize = 6;

/// Rows that are thin, most; and rows of weights of a workgroup's wave: `CANDLE_LINES` of `thin.hip`.
const THIN_ROWS_MOST: usize = 4;
const LINES: u32 = 2;
/// Up to so many rows of weights are each summed by a whole workgroup: one wave each would leave most of a large card idle. On
/// an H200 2048 rows of 2048 and of 8192 by 2 a wave took 15 us on average, where a copy's speed would be 5
/// (`candle-models bench llama`, 2026-11-22).
const SPLIT_OUTPUTS_MOST: u32 = 4096;

const COPIES: (&str, &str) = template!("info.h" "each.h" "chain.h" => "copies.hip");
const PERMUTES: (&str, &str) = template!("info.h" "each.h" => "permutes.hip");
const ROPE: (&str, &str) = template!("info.h" "each.h" => "rope.hip");
const THIN: (&str, &str) = template!("info.h" "each.h" "chain.h" => "thin.hip");

/// A source by what varies in it, made and hashed once.
fn source(text: (&'static str, &'static str), entry: &'static str, defines: &[(&'static str, &str)]) -> Arc<Source> {
    static SOURCES: LazyLock<Mutex<HashMap<String, Arc<Source>>>> = LazyLock::new(Mutex::default);
    let key = defines.iter().fold(entry.to_owned(), |key, (_, value)| key + " " + value);
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let made = || {
        let all: Vec<(&str, &str)> = defines.iter().copied().chain([("CANDLE_NAME", entry)]).collect();
        Arc::new(Source::new(text.0, text.1, &all))
    };
    Arc::clone(sources.entry(key).or_insert_with(made))
}

/// An argument struct: the number of members, and they.
pub(super) fn members<const WORDS: usize>(members: &[[u64; WORDS]], most: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + 8 * WORDS * most);
    bytes.extend_from_slice(&(members.len() as u64).to_ne_bytes());
    bytes.extend(members.iter().flatten().flat_map(|word| word.to_ne_bytes()));
    bytes.resize(8 + 8 * WORDS * most, 0);
    bytes
}

/// Two numbers of 32 bits, the first at the lower address.
pub(super) fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

// --- copies ---

/// Copies in one launch.
pub(crate) struct Copies {
    /// What is copied, and what it becomes where a member changes it.
    from: DType,
    to: Option<DType>,
    members: Vec<Copy2d>,
}

#[derive(Clone, Copy)]
struct Copy2d {
    number: usize,
    x: u64,
    out: u64,
    rows: u32,
    columns: u32,
    x_stride: u32,
    out_stride: u32,
    converts: bool,
}

impl Copies {
    /// `copy2d`: from, to, rows, columns, strides.
    pub(super) fn of(number: usize, node: &Node, entry: &'static Entry) -> Copies {
        let dtype = Words(&entry.words).dtype(0);
        let [rows, columns, x_stride, out_stride] = [2, 3, 4, 5].map(|slot| node.int(slot));
        let (x, out) = (node.word(0), node.word(1));
        let member = Copy2d { number, x, out, rows, columns, x_stride, out_stride, converts: false };
        Copies { from: dtype, to: None, members: vec![member] }
    }

    /// A dense cast as a copy of one row; `None` if it is none.
    pub(super) fn of_cast(number: usize, op: &Op) -> Option<Copies> {
        let [from, to] = op.dense_cast()?;
        let columns = u32::try_from(op.count()).ok()?;
        let (x, out) = (op.operand(0), op.result());
        let member =
            Copy2d { number, x, out, rows: 1, columns, x_stride: columns, out_stride: columns, converts: true };
        Some(Copies { from, to: Some(to), members: vec![member] })
    }

    fn agrees(&self, other: &Copies) -> bool {
        let to_agrees = self.to.is_none() || other.to.is_none() || self.to == other.to;
        self.from == other.from && to_agrees
    }

    /// Takes the members of another; whether it can.
    pub(super) fn take(&mut self, other: &mut Copies) -> bool {
        if !self.agrees(other) || self.members.len() + other.members.len() > COPIES_MOST {
            return false;
        }
        self.to = self.to.or(other.to);
        self.members.append(&mut other.members);
        true
    }

    /// Lets the members of `mask` do a cast of all that they copy; whether they can.
    pub(super) fn convert(&mut self, mask: u64, cast: &Copies) -> bool {
        let [whole] = cast.members[..] else { return false };
        if !self.agrees(cast) {
            return false;
        }
        let (bytes, to_bytes) = (self.from.size_bytes() as u64, cast.to.map_or(0, |to| to.size_bytes() as u64));
        let concerned = |member: &&Copy2d| mask >> member.number & 1 == 1;
        let mut elements = 0;
        for member in self.members.iter().filter(concerned) {
            let inside = member.out >= whole.x && (member.out - whole.x).is_multiple_of(bytes);
            if member.converts || !inside {
                return false;
            }
            elements += u64::from(member.rows) * u64::from(member.columns);
        }
        // The members are apart: as many elements as are read are all of them.
        if elements != u64::from(whole.columns) {
            return false;
        }
        self.to = self.to.or(cast.to);
        for member in self.members.iter_mut().filter(|member| mask >> member.number & 1 == 1) {
            member.out = whole.out + (member.out - whole.x) / bytes * to_bytes;
            member.converts = true;
        }
        true
    }

    pub(super) fn merged(&self, group: &Group) -> Option<Merged> {
        if group.members.len() < 2 {
            return None;
        }
        let to = self.to.unwrap_or(self.from);
        let lane = geometry::lane_elements(self.from.size_bytes().max(to.size_bytes()));
        let mut first = 0_u64;
        let mut words = Vec::with_capacity(self.members.len());
        for member in &self.members {
            let Copy2d { x, out, rows, columns, x_stride, out_stride, converts, .. } = *member;
            let start = u32::try_from(first).ok()?;
            words.push([x, out, pair(rows, columns), pair(x_stride, out_stride), pair(start, converts.into())]);
            first += (u64::from(rows) * u64::from(columns)).div_ceil(u64::from(BLOCK) * lane as u64);
        }
        let defines = [
            ("CANDLE_FROM", device(self.from)),
            ("CANDLE_TO", device(to)),
            ("CANDLE_V", &*lane.to_string()),
            ("CANDLE_SEVERAL", &*COPIES_MOST.to_string()),
        ];
        let source = source(COPIES, "candle_copies", &defines);
        let (bytes, config) = (members(&words, COPIES_MOST), geometry::groups(first, BLOCK));
        Some(Merged { label: "candle_copies", source, entry: "candle_copies", config, bytes })
    }
}

// --- permutes ---

/// Copies of strided elements in one launch; `None` for one.
pub(super) fn permutes(window: &Window<'_>, ops: &[Op]) -> Option<Merged> {
    const WORDS: usize = 5 + cudarc::rocfire::INFO_WORDS;
    let (bytes, dtype) = (ops.first()?.moved_bytes()?, ops.first()?.to());
    if ops.len() < 2 {
        return None;
    }
    let (element, lane) = (family::moved(dtype), geometry::lane_elements(bytes));
    let mut first = 0_u64;
    let mut rows = Vec::with_capacity(ops.len());
    for op in ops {
        let (axes, info) = op.place(window);
        let mut words = [0; WORDS];
        words[..5].copy_from_slice(&[op.count(), axes as u64, op.operand(0), op.result(), first]);
        words[5..].copy_from_slice(&info);
        rows.push(words);
        first += op.count().div_ceil(u64::from(BLOCK) * lane as u64);
    }
    let (lane, several) = (lane.to_string(), PERMUTES_MOST.to_string());
    let defines = [("CANDLE_T", element), ("CANDLE_V", &*lane), ("CANDLE_SEVERAL", &*several)];
    let source = source(PERMUTES, "candle_permutes", &defines);
    let (bytes, config) = (members(&rows, PERMUTES_MOST), geometry::groups(first, BLOCK));
    Some(Merged { label: "candle_permutes", source, entry: "candle_permutes", config, bytes })
}

// --- rotary embeddings ---

/// Ropes of one entry in one launch; `None` for one.
pub(super) fn ropes(window: &Window<'_>, group: &Group, entry: &'static Entry) -> Option<Merged> {
    if group.members.len() < 2 {
        return None;
    }
    let words = Words(&entry.words);
    let (kind, numbers) = match words.word(0) {
        "rope" => ("0", 4),
        "rope_i" => ("1", 3),
        _ => ("2", 5),
    };
    let mut first = 0;
    let mut rows = Vec::with_capacity(group.members.len());
    for &number in &group.members {
        let node = window.node(number);
        let mut given = [0; 5];
        for (at, given) in given.iter_mut().enumerate().take(numbers - 1) {
            *given = node.int(4 + at);
        }
        // The stride between batch entries is the last number of each kind.
        given[4] = node.int(4 + numbers - 1);
        let [x, cos, sin, y] = [0, 1, 2, 3].map(|slot| node.word(slot));
        let [a, b, c, d, stride] = given;
        rows.push([x, cos, sin, y, pair(a, b), pair(c, d), pair(stride, first), 0]);
        first += node.asked().grid_dim.0 * (1024 / BLOCK);
    }
    let several = ROPES_MOST.to_string();
    let defines = [("CANDLE_T", device(words.dtype(1))), ("CANDLE_KIND", kind), ("CANDLE_SEVERAL", &*several)];
    let source = source(ROPE, "candle_ropes", &defines);
    let (bytes, config) = (members(&rows, ROPES_MOST), geometry::groups(first.into(), BLOCK));
    Some(Merged { label: "candle_ropes", source, entry: "candle_ropes", config, bytes })
}

// --- thin products ---

/// Products of a few rows with weights, in one launch.
pub(crate) struct Thin {
    dtype: DType,
    /// What the rows are read as: another type is rounded to the weights'.
    x: DType,
    rows: usize,
    /// Whether a workgroup sums a row of weights.
    split: bool,
    members: Vec<ThinProduct>,
}

#[derive(Clone, Copy)]
struct ThinProduct {
    x: u64,
    w: u64,
    y: u64,
    columns: u32,
    outputs: u32,
    x_stride: u32,
    w_stride: u32,
    y_stride: u32,
}

impl Thin {
    /// A product whose weights lie along what is summed over; `None` for any other.
    pub(super) fn of(node: &Node) -> Option<Thin> {
        let product = node.product()?.product;
        let dtype = product.dtype;
        let is_thin = product.batch == 1 && (1..=THIN_ROWS_MOST).contains(&product.n);
        let is_laid =
            product.a.is_transposed && (!product.b.is_transposed || (product.n == 1 && product.b.leading == 1));
        if !is_thin || !is_laid || !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return None;
        }
        let number = |value: i64| u32::try_from(value).ok();
        let member = ThinProduct {
            x: product.b.address,
            w: product.a.address,
            y: product.c.address,
            columns: u32::try_from(product.k).ok()?,
            outputs: u32::try_from(product.m).ok()?,
            x_stride: number(product.b.leading)?,
            w_stride: number(product.a.leading)?,
            y_stride: number(product.c.leading)?,
        };
        let split = member.outputs <= SPLIT_OUTPUTS_MOST;
        Some(Thin { dtype, x: dtype, rows: product.n, split, members: vec![member] })
    }

    /// Takes the members of another; whether it can.
    pub(super) fn take(&mut self, other: &mut Thin) -> bool {
        let is_same = (self.dtype, self.x, self.rows, self.split) == (other.dtype, other.x, other.rows, other.split);
        if !is_same || self.members.len() + other.members.len() > THIN_MOST {
            return false;
        }
        self.members.append(&mut other.members);
        true
    }

    /// Reads what a cast reads, if that cast gives exactly the rows; whether it does.
    pub(super) fn read_through(&mut self, op: &Op) -> bool {
        let [member] = &mut self.members[..] else { return false };
        let Some([from, _]) = op.dense_cast() else { return false };
        let is_dense = self.rows == 1 || member.x_stride == member.columns;
        let is_whole = op.count() == self.rows as u64 * u64::from(member.columns);
        let is_float = matches!(from, DType::F32 | DType::F16 | DType::BF16);
        if op.to() != self.dtype || member.x != op.result() || !is_float || !is_dense || !is_whole {
            return false;
        }
        (member.x, self.x) = (op.operand(0), from);
        true
    }

    pub(super) fn merged(&self, window: &Window<'_>) -> Merged {
        let mut first = 0;
        let mut words = Vec::with_capacity(self.members.len());
        let waves = if self.split { 1 } else { BLOCK / window.device().arch().info().wave_size };
        for member in &self.members {
            let ThinProduct { x, w, y, columns, outputs, x_stride, w_stride, y_stride } = *member;
            words.push([x, w, y, pair(columns, outputs), pair(x_stride, w_stride), pair(y_stride, first)]);
            first += outputs.div_ceil(LINES * waves);
        }
        let (rows, several) = (self.rows.to_string(), THIN_MOST.to_string());
        let defines = [
            ("CANDLE_T", device(self.dtype)),
            ("CANDLE_X", device(self.x)),
            ("CANDLE_ROWS", &*rows),
            ("CANDLE_SPLIT", if self.split { "1" } else { "0" }),
            ("CANDLE_SEVERAL", &*several),
        ];
        let source = source(THIN, "candle_thin", &defines);
        let (bytes, config) = (members(&words, THIN_MOST), geometry::groups(first.into(), BLOCK));
        Merged { label: "candle_thin", source, entry: "candle_thin", config, bytes }
    }
}
