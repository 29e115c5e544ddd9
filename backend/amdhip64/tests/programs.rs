//! C++ programs, compiled by clang without ROCm, linked against the library and run as a user runs them.
//!
//! The programs under `programs/` print a line for each of their parts. The same ones are run for an architecture of every
//! family whose ordinary instructions the emulator executes.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use rocfire_arch::DEFAULT_EMULATED;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// A folder as `rocfire hip-library` makes one: `lib` with the libraries, `include`, `bin`. Tests share what is in them.
fn installed() -> tempfile::TempDir {
    static LAID_OUT: OnceLock<PathBuf> = OnceLock::new();
    let laid_out = LAID_OUT.get_or_init(|| {
        let executable = std::env::current_exe().unwrap();
        let built = executable.parent().unwrap().join("librocfire_amdhip64.a");
        assert!(built.is_file(), "{} was not built", built.display());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hip");
        let mut command = Command::new(Path::new(CRATE).join("install.sh"));
        succeed(command.args([&built, &folder]).env("HIP_CLANG", clang()));
        folder
    });
    let folder = tempfile::tempdir().unwrap();
    for name in ["lib", "include", "bin"] {
        symlink(laid_out.join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn clang() -> PathBuf {
    let found = rocfire_hal::compile::find_clang();
    found.unwrap_or_else(|rejected| panic!("no clang: {rejected:?}")).path().to_owned()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

fn source(program: &str) -> String {
    format!("{CRATE}/tests/programs/{program}.hip")
}

/// Compiles a program with the command that is installed beside the library.
fn compile(program: &str, arch: &str, folder: &Path) -> PathBuf {
    let executable = folder.join(program);
    let mut command = Command::new(folder.join("bin/hipcc"));
    command.args(["-std=c++17", "-O2", "-Wall", "-Werror"]).arg(format!("--offload-arch={arch}"));
    succeed(command.env("HIP_CLANG", clang()).arg(source(program)).arg("-o").arg(&executable));
    executable
}

fn run(executable: &Path, arch: &str, folder: &Path) -> Output {
    let mut command = Command::new(executable);
    command.env("LD_LIBRARY_PATH", folder.join("lib")).env("ROCFIRE_HIP_ARCH", arch);
    for name in ["ROCFIRE_DEVICE", "ROCFIRE_CHECK", "ROCFIRE_SYNC", "ROCFIRE_LOG"] {
        command.env_remove(name);
    }
    succeed(&mut command)
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What a program prints on an architecture.
fn lines_of(program: &str, arch: &str) -> Vec<String> {
    let folder = installed();
    lines(&run(&compile(program, arch, folder.path()), arch, folder.path()))
}

fn assert_all_ok(lines: &[String], expected: usize) {
    let wrong = lines.iter().filter(|line| !line.ends_with(": ok")).collect::<Vec<_>>();
    assert!(wrong.is_empty() && lines.len() == expected, "{lines:#?}");
}

fn check_basics(mut lines: Vec<String>, arch: &str) {
    let device = lines.remove(1);
    assert!(device.starts_with(&format!("device: {arch}")), "{device}");
    assert_all_ok(&lines, 13);
}

#[test]
fn a_compiled_program_runs_on_every_family() {
    for arch in [DEFAULT_EMULATED, "gfx90a", "gfx950", "gfx1030", "gfx1100", "gfx1201"] {
        check_basics(lines_of("basics", arch), arch);
    }
}

/// clang's own bundler is in a package that not every machine has.
fn bundle(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    const ALIGNMENT: usize = 4096;
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend((entries.len() as u64).to_le_bytes());
    let mut end = ALIGNMENT;
    for (id, code) in entries {
        for number in [end, code.len(), id.len()] {
            bytes.extend((number as u64).to_le_bytes());
        }
        bytes.extend(id.as_bytes());
        end = (end + code.len()).next_multiple_of(ALIGNMENT);
    }
    for (_, code) in entries {
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes.extend(code);
    }
    bytes
}

/// A bundle in clang's compressed form, version 3.
fn compressed(bundle: &[u8]) -> Vec<u8> {
    let content = zstd::bulk::compress(bundle, 3).unwrap();
    let mut bytes = b"CCOB\x03\0\x01\0".to_vec();
    for number in [32 + content.len(), bundle.len(), 0] {
        bytes.extend((number as u64).to_le_bytes());
    }
    bytes.extend(content);
    bytes
}

#[test]
fn a_program_for_several_targets_gives_each_device_its_own() {
    let folder = installed();
    let archs = ["gfx90a", "gfx1100"];
    let flags = ["-x", "hip", "-std=c++17", "-O2", "-nogpuinc", "-nogpulib"];
    let resources = succeed(Command::new(clang()).arg("-print-resource-dir")).stdout;
    let wrappers = format!("-isystem{}/include/cuda_wrappers", String::from_utf8(resources).unwrap().trim());
    let include = format!("-I{}", folder.path().join("include").display());
    let mut entries = vec![("host-x86_64-unknown-linux-gnu-".to_owned(), Vec::new())];
    for arch in archs {
        let code = folder.path().join(arch);
        let mut command = Command::new(clang());
        command
            .args(flags)
            .args([&wrappers, &include])
            .args(["-include", "__clang_hip_runtime_wrapper.h"])
            .args(["--cuda-device-only", "--no-gpu-bundle-output"]);
        succeed(command.arg(format!("--offload-arch={arch}")).arg(source("basics")).arg("-o").arg(&code));
        entries.push((format!("hipv4-amdgcn-amd-amdhsa--{arch}"), std::fs::read(code).unwrap()));
    }
    let entries: Vec<_> = entries.iter().map(|(id, code)| (id.as_str(), code.clone())).collect();
    let plain = bundle(&entries);
    for (name, image) in [("plain", plain.clone()), ("compressed", compressed(&plain))] {
        let (file, executable) = (folder.path().join(name), folder.path().join(format!("program-{name}")));
        std::fs::write(&file, image).unwrap();
        let mut command = Command::new(clang());
        command.args(flags).args([&wrappers, &include]).args(["-include", "__clang_hip_runtime_wrapper.h"]).args([
            "--cuda-host-only",
            "-Xclang",
            "-fcuda-include-gpubinary",
            "-Xclang",
        ]);
        command.arg(&file).arg(source("basics")).arg("-L").arg(folder.path().join("lib"));
        succeed(command.args(["-lamdhip64", "-lstdc++", "-o"]).arg(&executable));
        for arch in archs {
            check_basics(lines(&run(&executable, arch, folder.path())), arch);
        }
        let mut other = Command::new(&executable);
        other.env("LD_LIBRARY_PATH", folder.path().join("lib")).env("ROCFIRE_HIP_ARCH", DEFAULT_EMULATED);
        let output = other.env_remove("ROCFIRE_LOG").output().unwrap();
        let reports = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && reports.contains("only for: gfx90a, gfx1100"), "{reports}");
    }
}

#[test]
fn conversions_and_instructions_give_what_their_names_say() {
    for arch in [DEFAULT_EMULATED, "gfx90a", "gfx950", "gfx1030", "gfx1100", "gfx1201"] {
        assert_all_ok(&lines_of("conversions", arch), 7);
    }
}

#[test]
fn a_program_that_compiles_at_run_time_runs() {
    assert_all_ok(&lines_of("compiled_at_run_time", DEFAULT_EMULATED), 11);
}

#[test]
fn devices_have_their_own_and_reach_each_other() {
    let folder = installed();
    let executable = compile("devices", DEFAULT_EMULATED, folder.path());
    let with = |count: &str| {
        let mut command = Command::new(&executable);
        command.env("LD_LIBRARY_PATH", folder.path().join("lib")).env("ROCFIRE_HIP_ARCH", DEFAULT_EMULATED);
        command.env("ROCFIRE_HIP_DEVICES", count).env_remove("ROCFIRE_LOG").arg(count);
        command
    };
    assert_all_ok(&lines(&succeed(&mut with("3"))), 12);
    for wrong in ["0", "17", "two"] {
        let output = with(wrong).output().unwrap();
        let reports = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && reports.contains("ROCFIRE_HIP_DEVICES"), "{wrong}: {reports}");
    }
}

#[test]
fn graphs_of_nodes_run_in_the_order_of_their_dependencies() {
    assert_all_ok(&lines_of("graphs", DEFAULT_EMULATED), 6);
}

/// The soname of a library and the names of its symbols' versions.
fn names_in(library: &Path) -> (String, Vec<String>) {
    use object::elf::{DT_SONAME, SHT_DYNSYM};
    use object::read::elf::{Dyn as _, ElfFile64, VersionIndex};
    let (bytes, endian) = (std::fs::read(library).unwrap(), object::LittleEndian);
    let elf = ElfFile64::<object::LittleEndian>::parse(&*bytes).unwrap();
    let sections = elf.elf_section_table();
    let (entries, strings) = sections.dynamic(endian, &*bytes).unwrap().unwrap();
    let strings = sections.strings(endian, &*bytes, strings).unwrap();
    let soname = entries.iter().find(|entry| entry.tag32(endian) == Some(DT_SONAME)).unwrap();
    let soname = strings.get(soname.val32(endian).unwrap()).unwrap();
    let symbols = sections.symbols(endian, &*bytes, SHT_DYNSYM).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let names = match sections.versions(endian, &*bytes).unwrap() {
        None => symbols.iter().map(|symbol| text(symbols.symbol_name(endian, symbol).unwrap())).collect(),
        Some(versions) => symbols
            .enumerate()
            .filter_map(|(index, symbol)| {
                let version: VersionIndex = versions.version_index(endian, index);
                let version = versions.version(version).unwrap()?;
                Some(format!("{}@{}", text(symbols.symbol_name(endian, symbol).unwrap()), text(version.name())))
            })
            .collect(),
    };
    (text(soname), names)
}

#[test]
fn libraries_are_named_and_versioned_as_rocms() {
    let folder = installed();
    for release in [5, 6, 7] {
        let hip = format!("libamdhip64.so.{release}");
        let (soname, names) = names_in(&folder.path().join("lib").join(&hip));
        assert_eq!(soname, hip);
        let versioned = [
            "hipMalloc@hip_4.2",
            "hipGraphCreate@hip_4.3",
            "hipMallocAsync@hip_5.1",
            "hipGetDeviceProperties@hip_4.2",
            "hipGetDevicePropertiesR0600@hip_6.0",
            "hiprtcCreateProgram@hip_4.2",
        ];
        for name in versioned {
            assert!(names.iter().any(|there| there == name), "{hip} has no {name}");
        }
        let rtc = format!("libhiprtc.so.{release}");
        let (soname, names) = names_in(&folder.path().join("lib").join(&rtc));
        assert_eq!(soname, rtc);
        assert!(names.iter().any(|name| name == "hiprtcCreateProgram"), "{rtc}: {names:?}");
        assert!(!names.iter().any(|name| name.starts_with("hipMalloc")), "{rtc}: {names:?}");
    }
}

#[test]
fn programs_linked_to_any_release_run_on_the_one_emulator() {
    let folder = installed();
    let object = folder.path().join("compiled_at_run_time.o");
    let mut command = Command::new(folder.path().join("bin/hipcc"));
    command.args(["-std=c++17", "-O2", "-c"]).arg(format!("--offload-arch={DEFAULT_EMULATED}"));
    succeed(command.env("HIP_CLANG", clang()).arg(source("compiled_at_run_time")).arg("-o").arg(&object));
    // The last one opens three libraries, and what one of them made the others know.
    for (hip, rtc) in [(5, 5), (6, 6), (7, 7), (6, 7)] {
        let executable = folder.path().join(format!("program{hip}{rtc}"));
        let mut command = Command::new(clang());
        command.arg("-fuse-ld=lld").arg(&object).arg("-L").arg(folder.path().join("lib"));
        command.args([format!("-l:libamdhip64.so.{hip}"), format!("-l:libhiprtc.so.{rtc}")]);
        succeed(command.args(["-lstdc++", "-lm", "-o"]).arg(&executable));
        let needed = std::fs::read(&executable).unwrap();
        let name = format!("libamdhip64.so.{hip}\0");
        assert!(needed.windows(name.len()).any(|window| window == name.as_bytes()), "it asks for {name}");
        assert_all_ok(&lines(&run(&executable, DEFAULT_EMULATED, folder.path())), 11);
    }
}

#[test]
fn memory_is_told_in_the_numbers_of_the_release_that_a_program_is_linked_to() {
    let folder = installed();
    let object = folder.path().join("memory_kinds.o");
    let mut command = Command::new(folder.path().join("bin/hipcc"));
    command.args(["-std=c++17", "-O2", "-c"]).arg(format!("--offload-arch={DEFAULT_EMULATED}"));
    succeed(command.env("HIP_CLANG", clang()).arg(source("memory_kinds")).arg("-o").arg(&object));
    let hip_5 = ["device: 1", "host: 0", "managed: 4", "unknown: hipErrorInvalidValue"];
    let hip_6 = ["device: 2", "host: 1", "managed: 3", "unknown: 0"];
    for (release, expected) in [(5, hip_5), (6, hip_6), (7, hip_6)] {
        let executable = folder.path().join(format!("program{release}"));
        let mut command = Command::new(clang());
        command.arg("-fuse-ld=lld").arg(&object).arg("-L").arg(folder.path().join("lib"));
        command.arg(format!("-l:libamdhip64.so.{release}"));
        succeed(command.args(["-lstdc++", "-lm", "-o"]).arg(&executable));
        assert_eq!(lines(&run(&executable, DEFAULT_EMULATED, folder.path())), expected, "HIP {release}");
    }
}

#[test]
fn device_code_is_linked_across_files_and_out_of_archives() {
    let folder = installed();
    let path = |name: &str| folder.path().join(name);
    let hipcc = |arch: &str| {
        let mut command = Command::new(path("bin/hipcc"));
        command.args(["-O2", "-Wall", "-Werror", "-fgpu-rdc"]).arg(format!("--offload-arch={arch}"));
        command.env("HIP_CLANG", clang());
        command
    };
    let in_c = format!("{CRATE}/tests/programs/apart_host.c");
    for arch in [DEFAULT_EMULATED, "gfx1100"] {
        let together = path("together");
        succeed(
            hipcc(arch)
                .args([source("apart"), source("apart_library"), source("apart_mathematics"), in_c.clone()])
                .arg("-o")
                .arg(&together),
        );
        assert_all_ok(&lines(&run(&together, arch, folder.path())), 4);
    }
    for program in ["apart", "apart_library", "apart_mathematics"] {
        let object = path(&format!("{program}.o"));
        succeed(hipcc(DEFAULT_EMULATED).arg("-c").arg(source(program)).arg("-o").arg(object));
    }
    succeed(hipcc(DEFAULT_EMULATED).args(["-x", "c", "-c", &in_c, "-o"]).arg(path("apart_host.o")));
    succeed(Command::new("ar").arg("rcs").args(["libapart.a", "apart_library.o", "apart_mathematics.o"].map(path)));
    let separately = path("separately");
    succeed(
        hipcc(DEFAULT_EMULATED)
            .arg("--hip-link")
            .args([path("apart.o"), path("apart_host.o"), path("libapart.a")])
            .arg("-o")
            .arg(&separately),
    );
    assert_all_ok(&lines(&run(&separately, DEFAULT_EMULATED, folder.path())), 4);
}

#[test]
fn a_clean_program_passes_every_check() {
    let folder = installed();
    let executable = compile("basics", DEFAULT_EMULATED, folder.path());
    let mut command = Command::new(executable);
    command.env("LD_LIBRARY_PATH", folder.path().join("lib")).env("ROCFIRE_CHECK", "all");
    command.env("ROCFIRE_HIP_ARCH", DEFAULT_EMULATED).env_remove("ROCFIRE_LOG");
    let output = succeed(&mut command);
    check_basics(lines(&output), DEFAULT_EMULATED);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn checks_that_are_switched_on_find_what_a_gpu_lets_pass() {
    let folder = installed();
    let executable = compile("defects", DEFAULT_EMULATED, folder.path());
    let run = |defect: &str, checks: Option<&str>| {
        let mut command = Command::new(&executable);
        command.arg(defect).env("LD_LIBRARY_PATH", folder.path().join("lib")).env_remove("ROCFIRE_CHECK");
        command.envs(checks.map(|checks| ("ROCFIRE_CHECK", checks)));
        command.env("ROCFIRE_HIP_ARCH", DEFAULT_EMULATED).env_remove("ROCFIRE_LOG").env_remove("ROCFIRE_DEVICE");
        let output = succeed(&mut command);
        (lines(&output).concat(), String::from_utf8(output.stderr).unwrap())
    };
    let defects = [("0", "lds-race", "_Z4racePi"), ("1", "unwritten", "_Z4copyPKiPi"), ("2", "barriers", "_Z5leavePi")];
    for (defect, check, kernel) in defects {
        for none in [None, Some("off")] {
            let (answer, report) = run(defect, none);
            assert!(answer == "hipSuccess" && report.is_empty(), "{answer}: {report}");
        }
        let (answer, report) = run(defect, Some(check));
        assert!(answer == "hipErrorLaunchFailure" && report.contains(kernel), "{answer}: {report}");
    }
}

#[test]
fn mistakes_are_answered_as_hip_does_and_reported_in_full() {
    let folder = installed();
    let output = run(&compile("faults", DEFAULT_EMULATED, folder.path()), DEFAULT_EMULATED, folder.path());
    let expected = "\
malloc: hipSuccess
copy of too much: hipErrorInvalidValue
copy the wrong way: hipErrorInvalidMemcpyDirection
free of what is no block: hipErrorInvalidValue
null: hipErrorInvalidValue
the last of these: hipErrorInvalidValue
once: hipErrorInvalidValue
twice: hipSuccess
a launch in bounds: hipSuccess
after a launch out of bounds: hipSuccess
waiting for it: hipErrorLaunchFailure
everything after it: hipErrorLaunchFailure
until reset: hipSuccess
malloc: hipSuccess
free: hipSuccess
use after free: hipErrorLaunchFailure
until reset: hipSuccess
malloc: hipSuccess
zeros: hipSuccess
a wait that nobody ends: hipErrorLaunchTimeOut
at once: yes
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let reports = String::from_utf8(output.stderr).unwrap();
    for part in ["hipMemcpy: 401 bytes at offset 0 of the 400-byte allocation", "out-of-bounds write in _Z4fillPii"] {
        assert!(reports.contains(part), "{part:?} is not in:\n{reports}");
    }
    assert!(reports.contains("workgroup (1, 0, 0)") && reports.contains("of the 400-byte block"), "{reports}");
    assert!(reports.contains("faults.hip:10:") && reports.contains("lanes 36-63"), "{reports}");
    assert!(reports.contains("endless wait: device memory is read over and over"), "{reports}");
}

#[test]
fn device_code_takes_what_c_and_c_plus_plus_have() {
    for arch in [DEFAULT_EMULATED, "gfx1100"] {
        let lines = lines_of("device_code", arch);
        let (mut told, lines): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line.starts_with("thread ") || line.contains("failed."));
        assert_all_ok(&lines, 5);
        told.sort_unstable();
        let threads = ["thread 0 of tell:  0.50|7   |0xff", "thread 1 of tell:  1.50|7   |0xff"];
        let twice = [threads[0], threads[0], threads[1], threads[1]];
        let failed = told.iter().position(|line| line.contains("Device-side assertion `threadIdx.x < limit' failed."));
        told.remove(failed.unwrap_or_else(|| panic!("{told:#?}")));
        assert_eq!(told, twice);
    }
}

#[test]
fn numbers_groups_and_pools_are_hip_s() {
    for arch in [DEFAULT_EMULATED, "gfx1100"] {
        assert_all_ok(&lines_of("numbers", arch), 4);
        assert_all_ok(&lines_of("groups", arch), 5);
    }
    assert_all_ok(&lines_of("pools", DEFAULT_EMULATED), 6);
}
