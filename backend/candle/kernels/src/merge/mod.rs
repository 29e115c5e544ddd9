//! Which launches that wait become one.
//!
//! Launches are taken in the order in which they were asked for. Each joins an earlier group, if it can move up to it past
//! what stands between, or begins one of its own:
//!
//! | group | launches | file |
//! | --- | --- | --- |
//! | chain | elementwise kernels of as many elements, each of which reads a result of the chain | `chain.rs` |
//! | rows | a chain, and the softmax or norm of its result | `chain.rs` |
//! | rows | a chain, and the five launches that Candle's composed softmax is | `softmax.rs` |
//! | copies | `copy2d` (the parts of a concatenation, repetitions) and dense casts, also of what was just copied | `several.rs` |
//! | permutes | copies of strided elements, as of queries, keys and values whose heads move outwards | `several.rs` |
//! | ropes | rotary embeddings of one kind | `several.rs` |
//! | thin | products of up to four rows with a matrix of weights; a cast before them | `several.rs` |
//! | mat-vecs | products of quantised weights with rows of one quantisation, which runs once | `weights.rs` |
//! | product | a product of ours (not a vendor's library's), and the chain behind it: a bias, an activation | `product.rs` |
//! | attention | two products with a softmax between them, scaled and masked, and copies that move heads around them | `attention.rs` |
//!
//! Chains, rows, copies, permutes, ropes and mat-vecs give the bits of the launches one by one. Thin products sum in an order of their
//! own, alone or together; the chain behind a product rounds as fusion's operators do; attention keeps its scores in registers.
//! What joins depends on what waits together, and on what Rust has dropped by then: so in a deterministic run
//! (`ROCFIRE_DETERMINISTIC`) the last three are not made, and whatever happened before, the same launches give the same bits.
//!
//! What is not here: anything that reads memory to decide.

mod attention;
mod chain;
mod product;
mod several;
mod softmax;
mod weights;

use cudarc::rocfire::{Merger, Run, Step, Window};

use crate::table::{self, Entry, Family};
use attention::Attention;
use chain::{Op, RowsOp};
use product::Tail;
use several::{Copies, Thin};

/// The merger of Candle's kernels.
pub(crate) struct Candle;

impl Merger for Candle {
    fn plan(&self, window: &Window<'_>) -> Vec<Step> {
        let keeps_bits = window.device().deterministic();
        let mut plan = Plan { window, groups: Vec::with_capacity(window.len()), keeps_bits };
        for number in 0..window.len() {
            plan.add(number);
        }
        if !keeps_bits {
            plan.join_attentions();
            // Chains join the products whose results they begin with, then copies that no chain took each other.
            plan.join_each(Plan::join_tail);
        }
        plan.join_each(Plan::join_permute);
        let Plan { groups, .. } = plan;
        groups.into_iter().map(|group| group.step(window)).collect()
    }
}

/// Launches that become one.
pub(crate) struct Group {
    /// In order.
    pub members: Vec<usize>,
    /// The same as bits.
    pub mask: u64,
    pub kind: Kind,
}

/// What the members are.
pub(crate) enum Kind {
    /// A launch of which nothing is known here.
    Alone,
    /// Elementwise, in order.
    Chain(Vec<Op>),
    /// A chain, and last what is done with its rows.
    Rows(Vec<Op>, RowsOp),
    Copies(Copies),
    /// Copies of strided elements.
    Permutes(Vec<Op>),
    /// Ropes of an entry.
    Ropes(&'static Entry),
    Thin(Thin),
    /// Mat-vecs of one kind with quantised weights.
    MatVecs,
    /// One quantisation, asked for several times.
    Quantised,
    /// A product, and the elementwise kernels behind it.
    Product(Option<Box<Tail>>),
    /// Two products, the softmax between them, and copies around.
    Attention(Box<Attention>),
}

impl Group {
    fn step(mut self, window: &Window<'_>) -> Step {
        let merged = match std::mem::replace(&mut self.kind, Kind::Alone) {
            Kind::Alone => None,
            Kind::Chain(ops) => chain::merged(window, &self, &ops, None),
            Kind::Rows(ops, rows) => chain::merged(window, &self, &ops, Some(rows)),
            Kind::Copies(copies) => copies.merged(&self),
            Kind::Permutes(ops) => several::permutes(window, &ops),
            Kind::Ropes(entry) => several::ropes(window, &self, entry),
            Kind::Thin(thin) => Some(thin.merged(window)),
            Kind::MatVecs => weights::mat_vecs(window, &self.members),
            Kind::Quantised => return Step { members: self.members, run: Run::First },
            Kind::Attention(attention) => {
                return Step { members: self.members, run: Run::By(attention::merged(*attention)) };
            }
            Kind::Product(tail) => {
                let run = tail.and_then(|tail| product::with_tail(window, self.members[0], *tail));
                return Step { members: self.members, run: run.map_or(Run::Each, Run::By) };
            }
        };
        Step { members: self.members, run: merged.map_or(Run::Each, Run::Merged) }
    }
}

struct Plan<'a, 'w> {
    window: &'a Window<'w>,
    groups: Vec<Group>,
    /// Whether only joins may be made that give the bits of the launches one by one.
    keeps_bits: bool,
}

impl Plan<'_, '_> {
    fn add(&mut self, number: usize) {
        let node = self.window.node(number);
        let kind = match node.name() {
            None if self.keeps_bits => Kind::Product(None),
            None => Thin::of(node).map_or_else(|| Kind::Product(None), Kind::Thin),
            Some(_) if node.tag().is_some() => weights::kind_of(node),
            Some(name) => match table::find(name) {
                Some(entry) => kind_of(self.window, number, entry),
                None => Kind::Alone,
            },
        };
        let joined = match kind {
            Kind::Alone => Err(Kind::Alone),
            Kind::Chain(ops) => self.join_chain(number, ops),
            Kind::Rows(_, rows) => self.join_rows(number, rows),
            Kind::Copies(copies) => self.join_copies(number, copies),
            Kind::Ropes(entry) => self.join_ropes(number, entry),
            Kind::Thin(thin) => self.join_thin(number, thin),
            Kind::MatVecs => self.join_mat_vecs(number),
            Kind::Quantised => self.join_quantised(number),
            // Chains join products, and copies each other, when all launches are known.
            Kind::Permutes(ops) => Err(Kind::Permutes(ops)),
            Kind::Product(tail) => Err(Kind::Product(tail)),
            Kind::Attention(attention) => Err(Kind::Attention(attention)),
        };
        if let Err(kind) = joined {
            self.groups.push(Group { members: vec![number], mask: 1 << number, kind });
        }
    }

