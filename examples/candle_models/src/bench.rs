//! Speed of models of real size with random weights: milliseconds, tokens per second, launches.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::cuda_backend::kernels;
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{D, DType, Device, Module, Result as CandleResult, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use candle_transformers::models::{bert, llama};
use serde_json::json;

use crate::Result;

/// What models are timed on.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'a> {
    /// Candle's.
    pub device: &'a Device,
    /// Whether it computes anything: its outputs are compared with those of Candle's CPU before a model is timed. The driver `noop`
    /// computes nothing, and what is timed there is the host.
    pub computes: bool,
}

/// What was measured, in the device's or the host's time.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What.
    pub name: String,
    /// Median milliseconds of a token or a forward.
    pub ms: f64,
    /// Tokens in that time.
    pub tokens: usize,
    /// Launches in it.
    pub launches: f64,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Measured { name, ms, tokens, launches } = self;
        let per_second = *tokens as f64 * 1e3 / ms;
        write!(f, "{name}: {ms:.3} ms, {per_second:.1} tokens/s, {launches:.1} launches")
    }
}

/// Weights drawn on a device when they are asked for, and kept for the same model elsewhere.
#[derive(Clone, Default)]
struct Random(Arc<Mutex<HashMap<String, Tensor>>>);

impl SimpleBackend for Random {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> CandleResult<Tensor> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(weight) = known.get(name) {
            return weight.to_device(device)?.to_dtype(dtype);
        }
        // A layer's output is about as large as its input; norms are around 1.
        let inputs = shape.dims().last().copied().unwrap_or(1) as f64;
        let (middle, spread) =
            if name.to_lowercase().contains("norm") { (1.0, 0.02) } else { (0.0, 1.0 / inputs.sqrt()) };
        let weight = Tensor::zeros(shape, DType::F32, device)?.randn_like(middle, spread)?.to_dtype(dtype)?;
        known.insert(name.to_owned(), weight.clone());
        Ok(weight)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> CandleResult<Tensor> {
        candle_core::bail!("{name}: a shape is needed")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

impl Random {
    fn on(&self, dtype: DType, device: &Device) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self.clone()), dtype, device.clone())
    }
}

/// How far outputs may be from those of Candle's CPU in f32, relative to their norm.
fn allowed(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-3,
        _ => 0.1,
    }
}

