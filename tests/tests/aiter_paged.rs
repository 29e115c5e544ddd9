//! Decoding over a cache on pages by AITER's code objects, as `aiter.rs` has it of attention: right by the oracles of the cases, taken where
//! it is asked for and applies and nowhere else; and what their kernel leaves to ours: sequences of no keys, numbers that no query sees,
//! lengths and pages that are not there.

mod tier;

use std::collections::BTreeSet;

use rocfire_hal::{Checks, Config, DType, Device, Tensor};
use rocfire_kernels::attention::{PagedInputs, PagedParams, paged_attention};
use rocfire_kernels::cache::{Cache, CacheLayout, Pages};

use tier::paged::{CARDS, Tables, assert_alike, assert_told, config, device, theirs, wide};
use tier::{floats, is_theirs, package, tensor};

/// Every case of bf16 is right; theirs is the one of which each compute unit has a head of keys.
#[test]
fn decoding_is_right_and_theirs_where_it_applies() {
    let Some(folder) = package("decoding_is_right_and_theirs_where_it_applies") else { return };
    for card in CARDS {
        // Those of latents are `aiter_latents.rs`'s.
        let theirs = theirs(&device(card, &folder), card, |case| !case.size.contains("latent"));
        let expected = ["38 of at most 770 keys 64/8 149x16x8x128 PackedBoth without logarithms".to_owned()];
        assert_eq!(theirs, BTreeSet::from(expected), "{card}");
    }
}

const KV_HEADS: usize = 8;
const GROUP: usize = 8;
const DEPTH: usize = 128;
const PAGE: usize = 16;
const ROW: usize = KV_HEADS * GROUP * DEPTH;
/// Keys of each sequence: none, around a page, around a tile of 256 and of 512; as many as an MI300X has units for.
const LENS: [usize; 38] = {
    let mut all = [0; 38];
    let lens = [300, 0, 77, 256, 16, 17, 529, 512, 1];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < lens.len() { lens[at] } else { at % 9 };
        at += 1;
    }
    all
};

/// A cache with sequences in it. Page 0 is nobody's.
struct Batch {
    device: Device,
    k: Tensor,
    v: Tensor,
    tables: Tables,
}

impl Batch {
    /// `unseen`: what is on page 0 and behind the last key of each sequence.
    fn new(device: Device, unseen: f32) -> Batch {
        let tables = Tables::new(&LENS, PAGE);
        let (pages, seen) = (tables.seen.len(), &tables.seen);
        let [k_shape, v_shape] = CacheLayout::PackedBoth.shapes([pages, PAGE, KV_HEADS, DEPTH], DType::BF16);
        let value = |at: usize| ((at * 37 + at / 128 * 5 + 11) % 101) as f32 / 64.0 - 0.75;
        let of_page = PAGE * KV_HEADS * DEPTH;
        // Keys `[pages, heads, 16, 16, 8]`, values `[pages, heads, 2, 128, 8]`.
        let or_unseen = |at: usize, slot: usize| if slot < seen[at / of_page] { value(at) } else { unseen };
        let k = tensor(&device, &k_shape, |at| or_unseen(at, at / 8 % PAGE));
        let v = tensor(&device, &v_shape, |at| or_unseen(at, at / (8 * DEPTH) % 2 * 8 + at % 8));
        Batch { device, k, v, tables }
    }

    /// Results of these sequences, each with its length and pages.
    fn run(&self, sequences: &[usize], change: impl Fn(usize, &mut i32, &mut Vec<i32>)) -> Tensor {
        let [lens, table] = self.tables.given(&self.device, &LENS, sequences, 40, change);
        let count = sequences.len();
        let of = |at: usize| (sequences[at / ROW] * ROW + at % ROW) * 29 % 97;
        let q = tensor(&self.device, &[count, KV_HEADS * GROUP, DEPTH], |at| of(at) as f32 / 32.0 - 1.5);
        let mut out = tensor(&self.device, &[count, KV_HEADS * GROUP, DEPTH], |_| 7.0);
        let cache = Cache::new(self.k.view(), self.v.view(), CacheLayout::PackedBoth, None).unwrap();
        let pages = Pages::Table { pages: table.view(), lens: lens.view() };
        let inputs = PagedInputs::new(q.view(), cache, pages, 600);
        paged_attention(self.device.stream(), &inputs, &PagedParams::default(), out.view_mut(), None, None).unwrap();
        out
    }

    /// The same, and whether they are AMD's.
    fn decode(&self, sequences: &[usize], change: impl Fn(usize, &mut i32, &mut Vec<i32>)) -> (Tensor, bool) {
        let mut out = None;
        let is_theirs = is_theirs(&self.device, || out = Some(self.run(sequences, change)));
        (out.unwrap(), is_theirs)
    }

