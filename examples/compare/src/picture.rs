//! The losses on each device, one curve over the other.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::Error;
use crate::training::Outcome;

/// Width and height, pixels.
const SIZE: (u32, u32) = (960, 540);

/// Draws the curves; the folder is made.
///
/// # Errors
/// [`Error::Picture`].
pub fn draw(outcomes: &[Outcome], path: &Path) -> Result<(), Error> {
    curves(outcomes, path).map_err(|error| Error::Picture { path: path.to_owned(), reason: error.to_string() })
}

fn curves(outcomes: &[Outcome], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the embedded font is damaged")?;
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || outcomes.iter().flat_map(|outcome| outcome.losses.iter().copied());
    let (lowest, highest) = (all().fold(f32::INFINITY, f32::min), all().fold(0.0, f32::max));
    let steps = outcomes.iter().map(|outcome| outcome.losses.len()).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(&root)
        .caption("One Burn model, one set of weights and batches", ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(1..steps.max(2), lowest * 0.98..highest * 1.02)?;
    chart.configure_mesh().x_desc("step").y_desc("loss, nats per character").light_line_style(WHITE).draw()?;
    // Curves that agree hide each other: the first is widest and lies below.
    let styles = [(RGBColor(180, 180, 180), 9), (BLUE, 4), (RED, 1)];
    for (outcome, (color, width)) in outcomes.iter().zip(styles) {
        let points = outcome.losses.iter().enumerate().map(|(step, &loss)| (step + 1, loss));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(width)))?
            .label(&outcome.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(width)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
