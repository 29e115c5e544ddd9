//! What a name expression (`scale<float>`, `&ns::table`) is called in the code object.
//!
//! A variable that holds the expression's address is compiled along; in the code object its relocation, or its value,
//! leads to the symbol with that address.

use object::elf::{SHT_DYNSYM, SHT_SYMTAB};
use object::endian::LittleEndian;
use object::read::elf::{ElfFile64, SectionHeader as _, Sym as _};

/// Relocations that a linked code object may have for an address, from LLVM's AMDGPU usage guide.
const ABS64: u32 = 3;
const RELATIVE64: u32 = 13;
/// Kernel descriptors end so; their kernels have the name without it.
const DESCRIPTOR: &str = ".kd";

fn variable(index: usize) -> String {
    format!("__rocfire_name_{index}")
}

/// The text that makes the variable.
pub fn declaration(index: usize, expression: &str) -> String {
    let name = variable(index);
    format!("extern \"C\" {{ __attribute__((device, used)) auto {name} = {expression}; }}")
}

struct Symbol {
    name: String,
    address: u64,
    defined: bool,
}

/// The name of the symbol that an expression stands for.
pub fn lowered(code: &[u8], index: usize) -> Option<String> {
    let elf = ElfFile64::<LittleEndian>::parse(code).ok()?;
    let (dynamic, full) = (symbols(&elf, SHT_DYNSYM), symbols(&elf, SHT_SYMTAB));
    let wanted = variable(index);
    let place = dynamic.iter().chain(&full).find(|symbol| symbol.name == wanted && symbol.defined)?.address;
    let address = relocated(&elf, place, &dynamic)?;
    let fits = |symbol: &&Symbol| {
        symbol.defined && symbol.address == address && !symbol.name.is_empty() && !symbol.name.ends_with(DESCRIPTOR)
    };
    dynamic.iter().chain(&full).find(fits).map(|symbol| symbol.name.clone())
}

/// The address that the linker or the loader puts at a place.
fn relocated(elf: &ElfFile64<'_, LittleEndian>, place: u64, dynamic: &[Symbol]) -> Option<u64> {
    let sections = elf.elf_section_table();
    let tables = sections.iter().filter_map(|section| section.rela(LittleEndian, elf.data()).ok().flatten());
    let mut relocations = tables.flat_map(|(relocations, _)| relocations);
    let relocation = relocations.find(|each| each.r_offset.get(LittleEndian) == place)?;
    let addend = relocation.r_addend.get(LittleEndian) as u64;
    match relocation.r_type(LittleEndian, false) {
        RELATIVE64 => Some(addend),
        ABS64 => {
            let symbol = dynamic.get(relocation.r_sym(LittleEndian, false) as usize)?;
            Some(symbol.address.wrapping_add(addend))
        }
        _ => None,
    }
}

fn symbols(elf: &ElfFile64<'_, LittleEndian>, kind: u32) -> Vec<Symbol> {
    let Ok(table) = elf.elf_section_table().symbols(LittleEndian, elf.data(), kind) else { return Vec::new() };
    let symbol = |symbol| {
        let name = table.symbol_name(LittleEndian, symbol).unwrap_or_default();
        Symbol {
            name: String::from_utf8_lossy(name).into_owned(),
            address: symbol.st_value(LittleEndian),
            defined: !symbol.is_undefined(LittleEndian),
        }
    };
    table.iter().map(symbol).collect()
}
