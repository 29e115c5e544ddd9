//! Launchers of quantised weights: the rows of activations are quantised once for all products that read them, and mat-vecs of
//! one kind are one launch.
//!
//! Candle quantises the activations anew before each product, into memory that it keeps: queries, keys and values do it three
//! times. A quantisation that does once more what an earlier one did, with nothing of it changed between, need not run.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::rocfire::{Merged, Node, Window};
use rocfire_hal::Source;

use super::thin::{members, pair};
use super::{Kind, Plan};
use crate::family::quantized;
use crate::geometry;
use crate::run::{ENTRY, MatVecKind, Use};

/// Mat-vecs of a launch, most: 48 bytes of arguments each.
pub(crate) const MAT_VECS_MOST: usize = 8;

/// What a launcher's kernel can join.
pub(super) fn kind_of(node: &Node) -> Kind {
    match node.name() {
        Some(name) if name == Use::Quantise.name() => Kind::Quantised,
        Some(name) if name == Use::MatVec.name() => Kind::MatVecs,
        _ => Kind::Each,
    }
}

impl Plan<'_, '_> {
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

    pub(super) fn join_quantised(&mut self, number: usize) -> Result<(), Kind> {
        let window = self.window;
        let is_twin = |first: &usize| window.node(*first).is_twin(window.node(number));
        let twin =
            |group: &super::Group| matches!(group.kind, Kind::Quantised) && group.members.first().is_some_and(is_twin);
        let Some(at) = self.groups.iter().rposition(twin) else { return Err(Kind::Quantised) };
        let Some(&last) = self.groups[at].members.last() else { return Err(Kind::Quantised) };
        // What stands between may read the rows and their codes, not write them.
        if (last + 1..number).any(|between| window.disturbs(between, number)) {
            return Err(Kind::Quantised);
        }
        self.put(at, number)
    }
}

/// Mat-vecs of one kind as one launch; `None` for one.
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

/// The kernel of a kind, made and hashed once.
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
