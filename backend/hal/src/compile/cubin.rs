//! What a cubin says of its kernels: NVIDIA's ELF file, which NVRTC makes.
//!
//! Source: the layout that NVIDIA's `cuobjdump -elf` prints. A kernel is a section `.text.NAME`; `.nv.info.NAME` and `.nv.info`
//! are lists of attributes, each a format byte, a number and two bytes that are the value or the length of one;
//! `.nv.shared.NAME` has the length of its shared memory.

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader, Sym};

use super::KernelInfo;

/// `e_machine` of a cubin.
pub(super) const MACHINE: u16 = 190;

const WARP_SIZE: u32 = 32;
/// Most threads of a workgroup where the kernel sets no bound of its own.
const MAX_THREADS: u32 = 1024;

/// `EIFMT_SVAL`: the value follows, its length is in the entry.
const FORMAT_SIZED: u8 = 4;
/// `EIATTR_MAX_THREADS`: three words.
const MAX_THREADS_ATTRIBUTE: u8 = 0x05;
/// `EIATTR_FRAME_SIZE`: symbol and bytes of private memory.
const FRAME_SIZE: u8 = 0x11;
/// `EIATTR_CBANK_PARAM_SIZE`: bytes of arguments, in the entry itself.
const PARAMETER_BYTES: u8 = 0x19;
/// `EIATTR_REGCOUNT`: symbol and registers of a lane.
const REGISTERS: u8 = 0x2f;

/// Bytes of an instruction, from Volta on; its lowest twelve bits say which it is.
const INSTRUCTION_BYTES: usize = 16;
const OPCODE_MASK: u16 = 0xfff;
/// `ACQBULK`, what `griddepcontrol.wait` becomes. Source: what `nvdisasm` prints beside its encoding, sm_90, CUDA 13.
const WAIT_OPCODE: u16 = 0x82e;

/// Whether a kernel's instructions wait for the launch ahead.
fn waits(code: &[u8]) -> bool {
    let opcode = |instruction: &[u8]| u16::from_le_bytes([instruction[0], instruction[1]]) & OPCODE_MASK;
    code.chunks_exact(INSTRUCTION_BYTES).any(|instruction| opcode(instruction) == WAIT_OPCODE)
}

/// One attribute.
struct Attribute<'a> {
    number: u8,
    /// The entry's own two bytes.
    short: u16,
    value: &'a [u8],
}

/// The attributes of a section; ends at the first that is cut short.
fn attributes(mut data: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    std::iter::from_fn(move || {
        let (head, rest) = data.split_first_chunk::<4>()?;
        let short = u16::from_le_bytes([head[2], head[3]]);
        let bytes = if head[0] == FORMAT_SIZED { usize::from(short) } else { 0 };
        let (value, rest) = rest.split_at_checked(bytes)?;
        data = rest;
        Some(Attribute { number: head[1], short, value })
    })
}

fn word(value: &[u8], index: usize) -> Option<u32> {
    let bytes = value.get(4 * index..4 * index + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().expect("the slice has four bytes")))
}

/// The kernels of a cubin, in the file's order.
pub(super) fn kernels(bytes: &[u8]) -> Result<Vec<KernelInfo>, String> {
    let text = |error: object::Error| error.to_string();
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    let sections = header.sections(endian, bytes).map_err(text)?;
    let symbols = sections.symbols(endian, bytes, object::elf::SHT_SYMTAB).map_err(text)?;
    let name_of = |symbol: u32| -> Option<&str> {
        let symbol = symbols.symbol(object::SymbolIndex(symbol as usize)).ok()?;
        std::str::from_utf8(symbol.name(endian, symbols.strings()).ok()?).ok()
    };
    let mut kernels: Vec<KernelInfo> = Vec::new();
    let mut shared: Vec<(&str, u32)> = Vec::new();
    let mut of_all: Vec<Attribute<'_>> = Vec::new();
    let mut waiting: Vec<&str> = Vec::new();
    for section in sections.iter() {
        let name = sections.section_name(endian, section).map_err(text)?;
        let name = std::str::from_utf8(name).map_err(|_| "the name of a section is no text".to_owned())?;
        if name == ".nv.info" {
            of_all.extend(attributes(section.data(endian, bytes).map_err(text)?));
        } else if let Some(kernel) = name.strip_prefix(".nv.info.") {
            let mut info = KernelInfo {
                name: kernel.to_owned(),
                wave_size: WARP_SIZE,
                max_workgroup_threads: MAX_THREADS,
                ..KernelInfo::default()
            };
            for attribute in attributes(section.data(endian, bytes).map_err(text)?) {
                match attribute.number {
                    PARAMETER_BYTES => {
                        info.kernarg_bytes = u32::from(attribute.short);
                        info.explicit_kernarg_bytes = info.kernarg_bytes;
                    }
                    MAX_THREADS_ATTRIBUTE => {
                        let extents = (0..3).map(|axis| word(attribute.value, axis));
                        let threads = extents.flatten().product();
                        info.max_workgroup_threads = threads;
                    }
                    _ => {}
                }
            }
            kernels.push(info);
        } else if let Some(kernel) = name.strip_prefix(".nv.shared.") {
            let bytes = u32::try_from(section.sh_size(endian)).map_err(|_| format!("{name} is too long"))?;
            shared.push((kernel, bytes));
        } else if let Some(kernel) = name.strip_prefix(".text.")
            && waits(section.data(endian, bytes).map_err(text)?)
        {
            waiting.push(kernel);
        }
    }
    for (kernel, bytes) in shared {
        // `.nv.shared.reserved.0` belongs to the system, not to a kernel.
        if let Some(info) = kernels.iter_mut().find(|info| info.name == kernel) {
            info.lds_bytes = bytes;
        }
    }
    for info in &mut kernels {
        info.waits = waiting.contains(&info.name.as_str());
    }
    for attribute in of_all {
        let Some((name, value)) = word(attribute.value, 0).and_then(name_of).zip(word(attribute.value, 1)) else {
            continue;
        };
        let Some(info) = kernels.iter_mut().find(|info| info.name == name) else { continue };
        match attribute.number {
            REGISTERS => info.vgprs = value,
            FRAME_SIZE => info.scratch_bytes = value,
            _ => {}
        }
    }
    if kernels.is_empty() { Err("a cubin without kernels".to_owned()) } else { Ok(kernels) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_end_where_they_are_cut_short() {
        let list = [
            3,
            PARAMETER_BYTES,
            24,
            0,
            4,
            MAX_THREADS_ATTRIBUTE,
            12,
            0,
            64,
            0,
            0,
            0,
            2,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            4,
            9,
            8,
            0,
            1,
        ];
        let read: Vec<_> = attributes(&list).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].number, read[0].short, read[0].value.len()), (PARAMETER_BYTES, 24, 0));
        assert_eq!((word(read[1].value, 0), word(read[1].value, 1), word(read[1].value, 3)), (Some(64), Some(2), None));
    }

    #[test]
    fn a_wait_is_found_among_instructions_and_only_at_their_beginning() {
        let mut code = [0_u8; 64];
        assert!(!waits(&code));
        code[17] = 0x78;
        code[18] = 0x2e;
        code[19] = 0x78;
        assert!(!waits(&code));
        code[32] = 0x2e;
        code[33] = 0x78;
        assert!(waits(&code) && !waits(&code[..40]));
    }

    #[test]
    fn what_is_no_cubin_is_an_error() {
        for bytes in [&b""[..], b"\x7fELF", &[0x7f; 200]] {
            assert!(kernels(bytes).is_err());
        }
    }
}
