//! `rocfire explain`: which kernel the dispatch takes for an operator and why, without a device; or which operations of a model's
//! training step share launches, which do not, and why.

use std::process::Command;

use rocfire_arch::{Arch, Vendor};
use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};
use rocfire_kernels::attention::{self, AttentionInputs, AttentionParams, AttentionSaved, PagedInputs, PagedParams};
use rocfire_kernels::cache::{Cache, CacheLayout, Pages};
use rocfire_kernels::gemm;
use rocfire_kernels::quant::{
    CodedRows, Format, Granularity, MxRounding, Preshuffled, PreshuffledRows, explain_preshuffled, explain_scaled,
};
use rocfire_kernels::tuning::{Codes, Lies, Row, Shape, known_rows};

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
    /// A product of codes with scales, [M, K] x [N, K] of contiguous rows.
    Codes {
        m: usize,
        n: usize,
        k: usize,
        /// What codes are: i8, i4, e4m3, e5m2, e2m1, e4m3fnuz, e5m2fnuz.
        format: String,
        /// What shares a scale: tensor, row, block (1x128 by 128x128), mx (32 of a row).
        scales: String,
        /// Element type of the result.
        #[arg(long, default_value = "bf16")]
        output: String,
        /// The architecture.
        #[arg(long, default_value = rocfire_arch::DEFAULT_EMULATED)]
        arch: String,
        /// Compute units of the card, if it is not the one that the architecture table names.
        #[arg(long)]
        units: Option<usize>,
    },
    /// Attention of contiguous queries, keys and values.
    Attention {
        batches: usize,
        heads: usize,
        q_rows: usize,
        k_rows: usize,
        depth: usize,
        /// Element type: f64, f32, f16 or bf16.
        dtype: String,
        /// Heads of keys and values, if they are fewer.
        #[arg(long)]
        kv_heads: Option<usize>,
        /// The last query sees all keys, each before it one less.
        #[arg(long)]
        causal: bool,
        /// The architecture.
        #[arg(long, default_value = rocfire_arch::DEFAULT_EMULATED)]
        arch: String,
    },
    /// Attention of one query of each sequence over a cache on pages.
    Decode {
        sequences: usize,
        heads: usize,
        kv_heads: usize,
        /// At least the keys of the longest sequence.
        keys: usize,
        depth: usize,
        /// Element type: f32, f16 or bf16.
        dtype: String,
        /// How the cache lies: nhd, hnd, packed or packedboth (AITER's "shuffled").
        #[arg(long, default_value = "nhd")]
        layout: String,
        /// Channels of a value that each key of a cache of latents begins with: MLA, absorbed, with 1 head of keys.
        #[arg(long)]
        latent: Option<usize>,
        /// Keys of a page.
        #[arg(long, default_value_t = 16)]
        page: usize,
        /// The architecture.
        #[arg(long, default_value = rocfire_arch::DEFAULT_EMULATED)]
        arch: String,
    },
    /// The plans of a training step: what was fused, what was not, and why. `rocfire_burn::explain()` says it of your own program.
    Plan {
        /// mlp, cnn or transformer, as in `examples/training_steps`.
        model: String,
        /// The sizes of a card; an emulated device takes minutes for them.
        #[arg(long)]
        full: bool,
    },
}

/// Prints the decision.
///
/// # Errors
/// For an unknown dtype or architecture, and where the card has to be named.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let (m, n, k, dtype, arch, units) = match &arguments.operator {
        Operator::Gemm { m, n, k, dtype, arch, units } => (m, n, k, dtype, arch, units),
        Operator::Codes { m, n, k, format, scales, output, arch, units } => {
            return codes([*m, *n, *k], [format, scales, output], Arch::parse(arch)?, *units);
        }
        Operator::Attention { batches, heads, q_rows, k_rows, depth, dtype, kv_heads, causal, arch } => {
            let kv_heads = kv_heads.unwrap_or(*heads);
            let (q, k) = ([*batches, *heads, *q_rows, *depth], [*batches, kv_heads, *k_rows, *depth]);
            return attention([q, k], dtype_of(dtype)?, *causal, Arch::parse(arch)?);
        }
        Operator::Decode { sequences, heads, kv_heads, keys, depth, dtype, layout, latent, page, arch } => {
            let sizes = [*sequences, *heads, *kv_heads, *keys, *depth, *page];
            return decode(sizes, dtype_of(dtype)?, layout, *latent, Arch::parse(arch)?);
        }
        Operator::Plan { model, full } => return plan(model, *full),
    };
    let dtype = dtype_of(dtype)?;
    let arch = Arch::parse(arch)?;
    let vendor = vendor_of(arch);
    let vendor = vendor.as_deref().map_err(String::as_str);
    println!("{}", gemm::explain(arch, *units, dtype, [*m, *n, *k], vendor)?);
    let shape = Shape { input: dtype, codes: None, output: dtype, lies: Lies::Nn, size: [*m, *n, *k], batches: 1 };
    println!("  tuned       {}", tuned(arch, units_of(arch, *units), shape)?);
    Ok(())
}

