//! Collectives in the order of a stream.

use super::Stream;
use crate::Result;
use crate::collective::Range;

impl Stream {
    /// Puts what waits on the driver's stream. A fault of earlier work is told of here: a rank that silently did not take
    /// part would leave the others waiting.
    pub(crate) fn before_collective(&self, source: Option<Range<'_>>) -> Result<()> {
        self.refuse_in_capture("a collective")?;
        self.settle_all();
        self.lock().ahead.forget();
        self.raise(source.map(|range| range.buffer))
    }

    /// What was written is no longer what a failed launch left.
    pub(crate) fn after_collective(&self, target: Option<Range<'_>>) -> Result<()> {
        if let Some(range) = target {
            self.written(range.buffer, range.bytes);
        }
        if self.waits_for_each() { self.synchronize() } else { Ok(()) }
    }
}
