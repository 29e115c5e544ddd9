//! Rust of parts of a program: numbers, parameters, calls.

use rocfire_hal::DType;

use crate::data::Data;
use crate::program::{Call, Id, Number, Params};
use crate::table::Row;

/// The call with operands and parameters written out.
pub fn call_text(row: &Row, call: &Call, moved: &[Id]) -> String {
    let mut text = String::new();
    for (at, word) in words(row.call) {
        let argument = row.arguments.iter().position(|argument| *argument == word);
        let after_dot = row.call[..at].trim_end().ends_with('.');
        match argument {
            Some(number) if !after_dot => {
                let id = call.operands[number];
                let is_method = row.call[at + word.len()..].trim_start().starts_with(".clone()");
                let clone = if moved.contains(&id) || is_method { "" } else { ".clone()" };
                text += &format!("t{id}{clone}");
            }
            _ => text += word,
        }
    }
    parameters(&text, &call.params)
}

/// Identifiers, and what is between them.
fn words(text: &str) -> Vec<(usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let before = text[..at].chars().next_back();
        if at > start && (!is_word(c) || !before.is_some_and(is_word)) {
            words.push((start, &text[start..at]));
            start = at;
        }
    }
    words.push((start, &text[start..]));
    words
}

/// Every `p.name` as its value.
fn parameters(text: &str, p: &Params) -> String {
    let window = &p.window;
    let named: [(&str, String); 23] = [
        ("p.window.kernel", format!("{:?}", window.kernel)),
        ("p.window.stride", format!("{:?}", window.stride)),
        ("p.window.padding", format!("{:?}", window.padding)),
        ("p.window.dilation", format!("{:?}", window.dilation)),
        ("p.window.extra", format!("{:?}", window.extra)),
        ("p.window.groups", window.groups.to_string()),
        ("p.window", format!("{window:?}")),
        ("p.scalar2", number(p.scalar2)),
        ("p.scalar", number(p.scalar)),
        ("p.axis2", p.axis2.to_string()),
        ("p.axis", p.axis.to_string()),
        ("p.axes", format!("vec!{:?}", p.axes)),
        ("p.size", p.size.to_string()),
        ("p.step", p.step.to_string()),
        ("p.flag2", p.flag2.to_string()),
        ("p.flag", p.flag.to_string()),
        ("p.dtype", format!("DType::{:?}", p.dtype)),
        ("p.index", format!("DType::{:?}", p.index)),
        ("p.shape", format!("vec!{:?}", p.shape)),
        ("p.slices", format!("{:?}", p.slices)),
        ("p.pads", format!("{:?}", p.pads)),
        ("p.scheme", p.scheme.to_string()),
        ("\n", " ".to_owned()),
    ];
    named.into_iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, &value))
}

fn number(number: Number) -> String {
    match number {
        Number::Float(value) if value.is_nan() => "Number::Float(f64::NAN)".to_owned(),
        Number::Float(value) if value.is_infinite() && value > 0.0 => "Number::Float(f64::INFINITY)".to_owned(),
        Number::Float(value) if value.is_infinite() => "Number::Float(f64::NEG_INFINITY)".to_owned(),
        number => format!("Number::{number:?}"),
    }
}

/// The elements as a `Vec` of their type.
pub fn elements(data: &Data) -> String {
    let each: Vec<String> = (0..data.bits.len()).map(|at| element(data, at)).collect();
    let same = each.windows(2).all(|pair| pair[0] == pair[1]);
    match each.first() {
        None => format!("Vec::<{}>::new()", name(data.dtype)),
        Some(first) if same && each.len() > 4 => format!("vec![{first}; {}]", each.len()),
        Some(_) => format!("vec![{}]", each.join(", ")),
    }
}

/// What Rust calls the type.
pub fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "half::f16",
        DType::BF16 => "half::bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::Bool => "bool",
        dtype => dtype.name(),
    }
}

fn element(data: &Data, at: usize) -> String {
    let (bits, number, name) = (data.bits[at], data.number(at), name(data.dtype));
    let exact = number.is_finite() && (number != 0.0 || bits == 0);
    match data.dtype {
        DType::Bool => (bits != 0).to_string(),
        DType::F16 | DType::BF16 if exact && number.fract() == 0.0 && number.abs() < 100.0 => {
            format!("{name}::from_f32({number:?})")
        }
        DType::F16 | DType::BF16 => format!("{name}::from_bits({bits:#06x})"),
        DType::F32 if exact && number.abs() < 1e6 => format!("{:?}_f32", number as f32),
        DType::F64 if exact && number.abs() < 1e6 => format!("{number:?}_f64"),
        DType::F32 | DType::F64 => format!("{name}::from_bits({bits:#x})"),
        _ => format!("{}_{name}", data.integer(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_what_is_between_them_are_the_text() {
        let text = "B::float_slice(a, &slices(&p.slices))";
        assert_eq!(words(text).into_iter().map(|(_, word)| word).collect::<String>(), text);
        assert!(words(text).contains(&(15, "a")));
    }

    #[test]
    fn numbers_are_written_exactly() {
        let data = Data::of_numbers(DType::F32, &[4], [1.5, -0.0, f64::NAN, 1e20]);
        let text = elements(&data);
        assert!(text.starts_with("vec![1.5_f32, f32::from_bits(0x80000000), f32::from_bits("), "{text}");
    }
}
