//! `rocfire doctor`: what this machine has, what rocfire will use, and whether it computes.
//!
//! The facts are gathered by `rocfire_hal::doctor`; here they are printed, and one GEMM is run and checked. A machine
//! without a GPU is not a fault: what will be used instead is said. Only a device that computes wrongly, or settings
//! that cannot be used, end with an error.

use std::path::Path;

use rocfire_arch::{Arch, Evidence, Vendor};
use rocfire_hal::doctor::{PackFact, Report, report};
use rocfire_hal::{DType, Device, DeviceId, DeviceInfo, Tensor};
use rocfire_kernels::gemm;

use crate::aiter;

/// Rows, columns and depth of the checked GEMM: prime, so that every edge of its tiles is met.
const SHAPE: [usize; 3] = [67, 59, 101];

/// Prints the report.
///
/// # Errors
/// Settings that cannot be used; a default device that cannot be opened, or whose GEMM is wrong.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let report = report();
    print_machine(&report);
    print_settings(&report);
    print_architectures();
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    if let Some(error) = report.settings_error {
        return Err(error.into());
    }
    let id = report.default_device?;
    println!("\nwill be used: {id}");
    let device = Device::get(id)?;
    match device.vendor_gemm() {
        Ok(name) => println!("large matrix products: {name}"),
        Err(why) => println!("large matrix products: by rocfire's own kernels ({why})"),
    }
    for fact in aiter::lines(&rocfire_kernels::aiter::report(device.config())) {
        println!("AITER's kernels: {fact}");
    }
    match device.collectives() {
        Ok(name) => println!("collectives of several devices: {name}"),
        Err(why) => println!("collectives of several devices: none ({why})"),
    }
    match checked_gemm(id) {
        Ok(outcome) => println!("GEMM {}x{}x{} f32: {outcome}", SHAPE[0], SHAPE[1], SHAPE[2]),
        // A real GPU may have a compiler of its own, and a pack may have the kernel.
        Err(error) if is_no_compiler(&*error) => {
            println!("GEMM: not run, there is no compiler; `cargo demo` installs one");
        }
        Err(error) => return Err(error),
    }
    let stats = device.compile_stats();
    println!("its kernels: {} from packs, {} from the cache, {} compiled", stats.packed, stats.cached, stats.compiled);
    Ok(())
}

fn print_machine(report: &Report) {
    let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "not installed".to_owned());
    line("ROCm", &version(&report.rocm_version));
    for (name, library) in [("HIP", &report.hip), ("CUDA", &report.cuda)] {
        match library {
            Ok((version, path)) => line(name, &format!("{version}, {path}")),
            Err(reason) => line(name, reason),
        }
    }
    line("NVIDIA driver", &version(&report.nvidia_driver));
    for device in report.hip_devices.iter().chain(&report.cuda_devices) {
        match device {
            Ok(info) => line("GPU", &describe(info)),
            Err(reason) => line("GPU", reason),
        }
    }
    if report.hip_devices.is_empty() {
        line("GPU", "no AMD GPU");
    }
    for node in &report.nodes {
        let state = node.error.as_deref().unwrap_or("can be opened");
        let group = node.group.as_deref().map(|group| format!(" (group {group})")).unwrap_or_default();
        line("device node", &format!("{}{group}: {state}", node.path.display()));
    }
    match &report.clang {
        Ok((path, version)) => line("compiler", &format!("{version}, {}", path.display())),
        Err(reason) => line("compiler", reason),
    }
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64);
    let (used, limit) = (mib(report.cache_bytes), mib(report.cache_limit_bytes));
    line("kernel cache", &format!("{}, {used} of at most {limit}", report.cache_dir.display()));
    for (path, pack) in &report.packs {
        line("pack", &describe_pack(path, pack));
    }
    let numa = match report.numa_balancing {
        Some(true) => "on: costs GPUs 10 to 30%",
        Some(false) => "off",
        None => "unknown",
    };
    line("NUMA balancing", numa);
    line("WSL", if report.wsl { "yes" } else { "no" });
    for (name, value) in &report.environment {
        line(name, value);
    }
}

