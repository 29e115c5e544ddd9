//! What the host has at an address, for reports of programs that gave a kernel a pointer of the host's.

/// The host's memory at `address`, in a word; `None` if it has none there, or the system does not tell.
pub(crate) fn mapping_at(address: u64) -> Option<&'static str> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| kind_of(line, address))
}

/// What a line of `/proc/self/maps` says of an address: `start-end permissions offset device inode name`.
fn kind_of(line: &str, address: u64) -> Option<&'static str> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let bound = |text| u64::from_str_radix(text, 16).ok();
    if !(bound(start)?..bound(end)?).contains(&address) {
        return None;
    }
    Some(match fields.nth(4) {
        Some("[heap]") => "heap",
        Some("[stack]") => "stack",
        Some(name) if name.starts_with('/') => "program or its libraries",
        _ => "memory",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_map_are_read() {
        let heap = "5581a0000000-5581a0021000 rw-p 00000000 00:00 0                          [heap]";
        assert_eq!(kind_of(heap, 0x5581_a002_0fff), Some("heap"));
        assert_eq!(kind_of(heap, 0x5581_a002_1000), None);
        assert_eq!(kind_of("7f0000000000-7f0000001000 rw-p 00000000 00:00 0", 0x7f00_0000_0000), Some("memory"));
        let library = "7f1000000000-7f1000001000 r-xp 00001000 08:01 42  /usr/lib/libc.so.6";
        assert_eq!(kind_of(library, 0x7f10_0000_0800), Some("program or its libraries"));
        assert_eq!(kind_of("nonsense", 0), None);
    }
}
