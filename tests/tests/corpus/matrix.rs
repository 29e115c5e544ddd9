//! References of `matrix.hip`: a plain matrix product, and AMD's layouts (matrix instruction calculator) for what a lane
//! holds. All numbers are small and whole, so every type holds them and every sum exactly. Which `k` a lane has is free
//! where A and B agree on it: a product does not change when its terms change places.

use half::{bf16, f16};
use rocfire_arch::{ArchInfo, Matrix};
use rocfire_emulator::Error;

use crate::bench::{Bench, Case, args, below};
use crate::quantise::Kind;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    F64,
    F32,
    I32,
    F16,
    Bf16,
    I8,
    I4,
    Fp8,
    Bf8,
}
use Element::{Bf8, Bf16, F16, F32, F64, Fp8, I4, I8, I32};

impl Element {
    fn bits(self) -> usize {
        match self {
            F64 => 64,
            F32 | I32 => 32,
            F16 | Bf16 => 16,
            I8 | Fp8 | Bf8 => 8,
            I4 => 4,
        }
    }

    /// The bits of a small whole number; `own` if 8-bit floats are AMD's own.
    fn encode(self, value: i32, own: bool) -> u64 {
        let float = value as f32;
        match self {
            F64 => f64::from(value).to_bits(),
            F32 => u64::from(float.to_bits()),
            I32 => u64::from(value as u32),
            F16 => u64::from(f16::from_f32(float).to_bits()),
            Bf16 => u64::from(bf16::from_f32(float).to_bits()),
            I8 => u64::from(value as u8),
            I4 => u64::from(value as u8 & 15),
            Fp8 => u64::from(Kind { exponent_bits: 4, own }.encode(float)),
            Bf8 => u64::from(Kind { exponent_bits: 5, own }.encode(float)),
        }
    }
}

/// How lanes hold the matrices.
#[derive(Clone, Copy)]
enum Layout {
    /// MFMA with `m` rows and columns and so many blocks.
    Mfma { m: usize, blocks: usize },
    /// The same in f64, where rows go over the lanes first.
    MfmaF64 { m: usize, blocks: usize },
    /// gfx11: every 16 lanes have all of A.
    Wmma11,
    /// gfx12: all lanes together have A once.
    Wmma12,
}

/// One instruction.
struct Product {
    name: &'static str,
    layout: Layout,
    k: usize,
    a: Element,
    b: Element,
    d: Element,
}

/// An element of a matrix: block, row and column.
type ElementIndex = (usize, usize, usize);

impl Product {
    fn rows(&self) -> usize {
        match self.layout {
            Layout::Mfma { m, .. } | Layout::MfmaF64 { m, .. } => m,
            Layout::Wmma11 | Layout::Wmma12 => 16,
        }
    }

    fn blocks(&self) -> usize {
        match self.layout {
            Layout::Mfma { blocks, .. } | Layout::MfmaF64 { blocks, .. } => blocks,
            Layout::Wmma11 | Layout::Wmma12 => 1,
        }
    }

    /// Elements of A in a lane.
    fn inputs(&self, wave: usize) -> usize {
        match self.layout {
            Layout::Wmma11 => self.k,
            // A register is not shared by two lanes: half of the lanes have nothing to give.
            _ => (self.rows() * self.k * self.blocks() / wave).max(if self.a == I4 { 8 } else { 1 }),
        }
    }

    /// Elements of D in a lane, and of its registers' memory: on gfx11 16-bit results leave out every other one.
    fn outputs(&self, wave: usize) -> (usize, usize) {
        let own = self.rows() * self.rows() * self.blocks() / wave;
        let sparse = matches!(self.layout, Layout::Wmma11) && self.d.bits() == 16;
        (own, if sparse { 2 } else { 1 })
    }

    /// Row of A (or column of B), `k` and block of an element, `None` past the matrix.
    fn input(&self, wave: usize, lane: usize, e: usize) -> Option<ElementIndex> {
        let each = self.inputs(wave);
        let place = match self.layout {
            Layout::Mfma { m, blocks: 1 } | Layout::MfmaF64 { m, blocks: 1 } => (0, lane % m, lane / m * each + e),
            Layout::Mfma { m, .. } => (lane / m, lane % m, e),
            Layout::MfmaF64 { m, blocks } => (lane / m % blocks, lane % m, lane / 16),
            Layout::Wmma11 => (0, lane % 16, e),
            Layout::Wmma12 => (0, lane % 16, lane / 16 * each + e),
        };
        (place.2 < self.k).then_some(place)
    }

