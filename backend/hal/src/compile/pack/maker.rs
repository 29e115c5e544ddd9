//! Making a pack: kernels compiled for it, and those that programs have left in the cache.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use blake3::Hash;
use rocfire_arch::{Arch, Vendor};

use super::{FIXED_BYTES, FORMAT, HASH_BYTES, Head, MAGIC, Packed, contract};
use crate::compile::{CodeObject, Compiler, Pipeline, Source, arch_defines, clang_compiler};
use crate::{Config, Error, Result};

/// A pack is made once and read often; higher levels take many times as long for a few percent.
const ZSTD_LEVEL: i32 = 12;

/// A pack that is being made.
pub struct PackMaker {
    config: Config,
    architectures: Vec<Made>,
    /// Compressed, by key.
    entries: BTreeMap<[u8; HASH_BYTES], Vec<u8>>,
}

/// What there is for an architecture so far.
struct Made {
    arch: Arch,
    compilers: Vec<String>,
    kernels: usize,
}

impl PackMaker {
    /// An empty one. The settings say where the cache is and how many compilers run at a time; what they say of
    /// packs is left aside.
    pub fn new(config: &Config) -> PackMaker {
        PackMaker { config: config.clone().with_packs(Vec::new()), architectures: Vec::new(), entries: BTreeMap::new() }
    }

    /// Adds kernels, from the cache or compiled, as many at a time as [`super::super::jobs`] allows. `done` is told each
    /// source's name when it is there. What does not compile is left out, and returned.
    ///
    /// # Errors
    /// [`Error::NoCompiler`]; [`Error::Io`] for what cannot be compressed.
    pub fn compile(&mut self, arch: Arch, sources: &[Source], done: &(dyn Fn(&str) + Sync)) -> Result<Vec<Error>> {
        let compiler = compilers(arch).next().expect("every architecture has a compiler to be looked for")?;
        let identity = compiler.identity().to_owned();
        let pipeline = Pipeline::new(arch, compiler, &self.config);
        let mut failures = Vec::new();
        for (source, code) in sources.iter().zip(pipeline.many(sources, &|source| done(source.name()))) {
            match code {
                Ok(code) => self.add(arch, &identity, source.hash(), code.bytes())?,
                Err(error) => failures.push(error),
            }
        }
        Ok(failures)
    }

    /// Adds what the cache has for an architecture of this build's prelude, by any compiler of this machine; how many that
    /// are. Those that fusion makes while a program runs are there once it has run.
    ///
    /// # Errors
    /// [`Error::Io`] for what cannot be compressed.
    pub fn add_cached(&mut self, arch: Arch) -> Result<usize> {
        let mut added = 0;
        for compiler in compilers(arch).flatten() {
            let identity = compiler.identity().to_owned();
            let pipeline = Pipeline::new(arch, compiler, &self.config);
            for (source, code) in pipeline.cached() {
                // A file that was cut short would be found out when it is loaded.
                if CodeObject::parse("cached kernel", code.clone()).is_ok() {
                    self.add(arch, &identity, &source, &code)?;
                    added += 1;
                }
            }
        }
        Ok(added)
    }

    pub(super) fn add(&mut self, arch: Arch, compiler: &str, source: &[u8; HASH_BYTES], code: &[u8]) -> Result<()> {
        let at = self.architectures.iter().position(|made| made.arch == arch).unwrap_or_else(|| {
            self.architectures.push(Made { arch, compilers: Vec::new(), kernels: 0 });
            self.architectures.len() - 1
        });
        let made = &mut self.architectures[at];
        let key = *contract(arch, &arch_defines(arch, self.config.matrix)).update(source).finalize().as_bytes();
        // The first compiler is the one that is preferred.
        let std::collections::btree_map::Entry::Vacant(entry) = self.entries.entry(key) else { return Ok(()) };
        let compressed = zstd::bulk::compress(code, ZSTD_LEVEL);
        entry.insert(compressed.map_err(|error| Error::io("compress", Path::new(arch.name()), error))?);
        made.kernels += 1;
        if !made.compilers.iter().any(|known| known == compiler) {
            made.compilers.push(compiler.to_owned());
        }
        Ok(())
    }

    /// How many kernels it has so far.
    pub fn kernels(&self) -> usize {
        self.entries.len()
    }

    /// Writes it, whole or not at all; the size of the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, path: &Path) -> Result<u64> {
        let failed = |source| Error::io("write", path, source);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let head = self.head();
        file.write_all(&head).map_err(failed)?;
        let mut bytes = head.len() as u64;
        for entry in self.entries.values() {
            file.write_all(entry).map_err(failed)?;
            bytes += entry.len() as u64;
        }
        make_readable(file.as_file()).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(bytes)
    }

    fn head(&self) -> Vec<u8> {
        let packed = |made: &Made| Packed {
            arch: made.arch.name().to_owned(),
            compilers: made.compilers.clone(),
            kernels: made.kernels,
            contract: contract(made.arch, &arch_defines(made.arch, true)).finalize().to_hex().to_string(),
        };
        let description = Head {
            made_by: env!("CARGO_PKG_VERSION").to_owned(),
            prelude: Hash::from_bytes(rocfire_prelude::hash()).to_hex().to_string(),
            architectures: self.architectures.iter().map(packed).collect(),
        }
        .to_json();
        let mut fixed = Vec::with_capacity(FIXED_BYTES);
        fixed.extend_from_slice(MAGIC);
        for number in [FORMAT, description.len() as u32, self.entries.len() as u32] {
            fixed.extend_from_slice(&number.to_le_bytes());
        }
        let mut rest = description;
        for (key, entry) in &self.entries {
            rest.extend_from_slice(key);
            rest.extend_from_slice(blake3::keyed_hash(key, entry).as_bytes());
            rest.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        }
        let hash = blake3::Hasher::new().update(&fixed).update(&rest).finalize();
        [&fixed[..], hash.as_bytes(), &rest].concat()
    }
}

/// The compilers whose code objects a device of an architecture takes, the one that is compiled with first.
fn compilers(arch: Arch) -> impl Iterator<Item = Result<Arc<dyn Compiler>>> {
    let mut all: Vec<Result<Arc<dyn Compiler>>> = Vec::new();
    match arch.info().vendor {
        #[cfg(feature = "cuda")]
        Vendor::Nvidia => all.push(crate::cuda::compiler(arch)),
        #[cfg(not(feature = "cuda"))]
        Vendor::Nvidia => all.push(clang_compiler(arch)),
        Vendor::Amd => {
            all.push(clang_compiler(arch));
            #[cfg(feature = "hip")]
            all.push(crate::hip::compiler(arch));
        }
    }
    // With no clang on a machine with ROCm, hiprtc compiles.
    all.sort_by_key(Result::is_err);
    let mut seen: Vec<String> = Vec::new();
    all.retain(|compiler| {
        let Ok(compiler) = compiler else { return true };
        let is_new = !seen.iter().any(|identity| identity == compiler.identity());
        seen.push(compiler.identity().to_owned());
        is_new
    });
    all.into_iter()
}

/// Temporary files are their owner's alone; a pack is for whoever runs the program.
fn make_readable(file: &std::fs::File) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    let _ = file;
    Ok(())
}
