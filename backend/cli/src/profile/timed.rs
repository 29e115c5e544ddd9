//! `rocfire profile -- COMMAND`: every launch of a command timed by the device's events. The page of it lies beside the trace.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use rocfire_hal::profile::{chrome_trace, read_trace, summary};

use super::{Outcome, page};

/// Runs the command, closes the trace, and prints a summary for each device that it used.
///
/// # Errors
/// The command cannot be started or fails, or used no device.
pub fn run(command: &[OsString], trace: &Path) -> Outcome<()> {
    let (program, arguments) = command.split_first().ok_or("no command after --")?;
    let cannot = |what: &str, error: std::io::Error| format!("cannot {what} {}: {error}", trace.display());
    if let Some(folder) = trace.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cannot("make the folder of", error))?;
    }
    if let Err(error) = std::fs::remove_file(trace)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(cannot("replace", error).into());
    }
    // The command may have another working directory by the time it opens the file.
    let absolute = std::path::absolute(trace).map_err(|error| cannot("find", error))?;
    let mut setting = OsString::from("timed:");
    setting.push(&absolute);
    let status = Command::new(program)
        .args(arguments)
        .env("ROCFIRE_PROFILE", setting)
        .status()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let text = match std::fs::read_to_string(&absolute) {
        Ok(text) => text,
        Err(_) if !status.success() => return Err(format!("{} ended with {status}", program.display()).into()),
        Err(_) => {
            return Err(format!("{} opened no rocfire device: there is nothing to profile", program.display()).into());
        }
    };
    let timelines = read_trace(&text).map_err(|error| format!("{} is no trace: {error}", trace.display()))?;
    std::fs::write(&absolute, chrome_trace(&timelines)).map_err(|error| cannot("write", error))?;
    for timeline in &timelines {
        println!("\n{}", summary(timeline));
        if timeline.device.starts_with("emulated") {
            println!("An emulated device: these are times of the emulator on this machine, and say nothing of a card.");
        }
    }
    let page = trace.with_extension("html");
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    std::fs::write(&page, page::page(&words.join(" "), &timelines))
        .map_err(|error| format!("cannot write {}: {error}", page.display()))?;
    println!("trace: {}\npage:  {}", trace.display(), page.display());
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", program.display()).into()) }
}
