//! The sources of the kernels: what varies in them, the text of a variant, and the family's rows of the registry.

use rocfire_arch::Arch;
use rocfire_fusion::Runs;
use rocfire_hal::{DType, Source};

use super::channels_last;
use super::direct::{self, DirectKey};
use super::tiling::{TILINGS, Tiling, staging};
use crate::epilogue;
use crate::family::{c_type, sum_dtype};
use crate::gemm::Staging;

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConvKey {
    pub input: DType,
    pub output: DType,
    /// The weight's gradient; with `x_vector` both sides have their channels innermost.
    pub weight: bool,
    /// Spatial axes that may have more than one element: 2 or 3.
    pub axes: u8,
    pub tiling: Tiling,
    pub a_vector: bool,
    pub x_vector: bool,
    /// How tiles get to LDS, where gemm's are used.
    pub tiled: Option<Staging>,
    /// Whether taps are whole rounds of loading, of those that are tiled and no gradient by the weight.
    pub whole: bool,
    /// Where the result has its channels innermost, how the tensors of the epilogue lie, if there is one. The tiling's rows are
    /// places then.
    pub last: Option<Runs>,
}

/// The source of one variant.
pub(super) fn source(key: ConvKey) -> Source {
    source_behind(key, "")
}

/// The source of one variant behind the text of an epilogue, or of none.
pub(super) fn source_behind(key: ConvKey, epilogue: &str) -> Source {
    let t = key.tiling;
    let numbers = [
        ("CONV_WEIGHT", usize::from(key.weight)),
        ("CONV_AXES", usize::from(key.axes)),
        ("CONV_MATRIX_SIZE", usize::from(t.matrix_size)),
        ("CONV_WAVES_M", usize::from(t.waves[0])),
        ("CONV_WAVES_N", usize::from(t.waves[1])),
        ("CONV_TILES_M", usize::from(t.tiles[0])),
        ("CONV_TILES_N", usize::from(t.tiles[1])),
        ("CONV_A_VECTOR", usize::from(key.a_vector)),
        ("CONV_X_VECTOR", usize::from(key.x_vector)),
        ("CONV_NARROW_OUT", usize::from(key.output.size_bytes() == 2)),
        ("CONV_EPILOGUE", usize::from(!epilogue.is_empty())),
        ("CONV_TILED", usize::from(key.tiled.is_some())),
        ("CONV_WHOLE", usize::from(key.whole)),
        ("CONV_LAST", usize::from(key.last.is_some())),
        ("CONV_STAGES", key.tiled.map_or(0, |staging| usize::from(staging.stages))),
        ("CONV_COPIES", key.tiled.map_or(0, |staging| usize::from(staging.copies))),
        ("CONV_LDS_BYTES", key.tiled.map_or(0, |staging| staging.lds_bytes as usize)),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types =
        [("CONV_IN", c_type(key.input)), ("CONV_OUT", c_type(key.output)), ("CONV_SUM", c_type(sum_dtype(key.input)))];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    const PLAIN: &str = concat!(include_str!("conv.hip"), include_str!("store.hip"), include_str!("plain.hip"));
    const TILED: &str = concat!(
        include_str!("conv.hip"),
        include_str!("store.hip"),
        include_str!("../gemm/rows.hip"),
        include_str!("../gemm/stage.hip"),
        include_str!("../gemm/matrix.hip"),
        include_str!("tiled.hip")
    );
    const LAST: &str = concat!(
        include_str!("conv.hip"),
        include_str!("../gemm/rows.hip"),
        include_str!("../gemm/stage.hip"),
        include_str!("../gemm/matrix.hip"),
        include_str!("last.hip"),
        include_str!("tiled.hip")
    );
    let text = match (key.tiled, key.last) {
        (None, _) => PLAIN,
        (Some(_), None) => TILED,
        (Some(_), Some(_)) => LAST,
    };
    Source::new("conv", epilogue::in_front(epilogue, text), &defines)
}

/// Operators and sources for one type of element.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let parts = dtype.is_float().then(|| {
        let direct = direct::source(DirectKey { dtype });
        [("direct", direct), ("channels_last", channels_last::source(dtype.size_bytes()))]
    });
    let tiled = products(arch, dtype).filter(move |_| dtype.is_float());
    tiled.map(|source| ("conv", source)).chain(parts.into_iter().flatten())
}

/// Every tiling that serves, with the variants in rotation; all variants for the first.
fn products(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let tilings = TILINGS.iter().filter(move |tiling| tiling.serves(arch.info(), dtype, true));
    tilings.enumerate().flat_map(move |(number, &tiling)| {
        // The second gives results with their channels innermost, whose stores differ from tiling to tiling.
        let variants = (0..12).filter(move |&variant| number == 0 || variant % 4 == number % 4 || variant == 1);
        variants.filter_map(move |variant| {
            let (weight, axes) = (variant % 3 == 2, if variant % 2 == 0 { 2 } else { 3 });
            let (a_vector, x_vector) = (variant / 3 % 2 == 0, variant % 3 == 1);
            let output = if weight && a_vector && dtype.size_bytes() == 2 { DType::F32 } else { dtype };
            let tiled = if !weight && a_vector && x_vector { staging(arch.info(), &tiling) } else { None };
            let last = (tiled.is_some() && axes == 3 && dtype.size_bytes() == 2).then(Runs::default);
            let whole = tiling.takes_whole(tiled.is_some() && (variant + number) % 2 == 0);
            let tiling = if last.is_some() { tiling.turned() } else { tiling };
            let key = ConvKey { input: dtype, output, weight, axes, tiling, a_vector, x_vector, tiled, whole, last };
            (tiled.is_some() || !whole).then(|| source(key))
        })
    })
}
