//! No bit is dropped: what decodes says in its text every bit that it has.
//!
//! Each row of the families' files with each of its bits turned, and random words: what decodes must differ in its text from
//! the row, and `llvm-mc` must make the same bytes of the text. By default a share of the texts goes through `llvm-mc`;
//! `ROCFIRE_TEST_FULL=1` takes all.

mod common;

use common::{Random, Rows, bytes, files};
use rocfire_arch::Arch;
use rocfire_isa::{
    DecodeError, Decoded, Format, Inst, Op, OperandKind, WaveSize, decode_dual, disassemble, disassemble_dual,
};
use std::collections::HashMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

const FULL: &str = "ROCFIRE_TEST_FULL";
/// Of the rows' neighbours, one in so many goes through `llvm-mc`.
const SHARE: usize = 12;
/// Random words for each instruction set.
const WORDS: usize = 60_000;

fn full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// The words of what follows an instruction: they must not matter, and a literal is read from them.
const BEHIND: [u32; 3] = [0x0123_4567, 0x89ab_cdef, 0x5a5a_a5a5];

fn decoded(file: &Rows, words: &[u32]) -> Option<(Decoded, String)> {
    match decode_dual(file.arch, file.wave, &bytes(words)) {
        Ok(decoded) => Some((decoded, disassemble_dual(file.arch, &decoded))),
        Err(DecodeError::Invalid { .. }) => None,
        Err(other) => panic!("{words:08x?}: {other}"),
    }
}

/// Whether it is a compare that writes EXEC.
fn writes_exec(inst: &Inst) -> bool {
    format!("{:?}", inst.op).starts_with("VCmpx")
}

/// The bits of a row's neighbour in which it may differ without differing in text.
fn unread(inst: &Decoded, words: usize, bit: usize) -> bool {
    let first = &inst.first;
    let literal = first.src.iter().any(|src| matches!(src.kind, OperandKind::Literal(_)));
    // Of a 16-bit operand's literal only the lower half is read.
    let upper_literal = literal && bit / 32 + 1 == words && bit % 32 >= 16;
    // Before RDNA a scalar offset may stand in either of two fields, beside an offset of zero or without.
    let offset_choice = first.format == Format::Smem && [14, 17].contains(&bit);
    // RDNA 1 and 2 have two numbers for no scalar address.
    let no_address = matches!(first.format, Format::Flat | Format::Global | Format::Scratch) && bit == 49;
    let no_format = first.format == Format::Mubuf && words == 3 && bit == 55;
    let matrix = matches!(first.format, Format::Vop3p | Format::Vop3pMai);
    // The bits of a third scale, which is not there; then those that are op_sel_hi elsewhere of the moves between the register
    // files.
    let scaled = first.mods.scale.is_some() && [13, 14].contains(&bit);
    let moves = first.format == Format::Vop3pMai && !first.src[1].is_some() && [14, 59, 60].contains(&bit);
    // op_sel_hi of a source that is not there.
    let absent = matrix && !first.src[2].is_some() && bit == 14;
    // A compare that writes EXEC does not say so: older compilers have zero in the field, newer ones EXEC's number.
    let exec = first.format == Format::Vop3 && bit < 8 && writes_exec(first);
    exec || upper_literal || offset_choice || no_format || no_address || moves || scaled || absent
}

#[test]
fn a_turned_bit_shows() {
    let mut wrong = Vec::new();
    for file in files() {
        for (words, text) in &file.rows {
            let Some((inst, ours)) = decoded(&file, words) else {
                let key = (file.arch, text.split(' ').next().unwrap().to_owned(), 0);
                wrong.push((key, format!("{} {words:08x?} {text} does not decode", file.arch)));
                continue;
            };
            for bit in 0..32 * words.len() {
                let mut turned: Vec<u32> = words.iter().copied().chain(BEHIND).collect();
                turned[bit / 32] ^= 1 << (bit % 32);
                let Some((turned, other)) = decoded(&file, &turned) else { continue };
                if other == ours && turned == inst && !unread(&inst, words.len(), bit) {
                    let mnemonic = ours.split(' ').next().unwrap_or_default().to_owned();
                    wrong.push(((file.arch, mnemonic, bit), format!("{} {words:08x?} bit {bit}: {ours}", file.arch)));
                }
            }
        }
    }
    let mut shown = std::collections::BTreeMap::new();
    for (key, line) in &wrong {
        shown.entry((key.0.info().name, &key.1)).or_insert(line.as_str());
    }
    let shown: Vec<_> = shown.into_values().collect();
    assert!(wrong.is_empty(), "{} bits are dropped:\n{}", wrong.len(), shown.join("\n"));
}

