use std::ffi::OsString;
use std::path::Path;

use super::*;

fn from(vars: &[(&str, &str)]) -> Result<(Config, Vec<String>)> {
    Config::from_vars(vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
}

fn with(name: &str, value: &str) -> Config {
    from(&[(name, value)]).unwrap().0
}

fn refused(name: &str, value: &str) -> String {
    from(&[(name, value)]).unwrap_err().to_string()
}

/// Two packs, as PATH has two folders.
#[cfg(unix)]
const PACKS: &str = "/a/one.rocpack:two";
#[cfg(windows)]
const PACKS: &str = "/a/one.rocpack;two";

/// Each variable with a value that is not the default, and the same through the builder.
fn twins() -> Vec<(&'static str, &'static str, Config)> {
    let base = Config::default;
    let arch = rocfire_arch::Arch::parse("gfx1100").unwrap();
    #[cfg_attr(not(feature = "emulated"), allow(unused_mut))] // The last row is the emulator's.
    let mut twins = vec![
        ("ROCFIRE_DEVICE", "emulated:gfx1100", base().with_device(DeviceChoice::Emulated(arch, 0))),
        ("ROCFIRE_LOG", "debug", base().with_log(Level::Debug)),
        ("ROCFIRE_CACHE_DIR", "/somewhere", base().with_cache_dir("/somewhere".into())),
        ("ROCFIRE_CACHE_MB", "17", base().with_cache_mb(17)),
        ("ROCFIRE_PACKS", PACKS, base().with_packs(vec!["/a/one.rocpack".into(), "two".into()])),
        ("ROCFIRE_FUSION", "0", base().with_fusion(false)),
        ("ROCFIRE_REPLAY", "1", base().with_replay(true)),
        ("ROCFIRE_RECOMPUTE_KB", "17", base().with_recompute_kb(17u64)),
        ("ROCFIRE_GENERIC", "always", base().with_generic(Generic::Always)),
        ("ROCFIRE_MATRIX", "0", base().with_matrix(false)),
        ("ROCFIRE_VENDOR", "0", base().with_vendor(false)),
        ("ROCFIRE_AITER", "1", base().with_aiter(true)),
        ("ROCFIRE_AITER_DIR", "/tmp/aiter", base().with_aiter_dir("/tmp/aiter".into())),
        ("ROCFIRE_AITER_DECODE", "1", base().with_aiter_decode(true)),
        ("ROCFIRE_AITER_CODES", "1", base().with_aiter_codes(true)),
        ("ROCFIRE_PRESHUFFLE", "0", base().with_preshuffle(false)),
        ("ROCFIRE_TUNING", "/tmp/t.csv", base().with_tuning(PathBuf::from("/tmp/t.csv"))),
        ("ROCFIRE_TUNING_RECORD", "/tmp/s.csv", base().with_tuning_record(PathBuf::from("/tmp/s.csv"))),
        ("ROCFIRE_PRECISION", "bf16", base().with_precision(Precision::Bf16)),
        ("ROCFIRE_SYNC", "1", base().with_sync(true)),
        ("ROCFIRE_DETERMINISTIC", "1", base().with_deterministic(true)),
        ("ROCFIRE_CHECK", "poison", base().with_checks(Checks { poison: true, ..Checks::NONE })),
        ("ROCFIRE_WAVE_TURN", "20", base().with_wave_turn(20.try_into().unwrap())),
        ("ROCFIRE_HANG_SECONDS", "600", base().with_hang_seconds(600)),
        ("ROCFIRE_CHECK_INDEX", "0", base().with_check_index(false)),
        ("ROCFIRE_COMPILE_JOBS", "1", base().with_compile_jobs(1)),
        ("ROCFIRE_POOL_MB", "64", base().with_pool_mb(64)),
        ("ROCFIRE_WATCH", "0", base().with_watch(false)),
    ];
    #[cfg(feature = "emulated")]
    {
        let sample = crate::modelled::Sample { groups: Some(16), skip_others: false, timeline: false };
        twins.push(("ROCFIRE_PROFILE", "modelled:16", base().with_profile(sample)));
    }
    #[cfg(not(feature = "emulated"))]
    twins.push(("ROCFIRE_PROFILE", "timed:trace.json", base().with_timed("trace.json".into())));
    twins
}

#[test]
fn every_setting_has_a_twin_in_the_builder() {
    let twins = twins();
    let names: Vec<&str> = twins.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, SETTINGS.iter().map(|setting| setting.name).collect::<Vec<_>>());
    for (name, value, built) in twins {
        assert_ne!(built, Config::default(), "{name}");
        assert_eq!(with(name, value), built, "{name}={value}");
    }
}

