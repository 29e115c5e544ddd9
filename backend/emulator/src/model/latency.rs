//! How long results are under way: the constants of the timeline, each with its source. `MODEL.md` has the same table.
//!
//! LLVM's figures are those of `SISchedule.td`, as `llvm-mca-22` prints them (on GCN and CDNA in passes of four clocks, on RDNA in
//! clocks), and of `GCNHazardRecognizer.cpp`. What is called an assumption was chosen before any kernel was put beside a published
//! figure.

use rocfire_arch::Family;

/// Clocks from an instruction's issue, its turn in the pipe included or not as each says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latencies {
    /// From the last clock in the LDS to the counter.
    pub(crate) lds: u32,
    /// From the last clock of the address pipeline to the counter, for lines that the workgroup has touched just before.
    pub(crate) hit: u32,
    /// The same for other lines, and for stores.
    pub(crate) miss: u32,
    /// From a scalar load's issue to the counter.
    pub(crate) scalar: u32,
    /// From a branch that is taken to the wave's next instruction.
    pub(crate) branch: u32,
    /// From a vector instruction's issue to one that reads its result, if that is more than its clocks.
    pub(crate) vector: u32,
    /// The same of a transcendental function.
    pub(crate) transcendental: u32,
    /// Bytes that the L1 of a compute unit gets or gives in a clock.
    pub(crate) fill_bytes: u32,
    /// Bytes in a clock between LDS and the pair of SIMDs that shares a port; 0 where there are no such ports.
    pub(crate) lds_port_bytes: u32,
}

/// Where data is taken to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// In the caches: what LLVM schedules for.
    Near,
    /// In memory.
    Far,
}

/// Whether a family issues a wave64 over four clocks.
fn is_gcn(family: Family) -> bool {
    matches!(family, Family::Gcn5 | Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4)
}

/// The constants of a family.
pub(crate) fn latencies(family: Family, distance: Distance) -> Latencies {
    let gcn = is_gcn(family);
    // AMD's CDNA 3 white paper: 16 channels of 128 bytes a clock for the 38 compute units of a die; CDNA 4 has 32, CDNA 2 has 110.
    // Elsewhere what the L1 of the generation before takes: an assumption.
    let fill_bytes = match family {
        Family::Cdna3 => 16 * 128 / 38,
        Family::Cdna2 => 16 * 128 / 110,
        _ => 64,
    };
    // LLVM: 5 and 80 passes of four clocks, or 20 and 320 clocks. Measured on MI300X: 64 `ds_read_b32` of a wave in 501 clocks, their
    // turns are 256 of these, so that LDS takes at most 245. An atomic of low contention at L2 takes 382 there.
    let (near_lds, near_memory) = (20, 320);
    // Assumptions: the middle of what LDS can be, and about 380 ns.
    let (far_lds, far_memory) = (128, 800);
    let (lds, hit, miss, scalar) = match distance {
        Distance::Near => (near_lds, near_memory, near_memory, near_lds),
        Distance::Far => (far_lds, near_memory, far_memory, near_memory),
    };
    Latencies {
        lds,
        hit,
        miss,
        scalar,
        // LLVM: 8 passes, or 32 clocks.
        branch: 32,
        // LLVM: one pass, or 5 and 10 clocks.
        vector: if gcn { 4 } else { 5 },
        transcendental: if gcn { 4 } else { 10 },
        fill_bytes,
        // AMD's HIP documentation, "hardware implementation": the SIMDs of CDNA in pairs, each with a port of 64 bytes. The MI300X above
        // reads 64 times 8 bytes a lane in 852 clocks and 16 bytes in 1384, where 64 bytes a clock are 512 and 1024.
        lds_port_bytes: if gcn { 64 } else { 0 },
    }
}

/// Clocks from a matrix instruction's issue to who reads its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixLatency {
    /// Another matrix instruction that adds to all of it.
    pub(crate) same: u32,
    /// One that adds to a part of it.
    pub(crate) overlap: u32,
    /// Everything else.
    pub(crate) other: u32,
}

/// The same of one that occupies its unit for so many clocks, on the matrix unit or (`is_wide`: f32 and f64 of CDNA) the vector lanes.
pub(crate) fn matrix(family: Family, clocks: u32, is_wide: bool) -> MatrixLatency {
    if !is_gcn(family) {
        // LLVM has 5 clocks for all of WMMA, which cannot hold; taken as the pipeline behind the last clock.
        let other = clocks + 4;
        return MatrixLatency { same: clocks, overlap: other, other };
    }
    // LLVM's wait states for N passes: N + 3 others before a read (N + 2 on the lanes, one more from CDNA 4 on but for 2 passes),
    // N + 1 (N) before a part is added to, none (2 for 2 passes) before all of it is. The reader's own turn comes after those.
    let passes = clocks / 4;
    let later = u32::from(family == Family::Cdna4 && passes > 2);
    let wide = u32::from(is_wide);
    MatrixLatency {
        same: if passes == 2 { 12 } else { clocks },
        overlap: 4 * (passes + 2 - wide),
        other: 4 * (passes + 4 - wide + later),
    }
}

/// Instructions that a wave can have under way in each counter, by its bit: `vmcnt`, `vscnt`, `lgkmcnt`, `kmcnt`. More wait for room.
/// Widths of the fields of `s_waitcnt` in AMD's ISA documents.
pub(crate) fn room(family: Family) -> [usize; 4] {
    if is_gcn(family) { [63, 63, 15, 15] } else { [63, 63, 63, 31] }
}
