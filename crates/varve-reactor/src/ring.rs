//! Raw I/O of one thread's ring.

/// Raw I/O of this thread.
#[derive(Clone)]
pub struct Ring {}
