//! What is started, and how its first result is told from the rest of what it prints.

use std::path::Path;
use std::process::Command;

use rocfire_hal::{DType, Device, DeviceId, Tensor};
use rocfire_kernels::gemm::{GemmParams, gemm};

use crate::Error;

/// Rows, columns and depth of the product.
const SHAPE: [usize; 3] = [256, 256, 256];
/// What the line with a product's result begins with.
const PRODUCT: &str = "first product ";

/// A program whose first result is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A product of matrices through the library alone.
    Product,
    /// The first training step of the demo, by Burn.
    Demo,
    /// The first token of Llama's shape, by Candle.
    Llama,
}

impl Program {
    const ALL: [Program; 3] = [Program::Product, Program::Demo, Program::Llama];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Program::Product => "matmul",
            Program::Demo => "demo",
            Program::Llama => "llama",
        }
    }

    /// Those of these names; all, if there are none.
    pub fn named(names: &[String]) -> Result<Vec<Program>, Error> {
        if names.is_empty() {
            return Ok(Program::ALL.to_vec());
        }
        let named = |name: &String| {
            let found = Program::ALL.into_iter().find(|program| program.name() == name);
            found.ok_or_else(|| format!("{name:?} is none of matmul, demo, llama").into())
        };
        names.iter().map(named).collect()
    }

    /// What has to be built for it: the binary, and arguments of `cargo build`. `None` for this program itself.
    pub fn binary(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Program::Product => None,
            Program::Demo => Some(("rocfire", &["--bin", "rocfire", "--features", "rocfire/demo"])),
            Program::Llama => Some(("candle-models", &["--bin", "candle-models"])),
        }
    }

    /// How it is started; `folder` has the binaries. An emulated device is asked for less.
    pub fn command(self, folder: &Path, emulated: bool) -> Result<Command, Error> {
        let mut command = match self.binary() {
            None => Command::new(std::env::current_exe()?),
            Some((name, _)) => Command::new(folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))),
        };
        match self {
            Program::Product => command.arg("--child"),
            Program::Demo => command.args(["demo", "--steps", "1", "--no-plot", "--no-install", "--out"]),
            Program::Llama => command.args(["first-token", "--dtype", if emulated { "f32" } else { "bf16" }]),
        };
        if self == Program::Llama && emulated {
            command.args(["--layers", "2", "--narrower", "8", "--context", "16"]);
        }
        Ok(command)
    }

    /// What a printed line says of the first result, if it is the line that has it.
    pub fn result(self, line: &str) -> Option<String> {
        let rest = match self {
            Program::Product => line.strip_prefix(PRODUCT)?,
            Program::Demo => line.strip_prefix("step 1/1: ")?.split(',').next()?,
            Program::Llama => line.strip_prefix("first token ")?,
        };
        Some(rest.trim().to_owned())
    }
}

/// A product of small integers, every element compared.
pub fn product() -> Result<(), Error> {
    let [m, n, k] = SHAPE;
    let element = |index: usize, salt: usize| ((index * 7 + salt) % 17) as f32 - 8.0;
    let a: Vec<f32> = (0..m * k).map(|index| element(index, 3)).collect();
    let b: Vec<f32> = (0..k * n).map(|index| element(index, 11)).collect();
    let device = Device::get(DeviceId::from_env()?)?;
    let tensor = |values: &[f32], shape: [usize; 2]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::from_bytes(&device, &shape, DType::F32, &bytes)
    };
    let (a_device, b_device) = (tensor(&a, [m, k])?, tensor(&b, [k, n])?);
    let mut c_device = Tensor::empty(&device, &[m, n], DType::F32)?;
    gemm(device.stream(), a_device.view(), b_device.view(), c_device.view_mut(), &GemmParams::default())?;
    let c = c_device.to_bytes()?;
    let mut sum = 0.0;
    for (index, word) in c.chunks_exact(4).enumerate() {
        let got = f32::from_le_bytes(word.try_into()?);
        let (row, column) = (index / n, index % n);
        let expected: f32 = (0..k).map(|depth| a[row * k + depth] * b[depth * n + column]).sum();
        if got != expected {
            return Err(format!("wrong at row {row}, column {column}: {got}, expected {expected}").into());
        }
        sum += f64::from(got);
    }
    println!("{PRODUCT}{sum}");
    Ok(())
}
