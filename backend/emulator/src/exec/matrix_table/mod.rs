//! For the tests of the matrix units: `layouts.txt`, which says for each instruction where the elements of its matrices
//! lie, and what is needed to put elements there and take them out again.

use std::sync::Arc;

use rocfire_arch::Arch;
use rocfire_isa::{Inst, WaveSize, decode_dual};

use crate::env::Env;
use crate::memory::Memory;
use crate::numeric::tests_support::Random;
use crate::numeric::{Float8, f32_to_f16, float8_to_f32};
use crate::program::Program;
use crate::step::{Flow, Level, MicroOp};
use crate::wave::{AGPR, Wave, scalar};

const TABLE: &str = include_str!("layouts.txt");

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Type {
    F64,
    F32,
    Xf32,
    F16,
    Bf16,
    Float8(Float8),
    I8,
    I4,
    I32,
}

impl Type {
    fn parse(name: &str) -> Type {
        match name {
            "f64" => Type::F64,
            "f32" => Type::F32,
            "xf32" => Type::Xf32,
            "f16" => Type::F16,
            "bf16" => Type::Bf16,
            "fp8fnuz" => Type::Float8(Float8::E4M3),
            "bf8fnuz" => Type::Float8(Float8::E5M2),
            "fp8ocp" => Type::Float8(Float8::OcpE4M3),
            "bf8ocp" => Type::Float8(Float8::OcpE5M2),
            "i8" => Type::I8,
            "i4" => Type::I4,
            "i32" => Type::I32,
            _ => panic!("no type {name}"),
        }
    }

    pub(crate) fn bits(self) -> usize {
        match self {
            Type::F64 => 64,
            Type::F32 | Type::Xf32 | Type::I32 => 32,
            Type::F16 | Type::Bf16 => 16,
            Type::I8 => 8,
            Type::Float8(format) => format.bits() as usize,
            Type::I4 => 4,
        }
    }

    /// The bits of a value that the type has.
    pub(crate) fn encode(self, value: f64) -> u64 {
        // Positive codes ascend with their values.
        let search = |to_f32: &dyn Fn(u32) -> f32| {
            let sign = 1u32 << (self.bits() - 1);
            let codes: Vec<u32> = (0..sign).collect();
            let code = codes.partition_point(|&code| f64::from(to_f32(code)) < value.abs()) as u32;
            assert_eq!(f64::from(to_f32(code)), value.abs(), "{self:?} has no {value}");
            u64::from(if value < 0.0 { code | sign } else { code })
        };
        match self {
            Type::F64 => value.to_bits(),
            Type::F32 | Type::Xf32 => u64::from((value as f32).to_bits()),
            Type::F16 => u64::from(f32_to_f16(value as f32)),
            Type::Bf16 => u64::from((value as f32).to_bits() >> 16),
            Type::Float8(format) => search(&|bits| float8_to_f32(format, bits as u8)),
            Type::I8 => u64::from(value as i64 as u8),
            Type::I4 => value as i64 as u64 & 15,
            Type::I32 => u64::from(value as i64 as u32),
        }
    }

    /// Eight values, zero first, that every type has exactly.
    pub(crate) fn digit(self, n: usize) -> f64 {
        match self {
            Type::Float8(Float8::E2M1 | Float8::E2M3) => [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][n],
            _ => n as f64,
        }
    }
}

/// Register (within its operand), lowest bit and lane.
pub(crate) type BitPosition = (usize, usize, usize);

/// The places of a matrix's elements, from three formulas over `i`, `j`, `k` and `block`.
#[derive(Clone)]
pub(crate) struct Places {
    places: Vec<BitPosition>,
    /// Of `i`, `j`, `k` and `block`.
    extents: [usize; 4],
}

impl Places {
    fn parse(text: &str, extents: [usize; 4]) -> Places {
        let formulas: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut places = Vec::new();
        for n in 0..extents.iter().product::<usize>() {
            let [_, j, k, block] = extents;
            let variables = [n / block / k / j, n / block / k % j, n / block % k, n % block];
            let value = |formula: usize| {
                let mut rest = formulas[formula];
                let value = sum(&mut rest, variables);
                assert!(rest.is_empty(), "`{rest}` is left of `{}`", formulas[formula]);
                value
            };
            places.push((value(0), value(1), value(2)));
        }
        Places { places, extents }
    }

