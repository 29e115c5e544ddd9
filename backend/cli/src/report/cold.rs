//! What `bench-cold` has measured, as a picture: seconds to a first result with nothing compiled, with a warm cache, from a pack.

use serde::Deserialize;

use super::Outcome;
use super::parts::Context;
use super::picture::{self, Bar};
use super::state::{Found, Status};

/// Of a row of `bench-cold`, what is drawn.
#[derive(Debug, Deserialize)]
struct Row {
    program: String,
    mode: String,
    seconds: f64,
    aim_seconds: Option<f64>,
}

/// Says the times and draws them, those that miss their aim in another colour.
pub fn read(context: &Context, found: &mut Found) -> Outcome<()> {
    let Ok(text) = std::fs::read(context.file("cold.json")) else { return Ok(()) };
    let rows: Vec<Row> = serde_json::from_slice(&text)?;
    let bar = |row: &Row| Bar {
        name: format!("{} {}", row.program, row.mode),
        value: row.seconds,
        label: match row.aim_seconds {
            Some(aim) => format!("{:.2}, aim {aim:.1}", row.seconds),
            None => format!("{:.2}", row.seconds),
        },
        status: if row.aim_seconds.is_some_and(|aim| row.seconds > aim) { Status::Cut } else { Status::Passed },
    };
    let bars: Vec<Bar> = rows.iter().map(bar).collect();
    if !bars.is_empty() {
        found.why = rows.iter().map(sentence).collect::<Vec<_>>().join("; ");
        let title = format!("From the start of a process to its first result, {}", context.device);
        picture::draw(&context.file("cold.png"), &title, "seconds", &bars)?;
        found.pictures.push("cold.png".to_owned());
    }
    Ok(())
}

/// A row in words.
fn sentence(row: &Row) -> String {
    let aim = row.aim_seconds.map_or(String::new(), |aim| format!(", aim {aim:.1}"));
    format!("{} {} {:.2} s{aim}", row.program, row.mode, row.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_drawn_where_there_are_some() {
        let folder = tempfile::tempdir().unwrap();
        let context = Context { folder: folder.path().to_owned(), device: "cuda:0".to_owned(), cargo: false };
        let mut found = Found::without_run("cold-start", Status::Passed, "");
        read(&context, &mut found).unwrap();
        std::fs::write(context.file("cold.json"), "[]").unwrap();
        read(&context, &mut found).unwrap();
        assert!(found.pictures.is_empty());
        let row = |mode: &str, aim: &str| {
            format!(
                "{{\"program\":\"matmul\",\"mode\":\"{mode}\",\"seconds\":0.7,\"aim_seconds\":{aim},\"compiled\":3}}"
            )
        };
        let text = format!("[{},{}]", row("cold", "1.5"), row("warm", "null"));
        std::fs::write(context.file("cold.json"), text).unwrap();
        read(&context, &mut found).unwrap();
        assert!(found.pictures == ["cold.png"] && context.file("cold.png").is_file());
        assert_eq!(found.why, "matmul cold 0.70 s, aim 1.5; matmul warm 0.70 s");
        std::fs::write(context.file("cold.json"), "{}").unwrap();
        assert!(read(&context, &mut found).is_err());
    }
}
