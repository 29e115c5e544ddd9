//! Device memory with a shape and an element type.
//!
//! [`Tensor`] owns (a share of) its buffer; [`View`] and [`ViewMut`] borrow it, and are what launchers take. That a
//! layout lies inside its buffer is checked here, where the two meet, so that kernels need no check. What is computed
//! on tensors is not here: see the crates `fusion` and `kernels`.

use std::ops::Range;

use rocfire_arch::Arch;

use crate::{Buffer, DType, Device, Error, HostCopy, Layout, Result};

/// A shared buffer seen through a layout. Clones are handles to the same memory.
#[derive(Clone, Debug)]
pub struct Tensor {
    buffer: Buffer,
    layout: Layout,
    dtype: DType,
}

impl Tensor {
    /// Unwritten elements, row-major.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Shape`] as [`Layout::contiguous`]; [`Error::OutOfMemory`].
    pub fn empty(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let layout = Layout::contiguous(shape)?;
        let bytes = (layout.len() as u64).checked_mul(dtype.size_bytes() as u64);
        let bytes =
            bytes.ok_or_else(|| Error::shape("tensor", "shape", "fewer than 2^64 bytes", format!("{shape:?}")))?;
        Ok(Tensor { buffer: Buffer::new(device, bytes)?, layout, dtype })
    }

    /// Elements copied from the host, row-major, little-endian.
    ///
    /// # Errors
    /// As [`Tensor::empty`]; [`Error::Shape`] if `bytes` is not as long as the shape says; the driver's own.
    pub fn from_bytes(device: &Device, shape: &[usize], dtype: DType, bytes: &[u8]) -> Result<Tensor> {
        let tensor = Tensor::empty(device, shape, dtype)?;
        if bytes.len() as u64 != tensor.buffer.bytes() {
            let expected = format!("{} long for {shape:?} {dtype}", tensor.buffer.bytes());
            return Err(Error::shape("from_bytes", "bytes", expected, bytes.len()));
        }
        device.stream().copy_to_device(bytes, &tensor.buffer, 0)?;
        Ok(tensor)
    }

    /// A buffer seen through a layout.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless every element is inside the buffer.
    pub fn from_buffer(buffer: Buffer, layout: Layout, dtype: DType) -> Result<Tensor> {
        require_inside(&buffer, &layout, layout.extent(), dtype)?;
        Ok(Tensor { buffer, layout, dtype })
    }

    /// The elements, row-major, little-endian. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the layout is contiguous; [`Error::Fault`] if a launch that should have written this, or
    /// any launch since the last wait, failed; the driver's own.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(Tensor::read_all(&[self])?.remove(0))
    }

    /// As [`Tensor::to_bytes`], of several tensors; each device is waited for once.
    ///
    /// # Errors
    /// As there.
    pub fn read_all(tensors: &[&Tensor]) -> Result<Vec<Vec<u8>>> {
        if let Some(tensor) = tensors.iter().find(|tensor| !tensor.layout.is_contiguous()) {
            return Err(Error::shape("to_bytes", "layout", "contiguous", format!("{:?}", tensor.layout)));
        }
        let mut bytes: Vec<Vec<u8>> = tensors.iter().map(|tensor| vec![0; tensor.bytes() as usize]).collect();
        let mut left: Vec<(&Tensor, &mut Vec<u8>)> = tensors.iter().copied().zip(&mut bytes).collect();
        left.retain(|(tensor, _)| !tensor.layout.is_empty());
        while let Some((first, _)) = left.first() {
            let device = first.device();
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(tensor, _)| tensor.device() == device);
            let mut copies: Vec<HostCopy<'_>> = here
                .into_iter()
                .map(|(tensor, target)| HostCopy { source: &tensor.buffer, first_byte: tensor.first_byte(), target })
                .collect();
            device.stream().copy_all_to_host(&mut copies)?;
            left = elsewhere;
        }
        Ok(bytes)
    }

    /// The same elements on another device; the tensor itself if it is there.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the layout is contiguous; as [`crate::Stream::copy_from_device`]; [`Error::OutOfMemory`].
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        if self.device() == device {
            return Ok(self.clone());
        }
        if !self.layout.is_contiguous() {
            return Err(Error::shape("to_device", "layout", "contiguous", format!("{:?}", self.layout)));
        }
        let moved = Tensor::empty(device, self.shape(), self.dtype)?;
        if !self.layout.is_empty() {
            let stream = device.stream();
            stream.copy_from_device(&self.buffer, self.first_byte(), &moved.buffer, 0, self.bytes())?;
        }
        Ok(moved)
    }

    /// Where its first element begins, if it has one and is contiguous.
    fn first_byte(&self) -> u64 {
        self.layout.offset() as u64 * self.dtype.size_bytes() as u64
    }

    /// What its elements take.
    fn bytes(&self) -> u64 {
        self.layout.len() as u64 * self.dtype.size_bytes() as u64
    }

    /// The same memory through another layout.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless every element is inside the buffer.
    pub fn with_layout(&self, layout: Layout) -> Result<Tensor> {
        Tensor::from_buffer(self.buffer.clone(), layout, self.dtype)
    }

    /// A read-only loan.
    pub fn view(&self) -> View<'_> {
        View { buffer: &self.buffer, layout: self.layout, dtype: self.dtype }
    }

    /// A loan to write through. Other handles to the memory see what is written.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut(self.view())
    }

    /// Whether no other handle to the memory exists, so that it can be overwritten.
    pub fn is_unique(&self) -> bool {
        self.buffer.is_unique()
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Where the elements are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }
}

