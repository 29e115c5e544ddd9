//! Attention written out in primitives: one launch where its scores die, and the operators where they live on.

use burn_autodiff::Autodiff;
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::{BoolTensor, FloatTensor};
use burn_backend::{AutodiffBackend, Backend, DType, Scalar, Shape, TensorData};
use burn_flex::{Flex, FlexDevice};
use rocfire_burn::{Fused, plans};

use crate::check::{EXACT, Tolerance, bools, compare, f32s, float, floats};
use crate::harness::{device, launches};
use crate::rows::softmax;

const NEAR: Tolerance = Tolerance { absolute: 2e-5, relative: 2e-5 };

/// What a program reads: queries, keys, values, a bias, a row of a mask.
struct Given<B: Backend> {
    q: FloatTensor<B>,
    k: FloatTensor<B>,
    v: FloatTensor<B>,
    bias: FloatTensor<B>,
    /// `[2, 7]`: the third key of all rows, and the last key of the last batch.
    hidden: BoolTensor<B>,
    device: B::Device,
}

impl<B: Backend> Given<B> {
    fn new(device: &B::Device, dtype: DType) -> Given<B> {
        let tensor = |shape: &[usize], seed| floats::<B>(shape, dtype, seed, device);
        Given {
            q: tensor(&[2, 3, 5, 8], 1),
            k: tensor(&[2, 3, 7, 8], 2),
            v: tensor(&[2, 3, 7, 16], 3),
            bias: tensor(&[1, 3, 5, 7], 4),
            hidden: B::bool_from_data(
                TensorData::new((0..14).map(|at| [2, 9, 13].contains(&at)).collect(), [2, 7]),
                device,
            ),
            device: device.clone(),
        }
    }

    fn scores(&self) -> FloatTensor<B> {
        let keys = B::float_swap_dims(self.k.clone(), 2, 3);
        B::float_div_scalar(B::float_matmul(self.q.clone(), keys), Scalar::Float(8f64.sqrt()))
    }

    /// Hides keys of a batch by a scalar.
    fn filled(&self, scores: FloatTensor<B>, by: f64) -> FloatTensor<B> {
        let mask = B::bool_reshape(self.hidden.clone(), Shape::from([2, 1, 1, 7]));
        B::float_mask_fill(scores, mask, Scalar::Float(by))
    }
}

type Program<B> = fn(Given<B>) -> Vec<FloatTensor<B>>;

fn plain<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let weights = softmax::<B>(x.scores(), 3);
    vec![B::float_matmul(weights, x.v)]
}

/// As a decoder has it, with what joins the heads behind.
fn masked<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let weights = softmax::<B>(x.filled(x.scores(), f64::NEG_INFINITY), 3);
    let context = B::float_swap_dims(B::float_matmul(weights, x.v), 1, 2);
    vec![B::float_reshape(context, Shape::from([2, 5, 48]))]
}

/// As `burn::nn` has it: two masks, filled with a number.
fn filled<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let scores = x.filled(x.scores(), -1.0e4);
    let odd = bools::<B>(&[2, 1, 5, 7], 9, &x.device);
    let weights = softmax::<B>(B::float_mask_fill(scores, odd, Scalar::Float(-1.0e4)), 3);
    vec![B::float_matmul(weights, x.v)]
}

/// As `burn::nn` of Burn 0.23 has it: rows of which a mask hides all, those of the first batch, are finite in the softmax, and zeros
/// behind it. The mask is `[2, 1, 1, 7]`.
fn guarded_by<B: Backend>(x: Given<B>, mask: BoolTensor<B>, by: f64) -> Vec<FloatTensor<B>> {
    let scores = B::float_mask_fill(x.scores(), mask.clone(), Scalar::Float(by));
    let scores = B::float_mask_fill(scores, B::bool_all_dim(mask.clone(), 3), Scalar::Float(0.0));
    let weights = B::float_mask_fill(softmax::<B>(scores, 3), mask, Scalar::Float(0.0));
    vec![B::float_matmul(weights, x.v)]
}

fn half_hidden<B: Backend>(device: &B::Device) -> BoolTensor<B> {
    let hidden: Vec<bool> = (0..14).map(|at| at < 7 || at == 9).collect();
    B::bool_from_data(TensorData::new(hidden, [2, 1, 1, 7]), device)
}

fn guarded<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let mask = half_hidden::<B>(&x.device);
    guarded_by::<B>(x, mask, f64::NEG_INFINITY)
}

/// Filled with a number, of which the kernel would make something else: the operators run.
fn guarded_by_a_number<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let mask = half_hidden::<B>(&x.device);
    guarded_by::<B>(x, mask, -1.0e4)
}

