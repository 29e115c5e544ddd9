use proptest::prelude::*;

use super::*;

/// The numbers of all elements, row-major: the oracle that every operation is compared with.
fn elements(layout: &Layout) -> Vec<i64> {
    let mut numbers = vec![layout.offset()];
    for (&extent, &stride) in layout.shape().iter().zip(layout.strides()) {
        numbers = numbers.iter().flat_map(|&base| (0..extent as i64).map(move |i| base + i * stride)).collect();
    }
    numbers
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![8 => 1..5_usize, 1 => Just(0)], 0..5)
}

/// One operation, with numbers that the layout it meets turns into valid arguments.
#[derive(Clone, Debug)]
enum Op {
    Permute(u64),
    Slice { axis: usize, start: usize, length: usize, step: isize },
    Flip(usize),
    Unsqueeze(usize),
    Expand(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let slice = (0..8_usize, 0..8_usize, 0..8_usize, prop_oneof![-3..0_isize, 1..4_isize])
        .prop_map(|(axis, start, length, step)| Op::Slice { axis, start, length, step });
    let op = prop_oneof![
        any::<u64>().prop_map(Op::Permute),
        slice,
        (0..8_usize).prop_map(Op::Flip),
        (0..8_usize).prop_map(Op::Unsqueeze),
        (1..4_usize).prop_map(Op::Expand),
    ];
    prop::collection::vec(op, 0..6)
}

fn order(rank: usize, seed: u64) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.sort_by_key(|&axis| seed.rotate_left(axis as u32 * 11).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    axes
}

fn apply(layout: &Layout, op: &Op) -> Layout {
    let rank = layout.rank();
    match *op {
        Op::Permute(seed) => layout.permute(&order(rank, seed)).unwrap(),
        Op::Slice { axis, start, length, step } if rank > 0 => {
            let axis = axis % rank;
            let start = start.min(layout.shape()[axis]);
            layout.slice(axis, start, (start + length).min(layout.shape()[axis]), step).unwrap()
        }
        Op::Flip(axis) if rank > 0 => layout.flip(&[axis % rank]).unwrap(),
        Op::Unsqueeze(axis) if rank < MAX_RANK => layout.unsqueeze(axis % (rank + 1)).unwrap(),
        Op::Expand(extent) => {
            let widen = |&old: &usize| if old == 1 { extent } else { old };
            layout.expand(&layout.shape().iter().map(widen).collect::<Vec<_>>()).unwrap()
        }
        _ => *layout,
    }
}

prop_compose! {
    fn layouts()(shape in shapes(), ops in ops()) -> Layout {
        ops.iter().fold(Layout::contiguous(&shape).unwrap(), |layout, op| apply(&layout, op))
    }
}

/// Strides of `shape` that give these numbers, if there are any.
fn strides_of(numbers: &[i64], shape: &[usize]) -> Option<Vec<i64>> {
    let mut strides = vec![1; shape.len()];
    let mut inner = 1;
    for axis in (0..shape.len()).rev() {
        if shape[axis] > 1 {
            strides[axis] = numbers[inner] - numbers[0];
        }
        inner *= shape[axis];
    }
    let layout = Layout::strided(shape, &strides, numbers[0]).unwrap();
    (elements(&layout) == numbers).then_some(strides)
}

/// The shapes with as many elements, up to three axes.
fn factorisations(len: usize) -> Vec<Vec<usize>> {
    let divisors: Vec<usize> = (1..=len).filter(|divisor| len.is_multiple_of(*divisor)).collect();
    let mut shapes = vec![vec![len]];
    for &first in &divisors {
        shapes.push(vec![first, len / first]);
        for &second in divisors.iter().filter(|second| (len / first).is_multiple_of(**second)) {
            shapes.push(vec![first, second, len / first / second]);
        }
    }
    shapes
}

proptest! {
    #[test]
    fn operations_never_leave_their_parent(layout in layouts(), ops in ops()) {
        let parent = elements(&layout);
        let child = ops.iter().fold(layout, |layout, op| apply(&layout, op));
        prop_assert!(elements(&child).iter().all(|number| parent.contains(number)), "{layout:?} -> {child:?}");
        if !child.is_empty() {
            prop_assert!(child.extent().start >= layout.extent().start && child.extent().end <= layout.extent().end);
        }
    }

    #[test]
    fn extent_len_and_contiguity_are_those_of_the_elements(layout in layouts()) {
        let numbers = elements(&layout);
        prop_assert_eq!(layout.len(), numbers.len());
        prop_assert_eq!(layout.is_empty(), numbers.is_empty());
        let (first, last) = (numbers.iter().min(), numbers.iter().max());
        if let (Some(&first), Some(&last)) = (first, last) {
            prop_assert_eq!(layout.extent(), first..last + 1);
            let in_order = numbers.iter().enumerate().all(|(i, &number)| number == layout.offset() + i as i64);
            prop_assert_eq!(layout.is_contiguous(), in_order);
        } else {
            prop_assert!(layout.extent().is_empty() && layout.is_contiguous());
        }
    }

    #[test]
    fn permute_is_undone_by_its_inverse(layout in layouts(), seed in any::<u64>()) {
        let axes = order(layout.rank(), seed);
        let mut inverse = vec![0; axes.len()];
        axes.iter().enumerate().for_each(|(i, &axis)| inverse[axis] = i);
        let permuted = layout.permute(&axes).unwrap();
        prop_assert_eq!(permuted.permute(&inverse).unwrap(), layout);
        for (i, &axis) in axes.iter().enumerate() {
            prop_assert_eq!(permuted.shape()[i], layout.shape()[axis]);
            prop_assert_eq!(permuted.strides()[i], layout.strides()[axis]);
        }
        prop_assert_eq!(permuted.len(), layout.len());
    }

    #[test]
    fn swap_is_a_permute_and_undoes_itself(layout in layouts(), a in 0..8_usize, b in 0..8_usize) {
        prop_assume!(layout.rank() > 0);
        let (a, b) = (a % layout.rank(), b % layout.rank());
        let mut axes: Vec<usize> = (0..layout.rank()).collect();
        axes.swap(a, b);
        let swapped = layout.swap(a, b).unwrap();
        prop_assert_eq!(swapped, layout.permute(&axes).unwrap());
        prop_assert_eq!(swapped.swap(a, b).unwrap(), layout);
    }

    #[test]
    fn slice_takes_every_step_from_the_right_end(
        extent in 1..9_usize, bounds in (0..9_usize, 0..9_usize), step in prop_oneof![-4..0_isize, 1..5_isize],
    ) {
        let (start, end) = (bounds.0.min(extent), bounds.1.min(extent));
        let (start, end) = (start.min(end), start.max(end));
        let layout = Layout::contiguous(&[extent]).unwrap().slice(0, start, end, step).unwrap();
        let upwards: Vec<i64> = (start as i64..end as i64).collect();
        let expected: Vec<i64> = if step > 0 {
            upwards.into_iter().step_by(step as usize).collect()
        } else {
            upwards.into_iter().rev().step_by(step.unsigned_abs()).collect()
        };
        prop_assert_eq!(elements(&layout), expected);
    }

    #[test]
    fn flip_twice_is_nothing(layout in layouts(), axis in 0..8_usize) {
        prop_assume!(layout.rank() > 0);
        let axis = axis % layout.rank();
        let twice = layout.flip(&[axis]).unwrap().flip(&[axis]).unwrap();
        prop_assert_eq!(elements(&twice), elements(&layout));
        prop_assert_eq!(twice.shape(), layout.shape());
    }

    #[test]
    fn expand_repeats_axes_of_extent_one(layout in layouts(), front in 0..3_usize, extent in 1..4_usize) {
        prop_assume!(layout.rank() + front <= MAX_RANK);
        let widened = layout.shape().iter().map(|&old| if old == 1 { extent } else { old });
        let target: Vec<usize> = std::iter::repeat_n(2, front).chain(widened).collect();
        let expanded = layout.expand(&target).unwrap();
        prop_assert_eq!(expanded.shape(), &target[..]);
        // The first index of every repeated axis shows the original.
        let back = target.iter().enumerate().try_fold(expanded, |view, (axis, _)| {
            let original = if axis < front { 1 } else { layout.shape()[axis - front] };
            view.slice(axis, 0, original.min(view.shape()[axis]), 1)
        }).unwrap();
        prop_assert_eq!(elements(&back), elements(&layout));
        let distinct: std::collections::BTreeSet<i64> = elements(&expanded).into_iter().collect();
        let original: std::collections::BTreeSet<i64> = elements(&layout).into_iter().collect();
        prop_assert_eq!(distinct, original);
    }

    #[test]
    fn squeeze_undoes_unsqueeze(layout in layouts(), axis in 0..8_usize) {
        prop_assume!(layout.rank() < MAX_RANK);
        let axis = axis % (layout.rank() + 1);
        let wide = layout.unsqueeze(axis).unwrap();
        prop_assert_eq!(wide.rank(), layout.rank() + 1);
        prop_assert_eq!(wide.shape()[axis], 1);
        prop_assert_eq!(elements(&wide), elements(&layout));
        prop_assert_eq!(wide.squeeze(axis).unwrap(), layout);
    }

    #[test]
    fn reshape_keeps_the_elements_and_their_order_and_copies_only_if_it_must(layout in layouts()) {
        let numbers = elements(&layout);
        prop_assume!(!numbers.is_empty());
        for shape in factorisations(layout.len()) {
            match layout.reshape(&shape) {
                Some(reshaped) => {
                    prop_assert_eq!(reshaped.shape(), &shape[..]);
                    prop_assert_eq!(elements(&reshaped), numbers.clone());
                }
                None => prop_assert_eq!(strides_of(&numbers, &shape), None, "{:?} to {:?}", layout, shape),
            }
        }
    }

    #[test]
    fn contiguous_layouts_take_every_shape(shape in shapes()) {
        let layout = Layout::contiguous(&shape).unwrap();
        for target in factorisations(layout.len().max(1)).into_iter().filter(|_| !layout.is_empty()) {
            prop_assert!(layout.reshape(&target).is_some_and(|reshaped| reshaped.is_contiguous()));
        }
    }
}

#[test]
fn empty_layouts_take_every_empty_shape() {
    let empty = Layout::contiguous(&[3, 0, 2]).unwrap();
    assert_eq!(empty.reshape(&[0, 7]).map(|layout| layout.len()), Some(0));
    assert_eq!(empty.reshape(&[1]), None);
}

#[test]
fn wrong_arguments_are_errors_that_name_them() {
    let layout = Layout::contiguous(&[2, 3]).unwrap();
    let message = |result: Result<Layout>| result.unwrap_err().to_string();
    assert_eq!(message(layout.permute(&[0, 0])), "permute: axes must be each of 0..2 once, got [0, 0]");
    assert_eq!(message(layout.swap(0, 2)), "swap: axis must be below 2, got 2");
    assert_eq!(message(layout.slice(1, 2, 4, 1)), "slice: range must be inside 0..3, got 2..4");
    assert_eq!(message(layout.slice(1, 0, 3, 0)), "slice: step must be not 0, got 0");
    assert!(message(layout.expand(&[2, 4])).contains("broadcasts to, got [2, 4]"));
    assert!(message(layout.expand(&[3])).contains("broadcasts to, got [3]"));
    assert_eq!(message(layout.squeeze(0)), "squeeze: axis must be of extent 1, got 2");
    assert_eq!(message(Layout::contiguous(&[1; 9])), "a tensor has at most 8 axes, got 9");
    assert!(message(Layout::contiguous(&[1 << 40, 1 << 40])).contains("fewer than 2^63 elements"));
    assert!(message(Layout::contiguous(&[1 << 40, 1 << 40, 0])).contains("fewer than 2^63 elements"));
    assert!(message(Layout::strided(&[1 << 40], &[i64::MAX / 4], 0)).contains("within 63 bits"));
    assert!(message(Layout::strided(&[2], &[1, 1], 0)).contains("1 values"));
}

#[test]
fn scalars_have_one_element() {
    let scalar = Layout::contiguous(&[]).unwrap();
    assert_eq!((scalar.len(), scalar.extent(), scalar.is_contiguous()), (1, 0..1, true));
    assert_eq!(scalar.reshape(&[1, 1]).map(|layout| layout.len()), Some(1));
}
