//! Immediate fields as text.

use crate::table::row::{Encoding, Immediate, Names, RETURNING_MESSAGES, Tables};

/// Numbers that are written in decimal, as AMD writes those that are inline constants elsewhere.
const DECIMAL: std::ops::RangeInclusive<i32> = -16..=64;

const MSG_GS: usize = 2;
const MSG_GS_DONE: usize = 3;
const MSG_SYSMSG: usize = 15;
const GS_OPERATIONS: [&str; 4] = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"];
const SYSMSG_OPERATIONS: [&str; 5] = ["", "SYSMSG_OP_ECC_ERR_INTERRUPT", "SYSMSG_OP_REG_RD", "", "SYSMSG_OP_TTRACE_PC"];

/// An immediate as text.
pub(super) fn text(value: i32, what: Immediate, tables: &Tables) -> String {
    let bits = value as u32 & 0xffff;
    match what {
        Immediate::Signed | Immediate::Unsigned => format!("{bits:#x}"),
        Immediate::Count | Immediate::ProbeMode | Immediate::PrefetchLength if DECIMAL.contains(&value) => {
            value.to_string()
        }
        Immediate::Count | Immediate::ProbeMode | Immediate::PrefetchLength => format!("{bits:#x}"),
        Immediate::CountUnlessZero if bits == 0 => String::new(),
        Immediate::CountUnlessZero | Immediate::Branch => bits.to_string(),
        Immediate::WaitCounts => wait_counts(bits, tables.encoding),
        Immediate::DependencyCounters => dependency_counters(bits, tables.names),
        Immediate::Delay => delay(bits),
        Immediate::Message if tables.encoding >= Encoding::Gfx11 => flat_message(bits, tables.names),
        Immediate::Message => message(bits, tables.names),
        Immediate::HardwareRegister => hardware_register(bits, tables.names),
        Immediate::GprIndexing => gpr_indexing(bits),
        Immediate::Literal | Immediate::Number => format!("{value:#x}"),
    }
}

/// Counters with their names and greatest values: those that are waited for. A counter at its maximum waits for nothing
/// and is left out, unless all are.
fn counters(counters: &[(&str, u32, u32)]) -> String {
    let none = counters.iter().all(|&(_, count, max)| count == max);
    let written = counters.iter().filter(|&&(_, count, max)| none || count != max);
    written.map(|(name, count, _)| format!("{name}({count})")).collect::<Vec<_>>().join(" ")
}

fn wait_counts(bits: u32, encoding: Encoding) -> String {
    // Bits between the counters, which nothing reads, make it a number.
    let unused = match encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => 0x3080,
        Encoding::Gfx10 => 0x80,
        Encoding::Gfx11 | Encoding::Gfx12 => 0x8,
    };
    if bits & unused != 0 {
        return format!("{bits:#x}");
    }
    let (vm, exp, lgkm, lgkm_max) = match encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => (bits & 0xf | bits >> 10 & 0x30, bits >> 4 & 7, bits >> 8 & 0xf, 15),
        Encoding::Gfx10 => (bits & 0xf | bits >> 10 & 0x30, bits >> 4 & 7, bits >> 8 & 0x3f, 63),
        Encoding::Gfx11 | Encoding::Gfx12 => (bits >> 10 & 0x3f, bits & 7, bits >> 4 & 0x3f, 63),
    };
    counters(&[("vmcnt", vm, 63), ("expcnt", exp, 7), ("lgkmcnt", lgkm, lgkm_max)])
}

/// The counters of `s_waitcnt_depctr`; bits between them make it a number.
fn dependency_counters(bits: u32, names: &Names) -> String {
    let unused = if names.hold_count { 0x60 } else { 0xe0 };
    if bits & unused != 0 {
        return format!("{bits:#x}");
    }
    // A counter at its greatest value is not written.
    let hold = if names.hold_count { bits >> 7 & 1 } else { 1 };
    counters(&[
        ("depctr_hold_cnt", hold, 1),
        ("depctr_sa_sdst", bits & 1, 1),
        ("depctr_va_vdst", bits >> 12, 15),
        ("depctr_va_sdst", bits >> 9 & 7, 7),
        ("depctr_va_ssrc", bits >> 8 & 1, 1),
        ("depctr_va_vcc", bits >> 1 & 1, 1),
        ("depctr_vm_vsrc", bits >> 2 & 7, 7),
    ])
}

