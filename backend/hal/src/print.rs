//! What kernels print.
//!
//! A kernel's `printf` (`hip/rocfire/print.h` of the prelude's HIP headers) leaves records in a variable of its module. They are
//! read, formatted as C does, and taken out of it: by [`print()`] when an emulated launch has ended, and by [`Printing`] when
//! an AMD card has been waited for. On the CUDA driver `printf` is NVIDIA's own. Of the threads of a launch the order is that
//! in which they printed, which differs from run to run, as on a GPU.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[cfg(feature = "emulated")]
use rocfire_emulator::{Error, Gpu, Kernel};

use crate::Result;
use crate::driver::{Driver, DriverModule};

/// The module's variable. It begins with the bytes taken and the number of records that had no room.
const VARIABLE: &str = "__rocfire_print";
const HEADER_BYTES: u64 = 8;
/// Kinds of arguments.
const REAL: u64 = 1;
const TEXT: u64 = 2;

/// Writes what a launch of `kernel` has printed to standard output.
///
/// # Errors
/// Those of reading the device's memory.
#[cfg(feature = "emulated")]
pub fn print(gpu: &Gpu, kernel: &Kernel) -> Result<(), Error> {
    let Some(place) = kernel.global(VARIABLE) else { return Ok(()) };
    let text = taken(place, |from, bytes| gpu.read(from, bytes), |from, bytes| gpu.fill(from, 0, bytes))?;
    show(&text);
    Ok(())
}

/// The modules of a device whose kernels print.
#[derive(Default)]
pub(crate) struct Printing(Mutex<Vec<Printer>>);

/// One of them, as long as it is loaded, and where its variable is.
struct Printer {
    module: Weak<dyn DriverModule>,
    place: (u64, u64),
}

impl Printing {
    /// Looks whether a module that was just loaded prints. Modules without the variable cost nothing later.
    ///
    /// # Errors
    /// The driver's own.
    pub fn attach(&self, module: &Arc<dyn DriverModule>) -> Result<()> {
        if let Some(place) = module.variable(VARIABLE)? {
            self.lock().push(Printer { module: Arc::downgrade(module), place });
        }
        Ok(())
    }

    /// What has been printed since the last time; the device has been waited for.
    ///
    /// # Errors
    /// Those of reading the device's memory.
    pub fn taken(&self, driver: &dyn Driver) -> Result<Vec<u8>> {
        let mut printers = self.lock();
        let mut text = Vec::new();
        let mut outcome = Ok(());
        printers.retain(|printer| {
            // Held while it is read: the variable goes with the module.
            let Some(_module) = printer.module.upgrade() else { return false };
            // SAFETY: the variable is memory of the module's, of that size.
            let read = |from, bytes: &mut [u8]| unsafe { driver.read(from, bytes) };
            // SAFETY: as above.
            let clear = |from, bytes| unsafe { driver.fill(from, 0, bytes) };
            match taken(printer.place, read, clear) {
                Ok(more) => text.extend(more),
                Err(error) => outcome = Err(error),
            }
            true
        });
        outcome.map(|()| text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Printer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what kernels have printed to standard output. A program whose output nobody takes goes on.
pub(crate) fn show(text: &[u8]) {
    if !text.is_empty() {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text).and_then(|()| out.flush());
    }
}

/// Takes the records out of the variable at this address, of this size, and formats them.
fn taken<E>(
    (address, bytes): (u64, u64),
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    mut clear: impl FnMut(u64, u64) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut header = [0; HEADER_BYTES as usize];
    read(address, &mut header)?;
    let [used, lost] = [0, 4].map(|at| u32::from_le_bytes(std::array::from_fn(|i| header[at + i])));
    if used == 0 {
        return Ok(Vec::new());
    }
    let mut records = vec![0; u64::from(used).min(bytes.saturating_sub(HEADER_BYTES)) as usize];
    read(address + HEADER_BYTES, &mut records)?;
    clear(address, HEADER_BYTES + records.len() as u64)?;
    let mut text = render(&records);
    if lost > 0 {
        text.extend(format!("rocfire: {lost} more lines were printed than a launch can keep\n").bytes());
    }
    Ok(text)
}

/// An argument of a record.
enum Argument<'a> {
    Integer(u64),
    Real(f64),
    Text(u64, &'a [u8]),
}

/// The words of a record, read one after the other.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let bytes = usize::try_from(self.word()?).ok()?;
        let (text, rest) = self.0.split_at_checked(bytes.checked_next_multiple_of(8)?)?;
        self.0 = rest;
        Some(&text[..bytes])
    }

