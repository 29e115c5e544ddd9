//! Tuning tables: what was measured to be fastest, by device, operator, element types and bucketed shape.
//!
//! A table is CSV, a measured choice a row. Tables for known devices are shipped with the library (`SHIPPED`); `rocfire tune`
//! extends the user's, which goes first (`ROCFIRE_TUNING`). A row names the hash of what it measured, our kernels' source or the
//! vendor's library by name and version, and is ignored when that differs: then the heuristic decides, as it does for a shape
//! without a row. A run looks up and never measures. With `ROCFIRE_TUNING_RECORD=FILE` shapes without a row are noted there, once
//! each, as `rocfire tune --shapes FILE` takes them.
//!
//! Times on an emulated device say nothing of a card: its rows have `emulated` for a driver, and no other device reads them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rocfire_arch::Arch;
use rocfire_hal::vendor::Scaling;
use rocfire_hal::{DType, Device, DriverKind, Level};

use crate::quant::{Format, Granularity};
use crate::{Error, Result};

/// The tables that come with the library.
const SHIPPED: &[&str] = &[include_str!("../tuning/sm_90.csv")];

/// The first line of a table.
pub const HEADER: [&str; 15] = [
    "driver",
    "arch",
    "units",
    "operator",
    "input",
    "output",
    "layout",
    "m",
    "n",
    "k",
    "batches",
    "candidate",
    "hash",
    "repeats",
    "microseconds",
];
/// The first line of a record of shapes: the parts of a key that a shape has.
pub const SHAPE_HEADER: [&str; 8] = ["operator", "input", "output", "layout", "m", "n", "k", "batches"];

/// How the two factors of a product lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lies {
    /// A by rows, B by rows.
    Nn,
    /// A by rows, B by columns, as the weight of a linear layer does.
    Nt,
    /// A by columns, B by rows.
    Tn,
    /// Both by columns.
    Tt,
}

impl Lies {
    /// All of them.
    pub const ALL: [Lies; 4] = [Lies::Nn, Lies::Nt, Lies::Tn, Lies::Tt];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Lies::Nn => "nn",
            Lies::Nt => "nt",
            Lies::Tn => "tn",
            Lies::Tt => "tt",
        }
    }

    /// The one of a name.
    pub fn from_name(name: &str) -> Option<Lies> {
        Lies::ALL.into_iter().find(|lies| lies.name() == name)
    }

    pub(crate) fn of(a_along_k: bool, b_along_k: bool) -> Lies {
        match (a_along_k, b_along_k) {
            (true, false) => Lies::Nn,
            (true, true) => Lies::Nt,
            (false, false) => Lies::Tn,
            (false, true) => Lies::Tt,
        }
    }
}

/// What codes both sides of a product are, and how they are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codes {
    /// Formats of A and B.
    pub formats: [Format; 2],
    /// How A and B are scaled.
    pub scaling: [Scaling; 2],
}

impl Codes {
    /// Ways of scaling that there is a product by.
    const SCALING: [Scaling; 5] = [Scaling::Tensor, Scaling::Line, Scaling::Run128, Scaling::Block128, Scaling::Mx32];

    /// Of sides of this granularity in a product of M, N, K; `None` for what no library scales by.
    pub fn of(sides: [(Format, Granularity); 2], [m, n, k]: [usize; 3]) -> Option<Codes> {
        let scaling = |side: usize, rows: usize| {
            let granularity = sides[side].1;
            crate::quant::scaling(granularity.kind(), granularity.block([rows, k]), [rows, k])
        };
        Some(Codes { formats: sides.map(|(format, _)| format), scaling: [scaling(0, m)?, scaling(1, n)?] })
    }

    /// Their names in tables, of formats and of scales: A's and B's with a colon between.
    fn names(self) -> [String; 2] {
        let [a, b] = self.formats;
        let [a_scaling, b_scaling] = self.scaling;
        [format!("{a:?}:{b:?}"), format!("{a_scaling:?}:{b_scaling:?}")].map(|name| name.to_ascii_lowercase())
    }

