//! `hal`'s `hip` driver over AMD's own runtime, which runs on the emulated card that `rocfire-kfd` answers for: a case of every
//! operator and type, in turn on two architectures that AMD's runtime of ROCm 5.2 knows. `ROCFIRE_TEST_FULL=1` runs every case on both.
//!
//! Each architecture is a process of its own, this executable again with the library preloaded. Where there is no AMD runtime
//! it says so and runs nothing: `cargo verify` and `rocfire amd-runtime --install` get it from Debian.

mod common;

use std::path::Path;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use rocfire_hal::{Device, DeviceId, DriverKind, Error};

const ARCHS: [&str; 2] = ["gfx90a", "gfx1030"];
/// Set in the processes that have a card.
const CHILD: &str = "ROCFIRE_TEST_AMD_RUNTIME";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Some(arch) = std::env::var_os(CHILD) {
        return on_card(&arguments, &arch.to_string_lossy());
    }
    let executable = std::env::current_exe().expect("the test is a file");
    let library = executable.parent().unwrap_or(Path::new("")).join("librocfire_kfd.so");
    assert!(library.is_file(), "{} was not built", library.display());
    let mut passed = true;
    for arch in ARCHS {
        let mut command = Command::new(&executable);
        command.args(std::env::args_os().skip(1)).env("LD_PRELOAD", &library);
        command.env(CHILD, arch).env("ROCFIRE_HIP_ARCH", arch).env("ROCFIRE_DEVICE", "hip:0").env_remove("ROCM_PATH");
        passed &= command.status().is_ok_and(|status| status.success());
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn on_card(arguments: &Arguments, arch: &str) -> ExitCode {
    let device = match DeviceId::hip(0).and_then(Device::get) {
        Ok(device) => device,
        Err(Error::NoDevice { .. } | Error::Load { .. }) if !is_installed() => {
            println!("skipped: there is no AMD runtime; `rocfire amd-runtime --install` gets it");
            return ExitCode::SUCCESS;
        }
        Err(error) => panic!("no device to test on: {error}"),
    };
    let mut trials = vec![{
        let (device, arch) = (device.clone(), arch.to_owned());
        Trial::test(format!("{arch}: the_card_is_the_emulated_one"), move || is_emulated(&device, &arch))
    }];
    let is_full = std::env::var_os("ROCFIRE_TEST_FULL").is_some();
    let turn = ARCHS.iter().position(|&of| of == arch).expect("one of them");
    let own = common::share().into_iter().enumerate().filter(|(at, _)| is_full || at % ARCHS.len() == turn);
    trials.extend(own.map(|(_, case)| common::trial(case, device.clone())));
    libtest_mimic::run(arguments, trials).exit_code()
}

/// Whether the loader's folders have AMD's runtime.
fn is_installed() -> bool {
    ["/usr/lib/x86_64-linux-gnu", "/opt/rocm/lib", "/usr/lib64"]
        .iter()
        .any(|folder| ["5", "6", "7"].iter().any(|v| Path::new(folder).join(format!("libamdhip64.so.{v}")).exists()))
}

fn is_emulated(device: &Device, arch: &str) -> Result<(), Failed> {
    let info = device.info();
    if device.id().driver() != DriverKind::Hip || !info.name.ends_with(&format!("(emulated {arch})")) {
        return Err(format!("{info:?}").into());
    }
    Ok(())
}