    /// The groups that a launch can join, the last first: all groups behind them may as well come before it.
    fn reachable(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        let after = self.window.after(number);
        let first = self.groups.iter().rposition(|group| after & group.mask != 0).unwrap_or(0);
        (first..self.groups.len()).rev()
    }

    fn put(&mut self, at: usize, number: usize) -> Result<(), Kind> {
        self.groups[at].members.push(number);
        self.groups[at].mask |= 1 << number;
        Ok(())
    }

    /// Whether all that a launch has to do with a group is that it reads results.
    fn only_reads(&self, number: usize, at: usize) -> bool {
        let Group { members, mask, .. } = &self.groups[at];
        let (after, sources) = (self.window.after(number), self.window.sources(number));
        after & mask == sources & mask && !members.iter().any(|&member| self.window.overwrites(number, member))
    }

    /// Whether what a launch writes is read by `reader` alone, so that it need not be stored.
    fn is_only_for(&self, number: usize, reader: usize) -> bool {
        self.window.readers(number) == 1 << reader && !self.window.is_owned(number)
    }

    fn join_chain(&mut self, number: usize, mut ops: Vec<Op>) -> Result<(), Kind> {
        // A cast of what was just copied, or beside copies.
        if let Some(copies) = Copies::of_cast(number, &ops[0])
            && self.join_copies_as_cast(number, copies)
        {
            return Ok(());
        }
        if self.join_softmax(number) {
            return Ok(());
        }
        let sources = self.window.sources(number);
        let found = self.reachable(number).find(|&at| self.groups[at].mask & sources != 0);
        if let Some(at) = found {
            let members = self.groups[at].mask;
            let is_read_only = self.only_reads(number, at);
            if let Kind::Chain(chain) = &mut self.groups[at].kind
                && is_read_only
                && chain::extends(chain, &ops[0], sources & members)
            {
                chain.append(&mut ops);
                return self.put(at, number);
            }
        }
        Err(Kind::Chain(ops))
    }

    fn join_rows(&mut self, number: usize, rows: RowsOp) -> Result<(), Kind> {
        let sources = self.window.sources(number);
        let Some(at) = self.reachable(number).find(|&at| self.groups[at].mask & sources != 0) else {
            return Err(Kind::Alone);
        };
        let (members, is_read_only) = (self.groups[at].mask, self.only_reads(number, at));
        if let Kind::Chain(chain) = &mut self.groups[at].kind
            && is_read_only
            && rows.reads(chain, sources & members)
        {
            self.groups[at].kind = Kind::Rows(std::mem::take(chain), rows);
            return self.put(at, number);
        }
        Err(Kind::Alone)
    }

    fn join_copies(&mut self, number: usize, mut copies: Copies) -> Result<(), Kind> {
        let after = self.window.after(number);
        for at in self.reachable(number) {
            let members = self.groups[at].mask;
            if let Kind::Copies(group) = &mut self.groups[at].kind
                && after & members == 0
                && group.take(&mut copies)
            {
                return self.put(at, number);
            }
        }
        Err(Kind::Copies(copies))
    }

