//! The losses on each device, one curve over the other.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::Error;
use crate::training::Outcome;

/// Width and height of one chart, pixels.
const SIZE: (u32, u32) = (720, 420);
/// Charts side by side.
const COLUMNS: usize = 2;

/// Draws the losses of each model in a chart of its own; the folder is made.
///
/// # Errors
/// [`Error::Picture`].
pub fn draw(compared: &[(&str, Vec<Outcome>)], path: &Path) -> Result<(), Error> {
    charts(compared, path).map_err(|error| Error::Picture { path: path.to_owned(), reason: error.to_string() })
}

fn charts(compared: &[(&str, Vec<Outcome>)], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the embedded font is damaged")?;
    let columns = compared.len().clamp(1, COLUMNS);
    let rows = compared.len().div_ceil(columns).max(1);
    let size = (SIZE.0 * columns as u32, SIZE.1 * rows as u32);
    let root = BitMapBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, (title, outcomes)) in root.split_evenly((rows, columns)).iter().zip(compared) {
        curves(title, outcomes, area)?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<BitMapBackend<'a>, plotters::coord::Shift>;

fn curves(title: &str, outcomes: &[Outcome], area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let all = || outcomes.iter().flat_map(|outcome| outcome.losses.iter().copied());
    let (lowest, highest) = (all().fold(f32::INFINITY, f32::min), all().fold(0.0, f32::max));
    // The names stand in the part above the curves.
    let (bottom, top) = (lowest - 0.05 * (highest - lowest), highest + 0.5 * (highest - lowest));
    let steps = outcomes.iter().map(|outcome| outcome.losses.len()).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(1..steps.max(2), bottom..top.max(bottom + f32::EPSILON))?;
    chart.configure_mesh().x_desc("step").y_desc("loss, nats").light_line_style(WHITE).draw()?;
    // Curves that agree hide each other: the first is widest and lies below.
    let styles = [(RGBColor(180, 180, 180), 9), (BLUE, 4), (RED, 1)];
    for (outcome, (color, width)) in outcomes.iter().zip(styles) {
        let points = outcome.losses.iter().enumerate().map(|(step, &loss)| (step + 1, loss));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(width)))?
            .label(&outcome.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(width)));
    }
    let mut names = chart.configure_series_labels();
    names.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}
