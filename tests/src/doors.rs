//! Which public item of Burn's and of Candle's adapter reaches each launcher, as a table of the documentation.
//!
//! [`DOORS`] names the items; what they reach is read off the sources. Functions are followed by their names within the adapter, so
//! that a call of another function of the same name counts too; the one that names the launcher must stand in a file that
//! imports from the launcher's crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A public item, and the function of the adapter that it begins at.
type Item = Option<(&'static str, &'static str)>;

/// A launcher's name, its family, and what reaches it.
struct Door {
    launcher: &'static str,
    burn: Item,
    candle: Item,
}

const fn both(
    launcher: &'static str,
    burn: (&'static str, &'static str),
    candle: (&'static str, &'static str),
) -> Door {
    Door { launcher, burn: Some(burn), candle: Some(candle) }
}

const fn burn(launcher: &'static str, item: &'static str, function: &'static str) -> Door {
    Door { launcher, burn: Some((item, function)), candle: None }
}

const fn candle(launcher: &'static str, item: &'static str, function: &'static str) -> Door {
    Door { launcher, burn: None, candle: Some((item, function)) }
}

const fn none(launcher: &'static str) -> Door {
    Door { launcher, burn: None, candle: None }
}

/// Launchers that nothing reaches yet. A launcher that has a door must not be here; the list only gets shorter.
const WITHOUT_DOOR: &[&str] =
    &["attention::attention_backward_sinks", "gemm::gemm_grouped_fused", "quant::halve_to_fnuz"];

const DOORS: &[Door] = &[
    both(
        "attention::attention",
        ("rocfire_burn_nn::attention", "attend"),
        ("rocfire_candle::flash_attn", "flash_attn"),
    ),
    both(
        "attention::attention_backward",
        ("gradients of rocfire_burn_nn::attention", "fused_attention_backward"),
        ("gradients of rocfire_candle::flash_attn", "bwd"),
    ),
    none("attention::attention_backward_sinks"),
    burn("conv::conv", "burn::nn::conv", "forward"),
    burn("conv::conv_fused", "burn::nn::conv and what follows it", "run_kernel"),
    burn("conv::conv_input_gradient", "gradients of burn::nn::conv", "input_gradient"),
    burn("conv::conv_weight_gradient", "gradients of burn::nn::conv", "weight_gradient"),
    burn("gate::gate", "rocfire_burn_nn::gate", "gate"),
    burn("gate::gate_backward", "gradients of rocfire_burn_nn::gate", "gate"),
    both("gemm::gemm", ("Tensor::matmul", "float_matmul"), ("Tensor::matmul", "gemm_strided_batched_ex")),
    burn("gemm::gemm_apart", "Tensor::matmul and what follows it", "execute"),
    both(
        "gemm::gemm_fused",
        ("Tensor::matmul and what follows it", "execute"),
        ("Tensor::matmul and what follows it", "with_epilogue"),
    ),
    candle("gemm::gemm_grouped", "candle_nn::moe::moe_gemm", "moe_gemm"),
    none("gemm::gemm_grouped_fused"),
    burn("index::gather", "Tensor::gather", "float_gather"),
    burn("index::scatter", "Tensor::scatter", "float_scatter"),
    burn("index::select", "Tensor::select", "float_select"),
    burn("index::select_update", "Tensor::select_assign", "float_select_assign"),
    burn("interpolate::interpolate", "burn::tensor::module::interpolate", "interpolate"),
    burn("interpolate::interpolate_gradient", "gradients of burn::tensor::module::interpolate", "interpolate_backward"),
    burn("loss::cross_entropy", "rocfire_burn_nn::CrossEntropyLoss", "cross_entropy"),
    burn("loss::cross_entropy_backward", "gradients of rocfire_burn_nn::CrossEntropyLoss", "cross_entropy"),
    burn("loss::ctc_alpha", "burn::nn::loss::CTCLoss", "ctc_loss"),
    burn("loss::ctc_beta", "gradients of burn::nn::loss::CTCLoss", "ctc_loss_backward"),
    burn("norm::group_norm", "rocfire_burn_nn::GroupNorm", "group_norm"),
    burn("norm::group_norm_backward", "gradients of rocfire_burn_nn::GroupNorm", "group_norm"),
    burn("norm::norm", "rocfire_burn_nn::RmsNorm", "norm"),
    burn("norm::norm_backward", "gradients of rocfire_burn_nn::RmsNorm", "norm"),
    burn("pool::adaptive_average_pool", "burn::tensor::module::adaptive_avg_pool2d", "adaptive_avg_pool2d"),
    burn(
        "pool::adaptive_average_pool_gradient",
        "gradients of burn::tensor::module::adaptive_avg_pool2d",
        "adaptive_avg_pool2d_backward",
    ),
    burn("pool::average_pool", "burn::tensor::module::avg_pool2d", "avg_pool2d"),
    burn("pool::average_pool_gradient", "gradients of burn::tensor::module::avg_pool2d", "avg_pool2d_backward"),
    burn("pool::max_pool", "burn::tensor::module::max_pool2d", "max_pool2d"),
    burn(
        "pool::max_pool_gradient",
        "gradients of burn::tensor::module::max_pool2d",
        "max_pool2d_with_indices_backward",
    ),
    burn("quant::block_peaks", "Tensor::quantize_dynamic", "quantize_dynamic"),
    burn("quant::dequantise", "Tensor::dequantize", "dequantize"),
    burn("quant::gate_quantise", "rocfire_burn_nn::Coded", "of_gate"),
    none("quant::halve_to_fnuz"),
    burn("quant::norm_quantise", "rocfire_burn_nn::RmsNorm", "forward_coded"),
    burn("quant::q_matmul", "Tensor::matmul of quantised tensors", "q_matmul"),
    burn("quant::q_matmul_preshuffled", "rocfire_burn_nn::QuantLinear", "product"),
    burn("quant::q_matmul_scaled", "rocfire_burn_nn::QuantLinear", "product"),
    burn("quant::quantise", "Tensor::quantize", "quantize"),
    burn("quant::quantise_activations", "rocfire_burn_nn::Coded", "coded"),
    burn("quant::store_scales", "Tensor::quantize", "quantize"),
    burn("random::bernoulli", "Tensor::random", "float_random"),
    both("random::normal", ("Tensor::random", "float_random"), ("Tensor::randn", "fill_with_normal")),
    both("random::uniform", ("Tensor::random", "float_random"), ("Tensor::rand", "fill_with_uniform")),
    burn("reduce::arg_max", "Tensor::argmax", "float_argmax"),
    burn("reduce::arg_min", "Tensor::argmin", "float_argmin"),
    burn("rope::rope", "rocfire_burn_nn::RotaryEncoding", "forward_at"),
    burn("rope::rope_table", "rocfire_burn_nn::RotaryEncoding", "rope_table"),
    burn("scan::cumulative", "Tensor::cumsum", "float_cumsum"),
    burn("softmax::log_softmax", "rocfire_burn_nn::log_softmax", "log_softmax"),
    burn("softmax::log_softmax_backward", "gradients of rocfire_burn_nn::log_softmax", "log_softmax"),
    burn("softmax::softmax", "rocfire_burn_nn::softmax", "softmax"),
    burn("softmax::softmax_backward", "gradients of rocfire_burn_nn::softmax", "softmax"),
    both("sort::sort", ("Tensor::sort", "float_sort"), ("Tensor::arg_sort_last_dim", "sort")),
];

