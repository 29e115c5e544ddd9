//! `rocfire tune`: tries the candidates for shapes of products on the device and writes the fastest into the tuning table.
//!
//! Shapes come from the command line or from a file that runs with `ROCFIRE_TUNING_RECORD=FILE` wrote. Every candidate's result is
//! verified before it is timed. A run of a model never tunes; it looks the table up.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use rocfire_hal::{DType, Device, DeviceId, DriverKind};
use rocfire_kernels::gemm::tune::{Limits, Tuned, tune};
use rocfire_kernels::tuning::{Codes, Lies, Shape, read_shapes, read_table, write_table};

use crate::explain::sides_of;

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A product: `gemm M N K DTYPE`, or of codes with scales `codes M N K FORMAT`; M may be a list with commas.
    #[arg(num_args = 5, value_names = ["OPERATOR", "M", "N", "K", "DTYPE"], required_unless_present = "shapes")]
    product: Vec<String>,
    /// How A and B lie: nn, nt (B by columns, as the weight of a linear layer), tn, tt.
    #[arg(long, default_value = "nn")]
    layout: String,
    /// What of codes shares a scale: tensor, row, block (1x128 by 128x128), mx (32 of a row).
    #[arg(long, default_value = "row")]
    scales: String,
    /// Element type of the result of codes.
    #[arg(long, default_value = "bf16")]
    output: String,
    /// Shapes that runs with ROCFIRE_TUNING_RECORD=FILE noted.
    #[arg(long, value_name = "FILE", conflicts_with = "product")]
    shapes: Option<PathBuf>,
    /// Most seconds for one shape.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Most device memory for operands, MiB.
    #[arg(long, default_value_t = 4096)]
    memory_mb: usize,
    /// The table to extend, if not that of ROCFIRE_TUNING.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Print every candidate.
    #[arg(long)]
    all: bool,
}

/// Tunes and writes the table.
///
/// # Errors
/// For arguments that name no product, files that cannot be read or written, and a device that computes wrongly.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let shapes = match &arguments.shapes {
        Some(path) => read_shapes(path)?,
        None => product(&arguments.product, [&arguments.layout, &arguments.scales, &arguments.output])?,
    };
    let device = Device::get(DeviceId::from_env()?)?;
    let path = arguments.table.clone().unwrap_or_else(|| device.config().tuning_table());
    let mut rows = read_table(&path)?;
    let info = device.info();
    println!("{} ({}), {} compute units", info.name, device.id(), info.compute_units);
    let is_real = matches!(device.id().driver(), DriverKind::Hip | DriverKind::Cuda);
    if !is_real {
        println!("no GPU: the times below are this computer's, and no GPU will read the rows");
    }
    let limits = Limits { seconds: arguments.seconds, memory_bytes: arguments.memory_mb << 20 };
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}")?);
    crate::progress::show_compiles(Some(bar.clone()));
    let mut failures = 0;
    for (number, &shape) in shapes.iter().enumerate() {
        bar.set_prefix(format!("{} of {}: {}", number + 1, shapes.len(), describe(shape)));
        let progress = &mut |done: usize, all: usize, next: &str| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            bar.set_message(next.to_owned());
        };
        match tune(&device, shape, limits, progress) {
            Ok(tuned) => {
                bar.suspend(|| print_tuned(shape, &tuned, arguments.all, is_real));
                rows.retain(|row| !row.is_replaced_by(&tuned.row));
                rows.push(tuned.row);
                // After each, so that nothing is lost when somebody loses patience.
                write_table(&path, &rows)?;
            }
            Err(error) => {
                failures += 1;
                bar.suspend(|| println!("{}: {error}", describe(shape)));
            }
        }
    }
    bar.finish_and_clear();
    println!("written: {} ({} rows)", path.display(), rows.len());
    if failures > 0 { Err(format!("{failures} of {} shapes could not be tuned", shapes.len()).into()) } else { Ok(()) }
}

