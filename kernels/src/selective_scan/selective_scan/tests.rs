use super::*;
use crate::testing::{Lie, Numbers, device, device_without_index_checks, read, tensor};
use rocfire_hal::{Config, Device, Tensor};

const F32: DType = DType::F32;

fn numbers(device: &Device, shape: &[usize], seed: u64) -> Tensor {
    let values: Vec<f64> = Numbers::new(seed).values(shape.iter().product(), F32).iter().map(|x| x / 8.0).collect();
    tensor(device, shape, F32, &values, Lie::Plain)
}

fn integers(device: &Device, values: &[i32]) -> Tensor {
    let values: Vec<f64> = values.iter().map(|&value| value.into()).collect();
    tensor(device, &[values.len()], DType::I32, &values, Lie::Plain)
}

/// x, dt, A, B, C of two groups and 20 numbers.
fn inputs(device: &Device, tokens: usize, dim: usize) -> [Tensor; 5] {
    let shapes = [vec![tokens, dim], vec![tokens, dim], vec![dim, 20], vec![tokens, 2, 20], vec![tokens, 2, 20]];
    let mut seed = 0;
    shapes.map(|shape| {
        seed += 1;
        numbers(device, &shape, seed)
    })
}

fn run(of: &[Tensor; 5], state: &mut Tensor, starts: &[i32], slots: &[i32]) -> crate::Result<Tensor> {
    let [x, dt, a, b, c] = of.each_ref().map(Tensor::view);
    let device = of[0].device();
    let (starts, slots) = (integers(device, starts), integers(device, slots));
    let mut out = numbers(device, x.shape(), 99);
    let sequences = Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: None };
    let inputs = SelectiveScan { x, dt, a, b, c, d: None, z: Some(x), dt_bias: None, is_softplus: true, sequences };
    selective_scan(device.stream(), &inputs, state.view_mut(), out.view_mut())?;
    Ok(out)
}

#[test]
fn a_sequence_in_parts_and_in_a_batch_gives_the_bits_of_the_whole() {
    let device = device();
    let (tokens, dim) = (23, 66);
    let all = inputs(&device, tokens, dim);
    let rows = |begin: usize, end: usize| {
        let part = |tensor: &Tensor| {
            if tensor.shape()[0] != tokens {
                return tensor.clone();
            }
            tensor.with_layout(tensor.layout().slice(0, begin, end, 1).unwrap()).unwrap()
        };
        all.each_ref().map(part)
    };
    let make = || numbers(&device, &[3, dim, 20], 9);
    let mut whole_state = make();
    let whole = read(&run(&all, &mut whole_state, &[0, 23], &[1]).unwrap());
    for parts in [&[1_usize; 23][..], &[5, 0, 18], &[22, 1]] {
        let (mut state, mut begin, mut got) = (make(), 0, Vec::new());
        for &part in parts {
            got.extend(read(&run(&rows(begin, begin + part), &mut state, &[0, part as i32], &[1]).unwrap()));
            begin += part;
        }
        assert_eq!(got, whole, "{parts:?}");
        assert_eq!(read(&state), read(&whole_state), "{parts:?}");
    }
    let (mut state, mut alone) = (make(), make());
    let got = read(&run(&all, &mut state, &[0, 4, 15, 23], &[0, 1, 2]).unwrap());
    let own = read(&run(&rows(4, 15), &mut alone, &[0, 11], &[1]).unwrap());
    assert_eq!(got[4 * dim..15 * dim], own);
}

#[test]
fn slots_and_starts_that_are_not_there_touch_nothing() {
    let device = device_without_index_checks();
    let of = inputs(&device, 6, 6);
    for slot in [-1, i32::MIN, 3, i32::MAX] {
        let mut state = numbers(&device, &[3, 6, 20], 9);
        let before = read(&state);
        assert_eq!(read(&run(&of, &mut state, &[0, 2, 6], &[slot, slot]).unwrap()), [0.0; 36], "slot {slot}");
        assert_eq!(read(&state), before, "slot {slot}");
    }
    let run_from = |starts: &[i32]| {
        let mut state = numbers(&device, &[3, 6, 20], 9);
        read(&run(&of, &mut state, starts, &[0, 1]).unwrap())
    };
    assert_eq!(run_from(&[-7, 3, i32::MAX]), run_from(&[0, 3, 6]));
    run_from(&[i32::MAX, i32::MIN, 4]);
}

#[test]
fn wrong_arguments_are_refused_before_any_launch() {
    // A device of its own, whose launches are those of this test.
    let device = Device::open(device().id(), Config::from_env().unwrap()).unwrap();
    let all = inputs(&device, 6, 6);
    let launches = device.launches();
    let refused = |which: usize, shape: &[usize], part: &str| {
        let (mut of, mut state) = (all.clone(), numbers(&device, &[3, 6, 20], 9));
        let changed = numbers(&device, shape, 1);
        if which < 5 {
            of[which] = changed
        } else {
            state = changed
        }
        let error = run(&of, &mut state, &[0, 6], &[0]).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(0, &[36], "x must be [tokens, dim]");
    refused(1, &[6, 5], "dt must be [6, 6]");
    refused(2, &[6, 257], "a must be [dim, 1 to 256]");
    refused(2, &[5, 20], "a must be [6, 20]");
    refused(3, &[6, 4, 20], "b must be of a number of groups");
    refused(4, &[6, 2, 19], "c must be [6, 2, 20]");
    refused(5, &[3, 6, 16], "state must be [3, 6, 20]");
    let mut state = numbers(&device, &[3, 6, 20], 9);
    assert!(run(&all, &mut state, &[], &[]).unwrap_err().to_string().contains("starts must be"));
    assert!(run(&all, &mut state, &[0, 6], &[0, 1]).unwrap_err().to_string().contains("slots must be [1]"));
    assert_eq!(device.launches(), launches);
}
