//! What follows a product of codes: a bias, an activation, codes again; and the launcher of `scaled_end.hip`, which does it to sums in memory.
//!
//! Our own kernel does it at its store. Where K is cut, and behind what a vendor's library gives, the launch that adds up or scales sums does.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
pub use rocfire_hal::vendor::EndActivation;
use rocfire_hal::{DType, Error, Source, Stream, Tensor, View};

use super::{OP, ScaledArgs, Side};
use crate::Result;
use crate::family::{self, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};
use crate::quant::format::{Format, ScaleKind};

/// Threads of a workgroup.
const BLOCK: usize = 256;
/// Neighbours of a row that a lane takes where there are enough elements for all lanes of a large device.
const RUN: usize = 4;
const RUNS_PAY: usize = 1 << 18;

/// What [`q_matmul_scaled_to`](super::q_matmul_scaled_to()) does to each sum, in this order; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScaledEnd<'a> {
    /// `[N]`, f32, f16 or bf16, any stride: it is added to every row.
    pub bias: Option<View<'a>>,
    /// What becomes of the sum with its bias.
    pub activation: EndActivation,
    /// `c` is codes of that.
    pub codes: Option<EndCodes<'a>>,
}

/// Codes of a result, all by one scale.
#[derive(Clone, Copy, Debug)]
pub struct EndCodes<'a> {
    /// How a code is a number: 8 bits.
    pub format: Format,
    /// f32, one element: what a code is multiplied by to give the number back.
    pub scale: View<'a>,
}

/// What varies in sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct EndKey {
    pub bias: Option<DType>,
    pub activation: EndActivation,
    pub code: Option<Format>,
}

impl EndKey {
    pub fn is_none(self) -> bool {
        self == EndKey::default()
    }

    /// The macros of `scaled_end.h`, of a result in `output`.
    pub fn defines(self, output: DType) -> [(&'static str, &'static str); 6] {
        let activation = match self.activation {
            EndActivation::None => "0",
            EndActivation::Relu => "1",
            EndActivation::GeluTanh => "2",
            EndActivation::Silu => "3",
        };
        [
            ("S_OUT", if self.code.is_some() { "OutCode" } else { c_type(output) }),
            ("S_END", if self.is_none() { "0" } else { "1" }),
            ("S_BIASED", if self.bias.is_some() { "1" } else { "0" }),
            ("S_BIAS", self.bias.map_or("float", c_type)),
            ("S_ACTIVATION", activation),
            ("S_CODE", self.code.map_or("-1", Format::number)),
        ]
    }
}

impl ScaledEnd<'_> {
    pub(super) fn key(&self) -> EndKey {
        EndKey {
            bias: self.bias.map(|bias| bias.dtype()),
            activation: self.activation,
            code: self.codes.map(|codes| codes.format),
        }
    }

    /// The type of a result, and whether the end goes with it and with its columns.
    pub(super) fn check(&self, stream: &Stream, columns: usize, c: &View<'_>) -> Result<()> {
        if let Some(EndCodes { format, scale }) = &self.codes {
            family::same_dtype(OP, "c", c, DType::U8)?;
            if format.bits() != 8 {
                return Err(shape(OP, "end.codes.format", "codes of 8 bits", format!("{format:?}")));
            }
            family::on_device(OP, "end.codes.scale", stream, scale)?;
            family::same_dtype(OP, "end.codes.scale", scale, DType::F32)?;
            if scale.shape().iter().product::<usize>() != 1 {
                return Err(shape(OP, "end.codes.scale", "one element", format!("{:?}", scale.shape())));
            }
            family::disjoint(OP, "end.codes.scale", c, scale)?;
        }
        let Some(bias) = &self.bias else { return Ok(()) };
        family::on_device(OP, "end.bias", stream, bias)?;
        if !is_short_float(bias.dtype()) {
            return Err(Error::Unsupported { op: OP, dtype: bias.dtype(), arch: bias.arch() }.into());
        }
        if bias.shape() != [columns] {
            return Err(shape(OP, "end.bias", format!("[{columns}]"), format!("{:?}", bias.shape())));
        }
        family::disjoint(OP, "end.bias", c, bias)
    }

    pub(super) fn args(&self) -> EndArgs {
        EndArgs {
            bias: self.bias.map_or(0, |bias| bias.device_address()),
            scale: self.codes.map_or(0, |codes| codes.scale.device_address()),
            bias_step: self.bias.map_or(0, |bias| bias.layout().strides()[0]),
        }
    }
}

/// f32, f16 or bf16.
pub(super) fn is_short_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// `EndArgs` of `scaled_end.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct EndArgs {
    bias: u64,
    scale: u64,
    bias_step: i64,
}
const _: () = assert!(size_of::<EndArgs>() == 24);

/// Bytes of the longest arguments with an end.
const ARGS_MOST: usize = size_of::<ScaledArgs>() + size_of::<EndArgs>();
const _: () = assert!(size_of::<ScaledSumArgs>() <= size_of::<ScaledArgs>());

/// A kernel's own arguments and, where something follows, the end's behind them.
pub(super) struct EndedArgs {
    bytes: [u8; ARGS_MOST],
    used: usize,
}

