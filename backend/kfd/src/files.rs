//! Which paths are the driver's, and what stands there instead.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use tempfile::TempDir;

use crate::card::{Card, card};
use crate::lock;
use crate::topology::{self, RENDER_MINOR};

/// The driver's own file.
const DRIVER: &str = "/dev/kfd";
/// A render node, up to its number.
const RENDER: &str = "/dev/dri/renderD";
/// Where the driver says what there is.
const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology";

/// What a path is.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// The driver's file or the card's render node.
    Device,
    /// A file of the topology, by its path below.
    Topology(PathBuf),
    /// Nothing of ours.
    Other,
}

/// What a path is.
pub fn place(path: &[u8]) -> Place {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    if path == Path::new(DRIVER) || path == Path::new(&format!("{RENDER}{RENDER_MINOR}")) {
        return Place::Device;
    }
    match path.strip_prefix(TOPOLOGY) {
        Ok(below) => Place::Topology(below.to_owned()),
        Err(_) => Place::Other,
    }
}

/// The folder with the topology's files. Programs end by `exit`, which drops nothing.
static FOLDER: Mutex<Option<TempDir>> = Mutex::new(None);

/// The path of a file of the topology; `None` if there is no card, or no room for files.
pub fn redirect(below: &Path) -> Option<CString> {
    let card = card()?;
    let mut folder = lock(&FOLDER);
    if folder.is_none() {
        *folder = write(card).inspect_err(|error| crate::tell(&format!("no folder for the topology: {error}"))).ok();
    }
    let path = folder.as_ref()?.path().join(below);
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// Removes the files; called when the process ends.
pub fn remove() {
    drop(lock(&FOLDER).take());
}

fn write(card: &Card) -> std::io::Result<TempDir> {
    static AT_END: OnceLock<()> = OnceLock::new();
    let folder = tempfile::Builder::new().prefix("rocfire-kfd-").tempdir()?;
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    topology::write(folder.path(), &topology::files(card.gpu.arch(), card.vram_bytes, processors, host_bytes()))?;
    AT_END.get_or_init(crate::interpose::remove_at_end);
    Ok(folder)
}

/// Memory of the host.
fn host_bytes() -> u64 {
    // SAFETY: any number may be asked for.
    let [pages, bytes] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    u64::try_from(pages).unwrap_or(0) * u64::try_from(bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        assert_eq!(place(b"/dev/kfd"), Place::Device);
        assert_eq!(place(b"/dev/dri/renderD128"), Place::Device);
        assert_eq!(place(b"/dev/dri/renderD129"), Place::Other);
        let nodes = place(b"/sys/devices/virtual/kfd/kfd/topology/nodes/0/gpu_id");
        assert_eq!(nodes, Place::Topology("nodes/0/gpu_id".into()));
        assert_eq!(place(b"/sys/devices/virtual/kfd/kfd/topology"), Place::Topology(PathBuf::new()));
        assert_eq!(place(b"/dev/kfdx"), Place::Other);
        assert_eq!(place(b"/tmp/x"), Place::Other);
    }
}