    /// Block, row and column of a result.
    fn output(&self, wave: usize, lane: usize, r: usize) -> ElementIndex {
        match self.layout {
            Layout::Mfma { m: 32, .. } => (r / 16, 8 * (r % 16 / 4) + 4 * (lane / 32) + r % 4, lane % 32),
            Layout::Mfma { m: 16, .. } => (r / 4, 4 * (lane / 16) + r % 4, lane % 16),
            Layout::Mfma { m, .. } => (lane / m, r, lane % m),
            Layout::MfmaF64 { m: 16, .. } => (0, 4 * r + lane / 16, lane % 16),
            Layout::MfmaF64 { m, blocks } => (lane / m % blocks, lane / 16, lane % m),
            Layout::Wmma11 => (0, r * (wave / 16) + lane / 16, lane % 16),
            Layout::Wmma12 if wave == 32 => (0, 8 * (lane / 16) + r, lane % 16),
            Layout::Wmma12 => (0, 8 * (lane / 16 % 2) + 4 * (lane / 32) + r, lane % 16),
        }
    }

    fn check(&self, b: &Bench) {
        let (wave, own) = (b.wave(), b.arch().fp8 == rocfire_arch::Fp8::Fnuz);
        let (m, blocks) = (self.rows(), self.blocks());
        let numbers = |seed: u64, len: usize| below(seed, len, 7).into_iter().map(|x| x as i32 - 3).collect::<Vec<_>>();
        // B is held as A is: by column, then `k`.
        let (x, y, z) = (numbers(1, blocks * m * self.k), numbers(2, blocks * m * self.k), numbers(3, blocks * m * m));
        let input = |element: Element, values: &[i32]| {
            let lane = |lane: usize| {
                let of =
                    |e: usize| self.input(wave, lane, e).map(|(block, row, k)| values[(block * m + row) * self.k + k]);
                pack(
                    (0..self.inputs(wave)).map(|e| of(e).map_or(0, |value| element.encode(value, own))),
                    element.bits(),
                )
            };
            (0..wave).flat_map(lane).collect::<Vec<u8>>()
        };
        let (each, step) = self.outputs(wave);
        let output = |value: &dyn Fn(ElementIndex) -> i32| {
            let all = (0..wave).flat_map(|lane| (0..each).map(move |r| self.output(wave, lane, r)));
            let with_gaps =
                all.flat_map(|place| std::iter::once(self.d.encode(value(place), own)).chain((1..step).map(|_| 0)));
            pack(with_gaps, self.d.bits())
        };
        let start = output(&|(block, i, j)| z[(block * m + i) * m + j]);
        let (pa, pb, pd) = (b.upload(&input(self.a, &x)), b.upload(&input(self.b, &y)), b.upload(&start));
        b.run(self.name, 1, wave as u32, args![pa, pb, pd]);
        let want = output(&|(block, i, j)| {
            let dot: i32 = (0..self.k).map(|k| x[(block * m + i) * self.k + k] * y[(block * m + j) * self.k + k]).sum();
            z[(block * m + i) * m + j] + dot
        });
        let got = b.download::<u8>(pd, want.len());
        let bytes = self.d.bits() / 8;
        for (n, (got, want)) in got.chunks(bytes).zip(want.chunks(bytes)).enumerate().filter(|(n, _)| n % step == 0) {
            let place = self.output(wave, n / step / each, n / step % each);
            assert_eq!(got, want, "{}: block, row and column {place:?}", self.name);
        }
    }
}

/// Elements of so many bits, one after the other from the lowest on, to whole bytes.
fn pack(values: impl Iterator<Item = u64>, bits: usize) -> Vec<u8> {
    if bits == 4 {
        let nibbles: Vec<u64> = values.collect();
        return nibbles.chunks(2).map(|two| (two[0] | two[1] << 4) as u8).collect();
    }
    values.flat_map(|value| value.to_le_bytes().into_iter().take(bits / 8)).collect()
}

const fn mfma(name: &'static str, m: usize, blocks: usize, k: usize, a: Element, b: Element, d: Element) -> Product {
    Product { name, layout: Layout::Mfma { m, blocks }, k, a, b, d }
}

const fn mfma_f64(name: &'static str, m: usize, blocks: usize, k: usize) -> Product {
    Product { name, layout: Layout::MfmaF64 { m, blocks }, k, a: F64, b: F64, d: F64 }
}

