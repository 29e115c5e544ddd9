//! Packages that code objects come from. They are downloaded into the cache when they are first needed and never committed; what
//! is committed is their hash. How one is downloaded, and AITER's, stand in `rocfire-kernels`, which launches some of that package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocfire_kernels::aiter::{AITER, InstallError, Wheel};

use crate::bundle;
use crate::case::Object;

/// The compiler of Triton, MIT, for Python 3.11.
pub const TRITON: Wheel = Wheel {
    requirement: "triton==3.5.0",
    file: "triton-3.5.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    hash: "8d9ddae28547c3b302acc3f09b6adaacd161d92a93eb9fb236f5cc6cbf31f848",
};

/// Quantisation for PyTorch, MIT; its libraries for ROCm hold fat binaries.
pub const BITSANDBYTES: Wheel = Wheel {
    requirement: "bitsandbytes==0.50.2",
    file: "bitsandbytes-0.50.2-py3-none-manylinux_2_24_x86_64.whl",
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
    /// A package cannot be had.
    #[error(transparent)]
    Package(#[from] InstallError),
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

/// The code objects of AITER, by architecture and name.
///
/// # Errors
/// As [`Wheel::unpacked`].
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
/// As [`Wheel::unpacked`]; Triton does not compile them.
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
/// As [`Wheel::unpacked`]; the library has no fat binaries that can be read.
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
