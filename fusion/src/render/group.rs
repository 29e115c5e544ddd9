//! [`super::Schedule::Group`], with one workgroup a row, and [`super::Schedule::Split`] and [`super::Schedule::Join`], with several.

use super::body::{Form, Reads};
use super::{Kernel, SPLIT_CHUNKS, THREADS};
use crate::order::{CHUNK_QUADS, QUAD};

/// Renders the kernel of one of the templates in `group.h`: `rows_by_group`, `split` or `join`.
pub(super) fn render(kernel: &Kernel<'_>, template: &str, out: &mut String) {
    // How many levels the tree over the chunks of a workgroup has.
    let levels = SPLIT_CHUNKS.ilog2() as usize;
    let constants = vec![("THREADS", THREADS), ("CHUNK_QUADS", CHUNK_QUADS), ("SPLIT_LEVELS", levels)];
    let form = Form { reads: Reads::Both, constants, ..Form::of(QUAD) };
    kernel.instantiate(&form, include_str!("group.h"), (&format!("__launch_bounds__({THREADS})"), template), out);
}
