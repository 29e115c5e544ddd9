//! The library's operators on the shapes that AMD's kernels are given, on an emulated device that counts.

use rocfire_emulator::Profile;
use rocfire_hal::modelled::Sample;
use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};
use rocfire_kernels::attention::{
    AttentionInputs, AttentionParams, AttentionSaved, PagedInputs, PagedParams, Starts, attention, attention_backward,
    paged_attention,
};
use rocfire_kernels::cache::{Cache, CacheCodes, CacheLayout, Pages};
use rocfire_kernels::experts::{RouteParams, Score, route};
use rocfire_kernels::gemm::{GemmParams, gemm};
use rocfire_kernels::norm::{NormKind, NormParams, norm};
use rocfire_kernels::quant::{CodedRows, Format, Preshuffled, PreshuffledRows, ScaleKind, q_matmul_preshuffled};

use crate::number::{Half, Random};

/// What may go wrong, for a line of the table.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// An operator whose inputs are on the device.
pub type Launch = Box<dyn FnOnce() -> Outcome<()>>;

/// Opens a device, prepares an operator on it, and gives the profiles of what the operator launches.
///
/// # Errors
/// The library's; a kernel that is launched twice, of which one launch would be counted.
pub fn counted(arch: &str, prepare: impl FnOnce(&Device) -> Outcome<Launch>) -> Outcome<Vec<Profile>> {
    let config = Config::from_env()?.with_profile(Sample { timeline: true, ..Sample::default() });
    let device = Device::open(DeviceId::emulated(arch)?, config)?;
    let run = prepare(&device)?;
    device.sync()?;
    let before: Vec<u64> = kernels(&device).iter().map(|kernel| kernel.largest.code_address).collect();
    run()?;
    device.sync()?;
    let mut profiles = Vec::new();
    for kernel in kernels(&device) {
        if before.contains(&kernel.largest.code_address) {
            continue;
        }
        if kernel.launches > 1 {
            return Err(format!("{} was launched {} times, and one is counted", kernel.name, kernel.launches).into());
        }
        profiles.push(kernel.largest);
    }
    Ok(profiles)
}

fn kernels(device: &Device) -> Vec<rocfire_hal::modelled::ModelledKernel> {
    device.modelled().unwrap_or_default()
}

/// What is drawn: another tensor at every call.
struct Inputs<'a> {
    device: &'a Device,
    random: Random,
}

impl Inputs<'_> {
    fn new(device: &Device) -> Inputs<'_> {
        Inputs { device, random: Random::new(6) }
    }

    fn bf16(&mut self, shape: &[usize]) -> Outcome<Tensor> {
        let (bits, _) = Half::Bf16.rounded(&self.random.normals(shape.iter().product(), 1.0));
        Ok(Tensor::from_bytes(self.device, shape, DType::BF16, bytemuck::cast_slice(&bits))?)
    }

    fn f32(&mut self, shape: &[usize]) -> Outcome<Tensor> {
        let values: Vec<f32> = self.random.normals(shape.iter().product(), 1.0).iter().map(|&x| x as f32).collect();
        Ok(Tensor::from_bytes(self.device, shape, DType::F32, bytemuck::cast_slice(&values))?)
    }

    /// Codes of small numbers in any format of 8 bits, and none that is no number.
    fn codes(&mut self, shape: &[usize]) -> Outcome<Tensor> {
        let bytes: Vec<u8> = (0..shape.iter().product()).map(|_| self.random.below(64) as u8).collect();
        Ok(Tensor::from_bytes(self.device, shape, DType::U8, &bytes)?)
    }

    fn i32(&self, shape: &[usize], values: impl IntoIterator<Item = usize>) -> Outcome<Tensor> {
        let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
        Ok(Tensor::from_bytes(self.device, shape, DType::I32, bytemuck::cast_slice(&values))?)
    }

    fn output(&self, shape: &[usize], dtype: DType) -> Outcome<Tensor> {
        let bytes = vec![0; shape.iter().product::<usize>() * dtype.size_bytes()];
        Ok(Tensor::from_bytes(self.device, shape, dtype, &bytes)?)
    }
}

