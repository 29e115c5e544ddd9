//! Attention: sizes around every tile, head sizes, shared heads, everything that hides a key, sequences of different lengths.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::attention::{
    AttentionInputs, AttentionParams, AttentionSaved, Starts, attention as launch_attention,
    attention_backward as launch_backward, attention_backward_sinks as launch_backward_sinks,
};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::{dot, sum};

/// What a case asks for.
#[derive(Clone, Copy, Debug)]
struct Spec {
    batches: usize,
    heads: usize,
    kv_heads: usize,
    q_rows: usize,
    k_rows: usize,
    depth: usize,
    value_depth: usize,
    causal: bool,
    left: Option<usize>,
    right: Option<usize>,
    softcap: Option<f64>,
    /// Shapes that broadcast to the scores.
    mask: Option<[usize; 4]>,
    bias: Option<[usize; 4]>,
    /// What is added to masked scores, where they are not hidden.
    masked: Option<f64>,
    /// Whether scores lose a slope of their head for every key of distance.
    slopes: bool,
    /// Whether every head has a score of no key.
    sinks: bool,
    /// The first head's sink, where it is not like the others: so far above all scores that nothing is left of these.
    high_sink: Option<f64>,
    /// A query from which the mask hides every key.
    blind: Option<usize>,
    /// Whether scores rise by the bias from key to key, so far that what was summed up has to be scaled down again and again.
    rising: bool,
    /// Rows before heads in memory.
    rows_first: bool,
}

const PLAIN: Spec = Spec {
    batches: 1,
    heads: 1,
    kv_heads: 1,
    q_rows: 1,
    k_rows: 1,
    depth: 64,
    value_depth: 64,
    causal: false,
    left: None,
    right: None,
    softcap: None,
    mask: None,
    bias: None,
    masked: None,
    slopes: false,
    sinks: false,
    high_sink: None,
    blind: None,
    rising: false,
    rows_first: false,
};

/// One, around a tile, more queries than keys, a single query of many keys, none.
const SIZES: [Spec; 28] = [
    Spec { depth: 32, value_depth: 32, ..PLAIN },
    Spec { batches: 2, heads: 4, kv_heads: 2, q_rows: 33, k_rows: 65, causal: true, ..PLAIN },
    Spec { q_rows: 65, k_rows: 31, causal: true, ..PLAIN },
    Spec { heads: 4, k_rows: 601, ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 3, k_rows: 517, causal: true, left: Some(300), ..PLAIN },
    Spec {
        q_rows: 40,
        k_rows: 129,
        depth: 128,
        value_depth: 128,
        left: Some(17),
        right: Some(3),
        rows_first: true,
        ..PLAIN
    },
    Spec { heads: 2, q_rows: 31, k_rows: 70, depth: 40, value_depth: 40, mask: Some([1, 1, 31, 70]), ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 17, k_rows: 37, bias: Some([1, 2, 1, 37]), softcap: Some(1.5), ..PLAIN },
    Spec { q_rows: 17, k_rows: 37, depth: 256, value_depth: 256, ..PLAIN },
    Spec { q_rows: 20, k_rows: 45, depth: 192, value_depth: 128, causal: true, ..PLAIN },
    Spec { q_rows: 9, k_rows: 33, depth: 72, value_depth: 104, rows_first: true, ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 0, k_rows: 5, ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 5, k_rows: 0, ..PLAIN },
    Spec { batches: 2, q_rows: 130, k_rows: 130, depth: 32, value_depth: 32, causal: true, ..PLAIN },
    Spec { heads: 2, kv_heads: 1, q_rows: 17, k_rows: 37, causal: true, slopes: true, ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 33, k_rows: 20, causal: true, sinks: true, ..PLAIN },
    Spec { heads: 2, k_rows: 601, sinks: true, slopes: true, ..PLAIN },
    Spec { heads: 2, kv_heads: 1, q_rows: 5, k_rows: 0, sinks: true, ..PLAIN },
    Spec {
        batches: 2,
        heads: 2,
        q_rows: 17,
        k_rows: 70,
        mask: Some([2, 1, 1, 70]),
        masked: Some(-1.5),
        bias: Some([1, 2, 17, 1]),
        ..PLAIN
    },
    // All keys of a query are masked, or none: none is hidden.
    Spec { batches: 2, q_rows: 5, k_rows: 33, mask: Some([2, 1, 5, 1]), masked: Some(-1.0e30), ..PLAIN },
    // A sink far above all scores: in one piece, and of keys that are split.
    Spec { heads: 2, kv_heads: 2, q_rows: 33, k_rows: 20, sinks: true, high_sink: Some(95.0), ..PLAIN },
    Spec { heads: 2, k_rows: 601, sinks: true, high_sink: Some(95.0), ..PLAIN },
    // A query that sees nothing among others that do, with its LSE: in one piece, split, and with a sink.
    Spec { heads: 2, q_rows: 17, k_rows: 70, mask: Some([1, 1, 17, 70]), blind: Some(3), ..PLAIN },
    Spec { heads: 2, q_rows: 2, k_rows: 601, mask: Some([1, 1, 2, 601]), blind: Some(1), ..PLAIN },
    Spec { q_rows: 2, k_rows: 601, mask: Some([1, 1, 2, 601]), blind: Some(0), sinks: true, ..PLAIN },
    Spec { q_rows: 17, k_rows: 130, bias: Some([1, 1, 1, 130]), rising: true, ..PLAIN },
    Spec { heads: 2, k_rows: 601, bias: Some([1, 2, 1, 601]), rising: true, ..PLAIN },
    // Windows that end at the first key of a tile, and begin at the last of one.
    Spec { q_rows: 130, k_rows: 130, left: Some(1), right: Some(1), ..PLAIN },
];

