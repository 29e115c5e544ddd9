//! What is known to be wrong with kernels of others, worded for whoever maintains them.

use rocfire_emulator::Schedule;

use crate::case::{Case, Verdict};

/// How a kernel comes out that is not simply right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Right only where its waves take short turns.
    Timing,
    /// Wrong under every schedule.
    Wrong,
}

/// What was found.
pub struct Finding {
    /// In one line.
    pub title: &'static str,
    /// Family, and what the names of its objects hold.
    pub objects: &'static [(&'static str, &'static str)],
    /// How they come out.
    pub expected: Expected,
    /// What is wrong, and how it shows.
    pub text: &'static str,
}

/// All of them.
pub const FINDINGS: &[Finding] = &[];

/// The finding that a case falls under.
pub fn of(case: &Case) -> Option<&'static Finding> {
    let holds = |&(family, part): &(&str, &str)| case.family == family && case.object.name.contains(part);
    FINDINGS.iter().find(|finding| finding.objects.iter().any(holds))
}

/// Whether a case came out as is known of it: right, or as its finding says. One that comes out better than its finding is not expected
/// either: the finding is out of date.
pub fn is_expected(case: &Case, verdict: &Verdict) -> bool {
    let expected = of(case).map(|finding| finding.expected);
    match verdict.right() {
        Some(Schedule::ToBarrier) => expected.is_none(),
        Some(Schedule::Turns(_)) => expected == Some(Expected::Timing),
        None => expected == Some(Expected::Wrong),
    }
}
