//! The module against Burn's own, with the same weights: on Burn's CPU backend, and written out on the same device.

mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::backend::FlexDevice;
use burn::module::Module;
use burn::nn::attention::{
    MhaInput as BurnInput, MultiHeadAttention as BurnAttention, MultiHeadAttentionConfig, generate_autoregressive_mask,
};
use burn::store::ModuleRecord;
use burn::tensor::{Bool, Bytes, DType, Device, Tensor, TensorData};
use common::{Fill, numbers};
use rocfire_burn::RocmDevice;
use rocfire_burn_nn::{MhaInput, MultiHeadAttention};

fn flex() -> Device {
    FlexDevice.into()
}

fn rocm() -> Device {
    RocmDevice::emulated("gfx942").unwrap().burn().into()
}

/// Launches are counted by the device, which all tests share.
fn alone() -> MutexGuard<'static, ()> {
    static COUNTING: Mutex<()> = Mutex::new(());
    COUNTING.lock().unwrap_or_else(PoisonError::into_inner)
}

const WIDTH: usize = 32;
const HEADS: usize = 4;

fn config() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(WIDTH, HEADS).with_dropout(0.0)
}

/// A record of Burn's module, saved where there is no rocfire.
fn record(config: &MultiHeadAttentionConfig, dtype: DType) -> Bytes {
    let module = config.init(&flex()).map(&mut Fill(100, dtype, 0.0));
    module.into_record().into_bytes().unwrap()
}

fn read(bytes: &Bytes) -> ModuleRecord {
    ModuleRecord::from_bytes(bytes.clone()).unwrap()
}

/// What is hidden.
#[derive(Clone, Copy, Debug, Default)]
struct Hidden {
    pad: bool,
    odd: bool,
    causal: bool,
}

/// Extents, and what is hidden; `columns` of none are the queries' own.
#[derive(Clone, Copy, Debug)]
struct Case {
    rows: usize,
    columns: Option<usize>,
    hidden: Hidden,
    dtype: DType,
}

const BATCH: usize = 2;

impl Case {
    fn columns(&self) -> usize {
        self.columns.unwrap_or(self.rows)
    }

    fn inputs(&self, device: &Device) -> [Tensor<3>; 2] {
        let query = numbers([BATCH, self.rows, WIDTH], 1, self.dtype, device).require_grad();
        let other = self.columns.map(|columns| numbers([BATCH, columns, WIDTH], 2, self.dtype, device).require_grad());
        [query.clone(), other.unwrap_or(query)]
    }

    /// The second sequence is two keys shorter.
    fn pad(&self, device: &Device) -> Tensor<2, Bool> {
        let columns = self.columns();
        let hidden = (0..BATCH * columns).map(|at| at / columns == 1 && at % columns + 2 >= columns);
        Tensor::from_data(TensorData::new(hidden.collect(), [BATCH, columns]), device)
    }

    /// Every third key, another for each row; never the first, so that every row sees something.
    fn odd(&self, device: &Device) -> Tensor<3, Bool> {
        let columns = self.columns();
        let hidden = (0..BATCH * self.rows * columns).map(|at| at % columns > 0 && at % 3 == 1);
        Tensor::from_data(TensorData::new(hidden.collect(), [BATCH, self.rows, columns]), device)
    }
}

macro_rules! results {
    ($module:expr, $input:expr, $context:expr, $leaves:expr) => {{
        let (module, context): (_, Tensor<3>) = ($module, $context);
        let weights = numbers([BATCH, context.dims()[1], WIDTH], 5, context.dtype(), &context.device());
        let gradients = (context.clone() * weights).sum().backward();
        let mut data = vec![context.into_data()];
        data.extend($leaves.iter().map(|leaf: &Tensor<3>| leaf.grad(&gradients).unwrap().into_data()));
        for linear in [&module.query, &module.key, &module.value, &module.output] {
            data.push(linear.weight.val().grad(&gradients).unwrap().into_data());
            data.extend(linear.bias.as_ref().map(|bias| bias.val().grad(&gradients).unwrap().into_data()));
        }
        data
    }};
}

fn burns(case: &Case, config: &MultiHeadAttentionConfig, bytes: &Bytes, device: &Device) -> Vec<TensorData> {
    let module: BurnAttention = config.init(device).load_record(read(bytes));
    let [query, other] = case.inputs(device);
    let leaves = [query.clone(), other.clone()];
    let mut input = BurnInput::new(query, other.clone(), other);
    if case.hidden.pad {
        input = input.mask_pad(case.pad(device));
    }
    if case.hidden.odd {
        input = input.mask_attn(case.odd(device));
    }
    if case.hidden.causal {
        input = input.mask_attn(generate_autoregressive_mask(BATCH, case.rows, device));
    }
    let context = module.forward(input).context;
    results!(module, input, context, leaves)
}

