//! What a user is told of the plans.

use burn_backend::Scalar;
use burn_backend::ops::FloatTensorOps;
use rocfire_burn::Fused;

use crate::check::{f32s, float};
use crate::harness::device;

#[test]
fn the_plans_say_what_was_fused_and_what_was_not_and_why() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[3, 7, 2], 1, &device);
    let y = Fused::float_exp(Fused::float_mul_scalar(x, Scalar::Float(3.0)));
    // A scan is a kernel of its own.
    float::<Fused>(Fused::float_cumsum(y, 1));
    let text = rocfire_burn::explain();
    let first = text.lines().next().unwrap();
    assert!(first.contains(" plans have run: ") && first.contains(" launches in place of "), "{first}");
    let plan =
        rocfire_burn::plans().into_iter().rfind(|plan| plan.runs() > 0 && plan.operations == ["MulScalar", "Exp"]);
    let plan = plan.expect("the chain is a plan");
    assert_eq!((plan.name, plan.kernels.len(), plan.kernels[0].launches_apart), ("ElementWise", 1, 2));
    assert!(text.contains("\n    CumSum: not an operation that fuses\n"), "{text}");
}
