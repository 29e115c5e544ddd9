use rocfire_hal::{Config, DeviceId, Layout, Tensor};

use super::super::{AttentionInputs, AttentionParams, Dropout, Starts};
use super::*;
use crate::random::Seed;

/// What becomes of a call whose tensors are these, all of `[batches, heads, rows, depth]`; `None` where the kernels take it.
struct Asked {
    device: Device,
    shape: [usize; 4],
    kv_heads: usize,
    k_rows: usize,
    dtype: DType,
    value_depth: usize,
    params: AttentionParams,
}

impl Asked {
    /// One that they take.
    fn taken() -> Asked {
        let device = Device::open(DeviceId::emulated("gfx942").unwrap(), Config::default()).unwrap();
        let params = AttentionParams::default();
        Asked {
            device,
            shape: [2, 4, 130, 128],
            kv_heads: 2,
            k_rows: 140,
            dtype: DType::BF16,
            value_depth: 128,
            params,
        }
    }

    fn tensors(&self) -> [Tensor; 4] {
        let [batches, heads, rows, depth] = self.shape;
        let made = |shape: [usize; 4]| Tensor::empty(&self.device, &shape, self.dtype).unwrap();
        [
            made(self.shape),
            made([batches, self.kv_heads, self.k_rows, depth]),
            made([batches, self.kv_heads, self.k_rows, self.value_depth]),
            made([batches, heads, rows, self.value_depth]),
        ]
    }

    /// What speaks against it, with these inputs besides.
    fn with(&self, add: impl for<'a> FnOnce(&mut AttentionInputs<'a>, &'a Tensor)) -> Option<&'static str> {
        let [q, k, v, out] = self.tensors();
        let other = Tensor::empty(&self.device, &[self.shape[1]], DType::F32).unwrap();
        let (q, k, v) = (q.view(), k.view(), v.view());
        let mut inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
        add(&mut inputs, &other);
        let prepared = Prepared::new("attention", self.device.stream(), &inputs, &self.params).unwrap();
        Call::of(&prepared, &out.view(), None).err()
    }

    fn against(&self) -> Option<&'static str> {
        self.with(|_, _| {})
    }
}

#[test]
fn what_the_kernels_do_not_compute_is_ours() {
    assert_eq!(Asked::taken().against(), None);
    let with = |change: fn(&mut Asked)| {
        let mut asked = Asked::taken();
        change(&mut asked);
        asked.against()
    };
    assert_eq!(with(|asked| asked.dtype = DType::F16), Some("not bf16"));
    assert_eq!(with(|asked| asked.shape[3] = 64), Some("heads are not of 128"));
    assert_eq!(with(|asked| asked.value_depth = 64), Some("heads are not of 128"));
    assert_eq!(with(|asked| asked.params.softcap = Some(1.5)), Some("scores have more to them than a scale"));
    assert_eq!(with(|asked| asked.params.scale = Some(-1.0)), Some("scores have more to them than a scale"));
    let dropout = |asked: &mut Asked| {
        asked.params.dropout = Some(Dropout { probability: 0.5, seed: Seed { seed: 1, offset: 0 } });
    };
    assert_eq!(with(dropout), Some("scores have more to them than a scale"));
    assert_eq!(with(|asked| asked.params.scale = Some(1e-7)), Some("an uncommon scale"));
    assert_eq!(with(|asked| asked.params.left = Some(3)), Some("a window"));
    assert_eq!(with(|asked| asked.params.right = Some(3)), Some("a window"));
    assert_eq!(with(|asked| (asked.params.causal, asked.params.left) = (true, Some(3))), Some("a window"));
    assert_eq!(with(|asked| asked.params.causal = true), None);
    assert_eq!(with(|asked| (asked.params.causal, asked.k_rows) = (true, 130)), None);
    let before = |asked: &mut Asked| (asked.params.causal, asked.k_rows) = (true, 129);
    assert_eq!(with(before), Some("causal, and more queries than keys"));
    assert_eq!(with(|asked| asked.k_rows = 129), None, "queries that see all keys");
    assert_eq!(with(|asked| asked.k_rows = 0), Some("no keys"));
    assert_eq!(with(|asked| asked.shape[2] = 127), Some("fewer than 128 queries"));
    let sliced = Some("so few workgroups that ours cut the keys into slices");
    assert_eq!(with(|asked| asked.k_rows = 512), sliced);
    assert_eq!(with(|asked| (asked.shape[0], asked.k_rows) = (16, 512)), None, "128 workgroups");
}

