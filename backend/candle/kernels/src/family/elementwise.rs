//! Elementwise kernels as graphs, as Candle defines them, and those that fill memory or copy rows.

use cudarc::rocfire::Argument::{Info, Read, Write};
use cudarc::rocfire::{Extent, KernelSpec, Launch};
use rocfire_fusion::{Binary, Compare, Graph, Scalar, Unary, Value};
use rocfire_hal::DType;

use super::{INT, SIZE, Words, device, kernel, moved, scalar, template};
use crate::each::{self, Elements, HEAD};
use crate::geometry;
use crate::table::{Entry, Family};

type Template = (&'static str, &'static str);

const CONST_SET: Template = template!("info.h" "each.h" => "const_set.hip");
const COPY2D: Template = template!("info.h" "each.h" => "copy2d.hip");

/// What an elementwise kernel computes, and which of its arguments are what.
#[derive(Debug)]
pub(crate) struct Elementwise {
    /// One output of some inputs and scalars.
    pub(crate) graph: Graph,
    /// The arguments that are the graph's inputs and scalars, with their types, and the one that is its output.
    pub(crate) operands: Vec<(usize, DType)>,
    pub(crate) numbers: Vec<(usize, DType)>,
    pub(crate) result: usize,
    /// The output's type.
    pub(crate) to: DType,
    /// Bytes of the widest element that is read or written.
    pub(crate) widest: usize,
    text: String,
}

impl Elementwise {
    /// `None` for an entry that is no such kernel.
    pub(crate) fn new(entry: &'static Entry) -> Option<Elementwise> {
        let graph = graph(entry)?;
        // Candle puts one number before the addresses, and two behind them.
        let (inputs, scalars) = (graph.inputs().count(), graph.scalars().count());
        let first = if scalars == 1 { 4 } else { 3 };
        let (result, numbers) = (first + inputs, if scalars == 1 { 3 } else { first + inputs + 1 });
        let operands: Vec<_> = (first..).zip(graph.inputs().map(|(dtype, _)| dtype)).collect();
        let numbers: Vec<_> = (numbers..).zip(graph.scalars()).collect();
        let to = graph.dtype(*graph.outputs().first()?);
        let widest = operands.iter().map(|operand| operand.1.size_bytes()).fold(to.size_bytes(), usize::max);
        let mut elementwise = Elementwise { graph, operands, numbers, result, to, widest, text: String::new() };
        elementwise.text = elementwise.text(&entry.name);
        Some(elementwise)
    }

    /// The kernel alone, in a namespace of its own: there are texts of several.
    fn text(&self, name: &str) -> String {
        let mut fields = vec![(0, "u64 ".to_owned(), "count".to_owned()), (1, "u64 ".to_owned(), "axes0".to_owned())];
        fields.push((self.result, format!("{}* ", device(self.to)), "y0".to_owned()));
        let operands = self.operands.iter().enumerate();
        fields.extend(operands.map(|(at, &(slot, of))| (slot, format!("const {}* ", device(of)), format!("x{at}"))));
        let numbers = self.numbers.iter().enumerate();
        fields.extend(numbers.map(|(at, &(slot, of))| (slot, format!("{} ", device(of)), format!("p{at}"))));
        fields.push((2, "const Info& ".to_owned(), "info0".to_owned()));
        fields.sort();
        let declared: Vec<String> = fields.iter().map(|(_, of, name)| format!("{of}{name}")).collect();
        let names: Vec<&str> = fields.iter().map(|field| field.2.as_str()).collect();
        let parameters = declared.join(", ").replace("const Info&", "CANDLE_ARGUMENT Info");
        let kernel = each::kernel(&parameters, &format!("Args a = {{{}}};", names.join(", ")));
        let fields = declared.iter().map(|field| format!("    {field};\n")).collect();
        let places = (1..=self.operands.len()).map(|operand| Some((0, operand))).collect();
        let text = Elements { graph: &self.graph, stored: 1, fields, places, may_be_dense: true }.text();
        format!("{}namespace of_{name} {{\n{text}{kernel}}}\n", *HEAD)
    }

    /// The kernel that Candle launches.
    pub(super) fn spec(&'static self) -> KernelSpec {
        let mut slots = vec![(self.result, Write)];
        slots.extend(self.operands.iter().map(|&(slot, _)| (slot, Read)));
        slots.extend(self.numbers.iter().map(|&(slot, dtype)| (slot, scalar(dtype))));
        slots.sort_by_key(|slot| slot.0);
        let arguments: Vec<_> = [SIZE, SIZE, Info].into_iter().chain(slots.into_iter().map(|slot| slot.1)).collect();
        dense_result(per_lane(kernel(("each.hip", &self.text), &arguments), self.widest), self.to.size_bytes())
    }
}

