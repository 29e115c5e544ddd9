//! A code section, pre-decoded into steps.
//!
//! The section is decoded from start to end, beginning anew at each function symbol, so that data or padding between
//! functions does not shift what follows. What cannot be decoded, or has no handler, becomes a step that faults when it is reached.
//!
//! Instructions without effect here (`s_nop`, `s_waitcnt`, cache hints) are dropped and counted with the instruction after them. Before
//! a branch target they stay, so that counts are exact.

use rocfire_arch::Arch;
use rocfire_isa::{Class, Inst, Op, OperandKind, WaveSize};

use crate::env::Env;
use crate::error::FaultKind;
use crate::exec;
use crate::instrument::Uses;
use crate::step::{Flow, Handlers, Level, MicroOp, Selected};
use crate::wave::Wave;

/// No step starts at this dword.
const NO_STEP: u32 = u32::MAX;

/// A code section, ready to run.
pub(crate) struct Program {
    /// The steps, in order of address; the last one faults.
    pub(crate) steps: Vec<MicroOp>,
    /// Guest address of the section.
    pub(crate) address: u64,
    /// Bytes of the section.
    pub(crate) bytes: Vec<u8>,
    /// The architecture it is for.
    pub(crate) arch: Arch,
    /// For each step, its registers; only of a [`complete`](Program::complete) program.
    pub(crate) uses: Vec<Uses>,
    /// The waves it is for.
    pub(crate) wave: WaveSize,
    /// For each dword of the section, the step to run on a jump there.
    step_at: Vec<u32>,
    /// What it was made from, to make it anew.
    level: Level,
    starts: Vec<u64>,
}

/// One instruction before operands are resolved.
struct Decoded {
    offset: usize,
    /// `None`: the bytes are no instruction.
    inst: Option<Inst>,
    /// The second half of a pair.
    second: Option<Inst>,
}

impl Program {
    /// Decodes `bytes` for waves of the size that our kernels have; see [`Program::for_wave`].
    pub(crate) fn at_level(level: Level, arch: Arch, bytes: Vec<u8>, address: u64, starts: &[u64]) -> Program {
        Program::for_wave(level, arch, WaveSize::usual(arch), bytes, address, starts)
    }

    /// Decodes `bytes`, which stand at `address` in the guest; `starts` are byte offsets of function symbols.
    /// `level` must not be above the host's.
    pub(crate) fn for_wave(
        level: Level,
        arch: Arch,
        wave: WaveSize,
        bytes: Vec<u8>,
        address: u64,
        starts: &[u64],
    ) -> Program {
        Program::build(level, (arch, wave), bytes, address, starts, false)
    }

    /// The same code with a step for every instruction, those without effect included, and the registers of each: what the
    /// instrumented loop runs.
    pub(crate) fn complete(&self) -> Program {
        let target = (self.arch, self.wave);
        Program::build(self.level, target, self.bytes.clone(), self.address, &self.starts, true)
    }

