//! Settings: one struct, and for every field a `ROCFIRE_*` variable.
//!
//! The table in `table.rs` is the one place that names the variables; parsing, `doctor` and the tests go through it.
//! A device keeps the [`Config`] it was opened with. The process-wide devices are opened with [`Config::from_env`].

mod table;

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Once;

pub use table::{SETTINGS, Setting};

use crate::log::{Level, report};
use crate::{DeviceChoice, Result};

/// What f32 matrix products may be multiplied in. Sums stay f32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Precision {
    /// f32, exactly: the default. Nothing is lowered unless asked.
    F32,
    /// Operands rounded to bf16.
    Bf16,
    /// Operands rounded to f16.
    F16,
}

/// Whether kernels that take rows of any length stand in for those that are made for some lengths and keep a row in registers. They
/// give the same bits, and read a row again for every pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Generic {
    /// Until the others are compiled.
    First,
    /// Always: for tests of them.
    Always,
    /// Never.
    Never,
}

/// Checks of the emulator. That accesses stay inside what was asked for is always checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checks {
    /// A wave that ends while others of its workgroup wait at a barrier is a fault. HIP forbids it, the hardware lets the
    /// barrier pass. On unless switched off.
    pub barriers: bool,
    /// Memory that is handed out is filled with bytes that are NaN in every float type, so that what is computed from
    /// bytes nobody wrote shows.
    pub poison: bool,
    /// What nobody wrote is used as an address, decides a branch or is stored to device memory.
    pub unwritten: bool,
    /// Two waves of a workgroup touch a byte of LDS with no barrier between, and at least one writes.
    pub lds_race: bool,
    /// With `lds_race`: a write of the bytes that are there already counts too, though no hardware shows it.
    pub equal_write: bool,
    /// Two workgroups of a launch touch a byte of device memory, and at least one writes. Workgroups run one by one.
    pub global_race: bool,
    /// What a shuffle reads from a lane that is off is used as an address, decides a branch or is stored to device memory.
    pub shuffle: bool,
    /// A register is used before the `s_waitcnt` for the load that fills it.
    pub waitcnt: bool,
}

impl Checks {
    /// None of them.
    pub const NONE: Checks = Checks {
        barriers: false,
        poison: false,
        unwritten: false,
        lds_race: false,
        equal_write: false,
        global_race: false,
        shuffle: false,
        waitcnt: false,
    };

    /// All of them.
    pub const ALL: Checks = Checks {
        barriers: true,
        poison: true,
        unwritten: true,
        lds_race: true,
        equal_write: true,
        global_race: true,
        shuffle: true,
        waitcnt: true,
    };
}

impl Default for Checks {
    fn default() -> Self {
        Checks { barriers: true, ..Checks::NONE }
    }
}

