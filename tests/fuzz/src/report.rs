//! What was done, counted.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use rocfire_hal::DType;

use crate::make::Made;
use crate::run::Done;
use crate::table::{Numerics, Row};

/// Counts of a family.
#[derive(Debug, Default)]
pub struct Report {
    /// Programs that ran.
    pub programs: usize,
    /// Time they took.
    pub took: Duration,
    /// Defects.
    pub found: usize,
    calls: BTreeMap<usize, BTreeMap<DType, usize>>,
    open: BTreeMap<usize, (usize, String)>,
    refused: BTreeMap<usize, (usize, String)>,
    known: BTreeMap<&'static str, usize>,
}

impl Report {
    /// Adds what came of one program.
    pub fn add(&mut self, made: &Made, done: Done, took: Duration) {
        self.programs += 1;
        self.took += took;
        for (row, dtype) in done.calls {
            *self.calls.entry(row).or_default().entry(dtype).or_default() += 1;
        }
        for (row, said) in done.open {
            self.open.entry(row).or_insert((0, said)).0 += 1;
        }
        for (row, said) in &made.refused {
            self.refused.entry(*row).or_insert_with(|| (0, said.clone())).0 += 1;
        }
        for (_, reason) in &made.known {
            *self.known.entry(*reason).or_default() += 1;
        }
    }

    /// Operators executed.
    pub fn calls(&self) -> usize {
        self.calls.values().flat_map(BTreeMap::values).sum()
    }

    /// The counts as lines.
    pub fn text(&self, name: &str, rows: &[Row], all: bool) -> String {
        let expected = "writing to a string cannot fail";
        let mut text = String::new();
        let pairs: usize = self.calls.values().map(BTreeMap::len).sum();
        let never: Vec<&str> =
            (0..rows.len()).filter(|row| !self.calls.contains_key(row)).map(|row| rows[row].name).collect();
        writeln!(
            text,
            "{name}: {} programs, {} operators executed, {} of {} rows, {pairs} pairs of row and type, {:.1} s, {} found",
            self.programs,
            self.calls(),
            self.calls.len(),
            rows.len(),
            self.took.as_secs_f64(),
            self.found
        )
        .expect(expected);
        if all {
            for (row, types) in &self.calls {
                let types: Vec<String> = types.iter().map(|(dtype, count)| format!("{dtype} {count}")).collect();
                writeln!(text, "  {:32} {}", rows[*row].name, types.join(", ")).expect(expected);
            }
        }
        if !never.is_empty() && (all || never.len() <= 40) {
            writeln!(text, "  never executed: {}", never.join(", ")).expect(expected);
        }
        for (row, (count, said)) in &self.refused {
            writeln!(text, "  the reference refused {} {count} times: {}", rows[*row].name, line(said))
                .expect(expected);
        }
        for (row, (count, said)) in &self.open {
            if !matches!(rows[*row].numerics, Numerics::Unjudged(_)) {
                writeln!(text, "  not judged: {} {count} times: {}", rows[*row].name, line(said)).expect(expected);
            }
        }
        for (reason, count) in &self.known {
            writeln!(text, "  left out {count} times: {reason}").expect(expected);
        }
        text
    }
}

/// The first line, bounded.
fn line(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("panicked")).unwrap_or_default();
    first.chars().take(140).collect()
}
