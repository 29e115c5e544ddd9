//! What becomes of a product of codes, in words.

use rocfire_arch::Arch;
use rocfire_hal::vendor::Scaling;
use rocfire_hal::{DType, Device, View};

use super::library::{Job, Way, asked, pays, scaling, ways};
use super::{
    CodeProduct, CodedRows, CodedWeight, NAMES_OF_A, OP, PreshuffledRows, ScaledEnd, aiter, check, check_result,
    code_product, plain_side, weight_side,
};
use crate::Result;
use crate::family::shape;
use crate::quant::activations::Granularity;
use crate::quant::format::Format;

/// How [`q_matmul_scaled`](super::q_matmul_scaled) multiplies contiguous codes `[M, K]` by `[N, K]` into `output`: whether the
/// vendor's library goes first and what it does with the scales, and how our kernel multiplies. `vendor` is what is known of that
/// library: its name and version, or why there is none.
///
/// # Errors
/// `Shape` for a format that has no product, and for a type of the result that there is not.
pub fn explain_scaled(
    arch: Arch,
    sides: [(Format, Granularity); 2],
    [m, n, k]: [usize; 3],
    output: DType,
    vendor: std::result::Result<&str, &str>,
) -> Result<String> {
    let formats = sides.map(|(format, _)| format);
    let Some(product) = code_product(arch, formats[0], formats[1]) else {
        return Err(shape(OP, "format", "codes of 8 or 4 bits", format!("{formats:?}")));
    };
    if !matches!(output, DType::F32 | DType::F16 | DType::BF16) {
        return Err(shape(OP, "c", "f32, f16 or bf16", output));
    }
    let shapes = [[m, k], [n, k]];
    let scaled = [0, 1].map(|side: usize| {
        let (_, granularity) = sides[side];
        scaling(granularity.kind(), granularity.block(shapes[side]), shapes[side])
    });
    let ways = ways(arch.info(), formats, scaled, [m, k]);
    let asked = asked(arch.info(), ways, m);
    let ways_scale = asked.iter().any(|way| matches!(way, Way::Scaled(_)));
    let asked: Vec<&str> = asked.into_iter().map(words).collect();
    let stays = match (asked.is_empty(), pays(arch, formats, [m, n, k], output)) {
        (true, _) => Some("no way of these formats and scales on this card"),
        (_, false) => Some("small, or sums of f32 are wanted that the card has not"),
        _ => None,
    };
    let asked = asked.join(", else ");
    let first = match (vendor, stays) {
        (Ok(name), None) => format!("{name}, unless the run is deterministic: {asked}, once a trial went well"),
        (Ok(name), Some(why)) => format!("{name}, not asked: {why}"),
        (Err(missing), None) => format!("would go first, but is not there: {missing}; {asked}"),
        (Err(missing), Some(why)) => format!("none ({missing}), and not missed: {why}"),
    };
    let ours = match product {
        CodeProduct::Native => "codes are operands of the matrix unit",
        CodeProduct::Decoded => "codes are decoded to bf16 in registers",
    };
    let [a, b] = sides.map(|(format, granularity)| format!("{format:?} by {granularity:?}"));
    let behind = match (stays, ways_scale) {
        (Some(_), _) => "at the store of ours",
        (None, false) => "a launch of ours behind its sums",
        (None, true) => {
            "by the library where it has that form and a trial went well, else a launch of ours behind results in f32"
        }
    };
    let head = format!("{OP} {m}x{n}x{k} of {a} and {b} into {output} on {arch}");
    Ok(format!("{head}\n  vendor      {first}\n  ours        {ours}\n  bias, ...   {behind}"))
}

/// Whether AITER's kernels compute a product by a weight that is laid out, as
/// [`q_matmul_preshuffled`](super::q_matmul_preshuffled) is given it on a device, and why. Computes nothing.
///
/// # Errors
/// As [`q_matmul_preshuffled`](super::q_matmul_preshuffled), of its arguments.
pub fn explain_preshuffled(device: &Device, a: &CodedRows<'_>, b: &PreshuffledRows<'_>, c: View<'_>) -> Result<String> {
    let (stream, c) = (device.stream(), c.writable());
    check_result(OP, stream, &c)?;
    let a = plain_side(OP, stream, NAMES_OF_A, a, &c)?;
    let b = weight_side(stream, &CodedWeight::LaidOut(*b), &c)?;
    let size = check(&a, &b, &c)?;
    let job = Job { stream, a: &a, b: &b, size, end: ScaledEnd::default() };
    Ok(format!("  AITER       by a weight laid out: {}", aiter::words(&job, &c)))
}

