//! What a token's results depend on, what is refused before a launch, and what only the device can know.

use rocfire_hal::{Device, Error as HalError, Stream, Tensor, ViewMut};

use super::*;
use crate::cache::{Cache, CacheMut, Pages};
use crate::rope::RopeStyle;
use crate::testing::{Lie, Numbers, device, device_without_index_checks, read, tensor};

const HEADS: usize = 5;
/// Channels of a query that do not turn, those that do, and of a latent.
const FIXED: usize = 24;
const TURNED: usize = 16;
const LATENT: usize = 40;
const PAGES: usize = 6;
const BLOCK: usize = 4;
const POSITIONS: usize = 50;

/// A token: what it is, its position and slot.
#[derive(Clone, Copy, Debug)]
struct Token(u64, i32, i32);

struct Fixture {
    device: Device,
    dtype: DType,
}

impl Fixture {
    fn random(&self, shape: &[usize], seed: u64, dtype: DType) -> Tensor {
        let values = Numbers::new(seed).values(shape.iter().product(), dtype);
        tensor(&self.device, shape, dtype, &values, Lie::Plain)
    }

    fn integers(&self, shape: &[usize], values: &[i32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::from_bytes(&self.device, shape, DType::I32, &bytes).unwrap()
    }

    fn rows(&self, tokens: &[Token], shape: &[usize], first: u64) -> Tensor {
        let each = shape.iter().product();
        let values: Vec<f64> =
            tokens.iter().flat_map(|token| Numbers::new(first + token.0).values(each, self.dtype)).collect();
        tensor(&self.device, &[&[tokens.len()], shape].concat(), self.dtype, &values, Lie::Plain)
    }

    /// Queries, and what the cache holds then, which began as zeros.
    fn absorb(&self, tokens: &[Token]) -> (Tensor, Tensor) {
        let rows = [(&[HEADS, FIXED + TURNED][..], 100), (&[LATENT], 200), (&[TURNED], 300)];
        let [q, latents, keys] = rows.map(|(shape, first)| self.rows(tokens, shape, first));
        let (weight, norm) =
            (self.random(&[HEADS, FIXED, LATENT], 1, self.dtype), self.random(&[LATENT], 2, self.dtype));
        let tables = [3, 4].map(|seed| self.random(&[POSITIONS, TURNED / 2], seed, DType::F32));
        let positions: Vec<i32> = tokens.iter().map(|token| token.1).collect();
        let slots: Vec<i32> = tokens.iter().map(|token| token.2).collect();
        let [positions, slots] = [positions, slots].map(|values| self.integers(&[tokens.len()], &values));
        let inputs = AbsorbInputs {
            q: q.view(),
            weight: weight.view(),
            latents: latents.view(),
            keys: keys.view(),
            norm: Some((norm.view(), 1e-6)),
            tables: [tables[0].view(), tables[1].view()],
            style: RopeStyle::GptJ,
            positions: positions.view(),
            slots: slots.view(),
        };
        let shape = [PAGES, BLOCK, LATENT + TURNED];
        let zeros = vec![0.0; shape.iter().product()];
        let mut cache = tensor(&self.device, &shape, self.dtype, &zeros, Lie::Plain);
        let mut out = Tensor::empty(&self.device, &[tokens.len(), HEADS, LATENT + TURNED], self.dtype).unwrap();
        let mut rows = CacheMut::latent(cache.view_mut(), LATENT, None).unwrap();
        absorb(self.device.stream(), &inputs, out.view_mut(), &mut rows).unwrap();
        (out, cache)
    }
}

#[test]
fn the_bits_of_a_token_are_those_it_has_alone() {
    for dtype in [DType::BF16, DType::F32] {
        let fixture = Fixture { device: device(), dtype };
        let (one, padding) = (Token(7, 33, 6), Token(8, 0, -1));
        let (alone, cache) = fixture.absorb(&[one]);
        let (alone, cache) = (read(&alone), read(&cache));
        let mut batch: Vec<Token> = (20..60).map(|n| Token(n, n as i32 - 20, -1)).collect();
        batch.extend([padding, one]);
        let (among, among_cache) = fixture.absorb(&batch);
        let row = HEADS * (LATENT + TURNED);
        assert_eq!(read(&among)[(batch.len() - 1) * row..], alone, "{dtype}");
        assert_eq!(read(&among_cache), cache, "{dtype}: padding writes nothing");
        let written = 6 * (LATENT + TURNED)..7 * (LATENT + TURNED);
        assert!(cache.iter().enumerate().all(|(at, &x)| written.contains(&at) || x == 0.0), "one row alone");
    }
}

#[test]
fn a_slot_behind_the_last_is_passed_over_and_told_of() {
    let fixture = Fixture { device: device_without_index_checks(), dtype: DType::F16 };
    for slot in [(PAGES * BLOCK) as i32, i32::MAX, i32::MIN] {
        let (_, cache) = fixture.absorb(&[Token(7, 3, slot)]);
        assert!(read(&cache).iter().all(|&x| x == 0.0), "slot {slot}");
    }
    let own = Device::open(fixture.device.id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    match (Fixture { device: own, dtype: DType::F16 }).absorb(&[Token(7, 3, 77)]).0.to_bytes() {
        Err(HalError::Index(fault)) => assert_eq!((&fault.op[..], fault.index), ("absorb", 77)),
        other => panic!("expected a report of a slot, got {other:?}"),
    }
}

#[test]
fn a_position_outside_takes_the_nearest_row() {
    let fixture = Fixture { device: device(), dtype: DType::F32 };
    let of = |position| read(&fixture.absorb(&[Token(7, position, 1)]).0);
    assert_eq!(of(-5), of(0));
    assert_eq!(of(i32::MAX), of(POSITIONS as i32 - 1));
}

fn expanded(fixture: &Fixture, lens: &[i32], rows: usize, workspace: Option<ViewMut<'_>>) -> Result<[Tensor; 2]> {
    let cache = fixture.random(&[PAGES, BLOCK, LATENT + TURNED], 5, fixture.dtype);
    let weight = fixture.random(&[HEADS, FIXED + 32, LATENT], 6, fixture.dtype);
    let table: Vec<i32> = (0..lens.len() as i32).flat_map(|n| [2 * n, 2 * n + 1]).collect();
    let starts = lens.iter().scan(0, |at, len| {
        *at += len;
        Some(*at)
    });
    let starts: Vec<i32> = std::iter::once(0).chain(starts).collect();
    let table = fixture.integers(&[lens.len(), 2], &table);
    let (lens, starts) = (fixture.integers(&[lens.len()], lens), fixture.integers(&[starts.len()], &starts));
    let of = |channels| fixture.random(&[rows, HEADS, channels], 9, fixture.dtype);
    let (mut keys, mut values) = (of(FIXED + TURNED), of(32));
    let inputs = ExpandInputs {
        cache: Cache::latent(cache.view(), LATENT, None)?,
        pages: Pages::Table { pages: table.view(), lens: lens.view() },
        starts: starts.view(),
        keys_most: 2 * BLOCK,
        weight: ExpandWeight::Floats(weight.view()),
    };
    let stream: &Stream = fixture.device.stream();
    expand(stream, &inputs, keys.view_mut(), values.view_mut(), workspace)?;
    Ok([keys, values])
}

#[test]
fn the_bits_of_a_row_are_those_it_has_alone_in_a_workspace_of_the_caller() {
    for dtype in [DType::BF16, DType::F32] {
        let fixture = Fixture { device: device(), dtype };
        let [keys, values] = expanded(&fixture, &[3], 3, None).unwrap().map(|x| read(&x));
        let mut memory = fixture.random(&[40 * LATENT], 10, dtype);
        let among = expanded(&fixture, &[3, 0, 8], 40, Some(memory.view_mut())).unwrap().map(|x| read(&x));
        assert_eq!(among[0][..keys.len()], keys);
        assert_eq!(among[1][..values.len()], values);
        assert!(among[1][11 * HEADS * 32..].iter().all(|&x| x == 0.0), "rows of no sequence");
        let mut memory = fixture.random(&[40 * LATENT - 1], 10, dtype);
        let error = expanded(&fixture, &[3], 40, Some(memory.view_mut())).unwrap_err().to_string();
        assert!(error.contains("workspace must be 1600 elements"), "{error}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_any_launch() {
    let own = Device::open(device().id(), rocfire_hal::Config::from_env().unwrap()).unwrap();
    let fixture = Fixture { device: own, dtype: DType::BF16 };
    let of = |shape: &[usize], dtype| Tensor::empty(&fixture.device, shape, dtype).unwrap();
    let bf16 = |shape: &[usize]| of(shape, DType::BF16);
    let (q, weight) = (bf16(&[3, HEADS, FIXED + TURNED]), bf16(&[HEADS, FIXED, LATENT]));
    let (latents, keys, norm) = (bf16(&[3, LATENT]), bf16(&[3, TURNED]), bf16(&[LATENT]));
    let (table, positions) = (of(&[9, TURNED / 2], DType::F32), of(&[3], DType::I64));
    let inputs = AbsorbInputs {
        q: q.view(),
        weight: weight.view(),
        latents: latents.view(),
        keys: keys.view(),
        norm: None,
        tables: [table.view(); 2],
        style: RopeStyle::NeoX,
        positions: positions.view(),
        slots: positions.view(),
    };
    let (mut rows, mut out) = (bf16(&[PAGES, BLOCK, LATENT + TURNED]), bf16(&[3, HEADS, LATENT + TURNED]));
    let wrong = [
        (
            "q must be more channels",
            AbsorbInputs {
                q: keys.view().with_layout(Layout::strided(&[3, 1, 16], &[16, 16, 1], 0).unwrap()).unwrap(),
                ..inputs
            },
        ),
        ("weight must be [5, 24, 40]", AbsorbInputs { weight: q.view(), ..inputs }),
        ("latents must be [3, 40]", AbsorbInputs { latents: keys.view(), ..inputs }),
        ("keys must be [3, 16]", AbsorbInputs { keys: latents.view(), ..inputs }),
        ("norm must be [40]", AbsorbInputs { norm: Some((keys.view(), 1e-6)), ..inputs }),
        ("norm must be an epsilon", AbsorbInputs { norm: Some((norm.view(), -1.0)), ..inputs }),
        ("sines must be", AbsorbInputs { tables: [table.view(), q.view()], ..inputs }),
        ("slots must be I32 or I64 [3]", AbsorbInputs { slots: keys.view(), ..inputs }),
    ];
    let launches = fixture.device.launches();
    for (what, inputs) in wrong {
        let mut cache = CacheMut::latent(rows.view_mut(), LATENT, None).unwrap();
        let error = absorb(fixture.device.stream(), &inputs, out.view_mut(), &mut cache).expect_err(what).to_string();
        assert!(error.contains(what), "{error:?} names {what}");
    }
    let mut other = bf16(&[PAGES, BLOCK, 1, 64]);
    let mut more = bf16(&[PAGES, BLOCK, 1, 64]);
    let mut cache = CacheMut::new(other.view_mut(), more.view_mut(), crate::cache::CacheLayout::Nhd, None).unwrap();
    let error = absorb(fixture.device.stream(), &inputs, out.view_mut(), &mut cache).unwrap_err().to_string();
    assert!(error.contains("a cache of latents"), "{error}");
    assert_eq!(fixture.device.launches(), launches);
}
