//! Losses of several trainings, one curve over the other.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use super::Report;
use crate::Error;

/// Width and height, pixels.
const SIZE: (u32, u32) = (960, 540);

/// Draws the losses of each training; the folder is made.
///
/// # Errors
/// [`Error::File`].
pub fn draw(reports: &[Report], path: &Path) -> Result<(), Error> {
    chart(reports, path).map_err(|error| Error::File {
        action: "draw",
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn chart(reports: &[Report], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // The picture must look the same on a machine without any font.
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the embedded font is damaged")?;
    let all = || reports.iter().flat_map(|report| report.losses.iter().copied());
    let (lowest, highest) = (all().fold(f32::INFINITY, f32::min), all().fold(f32::NEG_INFINITY, f32::max));
    if lowest > highest {
        return Err("there are no losses".into());
    }
    let room = 0.05 * (highest - lowest).max(f32::EPSILON);
    let steps = reports.iter().map(|report| report.losses.len()).max().unwrap_or(1);
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let models: std::collections::BTreeSet<&str> = reports.iter().map(|report| report.model.as_str()).collect();
    let models = models.into_iter().collect::<Vec<_>>().join(", ");
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{models}: the same weights and batches"), ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(1..steps.max(2), lowest - room..highest + room)?;
    chart.configure_mesh().x_desc("step").y_desc("loss, nats").light_line_style(WHITE).draw()?;
    // Curves that agree hide each other: the first is widest and lies below.
    let widest = 2 * reports.len() as u32 + 1;
    for (number, report) in reports.iter().enumerate() {
        let style = Palette99::pick(number).stroke_width(widest - 2 * number as u32);
        let points = report.losses.iter().enumerate().map(|(step, &loss)| (step + 1, loss));
        let name = match report.warm_ms {
            Some(ms) => {
                format!("{}, {ms:.1} ms a step, at last {:.4}", report.name, report.losses.last().unwrap_or(&f32::NAN))
            }
            None => report.name.clone(),
        };
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    let mut names = chart.configure_series_labels();
    names.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
