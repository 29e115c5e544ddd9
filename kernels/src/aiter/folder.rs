//! Where AITER's code objects are, and what is known of them.
//!
//! In this order: the folder that `ROCFIRE_AITER_DIR` names, and then no other; what `rocfire aiter install` has put into the folder
//! of compiled kernels; the package `amd-aiter` where Python has it: in the folders of `PYTHONPATH`, of an active environment, of the
//! `python3` that `PATH` finds first, of the user. No Python is run for it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use rocfire_hal::Config;

use super::install::{AITER, FOLDER, VERSION};
use super::objects::{self, Object};

/// What the package is called in the names of its folders.
const PACKAGE: &str = "amd_aiter-";
const METADATA: &str = "dist-info";

/// A folder of code objects, by architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Where the folders of architectures are.
    pub hsa: PathBuf,
    /// Where the package lies whose they are, if it is one.
    package: Option<PathBuf>,
}

impl Folder {
    /// The folder of a place: itself, or where the package has it.
    fn at(place: &Path) -> Option<Folder> {
        let holds = |hsa: &Path| objects::known().iter().any(|object| hsa.join(object.arch.name()).is_dir());
        let inside = [place.to_owned(), place.join("hsa"), place.join("aiter_meta/hsa")];
        let hsa = inside.into_iter().find(|hsa| holds(hsa))?;
        // `hsa` of `aiter_meta` of the folder that has the package's metadata.
        let package = hsa.ancestors().skip(1).take(2).find_map(metadata_of);
        Some(Folder { hsa, package })
    }

    /// The one that the settings and this machine have.
    pub fn find(config: &Config) -> Option<Folder> {
        places(config).iter().find_map(|place| Folder::at(place))
    }

    /// A code object's bytes, if they are those that are known.
    pub fn read(&self, object: &Object) -> Result<Vec<u8>, ObjectState> {
        let path = self.hsa.join(object.relative());
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ObjectState::Missing,
            _ => ObjectState::Unreadable(error.to_string()),
        })?;
        let found = blake3::hash(&bytes);
        if found == object.hash { Ok(bytes) } else { Err(ObjectState::Other(found.to_hex().to_string())) }
    }
}

/// The folder with the package's metadata in a folder.
fn metadata_of(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_metadata = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(PACKAGE) && name.ends_with(METADATA)
    };
    entries.into_iter().find(is_metadata)
}

/// Where is looked, in order.
pub(crate) fn places(config: &Config) -> Vec<PathBuf> {
    if let Some(folder) = &config.aiter_dir {
        return vec![folder.clone()];
    }
    let installed = config.cache_dir.join(FOLDER).join(VERSION);
    std::iter::once(installed).chain(site_packages()).collect()
}

/// Where Python packages are installed.
fn site_packages() -> Vec<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let listed = variable("PYTHONPATH").map(|paths| env::split_paths(&paths).collect::<Vec<_>>());
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable).map(PathBuf::from).collect();
    let paths = variable("PATH").map(|paths| env::split_paths(&paths).collect::<Vec<_>>()).unwrap_or_default();
    if let Some(program) = paths.iter().map(|folder| folder.join("python3")).find(|program| program.is_file()) {
        // An environment's program is a link to the one that it was made of; both have packages.
        let real = fs::canonicalize(&program).ok();
        let prefix = |program: &Path| program.ancestors().nth(2).map(Path::to_owned);
        prefixes.extend(prefix(&program));
        prefixes.extend(real.as_deref().and_then(prefix));
    }
    prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
    let mut all = listed.unwrap_or_default();
    for prefix in prefixes {
        for lib in [prefix.join("lib"), prefix.join("local/lib")] {
            let versions = fs::read_dir(lib).into_iter().flatten().flatten().map(|entry| entry.path());
            let mut versions: Vec<PathBuf> = versions
                .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")))
                .collect();
            versions.sort();
            all.extend(
                versions.iter().flat_map(|version| ["site-packages", "dist-packages"].map(|of| version.join(of))),
            );
        }
    }
    all
}

/// What is there of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// The file that is known to be right.
    Known,
    /// None.
    Missing,
    /// Another file, of another version or damaged: its hash.
    Other(String),
    /// One that cannot be read, and why.
    Unreadable(String),
}

/// What a machine has of AITER's code objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The folder of the code objects; `None` where none was found.
    pub folder: Option<PathBuf>,
    /// Where was looked.
    pub searched: Vec<PathBuf>,
    /// What they come from, by the package's own metadata, where they lie in one.
    pub version: Option<String>,
    /// The first line of the package's licence that names one.
    pub license: Option<String>,
    /// The listed code objects: path, BLAKE3 of the file that is known, and what is there.
    pub objects: Vec<(String, String, ObjectState)>,
}

/// Looks at this machine, and reads every code object that is listed.
pub fn report(config: &Config) -> Report {
    let searched = places(config);
    let found = Folder::find(config);
    let metadata = found.as_ref().and_then(|folder| folder.package.clone());
    let text = |name: &str| fs::read_to_string(metadata.as_ref()?.join(name)).ok();
    let version = text("METADATA").and_then(|text| field(&text, "Version:"));
    let license = text("LICENSE").and_then(|text| {
        text.lines().map(str::trim).find(|line| line.to_ascii_lowercase().ends_with("license")).map(str::to_owned)
    });
    let state =
        |folder: &Folder, object: &Object| folder.read(object).map_or_else(|state| state, |_| ObjectState::Known);
    let objects = found.iter().flat_map(|folder| {
        let fact = |object: &Object| (object.relative(), object.hash.to_hex().to_string(), state(folder, object));
        objects::known().iter().map(fact)
    });
    let objects = objects.collect();
    Report { folder: found.map(|folder| folder.hsa), searched, version, license, objects }
}

impl Report {
    /// How many of the listed code objects can be used.
    pub fn usable(&self) -> usize {
        self.objects.iter().filter(|(.., state)| *state == ObjectState::Known).count()
    }

    /// The package that has all that is listed, as Python's index names it.
    pub fn package() -> &'static str {
        AITER.requirement
    }
}

/// What follows a word at the start of a line.
fn field(text: &str, word: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_owned())
}