/// A way, in words.
fn words(way: Way) -> &'static str {
    match way {
        Way::Scaled([Scaling::Tensor, _]) => "it applies a scale of each side",
        Way::Scaled([Scaling::Line, _]) => "it applies scales of rows",
        Way::Scaled([Scaling::Mx32, _]) => "it applies exponents by 32",
        Way::Scaled(_) => "it applies scales of 128 along K",
        Way::Sums => "it gives sums, which a launch of ours scales",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::activations::MxRounding;

    fn told(arch: &str, formats: [Format; 2], granularities: [Granularity; 2], size: [usize; 3], to: DType) -> String {
        let sides = [(formats[0], granularities[0]), (formats[1], granularities[1])];
        explain_scaled(Arch::parse(arch).unwrap(), sides, size, to, Ok("library 1.2")).unwrap()
    }

    #[test]
    fn says_what_the_library_is_asked_for() {
        let (ocp, bf16, cube) = ([Format::E4M3; 2], DType::BF16, [4096; 3]);
        let blocks = [Granularity::Group(128), Granularity::Block(128)];
        for (granularities, expected) in [
            ([Granularity::Tensor; 2], "it applies a scale of each side, else it gives sums"),
            ([Granularity::Token; 2], "it applies scales of rows, else it gives sums"),
            (blocks, "it applies scales of 128 along K, once"),
        ] {
            let told = told("sm_90", ocp, granularities, cube, bf16);
            assert!(told.contains("library 1.2, unless") && told.contains(expected), "{told}");
        }
        let row = told("sm_90", ocp, [Granularity::Token; 2], [1, 14336, 4096], bf16);
        assert!(row.contains("which a launch of ours scales, else it applies scales of rows"), "{row}");
        let bytes = told("sm_90", [Format::I8; 2], [Granularity::Token; 2], cube, DType::F32);
        assert!(bytes.contains(": it gives sums, which a launch of ours scales"), "{bytes}");
        assert!(bytes.contains("bias, ...   a launch of ours behind its sums"), "{bytes}");
        assert!(row.contains("bias, ...   by the library where it has that form"), "{row}");
        let mx = [Granularity::Mx(MxRounding::Up); 2];
        assert!(told("gfx950", ocp, mx, cube, bf16).contains("exponents by 32"));
        assert!(told("sm_90", ocp, mx, cube, bf16).contains("not asked: no way"));
        assert!(told("gfx942", ocp, [Granularity::Token; 2], cube, bf16).contains("not asked: no way"));
        assert!(told("sm_90", ocp, [Granularity::Token; 2], cube, DType::F32).contains("not asked: small, or"));
        let small = told("sm_90", ocp, [Granularity::Token; 2], [64; 3], bf16);
        assert!(small.contains("not asked: small") && small.contains("bias, ...   at the store of ours"), "{small}");
    }

    #[test]
    fn says_why_there_is_no_library_and_refuses_what_there_is_no_product_of() {
        let (arch, token) = (Arch::parse("sm_90").unwrap(), Granularity::Token);
        let of = |format, to| explain_scaled(arch, [(format, token); 2], [4096; 3], to, Err("not installed"));
        let decoded = of(Format::E2M1, DType::F16).unwrap();
        assert!(decoded.contains("none (not installed), and not missed: no way"), "{decoded}");
        assert!(decoded.contains("codes are decoded"), "{decoded}");
        let native = of(Format::E4M3, DType::F16).unwrap();
        assert!(native.contains("is not there: not installed; it applies scales of rows"), "{native}");
        assert!(native.contains("codes are operands"), "{native}");
        assert!(of(Format::I2, DType::F16).is_err());
        assert!(of(Format::E4M3, DType::F64).unwrap_err().to_string().contains("f32, f16 or bf16"));
    }
}
