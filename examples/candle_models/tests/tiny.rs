//! The tiny models give on the device what they give on Candle's CPU device.

use candle_core::{DType, Device};
use candle_models::{bert, llama, quantized, tiny, train};

fn gpu() -> Device {
    rocfire_candle::device().expect("there is always an emulated device").device
}

#[test]
fn llama_writes_the_same_tokens_as_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    tiny::llama(folder.path()).unwrap();
    let generate = |device: &Device| {
        llama::Model::load(folder.path(), DType::F32, device).unwrap().generate("It was a fine morning", 8).unwrap()
    };
    let (expected, got) = (generate(&Device::Cpu), generate(&gpu()));
    assert_eq!(got, expected);
    assert!(!got.tokens.is_empty() && got.text.starts_with("It was a fine morning"), "{got:?}");
}

#[test]
fn llama_runs_in_bf16() {
    let folder = tempfile::tempdir().unwrap();
    tiny::llama(folder.path()).unwrap();
    let model = llama::Model::load(folder.path(), DType::BF16, &gpu()).unwrap();
    assert!(!model.generate("She said", 3).unwrap().tokens.is_empty());
}

#[test]
fn quantized_llama_thinks_as_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = tiny::quantized(folder.path()).unwrap();
    let load = |device: &Device| quantized::Model::load(&gguf, device).unwrap();
    let (mut cpu, mut device) = (load(&Device::Cpu), load(&gpu()));
    // Both quantise activations to 8 bits, in blocks of other sizes: logits of around 1 differ in the second digit.
    let prompt = "Catherine was not a little surprised by it";
    for prompt in ["It", prompt] {
        let (expected, got) = (cpu.logits(prompt).unwrap(), device.logits(prompt).unwrap());
        let error = expected.iter().zip(&got).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
        let scale = expected.iter().map(|a| a.powi(2)).sum::<f32>();
        assert!(error <= 1e-3 * scale, "{prompt}: {error} of {scale}");
    }
    assert_eq!(device.generate(prompt, 4).unwrap(), device.generate(prompt, 4).unwrap());
}

#[test]
fn bert_finds_the_same_vectors_as_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    tiny::bert(folder.path()).unwrap();
    let sentences = ["It was a fine morning.", "She had no doubt of it, whatever the others might think."];
    let embed =
        |device: &Device| bert::Model::load(folder.path(), DType::F32, device).unwrap().embed(&sentences).unwrap();
    let (expected, got) = (embed(&Device::Cpu), embed(&gpu()));
    for (expected, got) in expected.iter().flatten().zip(got.iter().flatten()) {
        assert!((expected - got).abs() < 1e-5, "{expected} {got}");
    }
}

#[test]
fn training_goes_as_on_the_cpu() {
    let (expected, got) = (train::run(&Device::Cpu, 12, 3).unwrap(), train::run(&gpu(), 12, 3).unwrap());
    for (expected, got) in expected.losses.iter().zip(&got.losses) {
        assert!((expected - got).abs() < 1e-3, "{expected} {got}");
    }
    assert!(got.losses[11] < 0.5 * got.losses[0], "{:?}", got.losses);
}

#[test]
fn a_token_of_llama_is_few_launches() {
    const TEST: &str = "a_token_of_llama_is_few_launches";
    const CHILD: &str = "TEST_OF_ALL_JOINS";
    if std::env::var_os(CHILD).is_none() {
        // In a process where runs need not be deterministic, as on GPUs: with the joins that change bits.
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let child = child.args([TEST, "--exact"]).env(CHILD, "1").env("ROCFIRE_DETERMINISTIC", "0");
        let output = child.output().unwrap();
        let [said, failed] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success() && said.contains("1 passed"), "{said}\n{failed}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    tiny::llama(folder.path()).unwrap();
    let device = gpu();
    let model = llama::Model::load(folder.path(), DType::BF16, &device).unwrap();
    let launches = |tokens| {
        let before = rocfire_candle::launches(&device).unwrap();
        assert_eq!(model.generate("She said", tokens).unwrap().tokens.len(), tokens, "the text ended");
        rocfire_candle::launches(&device).unwrap() - before
    };
    // A chain gets its kernel when it has come three times.
    for _ in 0..3 {
        launches(6);
        launches(7);
    }
    // A layer is 11 launches, where Candle asks for 35; besides: embedding, first norm, logits, and the greatest of them in f32.
    assert_eq!(launches(7) - launches(6), 2 * 11 + 4);
}
