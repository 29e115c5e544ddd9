//! Launches that are got ready while the one ahead of them still ends: CUDA's programmatic dependent launches, from Hopper on.
//!
//! It takes a microsecond or more until a launch's first workgroups run, after the last of the launch ahead have ended and
//! their stores can be seen. A kernel may be put on the card before that if it waits by itself, ahead of its first access
//! (`griddepcontrol.wait`): [`waiting`] writes that behind the opening brace of every kernel, so no kernel's source says a
//! word of it. Only kernels in whose machine code the wait is found (`KernelInfo::waits`) are launched like that: one whose
//! definition a macro hides from the text is launched as ever.
//!
//! A kernel that has `RF_WAITS_ITSELF` in its definition says where it waits, by `wait_for_launches` of the prelude's `arch.h`. Before that
//! it may ask L2 for what it will read (`ask_l2`): whatever the launch ahead still writes, L2 has it. Launched by
//! [`crate::Stream::launch_reading_early`], it may also read what that names, past L1 (`load_once` of `few_codes.h`, asynchronous copies): it begins early
//! only where the launch ahead does not write that.
//!
//! Other kernels do not say `griddepcontrol.launch_dependents`, so a launch's workgroups come once all of the launch ahead have ended.
//! Where they may come as soon as the last of those have begun, they go to whichever multiprocessors are free first, not to all alike:
//! with it BERT in f32 took a tenth longer on an H200, and rows gained nothing more. A kernel that reads as much as memory gives from
//! its first clock on, in one round of workgroups, does say so (`let_launches_begin`), behind its wait: what comes then, comes behind
//! all that was ahead of both.
//!
//! Source: NVIDIA's PTX manual, `griddepcontrol`; CUDA's driver API, `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.

use crate::gpu::Version;

/// What is written behind the opening brace of a kernel.
const WAIT: &str = " asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");";

/// From which compute capability on there are such launches.
const TARGET_LEAST: u32 = 90;
/// From which driver on they can be recorded in graphs.
const VERSION_LEAST: Version = Version { major: 12, minor: 3, patch: None };

/// Whether a target, `sm_90`, has them.
pub(super) fn has(target: &str) -> bool {
    let number = target.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number.parse::<u32>().is_ok_and(|number| number >= TARGET_LEAST)
}

/// Whether a driver has them, in graphs too.
pub(super) fn allows(version: Version) -> bool {
    version >= VERSION_LEAST
}

/// The source, every kernel of which waits. Lines stay where they are.
pub(super) fn waiting(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2 * WAIT.len());
    let mut rest = text;
    let mut in_directive = false;
    let mut head: Option<Head> = None;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(piece_bytes(rest));
        match (piece, &mut head) {
            ("#", _) => in_directive = true,
            ("\n", _) => {
                // A macro that only begins a definition says nothing of the next brace.
                head = head.filter(|head| !head.in_directive);
                in_directive = false;
            }
            ("__global__", None) => head = Some(Head { open: 0, in_directive, waits_itself: false }),
            ("RF_WAITS_ITSELF", Some(head)) => head.waits_itself = true,
            ("(", Some(head)) => head.open += 1,
            (")", Some(head)) => head.open = head.open.saturating_sub(1),
            // Declared, not defined.
            (";", Some(Head { open: 0, .. })) => head = None,
            _ => {}
        }
        out.push_str(piece);
        if piece == "{" && head.take_if(|head| head.open == 0).is_some_and(|head| !head.waits_itself) {
            out.push_str(WAIT);
        }
        rest = behind;
    }
    out
}

/// What has been read of a kernel's definition, before its brace.
struct Head {
    /// Parentheses that are open.
    open: usize,
    /// Whether a macro's text holds it.
    in_directive: bool,
    /// Whether it says where it waits.
    waits_itself: bool,
}

