//! What an instruction becomes before it runs: a [`MicroOp`] with a handler and operands that are indices into the register
//! files of [`Wave`](crate::wave::Wave).
//!
//! # The handlers
//!
//! A [`Handler`] gets the wave, the memories and the step, and says by [`Flow`] how the wave goes on. Handlers are generic
//! `#[inline(always)]` functions, instantiated once for each [`Level`] by [`levels!`](crate::step::levels):
//!
//! ```text
//! #[inline(always)]
//! fn v_add_u32(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
//!     st.spread(w);                                  // scalar and constant sources into their staging registers
//!     let exec = w.exec();
//!     for c in 0..CHUNKS {
//!         let (a, b) = (w.chunk(st.src[0], c), w.chunk(st.src[1], c));
//!         let r = std::array::from_fn(|i| a[i].wrapping_add(b[i]));
//!         if exec == !0 { w.set_chunk(st.dst[0], c, r) } else { w.set_chunk_masked(st.dst[0], c, r, exec) }
//!     }
//!     Flow::Next
//! }
//! Some(Selected::lanes(levels!(v_add_u32)))          // in the class's `select`
//! ```
//!
//! # Registering
//!
//! Each class of instruction has a function under `exec` that matches on the operation; `exec::select` goes by the class of
//! the operation's row. [`Selected`] carries the handler at every level and, for each source, its [`Role`]: how the operand is
//! turned into `src[i]`. An instruction that no module selects becomes a step that faults as unknown when it is reached.
//!
//! # Operands
//!
//! `dst[i]`: a VGPR or AGPR is its index in the vector file, anything scalar its index in the scalar file. `src[i]` by role:
//!
//! | role | VGPR or AGPR | scalar register or constant |
//! | --- | --- | --- |
//! | [`Role::Lanes`] | index in the vector file | `STAGE + 2 * i`, filled by [`MicroOp::spread`] |
//! | [`Role::Scalar`] | (unknown instruction) | index in the scalar file, or bit `i` of `constants` and `k[i]`; read by [`MicroOp::s32`], [`MicroOp::s64`] |
//! | [`Role::Block`] | index of the first register | bit `i` of `constants` and `k[i]`: the same in all registers and lanes |

use rocfire_isa::{Format, InlineFloat, Inst, Modifiers, Op, Operand, OperandKind};

use crate::counters::{self, Class};
use crate::env::Env;
use crate::wave::{AGPR, STAGE, Wave, scalar};

/// How a wave goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To `wave.pc`, which is the next step unless the handler changed it by [`Env::jump`].
    Next,
    /// Waits at a barrier.
    Barrier,
    /// Has ended.
    End,
    /// Does the same over and over, until somebody writes what it reads: see [`spin`](crate::spin).
    Spin,
    /// Has run long enough for others to have their turn.
    Slice,
    /// Its turn is over ([`Schedule::Turns`](crate::Schedule)).
    Turn,
    /// Cannot go on; the cause is in `env.fault`.
    Fault,
}

/// Executes one step. The call is unsafe for one reason only: the host must have the CPU features of the level that the
/// handler was compiled for.
pub(crate) type Handler = unsafe fn(&mut Wave, &mut Env, &MicroOp) -> Flow;

/// Host CPU features that the emulator has code for. They differ in speed, never in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every host has.
    Baseline,
    /// AVX2, FMA, F16C, BMI.
    Avx2,
    /// AVX-512 F, BW, DQ, VL on top.
    Avx512,
}

impl Level {
    /// The best level that this host has.
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => return Level::Avx512,
                (true, false) => return Level::Avx2,
                (false, _) => {}
            }
        }
        Level::Baseline
    }
}

/// One handler at every level.
#[derive(Clone, Copy)]
pub(crate) struct Handlers {
    /// For [`Level::Baseline`].
    pub(crate) baseline: Handler,
    /// For [`Level::Avx2`].
    pub(crate) avx2: Handler,
    /// For [`Level::Avx512`].
    pub(crate) avx512: Handler,
}

