//! `sort_by_expert`: the launcher of `sort_by_expert.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, Tensor, View, ViewMut};

use super::{EXPERTS_MAX, capacities, capacity, matrix, vector};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, KernelLaunch, Sources, shape};

const OP: &str = "sort_by_expert";
/// Choices that one workgroup takes at least: two launches cost more than going through fewer than these.
const CHUNK: usize = 4096;
/// Choices of each of several workgroups at least.
const CHUNK_OF_SEVERAL: usize = 2048;
/// Most workgroups: each reads the counts of all.
const CHUNKS_MAX: usize = 128;

/// Which choices are sorted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SortParams<'a> {
    /// Experts: choices of -1 are left out, which [`ByExpert`] says the end of; so are those of other numbers, and the next read of
    /// the device is an error.
    pub experts: usize,
    /// The group of each expert, `[experts]`, i32: what is outside the groups is left out, as the experts of other devices are. If
    /// not given, an expert is a group.
    pub map: Option<View<'a>>,
    /// How many tokens count, `[1]`, i32.
    pub tokens: Option<View<'a>>,
}

impl SortParams<'_> {
    /// Every choice of one of the experts.
    pub fn new(experts: usize) -> SortParams<'static> {
        SortParams { experts, map: None, tokens: None }
    }
}

/// Shares that are rounded up to whole blocks.
#[derive(Debug)]
pub struct Blocks<'a> {
    /// Places of a block.
    pub places: usize,
    /// The group of each block, -1 behind the last, `[places of the order / places of a block, rounded up]`, i32.
    pub groups: ViewMut<'a>,
    /// Where the last share ends, `[1]`, i32.
    pub total: ViewMut<'a>,
}

/// What is written.
#[derive(Debug)]
#[non_exhaustive]
pub struct ByExpert<'a> {
    /// Choices, `token * k + slot`, by place, i32: as many places as choices, or with blocks as many as all shares rounded up may
    /// take, [`ByExpert::places`]. Choices that are left out come behind the last group; with blocks they are nowhere, and places
    /// that no choice has are `tokens * k`.
    pub order: ViewMut<'a>,
    /// Where each group begins, and the end, `[groups + 1]`, i32.
    pub offsets: ViewMut<'a>,
    /// The place of each choice, `[tokens * k]`, i32; with blocks -1 of those left out.
    pub inverse: Option<ViewMut<'a>>,
    /// Weights of choices, `[tokens, k]`, f32, and the same by place, 0 of what is left out and where there is no choice.
    pub weights: Option<(View<'a>, ViewMut<'a>)>,
    /// Blocks.
    pub blocks: Option<Blocks<'a>>,
}

impl<'a> ByExpert<'a> {
    /// Order and offsets.
    pub fn new(order: ViewMut<'a>, offsets: ViewMut<'a>) -> ByExpert<'a> {
        ByExpert { order, offsets, inverse: None, weights: None, blocks: None }
    }

    /// Places that `choices` choices of `groups` groups take at most, in blocks of `block`.
    pub fn places(choices: usize, groups: usize, block: usize) -> usize {
        choices + groups.min(choices) * block.saturating_sub(1)
    }
}

/// Puts choices in the order of their experts, each expert's in the order of tokens.
///
/// # Shapes
/// `ids`: `[tokens, k]`, i32, rows contiguous, at any distance; outputs contiguous, as [`ByExpert`] says. At most 1024 experts and
/// groups.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ choices or places.
pub fn sort_by_expert(stream: &Stream, ids: View<'_>, params: &SortParams<'_>, to: ByExpert<'_>) -> Result<()> {
    let (args, choices) = check(stream, &ids, params, &to)?;
    static SOURCES: Sources<usize> = Sources::new();
    let groups = args.groups as usize;
    let source = SOURCES.get(capacity(groups), source);
    let chunk = if choices <= CHUNK { CHUNK } else { choices.div_ceil(CHUNKS_MAX).max(CHUNK_OF_SEVERAL) };
    let chunk = chunk.next_multiple_of(BLOCK);
    let chunks = choices.div_ceil(chunk).max(1);
    let counts = if chunks > 1 { Some(Tensor::empty(ids.device(), &[chunks, groups + 1], DType::U32)?) } else { None };
    let address = counts.as_ref().map_or(0, |counts| counts.view().device_address());
    let args = SortByExpertArgs { chunk: chunk as u32, chunks: chunks as u32, counts: address, ..args };
    let (grid, block) = ([chunks, 1, 1], [BLOCK, 1, 1]);
    if let Some(counts) = &counts {
        // SAFETY:
        // - `SortByExpertArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads the ids, the map
        //   below `experts` and the count, inside checked views, and writes `groups + 1` counts for each of `chunks` workgroups.
        // - It writes the counts.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, "sort_by_expert_count"), grid, block)
                .run(&args, &[counts.buffer()])?;
        }
    }
    let mut written = [to.order.buffer(); 6];
    let others = [
        Some(&to.offsets),
        to.inverse.as_ref(),
        to.weights.as_ref().map(|(_, sorted)| sorted),
        to.blocks.as_ref().map(|blocks| &blocks.groups),
        to.blocks.as_ref().map(|blocks| &blocks.total),
    ];
    for (slot, output) in written[1..].iter_mut().zip(others) {
        *slot = output.map_or(to.order.buffer(), |output| output.buffer());
    }
    // SAFETY:
    // - As above; the kernel reads the counts too and the weights of choices, and writes a place for every choice of a group and for
    //   every place that has none: places end within the order, as checked, as do blocks and what there is one of for a choice.
    // - It writes what of the outputs is given.
    unsafe { KernelLaunch::new(stream, &source, (OP, "sort_by_expert_place"), grid, block).run(&args, &written) }
}

