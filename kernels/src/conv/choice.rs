//! Which kernel a convolution takes, in which tiles, and how its operands get to LDS.
//!
//! The choice is by shape, layout, element type and device alone. Tiles change no bit of a result; slices of a weight's gradient do, and
//! follow from its shape alone.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_fusion::Runs;
use rocfire_hal::{DType, Device};

use super::direct::CHANNELS_MAX;
use super::geometry::AXES;
use super::operands::{COPY_PLACES, VECTOR_BYTES};
use super::sources::ConvKey;
use super::tiling::{TILINGS, Tiling, are_rounds, staging};
use crate::family::{EMULATED_SLOTS, compute_units, sum_dtype};
use crate::gemm::Staging;

/// Cost of loading one line of a tile, in products of one element pair: windows are read element by element.
const EDGE_COST: usize = 12;
/// The same where copies go past the registers: LDS, which gives a tile of 64 x 64 twice what it gives one of 128 x 128 for each
/// product, is what binds then (256 x 12544 places x 2304 take 0.072 ms in the smaller on an H200).
const COPIED_EDGE_COST: usize = 48;
/// The weight's gradient has few elements and long sums: slices make up to so many tiles of 64 x 64 out of it, of at least so
/// many steps each.
const SLICED_TILES: usize = 1024;
const SLICE_STEPS_MIN: usize = 1024;
const SLICES_MAX: usize = 256;
/// Slices begin at multiples of this: whole rounds of the kernel for every type.
const SLICE_ROUND: usize = 64;
/// A tile of so many lines or more fills the banks of LDS where steps are its rows.
const LINES_ACROSS: usize = 64;

/// What the choice needs to know of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub info: &'static ArchInfo,
    /// Whether matrix units are used.
    pub matrix: bool,
    /// `None` for an emulated device.
    pub compute_units: Option<usize>,
}

impl Machine {
    pub fn of(device: &Device) -> Machine {
        Machine { info: device.arch().info(), matrix: device.config().matrix, compute_units: compute_units(device) }
    }

    /// Workgroups of a tiling that run at once.
    fn slots(&self, tiling: &Tiling) -> usize {
        self.compute_units.map_or(EMULATED_SLOTS, |units| (units * tiling.resident()).max(1))
    }
}

/// Windows of `x` times a weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub dtype: DType,
    /// Rows of the result and channels of the sum within a group.
    pub rows: usize,
    pub channels: usize,
    pub groups: usize,
    pub batch: usize,
    /// Places of an image.
    pub places: usize,
    pub taps: [usize; AXES],
    /// As in [`ConvKey`].
    pub axes: u8,
    /// Steps of the sum.
    pub k: usize,
    /// Whether steps are taken channels within taps, a vector of `x` at a time.
    pub x_vector: bool,
    /// Whether the weight lies in vectors of steps.
    pub a_vector: bool,
}

/// What computes windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// A lane for each element: groups of very few channels.
    Direct,
    /// Tiles of a product of matrices.
    Product(Product),
}

/// A product in tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// Whether the weight is copied first, so that it lies in vectors of steps.
    pub packs: bool,
    /// The kernel for a result that does not end in runs of channels.
    pub key: ConvKey,
}

impl Product {
    /// The same where the result has its channels innermost and ends in such runs.
    pub fn ending_in(self, runs: Runs) -> Product {
        let key = ConvKey { tiling: self.key.tiling.turned(), last: Some(runs), ..self.key };
        Product { key, ..self }
    }
}

/// The kernel of windows.
pub(super) fn decide(machine: &Machine, windows: &Windows) -> Decision {
    let Windows { dtype, rows, channels, groups, batch, places, taps, axes, k, x_vector, a_vector } = *windows;
    if groups > 1 && rows <= CHANNELS_MAX && channels <= CHANNELS_MAX {
        return Decision::Direct;
    }
    let vector = VECTOR_BYTES / dtype.size_bytes();
    let packs = !a_vector && k > 0 && k.is_multiple_of(vector) && batch * places >= COPY_PLACES;
    let a_vector = a_vector || packs;
    let whole = a_vector && x_vector && are_rounds(dtype, channels, taps);
    let tiling = choose(machine, dtype, [rows, batch * places], groups, whole);
    let tiled = if a_vector && x_vector { staging(machine.info, &tiling) } else { None };
    let whole = whole && tiled.is_some();
    let (input, output, weight, last) = (dtype, dtype, false, None);
    let key = ConvKey { input, output, weight, axes, tiling, a_vector, x_vector, tiled, whole, last };
    Decision::Product(Product { packs, key })
}

