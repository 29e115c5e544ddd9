//! The words that opcode tables are written in.
//!
//! A [`Row`] says what an opcode is called and what its operand fields hold. The meaning of the fields' positions is
//! the format's (`crate::cdna`); the row adds width, register file and what the text needs. Used by the decoder, and by
//! the disassembler, which looks rows up by operation.

use super::Op;

/// Where an operand may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// No operand.
    Absent,
    /// Whatever the field can encode.
    Any,
    /// A vector register only.
    Vector,
    /// A scalar register only, no constant.
    Scalar,
    /// A scalar register or an inline constant.
    ScalarOrConstant,
    /// A scalar register, an inline constant or a literal.
    ScalarOrLiteral,
    /// An accumulation register only.
    Accumulator,
    /// An immediate field.
    Immediate(Immediate),
}

/// What an immediate field means, which decides its sign and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Immediate {
    /// Sign-extended 16-bit number, written in hexadecimal.
    Signed,
    /// Unsigned number as an operand of SOPK, written in hexadecimal.
    Unsigned,
    /// Unsigned number of SOPP.
    Count,
    /// As `Count`, but zero is not written.
    CountUnlessZero,
    /// Branch distance in words from the next instruction, sign-extended.
    Branch,
    /// The three counters of `s_waitcnt`.
    WaitCounts,
    /// Message, operation and stream of `s_sendmsg`.
    Message,
    /// Register, offset and size of `s_getreg_b32`.
    HardwareRegister,
    /// Which operands `s_set_gpr_idx_on` redirects.
    GprIndexing,
    /// The 32-bit literal after the instruction, written in hexadecimal.
    Literal,
    /// The same, written as an inline constant where it could be one.
    Number,
    /// What `s_delay_alu` waits for.
    Delay,
    /// The counters of `s_waitcnt_depctr` and `s_wait_alu`.
    DependencyCounters,
    /// How much `s_prefetch_…` fetches, in the place of a data register.
    PrefetchLength,
    /// The access mode of `s_atc_probe`, in the place of a data register.
    ProbeMode,
}

/// How constants of an operand are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// As 32- or 64-bit numbers, by width.
    Full,
    /// 64 bits wide, floating-point: a literal is the high half.
    Double,
    /// As 32-bit numbers although there are two of them.
    Packed,
    /// Two packed 16-bit floating-point numbers: a literal is marked if its low half alone could be an inline constant.
    PackedHalf,
    /// 16 bits wide, floating-point.
    HalfFloat,
    /// 16 bits wide, integer: inline floating-point constants appear as their bits.
    HalfInteger,
}

/// What a row says of one operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Where it comes from.
    pub class: Class,
    /// 32-bit registers it covers.
    pub dwords: u8,
    /// How its constants are written.
    pub text: Text,
    /// Whether a vector register is one of its halves: in the 32-bit formats by the field's top bit, in VOP3 by `op_sel`.
    pub half: bool,
}

/// As a [`Slot`]'s width: one bit for each lane, so as wide as the wave.
pub(crate) const MASK: u8 = u8::MAX;

impl Slot {
    const fn new(class: Class, dwords: u8) -> Slot {
        Slot { class, dwords, text: Text::Full, half: false }
    }

    const fn written(text: Text, dwords: u8) -> Slot {
        Slot { class: Class::Any, dwords, text, half: false }
    }

    const fn halved(self) -> Slot {
        Slot { half: true, ..self }
    }

    const fn immediate(what: Immediate) -> Slot {
        Slot::new(Class::Immediate(what), 1)
    }

    /// Whether there is an operand here.
    pub const fn is_some(self) -> bool {
        !matches!(self.class, Class::Absent)
    }
}

