//! Burn: its backend operators on Flex, on `Rocm` and on `Fused`.

mod float;
mod gradient;
mod int;
mod known;
mod module;
mod paste;
mod print;
mod quantised;
mod truth;

use std::sync::LazyLock;

use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, TensorData, TensorMetadata, read_sync};
use burn_flex::{Flex, FlexDevice};
use rocfire_burn::{Fused, Rocm, RocmDevice};
use rocfire_hal::{DType, Device, DeviceId};

use crate::data::Data;
use crate::machine::{Family, Machine, Types};
use crate::program::{Meta, Params, Program};
use crate::table::{Kind, Row};

pub use gradient::Gradients;

/// A tensor of a backend.
pub enum Value<B: Backend> {
    /// Floats.
    Float(FloatTensor<B>),
    /// Integers.
    Int(IntTensor<B>),
    /// Bools.
    Bool(BoolTensor<B>),
}

impl<B: Backend> Clone for Value<B> {
    fn clone(&self) -> Value<B> {
        match self {
            Value::Float(tensor) => Value::Float(tensor.clone()),
            Value::Int(tensor) => Value::Int(tensor.clone()),
            Value::Bool(tensor) => Value::Bool(tensor.clone()),
        }
    }
}

/// Operators of one file: rows, and the function that calls them.
macro_rules! operators {
    ($p:ident, $device:ident; $($name:ident ($($argument:ident : $kind:ident),*) -> ($($result:ident),+)
        $rule:expr, $numerics:expr => $body:expr;)*) => {
        #[allow(unused_imports)]
        use $crate::table::{Kind, Numerics::*, Row, Rule};
        #[allow(unused_imports)]
        use $crate::burn::paste::*;

        /// The operators.
        pub(crate) static ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            operands: &[$(Kind::$kind),*],
            arguments: &[$(stringify!($argument)),*],
            rule: $rule,
            numerics: $numerics,
            call: stringify!($body),
            results: stringify!($($result),+),
        }),*];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum Operator { $($name),* }
        const ORDER: &[Operator] = &[$(Operator::$name),*];

        /// Calls one of them.
        #[allow(unused_variables, unused_mut)]
        pub(crate) fn call<B: burn_backend::Backend>(
            row: usize,
            operands: Vec<$crate::burn::Value<B>>,
            $p: &$crate::program::Params,
            $device: &B::Device,
        ) -> Vec<$crate::burn::Value<B>> {
            let mut operands = operands.into_iter();
            match ORDER[row] {
                $(Operator::$name => {
                    $(let Some($crate::burn::Value::$kind($argument)) = operands.next() else {
                        unreachable!("an operand is of its row's kind")
                    };)*
                    let result = $body;
                    $crate::burn::results!(result, $($result),+)
                })*
            }
        }
    };
}
pub(crate) use operators;

/// A tensor or a tuple of them as values.
macro_rules! results {
    ($result:ident, $kind:ident) => {
        vec![$crate::burn::Value::$kind($result)]
    };
    ($result:ident, $first:ident, $second:ident) => {
        vec![$crate::burn::Value::$first($result.0), $crate::burn::Value::$second($result.1)]
    };
    ($result:ident, $first:ident, $second:ident, $third:ident) => {
        vec![
            $crate::burn::Value::$first($result.0),
            $crate::burn::Value::$second($result.1),
            $crate::burn::Value::$third($result.2),
        ]
    };
}
pub(crate) use results;

/// The calls of a file.
type Calls<B> = fn(usize, Vec<Value<B>>, &Params, &<B as burn_backend::BackendTypes>::Device) -> Vec<Value<B>>;

/// Calls a row of the whole table.
fn called<B: Backend>(row: usize, operands: Vec<Value<B>>, params: &Params, device: &B::Device) -> Vec<Value<B>> {
    let tables: [(&[Row], Calls<B>); 5] = [
        (float::ROWS, float::call::<B>),
        (int::ROWS, int::call::<B>),
        (truth::ROWS, truth::call::<B>),
        (module::ROWS, module::call::<B>),
        (quantised::ROWS, quantised::call::<B>),
    ];
    let mut row = row;
    for (rows, call) in tables {
        if row < rows.len() {
            return call(row, operands, params, device);
        }
        row -= rows.len();
    }
    unreachable!("a row lies in one of the tables")
}

/// A backend on its device.
pub struct On<B: Backend> {
    device: B::Device,
}

