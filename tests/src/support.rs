//! What the cases say: which operator has which dtype on which device, and how much of it they try.

use std::collections::BTreeMap;
use std::fmt::Write;

use rocfire_arch::{Arch, Evidence};
use rocfire_hal::DType;

use crate::case::SizeClass;
use crate::{Case, expectation};

/// How much was tried of one operator with one dtype.
#[derive(Clone, Copy, Default)]
struct Count {
    by_class: [usize; SizeClass::ALL.len()],
    strided: usize,
}

impl Count {
    fn all(self) -> usize {
        self.by_class.iter().sum()
    }
}

type Counts = BTreeMap<&'static str, BTreeMap<&'static str, Count>>;

/// The report in Markdown: `tests/operators.md`, word for word.
pub fn report(cases: &[Case]) -> String {
    let mut counts = Counts::new();
    for case in cases {
        let count = counts.entry(case.operator).or_default().entry(case.dtype.name()).or_default();
        count.by_class[case.class as usize] += 1;
        count.strided += usize::from(case.strided);
    }
    let mut text = String::from(INTRODUCTION);
    let expected = "writing to a string cannot fail";
    write!(text, "{} cases of {} operators.\n\n", cases.len(), counts.len()).expect(expected);
    support(&mut text, cases, &counts);
    devices(&mut text, cases);
    coverage(&mut text, &counts);
    text
}

const INTRODUCTION: &str = "\
# Operators

Written from the cases by `ROCFIRE_BLESS=1 cargo test --test coverage`; the same test fails when it is out of date.
`cargo verify` runs every case against an f64 oracle. These are the kernels; Burn's operators, of which one may be several
launches, are compared with Burn's Flex in `backend/burn/tests`.

";

/// Operator by dtype.
fn support(text: &mut String, cases: &[Case], counts: &Counts) {
    let dtypes: Vec<&str> = DType::ALL
        .iter()
        .map(|dtype| dtype.name())
        .filter(|name| cases.iter().any(|case| case.dtype.name() == *name))
        .collect();
    text.push_str("## Operator and dtype\n\nThe number of cases.\n\n");
    row(text, std::iter::once("operator".to_owned()).chain(dtypes.iter().map(|name| (*name).to_owned())));
    row(text, (0..=dtypes.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned()));
    for (operator, by_dtype) in counts {
        let cells = dtypes.iter().map(|name| by_dtype.get(name).map_or(String::new(), |count| count.all().to_string()));
        row(text, std::iter::once(format!("`{operator}`")).chain(cells));
    }
    text.push('\n');
}

/// Operator by device: the cases are the same on all, so what is told is where one is known to fail.
fn devices(text: &mut String, cases: &[Case]) {
    let mut failures = Vec::new();
    for arch in Arch::all() {
        for case in cases {
            if let Some(row) = expectation(case, arch) {
                let line = format!("- `{}` of {} on {}: {}\n", case.operator, case.dtype, arch.name(), row.reason);
                if !failures.contains(&line) {
                    failures.push(line);
                }
            }
        }
    }
    text.push_str("## Devices\n\nThe cases are one list for every device: ");
    text.push_str(&Arch::all().map(|arch| format!("`{}`", arch.name())).collect::<Vec<_>>().join(", "));
    let emulated = Arch::all().filter(|arch| arch.info().evidence == Evidence::Emulated);
    text.push_str(".\n\nAll pass on these, emulated: ");
    text.push_str(&emulated.map(|arch| format!("`{}`", arch.name())).collect::<Vec<_>>().join(", "));
    text.push_str(". For others kernels compile. What is known to fail:\n\n");
    if failures.is_empty() {
        text.push_str("- nothing\n");
    }
    failures.iter().for_each(|line| text.push_str(line));
    text.push('\n');
}

/// Operator and dtype by size class.
fn coverage(text: &mut String, counts: &Counts) {
    text.push_str("## Sizes\n\nCases by the number of elements of their largest array, and of them those that read an input that is not row-major.\n\n");
    row(text, ["operator", "dtype", "empty", "1", "2 to 1023", "1024 and more", "not row-major"].map(str::to_owned));
    row(text, ["---", "---", "---:", "---:", "---:", "---:", "---:"].map(str::to_owned));
    for (operator, by_dtype) in counts {
        for (dtype, count) in by_dtype {
            let number = |count: usize| if count == 0 { String::new() } else { count.to_string() };
            let classes = count.by_class.iter().map(|&count| number(count));
            let names = [format!("`{operator}`"), (*dtype).to_owned()];
            row(text, names.into_iter().chain(classes).chain([number(count.strided)]));
        }
    }
}

fn row(text: &mut String, cells: impl IntoIterator<Item = String>) {
    for cell in cells {
        text.push_str("| ");
        text.push_str(&cell);
        text.push(' ');
    }
    text.push_str("|\n");
}
