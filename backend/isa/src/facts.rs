//! What an operation does besides its operands, as columns of its row in `table/op.rs`.
//!
//! A row's brackets hold the [`Class`] and then words, each of which is a function of [`Facts`] below: `f32(2)` counts two
//! operations in f32, `writes_scc` says what its name says. What no word says has its default: full speed, no floating-point
//! operations, whole registers, nothing implied. An operation that AMD only renamed has the facts of its first name.

/// What kind of instruction it is: one class for each group that is executed alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Waits, hints, cache control: no effect on registers or memory.
    NoEffect,
    /// Graphics, trap handlers, debuggers, and what no compiler emits: [`Facts::not_executed`] says which.
    Unmodelled,
    /// Scalar ALU on integers and masks, branches, program control.
    Scalar,
    /// Scalar ALU on floats.
    ScalarFloat,
    /// A transcendental function of a scalar, done by the vector ALU.
    ScalarTranscendental,
    /// Scalar loads, and clocks.
    ScalarLoad,
    /// Scalar stores.
    ScalarStore,
    /// Scalar atomics.
    ScalarAtomic,
    /// Between one lane and a scalar register.
    Lane,
    /// 32-bit floats.
    Float32,
    /// Between 32-bit floats and other types.
    Conversion,
    /// 32-bit and 24-bit integers, bits and bytes.
    Int32,
    /// Comparisons and tests of a float's class.
    Compare,
    /// With a mask of lanes as a source or a result: carries, selects, steps of a division.
    Mask,
    /// 64-bit integers.
    Int64,
    /// Two 16-bit operations in one.
    Packed,
    /// Sums of products.
    Dot,
    /// 64-bit floats.
    Float64,
    /// 16-bit floats.
    Float16,
    /// 16-bit integers.
    Int16,
    /// bfloat16.
    Bfloat16,
    /// 8-bit floats.
    Float8,
    /// Minimum and maximum of three that propagate NaN (CDNA 4).
    Minimum3,
    /// What only the RDNA line has.
    Rdna,
    /// Minimum and maximum as IEEE 754-2019 has them.
    Ieee2019,
    /// Conversions with a scale (CDNA 4).
    ScaledConversion,
    /// A truth table of three bits.
    Bitop3,
    /// Between lanes, between registers that M0 names, and dot products of either sign.
    Permute,
    /// Exchanges of registers, counts of lanes, and the few that fit nowhere else.
    Special,
    /// Dense matrix products of the CDNA line.
    Mfma,
    /// Dense matrix products of the RDNA line.
    Wmma,
    /// Matrix products with a sparse A.
    SparseMatrix,
    /// Loads.
    Load,
    /// Stores.
    Store,
    /// Loads whose data goes to LDS.
    LoadToLds,
    /// LDS by two addresses.
    Pair,
    /// Between lanes through the LDS unit, and counters in LDS.
    Exchange,
    /// LDS loads that transpose, and LDS by the lane's number.
    Transpose,
    /// Atomics.
    Atomic,
}

impl Class {
    /// Whether it multiplies matrices, which is done for all lanes whatever EXEC says.
    pub fn is_matrix(self) -> bool {
        matches!(self, Class::Mfma | Class::Wmma | Class::SparseMatrix)
    }
}

/// How fast a vector instruction is executed, by LLVM's scheduling classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// As an addition of 32 bits.
    Full,
    /// 32-bit integer multiplication in full width.
    IntMul,
    /// Between f32 and integers or narrower floats.
    Convert,
    /// Transcendental functions.
    Transcendental,
    /// 64-bit integer shifts and comparisons.
    Int64,
    /// 64-bit floats.
    Double,
    /// Transcendental functions of 64-bit floats.
    DoubleTranscendental,
}

/// The precision of a vector instruction's arithmetic, as AMD's counters tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // AMD's names.
pub enum FloatKind {
    F16,
    F32,
    F64,
}

