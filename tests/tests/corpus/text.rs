//! References of `text.hip`.

use crate::bench::{Bench, args, below, cases, noise, same};

cases!(search, rolling, word_count, edit_distance, base64, decimal, frontier, components, all_paths, knapsack,);

/// Text of few letters, so that short patterns occur.
fn letters(seed: u64, len: usize, alphabet: &[u8]) -> Vec<u8> {
    below(seed, len, alphabet.len() as u32).into_iter().map(|k| alphabet[k as usize]).collect()
}

fn search(b: &Bench) {
    let (text, pattern) = (letters(1, 500, b"ab"), b"abba");
    let (pt, pp, found) = (b.upload(&text), b.upload(pattern), b.zeros::<u64>(8));
    b.run("search", 2, 256, args![pt, pp, found, 500i32, 4i32]);
    let bit = |i: usize| u64::from(text.get(i..i + 4) == Some(pattern));
    let want: Vec<u64> = (0..8).map(|w| (0..64).fold(0, |bits, k| bits | bit(64 * w + k) << k)).collect();
    same(&b.download::<u64>(found, 8), &want);
}

fn rolling(b: &Bench) {
    let (text, pattern) = (letters(2, 1000, b"abc"), b"abca");
    let (pt, pp, count) = (b.upload(&text), b.upload(pattern), b.zeros::<u32>(1));
    b.run("rolling", 1, 64, args![pt, pp, count, 1000i32, 4i32, 16i32]);
    same(&b.download::<u32>(count, 1), &[text.windows(4).filter(|four| four == pattern).count() as u32]);
}

fn word_count(b: &Bench) {
    let text = "Zwölf Boxkämpfer\njagen  Eva quer\tüber den Sylter Deich.\n\n€ ≠ ¥ 日本 ".repeat(5);
    let (pt, counts) = (b.upload(text.as_bytes()), b.zeros::<u32>(3));
    b.run("word_count", 2, 256, args![pt, counts, text.len() as i32]);
    let want = [text.split_whitespace().count(), text.matches('\n').count(), text.chars().count()];
    assert!(text.len() <= 512);
    same(&b.download::<u32>(counts, 3), &want.map(|count| count as u32));
}

