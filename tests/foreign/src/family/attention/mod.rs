//! Attention over whole sequences, forward and backward.

use crate::number::{Half, Random};

pub mod backward;
pub mod forward;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All.
    None,
    /// Query i the keys up to i.
    TopLeft,
    /// The last query all keys, each before it one less.
    BottomRight,
    /// From `left` before to `right` behind, counted from the lower right corner.
    Window {
        /// Keys before.
        left: usize,
        /// Keys behind.
        right: usize,
    },
}

/// Sequences that attention runs over. Queries, keys and values are packed: sequence behind sequence, in each row by row, in each
/// all heads.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Queries and keys of each sequence.
    pub sequences: Vec<(usize, usize)>,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a query's head.
    pub d: usize,
    /// Elements of a value's head.
    pub dv: usize,
    /// Which keys a query sees.
    pub mask: Mask,
    /// Whether the sequences are told by where they start.
    pub is_packed: bool,
    /// Bytes of zeros behind what there is once for each query and head.
    pub room: usize,
}

/// Values of a tensor, and the bits that a kernel gets.
pub struct Tensor {
    /// The bits.
    pub bits: Vec<u16>,
    /// What they stand for.
    pub values: Vec<f64>,
}

impl Tensor {
    fn random(random: &mut Random, format: Half, count: usize) -> Tensor {
        let (bits, values) = format.rounded(&random.normals(count, 1.0));
        Tensor { bits, values }
    }
}

/// What attention makes of its inputs, in f64.
pub struct Forward {
    /// Packed like the queries, with heads of `dv`.
    pub out: Vec<f64>,
    /// Natural logarithms of the sums of exponentials, as [`Shape::row_sum_at`] has them.
    pub log_sums: Vec<f64>,
    /// By sequence and head: the weight of each key for each query.
    pub weights: Vec<Vec<f64>>,
}

impl Shape {
    /// What is printed of it.
    pub fn text(&self) -> String {
        let lengths: Vec<String> = self.sequences.iter().map(|(queries, keys)| format!("{queries}/{keys}")).collect();
        let width = if self.d == self.dv { format!("{}", self.d) } else { format!("{}, values {}", self.d, self.dv) };
        let packed = if self.is_packed { ", packed" } else { "" };
        let packed = if self.room > 0 { ", zeros behind the row sums" } else { packed };
        format!("queries/keys {}, heads {}/{}, head {width}{packed}", lengths.join(" "), self.heads, self.kv_heads)
    }

    /// Where the queries (`false`) or keys (`true`) of each sequence start, and their number behind.
    pub fn starts(&self, keys: bool) -> Vec<u32> {
        let lengths = self.sequences.iter().map(|&(q, k)| if keys { k } else { q });
        let mut starts = vec![0];
        lengths.for_each(|length| starts.push(starts[starts.len() - 1] + length as u32));
        starts
    }

    /// All queries.
    pub fn queries(&self) -> usize {
        self.sequences.iter().map(|&(queries, _)| queries).sum()
    }

    /// All keys.
    pub fn keys(&self) -> usize {
        self.sequences.iter().map(|&(_, keys)| keys).sum()
    }

    /// Most queries of a sequence.
    pub fn longest_queries(&self) -> usize {
        self.sequences.iter().map(|&(queries, _)| queries).max().unwrap_or(0)
    }

    /// Most keys of a sequence.
    pub fn longest_keys(&self) -> usize {
        self.sequences.iter().map(|&(_, keys)| keys).max().unwrap_or(0)
    }

    /// The place of what there is once for each query and head: head by head, in each sequence if they are of one length.
    pub fn row_sum_at(&self, sequence: usize, head: usize, query: usize) -> usize {
        let start = self.starts(false)[sequence] as usize;
        if self.is_packed {
            head * self.queries() + start + query
        } else {
            start * self.heads + head * self.sequences[sequence].0 + query
        }
    }

    fn sees(&self, (queries, keys): (usize, usize), query: usize, key: usize) -> bool {
        let (query, key) = (query as isize, key as isize);
        let corner = query + keys as isize - queries as isize;
        match self.mask {
            Mask::None => true,
            Mask::TopLeft => key <= query,
            Mask::BottomRight => key <= corner,
            Mask::Window { left, right } => key >= corner - left as isize && key <= corner + right as isize,
        }
    }

    /// The scale of the scores.
    pub fn scale(&self) -> f64 {
        1.0 / (self.d as f64).sqrt()
    }

    /// Attention in f64.
    pub fn forward(&self, q: &[f64], k: &[f64], v: &[f64]) -> Forward {
        let mut out = vec![0.0; self.queries() * self.heads * self.dv];
        let mut log_sums = vec![0.0; self.queries() * self.heads];
        let mut weights = Vec::new();
        let (starts, key_starts) = (self.starts(false), self.starts(true));
        for (sequence, &(queries, keys)) in self.sequences.iter().enumerate() {
            for head in 0..self.heads {
                let kv_head = head / (self.heads / self.kv_heads);
                let mut all = vec![0.0; queries * keys];
                for query in 0..queries {
                    let row = &q[((starts[sequence] as usize + query) * self.heads + head) * self.d..][..self.d];
                    let weights = &mut all[query * keys..][..keys];
                    for (key, weight) in weights.iter_mut().enumerate() {
                        let at = ((key_starts[sequence] as usize + key) * self.kv_heads + kv_head) * self.d;
                        let dot: f64 = row.iter().zip(&k[at..at + self.d]).map(|(q, k)| q * k).sum();
                        let seen = self.sees((queries, keys), query, key);
                        *weight = if seen { dot * self.scale() } else { f64::NEG_INFINITY };
                    }
                    let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = weights.iter().map(|weight| (weight - largest).exp()).sum();
                    weights.iter_mut().for_each(|weight| *weight = (*weight - largest).exp() / sum);
                    log_sums[self.row_sum_at(sequence, head, query)] = largest + sum.ln();
                    let at = ((starts[sequence] as usize + query) * self.heads + head) * self.dv;
                    for (key, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                        let from = ((key_starts[sequence] as usize + key) * self.kv_heads + kv_head) * self.dv;
                        for i in 0..self.dv {
                            out[at + i] += weight * v[from + i];
                        }
                    }
                }
                weights.push(all);
            }
        }
        Forward { out, log_sums, weights }
    }
}
