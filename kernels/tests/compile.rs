//! Every kernel source compiles for the architectures of every family.

use std::collections::HashSet;

use rocfire_arch::Arch;
use rocfire_hal::Config;
use rocfire_hal::compile::compile_many;
use rocfire_kernels::registry::{Entry, registry};

/// One of each family that has kernels.
const ARCHITECTURES: [&str; 6] = ["gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"];

/// Compiles every source for every architecture, in place of a share for each.
const FULL: &str = "ROCFIRE_TEST_FULL";

/// The architecture's share: of each operator every sixth source, and at least one, so that every source is compiled for some
/// architecture and every operator for all of them.
fn share(number: usize, entries: Vec<Entry>) -> Vec<Entry> {
    let mut operators: Vec<(&str, Vec<Entry>)> = Vec::new();
    for entry in entries {
        match operators.iter_mut().find(|(operator, _)| *operator == entry.operator) {
            Some((_, entries)) => entries.push(entry),
            None => operators.push((entry.operator, vec![entry])),
        }
    }
    let share = |(_, entries): (&str, Vec<Entry>)| {
        let first = number % entries.len();
        entries.into_iter().skip(first).step_by(ARCHITECTURES.len())
    };
    operators.into_iter().flat_map(share).collect()
}

#[test]
fn sources_compile_for_every_family() {
    let full = std::env::var_os(FULL).is_some();
    let config = Config::from_env().unwrap();
    let (mut operators, mut compiled, mut spills) = (HashSet::new(), 0, Vec::new());
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
            for kernel in code.kernels().iter().filter(|kernel| kernel.scratch_bytes > 0) {
                let (Entry { operator, dtype, .. }, bytes) = (entry, kernel.scratch_bytes);
                spills.push(format!("{operator} {dtype} {} spills {bytes} bytes on {name}", kernel.name));
            }
            operators.insert((entry.operator, *name));
            compiled += 1;
        }
    }
    assert!(spills.is_empty(), "{}", spills.join("\n"));
    println!("{compiled} sources compiled for {} architectures", ARCHITECTURES.len());
    let names: HashSet<_> = operators.iter().map(|(operator, _)| operator).collect();
    assert_eq!(
        operators.len(),
        names.len() * ARCHITECTURES.len(),
        "every operator for every architecture: {operators:?}"
    );
}
