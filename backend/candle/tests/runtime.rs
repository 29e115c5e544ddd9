//! Candle's device is ours: opening, memory, copies, modules of users, products, random numbers, and what comes back where
//! something is wrong. Nothing here needs a kernel of `candle-kernels`.

use std::sync::Arc;

use candle_core::cuda_backend::WrapErr;
use candle_core::{CudaDevice, DType, Device, Result, Tensor};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg, result, sys};

fn gpu() -> Device {
    rocfire_candle::device().expect("there is always an emulated device").device
}

fn cuda() -> CudaDevice {
    gpu().as_cuda_device().unwrap().clone()
}

fn stream() -> Arc<CudaStream> {
    CudaContext::new(0).unwrap().default_stream()
}

/// The text of an error, which must be one.
fn error<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn new_cuda_is_the_device_that_was_found() {
    let found = rocfire_candle::device().unwrap();
    assert!(found.device.is_cuda());
    assert!(found.to_string().contains(&found.id.to_string()), "{found}");
}

#[test]
fn tensors_go_to_the_device_and_come_back() {
    let device = gpu();
    let values: Vec<f32> = (0..1000).map(|i| i as f32 * 0.5).collect();
    let tensor = Tensor::from_vec(values.clone(), (10, 100), &device).unwrap();
    assert_eq!(tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap(), values);
    let zeros = Tensor::zeros((3, 5), DType::I64, &device).unwrap();
    assert_eq!(zeros.to_vec2::<i64>().unwrap(), vec![vec![0; 5]; 3]);
    let none = Tensor::zeros((0, 5), DType::F32, &device).unwrap();
    assert_eq!(none.to_vec2::<f32>().unwrap(), Vec::<Vec<f32>>::new());
    let back = tensor.to_device(&Device::Cpu).unwrap();
    assert_eq!(back.flatten_all().unwrap().to_vec1::<f32>().unwrap(), values);
}

#[test]
fn memory_of_two_devices_is_copied() {
    let (first, second) = (Device::new_cuda(0).unwrap(), Device::new_cuda(1));
    // A real box may have one GPU; the emulated one has as many as are asked for.
    let Ok(second) = second else {
        println!("skipped: one device only");
        return;
    };
    let values: Vec<u32> = (0..777).collect();
    let moved = Tensor::from_slice(&values, 777, &first).unwrap().to_device(&second).unwrap();
    assert_eq!(moved.device().location(), second.location());
    assert_eq!(moved.to_vec1::<u32>().unwrap(), values);
    let again = Tensor::from_slice(&values, 777, &first).unwrap().to_device(&first).unwrap();
    assert_eq!(again.to_vec1::<u32>().unwrap(), values);
    assert!(CudaContext::device_count().unwrap() >= 2);
}

#[test]
fn too_much_memory_is_an_error_and_the_device_stays_usable() {
    let device = gpu();
    let message = error(Tensor::zeros((1 << 20, 1 << 24), DType::F64, &device));
    assert!(message.contains("memory"), "{message}");
    assert_eq!(Tensor::zeros(3, DType::F32, &device).unwrap().to_vec1::<f32>().unwrap(), [0.0; 3]);
    // SAFETY: nothing is read of what is not there.
    let overflow = unsafe { stream().alloc::<f64>(usize::MAX / 4) };
    assert!(overflow.unwrap_err().to_string().contains("more than there can be"));
}

#[test]
fn no_elements_are_memory_of_no_bytes() {
    let stream = stream();
    // SAFETY: nothing is read.
    let none = unsafe { stream.alloc::<f32>(0).unwrap() };
    assert_eq!(none.len(), 0);
    assert_eq!(stream.clone_dtoh(&none).unwrap(), Vec::<f32>::new());
    assert_eq!(stream.clone_dtod(&none).unwrap().len(), 0);
    let some = stream.clone_htod(&[1_u8, 2, 3]).unwrap();
    assert_eq!(stream.clone_dtoh(&some.slice(3..)).unwrap(), Vec::<u8>::new());
}

#[test]
fn extents_and_strides_stay_on_the_host() {
    let context = CudaContext::with_device(0, own_device()).unwrap();
    let stream = context.default_stream();
    let before = context.device().memory();
    let words = stream.clone_htod(&vec![2_usize, 3, 5, 7]).unwrap();
    let copy = words.try_clone().unwrap();
    assert_eq!(context.device().memory(), before, "no memory was taken");
    // Who asks for the address gets memory with the numbers.
    assert_ne!(copy.device_ptr(&stream).0, 0);
    assert_eq!(stream.clone_dtoh(&copy).unwrap(), [2, 3, 5, 7]);
    assert_eq!(stream.clone_dtoh(&words.slice(1..3)).unwrap(), [3, 5]);
}

