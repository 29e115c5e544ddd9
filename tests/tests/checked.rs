//! The cases with every check of the emulator on: none finds anything in a kernel of ours, and results are the same.
//!
//! On the default architecture every case runs. On the others whose evidence in `rocfire-arch` is the emulator a share runs, dealt
//! out by the day (`ROCFIRE_TEST_ROTATION=n` repeats one); `ROCFIRE_TEST_FULL=1` runs everything. That the checks find what
//! they should is shown by `backend/emulator/tests/checks.rs`.

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use libtest_mimic::Arguments;
use rocfire_arch::{Arch, DEFAULT_EMULATED, Evidence};
use rocfire_hal::{Checks, Config, Device, DeviceId};
use rocfire_tests::case;

/// Of the cases on the others than the default, one in so many runs.
const SHARE: u64 = 32;

fn main() {
    let arguments = Arguments::from_args();
    let full = std::env::var_os("ROCFIRE_TEST_FULL").is_some();
    let asked = std::env::var("ROCFIRE_TEST_ROTATION").ok();
    let days = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60));
    let rotation = asked.map_or_else(days, |text| text.parse().expect("ROCFIRE_TEST_ROTATION is a number"));
    let config = Config::from_env().unwrap_or_else(|error| panic!("{error}")).with_checks(Checks::ALL);
    let mut trials = Vec::new();
    for arch in Arch::all().filter(|arch| arch.info().evidence == Evidence::Emulated) {
        let name = arch.name();
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
