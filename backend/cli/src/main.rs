//! The `rocfire` command.
//!
//! One file a subcommand; each ends with an exit code: 0 done, 1 something failed, 2 wrong arguments. It installs what is
//! missing (`install.rs`) and otherwise only calls the libraries. Reached through the aliases of `.cargo/config.toml`.

mod aiter;
mod amd_runtime;
mod demo;
mod doctor;
mod explain;
mod hip_library;
mod install;
mod mutants;
mod prebuild;
mod profile;
mod progress;
mod report;
mod top;
mod tune;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Rust models on AMD GPUs: try it, check it, see what this machine has.
#[derive(Debug, Parser)]
#[command(name = "rocfire", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a small transformer on the best device there is and let it write; or let trained weights write on.
    Demo(demo::Arguments),
    /// Run every check and test, or one operator's cases.
    Verify(verify::Arguments),
    /// Say what this machine has and what rocfire will use.
    Doctor,
    /// Get AMD's own kernels, which launchers take where they apply.
    Aiter(aiter::Arguments),
    /// Build libamdhip64 and libhiprtc over the emulator, for any HIP program, and say where they are.
    HipLibrary(hip_library::Arguments),
    /// Run a program with AMD's own runtime on an emulated card.
    AmdRuntime(amd_runtime::Arguments),
    /// Say which kernel the dispatch takes for an operator, and why.
    Explain(explain::Arguments),
    /// Find the fastest way to multiply given shapes on the device, and write it into the tuning table.
    Tune(tune::Arguments),
    /// Find out everything about a card, in one folder: doctor, cases, times, models, peers, counters.
    Report(report::Arguments),
    /// A part of the report in a process of its own.
    #[command(hide = true)]
    ReportCounters(report::counters::Arguments),
    /// Compile kernels ahead into one file, a pack, with which programs need no compiler.
    Prebuild(prebuild::Arguments),
    /// Show what runs on the devices of processes, as it happens.
    Top(top::Arguments),
    /// Say where a command's time goes on the device, or, from what the emulator counts, what binds a kernel.
    Profile(profile::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Doctor => {
            progress::show_compiles(None);
            doctor::run()
        }
        Command::Aiter(arguments) => aiter::run(&arguments),
        Command::HipLibrary(arguments) => hip_library::run(&arguments),
        Command::AmdRuntime(arguments) => amd_runtime::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Prebuild(arguments) => prebuild::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::ReportCounters(arguments) => report::counters::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_of_all_subcommands_are_in_form() {
        super::Arguments::command().debug_assert();
    }
}
