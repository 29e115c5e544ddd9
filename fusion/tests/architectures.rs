//! Every schedule compiles for every family of GPU, without one.

use rocfire_fusion::{Binary, Draft, Graph, Reduce, Unary, eager, run};
use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};

fn softmax() -> Graph {
    Draft::graph("softmax", |g| {
        let x = g.input(DType::F32);
        let exp = (x - x.reduce(Reduce::Max)).unary(Unary::Exp);
        exp / exp.reduce(Reduce::Sum)
    })
}

#[test]
fn every_schedule_compiles_for_every_family() {
    let graph = softmax();
    for arch in ["gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"] {
        let device = Device::open(DeviceId::noop(arch).unwrap(), Config::from_env().unwrap()).unwrap();
        let launch = |shape: [usize; 2], transposed: bool| {
            let x = Tensor::empty(&device, &shape, DType::F32).unwrap();
            let mut y = Tensor::empty(&device, &shape, DType::F32).unwrap();
            let layout = if transposed { x.layout().permute(&[1, 0]).unwrap() } else { *x.layout() };
            let x = x.with_layout(layout).unwrap();
            let mut y_view = y.view_mut();
            if transposed {
                y_view = y_view.with_layout(layout).unwrap();
            }
            run(device.stream(), &graph, layout.shape(), &[x.view()], &[], &mut [y_view]).unwrap();
        };
        launch([4, 100], false);
        for cols in [2000, 4000, 8000, 9000, 9001] {
            launch([4, cols], false);
        }
        launch([100, 40], true);
        // Shared out: two reductions in two launches each, the quotients; of two columns a lane, and of one.
        launch([16_400, 16], true);
        launch([16_400, 17], true);
        let long = Tensor::empty(&device, &[100_000], DType::F32).unwrap();
        eager::reduce_last(Reduce::Sum, &long).unwrap();
        eager::binary(Binary::Add, &long, &long).unwrap();
        let square = Tensor::empty(&device, &[64, 64], DType::BF16).unwrap();
        eager::copy(&square.with_layout(square.layout().permute(&[1, 0]).unwrap()).unwrap()).unwrap();
        // Softmax in seven schedules and twice shared out, the sum in two launches, the addition, the transposition.
        assert_eq!(device.launches(), 21, "{arch}");
    }
}

/// Offsets of 64 bits are another kernel of the same graph.
#[test]
fn a_tensor_of_more_than_4_gib_takes_64_bit_offsets() {
    let device = Device::open(DeviceId::noop("gfx942").unwrap(), Config::from_env().unwrap()).unwrap();
    let one = Tensor::empty(&device, &[1 << 16, 1 << 15], DType::F32).unwrap();
    eager::unary(Unary::Neg, &one).unwrap();
    eager::reduce_last(Reduce::Sum, &one).unwrap();
    assert_eq!(device.launches(), 2);
}
