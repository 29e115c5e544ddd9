//! What the driver says of the machine in files: a processor and a card, and the link between them.
//!
//! Names and meaning of the lines are those of the kernel's `kfd_topology.c`. What a card's clocks and caches are is nominal,
//! as it is where the emulator is behind HIP's own interface.

use std::io;
use std::path::Path;

use rocfire_arch::Arch;

use crate::card::GPU_ID;

/// The render node's number, the first that there is.
pub const RENDER_MINOR: u32 = 128;
/// AMD's number as a vendor.
const VENDOR: u32 = 0x1002;
/// A number that no card has: the runtime goes by the version of the instruction set.
const DEVICE: u32 = 0xffff;
/// Of `HSA_CAPABILITY`: doorbells that take an index, ECC of the card's SRAM.
const DOORBELL_TYPE_2: u32 = 2 << 12;
/// See there.
const SRAM_EDC: u32 = 1 << 26;
/// `HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE`: memory that the host does not reach.
const HEAP_PRIVATE: u32 = 2;
/// `HSA_IOLINKTYPE_PCIEXPRESS`, and what such a link weighs.
const LINK_PCIE: u32 = 2;
/// See there.
const LINK_WEIGHT: u32 = 20;
/// Compute units, where no card is known.
const COMPUTE_UNITS: u32 = 64;
/// Nominal: MHz of the card and of its memory, bits of the memory's bus.
const CLOCK_MHZ: u32 = 2100;
/// See there.
const MEMORY_CLOCK_MHZ: u32 = 1300;
/// See there.
const MEMORY_BUS_BITS: u32 = 8192;
/// A level-1 cache, KiB, and the one behind it where no card is known.
const L1_KIB: u32 = 16;
/// See there.
const L2_KIB: u32 = 4096;
/// `HSA_CACHETYPE`: data of the processor, data of a card's SIMDs.
const CACHE_CPU: u32 = 1 | 4;
/// See there.
const CACHE_SIMD: u32 = 1 | 8;

/// The version of an architecture's instruction set: of the name's last two digits, which are hexadecimal, and those before.
pub fn version(arch: Arch) -> [u32; 3] {
    let digits = arch.name().trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let (major, rest) = digits.split_at(digits.len().saturating_sub(2));
    let mut rest = rest.chars().map(|digit| digit.to_digit(16).unwrap_or(0));
    [major.parse().unwrap_or(0), rest.next().unwrap_or(0), rest.next().unwrap_or(0)]
}

/// Lines of a name and a number.
fn lines(rows: &[(&str, u64)]) -> String {
    rows.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}

/// All files, by path below the topology's folder, with their text.
pub fn files(arch: Arch, vram_bytes: u64, processors: u32, host_bytes: u64) -> Vec<(String, String)> {
    let one = |text: u32| format!("{text}\n");
    let system = lines(&[("platform_oem", 0), ("platform_id", 0), ("platform_rev", 0)]);
    let link = lines(&[
        ("type", LINK_PCIE.into()),
        ("version_major", 0),
        ("version_minor", 0),
        ("node_from", 1),
        ("node_to", 0),
        ("weight", LINK_WEIGHT.into()),
        ("min_latency", 0),
        ("max_latency", 0),
        ("min_bandwidth", 0),
        ("max_bandwidth", 0),
        ("recommended_transfer_size", 0),
        ("flags", 1),
    ]);
    let bank = |kind: u32, bytes: u64, width: u32, clock: u32| {
        lines(&[
            ("heap_type", kind.into()),
            ("size_in_bytes", bytes),
            ("flags", 0),
            ("width", width.into()),
            ("mem_clk_max", clock.into()),
        ])
    };
    let card_l2 = arch.info().card.map_or(L2_KIB, |card| (card.l2_bytes >> 10) as u32);
    let files = [
        ("generation_id", one(1)),
        ("system_properties", system),
        ("nodes/0/gpu_id", one(0)),
        ("nodes/0/name", "\n".to_owned()),
        ("nodes/0/properties", processor(processors)),
        ("nodes/0/mem_banks/0/properties", bank(0, host_bytes, 64, MEMORY_CLOCK_MHZ)),
        ("nodes/0/caches/0/properties", cache(0, 1, 32, CACHE_CPU)),
        ("nodes/1/gpu_id", one(GPU_ID)),
        ("nodes/1/name", format!("emulated {arch}\n")),
        ("nodes/1/properties", card(arch, vram_bytes)),
        ("nodes/1/mem_banks/0/properties", bank(HEAP_PRIVATE, vram_bytes, MEMORY_BUS_BITS, MEMORY_CLOCK_MHZ)),
        ("nodes/1/caches/0/properties", cache(SIMD_BASE, 1, L1_KIB, CACHE_SIMD)),
        ("nodes/1/caches/1/properties", cache(SIMD_BASE, 2, card_l2, CACHE_SIMD)),
        ("nodes/1/io_links/0/properties", link),
    ];
    files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
}

/// The first of a card's SIMDs, by which its caches are named.
const SIMD_BASE: u32 = 0x8000_0000;

fn cache(processor: u32, level: u32, kib: u32, kind: u32) -> String {
    let rows = [
        ("processor_id_low", processor.into()),
        ("level", level.into()),
        ("size", kib.into()),
        ("cache_line_size", 64),
        ("cache_lines_per_tag", 1),
        ("association", 16),
        ("latency", 1),
        ("type", kind.into()),
    ];
    lines(&rows) + "sibling_map 1\n"
}

