//! Kernels by the address of their descriptor, as dispatches name them.
//!
//! AMD's loader puts code objects into memory that it allocates, and other code into the same memory later. Nobody says
//! when, so code that is known is compared with what stands there before it is run.

use std::sync::{Arc, Mutex};

use rocfire_emulator::{Error, Gpu, Kernel, Module};

use crate::lock;

/// The code that was found.
#[derive(Default)]
pub struct Code {
    modules: Mutex<Vec<Arc<Module>>>,
}

impl Code {
    /// The kernel whose descriptor stands at a device address.
    ///
    /// # Errors
    /// As [`Gpu::resident`].
    pub fn kernel(&self, gpu: &Gpu, descriptor: u64) -> Result<Kernel, Error> {
        let mut modules = lock(&self.modules);
        let known = modules.iter().position(|module| module.kernel_at(descriptor).is_some());
        if let Some(known) = known {
            if modules[known].is_current()
                && let Some(kernel) = modules[known].kernel_at(descriptor)
            {
                return Ok(kernel);
            }
            modules.swap_remove(known);
        }
        let module = gpu.resident(descriptor)?;
        let kernel = module.kernel_at(descriptor).expect("a resident module has the kernel that it was asked for");
        modules.push(module);
        Ok(kernel)
    }
}
