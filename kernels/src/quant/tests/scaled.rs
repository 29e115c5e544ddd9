//! Products of codes by codes: how a whole tile is stored.

use rocfire_hal::{DeviceId, Layout};

use super::*;

const ROWS: usize = 64;
const COLUMNS: usize = 128;
const DEPTH: usize = 128;

/// Scales of rows: what no sum of codes survives as a number, a NaN whose bits are all ones among it, and what bf16 rounds to infinity.
fn of_rows() -> Vec<f32> {
    let odd = [f32::from_bits(0x7fff_ffff), f32::from_bits(0xffff_ffff), f32::NAN, f32::INFINITY, 3.39e38, -0.0, 1e-45];
    (0..ROWS).map(|row| if row % 3 == 0 { odd[row / 3 % odd.len()] } else { 0.25 + row as f32 }).collect()
}

#[test]
fn a_tile_has_the_same_bits_wherever_its_rows_lie() {
    for card in ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"] {
        let device = Device::get(DeviceId::emulated(card).unwrap()).unwrap();
        let stream = device.stream();
        let codes = |rows: usize| -> Vec<u8> { (0..rows * DEPTH).map(|at| (at * 7 + at / DEPTH) as u8).collect() };
        let a = upload(&device, &[ROWS, DEPTH], DType::U8, &codes(ROWS));
        let w = upload(&device, &[COLUMNS, DEPTH], DType::U8, &codes(COLUMNS));
        let a_scales = upload(&device, &[ROWS, 1], DType::F32, &of_rows());
        let w_scales = upload(&device, &[COLUMNS, 1], DType::F32, &vec![0.5f32; COLUMNS]);
        let (format, kind, block) = (Format::I8, ScaleKind::F32, [1, DEPTH]);
        let weight = Preshuffled::new(stream, format, &w).unwrap();
        for dtype in [DType::BF16, DType::F16, DType::F32] {
            // Rows in whole vectors, and rows that lie an element further apart.
            let [dense, apart] = [COLUMNS, COLUMNS + 1].map(|row| {
                let mut c = Tensor::empty(&device, &[ROWS, row], dtype).unwrap();
                let layout = Layout::strided(&[ROWS, COLUMNS], &[row as i64, 1], 0).unwrap();
                let of_a = CodedRows { format, codes: a.view(), scales: a_scales.view(), kind, block };
                let of_b = PreshuffledRows { weight: &weight, scales: w_scales.view(), kind, block };
                q_matmul_preshuffled(stream, &of_a, &of_b, c.view_mut().with_layout(layout).unwrap()).unwrap();
                let bytes = c.to_bytes().unwrap();
                let line = row * dtype.size_bytes();
                bytes.chunks(line).flat_map(|line| line[..COLUMNS * dtype.size_bytes()].to_vec()).collect::<Vec<u8>>()
            });
            let line = COLUMNS * dtype.size_bytes();
            for (row, (one, other)) in dense.chunks(line).zip(apart.chunks(line)).enumerate() {
                assert!(one == other, "{card}, {dtype:?}, row {row}");
            }
            if dtype == DType::BF16 {
                let of = |row: usize| dense[row * line..].iter().copied().take(line).collect::<Vec<u8>>();
                let values = |row: usize| -> Vec<f32> {
                    of(row).chunks(2).map(|two| f32::from_bits(u32::from_le_bytes([0, 0, two[0], two[1]]))).collect()
                };
                for row in [0, 3, 6] {
                    assert!(values(row).iter().all(|x| x.is_nan()), "{card}, row {row} of a NaN");
                }
                assert!(values(1).iter().all(|x| x.is_finite()), "{card}, a row of numbers");
                assert!(values(12).iter().any(|x| x.is_infinite()), "{card}, a row beyond bf16");
            }
        }
    }
}
