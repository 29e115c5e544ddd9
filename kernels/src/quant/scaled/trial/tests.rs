//! Trials of our own kernel, which passes them, and of results that are not right.

use super::super::multiply_ours;
use rocfire_hal::{Config, Device};

use super::*;
use crate::testing::device;

/// Formats and ways that a library has on some card.
fn ways() -> Vec<([Format; 2], Way)> {
    use Format::{E2M1, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, I8};
    use Scaling::{Block128, Line, Mx32, Run128, Tensor as All};
    let scaled = Way::Scaled;
    vec![
        ([I8, I8], Way::Sums),
        ([E4M3, E4M3], Way::Sums),
        ([E4M3, E5M2], scaled([All; 2])),
        ([E4M3Fnuz, E5M2Fnuz], scaled([Line; 2])),
        ([E4M3, E4M3], scaled([Run128, Block128])),
        ([E4M3, E4M3], scaled([Block128, Run128])),
        ([E4M3, E4M3], scaled([Run128; 2])),
        ([E4M3, E2M1], scaled([Mx32; 2])),
    ]
}

fn is_mx(way: Way) -> bool {
    way == Way::Scaled([Scaling::Mx32; 2])
}

#[test]
fn what_is_right_passes_and_a_scale_in_another_place_does_not() {
    let device = device();
    let stream = device.stream();
    for (formats, way) in ways() {
        // Blocks are whole, and are not.
        for (output, of) in
            [(DType::BF16, size([1, 256, 512])), (DType::F32, size([1, 288, if is_mx(way) { 512 } else { 528 }]))]
        {
            let mut trial = Trial::new(stream, formats, way, EndKey::default(), of).unwrap();
            let product = |trial: &Trial| {
                let [a, b] = &trial.sides();
                let mut c = Tensor::empty(&device, &trial.size[..2], output).unwrap();
                multiply_ours(&Job { stream, a, b, size: trial.size, end: ScaledEnd::default() }, c.view_mut())
                    .unwrap();
                c.to_bytes().unwrap()
            };
            assert_eq!(trial.check(output, &product(&trial)), Ok(()), "{formats:?} {way:?} {output}");
            let mut scales = trial.scales[1].to_bytes().unwrap();
            let size = trial.scales[1].dtype().size_bytes();
            match scales.len() / size {
                // One for all: twice as much.
                1 => scales.copy_from_slice(&2f32.to_le_bytes()),
                _ => scales.rotate_left(size),
            }
            let (shape, dtype) = (trial.scales[1].shape().to_vec(), trial.scales[1].dtype());
            trial.scales[1] = Tensor::from_bytes(&device, &shape, dtype, &scales).unwrap();
            let why = trial.check(output, &product(&trial)).unwrap_err();
            assert!(why.contains("of a trial"), "{why}");
        }
    }
}

#[test]
fn a_library_passes_every_way_that_it_plans() {
    let device = device();
    let stream = device.stream();
    let library = device.vendor_gemm().map_or_else(|why| format!("no library ({why})"), str::to_owned);
    for (formats, way) in ways() {
        for output in [DType::F16, DType::BF16, DType::F32] {
            for of in [size([1, 256, 512]), size([1, 288, if is_mx(way) { 512 } else { 528 }])] {
                let trial = Trial::new(stream, formats, way, EndKey::default(), of).unwrap();
                let [a, b] = &trial.sides();
                let c = Tensor::empty(&device, &of[..2], output).unwrap();
                let planned = Job { stream, a, b, size: of, end: ScaledEnd::default() }
                    .plan(way, Ending::NONE, &c.view(), 0)
                    .is_some();
                println!("{library} plans {formats:?} {way:?} into {output}, {of:?}: {planned}");
                let outcome = trial.by_library(stream, way, output).unwrap();
                assert_eq!(outcome.is_ok(), planned, "{formats:?} {way:?} into {output}, {of:?}: {outcome:?}");
            }
        }
    }
}

