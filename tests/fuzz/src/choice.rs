//! Where every decision of a random program comes from: numbers that are drawn, recorded, and can be told again.
//!
//! A program is a function of the numbers it draws, so that a smaller program is made by drawing less or lower ones (as
//! Hypothesis does). By convention 0 is always the plainest choice, and a record that is at its end gives 0.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A source of decisions.
#[derive(Debug)]
pub struct Choices {
    /// What is told before anything is drawn.
    script: Vec<u32>,
    /// Draws where the script has ended; without it 0 is told.
    random: Option<ChaCha8Rng>,
    record: Record,
    open: Vec<usize>,
}

/// What was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Each decision, below its bound.
    pub taken: Vec<u32>,
    /// Stretches that belong together, as the numbers of one operator do: shrinking leaves them out as a whole.
    pub spans: Vec<std::ops::Range<usize>>,
}

impl Choices {
    /// Draws from a seed.
    pub fn drawn(seed: u64) -> Choices {
        let random = Some(ChaCha8Rng::seed_from_u64(seed));
        Choices { script: Vec::new(), random, record: Record::default(), open: Vec::new() }
    }

    /// Tells these numbers, then zeros.
    pub fn told(script: Vec<u32>) -> Choices {
        Choices { script, random: None, record: Record::default(), open: Vec::new() }
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u32::try_from(bound).expect("bounds are small");
        let at = self.record.taken.len();
        let number = match (self.script.get(at), &mut self.random) {
            (Some(number), _) => number % bound,
            (None, Some(random)) => random.random_range(0..bound),
            (None, None) => 0,
        };
        self.record.taken.push(number);
        number as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// One of several, the plainest first.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    /// Opens a stretch that belongs together.
    pub fn begin(&mut self) {
        self.open.push(self.record.taken.len());
    }

    /// Closes the stretch that was opened last.
    pub fn end(&mut self) {
        let start = self.open.pop().expect("every stretch that ends has begun");
        self.record.spans.push(start..self.record.taken.len());
    }

    /// Everything that was told.
    pub fn into_record(self) -> Record {
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_told_again_gives_the_same_decisions() {
        let mut drawn = Choices::drawn(7);
        let first: Vec<usize> = (1..50).map(|bound| drawn.below(bound)).collect();
        let mut told = Choices::told(drawn.into_record().taken);
        let second: Vec<usize> = (1..50).map(|bound| told.below(bound)).collect();
        assert_eq!(first, second);
        assert_eq!(told.below(9), 0, "what is at its end tells the plainest");
    }
}
