//! What a convolution looks at: its parameters, their checks, and which element of the input a place and a tap meet in.

use rocfire_hal::{Dims, View};

use crate::Result;
use crate::family::shape;

/// Spatial axes that the kernels know; fewer are preceded by axes of one element.
pub(crate) const AXES: usize = 3;
/// Axis of the first spatial extent in `[batch, channels, spatial…]`.
pub(crate) const SPATIAL: usize = 2;
/// Coordinates stay within this before they are checked, so that a kernel's sums of two do not overflow.
const COORDINATE_MAX: usize = 1 << 29;
/// Elements that one image may span: offsets within it are 32 bits wide.
const IMAGE_MAX: i64 = 1 << 31;

/// Stride, padding, dilation per spatial axis, and groups.
#[derive(Clone, Copy, Debug)]
pub struct ConvParams<'a> {
    /// From one window to the next, in elements; not 0.
    pub stride: &'a [usize],
    /// Zeros before the first and behind the last element.
    pub padding: &'a [(usize, usize)],
    /// From one element of a window to the next; not 0.
    pub dilation: &'a [usize],
    /// Groups of channels that do not see each other; not 0.
    pub groups: usize,
}

/// The spatial part of a convolution, widened to [`AXES`] axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub stride: [usize; AXES],
    pub padding: [usize; AXES],
    pub dilation: [usize; AXES],
    pub kernel: [usize; AXES],
    /// Extents of the input.
    pub input: [usize; AXES],
    /// Extents of the output.
    pub output: [usize; AXES],
    pub batch: usize,
    pub groups: usize,
    /// Channels of the input and of the output within one group.
    pub channels: [usize; 2],
}

/// Where place `p` and tap `t` of an axis meet: at coordinate `p · mul + t · dil + off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub places: [usize; AXES],
    pub taps: [usize; AXES],
    pub mul: [i32; AXES],
    pub dil: [i32; AXES],
    pub off: [i32; AXES],
}

impl Window {
    /// How many axes, 2 or 3, may have more than one element over an input of these extents.
    pub(crate) fn axes(&self, input: [usize; AXES]) -> u8 {
        let flat = input[0] == 1 && self.places[0] <= 1 && self.taps[0] <= 1 && self.off[0] == 0;
        if flat { 2 } else { 3 }
    }
}

/// One residue of a strided convolution's input gradient: the elements `first + stride · j`, and the taps that reach them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residue {
    pub window: Window,
    /// The first element of each axis.
    pub first: [usize; AXES],
    /// The first tap of each axis, and from one to the next.
    pub first_tap: [usize; AXES],
    pub tap_step: [usize; AXES],
}

/// The shape of the convolution, named `op` in errors, of `x` (`[batch, channels, spatial…]`) with `weight` (`[channels_out, channels / groups,
/// kernel…]`).
///
/// # Errors
/// `Shape` for ranks, channels, groups or parameters that do not fit; a window larger than the padded input gives no places,
/// not an error.
pub fn conv_output_shape(
    op: &'static str,
    x: &[usize],
    weight: &[usize],
    params: &ConvParams<'_>,
) -> Result<Vec<usize>> {
    Ok(output_dims(op, x, weight, params)?.to_vec())
}

/// [`conv_output_shape`] without a heap allocation.
fn output_dims(op: &'static str, x: &[usize], weight: &[usize], params: &ConvParams<'_>) -> Result<Dims> {
    check_params(op, x.len(), params)?;
    check_weight(op, weight, x.len(), params.groups)?;
    if x[1] != weight[1] * params.groups {
        let expected = format!("[batch, {}, spatial…] for a weight of {weight:?}", weight[1] * params.groups);
        return Err(shape(op, "x", expected, format!("{x:?}")));
    }
    let mut out = [x[0], weight[0], 0, 0, 0];
    for axis in 0..x.len() - SPATIAL {
        let (before, after) = params.padding[axis];
        let reach = params.dilation[axis].saturating_mul(weight[SPATIAL + axis] - 1).saturating_add(1);
        let padded = x[SPATIAL + axis].saturating_add(before).saturating_add(after);
        out[SPATIAL + axis] = padded.checked_sub(reach).map_or(0, |free| free / params.stride[axis] + 1);
    }
    Ok(Dims::new(&out[..x.len()])?)
}

