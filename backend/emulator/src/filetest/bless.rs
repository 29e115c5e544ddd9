//! Writes a filetest's words anew, by `llvm-mc`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use rocfire_arch::Family;
use rocfire_isa::WaveSize;

use super::text::{Reader, Target, parse_code};

/// The words of an instruction, by `llvm-mc`.
fn assemble(target: Target, text: &str) -> Result<Vec<String>, String> {
    let file = std::env::temp_dir().join(format!("filetest-{}.s", std::process::id()));
    std::fs::write(&file, text).map_err(|error| error.to_string())?;
    let is_unusual = target.wave != WaveSize::usual(target.arch);
    for tool in ["llvm-mc-22", "llvm-mc"] {
        let output = Command::new(tool)
            .args(["-triple=amdgcn", "--show-encoding"])
            .arg(format!("-mcpu={}", target.arch))
            .args(is_unusual.then_some("-mattr=+wavefrontsize64"))
            // Halves of registers are named wherever there are any.
            .args((target.arch.info().family == Family::Rdna4).then_some("-mattr=+real-true16"))
            .arg(&file)
            .output();
        let Ok(output) = output else { continue };
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some((_, bytes)) = printed.split_once("encoding: [") else {
            return Err(format!("`{text}`: {}", String::from_utf8_lossy(&output.stderr)));
        };
        let digits: Vec<&str> = bytes.split(']').next().unwrap_or_default().split(',').collect();
        let digits: Vec<&str> = digits.iter().map(|byte| byte.trim_start_matches("0x")).collect();
        return Ok(digits.chunks(4).map(|word| word.iter().rev().copied().collect()).collect());
    }
    Err("there is no llvm-mc".to_owned())
}

/// Writes the words of a file anew.
pub(super) fn bless(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let blessed = with_words(&text, assemble)?;
    std::fs::write(path, blessed).map_err(|error| error.to_string())
}

/// `text` with the words that `assemble` gives for its instructions; nothing else of it changes, and where words end in the
/// same column, nothing moves.
fn with_words(text: &str, assemble: impl Fn(Target, &str) -> Result<Vec<String>, String>) -> Result<String, String> {
    let mut reader = Reader::default();
    let mut blessed = String::new();
    for (number, line) in text.lines().enumerate() {
        reader.line(number + 1, line).map_err(|error| format!("line {}: {error}", number + 1))?;
        let (old, instruction) = parse_code(line.split(';').next().unwrap_or_default());
        if instruction.is_empty() {
            blessed += line;
        } else {
            let target = reader.targets.first().ok_or("there is no target")?;
            let column = line.find(&instruction).unwrap_or_default();
            let width = if old.is_empty() { 17 } else { column.saturating_sub(1) };
            let _ = write!(blessed, "{:<width$} {}", assemble(*target, &instruction)?.join(" "), &line[column..]);
        }
        blessed.push('\n');
    }
    Ok(blessed)
}

#[test]
fn blessing_changes_words_and_nothing_else() {
    let text = "; target gfx942 ; source\n\n00000000 s_a   ; init s0=1 ; expect s1=2\ns_new\n; expect s1=2\n";
    let words = |_: Target, text: &str| Ok(vec!["bf810000".to_owned(); text.len() / 3]);
    let blessed = with_words(text, words).unwrap();
    let expected = text.replace("00000000 s_a", "bf810000 s_a").replace("s_new", "bf810000          s_new");
    assert_eq!(blessed, expected);
}