/// For the kernel of multiply-add, whose rounds are of 32 queries by 128 keys.
const MULTIPLIED: [Spec; 5] = [
    PLAIN,
    Spec { batches: 2, heads: 4, kv_heads: 2, q_rows: 33, k_rows: 129, ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 31, k_rows: 260, depth: 32, value_depth: 32, rows_first: true, ..PLAIN },
    Spec {
        batches: 2,
        heads: 2,
        kv_heads: 2,
        q_rows: 40,
        k_rows: 128,
        bias: Some([2, 1, 1, 128]),
        rows_first: true,
        ..PLAIN
    },
    Spec { heads: 2, kv_heads: 1, q_rows: 17, k_rows: 37, bias: Some([1, 2, 17, 37]), ..PLAIN },
];

/// bf16 by heads of 128 from half a tile of AITER's kernels on: whole tiles, rows behind them, heads that share keys, both orders of a
/// causal mask's tiles, and more queries than keys, of which causal ones are not theirs.
const HEADS_OF_128: [Spec; 6] = [
    Spec { heads: 2, kv_heads: 1, q_rows: 256, k_rows: 256, ..WIDE },
    Spec { batches: 2, heads: 4, kv_heads: 2, q_rows: 173, k_rows: 201, rows_first: true, ..WIDE },
    Spec { heads: 2, kv_heads: 2, q_rows: 300, k_rows: 37, ..WIDE },
    Spec { batches: 2, heads: 3, kv_heads: 1, q_rows: 257, k_rows: 259, causal: true, rows_first: true, ..WIDE },
    Spec { heads: 8, kv_heads: 2, q_rows: 290, k_rows: 290, causal: true, ..WIDE },
    Spec { q_rows: 133, k_rows: 70, causal: true, ..WIDE },
];
const WIDE: Spec = Spec { depth: 128, value_depth: 128, ..PLAIN };

/// The same for gradients.
const GRADIENT_SIZES: [Spec; 21] = [
    Spec { ..PLAIN },
    Spec { batches: 2, heads: 4, kv_heads: 2, q_rows: 33, k_rows: 65, causal: true, ..PLAIN },
    Spec { q_rows: 65, k_rows: 31, causal: true, ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 17, k_rows: 37, bias: Some([1, 2, 1, 37]), softcap: Some(1.5), ..PLAIN },
    Spec { q_rows: 17, k_rows: 37, mask: Some([1, 1, 17, 37]), ..PLAIN },
    Spec { heads: 2, q_rows: 70, k_rows: 40, left: Some(17), right: Some(3), rows_first: true, ..PLAIN },
    Spec { heads: 3, q_rows: 40, k_rows: 33, causal: true, ..PLAIN },
    Spec { q_rows: 9, k_rows: 0, ..PLAIN },
    Spec { q_rows: 17, k_rows: 20, depth: 256, value_depth: 256, ..PLAIN },
    Spec { q_rows: 20, k_rows: 45, depth: 192, value_depth: 128, causal: true, ..PLAIN },
    Spec { q_rows: 35, k_rows: 35, depth: 128, value_depth: 128, causal: true, ..PLAIN },
    Spec { q_rows: 0, k_rows: 9, ..PLAIN },
    Spec { heads: 2, kv_heads: 1, q_rows: 17, k_rows: 37, slopes: true, ..PLAIN },
    Spec { batches: 2, heads: 2, kv_heads: 1, q_rows: 33, k_rows: 20, causal: true, sinks: true, ..PLAIN },
    Spec { heads: 2, kv_heads: 2, q_rows: 17, k_rows: 37, sinks: true, slopes: true, ..PLAIN },
    Spec { batches: 2, q_rows: 17, k_rows: 37, mask: Some([2, 1, 1, 37]), masked: Some(-1.5), ..PLAIN },
    // The last query that sees a tile of keys is the first of its own tile, and the last key that one of queries sees is.
    Spec { q_rows: 130, k_rows: 130, left: Some(1), right: Some(0), ..PLAIN },
    Spec { q_rows: 130, k_rows: 130, left: Some(0), right: Some(1), ..PLAIN },
    // The same of types whose tiles are of other sizes, and where there are fewer keys than queries.
    Spec { q_rows: 129, k_rows: 97, left: Some(33), right: Some(0), ..PLAIN },
    Spec { q_rows: 65, k_rows: 65, ..PLAIN },
    Spec { q_rows: 17, k_rows: 37, mask: Some([1, 1, 17, 37]), blind: Some(3), ..PLAIN },
];

