//! AQL packets: 64 bytes that say what a queue is to do next.
//!
//! The layout is HSA's ("HSA Platform System Architecture Specification", 2.9); the vendor's packets are those of AMD's
//! `hsa_ven_amd_aqlprofile.h` and `hsa_ext_amd.h`.

use rocfire_emulator::Dispatch;

/// Bytes of a packet.
pub const BYTES: usize = 64;
/// The header of a place that nothing is in.
pub const INVALID: u16 = 1;

/// Of a header, the bits that say which kind of packet it is.
const KIND_MASK: u16 = 0xff;
const VENDOR: u16 = 0;
const DISPATCH: u16 = 2;
const BARRIER_AND: u16 = 3;
const BARRIER_OR: u16 = 5;
/// Formats of the vendor's packets.
const FORMAT_COMMANDS: u8 = 1;
/// See there.
const FORMAT_BARRIER_VALUE: u8 = 2;
/// `PM4_HDR_IT_OPCODE_INDIRECT_BUFFER`: commands that stand elsewhere.
const INDIRECT_BUFFER: u32 = 0x3f;

/// How a value is compared with what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less, signed.
    Lt,
    /// Greater or equal, signed.
    Gte,
}

impl Condition {
    /// Whether it holds.
    pub fn holds(self, value: i64, reference: i64) -> bool {
        match self {
            Condition::Eq => value == reference,
            Condition::Ne => value != reference,
            Condition::Lt => value < reference,
            Condition::Gte => value >= reference,
        }
    }
}

/// What a packet asks for.
#[derive(Clone, Debug)]
pub enum Order {
    /// A kernel, by the address of its descriptor.
    Dispatch {
        /// The descriptor's address.
        kernel: u64,
        /// The numbers.
        dispatch: Dispatch,
    },
    /// To wait until all of these signals are zero; or any, if there are some.
    Barrier {
        /// Addresses of the signals.
        signals: Vec<u64>,
        /// Whether one is enough.
        any: bool,
    },
    /// To wait until a signal's value, masked, compares.
    BarrierValue {
        /// The signal's address.
        signal: u64,
        /// How.
        condition: Condition,
        /// With what.
        value: i64,
        /// Of which bits.
        mask: i64,
    },
    /// Commands for the command processor itself, so many words at an address.
    Commands {
        /// Where.
        address: u64,
        /// How many.
        words: u32,
    },
}

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// What it asks for.
    pub order: Order,
    /// The signal that is told of its end; zero for none.
    pub completion: u64,
}

/// Decodes the packet that stands at a device address.
///
/// # Errors
/// The text says what cannot be understood.
pub fn decode(bytes: &[u8; BYTES], address: u64) -> Result<Packet, String> {
    let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let order = match (u16_at(0) & KIND_MASK, bytes[2]) {
        (DISPATCH, _) => Order::Dispatch {
            kernel: u64_at(32),
            dispatch: Dispatch {
                grid_items: [12, 16, 20].map(u32_at),
                block: [4, 6, 8].map(|at| u32::from(u16_at(at))),
                lds_bytes: u32_at(28),
                scratch_bytes: u32_at(24),
                kernarg_ptr: u64_at(40),
                packet_ptr: address,
            },
        },
        (kind @ (BARRIER_AND | BARRIER_OR), _) => {
            let signals = (0..5).map(|i| u64_at(8 + 8 * i)).filter(|&signal| signal != 0).collect();
            Order::Barrier { signals, any: kind == BARRIER_OR }
        }
        (VENDOR, FORMAT_BARRIER_VALUE) => Order::BarrierValue {
            signal: u64_at(8),
            value: u64_at(16) as i64,
            mask: u64_at(24) as i64,
            condition: match u32_at(32) {
                0 => Condition::Eq,
                1 => Condition::Ne,
                2 => Condition::Lt,
                3 => Condition::Gte,
                other => return Err(format!("a barrier on condition {other}")),
            },
        },
        (VENDOR, FORMAT_COMMANDS) => {
            let opcode = opcode(u32_at(4));
            if opcode != INDIRECT_BUFFER {
                return Err(format!("a vendor's packet with command {opcode:#x}"));
            }
            let address = u64::from(u32_at(8) & !3) | u64::from(u32_at(12) & 0xffff) << 32;
            Order::Commands { address, words: u32_at(16) & 0xf_ffff }
        }
        (VENDOR, format) => return Err(format!("a vendor's packet of format {format}")),
        (kind, _) => return Err(format!("a packet of kind {kind}")),
    };
    Ok(Packet { order, completion: u64_at(56) })
}

