//! A timed profile as a page of HTML: time by category, a roofline with every kernel, the longest gaps. No scripts, nothing from
//! elsewhere: the file can be sent to others as it is.

use std::fmt::Write as _;

use rocfire_hal::StreamName;
use rocfire_hal::profile::{Category, KernelTime, TimedLaunch, Timeline, kernels};

use super::roofline::{Roof, chart, is_emulated};

/// Rows of the table of kernels, and of gaps. What is behind them takes little.
const KERNELS_MOST: usize = 100;
const GAPS_MOST: usize = 20;
/// Pieces that the strip of the timeline is cut in.
const PIECES: usize = 240;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8888; --dim: #888; --c0: #0e8f9e; --c1: #b0449a; --c2: #3c8c3a; --c3: #c98a14; --gap: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 0.15rem 0.5rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th.text, td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
th { font-weight: 600; } p.note { color: var(--dim); } .scroll { overflow-x: auto; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); } .gap { fill: var(--gap); }
.grid { stroke: var(--line); stroke-width: 0.5; } .roof { stroke: currentColor; fill: none; stroke-width: 1.5; }
.seen { stroke-dasharray: 5 4; } circle { fill-opacity: 0.75; stroke: currentColor; stroke-width: 0.5; }
.key { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 0.4em; }
";

/// The page of timelines, one behind the other.
pub fn page(command: &str, timelines: &[Timeline]) -> String {
    let mut html = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html += "<meta name=\"viewport\" content=\"width=device-width\">\n";
    let _ = write!(html, "<title>Profile of {}</title>\n<style>{STYLE}", escape(command));
    for at in 0..Category::ALL.len() {
        let _ = writeln!(html, ".key.c{at} {{ background: var(--c{at}); }}");
    }
    let _ = write!(
        html,
        ".key.gap {{ background: var(--gap); }}\n</style>\n</head>\n<body>\n<h1>Profile of <code>{}</code></h1>\n",
        escape(command)
    );
    for timeline in timelines {
        device(&mut html, timeline);
    }
    html + "</body>\n</html>\n"
}

fn device(html: &mut String, timeline: &Timeline) {
    let count = timeline.launches.len();
    let span = micros(timeline.span_us());
    let _ = writeln!(html, "<h2>{}: {count} launches and copies in {span}</h2>", escape(&timeline.device));
    if is_emulated(timeline) {
        *html += "<p class=\"note\">An emulated device: these are times of the emulator on this machine, and say nothing of a card.</p>\n";
    }
    if count == 0 {
        return;
    }
    let kernels = kernels(timeline);
    by_category(html, timeline);
    strip(html, timeline);
    let roof = Roof::of(timeline, &kernels);
    *html += "<h2>Roofline</h2>\n";
    *html += &chart(&kernels, &roof);
    let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&roof.about));
    table(html, timeline, &kernels, &roof);
    longest_gaps(html, timeline);
}

/// Shares as a bar and a table; with the gaps they are all of the time.
fn by_category(html: &mut String, timeline: &Timeline) {
    let mut parts: Vec<(String, &str, f64)> = Category::ALL
        .iter()
        .enumerate()
        .map(|(at, category)| (format!("c{at}"), category.name(), timeline.busy_us(*category)))
        .collect();
    let busy: f64 = parts.iter().map(|(.., us)| us).sum();
    parts.push(("gap".to_owned(), "gaps", (timeline.span_us() - busy).max(0.0)));
    let all: f64 = parts.iter().map(|(.., us)| us).sum::<f64>().max(f64::MIN_POSITIVE);
    *html += "<h2>Time by category</h2>\n<svg viewBox=\"0 0 1000 28\" role=\"img\">\n";
    let mut x = 0.0;
    for (class, name, us) in &parts {
        let (width, share) = (1000.0 * us / all, 100.0 * us / all);
        let title = format!("{name} {share:.1} %");
        let _ = writeln!(
            html,
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"28\"><title>{title}</title></rect>"
        );
        x += width;
    }
    *html += "</svg>\n<table>\n<tr><th class=\"text\">category</th><th>share</th><th>time</th><th>launches</th></tr>\n";
    for (class, name, us) in &parts {
        let launches = timeline.launches.iter().filter(|launch| launch.category.name() == *name && is_computed(launch));
        let launches = if class == "gap" { gaps(timeline).len() } else { launches.count() };
        let _ = writeln!(
            html,
            "<tr><td class=\"text\"><span class=\"key {class}\"></span>{name}</td><td>{:.1} %</td><td>{}</td><td>{launches}</td></tr>",
            100.0 * us / all,
            micros(*us)
        );
    }
    *html += "</table>\n";
}

fn is_computed(launch: &TimedLaunch) -> bool {
    launch.stream == StreamName::Compute
}

