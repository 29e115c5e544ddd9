use rocfire_hal::{Config, DeviceId, Layout, Stream};

use super::super::{CodedRows, CodedWeight, NAMES_OF_A, ScaledEnd, check, plain_side, weight_side};
use super::*;
use crate::quant::{EndActivation, Preshuffled, PreshuffledRows, explain_preshuffled};

/// A product whose tensors are these.
struct Asked {
    device: Device,
    size: [usize; 3],
    formats: [Format; 2],
    kind: ScaleKind,
    /// Codes that share a scale.
    along: usize,
    output: DType,
    /// Bytes behind a row of A, elements behind one of C, and bytes ahead of A.
    gaps: [usize; 3],
    activation: EndActivation,
}

impl Asked {
    /// One that the kernels take.
    fn taken() -> Asked {
        Asked {
            device: on("gfx950", Config::default().with_aiter_codes(true)),
            size: [256, 4096, 512],
            formats: [Format::E2M1; 2],
            kind: ScaleKind::E8M0,
            along: 32,
            output: DType::BF16,
            gaps: [0; 3],
            activation: EndActivation::None,
        }
    }

    /// Codes and scales of a side.
    fn side(&self, side: usize, rows: usize, [gap, ahead]: [usize; 2]) -> [Tensor; 2] {
        let (k, made) = (self.size[2], |shape: &[usize], dtype| Tensor::empty(&self.device, shape, dtype).unwrap());
        let bytes = k * self.formats[side].bits() / 8;
        let all = made(&[rows * (bytes + gap) + ahead], DType::U8);
        let layout = Layout::strided(&[rows, bytes], &[(bytes + gap) as i64, 1], ahead as i64).unwrap();
        [all.with_layout(layout).unwrap(), made(&[rows, k.div_ceil(self.along)], self.kind.dtype())]
    }

    /// What speaks against it, else the tile; and in words, what is taken.
    fn found(&self) -> (std::result::Result<[u32; 2], &'static str>, String) {
        let ([m, n, k], [codes, behind, ahead]) = (self.size, self.gaps);
        let ([a, a_scales], [b, b_scales]) = (self.side(0, m, [codes, ahead]), self.side(1, n, [0; 2]));
        let c = Tensor::empty(&self.device, &[m, n + behind], self.output).unwrap();
        let mut c = c.with_layout(c.layout().slice(1, 0, n, 1).unwrap()).unwrap();
        let stream: &Stream = self.device.stream();
        let weight = Preshuffled::new(stream, self.formats[1], &b).unwrap();
        let (kind, block) = (self.kind, [1, self.along]);
        let a = CodedRows { format: self.formats[0], codes: a.view(), scales: a_scales.view(), kind, block };
        let b = PreshuffledRows { weight: &weight, scales: b_scales.view(), kind, block };
        let told = explain_preshuffled(&self.device, &a, &b, c.view()).unwrap();
        let c = c.view_mut();
        let a = plain_side(OP, stream, NAMES_OF_A, &a, &c).unwrap();
        let b = weight_side(stream, &CodedWeight::LaidOut(b), &c).unwrap();
        assert_eq!(check(&a, &b, &c).unwrap(), [m, n, k]);
        let end = ScaledEnd { activation: self.activation, ..ScaledEnd::default() };
        let job = Job { stream, a: &a, b: &b, size: [m, n, k], end };
        (Theirs::of(&job, &c).map(|theirs| [theirs.tile.rows, theirs.tile.columns]), told)
    }
}

fn on(arch: &str, config: Config) -> Device {
    Device::open(DeviceId::emulated(arch).unwrap(), config).unwrap()
}

fn with(change: fn(&mut Asked)) -> std::result::Result<[u32; 2], &'static str> {
    let mut asked = Asked::taken();
    change(&mut asked);
    asked.found().0
}

#[test]
fn what_the_kernels_do_not_compute_is_ours() {
    assert_eq!(with(|_| ()), Ok([32, 128]));
    assert_eq!(with(|asked| asked.size[2] = 32), Ok([32, 128]));
    let formats = Err("not E2M1 by E2M1");
    assert_eq!(with(|asked| asked.formats[0] = Format::E4M3), formats);
    assert_eq!(with(|asked| asked.formats[1] = Format::E4M3), formats);
    let scales = Err("scales are not exponents by 32 of K");
    assert_eq!(with(|asked| asked.along = 64), scales);
    assert_eq!(with(|asked| asked.kind = ScaleKind::F32), scales);
    assert_eq!(with(|asked| asked.output = DType::F16), Err("the result is not bf16"));
    assert_eq!(with(|asked| asked.activation = EndActivation::Silu), Err("something follows the product"));
    assert_eq!(with(|asked| asked.size[2] = 80), Err("K is not in whole blocks of 32"));
    let units = Err("fewer tiles of 32 x 128 than compute units");
    assert_eq!(with(|asked| asked.size[0] = 224), units);
    assert_eq!(with(|asked| asked.size[1] = 64), units);
    assert_eq!(with(|asked| asked.size[1] = 4160), Err("columns are not in whole tiles"));
    let not_asked = |asked: &mut Asked| asked.device = on("gfx950", Config::default().with_aiter(true));
    let bits = "bits would not be those of a weight in rows, which ROCFIRE_AITER_CODES=1 allows";
    assert_eq!(with(not_asked), Err(bits));
    let in_rows = |asked: &mut Asked| {
        asked.device = on("gfx950", Config::default().with_aiter_codes(true).with_preshuffle(false));
    };
    assert_eq!(with(in_rows), Err("the weight is not laid out"));
    let elsewhere = |asked: &mut Asked| asked.device = on("gfx942", Config::default().with_aiter_codes(true));
    assert_eq!(with(elsewhere), Err("none is known to be right for the card"));
}

