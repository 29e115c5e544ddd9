//! Burn's collectives: of one device. Among several there are none yet, and a sum over them is refused by name.

use burn_backend::DeviceId;
use burn_backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};

use crate::error::{Error, OrPanic};
use crate::{Rocm, RocmDevice, RocmTensor};

impl DistributedOps<Rocm> for Rocm {
    fn all_reduce(tensor: RocmTensor, _op: ReduceOperation, devices: Vec<DeviceId>) -> CollectiveTensor<Rocm> {
        if devices.len() > 1 {
            Err(Error::Collective { op: "all_reduce", devices: devices.len() }).or_panic()
        }
        CollectiveTensor::new(tensor)
    }

    /// The collective of one device is over when it is called.
    fn sync_collective(_device: &RocmDevice) {}
}
