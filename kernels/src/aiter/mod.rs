//! AITER's code objects: kernels that AMD writes in assembly and publishes, MIT, in the Python package `amd-aiter`.
//!
//! Where the package is on the machine, launchers take its kernels for what they are exact for and a rule says that they pay;
//! everything else, and every machine without the package, has ours. The rule stands beside the operator (`attention/aiter.rs`,
//! `quant/scaled/aiter.rs`), how a kernel is called stands here (`forward.rs`, `backward.rs`, `paged.rs`, `latents.rs`, `products.rs`), where
//! `cargo verify --foreign` finds it too: what it judges is what is launched.
//!
//! Nothing of AMD's comes with this library. A folder is looked for (`folder.rs`), and of its files those alone are used that
//! `objects.csv` lists: by their hash, each right against references in f64 under every schedule of waves, with no race between them
//! (`tests/foreign.md`); those of decoding are loaded with waits that they lack (`mends.rs`). A file that is missing, damaged or of another version is not loaded, which is told once, and ours are launched.
//!
//! Callers are launchers, by `Tier`; `rocfire doctor` and `rocfire aiter install` by [`report`] and [`install`]. Kernels that add
//! in floats by atomics are for runs whose bits may differ, by the word of who runs them ([`rocfire_hal::Config::deterministic`]).

mod backward;
mod folder;
mod forward;
mod install;
mod latents;
mod mends;
mod objects;
mod paged;
mod products;
mod slots;
mod tier;

#[cfg(test)]
mod tests;

pub use backward::{BACKWARD_BLOCK, Backward, BackwardArgs, BackwardForm};
pub use folder::{ObjectState, Report, report};
pub use forward::{FORWARD_BLOCK, Forward, ForwardArgs, Lines};
pub use install::{AITER, InstallError, Wheel, install};
pub use latents::{LATENT_BLOCK, LatentDecode, LatentDecodeArgs, LatentForm};
pub use mends::mended;
pub use paged::{PAGED_BLOCK, PagedDecode, PagedDecodeArgs};
pub use products::{PRODUCT_BLOCK, Product, ProductArgs, ProductTile};

pub(crate) use objects::{Role, product_tiles};
pub(crate) use tier::Tier;