/// Elements of a head.
const D: usize = 128;

/// A shape of attention.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Queries and keys of each sequence: as many of both, and of one length where they are not packed.
    pub lengths: Vec<usize>,
    /// Heads of queries and of keys.
    pub heads: [usize; 2],
    /// Whether the last query sees all keys, each before it one less.
    pub is_causal: bool,
    /// Whether sequences lie one after the other and are told by where they start.
    pub is_packed: bool,
}

/// Inputs of attention: all heads of a row together, as AMD's kernels are given them.
struct Attended {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// Where sequences start.
    starts: Tensor,
    shape: Attention,
}

impl Attention {
    /// Batches and rows of a batch, as the tensors have them.
    fn extents(&self) -> [usize; 2] {
        if self.is_packed { [1, self.lengths.iter().sum()] } else { [self.lengths.len(), self.lengths[0]] }
    }

    /// `[batches, heads, rows, 128]`.
    fn drawn(&self, inputs: &mut Inputs<'_>, heads: usize) -> Outcome<Tensor> {
        let [batches, rows] = self.extents();
        let of_rows = inputs.bf16(&[batches, rows, heads, D])?;
        Ok(of_rows.with_layout(of_rows.layout().swap(1, 2)?)?)
    }

    fn inputs(&self, inputs: &mut Inputs<'_>) -> Outcome<Attended> {
        let [heads, kv_heads] = self.heads;
        let (q, k, v) = (self.drawn(inputs, heads)?, self.drawn(inputs, kv_heads)?, self.drawn(inputs, kv_heads)?);
        let starts = (0..=self.lengths.len()).map(|sequence| self.lengths[..sequence].iter().sum());
        let starts = inputs.i32(&[self.lengths.len() + 1], starts)?;
        Ok(Attended { q, k, v, starts, shape: self.clone() })
    }
}

impl Attended {
    fn views(&self) -> AttentionInputs<'_> {
        let most = self.shape.lengths.iter().copied().max().unwrap_or(0);
        let starts = Starts { q: self.starts.view(), k: self.starts.view(), q_rows_most: most, k_rows_most: most };
        AttentionInputs {
            q: self.q.view(),
            k: self.k.view(),
            v: self.v.view(),
            mask: None,
            bias: None,
            starts: self.shape.is_packed.then_some(starts),
            slopes: None,
            sinks: None,
        }
    }

    fn params(&self) -> AttentionParams {
        let mut params = AttentionParams::default();
        params.causal = self.shape.is_causal;
        params
    }

    /// `[batches, heads, rows]`.
    fn row_sums(&self, inputs: &Inputs<'_>) -> Outcome<Tensor> {
        inputs.output(&self.q.shape()[..3], DType::F32)
    }
}

/// Attention with its sums of exponentials.
pub fn forward(device: &Device, shape: &Attention) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let attended = shape.inputs(&mut inputs)?;
    let (mut out, mut lse) = (shape.drawn(&mut inputs, shape.heads[0])?, attended.row_sums(&inputs)?);
    let device = device.clone();
    Ok(Box::new(move || {
        let (views, params) = (attended.views(), attended.params());
        Ok(attention(device.stream(), &views, &params, out.view_mut(), Some(lse.view_mut()))?)
    }))
}

