//! Renders the functor of a graph, `struct Fused`. `schedule.h` says what members it has.
//!
//! The functor is the same for every schedule except for its [`Form`]: how many elements a step has, what is kept in registers from one
//! pass to the next, and whether inputs are read ahead of a step or by the step itself.

use std::fmt::Write as _;

use rocfire_hal::DType;

use super::{Kernel, expr, pairs};
use crate::graph::{Kind, Node, Value};
use crate::op::Binary;
use crate::order::QUAD;
use crate::plan::{Argument, Pass};

/// Where a step finds its inputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// The step reads them itself.
    Directly,
    /// They are in `Kept`: the schedule has read those of several steps before.
    Ahead,
    /// There are steps of both kinds.
    Both,
}

/// What a schedule asks of the functor.
pub(super) struct Form {
    /// Elements of a step.
    pub width: usize,
    /// Whether values pass from one pass to the next in registers.
    pub keeps: bool,
    /// Whether computed 16-bit floats that are kept lie two in a register.
    pub halves: bool,
    /// Whether 16-bit inputs that are read ahead lie two in a register.
    pub input_halves: bool,
    pub reads: Reads,
    /// For a reduction that the schedule computes from an input's words, not from its elements: its functor and the input. `None` for
    /// any other reduction.
    pub words: fn(&Kernel<'_>, Value) -> Option<(String, Value)>,
    /// Whether inputs may be read from tiles in LDS, whose side is `SIDE`.
    pub tiled: bool,
    /// Whether the inputs of two rows are read ahead at once.
    pub across: bool,
    /// Further constants that the schedule's template takes from the functor, by name.
    pub constants: Vec<(&'static str, usize)>,
}

impl Form {
    /// Steps of `width` elements that read their inputs themselves and keep nothing.
    pub fn of(width: usize) -> Form {
        let words = |_: &Kernel<'_>, _| None;
        let (keeps, tiled, across, constants) = (false, false, false, Vec::new());
        Form { width, keeps, halves: true, input_halves: true, reads: Reads::Directly, words, tiled, across, constants }
    }
}

/// One step of a pass, to render what it computes.
pub(super) struct Step<'a> {
    pub pass: &'a Pass,
    /// The number of the pass.
    pub number: usize,
    /// Elements of the step.
    pub width: usize,
    /// As in [`Form`].
    pub keeps: bool,
    pub halves: bool,
    /// Whether the inputs were read ahead, and are in the arrays of kept values.
    pub preloaded: bool,
    /// Give the name of the array of a kept value, and of an input that the step reads itself.
    pub arrays: [&'a dyn Fn(Value) -> String; 2],
}

/// Renders the functor.
pub(super) fn render(kernel: &Kernel<'_>, form: &Form, out: &mut String) {
    let empty = [Pass::default()];
    let none = kernel.plan.passes.is_empty() && kernel.plan.shape == crate::plan::Shape::Elementwise;
    let passes: &[Pass] = if none { &empty } else { &kernel.plan.passes };
    let functor = Functor { kernel, form, passes };
    out.push_str("// What a step keeps in registers.\nstruct Kept {\n");
    functor.kept_arrays(out);
    out.push_str("};\n");
    out.push_str("// Of each pass: what a step reads for itself, what it stores, and its reductions.\n");
    out.push_str("template <int P> struct Read;\ntemplate <int P> struct Written;\ntemplate <int P> struct About;\n");
    let mut first = 0;
    for (number, pass) in passes.iter().enumerate() {
        functor.types_of_pass(number, first, out);
        first += pass.reduces.len();
    }
    let located = if kernel.plan.index_axes.is_some() { "LocatedAt" } else { "Located" };
    let tensors = kernel.arguments.len();
    let _ = writeln!(out, "struct Fused : fuse::{located}<FusedArgs, {tensors}> {{");
    let constants = [("TENSORS", tensors), ("PASSES", passes.len()), ("REDUCTIONS", first), ("WIDTH", form.width)];
    let row_outputs = usize::from(kernel.has_row_outputs());
    for (name, value) in constants.iter().chain(&form.constants).chain(&[("ROW_OUTPUTS", row_outputs)]) {
        let _ = writeln!(out, "    static const int {name} = {value};");
    }
    out.push_str("    typedef ::Kept Kept;\n    template <int P> using Read = ::Read<P>;\n");
    out.push_str(
        "    template <int P> using Written = ::Written<P>;\n    template <int P> using About = ::About<P>;\n",
    );
    functor.members(out);
    out.push_str("    RF_FN void uniform(const FusedArgs& a) {\n");
    kernel.uniforms(out);
    out.push_str("    }\n");
    for level in 0..=passes.len() {
        let _ = writeln!(out, "    RF_FN void row(const FusedArgs& a, fuse::Pass<{level}>) {{");
        kernel.row_values(out, level);
        out.push_str("    }\n");
    }
    out.push_str("    RF_FN void store_row(const FusedArgs& a) const {\n");
    kernel.row_stores(out, "        ");
    out.push_str("    }\n");
    let _ = writeln!(out, "    RF_FN bool packed(const FusedArgs& a) const {{ return {}; }}", functor.packed());
    functor.assume_packed(out);
    if form.across {
        functor.read_rows(out);
    }
    for number in 0..passes.len() {
        functor.pass(number, out);
    }
    out.push_str("};\n");
}

/// A functor that is being rendered.
struct Functor<'a> {
    kernel: &'a Kernel<'a>,
    form: &'a Form,
    passes: &'a [Pass],
}

impl Functor<'_> {
    fn step(&self, number: usize, preloaded: bool) -> Step<'_> {
        let &Form { width, keeps, halves, .. } = self.form;
        let arrays: [&dyn Fn(Value) -> String; 2] =
            [&|value| format!("k.x{}", value.0), &|value| format!("in.x{}", value.0)];
        Step { pass: &self.passes[number], number, width, keeps, halves, preloaded, arrays }
    }

    /// The inputs of a pass that are read ahead of its steps.
    fn ahead(&self, number: usize) -> Vec<Value> {
        match self.form.reads {
            Reads::Directly => Vec::new(),
            Reads::Ahead | Reads::Both => self.inputs(number),
        }
    }

    /// The inputs per element that a pass reads: all that it needs, or if values are kept, those that no earlier pass has read.
    fn inputs(&self, number: usize) -> Vec<Value> {
        let read_here = |value: &Value| !self.form.keeps || self.kernel.plan.first[value.at()] == number;
        inputs_of(self.kernel, &self.passes[number].needs).into_iter().filter(read_here).collect()
    }

    /// The inputs that a step of a pass reads for itself.
    fn direct(&self, number: usize) -> Vec<Value> {
        let step = self.step(number, false);
        match self.form.reads {
            Reads::Ahead => Vec::new(),
            Reads::Directly | Reads::Both => inputs_of(self.kernel, &step.computed(self.kernel)),
        }
    }

    fn kept_arrays(&self, out: &mut String) {
        let kernel = self.kernel;
        let mut inputs: Vec<Value> = (0..self.passes.len()).flat_map(|number| self.ahead(number)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let is_ahead = |value: &Value| inputs.contains(value);
        if self.form.keeps {
            let kept = super::room::kept(kernel.graph, kernel.plan).filter(|value| !is_ahead(value));
            let (read, made): (Vec<Value>, Vec<Value>) =
                kept.partition(|&value| super::room::is_input(kernel.graph, value));
            arrays(kernel, &read, self.form.width, true, "    ", out);
            arrays(kernel, &made, self.form.width, self.form.halves, "    ", out);
        }
        arrays(kernel, &inputs, self.form.width, self.form.input_halves, "    ", out);
    }

    fn types_of_pass(&self, number: usize, first: usize, out: &mut String) {
        let (kernel, pass, width) = (self.kernel, &self.passes[number], self.form.width);
        let none = if self.form.reads == Reads::Ahead { " : fuse::None" } else { "" };
        let _ = writeln!(out, "template <> struct Read<{number}>{none} {{");
        let step = self.step(number, false);
        for input in self.direct(number).into_iter().filter(|&input| !step.kept(kernel, input)) {
            let dtype = kernel.graph.dtype(input);
            let _ = match kernel.pairs && expr::is_half(dtype) {
                true => writeln!(out, "    fuse::Halves<{}, {width}> x{};", expr::storage(dtype), input.0),
                false => writeln!(out, "    {} x{}[{width}];", expr::register(dtype), input.0),
            };
        }
        let _ = writeln!(out, "}};\ntemplate <> struct Written<{number}> {{");
        written_arrays(kernel, pass, width, "    ", out);
        let reductions: String = (pass.reduces.iter())
            .map(|&reduce| match (self.form.words)(kernel, reduce) {
                Some((of_words, _)) => format!(", {of_words}"),
                None => format!(", {}", kernel.reduction(reduce).0),
            })
            .collect();
        let (ahead, reduces) = (self.ahead(number).len(), !pass.reduces.is_empty());
        let _ = writeln!(
            out,
            "}};\ntemplate <> struct About<{number}> {{\n    static const bool REDUCES = {reduces};\n    \
             static const int FIRST = {first}, AHEAD = {ahead};\n    \
             template <template <class> class State> using Each = fuse::Each<State{reductions}>;\n}};"
        );
    }

    /// Declares the values that are the same everywhere, and those per row.
    fn members(&self, out: &mut String) {
        for value in self.kernel.live_of(Kind::Uniform).chain(self.kernel.live_of(Kind::Row)) {
            let _ = writeln!(out, "    {} v{};", expr::register(self.kernel.graph.dtype(value)), value.0);
        }
    }

    /// The expression that says whether every input per element lies packed. It is the same in every lane.
    fn packed(&self) -> String {
        let read = (0..self.passes.len()).flat_map(|number| inputs_of(self.kernel, &self.passes[number].needs));
        let mut inputs: Vec<usize> = read.map(|input| self.kernel.input(input)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let modes = inputs.iter().map(|at| format!(" && a.tensor[{at}].mode == fuse::PACKED")).collect::<String>();
        format!("a.space.extent % {} == 0{modes}", self.form.width)
    }

    fn pass(&self, number: usize, out: &mut String) {
        let (kernel, pass, width) = (self.kernel, &self.passes[number], self.form.width);
        let place = |at: usize| format!("a.tensor[{at}], offset[{at}]");
        let along = |at: usize| format!("{} + column * a.tensor[{at}].stride[0]", place(at));
        let packed = |at: usize, storage: &str| format!("{} + column * (index_t)sizeof({storage})", place(at));
        let input = |input: Value| (kernel.input(input), expr::storage(kernel.graph.dtype(input)));
        let kept = |value: Value| format!("k.x{}", value.0);
        let both = |whole: String, part: String| {
            format!("        if (count == {width}) {{\n{whole}        }} else {{\n{part}        }}\n")
        };
        let loads = |inputs: &[Value], array: &dyn Fn(Value) -> String| {
            let load = |kind: &str, count: &str, value: Value| {
                let (at, storage) = input(value);
                format!("fuse::load_{kind}<{storage}>({}, {}{count});", array(value), along(at))
            };
            let all = |kind, count| lines("            ", inputs.iter().map(|&value| load(kind, count, value)));
            both(all("full", ""), all("part", ", count"))
        };
        let get = |value: Value| {
            let (at, storage) = input(value);
            format!("By::template get<{storage}>({}, {});", kept(value), packed(at, storage))
        };
        let (direct, ahead, step) = (self.direct(number), self.ahead(number), self.step(number, false));
        let own = direct.iter().filter(|&&value| !step.kept(kernel, value)).map(|&value| {
            let (at, storage) = input(value);
            format!("by.template of<{storage}>(in.x{}, {});", value.0, place(at))
        });
        // Inputs that may be in a tile; `load_turned` reads them there.
        let tiled = direct.iter().filter(|&&value| !step.kept(kernel, value)).map(|&value| {
            let ((at, storage), array) = (input(value), format!("in.x{}", value.0));
            let tile = format!("(const {storage}*)tiles[a.tensor[{at}].mode - fuse::TILED]");
            let turned = format!("fuse::load_turned<{storage}, SIDE>({array}, {tile}, column, line)");
            let whole = format!("fuse::load_full<{storage}>({array}, {})", along(at));
            let part = format!("fuse::load_part<{storage}>({array}, {}, count)", along(at));
            let mode = format!("a.tensor[{at}].mode >= fuse::TILED");
            format!("if ({mode}) {turned}; else if (count == {width}) {whole}; else {part};")
        });
        let again = pass.again.iter().flat_map(|again| kernel.graph.nodes[again.at()].0.operands());
        let is_kept = |value: Value| self.form.reads != Reads::Directly && super::room::is_input(kernel.graph, value);
        let again = again.filter(|&value| is_kept(value));
        let again = again.filter(|value| kernel.plan.kinds[value.at()] == Kind::Full);
        let reductions = || pass.reduces.iter().enumerate();
        let words = reductions().filter_map(|(index, &reduce)| {
            let (_, input) = (self.form.words)(kernel, reduce)?;
            Some(format!("fuse::Nth<{index}>::of(folds).extreme.put({});", kept(input)))
        });
        let reduced = reductions().map(|(index, &reduce)| {
            let total = format!("fuse::Nth<{index}>::of(folds).total, a.space.extent");
            format!("v{} = {}::finish({total});", reduce.0, kernel.reduction(reduce).0)
        });
        let stores = |store: &str, count: &str, is_packed: bool, indent: &str| {
            let each = pass.stores.iter().map(|&slot| {
                let (at, storage) =
                    (kernel.output(slot), expr::storage(kernel.graph.dtype(kernel.graph.outputs[slot])));
                let place = if is_packed { packed(at, storage) } else { along(at) };
                format!("{store}<{storage}>(from.y{slot}, {place}{count});")
            });
            lines(indent, each)
        };
        let inner = "            ";
        let text = format!(
            "    RF_FN void read(ARGS, Kept& k, Read<{number}>& in, index_t column, rf::u32 count) const {{\n{}    }}
    template <class By> RF_FN void each_input(ARGS, Read<{number}>& in, const By& by) const {{\n{}    }}
    template <class Tiles>
    RF_FN void read_tiled(ARGS, Read<{number}>& in, const Tiles& tiles, rf::u32 column, rf::u32 line, rf::u32 count) const {{\n{}    }}
    RF_FN void ahead(ARGS, Kept& k, index_t column, rf::u32 count) const {{\n{}    }}
    template <class By> RF_FN void ahead_packed(ARGS, Kept& k, index_t column) const {{\n{}    }}
    RF_FN void make_anew(ARGS, Kept& k) const {{\n{}    }}
    template <class Folds> RF_FN void words(ARGS, const Kept& k, Folds& folds) const {{\n{}    }}
    template <class Folds> RF_FN void reduced(ARGS, const Folds& folds) {{\n{}    }}
    template <class By> RF_FN void write(ARGS, const Written<{number}>& from, index_t column, rf::u32 count, bool live) const {{
        if (!live) return;\n{}    }}
    RF_FN void write_packed(ARGS, const Written<{number}>& from, index_t column) const {{\n{}    }}\n",
            loads(&direct, &|value| step.arrays[usize::from(!step.kept(kernel, value))](value)),
            lines("        ", own),
            if self.form.tiled { lines("        ", tiled) } else { String::new() },
            loads(&ahead, &kept),
            lines("        ", ahead.iter().map(|&value| get(value))),
            lines("        ", again.map(|value| format!("fuse::make_anew({});", kept(value)))),
            lines("        ", words),
            lines("        ", reduced),
            both(stores("By::template put", "", false, inner), stores("fuse::store_part", ", count", false, inner)),
            stores("fuse::store_packed", "", true, "        "),
        );
        let args = format!("const FusedArgs& a, fuse::Pass<{number}>");
        out.push_str(&text.replace("ARGS", &args));
        for (index, &value) in ahead.iter().enumerate() {
            let text = format!(
                "    RF_FN bool is_packed(ARGS) const {{ return a.tensor[{}].mode == fuse::PACKED; }}
    RF_FN void ahead(ARGS, Kept& k, index_t column, rf::u32 count) const {{\n{}    }}
    template <class By> RF_FN void ahead_packed(ARGS, Kept& k, index_t column) const {{ {} }}\n",
                input(value).0,
                loads(&[value], &kept),
                get(value)
            );
            out.push_str(&text.replace("ARGS", &format!("{args}, fuse::Input<{index}>")));
        }
        if self.form.reads != Reads::Ahead {
            self.step_function(number, &step, &format!("const Read<{number}>& in"), out);
        }
        if self.form.reads != Reads::Directly {
            self.step_function(number, &self.step(number, true), "const fuse::None&", out);
        }
    }

    /// Renders what a kernel may assume that is only launched with packed tensors, so that the compiler leaves the other modes out.
    fn assume_packed(&self, out: &mut String) {
        let (graph, plan) = (self.kernel.graph, self.kernel.plan);
        out.push_str("    RF_FN void assume_packed(const FusedArgs& a) const {\n");
        let _ = writeln!(out, "        if (a.space.extent % {} != 0) __builtin_unreachable();", self.form.width);
        for (at, &argument) in self.kernel.arguments.iter().enumerate() {
            let is_full = match argument {
                Argument::Input(_, value) => super::room::is_input(graph, value),
                Argument::Output(slot) => plan.kinds[graph.outputs[slot].at()] != Kind::Row,
            };
            if is_full {
                let _ = writeln!(out, "        if (a.tensor[{at}].mode != fuse::PACKED) __builtin_unreachable();");
            }
        }
        out.push_str("    }\n");
    }

    /// Renders the reading of inputs of two neighbouring rows. All 16-bit words are on the way before any of them is converted.
    fn read_rows(&self, out: &mut String) {
        let graph = self.kernel.graph;
        let (halves, others): (Vec<Value>, Vec<Value>) =
            self.ahead(0).into_iter().partition(|&input| expr::is_half(graph.dtype(input)));
        let named = |input: Value| (input.0, self.kernel.input(input), expr::storage(graph.dtype(input)));
        let along = |at: usize| format!("a.tensor[{at}], offset[{at}] + column * a.tensor[{at}].stride[0], count");
        let words = halves.iter().map(|&input| {
            let (value, at, storage) = named(input);
            format!("fuse::Across<{storage}> r{value}; r{value}.get({});", along(at))
        });
        let numbers = others.iter().map(|&input| {
            let (value, at, storage) = named(input);
            format!("fuse::load_rows<{storage}>(k[0].x{value}, k[1].x{value}, {});", along(at))
        });
        let made = halves.iter().map(|&input| {
            let (value, at, _) = named(input);
            format!("r{value}.put(k[0].x{value}, k[1].x{value}, a.tensor[{at}]);")
        });
        let text = lines("        ", words.chain(numbers).chain(made));
        let _ = writeln!(
            out,
            "    RF_FN void read_rows(const FusedArgs& a, Kept (&k)[2], index_t column, rf::u32 count) const {{\n{text}    }}"
        );
    }

    fn step_function(&self, number: usize, step: &Step<'_>, read: &str, out: &mut String) {
        let _ = writeln!(
            out,
            "    template <class Folds>\n    RF_FN void step(const FusedArgs& a, fuse::Pass<{number}>, Kept& k, {read}, Written<{number}>& to, Folds& folds, index_t column, rf::u32 count) {{"
        );
        let in_words = |value: Value| (self.form.words)(self.kernel, value).is_some();
        let made = step.pass.reduces.iter().any(|&reduce| !in_words(reduce)) || !step.pass.stores.is_empty();
        if made {
            step.render(self.kernel, &in_words, "        ", out);
        }
        out.push_str("    }\n");
    }
}

impl Step<'_> {
    /// Renders the loop over a step's elements. Operands of reductions go to `folds`, outputs to `to`.
    pub fn render(&self, kernel: &Kernel<'_>, in_words: &dyn Fn(Value) -> bool, indent: &str, out: &mut String) {
        let (computed, width) = (self.computed(kernel), self.width);
        for &value in &computed {
            if let Some((from, by)) = self.divides(kernel, value) {
                let at = value.0;
                let _ = writeln!(
                    out,
                    "{indent}float d{at}[{width}];\n{indent}fuse::divide_each(d{at}, {from}, v{});",
                    by.0
                );
            }
        }
        let next = if kernel.pairs { "e += 2" } else { "++e" };
        let _ = writeln!(out, "#pragma unroll\n{indent}for (int e = 0; e < {width}; {next}) {{");
        for &value in &computed {
            self.compute(kernel, value, indent, out);
        }
        for (index, &reduce) in self.pass.reduces.iter().enumerate().filter(|(_, reduce)| !in_words(**reduce)) {
            let (functor, operand) = kernel.reduction(reduce);
            let mut put = |e, value: String| {
                let to = format!("fuse::Nth<{index}>::of(folds).s[{e} / {QUAD}][{e} % {QUAD}]");
                let _ = writeln!(out, "{indent}    {to} = ({functor}::A){value};");
            };
            if kernel.pairs {
                let pair = pairs::name(kernel, self, operand);
                put("e", format!("{pair}.low()"));
                put("(e + 1)", format!("{pair}.high()"));
            } else {
                put("e", self.name(kernel, operand));
            }
        }
        for &slot in &self.pass.stores {
            let value = kernel.graph.outputs[slot];
            let _ = if kernel.pairs {
                let (storage, pair) = (expr::storage(kernel.graph.dtype(value)), pairs::name(kernel, self, value));
                writeln!(out, "{indent}    fuse::put_two<{storage}>(to.y{slot}, e, {pair});")
            } else {
                writeln!(out, "{indent}    to.y{slot}[e] = {};", self.name(kernel, value))
            };
        }
        let _ = writeln!(out, "{indent}}}");
    }

    /// The values that the pass computes or reads, because they are not kept from an earlier pass.
    fn computed(&self, kernel: &Kernel<'_>) -> Vec<Value> {
        self.pass.needs.iter().copied().filter(|&value| self.computes(kernel, value)).collect()
    }

    fn computes(&self, kernel: &Kernel<'_>, value: Value) -> bool {
        !self.keeps || kernel.plan.first[value.at()] == self.number || self.pass.again.contains(&value)
    }

    fn kept(&self, kernel: &Kernel<'_>, value: Value) -> bool {
        let input = || matches!(kernel.graph.nodes[value.at()].0, Node::Input(_));
        (self.keeps && kernel.plan.kept[value.at()]) || (self.preloaded && input())
    }

    /// The array that has a value per element; `None` if this pass computes it in the loop.
    pub fn array(&self, kernel: &Kernel<'_>, value: Value) -> Option<String> {
        let input = matches!(kernel.graph.nodes[value.at()].0, Node::Input(_));
        match (self.kept(kernel, value), input) {
            (true, _) if input || !self.computes(kernel, value) => Some(self.arrays[0](value)),
            (_, true) => Some(self.arrays[1](value)),
            (_, false) => None,
        }
    }

    /// For a quotient of floats that is computed before the loop over elements, the array of dividends and the divisor. That needs all
    /// dividends in an array, and one divisor for all. `None` for any other value.
    fn divides(&self, kernel: &Kernel<'_>, value: Value) -> Option<(String, Value)> {
        let (Node::Binary(Binary::Div, a, b), DType::F32) = kernel.graph.nodes[value.at()] else { return None };
        let shared = kernel.plan.kinds[a.at()] == Kind::Full && kernel.plan.kinds[b.at()] < Kind::Full;
        let apart = self.preloaded && shared && !kernel.pairs;
        apart.then(|| self.array(kernel, a)).flatten().map(|from| (from, b))
    }

    /// The expression of a value in the loop over elements.
    fn name(&self, kernel: &Kernel<'_>, value: Value) -> String {
        if kernel.plan.kinds[value.at()] != Kind::Full {
            return format!("v{}", value.0);
        }
        match self.array(kernel, value) {
            Some(array) => format!("{array}[e]"),
            None => format!("v{}", value.0),
        }
    }

    fn compute(&self, kernel: &Kernel<'_>, value: Value, indent: &str, out: &mut String) {
        let (node, dtype) = kernel.graph.nodes[value.at()];
        let (at, storage) = (value.0, expr::storage(dtype));
        if kernel.pairs && !matches!(node, Node::Input(_)) {
            let _ = writeln!(
                out,
                "{indent}    const fuse::Two<{storage}> v{at} = {};",
                pairs::compute(kernel, self, value)
            );
            if self.kept(kernel, value) {
                let _ = writeln!(out, "{indent}    fuse::put_two<{storage}>({}, e, v{at});", self.arrays[0](value));
            }
            return;
        }
        let text = match node {
            Node::Input(_) => return,
            Node::Index(0) => "(rf::i64)(column + (index_t)e)".to_owned(),
            Node::Index(axis) => format!("(rf::i64)at[{axis}]"),
            Node::Lookup(_, index) => kernel.look_up(value, &self.name(kernel, index), "e"),
            Node::Check(op, index, extent) => {
                expr::check(op, &self.name(kernel, index), &self.name(kernel, extent), "(rf::u32)e < count")
            }
            _ if self.divides(kernel, value).is_some() => format!("d{at}[e]"),
            _ => expr::expression(kernel.graph, &kernel.plan.kinds, value, |operand| self.name(kernel, operand)),
        };
        let _ = writeln!(out, "{indent}    const {} v{at} = {text};", expr::register(dtype));
        if self.kept(kernel, value) {
            let array = self.arrays[0](value);
            let _ = match self.halves && expr::is_half(dtype) {
                true => writeln!(out, "{indent}    {array}.put(e, v{at});"),
                false => writeln!(out, "{indent}    {array}[e] = v{at};"),
            };
        }
    }
}

