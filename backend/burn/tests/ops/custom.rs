//! Custom kernels: eager, in a stream, with gradients, and what is said of wrong ones.

use burn_autodiff::Autodiff;
use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, DType, IntDType, Shape, TensorData};
use burn_flex::{Flex, FlexDevice};
use rocfire_burn::custom::{
    Call, CustomGradient, CustomKernel, CustomOps, CustomScalar, CustomTensor, LaunchShape, Saved, TensorSpec,
};
use rocfire_burn::{Fused, Rocm, RocmDevice};

#[path = "../../../../kernels/prelude/tests/expressions/mod.rs"]
mod expressions;

use crate::check::{CLOSE, EXACT, compare, device, f32s, float, floats, int, numbers};

const SOURCE: &str = r#"
// x / (1 + exp(-slope x)), times y
extern "C" __global__ void gate(const float* x, const float* y, float* out, float slope, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = x[i] / (1.0f + expf(-slope * x[i])) * y[i];
}

extern "C" __global__ void gate_gradient(const float* x, const float* y, const float* out, const float* grad, float* dx,
                                         float* dy, float slope, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float s = 1.0f / (1.0f + expf(-slope * x[i]));
    dx[i] = grad[i] * y[i] * (s + slope * x[i] * s * (1.0f - s));
    dy[i] = grad[i] * x[i] * s;
}

// Sum of each row, and where its largest is: one workgroup of THREADS for each row.
extern "C" __global__ void rows(const TYPE* x, TYPE* sum, int* largest, unsigned width) {
    __shared__ float sums[THREADS];
    __shared__ float most[THREADS];
    __shared__ int where[THREADS];
    const TYPE* row = x + (unsigned long long)blockIdx.x * width;
    float s = 0.0f, m = -3.4e38f;
    int at = 0;
    for (unsigned i = threadIdx.x; i < width; i += THREADS) {
        float value = rf::cast<float>(row[i]);
        s += value;
        if (value > m) {
            m = value;
            at = (int)i;
        }
    }
    sums[threadIdx.x] = s;
    most[threadIdx.x] = m;
    where[threadIdx.x] = at;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            unsigned other = threadIdx.x + half;
            sums[threadIdx.x] += sums[other];
            if (most[other] > most[threadIdx.x]) {
                most[threadIdx.x] = most[other];
                where[threadIdx.x] = where[other];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        sum[blockIdx.x] = rf::cast<TYPE>(sums[0]);
        largest[blockIdx.x] = where[0];
    }
}
"#;

fn kernel(name: &'static str, source: &str, entry: &str) -> CustomKernel {
    // SAFETY: every kernel above stays below the count or width that the tests give it, which is that of its inputs.
    unsafe { CustomKernel::new(name, source, entry) }.define("TYPE", "float").define("THREADS", 64)
}

/// The gate with its gradient as a kernel.
fn gate() -> CustomKernel<CustomKernel> {
    let gradient = kernel("gate_gradient", SOURCE, "gate_gradient");
    kernel("gate", SOURCE, "gate").with_gradient(gradient.outputs(|call| call.inputs[..2].to_vec()))
}

/// A gradient in terms of Burn's operators.
#[derive(Clone, Debug)]
struct Composed;

impl CustomGradient for Composed {
    fn backward<B: CustomOps>(&self, saved: Saved<B>, grad: FloatTensor<B>) -> Vec<Option<FloatTensor<B>>> {
        let [x, y] = [0, 1].map(|n| saved.inputs[n].clone().into_float());
        let CustomScalar::F32(slope) = saved.scalars[0] else { unreachable!("the slope is f32") };
        let s = B::sigmoid(B::float_mul_scalar(x.clone(), slope.into()));
        let rest = B::float_sub(s.clone(), B::float_mul(s.clone(), s.clone()));
        let inner = B::float_add(s.clone(), B::float_mul_scalar(B::float_mul(x.clone(), rest), slope.into()));
        let dx = B::float_mul(B::float_mul(grad.clone(), y), inner);
        // Asked for only where it is needed.
        let dy = saved.needed[1].then(|| B::float_mul(grad, B::float_mul(x, s)));
        vec![Some(dx), dy]
    }
}

fn scalars(count: usize) -> [CustomScalar; 2] {
    [1.5f32.into(), (count as u32).into()]
}

fn call<B: CustomOps, G: CustomGradient>(
    kernel: &CustomKernel<G>,
    x: FloatTensor<B>,
    y: FloatTensor<B>,
) -> FloatTensor<B> {
    let count = burn_backend::TensorMetadata::shape(&x).num_elements();
    B::custom(kernel, vec![CustomTensor::Float(x), CustomTensor::Float(y)], &scalars(count)).remove(0).into_float()
}

fn written_out<B: Backend>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    B::float_mul(B::float_mul(x.clone(), B::sigmoid(B::float_mul_scalar(x, 1.5f32.into()))), y)
}

