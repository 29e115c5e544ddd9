//! Kernel packs: code objects of many kernels in one file, so that a program needs no compiler.
//!
//! A pack is found by [`Config::packs`], or beside the executable. It is looked into before a compiler is looked for, so its keys
//! name everything that decides what a kernel computes but the compiler and its version: the source with its macros and flags,
//! the prelude, the architecture with its facts, the options that every compiler of ours is given. What the pack was made with
//! stands in its head.
//!
//! ```text
//! magic 8 | format u32 | bytes of the description u32 | entries u32 | BLAKE3 of the head 32
//! description: JSON, see Head | index: key 32, hash 32, bytes u32 of each entry, sorted by key
//! entries: code objects, compressed by zstd, in the order of the index, with nothing between or behind them
//! ```
//!
//! The hash of the head covers the index, and the index has the hash of every entry, keyed by its key: so the head's
//! hash is that of the whole file, and opening a pack reads its head alone. An entry is compared with its hash
//! before it is used. `maker.rs` writes packs.

mod maker;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use blake3::Hash;
use rocfire_arch::{Arch, Vendor};
use serde_json::{Value, json};

pub use maker::PackMaker;

use super::{clang, source};
use crate::log::{Level, report};
use crate::{Config, Error, Result};

/// What the names of packs end with.
pub const PACK_EXTENSION: &str = "rocpack";

const MAGIC: &[u8; 8] = b"rocfireP";
const FORMAT: u32 = 1;
const HASH_BYTES: usize = 32;
/// Magic, format and two counts; the hash follows.
const FIXED_BYTES: usize = 8 + 3 * 4;
const INDEX_BYTES: usize = 2 * HASH_BYTES + 4;
/// No description is longer; a damaged length must not ask for all memory.
const MOST_DESCRIPTION_BYTES: usize = 1 << 20;
/// No code object is larger.
const MOST_BYTES: usize = 256 << 20;

/// A pack that was opened, and whose head is in order.
#[derive(Debug)]
pub struct Pack {
    path: PathBuf,
    head: Head,
    index: Vec<Entry>,
    bytes: u64,
    file: Mutex<File>,
}

/// What a pack says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    /// The version of rocfire that made it.
    made_by: String,
    /// The hash of that version's prelude.
    prelude: String,
    architectures: Vec<Packed>,
}

/// What a pack holds for an architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packed {
    /// The architecture's name.
    pub arch: String,
    /// What its kernels were compiled with.
    pub compilers: Vec<String>,
    /// How many code objects there are for it.
    pub kernels: usize,
    /// Hash of the prelude, of the architecture's facts and of the compilers' options, as they were.
    contract: String,
}

/// A code object in the file.
#[derive(Clone, Debug)]
struct Entry {
    key: Hash,
    hash: Hash,
    first_byte: u64,
    bytes: u32,
}

