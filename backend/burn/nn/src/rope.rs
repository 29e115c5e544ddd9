//! Rotary position embedding in one launch, by tables of cosines and sines.

use burn::module::Module;
use burn::nn::RotaryEncoding as BurnRotaryEncoding;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rocfire_burn::custom::operators::{self, RopeFrequencies, RopeStyle};

use crate::run;

/// Turns pairs of a head's elements by their row's position.
#[derive(Module, Debug)]
pub struct RotaryEncoding {
    /// `[positions, rot / 2]`, f32: the first `rot` elements of a head are turned. A position behind the last takes the last.
    pub cosines: Tensor<2>,
    /// The same of sines.
    pub sines: Tensor<2>,
    /// Which elements form a pair.
    #[module(skip)]
    pub style: RopeStyle,
}

impl RotaryEncoding {
    /// Tables of the positions from 0 on, computed in f64.
    pub fn new(frequencies: &RopeFrequencies, positions: usize, style: RopeStyle, device: &Device) -> RotaryEncoding {
        let RopeFrequencies { inverse, magnitude, .. } = frequencies;
        let of = Tensor::<1>::from_data(TensorData::new(inverse.clone(), [inverse.len()]), (device, DType::F64));
        let kernel = operators::rope_table(*magnitude, 0, positions);
        let tables = run(kernel, vec![of.into_dispatch()]).unwrap_or_default();
        if let Ok([cosines, sines]) = <[_; 2]>::try_from(tables) {
            let [cosines, sines] = [cosines, sines].map(Tensor::from_dispatch);
            return RotaryEncoding { cosines, sines, style };
        }
        let table = |of: fn(f64) -> f64| {
            let angles = (0..positions).flat_map(|at| inverse.iter().map(move |turn| at as f64 * turn));
            let values = angles.map(|angle| (of(angle) * magnitude) as f32).collect();
            Tensor::from_data(TensorData::new(values, [positions, inverse.len()]), (device, DType::F32))
        };
        RotaryEncoding { cosines: table(f64::cos), sines: table(f64::sin), style }
    }

    /// Turns `[batches, heads, rows, depth]`, whose first row is at position `first`.
    ///
    /// # Panics
    /// If a head has fewer elements than are turned; off rocfire's devices if a position is behind the tables.
    pub fn forward(&self, x: Tensor<4>, first: usize) -> Tensor<4> {
        let kernel = operators::rope(self.style, first as i64, false);
        let tables = [&self.cosines, &self.sines].map(|table| table.clone().into_dispatch());
        let inputs = std::iter::once(x.clone().into_dispatch()).chain(tables).collect();
        crate::one(run(kernel, inputs)).unwrap_or_else(|| self.written_out(x, first))
    }

    /// Turns rows at positions of their own, `[batches, rows]`; `None` off rocfire's devices.
    ///
    /// # Panics
    /// As [`RotaryEncoding::forward`].
    pub fn forward_at(&self, x: Tensor<4>, positions: Tensor<2, Int>) -> Option<Tensor<4>> {
        let kernel = operators::rope(self.style, 0, true);
        let tables = [&self.cosines, &self.sines].map(|table| table.clone().into_dispatch());
        let inputs = std::iter::once(x.into_dispatch()).chain(tables).chain([positions.into_dispatch()]).collect();
        crate::one(run(kernel, inputs))
    }

    fn written_out(&self, x: Tensor<4>, first: usize) -> Tensor<4> {
        let [batches, heads, rows, depth] = x.dims();
        let half = self.cosines.dims()[1];
        let table =
            |table: &Tensor<2>| table.clone().narrow(0, first, rows).cast(x.dtype()).reshape([1, 1, rows, half, 1]);
        let (cosines, sines) = (table(&self.cosines), table(&self.sines));
        let turned = x.clone().narrow(3, 0, 2 * half);
        let rest = (depth > 2 * half).then(|| x.narrow(3, 2 * half, depth - 2 * half));
        // Pairs as `[half, 2]`.
        let pairs = match self.style {
            RopeStyle::NeoX => turned.reshape([batches, heads, rows, 2, half]).swap_dims(3, 4),
            RopeStyle::GptJ => turned.reshape([batches, heads, rows, half, 2]),
        };
        let (a, b) = (pairs.clone().narrow(4, 0, 1), pairs.narrow(4, 1, 1));
        let turned = [a.clone() * cosines.clone() - b.clone() * sines.clone(), b * cosines + a * sines];
        let turned = Tensor::cat(turned.into(), 4);
        let turned = match self.style {
            RopeStyle::NeoX => turned.swap_dims(3, 4),
            RopeStyle::GptJ => turned,
        };
        Tensor::cat(std::iter::once(turned.reshape([batches, heads, rows, 2 * half])).chain(rest).collect(), 3)
    }
}

impl From<BurnRotaryEncoding> for RotaryEncoding {
    /// The same positions and frequencies, elements `2 i` and `2 i + 1` a pair.
    fn from(module: BurnRotaryEncoding) -> RotaryEncoding {
        let [positions, depth, _] = module.freq_complex.dims();
        let table = |at: usize| {
            let pairs = module.freq_complex.clone().reshape([positions, depth / 2, 4]);
            pairs.narrow(2, at, 1).reshape([positions, depth / 2]).cast(DType::F32)
        };
        RotaryEncoding { cosines: table(0), sines: table(1), style: RopeStyle::GptJ }
    }
}