impl Handlers {
    /// The same function at every level, for handlers with no loop over the lanes.
    pub(crate) fn same(handler: Handler) -> Handlers {
        Handlers { baseline: handler, avx2: handler, avx512: handler }
    }

    /// The handler for `level`.
    pub(crate) fn at(&self, level: Level) -> Handler {
        match level {
            Level::Baseline => self.baseline,
            Level::Avx2 => self.avx2,
            Level::Avx512 => self.avx512,
        }
    }
}

/// Instantiates an `#[inline(always)]` handler, given by path or as an expression that is callable with
/// `(wave, env, step)`, at every [`Level`]; gives [`Handlers`]. Works in generic functions only through const or type
/// parameters of the path's own (`levels!(binary::<Add>)` with concrete types).
macro_rules! levels {
    ($body:expr) => {{
        fn baseline(
            w: &mut $crate::wave::Wave,
            e: &mut $crate::env::Env,
            s: &$crate::step::MicroOp,
        ) -> $crate::step::Flow {
            ($body)(w, e, s)
        }
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            fn avx2(
                w: &mut $crate::wave::Wave,
                e: &mut $crate::env::Env,
                s: &$crate::step::MicroOp,
            ) -> $crate::step::Flow {
                ($body)(w, e, s)
            }
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            fn avx512(
                w: &mut $crate::wave::Wave,
                e: &mut $crate::env::Env,
                s: &$crate::step::MicroOp,
            ) -> $crate::step::Flow {
                ($body)(w, e, s)
            }
            $crate::step::Handlers { baseline, avx2, avx512 }
        }
        #[cfg(not(target_arch = "x86_64"))]
        $crate::step::Handlers::same(baseline)
    }};
}
pub(crate) use levels;

/// The type that an inline constant or literal takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    /// 32 bits: an inline float is an f32, an inline integer an i32.
    B32,
    /// 16 bits in the low half: an inline float is an f16; the high half is zero for a float and the sign for an integer.
    B16,
    /// 64 bits, integer: a literal is zero-extended; an inline float is an f64.
    B64,
    /// 64 bits, float: a literal is the high half; an inline integer is 64 bits of integer, not a conversion.
    F64,
}

/// How a source operand is presented to its handler; see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// One or two vector registers; scalars and constants are spread over the lanes.
    Lanes(Constant),
    /// A scalar or a lane mask.
    Scalar(Constant),
    /// A run of vector registers, of any length, or a constant.
    Block(Constant),
}

/// A handler, and how it wants its operands.
#[derive(Clone, Copy)]
pub(crate) struct Selected {
    /// The handler.
    pub(crate) handlers: Handlers,
    /// A role for each source.
    pub(crate) roles: [Role; 4],
    /// Kept in [`MicroOp::imm`], for the handler's own use.
    pub(crate) imm: i64,
}

impl Selected {
    /// All sources are 32-bit lanes.
    pub(crate) fn lanes(handlers: Handlers) -> Selected {
        Selected { handlers, roles: [Role::Lanes(Constant::B32); 4], imm: 0 }
    }

    /// All sources are scalars of 32 or 64 bits, as their operand says.
    pub(crate) fn scalars(handlers: Handlers) -> Selected {
        Selected { handlers, roles: [Role::Scalar(Constant::B32); 4], imm: 0 }
    }

    /// With these roles.
    pub(crate) fn with_roles(self, roles: [Role; 4]) -> Selected {
        Selected { roles, ..self }
    }

    /// With this role for one source.
    pub(crate) fn with_role(mut self, source: usize, role: Role) -> Selected {
        self.roles[source] = role;
        self
    }

    /// With this immediate.
    pub(crate) fn with_imm(self, imm: i64) -> Selected {
        Selected { imm, ..self }
    }
}

