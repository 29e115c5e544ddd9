//! Cases of any size and type, chosen by somebody else: what random tests run besides the list.

use rocfire_hal::DType;

use super::{
    Case, FLOATS, NUMBERS, attention, causal_conv, combine, conv, cross_entropy, delta, elementwise, experts, gate,
    gemm, gguf, grouped, grouped_codes, grouped_scaled, hadamard, index, loss, norm, pool, quant, reduce, rope, rows,
    sample, scaled, scaled_end, scan, selective_scan, sort,
};
use crate::data::Placement;

/// A source of choices: a number below the bound it is given, 0 being the plainest.
pub struct Draw<'a>(pub &'a mut dyn FnMut(usize) -> usize);

/// Extents, the plainest first: ones, primes, one beside a power of two.
const EXTENTS: [usize; 20] = [2, 3, 1, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 257, 1025];

/// The most elements of a shape: more than one workgroup has, or a line of one.
const ELEMENTS_MOST: usize = 9000;

/// A list as the constants of the lists of cases are: some words for each case, of which a process runs some thousands.
pub(super) fn forever(list: &[usize]) -> &'static [usize] {
    Box::leak(list.into())
}

impl Draw<'_> {
    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.0)(bound)
    }

    /// One of several.
    pub(super) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    /// True half of the time.
    pub(super) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// An extent from 1 to `most`.
    pub(super) fn extent(&mut self, most: usize) -> usize {
        let fitting: Vec<usize> = EXTENTS.into_iter().filter(|&extent| extent <= most).collect();
        self.pick(&fitting)
    }

    /// A type of floats.
    pub(super) fn float(&mut self) -> DType {
        self.pick(&FLOATS)
    }

    /// A type of floats or integers.
    pub(super) fn number(&mut self) -> DType {
        self.pick(&NUMBERS)
    }

    /// Up to three extents of at most [`ELEMENTS_MOST`] elements, and one of the axes.
    pub(super) fn shape(&mut self) -> (&'static [usize], usize) {
        let mut shape = vec![1; 1 + self.below(3)];
        let mut left = ELEMENTS_MOST;
        for extent in shape.iter_mut().rev() {
            *extent = self.extent(left);
            left /= *extent;
        }
        (forever(&shape), self.below(shape.len()))
    }

    /// How an input lies in memory.
    pub(super) fn placement(&mut self) -> Placement {
        self.pick(&Placement::ALL)
    }
}

/// Operators that have cases of any size.
const OPERATORS: [fn(&mut Draw<'_>) -> Case; 29] = [
    selective_scan::drawn,
    causal_conv::drawn,
    delta::drawn,
    hadamard::drawn,
    gemm::drawn,
    conv::drawn,
    attention::drawn,
    rope::drawn,
    norm::drawn,
    gate::drawn,
    cross_entropy::drawn,
    rows::drawn,
    reduce::drawn,
    elementwise::drawn,
    sort::drawn,
    scan::drawn,
    index::drawn,
    pool::drawn,
    quant::drawn,
    scaled::drawn,
    grouped::drawn,
    grouped_codes::drawn,
    gguf::drawn,
    loss::drawn,
    sample::drawn,
    experts::drawn,
    combine::drawn,
    grouped_scaled::drawn,
    scaled_end::drawn,
];

/// A case; the same for the same choices.
pub fn drawn(choose: &mut dyn FnMut(usize) -> usize) -> Case {
    let mut draw = Draw(choose);
    draw.pick(&OPERATORS)(&mut draw)
}
