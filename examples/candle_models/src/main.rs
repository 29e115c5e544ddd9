//! `candle-models llama --tiny`, `quantized`, `bert`, `train`: prints what the device gives, and with `--tiny` compares it with
//! what Candle's CPU device gives.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use candle_core::{DType, Device};
use candle_models::bench::{self, Timed};
use candle_models::{Result, bert, llama, quantized, tiny, train};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use rocfire_candle::DriverKind;

fn main() -> ExitCode {
    match run(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let tiny =
        || Arg::new("tiny").long("tiny").action(ArgAction::SetTrue).help("a small model with random weights, made now");
    let path = |help| {
        Arg::new("model").long("model").value_parser(value_parser!(PathBuf)).help(help).required_unless_present("tiny")
    };
    let text = |fallback| {
        Arg::new("prompt")
            .long("prompt")
            .num_args(1..)
            .default_value(fallback)
            .help("what comes first, or what is embedded")
    };
    let tokens = || {
        Arg::new("tokens").long("tokens").value_parser(value_parser!(usize)).default_value("12").help("tokens to write")
    };
    let number = |name: &'static str, help: &'static str, usual: &'static str| {
        Arg::new(name).long(name).value_parser(value_parser!(usize)).default_value(usual).help(help)
    };
    let dtype = || {
        Arg::new("dtype")
            .long("dtype")
            .value_parser(["f32", "f16", "bf16"])
            .default_value("f32")
            .help("of weights and activations")
    };
    let cpu = Arg::new("cpu").long("cpu").action(ArgAction::SetTrue).global(true).help("on Candle's CPU device");
    const FOLDER: &str = "a folder with config.json, tokenizer.json and *.safetensors, as Hugging Face has them";
    let models = [
        Command::new("llama")
            .about("Llama, text generation")
            .args([tiny(), path(FOLDER), tokens(), dtype()])
            .arg(text("It was a fine morning")),
        Command::new("quantized")
            .about("Llama of few bits, text generation")
            .args([tiny(), path("a GGUF file, tokenizer.json beside it"), tokens()])
            .arg(text("It was a fine morning")),
        Command::new("bert")
            .about("BERT, how alike sentences are")
            .args([tiny(), path(FOLDER), dtype()])
            .arg(text("It was a fine morning.")),
        Command::new("train").about("a perceptron told two rings of points apart, by AdamW").arg(
            Arg::new("steps")
                .long("steps")
                .value_parser(value_parser!(usize))
                .default_value("40")
                .help("steps of the optimizer"),
        ),
        Command::new("first-token")
            .about("the first token of Llama-3.2-1B's shape with random weights, for `cargo bench-cold`")
            .args([
                number("layers", "layers", "16"),
                number("narrower", "narrower by this factor: 1, 2, 4 or 8", "1"),
                number("context", "tokens of the prompt", "128"),
            ])
            .arg(dtype()),
        Command::new("bench")
            .about("Llama-3.2-1B's and BERT-base's shapes with random weights, and products by GGUF weights, timed")
            .arg(
                Arg::new("what")
                    .value_parser(["llama", "bert", "gguf", "host"])
                    .num_args(1..)
                    .help("what to time; all"),
            )
            .args([
                number("layers", "layers of Llama; BERT has three quarters of as many", "16"),
                number("context", "tokens before the one that is timed", "128"),
                number("count", "repetitions, of which the median counts", "40"),
                Arg::new("tf32")
                    .long("tf32")
                    .action(ArgAction::SetTrue)
                    .help("let products of f32 round their factors to TF32, where the card has it"),
            ]),
    ];
    Command::new("candle-models")
        .about("Model code of candle-transformers, unmodified, on rocfire's devices")
        .subcommand_required(true)
        .subcommands(models)
        .arg(cpu)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let (name, options) = matches.subcommand().ok_or("a model is required")?;
    let (device, computes) = if matches.get_flag("cpu") {
        (Device::Cpu, true)
    } else {
        let found = rocfire_candle::device()?;
        eprintln!("device: {found}");
        (found.device, found.id.driver() != DriverKind::Noop)
    };
    let start = Instant::now();
    match name {
        "train" => {
            let steps = *options.get_one("steps").ok_or("steps")?;
            let trained = train::run(&device, steps, 3)?;
            println!("loss {:?}", trained.losses);
            println!("{:.1} % of the points told right", 100.0 * trained.accuracy);
        }
        "first-token" => {
            let (layers, context) = (number(options, "layers")?, number(options, "context")?);
            let narrower = number(options, "narrower")?.clamp(1, 8).next_power_of_two();
            let token = bench::first_token(&device, dtype_of(options), layers, narrower, context)?;
            println!("first token {token}");
        }
        "bench" => timed(options, &Timed { device: &device, computes })?,
        _ => models(name, options, &device)?,
    }
    eprintln!("{:.1} s, the time to compile kernels included", start.elapsed().as_secs_f64());
    Ok(())
}

