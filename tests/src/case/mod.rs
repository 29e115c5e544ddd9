//! What a case is, and the list of all of them.

mod attention;
mod cache;
mod causal_conv;
mod combine;
mod conv;
mod cross_entropy;
mod delta;
mod dequantise;
mod drawn;
mod elementwise;
mod experts;
mod gate;
mod gemm;
mod gguf;
mod grouped;
mod grouped_codes;
mod grouped_scaled;
mod hadamard;
mod index;
mod interpolate;
mod loss;
mod mla;
mod norm;
mod paged;
mod pool;
mod quant;
mod random;
mod reduce;
mod rope;
mod row_codes;
mod rows;
mod sample;
mod scaled;
mod scaled_end;
mod scan;
mod selective_scan;
mod sort;

use std::ops::Range;
use std::sync::Arc;

use rocfire_hal::{DType, Device, Layout, Stream, Tensor};

use crate::data::{Array, Placement};
use crate::tolerance::{Distance, PATTERNS, most_nmse, most_nmse_of_few};

pub use drawn::drawn;

/// Every type of numbers, floats and integers in turn, so that a stride through them meets both.
const NUMBERS: [DType; 12] = [
    DType::F32,
    DType::I64,
    DType::F16,
    DType::U8,
    DType::BF16,
    DType::I32,
    DType::F64,
    DType::U64,
    DType::I8,
    DType::U32,
    DType::I16,
    DType::U16,
];

/// What went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A tensor between two launches of a case. It has memory for one element at least: one without any would be a handle without
/// a block, which is not the launcher's doing.
fn temporary(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor, Failure> {
    let memory = Tensor::empty(device, &[shape.iter().product::<usize>().max(1)], dtype)?;
    Ok(memory.with_layout(Layout::contiguous(shape)?)?)
}

/// What a call costs at least, for rooflines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes that must be read or written once.
    pub bytes: f64,
}

/// A prepared call: its inputs are on the device.
pub trait Run {
    /// Launches the operator.
    ///
    /// # Errors
    /// What the launcher says.
    fn launch(&mut self) -> Result<(), Failure>;

    /// Compares what the last launch wrote with the oracle: all outputs together, then each of several that has `SUMS_FEW` elements.
    ///
    /// # Errors
    /// What the device says when it is read.
    fn distances(&self) -> Result<Vec<Distance>, Failure>;

    /// The same, measured by what results of as many terms of random sign would come to.
    ///
    /// # Errors
    /// What the device says when it is read.
    fn distances_of_terms(&self) -> Result<Vec<Distance>, Failure>;
}

/// What kind of call it is, by the number of elements of its largest array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// An array without elements.
    Empty,
    /// One element each.
    One,
    /// More, up to 1023: mostly less than a workgroup has lanes, primes and one off the width of a wave.
    Small,
    /// 1024 and more: several workgroups, loops, merges.
    Large,
}

impl SizeClass {
    /// Every class, smallest first.
    pub const ALL: [SizeClass; 4] = [SizeClass::Empty, SizeClass::One, SizeClass::Small, SizeClass::Large];

    fn of(lengths: impl Iterator<Item = usize> + Clone) -> SizeClass {
        match lengths.clone().max() {
            _ if lengths.clone().any(|len| len == 0) => SizeClass::Empty,
            None | Some(0 | 1) => SizeClass::One,
            Some(2..1024) => SizeClass::Small,
            Some(1024..) => SizeClass::Large,
        }
    }
}

/// Results of a sum from which on their size says what their terms are: it is that of sums of random terms where there are many. Of
/// few, one that comes to nearly nothing is off by any share. Of 32, less than 0.3 of what is expected comes once in 15000 times
/// (χ² of 32 below 9.6).
const SUMS_FEW: usize = 32;

type Prepare = Box<dyn Fn(&Device) -> Result<Box<dyn Run>, Failure> + Send + Sync>;

/// One call of one operator.
pub struct Case {
    /// The operator's stem.
    pub operator: &'static str,
    /// The type of its inputs.
    pub dtype: DType,
    /// Sizes and placements.
    pub size: String,
    /// How large it is.
    pub class: SizeClass,
    /// Whether an input is not row-major.
    pub strided: bool,
    /// What it costs at least.
    pub cost: Cost,
    /// Terms that an element of the result sums up; 1 for what is no sum.
    terms: usize,
    /// Numbers with a rounding error of their own: elements of all results, or fewer where results are made of the same sums.
    numbers: usize,
    prepare: Prepare,
}

