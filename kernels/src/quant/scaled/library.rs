//! Products of codes that go to the vendor's library: which, how they are described to it, and what comes before and behind it.
//!
//! Libraries multiply 8-bit floats and apply scales by tensor, by line, by 128 or by 32, where they have that way for the card; else, and
//! always of bytes, they give sums, f32 or i32, which a launch of ours scales by line. What follows a product they do themselves where they
//! scale and have that end, else that launch does, behind sums in f32. Each way is tried once for a device and an end (`trial.rs`) before
//! anything goes there, and what a library refuses stays with our kernel.

use rocfire_arch::{Arch, ArchInfo, Vendor};
use rocfire_fusion::{Draft, Unary};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::vendor::{
    Code, Coded, End, EndActivation, Operand, Plan, Product, Scaling, VendorLaunch, alignment_of,
};
use rocfire_hal::{Buffer, DType, Layout, Stream, Tensor, View, ViewMut};

use super::end::finish;
use super::{OP, ScaledEnd, Side, is_deep, is_float8, trial};
use crate::Result;
use crate::attached::Attached;
use crate::family::{self, shape};
use crate::gemm::tune::PLANS;
use crate::gemm::{is_real, scaled_pays, sums_first, sums_pay};
use crate::graphs::{self, Graphs};
use crate::quant::format::{Format, ScaleKind};
use crate::tuning::{Candidate, Codes, Shape};

/// Formats whose sums are whole numbers.
const BYTES: [Format; 2] = [Format::I8; 2];
/// K from which on i32 might not hold a sum: no product of two bytes is larger than 2^14.
const BYTES_K_END: usize = 1 << 17;
/// Codes of a row, and rows of the weight, come in so many: of 8-bit floats, and of bytes. So does the alignment of addresses.
const WHOLE: usize = 16;
const WHOLE_BYTES: usize = 4;
/// Rows that scales by 128 come in: NVIDIA's.
const WHOLE_ROWS: usize = 4;
/// Alignment of scales, bytes.
const SCALES_ALIGNMENT: u64 = 16;

/// What the library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// It scales A and B so.
    Scaled([Scaling; 2]),
    /// It sums. A launch of ours scales the sums by line.
    Sums,
}

/// Who does what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    /// The library, if anything; it stores C.
    Library(End),
    /// A launch of ours behind its sums or, scaled, its results in f32.
    Behind,
}

impl Ending {
    /// Of a product that nothing follows.
    pub const NONE: Ending = Ending::Library(End { bias: None, activation: EndActivation::None, code: None });
}

/// What the library was found to do.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub way: Way,
    pub ending: Ending,
    pub plan: Plan,
}

/// A checked product, M, N and K not 0.
#[derive(Clone, Copy)]
pub(super) struct Job<'j, 'a> {
    pub stream: &'j Stream,
    pub a: &'j Side<'a>,
    pub b: &'j Side<'a>,
    pub size: [usize; 3],
    pub end: ScaledEnd<'a>,
}

