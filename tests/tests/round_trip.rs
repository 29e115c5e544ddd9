//! Code objects through the decoder and back: every instruction prints as `llvm-objdump` prints it, has the length that it
//! says, and `llvm-mc` makes the same bytes of the text.
//!
//! The code is the corpus's and our own kernels', for one architecture of each family and for both wave sizes. By default
//! each run takes a share, another one each day; `ROCFIRE_TEST_FULL=1` takes all. Two processes a code object.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use libtest_mimic::{Arguments, Failed, Trial};
use object::{Object as _, ObjectSection as _};
use rocfire_arch::{Arch, Family};
use rocfire_hal::compile::{CodeObject, compile_many};
use rocfire_hal::{Config, Source};
use rocfire_isa::{WaveSize, decode_dual, disassemble_dual};
use rocfire_kernels::registry::registry;
use rocfire_tests::corpus::{THEMES, Variant};

const ARCHITECTURES: [&str; 8] = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"];
const FULL: &str = "ROCFIRE_TEST_FULL";
/// Without it, one source in so many is taken of an architecture.
const SHARE: usize = 60;
const TOOLS: [&str; 2] = ["llvm-objdump-22", "llvm-mc-22"];

fn main() {
    let arguments = Arguments::from_args();
    let missing = TOOLS.iter().find(|tool| Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_err());
    if let Some(tool) = missing {
        println!("skipped: {tool} not found");
        return;
    }
    let trials = ARCHITECTURES.iter().flat_map(|name| {
        let arch = Arch::parse(name).expect("a name of the table");
        let variants = Variant::all(arch);
        let mut sizes: Vec<u32> = variants.iter().map(|variant| variant.wave_size).collect();
        sizes.dedup();
        sizes.into_iter().map(move |wave_size| {
            Trial::test(format!("{arch} wave{wave_size}"), move || check(arch, wave_size).map_err(Failed::from))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// The sources of an architecture and wave size.
fn sources(arch: Arch, wave_size: u32) -> Vec<Source> {
    let variants = Variant::all(arch).into_iter().filter(|variant| variant.wave_size == wave_size);
    let corpus = variants.flat_map(|variant| THEMES.iter().map(move |(theme, _)| variant.source(theme)));
    let own = registry(arch).into_iter().map(|entry| entry.source);
    let own = own.filter(|_| wave_size == arch.info().wave_size);
    let all = corpus.chain(own);
    if std::env::var_os(FULL).is_some() {
        return all.collect();
    }
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60));
    all.skip(days as usize % SHARE).step_by(SHARE).collect()
}

fn check(arch: Arch, wave_size: u32) -> Result<(), String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let sources = sources(arch, wave_size);
    let compiled = compile_many(arch, &sources, &config).map_err(|error| error.to_string())?;
    let mut count = 0;
    for (source, code) in sources.iter().zip(compiled) {
        let code: Arc<CodeObject> = code.map_err(|error| error.to_string())?;
        // A theme about what this architecture does not have compiles to nothing.
        if code.kernels().is_empty() {
            continue;
        }
        let name = format!("{} {}", source.name(), source.flags().join(" "));
        count += round_trip(arch, wave_size, code.bytes()).map_err(|reason| format!("{name}: {reason}"))?;
    }
    println!("{arch} wave{wave_size}: {count} instructions of {} code objects", sources.len());
    Ok(())
}

/// One instruction as `llvm-objdump` sees it.
struct Disassembled {
    address: u64,
    bytes: Vec<u8>,
    text: String,
}

/// Checks a code object; gives the number of its instructions.
fn round_trip(arch: Arch, wave_size: u32, code: &[u8]) -> Result<usize, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("code.co");
    std::fs::write(&file, code).map_err(|error| error.to_string())?;
    // What the ELF header does not say. Halves of registers are named on RDNA 4 too.
    let wide = (wave_size == 64 && arch.info().wave_size == 32).then_some("+wavefrontsize64");
    let halves = (arch.info().family == Family::Rdna4).then_some("+real-true16");
    let features: Vec<&str> = wide.into_iter().chain(halves).collect();
    let features = format!("--mattr={}", features.join(","));
    let wave = vec![features.as_str()];
    let listing = run(Command::new(TOOLS[0]).arg("-d").args(&wave).arg(&file), "")?;
    let lines: Vec<Disassembled> = String::from_utf8_lossy(&listing).lines().filter_map(line).collect();
    if lines.is_empty() {
        return Err("no instructions in the listing".to_owned());
    }
    let size = if wave_size == 64 { WaveSize::Wave64 } else { WaveSize::Wave32 };
    let mut assembly = String::new();
    for Disassembled { address, bytes, text } in &lines {
        // What follows an instruction must not matter to it.
        let followed: Vec<u8> = bytes.iter().copied().chain([0xff; 8]).collect();
        let inst = decode_dual(arch, size, &followed).map_err(|error| format!("{address:#x} {text}: {error}"))?;
        let length = usize::from(inst.bytes());
        if length != bytes.len() {
            return Err(format!("{address:#x} {text}: {length} bytes, and it has {}", bytes.len()));
        }
        let printed = disassemble_dual(arch, &inst);
        if printed != *text {
            return Err(format!("{address:#x}: printed {printed}, llvm-objdump says {text}"));
        }
        assembly.push_str(&printed);
        assembly.push('\n');
    }
    reassemble(arch, size, &wave, &assembly, &lines, folder.path())?;
    Ok(lines.len())
}

/// Has `llvm-mc` make the bytes again.
fn reassemble(
    arch: Arch,
    size: WaveSize,
    wave: &[&str],
    assembly: &str,
    lines: &[Disassembled],
    folder: &Path,
) -> Result<(), String> {
    let object = folder.join("again.o");
    let cpu = format!("--mcpu={arch}");
    let mut command = Command::new(TOOLS[1]);
    command.args(["--triple=amdgcn-amd-amdhsa", &cpu, "--filetype=obj"]).args(wave).arg("-o").arg(&object);
    run(&mut command, assembly)?;
    let file = std::fs::read(&object).map_err(|error| error.to_string())?;
    let elf = object::File::parse(&*file).map_err(|error| error.to_string())?;
    let section = elf.section_by_name(".text").ok_or("llvm-mc made no code")?;
    let made = section.data().map_err(|error| error.to_string())?;
    let mut at = 0;
    for Disassembled { address, bytes, text } in lines {
        let again = made.get(at..at + bytes.len()).unwrap_or_default();
        if again != bytes && !differs_unseen(arch, size, text, bytes, again) {
            return Err(format!("{address:#x} {text}: is {bytes:02x?}, and llvm-mc makes {again:02x?}"));
        }
        at += bytes.len();
    }
    Ok(())
}

/// Whether only that is another which no text says. Of a 16-bit operand's literal the hardware reads the lower half; clang extends
/// its sign, and `llvm-mc` does not. Of gfx90a's `buffer_wbl2` clang sets both bits of the cache policy, for which `llvm-mc` has
/// no words.
fn differs_unseen(arch: Arch, size: WaveSize, text: &str, bytes: &[u8], again: &[u8]) -> bool {
    const POLICY: u8 = 0xc0;
    if let ("buffer_wbl2", [first, second, rest @ ..], [again_first, again_second, again_rest @ ..]) =
        (text, bytes, again)
    {
        return (first, rest) == (again_first, again_rest) && second & !POLICY == again_second & !POLICY;
    }
    let lower = bytes.len().saturating_sub(2);
    let decoded = decode_dual(arch, size, again);
    bytes.len() > 4
        && again.len() == bytes.len()
        && again[..lower] == bytes[..lower]
        && decoded.is_ok_and(|inst| disassemble_dual(arch, &inst) == text)
}

/// Runs a tool with text on its input; gives its output.
fn run(command: &mut Command, input: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input = input.to_owned();
    // From a thread of its own: the tool may fill its output before it has read all.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    writer.join().expect("writing does not panic").map_err(failed)?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(log.lines().take(4).collect::<Vec<_>>().join(" | "));
    }
    Ok(output.stdout)
}

/// Address, bytes and text of one line of `llvm-objdump -d`; the words stand in the comment.
fn line(line: &str) -> Option<Disassembled> {
    let (text, comment) = line.split_once("//")?;
    let (address, words) = comment.trim().split_once(": ")?;
    let words = words.split(" <").next()?.split_whitespace();
    let words: Vec<u32> = words.map(|word| u32::from_str_radix(word, 16).ok()).collect::<Option<_>>()?;
    Some(Disassembled {
        address: u64::from_str_radix(address, 16).ok()?,
        bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}