/// The rows that are hidden are asked for by somebody else, too.
fn guard_is_watched<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let mask = half_hidden::<B>(&x.device);
    let scores = B::float_mask_fill(x.scores(), mask.clone(), Scalar::Float(f64::NEG_INFINITY));
    let rows = B::bool_all_dim(mask.clone(), 3);
    let scores = B::float_mask_fill(scores, rows.clone(), Scalar::Float(0.0));
    let weights = B::float_mask_fill(softmax::<B>(scores, 3), mask, Scalar::Float(0.0));
    let ones = B::float_mask_fill(
        B::float_slice(x.v.clone(), &[0..2, 0..1, 0..1, 0..1].map(Into::into)),
        rows,
        Scalar::Float(7.0),
    );
    vec![B::float_matmul(weights, x.v), ones]
}

/// Every key of a batch is hidden: its rows are the mean of the values.
fn blind<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let mask =
        B::bool_from_data(TensorData::new((0..14).map(|at| at < 7).collect::<Vec<bool>>(), [2, 1, 1, 7]), &x.device);
    let weights = softmax::<B>(B::float_mask_fill(x.scores(), mask, Scalar::Float(-1.0e9)), 3);
    vec![B::float_matmul(weights, x.v)]
}

/// A bias, a soft-cap, the scale in two factors.
fn capped<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let capped = B::float_tanh(B::float_div_scalar(x.scores(), Scalar::Float(1.5)));
    let scores = B::float_add(B::float_mul_scalar(capped, Scalar::Float(1.5)), x.bias.clone());
    vec![B::float_matmul(softmax::<B>(scores, 3), x.v)]
}

/// Three axes, as a batch of heads, and the weights kept a little longer than they are needed, past a projection.
fn joined<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let flat = |t: FloatTensor<B>, rows: usize, depth: usize| B::float_reshape(t, Shape::from([6, rows, depth]));
    let (q, k, v) = (flat(x.q, 5, 8), flat(x.k, 7, 8), flat(x.v, 7, 16));
    let weights = softmax::<B>(B::float_matmul(q, B::float_swap_dims(k, 1, 2)), 2);
    let context = B::float_reshape(B::float_matmul(weights.clone(), v), Shape::from([30, 16]));
    let projection = f32s::<B>(&[16, 12], 8, &x.device);
    let out = B::float_add_scalar(B::float_matmul(context, projection), Scalar::Float(0.5));
    drop(weights);
    vec![out]
}

/// The values are projected after queries and keys are there, the projection still open when it is read.
fn projected<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let weight = f32s::<B>(&[1, 1, 16, 16], 8, &x.device);
    let v = B::float_mul_scalar(B::float_matmul(x.v.clone(), weight), Scalar::Float(0.5));
    let weights = softmax::<B>(x.scores(), 3);
    vec![B::float_matmul(weights, v)]
}

/// Keys and values grow by one, as a cache does.
fn cached<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let [k, v] = [(&x.k, 8), (&x.v, 16)].map(|(old, depth)| {
        let new = f32s::<B>(&[2, 3, 1, depth], 10, &x.device);
        B::float_cat(vec![old.clone(), new], 2)
    });
    let scores = B::float_matmul(x.q.clone(), B::float_swap_dims(k, 2, 3));
    vec![B::float_matmul(softmax::<B>(scores, 3), v)]
}

fn data<B: Backend>(results: Vec<FloatTensor<B>>) -> Vec<TensorData> {
    results.into_iter().map(float::<B>).collect()
}

/// How often plans of attention have run.
fn attentions() -> u64 {
    plans().iter().filter(|plan| plan.name == "Attention").map(|plan| plan.runs()).sum()
}

/// Runs a program twice, as plans are made and then found, and compares it with Flex.
fn check(what: &str, ours: Program<Fused>, theirs: Program<Flex>, recognised: bool, most: u64) {
    let (device, _guard) = device();
    let expected = data::<Flex>(theirs(Given::new(&FlexDevice, DType::F32)));
    for run in ["made", "found"] {
        let given = Given::<Fused>::new(&device, DType::F32);
        let (before, known) = (attentions(), plans().len());
        let (results, count) = launches(|| ours(given));
        let made: Vec<String> = plans()[known..].iter().map(ToString::to_string).collect();
        let made = made.concat();
        assert_eq!(attentions() - before, u64::from(recognised), "{what}, {run}: plans of attention\n{made}");
        compare(&format!("{what}, {run}"), &data::<Fused>(results), &expected, NEAR);
        assert!(count <= most, "{what}, {run}: {count} launches\n{made}");
    }
}

#[test]
fn attention_whose_scores_die_is_one_launch() {
    check("plain", plain::<Fused>, plain::<Flex>, true, 1);
    check("masked", masked::<Fused>, masked::<Flex>, true, 1);
    check("capped", capped::<Fused>, capped::<Flex>, true, 1);
    check("guarded", guarded::<Fused>, guarded::<Flex>, true, 1);
}