/// What a matrix instruction multiplies, as far as it decides the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MatrixType {
    /// 64-bit floats.
    F64,
    /// 32-bit floats.
    F32,
    /// 32-bit floats, rounded to 19 bits on the way in.
    Xf32,
    /// 16-bit floats, IEEE's.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit floats, or of 4, 6 or 8 bits as the instruction says.
    F8,
    /// 4- and 6-bit floats, neither side an 8-bit one.
    F6F4,
    /// 8-bit integers.
    I8,
    /// 4-bit integers.
    I4,
}

/// The shape of a dense matrix instruction: D (m × n) = A (m × k) · B (k × n) + C, in `blocks` independent blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The letters of the product above.
pub struct MatrixShape {
    pub m: u8,
    pub n: u8,
    pub k: u8,
    pub blocks: u8,
    pub kind: MatrixType,
}

/// Types of elements that are converted with a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // AMD's names, of OCP's formats.
pub enum Element {
    F32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    Fp6,
    Bf6,
    Fp4,
}

/// A conversion with a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// The type of the results.
    pub to: Element,
    /// That of the sources.
    pub from: Element,
    /// How many.
    pub count: u8,
    /// Whether random bits, a source, decide how it rounds.
    pub random: bool,
    /// Whether even elements come from the first source and odd ones from the second.
    pub interleaved: bool,
}

/// Which part of a 32-bit register the result has, or a store's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The low half.
    Low,
    /// The high half.
    High,
    /// The half that bit 3 of `op_sel` says.
    Half,
    /// The byte that bits 2 and 3 of `op_sel` number.
    Byte,
}

