//! Caches on pages: tokens written into slots, sequences gathered from their pages, pages copied, in every layout and format.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::cache::{
    Cache, CacheCodes, CacheLayout, CacheList, CacheMut, Pages, ScaleRule, copy_blocks, gather, write,
};
use rocfire_kernels::quant::Format;

use super::quant::{nearest, sizes};
use super::{Call, Case, Failure};
use crate::data::{Array, Placement, ravel};

/// What scales there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scales {
    Tensor,
    Block,
    Token,
}

/// How a cache lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub pages: usize,
    pub block: usize,
    pub heads: usize,
    pub depths: [usize; 2],
    pub layout: CacheLayout,
    pub codes: Option<(Format, Scales)>,
}

impl Form {
    /// The type of its elements, where those of rows are of `dtype`.
    pub fn dtype(&self, dtype: DType) -> DType {
        if self.codes.is_some() { DType::U8 } else { dtype }
    }

    /// Shapes of keys and of values.
    pub fn shapes(&self, dtype: DType) -> [Vec<usize>; 2] {
        let of = |depth| self.layout.shapes([self.pages, self.block, self.heads, depth], self.dtype(dtype));
        [of(self.depths[0])[0].clone(), of(self.depths[1])[1].clone()]
    }

    /// Where an element lies in the plane of keys or of values.
    pub fn at(&self, plane: usize, dtype: DType, [slot, head, channel]: [usize; 3]) -> usize {
        let (page, offset, x) = (slot / self.block, slot % self.block, 16 / self.dtype(dtype).size_bytes());
        let at = match (self.layout, plane) {
            (CacheLayout::Nhd, _) => vec![page, offset, head, channel],
            (CacheLayout::Hnd, _) => vec![page, head, offset, channel],
            (_, 0) => vec![page, head, channel / x, offset, channel % x],
            (CacheLayout::Packed, _) => vec![page, head, channel, offset],
            (CacheLayout::PackedBoth, _) => vec![page, head, offset / x, channel, offset % x],
        };
        ravel(&at, &self.shapes(dtype)[plane])
    }

    /// What a code stands for.
    pub fn decode(&self, value: f64) -> f64 {
        let Some((format, _)) = self.codes else { return value };
        let code = value as u8;
        if format == Format::I8 {
            return f64::from(code as i8);
        }
        let size = sizes(format)[usize::from(code & 0x7f)];
        if code & 0x80 != 0 { -size } else { size }
    }

    /// The code of a number.
    pub fn encode(&self, x: f32) -> f64 {
        let Some((format, _)) = self.codes else { return x.into() };
        let number = nearest(format, x.into(), false);
        if format == Format::I8 {
            return f64::from(number as i8 as u8);
        }
        let code = sizes(format).partition_point(|&size| size < number.abs());
        // Formats of one zero have no code for another.
        let negative =
            number.is_sign_negative() && !(code == 0 && matches!(format, Format::E4M3Fnuz | Format::E5M2Fnuz));
        code as f64 + if negative { 128.0 } else { 0.0 }
    }

    fn scale_shape(&self) -> Vec<usize> {
        match self.codes {
            Some((_, Scales::Token)) => vec![self.pages, self.heads, self.block],
            Some((_, Scales::Block)) => vec![self.pages, self.heads],
            _ => vec![1],
        }
    }

    /// The scale of a token's head.
    pub fn scale(&self, scales: &Array, slot: usize, head: usize) -> f64 {
        match self.codes {
            Some((_, Scales::Token)) => {
                scales.values[(slot / self.block * self.heads + head) * self.block + slot % self.block]
            }
            Some((_, Scales::Block)) => scales.values[slot / self.block * self.heads + head],
            Some((_, Scales::Tensor)) => scales.values[0],
            None => 1.0,
        }
    }

    /// Keys, values, and where there are codes the scales of both.
    pub fn arrays(&self, dtype: DType, seed: u64) -> Vec<Array> {
        let mut arrays = Vec::new();
        for (plane, shape) in self.shapes(dtype).into_iter().enumerate() {
            let mut array = Array::random(&shape, self.dtype(dtype), seed + plane as u64);
            if let Some((format, _)) = self.codes {
                // Codes of numbers up to about four, of either sign.
                let reach = if format == Format::I8 { 100.0 } else { 4.0 };
                let numbers = Array::random(&shape, DType::F32, seed + plane as u64);
                array.values = numbers.values.iter().map(|x| self.encode((x * reach) as f32)).collect();
            }
            arrays.push(array);
        }
        if self.codes.is_some() {
            for plane in 0..2 {
                let random = Array::random(&self.scale_shape(), DType::F32, seed + 2 + plane);
                let values = random.values.iter().map(|x| 0.3 + x.abs()).collect();
                arrays.push(Array::new(&self.scale_shape(), DType::F32, values));
            }
        }
        arrays
    }

