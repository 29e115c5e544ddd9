//! What the check finds, and what it must let pass, in machine code that no compiler would make.

use std::sync::Arc;

use rocfire_arch::Arch;

use super::Waits;
use crate::env::Env;
use crate::error::FaultKind;
use crate::instrument::{At, Event, Observer, Verdict, run_wave};
use crate::memory::Memory;
use crate::program::Program;
use crate::step::{Flow, Level, SHARED_APERTURE};
use crate::wave::{LANES, Lanes, Wave, scalar};

struct Only(Waits);

impl Observer for Only {
    fn before(&mut self, at: &At<'_>, w: &Wave, _: &Env) -> Verdict {
        self.0.before(at, w)
    }
    fn after(&mut self, at: &At<'_>, w: &Wave, env: &Env, events: &[Event]) -> Verdict {
        self.0.after(at, w, env, events)
    }
}

// Words made by `llvm-mc` from the text in each name.
const LOAD_V1: &[u32] = &[0xdc50_8000, 0x0102_0000]; // global_load_dword v1, v0, s[2:3]
const LOAD_V2: &[u32] = &[0xdc50_8004, 0x0202_0000]; // global_load_dword v2, v0, s[2:3] offset:4
const STORE: &[u32] = &[0xdc70_8000, 0x0002_0000]; // global_store_dword v0, v0, s[2:3]
const LOAD_LDS: &[u32] = &[0xdca8_8000, 0x0002_0000]; // global_load_lds_dword v0, s[2:3]
const FLAT_V4: &[u32] = &[0xdc50_0000, 0x0400_0006]; // flat_load_dword v4, v[6:7]
const DS_READ_V2: &[u32] = &[0xd86c_0000, 0x0200_0000]; // ds_read_b32 v2, v0
const SCRATCH_V2: &[u32] = &[0xdc50_4000, 0x027f_0000]; // scratch_load_dword v2, off, off
const BPERMUTE_V2: &[u32] = &[0xd87e_0000, 0x0200_0000]; // ds_bpermute_b32 v2, v0, v0
const SCALAR_S8: &[u32] = &[0xc002_0201, 0]; // s_load_dword s8, s[2:3], 0x0
const VM0: &[u32] = &[0xbf8c_0f70]; // s_waitcnt vmcnt(0)
const VM1: &[u32] = &[0xbf8c_0f71]; // s_waitcnt vmcnt(1)
const LGKM0: &[u32] = &[0xbf8c_c07f]; // s_waitcnt lgkmcnt(0)
const LGKM1: &[u32] = &[0xbf8c_c17f]; // s_waitcnt lgkmcnt(1)
const USE_V1: &[u32] = &[0x7e06_0301]; // v_mov_b32 v3, v1
const USE_V2: &[u32] = &[0x7e06_0302]; // v_mov_b32 v3, v2
const USE_V4: &[u32] = &[0x7e0a_0304]; // v_mov_b32 v5, v4
const SET_V2: &[u32] = &[0x7e04_0280]; // v_mov_b32 v2, 0
const USE_S8: &[u32] = &[0xbe89_0008]; // s_mov_b32 s9, s8
const END: &[u32] = &[0xbf81_0000]; // s_endpgm

/// What is found in a program, as `what counter overwrites`.
fn found(code: &[&[u32]]) -> Option<String> {
    found_on("gfx942", &[code, &[END]].concat())
}

