//! The same kernels compiled by family instead of one by one, for whoever wants all of them, as tests do. Most of the time of
//! compiling a kernel goes into the prelude, which a family then reads once.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use cudarc::rocfire::{KernelLibrary, KernelSpec};

use crate::table::{self, Family};
use crate::{ALL_IDS, Id, family};

/// A module whose kernels are compiled together with the others of their family.
#[derive(Debug)]
pub(crate) struct Batched(Id);

pub(crate) static BATCHED: LazyLock<Vec<Batched>> = LazyLock::new(|| ALL_IDS.into_iter().map(Batched).collect());

impl KernelLibrary for Batched {
    fn kernel(&self, name: &str) -> Option<KernelSpec> {
        let entry = table::find(name).filter(|entry| entry.module == self.0)?;
        let spec = family::spec(entry)?;
        if spec.operate.is_some() {
            return Some(spec);
        }
        Some(KernelSpec { source: text(entry.family), defines: Vec::new(), ..spec })
    }

    fn name(&self) -> &'static str {
        table::module_name(self.0)
    }
}

/// All kernels of a family in one text: the template once per kernel, with the kernel's macros defined before it and undefined
/// behind. What the kernels share stands between include guards.
fn text(family: Family) -> &'static str {
    static TEXTS: Mutex<Option<HashMap<Family, &'static str>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    texts.get_or_insert_default().entry(family).or_insert_with(|| {
        let entries = table::all().filter(|entry| entry.family == family);
        let mut text = String::new();
        for spec in entries.filter_map(family::spec).filter(|spec| spec.operate.is_none()) {
            for (name, value) in &spec.defines {
                text.push_str(&format!("#define {name} {value}\n"));
            }
            text.push_str(spec.source);
            for (name, _) in &spec.defines {
                text.push_str(&format!("#undef {name}\n"));
            }
        }
        text.leak()
    })
}
