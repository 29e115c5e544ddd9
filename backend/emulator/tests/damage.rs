//! Damaged code objects: loading one is an error or works, and is never a panic.

// Only its compiler is used: what is loaded here is damaged first.
#[allow(dead_code)]
mod common;

use proptest::prelude::*;
use rocfire_arch::Arch;
use rocfire_emulator::{Error, Gpu, Launch, Options};

/// Cases of each law.
const CASES: u32 = 1500;

fn gpu() -> Gpu {
    let mut options = Options::default();
    options.memory_bytes = 16 << 20;
    options.step_limit = 100_000;
    options.threads = Some(1);
    Gpu::new(Arch::parse("gfx942").unwrap(), options).unwrap()
}

/// Loads it; what fails must say that the code object is bad, or that there is no room for what it asks.
fn load(bytes: &[u8]) -> Result<(), TestCaseError> {
    match gpu().load(bytes) {
        Ok(_) | Err(Error::BadCodeObject { .. } | Error::OutOfMemory { .. }) => Ok(()),
        Err(other) => Err(TestCaseError::fail(format!("not an error of loading: {other}"))),
    }
}

/// Where the headers, notes, symbols and descriptors are: damage there is worth more than in code.
fn places(bytes: &[u8]) -> Vec<usize> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
    let (programs, sections) = (word(32), word(40));
    let (program_count, section_count) = (half(56), half(60));
    let mut places: Vec<usize> = (0..64).collect();
    places.extend(programs..programs + 56 * program_count);
    places.extend(sections..sections + 64 * section_count);
    for section in 0..section_count {
        let header = sections + 64 * section;
        let kind = u32::from_le_bytes(bytes[header + 4..header + 8].try_into().unwrap());
        // Symbols, strings, relocations, dynamic entries, notes, dynamic symbols.
        if [2, 3, 4, 6, 7, 11].contains(&kind) {
            places.extend(word(header + 24)..word(header + 24) + word(header + 32).min(4096));
        }
    }
    places.retain(|&place| place < bytes.len());
    places
}

#[test]
fn truncated_files_are_errors() {
    let Some(object) = common::compile("stack") else { return };
    assert!(gpu().load(&object).is_ok());
    for length in (0..object.len()).step_by(37) {
        // The last bytes are section headers; without them nothing can be found.
        let outcome = gpu().load(&object[..length]);
        assert!(matches!(outcome, Err(Error::BadCodeObject { .. })), "{length} of {} bytes", object.len());
    }
}

#[test]
fn code_that_lies_outside_of_the_image_is_an_error() {
    let Some(object) = common::compile("stack") else { return };
    let word = |at: usize| u64::from_le_bytes(object[at..at + 8].try_into().unwrap());
    let headers = (0..usize::from(object[60])).map(|section| word(40) as usize + 64 * section);
    // Flag 4: executable.
    let code: Vec<usize> = headers.filter(|header| word(header + 8) & 4 != 0).collect();
    assert!(!code.is_empty());
    for (field, value) in [(16, u64::MAX - 4), (16, 1 << 40), (32, 1 << 62), (32, u64::MAX)] {
        let mut bytes = object.clone();
        for header in &code {
            bytes[header + field..header + field + 8].copy_from_slice(&value.to_le_bytes());
        }
        assert!(matches!(gpu().load(&bytes), Err(Error::BadCodeObject { .. })), "{value:#x} at {field}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]

    #[test]
    fn changed_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let Some(object) = common::compile("stack") else { return Ok(()) };
        let mut bytes = object.clone();
        for (place, value) in changes {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        load(&bytes)?;
    }

    #[test]
    fn changed_tables_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..5), 1..6)) {
        let Some(object) = common::compile("stack") else { return Ok(()) };
        let places = places(&object);
        let mut bytes = object.clone();
        for (place, value, how) in changes {
            let at = *place.get(&places);
            // The values that go wrong: extremes, neighbours, and any.
            bytes[at] = [0, 0xff, value, bytes[at].wrapping_add(1), bytes[at] ^ 0x80][how];
        }
        load(&bytes)?;
    }

    #[test]
    fn moved_pieces_never_panic(from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), length in 1usize..600) {
        let Some(object) = common::compile("stack") else { return Ok(()) };
        let mut bytes = object.clone();
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        let length = length.min(bytes.len() - from.max(to));
        bytes.copy_within(from..from + length, to);
        load(&bytes)?;
    }

    #[test]
    fn no_elf_at_all_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
        let mut bytes = bytes;
        if magic && bytes.len() > 8 {
            bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        }
        let refused = matches!(gpu().load(&bytes), Err(Error::BadCodeObject { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn changed_code_ends_in_an_error_or_runs(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..4)) {
        let Some(object) = common::compile("basics") else { return Ok(()) };
        let text = section(&object, ".text");
        let mut bytes = object.clone();
        for (place, word) in changes {
            let at = text.start + place.index(text.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let gpu = gpu();
        let Ok(module) = gpu.load(&bytes) else { return Ok(()) };
        let Some(kernel) = module.kernel("collatz") else { return Ok(()) };
        let room = gpu.allocate(4096).unwrap();
        let mut kernarg = Vec::new();
        kernarg.extend(room.to_le_bytes());
        kernarg.extend(room.to_le_bytes());
        kernarg.extend(64u32.to_le_bytes());
        // It may fault, write what it should not into its own memory, or do nothing; it must come back.
        let _ = gpu.launch(&kernel, &Launch { grid: [1; 3], block: [64, 1, 1], dynamic_lds_bytes: 0, kernarg: &kernarg });
    }
}

/// Where a section's bytes lie in the file.
fn section(bytes: &[u8], name: &str) -> std::ops::Range<usize> {
    use object::{Object as _, ObjectSection as _};
    let elf = object::File::parse(bytes).unwrap();
    let (start, size) = elf.section_by_name(name).unwrap().file_range().unwrap();
    start as usize..(start + size) as usize
}