fn describe_pack(path: &Path, pack: &Result<PackFact, String>) -> String {
    let pack = match pack {
        Ok(pack) => pack,
        Err(reason) => return format!("not used: {reason}"),
    };
    let packed = pack.packed.iter();
    let packed = packed.map(|of| format!("{} kernels for {} by {}", of.kernels, of.arch, of.compilers.join(", ")));
    let (mib, packed) = (pack.bytes as f64 / (1 << 20) as f64, packed.collect::<Vec<_>>().join("; "));
    format!("{}, {mib:.1} MiB: {packed}", path.display())
}

fn is_no_compiler(error: &(dyn std::error::Error + 'static)) -> bool {
    let hal = match error.downcast_ref::<rocfire_kernels::Error>() {
        Some(rocfire_kernels::Error::Hal(hal)) => Some(hal),
        _ => error.downcast_ref::<rocfire_hal::Error>(),
    };
    matches!(hal, Some(rocfire_hal::Error::NoCompiler { .. }))
}

fn describe(info: &DeviceInfo) -> String {
    let gib = info.memory_bytes as f64 / (1_u64 << 30) as f64;
    format!(
        "{}: {}, wave{}, {} CUs, {gib:.0} GiB, driver {}",
        info.name, info.target, info.wave_size, info.compute_units, info.driver_version
    )
}

fn print_settings(report: &Report) {
    println!("\nsettings (* from the environment):");
    for setting in &report.settings {
        let mark = if setting.from_environment { '*' } else { ' ' };
        println!("{mark} {:<22} {:<24} {} [{}]", setting.name, setting.value, setting.about, setting.values);
    }
}

fn print_architectures() {
    let names = |evidence: Evidence| {
        let amd = Arch::all().filter(|arch| arch.info().vendor == Vendor::Amd && arch.info().evidence == evidence);
        amd.map(Arch::name).collect::<Vec<_>>().join(" ")
    };
    println!();
    line("verified", &format!("{} (every kernel is executed on its emulation)", names(Evidence::Emulated)));
    line("unverified", &names(Evidence::Unverified));
}

fn line(name: &str, value: &str) {
    println!("{name:<22} {value}");
}

/// Multiplies two matrices of small integers, whose product f32 holds exactly, and compares every element.
fn checked_gemm(id: DeviceId) -> Result<String, Box<dyn std::error::Error>> {
    let [m, n, k] = SHAPE;
    let element = |index: usize, salt: usize| ((index * 7 + salt) % 17) as f32 - 8.0;
    let a: Vec<f32> = (0..m * k).map(|index| element(index, 3)).collect();
    let b: Vec<f32> = (0..k * n).map(|index| element(index, 11)).collect();
    let device = Device::get(id)?;
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let a_device = Tensor::from_bytes(&device, &[m, k], DType::F32, &bytes(&a))?;
    let b_device = Tensor::from_bytes(&device, &[k, n], DType::F32, &bytes(&b))?;
    let mut c_device = Tensor::empty(&device, &[m, n], DType::F32)?;
    gemm::gemm(device.stream(), a_device.view(), b_device.view(), c_device.view_mut(), &gemm::GemmParams::default())?;
    let c: Vec<f32> = c_device
        .to_bytes()?
        .chunks_exact(4)
        .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    for row in 0..m {
        for column in 0..n {
            let expected: f32 = (0..k).map(|depth| a[row * k + depth] * b[depth * n + column]).sum();
            let got = c[row * n + column];
            if got != expected {
                return Err(format!("wrong at row {row}, column {column}: {got}, expected {expected}").into());
            }
        }
    }
    Ok("right in every element".to_owned())
}