fn check_params(op: &'static str, rank: usize, params: &ConvParams<'_>) -> Result<()> {
    let axes = rank.saturating_sub(SPATIAL);
    if !(1..=AXES).contains(&axes) {
        return Err(shape(op, "x", "[batch, channels, 1 to 3 spatial axes]", format!("rank {rank}")));
    }
    let lengths = [params.stride.len(), params.padding.len(), params.dilation.len()];
    if lengths != [axes; 3] {
        return Err(shape(op, "params", format!("{axes} strides, paddings, dilations"), format!("{lengths:?}")));
    }
    if params.stride.contains(&0) || params.dilation.contains(&0) || params.groups == 0 {
        let got = format!("{:?}, {:?}, {}", params.stride, params.dilation, params.groups);
        return Err(shape(op, "params", "strides, dilations and groups of at least 1", got));
    }
    Ok(())
}

fn check_weight(op: &'static str, weight: &[usize], rank: usize, groups: usize) -> Result<()> {
    let fits = weight.len() == rank && weight[0].is_multiple_of(groups) && !weight[SPATIAL..].contains(&0);
    if fits {
        return Ok(());
    }
    let expected = format!("of rank {rank}, axis 0 a multiple of {groups}, a kernel of at least one element");
    Err(shape(op, "weight", expected, format!("{weight:?}")))
}

impl Geometry {
    /// Checks the three shapes against each other and the parameters: `x` convolved with `weight` is `y`.
    ///
    /// `exact`: whether `y` must be what [`conv_output_shape`] says; a transposed convolution may ask for more room at the end
    /// of `x` than its input has windows for.
    pub(crate) fn new(
        op: &'static str,
        x: &[usize],
        weight: &[usize],
        y: &[usize],
        params: &ConvParams<'_>,
        exact: bool,
    ) -> Result<Geometry> {
        let expected = output_dims(op, x, weight, params)?;
        let fits = y.len() == x.len() && y[..SPATIAL] == expected[..SPATIAL];
        if !fits || (0..y.len()).any(|axis| y[axis] > expected[axis] || (exact && y[axis] != expected[axis])) {
            return Err(shape(op, "y", format!("{expected:?}"), format!("{y:?}")));
        }
        let wide = |from: &[usize]| {
            let mut to = [1; AXES];
            to[AXES - from.len()..].copy_from_slice(from);
            to
        };
        let mut padding = [0; AXES];
        for (to, &(before, _)) in padding[AXES - params.padding.len()..].iter_mut().zip(params.padding) {
            *to = before;
        }
        let geometry = Geometry {
            stride: wide(params.stride),
            padding,
            dilation: wide(params.dilation),
            kernel: wide(&weight[SPATIAL..]),
            input: wide(&x[SPATIAL..]),
            output: wide(&y[SPATIAL..]),
            batch: x[0],
            groups: params.groups,
            channels: [weight[1], weight[0] / params.groups],
        };
        geometry.check_size(op)?;
        Ok(geometry)
    }

    fn check_size(&self, op: &'static str) -> Result<()> {
        let reach = |axis: usize| {
            let taps = self.kernel[axis].saturating_mul(self.dilation[axis]);
            let places = self.output[axis].saturating_mul(self.stride[axis]);
            self.input[axis].saturating_add(self.padding[axis]).saturating_add(taps).saturating_add(places)
        };
        if (0..AXES).all(|axis| reach(axis) < COORDINATE_MAX) {
            return Ok(());
        }
        Err(shape(op, "x", format!("spatial extents and windows below {COORDINATE_MAX}"), format!("{:?}", self.input)))
    }

    /// The convolution itself.
    pub(crate) fn forward(&self) -> Window {
        Window {
            places: self.output,
            taps: self.kernel,
            mul: self.stride.map(|n| n as i32),
            dil: self.dilation.map(|n| n as i32),
            off: self.padding.map(|n| -(n as i32)),
        }
    }

