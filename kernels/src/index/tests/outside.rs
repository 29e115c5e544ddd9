//! Indices outside their axis: which are told of, as what, and that everything goes on.

use rocfire_hal::{Error as HalError, IndexFault};

use super::*;

/// An axis of so many elements.
const EXTENT: usize = 5;

/// A device of its own: what others of this process do is not told of here, nor the other way round.
pub(super) fn device_with_checks() -> Device {
    Device::open(device().id(), rocfire_hal::Config::from_env().unwrap()).unwrap()
}

/// What is outside an axis of [`EXTENT`] in a type: at its end, far behind it, before it, the type's extremes, and what the low half
/// of would be inside.
fn outside(dtype: DType) -> Vec<i64> {
    let wide: &[i64] = match dtype {
        DType::I64 => &[-1, i64::MIN, i64::MAX, (1 << 32) + 1, -(1 << 32), 3 << 32],
        DType::I32 => &[-1, i64::from(i32::MIN), i64::from(i32::MAX)],
        DType::I16 => &[-1, i64::from(i16::MIN), i64::from(i16::MAX)],
        DType::I8 => &[-1, i64::from(i8::MIN), i64::from(i8::MAX)],
        DType::U64 => &[(1 << 32) + 1, i64::MAX, -1],
        DType::U32 => &[i64::from(u32::MAX)],
        DType::U16 => &[i64::from(u16::MAX)],
        _ => &[i64::from(u8::MAX)],
    };
    [EXTENT as i64, EXTENT as i64 + 1].iter().chain(wide).copied().collect()
}

fn integers(device: &Device, shape: &[usize], dtype: DType, values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()[..dtype.size_bytes()].to_vec()).collect();
    Tensor::from_bytes(device, shape, dtype, &bytes).unwrap()
}

fn told(result: rocfire_hal::Result<Vec<u8>>) -> IndexFault {
    match result {
        Err(HalError::Index(fault)) => fault,
        other => panic!("expected a report of an index, got {other:?}"),
    }
}

const INDEX_TYPES: [DType; 8] =
    [DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8];

/// Runs an operator of `[EXTENT, 3]` and two indices, of which the second is outside, for every type and index.
fn each_is_told_of(op: &str, run: impl Fn(&Device, &Tensor) -> Tensor, want: impl Fn(&[f64]) -> bool, shape: &[usize]) {
    let device = device_with_checks();
    let off = device_without_index_checks();
    for dtype in INDEX_TYPES {
        for index in outside(dtype) {
            let mut all = vec![1; shape.iter().product()];
            *all.last_mut().unwrap() = index;
            let out = run(&device, &integers(&device, shape, dtype, &all));
            let fault = told(out.to_bytes());
            assert_eq!(fault, IndexFault { op: op.to_owned(), index, extent: EXTENT as i64 }, "{dtype}");
            assert!(want(&read(&out)), "{op} {dtype} {index}: told once, and the rest is as it should be");
            let out = run(&off, &integers(&off, shape, dtype, &all));
            assert!(want(&read(&out)), "{op} {dtype} {index}: the same without the check");
        }
    }
    let inside = run(&device, &integers(&device, shape, DType::U8, &vec![4; shape.iter().product()]));
    inside.to_bytes().unwrap();
    device.sync().unwrap();
}

fn x(device: &Device) -> Tensor {
    tensor(device, &[EXTENT, 3], DType::F32, &(0..15).map(f64::from).collect::<Vec<_>>(), Lie::Plain)
}

#[test]
fn gather_tells() {
    let run = |device: &Device, index: &Tensor| {
        let mut out = tensor(device, &[2, 3], DType::F32, &[9.0; 6], Lie::Plain);
        gather(device.stream(), 0, x(device).view(), index.view(), out.view_mut()).unwrap();
        out
    };
    each_is_told_of("gather", run, |got| got == [3.0, 4.0, 5.0, 3.0, 4.0, 0.0], &[2, 3]);
}

#[test]
fn select_tells() {
    let run = |device: &Device, index: &Tensor| {
        let mut out = tensor(device, &[2, 3], DType::F32, &[9.0; 6], Lie::Plain);
        select(device.stream(), 0, x(device).view(), index.view(), out.view_mut()).unwrap();
        out
    };
    each_is_told_of("select", run, |got| got == [3.0, 4.0, 5.0, 0.0, 0.0, 0.0], &[2]);
}

