//! Bars, one below the other, in the colour of how things went.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use super::Outcome;
use super::state::Status;

const WIDTH: u32 = 1000;
/// A bar with the space around it, pixels.
const BAR: u32 = 24;
/// Title, axis and margins, pixels.
const FRAME: u32 = 110;
/// Room for names, pixels: of a letter, and at most.
const LETTER: u32 = 7;
const NAMES: u32 = 330;

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands before it.
    pub name: String,
    /// How long it is.
    pub value: f64,
    /// What stands behind it.
    pub label: String,
    /// What gives it its colour.
    pub status: Status,
}

fn colour(status: Status) -> RGBColor {
    match status {
        Status::Crashed | Status::Hung | Status::Unfinished | Status::Failed => RGBColor(196, 58, 49),
        Status::Cut => RGBColor(214, 158, 46),
        Status::LeftOut | Status::NotThere | Status::NotApplicable => RGBColor(150, 150, 150),
        Status::Passed => RGBColor(64, 134, 88),
    }
}

/// Draws bars, the first on top.
///
/// # Errors
/// A file that cannot be written.
pub fn draw(path: &Path, title: &str, unit: &str, bars: &[Bar]) -> Outcome<()> {
    chart(path, title, unit, bars).map_err(|error| format!("cannot draw {}: {error}", path.display()).into())
}

fn chart(path: &Path, title: &str, unit: &str, bars: &[Bar]) -> Outcome<()> {
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the embedded font is damaged")?;
    let count = bars.len().max(1);
    let root = BitMapBackend::new(path, (WIDTH, FRAME + BAR * count as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let room = ((NAMES - 20) / LETTER) as usize;
    let longest = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max).max(1e-9);
    let mut drawn = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size((LETTER * longest as u32 + 20).min(NAMES))
        // Room for what stands behind the longest.
        .build_cartesian_2d(0.0..most * 1.35, (0..count as i32 - 1).into_segmented())?;
    let at = |index: usize| (count - 1 - index) as i32;
    let name = |y: &SegmentValue<i32>| match y {
        SegmentValue::CenterOf(y) => {
            bars.get((count - 1).saturating_sub(*y as usize)).map_or_else(String::new, |bar| fitted(&bar.name, room))
        }
        _ => String::new(),
    };
    drawn
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE)
        .x_desc(unit)
        .x_label_formatter(&|x| if most < 10.0 { format!("{x:.1}") } else { format!("{x:.0}") })
        .y_labels(count)
        .y_label_formatter(&name)
        .draw()?;
    for (index, bar) in bars.iter().enumerate() {
        let ends = [(0.0, SegmentValue::Exact(at(index))), (bar.value, SegmentValue::Exact(at(index) + 1))];
        let mut shape = Rectangle::new(ends, colour(bar.status).mix(0.85).filled());
        shape.set_margin(4, 4, 0, 0);
        drawn.draw_series([shape])?;
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        let centre = SegmentValue::CenterOf(at(index));
        drawn.draw_series([Text::new(bar.label.clone(), (bar.value + most * 0.008, centre), style)])?;
    }
    root.present()?;
    Ok(())
}

/// A name of at most so many letters.
fn fitted(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_of_any_bars() {
        let folder = tempfile::tempdir().unwrap();
        let bar = |value, status| Bar { name: "cases".to_owned(), value, label: "12".to_owned(), status };
        let many = [bar(3.0, Status::Passed), bar(0.0, Status::LeftOut), bar(1.0, Status::Hung)];
        for (number, bars) in [&many[..], &many[..1], &[]].into_iter().enumerate() {
            let path = folder.path().join(format!("{number}.png"));
            draw(&path, "Parts", "s", bars).unwrap();
            assert!(std::fs::metadata(&path).unwrap().len() > 500);
        }
        assert_eq!(fitted("cases", 5), "cases");
        assert_eq!(fitted("bench-ops", 5), "benc…");
        let nowhere = folder.path().join("none/x.png");
        assert!(draw(&nowhere, "Parts", "s", &many).is_err());
    }
}