/// Fails unless outputs are, up to `limit`, those of the same weights on Candle's CPU in f32.
fn check(got: &Tensor, limit: f64, expected: impl FnOnce() -> Result<Tensor>) -> Result<()> {
    let on_cpu = |tensor: &Tensor| -> Result<Vec<f32>> {
        Ok(tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    };
    let values = on_cpu(got)?;
    let nan = values.iter().filter(|value| value.is_nan()).count();
    if nan > 0 {
        return Err(format!("not timed: {nan} of {} outputs are NaN", values.len()).into());
    }
    let expected = on_cpu(&expected()?)?;
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let far = norm(&mut values.iter().zip(&expected).map(|(a, b)| f64::from(a - b)));
    let error = far / norm(&mut expected.iter().map(|&x| f64::from(x)));
    match error <= limit {
        true => Ok(()),
        false => {
            Err(format!("not timed: outputs are {error:.1e} from those of Candle's CPU, allowed {limit:.0e}").into())
        }
    }
}

/// Runs something `warm` times, then `count` times, each with a wait at its end.
fn measure(
    name: String,
    tokens: usize,
    device: &Device,
    [warm, count]: [usize; 2],
    mut run: impl FnMut() -> Result<()>,
) -> Result<Measured> {
    for _ in 0..warm {
        run()?;
    }
    device.synchronize()?;
    rocfire_candle::wait_for_compiles(device)?;
    let before = rocfire_candle::launches(device)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        run()?;
        device.synchronize()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let launches = (rocfire_candle::launches(device)? - before) as f64 / count as f64;
    times.sort_by(f64::total_cmp);
    Ok(Measured { name, ms: times[count / 2], tokens, launches })
}

/// Tokens that Llama-3.2-1B knows.
const VOCABULARY: usize = 128_256;

/// The shape of Llama-3.2-1B, made narrower by a factor that divides 8: heads stay as deep as they are.
fn config(layers: usize, narrower: usize) -> Result<llama::Config> {
    let config = json!({
        "hidden_size": 2048 / narrower, "intermediate_size": 8192 / narrower, "vocab_size": VOCABULARY / narrower,
        "num_hidden_layers": layers, "num_attention_heads": 32 / narrower, "num_key_value_heads": 8 / narrower,
        "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "max_position_embeddings": 4096,
        "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": true,
    });
    Ok(serde_json::from_value::<llama::LlamaConfig>(config)?.into_config(false))
}

/// The first token that a Llama of the shape of Llama-3.2-1B gives behind `context` tokens, for `cargo bench-cold`: with fewer layers
/// and narrower if so wanted.
///
/// # Errors
/// Candle's; outputs that are not finite.
pub fn first_token(device: &Device, dtype: DType, layers: usize, narrower: usize, context: usize) -> Result<u32> {
    let config = config(layers, narrower)?;
    let model = llama::Llama::load(Random::default().on(dtype, device), &config)?;
    let mut cache = llama::Cache::new(true, dtype, &config, device)?;
    let prompt: Vec<u32> = (0..context).map(|token| (token * 97 % (VOCABULARY / narrower)) as u32).collect();
    let logits = model.forward(&Tensor::new(&prompt[..], device)?.unsqueeze(0)?, 0, &mut cache)?.squeeze(0)?;
    let values: Vec<f32> = logits.to_dtype(DType::F32)?.to_vec1()?;
    if let Some(wrong) = values.iter().find(|value| !value.is_finite()) {
        return Err(format!("a logit is {wrong}").into());
    }
    Ok(logits.argmax(D::Minus1)?.to_scalar::<u32>()?)
}

/// Decoding of one token by a Llama of the shape of Llama-3.2-1B, with fewer layers if so wanted, behind `context` tokens.
///
/// # Errors
/// Candle's; outputs that are NaN or not those of Candle's CPU.
pub fn llama(on: &Timed<'_>, dtype: DType, layers: usize, context: usize, count: usize) -> Result<Measured> {
    let device = on.device;
    let config = config(layers, 1)?;
    let weights = Random::default();
    let model = llama::Llama::load(weights.on(dtype, device), &config)?;
    let mut cache = llama::Cache::new(true, dtype, &config, device)?;
    let prompt: Vec<u32> = (0..context as u32).map(|token| token * 97 % VOCABULARY as u32).collect();
    let ask = |model: &llama::Llama, cache: &mut llama::Cache, device: &Device| -> Result<Tensor> {
        Ok(model.forward(&Tensor::new(&prompt[..], device)?.unsqueeze(0)?, 0, cache)?)
    };
    let logits = ask(&model, &mut cache, device)?;
    let on_cpu = || {
        let mut cache = llama::Cache::new(true, DType::F32, &config, &Device::Cpu)?;
        ask(&llama::Llama::load(weights.on(DType::F32, &Device::Cpu), &config)?, &mut cache, &Device::Cpu)
    };
    if on.computes {
        check(&logits, allowed(dtype), on_cpu)?;
    }
    let mut next = logits.squeeze(0)?.argmax(D::Minus1)?.to_scalar::<u32>()?;
    let mut seen = context;
    let name = format!("Llama-3.2-1B shape, {layers} layers, {dtype:?}, one token behind {context}");
    measure(name, 1, device, [6, count], || {
        let input = Tensor::new(&[next], device)?.unsqueeze(0)?;
        let logits = model.forward(&input, seen, &mut cache)?;
        next = logits.squeeze(0)?.argmax(D::Minus1)?.to_scalar::<u32>()?;
        seen += 1;
        Ok(())
    })
}

/// The forward of BERT-base for 8 sentences of 128 tokens.
///
/// # Errors
/// As [`llama()`].
pub fn bert(on: &Timed<'_>, dtype: DType, layers: usize, count: usize) -> Result<Measured> {
    let device = on.device;
    let config = bert::Config { num_hidden_layers: layers, ..bert::Config::default() };
    let weights = Random::default();
    let model = bert::BertModel::load(weights.on(dtype, device), &config)?;
    let ids: Vec<u32> = (0..8 * 128).map(|token| token * 31 % 30_000).collect();
    let ids = Tensor::from_vec(ids, (8, 128), device)?;
    let (kinds, mask) = (ids.zeros_like()?, ids.ones_like()?);
    let on_cpu = || {
        let model = bert::BertModel::load(weights.on(DType::F32, &Device::Cpu), &config)?;
        let [ids, kinds, mask] = [&ids, &kinds, &mask].map(|tensor| tensor.to_device(&Device::Cpu));
        Ok(model.forward(&ids?, &kinds?, Some(&mask?))?)
    };
    if on.computes {
        check(&model.forward(&ids, &kinds, Some(&mask))?, allowed(dtype), on_cpu)?;
    }
    measure(format!("BERT-base, {layers} layers, {dtype:?}, 8 x 128"), 8 * 128, device, [4, count], || {
        model.forward(&ids, &kinds, Some(&mask))?;
        Ok(())
    })
}

/// What an operator of one launch takes on the host, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// From Candle's operator to the launch, all of it.
    pub operator_us: f64,
    /// What rocfire does of it: the same kernel found by name, memory taken and dropped, arguments, launch, with the share of
    /// launching what waits.
    pub ours_us: f64,
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Host { operator_us, ours_us } = self;
        write!(f, "an operator on the host: {operator_us:.2} us, of which rocfire's part is {ours_us:.2} us")
    }
}

