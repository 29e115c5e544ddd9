//! A HIP kernel of one's own as an operator on Burn's tensors, with its gradient.
//!
//! `gate.hip` holds the kernels, [`gate_kernel`] makes an operator of them, and [`GateOps`] gives it to every backend: on rocfire's
//! one launch forward and one backward, elsewhere the composition that the kernel is checked against. Code that is generic
//! over `Backend`, as models' layers are, then calls `B::gate(x, y)`.

#![deny(missing_docs)]

use burn_autodiff::Autodiff;
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, TensorData, TensorMetadata, read_sync};
use burn_flex::Flex;
use rocfire_burn::custom::{CustomKernel, CustomOps, CustomTensor};
use rocfire_burn::{Fused, Rocm};

/// `silu(x) · y` with its gradient.
pub fn gate_kernel() -> CustomKernel<CustomKernel> {
    const SOURCE: &str = include_str!("gate.hip");
    // SAFETY: both kernels stay below `count`, which `launched` takes from the inputs; all tensors have their shape.
    let (forward, gradient) = unsafe {
        (CustomKernel::new("gate", SOURCE, "gate"), CustomKernel::new("gate_gradient", SOURCE, "gate_gradient"))
    };
    // Called with both inputs, the output and its gradient, it gives a gradient for each input.
    forward.with_gradient(gradient.outputs(|call| call.inputs[..2].to_vec()))
}

/// Backends with a gate.
pub trait GateOps: Backend {
    /// `silu(x) · y` of two tensors of one shape, f32.
    fn gate(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_mul(Self::float_mul(x.clone(), Self::sigmoid(x)), y)
    }
}

fn launched<B: CustomOps>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    assert_eq!(x.shape(), y.shape(), "gate: x and y must have one shape");
    let count = x.shape().num_elements() as u32;
    let inputs = vec![CustomTensor::Float(x), CustomTensor::Float(y)];
    B::custom(&gate_kernel(), inputs, &[count.into()]).remove(0).into_float()
}

macro_rules! launched_on {
    ($($backend:ty),*) => {
        $(impl GateOps for $backend {
            fn gate(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self> {
                launched::<Self>(x, y)
            }
        })*
    };
}
launched_on!(Rocm, Fused, Autodiff<Rocm>, Autodiff<Fused>);

impl GateOps for Flex {}
impl GateOps for Autodiff<Flex> {}

/// `gate(2 x, y)`, and the gradients by `x` and `y` of a weighted sum of it.
pub fn gradients<B: Backend>(
    device: &B::Device,
    [rows, columns]: [usize; 2],
    gate: impl FnOnce(FloatTensor<Autodiff<B>>, FloatTensor<Autodiff<B>>) -> FloatTensor<Autodiff<B>>,
) -> [TensorData; 3] {
    type A<B> = Autodiff<B>;
    let wave = |scale: f32| {
        let values = (0..rows * columns).map(|n| (n as f32 * scale).sin() * 3.0).collect::<Vec<f32>>();
        A::<B>::float_from_data(TensorData::new(values, [rows, columns]), device)
    };
    let [x, y] = [0.37, 0.73].map(|scale| A::<B>::float_set_require_grad(wave(scale), true));
    let out = gate(A::<B>::float_mul_scalar(x.clone(), 2.0f32.into()), y.clone());
    let gradients = A::<B>::backward(A::<B>::float_sum(A::<B>::float_mul(out.clone(), wave(0.11))));
    let read = |tensor| read_sync(B::float_into_data(tensor)).expect("the device has no reason to fail");
    let gradient = |tensor| read(A::<B>::grad(tensor, &gradients).expect("the sum depends on it"));
    let (dx, dy) = (gradient(&x), gradient(&y));
    [read(A::<B>::inner(out)), dx, dy]
}

/// The largest difference of two tensors of one shape.
pub fn apart(ours: &TensorData, theirs: &TensorData) -> f32 {
    assert_eq!(ours.shape(), theirs.shape());
    ours.iter::<f32>().zip(theirs.iter::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
