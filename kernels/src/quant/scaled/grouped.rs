//! `q_matmul_scaled_grouped`: groups of rows of codes, each by a matrix of codes of its own, in rows or laid out, in one launch of
//! `scaled.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Stream, View, ViewMut};

use super::choice::choice;
use super::{
    CodedRows, EndKey, Job, NAMES_OF_A, ScaledArgs, ScaledEnd, ScaledKey, Side, Unit, args, check_depth, check_result,
    check_scales, copies, plain_side, source,
};
use crate::Result;
use crate::family::{self, BOX_LIMIT, KernelLaunch, Sources, shape};
use crate::gemm::{GemmGroups, GroupArgs, matrix_side};
use crate::quant::format::{Format, ScaleKind};
use crate::quant::preshuffle::{PreshuffledMatrices, first_matrix};

pub(super) const OP: &str = "q_matmul_scaled_grouped";

/// Matrices of codes whose rows run along K, one for each group, with a scale for each block of rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct CodedStack<'a> {
    /// How a code is a number: 8 or 4 bits.
    pub format: Format,
    /// u8, K contiguous: `[groups, rows, K]`, or `[groups, rows, K / 2]` for 4 bits, the even column in the low half.
    pub codes: View<'a>,
    /// `[groups, ceil(rows / block[0]), ceil(K / block[1])]`, any strides.
    pub scales: View<'a>,
    /// The type of the scales.
    pub kind: ScaleKind,
    /// Rows and columns of a matrix that share a scale, as [`CodedRows`] has them.
    pub block: [usize; 2],
}

