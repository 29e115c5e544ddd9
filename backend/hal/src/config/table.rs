//! The table of settings.

use std::ffi::OsStr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use super::{Checks, Config, Generic, Precision};
use crate::log::Level;
#[cfg(feature = "emulated")]
use crate::modelled::Sample;
use crate::{DeviceChoice, Error, Result};

/// A setting: its variable, what it may be, and how it gets into and out of a [`Config`].
pub struct Setting {
    /// The variable.
    pub name: &'static str,
    /// What it may be.
    pub values: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Takes a value; the error says what was expected.
    parse: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as its variable would have it; for what is left open, what it comes to.
    pub show: fn(&Config) -> String,
}

/// Every setting there is, in the order in which `doctor` prints them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "ROCFIRE_DEVICE",
        values: "hip:N, cuda:N, emulated:ARCH[:N] or noop:ARCH[:N]",
        about: "the default device",
        parse: |config, text| DeviceChoice::parse(text).map(|device| config.device = Some(device)),
        show: |config| config.device.map_or_else(|| "the first AMD GPU, else emulated".to_owned(), |d| d.to_string()),
    },
    Setting {
        name: "ROCFIRE_LOG",
        values: "off, error, warn, info, debug or trace",
        about: "what is reported on standard error",
        parse: |config, text| choose(text, &Level::ALL.map(|level| (level.name(), level))).map(|log| config.log = log),
        show: |config| config.log.name().to_owned(),
    },
    Setting {
        name: "ROCFIRE_CACHE_DIR",
        values: "a folder",
        about: "where compiled kernels are kept",
        parse: |config, text| {
            config.cache_dir = PathBuf::from(text);
            Ok(())
        },
        show: |config| config.cache_dir.display().to_string(),
    },
    Setting {
        name: "ROCFIRE_CACHE_MB",
        values: "a number of MiB; 0 keeps nothing",
        about: "most that the folder may hold",
        parse: |config, text| number(text, 0).map(|mb| config.cache_mb = mb),
        show: |config| config.cache_mb.to_string(),
    },
    Setting {
        name: "ROCFIRE_PACKS",
        values: "files as PATH has folders, or none",
        about: "packs of compiled kernels that `rocfire prebuild` made; with one no compiler is needed",
        parse: |config, text| {
            config.packs = Some(if text == NO_PACKS { Vec::new() } else { std::env::split_paths(text).collect() });
            Ok(())
        },
        show: show_packs,
    },
    Setting {
        name: "ROCFIRE_FUSION",
        values: SWITCH,
        about: "whether chains of operators become single launches",
        parse: |config, text| switch(text).map(|on| config.fusion = on),
        show: |config| show_switch(config.fusion),
    },
    Setting {
        name: "ROCFIRE_REPLAY",
        values: SWITCH,
        about: "whether launches of a plan that comes again are put on a GPU as a graph of its driver",
        parse: |config, text| switch(text).map(|on| config.replay = on),
        show: |config| show_switch(config.replay),
    },
    Setting {
        name: "ROCFIRE_RECOMPUTE_KB",
        values: "a number of KiB",
        about: "from how much on results that other kept tensors give element by element are computed again and not kept",
        parse: |config, text| number(text, 0).map(|kb| config.recompute_kb = kb),
        show: |config| config.recompute_kb.to_string(),
    },
    Setting {
        name: "ROCFIRE_GENERIC",
        values: "first, always or never",
        about: "whether kernels for rows of any length stand in for those of some lengths, at first until these are compiled",
        parse: |config, text| choose(text, &GENERIC).map(|generic| config.generic = Some(generic)),
        show: |config| {
            config
                .generic
                .map_or_else(|| "first on a GPU, else never".to_owned(), |generic| show_choice(generic, &GENERIC))
        },
    },
    Setting {
        name: "ROCFIRE_MATRIX",
        values: SWITCH,
        about: "whether matrix units are used",
        parse: |config, text| switch(text).map(|on| config.matrix = on),
        show: |config| show_switch(config.matrix),
    },
    Setting {
        name: "ROCFIRE_VENDOR",
        values: SWITCH,
        about: "whether large matrix products go to cuBLASLt, hipBLASLt or rocBLAS where installed",
        parse: |config, text| switch(text).map(|on| config.vendor = on),
        show: |config| show_switch(config.vendor),
    },
    Setting {
        name: "ROCFIRE_AITER",
        values: SWITCH,
        about: "whether AITER's code objects are used where they are found and apply",
        parse: |config, text| switch(text).map(|on| config.aiter = Some(on)),
        show: |config| config.aiter.map_or_else(|| "1 on an AMD GPU, else 0".to_owned(), show_switch),
    },
    Setting {
        name: "ROCFIRE_AITER_DIR",
        values: "a folder",
        about: "where AITER's code objects are, instead of what `rocfire aiter install` or Python has installed",
        parse: |config, text| {
            config.aiter_dir = Some(PathBuf::from(text));
            Ok(())
        },
        show: |config| config.aiter_dir.as_ref().map_or("as installed".to_owned(), |path| path.display().to_string()),
    },
    Setting {
        name: "ROCFIRE_AITER_DECODE",
        values: SWITCH,
        about: "whether AITER's code objects are used for decoding, too, over latents and where many sequences fill the card; a \
                sequence's bits then depend on how many there are",
        parse: |config, text| switch(text).map(|on| config.aiter_decode = on),
        show: |config| show_switch(config.aiter_decode),
    },
    Setting {
        name: "ROCFIRE_AITER_CODES",
        values: SWITCH,
        about: "whether AITER's code objects are used for products of MXFP4 by weights that are laid out, too; bits are then not \
                those of weights in rows",
        parse: |config, text| switch(text).map(|on| config.aiter_codes = on),
        show: |config| show_switch(config.aiter_codes),
    },
    Setting {
        name: "ROCFIRE_PRESHUFFLE",
        values: SWITCH,
        about: "whether weights that are handed over for it are laid out anew for products; off, they stay as they are",
        parse: |config, text| switch(text).map(|on| config.preshuffle = on),
        show: |config| show_switch(config.preshuffle),
    },
    Setting {
        name: "ROCFIRE_TUNING",
        values: "a file",
        about: "the tuning table that `rocfire tune` extends",
        parse: |config, text| {
            config.tuning = Some(PathBuf::from(text));
            Ok(())
        },
        show: |config| config.tuning_table().display().to_string(),
    },
    Setting {
        name: "ROCFIRE_TUNING_RECORD",
        values: "a file",
        about: "where shapes that no tuning table has are noted, for `rocfire tune`",
        parse: |config, text| {
            config.tuning_record = Some(PathBuf::from(text));
            Ok(())
        },
        show: |config| config.tuning_record.as_ref().map_or("nowhere".to_owned(), |path| path.display().to_string()),
    },
    Setting {
        name: "ROCFIRE_PRECISION",
        values: "f32, bf16 or f16",
        about: "what f32 matrix products may be multiplied in; sums stay f32",
        parse: |config, text| choose(text, &PRECISIONS).map(|precision| config.precision = precision),
        show: |config| show_choice(config.precision, &PRECISIONS),
    },
    Setting {
        name: "ROCFIRE_SYNC",
        values: SWITCH,
        about: "whether each launch is waited for, so that a fault is an error of the launch itself",
        parse: |config, text| switch(text).map(|on| config.sync = on),
        show: |config| show_switch(config.sync),
    },
    Setting {
        name: "ROCFIRE_DETERMINISTIC",
        values: SWITCH,
        about: "whether every run must give the same bits; set to 0, kernels that add floats by atomics may be taken",
        parse: |config, text| switch(text).map(|on| config.deterministic = Some(on)),
        show: |config| config.deterministic.map_or_else(|| "1 when emulated, else 0".to_owned(), show_switch),
    },
    Setting {
        name: "ROCFIRE_CHECK",
        values: "none, all, or some of barriers,poison,unwritten,lds-race,equal-write,global-race,shuffle,waitcnt",
        about: "checks of the emulator besides bounds; the docs of rocfire-emulator say what each finds",
        parse: |config, text| checks(text).map(|checks| config.checks = checks),
        show: |config| show_checks(config.checks),
    },
    Setting {
        name: "ROCFIRE_WAVE_TURN",
        values: "barrier, or a number of instructions from 1",
        about: "when another wave of an emulated workgroup has its turn: at the barrier, or after so many instructions",
        parse: |config, text| wave_turn(text).map(|turn| config.wave_turn = turn),
        show: |config| config.wave_turn.map_or_else(|| "barrier".to_owned(), |turn| turn.to_string()),
    },
    Setting {
        name: "ROCFIRE_HANG_SECONDS",
        values: "a number of seconds from 1",
        about: "after what one emulated wave runs in so long on a usual host, it is taken to hang",
        parse: |config, text| number(text, 1).map(|seconds| config.hang_seconds = seconds),
        show: |config| config.hang_seconds.to_string(),
    },
    Setting {
        name: "ROCFIRE_CHECK_INDEX",
        values: SWITCH,
        about: "whether reads and waits tell of an index outside its axis that a kernel found; it is never followed",
        parse: |config, text| switch(text).map(|on| config.check_index = on),
        show: |config| show_switch(config.check_index),
    },
    Setting {
        name: "ROCFIRE_COMPILE_JOBS",
        values: "a number from 1",
        about: "most compilers at a time; cores and memory limit it further",
        parse: |config, text| number(text, 1).map(|jobs| config.compile_jobs = Some(jobs as usize)),
        show: |config| crate::compile::jobs(config).to_string(),
    },
    Setting {
        name: "ROCFIRE_POOL_MB",
        values: "a number of MiB from 1",
        about: "most device memory that a pool may hold",
        parse: |config, text| number(text, 1).map(|mb| config.pool_mb = Some(mb)),
        show: |config| config.pool_mb.map_or_else(|| "what the device has".to_owned(), |mb| mb.to_string()),
    },
    Setting {
        name: "ROCFIRE_WATCH",
        values: SWITCH,
        about: "whether `rocfire top` finds the process, by a socket in the folder of compiled kernels that a sleeping thread answers",
        parse: |config, text| switch(text).map(|on| config.watch = on),
        show: |config| show_switch(config.watch),
    },
    Setting {
        name: "ROCFIRE_PROFILE",
        values: PROFILE,
        about: "whether launches are timed and go to a Chrome trace, or the emulator counts each by instruction, in all or \
                N of its workgroups",
        parse: profile,
        show: show_profile,
    },
];

