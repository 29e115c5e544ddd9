//! Reports to the user: through `tracing` where the program has a subscriber, else on standard error.
//!
//! A library's warnings are lost where nobody subscribed, and the ones here (an emulated device instead of a GPU, an
//! unknown setting) are for people who have not yet set anything up.

use std::fmt::Display;

/// How much is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Nothing.
    Off,
    /// What went wrong and is not returned as an error.
    Error,
    /// What works otherwise than one may think. The default.
    Warn,
    /// Devices, compilers, slow compiles.
    Info,
    /// Compiles, cache, pool.
    Debug,
    /// Launches.
    Trace,
}

impl Level {
    /// Every level, quietest first.
    pub const ALL: [Level; 6] = [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

    /// Its name in `ROCFIRE_LOG`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

/// Reports a message of `level` if the configured level `limit` lets it through.
pub(crate) fn report(limit: Level, level: Level, message: impl Display) {
    if level > limit || level == Level::Off {
        return;
    }
    if !tracing::dispatcher::has_been_set() {
        eprintln!("rocfire: {}: {message}", level.name());
        return;
    }
    match level {
        Level::Off => {}
        Level::Error => tracing::error!(target: "rocfire", "{message}"),
        Level::Warn => tracing::warn!(target: "rocfire", "{message}"),
        Level::Info => tracing::info!(target: "rocfire", "{message}"),
        Level::Debug => tracing::debug!(target: "rocfire", "{message}"),
        Level::Trace => tracing::trace!(target: "rocfire", "{message}"),
    }
}
