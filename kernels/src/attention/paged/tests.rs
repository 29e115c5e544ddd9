//! What a sequence's results depend on, what is refused before a launch, and what only the device can know.

use rocfire_hal::{Device, DriverKind, Error as HalError, Layout};

use super::*;
use crate::cache::CacheCodes;
use crate::quant::Format;
use crate::testing::{Lie, Numbers, device, device_without_index_checks, read, tensor};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DEPTH: usize = 64;
const BLOCK: usize = 16;
const PAGES: usize = 160;

/// A sequence: keys, and queries at their end.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    keys: usize,
    queries: usize,
    /// Where its pages are.
    first_page: usize,
}

struct Fixture {
    device: Device,
    k: Tensor,
    v: Tensor,
    dtype: DType,
    heads: usize,
    /// Channels of keys and of values.
    depths: [usize; 2],
    /// Whether values are the first channels of keys.
    is_latent: bool,
}

impl Fixture {
    fn new(device: Device, dtype: DType) -> Fixture {
        let shape = [PAGES, BLOCK, KV_HEADS, DEPTH];
        let count = shape.iter().product();
        let plane = |seed| tensor(&device, &shape, dtype, &Numbers::new(seed).values(count, dtype), Lie::Plain);
        let (k, v) = (plane(1), plane(2));
        Fixture { device, k, v, dtype, heads: HEADS, depths: [DEPTH, DEPTH], is_latent: false }
    }

    /// More heads than a workgroup of tiles has rows, which all read the same latents.
    fn of_latents(device: Device, dtype: DType) -> Fixture {
        Fixture::of_heads_of_latents(device, dtype, 72)
    }

    fn of_heads_of_latents(device: Device, dtype: DType, heads: usize) -> Fixture {
        // Those of the models where they are computed in no time.
        let is_card = matches!(device.id().driver(), DriverKind::Cuda | DriverKind::Hip);
        let depths = if is_card { [576, 512] } else { [192, 128] };
        let shape = [PAGES, BLOCK, depths[0]];
        let values = Numbers::new(1).values(shape.iter().product(), dtype);
        let k = tensor(&device, &shape, dtype, &values, Lie::Plain);
        Fixture { device, v: k.clone(), k, dtype, heads, depths, is_latent: true }
    }

    fn cache(&self) -> Cache<'_> {
        if self.is_latent {
            return Cache::latent(self.k.view(), self.depths[1], None).unwrap();
        }
        Cache::new(self.k.view(), self.v.view(), CacheLayout::Nhd, None).unwrap()
    }

    fn integers(&self, shape: &[usize], values: &[i32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::from_bytes(&self.device, shape, DType::I32, &bytes).unwrap()
    }

    /// The query at a place of a sequence: the same wherever it stands.
    fn query(&self, sequence: &Sequence, place: usize) -> Vec<f64> {
        let seed = (sequence.first_page * 100_000 + place) as u64;
        Numbers::new(seed).values(self.heads * self.depths[0], self.dtype)
    }

    /// Results and logarithms of sums of each sequence.
    fn run(&self, batch: &[Sequence], keys_most: usize, window: Option<usize>) -> Vec<(Vec<f64>, Vec<f64>)> {
        let width = keys_most.div_ceil(BLOCK);
        let table: Vec<i32> = batch
            .iter()
            .flat_map(|sequence| {
                let there = sequence.keys.div_ceil(BLOCK);
                (0..width).map(move |n| if n < there { (sequence.first_page + n) as i32 } else { -9 })
            })
            .collect();
        let table = self.integers(&[batch.len(), width], &table);
        let lens: Vec<i32> = batch.iter().map(|sequence| sequence.keys as i32).collect();
        let lens = self.integers(&[batch.len()], &lens);
        let mut starts = vec![0];
        let mut q = Vec::new();
        for sequence in batch {
            for query in 0..sequence.queries {
                q.extend(self.query(sequence, 1000 + sequence.keys + query - sequence.queries));
            }
            starts.push(starts[starts.len() - 1] + sequence.queries as i32);
        }
        let tokens = *starts.last().unwrap() as usize;
        let starts_there = self.integers(&[starts.len()], &starts);
        let q = tensor(&self.device, &[tokens, self.heads, self.depths[0]], self.dtype, &q, Lie::Plain);
        let mut out = Tensor::empty(&self.device, &[tokens, self.heads, self.depths[1]], self.dtype).unwrap();
        let mut lse = Tensor::empty(&self.device, &[tokens, self.heads], DType::F32).unwrap();
        let pages = Pages::Table { pages: table.view(), lens: lens.view() };
        let mut inputs = PagedInputs::new(q.view(), self.cache(), pages, keys_most);
        let most = batch.iter().map(|sequence| sequence.queries).max().unwrap();
        if batch.iter().any(|sequence| sequence.queries != 1) {
            inputs.queries = Queries::Starts { starts: starts_there.view(), most };
        }
        let params = PagedParams { window, ..PagedParams::default() };
        let (stream, lse_view) = (self.device.stream(), Some(lse.view_mut()));
        paged_attention(stream, &inputs, &params, out.view_mut(), lse_view, None).unwrap();
        let (out, lse) = (read(&out), read(&lse));
        let rows = starts.windows(2).map(|bounds| bounds[0] as usize..bounds[1] as usize);
        rows.map(|rows| {
            let own = |values: &[f64], each: usize| values[rows.start * each..rows.end * each].to_vec();
            (own(&out, self.heads * self.depths[1]), own(&lse, self.heads))
        })
        .collect()
    }
}

