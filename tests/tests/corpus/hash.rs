//! References of `hash.hip`. The standards' own test vectors anchor what is well known.

use std::collections::HashMap;

use crate::bench::{Bench, args, below, cases, noise, same};

cases!(sha256, crc32, aes_round, checksums, hash_table, bloom);

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    below(seed, len, 256).into_iter().map(|x| x as u8).collect()
}

/// The first 32 bits of the fraction of a root of a prime, as FIPS 180-4 defines its constants.
fn fraction_bits(root: f64) -> u32 {
    (root.fract() * 4_294_967_296.0) as u32
}

fn primes() -> impl Iterator<Item = u32> {
    (2u32..).filter(|n| (2..*n).all(|d| n % d != 0))
}

fn sha256_of(message: &[u8]) -> [u32; 8] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(56, 0);
    padded.extend((8 * message.len() as u64).to_be_bytes());
    let mut w: Vec<u32> = padded.chunks(4).map(|four| u32::from_be_bytes(four.try_into().unwrap())).collect();
    for k in 16..64 {
        let s0 = w[k - 15].rotate_right(7) ^ w[k - 15].rotate_right(18) ^ (w[k - 15] >> 3);
        let s1 = w[k - 2].rotate_right(17) ^ w[k - 2].rotate_right(19) ^ (w[k - 2] >> 10);
        w.push(w[k - 16].wrapping_add(s0).wrapping_add(w[k - 7]).wrapping_add(s1));
    }
    let start: Vec<u32> = primes().take(8).map(|p| fraction_bits(f64::from(p).sqrt())).collect();
    let rounds = primes().take(64).map(|p| fraction_bits(f64::from(p).cbrt()));
    let mut v = start.clone();
    for (round, w) in rounds.zip(w) {
        let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
        let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
        let first = [s1, choice, round, w].iter().fold(v[7], |sum, x| sum.wrapping_add(*x));
        let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
        let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        v.rotate_right(1);
        v[4] = v[4].wrapping_add(first);
        v[0] = first.wrapping_add(s0).wrapping_add(majority);
    }
    std::array::from_fn(|k| start[k].wrapping_add(v[k]))
}

fn sha256(b: &Bench) {
    let known =
        [0xba78_16bf, 0x8f01_cfea, 0x4141_40de, 0x5dae_2223, 0xb003_61a3, 0x9617_7a9c, 0xb410_ff61, 0xf200_15ad];
    assert_eq!(sha256_of(b"abc"), known);
    for length in [3usize, 55] {
        let mut messages = bytes(1, 64 * length);
        messages[..3].copy_from_slice(b"abc");
        let (pm, digests) = (b.upload(&messages), b.zeros::<u32>(64 * 8));
        b.run("sha256", 1, 64, args![pm, digests, length as i32]);
        same(&b.download::<u32>(digests, 64 * 8), &messages.chunks(length).flat_map(sha256_of).collect::<Vec<_>>());
    }
}

fn crc32(b: &Bench) {
    let mut x = bytes(2, 64 * 9);
    x[..9].copy_from_slice(b"123456789");
    let (px, by_bits, by_table) = (b.upload(&x), b.zeros::<u32>(64), b.zeros::<u32>(64));
    b.run("crc32", 1, 64, args![px, by_bits, by_table, 9i32]);
    // Polynomial division, most significant bit first, over reflected bytes.
    let crc = |own: &[u8]| {
        let bits = own.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)));
        let step = |rest: u32, bit: u32| if rest >> 31 ^ bit == 1 { rest << 1 ^ 0x04c1_1db7 } else { rest << 1 };
        !bits.fold(!0, step).reverse_bits()
    };
    assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    let want: Vec<u32> = x.chunks(9).map(crc).collect();
    same(&b.download::<u32>(by_bits, 64), &want);
    same(&b.download::<u32>(by_table, 64), &want);
}

/// A product modulo x^8 + x^4 + x^3 + x + 1.
fn times(a: u8, b: u8) -> u8 {
    let product = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ u16::from(a) << bit);
    (8..15).rev().fold(product, |rest, bit| if rest >> bit & 1 == 1 { rest ^ 0x11b << (bit - 8) } else { rest }) as u8
}

