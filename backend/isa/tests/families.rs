//! Every family: files of words and the text LLVM prints for them, some with the wave size that is not usual, kernels as a
//! compiler makes them, and laws that hold for any bytes.

mod common;

use common::{bytes, files};
use proptest::prelude::*;
use rocfire_arch::Arch;
use rocfire_isa::{DecodeError, Decoded, Format, Op, OperandKind, WaveSize, decode, decode_dual, disassemble_dual};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn every_row_prints_as_llvm_does() {
    let mut wrong = Vec::new();
    for file in files() {
        for (words, text) in &file.rows {
            // Words that follow must not matter.
            let mut padded = bytes(words);
            padded.extend_from_slice(&[0xff; 16]);
            let decoded = decode_dual(file.arch, file.wave, &padded).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(usize::from(decoded.bytes()), 4 * words.len(), "{text}");
            let ours = disassemble_dual(file.arch, &decoded);
            if ours != *text {
                wrong.push(format!("{} {words:08x?}: {ours:?} should be {text:?}", file.arch));
            }
            for have in 0..4 * words.len() {
                let cut = decode_dual(file.arch, file.wave, &padded[..have]);
                assert!(
                    matches!(cut, Err(DecodeError::Truncated { have: h, need }) if h == have && need > have),
                    "{text} cut to {have} bytes: {cut:?}"
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Operations without a row: this one marks the first half of a scaled multiplication, and is never decoded alone.
const UNPRINTED: &[Op] = &[Op::VMfmaLdScaleB32];

#[test]
fn every_operation_has_a_row() {
    let mut seen: HashSet<Op> = UNPRINTED.iter().copied().collect();
    for file in files() {
        for (words, _) in &file.rows {
            let decoded = decode_dual(file.arch, file.wave, &bytes(words)).unwrap();
            seen.insert(decoded.first.op);
            seen.extend(decoded.second.map(|inst| inst.op));
        }
    }
    let missing: Vec<_> = Op::ALL.iter().filter(|op| !seen.contains(op)).map(|op| format!("{op:?}")).collect();
    assert!(missing.is_empty(), "no row for {}", missing.join(", "));
}

/// The files themselves against the LLVM of this machine, so that nobody edits a row to agree with us.
#[test]
fn rows_are_what_llvm_says() {
    for file in files() {
        let wave = if file.wave == WaveSize::Wave32 { "+wavefrontsize32" } else { "+wavefrontsize64" };
        let mc = Command::new("llvm-mc-22")
            .args(["-triple=amdgcn", &format!("-mcpu={}", file.arch), &format!("-mattr={wave},+real-true16")])
            .arg("-disassemble")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut mc) = mc else {
            println!("skipped: llvm-mc-22 not found");
            return;
        };
        let mut input = String::new();
        for (words, _) in &file.rows {
            let bytes: Vec<_> = bytes(words).iter().map(|byte| format!("{byte:#04x}")).collect();
            input.push_str(&bytes.join(","));
            input.push('\n');
        }
        let mut stdin = mc.stdin.take().unwrap();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = mc.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|line| !line.is_empty() && !line.starts_with('.'))
            .collect();
        assert_eq!(printed.len(), file.rows.len(), "{}: llvm-mc-22 found another number of instructions", file.arch);
        for ((words, text), printed) in file.rows.iter().zip(&printed) {
            assert_eq!(text, printed, "{} {words:08x?}", file.arch);
        }
    }
}

/// A kernel's disassembly by `llvm-objdump`, for waves of 64 if asked. `None`, after saying so, if a tool is not installed.
fn listing(arch: &str, wide: bool, source: &Path, optimisation: &str, folder: &Path) -> Option<String> {
    let object = folder.join("kernel.co");
    let compiled = Command::new("clang-22")
        .args([
            "-x",
            "hip",
            "--cuda-device-only",
            "--no-gpu-bundle-output",
            "-nogpulib",
            "-nogpuinc",
            "-ffp-contract=off",
        ])
        .args([&format!("--offload-arch={arch}"), optimisation])
        .args(if wide { &["-mwavefrontsize64"][..] } else { &[] })
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output();
    let Ok(compiled) = compiled else {
        println!("skipped: clang-22 not found");
        return None;
    };
    assert!(compiled.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&compiled.stderr));
    // Halves of registers are named, on RDNA 4 too.
    let halves = if arch.starts_with("gfx11") || arch.starts_with("gfx12") { "+real-true16" } else { "" };
    let mattr = format!("--mattr={halves}{}", if wide { ",+wavefrontsize64" } else { "" });
    let Ok(dumped) = Command::new("llvm-objdump-22").args(["-d", &mattr]).arg(&object).output() else {
        println!("skipped: llvm-objdump-22 not found");
        return None;
    };
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    Some(String::from_utf8(dumped.stdout).unwrap())
}

/// Address, words and text of one line of `llvm-objdump -d`; the words stand in the comment.
fn instruction(line: &str) -> Option<(u64, Vec<u32>, String)> {
    let (text, comment) = line.split_once("//")?;
    let (address, words) = comment.trim().split_once(": ")?;
    let words = words.split(" <").next()?.split_whitespace();
    Some((
        u64::from_str_radix(address, 16).ok()?,
        words.map(|word| u32::from_str_radix(word, 16).unwrap()).collect(),
        text.split_whitespace().collect::<Vec<_>>().join(" "),
    ))
}

#[test]
fn compiled_kernels_print_as_objdump_does() {
    let folder = tempfile::tempdir().unwrap();
    let targets = [
        ("gfx90a", false),
        ("gfx942", false),
        ("gfx950", false),
        ("gfx1030", false),
        ("gfx1100", false),
        ("gfx1100", true),
        ("gfx1151", false),
        ("gfx1201", false),
    ];
    for (name, wide) in targets {
        let arch = Arch::parse(name).unwrap();
        let wave = if wide { WaveSize::Wave64 } else { WaveSize::usual(arch) };
        let mut count = 0;
        let own = format!("matrix_{}.hip", &name[..5]);
        for source in ["arithmetic.hip", "lanes.hip", "memory.hip", "half.hip", &own] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(source);
            // RDNA 2 has no matrix unit, and the fragments of the others are those of waves of 32.
            if !source.exists() || wide && source.ends_with(&own) {
                continue;
            }
            for optimisation in ["-O0", "-O3"] {
                let Some(listing) = listing(name, wide, &source, optimisation, folder.path()) else { return };
                let lines: Vec<_> = listing.lines().filter_map(instruction).collect();
                assert!(lines.len() > 20, "{}: no instructions found in the listing", source.display());
                for (address, words, text) in lines {
                    let bytes = bytes(&words);
                    let decoded = decode_dual(arch, wave, &bytes)
                        .unwrap_or_else(|error| panic!("{name} {} {address:#x} {text}: {error}", source.display()));
                    assert_eq!(usize::from(decoded.bytes()), bytes.len(), "{address:#x} {text}");
                    let ours = disassemble_dual(arch, &decoded);
                    assert_eq!(ours, text, "{name} {} {optimisation} {address:#x}", source.display());
                    count += 1;
                }
            }
        }
        println!("{name} {wave:?}: {count} instructions agree");
    }
}

#[test]
fn pairs_are_two_ordinary_operations() {
    let arch = Arch::parse("gfx1100").unwrap();
    let pair = bytes(&[0xc906_0503, 0x0104_0107]);
    let Decoded { first, second: Some(second) } = decode_dual(arch, WaveSize::Wave32, &pair).unwrap() else {
        panic!("a VOPD instruction has two operations");
    };
    assert_eq!((first.op, first.format, first.bytes), (Op::VAddF32, Format::Vop2, 8));
    assert_eq!(second.format, Format::Vop2);
    // Whoever cannot take two operations is told so, by both names.
    assert_eq!(
        decode(arch, &pair),
        Err(DecodeError::Pair { first: first.op.mnemonic(), second: second.op.mnemonic() })
    );
}

#[test]
fn masks_are_as_wide_as_the_wave() {
    let arch = Arch::parse("gfx1100").unwrap();
    // v_cmp_lt_f32_e32 vcc, v2, v3
    for (wave, dwords) in [(WaveSize::Wave32, 1), (WaveSize::Wave64, 2)] {
        let compare = decode_dual(arch, wave, &bytes(&[0x7c22_0702])).unwrap().first;
        assert_eq!((compare.op, compare.dst[0].dwords), (Op::VCmpLtF32, dwords));
    }
}

#[test]
fn halves_of_registers_are_told_by_op_sel() {
    // v_add_f16_e32 v5.h, v1.h, v2.l
    let add = decode(Arch::parse("gfx1100").unwrap(), &bytes(&[0x650a_0581])).unwrap();
    assert_eq!((add.op, add.mods.op_sel), (Op::VAddF16, 0b1001));
    assert_eq!(add.src[0].kind, OperandKind::Vgpr(1));
}

#[test]
fn renamed_operations_lead_to_their_first_name() {
    assert_eq!(Op::DsLoadB32.canonical(), Op::DsReadB32);
    assert_eq!(Op::GlobalLoadB128.canonical(), Op::GlobalLoadDwordx4);
    assert_eq!(Op::VMfmaF3232x32x8f16.canonical(), Op::VMfmaF3232x32x8F16);
    for &op in Op::ALL {
        assert_eq!(op.canonical().canonical(), op.canonical(), "{op:?}");
    }
}

#[test]
fn graphics_is_refused_by_name() {
    let rejected = [
        ("gfx1030", 0xf000_0000, "image instructions belong to graphics"),
        ("gfx1100", 0xf800_0000, "exports belong to graphics"),
        ("gfx1100", 0xcd00_0000, "interpolation belongs to graphics"),
        ("gfx1201", 0xd000_0000, "image instructions belong to graphics"),
        ("gfx90a", 0xf000_0000, "image instructions belong to graphics"),
        ("gfx1100", 0xe800_0000, "typed buffer instructions belong to graphics"),
    ];
    for (name, word, expected) in rejected {
        match decode(Arch::parse(name).unwrap(), &bytes(&[word, 0, 0])) {
            Err(DecodeError::Invalid { arch, word: first, reason }) => {
                assert_eq!((arch, first, reason), (name, word, expected));
            }
            other => panic!("{name} {word:#x}: {other:?}"),
        }
    }
}

/// Top bits of every format of every generation, so that random words reach opcodes behind long prefixes too.
fn prefixed_word() -> impl Strategy<Value = u32> {
    let prefixes = [
        0u32,
        0x7c00_0000,
        0x7e00_0000,
        0x8000_0000,
        0xb000_0000,
        0xbe80_0000,
        0xbf00_0000,
        0xbf80_0000,
        0xc000_0000,
        0xc400_0000,
        0xc800_0000,
        0xcc00_0000,
        0xd000_0000,
        0xd380_0000,
        0xd400_0000,
        0xd800_0000,
        0xdc00_0000,
        0xe000_0000,
        0xec00_0000,
        0xed00_0000,
        0xee00_0000,
        0xf400_0000,
    ];
    (prop::sample::select(prefixes.to_vec()), any::<u32>(), any::<bool>(), 248u32..256, 232u32..236).prop_map(
        |(prefix, word, special, first, eights)| {
            let free = if prefix >= 0xb000_0000 { 0x03ff_ffff } else { 0x7fff_ffff };
            let word = prefix | word & free;
            match (special, word & 1) {
                (true, 0) => word & !0x1ff | first,
                (true, _) => word & !0x1ff | eights,
                _ => word,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn decode_never_panics_and_consumes_whole_words(first in prefixed_word(), rest in prop::array::uniform3(any::<u32>())) {
        let words = [first, rest[0], rest[1], rest[2]];
        let bytes = bytes(&words);
        for arch in Arch::all() {
            for wave in [WaveSize::Wave32, WaveSize::Wave64] {
                match decode_dual(arch, wave, &bytes) {
                    Ok(decoded) => {
                        prop_assert!([4, 8, 12, 16].contains(&decoded.bytes()));
                        prop_assert!(disassemble_dual(arch, &decoded).starts_with(&decoded.first.op.mnemonic()[..2]));
                        for operand in decoded.first.dst.iter().chain(&decoded.first.src) {
                            if let OperandKind::Vgpr(n) | OperandKind::Agpr(n) = operand.kind {
                                prop_assert!(n + u16::from(operand.dwords) <= 256);
                            }
                            if let OperandKind::Sgpr(n) = operand.kind {
                                prop_assert!(n + u16::from(operand.dwords) <= 106);
                            }
                        }
                        let exact = decode_dual(arch, wave, &bytes[..usize::from(decoded.bytes())]);
                        prop_assert_eq!(exact, Ok(decoded));
                    }
                    Err(DecodeError::Invalid { word, .. }) => prop_assert_eq!(word, first),
                    Err(DecodeError::Unsupported { .. }) => {}
                    Err(other) => prop_assert!(false, "four words cannot be {}", other),
                }
            }
        }
    }
}
