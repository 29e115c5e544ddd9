//! Encodings that mean nothing.

mod common;

use common::bytes;
use rocfire_arch::Arch;
use rocfire_isa::{DecodeError, decode};

/// First words (and what follows) that are no instruction of gfx942, with the reason.
const INVALID: &[(&[u32], &str)] = &[
    (&[0x9a80_0000], "unknown opcode"),                       // SOP2 opcode 0x35
    (&[0xbe80_3800], "unknown opcode"),                       // SOP1 opcode 0x38
    (&[0xbf14_0000], "unknown opcode"),                       // SOPC opcode 0x14
    (&[0xbf9f_0000], "unknown opcode"),                       // SOPP opcode 0x1f
    (&[0xb980_0000], "unknown opcode"),                       // SOPK opcode 0x13
    (&[0xc034_0000, 0], "unknown opcode"),                    // SMEM opcode 0x0d
    (&[0x2c00_0000], "unknown opcode"),                       // VOP2 opcode 0x16
    (&[0x7e00_1200], "unknown opcode"),                       // VOP1 opcode 0x09
    (&[0x7c00_0000], "unknown opcode"),                       // VOPC opcode 0x00
    (&[0xd1c1_0000, 0], "unknown opcode"),                    // VOP3 opcode 0x1c1, v_mad_f32 elsewhere
    (&[0xd3d4_0000, 0], "unknown opcode"),                    // VOP3P opcode 0x54, v_mfma_i32_32x32x8i8 of gfx908
    (&[0xd82c_0000, 0], "unknown opcode"),                    // DS opcode 0x16
    (&[0xdc04_8000, 0], "unknown opcode"),                    // GLOBAL opcode 0x01
    (&[0xe0a8_0000, 0], "unknown opcode"),                    // MUBUF opcode 0x2a
    (&[0xd400_0000, 0], "interpolation belongs to graphics"), // VINTRP
    (&[0xe800_0000, 0], "typed buffer instructions belong to graphics"), // MTBUF
    (&[0xf000_0000, 0], "image instructions belong to graphics"), // MIMG
    (&[0xc400_0000, 0], "exports belong to graphics"),        // EXP
    (&[0xdc50_c000, 0], "reserved segment"),                  // FLAT segment 3
    (&[0x8000_00d1], "reserved source"),                      // s_add_u32 with source 209
    (&[0x8000_007d], "no such scalar register"),              // source 125 is null on RDNA only
    (&[0xbe81_0100], "no such scalar register"),              // s_mov_b64 s[1:2]
    (&[0xc00a_0080, 0], "no such scalar register"),           // s_load_dwordx4 to s2
    (&[0x8000_00fe], "operand does not accept this source"),  // s_add_u32 of LDS direct
    (&[0x7e00_0401], "operand does not accept this source"),  // v_readfirstlane_b32 of a scalar
    (&[0x7e00_3101, 0], "vector register tuple starts at an odd register"), // v_ceil_f64 v[1:2] as source
    (&[0xdc7c_8000, 0x007f_fe00], "vector register tuple runs past the last register"), // four from v254
    (&[0xd280_0000, 0x0000_00ff], "format has no literal"),   // v_add_f64 with a literal
    (&[0x0200_00f9, 0x0606_0700], "reserved sub-dword select"), // dst_sel 7
    (&[0x0200_00f9, 0x0606_1e00], "reserved treatment of unused bits"), // dst_unused 3
    (&[0x0800_00f9, 0x0606_0600], "operation has no sub-dword form"), // v_fmac_f64
    (&[0x7c82_00fa, 0xff01_1100], "operation has no lane-swizzle form"), // VOPC has none on this line
    (&[0x0200_00fa, 0xff01_4400], "reserved lane swizzle"),   // dpp_ctrl 0x144
    (&[0x0200_00fa, 0xff01_6000], "reserved lane swizzle"),   // dpp_ctrl 0x160: row_xmask is RDNA's
];

#[test]
fn invalid_encodings_are_errors_that_name_the_word() {
    for &(words, expected) in INVALID {
        match decode(Arch::parse("gfx942").unwrap(), &bytes(words)) {
            Err(DecodeError::Invalid { arch: "gfx942", word, reason }) => {
                assert_eq!((word, reason), (words[0], expected), "{words:08x?}");
            }
            other => panic!("{words:08x?} should be invalid ({expected}), got {other:?}"),
        }
    }
}

#[test]
fn an_architecture_without_tables_is_unsupported() {
    let arch = Arch::parse("gfx1250").unwrap();
    assert_eq!(decode(arch, &[0; 8]), Err(DecodeError::Unsupported { arch: "gfx1250" }));
}
