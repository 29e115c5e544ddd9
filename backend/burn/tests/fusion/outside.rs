//! Indices outside their axis: told of at the next read or sync, fused and one by one, by operator, index and extent; and valid
//! programs that compute beyond what they use are told of nothing.

use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{Backend, BackendTypes, DType, Scalar, TensorData, read_sync};
use burn_std::IndexingUpdateOp;
use rocfire_burn::{Fused, Rocm, RocmDevice};

use crate::check::{EXACT, compare, f32s, float, ints};

/// A device that no other test uses: reports go to whoever reads next.
fn own<D: From<RocmDevice>>(number: u16) -> D {
    format!("emulated:gfx942:{number}").parse::<RocmDevice>().unwrap().into()
}

/// An index in the last place of a list, after zeros.
struct Index {
    value: i64,
    dtype: DType,
}

impl Index {
    fn list<B: Backend>(&self, shape: &[usize], device: &B::Device) -> IntTensor<B> {
        let mut all = vec![0; shape.iter().product()];
        *all.last_mut().unwrap() = self.value;
        ints::<B>(&all, shape, self.dtype, device)
    }
}

/// An operator's name in a report, the extent of its axis, and what follows it in a program of `[6, 4]` elements.
type Program<B> = (&'static str, i64, fn(FloatTensor<B>, &Index, &<B as BackendTypes>::Device) -> FloatTensor<B>);

fn programs<B: Backend>() -> Vec<Program<B>> {
    vec![
        ("gather", 6, |x, index, device| B::float_tanh(B::float_gather(0, x, index.list::<B>(&[2, 4], device)))),
        ("select", 6, |x, index, device| B::float_neg(B::float_select(x, 0, index.list::<B>(&[3], device)))),
        ("select", 4, |x, index, device| B::float_select(B::float_exp(x), 1, index.list::<B>(&[3], device))),
        ("gather", 6, |x, index, device| B::float_gather(0, B::float_exp(x), index.list::<B>(&[2, 4], device))),
        // At the places of the outer one, of which one is none, the inner one has indices that nobody asked for.
        ("gather", 5, |x, index, device| {
            let good = ints::<B>(&(0..20).map(|at| at % 6).collect::<Vec<_>>(), &[5, 4], DType::I32, device);
            B::float_gather(0, B::float_gather(0, x, good), index.list::<B>(&[2, 4], device))
        }),
        // As of a loss: one element of each row of what was reduced.
        ("gather", 4, |x, index, device| {
            let total = B::float_log(B::float_sum_dim(B::float_exp(x.clone()), 1));
            B::float_gather(1, B::float_sub(x, total), index.list::<B>(&[6, 1], device))
        }),
        ("scatter", 4, |x, index, device| {
            let (list, value) = (index.list::<B>(&[6, 1], device), f32s::<B>(&[6, 1], 2, device));
            B::float_scatter(1, B::float_exp(x), list, value, IndexingUpdateOp::Add)
        }),
        ("scatter", 6, |x, index, device| {
            let (list, value) = (index.list::<B>(&[2, 4], device), f32s::<B>(&[2, 4], 2, device));
            B::float_exp(B::float_scatter(0, x, list, value, IndexingUpdateOp::Add))
        }),
        ("select_update", 6, |x, index, device| {
            let (list, value) = (index.list::<B>(&[3], device), f32s::<B>(&[3, 4], 2, device));
            B::float_exp(B::float_select_assign(x, 0, list, value, IndexingUpdateOp::Add))
        }),
        ("gather_nd", 6, |x, index, device| B::float_exp(B::float_gather_nd(x, index.list::<B>(&[3, 1], device)))),
        ("scatter_nd", 4, |x, index, device| {
            let (list, value) = (index.list::<B>(&[3, 2], device), f32s::<B>(&[3], 2, device));
            B::float_scatter_nd(x, list, value, IndexingUpdateOp::Add)
        }),
        // In a part of a tensor that is put together.
        ("select", 6, |x, index, device| {
            let rows = B::float_select(x.clone(), 0, index.list::<B>(&[3], device));
            B::float_exp(B::float_cat(vec![x, rows], 0))
        }),
    ]
}

fn outside(extent: i64) -> Vec<Index> {
    let wide =
        [extent, -1, i64::MAX, i64::MIN, (1 << 32) + 1, -(1 << 32)].map(|value| Index { value, dtype: DType::I64 });
    let narrow = [extent + 1, -3, i64::from(i32::MAX)].map(|value| Index { value, dtype: DType::I32 });
    let small = Index { value: 255, dtype: DType::U8 };
    wide.into_iter().chain(narrow).chain([small]).collect()
}

fn each_is_told_of<B: Backend>(device: &B::Device) {
    for (number, (op, extent, program)) in programs::<B>().into_iter().enumerate() {
        for index in outside(extent) {
            let out = program(f32s::<B>(&[6, 4], 1, device), &index, device);
            let message = format!("{:?}", read_sync(B::float_into_data(out)).expect_err(op));
            let wanted = format!("{op}: index {} is outside an axis of {extent} elements", index.value);
            assert!(message.contains(&wanted), "program {number}, {:?}: {message}", index.dtype);
            // Told once, and everything goes on.
            B::sync(device).unwrap();
        }
        let good = Index { value: extent - 1, dtype: DType::I64 };
        float::<B>(program(f32s::<B>(&[6, 4], 1, device), &good, device));
        B::sync(device).unwrap();
    }
}

#[test]
fn indices_outside_are_told_of_fused() {
    each_is_told_of::<Fused>(&own(31));
}

#[test]
fn indices_outside_are_told_of_one_by_one() {
    each_is_told_of::<Rocm>(&own(32));
}

#[test]
fn updates_of_an_axis_without_elements_tell() {
    fn check<B: Backend>(device: &B::Device) {
        let index = Index { value: 2, dtype: DType::I64 };
        let add = IndexingUpdateOp::Add;
        let nothing = || f32s::<B>(&[0, 4], 1, device);
        let told = |out: FloatTensor<B>| {
            let message = format!("{:?}", B::sync(device).unwrap_err());
            assert!(message.contains("is outside an axis of 0 elements"), "{message}");
            assert_eq!(float::<B>(out).shape()[..], [0, 4]);
        };
        let value = || f32s::<B>(&[3, 4], 2, device);
        told(B::float_select_assign(nothing(), 0, index.list::<B>(&[3], device), value(), add));
        told(B::float_scatter(0, nothing(), index.list::<B>(&[3, 4], device), value(), add));
    }
    check::<Fused>(&own(36));
    check::<Rocm>(&own(36));
}

#[test]
fn a_sync_tells_as_well_as_a_read() {
    fn check<B: Backend>(device: &B::Device) {
        let index = Index { value: 9, dtype: DType::I32 };
        let out = B::float_exp(B::float_select(f32s::<B>(&[6, 4], 1, device), 0, index.list::<B>(&[3], device)));
        let message = format!("{:?}", B::sync(device).unwrap_err());
        assert!(message.contains("select: index 9 is outside an axis of 6 elements"), "{message}");
        assert_eq!(float::<B>(out).as_slice::<f32>().unwrap()[8..], [1.0; 4], "e to what was read as zero");
    }
    check::<Fused>(&own(33));
    check::<Rocm>(&own(33));
}

/// Indices of values below zero, made good by an addition: at places that are not there the sum is beyond the axis.
fn shifted<B: Backend>(device: &B::Device) -> IntTensor<B> {
    B::int_add_scalar(ints::<B>(&[-3, -2, -1], &[3], DType::I64, device), Scalar::Int(3))
}

fn valid<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let x = |rows: usize| f32s::<B>(&[rows, 5], rows as u64, device);
    let picked = || B::float_select(x(3), 0, shifted::<B>(device));
    let all = |rows: i64| {
        ints::<B>(&(0..rows * 5).map(|at| at / 5).collect::<Vec<_>>(), &[rows as usize, 5], DType::I64, device)
    };
    let nothing = || B::float_select(f32s::<B>(&[0, 5], 1, device), 0, ints::<B>(&[], &[0], DType::I64, device));
    let results = vec![
        // Parts of a whole, each of which the kernel computes for all of it.
        B::float_exp(B::float_cat(vec![picked(), x(7), picked()], 0)),
        B::float_cat(vec![B::float_gather(0, x(3), all(3)), B::float_gather(0, x(70), all(67))], 0),
        B::float_exp(B::float_cat(vec![nothing(), picked(), nothing()], 0)),
        B::float_slice_assign(B::float_exp(x(9)), &[(2..5).into(), (0..5).into()], picked()),
        B::float_repeat_dim(picked(), 0, 5),
        B::float_slice(B::float_neg(picked()), &[(1..3).into(), (0..4).into()]),
        B::float_flip(B::float_exp(picked()), &[0]),
        // Lanes behind the last element.
        B::float_sum_dim(B::float_exp(B::float_gather(0, x(3), B::int_add_scalar(all(1), Scalar::Int(2)))), 1),
    ];
    results.into_iter().map(float::<B>).collect()
}

#[test]
fn what_is_computed_beyond_what_is_used_is_told_of_nowhere() {
    compare("valid", &valid::<Fused>(&own(34)), &valid::<Rocm>(&own(34)), EXACT);
    Fused::sync(&own(34)).unwrap();
}

#[test]
fn without_the_check_nothing_is_told() {
    const INNER: &str = "ROCFIRE_TEST_UNCHECKED";
    if std::env::var_os(INNER).is_none() {
        let program = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(program);
        command.args(["--exact", "outside::without_the_check_nothing_is_told"]);
        let output = command.env(INNER, "1").env("ROCFIRE_CHECK_INDEX", "0").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    fn all<B: Backend>(device: &B::Device) -> Vec<TensorData> {
        let index = Index { value: -1, dtype: DType::I64 };
        let run = |(_, _, program): Program<B>| float::<B>(program(f32s::<B>(&[6, 4], 1, device), &index, device));
        programs::<B>().into_iter().map(run).collect()
    }
    compare("unchecked", &all::<Fused>(&own(35)), &all::<Rocm>(&own(35)), crate::check::CLOSE);
}
