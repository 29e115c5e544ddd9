//! `--published`: modelled rates of AMD's kernels beside those that AMD and others have published for cards.
//!
//! A kernel runs on the emulator at a shape whose workgroups do what those of the published shape do, but for their number, and its
//! result is compared as everywhere here. The timeline of the emulator (`MODEL.md`, section 8) then has the workgroups of a full card.

use std::fmt::Write as _;

use rayon::prelude::*;
use rocfire_arch::{Arch, Card};
use rocfire_emulator::{Lost, Profile, Residents, Simulated, Timeline};

use crate::against::{find, ours};
use crate::case::{Case, Object};
use crate::family::{attention, gemm, topk};
use ours::{Outcome, counted};

/// What is modelled of a row.
type Counted = dyn Fn() -> Outcome<Vec<Profile>> + Send + Sync;

/// What a rate counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Operations, in TFLOP/s.
    Operations,
    /// Bytes in and out, in GB/s.
    Bytes,
}

/// An operator with a published rate.
struct Row {
    /// The operator, the published shape and the card.
    operator: &'static str,
    /// Whose kernel is modelled, and on what.
    modelled: String,
    arch: &'static str,
    of: Of,
    /// Operations or bytes of the launch that is emulated.
    work: f64,
    /// Workgroups of the published shape.
    groups: u64,
    /// The published rate, in TFLOP/s or GB/s, and where it is.
    published: (f64, &'static str),
    counted: Box<Counted>,
}

/// The clock that AMD names for products of 16 bits on MI300X is 1115 to 1230 MHz; the higher one, in MHz.
const PRODUCT_MHZ: f64 = 1230.0;
/// What a copy moves on MI300X, over what the data sheet says: 4.11 of 5.3 TB/s.
const COPY_SHARE: f64 = 4.11 / 5.3;

const AITER: &str = "AITER, `op_tests/cpp/mha/README.md` at e4048607 (2026-08-22)";
const MAF: &str = "AMD, [Measuring max-achievable FLOPs, part 2]\
    (https://rocm.blogs.amd.com/software-tools-optimization/measuring-max-achievable-flops-part2/README.html); hipBLASLt's kernel";
const FLYDSL: &str = "[ROCm/FlyDSL#848](https://github.com/ROCm/FlyDSL/issues/848): Triton's kernel on MI350, 73% of 8 TB/s; FlyDSL 72%, \
    AITER's HIP kernel 59%";
/// The same share of MI300X's bandwidth.
const SHARE_OF_MI350: &str = "73% of 5.3 TB/s: the share that ROCm/FlyDSL#848 has of MI350's; none of MI300X was found";

/// Operations of attention of so many queries and keys, a head of 128.
fn attended(queries: usize, keys: usize) -> f64 {
    4.0 * (queries * keys * 128) as f64
}

/// A case of AMD's as what is counted.
fn amd(case: Case) -> Box<Counted> {
    Box::new(move || Ok(case.counted()?))
}

/// AMD's attention of 256 queries, which are one workgroup.
fn forward(
    objects: &[Object],
    (arch, name): (&'static str, &str),
    operator: &'static str,
    (keys, groups): (usize, u64),
    tflops: f64,
) -> Outcome<Row> {
    let case = attention::forward::of(find(objects, arch, name)?, &[(256, keys)], [1, 1]);
    Ok(Row {
        operator,
        modelled: format!("AMD, `{name}`: 256 queries, {keys} keys"),
        arch,
        of: Of::Operations,
        work: attended(256, keys),
        groups,
        published: (tflops, AITER),
        counted: amd(case),
    })
}

fn attentions(objects: &[Object]) -> Outcome<Vec<Row>> {
    let cdna3 = ("gfx942", "fmha_v3_fwd/MI300/fwd_hd128_bf16_rtne.co");
    let cdna4 = ("gfx950", "fmha_v3_fwd/fwd_hd128_bf16.co");
    // Workgroups: tiles of 256 queries, heads, batches.
    Ok(vec![
        forward(objects, cdna3, "attention forward, 4x64/8x8192x128, MI300X", (8192, 32 * 64 * 4), 592.0)?,
        forward(objects, cdna3, "attention forward, 1x32/8x4096x128, MI300X", (4096, 16 * 32), 528.0)?,
        forward(objects, cdna3, "attention forward, 1x32/8x1024x128, MI300X", (1024, 4 * 32), 338.0)?,
        forward(objects, cdna4, "attention forward, 4x64/8x8192x128, MI355X", (8192, 32 * 64 * 4), 1408.0)?,
    ])
}

/// The product of the published figure: rows, columns, depth.
const PRODUCT: [usize; 3] = [4096, 4864, 32896];
/// What ours is modelled at.
const REDUCED: [usize; 3] = [256, 256, 4096];
/// The number of the tiling that ours takes for [`PRODUCT`] on 304 compute units, and its rows and columns:
/// `rocfire explain gemm 4096 4864 32896 bf16 --arch gfx942`.
const TILING: (usize, [usize; 2]) = (0, [128, 128]);

fn operations([m, n, k]: [usize; 3]) -> f64 {
    2.0 * (m * n * k) as f64
}

fn products(objects: &[Object]) -> Outcome<Vec<Row>> {
    let [m, n, _] = PRODUCT;
    let groups = |rows: usize, columns: usize| (m.div_ceil(rows) * n.div_ceil(columns)) as u64;
    let (name, small) = ("bf16gemm/bf16gemm_outf32_tn_96x64_pf3.co", [96, 64, 8192]);
    let case = gemm::of(find(objects, "gfx942", name)?, small, 1).ok_or("no kernel of products")?;
    let operator = "product bf16, 4096x4864x32896, MI300X";
    Ok(vec![
        Row {
            operator,
            modelled: format!("AMD, `{name}` (made for few rows; hipBLASLt's is not in the package): {small:?}"),
            arch: "gfx942",
            of: Of::Operations,
            work: operations(small),
            groups: groups(96, 64),
            published: (708.0, MAF),
            counted: amd(case),
        },
        Row {
            operator,
            modelled: format!("rocfire, `gemm`: {REDUCED:?}"),
            arch: "gfx942",
            of: Of::Operations,
            work: operations(REDUCED),
            groups: groups(TILING.1[0], TILING.1[1]),
            published: (708.0, MAF),
            counted: Box::new(|| counted("gfx942", |device| ours::product(device, REDUCED, TILING.0, false))),
        },
    ])
}

fn norms(objects: &[Object]) -> Outcome<Vec<Row>> {
    let case = topk::cases(find(objects, "gfx942", "layer_norm.co")?).pop().ok_or("no kernel of norms")?;
    // Four rows of 8192: two in, two out, and the weight and the bias stay in caches.
    let amds = Row {
        operator: "norm of a sum with a residual, any rows of 8192, MI300X",
        modelled: "AMD, `layer_norm.co` (an RMSNorm): 4 rows".to_owned(),
        arch: "gfx942",
        of: Of::Bytes,
        work: (4 * 4 * 8192 * 2) as f64,
        groups: 1 << 14,
        published: (0.73 * 5300.0, SHARE_OF_MI350),
        counted: amd(case),
    };
    let (rows, columns) = (4096, 512);
    let of = |arch: &'static str, operator: &'static str, published: (f64, &'static str)| Row {
        operator,
        modelled: format!("rocfire, `norm`: {rows} rows"),
        arch,
        of: Of::Bytes,
        work: (2 * rows * columns * 2) as f64,
        groups: 1 << 14,
        published,
        counted: Box::new(move || counted(arch, |device| ours::rms_norm(device, [rows, columns]))),
    };
    Ok(vec![
        amds,
        of("gfx942", "RMSNorm bf16, 32768x512, MI300X", (0.73 * 5300.0, SHARE_OF_MI350)),
        of("gfx950", "RMSNorm bf16, 32768x512, MI350", (5864.0, FLYDSL)),
    ])
}

/// What came of a row.
struct Figures {
    timeline: Timeline,
    /// At the data sheet's clock and bandwidth, near and far.
    sheet: [f64; 2],
    /// At the clock or bandwidth that the card is known to keep, near and far.
    kept: Option<[f64; 2]>,
    /// Whether memory is what binds.
    is_memory: bool,
    simds: u32,
}

impl Row {
    fn figures(&self) -> Outcome<Figures> {
        let profiles = (self.counted)()?;
        let clocks = |profile: &Profile| profile.bound().needed_clocks();
        let profile = profiles.iter().max_by(|a, b| clocks(a).total_cmp(&clocks(b))).ok_or("nothing was launched")?;
        let timeline = profile.timeline(Residents::Full).ok_or("its workgroups are too long for a timeline")?;
        let info = Arch::parse(self.arch)?.info();
        let (unit, card) = (info.unit.ok_or("no unit")?, info.card.ok_or("no card")?);
        let work = self.work / profile.groups as f64;
        let rates = [timeline.near, timeline.far].map(|found| self.per_clock(work, &timeline, found, &card));
        let at = |mhz: f64| rates.map(|rate| rate * mhz * 1e6);
        let (sheet, kept, is_memory) = match self.of {
            Of::Operations => (at(card.clock_mhz), at(PRODUCT_MHZ), false),
            Of::Bytes => {
                let most = card.memory_gbs * 1e9;
                let found = at(card.clock_mhz);
                (found.map(|rate| rate.min(most)), found.map(|rate| rate.min(COPY_SHARE * most)), found[0] > most)
            }
        };
        let scale = if self.of == Of::Operations { 1e-12 } else { 1e-9 };
        let [sheet, kept] = [sheet, kept].map(|rates| rates.map(|rate| rate * scale));
        // Nothing of the kind was found of other cards.
        let kept = (self.arch == "gfx942").then_some(kept);
        Ok(Figures { timeline, sheet, kept, is_memory, simds: unit.simds })
    }

    /// Work of all units in a clock, where a workgroup has so much: the unit with most of them is the last.
    fn per_clock(&self, work: f64, timeline: &Timeline, found: Simulated, card: &Card) -> f64 {
        let units = u64::from(card.compute_units);
        let rounds = self.groups.div_ceil(units) as f64;
        let clocks = found.clocks as f64 / timeline.groups as f64 * rounds;
        work * self.groups as f64 / clocks
    }
}

/// What the page begins with.
const INTRODUCTION: &str = "\
# Modelled rates beside published ones

Written by `cargo profile --modelled --published`: kernels of AMD's package `amd-aiter`, and ours where the package has none, run on the
emulator, and its timeline (`backend/emulator/MODEL.md`, section 8) says what a card would do by one set of constants, none of which was
chosen by this table. *Modelled*: no figure here but the published ones is of a card.

The kernel of the product's figure is hipBLASLt's, which is not in the package, and those of the norms' figures are Triton's and AITER's
HIP: for these the table says whether the model is in the right place, and not how well it knows the kernel. Which of AMD's three
roundings its figure of attention is of, is not said; this is the one to even.

*Near* is with all loads served by caches, *far* with all that L1 does not have in memory. *Sheet* is at the data sheet's peak clock and
bandwidth. *Kept* is at what cards are known to keep: products and attention at 1230 MHz, the higher of the two clocks that AMD's page of
the product's figure names for MI300X; memory at 77.5% of the data sheet, which BabelStream's copy moves on Azure's MI300X
(4.11 TB/s, `samuel-bohman/AI-benchmarking-guide`, `Azure_Results/ND_MI300X_v5_results.md`). At 1115 MHz, the lower clock, rates are 0.91
times those. No clock of attention was found. **Bold** is the ratio of modelled to published; the aim is 0.75 to 1.25.
";

/// What the page ends with.
const END: &str = "
## What decides

At the sheet's clock and bandwidth the rows of MI300X, but for the shortest attention, come out 1.26 to 1.67 times too fast, *near*. Waits,
dependencies and barriers keep the matrix units of attention busy for three quarters only: that is the published rate if the clock is
that of products, where at the peak clock the published rate would be 45%. The shortest attention takes 51 microseconds and comes out right
at the peak clock: it may be too short to bring the clock down, which the model cannot know. Our product is between its two ends by whether the
loads of a round come in time, as two rounds fit in LDS; AMD's small tile by the way from L2, which its 160 rows of operands fill.
Norms are bound by memory, whatever the waits, and so by what share of the data sheet a copy reaches.

## What cannot be decided without a card

- The clock of each kernel under load: it is what divides *sheet* and *kept*, and it alone moves a rate by 1.7.
- Where a load is served: *near* and *far* are the two ends. L2 of a die, Infinity Cache and their contention are not modelled.
- The latencies of *far*, and of LDS: they are assumptions between published bounds.
- What a conflict in LDS costs beyond a clock: MI300X was measured at 1.6 clocks (`amd-shark-ai`, `docs/empirical-lds`).
- Fetch of instructions, dispatch of workgroups, launch.
";

/// The page `tests/published.md`. A row that could not be counted is told in it.
///
/// # Errors
/// A code object that the package has not; no operator of that name.
pub fn page(objects: &[Object], filter: &str) -> Outcome<String> {
    let mut rows = attentions(objects)?;
    rows.extend(products(objects)?);
    rows.extend(norms(objects)?);
    rows.retain(|row| format!("{} {}", row.operator, row.modelled).contains(filter));
    if rows.is_empty() {
        return Err(format!("no operator holds {filter:?}").into());
    }
    let found: Vec<Result<Figures, String>> =
        rows.par_iter().map(|row| row.figures().map_err(|error| error.to_string())).collect();
    let mut page = format!(
        "{INTRODUCTION}\n| operator | kernel | published | sheet: near, far | kept: near, far | what decides | source |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for (row, figures) in rows.iter().zip(&found) {
        let (published, source) = row.published;
        let unit = if row.of == Of::Operations { "TFLOP/s" } else { "GB/s" };
        let Row { operator, modelled, .. } = row;
        let _ = match figures {
            Ok(figures) => writeln!(
                page,
                "| {operator} | {modelled} | {published:.0} {unit} | {} | {} | {} | {source} |",
                cell(figures.sheet, published),
                figures.kept.map_or_else(|| "not known".to_owned(), |kept| cell(kept, published)),
                decides(figures),
            ),
            Err(error) => {
                writeln!(page, "| {operator} | {modelled}: {error} | {published:.0} {unit} | | | | {source} |")
            }
        };
    }
    page.push_str(END);
    Ok(page)
}

fn cell([near, far]: [f64; 2], published: f64) -> String {
    format!("{near:.0} **{:.2}**, {far:.0} **{:.2}**", near / published, far / published)
}

/// How busy the matrix units are, and what waves lose their clocks to; near, far.
fn decides(figures: &Figures) -> String {
    let both = [figures.timeline.near, figures.timeline.far];
    let percent =
        |of: &dyn Fn(&Simulated) -> f64| both.each_ref().map(|found| format!("{:.0}%", 100.0 * of(found))).join(", ");
    let busy = percent(&|found| found.matrix as f64 / (f64::from(figures.simds) * found.clocks as f64));
    let mut text = match figures.is_memory {
        true => "memory's bandwidth; of waves' clocks".to_owned(),
        false => format!("matrix units busy {busy}; of waves' clocks"),
    };
    for lost in Lost::ALL {
        let _ = write!(text, " {} {};", lost.name(), percent(&|found| found.share(lost)));
    }
    let _ = write!(text, " {} resident", figures.timeline.resident);
    text
}
