//! What a card counts of a kernel, by `rocprofv3`, beside what the emulator's cost model counts of the same one.
//!
//! A counter is asked for in a run of its own: what the hardware cannot count at the same time, or does not know, costs only
//! itself. `rocfire report-counters` is this part's process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rocfire_arch::Arch;
use rocfire_hal::modelled::Sample;
use rocfire_hal::{Config, DType, Device, DeviceId};
use serde::{Deserialize, Serialize};

use super::Outcome;
use super::parts::Context;
use super::picture::{self, Bar};
use super::programs::{Place, Program};
use super::state::{Found, Status};
use crate::profile::operator;

const ROCPROF: Program = Program::Foreign { name: "rocprofv3", folders: &["/opt/rocm/bin"] };
/// Operators, element types and sizes that are counted.
const WORK: &[(&str, DType, &str)] = &[
    ("gemm", DType::F16, "512x512x512"),
    ("softmax", DType::BF16, "1024x4096"),
    ("gelu", DType::F32, "1048576"),
    ("copy", DType::F32, "1048576"),
];
/// Of the modelled ones, those that AMD's cards have under this prefix.
const PREFIX: &str = "SQ_";

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Begin no run after so many seconds.
    #[arg(long, default_value_t = 300.0)]
    seconds: f64,
    /// Where the counts go.
    #[arg(long, value_name = "FILE", default_value = "target/report/counters.json")]
    json: PathBuf,
}

/// A counter of a kernel.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Row {
    operator: String,
    kernel: String,
    counter: String,
    measured: f64,
    modelled: f64,
}

/// Counts, and writes what it has after each run.
///
/// # Errors
/// No device of the `hip` driver; an emulated one that cannot be opened; a file that cannot be written.
pub fn run(arguments: &Arguments) -> Outcome<()> {
    let Ok(rocprof) = Place::Folder(PathBuf::new()).path(ROCPROF, true) else {
        println!("skipped: there is no rocprofv3");
        return Ok(());
    };
    let arch = DeviceId::from_env()?.arch();
    let ends = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let own = std::env::current_exe()?;
    let (mut rows, mut refused, mut left) = (Vec::new(), 0, 0);
    for &(name, dtype, size) in WORK {
        let modelled = modelled(arch, name, dtype, size)?;
        let mut counters: Vec<&str> = modelled.values().flat_map(|counts| counts.keys().map(String::as_str)).collect();
        counters.sort_unstable();
        counters.dedup();
        for counter in counters.into_iter().filter(|counter| counter.starts_with(PREFIX)) {
            if Instant::now() >= ends {
                left += 1;
                continue;
            }
            let work = [own.as_os_str(), "profile".as_ref(), "--once".as_ref(), name.as_ref(), size.as_ref()];
            let Some(text) = counted(&rocprof, counter, &work, dtype)? else {
                refused += 1;
                continue;
            };
            let found = rows_of(name, counter, &measured(&text), &modelled);
            for row in &found {
                println!("{name:<8} {counter:<28} measured {:>14.0} modelled {:>14.0}", row.measured, row.modelled);
            }
            rows.extend(found);
            std::fs::write(&arguments.json, serde_json::to_vec_pretty(&rows)?)?;
        }
    }
    println!("{} counts compared, {refused} that the card does not give, {left} left out for time", rows.len());
    Ok(())
}

/// The model's counts of a launch, by kernel.
fn modelled(arch: Arch, name: &str, dtype: DType, size: &str) -> Outcome<BTreeMap<String, BTreeMap<String, f64>>> {
    let operator = operator::find(name)?;
    let extents = operator.extents(Some(size))?;
    let config = Config::from_env()?.with_profile(Sample::default());
    let device = Device::open(DeviceId::emulated(arch.name())?, config)?;
    (operator.run)(&device, dtype, &extents)?;
    device.sync()?;
    let kernels = device.modelled().unwrap_or_default();
    let counts = kernels.iter().map(|kernel| {
        let counters = kernel.largest.counters();
        (kernel.name.clone(), counters.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect())
    });
    Ok(counts.collect())
}

/// Runs the work under rocprofv3 for one counter. `None` where it gives no counts.
fn counted(rocprof: &Path, counter: &str, work: &[&std::ffi::OsStr], dtype: DType) -> Outcome<Option<String>> {
    let folder = std::env::temp_dir().join(format!("rocfire-counters-{}", std::process::id()));
    let mut command = Command::new(rocprof);
    command.args(["--pmc", counter, "--output-format", "csv", "-d"]).arg(&folder).args(["-o", "counts", "--"]);
    command.args(work).args(["--dtype", dtype.name()]);
    // The kernels that are modelled are ours.
    let output = command.env("ROCFIRE_VENDOR", "0").stdin(Stdio::null()).output()?;
    let text = if output.status.success() { table_in(&folder) } else { None };
    if folder.is_dir() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(text)
}

/// The table of counts that rocprofv3 has written somewhere under a folder.
fn table_in(folder: &Path) -> Option<String> {
    std::fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return table_in(&path);
        }
        let is_it = path.to_string_lossy().ends_with("counter_collection.csv");
        if is_it { std::fs::read_to_string(path).ok() } else { None }
    })
}

