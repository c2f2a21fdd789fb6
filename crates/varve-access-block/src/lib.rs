//! What a block export is: the contract between volumes and the front-ends that serve them, whatever their protocol;
//! its twin in memory; the conformance suite of both; and what every opening for writing passes.

mod barrier;
pub mod conformance;
mod export;
pub mod memory;
mod peer;

pub use barrier::{OpenBarrier, PendingOpen};
pub use export::{Change, Export, ExportInfo, Exports, Extent, ExtentKind};
pub use peer::{Peer, notice_dead_peers};
pub use varve_stdx::ReadPart;
