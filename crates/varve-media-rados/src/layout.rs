//! Names of a pool's objects and the record that describes it.
//!
//! ```text
//!  data pool       varve.POOL.segment.SHARD.SLOT                 a segment
//!  both            varve.POOL.pool                               the record below
//!  metadata pool   varve.POOL.root.pool, .root.SHARD             roots: version u64 | checksum u64 | bytes
//!                  varve.POOL.nodes                              who serves the pool: a table of `varve-membership`
//!                  varve.POOL.name.v.NAMESPACE/VOLUME,           which cell has a name, where there are several:
//!                    .name.b.BUCKET                              an entry of `varve-register`
//!                  varve.POOL.lane.SHARD.PART                    4 MiB of a lane's ring
//! ```
//! POOL is the pool's identity, so pools of Varve may share pools of RADOS; numbers are hexadecimal. A pool of several
//! cells has all but the last two for each of them, by the identity that the cell goes by.
//!
//! The record: magic 8 B | version u16, 3 of a cell of several, 2 where lanes are not in RADOS, else 1 | lane count
//! u16 | root bytes max u32 | segment bytes u32 | segment count u32 | lane bytes u64 | made, in ms since 1970 u64 |
//! identity 16 B | in version 3: cell u16, cells u16, zeros u32 | checksum u64 of all before. Little-endian.

use varve_media::{Error, Result, RootKey};
use varve_register::{Name, NameKind};
use varve_stdx::{DecodeError, Reader, Writer, checksum64};
use varve_types::{CellId, PoolId, SegmentNumber, ShardId};

use crate::{CellOf, JournalPlace, RadosSpec};

/// Bytes of a lane that are one object: as much as Ceph makes objects of by default.
pub(crate) const LANE_PART_BYTES: u64 = 4 << 20;

const MAGIC: &[u8; 8] = b"VARVERDS";
/// Versions of the record of a whole pool, by where lanes are.
const VERSIONS: [(u16, JournalPlace); 2] = [(1, JournalPlace::Rados), (2, JournalPlace::Local)];
/// The one of a cell of several, whose lanes are in RADOS.
const VERSION_OF_CELL: u16 = 3;
const RECORD_BYTES: usize = 64;
const CELL_BYTES: usize = 8;

/// Names of the objects of one pool.
#[derive(Clone, Debug)]
pub(crate) struct ObjectNames {
    prefix: String,
}

impl ObjectNames {
    pub(crate) fn new(pool: PoolId) -> Self {
        Self { prefix: format!("varve.{pool}.") }
    }

    pub(crate) fn record(&self) -> String {
        format!("{}pool", self.prefix)
    }

    pub(crate) fn root(&self, key: RootKey) -> String {
        match key {
            RootKey::Pool => format!("{}root.pool", self.prefix),
            RootKey::Shard(shard) => format!("{}root.{:04x}", self.prefix, shard.0),
        }
    }

    pub(crate) fn nodes(&self) -> String {
        format!("{}nodes", self.prefix)
    }

    /// Where the entry of a name is.
    pub(crate) fn name(&self, name: &Name) -> String {
        let sort = match name.sort {
            NameKind::Volume => 'v',
            NameKind::Bucket => 'b',
        };
        format!("{}name.{sort}.{}", self.prefix, name.full)
    }

    /// The name whose entry an object is.
    pub(crate) fn named(&self, object: &str) -> Option<Name> {
        let name = object.strip_prefix(self.prefix.as_str())?;
        let of = |sort, full: &str| Name { sort, full: full.to_owned() };
        let volume = name.strip_prefix("name.v.").map(|full| of(NameKind::Volume, full));
        volume.or_else(|| name.strip_prefix("name.b.").map(|full| of(NameKind::Bucket, full)))
    }

    pub(crate) fn lane_part(&self, shard: ShardId, part: u64) -> String {
        format!("{}lane.{:04x}.{part:06x}", self.prefix, shard.0)
    }

    pub(crate) fn segment(&self, shard: ShardId, slot: SegmentNumber) -> String {
        format!("{}segment.{:04x}.{:08x}", self.prefix, shard.0, slot.0)
    }

    /// Shard and slot of the segment that has that name.
    pub(crate) fn slot(&self, name: &str) -> Option<(ShardId, SegmentNumber)> {
        let slot = name.strip_prefix(self.prefix.as_str())?.strip_prefix("segment.")?;
        let (shard, slot) = slot.split_once('.')?;
        let shard = ShardId(u16::from_str_radix(shard, 16).ok()?);
        let slot = SegmentNumber(u32::from_str_radix(slot, 16).ok()?);
        (self.segment(shard, slot) == name).then_some((shard, slot))
    }

    /// Whether an object with that name is one of the pool's.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }

