//! Decides which of the launches that wait on the host become one.
//!
//! Launches are taken in the order in which they were asked for. Each joins an earlier group if it may run before everything
//! that stands between the two, or begins a group of its own:
//!
//! | group | launches | file |
//! | --- | --- | --- |
//! | graph | graphs, each of which reads a result of an earlier one: elementwise, reductions, softmax, norms | `compose.rs` |
//! | parts | launches that wrote the parts of a tensor (a concatenation, repetitions), and the map that alone reads it | `compose.rs` |
//! | thin | products of up to four rows with a matrix of weights, and a cast before them | `thin.rs` |
//! | mat-vecs | products of quantised weights with activations that were quantised once for all of them | `weights.rs` |
//! | product | a product by our kernel (not by a vendor's library), and the graph behind it: a bias, an activation | `epilogue.rs` |
//! | attention | two products, the scaled and masked softmax between them, and copies around them that move heads | `attention.rs` |
//!
//! Launches of the same graph that may run in any order are put side by side, and the stream makes joined launches of them: copies
//! into one destination, copies that move heads outwards, rotary embeddings.
//!
//! Graphs, parts and mat-vecs give the same bits as the launches one by one. The other three do not: thin products sum in an
//! order of their own, alone or together; the graph behind a product rounds as fusion's operators do; attention keeps its scores in
//! registers. What joins depends on what waits together, and on what Rust has dropped by then. So a deterministic run
//! (`ROCFIRE_DETERMINISTIC`) makes none of those three, and the same launches give the same bits whatever happened before.
//!
//! Nothing here reads the contents of device memory to decide.

mod attention;
mod compose;
mod epilogue;
mod thin;
mod weights;

use cudarc::rocfire::{Merger, Planned, Run, Window};

use crate::table;
use attention::Attention;
use compose::Op;
use epilogue::ProductEpilogue;
use thin::Thin;

/// The merger that `cudarc`'s queue asks about launches of Candle's kernels.
pub(crate) struct Candle;

impl Merger for Candle {
    fn plan(&self, window: &Window<'_>, goes: &mut dyn FnMut(&[usize]) -> bool) -> Vec<Planned> {
        let keeps_bits = window.device().deterministic();
        let groups = Vec::with_capacity(window.len());
        let mut plan = Plan { window, groups, read: window.read(), keeps_bits };
        for number in 0..window.len() {
            plan.add(number);
        }
        if !keeps_bits {
            plan.join_attentions();
            // A chain of graphs joins the product whose result it begins with.
            plan.join_each(Plan::join_epilogue);
        }
        (0..plan.groups.len()).for_each(|at| plan.move_up(at));
        plan.join_runs();
        let Plan { groups, .. } = plan;
        let running = groups.into_iter().filter(|group| goes(&group.members));
        running.map(|group| group.step(window)).collect()
    }
}

/// Launches that become one, or a launch that stays alone.
pub(crate) struct Group {
    /// Numbers of the launches in the window, in the order in which they run.
    pub members: Vec<usize>,
    /// The members as bits: bit `n` for launch `n`.
    pub mask: u64,
    pub kind: Kind,
}

/// What the launches of a group are, and with it how they become one.
pub(crate) enum Kind {
    /// Launches that run as they were asked for.
    Each,
    /// Graphs of which each reads a result of an earlier one.
    Graph(Vec<Op>),
    /// Launches that each write a part of a tensor. Behind each stands the map, over that part only.
    Parts(Vec<Vec<Op>>),
    /// Products of a few rows.
    Thin(Thin),
    /// Mat-vecs with quantised weights of one type.
    MatVecs,
    /// The same quantisation of the same rows, asked for several times: it runs once.
    Quantised,
    /// A product, with the graph behind it as its epilogue once one has joined.
    Product(Option<Box<ProductEpilogue>>),
    /// Two products, the softmax between them, and copies around them.
    Attention(Box<Attention>),
}

