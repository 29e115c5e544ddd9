//! Runs the files of `tests/filetests` on a wave of the emulator, without a kernel around them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bless::bless;
use super::{Case, LDS_BYTES, Location, MEM_BYTES, SCRATCH_BYTES, Target, parse, place, value};
use crate::env::Env;
use crate::error::Access;
use crate::memory::Memory;
use crate::program::Program;
use crate::step::{Flow, Level};
use crate::wave::{LANES, Wave, scalar};

const STEP_LIMIT: u64 = 10_000;

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

fn run(case: &Case, target: Target, level: Level) -> Result<(), String> {
    let words = case.code.iter().flat_map(|(words, _)| words).copied().chain([target.end()]);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let memory = Arc::new(Memory::new(1 << 20));
    let mem = memory.allocate(MEM_BYTES).map_err(|error| error.to_string())?;
    let code = memory.allocate_with(bytes.len() as u64, false).map_err(|error| error.to_string())?;
    let program = Arc::new(Program::for_wave(level, target.arch, target.wave, bytes, code, &[]));
    let mut env = Env::new(program.clone(), memory, STEP_LIMIT);
    env.lds.reset(LDS_BYTES);
    env.reset_scratch(1, SCRATCH_BYTES);
    let mut wave = Wave::new();
    wave.lanes = target.lanes();
    wave.set_s64(scalar::EXEC, u64::MAX >> (LANES - wave.lanes));
    let mut machine = Machine { wave, env, mem };
    for (name, text) in &case.init {
        let target = place(name, target.lanes()).ok_or_else(|| format!("`{name}` is no place"))?;
        let (lanes, dwords) = target.extent();
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
        let (lanes, dwords) = target.extent();
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
