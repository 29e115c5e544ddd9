//! Packages that code objects come from. They are downloaded into the cache when they are first needed and never committed; what is
//! committed is their hash.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::case::Object;

/// A package of Python's index.
pub struct Package {
    /// Its name there, with the version.
    pub requirement: &'static str,
    /// The file.
    wheel: &'static str,
    /// BLAKE3 of the file.
    hash: &'static str,
    /// Where its code objects are, a folder for each architecture.
    objects: &'static str,
}

/// AMD's assembly kernels, MIT.
pub const AITER: Package = Package {
    requirement: "amd-aiter==0.1.7.post2.dev18",
    wheel: "amd_aiter-0.1.7.post2.dev18-py3-none-any.whl",
    hash: "326705336bcd8b4911c6a6ff6bf27fef2c3adeb7fba3d0d905c0fcd5c1fa5f76",
    objects: "aiter_meta/hsa",
};

/// Architectures that the packages have code objects for.
const ARCHITECTURES: [&str; 2] = ["gfx942", "gfx950"];

/// Why a package is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be used.
    #[error("{0}: {1}")]
    Folder(PathBuf, std::io::Error),
    /// A command did not do what it should.
    #[error("{0} failed")]
    Command(String),
    /// Another file than the one that the table was made with.
    #[error("{wheel} has the hash {found}, and {expected} is expected: remove it to download it again")]
    Hash {
        /// The file.
        wheel: PathBuf,
        /// Its hash.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// It is not there, and may not be downloaded.
    #[error("{0} is missing: run `python3 -m pip download --no-deps --dest {1} {2}`")]
    Missing(PathBuf, String, &'static str),
    /// The cache's folder cannot be told.
    #[error(transparent)]
    Config(#[from] rocfire_hal::Error),
}

/// Where packages are kept: `ROCFIRE_FOREIGN`, or a folder of the cache of compiled kernels.
///
/// # Errors
/// [`Error::Config`].
pub fn folder() -> Result<PathBuf, Error> {
    match std::env::var_os("ROCFIRE_FOREIGN") {
        Some(folder) => Ok(folder.into()),
        None => Ok(rocfire_hal::Config::from_env()?.cache_dir.join("foreign")),
    }
}

impl Package {
    /// Its code objects, by name; downloaded and unpacked where they are not there yet.
    ///
    /// # Errors
    /// [`Error`].
    pub fn objects(&self, folder: &Path, may_download: bool) -> Result<Vec<Object>, Error> {
        let at = |error| Error::Folder(folder.to_owned(), error);
        fs::create_dir_all(folder).map_err(at)?;
        let wheel = folder.join(self.wheel);
        if !wheel.is_file() {
            if !may_download {
                return Err(Error::Missing(wheel, folder.display().to_string(), self.requirement));
            }
            let words = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"];
            run(Command::new("python3").args(words).arg(folder).arg(self.requirement))?;
        }
        let found = blake3::hash(&fs::read(&wheel).map_err(at)?).to_hex().to_string();
        if found != self.hash {
            return Err(Error::Hash { wheel, found, expected: self.hash });
        }
        let unpacked = folder.join(self.hash);
        if !unpacked.is_dir() {
            // Under another name until it is whole, so that an unpacking that was cut off is done again.
            let partial = folder.join(format!("{}.{}", self.hash, std::process::id()));
            run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&partial))?;
            fs::rename(&partial, &unpacked).map_err(at)?;
        }
        let root = unpacked.join(self.objects);
        let mut objects = Vec::new();
        for arch in ARCHITECTURES {
            collect(arch, &root.join(arch), "", &mut objects).map_err(at)?;
        }
        objects.sort_by(|a, b| (a.arch, &a.name).cmp(&(b.arch, &b.name)));
        Ok(objects)
    }
}

fn collect(arch: &'static str, folder: &Path, prefix: &str, objects: &mut Vec<Object>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(file) = path.file_name().and_then(|file| file.to_str()) else { continue };
        let name = format!("{prefix}{file}");
        if path.is_dir() {
            collect(arch, &path, &format!("{name}/"), objects)?;
        } else if file.ends_with(".co") {
            objects.push(Object { arch, name, path });
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<(), Error> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Command(format!("{command:?}"))),
    }
}