fn processor(processors: u32) -> String {
    lines(&[
        ("cpu_cores_count", processors.into()),
        ("simd_count", 0),
        ("mem_banks_count", 1),
        ("caches_count", 1),
        // None to the card: that would say that the processor reaches all of its memory.
        ("io_links_count", 0),
        ("cpu_core_id_base", 0),
        ("simd_id_base", 0),
        ("max_waves_per_simd", 0),
        ("lds_size_in_kb", 0),
        ("gds_size_in_kb", 0),
        ("wave_front_size", 0),
        ("array_count", 0),
        ("simd_arrays_per_engine", 0),
        ("cu_per_simd_array", 0),
        ("simd_per_cu", 0),
        ("max_slots_scratch_cu", 0),
        ("vendor_id", 0),
        ("device_id", 0),
        ("location_id", 0),
        ("drm_render_minor", 0),
        ("max_engine_clk_ccompute", CLOCK_MHZ.into()),
    ])
}

fn card(arch: Arch, vram_bytes: u64) -> String {
    let info = arch.info();
    let units = info.card.map_or(COMPUTE_UNITS, |card| card.compute_units);
    let clock = info.card.map_or(CLOCK_MHZ, |card| card.clock_mhz as u32);
    // The RDNA line has two SIMDs of up to 16 waves in a unit, the others four of up to eight.
    let (simds, waves) = if info.family.is_rdna() { (2, 16) } else { (4, 8) };
    let [major, minor, stepping] = version(arch);
    let capability = DOORBELL_TYPE_2 | if info.sramecc { SRAM_EDC } else { 0 };
    lines(&[
        ("cpu_cores_count", 0),
        ("simd_count", (units * simds).into()),
        ("mem_banks_count", 1),
        ("caches_count", 2),
        ("io_links_count", 1),
        ("cpu_core_id_base", 0),
        ("simd_id_base", SIMD_BASE.into()),
        ("max_waves_per_simd", waves),
        ("lds_size_in_kb", (info.lds_bytes >> 10).into()),
        ("gds_size_in_kb", 0),
        ("wave_front_size", info.wave_size.into()),
        ("array_count", 1),
        ("simd_arrays_per_engine", 1),
        ("cu_per_simd_array", units.into()),
        ("simd_per_cu", simds.into()),
        ("max_slots_scratch_cu", 32),
        ("gfx_target_version", (major * 10_000 + minor * 100 + stepping).into()),
        ("vendor_id", VENDOR.into()),
        ("device_id", DEVICE.into()),
        ("location_id", 0x100),
        ("domain", 0),
        ("drm_render_minor", RENDER_MINOR.into()),
        ("hive_id", 0),
        ("num_sdma_engines", 0),
        ("num_sdma_xgmi_engines", 0),
        ("num_gws", 0),
        ("num_sdma_queues_per_engine", 0),
        ("num_cp_queues", 24),
        ("max_engine_clk_fcompute", clock.into()),
        ("local_mem_size", vram_bytes),
        ("fw_version", 100),
        ("capability", capability.into()),
        ("sdma_fw_version", 0),
        ("unique_id", 0),
    ])
}

/// Writes the files below a folder.
///
/// # Errors
/// Those of the file system.
pub fn write(folder: &Path, files: &[(String, String)]) -> io::Result<()> {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(files: &'a [(String, String)], path: &str) -> &'a str {
        &files.iter().find(|(name, _)| name == path).unwrap_or_else(|| panic!("no {path}")).1
    }

    fn number(text: &str, name: &str) -> u64 {
        let row = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        row.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    #[test]
    fn versions_are_read_off_names() {
        let expected =
            [("gfx90a", [9, 0, 10]), ("gfx942", [9, 4, 2]), ("gfx1030", [10, 3, 0]), ("gfx1201", [12, 0, 1])];
        for (name, version) in expected {
            assert_eq!(super::version(Arch::parse(name).unwrap()), version, "{name}");
        }
    }

    #[test]
    fn a_card_says_what_its_architecture_says() {
        for (name, target, simds, wave, sramecc) in [("gfx90a", 90_010, 440, 64, 1), ("gfx1030", 100_300, 160, 32, 0)] {
            let files = files(Arch::parse(name).unwrap(), 1 << 33, 8, 1 << 34);
            let card = text(&files, "nodes/1/properties");
            assert_eq!(number(card, "gfx_target_version"), target);
            assert_eq!((number(card, "simd_count"), number(card, "wave_front_size")), (simds, wave));
            assert_eq!(number(card, "capability") >> 26 & 1, sramecc);
            assert_eq!(number(text(&files, "nodes/1/mem_banks/0/properties"), "size_in_bytes"), 1 << 33);
            assert_eq!(number(text(&files, "nodes/0/properties"), "cpu_cores_count"), 8);
        }
    }

    #[test]
    fn there_are_as_many_files_as_nodes_say() {
        let files = files(Arch::parse("gfx90a").unwrap(), 1 << 33, 8, 1 << 34);
        for node in 0..2 {
            let properties = text(&files, &format!("nodes/{node}/properties"));
            for (kind, folder) in [("mem_banks", "mem_banks"), ("caches", "caches"), ("io_links", "io_links")] {
                let count = number(properties, &format!("{kind}_count"));
                let start = format!("nodes/{node}/{folder}/");
                let there = files.iter().filter(|(path, _)| path.starts_with(&start)).count() as u64;
                assert_eq!(there, count, "{start}");
            }
        }
    }
}
