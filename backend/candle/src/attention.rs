//! Attention without its scores in memory, under the names and layouts of `candle-flash-attn`.

use candle_core::{D, DType, Result, Tensor, bail};
use rocfire_kernels::operators::{AttentionForm, attention};

use crate::record::one;

const OP: &str = "flash-attn";

/// Which scores count, and how they are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashAttention {
    /// Factor of the products, mostly `1 / sqrt(head size)`.
    pub softmax_scale: f32,
    /// How many keys before its own place a query sees; `None`: all. The last query's place is the last key's.
    pub window_left: Option<usize>,
    /// How many keys behind its own place a query sees; `None`: all, `Some(0)`: causal.
    pub window_right: Option<usize>,
    /// `c`: scores become `c · tanh(score / c)`.
    pub softcap: Option<f32>,
}

/// `softmax(q · kᵀ · softmax_scale) · v` for each head.
///
/// # Shapes
/// `q`: `[batches, rows, heads, head size]`; `k`, `v`: `[batches, key rows, key heads, head size]`, where `key heads` divides
/// `heads`; the result is like `q`. Any strides. Head sizes are multiples of 8 up to 256.
/// # Types
/// Any float, one for all.
/// # Errors
/// Shapes that do not fit, other types.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    flash_attn_windowed(q, k, v, softmax_scale, None, causal.then_some(0))
}

/// [`flash_attn`] where a query sees only keys near its own place.
///
/// # Errors
/// As there.
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_left: Option<usize>,
    window_right: Option<usize>,
) -> Result<Tensor> {
    FlashAttention { softmax_scale, window_left, window_right, softcap: None }.apply(q, k, v)
}

/// [`flash_attn_windowed`] with scores held within a bound.
///
/// # Errors
/// As there.
pub fn flash_attn_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_left: Option<usize>,
    window_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    FlashAttention { softmax_scale, window_left, window_right, softcap: Some(softcap) }.apply(q, k, v)
}

impl FlashAttention {
    /// Runs it: one kernel on the device, Candle's own operators on the CPU. Where a variable is among what it comes from, it
    /// has gradients, on the device without the scores in memory too.
    ///
    /// # Errors
    /// As [`flash_attn`].
    pub fn apply(self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        self.run(q, k, v, None)
    }

    /// The same with sinks: of every query head a score of no key and no value, which takes its share of the weights.
    ///
    /// # Shapes
    /// `sinks`: `[heads]`, f32 (f64 for tensors of f64). They are constants: Candle records operators of up to three inputs.
    /// # Errors
    /// As [`flash_attn`]; sinks that come from a variable.
    pub fn apply_with_sinks(self, q: &Tensor, k: &Tensor, v: &Tensor, sinks: &Tensor) -> Result<Tensor> {
        self.run(q, k, v, Some(sinks))
    }

    fn run(self, q: &Tensor, k: &Tensor, v: &Tensor, sinks: Option<&Tensor>) -> Result<Tensor> {
        if q.device().is_cpu() {
            return self.composed(q, k, v, sinks);
        }
        let FlashAttention { softmax_scale, window_left, window_right, softcap } = self;
        let mut form = AttentionForm { rows_first: true, has_sinks: sinks.is_some(), ..AttentionForm::default() };
        form.params.scale = Some(f64::from(softmax_scale));
        form.params.softcap = softcap.map(f64::from);
        (form.params.left, form.params.right) = (window_left, window_right);
        let inputs: Vec<&Tensor> = [q, k, v].into_iter().chain(sinks).collect();
        form.is_learned = inputs[..3].iter().any(|input| input.track_op());
        one(&attention(form).learning(3), &inputs)
    }

    /// The same from Candle's operators, with the scores in memory.
    fn composed(self, q: &Tensor, k: &Tensor, v: &Tensor, sinks: Option<&Tensor>) -> Result<Tensor> {
        let (heads, key_heads) = (q.dim(2)?, k.dim(2)?);
        if key_heads == 0 || heads % key_heads != 0 {
            bail!("{OP}: {heads} heads cannot share {key_heads} heads of keys");
        }
        let wide = |x: &Tensor| -> Result<Tensor> {
            let (batches, rows, heads_of, size) = x.dims4()?;
            let shared = x.transpose(1, 2)?.unsqueeze(2)?.expand((batches, heads_of, heads / heads_of, rows, size))?;
            shared.reshape((batches, heads, rows, size))?.to_dtype(DType::F32)
        };
        let (q32, k32, v32) = (wide(q)?, wide(k)?, wide(v)?);
        let mut scores = (q32.matmul(&k32.t()?.contiguous()?)? * f64::from(self.softmax_scale))?;
        if let Some(cap) = self.softcap.map(f64::from) {
            scores = ((scores / cap)?.tanh()? * cap)?;
        }
        let (rows, key_rows) = (q.dim(1)?, k.dim(1)?);
        let sees = |row: usize, key: usize| {
            // The places of both, counted from the end.
            let (place, other) = (row + key_rows, key + rows);
            self.window_left.is_none_or(|left| other + left >= place)
                && self.window_right.is_none_or(|right| other <= place + right)
        };
        let hidden = (0..rows * key_rows).map(|at| u8::from(!sees(at / key_rows, at % key_rows))).collect();
        let hidden = Tensor::from_vec(hidden, (rows, key_rows), q.device())?;
        let lowest = Tensor::new(f32::NEG_INFINITY, q.device())?.broadcast_as(scores.shape())?;
        let weights = hidden.broadcast_as(scores.shape())?.where_cond(&lowest, &scores)?;
        // A query that sees nothing gives zeros: its weights' sum is taken as 1.
        let mut most = weights.max_keepdim(D::Minus1)?.maximum(f64::from(f32::MIN))?;
        let of_rows = |x: &Tensor| x.to_dtype(DType::F32)?.reshape((1, heads, 1, 1))?.broadcast_as(most.shape());
        let sinks = sinks.map(of_rows).transpose()?;
        if let Some(sinks) = &sinks {
            most = most.maximum(sinks)?;
        }
        let weights = weights.broadcast_sub(&most)?.exp()?;
        let mut sums = weights.sum_keepdim(D::Minus1)?;
        if let Some(sinks) = sinks {
            sums = (sums + (sinks - most)?.exp()?)?;
        }
        let sums = (&sums + sums.eq(0_f64)?.to_dtype(DType::F32)?)?;
        weights.broadcast_div(&sums)?.matmul(&v32)?.transpose(1, 2)?.contiguous()?.to_dtype(q.dtype())
    }
}
