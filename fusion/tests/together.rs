//! Small launches of one kernel share a launch, and nobody sees that they waited.

use rocfire_fusion::{Draft, Graph, Reduce, Scalar, eager, run};
use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};

fn device() -> Device {
    let id = DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED).unwrap();
    Device::open(id, Config::from_env().unwrap()).unwrap()
}

/// `x · s + 1`.
fn scaled() -> Graph {
    Draft::graph("scaled", |g| g.input(DType::F32) * g.scalar(DType::F32) + 1.0)
}

fn tensor(device: &Device, shape: &[usize], first: f32) -> Tensor {
    let count = shape.iter().product::<usize>();
    let bytes: Vec<u8> = (0..count).flat_map(|i| (first + i as f32).to_le_bytes()).collect();
    Tensor::from_bytes(device, shape, DType::F32, &bytes).unwrap()
}

fn read(tensor: &Tensor) -> Vec<f32> {
    tensor.to_bytes().unwrap().chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn scale(graph: &Graph, x: &Tensor, by: f64) -> Tensor {
    let mut y = Tensor::empty(x.device(), x.shape(), DType::F32).unwrap();
    let device = x.device();
    run(device.stream(), graph, x.shape(), &[x.view()], &[Scalar::Float(by)], &mut [y.view_mut()]).unwrap();
    y
}

#[test]
fn launches_of_one_kernel_are_one() {
    let (device, graph) = (device(), scaled());
    let shapes: [&[usize]; 5] = [&[7], &[3, 1000], &[1], &[2, 3, 4], &[4100]];
    let inputs: Vec<Tensor> =
        shapes.iter().zip(0..).map(|(shape, at)| tensor(&device, shape, 100.0 * at as f32)).collect();
    let before = device.launches();
    let outputs: Vec<Tensor> = inputs.iter().zip(2..).map(|(x, by)| scale(&graph, x, f64::from(by))).collect();
    assert_eq!(device.launches() - before, 1);
    for ((x, y), by) in inputs.iter().zip(&outputs).zip(2..) {
        let expected: Vec<f32> = read(x).iter().map(|x| x * by as f32 + 1.0).collect();
        assert_eq!(read(y), expected, "{:?}", x.shape());
    }
}

#[test]
fn reductions_of_one_schedule_are_one_launch() {
    let device = device();
    let inputs = [tensor(&device, &[5, 36], 0.0), tensor(&device, &[200, 40], 1.0)];
    let before = device.launches();
    let sums = inputs.each_ref().map(|x| eager::reduce_last(Reduce::Sum, x).unwrap());
    assert_eq!(device.launches() - before, 1);
    for (x, sum) in inputs.iter().zip(&sums) {
        let columns = x.shape()[1];
        let expected: Vec<f32> = read(x).chunks(columns).map(|row| row.iter().sum()).collect();
        assert_eq!(read(sum), expected);
    }
}

#[test]
fn what_is_read_or_written_next_comes_after_what_waits() {
    let (device, graph) = (device(), scaled());
    let mut x = tensor(&device, &[50], 0.0);
    let y = scale(&graph, &x, 2.0);
    // Reads what waits: twice the same kernel, one behind the other.
    let z = scale(&graph, &y, 3.0);
    // Overwrites what the first launch reads.
    eager::fill(x.view_mut(), Scalar::Float(-1.0)).unwrap();
    let again = scale(&graph, &x, 2.0);
    assert_eq!(read(&z)[..3], [4.0, 10.0, 16.0]);
    assert_eq!(read(&again)[0], -1.0);
    device.stream().fill(x.buffer(), 0, 0, x.buffer().bytes()).unwrap();
    assert_eq!(read(&scale(&graph, &x, 2.0))[0], 1.0);
}

#[test]
fn a_handle_of_what_waits_counts_for_nobody() {
    let (device, graph) = (device(), scaled());
    let x = tensor(&device, &[50], 0.0);
    let y = scale(&graph, &x, 2.0);
    assert!(x.is_unique() && y.is_unique());
    drop(x);
    // The memory of the input is not handed out again before it was read.
    let other = tensor(&device, &[50], 1000.0);
    assert_eq!(read(&y)[1], 3.0);
    assert_eq!(read(&other)[0], 1000.0);
}

#[test]
fn parts_of_one_memory_that_are_apart_share_a_launch() {
    let device = device();
    let (whole, sources) =
        (tensor(&device, &[4, 12], 0.0), [100.0, 200.0].map(|first| tensor(&device, &[4, 6], first)));
    let before = device.launches();
    for (source, start) in sources.iter().zip([0, 6]) {
        let layout = whole.layout().slice(1, start, start + 6, 1).unwrap();
        eager::copy_into(source.view(), whole.with_layout(layout).unwrap().view_mut()).unwrap();
    }
    assert_eq!(read(&whole)[..13], [100., 101., 102., 103., 104., 105., 200., 201., 202., 203., 204., 205., 106.]);
    assert_eq!(device.launches() - before, 1);
    // One column in common: the later one wins.
    for (source, start) in sources.iter().zip([0, 5]) {
        let layout = whole.layout().slice(1, start, start + 6, 1).unwrap();
        eager::copy_into(source.view(), whole.with_layout(layout).unwrap().view_mut()).unwrap();
    }
    assert_eq!(read(&whole)[4..6], [104., 200.]);
    assert_eq!(device.launches() - before, 3);
}

#[test]
fn a_launch_like_the_last_reads_its_own_memory_and_scalars() {
    let (device, graph) = (device(), scaled());
    let long = tensor(&device, &[70], 0.0);
    // The same, memory at another distance from whole accesses, other extents, the first again.
    for (start, count, by) in [(0, 64, 2.0), (0, 64, 3.0), (4, 64, 4.0), (1, 64, 5.0), (0, 61, 6.0), (0, 64, 7.0)] {
        let x = long.with_layout(long.layout().slice(0, start, start + count, 1).unwrap()).unwrap();
        let expected: Vec<f32> = (start..start + count).map(|at| at as f32 * by as f32 + 1.0).collect();
        assert_eq!(read(&scale(&graph, &x, by)), expected, "from {start}");
    }
}
