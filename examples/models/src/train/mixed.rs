//! Mixed precision: a model that computes in 16 bits, and the same model in f32, which the optimizer steps.
//!
//! Burn's optimizers keep their state in the type of the gradients, and a step of bf16 weights is lost where it is less than 1/256
//! of the weight. So the weights that are learned are f32; each step computes with a copy of them in 16 bits, and the gradients of
//! the copy, which has the same parameter ids, are handed to the optimizer of the originals in f32. All of it is ordinary Burn.
//!
//! A parameter's gradient is scaled, the parameter stepped and copied before the next one's turn. Written as three walks over the model
//! it would be three times the launches, and gradients in f32 would lie in memory.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::container::TensorContainer;
use burn::tensor::{DType, FloatDType, Tensor};

/// Added to the norm that gradients are divided by, as PyTorch does.
const NORM_EPSILON: f64 = 1e-6;

/// What a step computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// All in f32; there is no copy.
    F32,
    /// Weights and activations in f16; batch normalisation in f32. The loss is multiplied by a constant, so that small gradients
    /// are not lost.
    F16,
    /// Weights and activations in bf16; batch normalisation in f32.
    Bf16,
}

impl Precision {
    /// The type of activations.
    pub fn dtype(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::F16 => DType::F16,
            Precision::Bf16 => DType::BF16,
        }
    }

    /// The type of the copy's parameters; `None` where there is none.
    fn narrow(self) -> Option<FloatDType> {
        match self {
            Precision::F32 => None,
            Precision::F16 => Some(FloatDType::F16),
            Precision::Bf16 => Some(FloatDType::BF16),
        }
    }

    /// The model that computes: leaves of their own with the parameters' ids. Running statistics are those of the model itself.
    pub fn copy_of<M: Module>(self, model: &M) -> M {
        let mut copies = Copies::new(self);
        model.visit(&mut copies);
        copies.put_into(model)
    }
}

/// Copies of parameters in 16 bits, but of those of batch normalisation, which compute in f32.
struct Copies {
    dtype: Option<FloatDType>,
    /// How many modules deep it is in one whose parameters are not copied.
    kept: usize,
    made: TensorContainer<ParamId>,
}

impl Copies {
    fn new(precision: Precision) -> Copies {
        Copies { dtype: precision.narrow(), kept: 0, made: TensorContainer::new() }
    }

    fn enter(&mut self, container: &str) {
        if self.kept > 0 || container == "Struct:BatchNorm" {
            self.kept += 1;
        }
    }

    fn exit(&mut self) {
        self.kept = self.kept.saturating_sub(1);
    }

    fn make<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(dtype) = self.dtype.filter(|_| self.kept == 0) else { return };
        // What is detached still asks for a gradient, and its cast would be no leaf.
        let copy = param.val().detach().set_require_grad(false).cast(dtype).require_grad();
        self.made.register(param.id, copy);
    }

    /// The model with the copies in the place of its parameters.
    fn put_into<M: Module>(self, model: &M) -> M {
        struct Put(TensorContainer<ParamId>);
        impl ModuleMapper for Put {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                match self.0.remove::<Tensor<D>>(&param.id) {
                    Some(copy) => param.map(|_| copy),
                    None => param,
                }
            }
        }
        model.clone().map(&mut Put(self.made))
    }
}

impl ModuleVisitor for Copies {
    fn enter_module(&mut self, _name: &str, container: &str) {
        self.enter(container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.make(param);
    }
}

/// Adds gradients to others, in f32.
pub(super) fn add<M: Module>(model: &M, sums: GradientsParams, gradients: GradientsParams) -> GradientsParams {
    let mut visitor = Add { sums, gradients };
    model.visit(&mut visitor);
    visitor.sums
}

struct Add {
    sums: GradientsParams,
    gradients: GradientsParams,
}

impl ModuleVisitor for Add {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else { return };
        let gradient = gradient.cast(DType::F32);
        let sum = match self.sums.remove::<D>(param.id) {
            Some(sum) => sum + gradient,
            None => gradient,
        };
        self.sums.register(param.id, sum);
    }
}

/// The norm of all gradients together, `[1]`, f32.
pub(super) fn norm<M: Module>(model: &M, gradients: &GradientsParams) -> Tensor<1> {
    let mut visitor = Squares { gradients, sums: Vec::new() };
    model.visit(&mut visitor);
    Tensor::cat(visitor.sums, 0).sum().sqrt()
}

struct Squares<'a> {
    gradients: &'a GradientsParams,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.sums.push(gradient.cast(DType::F32).square().sum());
        }
    }
}

/// What brings gradients of this norm to at most `most`, `[1]`.
pub(super) fn clipping(norm: &Tensor<1>, most: f64) -> Tensor<1> {
    norm.clone().add_scalar(NORM_EPSILON).recip().mul_scalar(most).clamp_max(1.0)
}

/// What the gradients of a step become before the optimizer sees them, and how far it goes.
pub(super) struct Step {
    /// Multiplies gradients; a number on the device, `[1]`.
    pub factor: Option<Tensor<1>>,
    /// Multiplies them too.
    pub constant: f64,
    /// The optimizer's rate.
    pub rate: f64,
}

/// Steps a model, and gives the one that computes next.
pub(super) fn step<M: Module>(
    model: M,
    optimizer: &mut ModuleOptimizer,
    gradients: GradientsParams,
    step: Step,
    precision: Precision,
) -> (M, M) {
    let mut mapper = Update { optimizer, gradients, step, copies: Copies::new(precision) };
    let model = model.map(&mut mapper);
    let copy = mapper.copies.put_into(&model);
    (model, copy)
}

struct Update<'a> {
    optimizer: &'a mut ModuleOptimizer,
    gradients: GradientsParams,
    step: Step,
    copies: Copies,
}

impl ModuleMapper for Update<'_> {
    fn enter_module(&mut self, _name: &str, container: &str) {
        self.copies.enter(container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.copies.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else { return param };
        let mut gradient = gradient.cast(DType::F32);
        if self.step.constant != 1.0 {
            gradient = gradient.mul_scalar(self.step.constant);
        }
        if let Some(factor) = &self.step.factor {
            gradient = gradient * factor.clone().unsqueeze();
        }
        let mut own = GradientsParams::new();
        own.register(param.id, gradient);
        // A parameter is a module of one.
        let param = self.optimizer.step(self.step.rate, param, own);
        self.copies.make(&param);
        param
    }
}
