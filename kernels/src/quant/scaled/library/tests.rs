//! What libraries are told of products, and what is done before and behind theirs, on an emulated device.

use rocfire_hal::{Config, Device, DeviceId};

use super::super::end::EndCodes;
use super::*;
use crate::testing::device;

fn emulated(arch: &str) -> Device {
    Device::open(DeviceId::emulated(arch).unwrap(), Config::from_env().unwrap()).unwrap()
}

/// Codes and scales of a side, and how they are scaled.
struct Rows {
    codes: Tensor,
    scales: Tensor,
    format: Format,
    kind: ScaleKind,
    block: [usize; 2],
}

impl Rows {
    fn new(device: &Device, format: Format, [rows, k]: [usize; 2], block: [usize; 2], kind: ScaleKind) -> Rows {
        let codes = Tensor::empty(device, &[rows, k * format.bits() / 8], DType::U8).unwrap();
        let scales = Tensor::empty(device, &[rows.div_ceil(block[0]), k.div_ceil(block[1])], kind.dtype()).unwrap();
        Rows { codes, scales, format, kind, block }
    }

    fn side(&self) -> Side<'_> {
        let &Rows { format, kind, block, .. } = self;
        let (codes, scales) = (self.codes.view(), self.scales.view());
        let &[rows, bytes] = codes.shape() else { unreachable!("two axes") };
        let (k, row_bytes) = (bytes * 8 / format.bits(), codes.layout().strides()[0]);
        Side { format, codes, rows, k, row_bytes, laid_out: false, scales, kind, block }
    }
}

/// The blocks and kind of a way of scaling `rows` of `k` codes.
type Scaled = fn([usize; 2]) -> ([usize; 2], ScaleKind);

const TENSOR: Scaled = |shape| (shape, ScaleKind::F32);
const LINE: Scaled = |[_, k]| ([1, k], ScaleKind::F32);
const RUN: Scaled = |_| ([1, 128], ScaleKind::F32);
const SQUARE: Scaled = |_| ([128, 128], ScaleKind::F32);
const MX: Scaled = |_| ([1, 32], ScaleKind::E8M0);

/// The ways of a product, and what each is described as into `output`.
fn told(
    arch: &str,
    formats: [Format; 2],
    scaled: [Scaled; 2],
    [m, n, k]: [usize; 3],
    output: DType,
) -> Vec<(Way, Option<Product>)> {
    let device = emulated(arch);
    let shapes = [[m, k], [n, k]];
    let [a, b] = [0, 1].map(|side: usize| {
        let (block, kind) = scaled[side](shapes[side]);
        Rows::new(&device, formats[side], shapes[side], block, kind)
    });
    let (a, b) = (a.side(), b.side());
    let c = Tensor::empty(&device, &[m, n], output).unwrap();
    let job = Job { stream: device.stream(), a: &a, b: &b, size: [m, n, k], end: ScaledEnd::default() };
    job.ways().map(|way| (way, job.described(way, Ending::NONE, &c.view()))).collect()
}

const SIZE: [usize; 3] = [48, 96, 512];
const FNUZ: [Format; 2] = [Format::E4M3Fnuz; 2];

