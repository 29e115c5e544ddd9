//! Attention in one kernel against Candle's operators on the CPU.

mod common;

use candle_core::DType::{BF16, F16, F32};
use candle_core::{D, Result, Tensor, Var};
use candle_nn::ops::{softmax, softmax_last_dim};
use common::{ANY_JOINS, Inputs, agree_within, gpu, with_settings};
use rocfire_candle::{FlashAttention, flash_attn, launches};
use rocfire_kernels::attention::is_fast;

#[test]
fn attention_agrees_with_its_composition() {
    for dtype in [F32, F16, BF16] {
        for causal in [false, true] {
            agree_within(&format!("{dtype:?} causal {causal}"), 2.0, |inputs| {
                let q = inputs.make(&[2, 5, 4, 16], dtype)?;
                let (k, v) = (inputs.make(&[2, 9, 2, 16], dtype)?, inputs.make(&[2, 9, 2, 16], dtype)?);
                flash_attn(&q, &k, &v, 0.25, causal)
            });
        }
    }
}

#[test]
fn attention_takes_views_windows_and_soft_caps() {
    let attention =
        FlashAttention { softmax_scale: 0.3, window_left: Some(2), window_right: Some(1), softcap: Some(4.0) };
    agree_within("a window over heads before rows", 2.0, |inputs| {
        let heads_first = |rows| inputs.make(&[1, 3, rows, 24], F32)?.transpose(1, 2)?.narrow(3, 8, 16);
        attention.apply(&heads_first(7)?, &heads_first(6)?, &heads_first(6)?)
    });
    // Queries before every key see nothing.
    agree_within("more queries than keys", 2.0, |inputs| {
        let (q, k) = (inputs.make(&[1, 6, 2, 8], F32)?, inputs.make(&[1, 3, 2, 8], F32)?);
        flash_attn(&q, &k, &k, 1.0, true)
    });
}

#[test]
fn gradients_agree_with_those_of_its_composition() {
    let variants = [(None, None, None), (None, Some(0), None), (Some(3), Some(1), Some(5.0))];
    for dtype in [F32, BF16] {
        for (window_left, window_right, softcap) in variants {
            let attention = FlashAttention { softmax_scale: 0.25, window_left, window_right, softcap };
            for of in 0..3 {
                agree_within(&format!("gradient {of} of {attention:?} in {dtype:?}"), 8.0, |inputs| {
                    // Rows before heads, with fewer heads of keys.
                    let make = |rows, heads| Var::from_tensor(&inputs.make(&[2, rows, heads, 16], dtype)?);
                    let [q, k, v] = [make(5, 4)?, make(9, 2)?, make(9, 2)?];
                    let out = attention.apply(&q, &k, &v)?;
                    let weights = inputs.make(&[2, 5, 4, 16], dtype)?;
                    let gradients = (out * weights)?.to_dtype(F32)?.sum_all()?.backward()?;
                    let wanted = [&q, &k, &v][of];
                    gradients.get(wanted).cloned().ok_or_else(|| candle_core::Error::msg("no gradient"))
                });
            }
        }
    }
}

#[test]
fn sinks_take_their_share() {
    let attention = FlashAttention { softmax_scale: 0.25, window_left: None, window_right: Some(0), softcap: None };
    for dtype in [F32, BF16] {
        // The result, then the gradient of each input.
        for of in 0..4 {
            agree_within(&format!("{of} of attention with sinks in {dtype:?}"), 8.0, |inputs| {
                let make = |rows, heads| Var::from_tensor(&inputs.make(&[2, rows, heads, 16], dtype)?);
                let [q, k, v] = [make(7, 4)?, make(5, 2)?, make(5, 2)?];
                // What nobody has read goes in: sums of what there was.
                let [wide, pushed] = [(q.as_tensor() + q.as_tensor())?, (inputs.make(&[4], F32)? + 1.0)?];
                let out = attention.apply_with_sinks(&wide, &k, &v, &pushed)?;
                if of == 0 {
                    return Ok(out);
                }
                let weights = inputs.make(&[2, 7, 4, 16], dtype)?;
                let gradients = (out * weights)?.to_dtype(F32)?.sum_all()?.backward()?;
                let wanted = [&q, &k, &v][of - 1];
                gradients.get(wanted).cloned().ok_or_else(|| candle_core::Error::msg("no gradient"))
            });
        }
    }
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &gpu()).unwrap();
    let q = zeros(&[1, 2, 4, 16], F16);
    for sinks in [zeros(&[3], F32), zeros(&[4], F16)] {
        let wrong = attention.apply_with_sinks(&q, &q, &q, &sinks).unwrap_err().to_string();
        assert!(wrong.contains("sinks"), "{wrong}");
    }
    let learned = Var::from_tensor(&zeros(&[4], F32)).unwrap();
    let wrong = attention.apply_with_sinks(&q, &q, &q, &learned).unwrap_err().to_string();
    assert!(wrong.contains("sinks has no gradient"), "{wrong}");
}

