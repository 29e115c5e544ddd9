//! That every instruction of every code object decodes, of those that no family describes too.

use std::fs;

use object::{Object as _, ObjectSection as _};
use rayon::prelude::*;
use rocfire_arch::Arch;

use crate::bench::Unrun;
use crate::case::Object;

/// What came of decoding.
#[derive(Default)]
pub struct Decoded {
    /// Instructions that decode.
    pub instructions: usize,
    /// What does not, one line each.
    pub refused: Vec<String>,
}

/// Decodes the code of all.
///
/// # Errors
/// A file cannot be read, or is no code object.
pub fn all(objects: &[Object]) -> Result<Decoded, Unrun> {
    let parts: Vec<Decoded> = objects.par_iter().map(one).collect::<Result<_, _>>()?;
    Ok(parts.into_iter().fold(Decoded::default(), |mut all, part| {
        all.instructions += part.instructions;
        all.refused.extend(part.refused);
        all
    }))
}

fn one(object: &Object) -> Result<Decoded, Unrun> {
    let (arch, bytes) = (Arch::parse(object.arch)?, fs::read(&object.path)?);
    let broken = |error: object::Error| Unrun::Description(format!("{}: {error}", object.name));
    let file = object::File::parse(&*bytes).map_err(broken)?;
    let mut decoded = Decoded::default();
    for section in file.sections().filter(|section| section.kind() == object::SectionKind::Text) {
        let code = section.data().map_err(broken)?;
        let mut at = 0;
        while at < code.len() {
            at += match rocfire_isa::decode(arch, &code[at..]) {
                Ok(inst) => {
                    decoded.instructions += 1;
                    usize::from(inst.bytes)
                }
                Err(error) => {
                    decoded.refused.push(format!("{} {} at {at:#x}: {error}", object.arch, object.name));
                    4
                }
            };
        }
    }
    Ok(decoded)
}