/// Fills one staging register before a handler's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    /// Staging register in the vector file.
    slot: u16,
    /// Scalar index, or [`Spread::CONSTANT`].
    scalar: u16,
    /// The constant.
    value: u32,
}

impl Spread {
    const CONSTANT: u16 = u16::MAX;
}

/// Two registers for each of three sources; no vector instruction has a fourth that can be scalar.
const SPREADS: usize = 6;

/// One pre-decoded instruction. What runs on every execution stands first; the decoded instruction behind it is for the
/// rarer handlers, and for reports.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct MicroOp {
    /// Executes it.
    pub(crate) run: Handler,
    /// Destinations.
    pub(crate) dst: [u16; 2],
    /// Sources; see the module's table.
    pub(crate) src: [u16; 4],
    /// Bit i: source i is the constant `k[i]`.
    pub(crate) constants: u8,
    /// Bit i: source i is spread, and so the same in all lanes.
    pub(crate) uniform: u8,
    /// Entries of `spreads` in use.
    spread_count: u8,
    /// Number of this memory instruction in the program, for the address cache.
    pub(crate) site: u16,
    /// The handler's own immediate; a branch's target as step index.
    pub(crate) imm: i64,
    /// What to spread.
    spreads: [Spread; SPREADS],
    /// Constant sources.
    pub(crate) k: [u64; 4],
    /// Byte offset of the instruction in its code section.
    pub(crate) offset_bytes: u32,
    /// The instruction's own handler, where `run` indexes its registers first.
    pub(crate) indexed: Option<Handler>,
    /// The halves of a pair (VOPD), which `run` then executes one after the other.
    pub(crate) pair: Option<Box<[MicroOp; 2]>>,
    /// What it is counted as.
    pub(crate) class: Class,
    /// Instructions without effect (`s_nop`, `s_waitcnt`) that stood before it and are counted with it.
    pub(crate) dropped: u32,
    /// How a resource descriptor's range check counts.
    pub(crate) range_rule: RangeRule,
    /// The instruction.
    pub(crate) inst: Inst,
}

/// Who says whether a buffer's range is counted in records or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeRule {
    /// The instruction, by having an index (before RDNA).
    Index,
    /// The descriptor (RDNA).
    Descriptor,
}

impl MicroOp {
    /// Stands for bytes that are no instruction.
    pub(crate) const NO_INST: Inst = Inst {
        op: Op::SNop,
        format: Format::Sopp,
        bytes: 4,
        dst: [Operand::NONE; 2],
        src: [Operand::NONE; 4],
        mods: Modifiers::NONE,
    };

    /// Resolves the operands of `inst` for its handler. `None` if an operand is of a kind that its role cannot be.
    pub(crate) fn new(inst: Inst, selected: &Selected, level: Level, offset_bytes: u32) -> Option<MicroOp> {
        let mut step = MicroOp {
            run: selected.handlers.at(level),
            dst: [0; 2],
            src: [0; 4],
            constants: 0,
            uniform: 0,
            spread_count: 0,
            site: 0,
            imm: selected.imm,
            spreads: [Spread { slot: 0, scalar: 0, value: 0 }; SPREADS],
            k: [0; 4],
            offset_bytes,
            indexed: None,
            pair: None,
            class: counters::class(&inst),
            dropped: 0,
            range_rule: RangeRule::Index,
            inst,
        };
        for (i, operand) in inst.dst.iter().enumerate() {
            step.dst[i] = match register(operand) {
                Register::Vector(n) | Register::Scalar(n) => n,
                Register::Constant if operand.kind == OperandKind::Null => scalar::SINK,
                Register::Constant | Register::None => 0,
            };
        }
        for (i, operand) in inst.src.iter().enumerate() {
            step.resolve(i, operand, selected.roles[i])?;
        }
        Some(step)
    }

