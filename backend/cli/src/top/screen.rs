//! The screen: a row for each device, and the chosen one at length.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols;
use ratatui::termion::event::Key;
use ratatui::text::Line;
use ratatui::widgets::{Block, LineGauge, Paragraph, Row as Cells, Sparkline, Table, TableState};
use rocfire_hal::profile::Category;

use super::Watch;
use super::plain::{bytes, kernels, memory};
use super::rates::Row;

/// The colours of the kinds of work, in their order.
const COLOURS: [Color; Category::ALL.len()] = [Color::Cyan, Color::Magenta, Color::Green, Color::Yellow];
/// Devices that are listed at most: the chosen one wants the room.
const LISTED_MOST: u16 = 8;

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    End,
    Up,
    Down,
    Nothing,
}

/// Draws until somebody ends it, or it has looked so often.
///
/// # Errors
/// What the terminal says.
#[cfg(feature = "top")]
pub fn run(watch: &mut Watch, every: Duration, times: Option<u64>) -> Result<(), Box<dyn std::error::Error>> {
    use ratatui::backend::TermionBackend;
    use ratatui::termion::input::TermRead;
    use ratatui::termion::raw::IntoRawMode;
    use ratatui::termion::screen::IntoAlternateScreen;

    // Both are as before when they are dropped, however this ends.
    let screen = std::io::stdout().into_raw_mode()?.into_alternate_screen()?;
    let mut terminal = ratatui::Terminal::new(TermionBackend::new(screen))?;
    terminal.hide_cursor()?;
    let (keys, pressed) = std::sync::mpsc::channel();
    // It ends with the program: a read cannot be interrupted.
    std::thread::spawn(move || std::io::stdin().keys().map_while(Result::ok).try_for_each(|key| keys.send(key)));
    let mut state = TableState::default();
    let mut looks = 0;
    while times.is_none_or(|times| looks < times) {
        watch.look();
        looks += 1;
        let next = Instant::now() + every;
        loop {
            terminal.draw(|frame| draw(frame, watch, &mut state))?;
            let left = next.saturating_duration_since(Instant::now());
            match pressed.recv_timeout(left).map(wish) {
                Ok(Wish::End) => return Ok(()),
                Ok(Wish::Up) => state.select_previous(),
                Ok(Wish::Down) => state.select_next(),
                Ok(Wish::Nothing) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break,
                // Nobody types any more.
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(left);
                    break;
                }
            }
        }
    }
    Ok(())
}

fn wish(key: Key) -> Wish {
    match key {
        Key::Char('q') | Key::Esc | Key::Ctrl('c') => Wish::End,
        Key::Up | Key::Char('k') => Wish::Up,
        Key::Down | Key::Char('j') => Wish::Down,
        _ => Wish::Nothing,
    }
}

