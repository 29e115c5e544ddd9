//! Packages that code objects come from. They are downloaded into the cache when they are first needed and never committed; what
//! is committed is their hash.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bundle;
use crate::case::Object;

/// A package of Python's index.
pub struct Package {
    /// Its name there, with the version.
    pub requirement: &'static str,
    /// The file.
    wheel: &'static str,
    /// BLAKE3 of the file.
    hash: &'static str,
}

/// AMD's assembly kernels, MIT.
pub const AITER: Package = Package {
    requirement: "amd-aiter==0.1.7.post2.dev18",
    wheel: "amd_aiter-0.1.7.post2.dev18-py3-none-any.whl",
    hash: "326705336bcd8b4911c6a6ff6bf27fef2c3adeb7fba3d0d905c0fcd5c1fa5f76",
};

/// The compiler of Triton, MIT, for Python 3.11.
pub const TRITON: Package = Package {
    requirement: "triton==3.5.0",
    wheel: "triton-3.5.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    hash: "8d9ddae28547c3b302acc3f09b6adaacd161d92a93eb9fb236f5cc6cbf31f848",
};

/// Quantisation for PyTorch, MIT; its libraries for ROCm hold fat binaries.
pub const BITSANDBYTES: Package = Package {
    requirement: "bitsandbytes==0.50.2",
    wheel: "bitsandbytes-0.50.2-py3-none-manylinux_2_24_x86_64.whl",
    hash: "f569a26dbe413f923b6f2f8c7a5ce737bd94d766b83f282fa626f5726a4cf89b",
};

/// Architectures that there are code objects for.
const ARCHITECTURES: [&str; 4] = ["gfx942", "gfx950", "gfx1100", "gfx1201"];

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
    /// Where it is unpacked; downloaded and unpacked where it is not there yet.
    ///
    /// # Errors
    /// [`Error`].
    pub fn unpacked(&self, folder: &Path, may_download: bool) -> Result<PathBuf, Error> {
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
            let words = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target"];
            run(Command::new("python3").args(words).arg(&partial).arg(&wheel))?;
            fs::rename(&partial, &unpacked).map_err(at)?;
        }
        Ok(unpacked)
    }
}

/// The code objects of AITER, by architecture and name.
///
/// # Errors
/// As [`Package::unpacked`].
pub fn aiter(folder: &Path, may_download: bool) -> Result<Vec<Object>, Error> {
    let root = AITER.unpacked(folder, may_download)?.join("aiter_meta/hsa");
    let mut objects = Vec::new();
    for arch in ["gfx942", "gfx950"] {
        collect(arch, &root.join(arch), "", &mut objects).map_err(|error| Error::Folder(root.clone(), error))?;
    }
    objects.sort_by(|a, b| (a.arch, &a.name).cmp(&(b.arch, &b.name)));
    Ok(objects)
}

/// Our kernels in Triton.
const SOURCE: &str = include_str!("../triton/kernels.py");

/// The code objects that Triton makes of our kernels, each with its workgroup; compiled where that was not done yet.
///
/// # Errors
/// As [`Package::unpacked`]; Triton does not compile them.
pub fn triton(folder: &Path, may_download: bool) -> Result<Vec<Compiled>, Error> {
    let library = TRITON.unpacked(folder, may_download)?;
    let of = blake3::hash(format!("{}{SOURCE}", TRITON.hash).as_bytes()).to_hex().to_string();
    let compiled = folder.join(format!("triton-{of}"));
    let at = |error| Error::Folder(compiled.clone(), error);
    if !compiled.is_dir() {
        let partial = folder.join(format!("triton-{of}.{}", std::process::id()));
        fs::create_dir_all(&partial).map_err(at)?;
        let source = partial.join("kernels.py");
        fs::write(&source, SOURCE).map_err(at)?;
        let mut command = Command::new("python3");
        command.arg(&source).arg(&partial).env("PYTHONPATH", &library).env("TRITON_CACHE_DIR", partial.join("cache"));
        run(&mut command)?;
        fs::rename(&partial, &compiled).map_err(at)?;
    }
    let list = fs::read_to_string(compiled.join("list.txt")).map_err(at)?;
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (kernel, arch) = (words.next()?, words.next()?);
        let arch = ARCHITECTURES.into_iter().find(|known| *known == arch)?;
        let path = compiled.join(format!("{kernel}-{arch}.co"));
        let object = Object { arch, name: format!("triton/{kernel}"), path, kernel: None };
        Some(Compiled { object, threads: words.next()?.parse().ok()?, lds_bytes: words.next()?.parse().ok()? })
    };
    Ok(list.lines().filter_map(line).collect())
}

/// A code object that was compiled here.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The code object.
    pub object: Object,
    /// Threads of a workgroup.
    pub threads: u32,
    /// LDS of a workgroup, all of it dynamic.
    pub lds_bytes: u32,
}

/// The code objects of bitsandbytes' library for ROCm 7.0: by architecture, each translation unit's.
///
/// # Errors
/// As [`Package::unpacked`]; the library has no fat binaries that can be read.
pub fn bitsandbytes(folder: &Path, may_download: bool) -> Result<Vec<Object>, Error> {
    let library = BITSANDBYTES.unpacked(folder, may_download)?.join("bitsandbytes/libbitsandbytes_rocm70.so");
    let taken = folder.join(format!("bitsandbytes-{}", BITSANDBYTES.hash));
    let at = |error| Error::Folder(library.clone(), error);
    let bytes = fs::read(&library).map_err(at)?;
    let mut objects = Vec::new();
    fs::create_dir_all(&taken).map_err(at)?;
    for (unit, bundle) in bundle::all(&bytes).map_err(at)?.into_iter().enumerate() {
        for arch in ARCHITECTURES {
            let Some(code) = bundle.get(arch) else { continue };
            let path = taken.join(format!("{unit}-{arch}.co"));
            if !path.is_file() {
                let partial = path.with_extension(std::process::id().to_string());
                fs::write(&partial, code).and_then(|()| fs::rename(&partial, &path)).map_err(at)?;
            }
            objects.push(Object { arch, name: format!("bitsandbytes/{unit}"), path, kernel: None });
        }
    }
    Ok(objects)
}

fn collect(arch: &'static str, folder: &Path, prefix: &str, objects: &mut Vec<Object>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(file) = path.file_name().and_then(|file| file.to_str()) else { continue };
        let name = format!("{prefix}{file}");
        if path.is_dir() {
            collect(arch, &path, &format!("{name}/"), objects)?;
        } else if file.ends_with(".co") {
            objects.push(Object { arch, name, path, kernel: None });
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
