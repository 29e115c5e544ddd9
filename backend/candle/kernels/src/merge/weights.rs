//! Launches for quantised weights: activations are quantised once for all products that read them, and mat-vecs of one kind become
//! one launch.
//!
//! Candle quantises the activations again before each product, into memory that it keeps: for queries, keys and values three
//! times. A quantisation that repeats an earlier one need not run, if nothing between the two wrote the rows or their codes.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::rocfire::{Merged, Node, Window};
use rocfire_hal::Source;

use super::thin::{members, pair};
use super::{Kind, Plan};
use crate::family::quantized;
use crate::geometry;
use crate::run::{ENTRY, MatVecKind, Use};

/// The most mat-vecs that one launch takes; each costs 48 bytes of arguments.
pub(crate) const MAT_VECS_MOST: usize = 8;

/// The kind of group that a launch by one of [`crate::ffi`]'s launchers begins or joins.
pub(super) fn kind_of(node: &Node) -> Kind {
    match node.name() {
        Some(name) if name == Use::Quantise.name() => Kind::Quantised,
        Some(name) if name == Use::MatVec.name() => Kind::MatVecs,
        _ => Kind::Each,
    }
}

impl Plan<'_, '_> {
    /// Adds a mat-vec to a reachable group of the same kind that has room. `Err` if there is none.
    pub(super) fn join_mat_vecs(&mut self, number: usize) -> Result<(), Kind> {
        let after = self.window.after(number);
        for at in self.reachable(number) {
            let group = &self.groups[at];
            let is_same = |&first: &usize| self.window.node(first).tag() == self.window.node(number).tag();
            let is_open = matches!(group.kind, Kind::MatVecs) && group.members.len() < MAT_VECS_MOST;
            if is_open && after & group.mask == 0 && group.members.first().is_some_and(is_same) {
                return self.put(at, number);
            }
        }
        Err(Kind::MatVecs)
    }

    /// Adds a quantisation to the earlier one that it repeats. `Err` if there is none.
    pub(super) fn join_quantised(&mut self, number: usize) -> Result<(), Kind> {
        let window = self.window;
        let is_twin = |first: &usize| window.node(*first).is_twin(window.node(number));
        let twin =
            |group: &super::Group| matches!(group.kind, Kind::Quantised) && group.members.first().is_some_and(is_twin);
        let Some(at) = self.groups.iter().rposition(twin) else { return Err(Kind::Quantised) };
        let Some(&last) = self.groups[at].members.last() else { return Err(Kind::Quantised) };
        // Launches between the two may read the rows and their codes, but not write them.
        if (last + 1..number).any(|between| window.disturbs(between, number)) {
            return Err(Kind::Quantised);
        }
        self.put(at, number)
    }
}

/// Mat-vecs of one kind as one launch; `None` for a single one, which runs as it was asked for.
pub(super) fn mat_vecs(window: &Window<'_>, numbers: &[usize]) -> Option<Merged> {
    let (first, ..) = numbers.split_first().filter(|(_, others)| !others.is_empty())?;
    let kind = MatVecKind::of_tag(window.node(*first).tag()?)?;
    let mut groups = 0;
    let mut words = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let node = window.node(number);
        let [weights, x, out] = [0, 1, 2].map(|slot| node.word(slot));
        let [columns, outputs, padded, stride] = [3, 4, 5, 6].map(|slot| node.int(slot));
        words.push([weights, x, out, pair(columns, outputs), pair(padded, stride), pair(groups, 0)]);
        groups += quantized::mat_vec_grid(outputs.into(), kind.rows).grid_dim.0;
    }
    let (source, config) = (source(kind), geometry::groups(groups.into(), quantized::MAT_VEC_BLOCK));
    let bytes = members(&words, MAT_VECS_MOST);
    Some(Merged { label: "candle_mat_vecs", source, entry: ENTRY, config, bytes })
}

/// The source of the kernel for several mat-vecs of a kind; made and hashed when it is first wanted.
fn source(kind: MatVecKind) -> Arc<Source> {
    static SOURCES: LazyLock<Mutex<HashMap<u64, Arc<Source>>>> = LazyLock::new(Mutex::default);
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let made = || {
        let spec = quantized::mat_vecs_of(kind.gguf, kind.out, &kind.rows.to_string(), MAT_VECS_MOST);
        let spec = spec.define("CANDLE_NAME", ENTRY);
        let defines: Vec<_> = spec.defines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Arc::new(Source::new(spec.file, spec.source, &defines))
    };
    Arc::clone(sources.entry(kind.tag()).or_insert_with(made))
}
