//! Every name that a user, a driver or a code object can hand us.

use proptest::prelude::*;
use rocfire_arch::{Arch, DEFAULT_EMULATED, Error, Feature, Matrix, Target, Vendor};

#[test]
fn every_row_parses_to_itself() {
    for (row, arch) in Arch::all().enumerate() {
        assert_eq!(Arch::parse(arch.name()), Ok(arch));
        assert_eq!(arch.row(), row);
        assert_eq!(Arch::from_row(row), Some(arch));
    }
    assert_eq!(Arch::from_row(Arch::all().count()), None);
}

/// Device ids carry a row's index, so a row that moves breaks what others have stored.
#[test]
fn rows_keep_their_places() {
    let rows = [
        "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012", "gfx1030", "gfx1031",
        "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150",
        "gfx1151", "gfx1152", "gfx1153", "gfx1200", "gfx1201", "gfx1250", "sm_80", "sm_89", "sm_90",
    ];
    let table: Vec<_> = Arch::all().map(Arch::name).collect();
    assert_eq!(table[..rows.len()], rows);
}

#[test]
fn features_are_read_and_printed() {
    let target = Target::parse("gfx942:sramecc+:xnack-").unwrap();
    assert_eq!((target.arch.name(), target.sramecc, target.xnack), ("gfx942", Feature::On, Feature::Off));
    assert_eq!(target.to_string(), "gfx942:sramecc+:xnack-");
    assert_eq!(Target::parse("gfx90a:xnack+").unwrap().to_string(), "gfx90a:xnack+");
}

#[test]
fn withdrawn_names_are_refused_by_name() {
    for name in ["gfx940", "gfx941", "gfx940:sramecc+"] {
        let error = Arch::parse(name).unwrap_err();
        assert!(matches!(error, Error::Removed { .. }), "{error}");
        assert!(error.to_string().contains("gfx942"), "{error}");
    }
}

#[test]
fn wrong_names_and_features_are_refused() {
    for name in ["", "gfx", "gfx9420", "GFX942", "sm_70", "cpu"] {
        assert!(matches!(Arch::parse(name), Err(Error::Unknown { .. })), "{name}");
    }
    for name in ["gfx942:", "gfx942:xnack", "gfx942:xnack++", "gfx942:ecc+", "gfx942:xnack+:xnack-", "gfx1100:xnack-"] {
        assert!(matches!(Arch::parse(name), Err(Error::Feature { .. })), "{name}");
    }
}

#[test]
fn machine_numbers_are_unique_and_found() {
    for arch in Arch::all().filter(|arch| arch.info().vendor == Vendor::Amd) {
        let machine = arch.info().elf_machine.unwrap();
        assert_eq!(Arch::from_elf_machine(machine), Some(arch));
    }
    assert_eq!(Arch::from_elf_machine(0), None);
}

#[test]
fn the_default_is_emulated() {
    let info = Arch::parse(DEFAULT_EMULATED).unwrap().info();
    assert_eq!(info.evidence, rocfire_arch::Evidence::Emulated);
    assert_eq!(info.matrix, Matrix::Mfma(3));
}

#[test]
fn every_row_defines_the_same_macros() {
    let names = |arch: Arch| arch.info().defines().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let first = Arch::from_row(0).unwrap();
    for arch in Arch::all() {
        assert_eq!(names(arch), names(first));
    }
}

proptest! {
    #[test]
    fn features_do_not_change_the_architecture(row in 0..29_usize, ecc in any::<Option<bool>>(), xnack in any::<Option<bool>>()) {
        let arch = Arch::from_row(row).unwrap();
        let sign = |on| if on { '+' } else { '-' };
        let mut name = arch.name().to_owned();
        if let Some(on) = ecc.filter(|_| arch.info().sramecc) { name.push_str(&format!(":sramecc{}", sign(on))); }
        if let Some(on) = xnack.filter(|_| arch.info().xnack) { name.push_str(&format!(":xnack{}", sign(on))); }
        prop_assert_eq!(Arch::parse(&name), Ok(arch));
        prop_assert_eq!(Target::parse(&name).unwrap().to_string(), name);
    }

    #[test]
    fn any_text_is_an_answer(name in ".{0,40}") {
        if let Ok(target) = Target::parse(&name) {
            prop_assert_eq!(Target::parse(&target.to_string()), Ok(target));
        }
    }
}
