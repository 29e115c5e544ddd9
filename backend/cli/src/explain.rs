//! `rocfire explain`: which kernel the dispatch takes for an operator and why, without a device.

use rocfire_arch::Arch;
use rocfire_hal::{DType, Device, DeviceId};
use rocfire_kernels::gemm;

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    operator: Operator,
}

#[derive(Debug, clap::Subcommand)]
enum Operator {
    /// A matrix product [M, K] x [K, N] of contiguous operands.
    Gemm {
        m: usize,
        n: usize,
        k: usize,
        /// Element type: f64, f32, f16, bf16, i8, ...
        dtype: String,
        /// The architecture.
        #[arg(long, default_value = rocfire_arch::DEFAULT_EMULATED)]
        arch: String,
        /// Compute units of the card, if it is not the one that the architecture table names.
        #[arg(long)]
        units: Option<usize>,
    },
}

/// Prints the decision.
///
/// # Errors
/// For an unknown dtype or architecture, and where the card has to be named.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let Operator::Gemm { m, n, k, dtype, arch, units } = &arguments.operator;
    let dtype = DType::from_name(dtype).ok_or_else(|| format!("unknown dtype {dtype:?}"))?;
    let arch = Arch::parse(arch)?;
    let vendor = vendor_of(arch);
    let vendor = vendor.as_deref().map_err(String::as_str);
    println!("{}", gemm::explain(arch, *units, dtype, [*m, *n, *k], vendor)?);
    Ok(())
}

/// The vendor's library of this machine's GPU, if it has this architecture.
fn vendor_of(arch: Arch) -> Result<String, String> {
    let same = |id: &DeviceId| id.arch() == arch;
    let found = [DeviceId::hip(0), DeviceId::cuda(0)].into_iter().flatten().find(same);
    let id = found.ok_or_else(|| format!("this machine's GPU is no {arch}"))?;
    let device = Device::get(id).map_err(|error| error.to_string())?;
    device.vendor_gemm().map(str::to_owned)
}
