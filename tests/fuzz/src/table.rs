//! What is known of an operator: one row each.
//!
//! A row says what the operator takes, how its operands and parameters are chosen ([`Rule`]), how near its result must be
//! ([`Numerics`]), and how it is called. The call's text is kept beside it, so that a program can be printed as Rust. Adding an
//! operator is adding a row.

/// What kind of tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Floats.
    Float,
    /// Integers.
    Int,
    /// Bools.
    Bool,
}

/// How near a result must be to that of the reference, which computes float operators in f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numerics {
    /// The same numbers (a NaN is a NaN, zeros are equal): moves, comparisons, integers, and what one rounding decides.
    Exact,
    /// Within so many units in the last place of the number in f64.
    Units(f64),
    /// As [`Numerics::Units`], of the reciprocal of a sum: 0 where the sum leaves the range, of f32 at least.
    Reciprocal(f64),
    /// Each element is a sum of products: its error is bounded by the sum of their magnitudes, which the same operator on
    /// magnitudes gives.
    Sum,
    /// As [`Numerics::Sum`], of what is divided by the number of its terms after it was rounded to the type.
    Mean,
    /// As [`Numerics::Sum`], of what is divided by the number of its terms, whose sum may leave the range where the result does not.
    Average,
    /// As [`Numerics::Sum`], of sums that were rounded to the type: Candle adds up what a product of matrices made.
    SumOfRounded,
    /// A sum of products some of which are logarithms: a product. Judged while no order of factors leaves the type's range.
    Product,
    /// A product of rows whose 32 elements become whole numbers up to 127 of the greatest, with weights `[outputs, length]`.
    Codes,
    /// As near as the operator's result is to itself when its operands change in their last place, times 8, and 8 units in
    /// the last place of the largest element: what is composed of several steps.
    Conditioned,
    /// As [`Numerics::Conditioned`], of what takes squares of its operands: judged while those stay in the range of f32.
    Squares,
    /// As [`Numerics::Conditioned`], of the logarithm of a sum that is at least 1: rounding the sum is an absolute error.
    LogOfSum,
    /// As [`Numerics::Conditioned`], of an operand times a number of size 1 that is added to 1: where that comes to nearly
    /// nothing, what is left of it is rounding, the reference's in f64 at least, and the type's where ours cancels too.
    Cancelling {
        /// Whether our own formula cancels.
        ours: bool,
    },
    /// As [`Numerics::Conditioned`], of a gradient that is what arrives, which is the last operand, times numbers of size 1 that
    /// are subtracted from each other.
    Slope {
        /// Whether sums of what arrives are among them, which come to nothing in the end: at the largest of a softmax's row.
        sums: bool,
    },
    /// As [`Numerics::Conditioned`], of a gradient that is a sum of products, as that of what is linear: judged where the same
    /// operator on magnitudes stays in the type's range, since partial sums do then. Each is off by as much as a sum may be.
    Terms,
    /// As [`Numerics::Conditioned`], of elements at computed places, whose fractions are weights: a place is rounded by a unit of its
    /// axis' length, however little what it is made of is.
    Sampled,
    /// The mean square distance from the mean, which is rounded to the type before it is subtracted.
    Variance,
    /// As [`Numerics::Conditioned`], of a product's gradient, which Burn takes as the quotient of the product by the factor:
    /// judged while neither leaves the type's range.
    Quotient,
    /// As [`Numerics::Exact`], where the reference is given integers of 64 bits, so that it wraps nowhere in between.
    Wide,
    /// Places of elements in order: where elements are equal, any of their places serves. Elements are exact.
    Order,
    /// Not compared with the reference, for the reason given; its bits still have to be the same fused, unfused and again.
    Unjudged(&'static str),
}