#[test]
fn slices_copy_in_parts() {
    let stream = stream();
    let mut target = stream.alloc_zeros::<u32>(6).unwrap();
    stream.memcpy_htod(&[7_u32, 8], &mut target.slice_mut(1..3)).unwrap();
    let source = stream.clone_htod(&[1_u32, 2, 3]).unwrap();
    stream.memcpy_dtod(&source.slice(1..), &mut target.slice_mut(4..)).unwrap();
    let mut host = [9_u32; 6];
    stream.memcpy_dtoh(&target, &mut host).unwrap();
    assert_eq!(host, [0, 7, 8, 0, 2, 3]);
    assert!(stream.memcpy_htod(&[1_u32; 7], &mut target).unwrap_err().to_string().contains("room for 6"));
    assert!(source.try_slice(2..5).is_none());
}

#[test]
fn the_device_says_what_candle_asks() {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: none is needed.
    let ask = |attribute| unsafe { result::device::get_attribute(context.cu_device(), attribute).unwrap() };
    assert_eq!(ask(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    let compute_units = ask(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    assert_eq!(compute_units, context.device().info().compute_units as i32);
    let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    assert_eq!(context.default_stream().capture_status(), Ok(none));
}

/// A device of its own, for counting.
fn own_device() -> rocfire_hal::Device {
    let id = rocfire_hal::DeviceId::from_env().unwrap();
    rocfire_hal::Device::open(id, rocfire_hal::Config::from_env().unwrap()).unwrap()
}

const SAXPY: &str = r#"
extern "C" __global__ void saxpy(const float* x, unsigned long long y_address, float factor, size_t count) {
    float* y = (float*)y_address;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        y[i] += factor * x[i];
    }
}
extern "C" __global__ void late(unsigned int* flag) {
    __shared__ unsigned int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (threadIdx.x + threadIdx.y * blockDim.x == 5) sum = blockDim.x * 1000 + blockDim.y * 100 + gridDim.y;
    __syncthreads();
    if (threadIdx.x == 1 && threadIdx.y == 0 && blockIdx.y == 1) *flag = sum;
}
"#;

#[test]
fn users_bring_kernels_as_hip_text() -> Result<()> {
    let device = cuda();
    let stream = device.cuda_stream();
    let x = stream.clone_htod(&[1_f32, 2.0, 3.0]).w()?;
    let y = stream.clone_htod(&[10_f32, 20.0, 30.0]).w()?;
    let saxpy = device.get_or_load_custom_func("saxpy", "users", SAXPY)?;
    let address = y.device_ptr(&stream).0;
    let (factor, count) = (2_f32, 3_usize);
    let mut arguments = saxpy.builder();
    arguments.arg(&x).arg(&address).arg(&factor).arg(&count);
    // SAFETY: both have three elements.
    unsafe { arguments.launch(LaunchConfig::for_num_elems(3)) }.w()?;
    assert_eq!(stream.clone_dtoh(&y).w()?, [12.0, 24.0, 36.0]);

    let late = device.get_or_load_custom_func("late", "users", SAXPY)?;
    let flag = stream.alloc_zeros::<u32>(1).w()?;
    let config = LaunchConfig { grid_dim: (1, 3, 1), block_dim: (4, 2, 1), shared_mem_bytes: 0 };
    // SAFETY: it writes one element.
    unsafe { late.builder().arg(&flag).launch(config) }.w()?;
    assert_eq!(stream.clone_dtoh(&flag).w()?, [4203]);

    let message = error(device.get_or_load_custom_func("saxpi", "users", SAXPY));
    assert!(message.contains("saxpi") && message.contains("saxpy"), "{message}");
    Ok(())
}

#[test]
fn an_empty_grid_launches_nothing() -> Result<()> {
    let device = cuda();
    let saxpy = device.get_or_load_custom_func("saxpy", "users", SAXPY)?;
    let before = device.cuda_stream().context().device().launches();
    // SAFETY: nothing runs.
    unsafe { saxpy.builder().launch(LaunchConfig::for_num_elems(0)) }.w()?;
    assert_eq!(device.cuda_stream().context().device().launches(), before);
    Ok(())
}

#[test]
fn modules_that_cannot_be_are_errors() {
    let device = cuda();
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n";
    let message = error(device.get_or_load_custom_func("f", "ptx", ptx));
    assert!(message.contains("PTX for sm_80") && message.contains("HIP"), "{message}");
    let message = error(device.get_or_load_custom_func("f", "broken", "extern \"C\" __global__ void f() { nothing; }"));
    assert!(message.contains("module.hip:1") && message.contains("nothing"), "{message}");
}

#[test]
fn wrong_launches_are_errors() -> Result<()> {
    let device = cuda();
    let saxpy = device.get_or_load_custom_func("saxpy", "users", SAXPY)?;
    let x = device.cuda_stream().clone_htod(&[1_f32]).w()?;
    // SAFETY: it is refused.
    let too_few = unsafe { saxpy.builder().arg(&x).launch(LaunchConfig::for_num_elems(1)) };
    let message = too_few.unwrap_err().to_string();
    assert!(message.contains("saxpy") && message.contains("bytes"), "{message}");
    let unknown = device.get_or_load_func("no_such_kernel", &candle_core::cuda_backend::kernels::UNARY);
    let message = error(unknown.map(|_| ()));
    assert!(message.contains("no_such_kernel") && message.contains("unary"), "{message}");
    Ok(())
}

#[test]
fn a_fault_comes_at_the_next_copy() -> Result<()> {
    let context = CudaContext::with_device(0, own_device()).w()?;
    let stream = context.default_stream();
    let module = context.load_module(SAXPY.into()).w()?;
    let saxpy = module.load_function("saxpy").w()?;
    let x = stream.clone_htod(&[1_f32; 4]).w()?;
    let y = stream.clone_htod(&[1_f32; 4]).w()?;
    let (address, factor, count) = (y.device_ptr(&stream).0, 1_f32, 5000_usize);
    let mut arguments = stream.launch_builder(&saxpy);
    arguments.arg(&x).arg(&address).arg(&factor).arg(&count);
    if context.device().id().driver() == rocfire_hal::DriverKind::Emulated {
        // SAFETY: the access behind the end is what is tried: the emulator finds it, and only it runs this.
        unsafe { arguments.launch(LaunchConfig::for_num_elems(5000)) }.w()?;
        let message = stream.clone_dtoh(&y).unwrap_err().to_string();
        assert!(message.contains("saxpy"), "{message}");
    }
    Ok(())
}

#[test]
fn threads_share_one_order() -> Result<()> {
    let device = gpu();
    let stream = device.as_cuda_device()?.cuda_stream();
    let shared = Arc::new(stream.alloc_zeros::<f32>(1000).w()?);
    let one = Arc::new(stream.clone_htod(&vec![1_f32; 1000]).w()?);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (device, shared, one) = (device.clone(), Arc::clone(&shared), Arc::clone(&one));
            std::thread::spawn(move || add(device.as_cuda_device().unwrap(), &one, &shared))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap()?;
    }
    assert_eq!(stream.clone_dtoh(&*shared).w()?, vec![20.0; 1000]);
    Ok(())
}

fn add(device: &CudaDevice, x: &CudaSlice<f32>, y: &CudaSlice<f32>) -> Result<()> {
    let saxpy = device.get_or_load_custom_func("saxpy", "users", SAXPY)?;
    let (address, factor, count) = (y.device_ptr(y.stream()).0, 1_f32, y.len());
    for _ in 0..5 {
        let mut arguments = saxpy.builder();
        arguments.arg(x).arg(&address).arg(&factor).arg(&count);
        // SAFETY: both have `count` elements.
        unsafe { arguments.launch(LaunchConfig::for_num_elems(count as u32)) }.w()?;
    }
    Ok(())
}

#[test]
fn draws_follow_from_the_seed() -> Result<()> {
    let device = gpu();
    let draw = |seed| -> Result<[Vec<f32>; 3]> {
        device.set_seed(seed)?;
        let uniform = Tensor::rand(0_f32, 1.0, 1001, &device)?.to_vec1()?;
        let normal = Tensor::randn(0_f32, 1.0, 1001, &device)?.to_vec1()?;
        Ok([uniform, normal, Tensor::rand(0_f32, 1.0, 1001, &device)?.to_vec1()?])
    };
    let [uniform, normal, second] = draw(7)?;
    assert_eq!(draw(7)?, [uniform.clone(), normal.clone(), second.clone()]);
    assert_ne!(draw(8)?[0], uniform);
    assert_ne!(uniform, second);
    assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)));
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
    assert!((mean(&uniform) - 0.5).abs() < 0.05, "{}", mean(&uniform));
    assert!(mean(&normal).abs() < 0.15, "{}", mean(&normal));
    let wide: Vec<f64> = Tensor::randn(3_f64, 0.0, 5, &device)?.to_vec1()?;
    assert_eq!(wide, [3.0; 5]);
    Ok(())
}