impl Group {
    /// How the queue runs the group. What cannot be made one after all runs as it was asked for.
    fn step(self, window: &Window<'_>) -> Planned {
        let Group { members, mask, kind } = self;
        let operator = match kind {
            Kind::Each => None,
            Kind::Graph(ops) => compose::merged(window, mask, &ops),
            Kind::Parts(parts) => compose::mapped(window, &parts),
            Kind::Thin(thin) => return Planned { members, run: Run::Merged(thin.merged(window)) },
            Kind::MatVecs => {
                let run = weights::mat_vecs(window, &members).map_or(Run::Each, Run::Merged);
                return Planned { members, run };
            }
            Kind::Quantised => return Planned { members, run: Run::First },
            Kind::Attention(attention) => Some(attention::merged(*attention)),
            Kind::Product(epilogue) => {
                epilogue.and_then(|epilogue| epilogue::with_epilogue(window, members[0], *epilogue))
            }
        };
        Planned { members, run: operator.map_or(Run::Each, Run::By) }
    }
}

impl Group {
    /// The graph of a group that is a single launch of a graph; `None` for any other group.
    fn graph(&self) -> Option<&Op> {
        match &self.kind {
            Kind::Graph(ops) if ops.len() == 1 => ops.first(),
            _ => None,
        }
    }

    /// Whether the group is a single launch of the same graph as `op`'s.
    fn is_like(&self, op: &Op) -> bool {
        self.graph().is_some_and(|own| own.program().is_like(op.program()))
    }
}

/// The groups as they form, in the order in which they will run.
struct Plan<'a, 'w> {
    window: &'a Window<'w>,
    groups: Vec<Group>,
    /// Launches whose results other waiting launches read, a bit each.
    read: u64,
    /// Whether only those joins may be made that change no bit of a result: in a deterministic run.
    keeps_bits: bool,
}

impl Plan<'_, '_> {
    /// Puts the next launch into a group.
    fn add(&mut self, number: usize) {
        let window = self.window;
        let node = window.node(number);
        let kind = match node.name() {
            None if self.keeps_bits => Kind::Product(None),
            None => Thin::of(node).map_or_else(|| Kind::Product(None), Kind::Thin),
            Some(_) if node.tag().is_some() => weights::kind_of(node),
            // Nothing joins a launch that reads no waiting launch's result and whose own result no waiting launch reads.
            Some(_) if window.sources(number) == 0 && self.read >> number & 1 == 0 => Kind::Each,
            Some(_) => match table::of(node).and_then(|entry| Op::of(window, number, entry)) {
                Some(op) => Kind::Graph(vec![op]),
                None => Kind::Each,
            },
        };
        let joined = match kind {
            Kind::Graph(ops) => self.join_graph(number, ops),
            Kind::Thin(thin) => self.join_thin(number, thin),
            Kind::MatVecs => self.join_mat_vecs(number),
            Kind::Quantised => self.join_quantised(number),
            // Products and attention join in `plan`, when all launches are known.
            Kind::Each | Kind::Parts(_) | Kind::Product(_) | Kind::Attention(_) => Err(kind),
        };
        if let Err(kind) = joined {
            self.groups.push(Group { members: vec![number], mask: 1 << number, kind });
        }
    }

    /// The groups that a launch can join, the last first. The launch depends on nothing in the groups behind the one that it joins.
    fn reachable(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        let after = self.window.after(number);
        let first = self.groups.iter().rposition(|group| after & group.mask != 0).unwrap_or(0);
        (first..self.groups.len()).rev()
    }

    /// Makes a launch the last member of group `at`.
    fn put(&mut self, at: usize, number: usize) -> Result<(), Kind> {
        self.groups[at].members.push(number);
        self.groups[at].mask |= 1 << number;
        Ok(())
    }

    /// Whether a launch depends on a group only by reading its results: it writes nothing that the group reads or writes.
    fn only_reads(&self, number: usize, at: usize) -> bool {
        let Group { members, mask, .. } = &self.groups[at];
        let (after, sources) = (self.window.after(number), self.window.sources(number));
        after & mask == sources & mask && !members.iter().any(|&member| self.window.overwrites(number, member))
    }

    /// Whether only `reader` can read what a launch writes, so that it need not be stored.
    fn is_only_for(&self, number: usize, reader: usize) -> bool {
        self.window.readers(number) == 1 << reader && !self.window.is_owned(number)
    }

