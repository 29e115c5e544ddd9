//! The instrumented loop does what the fast one does, and tells of it.

use std::sync::Arc;

use rocfire_arch::Arch;

use super::{At, Event, EventKind, MemorySpace, Observer, Verdict, run_wave};
use crate::env::Env;
use crate::memory::Memory;
use crate::program::Program;
use crate::step::{Flow, Level};
use crate::wave::{LANES, Lanes, Wave, scalar};

/// What [`Recorder`] saw.
#[derive(Default)]
struct Seen {
    before: Vec<String>,
    events: Vec<Event>,
}

struct Recorder(Arc<std::sync::Mutex<Seen>>);

impl Observer for Recorder {
    fn before(&mut self, at: &At<'_>, _: &Wave, _: &Env) -> Verdict {
        self.0.lock().unwrap().before.push(at.step.inst.op.mnemonic().to_owned());
        Ok(())
    }

    fn after(&mut self, _: &At<'_>, _: &Wave, _: &Env, events: &[Event]) -> Verdict {
        self.0.lock().unwrap().events.extend_from_slice(events);
        Ok(())
    }
}

/// `s_waitcnt vmcnt(0)`, `v_mov_b32 v1, 7`, `ds_write_b32 v0, v1 offset:4`, `ds_read2_b32 v[2:3], v0 offset0:1 offset1:3`,
/// `s_endpgm`.
const WORDS: [u32; 8] =
    [0xbf8c_0f70, 0x7e02_0287, 0xd81a_0004, 0x0000_0100, 0xd86e_0301, 0x0200_0000, 0xbf81_0000, 0xbf81_0000];

fn start(program: &Arc<Program>, observed: bool) -> (Wave, Env) {
    let mut env = Env::new(program.clone(), Arc::new(Memory::new(0)), 1000);
    env.reset(program.clone(), (256, 0), observed);
    env.lds.reset(1024);
    let mut w = Wave::new();
    w.v[0] = Lanes(std::array::from_fn(|lane| 4 * lane as u32));
    w.set_s64(scalar::EXEC, 0xff);
    (w, env)
}

#[test]
fn both_loops_do_the_same_and_the_instrumented_one_tells_of_each_step() {
    let bytes = WORDS.iter().flat_map(|word| word.to_le_bytes()).collect();
    let arch = Arch::parse("gfx942").unwrap();
    let program = Arc::new(Program::at_level(Level::Baseline, arch, bytes, 0x1000, &[]));
    let (mut fast, mut fast_env) = start(&program, false);
    assert_eq!(crate::group::run_wave(&mut fast, &mut fast_env, &program), Flow::End);

    let complete = Arc::new(program.complete());
    let (mut slow, mut slow_env) = start(&complete, true);
    let seen = Arc::new(std::sync::Mutex::new(Seen::default()));
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(Recorder(seen.clone()))];
    assert_eq!(run_wave(&mut slow, &mut slow_env, &complete, &mut observers), Flow::End);

    assert!((0..4).all(|register| fast.v[register].0 == slow.v[register].0));
    assert_eq!(fast_env.counters(), slow_env.counters());
    let seen = seen.lock().unwrap();
    assert_eq!(seen.before, ["s_waitcnt", "v_mov_b32", "ds_write_b32", "ds_read2_b32", "s_endpgm"]);
    let kinds: Vec<_> =
        seen.events.iter().map(|event| (event.kind, event.space, event.bytes, event.register)).collect();
    let (store, load) = (EventKind::Store, EventKind::Load);
    let lds = MemorySpace::Lds;
    assert_eq!(kinds, [(store, lds, 4, 1), (load, lds, 4, 2), (load, lds, 4, 3)]);
    for (event, offset) in seen.events.iter().zip([4, 4, 12]) {
        let expected: Vec<_> = (0..8).map(|lane| (lane, 4 * lane as u64 + offset)).collect();
        assert_eq!(event.lane_addresses().collect::<Vec<_>>(), expected);
        assert!(event.lane_addresses().all(|(lane, _)| lane < LANES));
    }
}
