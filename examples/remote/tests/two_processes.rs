//! A server and a client, two processes on this machine.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use burn_flex::{Flex, FlexDevice};

/// Far beyond what anything here takes, so only what hangs reaches it.
const LIMIT: Duration = Duration::from_secs(120);

/// A process that does not outlive the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remote"));
        let mut child = command.arg("serve").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Server { child, address: address.trim().to_owned() }
    }

    /// Asks it to end, and waits until it has; whether it ended well.
    fn end(mut self) -> bool {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(asked.success());
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn train(server: &Server, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_remote")).arg("train").arg(&server.address).args(arguments).output().unwrap()
}

fn losses(output: &Output) -> Vec<f32> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_client_trains_on_served_devices_as_on_its_own() {
    let expected = remote::train::<Flex>(&FlexDevice, 6).unwrap();
    assert!(expected[5] < expected[0], "{expected:?}");
    for fusion in [&[][..], &["--fusion"]] {
        let devices = ["--device", "emulated:gfx942", "--device", "emulated:gfx1100", "--token", "amd"];
        let server = Server::start(&[&devices, fusion].concat());
        assert!(server.address.starts_with("ws://127.0.0.1:"), "{}", server.address);
        for index in ["0", "1"] {
            let losses = losses(&train(&server, &["--steps", "6", "--token", "amd", "--index", index]));
            assert_eq!(losses.len(), expected.len());
            for (ours, theirs) in losses.iter().zip(&expected) {
                assert!((ours - theirs).abs() <= 2e-5 * theirs.max(1.0), "device {index}: {losses:?}, {expected:?}");
            }
        }

        let refused = train(&server, &["--token", "nvidia"]);
        assert!(!refused.status.success());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("Unauthorized"));
        let missing = train(&server, &["--token", "amd", "--index", "2"]);
        assert!(String::from_utf8_lossy(&missing.stderr).contains("NoSuchDevice"));
        assert!(server.end(), "SIGTERM is how a server ends");
    }
}

#[test]
fn a_device_that_is_not_there_is_told_before_anything_is_served() {
    let output = Command::new(env!("CARGO_BIN_EXE_remote")).args(["serve", "--device", "hip:200"]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
}
