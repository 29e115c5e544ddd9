//! Pooling over one to three spatial axes: maximum and mean, over windows or adaptive boxes, and their gradients.
//!
//! One lane makes one element, of the result or of the gradient; where maxima read rows in vectors, those of the windows that
//! begin in one; where channels lie side by side, those of some channels. Gradients gather from the windows that hold the element, in ascending order, so that nothing is added to the
//! same place twice and every run gives the same bits. The number of windows is the caller's (it is the shape of `out`), which is
//! how rounding up reaches the kernels: a window may end, or even begin, outside. Callers are the adapters.

mod average;
mod maximum;

pub use average::{adaptive_average_pool, adaptive_average_pool_gradient, average_pool, average_pool_gradient};
pub use maximum::{Nan, max_pool, max_pool_gradient};

use rocfire_hal::{DType, Source, View};

use crate::Result;
use crate::family::{Box3, FastDiv, images as check, shape};

/// Spatial axes that the kernels know; fewer are preceded by axes of one element.
const AXES: usize = 3;
/// Axis of the first spatial extent in `[batch, channels, spatial…]`.
const SPATIAL: usize = 2;
/// Spatial extents and reaches of windows stay below this, so that sums of a few of them fit 32 bits.
const COORDINATE_MAX: usize = 1 << 29;

/// The family's rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    maximum::sources(dtype).chain(average::sources(dtype)).filter(move |_| dtype.is_float())
}

/// The windows of a pool, axis by axis.
#[derive(Clone, Copy, Debug)]
pub struct PoolParams<'a> {
    /// Elements of a window; not 0.
    pub kernel: &'a [usize],
    /// From one window to the next; not 0.
    pub stride: &'a [usize],
    /// Elements outside of the input, on either side.
    pub padding: &'a [usize],
    /// From one element of a window to the next; not 0. Means have no dilation.
    pub dilation: &'a [usize],
}

/// [`PoolParams`] over all [`AXES`].
#[derive(Clone, Copy, Debug)]
struct Windows {
    kernel: [usize; AXES],
    stride: [usize; AXES],
    padding: [usize; AXES],
    dilation: [usize; AXES],
}

impl Windows {
    fn new(op: &'static str, params: &PoolParams<'_>, axes: usize) -> Result<Windows> {
        let lengths = [params.kernel, params.stride, params.padding, params.dilation].map(<[usize]>::len);
        if lengths != [axes; 4] {
            return Err(shape(
                op,
                "params",
                format!("{axes} extents, strides, paddings, dilations"),
                format!("{lengths:?}"),
            ));
        }
        let none = [params.kernel, params.stride, params.dilation].iter().any(|numbers| numbers.contains(&0));
        let far = (0..axes).any(|axis| {
            let reach = params.kernel[axis].saturating_mul(params.dilation[axis]).saturating_add(params.padding[axis]);
            reach.max(params.stride[axis]) >= COORDINATE_MAX
        });
        if none || far {
            let expected = format!("windows of at least one element and step, none beyond {COORDINATE_MAX}");
            return Err(shape(op, "params", expected, format!("{params:?}")));
        }
        Ok(Windows {
            kernel: wide(params.kernel, 1),
            stride: wide(params.stride, 1),
            padding: wide(params.padding, 0),
            dilation: wide(params.dilation, 1),
        })
    }
}

/// Extents and strides of `[batch, channels, spatial…]`, widened.
#[derive(Clone, Copy, Debug)]
struct Image {
    address: u64,
    batch: usize,
    channels: usize,
    extent: [usize; AXES],
    outer: [i64; 2],
    axis: [i64; AXES],
}

impl Image {
    fn new(op: &'static str, arg: &'static str, view: &View<'_>) -> Result<Image> {
        let (extents, strides) = (view.shape(), view.layout().strides());
        let axes = extents.len().saturating_sub(SPATIAL);
        if !(1..=AXES).contains(&axes) || extents[SPATIAL..].iter().any(|&extent| extent >= COORDINATE_MAX) {
            let expected = format!("[batch, channels, 1 to 3 spatial axes below {COORDINATE_MAX}]");
            return Err(shape(op, arg, expected, format!("{extents:?}")));
        }
        Ok(Image {
            address: view.device_address(),
            batch: extents[0],
            channels: extents[1],
            extent: wide(&extents[SPATIAL..], 1),
            outer: [strides[0], strides[1]],
            axis: wide(&strides[SPATIAL..], 0),
        })
    }

    /// Its elements around the channels.
    fn space(&self) -> Box3 {
        Box3 { outer: self.batch, middle: self.channels, inner: self.extent.iter().product() }
    }

    /// The address of a batch index.
    fn from(&self, batch: usize, dtype: DType) -> u64 {
        self.address.wrapping_add_signed(batch as i64 * self.outer[0] * dtype.size_bytes() as i64)
    }

    fn extents_i32(&self) -> [i32; AXES] {
        self.extent.map(|extent| extent as i32)
    }

    fn dividers(&self) -> [FastDiv; AXES] {
        self.extent.map(FastDiv::new)
    }
}

/// The innermost axes of three.
fn wide<T: Copy>(from: &[T], fill: T) -> [T; AXES] {
    let mut to = [fill; AXES];
    to[AXES - from.len()..].copy_from_slice(from);
    to
}