impl Pack {
    /// Opens a pack and checks its head.
    ///
    /// # Errors
    /// [`Error::Pack`], with the reason, for a file that cannot be read, is damaged or is no pack, and for one that was made by
    /// another version, with another prelude, or for other facts of an architecture.
    pub fn open(path: &Path) -> Result<Pack> {
        let refused = |reason: String| Error::Pack { path: path.to_owned(), reason };
        let mut file = File::open(path).map_err(|error| refused(format!("cannot be opened: {error}")))?;
        let (head, index, bytes) = read_head(&mut file).map_err(refused)?;
        head.check().map_err(refused)?;
        Ok(Pack { path: path.to_owned(), head, index, bytes, file: Mutex::new(file) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it holds, by architecture.
    pub fn packed(&self) -> &[Packed] {
        &self.head.architectures
    }

    /// Compares every entry with its hash.
    ///
    /// # Errors
    /// [`Error::Pack`] for the first that is not what was written.
    pub fn verify(&self) -> Result<()> {
        self.index.iter().try_for_each(|entry| self.load(entry).map(drop))
    }

    /// The code object of a key, `None` if it has none.
    ///
    /// # Errors
    /// [`Error::Pack`] for an entry that is not what was written.
    pub(super) fn read(&self, key: &Hash) -> Result<Option<Vec<u8>>> {
        let found = self.index.binary_search_by(|entry| entry.key.as_bytes().cmp(key.as_bytes()));
        found.ok().map(|at| self.load(&self.index[at])).transpose()
    }

    fn load(&self, entry: &Entry) -> Result<Vec<u8>> {
        let refused = |reason: String| Error::Pack { path: self.path.clone(), reason };
        let mut packed = vec![0; entry.bytes as usize];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(entry.first_byte)).and_then(|_| file.read_exact(&mut packed));
        drop(file);
        read.map_err(|error| refused(format!("cannot be read: {error}")))?;
        if blake3::keyed_hash(entry.key.as_bytes(), &packed) != entry.hash {
            let (first, last) = (entry.first_byte, entry.first_byte + u64::from(entry.bytes));
            return Err(refused(format!("damaged: bytes {first} to {last} are not those that were written")));
        }
        let size = zstd::zstd_safe::get_frame_content_size(&packed).ok().flatten();
        let size = size.and_then(|size| usize::try_from(size).ok()).filter(|&size| size <= MOST_BYTES);
        let code = size.and_then(|size| zstd::bulk::decompress(&packed, size).ok());
        code.ok_or_else(|| refused(format!("an entry at byte {} is no code object", entry.first_byte)))
    }
}

impl Head {
    fn to_json(&self) -> Vec<u8> {
        let packed = |packed: &Packed| {
            let Packed { arch, compilers, kernels, contract } = packed;
            json!({ "arch": arch, "compilers": compilers, "kernels": kernels, "contract": contract })
        };
        let architectures: Vec<Value> = self.architectures.iter().map(packed).collect();
        let head = json!({ "made_by": self.made_by, "prelude": self.prelude, "architectures": architectures });
        head.to_string().into_bytes()
    }

    fn from_json(text: &[u8]) -> Option<Head> {
        let head: Value = serde_json::from_slice(text).ok()?;
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let packed = |packed: &Value| {
            let compilers = packed.get("compilers")?.as_array()?.iter().map(|name| Some(name.as_str()?.to_owned()));
            Some(Packed {
                arch: text(packed, "arch")?,
                compilers: compilers.collect::<Option<_>>()?,
                kernels: packed.get("kernels")?.as_u64()?.try_into().ok()?,
                contract: text(packed, "contract")?,
            })
        };
        Some(Head {
            made_by: text(&head, "made_by")?,
            prelude: text(&head, "prelude")?,
            architectures: head.get("architectures")?.as_array()?.iter().map(packed).collect::<Option<_>>()?,
        })
    }

    /// Whether what it was made with is what this build would compile with.
    fn check(&self) -> Result<(), String> {
        let here = env!("CARGO_PKG_VERSION");
        if self.made_by != here {
            return Err(format!("made by rocfire {}, and this is {here}", self.made_by));
        }
        let prelude = Hash::from_bytes(rocfire_prelude::hash()).to_hex();
        if self.prelude != *prelude {
            return Err(format!("made with another prelude ({:.16}, here {:.16})", self.prelude, prelude));
        }
        for packed in &self.architectures {
            let Ok(arch) = Arch::parse(&packed.arch) else {
                return Err(format!("holds kernels of {}, which is not known here", packed.arch));
            };
            // No device here asks for kernels of a driver that is not in this build.
            if arch.info().vendor == Vendor::Nvidia && !cfg!(feature = "cuda") {
                continue;
            }
            if packed.contract != *contract(arch, &super::arch_defines(arch, true)).finalize().to_hex() {
                return Err(format!("its kernels of {arch} were compiled for other facts or with other options"));
            }
        }
        Ok(())
    }
}

/// What is the same for every key of an architecture.
pub(super) fn contract(arch: Arch, defines: &[(String, String)]) -> blake3::Hasher {
    let mut contract = blake3::Hasher::new();
    contract.update(b"rocfire packed kernel 1");
    contract.update(&rocfire_prelude::hash());
    let options = match arch.info().vendor {
        Vendor::Amd => clang::OPTIONS,
        #[cfg(feature = "cuda")]
        Vendor::Nvidia => crate::cuda::COMPILER_OPTIONS,
        #[cfg(not(feature = "cuda"))]
        Vendor::Nvidia => &[],
    };
    for part in std::iter::once(arch.name()).chain(options.iter().copied()) {
        source::update_text(&mut contract, part);
    }
    source::update_pairs(&mut contract, defines);
    contract
}

fn read_head(file: &mut File) -> Result<(Head, Vec<Entry>, u64), String> {
    let cut = |error: std::io::Error| format!("damaged: its head ends too early ({error})");
    let length = file.metadata().map_err(|error| format!("cannot be read: {error}"))?.len();
    let mut fixed = [0; FIXED_BYTES + HASH_BYTES];
    file.read_exact(&mut fixed).map_err(|error| format!("not a kernel pack: {error}"))?;
    let (fixed, hash) = fixed.split_at(FIXED_BYTES);
    let number = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
    if &fixed[..MAGIC.len()] != MAGIC {
        return Err("not a kernel pack".to_owned());
    }
    let (format, description_bytes, entries) = (number(8), number(12) as usize, number(16) as usize);
    if format != FORMAT {
        return Err(format!("its format is {format}, and {FORMAT} is read here"));
    }
    let head_bytes = description_bytes as u64 + entries as u64 * INDEX_BYTES as u64;
    if description_bytes > MOST_DESCRIPTION_BYTES || head_bytes > length {
        return Err("damaged: its head is said to be longer than the file".to_owned());
    }
    let mut rest = vec![0; head_bytes as usize];
    file.read_exact(&mut rest).map_err(cut)?;
    if blake3::Hasher::new().update(fixed).update(&rest).finalize().as_bytes() != hash {
        return Err("damaged: its head is not what was written".to_owned());
    }
    let (description, index) = rest.split_at(description_bytes);
    let head = Head::from_json(description).ok_or("its description cannot be read")?;
    let mut first_byte = (FIXED_BYTES + HASH_BYTES) as u64 + head_bytes;
    let entry = |bytes: &[u8]| {
        let hash = |at: usize| Hash::from_slice(&bytes[at..at + HASH_BYTES]).expect("as long as a hash");
        let length = u32::from_le_bytes(bytes[2 * HASH_BYTES..].try_into().expect("four bytes"));
        let entry = Entry { key: hash(0), hash: hash(HASH_BYTES), first_byte, bytes: length };
        first_byte += u64::from(length);
        entry
    };
    let index: Vec<Entry> = index.chunks_exact(INDEX_BYTES).map(entry).collect();
    if first_byte != length {
        return Err(format!("damaged: {length} bytes long, and {first_byte} were written"));
    }
    Ok((head, index, length))
}

/// The packs of a configuration, those that were named or those beside the executable, in the order in which they are looked into.
pub(crate) fn paths(config: &Config) -> Vec<PathBuf> {
    if let Some(named) = &config.packs {
        return named.clone();
    }
    let executable = std::env::current_exe().ok();
    let folder = executable.as_deref().and_then(Path::parent).and_then(|folder| std::fs::read_dir(folder).ok());
    let files = folder.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == PACK_EXTENSION)).collect();
    found.sort();
    found
}

