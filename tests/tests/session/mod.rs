//! Tests of a program as a share of a session.

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use rocfire_tests::{Failure, Session};

/// A test and its name.
pub type Test = (String, Box<dyn FnOnce() -> Result<(), Failure> + Send>);

/// Runs what the session of the environment leaves of the tests.
pub fn run(arguments: &Arguments, tests: Vec<Test>) -> Conclusion {
    let session = Session::from_env().unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> = tests.iter().map(|(name, _)| name.clone()).collect();
    let planned = session.plan(&names);
    // The trials keep it until the process ends.
    let session: &'static Session = Box::leak(Box::new(session));
    let mut tests: Vec<Option<Test>> = tests.into_iter().map(Some).collect();
    let trials = planned.tests.iter().filter_map(|&number| tests[number].take()).map(|(name, test)| {
        let shown = name.clone();
        Trial::test(shown, move || session.run(&name, test).map_err(Failed::from))
    });
    let test_threads = if planned.alone { Some(1) } else { arguments.test_threads };
    libtest_mimic::run(&Arguments { test_threads, ..arguments.clone() }, trials.collect())
}
