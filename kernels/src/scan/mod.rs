//! Running results along an axis.
//!
//! [`cumulative`] is the one operator. Long lines are shared among workgroups, short ones share a workgroup; the order is the
//! same however it is done, so results do not depend on layout or device.

mod cumulative;

pub(crate) use cumulative::sources;
pub use cumulative::{Cumulative, cumulative};