fn draw(frame: &mut Frame<'_>, watch: &Watch, state: &mut TableState) {
    let rows = &watch.rates.rows;
    if rows.is_empty() {
        let text = format!("no process with an open device answers in {}\n\nq ends", watch.folder.display());
        frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" rocfire top ")), frame.area());
        return;
    }
    // The rows may have become fewer since one was chosen.
    let chosen = state.selected().unwrap_or(0).min(rows.len() - 1);
    state.select(Some(chosen));
    let listed = (rows.len() as u16).min(LISTED_MOST) + 3;
    let [list, rest] = Layout::vertical([Constraint::Length(listed), Constraint::Min(0)]).areas(frame.area());
    draw_list(frame, list, rows, state);
    draw_device(frame, rest, &rows[chosen]);
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, rows: &[Row], state: &mut TableState) {
    let cells = rows.iter().map(|row| {
        let now = &row.now;
        Cells::new([
            row.pid.to_string(),
            row.program.clone(),
            now.id.clone(),
            row.rate().map_or("-".to_owned(), |rate| format!("{rate:.0}")),
            bytes(now.memory.live_bytes),
            bytes(now.memory.reserved_bytes),
            now.compiling.len().to_string(),
        ])
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Min(12),
        Constraint::Length(20),
        Constraint::Length(11),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(9),
    ];
    let head = ["process", "program", "device", "launches/s", "live", "reserved", "compiles"];
    let table = Table::new(cells, widths)
        .header(Cells::new(head).style(Style::new().bold()))
        .row_highlight_style(Style::new().reversed())
        .block(Block::bordered().title(" rocfire top ").title_bottom(" up and down choose, q ends "));
    frame.render_stateful_widget(table, area, state);
}

fn draw_device(frame: &mut Frame<'_>, area: Rect, row: &Row) {
    let block = Block::bordered().title(format!(" {} of {} {} ", row.now.name, row.program, row.pid));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let kinds = Category::ALL.len() as u16;
    let heights = [
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
        Constraint::Length(kinds),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(3),
    ];
    let [rate, curve, share, gauges, in_use, gauge, origin, running] = Layout::vertical(heights).areas(inside);
    draw_rate(frame, [rate, curve], row);
    draw_shares(frame, [share, gauges], row);
    let now = &row.now;
    frame.render_widget(Line::from(vec!["memory: ".bold(), memory(row).into()]), in_use);
    let ratio = now.memory.reserved_bytes as f64 / now.memory_bytes.max(1) as f64;
    let label = format!("of {:<22}", bytes(now.memory_bytes));
    frame.render_widget(line_gauge(label, ratio, Color::Blue), gauge);
    frame.render_widget(Line::from(vec!["kernels: ".bold(), kernels(row).into()]), origin);
    let names = now.compiling.iter().map(|(name, since)| Line::from(format!("  {name} {:.1} s", since.as_secs_f64())));
    frame.render_widget(Paragraph::new(names.collect::<Vec<_>>()), running);
}

fn draw_rate(frame: &mut Frame<'_>, [text, curve]: [Rect; 2], row: &Row) {
    let most = row.rates.iter().copied().fold(0.0, f64::max);
    let now = row.rate().map_or("-".to_owned(), |rate| format!("{rate:.0}"));
    let said = format!("{now}, {most:.0} at most, {} in all", row.now.launches.iter().sum::<u64>());
    frame.render_widget(Line::from(vec!["launches a second: ".bold(), said.into()]), text);
    // The newest on the right.
    let shown = row.rates.len().min(usize::from(curve.width));
    let empty = std::iter::repeat_n(0, usize::from(curve.width) - shown);
    let newest = row.rates.iter().skip(row.rates.len() - shown).map(|rate| rate.round() as u64);
    let bars: Vec<u64> = empty.chain(newest).collect();
    frame.render_widget(Sparkline::default().data(bars).style(Style::new().fg(Color::Green)), curve);
}

fn draw_shares(frame: &mut Frame<'_>, [text, gauges]: [Rect; 2], row: &Row) {
    let of = match (row.shares(), row.time_shares) {
        (None, _) => "nothing was launched",
        (Some(_), Some(_)) => "of the time in launches, by some of them",
        (Some(_), None) => "of the number of launches",
    };
    frame.render_widget(Line::from(vec!["shares: ".bold(), of.into()]), text);
    let lines: [Rect; Category::ALL.len()] =
        Layout::vertical([Constraint::Length(1); Category::ALL.len()]).areas(gauges);
    for (at, (category, share)) in Category::ALL.iter().zip(row.shares().unwrap_or_default()).enumerate() {
        let label = format!("{:<30}{:>4.0}% ", category.name(), 100.0 * share);
        frame.render_widget(line_gauge(label, share, COLOURS[at]), lines[at]);
    }
}

fn line_gauge(label: String, ratio: f64, colour: Color) -> LineGauge<'static> {
    LineGauge::default()
        .label(label)
        .ratio(ratio.clamp(0.0, 1.0))
        .filled_symbol(symbols::line::THICK_HORIZONTAL)
        .filled_style(Style::new().fg(colour))
        .unfilled_style(Style::new().dark_gray())
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::Rates;
    use super::super::rates::tests::process;
    use super::*;

    fn shown(watch: &Watch, state: &mut TableState, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, watch, state)).unwrap();
        terminal.backend().to_string()
    }

    fn watching() -> Watch {
        let mut rates = Rates::default();
        let at = Instant::now();
        rates.update(&[process(11, [0; 4], [0.0; 4]), process(12, [0; 4], [0.0; 4])], at);
        let second = [process(11, [60, 0, 40, 0], [0.0; 4]), process(12, [5, 0, 0, 0], [3.0, 0.0, 0.0, 1.0])];
        rates.update(&second, at + Duration::from_secs(1));
        Watch { folder: "/cache".into(), pid: None, rates }
    }

    #[test]
    fn the_screen_lists_devices_and_shows_the_chosen_one() {
        let (watch, mut state) = (watching(), TableState::default());
        let text = shown(&watch, &mut state, 110, 30);
        for part in
            ["11", "12", "hip:0", "launches a second: 100, 100 at most, 100 in all", "of the number of launches"]
        {
            assert!(text.contains(part), "{part:?}:\n{text}");
        }
        let share = |text: &str, name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(share(&text, "GEMM").contains(" 60% "), "{text}");
        assert!(text.contains("1.0 GiB live, 2.0 GiB reserved, 1.5 GiB peak"), "{text}");
        assert!(text.contains("6 from the cache") && text.contains("gemm 1.2 s"), "{text}");
        state.select(Some(1));
        let text = shown(&watch, &mut state, 110, 30);
        assert!(text.contains("of demo 12") && share(&text, "GEMM").contains(" 75% "), "{text}");
        assert!(text.contains("of the time in launches"), "{text}");
    }

    #[test]
    fn a_screen_of_any_size_is_drawn() {
        let mut watch = watching();
        let mut state = TableState::default();
        for (width, height) in [(1, 1), (10, 3), (40, 12), (300, 100)] {
            shown(&watch, &mut state, width, height);
        }
        // Devices went away, that which was chosen among them.
        state.select(Some(1));
        watch.rates.rows.pop();
        assert!(shown(&watch, &mut state, 110, 30).contains("of demo 11"));
        watch.rates.rows.clear();
        assert!(shown(&watch, &mut state, 110, 30).contains("no process with an open device answers in /cache"));
    }

    #[test]
    fn keys_choose_and_end() {
        let cases = [
            (Key::Char('q'), Wish::End),
            (Key::Ctrl('c'), Wish::End),
            (Key::Esc, Wish::End),
            (Key::Char('c'), Wish::Nothing),
            (Key::Up, Wish::Up),
            (Key::Down, Wish::Down),
        ];
        for (key, expected) in cases {
            assert_eq!(wish(key), expected, "{key:?}");
        }
    }
}