impl<'j> Job<'j, '_> {
    /// How the library multiplies into `c`; `None` where our kernel does. That is what `by` says, or a tuning table; without either it is the
    /// library's where it pays, no bits are promised, and a trial went well. A table has a plan for products that nothing follows: of others
    /// it says the way.
    ///
    /// # Errors
    /// `Shape` for a plan in `by` that the library does not have. Out of memory, and failures of earlier launches, where a way is
    /// tried first.
    pub fn taken(&self, c: &View<'_>, by: Option<Candidate>) -> Result<Option<Taken>> {
        let device = self.stream.device();
        let none = |choice: usize| shape(OP, "params.vendor", "a plan of the vendor's library", choice);
        match by {
            Some(Candidate::Vendor { choice }) => {
                return Ok(Some(self.numbered(choice, c).ok_or_else(|| none(choice))?));
            }
            Some(Candidate::Ours | Candidate::Tiling { .. }) => return Ok(None),
            None => {}
        }
        if let Some(shape) = self.shape(c.dtype()) {
            let attached = Attached::of(&device);
            let tables = attached.tables(&device);
            match tables.find(&device, shape) {
                Some(Candidate::Vendor { choice }) if self.end.key().is_none() => {
                    let Some(taken) = self.numbered(choice, c) else { return Ok(None) };
                    return Ok(trial::is_passed(self, taken.way, taken.ending, c.dtype())?.then_some(taken));
                }
                Some(Candidate::Vendor { choice }) => {
                    let way = self.ways().nth(choice / PLANS);
                    return way.map_or(Ok(None), |way| self.tried(way, c));
                }
                Some(Candidate::Ours | Candidate::Tiling { .. }) => return Ok(None),
                None => tables.note(&device, shape),
            }
        }
        if !is_real(&device) || device.deterministic() || !pays(device.arch(), self.formats(), self.size, c.dtype()) {
            return Ok(None);
        }
        for way in asked(device.arch().info(), self.ways(), self.size[0]) {
            if let Some(taken) = self.tried(way, c)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// The first plan of a way that passes its trial, with the library's own end before one behind it.
    fn tried(&self, way: Way, c: &View<'_>) -> Result<Option<Taken>> {
        let own = self.library_end(way, c.dtype()).map(Ending::Library);
        let behind = (!self.end.key().is_none()).then_some(Ending::Behind);
        for ending in own.into_iter().chain(behind) {
            let Some(plan) = self.plan(way, ending, c, 0) else { continue };
            if trial::is_passed(self, way, ending, c.dtype())? {
                return Ok(Some(Taken { way, ending, plan }));
            }
        }
        Ok(None)
    }

    /// What follows, as a library is told; `None` where it is not asked: behind sums, for a bias of a type that none adds to such results or
    /// that does not lie as they read it, for codes of whole numbers or next to other scales than one of each side.
    pub fn library_end(&self, way: Way, output: DType) -> Option<End> {
        let ScaledEnd { bias, activation, codes } = self.end;
        if self.end.key().is_none() {
            return Some(End::default());
        }
        let Way::Scaled(scaling) = way else { return None };
        let of_bias = if output == DType::F16 { DType::F16 } else { DType::BF16 };
        let is_read = |bias: &View<'_>| {
            let lies = bias.layout().strides()[0] == 1 && bias.device_address().is_multiple_of(SCALES_ALIGNMENT);
            lies && bias.dtype() == of_bias
        };
        if bias.as_ref().is_some_and(|bias| !is_read(bias)) || codes.is_some() && scaling != [Scaling::Tensor; 2] {
            return None;
        }
        let code = match codes {
            Some(codes) => Some(code(codes.format)?),
            None => None,
        };
        Some(End { bias: bias.map(|bias| bias.dtype()), activation, code })
    }

    /// What tuning tables know it by; `None` where no library has the scales, and for a weight that is laid out, and
    /// for a result in codes.
    fn shape(&self, output: DType) -> Option<Shape> {
        if self.end.codes.is_some() {
            return None;
        }
        let [a, b] = self.scaling();
        let codes = Codes { formats: self.formats(), scaling: [a?, b?] };
        (!self.b.laid_out).then(|| Shape::of_codes(codes, output, self.size))
    }

    /// The plan of a number that a table has: those of the first way come before those of the next.
    fn numbered(&self, choice: usize, c: &View<'_>) -> Option<Taken> {
        let (way, ending) = (self.ways().nth(choice / PLANS)?, Ending::NONE);
        Some(Taken { way, ending, plan: self.plan(way, ending, c, choice % PLANS)? })
    }

    fn formats(&self) -> [Format; 2] {
        [self.a.format, self.b.format]
    }

    /// What the library may be asked for, in the order by which plans are numbered.
    fn ways(&self) -> impl Iterator<Item = Way> + use<> {
        ways(self.stream.device().arch().info(), self.formats(), self.scaling(), [self.size[0], self.size[2]])
    }

    fn scaling(&self) -> [Option<Scaling>; 2] {
        [self.a, self.b].map(|side| scaling(side.kind, side.block, [side.rows, side.k]))
    }

    /// The library's plan number `choice`; `None` where there is no library, or it has none for this.
    pub fn plan(&self, way: Way, ending: Ending, c: &View<'_>, choice: usize) -> Option<Plan> {
        self.stream.device().vendor_plan(&self.described(way, ending, c)?, choice)
    }

    /// The product as libraries take it; `None` for a weight that is laid out, and for rows that are not whole or not aligned.
    fn described(&self, way: Way, ending: Ending, c: &View<'_>) -> Option<Product> {
        let ([a, b], [m, n, k]) = ([self.a, self.b], self.size);
        let scaling = if let Way::Scaled(scaling) = way { scaling } else { [Scaling::None; 2] };
        let (input, coded, whole) = match self.formats() {
            BYTES => (DType::I8, None, WHOLE_BYTES),
            [a, b] => (DType::U8, Some(Coded { codes: [code(a)?, code(b)?], scaling }), WHOLE),
        };
        let operand = |side: &Side<'_>| {
            let (codes, address) = (side.row_bytes * 8 / side.format.bits() as i64, side.codes.device_address());
            // A single row has no stride of its own.
            let leading = if side.rows <= 1 { k as i64 } else { codes };
            let fits = leading >= k as i64 && leading % whole as i64 == 0 && address.is_multiple_of(whole as u64);
            let alignment_bytes = alignment_of(address);
            (fits && !side.laid_out).then_some(Operand { leading, along_k: true, batch_stride: 0, alignment_bytes })
        };
        let (a, b) = (operand(a)?, operand(b)?);
        let lines = |leading: i64, address: u64| Operand {
            leading,
            along_k: false,
            batch_stride: 0,
            alignment_bytes: alignment_of(address),
        };
        let strides = c.layout().strides();
        let end = if let Ending::Library(end) = ending { end } else { End::default() };
        let is_c = matches!((way, ending), (Way::Scaled(_), Ending::Library(_)));
        let (output, c) = match is_c {
            true => (c.dtype(), lines(if m == 1 { n as i64 } else { strides[0] }, c.device_address())),
            // Memory of its own, whose addresses are aligned.
            false => (self.sums_dtype(), lines(n as i64, 0)),
        };
        let by_run = matches!(way, Way::Scaled(ways) if ways.contains(&Scaling::Run128));
        let is_whole = k.is_multiple_of(whole) && n.is_multiple_of(whole) && (!by_run || m.is_multiple_of(WHOLE_ROWS));
        let has_rows = !is_c || strides[1] == 1 && c.leading >= n as i64;
        let product = Product { input, coded, output, end, tf32: false, m, n, k, batches: 1, a, b, c };
        (is_whole && has_rows).then_some(product)
    }

    fn sums_dtype(&self) -> DType {
        if self.formats() == BYTES { DType::I32 } else { DType::F32 }
    }

    /// Multiplies.
    ///
    /// # Errors
    /// Out of memory; the library's own; errors of compilation and launch.
    pub fn run(&self, taken: &Taken, c: ViewMut<'_>) -> Result<()> {
        let ([m, n, _], stream, plan) = (self.size, self.stream, &taken.plan);
        let sums = || Tensor::empty(&stream.device(), &[1, m, n], self.sums_dtype());
        let scaled =
            |[a, b]: [Scaling; 2]| Ok::<_, crate::Error>([prepared(stream, self.a, a)?, prepared(stream, self.b, b)?]);
        let addresses = |scales: &[Tensor; 2]| scales.each_ref().map(|scales| scales.view().device_address());
        match (taken.way, taken.ending) {
            (Way::Scaled(scaling), Ending::Library(_)) => {
                let scales = scaled(scaling)?;
                let inverse = self.end.codes.map(|codes| inverse(stream, codes.scale)).transpose()?;
                let bias = self.end.bias.map_or(0, |bias| bias.device_address());
                let end = [bias, inverse.as_ref().map_or(0, |inverse| inverse.view().device_address())];
                self.launch(plan, addresses(&scales), end, c.device_address(), c.buffer())
            }
            (Way::Scaled(scaling), Ending::Behind) => {
                let (scales, sums) = (scaled(scaling)?, sums()?);
                self.launch(plan, addresses(&scales), [0; 2], sums.view().device_address(), sums.buffer())?;
                finish(stream, &sums, None, &self.end, &c)
            }
            (Way::Sums, ending) => {
                let sums = sums()?;
                self.launch(plan, [0; 2], [0; 2], sums.view().device_address(), sums.buffer())?;
                if ending == Ending::Behind {
                    return finish(stream, &sums, Some([self.a, self.b]), &self.end, &c);
                }
                let sums = sums.with_layout(Layout::contiguous(&[m, n])?)?;
                scale(stream, &sums, [self.a.scales, self.b.scales], c)
            }
        }
    }

    fn launch(&self, plan: &Plan, scales: [u64; 2], end: [u64; 2], c: u64, output: &Buffer) -> Result<()> {
        let device = self.stream.device();
        let workspace = match plan.workspace_bytes() {
            0 => None,
            bytes => Some(Buffer::new(&device, bytes)?),
        };
        let [m, n, k] = self.size;
        let flops = 2 * (m * n * k) as u64;
        let launch = VendorLaunch {
            label: OP,
            a: self.a.codes.device_address(),
            b: self.b.codes.device_address(),
            c,
            scales,
            end,
            output,
            workspace: workspace.as_ref(),
            work: Work { category: Category::Gemm, shape: &[m, n, k], flops, ..Work::default() },
        };
        // SAFETY:
        // - The plan is for this product's description, whose shapes and strides are those of checked views, each inside its
        //   buffer, and whose alignment is that of these addresses; scales are as `prepared` made them for it,
        //   the end's bias and scale as `library_end` and `inverse` say. C is in `output`, apart from the others.
        unsafe { self.stream.launch_vendor(plan, &launch)? };
        Ok(())
    }
}

