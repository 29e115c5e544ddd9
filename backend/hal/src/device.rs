//! Devices: opening, choosing, and what each of them owns.
//!
//! A device owns its driver, its one stream, its memory pool and its loaded modules. [`Device::get`] opens each device
//! once per process, with the settings of the environment; [`Device::open`] opens one of its own, with any settings.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

use rocfire_arch::Arch;

use crate::compile::{CodeObject, Coming, CompileStats, Compiler, Pipeline, Source, Urgency, clang_compiler, jobs};
use crate::driver::{DeviceInfo, Driver};
use crate::log::{Level, report};
use crate::pool::{Block, MemoryStats, Pool, SegmentStats, SharedPool};
use crate::profile::Timeline;
use crate::{Config, DeviceId, DriverKind, Error, Function, Generic, Module, Result, Stream};

/// An open device. Clones are handles to the same; equal if they are the same.
#[derive(Clone)]
pub struct Device(Arc<DeviceInner>);

pub(crate) struct DeviceInner {
    id: DeviceId,
    config: Config,
    driver: Arc<dyn Driver>,
    stream: Stream,
    pool: SharedPool,
    modules: Mutex<HashMap<[u8; 32], Arc<Slot>>>,
    vendor_plans: crate::vendor::Plans,
    attached: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// Made by the first module. It looks for a compiler when packs and cache do not have a kernel.
    pipeline: Mutex<Option<Arc<Pipeline>>>,
    /// Whether kernels may be given out before they are compiled.
    compiles_ahead: bool,
    /// What was asked for, where nothing is launched and somebody wants to know which kernels are needed.
    wanted: Option<Mutex<Vec<Source>>>,
}

/// Where a module is or will be: whoever comes second waits for the first instead of compiling too.
type Slot = Mutex<Loading>;

/// How far a module is.
#[derive(Default)]
enum Loading {
    #[default]
    Unknown,
    /// Being compiled, with the kernels of it that were given out.
    Coming(Arc<Coming>, HashMap<String, Function>),
    Loaded(Arc<Module>),
}

static DEVICES: Mutex<Vec<Device>> = Mutex::new(Vec::new());

impl Device {
    /// The process's device of this name, opened with the settings of the environment when it is first asked for.
    ///
    /// # Errors
    /// As [`Device::open`] and [`Config::from_env`].
    pub fn get(id: DeviceId) -> Result<Device> {
        let mut devices = lock(&DEVICES);
        if let Some(device) = devices.iter().find(|device| device.id() == id) {
            return Ok(device.clone());
        }
        let device = Device::open(id, Config::from_env()?)?;
        devices.push(device.clone());
        Ok(device)
    }

    /// Opens a device, with its own pool and modules, whatever others there are.
    ///
    /// # Errors
    /// [`Error::NoDriver`] for a driver that is not in this build; for `hip` and `cuda` [`Error::Load`] and
    /// [`Error::NoDevice`].
    pub fn open(id: DeviceId, config: Config) -> Result<Device> {
        let driver = open_driver(id, &config)?;
        let device = Device::with_driver(id, config, driver);
        if let Some(path) = &device.config().timed {
            device.stream().start_profile(Some(path.clone()), device.config().log)?;
        }
        #[cfg(unix)]
        crate::watch::watch(&device);
        Ok(device)
    }

    /// A device that compiles and launches nothing: what launchers of operators that are called on it would have compiled for
    /// an architecture is in [`Device::wanted`]. What is read from it is zeros.
    #[cfg(feature = "noop")]
    pub fn planning(arch: Arch, config: Config) -> Device {
        // What others have compiled is in no pack: where they are missing, ours are needed.
        let config = config.with_aiter(false);
        let id = DeviceId::new(DriverKind::Noop, arch, 0);
        Device::made(id, config, Arc::new(crate::noop::Noop::new(arch)), Some(Mutex::default()))
    }

    /// The sources of every kernel that was asked of a device made by `Device::planning`, in the order in which they were; of
    /// another device, none.
    pub fn wanted(&self) -> Vec<Source> {
        self.0.wanted.as_ref().map(|wanted| lock(wanted).clone()).unwrap_or_default()
    }

    pub(crate) fn with_driver(id: DeviceId, config: Config, driver: Arc<dyn Driver>) -> Device {
        Device::made(id, config, driver, None)
    }