/// What the kernel of an entry computes. 16-bit floats are computed with in f32 and rounded once.
fn graph(entry: &'static Entry) -> Option<Graph> {
    let words = Words(&entry.words);
    let of = words.dtype_of_last()?;
    let wide = |graph: &mut Graph, value: Value| match of {
        DType::F16 | DType::BF16 => graph.cast(value, DType::F32),
        _ => value,
    };
    let mut graph = Graph::new("candle");
    let g = &mut graph;
    let result = match entry.family {
        Family::Copy => g.input(of),
        Family::Cast => {
            let x = g.input(words.dtype(0));
            g.cast(x, of)
        }
        Family::Where => {
            let (id, a, b) = (g.input(words.dtype(0)), g.input(of), g.input(of));
            let zero = g.constant(words.dtype(0), 0);
            let is_chosen = g.compare(Compare::Ne, id, zero);
            g.select(is_chosen, a, b)
        }
        Family::Binary | Family::Compare => {
            let [a, b] = [g.input(of), g.input(of)];
            let [a, b] = [a, b].map(|value| wide(g, value));
            match Compare::named(words.word(0)) {
                Some(op) => {
                    let holds = g.compare(op, a, b);
                    g.cast(holds, DType::U8)
                }
                None => binary(g, words.word(0), a, b),
            }
        }
        Family::Affine | Family::Unary | Family::UnaryParameter => {
            let x = g.input(of);
            let x = wide(g, x);
            let number = |g: &mut Graph| {
                let number = g.scalar(of);
                wide(g, number)
            };
            match words.word(0) {
                "elu" => {
                    let alpha = number(g);
                    elu(g, x, alpha)
                }
                "powf" => {
                    let power = number(g);
                    g.binary(Binary::Pow, x, power)
                }
                word if words.has(1) => unary(g, word, x),
                _ => {
                    let (factor, summand) = (number(g), number(g));
                    let scaled = g.binary(Binary::Mul, x, factor);
                    g.binary(Binary::Add, scaled, summand)
                }
            }
        }
        _ => return None,
    };
    let result = match entry.family {
        Family::Compare => result,
        _ if g.dtype(result) == of => result,
        _ => g.cast(result, of),
    };
    g.output(result);
    Some(graph)
}

fn unary(g: &mut Graph, word: &str, x: Value) -> Value {
    let of = g.dtype(x);
    let number = |g: &mut Graph, number: f64| g.constant(of, number);
    let (zero, one) = (number(g, 0.0), number(g, 1.0));
    match word {
        // By tanh, x / 2 · (1 + tanh(u)), as x · logistic(2 u), where nothing cancels.
        "gelu" => {
            let (cubic, twice) =
                (number(g, 0.044715), number(g, std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::SQRT_2));
            let cube = [x, x, x].into_iter().fold(cubic, |product, x| g.binary(Binary::Mul, product, x));
            let sum = g.binary(Binary::Add, x, cube);
            let power = g.binary(Binary::Mul, twice, sum);
            let logistic = logistic(g, power);
            g.binary(Binary::Mul, x, logistic)
        }
        // x · Φ(x)
        "gelu_erf" => {
            let (half, root) = (number(g, 0.5), number(g, std::f64::consts::FRAC_1_SQRT_2));
            let (halved, scaled) = (g.binary(Binary::Mul, half, x), g.binary(Binary::Mul, x, root));
            let erf = g.unary(Unary::Erf, scaled);
            let sum = g.binary(Binary::Add, one, erf);
            g.binary(Binary::Mul, halved, sum)
        }
        // NaN gives 0, as on Candle's CPU device.
        "relu" => {
            let is_positive = g.compare(Compare::Gt, x, zero);
            g.select(is_positive, x, zero)
        }
        // Ties away from zero.
        "round" => {
            let half = number(g, 0.5);
            let size = g.unary(Unary::Abs, x);
            let whole = g.unary(Unary::Trunc, size);
            let rest = g.binary(Binary::Sub, size, whole);
            let is_up = g.compare(Compare::Ge, rest, half);
            let step = g.select(is_up, one, zero);
            let rounded = g.binary(Binary::Add, whole, step);
            g.binary(Binary::CopySign, rounded, x)
        }
        "sigmoid" => logistic(g, x),
        "silu" => {
            let negative = g.unary(Unary::Neg, x);
            let power = g.unary(Unary::Exp, negative);
            let sum = g.binary(Binary::Add, one, power);
            g.binary(Binary::Div, x, sum)
        }
        "sqr" => g.binary(Binary::Mul, x, x),
        word => g.unary(Unary::named(word).expect("names.txt has operators of fusion's or of ours"), x),
    }
}

