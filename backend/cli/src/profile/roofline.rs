//! The roofline of a profile: what kernels reach, by how much they compute of a byte, under what memory and arithmetic allow.
//!
//! After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52 (2009).

use std::fmt::Write as _;

use rocfire_arch::Arch;
use rocfire_hal::profile::{KernelTime, Timeline};

use super::page::{escape, number_of};

/// The chart's extent, and what axes leave of it.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 40.0;
/// Kernels that have their number beside them.
const NUMBERED: usize = 12;
/// The area of the largest circle, in squares of the radius.
const LARGEST_RADIUS: f64 = 16.0;
const SMALLEST_RADIUS: f64 = 3.0;

/// What bounds kernels.
pub struct Roof {
    /// GB/s.
    memory_gbs: f64,
    /// GFLOP/s: on vector units in f32, and on the matrix unit in 16 bits; the highest is the roof.
    gflops: Vec<(&'static str, f64)>,
    /// Whether these are only the fastest that were seen.
    seen: bool,
    /// What they are and where they come from.
    pub about: String,
}

impl Roof {
    /// That of the card that is known for the architecture; else, and for an emulated device, the fastest that the profile has seen.
    pub fn of(timeline: &Timeline, kernels: &[KernelTime<'_>]) -> Roof {
        let card = Arch::parse(&timeline.arch).ok().and_then(|arch| arch.info().card);
        if let Some(card) = card.filter(|_| !is_emulated(timeline)) {
            let gflops = vec![("f32", card.f32_tflops * 1e3), ("16 bits", card.f16_tflops * 1e3)];
            let about = format!(
                "The roof is the data sheet of an {}: {} GB/s, {} TFLOP/s in f32, {} in 16 bits. Another card with {} has \
                 another. Bytes are those that a kernel must move at least: more come from caches. Kernels whose operations are \
                 not counted are in the table alone.",
                card.name, card.memory_gbs, card.f32_tflops, card.f16_tflops, timeline.arch
            );
            return Roof { memory_gbs: card.memory_gbs, gflops, seen: false, about };
        }
        let fastest = |amount: fn(&KernelTime<'_>) -> u64| {
            kernels.iter().map(|kernel| amount(kernel) as f64 / kernel.us.max(1e-3) / 1e3).fold(0.0, f64::max)
        };
        let (memory_gbs, gflops) = (fastest(|kernel| kernel.bytes), fastest(|kernel| kernel.flops));
        let why = if is_emulated(timeline) {
            "An emulator has no data sheet"
        } else {
            "No data sheet is known for this architecture"
        };
        let about = format!(
            "{why}: the dashed roof is the fastest that this profile has seen, of bytes and of operations. Kernels whose operations \
             are not counted are in the table alone."
        );
        Roof { memory_gbs, gflops: vec![("fastest seen", gflops)], seen: true, about }
    }

    /// How much of what is possible a kernel reaches: of the roof at its operations for a byte, or of the memory's speed where its
    /// operations are not known. `None` where nothing is known.
    pub fn share(&self, kernel: &KernelTime<'_>) -> Option<f64> {
        let (gbs, gflops) = rates(kernel);
        let most = self.gflops.iter().map(|(_, gflops)| *gflops).fold(0.0, f64::max);
        let share = match (kernel.bytes, kernel.flops) {
            (0, 0) => return None,
            (_, 0) => gbs / self.memory_gbs,
            (0, _) => gflops / most,
            (bytes, flops) => gflops / most.min(self.memory_gbs * flops as f64 / bytes as f64),
        };
        share.is_finite().then_some(share)
    }
}

/// Whether times are the emulator's.
pub fn is_emulated(timeline: &Timeline) -> bool {
    timeline.device.starts_with("emulated")
}

/// GB/s and GFLOP/s.
fn rates(kernel: &KernelTime<'_>) -> (f64, f64) {
    let us = kernel.us.max(1e-3);
    (kernel.bytes as f64 / us / 1e3, kernel.flops as f64 / us / 1e3)
}

/// An axis of powers of ten.
struct Axis {
    first: f64,
    last: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Whole powers of ten around numbers above 0, drawn from one place to another.
    fn around(numbers: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (least, most) = numbers
            .filter(|number| *number > 0.0 && number.is_finite())
            .fold((f64::INFINITY, 0.0_f64), |(least, most), number| (least.min(number), most.max(number)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 10.0) };
        let (first, last) = (least.log10().floor(), most.log10().ceil());
        Axis { first, last: last.max(first + 1.0), from, to }
    }