/// Gradients of wide heads whose keys and values share a workgroup: more keys than one has, waves that see none of a tile, all of
/// it and a part, queries behind whole tiles, heads that share keys, and heads that are narrower than their tiles.
const WIDE_GRADIENTS: [(DType, Spec); 6] = [
    (DType::BF16, Spec { heads: 2, kv_heads: 1, q_rows: 70, k_rows: 290, causal: true, rows_first: true, ..WIDE }),
    (DType::F16, Spec { q_rows: 97, k_rows: 257, ..WIDE }),
    (DType::BF16, Spec { batches: 2, q_rows: 300, k_rows: 261, left: Some(100), right: Some(20), ..WIDE }),
    (DType::BF16, Spec { q_rows: 65, k_rows: 131, depth: 120, value_depth: 104, causal: true, ..WIDE }),
    (DType::F16, Spec { heads: 2, kv_heads: 1, q_rows: 33, k_rows: 140, depth: 96, value_depth: 96, ..WIDE }),
    (DType::BF16, Spec { q_rows: 45, k_rows: 150, softcap: Some(1.5), slopes: true, ..WIDE }),
];

/// As many Q tiles of twice the rows as they are taken for, on AMD's matrix unit: keys that end in either block of a KV tile, queries in
/// either half of a Q tile, waves that see none of a tile or have no queries, windows, heads that are narrower than their tiles.
const MANY_QUERIES: [(DType, Spec); 4] = [
    (DType::BF16, Spec { heads: 64, kv_heads: 8, q_rows: 150, k_rows: 101, rows_first: true, ..WIDE }),
    (DType::F16, Spec { heads: 32, kv_heads: 4, q_rows: 270, k_rows: 80, causal: true, sinks: true, ..WIDE }),
    (DType::BF16, Spec { heads: 64, q_rows: 140, k_rows: 203, left: Some(50), right: Some(20), ..WIDE }),
    (
        DType::F16,
        Spec { batches: 2, heads: 32, q_rows: 129, k_rows: 160, depth: 120, value_depth: 104, causal: true, ..WIDE },
    ),
];

/// Gradients in bf16 by heads of 128 from half a tile of AITER's kernels on: more keys than a tile, and so many that a causal mask pairs
/// tiles, queries and keys behind tiles, heads that share keys, both orders in memory; then what is not theirs: causal ones of more queries
/// than keys, and few queries of heads that share keys.
const GRADIENTS_OF_128: [Spec; 7] = [
    Spec { heads: 2, kv_heads: 2, q_rows: 130, k_rows: 389, ..WIDE },
    Spec { batches: 2, heads: 3, kv_heads: 3, q_rows: 200, k_rows: 161, rows_first: true, ..WIDE },
    Spec { batches: 2, heads: 2, kv_heads: 2, q_rows: 257, k_rows: 389, causal: true, rows_first: true, ..WIDE },
    Spec { heads: 4, kv_heads: 2, q_rows: 515, k_rows: 140, ..WIDE },
    Spec { heads: 2, kv_heads: 1, q_rows: 512, k_rows: 520, causal: true, rows_first: true, ..WIDE },
    Spec { q_rows: 150, k_rows: 140, causal: true, ..WIDE },
    Spec { heads: 2, kv_heads: 1, q_rows: 140, k_rows: 150, ..WIDE },
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, spec) in SIZES.into_iter().enumerate() {
        // Kernels are made for a head size: most sizes share one, and come in two types.
        let types = if spec.depth == PLAIN.depth { 2 } else { 1 };
        for shift in 0..types {
            cases.push(forward(FLOATS[(turn + 2 * shift + turn / 4) % 4], spec));
        }
    }
    for dtype in [DType::F16, DType::F32] {
        cases.push(varied(dtype));
    }
    cases.extend(HEADS_OF_128.map(|spec| forward(DType::BF16, spec)));
    cases.extend(MULTIPLIED.map(multiplied));
    for (turn, spec) in GRADIENT_SIZES.into_iter().enumerate() {
        cases.push(backward(FLOATS[turn % 4], spec));
    }
    cases.extend(WIDE_GRADIENTS.map(|(dtype, spec)| backward(dtype, spec)));
    cases.extend(MANY_QUERIES.map(|(dtype, spec)| forward(dtype, spec)));
    cases.extend(GRADIENTS_OF_128.map(|spec| backward(DType::BF16, spec)));
    cases
}