/// How devices, compilers and operators behave.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The default device; `None` for the first AMD GPU, else the emulated one.
    pub device: Option<DeviceChoice>,
    /// What is reported on standard error where the program has no `tracing` subscriber.
    pub log: Level,
    /// Folder of compiled kernels.
    pub cache_dir: PathBuf,
    /// Most that the folder may hold, MiB; the oldest files go first. 0 keeps nothing on disk.
    pub cache_mb: u64,
    /// Files with compiled kernels, looked into before the folder; `None` for those beside the executable.
    pub packs: Option<Vec<PathBuf>>,
    /// Whether chains of operators become single launches.
    pub fusion: bool,
    /// Whether launches of plans that come again are put on the device as graphs of its driver.
    pub replay: bool,
    /// From so many KiB on, results of operators that run together are not kept if they can be computed again, element by element,
    /// from tensors that are.
    pub recompute_kb: u64,
    /// Whether kernels for rows of any length stand in for others; `None` for [`Generic::First`] on a GPU, never elsewhere.
    pub generic: Option<Generic>,
    /// Whether matrix units are used.
    pub matrix: bool,
    /// Whether the vendor's library is used for matrix products, where it is installed.
    pub vendor: bool,
    /// Whether AITER's code objects are used where they are found and apply; `None` for yes on an AMD GPU, no elsewhere.
    pub aiter: Option<bool>,
    /// Where they are; `None` for the folder of compiled kernels, else where Python has the package.
    pub aiter_dir: Option<PathBuf>,
    /// Whether they are used for decoding, too, over latents and where many sequences fill the card: a sequence's bits then depend on how
    /// many there are.
    pub aiter_decode: bool,
    /// Whether they are used for products of MXFP4 by weights that are laid out, too: bits are then not those of weights in rows.
    pub aiter_codes: bool,
    /// Whether weights that are handed over for it are laid out anew for products.
    pub preshuffle: bool,
    /// The user's tuning table; `None` for `tuning.csv` in the folder of compiled kernels.
    pub tuning: Option<PathBuf>,
    /// Where shapes that no tuning table has are noted, for `rocfire tune`; `None` for nowhere.
    pub tuning_record: Option<PathBuf>,
    /// What f32 matrix products may be multiplied in.
    pub precision: Precision,
    /// Whether each launch is waited for, so that a fault is an error of the launch itself.
    pub sync: bool,
    /// Whether only kernels that promise the same bits on every run may be chosen; `None` for yes when emulated, and everywhere for
    /// none that adds floats by atomics, as `Some(false)` allows.
    pub deterministic: Option<bool>,
    /// Checks of the emulator.
    pub checks: Checks,
    /// After how many instructions another wave of an emulated workgroup has its turn; `None` for not before the barrier.
    pub wave_turn: Option<NonZeroU32>,
    /// After the instructions of one wave that an emulated device runs in so many seconds on a usual host, it is taken to
    /// hang. Waits for LDS that nobody will end are found at once; for device memory, which another thread of
    /// the host may write, after as many seconds.
    pub hang_seconds: u64,
    /// Whether reads and waits tell of indices outside their axis that kernels found.
    pub check_index: bool,
    /// Most compilers at a time; `None` for as many as there are cores. Cores and memory limit it further.
    pub compile_jobs: Option<usize>,
    /// Most device memory that a pool may hold, MiB; `None` for what the device has.
    pub pool_mb: Option<u64>,
    /// Whether `rocfire top` finds the process.
    pub watch: bool,
    /// Where launches timed by events go as a Chrome trace; `None` for nowhere.
    pub timed: Option<PathBuf>,
    /// Whether an emulated device counts its launches by instruction, and in which workgroups; `None` for no.
    #[cfg(feature = "emulated")]
    pub profile: Option<crate::modelled::Sample>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            device: None,
            log: Level::Warn,
            cache_dir: default_cache_dir(),
            cache_mb: 1024,
            packs: None,
            fusion: true,
            replay: false,
            recompute_kb: 8 << 10,
            generic: None,
            matrix: true,
            vendor: true,
            aiter: None,
            aiter_dir: None,
            aiter_decode: false,
            aiter_codes: false,
            preshuffle: true,
            tuning: None,
            tuning_record: None,
            precision: Precision::F32,
            sync: false,
            deterministic: None,
            checks: Checks::default(),
            wave_turn: None,
            hang_seconds: 20,
            check_index: true,
            compile_jobs: None,
            pool_mb: None,
            watch: true,
            timed: None,
            #[cfg(feature = "emulated")]
            profile: None,
        }
    }
}

