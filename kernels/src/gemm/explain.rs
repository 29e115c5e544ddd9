//! What the dispatch decides for a product, in words, without a device.

use rocfire_arch::Arch;
use rocfire_hal::DType;

use super::gemm::chunk_of;
use super::tiling::{Machine, Mode, SIMDS, TILINGS, Unit, decide};
use crate::Result;
use crate::family::shape;

/// Which tiles, staging and slices [`gemm`](super::gemm()) takes for contiguous operands `[M, K]` and `[K, N]` on a card of
/// `units` compute units; `None`: the card that stands for the architecture in the table.
///
/// # Errors
/// `Shape` for `Bool`, and without `units` for an architecture that has no card in the table.
pub fn explain(arch: Arch, units: Option<usize>, dtype: DType, [m, n, k]: [usize; 3]) -> Result<String> {
    let info = arch.info();
    if dtype == DType::Bool {
        return Err(shape("gemm", "dtype", "a number", dtype));
    }
    let card = info.card.map(|card| card.compute_units as usize);
    let units = units.or(card).ok_or_else(|| shape("gemm", "units", "the card's number of compute units", "none"))?;
    let machine = Machine { slots: (units * SIMDS).max(1), waves_share: false };
    let unit = Unit::of(info, dtype);
    let decision = decide(unit, machine, [m, n, k], 1);
    let tiling = decision.tiling;
    let number = TILINGS.iter().position(|other| *other == tiling).expect("chosen from the table");
    let vector = tiling.vector(dtype);
    let whole = |extent: usize| extent.is_multiple_of(vector);
    let a = if whole(k) { Mode::VectorK } else { Mode::SingleK };
    let b = if whole(n) { Mode::VectorLine } else { Mode::SingleLine };
    let chunk = chunk_of(k);
    let chunks = k.div_ceil(chunk).max(1);
    let staging = tiling.staging(unit, [a, b], !decision.sliced && chunks > 1 && !dtype.is_int());
    let [rows, cols] = tiling.block();
    let [across, down] = [n.div_ceil(cols), m.div_ceil(rows)];
    let product = match tiling.matrix_size {
        0 => "fused multiply-add, no matrix unit of the type".to_owned(),
        side => format!(
            "{} x {} waves, each {} x {} products of {side} x {side} on the matrix unit",
            tiling.waves[0], tiling.waves[1], tiling.tiles[0], tiling.tiles[1]
        ),
    };
    let who = match (chunks, decision.sliced) {
        (1, _) => "one sum".to_owned(),
        (_, false) => format!("{chunks} sums of {chunk}, added in order by the workgroup"),
        (_, true) => format!("{chunks} sums of {chunk}, each by a workgroup of its own, added in order by gemm_sum"),
    };
    let way = if staging.copies { "copied past the registers" } else { "through registers" };
    let read = |mode: Mode| match mode {
        Mode::VectorK => format!("{vector} at once along K"),
        Mode::VectorLine => format!("{vector} at once across K"),
        Mode::SingleK | Mode::SingleLine => "one by one".to_owned(),
    };
    let bytes = if tiling.matrix_size > 0 { tiling.depth_bytes() } else { 16 * dtype.size_bytes() };
    Ok(format!(
        "gemm {dtype} {m}x{n}x{k} on {arch}, {units} compute units\n  \
         tiling      {number}: {rows} x {cols}; {product}\n  \
         workgroups  {} = {across} x {down}{}\n  \
         K           {who}; {bytes} bytes a round, {} rounds in LDS, {way}\n  \
         operands    A {}, B {}\n  \
         chosen by   least ceil(workgroups x waves / {}) x (tile + 6 x its edge) / waves; a slice of K per workgroup where \
         tiles leave half the device idle",
        across * down * if decision.sliced { chunks } else { 1 },
        if decision.sliced { format!(" x {chunks} slices of K") } else { String::new() },
        staging.stages,
        read(a),
        read(b),
        machine.slots,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(arch: &str, dtype: DType, size: [usize; 3]) -> String {
        explain(Arch::parse(arch).unwrap(), None, dtype, size).unwrap()
    }

    #[test]
    fn says_what_the_dispatch_decides() {
        let large = words("gfx942", DType::BF16, [8192, 8192, 8192]);
        assert!(large.contains("128 x 128") && large.contains("4096 = 64 x 64"), "{large}");
        let narrow = words("gfx942", DType::BF16, [16, 4096, 7168]);
        assert!(narrow.contains("64 x 64") && narrow.contains("7 slices of K"), "{narrow}");
        let odd = words("gfx1030", DType::F32, [33, 35, 37]);
        assert!(odd.contains("one by one") && odd.contains("no matrix unit"), "{odd}");
    }

    #[test]
    fn refuses_what_there_is_no_product_of() {
        let (gfx942, sm_90) = (Arch::parse("gfx942").unwrap(), Arch::parse("sm_90").unwrap());
        assert!(explain(gfx942, None, DType::Bool, [1, 1, 1]).is_err());
        assert!(explain(sm_90, None, DType::F16, [1, 1, 1]).unwrap_err().to_string().contains("compute units"));
        assert!(explain(sm_90, Some(132), DType::F16, [4096, 4096, 4096]).unwrap().contains("past the registers"));
    }
}
