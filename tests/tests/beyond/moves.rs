//! Elementwise chains, copies, transposes, and what reads or writes by indices.

use rocfire_fusion::{Binary, Draft, Scalar, Unary, eager};
use rocfire_hal::{DType, Tensor};
use rocfire_kernels::index::{Chosen, Update, gather, scatter, select, select_update};

use crate::{Operator, Outcome, Space, row, same};

pub const OPERATORS: &[Operator] = &[
    ("chain", chain),
    ("chain of bytes with a broadcast row", broadcast),
    ("fill, random numbers", filled),
    ("copy of a transposed matrix", transposed),
    ("gather from a large tensor", gathered),
    ("gather into a large tensor", gathered_large),
    ("select rows of a large tensor", selected),
    ("select into a large tensor", selected_large),
    ("scatter into a large tensor", scattered),
    ("select_update of a large tensor", updated),
    ("places of a large mask are refused", chosen),
];

const COLS: usize = 4096;

/// Element `col` of row `row` of an index tensor.
fn index_of(row: usize, col: usize, extent: usize) -> usize {
    (row * 7 + col * 3) % extent
}

fn chain(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let (a, b) = (space.random(&shape, DType::F16, 1)?, space.random(&shape, DType::F16, 2)?);
    let mut y = space.empty(&shape, DType::F16)?;
    let graph = Draft::graph("chain", |g| {
        let (left, right) = (g.input(DType::F16), g.input(DType::F16));
        (left * right).unary(Unary::Abs) + left
    });
    rocfire_fusion::run(space.device.stream(), &graph, &shape, &[a.view(), b.view()], &[], &mut [y.view_mut()])?;
    for at in space.marks(COLS) {
        let (a, b) = (row(&a, at)?, row(&b, at)?);
        let expected: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a * b).abs() + a).collect();
        same(&format!("row {at}"), &row(&y, at)?, &expected, 2e-3)?;
    }
    Ok(())
}

fn broadcast(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = bytes(space, &shape)?;
    let of_row = space.upload(&[COLS], DType::U8, (0..COLS).map(|col| (col % 11) as f64).collect())?;
    let y = eager::binary(Binary::Add, &x, &of_row.with_layout(of_row.layout().unsqueeze(0)?)?)?;
    for at in space.marks(COLS) {
        let expected: Vec<f64> = (0..COLS).map(|col| (index_of(at, col, 200) + col % 11) as f64).collect();
        same(&format!("row {at}"), &row(&y, at)?, &expected, 0.0)?;
    }
    Ok(())
}

/// Element `[row, col]` is [`index_of`] them, below 200.
fn bytes(space: &Space, shape: &[usize; 2]) -> Result<Tensor, Box<dyn std::error::Error + Send + Sync>> {
    numbers(space, shape, 200, DType::U8)
}

/// [`index_of`] every row and column.
fn numbers(
    space: &Space,
    shape: &[usize; 2],
    extent: usize,
    dtype: DType,
) -> Result<Tensor, Box<dyn std::error::Error + Send + Sync>> {
    let graph = Draft::graph("numbers", |g| {
        let (rows, cols) = (g.index(1), g.index(0));
        let sum = rows * rows.number(7i64) + cols * cols.number(3i64);
        sum.binary(Binary::Rem, sum.number(extent as i64)).cast(dtype)
    });
    let mut out = space.empty(shape, dtype)?;
    rocfire_fusion::run(space.device.stream(), &graph, shape, &[], &[], &mut [out.view_mut()])?;
    Ok(out)
}

fn filled(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let mut x = space.random(&shape, DType::F16, 3)?;
    let marks = space.marks(COLS);
    let rows: Vec<Vec<f64>> = marks.iter().map(|&at| row(&x, at)).collect::<Result<_, _>>()?;
    for (number, values) in rows.iter().enumerate() {
        let mean = values.iter().sum::<f64>() / COLS as f64;
        let square = values.iter().map(|x| x * x).sum::<f64>() / COLS as f64;
        // Of numbers from -1 to 1: a fourth of a standard deviation of the mean is 0.0023, so this is beyond six of them.
        if mean.abs() > 0.06 || (square - 1.0 / 3.0).abs() > 0.04 || rows[..number].contains(values) {
            return Err(format!("row {}: mean {mean}, mean square {square}", marks[number]).into());
        }
    }
    eager::fill(x.view_mut(), Scalar::Float(1.5))?;
    for at in marks {
        same(&format!("row {at}"), &row(&x, at)?, &[1.5; COLS], 0.0)?;
    }
    Ok(())
}

fn transposed(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = bytes(space, &shape)?;
    let mut y = space.empty(&[COLS, shape[0]], DType::U8)?;
    eager::copy_into(x.view().with_layout(x.layout().swap(0, 1)?)?, y.view_mut())?;
    // A column of `x` is a row of `y`: of those the first, the last and those about the middle.
    for col in [0, COLS / 2 - 1, COLS / 2, COLS - 1] {
        let part = y.with_layout(y.layout().slice(0, col, col + 1, 1)?.slice(
            1,
            shape[0] - 1000.min(shape[0]),
            shape[0],
            1,
        )?)?;
        let first = shape[0] - 1000.min(shape[0]);
        let expected: Vec<f64> = (first..shape[0]).map(|at| index_of(at, col, 200) as f64).collect();
        same(&format!("column {col}"), &rocfire_tests::Array::read(&part)?.values, &expected, 0.0)?;
    }
    Ok(())
}

