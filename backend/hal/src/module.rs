//! Loaded code objects and their kernels.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::compile::{CodeObject, Coming, KernelInfo, Source};
use crate::device::DeviceInner;
use crate::driver::{Driver, DriverKernel, DriverModule, Lined};
use crate::{Device, Error, Result};

/// A code object on a device.
pub struct Module {
    name: Arc<str>,
    driver: Arc<dyn DriverModule>,
    kernels: Vec<KernelInfo>,
    functions: Mutex<HashMap<String, Function>>,
}

impl Module {
    pub(crate) fn load(driver: &dyn Driver, name: &str, code: &CodeObject, lined: Lined) -> Result<Module> {
        Ok(Module {
            name: name.into(),
            driver: driver.load_lined(code.bytes(), lined)?,
            kernels: code.kernels().to_vec(),
            functions: Mutex::new(HashMap::new()),
        })
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A kernel. The second call for one allocates nothing.
    ///
    /// # Errors
    /// [`Error::NoKernel`] names those there are; the driver's own.
    pub fn function(&self, kernel: &str) -> Result<Function> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(kernel) {
            return Ok(function.clone());
        }
        let info = self.kernels.iter().find(|info| info.name == kernel).ok_or_else(|| Error::NoKernel {
            module: self.name.to_string(),
            kernel: kernel.to_owned(),
            has: self.kernels.iter().map(|info| info.name.as_str()).collect::<Vec<_>>().join(", "),
        })?;
        let ready = Ready { info: info.clone(), kernel: Arc::clone(&self.driver).kernel(info)? };
        let function = Function(Arc::new(FunctionInner { ready: Arc::new(ready).into(), coming: None }));
        functions.insert(kernel.to_owned(), function.clone());
        Ok(function)
    }

    /// Makes handles that were given out before the module was there handles to its kernels. A name that it lacks is an error of the
    /// launch.
    pub(crate) fn adopt(&self, waiting: HashMap<String, Function>) {
        for (name, function) in waiting {
            if let Ok(loaded) = self.function(&name) {
                function.fulfil(&loaded);
                self.functions.lock().unwrap_or_else(PoisonError::into_inner).insert(name, function);
            }
        }
    }

    pub(crate) fn driver(&self) -> &Arc<dyn DriverModule> {
        &self.driver
    }

    /// What the code object says of its kernels.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("name", &self.name).field("kernels", &self.kernels).finish()
    }
}

/// A kernel that can be launched. Clones are handles to the same; it keeps its code object loaded.
#[derive(Clone)]
pub struct Function(Arc<FunctionInner>);

struct FunctionInner {
    ready: OnceLock<Arc<Ready>>,
    /// Where it comes from, if it was given out before it was there.
    coming: Option<ComingKernel>,
}

struct Ready {
    info: KernelInfo,
    kernel: Box<dyn DriverKernel>,
}

/// A kernel that is being compiled.
struct ComingKernel {
    device: Weak<DeviceInner>,
    source: Source,
    name: String,
    coming: Arc<Coming>,
    /// What is known of it before.
    info: KernelInfo,
}

impl Function {
    /// One that is being compiled.
    pub(crate) fn coming(device: Weak<DeviceInner>, source: &Source, kernel: &str, coming: Arc<Coming>) -> Function {
        let (source, name) = (source.clone(), kernel.to_owned());
        let info = KernelInfo { name: name.clone(), ..KernelInfo::default() };
        let coming = Some(ComingKernel { device, source, name, coming, info });
        Function(Arc::new(FunctionInner { ready: OnceLock::new(), coming }))
    }

    /// Makes it a handle to a kernel that is there.
    fn fulfil(&self, loaded: &Function) {
        if let Some(ready) = loaded.0.ready.get() {
            self.0.ready.get_or_init(|| Arc::clone(ready));
        }
    }

    /// Whether it can be launched at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.ready.get().is_some()
    }

    /// Whether it is compiled, so that a launch of it does not wait for a compiler.
    pub fn has_come(&self) -> bool {
        self.is_ready() || self.0.coming.as_ref().is_none_or(|kernel| kernel.coming.has_come())
    }

    /// Puts it before the kernels that are compiled behind all others, as a launch waits for it.
    pub(crate) fn hurry(&self) {
        if let (false, Some(kernel)) = (self.has_come(), &self.0.coming) {
            kernel.coming.hurry();
        }
    }

    /// Waits until it can be launched.
    ///
    /// # Errors
    /// As [`Device::module`] and [`Module::function`].
    pub(crate) fn arrive(&self) -> Result<()> {
        let (false, Some(coming)) = (self.is_ready(), &self.0.coming) else { return Ok(()) };
        let device = coming.device.upgrade().expect("who waits for a kernel has its device");
        let loaded = Device::from_inner(device).module(&coming.source)?.function(&coming.name)?;
        self.fulfil(&loaded);
        Ok(())
    }

    /// Its name, sizes and registers; `None` while it is being compiled.
    pub(crate) fn ready_info(&self) -> Option<&KernelInfo> {
        self.0.ready.get().map(|ready| &ready.info)
    }

    /// Its name, sizes and registers. Of one of [`Device::function`] that is still being compiled, the name alone.
    pub fn info(&self) -> &KernelInfo {
        let coming = || &self.0.coming.as_ref().expect("a kernel is there or comes").info;
        self.ready_info().unwrap_or_else(coming)
    }

    /// A number that it has alone, as long as a handle is kept.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether two handles are to the same kernel.
    pub(crate) fn same(&self, other: &Function) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.info().name
    }

    pub(crate) fn kernel(&self) -> &dyn DriverKernel {
        &*self.0.ready.get().expect("the stream waits for a kernel before it launches it").kernel
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.info(), f)
    }
}