/// Attention, or its gradients, with any of what it takes.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let kv_heads = draw.extent(2);
    let depth = draw.pick(&[64, 32, 128, 40, 72]);
    let spec = Spec {
        batches: draw.extent(2),
        heads: kv_heads * draw.extent(3),
        kv_heads,
        q_rows: draw.extent(129),
        k_rows: draw.extent(257),
        depth,
        value_depth: if draw.below(4) == 3 { 64 } else { depth },
        causal: draw.flag(),
        left: draw.pick(&[None, None, Some(17)]),
        right: draw.pick(&[None, None, Some(3)]),
        softcap: draw.pick(&[None, None, Some(1.5)]),
        slopes: draw.below(4) == 3,
        sinks: draw.below(4) == 3,
        rows_first: draw.flag(),
        ..PLAIN
    };
    let dtype = draw.float();
    if draw.below(3) == 2 { backward(dtype, spec) } else { forward(dtype, spec) }
}

impl Spec {
    /// The sums that a gradient's error comes from, in terms of sums one after the other (`most_nmse`), for inputs of variance 1.
    ///
    /// A weight is exp(score - lse), so that its relative error is the absolute one of both. Scores have variance 1: they count
    /// `depth` terms. The logarithm, about ln k_rows + 1/2, is rounded four times, as log2, times ln 2, times log2 e and in the
    /// difference, by at most u of it: 4 · u²/3 · lse², which is 8 · lse² terms. Weights times dout·v - dout·out are the other
    /// half: two sums of `value_depth` terms, each as large as their difference, or with few keys twice as large (dout·v has
    /// variance d, and d · (1 - 1/k) is left; with one key nothing is left but errors, next to dv). At last come sums over
    /// keys or queries.
    fn gradient_terms(&self) -> usize {
        let lse = (self.k_rows.max(1) as f64).ln() + 0.5;
        self.depth + 4 * self.value_depth + self.q_rows.max(self.k_rows) + (8.0 * lse * lse) as usize
    }

    /// How many keys a key lies behind the one that belongs to a query: the last query's is the last.
    fn ahead(&self, row: usize, key: usize) -> i64 {
        key as i64 - (row as i64 + self.k_rows as i64 - self.q_rows as i64)
    }

    /// Whether a query may see a key by where they lie.
    fn is_within(&self, row: usize, key: usize) -> bool {
        let ahead = self.ahead(row, key);
        let right = if self.causal { Some(0) } else { self.right };
        right.is_none_or(|right| ahead <= right as i64) && self.left.is_none_or(|left| -ahead <= left as i64)
    }

    /// How many weights there are, each of which has an error that goes into all of a query's and a key's gradients.
    fn weights(&self) -> usize {
        let of_head = (0..self.q_rows).map(|row| (0..self.k_rows).filter(|key| self.is_within(row, *key)).count());
        self.batches * self.heads * of_head.sum::<usize>()
    }

    fn name(&self) -> String {
        let mut name = format!(
            "{}x{}/{}x{}x{} · {}/{}",
            self.batches, self.heads, self.kv_heads, self.q_rows, self.k_rows, self.depth, self.value_depth
        );
        let named = [
            (self.causal, " causal"),
            (self.left.is_some() || self.right.is_some(), " window"),
            (self.softcap.is_some(), " softcap"),
            (self.mask.is_some(), " mask"),
            (self.masked.is_some(), " added"),
            (self.bias.is_some(), " bias"),
            (self.slopes, " slopes"),
            (self.sinks, " sinks"),
            (self.high_sink.is_some(), " high"),
            (self.blind.is_some(), " blind"),
            (self.rising, " rising"),
            (self.rows_first, " BSHD"),
        ];
        named.iter().filter(|(there, _)| *there).for_each(|(_, word)| name.push_str(word));
        name
    }

