//! Renders a graph and its plan as device code.
//!
//! Every kernel is one text: `fuse.h` (where tensors lie, operators), `reductions.h`, `schedule.h`, the schedule as a template, the
//! argument struct, the graph as a functor, and one entry point named [`ENTRY`] that gives the functor to the template. The text does
//! not depend on shapes. [`expr`] renders what a node computes, [`body`] the functor, and [`pairs`] what it computes two elements at a
//! time where they are 16-bit floats. `wave.h` and others have the schedules, and the `.rs` files beside them choose their sizes. An
//! epilogue is a functor too, for the templates of `epilogue.h` and `runs.h`; `together.h` is for joined launches.
//!
//! | schedule | a lane takes | when |
//! | --- | --- | --- |
//! | [`Schedule::Elementwise`] | a vector of neighbours | no rows |
//! | [`Schedule::Single`] | an element | no rows, only lookups to read, and a last axis shorter than a vector |
//! | [`Schedule::Tiled`] | vectors of a square; LDS transposes some inputs | no rows, inputs whose neighbours lie along another axis |
//! | [`Schedule::Wave1`], `2`, `4`, `8` | so many steps of a row, kept in registers from pass to pass; one wave or less a row | short rows |
//! | [`Schedule::WavePacked1`], `2`, `4`, `8` | the same, steps of 16 bytes | short rows that lie packed |
//! | [`Schedule::Group`] | the quads of one chain of a row, read again in every pass; one workgroup a row | long rows; other rows until their own schedule is compiled |
//! | [`Schedule::Held2`], `4`, `8` | the same, kept in registers from pass to pass | rows of one chunk that fit there |
//! | [`Schedule::HeldLong2`], `4`, `8` | the same for one of so many chunks | rows of so many chunks that fit there |
//! | [`Schedule::Columns`] | a row, or chains of it | rows that lie side by side in memory |
//! | [`Schedule::ColumnsWide`] | the same for two neighbouring rows | sums of such rows, aligned |
//! | [`Schedule::SplitColumns`], [`Schedule::SplitColumnsWide`] | as those; a workgroup takes some chains of a chunk, `Join` adds the totals | few very long rows that lie side by side |
//! | [`Schedule::Split`], [`Schedule::Join`] | as `Group`; a workgroup takes some chunks, then `Join` adds the totals | few very long rows |

mod body;
mod columns;
mod elementwise;
mod epilogue;
mod expr;
mod group;
mod held;
mod pairs;
mod room;
mod runs;
mod tiled;
mod together;
mod wave;

use std::fmt::Write as _;

use rocfire_hal::Source;

use crate::graph::{Graph, Kind, Node, Value};
use crate::plan::{Argument, Plan, arguments, lookups};

pub(crate) use columns::{
    SPLIT_WAVES as SPLIT_COLUMN_WAVES, WIDE as COLUMN_ROWS, WIDE_WAVES as COLUMN_WIDE_WAVES, can_be_wide,
};
pub(crate) use elementwise::{may_be_single, vector};
pub(crate) use epilogue::epilogue;
pub use expr::storage;
pub(crate) use held::{fits, threads};
pub(crate) use runs::{RUN, runs};
pub(crate) use tiled::{side, slots};
pub(crate) use together::capacity;
pub(crate) use wave::{chains as wave_chains, schedule as wave_schedule};

/// The name of the entry point of every generated kernel.
pub(crate) const ENTRY: &str = "fused";

/// The threads of a workgroup along its first axis, one per chain of a long row. [`Schedule::Columns`] and its like have others.
pub(crate) const THREADS: usize = crate::order::LONG_CHAINS;

/// The most chains that one lane runs through in [`Schedule::Columns`].
const COLUMN_CHAINS: usize = 16;

/// The most waves of a workgroup in [`Schedule::Columns`].
pub(crate) const COLUMN_WAVES: usize = crate::order::LONG_CHAINS / COLUMN_CHAINS;

/// A row in [`Schedule::Columns`] has fewer chunks than 2 to the power of this plus one.
pub(crate) const COLUMN_LEVELS: usize = 8;

