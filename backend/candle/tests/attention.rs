//! Attention in one kernel against Candle's operators on the CPU.

mod common;

use candle_core::DType::{BF16, F16, F32};
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
fn wrong_shapes_are_errors() {
    let make = |shape: &[usize]| candle_core::Tensor::zeros(shape, F32, &gpu()).unwrap();
    let wrong = flash_attn(&make(&[1, 4, 3, 16]), &make(&[1, 4, 2, 16]), &make(&[1, 4, 2, 16]), 1.0, false);
    assert!(wrong.unwrap_err().to_string().contains("heads"));
}
