use rocfire_hal::{Config, DeviceId, Layout};

use super::*;
use crate::cache::Cache;

/// A call whose tensors are these.
struct Asked {
    device: Device,
    sequences: usize,
    heads: usize,
    depth: usize,
    dtype: DType,
    layout: CacheLayout,
    /// Pages, tokens of one, heads of keys.
    pages: [usize; 3],
    queries: usize,
    params: PagedParams,
    lse: bool,
}

impl Asked {
    /// One that the kernel takes.
    fn taken() -> Asked {
        let config = Config::default().with_aiter_decode(true);
        let device = Device::open(DeviceId::emulated("gfx942").unwrap(), config).unwrap();
        Asked {
            device,
            sequences: 38,
            heads: 64,
            depth: 128,
            dtype: DType::BF16,
            layout: CacheLayout::PackedBoth,
            pages: [3, 16, 8],
            queries: 1,
            params: PagedParams::default(),
            lse: false,
        }
    }

    fn made(&self, shape: &[usize], dtype: DType) -> Tensor {
        Tensor::empty(&self.device, shape, dtype).unwrap()
    }

    /// What speaks against it and, in words, what is taken, with these inputs besides.
    fn with(&self, add: impl for<'a> FnOnce(&mut PagedInputs<'a>, &'a Tensor)) -> (Option<&'static str>, String) {
        let [pages, block, kv_heads] = self.pages;
        let [k, v] =
            self.layout.shapes([pages, block, kv_heads, self.depth], self.dtype).map(|s| self.made(&s, self.dtype));
        let (lens, table) = (self.made(&[self.sequences], DType::I32), self.made(&[self.sequences, 5], DType::I32));
        let shape = [self.sequences * self.queries, self.heads, self.depth];
        let (q, out) = (self.made(&shape, self.dtype), self.made(&shape, self.dtype));
        let (lse, of_heads) = (self.made(&shape[..2], DType::F32), self.made(&[self.heads], DType::F32));
        let cache = Cache::new(k.view(), v.view(), self.layout, None).unwrap();
        let pages = Pages::Table { pages: table.view(), lens: lens.view() };
        let mut inputs = PagedInputs::new(q.view(), cache, pages, 80);
        inputs.queries = Queries::Each(self.queries);
        add(&mut inputs, &of_heads);
        let lse = self.lse.then(|| lse.view());
        let words = explain_paged(&self.device, &inputs, &self.params, out.view(), lse).unwrap();
        let lse = lse.map(View::writable);
        let call = Call::new(self.device.stream(), &inputs, &self.params, &out.view(), lse.as_ref()).unwrap();
        let against = Theirs::of(&inputs, &self.params, &call, &out.view()).err();
        (against, words)
    }

    fn against(&self) -> Option<&'static str> {
        self.with(|_, _| {}).0
    }
}

#[test]
fn what_the_kernel_does_not_compute_is_ours() {
    assert_eq!(Asked::taken().against(), None);
    let with = |change: fn(&mut Asked)| {
        let mut asked = Asked::taken();
        change(&mut asked);
        asked.against()
    };
    assert_eq!(with(|asked| asked.dtype = DType::F16), Some("not bf16, or codes"));
    for layout in [CacheLayout::Nhd, CacheLayout::Hnd, CacheLayout::Packed] {
        let mut asked = Asked::taken();
        asked.layout = layout;
        assert_eq!(asked.against(), Some("values are not packed as keys are"), "{layout:?}");
    }
    assert_eq!(with(|asked| asked.depth = 64), Some("heads are not of 128"));
    assert_eq!(with(|asked| asked.heads = 128), Some("not eight heads of queries for each of keys"));
    assert_eq!(with(|asked| asked.pages[1] = 32), Some("pages are not of 16 keys"));
    assert_eq!(with(|asked| asked.pages[0] = 0), Some("pages are not of 16 keys"));
    assert_eq!(with(|asked| asked.queries = 2), Some("not one query of each sequence"));
    let more = Some("scores have more to them than a scale");
    assert_eq!(with(|asked| asked.params.softcap = Some(1.5)), more);
    assert_eq!(with(|asked| asked.params.window = Some(5)), more);
    assert_eq!(with(|asked| asked.params.scale = Some(-1.0)), Some("an uncommon scale"));
    assert_eq!(with(|asked| asked.lse = true), Some("logarithms of sums"));
    assert_eq!(with(|asked| asked.sequences = 37), Some("fewer heads of keys, of all sequences, than compute units"));
    let unasked = |asked: &mut Asked| {
        asked.device = Device::open(DeviceId::emulated("gfx942").unwrap(), Config::default().with_aiter(true)).unwrap();
    };
    let bits = "a sequence's bits would depend on the batch, which ROCFIRE_AITER_DECODE=1 allows";
    assert_eq!(with(unasked), Some(bits));
}