fn gathered(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = bytes(space, &shape)?;
    let marks = space.marks(COLS);
    let rows: Vec<f64> = marks.iter().flat_map(|&at| std::iter::repeat_n(at as f64, COLS)).collect();
    let indices = space.upload(&[marks.len(), COLS], DType::I64, rows)?;
    let mut y = space.empty(&[marks.len(), COLS], DType::U8)?;
    gather(space.device.stream(), 0, x.view(), indices.view(), y.view_mut())?;
    for (number, &at) in marks.iter().enumerate() {
        same(&format!("row {at}"), &row(&y, number)?, &row(&x, at)?, 0.0)?;
    }
    Ok(())
}

fn gathered_large(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = bytes(space, &shape)?;
    let indices = numbers(space, &shape, COLS, DType::I32)?;
    let mut y = space.empty(&shape, DType::U8)?;
    gather(space.device.stream(), 1, x.view(), indices.view(), y.view_mut())?;
    for at in space.marks(COLS) {
        let expected: Vec<f64> = (0..COLS).map(|col| index_of(at, index_of(at, col, COLS), 200) as f64).collect();
        same(&format!("row {at}"), &row(&y, at)?, &expected, 0.0)?;
    }
    Ok(())
}

fn selected(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = bytes(space, &shape)?;
    let marks = space.marks(COLS);
    let indices = space.upload(&[marks.len()], DType::I64, marks.iter().map(|&at| at as f64).collect())?;
    let mut y = space.empty(&[marks.len(), COLS], DType::U8)?;
    select(space.device.stream(), 0, x.view(), indices.view(), y.view_mut())?;
    for (number, &at) in marks.iter().enumerate() {
        same(&format!("row {at}"), &row(&y, number)?, &row(&x, at)?, 0.0)?;
    }
    Ok(())
}

fn selected_large(space: &Space) -> Outcome {
    let rows = space.rows(COLS);
    let x = space.random(&[1000, COLS], DType::F16, 4)?;
    let places = numbers(space, &[1, rows], 1000, DType::I32)?;
    let mut y = space.empty(&[rows, COLS], DType::F16)?;
    let places = places.view().with_layout(places.layout().squeeze(0)?)?;
    select(space.device.stream(), 0, x.view(), places, y.view_mut())?;
    for at in space.marks(COLS) {
        same(&format!("row {at}"), &row(&y, at)?, &row(&x, index_of(0, at, 1000))?, 0.0)?;
    }
    Ok(())
}

fn scattered(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let mut x = bytes(space, &shape)?;
    let marks = space.marks(COLS);
    let rows: Vec<f64> = marks.iter().flat_map(|&at| std::iter::repeat_n(at as f64, COLS)).collect();
    let indices = space.upload(&[marks.len(), COLS], DType::I64, rows)?;
    let values = (0..marks.len() * COLS).map(|n| (n % 55) as f64).collect();
    let values = space.upload(&[marks.len(), COLS], DType::U8, values)?;
    scatter(space.device.stream(), Update::Add, 0, x.view_mut(), indices.view(), values.view())?;
    for (number, &at) in marks.iter().enumerate() {
        let expected: Vec<f64> =
            (0..COLS).map(|col| (index_of(at, col, 200) + (number * COLS + col) % 55) as f64).collect();
        same(&format!("row {at}"), &row(&x, at)?, &expected, 0.0)?;
    }
    Ok(())
}

fn updated(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let mut x = bytes(space, &shape)?;
    let marks = space.marks(COLS);
    let indices = space.upload(&[marks.len()], DType::I64, marks.iter().map(|&at| at as f64).collect())?;
    let values = (0..marks.len() * COLS).map(|n| (n % 50) as f64).collect();
    let values = space.upload(&[marks.len(), COLS], DType::U8, values)?;
    select_update(space.device.stream(), Update::Assign, 0, x.view_mut(), indices.view(), values.view())?;
    for (number, &at) in marks.iter().enumerate() {
        same(&format!("row {at}"), &row(&x, at)?, &row(&values, number)?, 0.0)?;
    }
    Ok(())
}

/// Places are counted in 32 bits: more of them are an error that says so, before any launch.
fn chosen(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let mut mask = space.empty(&shape, DType::Bool)?;
    eager::fill(mask.view_mut(), Scalar::Int(0))?;
    match Chosen::of(space.device.stream(), &mask) {
        Err(error) if space.large && error.to_string().contains("mask must be fewer than 2147483648 elements") => {
            Ok(())
        }
        Ok(_) if !space.large => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("taken, though places are counted in 32 bits".into()),
    }
}