/// The table in Markdown, `tests/doors.md`, word for word; and what is wrong with it.
pub fn doors() -> (String, Vec<String>) {
    let mut text = "# Doors

Written from the code by `ROCFIRE_BLESS=1 cargo test --test coverage`; the same test fails when it is out of date. Every public
launcher of `rocfire-kernels`, and the public item by which a user of Burn or of Candle reaches it.

| launcher | Burn | Candle |
| --- | --- | --- |
"
    .to_owned();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace");
    let adapters = ["burn", "candle"].map(|name| Adapter::read(&root.join("backend").join(name)));
    let (launchers, mut wrong) = (launchers(&root.join("kernels/src")), Vec::new());
    let named: BTreeSet<&str> = DOORS.iter().map(|door| door.launcher).collect();
    wrong.extend(launchers.iter().filter(|name| !named.contains(name.as_str())).map(|name| format!("no row: {name}")));
    for door in DOORS {
        let launcher = door.launcher;
        if !launchers.contains(launcher) {
            wrong.push(format!("no such launcher: {launcher}"));
        }
        let items = [door.burn, door.candle];
        for (adapter, (item, function)) in
            adapters.iter().zip(items).filter_map(|(adapter, item)| Some((adapter, item?)))
        {
            if !adapter.exports(item) {
                wrong.push(format!("{launcher}: {item} is not public"));
            }
            if !adapter.reaches(function, launcher) {
                wrong.push(format!("{launcher}: {function} ({item}) does not reach it"));
            }
        }
        if items == [None, None] && !WITHOUT_DOOR.contains(&launcher) {
            wrong.push(format!("{launcher} has no door"));
        }
        if items != [None, None] && WITHOUT_DOOR.contains(&launcher) {
            wrong.push(format!("{launcher} has a door, and is listed as without"));
        }
        let [burn, candle] = items.map(|item| item.map_or("", |(item, _)| item));
        writeln!(text, "| `{launcher}` | {burn} | {candle} |").expect("a string takes text");
    }
    (text, wrong)
}

