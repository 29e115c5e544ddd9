//! `serving llama`: serves a few requests with a tiny model of random weights, and prints their tokens beside
//! those of the same model written plainly.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use serving::catalogue::{LIMITS, NAMES, Served, build};
use serving::engine::{Choice, Engine, Request};

/// What both frameworks read when they open their device.
const DEVICE: &str = "ROCFIRE_DEVICE";

/// Tiny models of recent shapes with random weights, served in a continuous batch.
#[derive(Parser)]
struct Options {
    /// Which model.
    #[arg(value_parser = PossibleValuesParser::new(NAMES))]
    model: String,
    /// As `ROCFIRE_DEVICE` names it: `emulated:gfx942`, `hip:0`.
    #[arg(long)]
    device: Option<String>,
    /// Requests.
    #[arg(long, default_value_t = 4)]
    requests: usize,
    /// Tokens that each writes.
    #[arg(long, default_value_t = 8)]
    tokens: usize,
    /// What logits are divided by; 0: the likeliest token.
    #[arg(long, default_value_t = 0.0)]
    temperature: f32,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.device {
        Some(device) if std::env::var(DEVICE).ok().as_ref() != Some(device) => again(device),
        _ => serve(&options),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The same command in a process of this device's.
fn again(device: &str) -> serving::Result<ExitCode> {
    let status =
        Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(DEVICE, device).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn serve(options: &Options) -> serving::Result<ExitCode> {
    let Served { model, plain, device } = build(&options.model, LIMITS)?;
    println!("{} on {device}", options.model);
    let choice = |seed| Choice { temperature: options.temperature, seed, ..Choice::default() };
    let prompt = |of: usize| (0..1 + of * 5 % 12).map(|at| ((of * 31 + at * at * 7 + at * 13) % 96) as u32).collect();
    let request = |of: usize| Request { prompt: prompt(of), count: options.tokens, choice: choice(of as i64) };
    let requests: Vec<Request> = (0..options.requests).map(request).collect();
    let (mut engine, mut answers) = (Engine::new(model, LIMITS), BTreeMap::new());
    for request in &requests {
        engine.submit(request.clone())?;
    }
    let (start, mut steps) = (Instant::now(), 0);
    while !engine.is_idle() {
        answers.extend(engine.step()?);
        steps += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut are_equal = true;
    for (request, answer) in requests.iter().zip(answers.values()) {
        println!("{:?}\n    -> {:?}", request.prompt, answer.tokens);
        if options.temperature == 0.0 {
            let mut text = request.prompt.clone();
            for token in &answer.tokens {
                let logits = plain.logits(&text)?;
                let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                are_equal &= best.is_some_and(|(best, _)| best == *token as usize);
                text.push(*token);
            }
        }
    }
    if options.temperature == 0.0 {
        println!(
            "the same written plainly, on the CPU: {}",
            if are_equal { "the same tokens" } else { "OTHER tokens" }
        );
    }
    let count = options.requests * options.tokens;
    let what = if device.contains("emulated") { "; emulated, which is no GPU's speed" } else { "" };
    println!(
        "{count} tokens in {steps} steps, {:.1} tokens/s, kernels compiled on the way{what}",
        count as f64 / seconds
    );
    Ok(if are_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