#[test]
fn inputs_that_the_kernel_does_not_take_make_it_ours() {
    let asked = Asked::taken();
    let more = Some("scores have more to them than a scale");
    assert_eq!(asked.with(|inputs, of_heads| inputs.slopes = Some(of_heads.view())).0, more);
    assert_eq!(asked.with(|inputs, of_heads| inputs.sinks = Some(of_heads.view())).0, more);
    let bias = Layout::strided(&[38, 1], &[1, 1], 0).unwrap();
    let with_bias = asked.with(|inputs, of_heads| inputs.bias = Some(of_heads.view().with_layout(bias).unwrap()));
    assert_eq!(with_bias.0, more);
    let (starts, list) = (asked.made(&[39], DType::I32), asked.made(&[90], DType::I32));
    let pages = Pages::List { starts: starts.view(), pages: list.view(), last: None };
    let [k, v] = asked.layout.shapes([3, 16, 8, 128], asked.dtype).map(|shape| asked.made(&shape, asked.dtype));
    let (q, out) = (asked.made(&[38, 64, 128], asked.dtype), asked.made(&[38, 64, 128], asked.dtype));
    let cache = Cache::new(k.view(), v.view(), asked.layout, None).unwrap();
    let inputs = PagedInputs::new(q.view(), cache, pages, 80);
    let call = Call::new(asked.device.stream(), &inputs, &asked.params, &out.view(), None).unwrap();
    let against = Theirs::of(&inputs, &asked.params, &call, &out.view()).err();
    assert_eq!(against, Some("pages by lists or slots"));
}

#[test]
fn rows_of_queries_may_be_apart_and_those_of_results_not() {
    let asked = Asked::taken();
    let [k, v] = asked.layout.shapes([3, 16, 8, 128], asked.dtype).map(|shape| asked.made(&shape, asked.dtype));
    let (lens, table) = (asked.made(&[38], DType::I32), asked.made(&[38, 5], DType::I32));
    let wide = asked.made(&[38, 80, 128], asked.dtype);
    let apart = wide.with_layout(Layout::strided(&[38, 64, 128], &[80 * 128, 128, 1], 0).unwrap()).unwrap();
    let dense = asked.made(&[38, 64, 128], asked.dtype);
    let of = |q: &Tensor, out: &Tensor| {
        let cache = Cache::new(k.view(), v.view(), asked.layout, None).unwrap();
        let pages = Pages::Table { pages: table.view(), lens: lens.view() };
        let inputs = PagedInputs::new(q.view(), cache, pages, 80);
        let call = Call::new(asked.device.stream(), &inputs, &asked.params, &out.view(), None).unwrap();
        Theirs::of(&inputs, &asked.params, &call, &out.view()).map(|theirs| theirs.decode)
    };
    let decode = of(&apart, &dense).unwrap();
    assert_eq!((decode.q_row, decode.table_row, decode.kv_heads, decode.group), (80 * 256, 5, 8, 8));
    assert_eq!((decode.page, decode.head), (8 * 16 * 256, 16 * 256));
    assert!(of(&dense, &apart).is_err());
}

#[test]
fn planes_are_those_that_the_kernel_reaches() {
    let own = |page: i64, head: i64| {
        let zero = PlaneArgs::zeroed();
        let k = PlaneArgs { page, head, chunk: 128, token: 8, channel: 1, ..zero };
        (k, PlaneArgs { page, head, run: 1024, channel: 8, token: 1, ..zero })
    };
    let of = |(k, v): &(PlaneArgs, PlaneArgs), blocks, heads| planes(k, v, blocks, heads);
    let dense = own(8 * 2048, 2048);
    assert_eq!(of(&dense, 100, 8), Some([8 * 4096, 4096]));
    assert_eq!(of(&dense, 1 << 16, 8), Some([8 * 4096, 4096]), "pages that end at 2^31");
    assert_eq!(of(&dense, (1 << 16) + 1, 8), None, "one more");
    assert_eq!(of(&own(1 << 23, 2048), 10, 8), None, "2^24 bytes from page to page");
    assert_eq!(of(&own((1 << 23) - 8, 2048), 10, 8), Some([(1 << 24) - 16, 4096]));
    assert_eq!(of(&own(0, 2048), (1 << 24) + 1, 8), None, "a number of more than 24 bits");
    assert_eq!(of(&own(-2048, 2048), 10, 8), None, "backwards");
    assert_eq!(of(&own(-2048, 2048), 1, 8), Some([0, 4096]), "of one page the stride says nothing");
    let with = |change: fn(&mut (PlaneArgs, PlaneArgs))| {
        let mut both = own(8 * 2048, 2048);
        change(&mut both);
        of(&both, 10, 8)
    };
    assert_eq!(with(|(_, v)| v.page += 8), None, "pages of values further apart than those of keys");
    assert_eq!(with(|(_, v)| v.head += 8), None);
    assert_eq!(with(|(k, _)| k.token = 16), None, "room between keys");
    assert_eq!(with(|(_, v)| v.run = 2048), None, "room between values");
}

#[test]
fn says_what_is_taken_and_what_goes_before_it() {
    let (_, theirs) = Asked::taken().with(|_, _| {});
    assert!(theirs.contains("would go first, but ROCFIRE_AITER=0 or what it comes to"), "{theirs}");
    assert!(theirs.contains("38 sequences of at most 80 keys, heads 64/8 of 128/128, 3 pages of 16"), "{theirs}");
    assert!(theirs.contains("by multiply-add, 4 rows"), "{theirs}");
    let mut asked = Asked::taken();
    (asked.layout, asked.lse) = (CacheLayout::Nhd, true);
    let (_, ours) = asked.with(|_, _| {});
    assert!(ours.contains("not for this: values are not packed") && ours.contains("on the matrix unit"), "{ours}");
}
