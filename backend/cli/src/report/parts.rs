//! The parts of a report, as a table: a row says what runs, how long at most, and on what.
//!
//! They stand in the order in which they run: what a reader wants first, what may take the driver down last.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::journal::Journal;
use super::programs::Program;
use super::state::{Found, Status};
use super::{Outcome, cold, counters, peers, picture};

/// What a part is told.
#[derive(Clone, Debug)]
pub struct Context {
    /// The report's folder.
    pub folder: PathBuf,
    /// The device, as `ROCFIRE_DEVICE` names it.
    pub device: String,
    /// Whether cargo builds programs.
    pub cargo: bool,
}

impl Context {
    /// Whether it is a card.
    pub fn is_real(&self) -> bool {
        self.is("hip") || self.is("cuda")
    }

    /// Whether it is of this driver.
    pub fn is(&self, driver: &str) -> bool {
        self.device.split(':').next() == Some(driver)
    }

    /// A file of the report.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A process of a part.
#[derive(Clone, Debug)]
pub struct Step {
    /// What runs.
    pub program: Program,
    /// With these arguments.
    pub arguments: Vec<OsString>,
    /// And these settings.
    pub settings: Vec<(&'static str, OsString)>,
}

impl Step {
    fn new(program: Program, words: &[&str]) -> Step {
        Step { program, arguments: words.iter().map(OsString::from).collect(), settings: Vec::new() }
    }

    fn option(mut self, name: &str, value: impl Into<OsString>) -> Step {
        self.arguments.extend([name.into(), value.into()]);
        self
    }

    fn setting(mut self, name: &'static str, value: impl Into<OsString>) -> Step {
        self.settings.push((name, value.into()));
        self
    }
}

/// A part of the report.
#[derive(Clone, Copy)]
pub struct Part {
    /// Its name on the command line and of its files.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// How long it may take; where the whole is cut, its share.
    pub minutes: f64,
    /// With less time than this it is not begun.
    pub least_seconds: f64,
    /// Whether its programs keep a journal of their tests.
    pub has_journal: bool,
    /// Lines with one of these words say what came of it; where there are none, the last line does.
    pub tells: &'static [&'static str],
    /// Files that it leaves in the report's folder, besides journal and log.
    pub files: &'static [&'static str],
    /// Why it is not for a device.
    pub refuses: fn(&Context) -> Option<&'static str>,
    /// Its processes, one after the other, which share so much time.
    pub steps: fn(&Context, Duration) -> Vec<Step>,
    /// Adds to what was found what its files say.
    pub read: fn(&Context, &mut Found) -> Outcome<()>,
}

const BENCH_OPS: Program = Program::Binary { name: "bench-ops", times: true };
const MODELS: Program = Program::Binary { name: "models", times: true };
const CANDLE_MODELS: Program = Program::Binary { name: "candle-models", times: true };
const BENCH_COLD: Program = Program::Binary { name: "bench-cold", times: false };
const FUZZ_OPS: Program = Program::Binary { name: "fuzz-ops", times: false };
const PYTHON: Program = Program::Foreign { name: "python3", folders: &[] };

/// Of a part's time, what it plans with: the rest is for ending.
const PLANNED: f64 = 0.85;

