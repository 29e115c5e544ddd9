//! Makes a failing program smaller: by fewer and lower decisions, then by giving the failing call its operands.

use std::time::{Duration, Instant};

use crate::choice::{Choices, Record};
use crate::data::Data;
use crate::machine::{Family, Machine, attempt};
use crate::make::Made;
use crate::program::{Program, Step, Way};
use crate::run::{Done, Fault, Found, check};

/// A smaller program that fails in the same way.
pub struct Shrunk {
    /// The program.
    pub program: Program,
    /// How it fails.
    pub found: Found,
}

/// Looks for a smaller program for so long. `make` makes one of decisions.
pub fn shrink<F: Family>(
    family: &F,
    record: Record,
    found: Found,
    patience: Duration,
    make: impl Fn(&mut Choices) -> Made,
) -> Shrunk {
    let deadline = Instant::now() + patience;
    let fails = |taken: &[u32]| -> Option<(Record, Program, Found)> {
        let mut choices = Choices::told(taken.to_vec());
        let program = make(&mut choices).program;
        let again = fails_alike(family, &program, &found)?;
        Some((choices.into_record(), program, again))
    };
    let mut best = fails(&record.taken);
    let mut record = record;
    let mut improved = true;
    while improved && Instant::now() < deadline {
        improved = false;
        for candidate in candidates(&record) {
            if Instant::now() >= deadline {
                break;
            }
            if let Some(smaller) = fails(&candidate)
                && is_simpler(&smaller.0.taken, &record.taken)
            {
                record = smaller.0.clone();
                best = Some(smaller);
                improved = true;
                break;
            }
        }
    }
    let Some((_, program, found)) = best else {
        // It does not fail again: the program as it was is all there is to tell.
        let program = make(&mut Choices::told(record.taken)).program;
        return Shrunk { program, found };
    };
    alone_with_operands(family, &program, &found).unwrap_or(Shrunk { program, found })
}

fn fails_alike<F: Family>(family: &F, program: &Program, as_in: &Found) -> Option<Found> {
    let again = check(family, program, &mut Done::default()).err()?;
    (again.fault == as_in.fault && again.row == as_in.row).then_some(again)
}

/// Fewer decisions are simpler, and lower ones among as many.
pub(crate) fn is_simpler(a: &[u32], b: &[u32]) -> bool {
    (a.len(), a) < (b.len(), b)
}

/// Smaller records, the boldest first.
pub(crate) fn candidates(record: &Record) -> Vec<Vec<u32>> {
    let taken = &record.taken;
    let without = |range: std::ops::Range<usize>| [&taken[..range.start], &taken[range.end..]].concat();
    let mut candidates: Vec<Vec<u32>> = Vec::new();
    // The number of operators is the first decision of a program.
    for fewer in [0, 1, 2, 4, 8] {
        if taken.len() > 1 && fewer < taken[1] {
            let mut less = taken.clone();
            less[1] = fewer;
            candidates.push(less);
        }
    }
    for span in record.spans.iter().rev() {
        let mut less = without(span.clone());
        if less.len() > 1 {
            less[1] = less[1].saturating_sub(1);
        }
        candidates.push(less);
    }
    for length in [8, 4, 2, 1] {
        let starts = (0..taken.len().saturating_sub(length)).rev().step_by(length);
        candidates.extend(starts.map(|start| without(start..start + length)));
    }
    for (at, &number) in taken.iter().enumerate().filter(|(_, number)| **number > 0) {
        for lower in [0, number / 2, number - 1] {
            let mut less = taken.clone();
            less[at] = lower;
            candidates.push(less);
        }
    }
    candidates
}

/// The failing call on inputs that hold what its operands held, if it still fails.
fn alone_with_operands<F: Family>(family: &F, program: &Program, found: &Found) -> Option<Shrunk> {
    let Step::Call(call) = program.steps.get(found.step)? else { return None };
    let mut values = Vec::new();
    let mut known: Vec<Data> = Vec::new();
    let machine = family.separate();
    for step in &program.steps[..found.step] {
        match step {
            Step::Input(input) => values.push(machine.input(&input.data())),
            Step::Given(data) => values.push(machine.input(data)),
            Step::Call(call) => {
                let operands = call.operands.iter().map(|&id| values[id].clone()).collect();
                values.extend(attempt(|| machine.call(call.row, operands, &call.params)).ok()?);
            }
            Step::Read(_) | Step::Drop(_) => {}
        }
        while known.len() < values.len() {
            let value = values[known.len()].clone();
            known.push(attempt(|| machine.read(value)).ok()?);
        }
    }
    let mut small = Program { way: Way::Straight, ..Program::default() };
    let mut call = call.clone();
    for (number, id) in call.operands.iter_mut().enumerate() {
        small.steps.push(Step::Given(known[*id].clone()));
        small.metas.push(program.metas[*id].clone());
        *id = number;
    }
    let first = program.firsts()[found.step];
    small.metas.extend_from_slice(program.metas.get(first..first + call.results)?);
    small.steps.push(Step::Call(call));
    let again = check(family, &small, &mut Done::default()).err()?;
    let alike = again.row == found.row && (again.fault == found.fault || found.fault == Fault::Again);
    alike.then_some(Shrunk { program: small, found: again })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_shorter_or_lower() {
        let record = Record { taken: vec![3, 5, 0, 7, 1], spans: std::iter::once(2..4).collect() };
        let all = candidates(&record);
        assert!(all.iter().all(|candidate| is_simpler(candidate, &record.taken)));
        assert!(all.contains(&vec![3, 4, 1]), "a span is left out as a whole");
    }
}
