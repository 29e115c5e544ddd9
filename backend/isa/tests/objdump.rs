//! Whole compiled kernels: every instruction decodes, one after the other, to the text `llvm-objdump` prints.

use rocfire_arch::Arch;
use rocfire_isa::{decode, disassemble};
use std::path::Path;
use std::process::Command;

/// Compiles a kernel source for gfx942 and disassembles it. `None`, after saying so, if a tool is not installed.
fn disassembly(source: &Path, optimisation: &str, folder: &Path) -> Option<String> {
    let object = folder.join("kernel.co");
    let compiled = Command::new("clang-22")
        .args(["-x", "hip", "--cuda-device-only", "--offload-arch=gfx942", "--no-gpu-bundle-output"])
        .args(["-nogpulib", "-nogpuinc", "-ffp-contract=off", optimisation])
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output();
    let Ok(compiled) = compiled else {
        println!("skipped: clang-22 not found");
        return None;
    };
    assert!(compiled.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&compiled.stderr));
    let Ok(dumped) = Command::new("llvm-objdump-22").arg("-d").arg(&object).output() else {
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
    let arch = Arch::parse("gfx942").unwrap();
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for name in ["arithmetic.hip", "half.hip", "lanes.hip", "matrix_gfx94.hip", "memory.hip"] {
        let source = kernels.join(name);
        // Unoptimised code uses scratch, calls and moves that optimised code does not.
        for optimisation in ["-O0", "-O3"] {
            let Some(listing) = disassembly(&source, optimisation, folder.path()) else { return };
            let lines: Vec<_> = listing.lines().filter_map(instruction).collect();
            assert!(lines.len() > 20, "{}: no instructions found in the listing", source.display());
            for (address, words, text) in lines {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let inst = decode(arch, &bytes).unwrap_or_else(|error| panic!("{address:#x} {text}: {error}"));
                assert_eq!(usize::from(inst.bytes), bytes.len(), "{address:#x} {text}");
                assert_eq!(disassemble(arch, &inst), text, "{} {optimisation} {address:#x}", source.display());
                count += 1;
            }
        }
    }
    println!("{count} instructions agree");
}