/// No operand.
pub(crate) const NO: Slot = Slot::new(Class::Absent, 0);
/// 1, 2, 3, … 32-bit words from anywhere the field can reach.
pub(crate) const W1: Slot = Slot::new(Class::Any, 1);
pub(super) const W2: Slot = Slot::new(Class::Any, 2);
pub(super) const W3: Slot = Slot::new(Class::Any, 3);
pub(super) const W4: Slot = Slot::new(Class::Any, 4);
pub(super) const W6: Slot = Slot::new(Class::Any, 6);
pub(super) const W8: Slot = Slot::new(Class::Any, 8);
pub(super) const W16: Slot = Slot::new(Class::Any, 16);
pub(super) const W32: Slot = Slot::new(Class::Any, 32);
/// 16-bit floating-point and integer operands.
pub(super) const H1: Slot = Slot::written(Text::HalfFloat, 1);
pub(super) const I1: Slot = Slot::written(Text::HalfInteger, 1);
/// The same where registers are named by halves; a vector register by halves.
pub(super) const HT: Slot = H1.halved();
pub(super) const IT: Slot = I1.halved();
pub(super) const VT: Slot = V1.halved();
/// One and four 64-bit floating-point numbers, where a constant is possible.
pub(super) const D2: Slot = Slot::written(Text::Double, 2);
pub(super) const D8: Slot = Slot::written(Text::Double, 8);
/// Two packed 16-bit floating-point numbers.
pub(super) const PH: Slot = Slot::written(Text::PackedHalf, 1);
/// Two packed 32-bit words.
pub(super) const P2: Slot = Slot::written(Text::Packed, 2);
/// Vector registers only.
pub(super) const V1: Slot = Slot::new(Class::Vector, 1);
pub(super) const V2: Slot = Slot::new(Class::Vector, 2);
pub(super) const V4: Slot = Slot::new(Class::Vector, 4);
pub(super) const V6: Slot = Slot::new(Class::Vector, 6);
pub(super) const V8: Slot = Slot::new(Class::Vector, 8);
pub(super) const V16: Slot = Slot::new(Class::Vector, 16);
pub(super) const V32: Slot = Slot::new(Class::Vector, 32);
/// Scalar registers only; as wide as the wave.
pub(super) const S1: Slot = Slot::new(Class::Scalar, 1);
pub(super) const S2: Slot = Slot::new(Class::Scalar, 2);
pub(super) const SM: Slot = Slot::new(Class::Scalar, MASK);
/// Scalar registers or inline constants; as wide as the wave.
pub(crate) const SC1: Slot = Slot::new(Class::ScalarOrConstant, 1);
/// The same, or a literal.
pub(super) const SL1: Slot = Slot::new(Class::ScalarOrLiteral, 1);
/// Accumulation registers only.
pub(super) const A1: Slot = Slot::new(Class::Accumulator, 1);
pub(super) const A4: Slot = Slot::new(Class::Accumulator, 4);
pub(super) const A16: Slot = Slot::new(Class::Accumulator, 16);
pub(super) const A32: Slot = Slot::new(Class::Accumulator, 32);
/// Immediates, named as in [`Immediate`].
pub(super) const SIMM: Slot = Slot::immediate(Immediate::Signed);
pub(super) const UIMM: Slot = Slot::immediate(Immediate::Unsigned);
pub(super) const COUNT: Slot = Slot::immediate(Immediate::Count);
pub(super) const COUNT0: Slot = Slot::immediate(Immediate::CountUnlessZero);
pub(super) const REL: Slot = Slot::immediate(Immediate::Branch);
pub(super) const WAIT: Slot = Slot::immediate(Immediate::WaitCounts);
pub(super) const MSG: Slot = Slot::immediate(Immediate::Message);
pub(super) const HWREG: Slot = Slot::immediate(Immediate::HardwareRegister);
pub(super) const GPRIDX: Slot = Slot::immediate(Immediate::GprIndexing);
pub(super) const LIT: Slot = Slot::immediate(Immediate::Literal);
pub(super) const NUM: Slot = Slot::immediate(Immediate::Number);
pub(super) const DELAY: Slot = Slot::immediate(Immediate::Delay);
pub(super) const DEPCTR: Slot = Slot::immediate(Immediate::DependencyCounters);
pub(super) const PREFETCH: Slot = Slot::immediate(Immediate::PrefetchLength);
pub(super) const PROBE: Slot = Slot::immediate(Immediate::ProbeMode);

