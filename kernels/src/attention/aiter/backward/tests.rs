use rocfire_hal::{Config, DeviceId, Layout};

use super::super::super::{AttentionInputs, AttentionParams, Dropout};
use super::*;
use crate::random::Seed;

/// A call; `[batches, heads, rows, depth]` of queries.
struct Asked {
    config: Config,
    card: &'static str,
    shape: [usize; 4],
    kv_heads: usize,
    k_rows: usize,
    dtype: DType,
    params: AttentionParams,
    /// Strides of the logarithms.
    lse: Option<[i64; 3]>,
    /// Strides of the result's gradient.
    dout: Option<[i64; 4]>,
}

impl Asked {
    /// One that they take.
    fn taken() -> Asked {
        Asked {
            config: Config::default().with_deterministic(false),
            card: "gfx942",
            shape: [2, 4, 130, 128],
            kv_heads: 4,
            k_rows: 140,
            dtype: DType::BF16,
            params: AttentionParams::default(),
            lse: None,
            dout: None,
        }
    }

    /// What `look` makes of the call, or what speaks against it.
    fn look<T>(&self, look: impl FnOnce(&Call<'_>, &Views<'_>) -> T) -> Result<T, &'static str> {
        let device = Device::open(DeviceId::emulated(self.card).unwrap(), self.config.clone()).unwrap();
        let [batches, heads, rows, depth] = self.shape;
        let of_keys = [batches, self.kv_heads, self.k_rows, depth];
        let made = |shape: [usize; 4]| Tensor::empty(&device, &shape, self.dtype).unwrap();
        let (q, k, v, dq, dk, dv) =
            (made(self.shape), made(of_keys), made(of_keys), made(self.shape), made(of_keys), made(of_keys));
        let cut = |shape: &[usize], strides: Option<&[i64]>, dtype| {
            let Some(strides) = strides else { return Tensor::empty(&device, shape, dtype).unwrap() };
            let last: i64 = shape.iter().zip(strides).map(|(extent, stride)| (*extent as i64 - 1) * stride).sum();
            let whole = Tensor::empty(&device, &[last as usize + 1], dtype).unwrap();
            whole.with_layout(Layout::strided(shape, strides, 0).unwrap()).unwrap()
        };
        let dout = cut(&self.shape, self.dout.as_ref().map(|strides| strides.as_slice()), self.dtype);
        let lse = cut(&[batches, heads, rows], self.lse.as_ref().map(|strides| strides.as_slice()), DType::F32);
        let (q, k, v) = (q.view(), k.view(), v.view());
        let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
        let prepared = Prepared::new("attention_backward", device.stream(), &inputs, &self.params).unwrap();
        let gradients = [dq.view(), dk.view(), dv.view()];
        let views = Views { dout: dout.view(), lse: lse.view(), gradients };
        Call::of(&device, &prepared, views).map(|call| look(&call, &views))
    }

    fn against(&self) -> Option<&'static str> {
        self.look(|_, _| ()).err()
    }
}

fn with(change: impl FnOnce(&mut Asked)) -> Option<&'static str> {
    let mut asked = Asked::taken();
    change(&mut asked);
    asked.against()
}

#[test]
fn what_the_kernels_do_not_compute_is_ours() {
    assert_eq!(Asked::taken().against(), None);
    assert_eq!(with(|asked| asked.dtype = DType::F16), Some("not bf16"));
    assert_eq!(with(|asked| asked.shape[3] = 64), Some("heads are not of 128"));
    assert_eq!(with(|asked| asked.params.softcap = Some(1.5)), Some("scores have more to them than a scale"));
    let dropout = |asked: &mut Asked| {
        asked.params.dropout = Some(Dropout { probability: 0.5, seed: Seed { seed: 1, offset: 0 } });
    };
    assert_eq!(with(dropout), Some("scores have more to them than a scale"));
    assert_eq!(with(|asked| asked.params.left = Some(3)), Some("a window"));
    assert_eq!(with(|asked| asked.params.causal = true), None);
    let before = |asked: &mut Asked| (asked.params.causal, asked.k_rows) = (true, 129);
    assert_eq!(with(before), Some("causal, and more queries than keys"));
    assert_eq!(with(|asked| asked.k_rows = 129), None, "queries that see all keys");
    assert_eq!(with(|asked| asked.shape[0] = 0), Some("no queries"));
    assert_eq!(with(|asked| asked.shape[2] = 127), Some("fewer than 128 queries"));
    assert_eq!(with(|asked| asked.k_rows = 127), Some("fewer than 128 keys"));
    let shared = Some("fewer than 512 queries, and heads that share keys");
    assert_eq!(with(|asked| (asked.kv_heads, asked.shape[2]) = (2, 511)), shared);
    assert_eq!(with(|asked| (asked.kv_heads, asked.shape[2]) = (2, 512)), None);
}

