//! Calls that make the nodes of a graph, and change them.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::{add, graph, lock, node, replace, works};
use crate::call::{Result, export};
use crate::copy::{Copy, Fill, Kind, Memcpy3D, Side};
use crate::foreign::{In, Out};
use crate::handle::Handle;
use crate::launch::{Arguments, Dim3, prepare};
use crate::register;
use crate::runtime::healthy;
use crate::status::Status;
use crate::symbol::{Way, symbol_copy};
use crate::work::{HostCall, HostCallKind, HostFunction, Work};

/// `hipKernelNodeParams`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct KernelNode {
    block: Dim3,
    extra: In<u64>,
    function: *const c_void,
    grid: Dim3,
    arguments: In<u64>,
    lds_bytes: c_uint,
}

impl KernelNode {
    fn work(&self) -> Result<Work> {
        let runtime = healthy()?;
        // By the host's function, or by the handle that `hipGetFuncBySymbol` or a module gave.
        let kernel = match runtime.functions.get(self.function.addr()) {
            Some(function) => function.kernel.clone(),
            None => register::kernel(runtime, self.function.addr())?,
        };
        let arguments = match self.arguments.is_null() && !self.extra.is_null() {
            true => Arguments::Extra(self.extra),
            false => Arguments::List(self.arguments),
        };
        let launch = prepare(runtime, kernel, self.grid.list(), self.block.list(), self.lds_bytes, &arguments)?;
        Ok(Work::Launch(Arc::new(launch)))
    }
}

/// `hipMemsetParams`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MemsetNode {
    to: u64,
    element_bytes: c_uint,
    height: u64,
    pitch: u64,
    value: c_uint,
    width: u64,
}

impl MemsetNode {
    fn work(&self) -> Result<Work> {
        if ![1, 2, 4].contains(&self.element_bytes) {
            return Err(Status::INVALID_VALUE.into());
        }
        let mask = u32::MAX >> (32 - 8 * self.element_bytes);
        let (to, extent) = (Side::rows(self.to, self.pitch), [self.width, self.height.max(1), 1]);
        Ok(Work::Fill(Fill {
            to,
            value: u64::from(self.value & mask),
            value_bytes: u64::from(self.element_bytes),
            extent,
        }))
    }
}

/// `hipHostNodeParams`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct HostNode {
    function: Option<HostFunction>,
    data: usize,
}

impl HostNode {
    fn work(&self) -> Result<Work> {
        let function = HostCallKind::Function(self.function.ok_or(Status::INVALID_VALUE)?);
        Ok(Work::Call(HostCall { function, data: self.data }))
    }
}

fn linear(to: u64, from: u64, bytes: u64, kind: c_int) -> Result<Work> {
    let (to, from) = (Side::linear(to), Side::linear(from));
    Ok(Work::Copy(Copy { to, from, extent: [bytes, 1, 1], kind: Kind::new(kind)? }))
}

fn put(out: &Out<Handle>, graph: Handle, before: &In<Handle>, count: u64, work: Work) -> Result {
    out.check()?;
    out.put(add(graph, before.list(count as usize)?, work)?)
}

fn change(handle: Handle, work: Work) -> Result {
    let node = node(handle)?;
    if node.kind != super::kind_of(&work) {
        return Err(Status::INVALID_VALUE.into());
    }
    *lock(&node.work) = work;
    Ok(())
}

