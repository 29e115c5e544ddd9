//! Attention without its scores in memory, under the names and layouts of `candle-flash-attn`.

use std::sync::{Mutex, PoisonError};

use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, CudaStorage, CustomOp3, D, DType, Layout, Result, Shape, Storage, Tensor, bail};
use cudarc::rocfire::Settled;
use rocfire_kernels::attention::{AttentionInputs, AttentionParams, AttentionSaved, attention, attention_backward};

use crate::storage;

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
        if q.device().is_cpu() {
            return self.composed(q, k, v);
        }
        let is_recorded = [q, k, v].into_iter().any(Tensor::track_op);
        let op = Recorded { attention: self, lse: is_recorded.then(Mutex::default) };
        if is_recorded { q.apply_op3(k, v, op) } else { q.apply_op3_no_bwd(k, v, &op) }
    }

    /// The same from Candle's operators, with the scores in memory.
    fn composed(self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
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
        let most = weights.max_keepdim(D::Minus1)?.maximum(f64::from(f32::MIN))?;
        let weights = weights.broadcast_sub(&most)?.exp()?;
        let sums = weights.sum_keepdim(D::Minus1)?;
        let sums = (&sums + sums.eq(0_f64)?.to_dtype(DType::F32)?)?;
        weights.broadcast_div(&sums)?.matmul(&v32)?.transpose(1, 2)?.contiguous()?.to_dtype(q.dtype())
    }
}

/// The operator in Candle's graph. With gradients it keeps the logarithms of sums, one number per row and head.
struct Recorded {
    attention: FlashAttention,
    lse: Option<Mutex<Option<rocfire_hal::Tensor>>>,
}

impl Recorded {
    fn params(&self) -> AttentionParams {
        let FlashAttention { softmax_scale, window_left, window_right, softcap } = self.attention;
        let mut params = AttentionParams::default();
        params.scale = Some(f64::from(softmax_scale));
        params.softcap = softcap.map(f64::from);
        (params.left, params.right) = (window_left, window_right);
        params
    }
}

/// Heads before rows, as the kernels have them: a view.
fn heads_first(on: &Settled<'_>, storage: &CudaStorage, layout: &Layout) -> Result<rocfire_hal::Tensor> {
    let tensor = storage::floats(OP, on, storage, layout)?;
    tensor.with_layout(tensor.layout().swap(1, 2).map_err(storage::error)?).map_err(storage::error)
}

impl CustomOp3 for Recorded {
    fn name(&self) -> &'static str {
        OP
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("{OP}: on the CPU it is `FlashAttention::apply`, which composes Candle's operators")
    }

    fn cuda_fwd(
        &self,
        q: &CudaStorage,
        q_layout: &Layout,
        k: &CudaStorage,
        k_layout: &Layout,
        v: &CudaStorage,
        v_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let (batches, rows, heads, _) = q_layout.shape().dims4()?;
        let (.., value_size) = v_layout.shape().dims4()?;
        let shape = Shape::from((batches, rows, heads, value_size));
        let out = storage::like(OP, q, shape.elem_count())?;
        let stream = q.device.cuda_stream();
        let on = stream.settled();
        let view = |storage, layout| heads_first(&on, storage, layout);
        let (q_view, k, v) = (view(q, q_layout)?, view(k, k_layout)?, view(v, v_layout)?);
        let mut written = view(&out, &Layout::contiguous(&shape))?;
        let inputs = AttentionInputs {
            q: q_view.view(),
            k: k.view(),
            v: v.view(),
            mask: None,
            bias: None,
            starts: None,
            slopes: None,
            sinks: None,
        };
        let sums = if q_view.dtype() == rocfire_hal::DType::F64 { q_view.dtype() } else { rocfire_hal::DType::F32 };
        let mut lse = match &self.lse {
            Some(_) => Some(
                rocfire_hal::Tensor::empty(q_view.device(), &[batches, heads, rows], sums).map_err(storage::error)?,
            ),
            None => None,
        };
        let written_lse = lse.as_mut().map(rocfire_hal::Tensor::view_mut);
        attention(on.stream(), &inputs, &self.params(), written.view_mut(), written_lse).map_err(storage::error)?;
        if let Some(kept) = &self.lse {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = lse;
        }
        Ok((out, shape))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        out: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let lse = self.lse.as_ref().and_then(|lse| lse.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let Some(lse) = lse else { bail!("{OP}: the forward was not asked for gradients") };
        // Candle computes the gradients' own inputs with operators that wait.
        let stream = q.device().as_cuda_device()?.cuda_stream();
        let on = stream.settled();
        let view = |tensor: &Tensor| -> Result<rocfire_hal::Tensor> {
            let (storage, layout) = tensor.storage_and_layout();
            match &*storage {
                Storage::Cuda(storage) => heads_first(&on, storage, layout),
                _ => bail!("{OP}: its tensors are of one device"),
            }
        };
        let fresh = |like: &Tensor| -> Result<(CudaStorage, rocfire_hal::Tensor)> {
            let made = match &*like.storage_and_layout().0 {
                Storage::Cuda(storage) => storage::like(OP, storage, like.elem_count())?,
                _ => bail!("{OP}: its tensors are of one device"),
            };
            let written = heads_first(&on, &made, &Layout::contiguous(like.shape()))?;
            Ok((made, written))
        };
        let (q_view, k_view, v_view) = (view(q)?, view(k)?, view(v)?);
        let (out, gradient) = (view(out)?, view(gradient)?);
        let [(dq, mut dq_view), (dk, mut dk_view), (dv, mut dv_view)] = [fresh(q)?, fresh(k)?, fresh(v)?];
        let inputs = AttentionInputs {
            q: q_view.view(),
            k: k_view.view(),
            v: v_view.view(),
            mask: None,
            bias: None,
            starts: None,
            slopes: None,
            sinks: None,
        };
        let saved = AttentionSaved { out: out.view(), lse: lse.view(), dout: gradient.view() };
        let gradients = [dq_view.view_mut(), dk_view.view_mut(), dv_view.view_mut()];
        attention_backward(on.stream(), &inputs, &saved, &self.params(), gradients).map_err(storage::error)?;
        let tensor =
            |made, like: &Tensor| Tensor::from_storage(Storage::Cuda(made), like.shape(), BackpropOp::none(), false);
        Ok((Some(tensor(dq, q)), Some(tensor(dk, k)), Some(tensor(dv, v))))
    }
}
