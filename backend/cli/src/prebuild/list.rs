//! Which kernels a pack of a level holds.
//!
//! The dispatch itself says it: the operators' cases, and element-wise operators one by one, are called on a device that only notes
//! which kernels it is asked for. The registry adds what no case happens to meet.

use std::collections::HashSet;

use rocfire_arch::Arch;
use rocfire_fusion::{Binary, Compare, Reduce, Scalar, Unary, eager};
use rocfire_hal::{Config, DType, Device, Source, Tensor};
use rocfire_kernels::registry::registry;
use rocfire_tests::case;

/// How much a pack holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What nearly every program needs.
    Core,
    /// Every operator but gradients.
    Inference,
    /// Every operator.
    Gradients,
}

/// Operators of [`Level::Core`] by the names of their cases and rows; one-operator kernels come to them.
const CORE: [&str; 23] = [
    "add",
    "all",
    "any",
    "arg_max",
    "arg_min",
    "arg_reduce",
    "copy",
    "gather",
    "gelu",
    "gemm",
    "layer_norm",
    "log_softmax",
    "max",
    "mean",
    "min",
    "norm",
    "random",
    "random_bernoulli",
    "random_normal",
    "random_uniform",
    "select",
    "softmax",
    "sum",
];

/// Operators whose shapes follow from what they read, and a device that computes nothing has nothing to read. The registry has their
/// kernel, `compact`.
const READING: [&str; 2] = ["argwhere", "mask_select"];

/// What names of gradients end with.
const GRADIENT: [&str; 2] = ["_backward", "_gradient"];

/// The types that one-operator kernels are made for.
const TYPES: [DType; 7] = [DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];

/// Extents of the tensors that one-operator kernels are asked for: one whose last axis takes the widest accesses, one whose last
/// axis is shorter than those.
const SHAPES: [[usize; 2]; 2] = [[8, 64], [8, 3]];

impl Level {
    /// The level of a number, `None` for 0.
    pub fn of(number: u8) -> Option<Level> {
        [None, Some(Level::Core), Some(Level::Inference), Some(Level::Gradients)][usize::from(number.min(3))]
    }

    /// The lowest level that has an operator.
    fn of_operator(operator: &str) -> Level {
        if GRADIENT.iter().any(|end| operator.ends_with(end)) {
            return Level::Gradients;
        }
        if CORE.contains(&operator) { Level::Core } else { Level::Inference }
    }
}

/// The sources of a level, each once.
///
/// # Errors
/// What a launcher refuses that should not have.
pub fn sources(arch: Arch, level: Level, config: &Config) -> Result<Vec<Source>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    let mut cases = case::all();
    cases.retain(|case| Level::of_operator(case.operator) <= level && !READING.contains(&case.operator));
    // An emulated device promises the same bits on every run, others do unless told; kernels may differ.
    for deterministic in [true, false] {
        let device = Device::planning(arch, config.clone().with_deterministic(deterministic));
        let mut one_operator = OneOperator { device: &device };
        one_operator.all()?;
        for case in &cases {
            let outcome = case.prepare(&device).and_then(|mut run| run.launch());
            outcome.map_err(|error| format!("{} on {arch}: {error}", case.name()))?;
            // What waits to share a launch would only be put together later.
            device.flush();
        }
        all.extend(device.wanted());
    }
    let rows = registry(arch).into_iter().filter(|row| Level::of_operator(row.operator) <= level);
    all.extend(rows.map(|row| row.source));
    let mut seen = HashSet::new();
    all.retain(|source| seen.insert(*source.hash()));
    Ok(all)
}

/// Every graph of one operator, as the adapters' eager operators are.
struct OneOperator<'a> {
    device: &'a Device,
}

impl OneOperator<'_> {
    fn all(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        for shape in SHAPES {
            for dtype in TYPES {
                let x = Tensor::empty(self.device, &shape, dtype)?;
                let condition = Tensor::empty(self.device, &shape, DType::Bool)?;
                let scalar = if dtype.is_float() { Scalar::Float(1.0) } else { Scalar::Int(1) };
                let mut y = Tensor::empty(self.device, &shape, dtype)?;
                self.operators(&x, scalar)?;
                take(eager::select(&condition, &x, &x))?;
                take(eager::select_scalar(&condition, scalar, &x))?;
                take(eager::copy(&x))?;
                take(eager::fill(y.view_mut(), scalar))?;
                let turned = x.with_layout(x.layout().swap(0, 1)?)?;
                take(eager::copy(&turned))?;
                for to in TYPES {
                    take(eager::cast(&x, to))?;
                }
            }
        }
        Ok(())
    }

    fn operators(&self, x: &Tensor, scalar: Scalar) -> Result<(), Box<dyn std::error::Error>> {
        for &op in Unary::ALL {
            take(eager::unary(op, x))?;
        }
        for &op in Binary::ALL {
            take(eager::binary(op, x, x))?;
            take(eager::binary_scalar(op, x, scalar))?;
            take(eager::scalar_binary(op, scalar, x))?;
        }
        for &op in Compare::ALL {
            take(eager::compare(op, x, x))?;
            take(eager::compare_scalar(op, x, scalar))?;
        }
        for &op in Reduce::ALL {
            take(eager::reduce_last(op, x))?;
        }
        Ok(())
    }
}

/// Passes over what an operator does not do for a type.
fn take<T>(outcome: rocfire_fusion::Result<T>) -> Result<(), rocfire_fusion::Error> {
    match outcome {
        Ok(_) | Err(rocfire_fusion::Error::Operand { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(arch: &str, level: Level) -> HashSet<[u8; 32]> {
        let sources = sources(Arch::parse(arch).unwrap(), level, &Config::default()).unwrap();
        let hashes: HashSet<_> = sources.iter().map(|source| *source.hash()).collect();
        assert_eq!(hashes.len(), sources.len(), "each source is there once");
        hashes
    }

    #[test]
    fn each_level_has_all_of_the_one_below_and_the_last_all_of_the_registry() {
        for arch in ["gfx942", "gfx1100"] {
            let [core, inference, gradients] =
                [Level::Core, Level::Inference, Level::Gradients].map(|level| hashes(arch, level));
            assert!(core.len() > 100 && core.is_subset(&inference) && inference.is_subset(&gradients), "{arch}");
            assert!(core.len() < inference.len() && inference.len() < gradients.len(), "{arch}");
            let rows = registry(Arch::parse(arch).unwrap());
            assert!(rows.iter().all(|row| gradients.contains(row.source.hash())), "{arch}");
            println!("{arch}: {} {} {}", core.len(), inference.len(), gradients.len());
        }
    }

    #[test]
    fn every_name_of_the_core_is_an_operator() {
        let mut names: HashSet<&str> = case::all().iter().map(|case| case.operator).collect();
        names.extend(registry(Arch::parse("gfx942").unwrap()).iter().map(|row| row.operator));
        assert!(CORE.iter().all(|name| names.contains(name)), "{CORE:?} of {names:?}");
        assert_eq!(Level::of_operator("norm_backward"), Level::Gradients);
        assert_eq!(Level::of_operator("something_new"), Level::Inference);
    }
}
