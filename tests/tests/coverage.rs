//! `tests/operators.md` says what the cases say. `ROCFIRE_BLESS=1` writes it.

use std::collections::BTreeSet;
use std::path::Path;

use rocfire_tests::{SizeClass, case, report};

#[test]
fn the_table_of_operators_is_what_the_cases_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("operators.md");
    let now = report(&case::all());
    if std::env::var_os("ROCFIRE_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let first = written.lines().zip(now.lines()).find(|(written, now)| written != now);
    assert!(
        written == now,
        "tests/operators.md is out of date (first: {first:?}): run ROCFIRE_BLESS=1 cargo test --test coverage, and review"
    );
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