/// A product on both devices, within what the type can hold.
fn products_agree(lhs: &Tensor, rhs: &Tensor, tolerance: f64) -> Result<()> {
    let device = gpu();
    let expected = lhs.to_dtype(DType::F64)?.matmul(&rhs.to_dtype(DType::F64)?)?;
    // The views are made anew on the device: a copy would make them contiguous.
    let (lhs, rhs) = (on(&device, lhs)?, on(&device, rhs)?);
    let got = lhs.matmul(&rhs)?.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    assert_eq!(got.dims(), expected.dims());
    let worst = (got - &expected)?.abs()?.flatten_all()?.max(0)?.to_scalar::<f64>()?;
    let scale = expected.abs()?.flatten_all()?.max(0)?.to_scalar::<f64>()?.max(1.0);
    assert!(worst <= tolerance * scale, "{worst} of {scale} for {:?} {:?}", lhs.layout(), rhs.layout());
    Ok(())
}

/// The same storage and layout on another device.
fn on(device: &Device, tensor: &Tensor) -> Result<Tensor> {
    let copy = tensor.to_device(device)?;
    assert_eq!(copy.stride(), tensor.stride(), "Candle keeps the layout");
    Ok(copy)
}

#[test]
fn products_take_transposes_batches_and_offsets_without_copies() -> Result<()> {
    let cpu = Device::Cpu;
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-12), (DType::F16, 2e-3), (DType::BF16, 2e-2)] {
        let random = |shape: &[usize]| Tensor::randn(0_f32, 1.0, shape, &cpu)?.to_dtype(dtype);
        products_agree(&random(&[5, 7])?, &random(&[7, 3])?, tolerance)?;
        products_agree(&random(&[7, 5])?.t()?, &random(&[3, 7])?.t()?, tolerance)?;
        products_agree(&random(&[2, 3, 4, 9])?, &random(&[2, 3, 9, 1])?, tolerance)?;
        products_agree(&random(&[6, 33, 17])?.narrow(0, 2, 3)?, &random(&[3, 20, 17])?.transpose(1, 2)?, tolerance)?;
        products_agree(&random(&[1, 70])?, &random(&[70, 40])?, tolerance)?;
    }
    Ok(())
}

