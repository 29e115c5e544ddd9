//! The file that launches go to as they are resolved: a list in JSON, closed after every write.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{TimedLaunch, report};

/// Devices that wrote to traces so far: each is a process of its trace.
static PROCESSES: AtomicU32 = AtomicU32::new(0);

/// Traces that this process began: a second device goes on behind the first. Held while one of them is written.
static BEGUN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A device's part of a trace.
pub(super) struct TraceFile {
    file: File,
    path: PathBuf,
    process: u32,
}

impl TraceFile {
    /// Begins the trace of that path, or goes on with it if this process has begun it.
    pub fn open(path: PathBuf, device: &str, arch: &str) -> std::io::Result<TraceFile> {
        let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
        let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
        if !begun.contains(&path) {
            std::fs::write(&path, report::TRACE_OPENING.to_owned() + report::TRACE_CLOSING)?;
            begun.push(path.clone());
        }
        let mut file = File::options().read(true).write(true).open(&path)?;
        add(&mut file, &[report::trace_device(process, device, arch)])?;
        Ok(TraceFile { file, path, process })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds launches.
    pub fn append(&mut self, launches: &[TimedLaunch]) -> std::io::Result<()> {
        let lines: Vec<String> = launches.iter().map(|launch| report::trace_line(self.process, launch)).collect();
        let _begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut self.file, &lines)
    }
}

/// Puts lines in the place of the list's end, and the end behind them, in one write: whoever looks in between finds a whole list.
fn add(file: &mut File, lines: &[String]) -> std::io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let end = file.seek(SeekFrom::End(-(report::TRACE_CLOSING.len() as i64)))?;
    let is_first = end == report::TRACE_OPENING.len() as u64;
    let separator = if is_first { "" } else { report::TRACE_SEPARATOR };
    let text = format!("{separator}{}{}", lines.join(report::TRACE_SEPARATOR), report::TRACE_CLOSING);
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Category, read_trace};

    fn launch(operator: &str) -> TimedLaunch {
        TimedLaunch {
            operator: operator.to_owned(),
            kernel: operator.to_owned(),
            stream: crate::StreamName::Compute,
            category: Category::Gemm,
            shape: vec![1],
            bytes: 2,
            flops: 3,
            grid: [1; 3],
            block: [64, 1, 1],
            start_us: 0.5,
            duration_us: 1.5,
        }
    }

    #[test]
    fn a_trace_is_a_closed_list_after_every_write() {
        let path = std::env::temp_dir().join(format!("rocfire-trace-{}.json", std::process::id()));
        let events = || -> usize {
            let text = std::fs::read_to_string(&path).unwrap();
            read_trace(&text).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap().as_array().unwrap().len()
        };
        let mut first = TraceFile::open(path.clone(), "first", "gfx942").unwrap();
        assert_eq!(events(), 1);
        first.append(&[launch("a"), launch("b")]).unwrap();
        assert_eq!(events(), 3);
        // A second device of the process goes on with the file, and the first goes on behind it.
        let mut second = TraceFile::open(path.clone(), "second", "gfx942").unwrap();
        assert_eq!(events(), 4);
        second.append(&[launch("c")]).unwrap();
        first.append(&[]).unwrap();
        first.append(&[launch("d")]).unwrap();
        assert_eq!(events(), 6);
        let timelines = read_trace(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let operators = |at: usize| -> Vec<&str> {
            timelines[at].launches.iter().map(|launch: &TimedLaunch| launch.operator.as_str()).collect()
        };
        assert_eq!((operators(0), operators(1)), (vec!["a", "b", "d"], vec!["c"]));
        std::fs::remove_file(&path).unwrap();
    }
}
