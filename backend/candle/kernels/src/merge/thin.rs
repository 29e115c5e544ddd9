//! Products of up to four rows with a matrix of weights, several in one launch: their workgroups follow each other along the grid.
//!
//! One step of decoding asks for such products one by one, each with its own weights, columns and outputs, some behind a cast.
//! This kernel is here and not in `rocfire-kernels` because it takes a list of them. Candle's window of waiting launches has that
//! list, and the dependencies that say which of them may share a launch. No launcher of `rocfire-kernels` takes a list: each gets
//! one product, and its joined launches must be of one kernel and read the same first matrix.

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

/// The most products that one launch takes; each costs 48 bytes of arguments.
const THIN_MOST: usize = 8;

/// The most rows of activations that a product may have to be thin.
const THIN_ROWS_MOST: usize = 4;
/// Rows of weights that a wave sums at once, or a workgroup where it sums them as a whole: `CANDLE_LINES` of `thin.hip`.
const LINES: u32 = 2;
/// A matrix of at most so many rows of weights is summed by whole workgroups: with waves alone most of a large card would be idle.
/// On an H200, with two rows of weights a wave, products of 2048 rows of 2048 and of 8192 columns took 15 us on average; at a
/// copy's speed they would take 5 (`candle-models bench llama`, 2026-11-22).
const SPLIT_OUTPUTS_MOST: u32 = 4096;

const THIN: (&str, &str) = template!("template.h" => "thin.hip");
const ENTRY: &str = "candle_thin";

/// The kernel's source for some values of its defines; made and hashed when it is first wanted.
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

/// The bytes of an argument struct that `thin.hip` and `mat_vec.hip` share: the number of members as a word, then the members,
/// with zeros up to the room for `most` of them.
pub(super) fn members<const WORDS: usize>(members: &[[u64; WORDS]], most: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + 8 * WORDS * most);
    bytes.extend_from_slice(&(members.len() as u64).to_ne_bytes());
    bytes.extend(members.iter().flatten().flat_map(|word| word.to_ne_bytes()));
    bytes.resize(8 + 8 * WORDS * most, 0);
    bytes
}

/// Two numbers of 32 bits as one word that has the first at the lower address.
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
        // The product can also take in the cast that made its rows, if nobody else reads what the cast gives.
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

/// Thin products of the same types and number of rows that will be one launch.
pub(crate) struct Thin {
    /// Of weights and results.
    dtype: DType,
    /// Of the rows of activations in memory. Where it is not `dtype`, the kernel rounds them to `dtype` as it reads them.
    x: DType,
    rows: usize,
    /// Whether the lanes of a whole workgroup sum each row of weights, and not those of one wave.
    split: bool,
    members: Vec<ThinProduct>,
}

/// One product: addresses, and sizes and row strides in elements.
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
    /// A product as a list of one. `None` if it has more rows, a batch or another type, or if elements that are summed are not
    /// neighbours in memory.
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

    /// Moves the products of `other` here; `false`, and nothing moves, if they differ in types or rows or if there is no room.
    pub(super) fn take(&mut self, other: &mut Thin) -> bool {
        let is_same = (self.dtype, self.x, self.rows, self.split) == (other.dtype, other.x, other.rows, other.split);
        if !is_same || self.members.len() + other.members.len() > THIN_MOST {
            return false;
        }
        self.members.append(&mut other.members);
        true
    }

    /// Lets the product read what the cast `op` reads; `false` if `op` is no cast that gives exactly the product's rows.
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
