//! Places of the state and values, as filetests name them.

use crate::wave::{AGPR, scalar};

/// What a value's text comes to in a lane; `mem` is the address of the buffer. `None` if it is no value.
pub fn value(text: &str, lane: usize, mem: u64) -> Option<u64> {
    if text == "mem" {
        return Some(mem);
    }
    if let Some(rest) = text.strip_prefix("lane") {
        let (factor, addend) = rest.split_once('+').unwrap_or((rest, "0"));
        let factor = factor.strip_prefix('*').unwrap_or("1");
        return Some(lane as u64 * factor.parse::<u64>().ok()? + addend.parse::<u64>().ok()?);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let (number, size) = text.split_at(text.len().checked_sub(1)?);
    match size {
        "h" => Some(u64::from(half::f16::from_f64(number.parse().ok()?).to_bits())),
        "f" if text != "inf" => Some(u64::from(number.parse::<f32>().ok()?.to_bits())),
        "d" => Some(number.parse::<f64>().ok()?.to_bits()),
        _ => text.parse::<i64>().ok().map(|value| value as u64),
    }
}

/// A place of the state: 32 bits, or as many dwords of registers that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// Scalar registers, VCC, M0 and EXEC among them, by their numbers as operands.
    Scalar {
        /// The first.
        first: u16,
        /// How many.
        dwords: u16,
    },
    /// Vector registers in lanes; accumulation registers are numbered from 256 on.
    Vector {
        /// The first.
        first: u16,
        /// How many.
        dwords: u16,
        /// In these lanes.
        lanes: std::ops::RangeInclusive<usize>,
    },
    /// SCC.
    Scc,
    /// The register MODE.
    Mode,
    /// The dword at a byte of LDS.
    Lds(u64),
    /// The dword at a byte of the buffer in device memory.
    Mem(u64),
}

impl Location {
    /// The lanes and dwords that it covers; one lane where it is not in lanes.
    pub fn extent(&self) -> (std::ops::RangeInclusive<usize>, u16) {
        match self {
            Location::Vector { dwords, lanes, .. } => (lanes.clone(), *dwords),
            Location::Scalar { dwords, .. } => (0..=0, *dwords),
            Location::Scc | Location::Mode | Location::Lds(_) | Location::Mem(_) => (0..=0, 1),
        }
    }
}

/// The place of a name, in a wave of so many lanes. `None` if it names none.
pub fn place(name: &str, lanes_of_wave: usize) -> Option<Location> {
    let (register, lanes) = match name.split_once('.') {
        Some((register, lanes)) => (register, Some(lanes)),
        None => (name, None),
    };
    match register {
        "scc" => return Some(Location::Scc),
        "mode" => return Some(Location::Mode),
        "m0" => return Some(Location::Scalar { first: scalar::M0, dwords: 1 }),
        "vcc" => return Some(Location::Scalar { first: scalar::VCC, dwords: 2 }),
        "exec" => return Some(Location::Scalar { first: scalar::EXEC, dwords: 2 }),
        "lds" => return Some(Location::Lds(lanes?.parse().ok()?)),
        "mem" => return Some(Location::Mem(lanes?.parse().ok()?)),
        _ => {}
    }
    let (file, number) = register.split_at_checked(1)?;
    let (first, dwords) = match number.strip_prefix('[').and_then(|range| range.strip_suffix(']')) {
        Some(range) => {
            let (first, last) = range.split_once(':')?;
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            (first, (last + 1).checked_sub(first)?)
        }
        None => (number.parse().ok()?, 1),
    };
    let lanes = match lanes {
        None => 0..=lanes_of_wave - 1,
        Some(lanes) => {
            let (first, last) = lanes.split_once('-').unwrap_or((lanes, lanes));
            first.parse().ok()?..=last.parse().ok()?
        }
    };
    match file {
        "s" => Some(Location::Scalar { first, dwords }),
        "v" => Some(Location::Vector { first, dwords, lanes }),
        "a" => Some(Location::Vector { first: AGPR + first, dwords, lanes }),
        _ => None,
    }
}
