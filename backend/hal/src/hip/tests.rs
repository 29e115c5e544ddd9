use super::*;
use crate::{Device, DeviceId, DriverKind};

#[test]
fn a_library_that_is_not_there_is_an_error_that_says_where_it_was_looked_for() {
    let candidates = api::candidates(&["librocfire_test_nowhere.so"]);
    let error = sys::Library::open("librocfire_test_nowhere", &candidates).err().expect("there is no such library");
    let message = error.to_string();
    assert!(message.starts_with("cannot load librocfire_test_nowhere: tried "), "{message}");
    assert!(message.contains("librocfire_test_nowhere.so"), "{message}");
}

#[test]
fn a_function_that_a_library_lacks_is_an_error_when_it_is_called() {
    sys::table! {
        /// A table with a function that exists nowhere.
        Lacking {
            /// None.
            fn hipRocfireTestNoSuchFunction() -> c_int;
        }
    }
    let Ok(library) = sys::Library::open("libc", &["libc.so.6".into()]) else {
        println!("skipped a_function_that_a_library_lacks_is_an_error_when_it_is_called: no libc.so.6");
        return;
    };
    let table = Lacking::new(library);
    // SAFETY: there is no such function to be called.
    let message = unsafe { table.hipRocfireTestNoSuchFunction() }.unwrap_err().to_string();
    assert_eq!(message, format!("{} has no hipRocfireTestNoSuchFunction", table.library().path()));
}

#[test]
fn without_a_device_the_answer_says_so_and_why() {
    let api = match api() {
        Ok(api) => api,
        Err(error) => {
            println!("skipped without_a_device_the_answer_says_so_and_why: {error}");
            return;
        }
    };
    for name in ["HIP_FORCE_DEV_KERNARG", "GPU_MAX_HW_QUEUES"] {
        assert!(std::env::var_os(name).is_some(), "{name} is set before HIP opens");
    }
    assert!(api.version().major >= 5, "{}", api.version());
    let count = api.device_count().unwrap();
    let message = match DeviceId::hip(count) {
        Err(error @ Error::NoDevice { driver: DriverKind::Hip, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    if count == 0 {
        assert!(message.starts_with("no hip device: HIP "), "{message}");
        assert!(message.contains("sees none"), "{message}");
        let id = DeviceId::new(DriverKind::Hip, rocfire_arch::Arch::parse("gfx90a").unwrap(), 0);
        assert!(matches!(Device::open(id, crate::Config::default()), Err(Error::NoDevice { .. })));
    } else {
        assert!(message.contains(&format!("sees {count}")), "{message}");
    }
}
