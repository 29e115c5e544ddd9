//! Graphs: work kept to be done again, captured from streams or put together node by node.
//!
//! A launch does the nodes one after the other, in an order that their dependencies allow and that does not change. What
//! is captured is a chain in the order of the calls, which every order that HIP promises allows. `nodes.rs` has the calls
//! that make nodes, this file the rest.

mod nodes;

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::call::{Failure, Result, export};
use crate::foreign::{In, Out};
use crate::handle::Handle;
use crate::runtime::{healthy, lock, runtime};
use crate::status::Status;
use crate::stream::StreamRef;
use crate::work::{Work, submit};

/// `hipStreamCaptureStatusNone`, `…Active` and `…Invalidated`.
const NOT_CAPTURING: c_int = 0;
const CAPTURING: c_int = 1;
const INVALIDATED: c_int = 2;
/// `hipGraphExecUpdateSuccess`, `…ErrorTopologyChanged` and `…ErrorNodeTypeChanged`.
const UPDATED: c_int = 0;
const TOPOLOGY_CHANGED: c_int = 2;
const NODE_TYPE_CHANGED: c_int = 3;

/// Work that is being captured.
pub struct Capture {
    id: u64,
    origin: Handle,
    /// What it becomes.
    graph: Handle,
    /// The node that the next one comes behind, or 0. Programs are given its address, and read one handle there.
    last: AtomicUsize,
    order: Mutex<()>,
    active: AtomicBool,
    invalid: AtomicBool,
}

impl Capture {
    /// Takes a piece of work.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureInvalidated` once something was asked that cannot be captured.
    pub fn add(&self, work: Work) -> Result {
        if self.invalid.load(Ordering::Relaxed) {
            return Err(Status::STREAM_CAPTURE_INVALIDATED.into());
        }
        let _order = lock(&self.order);
        let last = Some(self.last.load(Ordering::Relaxed)).filter(|&last| last != 0);
        self.last.store(add(self.graph, last.into_iter().collect(), work)?, Ordering::Relaxed);
        Ok(())
    }

    /// Whether it has not ended.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Something was asked that cannot be captured.
    pub fn invalidate(&self) {
        self.invalid.store(true, Ordering::Relaxed);
    }

    fn status(&self) -> c_int {
        if self.invalid.load(Ordering::Relaxed) { INVALIDATED } else { CAPTURING }
    }
}

/// A graph: its nodes in the order in which they were added.
#[derive(Default)]
pub struct Graph {
    nodes: Mutex<Vec<Handle>>,
}

/// A node.
pub struct Node {
    graph: Handle,
    kind: c_int,
    work: Mutex<Work>,
    /// Nodes that come before it.
    before: Mutex<Vec<Handle>>,
}

/// A graph that can be launched: work by node, in order.
pub struct Exec {
    works: Mutex<Vec<(Handle, Work)>>,
}

/// `hipGraphNodeType`.
fn kind_of(work: &Work) -> c_int {
    match work {
        Work::Launch(_) => 0,
        Work::Copy(_) => 1,
        Work::Fill(_) => 2,
        Work::Call(_) => 3,
        Work::Graph(_) => 4,
        Work::Nothing => 5,
        Work::Wait => 6,
        Work::Record(_) => 7,
    }
}

fn graph(handle: Handle) -> Result<Arc<Graph>> {
    runtime()?.graphs.get(handle).ok_or_else(|| Status::INVALID_VALUE.into())
}

fn node(handle: Handle) -> Result<Arc<Node>> {
    runtime()?.nodes.get(handle).ok_or_else(|| Status::INVALID_VALUE.into())
}

fn exec(handle: Handle) -> Result<Arc<Exec>> {
    runtime()?.execs.get(handle).ok_or_else(|| Status::INVALID_VALUE.into())
}

