//! `rocfire profile --modelled` as a user runs it.

use std::process::{Command, Output};

fn rocfire(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocfire"));
    command.args(arguments).env_remove("ROCFIRE_PROFILE").output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The command's output, or `None` where there is no compiler to make kernels with.
fn profile(arguments: &[&str]) -> Option<String> {
    let output = rocfire(&[&["profile", "--modelled", "--no-install"], arguments].concat());
    let text = text(&output);
    if text.contains(" is missing and ") {
        println!("skipped: {text}");
        return None;
    }
    assert!(output.status.success(), "{text}");
    Some(text)
}

fn value(text: &str, counter: &str) -> u64 {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(counter));
    line.and_then(|line| line.split_whitespace().nth(1)).unwrap().parse().unwrap()
}

/// 2·M·N·K operations, whatever the tiling, as 256 x 256 x 128 is whole tiles of all of them.
#[test]
fn a_matrix_product_has_its_operations_and_a_bound() {
    let Some(text) = profile(&["gemm", "256x256x128", "--arch", "gfx942", "--counters", "--annotate"]) else { return };
    assert_eq!(value(&text, "SQ_INSTS_VALU_MFMA_MOPS_F16") * 512, 2 * 256 * 256 * 128);
    for part in ["modelled", "occupancy", "matrix busy", "bound by", "roofline", "Instinct MI300X", "v_mfma_f32_"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    for unit in [" ms", " us", " ns", "TFLOP", "GB/s"] {
        assert!(!text.contains(unit), "a time or a rate ({unit}) in\n{text}");
    }
}

#[test]
fn a_sample_of_a_copy_says_that_it_is_one() {
    let Some(text) = profile(&["copy", "1048576", "--dtype", "f32", "--sample", "8"]) else { return };
    assert!(text.contains("counted in 8 of them, chosen evenly, and scaled"), "{text}");
    assert!(text.contains("or memory, if no two workgroups share a line"), "{text}");
}

#[test]
fn wrong_words_are_refused_with_what_there_is() {
    let output = rocfire(&["profile", "gemm"]);
    assert!(!output.status.success() && text(&output).contains("--modelled"), "{}", text(&output));
    let output = rocfire(&["profile", "--modelled", "conv"]);
    assert!(!output.status.success() && text(&output).contains("softmax"), "{}", text(&output));
    let output = rocfire(&["profile", "--modelled", "gemm", "--arch", "gfx940"]);
    assert!(!output.status.success() && text(&output).contains("gfx942"), "{}", text(&output));
}

/// The command profiles itself running its own checked GEMM.
#[test]
fn a_command_is_timed_and_its_shares_add_up() {
    let folder = std::env::temp_dir().join(format!("rocfire-profile-{}", std::process::id()));
    let trace = folder.join("trace.json");
    let output =
        rocfire(&["profile", "--trace", trace.to_str().unwrap(), "--", env!("CARGO_BIN_EXE_rocfire"), "doctor"]);
    let text = text(&output);
    if text.contains("GEMM: not run") {
        println!("skipped: {text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    let at = text.find("launches and copies in").unwrap();
    let shares: Vec<f64> = text[at..]
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.trim().split('%').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(shares.len(), 5, "{text}");
    assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-9, "{text}");
    assert!(text.contains("gemm  [1, 67, 59, 101]"), "{text}");
    let written: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    assert!(written.as_array().unwrap().iter().any(|event| event["cat"] == "GEMM"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn commands_that_fail_or_use_no_device_are_errors() {
    let unused = std::env::temp_dir().join(format!("rocfire-profile-unused-{}", std::process::id()));
    let output = rocfire(&["profile", "--trace", unused.to_str().unwrap(), "--", "true"]);
    assert!(!output.status.success() && text(&output).contains("opened no rocfire device"), "{}", text(&output));
    let output = rocfire(&["profile", "--trace", unused.to_str().unwrap(), "--", "/nonexistent/program"]);
    assert!(!output.status.success() && text(&output).contains("cannot run"), "{}", text(&output));
    let output = rocfire(&["profile", "--trace", unused.to_str().unwrap(), "--", "false"]);
    assert!(!output.status.success() && text(&output).contains("ended with"), "{}", text(&output));
}