    fn resolve(&mut self, i: usize, operand: &Operand, role: Role) -> Option<()> {
        let (Role::Lanes(constant) | Role::Scalar(constant) | Role::Block(constant)) = role;
        match (register(operand), role) {
            (Register::None, _) => {}
            (Register::Vector(_), Role::Scalar(_)) => return None,
            (Register::Vector(n), _) => self.src[i] = n,
            (Register::Scalar(_), Role::Block(_)) => return None,
            (Register::Scalar(n), Role::Scalar(_)) => self.src[i] = n,
            (Register::Scalar(n), Role::Lanes(_)) => {
                for half in 0..operand.dwords.clamp(1, 2) as u16 {
                    self.push_spread(i, half, n + half, 0)?;
                }
            }
            (Register::Constant, role) => {
                let value = constant_bits(operand, constant);
                self.constants |= 1 << i;
                self.k[i] = value;
                if let Role::Lanes(_) = role {
                    self.push_spread(i, 0, Spread::CONSTANT, value as u32)?;
                    if operand.dwords > 1 {
                        self.push_spread(i, 1, Spread::CONSTANT, (value >> 32) as u32)?;
                    }
                }
            }
        }
        Some(())
    }

    fn push_spread(&mut self, i: usize, half: u16, scalar: u16, value: u32) -> Option<()> {
        let slot = STAGE + 2 * i as u16 + half;
        if half == 0 {
            self.src[i] = slot;
            self.uniform |= 1 << i;
        }
        *self.spreads.get_mut(self.spread_count as usize)? = Spread { slot, scalar, value };
        self.spread_count += 1;
        Some(())
    }

    /// Spreads the scalar and constant sources over their staging registers. Every handler with sources of
    /// [`Role::Lanes`] calls it first.
    #[inline(always)]
    pub(crate) fn spread(&self, w: &mut Wave) {
        for spread in &self.spreads[..self.spread_count as usize] {
            let value = if spread.scalar == Spread::CONSTANT { spread.value } else { w.scalar_source(spread.scalar) };
            w.v[spread.slot as usize].0 = [value; crate::wave::LANES];
        }
    }

    /// The same over the first eight lanes only, for handlers that know from `uniform` that the others are alike.
    #[inline(always)]
    pub(crate) fn spread_short(&self, w: &mut Wave) {
        for spread in &self.spreads[..self.spread_count as usize] {
            let value = if spread.scalar == Spread::CONSTANT { spread.value } else { w.scalar_source(spread.scalar) };
            w.v[spread.slot as usize].0[..8].fill(value);
        }
    }

    /// Whether source `i` is a constant.
    #[inline(always)]
    pub(crate) fn is_constant(&self, i: usize) -> bool {
        self.constants & 1 << i != 0
    }

    /// Source `i`, of [`Role::Scalar`], 32 bits.
    #[inline(always)]
    pub(crate) fn s32(&self, w: &Wave, i: usize) -> u32 {
        if self.is_constant(i) { self.k[i] as u32 } else { w.scalar_source(self.src[i]) }
    }

    /// Source `i`, of [`Role::Scalar`], 64 bits; what is not a pair in the file is zero-extended.
    #[inline(always)]
    pub(crate) fn s64(&self, w: &Wave, i: usize) -> u64 {
        if self.is_constant(i) {
            self.k[i]
        } else if self.src[i] < scalar::SCC {
            w.s64(self.src[i])
        } else {
            u64::from(w.scalar_source(self.src[i]))
        }
    }
}

/// High halves of the addresses of the LDS and private apertures of FLAT; the low 32 bits are the offset. The values are
/// those that AMD's kernel driver sets up for this family.
pub(crate) const SHARED_APERTURE: u32 = 0x0001_0000;
/// See [`SHARED_APERTURE`].
pub(crate) const PRIVATE_APERTURE: u32 = 0x0002_0000;

enum Register {
    None,
    Vector(u16),
    Scalar(u16),
    Constant,
}

