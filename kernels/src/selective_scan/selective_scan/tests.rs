use super::*;
use crate::testing::{Lie, Numbers, device, device_without_index_checks, read, tensor};
use rocfire_hal::{Config, Device, Layout, Tensor};

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
    launch(of, state, (starts, &integers(of[0].device(), slots)), None)
}

fn launch(
    of: &[Tensor; 5],
    state: &mut Tensor,
    (starts, slots): (&[i32], &Tensor),
    kept: Option<(&Tensor, &Tensor)>,
) -> crate::Result<Tensor> {
    let [x, dt, a, b, c] = of.each_ref().map(Tensor::view);
    let device = of[0].device();
    let starts = integers(device, starts);
    let mut out = match x.dtype() {
        F32 => numbers(device, x.shape(), 99),
        dtype => Tensor::empty(device, x.shape(), dtype)?,
    };
    let sequences = Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: Some(0) };
    let kept = kept.map(|(to, accepted)| ScanKept { to: to.view(), accepted: Some(accepted.view()) });
    let is_softplus = true;
    let inputs = SelectiveScan { x, dt, a, b, c, d: None, z: Some(x), dt_bias: None, is_softplus, sequences, kept };
    selective_scan(device.stream(), &inputs, state.view_mut(), out.view_mut())?;
    Ok(out)
}

/// A call of one sequence with rows of slots to read and to write, and the place to go on at.
fn launch_kept(
    of: &[Tensor; 5],
    state: &mut Tensor,
    [from, to]: [&[i32]; 2],
    accepted: i32,
) -> crate::Result<Vec<f64>> {
    let device = of[0].device();
    let row = |slots: &[i32]| {
        let layout = Layout::contiguous(&[1, slots.len()]).unwrap();
        integers(device, slots).with_layout(layout).unwrap()
    };
    let starts = [0, of[0].shape()[0] as i32];
    let out = launch(of, state, (&starts, &row(from)), Some((&row(to), &integers(device, &[accepted]))))?;
    Ok(read(&out))
}

/// Rows of inputs from one on to another.
fn rows(all: &[Tensor; 5], begin: usize, end: usize) -> [Tensor; 5] {
    let tokens = all[0].shape()[0];
    let part = |tensor: &Tensor| {
        if tensor.shape()[0] != tokens {
            return tensor.clone();
        }
        tensor.with_layout(tensor.layout().slice(0, begin, end, 1).unwrap()).unwrap()
    };
    all.each_ref().map(part)
}

#[test]
fn kept_states_have_the_bits_of_tokens_one_by_one() {
    let (device, dim) = (device(), 66);
    let all = inputs(&device, 7, dim);
    // States of 16 bits are rounded after each token either way.
    for dtype in [F32, DType::F16, DType::BF16] {
        // States are of the inputs' type or f32.
        let all = match dtype {
            F32 => all.clone(),
            _ => std::array::from_fn(|n| match n {
                2 => all[2].clone(),
                _ => crate::family::cast(device.stream(), all[n].view(), dtype).unwrap(),
            }),
        };
        let pool = || crate::family::cast(device.stream(), numbers(&device, &[6, dim, 20], 9).view(), dtype).unwrap();
        let state = |pool: &Tensor, slot: usize| read(pool)[slot * dim * 20..][..dim * 20].to_vec();
        let (mut one_by_one, mut after) = (pool(), Vec::new());
        let each: Vec<Vec<f64>> = (0..7)
            .map(|token| {
                let out = launch_one(&rows(&all, token, token + 1), &mut one_by_one);
                after.push(state(&one_by_one, 3));
                out
            })
            .collect();
        // Three tokens, whose states stay apart from the one that is read; two are accepted; then three more in their place.
        let (mut kept, slots) = (pool(), &[1, 5, 4]);
        let got = launch_kept(&rows(&all, 0, 3), &mut kept, [&[3], slots], 1).unwrap();
        assert_eq!(got, each[..3].concat(), "{dtype}");
        assert_eq!([1, 5, 4].map(|slot| state(&kept, slot)), [0, 1, 2].map(|token| after[token].clone()), "{dtype}");
        assert_eq!(state(&kept, 3), state(&pool(), 3), "{dtype}: what was read");
        let got = launch_kept(&rows(&all, 2, 5), &mut kept, [slots, slots], 2).unwrap();
        assert_eq!(got, each[2..5].concat(), "{dtype}");
        assert_eq!([1, 5, 4].map(|slot| state(&kept, slot)), [2, 3, 4].map(|token| after[token].clone()), "{dtype}");
        // Slots that are none keep nothing, and change nothing: a negative one, and that for padding.
        let got = launch_kept(&rows(&all, 5, 7), &mut kept, [slots, &[-1, 3, 4]], 3).unwrap();
        assert_eq!(got, each[5..].concat(), "{dtype}");
        assert_eq!([3, 4].map(|slot| state(&kept, slot)), [6, 4].map(|token| after[token].clone()), "{dtype}");
        let before = read(&kept);
        let got = launch_kept(&rows(&all, 5, 7), &mut kept, [slots, &[0, 0, 0]], 3).unwrap();
        assert_eq!(got, each[5..].concat(), "{dtype}");
        assert_eq!(read(&kept), before, "{dtype}");
        // More tokens than places: the last one's state, at the first place.
        let mut longer = pool();
        let got = launch_kept(&all, &mut longer, [&[3], slots], 1).unwrap();
        if dtype == F32 {
            assert_eq!(got, each.concat());
            assert_eq!(state(&longer, 1), after[6]);
        }
        for slot in [0, 2, 3, 4, 5] {
            assert_eq!(state(&longer, slot), state(&pool(), slot), "{dtype} slot {slot}");
        }
    }
}

