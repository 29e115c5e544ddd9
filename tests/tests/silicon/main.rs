//! The emulator's filetests as kernels on a device: the same instructions, operands and results, through a compiler, a driver and a
//! launch.
//!
//! With `ROCFIRE_TEST_HW=1` they run on the device that `ROCFIRE_DEVICE` names: on a card they judge the emulator by it. Otherwise
//! they run on every emulated architecture that has filetests, which shows that the kernels around them are right.

mod kernel;
mod registers;
#[path = "../session/mod.rs"]
mod session;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libtest_mimic::Arguments;
use rocfire_arch::{Arch, Evidence, Vendor};
use rocfire_emulator::filetest::{Case, MEM_BYTES, Target, parse};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Device, DeviceId, Launch, Module, Source, Tensor};
use rocfire_isa::WaveSize;
use rocfire_tests::device_id;

use state::{STATE_BYTES, State};

/// The files, name and text.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/filetests.rs"));
/// What has RDNA's waves of 64 lanes, where 32 are usual.
const WIDE: &str = "-mwavefrontsize64";

/// Held by the test that runs.
static TURN: Mutex<()> = Mutex::new(());

/// The cases of a file that run on one kind of wave, and their kernels, compiled when first asked for.
struct Group {
    source: Source,
    device: Device,
    module: OnceLock<Result<Arc<Module>, String>>,
}

fn main() {
    let arguments = Arguments::from_args();
    let open = |id| Device::get(id).unwrap_or_else(|error| panic!("no device to test on: {error}"));
    let devices: Vec<Device> = if std::env::var_os("ROCFIRE_TEST_HW").is_some_and(|value| value == "1") {
        vec![device_id().map_or_else(|error| panic!("no device to test on: {error}"), open)]
    } else {
        let emulated = Arch::all().filter(|arch| arch.info().evidence == Evidence::Emulated);
        emulated.filter_map(|arch| DeviceId::emulated(arch.name()).ok()).map(open).collect()
    };
    let mut refused = BTreeMap::new();
    let mut tests = Vec::new();
    for device in &devices {
        if device.arch().info().vendor != Vendor::Amd {
            println!(
                "skipped: filetests are machine code of AMD's GPUs, and {} is {}",
                device.id(),
                device.info().name
            );
            continue;
        }
        let of_device = of(device, &mut refused);
        if of_device.is_empty() {
            println!("skipped: there are no filetests for {}", device.arch());
        }
        tests.extend(of_device);
    }
    for (why, cases) in refused {
        println!("{cases} cases are for the emulator alone: {why}");
    }
    session::run(&arguments, tests).exit();
}

/// The tests for a device, file by file. Counts those that have no place on a card, by reason.
fn of(device: &Device, refused: &mut BTreeMap<String, usize>) -> Vec<session::Test> {
    let mut tests = Vec::new();
    for (file, text) in FILES {
        let cases = parse(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for wave in [WaveSize::Wave32, WaveSize::Wave64] {
            let target = Target { arch: device.arch(), wave };
            let mut text = kernel::head();
            let mut run = Vec::new();
            for case in cases.iter().filter(|case| is_for(case, target)) {
                match kernel::text(case, target) {
                    Ok(kernel) => {
                        text += &kernel;
                        run.push(case.clone());
                    }
                    Err(why) => *refused.entry(why.to_owned()).or_insert(0) += 1,
                }
            }
            if run.is_empty() {
                continue;
            }
            let source = Source::new(format!("filetest_{file}"), text, &[]);
            let source = if WaveSize::usual(target.arch) == wave { source } else { source.with_flags(&[WIDE]) };
            let group = Arc::new(Group { source, device: device.clone(), module: OnceLock::new() });
            for case in run {
                let (group, name) = (Arc::clone(&group), format!("{}/{file}:{}", target.arch, case.line));
                tests.push((name, Box::new(move || Ok(check(&group, &case, target)?)) as Box<_>));
            }
        }
    }
    tests
}

/// Cards of one family have the same instructions.
fn is_for(case: &Case, target: Target) -> bool {
    let same = |of: &Target| of.arch.info().family == target.arch.info().family && of.wave == target.wave;
    case.targets.iter().any(same)
}

fn check(group: &Group, case: &Case, target: Target) -> Result<(), String> {
    let say = |error: rocfire_hal::Error| error.to_string().lines().take(9).collect::<Vec<_>>().join("\n");
    let device = &group.device;
    let module = group.module.get_or_init(|| device.module(&group.source).map_err(say)).clone()?;
    // One at a time: a fault comes with the next wait for the device, which must be that of the same test.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let function = module.function(&kernel::name(case)).map_err(say)?;
    let mem = Tensor::empty(device, &[MEM_BYTES as usize], DType::U8).map_err(say)?;
    let mem_address = mem.view().device_address();
    let before = State::before(case, target, mem_address)?;
    device.stream().copy_to_device(&before.mem, mem.buffer(), 0).map_err(say)?;
    let state = Tensor::from_bytes(device, &[STATE_BYTES], DType::U8, &before.wave).map_err(say)?;
    let launch = Launch {
        label: "filetest",
        grid: [1; 3],
        block: [target.lanes() as u32, 1, 1],
        lds_bytes: 0,
        args: &state.view().device_address().to_le_bytes(),
        outputs: &[state.buffer(), mem.buffer()],
        work: Work { category: Category::Other, shape: &[], bytes: 0, flops: 0 },
    };
    // SAFETY:
    // - The argument is the one address of the kernel's struct; the state is as long as the kernel was made for, and a case that ends
    //   without a fault accesses its buffer alone.
    // - The state and the buffer are named as written.
    unsafe { device.stream().launch(&function, &launch) }.map_err(say)?;
    let after = State { wave: state.to_bytes().map_err(say)?, mem: mem.to_bytes().map_err(say)? };
    let wrong = after.differences(case, target, mem_address)?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.lines().take(9).collect::<Vec<_>>().join("\n")) }
}
