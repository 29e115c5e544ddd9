//! What a decoded instruction is: an operation, its operands and its modifiers.
//!
//! The operation ([`Op`](crate::Op)) does not depend on the encoding: `v_add_f32` is one `Op` whether it came as VOP2,
//! VOP3, SDWA or DPP; what the encodings add is in [`Modifiers`]. Used by the emulator, the disassembler and the
//! filetests. It says nothing about what an instruction does: that is the emulator's.

use crate::Op;
use rocfire_arch::Arch;

/// The encoding an instruction was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are AMD's own.
pub enum Format {
    Sop1,
    Sop2,
    Sopk,
    Sopc,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Vop3pMai,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
}

/// A register, an inline constant or a literal, with its width in 32-bit registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// What it is.
    pub kind: OperandKind,
    /// How many consecutive 32-bit registers it covers; for a constant, the width that the operation reads.
    /// 16-bit operands have width 1.
    pub dwords: u8,
}

/// What an operand names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OperandKind {
    /// No operand in this place.
    None,
    /// Vector register `v[n]`.
    Vgpr(u16),
    /// Accumulation register `a[n]`.
    Agpr(u16),
    /// Scalar register `s[n]`.
    Sgpr(u16),
    /// Low or high half of VCC by index 0 or 1; with `dwords == 2`, index 0, the whole.
    Vcc(u8),
    /// Low or high half of EXEC by index 0 or 1.
    Exec(u8),
    /// M0.
    M0,
    /// Trap temporary `ttmp[n]`.
    Ttmp(u8),
    /// `flat_scratch_lo`/`hi`, where the family has it.
    FlatScratch(u8),
    /// `xnack_mask_lo`/`hi`, where the family has it.
    XnackMask(u8),
    /// The constant that reads as zero and drops what is written to it (RDNA).
    Null,
    /// Shared and private aperture base and limit: 0 `src_shared_base`, 1 `src_shared_limit`, 2 `src_private_base`,
    /// 3 `src_private_limit`.
    Aperture(u8),
    /// VCCZ as a source.
    Vccz,
    /// EXECZ as a source.
    Execz,
    /// SCC as a source.
    Scc,
    /// LDS direct read through M0.
    LdsDirect,
    /// Inline integer −16 … 64.
    Int(i8),
    /// Inline float: one of 0.5, −0.5, 1, −1, 2, −2, 4, −4, or 1/(2π); its value as the operation's type is the
    /// emulator's affair.
    Float(InlineFloat),
    /// The 32-bit literal that follows the instruction.
    Literal(u32),
    /// An immediate field of the encoding (SIMM16 of SOPK and SOPP, sign-extended where the operation says so).
    Imm(i32),
}

/// The inline floating-point constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum InlineFloat {
    Half,
    MinusHalf,
    One,
    MinusOne,
    Two,
    MinusTwo,
    Four,
    MinusFour,
    /// 1/(2π) in the precision of the operand.
    InvTwoPi,
}

/// Sub-dword select of SDWA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SdwaSel {
    Byte0,
    Byte1,
    Byte2,
    Byte3,
    Word0,
    Word1,
    Dword,
}

/// What SDWA does with the bits of the destination that the result does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SdwaUnused {
    Pad,
    Sext,
    Preserve,
}

/// The SDWA fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdwa {
    /// Where the result goes.
    pub dst_sel: SdwaSel,
    /// What becomes of the rest.
    pub dst_unused: SdwaUnused,
    /// Which part of each source is read.
    pub src_sel: [SdwaSel; 2],
    /// Whether that part is sign-extended.
    pub src_sext: [bool; 2],
}

/// The DPP fields of a row-based swizzle (`dpp_ctrl` and masks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dpp {
    /// `dpp_ctrl`, as encoded (ISA table "DPP_CTRL enumeration").
    pub ctrl: u16,
    /// Rows of 16 lanes that write.
    pub row_mask: u8,
    /// Banks of 4 lanes within a row that write.
    pub bank_mask: u8,
    /// `bound_ctrl:0`: an out-of-range source reads as zero instead of keeping the old destination.
    pub bound_ctrl: bool,
    /// `fi`: lanes switched off may be read (RDNA).
    pub fetch_inactive: bool,
}