/// Adds a node behind others of its graph.
fn add(to: Handle, before: Vec<Handle>, work: Work) -> Result<Handle> {
    let (runtime, owner) = (runtime()?, graph(to)?);
    let mut nodes = lock(&owner.nodes);
    if before.iter().any(|dependency| !nodes.contains(dependency)) {
        return Err(Status::INVALID_VALUE.into());
    }
    let (kind, work) = (kind_of(&work), Mutex::new(work));
    let handle = runtime.nodes.insert(Node { graph: to, kind, work, before: Mutex::new(before) });
    nodes.push(handle);
    Ok(handle)
}

/// A graph ends, with its nodes.
fn destroy(handle: Handle) -> Result {
    let runtime = runtime()?;
    runtime.graphs.remove(handle).ok_or(Status::INVALID_VALUE)?;
    runtime.nodes.retain(|node| node.graph != handle);
    Ok(())
}

/// The nodes of a graph, each behind those before it; among those that could come next, the one that was added first.
fn ordered(owner: &Graph) -> Result<Vec<(Handle, Work)>> {
    let mut left = lock(&owner.nodes).clone();
    let mut works: Vec<(Handle, Work)> = Vec::with_capacity(left.len());
    let mut done = HashSet::new();
    while !left.is_empty() {
        let ready = |handle: &Handle| {
            let found = node(*handle).ok()?;
            let before = lock(&found.before);
            before.iter().all(|dependency| done.contains(dependency)).then(|| lock(&found.work).clone())
        };
        let next = left.iter().enumerate().find_map(|(index, handle)| Some((index, ready(handle)?)));
        let (index, work) = next.ok_or_else(|| Failure::new(Status::INVALID_VALUE, "the nodes wait for each other"))?;
        let handle = left.remove(index);
        done.insert(handle);
        works.push((handle, work));
    }
    Ok(works)
}

fn works(owner: &Graph) -> Result<Arc<[Work]>> {
    Ok(ordered(owner)?.into_iter().map(|(_, work)| work).collect())
}

fn instantiate(out: &Out<Handle>, from: Handle) -> Result {
    out.check()?;
    let works = Mutex::new(ordered(&*graph(from)?)?);
    out.put(healthy()?.execs.insert(Exec { works }))
}

/// Replaces what a graph that can be launched does for one node.
fn replace(of: Handle, at: Handle, work: Work) -> Result {
    let exec = exec(of)?;
    let mut works = lock(&exec.works);
    let place = works.iter_mut().find(|(handle, _)| *handle == at).ok_or(Status::INVALID_VALUE)?;
    if kind_of(&place.1) != kind_of(&work) {
        return Err(Status::INVALID_VALUE.into());
    }
    place.1 = work;
    Ok(())
}

fn capture_status(stream: Handle) -> Result<(c_int, u64)> {
    let capture = runtime()?.stream(stream)?.capture();
    Ok(capture.map_or((NOT_CAPTURING, 0), |capture| (capture.status(), capture.id)))
}

/// Puts handles where the program wants them, and their number.
fn put_handles(out: &Out<Handle>, count: &Out<u64>, handles: &[Handle]) -> Result {
    let room = count.get()?;
    if out.is_null() {
        return count.put(handles.len() as u64);
    }
    let given = handles.len().min(usize::try_from(room).unwrap_or(usize::MAX));
    out.put_all(&handles[..given])?;
    count.put(given as u64)
}