/// Functions by name: what their bodies name.
#[derive(Default)]
struct Adapter {
    functions: BTreeMap<String, Vec<Body>>,
    /// What the crates' front pages name, by crate.
    fronts: BTreeMap<&'static str, BTreeSet<String>>,
}

struct Body {
    names: BTreeSet<String>,
    /// Whether its file imports from the library of launchers.
    is_caller: bool,
}

impl Adapter {
    fn read(folder: &Path) -> Adapter {
        let mut adapter = Adapter::default();
        for (path, text) in sources(folder) {
            if path.ends_with("burn/nn/src/lib.rs") {
                adapter.fronts.insert("rocfire_burn_nn", words(&text));
            } else if path.ends_with("candle/src/lib.rs") {
                adapter.fronts.insert("rocfire_candle", words(&text));
            }
            let aliases: BTreeMap<&str, &str> = text
                .match_indices(" as ")
                .filter_map(|(at, _)| {
                    let name = text[..at].rsplit(|c: char| !is_word(c)).next()?;
                    let alias = text[at + 4..].split(|c: char| !is_word(c)).next()?;
                    (!name.is_empty() && text[..at].rfind("use ") > text[..at].rfind(';')).then_some((alias, name))
                })
                .collect();
            let is_caller = text.contains("rocfire_kernels::");
            for (name, body) in functions(&text) {
                let mut names = words(&body);
                let meant: Vec<String> = aliases
                    .iter()
                    .filter(|(alias, _)| names.contains(**alias))
                    .map(|(_, name)| (*name).to_owned())
                    .collect();
                names.extend(meant);
                adapter.functions.entry(name).or_default().push(Body { names, is_caller });
            }
        }
        adapter
    }

    /// Whether an item of ours is on its crate's front page; others are the frameworks' own.
    fn exports(&self, item: &str) -> bool {
        let path = item.rsplit(' ').next().unwrap_or(item);
        let mut parts = path.split("::");
        let front = parts.next().and_then(|first| self.fronts.get(first));
        front.is_none_or(|front| parts.next().is_some_and(|name| front.contains(name)))
    }

    /// Whether a function, or one that it names in turn, names the launcher.
    fn reaches(&self, function: &str, launcher: &str) -> bool {
        let launcher = launcher.rsplit("::").next().unwrap_or(launcher);
        let (mut seen, mut left) = (BTreeSet::new(), vec![function]);
        while let Some(name) = left.pop() {
            let Some(bodies) = self.functions.get(name).filter(|_| seen.insert(name)) else { continue };
            if bodies.iter().any(|body| body.is_caller && body.names.contains(launcher)) {
                return true;
            }
            left.extend(bodies.iter().flat_map(|body| &body.names).map(String::as_str));
        }
        false
    }
}

/// Public functions of a family that take a stream and can fail, as `family::name`; a question about it is none.
fn launchers(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, text) in sources(folder) {
        let inner = path.strip_prefix(folder).expect("it was found there");
        let family = inner.components().next().expect("a file has a name").as_os_str().to_string_lossy().into_owned();
        for (at, _) in text.match_indices("\npub fn ").filter(|_| inner.components().count() > 1) {
            let head = &text[at + 8..];
            let head = &head[..head.find('{').unwrap_or(head.len())];
            if head.contains("&Stream") && head.contains("-> Result<") && !head.contains("Result<bool>") {
                let name = head.split(|c: char| !is_word(c)).next().unwrap_or_default();
                found.insert(format!("{family}::{name}"));
            }
        }
    }
    found
}

/// Rust files of a folder but for tests.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).expect("the folder is in the tree").map(|entry| entry.expect("it can be read"))
        {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                found.push((path, text));
            }
        }
    }
    found
}

/// Functions and their bodies, which end, as rustfmt writes them, at a brace that is as far in as they.
fn functions(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if let Some((name, made_of)) = line.trim().split_once(" => ").filter(|_| line.ends_with(';')) {
            found.push((name.to_owned(), made_of.to_owned())); // A row of a macro that makes functions.
            continue;
        }
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let margin = &line[..line.len() - line.trim_start().len()];
        let is_head = before.trim().split(' ').all(|word| {
            word.is_empty()
                || word.starts_with("pub")
                || word.ends_with(')')
                || ["const", "unsafe", "extern", "\"C\""].contains(&word)
        });
        if !is_head {
            continue;
        }
        let end = [format!("{margin}}}"), format!("{margin}}},")];
        let is_short = line.ends_with('}') || line.ends_with(';');
        let rest = &lines[number..];
        let count =
            if is_short { 1 } else { rest.iter().position(|line| end.iter().any(|end| line == end)).unwrap_or(0) + 1 };
        let name = after.split(|c: char| !is_word(c)).next().unwrap_or_default();
        let body = [&after[name.len()..], &rest[1..count.max(1)].join("\n")].join("\n");
        found.push((name.to_owned(), body));
    }
    found
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
