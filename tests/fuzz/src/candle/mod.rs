//! Candle: its tensor operators on its CPU device and on ours.
//!
//! Candle has no bools: `u8` stands for them, and integers are `u32` and `i64`.

mod gradient;
mod known;
mod layer;
mod paste;
mod print;
mod quantised;
mod tensor;

use std::sync::LazyLock;

use candle_core::{Device, Tensor};
use rocfire_hal::DType;

use crate::data::Data;
use crate::machine::{Family, Machine, Types};
use crate::program::{Meta, Params, Program};
use crate::table::{Kind, Row};

pub use gradient::CandleGradients;

/// Operators of one file: rows, and the function that calls them.
macro_rules! operators {
    ($p:ident, $device:ident; $($name:ident ($($argument:ident : $kind:ident),*) -> ($($result:ident),+)
        $rule:expr, $numerics:expr => $body:expr;)*) => {
        #[allow(unused_imports)]
        use $crate::table::{Kind, Numerics::*, Row, Rule};
        #[allow(unused_imports)]
        use $crate::candle::paste::*;

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

        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy)]
        enum Operator { $($name),* }
        const ORDER: &[Operator] = &[$(Operator::$name),*];

        /// Calls one of them.
        #[allow(unused_variables)]
        pub(crate) fn call(
            row: usize,
            operands: &[candle_core::Tensor],
            $p: &$crate::program::Params,
            $device: &candle_core::Device,
        ) -> candle_core::Result<candle_core::Tensor> {
            let mut operands = operands.iter();
            match ORDER[row] {
                $(Operator::$name => {
                    $(let $argument = operands.next().expect("an operand for each argument");)*
                    $body
                })*
            }
        }
    };
}
pub(crate) use operators;

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| [tensor::ROWS, layer::ROWS, quantised::ROWS].concat());

/// Every operator.
pub fn rows() -> &'static [Row] {
    &ROWS
}

/// Calls a row of the whole table.
fn called(row: usize, operands: &[Tensor], params: &Params, device: &Device) -> candle_core::Result<Tensor> {
    let (of_tensors, of_layers) = (tensor::ROWS.len(), tensor::ROWS.len() + layer::ROWS.len());
    match row {
        row if row < of_tensors => tensor::call(row, operands, params, device),
        row if row < of_layers => layer::call(row - of_tensors, operands, params, device),
        row => quantised::call(row - of_layers, operands, params, device),
    }
}

/// Candle on a device.
pub struct On {
    /// Handles of one device: tensors of a program are made through each of them.
    handles: Vec<Device>,
    /// Whether each launch is waited for, so that none joins another.
    settles: bool,
}

impl On {
    /// A handle, by what is made through it: the same for the same program, whoever runs it.
    fn handle(&self, of: usize) -> &Device {
        &self.handles[of % self.handles.len()]
    }

    /// Waits for a call where each is waited for.
    fn settle(&self, params: &Params) {
        if self.settles {
            self.handle(params.size).synchronize().unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

impl Machine for On {
    type Value = Tensor;

    fn input(&self, data: &Data) -> Tensor {
        let handle = self.handle(data.bits.iter().fold(data.bits.len(), |sum, bits| sum.wrapping_add(*bits as usize)));
        let made = Tensor::from_raw_buffer(&data.bytes(), paste::theirs(data.dtype), &data.shape, handle);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    fn call(&self, row: usize, operands: Vec<Tensor>, params: &Params) -> Vec<Tensor> {
        let made = called(row, &operands, params, self.handle(params.size));
        let made = made.unwrap_or_else(|error| panic!("{error}"));
        self.settle(params);
        vec![made]
    }

    fn meta(&self, value: &Tensor) -> Meta {
        let dtype = paste::ours(value.dtype());
        let kind = match dtype {
            DType::U8 => Kind::Bool,
            dtype if dtype.is_float() => Kind::Float,
            _ => Kind::Int,
        };
        Meta { kind, dtype, shape: value.dims().to_vec() }
    }

    fn read(&self, value: Tensor) -> Data {
        let Meta { dtype, shape, .. } = self.meta(&value);
        Data::of_bytes(dtype, &shape, &paste::bytes(&value).unwrap_or_else(|error| panic!("{error}")))
    }
}

/// Common types first and more often.
const FLOATS: [DType; 7] = [DType::F32, DType::F32, DType::F16, DType::BF16, DType::F32, DType::F64, DType::BF16];
const INTS: [DType; 2] = [DType::U32, DType::I64];

fn types() -> Types {
    Types { floats: &FLOATS, ints: &INTS, truth: DType::U8, indices: &[DType::I64, DType::U32] }
}

/// Its products on a GPU take fewer layouts than on the CPU.
fn is_its_own_refusal(said: &str) -> bool {
    said.starts_with("matmul is only supported for contiguous tensors")
}

/// Candle on its CPU device and on ours.
pub struct Candle {
    reference: On,
    separate: On,
    joined: On,
}

impl Candle {
    /// On the device that `ROCFIRE_DEVICE` names.
    ///
    /// # Errors
    /// What opening the device says.
    pub fn new() -> candle_core::Result<Candle> {
        let [device, other] = [rocfire_candle::device()?.device, rocfire_candle::device()?.device];
        Ok(Candle {
            reference: On { handles: vec![Device::Cpu], settles: false },
            separate: On { handles: vec![device.clone()], settles: true },
            joined: On { handles: vec![device, other], settles: false },
        })
    }
}

impl Family for Candle {
    type Reference = On;
    type Separate = On;
    type Joined = On;

    fn name(&self) -> &'static str {
        "candle"
    }

    fn rows(&self) -> &'static [Row] {
        &ROWS
    }

    fn types(&self) -> Types {
        types()
    }

    fn reference(&self) -> &On {
        &self.reference
    }

    fn separate(&self) -> &On {
        &self.separate
    }

    fn joined(&self) -> &On {
        &self.joined
    }

    fn known(
        &self,
        row: &Row,
        params: &Params,
        operands: &[Meta],
        values: &dyn Fn() -> Vec<Data>,
    ) -> Option<&'static str> {
        known::reason(row, params, operands, values)
    }

    fn differs_together(&self, _row: &Row) -> bool {
        false
    }

    fn is_its_own_refusal(&self, said: &str) -> bool {
        is_its_own_refusal(said)
    }

    fn print(&self, program: &Program, name: &str) -> String {
        print::test(program, &ROWS, name, print::Calls::Operators)
    }
}