#[test]
fn theirs_are_taken_only_where_somebody_said_that_bits_may_differ() {
    let differ = Some("its atomics give other bits on every run, which ROCFIRE_DETERMINISTIC=0 would allow");
    assert_eq!(with(|asked| asked.config = Config::default()), differ);
    assert_eq!(with(|asked| asked.config = Config::default().with_deterministic(true)), differ);
}

#[test]
fn logarithms_lie_behind_one_another() {
    let apart = Some("logarithms of sums lie apart");
    assert_eq!(with(|asked| asked.lse = Some([520, 130, 1])), None);
    assert_eq!(with(|asked| asked.lse = Some([4 * 131, 131, 1])), apart, "room between heads");
    assert_eq!(with(|asked| asked.lse = Some([521, 130, 1])), apart, "room between batches");
    assert_eq!(with(|asked| asked.lse = Some([520, 1, 4])), apart, "heads side by side");
}

#[test]
fn rows_hold_all_heads_or_none_but_their_own() {
    let far = Some(FAR);
    let of = |strides| with(|asked| asked.dout = Some(strides));
    assert_eq!(of([4 * 130 * 128, 130 * 128, 128, 1]), None);
    assert_eq!(of([4 * 130 * 128, 128, 512, 1]), None, "rows before heads");
    assert_eq!(of([512, 128, 1024, 1]), None, "rows before batches, too");
    assert_eq!(of([4 * 130 * 128, 0, 128, 1]), None, "one head's for all");
    assert_eq!(of([4 * 130 * 128, 128, 504, 1]), far, "the last head's is in the next row");
    assert_eq!(of([512, 128, 1000, 1]), far, "the last batch's is in the next row");
    assert_eq!(of([1 << 30, 130 * 128, 128, 1]), None, "2^31 bytes from batch to batch");
}

#[test]
fn gradients_of_keys_end_below_32_bits() {
    let asked = Asked::taken();
    let device = Device::open(DeviceId::emulated(asked.card).unwrap(), asked.config).unwrap();
    let made = |rows: usize| Tensor::empty(&device, &[2, 4, rows, 128], DType::BF16).unwrap();
    let (q, k, v) = (made(130), made(140), made(140));
    let (q, k, v) = (q.view(), k.view(), v.view());
    let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
    let p = Prepared::new("attention_backward", device.stream(), &inputs, &asked.params).unwrap();
    // Two batches of four heads of 140 rows and 512 beyond them.
    let beyond = i64::from(u32::MAX) / 2 - 3 * 140 * 128 - 652 * 128;
    let of = |batch| lines_written([batch, 140 * 128, 128], &p);
    assert_eq!(of(beyond).map(|lines| lines.batch), Some(2 * beyond as u32));
    assert_eq!(of(beyond + 1), None);
    assert!(lines([beyond + 1, 140 * 128, 128], 2, 4, 140).is_some(), "what is only read begins there");
}

#[test]
fn kernels_are_given_what_a_call_says() {
    let of = |card, kv_heads, rows| {
        let mut asked = Asked { card, kv_heads, ..Asked::taken() };
        (asked.shape[2], asked.params.causal) = (rows, rows == 130);
        let look = |call: &Call<'_>, views: &Views<'_>| {
            assert_eq!(call.backward.dk, views.gradients[1].device_address());
            (call.backward, call.backward.tiles())
        };
        asked.look(look).unwrap()
    };
    let (short, tiles) = of("gfx942", 4, 130);
    assert_eq!((short.form, short.args().bytes().len(), tiles), (BackwardForm::Short, 272, 1));
    assert_eq!((short.heads, short.group, short.rows, short.causal), (4, 1, [130, 140], true));
    assert_eq!((short.lse_head, short.dk_lines), (520, Lines { batch: 4 * 140 * 256, head: 140 * 256, row: 256 }));
    let (long, tiles) = of("gfx950", 2, 600);
    assert_eq!((long.form, long.args().bytes().len(), tiles), (BackwardForm::Long, 704, 1));
    assert_eq!((long.group, long.k_lines.batch, long.dk_lines.batch), (2, 2 * 140 * 256, 4 * 140 * 256));
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (short, long) = (short.args(), long.args());
    let (short, long) = (short.bytes(), long.bytes());
    // Queries, keys, and the row of gradients of values.
    assert_eq!([96, 104, 264].map(|at| word(short, at)), [130, 140, 256]);
    // Queries, keys, a tile of keys, and the row of gradients of values.
    assert_eq!([176, 336, 192, 560].map(|at| word(long, at)), [600, 140, 256 * 256, 256]);
}
