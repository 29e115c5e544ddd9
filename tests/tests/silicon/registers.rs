//! The registers that a case names, by their numbers.

use std::ops::Range;

use rocfire_emulator::filetest::{Case, Location, place};

/// The last scalar register that a wave of any family has. Of the numbers behind it some are VCC's, which cases use.
pub const LAST_SCALAR: u16 = 101;

/// The highest registers of each kind that a case names, if it names any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Of `s0` to `s101`.
    pub scalar: Option<u16>,
    /// Of `v0` to `v255`.
    pub vector: Option<u16>,
    /// Of `a0` to `a255`.
    pub accumulation: Option<u16>,
}

impl Named {
    /// In its instructions, and in what is set and compared.
    pub fn of(case: &Case) -> Named {
        let mut named = Named::default();
        let texts = case.code.iter().map(|(_, text)| text.as_str());
        let places = case.init.iter().chain(&case.expect).map(|(place, _)| place.split('.').next().unwrap_or_default());
        for text in texts.chain(places) {
            text.split(|c: char| !(c.is_ascii_alphanumeric() || "_[]:".contains(c))).for_each(|word| named.add(word));
        }
        named
    }

    fn add(&mut self, word: &str) {
        let Some((file, number)) = word.split_at_checked(1) else { return };
        let last = match number.strip_prefix('[').and_then(|range| range.strip_suffix(']')) {
            Some(range) => range.rsplit(':').next().unwrap_or(range),
            None => number,
        };
        let Ok(last) = last.parse::<u16>() else { return };
        let highest = match file {
            "s" if last <= LAST_SCALAR => &mut self.scalar,
            "v" => &mut self.vector,
            "a" => &mut self.accumulation,
            _ => return,
        };
        *highest = Some(highest.map_or(last, |highest| highest.max(last)));
    }
}

/// The vector registers among places, accumulation registers from 256 on.
pub fn vectors(pairs: &[(String, String)], lanes: usize) -> Vec<u16> {
    registers(pairs, lanes, |place| match place {
        Location::Vector { first, dwords, .. } => Some(first..first + dwords),
        _ => None,
    })
}

/// The scalar registers among places, by their numbers as operands.
pub fn scalars(pairs: &[(String, String)], lanes: usize) -> Vec<u16> {
    registers(pairs, lanes, |place| match place {
        Location::Scalar { first, dwords } => Some(first..first + dwords),
        _ => None,
    })
}

/// Those that `of` takes of places, in order, each once.
fn registers(pairs: &[(String, String)], lanes: usize, of: impl Fn(Location) -> Option<Range<u16>>) -> Vec<u16> {
    let mut registers: Vec<u16> = pairs.iter().filter_map(|(name, _)| of(place(name, lanes)?)).flatten().collect();
    registers.sort_unstable();
    registers.dedup();
    registers
}
