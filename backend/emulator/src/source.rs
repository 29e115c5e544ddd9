//! From an instruction to the line of the program's source, where the code object has line tables (`-gline-tables-only`).
//!
//! Only what a report needs: the sections are kept as they stand in the file, and are read when something went wrong.

use std::borrow::Cow;
use std::collections::HashMap;

use addr2line::gimli;

/// The debug sections of a code object.
pub(crate) struct LineTables {
    sections: HashMap<String, Vec<u8>>,
}

impl LineTables {
    /// `None` if none of the sections is a line table.
    pub(crate) fn new(sections: impl Iterator<Item = (String, Vec<u8>)>) -> Option<LineTables> {
        let sections: HashMap<_, _> = sections.filter(|(name, _)| name.starts_with(".debug_")).collect();
        sections.contains_key(".debug_line").then_some(LineTables { sections })
    }

    /// `file:line:column`, with the function and the lines that it was inlined into, innermost first. `address` is as the
    /// code object numbers it. `None` if the tables do not cover it, or are damaged.
    pub(crate) fn find(&self, address: u64) -> Option<String> {
        let load = |id: gimli::SectionId| -> Result<gimli::EndianSlice<'_, gimli::LittleEndian>, gimli::Error> {
            let data = self.sections.get(id.name()).map_or(&[][..], Vec::as_slice);
            Ok(gimli::EndianSlice::new(data, gimli::LittleEndian))
        };
        let context = addr2line::Context::from_dwarf(gimli::Dwarf::load(load).ok()?).ok()?;
        let mut frames = context.find_frames(address).skip_all_loads().ok()?;
        let mut places = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let Some(location) = frame.location else { continue };
            let Some((file, line)) = location.file.zip(location.line) else { continue };
            let column = location.column.filter(|&column| column > 0).map_or(String::new(), |c| format!(":{c}"));
            let name = frame.function.and_then(|function| function.demangle().ok().map(Cow::into_owned));
            let name = name.map_or(String::new(), |name| format!(" ({name})"));
            // Where the compiler was told that it ran in no folder in particular.
            let file = file.strip_prefix("./").unwrap_or(file);
            places.push(format!("{file}:{line}{column}{name}"));
        }
        (!places.is_empty()).then(|| places.join(", inlined at "))
    }
}
