//! Tests translation without a device: relative operations in, kernels as text out.

use burn_backend::{DType, Shape, Slice};
use burn_ir::{
    BaseOperationIr, BinaryOpIr, CreationOpIr, DimOpIr, FloatOperationIr, GatherOpIr, MatmulOpIr, NumericOperationIr,
    OperationIr, ReduceDimOpIr, ReduceDimsOpIr, ScalarIr, ScalarOpIr, ShapeOpIr, SliceAssignOpIr, SwapDimsOpIr,
    TensorId, TensorIr, TensorStatus, UnaryOpIr,
};

use super::arrange::Turn;
use super::fuser::{Fuser, Taken};
use super::partition::pieces;
use super::plan::{Kernel, Kind, Plan, plan};
use super::recompute::recipes;
use super::trace::{Number, Trace};
use crate::RocmDevice;

const F32: DType = DType::F32;

fn tensor(id: u64, shape: &[usize], status: TensorStatus) -> TensorIr {
    TensorIr { id: TensorId::new(id), shape: Shape::from(shape.to_vec()), status, dtype: F32 }
}

/// A tensor that is read again later.
fn r(id: u64, shape: &[usize]) -> TensorIr {
    tensor(id, shape, TensorStatus::ReadOnly)
}

/// A tensor that is read for the last time.
fn w(id: u64, shape: &[usize]) -> TensorIr {
    tensor(id, shape, TensorStatus::ReadWrite)
}

/// A tensor that the operation makes.
fn n(id: u64, shape: &[usize]) -> TensorIr {
    tensor(id, shape, TensorStatus::NotInit)
}

fn numeric(op: NumericOperationIr) -> OperationIr {
    OperationIr::NumericFloat(F32, op)
}