#[test]
fn scatter_tells() {
    let run = |device: &Device, index: &Tensor| {
        let mut out = tensor(device, &[EXTENT, 1], DType::F32, &[0.0; EXTENT], Lie::Plain);
        let value = tensor(device, &[2, 1], DType::F32, &[2.0; 2], Lie::Plain);
        scatter(device.stream(), Update::Add, 0, out.view_mut(), index.view(), value.view()).unwrap();
        out
    };
    each_is_told_of("scatter", run, |got| got == [0.0, 2.0, 0.0, 0.0, 0.0], &[2, 1]);
}

#[test]
fn select_update_by_rows_tells() {
    let run = |device: &Device, index: &Tensor| {
        let mut out = tensor(device, &[EXTENT], DType::F16, &[0.0; EXTENT], Lie::Plain);
        let value = tensor(device, &[2], DType::F16, &[2.0; 2], Lie::Plain);
        select_update(device.stream(), Update::Add, 0, out.view_mut(), index.view(), value.view()).unwrap();
        out
    };
    each_is_told_of("select_update", run, |got| got == [0.0, 2.0, 0.0, 0.0, 0.0], &[2]);
}

#[test]
fn updates_by_lines_and_of_sorted_indices_tell() {
    let device = device_with_checks();
    let fault = |op: &str, index, extent| IndexFault { op: op.to_owned(), index, extent };
    for index in [9001, -1, (1 << 32) + 1, -(1 << 32)] {
        // So many rows that lines are cheaper.
        let mut out = tensor(&device, &[9001, 2], DType::I32, &vec![0.0; 18002], Lie::Plain);
        let value = tensor(&device, &[12, 2], DType::I32, &[1.0; 24], Lie::Plain);
        let mut indices = vec![1; 12];
        indices[7] = index;
        let list = integers(&device, &[12], DType::I64, &indices);
        select_update(device.stream(), Update::Add, 0, out.view_mut(), list.view(), value.view()).unwrap();
        assert_eq!(told(out.to_bytes()), fault("select_update", index, 9001));
        let mut want = vec![0.0; 18002];
        want[2..4].fill(11.0);
        assert_eq!(read(&out), want);
        // So many indices that they are sorted.
        let count = 1500;
        let mut indices = vec![3; count];
        indices[100] = index;
        let list = integers(&device, &[count], DType::I64, &indices);
        let value = tensor(&device, &[count], DType::I32, &vec![1.0; count], Lie::Plain);
        let mut out = tensor(&device, &[40], DType::I32, &[0.0; 40], Lie::Plain);
        scatter(device.stream(), Update::Add, 0, out.view_mut(), list.view(), value.view()).unwrap();
        assert_eq!(told(out.to_bytes()), fault("scatter", index, 40));
        assert_eq!(read(&out)[3], count as f64 - 1.0);
        let mut out = tensor(&device, &[1100], DType::I32, &[0.0; 1100], Lie::Plain);
        select_update(device.stream(), Update::Add, 0, out.view_mut(), list.view(), value.view()).unwrap();
        assert_eq!(told(out.to_bytes()), fault("select_update", index, 1100));
        assert_eq!(read(&out)[3], count as f64 - 1.0);
    }
}