export! {
    /// `hipGraphAddEmptyNode`
    fn hipGraphAddEmptyNode(out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64) {
        put(&out, graph, &before, count, Work::Nothing)
    }

    /// `hipGraphAddKernelNode`
    fn hipGraphAddKernelNode(out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, with: In<KernelNode>) {
        put(&out, graph, &before, count, with.get()?.work()?)
    }

    /// `hipGraphKernelNodeSetParams`
    fn hipGraphKernelNodeSetParams(node: Handle, with: In<KernelNode>) {
        change(node, with.get()?.work()?)
    }

    /// `hipGraphExecKernelNodeSetParams`
    fn hipGraphExecKernelNodeSetParams(exec: Handle, node: Handle, with: In<KernelNode>) {
        replace(exec, node, with.get()?.work()?)
    }

    /// `hipGraphAddMemcpyNode`
    fn hipGraphAddMemcpyNode(out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, with: In<Memcpy3D>) {
        put(&out, graph, &before, count, with.get()?.work()?)
    }

    /// `hipGraphAddMemcpyNode1D`
    fn hipGraphAddMemcpyNode1D(
        out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, to: u64, from: u64, bytes: u64, kind: c_int,
    ) {
        put(&out, graph, &before, count, linear(to, from, bytes, kind)?)
    }

    /// `hipGraphMemcpyNodeSetParams1D`
    fn hipGraphMemcpyNodeSetParams1D(node: Handle, to: u64, from: u64, bytes: u64, kind: c_int) {
        change(node, linear(to, from, bytes, kind)?)
    }

    /// `hipGraphExecMemcpyNodeSetParams1D`
    fn hipGraphExecMemcpyNodeSetParams1D(exec: Handle, node: Handle, to: u64, from: u64, bytes: u64, kind: c_int) {
        replace(exec, node, linear(to, from, bytes, kind)?)
    }

    /// `hipGraphAddMemcpyNodeToSymbol`
    fn hipGraphAddMemcpyNodeToSymbol(
        out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, symbol: *const c_void, from: u64, bytes: u64,
        offset: u64, kind: c_int,
    ) {
        put(&out, graph, &before, count, symbol_copy(symbol, from, bytes, offset, kind, Way::To)?)
    }

    /// `hipGraphAddMemcpyNodeFromSymbol`
    fn hipGraphAddMemcpyNodeFromSymbol(
        out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, to: u64, symbol: *const c_void, bytes: u64,
        offset: u64, kind: c_int,
    ) {
        put(&out, graph, &before, count, symbol_copy(symbol, to, bytes, offset, kind, Way::From)?)
    }

    /// `hipGraphAddMemsetNode`
    fn hipGraphAddMemsetNode(out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, with: In<MemsetNode>) {
        put(&out, graph, &before, count, with.get()?.work()?)
    }

    /// `hipGraphMemsetNodeSetParams`
    fn hipGraphMemsetNodeSetParams(node: Handle, with: In<MemsetNode>) {
        change(node, with.get()?.work()?)
    }

    /// `hipGraphExecMemsetNodeSetParams`
    fn hipGraphExecMemsetNodeSetParams(exec: Handle, node: Handle, with: In<MemsetNode>) {
        replace(exec, node, with.get()?.work()?)
    }

    /// `hipGraphAddHostNode`
    fn hipGraphAddHostNode(out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, with: In<HostNode>) {
        put(&out, graph, &before, count, with.get()?.work()?)
    }

    /// `hipGraphExecHostNodeSetParams`
    fn hipGraphExecHostNodeSetParams(exec: Handle, node: Handle, with: In<HostNode>) {
        replace(exec, node, with.get()?.work()?)
    }

    /// `hipGraphAddEventRecordNode`
    fn hipGraphAddEventRecordNode(out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, event: Handle) {
        let event = healthy()?.events.get(event).ok_or(Status::INVALID_HANDLE)?;
        put(&out, graph, &before, count, Work::Record(event))
    }

    /// `hipGraphAddEventWaitNode`
    fn hipGraphAddEventWaitNode(out: Out<Handle>, graph: Handle, before: In<Handle>, count: u64, event: Handle) {
        healthy()?.events.get(event).ok_or(Status::INVALID_HANDLE)?;
        put(&out, graph, &before, count, Work::Wait)
    }

    /// `hipGraphAddChildGraphNode`: the child as it is now.
    fn hipGraphAddChildGraphNode(out: Out<Handle>, to: Handle, before: In<Handle>, count: u64, child: Handle) {
        put(&out, to, &before, count, Work::Graph(works(&*graph(child)?)?))
    }
}