#[test]
fn a_guard_that_something_else_reads_is_no_part_of_attention() {
    check("watched", guard_is_watched::<Fused>, guard_is_watched::<Flex>, false, 6);
}

#[test]
fn fills_with_a_number_are_one_launch_more() {
    check("filled", filled::<Fused>, filled::<Flex>, true, 2);
    check("blind", blind::<Fused>, blind::<Flex>, true, 2);
}

#[test]
fn what_comes_between_and_behind_is_part_of_the_plan() {
    check("joined", joined::<Fused>, joined::<Flex>, true, 2);
    check("projected", projected::<Fused>, projected::<Flex>, true, 2);
    // One launch makes keys and values longer, each of another depth.
    check("cached", cached::<Fused>, cached::<Flex>, true, 3);
}

/// Somebody reads the weights.
fn watched<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let weights = softmax::<B>(x.scores(), 3);
    vec![B::float_matmul(weights.clone(), x.v), weights]
}

/// The program asks for the weights.
fn halfway<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    vec![softmax::<B>(x.filled(x.scores(), -1.0e4), 3)]
}

/// Hidden keys have a weight, as they are filled with little.
fn shallow<B: Backend>(x: Given<B>) -> Vec<FloatTensor<B>> {
    let weights = softmax::<B>(x.filled(x.scores(), -1.0), 3);
    vec![B::float_matmul(weights, x.v)]
}

#[test]
fn scores_that_are_read_elsewhere_are_products_and_a_softmax() {
    check("watched", watched::<Fused>, watched::<Flex>, false, 3);
    check("halfway", halfway::<Fused>, halfway::<Flex>, false, 2);
}

#[test]
fn a_fill_that_leaves_a_weight_runs_without_the_kernel() {
    let (device, _guard) = device();
    let given = Given::new(&device, DType::F32);
    let (ours, count) = launches(|| shallow::<Fused>(given));
    assert_eq!(count, 3, "product, softmax, product");
    let ours = data::<Fused>(ours);
    let eager =
        data::<rocfire_burn::Rocm>(shallow::<rocfire_burn::Rocm>(Given::new(&crate::check::device(), DType::F32)));
    compare("shallow, eager", &ours, &eager, EXACT);
    compare("shallow, flex", &ours, &data::<Flex>(shallow::<Flex>(Given::new(&FlexDevice, DType::F32))), NEAR);
}

#[test]
fn a_guard_of_finite_fills_runs_without_the_kernel() {
    // Product, softmax with its fills, product; the rows that are hidden.
    check("by a number", guarded_by_a_number::<Fused>, guarded_by_a_number::<Flex>, true, 4);
}

#[test]
fn half_precision_is_near() {
    let (device, _guard) = device();
    let ours = data::<Fused>(masked::<Fused>(Given::new(&device, DType::F16)));
    let theirs = data::<Flex>(masked::<Flex>(Given::new(&FlexDevice, DType::F16)));
    compare("f16", &ours, &theirs, Tolerance { absolute: 4e-3, relative: 4e-3 });
}

/// The gradients of a weighted sum of masked attention.
fn trained<B: Backend>(device: &B::Device) -> Vec<FloatTensor<B>> {
    let x = Given::<Autodiff<B>>::new(device, DType::F32);
    let [q, k, v] = [&x.q, &x.k, &x.v].map(|t| Autodiff::<B>::float_set_require_grad(t.clone(), true));
    let given = Given::<Autodiff<B>> { q: q.clone(), k: k.clone(), v: v.clone(), ..x };
    let scores = given.filled(given.scores(), -1.0e4);
    let out = Autodiff::<B>::float_matmul(softmax::<Autodiff<B>>(scores, 3), given.v);
    let gradients = Autodiff::<B>::backward(out.clone());
    let mut results = vec![Autodiff::<B>::inner(out)];
    results.extend([q, k, v].map(|t| Autodiff::<B>::grad(&t, &gradients).unwrap()));
    results
}

#[test]
fn training_is_products_and_one_launch_for_each_softmax() {
    let (device, _guard) = device();
    let expected = data::<Flex>(trained::<Flex>(&FlexDevice));
    let (before, known) = (attentions(), plans().len());
    let (results, count) = launches(|| trained::<Fused>(&device));
    let made: Vec<String> = plans()[known..].iter().map(ToString::to_string).collect();
    let made = made.concat();
    compare("trained", &data::<Fused>(results), &expected, NEAR);
    assert_eq!(attentions(), before, "the scores live on for the gradient");
    // Forward: product with scale and mask, softmax, product. Backward: ones; the gradients of values and of weights; that of
    // softmax with mask and scale; the gradients of queries and of keys.
    println!("launches of attention in training: {count}");
    assert!(count <= 9, "{count} launches\n{made}");
}
