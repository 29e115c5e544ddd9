//! From a kernel's source to a code object: compilers, cache, parallel compiles. Knows no driver.
//!
//! A source is compiled behind the prelude, with the facts of its architecture as macros, by clang (`clang.rs`) or, for
//! real devices, by hiprtc (`hip/rtc.rs`) or NVRTC (`cuda/rtc.rs`). Code objects are kept on disk (`cache.rs`) under the hash of
//! everything that went into them, and beside them what clang makes of the prelude once for many sources (`precompiled.rs`).
//! Before the cache, and before any compiler is looked for, come packs (`pack.rs`), which carry code objects to machines without a
//! compiler. `module.rs` loads them; what is loaded is kept by the device.

mod ahead;
mod cache;
mod clang;
mod cubin;
mod metadata;
mod pack;
mod precompiled;
#[cfg(any(feature = "hip", feature = "cuda"))]
pub(crate) mod rtc;
mod source;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rocfire_arch::Arch;

pub use clang::{Clang, Rejected, find as find_clang};
#[cfg(feature = "emulated")]
pub(crate) use metadata::arch_of;
pub use metadata::{CodeObject, KernelInfo};
pub use pack::{PACK_EXTENSION, Pack, PackMaker, Packed, is_packed};
pub use source::Source;

pub(crate) use ahead::{Coming, Urgency};
pub(crate) use cache::Cache;
pub(crate) use pack::paths as pack_paths;
use precompiled::Precompiled;
pub(crate) use precompiled::{Form, Prelude};

use crate::log::{Level, report};
use crate::{Config, Error, Result};

/// A compile that takes longer is told of while it runs.
const SLOW: Duration = Duration::from_secs(1);
/// Memory that one compiler may take: clang 22 peaks at 115 MiB on the prelude with a one-line kernel (x86-64, resident),
/// and large kernels take a few times that. Half of what is free is left to the program.
const JOB_BYTES: u64 = 512 << 20;

/// What a compiler is given.
pub(crate) struct Unit<'a> {
    /// For messages and the file's name.
    pub name: &'a str,
    /// The source, without the prelude.
    pub text: &'a str,
    /// The processor: an architecture's name or a generic target.
    pub target: &'a str,
    /// Macros, name and value.
    pub defines: &'a [(String, String)],
    /// Flags after the usual ones.
    pub flags: &'a [String],
    /// Whether HIP's headers are there for it.
    pub hip: bool,
    /// Whether the code object is to say which line each instruction comes from. Only clang does, and the code stays the same.
    pub line_tables: bool,
    /// The prelude as [`Compiler::precompile`] gave it for this target and the architecture's macros, if it is to be used.
    pub prelude: Option<&'a Prelude>,
}

/// Why a compiler gave no code object.
pub(crate) enum Failure {
    /// It does not know the target.
    UnknownTarget,
    /// The source is wrong; this is what was printed.
    Diagnostics(String),
    /// It could not be run.
    Other(Error),
}

/// A compiler that can make code objects.
pub(crate) trait Compiler: Send + Sync {
    /// What it is and its version, with whatever else of it influences the code; part of the cache's key.
    fn identity(&self) -> &str;

    /// Compiles, and calls `tick` now and then meanwhile, where it can.
    fn compile(&self, unit: &Unit<'_>, tick: &mut dyn FnMut()) -> Result<Vec<u8>, Failure>;

    /// The prelude in a form that is read faster, for a target and its architecture's macros.
    ///
    /// # Errors
    /// Why there is none.
    fn precompile(&self, _target: &str, _defines: &[(String, String)]) -> Result<Form, String> {
        Err(format!("{} has no form for it", self.identity()))
    }

    /// Whether it reads sources one after another, however many threads compile.
    fn reads_one_at_a_time(&self) -> bool {
        false
    }
}

/// A compile that takes longer than a second, told to the hook of [`on_slow_compile`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SlowCompile {
    /// The source's name.
    pub name: String,
    /// The architecture.
    pub arch: Arch,
    /// Since it began.
    pub elapsed: Duration,
    /// Whether it has ended.
    pub done: bool,
}