/// Of a PM4 command of type 3.
fn opcode(header: u32) -> u32 {
    header >> 8 & 0xff
}

/// What commands of the command processor's own ask for that is not here: all but to order memory and to do nothing.
///
/// # Errors
/// The text names the first such command.
pub fn check_commands(mut words: &[u32]) -> Result<(), String> {
    /// NOP, WRITE_DATA's neighbours not among them: ACQUIRE_MEM, RELEASE_MEM, EVENT_WRITE, CONTEXT_CONTROL.
    const HARMLESS: [u32; 5] = [0x10, 0x58, 0x49, 0x46, 0x28];
    while let Some(&header) = words.first() {
        let length = (header >> 16 & 0x3fff) as usize + 2;
        if header >> 30 != 3 || !HARMLESS.contains(&opcode(header)) {
            return Err(format!("command {header:#010x}"));
        }
        words = words.get(length..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(fields: &[(usize, &[u8])]) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        fields.iter().for_each(|(at, field)| bytes[*at..at + field.len()].copy_from_slice(field));
        bytes
    }

    #[test]
    fn a_dispatch_is_taken_apart() {
        let bytes = packet(&[
            (0, &[2, 1, 3, 0, 64, 0, 2, 0, 1, 0]),
            (12, &[0, 1, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0]),
            (24, &[16, 0, 0, 0, 0, 2, 0, 0]),
            (32, &0x1234_5678_9abc_u64.to_le_bytes()),
            (40, &77_u64.to_le_bytes()),
            (56, &88_u64.to_le_bytes()),
        ]);
        let Packet { order: Order::Dispatch { kernel, dispatch }, completion: 88 } = decode(&bytes, 640).unwrap()
        else {
            panic!("{:?}", decode(&bytes, 640));
        };
        assert_eq!((kernel, dispatch.kernarg_ptr, dispatch.packet_ptr), (0x1234_5678_9abc, 77, 640));
        assert_eq!((dispatch.grid_items, dispatch.block), ([256, 4, 1], [64, 2, 1]));
        assert_eq!((dispatch.scratch_bytes, dispatch.lds_bytes), (16, 512));
    }

    #[test]
    fn barriers_name_their_signals() {
        let bytes = packet(&[(0, &[3]), (16, &5_u64.to_le_bytes()), (40, &6_u64.to_le_bytes())]);
        let Order::Barrier { signals, any: false } = decode(&bytes, 0).unwrap().order else { panic!() };
        assert_eq!(signals, [5, 6]);
        let Order::Barrier { any: true, .. } = decode(&packet(&[(0, &[5])]), 0).unwrap().order else { panic!() };
        let value = packet(&[
            (2, &[2]),
            (8, &5_u64.to_le_bytes()),
            (16, &(-1_i64).to_le_bytes()),
            (24, &3_i64.to_le_bytes()),
            (32, &[2]),
        ]);
        let Order::BarrierValue { signal: 5, condition: Condition::Lt, value: -1, mask: 3 } =
            decode(&value, 0).unwrap().order
        else {
            panic!("{:?}", decode(&value, 0));
        };
    }

    #[test]
    fn commands_stand_elsewhere_and_only_harmless_ones_pass() {
        let jump = [0xc002_3f00_u32, 0x1000, 0x7, 1 << 23 | 8];
        let jump: Vec<u8> = jump.iter().flat_map(|word| word.to_le_bytes()).collect();
        let Order::Commands { address: 0x7_0000_1000, words: 8 } =
            decode(&packet(&[(2, &[1]), (4, &jump)]), 0).unwrap().order
        else {
            panic!();
        };
        assert_eq!(check_commands(&[0xc005_5800, 0, 0, 0, 0, 0, 0, 0xc000_1000, 0]), Ok(()));
        assert!(check_commands(&[0xc005_5800, 0, 0, 0, 0, 0, 0, 0xc003_3700, 0]).is_err(), "it writes data");
    }

    #[test]
    fn other_packets_are_refused() {
        for bytes in [packet(&[(0, &[4])]), packet(&[(0, &[9])]), packet(&[(2, &[7])]), packet(&[(2, &[1])])] {
            assert!(decode(&bytes, 0).is_err(), "{bytes:?}");
        }
    }
}