    fn params(&self) -> AttentionParams {
        let mut params = AttentionParams::default();
        (params.causal, params.left, params.right, params.softcap) = (self.causal, self.left, self.right, self.softcap);
        params.masked = self.masked;
        params
    }

    /// The shape of queries, keys or values, as they lie in memory.
    fn stored(&self, heads: usize, rows: usize, depth: usize) -> Vec<usize> {
        if self.rows_first { vec![self.batches, rows, heads, depth] } else { vec![self.batches, heads, rows, depth] }
    }

    fn inputs(&self, dtype: DType) -> Vec<(Array, Placement)> {
        let shapes = [
            self.stored(self.heads, self.q_rows, self.depth),
            self.stored(self.kv_heads, self.k_rows, self.depth),
            self.stored(self.kv_heads, self.k_rows, self.value_depth),
        ];
        let mut inputs = Vec::new();
        for (number, shape) in shapes.iter().enumerate() {
            inputs.push((Array::random(shape, dtype, number as u64 + 1), Placement::Contiguous));
        }
        inputs.extend(self.mask.map(|shape| (self.mask_of(&shape), Placement::Contiguous)));
        inputs.extend(self.bias.map(|shape| (self.bias_of(&shape, dtype), Placement::Contiguous)));
        if self.slopes {
            // As ALiBi's, below one: hundreds of keys away, larger ones would leave nothing to compare.
            let random = Array::random(&[self.heads], real(dtype), 7);
            let values = random.values.iter().map(|value| value.abs() / 16.0).collect();
            inputs.push((Array::new(&[self.heads], real(dtype), values), Placement::Contiguous));
        }
        inputs.extend(self.sinks.then(|| {
            let mut sinks = Array::random(&[self.heads], real(dtype), 8);
            if let Some(high) = self.high_sink {
                sinks.values[0] = high;
            }
            (sinks, Placement::Contiguous)
        }));
        inputs
    }

    fn bias_of(&self, shape: &[usize; 4], dtype: DType) -> Array {
        if !self.rising {
            return Array::random(shape, dtype, 5);
        }
        // Whole numbers to 256 are exact in every type, and 32 keys on are 11 powers of two.
        let count = shape.iter().product();
        Array::new(shape, dtype, (0..count).map(|at| ((at % shape[3]) / 4) as f64).collect())
    }

    fn mask_of(&self, shape: &[usize; 4]) -> Array {
        let mut mask = Array::random(shape, DType::Bool, 4);
        if let Some(row) = self.blind {
            for line in mask.values.chunks_mut(shape[3]).skip(row).step_by(shape[2]) {
                line.fill(1.0);
            }
        }
        mask
    }

    /// Where mask, bias, slopes and sinks are among the inputs.
    fn optional(&self) -> [Option<usize>; 4] {
        let mut next = 3;
        [self.mask.is_some(), self.bias.is_some(), self.slopes, self.sinks].map(|there| {
            next += usize::from(there);
            there.then_some(next - 1)
        })
    }

    fn read<'a>(&self, q: &'a Tensor, k: &'a Tensor, v: &'a Tensor, inputs: &'a [Tensor]) -> AttentionInputs<'a> {
        let [mask, bias, slopes, sinks] = self.optional().map(|place| place.map(|place| inputs[place].view()));
        AttentionInputs { q: q.view(), k: k.view(), v: v.view(), mask, bias, starts: None, slopes, sinks }
    }

    /// Where an element lies.
    fn at(&self, heads: usize, rows: usize, depth: usize, [batch, head, row]: [usize; 3]) -> usize {
        let line =
            if self.rows_first { (batch * rows + row) * heads + head } else { (batch * heads + head) * rows + row };
        line * depth
    }
}

/// An element of an array that broadcasts.
fn broadcast(array: &Array, at: [usize; 4]) -> f64 {
    let place = at.iter().zip(&array.shape).fold(0, |n, (&at, &extent)| n * extent + if extent == 1 { 0 } else { at });
    array.values[place]
}

/// One query: where it and its heads are, and its weights.
struct QueryRow {
    batch: usize,
    head: usize,
    kv_head: usize,
    row: usize,
    lse: f64,
    /// Keys that it sees: the key, its weight, and what the derivative of the soft-cap is there.
    seen: Vec<(usize, f64, f64)>,
    /// The weight of the sink; of no meaning without one.
    of_sink: f64,
}

