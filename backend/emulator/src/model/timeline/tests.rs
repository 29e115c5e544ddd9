//! Timelines that can be worked out by hand, on a compute unit of gfx942: turns of four clocks, SIMD i one clock after SIMD i - 1.

use rocfire_arch::Arch;

use super::super::latency::{self, Distance};
use super::*;

/// Four accumulators.
const SUM: Registers = Registers { first: 0, count: 4 };

/// `v_mfma_f32_16x16x16_f16` into [`SUM`], four passes.
fn matrix() -> Step {
    let latency = latency::matrix(Family::Cdna3, 16, false);
    let kind = Kind::Matrix { clocks: 16, valu: 4, latency, adds_to: Some(SUM) };
    Step { kind, reads: vec![Registers { first: 8, count: 2 }], writes: vec![SUM], ..Step::default() }
}

fn vector(reads: u16) -> Step {
    let reads = vec![Registers { first: reads, count: 1 }];
    Step { kind: Kind::Vector { clocks: 4, transcendental: 0 }, reads, ..Step::default() }
}

fn plain(kind: Kind) -> Step {
    Step { kind, ..Step::default() }
}

fn wait(counter: u8, limit: u32) -> Step {
    Step { waits: [Some((counter, limit)), None], ..Step::default() }
}

fn end() -> Step {
    plain(Kind::Branch)
}

/// One step of number `step` after the other.
fn code(steps: &[u32]) -> Vec<Executed> {
    steps.iter().map(|&step| Executed { step, ..Executed::default() }).collect()
}

fn run_groups(steps: &[Step], group: Group, (resident, total): (usize, usize), distance: Distance) -> Simulated {
    let info = Arch::parse("gfx942").unwrap().info();
    let unit = info.unit.unwrap();
    simulate(Run { family: info.family, unit: &unit, steps, groups: &[group], resident, total }, distance)
}

fn run(steps: &[Step], group: Group) -> Simulated {
    run_groups(steps, group, (1, 1), Distance::Near)
}

/// Ten that add to the same registers follow each other after 16 clocks: at 0 to 144. The sum can be read 4 + 4 passes after the last
/// one, at 176; the end is at 180 and takes a turn.
#[test]
fn matrix_instructions_that_depend_on_one_another_wait_for_their_passes() {
    let steps = [matrix(), vector(3), end()];
    let found = run(&steps, vec![code(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2])]);
    assert_eq!((found.clocks, found.matrix), (9 * 16 + 32 + 4 + 4, 160));
    assert_eq!(found.lost[Lost::Dependencies as usize], 9 * 12 + 28);
    // A part of the sum is there two passes after the last, and four other turns after the first matrix instruction are in time.
    let part = Registers { first: 0, count: 2 };
    let Kind::Matrix { latency, .. } = matrix().kind else { unreachable!() };
    let kind = Kind::Matrix { clocks: 16, valu: 4, latency, adds_to: Some(part) };
    let steps = [matrix(), Step { kind, writes: vec![part], ..Step::default() }, end(), plain(Kind::Nop(4))];
    assert_eq!(run(&steps, vec![code(&[0, 1, 2])]).clocks, 4 * (4 + 2) + 4 + 4);
    assert_eq!(run(&steps, vec![code(&[0, 3, 1, 2])]).clocks, 4 * (4 + 2) + 4 + 4);
}

/// LLVM's wait states for reading the result of 2, 4, 8 and 16 passes: 5, 7, 11 and 19 (CDNA 4: 5, 8, 12, 20), and the reader's turn.
#[test]
fn matrix_latencies_are_llvms_wait_states() {
    for (passes, cdna3, cdna4) in [(2, 5, 5), (4, 7, 8), (8, 11, 12), (16, 19, 20)] {
        assert_eq!(latency::matrix(Family::Cdna3, 4 * passes, false).other, 4 * (cdna3 + 1), "{passes} passes");
        assert_eq!(latency::matrix(Family::Cdna4, 4 * passes, false).other, 4 * (cdna4 + 1), "{passes} passes");
        assert_eq!(latency::matrix(Family::Cdna3, 4 * passes, true).other, 4 * cdna3, "{passes} passes");
    }
}

/// Two loads of 8 lines each, at 0 and 4. Their addresses take 8 clocks each and their lines ⌈1024 / 53⌉ = 20: they are in L1 after
/// 20 and 40 clocks, and counted down 320 (far: 800) later. The waits end then, and the end takes two turns.
#[test]
fn waits_last_as_long_as_the_loads_that_they_are_for() {
    let steps = [plain(Kind::Memory), wait(1, 1), wait(1, 0), end()];
    let load = Executed { step: 0, pipe: 8, data: 8, counters: 1, order: 1, is_taken: false };
    let group = vec![[vec![load, load], code(&[1, 2, 3])].concat()];
    let near = run_groups(&steps, group.clone(), (1, 1), Distance::Near);
    assert_eq!(near.clocks, 40 + 320 + 4 + 4);
    // From 8 to 340, and from 344 to 360.
    assert_eq!(near.lost[Lost::Waits as usize], 332 + 16);
    assert_eq!(run_groups(&steps, group, (1, 1), Distance::Far).clocks, 40 + 800 + 4 + 4);
}

