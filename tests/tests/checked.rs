//! The cases with every check of the emulator on: none finds anything in a kernel of ours, and results are the same.
//!
//! On the default architecture every case runs. On one of each other family that the emulator executes a share runs, dealt
//! out by the day (`ROCFIRE_TEST_ROTATION=n` repeats one); `ROCFIRE_TEST_FULL=1` runs everything. That the checks find what
//! they should is shown by `backend/emulator/tests/checks.rs`.

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use libtest_mimic::Arguments;
use rocfire_arch::{Arch, DEFAULT_EMULATED};
use rocfire_hal::{Checks, Config, Device, DeviceId};
use rocfire_tests::case;

/// One architecture of each family besides the default.
const OTHERS: [&str; 5] = ["gfx90a", "gfx950", "gfx1030", "gfx1100", "gfx1201"];
/// Of the cases on these, one in so many runs.
const SHARE: u64 = 32;

fn main() {
    let arguments = Arguments::from_args();
    let full = std::env::var_os("ROCFIRE_TEST_FULL").is_some();
    let asked = std::env::var("ROCFIRE_TEST_ROTATION").ok();
    let days = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60));
    let rotation = asked.map_or_else(days, |text| text.parse().expect("ROCFIRE_TEST_ROTATION is a number"));
    let config = Config::from_env().unwrap_or_else(|error| panic!("{error}")).with_checks(Checks::ALL);
    let mut trials = Vec::new();
    for name in OTHERS.into_iter().chain([DEFAULT_EMULATED]) {
        let arch = Arch::parse(name).expect("a name of the table");
        let device = DeviceId::emulated(name).and_then(|id| Device::open(id, config.clone()));
        let device = device.unwrap_or_else(|error| panic!("no emulated {name}: {error}"));
        let due = |number: usize| (number as u64 + arch.row() as u64 + rotation).is_multiple_of(SHARE);
        let cases = case::all().into_iter().enumerate();
        let cases = cases.filter(|(number, _)| full || name == DEFAULT_EMULATED || due(*number));
        // The architecture is the test's kind, which is printed before its name.
        trials.extend(cases.map(|(_, case)| common::trial(case, device.clone()).with_kind(name)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