/// The DPP8 fields: a permutation within each group of eight lanes (RDNA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dpp8 {
    /// For each lane of the group, the lane it reads, 0 … 7.
    pub lanes: [u8; 8],
    /// `fi`: lanes switched off may be read.
    pub fetch_inactive: bool,
}

/// The scales of a scaled matrix multiplication (`v_mfma_scale_…`): registers with a biased exponent in each byte. Which
/// byte of `a` is used says bit 0 of `op_sel` plus twice bit 0 of `op_sel_hi`; of `b`, bits 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixScale {
    /// Scales of `src[0]`.
    pub a: Operand,
    /// Scales of `src[1]`.
    pub b: Operand,
}

/// Lanes of a wave, on which the width of lane masks (VCC, EXEC, what compares write) depends. The RDNA line has both and
/// a kernel's descriptor says which it was compiled for; everything before has 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum WaveSize {
    Wave32,
    Wave64,
}

impl WaveSize {
    /// The size that our kernels are compiled for on `arch`.
    pub fn usual(arch: Arch) -> WaveSize {
        match arch.info().wave_size {
            32 => WaveSize::Wave32,
            _ => WaveSize::Wave64,
        }
    }

    /// 32-bit registers that a mask of the wave's lanes takes.
    pub fn mask_dwords(self) -> u8 {
        match self {
            WaveSize::Wave32 => 1,
            WaveSize::Wave64 => 2,
        }
    }
}

/// Everything an encoding says beyond operation and operands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Modifiers {
    /// Source negation, bit i for source i (VOP3, SDWA, DPP, f64 MFMA; VOP3P: of the low half). `v_bitop3`: the truth table
    /// is `omod << 6 | abs << 3 | neg`.
    pub neg: u8,
    /// Source absolute value, bit i (VOP3, SDWA, DPP, `v_fma_mix*`; other VOP3P: negation of the high half, `neg_hi`).
    pub abs: u8,
    /// Output multiplier: 0 none, 1 ×2, 2 ×4, 3 ÷2.
    pub omod: u8,
    /// Clamp the result.
    pub clamp: bool,
    /// `op_sel`, bit i for source i, bit 3 for the destination (VOP3 of 16-bit operations, VOP3P low halves). RDNA 3's
    /// 32-bit formats name halves of registers (`v1.h`): that is here too, as VOP3 would say it. `v_bitop3`: see `neg`.
    /// `v_cvt_sr_fp8_f32` and `bf8`: bits 2 and 3 number the destination's byte. Sparse WMMA: part of the index.
    pub op_sel: u8,
    /// `op_sel_hi` of VOP3P, bit i for source i.
    pub op_sel_hi: u8,
    /// MFMA: `cbsz`, `abid`, `blgp`.
    pub cbsz: u8,
    /// MFMA: `abid`.
    pub abid: u8,
    /// MFMA: `blgp`.
    pub blgp: u8,
    /// SDWA fields.
    pub sdwa: Option<Sdwa>,
    /// DPP fields.
    pub dpp: Option<Dpp>,
    /// Memory: byte offset, sign-extended as the format says; DS: `offset0 | offset1 << 8` or the 16-bit offset.
    pub offset: i32,
    /// Memory: SC0 (GLC before gfx940 and on RDNA): for an atomic, return the old value.
    pub sc0: bool,
    /// Memory: SC1 (SCC before gfx940).
    pub sc1: bool,
    /// Memory: NT (SLC before gfx940 and on RDNA 1 to 3).
    pub nt: bool,
    /// Memory: the data goes to LDS instead of a register.
    pub lds: bool,
    /// DS: global data share.
    pub gds: bool,
    /// MUBUF: `offen`. SMEM: an offset beside a register is part of the text, be it 0.
    pub offen: bool,
    /// MUBUF: `idxen`.
    pub idxen: bool,
    /// DPP8 fields (RDNA).
    pub dpp8: Option<Dpp8>,
    /// The scales of `v_mfma_scale_…` (gfx950).
    pub scale: Option<MatrixScale>,
    /// Memory: DLC (RDNA 1 to 3).
    pub dlc: bool,
    /// Memory: temporal hint (RDNA 4); `sc0` holds the bit of it by which an atomic returns the old value.
    pub th: u8,
    /// Memory: scope of coherence (RDNA 4): 0 compute unit, 1 shader engine, 2 device, 3 system.
    pub scope: u8,
}