fn number(options: &ArgMatches, name: &str) -> Result<usize> {
    Ok(options.get_one::<usize>(name).copied().ok_or_else(|| name.to_owned())?)
}

fn dtype_of(options: &ArgMatches) -> DType {
    match options.get_one::<String>("dtype").map(String::as_str) {
        Some("f16") => DType::F16,
        Some("bf16") => DType::BF16,
        _ => DType::F32,
    }
}

fn timed(options: &ArgMatches, on: &Timed<'_>) -> Result<()> {
    let device = on.device;
    let number = |name| number(options, name);
    let (layers, context, count) = (number("layers")?, number("context")?, number("count")?.max(1));
    candle_core::cuda::set_gemm_reduced_precision_f32(options.get_flag("tf32"));
    let what: Vec<&str> = match options.get_many::<String>("what") {
        Some(what) => what.map(String::as_str).collect(),
        None => vec!["llama", "bert", "gguf", "host"],
    };
    if what.contains(&"llama") {
        println!("{}", bench::llama(on, DType::BF16, layers, context, count)?);
    }
    if what.contains(&"bert") {
        for dtype in [DType::F32, DType::F16] {
            match bench::bert(on, dtype, layers.div_ceil(4) * 3, count) {
                Ok(measured) => println!("{measured}"),
                // Candle's BERT adds a mask whose least number is no f16: NaN on every device.
                Err(error) if dtype == DType::F16 => println!("BERT-base, {dtype:?}: {error}"),
                Err(error) => return Err(error),
            }
        }
    }
    if what.contains(&"host") {
        println!("{}", bench::host(device, count)?);
    }
    if what.contains(&"gguf") {
        println!("{}", bench::gguf(on, count)?);
    }
    Ok(())
}

fn models(name: &str, options: &ArgMatches, device: &Device) -> Result<()> {
    let made = tempfile::tempdir()?;
    let is_tiny = options.get_flag("tiny");
    let model: PathBuf = match (name, is_tiny) {
        ("quantized", true) => tiny::quantized(made.path())?,
        ("llama", true) => tiny::llama(made.path()).map(|()| made.path().to_owned())?,
        ("bert", true) => tiny::bert(made.path()).map(|()| made.path().to_owned())?,
        _ => options.get_one::<PathBuf>("model").ok_or("--model or --tiny")?.clone(),
    };
    let printed = answer(name, options, &model, device)?;
    println!("{printed}");
    if is_tiny && !device.is_cpu() {
        let expected = answer(name, options, &model, &Device::Cpu)?;
        if printed == expected {
            println!("the same as on Candle's CPU device");
        } else {
            println!("on Candle's CPU device:\n{expected}");
        }
    }
    Ok(())
}

fn answer(name: &str, options: &ArgMatches, model: &Path, device: &Device) -> Result<String> {
    let prompts: Vec<&str> = options.get_many::<String>("prompt").ok_or("prompt")?.map(String::as_str).collect();
    let prompt = prompts.join(" ");
    let tokens = || options.get_one::<usize>("tokens").copied().ok_or("tokens");
    let dtype = || dtype_of(options);
    Ok(match name {
        "llama" => llama::Model::load(model, dtype(), device)?.generate(&prompt, tokens()?)?.text,
        "quantized" => quantized::Model::load(model, device)?.generate(&prompt, tokens()?)?.text,
        _ => {
            let vectors = bert::Model::load(model, dtype(), device)?.embed(&prompts)?;
            let alike = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let mut lines = Vec::new();
            for (row, prompt) in prompts.iter().enumerate() {
                let row: Vec<String> =
                    vectors.iter().map(|other| format!("{:6.3}", alike(&vectors[row], other))).collect();
                lines.push(format!("{}  {prompt}", row.join(" ")));
            }
            lines.join("\n")
        }
    })
}