#[test]
fn scales_are_told_as_libraries_name_them_and_sums_come_second() {
    use Scaling::{Block128, Line, Mx32, Run128, Tensor as All};
    let bf16 = DType::BF16;
    for (scaled, expected, has_sums) in [
        ([TENSOR, TENSOR], [All; 2], true),
        ([LINE, LINE], [Line; 2], true),
        ([LINE, TENSOR], [Line; 2], true),
        ([RUN, SQUARE], [Run128, Block128], false),
        ([SQUARE, RUN], [Block128, Run128], false),
        ([RUN, RUN], [Run128; 2], false),
    ] {
        let told = told("gfx942", FNUZ, scaled, SIZE, bf16);
        let (way, product) = told[0];
        assert_eq!(way, Way::Scaled(expected));
        let product = product.unwrap();
        let coded = Coded { codes: [Code::E4M3Fnuz; 2], scaling: expected };
        assert_eq!((product.input, product.coded, product.output), (DType::U8, Some(coded), bf16));
        assert_eq!([product.m, product.n, product.k], SIZE);
        assert_eq!([product.a.leading, product.b.leading, product.c.leading], [512, 512, 96]);
        assert!(product.a.along_k && product.b.along_k);
        assert_eq!(told.len(), 1 + usize::from(has_sums));
        if let Some(&(way, product)) = told.get(1) {
            let product = product.unwrap();
            assert_eq!((way, product.output), (Way::Sums, DType::F32));
            assert_eq!(product.coded.unwrap().scaling, [Scaling::None; 2]);
        }
    }
    let mx = told("gfx950", [Format::E4M3, Format::E2M1], [MX, MX], SIZE, bf16);
    assert_eq!(mx[0].0, Way::Scaled([Mx32; 2]));
    assert_eq!(mx[0].1.unwrap().coded.unwrap().codes, [Code::E4M3, Code::E2M1]);
    assert!(told("gfx950", [Format::E4M3; 2], [SQUARE, SQUARE], SIZE, bf16).is_empty(), "no library has it");
}

#[test]
fn what_follows_is_the_librarys_where_it_may_have_that_end_and_else_behind_sums_in_f32() {
    let device = emulated("gfx942");
    let [m, n, k] = SIZE;
    let side = |rows| Rows::new(&device, Format::E4M3Fnuz, [rows, k], [rows, k], ScaleKind::F32);
    let (a, b) = (side(m), side(n));
    let (a, b) = (a.side(), b.side());
    let tensor = |dtype| Tensor::empty(&device, &[2 * n], dtype).unwrap();
    let (half, float) = (tensor(DType::BF16), tensor(DType::F32));
    let one = Tensor::empty(&device, &[1], DType::F32).unwrap();
    let of = |bias: &Tensor, step: i64, format: Option<Format>, scaling: Scaling| {
        let lies = Layout::strided(&[n], &[step], 0).unwrap();
        let bias = bias.view().with_layout(lies).unwrap();
        let codes = format.map(|format| EndCodes { format, scale: one.view() });
        let end = ScaledEnd { bias: Some(bias), activation: EndActivation::Relu, codes };
        let output = if codes.is_some() { DType::U8 } else { DType::BF16 };
        let c = Tensor::empty(&device, &[m, n], output).unwrap();
        let job = Job { stream: device.stream(), a: &a, b: &b, size: SIZE, end };
        let way = Way::Scaled([scaling; 2]);
        let behind = job.described(way, Ending::Behind, &c.view()).unwrap();
        assert_eq!((behind.output, behind.end, behind.c.leading), (DType::F32, End::default(), n as i64));
        assert!(job.library_end(Way::Sums, output).is_none());
        let end = job.library_end(way, output)?;
        let own = job.described(way, Ending::Library(end), &c.view()).unwrap();
        assert_eq!((own.output, own.end), (output, end));
        Some(end)
    };
    let bias = Some(DType::BF16);
    let expected = |code| Some(End { bias, activation: EndActivation::Relu, code });
    assert_eq!(of(&half, 1, None, Scaling::Tensor), expected(None));
    assert_eq!(of(&half, 1, None, Scaling::Line), expected(None));
    assert_eq!(of(&half, 1, Some(Format::E4M3Fnuz), Scaling::Tensor), expected(Some(Code::E4M3Fnuz)));
    assert_eq!(of(&half, 1, Some(Format::E4M3Fnuz), Scaling::Line), None, "codes next to scales by line");
    assert_eq!(of(&half, 1, Some(Format::I8), Scaling::Tensor), None, "whole numbers");
    assert_eq!(of(&half, 2, None, Scaling::Tensor), None, "a bias with a stride");
    assert_eq!(of(&float, 1, None, Scaling::Tensor), None, "a bias that would be rounded");
}

