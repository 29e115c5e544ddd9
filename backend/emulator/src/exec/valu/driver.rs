//! The loops over the lanes: one driver for operations with a vector result, one for comparisons, one for operations that
//! read or write a lane mask. An operation is a type with a function of one lane; the drivers turn it into handlers for
//! every CPU level.

use super::directed;
use super::modifiers::{
    ALL_INFINITE, Frame, MODE_MASK, ROUNDING, USUAL_MODE, finish, flag, has_only_signs, is_modified, prepare,
};
use super::vector;
use super::word::{Kind, Registers, Sources, Word, nan_of_sources};
use crate::env::Env;
use crate::error::FaultKind;
#[cfg(target_arch = "x86_64")]
use crate::numeric::{Avx2, Avx512};
use crate::numeric::{Baseline, Body, Cpu};
use crate::step::{Flow, Handlers, MicroOp, Role, Selected};
use crate::wave::{LANES, Wave, scalar};
use rocfire_isa::Inst;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Properties of an operation.
pub(crate) mod property {
    /// A NaN result is replaced by the one that the sources determine (f32 or f64 by the type of the result).
    pub(crate) const NAN: u32 = 1;
    /// The destination is the last source.
    pub(crate) const ACC: u32 = 2;
}

/// An operation with one vector result that depends on nothing but its sources.
pub(crate) trait Op: 'static {
    /// Sources.
    type S: Sources;
    /// Result.
    type R: Word;
    /// Of [`property`].
    const PROPERTIES: u32;
    /// One lane.
    fn lane<C: Cpu>(s: Self::S) -> Self::R;
}

/// A comparison.
pub(crate) trait Compare: 'static {
    /// Sources.
    type S: Sources;
    /// One lane.
    fn lane(s: Self::S) -> bool;
}

/// An operation that reads a lane mask, its last source, or writes one, its second destination, or both.
pub(crate) trait MaskOp: 'static {
    /// Sources but for the mask.
    type S: Sources;
    /// Result.
    type R: Word;
    /// Whether it reads a mask.
    const READS: bool;
    /// Whether it writes a mask.
    const WRITES: bool;
    /// Of [`property`].
    const PROPERTIES: u32;
    /// One lane.
    fn lane<C: Cpu>(s: Self::S, mask: bool) -> (Self::R, bool);
}

/// Defines operations: `Name [properties] (a: Type, …) -> Type = expression;`. `C` in the expression is the [`Cpu`].
macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident [$properties:expr] ($($a:ident: $t:ty),*) -> $r:ty = $body:expr;)*) => {
        $($(#[$doc])*
        pub(crate) struct $name;
        impl $crate::exec::valu::driver::Op for $name {
            type S = ($($t,)*);
            type R = $r;
            const PROPERTIES: u32 = {
                #[allow(unused_imports)]
                use $crate::exec::valu::driver::property::*;
                $properties
            };
            #[inline(always)]
            fn lane<C: $crate::numeric::Cpu>(($($a,)*): Self::S) -> $r {
                $body
            }
        })*
    };
}
pub(crate) use ops;

pub(super) const fn any_float(kinds: &[Kind]) -> bool {
    let mut i = 0;
    while i < kinds.len() {
        if kinds[i].is_float() {
            return true;
        }
        i += 1;
    }
    false
}

/// What is done around the lanes is told of the operation. It is code of its own, so that an operation's own code is nothing
/// but its loop.
struct Around {
    kinds: &'static [Kind],
    /// `None`: a lane mask.
    result: Option<Kind>,
    /// Whether float modes act on it.
    float: bool,
    /// Whether the destination is the last source.
    accumulates: bool,
    /// Whether it has a form for the rounding modes other than to nearest.
    rounds: bool,
}

/// An operation's registers, and whether [`finish`] must follow it.
struct Begun {
    frame: Frame,
    special: bool,
}

/// Spreads the sources and, where the step or the wave asks for it, applies modifiers. `mask` is the lane mask that it reads.
/// An error: the instruction is done, or cannot be.
#[inline(never)]
fn begin(w: &mut Wave, e: &mut Env, st: &MicroOp, around: &Around, mask: u64) -> Result<Begun, Flow> {
    let mut frame = Frame { dst: st.dst[0], src: st.src, exec: w.exec(), infinite: ALL_INFINITE };
    if around.accumulates {
        frame.src[around.kinds.len() - 1] = st.dst[0];
    }
    st.spread(w);
    let special = st.imm & flag::MODIFIED != 0 || around.float && w.mode & MODE_MASK != USUAL_MODE;
    if special && let Some(flow) = begin_special(w, e, st, around, mask, &mut frame) {
        return Err(flow);
    }
    Ok(Begun { frame, special })
}