    /// The place for these `[i, j, k, block]`.
    pub(crate) fn at(&self, [i, j, k, block]: [usize; 4]) -> BitPosition {
        let [_, js, ks, blocks] = self.extents;
        self.places[((i * js + j) * ks + k) * blocks + block]
    }
}

fn sum(rest: &mut &str, variables: [usize; 4]) -> usize {
    let mut value = product(rest, variables);
    while let Some(next) = rest.strip_prefix('+') {
        *rest = next;
        value += product(rest, variables);
    }
    value
}

fn product(rest: &mut &str, variables: [usize; 4]) -> usize {
    let mut value = atom(rest, variables);
    while let Some(operator) = rest.chars().next().filter(|operator| "*/%".contains(*operator)) {
        *rest = &rest[1..];
        let right = atom(rest, variables);
        value = match operator {
            '*' => value * right,
            '/' => value / right,
            _ => value % right,
        };
    }
    value
}

fn atom(rest: &mut &str, variables: [usize; 4]) -> usize {
    if let Some(inner) = rest.strip_prefix('(') {
        *rest = inner;
        let value = sum(rest, variables);
        *rest = rest.strip_prefix(')').expect("a closing bracket");
        return value;
    }
    for (name, value) in ["i", "j", "k", "block"].into_iter().zip(variables) {
        if let Some(next) = rest.strip_prefix(name) {
            *rest = next;
            return value;
        }
    }
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let value = rest[..digits].parse().unwrap_or_else(|_| panic!("`{rest}` is no formula"));
    *rest = &rest[digits..];
    value
}

/// One line of the table.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) arch: Arch,
    pub(crate) wave: WaveSize,
    pub(crate) name: String,
    pub(crate) words: Vec<u32>,
    /// Of A, B and D.
    pub(crate) types: [Type; 3],
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) blocks: usize,
    pub(crate) a: Places,
    pub(crate) b: Places,
    pub(crate) d: Places,
}

/// First registers of A and B.
pub(crate) const A: usize = 64;
pub(crate) const B: usize = 96;

/// Every line of the table.
pub(crate) fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [arch, wave, name, words, types, extents, a, b, d] = fields[..] else { panic!("{line}") };
            let types: Vec<Type> = types.split(' ').map(Type::parse).collect();
            let extents: Vec<usize> = extents.split(' ').map(|extent| extent.parse().unwrap()).collect();
            let [m, k, blocks] = extents[..] else { panic!("{line}") };
            Row {
                arch: Arch::parse(arch).unwrap(),
                wave: if wave == "32" { WaveSize::Wave32 } else { WaveSize::Wave64 },
                name: name.to_owned(),
                words: words.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect(),
                types: types.try_into().unwrap(),
                m,
                k,
                blocks,
                a: Places::parse(a, [m, 1, k, blocks]),
                b: Places::parse(b, [1, m, k, blocks]),
                d: Places::parse(d, [m, m, 1, blocks]),
            }
        })
        .collect()
}

impl Row {
    /// Whether its words are an instruction at all.
    pub(crate) fn decodes(&self) -> bool {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        decode_dual(self.arch, self.wave, &bytes).is_ok()
    }
}

/// The instruction of these words.
pub(crate) fn decode(arch: Arch, wave: WaveSize, words: &[u32]) -> Inst {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let decoded = decode_dual(arch, wave, &bytes).unwrap_or_else(|error| panic!("{words:08x?}: {error}"));
    assert_eq!(usize::from(decoded.bytes()), bytes.len());
    decoded.first
}

/// An environment that no matrix instruction looks into.
pub(crate) fn env() -> Env {
    let arch = Arch::parse("gfx942").unwrap();
    let program = Program::at_level(Level::Baseline, arch, vec![0, 0, 0x80, 0xbf], 0x1000, &[0]);
    Env::new(Arc::new(program), Arc::new(Memory::new(0)), 1000)
}

impl Row {
    /// Where D and C start.
    pub(crate) fn d_register(&self) -> usize {
        if self.arch.name() == "gfx908" { usize::from(AGPR) } else { 0 }
    }

    /// The step of the instruction, `None` where the emulator does not know it.
    pub(crate) fn step(&self, level: Level) -> Option<MicroOp> {
        let inst = decode(self.arch, self.wave, &self.words);
        let selected = crate::exec::select(self.arch, &inst)?;
        MicroOp::new(inst, &selected, level, 0)
    }

