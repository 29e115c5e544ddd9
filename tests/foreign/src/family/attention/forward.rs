//! `fwd_hd{128,192_hd128}_bf16[_causal][_rtne,_rtna,_rtz][_group]`.

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
    let rows = rows_of_tile(object);
    Case {
        object: object.clone(),
        family: "attention forward",
        shape: shape.text(),
        tolerance,
        is_checked: true,
        run: Box::new(move |bench| run(bench, &shape, rows, counts_tiles_first)),
    }
}

fn run(bench: &Bench, shape: &Shape, rows: usize, counts_tiles_first: bool) -> Result<f64, Unrun> {
    let Shape { heads, kv_heads, d, dv, .. } = *shape;
    let mut random = Random::new(6);
    let q = Tensor::random(&mut random, Half::Bf16, shape.queries() * heads * d);
    let k = Tensor::random(&mut random, Half::Bf16, shape.keys() * kv_heads * d);
    let v = Tensor::random(&mut random, Half::Bf16, shape.keys() * kv_heads * dv);
    let out = bench.output(BYTES * shape.queries() * heads * dv)?;
    let log_sums = bench.output(4 * shape.queries() * heads)?;
    let starts = [bench.upload(&shape.starts(false))?, bench.upload(&shape.starts(true))?];
    let (queries, keys) = (shape.longest_queries(), shape.longest_keys());
    let (q_row, k_row, v_row, o_row) =
        (BYTES * heads * d, BYTES * kv_heads * d, BYTES * kv_heads * dv, BYTES * heads * dv);
    let causal = shape.mask != Mask::None;
    let option = if causal && heads % 8 != 0 { 3 } else { 5 };
    let row_sums = if shape.is_packed { shape.queries() } else { queries };
    let arguments = Arguments::new(512)
        .pointers(&[(0, out), (16, bench.upload(&q.bits)?), (32, bench.upload(&k.bits)?), (48, bench.upload(&v.bits)?)])
        .pointers(&[(64, log_sums), (432, starts[0]), (448, starts[1]), (480, starts[0]), (496, starts[1])])
        .float(80, shape.scale() as f32)
        .words(&[(96, queries), (112, q_row), (128, rows * q_row), (144, BYTES * d), (160, queries * q_row)])
        .words(&[(176, heads / kv_heads), (192, k_row), (208, BYTES * d), (224, keys * k_row), (240, option), (256, 1)])
        .words(&[(272, keys), (288, d), (304, dv), (320, heads), (336, v_row), (352, BYTES * dv), (368, keys * v_row)])
        .words(&[(384, o_row), (400, BYTES * dv), (416, queries * o_row), (464, 4 * row_sums)]);
    let tiles = queries.div_ceil(rows).div_ceil(if causal { 2 } else { 1 });
    let batch = shape.sequences.len();
    let grid = if counts_tiles_first { [tiles, heads, batch] } else { [heads, batch, tiles] };
    bench.launch(grid, if d == 192 { 256 } else { 512 }, &arguments)?;
    let reference = shape.forward(&q.values, &k.values, &v.values);
    let found = Half::Bf16.values(&bench.download(out, reference.out.len())?);
    let sums: Vec<f64> =
        bench.download::<f32>(log_sums, reference.log_sums.len())?.into_iter().map(f64::from).collect();
    Ok(distance(&found, &reference.out).max(distance(&sums, &reference.log_sums)))
}
