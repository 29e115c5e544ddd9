//! Launchers of `kernels` and `fusion`, called with arguments of any size: the cases of `rocfire-tests` with choices of ours,
//! judged by their own f64 oracles.

use std::collections::BTreeMap;
use std::time::Instant;

use rocfire_hal::{Device, Error};
use rocfire_tests::case::drawn;

use crate::choice::Choices;
use crate::machine::{attempt, quiet_panics};
use crate::session::{Plan, SHRINKING, program_seed};
use crate::shrink::{candidates, is_simpler};

/// Runs one case twice: both have to be right, and equally far from the oracle.
fn check(device: &Device, choices: &mut Choices) -> (String, Result<(), String>) {
    let case = drawn(&mut |bound| choices.below(bound));
    let outcome = attempt(|| {
        let first = case.check(device).map_err(|error| error.to_string())?;
        let second = case.check(device).map_err(|error| error.to_string())?;
        let same = first.nmse.to_bits() == second.nmse.to_bits();
        if same { Ok(()) } else { Err(format!("NMSE {:e}, and {:e} the second time", first.nmse, second.nmse)) }
    });
    (case.name(), outcome.and_then(|outcome| outcome))
}

/// Fewer and lower choices that still fail.
fn shrunk(device: &Device, record: crate::choice::Record) -> (Vec<u32>, String, String) {
    let deadline = Instant::now() + SHRINKING;
    let fails = |taken: Vec<u32>| {
        let mut choices = Choices::told(taken);
        let (name, outcome) = check(device, &mut choices);
        outcome.err().map(|said| (choices.into_record(), name, said))
    };
    let mut best = (record.clone(), "fails no more when it is told again".to_owned(), String::new());
    if let Some(again) = fails(record.taken) {
        best = again;
    }
    while Instant::now() < deadline {
        let before = best.0.clone();
        let smaller = candidates(&before).into_iter().take_while(|_| Instant::now() < deadline);
        let smaller = smaller.filter_map(&fails).find(|(record, ..)| is_simpler(&record.taken, &before.taken));
        match smaller {
            Some(smaller) => best = smaller,
            None => break,
        }
    }
    (best.0.taken, best.1, best.2)
}

/// Runs launchers until the time is over. The number of defects comes back.
///
/// # Errors
/// A device that cannot be opened.
pub fn run_launchers(plan: &Plan) -> Result<usize, Error> {
    quiet_panics();
    let device = Device::get(rocfire_tests::device_id()?)?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut told: Vec<String> = Vec::new();
    let start = Instant::now();
    let mut number = plan.at.unwrap_or(0);
    let mut cases = 0_usize;
    while cases == 0 || plan.at.is_none() && start.elapsed() < plan.time && told.len() < plan.most_found {
        let mut choices = Choices::drawn(program_seed(plan.seed, number));
        let (name, outcome) = check(&device, &mut choices);
        let operator = name.split('/').take(2).collect::<Vec<_>>().join(" ");
        *counts.entry(operator.clone()).or_default() += 1;
        cases += 1;
        if let Err(said) = outcome
            && !told.contains(&operator)
        {
            told.push(operator);
            println!("== found: {name}: {said}");
            println!("repeat: cargo fuzz-ops --family launchers --seed {} --at {number}", plan.seed);
            let (taken, name, said) = shrunk(&device, choices.into_record());
            println!("as small as it gets: {name}: {said}\n{}", test(&taken, plan.seed, number));
        }
        number += 1;
    }
    let took = start.elapsed().as_secs_f64();
    println!(
        "launchers: {cases} cases twice, {} pairs of operator and type, {took:.1} s, {} found",
        counts.len(),
        told.len()
    );
    if plan.tells_all {
        counts.iter().for_each(|(operator, count)| println!("  {operator:32} {count}"));
    }
    Ok(told.len())
}

/// The case as a test of `rocfire-tests`.
fn test(taken: &[u32], seed: u64, number: u64) -> String {
    format!(
        "#[test]
fn fuzz_launchers_{seed}_{number}() {{
    let mut choices = {taken:?}.into_iter();
    let case = rocfire_tests::case::drawn(&mut |bound| choices.next().unwrap_or(0) % bound);
    let device = rocfire_hal::Device::get(rocfire_tests::device_id().unwrap()).unwrap();
    case.check(&device).unwrap();
}}
"
    )
}
