//! Filetests: `filetests/*.ir` holds cases of a first line `; test parse`, `; test verify` or `; test simplify`, a graph, a line
//! `----`, and what must come out. `ROCFIRE_BLESS=1` writes what does come out; review the difference.

use std::fs;
use std::path::{Path, PathBuf};

use rocfire_fusion::{Error, Graph};

const CASE_END: &str = "====";
const EXPECTED: &str = "----";

fn result(kind: &str, text: &str) -> String {
    let graph: Graph = match text.parse() {
        Ok(graph) => graph,
        Err(error) => return format!("error: {error}\n"),
    };
    let valid: Result<(), Error> = graph.verify();
    match (kind, valid) {
        ("parse", _) => graph.to_string(),
        (_, Err(error)) => format!("error: {error}\n"),
        ("verify", Ok(())) => "valid\n".to_owned(),
        ("simplify", Ok(())) => {
            let simple = graph.simplify();
            simple.verify().unwrap();
            assert_eq!(simple.simplify(), simple, "simplification is not finished after one run:\n{simple}");
            simple.to_string()
        }
        (other, Ok(())) => panic!("`{other}` is no kind of test"),
    }
}

/// Runs the cases of a file; gives the file as it should be.
fn blessed(path: &Path) -> (String, String) {
    let old = fs::read_to_string(path).unwrap();
    let cases: Vec<String> = old
        .split(&format!("{CASE_END}\n"))
        .map(|case| {
            let (input, _) = case.split_once(&format!("{EXPECTED}\n")).unwrap_or((case, ""));
            let first = input.lines().next().unwrap();
            let kind = first.strip_prefix("; test ").unwrap_or_else(|| panic!("{}: `{first}`", path.display()));
            format!("{input}{EXPECTED}\n{}", result(kind.trim(), input))
        })
        .collect();
    (old, cases.join(&format!("{CASE_END}\n")))
}

#[test]
fn every_case_gives_what_its_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let bless = std::env::var_os("ROCFIRE_BLESS").is_some();
    for path in paths {
        let (old, new) = blessed(&path);
        if bless {
            fs::write(&path, new).unwrap();
        } else {
            assert_eq!(old, new, "{}: run with ROCFIRE_BLESS=1 and review", path.display());
        }
    }
}

#[test]
fn printing_and_parsing_are_inverse_for_awkward_constants() {
    use rocfire_hal::DType;
    let mut g = Graph::new("constants");
    let values = [0.1, -0.0, f64::INFINITY, f64::MIN_POSITIVE, f64::NAN, 65504.0, 1e300];
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for value in values {
            let constant = g.constant(dtype, value);
            g.output(constant);
        }
    }
    for dtype in [DType::I64, DType::U64, DType::I8, DType::U8] {
        for value in [0, 1, -1, i64::MIN, i64::MAX] {
            let constant = g.constant(dtype, value);
            g.output(constant);
        }
    }
    let parsed: Graph = g.to_string().parse().unwrap();
    assert_eq!(parsed, g);
}
