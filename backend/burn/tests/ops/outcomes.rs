//! What every reduction gives of nothing, on any backend: its data, or what it fails with.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_backend::{Backend, DType, TensorData};
use burn_std::{BoolDType, IntDType};

use crate::check::{EXACT, bool, bools, compare, f32s, float, int, ints};

/// Shapes and the axis that is reduced: of nothing, of nothing in an empty tensor, and of five elements for no result.
pub const CASES: [(&[usize], usize); 7] =
    [(&[0], 0), (&[3, 0], 1), (&[0, 3], 0), (&[0, 5], 1), (&[0, 0], 1), (&[2, 0, 3], 1), (&[2, 0, 3], 2)];

/// What an operation gives, or what it fails with.
pub fn outcome(operation: impl FnOnce() -> Vec<TensorData>) -> Result<Vec<TensorData>, String> {
    catch_unwind(AssertUnwindSafe(operation)).map_err(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().map_or_else(String::new, ToString::to_string),
    })
}

/// The named operations of a backend, each on its own.
pub type Outcomes = Vec<(&'static str, Result<Vec<TensorData>, String>)>;

/// Every reduction, sort and running result of an empty tensor, along `axis` and over all.
pub fn outcomes<B: Backend>(shape: &[usize], axis: usize, device: &B::Device) -> Outcomes {
    let x = || f32s::<B>(shape, 1, device);
    let n = || ints::<B>(&[], shape, DType::I32, device);
    let b = || bools::<B>(shape, 1, device);
    let (native, i32) = (BoolDType::Native, IntDType::I32);
    let floats = |(values, places)| vec![float::<B>(values), int::<B>(places)];
    let integers = |(values, places)| vec![int::<B>(values), int::<B>(places)];
    let mut outcomes: Outcomes = Vec::new();
    macro_rules! of {
        ($($name:literal => $body:expr);+ $(;)?) => { $( outcomes.push(($name, outcome(|| $body))); )+ };
    }
    of! {
        "max" => vec![float::<B>(B::float_max(x()))];
        "min" => vec![float::<B>(B::float_min(x()))];
        "max_abs" => vec![float::<B>(B::float_max_abs(x()))];
        "max" => vec![int::<B>(B::int_max(n()))];
        "min" => vec![int::<B>(B::int_min(n()))];
        "max_abs" => vec![int::<B>(B::int_max_abs(n()))];
        "max_dim" => vec![float::<B>(B::float_max_dim(x(), axis))];
        "min_dim" => vec![float::<B>(B::float_min_dim(x(), axis))];
        "max_abs_dim" => vec![float::<B>(B::float_max_abs_dim(x(), axis))];
        "max_dim" => vec![int::<B>(B::int_max_dim(n(), axis))];
        "min_dim" => vec![int::<B>(B::int_min_dim(n(), axis))];
        "max_abs_dim" => vec![int::<B>(B::int_max_abs_dim(n(), axis))];
        "argmax" => vec![int::<B>(B::float_argmax(x(), axis, i32))];
        "argmin" => vec![int::<B>(B::float_argmin(x(), axis, i32))];
        "argmax" => vec![int::<B>(B::int_argmax(n(), axis))];
        "argmin" => vec![int::<B>(B::int_argmin(n(), axis))];
        "max_dim_with_indices" => floats(B::float_max_dim_with_indices(x(), axis, i32));
        "min_dim_with_indices" => floats(B::float_min_dim_with_indices(x(), axis, i32));
        "max_dim_with_indices" => integers(B::int_max_dim_with_indices(n(), axis));
        "min_dim_with_indices" => integers(B::int_min_dim_with_indices(n(), axis));
        "mean" => vec![int::<B>(B::int_mean(n()))];
        "mean_dim" => vec![int::<B>(B::int_mean_dim(n(), axis))];
        "sum" => vec![float::<B>(B::float_sum(x())), int::<B>(B::int_sum(n()))];
        "prod" => vec![float::<B>(B::float_prod(x())), int::<B>(B::int_prod(n()))];
        "mean" => vec![float::<B>(B::float_mean(x())), float::<B>(B::float_mean_dim(x(), axis))];
        "sum_dim" => vec![float::<B>(B::float_sum_dim(x(), axis)), int::<B>(B::int_sum_dim(n(), axis))];
        "prod_dim" => vec![float::<B>(B::float_prod_dim(x(), axis)), int::<B>(B::int_prod_dim(n(), axis))];
        "any" => vec![bool::<B>(B::bool_any(b())), bool::<B>(B::float_any(x(), native))];
        "all" => vec![bool::<B>(B::bool_all(b())), bool::<B>(B::float_all(x(), native))];
        "cumsum" => vec![float::<B>(B::float_cumsum(x(), axis)), float::<B>(B::float_cummax(x(), axis))];
        "sort" => vec![float::<B>(B::float_sort(x(), axis, true)), int::<B>(B::int_sort(n(), axis, false))];
        "argsort" => vec![int::<B>(B::float_argsort(x(), axis, false, i32)), int::<B>(B::int_argsort(n(), axis, true))];
        "sort_with_indices" => floats(B::float_sort_with_indices(x(), axis, false, i32));
    }
    // Flex looks for the first of no results, and fails.
    if shape.iter().enumerate().all(|(at, &extent)| at == axis || extent > 0) {
        of! {
            "any_dim" => vec![bool::<B>(B::bool_any_dim(b(), axis)), bool::<B>(B::int_any_dim(n(), axis, native))];
            "all_dim" => vec![bool::<B>(B::bool_all_dim(b(), axis)), bool::<B>(B::int_all_dim(n(), axis, native))];
        }
    }
    outcomes
}

/// Compares what two backends give, whose data or failures must be the same; ours must say which operator failed.
pub fn same_outcomes(what: &str, ours: Outcomes, theirs: Outcomes) {
    for ((name, ours), (_, theirs)) in ours.into_iter().zip(theirs) {
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => compare(&format!("{what}: {name}"), &ours, &theirs, EXACT),
            (Err(ours), Err(_)) => assert!(ours.contains(name), "{what}: {name} fails with {ours:?}"),
            (ours, theirs) => panic!("{what}: {name} gives {ours:?}, and must give {theirs:?}"),
        }
    }
}
