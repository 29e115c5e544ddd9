//! Reading and updating elements that indices name.
//!
//! [`gather`] and [`scatter`] have an index per element, [`select`] and [`select_update`] one per slice along an axis;
//! embedding is [`select`] along axis 0 and its gradient [`select_update`] with [`Update::Add`]. [`Chosen`] is what a mask
//! picks out: the elements there, or their coordinates. Callers are the adapters.
//!
//! Updates of one element happen in ascending order of the index tensor: the same bits on every run, without atomics. Few
//! indices are followed one after the other; many are sorted first, so that different elements are updated side by side.
//! An index outside the axis, negative ones included, is never followed: reading gives zero, updating passes it over, and the next
//! read or wait of the device is [`rocfire_hal::Error::Index`], unless `ROCFIRE_CHECK_INDEX=0`. [`Updating`] is an update under
//! another name in such reports, or one with a number that stands for no index.

mod compact;
mod gather;
mod scatter;
mod select;
mod select_update;
mod sorted_update;

use rocfire_hal::{DType, Error, Source, View};

pub use compact::Chosen;
pub use gather::gather;
pub use scatter::scatter;
pub use select::select;
pub use select_update::select_update;

use crate::Result;
use crate::family::shape;

/// What becomes of an element that an index names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update {
    /// It is replaced; the last value stays.
    Assign,
    /// The value is added. Integers wrap around. Not for `Bool`.
    Add,
    /// It is multiplied. Integers wrap around. Not for `Bool`.
    Mul,
    /// The smaller stays; a NaN that arrives is passed over. For `Bool`: and.
    Min,
    /// The larger stays; a NaN that arrives is passed over. For `Bool`: or.
    Max,
}

impl Update {
    /// Every update.
    pub const ALL: [Update; 5] = [Update::Assign, Update::Add, Update::Mul, Update::Min, Update::Max];

    /// The number that the kernels know it by.
    fn number(self) -> &'static str {
        match self {
            Update::Assign => "0",
            Update::Add => "1",
            Update::Mul => "2",
            Update::Min => "3",
            Update::Max => "4",
        }
    }

    /// Whether elements of a type have it.
    fn serves(self, dtype: DType) -> bool {
        dtype != DType::Bool || !matches!(self, Update::Add | Update::Mul)
    }

    fn check(self, op: &'static str, view: &View<'_>) -> Result<()> {
        if self.serves(view.dtype()) {
            return Ok(());
        }
        Err(Error::Unsupported { op, dtype: view.dtype(), arch: view.arch() }.into())
    }
}

/// An update as an operator defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Updating {
    /// What becomes of an element.
    pub update: Update,
    /// Which numbers are indices.
    pub indices: Indices,
    /// What reports of an index outside call the operator, an identifier of 24 letters at most; `None`: by the launcher's name.
    pub name: Option<&'static str>,
}

impl From<Update> for Updating {
    fn from(update: Update) -> Updating {
        Updating { update, indices: Indices::All, name: None }
    }
}

impl Updating {
    /// Whether a number is passed over, for the kernels.
    fn has_none(self) -> &'static str {
        if self.indices == Indices::AllButGreatest { "1" } else { "0" }
    }
}

/// Which numbers of a type are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Indices {
    /// All.
    All,
    /// The greatest says that there is none: it is passed over, and nobody is told of it.
    AllButGreatest,
}

/// The family's rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let (bytes, index) = (dtype.size_bytes(), DType::I64);
    let places = if bytes == 4 { DType::I32 } else { DType::I64 };
    let select = |word| ("select", select::source(select::SelectKey { word, index }));
    let moves = [
        ("compact", compact::source(compact::CompactKey { word: bytes, index: places })),
        ("gather", gather::source(gather::GatherKey { bytes, index })),
        select(bytes),
        select(16),
    ];
    let wide = matches!(dtype, DType::F16 | DType::BF16);
    let updates = Update::ALL.into_iter().filter(move |update| update.serves(dtype)).flat_map(move |update| {
        let updating = Updating::from(update);
        [
            ("scatter", scatter::source(scatter::ScatterKey { dtype, index, updating })),
            ("select_update", select_update::source(select_update::UpdateKey { dtype, index, updating })),
            ("sorted_update", sorted_update::source(sorted_update::SortedKey { dtype, index, updating, wide })),
        ]
    });
    moves.into_iter().chain(updates).chain(of_some_indices(dtype))
}

/// Those of sums by indices of which the greatest is none.
fn of_some_indices(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let sum = |name| Updating { update: Update::Add, indices: Indices::AllButGreatest, name: Some(name) };
    let (index, wide, sums) = (DType::U32, matches!(dtype, DType::F16 | DType::BF16), Update::Add.serves(dtype));
    let by_slice = sum("index_add");
    let rows = [
        ("scatter", scatter::source(scatter::ScatterKey { dtype, index, updating: sum("scatter_add") })),
        ("select_update", select_update::source(select_update::UpdateKey { dtype, index, updating: by_slice })),
        ("sorted_update", sorted_update::source(sorted_update::SortedKey { dtype, index, updating: by_slice, wide })),
    ];
    rows.into_iter().filter(move |_| sums)
}

/// Checks that indices are integers.
fn integers(op: &'static str, view: &View<'_>) -> Result<()> {
    if view.dtype().is_int() {
        return Ok(());
    }
    Err(shape(op, "indices", "an integer type", view.dtype()))
}

/// Checks one shape.
fn same_shape(op: &'static str, arg: &'static str, view: &View<'_>, expected: &[usize]) -> Result<()> {
    if view.shape() == expected {
        return Ok(());
    }
    Err(shape(op, arg, format!("{expected:?}"), format!("{:?}", view.shape())))
}

/// Checks that two shapes agree but for one axis.
fn same_but(op: &'static str, arg: &'static str, got: &[usize], expected: &[usize], dim: usize) -> Result<()> {
    let agree = got.len() == expected.len() && (0..got.len()).all(|axis| axis == dim || got[axis] == expected[axis]);
    if agree {
        return Ok(());
    }
    Err(shape(op, arg, format!("{expected:?} but for axis {dim}"), format!("{got:?}")))
}

/// A type of the same size for moving elements as bits.
fn word_type(bytes: usize) -> &'static str {
    match bytes {
        1 => "rf::u8",
        2 => "rf::u16",
        4 => "rf::u32",
        _ => "rf::u64",
    }
}

#[cfg(test)]
mod tests;
