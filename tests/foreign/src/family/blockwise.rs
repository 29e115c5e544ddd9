//! bitsandbytes' kernels that bring numbers to blocks of 8 or 4 bits, each block with its largest size, and back.

use crate::bench::{Arguments, Bench, Unrun};
use crate::case::{Case, Object};
use crate::number::{Half, Random, distance};

/// What a number is before or after.
#[derive(Clone, Copy, Debug)]
enum Wide {
    F32,
    Half(Half),
}

/// A code: a table of 256 values, or four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Table,
    Fp4,
    Nf4,
}

/// The library's 4-bit floats; a fourth bit is the sign.
const FP4: [f64; 8] = [0.0, 5.208_333_333e-3, 0.666_666_67, 1.0, 0.333_333_33, 0.5, 0.166_666_67, 0.25];
/// Quantiles of the normal distribution.
const NF4: [f64; 16] = [
    -1.0,
    -0.696_192_800_998_687_7,
    -0.525_073_051_452_636_7,
    -0.394_917_488_098_144_5,
    -0.284_441_381_692_886_35,
    -0.184_773_430_228_233_34,
    -0.091_050_036_251_544_95,
    0.0,
    0.079_580_299_556_255_34,
    0.160_930_201_411_247_25,
    0.246_112_301_945_686_34,
    0.337_915_241_718_292_24,
    0.440_709_829_330_444_34,
    0.562_617_003_917_694_1,
    0.722_956_836_223_602_3,
    1.0,
];

impl Code {
    fn values(self) -> Vec<f64> {
        match self {
            Code::Table => (0..256).map(|i| f64::from((-1.0 + 2.0 * f64::from(i) / 255.0) as f32)).collect(),
            Code::Fp4 => FP4.iter().copied().chain(FP4.iter().map(|value| -value)).collect(),
            Code::Nf4 => NF4.to_vec(),
        }
    }

    /// The codes in bytes: of two of four bits the first is the upper half.
    fn codes(self, bytes: &[u8]) -> Vec<usize> {
        match self {
            Code::Table => bytes.iter().map(|&byte| usize::from(byte)).collect(),
            _ => bytes.iter().flat_map(|&byte| [usize::from(byte >> 4), usize::from(byte & 15)]).collect(),
        }
    }

    fn number(self) -> usize {
        self as usize
    }

    fn per_byte(self) -> usize {
        if self == Code::Table { 1 } else { 2 }
    }
}

impl Wide {
    fn mangled(self) -> &'static str {
        match self {
            Wide::F32 => "f",
            Wide::Half(Half::F16) => "6__half",
            Wide::Half(Half::Bf16) => "14__hip_bfloat16",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Wide::F32 => "f32",
            Wide::Half(Half::F16) => "f16",
            Wide::Half(Half::Bf16) => "bf16",
        }
    }

    fn bytes(self) -> usize {
        if matches!(self, Wide::F32) { 4 } else { 2 }
    }

    fn read(self, bench: &Bench, address: u64, count: usize) -> Result<Vec<f64>, Unrun> {
        Ok(match self {
            Wide::F32 => bench.download::<f32>(address, count)?.into_iter().map(f64::from).collect(),
            Wide::Half(half) => half.values(&bench.download(address, count)?),
        })
    }

    /// Values on the device, and what they are there.
    fn write(self, bench: &Bench, values: &[f64]) -> Result<(u64, Vec<f64>), Unrun> {
        Ok(match self {
            Wide::F32 => {
                let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
                (bench.upload(&narrow)?, narrow.into_iter().map(f64::from).collect())
            }
            Wide::Half(half) => {
                let (bits, values) = half.rounded(values);
                (bench.upload(&bits)?, values)
            }
        })
    }
}

const WIDES: [Wide; 3] = [Wide::F32, Wide::Half(Half::F16), Wide::Half(Half::Bf16)];
const CODES: [Code; 3] = [Code::Table, Code::Fp4, Code::Nf4];
/// Sizes of a block, and how many numbers a thread of it has.
const BLOCKS: [(usize, usize); 4] = [(64, 2), (256, 2), (1024, 4), (4096, 4)];

