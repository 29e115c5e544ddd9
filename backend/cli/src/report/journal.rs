//! The journal of a part's tests, as `tests/src/session.rs` has it: what is counted of it, and what failed.

use std::collections::{BTreeMap, HashMap};

use super::state::Counts;

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Tests that there are.
    of: usize,
    ended: HashMap<String, Result<(), String>>,
    begun: HashMap<String, u32>,
    /// Whether the last process ran out of time.
    over: bool,
}

impl Journal {
    /// Reads one; none is one without lines.
    pub fn read(text: &str) -> Journal {
        let mut journal = Journal::default();
        for line in text.lines() {
            let Some((word, rest)) = line.split_once(' ') else { continue };
            match word {
                // A process that was asked for fewer has found fewer.
                "of" => (journal.of, journal.over) = (rest.parse().unwrap_or(0).max(journal.of), false),
                "over" => journal.over = true,
                "begin" => *journal.begun.entry(rest.to_owned()).or_default() += 1,
                "ok" => drop(journal.ended.insert(rest.to_owned(), Ok(()))),
                "failed" => {
                    let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
                    journal.ended.insert(name.to_owned(), Err(why.to_owned()));
                }
                _ => {}
            }
        }
        journal
    }

    /// Tests that took their process with them twice.
    pub fn crashed(&self) -> Vec<&str> {
        let twice = |(name, begun): &(&String, &u32)| **begun > 1 && !self.ended.contains_key(*name);
        let mut names: Vec<&str> = self.begun.iter().filter(twice).map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Tests, counted.
    pub fn counts(&self) -> Counts {
        let passed = self.ended.values().filter(|ended| ended.is_ok()).count();
        let (failed, crashed) = (self.ended.len() - passed, self.crashed().len());
        Counts { passed, failed, crashed, left: self.of.saturating_sub(passed + failed + crashed) }
    }

    /// What failed, a line each.
    pub fn findings(&self) -> Vec<String> {
        let crashed = self.crashed().into_iter().map(|name| format!("{name}: took its process with it, twice"));
        let failed = self.ended.iter().filter_map(|(name, ended)| Some((name, ended.as_ref().err()?)));
        let mut failed: Vec<String> = failed.map(|(name, why)| format!("{name}: {why}")).collect();
        failed.sort_unstable();
        crashed.chain(failed).collect()
    }

    /// Whether another process would have something to run, and the last had time.
    pub fn goes_on(&self) -> bool {
        !self.over && self.counts().left > 0
    }

    /// How often a test has begun.
    pub fn begun(&self) -> u32 {
        self.begun.values().sum()
    }

    /// Lines of progress: how many tests have ended.
    pub fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Counts by what stands before the first `/` of a name.
    pub fn by_operator(&self) -> BTreeMap<String, Counts> {
        let mut by: BTreeMap<String, Counts> = BTreeMap::new();
        let operator = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        for (name, ended) in &self.ended {
            let counts = by.entry(operator(name)).or_default();
            *(if ended.is_ok() { &mut counts.passed } else { &mut counts.failed }) += 1;
        }
        for name in self.crashed() {
            by.entry(operator(name)).or_default().crashed += 1;
        }
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_counted() {
        let text = "of 6\nbegin a/1\nok a/1\nbegin a/2\nfailed a/2: NMSE 3: too much\nbegin b/1\nbegin b/2\nof 5\nbegin b/1\n\
                    begin b/2\nok b/2\nof 6\nbeg";
        let journal = Journal::read(text);
        assert_eq!(journal.counts(), Counts { passed: 2, failed: 1, crashed: 1, left: 2 });
        assert_eq!(journal.crashed(), ["b/1"]);
        assert_eq!(journal.findings(), ["b/1: took its process with it, twice", "a/2: NMSE 3: too much"]);
        assert!(journal.goes_on() && !Journal::read(&format!("{text}\nover now\n")).goes_on());
        assert!(Journal::read(&format!("{text}\nover now\nof 6\n")).goes_on());
        let by = journal.by_operator();
        assert_eq!((by["a"].passed, by["a"].failed, by["b"].passed, by["b"].crashed), (1, 1, 1, 1));
        assert_eq!(Journal::read("").counts(), Counts::default());
    }
}
