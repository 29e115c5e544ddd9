use rocfire_hal::{Config, DeviceId};

use super::*;
use crate::attention::explain_paged;
use crate::cache::Cache;
use crate::quant::Format;

/// A call whose tensors are these.
struct Asked {
    device: Device,
    sequences: usize,
    heads: usize,
    depths: [usize; 2],
    dtype: DType,
    /// Pages, tokens of one.
    pages: [usize; 2],
    keys_most: usize,
    queries: usize,
    params: PagedParams,
    /// Elements from one token's queries to the next one's, more than there are.
    gap: usize,
    is_coded: bool,
    by_slots: bool,
}

impl Asked {
    /// One that the kernels take.
    fn taken() -> Asked {
        let config = Config::default().with_aiter_decode(true);
        Asked {
            device: Device::open(DeviceId::emulated("gfx942").unwrap(), config).unwrap(),
            sequences: 3,
            heads: 16,
            depths: [576, 512],
            dtype: DType::BF16,
            pages: [5, 16],
            keys_most: 80,
            queries: 1,
            params: PagedParams::default(),
            gap: 0,
            is_coded: false,
            by_slots: false,
        }
    }

    fn made(&self, shape: &[usize], dtype: DType) -> Tensor {
        Tensor::empty(&self.device, shape, dtype).unwrap()
    }

    /// What speaks against it, else the splits; and in words, what is taken. With these inputs besides.
    fn with(
        &self,
        add: impl for<'a> FnOnce(&mut PagedInputs<'a>, &'a Tensor),
    ) -> (Result<usize, &'static str>, String) {
        let [depth, value_depth] = self.depths;
        let rows =
            self.made(&[self.pages[0], self.pages[1], depth], if self.is_coded { DType::U8 } else { self.dtype });
        let scales = self.made(&[1], DType::F32);
        let codes = self.is_coded.then(|| crate::cache::LatentCodes { format: Format::E4M3, scales: scales.view() });
        let (lens, table) = (self.made(&[self.sequences], DType::I32), self.made(&[self.sequences, 5], DType::I32));
        let tokens = self.sequences * self.queries;
        let row = self.heads * depth + self.gap;
        let q = self.made(&[tokens * row], self.dtype);
        let strides = [row as i64, depth as i64, 1];
        let q =
            q.with_layout(rocfire_hal::Layout::strided(&[tokens, self.heads, depth], &strides, 0).unwrap()).unwrap();
        let out = self.made(&[tokens, self.heads, value_depth], self.dtype);
        let (lse, of_heads) = (self.made(&[tokens, self.heads], DType::F32), self.made(&[self.heads], DType::F32));
        let cache = Cache::latent(rows.view(), value_depth, codes).unwrap();
        let pages = match self.by_slots {
            true => Pages::Slots { slots: table.view(), lens: None },
            false => Pages::Table { pages: table.view(), lens: lens.view() },
        };
        let mut inputs = PagedInputs::new(q.view(), cache, pages, self.keys_most);
        inputs.queries = Queries::Each(self.queries);
        add(&mut inputs, &of_heads);
        let words = explain_paged(&self.device, &inputs, &self.params, out.view(), Some(lse.view())).unwrap();
        let writable = lse.view().writable();
        let call = Call::new(self.device.stream(), &inputs, &self.params, &out.view(), Some(&writable)).unwrap();
        let (out, lse) = (out.view(), lse.view());
        let found = Latents::of(&inputs, &self.params, &call, &out, Some(&lse));
        (found.map(|theirs| theirs.splits()), words)
    }

    fn found(&self) -> Result<usize, &'static str> {
        self.with(|_, _| {}).0
    }
}

fn with(change: fn(&mut Asked)) -> Result<usize, &'static str> {
    let mut asked = Asked::taken();
    change(&mut asked);
    asked.found()
}