/// The bytes that `llvm-mc` makes of each text, or its error. `None` if it is not installed.
fn assembled(arch: Arch, wave: WaveSize, texts: &[String]) -> Option<Vec<Result<Vec<u8>, String>>> {
    let mut results: Vec<Result<Vec<u8>, String>> = vec![Err("nothing came of it".to_owned()); texts.len()];
    let size = if wave == WaveSize::Wave32 { 32 } else { 64 };
    // The encoding is printed on the line of the text; a label says which text it is of.
    let input: String = texts.iter().enumerate().map(|(n, text)| format!("l{n}:\n{text}\n")).collect();
    let halves = if arch.info().name >= "gfx1100" && arch.info().name < "gfx13" { ",+real-true16" } else { "" };
    let mut mc = Command::new("llvm-mc-22")
        .args(["-triple=amdgcn", &format!("-mcpu={arch}"), &format!("-mattr=+wavefrontsize{size}{halves}")])
        .arg("-show-encoding")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = mc.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = mc.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let mut at = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(label) = line.strip_prefix('l').and_then(|label| label.strip_suffix(':')) {
            at = label.parse().unwrap();
        } else if let Some((_, encoding)) = line.split_once("; encoding: [") {
            let list = encoding.split(']').next().unwrap();
            let made = list.split(',').map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16));
            results[at] = made.collect::<Result<_, _>>().map_err(|_| line.to_owned());
        }
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let Some((place, error)) = line.split_once(": error: ") else { continue };
        let number: usize = place.split(':').nth(1).unwrap().parse().unwrap();
        results[(number - 1) / 2] = Err(error.to_owned());
    }
    Some(results)
}

/// The bit of an atomic operation on floating-point numbers in memory that LLVM reads and does not write.
fn unwritten_bit(inst: &Inst) -> u64 {
    let name = format!("{:?}", inst.op);
    let of_floats = name.contains("Atomic") && ["F16", "F32", "F64"].iter().any(|kind| name.ends_with(kind));
    match inst.format {
        Format::Flat | Format::Global if of_floats => 1 << 25,
        Format::Mubuf if of_floats => 1 << 15,
        _ => 0,
    }
}

/// Whether `again` is another encoding of the same, neither of which drops a bit.
fn equal_encoding(file: &Rows, words: &[u8], again: &[u8], text: &str) -> bool {
    let read = |bytes: &[u8]| decode_dual(file.arch, file.wave, bytes).map(|inst| inst.first);
    let (Ok(one), Ok(other)) = (read(words), read(again)) else { return false };
    let literal = |inst: &Inst| inst.src.iter().any(|src| matches!(src.kind, OperandKind::Literal(_)));
    if one.op != other.op {
        return false;
    }
    let first = |bytes: &[u8]| bytes.iter().take(8).rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
    match one.format {
        // A literal in the place of an inline constant of 16 bits, whose text is the constant's bits, or the other way round.
        _ if literal(&one) || literal(&other) => true,
        // The groups of four lanes and their masks have several spellings.
        Format::Ds => one.op == Op::DsSwizzleB32,
        // A scalar offset may stand in either of two fields.
        Format::Smem => one.src[1].is_some() && one.mods.offset == 0 && disassemble(file.arch, &other) == text,
        // There is no scalar address, for which some write zero, and RDNA 1 and 2 have two numbers.
        Format::Flat | Format::Global => {
            (first(words) ^ first(again)) & !(0x007f_0000_0000_0000 | unwritten_bit(&one)) == 0
        }
        // A buffer operation without a format has 0 or 1 there, and the text of an atomic that cascades does not say whether
        // it returns.
        Format::Mubuf => (first(words) ^ first(again)) & !(1 << 55 | 1 << 52 | unwritten_bit(&one)) == 0,
        // LLVM reads the limits of the apertures as barriers' numbers, and makes literals of their own numbers.
        Format::Sop1 if format!("{:?}", one.op).contains("Barrier") => {
            text.contains("src_") && (first(words) ^ first(again)) & !0xff == 0
        }
        // See `unread`.
        Format::Vop3 if writes_exec(&one) => (first(words) ^ first(again)) & !0xff == 0,
        // A compare to VCC, which is either named or meant by an upper bit of 0.
        Format::Vopc if one.mods.sdwa.is_some() => (first(words) ^ first(again)) & !0xff00_0000_0000 == 0,
        // A third scale, which is not there.
        Format::Vop3pMai if one.mods.scale.is_some() => (first(words) ^ first(again)) & !0x1800_0000_0000_6000 == 0,
        // op_sel_hi of sources that are not there, or of an operation without it: all or nothing.
        Format::Vop3p | Format::Vop3pMai => (first(words) ^ first(again)) & !0x1800_0000_0000_4000 == 0,
        _ => false,
    }
}