impl Modifiers {
    /// Nothing modified: what `default` gives, for constants.
    pub const NONE: Modifiers = Modifiers {
        neg: 0,
        abs: 0,
        omod: 0,
        clamp: false,
        op_sel: 0,
        op_sel_hi: 0,
        cbsz: 0,
        abid: 0,
        blgp: 0,
        sdwa: None,
        dpp: None,
        offset: 0,
        sc0: false,
        sc1: false,
        nt: false,
        lds: false,
        gds: false,
        offen: false,
        idxen: false,
        dpp8: None,
        scale: None,
        dlc: false,
        th: 0,
        scope: 0,
    };
}

/// One decoded instruction.
///
/// Operands stand in the order of AMD's assembly text.
///
/// - `dst[0]` is the result (`vdst`, `sdst`), and the destination of a load. An atomic has it only if `sc0` asks for the old value.
/// - `dst[1]` is the second result where there is one: the carry-out or `sdst` of VOP3B and of the VOP2 carry operations. It is
///   given even where the encoding implies VCC. `v_swap_b32` has its source there too.
/// - `src` are the sources, with those that are implied: the carry-in VCC of `v_addc_co_u32_e32`, VCC of `v_cndmask_b32_e32` and of
///   `v_div_fmas` (its `src[3]`). SCC, M0 and EXEC are not among them.
/// - VOPC writes `dst[0]`, VCC when implied. What `v_cmpx_…` writes on RDNA is EXEC, in `dst[0]`.
/// - Vector memory: `src[0]` is the address and `src[1]` the data. `src[2]` is the scalar base `saddr` in the FLAT family, the
///   resource descriptor in MUBUF, with `src[3]` the scalar offset.
/// - DS: `src[0]` is the address, `src[1]` data0 and `src[2]` data1.
/// - SMEM: `src[0]` is the base, `src[1]` a scalar offset if present, `src[2]` the data of a store or an atomic.
/// - SOPK: what is compared or written to a hardware register is the first source. The immediate stands where the text has it
///   (`s_setreg_b32`: in `dst[0]`).
/// - Operations that update their destination (`v_fmac_f32`, `s_addk_i32`, `v_smfmac…`) do not repeat it among the sources.
///
/// An absent address (`off`) is [`Operand::NONE`]. A scratch access may have no address, a vector one, a scalar one, or both. A
/// global access has a 64-bit `src[0]`, or a 32-bit one beside its `saddr`. A scalar offset or address that is `null` is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inst {
    /// What is done.
    pub op: Op,
    /// The encoding it came from.
    pub format: Format,
    /// Bytes of the encoding, literal included: 4, 8 or 12, and 16 for `v_mfma_scale_…`.
    pub bytes: u8,
    /// Results.
    pub dst: [Operand; 2],
    /// Sources.
    pub src: [Operand; 4],
    /// The rest.
    pub mods: Modifiers,
}

/// What stands at an address: one instruction, or the two operations of RDNA's VOPD (`v_dual_… :: v_dual_…`).
///
/// Each half of a pair is the VOP1 or VOP2 instruction that it stands for: `v_dual_add_f32` is a `v_add_f32`. Both have the
/// whole pair's length in `bytes`. The second reads its sources before the first writes its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoded {
    /// The instruction, or the first operation of a pair.
    pub first: Inst,
    /// The second operation of a pair.
    pub second: Option<Inst>,
}

impl Decoded {
    /// Bytes of the encoding.
    pub fn bytes(&self) -> u8 {
        self.first.bytes
    }
}

impl Operand {
    /// The absent operand.
    pub const NONE: Operand = Operand { kind: OperandKind::None, dwords: 0 };

    /// Whether there is an operand in this place.
    pub fn is_some(&self) -> bool {
        self.kind != OperandKind::None
    }
}