/// How busy the device was over time, by category: a bar for each piece of it.
fn strip(html: &mut String, timeline: &Timeline) {
    let begun = timeline.launches.first().map_or(0.0, |launch| launch.start_us);
    let piece_us = (timeline.span_us() / PIECES as f64).max(f64::MIN_POSITIVE);
    let mut busy = vec![[0.0; Category::ALL.len()]; PIECES];
    for launch in timeline.launches.iter().filter(|launch| is_computed(launch)) {
        let (from, to) = (launch.start_us - begun, launch.start_us - begun + launch.duration_us);
        let pieces = (from / piece_us) as usize..=((to / piece_us) as usize).min(PIECES - 1);
        for piece in pieces {
            let (first, last) = (piece as f64 * piece_us, (piece + 1) as f64 * piece_us);
            busy[piece][launch.category as usize] += (to.min(last) - from.max(first)).max(0.0);
        }
    }
    let _ = writeln!(html, "<h2>Over time</h2>\n<svg viewBox=\"0 0 1000 90\" role=\"img\">");
    *html += "<rect class=\"gap\" x=\"0\" y=\"0\" width=\"1000\" height=\"72\"/>\n";
    let width = 1000.0 / PIECES as f64;
    for (at, piece) in busy.iter().enumerate() {
        let mut y = 72.0;
        for (kind, us) in piece.iter().enumerate().filter(|(_, us)| **us > 0.0) {
            let height = 72.0 * (us / piece_us).min(1.0);
            y -= height;
            let _ = writeln!(
                html,
                "<rect class=\"c{kind}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{height:.2}\"/>",
                at as f64 * width,
                y.max(0.0),
                width + 0.2
            );
        }
    }
    let end = micros(timeline.span_us());
    let _ = writeln!(
        html,
        "<text x=\"0\" y=\"87\">0</text><text x=\"1000\" y=\"87\" text-anchor=\"end\">{end}</text></svg>"
    );
}

/// Every kernel, those that took most first.
fn table(html: &mut String, timeline: &Timeline, kernels: &[KernelTime<'_>], roof: &Roof) {
    let _ = writeln!(
        html,
        "<div class=\"scroll\"><table>\n<tr><th></th><th>share</th><th>times</th><th>all</th><th>each</th>"
    );
    *html += "<th>GB/s</th><th>GFLOP/s</th><th>FLOP/byte</th><th>of roof</th><th class=\"text\">operator, kernel, shape</th></tr>\n";
    let busy: f64 = kernels.iter().map(|kernel| kernel.us).sum();
    let all = timeline.span_us().max(busy).max(f64::MIN_POSITIVE);
    for (number, kernel) in kernels.iter().take(KERNELS_MOST).enumerate() {
        let per = |amount: u64| if amount == 0 { "–".to_owned() } else { number_of(amount as f64 / kernel.us / 1e3) };
        let intensity = match (kernel.flops, kernel.bytes) {
            (0, _) | (_, 0) => "–".to_owned(),
            (flops, bytes) => number_of(flops as f64 / bytes as f64),
        };
        let of_roof = roof.share(kernel).map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share));
        let name = if kernel.kernel == kernel.operator { "" } else { kernel.kernel };
        let _ = writeln!(
            html,
            "<tr><td><span class=\"key c{}\"></span>{}</td><td>{:.1} %</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{intensity}</td><td>{of_roof}</td><td class=\"text\">{} {} {:?}</td></tr>",
            kernel.category as usize,
            number + 1,
            100.0 * kernel.us / all,
            kernel.times,
            micros(kernel.us),
            micros(kernel.us / kernel.times as f64),
            per(kernel.bytes),
            per(kernel.flops),
            escape(kernel.operator),
            escape(name),
            kernel.shape,
        );
    }
    *html += "</table></div>\n";
    if let Some(rest) = kernels.get(KERNELS_MOST..).filter(|rest| !rest.is_empty()) {
        let us: f64 = rest.iter().map(|kernel| kernel.us).sum();
        let _ = writeln!(html, "<p class=\"note\">{} more took {} together.</p>", rest.len(), micros(us));
    }
}

/// Time in which the device computed nothing, between two launches.
#[derive(Debug, PartialEq)]
struct Gap<'a> {
    start_us: f64,
    us: f64,
    before: &'a str,
    after: &'a str,
}

/// The gaps of the stream of the computations, the longest first.
fn gaps(timeline: &Timeline) -> Vec<Gap<'_>> {
    let mut computed = timeline.launches.iter().filter(|launch| is_computed(launch));
    let mut gaps = Vec::new();
    let Some(mut last) = computed.next() else { return gaps };
    for launch in computed {
        let start_us = last.start_us + last.duration_us;
        if launch.start_us > start_us {
            let (before, after) = (last.operator.as_str(), launch.operator.as_str());
            gaps.push(Gap { start_us, us: launch.start_us - start_us, before, after });
        }
        last = launch;
    }
    gaps.sort_by(|a, b| b.us.total_cmp(&a.us));
    gaps
}

