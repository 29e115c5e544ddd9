//! Modules and their kernels.
//!
//! Candle looks a kernel up by name before every launch, so kernels that were found are kept here.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use rocfire_hal::{Function, Source};
use rustc_hash::FxHashMap;

use super::shared::lock;
use super::{CudaContext, DriverError};
use crate::nvrtc::{Code, Ptx, ptx_target, refusal};
use crate::rocfire::{KernelLibrary, KernelSpec, Operate};

/// A loaded module.
pub struct CudaModule {
    context: Arc<CudaContext>,
    code: Loaded,
    functions: Mutex<FxHashMap<String, CudaFunction>>,
}

enum Loaded {
    Text(Arc<rocfire_hal::Module>),
    Library(&'static dyn KernelLibrary),
}

impl CudaContext {
    /// Loads a module. A text is compiled now, each kernel by name when it is first asked for.
    ///
    /// # Errors
    /// The compiler's messages for a text; that a text is PTX, which is refused.
    pub fn load_module(self: &Arc<Self>, module: Ptx) -> Result<Arc<CudaModule>, DriverError> {
        let code = match module.0 {
            Code::Library(library) => {
                library.merger().into_iter().for_each(|merger| self.shared().set_merger(merger));
                Loaded::Library(library)
            }
            Code::Text(text) => {
                if let Some(target) = ptx_target(&text) {
                    return Err(DriverError::new(refusal(&target)));
                }
                let source = Source::hip("module", &text, &[]);
                Loaded::Text(self.opened().module(&source)?)
            }
        };
        Ok(Arc::new(CudaModule { context: Arc::clone(self), code, functions: Mutex::default() }))
    }
}

impl CudaModule {
    /// A kernel of the module. It is looked for once, and then kept.
    ///
    /// # Errors
    /// There is no kernel of this name; the compiler's messages.
    pub fn load_function(self: &Arc<Self>, name: &str) -> Result<CudaFunction, DriverError> {
        if let Some(function) = lock(&self.functions).get(name) {
            return Ok(function.clone());
        }
        // Compiled without the lock, so that other kernels can be found meanwhile; the device compiles each once.
        let kernel = match &self.code {
            Loaded::Text(module) => Kernel::Text(module.function(name)?),
            Loaded::Library(library) => self.of_library(*library, name)?,
        };
        let function = CudaFunction(Arc::new(Inner { name: kept(name), kernel }));
        Ok(lock(&self.functions).entry(name.to_owned()).or_insert(function).clone())
    }

    fn of_library(&self, library: &dyn KernelLibrary, name: &str) -> Result<Kernel, DriverError> {
        let spec = library.kernel(name).ok_or_else(|| {
            DriverError::new(format!("named symbol not found: candle-kernels has no `{name}` in `{}`", library.name()))
        })?;
        if let Some(operate) = spec.operate {
            return Ok(Kernel::Named(spec, Runs::Operators(operate)));
        }
        let defines: Vec<_> = spec.defines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let source = Source::new(spec.file, spec.source, &defines);
        let function = self.context.opened().function(&source, spec.entry)?;
        Ok(Kernel::Named(spec, Runs::Kernel(function)))
    }
}

impl fmt::Debug for CudaModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Loaded::Text(module) => write!(f, "CudaModule({module:?})"),
            Loaded::Library(library) => write!(f, "CudaModule({})", library.name()),
        }
    }
}

/// A kernel that can be launched. Clones are handles to the same.
#[derive(Clone)]
pub struct CudaFunction(Arc<Inner>);

struct Inner {
    name: &'static str,
    kernel: Kernel,
}

/// What runs when a kernel is launched.
pub(crate) enum Kernel {
    /// A kernel of a user's text, whose arguments are as they were pushed.
    Text(Function),
    /// A kernel by name, whose arguments are known.
    Named(KernelSpec, Runs),
}

/// What runs when a kernel by name is launched.
pub(crate) enum Runs {
    Kernel(Function),
    Operators(Operate),
}

impl CudaFunction {
    /// Candle's name for it.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }
}

impl fmt::Debug for CudaFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaFunction({})", self.name())
    }
}

/// The name for as long as the process lives: launches carry it for messages. One name per kernel is leaked.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = lock(&NAMES);
    let names = names.get_or_insert_default();
    if let Some(name) = names.get(name) {
        return name;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}
