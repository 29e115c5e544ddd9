//! Code that somebody else has put into the device's memory: AMD's own loader, behind a driver of one's own.
//!
//! All that a dispatch names is the address of a kernel's descriptor. An image that a loader has placed begins with its ELF
//! header, at a page's start below the descriptor, and holds its program headers, notes and dynamic symbols: they say where
//! the code is and describe its kernels, as the file does to [`Module::load`]. A bare kernel, such as the copy kernels that
//! AMD's runtime brings as bytes, is a descriptor with code behind it, and says nothing more.
//!
//! It does not relocate, and it does not free: both are the loader's.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, EM_AMDGPU, PF_X, PT_DYNAMIC, PT_LOAD, PT_NOTE, STT_FUNC,
};
use rocfire_arch::Arch;
use rocfire_isa::WaveSize;

use crate::descriptor::{DESCRIPTOR_BYTES, Descriptor};
use crate::error::Error;
use crate::memory::Memory;
use crate::metadata::{self, KernelMetadata};
use crate::module::{IMAGE_BYTES_MAX, KernelInfo, Module, NT_METADATA, OS_ABI_HSA, SGPRS_MAX};
use crate::program::Program;
use crate::step::Level;

/// Loaders place images at multiples of it.
const PAGE_BYTES: u64 = 4096;
/// Of an ELF file's header, a program header, a row of the dynamic table, a symbol.
const HEADER_BYTES: u64 = 64;
/// See there.
const PROGRAM_HEADER_BYTES: usize = 56;
/// See there.
const DYNAMIC_BYTES: usize = 16;
/// See there.
const SYMBOL_BYTES: usize = 24;
/// Work-items of a workgroup, where nothing says what a kernel was compiled for.
const BLOCK_MAX: u32 = 1024;
/// `ENABLE_WAVEFRONT_SIZE32`, a bit of a descriptor's properties, which are at this byte.
const WAVE32: (usize, u8) = (57, 1 << 2);

impl Module {
    /// The image around the descriptor at a guest address, or the bare kernel there.
    pub(crate) fn resident(arch: Arch, level: Level, memory: &Arc<Memory>, descriptor: u64) -> Result<Module, Error> {
        let bad = |reason: String| Error::BadCodeObject { reason };
        let bytes = read(memory, descriptor, DESCRIPTOR_BYTES as u64)?;
        let wave = wave_of(arch, &bytes);
        let image = Image::around(memory, descriptor);
        let (code_start, code_end) = match &image {
            Some(image) => image.code().ok_or_else(|| bad("there is no code in it".to_owned()))?,
            None => bare_code(arch, memory, descriptor, &bytes)?,
        };
        let code = read(memory, code_start, code_end - code_start)?;
        let symbols = image.as_ref().map(Image::symbols).unwrap_or_default();
        let functions = symbols.iter().filter(|symbol| symbol.kind == STT_FUNC);
        let starts: Vec<u64> = functions.filter_map(|symbol| symbol.address.checked_sub(code_start)).collect();
        let program = Arc::new(Program::for_wave(level, arch, wave, code, code_start, &starts));
        let mut kernels = BTreeMap::new();
        for metadata in image.as_ref().map(Image::kernels).transpose().map_err(bad)?.unwrap_or_default() {
            let of = |name: &str| symbols.iter().find(|symbol| symbol.name == name);
            let Some(symbol) = of(&metadata.symbol) else { continue };
            let bytes = read(memory, symbol.address, DESCRIPTOR_BYTES as u64)?;
            // Code is decoded for waves of one size.
            if wave_of(arch, &bytes) != wave {
                continue;
            }
            let end = of(&metadata.name).map(|function| function.address.wrapping_add(function.bytes));
            let info = KernelInfo::new(&program, metadata, (symbol.address, array(&bytes)), end).map_err(bad)?;
            kernels.insert(info.metadata.name.clone(), Arc::new(info));
        }
        if kernels.values().all(|info| info.descriptor_address != descriptor) {
            let metadata = undescribed(descriptor, wave);
            let info = KernelInfo::new(&program, metadata, (descriptor, array(&bytes)), None).map_err(bad)?;
            kernels.insert(info.metadata.name.clone(), Arc::new(info));
        }
        Ok(Module {
            program,
            complete: OnceLock::new(),
            lines: None,
            memory: memory.clone(),
            image: image.as_ref().map_or(descriptor, |image| image.base),
            resident: true,
            kernels,
            globals: BTreeMap::new(),
        })
    }

