//! A program: inputs, calls, reads in between, and tensors that are dropped.

use std::fmt::Write;

use rocfire_hal::DType;

use crate::data::Data;
use crate::table::{Kind, Row};
use crate::values::Input;

/// The number of a tensor, by age.
pub type Id = usize;

/// A step.
// A program has some tens of them: a box for each call would save nothing that counts.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A tensor from the host.
    Input(Input),
    /// A tensor from the host, number by number: what a shrunk program takes in place of what was computed.
    Given(Data),
    /// An operator.
    Call(Call),
    /// A tensor is read while the program runs.
    Read(Id),
    /// A tensor is not used again.
    Drop(Id),
}

/// An operator and what it is called with.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its row in the family's table.
    pub row: usize,
    /// Tensors, by number.
    pub operands: Vec<Id>,
    /// Everything else.
    pub params: Params,
    /// How many tensors it makes.
    pub results: usize,
}

/// A number that an operator takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// For floats.
    Float(f64),
    /// For integers.
    Int(i64),
    /// For bools.
    Bool(bool),
}

/// Windows of convolutions and pools, axis by axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Extents.
    pub kernel: [usize; 3],
    /// From one to the next.
    pub stride: [usize; 3],
    /// Added at both ends.
    pub padding: [usize; 3],
    /// Between elements of a window.
    pub dilation: [usize; 3],
    /// Added at the end of what a transposed convolution makes.
    pub extra: [usize; 3],
    /// Of channels.
    pub groups: usize,
}

/// Parameters; which of them count is the row's rule.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // Their meaning is that of the rule that fills them in.
pub struct Params {
    pub axis: usize,
    pub axis2: usize,
    pub size: usize,
    pub step: usize,
    pub flag: bool,
    pub flag2: bool,
    pub scalar: Number,
    pub scalar2: Number,
    pub dtype: DType,
    pub index: DType,
    pub shape: Vec<usize>,
    pub axes: Vec<usize>,
    pub slices: Vec<(isize, Option<isize>, isize)>,
    pub pads: Vec<(usize, usize)>,
    pub window: Window,
    pub scheme: usize,
}

/// How many schemes of quantised tensors [`Params::scheme`] numbers.
pub const SCHEMES: usize = 11;

impl Default for Params {
    fn default() -> Params {
        Params {
            axis: 0,
            axis2: 0,
            size: 0,
            step: 1,
            flag: false,
            flag2: false,
            scalar: Number::Int(0),
            scalar2: Number::Int(0),
            dtype: DType::F32,
            index: DType::I64,
            shape: Vec::new(),
            axes: Vec::new(),
            slices: Vec::new(),
            pads: Vec::new(),
            window: Window {
                kernel: [1; 3],
                stride: [1; 3],
                padding: [0; 3],
                dilation: [1; 3],
                extra: [0; 3],
                groups: 1,
            },
            scheme: 0,
        }
    }
}

/// What is known of a tensor of a program before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Floats, integers, bools.
    pub kind: Kind,
    /// Its type.
    pub dtype: DType,
    /// Its extents.
    pub shape: Vec<usize>,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// In order.
    pub steps: Vec<Step>,
    /// Of every tensor, by number.
    pub metas: Vec<Meta>,
    /// How it runs the second time.
    pub way: Way,
}

/// Who runs a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The thread that asks.
    #[default]
    Straight,
    /// One thread to the step, another from there, which takes the tensors over.
    Handed(usize),
    /// So many threads at once, each all of it.
    Together(usize),
    /// Two threads at once, each all of it, the second of them on another device or by another handle to this one.
    Beside,
}

impl Program {
    /// How many calls there are.
    pub fn calls(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Call(_))).count()
    }

    /// The first tensor that each step makes.
    pub fn firsts(&self) -> Vec<Id> {
        let mut next = 0;
        let made = |step: &Step| match step {
            Step::Input(_) | Step::Given(_) => 1,
            Step::Call(call) => call.results,
            Step::Read(_) | Step::Drop(_) => 0,
        };
        self.steps
            .iter()
            .map(|step| {
                next += made(step);
                next - made(step)
            })
            .collect()
    }

    /// What the program is, in a line or a few.
    pub fn summary(&self, rows: &[Row]) -> String {
        let mut text = String::new();
        for (step, first) in self.steps.iter().zip(self.firsts()) {
            let line = match step {
                Step::Input(input) => format!("t{first} = {} {:?} {:?}", input.dtype, input.shape, input.filling),
                Step::Given(data) => format!("t{first} = {} {:?}", data.dtype, data.shape),
                Step::Call(call) => {
                    let operands: Vec<String> = call.operands.iter().map(|id| format!("t{id}")).collect();
                    let result = self.metas.get(first);
                    let shape = result.map_or(String::new(), |meta| format!(": {} {:?}", meta.dtype, meta.shape));
                    format!("t{first} = {}({}){shape}", rows[call.row].name, operands.join(", "))
                }
                Step::Read(id) => format!("read t{id}"),
                Step::Drop(id) => format!("drop t{id}"),
            };
            writeln!(text, "  {line}").expect("writing to a string cannot fail");
        }
        text
    }
}