/// The most chunks of a workgroup in [`Schedule::Split`], a power of two.
pub(crate) const SPLIT_CHUNKS: usize = 8;

const HEADER: &str = concat!(include_str!("fuse.h"), include_str!("reductions.h"));

/// Defines the schedules, each with its word in the names of kernels and with what renders it.
macro_rules! schedules {
    ($($(#[$doc:meta])* $variant:ident $name:literal = |$kernel:ident, $out:ident| $render:expr;)+) => {
        /// How a kernel's work is divided among lanes: see the module's description.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Schedule { $($(#[$doc])* $variant,)+ }

        impl Schedule {
            pub(crate) const ALL: &[Schedule] = &[$(Schedule::$variant,)+];

            fn name(self) -> &'static str {
                match self { $(Schedule::$variant => $name,)+ }
            }

            fn render(self, kernel: &Kernel<'_>, out: &mut String) {
                match self {
                    $(Schedule::$variant => {
                        let ($kernel, $out) = (kernel, out);
                        $render
                    })+
                }
            }
        }
    };
}

schedules! {
    Elementwise "elementwise" = |kernel, out| elementwise::render(kernel, vector(kernel.graph, kernel.plan), out);
    /// As `Elementwise`, with one element a lane.
    Single "single" = |kernel, out| elementwise::render(kernel, 1, out);
    Tiled "tiled" = |kernel, out| tiled::render(kernel, out);
    /// A lane has one step of a row.
    Wave1 "wave1" = |kernel, out| wave::render(kernel, 1, false, out);
    /// A lane has 2 steps, and a row takes a whole wave.
    Wave2 "wave2" = |kernel, out| wave::render(kernel, 2, false, out);
    /// A lane has 3 or 4 steps.
    Wave4 "wave4" = |kernel, out| wave::render(kernel, 4, false, out);
    /// A lane has 5 to 8 steps.
    Wave8 "wave8" = |kernel, out| wave::render(kernel, 8, false, out);
    /// As `Wave1`, for rows that lie packed.
    WavePacked1 "wave_packed1" = |kernel, out| wave::render(kernel, 1, true, out);
    /// As `Wave2`, for rows that lie packed.
    WavePacked2 "wave_packed2" = |kernel, out| wave::render(kernel, 2, true, out);
    /// As `Wave4`, for rows that lie packed.
    WavePacked4 "wave_packed4" = |kernel, out| wave::render(kernel, 4, true, out);
    /// As `Wave8`, for rows that lie packed.
    WavePacked8 "wave_packed8" = |kernel, out| wave::render(kernel, 8, true, out);
    Group "group" = |kernel, out| group::render(kernel, "rows_by_group", out);
    /// A thread has 2 quads of a row.
    Held2 "held2" = |kernel, out| held::render(kernel, 2, 1, out);
    /// A thread has 4 quads.
    Held4 "held4" = |kernel, out| held::render(kernel, 4, 1, out);
    /// A thread has 8 quads, so that a workgroup has a whole chunk.
    Held8 "held8" = |kernel, out| held::render(kernel, 8, 1, out);
    /// A row has 2 chunks, which different threads hold.
    HeldLong2 "held_long2" = |kernel, out| held::render(kernel, 8, 2, out);
    /// A row has up to 4 chunks.
    HeldLong4 "held_long4" = |kernel, out| held::render(kernel, 8, 4, out);
    /// A row has up to 8 chunks.
    HeldLong8 "held_long8" = |kernel, out| held::render(kernel, 8, 8, out);
    Columns "columns" = |kernel, out| columns::render(kernel, out);
    /// As `Columns`, with two neighbouring rows a lane.
    ColumnsWide "columns_wide" = |kernel, out| columns::render_wide(kernel, out);
    SplitColumns "split_columns" = |kernel, out| columns::render_split(kernel, 1, out);
    /// As `SplitColumns`, with two neighbouring rows a lane.
    SplitColumnsWide "split_columns_wide" = |kernel, out| columns::render_split(kernel, columns::WIDE, out);
    Split "split" = |kernel, out| group::render(kernel, "split", out);
    Join "join" = |kernel, out| group::render(kernel, "join", out);
}

/// The source of a simplified graph's kernel. With `wide` offsets have 64 bits; with `members` above 1 it is the kernel for so many
/// joined launches.
pub(crate) fn source(graph: &Graph, plan: &Plan, schedule: Schedule, wide: bool, members: usize) -> Source {
    let text = text(graph, plan, schedule, members);
    let mut name = format!("fused_{}_{:016x}", schedule.name(), (graph.hash() >> 64) as u64);
    if members > 1 {
        name.push_str("_several");
    }
    Source::new(name, text, &[("FUSE_WIDE", if wide { "1" } else { "0" })])
}

/// The whole text, without the prelude.
fn text(graph: &Graph, plan: &Plan, schedule: Schedule, members: usize) -> String {
    let (arguments, lookups) = (arguments(graph, plan), lookups(graph, plan));
    // These schedules already take two rows at once, as floats. Pairs are neighbours along a row.
    let of_rows = matches!(schedule, Schedule::ColumnsWide | Schedule::SplitColumnsWide);
    let pairs = !of_rows && pairs::apply(graph, plan);
    let kernel = Kernel { graph, plan, arguments, lookups, pairs, members };
    let mut out = String::from(HEADER);
    if kernel.pairs {
        out.push_str(pairs::HEADER);
    }
    out.push_str(include_str!("schedule.h"));
    for line in graph.to_string().lines() {
        let _ = writeln!(out, "// {line}");
    }
    if graph.nodes.iter().any(|(node, _)| matches!(node, Node::Draw(_))) {
        out.push_str(expr::DRAW);
    }
    if graph.nodes.iter().any(|&(node, dtype)| expr::is_below(node, dtype)) {
        out.push_str(expr::BELOW);
    }
    if graph.nodes.iter().any(|(node, _)| matches!(node, Node::Check(..))) {
        out.push_str(expr::CHECK);
    }
    kernel.args_struct(&mut out, schedule);
    schedule.render(&kernel, &mut out);
    out
}

/// A graph that is being rendered.
struct Kernel<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    arguments: Vec<Argument>,
    lookups: Vec<Value>,
    /// Whether steps compute two elements at a time.
    pairs: bool,
    /// How many launches are joined; 1 for a plain kernel.
    members: usize,
}

