//! Exports of NBD servers as disks: the client's table of requests, driven by the loop.

mod disk;
mod uri;

pub(crate) use disk::NbdDisk;
pub use uri::NbdUri;
pub use varve_nbd::NbdAddress;