/// What an instruction behind `s_delay_alu` depends on, and how many instructions behind it is the second one.
fn delay(bits: u32) -> String {
    const DEPENDENCIES: [&str; 12] = [
        "",
        "VALU_DEP_1",
        "VALU_DEP_2",
        "VALU_DEP_3",
        "VALU_DEP_4",
        "TRANS32_DEP_1",
        "TRANS32_DEP_2",
        "TRANS32_DEP_3",
        "FMA_ACCUM_CYCLE_1",
        "SALU_CYCLE_1",
        "SALU_CYCLE_2",
        "SALU_CYCLE_3",
    ];
    const SKIPS: [&str; 6] = ["", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
    let mut parts = Vec::new();
    let mut part = |field: &str, value: u32, names: &[&str], invalid: &str| match names.get(value as usize) {
        _ if value == 0 => {}
        Some(name) => parts.push(format!("{field}({name})")),
        None => parts.push(format!("{field}(/* invalid {invalid} value */)")),
    };
    part("instid0", bits & 0xf, &DEPENDENCIES, "instid");
    part("instskip", bits >> 4 & 7, &SKIPS, "instskip");
    part("instid1", bits >> 7 & 0xf, &DEPENDENCIES, "instid");
    if parts.is_empty() { "0".to_owned() } else { parts.join(" | ") }
}

/// A message by name where number, operation and stream go together, by numbers where they fit the fields, raw otherwise.
fn message(bits: u32, names: &Names) -> String {
    if bits & !0x37f != 0 {
        return bits.to_string();
    }
    let (number, operation, stream) = ((bits & 0xf) as usize, (bits >> 4 & 7) as usize, bits >> 8 & 3);
    let name = names.messages.get(number).copied().unwrap_or("");
    match (number, GS_OPERATIONS.get(operation), SYSMSG_OPERATIONS.get(operation)) {
        (MSG_GS, Some(gs), _) if operation != 0 => return format!("sendmsg({name}, {gs}, {stream})"),
        (MSG_GS_DONE, Some(gs), _) if operation != 0 => return format!("sendmsg({name}, {gs}, {stream})"),
        (MSG_GS_DONE, Some(gs), _) if stream == 0 => return format!("sendmsg({name}, {gs})"),
        (MSG_SYSMSG, _, Some(system)) if !system.is_empty() && stream == 0 => {
            return format!("sendmsg({name}, {system})");
        }
        (MSG_GS | MSG_GS_DONE | MSG_SYSMSG, ..) => {}
        _ if !name.is_empty() && bits & !0xf == 0 => return format!("sendmsg({name})"),
        _ => {}
    }
    format!("sendmsg({number}, {operation}, {stream})")
}

/// A message of GFX11 and later, which is a number of eight bits and nothing else.
fn flat_message(bits: u32, names: &Names) -> String {
    let number = (bits & 0xff) as usize;
    let name = match number.checked_sub(RETURNING_MESSAGES) {
        Some(returning) => names.returning_messages.get(returning),
        None => names.messages.get(number),
    };
    match name {
        Some(name) if !name.is_empty() && bits < 256 => format!("sendmsg({name})"),
        _ if bits < 256 => format!("sendmsg({number}, 0, 0)"),
        _ => bits.to_string(),
    }
}

fn hardware_register(bits: u32, names: &Names) -> String {
    let (number, offset, size) = (bits & 0x3f, bits >> 6 & 0x1f, (bits >> 11 & 0x1f) + 1);
    let name = match names.hardware_registers.get(number as usize) {
        Some(name) if !name.is_empty() => (*name).to_owned(),
        _ => number.to_string(),
    };
    if offset == 0 && size == 32 { format!("hwreg({name})") } else { format!("hwreg({name}, {offset}, {size})") }
}

fn gpr_indexing(bits: u32) -> String {
    if bits > 0xf {
        return format!("{bits:#x}");
    }
    let names = ["SRC0", "SRC1", "SRC2", "DST"];
    let set = names.iter().enumerate().filter(|(i, _)| bits >> i & 1 != 0).map(|(_, name)| *name);
    format!("gpr_idx({})", set.collect::<Vec<_>>().join(","))
}