#[test]
fn rows_may_be_apart_where_what_is_read_behind_them_is_theirs() {
    assert_eq!(with(|asked| asked.gaps = [16, 8, 16]), Ok([32, 128]));
    assert_eq!(with(|asked| asked.gaps[0] = 8), Err("rows of A are not whole vectors"));
    assert_eq!(with(|asked| asked.gaps[2] = 8), Err("rows of A are not whole vectors"));
    assert_eq!(with(|asked| asked.gaps[1] = 4), Err("rows of the result are not whole vectors"));
    let far = "rows lie further apart than 32 bits reach, overlap, or have room between them and no whole rounds of 256 codes";
    assert_eq!(with(|asked| (asked.size[2], asked.gaps[0]) = (288, 16)), Err(far));
    assert_eq!(with(|asked| (asked.size, asked.gaps) = ([1, 32768, 288], [8, 4, 0])), Ok([32, 128]), "one row");
    // 2^31 bytes with the rows that addresses are made for besides.
    assert_eq!(stride(1 << 20, 512, 2, 767), Some(1 << 20));
    assert_eq!(stride(1 << 20, 512, 2, 768), None);
    assert_eq!([stride(511, 512, 1, 3), stride(-512, 512, 1, 3), stride(i64::MAX, 1, 2, 1)], [None; 3]);
}

#[test]
fn it_says_what_is_taken() {
    let told = Asked::taken().found().1;
    assert!(told.contains("would go first, but ROCFIRE_AITER=0 or what it comes to"), "{told}");
    let mut asked = Asked::taken();
    asked.size[0] = 16;
    assert!(asked.found().1.contains("not for this: fewer tiles of 32 x 128 than compute units"));
}

#[test]
fn the_tile_with_the_least_rounds_of_work_is_taken() {
    let device = Asked::taken().device;
    let tile = |size| choose(product_tiles(&device), size, 256).map(|tile| [tile.rows, tile.columns]);
    assert_eq!(tile([4096, 4096]), Some([256, 256]), "each unit has one");
    assert_eq!(tile([2048, 4096]), Some([128, 256]));
    assert_eq!(tile([512, 4096]), Some([64, 128]));
    assert_eq!(tile([300, 7168]), Some([96, 128]), "224 of the 256 in one round");
    assert_eq!(tile([1, 131072]), Some([32, 512]), "one round for two of a half");
    assert_eq!(tile([4096, 4160]), None);
    let clocks = |rows, columns| clocks(ProductTile { rows, columns });
    assert_eq!([clocks(256, 256), clocks(128, 128), clocks(32, 128)], [65536, 16384, 10240], "the last reads longer");
}

/// Both sides, rows and blocks that are no whole tiles and such that are, strides of any kind: by the formula of `aiter/products.rs`.
#[test]
fn exponents_come_in_the_kernels_order() {
    let device = on("gfx950", Config::default());
    let stream = device.stream();
    for (m, n, columns, strides) in
        [(33, 64, 8, [8, 1]), (5, 100, 3, [3, 1]), (70, 16, 16, [24, 1]), (40, 33, 9, [1, 103]), (1, 32, 16, [9, 1])]
    {
        let exponents = |rows: usize, seed: usize| {
            let bytes: Vec<u8> = (0..rows * 200).map(|at| ((at * 37 + seed) % 251) as u8).collect();
            let all = Tensor::from_bytes(&device, &[rows * 200], DType::U8, &bytes).unwrap();
            let layout = Layout::strided(&[rows, columns], &strides, 0).unwrap();
            (all.with_layout(layout).unwrap(), bytes)
        };
        let k = columns * ALONG;
        let (a, b) = (exponents(m, 3), exponents(n, 5));
        let codes = |rows| Tensor::from_bytes(&device, &[rows, k / 2], DType::U8, &vec![0; rows * k / 2]).unwrap();
        let codes = [codes(m), codes(n)];
        let c = Tensor::empty(&device, &[m, n], DType::BF16).unwrap();
        let side = |side: usize, scales: &'static str| {
            let (format, kind, block) = (Format::E2M1, ScaleKind::E8M0, [1, ALONG]);
            let of = if side == 0 { &a } else { &b };
            let rows = CodedRows { format, codes: codes[side].view(), scales: of.0.view(), kind, block };
            plain_side(OP, stream, [scales; 3], &rows, &c.view()).unwrap()
        };
        let (of_a, of_b) = (side(0, "a"), side(1, "b"));
        let job = Job { stream, a: &of_a, b: &of_b, size: [m, n, k], end: ScaledEnd::default() };
        let got = Ordered::new(&job).unwrap().memory.to_bytes().unwrap();
        let across = columns.div_ceil(8);
        let mut want = Vec::new();
        for (rows, (_, bytes)) in [(m, &a), (n, &b)] {
            let mut tiles = vec![127; rows.div_ceil(32) * across * 256];
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let (r, c) = (row % 32, column % 8);
                let at = ((c % 4) * 16 + r % 16) * 4 + c / 4 * 2 + r / 16;
                tiles[(row / 32 * across + column / 8) * 256 + at] =
                    bytes[row * strides[0] as usize + column * strides[1] as usize];
            }
            want.extend(tiles);
        }
        assert!(got == want, "{m} and {n} rows of {columns}, strides {strides:?}");
    }
}
