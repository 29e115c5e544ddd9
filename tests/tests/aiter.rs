//! Operators by AITER's code objects, on emulated cards of the architectures that they are for: right by the oracles of the cases, taken
//! where they apply and nowhere else.
//!
//! AMD's package has to be there: in `ROCFIRE_AITER_DIR`, or where `cargo verify --foreign` has put it. Without it these tests say that
//! they were skipped.

mod tier;

use std::collections::BTreeSet;
use std::path::Path;

use rocfire_hal::{Config, DType, Device, Tensor};
use rocfire_kernels::aiter::report;
use rocfire_kernels::attention::{AttentionInputs, AttentionParams, AttentionSaved, attention, attention_backward};
use rocfire_tests::case;

use tier::{floats, is_theirs, launches, package, tensor};

/// Cards that there are code objects for, and whether there is one for a causal mask: gfx950's waves race with more than one tile of
/// queries.
const CARDS: [(&str, bool); 2] = [("gfx942", true), ("gfx950", false)];

fn device(card: &str, folder: &Path, is_on: bool) -> Device {
    tier::device(card, folder, Config::from_env().unwrap().with_aiter(is_on))
}

/// A device of a run whose bits may differ.
fn device_of_any_bits(card: &str, folder: &Path) -> Device {
    tier::device(card, folder, Config::from_env().unwrap().with_aiter(true).with_deterministic(false))
}

/// How their kernels of gradients are called.
const GRADIENTS: &str = "fmha_bwd";

/// The sizes of an operator's cases of bf16 that a kernel of a name is launched for; all of them are right.
fn sizes_of(device: &Device, operator: &str, name: &str) -> BTreeSet<String> {
    let mut theirs = BTreeSet::new();
    for case in case::all().iter().filter(|case| case.operator == operator && case.dtype == DType::BF16) {
        let taken = launches(device, name, || {
            if let Err(error) = case.check(device) {
                panic!("{}: {error}", case.name());
            }
        });
        if taken {
            theirs.insert(case.size.clone());
        }
    }
    theirs
}

/// Every case of bf16 is right; theirs are those of heads of 128 from 128 queries on, causal ones if there are as many keys.
#[test]
fn attention_is_right_and_theirs_where_it_applies() {
    let Some(folder) = package("attention_is_right_and_theirs_where_it_applies") else { return };
    for (card, has_causal) in CARDS {
        let theirs = sizes_of(&device(card, &folder, true), "attention", "aiter");
        let expected = [
            "1x2/1x256x256 · 128/128",
            "1x2/2x300x37 · 128/128",
            "1x64/8x150x101 · 128/128 BSHD",
            "1x8/2x290x290 · 128/128 causal",
            "2x3/1x257x259 · 128/128 causal BSHD",
            "2x4/2x173x201 · 128/128 BSHD",
        ];
        let expected = expected.into_iter().filter(|size| has_causal || !size.contains("causal"));
        assert_eq!(theirs, expected.map(str::to_owned).collect(), "{card}");
    }
}

#[test]
fn attention_is_ours_where_theirs_is_switched_off() {
    let Some(folder) = package("attention_is_ours_where_theirs_is_switched_off") else { return };
    let device = device(CARDS[0].0, &folder, false);
    let cases = case::all();
    let case = cases.iter().find(|case| case.size == "1x2/1x256x256 · 128/128").unwrap();
    assert!(!is_theirs(&device, || {
        case.check(&device).unwrap();
    }));
}

/// Every case of gradients in bf16 is right; theirs are those of heads of 128 from 128 queries and keys on, 512 queries where heads share
/// keys, causal ones if there are as many keys.
#[test]
fn gradients_are_right_and_theirs_where_bits_may_differ() {
    let Some(folder) = package("gradients_are_right_and_theirs_where_bits_may_differ") else { return };
    for (card, has_causal) in CARDS {
        let theirs = sizes_of(&device_of_any_bits(card, &folder), "attention_backward", GRADIENTS);
        let expected = [
            "1x2/1x512x520 · 128/128 causal BSHD",
            "1x2/2x130x389 · 128/128",
            "1x4/2x515x140 · 128/128",
            "2x2/2x257x389 · 128/128 causal BSHD",
            "2x3/3x200x161 · 128/128 BSHD",
        ];
        let expected = expected.into_iter().filter(|size| has_causal || !size.contains("causal"));
        assert_eq!(theirs, expected.map(str::to_owned).collect(), "{card}");
    }
}

