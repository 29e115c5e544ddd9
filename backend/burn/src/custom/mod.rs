//! A user's own HIP kernel as an operator.
//!
//! A [`CustomKernel`] is a source with the name of a kernel in it, and what the operator has to know: which outputs it has
//! and how many threads. [`CustomOps::custom`] calls it on every backend of this crate: at once on [`Rocm`], behind
//! what was recorded on [`Fused`](crate::Fused), with the gradient that [`CustomKernel::with_gradient`] gave it under `Autodiff`.
//!
//! ```
//! use burn_backend::{TensorData, ops::FloatTensorOps, read_sync};
//! use rocfire_burn::custom::{CustomKernel, CustomOps, CustomTensor};
//! use rocfire_burn::{Rocm, RocmDevice};
//!
//! const SOURCE: &str = r#"
//!     extern "C" __global__ void scaled(const float* x, float* y, float factor, unsigned count) {
//!         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!         if (i < count) y[i] = factor * x[i];
//!     }
//! "#;
//! // SAFETY: it accesses `count` elements of one input and of an output of the same shape.
//! let scaled = unsafe { CustomKernel::new("scaled", SOURCE, "scaled") };
//!
//! let device = RocmDevice::emulated("gfx942")?;
//! let x = Rocm::float_from_data(TensorData::from([1.0f32, 2.0, 3.0]), &device);
//! let y = Rocm::custom(&scaled, vec![CustomTensor::Float(x)], &[3.0f32.into(), 3u32.into()]).remove(0);
//! let y = read_sync(Rocm::float_into_data(y.into_float())).unwrap();
//! assert_eq!(y, TensorData::from([3.0f32, 6.0, 9.0]));
//! # Ok::<(), rocfire_burn::Error>(())
//! ```
//!
//! # The kernel
//! It is compiled when it is first called on a device, for that device's architecture, and kept on disk; macros in its text stand for
//! what [`CustomKernel::define`] says. It is ordinary HIP: HIP's names are there without an `#include`, and HIP's headers can be
//! included, whether there is a ROCm or not (`hip/hip_runtime.h`, `hip/hip_fp16.h`, `hip/hip_bf16.h`,
//! `hip/hip_cooperative_groups.h`, …), and of C's those that device code needs (`stdint.h`, `math.h`, …). Contraction is off, so
//! that a fused multiply-add is written `fma`. Its parameters are: a pointer for each input, a pointer for each output, then the
//! scalars, all in the order of the call and with their C types. Tensors are row-major and without gaps: an input that is a view
//! of another kind is copied first. Bools are bytes; f16 is HIP's `__half`, bf16 `__hip_bfloat16`. What is in rocfire's own
//! namespace `rf` can be used as well.
//!
//! `printf` prints when the launch ends on an emulated device, and as HIP and CUDA do on a card whose own compiler made the
//! kernel (hiprtc, NVRTC). On an AMD GPU without hiprtc the kernel is clang's, and what it prints comes at the next read or
//! synchronisation.
//!
//! # Errors
//! What is wrong at a call is a panic with the message, as with Burn's own operators; under `Fused` it is the error of
//! whoever reads an output. A source that does not compile names the kernel and carries the compiler's words. Arguments that
//! are more or fewer than the kernel's parameters are told by their number and size.

mod autodiff;
mod call;
mod fused;
pub mod operators;

use std::fmt;
use std::sync::Arc;

use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, Shape, TensorMetadata};
use rocfire_hal::Source;

pub use autodiff::{CustomGradient, NoGradient, Saved};
pub use call::{CustomScalar, LaunchShape};

use crate::{Rocm, RocmTensor};
use call::run;

/// Threads of a workgroup unless the kernel says otherwise.
const THREADS: u32 = 256;

/// Shape and element type of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSpec {
    /// Its extents.
    pub shape: Shape,
    /// Its type, as Burn names it.
    pub dtype: DType,
}

impl TensorSpec {
    /// Of an output that a kernel is to make.
    pub fn new(shape: Shape, dtype: DType) -> TensorSpec {
        TensorSpec { shape, dtype }
    }
}

