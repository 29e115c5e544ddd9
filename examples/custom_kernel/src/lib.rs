//! A HIP kernel of one's own in a Burn model, with its gradient.
//!
//! `gate.hip` holds the kernels, [`Gate`] makes operators of them, and [`GatedLayer`] is an ordinary Burn module that uses one. On a
//! device of rocfire's it is one launch forward and one backward; on any other it is written out, which is what the kernel
//! is checked against.

#![deny(missing_docs)]

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, TensorData, activation};
use rocfire_burn::custom::CustomKernel;
use rocfire_burn_nn::custom;

/// `silu(x) · y`.
#[derive(Clone, Debug)]
pub struct Gate(CustomKernel<CustomKernel>);

impl Default for Gate {
    fn default() -> Gate {
        const SOURCE: &str = include_str!("gate.hip");
        // SAFETY: both kernels stay below `count`, which `forward` takes from the inputs; all tensors have their shape.
        let (forward, gradient) = unsafe {
            (CustomKernel::new("gate", SOURCE, "gate"), CustomKernel::new("gate_gradient", SOURCE, "gate_gradient"))
        };
        // Called with both inputs, the output and its gradient, it gives a gradient for each input.
        Gate(forward.with_gradient(gradient.outputs(|call| call.inputs[..2].to_vec())))
    }
}

impl Gate {
    /// The gate of two tensors of one shape, f32.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
        assert_eq!(x.dims(), y.dims(), "gate: x and y must have one shape");
        let count = x.shape().num_elements() as u32;
        let inputs = vec![x.clone().into_dispatch(), y.clone().into_dispatch()];
        match custom(&self.0, inputs, &[count.into()]) {
            Some(mut outputs) => Tensor::from_dispatch(outputs.remove(0)),
            None => activation::silu(x) * y,
        }
    }
}

/// A gated layer, as transformers have it: `down(silu(gate(x)) · up(x))`.
#[derive(Module, Debug)]
pub struct GatedLayer {
    gate: Linear,
    up: Linear,
    down: Linear,
    #[module(skip)]
    product: Gate,
}

impl GatedLayer {
    /// A layer of these widths.
    pub fn new(width: usize, inner: usize, device: &Device) -> GatedLayer {
        GatedLayer {
            gate: LinearConfig::new(width, inner).init(device),
            up: LinearConfig::new(width, inner).init(device),
            down: LinearConfig::new(inner, width).init(device),
            product: Gate::default(),
        }
    }

    /// The layer's output, of the input's shape.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gated = self.product.forward(self.gate.forward(x.clone()), self.up.forward(x));
        self.down.forward(gated)
    }
}

/// Output and the gradients by `x` and `y` of a weighted sum of `gate(2 x, y)`.
pub fn gradients(device: &Device, rows: usize, columns: usize) -> [TensorData; 3] {
    let device = device.clone().autodiff();
    let wave = |scale: f32| {
        let values = (0..rows * columns).map(|n| (n as f32 * scale).sin() * 3.0).collect::<Vec<f32>>();
        Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), &device)
    };
    let (x, y) = (wave(0.37).require_grad(), wave(0.73).require_grad());
    let out = Gate::default().forward(x.clone() * 2.0, y.clone());
    let gradients = (out.clone() * wave(0.11)).sum().backward();
    let gradient = |tensor: &Tensor<2>| tensor.grad(&gradients).expect("the sum depends on it").into_data();
    let (dx, dy) = (gradient(&x), gradient(&y));
    [out.into_data(), dx, dy]
}
