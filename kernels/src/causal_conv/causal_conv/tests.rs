use super::*;
use crate::testing::{Lie, Numbers, device, device_without_index_checks, read, tensor};
use rocfire_hal::{Config, Device, Error as HalError, Layout, Tensor};

fn numbers(device: &Device, shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    tensor(device, shape, dtype, &Numbers::new(seed).values(shape.iter().product(), dtype), Lie::Plain)
}

fn integers(device: &Device, values: &[i32]) -> Tensor {
    let values: Vec<f64> = values.iter().map(|&value| value.into()).collect();
    tensor(device, &[values.len()], DType::I32, &values, Lie::Plain)
}

/// Runs over whole tensors; what was written.
fn run(x: &Tensor, weight: &Tensor, state: &mut Tensor, starts: &[i32], slots: &[i32]) -> crate::Result<Tensor> {
    run_in(Window::First, x, weight, state, starts, slots)
}

fn run_in(
    window: Window<'_>,
    x: &Tensor,
    weight: &Tensor,
    state: &mut Tensor,
    starts: &[i32],
    slots: &[i32],
) -> crate::Result<Tensor> {
    let device = x.device();
    let (starts, slots) = (integers(device, starts), integers(device, slots));
    let mut out = numbers(device, x.shape(), x.dtype(), 99);
    let sequences = Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: None };
    let inputs = CausalConv { x: x.view(), weight: weight.view(), bias: None, sequences, window, is_silu: true };
    causal_conv(device.stream(), &inputs, state.view_mut(), out.view_mut())?;
    Ok(out)
}

#[test]
fn a_sequence_in_parts_gives_the_bits_of_the_whole() {
    let device = device();
    let (tokens, dim) = (61, 68);
    for (dtype, taps) in [(DType::BF16, 4), (DType::F32, 3), (DType::F16, 2)] {
        let x = numbers(&device, &[tokens, dim], dtype, 1);
        let weight = numbers(&device, &[dim, taps], dtype, 2);
        let make = || numbers(&device, &[3, dim, taps - 1], dtype, 3);
        let mut whole_state = make();
        let whole = run(&x, &weight, &mut whole_state, &[0, tokens as i32], &[1]).unwrap();
        for parts in [&[1_usize; 61][..], &[2, 1, 1, 3, 0, 54], &[60, 1], &[1, 2, 58]] {
            let (mut state, mut begin, mut got) = (make(), 0, Vec::new());
            for &part in parts {
                let layout = x.layout().slice(0, begin, begin + part, 1).unwrap();
                let rows = x.with_layout(layout).unwrap();
                got.extend(read(&run(&rows, &weight, &mut state, &[0, part as i32], &[1]).unwrap()));
                begin += part;
            }
            assert_eq!(got, read(&whole), "{dtype} {taps} {parts:?}");
            assert_eq!(read(&state), read(&whole_state), "{dtype} {taps} {parts:?}");
        }
        // What is left is the last inputs themselves, and other slots are as they were.
        let (values, before, after) = (read(&x), read(&make()), read(&whole_state));
        for (at, &value) in after.iter().enumerate() {
            let (slot, channel, place) = (at / (taps - 1) / dim, at / (taps - 1) % dim, at % (taps - 1));
            let want = if slot == 1 { values[(tokens - (taps - 1) + place) * dim + channel] } else { before[at] };
            assert_eq!(value, want, "{dtype} {taps} element {at}");
        }
    }
}