macro_rules! words {
    ($($(#[$doc:meta])* $word:ident)*) => {
        /// What an operation does besides its operands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Facts {
            /// Its kind.
            pub class: Class,
            /// How fast it is.
            pub speed: Speed,
            /// Floating-point operations of a lane, by AMD's way of counting: a fused multiply-add has two, minimum,
            /// maximum, comparison and conversion none.
            pub float_operations: u8,
            /// Their precision.
            pub float_kind: FloatKind,
            /// The shape of a dense matrix product.
            pub matrix: Option<MatrixShape>,
            /// The types of a conversion with a scale.
            pub scaling: Option<Scaling>,
            /// What it touches of the register of its result, or of a store's data.
            pub part: Part,
            /// A bit for each source of which only 16 bits are read.
            pub halves: u8,
            /// Bytes that the range check of a buffer access is about, for each of its pieces.
            pub piece_bytes: u8,
            /// Why the emulator does not execute it; empty if it does.
            pub not_executed: &'static str,
            $($(#[$doc])* pub $word: bool,)*
        }

        impl Facts {
            /// Those of an operation whose row has no word.
            pub(crate) const fn new(class: Class) -> Facts {
                Facts {
                    class,
                    speed: Speed::Full,
                    float_operations: 0,
                    float_kind: FloatKind::F32,
                    matrix: None,
                    scaling: None,
                    part: Part::Whole,
                    halves: 0,
                    piece_bytes: 4,
                    not_executed: "",
                    $($word: false,)*
                }
            }

            $(pub(crate) const fn $word(self) -> Facts {
                Facts { $word: true, ..self }
            })*
        }
    };
}
words! {
    /// SCC is a source.
    reads_scc
    /// SCC is a result.
    writes_scc
    /// VCC is a source, which no operand says.
    reads_vcc
    /// EXEC is a source of a scalar instruction, which no operand says.
    reads_exec
    /// EXEC is a result, which no operand says before RDNA.
    writes_exec
    /// A vector instruction that acts whatever EXEC says.
    ignores_exec
    /// M0 is a source.
    reads_m0
    /// M0 is a result.
    writes_m0
    /// The destination is a source too.
    accumulates
    /// The source is a result too.
    swaps
    /// A barrier or a message.
    signals
    /// Lanes read other lanes, whether or not DPP says so.
    crosses_lanes
    /// The last source is a mask with a bit for each lane: the select of `v_cndmask`, a carry, the flag of `v_div_fmas`.
    takes_mask
    /// Gives infinity for a finite source: reciprocals and logarithms of zero.
    has_pole
    /// Rounds in a way that no document says for other modes than to nearest: sums of products, the oldest multiply-adds.
    nearest_only
    /// Two operations on the halves of registers (VOP3P).
    packs_halves
    /// Two operations on the registers of pairs (VOP3P).
    packs_words
    /// `op_sel_hi` says which sources are 16 bits wide.
    mixes
    /// An atomic that compares and swaps.
    compares
    /// An atomic that gives back what it replaces, whatever that is.
    exchanges
    /// An atomic on floats, so that the order of several shows in the result.
    rounds
    /// A narrow load that extends the sign.
    signed
}

impl Facts {
    const fn speed(self, speed: Speed) -> Facts {
        Facts { speed, ..self }
    }

    pub(crate) const fn int_mul(self) -> Facts {
        self.speed(Speed::IntMul)
    }

    pub(crate) const fn convert(self) -> Facts {
        self.speed(Speed::Convert)
    }

    pub(crate) const fn transcendental(self) -> Facts {
        self.speed(Speed::Transcendental)
    }

    pub(crate) const fn int64(self) -> Facts {
        self.speed(Speed::Int64)
    }

    pub(crate) const fn double(self) -> Facts {
        self.speed(Speed::Double)
    }

    pub(crate) const fn double_transcendental(self) -> Facts {
        self.speed(Speed::DoubleTranscendental)
    }

    pub(crate) const fn f16(self, operations: u8) -> Facts {
        Facts { float_operations: operations, float_kind: FloatKind::F16, ..self }
    }

    pub(crate) const fn f32(self, operations: u8) -> Facts {
        Facts { float_operations: operations, float_kind: FloatKind::F32, ..self }
    }

    pub(crate) const fn f64(self, operations: u8) -> Facts {
        Facts { float_operations: operations, float_kind: FloatKind::F64, ..self }
    }

    pub(crate) const fn matrix(self, m: u8, n: u8, k: u8, blocks: u8, kind: MatrixType) -> Facts {
        Facts { matrix: Some(MatrixShape { m, n, k, blocks, kind }), ..self }
    }

    pub(crate) const fn scaled(self, to: Element, from: Element, count: u8) -> Facts {
        Facts { scaling: Some(Scaling { to, from, count, random: false, interleaved: false }), ..self }
    }

    pub(crate) const fn scaled_randomly(self, to: Element, from: Element, count: u8) -> Facts {
        Facts { scaling: Some(Scaling { to, from, count, random: true, interleaved: false }), ..self }
    }

    pub(crate) const fn scaled_interleaved(self, to: Element, from: Element, count: u8) -> Facts {
        Facts { scaling: Some(Scaling { to, from, count, random: false, interleaved: true }), ..self }
    }

    pub(crate) const fn because(self, not_executed: &'static str) -> Facts {
        Facts { not_executed, ..self }
    }

    pub(crate) const fn part(self, part: Part) -> Facts {
        Facts { part, ..self }
    }

    pub(crate) const fn halves(self, halves: u8) -> Facts {
        Facts { halves, ..self }
    }

    pub(crate) const fn piece(self, piece_bytes: u8) -> Facts {
        Facts { piece_bytes, ..self }
    }
}

impl MatrixType {
    /// As AMD's counters spell it.
    pub fn name(self) -> &'static str {
        match self {
            MatrixType::F64 => "F64",
            MatrixType::F32 => "F32",
            MatrixType::Xf32 => "XF32",
            MatrixType::F16 => "F16",
            MatrixType::Bf16 => "BF16",
            MatrixType::F8 => "F8",
            MatrixType::F6F4 => "F6F4",
            MatrixType::I8 => "I8",
            MatrixType::I4 => "I4",
        }
    }
}
