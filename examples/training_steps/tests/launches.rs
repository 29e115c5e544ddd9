//! Launches of a training step with fusion, without it, and the operators that were recorded: what `training-steps` prints.

use std::process::Command;

/// What a run prints.
struct Figures {
    launches: f64,
    apart: f64,
    operators: f64,
    loss: f64,
}

fn run(model: &str, fusion: bool) -> Figures {
    let mut command = Command::new(env!("CARGO_BIN_EXE_training-steps"));
    command.args([model, "--small", "--steps", "1", "--warm-up", "2"]);
    if !fusion {
        command.arg("--alone").env("ROCFIRE_FUSION", "0");
    }
    let output = command.output().expect("the example starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    let number = |label: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(label));
        let word = line.and_then(|line| line.split([' ', ',']).find(|word| !word.is_empty()));
        word.and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
    };
    Figures {
        launches: number("launches "),
        apart: number("launches without fusion "),
        operators: number("operators recorded "),
        loss: number("loss "),
    }
}

fn compare(model: &str) -> Figures {
    let (fused, apart) = (run(model, true), run(model, false));
    assert_eq!(fused.apart, apart.launches, "{model}: the same steps without fusion");
    let difference = (fused.loss - apart.loss).abs();
    assert!(difference <= 1e-3 * apart.loss.abs(), "{model}: loss {} fused, {} one by one", fused.loss, apart.loss);
    fused
}

#[test]
fn a_transformer_step_is_a_tenth_of_its_operators() {
    let figures = compare("transformer");
    assert!(10.0 * figures.launches <= figures.operators, "{} of {}", figures.launches, figures.operators);
    assert!(figures.launches <= 175.0, "{} launches", figures.launches);
}

#[test]
fn a_step_of_the_perceptron_is_few_launches() {
    let figures = compare("mlp");
    assert!(figures.launches <= 13.0, "{} launches", figures.launches);
}

/// The last line of a run's losses with nothing compiled before.
fn cold_loss(model: &str, generic: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let mut command = Command::new(env!("CARGO_BIN_EXE_training-steps"));
    command.args([model, "--small", "--alone", "--steps", "2", "--warm-up", "1"]);
    command.env("ROCFIRE_CACHE_DIR", folder.path()).env("ROCFIRE_GENERIC", generic);
    let output = command.output().expect("the example starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().find(|line| line.starts_with("loss ")).expect("the loss is printed").to_owned()
}

#[test]
fn kernels_that_stand_in_give_the_same_loss() {
    for model in ["transformer", "cnn"] {
        let never = cold_loss(model, "never");
        for generic in ["first", "always"] {
            assert_eq!(cold_loss(model, generic), never, "{model}, {generic}");
        }
    }
}
