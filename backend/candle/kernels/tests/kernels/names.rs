//! The table of names itself.

use std::collections::HashSet;

use candle_kernels::{ALL_IDS, CONV, Id, REDUCE};

use crate::harness::{Arg, Card, Data, Sweep, on_each_card, rows};
use crate::{conv, elementwise, indexing, quantised, reduce, sort};

/// Candle 0.11.1 can launch 662 kernels by name, twelve of which stand in branches that it never takes.
const REACHABLE: usize = 650;

#[test]
fn every_name_that_candle_reaches_is_a_kernel() {
    let names: Vec<(Id, &str)> = candle_kernels::names().collect();
    assert_eq!(names.len(), REACHABLE);
    let distinct: HashSet<&str> = names.iter().map(|name| name.1).collect();
    assert_eq!(distinct.len(), REACHABLE);
    for (id, name) in names.into_iter().chain(candle_kernels::names_beyond()) {
        let module = ALL_IDS.iter().position(|&other| other == id).expect("all modules are listed");
        let library = candle_kernels::library(id);
        assert!(library.kernel(name).is_some(), "{name} is not in module {module}");
    }
}

#[test]
fn names_that_only_this_package_has_are_told_apart() {
    let known: HashSet<&str> = candle_kernels::names().map(|name| name.1).collect();
    assert!(candle_kernels::names_beyond().all(|name| !known.contains(name.1)));
    assert!(candle_kernels::names_beyond().any(|name| name.1 == "badd_i32"));
}

#[test]
fn a_name_is_found_in_its_own_module_only() {
    assert!(candle_kernels::UNARY.ptx().kernel("affine_f32").is_none());
    assert!(candle_kernels::AFFINE.ptx().kernel("affine_f32").is_some());
    assert!(candle_kernels::AFFINE.ptx().kernel("affine_f8").is_none());
}

#[test]
fn direct_convolutions_that_candle_never_reaches_are_no_kernels() {
    for axes in [1, 2] {
        for dtype in ["bf16", "f16", "f32", "f64", "u8", "u32"] {
            assert!(CONV.ptx().kernel(&format!("conv{axes}d_{dtype}")).is_none());
        }
    }
}

#[test]
fn every_kernel_runs_on_waves_of_64_lanes_and_of_32() {
    let sweeps = [elementwise::sweeps, indexing::sweeps, reduce::sweeps, sort::sweeps, conv::sweeps, quantised::sweeps];
    sweeps.into_iter().flat_map(|sweeps| sweeps()).for_each(Sweep::run);
    on_each_card(|card| {
        let all = candle_kernels::names().chain(candle_kernels::names_beyond());
        let missing: Vec<&str> = all.map(|name| name.1).filter(|name| !card.has_run(name)).collect();
        assert!(missing.is_empty(), "no test ran these on {}: {missing:?}", card.name);
    });
}

#[test]
fn a_kernel_compiled_alone_gives_the_bits_of_one_compiled_with_its_family() {
    on_each_card(|card| {
        let x: Vec<f64> = (0..600).map(|at| f64::from(at % 37) * 0.25 - 3.0).collect();
        let args = [
            Arg::Size(600),
            Arg::Size(300),
            Arg::Size(2),
            Arg::Info(vec![2, 300, 300, 1]),
            Arg::In(Data::new("bf16", &x)),
            Arg::Out(Data::unwritten("bf16", 2)),
        ];
        let run = |alone: bool| {
            let config = rows(2, (512, 1, 1));
            let run = if alone { Card::run_alone } else { Card::run };
            run(card, &REDUCE, "fast_sum_bf16", config, &args)
        };
        assert_eq!(run(true), run(false), "on {}", card.name);
    });
}