#[test]
fn what_the_kernels_do_not_compute_is_ours() {
    assert_eq!(with(|_| ()), Ok(2));
    assert_eq!(with(|asked| asked.heads = 128), Ok(5));
    assert_eq!(with(|asked| (asked.heads, asked.keys_most) = (128, 7)), Ok(2), "never one");
    assert_eq!(with(|asked| asked.keys_most = 7), Ok(1));
    assert_eq!(with(|asked| asked.heads = 32), Err("not 16 or 128 heads of queries"));
    assert_eq!(with(|asked| asked.dtype = DType::F16), Err("not bf16, or codes"));
    assert_eq!(with(|asked| asked.is_coded = true), Err("not bf16, or codes"));
    let channels = Err("latents are not of 576 channels, 512 of them values");
    assert_eq!(with(|asked| asked.depths = [576, 448]), channels);
    assert_eq!(with(|asked| asked.depths = [320, 256]), channels);
    assert_eq!(with(|asked| asked.pages[0] = 0), Err("no pages"));
    assert_eq!(with(|asked| asked.by_slots = true), Err("keys by slots"));
    assert_eq!(with(|asked| asked.queries = 2), Err("not one query of each sequence"));
    let more = Err("scores have more to them than a scale");
    assert_eq!(with(|asked| asked.params.softcap = Some(1.5)), more);
    assert_eq!(with(|asked| asked.params.window = Some(5)), more);
    assert_eq!(with(|asked| asked.params.scale = Some(-1.0)), Err("an uncommon scale"));
    let unasked = |asked: &mut Asked| {
        asked.device = Device::open(DeviceId::emulated("gfx942").unwrap(), Config::default().with_aiter(true)).unwrap();
    };
    assert_eq!(with(unasked), Err("a sequence's bits would depend on the batch, which ROCFIRE_AITER_DECODE=1 allows"));
    let asked = Asked::taken();
    assert_eq!(asked.with(|inputs, of_heads| inputs.slopes = Some(of_heads.view())).0, more);
    assert_eq!(asked.with(|inputs, of_heads| inputs.sinks = Some(of_heads.view())).0, more);
}

#[test]
fn queries_may_be_apart_where_a_kernel_has_their_stride() {
    let far = Err("strides that the kernel does not have, or that 32 bits do not reach");
    assert_eq!(with(|asked| asked.gap = 64), Ok(2));
    let many = |asked: &mut Asked| (asked.heads, asked.gap) = (128, 64);
    assert_eq!(with(many), far);
    assert_eq!(with(|asked| asked.gap = 4), far, "no whole vectors");
    assert_eq!(
        with(|asked| (asked.heads, asked.gap, asked.sequences) = (128, 64, 1)),
        Ok(5),
        "one token has no stride"
    );
}

#[test]
fn more_than_32_bits_reach_is_ours() {
    let line = (1 << 32) / (512 * 4);
    assert!(has_room(line - 1, 1) && !has_room(line, 1), "results that end below 2^32");
    assert!(has_room(1, (1 << 30) - 1) && !has_room(1, 1 << 30));
    assert_eq!(with(|asked| asked.keys_most = (1 << 30) / 3), Ok(16));
    assert_eq!(with(|asked| asked.keys_most = (1 << 30) / 3 + 1), Err("more keys or splits than 32 bits reach"));
}

#[test]
fn rows_are_those_that_the_kernels_reach() {
    let of = |page: i64, token: i64, extents| rows(&PlaneArgs { page, token, ..PlaneArgs::zeroed() }, extents);
    assert_eq!(of(16 * 576, 576, [100, 16]), Some([576, 16]));
    assert_eq!(of(17 * 576, 576, [100, 16]), Some([576, 17]), "room of a row between pages");
    assert_eq!(of(16 * 576 + 8, 576, [100, 16]), None, "room of less");
    assert_eq!(of(640, 7, [100, 1]), Some([640, 1]), "of one token the stride says nothing");
    assert_eq!(of(-5, 576, [1, 16]), Some([576, 16]), "nor that of one page");
    assert_eq!(of(-16 * 576, 576, [100, 16]), None, "backwards");
    assert_eq!(of(0, 0, [100, 1]), None, "one row for all");
    // 3,728,270 rows of 1152 bytes end within 2^32 - 16.
    assert_eq!(of(576, 576, [3_728_270, 1]), Some([576, 1]));
    assert_eq!(of(576, 576, [3_728_271, 1]), None);
    assert_eq!(of(8, 8, [1 << 24, 1]), Some([8, 1]));
    assert_eq!(of(8, 8, [(1 << 24) + 1, 1]), None, "a number of more than 24 bits");
    assert_eq!(of((1 << 23) - 8, 0, [2, 1]), Some([(1 << 23) - 8, 1]));
    assert_eq!(of(1 << 23, 0, [2, 1]), None, "2^24 bytes from row to row");
}

#[test]
fn splits_fill_the_units() {
    assert_eq!([1, 64, 65, 1000, 100_000].map(|keys| splits(1, keys, 64, 304)), [1, 1, 2, 16, 16]);
    assert_eq!(splits(304, 4096, 64, 304), 1, "a sequence for each unit");
    assert_eq!(splits(76, 4096, 64, 304), 4);
    assert_eq!(splits(128, 8192, 64, 304), 7, "896 of 912 places");
}

#[test]
fn says_what_is_taken_and_what_goes_before_it() {
    let (_, theirs) = Asked::taken().with(|_, _| {});
    assert!(theirs.contains("would go first, but ROCFIRE_AITER=0 or what it comes to"), "{theirs}");
    let mut asked = Asked::taken();
    asked.heads = 8;
    let (_, ours) = asked.with(|_, _| {});
    assert!(ours.contains("not for this: not 16 or 128 heads"), "{ours}");
}