/// Nothing to add to the operands.
pub(crate) const PLAIN: u64 = 0;
/// The text carries `_e32` or `_e64`, because both forms exist.
pub(crate) const E: u64 = 1 << 0;
/// VCC is a source that no field names: the last one.
pub(crate) const CIN: u64 = 1 << 1;
/// VCC is a second result that no field names.
pub(crate) const COUT: u64 = 1 << 2;
/// A literal stands between the two register sources, or behind them.
pub(crate) const MK: u64 = 1 << 3;
pub(crate) const AK: u64 = 1 << 4;
/// The source is written too.
pub(crate) const SWAP: u64 = 1 << 5;
/// The sub-dword form exists; source 0, 1 takes negation and absolute value; takes sign extension.
pub(crate) const SDWA: u64 = 1 << 6;
pub(crate) const SN0: u64 = 1 << 7;
pub(crate) const SN1: u64 = 1 << 8;
pub(crate) const SX0: u64 = 1 << 9;
pub(crate) const SX1: u64 = 1 << 10;
/// The lane-swizzle form exists; source 0, 1 takes negation and absolute value.
pub(crate) const DPP: u64 = 1 << 11;
pub(crate) const DN0: u64 = 1 << 12;
pub(crate) const DN1: u64 = 1 << 13;
/// VOP3: the scalar second result is a field.
pub(crate) const SDST: u64 = 1 << 14;
/// VOP3: source 0, 1, 2 takes negation and absolute value.
pub(crate) const M0: u64 = 1 << 15;
pub(crate) const M1: u64 = 1 << 16;
pub(crate) const M2: u64 = 1 << 17;
/// Clamp, output multiplier and `op_sel` are fields.
pub(crate) const CLAMP: u64 = 1 << 18;
pub(crate) const OMOD: u64 = 1 << 19;
pub(crate) const OPSEL: u64 = 1 << 20;
/// VOP3P: the `neg_hi` field is absolute value.
pub(crate) const MIX: u64 = 1 << 21;
/// Matrix: `cbsz` and `abid` are fields; `blgp` is; `blgp` negates the sources instead.
pub(crate) const CBSZ: u64 = 1 << 22;
pub(crate) const BLGP: u64 = 1 << 23;
pub(crate) const NEGB: u64 = 1 << 24;
/// Memory: returns the old value if asked; the data field is a source.
pub(crate) const ATOMIC: u64 = 1 << 25;
pub(crate) const STORE: u64 = 1 << 26;
/// Memory: loads into LDS always; if a bit says so.
pub(crate) const LDS: u64 = 1 << 27;
pub(crate) const LDSBIT: u64 = 1 << 28;
/// DS: two 8-bit offsets; reaches the global data share only.
pub(crate) const PAIR: u64 = 1 << 29;
pub(crate) const GDS: u64 = 1 << 30;
/// Sub-dword form: the result is a whole register, there is no select for it.
pub(crate) const WHOLE: u64 = 1 << 31;
/// VOP3: the upper two bits of `op_sel` select a byte of the destination.
pub(crate) const BYTESEL: u64 = 1 << 32;
/// Compare: the result goes to EXEC and is not written.
pub(crate) const CMPX: u64 = 1 << 33;
/// VOP3P: `neg_lo` and `neg_hi` are fields.
pub(crate) const NEGLO: u64 = 1 << 34;
pub(crate) const NEGHI: u64 = 1 << 35;
/// Matrix, sparse: `op_sel` says which part of the index is used.
pub(crate) const INDEXKEY: u64 = 1 << 36;
/// Memory: the lane's number is the address, there is no register for it.
pub(crate) const ADDTID: u64 = 1 << 37;
/// WMMA, and loads for it: widths are those under wave32.
pub(crate) const WMMA: u64 = 1 << 38;
/// Matrix: `cbsz` and `blgp` name the formats of the sources, which decide their widths.
pub(crate) const F8F6F4: u64 = 1 << 39;
/// Matrix: a scaled multiplication, whose second half is the multiplication itself.
pub(crate) const SCALED: u64 = 1 << 40;
/// VOP3: three 8-bit fields of modifiers hold a truth table.
pub(crate) const BITOP3: u64 = 1 << 41;
/// VOP3: the first two bits of `op_sel` are all there are.
pub(crate) const LANES: u64 = 1 << 42;
/// VOP3: the first two bits of `op_sel` select a byte of the first source.
pub(crate) const SRCBYTE: u64 = 1 << 43;
/// VOP3: the first two bits of `op_sel` are the swizzle's `bound_ctrl` and `fi`.
pub(crate) const BCFI: u64 = 1 << 44;
/// VOP3: only the third source and the result have bits in `op_sel`.
pub(crate) const TAILSEL: u64 = 1 << 45;
/// VOP3: `op_sel` shows in the names of halves only.
pub(crate) const UNSAID: u64 = 1 << 46;
/// VOP3: the result is a third source, with a bit of its own in `op_sel`.
pub(crate) const TIED: u64 = 1 << 47;

