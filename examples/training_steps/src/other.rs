//! The same steps in another process: without fusion.

use std::process::Command;

/// Prints the launches of a step one by one.
pub fn compare() {
    let apart = again("ROCFIRE_FUSION", "0").and_then(|figures| {
        let count = figures.lines().find_map(|line| line.strip_prefix("launches "))?;
        count.trim().parse::<u64>().ok()
    });
    match apart {
        Some(apart) => println!("launches without fusion {apart}"),
        None => println!("launches without fusion: the second process failed"),
    }
}

/// What this program prints with the same arguments and a variable set.
fn again(variable: &str, value: &str) -> Option<String> {
    let output = Command::new(std::env::current_exe().ok()?)
        .args(std::env::args_os().skip(1))
        .arg("--alone")
        .env(variable, value)
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
