//! Runs a program every way and judges it.

use crate::data::Data;
use crate::judge::{Verdict, judge, other_bits};
use crate::machine::{Family, Machine, attempt};
use crate::program::{Id, Program, Step, Way};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The reference takes the call, we do not.
    Refused,
    /// Another number than the reference's.
    Wrong,
    /// Other bits than operator by operator.
    Joined,
    /// Other bits the second time.
    Again,
}

/// A defect.
#[derive(Clone, Debug)]
pub struct Found {
    /// What is wrong.
    pub fault: Fault,
    /// The row whose result it is, where it is a call's.
    pub row: Option<usize>,
    /// The step.
    pub step: usize,
    /// In words.
    pub said: String,
}

/// What was done besides.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Calls that ran, by row and the type of their first result.
    pub calls: Vec<(usize, rocfire_hal::DType)>,
    /// Calls that nobody judged, with the reason.
    pub open: Vec<(usize, String)>,
}

/// Runs a program operator by operator, then twice as its users do.
///
/// # Errors
/// The first defect.
pub fn check<F: Family>(family: &F, program: &Program, done: &mut Done) -> Result<(), Found> {
    let known = match separate(family, program, done) {
        Err(found) if found.fault == Fault::Refused && family.is_its_own_refusal(&found.said) => {
            done.open.extend(found.row.map(|row| (row, found.said)));
            return Ok(());
        }
        known => known?,
    };
    let first = joined(family, program, &known, Fault::Joined)?;
    joined(family, program, &first, Fault::Again).map(|_| ())
}

/// Every tensor of the program, one launch after the other; each call is judged.
fn separate<F: Family>(family: &F, program: &Program, done: &mut Done) -> Result<Vec<Data>, Found> {
    let machine = family.separate();
    let mut values = Vec::new();
    let mut known: Vec<Data> = Vec::new();
    for (number, step) in program.steps.iter().enumerate() {
        let given = match step {
            Step::Input(input) => Some(input.data()),
            Step::Given(data) => Some(data.clone()),
            _ => None,
        };
        if let Some(data) = given {
            values.push(machine.input(&data));
            known.push(data);
        }
        let Step::Call(call) = step else { continue };
        let row = &family.rows()[call.row];
        let found = |fault, said| Found { fault, row: Some(call.row), step: number, said };
        let operands = call.operands.iter().map(|&id: &Id| values[id].clone()).collect();
        let (made, got) = attempt(|| {
            let made = machine.call(call.row, operands, &call.params);
            let got: Vec<Data> = made.iter().map(|value| machine.read(value.clone())).collect();
            (made, got)
        })
        .map_err(|said| found(Fault::Refused, said))?;
        done.calls.push((call.row, got.first().map_or(rocfire_hal::DType::F32, |data| data.dtype)));
        let operands: Vec<Data> = call.operands.iter().map(|&id| known[id].clone()).collect();
        let types = got.iter().zip(program.metas.get(values.len()..).unwrap_or_default());
        if let Some((got, meta)) = types.into_iter().find(|(got, meta)| got.dtype != meta.dtype) {
            return Err(found(Fault::Wrong, format!("a tensor of {}, the reference makes {}", got.dtype, meta.dtype)));
        }
        match judge(family.reference(), row, call, &operands, &got, None) {
            Verdict::Right => {}
            Verdict::Open(said) => done.open.push((call.row, said)),
            Verdict::Wrong(result, said) => return Err(found(Fault::Wrong, format!("result {result}: {said}"))),
        }
        values.extend(made);
        known.extend(got);
    }
    Ok(known)
}

/// The program as written, and its results against `known`, bit by bit; an operator that is another computation then is judged
/// as such. What was read takes the place of what was known.
fn joined<F: Family>(family: &F, program: &Program, known: &[Data], fault: Fault) -> Result<Vec<Data>, Found> {
    let firsts = program.firsts();
    let makes = |id: Id| (0..program.steps.len()).rev().find(|&step| firsts[step] <= id).unwrap_or(0);
    let reads = attempt(|| executed(family.joined(), family.beside(), program)).map_err(|said| {
        let row = program.steps.iter().rev().find_map(|step| match step {
            Step::Call(call) => Some(call.row),
            _ => None,
        });
        Found { fault: Fault::Refused, row, step: program.steps.len().saturating_sub(1), said }
    })?;
    let mut now = known.to_vec();
    for (id, got) in reads {
        let step = makes(id);
        let call = match &program.steps[step] {
            Step::Call(call) => Some(call),
            _ => None,
        };
        let differs = call.is_some_and(|call| family.differs_together(&family.rows()[call.row]));
        let said = match call {
            Some(call) if differs && fault == Fault::Joined => {
                let operands: Vec<Data> = call.operands.iter().map(|&id| known[id].clone()).collect();
                let mut results = known[firsts[step]..firsts[step] + call.results].to_vec();
                results[id - firsts[step]] = got.clone();
                let row = &family.rows()[call.row];
                let coarse = family.coarser_together(row, &operands);
                match judge(family.reference(), row, call, &operands, &results, coarse) {
                    Verdict::Wrong(_, said) => Some(said),
                    Verdict::Right | Verdict::Open(_) => None,
                }
            }
            _ => other_bits(&got, &known[id]),
        };
        if let Some(said) = said {
            return Err(Found { fault, row: call.map(|call| call.row), step, said: format!("t{id}: {said}") });
        }
        now[id] = got;
    }
    Ok(now)
}

