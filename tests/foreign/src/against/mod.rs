//! `--against`: AMD's kernels and ours on the same shapes, by the emulator's counters.
//!
//! AMD's run whole and are compared with their references, ours are those that the tests judge. Both get random numbers. What is
//! counted is in the emulator's `MODEL.md`; every figure is a count of all workgroups, none is a time.

mod counts;
pub mod ours;

use std::fmt::Write as _;

use rayon::prelude::*;
use rocfire_hal::Device;

use crate::case::{Case, Object};
use crate::family::{attention, gemm, paged, topk};
use counts::{Counts, FIGURES};
use ours::{Attention, Launch, Outcome, counted};

/// Our operator, prepared on a device.
type Ours = dyn Fn(&Device) -> Outcome<Launch> + Send + Sync;

/// An operator that both have.
struct Pair {
    /// The operator and its shape.
    name: String,
    arch: &'static str,
    /// How many times AMD's figure ours may be.
    most: f64,
    amd: Case,
    ours: Box<Ours>,
}

/// Attention's gradients and forward, and products: figures at most this times AMD's.
const CLOSE: f64 = 1.05;
/// All others.
const NEAR: f64 = 1.15;

/// The code object of a name.
///
/// # Errors
/// The package has none.
pub fn find<'a>(objects: &'a [Object], arch: &str, name: &str) -> Outcome<&'a Object> {
    let found = objects.iter().find(|object| object.arch == arch && object.name == name);
    found.ok_or_else(|| format!("{arch}/{name} is not in AITER's package").into())
}

fn pairs(objects: &[Object]) -> Outcome<Vec<Pair>> {
    let mut pairs = Vec::new();
    for arch in ["gfx942", "gfx950"] {
        pairs.extend(attentions(objects, arch)?);
        pairs.extend(decoding(objects, arch)?);
        pairs.extend(products(objects, arch)?);
    }
    for (rows, experts) in [(4, 128), (12, 256)] {
        let (tokens, chosen) = (1024, 8);
        let object = find(objects, "gfx942", &format!("topksoftmax/topksoftmax_{rows}x{experts}x{chosen}.co"))?;
        pairs.push(Pair {
            name: format!("softmax and the {chosen} largest of {experts}, {tokens} tokens"),
            arch: "gfx942",
            most: NEAR,
            amd: topk::of(object, tokens, false).ok_or("no kernel of top-k softmax")?,
            ours: Box::new(move |device| ours::routing(device, [tokens, experts, chosen])),
        });
    }
    Ok(pairs)
}

/// Rows of queries and of keys of attention over whole sequences.
const ROWS: usize = 1024;
/// Heads of forwards: as many workgroups as ours does not cut the keys for; and of gradients, every head being the same work.
const HEADS: [[usize; 2]; 2] = [[16, 16], [4, 4]];

