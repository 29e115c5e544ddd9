//! `remote serve` in one terminal, `remote train ws://127.0.0.1:PORT` in another.

use std::io::Write;

use burn_remote::RemoteBackend;
use clap::{Parser, Subcommand};
use remote::{Error, Options, connect, serve, train};
use rocfire_burn::RocmDevice;

/// Serves devices to other processes, and trains on served ones.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves devices until it is told to end; prints the address first.
    Serve {
        /// A device, such as hip:0 or emulated:gfx942; several are numbered in their order. The best one unless said otherwise.
        #[arg(long)]
        device: Vec<RocmDevice>,
        /// The port; a free one unless said otherwise.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// What clients must know.
        #[arg(long)]
        token: Option<String>,
        /// Collects and fuses operators on the server.
        #[arg(long)]
        fusion: bool,
    },
    /// Trains a small model on a served device.
    Train {
        /// What `serve` printed.
        url: String,
        /// Which of the server's devices.
        #[arg(long, default_value_t = 0)]
        index: usize,
        /// Training steps.
        #[arg(long, default_value_t = 20)]
        steps: usize,
        /// What the server asks for.
        #[arg(long)]
        token: Option<String>,
    },
}

fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Serve { mut device, port, token, fusion } => {
            if device.is_empty() {
                device.push(RocmDevice::default());
            }
            serve(&Options { devices: device, port, token, fusion }, |address| {
                println!("{address}");
                // Whoever reads this through a pipe waits for it.
                let _ = std::io::stdout().flush();
            })
        }
        Command::Train { url, index, steps, token } => {
            let device = connect(&url, index, token.as_deref())?;
            for (step, loss) in train::<RemoteBackend>(&device, steps)?.into_iter().enumerate() {
                println!("step {step} loss {loss:.6}");
            }
            Ok(())
        }
    }
}

fn main() -> std::process::ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("remote: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
