use super::*;
use crate::testing::{Lie, Numbers, device, device_without_index_checks, read, tensor};
use rocfire_hal::Device;

/// What is told of a call.
#[derive(Clone, Debug)]
struct Call {
    tokens: usize,
    k: usize,
    experts: usize,
    /// The group of each expert, and how many there are.
    map: Option<(Vec<f64>, usize)>,
    count: Option<usize>,
    block: Option<usize>,
}

impl Call {
    fn plain(tokens: usize, k: usize, experts: usize) -> Call {
        Call { tokens, k, experts, map: None, count: None, block: None }
    }

    fn groups(&self) -> usize {
        self.map.as_ref().map_or(self.experts, |(_, groups)| *groups)
    }
}

/// Order, offsets, inverse, groups of blocks: by looking for each group's choices.
fn oracle(ids: &[f64], call: &Call, places: usize) -> [Vec<f64>; 4] {
    let (choices, block) = (ids.len(), call.block.unwrap_or(1));
    let group = |n: usize| -> Option<usize> {
        let counts = n / call.k.max(1) < call.count.unwrap_or(usize::MAX);
        let expert = if ids[n] < 0.0 || ids[n] >= call.experts as f64 { None } else { Some(ids[n] as usize) };
        let number = expert.map(|expert| call.map.as_ref().map_or(expert as f64, |(map, _)| map[expert]));
        number.filter(|&number| counts && number >= 0.0 && number < call.groups() as f64).map(|number| number as usize)
    };
    let (mut order, mut inverse) = (vec![choices as f64; places], vec![-1.0; choices]);
    let mut blocks = vec![-1.0; places.div_ceil(block)];
    let (mut offsets, mut at) = (vec![0.0], 0);
    for own in 0..call.groups() {
        let first = at;
        for n in (0..choices).filter(|&n| group(n) == Some(own)) {
            order[at] = n as f64;
            inverse[n] = at as f64;
            at += 1;
        }
        at = at.next_multiple_of(block);
        blocks[first / block..at / block].fill(own as f64);
        offsets.push(at as f64);
    }
    if call.block.is_none() {
        for n in (0..choices).filter(|&n| group(n).is_none()) {
            (order[at], inverse[n]) = (n as f64, at as f64);
            at += 1;
        }
    }
    [order, offsets, inverse, blocks]
}

fn check(device: &Device, ids: &[f64], call: &Call) {
    let (choices, groups) = (call.tokens * call.k, call.groups());
    // Room for more than is needed, with blocks.
    let places = call.block.map_or(choices, |block| ByExpert::places(choices, groups, block) + 5);
    let weights: Vec<f64> = (0..choices).map(|n| n as f64 + 0.5).collect();
    let make = |shape: &[usize], dtype, values: &[f64]| tensor(device, shape, dtype, values, Lie::Plain);
    let ids_there = make(&[call.tokens, call.k], DType::I32, ids);
    let weights_there = make(&[call.tokens, call.k], DType::F32, &weights);
    let map = call.map.as_ref().map(|(map, _)| make(&[call.experts], DType::I32, map));
    let count = call.count.map(|count| make(&[1], DType::I32, &[count as f64]));
    let empty = |count: usize, dtype| Tensor::empty(device, &[count], dtype).unwrap();
    let (mut order, mut offsets) = (empty(places, DType::I32), empty(groups + 1, DType::I32));
    let (mut inverse, mut sorted) = (empty(choices, DType::I32), empty(places, DType::F32));
    let (mut blocks, mut total) = (empty(places.div_ceil(call.block.unwrap_or(1)), DType::I32), empty(1, DType::I32));
    let mut params = SortParams::new(call.experts);
    (params.map, params.tokens) = (map.as_ref().map(Tensor::view), count.as_ref().map(Tensor::view));
    let mut to = ByExpert::new(order.view_mut(), offsets.view_mut());
    to.inverse = Some(inverse.view_mut());
    to.weights = Some((weights_there.view(), sorted.view_mut()));
    to.blocks = call.block.map(|places| Blocks { places, groups: blocks.view_mut(), total: total.view_mut() });
    sort_by_expert(device.stream(), ids_there.view(), &params, to).unwrap();
    let [want_order, want_offsets, want_inverse, want_blocks] = oracle(ids, call, places);
    let what =
        format!("{} of {} experts, k {}, {:?}, block {:?}", call.tokens, call.experts, call.k, call.count, call.block);
    assert!(read(&order) == want_order, "{what}: order\n{:?}\n{want_order:?}", read(&order));
    assert_eq!(read(&offsets), want_offsets, "{what}");
    assert!(read(&inverse) == want_inverse, "{what}: inverse");
    // Behind the last group are those left out, or nobody.
    let end = *want_offsets.last().unwrap() as usize;
    let weight = |(at, &n): (usize, &f64)| weights.get(n as usize).copied().filter(|_| at < end).unwrap_or(0.0);
    assert!(read(&sorted) == want_order.iter().enumerate().map(weight).collect::<Vec<_>>(), "{what}: weights");
    if call.block.is_some() {
        assert_eq!(read(&blocks), want_blocks, "{what}");
        assert_eq!(read(&total), [*want_offsets.last().unwrap()], "{what}");
    }
}