type Hook = Box<dyn Fn(&SlowCompile) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// Has `hook` called for each compile that takes longer than a second: about every second while it runs, from the
/// thread that compiles, and once when it has ended. Replaces the hook before; without one such compiles are
/// reported at level `info`.
pub fn on_slow_compile(hook: impl Fn(&SlowCompile) + Send + Sync + 'static) {
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(hook));
}

/// How many compilers run at a time: what the settings say, at most the cores, at most what fits into half of the memory
/// that is free, and at least one.
pub fn jobs(config: &Config) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    limit_jobs(config.compile_jobs, cores, available_memory_bytes())
}

fn limit_jobs(wanted: Option<usize>, cores: usize, available_bytes: Option<u64>) -> usize {
    let fit = available_bytes.map_or(cores, |bytes| usize::try_from(bytes / 2 / JOB_BYTES).unwrap_or(cores));
    wanted.unwrap_or(cores).min(cores).min(fit).max(1)
}

/// Memory that can be had without swapping, on Linux.
fn available_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The clang of this machine, looked for once per process.
///
/// # Errors
/// What was looked for, and why each that was found was refused.
pub fn clang() -> Result<&'static Clang, &'static [Rejected]> {
    static FOUND: OnceLock<Result<Clang, Vec<Rejected>>> = OnceLock::new();
    FOUND.get_or_init(clang::find).as_ref().map_err(Vec::as_slice)
}

/// What was looked for, and why each clang that was found was refused, in one line.
pub(crate) fn describe_rejected(rejected: &[Rejected]) -> String {
    clang::describe(rejected)
}

/// What the folder of compiled kernels holds, bytes.
pub(crate) fn cache_size_bytes(config: &Config) -> u64 {
    cache::size_bytes(&code_folder(config))
}

fn code_folder(config: &Config) -> std::path::PathBuf {
    config.cache_dir.join("code")
}

/// Compiles without a device, in parallel, through the cache: for checks that kernels compile, and for filling the cache
/// ahead. Results are in the order of the sources.
///
/// # Errors
/// [`Error::NoCompiler`] if there is none; each source has its own outcome besides.
pub fn compile_many(arch: Arch, sources: &[Source], config: &Config) -> Result<Vec<Result<Arc<CodeObject>>>> {
    Ok(Pipeline::new(arch, clang_compiler(arch)?, config).many(sources, &|_| {}))
}

/// The compiler of devices without a GPU.
pub(crate) fn clang_compiler(arch: Arch) -> Result<Arc<dyn Compiler>> {
    Ok(Arc::new(clang_or_error(arch)?.clone()))
}

/// The machine's clang, or what was looked for as an error.
pub(crate) fn clang_or_error(arch: Arch) -> Result<&'static Clang> {
    clang().map_err(|rejected| Error::NoCompiler { arch, searched: clang::describe(rejected) })
}

/// What an architecture's kernels are compiled with: its facts, and that there is no matrix unit where it is not to be used.
fn arch_defines(arch: Arch, matrix: bool) -> Vec<(String, String)> {
    let defines = arch.info().defines().into_iter();
    let mut defines: Vec<(String, String)> = defines.map(|(name, value)| (name.to_owned(), value)).collect();
    if !matrix {
        // The prelude's matrix products fall back to fused multiply-adds where there is no unit.
        let none = defines.iter().find(|(name, _)| name == "ARCH_MATRIX_NONE").cloned();
        let none = none.expect("arch defines every kind of matrix unit").1;
        let used = defines.iter_mut().find(|(name, _)| name == "ARCH_MATRIX");
        used.expect("arch defines the matrix unit").1 = none;
    }
    defines
}

/// Looks for the compiler of an architecture, when one is first needed.
type Find = Box<dyn Fn() -> Result<Arc<dyn Compiler>> + Send + Sync>;

/// A compiler that was found, and what is the same for every source that it compiles: prelude, architecture, compiler.
struct Found {
    compiler: Arc<dyn Compiler>,
    base: blake3::Hasher,
}

