use std::fs;
use std::path::Path;

use rocfire_arch::Arch;
use rocfire_hal::{Config, Device, DeviceId, Source, compile};

use super::folder::Folder;
use super::objects::{Object, known};
use super::*;

const CARD: &str = "gfx942";

fn device(folder: &Path) -> Device {
    let config = Config::from_env().unwrap().with_aiter(true).with_aiter_dir(folder.to_owned());
    Device::open(DeviceId::emulated(CARD).unwrap(), config).unwrap()
}

/// A code object of ours, with a kernel of eight bytes of arguments.
fn code(arch: &str) -> Vec<u8> {
    let text = "struct Args { float* x; };
        extern \"C\" __global__ void aiter_test(Args a) { a.x[rf::thread_x()] = 1.0f; }";
    let arch = Arch::parse(arch).unwrap();
    let sources = [Source::new("aiter_test", text, &[])];
    let compiled = compile::compile_many(arch, &sources, &Config::from_env().unwrap()).unwrap();
    compiled[0].as_ref().unwrap().bytes().to_vec()
}

fn object(kernel: &str, code: &[u8]) -> Object {
    Object {
        arch: Arch::parse(CARD).unwrap(),
        units: Vec::new(),
        role: Role::Attention,
        path: "own/kernel.co".to_owned(),
        kernel: kernel.to_owned(),
        hash: blake3::hash(code),
    }
}

/// A folder with a file where the object is looked for.
fn folder_with(code: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join(CARD).join("own");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("kernel.co"), code).unwrap();
    folder
}

/// Whether a kernel of eight bytes of arguments comes out.
fn is_there(folder: &Path, object: Object, args_bytes: usize) -> bool {
    let device = device(folder);
    let tier = Tier::with(Folder::find(device.config()), vec![object]);
    let kernel = tier.kernel(&device, Role::Attention, args_bytes);
    assert!(tier.kernel(&device, Role::AttentionCausal, args_bytes).is_none(), "there is none for it");
    // What came of it is known the second time.
    assert_eq!(tier.kernel(&device, Role::Attention, args_bytes).is_some(), kernel.is_some());
    kernel.is_some()
}

#[test]
fn a_known_code_object_is_loaded_and_others_are_not() {
    let code = code(CARD);
    let folder = folder_with(&code);
    let own = object("aiter_test", &code);
    assert!(is_there(folder.path(), own.clone(), 8));
    assert!(!is_there(folder.path(), own.clone(), 16), "arguments of another size");
    assert!(!is_there(folder.path(), object("another", &code), 8), "no kernel of the name");
    let mut damaged = code.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert!(!is_there(folder_with(&damaged).path(), own.clone(), 8), "a damaged file");
    assert!(!is_there(folder_with(&code[..100]).path(), own.clone(), 8), "a file that was cut off");
    assert!(!is_there(&folder.path().join("elsewhere"), own.clone(), 8), "no folder");
    fs::remove_file(folder.path().join(own.relative())).unwrap();
    assert!(!is_there(folder.path(), own, 8), "no file");
    let other = self::code("gfx950");
    assert!(!is_there(folder_with(&other).path(), object("aiter_test", &other), 8), "another architecture's");
}

#[test]
fn a_device_has_what_is_for_its_card_and_only_where_it_is_switched_on() {
    let folder = folder_with(b"");
    let device = device(folder.path());
    assert!(Tier::of(&device).kernel(&device, Role::Attention, 512).is_none(), "the folder has none of those listed");
    let off = Config::from_env().unwrap();
    let off = Device::open(DeviceId::emulated(CARD).unwrap(), off.with_aiter_dir(folder.path().to_owned())).unwrap();
    assert_eq!(off.config().aiter, None, "this test is of what is not said");
    assert!(Tier::of(&off).kernel(&off, Role::Attention, 512).is_none());
}

#[test]
fn the_table_has_one_object_for_a_card_and_a_role() {
    for (at, one) in known().iter().enumerate() {
        assert!(one.path.ends_with(".co") && !one.kernel.is_empty(), "{one:?}");
        for other in &known()[..at] {
            assert_ne!(one.hash, other.hash);
            let same_card = one.arch == other.arch
                && (one.units.is_empty() || one.units.iter().any(|units| other.is_for(one.arch, *units)));
            assert!(one.role != other.role || !same_card, "{one:?}, {other:?}");
        }
    }
    for (card, count) in [("gfx942", 7), ("gfx950", 39), ("gfx1100", 0)] {
        let device = Device::open(DeviceId::emulated(card).unwrap(), Config::default()).unwrap();
        assert_eq!(objects::of(&device).count(), count, "{card}");
    }
}

#[test]
fn a_folder_is_found_in_the_package_and_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (hsa, info) = (folder.path().join("aiter_meta/hsa"), folder.path().join("amd_aiter-9.9.dist-info"));
    fs::create_dir_all(hsa.join(CARD)).unwrap();
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join("METADATA"), "Metadata-Version: 2.2\nName: amd-aiter\nVersion: 9.9\n").unwrap();
    fs::write(info.join("LICENSE"), "Copyright\n\nMIT License\n\nPermission").unwrap();
    for place in [folder.path().to_owned(), folder.path().join("aiter_meta"), hsa.clone()] {
        let report = report(&Config::default().with_aiter_dir(place));
        assert_eq!(report.folder.as_deref(), Some(&*hsa));
        assert_eq!((report.version.as_deref(), report.license.as_deref()), (Some("9.9"), Some("MIT License")));
        assert_eq!((report.objects.len(), report.usable()), (known().len(), 0));
        assert!(report.objects.iter().all(|(.., state)| *state == ObjectState::Missing));
    }
    let (path, ..) = &report(&Config::default().with_aiter_dir(hsa.clone())).objects[0];
    let file = hsa.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, b"of another version").unwrap();
    let other = ObjectState::Other(blake3::hash(b"of another version").to_hex().to_string());
    assert_eq!(report(&Config::default().with_aiter_dir(hsa)).objects[0].2, other);
    let nowhere = report(&Config::default().with_aiter_dir(info.clone()));
    assert_eq!((nowhere.folder, nowhere.searched, nowhere.objects.len()), (None, vec![info], 0));
}

#[test]
fn a_file_of_another_package_is_not_installed() {
    let (cache, file) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    fs::write(file.path(), b"another package").unwrap();
    let config = Config::default().with_cache_dir(cache.path().to_owned());
    let refused = install(&config, Some(file.path()));
    assert!(matches!(refused, Err(InstallError::Hash { .. })), "{refused:?}");
    let refused = install(&config, Some(Path::new("/nowhere/at/all.whl")));
    assert!(matches!(refused, Err(InstallError::File(..))), "{refused:?}");
}
