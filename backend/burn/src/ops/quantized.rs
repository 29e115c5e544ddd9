//! Burn's quantised operators: codes of one byte with their scales, all on the device.
//!
//! Integer values of 8, 4 and 2 bits, with one scale or one per block, one level or two, in any type of scale. The small
//! floats (E4M3, E5M2, E2M1), lookup tables and native packing are refused with the reason. Whatever a scheme's store, codes
//! lie unpacked and the scheme that comes back says native, as in Burn's Flex. Arithmetic is Burn's default: to floats, the
//! operator, and back. Scales of other types than f32 are rounded on the host, which waits for the device.

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{
    QuantScheme, QuantStore, QuantValue, QuantizationParametersPrimitive, QuantizedBytes, ScaleDtype, params_shape,
    scale_to_dtype,
};
use burn_backend::{DType as BurnDType, ExecutionError, Shape, Slice, TensorData, TensorMetadata};
use burn_std::FloatDType;
use burn_std::quantization::{QuantMode, global_scale_dtype, quantizable};
use rocfire_fusion::{Binary, Compare, Graph, Scalar, Unary, Value};
use rocfire_hal::{DType, Error as HalError, Tensor};

use super::{float_dtype, fused, index, memory, view};
use crate::convert::to_shape;
use crate::error::{Error, OrPanic, Result, execution};
use crate::{Rocm, RocmDevice, RocmQTensor, RocmTensor};

/// Why a scheme is not implemented; `None` if it is.
pub(crate) fn refusal(scheme: &QuantScheme) -> Option<&'static str> {
    if matches!(scheme.value, QuantValue::E4M3 | QuantValue::E5M2 | QuantValue::E2M1) {
        return Some("its values are floats, and only integer ones are implemented");
    }
    if scheme.mode != QuantMode::Symmetric {
        return Some("its values are a lookup table's, and only symmetric ones are implemented");
    }
    match scheme.store {
        QuantStore::PackedNative(_) => return Some("its values are packed natively, and only u32 words are read"),
        QuantStore::PackedU32(axis) if axis != 0 => {
            return Some("its values are packed along another axis than the last");
        }
        QuantStore::Native | QuantStore::PackedU32(_) => {}
    }
    (!quantizable(scheme)).then_some("its scales would leave the range of f32")
}

fn require(op: &'static str, scheme: &QuantScheme) -> Result<()> {
    match refusal(scheme) {
        Some(reason) => Err(Error::Scheme { op, scheme: format!("{scheme:?}"), reason }),
        None => Ok(()),
    }
}

/// A tensor's shape with every axis that has several blocks of several elements split in two, and the shape of the scales
/// that broadcasts to it.
fn by_block(shape: &[usize], scheme: &QuantScheme) -> Result<(Vec<usize>, Vec<usize>)> {
    let Some(block) = scheme.block_size() else { return Ok((shape.to_vec(), vec![1; shape.len()])) };
    let (mut split, mut scales) = (Vec::new(), Vec::new());
    for (&extent, &block) in shape.iter().zip(&block.to_dim_vec(shape.len())) {
        let block = usize::from(block);
        if !extent.is_multiple_of(block) {
            let got = format!("{shape:?} for {scheme:?}");
            return Err(HalError::shape("quantize", "shape", "a whole number of blocks", got).into());
        }
        match (extent / block, block) {
            (_, 1) => {
                split.push(extent);
                scales.push(extent);
            }
            (1, _) => {
                split.push(extent);
                scales.push(1);
            }
            (blocks, _) => {
                split.extend([blocks, block]);
                scales.extend([blocks, 1]);
            }
        }
    }
    Ok((split, scales))
}

/// A scale that can be divided by: a zero or an infinity becomes the smallest normal number.
fn valid_scales(scales: &Tensor, dtype: ScaleDtype) -> Result<Tensor> {
    let scales = memory::contiguous(&memory::cast(scales, DType::F32)?)?;
    if dtype == ScaleDtype::F32 {
        let graph = fused::graph("valid_scales", &[], |g| {
            let scale = g.input(DType::F32);
            let [zero, infinity, least] =
                [0.0, f64::INFINITY, f64::from(f32::MIN_POSITIVE)].map(|number| g.constant(DType::F32, number));
            let (above, below) = (g.compare(Compare::Gt, scale, zero), g.compare(Compare::Lt, scale, infinity));
            let valid = g.binary(Binary::And, above, below);
            let scale = g.select(valid, scale, least);
            g.output(scale);
        });
        return fused::elementwise(&graph, &[&scales], &[], DType::F32);
    }
    let rounded: Vec<f32> = host_floats(&scales)?
        .into_iter()
        .map(|scale| scale_to_dtype(scale, dtype))
        .map(|scale| if scale > 0.0 && scale.is_finite() { scale } else { scale_to_dtype(f32::MIN_POSITIVE, dtype) })
        .collect();
    memory::table(scales.device(), scales.shape(), DType::F32, &rounded)
}

