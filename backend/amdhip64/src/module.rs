//! Modules: loaded code objects, their kernels and variables.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use rocfire_arch::Target;
use rocfire_emulator::{Kernel, Module as Loaded};

use crate::bundle::{code_object, read_image};
use crate::call::{Failure, Result, export};
use crate::foreign::{In, Out, Text};
use crate::handle::Handle;
use crate::peers;
use crate::runtime::{Runtime, healthy, runtime, translate};
use crate::status::Status;

/// A loaded code object.
pub struct Module {
    loaded: Arc<Loaded>,
    device: i32,
}

impl Module {
    /// The device that it was loaded on.
    pub fn device(&self) -> i32 {
        self.device
    }
}

/// A kernel that a program has a handle of.
pub struct Function {
    /// The kernel; it keeps its code object loaded.
    pub kernel: Kernel,
    module: Handle,
    device: i32,
}

impl Function {
    /// The device that it is launched on.
    pub fn device(&self) -> i32 {
        self.device
    }
}

impl Runtime {
    /// The kernel of a handle.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` for one that is not alive.
    pub fn function(&self, handle: Handle) -> Result<Arc<Function>> {
        self.functions.get(handle).ok_or_else(|| Status::INVALID_HANDLE.into())
    }

    /// Loads an image, whatever its form.
    ///
    /// # Errors
    /// `hipErrorInvalidImage`, `hipErrorNoBinaryForGpu`, `hipErrorOutOfMemory`.
    pub fn load(&self, image: &[u8]) -> Result<Arc<Loaded>> {
        let target =
            Target::parse(&self.target()).map_err(|error| Failure::new(Status::NO_DEVICE, error.to_string()))?;
        self.gpu.load(&code_object(image, &target)?).map_err(translate)
    }
}

fn load(out: &Out<Handle>, image: &[u8]) -> Result {
    let runtime = healthy()?;
    let loaded = runtime.load(image)?;
    out.put(runtime.modules.insert(Module { loaded, device: peers::current() }))
}

fn load_data(out: &Out<Handle>, image: *const c_void) -> Result {
    out.check()?;
    if image.is_null() {
        return Err(Status::INVALID_VALUE.into());
    }
    // SAFETY: the program promises an image; null was excluded.
    load(out, &unsafe { read_image(image.cast()) }?)
}

fn module(handle: Handle) -> Result<Arc<Module>> {
    runtime()?.modules.get(handle).ok_or_else(|| Status::INVALID_HANDLE.into())
}

export! {
    /// `hipModuleLoad`
    fn hipModuleLoad(module: Out<Handle>, path: Text) {
        module.check()?;
        let path = path.get()?;
        let image = std::fs::read(&path);
        load(&module, &image.map_err(|error| Failure::new(Status::FILE_NOT_FOUND, format!("{path}: {error}")))?)
    }

    /// `hipModuleLoadData`
    fn hipModuleLoadData(module: Out<Handle>, image: *const c_void) {
        load_data(&module, image)
    }

    /// `hipModuleLoadDataEx`: the options are for compilers, and there is nothing to compile.
    fn hipModuleLoadDataEx(
        module: Out<Handle>, image: *const c_void, _count: c_uint, _options: In<c_int>, _values: In<u64>,
    ) {
        load_data(&module, image)
    }

    /// `hipModuleLoadFatBinary`
    fn hipModuleLoadFatBinary(module: Out<Handle>, image: *const c_void) {
        load_data(&module, image)
    }

    /// `hipModuleUnload`
    fn hipModuleUnload(handle: Handle) {
        let runtime = runtime()?;
        runtime.modules.remove(handle).ok_or(Status::INVALID_HANDLE)?;
        runtime.functions.retain(|function| function.module != handle);
        Ok(())
    }

    /// `hipModuleGetFunction`
    fn hipModuleGetFunction(function: Out<Handle>, handle: Handle, name: Text) {
        function.check()?;
        let (module, name) = (module(handle)?, name.get()?);
        let kernel = module.loaded.kernel(&name).ok_or_else(|| {
            let names = module.loaded.kernel_names().collect::<Vec<_>>().join(", ");
            Failure::new(Status::NOT_FOUND, format!("no kernel {name}; there are: {names}"))
        })?;
        function.put(runtime()?.functions.insert(Function { kernel, module: handle, device: peers::current() }))
    }

    /// `hipGetFuncBySymbol`
    fn hipGetFuncBySymbol(function: Out<Handle>, symbol: *const c_void) {
        function.check()?;
        let runtime = healthy()?;
        let kernel = crate::register::kernel(runtime, symbol.addr())?;
        function.put(runtime.functions.insert(Function { kernel, module: 0, device: peers::current() }))
    }

    /// `hipModuleGetFunctionCount`
    fn hipModuleGetFunctionCount(count: Out<c_uint>, handle: Handle) {
        count.put(module(handle)?.loaded.kernel_names().count() as c_uint)
    }

    /// `hipModuleGetGlobal`
    fn hipModuleGetGlobal(address: Out<u64>, bytes: Out<u64>, handle: Handle, name: Text) {
        let name = name.get()?;
        let (start, length) = module(handle)?.loaded.global(&name).ok_or(Status::NOT_FOUND)?;
        address.put_if_wanted(start);
        bytes.put_if_wanted(length);
        Ok(())
    }
}
