//! What is known, for a reader: `report.md` with its pictures, and a summary in the terminal. Red comes first in both.

use std::fmt::Write as _;
use std::io::IsTerminal;

use super::Outcome;
use super::parts::{Context, PARTS};
use super::picture::{self, Bar};
use super::state::{FILE, Found, State, Status};

/// Findings of a part that are shown in the summary; the page has all.
const SHOWN: usize = 5;
/// Findings of a part that the page shows.
const MOST_FINDINGS: usize = 200;
const RED: &str = "\x1b[31m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Everything that is known, the gravest first, then in the order of the parts.
fn by_gravity(state: &State) -> Vec<&Found> {
    let mut found: Vec<&Found> = state.found.iter().collect();
    found.sort_by_key(|found| found.status);
    found
}

/// Parts that nothing is known of.
fn missing(state: &State) -> Vec<&'static str> {
    PARTS.iter().map(|part| part.name).filter(|name| state.of(name).is_none()).collect()
}

/// Writes the page and draws the picture of the parts.
///
/// # Errors
/// Files that cannot be written.
pub fn write(context: &Context, state: &State) -> Outcome<()> {
    let bar = |found: &Found| Bar {
        name: found.part.clone(),
        value: found.seconds,
        label: format!("{}, {}", found.status.words(), duration(found.seconds)),
        status: found.status,
    };
    let bars: Vec<Bar> = state.found.iter().map(bar).collect();
    picture::draw(&context.file("parts.png"), &format!("Parts of the report, {}", state.device), "seconds", &bars)?;
    let path = context.file("report.md");
    let failed = |error| format!("cannot write {}: {error}", path.display()).into();
    std::fs::write(&path, page(state)).map_err(failed)
}

fn page(state: &State) -> String {
    let mut text = format!("# rocfire {} on {}\n\n", state.version, state.device);
    let _ = writeln!(
        text,
        "Begun on {}. `{FILE}` has the same for programs; each part's log lies beside.\n",
        date(state.begun_day)
    );
    text += "| part | | seconds | what came of it |\n| --- | --- | ---: | --- |\n";
    for found in by_gravity(state) {
        let word = if found.status.is_red() {
            format!("**{}**", found.status.words())
        } else {
            found.status.words().to_owned()
        };
        let _ = writeln!(text, "| {} | {word} | {:.1} | {} |", found.part, found.seconds, cell(&found.why));
    }
    for name in missing(state) {
        let _ = writeln!(text, "| {name} | not run yet | | |");
    }
    text += "\n![Parts by time and outcome](parts.png)\n";
    for found in by_gravity(state) {
        text += &section(found);
    }
    text += "\n## Machine\n\n```text\n";
    state.machine.iter().for_each(|line| text += &format!("{line}\n"));
    text + "```\n"
}

fn section(found: &Found) -> String {
    let about = PARTS.iter().find(|part| part.name == found.part).map_or("", |part| part.about);
    let mut text = format!("\n## {}: {}\n\n{about}\n", found.part, found.status.words());
    if !found.why.is_empty() {
        let _ = writeln!(text, "\n{}", found.why);
    }
    if let Some(counts) = found.counts {
        text += "\n| passed | failed | crashed | not run |\n| ---: | ---: | ---: | ---: |\n";
        let _ = writeln!(text, "| {} | {} | {} | {} |", counts.passed, counts.failed, counts.crashed, counts.left);
    }
    if !found.findings.is_empty() {
        text.push('\n');
        for finding in found.findings.iter().take(MOST_FINDINGS) {
            let _ = writeln!(text, "- {}", finding.replace('|', "\\|"));
        }
        if found.findings.len() > MOST_FINDINGS {
            let _ = writeln!(text, "- and {} more", found.findings.len() - MOST_FINDINGS);
        }
    }
    for picture in &found.pictures {
        let _ = writeln!(text, "\n![{}]({picture})", found.part);
    }
    if !found.printed.is_empty() {
        let _ = writeln!(text, "\n<details><summary>the end of what it printed</summary>\n\n```text");
        found.printed.iter().for_each(|line| text += &format!("{}\n", line.replace("```", "'''")));
        text += "```\n\n</details>\n";
    }
    text
}

/// Text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Prints the summary.
pub fn print(context: &Context, state: &State) {
    let coloured = std::io::stdout().is_terminal();
    print!("{}", summary(state, coloured));
    println!("\n{}", context.file("report.md").display());
}

/// A line a part, red ones first, with what they found.
fn summary(state: &State, coloured: bool) -> String {
    let mut text = format!("\nrocfire {} on {}\n", state.version, state.device);
    for found in by_gravity(state) {
        let colour = match found.status {
            _ if !coloured => "",
            status if status.is_red() => RED,
            Status::Passed => "",
            _ => DIM,
        };
        let end = if colour.is_empty() { "" } else { PLAIN };
        let (word, took) = (found.status.words(), duration(found.seconds));
        let _ = writeln!(text, "{colour}{word:<15} {:<11} {took:>8}  {}{end}", found.part, found.why);
        for finding in found.findings.iter().take(SHOWN) {
            let _ = writeln!(text, "{colour}{:<15} {finding}{end}", "");
        }
        if found.findings.len() > SHOWN {
            let _ = writeln!(text, "{colour}{:<15} and {} more{end}", "", found.findings.len() - SHOWN);
        }
    }
    for name in missing(state) {
        let _ = writeln!(text, "{:<15} {name}", "not run yet");
    }
    text
}

/// Seconds in words.
pub fn duration(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.1} s") } else { format!("{:.1} min", seconds / 60.0) }
}

/// A day since 1970 as year, month and day of the Gregorian calendar.
fn date(day: u64) -> String {
    let (mut year, mut day) = (1970, day);
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::open(folder.path(), "1.2", 20_000).unwrap();
        state.device = "hip:0".to_owned();
        let order: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        state.put(Found::without_run("doctor", Status::Passed, "right in every element"), &order);
        state.put(Found::without_run("tune", Status::Cut, "2 minutes"), &order);
        let mut cases = Found::without_run("cases", Status::Crashed, "1 of 9 | crashed");
        cases.findings = (0..7).map(|number| format!("gemm/{number}: wrong")).collect();
        cases.pictures.push("cases.png".to_owned());
        state.put(cases, &order);
        state
    }

    #[test]
    fn red_lines_come_first_and_are_red_in_a_terminal() {
        let text = summary(&state(), true);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].starts_with("\x1b[31mcrashed         cases"), "{text}");
        assert!(
            lines[6].contains("and 2 more") && lines[7].contains("cut") && lines[8].starts_with("passed"),
            "{text}"
        );
        assert!(text.contains("not run yet     peers"), "{text}");
        assert!(!summary(&state(), false).contains('\x1b'));
    }

    #[test]
    fn the_page_has_a_table_sections_and_pictures() {
        let text = page(&state());
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in\n{text}"));
        assert!(at("| cases | **crashed** | 0.0 | 1 of 9 \\| crashed |") < at("| tune | cut |"));
        assert!(at("| doctor | passed |") < at("| peers | not run yet |"));
        at("- gemm/6: wrong");
        at("![cases](cases.png)");
        at("Begun on 2024-10-04");
    }

    #[test]
    fn days_are_dates() {
        for (day, expected) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (789, "1972-02-29"), (11_016, "2000-02-29"), (20_782, "2026-11-25")]
        {
            assert_eq!(date(day), expected);
        }
    }
}
