//! The functions of `candle-flash-attn` that models ask for, by `rocfire_candle`: for models with `use_flash_attn`, by a patch.

pub use rocfire_candle::{flash_attn, flash_attn_windowed, flash_attn_windowed_softcap};
