//! Whether the disk has room for what verification builds.

use std::path::Path;

/// What the stages write where nothing is built, without incremental compilation, which takes twice as much again.
const BUILD_GIB: f64 = 8.0;

/// Says so if a build from nothing would not fit into the disk of `target`: linkers that run out of room end by a signal and name none.
pub fn warn_if_short(target: &Path) {
    let Some(free) = free_gib(target) else { return };
    if free < BUILD_GIB {
        println!(
            "{free:.1} GiB are free where {} lies. A build from nothing writes {BUILD_GIB:.0}, or {:.0} unless \
             CARGO_INCREMENTAL=0 is set.",
            target.display(),
            3.0 * BUILD_GIB
        );
    }
}

#[cfg(unix)]
fn free_gib(at: &Path) -> Option<f64> {
    let all = rustix::fs::statvfs(at).ok()?;
    Some(all.f_bavail as f64 * all.f_frsize as f64 / f64::from(1 << 30))
}

#[cfg(not(unix))]
fn free_gib(_: &Path) -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn free_room_is_known_where_a_folder_is() {
        assert!(free_gib(Path::new("/")).is_some_and(|free| free >= 0.0));
        assert_eq!(free_gib(Path::new("/no such folder")), None);
    }
}
