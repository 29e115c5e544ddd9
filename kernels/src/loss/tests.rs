use rocfire_hal::{Config, DType, Device, Error, IndexFault, Tensor};

use super::*;
use crate::testing::{Lie, device, read, tensor};

const SHAPE: [usize; 2] = [3, 5];

/// Loss and gradient of three rows, and what was told of each.
fn losses(device: &Device, targets: &Tensor, ignored: Option<i64>) -> [(Vec<f64>, Option<IndexFault>); 2] {
    let x = tensor(device, &SHAPE, DType::F32, &(0..15).map(|at| f64::from(at % 4)).collect::<Vec<_>>(), Lie::Plain);
    let mut call = CrossEntropy::new(x.view(), targets.view());
    call.ignored = ignored;
    let [mut loss, mut lse, d_loss] = [(); 3].map(|()| tensor(device, &[3], DType::F32, &[1.0; 3], Lie::Plain));
    cross_entropy(device.stream(), &call, loss.view_mut(), lse.view_mut()).unwrap();
    let forward = told(device);
    let mut dx = tensor(device, &SHAPE, DType::F32, &[9.0; 15], Lie::Plain);
    cross_entropy_backward(device.stream(), &call, lse.view(), d_loss.view(), dx.view_mut()).unwrap();
    let backward = told(device);
    [(read(&loss), forward), (read(&dx), backward)]
}

fn told(device: &Device) -> Option<IndexFault> {
    match device.sync() {
        Ok(()) => None,
        Err(Error::Index(fault)) => Some(fault),
        Err(other) => panic!("{other}"),
    }
}

fn targets(device: &Device, dtype: DType, values: [i64; 3]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()[..dtype.size_bytes()].to_vec()).collect();
    Tensor::from_bytes(device, &[3], dtype, &bytes).unwrap()
}

#[test]
fn a_target_that_is_no_class_is_told_of_and_an_ignored_one_is_not() {
    // Others of this process must not be told of what happens here.
    let device = Device::open(device().id(), Config::from_env().unwrap()).unwrap();
    let off = Device::open(device.id(), Config::from_env().unwrap().with_check_index(false)).unwrap();
    for (dtype, bad) in [(DType::I64, (1 << 32) + 1), (DType::I64, -1), (DType::I32, 5), (DType::I32, -7)] {
        for ignored in [None, Some(-100), Some(2)] {
            let results = losses(&device, &targets(&device, dtype, [0, bad, 4]), ignored);
            let names = ["cross_entropy", "cross_entropy_backward"];
            for (name, (_, fault)) in names.into_iter().zip(&results) {
                let wanted = IndexFault { op: name.to_owned(), index: bad, extent: 5 };
                assert_eq!(fault.as_ref(), Some(&wanted), "{dtype}, ignoring {ignored:?}");
            }
            let unchecked = losses(&off, &targets(&off, dtype, [0, bad, 4]), ignored);
            for ((now, _), (before, nothing)) in results.iter().zip(&unchecked) {
                assert_eq!(*nothing, None);
                let bits = |values: &[f64]| values.iter().map(|v| v.is_nan().then_some(*v as u64)).collect::<Vec<_>>();
                assert_eq!(bits(now), bits(before));
                let row = now.len() / 3;
                assert!(now[row..2 * row].iter().all(|x| x.is_nan()), "{now:?}");
                assert!(now[..row].iter().chain(&now[2 * row..]).all(|x| x.is_finite()), "{now:?}");
            }
        }
        let [(loss, forward), (dx, backward)] = losses(&device, &targets(&device, dtype, [0, bad, 4]), Some(bad));
        assert_eq!((forward, backward, loss[1]), (None, None, 0.0));
        assert_eq!(dx[5..10], [0.0; 5]);
    }
}
