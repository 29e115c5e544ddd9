//! Replays over a driver whose memory is the host's, and whose one kernel multiplies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::compile::KernelInfo;
use crate::driver::{DeviceInfo, Driver, DriverEvent, DriverModule, LaunchFailure, LaunchGraph};
use crate::noop::Noop;
use crate::profile::Work;
use crate::{Buffer, Config, DType, Device, DeviceId, DriverKind, Function, Launch, Source, Tensor};

/// Elements of a tensor, all of which a launch takes.
const COUNT: usize = 4;
/// Launches of a round; more than a segment has.
const ROUND: usize = HELD_MOST + 5;

/// The driver's memory by address, and what its graphs do wrongly.
#[derive(Default)]
struct Cells {
    memory: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Replays double the first element of what their last launch writes.
    is_wrong: AtomicBool,
    /// Arguments that are set are forgotten.
    forgets: AtomicBool,
    /// No graph can be made.
    makes_none: AtomicBool,
}

impl Cells {
    fn memory(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.memory.lock().unwrap()
    }

    /// Does something with bytes from an address on, if they are live.
    fn with<R>(&self, address: u64, bytes: usize, then: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let mut memory = self.memory();
        let segment = memory.range_mut(..=address).next_back().and_then(|(first, segment)| {
            let at = (address - first) as usize;
            segment.get_mut(at..at + bytes)
        });
        let gone = || Error::Driver { call: "launch", name: format!("{address:#x} is not live"), code: 1 };
        Ok(then(segment.ok_or_else(gone)?))
    }

    fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        self.with(address, bytes, |found| found.to_vec())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.with(address, bytes.len(), |found| found.copy_from_slice(bytes))
    }

    /// `y = factor · x`, the kernel of `scale.hip`.
    fn run(&self, args: &[u8]) -> Result<()> {
        let [x, y] = [0, 8].map(|at| u64::from_le_bytes(args[at..at + 8].try_into().unwrap()));
        let count = u32::from_le_bytes(args[16..20].try_into().unwrap()) as usize;
        let factor = f32::from_le_bytes(args[20..24].try_into().unwrap());
        let x = self.read(x, 4 * count)?;
        let scaled = x.chunks_exact(4).map(|x| factor * f32::from_le_bytes(x.try_into().unwrap()));
        self.write(y, &scaled.flat_map(f32::to_le_bytes).collect::<Vec<_>>())
    }
}

struct CellsDriver(Noop, Arc<Cells>);

impl Driver for CellsDriver {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn free_memory_bytes(&self) -> Option<u64> {
        None
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        let address = self.0.allocate(bytes)?;
        self.1.memory().insert(address, vec![0xff; bytes as usize]);
        Ok(address)
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        self.1.memory().remove(&address).expect("what was allocated");
        Ok(())
    }

    unsafe fn upload(&self, _: StreamName, target: u64, source: &[u8]) -> Result<()> {
        self.1.write(target, source)
    }

    unsafe fn download(&self, target: &mut [u8], source: u64) -> Result<()> {
        target.copy_from_slice(&self.1.read(source, target.len())?);
        Ok(())
    }

    unsafe fn copy(&self, target: u64, source: u64, bytes: u64) -> Result<()> {
        self.1.write(target, &self.1.read(source, bytes as usize)?)
    }

    unsafe fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<()> {
        self.1.write(address, &vec![value; bytes as usize])
    }

