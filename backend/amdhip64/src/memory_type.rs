//! `hipMemoryType`: what kind of memory an address is, in the numbers of the release that the program was built for.
//!
//! HIP 6 numbered the kinds anew, and the functions that tell or take them kept their names and versions, so nothing in a
//! call says which numbers its caller means. The library's name does: programs of HIP 5 ask the loader for
//! `libamdhip64.so.5`, which is a file of its own beside the emulator's (`install.sh`). A process that has both it and
//! `libamdhip64.so.6` gets the new numbers. One that has a library of HIP 5 and another of HIP 7 gets the old ones: the
//! emulator itself is in `libamdhip64.so.7`, so that having it says nothing.

use std::fs;
use std::sync::OnceLock;

use crate::call::Result;
use crate::status::Status;

/// A kind of memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MemoryType {
    /// Memory that HIP does not know.
    Unregistered,
    /// The host's, allocated or registered by HIP.
    Host,
    /// The device's.
    Device,
    /// Of both.
    Managed,
    /// For textures.
    Array,
    /// A pointer that says itself where it leads.
    Unified,
}

use MemoryType::{Array, Device, Host, Managed, Unified, Unregistered};
/// By number, before HIP 6. There was none for memory that HIP does not know: to ask for it was an error.
const HIP_5: [(MemoryType, i32); 5] = [(Host, 0), (Device, 1), (Array, 2), (Unified, 3), (Managed, 4)];
/// By number, from HIP 6 on.
const HIP_6: [(MemoryType, i32); 6] =
    [(Unregistered, 0), (Host, 1), (Device, 2), (Managed, 3), (Array, 10), (Unified, 11)];

impl MemoryType {
    /// The kind of a program's number; none if there is no such kind.
    pub fn of(number: i32) -> Option<Self> {
        numbers().iter().find(|known| known.1 == number).map(|known| known.0)
    }

    /// The program's number.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` where HIP 5 is asked about memory that it does not know, as it answers.
    pub fn number(self) -> Result<i32> {
        let known = numbers().iter().find(|known| known.0 == self);
        known.map(|known| known.1).ok_or_else(|| Status::INVALID_VALUE.into())
    }
}

fn numbers() -> &'static [(MemoryType, i32)] {
    static FOR_HIP_5: OnceLock<bool> = OnceLock::new();
    // Unreadable maps are those of a system without them, where no program of HIP 5 runs.
    let is_hip_5 = || is_built_for_hip_5(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
    if *FOR_HIP_5.get_or_init(is_hip_5) { &HIP_5 } else { &HIP_6 }
}

/// Whether the files of a process, as the system lists them, are those of a program of HIP 5.
fn is_built_for_hip_5(maps: &str) -> bool {
    let has = |name: &str| maps.lines().any(|line| line.rsplit('/').next() == Some(name));
    has("libamdhip64.so.5") && !has("libamdhip64.so.6")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_that_a_process_has_open_says_which_release_it_is_for() {
        let line = |name: &str| format!("7f0000000000-7f0000001000 r--p 00000000 fd:00 42    /opt/rocm/lib/{name}\n");
        let maps = |names: &[&str]| names.iter().map(|name| line(name)).collect::<String>();
        assert!(is_built_for_hip_5(&maps(&["libamdhip64.so.5", "libamdhip64.so.7"])));
        assert!(!is_built_for_hip_5(&maps(&["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"])));
        assert!(!is_built_for_hip_5(&maps(&["libamdhip64.so.7", "libamdhip64.so.50"])));
        assert!(!is_built_for_hip_5(""));
    }
}
