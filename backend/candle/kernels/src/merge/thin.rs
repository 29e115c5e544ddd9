//! Products of a few rows with rows of weights, several in one launch: members stand behind each other along the grid.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::rocfire::{Merged, Node, Window};
use rocfire_fusion::storage;
use rocfire_hal::{DType, Source};

use super::compose::Op;
use super::{Kind, Plan};
use crate::family::template;
use crate::geometry::{self, BLOCK};
use crate::table::Family;

/// Members of 48 bytes, most.
const THIN_MOST: usize = 8;

/// Rows that are thin, most; and rows of weights of a workgroup's wave: `CANDLE_LINES` of `thin.hip`.
const THIN_ROWS_MOST: usize = 4;
const LINES: u32 = 2;
/// Up to so many rows of weights are each summed by a whole workgroup: one wave each would leave most of a large card idle. On
/// an H200 2048 rows of 2048 and of 8192 by 2 a wave took 15 us on average, where a copy's speed would be 5
/// (`candle-models bench llama`, 2026-11-22).
const SPLIT_OUTPUTS_MOST: u32 = 4096;

const THIN: (&str, &str) = template!("template.h" => "thin.hip");
const ENTRY: &str = "candle_thin";

/// A source by what varies in it, made and hashed once.
fn source(defines: &[(&'static str, &str)]) -> Arc<Source> {
    static SOURCES: LazyLock<Mutex<HashMap<String, Arc<Source>>>> = LazyLock::new(Mutex::default);
    let key = defines.iter().fold(String::new(), |key, (_, value)| key + " " + value);
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let made = || {
        let all: Vec<(&str, &str)> = defines.iter().copied().chain([("CANDLE_NAME", ENTRY)]).collect();
        Arc::new(Source::new(THIN.0, THIN.1, &all))
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

impl Plan<'_, '_> {
    pub(super) fn join_thin(&mut self, number: usize, mut thin: Thin) -> Result<(), Kind> {
        let (after, sources) = (self.window.after(number), self.window.sources(number));
        for at in self.reachable(number) {
            let members = self.groups[at].mask;
            if let Kind::Thin(group) = &mut self.groups[at].kind
                && after & members == 0
                && group.take(&mut thin)
            {
                return self.put(at, number);
            }
        }
        // A cast of its rows, that nobody else reads.
        for at in self.reachable(number) {
            let [cast] = self.groups[at].members[..] else { continue };
            if sources & 1 << cast == 0 || !self.is_only_for(cast, number) || !self.only_reads(number, at) {
                continue;
            }
            if let Kind::Graph(ops) = &self.groups[at].kind
                && thin.read_through(&ops[0])
            {
                self.groups[at].kind = Kind::Thin(thin);
                return self.put(at, number);
            }
        }
        Err(Kind::Thin(thin))
    }
}

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
        let Some(from) = op.dense_map().filter(|_| op.entry().family == Family::Cast) else { return false };
        let is_dense = self.rows == 1 || member.x_stride == member.columns;
        let is_whole = op.count() == self.rows * member.columns as usize;
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
            ("CANDLE_T", storage(self.dtype)),
            ("CANDLE_X", storage(self.x)),
            ("CANDLE_ROWS", &*rows),
            ("CANDLE_SPLIT", if self.split { "1" } else { "0" }),
            ("CANDLE_SEVERAL", &*several),
        ];
        let (bytes, config) = (members(&words, THIN_MOST), geometry::groups(first.into(), BLOCK));
        Merged { label: ENTRY, source: source(&defines), entry: ENTRY, config, bytes }
    }
}
