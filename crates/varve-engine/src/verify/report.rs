//! What a verification tells: damage as it is found, and sums at the end.

use varve_logstore::format::summary::SummaryEntry;
use varve_media::SegmentId;
use varve_types::{ChunkId, SegmentNumber};

use crate::trees::PAGE_ID_FIRST;

/// Which part of a segment is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DamagedPart {
    /// The header: the segment cannot be reclaimed, or followed in its chain.
    Header,
    /// The summary: the segment cannot be reclaimed.
    Summary,
    /// A range that the media do not give back.
    Range,
    /// A chunk of data.
    Chunk(ChunkId),
    /// A page of a map or of the key tree.
    Page(ChunkId),
    /// A page of the chunk table.
    TablePage,
    /// What a checkpoint says of the use of segments.
    UsageBlob,
    /// What a checkpoint says of chunks that were overwritten.
    DeathBlob,
    /// What a checkpoint says of map updates that wait.
    DeltaBlob,
    /// A key's record, which the key tree holds by now.
    KeyRecord,
    /// The second copy of that segment, which has metadata pages.
    Copy(SegmentNumber),
}

impl DamagedPart {
    /// A chunk or page, by its id (TREES-3).
    pub(super) fn of_chunk(chunk: ChunkId) -> Self {
        if chunk.get() >= PAGE_ID_FIRST { Self::Page(chunk) } else { Self::Chunk(chunk) }
    }

    /// What an entry of a summary stands for.
    pub(super) fn of_entry(entry: &SummaryEntry) -> Self {
        match entry {
            SummaryEntry::Data { chunk, .. }
            | SummaryEntry::Move { chunk, .. }
            | SummaryEntry::Page { chunk, .. } => Self::of_chunk(*chunk),
            SummaryEntry::TablePage { .. } => Self::TablePage,
            SummaryEntry::UsageBlob { .. } => Self::UsageBlob,
            SummaryEntry::DeathBlob { .. } => Self::DeathBlob,
            SummaryEntry::DeltaBlob { .. } => Self::DeltaBlob,
            SummaryEntry::KeyPut { .. } | SummaryEntry::KeyDelete { .. } => Self::KeyRecord,
            SummaryEntry::Reference { .. }
            | SummaryEntry::ForeignReference { .. }
            | SummaryEntry::Grant { .. }
            | SummaryEntry::Trim { .. }
            | SummaryEntry::Zero { .. }
            | SummaryEntry::StreamDrop { .. }
            | SummaryEntry::Cut { .. }
            | SummaryEntry::FreedIds { .. }
            | SummaryEntry::Folded { .. } => Self::Summary,
        }
    }
}

/// Stored bytes that are not what was written.
#[derive(Clone, Debug)]
pub struct Damage {
    /// In which segment.
    pub segment: SegmentId,
    /// Byte offset in it.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// What stands there.
    pub part: DamagedPart,
    /// Whether anything needs it (VERIFY-2).
    pub is_needed: bool,
    /// Whether something needs it that the segment's second copy holds, or that the media can read in another way: then
    /// nothing is lost, and it is written anew.
    pub is_copied: bool,
    /// What is wrong.
    pub reason: String,
}

/// What a verification tells as it goes.
#[derive(Debug)]
pub enum VerifyEvent {
    /// As many bytes were read and judged.
    Read(u64),
    /// Damage was found.
    Damage(Damage),
}

/// Sums of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segments in use.
    pub segments: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Units compared with their checksums.
    pub units: u64,
    /// Of these, units that something needs.
    pub needed_units: u64,
    /// Stored bytes of those.
    pub needed_bytes: u64,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}