    fn build(
        level: Level,
        (arch, wave): (Arch, WaveSize),
        bytes: Vec<u8>,
        address: u64,
        starts: &[u64],
        complete: bool,
    ) -> Program {
        assert!(level <= Level::detect(), "the host has no {level:?}");
        let decoded = decode_all(arch, wave, &bytes, starts);
        let targets = branch_targets(&decoded, bytes.len());
        let mut program = Program {
            steps: Vec::with_capacity(decoded.len() + 1),
            address,
            step_at: vec![NO_STEP; bytes.len() / 4],
            bytes,
            arch,
            uses: Vec::new(),
            level,
            starts: starts.to_vec(),
            wave,
        };
        let mut dropped = 0;
        let mut sites = 0u16;
        let mut indexing = false;
        let skipping = decoded.iter().any(|decoded| decoded.inst.is_some_and(|inst| inst.op == Op::SSetvskip));
        for (i, Decoded { offset, inst, second }) in decoded.iter().enumerate() {
            program.step_at[offset / 4] = program.steps.len() as u32;
            if starts.contains(&(*offset as u64)) {
                // What is before a function is the padding behind another one.
                dropped = 0;
            }
            let next_is_target = decoded.get(i + 1).is_some_and(|next| targets[next.offset / 4]);
            if !complete && inst.is_some_and(|inst| has_no_effect(inst.op)) && !next_is_target {
                dropped += 1;
                continue;
            }
            let step = match (inst, second) {
                (Some(first), Some(second)) => exec::dual::step(arch, [first, second], level, *offset as u32),
                (Some(inst), None) => make_step(arch, inst, *offset, level),
                (None, _) => None,
            };
            let mut step = step.unwrap_or_else(|| unknown(*offset, *inst));
            step.range_rule = exec::memory::range_rule(arch);
            if wave == WaveSize::Wave32 && exec::narrow::applies(&step.inst) {
                step.indexed = Some(std::mem::replace(&mut step.run, exec::narrow::run));
            }
            if let Some(inst) = inst {
                indexing = match inst.op {
                    Op::SSetGprIdxOn => true,
                    Op::SSetGprIdxOff => false,
                    op => indexing && !exec::scalar::is_direct_branch(op),
                };
                if indexing && exec::index::applies(inst) {
                    step.indexed = Some(std::mem::replace(&mut step.run, exec::index::run));
                }
                if skipping && exec::scalar::vskip::applies(inst) {
                    exec::scalar::vskip::wrap(&mut step);
                }
            }
            step.dropped = std::mem::take(&mut dropped);
            step.site = sites;
            sites = sites.wrapping_add(u16::from(inst.is_some_and(|inst| exec::memory::has_site(&inst))));
            program.steps.push(step);
        }
        program.steps.push(unknown(program.bytes.len(), None));
        if complete {
            program.uses = program.steps.iter().map(uses).collect();
        }
        program.link();
        program
    }

    /// Turns the byte displacement of each direct branch into the index of a step.
    fn link(&mut self) {
        for i in 0..self.steps.len() {
            let step = &self.steps[i];
            if let Some(target) = branch_target(&step.inst, step.offset_bytes as usize) {
                // Without a step at the target the branch goes to the last step, which faults.
                let target = self.step_at_offset(target as u64).unwrap_or(self.steps.len() - 1);
                self.steps[i].imm = target as i64;
            }
        }
    }

    /// The step at a guest address.
    pub(crate) fn step_at_address(&self, address: u64) -> Option<usize> {
        self.step_at_offset(address.checked_sub(self.address)?)
    }

    fn step_at_offset(&self, offset: u64) -> Option<usize> {
        if !offset.is_multiple_of(4) {
            return None;
        }
        match self.step_at.get(usize::try_from(offset / 4).ok()?) {
            Some(&NO_STEP) | None => None,
            Some(&step) => Some(step as usize),
        }
    }

    /// Whether the steps from `entry` to `end`, or all code if `end` is not known or there are calls, have an instruction
    /// that shows the order of workgroups.
    pub(crate) fn is_order_dependent(&self, entry: usize, end: Option<usize>) -> bool {
        let own = &self.steps[entry..end.filter(|&end| end > entry).unwrap_or(self.steps.len())];
        let calls = own.iter().any(|step| matches!(step.inst.op, Op::SSwappcB64 | Op::SCallB64 | Op::SSetpcB64));
        let reachable = if calls { &self.steps[..] } else { own };
        reachable.iter().any(|step| exec::memory::is_order_dependent(&step.inst))
    }

    /// Guest address of the instruction after step `index`.
    pub(crate) fn address_after(&self, step: &MicroOp) -> u64 {
        self.address + u64::from(step.offset_bytes) + u64::from(step.inst.bytes)
    }

    /// The text of a step.
    pub(crate) fn disassembly(&self, step: &MicroOp) -> String {
        let bytes = self.bytes.get(step.offset_bytes as usize..).unwrap_or_default();
        match rocfire_isa::decode_dual(self.arch, self.wave, bytes) {
            Ok(decoded) => rocfire_isa::disassemble_dual(self.arch, &decoded),
            Err(error) => {
                let shown: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                format!("bytes {}: {error}", shown.join(" "))
            }
        }
    }
}

