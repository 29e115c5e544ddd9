//! `tests/operators.md` says what the cases say, `tests/architectures.md` what the code does where, `tests/settings.md` what there is to
//! set, `tests/doors.md` how users reach each launcher. `ROCFIRE_BLESS=1` writes all four.

use std::collections::BTreeSet;
use std::path::Path;

use rocfire_arch::{Arch, Vendor};
use rocfire_hal::{DType, Device, DeviceId, Tensor};
use rocfire_kernels::gate::{GateParams, gate};
use rocfire_kernels::gemm::{GemmParams, gemm};
use rocfire_kernels::norm::{NormKind, NormParams, norm};
use rocfire_kernels::quant::{Format, Granularity, RowCodes, norm_quantise};
use rocfire_kernels::softmax::softmax;
use rocfire_tests::{SizeClass, architectures, case, doors, report, settings};

#[test]
fn the_table_of_operators_is_what_the_cases_say() {
    written("operators.md", &report(&case::all()));
}

#[test]
fn the_table_of_architectures_is_what_the_code_says() {
    written("architectures.md", &architectures());
}

#[test]
fn the_table_of_settings_is_what_the_code_reads() {
    written("settings.md", &settings());
}

#[test]
fn every_launcher_has_a_door() {
    let (table, wrong) = doors();
    written("doors.md", &table);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the table calls refused is an error of its own kind, and nothing is launched: on every architecture.
#[test]
fn what_is_refused_is_refused_before_any_launch() {
    let unsupported = |result: rocfire_kernels::Result<()>| {
        matches!(result, Err(rocfire_kernels::Error::Hal(rocfire_hal::Error::Unsupported { .. })))
    };
    // Others have no device that runs nothing.
    for arch in Arch::all().filter(|arch| arch.info().vendor == Vendor::Amd) {
        let device = Device::get(DeviceId::noop(arch.name()).unwrap()).unwrap();
        let stream = device.stream();
        let of = |dtype| Tensor::empty(&device, &[4, 4], dtype).unwrap();
        let launches = device.launches();
        for dtype in DType::ALL {
            let (x, mut y) = (of(dtype), of(dtype));
            let rms = NormParams::new(NormKind::Rms, 1e-5);
            if dtype == DType::Bool {
                let product = gemm(stream, x.view(), x.view(), y.view_mut(), &GemmParams::default());
                assert!(unsupported(product), "gemm of {dtype} on {}", arch.name());
            }
            if !dtype.is_float() {
                let norms = norm(stream, x.view(), &rms, y.view_mut(), None);
                assert!(unsupported(norms), "norm of {dtype} on {}", arch.name());
                assert!(
                    unsupported(softmax(stream, x.view(), 1, y.view_mut())),
                    "softmax of {dtype} on {}",
                    arch.name()
                );
                let gates = gate(stream, x.view(), &GateParams::default(), y.view_mut());
                assert!(unsupported(gates), "gate of {dtype} on {}", arch.name());
            }
            if !dtype.is_float() || dtype == DType::F64 {
                let (mut codes, mut scales) = (of(DType::U8), Tensor::empty(&device, &[4, 1], DType::F32).unwrap());
                let (codes, scales) = (codes.view_mut(), scales.view_mut());
                let to = RowCodes { format: Format::I8, granularity: Granularity::Token, codes, scales };
                let coded = norm_quantise(stream, x.view(), &rms, to, None);
                assert!(unsupported(coded), "norm_quantise of {dtype} on {}", arch.name());
            }
        }
        assert_eq!(device.launches(), launches, "{}", arch.name());
    }
}

/// Compares a file with what it should hold, or writes it.
fn written(name: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("ROCFIRE_BLESS").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let first = before.lines().zip(now.lines()).find(|(before, now)| before != now);
    assert!(
        before == now,
        "tests/{name} is out of date (first: {first:?}): run ROCFIRE_BLESS=1 cargo test --test coverage, and review"
    );
}

/// Two cases of one name would count twice in the table, and only one could be asked for.
#[test]
fn no_case_stands_twice() {
    let mut seen = BTreeSet::new();
    let twice: Vec<String> =
        case::all().iter().map(case::Case::name).filter(|name| !seen.insert(name.clone())).collect();
    assert!(twice.is_empty(), "{} cases have the name of another: {twice:?}", twice.len());
}

#[test]
fn every_operator_is_tried_below_a_workgroup_and_beyond_one() {
    for class in [SizeClass::Small, SizeClass::Large] {
        let tried: BTreeSet<&str> =
            case::all().iter().filter(|case| case.class == class).map(|case| case.operator).collect();
        let missing: BTreeSet<&str> =
            case::all().iter().map(|case| case.operator).filter(|operator| !tried.contains(operator)).collect();
        assert!(missing.is_empty(), "no case of {class:?}: {missing:?}");
    }
}