const LONG: Sequence = Sequence { keys: 1100, queries: 1, first_page: 3 };
const SHORT: Sequence = Sequence { keys: 19, queries: 1, first_page: 75 };
const EMPTY: Sequence = Sequence { keys: 0, queries: 1, first_page: 78 };
const SPLIT_AND_ONE: Sequence = Sequence { keys: 513, queries: 1, first_page: 80 };

#[test]
fn the_bits_of_a_sequence_are_those_it_has_alone_whoever_joins_it() {
    let fixtures = [DType::BF16, DType::F32].map(|dtype| Fixture::new(device(), dtype));
    for fixture in fixtures.into_iter().chain([Fixture::of_latents(device(), DType::BF16)]) {
        for window in [None, Some(600)] {
            for sequence in [LONG, SHORT, SPLIT_AND_ONE] {
                let alone = fixture.run(&[sequence], sequence.keys, window).remove(0);
                for batch in [vec![sequence, EMPTY], vec![EMPTY, SHORT, sequence, LONG], vec![LONG, sequence]] {
                    let at = batch.iter().position(|other| other.first_page == sequence.first_page).unwrap();
                    for keys_most in [1100, 2000] {
                        let among = fixture.run(&batch, keys_most, window).remove(at);
                        assert_eq!(among, alone, "{sequence:?} in {batch:?}, {keys_most} at most");
                    }
                }
            }
        }
    }
}

#[test]
fn the_bits_of_a_query_are_those_it_has_alone_however_many_come_at_once() {
    let latents = Fixture::of_latents(device(), DType::F16);
    // On CDNA workgroups of 16, 32 and 64 rows.
    let few = [2, 4, 6].map(|queries| ((1060, queries), Fixture::of_heads_of_latents(device(), DType::BF16, 16)));
    let runs = [(1100, 2), (300, 7), (514, 5), (9, 9)].map(|run| (run, Fixture::new(device(), DType::BF16)));
    for ((keys, queries), fixture) in runs.into_iter().chain([((1030, 3), latents)]).chain(few) {
        let all = Sequence { keys, queries, first_page: 3 };
        let (together, lses) = fixture.run(&[SHORT, all], 1100, None).remove(1);
        for query in 0..queries {
            let one = Sequence { keys: keys + query + 1 - queries, queries: 1, ..all };
            let (alone, lse) = fixture.run(&[one], 1100, None).remove(0);
            let row = fixture.heads * fixture.depths[1];
            assert_eq!(together[query * row..][..row], alone, "query {query} of {queries} at {keys} keys");
            assert_eq!(
                lses[query * fixture.heads..][..fixture.heads],
                lse,
                "query {query} of {queries} at {keys} keys"
            );
        }
    }
}

