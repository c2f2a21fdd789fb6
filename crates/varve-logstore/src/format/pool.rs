//! The root of a pool: what all shards share and what rarely changes. Replaced by the pool allocator when a zone or id
//! range is leased.
//!
//! A redundant pool has as many zones as its tables have rows; those for which its drives have no room are withdrawn.
//! All behind the last one that is not are withdrawn without being stored.

use varve_stdx::{Reader, Writer, checksum64};
use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_MAX};
use varve_types::{PoolId, ShardId, StreamId};

use super::features::Features;
use super::root::{ENVELOPE_LEN, envelope};
use crate::error::Result;

const WHAT: &str = "pool root";

/// Owner of a zone that nobody has leased.
const ZONE_FREE: u16 = 0xFFFF;

/// Owner of a zone that nobody gets.
const ZONE_WITHDRAWN: u16 = 0xFFFE;

/// Most placement generations: a stream carries its own in one byte.
pub const PLACEMENTS_MAX: usize = 256;

const _: () = assert!(ShardId::COUNT_MAX < ZONE_WITHDRAWN);
const _: () = assert!(PLACEMENTS_MAX <= 1 << u8::BITS);

/// Who has a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneOwner {
    /// Nobody: it can be leased.
    Free,
    /// The shard that leases it.
    Shard(ShardId),
    /// Nobody, and nobody gets it: there is no room for it.
    Withdrawn,
}

impl ZoneOwner {
    /// The shard that leases the zone, if one does.
    #[must_use]
    pub fn shard(self) -> Option<ShardId> {
        match self {
            Self::Shard(shard) => Some(shard),
            Self::Free | Self::Withdrawn => None,
        }
    }

    fn encode(self) -> u16 {
        match self {
            Self::Free => ZONE_FREE,
            Self::Shard(shard) => shard.0,
            Self::Withdrawn => ZONE_WITHDRAWN,
        }
    }

    /// Which shards there are is for the root to check.
    fn decode(word: u16) -> Self {
        match word {
            ZONE_FREE => Self::Free,
            ZONE_WITHDRAWN => Self::Withdrawn,
            shard => Self::Shard(ShardId(shard)),
        }
    }
}

/// What a pool starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRoot {
    /// Feature flags.
    pub features: Features,
    /// The pool.
    pub pool: PoolId,
    /// When it was created, in milliseconds since 1970.
    pub created_unix_ms: u64,
    /// Bytes of a segment slot.
    pub segment_bytes: u32,
    /// Slots of a zone, the unit in which shards lease space.
    pub zone_segments: u32,
    /// No stream has this id or a higher one.
    pub next_stream: StreamId,
    /// Shard count of each placement generation, the oldest first; 1 to [`PLACEMENTS_MAX`] of them.
    pub placements: Vec<u16>,
    /// Who has each zone, in order. The last one is not withdrawn.
    pub zone_owners: Vec<ZoneOwner>,
}

impl PoolRoot {
    /// First bytes of every pool root.
    pub const MAGIC: [u8; 8] = *b"VARVPOOL";
    /// Version of the structure.
    pub const VERSION: u16 = 1;
    /// Encoded length in bytes without placement generations and zones.
    pub const LEN_MIN: usize = 136;

    /// Kept for the sealed fingerprint key of the pool and its key id.
    const RESERVED_LEN: usize = 40;

