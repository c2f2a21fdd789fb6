//! Stored structures as text, for `varve dump` and the worked examples of `docs/format.md`. Stable: one fact a line,
//! fields in stored order, checksums and chain values in hexadecimal.
//!
//! Small structures print on one line, others as a title and indented fields.

use std::fmt::{Display, Formatter, Result};

use super::Features;
use super::chunk::{ChunkEntry, MapSlot};
use super::frame::{Frame, FrameHeader, FrameRecord, LogPosition};
use super::page::{PageHeader, PageKind};
use super::pointer::{Location, PagePtr};
use super::pool::{PoolRoot, ZoneOwner};
use super::record::{KeyPayload, RecordHeader, RecordKind, RecordOrigin};
use super::reservation::ReservationRecord;
use super::root::{ChainHead, ShardRoot, TreeRoot};
use super::segment::{SegmentKind, StripHeader};
use super::stream::StreamRecord;
use super::summary::{Codec, Fingerprint, SummaryEntry, Unit};
use super::usage::UsageEntry;

fn field(f: &mut Formatter<'_>, name: &str, value: impl Display) -> Result {
    write!(f, "\n  {name:<18} {value}")
}

/// Bytes as text where they are printable, `\xNN` elsewhere.
struct Bytes<'a>(&'a [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

struct Hex(u64);

impl Display for Hex {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl Display for RecordKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Zero => "zero",
            Self::KeyPut => "key-put",
            Self::KeyDelete => "key-delete",
            Self::StreamDrop => "stream-drop",
            Self::Cut => "cut",
            Self::Grant => "grant",
            Self::LargeRef => "large-ref",
        })
    }
}

impl Display for RecordOrigin {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Reclaim => "reclaim",
            Self::Import => "import",
        })
    }
}

impl Display for SegmentKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Metadata => "metadata",
            Self::Data => "data",
            Self::Reclaimed => "reclaimed",
        })
    }
}

impl Display for PageKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Map => "map",
            Self::Key => "key",
            Self::Table => "table",
            Self::Usage => "usage",
            Self::Deaths => "deaths",
            Self::Deltas => "deltas",
        })
    }
}

impl Display for Codec {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

impl Display for LogPosition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "frame {} at {}, chain {}", self.frame_seq, self.position, Hex(self.chain))
    }
}

impl Display for FrameHeader {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "frame {}", self.frame_seq)?;
        field(f, "version", Self::VERSION)?;
        field(f, "record_count", self.record_count)?;
        field(f, "frame_bytes", self.frame_bytes)?;
        field(f, "header_bytes", self.header_bytes())?;
        field(f, "pool", self.pool)?;
        field(f, "shard", self.shard)?;
        field(f, "mount", self.mount)?;
        field(f, "frame_seq", self.frame_seq)?;
        field(f, "position", self.position)?;
        field(f, "tail", self.tail)?;
        field(f, "data_witness", self.data_witness)?;
        field(f, "reclaim_witness", self.reclaim_witness)?;
        field(f, "previous_chain", Hex(self.previous_chain))
    }
}

/// The header, the chain value and the records, payloads left out.
impl Display for Frame<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.header)?;
        field(f, "chain", Hex(self.chain))?;
        for record in self.records() {
            match record {
                Ok(record) => field(f, "record", record)?,
                Err(error) => field(f, "record", error)?,
            }
        }
        Ok(())
    }
}

impl Display for FrameRecord<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.header)?;
        if !self.payload.is_empty() {
            write!(f, " at {}", self.payload_offset)?;
        }
        Ok(())
    }
}

impl Display for RecordHeader {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} wseq {} stream {}", self.kind, self.wseq, self.stream)?;
        if self.len_512 > 0 {
            write!(f, " 512 B x {} + {}", self.offset_512, self.len_512)?;
        }
        write!(f, " cut {} origin {} class {}", self.cut.0, self.origin, self.class)?;
        if self.connection != 0 || self.request != 0 {
            write!(f, " connection {} request {}", self.connection, self.request)?;
        }
        if self.payload_len > 0 {
            write!(f, " payload {} B checksum {}", self.payload_len, Hex(self.payload_checksum))?;
        }
        Ok(())
    }
}

impl Display for KeyPayload<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "key \"{}\" value \"{}\"", Bytes(self.key), Bytes(self.value))
    }
}

