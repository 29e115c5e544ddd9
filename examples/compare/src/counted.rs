//! How many kernels Burn's wgpu backend has compiled: its runtime tells that to its log alone, a line each.

use std::sync::atomic::{AtomicU64, Ordering};

use cubecl_environment::config::logger::LogCrateLevel;
use cubecl_runtime::config::compilation::CompilationLogLevel;
use cubecl_runtime::config::{CubeClRuntimeConfig, RuntimeConfig};
use log::{LevelFilter, Log, Metadata, Record};

/// Where the runtime's lines about kernels go.
const TARGET: &str = "cubecl::compilation";

static COMPILED: AtomicU64 = AtomicU64::new(0);

struct Counter;

impl Log for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            COMPILED.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self) {}
}

/// Begins to count, and has the runtime forget what it chose in other processes, so that its first steps compile all they need. To be
/// called before any device is opened.
///
/// # Errors
/// Something else listens to the log or has settled the runtime's configuration.
pub fn begin() -> Result<(), String> {
    let mut config = CubeClRuntimeConfig::default();
    config.autotune.disable_cache = true;
    config.compilation.logger.level = CompilationLogLevel::Basic;
    config.compilation.logger.log = Some(LogCrateLevel::Info);
    if !CubeClRuntimeConfig::try_set(config) {
        return Err("the runtime was configured before".to_owned());
    }
    log::set_logger(&Counter).map_err(|error| error.to_string())?;
    log::set_max_level(LevelFilter::Info);
    Ok(())
}

/// Kernels compiled so far. A thread of the runtime's counts, microseconds behind; a step ends with a read, which takes longer.
pub fn compiled() -> u64 {
    COMPILED.load(Ordering::Relaxed)
}
