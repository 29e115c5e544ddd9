//! An anonymous file and its mappings: what the operating system is asked for.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// An anonymous file. It takes memory where it was written.
pub struct File {
    fd: OwnedFd,
    device: u64,
    inode: u64,
}

impl File {
    /// One of so many bytes; `None` if the system has no more.
    pub fn new(bytes: u64) -> Option<File> {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"rocfire-kfd".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), i64::try_from(bytes).ok()?) } != 0 {
            return None;
        }
        let (device, inode) = identity(fd.as_raw_fd())?;
        Some(File { fd, device, inode })
    }

    /// A descriptor of it for somebody else to close; -1 with `errno` if there are no more.
    pub fn descriptor(&self) -> i32 {
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) }
    }

    /// The descriptor that stays open as long as the file.
    pub fn kept_descriptor(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Whether a descriptor is one of this file's.
    pub fn has(&self, fd: i32) -> bool {
        identity(fd) == Some((self.device, self.inode))
    }

    /// Maps a part of it; `None` if the system has no more.
    pub fn map(&self, offset: u64, bytes: u64) -> Option<Mapping> {
        let bytes = usize::try_from(bytes).ok()?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, offset) = (self.fd.as_raw_fd(), i64::try_from(offset).ok()?);
        // SAFETY: a mapping at an address that is free touches nothing that exists.
        let host = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, offset) };
        let host = NonNull::new(host.cast()).filter(|_| host != libc::MAP_FAILED)?;
        Some(Mapping { host, bytes })
    }

    /// Gives back the memory of a part of it, which then reads as zero.
    pub fn punch(&self, offset: u64, bytes: u64) {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open. If it fails the memory stays taken, and no bytes of it are handed out again.
        unsafe { libc::fallocate(self.fd.as_raw_fd(), how, offset as i64, bytes as i64) };
    }
}

fn identity(fd: i32) -> Option<(u64, u64)> {
    // SAFETY: zero is a value of every field.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: any number may be asked about, and the struct is ours.
    (unsafe { libc::fstat(fd, &mut status) } == 0).then_some((status.st_dev, status.st_ino))
}

/// A part of a file in memory, until it is dropped.
pub struct Mapping {
    host: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process.
unsafe impl Send for Mapping {}
// SAFETY: a mapping gives its address and nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Its first byte.
    pub fn host(&self) -> NonNull<u8> {
        self.host
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and who had pointers into it has none any more.
        unsafe { libc::munmap(self.host.as_ptr().cast(), self.bytes) };
    }
}