/// What libraries call codes of a format.
fn code(format: Format) -> Option<Code> {
    match format {
        Format::E4M3 => Some(Code::E4M3),
        Format::E5M2 => Some(Code::E5M2),
        Format::E4M3Fnuz => Some(Code::E4M3Fnuz),
        Format::E5M2Fnuz => Some(Code::E5M2Fnuz),
        Format::E2M1 => Some(Code::E2M1),
        Format::I8 | Format::I4 | Format::I2 => None,
    }
}

/// Whether the library is faster where it has the product. What is stored in f32 has the precision of f32 sums, which NVIDIA's
/// 8-bit products have not: on Hopper they keep 14 bits of a sum (DeepSeek-V3, 2024, section 3.3.2), added up in f32.
pub(super) fn pays(arch: Arch, formats: [Format; 2], size: [usize; 3], output: DType) -> bool {
    let is_coarse = arch.info().vendor == Vendor::Nvidia && formats != BYTES && output == DType::F32;
    !is_coarse && scaled_pays(arch, size)
}

/// How `rows` of `k` codes are scaled, in the library's words; `None` for what it has none for.
pub(crate) fn scaling(kind: ScaleKind, [down, along]: [usize; 2], [rows, k]: [usize; 2]) -> Option<Scaling> {
    let is_float = matches!(kind, ScaleKind::F32 | ScaleKind::F16 | ScaleKind::BF16);
    match (is_float, down, along) {
        (true, ..) if along >= k && down >= rows => Some(Scaling::Tensor),
        (true, 1, _) if along >= k => Some(Scaling::Line),
        (true, 1, 128) => Some(Scaling::Run128),
        (true, 128, 128) if along < k => Some(Scaling::Block128),
        // A library takes 128 of K at once.
        (_, 1, 32) if kind == ScaleKind::E8M0 && k.is_multiple_of(128) => Some(Scaling::Mx32),
        _ => None,
    }
}