#[test]
fn shown_values_are_read_back() {
    for (name, value, built) in twins() {
        let setting = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
        assert_eq!((setting.show)(&built), value, "{name}");
        assert_eq!(with(name, &(setting.show)(&built)), built, "{name}");
    }
}

#[test]
fn defaults_lower_nothing_and_fuse() {
    let (config, unknown) = from(&[]).unwrap();
    assert_eq!(config, Config::default());
    assert!(unknown.is_empty());
    assert_eq!(config.precision, Precision::F32);
    assert!(config.fusion && config.matrix && !config.sync && config.checks.barriers);
    assert!(config.cache_dir.ends_with("rocfire"));
}

#[test]
fn empty_variables_leave_the_default() {
    for setting in SETTINGS {
        assert_eq!(with(setting.name, ""), Config::default(), "{}", setting.name);
        assert_eq!(with(setting.name, "  "), Config::default(), "{}", setting.name);
    }
}

#[test]
fn switches_take_the_usual_words() {
    for (word, on) in
        [("1", true), ("on", true), ("TRUE", true), ("yes", true), ("0", false), ("off", false), ("No", false)]
    {
        assert_eq!(with("ROCFIRE_SYNC", word).sync, on, "{word}");
    }
}

#[test]
fn wrong_values_name_the_variable_and_what_was_expected() {
    for (name, value, expected) in [
        ("ROCFIRE_SYNC", "maybe", "1 or 0"),
        ("ROCFIRE_FUSION", "2", "1 or 0"),
        ("ROCFIRE_MATRIX", "x", "1 or 0"),
        ("ROCFIRE_DETERMINISTIC", "x", "1 or 0"),
        ("ROCFIRE_CACHE_MB", "-1", "a whole number from 0"),
        ("ROCFIRE_CACHE_MB", "99999999999999999999", "a whole number from 0"),
        ("ROCFIRE_POOL_MB", "0", "a whole number from 1"),
        ("ROCFIRE_COMPILE_JOBS", "0", "a whole number from 1"),
        ("ROCFIRE_PRECISION", "f64", "one of f32, bf16, f16"),
        ("ROCFIRE_LOG", "loud", "one of off, error, warn, info, debug, trace"),
        ("ROCFIRE_CHECK", "barriers,speed", "\"speed\" is none of them"),
        ("ROCFIRE_DEVICE", "gpu", "hip:N, cuda:N, emulated:ARCH[:N] or noop:ARCH[:N]"),
        ("ROCFIRE_DEVICE", "hip:first", "hip:N with the index of a device"),
        ("ROCFIRE_DEVICE", "emulated:gfx940", "gfx942"),
        ("ROCFIRE_DEVICE", "emulated:sm_90", "unknown GPU architecture"),
        ("ROCFIRE_DEVICE", "cuda:first", "cuda:N with the index of a device"),
    ] {
        let message = refused(name, value);
        assert!(message.starts_with(&format!("{name}={value:?}: expected ")), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn unknown_names_are_listed_once_and_those_of_tests_are_not() {
    let vars = [
        ("ROCFIRE_FUSSION", "1"),
        ("ROCFIRE_ZZZ", ""),
        ("ROCFIRE_TEST_HW", "1"),
        ("ROCFIRE_PATCH_CHECK", "0"),
        ("PATH", "/"),
        ("ROCFIRES", ""),
    ];
    let (config, unknown) = from(&vars).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(unknown, ["ROCFIRE_FUSSION", "ROCFIRE_ZZZ"]);
    let message = unknown_names(&unknown);
    assert!(message.contains("ROCFIRE_FUSSION, ROCFIRE_ZZZ") && message.contains("ROCFIRE_FUSION"), "{message}");
}

#[test]
fn checks_are_lists() {
    assert_eq!(with("ROCFIRE_CHECK", "all").checks, Checks::ALL);
    assert_eq!(with("ROCFIRE_CHECK", "off").checks, Checks::NONE);
    assert_eq!(with("ROCFIRE_CHECK", "none").checks, Checks::NONE);
    assert_eq!(with("ROCFIRE_CHECK", "poison, barriers").checks, Checks { poison: true, ..Checks::default() });
    let some = Checks { lds_race: true, global_race: true, unwritten: true, waitcnt: true, ..Checks::NONE };
    assert_eq!(with("ROCFIRE_CHECK", "unwritten,lds-race,global-race,waitcnt").checks, some);
}

#[cfg(feature = "emulated")]
#[test]
fn profiles_are_off_whole_or_sampled() {
    let sample = |groups| Some(crate::modelled::Sample { groups, skip_others: false, timeline: false });
    assert_eq!(with("ROCFIRE_PROFILE", "off").profile, None);
    assert_eq!(with("ROCFIRE_PROFILE", "modelled").profile, sample(None));
    assert_eq!(with("ROCFIRE_PROFILE", "modelled:16").profile, sample(Some(16)));
    for wrong in ["measured", "modelled:0", "modelled:x", "modelled:"] {
        assert!(refused("ROCFIRE_PROFILE", wrong).contains("off, timed:FILE, modelled or modelled:N"), "{wrong}");
    }
}

#[test]
fn timed_launches_go_to_a_file() {
    assert_eq!(with("ROCFIRE_PROFILE", "timed:a b.json").timed, Some("a b.json".into()));
    assert_eq!(with("ROCFIRE_PROFILE", "off").timed, None);
    assert!(refused("ROCFIRE_PROFILE", "timed:").contains("timed:FILE"));
}

#[test]
fn devices_are_chosen_by_name() {
    let choice = |text| with("ROCFIRE_DEVICE", text).device.unwrap();
    assert_eq!(choice("hip"), DeviceChoice::Hip(0));
    assert_eq!(choice("hip:3"), DeviceChoice::Hip(3));
    assert_eq!(choice("cuda"), DeviceChoice::Cuda(0));
    assert_eq!(choice("cuda:2").to_string(), "cuda:2");
    assert_eq!(choice("emulated").to_string(), format!("emulated:{}", rocfire_arch::DEFAULT_EMULATED));
    assert_eq!(choice("emulated:gfx1100:2").id().unwrap().ordinal(), 2);
    assert_eq!(choice("emulated:gfx90a:xnack-:1").to_string(), "emulated:gfx90a:1");
    assert!(refused("ROCFIRE_DEVICE", "emulated:1").contains("architecture"));
    assert_eq!(choice("noop:gfx90a:xnack-").to_string(), "noop:gfx90a");
    let id = crate::DeviceId::choose(&with("ROCFIRE_DEVICE", "noop:gfx1030")).unwrap();
    assert_eq!(id.to_string(), "noop:gfx1030");
}

#[cfg(unix)]
#[test]
fn values_that_are_not_text_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let vars = [(OsString::from("ROCFIRE_LOG"), OsString::from_vec(vec![0xff]))];
    assert!(Config::from_vars(vars).unwrap_err().to_string().contains("expected UTF-8"));
}

#[test]
fn compile_jobs_are_limited_by_cores() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = crate::compile::jobs(&Config::default().with_compile_jobs(10_000));
    assert!((1..=cores).contains(&jobs), "{jobs}");
    assert_eq!(crate::compile::jobs(&Config::default().with_compile_jobs(1)), 1);
}

#[test]
fn packs_can_be_none_and_are_those_beside_the_program_unless_said() {
    assert_eq!(with("ROCFIRE_PACKS", "none").packs, Some(Vec::new()));
    assert_eq!(Config::default().packs, None);
}

#[test]
fn cache_folder_is_absolute() {
    assert!(Path::new(&Config::default().cache_dir).is_absolute());
}