/// With modifiers, or in an unusual mode. Does the whole of an operation that rounds where the mode is not to nearest.
#[inline(never)]
fn begin_special(
    w: &mut Wave,
    e: &mut Env,
    st: &MicroOp,
    around: &Around,
    mask: u64,
    frame: &mut Frame,
) -> Option<Flow> {
    if let Some(flow) = prepare(w, e, st, frame, around.kinds, around.result) {
        return Some(flow);
    }
    let result = around.result.filter(|_| around.rounds && w.mode & ROUNDING != 0)?;
    if directed::run(w, st.inst.op, frame, around.kinds, result, mask) {
        finish(w, st, frame, result);
        return Some(Flow::Next);
    }
    let products = "a rounding mode other than to nearest, for sums of products";
    st.inst.op.facts().nearest_only.then(|| e.fail(FaultKind::Unsupported(products)))
}

/// Stores the results of all lanes that the wave has, and does to them what modifiers ask for.
struct End<'a, R, C> {
    w: &'a mut Wave,
    st: &'a MicroOp,
    begun: &'a Begun,
    results: &'a [R],
    cpu: PhantomData<C>,
}

impl<R: Word, C: Cpu> Body for End<'_, R, C> {
    #[inline(always)]
    fn run(self) {
        let Begun { frame, special } = self.begun;
        R::store::<C>(self.w, frame.dst, self.results, frame.exec);
        if *special {
            finish(self.w, self.st, frame, R::KIND);
        }
    }
}

#[inline(always)]
fn end<R: Word, C: Cpu>(w: &mut Wave, st: &MicroOp, begun: &Begun, results: &[R]) {
    C::outlined(End::<R, C> { w, st, begun, results, cpu: PhantomData });
}

/// One value for each lane, not yet written. A result is gathered here and then stored, because a loop that wrote the
/// register file while it reads it could not become vector code; 64 lanes at once, because loops of 16 are unrolled before
/// the vectoriser sees them, and what is then pieced together from scalars was up to four times slower.
type Unwritten<T> = [MaybeUninit<T>; LANES];

/// Lanes that the wave has, 64 or 32: what stands behind them is nobody's, and nothing is computed from it.
#[inline(always)]
fn lanes_of(w: &Wave) -> usize {
    if w.lanes == LANES { LANES } else { LANES / 2 }
}

/// Fills `out` by a function of the lane, for so many lanes.
#[inline(always)]
fn fill<T: Copy>(out: &mut Unwritten<T>, lanes: usize, value: impl Fn(usize) -> T) -> &mut [T] {
    let out = &mut out[..lanes];
    for (i, out) in out.iter_mut().enumerate() {
        out.write(value(i));
    }
    // SAFETY: the loop wrote every element of the slice, and `MaybeUninit<T>` has the layout of `T`.
    unsafe { &mut *(&raw mut *out as *mut [T]) }
}

/// Puts right the NaNs among the results. The common case, that there are none, costs one pass.
#[inline(always)]
fn settle<S: Sources, R: Word>(sources: &S::Registers<'_>, r: &mut [R]) {
    let mut any = 0u32;
    for x in r.iter() {
        any |= u32::from(x.is_nan());
    }
    if any != 0 {
        settle_some(S::KINDS, sources.as_ref(), r);
    }
}

#[cold]
#[inline(never)]
fn settle_some<R: Word>(kinds: &[Kind], sources: &[Registers<'_>], r: &mut [R]) {
    for (i, r) in r.iter_mut().enumerate().filter(|(_, r)| r.is_nan()) {
        let (low, high) = nan_of_sources(kinds, sources, i, R::KIND == Kind::F64);
        *r = R::from_bits(low, high);
    }
}

/// The results of all lanes that the wave has.
#[inline(always)]
fn compute<'a, O: Op, C: Cpu>(w: &Wave, src: &[u16; 4], out: &'a mut Unwritten<O::R>) -> &'a [O::R] {
    let sources = O::S::registers(w, src);
    let r = fill(out, lanes_of(w), |i| O::lane::<C>(O::S::lane(&sources, i)));
    if O::PROPERTIES & property::NAN != 0 {
        settle::<O::S, O::R>(&sources, r);
    }
    r
}

