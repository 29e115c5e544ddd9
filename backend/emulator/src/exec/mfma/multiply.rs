//! The one routine behind all shapes and types.

use std::marker::PhantomData;

use super::element::{Element, Number, first_of};
use super::layout::{block_of_a, lane_of_b};
use crate::env::Env;
#[cfg(target_arch = "x86_64")]
use crate::numeric::{Avx2, Avx512};
use crate::numeric::{Baseline, Body, Cpu};
use crate::step::{Flow, Handlers, MicroOp};
use crate::wave::{LANES, Wave};
use rocfire_isa::OperandKind;

/// Rows that share a load of B, and columns kept in host registers: 4 × 16 f32 are eight AVX2 registers.
const ROWS: usize = 4;

/// From how many `k` on a tile is a function of its own: with eight it gains a tenth (f16), with two the call takes twice as
/// long as the work (f32).
const OUTLINED_K: usize = 8;

/// What one instruction multiplies: `blocks` times M × K by K × M.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Rows of A and D, columns of B and D.
    pub(crate) m: u8,
    /// Columns of A, rows of B.
    pub(crate) k: u8,
    /// Independent products.
    pub(crate) blocks: u8,
}

impl Shape {
    /// As [`MicroOp::imm`].
    pub(crate) const fn to_imm(self) -> i64 {
        i64::from_le_bytes([self.m, self.k, self.blocks, 0, 0, 0, 0, 0])
    }

    #[inline(always)]
    fn from_imm(imm: i64) -> Shape {
        let [m, k, blocks, ..] = imm.to_le_bytes();
        Shape { m, k, blocks }
    }
}

/// A or B, widened: element `e` of each lane.
type Operand<T, const PER_LANE: usize> = [[T; LANES]; PER_LANE];

/// `D = A · B + C`. Inlined into a handler with a constant shape it becomes code for that shape.
#[inline(always)]
fn mfma<A, B, C, const PER_LANE: usize>(w: &mut Wave, st: &MicroOp, shape: Shape) -> Flow
where
    A: Element,
    B: Element<Wide = A::Wide>,
    C: Cpu,
{
    let mods = &st.inst.mods;
    let mut a: Operand<A::Wide, PER_LANE> = [[A::Wide::default(); LANES]; PER_LANE];
    let mut b = a;
    A::decode_all::<C, PER_LANE>(w, st.src[0] as usize, &mut a);
    B::decode_all::<C, PER_LANE>(w, st.src[1] as usize, &mut b);
    let mut negate_c = false;
    if A::Wide::BLGP_NEGATES {
        // The decoder gives the field as negations, by its name in assembly text.
        let field = mods.neg | mods.blgp;
        let negate = |x: &mut Operand<A::Wide, PER_LANE>| x.iter_mut().flatten().for_each(|x| *x = x.negate());
        if field & 1 != 0 {
            negate(&mut a);
        }
        if field & 2 != 0 {
            negate(&mut b);
        }
        negate_c = field & 4 != 0;
    } else if mods.blgp != 0 {
        for lanes in &mut b {
            let old = *lanes;
            *lanes = std::array::from_fn(|lane| old[lane_of_b(lane, mods.blgp)]);
        }
    }
    let float = matches!(st.inst.src[2].kind, OperandKind::Float(_));
    let constant = st.is_constant(2).then(|| A::Wide::constant(st.k[2], float));
    let blocks = usize::from(shape.blocks);
    for block in 0..blocks {
        let a_block = block_of_a(block, mods.cbsz, mods.abid) % blocks;
        for first in (0..usize::from(shape.m)).step_by(ROWS) {
            let (exact, flushes) = (A::EXACT_PRODUCT && B::EXACT_PRODUCT, A::FLUSHES);
            let tile = Tile { block, a_block, first, negate_c, constant, exact, flushes };
            let (a, b, tile, cpu) = (&a, &b, &tile, PhantomData);
            if shape.m < 16 {
                C::outlined(Columns::<A::Wide, C, 4, PER_LANE> { w, st, shape, a, b, tile, column: 0, cpu });
                continue;
            }
            for column in (0..usize::from(shape.m)).step_by(16) {
                let columns = Columns::<A::Wide, C, 16, PER_LANE> { w, st, shape, a, b, tile, column, cpu };
                if PER_LANE < OUTLINED_K && usize::from(shape.k) < OUTLINED_K {
                    columns.run();
                } else {
                    C::outlined(columns);
                }
            }
        }
    }
    Flow::Next
}

/// Four rows of a block.
struct Tile<T> {
    block: usize,
    a_block: usize,
    /// First row.
    first: usize,
    negate_c: bool,
    /// C, where it is a constant.
    constant: Option<T>,
    /// Whether all products are representable.
    exact: bool,
    /// Whether denormals of C and D become zeros.
    flushes: bool,
}

/// `W` columns of a tile, from `column` on. It is generic over what A and B are widened to, and not over what they are.
struct Columns<'a, T, C, const W: usize, const PER_LANE: usize> {
    w: &'a mut Wave,
    st: &'a MicroOp,
    shape: Shape,
    a: &'a Operand<T, PER_LANE>,
    b: &'a Operand<T, PER_LANE>,
    tile: &'a Tile<T>,
    column: usize,
    cpu: PhantomData<C>,
}

