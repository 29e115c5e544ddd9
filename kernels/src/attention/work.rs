//! What profiles are told of a launch: operations and bytes, counted only while somebody profiles.

use rocfire_hal::Stream;
use rocfire_hal::profile::{Category, Work};

use super::problem::Prepared;

/// What a kernel does for each pair of a query and a key that it sees, and for each row.
pub(super) struct Each {
    /// Multiplications, each with an addition, of a pair.
    pub pair: usize,
    /// Elements of a row of queries that are read or written.
    pub query: usize,
    /// The same of a row of keys and values.
    pub key: usize,
}

impl Each {
    /// Of a forward: a product by the keys, one by the values; queries and the result, keys and values.
    pub fn forward(prepared: &Prepared<'_>) -> Each {
        let both = prepared.depth + prepared.value_depth;
        Each { pair: both, query: both, key: both }
    }
}

impl Prepared<'_> {
    /// The work of a launch for so many batches. Pairs that a mask hides are counted, those outside of the window, or behind the
    /// query where it is causal, are not. Of batches of different lengths nothing is said.
    pub(super) fn work<'s>(&self, stream: &Stream, shape: &'s [usize], batches: usize, each: &Each) -> Work<'s> {
        let work = Work { category: Category::Attention, shape, ..Work::default() };
        if !stream.is_profiled() || self.inputs.starts.is_some() {
            return work;
        }
        let window = [self.problem.left, self.problem.right].map(i64::from);
        let pairs = pairs([self.q_rows, self.k_rows].map(|rows| rows as i64), window);
        let heads = (batches * self.heads) as u64;
        let elements = self.q_rows * each.query + self.k_rows * each.key / self.group.max(1);
        let bytes = heads * (elements * self.inputs.q.dtype().size_bytes()) as u64;
        Work { flops: 2 * heads * pairs * each.pair as u64, bytes, ..work }
    }
}

/// Pairs of a query and a key within so many keys to the left and right of the query's place; the last query's is the last key's.
fn pairs([queries, keys]: [i64; 2], [left, right]: [i64; 2]) -> u64 {
    let seen = |query: i64| {
        let place = query + keys - queries;
        ((place + right).min(keys - 1) - (place - left).max(0) + 1).max(0) as u64
    };
    (0..queries).map(seen).sum()
}

#[cfg(test)]
mod tests {
    use super::super::problem::UNLIMITED;
    use super::*;

    #[test]
    fn pairs_are_those_of_the_window() {
        let all = i64::from(UNLIMITED);
        for (rows, window, expected) in [
            ([4, 6], [all, all], 24),
            ([4, 4], [all, 0], 10),
            // Queries at the places of the last keys.
            ([2, 5], [all, 0], 9),
            // The first two have no place among the keys.
            ([4, 2], [all, 0], 3),
            ([4, 4], [1, 0], 7),
            ([3, 3], [0, 0], 3),
            ([0, 3], [all, all], 0),
        ] {
            assert_eq!(pairs(rows, window), expected, "{rows:?} {window:?}");
        }
    }
}
