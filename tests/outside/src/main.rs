//! Every model of candle-transformers that Candle's CPU device runs, small, with weights that follow from their names: a prompt
//! and cached steps on rocfire's device, compared with the CPU device. `cargo verify --outside` runs it.
//!
//! Nothing of the models is here but their configurations: the list is in [`mod@models`], the weights in [`weights`], the
//! comparison in [`compare`], what is known to differ and why in [`known`]. An argument is a part of a row's name, to run only
//! those rows; `--known-tests` prints the names of Candle's tests that are known to fail instead.

mod compare;
mod known;
mod models;
mod setup;
mod weights;

use std::collections::BTreeSet;
use std::process::ExitCode;

use candle_core::Device;
use compare::Verdict;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if argument == "--known-tests" {
        known::TESTS.iter().for_each(|test| println!("{}", test.name));
        return ExitCode::SUCCESS;
    }
    let device = match rocfire_candle::device() {
        Ok(choice) => choice.device,
        Err(error) => {
            eprintln!("no device: {error}");
            return ExitCode::FAILURE;
        }
    };
    // What a model panics with is in its row.
    std::panic::set_hook(Box::new(|_| {}));
    let tests_are_so = !argument.is_empty() || known::print(&device);
    if models(&argument, &device) && tests_are_so {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the rows that have this text in their names; whether all passed, or failed as is known, and there were any.
fn models(filter: &str, device: &Device) -> bool {
    let (mut passed, mut known, mut failed, mut unknown) = (0, 0, Vec::new(), 0);
    let mut models = BTreeSet::new();
    println!("{:<34}{:>9}{:>9}{:>9}", "model", "apart", "ours", "theirs");
    for case in models::cases().filter(|case| case.name().contains(filter)) {
        let name = case.name();
        let outcome = compare::run(&case, device);
        println!("{name:<34}{outcome}");
        let row = known::ROWS.iter().find(|row| name.starts_with(row.model));
        match (outcome.verdict, row) {
            (Verdict::Fails(error), Some(row)) if error.contains(row.says) => {
                println!("{:<34}known: {}", "", row.reason);
                known += 1;
            }
            (Verdict::NotOnCpu(_), _) => unknown += 1,
            (Verdict::Same | Verdict::AsNear | Verdict::OnlyOurs(_), None) => {
                passed += 1;
                models.insert(case.model.name);
            }
            _ => failed.push(name),
        }
    }
    println!(
        "{} models: {passed} rows passed, {} failed, {known} differ as is known, {unknown} that the CPU device does not run",
        models.len(),
        failed.len()
    );
    for name in &failed {
        println!("FAILED {name}");
    }
    failed.is_empty() && passed > 0
}
