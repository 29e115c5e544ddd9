//! Ids outside their axis: an error at the next read or wait, as Candle's CPU device gives one at once.

use candle_core::{DType, Device, Result, Tensor};

/// A device that no other test uses: reports go to whoever reads next. A machine may have one card only; its tests then run one at
/// a time (`--test-threads 1`).
fn own(number: usize) -> Device {
    Device::new_cuda(number).or_else(|_| Device::new_cuda(0)).unwrap()
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
        true => each_is_told_of(&own(6)),
        false => again("ids_outside_are_told_of_without_a_queue", "ROCFIRE_FUSION", "0"),
    }
}

#[test]
fn without_the_check_nothing_is_told() {
    if !is_again() {
        return again("without_the_check_nothing_is_told", "ROCFIRE_CHECK_INDEX", "0");
    }
    let device = own(7);
    for (_, program) in PROGRAMS {
        let [none, outside] = [i64::from(u32::MAX), EXTENT].map(|value| {
            let out = program(&x(&device).unwrap(), &Ids { value, dtype: DType::U32 }).unwrap();
            out.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        });
        assert_eq!(none, outside, "zeros, or nothing written");
    }
    device.synchronize().unwrap();
}