    /// Those of two names.
    fn from_names(formats: &str, scaling: &str) -> Option<Codes> {
        let (a, b) = formats.split_once(':')?;
        let (a_scaling, b_scaling) = scaling.split_once(':')?;
        let of = |name: &str| Codes::SCALING.into_iter().find(|other| is_name(other, name));
        let format = |name: &str| Format::from_name(name);
        Some(Codes { formats: [format(a)?, format(b)?], scaling: [of(a_scaling)?, of(b_scaling)?] })
    }
}

/// Whether it is what a variant is called, in small letters.
fn is_name(variant: &impl std::fmt::Debug, name: &str) -> bool {
    format!("{variant:?}").to_ascii_lowercase() == name
}

/// The shape of a product, for tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Element type of A and B; of codes `U8`.
    pub input: DType,
    /// What A and B are where they are codes with scales; rows of either lie along K then.
    pub codes: Option<Codes>,
    /// Element type of C.
    pub output: DType,
    /// How A and B lie.
    pub lies: Lies,
    /// M, N, K.
    pub size: [usize; 3],
    /// How many products.
    pub batches: usize,
}

impl Shape {
    /// Of a product of codes.
    pub fn of_codes(codes: Codes, output: DType, size: [usize; 3]) -> Shape {
        Shape { input: DType::U8, codes: Some(codes), output, lies: Lies::Nt, size, batches: 1 }
    }

    /// The operator's name in tables: `gemm`, or `codes`.
    pub fn operator(&self) -> &'static str {
        if self.codes.is_some() { CODES } else { GEMM }
    }

    /// Names in tables of the inputs' types, and of how they lie or are scaled.
    pub fn names(&self) -> [String; 2] {
        self.codes.map_or_else(|| [self.input.to_string(), self.lies.name().to_owned()], Codes::names)
    }

    /// The fields of a record.
    fn fields(&self) -> [String; 8] {
        let Shape { output, size: [m, n, k], batches, .. } = *self;
        let [input, layout] = self.names();
        let [m, n, k, batches] = [m, n, k, batches].map(|extent| extent.to_string());
        [self.operator().to_owned(), input, output.to_string(), layout, m, n, k, batches]
    }

    /// The shape that stands for all of its bucket: extents rounded up to two significant bits (1, 2, 3, 4, 6, 8, 12, ...).
    pub fn bucket(self) -> Shape {
        Shape { size: self.size.map(bucket), batches: bucket(self.batches), ..self }
    }
}

fn bucket(extent: usize) -> usize {
    let lowest = (usize::BITS - extent.leading_zeros()).saturating_sub(2);
    extent.div_ceil(1 << lowest) << lowest
}

/// What a row says to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// Our kernel with a tiling of the table, a workgroup for each slice of K or not.
    Tiling {
        /// Its number.
        number: usize,
        /// Whether K is cut for different workgroups.
        sliced: bool,
    },
    /// Our kernel, of a product of codes: it has no other tilings to take.
    Ours,
    /// The vendor's library, with its plan of a number; of codes, so many for each way of having them scaled.
    Vendor {
        /// The plan's number.
        choice: usize,
    },
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Candidate::Tiling { number, sliced: false } => write!(f, "tiling:{number}"),
            Candidate::Tiling { number, sliced: true } => write!(f, "tiling:{number}:sliced"),
            Candidate::Ours => write!(f, "ours"),
            Candidate::Vendor { choice } => write!(f, "vendor:{choice}"),
        }
    }
}

impl Candidate {
    /// The one of a text in a table.
    pub fn parse(text: &str) -> Option<Candidate> {
        if text == "ours" {
            return Some(Candidate::Ours);
        }
        let (kind, rest) = text.split_once(':')?;
        match (kind, rest.strip_suffix(":sliced")) {
            ("tiling", Some(number)) => Some(Candidate::Tiling { number: number.parse().ok()?, sliced: true }),
            ("tiling", None) => Some(Candidate::Tiling { number: rest.parse().ok()?, sliced: false }),
            ("vendor", None) => Some(Candidate::Vendor { choice: rest.parse().ok()? }),
            _ => None,
        }
    }
}

/// A measured choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The driver that measured it, by name: an emulated device's time is no card's.
    pub driver: String,
    /// The architecture.
    pub arch: Arch,
    /// Compute units.
    pub units: usize,
    /// The shape of its bucket.
    pub shape: Shape,
    /// What was fastest.
    pub candidate: Candidate,
    /// Of what was measured.
    pub hash: String,
    /// Whether repeats gave the same bits.
    pub repeats_agreed: bool,
    /// The time of one launch.
    pub microseconds: f64,
}