/// The gradients of attention; the forward runs before.
pub fn backward(device: &Device, shape: &Attention) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let attended = shape.inputs(&mut inputs)?;
    let [heads, kv_heads] = shape.heads;
    let (mut out, mut lse) = (shape.drawn(&mut inputs, heads)?, attended.row_sums(&inputs)?);
    let dout = shape.drawn(&mut inputs, heads)?;
    let (views, params) = (attended.views(), attended.params());
    attention(device.stream(), &views, &params, out.view_mut(), Some(lse.view_mut()))?;
    let mut gradients = [heads, kv_heads, kv_heads].map(|heads| shape.drawn(&mut inputs, heads).ok());
    let device = device.clone();
    Ok(Box::new(move || {
        let [Some(dq), Some(dk), Some(dv)] = &mut gradients else { return Err("no room for gradients".into()) };
        let saved = AttentionSaved { out: out.view(), lse: lse.view(), dout: dout.view() };
        let gradients = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
        Ok(attention_backward(device.stream(), &attended.views(), &saved, &attended.params(), gradients)?)
    }))
}

/// Keys of a page.
const PAGE: usize = 16;

/// One query of each sequence over pages of 16 keys, in the layout that the library itself takes: bf16, or E4M3 with a scale for each
/// key and head.
pub fn decode(device: &Device, contexts: &[usize], [heads, kv_heads]: [usize; 2], is_coded: bool) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let (batch, most) = (contexts.len(), contexts.iter().copied().max().unwrap_or(0));
    let row = most.div_ceil(PAGE);
    let (pages, layout) = (batch * row, CacheLayout::Nhd);
    let dtype = if is_coded { DType::U8 } else { DType::BF16 };
    let shapes = layout.shapes([pages, PAGE, kv_heads, D], dtype);
    let mut plane = |shape: &[usize]| if is_coded { inputs.codes(shape) } else { inputs.bf16(shape) };
    let (k, v) = (plane(&shapes[0])?, plane(&shapes[1])?);
    let scales = inputs.f32(&[pages, kv_heads, PAGE])?;
    let (table, lens) = (inputs.i32(&[batch, row], 0..pages)?, inputs.i32(&[batch], contexts.iter().copied())?);
    let (q, mut out) = (inputs.bf16(&[batch, heads, D])?, inputs.output(&[batch, heads, D], DType::BF16)?);
    let (device, format) = (device.clone(), fp8(device));
    Ok(Box::new(move || {
        let codes = is_coded.then(|| CacheCodes { format, k_scales: scales.view(), v_scales: scales.view() });
        let cache = Cache::new(k.view(), v.view(), layout, codes)?;
        let read = PagedInputs::new(q.view(), cache, Pages::Table { pages: table.view(), lens: lens.view() }, most);
        Ok(paged_attention(device.stream(), &read, &PagedParams::default(), out.view_mut(), None, None)?)
    }))
}

/// Channels of a latent key, and of the value that it begins with.
const LATENT: [usize; 2] = [576, 512];

/// One query of each sequence over latents in pages of one.
pub fn latent(device: &Device, contexts: &[usize], heads: usize) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let (batch, most) = (contexts.len(), contexts.iter().copied().max().unwrap_or(0));
    let rows = inputs.bf16(&[batch * most, 1, LATENT[0]])?;
    let (table, lens) = (inputs.i32(&[batch, most], 0..batch * most)?, inputs.i32(&[batch], contexts.iter().copied())?);
    let q = inputs.bf16(&[batch, heads, LATENT[0]])?;
    let mut out = inputs.output(&[batch, heads, LATENT[1]], DType::BF16)?;
    let device = device.clone();
    Ok(Box::new(move || {
        let cache = Cache::latent(rows.view(), LATENT[1], None)?;
        let read = PagedInputs::new(q.view(), cache, Pages::Table { pages: table.view(), lens: lens.view() }, most);
        Ok(paged_attention(device.stream(), &read, &PagedParams::default(), out.view_mut(), None, None)?)
    }))
}

/// A bf16 product with B in rows along K, by the tiling of this number, the sum over K by several workgroups if `sliced`.
pub fn product(device: &Device, [m, n, k]: [usize; 3], tiling: usize, sliced: bool) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let (a, b) = (inputs.bf16(&[m, k])?, inputs.bf16(&[n, k])?);
    let b = b.with_layout(b.layout().swap(0, 1)?)?;
    let mut c = inputs.output(&[m, n], DType::BF16)?;
    let mut params = GemmParams::default();
    (params.tiling, params.slice_k) = (Some(tiling), Some(sliced));
    let device = device.clone();
    Ok(Box::new(move || Ok(gemm(device.stream(), a.view(), b.view(), c.view_mut(), &params)?)))
}