/// Renders statements, one per line.
fn lines(indent: &str, statements: impl Iterator<Item = String>) -> String {
    statements.map(|statement| format!("{indent}{statement}\n")).collect()
}

fn inputs_of(kernel: &Kernel<'_>, values: &[Value]) -> Vec<Value> {
    values.iter().copied().filter(|&value| super::room::is_input(kernel.graph, value)).collect()
}

/// Declares an array `x…` of `width` elements for each value. With `halves` 16-bit floats lie two in a register, else as pairs have them.
pub(super) fn arrays(
    kernel: &Kernel<'_>,
    values: &[Value],
    width: usize,
    halves: bool,
    indent: &str,
    out: &mut String,
) {
    for &value in values {
        let dtype = kernel.graph.dtype(value);
        let (storage, register) = (expr::storage(dtype), expr::register(dtype));
        let _ = match (halves, kernel.pairs) {
            (true, _) if expr::is_half(dtype) => {
                writeln!(out, "{indent}fuse::Halves<{storage}, {width}> x{};", value.0)
            }
            (_, true) if expr::is_half(dtype) => {
                writeln!(out, "{indent}fuse::Several<{storage}, {width}> x{};", value.0)
            }
            _ => writeln!(out, "{indent}{register} x{}[{width}];", value.0),
        };
    }
}

/// Declares an array `y…` of `width` elements for each output that a pass stores.
pub(super) fn written_arrays(kernel: &Kernel<'_>, pass: &Pass, width: usize, indent: &str, out: &mut String) {
    for &slot in &pass.stores {
        let dtype = kernel.graph.dtype(kernel.graph.outputs[slot]);
        let _ = match kernel.pairs && expr::is_half(dtype) {
            true => writeln!(out, "{indent}fuse::Several<{}, {width}> y{slot};", expr::storage(dtype)),
            false => writeln!(out, "{indent}{} y{slot}[{width}];", expr::register(dtype)),
        };
    }
}