    fn place(&self, number: f64) -> f64 {
        let share = (number.log10() - self.first) / (self.last - self.first);
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.first as i32..=self.last as i32).map(|power| 10_f64.powi(power))
    }
}

/// The chart, a circle for each kernel: its area is its share of the time.
pub fn chart(kernels: &[KernelTime<'_>], roof: &Roof) -> String {
    let placed: Vec<(usize, &KernelTime<'_>, f64, f64)> = kernels
        .iter()
        .enumerate()
        .filter(|(_, kernel)| kernel.bytes > 0 && kernel.flops > 0)
        .map(|(number, kernel)| (number, kernel, kernel.flops as f64 / kernel.bytes as f64, rates(kernel).1))
        .collect();
    let most = roof.gflops.iter().map(|(_, gflops)| *gflops).fold(0.0, f64::max);
    // Where memory stops to be what bounds.
    let ridge = if roof.memory_gbs > 0.0 { most / roof.memory_gbs } else { 0.0 };
    let intensities = placed.iter().map(|(.., intensity, _)| *intensity).chain([ridge, 2.0 * ridge]);
    let x = Axis::around(intensities, LEFT, WIDTH - RIGHT);
    let lowest = roof.memory_gbs * 10_f64.powf(x.first);
    let reached = placed.iter().map(|(.., gflops)| *gflops).chain([most, if roof.seen { 0.0 } else { lowest }]);
    let y = Axis::around(reached, HEIGHT - BOTTOM, TOP);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
    grid(&mut svg, &x, &y);
    roofs(&mut svg, &x, &y, roof);
    let longest = placed.iter().map(|(_, kernel, ..)| kernel.us).fold(f64::MIN_POSITIVE, f64::max);
    // Large ones first, so that small ones are not hidden: they are in that order.
    for (number, kernel, intensity, gflops) in &placed {
        let (cx, cy) = (x.place(*intensity), y.place(*gflops));
        let radius = (LARGEST_RADIUS * (kernel.us / longest).sqrt()).max(SMALLEST_RADIUS);
        let _ = writeln!(
            svg,
            "<circle class=\"c{}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{radius:.1}\"><title>{}: {} {} {:?}: {} FLOP/byte, {} GFLOP/s</title></circle>",
            kernel.category as usize,
            number + 1,
            escape(kernel.operator),
            escape(kernel.kernel),
            kernel.shape,
            number_of(*intensity),
            number_of(*gflops)
        );
        if *number < NUMBERED {
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", cx + radius + 2.0, cy + 4.0, number + 1);
        }
    }
    svg + "</svg>\n"
}

fn grid(svg: &mut String, x: &Axis, y: &Axis) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for tick in x.ticks() {
        let (at, text) = (x.place(tick), tick_text(tick));
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>");
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", bottom + 16.0);
    }
    for tick in y.ticks() {
        let (at, text) = (y.place(tick), tick_text(tick));
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>");
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 6.0, at + 4.0);
    }
    let _ = writeln!(svg, "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">FLOP/byte</text>", HEIGHT - 6.0);
    let _ = writeln!(svg, "<text x=\"6\" y=\"12\">GFLOP/s</text>");
}

fn tick_text(tick: f64) -> String {
    if tick >= 1.0 { format!("{tick:.0}") } else { format!("{tick}") }
}

/// The slope that memory allows, up to the highest ceiling, and each ceiling from where it bounds.
fn roofs(svg: &mut String, x: &Axis, y: &Axis, roof: &Roof) {
    let (first, last) = (10_f64.powf(x.first), 10_f64.powf(x.last));
    let most = roof.gflops.iter().map(|(_, gflops)| *gflops).fold(0.0, f64::max);
    if roof.memory_gbs <= 0.0 || most <= 0.0 {
        return;
    }
    let class = if roof.seen { "roof seen" } else { "roof" };
    let mut line = |from: (f64, f64), to: (f64, f64)| {
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            x.place(from.0),
            y.place(from.1),
            x.place(to.0),
            y.place(to.1)
        );
    };
    // The line begins where both axes have it.
    let low = first.max(10_f64.powf(y.first) / roof.memory_gbs);
    let ridge = most / roof.memory_gbs;
    line((low, low * roof.memory_gbs), (ridge.min(last), ridge.min(last) * roof.memory_gbs));
    for (_, gflops) in &roof.gflops {
        line((gflops / roof.memory_gbs, *gflops), (last, *gflops));
    }
    for (name, gflops) in &roof.gflops {
        let at = y.place(*gflops) - 5.0;
        let text = format!("{name}: {} GFLOP/s", number_of(*gflops));
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{at:.1}\" text-anchor=\"end\">{text}</text>", WIDTH - RIGHT);
    }
    let middle = (low * ridge).sqrt();
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\">memory: {} GB/s</text>",
        x.place(middle) + 8.0,
        y.place(middle * roof.memory_gbs) + 14.0,
        number_of(roof.memory_gbs)
    );
}

