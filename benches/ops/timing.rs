//! Times by events on the device's stream.

use rocfire_hal::{DType, Device, Tensor};

use crate::op::{Error, ROTATION_BYTES, filled};

const BATCHES: usize = 15;
/// A batch is as long as this, so that what lies between two events is mostly the kernel.
const BATCH_MS: f64 = 2.0;

/// Bytes per second of a copy, read and written.
pub fn ceiling(device: &Device) -> Result<f64, Error> {
    let tensors: Vec<Tensor> =
        (0..2).map(|seed| filled(device, &[ROTATION_BYTES / 4], DType::F32, seed)).collect::<Result<_, _>>()?;
    let bytes = ROTATION_BYTES as u64;
    let stream = device.stream();
    let launch = |n: usize| Ok(stream.copy(tensors[n % 2].buffer(), 0, tensors[1 - n % 2].buffer(), 0, bytes)?);
    let (median, _) = time(device, &launch)?;
    Ok(2.0 * bytes as f64 / median * 1e3)
}

/// Median and relative spread (first to last decile) of one launch in milliseconds.
pub fn time(device: &Device, launch: &dyn Fn(usize) -> Result<(), Error>) -> Result<(f64, f64), Error> {
    let batch = |first: usize, count: usize| -> Result<f64, Error> {
        let begin = device.stream().record_event()?;
        for n in first..first + count {
            launch(n)?;
        }
        let end = device.stream().record_event()?;
        end.synchronize()?;
        Ok(end.elapsed_ms(&begin)? / count as f64)
    };
    batch(0, 5)?;
    let rough = batch(0, 5)?;
    let count = ((BATCH_MS / rough).ceil() as usize).clamp(2, 2000);
    let mut times: Vec<f64> = (0..BATCHES).map(|number| batch(number * count, count)).collect::<Result<_, _>>()?;
    times.sort_by(f64::total_cmp);
    let median = times[BATCHES / 2];
    Ok((median, (times[BATCHES * 9 / 10] - times[BATCHES / 10]) / median))
}