#[test]
fn products_without_elements_are_empty_or_zero() -> Result<()> {
    let device = gpu();
    let product = |m: usize, k: usize, n: usize| -> Result<Vec<Vec<f32>>> {
        let zeros = |rows, columns| Tensor::zeros((rows, columns), DType::F32, &device);
        zeros(m, k)?.matmul(&zeros(k, n)?)?.to_vec2()
    };
    assert_eq!(product(0, 3, 2)?, Vec::<Vec<f32>>::new());
    assert_eq!(product(2, 0, 3)?, vec![vec![0.0; 3]; 2]);
    Ok(())
}

#[test]
fn scaled_products_add_to_what_is_there() {
    use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
    use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
    let stream = stream();
    let blas = CudaBlas::new(Arc::clone(&stream)).unwrap();
    // Column-major: A is 2×3, B is 2×3 and transposed, C is 2×2.
    let a = stream.clone_htod(&[1_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let b = stream.clone_htod(&[1_f32, 0.0, 0.0, 1.0, 1.0, 1.0]).unwrap();
    let mut c = stream.clone_htod(&[100_f32, f32::NAN, 300.0, 400.0]).unwrap();
    let config = |alpha, beta| GemmConfig {
        transa: CUBLAS_OP_N,
        transb: CUBLAS_OP_T,
        m: 2,
        n: 2,
        k: 3,
        alpha,
        beta,
        lda: 2,
        ldb: 2,
        ldc: 2,
    };
    // SAFETY: none is needed.
    unsafe { blas.gemm(config(2.0, 0.0), &a, &b, &mut c).unwrap() };
    assert_eq!(stream.clone_dtoh(&c).unwrap(), [12.0, 16.0, 16.0, 20.0]);
    // SAFETY: as above.
    unsafe { blas.gemm(config(1.0, 0.5), &a, &b, &mut c).unwrap() };
    assert_eq!(stream.clone_dtoh(&c).unwrap(), [12.0, 16.0, 16.0, 20.0]);
    // SAFETY: as above; it is refused.
    let outside = unsafe { blas.gemm(GemmConfig { m: 3, ..config(1.0, 0.0) }, &a, &b, &mut c) };
    let message = outside.unwrap_err().to_string();
    assert!(message.contains("matrix product"), "{message}");
}