impl<T: Number, C: Cpu, const W: usize, const PER_LANE: usize> Body for Columns<'_, T, C, W, PER_LANE> {
    /// From the lowest `k` up.
    #[inline(always)]
    fn run(self) {
        let Columns { w, st, shape, a, b, tile, column, .. } = self;
        let [m, k, blocks] = [shape.m, shape.k, shape.blocks].map(usize::from);
        let mut acc = [[tile.constant.unwrap_or_default(); W]; ROWS];
        for (r, acc) in acc.iter_mut().enumerate() {
            if tile.constant.is_none() {
                let (register, lane) = place::<T>(m, tile.block, tile.first + r, column, st.src[2]);
                *acc = T::load(w, register, lane);
            }
            if tile.negate_c {
                acc.iter_mut().for_each(|c| *c = c.negate());
            }
            if tile.flushes {
                acc.iter_mut().for_each(|c| *c = c.flush(false));
            }
        }
        for group in 0..k / PER_LANE {
            let from = group * m * blocks + tile.block * m + column;
            let at = group * m * blocks + tile.a_block * m + tile.first;
            if let Some(acc) = as_sixteen(&mut acc) {
                T::accumulate::<C, LANES>(acc, a, at, b, from, tile.exact);
                continue;
            }
            for (a, b) in a.iter().zip(b) {
                let (x, y) = (first_of::<ROWS, _>(&a[at..]), first_of::<W, _>(&b[from..]));
                for r in 0..ROWS {
                    for c in 0..W {
                        acc[r][c] = T::fma::<C>(x[r], y[c], acc[r][c], tile.exact);
                    }
                }
            }
        }
        for (r, mut acc) in acc.into_iter().enumerate() {
            if tile.flushes {
                acc.iter_mut().for_each(|d| *d = d.flush(true));
            }
            let (register, lane) = place::<T>(m, tile.block, tile.first + r, column, st.dst[0]);
            T::store(w, register, lane, acc);
        }
    }
}

/// Register and lane where row `i` of a block begins at `column`, in the operand at `base`.
#[inline(always)]
fn place<T: Number>(m: usize, block: usize, i: usize, column: usize, base: u16) -> (usize, usize) {
    let row = T::row(m, block, i);
    (base as usize + row.register * T::DWORDS, row.lane + column)
}

/// Rows of sixteen columns as such.
#[inline(always)]
fn as_sixteen<T, const W: usize>(acc: &mut [[T; W]; ROWS]) -> Option<&mut [[T; 16]; ROWS]> {
    // Safe code cannot say that W is 16, so it is said by way of the flat slice; the compiler sees through it.
    if W == 16 { acc.as_flattened_mut().as_chunks_mut::<16>().0.first_chunk_mut() } else { None }
}

/// The handlers for any shape (in [`MicroOp::imm`]) of these types, with the AVX2 form for AVX-512 hosts too.
pub(crate) fn any<A, B, const PER_LANE: usize>() -> Handlers
where
    A: Element,
    B: Element<Wide = A::Wide>,
{
    fn baseline<A: Element, B: Element<Wide = A::Wide>, const PER_LANE: usize>(
        w: &mut Wave,
        _: &mut Env,
        st: &MicroOp,
    ) -> Flow {
        mfma::<A, B, Baseline, PER_LANE>(w, st, Shape::from_imm(st.imm))
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn avx2<A: Element, B: Element<Wide = A::Wide>, const PER_LANE: usize>(
            w: &mut Wave,
            _: &mut Env,
            st: &MicroOp,
        ) -> Flow {
            mfma::<A, B, Avx2, PER_LANE>(w, st, Shape::from_imm(st.imm))
        }
        Handlers { baseline: baseline::<A, B, PER_LANE>, avx2: avx2::<A, B, PER_LANE>, avx512: avx2::<A, B, PER_LANE> }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Handlers::same(baseline::<A, B, PER_LANE>)
}

/// The handlers of a frequent instruction of one block, compiled for its shape and for AVX-512 too.
pub(crate) fn hot<A, const M: u8, const K: u8, const PER_LANE: usize>() -> Handlers
where
    A: Element,
{
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn avx2<A: Element, const M: u8, const K: u8, const PER_LANE: usize>(
            w: &mut Wave,
            _: &mut Env,
            st: &MicroOp,
        ) -> Flow {
            mfma::<A, A, Avx2, PER_LANE>(w, st, Shape { m: M, k: K, blocks: 1 })
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn avx512<A: Element, const M: u8, const K: u8, const PER_LANE: usize>(
            w: &mut Wave,
            _: &mut Env,
            st: &MicroOp,
        ) -> Flow {
            mfma::<A, A, Avx512, PER_LANE>(w, st, Shape { m: M, k: K, blocks: 1 })
        }
        Handlers { avx2: avx2::<A, M, K, PER_LANE>, avx512: avx512::<A, M, K, PER_LANE>, ..any::<A, A, PER_LANE>() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    any::<A, A, PER_LANE>()
}