#[test]
fn inputs_that_the_kernels_do_not_take_make_it_ours() {
    let asked = Asked::taken();
    let more = Some("scores have more to them than a scale");
    assert_eq!(asked.with(|inputs, other| inputs.slopes = Some(other.view())), more);
    assert_eq!(asked.with(|inputs, other| inputs.sinks = Some(other.view())), more);
    let scalar = Layout::contiguous(&[1, 1, 1, 1]).unwrap();
    assert_eq!(asked.with(|inputs, other| inputs.bias = Some(other.view().with_layout(scalar).unwrap())), more);
    let starts = Tensor::empty(&asked.device, &[3], DType::I32).unwrap();
    let apart = Asked { device: asked.device.clone(), shape: [1, 4, 260, 128], ..Asked::taken() };
    let [q, k, v, out] = apart.tensors();
    let (rows, view) = (200, starts.view());
    let starts = Some(Starts { q: view, k: view, q_rows_most: rows, k_rows_most: rows });
    let (q, k, v) = (q.view(), k.view(), v.view());
    let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts, slopes: None, sinks: None };
    let prepared = Prepared::new("attention", asked.device.stream(), &inputs, &asked.params).unwrap();
    assert_eq!(Call::of(&prepared, &out.view(), None).err(), Some("sequences of different lengths"));
}

#[test]
fn strides_are_those_that_32_bits_reach() {
    let of = |strides, batches, heads, rows| lines(strides, batches, heads, rows);
    let dense = Lines { batch: 4 * 200 * 256, head: 200 * 256, row: 256 };
    assert_eq!(of([4 * 200 * 128, 200 * 128, 128], 2, 4, 200), Some(dense));
    // Rows before heads, and one row, whose stride says nothing.
    assert_eq!(of([0, 128, 512], 1, 4, 200), Some(Lines { batch: 0, head: 256, row: 1024 }));
    assert_eq!(of([0, 128, 0], 1, 4, 1), Some(Lines { batch: 0, head: 256, row: 256 }));
    assert_eq!(of([0, 0, 128], 3, 4, 200), Some(Lines { batch: 0, head: 0, row: 256 }), "shared by all");
    assert_eq!(of([0, 128, 64], 1, 4, 200), None, "rows that overlap");
    assert_eq!(of([0, -128, 512], 1, 4, 200), None, "heads that lie backwards");
    assert_eq!(of([1 << 31, 128, 512], 2, 1, 200), None, "2^32 bytes from batch to batch");
    assert_eq!(of([(1 << 31) - 128, 128, 512], 2, 1, 200).unwrap().batch, u32::MAX - 255);
    assert_eq!(of([(1 << 31) - 128, 128, 512], 2, 2, 200), None, "the second head of the second batch");
    assert_eq!(of([1 << 30, 128, 512], 3, 1, 200), None, "the third batch");
    assert_eq!(of([0, 128, 1 << 20], 1, 1, 512), None, "rows that end at 2^31");
    assert_eq!(of([0, 128, 1 << 20], 1, 1, 511).unwrap().row, 1 << 21);
}

#[test]
fn logarithms_lie_as_the_kernels_write_them() {
    let asked = Asked::taken();
    let [q, k, v, out] = asked.tensors();
    let (q, k, v) = (q.view(), k.view(), v.view());
    let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
    let prepared = Prepared::new("attention", asked.device.stream(), &inputs, &asked.params).unwrap();
    // Two batches of four heads of 130 rows.
    let of = |strides| lse_head(&prepared, strides);
    assert_eq!(of([520, 130, 1]), Some(520));
    assert_eq!(of([4 * 256, 256, 1]), Some(1024), "with room between heads");
    assert_eq!(of([521, 130, 1]), None, "with room between batches");
    assert_eq!(of([520, 1, 4]), None, "heads side by side");
    assert_eq!(of([400, 100, 1]), None, "heads that overlap");
    assert_eq!(of([1 << 31, 1 << 29, 1]), None, "too far apart");
    let lse = Tensor::empty(&asked.device, &[2, 4, 130], DType::F32).unwrap();
    let call = Call::of(&prepared, &out.view(), Some(lse.view())).unwrap();
    assert_eq!((call.forward.lse, call.forward.lse_head), (lse.view().device_address(), 520));
    assert_eq!((call.forward.rows, call.forward.group, call.forward.causal), ([130, 140], 2, false));
    let turned = lse.with_layout(Layout::strided(&[2, 4, 130], &[520, 1, 4], 0).unwrap()).unwrap();
    assert_eq!(Call::of(&prepared, &out.view(), Some(turned.view())).err(), Some("logarithms of sums lie apart"));
}
