//! Products of MXFP4 by weights laid out, by AITER's code objects on an emulated gfx950: right by sums in f64, taken where they are asked for
//! and apply and nowhere else, with bits that depend on neither the tile nor other rows.
//!
//! The package has to be there, as for `aiter.rs`; without it these tests say that they were skipped.

mod tier;

use std::collections::BTreeSet;
use std::path::Path;

use rocfire_hal::{Checks, Config, DType, Device, Layout, Tensor};
use rocfire_kernels::quant::{
    CodedRows, CodedWeight, EndActivation, Format, Preshuffled, PreshuffledRows, ScaleKind, ScaledEnd,
    explain_preshuffled, q_matmul_preshuffled, q_matmul_scaled_to,
};
use rocfire_tests::{Distance, most_nmse};

use tier::{floats, package, tensor};

const CARD: &str = "gfx950";
/// What E2M1 codes without their sign are.
const MAGNITUDES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
const BLOCK: usize = 32;

fn config() -> Config {
    Config::from_env().unwrap().with_aiter(true).with_aiter_codes(true)
}

fn device(folder: &Path) -> Device {
    tier::device(CARD, folder, config())
}

/// Rows of E2M1 with exponents by 32, of which two in a row are not alike.
struct Side {
    rows: usize,
    k: usize,
    codes: Vec<u8>,
    exponents: Vec<u8>,
}

impl Side {
    fn new(seed: usize, rows: usize, k: usize) -> Side {
        let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        let codes = (0..rows * k).map(|_| next() & 15).collect();
        let exponents = (0..rows * k / BLOCK).map(|_| 122 + next() % 9).collect();
        Side { rows, k, codes, exponents }
    }

    fn values(&self) -> Vec<f64> {
        let value = |(at, code): (usize, &u8)| {
            let scale = f64::from(i32::from(self.exponents[at / BLOCK]) - 127).exp2();
            MAGNITUDES[usize::from(code & 7)] * scale * if code & 8 == 0 { 1.0 } else { -1.0 }
        };
        self.codes.iter().enumerate().map(value).collect()
    }

    /// Codes, a row so many bytes and some more, which are NaN to nobody but not zero, and exponents, with `apart` columns between.
    fn tensors(&self, device: &Device, gap: usize, apart: usize) -> [Tensor; 2] {
        let rows = |bytes: Vec<u8>, gap: usize| {
            let width = bytes.len() / self.rows;
            let filled = |row: &[u8]| row.iter().copied().chain(std::iter::repeat_n(0x77, gap)).collect::<Vec<u8>>();
            let all: Vec<u8> = bytes.chunks(width).flat_map(filled).collect();
            let all = Tensor::from_bytes(device, &[self.rows, width + gap], DType::U8, &all).unwrap();
            all.with_layout(all.layout().slice(1, 0, width, 1).unwrap()).unwrap()
        };
        let packed = self.codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect();
        [rows(packed, gap), rows(self.exponents.clone(), apart)]
    }
}

/// A product, and how its tensors lie.
struct Problem {
    a: Side,
    b: Side,
    /// Bytes behind a row of A, exponents behind a row of each, columns behind a row of C.
    gaps: [usize; 3],
}

impl Problem {
    fn new([m, n, k]: [usize; 3]) -> Problem {
        Problem { a: Side::new(1, m, k), b: Side::new(2, n, k), gaps: [0; 3] }
    }

    /// The result, in rows, and the names of AMD's kernels that were launched for it. Nothing beside the result is written.
    fn run(&self, device: &Device) -> (Vec<f32>, Vec<String>) {
        let [codes, apart, behind] = self.gaps;
        let (m, n) = (self.a.rows, self.b.rows);
        let ([a, a_exponents], [b, b_exponents]) =
            (self.a.tensors(device, codes, apart), self.b.tensors(device, 0, apart));
        // Rows ahead and behind, and columns.
        let (width, all) = (n + behind, (m + 3) * (n + behind));
        let whole = tensor(device, &[all], |_| 7.0);
        let mut c = whole.with_layout(Layout::strided(&[m, n], &[width as i64, 1], width as i64).unwrap()).unwrap();
        let (format, kind, block) = (Format::E2M1, ScaleKind::E8M0, [1, BLOCK]);
        let weight = Preshuffled::new(device.stream(), format, &b).unwrap();
        let a = CodedRows { format, codes: a.view(), scales: a_exponents.view(), kind, block };
        let b = PreshuffledRows { weight: &weight, scales: b_exponents.view(), kind, block };
        device.start_profile().unwrap();
        q_matmul_preshuffled(device.stream(), &a, &b, c.view_mut()).unwrap();
        let timeline = device.take_profile().unwrap().unwrap();
        let theirs = timeline
            .launches
            .iter()
            .filter(|launch| launch.kernel.contains("f4gemm"))
            .map(|launch| launch.kernel.to_string());
        let theirs: Vec<String> = theirs.collect();
        let told = explain_preshuffled(device, &a, &b, c.view()).unwrap();
        match theirs.first() {
            Some(kernel) => assert!(told.contains(&format!("{kernel}, which goes first")), "{told}"),
            None => assert!(!told.contains("which goes first"), "{told}"),
        }
        let got = floats(&whole);
        let mut found = Vec::with_capacity(m * n);
        for (line, row) in got.chunks(width).enumerate() {
            let inside = if (1..=m).contains(&line) { n } else { 0 };
            found.extend_from_slice(&row[..inside]);
            assert!(row[inside..].iter().all(|&x| x == 7.0), "line {line} is written beside the result");
        }
        (found, theirs)
    }

