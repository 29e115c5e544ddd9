//! Code objects on disk, shared by processes.
//!
//! A file is named after its key and holds a magic number, a BLAKE3 hash with the key as BLAKE3's own of all that follows, the hash
//! of the source, for whoever makes a pack of what is here, and the code object compressed by zstd: a file that came under another
//! key's name does not pass as that key's. It is written under a temporary name and renamed, so a reader sees all of it or nothing;
//! one that is damaged all the same is removed and made again. Reading a file sets its time, and when the folder grows past its
//! bound the files that were used longest ago go first.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use blake3::Hash;

use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"rocfire3";
const SUFFIX: &str = "co";
const HASH_BYTES: usize = 32;
/// The hash of a source.
type SourceHash = [u8; HASH_BYTES];
/// zstd's default: twice as fast as level 9 and within 5% of its size on code objects.
const ZSTD_LEVEL: i32 = 3;
/// No code object is larger; a damaged length must not ask for all memory.
const MOST_BYTES: usize = 256 << 20;
/// Eviction makes this much room at once, as a share of the bound, so that it does not run for every file.
const EVICTED_SHARE: u64 = 10;

/// A folder of code objects.
pub(crate) struct Cache {
    folder: PathBuf,
    limit_bytes: u64,
    /// What the folder held when this process last looked, and has written since; `None` before it looked.
    held_bytes: Mutex<Option<u64>>,
}

impl Cache {
    /// The cache in a folder, which is made when something is written. A limit of 0 keeps nothing.
    pub fn new(folder: PathBuf, limit_bytes: u64) -> Cache {
        Cache { folder, limit_bytes, held_bytes: Mutex::new(None) }
    }

    /// The code object of a key; a damaged file counts as none.
    pub fn read(&self, key: &Hash) -> Option<Vec<u8>> {
        if self.limit_bytes == 0 {
            return None;
        }
        let path = self.path(key);
        let file = fs::read(&path).ok()?;
        let Some((_, bytes)) = decode(key, &file) else {
            // If it cannot be removed it is replaced by the rename of its successor.
            let _ = fs::remove_file(&path);
            return None;
        };
        // The time is only for eviction: a folder that cannot be written still serves.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(bytes)
    }

    /// Keeps a code object, and the hash of its source.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be written.
    pub fn write(&self, key: &Hash, source: &SourceHash, code: &[u8]) -> Result<()> {
        if self.limit_bytes == 0 {
            return Ok(());
        }
        let path = self.path(key);
        let file = encode(key, source, code).map_err(|error| Error::io("compress", &path, error))?;
        let failed = |source| Error::io("write", &path, source);
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let mut temporary = tempfile::NamedTempFile::new_in(&self.folder).map_err(failed)?;
        temporary.write_all(&file).map_err(failed)?;
        temporary.persist(&path).map_err(|error| failed(error.error))?;
        self.make_room(file.len() as u64);
        Ok(())
    }

    /// Forgets what a key has.
    pub fn remove(&self, key: &Hash) {
        // What cannot be removed is replaced when it is made again.
        let _ = fs::remove_file(self.path(key));
    }

    /// Every code object that is in order: its key, its source's hash, the code.
    pub fn entries(&self) -> impl Iterator<Item = (Hash, SourceHash, Vec<u8>)> {
        files(&self.folder).into_iter().filter_map(|file| {
            let key = Hash::from_hex(file.path.file_stem()?.to_str()?).ok()?;
            let (source, code) = decode(&key, &fs::read(&file.path).ok()?)?;
            Some((key, source, code))
        })
    }

    fn path(&self, key: &Hash) -> PathBuf {
        self.folder.join(format!("{}.{SUFFIX}", key.to_hex()))
    }

    /// Counts what was written, and evicts when that passes the bound.
    fn make_room(&self, written_bytes: u64) {
        let mut held = self.held_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let now = held.map_or_else(|| size_bytes(&self.folder), |held| held + written_bytes);
        *held = Some(if now > self.limit_bytes { self.evict() } else { now });
    }

    /// Removes what was used longest ago until the folder is somewhat below its bound; returns what is left.
    fn evict(&self) -> u64 {
        let mut files = files(&self.folder);
        files.sort_by_key(|file| file.used);
        let mut held: u64 = files.iter().map(|file| file.bytes).sum();
        let target = self.limit_bytes - self.limit_bytes / EVICTED_SHARE;
        // The newest stays, however large: it was just asked for.
        files.pop();
        for file in files {
            if held <= target {
                break;
            }
            // Another process may have been faster.
            if fs::remove_file(&file.path).is_ok() {
                held -= file.bytes;
            }
        }
        held
    }
}

/// What the code objects in a folder take, bytes.
pub(crate) fn size_bytes(folder: &Path) -> u64 {
    files(folder).iter().map(|file| file.bytes).sum()
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn files(folder: &Path) -> Vec<Entry> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entry = |entry: fs::DirEntry| {
        let path = entry.path();
        let ours = path.extension().is_some_and(|extension| extension == SUFFIX);
        let metadata = entry.metadata().ok().filter(|metadata| ours && metadata.is_file())?;
        Some(Entry { path, bytes: metadata.len(), used: metadata.modified().ok()? })
    };
    entries.flatten().filter_map(entry).collect()
}

fn encode(key: &Hash, source: &SourceHash, code: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut rest = source.to_vec();
    rest.extend_from_slice(&zstd::bulk::compress(code, ZSTD_LEVEL)?);
    Ok([&MAGIC[..], &blake3::keyed_hash(key.as_bytes(), &rest).as_bytes()[..], &rest].concat())
}

fn decode(key: &Hash, file: &[u8]) -> Option<(SourceHash, Vec<u8>)> {
    let rest = file.strip_prefix(MAGIC)?;
    let (hash, rest) = rest.split_at_checked(HASH_BYTES)?;
    if blake3::keyed_hash(key.as_bytes(), rest).as_bytes() != hash {
        return None;
    }
    let (source, compressed) = rest.split_first_chunk::<HASH_BYTES>()?;
    let size = zstd::zstd_safe::get_frame_content_size(compressed).ok()??;
    let size = usize::try_from(size).ok().filter(|&size| size <= MOST_BYTES)?;
    Some((*source, zstd::bulk::decompress(compressed, size).ok()?))
}

#[cfg(test)]
mod tests;
