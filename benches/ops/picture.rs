//! The times as a picture: what binds by memory as a share of the copy, the rest in operations per second.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::op::Error;
use crate::record::{Record, Row};

const WIDTH: u32 = 1200;
/// A bar with the space around it, pixels.
const BAR: u32 = 22;
/// Title, axis and margins of one chart, pixels.
const FRAME: u32 = 110;
const NAMES: u32 = 430;
const NOW: RGBColor = RGBColor(196, 58, 49);
const WAS: RGBColor = RGBColor(90, 90, 90);

/// One chart: bars of `value`, and a mark where an older run was.
struct Chart<'a> {
    title: &'a str,
    unit: &'a str,
    rows: Vec<&'a Row>,
    value: fn(&Row, &Record) -> f64,
}

/// Draws both charts, one over the other; the folder is made.
pub fn draw(record: &Record, older: Option<&Record>, path: &Path) -> Result<(), Error> {
    charts(record, older, path).map_err(|error| format!("cannot draw {}: {error}", path.display()).into())
}

fn charts(record: &Record, older: Option<&Record>, path: &Path) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the embedded font is damaged")?;
    let (memory, arithmetic): (Vec<&Row>, Vec<&Row>) = record.rows.iter().partition(|row| row.bound_by_memory);
    let charts = [
        Chart {
            title: "Share of the speed of a copy within device memory",
            unit: "%",
            rows: memory,
            value: |row, record| row.bytes_per_second() / record.copy_bytes_per_second * 100.0,
        },
        Chart {
            title: "Operations per second",
            unit: "TFLOP/s",
            rows: arithmetic,
            value: |row, _| row.flops_per_second() / 1e12,
        },
    ];
    let charts: Vec<Chart<'_>> = charts.into_iter().filter(|chart| !chart.rows.is_empty()).collect();
    let heights: Vec<u32> = charts.iter().map(|chart| FRAME + BAR * chart.rows.len() as u32).collect();
    let root = BitMapBackend::new(path, (WIDTH, heights.iter().sum::<u32>().max(FRAME))).into_drawing_area();
    root.fill(&WHITE)?;
    let mut below = root.clone();
    for (chart, height) in charts.iter().zip(heights) {
        let (own, rest) = below.split_vertically(height);
        bars(chart, record, older, &own)?;
        below = rest;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<BitMapBackend<'a>, plotters::coord::Shift>;

fn bars(chart: &Chart<'_>, record: &Record, older: Option<&Record>, area: &Area<'_>) -> Result<(), Error> {
    let value = |row: &Row| (chart.value)(row, record);
    let was = |row: &Row| older.and_then(|older| older.same(row).map(|row| (chart.value)(row, older)));
    let most = chart.rows.iter().flat_map(|row| [Some(value(row)), was(row)]).flatten().fold(0.0, f64::max);
    let count = chart.rows.len();
    let mut drawn = ChartBuilder::on(area)
        .caption(format!("{}: {}", record.device, chart.title), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..most.max(1e-9) * 1.12, (0..count as i32 - 1).into_segmented())?;
    // The first operator stands on top.
    let at = |index: usize| (count - 1 - index) as i32;
    let name = |y: &SegmentValue<i32>| match y {
        SegmentValue::CenterOf(y) => {
            let row = chart.rows.get((count - 1).saturating_sub(*y as usize));
            row.map_or_else(String::new, |row| format!("{} {}", row.operator, row.shape))
        }
        _ => String::new(),
    };
    drawn
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE)
        .x_desc(chart.unit)
        .y_labels(count)
        .y_label_formatter(&name)
        .draw()?;
    for (index, row) in chart.rows.iter().enumerate() {
        let (low, high) = (SegmentValue::Exact(at(index)), SegmentValue::Exact(at(index) + 1));
        let mut bar = Rectangle::new([(0.0, low.clone()), (value(row), high.clone())], NOW.mix(0.75).filled());
        bar.set_margin(4, 4, 0, 0);
        drawn.draw_series([bar])?;
        if let Some(was) = was(row) {
            drawn.draw_series([PathElement::new([(was, low), (was, high)], WAS.stroke_width(3))])?;
        }
        let label = format!("{:.1}", value(row));
        let centre = SegmentValue::CenterOf(at(index));
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        drawn.draw_series([Text::new(label, (value(row) + most * 0.008, centre), style)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_of_any_rows() {
        let row = |operator: &str, ms: f64, bound_by_memory: bool| Row {
            operator: operator.to_owned(),
            shape: "64 x 64".to_owned(),
            ms,
            spread: 0.0,
            bytes: 1e6,
            flops: 1e9,
            bound_by_memory,
        };
        let record = |rows: Vec<Row>| Record {
            device: "card".into(),
            id: "hip:0".into(),
            driver: "7".into(),
            copy_bytes_per_second: 1e12,
            rows,
        };
        let path = std::env::temp_dir().join(format!("bench-ops-picture-{}.png", std::process::id()));
        let both = record(vec![row("softmax", 0.01, true), row("product", 0.02, false), row("sum", 0.5, true)]);
        let older = record(vec![row("sum", 0.25, true)]);
        let one = record(vec![row("sum", 0.5, true)]);
        for (now, was) in [(&both, Some(&older)), (&one, None), (&record(Vec::new()), None)] {
            draw(now, was, &path).unwrap();
            assert!(std::fs::metadata(&path).unwrap().len() > 500);
        }
        std::fs::remove_file(path).unwrap();
    }
}
