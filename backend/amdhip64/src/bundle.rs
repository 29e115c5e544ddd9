//! Images: what a program passes as code, of which it does not say the length.
//!
//! An image is an ELF file, clang's offload bundle with one ELF file per target, or such a bundle compressed. Source:
//! clang's documentation, "Offload Bundler" (`__CLANG_OFFLOAD_BUNDLE__`, and `CCOB` versions 2 and 3).

use rocfire_arch::{Feature, Target};

use crate::call::{Failure, Result};
use crate::status::Status;

const ELF: &[u8] = b"\x7fELF";
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
/// No image is larger; a damaged length must not ask for all memory.
const MOST_BYTES: u64 = 2 << 30;
/// More targets than there are.
const MOST_ENTRIES: u64 = 1024;
/// The number of the compression in a compressed bundle's header: zlib is 0.
const ZSTD: u16 = 1;

fn bad(reason: impl Into<String>) -> Failure {
    Failure::new(Status::INVALID_IMAGE, reason)
}

/// Where the bytes come from: a slice, or memory whose length is only known from what it holds.
trait Source {
    /// Bytes from an offset.
    fn bytes(&self, offset: u64, count: u64) -> Result<&[u8]>;

    fn number(&self, offset: u64, bytes: u64) -> Result<u64> {
        let mut number = [0; 8];
        number[..bytes as usize].copy_from_slice(self.bytes(offset, bytes)?);
        Ok(u64::from_le_bytes(number))
    }

    fn begins_with(&self, magic: &[u8]) -> Result<bool> {
        Ok(self.bytes(0, magic.len() as u64)? == magic)
    }
}

impl Source for [u8] {
    fn bytes(&self, offset: u64, count: u64) -> Result<&[u8]> {
        let end = offset.checked_add(count).filter(|&end| end <= self.len() as u64);
        end.map(|end| &self[offset as usize..end as usize]).ok_or_else(|| bad("the image ends too early"))
    }
}

/// An image in the program's memory.
struct Unmeasured(*const u8);

impl Source for Unmeasured {
    fn bytes(&self, offset: u64, count: u64) -> Result<&[u8]> {
        if offset.saturating_add(count) > MOST_BYTES {
            return Err(bad(format!("an image of more than {MOST_BYTES} bytes")));
        }
        // SAFETY: the program promises a whole image; the offsets are those that its own headers give.
        Ok(unsafe { std::slice::from_raw_parts(self.0.add(offset as usize), count as usize) })
    }
}

/// Copies an image out of the program's memory.
///
/// # Errors
/// `hipErrorInvalidImage` for what is no image.
///
/// # Safety
/// - `image` leads to a whole ELF file or offload bundle.
pub unsafe fn read_image(image: *const u8) -> Result<Vec<u8>> {
    let source = Unmeasured(image);
    let bytes = image_bytes(&source)?;
    source.bytes(0, bytes).map(<[u8]>::to_vec)
}

/// How long an image is, by its headers.
fn image_bytes(source: &impl Source) -> Result<u64> {
    if source.begins_with(ELF)? {
        elf_bytes(source)
    } else if source.begins_with(COMPRESSED)? {
        Ok(compressed_header(source)?.file_bytes)
    } else if source.begins_with(BUNDLE)? {
        let ends = entries(source)?.into_iter().map(|entry| entry.offset.saturating_add(entry.bytes));
        Ok(ends.max().unwrap_or(0))
    } else {
        Err(bad("neither an ELF file nor clang's offload bundle"))
    }
}

/// End of the last part that an ELF file's tables name. Offsets are of the 64-bit header and its tables.
fn elf_bytes(source: &(impl Source + ?Sized)) -> Result<u64> {
    let (segments, sections) = (source.number(0x20, 8)?, source.number(0x28, 8)?);
    let [segment_bytes, segment_count] = [source.number(0x36, 2)?, source.number(0x38, 2)?];
    let [section_bytes, section_count] = [source.number(0x3a, 2)?, source.number(0x3c, 2)?];
    let mut end = (segments.saturating_add(segment_bytes * segment_count)).max(0x40);
    end = end.max(sections.saturating_add(section_bytes * section_count));
    for index in 0..segment_count {
        let header = segments.saturating_add(index * segment_bytes);
        let offset = source.number(header.saturating_add(0x08), 8)?;
        end = end.max(offset.saturating_add(source.number(header.saturating_add(0x20), 8)?));
    }
    const NO_BYTES: u64 = 8;
    for index in 0..section_count {
        let header = sections.saturating_add(index * section_bytes);
        if source.number(header.saturating_add(0x04), 4)? != NO_BYTES {
            let offset = source.number(header.saturating_add(0x18), 8)?;
            end = end.max(offset.saturating_add(source.number(header.saturating_add(0x20), 8)?));
        }
    }
    Ok(end)
}