/// The ways in the order in which the library is asked, where nothing is tuned.
pub(super) fn asked(info: &ArchInfo, ways: impl Iterator<Item = Way>, rows: usize) -> Vec<Way> {
    let mut ways: Vec<Way> = ways.collect();
    if ways == [Way::Scaled([Scaling::Line; 2]), Way::Sums] && sums_first(info.vendor, rows) {
        ways.reverse();
    }
    ways
}

/// Ways for formats and scales of both sides, with scales before without; none for formats that the card multiplies otherwise.
pub(super) fn ways(
    info: &ArchInfo,
    formats: [Format; 2],
    scaling: [Option<Scaling>; 2],
    [rows, k]: [usize; 2],
) -> impl Iterator<Item = Way> + use<> {
    let native = formats.iter().all(|&format| is_float8(info, format));
    let by_line = scaling.iter().all(|scaling| matches!(scaling, Some(Scaling::Tensor | Scaling::Line)));
    let scaled = match scaling {
        [Some(Scaling::Mx32), Some(Scaling::Mx32)] if is_deep(info, formats[0], formats[1]) => Some([Scaling::Mx32; 2]),
        _ if !native => None,
        [Some(Scaling::Tensor), Some(Scaling::Tensor)] => Some([Scaling::Tensor; 2]),
        _ if by_line => Some([Scaling::Line; 2]),
        [Some(a @ Scaling::Run128), Some(b @ (Scaling::Run128 | Scaling::Block128))]
        | [Some(a @ Scaling::Block128), Some(b @ Scaling::Run128)] => Some([a, b]),
        _ => None,
    };
    let has_sums = native || formats == BYTES && k < BYTES_K_END;
    let sums = (by_line && has_sums && sums_pay(formats == BYTES, rows, k)).then_some(Way::Sums);
    [scaled.map(Way::Scaled), sums].into_iter().flatten()
}

