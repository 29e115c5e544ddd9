//! The loss curve as a picture.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::error::{Error, Result};

/// Width and height, pixels.
const SIZE: (u32, u32) = (960, 540);
/// Weight of the newest loss in the smoothed curve.
const SMOOTHING: f32 = 0.08;

/// Draws training loss by step with the validation and bigram losses as levels.
///
/// # Errors
/// [`Error::Plot`].
pub fn plot(losses: &[f32], validation_loss: f64, bigram_loss: f64, device: &str, path: &Path) -> Result<()> {
    draw(losses, validation_loss, bigram_loss, device, path)
        .map_err(|reason| Error::Plot { path: path.to_owned(), reason: reason.to_string() })
}

fn draw(
    losses: &[f32],
    validation_loss: f64,
    bigram_loss: f64,
    device: &str,
    path: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    // The picture must look the same on a machine without any font: one is embedded.
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the embedded font is damaged")?;
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    // The levels too: after few steps the bigrams' is far below every loss.
    let all = || losses.iter().copied().chain([validation_loss as f32, bigram_loss as f32]);
    let (lowest, highest) = (all().fold(f32::INFINITY, f32::min) * 0.95, all().fold(0.0, f32::max) * 1.05);
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("Training a character transformer on {device}"), ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0..losses.len().max(2) - 1, lowest..highest)?;
    chart.configure_mesh().x_desc("step").y_desc("loss, nats per character").light_line_style(WHITE).draw()?;
    let steps = || losses.iter().copied().enumerate();
    chart.draw_series(LineSeries::new(steps(), BLUE.mix(0.25)))?;
    let mut average = losses.first().copied().unwrap_or_default();
    let smooth = steps().map(|(step, loss)| {
        average += SMOOTHING * (loss - average);
        (step, average)
    });
    let legend = |color: RGBColor| move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2));
    chart.draw_series(LineSeries::new(smooth, BLUE.stroke_width(2)))?.label("training, smoothed").legend(legend(BLUE));
    for (level, name, color) in [(validation_loss, "validation", GREEN), (bigram_loss, "bigram", RED)] {
        let ends = [(0, level as f32), (losses.len().max(2) - 1, level as f32)];
        chart
            .draw_series(LineSeries::new(ends, color.stroke_width(2)))?
            .label(format!("{name} {level:.4}"))
            .legend(legend(color));
    }
    let mut names = chart.configure_series_labels();
    names.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
