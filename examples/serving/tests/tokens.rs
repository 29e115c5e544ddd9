//! Tokens of each model: those of the same written plainly on the CPU, and bit for bit the same whoever else is in the batch.

use std::collections::BTreeMap;

use serving::catalogue::{LIMITS, NAMES, Served, build};
use serving::engine::{Answer, Choice, Engine, Limits, Model, Request};

/// Logits, of around 1, are as near as this to those of the CPU.
const TOLERANCE: f32 = 2e-5;

/// Prompts of different lengths, one longer than a step; the last two draw.
fn requests() -> Vec<Request> {
    let prompt = |seed: u32, length: u32| (0..length).map(|at| (seed * 31 + at * at * 7 + at * 13) % 96).collect();
    let drawn = Choice { temperature: 0.9, top_k: 20, top_p: 0.9, seed: 11 };
    vec![
        Request { prompt: prompt(1, 5), count: 7, choice: Choice::default() },
        Request { prompt: prompt(2, 17), count: 6, choice: Choice::default() },
        Request { prompt: prompt(3, 1), count: 9, choice: Choice::default() },
        Request { prompt: prompt(4, 9), count: 6, choice: drawn },
        Request { prompt: prompt(5, 2), count: 5, choice: Choice { seed: 12, ..drawn } },
    ]
}

fn finish<M: Model>(engine: &mut Engine<M>, answers: &mut BTreeMap<usize, Answer>) {
    let pages = engine.limits().pages;
    while !engine.is_idle() {
        answers.extend(engine.step().unwrap());
    }
    assert_eq!(engine.free_pages(), pages, "every page came back");
}

fn same_bits(what: &str, got: &Answer, want: &Answer) {
    assert_eq!(got.tokens, want.tokens, "{what}");
    for (at, (got, want)) in got.logits.iter().zip(&want.logits).enumerate() {
        let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(got) == bits(want), "{what}: logits of token {at} have other bits");
    }
}

fn check(name: &str) {
    let Served { model, plain, .. } = build(name, LIMITS).unwrap();
    let (mut engine, requests) = (Engine::new(model, LIMITS), requests());

    // All at once: they wait for seats, and take those of others that have ended.
    let mut together = BTreeMap::new();
    for (id, request) in requests.iter().enumerate() {
        assert_eq!(engine.submit(request.clone()).unwrap(), id);
    }
    finish(&mut engine, &mut together);

    let (mut furthest, mut nearest) = (0.0_f32, f32::INFINITY);
    for (id, request) in requests.iter().enumerate() {
        let mut text = request.prompt.clone();
        assert_eq!(together[&id].tokens.len(), request.count);
        for (token, logits) in together[&id].tokens.iter().zip(&together[&id].logits) {
            let want = plain.logits(&text).unwrap();
            for (got, want) in logits.iter().zip(&want) {
                assert!((got - want).abs() <= TOLERANCE, "{name}, request {id}: a logit is {got}, not {want}");
                furthest = furthest.max((got - want).abs());
            }
            let mut order: Vec<usize> = (0..want.len()).collect();
            order.sort_by(|&a, &b| want[b].total_cmp(&want[a]));
            if request.choice.temperature == 0.0 {
                // So that no rounding chooses the token.
                let gap = want[order[0]] - want[order[1]];
                assert!(gap > 2.0 * TOLERANCE, "{name}, request {id}: two tokens are as likely to within {gap}");
                nearest = nearest.min(gap);
                assert_eq!(*token as usize, order[0], "{name}, request {id}, behind {} tokens", text.len());
            } else {
                let least = want[order[request.choice.top_k as usize - 1]] - TOLERANCE;
                assert!(want[*token as usize] >= least, "{name}, request {id}: token {token} is not of the likeliest");
            }
            text.push(*token);
        }
    }
    println!("{name}: logits within {furthest:.1e} of the CPU's, the first two at least {nearest:.1e} apart");

    // Each alone.
    for (id, request) in requests.iter().enumerate() {
        let (mut alone, own) = (BTreeMap::new(), engine.submit(request.clone()).unwrap());
        finish(&mut engine, &mut alone);
        same_bits(&format!("{name}, request {id} alone"), &alone[&own], &together[&id]);
    }

    // Others come and go: the last request runs first, one joins at each step, and the second is called off.
    let (mut mixed, mut ids) = (BTreeMap::new(), Vec::new());
    for request in requests.iter().rev() {
        ids.push(engine.submit(request.clone()).unwrap());
        mixed.extend(engine.step().unwrap());
    }
    let gone = engine.cancel(ids[1]).expect("the second still runs");
    finish(&mut engine, &mut mixed);
    for (id, own) in (0..requests.len()).rev().zip(&ids) {
        match mixed.get(own) {
            Some(answer) => same_bits(&format!("{name}, request {id} among others"), answer, &together[&id]),
            None => {
                assert_eq!(*own, ids[1]);
                let so_far = together[&id].tokens.iter().take(gone.tokens.len());
                assert!(!gone.tokens.is_empty() && so_far.eq(&gone.tokens), "{name}: {gone:?}");
            }
        }
    }
}

/// Rows and seats of a step: prompts in chunks of 1, 3, 16 and 64 tokens, and 1 to 8 requests of a step, of which some end before others.
const EXTENTS: [[usize; 2]; 6] = [[1, 1], [3, 2], [16, 8], [16, 1], [64, 8], [64, 5]];

/// A request's bits are the same whatever number of rows its tokens are computed beside, and in however many chunks.
fn check_extents(name: &str) {
    let mut requests = requests();
    let prompt = |seed: u32, length: u32| (0..length).map(|at| (seed * 17 + at * at * 5 + at * 3) % 96).collect();
    let more = [(6, 20, 3), (7, 11, 4), (8, 3, 2)];
    requests.extend(more.map(|(seed, length, count)| Request {
        prompt: prompt(seed, length),
        count,
        choice: Choice::default(),
    }));
    let mut first: Option<BTreeMap<usize, Answer>> = None;
    for [rows, seats] in EXTENTS {
        let limits = Limits { rows, seats, pages: seats * LIMITS.pages_each, ..LIMITS };
        let Served { model, .. } = build(name, limits).unwrap();
        let (mut engine, mut answers) = (Engine::new(model, limits), BTreeMap::new());
        for request in &requests {
            engine.submit(request.clone()).unwrap();
        }
        finish(&mut engine, &mut answers);
        let first = first.get_or_insert_with(|| answers.clone());
        for (id, answer) in &answers {
            same_bits(
                &format!("{name}, request {id} in steps of {rows} rows and {seats} requests"),
                answer,
                &first[id],
            );
        }
    }
}

macro_rules! models {
    ($($test:ident $extents:ident $name:literal)*) => {
        $(#[test] fn $test() { check($name); })*
        $(#[test] fn $extents() { check_extents($name); })*

        #[test]
        fn every_model_is_tested() {
            assert_eq!(NAMES, [$($name),*]);
        }
    };
}

models! {
    llama llama_in_steps_of_other_extents "llama"
    mixtral mixtral_in_steps_of_other_extents "mixtral"
    qwen3_moe qwen3_moe_in_steps_of_other_extents "qwen3-moe"
    deepseek_v3 deepseek_v3_in_steps_of_other_extents "deepseek-v3"
    gpt_oss gpt_oss_in_steps_of_other_extents "gpt-oss"
    qwen3_next qwen3_next_in_steps_of_other_extents "qwen3-next"
}
