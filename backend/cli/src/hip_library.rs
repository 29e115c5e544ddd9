//! `rocfire hip-library`: the emulator as `libamdhip64.so` and `libhiprtc.so`, in a folder that is laid out as ROCm's.
//!
//! The library is built by cargo from the source tree that this command was built from; a command that was copied away
//! from its tree takes one that is built already (`--library`). The folder has `lib`, `include` and `bin`, so that it also
//! serves as `ROCM_PATH`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package whose library it is, and the library's name.
const PACKAGE: &str = "rocfire-amdhip64";
const LIBRARY: &str = "libamdhip64.so";
/// As cargo builds it.
const BUILT: &str = "librocfire_amdhip64.so";
/// One library serves under both names, and under those that programs built for a ROCm look for.
const STEMS: [&str; 2] = ["libamdhip64.so", "libhiprtc.so"];
const VERSIONS: [&str; 4] = ["", ".5", ".6", ".7"];
/// Where the package lies in the tree, and what of it is installed besides the library.
const SOURCES: &str = "backend/amdhip64";
const FOLDERS: [&str; 2] = ["include", "bin"];

/// What a user may choose.
#[derive(Debug, clap::Args)]
#[command(after_help = "Run a HIP program on an emulated GPU: LD_LIBRARY_PATH=DIR/lib ./program\n\
    Compile one without ROCm: DIR/bin/hipcc program.hip -o program\n\n\
    The library is built by `cargo build` in the source tree that this command comes from.")]
pub struct Arguments {
    /// Put the libraries there (`lib`, `include`, `bin`) instead of the build's own folder.
    #[arg(long, value_name = "DIR")]
    install: Option<PathBuf>,
    /// Build with the release profile: a longer build, a faster emulator.
    #[arg(long)]
    release: bool,
    /// Build nothing: take this library.
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
    #[error("cargo build --package {PACKAGE} failed")]
    Build,
    /// Built, and nowhere to be found.
    #[error("cargo has built no {BUILT}; only Linux is supported")]
    NoLibrary,
    /// A file.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
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
    let folder = match &arguments.install {
        Some(folder) => folder.clone(),
        None => library.parent().map(Path::to_owned).unwrap_or_default().join("hip"),
    };
    lay_out(&library, &sources, &folder)?;
    let folder = folder.canonicalize().unwrap_or(folder);
    let folder = folder.display();
    println!("libamdhip64.so and libhiprtc.so: {folder}/lib\n");
    println!("run a HIP program on an emulated GPU:\n    LD_LIBRARY_PATH={folder}/lib ./program");
    println!("compile one, without ROCm:\n    {folder}/bin/hipcc program.hip -o program");
    println!("another GPU than {}: ROCFIRE_HIP_ARCH=ARCH", rocfire_arch::DEFAULT_EMULATED);
    Ok(())
}

/// Has cargo build the library, and takes its path from what cargo says it has made.
fn build(tree: &Path, release: bool) -> Result<PathBuf, Error> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree).args(["build", "--package", PACKAGE, "--message-format=json-render-diagnostics"]);
    if release {
        command.arg("--release");
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|_| Error::Build)?;
    if !output.status.success() {
        return Err(Error::Build);
    }
    made(&String::from_utf8_lossy(&output.stdout)).ok_or(Error::NoLibrary)
}

/// The library among the artifacts in cargo's messages, one in a line.
fn made(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let files = messages.filter_map(|message| message.get("filenames")?.as_array().cloned()).flatten();
    let mut paths = files.filter_map(|file| file.as_str().map(PathBuf::from));
    paths.find(|path| path.file_name() == Some(OsStr::new(BUILT)))
}

/// Copies the library and what goes with it, and gives it all its names.
fn lay_out(library: &Path, sources: &Path, folder: &Path) -> Result<(), Error> {
    let lib = folder.join("lib");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    };
    fs::create_dir_all(&lib).map_err(failed(&lib))?;
    let file = lib.join(LIBRARY);
    // A running program keeps the old file; writing into it would change the program.
    remove(&file).and_then(|()| fs::copy(library, &file)).map_err(failed(&file))?;
    for name in STEMS.iter().flat_map(|stem| VERSIONS.map(|version| format!("{stem}{version}"))) {
        let path = lib.join(name);
        if path != file {
            remove(&path).and_then(|()| link(&path)).map_err(failed(&path))?;
        }
    }
    for name in FOLDERS {
        copy_folder(&sources.join(name), &folder.join(name)).map_err(failed(&folder.join(name)))?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn link(path: &Path) -> io::Result<()> {
    // One file under every name: the loader opens it once, so that both libraries have one state.
    std::os::unix::fs::symlink(LIBRARY, path)
}

#[cfg(not(unix))]
fn link(_path: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/libobject.rlib\"]}\n\
            {\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/librocfire_amdhip64.rlib\",\"/t/librocfire_amdhip64.so\"]}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(made(messages), Some(PathBuf::from("/t/librocfire_amdhip64.so")));
        assert_eq!(made("not json\n{}"), None);
    }

    #[cfg(unix)]
    #[test]
    fn every_name_leads_to_one_file_and_twice_is_as_once() {
        let folder = std::env::temp_dir().join(format!("rocfire-hip-library-{}", std::process::id()));
        let library = folder.join("built.so");
        fs::create_dir_all(&folder).unwrap();
        fs::write(&library, "library").unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SOURCES);
        for _ in 0..2 {
            lay_out(&library, &sources, &folder).unwrap();
        }
        for name in ["libamdhip64.so", "libamdhip64.so.6", "libhiprtc.so", "libhiprtc.so.7"] {
            assert_eq!(fs::read(folder.join("lib").join(name)).unwrap(), b"library", "{name}");
        }
        assert!(folder.join("include/hip/hip_runtime.h").is_file() && folder.join("bin/hipcc").is_file());
        fs::remove_dir_all(&folder).unwrap();
    }
}
