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
