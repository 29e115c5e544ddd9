//! Every model of candle-transformers that Candle's CPU device runs, small, with weights that follow from their names: a prompt
//! and cached steps on rocfire's device, compared with the CPU device. `cargo verify --outside` runs it.
//!
//! Nothing of the models is here but their configurations: the list is in [`models`], the weights in [`weights`], the
//! comparison in [`compare`]. An argument is a part of a row's name, to run only those rows.

mod compare;
mod models;
mod setup;
mod weights;

use std::process::ExitCode;

use compare::Outcome;

fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let device = match rocfire_candle::device() {
        Ok(choice) => choice.device,
        Err(error) => {
            eprintln!("no device: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed, mut unknown) = (0, Vec::new(), 0);
    let mut models = std::collections::BTreeSet::new();
    println!("{:<34} {:>10} {:>10}", "model", "error", "allowed");
    for case in models::cases().filter(|case| case.name().contains(&filter)) {
        let name = case.name();
        let outcome = compare::run(&case, &device);
        println!("{name:<34} {outcome}");
        match outcome {
            Outcome::Same { .. } => {
                passed += 1;
                models.insert(case.model.name);
            }
            Outcome::NotOnCpu(_) => unknown += 1,
            Outcome::Differs { .. } | Outcome::Fails(_) => failed.push(name),
        }
    }
    println!(
        "{} models: {passed} passed, {} failed, {unknown} that the CPU device does not run",
        models.len(),
        failed.len()
    );
    for name in &failed {
        println!("FAILED {name}");
    }
    if failed.is_empty() && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