#[inline(always)]
pub(super) fn run<O: Op, C: Cpu>(w: &mut Wave, e: &mut Env, st: &MicroOp) -> Flow {
    let around = const {
        let float = any_float(O::S::KINDS) || O::R::KIND.is_float();
        let accumulates = O::PROPERTIES & property::ACC != 0;
        &Around { kinds: O::S::KINDS, result: Some(O::R::KIND), float, accumulates, rounds: float }
    };
    let begun = match begin(w, e, st, around, 0) {
        Ok(begun) => begun,
        Err(flow) => return flow,
    };
    let mut out = [const { MaybeUninit::uninit() }; LANES];
    let results = compute::<O, C>(w, &begun.frame.src, &mut out);
    end::<O::R, C>(w, st, &begun, results);
    Flow::Next
}

/// As many kinds as a packed f32 operation has sources.
static PAIRS: [Kind; 3] = [Kind::PkF32; 3];
/// And those of each half.
static SINGLES: [Kind; 3] = [Kind::F32; 3];

/// A packed f32 operation: an f32 one on both registers of each pair.
#[inline(always)]
pub(super) fn run_pairs<O: Op, C: Cpu>(w: &mut Wave, e: &mut Env, st: &MicroOp) -> Flow {
    let around = const {
        let kinds = PAIRS.split_at(O::S::KINDS.len()).0;
        &Around { kinds, result: Some(Kind::PkF32), float: true, accumulates: false, rounds: false }
    };
    let Begun { frame, special } = match begin(w, e, st, around, 0) {
        Ok(begun) => begun,
        Err(flow) => return flow,
    };
    let mut upper = frame.src;
    for register in &mut upper {
        *register += 1;
    }
    if special && w.mode & ROUNDING != 0 {
        let halves = [Frame { src: upper, dst: frame.dst + 1, ..frame }, frame];
        let kinds = &SINGLES[..O::S::KINDS.len()];
        if halves.iter().all(|half| directed::run(w, st.inst.op, half, kinds, Kind::F32, 0)) {
            finish(w, st, &frame, Kind::PkF32);
            return Flow::Next;
        }
    }
    let mut out = [[const { MaybeUninit::uninit() }; LANES]; 2];
    let [low, high] = &mut out;
    let low = compute::<O, C>(w, &frame.src, low);
    let high = compute::<O, C>(w, &upper, high);
    O::R::store::<C>(w, frame.dst, low, frame.exec);
    O::R::store::<C>(w, frame.dst + 1, high, frame.exec);
    if special {
        finish(w, st, &frame, Kind::PkF32);
    }
    Flow::Next
}

/// The lanes' conditions as a mask.
#[inline(always)]
fn gather(lanes: usize, condition: impl Fn(usize) -> bool) -> u64 {
    // Bytes, then bits: a loop over bits would be scalar.
    let mut bytes = [0u8; LANES];
    for (i, byte) in bytes[..lanes].iter_mut().enumerate() {
        *byte = u8::from(condition(i));
    }
    pack(&bytes)
}

/// A bit for each byte, which is 0 or 1.
#[inline(always)]
fn pack(bytes: &[u8; LANES]) -> u64 {
    let mut mask = 0u64;
    for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // The product moves bit 0 of byte k to bit 56 + k.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * i);
    }
    mask
}

/// Writes a lane mask, as wide as the wave.
#[inline(always)]
pub(super) fn set_mask(w: &mut Wave, st: &MicroOp, register: u16, mask: u64) {
    if st.imm & flag::MASK32 != 0 { w.set_s32(register, mask as u32) } else { w.set_s64(register, mask) }
}

/// Writes a comparison's mask. Lanes that are switched off compare as false.
pub(super) fn end_compare(w: &mut Wave, st: &MicroOp, exec: u64, mut mask: u64) {
    if st.imm & (flag::NOT | flag::NEVER) != 0 {
        mask = if st.imm & flag::NEVER != 0 { 0 } else { mask };
        mask = if st.imm & flag::NOT != 0 { !mask } else { mask };
    }
    mask &= exec;
    set_mask(w, st, st.dst[0], mask);
    if st.imm & flag::EXEC != 0 {
        w.set_s64(scalar::EXEC, mask);
    }
}

