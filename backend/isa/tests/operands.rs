//! What a decoded instruction holds, beyond what its text shows: implied operands and the places of memory operands.

use rocfire_arch::Arch;
use rocfire_isa::{Format, InlineFloat, Inst, Op, Operand, OperandKind, SdwaSel, SdwaUnused, decode};

fn inst(words: &[u32]) -> Inst {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    decode(Arch::parse("gfx942").unwrap(), &bytes).unwrap()
}

fn vgpr(n: u16, dwords: u8) -> Operand {
    Operand { kind: OperandKind::Vgpr(n), dwords }
}

fn agpr(n: u16, dwords: u8) -> Operand {
    Operand { kind: OperandKind::Agpr(n), dwords }
}

fn sgpr(n: u16, dwords: u8) -> Operand {
    Operand { kind: OperandKind::Sgpr(n), dwords }
}

fn imm(value: i32) -> Operand {
    Operand { kind: OperandKind::Imm(value), dwords: 1 }
}

const VCC: Operand = Operand { kind: OperandKind::Vcc(0), dwords: 2 };
const NONE: Operand = Operand::NONE;

#[test]
fn carry_and_select_name_vcc() {
    // v_addc_co_u32_e32 v1, vcc, v2, v3, vcc
    let add = inst(&[0x3802_0702]);
    assert_eq!((add.op, add.format, add.dst), (Op::VAddcCoU32, Format::Vop2, [vgpr(1, 1), VCC]));
    assert_eq!(add.src, [vgpr(2, 1), vgpr(3, 1), VCC, NONE]);
    // v_cndmask_b32_e32 v1, v2, v3, vcc
    assert_eq!(inst(&[0x0002_0702]).src, [vgpr(2, 1), vgpr(3, 1), VCC, NONE]);
    // v_cmp_lt_f32_e32 vcc, v2, v3
    let compare = inst(&[0x7c82_0702]);
    assert_eq!((compare.dst, compare.src), ([VCC, NONE], [vgpr(2, 1), vgpr(3, 1), NONE, NONE]));
    // v_div_fmas_f32 v1, v2, v3, v4
    assert_eq!(inst(&[0xd1e2_0001, 0x0412_0702]).src, [vgpr(2, 1), vgpr(3, 1), vgpr(4, 1), VCC]);
    // v_div_scale_f32 v1, s[6:7], v2, v3, v4
    assert_eq!(inst(&[0xd1e0_0601, 0x0412_0702]).dst, [vgpr(1, 1), sgpr(6, 2)]);
}

#[test]
fn immediates_are_sign_extended_where_the_operation_says_so() {
    assert_eq!(inst(&[0xb004_8000]).src[0], imm(-32768)); // s_movk_i32 s4, 0x8000
    assert_eq!(inst(&[0xb404_8000]).src, [sgpr(4, 1), imm(0x8000), NONE, NONE]); // s_cmpk_eq_u32 s4, 0x8000
    assert_eq!(inst(&[0xb104_ffff]).src, [sgpr(4, 1), imm(-1), NONE, NONE]); // s_cmpk_eq_i32 s4, 0xffff
    assert_eq!(inst(&[0xbf82_fffe]).src[0], imm(-2)); // s_branch
    assert_eq!(inst(&[0xbf8c_c07f]).src[0], imm(0xc07f)); // s_waitcnt
}

#[test]
fn fused_literals_stand_where_the_text_has_them() {
    let literal = Operand { kind: OperandKind::Literal(0x4048_f5c3), dwords: 1 };
    assert_eq!(inst(&[0x2e02_0702, 0x4048_f5c3]).src, [vgpr(2, 1), literal, vgpr(3, 1), NONE]); // v_fmamk_f32
    assert_eq!(inst(&[0x3002_0702, 0x4048_f5c3]).src, [vgpr(2, 1), vgpr(3, 1), literal, NONE]); // v_fmaak_f32
}

#[test]
fn matrix_operands_follow_the_accumulator_bits() {
    // v_mfma_f32_32x32x8_f16 with vectors, accumulating in AGPRs
    let mixed = inst(&[0xd3cc_8000, 0x0402_1510]);
    assert_eq!((mixed.format, mixed.dst[0]), (Format::Vop3pMai, agpr(0, 16)));
    assert_eq!(mixed.src, [vgpr(16, 2), vgpr(10, 2), agpr(0, 16), NONE]);
    // the same with A and B in AGPRs, and modifiers
    let swapped = inst(&[0xd3cc_1100, 0x3c02_1510]);
    assert_eq!(swapped.src, [agpr(16, 2), agpr(10, 2), vgpr(0, 16), NONE]);
    assert_eq!((swapped.mods.cbsz, swapped.mods.abid, swapped.mods.blgp), (1, 2, 1));
    // v_accvgpr_write_b32 a3, v5 and v_accvgpr_read_b32 v5, a3
    let write = inst(&[0xd3d9_4003, 0x1800_0105]);
    assert_eq!((write.op, write.dst[0], write.src[0]), (Op::VAccvgprWriteB32, agpr(3, 1), vgpr(5, 1)));
    let read = inst(&[0xd3d8_4005, 0x1800_0103]);
    assert_eq!((read.op, read.dst[0], read.src[0]), (Op::VAccvgprReadB32, vgpr(5, 1), agpr(3, 1)));
}