#[test]
fn the_greatest_of_a_type_may_say_that_there_is_no_index() {
    let device = device_with_checks();
    for (index, greatest) in [
        (DType::U8, i64::from(u8::MAX)),
        (DType::U32, i64::from(u32::MAX)),
        (DType::I16, i64::from(i16::MAX)),
        (DType::I64, i64::MAX),
    ] {
        // By rows, by lines, and sorted.
        for (extent, columns, count, dtype) in
            [(300, 1, 5, DType::F16), (9001, 2, 12, DType::I32), (1100, 1, 700, DType::F32)]
        {
            for by_slice in [true, false] {
                let name = if by_slice { "index_add" } else { "scatter_add" };
                let run = |other: i64| {
                    let mut indices = vec![3; count];
                    (indices[1], indices[2]) = (greatest, other);
                    let value = tensor(&device, &[count, columns], dtype, &vec![1.0; count * columns], Lie::Plain);
                    let mut out = tensor(&device, &[extent, columns], dtype, &vec![0.0; extent * columns], Lie::Plain);
                    let updating = Updating { update: Update::Add, indices: Indices::AllButGreatest, name: Some(name) };
                    if by_slice {
                        let list = integers(&device, &[count], index, &indices);
                        select_update(device.stream(), updating, 0, out.view_mut(), list.view(), value.view()).unwrap();
                    } else {
                        let indices: Vec<i64> = indices.iter().flat_map(|&index| vec![index; columns]).collect();
                        let list = integers(&device, &[count, columns], index, &indices);
                        scatter(device.stream(), updating, 0, out.view_mut(), list.view(), value.view()).unwrap();
                    }
                    out
                };
                let mut want = vec![0.0; extent * columns];
                want[3 * columns..4 * columns].fill(count as f64 - 2.0);
                // In short types there is such a place, and none the less it is not meant.
                assert_eq!(read(&run(greatest)), want, "{name} {index} {extent}");
                if greatest > extent as i64 {
                    let out = run(greatest - 1);
                    let fault = IndexFault { op: name.to_owned(), index: greatest - 1, extent: extent as i64 };
                    assert_eq!((told(out.to_bytes()), read(&out)), (fault, want), "{index}");
                }
            }
        }
    }
}

#[test]
fn updates_of_an_axis_without_elements_tell() {
    let device = device_with_checks();
    let probe = tensor(&device, &[1], DType::F32, &[1.0], Lie::Plain);
    for dtype in [DType::I64, DType::I32, DType::U8] {
        let value = tensor(&device, &[2, 3], DType::F32, &[1.0; 6], Lie::Plain);
        let mut out = Tensor::empty(&device, &[0, 3], DType::F32).unwrap();
        let list = integers(&device, &[2], dtype, &[3, 3]);
        select_update(device.stream(), Update::Add, 0, out.view_mut(), list.view(), value.view()).unwrap();
        let fault = |op: &str| IndexFault { op: op.to_owned(), index: 3, extent: 0 };
        assert_eq!(told(probe.to_bytes()), fault("select_update"));
        let places = integers(&device, &[2, 3], dtype, &[3; 6]);
        scatter(device.stream(), Update::Assign, 0, out.view_mut(), places.view(), value.view()).unwrap();
        assert_eq!(told(probe.to_bytes()), fault("scatter"));
        // Nothing to update is nothing to tell.
        let nothing = Tensor::empty(&device, &[0, 3], DType::F32).unwrap();
        let none = Tensor::empty(&device, &[0], dtype).unwrap();
        select_update(device.stream(), Update::Add, 0, out.view_mut(), none.view(), nothing.view()).unwrap();
        probe.to_bytes().unwrap();
    }
}

#[test]
fn sorted_sums_of_16_bit_floats_are_kept_in_f32() {
    let device = device();
    let count = 1025;
    for dtype in [DType::BF16, DType::F16] {
        let mut values = vec![1.0; count];
        // What the type counts to in ones: from there on each would be rounded away.
        values[0] = if dtype == DType::BF16 { 256.0 } else { 2048.0 };
        let mut out = tensor(&device, &[1100, 1], dtype, &vec![0.0; 1100], Lie::Plain);
        let index = integers(&device, &[count], DType::I32, &vec![7; count]);
        let value = tensor(&device, &[count, 1], dtype, &values, Lie::Plain);
        select_update(device.stream(), Update::Add, 0, out.view_mut(), index.view(), value.view()).unwrap();
        assert_eq!(read(&out)[7], values[0] + 1024.0, "{dtype}");
    }
}