/// Ends that a library has on some card, and what they are stored as.
fn ends() -> Vec<(EndKey, DType)> {
    use EndActivation::{GeluTanh, None as Same, Relu, Silu};
    let mut ends = Vec::new();
    for activation in [Same, Relu, GeluTanh, Silu] {
        for bias in [None, Some(DType::BF16)] {
            ends.push((EndKey { bias, activation, code: None }, DType::BF16));
            ends.push((EndKey { bias, activation, code: Some(Format::E4M3) }, DType::U8));
        }
        ends.push((EndKey { bias: Some(DType::F16), activation, code: None }, DType::F16));
    }
    ends.retain(|(end, _)| !end.is_none());
    ends
}

#[test]
fn ends_that_are_right_pass_and_others_do_not() {
    let device = device();
    let (stream, way) = (device.stream(), Way::Scaled([Scaling::Tensor; 2]));
    let all = ends();
    for (at, &(end, output)) in all.iter().enumerate() {
        let trial = Trial::new(stream, [Format::E4M3; 2], way, end, size([1, 256, 512])).unwrap();
        let product = |end: ScaledEnd<'_>| {
            let [a, b] = &trial.sides();
            let mut c = Tensor::empty(&device, &trial.size[..2], output).unwrap();
            multiply_ours(&Job { stream, a, b, size: trial.size, end }, c.view_mut()).unwrap();
            c.to_bytes().unwrap()
        };
        assert_eq!(trial.check(output, &product(trial.end())), Ok(()), "{end:?}");
        // Another activation, and no bias where there is one.
        let (other, _) = all[(at + 6) % all.len()];
        let wrong = ScaledEnd { activation: other.activation, ..trial.end() };
        if other.activation != end.activation {
            assert!(trial.check(output, &product(wrong)).is_err(), "{end:?}, not {other:?}");
        }
        if end.bias.is_some() {
            let wrong = ScaledEnd { bias: None, ..trial.end() };
            assert!(trial.check(output, &product(wrong)).is_err(), "{end:?} without a bias");
        }
    }
}

/// What it plans it does right, or it is not used: a case of the tests would be wrong otherwise. Said for each.
#[test]
fn a_librarys_own_ends_are_tried_before_they_are_used() {
    let device = device();
    let stream = device.stream();
    let library = device.vendor_gemm().map_or_else(|why| format!("no library ({why})"), str::to_owned);
    for scaling in [Scaling::Tensor, Scaling::Line] {
        for (end, output) in ends() {
            let (way, of) = (Way::Scaled([scaling; 2]), size([1, 256, 512]));
            let trial = Trial::new(stream, [Format::E4M3; 2], way, end, of).unwrap();
            let [a, b] = &trial.sides();
            let job = Job { stream, a, b, size: of, end: trial.end() };
            let c = Tensor::empty(&device, &of[..2], output).unwrap();
            let ending = job.library_end(way, output).map(Ending::Library);
            assert_eq!(ending.is_none(), end.code.is_some() && scaling == Scaling::Line, "{end:?} {scaling:?}");
            let planned = ending.is_some_and(|ending| job.plan(way, ending, &c.view(), 0).is_some());
            let outcome = trial.by_library(stream, way, output).unwrap();
            println!("{library}, {scaling:?}, {end:?} into {output}: planned {planned}, {outcome:?}");
            assert_eq!(outcome.is_ok(), planned, "{end:?} {scaling:?}");
            let passed = ending.is_some_and(|ending| is_passed(&job, way, ending, output).unwrap());
            assert_eq!(passed, outcome.is_ok(), "{end:?} {scaling:?}");
        }
    }
}

#[test]
fn a_device_without_a_library_takes_no_way() {
    let id = DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED).unwrap();
    let device = Device::open(id, Config::from_env().unwrap()).unwrap();
    let stream = device.stream();
    for (formats, way) in ways() {
        let trial = Trial::new(stream, formats, way, EndKey::default(), size([1, 256, 512])).unwrap();
        let [a, b] = &trial.sides();
        let job = Job { stream, a, b, size: trial.size, end: ScaledEnd::default() };
        assert!(!is_passed(&job, way, Ending::NONE, DType::BF16).unwrap());
        let c = Tensor::empty(&device, &trial.size[..2], DType::BF16).unwrap();
        assert!(job.taken(&c.view(), None).unwrap().is_none());
    }
}
