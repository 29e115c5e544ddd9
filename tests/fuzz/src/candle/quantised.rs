//! Products with weights of GGUF's types.
//!
//! Candle's CPU device decodes the weights and multiplies; both devices multiply by the codes of activations, each in its own way.

use candle_core::quantized::GgmlDType;

use super::operators;

operators! { p, device;
    q4_0(a: Float, b: Float) -> (Float) Rule::Quantised(32), Codes => quantised(a, b, GgmlDType::Q4_0);
    q4_1(a: Float, b: Float) -> (Float) Rule::Quantised(32), Codes => quantised(a, b, GgmlDType::Q4_1);
    q5_0(a: Float, b: Float) -> (Float) Rule::Quantised(32), Codes => quantised(a, b, GgmlDType::Q5_0);
    q5_1(a: Float, b: Float) -> (Float) Rule::Quantised(32), Codes => quantised(a, b, GgmlDType::Q5_1);
    q8_0(a: Float, b: Float) -> (Float) Rule::Quantised(32), Codes => quantised(a, b, GgmlDType::Q8_0);
    q2k(a: Float, b: Float) -> (Float) Rule::Quantised(256), Codes => quantised(a, b, GgmlDType::Q2K);
    q3k(a: Float, b: Float) -> (Float) Rule::Quantised(256), Codes => quantised(a, b, GgmlDType::Q3K);
    q4k(a: Float, b: Float) -> (Float) Rule::Quantised(256), Codes => quantised(a, b, GgmlDType::Q4K);
    q5k(a: Float, b: Float) -> (Float) Rule::Quantised(256), Codes => quantised(a, b, GgmlDType::Q5K);
    q6k(a: Float, b: Float) -> (Float) Rule::Quantised(256), Codes => quantised(a, b, GgmlDType::Q6K);
}