fn attentions(objects: &[Object], arch: &'static str) -> Outcome<Vec<Pair>> {
    let mut pairs = Vec::new();
    let packed = vec![ROWS, 300, 700];
    // AMD rounds weights to even, as we do.
    let forwards: &[(&str, &str)] = match arch {
        "gfx942" => &[
            ("", "fmha_v3_fwd/MI300/fwd_hd128_bf16_rtne.co"),
            (", causal", "fmha_v3_fwd/MI300/fwd_hd128_bf16_causal_rtne.co"),
            (", packed", "fmha_v3_fwd/MI300/fwd_hd128_bf16_rtne_group.co"),
        ],
        _ => &[
            ("", "fmha_v3_fwd/fwd_hd128_bf16.co"),
            (", causal", "fmha_v3_fwd/fwd_hd128_bf16_causal.co"),
            (", packed", "fmha_v3_fwd/fwd_hd128_bf16_group.co"),
        ],
    };
    let backwards: &[(&str, &str)] = match arch {
        "gfx942" => &[
            ("", "fmha_v3_bwd/bwd_hd128_bf16_a32_rtne_psskddv.co"),
            (", causal", "fmha_v3_bwd/bwd_hd128_bf16_causal_br_a32_rtne_psskddv.co"),
        ],
        _ => &[
            ("", "fmha_v3_bwd/bwd_hd128_bf16_a32_psskddv.co"),
            (", causal", "fmha_v3_bwd/bwd_hd128_bf16_causal_br_a32_psskddv.co"),
        ],
    };
    let all = forwards.iter().map(|row| (false, row)).chain(backwards.iter().map(|row| (true, row)));
    for (is_backward, &(kind, name)) in all {
        let is_packed = kind == ", packed";
        let lengths = match (is_packed, is_backward) {
            (true, _) => packed.clone(),
            (_, true) => vec![ROWS / 2],
            _ => vec![ROWS],
        };
        let heads = HEADS[usize::from(is_backward)];
        let sequences: Vec<(usize, usize)> = lengths.iter().map(|&length| (length, length)).collect();
        let object = find(objects, arch, name)?;
        let amd = match is_backward {
            true => attention::backward::of(object, &sequences, heads).ok_or("no kernel of gradients")?,
            false => attention::forward::of(object, &sequences, heads),
        };
        let shape = Attention { lengths: lengths.clone(), heads, is_causal: kind == ", causal", is_packed };
        let what = if is_backward { "gradients of attention" } else { "attention" };
        pairs.push(Pair {
            name: format!("{what} bf16 H{} S{lengths:?} D128{kind}", heads[0]),
            arch,
            most: CLOSE,
            amd,
            ours: match is_backward {
                true => Box::new(move |device| ours::backward(device, &shape)),
                false => Box::new(move |device| ours::forward(device, &shape)),
            },
        });
    }
    Ok(pairs)
}

fn decoding(objects: &[Object], arch: &'static str) -> Outcome<Vec<Pair>> {
    let mut pairs = Vec::new();
    let (contexts, kv_heads) = (vec![2048, 2048], 2);
    for (is_coded, name) in [(false, "pa_bf16_noquant_gqa8_1tg_4w"), (true, "pa_bf16_pertokenFp8_gqa8_2tg_4w_hp")] {
        let object = find(objects, arch, &format!("pa/{name}.co"))?;
        let (lengths, heads) = (contexts.clone(), [8 * kv_heads, kv_heads]);
        pairs.push(Pair {
            name: format!("paged decode {} {contexts:?} H16/2 D128", if is_coded { "fp8" } else { "bf16" }),
            arch,
            most: NEAR,
            amd: paged::of_heads(object, &contexts, kv_heads).ok_or("no kernel of paged decode")?,
            ours: Box::new(move |device| ours::decode(device, &lengths, heads, is_coded)),
        });
    }
    for (heads, rows) in [(16, 16), (128, 128)] {
        let object = find(objects, arch, &format!("mla/mla_dec_stage1_bf16_a16w16_subQ{rows}_mqa{heads}.co"))?;
        let lengths = vec![1024, 1024];
        pairs.push(Pair {
            name: format!("MLA decode bf16 {lengths:?} H{heads} D576/512"),
            arch,
            most: NEAR,
            amd: paged::of_latent(object, &lengths, 2),
            ours: Box::new(move |device| ours::latent(device, &lengths, heads)),
        });
    }
    Ok(pairs)
}

/// The number of the tiling that a card of 304 compute units gets for 64 rows: `rocfire explain gemm 64 4096 4096 bf16 --arch gfx942`.
const TILING_OF_64: usize = 2;

fn products(objects: &[Object], arch: &'static str) -> Outcome<Vec<Pair>> {
    let (few, large) = ([64, 4096, 4096], [4096, 4096, 512]);
    let product = |name: &str, object: &str, (size, splits): ([usize; 3], usize), ours: Box<Ours>| -> Outcome<Pair> {
        let amd = gemm::of(find(objects, arch, object)?, size, splits).ok_or("no kernel of products")?;
        let [m, n, k] = size;
        Ok(Pair { name: format!("product {name} {m}x{n}x{k}"), arch, most: CLOSE, amd, ours })
    };
    let bf16 = Box::new(move |device: &Device| ours::product(device, few, TILING_OF_64, true));
    let coded = match arch {
        "gfx942" => product(
            "i8 by token",
            "i8gemm/I8gemm_bf16_perTokenI8_BpreShuffle_128x128.co",
            (large, 1),
            Box::new(move |device| ours::int8(device, large)),
        ),
        _ => product(
            "MXFP4",
            "f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_128x128.co",
            (large, 1),
            Box::new(move |device| ours::microscaled(device, large)),
        ),
    };
    Ok(vec![product("bf16", "bf16gemm/bf16gemm_outf32_tn_64x64_pf3.co", (few, 4), bf16)?, coded?])
}

