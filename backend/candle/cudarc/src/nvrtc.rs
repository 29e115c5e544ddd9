//! What a module can be: HIP text, compiled when it is loaded, or kernels by name.

use std::borrow::Cow;
use std::fmt;

use crate::rocfire::KernelLibrary;

/// What [`crate::driver::CudaContext::load_module`] loads.
///
/// Text is ordinary HIP, compiled for the device when it is loaded: HIP's names are there without an `#include`, and its
/// headers and the few of C's that device code needs can be included, under CUDA's names too (`cuda_fp16.h`), with and without
/// ROCm. Most CUDA C++ is such a text. `printf` prints when a launch ends on an emulated device, and as HIP and CUDA do on a
/// card whose own compiler made the kernel (hiprtc, NVRTC); on an AMD GPU without hiprtc what it prints is lost. Text that is PTX
/// is refused when it is loaded.
#[derive(Clone)]
pub struct Ptx(pub(crate) Code);

#[derive(Clone)]
pub(crate) enum Code {
    Text(Cow<'static, str>),
    Library(&'static dyn KernelLibrary),
}

impl Ptx {
    /// A module whose kernels are in a text.
    pub fn from_src<S: Into<String>>(source: S) -> Ptx {
        Ptx(Code::Text(Cow::Owned(source.into())))
    }

    /// The text; for kernels by name the name of their library.
    pub fn to_src(&self) -> String {
        match &self.0 {
            Code::Text(text) => text.to_string(),
            Code::Library(library) => library.name().to_owned(),
        }
    }
}

impl From<&str> for Ptx {
    fn from(source: &str) -> Ptx {
        Ptx::from_src(source)
    }
}

impl From<String> for Ptx {
    fn from(source: String) -> Ptx {
        Ptx::from_src(source)
    }
}

impl From<&'static dyn KernelLibrary> for Ptx {
    fn from(library: &'static dyn KernelLibrary) -> Ptx {
        Ptx(Code::Library(library))
    }
}

impl fmt::Debug for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Code::Text(text) => write!(f, "Ptx({} bytes of text)", text.len()),
            Code::Library(library) => write!(f, "Ptx({})", library.name()),
        }
    }
}

/// Why [`compile_ptx`] refused a text. Texts are compiled when they are loaded, so PTX is the only reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

/// A module of a text. It is compiled when it is loaded, not here.
///
/// # Errors
/// [`CompileError`] if the text is PTX.
pub fn compile_ptx<S: AsRef<str>>(source: S) -> Result<Ptx, CompileError> {
    match ptx_target(source.as_ref()) {
        None => Ok(Ptx::from_src(source.as_ref())),
        Some(target) => Err(CompileError(refusal(&target))),
    }
}

/// The target of a text that is PTX; `None` for any other text. PTX has the directives `.version` and `.target`, each at the start of
/// a line.
pub(crate) fn ptx_target(text: &str) -> Option<String> {
    let directive = |name: &str| {
        let mut lines = text.lines().map(str::trim_start);
        lines.find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t'])))
    };
    directive(".version")?;
    Some(directive(".target")?.trim().to_owned())
}

/// The message that says why PTX is refused.
pub(crate) fn refusal(target: &str) -> String {
    format!(
        "this module is PTX for {target}, code for NVIDIA's GPUs: rocfire runs HIP. Give the kernel's source instead \
         (CUDA C++ without CUDA's headers is mostly HIP); it is compiled for the device when it is loaded"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_told_from_hip() {
        let ptx = "//\n// made by NVVM\n.version 8.3\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }";
        assert_eq!(ptx_target(ptx).as_deref(), Some("sm_80"));
        assert!(compile_ptx(ptx).unwrap_err().0.contains("sm_80"));
        let hip = "struct S { int version; };\nextern \"C\" __global__ void f(S s) { int v = s.version; }";
        assert_eq!(ptx_target(hip), None);
        assert!(compile_ptx(hip).is_ok());
    }
}
