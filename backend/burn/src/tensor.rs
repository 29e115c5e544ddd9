//! The tensor primitives: one type for float, int and bool, one for quantised.

use std::fmt;

use burn_backend::quantization::QuantScheme;
use burn_backend::{DType as BurnDType, Shape, TensorMetadata};
use burn_std::BoolStore;
use rocfire_hal::Tensor;

use crate::RocmDevice;
use crate::convert::{to_burn, to_shape};

/// A float, int or bool tensor on a device: Burn's metadata over a [`Tensor`].
///
/// A clone is another handle to the same memory. Slices, transposes, flips, broadcasts and windows are views: they share
/// the memory of the tensor they were made from and differ in shape, strides and offset.
///
/// Bools are bytes on the device whatever Burn stores them as: the store is a name that the tensor carries, and counts where
/// data comes and goes.
#[derive(Clone)]
pub struct RocmTensor {
    tensor: Tensor,
    store: BoolStore,
}

impl RocmTensor {
    /// Burn's view of a tensor. Costs nothing.
    pub fn new(tensor: Tensor) -> RocmTensor {
        RocmTensor { tensor, store: BoolStore::Native }
    }

    /// The tensor under another name for how its bools are stored. Means nothing for other types.
    pub fn with_store(self, store: BoolStore) -> RocmTensor {
        RocmTensor { store, ..self }
    }

    /// What Burn believes its bools to be stored as.
    pub fn store(&self) -> BoolStore {
        self.store
    }

    /// The tensor below.
    pub fn as_inner(&self) -> &Tensor {
        &self.tensor
    }

    /// The tensor below, without another handle, so that it may still be the memory's only owner.
    pub fn into_inner(self) -> Tensor {
        self.tensor
    }
}

impl From<Tensor> for RocmTensor {
    fn from(tensor: Tensor) -> RocmTensor {
        RocmTensor::new(tensor)
    }
}

impl fmt::Debug for RocmTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RocmTensor({} {:?} on {:?})", self.tensor.dtype(), self.tensor.layout(), self.device())
    }
}

impl TensorMetadata for RocmTensor {
    type Device = RocmDevice;

    fn dtype(&self) -> BurnDType {
        match to_burn(self.tensor.dtype()) {
            BurnDType::Bool(_) => BurnDType::Bool(self.store),
            dtype => dtype,
        }
    }

    fn shape(&self) -> Shape {
        to_shape(self.tensor.shape())
    }

    fn rank(&self) -> usize {
        self.tensor.shape().len()
    }

    fn device(&self) -> RocmDevice {
        RocmDevice::of(self.tensor.device())
    }

    fn can_mut(&self) -> bool {
        self.tensor.is_unique()
    }
}

/// A quantised float tensor: codes, packed as its scheme says, and the scales that give them back their size.
///
/// An element is `global · scale[block] · code`; without blocks there is one scale, and only a two-level scheme has the
/// global one. Words and scales may be views: permutations, slices and broadcasts of whole words and blocks move nothing.
#[derive(Clone, Debug)]
pub struct RocmQTensor {
    /// The words that hold the codes: u32 for `PackedU32`, else u8. The tensor's shape, the packed axis counted in words.
    pub(crate) words: RocmTensor,
    /// The scales, in the scheme's own type (u8 for UE8M0 and UE4M3): one, or the grid of blocks.
    pub(crate) scales: RocmTensor,
    /// The factor common to all blocks of a two-level scheme, f32, one element.
    pub(crate) global: Option<RocmTensor>,
    /// Burn's description, store included.
    pub(crate) scheme: QuantScheme,
    /// Extents in elements.
    pub(crate) shape: Shape,
}

impl TensorMetadata for RocmQTensor {
    type Device = RocmDevice;

    fn dtype(&self) -> BurnDType {
        BurnDType::QFloat(self.scheme)
    }

    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn rank(&self) -> usize {
        self.shape.num_dims()
    }

    fn device(&self) -> RocmDevice {
        self.words.device()
    }

    fn can_mut(&self) -> bool {
        self.words.can_mut()
    }
}