fn edit_distance(b: &Bench) {
    let (x, y) = (letters(3, 40, b"abcd"), letters(4, 61, b"abcd"));
    let (px, py, distance) = (b.upload(&x), b.upload(&y), b.zeros::<u32>(1));
    b.run("edit_distance", 1, 64, args![px, py, distance, 40i32, 61i32]);
    let mut row: Vec<u32> = (0..=61).collect();
    for (i, a) in x.iter().enumerate() {
        let mut next = vec![i as u32 + 1];
        for (j, c) in y.iter().enumerate() {
            next.push((row[j] + u32::from(a != c)).min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    same(&b.download::<u32>(distance, 1), &[row[61]]);
}

fn base64(b: &Bench) {
    let x: Vec<u8> = noise(5, 3 * 128).into_iter().map(|x| x as u8).collect();
    let (px, out) = (b.upload(&x), b.zeros::<u8>(4 * 128));
    b.run("base64", 2, 64, args![px, out]);
    let alphabet: Vec<u8> = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9').chain(*b"+/").collect();
    let four = |own: &[u8]| {
        let bits = own.iter().fold(0usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|by| alphabet[bits >> by & 63])
    };
    same(&b.download::<u8>(out, 4 * 128), &x.chunks(3).flat_map(four).collect::<Vec<_>>());
}

fn decimal(b: &Bench) {
    let mut x: Vec<i32> = noise(6, 128).into_iter().enumerate().map(|(i, x)| x as i32 >> (i % 31)).collect();
    x[..3].copy_from_slice(&[0, i32::MIN, i32::MAX]);
    let (px, text, back) = (b.upload(&x), b.zeros::<u8>(12 * 128), b.zeros::<i32>(128));
    b.run("decimal", 2, 64, args![px, text, back]);
    let want: String = x.iter().map(|x| format!("{x:12}")).collect();
    same(&b.download::<u8>(text, 12 * 128), want.as_bytes());
    same(&b.download::<i32>(back, 128), &x);
}

/// Neighbours of each node: where they start, and the list.
fn neighbours(pairs: &[(u32, u32)], nodes: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut starts, mut edges) = (vec![0], Vec::new());
    for node in 0..nodes {
        edges.extend(pairs.iter().filter(|pair| pair.0 == node).map(|pair| pair.1));
        starts.push(edges.len() as u32);
    }
    (starts, edges)
}

fn frontier(b: &Bench) {
    let nodes = 150;
    let pairs: Vec<(u32, u32)> = below(7, 260, nodes).into_iter().zip(below(8, 260, nodes)).collect();
    let (starts, edges) = neighbours(&pairs, nodes);
    let mut depths = vec![u32::MAX; nodes as usize];
    depths[3] = 0;
    let (ps, pe, pd) = (b.upload(&starts), b.upload(&edges), b.upload(&depths));
    let mut now = vec![3u32];
    for depth in 1.. {
        let (pn, next, count) = (b.upload(&now), b.zeros::<u32>(nodes as usize), b.zeros::<u32>(1));
        b.run("frontier", 3, 64, args![ps, pe, pd, pn, now.len() as u32, next, count, depth]);
        let len = b.download::<u32>(count, 1)[0] as usize;
        if len == 0 {
            break;
        }
        now = b.download::<u32>(next, len);
    }
    // Bellman and Ford's rounds until nothing changes.
    loop {
        let before = depths.clone();
        for &(from, to) in &pairs {
            depths[to as usize] = depths[to as usize].min(depths[from as usize].saturating_add(1));
        }
        if depths == before {
            break;
        }
    }
    same(&b.download::<u32>(pd, nodes as usize), &depths);
}

fn components(b: &Bench) {
    let nodes = 200u32;
    let (from, to) = (below(9, 130, nodes), below(10, 130, nodes));
    let parents: Vec<u32> = (0..nodes).collect();
    let (pf, pt, pp) = (b.upload(&from), b.upload(&to), b.upload(&parents));
    b.run("unite", 3, 64, args![pf, pt, pp, 130u32]);
    b.run("flatten", 4, 64, args![pp, nodes]);
    // The smallest node that is reached, by spreading it until nothing changes.
    let mut least = parents;
    loop {
        let before = least.clone();
        for (&a, &c) in from.iter().zip(&to) {
            let low = least[a as usize].min(least[c as usize]);
            least[a as usize] = low;
            least[c as usize] = low;
        }
        if least == before {
            break;
        }
    }
    same(&b.download::<u32>(pp, nodes as usize), &least);
}

fn all_paths(b: &Bench) {
    let n = 32;
    let mut weights: Vec<u32> =
        below(11, n * n, 200).into_iter().map(|w| if w < 40 { w + 1 } else { 1_000_000 }).collect();
    (0..n).for_each(|i| weights[i * n + i] = 0);
    let (pw, out) = (b.upload(&weights), b.zeros::<u32>(n * n));
    b.run("all_paths", 1, [32, 8], args![pw, out]);
    // Distances over one edge more, until nothing changes.
    let mut want = weights.clone();
    loop {
        let one_more = |at: usize| (0..n).map(|k| want[at / n * n + k] + weights[k * n + at % n]).min().unwrap();
        let next: Vec<u32> = (0..n * n).map(one_more).collect();
        if next == want {
            break;
        }
        want = next;
    }
    same(&b.download::<u32>(out, n * n), &want);
}

fn knapsack(b: &Bench) {
    let (weights, values) = (below(12, 14, 30), below(13, 14, 100));
    let (pw, pv, best) = (b.upload(&weights), b.upload(&values), b.zeros::<u32>(128));
    b.run("knapsack", 1, 128, args![pw, pv, best, 14i32]);
    let mut want = vec![0u32; 128];
    for choice in 0..1u32 << 14 {
        let sum = |of: &[u32]| (0..14).filter(|k| choice >> k & 1 == 1).map(|k| of[k]).sum::<u32>();
        let (weight, value) = (sum(&weights) as usize, sum(&values));
        if weight < 128 {
            want[weight..].iter_mut().for_each(|best| *best = (*best).max(value));
        }
    }
    same(&b.download::<u32>(best, 128), &want);
}
