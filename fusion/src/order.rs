//! The order in which a reduction combines elements. It depends on the reduced extent alone.
//!
//! Elements are taken in *quads* of 4 neighbours, `(x0 + x1) + (x2 + x3)`; what lies beyond the extent is the neutral
//! element. Every [`CHUNK_QUADS`] quads are a *chunk*. Quad `b` of a chunk belongs to its *chain* `b mod chains(extent)`, which
//! adds its quads one after another, starting from the neutral element. The chains' totals are added by a balanced tree,
//! neighbours first: `((c0 + c1) + (c2 + c3)) + …`, and the chunks' totals by another.
//!
//! Three things follow. The neutral element starts every chain, so a chain or a chunk without elements changes nothing: a schedule
//! may leave out chains, or use a smaller tree, where the row is short. One lane may own a chain (lanes along the row), or one
//! lane may run through many chains one by one (lanes across rows): the sums are the same. And chunks can be summed by
//! different workgroups, which write one value each. All schedules of this crate are these three.

/// How many neighbouring elements are combined before a chain adds them.
pub(crate) const QUAD: usize = 4;

/// Extents up to this have [`SHORT_CHAINS`] chains: what a wave keeps in registers, 4 quads a lane at 64 lanes.
pub(crate) const SHORT_MOST: usize = 1024;

/// How many chains a short row has: one per lane of the widest wave.
pub(crate) const SHORT_CHAINS: usize = 64;

/// How many chains a long row has: one per thread of a workgroup.
pub(crate) const LONG_CHAINS: usize = 256;

/// How many quads a chunk has: 8 per chain, so that a workgroup that sums one chunk has enough to do, and a million elements make
/// more than a hundred chunks.
pub(crate) const CHUNK_QUADS: usize = 8 * LONG_CHAINS;

/// How many chains a row of `extent` elements has.
pub(crate) fn chains(extent: usize) -> usize {
    if extent <= SHORT_MOST { SHORT_CHAINS } else { LONG_CHAINS }
}

/// How many chunks a row of `extent` elements has, at least one.
pub(crate) fn chunks(extent: usize) -> usize {
    extent.div_ceil(QUAD).div_ceil(CHUNK_QUADS).max(1)
}

const _: () = assert!(SHORT_MOST == 4 * SHORT_CHAINS * QUAD);
const _: () = assert!(CHUNK_QUADS.is_multiple_of(LONG_CHAINS) && LONG_CHAINS.is_power_of_two());
