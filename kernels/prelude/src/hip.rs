//! HIP's own headers, for programs and kernels that are written against them.
//!
//! `backend/amdhip64` installs them for whole programs; `hal` gives them to kernels that users bring as text. There the
//! compiler has no C library either, so [`for_clang`] and [`for_nvrtc`] hold the few headers of one that device code includes.
//!
//! | header | what |
//! | --- | --- |
//! | `hip/hip_runtime.h` | everything below `hip/rocfire/`, and the host's calls where there is a host |
//! | `hip/hip_fp16.h`, `hip_bf16.h`, `hip_bfloat16.h`, `hip_fp8.h` | numbers of 16 and 8 bits |
//! | `hip/hip_cooperative_groups.h` | groups of threads, tiles of waves, the grid |
//! | `hip/rocfire/` | the parts; `clang.h` says how they stand to clang's own headers, `nvrtc.h` to CUDA's |

use std::sync::OnceLock;

/// A header: the name that sources include it by, and its text.
pub type Header = (&'static str, &'static str);

macro_rules! headers {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../hip/", $name)))),*] };
}

/// Those that are installed for whole programs, beside the host's part.
pub const INSTALLED: &[Header] = headers![
    "hip/hip_runtime.h",
    "hip/hip_version.h",
    "hip/hip_fp16.h",
    "hip/hip_bf16.h",
    "hip/hip_bfloat16.h",
    "hip/hip_fp8.h",
    "hip/hip_complex.h",
    "hip/hip_cooperative_groups.h",
    "hip/rocfire/assert.h",
    "hip/rocfire/atomics.h",
    "hip/rocfire/bits.h",
    "hip/rocfire/clang.h",
    "hip/rocfire/halves.h",
    "hip/rocfire/heap.h",
    "hip/rocfire/integers.h",
    "hip/rocfire/lanes.h",
    "hip/rocfire/math.h",
    "hip/rocfire/nvrtc.h",
    "hip/rocfire/parts.h",
    "hip/rocfire/places.h",
    "hip/rocfire/print.h",
    "hip/rocfire/special.h",
    "hip/rocfire/vectors.h",
];

/// The part of the prelude that [`INSTALLED`] stands on, under the names that it is included by.
pub const PRELUDE: &[Header] = &[
    ("hip/rocfire/prelude/arch.h", include_str!("../include/arch.h")),
    ("hip/rocfire/prelude/types.h", include_str!("../include/types.h")),
    ("hip/rocfire/prelude/math.h", include_str!("../include/math.h")),
    ("hip/rocfire/prelude/math_f64.h", include_str!("../include/math_f64.h")),
    ("hip/rocfire/prelude/math_f32.h", include_str!("../include/math_f32.h")),
];

const WITH_INTEGERS: &str = "#include <hip/rocfire/integers.h>\n";
const WITH_LIMITS: &str = include_str!("../hip/standard/limits.h");
const WITH_MATH: &str = include_str!("../hip/standard/math.h");
const WITH_ASSERT: &str = "#include <hip/rocfire/assert.h>\n";
const WITH_RUNTIME: &str = "#include <hip/hip_runtime.h>\n";
const NOTHING: &str = "";

/// HIP's other names for [`INSTALLED`], where device code is compiled alone.
const ALIASES: &[Header] = &[
    ("hip/hip_runtime_api.h", WITH_RUNTIME),
    ("hip/hip_vector_types.h", WITH_RUNTIME),
    ("hip/hip_math_constants.h", WITH_MATH),
    ("hip/math_functions.h", WITH_RUNTIME),
    ("hip/device_functions.h", WITH_RUNTIME),
    ("hip/hip_common.h", WITH_RUNTIME),
    ("hip/hiprtc.h", WITH_RUNTIME),
    ("hip/hip_cooperative_groups_helper.h", "#include <hip/hip_cooperative_groups.h>\n"),
];

/// C's and C++'s headers, where there is no library of theirs.
const STANDARD: &[Header] = &[
    ("stdint.h", WITH_INTEGERS),
    ("cstdint", WITH_INTEGERS),
    ("stddef.h", WITH_INTEGERS),
    ("cstddef", WITH_INTEGERS),
    ("stdbool.h", NOTHING),
    ("limits.h", WITH_LIMITS),
    ("climits", WITH_LIMITS),
    ("float.h", WITH_LIMITS),
    ("cfloat", WITH_LIMITS),
    ("math.h", WITH_MATH),
    ("cmath", WITH_MATH),
    ("assert.h", WITH_ASSERT),
    ("cassert", WITH_ASSERT),
    ("stdio.h", NOTHING),
    ("cstdio", NOTHING),
    ("stdlib.h", NOTHING),
    ("cstdlib", NOTHING),
    ("string.h", NOTHING),
    ("cstring", NOTHING),
];

/// CUDA's names for what HIP has under its own, for kernels that came from there.
const CUDA: &[Header] = &[
    ("cuda_runtime.h", WITH_RUNTIME),
    ("cuda.h", WITH_RUNTIME),
    ("cuda_fp16.h", "#include <hip/hip_fp16.h>\n"),
    (
        "cuda_bf16.h",
        "#include <hip/hip_bf16.h>\ntypedef __hip_bfloat16 __nv_bfloat16;\ntypedef __hip_bfloat162 __nv_bfloat162;\n",
    ),
    ("cooperative_groups.h", "#include <hip/hip_cooperative_groups.h>\n"),
];

/// Everything that clang gets for device code alone.
pub fn for_clang() -> impl Iterator<Item = Header> {
    [INSTALLED, PRELUDE, ALIASES, STANDARD, CUDA].into_iter().flatten().copied()
}

/// Everything that NVRTC gets: CUDA's headers are its own, where they are installed.
pub fn for_nvrtc() -> impl Iterator<Item = Header> {
    let own = |&(name, _): &Header| name != "assert.h" && name != "cassert";
    let asserting = [("assert.h", NOTHING), ("cassert", NOTHING)];
    [INSTALLED, ALIASES, STANDARD].into_iter().flatten().copied().filter(own).chain(asserting)
}

/// What ROCm's hiprtc gets: it has HIP and the types of `<stdint.h>` built in, and is shown only that the headers exist.
/// `hip_fp16.h` and its like are ROCm's own, from the folder of its headers.
pub fn for_hiprtc() -> impl Iterator<Item = Header> {
    let limits = |name: &str| matches!(name, "limits.h" | "climits" | "float.h" | "cfloat");
    let built_in = move |&(name, text): &Header| (name, if limits(name) { text } else { NOTHING });
    std::iter::once(("hip/hip_runtime.h", NOTHING)).chain(STANDARD.iter().map(built_in))
}

/// BLAKE3 of all of them, for keys of compiled code.
pub fn hash() -> [u8; 32] {
    static HASH: OnceLock<[u8; 32]> = OnceLock::new();
    *HASH.get_or_init(|| {
        let mut hasher = blake3::Hasher::new();
        for (name, text) in for_clang() {
            for part in [name, text] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
        }
        *hasher.finalize().as_bytes()
    })
}