#[test]
fn bytes_give_sums_that_hold_every_product() {
    let told = |k: usize, scaled: Scaled| told("gfx942", [Format::I8; 2], [scaled; 2], [32, 16, k], DType::F32);
    let [(way, Some(product))] = told(2048, LINE)[..] else { panic!("one way") };
    assert_eq!(way, Way::Sums);
    assert_eq!((product.input, product.coded, product.output), (DType::I8, None, DType::I32));
    assert!(told(1024, LINE).is_empty(), "short sums are ours");
    assert!(told(2048, RUN).is_empty(), "and blocks");
    assert!(told(BYTES_K_END - 16, TENSOR)[0].1.is_some());
    assert!(told(BYTES_K_END, TENSOR).is_empty(), "may not fit");
}

#[test]
fn what_libraries_do_not_take_is_not_described() {
    let none = |arch: &str, formats: [Format; 2], scaled: Scaled, size: [usize; 3], why: &str| {
        let told = told(arch, formats, [scaled; 2], size, DType::BF16);
        assert!(told.iter().all(|(_, product)| product.is_none()), "{why}: {told:?}");
    };
    none("gfx942", [Format::E4M3; 2], LINE, SIZE, "the other kind");
    none("gfx1100", [Format::E4M3; 2], LINE, SIZE, "no products of it");
    none("gfx942", [Format::E4M3Fnuz, Format::I4], LINE, SIZE, "mixed");
    none("gfx1201", [Format::E4M3; 2], MX, SIZE, "no unit of the scales");
    none("gfx950", [Format::E4M3; 2], MX, [48, 96, 320], "no whole 128 along K");
    none("gfx942", FNUZ, LINE, [48, 96, 520], "no whole 16 along K");
    none("gfx942", FNUZ, LINE, [48, 100, 512], "no whole 16 columns");
    none("gfx942", FNUZ, RUN, [46, 96, 512], "no whole four rows");
    none("gfx942", [Format::I8; 2], LINE, [48, 96, 2050], "no whole four along K");
    assert!(told("gfx942", FNUZ, [LINE; 2], [46, 96, 512], DType::BF16)[0].1.is_some(), "rows of one scale are any");
}

