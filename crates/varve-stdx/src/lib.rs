//! Building blocks that know nothing of storage: aligned buffers and parts of reads, checksums, byte cursors, an
//! entropy test, a test for zeros, fingerprints, MD5, hexadecimal text, sockets at paths and their peers, work under
//! way, a process' end. With the feature `testing` also pages of worked examples of stored structures.

mod buffer;
mod bytes;
mod checksum;
mod end;
mod entropy;
mod fingerprint;
#[cfg(any(test, feature = "testing"))]
mod format_examples;
mod hex;
mod md5;
mod pending;
mod read_part;
mod rng;
mod socket_path;
mod socket_peer;
mod spare;
mod zero;

pub use buffer::{AlignedBuf, BufSlice};
pub use bytes::{BigEndian, ByteOrder, DecodeError, LittleEndian, Reader, Writer};
pub use checksum::{
    PIECE_BYTES, checksum_of_pieces, checksum32, checksum64, checksum64_seeded, payload_checksum,
};
pub use end::end_process;
pub use entropy::looks_random;
pub use fingerprint::{BATCH as FINGERPRINT_BATCH, FINGERPRINT_BYTES, Fingerprinter};
#[cfg(any(test, feature = "testing"))]
pub use format_examples::{ExamplesPage, compare_file};
pub use hex::{hex, parse_hex};
pub use md5::Md5;
pub use pending::{PendingEntries, PendingGuard};
pub use read_part::ReadPart;
pub use rng::Rng;
pub use socket_path::bind_private;
pub use socket_peer::SocketPeer;
pub use spare::limit_spare_memory;
pub use zero::is_zero;