fn decode_all(arch: Arch, wave: WaveSize, bytes: &[u8], starts: &[u64]) -> Vec<Decoded> {
    let mut starts: Vec<usize> = starts.iter().map(|&start| start as usize).filter(|start| start % 4 == 0).collect();
    starts.sort_unstable();
    let mut starts = starts.into_iter().peekable();
    let mut decoded = Vec::with_capacity(bytes.len() / 6);
    let mut offset = 0;
    while offset + 4 <= bytes.len() {
        while starts.next_if(|&start| start <= offset).is_some() {}
        let end = starts.peek().copied().unwrap_or(bytes.len()).min(bytes.len());
        // An instruction that would reach across the next function's start is not one.
        let found = rocfire_isa::decode_dual(arch, wave, &bytes[offset..end]).ok();
        let inst = found.map(|found| exec::canonical(found.first));
        let second = found.and_then(|found| found.second).map(exec::canonical);
        decoded.push(Decoded { offset, inst, second });
        offset += inst.map_or(4, |inst| usize::from(inst.bytes));
    }
    decoded
}

/// Which dwords are targets of direct branches.
fn branch_targets(decoded: &[Decoded], bytes: usize) -> Vec<bool> {
    let mut targets = vec![false; bytes / 4 + 1];
    for Decoded { offset, inst, .. } in decoded {
        if let Some(target) = inst.as_ref().and_then(|inst| branch_target(inst, *offset))
            && let Some(is_target) = usize::try_from(target / 4).ok().and_then(|dword| targets.get_mut(dword))
        {
            *is_target = true;
        }
    }
    targets
}

/// The byte offset that a direct branch at `offset` goes to.
fn branch_target(inst: &Inst, offset: usize) -> Option<i64> {
    if !exec::scalar::is_direct_branch(inst.op) {
        return None;
    }
    let dwords = inst.src.iter().find_map(|operand| match operand.kind {
        OperandKind::Imm(dwords) => Some(i64::from(dwords as i16)),
        _ => None,
    })?;
    Some(offset as i64 + 4 + 4 * dwords)
}

/// The registers of a step; of a pair, those of both halves.
fn uses(step: &MicroOp) -> Uses {
    match &step.pair {
        Some(pair) => Uses::of_pair(&pair[0].inst, &pair[1].inst),
        None => Uses::of(&step.inst),
    }
}

fn make_step(arch: Arch, inst: &Inst, offset: usize, level: Level) -> Option<MicroOp> {
    if has_no_effect(inst.op) {
        return Some(without_effect(inst, offset));
    }
    let selected = exec::select(arch, inst)?;
    MicroOp::new(*inst, &selected, level, offset as u32)
}

/// A step that does nothing. Its operands mean nothing to a handler, but observers look at them (`s_waitcnt`).
fn without_effect(inst: &Inst, offset: usize) -> MicroOp {
    fn next(_: &mut Wave, _: &mut Env, _: &MicroOp) -> Flow {
        Flow::Next
    }
    let mut step = unknown(offset, None);
    (step.run, step.inst, step.class) = (next, *inst, crate::counters::class(inst));
    step
}

/// Whether an instruction changes nothing that the emulator models.
pub(crate) fn has_no_effect(op: Op) -> bool {
    op.facts().class == Class::NoEffect
}

/// A step that faults.
fn unknown(offset: usize, inst: Option<Inst>) -> MicroOp {
    fn fault(_: &mut Wave, env: &mut Env, _: &MicroOp) -> Flow {
        env.fail(FaultKind::UnknownInstruction)
    }
    let inst = inst.unwrap_or(MicroOp::NO_INST);
    let selected = Selected::lanes(Handlers::same(fault));
    // Operands of an instruction without handler mean nothing, and must not keep the step from being made.
    let inst = Inst { dst: MicroOp::NO_INST.dst, src: MicroOp::NO_INST.src, ..inst };
    MicroOp::new(inst, &selected, Level::Baseline, offset as u32).expect("a step without operands has none to refuse")
}
