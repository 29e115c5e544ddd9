//! What a run measured, as a table and as a file that a later run compares itself with.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::op::Error;

/// A run: the card and its times.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    pub device: String,
    /// As `ROCFIRE_DEVICE` names it.
    pub id: String,
    pub driver: String,
    /// Read and written, by a copy within device memory.
    pub copy_bytes_per_second: f64,
    pub rows: Vec<Row>,
}

/// An operator on one shape.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    pub operator: String,
    pub shape: String,
    /// The median of a launch.
    pub ms: f64,
    /// From the first decile to the last, as a part of the median.
    pub spread: f64,
    /// Bytes that must be moved.
    pub bytes: f64,
    pub flops: f64,
    /// Whether the floor is the memory's bandwidth, not arithmetic.
    pub bound_by_memory: bool,
}

impl Row {
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes / self.ms * 1e3
    }

    pub fn flops_per_second(&self) -> f64 {
        self.flops / self.ms * 1e3
    }
}

impl Record {
    /// Reads what [`Record::write`] wrote.
    pub fn read(path: &Path) -> Result<Record, Error> {
        let text = std::fs::read(path).map_err(|error| format!("--against {}: {error}", path.display()))?;
        let damaged = |error| format!("--against {} is no record of bench-ops: {error}", path.display());
        Ok(serde_json::from_slice(&text).map_err(damaged)?)
    }

    /// Writes it as JSON; the folder is made.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let failed = |error| format!("cannot write {}: {error}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(std::fs::write(path, text).map_err(failed)?)
    }

    /// The same operator on the same shape.
    pub fn same(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|own| (&own.operator, &own.shape) == (&row.operator, &row.shape))
    }
}

pub fn print_head(compared: bool) {
    let was = if compared { format!(" {:>9} {:>6}", "was ms", "now") } else { String::new() };
    println!(
        "{:<26} {:<26} {:>9} {:>7} {:>9} {:>6} {:>10}{was}",
        "operator", "shape", "ms", "spread", "GB/s", "share", "GFLOP/s"
    );
}

/// A line of the table; with an older record, its time too, and now as a part of it.
pub fn print_row(row: &Row, copy: f64, older: Option<&Record>) {
    let was = match older.map(|older| older.same(row)) {
        Some(Some(was)) => format!(" {:9.4} {:5.2}x{}", was.ms, row.ms / was.ms, verdict(row, was)),
        Some(None) => format!(" {:>9} {:>6}", "-", "new"),
        None => String::new(),
    };
    println!(
        "{:<26} {:<26} {:9.4} {:6.1}% {:9.0} {:5.0}% {:10.0}{was}",
        row.operator,
        row.shape,
        row.ms,
        row.spread * 100.0,
        row.bytes_per_second() / 1e9,
        row.bytes_per_second() / copy * 100.0,
        row.flops_per_second() / 1e9,
    );
}

/// A change counts when it is larger than both spreads together.
fn verdict(now: &Row, was: &Row) -> &'static str {
    let noise = now.spread + was.spread;
    match now.ms / was.ms - 1.0 {
        change if change > noise => " slower",
        change if change < -noise => " faster",
        _ => "",
    }
}

/// How a run compares with an older one, in a line.
pub fn summary(now: &Record, older: &Record) -> String {
    let pairs: Vec<(&Row, &Row)> = now.rows.iter().filter_map(|row| Some((row, older.same(row)?))).collect();
    if pairs.is_empty() {
        return "the older run has none of these operators".to_owned();
    }
    let logarithms: f64 = pairs.iter().map(|(now, was)| (now.ms / was.ms).ln()).sum();
    let count = |word: &str| pairs.iter().filter(|(now, was)| verdict(now, was).trim() == word).count();
    let other = if now.device == older.device { "" } else { "; another card" };
    format!(
        "{} operators: {:.3} of the older times (geometric mean), {} slower and {} faster by more than the spread{other}",
        pairs.len(),
        (logarithms / pairs.len() as f64).exp(),
        count("slower"),
        count("faster"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(times: &[(&str, f64, f64)]) -> Record {
        let row = |&(operator, ms, spread): &(&str, f64, f64)| Row {
            operator: operator.to_owned(),
            shape: "8".to_owned(),
            ms,
            spread,
            bytes: 1e6,
            flops: 0.0,
            bound_by_memory: true,
        };
        let rows = times.iter().map(row).collect();
        Record { device: "card".into(), id: "hip:0".into(), driver: "7".into(), copy_bytes_per_second: 1e12, rows }
    }

    #[test]
    fn only_changes_beyond_the_spread_count() {
        let was = record(&[("a", 1.0, 0.02), ("b", 1.0, 0.02), ("c", 1.0, 0.02), ("gone", 1.0, 0.0)]);
        let now = record(&[("a", 1.1, 0.02), ("b", 1.03, 0.02), ("c", 0.5, 0.02), ("new", 1.0, 0.0)]);
        let text = summary(&now, &was);
        assert!(text.starts_with("3 operators: 0.827 of the older times"), "{text}");
        assert!(text.ends_with("1 slower and 1 faster by more than the spread"), "{text}");
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = std::env::temp_dir().join(format!("bench-ops-{}", std::process::id()));
        let path = folder.join("deep/ops.json");
        let record = record(&[("a", 1.25, 0.5)]);
        record.write(&path).unwrap();
        let read = Record::read(&path).unwrap();
        assert_eq!((read.rows[0].ms, read.rows[0].operator.as_str()), (1.25, "a"));
        std::fs::write(&path, b"{}").unwrap();
        assert!(Record::read(&path).unwrap_err().to_string().contains("is no record of bench-ops"));
        std::fs::remove_dir_all(folder).unwrap();
        assert!(Record::read(&path).unwrap_err().to_string().contains("ops.json"));
    }
}
