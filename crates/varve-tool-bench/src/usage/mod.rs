//! What the machine did meanwhile: processors, disks, networks and the processes involved, and which of them had no
//! more to give.

mod between;
mod ceph;
mod counters;
mod findings;
mod merged;
mod served;
mod server;

pub use between::{DiskUsage, MachineUsage, NetUsage, ProcessUsage};
pub use ceph::{CephCounters, CephUsage};
pub use counters::{Counters, processes_named};
pub use findings::{ClosedLoop, FigureFinding, WindowObservation, findings};
pub use merged::UsagePart;
pub use served::ServedRates;
pub use server::{ServerCounters, ServerUsage};