/// The mean of a launch, by kernel.
fn measured(csv: &str) -> BTreeMap<String, f64> {
    let mut lines = csv.lines();
    let head = cells(lines.next().unwrap_or_default());
    let column = |name: &str| head.iter().position(|cell| cell == name);
    let (Some(kernel), Some(dispatch), Some(value)) =
        (column("Kernel_Name"), column("Dispatch_Id"), column("Counter_Value"))
    else {
        return BTreeMap::new();
    };
    // Parts of a card may have a row each.
    let mut launches: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for row in lines.map(cells) {
        let (Some(kernel), Some(dispatch), Some(value)) = (row.get(kernel), row.get(dispatch), row.get(value)) else {
            continue;
        };
        let name = kernel.trim_end_matches(".kd").to_owned();
        *launches.entry(name).or_default().entry(dispatch.clone()).or_default() += value.parse().unwrap_or(0.0);
    }
    launches.into_iter().map(|(name, counts)| (name, counts.values().sum::<f64>() / counts.len() as f64)).collect()
}

/// The cells of a line of CSV; a quoted one may have commas.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("there is a cell at first").push(c),
        }
    }
    cells
}

/// Kernels that both know.
fn rows_of(
    operator: &str,
    counter: &str,
    measured: &BTreeMap<String, f64>,
    modelled: &BTreeMap<String, BTreeMap<String, f64>>,
) -> Vec<Row> {
    let row = |(kernel, measured): (&String, &f64)| {
        let modelled = *modelled.get(kernel)?.get(counter)?;
        let (operator, kernel, counter) = (operator.to_owned(), kernel.clone(), counter.to_owned());
        Some(Row { operator, kernel, counter, measured: *measured, modelled })
    };
    measured.iter().filter_map(row).collect()
}

/// Adds how far the model is off, and a picture.
pub fn read(context: &Context, found: &mut Found) -> Outcome<()> {
    let Ok(text) = std::fs::read(context.file("counters.json")) else { return Ok(()) };
    let rows: Vec<Row> = serde_json::from_slice(&text)?;
    let compared: Vec<&Row> = rows.iter().filter(|row| row.measured > 0.0 && row.modelled > 0.0).collect();
    if compared.is_empty() {
        return Ok(());
    }
    let ratio = |row: &Row| row.modelled / row.measured;
    let near = compared.iter().filter(|row| (ratio(row) - 1.0).abs() <= 0.05).count();
    found.why = format!("{near} of {} counts are modelled to within 5%", compared.len());
    let bar = |row: &&Row| Bar {
        name: format!("{} {}", row.operator, row.counter),
        value: ratio(row),
        label: format!("{:.2}", ratio(row)),
        status: if (ratio(row) - 1.0).abs() <= 0.05 { Status::Passed } else { Status::Cut },
    };
    let bars: Vec<Bar> = compared.iter().map(bar).collect();
    picture::draw(&context.file("counters.png"), "Counts modelled as a part of those measured", "1 is right", &bars)?;
    found.pictures.push("counters.png".to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "\"Correlation_Id\",\"Dispatch_Id\",\"Kernel_Name\",\"LDS_Block_Size\",\"Counter_Name\",\"Counter_Value\"\n\
        1,1,\"softmax_bf16.kd\",0,\"SQ_WAVES\",100\n1,1,\"softmax_bf16.kd\",0,\"SQ_WAVES\",28\n\
        2,2,\"softmax_bf16.kd\",0,\"SQ_WAVES\",128\n3,3,\"void fill<int, 4>(int*)\",0,\"SQ_WAVES\",7\n";

    #[test]
    fn counts_are_added_up_by_launch_and_averaged_by_kernel() {
        let counts = measured(CSV);
        assert_eq!(counts.len(), 2);
        assert_eq!((counts["softmax_bf16"], counts["void fill<int, 4>(int*)"]), (128.0, 7.0));
        assert!(measured("a,b\n1,2\n").is_empty());
        let modelled = BTreeMap::from([("softmax_bf16".to_owned(), BTreeMap::from([("SQ_WAVES".to_owned(), 128.0)]))]);
        let rows = rows_of("softmax", "SQ_WAVES", &counts, &modelled);
        assert_eq!((rows.len(), rows[0].measured, rows[0].modelled), (1, 128.0, 128.0));
        assert!(rows_of("softmax", "SQ_BUSY", &counts, &modelled).is_empty());
    }

    #[test]
    fn what_is_modelled_of_an_operator_has_the_names_of_counters() {
        if rocfire_hal::compile::find_clang().is_err() {
            println!("skipped: there is no compiler");
            return;
        }
        let arch = Arch::parse(rocfire_arch::DEFAULT_EMULATED).unwrap();
        let counts = modelled(arch, "copy", DType::F32, "65536").unwrap();
        assert!(counts.values().any(|counts| counts.get("SQ_WAVES").is_some_and(|&waves| waves > 0.0)), "{counts:?}");
    }

    #[test]
    fn the_table_is_found_wherever_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("host/17");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(table_in(folder.path()), None);
        std::fs::write(deep.join("counts_agent_info.csv"), "x").unwrap();
        std::fs::write(deep.join("counts_counter_collection.csv"), CSV).unwrap();
        assert_eq!(table_in(folder.path()).as_deref(), Some(CSV));
    }
}