/// Every part.
pub const PARTS: &[Part] = &[
    Part {
        name: "doctor",
        about: "what this machine has, what is used; one checked product",
        minutes: 2.0,
        least_seconds: 0.0,
        has_journal: false,
        tells: &["will be used", "GEMM "],
        files: &[],
        refuses: |_| None,
        steps: |_, _| vec![Step::new(Program::Own, &["doctor"])],
        read: |_, _| Ok(()),
    },
    Part {
        name: "cases",
        about: "every operator by type, size and layout, against an f64 oracle",
        minutes: 30.0,
        least_seconds: 5.0,
        has_journal: true,
        tells: &[],
        files: &["cases.png"],
        refuses: |_| None,
        steps: |context, time| vec![tests(context, "cases", "cases", time)],
        read: |context, found| operators_drawn(context, found, "cases", "Cases by operator"),
    },
    Part {
        name: "bench-ops",
        about: "operators timed, each beside the speed of a copy",
        minutes: 15.0,
        least_seconds: 20.0,
        has_journal: false,
        tells: &["copy within", "left out for time", "operators failed"],
        files: &["ops.json", "ops.png"],
        refuses: only_on_a_card,
        steps: |context, time| {
            let minutes = format!("{:.2}", time.as_secs_f64() * PLANNED / 60.0);
            let step = Step::new(BENCH_OPS, &["--minutes", &minutes]);
            vec![step.option("--json", context.file("ops.json")).option("--picture", context.file("ops.png"))]
        },
        read: |context, found| drawn_by_it(context, found, "ops.png"),
    },
    Part {
        name: "models",
        about: "whole models of Burn and Candle",
        minutes: 12.0,
        least_seconds: 20.0,
        has_journal: false,
        tells: &[" ms", "largest relative difference", "same as on"],
        files: &[],
        refuses: |_| None,
        steps: |context, _| models(context),
        read: |_, _| Ok(()),
    },
    Part {
        name: "peers",
        about: "the operators of bench-ops by PyTorch, where it is installed",
        minutes: 8.0,
        least_seconds: 15.0,
        has_journal: false,
        tells: &[],
        files: &["peers.json", "peers.png"],
        refuses: only_on_a_card,
        steps: |context, time| {
            let seconds = format!("{:.0}", time.as_secs_f64() * PLANNED);
            let step = Step::new(PYTHON, &["-c", peers::SCRIPT]);
            let files = [context.file("ops.json"), context.file("peers.json")].map(PathBuf::into_os_string);
            vec![Step { arguments: [step.arguments, files.to_vec(), vec![seconds.into()]].concat(), ..step }]
        },
        read: peers::read,
    },
    Part {
        name: "beyond",
        about: "tensors of more than 2^32 elements, where there is the memory",
        minutes: 10.0,
        least_seconds: 10.0,
        has_journal: true,
        tells: &[],
        files: &[],
        refuses: |_| None,
        steps: |context, time| vec![tests(context, "beyond", "beyond", time)],
        read: |_, _| Ok(()),
    },
    Part {
        name: "tune",
        about: "the candidates for products of a model's shapes, tried and timed",
        minutes: 5.0,
        least_seconds: 10.0,
        has_journal: false,
        tells: &["dispatch so far"],
        files: &["tuning.csv"],
        refuses: |_| None,
        steps: tune,
        read: |_, _| Ok(()),
    },
    Part {
        name: "cold-start",
        about: "from the start of a process to its first result, with nothing compiled before",
        minutes: 10.0,
        least_seconds: 20.0,
        has_journal: false,
        tells: &[" cold ", " warm ", " pack "],
        files: &["cold.json", "cold.png"],
        refuses: |_| None,
        steps: |context, _| {
            // Of programs that were copied it has none to start but itself.
            let words: &[&str] = if context.cargo && context.is_real() { &[] } else { &["matmul"] };
            let step = Step::new(BENCH_COLD, words).option("--device", &context.device);
            vec![step.option("--json", context.file("cold.json"))]
        },
        read: cold::read,
    },
    Part {
        name: "counters",
        about: "what rocprofv3 counts of kernels, beside what the emulator models",
        minutes: 5.0,
        least_seconds: 20.0,
        has_journal: false,
        tells: &[],
        files: &["counters.json", "counters.png"],
        refuses: |context| (!context.is("hip")).then_some("rocprofv3 counts on AMD cards alone"),
        steps: |context, time| {
            let seconds = format!("{:.0}", time.as_secs_f64() * PLANNED);
            let step = Step::new(Program::Own, &["report-counters"]).option("--seconds", seconds);
            vec![step.option("--json", context.file("counters.json"))]
        },
        read: counters::read,
    },
    Part {
        name: "filetests",
        about: "the emulator's tests of single instructions, run by the device",
        minutes: 10.0,
        least_seconds: 5.0,
        has_journal: true,
        tells: &[],
        files: &[],
        refuses: |context| {
            let amd = context.is("hip") || context.is("emulated");
            (!amd).then_some("they are machine code of AMD's GPUs")
        },
        steps: |context, time| vec![tests(context, "silicon", "filetests", time).setting("ROCFIRE_TEST_HW", "1")],
        read: |_, _| Ok(()),
    },
    Part {
        name: "random",
        about: "random operators and programs against CPU references",
        minutes: 10.0,
        least_seconds: 15.0,
        has_journal: false,
        tells: &[" found"],
        files: &[],
        refuses: |_| None,
        steps: |context, time| {
            // Each of its families ends its last program.
            let minutes = format!("{:.2}", time.as_secs_f64() * 0.7 / 60.0);
            vec![Step::new(FUZZ_OPS, &["--minutes", &minutes]).option("--device", &context.device)]
        },
        read: |_, _| Ok(()),
    },
];

