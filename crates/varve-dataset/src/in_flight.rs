//! Streams that are being made: cut, and not yet named by a record. A mark pass takes them for owned.
//!
//! IN-FLIGHT-1. A stream is registered before anything of it is stored, until its record is durable or was given up.
//!     Who asks for the owned streams reads this table first and the records afterwards, so it finds each in one of the
//!     two: what a pass does not know of, it frees.
//!
//! The table's lock is held for one call at a time, and taken when streams are cut and when a mark pass begins.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_types::StreamId;

/// The table, which all threads share.
#[derive(Clone, Default)]
pub(crate) struct StreamsInFlight(Arc<Mutex<BTreeSet<StreamId>>>);

/// Streams that are registered while this lives.
pub(crate) struct InFlight {
    table: StreamsInFlight,
    streams: Vec<StreamId>,
}

impl StreamsInFlight {
    fn table(&self) -> MutexGuard<'_, BTreeSet<StreamId>> {
        // A panic under the lock leaves the table whole: each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers streams that were just reserved.
    pub(crate) fn register(&self, streams: Vec<StreamId>) -> InFlight {
        let mut table = self.table();
        for stream in &streams {
            assert!(table.insert(*stream), "a stream is made once");
        }
        drop(table);
        InFlight { table: self.clone(), streams }
    }

    /// All that are registered now.
    pub(crate) fn now(&self) -> Vec<StreamId> {
        self.table().iter().copied().collect()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut table = self.table.table();
        for stream in &self.streams {
            table.remove(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_registered_as_long_as_their_makers_live() {
        let table = StreamsInFlight::default();
        let one = table.register(vec![StreamId::new(3), StreamId::new(1)]);
        let other = table.register(vec![StreamId::new(2)]);
        assert_eq!(table.now(), [1, 2, 3].map(StreamId::new));
        drop(one);
        assert_eq!(table.now(), [StreamId::new(2)]);
        drop(other);
        assert!(table.now().is_empty());
    }
}
