//! Facts about this machine, for `rocfire doctor`.
//!
//! Only gathers: it opens libraries and asks for devices, but opens no device, compiles and launches nothing, and never
//! fails, since what is missing is what it is asked about. The command prints it, and runs the checked GEMM.

use std::path::{Path, PathBuf};

use crate::{Config, DeviceId, DeviceInfo, DriverKind, Result, SETTINGS, compile, rocm};

/// Everything that is worth knowing before asking for help.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The ROCm that is installed, by its own file.
    pub rocm_version: Option<String>,
    /// The version of NVIDIA's kernel driver, where it is loaded.
    pub nvidia_driver: Option<String>,
    /// HIP's version and the path of its library, or why it cannot be used.
    pub hip: Result<(String, String), String>,
    /// HIP's devices, each with its true architecture, or why it cannot be described.
    pub hip_devices: Vec<Result<DeviceInfo, String>>,
    /// CUDA's version and the path of its library, or why it cannot be used.
    pub cuda: Result<(String, String), String>,
    /// CUDA's devices, or why one cannot be described.
    pub cuda_devices: Vec<Result<DeviceInfo, String>>,
    /// What the default device will be, or why there is none.
    pub default_device: Result<DeviceId, String>,
    /// Path and version of the clang that compiles kernels, or what was looked for.
    pub clang: Result<(PathBuf, String), String>,
    /// Folder of compiled kernels.
    pub cache_dir: PathBuf,
    /// What it holds, bytes.
    pub cache_bytes: u64,
    /// Most that it may hold, bytes.
    pub cache_limit_bytes: u64,
    /// The packs of compiled kernels that are looked into, in order: each with its path, and checked to its last byte.
    pub packs: Vec<(PathBuf, Result<PackFact, String>)>,
    /// The kernel's nodes for AMD GPUs, and whether this user can open them.
    pub nodes: Vec<Node>,
    /// Whether the kernel moves pages between NUMA nodes, which costs GPUs 10 to 30%; `None` where it does not say.
    pub numa_balancing: Option<bool>,
    /// Whether this is Linux under Windows.
    pub wsl: bool,
    /// Variables of others that change what ROCm does, where they are set; those set by us before HIP opens among them.
    pub environment: Vec<(&'static str, String)>,
    /// Every setting.
    pub settings: Vec<SettingFact>,
    /// Why the settings of the environment cannot be used.
    pub settings_error: Option<String>,
    /// What should be looked at: known-bad versions, overrides, permissions.
    pub warnings: Vec<String>,
}

/// What a pack of compiled kernels holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackFact {
    /// The size of the file.
    pub bytes: u64,
    /// What it holds, by architecture.
    pub packed: Vec<compile::Packed>,
}

/// A device node of the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its path.
    pub path: PathBuf,
    /// Why it cannot be opened, if it cannot.
    pub error: Option<String>,
    /// The group that may open it.
    pub group: Option<String>,
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFact {
    /// The variable.
    pub name: &'static str,
    /// Its value, or what it comes to.
    pub value: String,
    /// Whether the environment says so.
    pub from_environment: bool,
    /// What it may be.
    pub values: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// Tells ROCm to take a GPU for another; see [`Report::warnings`].
const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";
const ENVIRONMENT: [&str; 8] = [
    OVERRIDE,
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCM_PATH",
    "HIP_PATH",
    "HIP_FORCE_DEV_KERNARG",
    "GPU_MAX_HW_QUEUES",
    "HSA_XNACK",
];

/// Looks at this machine.
pub fn report() -> Report {
    let (config, settings_error) = match Config::from_env() {
        Ok(config) => (config, None),
        Err(error) => (Config::default(), Some(error.to_string())),
    };
    let (hip, hip_devices) = survey(DriverKind::Hip);
    let (cuda, cuda_devices) = survey(DriverKind::Cuda);
    let rocm_version = rocm::installed_version();
    let clang = match compile::clang() {
        Ok(clang) => Ok((clang.path().to_owned(), clang.version().to_owned())),
        Err(rejected) => Err(compile::describe_rejected(rejected)),
    };
    let environment = ENVIRONMENT.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?))).collect();
    let nodes = nodes();
    let numa_balancing = numa_balancing();
    let warnings = warnings(&rocm_version, &hip, &hip_devices, &nodes, numa_balancing);
    Report {
        default_device: match &settings_error {
            Some(error) => Err(error.clone()),
            None => DeviceId::choose(&config).map_err(|error| error.to_string()),
        },
        cache_bytes: compile::cache_size_bytes(&config),
        cache_limit_bytes: config.cache_mb << 20,
        cache_dir: config.cache_dir.clone(),
        packs: packs(&config),
        wsl: is_wsl(),
        nvidia_driver: nvidia_driver(),
        settings: setting_facts(&config),
        rocm_version,
        hip,
        hip_devices,
        cuda,
        cuda_devices,
        clang,
        nodes,
        numa_balancing,
        environment,
        settings_error,
        warnings,
    }
}

/// Every pack that would be looked into, read as a whole.
fn packs(config: &Config) -> Vec<(PathBuf, Result<PackFact, String>)> {
    let fact = |path: &Path| {
        let pack = compile::Pack::open(path)?;
        pack.verify()?;
        Ok(PackFact { bytes: pack.bytes(), packed: pack.packed().to_vec() })
    };
    let all = compile::pack_paths(config).into_iter();
    all.map(|path| {
        let fact = fact(&path).map_err(|error: crate::Error| error.to_string());
        (path, fact)
    })
    .collect()
}

/// Whether the kernel offers AMD GPUs at all: `/dev/kfd`, or on WSL `/dev/dxg`.
pub(crate) fn gpu_nodes_exist() -> bool {
    Path::new(KFD).exists() || Path::new(DXG).exists()
}