    /// The cache of tensors made of [`Form::arrays`].
    pub fn cache<'a>(&self, tensors: &'a [Tensor]) -> Result<Cache<'a>, Failure> {
        Ok(Cache::new(tensors[0].view(), tensors[1].view(), self.layout, self.codes_of(&tensors[2..]))?)
    }

    fn codes_of<'a>(&self, scales: &'a [Tensor]) -> Option<CacheCodes<'a>> {
        let (format, _) = self.codes?;
        Some(CacheCodes { format, k_scales: scales[0].view(), v_scales: scales[1].view() })
    }

    pub fn name(&self) -> String {
        let Form { pages, block, heads, depths: [k, v], layout, codes } = self;
        let codes = codes.map_or(String::new(), |(format, scales)| format!(" {format:?} by {scales:?}"));
        let depths = if k == v { k.to_string() } else { format!("{k}/{v}") };
        format!("{pages}x{block}x{heads}x{depths} {layout:?}{codes}")
    }
}

const PLAIN: Form = Form { pages: 5, block: 16, heads: 2, depths: [64, 64], layout: CacheLayout::Nhd, codes: None };

const fn coded(form: Form, format: Format, scales: Scales) -> Form {
    Form { codes: Some((format, scales)), ..form }
}

/// One channel run, a pool, odd pages, every layout, channels of several turns, keys and values of different channels, every format.
const FORMS: [Form; 18] = [
    Form { pages: 1, block: 1, heads: 1, depths: [8, 8], ..PLAIN },
    PLAIN,
    Form { pages: 67, block: 1, heads: 3, depths: [128, 128], ..PLAIN },
    Form { block: 7, depths: [80, 80], ..PLAIN },
    Form { layout: CacheLayout::Hnd, ..PLAIN },
    Form { layout: CacheLayout::Packed, ..PLAIN },
    Form { layout: CacheLayout::PackedBoth, ..PLAIN },
    Form { depths: [512, 64], heads: 1, ..PLAIN },
    Form { block: 32, depths: [256, 96], layout: CacheLayout::Hnd, ..PLAIN },
    coded(PLAIN, Format::E4M3, Scales::Tensor),
    coded(PLAIN, Format::E4M3Fnuz, Scales::Token),
    coded(Form { layout: CacheLayout::Hnd, ..PLAIN }, Format::E4M3, Scales::Token),
    coded(Form { layout: CacheLayout::Packed, ..PLAIN }, Format::I8, Scales::Token),
    coded(Form { layout: CacheLayout::PackedBoth, ..PLAIN }, Format::E4M3, Scales::Block),
    coded(Form { depths: [112, 112], ..PLAIN }, Format::I8, Scales::Tensor),
    coded(Form { depths: [512, 256], heads: 1, ..PLAIN }, Format::I8, Scales::Token),
    coded(PLAIN, Format::E5M2, Scales::Block),
    coded(Form { block: 3, ..PLAIN }, Format::E5M2Fnuz, Scales::Tensor),
];

const TYPES: [DType; 3] = [DType::BF16, DType::F16, DType::F32];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, form) in FORMS.into_iter().enumerate() {
        for step in 0..2 {
            let dtype = TYPES[(turn + step) % 3];
            cases.push(written(dtype, form, [1, 37, 0, 5][(turn + step) % 4], turn % 2 == 1));
        }
        cases.push(gathered(TYPES[turn % 3], form, turn % 2 == 0));
        cases.push(copied(TYPES[(turn + 1) % 3], form));
    }
    cases
}

/// Keys and values are slices of rows that have more in them.
const BESIDE: usize = 24;

