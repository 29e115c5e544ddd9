//! The same work, written in Burn's primitives, on rocfire and on the CUDA backend of Burn 0.21, timed in one run.
//!
//! `workloads.rs` is compiled twice, once against each Burn. A time is wall time per call: calls in a row whose results are all
//! held, then a read of a piece of the last, inside the clock, because the peer's `sync` returns before the device is done.
//! Each call has inputs of its own, in all more than a cache holds, and the same numbers on both sides: results are compared.
//!
//! A workspace of its own: beside the patched Burn it needs an unpatched one.

mod ours;
mod peer;

use clap::Parser;

/// Every workload, by name.
const NAMES: &[&str] = &[
    "gelu chain f32",
    "silu mul bf16",
    "softmax bf16",
    "rms norm bf16",
    "layer norm bf16",
    "sum f32",
    "transpose f32",
    "product f16 1024",
    "product f16 4096",
    "attention f16 512",
    "attention f16 1024",
    "conv f16 56",
    "mlp step",
    "mlp step, loss read",
    "transformer step",
];

/// What one side measured.
pub struct Measured {
    pub name: &'static str,
    pub shape: String,
    /// Wall time of a call.
    pub ms: f64,
    /// The first elements of the result.
    pub sample: Vec<f32>,
}

/// Values that look normal, the same every time.
pub fn values(count: usize) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
    };
    // Four uniform values have a variance of a third.
    (0..count).map(|_| (uniform() + uniform() + uniform() + uniform()) * 3f32.sqrt()).collect()
}

/// Times Burn programs on rocfire and on Burn's CUDA backend.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only work with this in its name.
    #[arg(default_value = "")]
    filter: String,
    /// Only ours, for instance where there is no NVIDIA card.
    #[arg(long)]
    alone: bool,
    /// Divide every extent by this, to try the program on the emulated device; its times say nothing then.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    divide: u32,
    /// Take the peer's steps, whose launches another process counts.
    #[arg(long, hide = true)]
    count_peer: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let divide = arguments.divide as usize;
    if arguments.count_peer {
        return peer::count(&arguments.filter, divide);
    }
    if let Err(error) = peer::folder().and_then(std::env::set_current_dir) {
        eprintln!("peers: a folder for CubeCL's settings: {error}");
        std::process::exit(1);
    }
    let names = || NAMES.iter().filter(|name| name.contains(arguments.filter.as_str()));
    println!(
        "{:<22} {:<28} {:>12} {:>12} {:>8} {:>12}",
        "work", "shape", "rocfire ms", "burn 0.21 ms", "ratio", "difference"
    );
    for name in names() {
        let ours = ours::measure(name, divide);
        print!("{:<22} {:<28} {:>12.4}", ours.name, ours.shape, ours.ms);
        if arguments.alone {
            println!();
            continue;
        }
        let peer = peer::measure(name, divide);
        print!(" {:>12.4} {:>8.2}", peer.ms, peer.ms / ours.ms);
        match ours.sample.is_empty() {
            true => println!(" {:>12}", "-"),
            false => println!(" {:>12.2e}", difference(&ours.sample, &peer.sample)),
        }
    }
    for name in names().filter(|name| name.ends_with(" step")) {
        print!("launches of a {name}: rocfire {}", ours::launches(name, divide));
        match (!arguments.alone).then(|| peer::launches(name, divide)) {
            Some(Ok(count)) => println!(", burn 0.21 {count}"),
            Some(Err(error)) => println!(", burn 0.21 not counted: {error}"),
            None => println!(),
        }
    }
}

/// ‖a − b‖ as a part of ‖b‖.
fn difference(a: &[f32], b: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let distance = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    if a.len() == b.len() { distance / norm(&mut b.iter().map(|&b| f64::from(b))) } else { f64::INFINITY }
}
