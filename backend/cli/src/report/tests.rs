//! The runner with parts that crash, hang, fail, and are cut.

use std::collections::BTreeMap;

use super::*;

fn shell(text: &'static str) -> Step {
    let program = Program::Foreign { name: "sh", folders: &["/bin"] };
    Step { program, arguments: vec!["-c".into(), text.into()], settings: Vec::new() }
}

macro_rules! part {
    ($name:literal, $minutes:expr, $journal:expr, $($text:expr),+) => {
        Part {
            name: $name,
            about: "a part of a test",
            minutes: $minutes,
            least_seconds: 0.2,
            has_journal: $journal,
            tells: &["right"],
            files: &[],
            refuses: |_| None,
            steps: |context, _| {
                let journal = journal_path(context, $name);
                let mut steps = vec![$(shell($text)),+];
                for step in &mut steps {
                    step.settings = vec![("J", journal.clone().into()), ("FOLDER", context.folder.clone().into())];
                }
                steps
            },
            read: |_, _| Ok(()),
        }
    };
}

const PASSES: Part =
    part!("passes", 1.0, false, "echo run >> $FOLDER/runs; echo; echo all right; echo right too; echo last");
const FAILS: Part = part!("fails", 1.0, false, "echo 'error: wrong in 3 places'; echo more; exit 1", "echo not this");
const CRASHES: Part = part!("crashes", 1.0, false, "echo begun; kill -SEGV $$");
const HANGS: Part = part!("hangs", 0.01, false, "echo begun; sleep 60");
const LONG: Part = part!("long", 1.0, false, "echo begun; sleep 60");
const SKIPS: Part = part!("skips", 1.0, false, "echo 'skipped: there is no PyTorch'");
const TWO: Part = part!("two", 1.0, false, "echo one", "echo two");
const DOCTOR: Part =
    part!("doctor", 1.0, false, "echo run >> $FOLDER/runs; echo 'will be used: emulated:test (gfx)'; echo right");
/// `b` takes its process with it whenever it runs.
const TESTS: Part = part!(
    "tests",
    1.0,
    true,
    "echo 'of 4' >> $J
     if ! grep -q 'begin a' $J; then echo 'begin a' >> $J; echo 'ok a' >> $J; fi
     if [ $(grep -c 'begin b' $J) -lt 2 ]; then echo 'begin b' >> $J; kill -SEGV $$; fi
     echo 'begin c' >> $J; echo 'failed c: NMSE 2' >> $J
     echo 'begin d' >> $J; echo 'ok d' >> $J
     echo 'test result: FAILED.'; exit 101"
);
/// It has no device, and so no tests.
const NO_DEVICE: Part = part!("no-device", 1.0, true, "echo 'no device to test on'; exit 101");
/// Its process goes down before any test.
const EARLY: Part = part!("early", 1.0, true, "echo run >> $FOLDER/runs; echo 'of 4' >> $J; kill -SEGV $$");
const TALKS: Part = part!(
    "talks",
    1.0,
    false,
    "echo \"in $HOME/x by $USER, $FOLDER/y\"; echo \"{\\\"path\\\": \\\"$HOME/deep/z\\\"}\" > $FOLDER/left.json; exit 1"
);

fn runner(folder: &std::path::Path) -> Runner {
    let context = Context { folder: folder.to_owned(), device: "emulated:test".to_owned(), cargo: false };
    let mut scrub = Scrub::of_machine(&[folder]);
    scrub.folder("/home/jane doe");
    let state = State::open(folder, "1", 20_000).unwrap();
    Runner { context, place: Place::Folder(folder.to_owned()), scrub, state }
}

fn statuses(runner: &Runner) -> BTreeMap<&str, Status> {
    runner.state.found.iter().map(|found| (found.part.as_str(), found.status)).collect()
}

fn runs(folder: &std::path::Path) -> usize {
    std::fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

#[test]
fn a_part_that_crashes_hangs_or_fails_does_not_keep_the_others_from_running() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path());
    assert!(runner.run_all(&[&CRASHES, &HANGS, &FAILS, &SKIPS, &TWO, &PASSES], None).unwrap());
    let expected = [
        ("crashes", Status::Crashed),
        ("fails", Status::Failed),
        ("hangs", Status::Hung),
        ("passes", Status::Passed),
        ("skips", Status::NotApplicable),
        ("two", Status::Passed),
    ];
    assert_eq!(statuses(&runner), BTreeMap::from(expected));
    let why = |part| runner.state.of(part).unwrap().why.clone();
    assert_eq!((why("passes").as_str(), why("two").as_str()), ("all right; right too", "two"));
    assert_eq!((why("fails").as_str(), why("skips").as_str()), ("error: wrong in 3 places", "there is no PyTorch"));
    assert!(why("crashes").starts_with("signal 11 after") && why("crashes").ends_with("begun"), "{}", why("crashes"));
    assert!(why("hangs").starts_with("it went on after"), "{}", why("hangs"));
}