fn written(dtype: DType, form: Form, tokens: usize, is_wide: bool) -> Case {
    let slots_end = form.pages * form.block;
    let tokens = tokens.min(slots_end);
    let rule = if matches!(form.codes, Some((_, Scales::Token))) { ScaleRule::Token } else { ScaleRule::Given };
    let count = form.arrays(dtype, 10).len();
    let row_of = move |plane: usize| form.heads * form.depths[plane] + BESIDE;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        for (input, output) in inputs[3..].iter().zip(outputs.iter_mut()) {
            copy_into(input.view(), output.view_mut())?;
        }
        let rows = |plane: usize| -> Result<Tensor, Failure> {
            let (x, depth) = (&inputs[plane], form.depths[plane]);
            let strides = [row_of(plane) as i64, depth as i64, 1];
            Ok(x.with_layout(rocfire_hal::Layout::strided(&[tokens, form.heads, depth], &strides, 8)?)?)
        };
        let (key, value) = (rows(0)?, rows(1)?);
        let (planes, scales) = outputs.split_at_mut(2);
        let [k, v] = planes else { unreachable!("two planes are asked for below") };
        let mut cache = CacheMut::new(k.view_mut(), v.view_mut(), form.layout, form.codes_of(scales))?;
        Ok(write(stream, key.view(), value.view(), &mut cache, inputs[2].view(), rule)?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut out: Vec<Vec<f64>> = inputs[3..].iter().map(|array| array.values.to_vec()).collect();
        for token in 0..tokens {
            let slot = inputs[2].values[token];
            if slot < 0.0 {
                continue;
            }
            for plane in 0..2 {
                for head in 0..form.heads {
                    let depth = form.depths[plane];
                    let row = &inputs[plane].values[8 + token * row_of(plane) + head * depth..][..depth];
                    let mut scale = form.codes.map_or(1.0, |_| form.scale(&inputs[5 + plane], slot as usize, head));
                    if let (ScaleRule::Token, Some((format, _))) = (rule, form.codes) {
                        scale = f64::from(row.iter().fold(0f64, |most, x| most.max(x.abs())) as f32 / format.largest());
                        let slot = slot as usize;
                        let at = (slot / form.block * form.heads + head) * form.block + slot % form.block;
                        out[2 + plane][at] = scale;
                    }
                    let by = 1.0 / (scale as f32).max(if rule == ScaleRule::Token { 1e-12 } else { 0.0 });
                    for (channel, &x) in row.iter().enumerate() {
                        let to = form.at(plane, dtype, [slot as usize, head, channel]);
                        out[plane][to] = if form.codes.is_some() { form.encode(x as f32 * by) } else { x };
                    }
                }
            }
        }
        out
    };
    // Slots from the last one back, every fourth token none.
    let slot = |token: usize| if token % 4 == 3 { -1.0 } else { (slots_end - 1 - token) as f64 };
    let slot_type = if is_wide { DType::I64 } else { DType::I32 };
    let mut inputs: Vec<_> = (0..2)
        .map(|plane| {
            let mut rows = Array::random(&[tokens * row_of(plane) + 8], dtype, plane as u64 + 1);
            // A token of nothing but zeros.
            rows.values.iter_mut().take(8 + form.depths[plane]).for_each(|x| *x = 0.0);
            (rows, Placement::Contiguous)
        })
        .collect();
    inputs.push((Array::new(&[tokens], slot_type, (0..tokens).map(slot).collect()), Placement::Contiguous));
    inputs.extend(form.arrays(dtype, 10).into_iter().map(|array| (array, Placement::Contiguous)));
    let outputs = inputs[3..].iter().map(|(array, _)| (array.shape.clone(), array.dtype)).collect();
    debug_assert_eq!(inputs.len(), 3 + count);
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("cache_write", dtype, format!("{tokens} into {}", form.name()), 0.0, call)
}

/// Page numbers of a sequence after the other, a page apart from each other and from the last one back; `(pages, starts)`.
pub(super) fn page_numbers(form: &Form, lens: &[usize]) -> Vec<Vec<usize>> {
    let mut next = 0;
    let step = if form.pages.is_multiple_of(2) { 1 } else { 2 };
    lens.iter()
        .map(|len| {
            (0..len.div_ceil(form.block))
                .map(|_| {
                    next += 1;
                    form.pages - 1 - (next - 1) * step % form.pages
                })
                .collect()
        })
        .collect()
}

/// Tables and lengths of sequences as inputs: what is behind a sequence's pages is no page.
pub(super) fn page_arrays(form: &Form, lens: &[usize], is_list: bool) -> Vec<Array> {
    let numbers = page_numbers(form, lens);
    let of = |shape: &[usize], values: Vec<f64>| Array::new(shape, DType::I32, values);
    if is_list {
        let mut starts = vec![0.0];
        let mut all = Vec::new();
        for pages in &numbers {
            all.extend(pages.iter().map(|&page| page as f64));
            starts.push(all.len() as f64);
        }
        let last = lens.iter().map(|&len| if len == 0 { -3.0 } else { ((len - 1) % form.block + 1) as f64 });
        return vec![of(&[all.len()], all), of(&[lens.len()], last.collect()), of(&[lens.len() + 1], starts)];
    }
    let width = numbers.iter().map(Vec::len).max().unwrap_or(0) + 1;
    let mut table = vec![1e6; lens.len() * width];
    for (sequence, pages) in numbers.iter().enumerate() {
        pages.iter().enumerate().for_each(|(n, &page)| table[sequence * width + n] = page as f64);
    }
    vec![of(&[lens.len(), width], table), of(&[lens.len()], lens.iter().map(|&len| len as f64).collect())]
}

