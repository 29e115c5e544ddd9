//! The 64-byte kernel descriptor: what the hardware is told about a kernel before its first instruction.
//!
//! Layout and meaning from LLVM's "User Guide for AMDGPU Backend", sections "Kernel Descriptor" and "Initial Kernel
//! Execution State". It says which values wait in which registers; [`launch`](crate::launch) puts them there.

use rocfire_arch::Family;

/// Size of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = 64;

/// A scalar value that the hardware puts into registers before a kernel starts, in the order of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserValue {
    /// Four registers: a resource descriptor of scratch, for targets that reach it through MUBUF.
    PrivateSegmentBuffer,
    /// Two: address of the dispatch packet.
    DispatchPtr,
    /// Two: address of the queue. Zero here.
    QueuePtr,
    /// Two: address of the kernel arguments.
    KernargPtr,
    /// Two: number of the dispatch. Zero here.
    DispatchId,
    /// Two: base of scratch. Zero here.
    FlatScratchInit,
    /// One: scratch bytes of a lane.
    PrivateSegmentSize,
}

impl UserValue {
    /// In the order of `kernel_code_properties` bits, which is the order of the registers.
    const ALL: [UserValue; 7] = [
        UserValue::PrivateSegmentBuffer,
        UserValue::DispatchPtr,
        UserValue::QueuePtr,
        UserValue::KernargPtr,
        UserValue::DispatchId,
        UserValue::FlatScratchInit,
        UserValue::PrivateSegmentSize,
    ];

    /// How many registers it takes.
    pub(crate) fn registers(self) -> u16 {
        match self {
            UserValue::PrivateSegmentBuffer => 4,
            UserValue::PrivateSegmentSize => 1,
            UserValue::DispatchPtr
            | UserValue::QueuePtr
            | UserValue::KernargPtr
            | UserValue::DispatchId
            | UserValue::FlatScratchInit => 2,
        }
    }
}

/// A decoded descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    /// Static LDS.
    pub(crate) lds_bytes: u32,
    /// Scratch of a lane.
    pub(crate) scratch_bytes: u32,
    /// Whether calls may need more scratch than that.
    pub(crate) dynamic_stack: bool,
    /// The entry, from the descriptor's own address.
    pub(crate) entry_offset_bytes: i64,
    /// Vector registers of both kinds that it asks for: may be more than there are.
    pub(crate) wanted_vgprs: u32,
    /// VGPRs, and after them accumulation registers.
    pub(crate) vgprs: u32,
    /// See `vgprs`.
    pub(crate) agprs: u32,
    /// MODE at the start, laid out as the register.
    pub(crate) mode: u32,
    /// User registers in all.
    pub(crate) user_sgprs: u16,
    /// What stands in the first of them.
    pub(crate) user_values: Vec<UserValue>,
    /// First dword and number of dwords of the kernel arguments that follow them.
    pub(crate) preload: (u16, u16),
    /// Whether the workgroup's x, y and z follow.
    pub(crate) workgroup_id: [bool; 3],
    /// Whether the workgroup's place is in trap registers instead (RDNA 4): x in `ttmp9`, y and z in the halves of `ttmp7`.
    pub(crate) workgroup_id_in_ttmp: bool,
    /// Vector registers that a work-item's place takes: one with ten bits for each dimension, or one for each of the first
    /// dimensions.
    pub(crate) work_item_id: WorkItemId,
    /// Whether the dispatch's information follows.
    pub(crate) workgroup_info: bool,
    /// Whether the waves of a workgroup may run on several compute units, whose caches do not see each other's stores at
    /// once: WGP_MODE of the RDNA line, TG_SPLIT from CDNA 2 on.
    pub(crate) spread: bool,
}

/// Where a lane finds its place in the workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkItemId {
    /// In `v0`: x in bits 9..0, y in 19..10, z in 29..20.
    Packed,
    /// In so many registers from `v0` on, x first.
    Registers(usize),
}

impl WorkItemId {
    /// Registers that it takes.
    pub(crate) fn registers(self) -> usize {
        match self {
            WorkItemId::Packed => 1,
            WorkItemId::Registers(count) => count,
        }
    }
}