fn lines(spec: &Spec, inputs: &[Array]) -> Vec<QueryRow> {
    let (q, k) = (&inputs[0].values, &inputs[1].values);
    let [mask, bias, slopes, sinks] = spec.optional().map(|place| place.map(|place| &inputs[place]));
    let line = |line: usize| {
        let (batch, head) = (line / spec.q_rows / spec.heads, line / spec.q_rows % spec.heads);
        let (kv_head, row) = (head / (spec.heads / spec.kv_heads), line % spec.q_rows);
        let q_at = spec.at(spec.heads, spec.q_rows, spec.depth, [batch, head, row]);
        let is_masked = |key| mask.is_some_and(|mask| broadcast(mask, [batch, head, row, key]) != 0.0);
        let mut scores = Vec::new();
        for key in 0..spec.k_rows {
            if !spec.is_within(row, key) || is_masked(key) && spec.masked.is_none() {
                continue;
            }
            let ahead = spec.ahead(row, key);
            let k_at = spec.at(spec.kv_heads, spec.k_rows, spec.depth, [batch, kv_head, key]);
            let product = dot((0..spec.depth).map(|d| (q[q_at + d], k[k_at + d])));
            let mut score = product / (spec.depth as f64).sqrt();
            let mut slope = 1.0;
            if let Some(softcap) = spec.softcap {
                let bent = (score / softcap).tanh();
                (score, slope) = (softcap * bent, 1.0 - bent * bent);
            }
            score += spec.masked.filter(|_| is_masked(key)).unwrap_or(0.0);
            score += bias.map_or(0.0, |bias| broadcast(bias, [batch, head, row, key]));
            score -= slopes.map_or(0.0, |slopes| slopes.values[head] * ahead.abs() as f64);
            scores.push((key, score, slope));
        }
        let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| sinks.values[head]);
        let most = scores.iter().map(|&(_, score, _)| score).fold(sink, f64::max);
        let exp: Vec<f64> = scores.iter().map(|&(_, score, _)| (score - most).exp()).collect();
        let of_sink = if sinks.is_some() { (sink - most).exp() } else { 0.0 };
        let total = sum(&exp) + of_sink;
        let seen = scores.iter().zip(&exp).map(|(&(key, _, slope), exp)| (key, exp / total, slope)).collect();
        let lse = if scores.is_empty() && sinks.is_none() { f64::NEG_INFINITY } else { most + total.ln() };
        QueryRow { batch, head, kv_head, row, lse, seen, of_sink: of_sink / total }
    };
    (0..spec.batches * spec.heads * spec.q_rows).map(line).collect()
}

/// Output and logarithms of sums.
fn oracle(spec: &Spec, inputs: &[Array]) -> Vec<Vec<f64>> {
    let v = &inputs[2].values;
    let lines = lines(spec, inputs);
    let mut out = vec![0.0; lines.len() * spec.value_depth];
    for line in &lines {
        let to = spec.at(spec.heads, spec.q_rows, spec.value_depth, [line.batch, line.head, line.row]);
        let v_at = |key| spec.at(spec.kv_heads, spec.k_rows, spec.value_depth, [line.batch, line.kv_head, key]);
        for d in 0..spec.value_depth {
            out[to + d] = dot(line.seen.iter().map(|&(key, weight, _)| (weight, v[v_at(key) + d])));
        }
    }
    vec![out, lines.iter().map(|line| line.lse).collect()]
}

/// Gradients of queries, keys and values, by the chain rule; the output's gradient is the last input.
fn backward_oracle(spec: &Spec, inputs: &[Array]) -> Vec<Vec<f64>> {
    let [q, k, v] = [0, 1, 2].map(|n| &inputs[n].values);
    let dout = &inputs[inputs.len() - 1].values;
    let mut gradients = [q, k, v].map(|values| vec![0.0; values.len()]);
    let mut of_sinks = vec![0.0; spec.heads];
    let scale = 1.0 / (spec.depth as f64).sqrt();
    for line in lines(spec, inputs) {
        let q_at = spec.at(spec.heads, spec.q_rows, spec.depth, [line.batch, line.head, line.row]);
        let o_at = spec.at(spec.heads, spec.q_rows, spec.value_depth, [line.batch, line.head, line.row]);
        let k_at = |key| spec.at(spec.kv_heads, spec.k_rows, spec.depth, [line.batch, line.kv_head, key]);
        let v_at = |key| spec.at(spec.kv_heads, spec.k_rows, spec.value_depth, [line.batch, line.kv_head, key]);
        let of_weight = |key| dot((0..spec.value_depth).map(|d| (dout[o_at + d], v[v_at(key) + d])));
        let mean = dot(line.seen.iter().map(|&(key, weight, _)| (weight, of_weight(key))));
        of_sinks[line.head] -= line.of_sink * mean;
        for &(key, weight, slope) in &line.seen {
            let of_product = weight * (of_weight(key) - mean) * slope * scale;
            for d in 0..spec.depth {
                gradients[0][q_at + d] += of_product * k[k_at(key) + d];
                gradients[1][k_at(key) + d] += of_product * q[q_at + d];
            }
            for d in 0..spec.value_depth {
                gradients[2][v_at(key) + d] += weight * dout[o_at + d];
            }
        }
    }
    let of_sinks = spec.sinks.then_some(of_sinks);
    gradients.into_iter().chain(of_sinks).collect()
}