/// Those of every MFMA generation.
const MFMA: &[Product] = &[
    mfma("mfma_f32_32x32x1f32", 32, 2, 1, F32, F32, F32),
    mfma("mfma_f32_16x16x1f32", 16, 4, 1, F32, F32, F32),
    mfma("mfma_f32_4x4x1f32", 4, 16, 1, F32, F32, F32),
    mfma("mfma_f32_32x32x2f32", 32, 1, 2, F32, F32, F32),
    mfma("mfma_f32_16x16x4f32", 16, 1, 4, F32, F32, F32),
    mfma("mfma_f32_32x32x4f16", 32, 2, 4, F16, F16, F32),
    mfma("mfma_f32_16x16x4f16", 16, 4, 4, F16, F16, F32),
    mfma("mfma_f32_4x4x4f16", 4, 16, 4, F16, F16, F32),
    mfma("mfma_f32_32x32x8f16", 32, 1, 8, F16, F16, F32),
    mfma("mfma_f32_16x16x16f16", 16, 1, 16, F16, F16, F32),
    mfma("mfma_i32_32x32x4i8", 32, 2, 4, I8, I8, I32),
    mfma("mfma_i32_16x16x4i8", 16, 4, 4, I8, I8, I32),
    mfma("mfma_i32_4x4x4i8", 4, 16, 4, I8, I8, I32),
];

/// Those that the third generation dropped.
const MFMA_OLD: &[Product] = &[
    mfma("mfma_i32_32x32x8i8", 32, 1, 8, I8, I8, I32),
    mfma("mfma_i32_16x16x16i8", 16, 1, 16, I8, I8, I32),
    mfma("mfma_f32_32x32x2bf16", 32, 2, 2, Bf16, Bf16, F32),
    mfma("mfma_f32_16x16x2bf16", 16, 4, 2, Bf16, Bf16, F32),
    mfma("mfma_f32_4x4x2bf16", 4, 16, 2, Bf16, Bf16, F32),
    mfma("mfma_f32_32x32x4bf16", 32, 1, 4, Bf16, Bf16, F32),
    mfma("mfma_f32_16x16x8bf16", 16, 1, 8, Bf16, Bf16, F32),
];

/// From the second on.
const MFMA_2: &[Product] = &[
    mfma("mfma_f32_32x32x4bf16_1k", 32, 2, 4, Bf16, Bf16, F32),
    mfma("mfma_f32_16x16x4bf16_1k", 16, 4, 4, Bf16, Bf16, F32),
    mfma("mfma_f32_4x4x4bf16_1k", 4, 16, 4, Bf16, Bf16, F32),
    mfma("mfma_f32_32x32x8bf16_1k", 32, 1, 8, Bf16, Bf16, F32),
    mfma("mfma_f32_16x16x16bf16_1k", 16, 1, 16, Bf16, Bf16, F32),
    mfma_f64("mfma_f64_16x16x4f64", 16, 1, 4),
    mfma_f64("mfma_f64_4x4x4f64", 4, 4, 4),
];

/// From the third on.
const MFMA_3: &[Product] = &[
    mfma("mfma_i32_32x32x16_i8", 32, 1, 16, I8, I8, I32),
    mfma("mfma_i32_16x16x32_i8", 16, 1, 32, I8, I8, I32),
    mfma("mfma_f32_32x32x16_fp8_fp8", 32, 1, 16, Fp8, Fp8, F32),
    mfma("mfma_f32_16x16x32_fp8_fp8", 16, 1, 32, Fp8, Fp8, F32),
    mfma("mfma_f32_32x32x16_fp8_bf8", 32, 1, 16, Fp8, Bf8, F32),
    mfma("mfma_f32_16x16x32_fp8_bf8", 16, 1, 32, Fp8, Bf8, F32),
    mfma("mfma_f32_32x32x16_bf8_fp8", 32, 1, 16, Bf8, Fp8, F32),
    mfma("mfma_f32_16x16x32_bf8_fp8", 16, 1, 32, Bf8, Fp8, F32),
    mfma("mfma_f32_32x32x16_bf8_bf8", 32, 1, 16, Bf8, Bf8, F32),
    mfma("mfma_f32_16x16x32_bf8_bf8", 16, 1, 32, Bf8, Bf8, F32),
];

/// Of the third alone.
const MFMA_XF32: &[Product] =
    &[mfma("mfma_f32_32x32x4_xf32", 32, 1, 4, F32, F32, F32), mfma("mfma_f32_16x16x8_xf32", 16, 1, 8, F32, F32, F32)];

/// From the fourth on.
const MFMA_4: &[Product] = &[
    mfma("mfma_f32_32x32x16_f16", 32, 1, 16, F16, F16, F32),
    mfma("mfma_f32_16x16x32_f16", 16, 1, 32, F16, F16, F32),
    mfma("mfma_f32_32x32x16_bf16", 32, 1, 16, Bf16, Bf16, F32),
    mfma("mfma_f32_16x16x32_bf16", 16, 1, 32, Bf16, Bf16, F32),
    mfma("mfma_i32_32x32x32_i8", 32, 1, 32, I8, I8, I32),
    mfma("mfma_i32_16x16x64_i8", 16, 1, 64, I8, I8, I32),
    mfma("scale_32x32x64_fp8_fp8", 32, 1, 64, Fp8, Fp8, F32),
    mfma("scale_32x32x64_fp8_bf8", 32, 1, 64, Fp8, Bf8, F32),
    mfma("scale_32x32x64_bf8_fp8", 32, 1, 64, Bf8, Fp8, F32),
    mfma("scale_32x32x64_bf8_bf8", 32, 1, 64, Bf8, Bf8, F32),
    mfma("scale_16x16x128_fp8_fp8", 16, 1, 128, Fp8, Fp8, F32),
    mfma("scale_16x16x128_fp8_bf8", 16, 1, 128, Fp8, Bf8, F32),
    mfma("scale_16x16x128_bf8_fp8", 16, 1, 128, Bf8, Fp8, F32),
    mfma("scale_16x16x128_bf8_bf8", 16, 1, 128, Bf8, Bf8, F32),
];

