use super::*;
use crate::{Device, DeviceId, DriverKind};

#[test]
fn without_cuda_or_a_device_the_answer_says_so_and_why() {
    let message = match (api(), DeviceId::cuda(u16::MAX)) {
        (Err(error), Err(asked)) => {
            assert_eq!(error.to_string(), asked.to_string());
            error.to_string()
        }
        (Ok(api), Err(error @ Error::NoDevice { driver: DriverKind::Cuda, .. })) => {
            assert!(error.to_string().contains(&format!("CUDA {} sees", api.version())), "{error}");
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
