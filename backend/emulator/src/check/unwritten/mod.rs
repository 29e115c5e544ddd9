//! Values that nobody wrote, where they matter.
//!
//! Reading what was never written is no error in itself: compilers pass undefined registers around, load padding with the
//! rest of a vector, and mask out what they do not need. So this check follows values instead of reads.
//!
//! It keeps whether something is *defined* for every byte of vector registers in every lane, every bit of scalar registers, and every
//! byte of LDS, scratch and device memory. A result is undefined where it depends on something undefined. It reports an undefined
//!
//! - address, of any kind of memory, or jump target,
//! - condition of a branch, or bit of EXEC,
//! - value that is stored to device memory, or read there by an atomic that is no exchange.
//!
//! Copying to LDS, scratch and other registers is silent; the state goes with the value.
//!
//! # What "depends" means
//!
//! - Bit operations, shifts, additions, selects and moves (DPP and SDWA included) are followed exactly. `x & 0` is defined,
//!   `v_cndmask` takes the state of the value that it takes, and of a sum the bits below the lowest undefined one are defined.
//! - Operations on 16 bits see the half that they use.
//! - Any other operation with an undefined input in a lane has an undefined result in that lane.
//! - A product of matrices is undefined as a whole if anything of A or B is, else where C is.
//! - Lanes that EXEC switches off are neither read nor written.
//!
//! # Shuffles
//!
//! `ds_bpermute` gives zero for a lane that EXEC has switched off. HIP's shuffles become one, and HIP says that the value means
//! nothing: it is undefined here, and reported where it matters.
//!
//! What compilers rely on is defined: DPP and `v_permlane*`, which keep the destination or give zero as their modifiers say;
//! `ds_permute` and `ds_swizzle` with their zeros; and `v_readlane`, which brings back what was put in a lane that is off.
//!
//! # What is defined at the start
//!
//! The registers that the ABI sets, images of code objects, kernel arguments, and what the host has written, copied or
//! filled; a copy on the device copies the state. A fresh allocation, a block that
//! [`Gpu::mark`](crate::Gpu::mark) declares live, LDS and scratch at the start of a workgroup are not.

use crate::descriptor::WorkItemId;
use crate::env::Env;
use crate::error::FaultKind;
use crate::group::Setup;
use crate::instrument::{At, Event, Finding, Marks, Registers, Uses, Verdict};
use crate::memory::Window;
use crate::spin::vector_file;
use crate::wave::{AGPR, LANES, STAGE, Wave, scalar};

mod memory;
mod scalar_op;
mod vector_op;

use super::wait::{scalar_name, vector_name};

/// Lanes in which each byte of a vector register is undefined, low byte first.
type ByteLanes = [u64; 4];

/// Length of the scalar state: the file, and SCC.
const SCALARS: usize = scalar::SCC as usize + 1;

/// Most origins that are told apart in a workgroup.
const ORIGINS: usize = 1 << 16;

/// State of a byte of LDS or scratch.
const DEFINED: u8 = 0;
/// Nobody wrote it.
const UNWRITTEN: u8 = 1;
/// Something undefined was stored.
const STORED_UNDEFINED: u8 = 2;

/// Bytes of LDS that are looked at together at a barrier; a look ends behind the first with something undefined.
const LDS_LOOK_BYTES: usize = 512;

/// Windows that are remembered, by the number of the memory instruction.
const WINDOWS: usize = 64;

