//! Rotary position embedding: both styles, partial, from tables and computed, every kind of position, in place, and back.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::rope::{
    RopeAngles, RopeFrequencies, RopeParams, RopePositions, RopeScaling, RopeStyle, RopeTensor, rope as launch_rope,
    rope_table,
};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};

#[derive(Clone, Copy, Debug)]
struct Spec {
    batches: usize,
    /// Of queries and of keys.
    heads: [usize; 2],
    rows: usize,
    depth: usize,
    rot: usize,
    style: RopeStyle,
    tables: bool,
    given: bool,
    /// Rows at which three sequences begin and end.
    starts: Option<[usize; 4]>,
    offset: i64,
    inverse: bool,
    in_place: bool,
    rows_first: bool,
    scaling: RopeScaling<'static>,
}

const PLAIN: Spec = Spec {
    batches: 1,
    heads: [1, 1],
    rows: 1,
    depth: 64,
    rot: 64,
    style: RopeStyle::NeoX,
    tables: false,
    given: false,
    starts: None,
    offset: 0,
    inverse: false,
    in_place: false,
    rows_first: false,
    scaling: RopeScaling::Yarn { factor: 4.0, trained: 4096.0, fast: 32.0, slow: 1.0 },
};
/// Whose magnitude is no 1.
const DEEP_SEEK: RopeScaling<'static> = RopeScaling::DeepSeekYarn {
    factor: 40.0,
    trained: 4096.0,
    fast: 32.0,
    slow: 1.0,
    mscale: 1.0,
    mscale_all_dim: 0.5,
};
/// Of 8 rotated elements.
const LONG: RopeScaling<'static> = RopeScaling::LongRope {
    short: &[1.0, 1.05, 1.1, 1.5],
    long: &[1.0, 2.0, 16.0, 64.0],
    trained: 4096.0,
    longest: 131_072.0,
    length: 8192.0,
};
const SPECS: [Spec; 14] = [
    Spec { offset: 100_003, ..PLAIN },
    Spec { batches: 2, heads: [4, 2], rows: 33, tables: true, rows_first: true, ..PLAIN },
    Spec { heads: [3, 1], rows: 17, style: RopeStyle::GptJ, in_place: true, ..PLAIN },
    Spec { heads: [2, 2], rows: 7, depth: 80, rot: 32, given: true, batches: 2, ..PLAIN },
    Spec { rows: 13, depth: 30, rot: 10, style: RopeStyle::GptJ, tables: true, offset: 3, ..PLAIN },
    Spec { heads: [2, 1], rows: 20, starts: Some([0, 9, 9, 20]), ..PLAIN },
    Spec { heads: [2, 1], rows: 9, inverse: true, tables: true, rows_first: true, ..PLAIN },
    Spec { heads: [40, 8], rows: 3, depth: 128, rot: 128, ..PLAIN },
    Spec { rows: 0, ..PLAIN },
    // Where the rows say their place, an offset still counts on top.
    Spec { batches: 2, heads: [2, 1], rows: 5, given: true, offset: 100_003, ..PLAIN },
    Spec { rows: 11, given: true, tables: true, offset: 3, style: RopeStyle::GptJ, ..PLAIN },
    Spec { heads: [1, 2], rows: 20, starts: Some([0, 9, 9, 20]), tables: true, offset: 7, ..PLAIN },
    Spec { heads: [3, 1], rows: 19, style: RopeStyle::GptJ, tables: true, scaling: DEEP_SEEK, ..PLAIN },
    Spec { heads: [1, 2], rows: 5, depth: 16, rot: 8, offset: 100_003, scaling: LONG, ..PLAIN },
];
const POSITIONS: usize = 64;
const BASE: f64 = 10_000.0;

pub fn cases() -> Vec<Case> {
    SPECS.into_iter().enumerate().map(|(turn, spec)| rope(FLOATS[turn % 4], spec)).collect()
}

/// A rotation of any sizes.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let depth = draw.pick(&[64, 80, 30, 128, 8]);
    let rot = draw.pick(&[depth, (depth / 4 * 2).max(2)]);
    let spec = Spec {
        batches: draw.extent(3),
        heads: [draw.extent(8), draw.extent(3)],
        rows: draw.extent(33),
        depth,
        rot,
        style: if draw.flag() { RopeStyle::GptJ } else { RopeStyle::NeoX },
        tables: draw.flag(),
        inverse: draw.flag(),
        in_place: draw.flag(),
        rows_first: draw.flag(),
        ..PLAIN
    };
    rope(draw.float(), spec)
}

impl Spec {
    fn shape(&self, heads: usize) -> Vec<usize> {
        if self.rows_first {
            vec![self.batches, self.rows, heads, self.depth]
        } else {
            vec![self.batches, heads, self.rows, self.depth]
        }
    }

    fn frequencies(&self) -> RopeFrequencies {
        RopeFrequencies::new(self.rot, BASE, self.scaling).expect("what scales was made for so many elements")
    }

    fn position(&self, batch: usize, row: usize, given: &Array) -> f64 {
        let own = if self.given {
            given.values[batch * self.rows + row]
        } else if let Some(starts) = self.starts {
            (row - starts.into_iter().filter(|&start| start <= row).max().unwrap_or(0)) as f64
        } else {
            row as f64
        };
        own + self.offset as f64
    }