/// How operands and parameters are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Operands broadcast with each other, those of one kind have one type.
    Elementwise,
    /// As [`Rule::Elementwise`], of one shape.
    Same,
    /// One operand and a number of its kind: `p.scalar`.
    Scalar,
    /// One operand and a whole number from 0 to 4.
    WholeScalar,
    /// One operand and `p.scalar <= p.scalar2`.
    Clamp,
    /// One operand and `p.axis`; `p.flag` besides.
    Axis,
    /// As [`Rule::Axis`], of an operand that has elements.
    AxisOfSome,
    /// An operand that has elements.
    Some,
    /// One operand and `p.axes`, some of its axes in turn.
    Axes,
    /// `p.dtype` of another kind or width. Floats are finite and in the range of integers where those are asked for.
    Cast(Kind),
    /// `p.axis` and `p.axis2`.
    Swap,
    /// `p.axes` is an order of all.
    Permute,
    /// `p.axes` are some.
    Flip,
    /// `p.shape` has as many elements.
    Reshape,
    /// `p.shape` is broadcast to.
    Expand,
    /// `p.slices`.
    Slice,
    /// `p.slices`, and a second operand of the slice's shape.
    SliceAssign,
    /// `p.axis`, and `p.size` and `p.step` of windows along it.
    Unfold,
    /// `p.axis` and `p.size` times.
    Repeat,
    /// Operands that differ at `p.axis` only.
    Cat,
    /// `p.pads` for each axis.
    Pad,
    /// A tensor and indices along `p.axis`, of its shape but for that axis.
    Gather,
    /// As [`Rule::Gather`], and values of the indices' shape.
    Scatter,
    /// A tensor and a list of indices along `p.axis`.
    Select,
    /// As [`Rule::Select`], and values of the selection's shape.
    SelectAssign,
    /// A tensor, tuples of indices into its first axes.
    GatherNd,
    /// As [`Rule::GatherNd`], and values.
    ScatterNd,
    /// A tensor, a mask and values of its shape.
    MaskWhere,
    /// A tensor, a mask of its shape and `p.scalar`.
    MaskFill,
    /// Matrices whose batches broadcast.
    Matmul,
    /// Rows `[.., length]` of f32 and weights `[outputs, length]`, which come in blocks of so many.
    Quantised(usize),
    /// Vectors of 3 along `p.axis`.
    Cross,
    /// `p.size` of the elements along `p.axis`.
    TopK,
    /// `p.shape` and `p.dtype`: nothing is taken.
    Create,
    /// `[.., width]`, then weights of `[width]`.
    Norm,
    /// `[batch, channels, ..]`, then `[channels]` each; the last two positive.
    BatchNorm,
    /// `[.., in]`, `[in, out]`, `[out]`.
    Linear,
    /// `[count, width]` and indices `[a, b]`.
    Embedding,
    /// `[batch, channels, extents × axes]`, weights, bias: `p.window`.
    Conv(usize),
    /// The same for a transposed convolution.
    ConvTranspose(usize),
    /// `[batch, channels, extents × axes]`: `p.window`.
    Pool(usize),
    /// `[batch, channels, extents × axes]`: `p.shape` of the result's axes.
    Resize(usize),
    /// As [`Rule::Pool`] of two axes whose windows do not reach over the edge.
    Patches,
    /// `[batch, channels, height, width]` and places `[batch, rows, columns, 2]`.
    Sample,
    /// Queries, keys, values `[batch, heads, length, width]`.
    Attention,
    /// `[batch, heads, length, width]`, and cosines and sines of `[length, width / 2]`.
    Rotary,
}

/// An operator.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As the framework calls it.
    pub name: &'static str,
    /// What it takes.
    pub operands: &'static [Kind],
    /// What the operands are called in the call.
    pub arguments: &'static [&'static str],
    /// How to choose them.
    pub rule: Rule,
    /// How to judge it.
    pub numerics: Numerics,
    /// The call, in Rust, of `arguments` and of the parameters as `p.name`.
    pub call: &'static str,
    /// What comes out.
    pub results: &'static str,
}
