//! A convolution as the first value of a kernel, and running it with the graph behind it.
//!
//! It is as with a matrix product (`product`, `matmul`): tensors in memory are convolved, and what follows element by element is
//! computed where the result is stored. So a batch normalisation by known statistics, an activation, a residual and casts cost no
//! launch. Where a tensor does not lie along the result's axes, the convolution is one launch and the graph another; the bits are
//! the same.

use burn_ir::{ModuleOperationIr, TensorIr};
use rocfire_fusion::Epilogue;
use rocfire_hal::{Layout, Tensor, ViewMut};
use rocfire_kernels::conv::{ConvParams, conv, conv_fused};

use super::epilogue::EpilogueCall;
use super::matmul::fold;
use super::refusal::Refusal;
use super::trace::{EntryId, Trace};
use crate::error::Result;
use crate::ops::module::conv::forward;

/// The most spatial axes that a convolution has.
const AXES: usize = 3;

/// Strides, padding and dilation of the spatial axes, and groups. They are constants of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    axes: usize,
    stride: [usize; AXES],
    padding: [(usize, usize); AXES],
    dilation: [usize; AXES],
    groups: usize,
}

impl Window {
    fn new<const N: usize>(
        stride: &[usize; N],
        padding: &[(usize, usize); N],
        dilation: &[usize; N],
        groups: usize,
    ) -> Window {
        let mut window = Window { axes: N, stride: [1; AXES], padding: [(0, 0); AXES], dilation: [1; AXES], groups };
        window.stride[..N].copy_from_slice(stride);
        window.padding[..N].copy_from_slice(padding);
        window.dilation[..N].copy_from_slice(dilation);
        window
    }

    pub(super) fn params(&self) -> ConvParams<'_> {
        ConvParams {
            stride: &self.stride[..self.axes],
            padding: &self.padding[..self.axes],
            dilation: &self.dilation[..self.axes],
            groups: self.groups,
        }
    }
}

/// What a [`super::product::Product`] has besides its tensors if it is a convolution: its `lhs` is then `x`, its `rhs` the weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub(super) window: Window,
    pub(super) bias: Option<EntryId>,
}

impl Trace {
    /// Takes an operation of Burn's modules, of which convolutions are fused.
    pub(super) fn module(&mut self, op: &ModuleOperationIr) -> super::translate::Result<()> {
        match op {
            ModuleOperationIr::Conv1d(op) => {
                let o = &op.options;
                let window = Window::new(&o.stride, &o.padding, &o.dilation, o.groups);
                self.convolve([&op.x, &op.weight], op.bias.as_ref(), &op.out, window)
            }
            ModuleOperationIr::Conv2d(op) => {
                let o = &op.options;
                let window = Window::new(&o.stride, &o.padding, &o.dilation, o.groups);
                self.convolve([&op.x, &op.weight], op.bias.as_ref(), &op.out, window)
            }
            ModuleOperationIr::Conv3d(op) => {
                let o = &op.options;
                let window = Window::new(&o.stride, &o.padding.map(|side| (side, side)), &o.dilation, o.groups);
                self.convolve([&op.x, &op.weight], op.bias.as_ref(), &op.out, window)
            }
            _ => Err(Refusal::Operation),
        }
    }

    fn convolve(
        &mut self,
        operands: [&TensorIr; 2],
        bias: Option<&TensorIr>,
        out: &TensorIr,
        window: Window,
    ) -> super::translate::Result<()> {
        self.begin_product(&[Some(operands[0]), Some(operands[1]), bias], out)?;
        let [x, weight] = operands.map(|tensor| self.operand(tensor));
        let (x, weight) = (x?, weight?);
        let bias = bias.map(|bias| self.operand(bias)).transpose()?;
        self.end_product([x, weight], out, Some(Convolution { window, bias }))
    }
}

/// A convolution with real tensors, ready to run.
pub(super) struct Call<'a> {
    pub(super) x: &'a Tensor,
    pub(super) weight: &'a Tensor,
    pub(super) bias: Option<&'a Tensor>,
    pub(super) window: &'a Window,
    pub(super) epilogue: EpilogueCall<'a>,
}

impl Call<'_> {
    /// Launches the convolution with the graph behind it. `outputs` are views over the iteration space.
    pub(super) fn run(&self, outputs: Vec<ViewMut<'_>>) -> Result<()> {
        let shape: Vec<usize> = self
            .epilogue
            .dims
            .iter()
            .map(|axes| axes.iter().map(|axis| self.epilogue.extents[*axis]).product())
            .collect();
        let over_result = |layout: &Layout| fold(layout, self.epilogue.dims, &shape, self.epilogue.extents);
        let layouts = self.epilogue.inputs.iter().map(|input| over_result(input.layout()));
        let (Ok(inputs), Ok(written)) = (
            layouts.collect::<Result<Vec<_>>>(),
            outputs.iter().map(|output| over_result(output.layout())).collect::<Result<Vec<_>>>(),
        ) else {
            let y = forward("conv", self.x, self.weight, self.bias, &self.window.params())?;
            return self.epilogue.run(&y, outputs);
        };
        let outputs = outputs.into_iter().zip(written).map(|(output, layout)| output.with_layout(layout));
        let mut outputs = outputs.collect::<std::result::Result<Vec<_>, _>>()?;
        let (stream, params) = (self.x.device().stream(), self.window.params());
        let bias = self.bias.map(Tensor::view);
        if self.epilogue.is_bare(&outputs) {
            let y = outputs.remove(0);
            return Ok(conv(stream, self.x.view(), self.weight.view(), bias, y, &params)?);
        }
        let inputs = self.epilogue.inputs.iter().zip(inputs).map(|(input, layout)| input.with_layout(layout));
        let inputs = inputs.collect::<std::result::Result<Vec<_>, _>>()?;
        let epilogue = Epilogue::new(self.epilogue.graph, &shape, &inputs, self.epilogue.scalars, &outputs)?;
        Ok(conv_fused(stream, self.x.view(), self.weight.view(), bias, &epilogue, &params)?)
    }
}
