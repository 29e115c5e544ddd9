//! Tests which launches must run before which, and that nothing waits while memory is lent.

use std::sync::Arc;

use rocfire_hal::{Config, Device, DeviceId, Source};

use super::{Kept, LauncherCall, Node, Queue, Touched, Work};
use crate::driver::LaunchConfig;
use crate::driver::shared::Shared;
use crate::rocfire::Extent;

const NOTHING: &str = r#"extern "C" __global__ void nothing() {}"#;

/// A context over a device that runs nothing, with a kernel to launch.
struct Bench {
    shared: Arc<Shared>,
    function: rocfire_hal::Function,
}

impl Bench {
    fn new() -> Bench {
        let id = DeviceId::noop("gfx1100").unwrap();
        let device = Device::open(id, Config::from_env().unwrap().with_fusion(true)).unwrap();
        let source = Source::new("nothing.hip", NOTHING, &[]);
        let function = device.module(&source).unwrap().function("nothing").unwrap();
        Bench { shared: Shared::of(device), function }
    }

    fn memory(&self) -> Kept {
        Kept::new(self.shared.device(), 1024).unwrap()
    }

    fn node(&self, touched: Vec<Touched>) -> Node {
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        let (name, function) = ("nothing", self.function.clone());
        Node::new(
            Work::Launcher(LauncherCall { name, tag: 0, function, config, bytes: Vec::new(), at: Vec::new() }),
            touched,
        )
    }
}

/// Bytes of some memory, read or written.
fn part(memory: &Kept, from: u64, bytes: u64, is_written: bool) -> Touched {
    Touched::part(memory.clone(), memory.address() + from, bytes, is_written)
}

fn masks(node: &Node) -> (u64, u64) {
    (node.dependencies.all, node.dependencies.sources)
}

/// For each launch, those that it must come behind, and those whose results it reads.
fn order(nodes: Vec<Node>) -> Vec<(u64, u64)> {
    let mut queue = Queue::default();
    nodes.into_iter().for_each(|node| queue.add(node));
    queue.nodes.iter().map(masks).collect()
}

#[test]
fn a_launch_comes_after_all_that_it_has_to_do_with() {
    let bench = Bench::new();
    let [x, y, z] = [(); 3].map(|()| bench.memory());
    let (read, write) = (false, true);
    let launch = |parts: &[(&Kept, bool)]| {
        bench.node(parts.iter().map(|&(memory, is_written)| part(memory, 0, 1024, is_written)).collect())
    };
    // In turn: read after write; a second reader, which does not depend on the first; write after both reads; write after write; a launch
    // that has no memory in common with the others.
    let found = order(vec![
        launch(&[(&x, write)]),
        launch(&[(&x, read), (&y, write)]),
        launch(&[(&x, read)]),
        launch(&[(&x, write)]),
        launch(&[(&y, write)]),
        launch(&[(&z, read)]),
    ]);
    assert_eq!(found, [(0, 0), (0b1, 0b1), (0b1, 0b1), (0b111, 0), (0b10, 0), (0, 0)]);
}

#[test]
fn parts_meet_by_their_bytes() {
    let bench = Bench::new();
    let x = bench.memory();
    let one = |from, bytes, is_written| bench.node(vec![part(&x, from, bytes, is_written)]);
    let columns = |from, row_bytes, stride_bytes| {
        let mut touched = Touched::whole(x.clone(), false, true);
        touched.asked = x.address() + from;
        touched.narrow_to(Some(Extent { rows: 4, row_bytes, stride_bytes }));
        bench.node(vec![touched])
    };
    // Neighbouring bytes; then one byte in common, read and then written.
    let found = order(vec![one(0, 16, false), one(16, 16, true), one(15, 1, true), one(31, 2, false)]);
    assert_eq!(found, [(0, 0), (0, 0), (0b1, 0), (0b10, 0b10)]);
    // Columns of rows of 64 bytes: side by side, across an edge, across the end of a row, and of other rows.
    let found = order(vec![columns(0, 16, 64), columns(16, 48, 64), columns(15, 2, 64), columns(62, 4, 64)]);
    assert_eq!(found, [(0, 0), (0, 0), (0b11, 0), (0b11, 0)]);
    let found = order(vec![columns(0, 16, 64), columns(16, 16, 32)]);
    assert_eq!(found, [(0, 0), (0b1, 0)]);
}

#[test]
fn nothing_waits_while_memory_is_lent() {
    let bench = Bench::new();
    let (shared, memory) = (&bench.shared, bench.memory());
    let launch = || bench.node(vec![part(&memory, 0, 8, true)]);
    let ran = || shared.device().launches();
    shared.wait(launch());
    assert_eq!(ran(), 0);
    let (first, second) = (shared.settled(), shared.settled());
    assert_eq!(ran(), 1, "what waited was launched");
    shared.wait(launch());
    assert_eq!(ran(), 2);
    drop(first);
    shared.wait(launch());
    assert_eq!(ran(), 3, "somebody still has memory lent");
    drop(second);
    shared.wait(launch());
    assert_eq!(ran(), 3);
    shared.launch_waiting();
    assert_eq!(ran(), 4);
}

#[test]
fn memory_is_lent_by_its_own_device() {
    let (bench, other) = (Bench::new(), Bench::new());
    let memory = bench.memory();
    assert!(bench.shared.settled().buffer(&memory).is_ok());
    let message = other.shared.settled().buffer(&memory).unwrap_err().to_string();
    assert!(message.contains("must be of"), "{message}");
    assert!(Arc::ptr_eq(&bench.shared, &Shared::of(bench.shared.device().clone())));
    assert!(!Arc::ptr_eq(&bench.shared, &other.shared), "another opening of a device is another order");
}

#[test]
fn what_waits_on_keeps_its_order() {
    let bench = Bench::new();
    let x = bench.memory();
    let mut queue = Queue::default();
    for at in 0..4 {
        queue.add(bench.node(vec![part(&x, 0, 1024, at % 2 == 0)]));
    }
    let masks = |queue: &Queue| queue.nodes.iter().map(masks).collect::<Vec<_>>();
    assert_eq!(masks(&queue), [(0, 0), (0b1, 0b1), (0b11, 0), (0b101, 0b101)]);
    // The first two launches run.
    queue.run(&bench.shared, 2);
    assert_eq!(masks(&queue), [(0, 0), (0b1, 0b1)]);
    queue.add(bench.node(vec![part(&x, 0, 1024, true)]));
    assert_eq!(masks(&queue)[2], (0b11, 0));
}
