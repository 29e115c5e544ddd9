//! Operands of products, convolutions, pools, norms and attention.

use crate::machine::Family;
use crate::make::Maker;
use crate::program::{Id, Meta, Number, Params, Window};
use crate::shapes::{extent, positive};
use crate::table::{Kind, Row, Rule};
use crate::values::Filling;

impl<F: Family> Maker<'_, F> {
    /// Chooses what a layer is called with; its inputs are mostly plain numbers, since special ones reach every result.
    pub(crate) fn layer(&mut self, row: &Row, p: &mut Params) -> Vec<Id> {
        let kind = row.operands.first().copied().unwrap_or(Kind::Float);
        let dtype = self.dtype(kind);
        let shapes: Vec<Vec<usize>> = match row.rule {
            Rule::Matmul => return self.matrices(kind),
            Rule::Norm => {
                let x = self.any_like(Kind::Float, |meta| meta.shape.len() >= 2 && meta.shape.iter().all(|&e| e > 0));
                let Meta { dtype, shape, .. } = self.meta(x).clone();
                let width = [*shape.last().expect("of an axis at least")];
                let rest = row.operands.len() - 1;
                let weights = (0..rest).map(|_| self.operand(Kind::Float, dtype, &width, Filling::Spread));
                return [x].into_iter().chain(weights).collect();
            }
            Rule::BatchNorm => {
                let channels = positive(self.choices, 17);
                let x = vec![positive(self.choices, 9), channels, positive(self.choices, 9)];
                [x].into_iter().chain((1..row.operands.len()).map(|_| vec![channels])).collect()
            }
            Rule::Linear => {
                let (rows, inner, outer) =
                    (positive(self.choices, 65), positive(self.choices, 65), positive(self.choices, 33));
                vec![vec![rows, inner], vec![inner, outer], vec![outer]]
            }
            Rule::Embedding => {
                let (count, width) = (positive(self.choices, 65), positive(self.choices, 65));
                let weights = self.operand(Kind::Float, dtype, &[count, width], Filling::Spread);
                let shape = [positive(self.choices, 5), positive(self.choices, 17)];
                let places = self.indices(p.index, &shape, count);
                let mut operands = vec![weights, places];
                if row.operands.len() == 3 {
                    let shape = [shape[0], shape[1], width];
                    operands.push(self.operand(Kind::Float, dtype, &shape, Filling::Plain));
                }
                return operands;
            }
            Rule::Conv(axes) => self.convolution(axes, false, p),
            Rule::ConvTranspose(axes) => self.convolution(axes, true, p),
            Rule::Pool(axes) => {
                let spatial = self.window(axes, p);
                vec![[vec![positive(self.choices, 3), positive(self.choices, 5)], spatial].concat()]
            }
            Rule::Patches => {
                let spatial = self.window(2, p);
                vec![[vec![positive(self.choices, 3), positive(self.choices, 5)], spatial].concat()]
            }
            Rule::Resize(axes) => {
                p.shape = (0..axes).map(|_| positive(self.choices, 17)).collect();
                let outer = vec![positive(self.choices, 3), positive(self.choices, 5)];
                let spatial: Vec<usize> = (0..axes).map(|_| positive(self.choices, 17)).collect();
                vec![[outer, spatial].concat()]
            }
            Rule::Sample => {
                let batch = positive(self.choices, 3);
                let extents: Vec<usize> = (0..5).map(|_| positive(self.choices, 9)).collect();
                vec![[vec![batch], extents[..3].to_vec()].concat(), vec![batch, extents[3], extents[4], 2]]
            }
            Rule::Attention => {
                let (batch, heads) = (positive(self.choices, 3), positive(self.choices, 3));
                let (queries, keys) = (positive(self.choices, 65), positive(self.choices, 129));
                let width = self.choices.pick(&[8, 16, 32, 64, 5, 24]);
                p.scalar = Number::Float(self.choices.pick(&[1.0, 0.5, 2.0]));
                let keys = [batch, heads, keys, width].to_vec();
                vec![vec![batch, heads, queries, width], keys.clone(), keys]
            }
            Rule::Rotary => {
                let (length, width) = (positive(self.choices, 33), 2 * positive(self.choices, 33));
                let angles = vec![length, width / 2];
                vec![vec![positive(self.choices, 3), positive(self.choices, 5), length, width], angles.clone(), angles]
            }
            Rule::Quantised(block) => {
                let (rows, outputs) = (positive(self.choices, 65), positive(self.choices, 129));
                let length = block * self.choices.pick(&[1, 2, 3, 5, 8]).min(1024 / block);
                // Scales are of 16 bits: nothing that is there may come, whose numbers may be of any size.
                let fillings = [Filling::Spread, Filling::Plain, Filling::Positive];
                return [[rows, length], [outputs, length]]
                    .map(|shape| {
                        let filling = self.choices.pick(&fillings);
                        self.input(rocfire_hal::DType::F32, &shape, filling)
                    })
                    .to_vec();
            }
            _ => unreachable!("only layers come here"),
        };
        let filling = self.choices.pick(&[Filling::Plain, Filling::Spread, Filling::Spread]);
        let count = row.operands.len();
        let place = |(at, shape): (usize, &Vec<usize>)| {
            let filling = if row.rule == Rule::BatchNorm && at >= 3 { Filling::Positive } else { filling };
            self.operand(kind, dtype, shape, filling)
        };
        shapes[..count].iter().enumerate().map(place).collect()
    }

    /// `[.., m, k]` and `[.., k, n]`.
    fn matrices(&mut self, kind: Kind) -> Vec<Id> {
        let long = self.choices.one_in(5);
        let most = if long { 1025 } else { 65 };
        let a = self.any_like(kind, |meta| meta.shape.len() >= 2);
        let Meta { dtype, shape: mut left, .. } = self.meta(a).clone();
        let filling = self.choices.pick(&[Filling::Plain, Filling::Spread, Filling::Special]);
        let mut operands = vec![a];
        if left.len() < 2 {
            left = vec![positive(self.choices, 65), extent(self.choices, most)];
            operands = vec![self.operand(kind, dtype, &left, filling)];
        }
        let rank = left.len();
        let room = (4096 / left[rank - 1].max(1)).max(1);
        let mut right = left.clone();
        (right[rank - 2], right[rank - 1]) = (left[rank - 1], extent(self.choices, room.min(65)));
        for batch in &mut right[..rank - 2] {
            if self.choices.one_in(3) {
                *batch = 1;
            }
        }
        operands.push(self.operand(kind, dtype, &right, filling));
        operands
    }

    /// Shapes of the input, the weights and the bias.
    fn convolution(&mut self, axes: usize, is_transposed: bool, p: &mut Params) -> Vec<Vec<usize>> {
        let spatial = self.window(axes, p);
        p.window.groups = self.choices.pick(&[1, 2, 1, 3]);
        let groups = p.window.groups;
        let (ins, outs) = (groups * positive(self.choices, 5), groups * positive(self.choices, 5));
        for axis in 0..axes {
            let most = p.window.stride[axis].max(p.window.dilation[axis]);
            p.window.extra[axis] = self.choices.below(most);
        }
        let kernel = &p.window.kernel[..axes];
        let channels = if is_transposed { [ins, outs / groups] } else { [outs, ins / groups] };
        let batch = positive(self.choices, 3);
        vec![[&[batch, ins], &spatial[..]].concat(), [&channels, kernel].concat(), vec![outs]]
    }

    /// Windows that lie in an input of the extents that come back.
    fn window(&mut self, axes: usize, p: &mut Params) -> Vec<usize> {
        let mut window = Window { ..p.window };
        let spatial = (0..axes).map(|axis| {
            let kernel = 1 + self.choices.below(3);
            window.kernel[axis] = kernel;
            window.stride[axis] = 1 + self.choices.below(3);
            window.padding[axis] = self.choices.below(kernel / 2 + 1);
            window.dilation[axis] = 1 + self.choices.below(2);
            let reach = window.dilation[axis] * (kernel - 1) + 1;
            reach + self.choices.below(9)
        });
        let spatial = spatial.collect();
        p.window = window;
        spatial
    }
}
