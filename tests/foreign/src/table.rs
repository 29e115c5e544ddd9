//! The table of what came out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use rocfire_emulator::Schedule;

use crate::case::{Case, Outcome, SCHEDULES, Verdict};
use crate::findings::{self, Expected, FINDINGS};

/// A case, and what came of it.
pub type Judged<'a> = (&'a Case, &'a Verdict);

/// One line about a case.
pub fn line(case: &Case, verdict: &Verdict) -> String {
    let results: Vec<String> =
        verdict.results.iter().zip(SCHEDULES).map(|(result, schedule)| shown(result, schedule)).collect();
    let reports = verdict.reports.iter().map(|report| format!("\n    {report}")).collect::<String>();
    format!("{} {} {} {}: {}{reports}", case.family, case.object.arch, case.object.name, case.shape, results.join(", "))
}

fn shown(result: &Outcome, schedule: Schedule) -> String {
    match result {
        Outcome::Right(distance) => format!("right {} ({distance:.1e})", named(schedule)),
        Outcome::Wrong(distance) => format!("wrong {} ({distance:.1e})", named(schedule)),
        Outcome::Stopped(reason) => format!("stopped {}: {reason}", named(schedule)),
    }
}

fn named(schedule: Schedule) -> String {
    match schedule {
        Schedule::ToBarrier => "to the barrier".to_owned(),
        Schedule::Turns(instructions) => format!("in turns of {instructions}"),
    }
}

/// Counts of code objects: run, right, right in turns only, wrong.
pub fn summary(judged: &[Judged<'_>]) -> String {
    let mut worst: BTreeMap<(&str, &str), u8> = BTreeMap::new();
    for (case, verdict) in judged {
        let rank = match verdict.right() {
            Some(Schedule::ToBarrier) => 0,
            Some(Schedule::Turns(_)) => 1,
            None => 2,
        };
        let known = worst.entry((case.object.arch, &case.object.name)).or_default();
        *known = rank.max(*known);
    }
    let count = |rank: u8| worst.values().filter(|&&other| other == rank).count();
    format!(
        "{} code objects run, {} launches compared: {} objects right, {} right only where waves take short turns, {} wrong",
        worst.len(),
        judged.len(),
        count(0),
        count(1),
        count(2)
    )
}

/// The kind of a report.
fn kind(report: &str) -> &'static str {
    let kinds = [
        ("race on LDS", "race on LDS"),
        ("race between workgroups", "race between workgroups"),
        ("before the wait", "missing wait"),
        ("without the wait", "missing wait"),
        ("that nobody wrote", "unwritten"),
    ];
    kinds.iter().find(|(part, _)| report.contains(part)).map_or("stopped", |(_, kind)| kind)
}

/// What the page begins with.
const INTRODUCTION: [&str; 3] = [
    "Written by `cargo verify --foreign`: code objects that others published, run on the emulator and compared with \
     references in f64. The packages are downloaded when they are needed; their hashes are in `foreign/src/package.rs`.",
    "*error* is the largest difference in units of the reference's largest value. A wave runs *to the barrier* before the \
     next begins, the worst case, or the waves take *turns* of so many instructions. *checks* are what the emulator's checks \
     report under the schedule that was right: races on LDS between the waves of a workgroup, races between workgroups, \
     registers used before the `s_waitcnt`, and uses of what nobody wrote.",
    "`pa_bf16_noquant_gqa8_1tg_4w` and `mla_dec_stage1_bf16_a16w16_subQ16_mqa16` and `…_subQ128_mqa128` are run as launchers have them, with \
     waits mended that are short (`kernels/src/aiter/mends.rs`); without that their *checks* are those of their kin.",
];

