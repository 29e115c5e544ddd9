//! Every vector instruction of gfx942 at every CPU level: known, the same bits, and no lane outside EXEC written.

use std::sync::Arc;

use rocfire_arch::Arch;
use rocfire_isa::disassemble;

use crate::env::Env;
use crate::memory::Memory;
use crate::numeric::tests_support::Random;
use crate::program::Program;
use crate::step::{Flow, Level};
use crate::wave::{LANES, VECTOR_FILE, Wave, scalar};

/// Machine words and text (made by `llvm-mc`) of every VOP1, VOP2, VOPC, VOP3 and VOP3P instruction, one a line, and of a
/// choice of modifiers.
const INSTRUCTIONS: &str = include_str!("instructions.txt");

/// The program of these words.
pub(crate) fn program(level: Level, words: &[u32]) -> Arc<Program> {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Arc::new(Program::at_level(level, Arch::parse("gfx942").unwrap(), bytes, 0x1000, &[0]))
}

/// Runs the steps of a program in order.
pub(crate) fn run(program: &Arc<Program>, w: &mut Wave) -> Result<(), String> {
    let mut env = Env::new(program.clone(), Arc::new(Memory::new(0)), 1000);
    for step in &program.steps[..program.steps.len() - 1] {
        // SAFETY: the program was made for a level that the host has.
        let flow = unsafe { (step.run)(w, &mut env, step) };
        if flow != Flow::Next {
            return Err(format!("{flow:?}: {:?}", env.fault));
        }
    }
    Ok(())
}

/// Levels that the host has.
pub(crate) fn levels() -> Vec<Level> {
    [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|&level| level <= Level::detect()).collect()
}

/// Words of a line.
fn words(line: &str) -> (Vec<u32>, &str) {
    let (words, text) = line.split_once("  ").unwrap();
    (words.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect(), text)
}

/// A wave with registers full of values of the kinds that instructions read.
fn random_wave(random: &mut Random, mode: u32, exec: u64) -> Wave {
    let mut w = Wave::new();
    for register in 0..VECTOR_FILE {
        // Registers come in pairs of one kind, so that f64 operands are sometimes ordinary.
        let kind = (register / 2) % 3 + random.next() as usize % 3;
        for lane in 0..LANES {
            let double = random.near_f64().to_bits();
            w.v[register].0[lane] = match kind {
                0 => random.near_f32().to_bits(),
                1 => random.next_u32(),
                2 if register % 2 == 1 => (double >> 32) as u32,
                2 => double as u32,
                3 => [0, 0x8000_0000, 0x7f80_0000, 0xff80_0001, 0x7fc0_0000, 1, 0x8000_7c01, 0x3c00_fc00]
                    [random.next() as usize % 8],
                _ => random.next_u32() % 70,
            };
        }
    }
    w.s = std::array::from_fn(|_| random.next_u32());
    w.mode = mode;
    w.set_s64(scalar::EXEC, exec);
    w
}

fn copy(w: &Wave) -> Wave {
    let mut out = Wave::new();
    out.v.copy_from_slice(&w.v[..]);
    (out.s, out.mode) = (w.s, w.mode);
    out
}

#[test]
fn every_instruction_gives_the_same_bits_at_every_level() {
    let mut random = Random::new(11);
    let mut failures = Vec::new();
    let mut count = 0;
    for line in INSTRUCTIONS.lines() {
        let (words, text) = words(line);
        count += 1;
        let programs: Vec<_> = levels().into_iter().map(|level| program(level, &words)).collect();
        // All usual; f32 denormals flushed; all flushed without IEEE; lanes off.
        for (mode, exec) in [(0x3f0, !0), (0x3c0, !0), (0x100, !0), (0x3f0, random.next())] {
            for _ in 0..4 {
                let start = random_wave(&mut random, mode, exec);
                let mut first = copy(&start);
                if let Err(error) = run(&programs[0], &mut first) {
                    failures.push(format!("{text}: {error}"));
                    break;
                }
                for program in &programs[1..] {
                    let mut other = copy(&start);
                    run(program, &mut other).unwrap();
                    // Staging registers hold what a handler left there.
                    let differs = (0..512).find(|&r| first.v[r].0 != other.v[r].0);
                    if let Some(r) = differs {
                        let lane = (0..LANES).find(|&lane| first.v[r].0[lane] != other.v[r].0[lane]).unwrap();
                        failures.push(format!(
                            "{text}: register {r} lane {lane}: {:#x} {:#x}",
                            first.v[r].0[lane], other.v[r].0[lane]
                        ));
                    }
                    assert_eq!(first.s, other.s, "{text}");
                }
                if !text.starts_with("v_mfma") {
                    for r in 0..512 {
                        for lane in (0..LANES).filter(|lane| exec >> lane & 1 == 0) {
                            assert_eq!(
                                first.v[r].0[lane], start.v[r].0[lane],
                                "{text} wrote lane {lane}, which is off"
                            );
                        }
                    }
                }
            }
        }
    }
    assert!(count > 600, "{count} instructions");
    failures.dedup();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_table_is_what_the_disassembler_prints() {
    let arch = Arch::parse("gfx942").unwrap();
    for line in INSTRUCTIONS.lines() {
        let (words, text) = words(line);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let inst = rocfire_isa::decode(arch, &bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(
            disassemble(arch, &inst).starts_with(text.split(' ').next().unwrap().trim_end_matches("_e32")),
            "{text}"
        );
    }
}
