//! What the launchers share: names of types, kept sources, the checks of arguments, and layouts reduced to three axes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::Draft;
pub(crate) use rocfire_fusion::storage as c_type;
use rocfire_hal::profile::Work;
use rocfire_hal::{
    Buffer, DType, Device, DriverKind, Error, JoinedKernel, Launch, Layout, Source, Stream, Tensor, View, ViewMut,
};

use crate::Result;

/// Most workgroups along the second and third axis of a grid: HIP's own limit.
pub(crate) const GRID_YZ_MAX: usize = 65535;

/// Lanes of a workgroup in the kernels that give each element a lane; a multiple of every wave size.
pub(crate) const BLOCK: usize = 256;

/// Workgroups that an emulated device is taken to run at once: no choice may depend on the host.
pub(crate) const EMULATED_SLOTS: usize = 4;

/// Compute units; `None` of an emulated device.
pub(crate) fn compute_units(device: &Device) -> Option<usize> {
    match device.id().driver() {
        DriverKind::Emulated => None,
        DriverKind::Hip | DriverKind::Cuda | DriverKind::Noop => Some(device.info().compute_units as usize),
    }
}

/// Workgroups that a device runs at once where a compute unit has so many.
pub(crate) fn slots(device: &Device, each: usize) -> usize {
    compute_units(device).map_or(EMULATED_SLOTS, |units| units * each)
}

/// Sources made so far, by what varies in them, so that a launch whose kernel is known allocates nothing.
pub(crate) struct Sources<K>(OnceLock<Mutex<HashMap<K, Arc<Source>>>>);

impl<K: Eq + Hash + Copy> Sources<K> {
    pub(crate) const fn new() -> Self {
        Sources(OnceLock::new())
    }

    pub(crate) fn get(&self, key: K, make: impl FnOnce(K) -> Source) -> Arc<Source> {
        let mut sources = self.0.get_or_init(Default::default).lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sources.entry(key).or_insert_with(|| Arc::new(make(key))))
    }
}

/// A kernel and how it is launched.
#[derive(Clone, Copy)]
pub(crate) struct KernelLaunch<'a> {
    pub stream: &'a Stream,
    pub source: &'a Source,
    /// The operator, for errors and profiles.
    pub op: &'static str,
    /// The kernel's name in the source.
    pub kernel: &'a str,
    /// Workgroups along each axis.
    pub grid: [usize; 3],
    /// Threads of a workgroup along each axis.
    pub block: [usize; 3],
    /// Dynamic LDS of a workgroup.
    pub lds_bytes: u32,
    /// For profiles.
    pub work: Work<'a>,
    /// What it reads before the launch ahead has ended.
    pub early: Option<&'a Buffer>,
}

/// How a launch may be one of several joined launches, see [`JoinedKernel`].
pub(crate) struct Sharing<'a> {
    /// How many launches the kernel for several takes.
    pub capacity: usize,
    /// What members have in common: the address of an input.
    pub common: u64,
    /// Its source; the kernel has the same name.
    pub several: &'a dyn Fn() -> Arc<Source>,
    /// Every view that the kernel reads.
    pub reads: &'a [View<'a>],
}

