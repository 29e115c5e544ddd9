#![doc = include_str!("../README.md")]
//!
//! # What is in it
//!
//! Every kernel source of rocfire, hand-written or made by `fusion`, is compiled behind this one header: `hal`'s compiler
//! puts [`TEXT`] in front of the source and [`hash`] into the cache key. It is plain C++14 in namespace `rf`, includes
//! nothing, and compiles under clang without ROCm, hiprtc and NVRTC. What it knows of a GPU comes from the `ARCH_*`
//! macros that `rocfire-arch` makes; the compiler must be told not to contract floating-point expressions.
//!
//! | header | what |
//! | --- | --- |
//! | `arch.h` | macros checked; thread and workgroup numbers, barriers |
//! | `types.h` | `f16`, `bf16`, `bool8` as bits; `cast<To>(x)` as Rust's `as` |
//! | `math.h`, `math_f64.h`, `math_f32.h` | own elementary and transcendental functions |
//! | `vec.h` | 16-byte access; buffer resources, whose end is checked by the hardware |
//! | `wave.h` | shuffles, wave and workgroup reductions |
//! | `mma.h` | tile products on the matrix unit |
//! | `mma_group.h` | those of four waves, on NVIDIA's Hopper |
//! | `chain.h` | two products in a row, the first one's sum an operand of the second |
//! | `rng.h` | Philox4x32-10, uniform and normal values |
//! | `index.h` | division by launch-time constants, coordinates, telling of indices outside their axis |
//! | `update.h` | what scattering does to an element |
//! | `quant.h` | numbers of eight bits and fewer, their scales, the walk over packed codes |
//!
//! [`hip`] is HIP's own headers over it, for kernels and programs that users write.
//!
//! It does not compile anything, and knows neither devices nor operators.

#![forbid(unsafe_code)]

pub mod hip;

use std::sync::OnceLock;

/// All headers, in an order in which each finds what it needs.
pub const TEXT: &str = concat!(
    include_str!("../include/arch.h"),
    include_str!("../include/types.h"),
    include_str!("../include/math.h"),
    include_str!("../include/math_f64.h"),
    include_str!("../include/math_f32.h"),
    include_str!("../include/vec.h"),
    include_str!("../include/wave.h"),
    include_str!("../include/mma.h"),
    include_str!("../include/mma_group.h"),
    include_str!("../include/chain.h"),
    include_str!("../include/rng.h"),
    include_str!("../include/index.h"),
    include_str!("../include/update.h"),
    include_str!("../include/quant.h"),
);

/// BLAKE3 of [`TEXT`], for keys of compiled code.
pub fn hash() -> [u8; 32] {
    static HASH: OnceLock<[u8; 32]> = OnceLock::new();
    *HASH.get_or_init(|| *blake3::hash(TEXT.as_bytes()).as_bytes())
}
