//! Ids outside their axis: an error at the next read or wait, as Candle's CPU device gives one at once.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor};
use rocfire_hal::DriverKind;

/// A device that no other test of this process uses: reports go to whoever reads next. A machine may have one card only; its tests
/// then run one at a time (`--test-threads 1`). There is always another emulated one, so of those a missing one is a mistake here.
fn own(number: usize) -> Device {
    let is_emulated = rocfire_candle::device().unwrap().id.driver() == DriverKind::Emulated;
    match Device::new_cuda(number) {
        Err(_) if !is_emulated => Device::new_cuda(0).unwrap(),
        device => device.unwrap(),
    }
}

const EXTENT: i64 = 6;

/// An id in the last place of a list, after zeros.
struct Ids {
    value: i64,
    dtype: DType,
}

impl Ids {
    fn make(&self, shape: &[usize], device: &Device) -> Result<Tensor> {
        let mut all = vec![0i64; shape.iter().product()];
        *all.last_mut().expect("no list here is empty") = self.value;
        Tensor::from_vec(all, shape, &Device::Cpu)?.to_dtype(self.dtype)?.to_device(device)
    }
}

/// An operator's name in a report, and the operator on `[6, 4]` elements, between others.
type Program = (&'static str, fn(&Tensor, &Ids) -> Result<Tensor>);

const PROGRAMS: [Program; 7] = [
    ("index_select", |x, ids| x.exp()?.index_select(&ids.make(&[3], x.device())?, 0)?.tanh()),
    ("index_select", |x, ids| x.t()?.contiguous()?.index_select(&ids.make(&[3], x.device())?, 1)),
    ("index_select", |x, ids| {
        candle_nn::Module::forward(&candle_nn::Embedding::new(x.clone(), 4), &ids.make(&[2, 3], x.device())?)
    }),
    ("gather", |x, ids| x.gather(&ids.make(&[2, 4], x.device())?, 0)? * 2.0),
    ("scatter", |x, ids| x.scatter(&ids.make(&[2, 4], x.device())?, &x.narrow(0, 0, 2)?, 0)?.exp()),
    ("scatter_add", |x, ids| x.scatter_add(&ids.make(&[2, 4], x.device())?, &x.narrow(0, 0, 2)?, 0)?.exp()),
    ("index_add", |x, ids| x.index_add(&ids.make(&[3], x.device())?, &x.narrow(0, 0, 3)?.contiguous()?, 0)?.exp()),
];

fn x(device: &Device) -> Result<Tensor> {
    Tensor::arange(0f32, 24.0, &Device::Cpu)?.reshape((6, 4))?.affine(0.1, 0.0)?.to_device(device)
}

fn outside() -> Vec<Ids> {
    let of = |dtype, values: &[i64]| values.iter().map(|&value| Ids { value, dtype }).collect::<Vec<_>>();
    let wide = of(DType::I64, &[EXTENT, -1, i64::MIN, i64::MAX - 1, (1 << 32) + 1, -(1 << 32)]);
    let narrow = of(DType::U32, &[EXTENT, EXTENT + 1, i64::from(u32::MAX) - 1]);
    wide.into_iter().chain(narrow).chain(of(DType::U8, &[EXTENT, 254])).collect()
}

fn each_is_told_of(device: &Device) {
    for (number, (op, program)) in PROGRAMS.into_iter().enumerate() {
        for ids in outside() {
            let what = format!("program {number}, {op} of {:?} {}", ids.dtype, ids.value);
            assert!(program(&x(&Device::Cpu).unwrap(), &ids).is_err(), "{what}: Candle's CPU device refuses");
            let out = program(&x(device).unwrap(), &ids).unwrap();
            let message = out.to_device(&Device::Cpu).expect_err(&what).to_string();
            let wanted = format!("{op}: index {} is outside an axis of {EXTENT} elements", ids.value);
            assert!(message.contains(&wanted), "{what}: {message}");
            device.synchronize().unwrap();
        }
        // The greatest of a type says that there is nothing.
        for (value, dtype) in
            [(i64::MAX, DType::I64), (i64::from(u32::MAX), DType::U32), (255, DType::U8), (5, DType::U32)]
        {
            let ids = Ids { value, dtype };
            let ours = program(&x(device).unwrap(), &ids).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let theirs =
                program(&x(&Device::Cpu).unwrap(), &ids).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
            assert!(ours.iter().zip(&theirs).all(near), "{op} {dtype:?} {value}: {ours:?}, {theirs:?}");
        }
    }
}

#[test]
fn ids_outside_are_told_of_at_the_next_read() {
    each_is_told_of(&own(3));
}

#[test]
fn ids_outside_are_told_of_at_the_next_wait() {
    let device = own(4);
    let ids = Ids { value: 9, dtype: DType::U32 };
    let out = (PROGRAMS[0].1)(&x(&device).unwrap(), &ids).unwrap();
    let message = device.synchronize().unwrap_err().to_string();
    assert!(message.contains("index_select: index 9 is outside an axis of 6 elements"), "{message}");
    assert_eq!(out.to_vec2::<f32>().unwrap()[2], [0.0; 4], "tanh of what was read as zero");
}

#[test]
fn a_loss_tells_of_a_target_that_is_no_class() {
    let device = own(5);
    let targets = Tensor::from_vec(vec![0u32, 3, 4, 1, 2, 0], 6, &device).unwrap();
    let loss = candle_nn::loss::cross_entropy(&x(&device).unwrap(), &targets).unwrap();
    let message = loss.to_scalar::<f32>().unwrap_err().to_string();
    assert!(message.contains("gather: index 4 is outside an axis of 4 elements"), "{message}");
    device.synchronize().unwrap();
}

#[test]
fn an_axis_without_elements_has_no_place_for_an_update() {
    let device = own(1);
    let nothing = Tensor::zeros((0, 4), DType::F32, &device).unwrap();
    let (values, ids) = (x(&device).unwrap().narrow(0, 0, 3).unwrap(), Ids { value: 2, dtype: DType::U32 });
    let list = |shape: &[usize]| ids.make(shape, &device).unwrap();
    let updates = [
        ("index_add", nothing.index_add(&list(&[3]), &values, 0)),
        ("scatter_add", nothing.scatter_add(&list(&[3, 4]), &values, 0)),
        ("scatter", nothing.scatter(&list(&[3, 4]), &values, 0)),
    ];
    for (number, (op, out)) in updates.into_iter().enumerate() {
        assert_eq!(out.unwrap().dims(), [0, 4]);
        if number == 0 {
            // One report for all that waited until then: the first.
            let message = device.synchronize().expect_err(op).to_string();
            assert!(message.contains(&format!("{op}: index 0 is outside an axis of 0 elements")), "{message}");
        }
    }
}

fn quantised(shape: &[usize], dtype: GgmlDType, device: &Device) -> Result<QTensor> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|at: usize| (at % 23) as f32 - 11.0).collect();
    QTensor::quantize(&Tensor::from_vec(values, shape, device)?, dtype)
}

