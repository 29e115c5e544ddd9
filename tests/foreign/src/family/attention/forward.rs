//! `fwd_hd{128,192_hd128}_bf16[_causal][_rtne,_rtna,_rtz][_group]`. What they are given is what `attention` of `rocfire-kernels` gives them.

use rocfire_kernels::aiter::{FORWARD_BLOCK, Forward, Lines};

use super::{Mask, Shape, Tensor};
use crate::bench::{Arguments, Bench, Unrun};
use crate::case::{Case, Object};
use crate::number::{Half, Random, distance};

/// Elements of 16 bits.
const BYTES: usize = 2;

/// The cases of a code object.
pub fn cases(object: &Object) -> Vec<Case> {
    if !object.name.starts_with("fmha_v3_fwd/") {
        return Vec::new();
    }
    let is_packed = object.name.contains("_group");
    let rows = rows_of_tile(object);
    let ragged: &[(usize, usize)] = if is_packed { &[(131, 150), (70, 70), (257, 301)] } else { &[(173, 201); 2] };
    vec![of(object, &[(rows, rows)], [2, 1]), of(object, ragged, [4, 2])]
}

/// Rows of queries of a workgroup.
fn rows_of_tile(object: &Object) -> usize {
    if object.name.contains("hd192") { 128 } else { 256 }
}

/// A case of these queries and keys of each sequence, and of these heads of queries and of keys.
pub fn of(object: &Object, sequences: &[(usize, usize)], [heads, kv_heads]: [usize; 2]) -> Case {
    let named = |part: &str| object.name.contains(part);
    let shape = Shape {
        sequences: sequences.to_vec(),
        heads,
        kv_heads,
        d: if named("hd192") { 192 } else { 128 },
        dv: 128,
        mask: if named("causal") { Mask::BottomRight } else { Mask::None },
        is_packed: named("_group"),
        room: 0,
    };
    // Weights and results that are cut to bf16 are each up to 2^-7 too small.
    let tolerance = if object.arch == "gfx950" || named("_rtn") { 1e-2 } else { 1.6e-2 };
    // Those that no launcher names any more: they read no number of heads.
    let counts_tiles_first = !shape.is_packed || object.arch == "gfx942" && !named("_rt");
    Case {
        object: object.clone(),
        family: "attention forward",
        shape: shape.text(),
        tolerance,
        is_checked: true,
        run: Box::new(move |bench| run(bench, &shape, counts_tiles_first)),
    }
}

fn run(bench: &Bench, shape: &Shape, counts_tiles_first: bool) -> Result<f64, Unrun> {
    let Shape { heads, kv_heads, d, dv, .. } = *shape;
    let mut random = Random::new(6);
    let q = Tensor::random(&mut random, Half::Bf16, shape.queries() * heads * d);
    let k = Tensor::random(&mut random, Half::Bf16, shape.keys() * kv_heads * d);
    let v = Tensor::random(&mut random, Half::Bf16, shape.keys() * kv_heads * dv);
    let out = bench.output(BYTES * shape.queries() * heads * dv)?;
    let log_sums = bench.output(4 * shape.queries() * heads)?;
    let starts = [bench.upload(&shape.starts(false))?, bench.upload(&shape.starts(true))?];
    let (queries, keys) = (shape.longest_queries(), shape.longest_keys());
    let causal = shape.mask != Mask::None;
    let row_sums = if shape.is_packed { shape.queries() } else { queries };
    // Packed: row by row, in each all heads.
    let lines = |heads: usize, depth: usize, rows: usize| {
        let [batch, head, row] = [rows * heads * depth, depth, heads * depth].map(|stride| (BYTES * stride) as u32);
        Lines { batch, head, row }
    };
    let forward = Forward {
        out,
        q: bench.upload(&q.bits)?,
        k: bench.upload(&k.bits)?,
        v: bench.upload(&v.bits)?,
        lse: log_sums,
        starts,
        out_lines: lines(heads, dv, queries),
        q_lines: lines(heads, d, queries),
        k_lines: lines(kv_heads, d, keys),
        v_lines: lines(kv_heads, dv, keys),
        lse_head: 4 * row_sums as u32,
        heads: heads as u32,
        group: (heads / kv_heads) as u32,
        rows: [queries as u32, keys as u32],
        depths: [d as u32, dv as u32],
        scale: shape.scale() as f32,
        causal,
    };
    let tiles = forward.tiles() as usize;
    let batch = shape.sequences.len();
    let grid = if counts_tiles_first { [tiles, heads, batch] } else { [heads, batch, tiles] };
    bench.launch(grid, if d == 192 { 256 } else { FORWARD_BLOCK }, &Arguments::of(&forward.args()))?;
    let reference = shape.forward(&q.values, &k.values, &v.values);
    let found = Half::Bf16.values(&bench.download(out, reference.out.len())?);
    let sums: Vec<f64> =
        bench.download::<f32>(log_sums, reference.log_sums.len())?.into_iter().map(f64::from).collect();
    Ok(distance(&found, &reference.out).max(distance(&sums, &reference.log_sums)))
}
