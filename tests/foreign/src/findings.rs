//! What is known to be wrong with kernels of others, worded for whoever maintains them.

use rocfire_emulator::Schedule;

use crate::case::{Case, Verdict};

/// How a kernel comes out that is not simply right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Right only where its waves take short turns.
    Timing,
    /// Wrong under every schedule.
    Wrong,
}

/// What was found.
pub struct Finding {
    /// In one line.
    pub title: &'static str,
    /// Family, and what architecture and name of the object hold, and the shape: all parts between `*`, but those with `!`.
    pub objects: &'static [(&'static str, &'static str, &'static str)],
    /// How they come out.
    pub expected: Expected,
    /// What is wrong, and how it shows.
    pub text: &'static str,
}

/// All of them. The first that a case falls under holds.
pub static FINDINGS: &[Finding] = &[
    Finding {
        title: "fmoe: kernels named fp16 pack bf16 and add it as f16",
        objects: &[
            ("experts", "fmoe_fp16_pertoken*!_vs_*!g1u0*!tkw1", ""),
            ("experts", "fmoe_fp16_pertokenInt8_g1u0*!_vs_*!atm_opt", "room"),
            ("experts", "fmoe_fp16_blockscaleFp8*!_vs_*!_novs_", ""),
        ],
        expected: Expected::Wrong,
        text: "The kernels `fmoe_fp16_*` without `vs` in their names round the sums to bf16 (of the pair that was compared, the code \
               is that of the `bf16` kernel, instruction by instruction) and add them with `global_atomic_pk_add_f16`, so that the output's f16 are \
               bf16 bits that were added as f16. Those with `vs` convert with `v_cvt_pkrtz_f16_f32` and are right. The launcher \
               takes the wrong ones for f16 outputs when `AITER_ENABLE_VSKIP` is `0`.",
    },
    Finding {
        title: "fmoe: the 16-bit kernels named fp16 multiply as bf16",
        objects: &[("experts", "fmoe_fp16_noquant", "")],
        expected: Expected::Wrong,
        text: "`fmoe_fp16_noquant*` multiply with `v_mfma_f32_16x16x16_bf16` whatever the name says. `fmoe_f16.co`, which the \
               launcher takes today, multiplies with `v_mfma_f32_16x16x16_f16` and is right.",
    },
    Finding {
        title: "fmoe: int8 without gate reads behind the last token",
        objects: &[("experts", "nt8_g1u0*!_smf*!atm_opt", "!room")],
        expected: Expected::Wrong,
        text: "While the last piece of a token's elements is multiplied, the next one is loaded. The base of the descriptor has \
               moved on by then and its length has not been shortened, so that of the last row bytes behind the tokens are \
               read. They are not used. With 512 bytes behind the tokens the results are right; a buffer that ends with a page \
               may fault.",
    },
    Finding {
        title: "fmoe: fp8 by token reads behind its operands where tokens are of 256 elements",
        objects: &[("experts", "fmoe_bf16_pertokenFp8_g1u1_silu_1tg_32x256", "256 x 256")],
        expected: Expected::Wrong,
        text: "The second piece of 256 elements is loaded before it is known whether there is one. Of tokens of 256 the next token is \
               read, and of the last one what is behind the tokens; so it is with the columns of the second product, behind the last \
               expert's matrix. All widths do so. With 512 elements and more they end where their operands do.",
    },
    Finding {
        title: "fmha backward with a window: the range of LSE and D counts the head's offset twice",
        objects: &[("attention backward", "_swa_", "97/131*!zeros")],
        expected: Expected::Wrong,
        text: "The kernels `bwd_hd128_*_swa_a32_*` add the offset of batch and head to the base of the descriptors of LSE and \
               D, and count it in `num_records` too (`s24 += s65` beside `s26 = (4 * seqlen_q + s61 + s62) / 4`; the padded \
               kernels without a window do only the latter). Where the length is no multiple of the tile the loads of the last \
               tile reach past the end: of one head into the next one's, of the last one out of the tensor. What is read is \
               multiplied by zero, so finite values do no harm; a NaN or an infinity there makes the gradients NaN.",
    },
    Finding {
        title: "i8gemm: wrong for K = 256",
        objects: &[("gemm int8", "i8gemm", " x 256*!x 384*!x 512")],
        expected: Expected::Wrong,
        text: "With K = 256 the result is wrong, with 384 and 512 it is right. The kernels' prologue has three pieces of 128 \
               under way; of two the third is waited for and stored where another still is. The launcher takes any K.",
    },
    Finding {
        title: "layer_norm: the mean is not subtracted",
        objects: &[("layer norm", "layer_norm.co", "!without")],
        expected: Expected::Wrong,
        text: "`layer_norm.co` gives `s * rsqrt(mean(s * s) + eps) * w + b`, cut to bf16, where `s` is the sum of input and \
               residual: compared with that it is right. With a mean of half the deviation it is 16 % of the largest value off.",
    },
    Finding {
        title: "fmha forward: groups overwrite LDS that other waves may still read",
        objects: &[
            ("attention forward", "gfx950*hd192", ""),
            ("attention forward", "gfx950*hd128_bf16_causal_group", "131/150"),
        ],
        expected: Expected::Timing,
        text: "gfx950's kernels for heads of 192, and the causal one for packed sequences, load into LDS that other waves of \
               the workgroup have not read yet, with no barrier between: right as long as the waves run at about the same \
               speed, as they do on a card. The two halves of a tile are kept apart by the time that the products take. They \
               also use fragments without a wait of their own: 24 more reads of LDS are issued after the last one that \
               `lgkmcnt(8)` leaves under way, and the counter has four bits; that is right if a full counter holds up the wave.",
    },
    Finding {
        title: "fmha backward, causal on gfx950: the second tile of keys overwrites LDS that other waves may still read",
        objects: &[("attention backward", "gfx950*bwd_hd128*_causal", "/389")],
        expected: Expected::Timing,
        text: "With a causal mask a workgroup has a tile of 256 keys from the front and then one from the back. The gradients of \
               the first go through LDS on their way to memory; then each wave writes zeros over all of its part of LDS for the second, \
               with no barrier between: right as long as the waves run at about the same speed. With up to 256 keys there is \
               no second tile, and the kernels are right under every schedule.",
    },
    Finding {
        title: "mla: fp8 decoding relies on timing",
        objects: &[
            ("latent attention", "gfx942*a8w8_qh16", ""),
            ("latent attention", "gfx950*a8w8_qh16*!qseqlen4", ""),
        ],
        expected: Expected::Timing,
        text: "`mla_a8w8_qh16_qseqlen*` let waves write LDS that others have not read yet, as the kernels above.",
    },
    Finding {
        title: "fmoe: 16-bit and block-scaled kernels rely on timing",
        objects: &[
            ("experts", "gfx942/fmoe_b16.co", ""),
            ("experts", "gfx942/fmoe_f16.co", ""),
            ("experts", "fmoe_bf16_noquant", ""),
            ("experts", "fmoe/*blockscale*!fmoe_fp16_blockscaleFp8_g1u1_silu*!fmoe_fp16_blockscaleFp8_g1u1_gelu", ""),
        ],
        expected: Expected::Timing,
        text: "The intermediate values go through LDS without a barrier between the last read of one piece and the first write \
               of the next: right as long as the waves run at about the same speed.",
    },
    Finding {
        title: "bitsandbytes: dequantising four bits reads behind the last block's size",
        objects: &[
            ("bitsandbytes", "kDequantizeBlockwise*Fp4", "!room"),
            ("bitsandbytes", "kDequantizeBlockwise*Nf4", "!room"),
        ],
        expected: Expected::Wrong,
        text: "`kDequantizeBlockwise` takes the size of a block before it looks whether its thread has numbers: `absmax` is \
               read up to (1024 - 1) / blocksize entries behind its end where the count is no multiple of 1024. They are not \
               used. With eight entries behind the end all is right; a buffer that ends with a page may fault.",
    },
    Finding {
        title: "Not explained",
        objects: &[
            ("experts", "fmoe*pertokenInt8*tkw1", ""),
            ("experts", "fmoe*pertokenInt8*atm_opt", ""),
            ("experts", "gfx942/fmoe_int8_g1u0.co", "room"),
            ("experts", "gfx942/fmoe_fp8_blockscale", ""),
            ("experts", "pertokenFp8_g1u1_vs_*1tg_32x128*!multix*!tkw1", ""),
            ("latent attention", "gfx950*qseqlen4", ""),
            ("gemm fp4", "noBpreShuffle", ""),
            ("attention forward", "gfx942*MI300/fwd_hd128_bf16_causal_group", "131/150"),
        ],
        expected: Expected::Wrong,
        text: "These differ from the references, and it is not known whether the kernels, their descriptions here or the \
               emulator are to blame. No launcher names the int8 kernels with `tkw1`, the `fmoe_fp8_blockscale_*` and \
               `fmoe_int8_g1u0.co` of the folder itself, nor `fwd_hd128_bf16_causal_group.co`.",
    },
];

/// The finding that a case falls under.
pub fn of(case: &Case) -> Option<&'static Finding> {
    let fits = |text: &str, pattern: &str| {
        pattern.split('*').all(|part| match part.strip_prefix('!') {
            Some(part) => !text.contains(part),
            None => text.contains(part),
        })
    };
    let place = format!("{}/{}", case.object.arch, case.object.name);
    let holds = |&(family, name, shape): &(&str, &str, &str)| {
        case.family == family && fits(&place, name) && fits(&case.shape, shape)
    };
    FINDINGS.iter().find(|finding| finding.objects.iter().any(holds))
}

/// Whether a case came out as is known of it: right, or as its finding says. One that comes out better than its finding is not expected
/// either: the finding is out of date.
pub fn is_expected(case: &Case, verdict: &Verdict) -> bool {
    let expected = of(case).map(|finding| finding.expected);
    match verdict.right() {
        Some(Schedule::ToBarrier) => expected.is_none(),
        Some(Schedule::Turns(_)) => expected == Some(Expected::Timing),
        None => expected == Some(Expected::Wrong),
    }
}
