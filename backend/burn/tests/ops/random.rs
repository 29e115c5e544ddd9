//! Random tensors: the same for the same seed, and of the distribution that was asked for.

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{Backend, Distribution};
use burn_std::{FloatDType, IntDType};
use rocfire_burn::Rocm;

use crate::check::{device, float, int, numbers};

fn draw(distribution: Distribution, dtype: FloatDType, count: usize) -> Vec<f64> {
    numbers(&float::<Rocm>(Rocm::float_random([count].into(), distribution, &device(), dtype)))
}

fn mean_and_deviation(numbers: &[f64]) -> (f64, f64) {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
    (mean, variance.sqrt())
}

/// One test, since all draw from one device's sequence and nothing else does.
#[test]
fn random_numbers_follow_the_seed_and_the_distribution() {
    const COUNT: usize = 4096;
    let sequence = || {
        Rocm::seed(&device(), 42);
        let first = draw(Distribution::Default, FloatDType::F32, COUNT);
        (first, draw(Distribution::Normal(1.0, 2.0), FloatDType::F32, COUNT))
    };
    let (first, second) = sequence();
    assert_eq!(sequence(), (first.clone(), second.clone()), "the same seed gives the same numbers");
    assert_ne!(first, draw(Distribution::Default, FloatDType::F32, COUNT), "a later call gives others");
    Rocm::seed(&device(), 43);
    assert_ne!(first, draw(Distribution::Default, FloatDType::F32, COUNT), "another seed gives others");

    assert!(first.iter().all(|&x| (0.0..1.0).contains(&x)));
    let (mean, deviation) = mean_and_deviation(&first);
    assert!((mean - 0.5).abs() < 0.02 && (deviation - 0.2887).abs() < 0.01, "uniform: {mean} ± {deviation}");
    let (mean, deviation) = mean_and_deviation(&second);
    assert!((mean - 1.0).abs() < 0.12 && (deviation - 2.0).abs() < 0.1, "normal: {mean} ± {deviation}");

    for dtype in [FloatDType::F64, FloatDType::F16, FloatDType::BF16] {
        let uniform = draw(Distribution::Uniform(-3.0, 5.0), dtype, COUNT);
        assert!(uniform.iter().all(|&x| (-3.0..=5.0).contains(&x)), "{dtype:?}");
        let (mean, _) = mean_and_deviation(&uniform);
        assert!((mean - 1.0).abs() < 0.15, "{dtype:?}: {mean}");
    }
    let coins = draw(Distribution::Bernoulli(0.25), FloatDType::F32, COUNT);
    assert!(coins.iter().all(|&x| x == 0.0 || x == 1.0));
    assert!((mean_and_deviation(&coins).0 - 0.25).abs() < 0.03);

    let dice = numbers(&int::<Rocm>(Rocm::int_random(
        [COUNT].into(),
        Distribution::Uniform(1.0, 7.0),
        &device(),
        IntDType::I32,
    )));
    for face in 1..=6 {
        let share = dice.iter().filter(|&&x| x == f64::from(face)).count() as f64 / COUNT as f64;
        assert!((share - 1.0 / 6.0).abs() < 0.03, "{face}: {share}");
    }
    assert!(dice.iter().all(|&x| (1.0..=6.0).contains(&x)));

    let integers = [
        IntDType::I64,
        IntDType::I32,
        IntDType::I16,
        IntDType::I8,
        IntDType::U64,
        IntDType::U32,
        IntDType::U16,
        IntDType::U8,
    ];
    for dtype in integers {
        let draw =
            |distribution| numbers(&int::<Rocm>(Rocm::int_random([COUNT].into(), distribution, &device(), dtype)));
        let near = |numbers: &[f64], mean: f64, within: f64| {
            let (got, _) = mean_and_deviation(numbers);
            assert!((got - mean).abs() < within, "{dtype:?}: {got}, not about {mean}");
        };
        let uniform = draw(Distribution::Uniform(10.0, 20.0));
        assert!(uniform.iter().all(|x| (10.0..20.0).contains(x) && x.fract() == 0.0), "{dtype:?}");
        near(&uniform, 14.5, 0.3);
        near(&draw(Distribution::Normal(60.0, 5.0)), 59.5, 0.8);
        let coins = draw(Distribution::Bernoulli(0.75));
        assert!(coins.iter().all(|&x| x == 0.0 || x == 1.0), "{dtype:?}");
        near(&coins, 0.75, 0.03);
    }
}