/// Values that lie as keys do have a tile's address from its page; those whose rows are further apart have one for each key.
#[test]
fn the_bits_do_not_depend_on_how_far_values_are_apart() {
    for dtype in [DType::BF16, DType::F16] {
        let alike = Fixture::new(device(), dtype);
        let shape = [PAGES, BLOCK, KV_HEADS + 1, DEPTH];
        let (of_token, of_padded) = (KV_HEADS * DEPTH, (KV_HEADS + 1) * DEPTH);
        let values = Numbers::new(2).values(PAGES * BLOCK * of_token, dtype);
        let mut padded = vec![f64::NAN; PAGES * BLOCK * of_padded];
        for (to, from) in padded.chunks_exact_mut(of_padded).zip(values.chunks_exact(of_token)) {
            to[..of_token].copy_from_slice(from);
        }
        let mut apart = Fixture::new(device(), dtype);
        apart.v = tensor(&apart.device, &shape, dtype, &padded, Lie::Plain);
        let layout = apart.v.layout().slice(2, 0, KV_HEADS, 1).unwrap();
        apart.v = apart.v.with_layout(layout).unwrap();
        let several = Sequence { keys: 1000, queries: 6, first_page: 3 };
        for (sequence, window) in [(LONG, None), (LONG, Some(600)), (SPLIT_AND_ONE, None), (several, Some(30))] {
            let run = |fixture: &Fixture| fixture.run(&[SHORT, sequence], 1100, window);
            assert_eq!(run(&apart), run(&alike), "{sequence:?}, {window:?}");
        }
    }
}

#[test]
fn a_sequence_without_keys_gives_zeros_and_reads_no_page() {
    let fixture = Fixture::new(device(), DType::F16);
    let (out, lse) = fixture.run(&[EMPTY], 64, None).remove(0);
    assert!(out.iter().all(|&x| x == 0.0) && lse.iter().all(|&x| x == f64::NEG_INFINITY));
}

fn call(fixture: &Fixture, table: &[i32], len: i32, workspace: Option<ViewMut<'_>>) -> (Result<()>, Tensor) {
    let pages = fixture.integers(&[1, table.len()], table);
    let lens = fixture.integers(&[1], &[len]);
    let q = tensor(&fixture.device, &[1, HEADS, DEPTH], fixture.dtype, &fixture.query(&LONG, 1), Lie::Plain);
    let mut out = Tensor::empty(&fixture.device, &[1, HEADS, DEPTH], fixture.dtype).unwrap();
    let pages = Pages::Table { pages: pages.view(), lens: lens.view() };
    let inputs = PagedInputs::new(q.view(), fixture.cache(), pages, table.len() * BLOCK);
    let stream = fixture.device.stream();
    let result = paged_attention(stream, &inputs, &PagedParams::default(), out.view_mut(), None, workspace);
    (result, out)
}

