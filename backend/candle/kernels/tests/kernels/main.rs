//! Every kernel that Candle launches by name, against plain references, on an emulated card of either wave size.

mod conv;
mod elementwise;
mod harness;
mod indexing;
mod launchers;
mod merging;
mod names;
mod precision;
mod quantised;
mod reduce;
mod sort;
mod weights;