fn longest_gaps(html: &mut String, timeline: &Timeline) {
    let gaps = gaps(timeline);
    *html += "<h2>The longest gaps</h2>\n";
    if gaps.is_empty() {
        *html += "<p>None.</p>\n";
        return;
    }
    let begun = timeline.launches.first().map_or(0.0, |launch| launch.start_us);
    *html += "<table>\n<tr><th>took</th><th>began at</th><th class=\"text\">behind</th><th class=\"text\">before</th></tr>\n";
    for gap in gaps.iter().take(GAPS_MOST) {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>",
            micros(gap.us),
            micros(gap.start_us - begun),
            escape(gap.before),
            escape(gap.after)
        );
    }
    *html += "</table>\n";
    if let Some(rest) = gaps.get(GAPS_MOST..).filter(|rest| !rest.is_empty()) {
        let us: f64 = rest.iter().map(|gap| gap.us).sum();
        let _ = writeln!(html, "<p class=\"note\">{} more took {} together.</p>", rest.len(), micros(us));
    }
}

/// Text as it stands in HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number with about three digits.
pub fn number_of(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 0.01 || n == 0.0 => format!("{n:.2}"),
        n => format!("{n:.1e}"),
    }
}

fn micros(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.3} s", us / 1e6),
        us if us >= 1e3 => format!("{:.3} ms", us / 1e3),
        us => format!("{us:.1} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(operator: &str, category: Category, start_us: f64, duration_us: f64) -> TimedLaunch {
        TimedLaunch {
            operator: operator.to_owned(),
            kernel: format!("{operator}_kernel"),
            stream: StreamName::Compute,
            category,
            shape: vec![2, 3],
            bytes: 4000,
            flops: 8000,
            grid: [1; 3],
            block: [64, 1, 1],
            start_us,
            duration_us,
        }
    }

    fn timeline() -> Timeline {
        let upload = TimedLaunch { stream: StreamName::Transfer, ..launch("upload", Category::Other, 12.0, 3.0) };
        let launches = vec![
            launch("gemm", Category::Gemm, 10.0, 1.0),
            launch("soft<max>", Category::Elementwise, 11.0, 1.0),
            upload,
            launch("gemm", Category::Gemm, 14.0, 2.0),
        ];
        Timeline { device: "emulated & small".to_owned(), arch: "gfx942".to_owned(), launches }
    }

    #[test]
    fn gaps_are_between_computations() {
        let timeline = timeline();
        assert_eq!(gaps(&timeline), [Gap { start_us: 12.0, us: 2.0, before: "soft<max>", after: "gemm" }]);
        assert_eq!(gaps(&Timeline::default()), []);
    }

    /// Every element that is opened is closed, in order.
    fn is_balanced(html: &str) -> bool {
        let mut open = Vec::new();
        for tag in html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
            if tag.starts_with('!') || tag.ends_with('/') || name == "meta" {
                continue;
            }
            match tag.strip_prefix('/') {
                None => open.push(name.to_owned()),
                Some(closed) if open.last().is_some_and(|last| last == closed) => _ = open.pop(),
                Some(_) => return false,
            }
        }
        open.is_empty()
    }

    #[test]
    fn a_page_has_shares_kernels_and_gaps() {
        let html = page("demo --prompt \"<b>\"", &[timeline(), Timeline::default()]);
        assert!(is_balanced(&html), "{html}");
        assert!(!html.contains("<b>") && html.contains("demo --prompt &quot;&lt;b&gt;&quot;"));
        assert!(html.contains("emulated &amp; small: 4 launches") && html.contains("say nothing of a card"));
        // 3 of 6 microseconds in products, 1 in the row, 2 in the gap.
        assert!(html.contains(">GEMM</td><td>50.0 %</td><td>3.0 µs</td><td>2</td>"), "{html}");
        assert!(html.contains(">gaps</td><td>33.3 %</td><td>2.0 µs</td><td>1</td>"), "{html}");
        assert!(html.contains("<td>2.0 µs</td><td>2.0 µs</td><td class=\"text\">soft&lt;max&gt;</td>"), "{html}");
        assert!(html.contains("gemm gemm_kernel [2, 3]"), "{html}");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        let cases = [(1234.5, "1234"), (56.78, "56.8"), (3.456, "3.46"), (0.0, "0.00"), (0.001_2, "1.2e-3")];
        for (number, text) in cases {
            assert_eq!(number_of(number), text);
        }
    }
}
