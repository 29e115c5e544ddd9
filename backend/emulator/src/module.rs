//! Code objects: ELF files as the compiler links them, placed in guest memory and pre-decoded.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use object::elf::{PF_W, PF_X, PT_LOAD, PT_NOTE, SHF_COMPRESSED, SHF_EXECINSTR, STT_FUNC, STT_OBJECT};
use object::endian::LittleEndian;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use rocfire_arch::Arch;
use rocfire_isa::WaveSize;

use crate::descriptor::{DESCRIPTOR_BYTES, Descriptor};
use crate::error::Error;
use crate::memory::{Memory, Segment, Window};
use crate::metadata::{self, KernelMetadata};
use crate::model::occupancy::Resources;
use crate::program::Program;
use crate::source::LineTables;
use crate::step::Level;

/// `ELFOSABI_AMDGPU_HSA`.
pub(crate) const OS_ABI_HSA: u8 = 64;
/// `ELFABIVERSION_AMDGPU_HSA_V4` to `V6`.
const ABI_VERSIONS: std::ops::RangeInclusive<u8> = 2..=4;
/// `NT_AMDGPU_METADATA`.
pub(crate) const NT_METADATA: u32 = 32;
/// `EF_AMDGPU_MACH`.
const MACH_MASK: u32 = 0xff;
/// `R_AMDGPU_ABS64`.
const RELOCATE_ABS64: u32 = 3;
/// `R_AMDGPU_RELATIVE64`.
const RELOCATE_RELATIVE64: u32 = 13;
/// A kernel that has arguments preloaded starts with this much code that loads them itself, for firmware that does not.
const PRELOAD_PROLOGUE_BYTES: i64 = 256;
/// Vector registers that an instruction can name; accumulation registers are as many again.
const VGPRS_MAX: u32 = 256;
/// General scalar registers; no more can be set before a kernel starts.
pub(crate) const SGPRS_MAX: u16 = 102;
/// No code object of a compiler comes near; a damaged one must not allocate without bound.
pub(crate) const IMAGE_BYTES_MAX: u64 = 1 << 30;

/// A loaded code object. Its memory is freed with the last handle to it or to one of its kernels.
pub struct Module {
    pub(crate) program: Arc<Program>,
    /// The program of the instrumented loop, made when it is first needed.
    pub(crate) complete: OnceLock<Arc<Program>>,
    /// Where instructions come from, if the file says so.
    pub(crate) lines: Option<LineTables>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) image: u64,
    /// Whether the image is somebody else's, who frees it.
    pub(crate) resident: bool,
    pub(crate) kernels: BTreeMap<String, Arc<KernelInfo>>,
    pub(crate) globals: BTreeMap<String, (u64, u64)>,
}

/// What a launch needs to know of a kernel.
pub(crate) struct KernelInfo {
    pub(crate) metadata: KernelMetadata,
    pub(crate) descriptor: Descriptor,
    /// First step of the module's program.
    pub(crate) entry: usize,
    /// Guest address of the first instruction.
    pub(crate) entry_address: u64,
    /// And of the descriptor.
    pub(crate) descriptor_address: u64,
    /// Whether workgroups must run one after the other, for the same bits whatever the number of threads.
    pub(crate) ordered: bool,
}

/// A kernel of a loaded code object. Cheap to clone; keeps its module loaded.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) module: Arc<Module>,
    pub(crate) info: Arc<KernelInfo>,
}

