//! What the emulator counts of an operator, over all its launches.

use std::ops::AddAssign;

use rocfire_emulator::{Pipe, Profile};

/// Sums over launches and all their workgroups: clocks are those of one compute unit that does everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Clocks of the matrix pipe.
    matrix: u64,
    /// Clocks of the vector pipe, matrix instructions outside their shadow included.
    valu: u64,
    /// Clocks of LDS with conflicts.
    lds: u64,
    /// Clocks of the address and cache pipeline.
    vmem: u64,
    /// Turns of waves, one for every instruction.
    issue: u64,
    /// Instructions of LDS.
    lds_instructions: u64,
    /// Matrix instructions.
    matrix_instructions: u64,
    /// `s_waitcnt`.
    waits: u64,
    /// Bytes that lanes ask of device memory.
    requested: u64,
    /// Bytes of the lines that are read or written, each once a launch.
    lines: u64,
}

/// The figures that are compared, by what a table calls them.
pub const FIGURES: [&str; 9] = [
    "matrix clocks",
    "VALU clocks",
    "LDS clocks",
    "VMEM clocks",
    "issue turns",
    "LDS instructions",
    "waits a matrix instruction",
    "bytes asked for",
    "bytes of lines",
];

impl Counts {
    /// The figures, as [`FIGURES`] names them.
    pub fn figures(&self) -> [f64; FIGURES.len()] {
        let waits =
            if self.matrix_instructions == 0 { 0.0 } else { self.waits as f64 / self.matrix_instructions as f64 };
        [
            self.matrix as f64,
            self.valu as f64,
            self.lds as f64,
            self.vmem as f64,
            self.issue as f64,
            self.lds_instructions as f64,
            waits,
            self.requested as f64,
            self.lines as f64,
        ]
    }
}

impl AddAssign<&Profile> for Counts {
    fn add_assign(&mut self, profile: &Profile) {
        let clocks = profile.clocks();
        self.matrix += clocks.matrix;
        self.valu += clocks.valu;
        self.lds += clocks.lds;
        self.vmem += clocks.vmem;
        self.issue += clocks.turns;
        self.requested += profile.counter("VMEM_REQUESTED_BYTES");
        self.lines += profile.memory_bytes().0;
        self.matrix_instructions += profile.counter("SQ_INSTS_MFMA");
        for row in &profile.rows {
            let times = row.tally.executions;
            if row.pipe() == Some(Pipe::Lds) {
                self.lds_instructions += times;
            } else if row.pipe().is_none() && profile.text(row).starts_with("s_waitcnt") {
                self.waits += times;
            }
        }
    }
}