/// The sum over images and places that makes a weight's gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightSum {
    pub dtype: DType,
    /// Rows and lines of the gradient within a group.
    pub size: [usize; 2],
    pub groups: usize,
    pub steps: usize,
    /// As in [`ConvKey`].
    pub axes: u8,
    /// Whether both sides lie in vectors of channels.
    pub in_channels: bool,
    /// Whether the places of all images form one line.
    pub in_line: bool,
    /// Whether the places of an image of the result's gradient follow each other, in whole vectors.
    pub in_places: bool,
}

/// How a weight's gradient is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightDecision {
    /// Slices of the sum, and their length.
    pub slices: usize,
    pub length: usize,
    pub key: ConvKey,
}

/// The kernel of a weight's gradient.
pub(super) fn decide_weight(machine: &Machine, sum: &WeightSum) -> WeightDecision {
    let WeightSum { dtype, size, groups, steps, axes, in_channels, in_line, in_places } = *sum;
    let (slices, length) = slices(size[0] * size[1] * groups, steps);
    let tiling = choose(machine, dtype, size, groups * slices, false);
    let key = ConvKey {
        input: dtype,
        output: if slices > 1 { sum_dtype(dtype) } else { dtype },
        weight: true,
        axes,
        tiling,
        a_vector: !in_channels && in_places,
        x_vector: in_channels,
        tiled: if in_channels && in_line { turning(machine, dtype, &tiling) } else { None },
        whole: false,
        last: None,
    };
    WeightDecision { slices, length, key }
}

/// Slices of the sum of a gradient of so many elements, and their length.
fn slices(elements: usize, steps: usize) -> (usize, usize) {
    let tiles = elements.div_ceil(64 * 64);
    let slices = (SLICED_TILES / tiles).clamp(1, (steps / SLICE_STEPS_MIN).clamp(1, SLICES_MAX));
    let length = steps.div_ceil(slices).next_multiple_of(SLICE_ROUND).max(SLICE_ROUND);
    (steps.div_ceil(length).max(1), length)
}

/// How tiles of sides with their channels innermost get to LDS, where fragment loads turn them.
fn turning(machine: &Machine, dtype: DType, tiling: &Tiling) -> Option<Staging> {
    let turns = dtype.size_bytes() == 2 && tiling.block().iter().all(|lines| lines.is_multiple_of(LINES_ACROSS));
    staging(machine.info, tiling).filter(|staging| staging.copies && turns)
}