    /// Whether the code that it was made of still stands where it stood: a loader may have put other code there.
    pub fn is_current(&self) -> bool {
        let program = &self.program;
        read(&self.memory, program.address, program.bytes.len() as u64).is_ok_and(|bytes| bytes == program.bytes)
    }
}

fn array(bytes: &[u8]) -> [u8; DESCRIPTOR_BYTES] {
    bytes.try_into().expect("as many bytes were read")
}

fn read(memory: &Memory, address: u64, bytes: u64) -> Result<Vec<u8>, Error> {
    let window = memory.host("read of code", address, bytes)?;
    let mut out = vec![0; bytes as usize];
    window.read(address, &mut out);
    Ok(out)
}

/// The waves that a descriptor asks for.
fn wave_of(arch: Arch, descriptor: &[u8]) -> WaveSize {
    let (at, bit) = WAVE32;
    match arch.info().family.is_rdna() && descriptor[at] & bit != 0 {
        true => WaveSize::Wave32,
        false => WaveSize::Wave64,
    }
}

/// Of a kernel that nothing describes.
fn undescribed(descriptor: u64, wave: WaveSize) -> KernelMetadata {
    KernelMetadata {
        name: format!("the kernel at {descriptor:#x}"),
        max_workgroup_size: BLOCK_MAX,
        wave_size: match wave {
            WaveSize::Wave32 => 32,
            WaveSize::Wave64 => 64,
        },
        sgprs: u32::from(SGPRS_MAX),
        ..KernelMetadata::default()
    }
}

/// Where a bare kernel's code is: from its entry to the end of the memory that it is in.
fn bare_code(arch: Arch, memory: &Memory, descriptor: u64, bytes: &[u8]) -> Result<(u64, u64), Error> {
    let bad = |reason: String| Error::BadCodeObject { reason };
    let entry_bytes = Descriptor::new(&array(bytes), arch.info().family, arch.info().wave_size).entry_offset_bytes;
    let entry = descriptor.wrapping_add_signed(entry_bytes);
    let end = memory.allocation(entry).map(|(start, bytes)| start + bytes);
    let end = end.filter(|&end| entry.is_multiple_of(4) && end - entry <= IMAGE_BYTES_MAX);
    Ok((entry, end.ok_or_else(|| bad(format!("the kernel at {descriptor:#x} starts where no code is")))?))
}

/// A number of so many bytes, little-endian; zero past the end.
fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    if let Some(found) = at.checked_add(BYTES).and_then(|end| bytes.get(at..end)) {
        out[..BYTES].copy_from_slice(found);
    }
    u64::from_le_bytes(out)
}

/// A program header: what is needed of it.
struct Segment {
    kind: u32,
    flags: u32,
    /// From the image's base.
    start: u64,
    bytes: u64,
}

/// A symbol, with its guest address.
struct Symbol {
    name: String,
    address: u64,
    bytes: u64,
    kind: u8,
}

/// A code object as it stands in memory.
struct Image {
    base: u64,
    segments: Vec<Segment>,
    bytes: Vec<u8>,
}

impl Image {
    /// The image that has a descriptor among its symbols; the nearest below, as older ones may have left their header.
    fn around(memory: &Memory, descriptor: u64) -> Option<Image> {
        let (start, bytes) = memory.allocation(descriptor)?;
        let mut base = descriptor & !(PAGE_BYTES - 1);
        while base >= start {
            let found = Image::at(memory, base, start + bytes);
            if let Some(image) = found
                && image.symbols().iter().any(|symbol| symbol.address == descriptor)
            {
                return Some(image);
            }
            base = base.checked_sub(PAGE_BYTES)?;
        }
        None
    }