const fn wmma(name: &'static str, layout: Layout, k: usize, a: Element, b: Element, d: Element) -> Product {
    Product { name, layout, k, a, b, d }
}

const WMMA_11: &[Product] = &[
    wmma("wmma_f32_f16", Layout::Wmma11, 16, F16, F16, F32),
    wmma("wmma_f32_bf16", Layout::Wmma11, 16, Bf16, Bf16, F32),
    wmma("wmma_f16_f16", Layout::Wmma11, 16, F16, F16, F16),
    wmma("wmma_bf16_bf16", Layout::Wmma11, 16, Bf16, Bf16, Bf16),
    wmma("wmma_i32_iu8", Layout::Wmma11, 16, I8, I8, I32),
    wmma("wmma_i32_iu4", Layout::Wmma11, 16, I4, I4, I32),
];

const WMMA_12: &[Product] = &[
    wmma("wmma_f32_f16", Layout::Wmma12, 16, F16, F16, F32),
    wmma("wmma_f32_bf16", Layout::Wmma12, 16, Bf16, Bf16, F32),
    wmma("wmma_f16_f16", Layout::Wmma12, 16, F16, F16, F16),
    wmma("wmma_bf16_bf16", Layout::Wmma12, 16, Bf16, Bf16, Bf16),
    wmma("wmma_i32_iu8", Layout::Wmma12, 16, I8, I8, I32),
    wmma("wmma_i32_iu4", Layout::Wmma12, 16, I4, I4, I32),
    wmma("wmma_i32_iu4_long", Layout::Wmma12, 32, I4, I4, I32),
    wmma("wmma_f32_fp8_fp8", Layout::Wmma12, 16, Fp8, Fp8, F32),
    wmma("wmma_f32_fp8_bf8", Layout::Wmma12, 16, Fp8, Bf8, F32),
    wmma("wmma_f32_bf8_fp8", Layout::Wmma12, 16, Bf8, Fp8, F32),
    wmma("wmma_f32_bf8_bf8", Layout::Wmma12, 16, Bf8, Bf8, F32),
];

/// Generation of MFMA, 0 without it.
fn generation(arch: &ArchInfo) -> u8 {
    match arch.matrix {
        Matrix::Mfma(generation) => generation,
        Matrix::None | Matrix::Wmma11 | Matrix::Wmma12 | Matrix::Wmma125 | Matrix::MmaSync => 0,
    }
}

fn all(b: &Bench, products: &[Product]) {
    products.iter().for_each(|product| product.check(b));
}

pub const CASES: &[Case] = &[
    Case::needing("mfma", |arch| generation(arch) >= 1, |b| all(b, MFMA)),
    Case::needing("mfma_old", |arch| matches!(generation(arch), 1 | 2), |b| all(b, MFMA_OLD)),
    Case::needing("mfma_2", |arch| generation(arch) >= 2, |b| all(b, MFMA_2)),
    Case::needing("mfma_3", |arch| generation(arch) >= 3, |b| all(b, MFMA_3)),
    Case::needing("mfma_xf32", |arch| generation(arch) == 3, |b| all(b, MFMA_XF32)),
    Case::needing("mfma_4", |arch| generation(arch) >= 4, |b| all(b, MFMA_4)),
    Case::needing("wmma_11", |arch| arch.matrix == Matrix::Wmma11, |b| all(b, WMMA_11)),
    Case::needing("wmma_12", |arch| arch.matrix == Matrix::Wmma12, |b| all(b, WMMA_12)),
    Case::needing("sparse_is_refused_by_name", |arch| generation(arch) >= 3, sparse),
];

fn sparse(b: &Bench) {
    let (pa, pb, pd) = (b.zeros::<u64>(64), b.zeros::<u64>(128), b.zeros::<u64>(128));
    let outcome = b.try_run("sparse", 1, 64, 0, args![pa, pb, pd, 0i32]);
    let message = outcome.map_or_else(|error: Error| error.to_string(), |_| "no error".to_owned());
    assert!(message.contains("v_smfmac_f32_16x16x32_f16"), "{message}");
}
