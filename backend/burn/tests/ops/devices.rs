//! Several devices, many threads, memory: what no single operator shows.

use burn_backend::ops::{FloatTensorOps, QTensorOps, TransactionOps, TransactionPrimitive};
use burn_backend::quantization::{QuantScheme, QuantStore};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType, TensorData, TensorMetadata, read_sync};
use rocfire_burn::{Fused, Rocm, RocmDevice};

use crate::check::{bool, bools, f32s, float, floats, int, ints, numbers};

fn emulated<D: From<RocmDevice>>(name: &str) -> D {
    RocmDevice::emulated(name).unwrap().into()
}

#[test]
fn tensors_move_between_devices_of_all_kinds() {
    fn moved<B: Backend<Device: From<RocmDevice>>>() {
        let here = emulated("gfx942");
        for there in ["gfx942:1", "gfx1100", "gfx1100:1"].map(emulated) {
            let x = f32s::<B>(&[5, 7], 1, &here);
            // A view, and a computation that has not run.
            let view = B::float_swap_dims(B::float_mul(x.clone(), x.clone()), 0, 1);
            let on = B::float_to_device(view.clone(), &there);
            assert_eq!(on.device(), there);
            assert_eq!(float::<B>(on.clone()), float::<B>(view.clone()));
            // It is computed with where it is, and comes back.
            let sum = B::float_sum_dim(B::float_add(on.clone(), on), 1);
            let back = B::float_to_device(sum, &here);
            assert_eq!(back.device(), here);
            let expected = float::<B>(B::float_sum_dim(B::float_add(view.clone(), view), 1));
            assert_eq!(float::<B>(back), expected);

            let half = floats::<B>(&[3], DType::F16, 2, &here);
            assert_eq!(float::<B>(B::float_to_device(half.clone(), &there)), float::<B>(half));
            let whole = ints::<B>(&[1, -2, 1 << 40], &[3], DType::I64, &here);
            assert_eq!(int::<B>(B::int_to_device(whole.clone(), &there)), int::<B>(whole));
            let truths = bools::<B>(&[2, 3], 3, &here);
            assert_eq!(bool::<B>(B::bool_to_device(truths.clone(), &there)), bool::<B>(truths));
            let none = f32s::<B>(&[0, 3], 1, &here);
            assert_eq!(B::float_to_device(none, &there).shape().to_vec(), [0, 3]);
        }
    }
    moved::<Rocm>();
    moved::<Fused>();

    let (here, there) = (emulated("gfx942"), emulated("gfx1100"));
    let scheme = QuantScheme::default().with_store(QuantStore::PackedU32(0));
    let q = Rocm::quantize_dynamic(f32s::<Rocm>(&[4, 8], 1, &here), &scheme);
    let on = Rocm::q_to_device(q.clone(), &there);
    assert_eq!(on.device(), there);
    assert_eq!(read_sync(Rocm::q_into_data(on)).unwrap(), read_sync(Rocm::q_into_data(q)).unwrap());
}

#[test]
fn tensors_of_two_devices_are_no_operator_s() {
    let (x, y) = (f32s::<Rocm>(&[4], 1, &emulated("gfx942")), f32s::<Rocm>(&[4], 1, &emulated("gfx942:1")));
    let add = std::panic::AssertUnwindSafe(|| Rocm::float_add(x, y));
    let panic = std::panic::catch_unwind(add).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("emulated:gfx942:1") && message.contains("not on"), "{message}");
}

/// A few operators of every kind of launch, whose result says which thread it was.
fn program<B: Backend>(thread: u64, device: &B::Device) -> Vec<f64> {
    let x = f32s::<B>(&[17, 40], thread, device);
    let y = f32s::<B>(&[40, 9], thread + 100, device);
    let chain = |x: FloatTensor<B>| B::float_tanh(B::float_add(B::float_mul(x.clone(), x.clone()), x));
    let mut product = B::float_matmul(chain(x), y);
    for _ in 0..4 {
        product = chain(product);
    }
    let sums = B::float_sum_dim(product.clone(), 1);
    numbers(&float::<B>(B::float_div(product, sums)))
}