/// The pages of tensors made of [`page_arrays`].
pub(super) fn pages_of(tensors: &[Tensor]) -> Pages<'_> {
    match tensors {
        [pages, last, starts] => Pages::List { starts: starts.view(), pages: pages.view(), last: Some(last.view()) },
        [pages, lens] => Pages::Table { pages: pages.view(), lens: lens.view() },
        _ => unreachable!("tables and lengths are two tensors, lists three"),
    }
}

fn gathered(dtype: DType, form: Form, is_list: bool) -> Case {
    // A page and a part, none, a token, whole pages.
    let room = form.pages * form.block;
    let lens: Vec<usize> = match room {
        1 => vec![0, 1],
        _ => vec![form.block + form.block / 2, 0, 1, 2 * form.block],
    };
    let rows: usize = lens.iter().sum();
    let starts: Vec<usize> = std::iter::once(0)
        .chain(lens.iter().scan(0, |at, len| {
            *at += len;
            Some(*at)
        }))
        .collect();
    let planes = form.arrays(dtype, 20).len();
    let most = lens.iter().copied().max().unwrap_or(0);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let (cache, pages) = (form.cache(&inputs[..planes])?, pages_of(&inputs[planes + 1..]));
        let [key, value] = outputs else { unreachable!("two outputs are asked for below") };
        let starts = inputs[planes].view();
        Ok(gather(stream, &cache, &pages, starts, most, key.view_mut(), value.view_mut())?)
    };
    let of_oracle = (lens.clone(), starts.clone());
    let oracle = move |inputs: &[Array]| {
        let (lens, starts) = &of_oracle;
        let numbers = page_numbers(&form, lens);
        let mut out = [0, 1].map(|plane| vec![0.0; rows * form.heads * form.depths[plane]]);
        for (sequence, &len) in lens.iter().enumerate() {
            for key in 0..len {
                let slot = numbers[sequence][key / form.block] * form.block + key % form.block;
                for plane in 0..2 {
                    for head in 0..form.heads {
                        let scale = form.codes.map_or(1.0, |_| form.scale(&inputs[2 + plane], slot, head));
                        for channel in 0..form.depths[plane] {
                            let x = inputs[plane].values[form.at(plane, dtype, [slot, head, channel])];
                            let row = starts[sequence] + key;
                            out[plane][(row * form.heads + head) * form.depths[plane] + channel] =
                                form.decode(x) * scale;
                        }
                    }
                }
            }
        }
        out.to_vec()
    };
    let mut inputs = form.arrays(dtype, 20);
    inputs.push(Array::new(&[starts.len()], DType::I32, starts.iter().map(|&row| row as f64).collect()));
    inputs.extend(page_arrays(&form, &lens, is_list));
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let outputs = [0, 1].map(|plane| (vec![rows, form.heads, form.depths[plane]], dtype)).to_vec();
    let call = Call { inputs, outputs, launch, oracle };
    let name = format!("{lens:?} of {}{}", form.name(), if is_list { " by lists" } else { "" });
    Case::new("cache_gather", dtype, name, 0.0, call)
}

/// Two layers' pages copied at once.
fn copied(dtype: DType, form: Form) -> Case {
    let one = form.arrays(dtype, 30).len();
    let pairs: Vec<[usize; 2]> = if form.pages > 4 { vec![[0, 3], [4, 1]] } else { vec![[0, 0]] };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        for (input, output) in inputs[1..].iter().zip(outputs.iter_mut()) {
            copy_into(input.view(), output.view_mut())?;
        }
        let layers = [form.cache(&outputs[..one])?, form.cache(&outputs[one..])?];
        let list = CacheList::new(stream, &[&layers[0], &layers[1]])?;
        Ok(copy_blocks(stream, &list, inputs[0].view())?)
    };
    let of_oracle = pairs.clone();
    let oracle = move |inputs: &[Array]| {
        let copied = |array: &Array| {
            let (mut values, len) = (array.values.to_vec(), array.values.len() / form.pages);
            if array.shape[0] == form.pages && values.len() > 1 {
                for &[from, to] in &of_oracle {
                    values.copy_within(from * len..(from + 1) * len, to * len);
                }
            }
            values
        };
        inputs[1..].iter().map(copied).collect()
    };
    let numbers = pairs.iter().flatten().map(|&page| page as f64).collect();
    let mut inputs = vec![Array::new(&[pairs.len(), 2], DType::I64, numbers)];
    inputs.extend(form.arrays(dtype, 30));
    inputs.extend(form.arrays(dtype, 40));
    let outputs = inputs[1..].iter().map(|array| (array.shape.clone(), array.dtype)).collect();
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("cache_copy", dtype, format!("{pairs:?} of {}", form.name()), 0.0, call)
}
