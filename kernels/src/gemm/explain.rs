//! What the dispatch decides for a product, in words, without a device.

use rocfire_arch::Arch;
use rocfire_hal::DType;

use super::choice::{Decision, Machine, Modelled, SIMDS, decide, modelled, oblong_pays, offered, vendor_pays};
use super::gemm::chunk_of;
use super::tiling::{Mode, TILINGS, Tiling, Unit};
use crate::Result;
use crate::family::shape;

/// Which tiles, staging and slices [`gemm`](super::gemm()) takes for contiguous operands `[M, K]` and `[K, N]` on a card of
/// `units` compute units, and whether the vendor's library goes first; `None`: the card that stands for the architecture in the
/// table. `vendor` is what is known of that library: its name and version, or why there is none.
///
/// # Errors
/// `Shape` for `Bool`, and without `units` for an architecture that has no card in the table.
pub fn explain(
    arch: Arch,
    units: Option<usize>,
    dtype: DType,
    [m, n, k]: [usize; 3],
    vendor: std::result::Result<&str, &str>,
) -> Result<String> {
    let info = arch.info();
    if dtype == DType::Bool {
        return Err(shape("gemm", "dtype", "a number", dtype));
    }
    let card = info.card.map(|card| card.compute_units as usize);
    let units = units.or(card).ok_or_else(|| shape("gemm", "units", "the card's number of compute units", "none"))?;
    let machine = Machine { slots: (units * SIMDS).max(1), waves_share: false };
    // B lies across K.
    let unit = Unit::of(info, dtype).reading(false);
    let decision = decide(unit, dtype, machine, [m, n, k], 1);
    let model = |tiling: &Tiling| modelled(tiling, unit, dtype, [m, n], 1, machine);
    let mut text = format!("gemm {dtype} {m}x{n}x{k} on {arch}, {units} compute units\n");
    let pays = vendor_pays(arch, dtype, [m, n, k], 1) && !oblong_pays(arch, dtype, [m, n, k], 1, machine);
    text += &format!("  vendor      {}\n", first(vendor, pays));
    text += &ours(&decision, dtype, [m, n, k]);
    let of = &decision.tiling;
    text += &format!("  chosen by   least modelled time per element of K: {}", because(of, model(of)));
    let others = offered(unit).filter(|tiling| *tiling != of);
    if let Some(second) = others.min_by_key(|tiling| model(tiling).time) {
        text += &format!("\n  before      {}", because(second, model(second)));
    }
    Ok(text)
}

/// What becomes of the vendor's library.
fn first(vendor: std::result::Result<&str, &str>, pays: bool) -> String {
    let small = "for its size ours: fewer than 64 rows or columns, less than 2^26 products, a type that the library has not, or our f32 tiles fill an NVIDIA card";
    match (vendor, pays) {
        (Ok(name), true) => format!("{name}, unless the run is deterministic; what follows is in its place"),
        (Ok(name), false) => format!("{name}, not asked: {small}"),
        (Err(why), true) => format!("would go first, but is not there: {why}"),
        (Err(why), false) => format!("none ({why}), and not missed: {small}"),
    }
}

fn because(tiling: &Tiling, model: Modelled) -> String {
    let [rows, cols] = tiling.block();
    let Modelled { rounds, products, lds, time } = model;
    let bound = if lds > products { "LDS" } else { "the products" };
    format!(
        "{rows} x {cols}: {rounds} rounds of {products} products and LDS worth {lds}, bound by {bound}; {time} in all"
    )
}