/// Whether the kernel offers NVIDIA GPUs: `/dev/nvidiactl`, or on WSL `/dev/dxg`.
pub(crate) fn nvidia_nodes_exist() -> bool {
    Path::new(NVIDIA_CONTROL).exists() || Path::new(DXG).exists()
}

/// What can be seen from outside of why there is no GPU.
#[cfg(feature = "hip")]
pub(crate) fn why_no_gpu() -> Vec<String> {
    if !gpu_nodes_exist() {
        return vec![format!("neither {KFD} nor {DXG} exists: the amdgpu kernel driver is not loaded")];
    }
    nodes().iter().filter_map(Node::advice).collect()
}

const KFD: &str = "/dev/kfd";
const DXG: &str = "/dev/dxg";
const NVIDIA_CONTROL: &str = "/dev/nvidiactl";

impl Node {
    fn look(path: PathBuf) -> Node {
        let error = std::fs::File::options().read(true).write(true).open(&path).err().map(|error| error.to_string());
        Node { group: group_of(&path), error, path }
    }

    /// What to do about a node that cannot be opened.
    fn advice(&self) -> Option<String> {
        let error = self.error.as_deref()?;
        let group = self.group.as_deref().unwrap_or("render");
        let path = self.path.display();
        Some(format!("{path} cannot be opened ({error}): `sudo usermod -aG {group} $USER`, then log in again"))
    }
}

fn nodes() -> Vec<Node> {
    let mut paths: Vec<PathBuf> = [KFD, DXG].into_iter().map(PathBuf::from).filter(|path| path.exists()).collect();
    let render = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut render: Vec<PathBuf> = render
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD")))
        .collect();
    render.sort();
    paths.extend(render);
    paths.into_iter().map(Node::look).collect()
}

#[cfg(unix)]
fn group_of(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let gid = std::fs::metadata(path).ok()?.gid();
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
    });
    Some(named.unwrap_or_else(|| gid.to_string()))
}

#[cfg(not(unix))]
fn group_of(_path: &Path) -> Option<String> {
    None
}

fn numa_balancing() -> Option<bool> {
    let text = std::fs::read_to_string("/proc/sys/kernel/numa_balancing").ok()?;
    Some(text.trim() != "0")
}

/// The number behind "Kernel Module" in what the driver says of itself.
fn nvidia_driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let line = text.lines().next()?;
    line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

fn is_wsl() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.to_ascii_lowercase().contains("microsoft")
}

/// Version and path of a driver's library, or why it cannot be used; and its devices.
type DriverFacts = (Result<(String, String), String>, Vec<Result<DeviceInfo, String>>);

/// What is found of a GPU's driver, as text.
fn survey(driver: DriverKind) -> DriverFacts {
    match crate::device::survey_gpus(driver) {
        Ok((version, path, devices)) => {
            let devices = devices.into_iter().map(|device| device.map_err(|error| error.to_string())).collect();
            (Ok((version, path)), devices)
        }
        Err(error) => (Err(error.to_string()), Vec::new()),
    }
}

fn warnings(
    rocm_version: &Option<String>,
    hip: &Result<(String, String), String>,
    devices: &[Result<DeviceInfo, String>],
    nodes: &[Node],
    numa_balancing: Option<bool>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    // HIP's patch level is a build number; only the file has ROCm's own.
    let version = rocm_version.as_ref().or(hip.as_ref().ok().map(|(version, _)| version));
    if let Some(why) = version.and_then(|version| rocm::known_bad(version).map(|why| (version, why))) {
        warnings.push(format!("ROCm {} is known to be bad: {}", why.0, why.1));
    }
    if let Ok(value) = std::env::var(OVERRIDE) {
        let names = devices.iter().flatten().map(|device| device.arch.name()).collect::<Vec<_>>();
        warnings.push(format!(
            "{OVERRIDE}={value} is set: ROCm reports the architecture it says ({}), not the card's. No architecture of \
             rocfire needs it; one of another family faults",
            if names.is_empty() { "no device".to_owned() } else { names.join(", ") }
        ));
    }
    warnings.extend(nodes.iter().filter_map(Node::advice));
    if numa_balancing == Some(true) && devices.iter().any(Result::is_ok) {
        let command = "sudo sysctl kernel.numa_balancing=0";
        warnings.push(format!("NUMA balancing is on, which costs GPUs 10 to 30%: `{command}`"));
    }
    warnings
}

fn setting_facts(config: &Config) -> Vec<SettingFact> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let fact = |setting: &crate::Setting| SettingFact {
        name: setting.name,
        value: (setting.show)(config),
        from_environment: set(setting.name),
        values: setting.values,
        about: setting.about,
    };
    SETTINGS.iter().map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_never_fails_and_lists_every_setting() {
        let report = report();
        assert_eq!(report.settings.len(), SETTINGS.len());
        assert!(report.default_device.is_ok() || report.settings_error.is_some() || gpu_nodes_exist());
        assert_eq!(report.cache_limit_bytes % (1 << 20), 0);
    }

    #[test]
    fn known_bad_versions_are_warned_of() {
        let warned =
            |version: &str| !warnings(&Some(version.to_owned()), &Err(String::new()), &[], &[], None).is_empty();
        assert!(warned("7.2.0-43") && warned("7.2.3"));
        assert!(!warned("7.2.4") && !warned("7.1.3") && !warned("6.4.2-120"));
    }

    #[test]
    fn node_that_cannot_be_opened_gets_advice_with_its_group() {
        let node = Node { path: KFD.into(), error: Some("denied".to_owned()), group: Some("render".to_owned()) };
        assert!(node.advice().expect("there is an error").contains("usermod -aG render"));
        assert_eq!(Node { error: None, ..node }.advice(), None);
    }
}