/// Names of operators in tables.
const GEMM: &str = "gemm";
const CODES: &str = "codes";

impl Row {
    /// Whether it is about a device.
    pub fn is_of(&self, device: &Device) -> bool {
        let info = device.info();
        self.driver == driver_name(device) && self.arch == device.arch() && self.units == info.compute_units as usize
    }

    /// Whether a newer row takes its place.
    pub fn is_replaced_by(&self, newer: &Row) -> bool {
        let place = |row: &Row| (row.driver.clone(), row.arch, row.units, row.shape);
        place(self) == place(newer)
    }

    fn fields(&self) -> Vec<String> {
        let mut fields = vec![self.driver.clone(), self.arch.to_string(), self.units.to_string()];
        fields.extend(self.shape.fields());
        fields.push(self.candidate.to_string());
        fields.push(self.hash.clone());
        fields.push(if self.repeats_agreed { "agreed" } else { "differ" }.to_owned());
        fields.push(format!("{:.3}", self.microseconds));
        fields
    }

    fn parse(record: &Record<'_>) -> Option<Row> {
        let field = |at: usize| record.get(at);
        Some(Row {
            driver: field(0)?.to_owned(),
            arch: Arch::parse(field(1)?).ok()?,
            units: field(2)?.parse().ok()?,
            shape: parse_shape(record, 3)?,
            candidate: Candidate::parse(field(11)?)?,
            hash: field(12)?.to_owned(),
            repeats_agreed: match field(13)? {
                "agreed" => true,
                "differ" => false,
                _ => return None,
            },
            microseconds: field(14)?.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0)?,
        })
    }
}

/// The eight fields of a shape from `first` on.
fn parse_shape(record: &Record<'_>, first: usize) -> Option<Shape> {
    let field = |at: usize| record.get(first + at);
    let extent = |at: usize| field(at)?.parse().ok().filter(|&extent: &usize| extent > 0);
    let (output, size, batches) = (DType::from_name(field(2)?)?, [extent(4)?, extent(5)?, extent(6)?], extent(7)?);
    match field(0)? {
        GEMM => {
            let (input, lies) = (DType::from_name(field(1)?)?, Lies::from_name(field(3)?)?);
            Some(Shape { input, codes: None, output, lies, size, batches })
        }
        CODES => {
            let codes = Codes::from_names(field(1)?, field(3)?)?;
            Some(Shape { batches, ..Shape::of_codes(codes, output, size) })
        }
        _ => None,
    }
}

/// The driver's name in tables.
pub(crate) fn driver_name(device: &Device) -> &'static str {
    match device.id().driver() {
        DriverKind::Hip => "hip",
        DriverKind::Cuda => "cuda",
        DriverKind::Emulated => "emulated",
        DriverKind::Noop => "noop",
    }
}

fn wrong(path: &Path, line: u64, what: &str) -> Error {
    Error::Tuning { path: path.display().to_string(), line, what: what.to_owned() }
}

/// A line of a table: its number and its fields. No field has a comma, so none is quoted.
struct Record<'t> {
    line: u64,
    fields: Vec<&'t str>,
}

impl Record<'_> {
    fn get(&self, at: usize) -> Option<&str> {
        self.fields.get(at).copied()
    }
}

/// The records behind a header; empty lines and those that begin with `#` are none.
fn records<'t>(path: &Path, text: &'t str, header: &[&str]) -> Result<Vec<Record<'t>>> {
    let fields = |text: &'t str| text.split(',').map(str::trim).collect::<Vec<_>>();
    let lines = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty() && !text.starts_with('#'));
    let mut records = lines.map(|(line, text)| Record { line, fields: fields(text) });
    if records.next().is_none_or(|first| first.fields != header) {
        return Err(wrong(path, 1, &format!("the header is not {}", header.join(","))));
    }
    let as_long = |record: Record<'t>| match record.fields.len() == header.len() {
        true => Ok(record),
        false => Err(wrong(path, record.line, &format!("{} fields, not {}", record.fields.len(), header.len()))),
    };
    records.map(as_long).collect()
}