impl Setting {
    /// Takes the variable's value; an empty one changes nothing.
    pub(super) fn set(&self, config: &mut Config, value: &OsStr) -> Result<()> {
        let wrong = |expected| Error::Config { name: self.name, value: value.to_string_lossy().into_owned(), expected };
        let text = value.to_str().ok_or_else(|| wrong("UTF-8".to_owned()))?.trim();
        if text.is_empty() {
            return Ok(());
        }
        (self.parse)(config, text).map_err(wrong)
    }
}

const NO_PACKS: &str = "none";

fn show_packs(config: &Config) -> String {
    match config.packs.as_deref() {
        None => "*.rocpack beside the program".to_owned(),
        Some([]) => NO_PACKS.to_owned(),
        Some(paths) => match std::env::join_paths(paths) {
            Ok(joined) => joined.to_string_lossy().into_owned(),
            // A path with the separator in it, which no variable can hold.
            Err(_) => format!("{paths:?}"),
        },
    }
}

const SWITCH: &str = "1 or 0";
const PRECISIONS: [(&str, Precision); 3] =
    [("f32", Precision::F32), ("bf16", Precision::Bf16), ("f16", Precision::F16)];
const GENERIC: [(&str, Generic); 3] =
    [("first", Generic::First), ("always", Generic::Always), ("never", Generic::Never)];

fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => Ok(true),
        "0" | "false" | "off" | "no" => Ok(false),
        _ => Err(SWITCH.to_owned()),
    }
}

fn show_switch(on: bool) -> String {
    u8::from(on).to_string()
}

const PROFILE: &str = "off, timed:FILE, modelled or modelled:N";

fn profile(config: &mut Config, text: &str) -> Result<(), String> {
    if let Some(path) = text.strip_prefix("timed:").filter(|path| !path.is_empty()) {
        config.timed = Some(PathBuf::from(path));
        return Ok(());
    }
    if matches!(text, "off" | "0" | "none") {
        config.timed = None;
        #[cfg(feature = "emulated")]
        {
            config.profile = None;
        }
        return Ok(());
    }
    #[cfg(feature = "emulated")]
    {
        let groups = match text.split_once(':') {
            None if text == "modelled" => Some(None),
            Some(("modelled", groups)) => groups.parse().ok().filter(|&groups| groups > 0).map(Some),
            _ => None,
        };
        if let Some(groups) = groups {
            config.profile = Some(Sample { groups, skip_others: false, timeline: false });
            return Ok(());
        }
    }
    Err(PROFILE.to_owned())
}

fn show_profile(config: &Config) -> String {
    if let Some(path) = &config.timed {
        return format!("timed:{}", path.display());
    }
    #[cfg(feature = "emulated")]
    match config.profile {
        None => {}
        Some(Sample { groups: None, .. }) => return "modelled".to_owned(),
        Some(Sample { groups: Some(groups), .. }) => return format!("modelled:{groups}"),
    }
    "off".to_owned()
}