impl EndedArgs {
    /// Of a kernel with the end of this key.
    pub fn new<A: Pod>(own: &A, end: &ScaledEnd<'_>, key: EndKey) -> EndedArgs {
        let (own, end) = (bytemuck::bytes_of(own), end.args());
        let mut bytes = [0; ARGS_MOST];
        bytes[..own.len()].copy_from_slice(own);
        let mut used = own.len();
        if !key.is_none() {
            bytes[used..][..size_of::<EndArgs>()].copy_from_slice(bytemuck::bytes_of(&end));
            used += size_of::<EndArgs>();
        }
        EndedArgs { bytes, used }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SumKey {
    sums: DType,
    scaled: bool,
    run: usize,
    output: DType,
    end: EndKey,
}

fn source(key: SumKey) -> Source {
    let own = [
        ("E_SUM", if key.sums == DType::I32 { "i32" } else { "float" }),
        ("E_SCALED", if key.scaled { "1" } else { "0" }),
        ("E_RUN", if key.run == 1 { "1" } else { "4" }),
    ];
    let defines: Vec<_> = own.into_iter().chain(key.end.defines(key.output)).collect();
    Source::new("scaled_end", concat!(include_str!("../scaled_end.h"), include_str!("../scaled_end.hip")), &defines)
}

/// An end for the registry; every fourth is none.
pub(super) fn variant(number: usize, output: DType) -> EndKey {
    let bias = Some(output);
    let (bias, activation, code) = match number % 4 {
        0 => return EndKey::default(),
        1 => (bias, EndActivation::Relu, None),
        2 => (bias, EndActivation::GeluTanh, Some(Format::E4M3)),
        _ => (None, EndActivation::Silu, Some(Format::I8)),
    };
    EndKey { bias, activation, code }
}

/// Sources for the registry, for one type of the result.
pub(super) fn sources(output: DType) -> impl Iterator<Item = Source> {
    let key =
        move |number: usize, sums, scaled, run| SumKey { sums, scaled, run, output, end: variant(number, output) };
    let (float, whole) = (DType::F32, DType::I32);
    let keys = [key(0, float, false, 1), key(1, float, false, RUN), key(2, whole, true, 1), key(3, whole, true, RUN)];
    keys.into_iter().map(source)
}

/// `c` of sums `[slices, M, N]`, f32 or i32: those of slices are added up in ascending order, multiplied by both sides' scales by row and by
/// column where `scales` has them, and ended.
///
/// # Errors
/// Of compilation and launch.
pub(super) fn finish(
    stream: &Stream,
    sums: &Tensor,
    scales: Option<[&Side<'_>; 2]>,
    end: &ScaledEnd<'_>,
    c: &View<'_>,
) -> Result<()> {
    static SOURCES: Sources<SumKey> = Sources::new();
    let &[slices, m, n] = sums.shape() else { unreachable!("sums have slices, rows and columns") };
    let key = end.key();
    let run = if m * n >= RUNS_PAY && in_runs(c) { RUN } else { 1 };
    let source: Arc<Source> =
        SOURCES.get(SumKey { sums: sums.dtype(), scaled: scales.is_some(), run, output: c.dtype(), end: key }, source);
    let of = |side: usize| {
        let Some(scales) = scales else { return (0, 0, ScaleKind::F32.number()) };
        let Side { scales, kind, .. } = scales[side];
        // One for all has no stride of its own.
        let step = if scales.shape()[0] == 1 { 0 } else { scales.layout().strides()[0] };
        (scales.device_address(), step, kind.number())
    };
    let ((a_scales, a_step, a_kind), (b_scales, b_step, b_kind)) = (of(0), of(1));
    let rows = m.min(GRID_YZ_MAX);
    let args = ScaledSumArgs {
        sums: sums.view().device_address(),
        c: c.device_address(),
        a_scales,
        b_scales,
        c_row: c.layout().strides()[0],
        c_col: c.layout().strides()[1],
        a_step,
        b_step,
        m: m as u32,
        n: n as u32,
        slices: slices as u32,
        row_step: rows as u32,
        a_kind,
        b_kind,
    };
    let (grid, args) = ([n.div_ceil(BLOCK * run), rows, 1], EndedArgs::new(&args, end, key));
    let launch = KernelLaunch::new(stream, &source, (OP, "q_scaled_end"), grid, [BLOCK, 1, 1]);
    // SAFETY:
    // - `ScaledSumArgs` and `EndArgs` are the twins of the kernel's structs; there are slices x M x N sums, scales by rows below M and N or
    //   one for all, a bias of N and C of M x N: checked views all.
    // - It writes C only.
    unsafe { launch.run_bytes(args.bytes(), &[c.buffer()]) }
}

/// Whether runs of a row of C lie side by side and are aligned, from the first on.
fn in_runs(c: &View<'_>) -> bool {
    let (strides, bytes) = (c.layout().strides(), c.dtype().size_bytes() * RUN);
    let whole = |axis: usize, multiple: usize| c.shape()[axis].is_multiple_of(multiple);
    whole(1, RUN)
        && strides[1] == 1
        && (strides[0] % RUN as i64 == 0 || c.shape()[0] == 1)
        && c.device_address().is_multiple_of(bytes as u64)
}

/// `ScaledSumArgs` of `scaled_end.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ScaledSumArgs {
    sums: u64,
    c: u64,
    a_scales: u64,
    b_scales: u64,
    c_row: i64,
    c_col: i64,
    a_step: i64,
    b_step: i64,
    m: u32,
    n: u32,
    slices: u32,
    row_step: u32,
    a_kind: u32,
    b_kind: u32,
}
const _: () = assert!(size_of::<ScaledSumArgs>() == 88);

#[cfg(test)]
mod tests;