/// The host's time of an operator, `x.affine(2, 1)`. Means something where the device is not what one waits for: on the driver
/// that runs nothing (`ROCFIRE_DEVICE=noop`).
///
/// # Errors
/// Candle's.
pub fn host(device: &Device, count: usize) -> Result<Host> {
    const OPERATORS: usize = 2000;
    const ELEMENTS: usize = 64;
    let x = Tensor::zeros(ELEMENTS, DType::F32, device)?;
    let operators = measure(String::new(), 1, device, [2, count], || {
        (0..OPERATORS).try_for_each(|_| x.affine(2.0, 1.0).map(drop))?;
        Ok(())
    })?;
    let stream = device.as_cuda_device()?.cuda_stream();
    let module = stream.context().load_module(kernels::AFFINE.ptx().into())?;
    let input = stream.alloc_zeros::<f32>(ELEMENTS)?;
    let (elements, axes, no_strides, factor, summand) = (ELEMENTS, 1_usize, 0_usize, 2.0_f32, 1.0_f32);
    let ours = measure(String::new(), 1, device, [2, count], || {
        for _ in 0..OPERATORS {
            let function = module.load_function("affine_f32")?;
            // SAFETY: the launch writes all of it.
            let output = unsafe { stream.alloc::<f32>(ELEMENTS)? };
            let mut launch = stream.launch_builder(&function);
            launch.arg(&elements).arg(&axes).arg(&no_strides).arg(&input).arg(&output).arg(&factor).arg(&summand);
            // SAFETY: these are the kernel's arguments; input and output have as many elements as are said.
            unsafe { launch.launch(LaunchConfig::for_num_elems(ELEMENTS as u32))? };
        }
        Ok(())
    })?;
    let us = |measured: &Measured| measured.ms * 1e3 / OPERATORS as f64;
    Ok(Host { operator_us: us(&operators), ours_us: us(&ours) })
}

