//! Fat binaries: what `clang-offload-bundler` makes of the code objects of a translation unit, compressed or not.

use std::collections::BTreeMap;
use std::io::{Error, Result};

use object::{Object as _, ObjectSection as _};

const PLAIN: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
/// Bytes before a compressed bundle: the magic, version, method, both lengths, a hash.
const HEADER: usize = 24;
/// Where the length of all is in them.
const LENGTH_AT: usize = 8;

/// The fat binaries of a shared library, each by architecture.
///
/// # Errors
/// It is none, or holds what is not understood.
pub fn all(library: &[u8]) -> Result<Vec<BTreeMap<String, Vec<u8>>>> {
    let file = object::File::parse(library).map_err(Error::other)?;
    let section = file.section_by_name(".hip_fatbin").ok_or_else(|| Error::other("no section .hip_fatbin"))?;
    let bytes = section.data().map_err(Error::other)?;
    let (mut at, mut bundles) = (0, Vec::new());
    while let Some(skipped) = bytes[at..].windows(COMPRESSED.len()).position(|window| window == COMPRESSED) {
        at += skipped;
        let length = number(bytes, at + LENGTH_AT, 4)?;
        let packed = bytes.get(at + HEADER..at + length).ok_or_else(|| Error::other("a bundle is cut off"))?;
        bundles.push(bundle(&zstd::decode_all(packed)?)?);
        at += length;
    }
    Ok(bundles)
}

/// A bundle: a count, for each entry where it is, its length and its name; then the entries.
fn bundle(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    if !bytes.starts_with(PLAIN) {
        return Err(Error::other("a bundle of another kind"));
    }
    let count = number(bytes, PLAIN.len(), 8)?;
    let mut at = PLAIN.len() + 8;
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let [start, length, name] = [0, 8, 16].map(|field| number(bytes, at + field, 8));
        let (start, length, name) = (start?, length?, name?);
        at += HEADER;
        let [name, code] = [at..at + name, start..start + length].map(|place| bytes.get(place));
        let cut = || Error::other("a bundle is cut off");
        let (name, code) = (name.ok_or_else(cut)?, code.ok_or_else(cut)?);
        at += name.len();
        // The target's triple, then the architecture.
        let arch = String::from_utf8_lossy(name).rsplit("--").next().unwrap_or_default().to_owned();
        entries.insert(arch, code.to_vec());
    }
    Ok(entries)
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Result<usize> {
    let part = bytes.get(at..at + width).ok_or_else(|| Error::other("a bundle is cut off"))?;
    Ok(part.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}