/// One opcode of one format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The opcode field.
    pub code: u16,
    /// What it does.
    pub op: Op,
    /// The result.
    pub dst: Slot,
    /// The sources, in the order of the format's fields.
    pub src: [Slot; 3],
    /// The constants above, or-ed.
    pub flags: u64,
}

impl Slot {
    /// Whether a literal may stand here, where the format has one.
    pub fn takes_literal(&self) -> bool {
        matches!(self.class, Class::Any | Class::ScalarOrLiteral)
    }
}

impl Row {
    /// Whether all of `flags` are set.
    pub fn has(&self, flags: u64) -> bool {
        self.flags & flags == flags
    }

    /// One bit a source: whether it takes negation, given the flags that say so of sources 0, 1 and 2 (0 for never).
    pub fn source_mask(&self, flags: [u64; 3]) -> u8 {
        (0..3).filter(|&i| self.has(flags[i]) && flags[i] != 0).fold(0, |mask, i| mask | 1 << i)
    }
}

/// A row, in the words of the tables.
pub(super) const fn row(code: u16, op: Op, dst: Slot, src: [Slot; 3], flags: u64) -> Row {
    Row { code, op, dst, src, flags }
}

/// Opcodes of the widest opcode field (VOP3).
const CODES: usize = 1 << 10;

/// No row for this opcode.
const VACANT: u16 = u16::MAX;

/// The opcodes of one format.
pub(crate) struct Table {
    rows: &'static [Row],
    index: [u16; CODES],
    /// Where opcodes are looked up that have no row here, and those among them that this family lacks.
    base: Option<&'static Table>,
    gone: &'static [u16],
}

impl Table {
    /// A table with an index by opcode, made at compile time.
    pub(super) const fn new(rows: &'static [Row]) -> Table {
        Table::build(rows, None, &[])
    }

    /// The table of a family that differs from another by these rows, and by opcodes that it does not have.
    pub(super) const fn differing(base: &'static Table, gone: &'static [u16], rows: &'static [Row]) -> Table {
        Table::build(rows, Some(base), gone)
    }

    const fn build(rows: &'static [Row], base: Option<&'static Table>, gone: &'static [u16]) -> Table {
        let mut index = [VACANT; CODES];
        let mut i = 0;
        while i < rows.len() {
            assert!(index[rows[i].code as usize] == VACANT, "two rows have the same opcode");
            index[rows[i].code as usize] = i as u16;
            i += 1;
        }
        Table { rows, index, base, gone }
    }

