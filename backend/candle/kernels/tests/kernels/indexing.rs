//! Index selects, gathers, scatters.

use candle_kernels::INDEXING;

use crate::harness::{Arg, Data, assert_close, elements, on_each_card, rounded, sweeps, values};

sweeps! {
    index_select_gives_zeros_for_ids_outside,
    gather_gives_zeros_for_ids_outside,
    scatters_pass_ids_outside_over_and_keep_the_order,
    many_ids_are_brought_in_order_too,
}

const DTYPES: [&str; 9] = ["bf16", "f16", "f32", "f64", "u8", "u32", "i64", "i16", "i32"];
const IDS: [&str; 3] = ["u8", "u32", "i64"];

/// The greatest number of a type of ids, which means that there is nothing; as a float it reads back as the type's own.
fn none(id: &str) -> f64 {
    match id {
        "u8" => 255.0,
        "u32" => f64::from(u32::MAX),
        _ => i64::MAX as f64,
    }
}

const LEFT: usize = 3;
const EXTENT: usize = 300;

fn index_select_gives_zeros_for_ids_outside() {
    on_each_card(|card| {
        for id in IDS {
            for dtype in DTYPES {
                let name = format!("is_{id}_{dtype}");
                for right in [1, 7, 32] {
                    let ids = [4.0, 0.0, none(id), 254.0, 4.0];
                    let x = values(dtype, LEFT * EXTENT * right, 20);
                    // Dense ids, and every other one of a longer list.
                    for stride in [1, 2] {
                        let stored: Vec<f64> = ids.iter().flat_map(|&id| vec![id; stride]).collect();
                        let count = LEFT * ids.len() * right;
                        let args = [
                            Arg::Size(count as u64),
                            Arg::Size(1),
                            Arg::Info(vec![ids.len(), stride]),
                            Arg::In(Data::new(id, &stored)),
                            Arg::In(Data::new(dtype, &x)),
                            Arg::Out(Data::unwritten(dtype, count)),
                            Arg::Size(LEFT as u64),
                            Arg::Size(EXTENT as u64),
                            Arg::Size(ids.len() as u64),
                            Arg::Size(right as u64),
                        ];
                        let got = card.run(&INDEXING, &name, elements(count), &args);
                        let of = |at: usize| {
                            let (row, column) = (at / right, at % right);
                            let (left, id) = (row / ids.len(), ids[row % ids.len()]);
                            if id > 254.0 { 0.0 } else { x[(left * EXTENT + id as usize) * right + column] }
                        };
                        let expected: Vec<f64> = (0..count).map(of).collect();
                        assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 0.0);
                    }
                }
            }
        }
    });
}

fn gather_gives_zeros_for_ids_outside() {
    const COLUMNS: usize = 4;
    const RIGHT: usize = 50;
    on_each_card(|card| {
        for id in IDS {
            for dtype in DTYPES {
                let name = format!("gather_{id}_{dtype}");
                let count = LEFT * COLUMNS * RIGHT;
                let mut ids: Vec<f64> = (0..count).map(|at| ((at * 37) % 250) as f64).collect();
                ids[5] = none(id);
                let x = values(dtype, LEFT * EXTENT * RIGHT, 21);
                let args = [
                    Arg::Size(count as u64),
                    Arg::In(Data::new(id, &ids)),
                    Arg::In(Data::new(dtype, &x)),
                    Arg::Out(Data::unwritten(dtype, count)),
                    Arg::Size(LEFT as u64),
                    Arg::Size(EXTENT as u64),
                    Arg::Size(COLUMNS as u64),
                    Arg::Size(RIGHT as u64),
                ];
                let got = card.run(&INDEXING, &name, elements(count), &args);
                let of = |at: usize| {
                    let left = at / (COLUMNS * RIGHT);
                    if ids[at] > 254.0 { 0.0 } else { x[(left * EXTENT + ids[at] as usize) * RIGHT + at % RIGHT] }
                };
                let expected: Vec<f64> = (0..count).map(of).collect();
                assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 0.0);
            }
        }
    });
}

/// Elements along the axis of what is scattered, and behind it.
const X_EXTENT: usize = 6;
const RIGHT: usize = 90;

