//! HIP's error codes, with their names and texts.
//!
//! Source: AMD's HIP runtime API reference, `hipError_t`.

use std::ffi::{CStr, c_int};

/// `hipError_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub c_int);

impl Status {
    /// Its name, as `hipGetErrorName` gives it.
    pub fn name(self) -> &'static CStr {
        self.row().map_or(c"hipErrorUnknown", |row| row.1)
    }

    /// Its meaning, as `hipGetErrorString` gives it.
    pub fn text(self) -> &'static CStr {
        self.row().map_or(c"unknown error", |row| row.2)
    }

    fn row(self) -> Option<&'static (Status, &'static CStr, &'static CStr)> {
        ROWS.iter().find(|row| row.0 == self)
    }
}

macro_rules! statuses {
    ($($constant:ident = $code:literal, $name:literal, $text:literal;)*) => {
        impl Status {
            $(#[doc = concat!("`", stringify!($name), "`")]
            #[allow(dead_code, reason = "the table is whole, whoever uses it")]
            pub const $constant: Status = Status($code);)*
        }

        const ROWS: &[(Status, &CStr, &CStr)] = &[$((Status($code), $name, $text),)*];
    };
}

statuses! {
    SUCCESS = 0, c"hipSuccess", c"no error";
    INVALID_VALUE = 1, c"hipErrorInvalidValue", c"invalid argument";
    OUT_OF_MEMORY = 2, c"hipErrorOutOfMemory", c"out of memory";
    NOT_INITIALIZED = 3, c"hipErrorNotInitialized", c"initialization error";
    DEINITIALIZED = 4, c"hipErrorDeinitialized", c"driver shutting down";
    PROFILER_DISABLED = 5, c"hipErrorProfilerDisabled", c"profiler disabled while using external profiling tool";
    INVALID_CONFIGURATION = 9, c"hipErrorInvalidConfiguration", c"invalid configuration argument";
    INVALID_PITCH = 12, c"hipErrorInvalidPitchValue", c"invalid pitch argument";
    INVALID_SYMBOL = 13, c"hipErrorInvalidSymbol", c"invalid device symbol";
    INVALID_DEVICE_POINTER = 17, c"hipErrorInvalidDevicePointer", c"invalid device pointer";
    INVALID_MEMCPY_DIRECTION = 21, c"hipErrorInvalidMemcpyDirection", c"invalid copy direction for memcpy";
    INSUFFICIENT_DRIVER = 35, c"hipErrorInsufficientDriver", c"driver version is insufficient for runtime version";
    MISSING_CONFIGURATION = 52, c"hipErrorMissingConfiguration", c"__global__ function call is not configured";
    PRIOR_LAUNCH_FAILURE = 53, c"hipErrorPriorLaunchFailure", c"unspecified launch failure in prior launch";
    INVALID_DEVICE_FUNCTION = 98, c"hipErrorInvalidDeviceFunction", c"invalid device function";
    NO_DEVICE = 100, c"hipErrorNoDevice", c"no ROCm-capable device is detected";
    INVALID_DEVICE = 101, c"hipErrorInvalidDevice", c"invalid device ordinal";
    INVALID_IMAGE = 200, c"hipErrorInvalidImage", c"device kernel image is invalid";
    INVALID_CONTEXT = 201, c"hipErrorInvalidContext", c"invalid device context";
    CONTEXT_ALREADY_CURRENT = 202, c"hipErrorContextAlreadyCurrent", c"context is already current context";
    MAP_FAILED = 205, c"hipErrorMapFailed", c"mapping of buffer object failed";
    UNMAP_FAILED = 206, c"hipErrorUnmapFailed", c"unmapping of buffer object failed";
    NO_BINARY_FOR_GPU = 209, c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device";
    ECC_NOT_CORRECTABLE = 214, c"hipErrorECCNotCorrectable", c"uncorrectable ECC error encountered";
    UNSUPPORTED_LIMIT = 215, c"hipErrorUnsupportedLimit", c"limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, c"hipErrorPeerAccessUnsupported", c"peer access is not supported between these two devices";
    INVALID_KERNEL_FILE = 218, c"hipErrorInvalidKernelFile", c"invalid kernel file";
    INVALID_SOURCE = 300, c"hipErrorInvalidSource", c"device kernel image is invalid";
    FILE_NOT_FOUND = 301, c"hipErrorFileNotFound", c"file not found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, c"hipErrorSharedObjectSymbolNotFound", c"shared object symbol not found";
    SHARED_OBJECT_INIT_FAILED = 303, c"hipErrorSharedObjectInitFailed", c"shared object initialization failed";
    OPERATING_SYSTEM = 304, c"hipErrorOperatingSystem", c"OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, c"hipErrorInvalidHandle", c"invalid resource handle";
    ILLEGAL_STATE = 401, c"hipErrorIllegalState", c"the operation cannot be performed in the present state";
    NOT_FOUND = 500, c"hipErrorNotFound", c"named symbol not found";
    NOT_READY = 600, c"hipErrorNotReady", c"device not ready";
    ILLEGAL_ADDRESS = 700, c"hipErrorIllegalAddress", c"an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, c"hipErrorLaunchOutOfResources", c"too many resources requested for launch";
    LAUNCH_TIME_OUT = 702, c"hipErrorLaunchTimeOut", c"the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, c"hipErrorPeerAccessAlreadyEnabled", c"peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, c"hipErrorPeerAccessNotEnabled", c"peer access has not been enabled";
    SET_ON_ACTIVE_PROCESS = 708, c"hipErrorSetOnActiveProcess", c"cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, c"hipErrorContextIsDestroyed", c"context is destroyed";
    ASSERT = 710, c"hipErrorAssert", c"device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"hipErrorHostMemoryAlreadyRegistered", c"part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, c"hipErrorHostMemoryNotRegistered", c"pointer does not correspond to a registered memory region";
    LAUNCH_FAILURE = 719, c"hipErrorLaunchFailure", c"unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, c"hipErrorCooperativeLaunchTooLarge", c"too many blocks in cooperative launch";
    NOT_SUPPORTED = 801, c"hipErrorNotSupported", c"operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, c"hipErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902, c"hipErrorStreamCaptureMerge", c"operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903, c"hipErrorStreamCaptureUnmatched", c"capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, c"hipErrorStreamCaptureUnjoined", c"capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, c"hipErrorStreamCaptureIsolation", c"dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, c"hipErrorStreamCaptureImplicit", c"operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, c"hipErrorCapturedEvent", c"operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, c"hipErrorStreamCaptureWrongThread", c"attempt to terminate a thread-local capture sequence from another thread";
    GRAPH_EXEC_UPDATE_FAILURE = 910, c"hipErrorGraphExecUpdateFailure", c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    UNKNOWN = 999, c"hipErrorUnknown", c"unknown error";
    RUNTIME_MEMORY = 1052, c"hipErrorRuntimeMemory", c"runtime memory call returned error";
    RUNTIME_OTHER = 1053, c"hipErrorRuntimeOther", c"runtime call other than memory returned error";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_row_with_hips_name() {
        for (index, (status, name, _)) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|(other, ..)| other != status), "{status:?} is there twice");
            assert!(name.to_str().unwrap().starts_with("hip"), "{name:?}");
        }
        assert_eq!(Status(719).name(), c"hipErrorLaunchFailure");
        assert_eq!(Status(-7).name(), c"hipErrorUnknown");
    }
}