    /// Puts a graph behind the graphs whose results it reads. `Err` gives it back if it cannot join them.
    fn join_graph(&mut self, number: usize, ops: Vec<Op>) -> Result<(), Kind> {
        let sources = self.window.sources(number);
        if self.join_parts(number, &ops[0]).is_some() {
            return Ok(());
        }
        let found = self.reachable(number).find(|&at| self.groups[at].mask & sources != 0);
        if let Some(at) = found {
            let members = self.groups[at].mask;
            let is_read_only = self.only_reads(number, at);
            if let Kind::Graph(chain) = &mut self.groups[at].kind
                && is_read_only
                && compose::extend(chain, &ops[0], sources & members).is_some()
            {
                return self.put(at, number);
            }
        }
        Err(Kind::Graph(ops))
    }

    /// Joins a map to the launches that wrote the parts of its input, if nobody else reads that: each maps its own part.
    fn join_parts(&mut self, number: usize, map: &Op) -> Option<()> {
        let sources = self.window.sources(number);
        if sources.count_ones() < 2 || map.dense_map().is_none() {
            return None;
        }
        let is_part = |group: &Group| group.mask & sources != 0;
        let (mut parts, mut elements) = (Vec::new(), 0);
        for at in (0..self.groups.len()).filter(|&at| is_part(&self.groups[at])) {
            let group = &self.groups[at];
            let (Kind::Graph(ops), [member]) = (&group.kind, &group.members[..]) else { return None };
            if !self.is_only_for(*member, number) || !self.only_reads(number, at) {
                return None;
            }
            elements += ops[0].count();
            parts.push(compose::map_part(&ops[0], map)?);
        }
        // Parts do not overlap, so if they have as many elements together as the map reads, they are all of its input.
        let taken = sources | 1 << number;
        let last = self.groups.iter().rposition(is_part)?;
        let waits = |group: &Group| {
            !is_part(group) && group.members.iter().any(|&member| self.window.after(member) & sources != 0)
        };
        let behind = self.groups[last + 1..].iter().any(|group| self.window.after(number) & group.mask != 0);
        if elements != map.count() || behind || self.groups[..last].iter().any(waits) {
            return None;
        }
        let members = (0..=number).filter(|member| taken >> member & 1 == 1).collect();
        self.groups[last] = Group { members, mask: taken, kind: Kind::Parts(parts) };
        let mut at = 0;
        self.groups.retain(|group| {
            at += 1;
            at - 1 == last || group.mask & taken == 0
        });
        Some(())
    }

    /// Calls `join` for each group. It joins the group to an earlier one, or gives `None`.
    fn join_each(&mut self, join: fn(&mut Self, usize) -> Option<()>) {
        let mut at = 0;
        while at < self.groups.len() {
            if join(self, at).is_none() {
                at += 1;
            }
        }
    }

    /// Moves a graph up to stand behind an earlier launch of the same graph, where it depends on nothing between the two.
    fn move_up(&mut self, at: usize) {
        let Some(op) = self.groups[at].graph() else { return };
        let after = self.window.after(op.number());
        let first = self.groups[..at].iter().rposition(|group| after & group.mask != 0).map_or(0, |last| last + 1);
        if let Some(to) = self.groups[first..at].iter().rposition(|group| group.is_like(op)) {
            self.groups[first + to + 1..=at].rotate_right(1);
        }
    }

    /// Makes one group of launches of the same graph that stand side by side, so that the stream makes joined launches of them. First
    /// come those that depend on the latest earlier groups: earlier launches that wait on the stream to be joined must go when
    /// something comes that depends on them.
    fn join_runs(&mut self) {
        let window = self.window;
        let after = |group: &Group| group.graph().map_or(0, |op| window.after(op.number()));
        let mut first = 0;
        while first < self.groups.len() {
            let (before, rest) = self.groups.split_at_mut(first);
            let mut mask = rest[0].mask;
            let is_of_run = |group: &&Group| {
                let joins = rest[0].graph().is_some_and(|op| group.is_like(op)) && after(group) & mask == 0;
                mask |= group.mask;
                joins
            };
            let count = 1 + rest[1..].iter().take_while(is_of_run).count();
            first += 1;
            if count > 1 {
                let latest = |group: &Group| before.iter().rposition(|other| after(group) & other.mask != 0);
                rest[..count].sort_by_cached_key(|group| std::cmp::Reverse(latest(group)));
                let run: Vec<Group> = self.groups.drain(first..first + count - 1).collect();
                let joined = &mut self.groups[first - 1];
                joined.kind = Kind::Each;
                run.iter().for_each(|group| joined.mask |= group.mask);
                joined.members.extend(run.into_iter().flat_map(|group| group.members));
            }
        }
    }
}
