//! The families of AITER's assembly kernels: for each, how its arguments are laid out, its grid, its inputs and its reference.

use crate::case::{Case, Object};

pub mod attention;
pub mod blockwise;
mod experts;
pub mod gemm;
pub mod paged;
pub mod topk;
pub mod triton;

/// The cases of all families.
pub fn cases(objects: &[Object]) -> Vec<Case> {
    let families: [fn(&Object) -> Vec<Case>; 6] =
        [topk::cases, gemm::cases, attention::forward::cases, attention::backward::cases, paged::cases, experts::cases];
    objects.iter().flat_map(|object| families.iter().flat_map(move |family| family(object))).collect()
}

/// The number behind `before` in a name: `Some(64)` for `_hd64` and `hd`.
fn number_after(name: &str, before: &str) -> Option<usize> {
    let rest = name.split(before).nth(1)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The numbers of the first part of a name, between underlines, that is numbers joined by `x`: `[4, 128, 6]` for `…_4x128x6`.
fn tile(stem: &str) -> Option<Vec<usize>> {
    let numbers = |part: &str| part.split('x').map(|number| number.parse().ok()).collect::<Option<Vec<usize>>>();
    stem.split('_').filter(|part| part.contains('x')).find_map(numbers)
}