    /// Encoded length in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        Self::LEN_MIN + 2 * (self.placements.len() + self.zone_owners.len())
    }

    /// The root as bytes.
    ///
    /// # Panics
    /// When a value is one that [`Self::decode`] refuses (FORMAT-4).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if let Some((field, value)) = self.misfit() {
            panic!("{field} of a pool root cannot be {value}");
        }
        let mut bytes = vec![0; self.encoded_len()];
        let length = u32::try_from(bytes.len()).expect("a root is far below 4 GiB");
        let (covered, last) = bytes.split_last_chunk_mut::<8>().expect("a root is longer");
        let mut out = Writer::new(covered);
        out.array(Self::MAGIC);
        out.u16(Self::VERSION);
        out.u16(0);
        out.u32(length);
        self.features.write(&mut out);
        out.bytes(&self.pool.0);
        out.u64(self.created_unix_ms);
        out.u32(self.segment_bytes);
        out.u32(self.zone_segments);
        out.u64(self.next_stream.get());
        out.u32(u32::try_from(self.placements.len()).expect("at most PLACEMENTS_MAX"));
        out.u32(u32::try_from(self.zone_owners.len()).expect("a root is far below 4 GiB"));
        out.zeros(Self::RESERVED_LEN);
        for shard_count in &self.placements {
            out.u16(*shard_count);
        }
        for owner in &self.zone_owners {
            out.u16(owner.encode());
        }
        assert_eq!(out.position(), length as usize - 8, "the length is the sum of the fields");
        *last = checksum64(covered).to_le_bytes();
        bytes
    }

    /// Verifies and reads a root. `bytes` may be longer than it.
    ///
    /// # Errors
    /// Whatever keeps `bytes` from starting with a pool root that this version may read.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let covered = envelope(WHAT, Self::MAGIC, Self::VERSION, bytes)?;
        let mut fields = Reader::new(WHAT, covered);
        fields.bytes(ENVELOPE_LEN)?;
        let features = Features::read(&mut fields, WHAT)?;
        let pool = PoolId(fields.array()?);
        let created_unix_ms = fields.u64()?;
        let segment_bytes = fields.u32()?;
        let zone_segments = fields.u32()?;
        let next_stream = fields.id("next_stream", StreamId::from_untrusted)?;
        let placement_count = fields.u32()? as usize;
        let zone_count = fields.u32()? as usize;
        fields.zeros(Self::RESERVED_LEN)?;
        let words = |bytes: &[u8]| -> Vec<u16> {
            bytes
                .chunks_exact(2)
                .filter_map(<[u8]>::first_chunk)
                .map(|w| u16::from_le_bytes(*w))
                .collect()
        };
        let placements = words(fields.bytes(placement_count.saturating_mul(2))?);
        let zone_owners = words(fields.bytes(zone_count.saturating_mul(2))?);
        let zone_owners = zone_owners.into_iter().map(ZoneOwner::decode).collect();
        fields.end()?;
        let root = Self {
            features,
            pool,
            created_unix_ms,
            segment_bytes,
            zone_segments,
            next_stream,
            placements,
            zone_owners,
        };
        match root.misfit() {
            Some((field, value)) => Err(fields.bad(field, value).into()),
            None => Ok(root),
        }
    }

    /// The first value that no pool has.
    fn misfit(&self) -> Option<(&'static str, u64)> {
        if self.segment_bytes == 0
            || self.segment_bytes > SEGMENT_BYTES_MAX
            || !(self.segment_bytes as usize).is_multiple_of(MEDIA_ALIGN)
        {
            return Some(("segment_bytes", u64::from(self.segment_bytes)));
        }
        if self.zone_segments == 0 {
            return Some(("zone_segments", 0));
        }
        if self.placements.is_empty() || self.placements.len() > PLACEMENTS_MAX {
            return Some(("placement_count", self.placements.len() as u64));
        }
        let bad_count = |count: &&u16| **count == 0 || **count > ShardId::COUNT_MAX;
        if let Some(count) = self.placements.iter().find(bad_count) {
            return Some(("shard_count", u64::from(*count)));
        }
        let can_withdraw = self.has_withdrawn_zones();
        let bad_owner = |owner: &&ZoneOwner| match owner {
            ZoneOwner::Free => false,
            ZoneOwner::Shard(shard) => shard.0 >= ShardId::COUNT_MAX,
            ZoneOwner::Withdrawn => !can_withdraw,
        };
        if let Some(owner) = self.zone_owners.iter().find(bad_owner) {
            return Some(("zone_owner", u64::from(owner.encode())));
        }
        if self.zone_owners.last() == Some(&ZoneOwner::Withdrawn) {
            return Some(("zone_count", self.zone_owners.len() as u64));
        }
        None
    }

    /// Whether zones may be withdrawn: those of a redundant pool.
    #[must_use]
    pub fn has_withdrawn_zones(&self) -> bool {
        self.features.incompat & Features::WITHDRAWN_ZONES != 0
    }
}