#[test]
fn wrong_shapes_are_errors() {
    let make = |shape: &[usize]| candle_core::Tensor::zeros(shape, F32, &gpu()).unwrap();
    let wrong = flash_attn(&make(&[1, 4, 3, 16]), &make(&[1, 4, 2, 16]), &make(&[1, 4, 2, 16]), 1.0, false);
    assert!(wrong.unwrap_err().to_string().contains("heads"));
}

/// What comes before the softmax, and how that is asked for.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// What the mask is repeated along: batches, heads, rows.
    mask: Option<[bool; 3]>,
    is_composed: bool,
    /// Whether scores are held within a bound, and whether their softmax is that of f32.
    is_capped: bool,
    is_wide: bool,
    /// Whether somebody keeps the weights.
    is_kept: bool,
}

impl Written {
    /// Attention as models write it: heads moved outwards, scores scaled and masked, their softmax, heads moved back.
    fn attention(self, [q, k, v]: [&Tensor; 3], mask: Option<&Tensor>) -> Result<[Tensor; 2]> {
        let outwards = |x: &Tensor| x.transpose(1, 2)?.contiguous();
        let (q, k, v) = (outwards(q)?, outwards(k)?, outwards(v)?);
        let mut scores = (q.matmul(&k.t()?)? * 0.25)?;
        if self.is_capped {
            scores = ((scores / 2.0)?.tanh()? * 2.0)?;
        }
        if let Some(mask) = mask {
            scores = scores.broadcast_add(mask)?;
        }
        if self.is_wide {
            scores = scores.to_dtype(F32)?;
        }
        let weights = if self.is_composed { softmax(&scores, D::Minus1)? } else { softmax_last_dim(&scores)? };
        let weights = weights.to_dtype(v.dtype())?;
        let out = weights.matmul(&v)?.transpose(1, 2)?.contiguous()?;
        let kept = if self.is_kept { weights } else { out.clone() };
        Ok([out, kept])
    }

    fn inputs(self, inputs: &Inputs, dtype: candle_core::DType) -> Result<(Vec<Tensor>, Option<Tensor>)> {
        let make = |rows| inputs.make(&[2, rows, 3, 16], dtype);
        let mask = self.mask.map(|repeated| {
            let [batches, heads, rows] = [0, 1, 2].map(|axis| if repeated[axis] { 1 } else { [2, 3, 9][axis] });
            inputs.range(&[batches, heads, rows, 40], dtype, -4.0, 0.0)
        });
        Ok((vec![make(9)?, make(40)?, make(40)?], mask.transpose()?))
    }
}

/// How often a chain comes before its kernel is compiled.
const SEEN: usize = 3;

#[test]
fn attention_written_out_agrees() {
    with_settings("attention_written_out_agrees", &ANY_JOINS, || {
        let masks = [None, Some([false, true, true]), Some([true, true, false]), Some([false; 3])];
        for (number, mask) in masks.into_iter().enumerate() {
            for is_kept in [false, true] {
                let (is_composed, is_capped, is_wide) = (number != 2, number >= 2, number == 1);
                let written = Written { mask, is_composed, is_capped, is_wide, is_kept };
                let dtype = [F32, F16][number % 2];
                agree_within(&format!("{written:?} in {dtype:?}"), 4.0, |inputs| {
                    let (x, mask) = written.inputs(inputs, dtype)?;
                    let run = || written.attention([&x[0], &x[1], &x[2]], mask.as_ref());
                    for _ in 0..SEEN {
                        run()?[0].device().synchronize()?;
                    }
                    let [out, kept] = run()?;
                    Tensor::cat(&[out.flatten_all()?, kept.flatten_all()?], 0)
                });
            }
        }
    });
}

