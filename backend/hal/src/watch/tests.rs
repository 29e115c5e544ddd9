use std::os::unix::net::UnixListener;

use super::*;

fn process() -> Process {
    let running = vec![("a \"kernel\"".to_owned(), Duration::from_millis(250))];
    let compiles = CompileStats { compiled: 1, packed: 2, cached: 3, compiling: Duration::from_millis(1500) };
    let memory =
        MemoryStats { live_bytes: 1, reserved_bytes: 2, peak_bytes: 3, blocks: 4, live_blocks: 5, padding_bytes: 6 };
    let device = Watched {
        id: "emulated:gfx942".to_owned(),
        name: "emulated MI300X".to_owned(),
        launches: [1, 2, 3, u64::MAX],
        sampled_us: [0.5, 0.0, 2.25, 1e12],
        memory,
        memory_bytes: 8 << 30,
        compiles,
        compiling: running,
    };
    let (pid, program, uptime) = (7, "demo".to_owned(), Duration::from_millis(12_500));
    Process { pid, program, uptime, devices: vec![device, Watched::default()] }
}

#[test]
fn what_is_told_is_read_back() {
    let line = process().line();
    assert_eq!(line.matches('\n').count(), 1);
    assert_eq!(Process::parse(&line), Some(process()));
}

#[test]
fn what_is_no_answer_is_none() {
    let line = process().line();
    let cut = &line[..line.len() / 2];
    let other = line.replace("\"rocfire\":1", "\"rocfire\":2");
    let negative = line.replace("\"seconds\":12.5", "\"seconds\":-1");
    for wrong in ["", "{}", "nonsense", cut, other.as_str(), negative.as_str()] {
        assert_eq!(Process::parse(wrong), None, "{wrong}");
    }
}

/// The folder of sockets with one whose process is gone, and one whose process never answers.
#[test]
fn sockets_of_processes_that_ended_are_removed_and_those_of_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join(FOLDER);
    std::fs::create_dir(&sockets).unwrap();
    let path = |name: &str| sockets.join(name);
    drop(UnixListener::bind(path("1-0.sock")).unwrap());
    let silent = UnixListener::bind(path("2-0.sock")).unwrap();
    std::fs::write(path("notes.txt"), "not ours").unwrap();
    let asked = std::time::Instant::now();
    assert_eq!(processes(folder.path()), []);
    assert!(asked.elapsed() < Duration::from_secs(20), "it is not waited for for ever");
    assert!(!path("1-0.sock").exists(), "who ended is forgotten");
    assert!(path("2-0.sock").exists() && path("notes.txt").exists());
    drop(silent);
    assert_eq!(processes(&folder.path().join("none")), []);
}
