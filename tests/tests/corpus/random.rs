//! References of `random.hip`.

use crate::bench::{Bench, args, cases, noise, same, words};

cases!(philox, generators, monte_carlo, shuffle, walk);

fn philox(b: &Bench) {
    let (keys, first) = ([0xdead_beefu32, 0x1234_5678], 0xffff_ffc0u64);
    let out = b.zeros::<[u32; 4]>(128);
    b.run("philox", 2, 64, args![out, keys[0], keys[1], first]);
    let of = |i: u64| {
        let counter = first + i;
        let (mut c, mut key) = ([counter as u32, (counter >> 32) as u32, 0x1234, 0], keys);
        for _ in 0..10 {
            let a = u64::from(c[0]) * 0xd251_1f53;
            let b = u64::from(c[2]) * 0xcd9e_8d57;
            c = [(b >> 32) as u32 ^ c[1] ^ key[0], b as u32, (a >> 32) as u32 ^ c[3] ^ key[1], a as u32];
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        c
    };
    same(&b.download::<[u32; 4]>(out, 128), &(0..128).map(of).collect::<Vec<_>>());
}

fn generators(b: &Bench) {
    let (seeds, steps) = (words(1, 128), 20);
    let (ps, out) = (b.upload(&seeds), b.zeros::<u64>(3 * 128));
    b.run("generators", 2, 64, args![ps, out, steps]);
    let of = |&seed: &u64| {
        let mut four = [seed as u32 | 1, (seed >> 32) as u32, 521_288_629, 88_675_123];
        let (mut state, mut pcg) = (seed, 0);
        for _ in 0..steps {
            let t = four[0] ^ (four[0] << 11);
            four = [four[1], four[2], four[3], four[3] ^ (four[3] >> 19) ^ t ^ (t >> 8)];
            pcg = ((((state >> 18) ^ state) >> 27) as u32).rotate_right((state >> 59) as u32);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(steps as u64));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        [u64::from(four[3]), u64::from(pcg), z ^ (z >> 31)]
    };
    same(&b.download::<u64>(out, 3 * 128), &seeds.iter().flat_map(of).collect::<Vec<_>>());
}

fn monte_carlo(b: &Bench) {
    let points = 50;
    let inside = b.zeros::<u32>(1);
    b.run("monte_carlo", 2, 128, args![inside, points]);
    let count = |i: u32| {
        let mut state = i.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        (0..points)
            .filter(|_| {
                let (x, y) = (next(), next());
                x * x / 2 + y * y / 2 < 0x7fff_ffff
            })
            .count() as u32
    };
    let want: u32 = (0..256).map(count).sum();
    same(&b.download::<u32>(inside, 1), &[want]);
    let share = f64::from(want) / f64::from(256 * points);
    assert!((share - std::f64::consts::FRAC_PI_4).abs() < 0.02, "{share}");
}

fn shuffle(b: &Bench) {
    let seeds = noise(2, 64);
    let (decks, ps) = (b.zeros::<u8>(64 * 52), b.upload(&seeds));
    b.run("shuffle", 1, 64, args![decks, ps]);
    let deck = |&seed: &u32| {
        let (mut state, mut deck) = (seed | 1, (0..52u8).collect::<Vec<_>>());
        for left in (2..=52).rev() {
            let chosen = loop {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                if (state & 63) < left {
                    break state & 63;
                }
            };
            deck.swap(left as usize - 1, chosen as usize);
        }
        deck
    };
    same(&b.download::<u8>(decks, 64 * 52), &seeds.iter().flat_map(deck).collect::<Vec<_>>());
}

fn walk(b: &Bench) {
    let seeds = words(3, 128);
    let (ps, places, hits) = (b.upload(&seeds), b.zeros::<i32>(128), b.zeros::<u32>(128));
    b.run("walk", 2, 64, args![ps, places, hits, 100i32]);
    let of = |&seed: &u64| {
        let (mut bits, mut place, mut hit) = (seed, 0i32, 0u32);
        for k in 0..100 {
            bits ^= bits << 7;
            bits ^= bits >> 9;
            place += if bits & 1 == 1 { 1 } else { -1 };
            if place.abs() > 6 {
                place = 0;
                hit = hit.wrapping_mul(3).wrapping_add(k);
            }
        }
        (place, hit)
    };
    same(&b.download::<i32>(places, 128), &seeds.iter().map(|seed| of(seed).0).collect::<Vec<_>>());
    same(&b.download::<u32>(hits, 128), &seeds.iter().map(|seed| of(seed).1).collect::<Vec<_>>());
}
