//! Burn's `Quantizer` on a Linear-ReLU-Linear model: how far the quantised model is from the one in f32, and what it launches.
//!
//! Nothing but the device is rocfire's. Products read the weights as packed codes; the profile of the device tells whether any
//! kernel wrote a weight out as floats.

use burn::module::{Module, Quantizer};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::quantization::{Calibration, QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn::tensor::{Device, Distribution, Tensor};
use rocfire_burn::RocmDevice;

/// Inputs, hidden values and outputs of the model.
pub const WIDTH: usize = 1024;
/// Rows of the input: few, so that an emulated card is quick.
pub const BATCH: usize = 4;

/// The model.
#[derive(Module, Debug)]
pub struct Mlp {
    first: Linear,
    second: Linear,
}

impl Mlp {
    /// A fresh model; its weights follow from the device's seed.
    pub fn new(device: &Device) -> Mlp {
        let linear = || LinearConfig::new(WIDTH, WIDTH).init(device);
        Mlp { first: linear(), second: linear() }
    }

    /// `[batch, WIDTH]` → `[batch, WIDTH]`.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.second.forward(relu(self.first.forward(x)))
    }
}

/// The schemes that are tried, by name.
pub fn schemes() -> [(&'static str, QuantScheme); 5] {
    let packed = |value| QuantScheme::default().with_value(value).with_store(QuantStore::PackedU32(0));
    [
        ("Q8S, one scale", packed(QuantValue::Q8S).per_tensor(ScaleDtype::F32)),
        ("Q8S, blocks of 32", packed(QuantValue::Q8S).per_block([32], ScaleDtype::F16)),
        ("Q4S, one scale", packed(QuantValue::Q4S).per_tensor(ScaleDtype::F32)),
        ("Q4S, blocks of 32", packed(QuantValue::Q4S).per_block([32], ScaleDtype::F16)),
        ("E4M3, blocks of 32", packed(QuantValue::E4M3).per_block([32], ScaleDtype::UE8M0)),
    ]
}

/// One launch of a forward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Which operator.
    pub operator: String,
    /// Which of its kernels.
    pub kernel: String,
    /// What it was about: of a dequantisation, the shape of the floats that it writes.
    pub shape: Vec<usize>,
}

/// What a scheme comes to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scheme's name.
    pub name: &'static str,
    /// `‖y - y₃₂‖ / ‖y₃₂‖` of the results of the quantised model and of the one in f32.
    pub relative_error: f64,
    /// What the quantised model's forward pass launched.
    pub launches: Vec<Launched>,
}

impl Outcome {
    /// The most floats that any launch turned codes into: a weight has `WIDTH · WIDTH` of them, a bias, which the quantizer takes
    /// too, `WIDTH`.
    pub fn most_dequantised(&self) -> usize {
        let written = self.launches.iter().filter(|launch| launch.operator == "dequantise");
        written.map(|launch| launch.shape.iter().product()).max().unwrap_or(0)
    }
}

/// Runs the model in f32 and with its weights in every scheme.
///
/// # Errors
/// The device's, as it says them.
pub fn measure(rocm: RocmDevice) -> Result<Vec<Outcome>, Box<dyn std::error::Error>> {
    let device = Device::from(rocm.burn());
    let opened = rocm.open()?;
    device.seed(7);
    let model = Mlp::new(&device);
    let x = Tensor::<2>::random([BATCH, WIDTH], Distribution::Normal(0.0, 1.0), &device);
    let exact = floats(model.forward(x.clone()))?;
    let mut outcomes = Vec::new();
    for (name, scheme) in schemes() {
        let quantised = model.clone().quantize_weights(&mut Quantizer::new(Calibration::MinMax, scheme));
        device.sync()?;
        opened.start_profile()?;
        let got = floats(quantised.forward(x.clone()))?;
        let timeline = opened.take_profile()?.ok_or("somebody else ended the profile")?;
        let launched = timeline.launches.into_iter();
        let launches =
            launched.map(|launch| Launched { operator: launch.operator, kernel: launch.kernel, shape: launch.shape });
        outcomes.push(Outcome { name, relative_error: relative_error(&got, &exact), launches: launches.collect() });
    }
    Ok(outcomes)
}

fn floats(x: Tensor<2>) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let data = x.try_into_data().map_err(|error| error.to_string())?;
    Ok(data.try_to_vec::<f32>().map_err(|error| format!("{error:?}"))?)
}

fn relative_error(got: &[f32], exact: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let error: f64 = got.iter().zip(exact).map(|(&got, &exact)| square(got - exact)).sum();
    (error / exact.iter().copied().map(square).sum::<f64>()).sqrt()
}