/// The type of the logarithms of sums.
fn real(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

fn forward(dtype: DType, spec: Spec) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let heads_first = |tensor: &Tensor| heads_first(&spec, tensor);
        let (q, k, v) = (heads_first(&inputs[0])?, heads_first(&inputs[1])?, heads_first(&inputs[2])?);
        let read = spec.read(&q, &k, &v, inputs);
        let (out, lse) = outputs.split_at_mut(1);
        let mut out = heads_first(&out[0])?;
        Ok(launch_attention(stream, &read, &spec.params(), out.view_mut(), Some(lse[0].view_mut()))?)
    };
    let outputs = vec![
        (spec.stored(spec.heads, spec.q_rows, spec.value_depth), dtype),
        (vec![spec.batches, spec.heads, spec.q_rows], real(dtype)),
    ];
    let pairs = (spec.batches * spec.heads * spec.q_rows * spec.k_rows) as f64;
    let flops = 2.0 * pairs * (spec.depth + spec.value_depth) as f64;
    let call =
        Call { inputs: spec.inputs(dtype), outputs, launch, oracle: move |inputs: &[Array]| oracle(&spec, inputs) };
    Case::new("attention", dtype, spec.name(), flops, call).summing(spec.depth + spec.k_rows)
}

/// By the kernel of multiply-add.
fn multiplied(spec: Spec) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let heads_first = |tensor: &Tensor| heads_first(&spec, tensor);
        let (q, k, v) = (heads_first(&inputs[0])?, heads_first(&inputs[1])?, heads_first(&inputs[2])?);
        let mut params = spec.params();
        params.plain = Some(true);
        let mut out = heads_first(&outputs[0])?;
        Ok(launch_attention(stream, &spec.read(&q, &k, &v, inputs), &params, out.view_mut(), None)?)
    };
    let outputs = vec![(spec.stored(spec.heads, spec.q_rows, spec.value_depth), DType::F32)];
    let pairs = (spec.batches * spec.heads * spec.q_rows * spec.k_rows) as f64;
    let flops = 2.0 * pairs * (spec.depth + spec.value_depth) as f64;
    let oracle = move |inputs: &[Array]| oracle(&spec, inputs).into_iter().take(1).collect();
    let call = Call { inputs: spec.inputs(DType::F32), outputs, launch, oracle };
    let name = format!("{}, by multiply-add", spec.name());
    Case::new("attention", DType::F32, name, flops, call).summing(spec.depth + spec.k_rows)
}

/// The tensor with heads before rows.
fn heads_first(spec: &Spec, tensor: &Tensor) -> Result<Tensor, Failure> {
    let layout = if spec.rows_first { tensor.layout().swap(1, 2)? } else { *tensor.layout() };
    Ok(tensor.with_layout(layout)?)
}

