//! The same steps in other processes: without fusion, and with Burn's log of what it executed.

use std::process::Command;

/// What stands in the log before each step and behind the last.
const MARK: &str = "training-steps: mark";

/// The variable by which Burn writes a table of every block that it executes to the standard error.
const LOG: &str = "BURN_FUSION_LOG";

/// Writes the mark, if somebody reads the log.
pub fn mark() {
    if std::env::var_os(LOG).is_some() {
        eprintln!("{MARK}");
    }
}

/// Prints the launches of a step one by one, and how many operators Burn recorded for it.
pub fn compare(launches: u64) {
    let apart = again("ROCFIRE_FUSION", "0").and_then(|(figures, _)| {
        let count = figures.lines().find_map(|line| line.strip_prefix("launches "))?;
        count.trim().parse::<u64>().ok()
    });
    match apart {
        Some(apart) => println!("launches without fusion {apart}"),
        None => println!("launches without fusion: the second process failed"),
    }
    match again(LOG, "full").map(|(_, log)| operators(&log)) {
        Some(count @ 1..) => {
            println!(
                "operators recorded by Burn {count}, {:.1} for each launch",
                count as f64 / launches.max(1) as f64
            );
        }
        _ => println!("operators recorded by Burn: the third process failed"),
    }
}

/// This program with the same arguments and a variable set: what it prints on the two streams.
fn again(variable: &str, value: &str) -> Option<(String, String)> {
    let output = Command::new(std::env::current_exe().ok()?)
        .args(std::env::args_os().skip(1))
        .arg("--alone")
        .env(variable, value)
        .output()
        .ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    output.status.success().then(|| (text(&output.stdout), text(&output.stderr)))
}

/// Operators in the last step of a log. Burn's tables have a row for each that was executed, numbered; the end of a tensor's
/// life is a row, too, but no operator.
fn operators(log: &str) -> usize {
    let mut steps = log.rsplit(MARK);
    let is_operator = |line: &&str| {
        let mut words = line.split_whitespace();
        let is_numbered = words.next().is_some_and(|word| word.parse::<usize>().is_ok());
        is_numbered && words.any(|word| word.contains("::") || word == "Custom")
    };
    steps.nth(1).map_or(0, |step| step.lines().filter(is_operator).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_the_rows_of_the_last_step() {
        let table =
            |rows: &str| format!("fusion trace (3 ops, 1 block)\nidx  block  op  inputs  outputs\n---  --\n{rows}\n");
        let first = table("0    x  NumericFloat::Add  t1:f32[2]  t2:f32[2]");
        let second = table(
            "0    x  Float::Exp  t1  t2\n1       BaseFloat::Reshape  t2  t3\n2       Drop  t2\n3       Custom  t2",
        );
        let log = format!("{MARK}\n{first}{MARK}\n[plan] cache hit: 7\n{second}{MARK}\n");
        assert_eq!(operators(&log), 3);
    }
}
