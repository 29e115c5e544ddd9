//! Graphs on any device: recorded once, replayed as often as one likes.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Device, DriverKind, Tensor};
use rocfire_kernels::gemm::{GemmParams, gemm};
use rocfire_kernels::random::{Seed, uniform};
use rocfire_tests::Failure;

/// The test's name.
pub const NAME: &str = "a_graph_replays_what_was_recorded_and_draws_anew";

/// A graph does again what was recorded, temporaries included, and its random numbers are others in each replay.
pub fn test(device: &Device) -> Box<dyn FnOnce() -> Result<(), Failure> + Send> {
    // A device of its own: what other tests launch meanwhile must not be recorded.
    let (id, config) = (device.id(), device.config().clone());
    Box::new(move || graph(&Device::open(id, config)?))
}

fn graph(device: &Device) -> Result<(), Failure> {
    // Deep and small, so that it is cut along K, with partial sums in memory that is given back at once.
    let (rows, depth) = (16, 1024);
    let values: Vec<f32> = (0..rows * depth).map(|at| (at % 37) as f32 / 37.0 - 0.5).collect();
    let a = Tensor::from_bytes(device, &[rows, depth], DType::F32, bytemuck::cast_slice(&values))?;
    let b = Tensor::from_bytes(device, &[depth, rows], DType::F32, bytemuck::cast_slice(&values))?;
    let product = Tensor::empty(device, &[rows, rows], DType::F32)?;
    let noise = Tensor::empty(device, &[1000], DType::F32)?;
    // Written through other handles, so that the results can be read in between.
    let work = || -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let stream = device.stream();
        gemm(stream, a.view(), b.view(), product.clone().view_mut(), &GemmParams::default())?;
        uniform(stream, Seed { seed: 7, offset: 3 }, 0.0, 1.0, noise.clone().view_mut())?;
        if device.is_capturing() { Ok((Vec::new(), Vec::new())) } else { Ok((product.to_bytes()?, noise.to_bytes()?)) }
    };
    let (expected, eager) = work()?;
    device.begin_capture()?;
    work()?;
    let graph = device.end_capture()?;
    let native = matches!(device.id().driver(), DriverKind::Hip | DriverKind::Cuda);
    if graph.is_empty() || graph.is_native() != native {
        return Err(format!("{graph:?}, by the driver: {}", graph.is_native()).into());
    }
    device.stream().fill(product.buffer(), 0, 0xff, (rows * rows * 4) as u64)?;
    let mut drawn = vec![eager];
    for replay in 0..3 {
        // SAFETY: all four tensors are alive and nobody else uses them.
        unsafe { graph.replay()? };
        if product.to_bytes()? != expected {
            return Err(format!("replay {replay} gives another product").into());
        }
        let noise = noise.to_bytes()?;
        if drawn.contains(&noise) {
            return Err(format!("replay {replay} draws what was drawn before").into());
        }
        drawn.push(noise);
    }
    // An input refreshed by a small launch, which may wait for others of its kind: it must come before the replay all the same.
    let refreshed: Vec<f32> = values.iter().map(|value| 0.25 - value).collect();
    let refreshed = Tensor::from_bytes(device, &[rows, depth], DType::F32, bytemuck::cast_slice(&refreshed))?;
    copy_into(refreshed.view(), a.clone().view_mut())?;
    // SAFETY: as above.
    unsafe { graph.replay()? };
    let replayed = product.to_bytes()?;
    let (anew, _) = work()?;
    if anew == expected || replayed != anew {
        return Err("a replay does not see what was launched before it".into());
    }
    if graph.is_native() == native { Ok(()) } else { Err("the driver's graph did not pass its first replay".into()) }
}
