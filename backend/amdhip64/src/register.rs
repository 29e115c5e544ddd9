//! Programs compiled from HIP: what their start-up code says of the code they carry.
//!
//! A compiled program has a fat binary, registered before `main` runs, and names by which the host's functions and
//! variables are known in it. The fat binary is unpacked and loaded when it is first used. Source: clang's HIP support
//! documentation, and the registration calls that clang makes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use rocfire_emulator::{Kernel, Module};

use crate::bundle::read_image;
use crate::call::{Failure, Result, guard};
use crate::foreign::{In, Out, Text, host_bytes};
use crate::handle::{Handle, Table};
use crate::peers;
use crate::runtime::{Block, BlockKind, Runtime, lock, runtime, translate};
use crate::status::Status;

/// `HIPF`, which the wrapper begins with, and HIP's other one for device-linked code.
const WRAPPER_MAGIC: [u32; 2] = [0x4849_5046, 0x4849_504b];

/// What `__hipRegisterFatBinary` gets.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Wrapper {
    magic: u32,
    version: u32,
    image: *const c_void,
    reserved: *const c_void,
}

/// A fat binary of the program's.
struct Binary {
    /// Where it is, to be read when it is used.
    image: usize,
    /// By device: each has variables of its own.
    loaded: Mutex<BTreeMap<c_int, Arc<Module>>>,
}

/// A host function or variable as it is called on the device.
struct Symbol {
    binary: Handle,
    name: String,
    bytes: u64,
}

#[derive(Default)]
struct Registry {
    functions: HashMap<usize, Symbol>,
    variables: HashMap<usize, Symbol>,
}

static BINARIES: std::sync::LazyLock<Table<Binary>> = std::sync::LazyLock::new(Table::default);
static REGISTRY: std::sync::LazyLock<Mutex<Registry>> = std::sync::LazyLock::new(Mutex::default);

impl Binary {
    /// The code object on the thread's device, loaded by the first who asks.
    fn module(&self, runtime: &Runtime) -> Result<Arc<Module>> {
        self.module_on(runtime, peers::current())
    }

    fn module_on(&self, runtime: &Runtime, device: c_int) -> Result<Arc<Module>> {
        let mut loaded = lock(&self.loaded);
        if let Some(module) = loaded.get(&device) {
            return Ok(Arc::clone(module));
        }
        let image = std::ptr::with_exposed_provenance::<u8>(self.image);
        // SAFETY: the wrapper came from the program's start-up code; its image is a section of the program's.
        let module = runtime.load(&unsafe { read_image(image) }?)?;
        loaded.insert(device, Arc::clone(&module));
        Ok(module)
    }
}

/// Gives a `__managed__` variable memory that all sides have, and tells them where it is.
fn place_managed(binary: Handle, pointer: &Out<u64>, initial: u64, name: &str, bytes: u64) -> Result {
    let runtime = runtime()?;
    let binary = BINARIES.get(binary).ok_or(Status::INVALID_HANDLE)?;
    let variable = |device| {
        let found = binary.module_on(runtime, device)?.global(name);
        found.map(|(address, _)| address).ok_or_else(|| Failure::new(Status::INVALID_SYMBOL, name))
    };
    let variables = (0..runtime.devices).map(variable).collect::<Result<Vec<u64>>>()?;
    let address = runtime.gpu.allocate_shared(bytes.max(1)).map_err(translate)?;
    if initial != 0 && bytes > 0 {
        // SAFETY: the program's start-up code has registered as many bytes of initial value.
        let initial = unsafe { host_bytes(initial, bytes) };
        runtime.gpu.write(address, initial).map_err(translate)?;
    }
    lock(&runtime.blocks).insert(address, Block { bytes, kind: BlockKind::Managed, flags: 1, device: 0 });
    for variable in variables {
        runtime.gpu.write(variable, &address.to_le_bytes()).map_err(translate)?;
    }
    pointer.put(address)
}

fn symbol_of(symbols: &HashMap<usize, Symbol>, address: usize) -> Option<(Arc<Binary>, String, u64)> {
    let symbol = symbols.get(&address)?;
    Some((BINARIES.get(symbol.binary)?, symbol.name.clone(), symbol.bytes))
}

/// The kernel that a host function stands for.
///
/// # Errors
/// `hipErrorInvalidDeviceFunction` for an address that was not registered; those of loading.
pub fn kernel(runtime: &Runtime, function: usize) -> Result<Kernel> {
    let found = symbol_of(&lock(&REGISTRY).functions, function);
    let unknown =
        || Failure::new(Status::INVALID_DEVICE_FUNCTION, format!("{function:#x} is no kernel of the program's"));
    let (binary, name, _) = found.ok_or_else(unknown)?;
    let module = binary.module(runtime)?;
    module.kernel(&name).ok_or_else(|| Failure::new(Status::INVALID_DEVICE_FUNCTION, format!("no kernel {name}")))
}