#[test]
fn rows_and_experts_outside_quantised_weights_are_told_of() {
    let device = own(2);
    let list = |ids: &[u32], shape: &[usize]| Tensor::from_vec(ids.to_vec(), shape, &device).unwrap();
    for dtype in [GgmlDType::F32, GgmlDType::F16, GgmlDType::Q4_0, GgmlDType::Q8_0, GgmlDType::Q2K, GgmlDType::Q6K] {
        // Rows so short that what Candle allocates behind them has room for one more.
        let rows = quantised(&[6, 256], dtype, &device).unwrap();
        let good = rows.embedding(&list(&[5, 0], &[2])).unwrap().to_vec2::<f32>().unwrap();
        let whole = rows.dequantize(&device).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(good, [&whole[5][..], &whole[0]], "{dtype:?}");
        for id in [6, 7, u32::MAX - 1] {
            let out = rows.embedding(&list(&[5, id], &[2])).unwrap();
            let message = out.to_vec2::<f32>().unwrap_err().to_string();
            let wanted = format!("get_rows: index {id} is outside an axis of 6 elements");
            assert!(message.contains(&wanted), "{dtype:?}: {message}");
            assert_eq!(out.to_vec2::<f32>().unwrap(), [&whole[5][..], &[0.0; 256]], "{dtype:?}");
        }
    }
    let tokens = Tensor::ones((2, 1, 256), DType::F32, &device).unwrap();
    for dtype in [GgmlDType::Q8_0, GgmlDType::Q2K, GgmlDType::Q3K, GgmlDType::Q4K, GgmlDType::Q5K, GgmlDType::Q6K] {
        let experts = quantised(&[3, 2, 256], dtype, &device).unwrap();
        let run = |ids: &[u32]| experts.indexed_moe_forward(&tokens, &list(ids, &[2, 2])).unwrap();
        let good = run(&[2, 0, 1, 2]).flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let bad = run(&[2, 3, 1, 2]);
        let message = bad.to_vec3::<f32>().unwrap_err().to_string();
        assert!(message.contains("indexed_moe_forward: index 3 is outside an axis of 3 elements"), "{message}");
        let bad = bad.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(bad, [&good[..2], &[0.0; 2], &good[4..]].concat(), "{dtype:?}");
    }
}

