//! Weights that follow from their names: the same on every device, for whatever names a model asks for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

/// Makes each tensor on the spot.
struct Named {
    /// The type whose numbers the weights are, whatever they are handed over in.
    of: DType,
    /// Parts of names that are not there.
    without: &'static [&'static str],
    draw: u64,
}

/// A builder of weights that are numbers of the type `of`, handed over as `dtype`; names that hold one of `without` are
/// not there.
pub fn builder(
    of: DType,
    dtype: DType,
    device: &Device,
    without: &'static [&'static str],
    draw: u64,
) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(Named { of, without, draw }), dtype, device.clone())
}

impl SimpleBackend for Named {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        // What would be of no size is not in a file.
        if shape.elem_count() == 0 || !self.contains_tensor(name) {
            return Err(Error::Msg(format!("there is no {name}")));
        }
        named(name, &shape, self.draw)?.to_dtype(self.of)?.to_dtype(dtype)?.to_device(device)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        Err(Error::Msg(format!("{name} is asked for without a shape, which only a file of weights knows")))
    }

    fn contains_tensor(&self, name: &str) -> bool {
        !self.without.iter().any(|part| name.contains(part))
    }
}

/// Writes down what it is asked for.
struct Listener(Arc<Mutex<BTreeMap<String, Vec<usize>>>>);

impl SimpleBackend for Listener {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), shape.dims().to_vec());
        Tensor::zeros(shape, dtype, device)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        Err(Error::Msg(format!("{name} is asked for without a shape")))
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

/// The names and shapes of the weights that `load` asks for.
pub fn asked(load: impl FnOnce(VarBuilder<'static>) -> Result<()>) -> Result<Vec<(String, Vec<usize>)>> {
    let list = Arc::new(Mutex::new(BTreeMap::new()));
    load(VarBuilder::from_backend(Box::new(Listener(list.clone())), DType::F32, Device::Cpu))?;
    let list = std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(list.into_iter().collect())
}

/// A weight in f32: uniform, with the spread that keeps a layer's output as large as its input. Vectors named `weight` and
/// `gamma`, which are norms', and variances are around 1, other vectors around 0. Each draw has other numbers.
pub fn named(name: &str, shape: &Shape, draw: u64) -> Result<Tensor> {
    let dims = shape.dims();
    let around_one = ["weight", "gamma", "running_var"].iter().any(|end| name.ends_with(end));
    let (middle, spread) = match dims {
        [] | [_] if around_one => (1.0, 0.1),
        [] | [_] => (0.0, 0.1),
        [_, inputs @ ..] => (0.0, (3.0 / inputs.iter().product::<usize>() as f64).sqrt()),
    };
    let mut state = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325 ^ draw, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let values: Vec<f32> =
        (0..shape.elem_count()).map(|_| (middle + spread * (2.0 * unit(&mut state) - 1.0)) as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)
}

/// The next number of SplitMix64, in `[0, 1)`.
pub fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