macro_rules! builder {
    ($($(#[$doc:meta])* $method:ident: $field:ident: $type:ty;)*) => {
        impl Config {
            $($(#[$doc])*
            #[must_use]
            pub fn $method(mut self, $field: $type) -> Self {
                self.$field = $field.into();
                self
            })*
        }
    };
}

builder! {
    /// With another default device.
    with_device: device: DeviceChoice;
    /// With another log level.
    with_log: log: Level;
    /// With another folder of compiled kernels.
    with_cache_dir: cache_dir: PathBuf;
    /// With another bound on that folder, MiB.
    with_cache_mb: cache_mb: u64;
    /// With these files of compiled kernels, and no others.
    with_packs: packs: Vec<PathBuf>;
    /// With fusion on or off.
    with_fusion: fusion: bool;
    /// With launches that come again replayed as graphs or not.
    with_replay: replay: bool;
    /// With another size, KiB, from which on results are computed again and not kept.
    with_recompute_kb: recompute_kb: u64;
    /// With kernels for rows of any length that stand in for others or not, whatever the device.
    with_generic: generic: Generic;
    /// With matrix units on or off.
    with_matrix: matrix: bool;
    /// With the vendor's library on or off.
    with_vendor: vendor: bool;
    /// With AITER's code objects used or not, whatever the device.
    with_aiter: aiter: bool;
    /// With AITER's code objects from this folder.
    with_aiter_dir: aiter_dir: PathBuf;
    /// With AITER's code objects used for decoding, too, or not.
    with_aiter_decode: aiter_decode: bool;
    /// With AITER's code objects used for products of codes, too, or not.
    with_aiter_codes: aiter_codes: bool;
    /// With weights laid out anew for products or not.
    with_preshuffle: preshuffle: bool;
    /// With another tuning table of the user's.
    with_tuning: tuning: PathBuf;
    /// With shapes that no tuning table has noted in a file.
    with_tuning_record: tuning_record: PathBuf;
    /// With another precision of f32 matrix products.
    with_precision: precision: Precision;
    /// With launches waited for or not.
    with_sync: sync: bool;
    /// With determinism on or off, whatever the device.
    with_deterministic: deterministic: bool;
    /// With other checks of the emulator.
    with_checks: checks: Checks;
    /// With waves of an emulated workgroup that take turns of so many instructions.
    with_wave_turn: wave_turn: NonZeroU32;
    /// With another time after which an emulated wave is taken to hang.
    with_hang_seconds: hang_seconds: u64;
    /// With indices outside their axis told of, or not.
    with_check_index: check_index: bool;
    /// With another number of compilers at a time.
    with_compile_jobs: compile_jobs: usize;
    /// With a cap on a pool, MiB.
    with_pool_mb: pool_mb: u64;
    /// Found by `rocfire top` or not.
    with_watch: watch: bool;
}

impl Config {
    /// The user's tuning table, as set or in its usual place.
    pub fn tuning_table(&self) -> PathBuf {
        self.tuning.clone().unwrap_or_else(|| self.cache_dir.join("tuning.csv"))
    }

    /// With every launch timed, and written to a file as a Chrome trace.
    #[must_use]
    pub fn with_timed(self, trace: PathBuf) -> Config {
        Config { timed: Some(trace), ..self }
    }

    /// With launches of an emulated device counted by instruction, in these workgroups.
    #[cfg(feature = "emulated")]
    #[must_use]
    pub fn with_profile(self, sample: crate::modelled::Sample) -> Config {
        Config { profile: Some(sample), ..self }
    }

    /// The settings of the environment; unset and empty variables leave the default. A `ROCFIRE_` name that is not in
    /// the table is warned of, once per process.
    ///
    /// # Errors
    /// [`crate::Error::Config`] names the variable and what it may be.
    pub fn from_env() -> Result<Config> {
        static WARNED: Once = Once::new();
        let (config, unknown) = Config::from_vars(std::env::vars_os())?;
        if !unknown.is_empty() {
            WARNED.call_once(|| report(config.log, Level::Warn, unknown_names(&unknown)));
        }
        Ok(config)
    }

    /// The settings of these variables, and those names beginning with `ROCFIRE_` that mean nothing.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_vars(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<(Config, Vec<String>)> {
        let mut config = Config::default();
        let mut unknown = Vec::new();
        for (name, value) in vars {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
            match SETTINGS.iter().find(|setting| setting.name == name) {
                Some(setting) => setting.set(&mut config, &value)?,
                None if name.starts_with(TEST_PREFIX) || OTHER_NAMES.contains(&name) => {}
                None => unknown.push(name.to_owned()),
            }
        }
        unknown.sort();
        Ok((config, unknown))
    }
}

const PREFIX: &str = "ROCFIRE_";
/// Variables of the test machinery begin so; they are no settings.
const TEST_PREFIX: &str = "ROCFIRE_TEST_";
/// What others read, and no device here: the build script of `rocfire-burn`, filetests that rewrite themselves, and
/// `amdhip64` for the architecture that HIP programs find.
const OTHER_NAMES: [&str; 3] = ["ROCFIRE_PATCH_CHECK", "ROCFIRE_BLESS", "ROCFIRE_HIP_ARCH"];

fn unknown_names(unknown: &[String]) -> String {
    let known = SETTINGS.iter().map(|setting| setting.name).collect::<Vec<_>>().join(", ");
    format!("unknown and ignored: {}; there are {known}", unknown.join(", "))
}

/// `$XDG_CACHE_HOME/rocfire`, `~/.cache/rocfire`, on Windows `%LOCALAPPDATA%\rocfire`, else in the temporary folder.
fn default_cache_dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| variable("LOCALAPPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("rocfire")
}

#[cfg(test)]
mod tests;