/// The rows of a table; none where there is no file.
///
/// # Errors
/// `Tuning` with file and line for what is no row, and for a file that cannot be read.
pub fn read_table(path: &Path) -> Result<Vec<Row>> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse_table(path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(wrong(path, 0, &error.to_string())),
    }
}

/// Rows of the shipped tables and the user's, those that go first last.
///
/// # Errors
/// As [`read_table`], of the user's.
pub fn known_rows(user: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for shipped in SHIPPED {
        rows.extend(parse_table(Path::new("shipped"), shipped).expect("a test reads the shipped tables"));
    }
    rows.extend(read_table(user)?);
    Ok(rows)
}

fn parse_table(path: &Path, text: &str) -> Result<Vec<Row>> {
    let row = |record: Record<'_>| Row::parse(&record).ok_or_else(|| wrong(path, record.line, "no row"));
    records(path, text, &HEADER)?.into_iter().map(row).collect()
}

/// Writes a table: under another name first, so that a reader sees all of it or nothing.
///
/// # Errors
/// `Tuning` for a file that cannot be written.
pub fn write_table(path: &Path, rows: &[Row]) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| wrong(path, 0, &error.to_string());
    let lines = std::iter::once(HEADER.join(",")).chain(rows.iter().map(|row| row.fields().join(",")));
    let text: String = lines.map(|line| line + "\n").collect();
    let beside = path.with_extension(format!("csv.{}", std::process::id()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(|error| failed(&error))
}

/// The shapes of a record that `Tables::note` wrote.
///
/// # Errors
/// `Tuning` with file and line.
pub fn read_shapes(path: &Path) -> Result<Vec<Shape>> {
    let text = std::fs::read_to_string(path).map_err(|error| wrong(path, 0, &error.to_string()))?;
    let shape =
        |record: Record<'_>| parse_shape(&record, 0).ok_or_else(|| wrong(path, record.line, "no shape of a product"));
    records(path, &text, &SHAPE_HEADER)?.into_iter().map(shape).collect()
}

/// What a device looks its shapes up in.
pub(crate) struct Tables {
    rows: HashMap<Shape, (Candidate, bool)>,
    /// Shapes already noted.
    noted: Mutex<HashSet<Shape>>,
}

impl Tables {
    /// The tables of a device: those shipped, then the user's, rows of this device whose hash is today's.
    pub fn of(device: &Device) -> Tables {
        let rows = known_rows(&device.config().tuning_table()).unwrap_or_else(|error| {
            device.report(Level::Warn, format_args!("the user's tuning table is not used: {error}"));
            known_rows(Path::new("")).unwrap_or_default()
        });
        Tables::from_rows(device, rows)
    }

    fn from_rows(device: &Device, all: Vec<Row>) -> Tables {
        let mut rows = HashMap::new();
        for row in all.into_iter().filter(|row| row.is_of(device)) {
            if crate::gemm::candidate_hash(device, row.candidate).as_deref() == Some(&row.hash) {
                rows.insert(row.shape, (row.candidate, row.repeats_agreed));
            } else {
                let (shape, candidate) = (row.shape, row.candidate);
                device.report(Level::Debug, format_args!("{candidate} for {shape:?} was measured of another version"));
            }
        }
        Tables { rows, noted: Mutex::default() }
    }

    /// What was measured to be fastest for a shape's bucket, if its bits are the same on every run where that is asked for.
    pub fn find(&self, device: &Device, shape: Shape) -> Option<Candidate> {
        let (candidate, repeats_agreed) = *self.rows.get(&shape.bucket())?;
        (repeats_agreed || !device.deterministic()).then_some(candidate)
    }

    /// Notes a shape without a row, once in a process, if the settings say where.
    pub fn note(&self, device: &Device, shape: Shape) {
        let Some(path) = &device.config().tuning_record else { return };
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.insert(shape.bucket()) {
            return;
        }
        let line = shape.fields().join(",") + "\n";
        let append = || -> std::io::Result<()> {
            let mut file = File::options().create(true).append(true).open(path)?;
            let is_new = file.metadata()?.len() == 0;
            let header = if is_new { SHAPE_HEADER.join(",") + "\n" } else { String::new() };
            file.write_all((header + &line).as_bytes())
        };
        if let Err(error) = append() {
            device.report(Level::Warn, format_args!("cannot note a shape in {}: {error}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests;