/// Scatters in Candle's order with a rounding after each step; `shared` ids are one list for all lines, and sums by them are kept in
/// f32 and rounded at the end.
fn scattered(dtype: &'static str, ids: &[f64], shared: bool, add: bool, x: &[f64], out: &mut [f64]) {
    let running = if shared && dtype.ends_with("f16") { "f32" } else { dtype };
    for line in 0..LEFT * RIGHT {
        let (before, after) = (line / RIGHT, line % RIGHT);
        for j in 0..X_EXTENT {
            let from = (before * X_EXTENT + j) * RIGHT + after;
            let id = ids[if shared { j } else { from }];
            if id > 254.0 {
                continue;
            }
            let to = &mut out[(before * EXTENT + id as usize) * RIGHT + after];
            let sum = if add { *to + x[from] } else { x[from] };
            *to = if dtype == "u8" { sum.rem_euclid(256.0) } else { rounded(running, sum) };
        }
    }
    out.iter_mut().filter(|_| running != dtype).for_each(|sum| *sum = rounded(dtype, *sum));
}

fn scatters_pass_ids_outside_over_and_keep_the_order() {
    on_each_card(|card| {
        for (prefix, shared, add) in [("ia", true, true), ("s", false, false), ("sa", false, true)] {
            for id in IDS {
                for dtype in DTYPES {
                    let name = format!("{prefix}_{id}_{dtype}");
                    let count = LEFT * X_EXTENT * RIGHT;
                    let mut ids: Vec<f64> = (0..count).map(|at| ((at * 37 / 90) % 5) as f64).collect();
                    ids[3] = none(id);
                    if shared {
                        ids.truncate(X_EXTENT);
                    }
                    let x = values(dtype, count, 22);
                    let before = values(dtype, LEFT * EXTENT * RIGHT, 23);
                    let mut args = vec![Arg::In(Data::new(id, &ids))];
                    args.extend(shared.then_some(Arg::Size(X_EXTENT as u64)));
                    args.extend([
                        Arg::In(Data::new(dtype, &x)),
                        Arg::Out(Data::new(dtype, &before)),
                        Arg::Size(LEFT as u64),
                        Arg::Size(X_EXTENT as u64),
                        Arg::Size(EXTENT as u64),
                        Arg::Size(RIGHT as u64),
                    ]);
                    let got = card.run(&INDEXING, &name, elements(LEFT * RIGHT), &args);
                    let mut expected = before.clone();
                    scattered(dtype, &ids, shared, add, &x, &mut expected);
                    assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 0.0);
                }
            }
        }
    });
}

/// So many ids, for so few lines, that they are sorted before they are followed; the greatest of bytes is a place of the axis, too.
fn many_ids_are_brought_in_order_too() {
    const COUNT: usize = 2049;
    const ROWS: usize = 263;
    on_each_card(|card| {
        for (prefix, shared, add) in [("ia", true, true), ("s", false, false), ("sa", false, true)] {
            for (id, dtype) in [("u8", "f16"), ("u32", "f32"), ("i64", "bf16"), ("u8", "i64"), ("u32", "u8")] {
                let name = format!("{prefix}_{id}_{dtype}");
                let mut ids: Vec<f64> = (0..COUNT).map(|at| ((at * 37 + at / 7) % 255) as f64).collect();
                ids.iter_mut().step_by(11).for_each(|given| *given = none(id));
                let (x, before) = (values(dtype, COUNT, 24), values(dtype, ROWS, 25));
                let mut args = vec![Arg::In(Data::new(id, &ids))];
                args.extend(shared.then_some(Arg::Size(COUNT as u64)));
                args.extend([Arg::In(Data::new(dtype, &x)), Arg::Out(Data::new(dtype, &before))]);
                args.extend([1, COUNT, ROWS, 1].map(|size| Arg::Size(size as u64)));
                let [got, again] = [(); 2].map(|()| card.run(&INDEXING, &name, elements(1), &args).remove(0));
                let what = format!("{name} of many on {}", card.name);
                assert_eq!(got.bytes, again.bytes, "{what}: the same bits once more");
                let running = if shared && dtype.ends_with("f16") { "f32" } else { dtype };
                let mut expected = before;
                for (&given, &x) in ids.iter().zip(&x).filter(|(given, _)| **given != none(id)) {
                    let to = &mut expected[given as usize];
                    let sum = if add { *to + x } else { x };
                    *to = if dtype == "u8" { sum.rem_euclid(256.0) } else { rounded(running, sum) };
                }
                assert_close(&what, &got, &expected, 0.0);
            }
        }
    });
}
