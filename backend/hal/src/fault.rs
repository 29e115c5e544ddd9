//! What is kept of launches, to say which one failed and what came before it.

use std::fmt::{self, Write as _};

use crate::Function;
use crate::command::{Action, Command};

/// Launches that are remembered.
const RING: usize = 16;
/// Bytes of a launch's arguments that are remembered: more than any kernel of ours takes. What is longer is cut.
const ARG_BYTES: usize = 512;

/// A launch that failed after it was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The operator.
    pub op: &'static str,
    /// The kernel.
    pub kernel: String,
    /// Grid and block, and the arguments as 64-bit words in hexadecimal.
    pub launch: String,
    /// What the driver said: for the emulator, program counter, instruction, workgroup and lane.
    pub message: String,
    /// The launches before it, newest first, one a line.
    pub history: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed in kernel {} ({}): {}{}", self.op, self.kernel, self.launch, self.message, self.history)
    }
}

/// One remembered launch.
struct Entry {
    op: &'static str,
    /// `None` for a vendor's library.
    function: Option<Function>,
    library: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    args: [u8; ARG_BYTES],
    args_bytes: usize,
}

/// The last launches of a stream. Recording one allocates nothing.
pub(crate) struct LaunchHistory {
    entries: Vec<Entry>,
    next: usize,
}

impl LaunchHistory {
    pub fn new() -> LaunchHistory {
        LaunchHistory { entries: Vec::with_capacity(RING), next: 0 }
    }

    /// Remembers a kernel or a product.
    pub fn record(&mut self, command: &Command<'_>) {
        let entry = self.next_entry();
        (entry.op, [entry.grid, entry.block]) = (command.label, command.geometry());
        match command.action {
            Action::Kernel { function, args, .. } => {
                entry.function = Some(function.clone());
                entry.keep(args);
            }
            Action::Product { plan, addresses } => {
                (entry.function, entry.library) = (None, plan.library());
                entry.keep(addresses.words().map(u64::to_le_bytes).as_flattened());
            }
            Action::Copy { .. } | Action::Fill { .. } | Action::Upload { .. } | Action::Wait { .. } => {
                unreachable!("only kernels and products are launches")
            }
        }
    }

    fn next_entry(&mut self) -> &mut Entry {
        if self.entries.len() < RING {
            self.entries.push(Entry::EMPTY);
        }
        let at = self.next;
        self.next = (self.next + 1) % RING;
        &mut self.entries[at]
    }

    /// The fault of the newest launch.
    pub fn fault(&self, message: String) -> Fault {
        let mut newest_first = self.newest_first();
        let entry = newest_first.next().expect("a launch is recorded before it can fail");
        let mut history = String::new();
        describe_all(&mut history, newest_first);
        let mut launch = String::new();
        entry.describe_shape(&mut launch);
        Fault { op: entry.op, kernel: entry.kernel().to_owned(), launch, message, history }
    }

    /// All of them, newest first, one a line; empty if there was none.
    pub fn history(&self) -> String {
        let mut text = String::new();
        describe_all(&mut text, self.newest_first());
        text
    }

    fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        let held = self.entries.len();
        (1..=held).map(move |back| &self.entries[(self.next + RING - back) % RING % held.max(1)])
    }
}

impl Entry {
    const EMPTY: Entry =
        Entry { op: "", function: None, library: "", grid: [0; 3], block: [0; 3], args: [0; ARG_BYTES], args_bytes: 0 };

    fn keep(&mut self, args: &[u8]) {
        self.args_bytes = args.len().min(ARG_BYTES);
        self.args[..self.args_bytes].copy_from_slice(&args[..self.args_bytes]);
    }

    fn kernel(&self) -> &str {
        self.function.as_ref().map_or(self.library, |function| function.name())
    }

    fn describe_shape(&self, text: &mut String) {
        let _ = write!(text, "grid {:?}, block {:?}, arguments", self.grid, self.block);
        for word in self.args[..self.args_bytes].chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let _ = write!(text, " {:#x}", u64::from_le_bytes(bytes));
        }
    }
}

fn describe_all<'a>(text: &mut String, entries: impl Iterator<Item = &'a Entry>) {
    for (i, entry) in entries.enumerate() {
        text.push_str(if i == 0 { "\nlaunches before it, newest first:\n  " } else { "\n  " });
        let _ = write!(text, "{}: {} ", entry.op, entry.kernel());
        entry.describe_shape(text);
    }
}