fn add(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> OperationIr {
    numeric(NumericOperationIr::Add(BinaryOpIr { lhs, rhs, out }))
}

fn sub(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> OperationIr {
    numeric(NumericOperationIr::Sub(BinaryOpIr { lhs, rhs, out }))
}

fn div(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> OperationIr {
    numeric(NumericOperationIr::Div(BinaryOpIr { lhs, rhs, out }))
}

fn scaled(lhs: TensorIr, scalar: u64, out: TensorIr) -> OperationIr {
    numeric(NumericOperationIr::MulScalar(ScalarOpIr { lhs, rhs: ScalarIr::UInt(scalar), out }))
}

fn exp(input: TensorIr, out: TensorIr) -> OperationIr {
    OperationIr::Float(F32, FloatOperationIr::Exp(UnaryOpIr { input, out }))
}

fn along(op: fn(ReduceDimOpIr) -> NumericOperationIr, input: TensorIr, out: TensorIr, axis: usize) -> OperationIr {
    numeric(op(ReduceDimOpIr { input, out, axis, accumulator_len: 1 }))
}

fn reshape(input: TensorIr, out: TensorIr) -> OperationIr {
    OperationIr::BaseFloat(BaseOperationIr::Reshape(ShapeOpIr { input, out }))
}

fn swap(input: TensorIr, out: TensorIr, dim1: usize, dim2: usize) -> OperationIr {
    OperationIr::BaseFloat(BaseOperationIr::SwapDims(SwapDimsOpIr { input, out, dim1, dim2 }))
}

fn matmul(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> OperationIr {
    OperationIr::Float(F32, FloatOperationIr::Matmul(MatmulOpIr { lhs, rhs, out }))
}

/// The plan of operations that must all be taken.
fn planned(operations: &[OperationIr]) -> Plan {
    let mut trace = Trace { reduces: true, ..Trace::default() };
    for operation in operations {
        trace.take(operation).unwrap_or_else(|reason| panic!("{operation:?}: {reason}"));
    }
    plan(&trace, &trace.arrange().expect("the operations are kernels"))
}

/// The one kernel of operations that must all be taken.
fn kernel(operations: &[OperationIr]) -> Kernel {
    let mut plan = planned(operations);
    assert_eq!(plan.kernels.len(), 1);
    plan.kernels.remove(0)
}

fn softmax() -> Vec<OperationIr> {
    let (x, row) = ([1, 2], [1, 0]);
    vec![
        along(NumericOperationIr::MaxDim, r(0, &x), n(1, &row), 1),
        sub(r(0, &x), w(1, &row), n(2, &x)),
        exp(w(2, &x), n(3, &x)),
        along(NumericOperationIr::SumDim, r(3, &x), n(4, &row), 1),
        div(w(3, &x), w(4, &row), n(5, &x)),
    ]
}

#[test]
fn softmax_is_one_graph() {
    let kernel = kernel(&softmax());
    assert_eq!(kernel.kind, Kind::ReduceBroadcasted);
    assert_eq!(
        kernel.graph.to_string().trim(),
        "%0: f32 = input\n\
         %1: f32 row = reduce.max %0\n\
         %2: f32 = sub %0, %1\n\
         %3: f32 = exp %2\n\
         %4: f32 row = reduce.sum %3\n\
         %5: f32 = div %3, %4\n\
         output %5"
    );
    assert_eq!((kernel.outer, kernel.row), (vec![0], vec![1]));
}

#[test]
fn values_that_outlive_the_kernel_are_written_and_others_are_not() {
    let kernel = kernel(&[exp(w(0, &[1]), n(1, &[1])), scaled(r(1, &[1]), 7, n(2, &[1])), exp(w(2, &[1]), n(3, &[1]))]);
    let written: Vec<_> = kernel.outputs.iter().flat_map(|output| &output.tensors).map(|(id, _)| id.value()).collect();
    assert_eq!(written, [1, 3]);
    assert_eq!(kernel.scalars, [Number::Scalar(7)]);
    assert_eq!(kernel.kind, Kind::ElementWise);
}

#[test]
fn a_source_read_for_the_last_time_is_consumed() {
    let plan = planned(&[add(r(0, &[1]), w(1, &[1]), n(2, &[1])), exp(w(2, &[1]), n(3, &[1]))]);
    let sources: Vec<_> = plan.sources.iter().map(|source| (source.id.value(), source.consumed)).collect();
    assert_eq!(sources, [(0, false), (1, true)]);
}

#[test]
fn a_reshape_splits_the_iteration_space() {
    // [6, 4] + bias, seen as [2, 3, 4].
    let kernel = kernel(&[
        add(w(0, &[1, 2]), w(1, &[0, 2]), n(2, &[1, 2])),
        reshape(w(2, &[1, 2]), n(3, &[3, 4, 2])),
        exp(w(3, &[3, 4, 2]), n(5, &[3, 4, 2])),
    ]);
    assert_eq!(kernel.outer, [0, 1, 2]);
    assert_eq!(kernel.inputs[0].map, [vec![0, 1], vec![2]]);
    assert_eq!(kernel.inputs[1].map, [vec![], vec![2]]);
    assert_eq!(kernel.outputs[0].tensors[0].1, [vec![0], vec![1], vec![2]]);
}

#[test]
fn branches_in_split_and_merged_axes_become_one_loop() {
    let kernel = kernel(&[
        exp(w(0, &[3, 4, 2]), n(1, &[3, 4, 2])),
        reshape(w(1, &[3, 4, 2]), n(2, &[1, 2])),
        exp(w(3, &[1, 2]), n(4, &[1, 2])),
        add(w(2, &[1, 2]), w(4, &[1, 2]), n(5, &[1, 2])),
    ]);
    assert_eq!(kernel.outer.len(), 3);
    assert_eq!(kernel.outputs[0].tensors[0].1, [vec![0, 1], vec![2]]);
}

#[test]
fn a_transposed_value_is_written_as_a_view_of_its_loop() {
    let kernel = kernel(&[exp(w(0, &[1, 2]), n(1, &[1, 2])), swap(w(1, &[1, 2]), n(2, &[2, 1]), 0, 1)]);
    assert_eq!(kernel.outputs[0].memory, [0, 1]);
    assert_eq!(kernel.outputs[0].tensors[0].1, [vec![1], vec![0]]);
}

#[test]
fn a_value_with_itself_transposed_is_refused() {
    let mut trace = Trace::default();
    trace.take(&exp(w(0, &[1, 1]), n(1, &[1, 1]))).unwrap();
    trace.take(&swap(r(1, &[1, 1]), n(2, &[1, 1]), 0, 1)).unwrap();
    assert!(trace.take(&add(w(1, &[1, 1]), w(2, &[1, 1]), n(3, &[1, 1]))).is_err());
}

#[test]
fn an_input_with_itself_transposed_is_two_inputs() {
    let kernel = kernel(&[swap(r(0, &[1, 1]), n(1, &[1, 1]), 0, 1), add(w(0, &[1, 1]), w(1, &[1, 1]), n(2, &[1, 1]))]);
    assert_eq!(kernel.inputs.len(), 2);
}

#[test]
fn independent_chains_are_kernels_of_their_own() {
    let plan = planned(&[
        exp(w(0, &[1, 2]), n(1, &[1, 2])),
        exp(w(2, &[3]), n(3, &[3])),
        exp(w(1, &[1, 2]), n(4, &[1, 2])),
        exp(w(3, &[3]), n(5, &[3])),
    ]);
    assert_eq!(plan.kernels.len(), 2);
    assert_eq!(plan.kernels[0].graph, plan.kernels[1].graph);
}

#[test]
fn several_axes_are_one_row_that_is_cut_where_others_stand_between() {
    let sums = |axes: Vec<usize>, out: &[usize]| {
        numeric(NumericOperationIr::SumDims(ReduceDimsOpIr { input: w(1, &[1, 2, 3]), out: n(2, out), axes }))
    };
    let merged = kernel(&[exp(w(0, &[1, 2, 3]), n(1, &[1, 2, 3])), sums(vec![1, 0], &[0, 0, 3])]);
    assert_eq!((merged.outer, merged.row), (vec![0], vec![1, 2]));
    assert_eq!(merged.kind, Kind::Reduce);
    assert_eq!((merged.cut, merged.inputs[0].turn), (0, None));
    // With another axis between them the row is cut there, and the input is looked up by the outer side.
    let cut = kernel(&[exp(w(0, &[1, 2, 3]), n(1, &[1, 2, 3])), sums(vec![0, 2], &[0, 2, 0])]);
    assert_eq!((cut.outer, cut.row, cut.cut), (vec![0], vec![1, 2], 1));
    assert_eq!(cut.inputs[0].turn, Some(Turn::Both));
    // In the other order they are no row that a kernel can read.
    let mut trace = Trace { reduces: true, ..Trace::default() };
    trace.take(&exp(w(0, &[1, 2, 3]), n(4, &[1, 2, 3]))).unwrap();
    trace.take(&swap(w(4, &[1, 2, 3]), n(5, &[3, 2, 1]), 0, 2)).unwrap();
    trace.take(&reshape(w(5, &[3, 2, 1]), n(6, &[3, 7]))).unwrap();
    trace.take(&along(NumericOperationIr::SumDim, w(6, &[3, 7]), n(8, &[3, 0]), 1)).unwrap();
    assert!(trace.arrange().is_none());
}

#[test]
fn a_sum_over_an_extent_of_one_is_the_value() {
    let kernel = kernel(&[
        exp(w(0, &[1, 0]), n(1, &[1, 0])),
        along(NumericOperationIr::SumDim, w(1, &[1, 0]), n(2, &[1, 0]), 1),
        exp(w(2, &[1, 0]), n(3, &[1, 0])),
    ]);
    assert_eq!(kernel.kind, Kind::ElementWise);
}

#[test]
fn a_row_value_as_a_whole_tensor_is_widened() {
    let kernel = kernel(&[
        along(NumericOperationIr::SumDim, w(0, &[1, 2]), n(1, &[1, 0]), 1),
        OperationIr::BaseFloat(BaseOperationIr::Ones(CreationOpIr { out: n(2, &[1, 2]) })),
        numeric(NumericOperationIr::Mul(BinaryOpIr { lhs: w(1, &[1, 0]), rhs: w(2, &[1, 2]), out: n(3, &[1, 2]) })),
    ]);
    assert!(!kernel.outputs[0].per_row);
    let output = *kernel.graph.outputs().last().expect("it has one");
    assert_eq!(kernel.graph.kind(output), rocfire_fusion::Kind::Full);
}

#[test]
fn a_gather_picks_behind_a_reduction_of_the_same_rows_and_else_looks_up() {
    let (x, row) = ([1, 2], [1, 0]);
    let mut indices = r(9, &row);
    indices.dtype = DType::I32;
    let gather = |from| {
        OperationIr::BaseFloat(BaseOperationIr::Gather(GatherOpIr {
            tensor: w(from, &x),
            dim: 1,
            indices: indices.clone(),
            out: n(6, &row),
        }))
    };
    let mut operations = softmax();
    operations.push(gather(5));
    let picked = kernel(&operations);
    assert!(picked.outputs.iter().all(|output| output.per_row));
    assert!(picked.inputs.iter().all(|input| input.free.is_none()));
    let looked_up = kernel(&[exp(w(0, &x), n(5, &x)), gather(5)]);
    assert_eq!(looked_up.kind, Kind::ElementWise);
    assert_eq!(looked_up.inputs.iter().filter_map(|input| input.free).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_fuser_takes_products_reductions_and_chains_and_closes_at_what_does_not_fuse() {
    let mut fuser = Fuser::new(RocmDevice::default());
    let mut operations = softmax();
    operations.push(matmul(w(5, &[1, 2]), r(6, &[2, 3]), n(7, &[1, 3])));
    for operation in &operations {
        assert_eq!(fuser.take(operation), Taken::Joins);
    }
    let sum = numeric(NumericOperationIr::CumSum(DimOpIr { input: r(7, &[1, 3]), out: n(8, &[1, 3]), axis: 1 }));
    assert_eq!(fuser.take(&sum), Taken::Refused);
}

/// The graphs of the kernels of operations, piece by piece.
fn graphs(operations: &[OperationIr]) -> Vec<String> {
    let pieces = pieces(operations, &[]);
    let kernels = pieces.iter().flat_map(|piece| piece.work.kernels());
    kernels.map(|kernel| kernel.graph.to_string().trim().to_owned()).collect()
}

#[test]
fn a_product_ends_in_what_follows_it() {
    let (x, weight, bias) = ([1, 2], [2, 3], [0, 3]);
    let operations = [
        swap(r(1, &[3, 2]), n(2, &weight), 0, 1),
        matmul(w(0, &x), w(2, &weight), n(3, &[1, 3])),
        reshape(r(4, &[3]), n(5, &bias)),
        add(w(3, &[1, 3]), w(5, &bias), n(6, &[1, 3])),
        matmul(w(6, &[1, 3]), r(7, &[3, 3]), n(8, &[1, 3])),
    ];
    let ended = "%0: f32 = input\n%1: f32 = input\n%2: f32 = add %0, %1\noutput %2";
    assert_eq!(graphs(&operations), [ended, "%0: f32 = input\noutput %0"]);
}

#[test]
fn what_stands_between_two_operations_does_not_part_them() {
    // The second product's operand is ready before the first product's sum is, and the sum waits for neither.
    let square = [1, 1];
    let operations = [
        matmul(r(0, &square), r(1, &square), n(2, &square)),
        matmul(r(0, &square), r(3, &square), n(4, &square)),
        exp(w(2, &square), n(5, &square)),
        exp(w(4, &square), n(6, &square)),
        add(r(5, &square), r(6, &square), n(7, &square)),
    ];
    let kinds: Vec<Kind> = pieces(&operations, &[]).iter().map(|piece| piece.work.kernels()[0].kind).collect();
    assert_eq!(kinds, [Kind::Matmul, Kind::Matmul]);
    let members: Vec<Vec<usize>> = pieces(&operations, &[]).into_iter().map(|piece| piece.operations).collect();
    assert_eq!(members, [vec![0, 2], vec![1, 3, 4]]);
}

#[test]
fn what_nobody_reads_is_not_computed() {
    let operations = [exp(r(0, &[1]), n(1, &[1])), exp(r(0, &[1]), n(2, &[1])), OperationIr::Drop(w(1, &[1]))];
    assert_eq!(graphs(&operations), ["%0: f32 = input\n%1: f32 = exp %0\noutput %1"]);
}

#[test]
fn a_part_of_a_tensor_that_nobody_else_needs_is_left_to_who_writes_it_in_place() {
    let assign = |x| {
        let (value, out) = (r(1, &[1, 3]), n(2, &[1, 2]));
        OperationIr::BaseFloat(BaseOperationIr::SliceAssign(SliceAssignOpIr {
            tensor: x,
            ranges: vec![Slice::new(0, None, 1), Slice::new(1, None, 1)],
            value,
            out,
        }))
    };
    let last = |operations: &[OperationIr]| {
        let mut fuser = Fuser::new(RocmDevice::emulated("gfx942").unwrap());
        operations.iter().map(|operation| fuser.take(operation)).last()
    };
    assert_eq!(last(&[assign(w(0, &[1, 2]))]), Some(Taken::Refused));
    assert_eq!(last(&[assign(r(0, &[1, 2]))]), Some(Taken::Joins));
    assert_eq!(last(&[exp(r(5, &[1, 2]), n(0, &[1, 2])), assign(w(0, &[1, 2]))]), Some(Taken::Joins));
}

/// A tensor `[1, 2]` by a number for each row, and a function of the result; what is in place of the first operation's operands, its
/// result and the second operation's operand.
fn scaled_rows(x: TensorIr, by: TensorIr, read: TensorIr) -> Vec<(u64, usize, Vec<u64>)> {
    let result = n(read.id.value(), &[1, 2]);
    let recipes = recipes(&[sub(x, by, result), exp(read, n(9, &[1, 2]))]);
    let numbers = |ids: Vec<TensorId>| ids.into_iter().map(|id| id.value()).collect();
    recipes.into_iter().map(|of| (of.tensor.id.value(), of.operations.len(), numbers(of.sources))).collect()
}

#[test]
fn what_follows_from_kept_tensors_need_not_be_kept() {
    assert_eq!(scaled_rows(r(0, &[1, 2]), r(1, &[1, 0]), r(2, &[1, 2])), [(2, 1, vec![0, 1])]);
    // It ends here, so it is not kept anyway; an operand that ends, or that has more elements, would have to be kept for it.
    assert_eq!(scaled_rows(r(0, &[1, 2]), r(1, &[1, 0]), w(2, &[1, 2])), []);
    assert_eq!(scaled_rows(w(0, &[1, 2]), r(1, &[1, 0]), r(2, &[1, 2])), []);
    assert_eq!(scaled_rows(r(0, &[1, 2]), w(1, &[1, 0]), r(2, &[1, 2])), []);
    assert_eq!(scaled_rows(r(0, &[1, 2]), r(1, &[3, 0]), r(2, &[1, 2])), []);
}

#[test]
fn what_products_read_or_sums_make_or_nobody_has_read_is_kept() {
    let square = [1, 1];
    let negative = || sub(r(0, &square), r(1, &square), n(2, &square));
    let read = |more: Vec<OperationIr>| recipes(&[vec![negative()], more].concat()).len();
    assert_eq!(read(vec![exp(r(2, &square), n(3, &square))]), 1);
    assert_eq!(read(vec![]), 0);
    let product = matmul(r(2, &square), r(0, &square), n(4, &square));
    assert_eq!(read(vec![exp(r(2, &square), n(3, &square)), product]), 0);
    // A view that outlives the stretch is in the same memory.
    let view = |out| swap(r(2, &square), out, 0, 1);
    assert_eq!(read(vec![view(n(3, &square)), exp(r(3, &square), n(4, &square))]), 0);
    assert_eq!(read(vec![view(n(3, &square)), exp(w(3, &square), n(4, &square))]), 1);
    let sum = along(NumericOperationIr::SumDim, r(0, &[1, 2]), n(2, &[1, 0]), 1);
    assert_eq!(recipes(&[sum, exp(r(2, &[1, 0]), n(3, &[1, 0]))]).len(), 0);
}

#[test]
fn a_result_that_is_not_kept_is_a_step_to_the_next() {
    let of = recipes(&[
        sub(r(0, &[1]), r(1, &[1]), n(2, &[1])),
        exp(r(2, &[1]), n(3, &[1])),
        scaled(r(3, &[1]), 7, n(4, &[1])),
    ]);
    let steps: Vec<_> = of.iter().map(|recipe| (recipe.tensor.id.value(), recipe.operations.len())).collect();
    assert_eq!(steps, [(2, 1), (3, 2)]);
}

#[test]
fn what_a_sum_has_made_for_a_result_is_kept_for_it() {
    let mean = along(NumericOperationIr::MeanDim, r(0, &[1, 2]), n(2, &[1, 0]), 1);
    let rows = [mean, exp(w(2, &[1, 0]), n(3, &[1, 0]))];
    let result = [sub(r(0, &[1, 2]), w(3, &[1, 0]), n(4, &[1, 2])), exp(r(4, &[1, 2]), n(5, &[1, 2]))];
    let operations = [rows.as_slice(), &result].concat();
    let recipes = recipes(&operations);
    let [recipe] = recipes.as_slice() else { panic!("{recipes:?}") };
    let numbers = |ids: &[TensorId]| ids.iter().map(|id| id.value()).collect::<Vec<_>>();
    assert_eq!((recipe.tensor.id.value(), recipe.operations.len(), numbers(&recipe.sources)), (4, 1, vec![0, 3]));
    let written = |pieces: Vec<super::partition::Piece>| -> Vec<u64> {
        let outputs = |piece: &super::partition::Piece| {
            let kernels = piece.work.kernels().iter().flat_map(|kernel| &kernel.outputs);
            kernels.flat_map(|output| &output.tensors).map(|(id, _)| id.value()).collect::<Vec<_>>()
        };
        pieces.iter().flat_map(outputs).collect()
    };
    assert_eq!(written(pieces(&operations, &[])), [4, 5]);
    assert_eq!(written(pieces(&operations, &recipes)), [3, 5]);
}
