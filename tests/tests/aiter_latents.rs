//! Decoding over latents by AITER's code objects, as `aiter_paged.rs` has it of heads of their own: right by the oracles of the cases and by
//! sums in f64, taken where it is asked for and applies and nowhere else; and what their kernels leave to ours: the sums of splits, numbers
//! that no query sees, lengths and pages that are not there.

mod tier;

use std::collections::BTreeSet;

use rocfire_hal::{Checks, Config, DType, Device, Layout, Tensor};
use rocfire_kernels::attention::{PagedInputs, PagedParams, paged_attention};
use rocfire_kernels::cache::{Cache, Pages};

use tier::paged::{CARDS, Tables, assert_alike, assert_told, config, device, theirs, wide};
use tier::{floats, is_theirs, package, tensor};

/// Every case of latents in bf16 is right; theirs is that of 16 heads and one query of each sequence.
#[test]
fn decoding_is_right_and_theirs_where_it_applies() {
    let Some(folder) = package("decoding_is_right_and_theirs_where_it_applies") else { return };
    for card in CARDS {
        let theirs = theirs(&device(card, &folder), card, |case| case.size.contains("latent"));
        let expected = ["[(1, 21), (1, 0), (1, 64)] 16/1 87x1x1x576/512 Nhd by lists latent".to_owned()];
        assert_eq!(theirs, BTreeSet::from(expected), "{card}");
    }
}

const DEPTH: usize = 576;
const V_DEPTH: usize = 512;
/// Keys of each sequence: none, one, odd, around a split's turn of 16 and of 64, and some that pass several turns of all splits.
const LENS: [usize; 9] = [333, 0, 1, 64, 65, 17, 1100, 128, 7];
const KEYS_MOST: usize = 1200;

/// A cache with sequences in it. Page 0 is nobody's.
struct Batch {
    device: Device,
    heads: usize,
    /// Tokens of a page.
    block: usize,
    /// Whether there is room between pages.
    apart: bool,
    rows: Tensor,
    /// What the rows hold, in order of slots.
    values: Vec<f32>,
    tables: Tables,
}

impl Batch {
    /// `unseen`: what is on page 0 and behind the last key of each sequence.
    fn new(device: Device, heads: usize, block: usize, unseen: f32) -> Batch {
        let tables = Tables::new(&LENS, block);
        let (pages, seen) = (tables.seen.len(), &tables.seen);
        let value = |at: usize| ((at * 37 + at / 576 * 5 + 11) % 101) as f32 / 64.0 - 0.75;
        let apart = block > 1;
        let stride = if apart { block + 1 } else { block };
        let of = |at: usize| {
            let (row, channel) = (at / DEPTH, at % DEPTH);
            let (page, token) = (row / stride, row % stride);
            if token < seen[page] { value((page * block + token) * DEPTH + channel) } else { unseen }
        };
        let all = tensor(&device, &[pages * stride * DEPTH], of);
        let strides = [(stride * DEPTH) as i64, DEPTH as i64, 1];
        let rows = all.with_layout(Layout::strided(&[pages, block, DEPTH], &strides, 0).unwrap()).unwrap();
        let values = (0..pages * block * DEPTH).map(|at| half::bf16::from_f32(value(at)).to_f32()).collect();
        Batch { device, heads, block, apart, rows, values, tables }
    }

    fn query(&self, sequence: usize, at: usize) -> f32 {
        half::bf16::from_f32(((sequence * self.heads * DEPTH + at) * 29 % 97) as f32 / 32.0 - 1.5).to_f32()
    }

    /// Results and logarithms of these sequences, each with its length and pages.
    fn run(&self, sequences: &[usize], change: impl Fn(usize, &mut i32, &mut Vec<i32>)) -> [Tensor; 2] {
        let (width, row) = (KEYS_MOST.div_ceil(self.block) + 1, self.heads * DEPTH);
        let [lens, table] = self.tables.given(&self.device, &LENS, sequences, width, change);
        let count = sequences.len();
        let q = tensor(&self.device, &[count, self.heads, DEPTH], |at| self.query(sequences[at / row], at % row));
        let mut out = tensor(&self.device, &[count, self.heads, V_DEPTH], |_| 7.0);
        let mut lse = Tensor::empty(&self.device, &[count, self.heads], DType::F32).unwrap();
        let cache = Cache::latent(self.rows.view(), V_DEPTH, None).unwrap();
        let pages = Pages::Table { pages: table.view(), lens: lens.view() };
        let inputs = PagedInputs::new(q.view(), cache, pages, KEYS_MOST);
        let params = PagedParams::default();
        let (stream, logarithms) = (self.device.stream(), Some(lse.view_mut()));
        paged_attention(stream, &inputs, &params, out.view_mut(), logarithms, None).unwrap();
        [out, lse]
    }