    /// Every so manieth row of the result in f64.
    fn assert_right(&self, got: &[f32], step: usize, what: &str) {
        let (a, b, k, n) = (self.a.values(), self.b.values(), self.a.k, self.b.rows);
        let rows = (0..self.a.rows).step_by(step);
        let dot = |(a, b): (&[f64], &[f64])| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let want: Vec<f64> = rows
            .clone()
            .flat_map(|row| b.chunks(k).map(|b| dot((&a[row * k..][..k], b))).collect::<Vec<_>>())
            .collect();
        let got: Vec<f64> = rows.flat_map(|row| got[row * n..][..n].iter().map(|&x| f64::from(x))).collect();
        let distance = Distance::between(&got, &want);
        assert!(distance.unlike == 0 && distance.nmse < most_nmse(DType::BF16, k), "{what}: {distance:?}");
    }
}

/// Rows that are no multiple of anything, one row and several tiles, K from one block on, rounds that are not whole.
#[test]
fn products_are_what_sums_in_f64_are() {
    let Some(folder) = package("products_are_what_sums_in_f64_are") else { return };
    let device = device(&folder);
    let sizes = [
        [1, 32768, 32],
        [250, 4096, 256],
        [257, 4096, 1280],
        [37, 16896, 96],
        [300, 7168, 288],
        [345, 11264, 512],
        [161, 16896, 64],
    ];
    for size in sizes {
        let problem = Problem::new(size);
        let (got, theirs) = problem.run(&device);
        assert_eq!(theirs.len(), 1, "{size:?}");
        problem.assert_right(&got, 5, &format!("{size:?} by {}", theirs[0]));
        assert_eq!(problem.run(&device).0, got, "{size:?}: the same bits twice");
    }
}

/// Rows of A, exponents of both and rows of C with room between give the bits of those without, and only C is written.
#[test]
fn rows_with_room_between_are_those_without() {
    let Some(folder) = package("rows_with_room_between_are_those_without") else { return };
    let device = device(&folder);
    let mut problem = Problem::new([259, 4096, 512]);
    let (dense, theirs) = problem.run(&device);
    assert_eq!(theirs.len(), 1);
    for gaps in [[48, 0, 0], [0, 3, 0], [0, 8, 40], [16, 5, 8]] {
        problem.gaps = gaps;
        assert_eq!(problem.run(&device), (dense.clone(), theirs.clone()), "{gaps:?}");
    }
    // With room between, the last round's rest of a row would be somebody else's.
    problem = Problem::new([259, 4096, 288]);
    let (dense, theirs) = problem.run(&device);
    assert_eq!(theirs.len(), 1);
    problem.gaps = [16, 0, 0];
    let (apart, theirs) = problem.run(&device);
    assert!(theirs.is_empty());
    problem.assert_right(&apart, 7, "with room between");
    problem.assert_right(&dense, 7, "without");
}

/// Rows have the same bits by whichever tile, among however many others.
#[test]
fn a_row_has_its_bits_by_every_tile() {
    let Some(folder) = package("a_row_has_its_bits_by_every_tile") else { return };
    let device = device(&folder);
    let (n, k) = (33792, 288);
    let mut tiles = BTreeSet::new();
    let mut longest = Vec::new();
    for m in [1, 70, 150, 352] {
        let mut problem = Problem::new([352, n, k]);
        problem.a.rows = m;
        problem.a.codes.truncate(m * k);
        problem.a.exponents.truncate(m * k / BLOCK);
        let (got, theirs) = problem.run(&device);
        tiles.extend(theirs);
        assert!(got[..longest.len()] == longest[..], "{m} rows");
        longest = got;
    }
    assert!(tiles.len() >= 4, "{tiles:?}");
}