/// Forward, then backward.
fn backward(dtype: DType, spec: Spec) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let (q, k, v) =
            (heads_first(&spec, &inputs[0])?, heads_first(&spec, &inputs[1])?, heads_first(&spec, &inputs[2])?);
        let dout = heads_first(&spec, &inputs[inputs.len() - 1])?;
        let read = spec.read(&q, &k, &v, inputs);
        let mut out = temporary(q.device(), dout.shape(), dtype)?;
        let mut lse = temporary(q.device(), &dout.shape()[..3], real(dtype))?;
        launch_attention(stream, &read, &spec.params(), out.view_mut(), Some(lse.view_mut()))?;
        let saved = AttentionSaved { out: out.view(), lse: lse.view(), dout: dout.view() };
        let (outputs, of_sinks) = outputs.split_at_mut(3);
        let [dq, dk, dv] = outputs else { unreachable!("three outputs are asked for below, and one for sinks") };
        let (mut dq, mut dk, mut dv) = (heads_first(&spec, dq)?, heads_first(&spec, dk)?, heads_first(&spec, dv)?);
        let gradients = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
        launch_backward(stream, &read, &saved, &spec.params(), gradients)?;
        match of_sinks {
            [dsinks] => Ok(launch_backward_sinks(stream, &read, &saved, &spec.params(), dsinks.view_mut())?),
            _ => Ok(()),
        }
    };
    let mut inputs = spec.inputs(dtype);
    let mut outputs: Vec<_> = inputs[..3].iter().map(|(array, _)| (array.shape.clone(), dtype)).collect();
    outputs.extend(spec.sinks.then(|| (vec![spec.heads], real(dtype))));
    let dout = spec.stored(spec.heads, spec.q_rows, spec.value_depth);
    inputs.push((Array::random(&dout, dtype, 6), Placement::Contiguous));
    let pairs = (spec.batches * spec.heads * spec.q_rows * spec.k_rows) as f64;
    let flops = pairs * (8.0 * spec.depth as f64 + 6.0 * spec.value_depth as f64);
    let oracle = move |inputs: &[Array]| backward_oracle(&spec, inputs);
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("attention_backward", dtype, spec.name(), flops, call)
        .summing(spec.gradient_terms())
        .with_numbers(spec.weights())
}

/// Rows at which sequences of queries and of keys begin: a long one, an empty one, one without keys, a short one.
const Q_STARTS: [usize; 5] = [0, 37, 37, 40, 45];
const K_STARTS: [usize; 5] = [0, 70, 81, 81, 84];

/// Sequences one after the other.
fn varied(dtype: DType) -> Case {
    let (q_rows, k_rows) = (Q_STARTS[4], K_STARTS[4]);
    let spec = Spec { heads: 2, kv_heads: 1, q_rows, k_rows, causal: true, ..PLAIN };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let starts = Starts { q: inputs[3].view(), k: inputs[4].view(), q_rows_most: 37, k_rows_most: 70 };
        let read = AttentionInputs {
            q: inputs[0].view(),
            k: inputs[1].view(),
            v: inputs[2].view(),
            mask: None,
            bias: None,
            starts: Some(starts),
            slopes: None,
            sinks: None,
        };
        let (out, lse) = outputs.split_at_mut(1);
        Ok(launch_attention(stream, &read, &spec.params(), out[0].view_mut(), Some(lse[0].view_mut()))?)
    };
    let oracle = move |inputs: &[Array]| {
        let (mut out, mut lse) = (vec![0.0; 2 * q_rows * 64], vec![0.0; 2 * q_rows]);
        for batch in 0..4 {
            let (q, k) = (Q_STARTS[batch]..Q_STARTS[batch + 1], K_STARTS[batch]..K_STARTS[batch + 1]);
            let own = Spec { q_rows: q.len(), k_rows: k.len(), ..spec };
            // The rows of one sequence, of every head.
            let cut = |array: &Array, heads: usize, total: usize, rows: &std::ops::Range<usize>| {
                let head = |head: usize| {
                    array.values[(head * total + rows.start) * 64..(head * total + rows.end) * 64].to_vec()
                };
                Array::new(&[1, heads, rows.len(), 64], array.dtype, (0..heads).flat_map(head).collect())
            };
            let cut = [cut(&inputs[0], 2, q_rows, &q), cut(&inputs[1], 1, k_rows, &k), cut(&inputs[2], 1, k_rows, &k)];
            let want = self::oracle(&own, &cut);
            for head in 0..2 {
                for (number, row) in q.clone().enumerate() {
                    let from = head * q.len() + number;
                    out[(head * q_rows + row) * 64..][..64].copy_from_slice(&want[0][from * 64..][..64]);
                    lse[head * q_rows + row] = want[1][from];
                }
            }
        }
        vec![out, lse]
    };
    let starts =
        |values: [usize; 5]| (Array::new(&[5], DType::I32, values.map(|n| n as f64).to_vec()), Placement::Contiguous);
    let mut inputs = spec.inputs(dtype);
    inputs.extend([starts(Q_STARTS), starts(K_STARTS)]);
    let outputs = vec![(vec![1, 2, q_rows, 64], dtype), (vec![1, 2, q_rows], real(dtype))];
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("attention", dtype, "sequences of 37, 0, 3, 5 rows causal".to_owned(), 0.0, call).summing(64 + 70)
}