#[test]
fn a_second_call_goes_on_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    runner(folder.path()).run_all(&[&PASSES], None).unwrap();
    let mut second = runner(folder.path());
    second.run_all(&[&PASSES, &FAILS], None).unwrap();
    assert_eq!((runs(folder.path()), second.state.found.len()), (1, 2));
    second.state.forget("passes");
    second.run_all(&[&PASSES, &FAILS], None).unwrap();
    assert_eq!(runs(folder.path()), 2);
}

#[test]
fn a_part_that_has_ended_the_report_twice_is_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..MOST_BEGINNINGS {
        // As if the machine went down.
        let mut runner = runner(folder.path());
        runner.state.begin("passes");
        runner.state.write().unwrap();
    }
    let mut runner = runner(folder.path());
    runner.run_all(&[&PASSES, &TWO], None).unwrap();
    assert_eq!(runs(folder.path()), 0);
    assert_eq!(statuses(&runner), BTreeMap::from([("passes", Status::Unfinished), ("two", Status::Passed)]));
}

#[test]
fn where_time_is_short_parts_are_cut_or_left_out_and_run_when_there_is_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = runner(folder.path());
    first.run_all(&[&LONG, &PASSES], Some(Duration::from_secs(2))).unwrap();
    assert_eq!(statuses(&first), BTreeMap::from([("long", Status::Cut), ("passes", Status::Passed)]));
    assert!(first.state.of("long").unwrap().given_seconds < 1.5);
    let mut none = runner(folder.path());
    none.state.forget("passes");
    none.run_all(&[&PASSES], Some(Duration::ZERO)).unwrap();
    assert_eq!(statuses(&none)["passes"], Status::LeftOut);
    none.run_all(&[&PASSES], Some(Duration::from_secs(60))).unwrap();
    assert_eq!(statuses(&none)["passes"], Status::Passed);
}

#[test]
fn tests_go_on_behind_one_that_takes_its_process_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path());
    runner.run_all(&[&TESTS, &NO_DEVICE, &EARLY], None).unwrap();
    let found = runner.state.of("tests").unwrap();
    let counts = found.counts.unwrap();
    assert_eq!(
        (found.status, counts.passed, counts.failed, counts.crashed, counts.left),
        (Status::Crashed, 2, 1, 1, 0)
    );
    assert_eq!(found.findings, ["b: took its process with it, twice", "c: NMSE 2"]);
    let found = runner.state.of("no-device").unwrap();
    assert_eq!((found.status, found.why.as_str()), (Status::Failed, "no device to test on"));
    assert_eq!((runner.state.of("early").unwrap().status, runs(folder.path())), (Status::Crashed, 1));
}

#[test]
fn nothing_that_is_written_names_a_user_or_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path());
    runner.run_all(&[&TALKS], None).unwrap();
    runner.sweep().unwrap();
    page::write(&runner.context, &runner.state).unwrap();
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
        for secret in [&format!("{home}/"), folder.path().to_str().unwrap()] {
            assert!(!text.contains(secret), "{secret} in {}: {text}", entry.path().display());
        }
        seen += usize::from(text.contains("…/x") || text.contains("…/z"));
    }
    // The log, the state, the page, and what the part has written itself.
    assert_eq!(seen, 4);
}

#[test]
fn time_is_shared_by_what_parts_take() {
    let minute = Duration::from_secs(60);
    assert_eq!(share(&PASSES, None, 5.0), minute);
    assert_eq!(share(&PASSES, Some(minute), 4.0), minute / 4);
    assert_eq!(share(&PASSES, Some(minute * 10), 2.0), minute, "never more than all of its own");
}

#[test]
fn the_device_is_named_as_the_setting_names_it() {
    let lines = ["GPU  no", "will be used: hip:0 (gfx942)", "GEMM"].map(str::to_owned);
    assert_eq!(used(&lines).as_deref(), Some("hip:0"));
    assert_eq!(used(&lines[..1]), None);
}

#[test]
fn a_folder_of_another_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path());
    runner.state.put(Found::without_run("doctor", Status::Passed, ""), &[]);
    runner.state.device = "hip:0".to_owned();
    let error = runner.find_device(&DOCTOR).unwrap_err().to_string();
    assert!(error.contains("hip:0") && error.contains("emulated:test") && error.contains("--folder"), "{error}");
}

#[test]
fn the_doctor_names_the_device_and_is_asked_again_where_the_device_did_not_answer_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = runner(folder.path());
    first.context.device = "emulated:named".to_owned();
    assert!(!first.find_device(&part!("doctor", 1.0, false, "kill -SEGV $$")).unwrap(), "it does not answer");
    let mut second = runner(folder.path());
    second.context.device = String::new();
    let error = second.find_device(&DOCTOR).unwrap_err().to_string();
    assert!(error.contains("has the report of emulated:named, not of emulated:test"), "{error}");
    let other = tempfile::tempdir().unwrap();
    for call in 0..2 {
        let mut runner = runner(other.path());
        runner.context.device = String::new();
        assert!(runner.find_device(&DOCTOR).unwrap(), "call {call}");
        assert_eq!((runner.context.device.as_str(), runner.state.machine.len()), ("emulated:test", 2));
    }
    assert_eq!(runs(other.path()), 1, "the second call knows");
}
