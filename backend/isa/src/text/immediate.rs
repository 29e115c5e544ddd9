//! Immediate fields as text, with the names of messages and hardware registers.

use crate::table::row::Immediate;

/// Numbers that are written in decimal, as AMD writes those that are inline constants elsewhere.
const DECIMAL: std::ops::RangeInclusive<i32> = -16..=64;

/// Hardware registers by number; gaps are written as numbers.
const HARDWARE_REGISTERS: [&str; 25] = [
    "",
    "HW_REG_MODE",
    "HW_REG_STATUS",
    "HW_REG_TRAPSTS",
    "HW_REG_HW_ID",
    "HW_REG_GPR_ALLOC",
    "HW_REG_LDS_ALLOC",
    "HW_REG_IB_STS",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "HW_REG_SH_MEM_BASES",
    "HW_REG_TBA_LO",
    "HW_REG_TBA_HI",
    "HW_REG_TMA_LO",
    "HW_REG_TMA_HI",
    "HW_REG_XCC_ID",
    "HW_REG_SQ_PERF_SNAPSHOT_DATA",
    "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
    "HW_REG_SQ_PERF_SNAPSHOT_PC_LO",
    "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
];

/// Messages by number; gaps have no name.
const MESSAGES: [&str; 16] = [
    "",
    "MSG_INTERRUPT",
    "MSG_GS",
    "MSG_GS_DONE",
    "MSG_SAVEWAVE",
    "MSG_STALL_WAVE_GEN",
    "MSG_HALT_WAVES",
    "MSG_ORDERED_PS_DONE",
    "MSG_EARLY_PRIM_DEALLOC",
    "MSG_GS_ALLOC_REQ",
    "MSG_GET_DOORBELL",
    "",
    "",
    "",
    "",
    "MSG_SYSMSG",
];
const MSG_GS: usize = 2;
const MSG_GS_DONE: usize = 3;
const MSG_SYSMSG: usize = 15;
const GS_OPERATIONS: [&str; 4] = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"];
const SYSMSG_OPERATIONS: [&str; 5] = ["", "SYSMSG_OP_ECC_ERR_INTERRUPT", "SYSMSG_OP_REG_RD", "", "SYSMSG_OP_TTRACE_PC"];

/// An immediate as text.
pub(super) fn text(value: i32, what: Immediate) -> String {
    let bits = value as u32 & 0xffff;
    match what {
        Immediate::Signed | Immediate::Unsigned => format!("{bits:#x}"),
        Immediate::Count | Immediate::ProbeMode if DECIMAL.contains(&value) => value.to_string(),
        Immediate::Count | Immediate::ProbeMode => format!("{bits:#x}"),
        Immediate::CountUnlessZero if bits == 0 => String::new(),
        Immediate::CountUnlessZero | Immediate::Branch => bits.to_string(),
        Immediate::WaitCounts => wait_counts(bits),
        Immediate::Message => message(bits),
        Immediate::HardwareRegister => hardware_register(bits),
        Immediate::GprIndexing => gpr_indexing(bits),
        Immediate::Literal | Immediate::Number => format!("{value:#x}"),
    }
}

/// The counters that are waited for; a counter at its maximum waits for nothing and is left out, unless all are.
fn wait_counts(bits: u32) -> String {
    let vm = bits & 0xf | bits >> 10 & 0x30;
    let exp = bits >> 4 & 7;
    let lgkm = bits >> 8 & 0xf;
    let counters = [("vmcnt", vm, 63), ("expcnt", exp, 7), ("lgkmcnt", lgkm, 15)];
    let none = counters.iter().all(|&(_, count, max)| count == max);
    let written = counters.iter().filter(|&&(_, count, max)| none || count != max);
    written.map(|(name, count, _)| format!("{name}({count})")).collect::<Vec<_>>().join(" ")
}

/// A message by name where number, operation and stream go together, by numbers where they fit the fields, raw otherwise.
fn message(bits: u32) -> String {
    let (number, operation, stream) = ((bits & 0xf) as usize, (bits >> 4 & 7) as usize, bits >> 8 & 3);
    let name = MESSAGES[number];
    match (number, GS_OPERATIONS.get(operation), SYSMSG_OPERATIONS.get(operation)) {
        (MSG_GS, Some(gs), _) if operation != 0 => return format!("sendmsg({name}, {gs}, {stream})"),
        (MSG_GS_DONE, Some(gs), _) if operation != 0 => return format!("sendmsg({name}, {gs}, {stream})"),
        (MSG_GS_DONE, Some(gs), _) if stream == 0 => return format!("sendmsg({name}, {gs})"),
        (MSG_SYSMSG, _, Some(system)) if !system.is_empty() && stream == 0 => {
            return format!("sendmsg({name}, {system})");
        }
        (MSG_GS | MSG_GS_DONE | MSG_SYSMSG, ..) => {}
        _ if !name.is_empty() && operation == 0 && stream == 0 => return format!("sendmsg({name})"),
        _ => {}
    }
    if bits & !0x37f == 0 { format!("sendmsg({number}, {operation}, {stream})") } else { bits.to_string() }
}

fn hardware_register(bits: u32) -> String {
    let (number, offset, size) = (bits & 0x3f, bits >> 6 & 0x1f, (bits >> 11 & 0x1f) + 1);
    let name = match HARDWARE_REGISTERS.get(number as usize) {
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