    /// The same, and whether they are AMD's.
    fn decode(&self, sequences: &[usize], change: impl Fn(usize, &mut i32, &mut Vec<i32>)) -> ([Vec<f32>; 2], bool) {
        let mut found = None;
        let is_theirs = is_theirs(&self.device, || found = Some(self.run(sequences, change)));
        let [out, lse] = found.unwrap();
        ([floats(&out), bytemuck::cast_slice(&lse.to_bytes().unwrap()).to_vec()], is_theirs)
    }

    fn all(&self) -> ([Vec<f32>; 2], bool) {
        self.decode(&Vec::from_iter(0..LENS.len()), |_, _, _| ())
    }

    /// Results and logarithms of a sequence in f64.
    fn reference(&self, sequence: usize) -> [Vec<f64>; 2] {
        let (mut out, mut logarithms) = (Vec::new(), Vec::new());
        for head in 0..self.heads {
            let rows: Vec<&[f32]> = (0..LENS[sequence])
                .map(|key| {
                    let slot = self.tables.of[sequence][key / self.block] * self.block + key % self.block;
                    &self.values[slot * DEPTH..][..DEPTH]
                })
                .collect();
            let query: Vec<f64> = (0..DEPTH).map(|i| self.query(sequence, head * DEPTH + i).into()).collect();
            let dot = |row: &&[f32]| row.iter().zip(&query).map(|(a, b)| f64::from(*a) * b).sum::<f64>();
            let scores: Vec<f64> = rows.iter().map(|row| dot(row) / (DEPTH as f64).sqrt()).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
            logarithms.push(if sum == 0.0 { f64::NEG_INFINITY } else { most + sum.ln() });
            let mut values = vec![0.0; V_DEPTH];
            for (row, score) in rows.iter().zip(&scores) {
                let weight = (score - most).exp() / sum;
                values.iter_mut().zip(*row).for_each(|(value, x)| *value += weight * f64::from(*x));
            }
            out.extend(values);
        }
        [out, logarithms]
    }
}

fn assert_logarithms(got: &[f32], want: &[f64], what: &str) {
    for (got, want) in got.iter().zip(want) {
        let near = (f64::from(*got) - want).abs() <= 1e-4 * want.abs().max(1.0);
        assert!(near || f64::from(*got) == *want, "{what}: {got}, not {want}");
    }
}

/// Both numbers of heads, pages of a token and of several, with room between them.
#[test]
fn decoding_is_what_sums_in_f64_are() {
    let Some(folder) = package("decoding_is_what_sums_in_f64_are") else { return };
    for card in CARDS {
        for (heads, block) in [(16, 1), (16, 12), (128, 1), (128, 16)] {
            let batch = Batch::new(device(card, &folder), heads, block, 0.5);
            assert_eq!(batch.apart, block > 1);
            let ([out, lse], is_theirs) = batch.all();
            assert!(is_theirs, "{card}, {heads} heads");
            for (sequence, (out, lse)) in out.chunks(heads * V_DEPTH).zip(lse.chunks(heads)).enumerate() {
                let what = format!("{card}, {heads} heads, pages of {block}: {} keys", LENS[sequence]);
                let [want, logarithms] = batch.reference(sequence);
                assert_alike(out, &want, DEPTH, &what);
                assert_logarithms(lse, &logarithms, &what);
            }
        }
    }
}

#[test]
fn decoding_is_ours_unless_it_is_asked_for() {
    let Some(folder) = package("decoding_is_ours_unless_it_is_asked_for") else { return };
    let all = Vec::from_iter(0..LENS.len());
    let of =
        |config, heads| Batch::new(tier::device(CARDS[0], &folder, config), heads, 16, 0.5).decode(&all, |_, _, _| ());
    for heads in [16, 128] {
        let (plain, is_theirs) = of(Config::from_env().unwrap().with_aiter(false), heads);
        assert!(!is_theirs);
        for (is_on, decodes) in [(true, false), (false, true)] {
            let config = Config::from_env().unwrap().with_aiter(is_on).with_aiter_decode(decodes);
            assert_eq!(of(config, heads), (plain.clone(), false), "{heads} heads, aiter {is_on}, decode {decodes}");
        }
        assert!(of(config(), heads).1);
    }
    // A number of heads that they have no kernel for, and a folder without any.
    let (ours, is_theirs) = of(Config::from_env().unwrap().with_aiter(false), 32);
    assert!(!is_theirs);
    assert_eq!(of(config(), 32), (ours, false));
    let empty = tempfile::tempdir().unwrap();
    let (ours, _) = of(Config::from_env().unwrap().with_aiter(false), 16);
    let without = Batch::new(tier::device(CARDS[0], empty.path(), config()), 16, 16, 0.5);
    assert_eq!(without.all(), (ours, false));
}