    fn argument(&mut self) -> Option<Argument<'a>> {
        let (kind, value) = (self.word()?, self.word()?);
        Some(match kind {
            REAL => Argument::Real(f64::from_bits(value)),
            TEXT => Argument::Text(value, self.text()?),
            _ => Argument::Integer(value),
        })
    }
}

/// All records as text. A record that a fault has cut short ends it.
fn render(records: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut words = Words(records);
    while let Some(head) = words.word().filter(|&head| head != 0) {
        let record = (|| {
            let format = words.text()?;
            let arguments = (0..head >> 32).map(|_| words.argument()).collect::<Option<Vec<_>>>()?;
            Some((format, arguments))
        })();
        let Some((format, arguments)) = record else { break };
        formatted(format, &arguments, &mut out);
    }
    out
}

/// A conversion of C's: `%-08.3lf`.
#[derive(Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// Bits of an integer.
    bits: u32,
    letter: u8,
}

fn formatted(format: &[u8], arguments: &[Argument<'_>], out: &mut Vec<u8>) {
    let mut arguments = arguments.iter();
    let mut at = 0;
    while at < format.len() {
        if format[at] != b'%' {
            out.push(format[at]);
            at += 1;
            continue;
        }
        let begun = at;
        let Some(conversion) = parse(format, &mut at, &mut arguments) else {
            // What is no conversion is printed as it stands.
            out.extend(&format[begun..]);
            return;
        };
        if conversion.letter == b'%' {
            out.push(b'%');
        } else if let Some(argument) = arguments.next() {
            conversion.put(argument, out);
        }
    }
}

/// Reads a conversion; widths and precisions given as `*` are arguments.
fn parse<'a>(
    format: &[u8],
    at: &mut usize,
    arguments: &mut impl Iterator<Item = &'a Argument<'a>>,
) -> Option<Conversion> {
    let mut conversion = Conversion { bits: 32, ..Conversion::default() };
    *at += 1;
    loop {
        match format.get(*at)? {
            b'-' => conversion.left = true,
            b'+' => conversion.plus = true,
            b' ' => conversion.space = true,
            b'#' => conversion.alternate = true,
            b'0' => conversion.zeros = true,
            _ => break,
        }
        *at += 1;
    }
    let mut number = |at: &mut usize| -> Option<i64> {
        if format.get(*at) == Some(&b'*') {
            *at += 1;
            return match arguments.next() {
                Some(&Argument::Integer(value)) => Some(i64::from(value as i32)),
                _ => Some(0),
            };
        }
        let mut value = None;
        while let Some(digit) = format.get(*at).filter(|c| c.is_ascii_digit()) {
            // Wider than any line is as wide as wanted.
            value = Some((value.unwrap_or(0) * 10 + i64::from(digit - b'0')).min(4096));
            *at += 1;
        }
        value
    };
    let width = number(at).unwrap_or(0);
    conversion.left |= width < 0;
    conversion.width = width.unsigned_abs().min(4096) as usize;
    if format.get(*at) == Some(&b'.') {
        *at += 1;
        conversion.precision = usize::try_from(number(at).unwrap_or(0)).ok();
    }
    loop {
        match format.get(*at)? {
            b'h' => conversion.bits /= 2,
            b'l' | b'z' | b't' | b'j' | b'q' => conversion.bits = 64,
            b'L' => {}
            &letter => {
                conversion.letter = letter;
                *at += 1;
                return Some(conversion);
            }
        }
        *at += 1;
    }
}

