//! Attention in one kernel against Candle's operators on the CPU.

mod common;

use candle_core::DType::{BF16, F16, F32};
use candle_core::Var;
use common::{agree_within, gpu};
use rocfire_candle::{FlashAttention, flash_attn};

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
fn wrong_shapes_are_errors() {
    let make = |shape: &[usize]| candle_core::Tensor::zeros(shape, F32, &gpu()).unwrap();
    let wrong = flash_attn(&make(&[1, 4, 3, 16]), &make(&[1, 4, 2, 16]), &make(&[1, 4, 2, 16]), 1.0, false);
    assert!(wrong.unwrap_err().to_string().contains("heads"));
}
