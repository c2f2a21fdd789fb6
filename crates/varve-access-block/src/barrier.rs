//! What openings of exports wait for where other nodes carry connections.
//!
//! A client whose connection breaks may connect anew through another node while requests of the old connection are
//! still under way there. So whoever opens an export for writing passes an [`OpenBarrier`] first, which waits until
//! what had been sent before on other connections has happened, or never will.

use std::fmt;

use varve_reactor::port::PortSender;

/// Somebody wants to open an export for writing.
pub struct PendingOpen {
    /// The name of the export.
    pub export: String,
    /// The carried connection that does; `None` for one of this node.
    pub by: Option<u64>,
    /// Told when it may. When this is dropped instead, it may not.
    pub passes: PortSender<()>,
}

/// What openings for writing pass.
pub trait OpenBarrier: fmt::Debug + Send + Sync {
    /// Lets it pass once nothing of what was sent before on other connections can happen later. Does not block.
    fn pass(&self, opening: PendingOpen);
}
