//! A product with its epilogue against the product and then the graph: the same bits.

use rocfire_fusion::{Binary, Compare, Draft, Graph, Scalar, Unary};

use super::*;
use crate::testing::{Lie, Numbers, device, device_without_matrix_unit, tensor};

/// `max(ab + bias, 0) · s + residual`, whether `ab + bias` is positive, and `ab` itself in the wider of its types.
fn chain(dtype: DType) -> Graph {
    Draft::several("Matmul", |g| {
        let product = g.input(dtype);
        let (bias, residual, zero) = (g.input(dtype), g.input(dtype), product.number(0));
        let sum = product + bias;
        let result = sum.binary(Binary::Max, zero) * g.scalar(dtype) + residual;
        let wide = product.cast(if dtype.is_float() { DType::F64 } else { DType::I64 });
        [result, sum.is(Compare::Gt, zero), wide]
    })
}

struct Case {
    a: Vec<usize>,
    b: Vec<usize>,
    bias: Vec<usize>,
    lie: Lie,
    params: GemmParams,
}

fn case(a: &[usize], b: &[usize], bias: &[usize]) -> Case {
    let (a, b, bias) = (a.to_vec(), b.to_vec(), bias.to_vec());
    Case { a, b, bias, lie: Lie::Plain, params: GemmParams::default() }
}

impl Case {
    fn check(&self, device: &rocfire_hal::Device, dtype: DType) {
        let stream = device.stream();
        let mut numbers = Numbers::new(self.a.iter().sum::<usize>() as u64);
        let mut make = |shape: &[usize], lie| {
            let values = numbers.values(shape.iter().product(), dtype);
            tensor(device, shape, dtype, &values, lie)
        };
        let shape = output_shape(&self.a, &self.b).unwrap();
        let (a, b) = (make(&self.a, Lie::Plain), make(&self.b, Lie::Plain));
        let (bias, residual) = (make(&self.bias, self.lie), make(&shape, self.lie));
        let graph = chain(dtype);
        let scalars = [Scalar::Float(0.37)];
        let outputs = || -> Vec<Tensor> {
            let dtypes = graph.outputs().iter().map(|output| graph.dtype(*output));
            dtypes.map(|dtype| Tensor::empty(device, &shape, dtype).unwrap()).collect()
        };
        let mut apart = outputs();
        let mut product = Tensor::empty(device, &shape, dtype).unwrap();
        gemm(stream, a.view(), b.view(), product.view_mut(), &self.params).unwrap();
        let mut views: Vec<_> = apart.iter_mut().map(Tensor::view_mut).collect();
        let inputs = [product.view(), bias.view(), residual.view()];
        rocfire_fusion::run(stream, &graph, &shape, &inputs, &scalars, &mut views).unwrap();
        let mut fused = outputs();
        let views: Vec<_> = fused.iter_mut().map(Tensor::view_mut).collect();
        let epilogue = Epilogue::new(&graph, &shape, &inputs[1..], &scalars, &views).unwrap();
        gemm_fused(stream, a.view(), b.view(), &epilogue, &self.params).unwrap();
        drop(views);
        for (slot, (fused, apart)) in fused.iter().zip(&apart).enumerate() {
            let what = (&self.a, &self.b, &self.bias, self.lie, self.params, dtype, slot);
            assert!(fused.to_bytes().unwrap() == apart.to_bytes().unwrap(), "{what:?}");
        }
    }
}

#[test]
fn an_epilogue_gives_the_bits_of_its_graph() {
    let device = device();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32] {
        case(&[35, 40], &[40, 37], &[1, 37]).check(&device, dtype);
    }
    for dtype in [DType::F32, DType::BF16] {
        case(&[1, 300], &[300, 5], &[5]).check(&device, dtype);
        case(&[3, 4, 17, 8], &[3, 1, 8, 9], &[4, 1, 9]).check(&device, dtype);
    }
    Case { lie: Lie::Swapped, ..case(&[4, 9, 16], &[16, 33], &[9, 1]) }.check(&device, DType::F32);
    case(&[35, 40], &[40, 37], &[35, 1]).check(&device_without_matrix_unit(), DType::F32);
}

#[test]
fn an_epilogue_runs_behind_the_sum_of_slices() {
    let device = device();
    for (a, b, bias) in [([20, 600], [600, 24], [1, 24]), ([1, 600], [600, 5], [1, 1])] {
        let params = GemmParams { slice_k: Some(true), ..GemmParams::default() };
        Case { params, ..case(&a, &b, &bias) }.check(&device, DType::F32);
    }
}

