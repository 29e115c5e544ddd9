//! What a printed test needs besides Candle: kept as text beside the code, so that both are the same.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType as TheirDType, Device, Result, Tensor, Var};
use rocfire_hal::DType;

use crate::program::Number;

/// Ours in Candle's words; integers that Candle's CPU device has no operators for have none.
pub(crate) fn theirs(dtype: DType) -> TheirDType {
    match dtype {
        DType::F64 => TheirDType::F64,
        DType::F32 => TheirDType::F32,
        DType::F16 => TheirDType::F16,
        DType::BF16 => TheirDType::BF16,
        DType::I64 => TheirDType::I64,
        DType::U8 => TheirDType::U8,
        DType::U32 => TheirDType::U32,
        other => panic!("Candle has no {other}"),
    }
}

/// Candle's in our words.
pub(crate) fn ours(dtype: TheirDType) -> DType {
    match dtype {
        TheirDType::F64 => DType::F64,
        TheirDType::F32 => DType::F32,
        TheirDType::F16 => DType::F16,
        TheirDType::BF16 => DType::BF16,
        TheirDType::I64 => DType::I64,
        TheirDType::U32 => DType::U32,
        TheirDType::U8 => DType::U8,
        other => panic!("no operator of the tables makes {other:?}"),
    }
}

/// The elements of a tensor as they lie in memory, row after row.
pub(crate) fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let host = tensor.to_device(&Device::Cpu)?;
    // Candle's CPU panics where it copies a view without elements whose offset is behind the end.
    let host = if host.elem_count() == 0 { return Ok(Vec::new()) } else { host.flatten_all()? };
    Ok(match host.dtype() {
        TheirDType::F64 => host.to_vec1::<f64>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TheirDType::F32 => host.to_vec1::<f32>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TheirDType::F16 => host.to_vec1::<half::f16>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TheirDType::BF16 => host.to_vec1::<half::bf16>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TheirDType::I64 => host.to_vec1::<i64>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TheirDType::U32 => host.to_vec1::<u32>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
        TheirDType::U8 => host.to_vec1::<u8>()?,
        other => panic!("no operator of the tables makes {other:?}"),
    })
}

/// The gradients of what `call` makes of variables, one for each operand of floats, where `arriving` is the gradient of that.
pub(crate) fn gradients(
    operands: &[&Tensor],
    arriving: &Tensor,
    call: impl FnOnce(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let leaf =
        |x: &&Tensor| if x.dtype().is_float() { Ok(Var::from_tensor(x)?.into_inner()) } else { Ok((*x).clone()) };
    let leaves = operands.iter().map(leaf).collect::<Result<Vec<Tensor>>>()?;
    let store = call(&leaves)?.mul(arriving)?.backward()?;
    let floats = leaves.iter().filter(|leaf| leaf.dtype().is_float());
    floats.map(|leaf| store.get(leaf).map_or_else(|| leaf.zeros_like(), |found| Ok(found.clone()))).collect()
}

/// A number as f64.
pub(crate) fn plain(number: Number) -> f64 {
    match number {
        Number::Float(value) => value,
        Number::Int(value) => value as f64,
        Number::Bool(value) => f64::from(u8::from(value)),
    }
}

/// Numbers in a type of floats, rounded once. Candle's CPU device rounds f64 and integers to 16 bits without their low half, or
/// twice (known.rs): there they go through f32.
pub(crate) fn cast(x: &Tensor, dtype: TheirDType) -> Result<Tensor> {
    let narrows = matches!(dtype, TheirDType::F16 | TheirDType::BF16);
    let floats: Vec<f32> = match x.dtype() {
        _ if !narrows || !x.device().is_cpu() || x.elem_count() == 0 => return x.to_dtype(dtype),
        TheirDType::F64 => x.flatten_all()?.to_vec1::<f64>()?.into_iter().map(odd).collect(),
        TheirDType::I64 => {
            // Of more bits than f64 has, the lowest is set for all that are left out.
            let short =
                |n: i64| if n.unsigned_abs() >> 53 == 0 { n } else { n & !0xfff | i64::from(n & 0xfff != 0) << 12 };
            x.flatten_all()?.to_vec1::<i64>()?.into_iter().map(|n| odd(short(n) as f64)).collect()
        }
        TheirDType::U32 => x.flatten_all()?.to_vec1::<u32>()?.into_iter().map(|n| odd(n.into())).collect(),
        _ => return x.to_dtype(dtype),
    };
    Tensor::from_vec(floats, x.shape(), x.device())?.to_dtype(dtype)
}

/// The f32 beside a number whose last bit is 1, unless it is the number: rounded again, it comes out as if rounded once.
fn odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || !near.is_finite() {
        return near;
    }
    let down = if f64::from(near).abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(down | 1)
}

/// A product with weights as codes; on the CPU with what the codes stand for, so that activations keep their numbers.
pub(crate) fn quantised(x: &Tensor, weights: &Tensor, dtype: GgmlDType) -> Result<Tensor> {
    use candle_core::Module;
    let codes = QTensor::quantize(&weights.to_dtype(TheirDType::F32)?.contiguous()?, dtype)?;
    if x.device().is_cpu() {
        return x.matmul(&codes.dequantize(&Device::Cpu)?.to_dtype(x.dtype())?.t()?);
    }
    QMatMul::from_qtensor(codes)?.forward(&x.contiguous()?)
}

/// Parts of every axis; a stepped one is chosen by indices, since Candle has no such view.
pub(crate) fn sliced(tensor: &Tensor, parts: &[(isize, Option<isize>, isize)]) -> Result<Tensor> {
    let mut tensor = tensor.clone();
    for (axis, &(from, to, step)) in parts.iter().enumerate() {
        let to = to.map_or(tensor.dim(axis)?, |to| to as usize);
        tensor = tensor.narrow(axis, from as usize, to - from as usize)?;
        if step != 1 {
            let count = tensor.dim(axis)?;
            let mut places: Vec<u32> = (0..count as u32).step_by(step.unsigned_abs()).collect();
            if step < 0 {
                places.reverse();
            }
            tensor = tensor.contiguous()?.index_select(&Tensor::new(places, tensor.device())?, axis)?;
        }
    }
    Ok(tensor)
}