fn number(text: &str, least: u64) -> Result<u64, String> {
    // Mebibytes are multiplied to bytes later, which must not overflow.
    const MOST: u64 = u64::MAX >> 20;
    let number = text.parse().ok().filter(|number| (least..=MOST).contains(number));
    number.ok_or_else(|| format!("a whole number from {least} to {MOST}"))
}

fn choose<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let choice = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let names = || format!("one of {}", choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "));
    choice.map(|(_, value)| *value).ok_or_else(names)
}

fn show_choice<T: PartialEq>(value: T, choices: &[(&str, T)]) -> String {
    let choice = choices.iter().find(|(_, choice)| *choice == value);
    choice.expect("the table of choices has every variant, which a test checks").0.to_owned()
}

type CheckField = fn(&mut Checks) -> &mut bool;
const CHECKS: [(&str, CheckField); 8] = [
    ("barriers", |checks| &mut checks.barriers),
    ("poison", |checks| &mut checks.poison),
    ("unwritten", |checks| &mut checks.unwritten),
    ("lds-race", |checks| &mut checks.lds_race),
    ("equal-write", |checks| &mut checks.equal_write),
    ("global-race", |checks| &mut checks.global_race),
    ("shuffle", |checks| &mut checks.shuffle),
    ("waitcnt", |checks| &mut checks.waitcnt),
];

fn wave_turn(text: &str) -> Result<Option<NonZeroU32>, String> {
    match text {
        "barrier" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| "not a number of instructions, nor `barrier`".to_owned()),
    }
}

fn checks(text: &str) -> Result<Checks, String> {
    let mut checks = Checks::NONE;
    match text {
        "off" | "0" | "none" => return Ok(checks),
        "all" | "1" => {
            CHECKS.iter().for_each(|(_, field)| *field(&mut checks) = true);
            return Ok(checks);
        }
        _ => {}
    }
    for part in text.split(',').map(str::trim) {
        let Some((_, field)) = CHECKS.iter().find(|(name, _)| *name == part) else {
            let names = CHECKS.map(|(name, _)| name).join(", ");
            return Err(format!("none, all, or a list of {names}; {part:?} is none of them"));
        };
        *field(&mut checks) = true;
    }
    Ok(checks)
}

fn show_checks(mut checks: Checks) -> String {
    let on = CHECKS.iter().filter_map(|(name, field)| field(&mut checks).then_some(*name)).collect::<Vec<_>>();
    if on.is_empty() { "none".to_owned() } else { on.join(",") }
}