/// Unless somebody says that bits may differ, gradients are those of our kernels, which give the same bits twice; so where AITER is
/// switched off, and where a file is not the one that is known.
#[test]
fn gradients_are_ours_where_nobody_says_that_bits_may_differ() {
    let Some(folder) = package("gradients_are_ours_where_nobody_says_that_bits_may_differ") else { return };
    let cases = case::all();
    let of_size =
        |case: &&case::Case| case.operator == "attention_backward" && case.size == "2x3/3x200x161 · 128/128 BSHD";
    let case = cases.iter().find(of_size).unwrap();
    let is_theirs = |device: &Device| {
        launches(device, GRADIENTS, || {
            case.check(device).unwrap();
        })
    };
    for (card, _) in CARDS {
        assert!(!is_theirs(&device(card, &folder, true)), "{card}: nothing said of bits");
        let config = || Config::from_env().unwrap();
        assert!(
            !is_theirs(&tier::device(card, &folder, config().with_aiter(true).with_deterministic(true))),
            "{card}: the same bits"
        );
        assert!(
            !is_theirs(&tier::device(card, &folder, config().with_aiter(false).with_deterministic(false))),
            "{card}: off"
        );
        assert!(is_theirs(&device_of_any_bits(card, &folder)), "{card}: this test is of nothing without them");
        let damaged = tempfile::tempdir().unwrap();
        for (path, ..) in &report(&config().with_aiter_dir(folder.clone())).objects {
            let copy = damaged.path().join(path);
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            let mut bytes =
                std::fs::read(report(&config().with_aiter_dir(folder.clone())).folder.unwrap().join(path)).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(copy, bytes).unwrap();
        }
        assert!(!is_theirs(&device_of_any_bits(card, damaged.path())), "{card}: damaged files");
    }
}