    /// All names that the metadata pool has of the pool, and whether an object is there from its making on.
    pub(crate) fn of_metadata(&self, spec: &RadosSpec) -> impl Iterator<Item = (String, bool)> {
        let of_shard = move |shard| {
            let parts = (0..lane_parts(spec)).map(move |part| self.lane_part(shard, part));
            std::iter::once(self.root(RootKey::Shard(shard))).chain(parts)
        };
        let shards = (0..spec.lane_count).map(ShardId).flat_map(of_shard);
        let always = [self.record(), self.root(RootKey::Pool)].into_iter().chain(shards);
        // One for all cells, by the pool's identity.
        let nodes = (spec.cell.cell == CellId::FIRST).then(|| (self.nodes(), false));
        always.map(|name| (name, true)).chain(nodes)
    }
}

/// Objects that a lane is made of.
pub(crate) fn lane_parts(spec: &RadosSpec) -> u64 {
    match spec.journal {
        JournalPlace::Rados => spec.lane_bytes.div_ceil(LANE_PART_BYTES),
        JournalPlace::Local => 0,
    }
}

pub(crate) fn encode_record(spec: &RadosSpec) -> Vec<u8> {
    let is_cell = spec.cell.cells > 1;
    let len = RECORD_BYTES + if is_cell { CELL_BYTES } else { 0 };
    let mut bytes = vec![0; len];
    let mut out = Writer::new(&mut bytes);
    out.array(*MAGIC);
    let version = VERSIONS.iter().find(|(_, journal)| *journal == spec.journal);
    out.u16(if is_cell { VERSION_OF_CELL } else { version.expect("a version each").0 });
    out.u16(spec.lane_count);
    out.u32(spec.root_bytes_max);
    out.u32(spec.segment_bytes);
    out.u32(spec.segment_count);
    out.u64(spec.lane_bytes);
    out.u64(spec.created_unix_ms);
    out.array(spec.pool.0);
    if is_cell {
        out.u16(spec.cell.cell.0);
        out.u16(spec.cell.cells);
        out.zeros(4);
    }
    let sum = checksum64(&bytes[..len - 8]);
    bytes[len - 8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What errors call it.
const RECORD: &str = "the pool's record";

pub(crate) fn decode_record(path: &str, bytes: &[u8]) -> Result<RadosSpec> {
    let damaged = |reason: &str| Error::Corrupt {
        what: RECORD,
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let malformed = |error: DecodeError| damaged(&error.to_string());
    let Some((fields, sum)) = bytes.split_last_chunk::<8>() else {
        return Err(damaged("it is too short"));
    };
    let Some(fields) = fields.strip_prefix(MAGIC) else {
        return Err(damaged("it is not a record of a pool"));
    };
    if u64::from_le_bytes(*sum) != checksum64(&bytes[..bytes.len() - sum.len()]) {
        return Err(damaged("checksum mismatch"));
    }
    let mut reader = Reader::new(RECORD, fields);
    let version = reader.u16().map_err(malformed)?;
    let known = VERSIONS.iter().find(|(known, _)| *known == version);
    let (journal, len) = match known {
        Some((_, journal)) => (*journal, RECORD_BYTES),
        None if version == VERSION_OF_CELL => (JournalPlace::Rados, RECORD_BYTES + CELL_BYTES),
        // Before its length: a later version may have another one.
        None => {
            return Err(Error::Unsupported { path: path.to_owned(), flags: u64::from(version) });
        }
    };
    if bytes.len() != len {
        return Err(damaged("its length does not belong to its version"));
    }
    let mut read = || -> std::result::Result<(RadosSpec, u32), DecodeError> {
        let lane_count = reader.u16()?;
        let root_bytes_max = reader.u32()?;
        let segment_bytes = reader.u32()?;
        let segment_count = reader.u32()?;
        let lane_bytes = reader.u64()?;
        let created_unix_ms = reader.u64()?;
        let pool = PoolId(reader.array()?);
        let spec = RadosSpec {
            pool,
            created_unix_ms,
            segment_bytes,
            segment_count,
            lane_bytes,
            lane_count,
            root_bytes_max,
            journal,
            cell: CellOf::WHOLE,
        };
        if version != VERSION_OF_CELL {
            return Ok((spec, 0));
        }
        let cell = CellOf { cell: CellId(reader.u16()?), cells: reader.u16()? };
        Ok((RadosSpec { cell, ..spec }, reader.u32()?))
    };
    let (spec, zeros) = read().map_err(malformed)?;
    if zeros != 0 || (version == VERSION_OF_CELL) != (spec.cell.cells > 1) {
        return Err(damaged("its number of cells does not belong to its version"));
    }
    spec.validate()?;
    Ok(spec)
}
