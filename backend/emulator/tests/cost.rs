//! Checks and wave sizes change no bit, by kernels of the usual kinds; `benches/checks.rs` says what they cost.

#[path = "cost/cases.rs"]
mod cases;
mod common;

use cases::{CASES, Case, device};
use common::Bench;
use rocfire_emulator::Checks;

/// Runs a case; its result.
fn result(bench: &Bench, (kernel, groups, make): &Case) -> Vec<u32> {
    let (args, out, len) = make(bench);
    bench.run(kernel, *groups, 256, &args);
    bench.download(out, len)
}

#[test]
fn checks_and_wave_sizes_change_no_bit() {
    let Some(plain) = device("gfx942", 64, Checks::default()) else { return };
    let others = [("gfx942", 64, Checks::ALL), ("gfx1100", 32, Checks::default()), ("gfx1100", 32, Checks::ALL)];
    for case in &CASES {
        let expected = result(&plain, case);
        assert!(expected.iter().any(|&bits| bits != 0), "{}", case.0);
        for (arch, wave, checks) in others {
            let Some(other) = device(arch, wave, checks) else { return };
            assert!(result(&other, case) == expected, "{} on {arch} with {checks:?}", case.0);
        }
    }
}