/// Whether a pack that would be used holds kernels for an architecture: then a compiler need not be there.
pub fn is_packed(arch: Arch, config: &Config) -> bool {
    let packs = open_all(config);
    packs.open.iter().any(|pack| pack.packed().iter().any(|packed| packed.arch == arch.name()))
}

/// Packs, and why others were refused.
#[derive(Clone, Default)]
pub(super) struct Packs {
    pub open: Vec<Arc<Pack>>,
    pub refused: Vec<String>,
}

/// The packs of a configuration. Each is opened once per process, and one that is refused is warned of once.
pub(super) fn open_all(config: &Config) -> Packs {
    type Opened = HashMap<PathBuf, Result<Arc<Pack>, String>>;
    static OPEN: Mutex<Option<Opened>> = Mutex::new(None);
    let mut known = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let mut packs = Packs::default();
    for path in paths(config) {
        let opened = known.entry(path).or_insert_with_key(|path| {
            let opened = Pack::open(path).map(Arc::new).map_err(|error| error.to_string());
            if let Err(reason) = &opened {
                report(config.log, Level::Warn, format!("{reason}; it is not used"));
            }
            opened
        });
        match opened {
            Ok(pack) => packs.open.push(Arc::clone(pack)),
            Err(reason) => packs.refused.push(reason.clone()),
        }
    }
    packs
}

#[cfg(test)]
mod tests;
