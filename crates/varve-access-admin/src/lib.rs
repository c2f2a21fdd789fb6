//! The admin API: versioned REST over a unix socket or loopback TCP, Prometheus metrics, and the types its clients
//! share.
//!
//! The command line, the dashboard and scripts are its callers; an [`AdminBackend`] stands behind it.

mod address;
mod backend;
mod error;
mod http;
#[cfg(feature = "memory")]
mod memory;
mod metrics;
mod objects;
mod paths;
mod server;
mod token;
pub mod v1;

pub use address::ListenAddress;
pub use backend::{AdminBackend, AdminFuture, NO_REDUNDANCY_HINT};
pub use error::{Error, Result};
#[cfg(feature = "memory")]
pub use memory::MemoryBackend;
pub use metrics::{Histogram, Metric, MetricKind, Sample};
pub use objects::ObjectBackend;
pub use paths::{
    ADMIN_SOCKET, TOKEN_FILE, bucket_path, percent_encoded, snapshot_path, user_path, volume_path,
};
pub use server::{Accepted, AcceptedStream, Callers, LimitsConfig, Listener, serve};
pub use token::{Token, check_caller};
