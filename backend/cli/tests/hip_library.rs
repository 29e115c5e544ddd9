//! `rocfire hip-library DIR` from a library that is built already: the command, the layout, and a program that uses it.

use std::path::Path;
use std::process::Command;

use rocfire_hal::compile::find_clang;

#[test]
fn the_folder_serves_a_program_as_rocm_does() {
    // Cargo builds the library with the workspace's tests, beside them; alone this package does not need it.
    let executable = std::env::current_exe().unwrap();
    let library = executable.parent().unwrap().join("librocfire_amdhip64.a");
    if !library.is_file() {
        println!("skipped: {} was not built", library.display());
        return;
    }
    let clang = find_clang().unwrap_or_else(|rejected| panic!("no clang: {rejected:?}"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated-rocm");
    // Twice is as once.
    for _ in 0..2 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocfire"));
        let output = command.arg("hip-library").arg(&folder).arg("--library").arg(&library).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("LD_LIBRARY_PATH="), "{text}");
    }
    for name in ["lib/libamdhip64.so", "lib/libamdhip64.so.5", "lib/libamdhip64.so.6", "lib/libamdhip64.so.7"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    for name in ["lib/libhiprtc.so", "include/hip/hip_runtime.h", "bin/hipcc"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../amdhip64/tests/programs/basics.hip");
    let program = folder.join("basics");
    let mut compile = Command::new(folder.join("bin/hipcc"));
    compile.args(["-std=c++17", "-O2", "--offload-arch=gfx1100", "-o"]).arg(&program).arg(source);
    assert!(compile.env("HIP_CLANG", clang.path()).status().unwrap().success());
    let mut run = Command::new(&program);
    let output = run.env("LD_LIBRARY_PATH", folder.join("lib")).env("ROCFIRE_HIP_ARCH", "gfx1100").output().unwrap();
    let lines = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && lines.contains("vector_add: ok") && lines.contains("graph: ok"), "{lines}");
}
