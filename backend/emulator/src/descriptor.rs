//! The 64-byte kernel descriptor: what the hardware is told about a kernel before its first instruction.
//!
//! Layout and meaning from LLVM's "User Guide for AMDGPU Backend", sections "Kernel Descriptor" and "Initial Kernel
//! Execution State". It says which values wait in which registers; [`launch`](crate::launch) puts them there.

/// Size of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = 64;

/// A scalar value that the hardware puts into registers before a kernel starts, in the order of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserValue {
    /// Four registers: a resource descriptor of scratch. Zero here: targets with flat scratch do not use it.
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
    /// Whether the dispatch's information follows.
    pub(crate) workgroup_info: bool,
}

impl Descriptor {
    /// How many scalar registers hold something when a kernel starts.
    pub(crate) fn initial_sgprs(&self) -> u16 {
        let values: u16 = self.user_values.iter().map(|value| value.registers()).sum();
        (values + self.preload.1).max(self.user_sgprs) + 4
    }

    /// Decodes the bytes of a descriptor.
    pub(crate) fn new(bytes: &[u8; DESCRIPTOR_BYTES]) -> Descriptor {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (rsrc3, rsrc1, rsrc2) = (u32_at(44), u32_at(48), u32_at(52));
        let (properties, preload) = (u16_at(56), u16_at(58));
        // Counted in eights; ACCUM_OFFSET in fours. As on GFX90A and later, where the two files are one.
        let registers = ((rsrc1 & 63) + 1) * 8;
        let vgprs = (((rsrc3 & 63) + 1) * 4).min(registers);
        let mut entry = [0; 8];
        entry.copy_from_slice(&bytes[16..24]);
        Descriptor {
            lds_bytes: u32_at(0),
            scratch_bytes: u32_at(4),
            dynamic_stack: properties >> 11 & 1 != 0,
            entry_offset_bytes: i64::from_le_bytes(entry),
            vgprs,
            agprs: registers - vgprs,
            mode: rsrc1 >> 12 & 0xff | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9,
            user_sgprs: (rsrc2 >> 1 & 31) as u16,
            user_values: (0..7).filter(|bit| properties >> bit & 1 != 0).map(|bit| UserValue::ALL[bit]).collect(),
            preload: (preload >> 7, preload & 127),
            workgroup_id: [7, 8, 9].map(|bit| rsrc2 >> bit & 1 != 0),
            workgroup_info: rsrc2 >> 10 & 1 != 0,
        }
    }
}