/// Code objects for an architecture: packs, a cache, and a compiler that is looked for when neither has a kernel.
pub(crate) struct Pipeline {
    arch: Arch,
    find: Find,
    found: OnceLock<Found>,
    packs: pack::Packs,
    /// What is the same for every key of a pack.
    packed_base: blake3::Hasher,
    cache: Cache,
    config: Config,
    arch_defines: Vec<(String, String)>,
    precompiled: Precompiled,
    counts: Counts,
}

/// Where code objects came from.
#[derive(Default)]
struct Counts {
    compiled: AtomicU64,
    packed: AtomicU64,
    cached: AtomicU64,
    compiling_us: AtomicU64,
    /// What is being compiled, and since when.
    running: Mutex<Vec<(String, Instant)>>,
}

/// A source that is being compiled.
struct Running<'a> {
    counts: &'a Counts,
    name: &'a str,
    begun: Instant,
}

impl Counts {
    fn begin<'a>(&'a self, name: &'a str) -> Running<'a> {
        let begun = Instant::now();
        self.compiled.fetch_add(1, Ordering::Relaxed);
        self.running().push((name.to_owned(), begun));
        Running { counts: self, name, begun }
    }

    fn running(&self) -> MutexGuard<'_, Vec<(String, Instant)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.counts.compiling_us.fetch_add(self.begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        let mut running = self.counts.running();
        if let Some(at) = running.iter().position(|(name, begun)| name == self.name && *begun == self.begun) {
            running.swap_remove(at);
        }
    }
}

/// Where the code objects of a device came from since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileStats {
    /// Runs of the compiler.
    pub compiled: u64,
    /// Taken from packs.
    pub packed: u64,
    /// Read from the cache on disk.
    pub cached: u64,
    /// How long compilers ran; those that run at the same time count each.
    pub compiling: Duration,
}

impl Pipeline {
    /// With a compiler that is there.
    pub fn new(arch: Arch, compiler: Arc<dyn Compiler>, config: &Config) -> Pipeline {
        Pipeline::finding(arch, Box::new(move || Ok(Arc::clone(&compiler))), config)
    }

    /// With one that is looked for when it is needed.
    pub fn finding(arch: Arch, find: Find, config: &Config) -> Pipeline {
        let arch_defines = arch_defines(arch, config.matrix);
        Pipeline {
            arch,
            find,
            found: OnceLock::new(),
            packs: pack::open_all(config),
            packed_base: pack::contract(arch, &arch_defines),
            cache: Cache::new(code_folder(config), config.cache_mb << 20),
            config: config.clone(),
            arch_defines,
            precompiled: Precompiled::new(config.log),
            counts: Counts::default(),
        }
    }

    /// Without packs, because what is in them cannot be loaded.
    pub fn without_packs(self) -> Pipeline {
        Pipeline { packs: pack::Packs::default(), ..self }
    }

