//! A line for each device and look.

use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use rocfire_hal::profile::Category;

use super::Watch;
use super::rates::Row;

/// Prints until it has looked so often, or whoever reads is gone.
///
/// # Errors
/// What writing says, but for a reader who is gone.
pub fn run(watch: &mut Watch, every: Duration, times: Option<u64>) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    let mut looks = 0;
    while times.is_none_or(|times| looks < times) {
        if looks > 0 {
            sleep(every);
        }
        looks += 1;
        watch.look();
        let mut text: String = watch.rates.rows.iter().map(|row| line(row) + "\n").collect();
        if text.is_empty() {
            text = format!("no process with an open device answers in {}\n", watch.folder.display());
        }
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            return if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error.into()) };
        }
    }
    Ok(())
}

fn line(row: &Row) -> String {
    let rate = row.rate().map_or("-".to_owned(), |rate| format!("{rate:.0}"));
    let mut line = format!("{} {} {}: {rate} launches/s", row.pid, row.program, row.now.id);
    if let Some(shares) = row.shares() {
        let of = if row.time_shares.is_some() { "time" } else { "launches" };
        let parts: Vec<String> = Category::ALL
            .iter()
            .zip(shares)
            .filter(|(_, share)| *share >= 0.005)
            .map(|(category, share)| format!("{} {:.0}%", category.name(), 100.0 * share))
            .collect();
        line += &format!(" (of {of}: {})", parts.join(", "));
    }
    line + &format!("; memory {}; kernels {}", memory(row), kernels(row))
}

/// Live, reserved, at most so far.
pub fn memory(row: &Row) -> String {
    let memory = row.now.memory;
    let [live, reserved, peak] = [memory.live_bytes, memory.reserved_bytes, memory.peak_bytes].map(bytes);
    format!("{live} live, {reserved} reserved, {peak} peak")
}

/// Where kernels came from, and what is being compiled.
pub fn kernels(row: &Row) -> String {
    let compiles = row.now.compiles;
    let mut text =
        format!("{} compiled, {} from the cache, {} from packs", compiles.compiled, compiles.cached, compiles.packed);
    if !row.now.compiling.is_empty() {
        let names = row.now.compiling.iter().map(|(name, since)| format!("{name} {:.1} s", since.as_secs_f64()));
        text += &format!("; {} being compiled: {}", row.now.compiling.len(), names.collect::<Vec<_>>().join(", "));
    }
    text
}

/// Bytes in a unit that leaves few digits.
pub fn bytes(bytes: u64) -> String {
    let (unit, shift) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => ("KiB", 10),
        1_048_576..1_073_741_824 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::rates::Rates;
    use super::super::rates::tests::process;
    use super::*;

    #[test]
    fn a_line_says_everything() {
        let (mut rates, at) = (Rates::default(), Instant::now());
        rates.update(&[process(12, [0; 4], [0.0; 4])], at);
        let before = line(&rates.rows[0]);
        assert!(before.starts_with("12 demo hip:0: - launches/s; memory"), "{before}");
        rates.update(&[process(12, [60, 0, 40, 0], [0.0; 4])], at + Duration::from_secs(1));
        assert_eq!(
            line(&rates.rows[0]),
            "12 demo hip:0: 100 launches/s (of launches: GEMM 60%, elementwise and normalisation 40%); memory 1.0 GiB live, 2.0 GiB \
             reserved, 1.5 GiB peak; kernels 3 compiled, 6 from the cache, 1 from packs; 1 being compiled: gemm 1.2 s"
        );
        rates.update(&[process(12, [61, 0, 40, 0], [3.0, 0.0, 0.0, 1.0])], at + Duration::from_secs(2));
        assert!(line(&rates.rows[0]).contains("1 launches/s (of time: GEMM 75%, other 25%);"));
    }

    #[test]
    fn bytes_have_the_largest_unit_that_leaves_a_whole_digit() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (20 << 20, "20.0 MiB"), (5 << 29, "2.5 GiB")];
        for (number, text) in cases {
            assert_eq!(bytes(number), text);
        }
    }
}