    /// The row of an opcode.
    pub fn get(&self, code: u32) -> Option<&'static Row> {
        let at = *self.index.get(code as usize)?;
        match self.rows.get(usize::from(at)) {
            Some(row) => Some(row),
            None if self.gone.contains(&(code as u16)) => None,
            None => self.base?.get(code),
        }
    }

    /// The row of an operation, found by search.
    pub fn find(&self, op: Op) -> Option<&'static Row> {
        let inherited = || self.base?.find(op).filter(|row| self.get(row.code.into()).is_some_and(|now| now.op == op));
        self.rows.iter().find(|row| row.op == op).or_else(inherited)
    }
}

/// A format that a family does not have.
pub(super) static EMPTY: Table = Table::new(&[]);

/// Generations of encodings, oldest first; each holds for the families after it until the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Encoding {
    /// GCN 5 and CDNA 1 and 2.
    Gfx9,
    /// CDNA 3 and 4: other cache bits, scratch with both addresses.
    Gfx940,
    /// RDNA 1 and 2.
    Gfx10,
    /// RDNA 3 and 3.5.
    Gfx11,
    /// RDNA 4.
    Gfx12,
}

/// Everything known about one instruction set's opcodes.
pub(crate) struct Tables {
    /// Where the fields are.
    pub encoding: Encoding,
    /// Whether vector and accumulation registers are one file, which memory instructions reach and where tuples start at
    /// even registers.
    pub unified: bool,
    /// Names of hardware registers and messages, by number.
    pub names: &'static Names,
    pub sop1: &'static Table,
    pub sop2: &'static Table,
    pub sopk: &'static Table,
    pub sopc: &'static Table,
    pub sopp: &'static Table,
    pub smem: &'static Table,
    pub vop1: &'static Table,
    pub vop2: &'static Table,
    pub vopc: &'static Table,
    pub vop3: &'static Table,
    pub vop3p: &'static Table,
    pub vop3p_mai: &'static Table,
    pub vop3p_scaled: &'static Table,
    pub vopd: &'static Table,
    pub ds: &'static Table,
    pub flat: &'static Table,
    pub global: &'static Table,
    pub scratch: &'static Table,
    pub mubuf: &'static Table,
}

#[cfg(test)]
impl Tables {
    /// The tables by format.
    pub fn formats(&self) -> [(&'static str, &'static Table); 19] {
        [
            ("SOP1", self.sop1),
            ("SOP2", self.sop2),
            ("SOPK", self.sopk),
            ("SOPC", self.sopc),
            ("SOPP", self.sopp),
            ("SMEM", self.smem),
            ("VOP1", self.vop1),
            ("VOP2", self.vop2),
            ("VOPC", self.vopc),
            ("VOP3", self.vop3),
            ("VOP3P", self.vop3p),
            ("VOP3P-MAI", self.vop3p_mai),
            ("VOP3P scaled", self.vop3p_scaled),
            ("VOPD", self.vopd),
            ("DS", self.ds),
            ("FLAT", self.flat),
            ("GLOBAL", self.global),
            ("SCRATCH", self.scratch),
            ("MUBUF", self.mubuf),
        ]
    }
}

/// Names that immediates stand for; an empty one has none.
pub(crate) struct Names {
    /// Hardware registers of `s_getreg_b32`.
    pub hardware_registers: &'static [&'static str],
    /// Messages of `s_sendmsg`.
    pub messages: &'static [&'static str],
    /// Messages that return something, from [`RETURNING_MESSAGES`] on.
    pub returning_messages: &'static [&'static str],
    /// Whether a bit of `s_waitcnt_depctr` is `depctr_hold_cnt`.
    pub hold_count: bool,
}

/// The first message that returns something.
pub(crate) const RETURNING_MESSAGES: usize = 128;
