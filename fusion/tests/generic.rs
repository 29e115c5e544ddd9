//! Kernels for rows of any length, which stand in for others until these are compiled: the same bits, and nobody waits.

mod support;

use rocfire_fusion::{Draft, Graph, Reduce, Scalar, Unary, run};
use rocfire_hal::{Config, DType, Device, Generic, Tensor};

/// Of a wave's kernels, of those that keep a row in registers, and at the limits between them; the last is of two chunks, and not packed.
const EXTENTS: [usize; 14] = [1, 3, 63, 64, 65, 257, 512, 1000, 1024, 1025, 2048, 4099, 8192, 8201];

fn device(folder: &tempfile::TempDir, generic: Generic) -> Device {
    let config = Config::default().with_cache_dir(folder.path().to_owned()).with_packs(Vec::new());
    Device::open(support::device_id(), config.with_generic(generic).with_compile_jobs(2)).unwrap()
}

/// Two reductions and a pass over the row behind them.
fn norm(dtype: DType) -> Graph {
    Draft::graph("norm", |g| {
        let x = g.input(dtype).cast(DType::F32);
        let centred = x - x.reduce(Reduce::Mean);
        let scale = (centred * centred).reduce(Reduce::Mean) + g.scalar(DType::F32);
        (centred * scale.unary(Unary::Rsqrt)).cast(dtype)
    })
}

/// Rows of values that round, of either sign, 1/8 to 8 in size.
fn rows(device: &Device, dtype: DType, rows: usize, extent: usize) -> Tensor {
    let bytes: Vec<u8> = (0..rows * extent)
        .flat_map(|i| {
            let (sign, bits) = ((i as u32 * 7 / 3) & 1, (i as u32).wrapping_mul(2_654_435_761));
            match dtype {
                DType::F16 => (((sign << 15) | (0x3000 + bits % 0x1800)) as u16).to_le_bytes().to_vec(),
                _ => ((sign << 31) | (0x3E00_0000 + bits % 0x0300_0000)).to_le_bytes().to_vec(),
            }
        })
        .collect();
    Tensor::from_bytes(device, &[rows, extent], dtype, &bytes).unwrap()
}

fn normed(graph: &Graph, x: &Tensor) -> Tensor {
    let mut y = Tensor::empty(x.device(), x.shape(), x.dtype()).unwrap();
    let device = x.device();
    run(device.stream(), graph, x.shape(), &[x.view()], &[Scalar::Float(1e-5)], &mut [y.view_mut()]).unwrap();
    y
}

fn sums(x: &Tensor) -> Vec<u8> {
    rocfire_fusion::eager::reduce_last(Reduce::Sum, x).unwrap().to_bytes().unwrap()
}

#[test]
fn they_give_the_bits_of_those_they_stand_in_for() {
    let folder = tempfile::tempdir().unwrap();
    let (own, generic) = (device(&folder, Generic::Never), device(&folder, Generic::Always));
    for dtype in [DType::F32, DType::F16] {
        let graph = norm(dtype);
        for extent in EXTENTS {
            let [a, b] = [&own, &generic].map(|device| rows(device, dtype, 5, extent));
            assert_eq!(
                normed(&graph, &a).to_bytes().unwrap(),
                normed(&graph, &b).to_bytes().unwrap(),
                "{dtype} {extent}"
            );
            assert_eq!(sums(&a), sums(&b), "{dtype} {extent}");
        }
    }
    // One kernel a graph in the place of one a schedule, and two of sums of rows that several workgroups share.
    let kernels = |device: &Device| device.compile_stats().compiled + device.compile_stats().cached;
    assert_eq!(kernels(&generic), 8);
    assert!(kernels(&own) > 16, "{}", kernels(&own));
}

#[test]
fn rows_that_do_not_lie_packed_and_empty_rows_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (own, generic) = (device(&folder, Generic::Never), device(&folder, Generic::Always));
    for extent in [7, 64, 900, 3000] {
        let [a, b] = [&own, &generic].map(|device| {
            let all = rows(device, DType::F32, 3, 2 * extent);
            let every_other = all.layout().slice(1, 1, extent, 2).unwrap();
            sums(&all.with_layout(every_other).unwrap())
        });
        assert_eq!(a, b, "{extent}");
    }
    let empty = Tensor::empty(&generic, &[4, 0], DType::F32).unwrap();
    assert_eq!(sums(&empty), [0; 16], "a sum of nothing");
}

/// Workgroups and threads of a launch.
fn launched(graph: &Graph, x: &Tensor) -> [u32; 2] {
    x.device().start_profile().unwrap();
    normed(graph, x);
    let timeline = x.device().take_profile().unwrap().unwrap();
    let [launch] = &timeline.launches[..] else { panic!("{} launches", timeline.launches.len()) };
    [launch.grid[0], launch.block[0]]
}

#[test]
fn they_run_until_the_others_are_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let first = device(&folder, Generic::First);
    let graph = norm(DType::F16);
    for (extent, own) in [(64, [1, 256]), (4096, [4, 128])] {
        let x = rows(&first, DType::F16, 4, extent);
        assert_eq!(launched(&graph, &x), [4, 256], "{extent}: a row a workgroup, a chain a thread");
        first.wait_for_compiles();
        assert_eq!(launched(&graph, &x), own, "{extent}");
    }
    assert_eq!(first.compiled(), 3);
    // What a process has compiled is at hand in the next.
    let next = device(&folder, Generic::First);
    assert_eq!(launched(&graph, &rows(&next, DType::F16, 4, 64)), [1, 256]);
}

#[test]
fn a_recording_waits_for_the_kernel_that_it_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let device = device(&folder, Generic::First);
    let (graph, x) = (norm(DType::F32), rows(&device, DType::F32, 4, 64));
    let mut y = Tensor::empty(&device, x.shape(), DType::F32).unwrap();
    device.begin_capture().unwrap();
    run(device.stream(), &graph, x.shape(), &[x.view()], &[Scalar::Float(1e-5)], &mut [y.view_mut()]).unwrap();
    let recorded = device.end_capture().unwrap();
    // SAFETY: both tensors are alive.
    unsafe { recorded.replay().unwrap() };
    assert_eq!(y.to_bytes().unwrap(), normed(&graph, &x).to_bytes().unwrap());
    assert_eq!(device.compiled(), 1, "no other kernel was needed");
}
