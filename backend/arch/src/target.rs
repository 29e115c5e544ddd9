//! Names: the bare architecture and the full target with its features.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::info::{ArchInfo, Vendor};
use crate::table::{REMOVED, ROWS};

/// An architecture of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch(u8);

impl Arch {
    /// The architecture of a bare or full target name: features are checked and dropped, so `gfx942`,
    /// `gfx942:sramecc+:xnack-` and `gfx942:xnack-` are one.
    ///
    /// # Errors
    /// As [`Target::parse`].
    pub fn parse(name: &str) -> Result<Arch, Error> {
        Target::parse(name).map(|target| target.arch)
    }

    /// The architecture of a row of the table, `None` past its end.
    pub fn from_row(row: usize) -> Option<Arch> {
        (row < ROWS.len()).then_some(Arch(row as u8))
    }

    /// Its row in the table: stable, since rows are only appended.
    pub fn row(self) -> usize {
        usize::from(self.0)
    }

    /// Everything known about it.
    pub fn info(self) -> &'static ArchInfo {
        &ROWS[self.row()]
    }

    /// AMD's or NVIDIA's name for it.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Every architecture, in the table's order.
    pub fn all() -> impl Iterator<Item = Arch> {
        (0..ROWS.len()).filter_map(Arch::from_row)
    }

    /// The architecture whose code objects carry this `EF_AMDGPU_MACH`.
    pub fn from_elf_machine(machine: u8) -> Option<Arch> {
        Arch::all().find(|arch| arch.info().elf_machine == Some(machine))
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arch {
    type Err = Error;
    fn from_str(name: &str) -> Result<Arch, Error> {
        Arch::parse(name)
    }
}

/// The setting of a feature that a target name can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Not said: a code object that runs with the feature on or off.
    Any,
    /// `+`.
    On,
    /// `-`.
    Off,
}

impl Feature {
    fn suffix(self) -> &'static str {
        match self {
            Feature::Any => "",
            Feature::On => "+",
            Feature::Off => "-",
        }
    }
}

/// A full target name as ROCm's drivers report it: `gfx942:sramecc+:xnack-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The architecture.
    pub arch: Arch,
    /// ECC in the register files and LDS.
    pub sramecc: Feature,
    /// Page faults that can be retried.
    pub xnack: Feature,
}

impl Target {
    /// Reads a target name.
    ///
    /// # Errors
    /// [`Error::Removed`] for a name AMD has withdrawn, [`Error::Unknown`] for one that is not in the table,
    /// [`Error::Feature`] for a feature that does not exist or that this architecture does not have.
    pub fn parse(name: &str) -> Result<Target, Error> {
        let mut parts = name.trim().split(':');
        let base = parts.next().unwrap_or_default();
        if let Some(&(_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == base) {
            return Err(Error::Removed { name: base.to_owned(), instead });
        }
        let arch = Arch::all().find(|arch| arch.name() == base).ok_or_else(|| Error::Unknown {
            name: base.to_owned(),
            known: ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", "),
        })?;
        let mut target = Target { arch, sramecc: Feature::Any, xnack: Feature::Any };
        for feature in parts {
            let wrong = || Error::Feature { target: name.to_owned(), feature: feature.to_owned() };
            let (field, exists) = match feature.trim_end_matches(['+', '-']) {
                "sramecc" => (&mut target.sramecc, arch.info().sramecc),
                "xnack" => (&mut target.xnack, arch.info().xnack),
                _ => return Err(wrong()),
            };
            let setting = match feature.as_bytes().last() {
                Some(b'+') => Feature::On,
                Some(b'-') => Feature::Off,
                _ => return Err(wrong()),
            };
            if !exists || *field != Feature::Any || feature.len() != feature.trim_end_matches(['+', '-']).len() + 1 {
                return Err(wrong());
            }
            *field = setting;
        }
        Ok(target)
    }

    /// Who makes it.
    pub fn vendor(&self) -> Vendor {
        self.arch.info().vendor
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.arch.name())?;
        for (name, feature) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if feature != Feature::Any {
                write!(f, ":{name}{}", feature.suffix())?;
            }
        }
        Ok(())
    }
}

impl FromStr for Target {
    type Err = Error;
    fn from_str(name: &str) -> Result<Target, Error> {
        Target::parse(name)
    }
}