    fn made(id: DeviceId, config: Config, driver: Arc<dyn Driver>, wanted: Option<Mutex<Vec<Source>>>) -> Device {
        let limit_bytes = limit_bytes(&config, driver.info());
        report(config.log, Level::Info, format_args!("opened {id}: {}", driver.info().name));
        let pool = Pool::new(Arc::clone(&driver), limit_bytes);
        let pool = if config.replay { pool.keeping_blocks() } else { pool };
        Device(Arc::new_cyclic(|device| DeviceInner {
            id,
            stream: Stream::new(device.clone(), Arc::clone(&driver), &config, wanted.is_some()),
            pool: Arc::new(Mutex::new(pool)),
            modules: Mutex::new(HashMap::new()),
            vendor_plans: crate::vendor::Plans::default(),
            attached: OnceLock::new(),
            pipeline: Mutex::new(None),
            // With one compiler at a time nothing is won, and with a driver that runs nothing there is nothing to wait for.
            compiles_ahead: id.driver() != DriverKind::Noop && !config.sync && jobs(&config) > 1,
            wanted,
            driver,
            config,
        }))
    }

    pub(crate) fn from_inner(inner: Arc<DeviceInner>) -> Device {
        Device(inner)
    }

    #[cfg(unix)]
    pub(crate) fn downgrade(&self) -> std::sync::Weak<DeviceInner> {
        Arc::downgrade(&self.0)
    }

    /// Its name.
    pub fn id(&self) -> DeviceId {
        self.0.id
    }

    /// Its architecture.
    pub fn arch(&self) -> Arch {
        self.0.id.arch()
    }

    /// What its driver says of it.
    pub fn info(&self) -> &DeviceInfo {
        self.0.driver.info()
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Whether only kernels that give the same bits on every run may be chosen: as set, else when emulated.
    pub fn deterministic(&self) -> bool {
        self.0.config.deterministic.unwrap_or(self.id().driver() == DriverKind::Emulated)
    }

    /// Whether kernels for rows of any length stand in for others here: as set, else at first on a GPU. Never where launches that come
    /// again are compared.
    pub fn generic(&self) -> Generic {
        let runs = matches!(self.id().driver(), DriverKind::Hip | DriverKind::Cuda);
        let usual = if runs { Generic::First } else { Generic::Never };
        if self.0.config.replay { Generic::Never } else { self.0.config.generic.unwrap_or(usual) }
    }

    /// Its stream.
    pub fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// Waits for everything: [`Stream::synchronize`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&self) -> Result<()> {
        self.stream().synchronize()
    }

    /// Launches what waits to share a launch, and waits for nothing.
    pub fn flush(&self) {
        self.stream().flush();
    }

    /// Launches since it was opened.
    pub fn launches(&self) -> u64 {
        self.stream().launches()
    }

    /// The kernels that it launched, by the cost model, those that need most first; `None` unless it is an emulated device
    /// opened with [`Config::profile`]. Bounds, never times.
    #[cfg(feature = "emulated")]
    pub fn modelled(&self) -> Option<Vec<crate::modelled::ModelledKernel>> {
        self.stream().settle_all();
        self.0.driver.modelled()
    }

    /// Begins to time its launches and copies by events; nothing happens if it does already.
    ///
    /// # Errors
    /// The driver's own.
    pub fn start_profile(&self) -> Result<()> {
        self.stream().start_profile(None, self.config().log)
    }