    fn oracle(&self, x: &Array, heads: usize, given: &Array) -> Vec<f64> {
        let frequencies = self.frequencies();
        let mut y = x.values.to_vec();
        for line in 0..self.batches * heads * self.rows {
            let (batch, rest) = (line / (heads * self.rows), line % (heads * self.rows));
            let row = if self.rows_first { rest / heads } else { rest % self.rows };
            let position = self.position(batch, row, given);
            for (i, inverse) in frequencies.inverse.iter().enumerate() {
                let (a, b) = match self.style {
                    RopeStyle::NeoX => (i, i + self.rot / 2),
                    RopeStyle::GptJ => (2 * i, 2 * i + 1),
                };
                let (a, b) = (line * self.depth + a, line * self.depth + b);
                let (sin, cos) = (position * inverse).sin_cos();
                let (cos, mut sin) = (cos * frequencies.magnitude, sin * frequencies.magnitude);
                sin = if self.inverse { -sin } else { sin };
                (y[a], y[b]) = (x.values[a] * cos - x.values[b] * sin, x.values[b] * cos + x.values[a] * sin);
            }
        }
        y
    }

    fn name(&self) -> String {
        let scale = if self.in_place { " in place" } else { "" };
        let angles = if self.tables { "tables" } else { "computed" };
        let positions = match (self.given, self.starts) {
            (true, _) => " given",
            (false, Some(_)) => " starts",
            (false, None) => "",
        };
        let offset = if self.offset == 0 { String::new() } else { format!(" offset {}", self.offset) };
        let back = if self.inverse { " inverse" } else { "" };
        let scaling = match self.scaling {
            RopeScaling::DeepSeekYarn { .. } => " of DeepSeek",
            RopeScaling::LongRope { .. } => " by pair",
            RopeScaling::None
            | RopeScaling::Linear { .. }
            | RopeScaling::DynamicNtk { .. }
            | RopeScaling::Yarn { .. }
            | RopeScaling::Llama3 { .. } => "",
        };
        format!(
            "{}x{:?}x{}x{}/{} {:?} {angles}{positions}{offset}{scale}{back}{scaling}",
            self.batches, self.heads, self.rows, self.depth, self.rot, self.style
        )
    }
}

fn rope(dtype: DType, spec: Spec) -> Case {
    let frequencies = spec.frequencies();
    let inverse = Array::new(&[spec.rot / 2], DType::F64, frequencies.inverse.clone());
    let given: Vec<f64> = (0..spec.batches * spec.rows).map(|n| (n * 7 % 61) as f64).collect();
    let starts: Vec<f64> = spec.starts.unwrap_or_default().into_iter().map(|n| n as f64).collect();
    let inputs = vec![
        (Array::random(&spec.shape(spec.heads[0]), dtype, 1), Placement::Contiguous),
        (Array::random(&spec.shape(spec.heads[1]), dtype, 2), Placement::Contiguous),
        (inverse, Placement::Contiguous),
        (Array::new(&[spec.batches, spec.rows], DType::I64, given), Placement::Contiguous),
        (Array::new(&[4], DType::I32, starts), Placement::Contiguous),
    ];
    let outputs = spec.heads.iter().map(|&heads| (spec.shape(heads), dtype)).collect();
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let heads_first = |tensor: &Tensor| -> Result<Tensor, Failure> {
            let layout = if spec.rows_first { tensor.layout().swap(1, 2)? } else { *tensor.layout() };
            Ok(tensor.with_layout(layout)?)
        };
        let real = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let table = || Tensor::empty(inputs[0].device(), &[POSITIONS, spec.rot / 2], real);
        let (mut cosines, mut sines) = (table()?, table()?);
        let inverse = inputs[2].view();
        let angles = if spec.tables {
            rope_table(stream, inverse, frequencies.magnitude, 0, cosines.view_mut(), sines.view_mut())?;
            RopeAngles::Tables { cosines: cosines.view(), sines: sines.view() }
        } else {
            RopeAngles::Computed { inverse, magnitude: frequencies.magnitude }
        };
        let mut params = RopeParams::default();
        (params.style, params.rot, params.offset) = (spec.style, Some(spec.rot), spec.offset);
        params.inverse = spec.inverse;
        if spec.given {
            params.positions = RopePositions::Given(inputs[3].view());
        } else if spec.starts.is_some() {
            params.positions = RopePositions::Starts(inputs[4].view());
        }
        let from = [heads_first(&inputs[0])?, heads_first(&inputs[1])?];
        let [mut q, mut k] = [heads_first(&outputs[0])?, heads_first(&outputs[1])?];
        if spec.in_place {
            copy_into(from[0].view(), q.view_mut())?;
            copy_into(from[1].view(), k.view_mut())?;
        }
        let source = |n: usize| (!spec.in_place).then(|| from[n].view());
        let mut tensors =
            [RopeTensor { from: source(0), to: q.view_mut() }, RopeTensor { from: source(1), to: k.view_mut() }];
        Ok(launch_rope(stream, &mut tensors, &angles, &params)?)
    };
    let oracle = move |inputs: &[Array]| [0, 1].map(|n| spec.oracle(&inputs[n], spec.heads[n], &inputs[3])).to_vec();
    let elements: usize = spec.heads.iter().map(|&heads| spec.shape(heads).iter().product::<usize>()).sum();
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("rope", dtype, spec.name(), 3.0 * elements as f64, call)
}