fn host_floats(x: &Tensor) -> Result<Vec<f32>> {
    let bytes = memory::contiguous(x)?.to_bytes()?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

/// The product of a block's scale and the global one, in shapes that broadcast to the split tensor.
fn scale_inputs(q: &RocmQTensor, split: &[usize], grid: &[usize]) -> Result<[Tensor; 2]> {
    let scales = view::reshape(q.scales.as_inner(), grid)?;
    let global = match &q.global {
        Some(global) => global.as_inner().clone(),
        None => memory::full(scales.device(), &[1], DType::F32, Scalar::Float(1.0))?,
    };
    Ok([scales, view::reshape(&global, &vec![1; split.len()])?])
}

/// The nearest integer, ties away from zero, as Burn rounds codes.
fn round_away(g: &mut Graph, x: Value) -> Value {
    let (half, one) = (g.constant(DType::F32, 0.5), g.constant(DType::F32, 1.0));
    let magnitude = g.unary(Unary::Abs, x);
    let whole = g.unary(Unary::Floor, magnitude);
    let fraction = g.binary(Binary::Sub, magnitude, whole);
    let up = g.compare(Compare::Ge, fraction, half);
    let next = g.binary(Binary::Add, whole, one);
    let nearest = g.select(up, next, whole);
    let sign = g.unary(Unary::Sign, x);
    g.binary(Binary::Mul, nearest, sign)
}

/// Codes and scales of `x` for given scales.
fn quantize(x: &Tensor, scheme: &QuantScheme, scales: &Tensor, global: Option<&Tensor>) -> Result<RocmQTensor> {
    require("quantize", scheme)?;
    let scheme = scheme.with_store(QuantStore::Native);
    let (split, grid) = by_block(x.shape(), &scheme)?;
    let scales =
        view::reshape(&valid_scales(scales, scheme.scale_dtype())?, &params_shape(&to_shape(x.shape()), &scheme))?;
    let global = match (global, global_scale_dtype(&scheme)) {
        (Some(global), Some(dtype)) => Some(RocmTensor::new(valid_scales(global, dtype)?)),
        _ => None,
    };
    let mut q = RocmQTensor { codes: RocmTensor::new(x.clone()), scales: RocmTensor::new(scales), global, scheme };
    let [scales, global] = scale_inputs(&q, &split, &grid)?;
    let dtype = x.dtype();
    let (least, most) = scheme.value.range();
    let graph = fused::graph("quantize", &[dtype], |g| {
        let x = g.input(dtype);
        let x = fused::to(g, x, DType::F32);
        let (scale, global) = (g.input(DType::F32), g.input(DType::F32));
        let [least, most] = [g.scalar(DType::F32), g.scalar(DType::F32)];
        let scale = g.binary(Binary::Mul, global, scale);
        let inverse = g.unary(Unary::Recip, scale);
        let scaled = g.binary(Binary::Mul, x, inverse);
        let code = round_away(g, scaled);
        let code = g.binary(Binary::Max, code, least);
        let code = g.binary(Binary::Min, code, most);
        let code = g.cast(code, DType::I8);
        g.output(code);
    });
    let bounds = [Scalar::from(least), Scalar::from(most)];
    let codes = fused::elementwise(&graph, &[&view::reshape(x, &split)?, &scales, &global], &bounds, DType::I8)?;
    q.codes = RocmTensor::new(view::reshape(&codes, x.shape())?);
    Ok(q)
}

fn dequantize(q: &RocmQTensor, dtype: DType) -> Result<Tensor> {
    let (split, grid) = by_block(&q.codes.shape(), &q.scheme)?;
    let [scales, global] = scale_inputs(q, &split, &grid)?;
    let graph = fused::graph("dequantize", &[dtype], |g| {
        let code = g.input(DType::I8);
        let code = g.cast(code, DType::F32);
        let (scale, global) = (g.input(DType::F32), g.input(DType::F32));
        let scale = g.binary(Binary::Mul, global, scale);
        let value = g.binary(Binary::Mul, scale, code);
        let value = fused::to(g, value, dtype);
        g.output(value);
    });
    let codes = view::reshape(q.codes.as_inner(), &split)?;
    view::reshape(&fused::elementwise(&graph, &[&codes, &scales, &global], &[], dtype)?, &q.codes.shape())
}

fn from_data(data: TensorData, device: &RocmDevice) -> Result<RocmQTensor> {
    let BurnDType::QFloat(scheme) = data.dtype() else {
        return Err(Error::Kind { op: "q_from_data", expected: "a quantised float", got: data.dtype() });
    };
    require("q_from_data", &scheme)?;
    let shape = data.shape().clone();
    let (codes, scales) = QuantizedBytes { shape: shape.clone(), bytes: data.into_bytes(), scheme }.into_vec_i8();
    let scheme = scheme.with_store(QuantStore::Native);
    let device = device.open()?;
    let global = match scales.global {
        Some(global) => Some(RocmTensor::new(memory::table(&device, &[1], DType::F32, &[global])?)),
        None => None,
    };
    Ok(RocmQTensor {
        codes: RocmTensor::new(memory::table(&device, &shape, DType::I8, &codes)?),
        scales: RocmTensor::new(memory::table(&device, &params_shape(&shape, &scheme), DType::F32, &scales.block)?),
        global,
        scheme,
    })
}

fn into_data(q: &RocmQTensor) -> Result<TensorData> {
    let codes = memory::contiguous(q.codes.as_inner())?.to_bytes()?;
    let codes: Vec<i8> = bytemuck::allocation::cast_vec(codes);
    let scales = host_floats(q.scales.as_inner())?;
    let global = match &q.global {
        Some(global) => host_floats(global.as_inner())?.first().copied(),
        None => None,
    };
    Ok(TensorData::quantized(codes, q.shape(), q.scheme, &scales, global))
}

/// An operator that moves elements without regard to blocks: on the codes where there is one scale, else by way of floats.
fn moved(q: RocmQTensor, operator: impl FnOnce(&Tensor) -> Result<Tensor>) -> RocmQTensor {
    if q.scheme.block_size().is_none() {
        let codes = operator(q.codes.as_inner()).or_panic();
        return RocmQTensor { codes: RocmTensor::new(codes), ..q };
    }
    let floats = dequantize(&q, DType::F32).and_then(|floats| operator(&floats)).or_panic();
    Rocm::quantize_dynamic(RocmTensor::new(floats), &q.scheme)
}

/// An operator that moves whole blocks with their elements: the same for codes and grid.
fn moved_alike(q: RocmQTensor, scheme: QuantScheme, operator: impl Fn(&Tensor) -> Result<Tensor>) -> RocmQTensor {
    let codes = RocmTensor::new(operator(q.codes.as_inner()).or_panic());
    if q.scheme.block_size().is_none() {
        return RocmQTensor { codes, ..q };
    }
    let scales = RocmTensor::new(operator(q.scales.as_inner()).or_panic());
    RocmQTensor { codes, scales, scheme, global: q.global }
}

impl QTensorOps<Rocm> for Rocm {
    fn q_from_data(data: TensorData, device: &RocmDevice) -> RocmQTensor {
        from_data(data, device).or_panic()
    }

    fn quantize(
        tensor: RocmTensor,
        scheme: &QuantScheme,
        qparams: QuantizationParametersPrimitive<Rocm>,
    ) -> RocmQTensor {
        let global = qparams.global.as_ref().map(RocmTensor::as_inner);
        quantize(tensor.as_inner(), scheme, qparams.scales.as_inner(), global).or_panic()
    }

    fn dequantize(tensor: RocmQTensor, dtype: FloatDType) -> RocmTensor {
        RocmTensor::new(dequantize(&tensor, float_dtype(dtype)).or_panic())
    }

    fn q_to_device(tensor: RocmQTensor, device: &RocmDevice) -> RocmQTensor {
        let to = |tensor: &RocmTensor| RocmTensor::new(memory::to_device(tensor.as_inner(), device).or_panic());
        RocmQTensor {
            codes: to(&tensor.codes),
            scales: to(&tensor.scales),
            global: tensor.global.as_ref().map(to),
            scheme: tensor.scheme,
        }
    }

    async fn q_into_data(tensor: RocmQTensor) -> Result<TensorData, ExecutionError> {
        into_data(&tensor).map_err(execution)
    }

    fn q_reshape(tensor: RocmQTensor, shape: Shape) -> RocmQTensor {
        moved(tensor, |x| view::reshape(x, &shape))
    }

    fn q_swap_dims(tensor: RocmQTensor, dim1: usize, dim2: usize) -> RocmQTensor {
        let mut scheme = tensor.scheme;
        scheme.swap_block_dims(tensor.rank(), dim1, dim2);
        moved_alike(tensor, scheme, |x| view::swap(x, dim1, dim2))
    }

    fn q_permute(tensor: RocmQTensor, axes: &[usize]) -> RocmQTensor {
        let mut scheme = tensor.scheme;
        scheme.permute_block_dims(tensor.rank(), axes);
        moved_alike(tensor, scheme, |x| view::permute(x, axes))
    }

    fn q_flip(tensor: RocmQTensor, axes: &[usize]) -> RocmQTensor {
        let scheme = tensor.scheme;
        moved_alike(tensor, scheme, |x| view::flip(x, axes))
    }

    fn q_expand(tensor: RocmQTensor, shape: Shape) -> RocmQTensor {
        moved(tensor, |x| view::expand(x, &shape))
    }

    fn q_slice(tensor: RocmQTensor, slices: &[Slice]) -> RocmQTensor {
        moved(tensor, |x| view::slice(x, slices))
    }

    fn q_select(tensor: RocmQTensor, dim: usize, indices: RocmTensor) -> RocmQTensor {
        moved(tensor, |x| index::select(x, dim, indices.as_inner()))
    }

    fn q_gather(dim: usize, tensor: RocmQTensor, indices: RocmTensor) -> RocmQTensor {
        moved(tensor, |x| index::gather(x, dim, indices.as_inner()))
    }
}
