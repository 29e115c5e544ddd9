//! The counters of the RDNA line: stores count apart, FLAT returns in order, and RDNA 4 has a counter for each kind.

use super::tests::{found_on, is};

/// Words made by `llvm-mc` for one architecture from the text beside each, in GFX10's names.
struct Code {
    arch: &'static str,
    /// `global_load_dword v1, v0, s[2:3]`
    load_v1: &'static [u32],
    /// `global_load_dword v2, v0, s[2:3] offset:4`
    load_v2: &'static [u32],
    /// `global_store_dword v0, v0, s[2:3]`
    store: &'static [u32],
    /// `flat_load_dword v4, v[6:7]`
    flat_v4: &'static [u32],
    /// `flat_load_dword v5, v[8:9]`
    flat_v5: &'static [u32],
    /// `s_load_dword s8, s[2:3], 0x0`
    scalar_s8: &'static [u32],
    /// `s_waitcnt vmcnt(0)`
    load_0: &'static [u32],
    /// `s_waitcnt vmcnt(1)`
    load_1: &'static [u32],
    /// `s_waitcnt lgkmcnt(0)`
    lds_0: &'static [u32],
    /// `s_waitcnt lgkmcnt(0)`, for scalar loads
    scalar_0: &'static [u32],
    /// `s_waitcnt_vscnt null, 0x0`
    store_0: &'static [u32],
    /// `s_waitcnt vmcnt(1) lgkmcnt(1)`
    both_1: &'static [u32],
    /// `s_mov_b32 s9, s8`
    use_s8: &'static [u32],
    end: &'static [u32],
    /// Names of the counters: of loads, LDS, scalar loads.
    names: [&'static str; 3],
}

/// `ds_read_b32 v2, v0`, and moves from registers: the same words everywhere.
const DS_READ_V2: &[u32] = &[0xd8d8_0000, 0x0200_0000];
const USE_V1: &[u32] = &[0x7e06_0301]; // v_mov_b32 v3, v1
const USE_V2: &[u32] = &[0x7e06_0302]; // v_mov_b32 v3, v2
const USE_V4: &[u32] = &[0x7e0e_0304]; // v_mov_b32 v7, v4
const USE_V5: &[u32] = &[0x7e0e_0305]; // v_mov_b32 v7, v5

const CODES: [Code; 3] = [
    Code {
        arch: "gfx1030",
        load_v1: &[0xdc30_8000, 0x0102_0000],
        load_v2: &[0xdc30_8004, 0x0202_0000],
        store: &[0xdc70_8000, 0x0002_0000],
        flat_v4: &[0xdc30_0000, 0x047d_0006],
        flat_v5: &[0xdc30_0000, 0x057d_0008],
        scalar_s8: &[0xf400_0201, 0xfa00_0000],
        load_0: &[0xbf8c_3f70],
        load_1: &[0xbf8c_3f71],
        lds_0: &[0xbf8c_c07f],
        scalar_0: &[0xbf8c_c07f],
        store_0: &[0xbbfd_0000],
        both_1: &[0xbf8c_0171],
        use_s8: &[0xbe89_0308],
        end: &[0xbf81_0000],
        names: ["vmcnt", "lgkmcnt", "lgkmcnt"],
    },
    Code {
        arch: "gfx1100",
        load_v1: &[0xdc52_0000, 0x0102_0000],
        load_v2: &[0xdc52_0004, 0x0202_0000],
        store: &[0xdc6a_0000, 0x0002_0000],
        flat_v4: &[0xdc50_0000, 0x047c_0006],
        flat_v5: &[0xdc50_0000, 0x057c_0008],
        scalar_s8: &[0xf400_0201, 0xf800_0000],
        load_0: &[0xbf89_03f7],
        load_1: &[0xbf89_07f7],
        lds_0: &[0xbf89_fc07],
        scalar_0: &[0xbf89_fc07],
        store_0: &[0xbc7c_0000],
        both_1: &[0xbf89_0417],
        use_s8: &[0xbe89_0008],
        end: &[0xbfb0_0000],
        names: ["vmcnt", "lgkmcnt", "lgkmcnt"],
    },
    Code {
        arch: "gfx1201",
        load_v1: &[0xee05_0002, 1, 0],
        load_v2: &[0xee05_0002, 2, 0x400],
        store: &[0xee06_8002, 0, 0],
        flat_v4: &[0xec05_007c, 4, 6],
        flat_v5: &[0xec05_007c, 5, 8],
        scalar_s8: &[0xf400_0201, 0xf800_0000],
        load_0: &[0xbfc0_0000],
        load_1: &[0xbfc0_0001],
        lds_0: &[0xbfc6_0000],
        scalar_0: &[0xbfc7_0000],
        store_0: &[0xbfc1_0000],
        both_1: &[0xbfc8_0101],
        use_s8: &[0xbe89_0008],
        end: &[0xbfb0_0000],
        names: ["loadcnt", "dscnt", "kmcnt"],
    },
];

impl Code {
    fn found(&self, code: &[&[u32]]) -> Option<String> {
        found_on(self.arch, &[code, &[self.end]].concat())
    }
}

#[test]
fn loads_return_in_order_and_stores_count_apart() {
    for code in &CODES {
        let [load, _, _] = code.names;
        let early = |register: &str| format!("{register} {load} false");
        is(code.found(&[code.load_v1, USE_V1]), &early("v1"));
        is(code.found(&[code.load_v1, code.load_v2, code.load_1, USE_V1, code.load_0, USE_V2]), "nothing");
        is(code.found(&[code.load_v1, code.load_v2, code.load_1, USE_V2]), &early("v2"));
        // The store behind the load does not count with it, as it does on the CDNA line.
        is(code.found(&[code.load_v1, code.store, code.load_1, USE_V1]), &early("v1"));
        is(code.found(&[code.load_v1, code.store, code.store_0, USE_V1]), &early("v1"));
        is(code.found(&[code.load_v1, code.lds_0, USE_V1]), &early("v1"));
    }
}

#[test]
fn lds_and_scalar_loads_have_counters_of_their_own_on_rdna_4() {
    for code in &CODES {
        let [_, lds, scalar] = code.names;
        is(code.found(&[DS_READ_V2, code.load_0, USE_V2]), &format!("v2 {lds} false"));
        is(code.found(&[DS_READ_V2, code.lds_0, USE_V2]), "nothing");
        is(code.found(&[code.scalar_s8, code.use_s8]), &format!("s8 {scalar} false"));
        is(code.found(&[code.scalar_s8, code.scalar_0, code.use_s8]), "nothing");
        let apart = lds != scalar;
        let expected = format!("s8 {scalar} false");
        is(code.found(&[code.scalar_s8, code.lds_0, code.use_s8]), if apart { &expected } else { "nothing" });
    }
}

#[test]
fn flat_loads_return_in_order_wherever_they_went() {
    for code in &CODES {
        let [load, _, _] = code.names;
        is(code.found(&[code.flat_v4, code.flat_v5, code.both_1, USE_V4]), "nothing");
        is(code.found(&[code.flat_v4, code.flat_v5, code.both_1, USE_V5]), &format!("v5 {load} false"));
        // One that reached both is there when both counters say so.
        is(code.found(&[code.flat_v5, code.load_0, code.lds_0, USE_V5]), "nothing");
        let [_, lds, _] = code.names;
        is(code.found(&[code.flat_v5, code.load_0, USE_V5]), &format!("v5 {lds} false"));
    }
}
