//! Which registers an instruction reads and writes, those that its text does not show included.
//!
//! Explicit operands come with their widths from `isa`; what is implied (EXEC, SCC, M0, a destination that is also a
//! source) is added here, as the operation's row says. A *read* is one whose value the result depends on. A destination of
//! which only a part is written (16 bits of it, or the lanes that DPP's masks leave) is in `writes` and not in `reads`.

use rocfire_isa::{Format, Inst, Op, Operand, OperandKind};

use crate::wave::{AGPR, STAGE, scalar};

/// A run of registers of one file: for vectors those of [`Wave::v`](crate::wave::Wave) (accumulation registers from
/// [`AGPR`] on), for scalars those of [`Wave::s`](crate::wave::Wave), and [`scalar::SCC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The first one.
    pub(crate) first: u16,
    /// How many.
    pub(crate) count: u16,
}

impl Registers {
    /// The numbers of the registers.
    pub(crate) fn range(self) -> std::ops::Range<u16> {
        self.first..self.first + self.count
    }
}

/// Words of a [`Marks`]: of the vector file, and of the scalar one with SCC.
const VECTOR_WORDS: usize = (STAGE as usize).div_ceil(64);
const WORDS: usize = VECTOR_WORDS + (scalar::SCC as usize + 1).div_ceil(64);

/// A bit for each register of both files: some property of the registers of a wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks([u64; WORDS]);

impl Marks {
    /// Whether a register of the set is marked.
    #[inline(always)]
    pub(crate) fn meets(&self, set: &RegisterSet) -> bool {
        set.0.iter().any(|&(word, bits)| self.0[usize::from(word)] & bits != 0)
    }

    /// Marks the registers of a set.
    pub(crate) fn insert(&mut self, set: &RegisterSet) {
        set.0.iter().for_each(|&(word, bits)| self.0[usize::from(word)] |= bits);
    }

    /// Marks a vector register.
    #[inline(always)]
    pub(crate) fn insert_vector(&mut self, register: u16) {
        self.0[usize::from(register / 64)] |= 1 << (register % 64);
    }

    /// Marks a scalar register, or SCC.
    #[inline(always)]
    pub(crate) fn insert_scalar(&mut self, register: u16) {
        self.0[VECTOR_WORDS + usize::from(register / 64)] |= 1 << (register % 64);
    }

    /// Marks the registers of a set for which a condition of the register, in the vector file or not, holds, and unmarks
    /// those for which it does not.
    #[inline(always)]
    pub(crate) fn update(&mut self, set: &RegisterSet, is_marked: impl Fn(bool, u16) -> bool) {
        for &(word, bits) in &set.0 {
            let (vector, first) = match usize::from(word).checked_sub(VECTOR_WORDS) {
                None => (true, 64 * word),
                Some(word) => (false, 64 * word as u16),
            };
            let mut left = bits;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let marked = u64::from(is_marked(vector, first + bit as u16));
                let own = &mut self.0[usize::from(word)];
                *own = *own & !(1 << bit) | marked << bit;
            }
        }
    }

    /// Unmarks the scalar registers from `first` on.
    pub(crate) fn remove_scalars_from(&mut self, first: u16) {
        for (word, bits) in self.0[VECTOR_WORDS..].iter_mut().enumerate() {
            let kept = usize::from(first).saturating_sub(64 * word).min(64) as u32;
            *bits &= u64::MAX.checked_shr(64 - kept).unwrap_or(0);
        }
    }
}

/// Registers of both files, as words of a [`Marks`] and bits in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegisterSet(Vec<(u16, u64)>);

impl RegisterSet {
    fn of(vectors: &[Registers], scalars: &[Registers]) -> RegisterSet {
        let mut marks = Marks::default();
        let all = |runs: &[Registers]| runs.iter().flat_map(|run| run.range()).collect::<Vec<u16>>();
        all(vectors).into_iter().filter(|&register| register < STAGE).for_each(|r| marks.insert_vector(r));
        all(scalars).into_iter().filter(|&register| register <= scalar::SCC).for_each(|r| marks.insert_scalar(r));
        let words = marks.0.into_iter().enumerate().filter(|&(_, bits)| bits != 0);
        RegisterSet(words.map(|(word, bits)| (word as u16, bits)).collect())
    }
}