fn aes_round(b: &Bench) {
    let (states, key) = (bytes(3, 64 * 16), bytes(4, 16));
    let (ps, pk, out) = (b.upload(&states), b.upload(&key), b.zeros::<u8>(64 * 16));
    b.run("aes_round", 1, 64, args![ps, pk, out]);
    let inverse = |x: u8| (0..=255).find(|&y| times(x, y) == 1).unwrap_or(0);
    let affine = |x: u8| (1..5).fold(x, |sum, by| sum ^ x.rotate_left(by)) ^ 0x63;
    let boxes: Vec<u8> = (0..=255).map(|x| affine(inverse(x))).collect();
    assert_eq!((boxes[0], boxes[0x53]), (0x63, 0xed));
    let round = |state: &[u8]| {
        let shifted: Vec<u8> = (0..16).map(|k| boxes[usize::from(state[(k + 4 * (k % 4)) % 16])]).collect();
        let mix = |k: usize| {
            let at = |by: usize| shifted[k / 4 * 4 + (k + by) % 4];
            times(at(0), 2) ^ times(at(1), 3) ^ at(2) ^ at(3) ^ key[k]
        };
        (0..16).map(mix).collect::<Vec<_>>()
    };
    same(&b.download::<u8>(out, 64 * 16), &states.chunks(16).flat_map(round).collect::<Vec<_>>());
}

fn checksums(b: &Bench) {
    let length = 20;
    let x = bytes(5, 64 * length);
    let (px, out) = (b.upload(&x), b.zeros::<u64>(3 * 64));
    b.run("checksums", 1, 64, args![px, out, length as i32]);
    let three = |own: &[u8]| {
        let fnv = own.iter().fold(2_166_136_261u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619));
        let mut murmur = (fnv ^ fnv >> 16).wrapping_mul(0x85eb_ca6b);
        murmur = (murmur ^ murmur >> 13).wrapping_mul(0xc2b2_ae35);
        let sums = own.iter().scan(1u64, |sum, byte| {
            *sum += u64::from(*byte);
            Some(*sum)
        });
        let adler = ((sums.clone().sum::<u64>() % 65_521) << 16) | (sums.last().unwrap() % 65_521);
        let mut v = [0x736f_6d65_7073_6575u64, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
        for &byte in own {
            v[3] ^= u64::from(byte);
            for _ in 0..2 {
                v[0] = v[0].wrapping_add(v[1]);
                v[2] = v[2].wrapping_add(v[3]);
                v[1] = v[1].rotate_left(13) ^ v[0];
                v[3] = v[3].rotate_left(16) ^ v[2];
                v[0] = v[0].rotate_left(32).wrapping_add(v[3]);
                v[2] = v[2].wrapping_add(v[1]);
                v[1] = v[1].rotate_left(17) ^ v[2];
                v[3] = v[3].rotate_left(21) ^ v[0];
                v[2] = v[2].rotate_left(32);
            }
            v[0] ^= u64::from(byte);
        }
        [u64::from(fnv) << 32 | u64::from(murmur ^ murmur >> 16), adler, v[0] ^ v[1] ^ v[2] ^ v[3]]
    };
    same(&b.download::<u64>(out, 3 * 64), &x.chunks(length).flat_map(three).collect::<Vec<_>>());
}

fn hash_table(b: &Bench) {
    let slots = 151;
    let keys: Vec<u32> = below(6, 192, 120).into_iter().map(|key| key + 1).collect();
    let values = noise(7, 192);
    let (pk, pv, table_keys, table_values) =
        (b.upload(&keys), b.upload(&values), b.zeros::<u32>(slots), b.zeros::<u32>(slots));
    b.run("insert", 3, 64, args![pk, pv, table_keys, table_values, slots as u32]);
    let mut want: HashMap<u32, u32> = HashMap::new();
    for (key, value) in keys.iter().zip(&values) {
        let sum = want.entry(*key).or_default();
        *sum = sum.wrapping_add(*value);
    }
    let held = b.download::<u32>(table_keys, slots).into_iter().filter(|key| *key != 0).count();
    assert_eq!(held, want.len());
    let asked: Vec<u32> = (1..=192).collect();
    let (pa, out) = (b.upload(&asked), b.zeros::<u32>(192));
    b.run("look_up", 3, 64, args![pa, table_keys, table_values, out, slots as u32]);
    same(
        &b.download::<u32>(out, 192),
        &asked.iter().map(|key| want.get(key).copied().unwrap_or(u32::MAX)).collect::<Vec<_>>(),
    );
}

fn bloom(b: &Bench) {
    let (members, mut asked) = (noise(8, 128), noise(9, 128));
    asked[..32].copy_from_slice(&members[32..64]);
    let (pm, pa, answers) = (b.upload(&members), b.upload(&asked), b.zeros::<u8>(128));
    b.run("bloom", 1, 128, args![pm, pa, answers]);
    let places = |key: u32| (1..4u32).map(move |k| key.wrapping_mul(k.wrapping_mul(0x9e37_79b1)) >> 22);
    let set: std::collections::HashSet<u32> = members.iter().flat_map(|&key| places(key)).collect();
    let want: Vec<u8> = asked.iter().map(|&key| u8::from(places(key).all(|at| set.contains(&at)))).collect();
    assert!(want[..32].iter().all(|&answer| answer == 1));
    same(&b.download::<u8>(answers, 128), &want);
}