/// The same on an architecture. Addresses: `v0` of LDS or from `s[2:3]` on, `v[6:7]` of device memory, `v[8:9]` of device
/// memory in odd lanes and of LDS in even ones.
pub(super) fn found_on(arch: &str, code: &[&[u32]]) -> Option<String> {
    let arch = Arch::parse(arch).unwrap();
    let bytes = code.iter().flat_map(|words| words.iter()).flat_map(|word| word.to_le_bytes()).collect();
    let program = Program::at_level(Level::Baseline, arch, bytes, 0x1000, &[]);
    let program = Arc::new(program.complete());
    let memory = Arc::new(Memory::new(1 << 20));
    let buffer = memory.allocate(4096).unwrap();
    let mut env = Env::new(program.clone(), memory, 1000);
    env.reset(program.clone(), (256, 0), true);
    env.lds.reset(4096);
    env.reset_scratch(1, 64);
    let mut w = Wave::new();
    w.v[0] = Lanes(std::array::from_fn(|lane| 4 * lane as u32));
    w.v[6] = Lanes([buffer as u32; LANES]);
    w.v[7] = Lanes([(buffer >> 32) as u32; LANES]);
    let lds = u64::from(SHARED_APERTURE) << 32;
    let mixed: [u64; LANES] = std::array::from_fn(|lane| if lane % 2 == 0 { lds } else { buffer } + 4 * lane as u64);
    w.v[8] = Lanes(mixed.map(|address| address as u32));
    w.v[9] = Lanes(mixed.map(|address| (address >> 32) as u32));
    w.set_s64(2, buffer);
    w.lanes = arch.info().wave_size as usize;
    w.live = u64::MAX >> (LANES - w.lanes);
    w.set_s64(scalar::EXEC, w.live);
    let mut waits = Waits::new(arch.info().family);
    waits.start_group(1, false);
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(Only(waits))];
    match run_wave(&mut w, &mut env, &program, &mut observers) {
        Flow::End => None,
        Flow::Fault => match env.fault.take().unwrap().kind {
            FaultKind::NotWaitedFor { what, overwrites, counter, .. } => Some(format!("{what} {counter} {overwrites}")),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(super) fn is(found: Option<String>, expected: &str) {
    assert_eq!(found.as_deref().unwrap_or("nothing"), expected);
}

#[test]
fn vector_loads_return_in_order() {
    is(found(&[LOAD_V1, USE_V1]), "v1 vmcnt false");
    is(found(&[LOAD_V1, LOAD_V2, VM1, USE_V1, VM0, USE_V2]), "nothing");
    is(found(&[LOAD_V1, LOAD_V2, VM1, USE_V2]), "v2 vmcnt false");
    // Stores count with them, and are the newer ones here.
    is(found(&[LOAD_V1, STORE, VM1, USE_V1]), "nothing");
    is(found(&[STORE, LOAD_V1, VM1, USE_V1]), "v1 vmcnt false");
    is(found(&[LOAD_V1, LGKM0, USE_V1]), "v1 vmcnt false");
    // A scratch load counts, if it has an address or not.
    is(found(&[LOAD_V1, SCRATCH_V2, VM1, USE_V1]), "nothing");
    is(found(&[LOAD_V1, SCRATCH_V2, VM1, USE_V2]), "v2 vmcnt false");
}

#[test]
fn scalar_loads_return_in_any_order() {
    is(found(&[SCALAR_S8, USE_S8]), "s8 lgkmcnt false");
    is(found(&[SCALAR_S8, LGKM0, USE_S8]), "nothing");
    is(found(&[SCALAR_S8, DS_READ_V2, LGKM1, USE_S8]), "s8 lgkmcnt false");
    is(found(&[SCALAR_S8, DS_READ_V2, LGKM1, USE_V2]), "v2 lgkmcnt false");
    // Of the two reads one may be outstanding, and it is the second.
    is(found(&[DS_READ_V2, BPERMUTE_V2, SCALAR_S8, LGKM1, USE_V2]), "v2 lgkmcnt false");
    is(found(&[SCALAR_S8, SCALAR_S8]), "s8 lgkmcnt true");
}

#[test]
fn a_register_on_its_way_must_not_be_overwritten_but_by_a_load_behind_it() {
    is(found(&[LOAD_V2, SET_V2]), "v2 vmcnt true");
    is(found(&[LOAD_V2, DS_READ_V2]), "v2 vmcnt true");
    is(found(&[LOAD_V2, LOAD_V2, VM0, USE_V2]), "nothing");
    is(found(&[DS_READ_V2, DS_READ_V2, LGKM0, USE_V2]), "nothing");
    is(found(&[BPERMUTE_V2, USE_V2]), "v2 lgkmcnt false");
}

#[test]
fn loads_into_lds_are_waited_for_by_the_wave_that_made_them() {
    is(found(&[LOAD_LDS, DS_READ_V2]), "LDS at 0x0 vmcnt false");
    is(found(&[LOAD_LDS, LGKM0, DS_READ_V2]), "LDS at 0x0 vmcnt false");
    is(found(&[LOAD_LDS, VM0, DS_READ_V2]), "nothing");
}

#[test]
fn flat_counts_where_it_went() {
    is(found(&[FLAT_V4, USE_V4]), "v4 vmcnt false");
    is(found(&[FLAT_V4, VM0, USE_V4]), "nothing");
}
