//! Bounds on what other nodes may hold.

use std::time::Duration;

use crate::link::BEGIN_MAX;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct LinkLimits {
    /// Links at a time. Each may hold some 200 KiB of buffers.
    pub links_max: usize,
    /// Those of one node.
    pub of_node_max: usize,
    /// Time for the handshake and the hello, and for the answer.
    pub begin_max: Duration,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self { links_max: 2048, of_node_max: 1024, begin_max: BEGIN_MAX }
    }
}
