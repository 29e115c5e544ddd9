//! Candle's own tests, from the sources that cargo has of candle-core and candle-nn: a module per file, which `cargo verify
//! --outside` lists.

// Some of them call it so.
extern crate candle_core as candle;

include!(env!("ROCFIRE_CANDLE_SUITES"));