    /// The residues of the input gradient, those of one element per axis first; residues past the input are left out.
    pub(crate) fn residues(&self) -> impl Iterator<Item = Residue> + '_ {
        let counts = [0, 1, 2].map(|axis| self.stride[axis].min(self.input[axis]));
        let total = counts.iter().product::<usize>();
        (0..total).map(move |number| {
            let first =
                [number / counts[2] / counts[1].max(1), number / counts[2] % counts[1].max(1), number % counts[2]];
            self.residue(first)
        })
    }

    /// The elements `first + stride · j` of the input get, from tap `r`, the output at `(first + stride · j + padding -
    /// r · dilation) / stride` where that is whole: for every `stride / gcd`-th tap from the first that fits.
    fn residue(&self, first: [usize; AXES]) -> Residue {
        let mut residue = Residue {
            window: Window { places: [0; AXES], taps: [0; AXES], mul: [1; AXES], dil: [0; AXES], off: [0; AXES] },
            first,
            first_tap: [0; AXES],
            tap_step: [1; AXES],
        };
        for (axis, &first) in first.iter().enumerate() {
            let (stride, dilation, kernel) = (self.stride[axis], self.dilation[axis], self.kernel[axis]);
            let start = first + self.padding[axis];
            let common = gcd(stride, dilation);
            let step = stride / common;
            let fits = |tap: &usize| (start as i64 - (tap * dilation) as i64).rem_euclid(stride as i64) == 0;
            let window = &mut residue.window;
            window.places[axis] = (self.input[axis] - first).div_ceil(stride);
            window.dil[axis] = -((dilation / common) as i32);
            residue.tap_step[axis] = step;
            if let Some(tap) = (0..kernel.min(step)).find(fits) {
                residue.first_tap[axis] = tap;
                window.taps[axis] = (kernel - 1 - tap) / step + 1;
                window.off[axis] = ((start as i64 - (tap * dilation) as i64) / stride as i64) as i32;
            }
        }
        residue
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Address and strides of a tensor `[batch, channels, spatial…]`, or of a weight, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub address: u64,
    /// Strides of the first two axes.
    pub outer: [i64; 2],
    pub axis: [i64; AXES],
}

impl Side {
    /// # Errors
    /// `Shape` where one index of the first axis spans more than 32-bit offsets reach.
    pub(crate) fn new(op: &'static str, arg: &'static str, view: &View<'_>) -> Result<Side> {
        let (extents, strides) = (view.shape(), view.layout().strides());
        let span: i64 = extents[1..].iter().zip(&strides[1..]).map(|(&n, s)| (n as i64 - 1).max(0) * s.abs()).sum();
        if span >= IMAGE_MAX {
            return Err(shape(op, arg, format!("at most {IMAGE_MAX} elements per index of axis 0"), span));
        }
        let mut axis = [0; AXES];
        axis[AXES - (strides.len() - SPATIAL)..].copy_from_slice(&strides[SPATIAL..]);
        Ok(Side { address: view.device_address(), outer: [strides[0], strides[1]], axis })
    }

    /// Whether places of these extents lie one after the other.
    pub(crate) fn flat(&self, places: [usize; AXES]) -> bool {
        let (mut next, mut all) = (1, true);
        for axis in (0..AXES).rev().filter(|&axis| places[axis] != 1) {
            all &= self.axis[axis] == next;
            next *= places[axis] as i64;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of an output place and a tap that meets in an element of the input, by the definition.
    fn meetings(g: &Geometry, axis: usize) -> Vec<(usize, usize, usize)> {
        let mut all = Vec::new();
        for (place, tap) in (0..g.output[axis]).flat_map(|p| (0..g.kernel[axis]).map(move |t| (p, t))) {
            let at = (place * g.stride[axis] + tap * g.dilation[axis]).checked_sub(g.padding[axis]);
            all.extend(at.filter(|&at| at < g.input[axis]).map(|at| (at, place, tap)));
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn residues_hold_every_meeting_of_a_place_and_a_tap_once() {
        for (stride, dilation, padding, kernel, input) in [
            (1, 1, 0, 3, 7),
            (2, 1, 1, 3, 8),
            (3, 2, 2, 4, 11),
            (2, 4, 3, 3, 9),
            (4, 6, 5, 5, 23),
            (3, 1, 0, 1, 7),
            (5, 1, 0, 2, 3),
        ] {
            let (strides, dilations, paddings) = ([stride], [dilation], [(padding, padding)]);
            let params = ConvParams { stride: &strides, padding: &paddings, dilation: &dilations, groups: 1 };
            let (x, w) = ([1, 1, input], [1, 1, kernel]);
            let y = conv_output_shape("conv", &x, &w, &params).unwrap();
            let g = Geometry::new("conv", &x, &w, &y, &params, true).unwrap();
            let axis = AXES - 1;
            let mut found = Vec::new();
            for residue in g.residues() {
                let w = residue.window;
                for (j, t) in (0..w.places[axis]).flat_map(|j| (0..w.taps[axis]).map(move |t| (j, t))) {
                    let place = j as i64 + t as i64 * i64::from(w.dil[axis]) + i64::from(w.off[axis]);
                    if (0..g.output[axis] as i64).contains(&place) {
                        let tap = residue.first_tap[axis] + t * residue.tap_step[axis];
                        found.push((residue.first[axis] + j * stride, place as usize, tap));
                    }
                }
            }
            found.sort_unstable();
            assert_eq!(found, meetings(&g, axis), "stride {stride}, dilation {dilation}, padding {padding}");
        }
    }
}