    /// The image with its header here, in memory that ends there.
    fn at(memory: &Memory, base: u64, end: u64) -> Option<Image> {
        let header = read(memory, base, HEADER_BYTES.min(end - base)).ok()?;
        let is_elf = header.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1, 1, OS_ABI_HSA]);
        if !is_elf || number::<2>(&header, 18) != u64::from(EM_AMDGPU) {
            return None;
        }
        let (first, count) = (number::<8>(&header, 32), number::<2>(&header, 56));
        let table = read(memory, base.checked_add(first)?, count * PROGRAM_HEADER_BYTES as u64).ok()?;
        let segments: Vec<Segment> = table
            .chunks_exact(PROGRAM_HEADER_BYTES)
            .map(|row| Segment {
                kind: number::<4>(row, 0) as u32,
                flags: number::<4>(row, 4) as u32,
                start: number::<8>(row, 16),
                bytes: number::<8>(row, 40),
            })
            .collect();
        let ends = segments.iter().filter(|segment| segment.kind == PT_LOAD).map(|s| s.start.checked_add(s.bytes));
        let bytes = ends.max()?.filter(|&bytes| bytes <= (end - base).min(IMAGE_BYTES_MAX))?;
        Some(Image { base, segments, bytes: read(memory, base, bytes).ok()? })
    }

    /// From where to where the code goes, guest addresses.
    fn code(&self) -> Option<(u64, u64)> {
        let code = self.segments.iter().find(|segment| segment.kind == PT_LOAD && segment.flags & PF_X != 0)?;
        (code.start.is_multiple_of(4) && code.bytes > 0)
            .then(|| (self.base + code.start, self.base + code.start + code.bytes))
    }

    fn slice(&self, segment: &Segment) -> &[u8] {
        let end = segment.start.saturating_add(segment.bytes).min(self.bytes.len() as u64) as usize;
        self.bytes.get(segment.start as usize..end).unwrap_or_default()
    }

    /// The kernels that its notes describe.
    fn kernels(&self) -> Result<Vec<KernelMetadata>, String> {
        let mut kernels = Vec::new();
        for segment in self.segments.iter().filter(|segment| segment.kind == PT_NOTE) {
            let mut notes = self.slice(segment);
            while notes.len() >= 12 {
                let [name, text, kind] = [0, 4, 8].map(|at| number::<4>(notes, at) as usize);
                let from = 12 + name.next_multiple_of(4);
                let is_ours = notes.get(12..).is_some_and(|rest| rest.starts_with(b"AMDGPU\0"));
                let Some(note) = notes.get(from..from + text) else { break };
                if is_ours && kind == NT_METADATA as usize {
                    kernels.extend(metadata::parse(note)?);
                }
                notes = notes.get(from + text.next_multiple_of(4)..).unwrap_or_default();
            }
        }
        Ok(kernels)
    }

    /// An entry of the dynamic table.
    fn dynamic(&self, tag: u32) -> Option<usize> {
        let table = self.segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
        let mut rows = self.slice(table).chunks_exact(DYNAMIC_BYTES);
        let row = rows.find(|row| number::<8>(row, 0) == u64::from(tag))?;
        // What is said to be past the end is nowhere, and no sum of it wraps.
        usize::try_from(number::<8>(row, 8)).ok().filter(|&value| value <= self.bytes.len())
    }

    /// How many dynamic symbols there are: the hash tables say it.
    fn symbol_count(&self) -> usize {
        if let Some(hash) = self.dynamic(DT_HASH) {
            return number::<4>(&self.bytes, hash + 4) as usize;
        }
        let Some(hash) = self.dynamic(DT_GNU_HASH) else { return 0 };
        let word = |at: usize| number::<4>(&self.bytes, at) as usize;
        let (buckets, first, bloom) = (word(hash), word(hash + 4), word(hash + 8));
        let table = hash + 16 + 8 * bloom;
        let chains = table + 4 * buckets;
        let last = (0..buckets).map(|bucket| word(table + 4 * bucket)).max().unwrap_or(0);
        if last < first {
            return first;
        }
        // The last chain ends where the lowest bit is set; past the end of the image nothing is.
        let room = self.bytes.len() / 4;
        (last..last + room).find(|symbol| word(chains + 4 * (symbol - first)) & 1 != 0).map_or(0, |symbol| symbol + 1)
    }

    fn symbols(&self) -> Vec<Symbol> {
        let (Some(table), Some(names)) = (self.dynamic(DT_SYMTAB), self.dynamic(DT_STRTAB)) else { return Vec::new() };
        let names = self.bytes.get(names..).unwrap_or_default();
        let names = &names[..names.len().min(self.dynamic(DT_STRSZ).unwrap_or(0))];
        let rows = self.bytes.get(table..).unwrap_or_default().chunks_exact(SYMBOL_BYTES).take(self.symbol_count());
        let symbol = |row: &[u8]| {
            let name = names.get(number::<4>(row, 0) as usize..).unwrap_or_default();
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                address: self.base.wrapping_add(number::<8>(row, 8)),
                bytes: number::<8>(row, 16),
                kind: row[4] & 15,
            }
        };
        rows.map(symbol).collect()
    }
}