impl<'a> KernelLaunch<'a> {
    /// A launch without dynamic LDS, of whose work a profile is told nothing.
    pub(crate) fn new(
        stream: &'a Stream,
        source: &'a Source,
        (op, kernel): (&'static str, &'a str),
        grid: [usize; 3],
        block: [usize; 3],
    ) -> KernelLaunch<'a> {
        KernelLaunch { stream, source, op, kernel, grid, block, lds_bytes: 0, work: Work::default(), early: None }
    }

    /// The same of a kernel that reads a buffer before the launch ahead has ended: [`Stream::launch_reading_early`].
    pub(crate) fn reading_early(self, early: Option<&'a Buffer>) -> KernelLaunch<'a> {
        KernelLaunch { early, ..self }
    }

    pub(crate) fn with(self, lds_bytes: u32, work: Work<'a>) -> KernelLaunch<'a> {
        KernelLaunch { lds_bytes, work, ..self }
    }

    /// Compiles if need be and launches.
    ///
    /// # Safety
    /// - `args` is the Rust twin of the kernel's argument struct, and every address in it covers what the kernel touches.
    /// - `outputs` lists every buffer the kernel writes.
    pub(crate) unsafe fn run<A: Pod>(&self, args: &A, outputs: &[&Buffer]) -> Result<()> {
        // SAFETY: the caller's two duties, passed on.
        unsafe { self.run_bytes(bytemuck::bytes_of(args), outputs) }
    }

    /// [`KernelLaunch::run`] for an argument struct that is put together when it runs.
    ///
    /// # Safety
    /// As [`KernelLaunch::run`], of the struct whose bytes `args` is.
    pub(crate) unsafe fn run_bytes(&self, args: &[u8], outputs: &[&Buffer]) -> Result<()> {
        // SAFETY: the caller's duties, passed on.
        unsafe { self.run_shared(args, outputs, None) }
    }

    /// The same for a launch that may wait for others.
    ///
    /// # Safety
    /// As [`KernelLaunch::run_bytes`], also for the kernel for several with the arguments of all members; `sharing.reads` is all
    /// it reads.
    pub(crate) unsafe fn run_shared(
        &self,
        args: &[u8],
        outputs: &[&Buffer],
        sharing: Option<&Sharing<'_>>,
    ) -> Result<()> {
        let KernelLaunch { stream, source, op, kernel, lds_bytes, work, early, .. } = *self;
        let function = stream.device().function(source, kernel)?;
        let (grid, block) = (self.narrow("grid", self.grid)?, self.narrow("block", self.block)?);
        let launch = Launch { label: op, grid, block, lds_bytes, args, outputs, work };
        if let Some(early) = early {
            // SAFETY: the caller's duties are those of `Stream::launch_reading_early`, passed on.
            unsafe { stream.launch_reading_early(&function, &launch, early)? };
            return Ok(());
        }
        let Some(sharing) = sharing else {
            // SAFETY: the caller's two duties are those of `Stream::launch`, passed on.
            unsafe { stream.launch(&function, &launch)? };
            return Ok(());
        };
        let several = || stream.device().function(&(sharing.several)(), kernel);
        let joined =
            JoinedKernel { capacity: sharing.capacity, common: sharing.common, writes: &[], function: &several };
        // SAFETY: the caller's duties are those of `Stream::launch_joinable`, passed on.
        unsafe { stream.launch_joinable(&function, &launch, sharing.reads, &joined)? };
        Ok(())
    }

    fn narrow(&self, what: &'static str, sizes: [usize; 3]) -> Result<[u32; 3]> {
        let mut out = [0; 3];
        for (to, from) in out.iter_mut().zip(sizes) {
            *to = u32::try_from(from).map_err(|_| Error::LaunchShape {
                op: self.op,
                kernel: self.kernel.to_owned(),
                what,
                expected: format!("at most {}", u32::MAX),
                got: from.to_string(),
            })?;
        }
        Ok(out)
    }
}

/// An [`Error::Shape`] of this crate.
pub(crate) fn shape(op: &'static str, arg: &'static str, expected: impl ToString, got: impl ToString) -> crate::Error {
    Error::shape(op, arg, expected, got).into()
}

/// Checks that an argument lives where the stream runs.
pub(crate) fn on_device(op: &'static str, arg: &'static str, stream: &Stream, view: &View<'_>) -> Result<()> {
    let expected = stream.device();
    if *view.device() == expected {
        return Ok(());
    }
    Err(Error::DeviceMismatch { op, arg, expected: expected.id().to_string(), got: view.device().id().to_string() }
        .into())
}

/// Checks that no two coordinates of an output are the same element.
pub(crate) fn writable(op: &'static str, arg: &'static str, view: &View<'_>) -> Result<()> {
    let layout = view.layout();
    let repeated = layout.shape().iter().zip(layout.strides()).any(|(&extent, &stride)| extent > 1 && stride == 0);
    if repeated && !layout.is_empty() {
        return Err(shape(op, arg, "a layout that names each element once", format!("strides {:?}", layout.strides())));
    }
    Ok(())
}

/// Checks that an output shares no element with an input.
pub(crate) fn disjoint(op: &'static str, arg: &'static str, output: &View<'_>, input: &View<'_>) -> Result<()> {
    if !output.buffer().same(input.buffer()) || output.is_empty() || input.is_empty() {
        return Ok(());
    }
    let bytes = |view: &View<'_>| {
        let size = view.dtype().size_bytes() as i64;
        let extent = view.layout().extent();
        extent.start * size..extent.end * size
    };
    let (written, read) = (bytes(output), bytes(input));
    if written.start < read.end && read.start < written.end {
        return Err(shape(op, arg, "memory apart from the output's", format!("bytes {read:?} of {written:?}")));
    }
    Ok(())
}