#[test]
fn the_next_read_of_anything_tells_once_and_the_device_goes_on() {
    let device = device_with_checks();
    let (x, other) = (x(&device), tensor(&device, &[2], DType::F32, &[1.0, 2.0], Lie::Plain));
    let bad = integers(&device, &[1], DType::I64, &[7]);
    let good = integers(&device, &[1], DType::I64, &[4]);
    let mut out = tensor(&device, &[1, 3], DType::F32, &[9.0; 3], Lie::Plain);
    select(device.stream(), 0, x.view(), bad.view(), out.view_mut()).unwrap();
    let fault = told(other.to_bytes());
    let message = fault.to_string();
    assert!(message.contains("select: index 7 is outside an axis of 5 elements"), "{message}");
    assert!(message.contains("ROCFIRE_CHECK_INDEX=0"), "{message}");
    assert_eq!((read(&other), read(&out)), (vec![1.0, 2.0], vec![0.0; 3]));
    select(device.stream(), 0, x.view(), good.view(), out.view_mut()).unwrap();
    device.sync().unwrap();
    assert_eq!(read(&out), [12.0, 13.0, 14.0]);
    // Of two operators the first is told of, and each after a wait.
    select(device.stream(), 0, x.view(), bad.view(), out.view_mut()).unwrap();
    let column = integers(&device, &[1, 3], DType::I64, &[-9; 3]);
    gather(device.stream(), 0, x.view(), column.view(), out.view_mut()).unwrap();
    assert!(matches!(device.sync(), Err(HalError::Index(IndexFault { index: 7, .. }))));
    device.sync().unwrap();
    gather(device.stream(), 0, x.view(), column.view(), out.view_mut()).unwrap();
    assert!(matches!(device.sync(), Err(HalError::Index(IndexFault { index: -9, .. }))));
    device.sync().unwrap();
}

#[test]
fn every_replay_of_a_graph_tells() {
    let device = device_with_checks();
    let (x, index) = (x(&device), integers(&device, &[1], DType::I64, &[6]));
    let mut out = tensor(&device, &[1, 3], DType::F32, &[9.0; 3], Lie::Plain);
    // Loaded while a graph is recorded, too.
    device.begin_capture().unwrap();
    select(device.stream(), 0, x.view(), index.view(), out.view_mut()).unwrap();
    let graph = device.end_capture().unwrap();
    device.sync().unwrap();
    for _ in 0..3 {
        // SAFETY: what was recorded is alive, and nobody else uses it.
        unsafe { graph.replay().unwrap() };
        assert_eq!(told(out.to_bytes()).index, 6);
        device.sync().unwrap();
    }
    device.stream().copy_to_device(&4i64.to_le_bytes(), index.buffer(), 0).unwrap();
    // SAFETY: as above.
    unsafe { graph.replay().unwrap() };
    assert_eq!(read(&out), [12.0, 13.0, 14.0]);
}

#[test]
fn with_sync_the_launch_itself_tells() {
    let config = rocfire_hal::Config::from_env().unwrap().with_sync(true);
    let device = Device::open(device().id(), config).unwrap();
    let (x, index) = (x(&device), integers(&device, &[1], DType::I64, &[6]));
    let mut out = tensor(&device, &[1, 3], DType::F32, &[9.0; 3], Lie::Plain);
    let error = select(device.stream(), 0, x.view(), index.view(), out.view_mut()).unwrap_err().to_string();
    assert!(error.contains("select: index 6 is outside an axis of 5 elements"), "{error}");
    device.sync().unwrap();
}

#[test]
fn threads_of_two_devices_are_told_of_their_own() {
    let work = |bad: i64| {
        let device = device_with_checks();
        let x = x(&device);
        for round in 0..20 {
            let index = integers(&device, &[1], DType::I64, &[if round % 2 == 0 { bad } else { 2 }]);
            let mut out = tensor(&device, &[1, 3], DType::F32, &[9.0; 3], Lie::Plain);
            select(device.stream(), 0, x.view(), index.view(), out.view_mut()).unwrap();
            match round % 2 {
                0 => assert_eq!(told(out.to_bytes()).index, bad),
                _ => assert_eq!(read(&out), [6.0, 7.0, 8.0]),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(100));
        scope.spawn(|| work(-100));
    });
}

#[test]
fn threads_of_one_device_are_told_of_each_wrong_index_or_of_an_earlier_one() {
    let device = device_with_checks();
    let reports = std::sync::atomic::AtomicUsize::new(0);
    let work = |bad: i64| {
        let x = x(&device);
        for _ in 0..20 {
            let index = integers(&device, &[1], DType::I64, &[bad]);
            let mut out = tensor(&device, &[1, 3], DType::F32, &[9.0; 3], Lie::Plain);
            select(device.stream(), 0, x.view(), index.view(), out.view_mut()).unwrap();
            if let Err(error) = out.to_bytes() {
                assert!(matches!(error, HalError::Index(IndexFault { index: 100 | -100, extent: 5, .. })), "{error}");
                reports.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(100));
        scope.spawn(|| work(-100));
    });
    let _ = device.sync();
    device.sync().unwrap();
    assert!(reports.into_inner() >= 20, "each read or the other thread's tells");
}
