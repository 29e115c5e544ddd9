//! The text of elementwise kernels, one or several as one: what a graph computes of each element, and where elements lie.

use std::fmt::Write as _;
use std::sync::LazyLock;

use rocfire_fusion::{FUNCTOR_HEADER, Graph, functor};

use crate::family::device;

/// What all of these texts begin with.
pub(crate) static HEAD: LazyLock<String> = LazyLock::new(|| {
    let own = [include_str!("device/info.h"), include_str!("device/each.h"), include_str!("device/chain.h")].concat();
    format!("#ifndef CANDLE_FUNCTOR_H\n#define CANDLE_FUNCTOR_H\n{FUNCTOR_HEADER}#endif\n{own}")
});

/// The kernel of such parameters behind the text of [`Elements`]; `args` makes `a` of them, an `Args`.
pub(crate) fn kernel(parameters: &str, args: &str) -> String {
    let each = include_str!("device/each.hip");
    let head = "extern \"C\" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME";
    format!("{each}{head}({parameters}) {{\n    {args}\n    each_element(a);\n}}\n")
}

/// A graph, and what a kernel has of its operands.
pub(crate) struct Elements<'a> {
    /// The last output is what the kernel computes last.
    pub graph: &'a Graph,
    /// So many of the outputs, the first ones, are stored.
    pub stored: usize,
    /// The fields of the argument struct: `count`; `x0`, `y0`, `p0` and so on for the graph's inputs, stored outputs and
    /// scalars; `axes0` and `info0` and so on for extents and strides.
    pub fields: String,
    /// Of each input the number of its extents and strides, and its number among their operands; `None` for a dense one.
    pub places: Vec<Option<(usize, usize)>>,
    /// Whether inputs with extents and strides may lie dense all the same.
    pub may_be_dense: bool,
}

impl Elements<'_> {
    /// `Functor`, `Args` and `Elements`.
    pub(crate) fn text(&self) -> String {
        let inputs: Vec<&str> = self.graph.inputs().map(|(dtype, _)| device(dtype)).collect();
        let outputs: Vec<&str> = self.graph.outputs().iter().map(|&output| device(self.graph.dtype(output))).collect();
        let last = outputs.len() - 1;
        let mut text = functor(self.graph);
        let mut put = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes all");
        put(format_args!("struct Args {{\n{}}};", self.fields));
        put(format_args!("struct Elements {{\n    const Args& a;\n    typedef {} Last;", outputs[last]));
        put(format_args!("    // W elements from element n on; the last results are given too."));
        put(format_args!("    template <int W, bool DENSE> RF_FN void go(u32 n, Last* last) const {{"));
        for (at, (dtype, place)) in inputs.iter().zip(&self.places).enumerate() {
            put(format_args!("        {dtype} x{at}[W];"));
            if let Some((info, operand)) = place {
                let place = format!("a.info{info}, a.axes{info}, {operand}");
                put(format_args!("        if (!DENSE) Part<W>::load({place}, a.x{at}, n, x{at}); else"));
            }
            put(format_args!("        Part<W>::load(a.x{at}, n, x{at});"));
        }
        outputs.iter().enumerate().for_each(|(at, dtype)| put(format_args!("        {dtype} y{at}[W];")));
        let operands = (0..inputs.len()).map(|at| format!("x{at}[j]"));
        let numbers = (0..self.graph.scalars().count()).map(|at| format!("a.p{at}"));
        let results = (0..outputs.len()).map(|at| format!("y{at}[j]"));
        let given: Vec<String> = operands.chain(numbers).chain(results).collect();
        put(format_args!("#pragma unroll\n        for (int j = 0; j < W; ++j) Functor::of({});", given.join(", ")));
        (0..self.stored).for_each(|at| put(format_args!("        Part<W>::store(a.y{at}, n, y{at});")));
        put(format_args!("        for (int j = 0; j < W; ++j) last[j] = y{last}[j];\n    }}"));
        let all =
            |start: &str, of: &mut dyn Iterator<Item = String>| of.fold(start.to_owned(), |all, of| all + " && " + &of);
        let placed = || self.places.iter().flatten();
        let is_dense = match self.may_be_dense {
            true => {
                all("true", &mut placed().map(|(info, at)| format!("is_dense(a.info{info}, (u32)a.axes{info}, {at})")))
            }
            false => placed().next().is_none().to_string(),
        };
        let has_runs = placed().map(|(info, at)| format!("has_runs<V>(a.info{info}, (u32)a.axes{info}, {at})"));
        let read = inputs.iter().enumerate().map(|(at, dtype)| format!("is_aligned<{dtype}, V>(a.x{at})"));
        let written = outputs[..self.stored].iter().enumerate();
        let written = written.map(|(at, dtype)| format!("is_aligned<{dtype}, V>(a.y{at})"));
        put(format_args!("    RF_FN bool is_all_dense() const {{ return {is_dense}; }}"));
        let tests = [
            ("has_all_runs", all("true", &mut { has_runs })),
            ("is_all_aligned", all("true", &mut read.chain(written))),
        ];
        for (name, test) in tests {
            put(format_args!("    template <int V> RF_FN bool {name}() const {{ return {test}; }}"));
        }
        put(format_args!("}};"));
        text
    }
}