impl Kernel<'_> {
    fn args_struct(&self, out: &mut String, schedule: Schedule) {
        let _ = writeln!(
            out,
            "struct FusedArgs {{\n    fuse::Space space;\n    fuse::Tensor tensor[{}];",
            self.arguments.len()
        );
        if !self.lookups.is_empty() {
            let _ = writeln!(out, "    fuse::Reach reach[{}];", self.lookups.len());
        }
        if self.graph.scalars > 0 {
            let _ = writeln!(out, "    rf::u64 scalar[{}];", self.graph.scalars);
        }
        let is_split = [Schedule::Split, Schedule::SplitColumns, Schedule::SplitColumnsWide, Schedule::Join];
        if is_split.contains(&schedule) {
            // The address of a total for each reduction, row and chunk, and the number of chunks.
            let _ = writeln!(out, "    rf::u64 partials;\n    rf::u64 chunks;");
        }
        out.push_str("};\n");
    }

    /// The number of an input node's tensor in the argument struct.
    fn input(&self, node: Value) -> usize {
        let found = self.arguments.iter().position(|arg| matches!(arg, Argument::Input(_, value) if *value == node));
        found.expect("every live input is an argument")
    }

    /// The expression of a lookup for element `e` of a step.
    fn look_up(&self, node: Value, index: &str, e: &str) -> String {
        let (at, storage) = (self.input(node), expr::storage(self.graph.dtype(node)));
        let number = self.lookups.iter().position(|known| *known == node).expect("every live lookup is listed");
        let offset = format!("offset[{at}] + (column + (index_t){e}) * a.tensor[{at}].stride[0]");
        format!("fuse::look_up<{storage}>(a.tensor[{at}], {offset}, a.reach[{number}], {index}, (rf::u32){e} < count)")
    }

    /// The expression of a lookup per row.
    fn look_up_row(&self, node: Value, index: Value) -> String {
        let (at, storage) = (self.input(node), expr::storage(self.graph.dtype(node)));
        let number = self.lookups.iter().position(|known| *known == node).expect("every live lookup is listed");
        format!("fuse::look_up<{storage}>(a.tensor[{at}], offset[{at}], a.reach[{number}], v{}, true)", index.0)
    }

    /// The number of an output's tensor in the argument struct.
    fn output(&self, slot: usize) -> usize {
        let found = self.arguments.iter().position(|&arg| arg == Argument::Output(slot));
        found.expect("every output is an argument")
    }

    /// Renders a schedule's template, the functor for it, and the entry point.
    fn instantiate(&self, form: &body::Form, header: &str, (bounds, template): (&str, &str), out: &mut String) {
        out.push_str(header);
        body::render(self, form, out);
        if self.members > 1 {
            out.push_str(together::HEADER);
            out.push_str(&together::entry(bounds, template, self.members));
            return;
        }
        let _ = writeln!(
            out,
            "extern \"C\" __global__ {bounds} void {ENTRY}(FusedArgs a) {{\n    fuse::{template}<Fused>(a, rf::group_x());\n}}"
        );
    }

    fn has_row_outputs(&self) -> bool {
        self.graph.outputs.iter().any(|output| self.plan.kinds[output.at()] == Kind::Row)
    }

    /// Renders the values that are the same everywhere, as assignments to the functor's members.
    fn uniforms(&self, out: &mut String) {
        for value in self.live_of(Kind::Uniform) {
            self.define(out, "        ", value);
        }
    }

    /// The same as constants of a function.
    fn declare_uniforms(&self, out: &mut String) {
        for value in self.live_of(Kind::Uniform) {
            self.define(out, &format!("        const {} ", expr::register(self.graph.dtype(value))), value);
        }
    }

    /// Renders the values per row that are known after `level` passes, as assignments; reductions are assigned elsewhere.
    fn row_values(&self, out: &mut String, level: usize) {
        for value in self.live_of(Kind::Row) {
            let (node, dtype) = self.graph.nodes[value.at()];
            if self.plan.levels[value.at()] != level || matches!(node, Node::Reduce(..)) {
                continue;
            }
            if let Node::RowLookup(_, index) = node {
                let _ = writeln!(out, "        v{} = {};", value.0, self.look_up_row(value, index));
            } else if matches!(node, Node::RowInput(_)) {
                let (at, storage) = (self.input(value), expr::storage(dtype));
                let _ =
                    writeln!(out, "        v{} = fuse::load_one<{storage}>(a.tensor[{at}], offset[{at}]);", value.0);
            } else {
                self.define(out, "        ", value);
            }
        }
    }

    /// Renders the stores of the outputs per row.
    fn row_stores(&self, out: &mut String, indent: &str) {
        for (slot, &value) in self.graph.outputs.iter().enumerate() {
            if self.plan.kinds[value.at()] == Kind::Row {
                let (at, storage) = (self.output(slot), expr::storage(self.graph.dtype(value)));
                let _ =
                    writeln!(out, "{indent}fuse::store_one<{storage}>(a.tensor[{at}], offset[{at}], v{});", value.0);
            }
        }
    }

    /// The functor of a reduction node, and its operand.
    fn reduction(&self, value: Value) -> (String, Value) {
        match self.graph.nodes[value.at()] {
            (Node::Reduce(op, operand), dtype) => (expr::reduction(op, dtype), operand),
            (node, _) => unreachable!("a pass lists reductions only, not {node:?}"),
        }
    }

    fn define(&self, out: &mut String, indent: &str, value: Value) {
        let text = expr::expression(self.graph, &self.plan.kinds, value, |operand| format!("v{}", operand.0));
        let _ = writeln!(out, "{indent}v{} = {text};", value.0);
    }

    fn live_of(&self, kind: Kind) -> impl Iterator<Item = Value> + '_ {
        let live = move |&at: &usize| self.plan.live[at] && self.plan.kinds[at] == kind;
        (0..self.graph.nodes.len()).filter(live).map(|at| Value(at as u32))
    }
}