/// Registers of an instruction by file and direction; some may be named twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// All registers read.
    pub(crate) reads: RegisterSet,
    /// All registers written.
    pub(crate) writes: RegisterSet,
    /// Those of each of the two instructions of a pair.
    pub(crate) halves: Option<Box<[Uses; 2]>>,
    /// Whether it may do something to memory, counts as outstanding, or is a barrier.
    pub(crate) has_effects: bool,
    /// Vector registers read.
    pub(crate) vector_reads: Vec<Registers>,
    /// Vector registers written, if only in some lanes or in part.
    pub(crate) vector_writes: Vec<Registers>,
    /// Scalar registers read, EXEC by vector instructions and SCC included.
    pub(crate) scalar_reads: Vec<Registers>,
    /// Scalar registers written, EXEC and SCC included.
    pub(crate) scalar_writes: Vec<Registers>,
}

/// The register file of an operand, and the registers.
pub(crate) enum Named {
    Vector(Registers),
    Scalar(Registers),
}

/// The registers that an operand names; `None` for a constant or nothing.
pub(crate) fn named(operand: &Operand) -> Option<Named> {
    let count = u16::from(operand.dwords.max(1));
    let vector = |first| Some(Named::Vector(Registers { first, count }));
    let scalar = |first| Some(Named::Scalar(Registers { first, count }));
    match operand.kind {
        OperandKind::Vgpr(n) => vector(n),
        OperandKind::Agpr(n) => vector(AGPR + n),
        OperandKind::Sgpr(n) => scalar(n),
        OperandKind::Vcc(half) => scalar(scalar::VCC + u16::from(half)),
        OperandKind::Exec(half) => scalar(scalar::EXEC + u16::from(half)),
        OperandKind::M0 => Some(Named::Scalar(Registers { first: scalar::M0, count: 1 })),
        OperandKind::Ttmp(n) => scalar(scalar::TTMP + u16::from(n)),
        OperandKind::FlatScratch(half) => scalar(scalar::FLAT_SCRATCH + u16::from(half)),
        OperandKind::XnackMask(half) => scalar(scalar::XNACK_MASK + u16::from(half)),
        OperandKind::Vccz => Some(Named::Scalar(Registers { first: scalar::VCC, count: 2 })),
        OperandKind::Execz => Some(Named::Scalar(Registers { first: scalar::EXEC, count: 2 })),
        OperandKind::Scc => Some(Named::Scalar(Registers { first: scalar::SCC, count: 1 })),
        OperandKind::None
        | OperandKind::Null
        | OperandKind::Aperture(_)
        | OperandKind::LdsDirect
        | OperandKind::Int(_)
        | OperandKind::Float(_)
        | OperandKind::Literal(_)
        | OperandKind::Imm(_) => None,
    }
}

const SCC: Registers = Registers { first: scalar::SCC, count: 1 };
const EXEC: Registers = Registers { first: scalar::EXEC, count: 2 };
const VCC: Registers = Registers { first: scalar::VCC, count: 2 };
const M0: Registers = Registers { first: scalar::M0, count: 1 };

impl Uses {
    /// The registers of `inst`.
    pub(crate) fn of(inst: &Inst) -> Uses {
        let mut uses = Uses::default();
        for (i, operand) in inst.src.iter().enumerate() {
            uses.read(&selected(inst, i, operand));
        }
        if let Some(scale) = &inst.mods.scale {
            uses.read(&scale.a);
            uses.read(&scale.b);
        }
        for operand in &inst.dst {
            uses.write(operand);
        }
        let facts = inst.op.facts();
        if facts.accumulates || facts.swaps {
            uses.read(&inst.dst[0]);
        }
        if facts.swaps {
            uses.write(&inst.src[0]);
        }
        let scalar = matches!(
            inst.format,
            Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc | Format::Sopp | Format::Smem
        );
        let memory = matches!(
            inst.format,
            Format::Smem | Format::Ds | Format::Flat | Format::Global | Format::Scratch | Format::Mubuf
        );
        let implied = [
            (facts.reads_scc, SCC),
            (facts.reads_vcc, VCC),
            (facts.reads_exec || !scalar && !facts.ignores_exec, EXEC),
            (facts.reads_m0 || inst.mods.lds, M0),
        ];
        uses.scalar_reads.extend(implied.into_iter().filter_map(|(reads, registers)| reads.then_some(registers)));
        let exec = facts.writes_exec && !uses.scalar_writes.contains(&EXEC);
        let implied = [(facts.writes_scc, SCC), (exec, EXEC), (facts.writes_m0, M0)];
        uses.scalar_writes.extend(implied.into_iter().filter_map(|(writes, registers)| writes.then_some(registers)));
        uses.has_effects = memory || facts.signals;
        uses.summed_up()
    }

