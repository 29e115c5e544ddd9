//! Several devices: ranks in threads as models of Candle split over devices have them, and in one thread's groups.
//!
//! There are always enough emulated devices; on GPUs (`ROCFIRE_DEVICE=hip:0`) these tests need two.

use std::sync::Arc;

use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, D, Device, Layout, Result, Shape, Tensor, backend::BackendStorage,
};
use cudarc::driver::{CudaContext, CudaStream};
use cudarc::nccl::{Comm, Id, ReduceOp, group_end, group_start};

fn streams(count: usize) -> Vec<Arc<CudaStream>> {
    (0..count).map(|ordinal| CudaContext::new(ordinal).unwrap().default_stream()).collect()
}

/// The sum over all ranks, as a custom operator of Candle.
struct AllReduce(Comm);

impl CustomOp1 for AllReduce {
    fn name(&self) -> &'static str {
        "all-reduce"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        candle_core::bail!("on devices only")
    }

    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let device = storage.device().clone();
        let source = storage.as_cuda_slice::<f32>()?;
        let source = source.slice(layout.start_offset()..layout.start_offset() + layout.shape().elem_count());
        // SAFETY: all of it is written by the next call.
        let mut target = unsafe { device.alloc::<f32>(layout.shape().elem_count())? };
        self.0.all_reduce(&source, &mut target, &ReduceOp::Sum).map_err(candle_core::Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(target, device), layout.shape().clone()))
    }
}

#[test]
fn a_product_split_over_devices_is_the_whole_product() -> Result<()> {
    let (rows, inner, columns, ranks) = (5, 24, 7, 2);
    let x = Tensor::randn(0f32, 1., (rows, inner), &Device::Cpu)?;
    let weight = Tensor::randn(0f32, 1., (inner, columns), &Device::Cpu)?;
    let expected = (x.matmul(&weight)?.relu()? * 0.5)?.to_vec2::<f32>()?;
    let id = Id::new().expect("ids need a device only");
    let got = std::thread::scope(|scope| {
        let part = |rank: usize| {
            let (x, weight) = (x.clone(), weight.clone());
            // The id goes to the others as bytes.
            let id = Id::uninit(*id.internal());
            scope.spawn(move || -> Result<Vec<Vec<f32>>> {
                let device = Device::new_cuda(rank)?;
                let comm = Comm::from_rank(device.as_cuda_device()?.cuda_stream(), rank, ranks, id);
                let comm = comm.map_err(candle_core::Error::wrap)?;
                assert_eq!((comm.rank(), comm.world_size(), comm.ordinal()), (rank, ranks, rank));
                let own = inner / ranks;
                let x = x.narrow(D::Minus1, rank * own, own)?.contiguous()?.to_device(&device)?;
                let weight = weight.narrow(0, rank * own, own)?.to_device(&device)?;
                // Before and after it are launches that wait to be put together.
                let product = x.matmul(&weight)?.apply_op1_no_bwd(&AllReduce(comm))?;
                (product.relu()? * 0.5)?.to_vec2::<f32>()
            })
        };
        let threads: Vec<_> = (0..ranks).map(part).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect::<Result<Vec<_>>>()
    })?;
    for rank in &got {
        for (row, expected) in rank.iter().zip(&expected) {
            for (value, expected) in row.iter().zip(expected) {
                assert!((value - expected).abs() <= 1e-5, "{value} instead of {expected}");
            }
        }
    }
    assert_eq!(got[0], got[1], "ranks have the same bits");
    Ok(())
}

#[test]
fn one_thread_has_several_ranks_in_a_group() {
    let count = CudaContext::device_count().unwrap().min(3);
    let streams = streams(count as usize);
    let comms = Comm::from_devices(streams.clone()).unwrap();
    let own = |rank: i32| [rank + 1, 10 * (rank + 1)];
    let mut slices: Vec<_> =
        streams.iter().zip(0..).map(|(stream, rank)| stream.clone_htod(&own(rank)).unwrap()).collect();
    let mut all: Vec<_> = streams.iter().map(|stream| stream.alloc_zeros::<i32>(2 * comms.len()).unwrap()).collect();
    group_start().unwrap();
    for ((comm, slice), all) in comms.iter().zip(&mut slices).zip(&mut all) {
        comm.all_gather(slice, all).unwrap();
        comm.all_reduce_in_place(slice, &ReduceOp::Sum).unwrap();
    }
    group_end().unwrap();
    let sum = (0..count).map(|rank| rank + 1).sum::<i32>();
    for ((stream, slice), all) in streams.iter().zip(&slices).zip(&all) {
        assert_eq!(stream.clone_dtoh(all).unwrap(), (0..count).map(own).collect::<Vec<_>>().concat());
        assert_eq!(stream.clone_dtoh(slice).unwrap(), [sum, 10 * sum]);
    }
}