/// The journal of a part.
pub fn journal_path(context: &Context, part: &str) -> PathBuf {
    context.file(&format!("{part}.journal"))
}

fn only_on_a_card(context: &Context) -> Option<&'static str> {
    (!context.is_real()).then_some("times of an emulated device say nothing of a card")
}

/// A test program with its journal and its time.
fn tests(context: &Context, program: &'static str, part: &str, time: Duration) -> Step {
    let seconds = (time.as_secs_f64() * PLANNED) as u64;
    Step::new(Program::Test(program), &[])
        .setting("ROCFIRE_TEST_JOURNAL", journal_path(context, part))
        .setting("ROCFIRE_TEST_SECONDS", seconds.to_string())
}

/// Models: of published size on a card, small ones with random weights elsewhere.
fn models(context: &Context) -> Vec<Step> {
    if context.is_real() {
        return vec![
            Step::new(MODELS, &["--time", "resnet50", "--batch", "64"]),
            Step::new(CANDLE_MODELS, &["bench", "llama"]),
            Step::new(MODELS, &["--steps", "5"]),
            Step::new(CANDLE_MODELS, &["llama", "--tiny"]),
        ];
    }
    vec![
        Step::new(CANDLE_MODELS, &["llama", "--tiny", "--tokens", "2"]),
        Step::new(MODELS, &["--steps", "1", "--side", "16", "--width", "8", "--batch", "2"]),
    ]
}

fn tune(context: &Context, time: Duration) -> Vec<Step> {
    let shapes: &[&str] =
        if context.is_real() { &["1,16,256", "4096", "4096", "bf16"] } else { &["16", "64", "64", "f16"] };
    let count = shapes[0].split(',').count() as f64;
    let seconds = format!("{:.1}", (time.as_secs_f64() * PLANNED / count).min(30.0));
    let step = Step::new(Program::Own, &[&["tune", "gemm"], shapes].concat());
    vec![step.option("--seconds", seconds).option("--table", context.file("tuning.csv"))]
}

/// Draws passed and failed tests by operator.
fn operators_drawn(context: &Context, found: &mut Found, part: &str, title: &str) -> Outcome<()> {
    let text = std::fs::read_to_string(journal_path(context, part)).unwrap_or_default();
    let by = Journal::read(&text).by_operator();
    if by.is_empty() {
        return Ok(());
    }
    let name = format!("{part}.png");
    let bars: Vec<picture::Bar> = by
        .into_iter()
        .map(|(operator, counts)| {
            let wrong = counts.failed + counts.crashed;
            let status = if wrong > 0 { Status::Failed } else { Status::Passed };
            let label =
                if wrong > 0 { format!("{}, {wrong} failed", counts.passed) } else { counts.passed.to_string() };
            picture::Bar { name: operator, value: (counts.passed + wrong) as f64, label, status }
        })
        .collect();
    picture::draw(&context.file(&name), &format!("{title}, {}", context.device), "tests", &bars)?;
    found.pictures.push(name);
    Ok(())
}

/// A picture that the part's program has drawn, if it came so far.
fn drawn_by_it(context: &Context, found: &mut Found, name: &str) -> Outcome<()> {
    if Path::is_file(&context.file(name)) {
        found.pictures.push(name.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(device: &str) -> Context {
        Context { folder: PathBuf::from("report"), device: device.to_owned(), cargo: true }
    }

    #[test]
    fn parts_have_names_of_their_own_and_some_process() {
        let mut names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(names[0], "doctor", "the device is known from it");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PARTS.len());
        for device in ["hip:0", "cuda:0", "emulated:gfx942"] {
            for part in PARTS {
                let steps = (part.steps)(&context(device), Duration::from_secs(100));
                assert!(!steps.is_empty(), "{}", part.name);
            }
        }
    }

    #[test]
    fn what_is_not_for_a_device_says_why() {
        let refused = |device: &str| -> Vec<&str> {
            PARTS.iter().filter(|part| (part.refuses)(&context(device)).is_some()).map(|part| part.name).collect()
        };
        assert_eq!(refused("hip:0"), [""; 0]);
        assert_eq!(refused("cuda:0"), ["counters", "filetests"]);
        assert_eq!(refused("emulated:gfx942"), ["bench-ops", "peers", "counters"]);
    }
}