#[test]
fn keys_on_pages_that_are_not_there_are_not_seen_and_the_page_is_told_of() {
    let fixture = Fixture::new(device_without_index_checks(), DType::F32);
    let (result, without) = call(&fixture, &[5], 16, None);
    result.unwrap();
    for page in [-1, PAGES as i32, i32::MAX, i32::MIN] {
        let (result, with) = call(&fixture, &[5, page], 32, None);
        result.unwrap();
        assert_eq!(read(&with), read(&without), "page {page}");
    }
    let own = Device::open(fixture.device.id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    let fixture = Fixture::new(own, DType::F32);
    let (result, out) = call(&fixture, &[5, 7_000_000], 32, None);
    result.unwrap();
    match out.to_bytes() {
        Err(HalError::Index(fault)) => {
            assert_eq!((&fault.op[..], fault.index, fault.extent), ("paged_attention", 7_000_000, PAGES as i64));
        }
        other => panic!("expected a report of a page, got {other:?}"),
    }
}

/// Latents and queries of 72 heads by rows of slots.
fn by_slots(fixture: &Fixture, rows: &[&[i32]], lens: Option<&[i32]>) -> Tensor {
    let (width, heads, [depth, value_depth]) = (rows[0].len(), fixture.heads, fixture.depths);
    let slots = fixture.integers(&[rows.len(), width], &rows.concat());
    let lens = lens.map(|lens| fixture.integers(&[rows.len()], lens));
    let q: Vec<f64> = (0..rows.len()).flat_map(|row| fixture.query(&LONG, row)).collect();
    let q = tensor(&fixture.device, &[rows.len(), heads, depth], fixture.dtype, &q, Lie::Plain);
    let mut out = Tensor::empty(&fixture.device, &[rows.len(), heads, value_depth], fixture.dtype).unwrap();
    let pages = Pages::Slots { slots: slots.view(), lens: lens.as_ref().map(Tensor::view) };
    let inputs = PagedInputs::new(q.view(), fixture.cache(), pages, width);
    paged_attention(fixture.device.stream(), &inputs, &PagedParams::default(), out.view_mut(), None, None).unwrap();
    out
}

#[test]
fn slots_behind_the_last_are_not_seen_and_the_first_is_told_of() {
    const END: i32 = (PAGES * BLOCK) as i32;
    let fixtures = [DType::BF16, DType::F32].map(|dtype| Fixture::of_latents(device_without_index_checks(), dtype));
    for fixture in fixtures {
        let without = read(&by_slots(&fixture, &[&[5, 900, -1, -1]], None));
        for slot in [END, i32::MAX, i32::MIN] {
            assert_eq!(read(&by_slots(&fixture, &[&[5, 900, slot, -1]], None)), without, "slot {slot}");
        }
        assert_eq!(read(&by_slots(&fixture, &[&[5, 900, 7, 8]], Some(&[2]))), without, "behind a row's last");
    }
    let own = Device::open(device().id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    match by_slots(&Fixture::of_latents(own, DType::BF16), &[&[5, END + 16]], None).to_bytes() {
        Err(HalError::Index(fault)) => assert_eq!((&fault.op[..], fault.index), ("paged_attention", PAGES as i64 + 1)),
        other => panic!("expected a report of a page, got {other:?}"),
    }
}

#[test]
fn the_bits_of_a_row_of_slots_are_those_it_has_alone() {
    for dtype in [DType::BF16, DType::F32] {
        let fixture = Fixture::of_latents(device(), dtype);
        let row: Vec<i32> = (0..1100).map(|n| n * 7 % (PAGES * BLOCK) as i32).collect();
        let none = vec![-1; row.len()];
        let alone = read(&by_slots(&fixture, &[&row], None));
        let among = read(&by_slots(&fixture, &[&row, &none, &row], None));
        assert_eq!(among[..alone.len()], alone);
        assert!(among[alone.len()..2 * alone.len()].iter().all(|&x| x == 0.0), "nothing is seen");
    }
}

#[test]
fn lengths_beyond_what_a_table_holds_are_what_it_holds() {
    let fixture = Fixture::new(device(), DType::F32);
    let of = |len| {
        let (result, out) = call(&fixture, &[5, 9], len, None);
        result.unwrap();
        read(&out)
    };
    assert_eq!(of(33), of(32));
    assert_eq!(of(i32::MAX), of(32));
    assert_eq!(of(-7), of(0));
}

#[test]
fn a_workspace_of_the_caller_gives_the_same_bits_and_too_small_a_one_is_refused() {
    let fixture = Fixture::new(device(), DType::BF16);
    let table: Vec<i32> = (3..47).chain(100..140).collect();
    let (result, allocated) = call(&fixture, &table, 1100, None);
    result.unwrap();
    let needed = 3 * HEADS * (DEPTH + 2);
    let mut memory = Tensor::empty(&fixture.device, &[needed], DType::F32).unwrap();
    let (result, given) = call(&fixture, &table, 1100, Some(memory.view_mut()));
    result.unwrap();
    assert_eq!(read(&given), read(&allocated));
    let mut memory = Tensor::empty(&fixture.device, &[needed - 1], DType::F32).unwrap();
    let (result, _) = call(&fixture, &table, 1100, Some(memory.view_mut()));
    assert!(result.unwrap_err().to_string().contains(&format!("workspace must be {needed} elements")));
}

#[test]
fn what_does_not_fit_is_refused_before_any_launch() {
    // A device of its own, whose launches are those of this test.
    let own = Device::open(device().id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    let fixture = Fixture::new(own, DType::BF16);
    let device = fixture.device.clone();
    let (q, lens) = (Tensor::empty(&device, &[1, HEADS, DEPTH], DType::BF16).unwrap(), fixture.integers(&[1], &[5]));
    let (pages, scale) = (fixture.integers(&[1, 2], &[1, 2]), Tensor::empty(&device, &[1], DType::F32).unwrap());
    let mut out = Tensor::empty(&device, &[1, HEADS, DEPTH], DType::BF16).unwrap();
    let scale_table = fixture.integers(&[2, 2], &[1; 4]);
    let table = Pages::Table { pages: pages.view(), lens: lens.view() };
    let inputs = PagedInputs::new(q.view(), fixture.cache(), table, 32);
    let params = PagedParams::default();
    let sinks = Tensor::empty(&device, &[3], DType::F32).unwrap();
    let wrong = [
        ("window", inputs, PagedParams { window: Some(0), ..params }),
        ("softcap", inputs, PagedParams { softcap: Some(-1.0), ..params }),
        ("q must be 2 tokens", PagedInputs { queries: Queries::Each(2), ..inputs }, params),
        ("sinks", PagedInputs { sinks: Some(sinks.view()), ..inputs }, params),
        ("slopes", PagedInputs { slopes: Some(scale.view()), ..inputs }, params),
        ("bias", PagedInputs { bias: Some(scale.view()), ..inputs }, params),
        (
            "pages must be [1, ..]",
            PagedInputs { pages: Pages::Table { pages: scale_table.view(), lens: lens.view() }, ..inputs },
            params,
        ),
    ];
    let slots = fixture.integers(&[1, 4], &[3; 4]);
    let by_slots = PagedInputs { pages: Pages::Slots { slots: slots.view(), lens: None }, ..inputs };
    let starts = fixture.integers(&[2], &[0, 1]);
    let slopes = Tensor::empty(&device, &[HEADS], DType::F32).unwrap();
    let without_places = [
        (
            "queries must be one",
            PagedInputs { queries: Queries::Starts { starts: starts.view(), most: 1 }, ..by_slots },
            params,
        ),
        ("window must be one", by_slots, PagedParams { window: Some(3), ..params }),
        ("slopes must be one", PagedInputs { slopes: Some(slopes.view()), ..by_slots }, params),
        ("bias must be one", PagedInputs { bias: Some(slopes.view()), ..by_slots }, params),
    ];
    for (what, inputs, params) in wrong.into_iter().chain(without_places) {
        let launches = device.launches();
        let result = paged_attention(device.stream(), &inputs, &params, out.view_mut(), None, None);
        let message = result.expect_err(what).to_string();
        assert!(message.contains(what), "{message:?} names {what}");
        assert_eq!(device.launches(), launches);
    }
    // A layout that its extents do not fit, and codes without a format of 8 bits.
    let packed = Cache::new(fixture.k.view(), fixture.v.view(), CacheLayout::Packed, None);
    assert!(packed.unwrap_err().to_string().contains("[pages, heads, channels / 8, tokens, 8]"));
    let codes = CacheCodes { format: Format::I4, k_scales: scale.view(), v_scales: scale.view() };
    let wrong = Cache::new(fixture.k.view(), fixture.v.view(), CacheLayout::Nhd, Some(codes));
    assert!(wrong.unwrap_err().to_string().contains("u8 or i8"));
    // Rows that begin anywhere.
    let odd = Layout::strided(&[PAGES - 1, BLOCK, KV_HEADS, DEPTH - 8], fixture.k.layout().strides(), 3).unwrap();
    let (k, v) = (fixture.k.view().with_layout(odd).unwrap(), fixture.v.view().with_layout(odd).unwrap());
    let cache = Cache::new(k, v, CacheLayout::Nhd, None).unwrap();
    let narrow = Tensor::empty(&device, &[1, HEADS, DEPTH - 8], DType::BF16).unwrap();
    let inputs = PagedInputs::new(narrow.view(), cache, table, 32);
    let mut out = Tensor::empty(&device, &[1, HEADS, DEPTH - 8], DType::BF16).unwrap();
    let result = paged_attention(device.stream(), &inputs, &PagedParams::default(), out.view_mut(), None, None);
    assert!(result.unwrap_err().to_string().contains("multiples of 16 bytes"));
}