/// The cases of a code object: it has many kernels.
pub fn cases(object: &Object) -> Vec<Case> {
    // The second translation unit has no such kernels.
    if object.name != "bitsandbytes/0" {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for (wide, code) in WIDES.into_iter().flat_map(|wide| CODES.map(|code| (wide, code))) {
        let back = if matches!(wide, Wide::F32) { "S0_" } else { "S1_" };
        let (t, number) = (wide.mangled(), code.number());
        let case = |kernel: String, title: String, shape: String, tolerance, run| Case {
            object: Object { kernel: Some(kernel), name: format!("bitsandbytes/{title}"), ..object.clone() },
            family: "bitsandbytes",
            shape,
            tolerance,
            is_checked: true,
            run,
        };
        let kernel = format!("_Z20kDequantizeBlockwiseI{t}Li512ELi64ELi8ELi{number}EEvPfPh{back}PT_ii");
        let title = format!("kDequantizeBlockwise<{}, {code:?}>", wide.name());
        let tolerance = match wide {
            Wide::F32 => 1e-6,
            Wide::Half(Half::F16) => 6e-4,
            Wide::Half(Half::Bf16) => 4e-3,
        };
        // Of four bits, threads behind the last number read sizes behind the last block.
        let rooms: &[usize] = if code == Code::Table { &[0] } else { &[0, 8] };
        for &room in rooms {
            let run = Box::new(move |bench: &Bench| dequantise(bench, wide, code, room));
            let behind = if room > 0 { ", room behind the sizes" } else { "" };
            let shape = format!("{NUMBERS} in blocks of {BLOCK}{behind}");
            cases.push(case(kernel.clone(), title.clone(), shape, tolerance, run as _));
        }
        for (block, each) in BLOCKS {
            let kernel = format!("_Z18kQuantizeBlockwiseI{t}Li{block}ELi{each}ELi0ELi{number}EEvPfPT_{back}Ph{back}ii");
            let title = format!("kQuantizeBlockwise<{}, {block}, {code:?}>", wide.name());
            let run = Box::new(move |bench: &Bench| quantise(bench, wide, code, (block, each)));
            cases.push(case(kernel, title, format!("{} in blocks of {block}", 2 * block + 22), 1e-6, run as _));
        }
    }
    cases
}

/// Numbers that are brought back, and of a block.
const NUMBERS: usize = 1500;
const BLOCK: usize = 128;
/// Numbers of a workgroup of 64.
const TILE: usize = 512;

fn table(bench: &Bench, code: Code) -> Result<u64, Unrun> {
    let values: Vec<f32> = code.values().iter().map(|&value| value as f32).collect();
    bench.upload(&values)
}

fn dequantise(bench: &Bench, wide: Wide, code: Code, room: usize) -> Result<f64, Unrun> {
    let mut random = Random::new(40);
    let bytes = random.bytes(NUMBERS / code.per_byte());
    let largest: Vec<f32> = (0..NUMBERS.div_ceil(BLOCK)).map(|_| 0.5 + random.uniform() as f32).collect();
    let out = bench.output(wide.bytes() * NUMBERS)?;
    let arguments = Arguments::new(bench.argument_bytes())
        .pointers(&[
            (0, table(bench, code)?),
            (8, bench.upload(&bytes)?),
            (16, bench.upload_with_room(&largest, 4 * room)?),
            (24, out),
        ])
        .words(&[(32, BLOCK / code.per_byte()), (36, NUMBERS)]);
    bench.launch([NUMBERS.div_ceil(TILE * code.per_byte()), 1, 1], 64, &arguments)?;
    let values = code.values();
    let codes = code.codes(&bytes);
    let value = |(at, code): (usize, &usize)| values[*code] * f64::from(largest[at / BLOCK]);
    let reference: Vec<f64> = codes.iter().enumerate().map(value).collect();
    Ok(distance(&wide.read(bench, out, NUMBERS)?, &reference))
}

fn quantise(bench: &Bench, wide: Wide, code: Code, (block, each): (usize, usize)) -> Result<f64, Unrun> {
    let count = 2 * block + 22;
    let (x, values) = wide.write(bench, &Random::new(41).normals(count, 1.0))?;
    let blocks = count.div_ceil(block);
    let (largest, out) = (bench.output(4 * blocks)?, bench.output(count / code.per_byte())?);
    let arguments = Arguments::new(bench.argument_bytes())
        .pointers(&[(0, table(bench, code)?), (8, x), (16, largest), (24, out)])
        .words(&[(44, count)]);
    bench.launch([blocks, 1, 1], (block / each) as u32, &arguments)?;
    let found = code.codes(&bench.download::<u8>(out, count / code.per_byte())?);
    let (codes, mut reference, mut nearest) = (code.values(), Vec::new(), Vec::new());
    for (values, found) in values.chunks(block).zip(found.chunks(block)) {
        let size = values.iter().fold(0.0f64, |size, value| size.max(value.abs()));
        reference.push(size);
        // How much farther the code that was taken is than the nearest one.
        for (value, found) in values.iter().zip(found) {
            let far = |code: f64| (value / size - code).abs();
            let least = codes.iter().map(|&code| far(code)).fold(f64::INFINITY, f64::min);
            nearest.push(far(codes[*found]) - least);
        }
    }
    let sizes: Vec<f64> = bench.download::<f32>(largest, blocks)?.into_iter().map(f64::from).collect();
    Ok(nearest.into_iter().fold(distance(&sizes, &reference), f64::max))
}