impl Conversion {
    fn put(&self, argument: &Argument<'_>, out: &mut Vec<u8>) {
        match (self.letter, argument) {
            (b's', Argument::Text(_, text)) => {
                let shown = &text[..self.precision.unwrap_or(text.len()).min(text.len())];
                self.pad("", shown, false, out);
            }
            (b'c', Argument::Integer(value)) => self.pad("", &[*value as u8], false, out),
            (b'p', Argument::Integer(value) | Argument::Text(value, _)) => {
                self.pad("", format!("{value:#x}").as_bytes(), false, out);
            }
            (b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G', _) => self.real(argument.real(), out),
            _ => self.integer(argument, out),
        }
    }

    fn integer(&self, argument: &Argument<'_>, out: &mut Vec<u8>) {
        let word = match *argument {
            Argument::Integer(value) | Argument::Text(value, _) => value,
            Argument::Real(value) => value as i64 as u64,
        };
        let unused = 64 - self.bits.clamp(8, 64);
        let (signed, unsigned) = ((word << unused) as i64 >> unused, word << unused >> unused);
        let digits = match self.letter {
            b'x' => format!("{unsigned:x}"),
            b'X' => format!("{unsigned:X}"),
            b'o' => format!("{unsigned:o}"),
            b'u' => unsigned.to_string(),
            _ => signed.unsigned_abs().to_string(),
        };
        let sign = match self.letter {
            b'd' | b'i' => self.sign(signed < 0),
            b'x' if self.alternate && unsigned != 0 => "0x",
            b'X' if self.alternate && unsigned != 0 => "0X",
            b'o' if self.alternate => "0",
            _ => "",
        };
        let digits = format!("{digits:0>width$}", width = self.precision.unwrap_or(1));
        self.pad(sign, digits.as_bytes(), self.zeros && self.precision.is_none(), out);
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    fn real(&self, value: f64, out: &mut Vec<u8>) {
        let (sign, magnitude) = (self.sign(value.is_sign_negative()), value.abs());
        let mut text = if magnitude.is_nan() {
            "nan".to_owned()
        } else if magnitude.is_infinite() {
            "inf".to_owned()
        } else {
            let precision = self.precision.unwrap_or(6);
            match self.letter.to_ascii_lowercase() {
                b'f' => format!("{magnitude:.precision$}"),
                b'e' => exponential(magnitude, precision),
                b'a' => hexadecimal(magnitude),
                _ => shortest(magnitude, precision.max(1), self.alternate),
            }
        };
        if self.letter.is_ascii_uppercase() {
            text = text.to_ascii_uppercase();
        }
        self.pad(sign, text.as_bytes(), self.zeros && magnitude.is_finite(), out);
    }

    /// Fills up to the width: with zeros behind the sign, or with spaces on the side that is asked for.
    fn pad(&self, sign: &str, body: &[u8], zeros: bool, out: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(sign.len() + body.len());
        let (before, between, after) = match (self.left, zeros) {
            (true, _) => (0, 0, missing),
            (false, true) => (0, missing, 0),
            (false, false) => (missing, 0, 0),
        };
        out.extend(std::iter::repeat_n(b' ', before));
        out.extend(sign.bytes().chain(std::iter::repeat_n(b'0', between)));
        out.extend(body);
        out.extend(std::iter::repeat_n(b' ', after));
    }
}

impl Argument<'_> {
    fn real(&self) -> f64 {
        match *self {
            Argument::Real(value) => value,
            Argument::Integer(value) | Argument::Text(value, _) => value as i64 as f64,
        }
    }
}

/// C's `%e`: Rust writes the exponent without a sign and in as few digits as it takes.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').expect("there is an exponent in this form");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// C's `%g`: `precision` digits, in the shorter of the two forms.
fn shortest(value: f64, precision: usize, keep_zeros: bool) -> String {
    let rounded = format!("{value:.*e}", precision - 1);
    let exponent: i64 = rounded.split_once('e').expect("there is an exponent").1.parse().expect("it is a number");
    let trimmed = |text: &str| match text.contains('.') && !keep_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i64 {
        let text = exponential(value, precision - 1);
        let (mantissa, exponent) = text.split_once('e').expect("there is an exponent");
        return format!("{}e{exponent}", trimmed(mantissa));
    }
    trimmed(&format!("{value:.*}", (precision as i64 - 1 - exponent) as usize))
}

/// C's `%a`.
fn hexadecimal(value: f64) -> String {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.to_bits();
    let (exponent, mantissa) = ((bits >> MANTISSA_BITS) as i64, bits & ((1 << MANTISSA_BITS) - 1));
    let (lead, exponent) = match (exponent, mantissa) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        (exponent, _) => (1, exponent - 1023),
    };
    let digits = format!("{mantissa:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests;