fn ours(case: &Case, config: &MultiHeadAttentionConfig, bytes: &Bytes, device: &Device) -> Vec<TensorData> {
    let module = MultiHeadAttention::new(config, device).load_record(read(bytes));
    let [query, other] = case.inputs(device);
    let leaves = [query.clone(), other.clone()];
    let mut input = MhaInput::new(query, other.clone(), other);
    if case.hidden.pad {
        input = input.mask_pad(case.pad(device));
    }
    if case.hidden.odd {
        input = input.mask_attn(case.odd(device));
    }
    if case.hidden.causal {
        input = input.causal();
    }
    let context = module.forward(input).context;
    results!(module, input, context, leaves)
}

/// Compares results one by one, each with the bound `tolerance` of its own largest number.
fn compare(what: &str, ours: &[TensorData], theirs: &[TensorData], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}: number of results");
    for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.shape(), theirs.shape(), "{what}: shape of result {number}");
        let values = |data: &TensorData| data.clone().convert::<f64>().try_into_vec::<f64>().unwrap();
        let (ours, theirs) = (values(ours), values(theirs));
        let largest = theirs.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        // The gradient of the keys' bias is zero but for roundings: a row's softmax does not see it.
        let bound = tolerance * largest.max(1.0);
        for (index, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            assert!((a - b).abs() <= bound, "{what}: result {number}, element {index}: {a} and {b}, bound {bound}");
        }
    }
}

/// f32 sums in another order.
const F32: f64 = 2e-5;
/// Half precision keeps 11 bits, and rounds every tensor between.
const F16: f64 = 1e-2;

fn cases() -> Vec<Case> {
    let hidden = Hidden::default();
    let case = Case { rows: 9, columns: None, hidden, dtype: DType::F32 };
    vec![
        case,
        Case { hidden: Hidden { pad: true, ..hidden }, ..case },
        Case { hidden: Hidden { causal: true, ..hidden }, ..case },
        Case { hidden: Hidden { causal: true, pad: true, ..hidden }, ..case },
        Case { columns: Some(13), hidden: Hidden { pad: true, odd: true, ..hidden }, ..case },
    ]
}

#[test]
fn outputs_and_gradients_are_those_of_burns_module() {
    let _guard = alone();
    let bytes = record(&config(), DType::F32);
    for case in cases() {
        let theirs = burns(&case, &config(), &bytes, &flex().autodiff());
        compare(&format!("{case:?}"), &ours(&case, &config(), &bytes, &rocm().autodiff()), &theirs, F32);
        let written_out = burns(&case, &config(), &bytes, &rocm().autodiff());
        compare(&format!("written out, {case:?}"), &written_out, &theirs, F32);
    }
}

#[test]
fn half_precision_is_near_single_precision_of_the_same_weights() {
    let _guard = alone();
    let bytes = record(&config(), DType::F16);
    for case in cases() {
        let half = Case { dtype: DType::F16, ..case };
        let theirs = burns(&half, &config(), &bytes, &flex().autodiff());
        let ours = ours(&half, &config(), &bytes, &rocm().autodiff());
        assert!(ours.iter().all(|data| data.dtype() == DType::F16));
        compare(&format!("{half:?}"), &ours, &theirs, F16);
    }
}

#[test]
fn it_runs_where_there_is_no_fused_operator() {
    let _guard = alone();
    let case = Case { rows: 5, columns: None, hidden: Hidden { pad: true, ..Hidden::default() }, dtype: DType::F32 };
    let plain = record(&config(), DType::F32);
    let quiet = config().with_quiet_softmax(true);
    // Heads of 4 features.
    let narrow = MultiHeadAttentionConfig::new(WIDTH, 8).with_dropout(0.0);
    for (what, config, device) in [("flex", config(), flex()), ("quiet", quiet, rocm()), ("narrow", narrow, rocm())] {
        let theirs = burns(&case, &config, &plain, &flex().autodiff());
        compare(what, &ours(&case, &config, &plain, &device.autodiff()), &theirs, F32);
    }
}

