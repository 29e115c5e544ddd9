//! A kernel, and AMD's HSA runtime opened.

pub mod hsa;

use std::process::Command;

const KERNEL: &str =
    "extern \"C\" __attribute__((amdgpu_kernel)) void scale(const float *x, float *y, float by, int n) {
    int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    if (i < n) y[i] = x[i] * by;
}
";

/// The code object of `scale` for an architecture, which loaders of ROCm 5 know; `None` where there is no compiler.
pub fn compile(arch: &str) -> Option<Vec<u8>> {
    let Ok(clang) = rocfire_hal::compile::find_clang() else {
        println!("skipped: no clang");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("scale.cpp"), folder.path().join("scale.co"));
    std::fs::write(&source, KERNEL).unwrap();
    let mut command = Command::new(clang.path());
    // The library is for this process; the compiler is not to have it.
    command.env_remove("LD_PRELOAD").arg("--target=amdgcn-amd-amdhsa").arg(format!("-mcpu={arch}"));
    command.args(["-mcode-object-version=4", "-nogpulib", "-O2"]).arg(source).arg("-o").arg(&object);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read(object).unwrap())
}