/// Where an undefined value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Vector(u16),
    Scalar(u16),
    /// A register of a lane that is off.
    LaneOff {
        register: u16,
        lane: u8,
    },
    Lds {
        address: u64,
        stored: bool,
    },
    Scratch {
        address: u64,
        stored: bool,
    },
    Device {
        address: u64,
        bytes: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Origin {
    source: Source,
    /// The step that first read it.
    step: u32,
}

/// What is undefined of one wave's registers.
struct WaveState {
    vector: Vec<ByteLanes>,
    scalar: [u32; SCALARS],
    /// Number of the origin plus one, of registers with something undefined; 0 for the register itself.
    vector_origin: Vec<u32>,
    scalar_origin: [u32; SCALARS],
    /// Registers that may have something undefined in some lane; all others have nothing.
    marked: Marks,
}

/// The check, for the workgroups of one host thread.
pub(super) struct Unwritten {
    /// Whether what nobody wrote is undefined.
    follows_unwritten: bool,
    /// Whether what a shuffle reads from a lane that is off is.
    follows_shuffles: bool,
    waves: Vec<WaveState>,
    lds: Vec<u8>,
    /// Whether all of LDS is known to be defined: what a load finds there needs no look.
    lds_is_defined: bool,
    /// What a load to LDS brings to each lane, a bit for each undefined byte.
    incoming: Vec<u64>,
    /// Bytes of each lane, lane by lane and wave by wave.
    scratch: Vec<u8>,
    scratch_bytes: usize,
    origins: Vec<Origin>,
    windows: Vec<Window>,
}

/// What is kept of a workgroup that is set aside.
pub(super) struct Kept {
    waves: Vec<WaveState>,
    lds: Vec<u8>,
    lds_is_defined: bool,
    scratch: Vec<u8>,
    scratch_bytes: usize,
    origins: Vec<Origin>,
}

impl Unwritten {
    /// What is not to be followed counts as defined.
    pub(super) fn new(follows_unwritten: bool, follows_shuffles: bool) -> Unwritten {
        Unwritten {
            follows_unwritten,
            follows_shuffles,
            waves: Vec::new(),
            lds: Vec::new(),
            lds_is_defined: false,
            incoming: vec![0; LANES],
            scratch: Vec::new(),
            scratch_bytes: 0,
            origins: Vec::new(),
            windows: vec![Window::empty(); WINDOWS],
        }
    }

    pub(super) fn start_group(&mut self, setup: &Setup, waves: &[Wave]) {
        self.origins.clear();
        self.lds.clear();
        // The upper lanes of a wave32 are nobody's.
        let lanes = u64::MAX >> (LANES - setup.lanes as usize);
        let (memory, register) = if self.follows_unwritten { (UNWRITTEN, lanes) } else { (DEFINED, 0) };
        self.lds.resize(setup.lds_bytes, memory);
        self.lds_is_defined = memory == DEFINED;
        self.scratch_bytes = setup.scratch_bytes as usize;
        self.scratch.clear();
        self.scratch.resize(waves.len() * LANES * self.scratch_bytes, memory);
        self.waves.truncate(waves.len());
        self.waves.resize_with(waves.len(), || WaveState {
            vector: vec![[0; 4]; usize::from(STAGE)],
            scalar: [0; SCALARS],
            vector_origin: vec![0; usize::from(STAGE)],
            scalar_origin: [0; SCALARS],
            marked: Marks::default(),
        });
        let descriptor = &setup.kernel.info.descriptor;
        let work_item_registers = match descriptor.work_item_id {
            WorkItemId::Packed => 1,
            WorkItemId::Registers(count) => count,
        };
        for state in &mut self.waves {
            for registers in vector_file((descriptor.vgprs, descriptor.agprs)) {
                state.vector[registers].fill([register; 4]);
            }
            state.vector_origin.fill(0);
            state.scalar_origin.fill(0);
            state.vector[..work_item_registers].fill([0; 4]);
            state.scalar[..usize::from(scalar::FLAT_SCRATCH)].fill(if self.follows_unwritten { !0 } else { 0 });
            state.scalar[..usize::from(descriptor.initial_sgprs())].fill(0);
            state.scalar[usize::from(scalar::FLAT_SCRATCH)..].fill(0);
            for register in [scalar::VCC, scalar::VCC + 1, scalar::M0] {
                state.scalar[usize::from(register)] = if self.follows_unwritten { !0 } else { 0 };
            }
            state.scalar[usize::from(scalar::SCC)] = u32::from(self.follows_unwritten);
            state.mark_all();
        }
    }

    /// Takes away what is about the current workgroup.
    pub(super) fn park(&mut self) -> Kept {
        Kept {
            waves: std::mem::take(&mut self.waves),
            lds: std::mem::take(&mut self.lds),
            lds_is_defined: self.lds_is_defined,
            scratch: std::mem::take(&mut self.scratch),
            scratch_bytes: self.scratch_bytes,
            origins: std::mem::take(&mut self.origins),
        }
    }

    /// Makes it the current one again.
    pub(super) fn resume(&mut self, kept: Kept) {
        (self.waves, self.lds, self.scratch) = (kept.waves, kept.lds, kept.scratch);
        (self.lds_is_defined, self.scratch_bytes) = (kept.lds_is_defined, kept.scratch_bytes);
        self.origins = kept.origins;
    }

    /// All waves have reached a barrier, which mostly stands behind what fills LDS.
    pub(super) fn barrier(&mut self) {
        let is_defined = |states: &[u8]| states.iter().fold(DEFINED, |any, state| any | state) == DEFINED;
        if !self.lds_is_defined {
            self.lds_is_defined = self.lds.chunks(LDS_LOOK_BYTES).all(is_defined);
        }
    }

    pub(super) fn before(&mut self, at: &At<'_>, w: &Wave) -> Verdict {
        use rocfire_isa::Format;
        let marked = &self.waves[w.number as usize].marked;
        let reads_marked = marked.meets(&at.uses.reads);
        // Where nothing is undefined, nothing becomes so, but by a shuffle.
        let moves = self.follows_shuffles && at.step.inst.format == Format::Ds;
        if !reads_marked && !moves && !marked.meets(&at.uses.writes) {
            return Ok(());
        }
        let verdict = match at.step.inst.format {
            Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc | Format::Sopp => self.scalar_op(at, w),
            Format::Smem | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf | Format::Ds
                if reads_marked =>
            {
                self.addresses(at, w)
            }
            Format::Smem | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf | Format::Ds => Ok(()),
            Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p | Format::Vop3pMai => {
                self.vector_op(at, w)
            }
        };
        if at.step.inst.format == Format::Ds {
            verdict?;
            self.lane_move(at, w);
            self.state(w).mark(at.uses);
            return Ok(());
        }
        self.state(w).mark(at.uses);
        verdict
    }

    pub(super) fn after(&mut self, at: &At<'_>, w: &Wave, env: &Env, events: &[Event]) -> Verdict {
        use rocfire_isa::Format;
        match at.step.inst.format {
            Format::Smem | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf | Format::Ds => {
                self.memory_op(at, w, env, events)
            }
            _ => Ok(()),
        }
    }

    fn state(&mut self, w: &Wave) -> &mut WaveState {
        &mut self.waves[w.number as usize]
    }

    /// The number of an origin, for the states.
    fn origin(&mut self, source: Source, step: usize) -> u32 {
        let origin = Origin { source, step: step as u32 };
        if let Some(place) = self.origins.iter().rev().take(8).position(|known| *known == origin) {
            return (self.origins.len() - place) as u32;
        }
        if self.origins.len() < ORIGINS {
            self.origins.push(origin);
        }
        self.origins.len() as u32
    }

    /// The origin of what is undefined among the registers that a step reads in the lanes given: the first there is.
    fn origin_of_reads(&mut self, at: &At<'_>, w: &Wave, lanes: u64) -> u32 {
        let state = &self.waves[w.number as usize];
        let vector = at.uses.vector_reads.iter().flat_map(|registers| registers.range());
        let undefined = |r: usize| state.vector.get(r).is_some_and(|[a, b, c, d]| (a | b | c | d) & lanes != 0);
        let vector = vector.map(usize::from).find(|&r| undefined(r));
        let scalar = at.uses.scalar_reads.iter().flat_map(|registers| registers.range());
        let scalar = scalar.map(usize::from).find(|&r| state.scalar.get(r).is_some_and(|&bits| bits != 0));
        match (vector, scalar) {
            (Some(register), _) => match state.vector_origin[register] {
                0 => self.origin(Source::Vector(register as u16), at.index),
                known => known,
            },
            (None, Some(register)) => match state.scalar_origin[register] {
                0 => self.origin(Source::Scalar(register as u16), at.index),
                known => known,
            },
            (None, None) => 0,
        }
    }

    /// Whether all that a step reads is defined in the lanes given.
    fn reads_are_defined(&self, at: &At<'_>, w: &Wave, lanes: u64) -> bool {
        let state = &self.waves[w.number as usize];
        let vector = at.uses.vector_reads.iter().flat_map(|registers| registers.range());
        let mut undefined = 0;
        for register in vector {
            let Some([a, b, c, d]) = state.vector.get(usize::from(register)) else { continue };
            undefined |= (a | b | c | d) & lanes;
        }
        let scalar = at.uses.scalar_reads.iter().flat_map(|registers| registers.range());
        let mut bits = 0;
        for register in scalar {
            bits |= state.scalar.get(usize::from(register)).copied().unwrap_or(0);
        }
        undefined == 0 && bits == 0
    }

    /// A report: `what` depends on an origin.
    fn finding(&self, at: &At<'_>, what: String, origin: u32, lanes: u64) -> Box<Finding> {
        let origin = (origin as usize).checked_sub(1).and_then(|place| self.origins.get(place));
        let mut finding = Finding::at_lanes(FaultKind::Unwritten { what, origin: String::new() }, lanes);
        let Some(&Origin { source, step }) = origin else { return finding };
        let stored = |stored: bool| if stored { "an undefined value was stored to" } else { "nobody wrote" };
        let text = match source {
            Source::Vector(register) => format!("{}, which nobody wrote", vector_name(register)),
            Source::Scalar(register) => format!("{}, which nobody wrote", scalar_name(register)),
            Source::LaneOff { register, lane } => format!("{} of lane {lane}, which is off", vector_name(register)),
            Source::Lds { address, stored: s } => format!("LDS at {address:#x}, which {}", stored(s)),
            Source::Scratch { address, stored: s } => format!("scratch at {address:#x}, which {}", stored(s)),
            Source::Device { address, bytes } => {
                (finding.address, finding.bytes, finding.is_device_address) = (Some(address), bytes, true);
                "device memory that nobody wrote".to_owned()
            }
        };
        let step = &at.program.steps[step as usize];
        let read_here = step.offset_bytes == at.step.offset_bytes;
        let by = match read_here {
            true => String::new(),
            false => format!(", read at code offset {:#x} by `{}`", step.offset_bytes, at.program.disassembly(step)),
        };
        let FaultKind::Unwritten { origin, .. } = &mut finding.kind else { unreachable!("it was made of this kind") };
        *origin = text + &by;
        finding
    }
}

impl WaveState {
    /// Marks the registers that a step has written where something of them is undefined.
    fn mark(&mut self, uses: &Uses) {
        let WaveState { vector, scalar, marked, .. } = self;
        marked.update(&uses.writes, |is_vector, register| match is_vector {
            true => vector.get(usize::from(register)).is_some_and(|[a, b, c, d]| a | b | c | d != 0),
            false => scalar.get(usize::from(register)).is_some_and(|&bits| bits != 0),
        });
    }

    /// Marks all registers with something undefined.
    fn mark_all(&mut self) {
        self.marked = Marks::default();
        for (register, [a, b, c, d]) in self.vector.iter().enumerate() {
            if a | b | c | d != 0 {
                self.marked.insert_vector(register as u16);
            }
        }
        for (register, &bits) in self.scalar.iter().enumerate() {
            if bits != 0 {
                self.marked.insert_scalar(register as u16);
            }
        }
    }

    /// Makes registers defined in lanes, in the bytes of `bytes` (bit 0 the lowest).
    fn define_vector(&mut self, registers: Registers, lanes: u64, bytes: u8) {
        for register in registers.range() {
            let Some(state) = self.vector.get_mut(usize::from(register)) else { continue };
            for (byte, undefined) in state.iter_mut().enumerate() {
                if bytes >> byte & 1 != 0 {
                    *undefined &= !lanes;
                }
            }
        }
    }

    fn define_scalar(&mut self, registers: Registers) {
        for register in registers.range() {
            self.set_scalar(register, 0, 0);
        }
    }

    fn set_scalar(&mut self, register: u16, undefined: u32, origin: u32) {
        if let Some(state) = self.scalar.get_mut(usize::from(register)) {
            *state = undefined;
            self.scalar_origin[usize::from(register)] = origin;
            if undefined != 0 {
                self.marked.insert_scalar(register);
            }
        }
    }

    /// Undefined bits of a vector register in a lane: whole bytes.
    fn vector_bits(&self, register: u16, lane: usize) -> u32 {
        let Some(bytes) = self.vector.get(usize::from(register)) else { return 0 };
        (0..4).fold(0, |bits, byte| bits | if bytes[byte] >> lane & 1 != 0 { 0xff << (8 * byte) } else { 0 })
    }

    /// Sets the bytes with any undefined bit.
    fn set_vector_bits(&mut self, register: u16, lane: usize, undefined: u32, bytes: u8, origin: u32) {
        let Some(state) = self.vector.get_mut(usize::from(register)) else { return };
        for byte in (0..4).filter(|byte| bytes >> byte & 1 != 0) {
            let set = undefined >> (8 * byte) & 0xff != 0;
            state[byte] = state[byte] & !(1 << lane) | u64::from(set) << lane;
        }
        if undefined != 0 {
            self.vector_origin[usize::from(register)] = origin;
            self.marked.insert_vector(register);
        }
    }
}

/// The register of a place in the vector file is an accumulation register.
const _: () = assert!(AGPR < STAGE);
