//! Exports of NBD servers as disks: the client side, which blocks for the handshake and then runs on the loop.

mod disk;
mod handshake;
mod uri;

pub(crate) use disk::NbdDisk;
pub use uri::{NbdAddress, NbdUri};