impl Kernel {
    /// Address and bytes of a variable of the kernel's module.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.module.global(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.info.metadata.name
    }

    /// Bytes of its arguments, the hidden ones included.
    pub fn kernarg_bytes(&self) -> u32 {
        self.info.metadata.kernarg_bytes
    }

    /// Bytes of the arguments that the caller gives: up to the end of the last one.
    pub fn explicit_kernarg_bytes(&self) -> u32 {
        self.info.metadata.explicit_kernarg_bytes
    }

    /// Offset and size in bytes of each argument that the caller gives, in the order of the source.
    pub fn explicit_arguments(&self) -> &[(u32, u32)] {
        &self.info.metadata.explicit
    }

    /// Vector registers of a lane, without accumulation registers, as allocated.
    pub fn vgprs(&self) -> u32 {
        self.info.descriptor.vgprs
    }

    /// Accumulation registers of a lane, as allocated.
    pub fn agprs(&self) -> u32 {
        self.info.descriptor.agprs
    }

    /// Scalar registers of a wave.
    pub fn sgprs(&self) -> u32 {
        self.info.metadata.sgprs
    }

    /// Static LDS of a workgroup.
    pub fn lds_bytes(&self) -> u32 {
        self.info.descriptor.lds_bytes
    }

    /// Scratch of a lane.
    pub fn scratch_bytes(&self) -> u32 {
        self.info.descriptor.scratch_bytes
    }

    /// Most work-items of a workgroup that it was compiled for.
    pub fn max_workgroup_size(&self) -> u32 {
        self.info.metadata.max_workgroup_size
    }

    /// Lanes of a wave.
    pub fn wave_size(&self) -> u32 {
        self.info.metadata.wave_size
    }

    /// What it takes, in workgroups of so many waves with so much LDS, static and dynamic.
    pub fn resources(&self, waves_per_group: u32, lds_bytes: u32) -> Resources {
        Resources {
            vgprs: self.vgprs(),
            agprs: self.agprs(),
            sgprs: self.sgprs(),
            lds_bytes,
            wave_size: self.wave_size(),
            waves_per_group,
        }
    }
}

impl Module {
    /// The kernel of this name.
    pub fn kernel(self: &Arc<Module>, name: &str) -> Option<Kernel> {
        let info = self.kernels.get(name)?;
        Some(Kernel { module: self.clone(), info: info.clone() })
    }

    /// The kernel whose descriptor stands at a guest address.
    pub fn kernel_at(self: &Arc<Module>, descriptor: u64) -> Option<Kernel> {
        let info = self.kernels.values().find(|info| info.descriptor_address == descriptor)?;
        Some(Kernel { module: self.clone(), info: info.clone() })
    }

