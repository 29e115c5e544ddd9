//! What was measured, as a table and as JSON, beside what we aim for.

use std::path::Path;

use serde_json::json;

use crate::{Error, is_real};

/// What there was before the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Cold,
    /// The cache of a run before.
    Warm,
    /// A pack, and no compiler.
    Pack,
}

impl Mode {
    /// All, in an order in which each finds what it needs.
    pub const ALL: [Mode; 3] = [Mode::Cold, Mode::Warm, Mode::Pack];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Cold => "cold",
            Mode::Warm => "warm",
            Mode::Pack => "pack",
        }
    }
}

/// One program on one device.
#[derive(Clone, Debug)]
pub struct Row {
    pub program: &'static str,
    pub device: String,
    pub mode: Mode,
    /// From the start of the process to its first result.
    pub seconds: f64,
    /// Kernels compiled until then.
    pub compiled: usize,
    /// What compilers took for them; those that ran at the same time count each.
    pub compiler_seconds: f64,
    /// Most memory resident, compilers not counted; `None` where the system does not say.
    pub peak_mib: Option<f64>,
    /// What it computed.
    pub result: String,
}

/// Seconds that we aim for: on two idle cores for emulated devices, for Llama-1B's shape on a card.
fn aim(row: &Row) -> Option<f64> {
    match (row.program, row.mode, is_real(&row.device)) {
        ("matmul", Mode::Cold, _) => Some(1.5),
        ("matmul", Mode::Pack, _) => Some(0.2),
        ("demo", Mode::Cold, _) => Some(12.0),
        ("demo", Mode::Pack, _) => Some(1.5),
        ("llama", Mode::Cold, true) => Some(15.0),
        ("llama", Mode::Warm, true) => Some(2.0),
        _ => None,
    }
}

/// The run in the middle by its time.
pub fn median(mut rows: Vec<Row>) -> Row {
    rows.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    rows.swap_remove(rows.len() / 2)
}

pub fn print_head() {
    println!(
        "{:<8} {:<18} {:<5} {:>9} {:>6} {:>8} {:>11} {:>9}  result",
        "program", "device", "mode", "s", "aim", "kernels", "compiler s", "peak MiB"
    );
}

pub fn print_row(row: &Row) {
    let aim = aim(row).map_or_else(String::new, |aim| format!("{aim:.1}"));
    let peak = row.peak_mib.map_or_else(String::new, |mib| format!("{mib:.0}"));
    println!(
        "{:<8} {:<18} {:<5} {:>9.2} {:>6} {:>8} {:>11.2} {:>9}  {}",
        row.program,
        row.device,
        row.mode.name(),
        row.seconds,
        aim,
        row.compiled,
        row.compiler_seconds,
        peak,
        row.result
    );
}

/// Writes all rows.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), Error> {
    let row = |row: &Row| {
        json!({
            "program": row.program, "device": row.device, "mode": row.mode.name(), "seconds": row.seconds,
            "aim_seconds": aim(row), "compiled": row.compiled, "compiler_seconds": row.compiler_seconds,
            "peak_mib": row.peak_mib, "result": row.result,
        })
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let rows: Vec<_> = rows.iter().map(row).collect();
    std::fs::write(path, serde_json::to_string_pretty(&rows)?)?;
    Ok(())
}
