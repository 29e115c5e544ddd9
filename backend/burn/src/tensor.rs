//! The tensor primitives: one type for float, int and bool, one for quantised.

use std::fmt;

use burn_backend::quantization::QuantScheme;
use burn_backend::{DType as BurnDType, Shape, TensorMetadata};
use rocfire_hal::Tensor;

use crate::RocmDevice;
use crate::convert::{to_burn, to_shape};

/// A float, int or bool tensor on a device: Burn's metadata over a [`Tensor`].
///
/// A clone is another handle to the same memory. Slices, transposes, flips, broadcasts and windows are views: they share
/// the memory of the tensor they were made from and differ in shape, strides and offset.
#[derive(Clone)]
pub struct RocmTensor(Tensor);

impl RocmTensor {
    /// Burn's view of a tensor. Costs nothing.
    pub fn new(tensor: Tensor) -> RocmTensor {
        RocmTensor(tensor)
    }

    /// The tensor below.
    pub fn as_inner(&self) -> &Tensor {
        &self.0
    }

    /// The tensor below, without another handle, so that it may still be the memory's only owner.
    pub fn into_inner(self) -> Tensor {
        self.0
    }
}

impl From<Tensor> for RocmTensor {
    fn from(tensor: Tensor) -> RocmTensor {
        RocmTensor(tensor)
    }
}

impl fmt::Debug for RocmTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RocmTensor({} {:?} on {:?})", self.0.dtype(), self.0.layout(), self.device())
    }
}

impl TensorMetadata for RocmTensor {
    type Device = RocmDevice;

    fn dtype(&self) -> BurnDType {
        to_burn(self.0.dtype())
    }

    fn shape(&self) -> Shape {
        to_shape(self.0.shape())
    }

    fn rank(&self) -> usize {
        self.0.shape().len()
    }

    fn device(&self) -> RocmDevice {
        RocmDevice::of(self.0.device())
    }

    fn can_mut(&self) -> bool {
        self.0.is_unique()
    }
}

/// A quantised float tensor: integer codes, and the scales that give them back their size.
///
/// An element is `global · scale[block] · code`; without blocks there is one scale, and only a two-level scheme has the
/// global one. Codes are one byte each whatever the scheme's width: packing happens where data leaves the device.
#[derive(Clone, Debug)]
pub struct RocmQTensor {
    /// The codes, i8, of the tensor's shape.
    pub(crate) codes: RocmTensor,
    /// The scales, f32: one, or the grid of blocks.
    pub(crate) scales: RocmTensor,
    /// The factor common to all blocks of a two-level scheme, f32, one element.
    pub(crate) global: Option<RocmTensor>,
    /// Burn's description; always with native store.
    pub(crate) scheme: QuantScheme,
}

impl TensorMetadata for RocmQTensor {
    type Device = RocmDevice;

    fn dtype(&self) -> BurnDType {
        BurnDType::QFloat(self.scheme)
    }

    fn shape(&self) -> Shape {
        self.codes.shape()
    }

    fn rank(&self) -> usize {
        self.codes.rank()
    }

    fn device(&self) -> RocmDevice {
        self.codes.device()
    }

    fn can_mut(&self) -> bool {
        self.codes.can_mut()
    }
}
