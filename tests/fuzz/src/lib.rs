//! Random operators, alone and in programs, on rocfire and on the frameworks' own CPU backends.
//!
//! A family ([`Burn`], its [`Gradients`], [`Candle`], its [`CandleGradients`]) is a table of operators and three machines that run them: the framework's CPU backend, which is the
//! reference; ours, one launch after the other; and ours as users meet it, where launches wait, join and are fused. A program
//! is made of recorded decisions ([`Choices`]), so that it can be told again and shrunk. Each operator is judged against the
//! reference in f64 on the very operands it had (`judge.rs`), so no bound grows along a program; the program as a whole has to
//! give the bits of its operators, twice.
//!
//! What it does not do: it has no oracle of its own, and no knowledge of shapes beyond what the reference says.

mod bounds;
mod burn;
mod candle;
pub mod choice;
pub mod data;
mod judge;
mod launchers;
mod layers;
mod machine;
mod make;
mod print;
mod program;
mod report;
mod rules;
mod run;
mod session;
mod shapes;
mod shrink;
mod table;
mod values;

pub use burn::{Burn, Gradients, rows as burn_rows};
pub use candle::{Candle, CandleGradients, rows as candle_rows};
pub use choice::Choices;
pub use launchers::run_launchers;
pub use machine::Family;
pub use session::{Plan, run};
pub use table::Row;
