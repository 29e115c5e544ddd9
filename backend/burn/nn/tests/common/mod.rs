//! Numbers and weights that are the same on every device.

use burn::module::{ModuleMapper, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Numbers of no meaning between -1 and 1.
pub fn numbers<const D: usize>(shape: [usize; D], seed: u32, dtype: DType, device: &Device) -> Tensor<D> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 23) - 1.0
    };
    let values: Vec<f64> = std::iter::repeat_with(next).take(shape.iter().product()).collect();
    Tensor::from_data(TensorData::new(values, shape).convert_dtype(dtype), (device, dtype))
}

/// Fills a module with numbers of seeds from one behind the first, of a type, around a centre.
#[allow(dead_code)] // Not every test has modules to fill.
pub struct Fill(pub u32, pub DType, pub f64);

impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.0 += 1;
        let Fill(seed, dtype, centre) = *self;
        param.map(|tensor| {
            let filled = numbers(tensor.dims(), seed, dtype, &tensor.device()).mul_scalar(0.3);
            if centre == 0.0 { filled } else { filled.add_scalar(centre) }
        })
    }
}