/// Compute units of the card that is named, or that stands for the architecture.
fn units_of(arch: Arch, named: Option<usize>) -> Option<usize> {
    named.or(arch.info().card.map(|card| card.compute_units as usize))
}

fn dtype_of(name: &str) -> Result<DType, String> {
    DType::from_name(name).ok_or_else(|| format!("unknown dtype {name:?}"))
}

/// What codes of both sides are and how they are scaled, by the names that users give them.
pub fn sides_of(format: &str, scales: &str) -> Result<[(Format, Granularity); 2], String> {
    let format = Format::from_name(format).ok_or_else(|| format!("unknown format {format:?}"))?;
    let granularities = match scales {
        "tensor" => [Granularity::Tensor; 2],
        "row" => [Granularity::Token; 2],
        "block" => [Granularity::Group(128), Granularity::Block(128)],
        "mx" => [Granularity::Mx(MxRounding::Up); 2],
        other => return Err(format!("unknown scales {other:?}: tensor, row, block or mx")),
    };
    Ok(granularities.map(|granularity| (format, granularity)))
}

/// Prints what becomes of a product of codes.
fn codes(
    size: [usize; 3],
    [format, scales, output]: [&str; 3],
    arch: Arch,
    units: Option<usize>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (sides, output) = (sides_of(format, scales)?, dtype_of(output)?);
    let vendor = vendor_of(arch);
    let vendor = vendor.as_deref().map_err(String::as_str);
    println!("{}", explain_scaled(arch, sides, size, output, vendor)?);
    if arch.info().vendor == Vendor::Amd {
        println!("{}", laid_out(sides, size, output, &gpu_of(arch)?)?);
    }
    if let Some(codes) = Codes::of(sides, size) {
        let shape = Shape::of_codes(codes, output, size);
        println!("  tuned       {}", tuned(arch, units_of(arch, units), shape)?);
    }
    Ok(())
}

/// What AITER's kernels have to do with the same by a weight that is laid out.
fn laid_out(
    sides: [(Format, Granularity); 2],
    [m, n, k]: [usize; 3],
    output: DType,
    device: &Device,
) -> Result<String, Box<dyn std::error::Error>> {
    let made = |shape: &[usize], dtype| Tensor::empty(device, shape, dtype);
    // Rows of codes end with a byte.
    let k = k.next_multiple_of(8 / sides[0].0.bits());
    let rows = |(format, granularity): (Format, Granularity), rows: usize| {
        let codes = made(&[rows, k * format.bits() / 8], DType::U8)?;
        let scales = made(&granularity.scales_shape([rows, k]), granularity.kind().dtype())?;
        Ok::<_, rocfire_hal::Error>((codes, scales, granularity.kind(), granularity.block([rows, k])))
    };
    let ((a, a_scales, kind, block), (b, b_scales, b_kind, b_block)) = (rows(sides[0], m)?, rows(sides[1], n)?);
    let a = CodedRows { format: sides[0].0, codes: a.view(), scales: a_scales.view(), kind, block };
    let weight = Preshuffled::new(device.stream(), sides[1].0, &b)?;
    let b = PreshuffledRows { weight: &weight, scales: b_scales.view(), kind: b_kind, block: b_block };
    Ok(explain_preshuffled(device, &a, &b, made(&[m, n], output)?.view())?)
}

