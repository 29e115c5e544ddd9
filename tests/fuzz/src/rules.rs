//! How operands and parameters of an operator are chosen, rule by rule.

use rocfire_hal::DType;

use crate::machine::Family;
use crate::make::Maker;
use crate::program::{Id, Meta, Number, Params, SCHEMES};
use crate::shapes::{self, extent, positive};
use crate::table::{Kind, Row, Rule};
use crate::values::Filling;

/// Operands and parameters; nothing where what is there does not serve.
type Arranged = Option<(Vec<Id>, Params)>;

fn has_axes(meta: &Meta) -> bool {
    !meta.shape.is_empty()
}

fn has_elements(meta: &Meta) -> bool {
    has_axes(meta) && meta.shape.iter().all(|&extent| extent > 0)
}

impl<F: Family> Maker<'_, F> {
    /// Chooses what an operator is called with.
    pub(crate) fn arrange(&mut self, row: &Row) -> Arranged {
        let mut p = Params { flag: self.choices.one_in(2), flag2: self.choices.one_in(2), ..Params::default() };
        p.index = self.choices.pick(self.family.types().indices);
        if row.call.contains("p.scheme") {
            p.scheme = self.choices.below(SCHEMES);
        }
        let operands = match row.rule {
            Rule::Elementwise | Rule::Same => self.broadcasting(row),
            Rule::Scalar | Rule::WholeScalar | Rule::Clamp => {
                let x = self.any_like(row.operands[0], has_axes);
                p.scalar = self.number(self.meta(x).dtype);
                p.scalar2 = self.number(self.meta(x).dtype);
                if row.rule == Rule::WholeScalar {
                    p.scalar = Number::Int(self.choices.pick(&[2, 0, 1, 3, 4]));
                }
                if row.rule == Rule::Clamp {
                    order(&mut p.scalar, &mut p.scalar2);
                }
                vec![x]
            }
            Rule::Axis | Rule::AxisOfSome | Rule::Swap | Rule::Repeat | Rule::TopK | Rule::Unfold | Rule::Axes => {
                self.along(row, &mut p)?
            }
            Rule::Some => vec![self.any_like(row.operands[0], has_elements)],
            Rule::Cast(kind) => {
                p.dtype = self.dtype(kind);
                vec![self.any(row.operands[0])]
            }
            Rule::Permute | Rule::Flip | Rule::Reshape | Rule::Expand | Rule::Slice | Rule::SliceAssign | Rule::Pad => {
                self.moving(row, &mut p)
            }
            Rule::Cat | Rule::Cross => self.together(row, &mut p),
            Rule::Gather | Rule::Scatter | Rule::Select | Rule::SelectAssign | Rule::GatherNd | Rule::ScatterNd => {
                self.indexed(row, &mut p)?
            }
            Rule::MaskWhere | Rule::MaskFill => {
                let x = self.any_like(row.operands[0], has_axes);
                let Meta { kind, dtype, shape } = self.meta(x).clone();
                p.scalar = self.number(dtype);
                let mut operands = vec![x, self.operand(Kind::Bool, self.family.types().truth, &shape, Filling::Plain)];
                if row.rule == Rule::MaskWhere {
                    let filling = self.filling();
                    operands.push(self.operand(kind, dtype, &shape, filling));
                }
                operands
            }
            Rule::Create => {
                let rank = shapes::rank(self.choices);
                p.shape = shapes::shape(self.choices, rank, self.elements_most);
                p.dtype = self.dtype(created(row));
                p.scalar = self.number(p.dtype);
                p.size = extent(self.choices, 300);
                p.step = 1 + self.choices.below(3);
                Vec::new()
            }
            Rule::Matmul
            | Rule::Norm
            | Rule::BatchNorm
            | Rule::Linear
            | Rule::Embedding
            | Rule::Conv(_)
            | Rule::ConvTranspose(_)
            | Rule::Pool(_)
            | Rule::Resize(_)
            | Rule::Patches
            | Rule::Sample
            | Rule::Attention
            | Rule::Rotary
            | Rule::Quantised(_) => self.layer(row, &mut p),
        };
        Some((operands, p))
    }

    /// A number that every width of the type holds; now and then one that only wide ones do.
    fn number(&mut self, dtype: DType) -> Number {
        match dtype {
            DType::Bool => Number::Bool(self.choices.one_in(2)),
            dtype if dtype.is_float() => {
                let plain = [1.0, 0.0, 2.0, -1.0, 0.5, 0.25, -2.5, 3.0, 64.0];
                let odd = [f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::NAN];
                Number::Float(if self.choices.one_in(12) { self.choices.pick(&odd) } else { self.choices.pick(&plain) })
            }
            dtype => {
                let least = if dtype.is_signed_int() { [-1, -3] } else { [5, 7] };
                Number::Int(self.choices.pick(&[1, 0, 2, 3, least[0], least[1], 100]))
            }
        }
    }

    fn broadcasting(&mut self, row: &Row) -> Vec<Id> {
        let first = self.any_like(row.operands[0], has_axes);
        let mut operands = vec![first];
        let mut joined = self.meta(first).shape.clone();
        for &kind in &row.operands[1..] {
            let of_kind = operands.iter().map(|&id| self.meta(id)).find(|meta| meta.kind == kind);
            let dtype = match of_kind.map(|meta| meta.dtype) {
                Some(dtype) => dtype,
                None => self.dtype(kind),
            };
            let mut shape = joined.clone();
            if row.rule == Rule::Elementwise {
                shape = shapes::beside(self.choices, &joined);
                for extent in shape.iter_mut().filter(|extent| **extent == 1) {
                    *extent = if self.choices.one_in(6) { positive(self.choices, 5) } else { 1 };
                }
                if shapes::broadcast(&shape, &joined).is_none() {
                    shape.clone_from(&joined);
                }
            }
            let filling = self.filling();
            let same = row.rule == Rule::Same;
            let beside = joined.clone();
            let fits = move |meta: &Meta| {
                let fits = if same { meta.shape == beside } else { shapes::broadcast(&meta.shape, &beside).is_some() };
                meta.dtype == dtype && fits
            };
            let id = self.operand_like(kind, fits, dtype, &shape, filling);
            joined = shapes::broadcast(&joined, &self.meta(id).shape).unwrap_or(joined);
            operands.push(id);
        }
        operands
    }

    fn along(&mut self, row: &Row, p: &mut Params) -> Option<Vec<Id>> {
        let needs_elements = matches!(row.rule, Rule::AxisOfSome | Rule::TopK | Rule::Unfold);
        let x = self.any_like(row.operands[0], if needs_elements { has_elements } else { has_axes });
        let shape = self.meta(x).shape.clone();
        p.axis = self.choices.below(shape.len());
        p.axis2 = self.choices.below(shape.len());
        let extent = shape[p.axis];
        match row.rule {
            Rule::Repeat => p.size = 1 + self.choices.below(3),
            Rule::TopK => p.size = 1 + self.choices.below(extent.min(9)),
            Rule::Unfold => {
                p.size = 1 + self.choices.below(extent.min(4));
                p.step = 1 + self.choices.below(3);
            }
            Rule::Axes => {
                p.axes = (0..shape.len()).filter(|_| self.choices.one_in(2)).collect();
                if p.axes.is_empty() {
                    return None;
                }
            }
            _ => {}
        }
        Some(vec![x])
    }

    fn moving(&mut self, row: &Row, p: &mut Params) -> Vec<Id> {
        let fits = if row.rule == Rule::Pad { has_elements } else { has_axes };
        let x = self.any_like(row.operands[0], fits);
        let Meta { kind, dtype, shape } = self.meta(x).clone();
        let rank = shape.len();
        match row.rule {
            Rule::Permute => {
                p.axes = (0..rank).collect();
                for axis in 0..rank {
                    let other = axis + self.choices.below(rank - axis);
                    p.axes.swap(axis, other);
                }
            }
            Rule::Flip => p.axes = (0..rank).filter(|_| self.choices.one_in(2)).collect(),
            Rule::Reshape => p.shape = self.reshaped(&shape),
            Rule::Expand => {
                let one = |(choices, extent): (&mut crate::choice::Choices, usize)| {
                    if extent == 1 { extent.max(positive(choices, 5)) } else { extent }
                };
                p.shape = shape.iter().map(|&extent| one((&mut *self.choices, extent))).collect();
            }
            Rule::Pad => {
                p.pads = (0..rank).map(|_| (self.choices.below(3), self.choices.below(3))).collect();
                p.scalar = self.number(dtype);
                for (pads, &extent) in p.pads.iter_mut().zip(&shape) {
                    // Reflections reach no further than there are elements.
                    *pads = (pads.0.min(extent - 1), pads.1.min(extent - 1));
                }
            }
            Rule::Slice | Rule::SliceAssign => {
                p.slices = shape.iter().map(|&extent| self.part(extent)).collect();
                let sliced: Vec<usize> =
                    shape.iter().zip(&p.slices).map(|(extent, part)| length(*extent, *part)).collect();
                if row.rule == Rule::SliceAssign {
                    let filling = self.filling();
                    return vec![x, self.operand(kind, dtype, &sliced, filling)];
                }
            }
            _ => unreachable!("only rules that move elements come here"),
        }
        vec![x]
    }

    /// A part of an axis: from, to, step. A negative step turns the part around.
    fn part(&mut self, extent: usize) -> (isize, Option<isize>, isize) {
        if extent == 0 || self.choices.one_in(3) {
            return (0, None, 1);
        }
        let from = self.choices.below(extent);
        let to = from + 1 + self.choices.below(extent - from);
        let step = self.choices.pick(&[1, 1, 2, -1, 3, -2]);
        (from as isize, (to < extent).then_some(to as isize), step)
    }

    /// As many elements in other extents.
    fn reshaped(&mut self, shape: &[usize]) -> Vec<usize> {
        let mut reshaped = shape.to_vec();
        let rank = shape.len();
        match self.choices.below(4) {
            0 => reshaped = vec![shape.iter().product()],
            1 if rank >= 2 => {
                let axis = self.choices.below(rank - 1);
                let extent = reshaped.remove(axis);
                reshaped[axis] *= extent;
            }
            2 => {
                let axis = self.choices.below(rank);
                let divisors: Vec<usize> = (1..=shape[axis]).filter(|n| shape[axis].is_multiple_of(*n)).collect();
                if !divisors.is_empty() {
                    let divisor = self.choices.pick(&divisors);
                    reshaped[axis] /= divisor;
                    reshaped.insert(axis, divisor);
                }
            }
            _ => reshaped.insert(self.choices.below(rank + 1), 1),
        }
        reshaped
    }

    fn together(&mut self, row: &Row, p: &mut Params) -> Vec<Id> {
        let first = self.any_like(row.operands[0], has_axes);
        let Meta { kind, dtype, mut shape } = self.meta(first).clone();
        p.axis = self.choices.below(shape.len());
        let mut operands = vec![first];
        if row.rule == Rule::Cross {
            shape[p.axis] = 3;
            let filling = self.filling();
            operands = vec![self.operand(kind, dtype, &shape, filling)];
        }
        for _ in 1..row.operands.len() {
            let filling = self.filling();
            if row.rule == Rule::Cat && self.choices.one_in(3) {
                shape[p.axis] = extent(self.choices, 17);
            }
            operands.push(self.operand(kind, dtype, &shape, filling));
        }
        operands
    }

    fn indexed(&mut self, row: &Row, p: &mut Params) -> Option<Vec<Id>> {
        let x = self.any_like(row.operands[0], has_elements);
        let Meta { kind, dtype, shape } = self.meta(x).clone();
        p.axis = self.choices.below(shape.len());
        let (indices, taken) = match row.rule {
            Rule::Gather | Rule::Scatter => {
                let mut places = shape.clone();
                places[p.axis] = extent(self.choices, 33);
                (self.indices(p.index, &places, shape[p.axis]), places)
            }
            Rule::Select | Rule::SelectAssign => {
                let count = extent(self.choices, 33);
                let mut taken = shape.clone();
                taken[p.axis] = count;
                (self.indices(p.index, &[count], shape[p.axis]), taken)
            }
            _ => {
                let count = extent(self.choices, 33);
                let depth = 1 + self.choices.below(shape.len());
                let bound = shape[..depth].iter().copied().min()?;
                (self.indices(p.index, &[count, depth], bound), [&[count], &shape[depth..]].concat())
            }
        };
        let mut operands = vec![x, indices];
        if row.operands.len() == 3 {
            let filling = self.filling();
            operands.push(self.operand(kind, dtype, &taken, filling));
        }
        Some(operands)
    }

    /// Indices below a bound, in a view or not.
    pub(crate) fn indices(&mut self, dtype: DType, shape: &[usize], bound: usize) -> Id {
        self.operand(Kind::Int, dtype, shape, Filling::Below(bound))
    }
}

/// What a row without operands makes, by the kind of its results.
fn created(row: &Row) -> Kind {
    match row.results {
        results if results.contains("Float") => Kind::Float,
        results if results.contains("Int") => Kind::Int,
        _ => Kind::Bool,
    }
}

/// Elements of a part of an axis.
fn length(extent: usize, (from, to, step): (isize, Option<isize>, isize)) -> usize {
    let to = to.map_or(extent, |to| to as usize);
    (to - from as usize).div_ceil(step.unsigned_abs())
}

/// The smaller one first; a NaN has no place among limits.
fn order(least: &mut Number, most: &mut Number) {
    if let (Number::Float(a), Number::Float(b)) = (*least, *most)
        && (a > b || b.is_nan())
    {
        (*least, *most) = (Number::Float(b), Number::Float(a));
    }
    if let (Number::Int(a), Number::Int(b)) = (*least, *most) {
        (*least, *most) = (Number::Int(a.min(b)), Number::Int(a.max(b)));
    }
}