/// Has `llvm-mc` make the bytes again; says how many it made and what differs.
fn round_trip(file: &Rows, all: &[(Vec<u8>, String)]) -> Option<(usize, Vec<String>)> {
    let texts: Vec<String> = all.iter().map(|(_, text)| text.clone()).collect();
    let results = assembled(file.arch, file.wave, &texts)?;
    let (mut made, mut wrong) = (0, Vec::new());
    for ((bytes, text), result) in all.iter().zip(results) {
        match result {
            Ok(again) if again == *bytes || equal_encoding(file, bytes, &again, text) => made += 1,
            Ok(again) => wrong.push(format!("{} {text}: is {bytes:02x?}, llvm-mc makes {again:02x?}", file.arch)),
            // What its disassembler prints it does not always take.
            Err(_) => {}
        }
    }
    Some((made, wrong))
}

#[test]
fn texts_make_the_same_bytes() {
    let mut all_wrong: HashMap<String, Vec<String>> = HashMap::new();
    for (number, file) in files().into_iter().enumerate() {
        let mut random = Random::new(number as u64 + 1);
        let mut texts = Vec::new();
        let mut take = |words: &[u32]| {
            if let Some((inst, text)) = decoded(&file, words) {
                texts.push((bytes(words)[..usize::from(inst.bytes())].to_vec(), text));
            }
        };
        for (words, _) in &file.rows {
            // Which neighbours are taken depends on the row alone, so that a new row changes nothing for the others.
            let first =
                Random::new(words.iter().fold(0, |all, &word| all << 32 ^ u64::from(word))).next() as usize % SHARE;
            for bit in 0..32 * words.len() {
                if !full() && bit % SHARE != first {
                    continue;
                }
                let mut turned: Vec<u32> = words.iter().copied().chain(BEHIND).collect();
                turned[bit / 32] ^= 1 << (bit % 32);
                take(&turned);
            }
        }
        for _ in 0..if full() { 20 * WORDS } else { WORDS } {
            take(&random.words());
        }
        let Some((made, wrong)) = round_trip(&file, &texts) else {
            println!("skipped: llvm-mc-22 not found");
            return;
        };
        println!("{} {:?}: {made} of {} are made again", file.arch, file.wave, texts.len());
        assert!(made > texts.len() * 3 / 4, "llvm-mc takes almost nothing");
        all_wrong.entry(file.arch.to_string()).or_default().extend(wrong);
    }
    let count: usize = all_wrong.values().map(Vec::len).sum();
    // One a mnemonic says it.
    let mut shown = std::collections::BTreeMap::new();
    for (arch, line) in all_wrong.iter().flat_map(|(arch, list)| list.iter().map(move |line| (arch, line))) {
        shown.entry((arch, line.split(' ').nth(1))).or_insert(line.as_str());
    }
    let shown: Vec<_> = shown.into_values().collect();
    assert!(count == 0, "{count} differ:\n{}", shown.join("\n"));
}