/// A read-only loan of a buffer through a layout that lies inside it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    buffer: &'a Buffer,
    layout: Layout,
    dtype: DType,
}

impl<'a> View<'a> {
    /// A buffer seen through a layout.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless every element is inside the buffer.
    pub fn new(buffer: &'a Buffer, layout: Layout, dtype: DType) -> Result<View<'a>> {
        require_inside(buffer, &layout, layout.extent(), dtype)?;
        Ok(View { buffer, layout, dtype })
    }

    /// A buffer seen through any shape with any strides, from element `offset` on.
    ///
    /// # Errors
    /// As [`Layout::strided`] and [`View::new`].
    #[inline]
    pub fn strided(
        buffer: &'a Buffer,
        shape: &[usize],
        strides: &[i64],
        offset: i64,
        dtype: DType,
    ) -> Result<View<'a>> {
        let (layout, extent) = Layout::measured(shape, strides, offset)?;
        require_inside(buffer, &layout, extent, dtype)?;
        Ok(View { buffer, layout, dtype })
    }

    /// The memory with the layout, as a handle of its own.
    pub fn to_tensor(&self) -> Tensor {
        Tensor { buffer: self.buffer.clone(), layout: self.layout, dtype: self.dtype }
    }

    /// A loan to write through, as a handle of one's own to the same memory would lend: others see what is written.
    pub fn writable(self) -> ViewMut<'a> {
        ViewMut(self)
    }

    /// The same memory through another layout.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless every element is inside the buffer.
    pub fn with_layout(self, layout: Layout) -> Result<View<'a>> {
        View::new(self.buffer, layout, self.dtype)
    }

    /// The memory.
    #[inline]
    pub fn buffer(&self) -> &'a Buffer {
        self.buffer
    }

    /// Where the elements are.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The extents.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where it lives.
    pub fn device(&self) -> &'a Device {
        self.buffer.device()
    }

    /// The device's architecture.
    pub fn arch(&self) -> Arch {
        self.device().arch()
    }

    /// The device address of the element at coordinates 0; of nothing, where there are no elements.
    #[inline]
    pub fn device_address(&self) -> u64 {
        // The offset of an empty view may be anything.
        let offset_bytes = self.layout.offset().wrapping_mul(self.dtype.size_bytes() as i64);
        self.buffer.device_address().wrapping_add_signed(offset_bytes)
    }
}

/// A loan to write through.
#[derive(Debug)]
pub struct ViewMut<'a>(View<'a>);

impl<'a> ViewMut<'a> {
    /// The loan, to read.
    pub fn view(&self) -> View<'a> {
        self.0
    }

    /// A shorter loan of the same.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut(self.0)
    }

    /// The same memory through another layout.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless every element is inside the buffer.
    pub fn with_layout(self, layout: Layout) -> Result<ViewMut<'a>> {
        self.0.with_layout(layout).map(ViewMut)
    }
}

impl<'a> std::ops::Deref for ViewMut<'a> {
    type Target = View<'a>;
    #[inline]
    fn deref(&self) -> &View<'a> {
        &self.0
    }
}

/// `elements` is the layout's extent.
#[inline]
fn require_inside(buffer: &Buffer, layout: &Layout, elements: Range<i64>, dtype: DType) -> Result<()> {
    let size = dtype.size_bytes() as u64;
    let end_bytes = u64::try_from(elements.end).ok().and_then(|end| end.checked_mul(size));
    let inside = elements.start >= 0 && end_bytes.is_some_and(|end| end <= buffer.bytes());
    if layout.is_empty() || inside {
        return Ok(());
    }
    Err(outside(buffer, layout, elements, dtype))
}

#[cold]
fn outside(buffer: &Buffer, layout: &Layout, elements: Range<i64>, dtype: DType) -> Error {
    Error::OutOfBounds {
        shape: format!("{:?}", layout.shape()),
        dtype,
        first: elements.start,
        end: elements.end,
        buffer_bytes: buffer.bytes(),
    }
}