/// Checks what an operator from images to images asks, `[batch, channels, spatial…]` each: devices, one float type, batch and channels
/// alike, and an output of its own.
pub(crate) fn images(
    op: &'static str,
    stream: &Stream,
    (from_name, from): (&'static str, &View<'_>),
    (to_name, to): (&'static str, &View<'_>),
) -> Result<()> {
    on_device(op, from_name, stream, from)?;
    on_device(op, to_name, stream, to)?;
    if !from.dtype().is_float() {
        return Err(Error::Unsupported { op, dtype: from.dtype(), arch: from.arch() }.into());
    }
    same_dtype(op, to_name, to, from.dtype())?;
    if to.shape().len() != from.shape().len() || to.shape().get(..2) != from.shape().get(..2) {
        let expected = format!("batch and channels of {:?}", from.shape());
        return Err(shape(op, to_name, expected, format!("{:?}", to.shape())));
    }
    writable(op, to_name, to)?;
    disjoint(op, from_name, to, from)
}

/// Checks one element type.
pub(crate) fn same_dtype(op: &'static str, arg: &'static str, view: &View<'_>, expected: DType) -> Result<()> {
    if view.dtype() == expected {
        return Ok(());
    }
    Err(shape(op, arg, expected, view.dtype()))
}

/// Checks that an axis exists.
pub(crate) fn axis(op: &'static str, dim: usize, rank: usize) -> Result<()> {
    if dim < rank {
        return Ok(());
    }
    Err(shape(op, "dim", format!("an axis of {rank}"), dim))
}

/// The three axes that an operator along one axis sees: those before it, itself, those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Box3 {
    pub outer: usize,
    pub middle: usize,
    pub inner: usize,
}

impl Box3 {
    pub(crate) fn of(shape: &[usize], dim: usize) -> Box3 {
        Box3 { outer: shape[..dim].iter().product(), middle: shape[dim], inner: shape[dim + 1..].iter().product() }
    }

    pub(crate) fn len(self) -> usize {
        self.outer * self.middle * self.inner
    }

    pub(crate) fn with_middle(self, middle: usize) -> Box3 {
        Box3 { middle, ..self }
    }
}

/// Strides of a [`Box3`], as `rf::Strides3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Strides3 {
    pub outer: i64,
    pub middle: i64,
    pub inner: i64,
}

/// Strides of a layout as three axes around `dim`, `None` where the axes before or behind do not form one.
pub(crate) fn strides3(layout: &Layout, dim: usize) -> Option<Strides3> {
    let shape = Box3::of(layout.shape(), dim);
    let merged = layout.reshape(&[shape.outer, shape.middle, shape.inner])?;
    let strides = merged.strides();
    Some(Strides3 { outer: strides[0], middle: strides[1], inner: strides[2] })
}

/// An input whose layout is three axes around an axis: the view itself, or a contiguous copy.
pub(crate) struct Input3<'a> {
    view: View<'a>,
    copy: Option<Tensor>,
    dim: usize,
}

impl<'a> Input3<'a> {
    pub(crate) fn new(stream: &Stream, view: View<'a>, dim: usize) -> Result<Input3<'a>> {
        let copy = if strides3(view.layout(), dim).is_some() { None } else { Some(contiguous(stream, view)?) };
        Ok(Input3 { view, copy, dim })
    }

    pub(crate) fn view(&self) -> View<'_> {
        self.copy.as_ref().map_or(self.view, Tensor::view)
    }

    pub(crate) fn strides(&self) -> Strides3 {
        strides3(self.view().layout(), self.dim).expect("a contiguous layout merges, and another was copied")
    }

    pub(crate) fn address(&self) -> u64 {
        self.view().device_address()
    }
}

/// An output whose layout is three axes around an axis: the view itself, or a contiguous stand-in that [`Output3::finish`]
/// copies back.
pub(crate) struct Output3<'a> {
    view: ViewMut<'a>,
    stand_in: Option<Tensor>,
    dim: usize,
}

impl<'a> Output3<'a> {
    /// `keep`: whether the kernel reads what is there before it writes.
    pub(crate) fn new(stream: &Stream, view: ViewMut<'a>, dim: usize, keep: bool) -> Result<Output3<'a>> {
        let stand_in = if strides3(view.layout(), dim).is_some() {
            None
        } else if keep {
            Some(contiguous(stream, view.view())?)
        } else {
            Some(Tensor::empty(view.device(), view.shape(), view.dtype())?)
        };
        Ok(Output3 { view, stand_in, dim })
    }

    pub(crate) fn view(&self) -> View<'_> {
        self.stand_in.as_ref().map_or_else(|| self.view.view(), Tensor::view)
    }

