//! Elementwise and row-reduction fusion: a small SSA graph over one iteration space, rendered as one HIP kernel.
//!
//! A [`Graph`] is built, or parsed from its text form. [`run()`] verifies, simplifies, plans, renders and launches it.
//! [`eager`] does so for one operator at a time: an eager elementwise operator is a fused chain of length one. The adapters of Burn
//! and Candle call this crate; so do kernels that need a strided copy or a fill. A [`Draft`] is a graph written as arithmetic. An
//! [`Epilogue`] is a graph that is rendered as the end of another kernel.
//!
//! ```
//! use rocfire_fusion::{Binary, Graph, Unary};
//! use rocfire_hal::DType;
//!
//! # fn main() -> rocfire_fusion::Result<()> {
//! let mut graph = Graph::new("tanh_of_sum");
//! let (a, b) = (graph.input(DType::F16), graph.input(DType::F16));
//! let sum = graph.binary(Binary::Add, a, b);
//! let y = graph.unary(Unary::Tanh, sum);
//! graph.output(y);
//! graph.verify()?;
//! let text = "%0: f16 = input\n%1: f16 = input\n%2: f16 = add %0, %1\n%3: f16 = tanh %2\noutput %3\n";
//! assert_eq!(graph.to_string(), text);
//! assert_eq!(text.parse::<Graph>()?.to_string(), text);
//! # Ok(())
//! # }
//! ```
//!
//! On a device, as one launch for tensors of any strides:
//!
//! ```no_run
//! # fn main() -> rocfire_fusion::Result<()> {
//! # let text = "%0: f16 = input\n%1: f16 = input\n%2: f16 = add %0, %1\n%3: f16 = tanh %2\noutput %3\n";
//! # let graph: rocfire_fusion::Graph = text.parse()?;
//! use rocfire_hal::{DType, Device, DeviceId, Tensor};
//! let device = Device::get(DeviceId::from_env()?)?;
//! let (a, b) = (Tensor::empty(&device, &[64, 512], DType::F16)?, Tensor::empty(&device, &[64, 512], DType::F16)?);
//! let mut y = Tensor::empty(&device, &[64, 512], DType::F16)?;
//! rocfire_fusion::run(device.stream(), &graph, &[64, 512], &[a.view(), b.view()], &[], &mut [y.view_mut()])?;
//! # Ok(())
//! # }
//! ```
//!
//! Promises:
//! - Every value is rounded to its dtype where it would have been stored, and nothing is contracted: a fused elementwise
//!   chain equals its operators run one by one, bit for bit, in every dtype. There is one exception: a sigmoid that a framework
//!   writes out as powers and a logarithm is computed by its definition, which is more precise (`sigmoid.rs`).
//! - The order of a reduction depends on its extent alone (`order.rs`), not on layout, alignment, schedule or what it
//!   is fused with.
//! - Shapes and strides are arguments. One compiled kernel serves every shape of its schedule, and [`run()`] with a kernel in
//!   the cache allocates nothing on the host's heap.
//!
//! The crate does not decide what to fuse; the adapters do. An input may be read at an index that the graph computes
//! ([`Graph::lookup`]), which is how gathers and concatenations join a chain; matrix products, scatters, scans and random
//! numbers are kernels of their own.

#![deny(unsafe_code)]

mod block;
mod draft;
pub mod eager;
mod epilogue;
mod error;
mod geometry;
mod graph;
mod kernel;
mod launch;
mod op;
mod order;
mod plan;
mod render;
mod run;
mod scalar;
mod sigmoid;
mod simplify;
mod stages;
mod text;
mod verify;

pub use block::has_room;
pub use draft::{Draft, Term};
pub use epilogue::{EPILOGUE_RUN, EPILOGUE_TENSORS, Epilogue, EpilogueTensor, Runs};
pub use error::{Error, Result};
pub use graph::{Graph, Kind, Node, Value};
pub use op::{Binary, Compare, IndexOp, Reduce, Unary};
pub use render::storage;
pub use run::run;
pub use scalar::Scalar;