#[inline(always)]
pub(super) fn run_compare<O: Compare>(w: &mut Wave, e: &mut Env, st: &MicroOp) -> Flow {
    let around = const {
        &Around { kinds: O::S::KINDS, result: None, float: any_float(O::S::KINDS), accumulates: false, rounds: false }
    };
    let frame = match begin(w, e, st, around, 0) {
        Ok(begun) => begun.frame,
        Err(flow) => return flow,
    };
    let sources = O::S::registers(w, &frame.src);
    let mask = gather(lanes_of(w), |i| O::lane(O::S::lane(&sources, i)));
    end_compare(w, st, frame.exec, mask);
    Flow::Next
}

#[inline(always)]
pub(super) fn run_mask<O: MaskOp, C: Cpu>(w: &mut Wave, e: &mut Env, st: &MicroOp) -> Flow {
    let around = const {
        let float = any_float(O::S::KINDS) || O::R::KIND.is_float();
        let rounds = float && !O::WRITES;
        &Around { kinds: O::S::KINDS, result: Some(O::R::KIND), float, accumulates: false, rounds }
    };
    let mask = if O::READS { st.s64(w, O::S::KINDS.len()) } else { 0 };
    let begun = match begin(w, e, st, around, mask) {
        Ok(begun) => begun,
        Err(flow) => return flow,
    };
    let sources = O::S::registers(w, &begun.frame.src);
    // The mask bit of a lane by shifts of 32 bits, which vector code has for every lane.
    let halves = [mask as u32, (mask >> 32) as u32];
    let bit = |i: usize| halves[i / 32] >> (i % 32) & 1 != 0;
    let mut out = [const { MaybeUninit::uninit() }; LANES];
    let lanes = lanes_of(w);
    let r = fill(&mut out, lanes, |i| O::lane::<C>(O::S::lane(&sources, i), bit(i)).0);
    if O::PROPERTIES & property::NAN != 0 {
        settle::<O::S, O::R>(&sources, r);
    }
    let written = O::WRITES.then(|| gather(lanes, |i| O::lane::<C>(O::S::lane(&sources, i), bit(i)).1));
    end::<O::R, C>(w, st, &begun, r);
    if let Some(written) = written {
        set_mask(w, st, st.dst[1], written & begun.frame.exec);
    }
    Flow::Next
}

/// Instantiates a driver for an operation: `$all` at every level; `$narrow` with the AVX2 form for AVX-512 hosts too, which
/// for the many rare operations is a third less to compile.
macro_rules! handlers {
    ($all:ident, $narrow:ident, $bound:path, |$o:ident, $c:ident, $w:ident, $e:ident, $st:ident| $body:expr) => {
        pub(super) fn $narrow<$o: $bound>() -> Handlers {
            fn baseline<$o: $bound>($w: &mut Wave, $e: &mut Env, $st: &MicroOp) -> Flow {
                type $c = Baseline;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                fn avx2<$o: $bound>($w: &mut Wave, $e: &mut Env, $st: &MicroOp) -> Flow {
                    type $c = Avx2;
                    $body
                }
                Handlers { baseline: baseline::<$o>, avx2: avx2::<$o>, avx512: avx2::<$o> }
            }
            #[cfg(not(target_arch = "x86_64"))]
            Handlers::same(baseline::<$o>)
        }

        #[allow(dead_code)] // Some have their best form on vectors.
        pub(super) fn $all<$o: $bound>() -> Handlers {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            fn avx512<$o: $bound>($w: &mut Wave, $e: &mut Env, $st: &MicroOp) -> Flow {
                type $c = Avx512;
                $body
            }
            Handlers {
                #[cfg(target_arch = "x86_64")]
                avx512: avx512::<$o>,
                ..$narrow::<$o>()
            }
        }
    };
}

handlers!(op_handlers, op_narrow, Op, |O, C, w, e, st| run::<O, C>(w, e, st));
handlers!(pair_handlers, pair_narrow, Op, |O, C, w, e, st| run_pairs::<O, C>(w, e, st));
handlers!(mask_handlers, mask_narrow, MaskOp, |O, C, w, e, st| run_mask::<O, C>(w, e, st));
handlers!(compare_handlers, compare_narrow, Compare, |O, C, w, e, st| {
    let _: Option<C> = None;
    run_compare::<O>(w, e, st)
});

