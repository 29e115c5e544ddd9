//! What every architecture does with every operator and type: native, decoded, refused.

use std::collections::BTreeMap;
use std::fmt::Write;

use rocfire_arch::Arch;
use rocfire_hal::DType;
use rocfire_kernels::quant::{CodeProduct, Format, code_product};
use rocfire_kernels::registry::{Way, registry, way};

/// Parts of other operators, which nobody calls by themselves.
const PARTS: [&str; 5] = ["direct", "channels_last", "block_scales", "sorted_update", "compact"];

/// Operators that are graphs of `fusion`, for any float.
const FUSED: [&str; 12] = [
    "norm",
    "norm_backward",
    "group_norm",
    "group_norm_backward",
    "gate",
    "gate_backward",
    "softmax",
    "softmax_backward",
    "log_softmax",
    "log_softmax_backward",
    "cross_entropy",
    "cross_entropy_backward",
];

/// Formats that are multiplied by each other.
const FORMATS: [Format; 7] =
    [Format::I8, Format::I4, Format::E4M3, Format::E5M2, Format::E2M1, Format::E4M3Fnuz, Format::E5M2Fnuz];

/// A cell of the tables.
const fn word(way: Option<Way>) -> &'static str {
    match way {
        Some(Way::Matrix) => "matrix",
        Some(Way::Vector) => "vector",
        Some(Way::Decoded) => "decoded",
        None => "refused",
    }
}

/// What names a row, and what an architecture's column says of it.
type Cell = ((String, String), &'static str);

/// What a column says of every row.
fn column(arch: Arch) -> Vec<Cell> {
    let mut have: BTreeMap<&'static str, Vec<DType>> = BTreeMap::new();
    for entry in registry(arch).iter().filter(|entry| !PARTS.contains(&entry.operator)) {
        let dtypes = have.entry(entry.operator).or_default();
        if dtypes.last() != Some(&entry.dtype) {
            dtypes.push(entry.dtype);
        }
    }
    for operator in FUSED {
        have.insert(operator, DType::ALL.into_iter().filter(|dtype| dtype.is_float()).collect());
    }
    // What these multiply is codes, of which the other table tells.
    have.remove("q_matmul_scaled");
    have.remove("q_matmul_scaled_grouped");
    let mut rows = Vec::new();
    for (operator, dtypes) in have {
        for dtype in DType::ALL {
            let way = dtypes.contains(&dtype).then(|| way(arch, operator, dtype));
            rows.push(((format!("`{operator}`"), dtype.name().to_owned()), word(way)));
        }
    }
    rows
}

/// The same for products of codes.
fn code_column(arch: Arch) -> Vec<Cell> {
    let mut rows = Vec::new();
    for (number, a) in FORMATS.into_iter().enumerate() {
        for b in FORMATS.into_iter().skip(number) {
            let said = match code_product(arch, a, b) {
                Some(CodeProduct::Native) => "native",
                Some(CodeProduct::Decoded) => "decoded",
                None => "refused",
            };
            rows.push(((format!("{a:?}"), format!("{b:?}")), said));
        }
    }
    rows
}

/// The tables in Markdown: `tests/architectures.md`, word for word.
pub fn architectures() -> String {
    let mut text = String::from(INTRODUCTION);
    table(&mut text, ["operator", "types"], column);
    text.push_str(CODES);
    table(&mut text, ["a", "b"], code_column);
    text
}

const INTRODUCTION: &str = "\
# Operators by architecture

Written from the code by `ROCFIRE_BLESS=1 cargo test --test coverage`; the same test fails when it is out of date.

- *matrix*: the products are the matrix unit's, in this type. `ROCFIRE_MATRIX=0` leaves it out.
- *vector*: on the vector units; 16-bit floats are computed in f32 and rounded once.
- *decoded*: codes become this type in registers, and products are the matrix unit's where it has them.
- *refused*: the launcher returns an error that names operator, type and architecture, before any launch.

## By element type

";

const CODES: &str = "
## Products of codes (`q_matmul_scaled`, `q_matmul_scaled_grouped`)

With scales by row, by block (1×128 · 128×128) or microscaled (E8M0 for each 32), which are applied to sums in registers, by the
matrix unit itself where it takes E8M0 (gfx950). *native*: codes are operands of the matrix unit as they are, those of 4 bits with E8M0 or
blocks of multiples of 128 along K; *decoded*: in registers to bf16, exactly. Either side may be of either format. I2 is refused. OCP's E4M3 codes become those of an architecture with the other kind by `halve_to_fnuz`.

";

/// Architectures whose columns are equal share one; rows of one operator whose cells are equal share one.
fn table(text: &mut String, head: [&str; 2], column: impl Fn(Arch) -> Vec<Cell>) {
    let mut columns: Vec<(Vec<&'static str>, Vec<Cell>)> = Vec::new();
    for arch in Arch::all() {
        let cells = column(arch);
        match columns.iter_mut().find(|(_, other)| *other == cells) {
            Some((names, _)) => names.push(arch.name()),
            None => columns.push((vec![arch.name()], cells)),
        }
    }
    let expected = "writing to a string cannot fail";
    let names = columns.iter().map(|(names, _)| names.join(" ")).collect::<Vec<_>>().join(" | ");
    writeln!(text, "| {} | {} | {names} |", head[0], head[1]).expect(expected);
    writeln!(text, "|{}", " --- |".repeat(2 + columns.len())).expect(expected);
    let mut rows: Vec<(String, Vec<String>, Vec<&'static str>)> = Vec::new();
    for (number, ((first, second), _)) in columns.first().map_or(&[][..], |(_, cells)| cells).iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|(_, cells)| cells[number].1).collect();
        match rows.iter_mut().find(|(other, _, others)| other == first && *others == cells) {
            Some((_, seconds, _)) => seconds.push(second.clone()),
            None => rows.push((first.clone(), vec![second.clone()], cells)),
        }
    }
    for (first, seconds, cells) in rows {
        writeln!(text, "| {first} | {} | {} |", seconds.join(" "), cells.join(" | ")).expect(expected);
    }
}