#[test]
fn checkpointing_devices_have_their_own_gradients() {
    let _guard = alone();
    let case = cases()[1];
    let bytes = record(&config(), DType::F32);
    let theirs = burns(&case, &config(), &bytes, &flex().autodiff());
    let device = rocm().autodiff().gradient_checkpointing();
    compare("checkpointing", &ours(&case, &config(), &bytes, &device), &theirs, F32);
}

#[test]
fn a_record_goes_to_the_other_module_and_back() {
    let _guard = alone();
    let config = config().with_key_bias(false);
    let bytes = record(&config, DType::F32);
    let module = MultiHeadAttention::new(&config, &rocm()).load_record(read(&bytes));
    assert!(module.key.bias.is_none());
    let saved = module.clone().into_record().into_bytes().unwrap();
    let back: BurnAttention = config.init(&flex()).load_record(read(&saved));
    let first: BurnAttention = config.init(&flex()).load_record(read(&bytes));
    for (first, back) in [(&first.query, &back.query), (&first.value, &back.value), (&first.output, &back.output)] {
        first.weight.val().into_data().assert_eq(&back.weight.val().into_data(), true);
        first.bias.as_ref().unwrap().val().into_data().assert_eq(&back.bias.as_ref().unwrap().val().into_data(), true);
    }
    first.key.weight.val().into_data().assert_eq(&back.key.weight.val().into_data(), true);
    // Nothing but the parameters is in a record, and none of the modules has one that the other lacks.
    assert_eq!(read(&bytes).len(), read(&saved).len());
    let again = MultiHeadAttention::from(BurnAttention::from(module));
    assert_eq!(again.n_heads, HEADS);
}

#[test]
fn dropout_draws_in_training_only() {
    let _guard = alone();
    let config = config().with_dropout(0.5);
    let bytes = record(&config, DType::F32);
    let forward = |device: &Device| {
        let module = MultiHeadAttention::new(&config, device).load_record(read(&bytes));
        let x = numbers([BATCH, 9, WIDTH], 1, DType::F32, device);
        module.forward(MhaInput::self_attn(x)).context.into_data()
    };
    let trained = rocm().autodiff();
    assert_ne!(forward(&trained), forward(&trained), "another draw in each step");
    assert_eq!(forward(&rocm()), forward(&rocm()));
}

/// Burn's own module, unmodified, where no gradient is asked for: its weights are dropped behind the last projection.
#[test]
fn burns_module_in_inference_is_the_fused_attention() {
    let _guard = alone();
    let rocm = RocmDevice::emulated("gfx942").unwrap();
    let bytes = record(&config(), DType::F32);
    let forward = |device: &Device| {
        let case = cases()[1];
        let module: BurnAttention = config().init(device).load_record(read(&bytes));
        let x = numbers([BATCH, case.rows, WIDTH], 1, DType::F32, device);
        let input = BurnInput::self_attn(x).mask_pad(case.pad(device));
        let opened = rocm.open().unwrap();
        device.sync().unwrap();
        let before = opened.launches();
        let context = module.forward(input).context;
        let data = context.into_data();
        (vec![data], opened.launches() - before)
    };
    let attentions =
        || rocfire_burn::plans().iter().filter(|plan| plan.name == "Attention").map(|plan| plan.runs()).sum();
    let before: u64 = attentions();
    let (ours, launches) = forward(&rocm.burn().into());
    let after: u64 = attentions();
    compare("inference", &ours, &forward(&flex()).0, F32);
    assert_eq!(after - before, 1, "plans of attention that ran");
    // Queries, keys and values; the mask; attention; the last projection.
    println!("launches of the module in inference: {launches}");
    assert!(launches <= 4, "{launches} launches");
}

#[test]
fn a_step_is_fewer_launches_than_written_out() {
    let _guard = alone();
    let rocm = RocmDevice::emulated("gfx942").unwrap();
    let device = Device::from(rocm.burn()).autodiff();
    let case = cases()[2];
    let bytes = record(&config(), DType::F32);
    let count = |run: &dyn Fn() -> Vec<TensorData>| {
        device.sync().unwrap();
        let before = rocm.open().unwrap().launches();
        run();
        device.sync().unwrap();
        rocm.open().unwrap().launches() - before
    };
    let ours = count(&|| ours(&case, &config(), &bytes, &device));
    let burns = count(&|| burns(&case, &config(), &bytes, &device));
    println!("launches of a step: {ours}, written out {burns}");
    assert!(ours < burns, "{ours} launches, {burns} written out");
}
