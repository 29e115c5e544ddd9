//! Benches; there is no library here.
//!
//! - `ROCFIRE_DEVICE=hip:0 cargo bench-ops [OPERATOR] [--against FILE]`: operators on a real GPU where it is full, attention and
//!   convolutions among them, with their share of its memory's bandwidth, as a table, as JSON and as a picture; with `--cases`
//!   every case of the tests. `cuda:0` measures the same kernels on an NVIDIA card.
//! - `cargo bench-cold`: from the start of a process to its first result, cold, with a warm cache, and from a pack.
//! - `cargo bench -p rocfire-benches --bench launch`: what a launch costs the host, on the driver that runs nothing.
//! - `cargo bench -p rocfire-emulator`: how fast the emulator is. Its times are the emulator's, never a card's.