    /// A cast joins copies: it becomes theirs if nobody else reads what they copied, else a copy beside them.
    fn join_copies_as_cast(&mut self, number: usize, mut cast: Copies) -> bool {
        let (after, sources) = (self.window.after(number), self.window.sources(number));
        for at in self.reachable(number) {
            let members = self.groups[at].mask;
            let copied = sources & members;
            let unread = self.groups[at].members.iter().filter(|&&member| copied >> member & 1 == 1);
            let unread = self.only_reads(number, at) && unread.copied().all(|member| self.is_only_for(member, number));
            let Kind::Copies(group) = &mut self.groups[at].kind else { continue };
            let joins = match (after & members, copied) {
                (0, _) => group.take(&mut cast),
                (_, copied) if unread => group.convert(copied, &cast),
                _ => false,
            };
            if joins {
                return self.put(at, number).is_ok();
            }
        }
        false
    }

    /// Asks each group to join an earlier one, by `join`, which says whether it did.
    fn join_each(&mut self, join: fn(&mut Self, usize) -> Option<()>) {
        let mut at = 0;
        while at < self.groups.len() {
            if join(self, at).is_none() {
                at += 1;
            }
        }
    }

    /// The copy at `at` joins an earlier one; `None` if it stays.
    fn join_permute(&mut self, at: usize) -> Option<()> {
        let Kind::Chain(ops) = &self.groups[at].kind else { return None };
        let [op] = &ops[..] else { return None };
        let (bytes, after) = (op.moved_bytes()?, self.window.after(op.number()));
        let first = self.groups[..at].iter().rposition(|group| after & group.mask != 0).map_or(0, |last| last + 1);
        let takes = |group: &Group| match &group.kind {
            Kind::Chain(ops) | Kind::Permutes(ops) => {
                ops.len() < several::PERMUTES_MOST && ops.iter().all(|op| op.moved_bytes() == Some(bytes))
            }
            _ => false,
        };
        let to = first + self.groups[first..at].iter().position(takes)?;
        let Group { members, mask, kind } = self.groups.remove(at);
        let group = &mut self.groups[to];
        let (Kind::Chain(mut all) | Kind::Permutes(mut all), Kind::Chain(op)) =
            (std::mem::replace(&mut group.kind, Kind::Alone), kind)
        else {
            unreachable!("both are chains of copies")
        };
        all.extend(op);
        group.members.extend(members);
        group.mask |= mask;
        group.kind = Kind::Permutes(all);
        Some(())
    }

    fn join_ropes(&mut self, number: usize, entry: &'static Entry) -> Result<(), Kind> {
        let after = self.window.after(number);
        for at in self.reachable(number) {
            let group = &self.groups[at];
            let is_same = matches!(group.kind, Kind::Ropes(other) if std::ptr::eq(other, entry));
            if is_same && after & group.mask == 0 && group.members.len() < several::ROPES_MOST {
                return self.put(at, number);
            }
        }
        Err(Kind::Ropes(entry))
    }

    fn join_thin(&mut self, number: usize, mut thin: Thin) -> Result<(), Kind> {
        let (after, sources) = (self.window.after(number), self.window.sources(number));
        for at in self.reachable(number) {
            let members = self.groups[at].mask;
            if let Kind::Thin(group) = &mut self.groups[at].kind
                && after & members == 0
                && group.take(&mut thin)
            {
                return self.put(at, number);
            }
        }
        // A cast of its rows, that nobody else reads.
        for at in self.reachable(number) {
            let [cast] = self.groups[at].members[..] else { continue };
            if sources & 1 << cast == 0 || !self.is_only_for(cast, number) || !self.only_reads(number, at) {
                continue;
            }
            if let Kind::Chain(ops) = &self.groups[at].kind
                && thin.read_through(&ops[0])
            {
                self.groups[at].kind = Kind::Thin(thin);
                return self.put(at, number);
            }
        }
        Err(Kind::Thin(thin))
    }
}

fn kind_of(window: &Window<'_>, number: usize, entry: &'static Entry) -> Kind {
    let node = window.node(number);
    match entry.family {
        Family::Affine
        | Family::Copy
        | Family::Unary
        | Family::UnaryParameter
        | Family::Binary
        | Family::Compare
        | Family::Cast
        | Family::Where => Op::of(window, number, entry).map_or(Kind::Alone, |op| Kind::Chain(vec![op])),
        Family::Copy2d => Kind::Copies(Copies::of(number, node, entry)),
        Family::Softmax | Family::RmsNorm | Family::LayerNorm => Kind::Rows(Vec::new(), RowsOp::of(node, entry)),
        Family::Rope => Kind::Ropes(entry),
        Family::ConstSet
        | Family::IndexSelect
        | Family::Gather
        | Family::IndexAdd
        | Family::Scatter
        | Family::ScatterAdd
        | Family::Reduce
        | Family::Argument
        | Family::SumSmall
        | Family::Sort
        | Family::Im2col
        | Family::Im2col1d
        | Family::Col2im1d
        | Family::ConvTranspose
        | Family::Pool2d
        | Family::Nearest
        | Family::Bilinear
        | Family::Quantise
        | Family::Dequantise
        | Family::GetRows
        | Family::MatVecF32
        | Family::MatVec
        | Family::MatMul
        | Family::Moe
        | Family::Unreachable => Kind::Alone,
    }
}