/// A GGUF type and the bytes of its block, of which some are a scale that makes numbers small.
type Gguf = (GgmlDType, usize, &'static [usize]);

/// Mat-vecs of GGUF weights against copies on the device: bytes of weights per second, and bytes read and written by copies.
///
/// # Errors
/// Candle's, and products that are not those of its CPU.
pub fn gguf(on: &Timed<'_>, count: usize) -> Result<String> {
    const TYPES: [Gguf; 3] =
        [(GgmlDType::Q4K, 144, &[0, 2]), (GgmlDType::Q6K, 210, &[208]), (GgmlDType::Q8_0, 34, &[0])];
    let large = Tensor::zeros(256 << 20, DType::F32, on.device)?;
    let copy = measure(String::new(), 1, on.device, [2, count], || {
        large.copy()?;
        Ok(())
    })?;
    let copied = 2.0 * f64::from(1 << 30) / copy.ms / 1e9;
    drop(large);
    let lines: Vec<String> = TYPES.into_iter().map(|gguf| mat_vec(on, gguf, count, copied)).collect::<Result<_>>()?;
    Ok(lines.join("\n"))
}

fn mat_vec(on: &Timed<'_>, (dtype, block_bytes, scales): Gguf, count: usize, copied: f64) -> Result<String> {
    // Large enough that the host keeps ahead.
    const OUTPUTS: usize = 28_672;
    const INPUTS: usize = 8192;
    // As many matrices as no cache holds.
    const MATRICES: usize = 6;
    // Outputs that are compared.
    const CHECKED: usize = 64;
    let row_bytes = INPUTS / dtype.block_size() * block_bytes;
    let block = |n: usize| {
        // Scales of 2^-10 as f16; the rest is any bits.
        (0..block_bytes).map(move |at| {
            let of_scale = |&first: &usize| (first..first + 2).contains(&at).then(|| [0x00, 0x14][at - first]);
            let any = (n.wrapping_mul(31) ^ at.wrapping_mul(17)) as u8;
            scales.iter().find_map(of_scale).unwrap_or(any)
        })
    };
    let data: Vec<u8> = (0..OUTPUTS * row_bytes / block_bytes).flat_map(block).collect();
    let matrices: Vec<QMatMul> = (0..MATRICES)
        .map(|_| {
            let storage = QStorage::from_data(Cow::Borrowed(&data), on.device, dtype)?;
            Ok(QMatMul::QTensor(QTensor::new(storage, (OUTPUTS, INPUTS))?.into()))
        })
        .collect::<Result<_>>()?;
    // One for each: products of one input would share its quantisation and a launch.
    let inputs = (0..MATRICES)
        .map(|_| Tensor::zeros((1, INPUTS), DType::F32, on.device)?.randn_like(0.0, 1.0))
        .collect::<CandleResult<Vec<Tensor>>>()?;
    if on.computes {
        let first = Cow::Borrowed(&data[..CHECKED * row_bytes]);
        let weights = QTensor::new(QStorage::from_data(first, &Device::Cpu, dtype)?, (CHECKED, INPUTS))?;
        let weights = weights.dequantize(&Device::Cpu)?;
        let got = matrices[0].forward(&inputs[0])?.narrow(1, 0, CHECKED)?;
        // Activations have seven bits and a sign.
        check(&got, 0.02, || Ok(inputs[0].to_device(&Device::Cpu)?.matmul(&weights.t()?)?))?;
    }
    let product = measure(String::new(), 1, on.device, [3, count], || {
        matrices.iter().zip(&inputs).try_for_each(|(matrix, x)| matrix.forward(x).map(drop))?;
        Ok(())
    })?;
    let read = (MATRICES * data.len()) as f64 / product.ms / 1e9;
    Ok(format!(
        "{dtype:?} mat-vec {OUTPUTS} x {INPUTS}: {:.4} ms with its quantisation, {read:.3} TB/s of weights, {:.1} % of the {copied:.3} TB/s of copies",
        product.ms / MATRICES as f64,
        100.0 * read / copied,
    ))
}
