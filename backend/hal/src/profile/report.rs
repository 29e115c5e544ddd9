//! Timelines as text: a summary with tables, and Chrome's trace format to and from files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Category, TimedLaunch, Timeline};
use crate::StreamName;

/// What a trace file begins with, what is between two of its lines, and what it ends with.
pub(crate) const TRACE_OPENING: &str = "[\n";
pub(crate) const TRACE_SEPARATOR: &str = ",\n";
pub(crate) const TRACE_CLOSING: &str = "\n]\n";

/// The line that names a device.
pub(crate) fn trace_device(process: u32, device: &str, arch: &str) -> String {
    json!({"name": "process_name", "ph": "M", "pid": process, "args": {"name": device, "arch": arch}}).to_string()
}

/// The line of a launch.
pub(crate) fn trace_line(process: u32, launch: &TimedLaunch) -> String {
    let line = json!({
        "name": launch.operator, "cat": launch.category.name(), "ph": "X", "pid": process,
        "tid": launch.stream as u32,
        "ts": launch.start_us, "dur": launch.duration_us,
        "args": {
            "kernel": launch.kernel, "shape": launch.shape, "bytes": launch.bytes, "flops": launch.flops,
            "grid": launch.grid, "block": launch.block,
        },
    });
    line.to_string()
}

/// Timelines as a file for Chrome's `about:tracing` or Perfetto.
pub fn chrome_trace(timelines: &[Timeline]) -> String {
    let lines = (0..).zip(timelines).flat_map(|(process, timeline)| {
        let launches = timeline.launches.iter().map(move |launch| trace_line(process, launch));
        std::iter::once(trace_device(process, &timeline.device, &timeline.arch)).chain(launches)
    });
    let lines: Vec<String> = lines.collect();
    format!("{TRACE_OPENING}{}{TRACE_CLOSING}", lines.join(TRACE_SEPARATOR))
}

/// The timelines of a file that a profile wrote, whether or not it was closed.
///
/// # Errors
/// The number of the line that is none of a profile's, and why.
pub fn read_trace(text: &str) -> Result<Vec<Timeline>, String> {
    let mut timelines: BTreeMap<u64, Timeline> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim().trim_end_matches(',');
        if matches!(line, "" | "[" | "]") {
            continue;
        }
        let event: Value = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
        let process = event["pid"].as_u64().ok_or_else(|| format!("line {}: no pid", at + 1))?;
        let timeline = timelines.entry(process).or_default();
        match event["ph"].as_str() {
            Some("M") => {
                (timeline.device, timeline.arch) = (text_of(&event["args"]["name"]), text_of(&event["args"]["arch"]));
            }
            Some("X") => timeline.launches.push(launch_of(&event)),
            _ => return Err(format!("line {}: neither a device nor a launch", at + 1)),
        }
    }
    Ok(timelines.into_values().collect())
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn launch_of(event: &Value) -> TimedLaunch {
    let args = &event["args"];
    let three = |value: &Value| [0, 1, 2].map(|axis| value[axis].as_u64().unwrap_or(0) as u32);
    let category = Category::ALL.into_iter().find(|category| event["cat"].as_str() == Some(category.name()));
    let shape = args["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    TimedLaunch {
        operator: text_of(&event["name"]),
        kernel: text_of(&args["kernel"]),
        stream: if event["tid"] == 1 { StreamName::Transfer } else { StreamName::Compute },
        category: category.unwrap_or_default(),
        shape: shape.map(|extent| extent as usize).collect(),
        bytes: args["bytes"].as_u64().unwrap_or(0),
        flops: args["flops"].as_u64().unwrap_or(0),
        grid: three(&args["grid"]),
        block: three(&args["block"]),
        start_us: event["ts"].as_f64().unwrap_or(0.0),
        duration_us: event["dur"].as_f64().unwrap_or(0.0),
    }
}