/// In whatever order sequences are, among as many; and with two handles of the card at once.
#[test]
fn a_sequence_has_its_bits_among_as_many_others() {
    let Some(folder) = package("a_sequence_has_its_bits_among_as_many_others") else { return };
    for (card, heads) in [(CARDS[0], 16), (CARDS[0], 128), (CARDS[1], 16), (CARDS[1], 128)] {
        let batch = Batch::new(device(card, &folder), heads, 16, 0.5);
        let ([alone, _], is_theirs) = batch.all();
        assert!(is_theirs, "{card}");
        let order: Vec<usize> = (0..LENS.len()).map(|at| (at * 5 + 3) % LENS.len()).collect();
        let other = Batch::new(device(card, &folder), heads, 16, 0.5);
        let row = heads * V_DEPTH;
        std::thread::scope(|scope| {
            for each in [&batch, &other] {
                let (order, alone) = (&order, &alone);
                scope.spawn(move || {
                    let ([others, _], _) = each.decode(order, |_, _, _| ());
                    for (got, &sequence) in others.chunks(row).zip(order) {
                        assert_eq!(got, &alone[sequence * row..][..row], "{card}: {} keys", LENS[sequence]);
                    }
                });
            }
        });
    }
}

/// Page 0, which their kernels read in place of keys that follow the last, and what is behind the last key on its page.
#[test]
fn numbers_that_no_query_sees_spoil_nothing() {
    let Some(folder) = package("numbers_that_no_query_sees_spoil_nothing") else { return };
    for (card, heads) in [(CARDS[0], 16), (CARDS[0], 128), (CARDS[1], 16), (CARDS[1], 128)] {
        let (clean, _) = Batch::new(device(card, &folder), heads, 16, 0.5).all();
        for unseen in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38, -3e38, 1e4] {
            let (found, is_theirs) = Batch::new(device(card, &folder), heads, 16, unseen).all();
            assert!(is_theirs, "{card}");
            let what = format!("{card}, {heads} heads, {unseen} behind the keys");
            assert_alike(&found[0], &wide(&clean[0]), DEPTH, &what);
            assert_logarithms(&found[1], &wide(&clean[1]), &what);
            if unseen.is_finite() {
                assert_eq!(found, clean, "{what}");
            }
        }
    }
}

/// A length beyond the bound is the bound; a page that is not there hides its keys, and is told of.
#[test]
fn lengths_and_pages_are_held_to_what_is_there() {
    let Some(folder) = package("lengths_and_pages_are_held_to_what_is_there") else { return };
    let sequences = Vec::from_iter(0..LENS.len());
    let change = |sequence: usize, len: &mut i32, pages: &mut Vec<i32>| match sequence {
        // Longer than keys_most, with a page for each.
        0 => (*len, *pages) = (i32::MAX, (1..=75).collect()),
        3 => *len = -3,
        4 => pages[0] = 1 << 30,
        6 => (pages[3], pages[32], pages[60]) = (-1, 100_000, i32::MIN),
        8 => pages[0] = -1,
        _ => (),
    };
    for (card, heads) in [(CARDS[0], 16), (CARDS[0], 128), (CARDS[1], 16), (CARDS[1], 128)] {
        let config = Config::from_env().unwrap().with_aiter_decode(true).with_check_index(false);
        let of = |is_on| {
            let batch = Batch::new(tier::device(card, &folder, config.clone().with_aiter(is_on)), heads, 16, 0.5);
            batch.decode(&sequences, change)
        };
        let (([theirs, lse], is_theirs), ([ours, of_ours], is_not)) = (of(true), of(false));
        assert!(is_theirs && !is_not, "{card}");
        let row = heads * V_DEPTH;
        for (sequence, (got, want)) in theirs.chunks(row).zip(ours.chunks(row)).enumerate() {
            assert_alike(got, &wide(want), DEPTH, &format!("{card}: sequence {sequence}"));
        }
        assert_logarithms(&lse, &wide(&of_ours), card);
        let told = Batch::new(device(card, &folder), heads, 16, 0.5).run(&sequences, |sequence, _, pages| {
            if sequence == 6 {
                pages[32] = 100_000;
            }
        });
        assert_told(&told[0], 100_000, card);
    }
}

/// Their kernels, mended, wait for what they use, their waves do not race, and neither uses what nobody wrote.
#[test]
fn decoding_stands_the_checks() {
    let Some(folder) = package("decoding_stands_the_checks") else { return };
    for (card, heads) in [(CARDS[0], 16), (CARDS[0], 128), (CARDS[1], 16), (CARDS[1], 128)] {
        // Their waves write the same logarithms to the same places.
        let checks = Checks { equal_write: false, ..Checks::ALL };
        let batch = Batch::new(tier::device(card, &folder, config().with_checks(checks)), heads, 16, 0.5);
        assert!(batch.all().1, "{card}, {heads} heads");
    }
}