#[test]
fn every_call_gives_what_its_name_says() {
    let streams = streams(2);
    let comms = Comm::from_devices(streams.clone()).unwrap();
    let upload = |values: [[f32; 4]; 2]| {
        let slice = |rank: usize| streams[rank].clone_htod(&values[rank]).unwrap();
        [slice(0), slice(1)]
    };
    let zeros = |len: usize| [0, 1].map(|rank| streams[rank].alloc_zeros::<f32>(len).unwrap());
    let own = [[1f32, 2., 3., 4.], [5., 6., 7., 9.]];
    let read = |slices: &[cudarc::driver::CudaSlice<f32>; 2]| {
        [0, 1].map(|rank| streams[rank].clone_dtoh(&slices[rank]).unwrap())
    };
    let sources = upload(own);
    let together = |calls: &mut dyn FnMut(usize)| {
        group_start().unwrap();
        (0..2).for_each(&mut *calls);
        group_end().unwrap();
    };

    let mut got = zeros(4);
    together(&mut |rank| {
        comms[rank].all_reduce(&sources[rank], &mut got[rank], &ReduceOp::Max).unwrap();
    });
    assert_eq!(read(&got), [own[1], own[1]]);

    let mut got = zeros(4);
    together(&mut |rank| {
        let source = (rank == 1).then_some(&sources[1]);
        comms[rank].broadcast(source, &mut got[rank], 1).unwrap();
    });
    assert_eq!(read(&got), [own[1], own[1]]);

    let mut got = upload(own);
    together(&mut |rank| {
        comms[rank].broadcast_in_place(&mut got[rank], 0).unwrap();
    });
    assert_eq!(read(&got), [own[0], own[0]]);

    let mut got = zeros(4);
    together(&mut |rank| {
        let target = if rank == 0 { Some(&mut got[0]) } else { None };
        comms[rank].reduce(&sources[rank], target, &ReduceOp::Prod, 0).unwrap();
    });
    assert_eq!(read(&got), [[5., 12., 21., 36.], [0.; 4]]);

    let mut got = upload(own);
    together(&mut |rank| {
        comms[rank].reduce_in_place(&mut got[rank], &ReduceOp::Min, 0).unwrap();
    });
    // The other rank's place is nobody's business.
    assert_eq!(read(&got)[0], own[0]);

    let mut got = zeros(2);
    together(&mut |rank| {
        comms[rank].reduce_scatter(&sources[rank], &mut got[rank], &ReduceOp::Avg).unwrap();
    });
    assert_eq!(read(&got), [[3., 4.], [5., 6.5]]);

    // Views, to each other and at once.
    let mut got = zeros(4);
    let [left, right] = &mut got;
    {
        let mut first = comms[0].group();
        let mut second = comms[1].group();
        first.send(sources[0].slice(1..3), 1).unwrap();
        first.recv(left.slice_mut(2..4), 1).unwrap();
        second.send(sources[1].slice(0..2), 0).unwrap();
        second.recv(right.slice_mut(0..2), 0).unwrap();
    }
    assert_eq!(read(&got), [[0., 0., 5., 6.], [2., 3., 0., 0.]]);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let streams = streams(2);
    let comms = Comm::from_devices(streams.clone()).unwrap();
    let source = streams[0].clone_htod(&[1f32, 2.]).unwrap();
    let mut short = streams[0].alloc_zeros::<f32>(1).unwrap();
    let text = |outcome: std::result::Result<_, cudarc::nccl::result::NcclError>| {
        let outcome: std::result::Result<cudarc::nccl::result::NcclStatus, _> = outcome;
        outcome.unwrap_err().to_string()
    };
    assert!(text(comms[0].all_reduce(&source, &mut short, &ReduceOp::Sum)).contains("recvbuff has 4 bytes"));
    assert!(text(comms[0].recv(&mut short, -1)).contains("negative"));
    assert!(text(comms[0].recv(&mut short, 2)).contains("below 2"));
    assert!(text(comms[0].broadcast(None::<&cudarc::driver::CudaSlice<f32>>, &mut short, 0)).contains("source"));
    let foreign = streams[1].clone_htod(&[1f32, 2.]).unwrap();
    let mut target = streams[0].alloc_zeros::<f32>(2).unwrap();
    assert!(text(comms[0].all_reduce(&foreign, &mut target, &ReduceOp::Sum)).contains("source is on"));
    assert!(group_end().unwrap_err().to_string().contains("without a group_start"));
    assert!(Comm::from_devices(Vec::new()).is_err());
    assert!(Comm::from_rank(Arc::clone(&streams[0]), 2, 2, Id::new().unwrap()).is_err());
}

#[test]
fn nothing_is_exchanged_of_nothing() {
    let streams = streams(2);
    let comms = Comm::from_devices(streams.clone()).unwrap();
    let empty = streams[0].alloc_zeros::<f32>(0).unwrap();
    let mut none = streams[0].alloc_zeros::<f32>(0).unwrap();
    comms[0].all_reduce(&empty, &mut none, &ReduceOp::Sum).unwrap();
    assert!(streams[0].clone_dtoh(&none).unwrap().is_empty());
}