/// In which file an operand stands, and where.
fn register(operand: &Operand) -> Register {
    match operand.kind {
        OperandKind::None => Register::None,
        OperandKind::Vgpr(n) => Register::Vector(n),
        OperandKind::Agpr(n) => Register::Vector(AGPR + n),
        OperandKind::Sgpr(n) => Register::Scalar(n),
        OperandKind::Vcc(half) => Register::Scalar(scalar::VCC + u16::from(half)),
        OperandKind::Exec(half) => Register::Scalar(scalar::EXEC + u16::from(half)),
        OperandKind::M0 => Register::Scalar(scalar::M0),
        OperandKind::Ttmp(n) => Register::Scalar(scalar::TTMP + u16::from(n)),
        OperandKind::FlatScratch(half) => Register::Scalar(scalar::FLAT_SCRATCH + u16::from(half)),
        OperandKind::XnackMask(half) => Register::Scalar(scalar::XNACK_MASK + u16::from(half)),
        OperandKind::Vccz => Register::Scalar(scalar::VCCZ),
        OperandKind::Execz => Register::Scalar(scalar::EXECZ),
        OperandKind::Scc => Register::Scalar(scalar::SCC),
        // No code object that a compiler makes for compute uses it; as an unresolved operand it faults as unknown.
        OperandKind::LdsDirect => Register::None,
        OperandKind::Aperture(_)
        | OperandKind::Int(_)
        | OperandKind::Float(_)
        | OperandKind::Literal(_)
        | OperandKind::Imm(_)
        | OperandKind::Null => Register::Constant,
    }
}

/// The bits of a constant operand as `constant`'s type; 64 bits where the operand is two dwords wide.
fn constant_bits(operand: &Operand, constant: Constant) -> u64 {
    let constant = match constant {
        // A class may say B32 for all its sources; the operand's width says the rest.
        Constant::B32 if operand.dwords >= 2 => Constant::B64,
        other => other,
    };
    match operand.kind {
        OperandKind::Null => 0,
        OperandKind::Int(n) => n as i64 as u64,
        OperandKind::Imm(n) => n as i64 as u64,
        OperandKind::Literal(n) if constant == Constant::F64 => u64::from(n) << 32,
        OperandKind::Literal(n) => u64::from(n),
        OperandKind::Aperture(0) => u64::from(SHARED_APERTURE) << 32,
        OperandKind::Aperture(1) => u64::from(SHARED_APERTURE) << 32 | 0xffff_ffff,
        OperandKind::Aperture(2) => u64::from(PRIVATE_APERTURE) << 32,
        OperandKind::Aperture(_) => u64::from(PRIVATE_APERTURE) << 32 | 0xffff_ffff,
        OperandKind::Float(float) => float_bits(float, constant),
        _ => unreachable!("`place` calls only these kinds constants"),
    }
}

/// An inline float as a type's bits. 1/(2π) has its own bits in each precision (ISA, "Scalar ALU operands").
fn float_bits(float: InlineFloat, constant: Constant) -> u64 {
    let value = match float {
        InlineFloat::Half => 0.5,
        InlineFloat::MinusHalf => -0.5,
        InlineFloat::One => 1.0,
        InlineFloat::MinusOne => -1.0,
        InlineFloat::Two => 2.0,
        InlineFloat::MinusTwo => -2.0,
        InlineFloat::Four => 4.0,
        InlineFloat::MinusFour => -4.0,
        InlineFloat::InvTwoPi => {
            return match constant {
                Constant::B32 => 0x3e22_f983,
                Constant::B16 => 0x3118,
                Constant::B64 | Constant::F64 => 0x3fc4_5f30_6dc9_c882,
            };
        }
    };
    match constant {
        Constant::B32 => u64::from((value as f32).to_bits()),
        Constant::B16 => u64::from(half::f16::from_f64(value).to_bits()),
        Constant::B64 | Constant::F64 => f64::to_bits(value),
    }
}
