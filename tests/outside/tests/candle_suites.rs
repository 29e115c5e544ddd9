//! Candle's own tests, from the sources that cargo has of candle-core and candle-nn: a module per file, which `cargo verify
//! --outside` lists.

// Some of them call it so.
extern crate candle_core as candle;

// And one names these as what it imports into a crate's root, which its file is where it comes from.
use candle_core::quantized::{self, k_quants};

include!(env!("ROCFIRE_CANDLE_SUITES"));