/// The result with logarithms of sums is that without; rows behind one another with room between are those without; what is behind the
/// rows is not read, nor written; a NaN spoils its row and no other.
#[test]
fn rows_with_room_between_are_those_without() {
    let Some(folder) = package("rows_with_room_between_are_those_without") else { return };
    let (rows, depth) = (140_usize, 128_usize);
    for (card, has_causal) in CARDS {
        for causal in [false, true].into_iter().filter(|causal| has_causal || !causal) {
            let device = device(card, &folder, true);
            let value = |at: usize| ((at * 37 + 11) % 101) as f32 / 64.0 - 0.75;
            // Each tensor is the first three quarters of rows of another, whose last quarter and last rows are NaN.
            let wide = depth / 3 * 4 + 4;
            let (wide, tall) = (wide.next_multiple_of(8), rows + 3);
            let roomy = |scale: f32| {
                tensor(&device, &[2, tall, wide], |at| {
                    let (row, column) = (at / wide % tall, at % wide);
                    let inside = row < rows && column < depth;
                    if inside {
                        scale * value(at / wide / tall * rows * depth + row * depth + column)
                    } else {
                        f32::NAN
                    }
                })
            };
            let dense = |scale: f32| tensor(&device, &[1, 2, rows, depth], |at| scale * value(at));
            let cut = |tensor: &Tensor| {
                let layout = tensor.layout().slice(1, 0, rows, 1).unwrap().slice(2, 0, depth, 1).unwrap();
                let strides = layout.strides();
                let strides = [0, strides[0], strides[1], strides[2]];
                let layout = rocfire_hal::Layout::strided(&[1, 2, rows, depth], &strides, 0).unwrap();
                tensor.with_layout(layout).unwrap()
            };
            let mut params = AttentionParams::default();
            params.causal = causal;
            let run = |q: &Tensor, k: &Tensor, v: &Tensor, out: &mut Tensor, lse: Option<&mut Tensor>| {
                let inputs = AttentionInputs {
                    q: q.view(),
                    k: k.view(),
                    v: v.view(),
                    mask: None,
                    bias: None,
                    starts: None,
                    slopes: None,
                    sinks: None,
                };
                let lse = lse.map(|lse| lse.view_mut());
                assert!(
                    is_theirs(&device, || attention(device.stream(), &inputs, &params, out.view_mut(), lse).unwrap())
                );
            };
            let (q, k, v) = (dense(1.0), dense(2.0), dense(0.5));
            let mut out = Tensor::empty(&device, &[1, 2, rows, depth], DType::BF16).unwrap();
            let mut lse = Tensor::empty(&device, &[1, 2, rows], DType::F32).unwrap();
            run(&q, &k, &v, &mut out, Some(&mut lse));
            let with_lse = floats(&out);
            let mut out = Tensor::empty(&device, &[1, 2, rows, depth], DType::BF16).unwrap();
            run(&q, &k, &v, &mut out, None);
            assert_eq!(floats(&out), with_lse, "{card}, causal {causal}: without logarithms");
            let untouched = tensor(&device, &[2, tall, wide], |_| 7.0);
            let mut part = cut(&untouched);
            run(&cut(&roomy(1.0)), &cut(&roomy(2.0)), &cut(&roomy(0.5)), &mut part, None);
            let got = floats(&untouched);
            for (at, got) in got.iter().enumerate() {
                let (head, row, column) = (at / wide / tall, at / wide % tall, at % wide);
                let is_inside = row < rows && column < depth;
                let want = if is_inside { with_lse[(head * rows + row) * depth + column] } else { 7.0 };
                assert_eq!(*got, want, "{card}, causal {causal}: head {head}, row {row}, column {column}");
            }
            // One query and no other.
            let spoiled =
                tensor(&device, &[1, 2, rows, depth], |at| if at == 5 * depth { f32::NAN } else { value(at) });
            let mut out = Tensor::empty(&device, &[1, 2, rows, depth], DType::BF16).unwrap();
            run(&spoiled, &k, &v, &mut out, None);
            let got = floats(&out);
            for (row, (got, want)) in got.chunks(depth).zip(with_lse.chunks(depth)).enumerate() {
                let is_right = if row == 5 { got.iter().all(|x| x.is_nan()) } else { got == want };
                assert!(is_right, "{card}, causal {causal}: a NaN in query 5, row {row}");
            }
        }
    }
}

/// Gradients of rows with room between are those of rows without, with heads before rows and rows before heads; what is behind the rows
/// is not read, nor written; a NaN in the gradient of a query's result spoils the query's and no other's.
#[test]
fn gradients_of_rows_with_room_between_are_those_without() {
    let Some(folder) = package("gradients_of_rows_with_room_between_are_those_without") else { return };
    // Keys of one tile, so that no two workgroups add to a gradient.
    for (card, has_causal) in CARDS {
        let device = device_of_any_bits(card, &folder);
        for causal in [false, true].into_iter().filter(|causal| has_causal || !causal) {
            let mut params = AttentionParams::default();
            params.causal = causal;
            let dense = Placed { tall: 0, wide: 0, rows_first: false };
            let want = dense.gradients(&device, &params, None);
            for rows_first in [false, true] {
                let apart = Placed { tall: 3, wide: 24, rows_first };
                let got = apart.gradients(&device, &params, None);
                assert_eq!(got, want, "{card}, causal {causal}, rows first {rows_first}");
            }
            let spoiled = dense.gradients(&device, &params, Some(5));
            for (row, (got, want)) in spoiled[0].chunks(DEPTH).zip(want[0].chunks(DEPTH)).enumerate() {
                let is_right = if row == 5 { got.iter().all(|x| x.is_nan()) } else { got == want };
                assert!(is_right, "{card}, causal {causal}: a NaN behind query 5, row {row}");
            }
        }
    }
}

const HEADS: usize = 2;
const DEPTH: usize = 128;
/// Queries and keys.
const ROWS: [usize; 2] = [140, 150];