/// What differs between families in how a descriptor is read.
struct Conventions {
    /// Vector registers are allocated, and counted, in so many.
    vgpr_granule: u32,
    /// Accumulation registers are the upper part of one file.
    unified: bool,
    packed_work_item_id: bool,
    workgroup_id_in_ttmp: bool,
    /// The bits for DX10_CLAMP and IEEE in MODE exist; without them NaN is always clamped to 0, and signalling NaNs are
    /// quieted.
    clamp_and_ieee: bool,
}

impl Conventions {
    fn of(family: Family, wave_size: u32) -> Conventions {
        let oldest = Conventions {
            vgpr_granule: 4,
            unified: false,
            packed_work_item_id: false,
            workgroup_id_in_ttmp: false,
            clamp_and_ieee: true,
        };
        let rdna = Conventions { vgpr_granule: if wave_size == 32 { 8 } else { 4 }, ..oldest };
        match family {
            Family::Gcn5 | Family::Cdna1 | Family::Ampere | Family::Ada | Family::Hopper => oldest,
            Family::Cdna2 | Family::Cdna3 | Family::Cdna4 => {
                Conventions { vgpr_granule: 8, unified: true, packed_work_item_id: true, ..oldest }
            }
            Family::Rdna1 | Family::Rdna2 => rdna,
            Family::Rdna3 | Family::Rdna35 => Conventions { packed_work_item_id: true, ..rdna },
            Family::Rdna4 | Family::Gfx125 => {
                Conventions { packed_work_item_id: true, workgroup_id_in_ttmp: true, clamp_and_ieee: false, ..rdna }
            }
        }
    }
}

/// DX10_CLAMP and IEEE in MODE.
const CLAMP_AND_IEEE: u32 = 1 << 8 | 1 << 9;

impl Descriptor {
    /// How many scalar registers hold something when a kernel starts.
    pub(crate) fn initial_sgprs(&self) -> u16 {
        let values: u16 = self.user_values.iter().map(|value| value.registers()).sum();
        (values + self.preload.1).max(self.user_sgprs) + 4
    }

    /// Decodes the bytes of a descriptor of a kernel for `family` and waves of `wave_size` lanes.
    pub(crate) fn new(bytes: &[u8; DESCRIPTOR_BYTES], family: Family, wave_size: u32) -> Descriptor {
        let conventions = Conventions::of(family, wave_size);
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (rsrc3, rsrc1, rsrc2) = (u32_at(44), u32_at(48), u32_at(52));
        let (properties, preload) = (u16_at(56), u16_at(58));
        let registers = ((rsrc1 & 63) + 1) * conventions.vgpr_granule;
        // ACCUM_OFFSET is counted in fours.
        let vgprs = if conventions.unified { (((rsrc3 & 63) + 1) * 4).min(registers) } else { registers.min(256) };
        // Before GFX90A, accumulation registers are a file of the same size.
        let agprs = match (conventions.unified, family) {
            (true, _) => registers - vgprs,
            (false, Family::Cdna1) => vgprs,
            (false, _) => 0,
        };
        let mode = rsrc1 >> 12 & 0xff
            | if conventions.clamp_and_ieee { (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9 } else { CLAMP_AND_IEEE };
        let mut entry = [0; 8];
        entry.copy_from_slice(&bytes[16..24]);
        Descriptor {
            lds_bytes: u32_at(0),
            scratch_bytes: u32_at(4),
            dynamic_stack: properties >> 11 & 1 != 0,
            entry_offset_bytes: i64::from_le_bytes(entry),
            wanted_vgprs: registers,
            vgprs,
            agprs,
            mode,
            user_sgprs: (rsrc2 >> 1 & 31) as u16,
            user_values: (0..7).filter(|bit| properties >> bit & 1 != 0).map(|bit| UserValue::ALL[bit]).collect(),
            preload: (preload >> 7, preload & 127),
            workgroup_id: [7, 8, 9].map(|bit| rsrc2 >> bit & 1 != 0),
            workgroup_id_in_ttmp: conventions.workgroup_id_in_ttmp,
            work_item_id: match conventions.packed_work_item_id {
                true => WorkItemId::Packed,
                false => WorkItemId::Registers((rsrc2 >> 11 & 3).min(2) as usize + 1),
            },
            workgroup_info: rsrc2 >> 10 & 1 != 0,
            spread: if family.is_rdna() { rsrc1 >> 29 & 1 != 0 } else { conventions.unified && rsrc3 >> 16 & 1 != 0 },
        }
    }
}
