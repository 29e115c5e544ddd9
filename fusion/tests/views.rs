//! Inputs that lie across the iteration space, and inputs read at computed indices.

mod support;

use rocfire_fusion::{Binary, Compare, Draft, Graph, IndexOp, Reduce, Scalar, Unary, eager, run};
use rocfire_hal::{DType, Error, Layout, Tensor};
use support::{Random, device, download, float, rounded, same, upload, upload_permuted};

/// Element numbers of a tensor of `shape` in the order of the axes turned round.
fn turned(shape: &[usize]) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    axes.reverse();
    axes
}

/// The larger of four values of which three lie across: two go through tiles, the third is read element by element.
#[test]
fn inputs_that_lie_across_go_through_tiles_in_every_width() {
    for dtype in [DType::U8, DType::BF16, DType::F32, DType::F64] {
        let g = Draft::graph("across", |g| {
            let [a, b, c, d] = [(); 4].map(|()| g.input(dtype));
            (a - b).binary(Binary::Max, c - d)
        });
        for shape in [&[64, 128][..], &[67, 131], &[16, 70], &[3, 33, 65], &[2, 17, 3, 40]] {
            let count = shape.iter().product();
            let values: Vec<Vec<Scalar>> = (1..5).map(|seed| Random(seed).values(dtype, count)).collect();
            let axes = turned(shape);
            let a = upload_permuted(dtype, shape, &axes, &values[0]);
            let b = upload(dtype, shape, &values[1]);
            let c = upload_permuted(dtype, shape, &axes, &values[2]);
            let d = upload_permuted(dtype, shape, &axes, &values[3]);
            let mut got = Tensor::empty(device(), shape, dtype).unwrap();
            let views = [a.view(), b.view(), c.view(), d.view()];
            run(device().stream(), &g, shape, &views, &[], &mut [got.view_mut()]).unwrap();
            // The same by one operator at a time on packed tensors.
            let packed: Vec<Tensor> = values.iter().map(|values| upload(dtype, shape, values)).collect();
            let ab = eager::binary(Binary::Sub, &packed[0], &packed[1]).unwrap();
            let cd = eager::binary(Binary::Sub, &packed[2], &packed[3]).unwrap();
            let expected = download(&eager::binary(Binary::Max, &ab, &cd).unwrap());
            for (at, (got, expected)) in download(&got).into_iter().zip(expected).enumerate() {
                assert!(same(dtype, got, expected), "{dtype} {shape:?} element {at}: {got:?}, not {expected:?}");
            }
        }
    }
}

#[test]
fn a_copy_into_a_turned_view_turns_it() {
    let values = Random(3).values(DType::F32, 48 * 80);
    let x = upload(DType::F32, &[48, 80], &values);
    let mut y = Tensor::empty(device(), &[80, 48], DType::F32).unwrap();
    let layout = y.layout().permute(&[1, 0]).unwrap();
    eager::copy_into(x.view(), y.view_mut().with_layout(layout).unwrap()).unwrap();
    for (at, got) in download(&y).into_iter().enumerate() {
        assert!(same(DType::F32, got, values[at % 48 * 80 + at / 48]), "element {at}");
    }
}

/// `x[index[i, j], j]`, indices outside included, then a sum over the last axis.
#[test]
fn a_lookup_reads_where_its_index_says_and_gives_zero_outside() {
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::Bool] {
        let g = Draft::several("lookup", |g| {
            let x = g.lookup(dtype, g.input(DType::I32).cast(DType::I64));
            [x, x.cast(DType::F32).reduce(Reduce::Sum)]
        });
        for [rows, cols, extent] in [[3, 5, 4], [2, 1100, 7], [70, 33, 1], [4, 6, 0]] {
            let table = Random(5).values(dtype, extent * cols);
            let mut random = Random(6);
            let indices: Vec<i64> =
                (0..rows * cols).map(|_| (random.word() % (extent as u64 + 3)) as i64 - 1).collect();
            let scalars: Vec<Scalar> = indices.iter().map(|&index| Scalar::Int(index)).collect();
            let looked_up = upload(dtype, &[extent, cols], &table);
            let view = looked_up.layout().reshape(&[extent, 1, cols]).unwrap();
            let (mut y, mut sums) = (
                Tensor::empty(device(), &[rows, cols], dtype).unwrap(),
                Tensor::empty(device(), &[rows, 1], DType::F32).unwrap(),
            );
            let index = upload(DType::I32, &[rows, cols], &scalars);
            let looked_up = looked_up.with_layout(view).unwrap();
            let mut outputs = [y.view_mut(), sums.view_mut()];
            run(device().stream(), &g, &[rows, cols], &[index.view(), looked_up.view()], &[], &mut outputs).unwrap();
            for (at, got) in download(&y).into_iter().enumerate() {
                let from = usize::try_from(indices[at]).ok().filter(|&from| from < extent);
                let expected = from.map_or(rounded(dtype, Scalar::Int(0)), |from| table[from * cols + at % cols]);
                assert!(same(dtype, got, expected), "{dtype} element {at}: {got:?}, not {expected:?}");
            }
            let unfused = eager::reduce_last(Reduce::Sum, &eager::cast(&y, DType::F32).unwrap()).unwrap();
            for (got, expected) in download(&sums).into_iter().zip(download(&unfused)) {
                assert!(same(DType::F32, got, expected), "{dtype}: sum {got:?}, not {expected:?}");
            }
        }
    }
}