/// The shapes of `gemm M,M,.. N K DTYPE` or `codes M,M,.. N K FORMAT`.
fn product(words: &[String], [layout, scales, output]: [&str; 3]) -> Result<Vec<Shape>, String> {
    let [operator, m, n, k, input] = words else { return Err("OPERATOR M N K DTYPE".to_owned()) };
    let extent = |text: &str| text.parse().ok().filter(|&n: &usize| n > 0).ok_or(format!("{text:?} is no extent"));
    let dtype = |name: &str| DType::from_name(name).ok_or_else(|| format!("unknown dtype {name:?}"));
    if operator != "gemm" && operator != "codes" {
        return Err(format!("{operator:?} is not tuned; gemm and codes are"));
    }
    let (n, k) = (extent(n)?, extent(k)?);
    let sizes = m.split(',').map(|m| Ok([extent(m)?, n, k])).collect::<Result<Vec<_>, String>>()?;
    if operator == "gemm" {
        let lies = Lies::from_name(layout).ok_or_else(|| format!("{layout:?} is none of nn, nt, tn, tt"))?;
        let input = dtype(input)?;
        let of = |size| Shape { input, codes: None, output: input, lies, size, batches: 1 };
        return Ok(sizes.into_iter().map(of).collect());
    }
    let (sides, output) = (sides_of(input, scales)?, dtype(output)?);
    let of = |size| {
        let codes = Codes::of(sides, size).ok_or_else(|| format!("no library has these scales of {size:?}"))?;
        Ok(Shape::of_codes(codes, output, size))
    };
    sizes.into_iter().map(of).collect()
}

fn describe(shape: Shape) -> String {
    let ([input, layout], [m, n, k], batches) = (shape.names(), shape.size, shape.batches);
    let batches = if batches == 1 { String::new() } else { format!(" x {batches}") };
    format!("{} {input} {layout} {m}x{n}x{k}{batches}", shape.operator())
}

fn print_tuned(shape: Shape, tuned: &Tuned, all: bool, is_real: bool) {
    let of = if is_real { "us" } else { "us of this computer" };
    if all {
        for tried in &tuned.tried {
            match &tried.outcome {
                Ok((time, agreed)) => {
                    let repeats = if *agreed { "" } else { ", repeats differ" };
                    println!("  {:<18} {time:10.2} {of}{repeats}", tried.candidate.to_string());
                }
                Err(why) => println!("  {:<18} {why}", tried.candidate.to_string()),
            }
        }
    }
    let (_, untuned) = tuned.untuned;
    let best = tuned.row.microseconds;
    println!(
        "{}: {} {best:.2} {of}; dispatch so far {untuned:.2} ({:+.1}%){}",
        describe(shape),
        tuned.row.candidate,
        (untuned / best - 1.0) * 100.0,
        if tuned.left_out > 0 { format!("; {} candidates left out for time", tuned.left_out) } else { String::new() },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_list_of_m_is_a_list_of_shapes() {
        let shapes = product(&words("gemm 1,16,256 14336 4096 bf16"), ["nt", "row", "bf16"]).unwrap();
        assert_eq!(shapes.iter().map(|shape| shape.size[0]).collect::<Vec<_>>(), [1, 16, 256]);
        assert_eq!(describe(shapes[0]), "gemm bf16 nt 1x14336x4096");
        let shapes = product(&words("codes 1,64 14336 4096 e4m3"), ["nn", "block", "f16"]).unwrap();
        assert_eq!((shapes.len(), shapes[1].output), (2, DType::F16));
        assert_eq!(describe(shapes[1]), "codes e4m3:e4m3 run128:block128 64x14336x4096");
    }

    #[test]
    fn what_is_no_product_is_named() {
        for (text, layout, what) in [
            ("conv 1 2 3 f32", "nn", "conv"),
            ("gemm 0 2 3 f32", "nn", "\"0\""),
            ("gemm 1 2 3 f31", "nn", "f31"),
            ("gemm 1 2 3 f32", "xx", "\"xx\""),
            ("codes 1 2 3 f32", "nn", "f32"),
            ("codes 16 16 64 e4m3", "nn", "[16, 16, 64]"),
        ] {
            let message = product(&words(text), [layout, "mx", "bf16"]).unwrap_err();
            assert!(message.contains(what), "{message}");
        }
    }
}