impl Display for StripHeader {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} segment {} generation {}", self.kind, self.slot, self.generation)?;
        field(f, "version", Self::VERSION)?;
        field(f, "kind", self.kind)?;
        field(f, "data_strips", self.data_strips)?;
        field(f, "parity_strips", self.parity_strips)?;
        field(f, "strip_index", self.strip_index)?;
        field(f, "shard", self.shard)?;
        field(f, "pool", self.pool)?;
        field(f, "slot", self.slot)?;
        field(f, "next_slot", self.next_slot)?;
        field(f, "generation", self.generation)?;
        field(f, "mount", self.mount)?;
        field(f, "chain_seq", self.chain_seq)?;
        field(f, "previous_checksum", Hex(self.previous_checksum))?;
        field(f, "used_bytes", self.used_bytes)?;
        field(f, "summary_offset", self.summary_offset)?;
        field(f, "summary_entries", self.summary_entries)?;
        field(f, "wseq_first", self.wseq_first)?;
        field(f, "wseq_last", self.wseq_last)?;
        field(f, "lane", self.lane)?;
        field(f, "lane_mount", self.lane_mount)?;
        field(f, "witness", self.witness)?;
        field(f, "summary_checksum", Hex(self.summary_checksum))
    }
}

impl Display for Unit {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "unit {} + {} B {}", self.offset(), self.stored_len, self.codec)?;
        if self.logical_512 > 0 {
            write!(f, " logical 512 B x {}", self.logical_512)?;
        }
        write!(f, " checksum {:#010x}", self.checksum)
    }
}

/// A fingerprint, if there is one.
fn printed(f: &mut Formatter<'_>, fingerprint: Option<&Fingerprint>) -> Result {
    match fingerprint {
        Some(found) => write!(f, " fingerprint {:032x}", u128::from_be_bytes(found.bytes())),
        None => Ok(()),
    }
}

const fn bypass(bypassed: bool) -> &'static str {
    if bypassed { " bypassed" } else { "" }
}

impl Display for SummaryEntry {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Data { chunk, stream, block, wseq, cut, class, bypassed, unit, fingerprint } => {
                write!(
                    f,
                    "data chunk {chunk} stream {stream} block {block} wseq {wseq} cut {} class {class}{} {unit}",
                    cut.0,
                    bypass(*bypassed)
                )?;
                printed(f, fingerprint.as_ref())
            }
            Self::Reference { chunk, stream, block, wseq, cut, class, bypassed } => write!(
                f,
                "reference chunk {chunk} stream {stream} block {block} wseq {wseq} cut {} class {class}{}",
                cut.0,
                bypass(*bypassed)
            ),
            Self::ForeignReference { home, chunk, stream, block, wseq, class, bypassed } => write!(
                f,
                "foreign-reference chunk {chunk} of shard {home} stream {stream} block {block} wseq {wseq} class {class}{}",
                bypass(*bypassed)
            ),
            Self::Grant { first, count, wseq } => {
                write!(f, "grant chunk {first} + {count} wseq {wseq}")
            }
            Self::Trim { stream, block, block_count, wseq, cut, bypassed } => write!(
                f,
                "trim stream {stream} block {block} + {block_count} wseq {wseq} cut {}{}",
                cut.0,
                bypass(*bypassed)
            ),
            Self::Zero { stream, block, block_count, wseq, cut } => write!(
                f,
                "zero stream {stream} block {block} + {block_count} wseq {wseq} cut {}",
                cut.0
            ),
            Self::KeyPut { wseq, unit } => write!(f, "key-put wseq {wseq} {unit}"),
            Self::KeyDelete { wseq, unit } => write!(f, "key-delete wseq {wseq} {unit}"),
            Self::StreamDrop { stream, wseq } => {
                write!(f, "stream-drop stream {stream} wseq {wseq}")
            }
            Self::Cut { source, copy, wseq, chunk_ceiling } => {
                write!(
                    f,
                    "cut stream {source} copy {copy} wseq {wseq} chunks below {chunk_ceiling}"
                )
            }
            Self::Move { chunk, from, from_offset_512, unit, fingerprint } => {
                write!(
                    f,
                    "move chunk {chunk} from segment {} generation {} at {} {unit}",
                    from.number,
                    from.generation,
                    u32::from(*from_offset_512) * super::UNIT_BYTES
                )?;
                printed(f, fingerprint.as_ref())
            }
            Self::Page { chunk, unit } => write!(f, "page chunk {chunk} {unit}"),
            Self::TablePage { level, unit } => write!(f, "table-page level {level} {unit}"),
            Self::FreedIds { first, count } => write!(f, "freed-ids chunk {first} + {count}"),
            Self::Folded { first, count } => write!(f, "folded chunk {first} + {count}"),
            Self::UsageBlob { unit } => write!(f, "usage-blob {unit}"),
            Self::DeathBlob { unit } => write!(f, "death-blob {unit}"),
            Self::DeltaBlob { unit } => write!(f, "delta-blob {unit}"),
        }
    }
}

impl Display for PageHeader {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} page", self.kind)?;
        field(f, "kind", self.kind)?;
        field(f, "encoding", self.encoding)?;
        field(f, "level", self.level)?;
        field(f, "slot_width", self.slot_width)?;
        field(f, "name", self.name)?;
        field(f, "stream", self.stream)?;
        field(f, "position", self.position)
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "segment {} generation {} at {} + {} B checksum {:#010x}",
            self.segment.number,
            self.segment.generation,
            self.offset(),
            self.stored_len,
            self.checksum
        )
    }
}