/// Of groups, and rows that are no group's are left as they are.
#[test]
fn an_epilogue_of_groups_gives_the_bits_of_its_graph() {
    let cards = [(device(), DType::F32), (device(), DType::BF16), (device_without_matrix_unit(), DType::F32)];
    for (device, dtype) in cards {
        for (bounds, k) in [([1, 4, 4, 37, 38], 40), ([2, 2, 19, 24, 40], 600)] {
            let (rows, n) = (40, 37);
            let mut numbers = Numbers::new(k as u64);
            let mut make = |shape: &[usize]| {
                let values = numbers.values(shape.iter().product(), dtype);
                tensor(&device, shape, dtype, &values, Lie::Plain)
            };
            let (a, b) = (make(&[rows, k]), make(&[bounds.len() - 1, k, n]));
            let (bias, residual) = (make(&[1, n]), make(&[rows, n]));
            let offsets = tensor(&device, &[bounds.len()], DType::I32, &bounds.map(f64::from), Lie::Plain);
            let groups = GemmGroups::Offsets(offsets.view());
            let (stream, params) = (device.stream(), GemmParams::default());
            let graph = chain(dtype);
            let scalars = [Scalar::Float(0.37)];
            let outputs = || -> Vec<Tensor> {
                let filled = |output: &rocfire_fusion::Value| {
                    let mut tensor = Tensor::empty(&device, &[rows, n], graph.dtype(*output)).unwrap();
                    rocfire_fusion::eager::fill(tensor.view_mut(), Scalar::Int(1)).unwrap();
                    tensor
                };
                graph.outputs().iter().map(filled).collect()
            };
            let (mut apart, mut fused, untouched) = (outputs(), outputs(), outputs());
            let mut product = Tensor::empty(&device, &[rows, n], dtype).unwrap();
            rocfire_fusion::eager::fill(product.view_mut(), Scalar::Int(0)).unwrap();
            gemm_grouped(stream, a.view(), b.view(), &groups, product.view_mut(), &params).unwrap();
            let mut views: Vec<_> = apart.iter_mut().map(Tensor::view_mut).collect();
            let inputs = [product.view(), bias.view(), residual.view()];
            rocfire_fusion::run(stream, &graph, &[rows, n], &inputs, &scalars, &mut views).unwrap();
            let views: Vec<_> = fused.iter_mut().map(Tensor::view_mut).collect();
            let epilogue = Epilogue::new(&graph, &[rows, n], &inputs[1..], &scalars, &views).unwrap();
            gemm_grouped_fused(stream, a.view(), b.view(), &groups, &epilogue, &params).unwrap();
            drop(views);
            for (slot, fused) in fused.iter().enumerate() {
                let row_bytes = n * fused.dtype().size_bytes();
                let (fused, apart) = (fused.to_bytes().unwrap(), apart[slot].to_bytes().unwrap());
                let untouched = untouched[slot].to_bytes().unwrap();
                let owned = bounds[0] as usize * row_bytes..bounds[4] as usize * row_bytes;
                assert_eq!(fused[owned.clone()], apart[owned.clone()], "{dtype} {k} {slot}");
                assert_eq!(fused[..owned.start], untouched[..owned.start], "{dtype} {k} {slot}");
                assert_eq!(fused[owned.end..], untouched[owned.end..], "{dtype} {k} {slot}");
            }
            let groups = GemmGroups::Counts(offsets.view());
            let views: Vec<_> = apart.iter_mut().map(Tensor::view_mut).collect();
            let epilogue = Epilogue::new(&graph, &[rows, n], &inputs[1..], &scalars, &views).unwrap();
            let error = gemm_grouped_fused(stream, a.view(), b.view(), &groups, &epilogue, &params).unwrap_err();
            assert!(error.to_string().contains("groups"), "{error}");
        }
    }
}

#[test]
fn batches_merge_with_the_rows_where_the_epilogue_allows() {
    let device = device();
    let make = |shape: &[usize]| Tensor::empty(&device, shape, DType::F32).unwrap();
    let (a, b) = (make(&[4, 5, 16]), make(&[16, 8]));
    let graph = Draft::graph("Matmul", |g| (g.input(DType::F32) + g.input(DType::F32)).unary(Unary::Tanh));
    for (bias, expected) in [(make(&[8]), (20, 0)), (make(&[5, 8]), (5, 1)), (make(&[4, 5, 1]), (20, 0))] {
        let mut c = make(&[4, 5, 8]);
        let outputs = [c.view_mut()];
        let inputs = [bias.view()];
        let epilogue = Epilogue::new(&graph, &[4, 5, 8], &inputs, &[], &outputs).unwrap();
        let product =
            Product::new(device.stream(), a.view(), b.view(), outputs[0].view(), Some(BoundEpilogue::new(&epilogue)));
        assert_eq!((product.m, product.axes), expected, "{:?}", bias.shape());
    }
}

#[test]
fn graphs_that_end_no_kernel_are_refused() {
    let device = device();
    let mut c = Tensor::empty(&device, &[4, 8], DType::F32).unwrap();
    let outputs = [c.view_mut()];
    let refuse = |build: &dyn Fn(&mut Graph), part: &str| {
        let mut graph = Graph::new("Matmul");
        build(&mut graph);
        let error = Epilogue::new(&graph, &[4, 8], &[], &[], &outputs).err().expect("a refusal").to_string();
        assert!(error.contains(part), "{error}");
    };
    refuse(
        &|graph| {
            let index = graph.index(0);
            graph.output(index);
        },
        "first value is its kernel's result",
    );
    refuse(
        &|graph| {
            let product = graph.input(DType::F32);
            let sum = graph.reduce(rocfire_fusion::Reduce::Sum, product);
            graph.output(sum);
        },
        "element by element",
    );
    refuse(
        &|graph| {
            let product = graph.input(DType::F64);
            let product = graph.unary(Unary::Neg, product);
            graph.output(product);
        },
        "output 0 must be",
    );
}
