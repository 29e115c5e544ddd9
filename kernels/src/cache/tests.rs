//! What a cache refuses, what only the device can know, and pages that leave it and come back.

use rocfire_hal::{DType, Device, Error as HalError, Layout, Tensor};

use super::*;
use crate::testing::{Lie, Numbers, device, device_without_index_checks, read, tensor};

const PAGES: usize = 4;
const BLOCK: usize = 8;
const HEADS: usize = 2;
const DEPTH: usize = 16;

fn plane(device: &Device, seed: u64) -> Tensor {
    let shape = [PAGES, BLOCK, HEADS, DEPTH];
    tensor(device, &shape, DType::F32, &Numbers::new(seed).values(shape.iter().product(), DType::F32), Lie::Plain)
}

fn cache<'a>(k: &'a Tensor, v: &'a Tensor) -> Cache<'a> {
    Cache::new(k.view(), v.view(), CacheLayout::Nhd, None).unwrap()
}

fn integers(device: &Device, shape: &[usize], values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(device, shape, DType::I64, &bytes).unwrap()
}

/// Writes two tokens of ones.
fn ones(device: &Device, slots: &[i64]) -> [Tensor; 2] {
    let (mut k, mut v) = (plane(device, 1), plane(device, 2));
    let rows = tensor(device, &[2, HEADS, DEPTH], DType::F32, &[1.0; 2 * HEADS * DEPTH], Lie::Plain);
    let slots = integers(device, &[2], slots);
    let mut cache = CacheMut::new(k.view_mut(), v.view_mut(), CacheLayout::Nhd, None).unwrap();
    write(device.stream(), rows.view(), rows.view(), &mut cache, slots.view(), ScaleRule::Given).unwrap();
    [k, v]
}