impl Case {
    /// `operator/dtype/size`.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.operator, self.dtype.name(), self.size)
    }

    /// Puts the inputs on a device.
    ///
    /// # Errors
    /// What the device says.
    pub fn prepare(&self, device: &Device) -> Result<Box<dyn Run>, Failure> {
        (self.prepare)(device)
    }

    /// Whether results are made of terms that may cancel. A gradient is as good as a sum: that of cross entropy is a difference.
    fn is_sum(&self) -> bool {
        self.terms > 1 || self.operator.ends_with("_backward")
    }

    /// Runs once and judges.
    ///
    /// # Errors
    /// What the launcher or the device says, or the distance if it is too large.
    pub fn check(&self, device: &Device) -> Result<Distance, Failure> {
        let mut run = self.prepare(device)?;
        run.launch()?;
        let mut distances = run.distances()?;
        let mut most = most_nmse(self.dtype, self.terms);
        let few = self.numbers < SUMS_FEW;
        if few {
            distances.truncate(1);
        }
        if self.is_sum() && distances.iter().any(|distance| distance.nmse > most) {
            let of_terms = run.distances_of_terms()?;
            if few {
                distances[0] = of_terms[0];
                most = most_nmse_of_few(self.dtype, self.terms, self.numbers);
            } else {
                // An output whose terms cancel is held against these, but all together must be right as they are.
                distances[1..].copy_from_slice(&of_terms[1..]);
            }
        }
        match distances.iter().find(|distance| distance.unlike > 0 || distance.nmse > most) {
            None => Ok(distances[0]),
            Some(Distance { nmse, unlike, furthest: (place, got, want) }) => Err(format!(
                "NMSE {nmse:.3e} (at most {most:.3e}), {unlike} non-finite elements differ; element {place} is {got}, should be {want}"
            )
            .into()),
        }
    }
}

/// What a call is made of: arrays in, arrays out.
struct Call<L, O> {
    inputs: Vec<(Array, Placement)>,
    /// Shape and type of each output.
    outputs: Vec<(Vec<usize>, DType)>,
    /// Runs the operator.
    launch: L,
    /// What it should have written, output after output.
    oracle: O,
}

