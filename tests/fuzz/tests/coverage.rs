//! Every operator of Burn's backend traits and of Candle's tensors is called by a row, or has a reason why not.

use std::path::PathBuf;
use std::process::Command;

use rocfire_fuzz::{burn_rows, candle_rows};

/// What cargo prints.
fn cargo(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Where a package of the lock file lies. Cargo wants to have every package of the workspace for it, those that no default member
/// needs among them, and fetches what it lacks; packages of other platforms are left out.
fn sources(package: &str) -> PathBuf {
    let about = cargo(&["-vV"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform", host]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let manifest = packages.iter().find(|entry| entry["name"] == package).unwrap()["manifest_path"].as_str().unwrap();
    PathBuf::from(manifest).parent().unwrap().join("src")
}

/// Names of functions at one depth of indentation.
fn functions(text: &str, start: &str) -> Vec<String> {
    let name = |line: &str| -> Option<String> {
        let rest = line.strip_prefix(start)?;
        Some(rest.split(['(', '<']).next()?.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Burn's methods without a row.
const BURN: &[(&str, &str)] = &[
    ("from_data", "every input of a program"),
    ("into_data", "every read of a program"),
    ("to_device", "one device: backend/burn/tests/ops/devices.rs moves between two"),
    ("_empty", "its elements are whatever memory holds"),
    ("_random", "each backend has its own numbers: backend/burn/tests/ops/random.rs"),
    ("float_detach", "the family of gradients calls it"),
    ("require_grad", "the family of gradients calls it"),
    ("deform_conv2d_backward", "jumps where an offset crosses a cell: backend/burn/tests/ops/modules.rs"),
    ("ctc_loss", "targets and lengths depend on each other: backend/burn/tests/ops/ctc.rs"),
    ("quantize", "the rows of quantised tensors call them: `codes`, `codes_by_range` and `decoded`"),
    (
        "q_",
        "Burn's own way by floats, or as those that have rows; backend/burn/tests/ops/quantized.rs goes scheme by scheme",
    ),
    ("tr_execute", "reads several at once: backend/burn/tests/ops/devices.rs"),
];

/// Candle's methods without a row.
const CANDLE: &[(&str, &[&str])] = &[
    (
        "is not on the device: a name, a size, a view's layout, the host's side of a read",
        &[
            "track_op",
            "from_storage",
            "to_scalar",
            "to_vec0",
            "to_vec1",
            "to_vec2",
            "to_vec3",
            "strided_index",
            "strided_blocks",
            "dtype",
            "device",
            "shape",
            "dims",
            "dim",
            "layout",
            "stride",
            "rank",
            "elem_count",
            "id",
            "is_variable",
            "is_contiguous",
            "is_fortran_contiguous",
            "storage_and_layout",
            "normalize_axis",
            "to_device",
            "detach",
        ],
    ),
    ("makes an input from the host", &["new", "full", "from_iter", "from_vec", "from_slice", "arange"]),
    ("has its own numbers on each device", &["rand", "rand_like", "randn", "randn_like"]),
    (
        "writes into a tensor that others may hold, which a program of values cannot tell",
        &["const_set", "zero_set", "one_set", "scatter_set", "scatter_add_set"],
    ),
    ("has no order among equal indices", &["scatter"]),
    ("is called by the rows of slices", &["narrow"]),
    (
        "is written by Candle in operators that have rows",
        &[
            "ones_like",
            "zeros_like",
            "round_to",
            "meshgrid",
            "chunk",
            "mean",
            "var",
            "argmax",
            "argmin",
            "cmp",
            "interpolate1d",
            "upsample_nearest1d",
            "interpolate2d",
            "upsample_bilinear2d_with_scale",
            "avg_pool2d",
            "max_pool2d",
            "dot",
            "mv",
            "slice_scatter",
            "slice_scatter0",
            "flatten",
            "flatten_to",
            "flatten_from",
            "flatten_all",
            "get",
            "get_on_dim",
            "t",
            "broadcast_left",
            "expand",
            "force_contiguous",
            "squeeze",
            "unsqueeze",
            "apply",
            "apply_t",
            "tril2",
            "triu2",
            "eye",
            "slice_assign",
            "pow",
            "broadcast_pow",
        ],
    ),
];

#[test]
fn every_operator_of_burn_has_a_row_or_a_reason() {
    let folder = sources("burn-backend").join("backend/ops");
    let files = ["tensor", "int_tensor", "bool_tensor", "activation", "modules/base", "qtensor", "transaction"];
    let mut missing = Vec::new();
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(folder.join(file).with_extension("rs")).unwrap();
        for name in functions(&text, "    fn ") {
            count += 1;
            let called = burn_rows().iter().any(|row| row.call.contains(&format!("B::{name}(")));
            if !called && !BURN.iter().any(|(part, _)| name.contains(part)) {
                missing.push(name);
            }
        }
    }
    assert!(count > 400, "the traits have more than {count} methods");
    assert!(missing.is_empty(), "neither a row nor a reason: {missing:?}");
}

#[test]
fn every_operator_of_candle_has_a_row_or_a_reason() {
    let folder = sources("candle-core");
    let text = std::fs::read_to_string(folder.join("tensor.rs")).unwrap();
    let mut names = functions(&text, "    pub fn ");
    // Most elementwise ones are written by macros: `unary_op!(recip, Recip);`
    for start in ["    unary_op!(", "    binary_op!(", "    broadcast_binary_op!("] {
        names.extend(text.lines().filter_map(|line| Some(line.strip_prefix(start)?.split(',').next()?.to_owned())));
    }
    assert!(names.len() > 150, "Candle's tensors have more than {} methods", names.len());
    let excused = |name: &str| CANDLE.iter().any(|(_, names)| names.contains(&name));
    let called = |name: &str| {
        let forms =
            [format!(".{name}("), format!("Tensor::{name}("), format!("{name}_keepdim("), format!("broadcast_{name}(")];
        candle_rows().iter().any(|row| forms.iter().any(|form| row.call.contains(form.as_str())))
    };
    let missing: Vec<&String> = names.iter().filter(|name| !called(name) && !excused(name)).collect();
    assert!(missing.is_empty(), "neither a row nor a reason: {missing:?}");
}
