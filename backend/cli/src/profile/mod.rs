//! `rocfire profile`: where a program's time goes on the device, or what a kernel would be bound by.
//!
//! `profile -- COMMAND` runs a command with every launch timed by events (`timed`) and writes a page of it (`page`, `roofline`). `profile --modelled` works out from what
//! the emulator counts what would bind a kernel: it runs an operator of the library at a size (`operator`), or a kernel of a code object, on an emulated device, and prints
//! for each kernel its occupancy, how busy each pipe can be, what binds it and how much of the card's roofline is in
//! reach; on demand AMD's counters and every instruction with its cost. Bounds and counts, never a time: those of a card
//! are not to be had without it.

pub mod operator;
mod page;
mod roofline;
mod timed;

use std::ffi::OsString;
use std::path::PathBuf;

use rocfire_arch::Arch;
use rocfire_hal::modelled::{Argument, CodeObjectLaunch, Profile, Sample, profile_code_object, summary};
use rocfire_hal::{Config, DType, Device, DeviceId};

use crate::{install, verify};

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// An operator, or a code object's file: copy, add, gelu, softmax, gemm, cumulative, arg_max, uniform.
    #[arg(required_unless_present_any = ["command", "against", "published"])]
    what: Option<String>,
    /// The operator's size: 512x512x512 for gemm (M, N, K), rows by columns, or a number of elements.
    size: Option<String>,
    /// Counts and bounds by the emulator's cost model: no times, so it has to be asked for.
    #[arg(long, required_unless_present_any = ["command", "once"], conflicts_with = "command")]
    modelled: bool,
    /// Count AMD's assembly kernels, of a package that is downloaded for it, and our operators on the same shapes, and write `tests/against.md`.
    #[arg(long, requires = "modelled", conflicts_with_all = ["what", "command"])]
    against: Option<Against>,
    /// Put the modelled rates of AMD's kernels beside published ones of cards, and write `tests/published.md`.
    #[arg(long, requires = "modelled", conflicts_with_all = ["what", "command", "against"])]
    published: bool,
    /// Of `--against` and `--published`: only operators whose name and architecture hold this text; nothing is written then.
    #[arg(long, value_name = "TEXT", requires = "modelled", conflicts_with_all = ["what", "command"])]
    filter: Option<String>,
    /// Launch the operator once on the device that ROCFIRE_DEVICE names, for somebody else's profiler.
    #[arg(long, conflicts_with_all = ["command", "modelled"])]
    once: bool,
    /// The architecture, and with it the card.
    #[arg(long, default_value = rocfire_arch::DEFAULT_EMULATED)]
    arch: String,
    /// The operator's element type.
    #[arg(long, default_value = "f16")]
    dtype: String,
    /// Run only so many workgroups of each launch, spread evenly, and scale.
    #[arg(long, value_name = "N")]
    sample: Option<u64>,
    /// Print every instruction with what it costs.
    #[arg(long)]
    annotate: bool,
    /// Print the counters, under AMD's names.
    #[arg(long)]
    counters: bool,
    /// Of a code object: the kernel.
    #[arg(long)]
    kernel: Option<String>,
    /// Of a code object: workgroups.
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1")]
    grid: String,
    /// Of a code object: work-items of a workgroup.
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "64")]
    block: String,
    /// Of a code object: bytes of dynamic LDS.
    #[arg(long, default_value_t = 0)]
    lds: u32,
    /// Of a code object: an argument, in order. buffer:BYTES is a zeroed buffer; i32:N, u32:N, i64:N, u64:N, f32:X, f64:X.
    #[arg(long = "arg", value_name = "KIND:VALUE")]
    arguments: Vec<String>,
    /// Do not install anything: end with the command to run instead.
    #[arg(long)]
    no_install: bool,
    /// Of a command: where its launches go, for Chrome's about:tracing or Perfetto.
    #[arg(long, value_name = "FILE", default_value = "target/profile/trace.json")]
    trace: PathBuf,
    /// A command and its arguments: run it with every launch timed, and print where the device's time went.
    #[arg(last = true, conflicts_with = "what")]
    command: Vec<OsString>,
}