/// Address and bytes of the variable that a host variable stands for.
///
/// # Errors
/// `hipErrorInvalidSymbol` for an address that was not registered; those of loading.
pub fn variable(runtime: &Runtime, variable: usize) -> Result<(u64, u64)> {
    let found = symbol_of(&lock(&REGISTRY).variables, variable);
    let unknown =
        || Failure::new(Status::INVALID_SYMBOL, format!("{variable:#x} is no device variable of the program's"));
    let (binary, name, bytes) = found.ok_or_else(unknown)?;
    let module = binary.module(runtime)?;
    let (address, size) = module.global(&name).ok_or_else(|| Failure::new(Status::INVALID_SYMBOL, name))?;
    Ok((address, if bytes == 0 { size } else { bytes }))
}

/// `__hipRegisterFatBinary`: the handle, which only the other calls here take.
///
/// # Safety
/// - As clang's start-up code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFatBinary(wrapper: In<Wrapper>) -> Handle {
    let mut handle = 0;
    guard("__hipRegisterFatBinary", Status::UNKNOWN, || {
        let wrapper = wrapper.get()?;
        if !WRAPPER_MAGIC.contains(&wrapper.magic) || wrapper.image.is_null() {
            let reason = format!("a wrapper with magic {:#x}, version {}", wrapper.magic, wrapper.version);
            return Err(Failure::new(Status::INVALID_IMAGE, reason));
        }
        let image = wrapper.image.expose_provenance();
        handle = BINARIES.insert(Binary { image, loaded: Mutex::default() });
        Ok(())
    });
    handle
}

/// `__hipUnregisterFatBinary`
///
/// # Safety
/// - As clang's start-up code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipUnregisterFatBinary(binary: Handle) {
    guard("__hipUnregisterFatBinary", Status::UNKNOWN, || {
        BINARIES.remove(binary);
        let mut registry = lock(&REGISTRY);
        registry.functions.retain(|_, symbol| symbol.binary != binary);
        registry.variables.retain(|_, symbol| symbol.binary != binary);
        Ok(())
    });
}

/// `__hipRegisterFunction`
///
/// # Safety
/// - As clang's start-up code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterFunction(
    binary: Handle,
    function: *const c_void,
    _host_name: *const c_char,
    name: Text,
    _thread_limit: c_uint,
    _thread: *const c_void,
    _block: *const c_void,
    _block_dim: *const c_void,
    _grid_dim: *const c_void,
    _wave_size: *const c_int,
) {
    guard("__hipRegisterFunction", Status::UNKNOWN, || {
        let symbol = Symbol { binary, name: name.get()?, bytes: 0 };
        lock(&REGISTRY).functions.insert(function.addr(), symbol);
        Ok(())
    });
}

/// `__hipRegisterVar`
///
/// # Safety
/// - As clang's start-up code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterVar(
    binary: Handle,
    variable: *const c_void,
    _host_name: *const c_char,
    name: Text,
    _external: c_int,
    bytes: u64,
    _constant: c_int,
    _global: c_int,
) {
    guard("__hipRegisterVar", Status::UNKNOWN, || {
        lock(&REGISTRY).variables.insert(variable.addr(), Symbol { binary, name: name.get()?, bytes });
        Ok(())
    });
}

/// `__hipRegisterManagedVar`: `pointer` is the host's, which leads to the variable once there is a device.
///
/// # Safety
/// - As clang's start-up code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterManagedVar(
    binary: Handle,
    pointer: Out<u64>,
    initial: u64,
    name: Text,
    bytes: u64,
    _alignment: c_uint,
) {
    guard("__hipRegisterManagedVar", Status::UNKNOWN, || {
        // The host may use the variable before any launch, so the code is loaded now.
        place_managed(binary, &pointer, initial, &name.get()?, bytes)
    });
}

/// `__hipRegisterTexture`: textures are not emulated; a program that only carries one still runs.
///
/// # Safety
/// - As clang's start-up code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterTexture(
    _binary: Handle,
    _variable: *const c_void,
    _host_name: *const c_char,
    _name: Text,
    _kind: c_int,
    _normalized: c_int,
    _external: c_int,
) {
}

/// `__hipRegisterSurface`: as textures.
///
/// # Safety
/// - As clang's start-up code calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __hipRegisterSurface(
    _binary: Handle,
    _variable: *const c_void,
    _host_name: *const c_char,
    _name: Text,
    _kind: c_int,
    _external: c_int,
) {
}