/// The tiling with the least modelled time for so many rows and columns; `whole` where taps are whole rounds of loading.
fn choose(machine: &Machine, dtype: DType, size: [usize; 2], groups: usize, whole: bool) -> Tiling {
    let Machine { info, matrix, .. } = *machine;
    let copies = |tiling: &Tiling| tiling.matrix_size > 0 && info.matrix == Matrix::MmaSync;
    let cost = |tiling: &&Tiling| {
        let block = tiling.block();
        let blocks = size[0].div_ceil(block[0]) * size[1].div_ceil(block[1]) * groups;
        let edge = if copies(tiling) { COPIED_EDGE_COST } else { EDGE_COST };
        // What shares a unit takes its time from each other.
        blocks.div_ceil(machine.slots(tiling))
            * tiling.resident()
            * (block[0] * block[1] + edge * (block[0] + block[1]))
    };
    let eligible =
        TILINGS.iter().filter(|tiling| tiling.serves(info, dtype, matrix) && tiling.takes_whole(whole) == whole);
    *eligible.min_by_key(cost).expect("every type has a tiling of matrix size 16 or 32, or the plain ones")
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    fn machine(arch: &str, compute_units: Option<usize>) -> Machine {
        Machine { info: Arch::parse(arch).unwrap().info(), matrix: true, compute_units }
    }

    /// 56 x 56 places of 32 images, taps of 3 x 3, from 128 to 256 channels that lie innermost.
    const WINDOWS: Windows = Windows {
        dtype: DType::F16,
        rows: 256,
        channels: 128,
        groups: 1,
        batch: 32,
        places: 56 * 56,
        taps: [1, 3, 3],
        axes: 2,
        k: 128 * 9,
        x_vector: true,
        a_vector: false,
    };

    fn product(machine: &Machine, windows: &Windows) -> Product {
        match decide(machine, windows) {
            Decision::Product(product) => product,
            Decision::Direct => panic!("{windows:?} takes no product"),
        }
    }

    #[test]
    fn groups_of_very_few_channels_take_a_lane_for_each_element() {
        let machine = machine("gfx942", Some(304));
        let depthwise = Windows { rows: 1, channels: 1, groups: 256, k: 9, ..WINDOWS };
        assert_eq!(decide(&machine, &depthwise), Decision::Direct);
        assert_ne!(decide(&machine, &Windows { groups: 1, ..depthwise }), Decision::Direct);
        assert_ne!(decide(&machine, &Windows { rows: CHANNELS_MAX + 1, ..depthwise }), Decision::Direct);
    }

    #[test]
    fn large_windows_take_large_tiles_and_whole_taps() {
        let on_amd = product(&machine("gfx942", Some(304)), &WINDOWS);
        assert!(on_amd.packs && on_amd.key.a_vector && on_amd.key.whole, "{on_amd:?}");
        assert_eq!(on_amd.key.tiling.block(), [128, 128]);
        let on_nvidia = product(&machine("sm_90", Some(132)), &WINDOWS);
        assert!(on_nvidia.key.whole && on_nvidia.key.tiled.is_some_and(|staging| staging.copies), "{on_nvidia:?}");
    }

    #[test]
    fn a_weight_is_packed_only_where_that_pays() {
        let machine = machine("gfx942", Some(304));
        assert!(!product(&machine, &Windows { a_vector: true, ..WINDOWS }).packs, "it lies so");
        assert!(!product(&machine, &Windows { batch: 1, places: 4, ..WINDOWS }).packs, "few places read it");
        assert!(
            !product(&machine, &Windows { channels: 3, k: 27, x_vector: false, ..WINDOWS }).packs,
            "no whole vectors"
        );
    }

    #[test]
    fn steps_past_vectors_are_staged_by_nobody() {
        let machine = machine("gfx942", Some(304));
        let key = product(&machine, &Windows { x_vector: false, ..WINDOWS }).key;
        assert_eq!((key.tiled, key.whole), (None, false));
    }

    #[test]
    fn a_result_with_channels_innermost_has_its_tile_turned() {
        let product = product(&machine("gfx942", Some(304)), &Windows { rows: 64, ..WINDOWS });
        let turned = product.ending_in(Runs::default());
        let [a, b] = product.key.tiling.block();
        assert_eq!((turned.key.tiling.block(), turned.key.last), ([b, a], Some(Runs::default())));
    }

    #[test]
    fn without_a_matrix_unit_tiles_are_plain() {
        assert_eq!(product(&machine("gfx1030", Some(60)), &WINDOWS).key.tiling.matrix_size, 0);
        let off = Machine { matrix: false, ..machine("gfx942", Some(304)) };
        assert_eq!(product(&off, &WINDOWS).key.tiling.matrix_size, 0);
    }

    #[test]
    fn slices_follow_from_the_shape_alone() {
        let sum = WeightSum {
            dtype: DType::F16,
            size: [64, 576],
            groups: 1,
            steps: 32 * 56 * 56,
            axes: 2,
            in_channels: true,
            in_line: true,
            in_places: false,
        };
        let of = |machine: Machine, sum: WeightSum| decide_weight(&machine, &sum);
        let (card, emulated) = (of(machine("gfx942", Some(304)), sum), of(machine("gfx942", None), sum));
        assert_eq!((card.slices, card.length), (emulated.slices, emulated.length));
        assert!(card.slices > 1 && card.slices * card.length >= sum.steps, "{card:?}");
        assert!(card.length.is_multiple_of(SLICE_ROUND));
        assert_eq!(card.key.output, DType::F32, "slices are summed once more");
        let short = of(machine("gfx942", Some(304)), WeightSum { steps: 100, ..sum });
        assert_eq!((short.slices, short.key.output), (1, DType::F16));
    }

    #[test]
    fn sides_are_turned_where_copies_go_past_the_registers() {
        let sum = WeightSum {
            dtype: DType::F16,
            size: [256, 1152],
            groups: 1,
            steps: 32 * 28 * 28,
            axes: 2,
            in_channels: true,
            in_line: true,
            in_places: false,
        };
        let tiled = |arch, sum| decide_weight(&machine(arch, Some(132)), &sum).key.tiled;
        assert!(tiled("sm_90", sum).is_some());
        assert_eq!(tiled("gfx942", sum), None, "its fragment loads turn nothing");
        assert_eq!(tiled("sm_90", WeightSum { in_line: false, ..sum }), None);
    }
}
