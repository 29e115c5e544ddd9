//! Which public item of Burn's and of Candle's adapter reaches each launcher, as a table of the documentation.
//!
//! [`DOORS`] names the items. Those of ours must be on their crate's front page, and what they reach is read off the
//! sources ([`walk`]); those of a framework's are followed from the function that the framework calls for them, in
//! [`BEGINS`].

mod walk;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use walk::{Sources, files, first_word, modules};

/// Launchers, what reaches them in Burn, and in Candle.
const DOORS: &[(&str, &str, &str)] = &[
    ("attention::attention", "rocfire_burn_nn::attention", "rocfire_candle::flash_attn"),
    (
        "attention::attention_backward",
        "gradients of rocfire_burn_nn::attention",
        "gradients of rocfire_candle::flash_attn",
    ),
    ("attention::attention_backward_sinks", "gradients of rocfire_burn_nn::attention", ""),
    ("attention::paged_attention", "rocfire_burn_nn::KvCache", "rocfire_candle::KvCache"),
    ("cache::copy_blocks", "rocfire_burn_nn::KvCache", "rocfire_candle::KvCache"),
    ("cache::gather", "rocfire_burn_nn::KvCache", "rocfire_candle::KvCache"),
    ("cache::write", "rocfire_burn_nn::KvCache", "rocfire_candle::KvCache"),
    ("causal_conv::causal_conv", "rocfire_burn_nn::States", "rocfire_candle::causal_conv"),
    ("conv::conv", "burn::nn::conv", ""),
    ("conv::conv_fused", "burn::nn::conv and what follows it", ""),
    ("conv::conv_input_gradient", "gradients of burn::nn::conv", "Tensor::conv_transpose2d"),
    ("conv::conv_weight_gradient", "gradients of burn::nn::conv", ""),
    ("delta::delta_rule", "rocfire_burn_nn::States", "rocfire_candle::delta_rule"),
    ("experts::combine", "rocfire_burn_nn::ByExpert", "rocfire_candle::combine"),
    ("experts::combine_backward", "gradients of rocfire_burn_nn::ByExpert", "gradients of rocfire_candle::combine"),
    ("experts::route", "rocfire_burn_nn::route", "rocfire_candle::route"),
    ("experts::sort_by_expert", "rocfire_burn_nn::Experts", "rocfire_candle::sort_by_expert"),
    ("gate::gate", "rocfire_burn_nn::gate", "rocfire_candle::gate"),
    ("gate::gate_backward", "gradients of rocfire_burn_nn::gate", "gradients of rocfire_candle::gate"),
    ("gemm::gemm", "Tensor::matmul", "Tensor::matmul"),
    ("gemm::gemm_apart", "Tensor::matmul and what follows it", ""),
    ("gemm::gemm_fused", "Tensor::matmul and what follows it", "Tensor::matmul and what follows it"),
    ("gemm::gemm_grouped", "rocfire_burn_nn::grouped_matmul", "rocfire_candle::grouped_matmul"),
    ("gemm::gemm_grouped_fused", "rocfire_burn_nn::Experts", "rocfire_candle::grouped_matmul"),
    (
        "gemm::gemm_grouped_transposed",
        "gradients of rocfire_burn_nn::grouped_matmul",
        "gradients of rocfire_candle::grouped_matmul",
    ),
    ("hadamard::hadamard", "rocfire_burn_nn::hadamard", "rocfire_candle::hadamard"),
    ("index::gather", "Tensor::gather", ""),
    ("index::scatter", "Tensor::scatter", "Tensor::scatter_add"),
    ("index::select", "Tensor::select", ""),
    ("index::select_update", "Tensor::select_assign", "Tensor::index_add"),
    ("interpolate::interpolate", "burn::tensor::module::interpolate", ""),
    ("interpolate::interpolate_gradient", "gradients of burn::tensor::module::interpolate", ""),
    ("loss::cross_entropy", "rocfire_burn_nn::CrossEntropyLoss", "rocfire_candle::cross_entropy"),
    (
        "loss::cross_entropy_backward",
        "gradients of rocfire_burn_nn::CrossEntropyLoss",
        "gradients of rocfire_candle::cross_entropy",
    ),
    ("loss::ctc_alpha", "burn::nn::loss::CTCLoss", ""),
    ("loss::ctc_beta", "gradients of burn::nn::loss::CTCLoss", ""),
    ("mla::absorb", "rocfire_burn_nn::LatentCache", "rocfire_candle::LatentCache"),
    ("mla::expand", "rocfire_burn_nn::LatentCache", "rocfire_candle::LatentCache"),
    ("norm::group_norm", "rocfire_burn_nn::GroupNorm", "rocfire_candle::group_norm"),
    ("norm::group_norm_backward", "gradients of rocfire_burn_nn::GroupNorm", "gradients of rocfire_candle::group_norm"),
    ("norm::norm", "rocfire_burn_nn::RmsNorm", "rocfire_candle::rms_norm"),
    ("norm::norm_backward", "gradients of rocfire_burn_nn::RmsNorm", "gradients of rocfire_candle::rms_norm"),
    ("pool::adaptive_average_pool", "burn::tensor::module::adaptive_avg_pool2d", ""),
    ("pool::adaptive_average_pool_gradient", "gradients of burn::tensor::module::adaptive_avg_pool2d", ""),
    ("pool::average_pool", "burn::tensor::module::avg_pool2d", "Tensor::avg_pool2d"),
    ("pool::average_pool_gradient", "gradients of burn::tensor::module::avg_pool2d", ""),
    ("pool::max_pool", "burn::tensor::module::max_pool2d", "Tensor::max_pool2d"),
    ("pool::max_pool_gradient", "gradients of burn::tensor::module::max_pool2d", ""),
    ("quant::block_peaks", "Tensor::quantize_dynamic", ""),
    ("quant::dequantise", "Tensor::dequantize", ""),
    ("quant::gate_quantise", "rocfire_burn_nn::Coded", "rocfire_candle::Coded"),
    ("quant::gguf_dequantise", "rocfire_burn_nn::GgufMatrices", "rocfire_candle::GgufMatrices"),
    ("quant::gguf_matmul", "rocfire_burn_nn::GgufLinear", "rocfire_candle::matmul_gguf"),
    ("quant::gguf_matmul_grouped", "rocfire_burn_nn::GgufExperts", "rocfire_candle::experts_gguf"),
    ("quant::gguf_matmul_grouped_fused", "rocfire_burn_nn::GgufExperts", "rocfire_candle::experts_gguf"),
    ("quant::gguf_matmul_listed", "rocfire_burn_nn::listed_matmul_gguf", "candle_nn::moe::moe_gemm_gguf"),
    ("quant::halve_to_fnuz", "rocfire_burn_nn::Coded", "rocfire_candle::Coded"),
    ("quant::norm_quantise", "rocfire_burn_nn::RmsNorm", "rocfire_candle::Coded"),
    ("quant::q_matmul", "Tensor::matmul of quantised tensors", ""),
    ("quant::q_matmul_grouped", "rocfire_burn_nn::QuantExperts", "rocfire_candle::experts_coded"),
    ("quant::q_matmul_grouped_fused", "rocfire_burn_nn::QuantExperts", "rocfire_candle::experts_coded"),
    ("quant::q_matmul_preshuffled", "rocfire_burn_nn::QuantLinear", "rocfire_candle::QuantLinear"),
    ("quant::q_matmul_preshuffled_grouped", "rocfire_burn_nn::ScaledExperts", "rocfire_candle::experts_scaled"),
    ("quant::q_matmul_scaled", "rocfire_burn_nn::QuantLinear", "rocfire_candle::QuantLinear"),
    ("quant::q_matmul_scaled_grouped", "rocfire_burn_nn::ScaledExperts", "rocfire_candle::experts_scaled"),
    ("quant::q_matmul_scaled_to", "rocfire_burn_nn::QuantLinear", "rocfire_candle::QuantLinear"),
    ("quant::quantise", "Tensor::quantize", ""),
    ("quant::quantise_activations", "rocfire_burn_nn::Coded", "rocfire_candle::Coded"),
    ("quant::store_scales", "Tensor::quantize", ""),
    ("random::bernoulli", "Tensor::random", ""),
    ("random::normal", "Tensor::random", "Tensor::randn"),
    ("random::uniform", "Tensor::random", "Tensor::rand"),
    ("reduce::arg_max", "Tensor::argmax", ""),
    ("reduce::arg_min", "Tensor::argmin", ""),
    ("rope::rope", "rocfire_burn_nn::RotaryEncoding", "rocfire_candle::rope"),
    ("rope::rope_table", "rocfire_burn_nn::RotaryEncoding", "rocfire_candle::rope_tables"),
    ("sample::accept", "rocfire_burn_nn::accept", "rocfire_candle::accept"),
    ("sample::accept_greedy", "rocfire_burn_nn::accept_greedy", "rocfire_candle::accept_greedy"),
    ("sample::log_probabilities", "rocfire_burn_nn::log_probabilities", "rocfire_candle::log_probabilities"),
    ("sample::penalise", "rocfire_burn_nn::penalise", "rocfire_candle::penalise"),
    ("sample::probabilities", "rocfire_burn_nn::probabilities", "rocfire_candle::probabilities"),
    ("sample::sample", "rocfire_burn_nn::sample", "rocfire_candle::sample"),
    ("sample::top_k", "rocfire_burn_nn::top_k", "rocfire_candle::top_k"),
    ("scan::cumulative", "Tensor::cumsum", ""),
    ("selective_scan::selective_scan", "rocfire_burn_nn::States", "rocfire_candle::selective_scan"),
    ("softmax::log_softmax", "rocfire_burn_nn::log_softmax", "rocfire_candle::log_softmax"),
    (
        "softmax::log_softmax_backward",
        "gradients of rocfire_burn_nn::log_softmax",
        "gradients of rocfire_candle::log_softmax",
    ),
    ("softmax::softmax", "rocfire_burn_nn::softmax", "rocfire_candle::softmax"),
    ("softmax::softmax_backward", "gradients of rocfire_burn_nn::softmax", "gradients of rocfire_candle::softmax"),
    ("sort::sort", "Tensor::sort", "Tensor::arg_sort_last_dim"),
];

