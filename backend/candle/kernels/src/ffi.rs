//! The launchers that Candle calls as C functions: quantised products and mixtures of experts.
//!
//! They return nothing, so what fails is kept for the next call on the device that can return an error.

#![allow(non_snake_case)] // Candle's names.

use core::ffi::c_void;

use cudarc::driver::DriverError;
use cudarc::rocfire::Call;

/// Keeps that a launcher is not there, for the next call on its stream.
fn refuse(name: &str, stream: *mut c_void) {
    if let Some(call) = Call::on(stream.cast()) {
        call.record::<()>(Err(DriverError::new(format!("candle-kernels has no launcher `{name}`"))));
    }
}

macro_rules! refused {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            #[doc = concat!("Candle's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// - `stream` is the number of a live stream.
            #[allow(clippy::too_many_arguments)] // Candle's signature.
            pub unsafe extern "C" fn $name($($argument: $kind,)* stream: *mut c_void) {
                $(let _ = $argument;)*
                refuse(stringify!($name), stream);
            }
        )*
    };
}

macro_rules! mmvq {
    ($($name:ident)*) => {
        refused! {
            $($name(vx: *const c_void, vy: *const c_void, dst: *mut c_void, ncols_x: i32, nrows_x: i32,
                stride_col_y: i32, stride_col_dst: i32, b_size: i32);)*
        }
    };
}

mmvq! {
    launch_mmvq_gguf_q4_0_bf16_plain launch_mmvq_gguf_q4_1_bf16_plain launch_mmvq_gguf_q5_0_bf16_plain
    launch_mmvq_gguf_q5_1_bf16_plain launch_mmvq_gguf_q8_0_bf16_plain launch_mmvq_gguf_q2_k_bf16_plain
    launch_mmvq_gguf_q3_k_bf16_plain launch_mmvq_gguf_q4_k_bf16_plain launch_mmvq_gguf_q5_k_bf16_plain
    launch_mmvq_gguf_q6_k_bf16_plain
    launch_mmvq_gguf_q4_0_f16_plain launch_mmvq_gguf_q4_1_f16_plain launch_mmvq_gguf_q5_0_f16_plain
    launch_mmvq_gguf_q5_1_f16_plain launch_mmvq_gguf_q8_0_f16_plain launch_mmvq_gguf_q2_k_f16_plain
    launch_mmvq_gguf_q3_k_f16_plain launch_mmvq_gguf_q4_k_f16_plain launch_mmvq_gguf_q5_k_f16_plain
    launch_mmvq_gguf_q6_k_f16_plain
    launch_mmvq_gguf_q4_0_f32_plain launch_mmvq_gguf_q4_1_f32_plain launch_mmvq_gguf_q5_0_f32_plain
    launch_mmvq_gguf_q5_1_f32_plain launch_mmvq_gguf_q8_0_f32_plain launch_mmvq_gguf_q2_k_f32_plain
    launch_mmvq_gguf_q3_k_f32_plain launch_mmvq_gguf_q4_k_f32_plain launch_mmvq_gguf_q5_k_f32_plain
    launch_mmvq_gguf_q6_k_f32_plain
}

refused! {
    launch_mmvq_gguf_quantize_q8_1_bf16(x: *const c_void, vy: *mut c_void, kx: i32, kx_padded: i32, num_rows: i32);
    launch_mmvq_gguf_quantize_q8_1_f16(x: *const c_void, vy: *mut c_void, kx: i32, kx_padded: i32, num_rows: i32);
    launch_mmvq_gguf_quantize_q8_1_f32(x: *const c_void, vy: *mut c_void, kx: i32, kx_padded: i32, num_rows: i32);
}

macro_rules! mmq {
    ($($quantize:ident)*; $($product:ident)*) => {
        refused! {
            $($quantize(x: *const c_void, ids: *const i32, vy: *mut c_void, type_x: i32, ne00: i64, s01: i64, s02: i64,
                s03: i64, ne0: i64, ne1: i64, ne2: i64, ne3: i64);)*
            $($product(tmp_fixup: *mut c_void, x: *const c_void, y: *const c_void, dst: *mut c_void, ncols_x: i64,
                nrows_x: i64, ncols_y: i64, stride_row_x: i64, stride_col_dst: i64, cc: i32, nsm: i32, smpbo: i64,
                warp_size: i32);)*
        }
    };
}

mmq! {
    launch_mmq_quantize_q8_1_D4 launch_mmq_quantize_q8_1_DS4 launch_mmq_quantize_q8_1_D2S6;
    launch_mmq_gguf_q4_0 launch_mmq_gguf_q4_1 launch_mmq_gguf_q5_0 launch_mmq_gguf_q5_1 launch_mmq_gguf_q8_0
    launch_mmq_gguf_q2_k launch_mmq_gguf_q3_k launch_mmq_gguf_q4_k launch_mmq_gguf_q5_k launch_mmq_gguf_q6_k
}

macro_rules! moe {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            #[doc = concat!("Candle's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// - `stream` is the number of a live stream.
            #[allow(clippy::too_many_arguments)] // Candle's signature.
            pub unsafe extern "C" fn $name($($argument: $kind,)* stream: i64) {
                $(let _ = $argument;)*
                refuse(stringify!($name), stream as *mut c_void);
            }
        )*
    };
}

moe! {
    moe_gemm_wmma(input: *const c_void, weights: *const c_void, sorted_token_ids: *const i32, expert_ids: *const i32,
        topk_weights: *const f32, output: *mut c_void, expert_counts: *mut i32, expert_offsets: *mut i32,
        num_experts: i32, topk: i32, size_m: i32, size_n: i32, size_k: i32, dtype: i32, is_prefill: bool);
    moe_gemm_gguf(input: *const f32, weights: *const c_void, sorted_token_ids: *const i32, expert_ids: *const i32,
        topk_weights: *const f32, output: *mut c_void, num_experts: i32, topk: i32, size_m: i32, size_n: i32,
        size_k: i32, gguf_dtype: i32);
    moe_gemm_gguf_prefill(input: *const c_void, weights: *const u8, sorted_token_ids: *const i32,
        expert_ids: *const i32, topk_weights: *const f32, output: *mut c_void, num_experts: i32, topk: i32,
        size_m: i32, size_n: i32, size_k: i32, input_dtype: i32, gguf_dtype: i32);
}

/// Candle's `candle_launch_moe_align`: 1, which Candle reports, as the launcher is not there.
///
/// # Safety
/// - `stream` is the number of a live stream.
#[cfg(feature = "cutile")]
#[allow(clippy::too_many_arguments)] // Candle's signature.
pub unsafe extern "C" fn candle_launch_moe_align(
    _topk_ids: *const i32,
    _sorted_token_ids: *mut i32,
    _expert_ids: *mut i32,
    _num_tokens_post_pad: *mut i32,
    _cumsum: *mut i32,
    _num_experts: i32,
    _block_size: i32,
    _numel: i32,
    _max_num_tokens_padded: i32,
    stream: *mut c_void,
) -> i32 {
    refuse("candle_launch_moe_align", stream);
    1
}
