//! What a code object says of itself: the `NT_AMDGPU_METADATA` note of its ELF file, or for NVIDIA's what `cubin.rs` reads.
//!
//! Source: LLVM's AMDGPU usage guide, "Code Object Metadata" (versions 3 to 6).

use object::LittleEndian;
use object::elf::{EM_AMDGPU, FileHeader64, SHT_NOTE};
use object::read::elf::{FileHeader, SectionHeader};
use rmpv::Value;
use rocfire_arch::{Arch, Vendor};

use super::cubin;
use crate::{Error, Result};

const NT_AMDGPU_METADATA: u32 = 32;
/// `EF_AMDGPU_MACH`: the bits of `e_flags` that name an AMD architecture.
const AMD_MACHINE: u32 = 0xff;

/// A code object with what it says of its kernels.
#[derive(Clone, Debug)]
pub struct CodeObject {
    bytes: Vec<u8>,
    kernels: Vec<KernelInfo>,
}

/// What a code object says of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// Arguments, those that the runtime adds included, bytes.
    pub kernarg_bytes: u32,
    /// Arguments that the launch gives, bytes.
    pub explicit_kernarg_bytes: u32,
    /// Vector registers of a lane.
    pub vgprs: u32,
    /// Accumulation registers of a lane, where they are apart.
    pub agprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Vector registers kept in memory for want of room.
    pub spilled_vgprs: u32,
    /// LDS that it declares, bytes.
    pub lds_bytes: u32,
    /// Private memory of a lane, bytes.
    pub scratch_bytes: u32,
    /// Threads that a workgroup may have, as it was compiled.
    pub max_workgroup_threads: u32,
    /// Lanes of a wave, as it was compiled.
    pub wave_size: u32,
    /// Whether it waits by itself until the launch ahead of it has ended, so that it may begin before (NVIDIA, from Hopper on).
    pub waits: bool,
}

impl CodeObject {
    /// Reads the metadata of a code object. `name` is for the message.
    pub(crate) fn parse(name: &str, bytes: Vec<u8>) -> Result<CodeObject> {
        let read = if machine(&bytes) == Some(cubin::MACHINE) { cubin::kernels } else { kernels };
        let kernels = read(&bytes).map_err(|reason| Error::CodeObject { name: name.to_owned(), reason })?;
        Ok(CodeObject { bytes, kernels })
    }

    /// Checks that it is for an architecture. Of NVIDIA's only the vendor is told apart: which of theirs run on which their driver
    /// says.
    ///
    /// # Errors
    /// [`Error::CodeObject`] says what it is for.
    pub(crate) fn check_arch(&self, name: &str, arch: Arch) -> Result<()> {
        let is_nvidia = machine(&self.bytes) == Some(cubin::MACHINE);
        let reason = match (is_nvidia, arch.info().vendor) {
            (true, Vendor::Nvidia) => return Ok(()),
            (true, Vendor::Amd) => format!("it is for an NVIDIA GPU, and the device is {arch}"),
            (false, _) => match arch_of(&self.bytes) {
                Ok(built) if built == arch => return Ok(()),
                Ok(built) => format!("it is for {built}, and the device is {arch}"),
                Err(reason) => reason,
            },
        };
        Err(Error::CodeObject { name: name.to_owned(), reason })
    }

    /// The ELF file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its kernels, in the metadata's order.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }
}

/// `e_machine` of an ELF file.
fn machine(bytes: &[u8]) -> Option<u16> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    Some(header.e_machine(header.endian().ok()?))
}

/// The AMD architecture that a code object was made for; else why that cannot be told.
pub(crate) fn arch_of(bytes: &[u8]) -> Result<Arch, String> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(|_| "it is no 64-bit ELF file".to_owned())?;
    let endian = header.endian().map_err(|_| "it is no ELF file in little-endian order".to_owned())?;
    if header.e_machine(endian) != EM_AMDGPU {
        return Err(format!("it is no ELF file for an AMD GPU, but for machine {}", header.e_machine(endian)));
    }
    let machine = header.e_flags(endian) & AMD_MACHINE;
    u8::try_from(machine)
        .ok()
        .and_then(Arch::from_elf_machine)
        .ok_or_else(|| format!("the architecture that it is for is not known: EF_AMDGPU_MACH is {machine:#x}"))
}

fn kernels(bytes: &[u8]) -> Result<Vec<KernelInfo>, String> {
    let notes = metadata_notes(bytes).map_err(|error| error.to_string())?;
    if notes.is_empty() {
        return Err("no AMDGPU metadata note".to_owned());
    }
    let mut all = Vec::new();
    for mut note in notes {
        let metadata = rmpv::decode::read_value(&mut note).map_err(|error| format!("metadata: {error}"))?;
        let kernels =
            get(&metadata, "amdhsa.kernels").and_then(Value::as_array).ok_or("metadata without amdhsa.kernels")?;
        for kernel in kernels {
            all.push(kernel_info(kernel).ok_or_else(|| format!("metadata of a kernel: {kernel}"))?);
        }
    }
    Ok(all)
}

/// One for each object that was linked: lld puts their notes one behind the other.
fn metadata_notes(bytes: &[u8]) -> object::Result<Vec<&[u8]>> {
    let header = FileHeader64::<LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut found = Vec::new();
    for section in sections.iter() {
        if section.sh_type(endian) != SHT_NOTE {
            continue;
        }
        let Some(mut notes) = section.notes(endian, bytes)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == b"AMDGPU" && note.n_type(endian) == NT_AMDGPU_METADATA {
                found.push(note.desc());
            }
        }
    }
    Ok(found)
}

fn kernel_info(kernel: &Value) -> Option<KernelInfo> {
    let number = |key| get(kernel, key).and_then(Value::as_u64).and_then(|value| u32::try_from(value).ok());
    let mut explicit_kernarg_bytes = 0;
    for argument in get(kernel, ".args").and_then(Value::as_array).into_iter().flatten() {
        let kind = get(argument, ".value_kind")?.as_str()?;
        if !kind.starts_with("hidden_") {
            let end = get(argument, ".offset")?.as_u64()?.checked_add(get(argument, ".size")?.as_u64()?)?;
            explicit_kernarg_bytes = explicit_kernarg_bytes.max(u32::try_from(end).ok()?);
        }
    }
    Some(KernelInfo {
        name: get(kernel, ".name")?.as_str()?.to_owned(),
        kernarg_bytes: number(".kernarg_segment_size")?,
        explicit_kernarg_bytes,
        vgprs: number(".vgpr_count")?,
        agprs: number(".agpr_count").unwrap_or(0),
        sgprs: number(".sgpr_count")?,
        spilled_vgprs: number(".vgpr_spill_count").unwrap_or(0),
        lds_bytes: number(".group_segment_fixed_size")?,
        scratch_bytes: number(".private_segment_fixed_size")?,
        max_workgroup_threads: number(".max_flat_workgroup_size")?,
        wave_size: number(".wavefront_size")?,
        waits: false,
    })
}

fn get<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
}
