//! Operators by AITER's code objects, on emulated cards of the architectures that they are for: right by the oracles of the cases, taken
//! where they apply and nowhere else.
//!
//! AMD's package has to be there: in `ROCFIRE_AITER_DIR`, or where `cargo verify --foreign` has put it. Without it these tests say that
//! they were skipped.

mod tier;

use std::collections::BTreeSet;
use std::path::Path;

use rocfire_hal::{Config, DType, Device, Tensor};
use rocfire_kernels::attention::{AttentionInputs, AttentionParams, attention};
use rocfire_tests::case;

use tier::{floats, is_theirs, package, tensor};

/// Cards that there are code objects for, and whether there is one for a causal mask: gfx950's waves race with more than one tile of
/// queries.
const CARDS: [(&str, bool); 2] = [("gfx942", true), ("gfx950", false)];

fn device(card: &str, folder: &Path, is_on: bool) -> Device {
    tier::device(card, folder, Config::from_env().unwrap().with_aiter(is_on))
}

/// Every case of bf16 is right; theirs are those of heads of 128 from 128 queries on, causal ones if there are as many keys.
#[test]
fn attention_is_right_and_theirs_where_it_applies() {
    let Some(folder) = package("attention_is_right_and_theirs_where_it_applies") else { return };
    for (card, has_causal) in CARDS {
        let device = device(card, &folder, true);
        let mut theirs = BTreeSet::new();
        for case in case::all().iter().filter(|case| case.operator == "attention" && case.dtype == DType::BF16) {
            let taken = is_theirs(&device, || {
                if let Err(error) = case.check(&device) {
                    panic!("{} on {card}: {error}", case.name());
                }
            });
            if taken {
                theirs.insert(case.size.clone());
            }
        }
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
