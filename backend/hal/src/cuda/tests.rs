use super::*;
use crate::driver::Driver;
use crate::gpu::tests::{fake_or_skip, scale};
use crate::{Device, DeviceId};

#[test]
fn without_cuda_or_a_device_the_answer_says_so_and_why() {
    let message = match (Cuda::api(), DeviceId::cuda(u16::MAX)) {
        (Err(error), Err(asked)) => {
            assert_eq!(error.to_string(), asked.to_string());
            error.to_string()
        }
        (Ok(api), Err(error @ Error::NoDevice { driver: DriverKind::Cuda, .. })) => {
            assert!(error.to_string().contains(&format!("CUDA {} sees", api.platform.version())), "{error}");
            return;
        }
        (_, other) => panic!("{other:?}"),
    };
    assert!(message.starts_with("cannot load libcuda: tried ") && message.contains("libcuda.so.1"), "{message}");
    let id = DeviceId::new(DriverKind::Cuda, rocfire_arch::Arch::parse("sm_90").unwrap(), 0);
    assert!(matches!(Device::open(id, crate::Config::default()), Err(Error::Load { library: "libcuda", .. })));
}

#[test]
fn without_nvrtc_the_answer_says_where_it_was_looked_for() {
    let arch = rocfire_arch::Arch::parse("sm_90").unwrap();
    match compiler(arch) {
        Ok(compiler) => assert!(compiler.identity().starts_with("nvrtc "), "{}", compiler.identity()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("no compiler for sm_90: cannot load libnvrtc: tried "), "{message}");
        }
    }
}

#[test]
fn shared_memory_is_asked_for_once_and_what_waits_by_itself_begins_early() {
    const ASKED: c_int = 4;
    const EARLY: c_int = 5;
    let test = "shared_memory_is_asked_for_once_and_what_waits_by_itself_begins_early";
    let Some((fake, gpu)) = fake_or_skip::<Cuda>(test) else { return };
    for waits in [false, true] {
        let info = KernelInfo { name: "scale_f32".to_owned(), lds_bytes: 1 << 10, waits, ..KernelInfo::default() };
        let (kernel, args, y) = scale(&gpu, &info);
        let before = [ASKED, EARLY].map(|which| fake.count(which));
        for (lds_bytes, begins_late) in
            [0, 47 << 10, 100 << 10, 100 << 10, 80 << 10].into_iter().zip([false, true].into_iter().cycle())
        {
            let launch = RawLaunch { grid: [1; 3], block: [256, 1, 1], lds_bytes, args: &args, begins_late };
            // SAFETY: the arguments are the kernel's, and cover what it accesses.
            unsafe { kernel.launch(&launch) }.unwrap();
        }
        let after = [ASKED, EARLY].map(|which| fake.count(which));
        assert_eq!((after[0] - before[0], after[1] - before[1]), (1, if waits { 3 } else { 0 }));
        let mut result = [0; 8];
        // SAFETY: there are more bytes.
        unsafe { gpu.read(y, &mut result) }.unwrap();
        assert_eq!(result[4..], 2_f32.to_le_bytes());
    }
}
