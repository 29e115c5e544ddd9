//! Benches; there is no library here.
//!
//! - `cargo bench -p rocfire-benches --bench launch`: what a launch costs the host, on the driver that runs nothing.
//! - `ROCFIRE_DEVICE=hip:0 cargo bench -p rocfire-benches --bench cases [-- OPERATOR]`: every case on a real GPU.
//! - `ROCFIRE_DEVICE=hip:0 cargo bench -p rocfire-benches --bench ops [-- OPERATOR]`: operators where a card is full, with the
//!   share of its memory's bandwidth; `cuda:0` measures the same kernels on an NVIDIA card.
//! - `cargo bench -p rocfire-emulator`: how fast the emulator is. Its times are the emulator's, never a card's.