#[test]
fn a_slot_that_is_not_there_is_passed_over_and_told_of() {
    let off = device_without_index_checks();
    let [k, v] = [plane(&off, 1), plane(&off, 2)].map(|plane| read(&plane));
    let slots_end = (PAGES * BLOCK) as i64;
    for slot in [-1, i64::MIN, slots_end, i64::MAX, 1 << 32] {
        let [got_k, got_v] = ones(&off, &[5, slot]).map(|plane| read(&plane));
        for (got, before) in [(&got_k, &k), (&got_v, &v)] {
            let row = HEADS * DEPTH;
            for (at, (got, before)) in got.chunks(row).zip(before.chunks(row)).enumerate() {
                assert_eq!(got, if at == 5 { &[1.0; HEADS * DEPTH] } else { before }, "slot {slot}, token {at}");
            }
        }
    }
    let own = Device::open(off.id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    ones(&own, &[5, -1])[0].to_bytes().unwrap();
    match ones(&own, &[5, slots_end])[0].to_bytes() {
        Err(HalError::Index(fault)) => {
            assert_eq!((&fault.op[..], fault.index, fault.extent), ("cache_write", slots_end, slots_end));
        }
        other => panic!("expected a report of a slot, got {other:?}"),
    }
}

#[test]
fn a_pair_of_pages_that_is_not_there_is_passed_over() {
    let device = device_without_index_checks();
    let (k, v) = (plane(&device, 1), plane(&device, 2));
    let list = CacheList::new(device.stream(), &[&cache(&k, &v)]).unwrap();
    let before = read(&k);
    let pairs = integers(&device, &[4, 2], &[-1, 0, 0, PAGES as i64, i64::MAX, 1, 1, 3]);
    copy_blocks(device.stream(), &list, pairs.view()).unwrap();
    let (after, page) = (read(&k), BLOCK * HEADS * DEPTH);
    assert_eq!(after[..3 * page], before[..3 * page]);
    assert_eq!(after[3 * page..], before[page..2 * page]);
}

#[test]
fn pages_go_to_the_host_and_to_another_cache_and_come_back() {
    let device = device();
    let stream = device.stream();
    let (k, v, other_k, other_v) = (plane(&device, 1), plane(&device, 2), plane(&device, 3), plane(&device, 4));
    let (here, there) = (cache(&k, &v), cache(&other_k, &other_v));
    let (here, there) = (CacheList::new(stream, &[&here]).unwrap(), CacheList::new(stream, &[&there]).unwrap());
    let page = BLOCK * HEADS * DEPTH;
    assert_eq!(here.page_bytes(), 2 * page * 4);
    let [before_k, before_v] = [&k, &v].map(read);
    let mut host = vec![0; 2 * here.page_bytes()];
    here.to_host(stream, &[3, 1], &mut host).unwrap();
    there.swap_blocks(stream, &here, &[(0, 3), (2, 1)]).unwrap();
    assert_eq!(read(&k)[3 * page..], read(&other_k)[..page]);
    assert_eq!(read(&v)[page..2 * page], read(&other_v)[2 * page..3 * page]);
    here.from_host(stream, &host, &[3, 1]).unwrap();
    assert_eq!([&k, &v].map(read), [before_k, before_v]);
    assert!(here.to_host(stream, &[4], &mut host).unwrap_err().to_string().contains("pages below 4"));
    assert!(here.from_host(stream, &host[1..], &[3, 1]).unwrap_err().to_string().contains("host must be"));
}

#[test]
fn keys_and_values_may_take_turns_in_one_memory() {
    let device = device();
    let both = tensor(&device, &[PAGES, 2, BLOCK, HEADS, DEPTH], DType::F32, &[0.0; 2 * 1024], Lie::Plain);
    let half = |at: usize| {
        let layout = both.layout().slice(1, at, at + 1, 1).unwrap().squeeze(1).unwrap();
        both.with_layout(layout).unwrap()
    };
    let (mut k, mut v) = (half(0), half(1));
    let rows = |value: f64| tensor(&device, &[1, HEADS, DEPTH], DType::F32, &[value; HEADS * DEPTH], Lie::Plain);
    let slots = integers(&device, &[1], &[9]);
    let mut cache = CacheMut::new(k.view_mut(), v.view_mut(), CacheLayout::Nhd, None).unwrap();
    let (key, value) = (rows(1.0), rows(2.0));
    write(device.stream(), key.view(), value.view(), &mut cache, slots.view(), ScaleRule::Given).unwrap();
    let all = read(&both);
    let row = HEADS * DEPTH;
    let page = 2 * BLOCK * row;
    for (at, &x) in all.iter().enumerate() {
        let want = match (at / page, at % page / row) {
            (1, 1) => 1.0,
            (1, token) if token == BLOCK + 1 => 2.0,
            _ => 0.0,
        };
        assert_eq!(x, want, "element {at}");
    }
}

#[test]
fn what_does_not_go_together_is_refused_before_any_launch() {
    // A device of its own, whose launches are those of this test.
    let device = Device::open(device().id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    let (k, v) = (plane(&device, 1), plane(&device, 2));
    let error = |result: crate::Result<Cache<'_>>| result.unwrap_err().to_string();
    let codes = Tensor::empty(&device, &[PAGES, BLOCK, HEADS, DEPTH], DType::U8).unwrap();
    let scales = Tensor::empty(&device, &[HEADS, PAGES], DType::F32).unwrap();
    let coded = |format| Some(CacheCodes { format, k_scales: scales.view(), v_scales: scales.view() });
    assert!(error(Cache::new(codes.view(), codes.view(), CacheLayout::Nhd, None)).contains("cache has no"));
    assert!(error(Cache::new(codes.view(), codes.view(), CacheLayout::Nhd, coded(Format::E4M3))).contains("[4, 2]"));
    assert!(error(Cache::new(codes.view(), codes.view(), CacheLayout::Nhd, coded(Format::I4))).contains("one of"));
    assert!(error(Cache::new(k.view(), codes.view(), CacheLayout::Nhd, None)).contains("v must be"));
    assert!(error(Cache::new(k.view(), v.view(), CacheLayout::PackedBoth, None)).contains("[pages, heads"));
    let half = v.view().with_layout(v.layout().slice(1, 0, 4, 1).unwrap()).unwrap();
    assert!(error(Cache::new(k.view(), half, CacheLayout::Nhd, None)).contains("4 pages of 8 tokens and 2 heads"));
    let narrow = k.view().with_layout(k.layout().slice(3, 0, 12, 1).unwrap()).unwrap();
    assert!(error(Cache::new(narrow, narrow, CacheLayout::Nhd, None)).contains("heads of 8, 16"));

    let launches = device.launches();
    let mut all = (k.clone(), v.clone());
    let mut cache = CacheMut::new(all.0.view_mut(), all.1.view_mut(), CacheLayout::Nhd, None).unwrap();
    let (rows, slots) =
        (Tensor::empty(&device, &[2, HEADS, DEPTH], DType::F32).unwrap(), integers(&device, &[2], &[0, 1]));
    let short = integers(&device, &[1], &[0]);
    let stream = device.stream();
    let mut refused = |key: rocfire_hal::View<'_>, slots: rocfire_hal::View<'_>, rule, what: &str| {
        let message = write(stream, key, rows.view(), &mut cache, slots, rule).unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    };
    refused(rows.view(), short.view(), ScaleRule::Given, "slots");
    refused(rows.view(), slots.view(), ScaleRule::Token, "scales of tokens");
    let own = k.view().with_layout(Layout::strided(&[2, HEADS, DEPTH], &[256, 16, 1], 0).unwrap()).unwrap();
    refused(own, slots.view(), ScaleRule::Given, "cache");
    let latent = |rows: &Tensor, latent| Cache::latent(rows.view(), latent, None).unwrap_err().to_string();
    assert!(latent(&slots, 8).contains("rows must be [pages, tokens, channels]"));
    assert!(latent(&rows, 0).contains("latent must be from 1 to below 16"));
    assert!(latent(&rows, DEPTH).contains("latent must be from 1 to below 16"));
    // Two parts of a row would each write its one scale.
    let mut coded_rows = Tensor::empty(&device, &[PAGES, BLOCK, DEPTH], DType::U8).unwrap();
    let of_tokens = Tensor::empty(&device, &[PAGES, 1, BLOCK], DType::F32).unwrap();
    let codes = LatentCodes { format: Format::I8, scales: of_tokens.view() };
    let mut parts = CacheMut::latent(coded_rows.view_mut(), DEPTH / 2, Some(codes)).unwrap();
    let part = Tensor::empty(&device, &[2, 1, DEPTH / 2], DType::F32).unwrap();
    let message = write(stream, part.view(), part.view(), &mut parts, slots.view(), ScaleRule::Token);
    assert!(message.unwrap_err().to_string().contains("rule must be scales that are given"));
    assert_eq!(device.launches(), launches);
}