#[test]
fn many_threads_use_one_device() {
    fn run<B: Backend<Device: From<RocmDevice>>>() {
        let device = &emulated("gfx942");
        let alone: Vec<Vec<f64>> = (1..=6).map(|thread| program::<B>(thread, device)).collect();
        for _ in 0..3 {
            let together: Vec<Vec<f64>> = std::thread::scope(|scope| {
                let spawn = |thread| scope.spawn(move || program::<B>(thread, device));
                let threads: Vec<_> = (1..=6).map(spawn).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(together, alone);
        }
    }
    run::<Rocm>();
    run::<Fused>();
}

#[test]
fn a_tensor_made_on_one_thread_is_used_on_another() {
    fn run<B: Backend<Device: From<RocmDevice>>>() {
        let device = emulated("gfx942");
        let x = B::float_exp(f32s::<B>(&[100], 1, &device));
        let expected = numbers(&float::<B>(B::float_neg(x.clone())));
        let handle = std::thread::spawn(move || numbers(&float::<B>(B::float_neg(x))));
        assert_eq!(handle.join().unwrap(), expected);
    }
    run::<Rocm>();
    run::<Fused>();
}

#[test]
fn memory_is_told_kept_apart_and_given_back() {
    fn run<B: Backend<Device: From<RocmDevice>>>(device: &B::Device) {
        let zeros = |bytes: usize| {
            let data = TensorData::new(vec![0.0f32; bytes / 4], [bytes / 4]);
            let tensor = B::float_from_data(data, device);
            B::sync(device).unwrap();
            tensor
        };
        let usage = || B::memory_pool_usage(device).unwrap();
        let before = usage();
        let passing = zeros(600_000);
        let used = usage();
        assert_eq!(used.bytes_in_use - before.bytes_in_use, 600_000);
        assert_eq!(used.number_allocs - before.number_allocs, 1);
        assert!(used.bytes_padding > before.bytes_padding && used.bytes_reserved >= used.bytes_in_use);

        let weights = B::memory_persistent_allocations(device, 500_000, zeros);
        let [small, large] = B::memory_pool_report(device).unwrap().try_into().unwrap();
        assert_eq!((small.page_size, large.page_size), (2 << 20, 20 << 20));
        assert!(small.pages >= 2, "the weights lie in a page of their own");
        assert!(small.pages_peak >= small.pages && small.largest_alloc >= 600_000);

        // Nothing of what passed keeps its page, although the weights came after it.
        drop(passing);
        B::sync(device).unwrap();
        B::memory_cleanup(device);
        let after = B::memory_pool_report(device).unwrap();
        assert!(after[0].pages < small.pages, "{after:?}");
        let (reserved, in_use) = (usage().bytes_reserved, usage().bytes_in_use);
        assert!(reserved < used.bytes_reserved + (2 << 20) && in_use >= 500_000, "{reserved} {in_use}");
        assert_eq!(weights.shape().num_elements(), 125_000);
    }
    // Devices of their own: others would be counted with them.
    run::<Rocm>(&emulated("gfx942:7"));
    run::<Fused>(&emulated("gfx942:8"));
}

#[test]
fn a_transaction_reads_everything_in_its_order() {
    let device = &emulated("gfx942");
    let large = f32s::<Rocm>(&[1100, 1000], 1, device);
    let floats = [large, f32s::<Rocm>(&[3], 2, device), floats::<Rocm>(&[2, 2], DType::F16, 3, device)];
    let view = Rocm::float_swap_dims(f32s::<Rocm>(&[3, 5], 4, device), 0, 1);
    let floats: Vec<_> = floats.into_iter().chain([view, f32s::<Rocm>(&[0], 5, device)]).collect();
    let whole = vec![ints::<Rocm>(&[1, 2, 3], &[3], DType::I32, device)];
    let truths = vec![bools::<Rocm>(&[9], 6, device)];
    let quantised: Vec<_> = [QuantStore::Native, QuantStore::PackedU32(0)]
        .map(|store| QuantScheme::default().with_store(store))
        .map(|scheme| Rocm::quantize_dynamic(f32s::<Rocm>(&[4, 8], 7, device), &scheme))
        .into();
    let transaction = TransactionPrimitive::new(floats.clone(), quantised.clone(), whole.clone(), truths.clone());
    let read = read_sync(Rocm::tr_execute(transaction)).unwrap();
    assert_eq!(read.read_floats, floats.into_iter().map(float::<Rocm>).collect::<Vec<_>>());
    assert_eq!(read.read_ints, whole.into_iter().map(int::<Rocm>).collect::<Vec<_>>());
    assert_eq!(read.read_bools, truths.into_iter().map(bool::<Rocm>).collect::<Vec<_>>());
    let one_by_one: Vec<_> = quantised.into_iter().map(|q| read_sync(Rocm::q_into_data(q)).unwrap()).collect();
    assert_eq!(read.read_qfloats, one_by_one);
}