/// The shares of a device's time by kind of work and in gaps, which add up to 100 %, and a table by kernel and shape,
/// those that take most first.
pub fn summary(timeline: &Timeline) -> String {
    let mut text = String::new();
    let count = timeline.launches.len();
    let _ = writeln!(text, "{}: {count} launches and copies in {}", timeline.device, micros(timeline.span_us()));
    if count == 0 {
        return text;
    }
    let mut parts: Vec<(&str, f64)> =
        Category::ALL.iter().map(|&category| (category.name(), timeline.busy_us(category))).collect();
    let busy: f64 = parts.iter().map(|(_, time)| time).sum();
    parts.push(("gaps", (timeline.span_us() - busy).max(0.0)));
    let tenths = tenths(&parts.iter().map(|(_, time)| *time).collect::<Vec<_>>());
    for ((name, time), tenths) in parts.iter().zip(tenths) {
        let _ = writeln!(text, "  {:>5.1}% {:>12}  {name}", f64::from(tenths) / 10.0, micros(*time));
    }
    let _ = writeln!(
        text,
        "\n{:>6} {:>8} {:>12} {:>12} {:>9} {:>10}  operator, kernel, shape",
        "share", "times", "all", "each", "GB/s", "GFLOP/s"
    );
    for row in kernels(timeline) {
        let per =
            |amount: u64| if amount == 0 { "-".to_owned() } else { format!("{:.1}", amount as f64 / row.us / 1e3) };
        let _ = writeln!(
            text,
            "{:>5.1}% {:>8} {:>12} {:>12} {:>9} {:>10}  {} {} {:?}",
            100.0 * row.us / timeline.span_us().max(busy),
            row.times,
            micros(row.us),
            micros(row.us / row.times as f64),
            per(row.bytes),
            per(row.flops),
            row.operator,
            if row.kernel == row.operator { "" } else { row.kernel },
            row.shape
        );
    }
    text
}

/// The launches of one kernel on one shape, together.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime<'a> {
    /// The operator.
    pub operator: &'a str,
    /// The kernel, or the direction of a copy.
    pub kernel: &'a str,
    /// As in [`Work::shape`](super::Work::shape).
    pub shape: &'a [usize],
    /// Its kind.
    pub category: Category,
    /// Launches.
    pub times: u64,
    /// What they took, microseconds.
    pub us: f64,
    /// What they read and wrote at least; 0 where it is not known.
    pub bytes: u64,
    /// Their multiplications and additions; 0 where it is not known.
    pub flops: u64,
}

/// What each kernel took on each shape, those that took most first.
pub fn kernels(timeline: &Timeline) -> Vec<KernelTime<'_>> {
    let mut rows: BTreeMap<(&str, &str, &[usize]), KernelTime<'_>> = BTreeMap::new();
    for launch in &timeline.launches {
        let TimedLaunch { operator, kernel, shape, category, .. } = launch;
        let (category, times, us, bytes, flops) = (*category, 0, 0.0, 0, 0);
        let row = rows.entry((operator, kernel, shape)).or_insert(KernelTime {
            operator,
            kernel,
            shape,
            category,
            times,
            us,
            bytes,
            flops,
        });
        row.times += 1;
        row.us += launch.duration_us;
        row.bytes += launch.bytes;
        row.flops += launch.flops;
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by(|a, b| b.us.total_cmp(&a.us));
    rows
}

/// Shares in tenths of a percent that add up to 1000: rounded down, what is missing goes to the largest remainders.
fn tenths(parts: &[f64]) -> Vec<u32> {
    let all: f64 = parts.iter().sum();
    if all <= 0.0 {
        return vec![0; parts.len()];
    }
    let exact: Vec<f64> = parts.iter().map(|part| 1000.0 * part / all).collect();
    let mut tenths: Vec<u32> = exact.iter().map(|share| share.floor() as u32).collect();
    let missing = 1000u32.saturating_sub(tenths.iter().sum());
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|&a, &b| (exact[b].fract()).total_cmp(&exact[a].fract()));
    order.into_iter().take(missing as usize).for_each(|at| tenths[at] += 1);
    tenths
}

fn micros(us: f64) -> String {
    if us >= 1e6 {
        format!("{:.3} s", us / 1e6)
    } else if us >= 1e3 {
        format!("{:.3} ms", us / 1e3)
    } else {
        format!("{us:.1} us")
    }
}