impl<B: Backend> Machine for On<B>
where
    B::Device: Sync,
{
    type Value = Value<B>;

    fn input(&self, data: &Data) -> Value<B> {
        let host = TensorData::from_bytes_vec(data.bytes(), data.shape.clone(), paste::theirs(data.dtype));
        match data.dtype {
            DType::Bool => Value::Bool(B::bool_from_data(host, &self.device)),
            dtype if dtype.is_float() => Value::Float(B::float_from_data(host, &self.device)),
            _ => Value::Int(B::int_from_data(host, &self.device)),
        }
    }

    fn call(&self, row: usize, operands: Vec<Value<B>>, params: &Params) -> Vec<Value<B>> {
        called::<B>(row, operands, params, &self.device)
    }

    fn meta(&self, value: &Value<B>) -> Meta {
        let (kind, dtype, shape) = match value {
            Value::Float(tensor) => (Kind::Float, tensor.dtype(), tensor.shape()),
            Value::Int(tensor) => (Kind::Int, tensor.dtype(), tensor.shape()),
            Value::Bool(tensor) => (Kind::Bool, tensor.dtype(), tensor.shape()),
        };
        let dtype = if kind == Kind::Bool { DType::Bool } else { paste::ours(dtype) };
        Meta { kind, dtype, shape: shape.to_vec() }
    }

    fn read(&self, value: Value<B>) -> Data {
        let is_bool = matches!(value, Value::Bool(_));
        let host = match value {
            Value::Float(tensor) => read_sync(B::float_into_data(tensor)),
            Value::Int(tensor) => read_sync(B::int_into_data(tensor)),
            Value::Bool(tensor) => read_sync(B::bool_into_data(tensor)),
        };
        let host = host.unwrap_or_else(|error| panic!("{error}"));
        // Flex names the bools that it gathers bytes.
        let dtype = if is_bool { DType::Bool } else { paste::ours(host.dtype()) };
        Data::of_bytes(dtype, &host.shape()[..], host.as_bytes())
    }
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| [float::ROWS, int::ROWS, truth::ROWS, module::ROWS, quantised::ROWS].concat());

/// Every operator.
pub fn rows() -> &'static [Row] {
    &ROWS
}

/// Common types first and more often.
const FLOATS: [DType; 7] = [DType::F32, DType::F32, DType::F16, DType::BF16, DType::F32, DType::F64, DType::F16];
const INTS: [DType; 10] = [
    DType::I64,
    DType::I32,
    DType::I64,
    DType::I32,
    DType::U8,
    DType::I16,
    DType::I8,
    DType::U32,
    DType::U16,
    DType::U64,
];

const INDICES: [DType; 2] = [DType::I64, DType::I32];

/// Burn on Flex and on ours.
pub struct Burn {
    reference: On<Flex>,
    separate: On<Rocm>,
    joined: On<Fused>,
    beside: Option<On<Fused>>,
}

impl Burn {
    /// On a device of ours.
    pub fn new(device: RocmDevice) -> Burn {
        Burn {
            reference: On { device: FlexDevice },
            separate: On { device },
            joined: On { device },
            beside: second(device).map(|device| On { device }),
        }
    }
}

/// The device of the next number, if there is one: of emulated ones there are as many as anybody asks for.
fn second(device: RocmDevice) -> Option<RocmDevice> {
    let id = device.device_id().ok()?;
    let ordinal = id.ordinal().checked_add(1)?;
    Device::get(DeviceId::new(id.driver(), id.arch(), ordinal)).ok().map(|next| RocmDevice::of(&next))
}

impl Family for Burn {
    type Reference = On<Flex>;
    type Separate = On<Rocm>;
    type Joined = On<Fused>;

    fn name(&self) -> &'static str {
        "burn"
    }

    fn rows(&self) -> &'static [Row] {
        &ROWS
    }

    fn types(&self) -> Types {
        Types { floats: &FLOATS, ints: &INTS, truth: DType::Bool, indices: &INDICES }
    }

    fn reference(&self) -> &On<Flex> {
        &self.reference
    }

    fn separate(&self) -> &On<Rocm> {
        &self.separate
    }

    fn joined(&self) -> &On<Fused> {
        &self.joined
    }

    fn beside(&self) -> Option<&On<Fused>> {
        self.beside.as_ref()
    }

    fn known(
        &self,
        row: &Row,
        params: &Params,
        operands: &[Meta],
        values: &dyn Fn() -> Vec<Data>,
    ) -> Option<&'static str> {
        if row.name.starts_with("q_") && values().iter().any(Data::has_nan) {
            return Some("Burn's own range, which is recorded in its place, is NaN where a backend's leaves NaN out");
        }
        known::reason(row, params, operands)
    }

    fn differs_together(&self, row: &Row) -> bool {
        known::is_written_out(row)
    }

    fn coarser_together(&self, row: &Row, operands: &[Data]) -> Option<f64> {
        known::coarser(row.name, row.name == "gelu_backward", operands)
    }

    fn is_its_own_refusal(&self, _said: &str) -> bool {
        false
    }

    fn print(&self, program: &Program, name: &str) -> String {
        print::test(program, &ROWS, name, print::Calls::Operators)
    }
}
