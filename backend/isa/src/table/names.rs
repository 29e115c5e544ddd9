//! Names of hardware registers and messages, by number; gaps have no name.
//!
//! Facts, taken by printing every number with LLVM 22's disassembler.

use super::row::Names;

/// From GFX9 on.
pub(super) static GFX9: Names =
    Names { hardware_registers: HW9, messages: MSG9, returning_messages: &[], hold_count: false };

/// From GFX940 on.
pub(super) static GFX940: Names =
    Names { hardware_registers: HW940, messages: MSG9, returning_messages: &[], hold_count: false };

/// From GFX1010 on.
pub(super) static GFX1010: Names =
    Names { hardware_registers: HW1010, messages: MSG10, returning_messages: &[], hold_count: false };

/// From GFX1030 on.
pub(super) static GFX1030: Names =
    Names { hardware_registers: HW1030, messages: MSG10, returning_messages: &[], hold_count: true };

/// From GFX11 on.
pub(super) static GFX11: Names =
    Names { hardware_registers: HW11, messages: MSG11, returning_messages: RTN11, hold_count: true };

/// From GFX12 on.
pub(super) static GFX12: Names =
    Names { hardware_registers: HW12, messages: MSG12, returning_messages: RTN12, hold_count: true };

/// Hardware registers.
const HW9: &[&str] = &[
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
];

/// Hardware registers.
const HW940: &[&str] = &[
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

/// Hardware registers.
const HW1010: &[&str] = &[
    "",
    "HW_REG_MODE",
    "HW_REG_STATUS",
    "HW_REG_TRAPSTS",
    "",
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
    "HW_REG_FLAT_SCR_LO",
    "HW_REG_FLAT_SCR_HI",
    "HW_REG_XNACK_MASK",
    "HW_REG_HW_ID1",
    "HW_REG_HW_ID2",
    "HW_REG_POPS_PACKER",
];

/// Hardware registers.
const HW1030: &[&str] = &[
    "",
    "HW_REG_MODE",
    "HW_REG_STATUS",
    "HW_REG_TRAPSTS",
    "",
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
    "HW_REG_FLAT_SCR_LO",
    "HW_REG_FLAT_SCR_HI",
    "",
    "HW_REG_HW_ID1",
    "HW_REG_HW_ID2",
    "HW_REG_POPS_PACKER",
    "",
    "",
    "",
    "HW_REG_SHADER_CYCLES",
];

/// Hardware registers.
const HW11: &[&str] = &[
    "",
    "HW_REG_MODE",
    "HW_REG_STATUS",
    "HW_REG_TRAPSTS",
    "",
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
    "",
    "",
    "HW_REG_PERF_SNAPSHOT_PC_LO",
    "HW_REG_PERF_SNAPSHOT_PC_HI",
    "HW_REG_FLAT_SCR_LO",
    "HW_REG_FLAT_SCR_HI",
    "",
    "HW_REG_HW_ID1",
    "HW_REG_HW_ID2",
    "",
    "",
    "HW_REG_PERF_SNAPSHOT_DATA",
    "",
    "HW_REG_SHADER_CYCLES",
];

/// Hardware registers.
const HW12: &[&str] = &[
    "",
    "HW_REG_WAVE_MODE",
    "HW_REG_WAVE_STATUS",
    "",
    "HW_REG_WAVE_STATE_PRIV",
    "HW_REG_WAVE_GPR_ALLOC",
    "HW_REG_WAVE_LDS_ALLOC",
    "HW_REG_IB_STS",
    "",
    "",
    "HW_REG_PERF_SNAPSHOT_DATA",
    "HW_REG_PERF_SNAPSHOT_PC_LO",
    "HW_REG_PERF_SNAPSHOT_PC_HI",
    "",
    "",
    "HW_REG_PERF_SNAPSHOT_DATA1",
    "HW_REG_PERF_SNAPSHOT_DATA2",
    "HW_REG_WAVE_EXCP_FLAG_PRIV",
    "HW_REG_WAVE_EXCP_FLAG_USER",
    "HW_REG_WAVE_TRAP_CTRL",
    "HW_REG_WAVE_SCRATCH_BASE_LO",
    "HW_REG_WAVE_SCRATCH_BASE_HI",
    "",
    "HW_REG_WAVE_HW_ID1",
    "HW_REG_WAVE_HW_ID2",
    "",
    "HW_REG_WAVE_SCHED_MODE",
    "",
    "",
    "HW_REG_SHADER_CYCLES_LO",
    "HW_REG_SHADER_CYCLES_HI",
    "HW_REG_WAVE_DVGPR_ALLOC_LO",
    "HW_REG_WAVE_DVGPR_ALLOC_HI",
];

/// Messages.
const MSG9: &[&str] = &[
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

/// Messages.
const MSG10: &[&str] = &[
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
    "MSG_GET_DDID",
    "",
    "",
    "",
    "MSG_SYSMSG",
];

/// Messages.
const MSG11: &[&str] = &[
    "",
    "MSG_INTERRUPT",
    "MSG_HS_TESSFACTOR",
    "MSG_DEALLOC_VGPRS",
    "",
    "MSG_STALL_WAVE_GEN",
    "MSG_HALT_WAVES",
    "",
    "",
    "MSG_GS_ALLOC_REQ",
];

/// Messages.
const MSG12: &[&str] =
    &["", "MSG_INTERRUPT", "MSG_HS_TESSFACTOR", "MSG_DEALLOC_VGPRS", "", "", "", "", "", "MSG_GS_ALLOC_REQ"];

/// Messages that return something.
const RTN11: &[&str] = &[
    "MSG_RTN_GET_DOORBELL",
    "MSG_RTN_GET_DDID",
    "MSG_RTN_GET_TMA",
    "MSG_RTN_GET_REALTIME",
    "MSG_RTN_SAVE_WAVE",
    "MSG_RTN_GET_TBA",
    "MSG_RTN_GET_TBA_TO_PC",
];

/// Messages that return something.
const RTN12: &[&str] = &[
    "MSG_RTN_GET_DOORBELL",
    "MSG_RTN_GET_DDID",
    "MSG_RTN_GET_TMA",
    "MSG_RTN_GET_REALTIME",
    "MSG_RTN_SAVE_WAVE",
    "MSG_RTN_GET_TBA",
    "MSG_RTN_GET_TBA_TO_PC",
    "MSG_RTN_GET_SE_AID_ID",
];