export! {
    /// `hipStreamBeginCapture`
    fn hipStreamBeginCapture(stream: Handle, mode: c_int) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let found = healthy()?;
        if !(0..=2).contains(&mode) {
            return Err(Status::INVALID_VALUE.into());
        }
        let origin = stream;
        let stream = match found.stream(stream)? {
            StreamRef::Null(_) => return Err(Status::STREAM_CAPTURE_UNSUPPORTED.into()),
            StreamRef::Made(stream) => stream,
        };
        if stream.capture().is_some() {
            return Err(Status::ILLEGAL_STATE.into());
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (active, invalid) = (AtomicBool::new(true), AtomicBool::new(false));
        let graph = found.graphs.insert(Graph::default());
        let (last, order) = (AtomicUsize::new(0), Mutex::new(()));
        stream.set_capture(Some(Arc::new(Capture { id, origin, graph, last, order, active, invalid })));
        Ok(())
    }

    /// `hipStreamEndCapture`
    fn hipStreamEndCapture(stream: Handle, out: Out<Handle>) {
        out.check()?;
        let runtime = healthy()?;
        let capture = runtime.stream(stream)?.capture().ok_or(Status::ILLEGAL_STATE)?;
        if capture.origin != stream {
            return Err(Status::STREAM_CAPTURE_UNMATCHED.into());
        }
        // Every stream that has joined sees that it has ended.
        capture.active.store(false, Ordering::Relaxed);
        runtime.stream(stream)?.set_capture(None);
        if capture.invalid.load(Ordering::Relaxed) {
            destroy(capture.graph)?;
            out.put(0)?;
            return Err(Status::STREAM_CAPTURE_INVALIDATED.into());
        }
        out.put(capture.graph)
    }

    /// `hipStreamIsCapturing`
    fn hipStreamIsCapturing(stream: Handle, status: Out<c_int>) {
        status.put(capture_status(stream)?.0)
    }

    /// `hipStreamGetCaptureInfo`
    fn hipStreamGetCaptureInfo(stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>) {
        let (found, number) = capture_status(stream)?;
        id.put_if_wanted(number);
        status.put(found)
    }

    /// `hipStreamGetCaptureInfo_v2`: the graph as it is by now, and the node that the next one comes behind.
    fn hipStreamGetCaptureInfo_v2(
        stream: Handle, status: Out<c_int>, id: Out<c_ulonglong>, graph: Out<Handle>, before: Out<*const Handle>,
        count: Out<u64>,
    ) {
        status.check()?;
        let capture = runtime()?.stream(stream)?.capture();
        status.put(capture.as_ref().map_or(NOT_CAPTURING, |capture| capture.status()))?;
        if let Some(capture) = capture {
            id.put_if_wanted(capture.id);
            graph.put_if_wanted(capture.graph);
            before.put_if_wanted(capture.last.as_ptr().cast_const());
            count.put_if_wanted(u64::from(capture.last.load(Ordering::Relaxed) != 0));
        }
        Ok(())
    }

    /// `hipThreadExchangeStreamCaptureMode`: every mode allows the same here.
    fn hipThreadExchangeStreamCaptureMode(mode: Out<c_int>) {
        mode.check()
    }

    /// `hipGraphCreate`
    fn hipGraphCreate(out: Out<Handle>, flags: c_uint) {
        out.check()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        out.put(healthy()?.graphs.insert(Graph::default()))
    }

    /// `hipGraphDestroy`
    fn hipGraphDestroy(handle: Handle) {
        destroy(handle)
    }

    /// `hipGraphDestroyNode`: what came behind it no longer waits for it.
    fn hipGraphDestroyNode(handle: Handle) {
        let owner = graph(node(handle)?.graph)?;
        let mut nodes = lock(&owner.nodes);
        nodes.retain(|other| *other != handle);
        for other in nodes.iter() {
            lock(&node(*other)?.before).retain(|before| *before != handle);
        }
        runtime()?.nodes.remove(handle).map(|_| ()).ok_or_else(|| Status::INVALID_VALUE.into())
    }

    /// `hipGraphClone`
    fn hipGraphClone(out: Out<Handle>, from: Handle) {
        out.check()?;
        let runtime = healthy()?;
        let works = ordered(&*graph(from)?)?;
        let clone = runtime.graphs.insert(Graph::default());
        let mut made: Vec<(Handle, Handle)> = Vec::new();
        for (original, work) in works {
            let before = lock(&node(original)?.before).clone();
            let before = before.iter().filter_map(|d| made.iter().find(|(from, _)| from == d).map(|(_, to)| *to));
            made.push((original, add(clone, before.collect(), work)?));
        }
        out.put(clone)
    }

    /// `hipGraphInstantiate`
    fn hipGraphInstantiate(out: Out<Handle>, from: Handle, _node: Out<Handle>, _log: Out<c_char>, _bytes: u64) {
        instantiate(&out, from)
    }

    /// `hipGraphInstantiateWithFlags`
    fn hipGraphInstantiateWithFlags(out: Out<Handle>, from: Handle, _flags: c_ulonglong) {
        instantiate(&out, from)
    }

    /// `hipGraphLaunch`
    fn hipGraphLaunch(handle: Handle, stream: Handle) {
        let works = lock(&exec(handle)?.works).iter().map(|(_, work)| work.clone()).collect();
        submit(stream, Work::Graph(works))
    }

    /// `hipGraphUpload`: there is nowhere to put it.
    fn hipGraphUpload(handle: Handle, stream: Handle) {
        exec(handle)?;
        healthy()?.stream(stream).map(|_| ())
    }

    /// `hipGraphExecDestroy`
    fn hipGraphExecDestroy(handle: Handle) {
        runtime()?.execs.remove(handle).map(|_| ()).ok_or_else(|| Status::INVALID_VALUE.into())
    }

    /// `hipGraphExecUpdate`: a graph with the same kinds of nodes, in the same order.
    fn hipGraphExecUpdate(handle: Handle, from: Handle, at: Out<Handle>, result: Out<c_int>) {
        let (exec, new) = (exec(handle)?, ordered(&*graph(from)?)?);
        let mut works = lock(&exec.works);
        let mut changed = works.iter().zip(&new).filter(|((_, old), (_, new))| kind_of(old) != kind_of(new));
        let wrong = match (works.len() == new.len(), changed.next()) {
            (false, _) => Some((0, TOPOLOGY_CHANGED)),
            (true, Some((_, (node, _)))) => Some((*node, NODE_TYPE_CHANGED)),
            (true, None) => None,
        };
        if let Some((node, reason)) = wrong {
            at.put_if_wanted(node);
            result.put_if_wanted(reason);
            return Err(Status::GRAPH_EXEC_UPDATE_FAILURE.into());
        }
        works.iter_mut().zip(new).for_each(|(old, (_, work))| old.1 = work);
        result.put_if_wanted(UPDATED);
        Ok(())
    }

    /// `hipGraphGetNodes`
    fn hipGraphGetNodes(handle: Handle, out: Out<Handle>, count: Out<u64>) {
        put_handles(&out, &count, &lock(&graph(handle)?.nodes))
    }

    /// `hipGraphGetRootNodes`
    fn hipGraphGetRootNodes(handle: Handle, out: Out<Handle>, count: Out<u64>) {
        let nodes = lock(&graph(handle)?.nodes).clone();
        let root = |handle: &Handle| node(*handle).is_ok_and(|node| lock(&node.before).is_empty());
        put_handles(&out, &count, &nodes.into_iter().filter(root).collect::<Vec<_>>())
    }

    /// `hipGraphNodeGetDependencies`
    fn hipGraphNodeGetDependencies(handle: Handle, out: Out<Handle>, count: Out<u64>) {
        put_handles(&out, &count, &lock(&node(handle)?.before))
    }

    /// `hipGraphNodeGetType`
    fn hipGraphNodeGetType(handle: Handle, kind: Out<c_int>) {
        kind.put(node(handle)?.kind)
    }

    /// `hipGraphAddDependencies`
    fn hipGraphAddDependencies(handle: Handle, from: In<Handle>, to: In<Handle>, count: u64) {
        let owner = graph(handle)?;
        let nodes = lock(&owner.nodes);
        let pairs = from.list(count as usize)?.into_iter().zip(to.list(count as usize)?);
        for (from, to) in pairs {
            if !nodes.contains(&from) || !nodes.contains(&to) || from == to {
                return Err(Status::INVALID_VALUE.into());
            }
            lock(&node(to)?.before).push(from);
        }
        Ok(())
    }
}