/// A paragraph in lines of at most 130 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= 130 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// The page `tests/foreign.md`.
pub fn page(judged: &[Judged<'_>], objects: usize) -> String {
    let mut page = String::from("# Kernels of others\n\n");
    for paragraph in INTRODUCTION {
        let _ = writeln!(page, "{}\n", wrapped(paragraph));
    }
    let _ = writeln!(page, "{}. AITER's package has {objects}.\n", summary(judged));
    families(&mut page, judged);
    found(&mut page, judged);
    page.push_str("## All launches\n\n");
    page.push_str("| kernel | architecture | shapes | error | schedule | result | checks |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    let mut rows: BTreeMap<(&str, &str, &str), Vec<&Judged<'_>>> = BTreeMap::new();
    for row in judged {
        rows.entry((row.0.family, row.0.object.arch, &row.0.object.name)).or_default().push(row);
    }
    for ((_, arch, name), rows) in rows {
        // Launches that came out alike are one row.
        let mut alike: BTreeMap<(String, String), Vec<&Judged<'_>>> = BTreeMap::new();
        for row in rows {
            let (_, verdict) = row;
            let at = verdict.results.len() - 1;
            let result = match &verdict.results[at] {
                Outcome::Right(_) => "right".to_owned(),
                Outcome::Wrong(_) => "wrong".to_owned(),
                Outcome::Stopped(reason) => format!("stopped: {}", reason.split(" in ").next().unwrap_or_default()),
            };
            alike.entry((named(SCHEDULES[at]), result)).or_default().push(row);
        }
        for ((schedule, result), rows) in alike {
            let distances = rows.iter().filter_map(|(_, verdict)| match verdict.results.last() {
                Some(Outcome::Right(distance) | Outcome::Wrong(distance)) => Some(*distance),
                _ => None,
            });
            let error = distances.fold(0.0, f64::max);
            let shapes: Vec<&str> = rows.iter().map(|(case, _)| case.shape.as_str()).collect();
            let reports = rows.iter().flat_map(|(_, verdict)| verdict.reports.iter());
            let kinds: BTreeSet<&str> = reports.map(|report| kind(report)).collect();
            let kinds = match (rows.iter().any(|(case, _)| case.is_checked), kinds.is_empty()) {
                (false, _) => "not run".to_owned(),
                (true, true) => "nothing".to_owned(),
                (true, false) => kinds.into_iter().collect::<Vec<_>>().join(", "),
            };
            let shapes = shapes.join("; ");
            let _ = writeln!(page, "| `{name}` | {arch} | {shapes} | {error:.1e} | {schedule} | {result} | {kinds} |");
        }
    }
    page
}

/// A row for each family and architecture.
fn families(page: &mut String, judged: &[Judged<'_>]) {
    page.push_str("| family | architecture | code objects | launches | right | largest error of those | in turns only | wrong |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    let mut rows: BTreeMap<(&str, &str), Vec<&Judged<'_>>> = BTreeMap::new();
    for row in judged {
        rows.entry((row.0.family, row.0.object.arch)).or_default().push(row);
    }
    for ((family, arch), rows) in rows {
        let objects: BTreeSet<&str> = rows.iter().map(|(case, _)| case.object.name.as_str()).collect();
        let count =
            |wanted: fn(Option<Schedule>) -> bool| rows.iter().filter(|(_, verdict)| wanted(verdict.right())).count();
        let distances = rows.iter().filter_map(|(_, verdict)| match verdict.results.last() {
            Some(Outcome::Right(distance)) => Some(*distance),
            _ => None,
        });
        let _ = writeln!(
            page,
            "| {family} | {arch} | {} | {} | {} | {:.1e} | {} | {} |",
            objects.len(),
            rows.len(),
            count(|right| right == Some(Schedule::ToBarrier)),
            distances.fold(0.0, f64::max),
            count(|right| matches!(right, Some(Schedule::Turns(_)))),
            count(|right| right.is_none()),
        );
    }
    page.push('\n');
}

/// The findings, each with the first report of the checks, and the command that shows it.
fn found(page: &mut String, judged: &[Judged<'_>]) {
    page.push_str("## Findings\n\n");
    for finding in FINDINGS {
        let cases: Vec<_> = judged
            .iter()
            .filter(|(case, _)| findings::of(case).is_some_and(|other| std::ptr::eq(other, finding)))
            .collect();
        let Some((first, verdict)) = cases.first() else { continue };
        let how = match finding.expected {
            Expected::Timing => "right only where waves take short turns",
            Expected::Wrong => "wrong under every schedule",
        };
        let objects: BTreeSet<String> =
            cases.iter().map(|(case, _)| format!("`{}/{}`", case.object.arch, case.object.name)).collect();
        let _ = writeln!(page, "### {}\n\n{}\n", finding.title, wrapped(finding.text));
        let _ = writeln!(
            page,
            "{} code objects, {how}: {}.\n",
            objects.len(),
            objects.into_iter().collect::<Vec<_>>().join(", ")
        );
        let _ = writeln!(page, "To see it: `cargo verify --foreign --filter {}`.\n", first.object.stem());
        if let Some(report) = verdict.reports.first() {
            let _ = writeln!(page, "```text\n{report}\n```\n");
        }
    }
}