/// The output of `f` amid other operators, and the gradients of a weighted sum of it.
fn results<B: Backend>(
    device: &B::Device,
    tracked: [bool; 2],
    f: impl FnOnce(FloatTensor<Autodiff<B>>, FloatTensor<Autodiff<B>>) -> FloatTensor<Autodiff<B>>,
) -> Vec<TensorData> {
    type A<B> = Autodiff<B>;
    let leaf = |seed, tracked| A::<B>::float_set_require_grad(f32s::<A<B>>(&[7, 33], seed, device), tracked);
    let (x, y) = (leaf(1, tracked[0]), leaf(2, tracked[1]));
    let out = f(A::<B>::float_mul_scalar(x.clone(), 2.0f32.into()), y.clone());
    let weighted = A::<B>::float_mul(out.clone(), f32s::<A<B>>(&[7, 33], 3, device));
    let gradients = A::<B>::backward(A::<B>::float_sum(weighted));
    let gradient = |x| A::<B>::grad(x, &gradients).map(float::<B>);
    [Some(float::<A<B>>(out)), gradient(&x), gradient(&y)].into_iter().flatten().collect()
}

#[test]
fn a_kernel_and_its_gradient_are_as_the_written_out_form() {
    for tracked in [[true, true], [true, false], [false, true]] {
        let theirs = results::<Flex>(&FlexDevice, tracked, written_out::<Autodiff<Flex>>);
        let composed = kernel("gate", SOURCE, "gate").with_gradient(Composed);
        for (what, ours) in [
            ("eager", results::<Rocm>(&device(), tracked, |x, y| call::<Autodiff<Rocm>, _>(&gate(), x, y))),
            ("fused", results::<Fused>(&device(), tracked, |x, y| call::<Autodiff<Fused>, _>(&gate(), x, y))),
            ("composed", results::<Fused>(&device(), tracked, |x, y| call::<Autodiff<Fused>, _>(&composed, x, y))),
        ] {
            compare(&format!("{what}, tracked {tracked:?}"), &ours, &theirs, CLOSE);
        }
    }
}

#[test]
fn views_are_read_as_rows_and_nothing_is_launched_for_nothing() {
    fn transposed<B: CustomOps<Device: From<RocmDevice>>>() -> TensorData {
        let device = &device();
        let x = B::float_swap_dims(f32s::<B>(&[5, 9], 1, device), 0, 1);
        float::<B>(call::<B, _>(&gate(), x, f32s::<B>(&[9, 5], 2, device)))
    }
    let x = Flex::float_swap_dims(f32s::<Flex>(&[5, 9], 1, &FlexDevice), 0, 1);
    let theirs = float::<Flex>(written_out::<Flex>(x, f32s::<Flex>(&[9, 5], 2, &FlexDevice)));
    compare("views", &[transposed::<Rocm>(), transposed::<Fused>()], &[theirs.clone(), theirs], CLOSE);

    let none = || f32s::<Rocm>(&[0, 4], 1, &device());
    assert_eq!(float::<Rocm>(call::<Rocm, _>(&gate(), none(), none())).shape(), &Shape::new([0, 4]));
}

#[test]
fn outputs_of_several_kinds_and_types() {
    fn rows<B: CustomOps<Device: From<RocmDevice>>>(dtype: DType, name: &str) -> (TensorData, TensorData) {
        let device = &device();
        let rows = kernel("rows", SOURCE, "rows")
            .define("TYPE", name)
            .outputs(|call| {
                let rows = Shape::new([call.inputs[0].shape[0]]);
                vec![TensorSpec::new(rows.clone(), call.inputs[0].dtype), TensorSpec::new(rows, DType::I32)]
            })
            .launched(|call: &Call<'_>| LaunchShape {
                grid: [call.outputs[0].shape[0] as u32, 1, 1],
                block: [64, 1, 1],
                lds_bytes: 0,
            });
        let x = floats::<B>(&[5, 131], dtype, 4, device);
        let mut outputs = B::custom(&rows, vec![CustomTensor::Float(x)], &[131u32.into()]);
        let largest = outputs.pop().unwrap().into_int();
        (float::<B>(outputs.remove(0).into_float()), int::<B>(largest))
    }
    for (dtype, name, tolerance) in [(DType::F32, "float", 1e-4), (DType::F16, "rf::f16", 0.05)] {
        let x = floats::<Flex>(&[5, 131], dtype, 4, &FlexDevice);
        let expected = numbers(&float::<Flex>(x));
        for (sum, largest) in [rows::<Rocm>(dtype, name), rows::<Fused>(dtype, name)] {
            assert_eq!((sum.dtype(), largest.dtype()), (dtype, DType::I32));
            for (row, (sum, largest)) in numbers(&sum).iter().zip(numbers(&largest)).enumerate() {
                let values = &expected[row * 131..][..131];
                assert!((sum - values.iter().sum::<f64>()).abs() <= tolerance, "row {row}: {sum}");
                let most = values.iter().copied().fold(f64::MIN, f64::max);
                assert_eq!(values[largest as usize], most, "row {row}");
            }
        }
    }
}