#[test]
fn attention_written_out_is_one_launch() {
    with_settings("attention_written_out_is_one_launch", &ANY_JOINS, || {
        let device = gpu();
        let opened = device.as_cuda_device().unwrap().cuda_stream().context().device().clone();
        let masked = Some([false, true, true]);
        for (mask, is_composed, is_capped, is_wide) in [
            (masked, true, false, false),
            (None, false, false, false),
            (masked, false, true, false),
            (None, false, true, true),
            (masked, false, false, true),
        ] {
            let written = Written { mask, is_composed, is_capped, is_wide, is_kept: false };
            let (x, mask) = written.inputs(&Inputs::new(&device, 1), F16).unwrap();
            let count = || {
                let before = launches(&device).unwrap();
                written.attention([&x[0], &x[1], &x[2]], mask.as_ref()).unwrap();
                launches(&device).unwrap() - before
            };
            let is_one = is_fast(&opened, rocfire_hal::DType::F16, [16, 16]);
            // The first time too: bits depend on it.
            for _ in 0..2 {
                assert_eq!(count() == 1, is_one, "{written:?}: {} launches", count());
            }
        }
    });
}

/// What reads the greatest of other rows than its own is no softmax.
#[test]
fn rows_that_are_turned_are_no_softmax() {
    with_settings("rows_that_are_turned_are_no_softmax", &ANY_JOINS, || {
        agree_within("columns' greatest in the rows' place", 4.0, |inputs| {
            let [q, k, v] =
                [inputs.make(&[3, 24, 16], F16)?, inputs.make(&[3, 24, 16], F16)?, inputs.make(&[3, 24, 16], F16)?];
            let scores = (q.matmul(&k.t()?)? * 0.25)?;
            let most = scores.max_keepdim(D::Minus1)?.t()?;
            let exponentials = scores.broadcast_sub(&most)?.exp()?;
            let sum = exponentials.sum_keepdim(D::Minus1)?;
            exponentials.broadcast_div(&sum)?.matmul(&v)
        });
    });
}

#[test]
fn deterministic_runs_join_only_what_keeps_bits() {
    let lines = ["0", "1"].map(|fusion| {
        let settings = [("ROCFIRE_DETERMINISTIC", "1"), ("ROCFIRE_FUSION", fusion)];
        let said = with_settings("deterministic_runs_join_only_what_keeps_bits", &settings, || {
            let mask = Some([false, true, true]);
            let written = Written { mask, is_composed: true, is_capped: false, is_wide: false, is_kept: false };
            let (device, weights) = (gpu(), Inputs::new(&gpu(), 2).make(&[16, 16], F16).unwrap());
            let (x, mask) = written.inputs(&Inputs::new(&device, 1), F16).unwrap();
            let run = || {
                let [out, _] = written.attention([&x[0], &x[1], &x[2]], mask.as_ref()).unwrap();
                // A product with what follows it.
                let out = out.broadcast_matmul(&weights).unwrap().gelu_erf().unwrap();
                common::numbers(&out).iter().map(|number| number.to_bits()).collect::<Vec<_>>()
            };
            let first = run();
            for waiting in [0_usize, 1, 5, 12, 30, 50] {
                let mut other = Tensor::zeros(7, F32, &device).unwrap();
                for _ in 0..waiting {
                    other = (other + 1.0).unwrap();
                }
                assert_eq!(run(), first, "{waiting} launches waited");
            }
            println!("bits: {first:x?}");
        });
        said.lines().find(|line| line.contains("bits: ")).map(str::to_owned)
    });
    assert_eq!(lines[0], lines[1], "joined or not");
}