/// `lgkmcnt` has four bits: the sixteenth load waits for the first, which is there 4 + 128 clocks after it began.
#[test]
fn counters_have_room_for_as_many_as_they_can_count() {
    let steps = [plain(Kind::Lds), end()];
    let load = Executed { step: 0, pipe: 2, data: 4, counters: 4, order: 2, is_taken: false };
    let group = |loads: usize| vec![[vec![load; loads], code(&[1])].concat()];
    assert_eq!(run_groups(&steps, group(15), (1, 1), Distance::Far).clocks, 14 * 4 + 4 + 4);
    assert_eq!(run_groups(&steps, group(16), (1, 1), Distance::Far).clocks, 132 + 4 + 4);
    assert_eq!(run(&steps, group(16)).clocks, 15 * 4 + 4 + 4);
}

/// Sixteen bytes a lane are 1024 bytes: eight clocks of LDS, and sixteen of the port that two SIMDs share. So of waves on SIMDs 0 and 1
/// the second waits for the first, and of waves on SIMDs 0 and 2 it waits for LDS alone.
#[test]
fn pairs_of_simds_share_a_port_of_lds() {
    let steps = [plain(Kind::Lds), wait(4, 0), end()];
    let load = Executed { step: 0, pipe: 8, data: 16, counters: 4, order: 2, is_taken: false };
    let reader = [vec![load], code(&[1, 2])].concat();
    // At 0, and at 1: from 16 to 32, and 20 clocks more; SIMD 1 has its turn at 53.
    assert_eq!(run(&steps, vec![reader.clone(), reader.clone()]).clocks, 53 + 4 + 4);
    // At 0, and at 2: from 8 to 24, and 20 clocks more; SIMD 2 has its turn at 46.
    assert_eq!(run(&steps, vec![reader.clone(), code(&[2]), reader]).clocks, 46 + 4 + 4);
}

/// Five waves: the fifth is on SIMD 0 with the first, and each of their instructions keeps the other waiting for a turn.
#[test]
fn waves_of_a_simd_share_its_lanes_in_turns() {
    let steps = [vector(0), end()];
    let wave = code(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    // SIMD 3 is three clocks behind.
    assert_eq!(run(&steps, vec![wave.clone(); 4]).clocks, 10 * 4 + 4 + 3);
    let found = run(&steps, vec![wave; 5]);
    assert_eq!(found.clocks, 20 * 4 + 4);
    assert_eq!(found.lost[Lost::Turns as usize] % 4, 0);
    assert!(found.lost[Lost::Turns as usize] >= 9 * 4 * 2);
}

/// While the matrix unit is busy with one wave's instruction of eight passes, another's vector instructions go on: seven for each.
#[test]
fn vector_instructions_of_another_wave_go_in_the_shadow() {
    let latency = latency::matrix(Family::Cdna3, 32, false);
    let matrix = plain(Kind::Matrix { clocks: 32, valu: 4, latency, adds_to: None });
    let steps = [matrix, vector(0), end()];
    let (one, other) = ([vec![0; 10], vec![2]].concat(), [vec![1; 70], vec![2]].concat());
    let group = vec![code(&one), code(&[2]), code(&[2]), code(&[2]), code(&other)];
    let found = run(&steps, group);
    assert_eq!(found.matrix, 320);
    assert!((320..=360).contains(&found.clocks), "{}", found.clocks);
}

/// The wave of SIMD 1 comes to the barrier at 41; its partner, there since 0, goes on with its turn at 48.
#[test]
fn a_barrier_ends_when_the_last_wave_has_come() {
    let steps = [vector(0), plain(Kind::Barrier), end()];
    let group = vec![code(&[1, 0, 2]), code(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2])];
    let found = run(&steps, group);
    assert_eq!(found.clocks, 48 + 4 + 4);
    assert_eq!(found.lost[Lost::Barriers as usize], 44);
    // Who has ended, at 5, is not waited for: the other goes on with its turn at 12.
    assert_eq!(run(&steps, vec![code(&[1, 0, 2]), code(&[2])]).clocks, 12 + 4 + 4);
}

/// A branch that is taken costs eight turns, `s_nop 2` three.
#[test]
fn branches_and_nops_take_their_clocks() {
    let steps = [plain(Kind::Branch), plain(Kind::Nop(3)), end()];
    let taken = Executed { is_taken: true, ..Executed::default() };
    assert_eq!(run(&steps, vec![[vec![taken], code(&[2])].concat()]).clocks, 32 + 4);
    assert_eq!(run(&steps, vec![code(&[1, 2])]).clocks, 12 + 4);
}

/// A workgroup begins where another ends.
#[test]
fn workgroups_that_do_not_fit_come_one_after_the_other() {
    let steps = [vector(0), end()];
    let group = vec![code(&[0, 1])];
    assert_eq!(run_groups(&steps, group.clone(), (1, 3), Distance::Near).clocks, 3 * 8);
    // Three at a time, on three SIMDs.
    assert_eq!(run_groups(&steps, group, (3, 3), Distance::Near).clocks, 8 + 2);
}

/// The wave of higher priority goes first in every turn.
#[test]
fn priority_goes_before_the_ring() {
    let steps = [vector(0), end(), plain(Kind::Priority(3))];
    let (low, high) = (code(&[0, 0, 0, 0, 1]), code(&[2, 0, 0, 0, 0, 1]));
    let group = vec![low, code(&[1]), code(&[1]), code(&[1]), high];
    let found = run(&steps, group);
    // Low at 0, high at 4, 8, 12 and 16, low at 20, 24 and 28, and its end.
    assert_eq!(found.clocks, 28 + 4 + 4);
    assert_eq!(found.lost[Lost::Turns as usize], 16);
}