/// Our kernel.
fn ours(decision: &Decision, dtype: DType, [m, n, k]: [usize; 3]) -> String {
    let tiling = decision.tiling;
    let number = TILINGS.iter().position(|other| *other == tiling).expect("chosen from the table");
    let vector = tiling.vector(dtype);
    let whole = |extent: usize| extent.is_multiple_of(vector);
    let a = if whole(k) { Mode::VectorK } else { Mode::SingleK };
    let b = if whole(n) { Mode::VectorLine } else { Mode::SingleLine };
    let chunk = chunk_of(k);
    let chunks = k.div_ceil(chunk).max(1);
    let staging = tiling.staging(decision.unit, [a, b], !decision.sliced && chunks > 1 && !dtype.is_int());
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
    let plain_bytes = 16 * usize::from(tiling.slabs) * dtype.size_bytes();
    let bytes = if tiling.matrix_size > 0 { tiling.depth_bytes() } else { plain_bytes };
    format!(
        "  tiling      {number}: {rows} x {cols}; {product}\n  \
         workgroups  {} = {across} x {down}{}\n  \
         K           {who}; {bytes} bytes a round, {} rounds in LDS, {way}\n  \
         operands    A {}, B {}\n",
        across * down * if decision.sliced { chunks } else { 1 },
        if decision.sliced { format!(" x {chunks} slices of K") } else { String::new() },
        staging.stages,
        read(a),
        read(b),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(arch: &str, dtype: DType, size: [usize; 3]) -> String {
        explain(Arch::parse(arch).unwrap(), None, dtype, size, Err("nothing installed")).unwrap()
    }

    #[test]
    fn says_what_the_dispatch_decides() {
        let large = words("gfx942", DType::BF16, [8192, 8192, 8192]);
        assert!(large.contains("128 x 128") && large.contains("4096 = 64 x 64"), "{large}");
        let narrow = words("gfx942", DType::BF16, [16, 4096, 7168]);
        assert!(narrow.contains("7 slices of K"), "{narrow}");
        let odd = words("gfx1030", DType::F32, [33, 35, 37]);
        assert!(odd.contains("one by one") && odd.contains("no matrix unit"), "{odd}");
    }

    /// What is chosen on cards of the table, and what binds it: changes here are changes of speed on GPUs.
    #[test]
    fn chooses_these_tiles_on_these_cards() {
        let rows = [
            ("gfx942", DType::BF16, [4096; 3], "128 x 128", "the products"),
            ("gfx942", DType::F16, [8192; 3], "128 x 128", "the products"),
            ("gfx90a", DType::BF16, [4096; 3], "128 x 128", "the products"),
            ("gfx908", DType::F16, [4096; 3], "128 x 128", "the products"),
            ("gfx950", DType::BF16, [8192; 3], "128 x 128", "the products"),
            ("gfx942", DType::BF16, [32768, 2112, 7168], "128 x 128", "the products"),
            ("gfx942", DType::BF16, [32, 4096, 7168], "64 x 64", "LDS"),
            ("gfx1100", DType::F16, [4096; 3], "128 x 64", "the products"),
            ("gfx1201", DType::F16, [4096; 3], "128 x 64", "the products"),
            ("gfx1030", DType::F16, [4096; 3], "64 x 64", "the products"),
        ];
        for (arch, dtype, size, tile, bound) in rows {
            let words = words(arch, dtype, size);
            let chosen = words.lines().find(|line| line.trim_start().starts_with("chosen by")).unwrap();
            assert!(chosen.contains(&format!("{tile}: ")), "{arch} {dtype} {size:?}: {words}");
            assert!(chosen.contains(&format!("bound by {bound};")), "{arch} {dtype} {size:?}: {words}");
        }
    }

    #[test]
    fn says_what_becomes_of_the_vendors_library() {
        let arch = Arch::parse("gfx942").unwrap();
        let of = |size, vendor| explain(arch, None, DType::F16, size, vendor).unwrap();
        assert!(of([4096; 3], Ok("hipBLASLt 1.2.3")).contains("vendor      hipBLASLt 1.2.3, unless"));
        assert!(of([16, 4096, 4096], Ok("hipBLASLt 1.2.3")).contains("hipBLASLt 1.2.3, not asked"));
        assert!(of([4096; 3], Err("not installed")).contains("would go first, but is not there: not installed"));
    }

    #[test]
    fn refuses_what_there_is_no_product_of() {
        let (gfx942, sm_90) = (Arch::parse("gfx942").unwrap(), Arch::parse("sm_90").unwrap());
        let none = Err("nothing installed");
        assert!(explain(gfx942, None, DType::Bool, [1, 1, 1], none).is_err());
        let error = explain(sm_90, None, DType::F16, [1, 1, 1], none).unwrap_err();
        assert!(error.to_string().contains("compute units"));
        let large = explain(sm_90, Some(132), DType::F16, [4096, 4096, 4096], none).unwrap();
        assert!(large.contains("past the registers"));
    }
}
