//! One thing that is not as it should be: how bad it is, what and where it is, and what to do.

use std::fmt;

use serde::Serialize;
use varve_media::MediaPlace;
use varve_types::{BlockIndex, ByteCount, SegmentNumber, ShardId, StreamId};

/// Findings kept for the report; more are only counted.
pub(super) const FINDINGS_MAX: usize = 10_000;

/// Code of a file that a drive lacks.
pub(super) const FILE_MISSING: &str = "file_missing";

/// Bytes of a block of a volume.
const BLOCK_BYTES: u64 = varve_engine::BLOCK_BYTES as u64;

/// How bad a finding is.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Something is lost, or the pool does not serve it.
    Error,
    /// Damage that costs nothing yet.
    Warning,
    /// As it should be, and worth knowing.
    Note,
}

/// See the module. Codes and fields are stable.
#[derive(Serialize, Clone, Debug)]
pub(super) struct CheckFinding {
    pub(super) severity: Severity,
    /// Which kind, for programs.
    pub(super) code: &'static str,
    pub(super) what: String,
    /// Of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cell: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) segment: Option<u32>,
    /// Byte offset in the segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) segment_offset: Option<u32>,
    /// File or device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    /// Byte position in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) len_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) volume: Option<String>,
    /// First block of 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) block: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) block_count: Option<u64>,
    /// What to do.
    pub(super) advice: &'static str,
}

impl CheckFinding {
    pub(super) fn new(
        severity: Severity,
        code: &'static str,
        what: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self {
            severity,
            code,
            what: what.into(),
            cell: None,
            shard: None,
            segment: None,
            segment_offset: None,
            path: None,
            path_offset: None,
            len_bytes: None,
            stream: None,
            volume: None,
            block: None,
            block_count: None,
            advice,
        }
    }

    pub(super) fn error(code: &'static str, what: impl Into<String>, advice: &'static str) -> Self {
        Self::new(Severity::Error, code, what, advice)
    }

    pub(super) fn warning(
        code: &'static str,
        what: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self::new(Severity::Warning, code, what, advice)
    }

    pub(super) fn in_shard(self, shard: ShardId) -> Self {
        Self { shard: Some(shard.0), ..self }
    }

    pub(super) fn in_segment(self, segment: SegmentNumber, offset: u32, len: u32) -> Self {
        Self {
            segment: Some(segment.0),
            segment_offset: Some(offset),
            len_bytes: (len > 0).then_some(len),
            ..self
        }
    }

    pub(super) fn at(self, place: Option<MediaPlace>, further_bytes: u64) -> Self {
        let Some(MediaPlace { path, offset }) = place else { return self };
        Self { path: Some(path), path_offset: Some(offset + further_bytes), ..self }
    }

    pub(super) fn in_stream(
        self,
        stream: StreamId,
        first_block: BlockIndex,
        block_count: u64,
    ) -> Self {
        Self {
            stream: Some(stream.get()),
            block: Some(first_block.0),
            block_count: Some(block_count),
            ..self
        }
    }

    /// Where it is, in words.
    fn place(&self) -> String {
        let mut parts = Vec::new();
        if let (Some(block), Some(count)) = (self.block, self.block_count) {
            let bytes = |blocks: u64| ByteCount(blocks.saturating_mul(BLOCK_BYTES));
            let owner = match (&self.volume, self.stream) {
                (Some(volume), _) => format!("volume {volume}"),
                (None, Some(stream)) => format!("stream {stream}"),
                (None, None) => "no stream".to_owned(),
            };
            parts.push(format!("{owner} block {block}, {} at {}", bytes(count), bytes(block)));
        }
        if let Some(cell) = self.cell {
            parts.push(format!("cell {cell}"));
        }
        if let Some(shard) = self.shard {
            parts.push(format!("shard {shard}"));
        }
        if let Some(segment) = self.segment {
            let offset = self.segment_offset.unwrap_or(0);
            parts.push(format!("segment {segment} at {offset}"));
        }
        if let (Some(path), Some(offset)) = (&self.path, self.path_offset) {
            parts.push(format!("{path} at {offset}"));
        }
        parts.join(", ")
    }
}

/// One line.
impl fmt::Display for CheckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{severity}: {}", self.what.replace('\n', " "))?;
        let place = self.place();
        if !place.is_empty() {
            write!(f, " ({place})")?;
        }
        write!(f, "; {}", self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_what_where_and_what_to_do() {
        let place = MediaPlace { path: "drive/segments".into(), offset: 8 << 20 };
        let finding = CheckFinding::error("chunk_damaged", "chunk 7 is damaged", "restore it")
            .in_shard(ShardId(1))
            .in_segment(SegmentNumber(2), 8192, 4096)
            .at(Some(place), 8192)
            .in_stream(StreamId::new(5), BlockIndex(16), 2);
        assert_eq!(
            finding.to_string(),
            "error: chunk 7 is damaged (stream 5 block 16, 8 KiB at 64 KiB, shard 1, segment 2 at 8192, \
             drive/segments at 8396800); restore it"
        );
        let json = serde_json::to_value(&finding).expect("plain JSON");
        assert_eq!((&json["severity"], &json["segment_offset"]), (&"error".into(), &8192.into()));
        assert!(json.get("volume").is_none());
    }
}