#[test]
fn memory_operands_have_fixed_places() {
    // global_load_dwordx2 a[4:5], v2, s[6:7] offset:-8
    let load = inst(&[0xdc55_9ff8, 0x0486_0002]);
    assert_eq!((load.dst[0], load.src), (agpr(4, 2), [vgpr(2, 1), NONE, sgpr(6, 2), NONE]));
    assert_eq!((load.mods.offset, load.mods.sc0, load.mods.nt), (-8, true, false));
    // global_atomic_add_f32 v[2:3], v4, off: nothing returned
    let atomic = inst(&[0xdd34_8000, 0x007f_0402]);
    assert_eq!((atomic.dst[0], atomic.src), (NONE, [vgpr(2, 2), vgpr(4, 1), NONE, NONE]));
    // ds_write2_b64 v1, v[2:3], v[4:5] offset0:1 offset1:2
    let pair = inst(&[0xd89c_0201, 0x0004_0201]);
    assert_eq!((pair.src, pair.mods.offset), ([vgpr(1, 1), vgpr(2, 2), vgpr(4, 2), NONE], 0x0201));
    // scratch_load_dword v1, off, s4 offset:16, without and with a vector address
    assert_eq!(inst(&[0xdc50_4010, 0x0104_0000]).src, [NONE, NONE, sgpr(4, 1), NONE]);
    assert_eq!(inst(&[0xdc50_6010, 0x0104_0002]).src, [vgpr(2, 1), NONE, sgpr(4, 1), NONE]);
    // buffer_store_dword v4, v5, s[8:11], 0 offen offset:4
    let zero = Operand { kind: OperandKind::Int(0), dwords: 1 };
    let store = inst(&[0xe070_1004, 0x8002_0405]);
    assert_eq!((store.dst[0], store.src), (NONE, [vgpr(5, 1), vgpr(4, 1), sgpr(8, 4), zero]));
    // s_load_dwordx4 s[4:7], s[0:1], 0x10; s_load_dword s4, s[0:1], s9
    let scalar = inst(&[0xc00a_0100, 0x10]);
    assert_eq!((scalar.dst[0], scalar.src[0], scalar.src[1]), (sgpr(4, 4), sgpr(0, 2), NONE));
    assert_eq!(scalar.mods.offset, 16);
    assert_eq!(inst(&[0xc000_0100, 9]).src[1], sgpr(9, 1));
}

#[test]
fn sub_dword_and_swizzle_fields_are_kept() {
    // v_add_u16_sdwa v1, sext(v2), v3 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3 src1_sel:WORD_0
    let sdwa = inst(&[0x4c02_06f9, 0x040b_1502]);
    let fields = sdwa.mods.sdwa.unwrap();
    assert_eq!((fields.dst_sel, fields.dst_unused), (SdwaSel::Word1, SdwaUnused::Preserve));
    assert_eq!((fields.src_sel, fields.src_sext), ([SdwaSel::Byte3, SdwaSel::Word0], [true, false]));
    assert_eq!(sdwa.src, [vgpr(2, 1), vgpr(3, 1), NONE, NONE]);
    // v_add_f32_dpp v1, -v2, |v3| row_bcast:15 row_mask:0xa bank_mask:0xf bound_ctrl:1
    let dpp = inst(&[0x0202_06fa, 0xaf99_4202]);
    let fields = dpp.mods.dpp.unwrap();
    assert_eq!((fields.ctrl, fields.row_mask, fields.bank_mask, fields.bound_ctrl), (0x142, 0xa, 0xf, true));
    assert_eq!((dpp.mods.neg, dpp.mods.abs), (1, 2));
}

#[test]
fn inline_constants_are_not_registers() {
    // Code 248 is 1/(2π), next to the hardware's own registers.
    let value = inst(&[0x7e00_02f8]).src[0];
    assert_eq!(value, Operand { kind: OperandKind::Float(InlineFloat::InvTwoPi), dwords: 1 });
    assert_eq!(inst(&[0x7e00_02d0]).src[0].kind, OperandKind::Int(-16));
    assert_eq!(inst(&[0x7e00_02c0]).src[0].kind, OperandKind::Int(64));
}