    fn load(&self, _code: &[u8]) -> Result<Arc<dyn DriverModule>> {
        Ok(Arc::new(CellsModule(Arc::clone(&self.1))))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn replays(&self) -> bool {
        true
    }

    unsafe fn launch_graph(&self, launches: &[(&dyn DriverKernel, RawLaunch<'_>)]) -> Result<Box<dyn LaunchGraph>> {
        if self.1.makes_none.load(Ordering::Relaxed) {
            return Err(Error::Driver { call: "graph", name: "none can be made".to_owned(), code: 1 });
        }
        let args = launches.iter().map(|(_, launch)| launch.args.to_vec()).collect();
        Ok(Box::new(CellsGraph { cells: Arc::clone(&self.1), args }))
    }

    fn record_event(&self, name: StreamName, again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        self.0.record_event(name, again)
    }
}

struct CellsModule(Arc<Cells>);

impl DriverModule for CellsModule {
    fn kernel(self: Arc<Self>, _info: &KernelInfo) -> Result<Box<dyn DriverKernel>> {
        Ok(Box::new(CellsKernel(Arc::clone(&self.0))))
    }

    fn set_variable(&self, _name: &'static str, _value: &[u8]) -> Result<()> {
        Ok(())
    }
}

struct CellsKernel(Arc<Cells>);

impl DriverKernel for CellsKernel {
    unsafe fn launch(&self, launch: &RawLaunch<'_>) -> Result<(), LaunchFailure> {
        self.0.run(launch.args).map_err(LaunchFailure::Rejected)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct CellsGraph {
    cells: Arc<Cells>,
    args: Vec<Vec<u8>>,
}

impl LaunchGraph for CellsGraph {
    fn set(&mut self, number: usize, launch: &RawLaunch<'_>) -> Result<()> {
        if !self.cells.forgets.load(Ordering::Relaxed) {
            self.args[number] = launch.args.to_vec();
        }
        Ok(())
    }

    unsafe fn replay(&mut self) -> Result<()> {
        self.args.iter().try_for_each(|args| self.cells.run(args))?;
        if self.cells.is_wrong.load(Ordering::Relaxed) {
            let mut again = self.args.last().unwrap().clone();
            again.copy_within(8..16, 0);
            again[20..24].copy_from_slice(&2f32.to_le_bytes());
            self.cells.run(&again)?;
        }
        Ok(())
    }
}

/// Replays are not the default.
fn replaying() -> Config {
    Config::default().with_replay(true)
}

/// A device of that driver, and the kernel; `None` without a compiler, which the test says.
fn device(test: &str, config: Config) -> Option<(Device, Arc<Cells>, Function)> {
    let arch = rocfire_arch::Arch::parse("gfx942").unwrap();
    let cells = Arc::new(Cells::default());
    let driver = CellsDriver(Noop::new(arch), Arc::clone(&cells));
    let device = Device::with_driver(DeviceId::new(DriverKind::Noop, arch, 0), config, Arc::new(driver));
    let source = Source::new("scale", include_str!("../../../tests/kernels/scale.hip"), &[]);
    match device.module(&source) {
        Err(error @ Error::NoCompiler { .. }) => {
            println!("skipped {test}: {error}");
            None
        }
        module => Some((device, cells, module.unwrap().function("scale_f32").unwrap())),
    }
}

/// `y = factor · x` for all elements, as a launch of so many workgroups.
fn scale(function: &Function, x: &Buffer, y: &Buffer, factor: f32, groups: u32) -> Result<()> {
    let mut args = [x, y].map(|buffer| buffer.device_address().to_le_bytes()).as_flattened().to_vec();
    args.extend((COUNT as u32).to_le_bytes());
    args.extend(factor.to_le_bytes());
    let outputs = &[y][..];
    let (grid, block, work) = ([groups, 1, 1], [256, 1, 1], Work::default());
    let launch = Launch { label: "scale", grid, block, lds_bytes: 0, args: &args, outputs, work };
    // SAFETY: both buffers have so many elements; it writes one of them.
    unsafe { x.device().stream().launch(function, &launch) }
}

fn ones(device: &Device) -> Tensor {
    Tensor::from_bytes(device, &[COUNT], DType::F32, [1f32; COUNT].map(f32::to_le_bytes).as_flattened()).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_bytes().unwrap().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// A round of launches, each of what the one before wrote, into memory that goes when it was read; the last is kept.
fn round(device: &Device, function: &Function, factor: impl Fn(usize) -> f32, groups: u32) -> Tensor {
    device.stream().together(|| {
        let mut x = ones(device);
        for at in 0..ROUND {
            let y = Tensor::empty(device, &[COUNT], DType::F32).unwrap();
            scale(function, x.buffer(), y.buffer(), factor(at), groups).unwrap();
            x = y;
        }
        x
    })
}

/// What a round of such factors gives.
fn product(factor: impl Fn(usize) -> f32) -> Vec<f32> {
    vec![(0..ROUND).map(factor).product(); COUNT]
}

#[test]
fn launches_that_come_again_are_replayed_and_give_what_they_gave() {
    const TEST: &str = "launches_that_come_again_are_replayed_and_give_what_they_gave";
    const ROUNDS: usize = 18;
    let Some((device, _, function)) = device(TEST, replaying()) else { return };
    let mut kept = Vec::new();
    for at in 0..ROUNDS {
        // Addresses move behind some rounds, as what is kept has had them; one factor is another each time.
        let factor = |launch: usize| if launch == 7 { at as f32 } else { 1.5 };
        let last = round(&device, &function, factor, 1);
        assert_eq!(values(&last), product(factor), "round {at}");
        if at % 8 == 0 {
            kept.push(last);
        }
    }
    let replays = device.stream().replays();
    assert_eq!(device.stream().launches(), (ROUNDS * ROUND) as u64, "replayed ones are launches, too");
    assert!(replays.graphs >= 2 && replays.replays >= 4, "{replays:?}");
    assert!((1..replays.launches).contains(&replays.updates), "{replays:?}");
    assert_eq!(replays.refused, 0);
    assert_eq!(
        values(&kept[1]),
        product(|launch| if launch == 7 { 8.0 } else { 1.5 }),
        "nobody has written to it since"
    );
}

#[test]
fn nothing_is_replayed_where_that_is_off() {
    let config = replaying();
    for config in [config.clone().with_replay(false), config.with_sync(true)] {
        let Some((device, _, function)) = device("nothing_is_replayed_where_that_is_off", config) else { return };
        for _ in 0..6 {
            assert_eq!(values(&round(&device, &function, |_| 2.0, 1)), product(|_| 2.0));
        }
        assert_eq!(device.stream().replays(), Replays::default());
    }
}

#[test]
fn a_graph_that_gives_something_else_is_found_and_not_used() {
    const TEST: &str = "a_graph_that_gives_something_else_is_found_and_not_used";
    type Defect = fn(&Cells) -> &AtomicBool;
    let defects: [(Defect, bool); 3] =
        [(|cells| &cells.is_wrong, false), (|cells| &cells.forgets, true), (|cells| &cells.makes_none, false)];
    for (defect, is_made) in defects {
        let Some((device, cells, function)) = device(TEST, replaying()) else { return };
        defect(&cells).store(true, Ordering::Relaxed);
        for at in 0..8 {
            let factor = |launch: usize| if launch % 8 == 3 { at as f32 } else { 1.5 };
            assert_eq!(values(&round(&device, &function, factor, 1)), product(factor), "round {at}");
        }
        let replays = device.stream().replays();
        assert_eq!((replays.refused, replays.replays), (2, 0), "both segments: {replays:?}");
        assert_eq!(replays.graphs > 0, is_made || cells.is_wrong.load(Ordering::Relaxed), "{replays:?}");
        assert_eq!(device.stream().launches(), 8 * ROUND as u64);
    }
}

#[test]
fn each_shape_has_its_own_graph() {
    let Some((device, _, function)) = device("each_shape_has_its_own_graph", replaying()) else { return };
    for at in 0..24 {
        let factor = |launch: usize| if launch % 8 == 3 { at as f32 } else { 0.25 };
        assert_eq!(values(&round(&device, &function, factor, 1 + at as u32 % 3)), product(factor), "round {at}");
    }
    let replays = device.stream().replays();
    assert!(replays.replays > 0 && replays.graphs == 6, "{replays:?}");
}

#[test]
fn launches_whose_arguments_all_change_go_one_by_one() {
    const TEST: &str = "launches_whose_arguments_all_change_go_one_by_one";
    let Some((device, _, function)) = device(TEST, replaying()) else { return };
    for at in 0..12 {
        let factor = |launch: usize| (at + launch) as f32 * 0.25;
        assert_eq!(values(&round(&device, &function, factor, 1)), product(factor), "round {at}");
    }
    assert_eq!(device.stream().replays(), Replays::default());
}

#[test]
fn arguments_that_come_in_turns_have_a_graph_each() {
    const TEST: &str = "arguments_that_come_in_turns_have_a_graph_each";
    let Some((device, _, function)) = device(TEST, replaying()) else { return };
    for at in 0..24 {
        let factor = |launch: usize| (at % 3 + launch) as f32 * 0.25;
        assert_eq!(values(&round(&device, &function, factor, 1)), product(factor), "round {at}");
    }
    let replays = device.stream().replays();
    assert_eq!((replays.graphs, replays.updates), (6, 0), "{replays:?}");
    assert!(replays.replays >= 20, "{replays:?}");
}

#[test]
fn a_read_in_the_middle_sees_all_that_came_before() {
    const TEST: &str = "a_read_in_the_middle_sees_all_that_came_before";
    let Some((device, _, function)) = device(TEST, replaying()) else { return };
    let [x, y, z] = [(); 3].map(|()| ones(&device));
    for at in 0..8 {
        device.stream().together(|| {
            for _ in 0..4 {
                scale(&function, x.buffer(), y.buffer(), at as f32, 1).unwrap();
            }
            assert_eq!(values(&y), [at as f32; COUNT]);
            device.stream().fill(y.buffer(), 0, 0, 4).unwrap();
            for _ in 0..4 {
                scale(&function, y.buffer(), z.buffer(), 2.0, 1).unwrap();
            }
        });
        assert_eq!(values(&z), [0.0, 2.0 * at as f32, 2.0 * at as f32, 2.0 * at as f32]);
    }
    assert!(device.stream().replays().replays > 0);
}

#[test]
fn two_threads_share_a_stream() {
    let Some((device, _, function)) = device("two_threads_share_a_stream", replaying()) else { return };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (device, function) = (&device, &function);
            scope.spawn(move || {
                for at in 0..50 {
                    let factor = |launch: usize| (at + launch + thread) as f32 * 0.125;
                    assert_eq!(values(&round(device, function, factor, 1)), product(factor), "round {at}");
                }
            });
        }
    });
    assert_eq!(device.stream().launches(), 100 * ROUND as u64);
}

#[test]
fn what_fails_in_the_middle_is_told_of_at_the_next_read_and_poisons_what_it_writes() {
    const TEST: &str = "what_fails_in_the_middle_is_told_of_at_the_next_read_and_poisons_what_it_writes";
    let Some((device, cells, function)) = device(TEST, replaying()) else { return };
    let x = ones(&device);
    let launch = |from: &Tensor, to: &Tensor| scale(&function, from.buffer(), to.buffer(), 2.0, 1).unwrap();
    let turn = |middle: &Tensor| {
        let written = [(); 3].map(|()| ones(&device));
        device.stream().together(|| {
            launch(&x, &written[0]);
            launch(middle, &written[1]);
            launch(&x, &written[2]);
        });
        written
    };
    (0..5).for_each(|_| drop(turn(&x)));
    assert!(device.stream().replays().replays > 0);
    // Memory of a segment of its own, which the driver takes back.
    let gone = Tensor::empty(&device, &[30 << 20], DType::U8).unwrap();
    let bytes = cells.memory().remove(&gone.buffer().device_address()).unwrap();
    let [first, second, third] = turn(&gone);
    cells.memory().insert(gone.buffer().device_address(), bytes);
    let message = third.to_bytes().unwrap_err().to_string();
    assert!(message.contains("scale_f32") && message.contains("is not live"), "{message}");
    assert!(second.to_bytes().is_err() && third.to_bytes().is_err(), "they stay poisoned");
    assert_eq!(values(&first), [2.0; COUNT], "what came before is there");
    for written in turn(&x) {
        assert_eq!(values(&written), [2.0; COUNT]);
    }
    assert_eq!(device.stream().replays().refused, 1);
}

#[test]
fn memory_goes_back_to_the_driver_after_what_is_held_has_used_it() {
    const TEST: &str = "memory_goes_back_to_the_driver_after_what_is_held_has_used_it";
    let Some((device, _, function)) = device(TEST, replaying().with_pool_mb(44)) else { return };
    let x = ones(&device);
    for large in [30 << 20, 40 << 20].into_iter().cycle().take(8) {
        device.stream().together(|| {
            // Its segment goes while the launch may wait: the pool has no room for both sizes.
            let y = Tensor::empty(&device, &[large], DType::U8).unwrap();
            scale(&function, x.buffer(), y.buffer(), 2.0, 1).unwrap();
        });
        device.stream().together(|| {
            let y = Tensor::empty(&device, &[large], DType::U8).unwrap();
            scale(&function, x.buffer(), y.buffer(), 2.0, 1).unwrap();
            drop(y);
            let z = Tensor::empty(&device, &[70 << 20 >> 1], DType::U8).unwrap();
            scale(&function, x.buffer(), z.buffer(), 2.0, 1).unwrap();
            scale(&function, x.buffer(), z.buffer(), 3.0, 1).unwrap();
        });
        device.trim_memory().unwrap();
        device.sync().unwrap();
    }
}
