//! Shapes: one, nothing, primes, one beside a power of two, and now and then something large.

use crate::choice::Choices;

/// The most elements of a tensor of a program.
pub const ELEMENTS_MOST: usize = 4096;
/// The most elements of a large tensor, which now and then an operator alone is given: rows that no workgroup holds, and more
/// rows than there are workgroups at a time.
pub const LARGE_MOST: usize = 1 << 16;

/// Extents, the plainest first.
const EXTENTS: [usize; 25] =
    [2, 3, 1, 4, 5, 7, 8, 0, 13, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257, 1025, 4099, 16385, 65536];

/// An extent of at most `most`; 0 among them where `most` is not.
pub fn extent(choices: &mut Choices, most: usize) -> usize {
    let fitting: Vec<usize> = EXTENTS.into_iter().filter(|&extent| extent <= most).collect();
    // Nothing at all is asked for less often than its share of the list.
    let extent = choices.pick(&fitting);
    if extent == 0 && !choices.one_in(3) { 1.min(most) } else { extent }
}

/// An extent that is long if `most` allows it.
fn long_extent(choices: &mut Choices, most: usize) -> usize {
    let fitting: Vec<usize> = EXTENTS.into_iter().filter(|&extent| (129..=most).contains(&extent)).collect();
    if fitting.is_empty() { most } else { choices.pick(&fitting) }
}

/// An extent of at least 1.
pub fn positive(choices: &mut Choices, most: usize) -> usize {
    extent(choices, most).max(1)
}

/// A shape of a rank, of at most so many elements.
pub fn shape(choices: &mut Choices, rank: usize, most: usize) -> Vec<usize> {
    let mut shape = vec![1; rank];
    let mut left = most;
    // A large tensor has one long axis at least, the last one or the one before.
    let long = if most > ELEMENTS_MOST { rank - 1 - choices.below(rank.min(2)) } else { rank };
    // The last axis first: it is the one that may be long.
    for axis in (0..rank).rev() {
        shape[axis] = if axis == long { long_extent(choices, left) } else { extent(choices, left) };
        left /= shape[axis].max(1);
    }
    shape
}

/// A rank from 1 to 4, mostly 2 and 3.
pub fn rank(choices: &mut Choices) -> usize {
    choices.pick(&[2, 3, 1, 2, 3, 4])
}

/// A shape that broadcasts with another: some of its extents are 1.
pub fn beside(choices: &mut Choices, shape: &[usize]) -> Vec<usize> {
    if !choices.one_in(3) {
        return shape.to_vec();
    }
    shape.iter().map(|&extent| if choices.one_in(2) { 1 } else { extent }).collect()
}

/// What two shapes of one rank broadcast to.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let join = |(&a, &b): (&usize, &usize)| match (a, b) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    };
    (a.len() == b.len()).then(|| a.iter().zip(b).map(join).collect()).flatten()
}