struct Entry {
    offset: u64,
    bytes: u64,
    id: String,
}

fn entries(source: &(impl Source + ?Sized)) -> Result<Vec<Entry>> {
    let mut at = BUNDLE.len() as u64;
    let count = source.number(at, 8)?;
    if count > MOST_ENTRIES {
        return Err(bad(format!("a bundle of {count} entries")));
    }
    at += 8;
    let mut entries = Vec::new();
    for _ in 0..count {
        let [offset, bytes, id_bytes] = [source.number(at, 8)?, source.number(at + 8, 8)?, source.number(at + 16, 8)?];
        let id = String::from_utf8_lossy(source.bytes(at + 24, id_bytes.min(MOST_ENTRIES))?).into_owned();
        at += 24 + id_bytes.min(MOST_ENTRIES);
        entries.push(Entry { offset, bytes, id });
    }
    Ok(entries)
}

struct Compressed {
    header_bytes: u64,
    file_bytes: u64,
    content_bytes: u64,
    method: u16,
}

fn compressed_header(source: &(impl Source + ?Sized)) -> Result<Compressed> {
    let [version, method] = [source.number(4, 2)?, source.number(6, 2)?];
    let method = method as u16;
    match version {
        2 => Ok(Compressed {
            header_bytes: 24,
            file_bytes: source.number(8, 4)?,
            content_bytes: source.number(12, 4)?,
            method,
        }),
        3 => Ok(Compressed {
            header_bytes: 32,
            file_bytes: source.number(8, 8)?,
            content_bytes: source.number(16, 8)?,
            method,
        }),
        other => Err(bad(format!("a compressed bundle of version {other}; 2 and 3 are known"))),
    }
}

/// The code object for a target out of a whole image.
///
/// # Errors
/// `hipErrorNoBinaryForGpu` with the targets there are; `hipErrorInvalidImage`.
pub fn code_object(image: &[u8], target: &Target) -> Result<Vec<u8>> {
    if image.begins_with(ELF)? {
        return Ok(image.to_vec());
    }
    if image.begins_with(COMPRESSED)? {
        let header = compressed_header(image)?;
        if header.method != ZSTD {
            return Err(bad("a bundle compressed by zlib; only zstd is known (clang: -mllvm or -offload-compression)"));
        }
        let content = image.bytes(header.header_bytes, header.file_bytes.saturating_sub(header.header_bytes))?;
        let most = usize::try_from(header.content_bytes.min(MOST_BYTES)).unwrap_or(0);
        let bundle =
            zstd::bulk::decompress(content, most).map_err(|error| bad(format!("compressed bundle: {error}")))?;
        if bundle.as_slice().begins_with(COMPRESSED)? {
            return Err(bad("a compressed bundle in a compressed bundle"));
        }
        return code_object(&bundle, target);
    }
    if !image.begins_with(BUNDLE)? {
        return Err(bad("neither an ELF file nor clang's offload bundle"));
    }
    let entries = entries(image)?;
    let ranked = entries.iter().filter_map(|entry| Some((rank(&entry.id, target)?, entry)));
    match ranked.max_by_key(|(rank, _)| *rank) {
        Some((_, entry)) => image.bytes(entry.offset, entry.bytes).map(<[u8]>::to_vec),
        None => {
            let there = entries.iter().filter_map(|entry| device_of(&entry.id)).collect::<Vec<_>>().join(", ");
            let reason = format!("the program has no code for {target}, only for: {there}");
            Err(Failure::new(Status::NO_BINARY_FOR_GPU, reason))
        }
    }
}

/// The target of an entry's id, `hipv4-amdgcn-amd-amdhsa--TARGET`; `None` for the host's.
fn device_of(id: &str) -> Option<&str> {
    let (kind, target) = id.split_once("amdgcn-amd-amdhsa-")?;
    // The environment may be left out, and the dash before it with it.
    (!kind.starts_with("host")).then(|| target.trim_start_matches('-'))
}

/// How well an entry fits, `None` if it does not: more features named are better, the generic target is worst.
fn rank(id: &str, device: &Target) -> Option<u32> {
    let name = device_of(id)?;
    let base = name.split(':').next().unwrap_or_default();
    if device.arch.info().generic_target == Some(base) {
        return Some(0);
    }
    let entry = Target::parse(name).ok().filter(|entry| entry.arch == device.arch)?;
    let fits = |entry: Feature, device: Feature| entry == Feature::Any || device == Feature::Any || entry == device;
    let named = |feature: Feature| u32::from(feature != Feature::Any);
    (fits(entry.sramecc, device.sramecc) && fits(entry.xnack, device.xnack))
        .then(|| 1 + named(entry.sramecc) + named(entry.xnack))
}

#[cfg(test)]
mod tests;