/// Length of a source's first word, literal, comment or single character; of a line's end with the backslash before it.
fn piece_bytes(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    let until = |end: &str| text[2..].find(end).map(|at| 2 + at);
    if text.starts_with("//") {
        until("\n").unwrap_or(text.len())
    } else if text.starts_with("/*") {
        until("*/").map_or(text.len(), |at| at + 2)
    } else if text.starts_with("\\\n") {
        2
    } else if text.starts_with(['"', '\'']) {
        literal_bytes(text)
    } else {
        // A number's digits may have quotes between them.
        let is_number = text.starts_with(|c: char| c.is_ascii_digit());
        let inside = |c: char| c == '_' || c.is_alphanumeric() || is_number && c == '\'';
        text.find(|c| !inside(c)).unwrap_or(text.len()).max(first)
    }
}

/// Length of a string or character, its quotes included; one that the line's end cuts short ends there.
fn literal_bytes(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'\n' => return at,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source with a mark where the wait was written.
    fn marked(text: &str) -> String {
        let out = waiting(text);
        assert_eq!(out.replace(WAIT, ""), text);
        out.replace(WAIT, "@")
    }

    #[test]
    fn every_kernel_waits_behind_its_brace() {
        let kernels = [
            (
                "extern \"C\" __global__ void f(int* x) { x[0] = 1; }",
                "extern \"C\" __global__ void f(int* x) {@ x[0] = 1; }",
            ),
            (
                "__global__ BOUNDS((1), 2) void f(S s) {}\nvoid g() {}",
                "__global__ BOUNDS((1), 2) void f(S s) {@}\nvoid g() {}",
            ),
            ("__global__ void f(int x = g({1})) {\n}", "__global__ void f(int x = g({1})) {@\n}"),
            (
                "#define K(n) __global__ \\\n  void n() { \\\n }\nK(a)",
                "#define K(n) __global__ \\\n  void n() {@ \\\n }\nK(a)",
            ),
            (
                "__global__ void f(\n#if A\n int a\n#endif\n) // {\n{}",
                "__global__ void f(\n#if A\n int a\n#endif\n) // {\n{@}",
            ),
            (
                "int n = 1'000; char c = '\\''; __global__ void f() {}",
                "int n = 1'000; char c = '\\''; __global__ void f() {@}",
            ),
        ];
        for (text, expected) in kernels {
            assert_eq!(marked(text), expected);
        }
    }

    #[test]
    fn what_is_no_kernel_stays_as_it_is() {
        for text in [
            "",
            "struct S { int x; };",
            "__global__ void f(int);\nstruct S { int x; };",
            "#define KERNEL extern \"C\" __global__\nstruct S { int x; };",
            "// __global__\nvoid f() {}",
            "__global__ RF_WAITS_ITSELF BOUNDS(1) void f(S s) { wait_for_launches(); }",
            "/* __global__ */ void f() {}",
            "const char* s = \"__global__ \\\" \"; void f() {}",
            "void __global__of() {}",
            "/* not ended",
            "\"not ended",
        ] {
            assert_eq!(marked(text), text);
        }
    }

    /// Every kernel of the library and of Candle's, as their sources are written. They lie beside this crate in the tree, and not
    /// beside its package, which cargo marks by the manifest that it was made from.
    #[test]
    fn every_kernel_of_the_library_waits() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        if root.join("Cargo.toml.orig").exists() {
            println!("skipped: the operator library is no part of this package");
            return;
        }
        let mut folders = vec![root.join("../../kernels/src"), root.join("../candle/kernels/src")];
        let mut kernels = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "hip") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let defined = text.lines().filter(|line| line.starts_with("extern \"C\" __global__")).count();
                    let by_themselves = text.matches("__global__ RF_WAITS_ITSELF").count();
                    let waits = waiting(&text).matches(WAIT).count() + by_themselves;
                    assert_eq!(waits, defined, "{}", path.display());
                    assert_eq!(text.matches("wait_for_launches()").count(), by_themselves, "{}", path.display());
                    kernels += defined;
                }
            }
        }
        assert!(kernels > 81, "{kernels} kernels");
    }

    #[test]
    fn hopper_and_what_came_after_have_it() {
        for (target, expected) in
            [("sm_80", false), ("sm_89", false), ("sm_90", true), ("sm_90a", true), ("sm_120", true)]
        {
            assert_eq!(has(target), expected, "{target}");
        }
        assert!(
            !allows(Version { major: 12, minor: 2, patch: None })
                && allows(Version { major: 13, minor: 0, patch: None })
        );
    }
}
