//! Page units: how pages of the map, the key tree and the chunk table, usage blobs and death blobs stand in a segment.
//! Written by checkpoints, read by the page cache and recovery.
//!
//! A header of 48 bytes in front of a payload whose encoding is the tree's own. The unit begins on a 512-byte boundary.

use varve_stdx::{DecodeError, Reader, Writer, checksum64, checksum64_seeded};
use varve_types::limits::SEGMENT_BYTES_MAX;
use varve_types::{ChunkId, StreamId};

use super::checks::{check_unencrypted, head, verify};
use crate::error::Result;

const WHAT: &str = "page";

/// Which tree or structure a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// The map of a stream.
    Map = 1,
    /// The key tree of a shard.
    Key = 2,
    /// The chunk table of a shard.
    Table = 3,
    /// Live bytes of segments.
    Usage = 4,
    /// Chunks that were overwritten.
    Deaths = 5,
    /// Map updates that wait.
    Deltas = 6,
}

/// What a page says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHeader {
    /// Which tree.
    pub kind: PageKind,
    /// How the payload is encoded; known to the tree, which refuses what it does not know.
    pub encoding: u8,
    /// Height above the leaves.
    pub level: u8,
    /// Bytes of a slot in map pages, 0 elsewhere.
    pub slot_width: u8,
    /// The page's chunk; 0 where pages are named by location.
    pub name: ChunkId,
    /// The stream of a map page, 0 elsewhere.
    pub stream: StreamId,
    /// First block of a map page, 0 elsewhere.
    pub position: u64,
}

impl PageHeader {
    /// Encoded length in bytes.
    pub const LEN: usize = 48;
    /// First bytes of every page.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"VARP");

    const COVERED_LEN: usize = Self::LEN - 8;

    /// Writes the header in front of the payload, which is in place at [`Self::LEN`]: `unit` is exactly the stored
    /// bytes. Costs one pass over them.
    ///
    /// # Panics
    /// When `unit` is shorter than a header or longer than a segment.
    pub fn encode(&self, unit: &mut [u8]) {
        assert!(unit.len() <= SEGMENT_BYTES_MAX as usize, "a page is smaller than a segment");
        let (header, payload) =
            unit.split_first_chunk_mut::<{ Self::LEN }>().expect("the caller gave room");
        let mut out = Writer::new(header);
        out.u32(Self::MAGIC);
        out.u8(self.kind as u8);
        out.u8(self.encoding);
        out.u8(self.level);
        out.u8(self.slot_width);
        out.u64(self.name.get());
        out.u64(self.stream.get());
        out.u64(self.position);
        out.u32(u32::try_from(payload.len()).expect("asserted above"));
        out.u32(0); // key id
        assert_eq!(out.position(), Self::COVERED_LEN); // FORMAT-1
        let checksum = Self::checksum(header, payload);
        *header.last_chunk_mut().expect("a header has eight bytes") = checksum.to_le_bytes();
    }

    /// Verifies and reads a page; returns its payload beside the header. `unit` is exactly the stored bytes.
    ///
    /// # Errors
    /// Whatever keeps `unit` from being a page of this version.
    pub fn decode(unit: &[u8]) -> Result<(Self, &[u8])> {
        let header = head::<{ Self::LEN }>(WHAT, unit)?;
        let payload = unit.get(Self::LEN..).unwrap_or_default();
        let mut fields = Reader::new(WHAT, header);
        let magic = fields.u32()?;
        if magic != Self::MAGIC {
            return Err(DecodeError::BadMagic { what: WHAT, found: u64::from(magic) }.into());
        }
        let stored = header.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last));
        verify(WHAT, stored, Self::checksum(header, payload))?;

        let kind = match fields.u8()? {
            1 => PageKind::Map,
            2 => PageKind::Key,
            3 => PageKind::Table,
            4 => PageKind::Usage,
            5 => PageKind::Deaths,
            6 => PageKind::Deltas,
            kind => return Err(fields.unknown(kind).into()),
        };
        let page = Self {
            kind,
            encoding: fields.u8()?,
            level: fields.u8()?,
            slot_width: fields.u8()?,
            name: fields.id("name", ChunkId::from_untrusted)?,
            stream: fields.id("stream", StreamId::from_untrusted)?,
            position: fields.u64()?,
        };
        let payload_len = fields.u32()?;
        if payload_len as usize != payload.len() {
            return Err(fields.bad("payload_len", u64::from(payload_len)).into());
        }
        let key_id = fields.u32()?;
        check_unencrypted(WHAT, key_id)?;
        Ok((page, payload))
    }

    fn checksum(header: &[u8; Self::LEN], payload: &[u8]) -> u64 {
        let covered = header.first_chunk::<{ Self::COVERED_LEN }>();
        let covered = covered.expect("a header is longer than its checksum");
        checksum64_seeded(payload, checksum64(covered))
    }
}