    /// Waits, ends the profile that [`Device::start_profile`] began, and hands it out; `None` if there was none.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn take_profile(&self) -> Result<Option<Timeline>> {
        self.sync()?;
        Ok(self.stream().take_profile())
    }

    /// What the operator library keeps with the device, made when it is first asked for.
    ///
    /// # Panics
    /// If it was attached as another type: there is one operator library.
    pub fn attached<T: Any + Send + Sync>(&self, make: impl FnOnce(&Device) -> T) -> Arc<T> {
        let attached = self.0.attached.get_or_init(|| Arc::new(make(self)));
        Arc::clone(attached).downcast().expect("one library attaches one type")
    }

    /// Reports as the device's settings say.
    pub fn report(&self, level: Level, message: impl fmt::Display) {
        report(self.config().log, level, message);
    }

    /// How often the compiler was run for it since it was opened: kernels that were neither loaded nor on disk.
    pub fn compiled(&self) -> u64 {
        self.compile_stats().compiled
    }

    /// Where its code objects came from since it was opened: the compiler, packs or the cache on disk. Kernels that launches wait
    /// for are waited for, and counted.
    pub fn compile_stats(&self) -> CompileStats {
        self.stream().settle_all();
        lock(&self.0.pipeline).as_ref().map(|pipeline| pipeline.stats()).unwrap_or_default()
    }

    /// The same as it is, with the kernels that are being compiled and for how long already.
    #[cfg(unix)]
    pub(crate) fn compiles_so_far(&self) -> (CompileStats, Vec<(String, std::time::Duration)>) {
        let pipeline = lock(&self.0.pipeline).clone();
        pipeline.map(|pipeline| (pipeline.stats(), pipeline.compiling())).unwrap_or_default()
    }

    /// The most that its pool may hold, bytes.
    #[cfg(unix)]
    pub(crate) fn pool_limit_bytes(&self) -> u64 {
        limit_bytes(self.config(), self.info())
    }

    /// What its pool holds.
    pub fn memory(&self) -> MemoryStats {
        // Launches that wait hold what nobody else may hold any more.
        self.stream().settle_all();
        lock(&self.0.pool).stats()
    }

    /// Its pool's segments that serve many blocks, those for small ones first.
    pub fn memory_segments(&self) -> [SegmentStats; 2] {
        self.stream().settle_all();
        lock(&self.0.pool).segments()
    }

    /// Whether the memory that the calling thread asks for from now on is of what stays, such as a model's weights: it gets
    /// segments of its own, so that those of what comes and goes can be given back.
    pub fn set_persistent(&self, stays: bool) {
        lock(&self.0.pool).set_persistent(stays);
    }

    /// Bytes of device memory that nobody has taken, other processes included, where the driver knows.
    pub fn free_memory_bytes(&self) -> Option<u64> {
        self.0.driver.free_memory_bytes()
    }

    /// Returns the pool's unused memory to the driver.
    ///
    /// # Errors
    /// The driver's own.
    pub fn trim_memory(&self) -> Result<()> {
        self.stream().with_all_put(|| lock(&self.0.pool).trim())
    }

    /// The module of a source: loaded, else from a pack, else from the cache on disk, else compiled. For one that is loaded nothing is
    /// allocated.
    ///
    /// # Errors
    /// [`Error::NoCompiler`], [`Error::ArchRefused`], [`Error::Compile`], [`Error::CodeObject`], [`Error::Io`];
    /// [`Error::Pack`] for a damaged pack where there is no compiler; the driver's own, for loading.
    pub fn module(&self, source: &Source) -> Result<Arc<Module>> {
        let slot = self.slot(source);
        let mut loading = lock(&slot);
        if let Loading::Loaded(module) = &*loading {
            return Ok(Arc::clone(module));
        }
        let pipeline = self.pipeline();
        // Should it fail, it is as if nobody had asked.
        let (code, waiting) = match std::mem::take(&mut *loading) {
            Loading::Coming(coming, waiting) if self.0.wanted.is_none() => (coming.take()?, waiting),
            Loading::Coming(..) | Loading::Unknown | Loading::Loaded(_) => (pipeline.one(source)?, HashMap::new()),
        };
        let loaded = Arc::new(self.load(&pipeline, source, &code)?);
        loaded.adopt(waiting);
        *loading = Loading::Loaded(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// A kernel of a source, which may still be compiled: the stream keeps launches of it, and what comes behind them, until it
    /// is there, and whoever waits or reads waits for it too. So kernels that are asked for one after the other are compiled side
    /// by side. For one that is loaded nothing is allocated.
    ///
    /// # Errors
    /// As [`Device::module`] and [`Module::function`]; but what does not compile, or does not have the kernel, may be a fault
    /// of the launch instead, which the next read or wait tells of.
    pub fn function(&self, source: &Source, kernel: &str) -> Result<Function> {
        self.function_by(source, kernel, Urgency::Now)
    }

    /// The same for a kernel that another may stand in for: if it is not at hand, it is compiled when nothing else is, and until then
    /// [`Function::has_come`] does not hold. Whoever launches it all the same, or asks for it by [`Device::function`], waits for it
    /// as for any.
    ///
    /// # Errors
    /// As [`Device::function`].
    pub fn function_behind(&self, source: &Source, kernel: &str) -> Result<Function> {
        self.function_by(source, kernel, Urgency::Behind)
    }

    fn function_by(&self, source: &Source, kernel: &str, urgency: Urgency) -> Result<Function> {
        let slot = self.slot(source);
        let mut loading = lock(&slot);
        if let Loading::Unknown = &*loading {
            *loading = self.begin(source, urgency)?;
        }
        match &mut *loading {
            Loading::Loaded(module) => return module.function(kernel),
            Loading::Coming(coming, waiting) if !coming.has_come() => {
                if urgency == Urgency::Now {
                    coming.hurry();
                }
                if let Some(function) = waiting.get(kernel) {
                    return Ok(function.clone());
                }
                let function = Function::coming(Arc::downgrade(&self.0), source, kernel, Arc::clone(coming));
                waiting.insert(kernel.to_owned(), function.clone());
                return Ok(function);
            }
            Loading::Coming(..) | Loading::Unknown => {}
        }
        drop(loading);
        self.module(source)?.function(kernel)
    }

    /// Loads a module that is at hand, else begins to compile it where that may go on by itself.
    fn begin(&self, source: &Source, urgency: Urgency) -> Result<Loading> {
        if let Some(wanted) = &self.0.wanted {
            lock(wanted).push(source.clone());
            return Ok(Loading::Coming(Arc::new(Coming::never()), HashMap::new()));
        }
        if !self.0.compiles_ahead {
            return Ok(Loading::Unknown);
        }
        let pipeline = self.pipeline();
        Ok(match pipeline.at_hand(source)? {
            Some(code) => Loading::Loaded(Arc::new(self.load(&pipeline, source, &code)?)),
            None => Loading::Coming(Coming::start(pipeline, source.clone(), urgency), HashMap::new()),
        })
    }

    /// Waits for every kernel that was asked of it, those too that others stand in for: what is timed from here on runs what it will
    /// run for ever.
    pub fn wait_for_compiles(&self) {
        let slots: Vec<Arc<Slot>> = lock(&self.0.modules).values().cloned().collect();
        for slot in slots {
            let coming = match &*lock(&slot) {
                Loading::Coming(coming, _) if self.0.wanted.is_none() => Arc::clone(coming),
                Loading::Coming(..) | Loading::Unknown | Loading::Loaded(_) => continue,
            };
            coming.wait();
        }
    }

    /// The modules of sources, compiled in parallel where they are not in the cache, in their order.
    ///
    /// # Errors
    /// The first error, as [`Device::module`]. The others are compiled all the same.
    pub fn compile_many(&self, sources: &[Source]) -> Result<Vec<Arc<Module>>> {
        let missing: Vec<Source> =
            sources.iter().filter(|source| matches!(*lock(&self.slot(source)), Loading::Unknown)).cloned().collect();
        if !missing.is_empty() {
            let pipeline = self.pipeline();
            let codes = pipeline.many(&missing, &|_| {});
            for (source, code) in missing.iter().zip(codes) {
                let slot = self.slot(source);
                let mut loading = lock(&slot);
                if let Loading::Unknown = *loading {
                    *loading = Loading::Loaded(Arc::new(self.load(&pipeline, source, &*code?)?));
                }
            }
        }
        sources.iter().map(|source| self.module(source)).collect()
    }

    /// A code object that is ready, whoever made it, loaded: its kernels are launched as others are. It goes into no cache, and is
    /// loaded anew by every call. `name` is for messages.
    ///
    /// A launch gives the kernel's explicit arguments, all of them: its code object says how many bytes they are
    /// ([`crate::KernelInfo::explicit_kernarg_bytes`]). What they mean, only its maker can say.
    ///
    /// # Errors
    /// [`Error::CodeObject`] for what is no code object, has no kernel, or is for another architecture than the device's; the
    /// driver's own, for loading.
    pub fn load_code_object(&self, name: &str, code: &[u8]) -> Result<Module> {
        let code = CodeObject::parse(name, code.to_vec())?;
        code.check_arch(name, self.arch())?;
        if code.kernels().is_empty() {
            return Err(Error::CodeObject { name: name.to_owned(), reason: "there is no kernel in it".to_owned() });
        }
        Module::load(&*self.0.driver, name, &code, Box::new(|| None))
    }

    fn load(&self, pipeline: &Arc<Pipeline>, source: &Source, code: &CodeObject) -> Result<Module> {
        let text = source.text();
        let (pipeline, lined) = (Arc::clone(pipeline), source.clone());
        // What cannot be compiled now was compiled before: its report goes without the line.
        let lined = Box::new(move || pipeline.with_lines(&lined).ok());
        let module = Module::load(&*self.0.driver, source.name(), code, lined)?;
        if source.is_hip()
            && let Err(error) = self.stream().printing.attach(module.driver())
        {
            // Results are the same without.
            self.report(Level::Warn, format_args!("{}: what it prints is not shown: {error}", source.name()));
        }
        if let Err(error) = self.stream().index.attach(&*self.0.driver, &**module.driver(), text) {
            // Results are the same without: nobody is told of indices outside their axis.
            self.report(Level::Warn, format_args!("{}: indices are not checked: {error}", source.name()));
        }
        Ok(module)
    }

    pub(crate) fn pool(&self) -> SharedPool {
        Arc::clone(&self.0.pool)
    }

    pub(crate) fn pool_allocate(&self, bytes: u64) -> Result<Block> {
        let mut block = lock(&self.0.pool).allocate(bytes, false);
        if matches!(block, Err(Error::OutOfMemory { .. })) {
            // Launches that wait hold memory that nobody else holds any more, or are to use memory that is free by now.
            block = self.stream().with_all_put(|| lock(&self.0.pool).allocate(bytes, true));
        }
        match block? {
            Some(block) => Ok(block),
            None => {
                self.stream().refuse_in_capture("memory that the pool does not have")?;
                unreachable!("the pool and the stream record at the same time")
            }
        }
    }

    /// Keeps memory that is given back from others, until [`Device::pool_release`].
    pub(crate) fn pool_hold(&self) {
        lock(&self.0.pool).hold();
    }

    /// Whether that, and so many bytes that only waiting work still has, are much beside what is in use.
    pub(crate) fn pool_holds_much(&self, waiting_bytes: u64) -> bool {
        lock(&self.0.pool).holds_much(waiting_bytes)
    }

    pub(crate) fn pool_release(&self) {
        lock(&self.0.pool).release();
    }

    pub(crate) fn pool_begin_capture(&self) {
        lock(&self.0.pool).begin_capture();
    }

    pub(crate) fn pool_end_capture(&self) -> Vec<Block> {
        lock(&self.0.pool).end_capture()
    }

    pub(crate) fn pool_free(&self, block: Block) {
        lock(&self.0.pool).free(block);
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.0.driver
    }

    pub(crate) fn vendor_plans(&self) -> &crate::vendor::Plans {
        &self.0.vendor_plans
    }

    fn slot(&self, source: &Source) -> Arc<Slot> {
        let mut modules = lock(&self.0.modules);
        if let Some(slot) = modules.get(source.hash()) {
            return Arc::clone(slot);
        }
        Arc::clone(modules.entry(*source.hash()).or_default())
    }

    fn pipeline(&self) -> Arc<Pipeline> {
        let mut pipeline = lock(&self.0.pipeline);
        Arc::clone(pipeline.get_or_insert_with(|| Arc::new(self.new_pipeline())))
    }

    fn new_pipeline(&self) -> Pipeline {
        let id = self.id();
        let pipeline = Pipeline::finding(self.arch(), Box::new(move || compiler(id)), &self.0.config);
        match takes_packs(id) {
            true => pipeline,
            false => {
                self.report(
                    Level::Info,
                    "packs are not used: this ROCm does not load the version of their code objects",
                );
                pipeline.without_packs()
            }
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.0.id)
    }
}

impl DeviceId {
    /// What `ROCFIRE_DEVICE` says, else the first AMD GPU, else the first NVIDIA one, else the emulated one with one
    /// warning that says so.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong variable; as [`DeviceId::hip`] or [`DeviceId::cuda`] where a GPU was asked for.
    pub fn from_env() -> Result<DeviceId> {
        DeviceId::choose(&Config::from_env()?)
    }

    /// As [`DeviceId::from_env`], of these settings.
    ///
    /// # Errors
    /// As there.
    pub fn choose(config: &Config) -> Result<DeviceId> {
        if let Some(choice) = config.device {
            return choice.id();
        }
        match first_gpu() {
            Ok(id) => Ok(id),
            Err(error) => {
                static WARNED: Once = Once::new();
                let id = DeviceId::default_emulated();
                WARNED.call_once(|| {
                    let message = format!(
                        "{error}; using {id}, an emulated GPU: right, and slow. For speed on a CPU use your \
                         framework's own CPU device. ROCFIRE_DEVICE={id} says this is meant"
                    );
                    report(config.log, Level::Warn, message);
                });
                Ok(id)
            }
        }
    }
}

/// The first AMD GPU, else the first NVIDIA one; the error is AMD's. Where the kernel has no driver for one, no library is
/// opened.
fn first_gpu() -> Result<DeviceId> {
    if !cfg!(target_os = "linux") || crate::doctor::gpu_nodes_exist() {
        let amd = DeviceId::hip(0);
        return if amd.is_ok() { amd } else { first_nvidia_gpu().or(amd) };
    }
    first_nvidia_gpu().map_err(|_| {
        let reason = "neither /dev/kfd nor /dev/dxg exists (the amdgpu kernel driver is not loaded)".to_owned();
        Error::NoDevice { driver: DriverKind::Hip, ordinal: None, reason }
    })
}

fn first_nvidia_gpu() -> Result<DeviceId> {
    if cfg!(target_os = "linux") && !crate::doctor::nvidia_nodes_exist() {
        let reason = "neither /dev/nvidiactl nor /dev/dxg exists".to_owned();
        return Err(Error::NoDevice { driver: DriverKind::Cuda, ordinal: None, reason });
    }
    DeviceId::cuda(0)
}

/// Calls a function of `gpu/` for the platform of a driver, `hip` or `cuda`; an error where that is not in this build.
macro_rules! for_platform {
    ($driver:expr, $call:ident($($arg:expr),*)) => {
        match $driver {
            #[cfg(feature = "hip")]
            DriverKind::Hip => crate::gpu::$call::<crate::hip::Hip>($($arg),*),
            #[cfg(feature = "cuda")]
            DriverKind::Cuda => crate::gpu::$call::<crate::cuda::Cuda>($($arg),*),
            driver => Err(not_built(driver)),
        }
    };
}

/// What a GPU's driver says of it.
#[allow(unused_variables, reason = "a build without real drivers asks nobody")]
pub(crate) fn describe_gpu(driver: DriverKind, ordinal: u16) -> Result<DeviceInfo> {
    for_platform!(driver, describe(ordinal))
}

/// Version and path of a GPU driver's library, and every device it has, or why it cannot be described.
pub(crate) fn survey_gpus(driver: DriverKind) -> Result<(String, String, Vec<Result<DeviceInfo>>)> {
    for_platform!(driver, survey())
}

fn open_driver(id: DeviceId, config: &Config) -> Result<Arc<dyn Driver>> {
    let _ = config;
    match id.driver() {
        #[cfg(feature = "hip")]
        DriverKind::Hip => Ok(Arc::new(crate::gpu::Gpu::<crate::hip::Hip>::open(id.ordinal())?)),
        #[cfg(feature = "emulated")]
        DriverKind::Emulated => Ok(Arc::new(crate::emulated::Emulated::open(id.arch(), config)?)),
        #[cfg(feature = "noop")]
        DriverKind::Noop => Ok(Arc::new(crate::noop::Noop::new(id.arch()))),
        #[cfg(feature = "cuda")]
        DriverKind::Cuda => Ok(Arc::new(crate::gpu::Gpu::<crate::cuda::Cuda>::open(id.ordinal())?)),
        #[cfg(not(all(feature = "hip", feature = "cuda", feature = "emulated", feature = "noop")))]
        driver => Err(not_built(driver)),
    }
}

fn not_built(driver: DriverKind) -> Error {
    let reason = "not in this build: the Cargo feature of this name of rocfire-hal is off";
    Error::NoDriver { driver, reason }
}

/// What the device has, or what the settings leave of it, bytes.
fn limit_bytes(config: &Config, info: &DeviceInfo) -> u64 {
    config.pool_mb.map_or(info.memory_bytes, |mb| info.memory_bytes.min(mb << 20))
}

/// Whether a device loads code objects as packs have them.
fn takes_packs(id: DeviceId) -> bool {
    match id.driver() {
        #[cfg(feature = "hip")]
        DriverKind::Hip => !crate::hip::is_old(),
        _ => true,
    }
}

/// The compiler for a device, as DESIGN says: per driver and target.
fn compiler(id: DeviceId) -> Result<Arc<dyn Compiler>> {
    match id.driver() {
        #[cfg(feature = "hip")]
        DriverKind::Hip => crate::hip::compiler(id.arch()),
        #[cfg(feature = "cuda")]
        DriverKind::Cuda => crate::cuda::compiler(id.arch()),
        _ => clang_compiler(id.arch()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
