//! The operators of bench-ops in PyTorch: a script that the installed Python runs, and what it found as a picture.

use serde::Deserialize;

use super::Outcome;
use super::parts::Context;
use super::picture::{self, Bar};
use super::state::{Found, Status};

/// The script. It prints a line that begins with `skipped:` where there is no PyTorch, or no card that it reaches.
pub const SCRIPT: &str = include_str!("peers.py");

/// What it writes.
#[derive(Debug, Deserialize)]
struct Peers {
    peer: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    operator: String,
    shape: String,
    ours_ms: f64,
    peer_ms: f64,
}

/// Adds how often we are the faster, and a picture.
pub fn read(context: &Context, found: &mut Found) -> Outcome<()> {
    let Ok(text) = std::fs::read(context.file("peers.json")) else { return Ok(()) };
    let peers: Peers = serde_json::from_slice(&text)?;
    if peers.rows.is_empty() || found.status == Status::NotApplicable {
        return Ok(());
    }
    let ratio = |row: &Row| row.peer_ms / row.ours_ms;
    let faster = peers.rows.iter().filter(|row| ratio(row) >= 1.0).count();
    let mean = (peers.rows.iter().map(|row| ratio(row).ln()).sum::<f64>() / peers.rows.len() as f64).exp();
    found.why = format!(
        "{}: {faster} of {} operators at least as fast here; its times are {mean:.2} of ours (geometric mean)",
        peers.peer,
        peers.rows.len()
    );
    let bar = |row: &Row| Bar {
        name: format!("{} {}", row.operator, row.shape),
        value: ratio(row),
        label: format!("{:.2}", ratio(row)),
        status: if ratio(row) >= 1.0 { Status::Passed } else { Status::Cut },
    };
    let bars: Vec<Bar> = peers.rows.iter().map(bar).collect();
    let title = format!("Time of {} as a part of ours", peers.peer);
    picture::draw(&context.file("peers.png"), &title, "above 1 we are faster", &bars)?;
    found.pictures.push("peers.png".to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_counted_and_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let context = Context { folder: folder.path().to_owned(), device: "hip:0".to_owned(), cargo: false };
        let mut found = Found::without_run("peers", Status::Passed, "");
        read(&context, &mut found).unwrap();
        assert!(found.pictures.is_empty(), "without a file there is nothing to draw");
        let row = |ours: f64, peer: f64| {
            format!("{{\"operator\":\"sum f32\",\"shape\":\"8\",\"ours_ms\":{ours},\"peer_ms\":{peer}}}")
        };
        let text = format!("{{\"peer\":\"PyTorch 2\",\"rows\":[{},{}]}}", row(1.0, 4.0), row(2.0, 0.5));
        std::fs::write(context.file("peers.json"), text).unwrap();
        read(&context, &mut found).unwrap();
        assert!(
            found.why.starts_with("PyTorch 2: 1 of 2 operators at least as fast here; its times are 1.00"),
            "{}",
            found.why
        );
        assert!(context.file("peers.png").is_file());
    }
}