/// What the functions of a [`CustomKernel`] are asked with.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Shapes and types of the inputs.
    pub inputs: &'a [TensorSpec],
    /// Shapes and types of the outputs; none while they are asked for.
    pub outputs: &'a [TensorSpec],
    /// The scalars.
    pub scalars: &'a [CustomScalar],
}

type Outputs = Arc<dyn Fn(&Call<'_>) -> Vec<TensorSpec> + Send + Sync>;
type Shapes = Arc<dyn Fn(&Call<'_>) -> LaunchShape + Send + Sync>;

/// A kernel with a gradient `G`. A clone is a handle to the same.
#[derive(Clone)]
pub struct CustomKernel<G = NoGradient> {
    parts: Arc<Parts>,
    gradient: G,
}

#[derive(Clone)]
struct Parts {
    name: &'static str,
    entry: String,
    text: String,
    defines: Vec<(String, String)>,
    /// Text and macros, hashed once.
    source: Source,
    outputs: Outputs,
    shape: Shapes,
    /// What runs in place of a text.
    operator: Option<operators::Operator>,
}

impl Parts {
    fn hashed(name: &'static str, text: &str, defines: &[(String, String)]) -> Source {
        let defines: Vec<_> = defines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Source::hip(name, text, &defines)
    }
}

impl CustomKernel {
    /// The kernel `entry` of a source. `name` is the operator's, for messages and profiles.
    ///
    /// Unless told otherwise it has one output, of the first input's shape and type, and a thread for each of its elements, in
    /// workgroups of 256.
    ///
    /// # Safety
    /// For every call that the program makes with it, the kernel accesses no memory but what its inputs and outputs cover (an
    /// emulated device checks that), and ends.
    pub unsafe fn new(name: &'static str, source: impl Into<String>, entry: impl Into<String>) -> CustomKernel {
        let (text, entry) = (source.into(), entry.into());
        let outputs = |call: &Call<'_>| call.inputs.first().cloned().into_iter().collect();
        let shape =
            |call: &Call<'_>| LaunchShape::over(call.outputs.first().map_or(0, |y| y.shape.num_elements()), THREADS);
        let source = Parts::hashed(name, &text, &[]);
        let parts = Parts {
            name,
            entry,
            text,
            defines: Vec::new(),
            source,
            outputs: Arc::new(outputs),
            shape: Arc::new(shape),
            operator: None,
        };
        CustomKernel { parts: Arc::new(parts), gradient: NoGradient }
    }

    /// The same with a gradient. What it promises is [`CustomKernel::new`]'s caller's.
    pub fn with_gradient<G: CustomGradient>(self, gradient: G) -> CustomKernel<G> {
        CustomKernel { parts: self.parts, gradient }
    }
}

impl<G> CustomKernel<G> {
    /// The same with a macro in its source; it replaces one of the same name.
    pub fn define(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        let parts = Arc::make_mut(&mut self.parts);
        let (name, value) = (name.into(), value.to_string());
        parts.defines.retain(|(defined, _)| *defined != name);
        parts.defines.push((name, value));
        parts.source = Parts::hashed(parts.name, &parts.text, &parts.defines);
        self
    }

    /// The same with outputs as `outputs` says. Only shapes, types and scalars can be asked, so that they are known before the
    /// inputs are.
    pub fn outputs(mut self, outputs: impl Fn(&Call<'_>) -> Vec<TensorSpec> + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.parts).outputs = Arc::new(outputs);
        self
    }

    /// The same, launched as `shape` says. Where that is no workgroup at all, nothing is launched.
    pub fn launched(mut self, shape: impl Fn(&Call<'_>) -> LaunchShape + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.parts).shape = Arc::new(shape);
        self
    }

    /// The operator's name.
    pub fn name(&self) -> &'static str {
        self.parts.name
    }
}

impl<G: fmt::Debug> fmt::Debug for CustomKernel<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { name, entry, defines, .. } = &*self.parts;
        f.debug_struct("CustomKernel")
            .field("name", name)
            .field("entry", entry)
            .field("defines", defines)
            .field("gradient", &self.gradient)
            .finish_non_exhaustive()
    }
}

/// A tensor that a custom kernel takes or gives.
#[derive(Clone, Debug)]
pub enum CustomTensor<B: Backend> {
    /// Floats.
    Float(FloatTensor<B>),
    /// Integers.
    Int(IntTensor<B>),
    /// Bools.
    Bool(BoolTensor<B>),
}

impl<B: Backend> CustomTensor<B> {
    /// Its shape and type.
    pub fn spec(&self) -> TensorSpec {
        match self {
            CustomTensor::Float(tensor) => TensorSpec::new(tensor.shape(), tensor.dtype()),
            CustomTensor::Int(tensor) => TensorSpec::new(tensor.shape(), tensor.dtype()),
            CustomTensor::Bool(tensor) => TensorSpec::new(tensor.shape(), tensor.dtype()),
        }
    }

    /// Its floats.
    ///
    /// # Panics
    /// If it has none.
    #[track_caller]
    pub fn into_float(self) -> FloatTensor<B> {
        match self {
            CustomTensor::Float(tensor) => tensor,
            other => panic!("a custom kernel's tensor: expected floats, got {:?}", other.spec().dtype),
        }
    }

    /// Its integers.
    ///
    /// # Panics
    /// If it has none.
    #[track_caller]
    pub fn into_int(self) -> IntTensor<B> {
        match self {
            CustomTensor::Int(tensor) => tensor,
            other => panic!("a custom kernel's tensor: expected integers, got {:?}", other.spec().dtype),
        }
    }

    /// Its bools.
    ///
    /// # Panics
    /// If it has none.
    #[track_caller]
    pub fn into_bool(self) -> BoolTensor<B> {
        match self {
            CustomTensor::Bool(tensor) => tensor,
            other => panic!("a custom kernel's tensor: expected bools, got {:?}", other.spec().dtype),
        }
    }

    /// The tensor of a backend that has one type for all kinds, by its element type.
    fn of(tensor: FloatTensor<B>, dtype: DType) -> CustomTensor<B>
    where
        B: Backend<IntTensorPrimitive = FloatTensor<B>, BoolTensorPrimitive = FloatTensor<B>>,
    {
        match dtype {
            DType::Bool(_) => CustomTensor::Bool(tensor),
            _ if dtype.is_float() => CustomTensor::Float(tensor),
            _ => CustomTensor::Int(tensor),
        }
    }

    fn into_any(self) -> FloatTensor<B>
    where
        B: Backend<IntTensorPrimitive = FloatTensor<B>, BoolTensorPrimitive = FloatTensor<B>>,
    {
        match self {
            CustomTensor::Float(tensor) | CustomTensor::Int(tensor) | CustomTensor::Bool(tensor) => tensor,
        }
    }
}

/// Backends that call kernels of a user's.
pub trait CustomOps: Backend {
    /// Calls `kernel` and gives its outputs. All inputs are on one device, and there is at least one.
    fn custom<G: CustomGradient>(
        kernel: &CustomKernel<G>,
        inputs: Vec<CustomTensor<Self>>,
        scalars: &[CustomScalar],
    ) -> Vec<CustomTensor<Self>>;
}

impl CustomOps for Rocm {
    fn custom<G: CustomGradient>(
        kernel: &CustomKernel<G>,
        inputs: Vec<CustomTensor<Rocm>>,
        scalars: &[CustomScalar],
    ) -> Vec<CustomTensor<Rocm>> {
        use crate::error::OrPanic;
        let inputs: Vec<RocmTensor> = inputs.into_iter().map(CustomTensor::into_any).collect();
        let outputs = run(&kernel.parts, inputs, scalars).or_panic();
        outputs
            .into_iter()
            .map(|tensor| (tensor.dtype(), tensor))
            .map(|(dtype, y)| CustomTensor::of(y, dtype))
            .collect()
    }
}

/// The shape and type of a tensor on a device.
fn spec_of(tensor: &RocmTensor) -> TensorSpec {
    TensorSpec::new(Shape::from(tensor.as_inner().shape().to_vec()), tensor.dtype())
}