/// A call of one token with the state of slot 3.
fn launch_one(of: &[Tensor; 5], state: &mut Tensor) -> Vec<f64> {
    read(&run(of, state, &[0, 1], &[3]).unwrap())
}

#[test]
fn a_place_that_is_not_there_gives_zeros() {
    let device = device_without_index_checks();
    let of = inputs(&device, 2, 6);
    // Places before the first and behind the last; slots that are none: negative, behind the pool, for padding.
    let places = [0, 4, -1, i32::MIN, i32::MAX].map(|accepted| ([4, 1, 3], accepted));
    for (slots, accepted) in places.into_iter().chain([([4, -1, 3], 2), ([5, 1, 4], 1), ([4, 1, 0], 3)]) {
        let mut state = numbers(&device, &[5, 6, 20], 9);
        let before = read(&state);
        let got = launch_kept(&of, &mut state, [&slots, &[4, 1, 3]], accepted).unwrap();
        assert_eq!(got, [0.0; 12], "{slots:?} {accepted}");
        assert_eq!(read(&state), before, "{slots:?} {accepted}");
    }
}

#[test]
fn one_slot_to_write_may_be_another_than_that_to_read() {
    let device = device_without_index_checks();
    let of = inputs(&device, 3, 6);
    let begin = || numbers(&device, &[5, 6, 20], 9);
    let (mut alone, mut moved) = (begin(), begin());
    let expected = read(&run(&of, &mut alone, &[0, 3], &[3]).unwrap());
    let (from, ones) = (integers(&device, &[3]), integers(&device, &[1]));
    let got = launch(&of, &mut moved, (&[0, 3], &from), Some((&integers(&device, &[2]), &ones))).unwrap();
    assert_eq!(read(&got), expected);
    let state = |pool: &Tensor, slot: usize| read(pool)[slot * 120..][..120].to_vec();
    assert_eq!(state(&moved, 2), state(&alone, 3));
    assert_eq!(state(&moved, 3), state(&begin(), 3));
    for none in [-1, 0, 5] {
        let mut state = begin();
        let got = launch(&of, &mut state, (&[0, 3], &from), Some((&integers(&device, &[none]), &ones))).unwrap();
        assert_eq!((read(&got), read(&state)), (vec![0.0; 18], read(&begin())), "slot {none}");
    }
}

#[test]
fn a_sequence_in_parts_and_in_a_batch_gives_the_bits_of_the_whole() {
    let device = device();
    let (tokens, dim) = (23, 66);
    let all = inputs(&device, tokens, dim);
    let rows = |begin: usize, end: usize| rows(&all, begin, end);
    let make = || numbers(&device, &[4, dim, 20], 9);
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
    let got = read(&run(&all, &mut state, &[0, 4, 15, 23], &[3, 1, 2]).unwrap());
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
        read(&run(&of, &mut state, starts, &[2, 1]).unwrap())
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
    let mut kept = |from: &[i32], to: &[i32]| launch_kept(&all, &mut state, [from, to], 1).unwrap_err().to_string();
    assert!(kept(&[], &[1]).contains("slots must be [1], or [1, places] with at least a place"));
    assert!(kept(&[1], &[]).contains("to must be [1], or [1, places] with at least a place"));
    let two = integers(&device, &[1, 2]);
    let error = launch(&all, &mut state, (&[0, 6], &two), Some((&two, &two))).unwrap_err();
    assert!(error.to_string().contains("slots must be [1]"), "{error}");
    let one = integers(&device, &[1]);
    let error = launch(&all, &mut state, (&[0, 6], &one), Some((&one, &two))).unwrap_err();
    assert!(error.to_string().contains("accepted must be [1]"), "{error}");
    assert!(run(&all, &mut state, &[], &[]).unwrap_err().to_string().contains("starts must be"));
    assert!(run(&all, &mut state, &[0, 6], &[0, 1]).unwrap_err().to_string().contains("slots must be [1]"));
    assert_eq!(device.launches(), launches);
}
