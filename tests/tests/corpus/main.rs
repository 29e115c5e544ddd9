//! The corpus on emulated devices: every kernel of `tests/corpus/` against its reference.
//!
//! A test is a case at a variant: `reduce::wave_sum gfx942-O3`. By default all cases run on the default emulated
//! architecture at -O3; of the other variants each run takes a share of the themes, another one each day
//! (`ROCFIRE_TEST_ROTATION=n` repeats one). `ROCFIRE_TEST_FULL=1` runs everything, and a table of what passed closes the
//! run.
//!
//! What runs, runs twice: as users run kernels, and with every check of the emulator (`[checked]`), which must find nothing.

mod atomics;
mod attention;
mod bench;
mod calls;
mod control;
mod double;
mod gemm;
mod grid;
mod hash;
mod histogram;
mod integer;
mod lanes;
mod lds;
mod math;
mod matrix;
mod numeric;
mod packed;
mod quantise;
mod random;
mod reduce;
mod scan;
mod sort;
mod stencil;
mod text;
mod transpose;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use bench::{Bench, Case};
use libtest_mimic::{Arguments, Trial};
use rocfire_arch::{Arch, Family};
use rocfire_emulator::Checks;
use rocfire_hal::Config;
use rocfire_hal::compile::{CodeObject, compile_many};
use rocfire_tests::corpus::{THEMES, Variant};

/// Runs every theme at every variant.
const FULL: &str = "ROCFIRE_TEST_FULL";
/// Which share of the other variants runs, in place of the day.
const ROTATION: &str = "ROCFIRE_TEST_ROTATION";
/// Of the variants that are not always run, one theme in so many is taken.
const SHARE: u64 = 24;

/// What the corpus runs on: one architecture of each family that the emulator executes.
const ARCHITECTURES: &[&str] =
    &["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1150", "gfx1201"];

/// The themes and their cases; the names are those of the sources.
const CASES: &[(&str, &[Case])] = &[
    ("atomics", atomics::CASES),
    ("attention", attention::CASES),
    ("calls", calls::CASES),
    ("control", control::CASES),
    ("double", double::CASES),
    ("gemm", gemm::CASES),
    ("grid", grid::CASES),
    ("hash", hash::CASES),
    ("histogram", histogram::CASES),
    ("integer", integer::CASES),
    ("lanes", lanes::CASES),
    ("lds", lds::CASES),
    ("math", math::CASES),
    ("matrix", matrix::CASES),
    ("numeric", numeric::CASES),
    ("packed", packed::CASES),
    ("quantise", quantise::CASES),
    ("random", random::CASES),
    ("reduce", reduce::CASES),
    ("scan", scan::CASES),
    ("sort", sort::CASES),
    ("stencil", stencil::CASES),
    ("text", text::CASES),
    ("transpose", transpose::CASES),
];

/// Cases in which waves of a workgroup hand values on through flags in LDS. Atomic loads and stores of LDS are the same
/// instructions as plain ones, so that the check for races takes them for a race: it stays off.
const FLAGS_IN_LDS: &[&str] = &["scan::look_back"];

/// Cases that clang 22.1 compiles wrongly for RDNA 1 to 3: of a barrier at the head of a loop it leaves out the wait for the
/// stores to LDS at the loop's end (`S_WAITCNT_soft` is there after `si-memory-legalizer` and gone after
/// `si-insert-waitcnts`). The check for waits finds that, and stays off.
const WAIT_LEFT_OUT: &[&str] = &["text::knapsack"];

/// How many cases ran and how many passed, by variant.
type Tally = Arc<Mutex<BTreeMap<Variant, (u32, u32)>>>;

fn main() {
    let arguments = Arguments::from_args();
    assert_eq!(
        CASES.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        THEMES.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    );
    let tally = Tally::default();
    let full = std::env::var_os(FULL).is_some();
    let rotation = rotation();
    let mut trials = Vec::new();
    for arch in ARCHITECTURES.iter().map(|name| Arch::parse(name).expect("a name of the table")) {
        for (number, variant) in Variant::all(arch).into_iter().enumerate() {
            let always = arch.name() == rocfire_arch::DEFAULT_EMULATED && variant.level == "-O3";
            for (theme, cases) in CASES {
                if full || always || is_due(theme, &variant, number as u64 + rotation) {
                    let code = Arc::new(OnceLock::new());
                    let cases = cases.iter().filter(|case| (case.needs)(arch.info()));
                    trials.extend(cases.flat_map(|case| {
                        let trial = |checked| trial(theme, *case, (variant, checked), code.clone(), tally.clone());
                        [trial(false), trial(true).with_kind("checked")]
                    }));
                }
            }
        }
    }
    if !full && !arguments.list {
        println!("rotation {rotation}: {ROTATION}={rotation} repeats this run's share, {FULL}=1 runs everything");
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        for (variant, (passed, ran)) in tally.lock().expect("no test panics while it holds this").iter() {
            println!("{:20} {passed:4} of {ran:4} passed", variant.name());
        }
    }
    conclusion.exit();
}

/// The number of the day, or what was asked for.
fn rotation() -> u64 {
    let asked = std::env::var(ROTATION).ok().map(|text| text.parse().expect("ROCFIRE_TEST_ROTATION is a number"));
    let days = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60));
    asked.unwrap_or_else(days)
}

/// Whether a theme is in a variant's share: the themes are dealt out, and each rotation moves on by one.
fn is_due(theme: &str, variant: &Variant, turn: u64) -> bool {
    let place = THEMES.iter().position(|(name, _)| *name == theme).expect("a theme") as u64;
    let shift = variant.arch.row() as u64;
    (place + shift + turn).is_multiple_of(SHARE)
}

/// A theme's code at a variant, compiled by the first case that needs it.
type Code = Arc<OnceLock<Result<Arc<CodeObject>, String>>>;

fn trial(theme: &'static str, case: Case, (variant, checked): (Variant, bool), code: Code, tally: Tally) -> Trial {
    let name = format!("{theme}::{}", case.name);
    let mut checks = checked.then_some(Checks::ALL);
    if let Some(checks) = &mut checks {
        checks.lds_races = !FLAGS_IN_LDS.contains(&name.as_str());
        let family = variant.arch.info().family;
        let left_out = matches!(family, Family::Rdna1 | Family::Rdna2 | Family::Rdna3 | Family::Rdna35);
        checks.waits = !(left_out && WAIT_LEFT_OUT.contains(&name.as_str()));
    }
    Trial::test(format!("{name} {}", variant.name()), move || {
        tally.lock().expect("no test panics while it holds this").entry(variant).or_default().1 += 1;
        let code = code.get_or_init(|| compile(theme, variant)).as_ref().map_err(String::as_str)?;
        (case.check)(&Bench::new(variant, code.bytes(), checks));
        tally.lock().expect("no test panics while it holds this").entry(variant).or_default().0 += 1;
        Ok(())
    })
}

fn compile(theme: &str, variant: Variant) -> Result<Arc<CodeObject>, String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let compiled = compile_many(variant.arch, &[variant.source(theme)], &config).map_err(|error| error.to_string())?;
    compiled.into_iter().next().expect("as many as sources").map_err(|error| error.to_string())
}