/// The crates of the adapters, and where they lie.
const CRATES: [&[(&str, &str)]; 2] = [
    &[("rocfire_burn", "backend/burn/src"), ("rocfire_burn_nn", "backend/burn/nn/src")],
    &[
        ("rocfire_candle", "backend/candle/src"),
        ("cudarc", "backend/candle/cudarc/src"),
        ("candle_kernels", "backend/candle/kernels/src"),
    ],
];

/// What a framework calls for an item, by adapter.
const BEGINS: [&[(&str, &str)]; 2] = [
    &[
        ("gradients of rocfire_burn_nn::attention", "rocfire_burn::attention::AttentionStep::backward"),
        ("gradients of rocfire_burn_nn::attention", "rocfire_burn_nn::attention"),
        ("burn::nn::conv", "rocfire_burn::ops::module::conv::forward"),
        ("burn::nn::conv and what follows it", "rocfire_burn::fusion::execute::run_kernel"),
        ("gradients of burn::nn::conv", "rocfire_burn::ops::module::conv::input_gradient"),
        ("gradients of burn::nn::conv", "rocfire_burn::ops::module::conv::weight_gradient"),
        ("Tensor::matmul", "rocfire_burn::Rocm::float_matmul"),
        ("Tensor::matmul and what follows it", "rocfire_burn::fusion::execute::execute"),
        ("Tensor::gather", "rocfire_burn::Rocm::float_gather"),
        ("Tensor::scatter", "rocfire_burn::Rocm::float_scatter"),
        ("Tensor::select", "rocfire_burn::Rocm::float_select"),
        ("Tensor::select_assign", "rocfire_burn::Rocm::float_select_assign"),
        ("burn::tensor::module::interpolate", "rocfire_burn::Rocm::interpolate"),
        ("gradients of burn::tensor::module::interpolate", "rocfire_burn::Rocm::interpolate_backward"),
        ("burn::nn::loss::CTCLoss", "rocfire_burn::Rocm::ctc_loss"),
        ("gradients of burn::nn::loss::CTCLoss", "rocfire_burn::Rocm::ctc_loss_backward"),
        ("burn::tensor::module::adaptive_avg_pool2d", "rocfire_burn::Rocm::adaptive_avg_pool2d"),
        ("gradients of burn::tensor::module::adaptive_avg_pool2d", "rocfire_burn::Rocm::adaptive_avg_pool2d_backward"),
        ("burn::tensor::module::avg_pool2d", "rocfire_burn::ops::module::pool::average"),
        ("gradients of burn::tensor::module::avg_pool2d", "rocfire_burn::ops::module::pool::average_backward"),
        ("burn::tensor::module::max_pool2d", "rocfire_burn::Rocm::max_pool2d"),
        ("gradients of burn::tensor::module::max_pool2d", "rocfire_burn::Rocm::max_pool2d_with_indices_backward"),
        ("Tensor::quantize_dynamic", "rocfire_burn::Rocm::quantize_dynamic"),
        ("Tensor::dequantize", "rocfire_burn::Rocm::dequantize"),
        ("Tensor::matmul of quantised tensors", "rocfire_burn::Rocm::q_matmul"),
        ("Tensor::quantize", "rocfire_burn::Rocm::quantize"),
        ("Tensor::random", "rocfire_burn::Rocm::float_random"),
        ("Tensor::argmax", "rocfire_burn::Rocm::float_argmax"),
        ("Tensor::argmin", "rocfire_burn::Rocm::float_argmin"),
        ("Tensor::sort", "rocfire_burn::Rocm::float_sort"),
        ("Tensor::cumsum", "rocfire_burn::Rocm::float_cumsum"),
    ],
    &[
        ("Tensor::matmul", "cudarc::cublas::result::gemm_strided_batched_ex"),
        ("Tensor::matmul and what follows it", "candle_kernels::merge::epilogue::with_epilogue"),
        ("candle_nn::moe::moe_gemm_gguf", "candle_kernels::ffi::moe_gemm_gguf"),
        ("Tensor::arg_sort_last_dim", "candle_kernels::family::sort::sort"),
        ("Tensor::conv_transpose2d", "candle_kernels::family::window::conv_transpose"),
        ("Tensor::avg_pool2d", "candle_kernels::family::window::pool2d"),
        ("Tensor::max_pool2d", "candle_kernels::family::window::pool2d"),
        ("Tensor::scatter_add", "candle_kernels::family::indexing::scatter"),
        ("Tensor::index_add", "candle_kernels::family::indexing::index_add"),
        ("Tensor::randn", "cudarc::curand::CudaRng::fill_with_normal"),
        ("Tensor::rand", "cudarc::curand::CudaRng::fill_with_uniform"),
    ],
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
    let operators = std::fs::read_to_string(root.join("kernels/src/operators.rs")).expect("operators are in the tree");
    let mut operators = vec![("rocfire_kernels::operators".to_owned(), operators)];
    operators.extend(modules("rocfire_kernels::operators", &root.join("kernels/src/operators")));
    let adapters = CRATES.map(|crates| {
        let own = crates.iter().flat_map(|(name, folder)| modules(name, &root.join(folder)));
        Sources::new(&own.chain(operators.clone()).collect::<Vec<_>>())
    });
    let (launchers, mut wrong) = (launchers(&root.join("kernels/src")), Vec::new());
    let named: BTreeSet<&str> = DOORS.iter().map(|(launcher, ..)| *launcher).collect();
    wrong.extend(launchers.iter().filter(|name| !named.contains(name.as_str())).map(|name| format!("no row: {name}")));
    for &(launcher, burn, candle) in DOORS {
        if !launchers.contains(launcher) {
            wrong.push(format!("no such launcher: {launcher}"));
        }
        if burn.is_empty() && candle.is_empty() {
            wrong.push(format!("{launcher} has no door"));
        }
        for ((adapter, begins), item) in adapters.iter().zip(BEGINS).zip([burn, candle]) {
            if !item.is_empty() {
                wrong.extend(door(adapter, begins, item, launcher).err());
            }
        }
        writeln!(text, "| `{launcher}` | {burn} | {candle} |").expect("a string takes text");
    }
    (text, wrong)
}

