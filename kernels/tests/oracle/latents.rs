//! What MLA's doors must give, in f64 over the numbers that a device was given: for the tests of both frameworks.

/// Whether each number is as near as its own size allows.
pub fn near(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * (1.0 + want.abs()), "{what}, {at}: {got}, not {want}");
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// Outputs and channels of a latent that share a scale, of codes of the matrix: no head's own.
pub const BLOCK: [usize; 2] = [24, 48];

/// What a code of OCP's E4M3 stands for.
pub fn e4m3(code: u8) -> f32 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f32::from(code & 7) / 8.0);
    let size = if exponent == 0 { fraction / 64.0 } else { (1.0 + fraction) * 2f32.powi(exponent - 7) };
    if code & 0x80 == 0 { size } else { -size }
}

/// The matrix that codes of OCP's E4M3 stand for, `[HEADS * 2 * FIXED, LATENT]`, with a scale of each [`BLOCK`].
pub fn decoded(codes: &[u8], scales: &[f32]) -> Vec<f32> {
    let scale = |at: usize| scales[at / LATENT / BLOCK[0] * LATENT.div_ceil(BLOCK[1]) + at % LATENT / BLOCK[1]];
    codes.iter().enumerate().map(|(at, &code)| e4m3(code) * scale(at)).collect()
}

/// Neighbours turned by angles of a position.
fn turned(x: &[f32], position: usize) -> Vec<f64> {
    let half = x.len() / 2;
    let mut y = Vec::new();
    for (pair, x) in x.chunks(2).enumerate() {
        let angle = position as f64 * 10_000f64.powf(-(pair as f64) / half as f64);
        let (a, b, (s, c)) = (f64::from(x[0]), f64::from(x[1]), angle.sin_cos());
        y.extend([a * c - b * s, b * c + a * s]);
    }
    y
}

/// The tokens that each of three queries sees, of eleven; the second sees none.
pub const CHOSEN: [[Option<usize>; 5]; 3] =
    [[Some(2), None, Some(9), Some(0), None], [None; 5], [Some(10), Some(4), None, None, Some(5)]];

/// Where a token's row lies.
pub fn slot(token: usize) -> usize {
    (token * 7) % 40
}

/// Attention of one head's query to the rows of chosen tokens, whose first `latent` channels are values.
pub fn attended(q: &[f32], rows: &[Vec<f32>], chosen: &[Option<usize>], latent: usize, scale: f64) -> Vec<f64> {
    let keys: Vec<&Vec<f32>> = chosen.iter().flatten().map(|&token| &rows[token]).collect();
    let weights: Vec<f64> = keys.iter().map(|key| (dot(q, key) * scale).exp()).collect();
    let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    (0..latent).map(|d| weights.iter().zip(&keys).map(|(w, key)| w * f64::from(key[d])).sum::<f64>() / total).collect()
}

/// A layer's numbers, as the device has them, for `HEADS` heads.
pub struct Layer<'a> {
    /// `[tokens, HEADS, FIXED + TURNED]`.
    pub q: &'a [f32],
    /// `[tokens, LATENT + TURNED]`.
    pub kv: &'a [f32],
    /// Of each head keys, then values: `[HEADS, 2 · FIXED, LATENT]`.
    pub matrix: &'a [f32],
    /// Of RMSNorm, `[LATENT]`.
    pub norm: &'a [f32],
}

pub const HEADS: usize = 3;
pub const FIXED: usize = 32;
pub const LATENT: usize = 64;
pub const TURNED: usize = 16;
/// Channels of a row of the cache.
pub const ROW: usize = LATENT + TURNED;
pub const EPSILON: f64 = 1e-5;

impl Layer<'_> {
    /// A head's row of the matrix for a channel of a key, or behind those for one of a value.
    fn line(&self, head: usize, channel: usize) -> &[f32] {
        &self.matrix[(head * 2 * FIXED + channel) * LATENT..][..LATENT]
    }

    /// An absorbed query.
    pub fn query(&self, token: usize, head: usize, position: usize) -> Vec<f64> {
        let q = &self.q[(token * HEADS + head) * (FIXED + TURNED)..][..FIXED + TURNED];
        let column = |to: usize| -> Vec<f32> { (0..FIXED).map(|channel| self.line(head, channel)[to]).collect() };
        let absorbed = (0..LATENT).map(|to| dot(&q[..FIXED], &column(to)));
        absorbed.chain(turned(&q[FIXED..], position)).collect()
    }

    /// A row of the cache.
    pub fn row(&self, token: usize, position: usize) -> Vec<f64> {
        let (latent, key) = self.kv[token * ROW..][..ROW].split_at(LATENT);
        let root = 1.0 / (dot(latent, latent) / LATENT as f64 + EPSILON).sqrt();
        let normed = latent.iter().zip(self.norm).map(|(&x, &w)| f64::from(x) * root * f64::from(w));
        normed.chain(turned(key, position)).collect()
    }

    /// A head's key and value of a row that the cache holds.
    pub fn expanded(&self, held: &[f64], head: usize) -> [Vec<f64>; 2] {
        let latent: Vec<f32> = held[..LATENT].iter().map(|&x| x as f32).collect();
        let product = |channel: usize| dot(&latent, self.line(head, channel));
        let key = (0..FIXED).map(product).chain(held[LATENT..].iter().copied()).collect();
        [key, (FIXED..2 * FIXED).map(product).collect()]
    }

    /// Whether these are keys and values of the rows, `[rows, HEADS, FIXED + TURNED]` and `[rows, HEADS, FIXED]`, and zeros behind them.
    pub fn check_expanded(&self, what: &str, rows: &[&[f64]], [keys, values]: [&[f64]; 2], tolerance: f64) {
        for (row, held) in rows.iter().enumerate() {
            for head in 0..HEADS {
                let ([key, value], at) = (self.expanded(held, head), row * HEADS + head);
                let own = &keys[at * (FIXED + TURNED)..][..FIXED + TURNED];
                near(&format!("{what} key {row}"), own, &key, tolerance);
                near(&format!("{what} value {row}"), &values[at * FIXED..][..FIXED], &value, tolerance);
            }
        }
        let of_none = [&keys[rows.len() * HEADS * (FIXED + TURNED)..], &values[rows.len() * HEADS * FIXED..]];
        assert!(of_none.into_iter().all(|x| !x.is_empty()), "{what}: there are rows of no sequence");
        assert!(of_none.into_iter().flatten().all(|&x| x == 0.0), "{what}: rows of no sequence");
    }
}
