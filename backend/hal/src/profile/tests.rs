use super::*;

fn launch(operator: &str, category: Category, start_us: f64, duration_us: f64) -> TimedLaunch {
    TimedLaunch {
        operator: operator.to_owned(),
        kernel: format!("{operator}_kernel"),
        stream: StreamName::Compute,
        category,
        shape: vec![2, 3],
        bytes: 64,
        flops: 128,
        grid: [1, 2, 3],
        block: [64, 1, 1],
        start_us,
        duration_us,
    }
}

fn timeline() -> Timeline {
    Timeline {
        device: "a \"device\"".to_owned(),
        arch: "gfx942".to_owned(),
        launches: vec![
            launch("gemm", Category::Gemm, 10.0, 1.0),
            launch("softmax", Category::Elementwise, 11.0, 1.0),
            TimedLaunch { stream: StreamName::Transfer, ..launch("upload", Category::Other, 11.5, 0.5) },
            launch("gemm", Category::Gemm, 12.5, 0.5),
        ],
    }
}

#[test]
fn shares_add_up_to_one_hundred() {
    let text = summary(&timeline());
    let shares: f64 = text
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.trim().split('%').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((shares - 100.0).abs() < 1e-9, "{text}");
    assert!(text.contains("50.0%       1.5 us  GEMM"), "{text}");
    assert!(text.contains("16.7%       0.5 us  gaps"), "{text}");
}

#[test]
fn a_table_has_a_row_for_each_kernel_and_shape() {
    let text = summary(&timeline());
    let gemm = text.lines().find(|line| line.ends_with("gemm gemm_kernel [2, 3]")).unwrap();
    // Two launches of 128 operations in 1.5 us.
    let fields: Vec<&str> = gemm.split_whitespace().collect();
    assert_eq!((fields[1], fields[7]), ("2", "0.2"), "{gemm}");
}

#[test]
fn a_trace_comes_back_as_it_was_written() {
    let written = vec![timeline(), Timeline { device: "second".to_owned(), ..Timeline::default() }];
    let text = chrome_trace(&written);
    assert_eq!(read_trace(&text).unwrap(), written);
    // As a program leaves it that did not close it.
    assert_eq!(read_trace(text.trim_end().trim_end_matches(']')).unwrap(), written);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 6);
    assert!(read_trace("[\n{\"pid\":1}\n").unwrap_err().contains("line 2"));
    assert!(read_trace("nonsense").is_err());
}

#[test]
fn an_empty_profile_says_so() {
    assert_eq!(
        summary(&Timeline { device: "d".to_owned(), ..Timeline::default() }),
        "d: 0 launches and copies in 0.0 us\n"
    );
}
