//! Runs the files of `tests/filetests`: machine code with the state before and after.
//!
//! A file is a list of cases. In each line `;` begins a directive or, where no word of a directive follows, a remark.
//!
//! ```text
//! ; target gfx942            ; source: ISA, SOPC 13: SCC = (S0 >> S1[4:0] & 1) == 1
//! ; given s3=0x4
//! bf0d0403 s_bitcmp1_b32 s3, s4 ; init s4=2 ; expect scc=1
//! ; init s4=3 ; expect scc=0
//!
//! ; init s0=1
//! 80008000 s_add_u32 s0, s0, 0
//! 80008100 s_add_u32 s0, s0, 1
//! ; expect s0=2
//! ; expect scc=0
//! ```
//!
//! | directive | what |
//! | --- | --- |
//! | `target` | architectures that each case until the next `target` runs on; `wave64` behind RDNA's asks for waves of 64 lanes |
//! | `given` | the state that each case until the next `given` starts from; without places, nothing |
//! | `init` | what a case sets besides, before it runs |
//! | `expect` | what is compared afterwards; the case ends with its last one, or with an empty line |
//!
//! A case without code runs the code of the one before, so that one instruction may head a table of operands and results.
//!
//! Code stands as little-endian words in hexadecimal and as the text that the disassembler gives for them, which is
//! compared too. The program ends after its last instruction. EXEC is full unless it is set, everything else is zero.
//!
//! | place | what |
//! | --- | --- |
//! | `s3`, `m0`, `mode`, `scc` | 32 bits (SCC one) |
//! | `s[4:5]`, `vcc`, `exec` | 64 bits |
//! | `v3`, `a3` | 32 bits in all lanes of the wave |
//! | `v[4:5]`, `a[4:5]` | 64 bits in all lanes |
//! | `v3.7`, `v[4:5].7`, `v3.0-15` | in lane 7, in lanes 0 to 15 |
//! | `lds.8`, `mem.8` | the dword at byte 8 of LDS (64 KiB), of a buffer in device memory (4 KiB) |
//! | `v3-7`, `s3-7` | each of these registers |
//! | `fault` | only expected: the kind of fault, as `FaultKind` names it |
//!
//! Values: `12`, `-3`, `0xff`; floats with their size, `1.5h`, `1.5f`, `1.5d`, also `inf`, `-inf`, `nan` before the letter;
//! `lane`, `lane*4`, `lane*4+3`; `mem`, the buffer's address. A list, `s4=1,2,3`, goes on from the place by registers, and where it
//! names a lane or a dword, by those: `v3.0=1,2,3`, `mem.8=1,2`.
//!
//! Each case runs at every CPU level that the host has, and must end the same. With `ROCFIRE_BLESS=1` the words are
//! written anew from the texts, by `llvm-mc`; a new case may be written with texts alone.

mod text;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocfire_arch::Family;
use rocfire_isa::WaveSize;

use self::text::{Case, Target, bless, parse};
use crate::env::Env;
use crate::error::Access;
use crate::memory::Memory;
use crate::program::Program;
use crate::step::{Flow, Level};
use crate::wave::{AGPR, LANES, Wave, scalar};

const LDS_BYTES: usize = 64 << 10;
const MEM_BYTES: u64 = 4 << 10;
const STEP_LIMIT: u64 = 10_000;

impl Target {
    fn lanes(self) -> usize {
        match self.wave {
            WaveSize::Wave32 => 32,
            WaveSize::Wave64 => 64,
        }
    }

    /// The word of `s_endpgm`.
    fn end(self) -> u32 {
        match self.arch.info().family {
            Family::Rdna3 | Family::Rdna35 | Family::Rdna4 => 0xbfb0_0000,
            _ => 0xbf81_0000,
        }
    }
}