/// 1 / (1 + exp(-x)) by the power that is at most 1, so that it is no zero where the other one is infinite.
fn logistic(g: &mut Graph, x: Value) -> Value {
    let of = g.dtype(x);
    let (zero, one) = (g.constant(of, 0.0), g.constant(of, 1.0));
    let size = g.unary(Unary::Abs, x);
    let negative = g.unary(Unary::Neg, size);
    let power = g.unary(Unary::Exp, negative);
    let is_negative = g.compare(Compare::Lt, x, zero);
    let (above, below) = (g.select(is_negative, power, one), g.binary(Binary::Add, one, power));
    g.binary(Binary::Div, above, below)
}

/// Candle's CPU device asks for the sign: 0 stays where alpha is infinite, and -0 does not.
fn elu(g: &mut Graph, x: Value, alpha: Value) -> Value {
    let of = g.dtype(x);
    let (zero, one) = (g.constant(of, 0.0), g.constant(of, 1.0));
    let sign = g.binary(Binary::CopySign, one, x);
    let is_positive = g.compare(Compare::Gt, sign, zero);
    let power = g.unary(Unary::Exp, x);
    let less = g.binary(Binary::Sub, power, one);
    let scaled = g.binary(Binary::Mul, alpha, less);
    g.select(is_positive, x, scaled)
}

fn binary(g: &mut Graph, word: &str, a: Value, b: Value) -> Value {
    let of = g.dtype(a);
    match word {
        // A divisor of 0, which on a CPU panics, gives all ones, as integer division on GPUs does.
        "div" if !of.is_float() => {
            let (zero, ones) = (g.constant(of, 0), g.constant(of, Scalar::Int(-1)));
            let is_none = g.compare(Compare::Eq, b, zero);
            let quotient = g.binary(Binary::Div, a, b);
            g.select(is_none, ones, quotient)
        }
        // The first stays unless the second is beyond it, as on Candle's CPU device: a NaN that comes first is kept, one that
        // comes second is not, and of equal zeros the first one's sign stays.
        "maximum" | "minimum" => {
            let beyond = if word == "maximum" { Compare::Lt } else { Compare::Gt };
            let is_beyond = g.compare(beyond, a, b);
            g.select(is_beyond, b, a)
        }
        word => g.binary(Binary::named(word).expect("names.txt has operators of fusion's or of ours"), a, b),
    }
}

/// How many elements a lane does is by the widest type of a kernel.
fn per_lane(spec: KernelSpec, bytes: usize) -> KernelSpec {
    spec.define("CANDLE_V", geometry::lane_elements(bytes).to_string()).with_geometry(geometry::elements(bytes))
}

/// A dense result of elements of so many bytes, as many as the first argument says; operands may be strided.
fn dense_result(spec: KernelSpec, bytes: usize) -> KernelSpec {
    fn extent<const BYTES: u64>(launch: &Launch<'_>, _: usize, is_written: bool) -> Option<Extent> {
        let row_bytes = launch.integer(0).saturating_mul(BYTES);
        is_written.then_some(Extent { rows: 1, row_bytes, stride_bytes: row_bytes })
    }
    spec.with_extent(match bytes {
        1 => extent::<1>,
        2 => extent::<2>,
        4 => extent::<4>,
        _ => extent::<8>,
    })
}

/// `const_set_T`
pub(super) fn const_set(words: Words) -> KernelSpec {
    let dtype = words.dtype(0);
    let spec = kernel(CONST_SET, &[SIZE, SIZE, Info, scalar(dtype), Write]);
    per_lane(spec, dtype.size_bytes()).define("CANDLE_T", moved(dtype))
}

/// `copy2d_T`
pub(super) fn copy2d(words: Words) -> KernelSpec {
    let dtype = words.dtype(0);
    let spec = kernel(COPY2D, &[Read, Write, INT, INT, INT, INT]);
    let spec = spec.with_geometry(geometry::elements_asked(dtype.size_bytes()));
    let spec = spec.with_extent(match dtype.size_bytes() {
        1 => rows_of::<1>,
        2 => rows_of::<2>,
        4 => rows_of::<4>,
        _ => rows_of::<8>,
    });
    spec.define("CANDLE_V", geometry::lane_elements(dtype.size_bytes()).to_string()).define("CANDLE_T", moved(dtype))
}

/// The rows that `copy2d` reads or writes: rows, columns, and the strides of both.
fn rows_of<const BYTES: u64>(launch: &Launch<'_>, slot: usize, _: bool) -> Option<Extent> {
    let (rows, columns, stride) = (launch.integer(2), launch.integer(3), launch.integer(4 + slot));
    Some(Extent { rows, row_bytes: columns * BYTES, stride_bytes: stride * BYTES })
}
