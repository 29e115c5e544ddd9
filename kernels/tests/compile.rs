//! Every kernel source compiles for the architectures of every family.

use std::collections::HashSet;

use rocfire_arch::Arch;
use rocfire_hal::Config;
use rocfire_hal::compile::compile_many;
use rocfire_kernels::registry::{Entry, registry};

/// One of each family that has kernels.
const ARCHITECTURES: [&str; 6] = ["gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"];

/// Compiles every source for every architecture instead of a share for each.
const FULL: &str = "ROCFIRE_TEST_FULL";

/// Of every operator and type one source, the next one for the next architecture.
fn share(number: usize, entries: Vec<Entry>) -> Vec<Entry> {
    let mut rows: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        match rows.iter_mut().find(|row| row[0].operator == entry.operator && row[0].dtype == entry.dtype) {
            Some(row) => row.push(entry),
            None => rows.push(vec![entry]),
        }
    }
    let count = ARCHITECTURES.len();
    let mine = rows.into_iter().enumerate().filter(|(row, _)| row % count == number);
    mine.map(|(row, entries)| entries[row / count % entries.len()].clone()).collect()
}

#[test]
fn sources_compile_for_every_family() {
    let full = std::env::var_os(FULL).is_some();
    let config = Config::from_env().unwrap();
    let mut operators = HashSet::new();
    for (number, name) in ARCHITECTURES.iter().enumerate() {
        let arch = Arch::parse(name).unwrap();
        let mut entries = registry(arch);
        if !full {
            entries = share(number, entries);
        }
        let sources: Vec<_> = entries.iter().map(|entry| entry.source.clone()).collect();
        for (entry, code) in entries.iter().zip(compile_many(arch, &sources, &config).unwrap()) {
            let code = code.unwrap_or_else(|error| panic!("{} {} for {name}: {error}", entry.operator, entry.dtype));
            assert!(!code.kernels().is_empty(), "{} for {name} has kernels", entry.operator);
            for kernel in code.kernels() {
                assert_eq!(
                    kernel.scratch_bytes, 0,
                    "{} {} {} spills on {name}",
                    entry.operator, entry.dtype, kernel.name
                );
            }
            operators.insert(entry.operator);
        }
    }
    assert_eq!(operators.len(), 8, "{operators:?}");
}