    /// Runs the instruction.
    pub(crate) fn run(&self, level: Level, env: &mut Env, w: &mut Wave) {
        let step = self.step(level).unwrap_or_else(|| panic!("{} is unknown on {}", self.name, self.arch));
        // SAFETY: callers give levels that the host has.
        assert_eq!(unsafe { (step.run)(w, env, &step) }, Flow::Next);
    }

    /// Writes `a(i, k, block)`, `b(k, j, block)` and `c(i, j, block)` to their places. Lanes that hold the same element
    /// on gfx11 get it too; everything else is noise, EXEC included.
    pub(crate) fn fill(
        &self,
        random: &mut Random,
        a: impl Fn(usize, usize, usize) -> f64,
        b: impl Fn(usize, usize, usize) -> f64,
        c: impl Fn(usize, usize, usize) -> f64,
    ) -> Wave {
        let mut w = Wave::new();
        for register in 0..self.d_register() + 128 {
            w.v[register].0.fill_with(|| random.next_u32());
        }
        w.set_s64(scalar::EXEC, random.next());
        let lanes = if self.wave == WaveSize::Wave32 { 32 } else { 64 };
        let copies = if self.arch.name() == "gfx1100" { 16 } else { 64 };
        let mut put = |base: usize, place: BitPosition, ty: Type, value: f64, copies: usize| {
            for lane in (place.2..lanes).step_by(copies) {
                put(&mut w, base, (place.0, place.1, lane), ty.bits(), ty.encode(value));
            }
        };
        for block in 0..self.blocks {
            for i in 0..self.m {
                for k in 0..self.k {
                    put(A, self.a.at([i, 0, k, block]), self.types[0], a(i, k, block), copies);
                    put(B, self.b.at([0, i, k, block]), self.types[1], b(k, i, block), copies);
                }
                for j in 0..self.m {
                    put(self.d_register(), self.d.at([i, j, 0, block]), self.types[2], c(i, j, block), 64);
                }
            }
        }
        w
    }

    /// The bits of `D[i][j]`.
    pub(crate) fn d_bits(&self, w: &Wave, i: usize, j: usize, block: usize) -> u64 {
        let (register, bit, lane) = self.d.at([i, j, 0, block]);
        let at = self.d_register() + register;
        let low = u64::from(w.v[at].0[lane] >> bit);
        match self.types[2].bits() {
            64 => low | u64::from(w.v[at + 1].0[lane]) << 32,
            16 => low & 0xffff,
            _ => low,
        }
    }
}

/// Writes an element; one of 6 bits may lie across two registers.
pub(crate) fn put(w: &mut Wave, base: usize, (register, bit, lane): BitPosition, bits: usize, value: u64) {
    let (first, shift) = (base + register + bit / 32, bit % 32);
    let mask = ((1u128 << bits) - 1) << shift;
    let value = u128::from(value) << shift & mask;
    for n in 0..(shift + bits).div_ceil(32) {
        let (mask, value) = ((mask >> (32 * n)) as u32, (value >> (32 * n)) as u32);
        let dword = &mut w.v[first + n].0[lane];
        *dword = *dword & !mask | value;
    }
}

/// A sum of products, exactly: integers times a power of two that is the same for all.
#[derive(Clone, Copy)]
pub(crate) struct Exact(i128);

/// The unit of [`Exact`] is 2^-UNIT.
const UNIT: i32 = 74;

impl Exact {
    /// `x`, which must be a multiple of the unit and below 2^52.
    pub(crate) fn new(x: f64) -> Exact {
        let scaled = x * 2f64.powi(UNIT);
        assert!(scaled.fract() == 0.0 && scaled.abs() < 2f64.powi(126), "{x:e}");
        Exact(scaled as i128)
    }

    pub(crate) fn add(self, other: Exact) -> Exact {
        Exact(self.0 + other.0)
    }

    /// The nearest value of `digits` binary digits, ties to even.
    pub(crate) fn round(self, digits: u32) -> f64 {
        let magnitude = self.0.unsigned_abs();
        let drop = (128 - magnitude.leading_zeros()).saturating_sub(digits);
        let kept = magnitude >> drop;
        let rest = magnitude - (kept << drop);
        let half = if drop == 0 { u128::MAX } else { 1 << (drop - 1) };
        let up = rest > half || rest == half && kept & 1 == 1;
        let value = (kept + u128::from(up)) as f64 * 2f64.powi(drop as i32 - UNIT);
        if self.0 < 0 { -value } else { value }
    }
}
