//! What is stored of a snapshot: the value of its key on its volume's home shard. Described in `docs/format.md`.
//!
//! ```text
//! 0         2       3           4             8        16           24     32        40         56          64      68
//! | version | state | placement | block bytes | stream | size bytes | seed | created | identity | reduction | flags |
//! ```

use serde::Serialize;
use varve_dispatch::{Route, StreamPlacement};
use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::{Reduction, SnapshotIdentity, StreamId};

use crate::name::SnapshotName;
use crate::record::check_sizes;
use crate::reduction;
use crate::{Error, Result};

/// Version of the record.
const VERSION: u16 = 1;

/// State: a snapshot.
const SNAPSHOT: u8 = 1;

/// Flag: it is not to be deleted.
const PROTECTED: u32 = 1;

/// A snapshot as people and programs see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SnapshotInfo {
    /// `volume@snapshot`, without the default namespace.
    pub name: String,
    /// The volume's name, without the default namespace.
    pub volume: String,
    /// Number of its stream; never reused in the pool.
    pub id: u64,
    /// The same wherever the snapshot is received.
    pub identity: SnapshotIdentity,
    /// Bytes that clients see.
    pub size_bytes: u64,
    /// Block size that clients are told to prefer, in bytes.
    pub block_size_bytes: u32,
    /// When it was taken, or received, in ms since 1970.
    pub created_unix_ms: u64,
    /// Whether it cannot be deleted.
    pub protected: bool,
}

/// A snapshot's stored record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SnapshotRecord {
    pub(crate) route: Route,
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) created_unix_ms: u64,
    pub(crate) identity: SnapshotIdentity,
    /// The volume's when the snapshot was taken; clones begin with it.
    pub(crate) reduction: Reduction,
    pub(crate) protected: bool,
}

impl SnapshotRecord {
    pub(crate) const LEN: usize = 68;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let mut out = Writer::new(&mut bytes);
        out.u16(VERSION);
        out.u8(SNAPSHOT);
        out.u8(self.route.placement.generation);
        out.u32(self.block_bytes);
        out.u64(self.route.stream.get());
        out.u64(self.size_bytes);
        out.u64(self.route.placement.seed);
        out.u64(self.created_unix_ms);
        out.array(self.identity.0);
        out.array(reduction::encode(self.reduction));
        out.u32(if self.protected { PROTECTED } else { 0 });
        bytes
    }

    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let decoded = Self::decode_fields(Reader::new("record of a snapshot", bytes));
        decoded.map_err(|cause| Error::BadRecord { name: name.to_owned(), cause })
    }

    fn decode_fields(mut fields: Reader<'_>) -> std::result::Result<Self, DecodeError> {
        fields.version(VERSION)?;
        match fields.u8()? {
            SNAPSHOT => {}
            kind => return Err(fields.unknown(kind)),
        }
        let generation = fields.u8()?;
        let block_bytes = fields.u32()?;
        let stream = fields.id("stream", StreamId::from_untrusted)?;
        let size_bytes = fields.u64()?;
        let seed = fields.u64()?;
        let created_unix_ms = fields.u64()?;
        let identity = SnapshotIdentity(fields.array()?);
        let reduction = fields.id("reduction", reduction::decode_word)?;
        let flags = fields.u32()?;
        if flags & !PROTECTED != 0 {
            return Err(fields.bad("flags", u64::from(flags)));
        }
        fields.end()?;
        check_sizes(&fields, block_bytes, size_bytes)?;
        let route = Route { stream, placement: StreamPlacement { seed, generation } };
        let protected = flags & PROTECTED != 0;
        Ok(Self { route, size_bytes, block_bytes, created_unix_ms, identity, reduction, protected })
    }

    pub(crate) fn info(&self, name: &SnapshotName) -> SnapshotInfo {
        SnapshotInfo {
            name: name.display(),
            volume: name.volume.display(),
            id: self.route.stream.get(),
            identity: self.identity,
            size_bytes: self.size_bytes,
            block_size_bytes: self.block_bytes,
            created_unix_ms: self.created_unix_ms,
            protected: self.protected,
        }
    }
}

#[cfg(test)]
mod tests {
    use varve_types::{Compression, Dedup};

    use super::*;

    #[test]
    fn records_round_trip_and_refuse_what_is_unknown() {
        let record = SnapshotRecord {
            route: Route {
                stream: StreamId::new(78),
                placement: StreamPlacement { seed: u64::MAX - 3, generation: 2 },
            },
            size_bytes: 20 << 30,
            block_bytes: 4096,
            created_unix_ms: 1_700_000_000_000,
            identity: SnapshotIdentity([7; 16]),
            reduction: Reduction { dedup: Dedup::On, compression: Compression::Zstd(19) },
            protected: true,
        };
        let bytes = record.encode();
        assert_eq!(SnapshotRecord::decode("v@s", &bytes).unwrap(), record);
        let bare = SnapshotRecord { protected: false, ..record };
        assert_eq!(SnapshotRecord::decode("v@s", &bare.encode()).unwrap(), bare);
        for len in 0..bytes.len() {
            assert!(SnapshotRecord::decode("v@s", &bytes[..len]).is_err());
        }
        assert!(SnapshotRecord::decode("v@s", &[&bytes[..], &[0]].concat()).is_err());
        for at in [0, 2, 56, 57, 58, 63, 64, 67] {
            let mut bad = bytes;
            bad[at] ^= 0x40;
            assert!(SnapshotRecord::decode("v@s", &bad).is_err(), "byte {at}");
        }
    }
}
