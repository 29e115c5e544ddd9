use std::time::Duration;

use super::*;

fn cache(limit_bytes: u64) -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().join("code"), limit_bytes);
    (folder, cache)
}

/// Of no source.
const SOURCE: SourceHash = [7; HASH_BYTES];

fn key(n: u8) -> Hash {
    blake3::hash(&[n])
}

/// Bytes that do not compress.
fn noise(n: u8, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().update(&[n]).finalize_xof().fill(&mut noise);
    noise
}

#[test]
fn what_is_written_is_read_by_another_process() {
    let (folder, cache) = cache(1 << 20);
    assert_eq!(cache.read(&key(1)), None);
    cache.write(&key(1), &SOURCE, b"code").unwrap();
    assert_eq!(cache.read(&key(1)).unwrap(), b"code");
    assert_eq!(cache.read(&key(2)), None);
    let other = Cache::new(folder.path().join("code"), 1 << 20);
    assert_eq!(other.read(&key(1)).unwrap(), b"code");
    cache.write(&key(1), &SOURCE, b"newer").unwrap();
    assert_eq!(other.read(&key(1)).unwrap(), b"newer");
    let left: Vec<_> = fs::read_dir(folder.path().join("code")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays");
}

#[test]
fn every_kind_of_damage_is_noticed_and_the_file_removed() {
    let (_folder, cache) = cache(1 << 20);
    let code = noise(7, 5000);
    cache.write(&key(1), &SOURCE, &code).unwrap();
    let path = cache.path(&key(1));
    let whole = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).step_by(97).map(|length| whole[..length].to_vec()).collect();
    for at in (0..whole.len()).step_by(31) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        damaged.push(flipped);
    }
    for file in damaged {
        fs::write(&path, &file).unwrap();
        let read = cache.read(&key(1));
        assert!(read.is_none() || read.as_ref() == Some(&code), "{} bytes", file.len());
        assert_eq!(path.exists(), read.is_some());
    }
}

#[test]
fn files_under_each_others_names_count_as_none_and_are_written_anew() {
    let (_folder, cache) = cache(1 << 20);
    let (first, second) = (key(1), key(2));
    cache.write(&first, &SOURCE, b"first").unwrap();
    cache.write(&second, &SOURCE, b"second").unwrap();
    let [one, two] = [&first, &second].map(|key| fs::read(cache.path(key)).unwrap());
    fs::write(cache.path(&first), two).unwrap();
    fs::write(cache.path(&second), one).unwrap();
    assert_eq!([cache.read(&first), cache.read(&second)], [None, None]);
    cache.write(&first, &SOURCE, b"first").unwrap();
    assert_eq!(cache.read(&first).unwrap(), b"first");
}

#[test]
fn what_was_used_longest_ago_goes_first_and_the_bound_holds() {
    let (_folder, cache) = cache(100_000);
    for n in 0..4 {
        cache.write(&key(n), &SOURCE, &noise(n, 20_000)).unwrap();
        let old = SystemTime::now() - Duration::from_secs(1000 - u64::from(n));
        File::options().append(true).open(cache.path(&key(n))).unwrap().set_modified(old).unwrap();
    }
    // Reading makes it the newest.
    assert!(cache.read(&key(0)).is_some());
    for n in 4..6 {
        cache.write(&key(n), &SOURCE, &noise(n, 20_000)).unwrap();
    }
    assert!(size_bytes(&cache.folder) <= 100_000);
    assert!(cache.read(&key(1)).is_none(), "used longest ago");
    assert!(cache.read(&key(0)).is_some() && cache.read(&key(5)).is_some());
}

#[test]
fn a_code_object_larger_than_the_bound_is_kept_alone() {
    let (_folder, cache) = cache(1000);
    cache.write(&key(1), &SOURCE, &noise(1, 500)).unwrap();
    cache.write(&key(2), &SOURCE, &noise(2, 5000)).unwrap();
    assert!(cache.read(&key(2)).is_some() && cache.read(&key(1)).is_none());
}

#[test]
fn a_bound_of_zero_keeps_nothing() {
    let (folder, cache) = cache(0);
    cache.write(&key(1), &SOURCE, b"code").unwrap();
    assert_eq!(cache.read(&key(1)), None);
    assert!(!folder.path().join("code").exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_path() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let cache = Cache::new(file.path().join("code"), 1 << 20);
    let message = cache.write(&key(1), &SOURCE, b"code").unwrap_err().to_string();
    assert!(message.starts_with("cannot write ") && message.contains(&*file.path().to_string_lossy()), "{message}");
    assert_eq!(cache.read(&key(1)), None);
}

#[test]
fn writers_of_one_key_do_not_disturb_each_other() {
    let (_folder, cache) = cache(1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    cache.write(&key(1), &SOURCE, &noise(3, 3000)).unwrap();
                    assert_eq!(cache.read(&key(1)).unwrap(), noise(3, 3000));
                }
            });
        }
    });
}