/// A value for a lane.
fn value(text: &str, lane: usize, mem: u64) -> Option<u64> {
    if text == "mem" {
        return Some(mem);
    }
    if let Some(rest) = text.strip_prefix("lane") {
        let (factor, addend) = rest.split_once('+').unwrap_or((rest, "0"));
        let factor = factor.strip_prefix('*').unwrap_or("1");
        return Some(lane as u64 * factor.parse::<u64>().ok()? + addend.parse::<u64>().ok()?);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let (number, size) = text.split_at(text.len().checked_sub(1)?);
    match size {
        "h" => Some(u64::from(half::f16::from_f64(number.parse().ok()?).to_bits())),
        "f" if text != "inf" => Some(u64::from(number.parse::<f32>().ok()?.to_bits())),
        "d" => Some(number.parse::<f64>().ok()?.to_bits()),
        _ => text.parse::<i64>().ok().map(|value| value as u64),
    }
}

/// A place as it is named: registers from `first` on, dwords, and lanes for a vector register.
enum Location {
    Scalar { first: u16, dwords: u16 },
    Vector { first: u16, dwords: u16, lanes: std::ops::RangeInclusive<usize> },
    Scc,
    Mode,
    Lds(u64),
    Mem(u64),
}

fn place(name: &str, lanes_of_wave: usize) -> Option<Location> {
    let (register, lanes) = match name.split_once('.') {
        Some((register, lanes)) => (register, Some(lanes)),
        None => (name, None),
    };
    match register {
        "scc" => return Some(Location::Scc),
        "mode" => return Some(Location::Mode),
        "m0" => return Some(Location::Scalar { first: scalar::M0, dwords: 1 }),
        "vcc" => return Some(Location::Scalar { first: scalar::VCC, dwords: 2 }),
        "exec" => return Some(Location::Scalar { first: scalar::EXEC, dwords: 2 }),
        "lds" => return Some(Location::Lds(lanes?.parse().ok()?)),
        "mem" => return Some(Location::Mem(lanes?.parse().ok()?)),
        _ => {}
    }
    let (file, number) = register.split_at_checked(1)?;
    let (first, dwords) = match number.strip_prefix('[').and_then(|range| range.strip_suffix(']')) {
        Some(range) => {
            let (first, last) = range.split_once(':')?;
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            (first, (last + 1).checked_sub(first)?)
        }
        None => (number.parse().ok()?, 1),
    };
    let lanes = match lanes {
        None => 0..=lanes_of_wave - 1,
        Some(lanes) => {
            let (first, last) = lanes.split_once('-').unwrap_or((lanes, lanes));
            first.parse().ok()?..=last.parse().ok()?
        }
    };
    match file {
        "s" => Some(Location::Scalar { first, dwords }),
        "v" => Some(Location::Vector { first, dwords, lanes }),
        "a" => Some(Location::Vector { first: AGPR + first, dwords, lanes }),
        _ => None,
    }
}

/// What a case runs on.
struct Machine {
    wave: Wave,
    env: Env,
    mem: u64,
}

impl Machine {
    fn dword(&mut self, place: &Location, i: u16, lane: usize) -> u32 {
        match *place {
            Location::Scalar { first, .. } => self.wave.s32(first + i),
            Location::Vector { first, .. } => self.wave.lane(first + i, lane),
            Location::Scc => u32::from(self.wave.scc),
            Location::Mode => self.wave.mode,
            Location::Lds(offset) => {
                let host = self.env.lds.host_ptr(offset, 4).unwrap();
                // SAFETY: `host_ptr` gave a pointer to four bytes.
                unsafe { host.cast::<u32>().read_unaligned() }
            }
            Location::Mem(offset) => {
                let mut bytes = [0; 4];
                let window = self.env.memory.find(self.mem + offset, 4, Access::Read).unwrap();
                window.read(self.mem + offset, &mut bytes);
                u32::from_le_bytes(bytes)
            }
        }
    }

    fn set_dword(&mut self, place: &Location, i: u16, lane: usize, value: u32) {
        match *place {
            Location::Scalar { first, .. } => self.wave.set_s32(first + i, value),
            Location::Vector { first, .. } => self.wave.set_lane(first + i, lane, value),
            Location::Scc => self.wave.scc = value != 0,
            Location::Mode => self.wave.mode = value,
            Location::Lds(offset) => {
                let host = self.env.lds.host_ptr(offset, 4).unwrap();
                // SAFETY: `host_ptr` gave a pointer to four bytes.
                unsafe { host.cast::<u32>().write_unaligned(value) }
            }
            Location::Mem(offset) => {
                let window = self.env.memory.find(self.mem + offset, 4, Access::Write).unwrap();
                window.write(self.mem + offset, &value.to_le_bytes());
            }
        }
    }
}

/// The lanes and dwords that a place covers.
fn extent(place: &Location) -> (std::ops::RangeInclusive<usize>, u16) {
    match place {
        Location::Vector { dwords, lanes, .. } => (lanes.clone(), *dwords),
        Location::Scalar { dwords, .. } => (0..=0, *dwords),
        Location::Scc | Location::Mode | Location::Lds(_) | Location::Mem(_) => (0..=0, 1),
    }
}

fn run(case: &Case, target: Target, level: Level) -> Result<(), String> {
    let words = case.code.iter().flat_map(|(words, _)| words).copied().chain([target.end()]);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let memory = Arc::new(Memory::new(1 << 20));
    let mem = memory.allocate(MEM_BYTES).map_err(|error| error.to_string())?;
    let code = memory.allocate_with(bytes.len() as u64, false).map_err(|error| error.to_string())?;
    let program = Arc::new(Program::for_wave(level, target.arch, target.wave, bytes, code, &[]));
    let mut env = Env::new(program.clone(), memory, STEP_LIMIT);
    env.lds.reset(LDS_BYTES);
    env.reset_scratch(1, 1024);
    let mut wave = Wave::new();
    wave.lanes = target.lanes();
    wave.set_s64(scalar::EXEC, u64::MAX >> (LANES - wave.lanes));
    let mut machine = Machine { wave, env, mem };
    for (name, text) in &case.init {
        let target = place(name, target.lanes()).ok_or_else(|| format!("`{name}` is no place"))?;
        let (lanes, dwords) = extent(&target);
        for lane in lanes {
            let value = value(text, lane, mem).ok_or_else(|| format!("`{text}` is no value"))?;
            for i in 0..dwords {
                machine.set_dword(&target, i, lane, (value >> (32 * i.min(1))) as u32);
            }
        }
    }
    let fault = match crate::group::run_wave(&mut machine.wave, &mut machine.env, &program) {
        Flow::End => None,
        other => {
            let kind = machine.env.fault.take().map(|cause| format!("{:?}", cause.kind));
            Some(kind.unwrap_or_else(|| format!("{other:?}")))
        }
    };
    let expected_fault = case.expect.iter().find(|(name, _)| name == "fault").map(|(_, text)| text.as_str());
    match (&fault, expected_fault) {
        (None, None) => {}
        (Some(fault), Some(expected)) if fault.starts_with(expected) => {}
        _ => return Err(format!("fault is {fault:?}, expected {expected_fault:?}")),
    }
    let mut wrong = String::new();
    for (name, text) in case.expect.iter().filter(|(name, _)| name != "fault") {
        let target = place(name, target.lanes()).ok_or_else(|| format!("`{name}` is no place"))?;
        let (lanes, dwords) = extent(&target);
        for lane in lanes {
            let value = value(text, lane, mem).ok_or_else(|| format!("`{text}` is no value"))?;
            for i in 0..dwords {
                let (expected, got) = ((value >> (32 * i.min(1))) as u32, machine.dword(&target, i, lane));
                if expected != got {
                    let _ = write!(wrong, "\n  {name}, lane {lane}, dword {i}: {got:#010x}, expected {expected:#010x}");
                }
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.lines().take(9).collect::<Vec<_>>().join("\n")) }
}

/// The text of each instruction must be what its words disassemble to.
fn check_texts(case: &Case, target: Target) -> Result<(), String> {
    for (words, text) in &case.code {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if words.is_empty() {
            return Err(format!("`{text}` has no words: run with ROCFIRE_BLESS=1"));
        }
        // Bytes that are no instruction have no text.
        if text.is_empty() {
            continue;
        }
        let decoded = rocfire_isa::decode_dual(target.arch, target.wave, &bytes);
        let decoded = decoded.map_err(|error| format!("`{text}`: {error}"))?;
        let printed = rocfire_isa::disassemble_dual(target.arch, &decoded);
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        if squeeze(&printed) != squeeze(text) || usize::from(decoded.bytes()) != bytes.len() {
            return Err(format!("`{text}` is disassembled as `{printed}`"));
        }
    }
    Ok(())
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "isa")).collect();
    files.sort();
    files
}

#[test]
fn every_filetest_holds_at_every_cpu_level() {
    let levels = [Level::Baseline, Level::Avx2, Level::Avx512];
    let levels: Vec<Level> = levels.into_iter().filter(|&level| level <= Level::detect()).collect();
    let (mut cases_run, mut failures) = (0, String::new());
    for path in files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if std::env::var_os("ROCFIRE_BLESS").is_some_and(|value| value == "1") {
            bless(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let cases = parse(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|error| panic!("{name}, {error}"));
        for (case, &target) in cases.iter().flat_map(|case| case.targets.iter().map(move |target| (case, target))) {
            let checked = check_texts(case, target).map_err(|error| (None, error));
            let result = checked.and_then(|()| {
                levels.iter().try_for_each(|&level| run(case, target, level).map_err(|error| (Some(level), error)))
            });
            if let Err((level, error)) = result {
                let _ = write!(failures, "\n{name}:{} {} {level:?}: {error}", case.line, target.arch);
            }
            cases_run += 1;
        }
    }
    assert!(cases_run > 0, "there are no filetests");
    assert!(failures.is_empty(), "{failures}");
}