    /// Of two instructions that execute at the same time.
    pub(crate) fn of_pair(first: &Inst, second: &Inst) -> Uses {
        let halves = [Uses::of(first), Uses::of(second)];
        let mut uses = halves[0].clone();
        uses.vector_reads.extend(&halves[1].vector_reads);
        uses.vector_writes.extend(&halves[1].vector_writes);
        uses.scalar_reads.extend(&halves[1].scalar_reads);
        uses.scalar_writes.extend(&halves[1].scalar_writes);
        uses.halves = Some(Box::new(halves));
        uses.summed_up()
    }

    fn summed_up(mut self) -> Uses {
        self.reads = RegisterSet::of(&self.vector_reads, &self.scalar_reads);
        self.writes = RegisterSet::of(&self.vector_writes, &self.scalar_writes);
        self
    }

    fn read(&mut self, operand: &Operand) {
        match named(operand) {
            Some(Named::Vector(registers)) => self.vector_reads.push(registers),
            Some(Named::Scalar(registers)) => self.scalar_reads.push(registers),
            None => {}
        }
    }

    fn write(&mut self, operand: &Operand) {
        match named(operand) {
            Some(Named::Vector(registers)) => self.vector_writes.push(registers),
            Some(Named::Scalar(registers)) => self.scalar_writes.push(registers),
            None => {}
        }
    }
}

/// A source, of which a packed operation on f32 may read one register only.
fn selected(inst: &Inst, i: usize, operand: &Operand) -> Operand {
    let is_packed = inst.format == Format::Vop3p && inst.op.facts().packs_words && inst.op != Op::VPkMovB32;
    let (low, high) = (inst.mods.op_sel >> i & 1, inst.mods.op_sel_hi >> i & 1);
    let OperandKind::Vgpr(first) = operand.kind else { return *operand };
    if !is_packed || operand.dwords != 2 || low != high {
        return *operand;
    }
    Operand { kind: OperandKind::Vgpr(first + u16::from(low)), dwords: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocfire_arch::Arch;

    fn uses(words: &[u32]) -> Uses {
        let arch = Arch::parse("gfx942").expect("it is in the table");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Uses::of(&rocfire_isa::decode(arch, &bytes).expect("it is an instruction"))
    }

    fn run(first: u16, count: u16) -> Registers {
        Registers { first, count }
    }

    #[test]
    fn a_fused_multiply_add_in_place_reads_its_destination() {
        // v_fmac_f32_e32 v1, v2, v3
        let uses = uses(&[0x7602_0702]);
        assert_eq!(uses.vector_reads, [run(2, 1), run(3, 1), run(1, 1)]);
        assert_eq!(uses.vector_writes, [run(1, 1)]);
        assert_eq!(uses.scalar_reads, [EXEC]);
    }

    #[test]
    fn a_carry_goes_through_vcc_and_scc() {
        // v_addc_co_u32_e32 v0, vcc, v1, v2, vcc
        let vector = uses(&[0x3800_0501]);
        assert_eq!(vector.scalar_reads, [run(scalar::VCC, 2), EXEC]);
        assert_eq!(vector.scalar_writes, [run(scalar::VCC, 2)]);
        // s_addc_u32 s0, s1, s2
        let scalar = uses(&[0x8200_0201]);
        assert_eq!(scalar.scalar_reads, [run(1, 1), run(2, 1), SCC]);
        assert_eq!(scalar.scalar_writes, [run(0, 1), SCC]);
    }

    #[test]
    fn widths_are_those_of_the_operands() {
        // global_load_dwordx4 v[4:7], v1, s[2:3]
        let load = uses(&[0xdc5c_8000, 0x0402_0001]);
        assert_eq!(load.vector_reads, [run(1, 1)]);
        assert_eq!(load.vector_writes, [run(4, 4)]);
        assert_eq!(load.scalar_reads, [run(2, 2), EXEC]);
        // s_load_dwordx8 s[8:15], s[4:5], 0x0
        let scalar = uses(&[0xc00e_0202, 0]);
        assert_eq!(scalar.scalar_writes, [run(8, 8)]);
        // s_and_saveexec_b64 s[0:1], vcc
        let save = uses(&[0xbe80_206a]);
        assert_eq!(save.scalar_writes, [run(0, 2), SCC, EXEC]);
        assert_eq!(save.scalar_reads, [run(scalar::VCC, 2), EXEC]);
    }
}
