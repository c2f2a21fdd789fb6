//! Settings of pools on RADOS.

use std::net::SocketAddr;
use std::path::PathBuf;

use varve_types::ByteCount;

/// How a pool on RADOS is served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RadosSettings {
    /// Bytes of flash of this machine that keep what was read of the pool.
    pub(crate) read_cache: ByteCount,
    /// The file that they are in; none means one in the data directory.
    pub(crate) read_cache_path: Option<PathBuf>,
    /// Whether the pool is served by one of several daemons, while the others stand by.
    pub(crate) join: bool,
    /// Where a node listens for others; none means a port that the system chooses, at the address by which the machine
    /// reaches the cluster.
    pub listen: Option<SocketAddr>,
    /// Cells of the pool that this node serves at most; 0 for all.
    pub(crate) cells_max: u16,
    /// Whether cells are moved to nodes that have fewer.
    pub(crate) balance: bool,
}
