//! `gguf_matmul`: rows by one matrix in blocks of GGUF, by the kernels of groups of rows, of which all are one.

use rocfire_hal::{DType, Error, Stream, View, ViewMut};

use super::gguf::launch;
use super::written::Coded;
use super::{on_rows, rows_of};
use crate::Result;
use crate::family::{self, shape};
use crate::gemm::ToldGroups;
use crate::quant::gguf::GgufMatrices;

const OP: &str = "gguf_matmul";

/// `c = a · w`, the weights read as blocks of GGUF; for few rows nothing of them is written out.
///
/// # Shapes
/// `a`: `[.., M, K]`; `w`: one matrix, `[1, N, bytes of K weights]`; `c`: `[.., M, N]`. Any strides.
/// # Types
/// `a` of f32, f16 or bf16, `c` of the same or f32; every type of GGUF.
/// # Numerics
/// As [`gguf_matmul_grouped`](super::gguf_matmul_grouped) of one group; where weights are written out, from 256 rows on, on NVIDIA's
/// cards from 33 on, the product is [`gemm`](crate::gemm::gemm())'s.
/// # Errors
/// `Shape` for blocks and rows that do not fit; `Unsupported` for another type of `a`.
/// # Source
/// The blocks: ggml's `ggml-common.h`.
pub fn gguf_matmul(stream: &Stream, a: View<'_>, w: &GgufMatrices<'_>, c: ViewMut<'_>) -> Result<()> {
    let [m, k, n] = check(stream, &a, w, &c)?;
    if c.is_empty() {
        return Ok(());
    }
    on_rows(stream, a, c, [m, n, k], |a, c| multiply(stream, a, w, [m, k, n], c))
}

fn multiply(stream: &Stream, a: View<'_>, w: &GgufMatrices<'_>, [m, k, n]: [usize; 3], c: ViewMut<'_>) -> Result<()> {
    let coded = Coded::Blocks(w);
    if coded.is_written_out(stream, a.dtype(), [m, n, k]) {
        return coded.multiply(stream, a, [k, n], c);
    }
    launch(OP, stream, a, w, &|tile| (ToldGroups::whole(m, tile), 0), [1, k, n], (c.view(), None))
}

/// M with all leading axes, K, N.
fn check(stream: &Stream, a: &View<'_>, w: &GgufMatrices<'_>, c: &ViewMut<'_>) -> Result<[usize; 3]> {
    if !matches!(a.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: a.dtype(), arch: a.arch() }.into());
    }
    if c.dtype() != DType::F32 {
        family::same_dtype(OP, "c", c, a.dtype())?;
    }
    for (arg, view) in [("a", a), ("blocks", &w.blocks), ("c", &c.view())] {
        family::on_device(OP, arg, stream, view)?;
    }
    let [count, k, n] = w.check(OP, a, c)?;
    if count != 1 {
        return Err(shape(OP, "blocks", "one matrix", count));
    }
    let m = rows_of(OP, a, c, [n, k])?;
    family::writable(OP, "c", c)?;
    family::disjoint(OP, "a", c, a)?;
    Ok([m, k, n])
}