#[cfg(test)]
mod tests {
    use rocfire_hal::profile::Category;

    use super::*;

    fn kernel(us: f64, bytes: u64, flops: u64) -> KernelTime<'static> {
        let (operator, kernel, shape, category, times) = ("op", "kernel", &[8][..], Category::Gemm, 1);
        KernelTime { operator, kernel, shape, category, times, us, bytes, flops }
    }

    fn on(arch: &str, kernels: &[KernelTime<'_>]) -> Roof {
        Roof::of(&Timeline { arch: arch.to_owned(), ..Timeline::default() }, kernels)
    }

    #[test]
    fn a_kernel_is_measured_against_what_bounds_it() {
        // An MI300X: 5300 GB/s, 1307.4 TFLOP/s.
        let roof = on("gfx942", &[]);
        let share = |us, bytes, flops| roof.share(&kernel(us, bytes, flops)).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(share(1.0, 5_300_000, 0), 1.0), "bytes alone");
        assert!(near(share(2.0, 5_300_000, 1), 0.5), "below the ridge memory bounds");
        assert!(near(share(4.0, 1, 1_307_400_000), 0.25), "above it the units do");
        assert!(near(share(1.0, 0, 1_307_400_000), 1.0), "operations alone");
        assert_eq!(roof.share(&kernel(1.0, 0, 0)), None);
        assert!(roof.about.contains("MI300X"));
    }

    #[test]
    fn without_a_data_sheet_the_fastest_is_the_roof() {
        let kernels = [kernel(1.0, 1000, 0), kernel(1.0, 500, 4000)];
        for arch in ["sm_90", "", "unknown"] {
            let roof = on(arch, &kernels);
            assert_eq!(roof.share(&kernels[0]), Some(1.0), "{arch}");
            assert_eq!(roof.share(&kernels[1]), Some(1.0), "{arch}");
            assert!(chart(&kernels, &roof).contains("roof seen"));
        }
        let emulated =
            Timeline { device: "emulated gfx942".to_owned(), arch: "gfx942".to_owned(), ..Timeline::default() };
        assert!(Roof::of(&emulated, &kernels).seen, "the emulator's times have nothing to do with a card's roof");
    }

    #[test]
    fn every_kernel_with_both_counts_has_its_circle_within_the_chart() {
        let kernels: Vec<KernelTime<'_>> = (0..20)
            .map(|i| kernel(1.0 + i as f64, 10_u64.pow(i / 2), 1 + 10_u64.pow(i / 3)))
            .chain([kernel(1.0, 5, 0)])
            .collect();
        for arch in ["gfx942", "sm_90"] {
            let svg = chart(&kernels, &on(arch, &kernels));
            assert_eq!(svg.matches("<circle").count(), 20);
            for (attribute, most) in [(" cx=\"", WIDTH), (" cy=\"", HEIGHT)] {
                let places = svg.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap());
                assert!(places.map(|place| place.parse().unwrap()).all(|place: f64| (0.0..=most).contains(&place)));
            }
        }
        assert_eq!(chart(&[], &on("", &[])).matches("<circle").count(), 0);
    }
}
