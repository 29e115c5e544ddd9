//! What tests of decoding over pages by AMD's kernels have in common: pages dealt to sequences, and what is asked of the cases.

use std::collections::BTreeSet;
use std::path::Path;

use rocfire_hal::{Config, DType, Device, Error, Tensor};
use rocfire_tests::case::{self, Case};
use rocfire_tests::{Distance, most_nmse};

use super::is_theirs;

/// Cards that the kernels are for.
pub const CARDS: [&str; 2] = ["gfx942", "gfx950"];

/// What has them taken for decoding, too.
pub fn config() -> Config {
    Config::from_env().unwrap().with_aiter(true).with_aiter_decode(true)
}

/// A card that does.
pub fn device(card: &str, folder: &Path) -> Device {
    super::device(card, folder, config())
}

/// Which cases of decoding in bf16, among these, AMD's kernels compute; all of them are right.
pub fn theirs(device: &Device, card: &str, is_asked: impl Fn(&Case) -> bool) -> BTreeSet<String> {
    let all = case::all().into_iter();
    let asked = all.filter(|case| case.operator == "paged_attention" && case.dtype == DType::BF16 && is_asked(case));
    asked
        .filter(|case| {
            is_theirs(device, || {
                if let Err(error) = case.check(device) {
                    panic!("{} on {card}: {error}", case.name());
                }
            })
        })
        .map(|case| case.size.clone())
        .collect()
}

/// Pages of sequences, of which page 0 is nobody's.
pub struct Tables {
    /// Of each sequence, from the last pages down.
    pub of: Vec<Vec<usize>>,
    /// How many keys of a page are somebody's.
    pub seen: Vec<usize>,
}

impl Tables {
    /// For sequences of so many keys, `block` to a page.
    pub fn new(lens: &[usize], block: usize) -> Tables {
        let counts = lens.iter().map(|len| len.div_ceil(block));
        let pages = 1 + counts.clone().sum::<usize>();
        let mut next = pages;
        let deal = |count: usize| {
            next -= count;
            (next..next + count).rev().collect()
        };
        let of: Vec<Vec<usize>> = counts.map(deal).collect();
        let mut seen = vec![0; pages];
        for (table, len) in of.iter().zip(lens) {
            table.iter().enumerate().for_each(|(n, &page)| seen[page] = (len - n * block).min(block));
        }
        Tables { of, seen }
    }

    /// Lengths of these sequences and their rows of so many pages, each changed before.
    pub fn given(
        &self,
        device: &Device,
        lens: &[usize],
        sequences: &[usize],
        width: usize,
        change: impl Fn(usize, &mut i32, &mut Vec<i32>),
    ) -> [Tensor; 2] {
        let (mut all_lens, mut table) = (Vec::new(), Vec::new());
        for &sequence in sequences {
            let mut len = lens[sequence] as i32;
            let mut row = self.of[sequence].iter().map(|&page| page as i32).collect();
            change(sequence, &mut len, &mut row);
            // Nothing behind the last page is looked at.
            row.resize(width, -5);
            all_lens.push(len);
            table.extend(row);
        }
        let integers = |shape: &[usize], values: &[i32]| {
            Tensor::from_bytes(device, shape, DType::I32, bytemuck::cast_slice(values)).unwrap()
        };
        [integers(&[sequences.len()], &all_lens), integers(&[sequences.len(), width], &table)]
    }
}

pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// Whether results of products of so many numbers differ by no more than roundings do.
pub fn assert_alike(got: &[f32], want: &[f64], depth: usize, what: &str) {
    let distance = Distance::between(&wide(got), want);
    assert!(distance.unlike == 0 && distance.nmse <= most_nmse(DType::BF16, depth), "{what}: {distance:?}");
}

/// Whether whoever reads is told of this page, which is not there.
pub fn assert_told(out: &Tensor, page: i64, card: &str) {
    match out.to_bytes() {
        Err(Error::Index(fault)) => assert_eq!((&fault.op[..], fault.index), ("paged_attention", page), "{card}"),
        other => panic!("{card}: expected a report of a page, got {other:?}"),
    }
}