/// Whether an item is public, and reaches a launcher.
fn door(adapter: &Sources, begins: &[(&str, &str)], item: &str, launcher: &str) -> Result<(), String> {
    let public = item.strip_prefix("gradients of ").unwrap_or(item);
    if public.starts_with("rocfire_") && (public.matches("::").count() != 1 || adapter.find(public).is_none()) {
        return Err(format!("{launcher}: {public} is on no front page"));
    }
    let mut begins: Vec<&str> = begins.iter().filter(|(named, _)| *named == item).map(|(_, begin)| *begin).collect();
    if begins.is_empty() {
        begins.push(public);
    }
    for &begin in &begins {
        let found = adapter.find(begin).ok_or_else(|| format!("{launcher}: there is no {begin} ({item})"))?;
        if adapter.reaches(&found, &format!("rocfire_kernels::{launcher}")) {
            return Ok(());
        }
    }
    Err(format!("{launcher}: {begins:?} ({item}) does not reach it"))
}

/// Public functions of a family that take a stream and can fail, as `family::name`; a question about it is none.
fn launchers(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, text) in files(folder) {
        let inner = path.strip_prefix(folder).expect("it was found there");
        let family = inner.components().next().expect("a file has a name").as_os_str().to_string_lossy().into_owned();
        for (at, _) in text.match_indices("\npub fn ").filter(|_| inner.components().count() > 1) {
            let head = &text[at + 8..];
            let head = &head[..head.find('{').unwrap_or(head.len())];
            if head.contains("&Stream") && head.contains("-> Result<") && !head.contains("Result<bool>") {
                found.insert(format!("{family}::{}", first_word(head)));
            }
        }
    }
    found
}
