//! Getting AMD's package from Python's index, for `rocfire aiter install` and for `cargo verify --foreign`. No launcher calls this.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocfire_hal::Config;

use super::objects;

/// The folder of the code objects in that of compiled kernels.
pub(crate) const FOLDER: &str = "aiter";
/// The package's version whose code objects are listed.
pub(crate) const VERSION: &str = "0.1.7.post2.dev18";
/// Where the package has its metadata, and where its code objects.
const METADATA: &str = "amd_aiter-0.1.7.post2.dev18.dist-info";
const OBJECTS: &str = "aiter_meta/hsa";

/// A package of Python's index: one file of one version.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// Its name there, with the version.
    pub requirement: &'static str,
    /// The file.
    pub file: &'static str,
    /// BLAKE3 of the file.
    pub hash: &'static str,
}

/// AMD's assembly kernels, MIT.
pub const AITER: Wheel = Wheel {
    requirement: "amd-aiter==0.1.7.post2.dev18",
    file: "amd_aiter-0.1.7.post2.dev18-py3-none-any.whl",
    hash: "326705336bcd8b4911c6a6ff6bf27fef2c3adeb7fba3d0d905c0fcd5c1fa5f76",
};

/// Why a package is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file or folder cannot be used.
    #[error("{0}: {1}")]
    File(PathBuf, #[source] std::io::Error),
    /// A command did not do what it should.
    #[error("{0} failed")]
    Command(String),
    /// Another file than the one that is known.
    #[error("{file} has the hash {found}, and {expected} is expected: remove it to download it again")]
    Hash {
        /// The file.
        file: PathBuf,
        /// Its hash.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// It is not there, and may not be downloaded.
    #[error("{0} is missing: run `python3 -m pip download --no-deps --dest {1} {2}`")]
    Missing(PathBuf, String, &'static str),
}

impl Wheel {
    /// The folder inside `folder` that it is unpacked in; downloaded and unpacked where it is not there yet.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn unpacked(&self, folder: &Path, may_download: bool) -> Result<PathBuf, InstallError> {
        let at = |error| InstallError::File(folder.to_owned(), error);
        fs::create_dir_all(folder).map_err(at)?;
        let file = folder.join(self.file);
        if !file.is_file() {
            if !may_download {
                return Err(InstallError::Missing(file, folder.display().to_string(), self.requirement));
            }
            let words = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"];
            run(Command::new("python3").args(words).arg(folder).arg(self.requirement))?;
        }
        let found = blake3::hash(&fs::read(&file).map_err(at)?).to_hex().to_string();
        if found != self.hash {
            return Err(InstallError::Hash { file, found, expected: self.hash });
        }
        let unpacked = folder.join(self.hash);
        if !unpacked.is_dir() {
            // Under another name until it is whole, so that an unpacking that was cut off is done again.
            let partial = folder.join(format!("{}.{}", self.hash, std::process::id()));
            let words = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target"];
            run(Command::new("python3").args(words).arg(&partial).arg(&file))?;
            fs::rename(&partial, &unpacked).map_err(at)?;
        }
        Ok(unpacked)
    }
}

/// Puts the code objects that are listed, with the package's licence and metadata, into the folder of compiled kernels, where devices
/// find them; returns where they are. From `wheel`, the package's file, or by `python3 -m pip download`.
///
/// # Errors
/// [`InstallError`]: another file than the one that is listed, among others.
pub fn install(config: &Config, wheel: Option<&Path>) -> Result<PathBuf, InstallError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| InstallError::File(path, error)
    };
    let folder = config.cache_dir.join(FOLDER);
    let (work, partial) = (folder.join("download"), folder.join(format!("{VERSION}.{}", std::process::id())));
    // What an installation that was cut off has left.
    for left in [&work, &partial] {
        match fs::remove_dir_all(left) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(left)(error)),
            _ => {}
        }
    }
    fs::create_dir_all(&work).map_err(at(&work))?;
    if let Some(wheel) = wheel {
        fs::copy(wheel, work.join(AITER.file)).map_err(at(wheel))?;
    }
    let unpacked = AITER.unpacked(&work, wheel.is_none())?;
    let texts = ["LICENSE", "METADATA"].map(|name| format!("{METADATA}/{name}"));
    let objects = objects::known().iter().map(|object| format!("{OBJECTS}/{}", object.relative()));
    for name in objects.chain(texts) {
        let (from, to) = (unpacked.join(&name), partial.join(&name));
        let parent = to.parent().expect("it was joined to a folder");
        fs::create_dir_all(parent).map_err(at(parent))?;
        fs::copy(&from, &to).map_err(at(&from))?;
    }
    let installed = folder.join(VERSION);
    if installed.is_dir() {
        fs::remove_dir_all(&installed).map_err(at(&installed))?;
    }
    fs::rename(&partial, &installed).map_err(at(&installed))?;
    // Most of the package is for other architectures and other programs.
    fs::remove_dir_all(&work).map_err(at(&work))?;
    Ok(installed)
}

fn run(command: &mut Command) -> Result<(), InstallError> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(InstallError::Command(format!("{command:?}"))),
    }
}
