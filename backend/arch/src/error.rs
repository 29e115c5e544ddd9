//! What can be wrong with the name of an architecture.

/// Why a name is no architecture of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name was AMD's once, for silicon that was never sold; LLVM dropped it.
    #[error(
        "{name} was removed from AMD's tools (engineering samples of MI300); a card that is sold reports {instead}"
    )]
    Removed {
        /// The name that was given.
        name: String,
        /// The name to use.
        instead: &'static str,
    },
    /// No row has this name.
    #[error("unknown GPU architecture {name:?}: expected one of {known}")]
    Unknown {
        /// The name that was given.
        name: String,
        /// Every name in the table.
        known: String,
    },
    /// The part behind a colon is not `sramecc+`, `sramecc-`, `xnack+` or `xnack-`.
    #[error("target {target:?}: feature {feature:?} must be sramecc+, sramecc-, xnack+ or xnack-")]
    Feature {
        /// The whole target.
        target: String,
        /// The part that is wrong.
        feature: String,
    },
}
