//! Sorting.

use candle_kernels::SORT;

use crate::harness::{Arg, Data, assert_close, on_each_card, rows, sweeps, values};

sweeps! {
    rows_sort_stably_at_any_length,
}

fn rows_sort_stably_at_any_length() {
    on_each_card(|card| {
        for dtype in ["bf16", "f16", "f32", "f64", "u8", "u32", "i64", "i16", "i32"] {
            for order in ["asc", "desc"] {
                // The last is beyond what 64 KiB of LDS hold as Candle's kernel has it.
                let lengths: &[usize] = if dtype == "f32" { &[1, 33, 1000, 17000] } else { &[33, 1000] };
                for &columns in lengths {
                    let x = values(dtype, 2 * columns, 60);
                    let padded = columns.next_power_of_two();
                    let args = [
                        Arg::In(Data::new(dtype, &x)),
                        Arg::Out(Data::unwritten("u32", 2 * columns)),
                        Arg::Int(columns as u32),
                        Arg::Int(padded as u32),
                    ];
                    let mut config = rows(2, (padded.min(1024) as u32, 1, 1));
                    config.shared_mem_bytes = 4 * padded as u32;
                    let name = format!("asort_{order}_{dtype}");
                    let got = card.run(&SORT, &name, config, &args);
                    let sorted = |row: &[f64]| {
                        let mut places: Vec<usize> = (0..columns).collect();
                        // Candle's floats here are no NaN; its zeros of either sign are equal, and noise has one of them.
                        places.sort_by(|&a, &b| {
                            let order_of = row[a].partial_cmp(&row[b]).unwrap();
                            if order == "asc" { order_of } else { order_of.reverse() }
                        });
                        places.into_iter().map(|place| place as f64).collect::<Vec<_>>()
                    };
                    let expected: Vec<f64> = x.chunks_exact(columns).flat_map(sorted).collect();
                    assert_close(&format!("{name} of {columns} on {}", card.name), &got[0], &expected, 0.0);
                }
            }
        }
    });
}