/// Prints what becomes of attention and of its gradients, as a GPU of the architecture would be given it.
fn attention(
    [q, k]: [[usize; 4]; 2],
    dtype: DType,
    causal: bool,
    arch: Arch,
) -> Result<(), Box<dyn std::error::Error>> {
    let device = gpu_of(arch)?;
    let made = |shape: [usize; 4]| Tensor::empty(&device, &shape, dtype);
    let (of_sums, rows) = (if dtype == DType::F64 { dtype } else { DType::F32 }, [q[0], q[1], q[2]]);
    let (dout, dq, dk, dv) = (made(q)?, made(q)?, made(k)?, made(k)?);
    let (q, k, v, out) = (made(q)?, made(k)?, made(k)?, made(q)?);
    let lse = Tensor::empty(&device, &rows, of_sums)?;
    let (q, k, v) = (q.view(), k.view(), v.view());
    let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
    let mut params = AttentionParams::default();
    params.causal = causal;
    println!("{}", attention::explain(&device, &inputs, &params, out.view(), None)?);
    let saved = AttentionSaved { out: out.view(), lse: lse.view(), dout: dout.view() };
    let gradients = [dq.view(), dk.view(), dv.view()];
    println!("{}", attention::explain_backward(&device, &inputs, &saved, &params, gradients)?);
    Ok(())
}

/// A device that runs nothing, and is asked as a GPU of the architecture would be.
fn gpu_of(arch: Arch) -> Result<Device, Box<dyn std::error::Error>> {
    let config = Config::from_env()?;
    let is_on = config.aiter.unwrap_or(true);
    Ok(Device::open(DeviceId::noop(arch.name())?, config.with_aiter(is_on))?)
}

/// Prints what becomes of decoding, of a cache that has a page for each of the keys.
fn decode(
    [sequences, heads, kv_heads, keys, depth, page]: [usize; 6],
    dtype: DType,
    layout: &str,
    latent: Option<usize>,
    arch: Arch,
) -> Result<(), Box<dyn std::error::Error>> {
    let named = |known: &CacheLayout| format!("{known:?}").to_ascii_lowercase() == layout;
    let Some(layout) = CacheLayout::ALL.into_iter().find(named) else {
        return Err(format!("unknown layout {layout:?}: nhd, hnd, packed or packedboth").into());
    };
    let device = gpu_of(arch)?;
    let made = |shape: &[usize], dtype: DType| Tensor::empty(&device, shape, dtype);
    let of_sequence = keys.div_ceil(page.max(1));
    let [k, v] = layout.shapes([sequences * of_sequence, page, kv_heads, depth], dtype);
    let (k, v) = (made(&k, dtype)?, made(&v, dtype)?);
    let cache = match latent {
        Some(latent) => Cache::latent(k.view(), latent, None)?,
        None => Cache::new(k.view(), v.view(), layout, None)?,
    };
    let (lens, table) = (made(&[sequences], DType::I32)?, made(&[sequences, of_sequence], DType::I32)?);
    let value_depth = latent.unwrap_or(depth);
    let (q, out) = (made(&[sequences, heads, depth], dtype)?, made(&[sequences, heads, value_depth], dtype)?);
    let inputs = PagedInputs::new(q.view(), cache, Pages::Table { pages: table.view(), lens: lens.view() }, keys);
    println!("{}", attention::explain_paged(&device, &inputs, &PagedParams::default(), out.view(), None)?);
    Ok(())
}

/// Runs the example that trains the model, which prints its plans.
fn plan(model: &str, full: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--bin", "training-steps", "--", model, "--plans", "--alone"]);
    if !full {
        command.arg("--small");
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the training of {model} ended with {status}").into()) }
}

/// What the tuning tables say of a shape on a card.
fn tuned(arch: Arch, units: Option<usize>, shape: Shape) -> Result<String, Box<dyn std::error::Error>> {
    let driver = if arch.info().vendor == Vendor::Nvidia { "cuda" } else { "hip" };
    let is_ours = |row: &Row| row.driver == driver && row.arch == arch && Some(row.units) == units;
    let rows = known_rows(&Config::from_env()?.tuning_table())?;
    let found = rows.into_iter().rfind(|row| is_ours(row) && row.shape == shape.bucket());
    Ok(found.map_or_else(
        || "no row: the above decides".to_owned(),
        |row| {
            let repeats = if row.repeats_agreed { "" } else { ", not in deterministic runs" };
            format!(
                "{}, {:.2} us a launch{repeats}; in place of the above as long as what was measured has the hash {}",
                row.candidate, row.microseconds, row.hash
            )
        },
    ))
}

/// The vendor's library of this machine's GPU, if it has this architecture.
fn vendor_of(arch: Arch) -> Result<String, String> {
    let same = |id: &DeviceId| id.arch() == arch;
    let found = [DeviceId::hip(0), DeviceId::cuda(0)].into_iter().flatten().find(same);
    let id = found.ok_or_else(|| format!("this machine's GPU is no {arch}"))?;
    let device = Device::get(id).map_err(|error| error.to_string())?;
    device.vendor_gemm().map(str::to_owned)
}
