use super::*;

/// A bundle as clang writes one: entries, then their code, which here is text.
fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let head: usize = BUNDLE.len() + 8 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let (mut bytes, mut code) = (BUNDLE.to_vec(), Vec::new());
    bytes.extend((entries.len() as u64).to_le_bytes());
    for (id, content) in entries {
        for number in [(head + code.len()) as u64, content.len() as u64, id.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(id.as_bytes());
        code.extend_from_slice(content);
    }
    bytes.extend(code);
    bytes
}

fn compressed(bundle: &[u8]) -> Vec<u8> {
    let content = zstd::bulk::compress(bundle, 3).unwrap();
    let mut bytes = COMPRESSED.to_vec();
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend(ZSTD.to_le_bytes());
    bytes.extend((24 + content.len() as u32).to_le_bytes());
    bytes.extend((bundle.len() as u32).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(content);
    bytes
}

const HOST: (&str, &[u8]) = ("host-x86_64-unknown-linux-gnu-", b"");

fn target(name: &str) -> Target {
    Target::parse(name).unwrap()
}

#[test]
fn the_entry_that_names_the_device_best_is_taken() {
    let image = bundle(&[
        HOST,
        ("hipv4-amdgcn-amd-amdhsa--gfx90a", b"other"),
        ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", b"generic"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942", b"plain"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack+", b"xnack"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack-", b"no xnack"),
    ]);
    let device = target("gfx942:sramecc+:xnack-");
    assert_eq!(code_object(&image, &device).unwrap(), b"no xnack");
    assert_eq!(code_object(&compressed(&image), &device).unwrap(), b"no xnack");
    assert_eq!(code_object(&image, &target("gfx950:sramecc+:xnack-")).unwrap(), b"generic");
    let image = bundle(&[HOST, ("hip-amdgcn-amd-amdhsa-gfx1100", b"old id")]);
    assert_eq!(code_object(&image, &target("gfx1100")).unwrap(), b"old id");
}

#[test]
fn a_program_without_code_for_the_device_says_what_it_has() {
    let image =
        bundle(&[HOST, ("hipv4-amdgcn-amd-amdhsa--gfx90a", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack+", b"")]);
    let failure = code_object(&image, &target("gfx942:sramecc+:xnack-")).unwrap_err();
    assert_eq!(failure.status, Status::NO_BINARY_FOR_GPU);
    let reason = failure.reason.unwrap();
    assert!(reason.ends_with("only for: gfx90a, gfx942:xnack+"), "{reason}");
}

#[test]
fn images_are_measured_by_their_own_headers() {
    let image = bundle(&[HOST, ("hipv4-amdgcn-amd-amdhsa--gfx942", b"code")]);
    for image in [image.clone(), compressed(&image)] {
        let mut longer = image.clone();
        longer.extend([0xaa; 100]);
        // SAFETY: the slice holds a whole image.
        assert_eq!(unsafe { read_image(longer.as_ptr()) }.unwrap(), image);
    }
}

#[test]
fn damaged_images_are_errors() {
    let image = bundle(&[HOST, ("hipv4-amdgcn-amd-amdhsa--gfx942", b"code")]);
    for bytes in 0..image.len() {
        assert!(code_object(&image[..bytes], &target("gfx942")).is_err(), "{bytes} bytes");
    }
    let image = compressed(&image);
    for bytes in (0..image.len()).step_by(3) {
        assert!(code_object(&image[..bytes], &target("gfx942")).is_err(), "{bytes} bytes");
    }
}