#[test]
fn experts_outside_a_mixture_are_told_of() {
    let device = own(6);
    let (x, weights) =
        (Tensor::ones((18, 64), DType::F16, &device).unwrap(), Tensor::ones((3, 16, 64), DType::F16, &device).unwrap());
    let tokens = Tensor::arange(0_u32, 18, &device).unwrap();
    for is_prefill in [true, false] {
        for last in [3, 70_000, u32::MAX] {
            let experts: Vec<u32> = (0..18).map(|token| if token == 17 { last } else { token / 6 }).collect();
            let experts = Tensor::from_vec(experts, 18, &device).unwrap();
            let out = candle_nn::moe::moe_gemm(&x, &weights, &None, &tokens, &experts, 1, is_prefill).unwrap();
            let row = |out: Tensor| out.get(16).unwrap().to_dtype(DType::F32).unwrap().to_vec1::<f32>();
            // The greatest says that there is none.
            if last != u32::MAX {
                let message = row(out.clone()).unwrap_err().to_string();
                let wanted = format!("moe_gemm: index {last} is outside an axis of 3 elements");
                assert!(message.contains(&wanted), "prefill {is_prefill}: {message}");
            }
            assert_eq!(row(out).unwrap(), [64.0; 16]);
        }
    }
}

/// Runs a test of this program once more, with another setting.
fn again(test: &str, setting: &str, value: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("outside::{test}")])
        .env("ROCFIRE_TEST_AGAIN", "1")
        .env(setting, value)
        .output()
        .unwrap();
    assert!(output.status.success(), "{setting}={value}: {}", String::from_utf8_lossy(&output.stdout));
}

fn is_again() -> bool {
    std::env::var_os("ROCFIRE_TEST_AGAIN").is_some()
}

#[test]
fn ids_outside_are_told_of_without_a_queue() {
    match is_again() {
        true => each_is_told_of(&own(1)),
        false => again("ids_outside_are_told_of_without_a_queue", "ROCFIRE_FUSION", "0"),
    }
}

#[test]
fn without_the_check_nothing_is_told() {
    if !is_again() {
        return again("without_the_check_nothing_is_told", "ROCFIRE_CHECK_INDEX", "0");
    }
    let device = own(1);
    for (_, program) in PROGRAMS {
        let [none, outside] = [i64::from(u32::MAX), EXTENT].map(|value| {
            let out = program(&x(&device).unwrap(), &Ids { value, dtype: DType::U32 }).unwrap();
            out.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        });
        assert_eq!(none, outside, "zeros, or nothing written");
    }
    device.synchronize().unwrap();
}