/// What came of a pair: our figures and AMD's.
type Figures = [[f64; FIGURES.len()]; 2];

impl Pair {
    fn figures(&self) -> Outcome<Figures> {
        let sum = |profiles: Vec<_>| {
            let mut counts = Counts::default();
            profiles.iter().for_each(|profile| counts += profile);
            counts.figures()
        };
        let amd = self.amd.counted().map_err(|error| format!("{}: {error}", self.amd.object.name))?;
        Ok([sum(counted(self.arch, |device| (self.ours)(device))?), sum(amd)])
    }
}

/// What the page begins with.
const INTRODUCTION: &str = "\
# Our kernels beside AMD's

Written by `cargo profile --modelled --against aiter`: the assembly kernels of AMD's package `amd-aiter` and ours run whole on the
emulated card, on the same shapes and on random numbers, and are counted by its cost model (`backend/emulator/MODEL.md`). AMD's
results are compared with references in f64. Clocks are those of one compute unit that does everything; nothing here is a time.

Cells are ours / AMD's **ratio**. *Over* is how many of the figures are above the limit times AMD's: 1.05 for attention over whole
sequences, its gradients and products, 1.15 for the rest. Ours are counted with all that an operator launches: sums of parts of
decoding and of products, row sums of gradients; AMD's host does these by kernels that are not in the package, or adds by atomics
where ours keep an order of sums. AMD's kernels of gradients sum the gradients of queries by atomics in f32, ours compute the scores
again for it, which is two products of seven. Layouts are each library's own: pages of keys are AITER's on its side, and
`[pages, tokens, heads, channels]` on ours.
";

/// The page `tests/against.md`. A pair that could not be counted is told in its row.
///
/// # Errors
/// A code object that the package has not; no pair of that name.
pub fn page(objects: &[Object], filter: &str) -> Outcome<String> {
    let mut pairs = pairs(objects)?;
    pairs.retain(|pair| format!("{} {}", pair.name, pair.arch).contains(filter));
    if pairs.is_empty() {
        return Err(format!("no operator's name and architecture hold {filter:?}").into());
    }
    let found: Vec<Result<Figures, String>> =
        pairs.par_iter().map(|pair| pair.figures().map_err(|error| error.to_string())).collect();
    let mut page = format!("{INTRODUCTION}\n| operator | limit | over | {} |\n", FIGURES.join(" | "));
    let _ = writeln!(page, "| --- | --- | --- |{}", " --- |".repeat(FIGURES.len()));
    for (pair, figures) in pairs.iter().zip(&found) {
        let Pair { name, arch, most, amd, .. } = pair;
        match figures {
            Ok([ours, amds]) => {
                let over = (0..FIGURES.len()).filter(|&at| ours[at] > most * amds[at]).count();
                let cells: String =
                    ours.iter().zip(amds).map(|(&ours, &amds)| format!(" {} |", cell(ours, amds))).collect();
                let _ = writeln!(page, "| {name}, {arch}; `{}` | {most} | {over} |{cells}", amd.object.name);
            }
            Err(error) => {
                let _ = writeln!(page, "| {name}, {arch}: {error} | {most} | |{}", " |".repeat(FIGURES.len()));
            }
        }
    }
    Ok(page)
}

/// Ours, AMD's, and the ratio.
fn cell(ours: f64, amds: f64) -> String {
    let ratio = if amds > 0.0 { format!("**{:.2}**", ours / amds) } else { "**-**".to_owned() };
    format!("{} / {} {ratio}", short(ours), short(amds))
}

/// A number in three digits or so.
fn short(number: f64) -> String {
    match number {
        _ if number >= 1e6 => format!("{:.2} M", number / 1e6),
        _ if number >= 1e3 => format!("{:.1} k", number / 1e3),
        _ if number == number.trunc() => format!("{number}"),
        _ => format!("{number:.2}"),
    }
}