/// A call whose inputs are on the device.
struct Placed<L, O> {
    call: Arc<Call<L, O>>,
    device: Device,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl<L, O> Placed<L, O> {
    fn arrays(&self) -> Vec<Array> {
        self.call.inputs.iter().map(|(array, _)| array.clone()).collect()
    }

    /// What the last launch wrote, output by output.
    fn got(&self) -> Result<Vec<Vec<f64>>, Failure> {
        self.outputs.iter().map(|output| Ok(Array::read(output)?.values.to_vec())).collect()
    }
}

impl<L, O> Run for Placed<L, O>
where
    L: Fn(&Stream, &[Tensor], &mut [Tensor]) -> Result<(), Failure>,
    O: Fn(&[Array]) -> Vec<Vec<f64>>,
{
    fn launch(&mut self) -> Result<(), Failure> {
        (self.call.launch)(self.device.stream(), &self.inputs, &mut self.outputs)
    }

    fn distances(&self) -> Result<Vec<Distance>, Failure> {
        let (got, want) = (self.got()?, (self.call.oracle)(&self.arrays()));
        Ok(parts(&want).map(|part| Distance::between(&got[part.clone()].concat(), &want[part].concat())).collect())
    }

    fn distances_of_terms(&self) -> Result<Vec<Distance>, Failure> {
        let inputs = self.arrays();
        let (got, want) = (self.got()?, (self.call.oracle)(&inputs));
        let near = |pattern| (self.call.oracle)(&inputs.iter().map(|array| array.nudged(pattern)).collect::<Vec<_>>());
        let near: Vec<_> = (0..PATTERNS).map(near).collect();
        let of_terms = |part: Range<usize>| {
            let moved = |pattern| near[pattern as usize][part.clone()].concat();
            Distance::of_terms(&got[part.clone()].concat(), &want[part.clone()].concat(), moved)
        };
        Ok(parts(&want).map(of_terms).collect())
    }
}

/// What is compared: all outputs, then each of several that is no handful of numbers. Large numbers of one would hide errors of another.
fn parts(outputs: &[Vec<f64>]) -> impl Iterator<Item = Range<usize>> {
    let alone = |&n: &usize| outputs.len() > 1 && outputs[n].len() >= SUMS_FEW;
    std::iter::once(0..outputs.len()).chain((0..outputs.len()).filter(alone).map(|n| n..n + 1))
}

impl Case {
    /// A case from a call. Its cost in bytes is that of reading every input and writing every output once.
    fn new<L, O>(operator: &'static str, dtype: DType, size: String, flops: f64, call: Call<L, O>) -> Case
    where
        L: Fn(&Stream, &[Tensor], &mut [Tensor]) -> Result<(), Failure> + Send + Sync + 'static,
        O: Fn(&[Array]) -> Vec<Vec<f64>> + Send + Sync + 'static,
    {
        let size_of = |shape: &[usize], dtype: DType| (shape.iter().product::<usize>() * dtype.size_bytes()) as f64;
        let read: f64 = call.inputs.iter().map(|(array, _)| size_of(&array.shape, array.dtype)).sum();
        let written: f64 = call.outputs.iter().map(|(shape, dtype)| size_of(shape, *dtype)).sum();
        let lengths = call.inputs.iter().map(|(array, _)| &array.shape[..]);
        let lengths = lengths.chain(call.outputs.iter().map(|(shape, _)| &shape[..]));
        let class = SizeClass::of(lengths.map(|shape| shape.iter().product()));
        let results = call.outputs.iter().map(|(shape, _)| shape.iter().product::<usize>()).sum();
        let strided = call.inputs.iter().any(|(_, placement)| *placement != Placement::Contiguous);
        let call = Arc::new(call);
        let prepare = move |device: &Device| -> Result<Box<dyn Run>, Failure> {
            let place = |(array, placement): &(Array, Placement)| array.place(device, *placement);
            let empty = |(shape, dtype): &(Vec<usize>, DType)| Tensor::empty(device, shape, *dtype);
            Ok(Box::new(Placed {
                call: Arc::clone(&call),
                device: device.clone(),
                inputs: call.inputs.iter().map(place).collect::<Result<_, _>>()?,
                outputs: call.outputs.iter().map(empty).collect::<Result<_, _>>()?,
            }))
        };
        Case {
            operator,
            dtype,
            size,
            class,
            strided,
            cost: Cost { flops, bytes: read + written },
            terms: 1,
            numbers: results,
            prepare: Box::new(prepare),
        }
    }

    /// The same case, judged as a sum of so many terms.
    fn summing(self, terms: usize) -> Case {
        Case { terms, ..self }
    }

    /// The same case, whose results have no more than so many errors of their own among them.
    fn with_numbers(self, numbers: usize) -> Case {
        Case { numbers: self.numbers.min(numbers), ..self }
    }
}

/// Every case, operator by operator.
pub fn all() -> Vec<Case> {
    [
        gemm::cases(),
        grouped::cases(),
        grouped_codes::cases(),
        gguf::cases(),
        conv::cases(),
        attention::cases(),
        cache::cases(),
        paged::cases(),
        mla::cases(),
        rope::cases(),
        pool::cases(),
        interpolate::cases(),
        elementwise::cases(),
        rows::cases(),
        norm::cases(),
        gate::cases(),
        cross_entropy::cases(),
        reduce::cases(),
        index::cases(),
        loss::cases(),
        quant::cases(),
        row_codes::cases(),
        scaled::cases(),
        scan::cases(),
        sort::cases(),
        random::cases(),
        sample::cases(),
        experts::cases(),
        combine::cases(),
        hadamard::cases(),
        causal_conv::cases(),
        selective_scan::cases(),
        delta::cases(),
        gguf::of_16_bits(),
        grouped_scaled::cases(),
        scaled_end::cases(),
        gguf::in_order(),
        dequantise::cases(),
        gguf::plain(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The dtypes that are floats.
const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// The dtypes that are integers, in an order in which neighbours differ in width.
const INTEGERS: [DType; 8] =
    [DType::I64, DType::U8, DType::I32, DType::U64, DType::I8, DType::U32, DType::I16, DType::U16];

/// What a sum comes to in a dtype: integers wrap around. Those of 64 bits are expected not to.
fn wrapped(dtype: DType, value: f64) -> f64 {
    if !dtype.is_int() || dtype.size_bytes() == 8 {
        return value;
    }
    let modulus = 2.0_f64.powi(8 * dtype.size_bytes() as i32);
    let value = value.rem_euclid(modulus);
    if dtype.is_signed_int() && value >= modulus / 2.0 { value - modulus } else { value }
}