impl Display for PagePtr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Null => f.write_str("none"),
            Self::Chunk(chunk) => write!(f, "chunk {chunk}"),
            Self::Location(location) => write!(f, "{location}"),
            Self::Memory(page) => write!(f, "memory {page}"),
        }
    }
}

impl Display for ChunkEntry {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} logical 512 B x {}", self.location(), self.codec, self.logical_512)?;
        if self.shared {
            f.write_str(" shared")?;
        }
        Ok(())
    }
}

impl Display for ReservationRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { blocks, pages, floor } = self;
        write!(f, "blocks {blocks} pages {pages} floor {floor}")
    }
}

impl Display for UsageEntry {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { segment, sealed_at, live_bytes, has_pages } = self;
        write!(f, "segment {} generation {}", segment.number, segment.generation)?;
        write!(f, " live {live_bytes} B sealed at wseq {sealed_at}")?;
        if *has_pages {
            f.write_str(" with pages")?;
        }
        Ok(())
    }
}

impl Display for MapSlot {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Hole => f.write_str("hole"),
            Self::Zero => f.write_str("zero"),
            Self::Data { shard, chunk } => write!(f, "data shard {shard} chunk {chunk}"),
            Self::Page { shard, chunk } => write!(f, "page shard {shard} chunk {chunk}"),
        }
    }
}

impl Display for StreamRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("stream record")?;
        field(f, "version", Self::VERSION)?;
        field(f, "height", self.height)?;
        field(f, "block_shift", self.block_shift)?;
        field(f, "slot_width", self.slot_width)?;
        field(f, "page_ceiling", self.page_ceiling)?;
        field(f, "chunk_ceiling", self.chunk_ceiling)?;
        field(f, "root", self.root)
    }
}

impl Display for Features {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { compat, ro_compat, incompat } = self;
        write!(f, "compat {compat:#x} ro_compat {ro_compat:#x} incompat {incompat:#x}")
    }
}

impl Display for ChainHead {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "seq {} checksum {} next slot {}", self.seq, Hex(self.checksum), self.next_slot)
    }
}

impl Display for TreeRoot {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "height {} root {}", self.height, self.page)
    }
}

impl Display for ShardRoot {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "shard root {}", self.shard)?;
        field(f, "version", Self::VERSION)?;
        field(f, "length", self.encoded_len())?;
        field(f, "features", self.features)?;
        field(f, "pool", self.pool)?;
        field(f, "shard", self.shard)?;
        field(f, "mount", self.mount)?;
        field(f, "checkpoint_seq", self.checkpoint_seq)?;
        field(f, "applied_wseq", self.applied_wseq)?;
        field(f, "next_wseq", self.next_wseq)?;
        field(f, "next_chunk", self.next_chunk)?;
        field(f, "next_page", self.next_page)?;
        field(f, "next_generation", self.next_generation)?;
        field(f, "lane", self.lane)?;
        field(f, "lane_mount", self.lane_mount)?;
        field(f, "data_chain", self.data_chain)?;
        field(f, "reclaim_chain", self.reclaim_chain)?;
        field(f, "table", self.table)?;
        field(f, "keys", self.keys)?;
        field(f, "highest_cut", self.highest_cut.0)?;
        field(f, "delta_limit", self.delta_limit)?;
        self.usage.iter().try_for_each(|location| field(f, "usage", location))?;
        self.deaths.iter().try_for_each(|location| field(f, "deaths", location))?;
        self.deltas.iter().try_for_each(|location| field(f, "deltas", location))?;
        let mut copies = self.copies.iter();
        copies.try_for_each(|(of, slot)| field(f, "copy", format_args!("of {of} in {slot}")))
    }
}

impl Display for PoolRoot {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "pool root {}", self.pool)?;
        field(f, "version", Self::VERSION)?;
        field(f, "length", self.encoded_len())?;
        field(f, "features", self.features)?;
        field(f, "pool", self.pool)?;
        field(f, "created_unix_ms", self.created_unix_ms)?;
        field(f, "segment_bytes", self.segment_bytes)?;
        field(f, "zone_segments", self.zone_segments)?;
        field(f, "next_stream", self.next_stream)?;
        for (generation, shard_count) in self.placements.iter().enumerate() {
            field(f, "placement", format_args!("{generation}: {shard_count} shards"))?;
        }
        for (zone, owner) in self.zone_owners.iter().enumerate() {
            match owner {
                ZoneOwner::Shard(shard) => field(f, "zone", format_args!("{zone}: shard {shard}"))?,
                ZoneOwner::Free => field(f, "zone", format_args!("{zone}: free"))?,
                ZoneOwner::Withdrawn => field(f, "zone", format_args!("{zone}: withdrawn"))?,
            }
        }
        Ok(())
    }
}