/// Whose kernels ours are counted beside.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Against {
    /// AITER, AMD's operators.
    Aiter,
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Profiles and prints.
///
/// # Errors
/// What is wrong with the arguments, what is missing, or what the device said.
pub fn run(arguments: &Arguments) -> Outcome<()> {
    if let Some(Against::Aiter) = arguments.against {
        install::ensure(install::Need::Compiler, arguments.no_install)?;
        return verify::against("--against", arguments.filter.as_deref(), arguments.no_install);
    }
    if arguments.published {
        install::ensure(install::Need::Compiler, arguments.no_install)?;
        return verify::against("--published", arguments.filter.as_deref(), arguments.no_install);
    }
    let Some(what) = &arguments.what else {
        return timed::run(&arguments.command, &arguments.trace);
    };
    let sample = Sample { groups: arguments.sample, skip_others: arguments.sample.is_some(), timeline: true };
    if sample.groups == Some(0) {
        return Err("--sample must be at least 1".into());
    }
    let path = PathBuf::from(what);
    if path.is_file() {
        let profile = code_object(arguments, &path, sample)?;
        print(arguments, &profile);
        return Ok(());
    }
    let dtype = DType::from_name(&arguments.dtype).ok_or_else(|| format!("unknown dtype {:?}", arguments.dtype))?;
    let operator = operator::find(what)?;
    crate::progress::show_compiles(None);
    let extents = operator.extents(arguments.size.as_deref())?;
    if arguments.once {
        let device = Device::get(DeviceId::from_env()?)?;
        (operator.run)(&device, dtype, &extents)?;
        return Ok(device.sync()?);
    }
    install::ensure(install::Need::Compiler, arguments.no_install)?;
    let arch = Arch::parse(&arguments.arch)?;
    let config = Config::from_env()?.with_profile(sample);
    let device = Device::open(DeviceId::emulated(arch.name())?, config)?;
    (operator.run)(&device, dtype, &extents)?;
    device.sync()?;
    let kernels = device.modelled().unwrap_or_default();
    let extents: Vec<String> = extents.iter().map(usize::to_string).collect();
    println!("{} {} {}\n", operator.name, dtype.name(), extents.join("x"));
    if kernels.len() > 1 {
        println!("{}", summary(&kernels));
    }
    for kernel in &kernels {
        print(arguments, &kernel.largest);
    }
    Ok(())
}

fn print(arguments: &Arguments, profile: &Profile) {
    println!("{}", profile.summary());
    if arguments.counters {
        for (name, value) in profile.counters() {
            println!("  {name:<34} {value:>16}");
        }
        println!();
    }
    if arguments.annotate {
        println!("{}", profile.annotated());
    }
}

fn code_object(arguments: &Arguments, path: &std::path::Path, sample: Sample) -> Outcome<Profile> {
    let code = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let kernel_arguments: Vec<Argument> =
        arguments.arguments.iter().map(|text| argument(text)).collect::<Outcome<_>>()?;
    let launch = CodeObjectLaunch {
        code: &code,
        kernel: arguments.kernel.as_deref(),
        grid: extents3(&arguments.grid)?,
        block: extents3(&arguments.block)?,
        lds_bytes: arguments.lds,
        arguments: &kernel_arguments,
    };
    Ok(profile_code_object(&Config::from_env()?, &launch, sample)?)
}

/// `X`, `X,Y` or `X,Y,Z`; what is not said is 1.
fn extents3(text: &str) -> Outcome<[u32; 3]> {
    let parts: Vec<u32> = text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
    match parts[..] {
        [x] => Ok([x, 1, 1]),
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err(format!("{text:?}: at most three numbers, separated by commas").into()),
    }
}

fn argument(text: &str) -> Outcome<Argument> {
    let wrong = || format!("{text:?}: buffer:BYTES, i32:N, u32:N, i64:N, u64:N, f32:X or f64:X");
    let (kind, value) = text.split_once(':').ok_or_else(wrong)?;
    let bytes = match kind {
        "buffer" => return Ok(Argument::Buffer(value.parse().map_err(|_| wrong())?)),
        "i32" => value.parse::<i32>().map_err(|_| wrong())?.to_le_bytes().to_vec(),
        "u32" => value.parse::<u32>().map_err(|_| wrong())?.to_le_bytes().to_vec(),
        "i64" => value.parse::<i64>().map_err(|_| wrong())?.to_le_bytes().to_vec(),
        "u64" => value.parse::<u64>().map_err(|_| wrong())?.to_le_bytes().to_vec(),
        "f32" => value.parse::<f32>().map_err(|_| wrong())?.to_le_bytes().to_vec(),
        "f64" => value.parse::<f64>().map_err(|_| wrong())?.to_le_bytes().to_vec(),
        _ => return Err(wrong().into()),
    };
    Ok(Argument::Value(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_by_kind() {
        assert_eq!(argument("buffer:4096").unwrap(), Argument::Buffer(4096));
        assert_eq!(argument("i32:-2").unwrap(), Argument::Value(vec![0xfe, 0xff, 0xff, 0xff]));
        assert_eq!(argument("f32:1").unwrap(), Argument::Value(vec![0, 0, 0x80, 0x3f]));
        for wrong in ["7", "i32:x", "buffer:-1", "f16:1"] {
            assert!(argument(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_up_to_three_numbers() {
        assert_eq!(extents3("4").unwrap(), [4, 1, 1]);
        assert_eq!(extents3("4,5,6").unwrap(), [4, 5, 6]);
        assert!(extents3("1,2,3,4").is_err() && extents3("a").is_err());
    }
}