/// Two tensors one behind the other, negated, from indices that the graph computes of coordinates.
#[test]
fn a_concatenation_is_two_lookups() {
    let dtype = DType::F32;
    let g = Draft::graph("cat", |g| {
        let (at, first) = (g.index(0), g.scalar(DType::I64));
        let (a, b) = (g.lookup(dtype, at), g.lookup(dtype, at - first));
        -at.is(Compare::Lt, first).choose(a, b)
    });
    // The last is shorter than a vector.
    for [rows, left, right] in [[4, 3, 9], [2, 40, 1], [700, 1, 2]] {
        let (x, z) = (Random(1).values(dtype, rows * left), Random(2).values(dtype, rows * right));
        let turned = |values: &[Scalar], extent: usize| {
            let tensor = upload(dtype, &[rows, extent], values);
            let layout = Layout::strided(&[extent, rows, 1], &[1, extent as i64, 1], 0).unwrap();
            tensor.with_layout(layout).unwrap()
        };
        let (a, b) = (turned(&x, left), turned(&z, right));
        let mut y = Tensor::empty(device(), &[rows, left + right], dtype).unwrap();
        let (views, scalars) = ([a.view(), b.view()], [Scalar::Int(left as i64)]);
        run(device().stream(), &g, &[rows, left + right], &views, &scalars, &mut [y.view_mut()]).unwrap();
        for (number, got) in download(&y).into_iter().enumerate() {
            let (row, column) = (number / (left + right), number % (left + right));
            let from = if column < left { x[row * left + column] } else { z[row * right + column - left] };
            assert!(same(dtype, got, Scalar::Float(-float(from))), "element {number}");
        }
    }
}

/// `x[index]` of coordinates that go on behind the last element of a row, where nobody uses them, with a sum of what was read.
#[test]
fn a_checked_index_is_told_of_where_it_is_used_and_nowhere_else() {
    // Reports go to whoever reads next on a device.
    let device = rocfire_hal::Device::open(device().id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    for (dtype, reduces) in [(DType::F32, false), (DType::BF16, false), (DType::F32, true), (DType::BF16, true)] {
        let mut g = Graph::new("checked");
        let (column, extent) = (g.index(0), g.scalar(DType::I64));
        let index = g.check(IndexOp::Select, column, extent);
        let x = g.lookup(dtype, index);
        let y = g.unary(Unary::Neg, x);
        g.output(y);
        if reduces {
            let number = g.cast(x, DType::F32);
            let sum = g.reduce(Reduce::Sum, number);
            g.output(sum);
        }
        let again: Graph = g.to_string().parse().unwrap();
        assert_eq!(again.to_string(), g.to_string());
        for [rows, cols] in [[1, 1], [3, 5], [70, 33], [5, 67], [2, 1100], [3, 9001]] {
            let table = Tensor::from_bytes(&device, &[cols, 1, 1], dtype, &vec![0; cols * dtype.size_bytes()]).unwrap();
            let mut y = Tensor::empty(&device, &[rows, cols], dtype).unwrap();
            let mut sums = Tensor::empty(&device, &[rows, 1], DType::F32).unwrap();
            for extent in [cols as i64, cols as i64 - 1, 0] {
                let mut outputs = vec![y.view_mut()];
                if reduces {
                    outputs.push(sums.view_mut());
                }
                let scalars = [Scalar::Int(extent)];
                run(device.stream(), &g, &[rows, cols], &[table.view()], &scalars, &mut outputs).unwrap();
                let what = format!("{dtype}, {rows} rows of {cols}, {extent} elements");
                match device.sync() {
                    Ok(()) => assert_eq!(extent, cols as i64, "{what}: nothing was told"),
                    Err(Error::Index(fault)) => {
                        assert_eq!((fault.op.as_str(), fault.extent), ("select", extent), "{what}");
                        assert!((extent..cols as i64).contains(&fault.index), "{what}: {}", fault.index);
                    }
                    Err(other) => panic!("{what}: {other}"),
                }
            }
        }
    }
}