#[test]
fn rows_of_codes_and_results_lie_as_their_strides_say() {
    let device = emulated("gfx942");
    let (a, b) = (
        Rows::new(&device, Format::E4M3Fnuz, [16, 544], [1, 512], ScaleKind::F32),
        Rows::new(&device, Format::E4M3Fnuz, [32, 512], [1, 512], ScaleKind::F32),
    );
    let (mut a, b) = (a.side(), b.side());
    let of = |a: &Side<'_>, b: &Side<'_>, layout: Layout| {
        let c = Tensor::empty(&device, &[16 * 64], DType::F16).unwrap().with_layout(layout).unwrap();
        let job = Job { stream: device.stream(), a, b, size: [16, 32, 512], end: ScaledEnd::default() };
        job.described(Way::Scaled([Scaling::Line; 2]), Ending::NONE, &c.view())
    };
    let layout = |strides: [i64; 2]| Layout::strided(&[16, 32], &strides, 0).unwrap();
    let product = of(&a, &b, layout([48, 1])).unwrap();
    assert_eq!([product.a.leading, product.b.leading, product.c.leading], [544, 512, 48]);
    assert!(of(&a, &b, layout([1, 16])).is_none(), "columns of C");
    let laid_out = Side { laid_out: true, ..b };
    assert!(of(&a, &laid_out, layout([32, 1])).is_none(), "a weight in tiles");
    a.row_bytes = 520;
    assert!(of(&a, &laid_out, layout([32, 1])).is_none(), "rows that are not aligned");
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    let whole = Tensor::from_buffer(
        tensor.buffer().clone(),
        Layout::contiguous(&[tensor.buffer().bytes() as usize / 4]).unwrap(),
        DType::F32,
    );
    let bytes = whole.unwrap().to_bytes().unwrap();
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn f32s(device: &Device, shape: &[usize], values: impl Iterator<Item = f32>) -> Tensor {
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    Tensor::from_bytes(device, shape, DType::F32, &bytes).unwrap()
}

#[test]
fn scales_are_copied_to_where_the_library_looks_for_them() {
    let device = device();
    let stream = device.stream();
    let rows =
        |format, shape, block, scales| Rows { scales, ..Rows::new(&device, format, shape, block, ScaleKind::F32) };
    // Three runs of 128 along K, lines next to each other.
    let runs = f32s(&device, &[5, 3], (0..15u8).map(f32::from));
    let of = rows(Format::E4M3, [5, 384], [1, 128], runs);
    let made = prepared(stream, &of.side(), Scaling::Run128).unwrap();
    assert_eq!(floats(&made), [0.0, 3.0, 6.0, 9.0, 12.0, 1.0, 4.0, 7.0, 10.0, 13.0, 2.0, 5.0, 8.0, 11.0, 14.0]);
    // Squares: a row is filled up to four.
    let squares = f32s(&device, &[2, 3], (1..7u8).map(f32::from));
    let of = rows(Format::E4M3, [200, 384], [128, 128], squares);
    let made = prepared(stream, &of.side(), Scaling::Block128).unwrap();
    assert_eq!(floats(&made), [1.0, 2.0, 3.0, 0.0, 4.0, 5.0, 6.0, 0.0]);
    // One for all, for each line.
    let one = f32s(&device, &[1, 1], [0.5].into_iter());
    let of = rows(Format::E4M3, [3, 64], [3, 64], one);
    let made = prepared(stream, &of.side(), Scaling::Line).unwrap();
    assert_eq!(floats(&made), [0.5; 3]);
    // As they should be: no copy.
    let made = prepared(stream, &of.side(), Scaling::Tensor).unwrap();
    assert_eq!(made.view().device_address(), of.scales.view().device_address());
    let four = f32s(&device, &[2, 4], (0..8u8).map(f32::from));
    let of = rows(Format::E4M3, [200, 512], [128, 128], four);
    let made = prepared(stream, &of.side(), Scaling::Block128).unwrap();
    assert_eq!(made.view().device_address(), of.scales.view().device_address());
    // Of another type.
    let halves: Vec<u8> = [1.5, -2.0].iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect();
    let scales = Tensor::from_bytes(&device, &[2, 1], DType::BF16, &halves).unwrap();
    let of = Rows { scales, ..Rows::new(&device, Format::E4M3, [2, 64], [1, 64], ScaleKind::BF16) };
    let made = prepared(stream, &of.side(), Scaling::Line).unwrap();
    assert_eq!(floats(&made), [1.5, -2.0]);
}

#[test]
fn sums_are_scaled_by_row_and_by_column() {
    let device = device();
    let stream = device.stream();
    let words: Vec<u8> = (-6i32..6).flat_map(i32::to_le_bytes).collect();
    let whole = Tensor::from_bytes(&device, &[3, 4], DType::I32, &words).unwrap();
    let float = f32s(&device, &[3, 4], (-6i8..6).map(f32::from));
    let rows = f32s(&device, &[3, 1], [1.0, 0.5, 4.0].into_iter());
    let cols = f32s(&device, &[4, 1], [1.0, 2.0, 0.25, 8.0].into_iter());
    let one = f32s(&device, &[1, 1], [2.0].into_iter());
    for sums in [&whole, &float] {
        for (a, b) in [(&rows, &cols), (&one, &cols), (&rows, &one), (&one, &one)] {
            let mut c = Tensor::empty(&device, &[3, 4], DType::F32).unwrap();
            scale(stream, sums, [a.view(), b.view()], c.view_mut()).unwrap();
            let (a, b) = (floats(a), floats(b));
            let of = |at: usize| (at as f32 - 6.0) * a[at / 4 % a.len()] * b[at % 4 % b.len()];
            assert_eq!(floats(&c), (0..12).map(of).collect::<Vec<f32>>());
        }
    }
}