/// Different experts for each token.
fn choices(seed: u64, call: &Call) -> Vec<f64> {
    let mut numbers = Numbers::new(seed);
    let step = |numbers: &mut Numbers| numbers.below(call.experts);
    (0..call.tokens)
        .flat_map(|_| {
            let first = step(&mut numbers);
            (0..call.k).map(move |slot| ((first + slot * slot) % call.experts) as f64).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn choices_come_in_the_order_of_experts_and_tokens() {
    let device = device();
    for (turn, (tokens, k, experts)) in [
        (1, 1, 1),
        (1, 8, 256),
        (3, 2, 5),
        (64, 6, 64),
        (129, 8, 385),
        (500, 8, 256),
        (1500, 8, 256),
        (3000, 5, 32),
        (900, 9, 1024),
    ]
    .into_iter()
    .enumerate()
    {
        let mut call = Call::plain(tokens, k, experts);
        let ids = choices(turn as u64 + 1, &call);
        check(&device, &ids, &call);
        call.block = Some([1, 16, 32, 128][turn % 4]);
        check(&device, &ids, &call);
        call.count = Some(tokens / 2);
        check(&device, &ids, &call);
    }
    check(&device, &[], &Call::plain(0, 4, 8));
}

#[test]
fn choices_of_no_group_are_left_out() {
    let device = device_without_index_checks();
    for tokens in [7, 1200] {
        let mut call = Call::plain(tokens, 4, 12);
        let mut ids = choices(3, &call);
        for (n, id) in ids.iter_mut().enumerate().filter(|(n, _)| n % 5 == 2) {
            *id = [-1.0, 12.0, 70_000.0, -70_000.0][n % 4];
        }
        check(&device, &ids, &call);
        // Every third expert is here.
        let map: Vec<f64> =
            (0..12).map(|n| if n % 3 == 1 { f64::from(n / 3) } else { [-1.0, 4.0][n as usize % 2] }).collect();
        call.map = Some((map, 4));
        check(&device, &ids, &call);
        call.block = Some(16);
        check(&device, &ids, &call);
    }
}

#[test]
fn an_expert_that_there_is_not_is_told_of() {
    let device = device();
    let told = |id: f64| {
        let ids = tensor(&device, &[2, 2], DType::I32, &[0.0, 1.0, -1.0, id], Lie::Plain);
        let mut order = Tensor::empty(&device, &[4], DType::I32).unwrap();
        let mut offsets = Tensor::empty(&device, &[4], DType::I32).unwrap();
        let to = ByExpert::new(order.view_mut(), offsets.view_mut());
        sort_by_expert(device.stream(), ids.view(), &SortParams::new(3), to).unwrap();
        order.to_bytes().map_err(|error| error.to_string())
    };
    assert!(told(2.0).is_ok() && told(-1.0).is_ok());
    for id in [3.0, -2.0] {
        let error = told(id).unwrap_err();
        assert!(error.contains("sort_by_expert") && error.contains(&format!("{id}")), "{error}");
    }
    assert!(told(2.0).is_ok(), "the device goes on");
}

#[test]
fn every_choice_may_be_of_one_expert() {
    let device = device();
    for expert in [0.0, 63.0] {
        let mut call = Call::plain(1100, 8, 64);
        check(&device, &vec![expert; 8800], &call);
        call.block = Some(64);
        check(&device, &vec![expert; 8800], &call);
        check(&device, &vec![-1.0; 8800], &call);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let make = |shape: &[usize], dtype| tensor(&device, shape, dtype, &vec![0.0; shape.iter().product()], Lie::Plain);
    let refused = |ids: &Tensor, params: &SortParams<'_>, places: usize, offsets: usize, block: usize, part: &str| {
        let (mut order, mut offsets) = (make(&[places], DType::I32), make(&[offsets], DType::I32));
        let (mut groups, mut total) = (make(&[places.div_ceil(block.max(1))], DType::I32), make(&[1], DType::I32));
        let mut to = ByExpert::new(order.view_mut(), offsets.view_mut());
        if block != 1 {
            to.blocks = Some(Blocks { places: block, groups: groups.view_mut(), total: total.view_mut() });
        }
        let error = sort_by_expert(device.stream(), ids.view(), params, to).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let (ids, plain) = (make(&[3, 2], DType::I32), SortParams::new(4));
    refused(&ids, &plain, 5, 5, 1, "order must be 6 places");
    refused(&ids, &plain, 6, 4, 1, "offsets must be [5]");
    refused(&ids, &plain, 65, 5, 16, "order must be 66 places");
    refused(&ids, &plain, 66, 5, 0, "in blocks of 0");
    refused(&ids, &SortParams::new(2000), 6, 5, 1, "experts must be 1 to 1024");
    refused(&make(&[3, 2], DType::I64), &plain, 6, 5, 1, "ids must be of [I32]");
    let map = make(&[3], DType::I32);
    refused(&ids, &SortParams { map: Some(map.view()), ..plain }, 6, 3, 1, "map must be [4]");
}