/// Checks the arguments; how many choices there are.
fn check(
    stream: &Stream,
    ids: &View<'_>,
    params: &SortParams<'_>,
    to: &ByExpert<'_>,
) -> Result<(SortByExpertArgs, usize)> {
    let &[tokens, k] = ids.shape() else {
        return Err(shape(OP, "ids", "[tokens, k]", format!("{:?}", ids.shape())));
    };
    let (choices, places) = (tokens * k, to.order.layout().len());
    let groups = to.offsets.layout().len().saturating_sub(1);
    if params.experts == 0 || params.experts > EXPERTS_MAX {
        return Err(shape(OP, "experts", format!("1 to {EXPERTS_MAX}"), params.experts));
    }
    if groups == 0 || groups > EXPERTS_MAX || (params.map.is_none() && groups != params.experts) {
        let expected = match params.map {
            Some(_) => format!("[2] to [{}]", EXPERTS_MAX + 1),
            None => format!("[{}]", params.experts + 1),
        };
        return Err(shape(OP, "offsets", expected, format!("{:?}", to.offsets.shape())));
    }
    let block = to.blocks.as_ref().map_or(1, |blocks| blocks.places);
    let needed = ByExpert::places(choices, groups, block);
    let fits = if to.blocks.is_some() { places >= needed } else { places == needed };
    if block == 0 || choices >= BOX_LIMIT || places >= BOX_LIMIT || !fits {
        let expected = format!("{needed} places, in blocks of 1 and more, fewer than {BOX_LIMIT}");
        return Err(shape(OP, "order", expected, format!("{places}, in blocks of {block}")));
    }
    let (ids_address, id_stride) = matrix(OP, "ids", stream, ids, [tokens, k], &[DType::I32])?;
    let map = vector(OP, "map", stream, params.map, params.experts, DType::I32)?;
    let count = vector(OP, "tokens", stream, params.tokens, 1, DType::I32)?;
    let (weights, sorted) = (to.weights.as_ref().map(|(weights, _)| *weights), to.weights.as_ref().map(|(_, to)| to));
    let (weights, weight_stride) = match weights {
        Some(weights) => matrix(OP, "weights", stream, &weights, [tokens, k], &[DType::F32])?,
        None => (0, 0),
    };
    let blocks = to.blocks.as_ref();
    let outputs = [
        ("order", Some(&to.order), places, DType::I32),
        ("offsets", Some(&to.offsets), groups + 1, DType::I32),
        ("inverse", to.inverse.as_ref(), choices, DType::I32),
        ("weights.sorted", sorted, places, DType::F32),
        ("blocks.groups", blocks.map(|blocks| &blocks.groups), places.div_ceil(block), DType::I32),
        ("blocks.total", blocks.map(|blocks| &blocks.total), 1, DType::I32),
    ];
    let mut addresses = [0; 6];
    for (at, (arg, output, count, dtype)) in outputs.iter().enumerate() {
        let Some(output) = output else { continue };
        addresses[at] = vector(OP, arg, stream, Some(output.view()), *count, *dtype)?;
        family::disjoint(OP, arg, output, ids)?;
        for (_, other, ..) in &outputs[..at] {
            if let Some(other) = other {
                family::disjoint(OP, arg, output, other)?;
            }
        }
    }
    let [order, offsets, inverse, sorted, block_groups, total] = addresses;
    let args = SortByExpertArgs {
        ids: ids_address,
        map,
        count,
        weights,
        order,
        inverse,
        sorted,
        block_groups,
        total,
        offsets,
        counts: 0,
        id_stride,
        weight_stride,
        choices: choices as u32,
        experts: params.experts as u32,
        groups: groups as u32,
        places: places as u32,
        chunk: 0,
        chunks: 0,
        in_blocks: u32::from(to.blocks.is_some()),
        k: FastDiv::new(k),
        block: FastDiv::new(block),
        padding: 0,
    };
    Ok((args, choices))
}

/// The source for so many groups.
pub(crate) fn source(capacity: usize) -> Source {
    let (groups, bits) = (capacity.to_string(), capacity.trailing_zeros().to_string());
    let defines = [("SORT_GROUPS", groups.as_str()), ("SORT_GROUPS_LOG2", bits.as_str())];
    Source::new(OP, include_str!("sort_by_expert.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    capacities().filter(move |_| dtype == DType::I32).map(|capacity| (OP, source(capacity)))
}

/// `SortByExpertArgs` of `sort_by_expert.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SortByExpertArgs {
    ids: u64,
    map: u64,
    count: u64,
    weights: u64,
    order: u64,
    inverse: u64,
    sorted: u64,
    block_groups: u64,
    total: u64,
    offsets: u64,
    counts: u64,
    id_stride: i64,
    weight_stride: i64,
    choices: u32,
    experts: u32,
    groups: u32,
    places: u32,
    chunk: u32,
    chunks: u32,
    in_blocks: u32,
    k: FastDiv,
    block: FastDiv,
    padding: u32,
}
const _: () = assert!(size_of::<SortByExpertArgs>() == 160);

#[cfg(test)]
mod tests;
