//! Ranks on emulated devices, in threads and in one thread's groups.

use super::*;
use crate::{Config, DeviceId};

fn devices(count: usize) -> Vec<Device> {
    let open = |_| Device::open(DeviceId::emulated("gfx942").unwrap(), Config::default()).unwrap();
    (0..count).map(open).collect()
}

fn join(devices: &[Device]) -> Vec<Communicator> {
    let id = UniqueId::new(&devices[0]).unwrap();
    let ranks: Vec<_> = devices.iter().zip(0..).collect();
    Communicator::join_all(&ranks, &id, devices.len()).unwrap()
}

fn upload(device: &Device, bytes: &[u8]) -> Buffer {
    let buffer = Buffer::new(device, bytes.len() as u64).unwrap();
    device.stream().copy_to_device(bytes, &buffer, 0).unwrap();
    buffer
}

fn floats(device: &Device, values: &[f32]) -> Buffer {
    upload(device, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

fn read(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.device().stream().copy_to_host(buffer, 0, &mut bytes).unwrap();
    bytes
}

fn read_floats(buffer: &Buffer) -> Vec<f32> {
    read(buffer).chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn call<'a>(kind: Kind, count: usize, source: &'a Buffer, target: &'a Buffer) -> Call<'a> {
    Call { kind, dtype: DType::F32, count, source: Some((source, 0)), target: Some((target, 0)) }
}

#[test]
fn every_kind_gives_each_rank_what_it_should_have() {
    let devices = devices(3);
    let ranks = join(&devices);
    // Rank r has 10 r + 0 .. 10 r + 5.
    let own = |rank: usize| (0..6).map(|index| (10 * rank + index) as f32).collect::<Vec<f32>>();
    let sources: Vec<Buffer> = (0..3).map(|rank| floats(&devices[rank], &own(rank))).collect();
    let run = |kind: Kind, count: usize, elements: usize| -> Vec<Vec<f32>> {
        let targets: Vec<Buffer> = devices.iter().map(|device| floats(device, &vec![-1.0; elements])).collect();
        let calls: Vec<_> =
            (0..3).map(|rank| (&ranks[rank], call(kind, count, &sources[rank], &targets[rank]))).collect();
        group(&calls).unwrap();
        targets.iter().map(read_floats).collect()
    };
    let over =
        |f: &dyn Fn(f32, f32, f32) -> f32| (0..6).map(|i| f(own(0)[i], own(1)[i], own(2)[i])).collect::<Vec<_>>();
    let reductions = [
        (Reduction::Sum, over(&|a, b, c| a + b + c)),
        (Reduction::Prod, over(&|a, b, c| a * b * c)),
        (Reduction::Max, own(2)),
        (Reduction::Min, own(0)),
        (Reduction::Avg, own(1)),
    ];
    let untouched = vec![-1.0; 6];
    for (reduction, expected) in reductions {
        assert_eq!(run(Kind::AllReduce(reduction), 6, 6), vec![expected.clone(); 3], "{reduction:?}");
        let reduced = run(Kind::Reduce { root: 1, reduction }, 6, 6);
        assert_eq!(reduced, [untouched.clone(), expected.clone(), untouched.clone()], "{reduction:?}");
        let scattered = run(Kind::ReduceScatter(reduction), 2, 2);
        assert_eq!(scattered.concat(), expected, "{reduction:?}");
    }
    assert_eq!(run(Kind::Broadcast { root: 2 }, 6, 6), vec![own(2); 3]);
    assert_eq!(run(Kind::AllGather, 6, 18), vec![[own(0), own(1), own(2)].concat(); 3]);
}

#[test]
fn a_ring_of_sends_and_receives_is_one_group() {
    let devices = devices(3);
    let ranks = join(&devices);
    let sources: Vec<Buffer> = (0..3).map(|rank| floats(&devices[rank], &[rank as f32, 0.5])).collect();
    let targets: Vec<Buffer> = devices.iter().map(|device| floats(device, &[9.0; 3])).collect();
    let mut calls = Vec::new();
    for rank in 0..3 {
        let part = |kind| Call { target: Some((&targets[rank], 4)), ..call(kind, 2, &sources[rank], &targets[rank]) };
        calls.push((&ranks[rank], part(Kind::Send { to: (rank + 1) % 3 })));
        calls.push((&ranks[rank], part(Kind::Recv { from: (rank + 2) % 3 })));
    }
    group(&calls).unwrap();
    let got: Vec<_> = targets.iter().map(read_floats).collect();
    assert_eq!(got, [[9.0, 2.0, 0.5], [9.0, 0.0, 0.5], [9.0, 1.0, 0.5]]);
}

#[test]
fn threads_reduce_every_type_in_place() {
    // Three ranks with these bytes in every element; what the sums are is known by hand.
    type Case<'a> = (DType, [&'a [u8]; 3], &'a [u8]);
    let cases: [Case<'_>; 9] = [
        (DType::F64, [&1f64.to_le_bytes(), &2f64.to_le_bytes(), &0.5f64.to_le_bytes()], &3.5f64.to_le_bytes()),
        // In f32 one after the other the ones would be lost; rounded once they are not.
        (DType::F32, [&1e8f32.to_le_bytes(), &4f32.to_le_bytes(), &4f32.to_le_bytes()], &100_000_008f32.to_le_bytes()),
        (DType::F16, [&[0x00, 0x3c], &[0x00, 0x40], &[0x00, 0x44]], &[0x00, 0x47]),
        (DType::BF16, [&[0x80, 0x3f], &[0x00, 0x40], &[0x80, 0x40]], &[0xe0, 0x40]),
        (
            DType::I64,
            [&(-5i64).to_le_bytes(), &2i64.to_le_bytes(), &i64::MIN.to_le_bytes()],
            &(i64::MAX - 2).to_le_bytes(),
        ),
        (DType::I32, [&i32::MAX.to_le_bytes(), &1i32.to_le_bytes(), &0i32.to_le_bytes()], &i32::MIN.to_le_bytes()),
        (DType::I8, [&[0xff], &[0xff], &[0x05]], &[0x03]),
        (DType::U64, [&u64::MAX.to_le_bytes(), &1u64.to_le_bytes(), &7u64.to_le_bytes()], &7u64.to_le_bytes()),
        (DType::U8, [&[200], &[100], &[1]], &[45]),
    ];
    let devices = devices(3);
    let id = UniqueId::new(&devices[0]).unwrap();
    let count = 5;
    std::thread::scope(|scope| {
        for (rank, device) in devices.iter().enumerate() {
            let cases = &cases;
            scope.spawn(move || {
                let communicator = Communicator::join(device, &id, rank, 3).unwrap();
                for (dtype, parts, sum) in cases {
                    let buffer = upload(device, &parts[rank].repeat(count));
                    let place = Some((&buffer, 0));
                    let kind = Kind::AllReduce(Reduction::Sum);
                    communicator.run(&Call { kind, dtype: *dtype, count, source: place, target: place }).unwrap();
                    assert_eq!(read(&buffer), sum.repeat(count), "{dtype}");
                }
            });
        }
    });
}

#[test]
fn integers_are_averaged_without_the_rest() {
    let of = |values: [i32; 2]| values.map(i32::to_le_bytes);
    let parts = of([-7, 2]);
    let got = arithmetic::reduce(DType::I32, Reduction::Avg, &[&parts[0], &parts[1]]);
    assert_eq!(got, (-2i32).to_le_bytes());
    let nan = f32::NAN.to_le_bytes();
    let largest = arithmetic::reduce(DType::F32, Reduction::Max, &[&nan, &3f32.to_le_bytes()]);
    assert_eq!(largest, 3f32.to_le_bytes());
}

#[test]
fn no_elements_are_no_work() {
    let devices = devices(2);
    let ranks = join(&devices);
    let empty: Vec<Buffer> = devices.iter().map(|device| Buffer::new(device, 0).unwrap()).collect();
    let calls: Vec<_> = (0..2)
        .map(|rank| (&ranks[rank], call(Kind::AllReduce(Reduction::Sum), 0, &empty[rank], &empty[rank])))
        .collect();
    group(&calls).unwrap();
}

#[test]
fn ranks_and_ids_that_do_not_fit_are_named() {
    let devices = devices(2);
    let id = UniqueId::new(&devices[0]).unwrap();
    let text = |outcome: Result<Communicator>| outcome.unwrap_err().to_string();
    assert!(text(Communicator::join(&devices[0], &id, 2, 2)).contains("rank"));
    let _first = Communicator::join(&devices[0], &id, 0, 2).unwrap();
    assert!(text(Communicator::join(&devices[1], &id, 0, 2)).contains("nobody has yet"));
    assert!(text(Communicator::join(&devices[1], &id, 1, 3)).contains("world"));
    assert!(
        text(Communicator::join(&devices[1], &UniqueId([7; UNIQUE_ID_BYTES]), 1, 2)).contains("made by this process")
    );
    assert!(Communicator::join_all(&[], &id, 2).is_err());
}

#[test]
fn calls_that_do_not_fit_are_refused_before_anything_is_done() {
    let devices = devices(2);
    let ranks = join(&devices);
    let (own, foreign) = (floats(&devices[0], &[1.0; 4]), floats(&devices[1], &[1.0; 4]));
    let good = call(Kind::AllReduce(Reduction::Sum), 4, &own, &own);
    let text = |call: Call<'_>| ranks[0].run(&call).unwrap_err().to_string();
    assert!(text(Call { count: 5, ..good }).contains("at least 20 bytes"));
    assert!(text(Call { count: usize::MAX, ..good }).contains("count"));
    assert!(text(Call { dtype: DType::I16, ..good }).contains("dtype"));
    assert!(text(Call { source: None, ..good }).contains("source"));
    assert!(text(Call { kind: Kind::Send { to: 2 }, ..good }).contains("below 2"));
    assert!(matches!(ranks[0].run(&Call { source: Some((&foreign, 0)), ..good }), Err(Error::DeviceMismatch { .. })));
    // The other rank was never reached: both can still work.
    let calls = [(&ranks[0], good), (&ranks[1], call(Kind::AllReduce(Reduction::Sum), 4, &foreign, &foreign))];
    group(&calls).unwrap();
    assert_eq!(read_floats(&own), [2.0; 4]);
}

#[test]
fn ranks_that_differ_or_have_left_are_errors_and_no_wait() {
    let devices = devices(2);
    let mut ranks = join(&devices);
    let buffers: Vec<Buffer> = devices.iter().map(|device| floats(device, &[1.0; 4])).collect();
    let of = |rank: usize, kind| call(kind, 4, &buffers[rank], &buffers[rank]);
    let differing =
        [(&ranks[0], of(0, Kind::AllReduce(Reduction::Sum))), (&ranks[1], of(1, Kind::AllReduce(Reduction::Max)))];
    assert!(group(&differing).unwrap_err().to_string().contains("what another rank does"));
    drop(ranks.pop());
    let left = ranks[0].run(&of(0, Kind::Recv { from: 1 })).unwrap_err().to_string();
    assert!(left.contains("rank 1 has left"), "{left}");
}

#[test]
fn a_graph_takes_no_collective() {
    let devices = devices(1);
    let ranks = join(&devices);
    let buffer = floats(&devices[0], &[1.0; 4]);
    devices[0].begin_capture().unwrap();
    let refused = ranks[0].run(&call(Kind::AllReduce(Reduction::Sum), 4, &buffer, &buffer)).unwrap_err();
    assert!(matches!(refused, Error::Capture { .. }));
    assert!(devices[0].end_capture().is_err());
}
