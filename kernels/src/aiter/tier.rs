//! What a device has of AITER's kernels, loaded when they are first asked for.

use std::sync::OnceLock;

use rocfire_hal::{Device, DriverKind, Function, Level};

use super::folder::{Folder, ObjectState, places};
use super::mends::mended;
use super::objects::{self, Object, Role};

/// The kernels for a device. To ask once more for one, there or not, allocates nothing.
pub(crate) struct Tier {
    folder: Option<Folder>,
    /// What there is for the device's card, and what became of it.
    kernels: Vec<(Object, OnceLock<Option<Function>>)>,
}

impl Tier {
    /// As the settings say: on an AMD GPU if they do not.
    pub fn of(device: &Device) -> Tier {
        let is_on = device.config().aiter.unwrap_or(device.id().driver() == DriverKind::Hip);
        let objects: Vec<Object> = if is_on { objects::of(device).cloned().collect() } else { Vec::new() };
        let folder = if objects.is_empty() { None } else { Folder::find(device.config()) };
        if !objects.is_empty() && folder.is_none() && device.config().aiter_dir.is_some() {
            let places = places(device.config());
            device.report(Level::Warn, format_args!("AITER's code objects are not used: none in {places:?}"));
        }
        Tier::with(folder, objects)
    }

    /// With these code objects of a folder.
    pub fn with(folder: Option<Folder>, objects: Vec<Object>) -> Tier {
        let kernels = objects.into_iter().map(|object| (object, OnceLock::new())).collect();
        Tier { folder, kernels }
    }

    /// Why it has no kernel for a role that there is one for on some card.
    pub fn absence(&self, device: &Device, role: Role) -> String {
        if !objects::of(device).any(|object| object.role == role) {
            let (arch, units) = (device.arch(), device.info().compute_units);
            return format!("none is known to be right for {arch} of {units} units");
        }
        match (&self.folder, self.kernels.is_empty()) {
            (_, true) => "ROCFIRE_AITER=0 or what it comes to on this device leaves it out".to_owned(),
            (Some(folder), false) => format!("{} has no file that is known to be right", folder.hsa.display()),
            (None, false) => {
                let places: Vec<String> =
                    places(device.config()).iter().map(|place| place.display().to_string()).collect();
                format!("it is not there: looked for in {}", places.join(", "))
            }
        }
    }

    /// The kernel for a role, which takes so many bytes of arguments; `None` where ours have to do.
    pub fn kernel(&self, device: &Device, role: Role, args_bytes: usize) -> Option<Function> {
        let folder = self.folder.as_ref()?;
        let (object, kernel) = self.kernels.iter().find(|(object, _)| object.role == role)?;
        let load = || match loaded(device, folder, object, args_bytes) {
            Ok(function) => Some(function),
            Err(why) => {
                // Who has named a folder expects it to be used.
                let level = if device.config().aiter_dir.is_some() { Level::Warn } else { Level::Info };
                device.report(level, format_args!("AITER's {} is not used: {why}", object.relative()));
                None
            }
        };
        kernel.get_or_init(load).clone()
    }
}

/// Reads, compares and loads a code object; else why it is not used.
fn loaded(device: &Device, folder: &Folder, object: &Object, args_bytes: usize) -> Result<Function, String> {
    let bytes = folder.read(object).map_err(|state| match state {
        ObjectState::Known => unreachable!("what is known was read"),
        ObjectState::Missing => format!("there is no such file in {}", folder.hsa.display()),
        ObjectState::Other(hash) => format!("its hash is {hash}, not {}", object.hash),
        ObjectState::Unreadable(why) => why,
    })?;
    let module = device.load_code_object(&object.relative(), &mended(&bytes)).map_err(|error| error.to_string())?;
    let function = module.function(&object.kernel).map_err(|error| error.to_string())?;
    let declared = function.info().explicit_kernarg_bytes as usize;
    if declared == args_bytes {
        Ok(function)
    } else {
        Err(format!("{} takes {declared} bytes of arguments, not {args_bytes}", object.kernel))
    }
}