#[test]
fn a_kernel_in_a_stream_is_one_launch_between_fused_ones() {
    let device = device();
    let (x, y) = (f32s::<Fused>(&[7, 33], 1, &device), f32s::<Fused>(&[7, 33], 2, &device));
    let (eager_x, eager_y) =
        (f32s::<Rocm>(&[7, 33], 1, &crate::check::device()), f32s::<Rocm>(&[7, 33], 2, &crate::check::device()));
    fn program<B: CustomOps>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
        let x = B::float_exp(B::float_add(x, y.clone()));
        B::float_neg(B::float_sqrt(B::float_abs(call::<B, _>(&gate(), x, y))))
    }
    let (fused, eager) = (float::<Fused>(program::<Fused>(x, y)), float::<Rocm>(program::<Rocm>(eager_x, eager_y)));
    compare("amid chains", &[fused], &[eager], EXACT);
}

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// What is said of a wrong call: at the call on `Rocm`, at the read under `Fused`.
fn refusals(kernel: &CustomKernel, inputs: usize, scalars: &[CustomScalar]) -> [String; 2] {
    let x = || f32s::<Rocm>(&[4], 1, &device());
    let eager = std::panic::AssertUnwindSafe(|| {
        Rocm::custom(kernel, (0..inputs).map(|_| CustomTensor::Float(x())).collect(), scalars)
    });
    let x = || f32s::<Fused>(&[4], 1, &device());
    let inputs = (0..inputs).map(|_| CustomTensor::Float(x())).collect();
    let fused = Fused::custom(kernel, inputs, scalars).remove(0).into_float();
    let fused = burn_backend::read_sync(Fused::float_into_data(fused)).unwrap_err();
    [message(std::panic::catch_unwind(eager).unwrap_err()), fused.to_string()]
}

#[test]
fn a_source_that_does_not_compile_is_told_in_the_compiler_s_words() {
    let source = "extern \"C\" __global__ void broken(float* x) {\n    x[0] = nonsense;\n}\n";
    for text in refusals(&kernel("broken", source, "broken"), 1, &[]) {
        assert!(text.contains("broken") && text.contains("nonsense"), "{text}");
        assert!(text.contains(":2:"), "the line is the source's own: {text}");
    }
}

#[test]
fn arguments_that_are_not_the_kernel_s_are_counted() {
    for text in refusals(&kernel("gate", SOURCE, "gate"), 1, &[1.0f32.into()]) {
        assert!(text.contains("32 bytes") && text.contains("1 inputs, 1 outputs and 1 scalars are 20"), "{text}");
    }
    for text in refusals(&kernel("gate", SOURCE, "gates"), 2, &scalars(4)) {
        assert!(text.contains("no kernel gates") && text.contains("gate_gradient"), "{text}");
    }
}

#[test]
fn a_tracked_input_of_a_kernel_without_a_gradient_is_refused() {
    let device = device();
    let leaf = |seed| {
        let x = f32s::<Autodiff<Rocm>>(&[4], seed, &device);
        Autodiff::<Rocm>::float_set_require_grad(x, true)
    };
    let plain = kernel("gate", SOURCE, "gate");
    let call = std::panic::AssertUnwindSafe(|| call::<Autodiff<Rocm>, _>(&plain, leaf(1), leaf(2)));
    let text = message(std::panic::catch_unwind(call).unwrap_err());
    assert!(text.contains("gate") && text.contains("no gradient"), "{text}");
}

#[test]
fn a_gradient_of_another_shape_is_refused() {
    let wrong = kernel("gate_gradient", SOURCE, "gate_gradient");
    let wrong = wrong.outputs(|call| vec![call.inputs[0].clone(), TensorSpec::new(Shape::new([231]), DType::F32)]);
    let kernel = kernel("gate", SOURCE, "gate").with_gradient(wrong);
    let train = std::panic::AssertUnwindSafe(|| {
        results::<Rocm>(&device(), [true, true], |x, y| call::<Autodiff<Rocm>, _>(&kernel, x, y))
    });
    let text = message(std::panic::catch_unwind(train).unwrap_err());
    assert!(text.contains("a gradient must be") && text.contains("[231]"), "{text}");
}

#[test]
fn ordinary_hip_compiles_and_gives_what_it_says() {
    use expressions::{ROWS, THREADS};
    for (arch, wave) in [("gfx942", 64), ("gfx1100", 32)] {
        let device = RocmDevice::emulated(arch).unwrap();
        let kernel = kernel("rows", &expressions::source(), "rows")
            .outputs(|_: &Call<'_>| vec![TensorSpec::new(Shape::new([ROWS.len(), THREADS]), DType::F32)])
            .launched(|_: &Call<'_>| LaunchShape::over(THREADS, THREADS as u32));
        let x: Vec<f32> = (0..THREADS).map(|i| expressions::x(i) as f32).collect();
        let x = Rocm::float_from_data(TensorData::from(&x[..]), &device);
        let zeros = Rocm::int_zeros(Shape::new([ROWS.len()]), &device, IntDType::I32);
        let rows = Rocm::custom(&kernel, vec![CustomTensor::Float(x), CustomTensor::Int(zeros)], &[]).remove(0);
        let rows = float::<Rocm>(rows.into_float());
        expressions::check(rows.as_slice::<f32>().unwrap(), wave);
    }
}