    fn found(&self) -> Result<&Found> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let compiler = (self.find)().map_err(|error| self.with_refused(error))?;
        let mut base = blake3::Hasher::new();
        base.update(b"rocfire code object 1");
        base.update(&rocfire_prelude::hash());
        for part in [self.arch.name(), compiler.identity()] {
            source::update_text(&mut base, part);
        }
        source::update_pairs(&mut base, &self.arch_defines);
        Ok(self.found.get_or_init(|| Found { compiler, base }))
    }

    /// Where there is no compiler, why there is no pack either.
    fn with_refused(&self, error: Error) -> Error {
        let refused = self.packs.refused.join("; ");
        match error {
            Error::NoCompiler { arch, searched } if !refused.is_empty() => {
                Error::NoCompiler { arch, searched: format!("{searched}; {refused}") }
            }
            other => other,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// As its compiler says, if that was needed yet.
    fn reads_one_at_a_time(&self) -> bool {
        self.found.get().is_some_and(|found| found.compiler.reads_one_at_a_time())
    }

    /// The code object of a source if a pack or the cache has it. Without a compiler, what a pack does not have is an error.
    pub fn at_hand(&self, source: &Source) -> Result<Option<Arc<CodeObject>>> {
        match self.in_packs(source) {
            Ok(Some(code)) => Ok(Some(code)),
            Ok(None) => Ok(self.in_cache(source, &self.key(source, false)?)),
            Err(damaged) => match self.key(source, false) {
                Ok(key) => Ok(self.in_cache(source, &key)),
                // Without a compiler the pack's damage is what has to be told.
                Err(_) => Err(damaged),
            },
        }
    }

    /// The code object of a source: from a pack, from the cache, or compiled and put there.
    pub fn one(&self, source: &Source) -> Result<Arc<CodeObject>> {
        match self.at_hand(source)? {
            Some(code) => Ok(code),
            None => self.fresh(source),
        }
    }

    /// The code object of a source that is neither in a pack nor in the cache: compiled, and put there.
    pub fn fresh(&self, source: &Source) -> Result<Arc<CodeObject>> {
        self.make(source, &self.key(source, false)?, false)
    }

    fn in_packs(&self, source: &Source) -> Result<Option<Arc<CodeObject>>> {
        if self.packs.open.is_empty() {
            return Ok(None);
        }
        let key = self.packed_base.clone().update(source.hash()).finalize();
        let mut outcome = Ok(None);
        for pack in &self.packs.open {
            match pack.read(&key).and_then(|code| code.map(|code| CodeObject::parse(source.name(), code)).transpose()) {
                Ok(Some(code)) => {
                    self.counts.packed.fetch_add(1, Ordering::Relaxed);
                    return Ok(Some(Arc::new(code)));
                }
                Ok(None) => {}
                Err(error) => {
                    report(self.config.log, Level::Warn, format!("{}: {error}", source.name()));
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    /// The same code with line tables: for who has to say where something went wrong.
    pub fn with_lines(&self, source: &Source) -> Result<Arc<CodeObject>> {
        let key = self.key(source, true)?;
        match self.in_cache(source, &key) {
            Some(code) => Ok(code),
            None => self.make(source, &key, true),
        }
    }

    /// What the cache has of this prelude, architecture and compiler: the hash of each source, and the code.
    pub fn cached(&self) -> Vec<([u8; 32], Vec<u8>)> {
        let Ok(found) = self.found() else { return Vec::new() };
        let ours = |(key, source, code): (blake3::Hash, [u8; 32], Vec<u8>)| {
            (found.base.clone().update(&source).finalize() == key).then_some((source, code))
        };
        self.cache.entries().filter_map(ours).collect()
    }

    fn key(&self, source: &Source, line_tables: bool) -> Result<blake3::Hash> {
        let mut key = self.found()?.base.clone();
        key.update(source.hash());
        if line_tables {
            source::update_text(&mut key, "line tables");
        }
        Ok(key.finalize())
    }

    fn in_cache(&self, source: &Source, key: &blake3::Hash) -> Option<Arc<CodeObject>> {
        let code = CodeObject::parse(source.name(), self.cache.read(key)?).ok()?;
        self.counts.cached.fetch_add(1, Ordering::Relaxed);
        Some(Arc::new(code))
    }

    /// Compiles and puts into the cache.
    fn make(&self, source: &Source, key: &blake3::Hash, line_tables: bool) -> Result<Arc<CodeObject>> {
        let running = self.counts.begin(source.name());
        let compiled = self.compile(source, line_tables);
        let elapsed = running.begun.elapsed();
        drop(running);
        let code = CodeObject::parse(source.name(), compiled?)?;
        let message = || format!("compiled {} for {} in {:.2} s", source.name(), self.arch, elapsed.as_secs_f64());
        report(self.config.log, Level::Debug, message());
        if let Err(error) = self.cache.write(key, source.hash(), code.bytes()) {
            report(self.config.log, Level::Warn, format!("compiled kernels are not kept: {error}"));
        }
        Ok(Arc::new(code))
    }

    /// How often the compiler was run.
    #[cfg(test)]
    pub fn compiled(&self) -> u64 {
        self.stats().compiled
    }

    /// Where its code objects came from.
    pub fn stats(&self) -> CompileStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { compiled, packed, cached, compiling_us, running: _ } = &self.counts;
        let [compiled, packed, cached] = [compiled, packed, cached].map(count);
        CompileStats { compiled, packed, cached, compiling: Duration::from_micros(count(compiling_us)) }
    }

    /// What is being compiled, and for how long already, the longest first.
    #[cfg(unix)]
    pub fn compiling(&self) -> Vec<(String, Duration)> {
        let mut running: Vec<_> =
            self.counts.running().iter().map(|(name, begun)| (name.clone(), begun.elapsed())).collect();
        running.sort_by_key(|(_, elapsed)| std::cmp::Reverse(*elapsed));
        running
    }

    /// The code objects of sources, as many at a time as [`jobs`] allows, in their order. `done` is told of each.
    pub fn many(&self, sources: &[Source], done: &(dyn Fn(&Source) + Sync)) -> Vec<Result<Arc<CodeObject>>> {
        let results: Vec<Mutex<Option<Result<Arc<CodeObject>>>>> = sources.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(source) = sources.get(index) else { break };
                *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(self.one(source));
                done(source);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..jobs(&self.config).min(sources.len()) {
                scope.spawn(work);
            }
            work();
        });
        let taken = |result: Mutex<Option<_>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
        results
            .into_iter()
            .map(|result| taken(result).expect("every source was taken by a thread that has ended"))
            .collect()
    }

    /// Compiles for the architecture, else for its family's generic target.
    fn compile(&self, source: &Source, line_tables: bool) -> Result<Vec<u8>> {
        let defines: Vec<_> = self.arch_defines.iter().chain(source.defines()).cloned().collect();
        let generic = self.arch.info().generic_target;
        let Found { compiler, base } = self.found()?;
        let mut clock = SlowClock::new(source.name(), self.arch, self.config.log);
        let fits = !line_tables && precompiled::fits(source, &self.arch_defines);
        let prelude = fits.then(|| {
            let key = base.clone().update(b"precompiled prelude").finalize();
            let make = || compiler.precompile(self.arch.name(), &self.arch_defines);
            self.precompiled.get(&self.cache, &key, compiler.reads_one_at_a_time(), make)
        });
        let prelude = prelude.flatten();
        for target in std::iter::once(self.arch.name()).chain(generic) {
            let unit = Unit {
                name: source.name(),
                text: source.text(),
                target,
                defines: &defines,
                flags: source.flags(),
                hip: source.is_hip(),
                line_tables,
                prelude: prelude.as_deref().filter(|_| target == self.arch.name()),
            };
            match compiler.compile(&unit, &mut || clock.tick()) {
                Ok(code) => return Ok(code),
                Err(Failure::UnknownTarget) => {}
                Err(Failure::Diagnostics(log)) => {
                    return Err(Error::Compile { kernel: source.name().to_owned(), arch: self.arch, log });
                }
                Err(Failure::Other(error)) => return Err(error),
            }
        }
        Err(Error::ArchRefused { compiler: compiler.identity().to_owned(), arch: self.arch, generic })
    }
}

/// Tells of a compile once it is slow, and of its end.
struct SlowClock<'a> {
    name: &'a str,
    arch: Arch,
    log: Level,
    begun: Instant,
    next: Duration,
}

impl<'a> SlowClock<'a> {
    fn new(name: &'a str, arch: Arch, log: Level) -> Self {
        SlowClock { name, arch, log, begun: Instant::now(), next: SLOW }
    }

    fn tick(&mut self) {
        let elapsed = self.begun.elapsed();
        if elapsed >= self.next {
            self.next = elapsed + SLOW;
            self.tell(elapsed, false);
        }
    }

    fn tell(&self, elapsed: Duration, done: bool) {
        let slow = SlowCompile { name: self.name.to_owned(), arch: self.arch, elapsed, done };
        match &*HOOK.read().unwrap_or_else(PoisonError::into_inner) {
            Some(hook) => hook(&slow),
            None if done => {
                let message = format!("compiling {} for {} took {:.1} s", slow.name, slow.arch, elapsed.as_secs_f64());
                report(self.log, Level::Info, message);
            }
            None => {}
        }
    }
}

impl Drop for SlowClock<'_> {
    fn drop(&mut self) {
        let elapsed = self.begun.elapsed();
        if elapsed >= SLOW {
            self.tell(elapsed, true);
        }
    }
}

#[cfg(test)]
mod tests;