    fn all(&self) -> (Tensor, bool) {
        self.decode(&Vec::from_iter(0..LENS.len()), |_, _, _| ())
    }
}

#[test]
fn decoding_is_ours_unless_it_is_asked_for() {
    let Some(folder) = package("decoding_is_ours_unless_it_is_asked_for") else { return };
    for (is_on, decodes) in [(true, false), (false, true)] {
        let config = Config::from_env().unwrap().with_aiter(is_on).with_aiter_decode(decodes);
        let ours = Batch::new(tier::device(CARDS[0], &folder, config), 0.5);
        assert!(!ours.all().1, "aiter {is_on}, decode {decodes}");
    }
    let (theirs, few) = (Batch::new(device(CARDS[0], &folder), 0.5), Vec::from_iter(0..37));
    assert!(theirs.all().1);
    assert!(!theirs.decode(&few, |_, _, _| ()).1, "a unit would have none");
}

/// Whatever the order, and however many there are.
#[test]
fn a_sequence_has_its_bits_in_every_batch_that_is_theirs() {
    let Some(folder) = package("a_sequence_has_its_bits_in_every_batch_that_is_theirs") else { return };
    for card in CARDS {
        let batch = Batch::new(device(card, &folder), 0.5);
        let (alone, is_theirs) = batch.all();
        assert!(is_theirs, "{card}");
        let alone = floats(&alone);
        let order: Vec<usize> = (0..2 * LENS.len() + 3).map(|at| (at * 5 + 30) % LENS.len()).collect();
        let (others, is_theirs) = batch.decode(&order, |_, _, _| ());
        assert!(is_theirs, "{card}");
        for (row, &sequence) in floats(&others).chunks(ROW).zip(&order) {
            assert_eq!(row, &alone[sequence * ROW..][..ROW], "{card}: {} keys", LENS[sequence]);
        }
    }
}

/// Page 0, which their kernel reads in place of pages that follow the last, and what is behind the last key.
#[test]
fn numbers_that_no_query_sees_spoil_nothing() {
    let Some(folder) = package("numbers_that_no_query_sees_spoil_nothing") else { return };
    for card in CARDS {
        let (clean, _) = Batch::new(device(card, &folder), 0.5).all();
        let clean = floats(&clean);
        for unseen in [f32::NAN, f32::INFINITY] {
            let (out, is_theirs) = Batch::new(device(card, &folder), unseen).all();
            assert!(is_theirs, "{card}");
            for (sequence, (got, want)) in floats(&out).chunks(ROW).zip(clean.chunks(ROW)).enumerate() {
                let len = LENS[sequence];
                if len.is_multiple_of(256) {
                    assert_eq!(got, want, "{card}: {len} keys, {unseen} behind them");
                } else {
                    assert_alike(got, &wide(want), DEPTH, &format!("{card}: {len} keys, {unseen} behind them"));
                }
                assert!(len > 0 || got.iter().all(|&x| x == 0.0), "{card}: a sequence of no keys");
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
        0 => (*len, *pages) = (i32::MAX, (1..=38).collect()),
        2 => *len = -3,
        4 => pages[0] = 1 << 30,
        6 => (pages[3], pages[32]) = (-1, 100_000),
        _ => (),
    };
    for card in CARDS {
        let config = Config::from_env().unwrap().with_aiter_decode(true).with_check_index(false);
        let of = |is_on| Batch::new(tier::device(card, &folder, config.clone().with_aiter(is_on)), 0.5);
        let ((theirs, is_theirs), (ours, is_not)) =
            (of(true).decode(&sequences, change), of(false).decode(&sequences, change));
        assert!(is_theirs && !is_not, "{card}");
        for (sequence, (got, want)) in floats(&theirs).chunks(ROW).zip(floats(&ours).chunks(ROW)).enumerate() {
            assert_alike(got, &wide(want), DEPTH, &format!("{card}: sequence {sequence}"));
        }
        let told = Batch::new(device(card, &folder), 0.5).run(&sequences, |sequence, _, pages| {
            if sequence == 6 {
                pages[32] = 100_000;
            }
        });
        assert_told(&told, 100_000, card);
    }
}

/// Their kernel, mended, waits for what it uses, and its waves do not race.
#[test]
fn decoding_stands_the_checks_of_waits_and_races() {
    let Some(folder) = package("decoding_stands_the_checks_of_waits_and_races") else { return };
    for card in CARDS {
        let checks = Checks { waitcnt: true, lds_race: true, global_race: true, ..Checks::NONE };
        let batch = Batch::new(tier::device(card, &folder, config().with_checks(checks)), 0.5);
        let (out, is_theirs) = batch.all();
        assert!(is_theirs, "{card}");
        out.to_bytes().unwrap();
    }
}
