//! Puts the emulator's filetests into the test `silicon`, so that its program runs where there is no checkout.

use std::fmt::Write as _;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").map_err(std::io::Error::other)?;
    let folder = Path::new(&manifest).join("../backend/emulator/tests/filetests");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(stem) = name.strip_suffix(".isa") {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    let mut list = String::from("&[\n");
    for name in names {
        let path = folder.join(format!("{name}.isa"));
        println!("cargo:rerun-if-changed={}", path.display());
        let _ = writeln!(list, "    ({name:?}, include_str!({path:?})),");
    }
    list += "]\n";
    let out = std::env::var("OUT_DIR").map_err(std::io::Error::other)?;
    std::fs::write(Path::new(&out).join("filetests.rs"), list)
}
