//! Loaded code objects and their kernels.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::compile::{CodeObject, KernelInfo};
use crate::driver::{Driver, DriverKernel, DriverModule, Lined};
use crate::{Error, Result};

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
        let function =
            Function(Arc::new(FunctionInner { info: info.clone(), kernel: Arc::clone(&self.driver).kernel(info)? }));
        functions.insert(kernel.to_owned(), function.clone());
        Ok(function)
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
    info: KernelInfo,
    kernel: Box<dyn DriverKernel>,
}

impl Function {
    /// Its name, sizes and registers.
    pub fn info(&self) -> &KernelInfo {
        &self.0.info
    }

    /// Whether two handles are to the same kernel.
    pub(crate) fn same(&self, other: &Function) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.info.name
    }

    pub(crate) fn kernel(&self) -> &dyn DriverKernel {
        &*self.0.kernel
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.info(), f)
    }
}
