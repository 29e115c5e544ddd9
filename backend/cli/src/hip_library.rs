//! `rocfire hip-library`: the emulator as `libamdhip64.so` and `libhiprtc.so`, in a folder that is laid out as ROCm's.
//!
//! Cargo builds a static library from the source tree that this command was built from, or takes one that is built
//! already (`--library`); `install.sh` beside its sources links it, since only a linker can give a library a soname and its
//! symbols versions. The folder has `lib`, `include` and `bin`, so that it also serves as `ROCM_PATH`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rocfire_hal::compile;

/// A test of the package whose library it is. What cargo builds for a test by its name has the features of the whole tree, as
/// `cargo verify` builds it; asked for the package, it would build the emulator and 28 crates more for features of their own.
const TEST: &str = "programs";
/// As cargo builds it.
const BUILT: &str = "librocfire_amdhip64.a";
/// Where the package lies in the tree, and what of it lays the folder out.
const SOURCES: &str = "backend/amdhip64";
const INSTALL: &str = "install.sh";

/// What a user may choose.
#[derive(Debug, clap::Args)]
#[command(after_help = "Run a HIP program on an emulated GPU: LD_LIBRARY_PATH=DIR/lib ./program\n\
    Compile one without ROCm: DIR/bin/hipcc program.hip -o program\n\n\
    The library is built by `cargo build` in the source tree that this command comes from.")]
pub struct Arguments {
    /// Where to put `lib`, `include` and `bin`; else in the build's own folder.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Build with the release profile: a longer build, a faster emulator.
    #[arg(long)]
    release: bool,
    /// Build nothing: take this static library.
    #[arg(long, value_name = "FILE", conflicts_with = "release")]
    library: Option<PathBuf>,
}

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree is gone.
    #[error("{} is not there: run this in a checkout through cargo, or name a library with --library", .0.display())]
    NoSources(PathBuf),
    /// Cargo's own messages say why.
    #[error("cargo build --test {TEST} failed")]
    Build,
    /// Built, and nowhere to be found.
    #[error("cargo has built no {BUILT}; only Linux is supported")]
    NoLibrary,
    /// Nothing to link it with.
    #[error("linking needs clang 20 or newer with lld; `cargo doctor` says what was looked for")]
    NoCompiler,
    /// The script's own messages say why.
    #[error("cannot lay out {}", .0.display())]
    Link(PathBuf),
}

/// Builds, lays out, and says how to use it.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = tree.join(SOURCES);
    if !sources.is_dir() {
        return Err(Error::NoSources(sources).into());
    }
    let library = match &arguments.library {
        Some(library) => library.clone(),
        None => build(&tree, arguments.release)?,
    };
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => beside(&library),
    };
    lay_out(&library, &sources, &folder)?;
    let folder = folder.canonicalize().unwrap_or(folder);
    let folder = folder.display();
    println!("libamdhip64.so.5, .6, .7 and libhiprtc.so: {folder}/lib\n");
    println!("run a HIP program on an emulated GPU:\n    LD_LIBRARY_PATH={folder}/lib ./program");
    println!("compile one, without ROCm:\n    {folder}/bin/hipcc program.hip -o program");
    println!("another GPU than {}: ROCFIRE_HIP_ARCH=ARCH", rocfire_arch::DEFAULT_EMULATED);
    Ok(())
}

/// Where a build lays out what it made: in `target/debug`, not among its parts in `deps`.
fn beside(library: &Path) -> PathBuf {
    let folder = library.parent().unwrap_or(Path::new(""));
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    folder.join("hip")
}

/// Has cargo build the library, and takes its path from what cargo says it has made.
fn build(tree: &Path, release: bool) -> Result<PathBuf, Error> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree).args(["build", "--test", TEST, "--message-format=json-render-diagnostics"]);
    if release {
        command.arg("--release");
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|_| Error::Build)?;
    if !output.status.success() {
        return Err(Error::Build);
    }
    made(&String::from_utf8_lossy(&output.stdout), OsStr::new(BUILT)).ok_or(Error::NoLibrary)
}

/// The library of a name among the artifacts in cargo's messages, one in a line.
pub fn made(messages: &str, name: &OsStr) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let files = messages.filter_map(|message| message.get("filenames")?.as_array().cloned()).flatten();
    let mut paths = files.filter_map(|file| file.as_str().map(PathBuf::from));
    paths.find(|path| path.file_name() == Some(name))
}

/// Links the libraries under all their names, with what goes with them.
fn lay_out(archive: &Path, sources: &Path, folder: &Path) -> Result<(), Error> {
    let clang = compile::find_clang().map_err(|_| Error::NoCompiler)?;
    let mut command = Command::new("sh");
    command.arg(sources.join(INSTALL)).args([archive, folder]).env("HIP_CLANG", clang.path());
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Link(folder.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/libobject.rlib\"]}\n\
            {\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/librocfire_amdhip64.so\",\"/t/librocfire_amdhip64.a\"]}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(made(messages, OsStr::new(BUILT)), Some(PathBuf::from("/t/librocfire_amdhip64.a")));
        assert_eq!(made("not json\n{}", OsStr::new(BUILT)), None);
        assert_eq!(beside(Path::new("/t/debug/deps/lib.a")), Path::new("/t/debug/hip"));
        assert_eq!(beside(Path::new("/t/lib.a")), Path::new("/t/hip"));
    }
}