/// RMSNorm of rows of bf16.
pub fn rms_norm(device: &Device, [rows, columns]: [usize; 2]) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let (x, weight) = (inputs.bf16(&[rows, columns])?, inputs.bf16(&[columns])?);
    let mut y = inputs.output(&[rows, columns], DType::BF16)?;
    let device = device.clone();
    Ok(Box::new(move || {
        let mut params = NormParams::new(NormKind::Rms, 1e-6);
        params.weight = Some(weight.view());
        Ok(norm(device.stream(), x.view(), &params, y.view_mut(), None)?)
    }))
}

/// A product of i8 codes with a scale for each row of A and of B, B laid out beforehand.
pub fn int8(device: &Device, [m, n, k]: [usize; 3]) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let (a, b) = (inputs.codes(&[m, k])?, inputs.codes(&[n, k])?);
    let (a_scales, b_scales) = (inputs.f32(&[m, 1])?, inputs.f32(&[n, 1])?);
    let mut c = inputs.output(&[m, n], DType::BF16)?;
    let weight = Preshuffled::new(device.stream(), Format::I8, &b)?;
    let (kind, block, device) = (ScaleKind::F32, [1, k], device.clone());
    Ok(Box::new(move || {
        let a = CodedRows { format: Format::I8, codes: a.view(), scales: a_scales.view(), kind, block };
        let b = PreshuffledRows { weight: &weight, scales: b_scales.view(), kind, block };
        Ok(q_matmul_preshuffled(device.stream(), &a, &b, c.view_mut())?)
    }))
}

/// A product of E2M1 codes with a power of two for each 32 along K.
pub fn microscaled(device: &Device, [m, n, k]: [usize; 3]) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let (a, b) = (inputs.codes(&[m, k / 2])?, inputs.codes(&[n, k / 2])?);
    let mut exponents = |rows: usize| -> Outcome<Tensor> {
        let bytes: Vec<u8> = (0..rows * k / 32).map(|_| 124 + inputs.random.below(6) as u8).collect();
        Ok(Tensor::from_bytes(device, &[rows, k / 32], DType::U8, &bytes)?)
    };
    let (a_scales, b_scales) = (exponents(m)?, exponents(n)?);
    let mut c = inputs.output(&[m, n], DType::BF16)?;
    let (format, kind, block) = (Format::E2M1, ScaleKind::E8M0, [1, 32]);
    let weight = Preshuffled::new(device.stream(), format, &b)?;
    let device = device.clone();
    Ok(Box::new(move || {
        let a = CodedRows { format, codes: a.view(), scales: a_scales.view(), kind, block };
        let b = PreshuffledRows { weight: &weight, scales: b_scales.view(), kind, block };
        Ok(q_matmul_preshuffled(device.stream(), &a, &b, c.view_mut())?)
    }))
}

/// The `chosen` largest shares of the softmax of each row.
pub fn routing(device: &Device, [tokens, experts, chosen]: [usize; 3]) -> Outcome<Launch> {
    let mut inputs = Inputs::new(device);
    let logits = inputs.f32(&[tokens, experts])?;
    let mut shares = inputs.output(&[tokens, chosen], DType::F32)?;
    let mut ids = inputs.output(&[tokens, chosen], DType::I32)?;
    let device = device.clone();
    Ok(Box::new(move || {
        let params = RouteParams::new(experts, Score::Softmax);
        Ok(route(device.stream(), logits.view(), &params, shares.view_mut(), ids.view_mut())?)
    }))
}

/// The format of 8-bit floats of the device's matrix units.
fn fp8(device: &Device) -> Format {
    if device.arch().name() == "gfx942" { Format::E4M3Fnuz } else { Format::E4M3 }
}