#[test]
fn rows_after_those_that_were_accepted_have_the_bits_of_one_call() {
    let device = device();
    let (tokens, dim, draft) = (23, 68, 4);
    for (dtype, taps) in [(DType::BF16, 4), (DType::F32, 3), (DType::F16, 2)] {
        let x = numbers(&device, &[tokens, dim], dtype, 1);
        let weight = numbers(&device, &[dim, taps], dtype, 2);
        let old = numbers(&device, &[3, dim, taps - 1], dtype, 3);
        let mut whole_state = rocfire_fusion::eager::copy(&old).unwrap();
        let whole = read(&run(&x, &weight, &mut whole_state, &[0, tokens as i32], &[1]).unwrap());
        for is_circular in [false, true] {
            // A line has w - 2 inputs and a draft, a circle the window and a draft; the old inputs lie at its first places.
            let places = taps - 1 + draft - usize::from(!is_circular);
            let mut state = numbers(&device, &[3, dim, places], dtype, 4);
            let mut begun = state.with_layout(state.layout().slice(2, 0, taps - 1, 1).unwrap()).unwrap();
            rocfire_fusion::eager::copy_into(old.view(), begun.view_mut()).unwrap();
            let (mut begin, mut accepted) = (0, 1);
            for turn in 0.. {
                let rows = draft.min(tokens - begin);
                let own = x.with_layout(x.layout().slice(0, begin, begin + rows, 1).unwrap()).unwrap();
                // Of what is drafted some rows are right, the first of them always.
                let right = (1 + turn % draft).min(rows);
                let drafted = numbers(&device, &[rows, dim], dtype, 50 + turn as u64);
                let mut same = drafted.with_layout(drafted.layout().slice(0, 0, right, 1).unwrap()).unwrap();
                let from = own.with_layout(own.layout().slice(0, 0, right, 1).unwrap()).unwrap();
                rocfire_fusion::eager::copy_into(from.view(), same.view_mut()).unwrap();
                let told = integers(&device, &[if is_circular { begin + taps - 1 } else { accepted } as i32]);
                let window = if is_circular { Window::Circular(told.view()) } else { Window::Accepted(told.view()) };
                let got = run_in(window, &drafted, &weight, &mut state, &[0, rows as i32], &[1]).unwrap();
                let want = &whole[begin * dim..(begin + right) * dim];
                assert_eq!(&read(&got)[..right * dim], want, "{dtype} {taps} circular {is_circular} from {begin}");
                (begin, accepted) = (begin + right, right);
                if begin == tokens {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_window_that_is_not_there_gives_zeros() {
    let device = device();
    let (x, weight) = (numbers(&device, &[3, 5], DType::F32, 1), numbers(&device, &[5, 4], DType::F32, 2));
    let before = numbers(&device, &[2, 5, 5], DType::F32, 3);
    let tried = |told: i32, is_circular: bool| {
        let mut state = rocfire_fusion::eager::copy(&before).unwrap();
        let told = integers(&device, &[told]);
        let window = if is_circular { Window::Circular(told.view()) } else { Window::Accepted(told.view()) };
        let out = read(&run_in(window, &x, &weight, &mut state, &[0, 3], &[1]).unwrap());
        (out.iter().all(|&y| y == 0.0), read(&state) == read(&before))
    };
    for told in [0, 4, -1, i32::MIN, i32::MAX] {
        assert_eq!(tried(told, false), (true, true), "accepted {told}");
    }
    for told in [-1, i32::MIN] {
        assert_eq!(tried(told, true), (true, true), "length {told}");
    }
    for told in [1, 3] {
        assert_eq!(tried(told, false), (false, false), "accepted {told}");
        assert_eq!(tried(told, true), (false, false), "length {told}");
    }
}

#[test]
fn a_number_for_padding_is_no_slot() {
    let device = device();
    let (x, weight) = (numbers(&device, &[3, 5], DType::F32, 1), numbers(&device, &[5, 4], DType::F32, 2));
    let (starts, slots) = (integers(&device, &[0, 1, 2, 3]), integers(&device, &[0, 1, -1]));
    let mut state = numbers(&device, &[2, 5, 3], DType::F32, 3);
    let (before, mut out) = (read(&state), numbers(&device, &[3, 5], DType::F32, 4));
    let sequences = Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: Some(0) };
    let window = Window::First;
    let inputs = CausalConv { x: x.view(), weight: weight.view(), bias: None, sequences, window, is_silu: true };
    causal_conv(device.stream(), &inputs, state.view_mut(), out.view_mut()).unwrap();
    let (out, after) = (read(&out), read(&state));
    assert_eq!((&out[..5], &out[10..]), (&[0.0; 5][..], &[0.0; 5][..]));
    assert_eq!(after[..15], before[..15]);
    assert!(out[5..10].iter().any(|&y| y != 0.0) && after[15..] != before[15..]);
}

#[test]
fn a_sequence_does_not_depend_on_the_batch() {
    let device = device();
    let (dim, taps) = (64, 4);
    // Four rows to a lane, and one.
    let (many, own) = (4200, 1000..1019);
    let x = numbers(&device, &[many, dim], DType::F32, 1);
    let weight = numbers(&device, &[dim, taps], DType::F32, 2);
    let mut state = numbers(&device, &[3, dim, 3], DType::F32, 3);
    let starts = [0, own.start as i32, own.end as i32, many as i32];
    let all = read(&run(&x, &weight, &mut state, &starts, &[0, 1, 2]).unwrap());
    let alone = x.with_layout(x.layout().slice(0, own.start, own.end, 1).unwrap()).unwrap();
    let mut own_state = numbers(&device, &[3, dim, 3], DType::F32, 3);
    let got = read(&run(&alone, &weight, &mut own_state, &[0, own.len() as i32], &[1]).unwrap());
    assert_eq!(got, all[own.start * dim..own.end * dim]);
    assert_eq!(read(&own_state)[dim * 3..2 * dim * 3], read(&state)[dim * 3..2 * dim * 3]);
}

#[test]
fn slots_that_are_not_there_give_zeros_and_are_told_of() {
    let off = device_without_index_checks();
    for slot in [-1, i32::MIN, 4, i32::MAX] {
        let (x, weight) = (numbers(&off, &[6, 5], DType::F32, 1), numbers(&off, &[5, 4], DType::F32, 2));
        let mut state = numbers(&off, &[4, 5, 3], DType::F32, 3);
        let before = read(&state);
        let got = read(&run(&x, &weight, &mut state, &[0, 2, 6], &[slot, slot]).unwrap());
        assert_eq!(got, [0.0; 30], "slot {slot}");
        assert_eq!(read(&state), before, "slot {slot}");
    }
    let own = Device::open(off.id(), Config::from_env().unwrap()).unwrap();
    let (x, weight) = (numbers(&own, &[6, 5], DType::F32, 1), numbers(&own, &[5, 4], DType::F32, 2));
    let mut state = numbers(&own, &[4, 5, 3], DType::F32, 3);
    read(&run(&x, &weight, &mut state, &[0, 2, 6], &[-1, 3]).unwrap());
    match run(&x, &weight, &mut state, &[0, 2, 6], &[-1, 4]).unwrap().to_bytes() {
        Err(HalError::Index(fault)) => {
            assert_eq!((&fault.op[..], fault.index, fault.extent), ("causal_conv", 4, 4));
        }
        other => panic!("expected a report of a slot, got {other:?}"),
    }
}

#[test]
fn starts_that_are_no_rows_are_taken_as_the_nearest() {
    let device = device();
    let (x, weight) = (numbers(&device, &[6, 5], DType::F32, 1), numbers(&device, &[5, 4], DType::F32, 2));
    let run_from = |starts: &[i32]| {
        let mut state = numbers(&device, &[4, 5, 3], DType::F32, 3);
        read(&run(&x, &weight, &mut state, starts, &[0, 1]).unwrap())
    };
    assert_eq!(run_from(&[-7, 3, i32::MAX]), run_from(&[0, 3, 6]));
    // They must not be in disorder; nothing is read or written outside for it, and the kernel ends.
    run_from(&[5, 0, 3]);
    run_from(&[i32::MAX, i32::MIN, 4]);
}

#[test]
fn states_lie_beyond_four_gigabytes() {
    let device = device();
    let (x, weight) = (numbers(&device, &[3, 4], DType::F32, 1), numbers(&device, &[4, 4], DType::F32, 2));
    let mut near = numbers(&device, &[3, 4, 3], DType::F32, 3);
    let want = run(&x, &weight, &mut near, &[0, 1, 3], &[2, 0]).unwrap();
    // Slots 2 GiB and some bytes apart.
    let apart = (1_i64 << 29) + 4;
    let memory = Tensor::empty(&device, &[2 * apart as usize + 12], DType::F32).unwrap();
    let mut far = memory.with_layout(Layout::strided(&[3, 4, 3], &[apart, 3, 1], 0).unwrap()).unwrap();
    rocfire_fusion::eager::copy_into(numbers(&device, &[3, 4, 3], DType::F32, 3).view(), far.view_mut()).unwrap();
    let got = run(&x, &weight, &mut far, &[0, 1, 3], &[2, 0]).unwrap();
    assert_eq!(read(&got), read(&want));
    for slot in 0..3 {
        let of = |state: &Tensor| {
            let part = state.with_layout(state.layout().slice(0, slot, slot + 1, 1).unwrap()).unwrap();
            rocfire_fusion::eager::copy(&part).unwrap().to_bytes().unwrap()
        };
        assert_eq!(of(&far), of(&near), "slot {slot}");
    }
}

#[test]
fn wrong_arguments_are_refused_before_any_launch() {
    // A device of its own, whose launches are those of this test.
    let device = Device::open(device().id(), Config::from_env().unwrap()).unwrap();
    let make = |shape: &[usize], dtype| numbers(&device, shape, dtype, 1);
    let (f32s, x) = (DType::F32, make(&[6, 5], DType::F32));
    let (weight, bias, state, out) =
        (make(&[5, 4], f32s), make(&[5], f32s), make(&[3, 5, 3], f32s), make(&[6, 5], f32s));
    let (starts, slots) = (integers(&device, &[0, 6]), integers(&device, &[0]));
    let launches = device.launches();
    let refused = |change: &dyn Fn(&mut [Tensor; 7]), part: &str| {
        let mut all = [&x, &weight, &bias, &state, &out, &starts, &slots].map(Clone::clone);
        change(&mut all);
        let [x, weight, bias, mut state, mut out, starts, slots] = all;
        let sequences = Sequences { starts: starts.view(), slots: slots.view(), fresh: Some(slots.view()), pad: None };
        let bias = Some(bias.view());
        let inputs =
            CausalConv { x: x.view(), weight: weight.view(), bias, sequences, window: Window::First, is_silu: false };
        let error = causal_conv(device.stream(), &inputs, state.view_mut(), out.view_mut()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(&|all| all[0] = make(&[30], f32s), "x must be [tokens, dim]");
    refused(&|all| all[0] = make(&[6, 5], DType::F64), "no f64 kernel");
    refused(&|all| all[1] = make(&[5, 5], f32s), "weight must be [dim, 2 to 4]");
    refused(&|all| all[1] = make(&[4, 4], f32s), "weight must be [5, 4]");
    refused(&|all| all[1] = make(&[5, 4], DType::F16), "weight must be of");
    refused(&|all| all[2] = make(&[4], f32s), "bias must be [5]");
    refused(&|all| all[3] = make(&[3, 5, 2], f32s), "state must be [slots, 5, 3 or more]");
    refused(&|all| all[3] = make(&[3, 5, 3], DType::BF16), "state must be of");
    refused(&|all| all[4] = make(&[5, 5], f32s), "out must be [6, 5]");
    refused(&|all| all[4] = all[0].clone(), "x must be memory apart");
    refused(&|all| all[5] = make(&[2], DType::I64), "starts must be of");
    refused(&|all| all[5] = make(&[0], DType::I32), "starts must be [sequences + 1]");
    refused(&|all| all[6] = make(&[2], DType::I32), "slots must be [1]");
    let refused_window = |window: &dyn Fn(View<'_>) -> Result<()>, told: &Tensor, part: &str| {
        let error = window(told.view()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let with = |window: Window<'_>| {
        let sequences = Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: None };
        let (x, weight) = (x.view(), weight.view());
        let inputs = CausalConv { x, weight, bias: None, sequences, window, is_silu: false };
        causal_conv(device.stream(), &inputs, state.clone().view_mut(), out.clone().view_mut())
    };
    for shape in [&[2][..], &[1, 1]] {
        refused_window(&|told| with(Window::Accepted(told)), &make(shape, DType::I32), "accepted must be [1]");
    }
    refused_window(&|told| with(Window::Accepted(told)), &make(&[1], DType::I64), "accepted must be of");
    refused_window(&|told| with(Window::Circular(told)), &make(&[2], DType::I32), "lengths must be [1]");
    refused_window(&|told| with(Window::Circular(told)), &make(&[1], f32s), "lengths must be of");
    let repeated = Layout::strided(&[3, 5, 3], &[0, 3, 1], 0).unwrap();
    refused(&|all| all[3] = all[3].with_layout(repeated).unwrap(), "state must be a layout");
    assert_eq!(device.launches(), launches);
}