    /// The names of its kernels, sorted.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// Guest address and bytes of a global variable.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.globals.get(name).copied()
    }

    /// Loads a code object for `arch` into `memory`; it will run at `level`, which the host has.
    pub(crate) fn load(arch: Arch, level: Level, memory: &Arc<Memory>, bytes: &[u8]) -> Result<Module, Error> {
        let bad = |reason: String| Error::BadCodeObject { reason };
        let elf = ElfFile64::<LittleEndian>::parse(bytes).map_err(|error| bad(format!("not a 64-bit ELF: {error}")))?;
        check_target(&elf, arch).map_err(bad)?;
        let kernels = read_metadata(&elf, bytes).map_err(bad)?;
        let (image_bytes, segments) = read_segments(&elf).map_err(bad)?;
        let image = memory.allocate_image(image_bytes, &segments)?;
        // From here on the image is freed by `Drop` if anything fails.
        let mut module = Module {
            program: Arc::new(Program::at_level(level, arch, Vec::new(), image, &[])),
            complete: OnceLock::new(),
            lines: line_tables(&elf),
            memory: memory.clone(),
            image,
            resident: false,
            kernels: BTreeMap::new(),
            globals: BTreeMap::new(),
        };
        module.fill(&elf, bytes).map_err(bad)?;
        module.relocate(&elf).map_err(bad)?;
        let wave = wave_size(arch, &kernels).map_err(bad)?;
        module.program = Arc::new(module.decode(&elf, arch, wave, level).map_err(bad)?);
        module.globals = module.find_globals(&elf);
        for metadata in kernels {
            let info = module.kernel_info(&elf, metadata).map_err(bad)?;
            module.kernels.insert(info.metadata.name.clone(), Arc::new(info));
        }
        Ok(module)
    }

    /// The program with nothing dropped, for the instrumented loop.
    pub(crate) fn complete_program(&self) -> &Arc<Program> {
        self.complete.get_or_init(|| Arc::new(self.program.complete()))
    }

    /// Where in the source an instruction comes from, if the code object says so.
    pub(crate) fn source_of(&self, address: u64) -> Option<String> {
        self.lines.as_ref()?.find(address.checked_sub(self.image)?)
    }

    /// Copies the segments into the image.
    fn fill(&self, elf: &Elf<'_>, bytes: &[u8]) -> Result<(), String> {
        for header in elf.elf_program_headers().iter().filter(|header| header.p_type(LittleEndian) == PT_LOAD) {
            let data = header.data(LittleEndian, bytes).map_err(|()| "a segment lies outside the file".to_owned())?;
            self.write(header.p_vaddr(LittleEndian), data)?;
        }
        Ok(())
    }

    /// Writes into the image, whatever the guest may write.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), String> {
        self.window(offset, data.len() as u64)?.write(self.address(offset), data);
        Ok(())
    }

    /// Host access to bytes of the image, and to nothing else: offsets and sizes come from the file.
    fn window(&self, offset: u64, bytes: u64) -> Result<Window, String> {
        let window = self.memory.host("load", self.image, 0).map_err(|error| error.to_string())?;
        match window.host_ptr(self.address(offset), bytes) {
            Some(_) => Ok(window),
            None => Err(format!("{bytes} bytes at {offset:#x} lie outside of its segments")),
        }
    }

    /// Guest address of a place in the image; an offset past all memory wraps, and is refused where it is used.
    fn address(&self, offset: u64) -> u64 {
        self.image.wrapping_add(offset)
    }

    fn relocate(&self, elf: &Elf<'_>) -> Result<(), String> {
        let failed = |error| format!("cannot read relocations: {error}");
        let sections = elf.elf_section_table();
        let symbols = symbols(elf)?;
        for section in sections.iter() {
            let Some((relocations, _)) = section.rela(LittleEndian, elf.data()).map_err(failed)? else { continue };
            for relocation in relocations {
                let addend = relocation.r_addend.get(LittleEndian) as u64;
                let symbol = relocation.r_sym(LittleEndian, false) as usize;
                let value = match relocation.r_type(LittleEndian, false) {
                    RELOCATE_RELATIVE64 => self.address(addend),
                    RELOCATE_ABS64 => match symbols.dynamic.get(symbol) {
                        Some(symbol) if symbol.defined => self.address(symbol.address.wrapping_add(addend)),
                        Some(symbol) => return Err(format!("undefined symbol {}", symbol.name)),
                        None => return Err(format!("relocation against symbol {symbol}, which does not exist")),
                    },
                    other => return Err(format!("relocation type {other} is not known")),
                };
                self.write(relocation.r_offset.get(LittleEndian), &value.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Pre-decodes the executable sections.
    fn decode(&self, elf: &Elf<'_>, arch: Arch, wave: WaveSize, level: Level) -> Result<Program, String> {
        let (start, end) = code_range(elf).ok_or("there is no code in it")?;
        // The window first: it refuses a size that no image has, which must not be allocated.
        let address = self.address(start);
        let window = self.window(start, end - start)?;
        let mut code = vec![0; (end - start) as usize];
        window.read(address, &mut code);
        let symbols = symbols(elf)?;
        let functions = symbols.all().filter(|symbol| symbol.kind == STT_FUNC);
        let starts: Vec<u64> = functions.filter_map(|symbol| symbol.address.checked_sub(start)).collect();
        Ok(Program::for_wave(level, arch, wave, code, address, &starts))
    }

    fn find_globals(&self, elf: &Elf<'_>) -> BTreeMap<String, (u64, u64)> {
        let Ok(symbols) = symbols(elf) else { return BTreeMap::new() };
        let objects = symbols.all().filter(|symbol| symbol.defined && symbol.kind == STT_OBJECT);
        objects.map(|symbol| (symbol.name.clone(), (self.address(symbol.address), symbol.bytes))).collect()
    }

    fn kernel_info(&self, elf: &Elf<'_>, metadata: KernelMetadata) -> Result<KernelInfo, String> {
        let symbols = symbols(elf)?;
        let missing = || format!("kernel {} has no descriptor {}", metadata.name, metadata.symbol);
        let symbol = symbols.all().find(|symbol| symbol.name == metadata.symbol).ok_or_else(missing)?;
        let address = self.address(symbol.address);
        let mut bytes = [0; DESCRIPTOR_BYTES];
        self.window(symbol.address, DESCRIPTOR_BYTES as u64)?.read(address, &mut bytes);
        // A function's size tells how far its code goes; with calls, all code counts.
        let function = symbols.all().find(|symbol| symbol.kind == STT_FUNC && symbol.name == metadata.name);
        let end = function.map(|function| self.address(function.address.wrapping_add(function.bytes)));
        KernelInfo::new(&self.program, metadata, (address, bytes), end)
    }
}

impl KernelInfo {
    /// Of a kernel whose descriptor stands at a guest address, and whose code ends at another if that is known.
    pub(crate) fn new(
        program: &Program,
        metadata: KernelMetadata,
        (address, bytes): (u64, [u8; DESCRIPTOR_BYTES]),
        end: Option<u64>,
    ) -> Result<KernelInfo, String> {
        let descriptor = Descriptor::new(&bytes, program.arch.info().family, metadata.wave_size);
        let most = if descriptor.agprs > 0 { 2 * VGPRS_MAX } else { VGPRS_MAX };
        if descriptor.wanted_vgprs > most {
            let (name, wanted) = (&metadata.name, descriptor.wanted_vgprs);
            return Err(format!("kernel {name} wants {wanted} vector registers, and a wave has at most {most}"));
        }
        if descriptor.initial_sgprs() > SGPRS_MAX {
            return Err(format!("kernel {} wants {} registers set", metadata.name, descriptor.initial_sgprs()));
        }
        let prologue = if descriptor.preload.1 > 0 { PRELOAD_PROLOGUE_BYTES } else { 0 };
        let entry_address = address.wrapping_add_signed(descriptor.entry_offset_bytes.wrapping_add(prologue));
        let entry = program.step_at_address(entry_address);
        let entry = entry.ok_or_else(|| format!("kernel {} does not start at an instruction", metadata.name))?;
        let end = end.and_then(|end| program.step_at_address(end));
        let ordered = program.is_order_dependent(entry, end);
        Ok(KernelInfo { metadata, descriptor, entry, entry_address, descriptor_address: address, ordered })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.resident
            && let Err(error) = self.memory.free(self.image)
        {
            tracing::error!(%error, "a module's memory was not there to be freed");
        }
    }
}

/// From the first to the last executable section.
fn code_range(elf: &Elf<'_>) -> Option<(u64, u64)> {
    let executable = |flags: u64| flags & u64::from(SHF_EXECINSTR) != 0;
    let ranges = elf
        .elf_section_table()
        .iter()
        .filter(|section| executable(section.sh_flags(LittleEndian)) && section.sh_size(LittleEndian) > 0)
        .map(|section| {
            let start = section.sh_addr(LittleEndian);
            (start, start.saturating_add(section.sh_size(LittleEndian)))
        });
    let (start, end) = ranges.fold((u64::MAX, 0), |(start, end), (from, to)| (start.min(from), end.max(to)));
    (start < end).then_some((start, end))
}

/// Where in the source the instruction at a byte offset of the code comes from, as
/// [`Fault::code_offset_bytes`](crate::Fault::code_offset_bytes) counts: for a code object with line tables, whose code is
/// that of one without.
pub fn source_of(code_object: &[u8], code_offset_bytes: u64) -> Option<String> {
    let elf = ElfFile64::<LittleEndian>::parse(code_object).ok()?;
    let (start, _) = code_range(&elf)?;
    line_tables(&elf)?.find(start.checked_add(code_offset_bytes)?)
}

/// The debug sections that are there and not compressed.
fn line_tables(elf: &Elf<'_>) -> Option<LineTables> {
    let table = elf.elf_section_table();
    let sections = table.iter().filter_map(|section| {
        let name = table.section_name(LittleEndian, section).ok()?;
        let plain = section.sh_flags(LittleEndian) & u64::from(SHF_COMPRESSED) == 0;
        let data = section.data(LittleEndian, elf.data()).ok().filter(|_| plain)?;
        Some((String::from_utf8_lossy(name).into_owned(), data.to_vec()))
    });
    LineTables::new(sections.filter(|(name, _)| name.starts_with(".debug_")))
}

type Elf<'a> = ElfFile64<'a, LittleEndian>;

fn check_target(elf: &Elf<'_>, arch: Arch) -> Result<(), String> {
    let header = elf.elf_header();
    let ident = header.e_ident();
    if ident.os_abi != OS_ABI_HSA || !ABI_VERSIONS.contains(&ident.abi_version) {
        return Err(format!("its ABI is {} version {}, not AMD's HSA version 4 to 6", ident.os_abi, ident.abi_version));
    }
    let flags = header.e_flags(LittleEndian);
    match Arch::from_elf_machine((flags & MACH_MASK) as u8) {
        Some(built) if built == arch => Ok(()),
        Some(built) => Err(format!("it was compiled for {built}, and the device is {arch}")),
        None => Err(format!("its machine number {:#x} is not known", flags & MACH_MASK)),
    }
}

/// The size of the waves that all kernels are for: it decides how code is decoded.
fn wave_size(arch: Arch, kernels: &[KernelMetadata]) -> Result<WaveSize, String> {
    let Some(first) = kernels.first() else { return Ok(WaveSize::usual(arch)) };
    if let Some(other) = kernels.iter().find(|kernel| kernel.wave_size != first.wave_size) {
        let (name, size) = (&first.name, first.wave_size);
        return Err(format!("{name} is for waves of {size} lanes, {} for {}", other.name, other.wave_size));
    }
    match first.wave_size {
        64 => Ok(WaveSize::Wave64),
        32 if WaveSize::usual(arch) == WaveSize::Wave32 => Ok(WaveSize::Wave32),
        other => Err(format!("{} is for waves of {other} lanes, which {arch} does not have", first.name)),
    }
}

/// The kernels of all objects that were linked: lld puts their notes one behind the other.
fn read_metadata(elf: &Elf<'_>, bytes: &[u8]) -> Result<Vec<KernelMetadata>, String> {
    let mut kernels: Option<Vec<KernelMetadata>> = None;
    for header in elf.elf_program_headers().iter().filter(|header| header.p_type(LittleEndian) == PT_NOTE) {
        let notes = header.notes(LittleEndian, bytes).map_err(|error| format!("cannot read notes: {error}"))?;
        let Some(mut notes) = notes else { continue };
        while let Some(note) = notes.next().map_err(|error| format!("cannot read notes: {error}"))? {
            if note.name() == b"AMDGPU" && note.n_type(LittleEndian) == NT_METADATA {
                kernels.get_or_insert_default().extend(metadata::parse(note.desc())?);
            }
        }
    }
    kernels.ok_or_else(|| "there is no metadata in it".to_owned())
}

/// Size of the image, and its segments by offset.
fn read_segments(elf: &Elf<'_>) -> Result<(u64, Vec<Segment>), String> {
    let mut segments = Vec::new();
    for header in elf.elf_program_headers().iter().filter(|header| header.p_type(LittleEndian) == PT_LOAD) {
        let (start, bytes) = (header.p_vaddr(LittleEndian), header.p_memsz(LittleEndian));
        let end = start.checked_add(bytes).filter(|&end| end <= IMAGE_BYTES_MAX);
        let end = end.ok_or_else(|| format!("a segment of {bytes} bytes at {start:#x} is too large"))?;
        let flags = header.p_flags(LittleEndian);
        segments.push(Segment { start, end, writable: flags & PF_W != 0 && flags & PF_X == 0 });
    }
    let bytes = segments.iter().map(|segment| segment.end).max().ok_or("there are no segments in it")?;
    Ok((bytes, segments))
}

/// One row of a symbol table.
struct Symbol {
    name: String,
    address: u64,
    bytes: u64,
    kind: u8,
    defined: bool,
}

struct Symbols {
    /// By number, as relocations name them.
    dynamic: Vec<Symbol>,
    /// Those of `.symtab`, which a stripped file does not have.
    full: Vec<Symbol>,
}

impl Symbols {
    fn all(&self) -> impl Iterator<Item = &Symbol> {
        self.full.iter().chain(&self.dynamic)
    }
}

fn symbols(elf: &Elf<'_>) -> Result<Symbols, String> {
    let read = |kind: u32| -> Result<Vec<Symbol>, String> {
        let failed = |error| format!("cannot read symbols: {error}");
        let table = elf.elf_section_table().symbols(LittleEndian, elf.data(), kind).map_err(failed)?;
        let name =
            |symbol| table.symbol_name(LittleEndian, symbol).map(|name| String::from_utf8_lossy(name).into_owned());
        let symbols = table.iter().map(|symbol| {
            Ok(Symbol {
                name: name(symbol)?,
                address: symbol.st_value(LittleEndian),
                bytes: symbol.st_size(LittleEndian),
                kind: symbol.st_type(),
                defined: !symbol.is_undefined(LittleEndian),
            })
        });
        symbols.collect::<Result<Vec<_>, object::Error>>().map_err(failed)
    };
    Ok(Symbols { dynamic: read(object::elf::SHT_DYNSYM)?, full: read(object::elf::SHT_SYMTAB)? })
}