    pub(crate) fn strides(&self) -> Strides3 {
        strides3(self.view().layout(), self.dim).expect("a contiguous layout merges, and another has a stand-in")
    }

    pub(crate) fn address(&self) -> u64 {
        self.view().device_address()
    }

    pub(crate) fn finish(mut self, stream: &Stream) -> Result<()> {
        match &self.stand_in {
            Some(tensor) => copy_into(stream, tensor.view(), self.view.reborrow()),
            None => Ok(()),
        }
    }
}

/// A row-major copy.
pub(crate) fn contiguous(stream: &Stream, view: View<'_>) -> Result<Tensor> {
    let mut copy = Tensor::empty(view.device(), view.shape(), view.dtype())?;
    copy_into(stream, view, copy.view_mut())?;
    Ok(copy)
}

/// Copies elements from one layout to another.
pub(crate) fn copy_into(stream: &Stream, from: View<'_>, to: ViewMut<'_>) -> Result<()> {
    debug_assert!(*from.device() == stream.device(), "launchers check devices before layouts");
    Ok(rocfire_fusion::eager::copy_into(from, to)?)
}

/// Casts into a new tensor.
pub(crate) fn cast(stream: &Stream, from: View<'_>, dtype: DType) -> Result<Tensor> {
    let graph = Draft::graph("cast", |g| g.input(from.dtype()).cast(dtype));
    let mut to = Tensor::empty(from.device(), from.shape(), dtype)?;
    rocfire_fusion::run(stream, &graph, from.shape(), &[from], &[], &mut [to.view_mut()])?;
    Ok(to)
}

/// `rf::FastDiv`: division of numbers below 2³¹ by a number known at launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct FastDiv {
    divisor: u32,
    multiplier: u32,
    shift: u32,
}

impl FastDiv {
    /// `multiplier = ⌊2³² (2ˢ − d) / d⌋ + 1` with `s = ⌈log₂ d⌉` (Granlund and Montgomery 1994, figure 4.1).
    pub(crate) fn new(divisor: usize) -> FastDiv {
        let divisor = u32::try_from(divisor.max(1)).expect("launchers keep boxes below 2^31 elements");
        let shift = divisor.next_power_of_two().trailing_zeros();
        let multiplier = ((1u64 << 32) * ((1u64 << shift) - u64::from(divisor)) / u64::from(divisor) + 1) as u32;
        FastDiv { divisor, multiplier, shift }
    }

    /// As [`FastDiv::new`], but a divisor of 0 is kept: a kernel then loops to it and divides nothing by it.
    pub(crate) fn bound(divisor: usize) -> FastDiv {
        FastDiv { divisor: divisor as u32, ..FastDiv::new(divisor) }
    }

    /// The number that it divides by.
    pub(crate) fn divisor(self) -> usize {
        self.divisor as usize
    }
}

/// Elements that one launch of an element-per-lane kernel takes, so that their numbers fit [`FastDiv`].
pub(crate) const BOX_LIMIT: usize = 1 << 31;

/// Cuts a box into runs of its outer axis below [`BOX_LIMIT`] elements: first index and number of each.
pub(crate) fn outer_runs(op: &'static str, space: Box3) -> Result<impl Iterator<Item = (usize, usize)>> {
    let plane = space.middle * space.inner;
    if plane >= BOX_LIMIT {
        return Err(shape(op, "out", format!("fewer than {BOX_LIMIT} elements per index of the outer axes"), plane));
    }
    let run = ((BOX_LIMIT - 1) / plane.max(1)).max(1);
    Ok((0..space.outer).step_by(run).map(move |first| (first, run.min(space.outer - first))))
}

/// The type that sums of floats are kept in.
pub(crate) fn sum_dtype(input: DType) -> DType {
    if input == DType::F64 { DType::F64 } else { DType::F32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_div_divides() {
        let divide =
            |f: FastDiv, n: u32| (((u64::from(n) * u64::from(f.multiplier)) >> 32) as u32).wrapping_add(n) >> f.shift;
        for divisor in (1..2000).chain([4095, 4096, 65537, 1 << 30, (1 << 30) + 1, (1 << 31) - 1]) {
            let fast = FastDiv::new(divisor);
            let near = |k: usize| [k.saturating_sub(1), k, k + 1];
            for n in (0..200).chain(near(divisor)).chain(near(divisor * 7)).chain([(1 << 31) - 1, (1 << 31) - 2]) {
                if n < BOX_LIMIT {
                    assert_eq!(divide(fast, n as u32), (n / divisor) as u32, "{n} / {divisor}");
                }
            }
        }
    }
}