/// How tensors lie: the first rows and elements of more, so many more.
struct Placed {
    tall: usize,
    wide: usize,
    rows_first: bool,
}

impl Placed {
    /// The number of the row and the column of an element of the whole, and its head; `None` where it is in no head's rows.
    fn at(&self, rows: usize, at: usize) -> Option<[usize; 3]> {
        let (line, column) = (at / (DEPTH + self.wide), at % (DEPTH + self.wide));
        let tall = rows + self.tall;
        let (head, row) = if self.rows_first { (line % HEADS, line / HEADS) } else { (line / tall, line % tall) };
        (row < rows && column < DEPTH).then_some([head, row, column])
    }

    /// All that there is, of `value` by the element's place in tensors without room, `outside` elsewhere.
    fn whole(&self, device: &Device, rows: usize, outside: f32, value: impl Fn(usize) -> f32) -> Tensor {
        let shape = [HEADS * (rows + self.tall), DEPTH + self.wide];
        tensor(device, &shape, |at| {
            self.at(rows, at).map_or(outside, |[head, row, column]| value((head * rows + row) * DEPTH + column))
        })
    }

    /// Its rows.
    fn cut(&self, whole: &Tensor, rows: usize) -> Tensor {
        let (wide, tall) = (DEPTH + self.wide, rows + self.tall);
        let [head, row] = if self.rows_first { [wide, HEADS * wide] } else { [tall * wide, wide] };
        let layout =
            rocfire_hal::Layout::strided(&[1, HEADS, rows, DEPTH], &[0, head as i64, row as i64, 1], 0).unwrap();
        whole.with_layout(layout).unwrap()
    }

    /// Gradients by their kernels, dense; a NaN in the result's gradient of a query of the first head.
    fn gradients(&self, device: &Device, params: &AttentionParams, spoiled: Option<usize>) -> [Vec<f32>; 3] {
        let value = |at: usize| ((at * 37 + 11) % 101) as f32 / 64.0 - 0.75;
        let [q_rows, k_rows] = ROWS;
        let read =
            |rows: usize, scale: f32| self.cut(&self.whole(device, rows, f32::NAN, |at| scale * value(at)), rows);
        let (q, k, v) = (read(q_rows, 1.0), read(k_rows, 2.0), read(k_rows, 0.5));
        let dout = self.whole(device, q_rows, f32::NAN, |at| {
            if spoiled.is_some_and(|row| at == row * DEPTH) { f32::NAN } else { value(at + 7) }
        });
        let dout = self.cut(&dout, q_rows);
        let (q, k, v) = (q.view(), k.view(), v.view());
        let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
        let mut out = Tensor::empty(device, &[1, HEADS, q_rows, DEPTH], DType::BF16).unwrap();
        let mut lse = Tensor::empty(device, &[1, HEADS, q_rows], DType::F32).unwrap();
        attention(device.stream(), &inputs, params, out.view_mut(), Some(lse.view_mut())).unwrap();
        let saved = AttentionSaved { out: out.view(), lse: lse.view(), dout: dout.view() };
        let wholes = [q_rows, k_rows, k_rows].map(|rows| (rows, self.whole(device, rows, 7.0, |_| 7.0)));
        let mut parts = wholes.each_ref().map(|(rows, whole)| self.cut(whole, *rows));
        let taken = launches(device, GRADIENTS, || {
            let gradients = parts.each_mut().map(Tensor::view_mut);
            attention_backward(device.stream(), &inputs, &saved, params, gradients).unwrap();
        });
        assert!(taken, "this test is of nothing without them");
        wholes.map(|(rows, whole)| {
            let mut dense = vec![0.0; HEADS * rows * DEPTH];
            for (at, found) in floats(&whole).into_iter().enumerate() {
                match self.at(rows, at) {
                    Some([head, row, column]) => dense[(head * rows + row) * DEPTH + column] = found,
                    None => assert_eq!(found, 7.0, "written outside of the rows, element {at}"),
                }
            }
            dense
        })
    }
}