/// What is read while the program runs and at its end.
fn executed<M: Machine>(machine: &M, beside: Option<&M>, program: &Program) -> Vec<(Id, Data)> {
    let all = |steps: &[Step], values: &mut Vec<Option<M::Value>>| stretch(machine, steps, values);
    let mut reads = Vec::new();
    match program.way {
        Way::Straight => {
            let mut values = Vec::new();
            reads.extend(all(&program.steps, &mut values));
            reads.extend(rest(machine, values));
        }
        Way::Handed(at) => {
            let (first, second) = program.steps.split_at(at.min(program.steps.len()));
            let (early, mut values) = on_a_thread(|| {
                let mut values = Vec::new();
                (all(first, &mut values), values)
            });
            reads.extend(early);
            reads.extend(on_a_thread(|| {
                let mut late = all(second, &mut values);
                late.extend(rest(machine, values));
                late
            }));
        }
        Way::Together(threads) => reads.extend(at_once(&vec![machine; threads], program)),
        Way::Beside => reads.extend(at_once(&[machine, beside.unwrap_or(machine)], program)),
    }
    reads
}

/// What is read where each machine runs all of the program on a thread of its own.
fn at_once<M: Machine>(machines: &[&M], program: &Program) -> Vec<(Id, Data)> {
    let one = |machine: &M| {
        let mut values = Vec::new();
        let mut reads = stretch(machine, &program.steps, &mut values);
        reads.extend(rest(machine, values));
        reads
    };
    let one = &one;
    std::thread::scope(|scope| {
        let running: Vec<_> = machines.iter().map(|machine| scope.spawn(move || one(machine))).collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined.flat_map(|reads| reads.unwrap_or_else(|payload| std::panic::resume_unwind(payload))).collect()
    })
}

fn on_a_thread<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(run);
        thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    })
}

fn stretch<M: Machine>(machine: &M, steps: &[Step], values: &mut Vec<Option<M::Value>>) -> Vec<(Id, Data)> {
    let mut reads = Vec::new();
    let live = |values: &[Option<M::Value>], id: Id| values[id].clone().expect("a program uses what is live");
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Input(input) => values.push(Some(machine.input(&input.data()))),
            Step::Given(data) => values.push(Some(machine.input(data))),
            Step::Call(call) => {
                let moved = moved(steps, at);
                let operand = |&id: &Id| if moved.contains(&id) { values[id].take() } else { values[id].clone() };
                let operands =
                    call.operands.iter().map(operand).map(|value| value.expect("a program uses what is live"));
                let operands = operands.collect();
                values.extend(machine.call(call.row, operands, &call.params).into_iter().map(Some));
            }
            Step::Read(id) => reads.push((*id, machine.read(live(values, *id)))),
            Step::Drop(id) => values[*id] = None,
        }
    }
    reads
}

fn rest<M: Machine>(machine: &M, values: Vec<Option<M::Value>>) -> Vec<(Id, Data)> {
    let left = values.into_iter().enumerate().filter_map(|(id, value)| Some((id, value?)));
    left.map(|(id, value)| (id, machine.read(value))).collect()
}

/// Operands that a call is the last to use: they are moved into it, as in a program that somebody wrote.
pub fn moved(steps: &[Step], at: usize) -> Vec<Id> {
    let Step::Call(call) = &steps[at] else { return Vec::new() };
    let dropped = steps[at + 1..].iter().map_while(|step| if let Step::Drop(id) = step { Some(*id) } else { None });
    dropped.filter(|id| call.operands.iter().filter(|operand| *operand == id).count() == 1).collect()
}