/// An exponent or a code of one row spoils that row, of one column that column.
#[test]
fn what_is_no_number_stays_in_its_row_and_column() {
    let Some(folder) = package("what_is_no_number_stays_in_its_row_and_column") else { return };
    let device = device(&folder);
    let mut problem = Problem::new([250, 4096, 288]);
    let (clean, _) = problem.run(&device);
    problem.a.exponents[249 * 9 + 8] = 255;
    problem.b.exponents[77 * 9] = 255;
    let (got, theirs) = problem.run(&device);
    assert_eq!(theirs.len(), 1);
    for (at, (got, clean)) in got.iter().zip(&clean).enumerate() {
        let is_spoiled = at / 4096 == 249 || at % 4096 == 77;
        assert!(if is_spoiled { got.is_nan() } else { got == clean }, "row {}, column {}: {got}", at / 4096, at % 4096);
    }
}

#[test]
fn products_are_ours_unless_theirs_are_asked_for_and_apply() {
    let Some(folder) = package("products_are_ours_unless_theirs_are_asked_for_and_apply") else { return };
    let size = [256, 4096, 256];
    let problem = Problem::new(size);
    let plain = Config::from_env().unwrap();
    let (ours, theirs) = problem.run(&tier::device(CARD, &folder, plain.with_aiter(false)));
    assert!(theirs.is_empty());
    for (is_on, codes) in [(true, false), (false, true)] {
        let config = Config::from_env().unwrap().with_aiter(is_on).with_aiter_codes(codes);
        assert_eq!(problem.run(&tier::device(CARD, &folder, config)), (ours.clone(), Vec::new()), "{is_on}, {codes}");
    }
    // A weight in rows, a folder without any, and a card that there is none for.
    let in_rows = tier::device(CARD, &folder, config().with_preshuffle(false));
    assert_eq!(problem.run(&in_rows), (ours.clone(), Vec::new()));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(problem.run(&tier::device(CARD, empty.path(), config())), (ours.clone(), Vec::new()));
    assert!(problem.run(&tier::device("gfx942", &folder, config())).1.is_empty());
    let device = device(&folder);
    assert_eq!(problem.run(&tier::device(CARD, &folder, config().with_deterministic(true))).1.len(), 1);
    assert_eq!(problem.run(&device).1.len(), 1, "this test is of nothing without them");
    // Too few tiles for the card's units, and columns that are no whole tiles.
    for size in [[224, 4096, 256], [256, 4160, 256]] {
        let other = Problem::new(size);
        let (got, theirs) = other.run(&device);
        assert!(theirs.is_empty(), "{size:?}");
        other.assert_right(&got, 3, &format!("{size:?}"));
    }
    // Something behind it.
    let [[a, a_exponents], [b, b_exponents]] = [&problem.a, &problem.b].map(|side| side.tensors(&device, 0, 0));
    let weight = Preshuffled::new(device.stream(), Format::E2M1, &b).unwrap();
    let (format, kind, block) = (Format::E2M1, ScaleKind::E8M0, [1, BLOCK]);
    let a = CodedRows { format, codes: a.view(), scales: a_exponents.view(), kind, block };
    let b = CodedWeight::LaidOut(PreshuffledRows { weight: &weight, scales: b_exponents.view(), kind, block });
    for (activation, dtype, expected) in [
        (EndActivation::None, DType::BF16, true),
        (EndActivation::Relu, DType::BF16, false),
        (EndActivation::None, DType::F32, false),
    ] {
        let mut c = Tensor::empty(&device, &[256, 4096], dtype).unwrap();
        let end = ScaledEnd { activation, ..ScaledEnd::default() };
        let is_theirs = tier::launches(&device, "f4gemm", || {
            q_matmul_scaled_to(device.stream(), &a, &b, &end, c.view_mut()).unwrap();
        });
        assert_eq!(is_theirs, expected, "{activation:?} {dtype}");
    }
}

/// Their waves wait for what they use and do not race, and nothing is used that nobody wrote.
#[test]
fn products_stand_the_checks() {
    let Some(folder) = package("products_stand_the_checks") else { return };
    let device = tier::device(CARD, &folder, config().with_checks(Checks::ALL));
    for size in [[250, 4096, 1280], [37, 16896, 288], [129, 16896, 544]] {
        assert_eq!(Problem::new(size).run(&device).1.len(), 1, "{size:?}");
    }
}
