//! The cases: every operator, once, with its sizes, layouts, types, oracle and cost.
//!
//! `tests/cases.rs` runs them against f64 oracles on a device, `benches` times the same ones. An operator's cases are one
//! file under `case/`; tolerances are in one place, per dtype; what is known to fail is data, in `expectations.rs`. Oracles
//! are the obvious slow formulas: they share no code with what they judge.

mod architectures;
pub mod case;
pub mod corpus;
mod data;
mod device;
mod doors;
mod expectations;
mod oracle;
mod session;
mod settings;
mod support;
mod tolerance;
mod values;

pub use architectures::architectures;
pub use case::{Case, Cost, Failure, Run, SizeClass};
pub use data::{Array, Placement};
pub use device::device_id;
pub use doors::doors;
pub use expectations::{Expectation, expectation, judge};
pub use session::{Planned, Session};
pub use settings::settings;
pub use support::report;
pub use tolerance::{Distance, most_nmse};