/// How a class wants its operation selected, before the instruction's modifiers are known.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    handlers: Handlers,
    kinds: &'static [Kind],
    /// `None`: a lane mask.
    result: Option<Kind>,
    reads_mask: bool,
    flags: i64,
}

impl Choice {
    /// An operation.
    pub(crate) fn op<O: Op>() -> Choice {
        let result = Some(O::R::KIND);
        Choice { handlers: op_narrow::<O>(), kinds: O::S::KINDS, result, reads_mask: false, flags: 0 }
    }

    /// A frequent operation that has a form on vectors.
    pub(crate) fn fast<O: vector::Hot>() -> Choice {
        Choice { handlers: vector::op_handlers::<O>(), ..Choice::op::<O>() }
    }

    /// A frequent operation on pairs of registers that has a form on vectors.
    pub(crate) fn wide<O: vector::HotPair>() -> Choice {
        Choice { handlers: vector::wide_handlers::<O>(), ..Choice::op::<O>() }
    }

    /// A frequent operation, with a form of its own for AVX-512.
    pub(crate) fn hot<O: Op>() -> Choice {
        Choice { handlers: op_handlers::<O>(), ..Choice::op::<O>() }
    }

    /// A frequent f32 operation on both registers of pairs.
    pub(crate) fn pairs<O: vector::Hot<R = f32>>() -> Choice {
        let kinds = &PAIRS[..O::S::KINDS.len()];
        Choice { handlers: vector::pair_handlers::<O>(), kinds, result: Some(Kind::PkF32), reads_mask: false, flags: 0 }
    }

    /// An operation on masks.
    pub(crate) fn mask<O: MaskOp>() -> Choice {
        let result = Some(O::R::KIND);
        Choice { handlers: mask_narrow::<O>(), kinds: O::S::KINDS, result, reads_mask: O::READS, flags: 0 }
    }

    /// A frequent operation on masks that has a form on vectors.
    pub(crate) fn hot_mask<O: vector::HotMask>() -> Choice {
        Choice { handlers: vector::mask_handlers::<O>(), ..Choice::mask::<O>() }
    }

    /// A comparison, with flags of [`flag`].
    pub(crate) fn compare<O: Compare>(flags: i64) -> Choice {
        Choice { handlers: compare_narrow::<O>(), kinds: O::S::KINDS, result: None, reads_mask: false, flags }
    }

    /// A frequent comparison that has a form on vectors.
    pub(crate) fn hot_compare<O: vector::HotCompare>(flags: i64) -> Choice {
        Choice { handlers: vector::compare_handlers::<O>(), ..Choice::compare::<O>(flags) }
    }

    /// With flags of [`flag`]; one that merges results counts as a modifier.
    pub(crate) fn with(self, flags: i64) -> Choice {
        Choice { flags: self.flags | flags | flag::MODIFIED, ..self }
    }

    /// A result of 16 bits leaves the other half of its register alone, as all do on RDNA.
    pub(crate) fn keep_half(self) -> Choice {
        match self.result {
            Some(Kind::B16 | Kind::F16) => self.with(flag::KEEP_HALF),
            Some(
                Kind::B32 | Kind::F32 | Kind::B64 | Kind::F64 | Kind::PkB16 | Kind::PkF16 | Kind::PkF32 | Kind::Mix,
            )
            | None => self,
        }
    }

    /// For the instruction at hand.
    pub(crate) fn select(self, inst: &Inst) -> Selected {
        let mut roles = [Role::Lanes(crate::step::Constant::B32); 4];
        for (i, kind) in self.kinds.iter().enumerate() {
            let half = *kind == Kind::Mix && inst.mods.op_sel_hi >> i & 1 != 0;
            roles[i] = Role::Lanes(if half { crate::step::Constant::B16 } else { kind.constant() });
        }
        if self.reads_mask {
            roles[self.kinds.len()] = Role::Scalar(crate::step::Constant::B64);
        }
        let modified = if is_modified(inst, self.kinds) { flag::MODIFIED } else { 0 };
        let signs = if self.flags & flag::MODIFIED == 0 && has_only_signs(inst, self.kinds) { flag::SIGNS } else { 0 };
        let mask = if self.result.is_some() { &inst.dst[1] } else { &inst.dst[0] };
        let mask = if mask.dwords == 1 { flag::MASK32 } else { 0 };
        Selected { handlers: self.handlers, roles, imm: self.flags | modified | signs | mask }
    }
}
