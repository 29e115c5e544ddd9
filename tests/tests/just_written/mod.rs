//! Weights that the launch ahead writes, on any device: a product of one row reads them before it waits for that launch, where there are
//! such launches, and must not then. The launch ahead is a product, too: it lets the next begin as soon as its own workgroups have.

use rocfire_hal::{DType, Device, DriverKind, Layout, Stream, Tensor, View};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{CodeLayout, CodedMatrix, Format, Gguf, GgufMatrices, gguf_matmul_grouped, q_matmul};
use rocfire_tests::Failure;

/// The test's name.
pub const NAME: &str = "weights_that_the_launch_ahead_writes_are_read_when_it_has_ended";

/// Pairs of a product that writes weights and one that reads them.
const TURNS: usize = 32;

type Product<'a> = &'a dyn Fn(&Stream, View<'_>, &Tensor, &mut Tensor) -> rocfire_kernels::Result<()>;

/// A kind of weights, and the product by them.
struct Weights<'a> {
    name: &'a str,
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
    product: Product<'a>,
}

/// The test.
pub fn test(device: &Device) -> Box<dyn FnOnce() -> Result<(), Failure> + Send> {
    let device = device.clone();
    Box::new(move || just_written(&device))
}

fn just_written(device: &Device) -> Result<(), Failure> {
    // On a card so many columns that writing takes longer than launching what comes behind.
    let is_card = matches!(device.id().driver(), DriverKind::Hip | DriverKind::Cuda);
    let side = if is_card { 4096 } else { 256 };
    let a: Vec<u16> = (0..side).map(|at| 0x3f80 + (at % 29) as u16 * 4).collect();
    let a = Tensor::from_bytes(device, &[1, side], DType::BF16, bytemuck::cast_slice(&a))?;
    let bounds = Tensor::from_bytes(device, &[2], DType::I32, bytemuck::cast_slice(&[0i32, 1]))?;
    let blocks = |stream: &Stream, a: View<'_>, w: &Tensor, c: &mut Tensor| {
        let w = GgufMatrices { blocks: w.view(), kind: Gguf::Q8_0 };
        gguf_matmul_grouped(stream, a, &w, &GemmGroups::Offsets(bounds.view()), c.view_mut())
    };
    let layout = CodeLayout::packed(Format::I8, 1, side);
    let words = |stream: &Stream, a: View<'_>, w: &Tensor, c: &mut Tensor| {
        q_matmul(stream, a, &CodedMatrix { words: w.view(), layout: &layout, scales: None }, c.view_mut())
    };
    // Blocks of 32 codes behind a scale of 16 bits; four codes a word.
    let line = side / Gguf::Q8_0.weights() * Gguf::Q8_0.bytes();
    let coded = |turn: usize| {
        (0..side * line).map(move |at| if at % 34 == 1 { 0x2c } else { (at / 7 % 11 * (turn + 1)) as u8 })
    };
    let packed = (0..side * side).map(|at| (at / 5 % 13) as u8);
    // Two that give other numbers of it, from 1 to 4: finite as scales of blocks, too.
    let source = |turn| Tensor::from_bytes(device, &[1, side, line], DType::U8, &coded(turn).collect::<Vec<u8>>());
    let sources = [source(0)?, source(1)?];
    let small = (127 - (side / 4).ilog2() as u16) << 7;
    let small = Tensor::from_bytes(device, &[1, side], DType::BF16, bytemuck::cast_slice(&vec![small; side]))?;
    let kinds = [
        Weights {
            name: "blocks",
            dtype: DType::U8,
            shape: vec![1, side, line],
            bytes: coded(0).collect(),
            product: &blocks,
        },
        Weights {
            name: "words",
            dtype: DType::U32,
            shape: vec![side, side / 4],
            bytes: packed.collect(),
            product: &words,
        },
    ];
    let stream = device.stream();
    for Weights { name, dtype, shape, bytes, product } in kinds {
        let weights = Tensor::from_bytes(device, &shape, dtype, &bytes)?;
        // Their first bytes as an output.
        let mut head = Tensor::from_buffer(weights.buffer().clone(), Layout::contiguous(&[1, side])?, DType::BF16)?;
        let mut run = |waits: bool| -> Result<Vec<Vec<u8>>, Failure> {
            let empty = || Tensor::empty(device, &[1, side], DType::BF16);
            let mut results = (0..TURNS).map(|_| empty()).collect::<Result<Vec<_>, _>>()?;
            for (turn, c) in results.iter_mut().enumerate() {
                blocks(stream, small.view(), &sources[turn % 2], &mut head)?;
                if waits {
                    stream.synchronize()?;
                }
                product(stream, a.view(), &weights, c)?;
            }
            Ok(results.iter().map(Tensor::to_bytes).collect::<Result<_, _>>()?)
        };
        let (expected, results) = (run(true)?, run(false)?);
        if expected[0] == expected[1] {
            return Err(format!("{name}: both weights give the same").into());
        }
        if let Some(turn) = (0..TURNS).find(|&turn| results[turn] != expected[turn]) {
            return Err(format!("{name}: product {turn} is of weights that were written before it").into());
        }
    }
    Ok(())
}