/// Scales of a side where and as the library reads them: those of the side, or a copy. A scale for all is copied for each line where
/// lines are to have one each.
fn prepared(stream: &Stream, side: &Side<'_>, scaling: Scaling) -> Result<Tensor> {
    let (lines, view) = (side.rows, side.scales);
    let runs = side.k.div_ceil(128);
    let (shape, strides) = match scaling {
        Scaling::None | Scaling::Tensor => ([1, 1], [1, 1]),
        Scaling::Line => ([lines, 1], [1, 1]),
        Scaling::Run128 => ([lines, runs], [1, lines]),
        Scaling::Block128 => ([lines.div_ceil(128), runs], [runs.next_multiple_of(4), 1]),
        Scaling::Mx32 => ([lines, side.k / 32], [side.k / 32, 1]),
    };
    let dtype = if scaling == Scaling::Mx32 { DType::U8 } else { DType::F32 };
    let elements = (shape[0] * strides[0]).max(shape[1] * strides[1]);
    let strides = strides.map(|stride| stride as i64);
    let lies = |axis: usize| shape[axis] == 1 || view.layout().strides()[axis] == strides[axis];
    let is_there = view.dtype() == dtype && view.shape() == shape && lies(0) && lies(1);
    if is_there && view.device_address().is_multiple_of(SCALES_ALIGNMENT) {
        return Ok(Tensor::from_buffer(view.buffer().clone(), *view.layout(), dtype)?);
    }
    let mut made = Tensor::empty(view.device(), &[elements], dtype)?;
    if scaling == Scaling::Block128 {
        // What fills rows up, the last one too, is not read, but should be there and a number.
        stream.fill(made.buffer(), 0, 0, made.buffer().bytes())?;
    }
    made = made.with_layout(Layout::strided(&shape, &strides, 0)?)?;
    let wide;
    let from = match view.dtype() == dtype {
        true => view,
        false => {
            wide = family::cast(stream, view, dtype)?;
            wide.view()
        }
    };
    family::copy_into(stream, from, made.view_mut())?;
    Ok(made)
}

/// What a library multiplies results by that are codes by this scale, as our kernel does.
fn inverse(stream: &Stream, scale: View<'_>) -> Result<Tensor> {
    static GRAPHS: Graphs<()> = Graphs::new();
    let graph = GRAPHS.get((), |()| Draft::graph("inverse_scale", |g| g.input(DType::F32).unary(Unary::Recip)));
    let mut made = Tensor::empty(scale.device(), scale.shape(), DType::F32)?;
    graphs::run(stream, &graph, scale.shape(), &[scale], &[], &mut [made.view_mut()])?;
    Ok(made)
}

/// `c = sums · a's scales · b's scales`, those by row and by column, or one for all.
fn scale(stream: &Stream, sums: &Tensor, [a, b]: [View<'_>; 2], c: ViewMut<'_>) -> Result<()> {
    static GRAPHS: Graphs<[DType; 4]> = Graphs::new();
    let graph = GRAPHS.get([sums.dtype(), a.dtype(), b.dtype(), c.dtype()], |[sums, a, b, to]| {
        Draft::graph("scale_sums", |g| {
            let [sum, a, b] = [sums, a, b].map(|dtype| g.input(dtype).cast(DType::F32));
            (sum * (a * b)).cast(to)
        })
    });
    let across = b.with_layout(b.layout().swap(0, 1)?)?;
    let shape = [sums.shape()[0], sums.shape()[1]];
    graphs::run(stream, &graph, &shape, &[sums.view(), a, across], &[], &mut [c])
}

#[cfg(test)]
mod tests;