/// How the matrices of a product lie.
enum Matrices<'a> {
    Rows(CodedStack<'a>),
    LaidOut(PreshuffledMatrices<'a>),
}

/// `c[rows of g] = a[rows of g] · b[g]ᵀ` of codes and their scales for every group `g`.
///
/// # Shapes
/// `a`: rows of K codes; with [`GemmGroups::Counts`] those of all groups, one after the other, as many of each. `b`: of that K, N rows
/// each; `c`: `[rows, N]`, with counts `[groups, rows, N]`, whose first two axes form one. Rows of no group are left as they are;
/// offsets, counts and choices outside of what there is are held inside it. Of the two blocks' columns one divides the other.
/// # Types
/// As [`q_matmul_scaled`](super::q_matmul_scaled()).
/// # Numerics
/// As [`q_matmul_scaled`](super::q_matmul_scaled()) by our own kernel, always: each row has the bits that it would have there alone.
/// # Errors
/// As [`q_matmul_scaled`](super::q_matmul_scaled()) and [`gemm_grouped`](crate::gemm::gemm_grouped).
pub fn q_matmul_scaled_grouped(
    stream: &Stream,
    a: &CodedRows<'_>,
    b: &CodedStack<'_>,
    groups: &GemmGroups<'_>,
    c: ViewMut<'_>,
) -> Result<()> {
    multiply(stream, a, Matrices::Rows(*b), groups, c)
}

/// [`q_matmul_scaled_grouped`] by matrices that were laid out once: the same bits. Where the matrix unit takes their codes as they are,
/// they go from memory to its operands, past LDS.
///
/// # Errors
/// As there.
pub fn q_matmul_preshuffled_grouped(
    stream: &Stream,
    a: &CodedRows<'_>,
    b: &PreshuffledMatrices<'_>,
    groups: &GemmGroups<'_>,
    c: ViewMut<'_>,
) -> Result<()> {
    let b = if b.weight.is_laid_out() { Matrices::LaidOut(*b) } else { Matrices::Rows(b.plain()) };
    multiply(stream, a, b, groups, c)
}

fn multiply(
    stream: &Stream,
    a: &CodedRows<'_>,
    b: Matrices<'_>,
    groups: &GemmGroups<'_>,
    c: ViewMut<'_>,
) -> Result<()> {
    check_result(OP, stream, &c)?;
    let a = plain_side(OP, stream, NAMES_OF_A, a, &c)?;
    let Some((b, stack)) = matrices(stream, &b, &c)? else { return Ok(()) };
    let k = check_depth(OP, &a, &b)?;
    let codes = lines_of(&a, groups, stack.count)?;
    let bytes = codes.shape().last().copied().expect("codes have two axes at least");
    groups.check(OP, stream, &codes, [stack.count, bytes, b.rows], ("c", &c))?;
    if c.is_empty() {
        return Ok(());
    }
    let mut copy = None;
    let ([codes, c], each) = groups.lined_up(OP, stream, [codes, c.view()], &mut copy)?;
    let rows = c.shape()[0];
    if rows >= BOX_LIMIT || b.rows >= BOX_LIMIT {
        return Err(shape(OP, "c", format!("extents below {BOX_LIMIT}"), format!("{:?}", c.shape())));
    }
    // Groups are not alike: one of twice as many rows as the mean should not need another tile.
    let wanted = 2 * rows.div_ceil(stack.count);
    let job = Job { stream, a: &a, b: &b, size: [wanted, b.rows, k], end: ScaledEnd::default() };
    let (device, info) = (stream.device(), stream.device().arch().info());
    let matrix = device.config().matrix && matrix_side(info, rocfire_hal::DType::BF16) != 0;
    // K is never cut, as no number of workgroups is too few.
    let choice = choice(info, matrix, 0, &job);
    let told = groups.told(&codes, [rows, each], choice.block[0]);
    let vector = [a.vector(), b.vector() && (stack.group_bytes % 16 == 0 || stack.count == 1)];
    let key = ScaledKey {
        a: a.format,
        b: b.format,
        output: c.dtype(),
        matrix,
        unit: choice.unit,
        sub: choice.sub,
        tiles: choice.tiles,
        across: choice.across,
        vector,
        path: choice.path,
        words: choice.unit == Unit::Mx && a.words() && b.words() && stack.scale_bytes % 4 == 0,
        whole: choice.is_whole(&a, &b, k),
        one_sum: choice.one_sum,
        sliced: false,
        copies: copies(info, choice.unit, vector),
        grouping: Some(told.grouping),
        end: EndKey::default(),
    };
    static SOURCES: Sources<ScaledKey> = Sources::new();
    let source = SOURCES.get(key, source);
    let product = ScaledArgs { m: rows as u32, rounds: choice.rounds as u32, ..args(&job, &c) };
    let grid = told.grid(OP, [rows, b.rows], choice.block)?;
    let shape = [rows, b.rows, k];
    let flops = 2 * shape.iter().product::<usize>() as u64;
    let work = Work { category: Category::Gemm, shape: &shape, flops, ..Work::default() };
    let threads = if matrix { 4 * info.wave_size as usize } else { 256 };
    let launch = KernelLaunch::new(stream, &source, (OP, "q_scaled"), grid, [threads, 1, 1]);
    let args = GroupedScaledArgs { product, groups: told.args(each, [stack.group_bytes, stack.scale_bytes]) };
    // SAFETY:
    // - `GroupedScaledArgs` is the twin of the kernel's struct, sizes asserted on both sides. Groups that the kernel finds in `bounds`, of
    //   `groups` or one more elements, are held inside of the rows of A and C; choices, one for each row of C, inside of the rows of A. It
    //   reads A and its scales at those rows, matrices of groups below `groups` at rows below N, codes below K, and their scales: checked
    //   views all.
    // - It writes C only.
    unsafe { launch.with(key.lds_bytes(), work).run_bytes(bytemuck::bytes_of(&args), &[c.buffer()]) }
}

/// How many matrices there are, and how far it is from one's codes and scales to the next one's.
struct Stack {
    count: usize,
    group_bytes: i64,
    scale_bytes: i64,
}

/// The first of the matrices, checked, and where the others are; `None` where there is none.
fn matrices<'a>(stream: &Stream, b: &Matrices<'a>, c: &View<'_>) -> Result<Option<(Side<'a>, Stack)>> {
    let (arg, codes, scales, kind) = match b {
        Matrices::Rows(b) => ("b.codes", b.codes, b.scales, b.kind),
        Matrices::LaidOut(b) => ("b.weight", b.weight.memory().view(), b.scales, b.kind),
    };
    let has_axes = [matches!(b, Matrices::LaidOut(_)) || codes.layout().rank() == 3, scales.layout().rank() == 3];
    for ((arg, view), has_axes) in [(arg, &codes), ("b.scales", &scales)].into_iter().zip(has_axes) {
        if !has_axes {
            return Err(shape(OP, arg, "three axes, groups and a matrix", format!("{:?}", view.shape())));
        }
        family::disjoint(OP, arg, c, view)?;
    }
    let count = codes.shape()[0];
    if scales.shape()[0] != count {
        return Err(shape(OP, "b.scales", format!("those of {count} groups"), format!("{:?}", scales.shape())));
    }
    if count == 0 {
        return Ok(None);
    }
    let group_bytes = codes.layout().strides()[0];
    let scale_bytes = scales.layout().strides()[0] * kind.dtype().size_bytes() as i64;
    let of_first = first_matrix(&scales)?;
    let side = match b {
        Matrices::Rows(CodedStack { format, block, .. }) => {
            let codes = first_matrix(&codes)?;
            let one = CodedRows { format: *format, codes, scales: of_first, kind, block: *block };
            plain_side(OP, stream, ["b.codes", "b.scales", "b.block"], &one, c)?
        }
        Matrices::LaidOut(PreshuffledMatrices { weight, block, .. }) => {
            family::on_device(OP, arg, stream, &codes)?;
            let [_, rows, k] = weight.shape();
            let row_bytes = codes.layout().strides()[1];
            let (format, laid_out) = (weight.format(), true);
            let side = Side { format, codes, rows, k, row_bytes, laid_out, scales: of_first, kind, block: *block };
            check_scales(OP, stream, ["b.scales", "b.block"], &side, c)?;
            side
        }
    };
    Ok(Some((side, Stack { count, group_bytes, scale_bytes })))
}

/// The codes of A as groups have them: those that are counted have an axis of their own.
fn lines_of<'a>(a: &Side<'a>, groups: &GemmGroups<'_>, count: usize) -> Result<View<'a>> {
    let GemmGroups::Counts(_) = groups else { return Ok(a.codes) };
    let &[rows, bytes] = a.codes.shape() else { unreachable!("two axes were checked") };
    if !rows.is_multiple_of(count) {
        return Err(shape(OP, "a.codes", format!("as many rows for each of {count} groups"), rows));
    }
    let lies = a.codes.layout().reshape(&[count, rows / count, bytes]).expect("an axis is parted");
    Ok(a.codes.with_layout(lies)?)
}

/// `ScaledArgs` of `scaled.hip` where products are grouped.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GroupedScaledArgs {
    product: ScaledArgs,
    groups: GroupArgs,
}
const _: () = assert!(size_of::<GroupedScaledArgs>() == 248);
