//! Records: one acknowledged change each, described by 64 bytes in a frame's header. Written by the lane, read by
//! replay.
//!
//! RECORD-1. `wseq` orders records, whatever their order in frames: per block, the highest wins.
//! RECORD-2. A payload checksum is made of the checksums of its 4096-byte pieces, so that each piece is read once
//!     between receipt and segment.

pub use varve_stdx::{PIECE_BYTES, checksum_of_pieces, payload_checksum};
use varve_stdx::{Reader, Writer};
use varve_types::limits::{ADDRESS_UNIT, VOLUME_BYTES_MAX};
use varve_types::{ChunkId, CutNumber, StreamId, WriteSeq};

use super::checks::{head, room};
use super::frame::FRAME_BYTES_MAX;
use crate::{Error, error::Result};

const WHAT: &str = "record descriptor";

/// First address that no stream has, in address units; byte addresses below it fit 64 bits.
const ADDRESS_END: u64 = VOLUME_BYTES_MAX / ADDRESS_UNIT;

const _: () = assert!(ADDRESS_END <= u64::MAX / ADDRESS_UNIT);
const _: () = assert!(RecordHeader::BYTES as usize == RecordHeader::LEN);
const _: () = assert!(GRANTED_MAX * GRANTED_BYTES == PIECE_BYTES); // RECORD-2

/// What a record does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// Stores the payload at `offset_512 .. offset_512 + len_512` of the stream.
    Write = 1,
    /// Makes the range a hole.
    Trim = 2,
    /// Makes the range read as zeros and stay allocated.
    Zero = 3,
    /// Sets a key to a whole new value; see [`KeyPayload`].
    KeyPut = 4,
    /// Removes a key; see [`KeyPayload`].
    KeyDelete = 5,
    /// Ends a stream: nothing older of it counts.
    StreamDrop = 6,
    /// Lets another stream hold what this one holds; see [`encode_cut`].
    Cut = 7,
    /// Lets other shards name chunks of this one; see [`encode_grant`].
    Grant = 8,
    /// Reserved: a write whose data went straight to a segment.
    LargeRef = 9,
}

impl RecordKind {
    const fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::Write,
            2 => Self::Trim,
            3 => Self::Zero,
            4 => Self::KeyPut,
            5 => Self::KeyDelete,
            6 => Self::StreamDrop,
            7 => Self::Cut,
            8 => Self::Grant,
            9 => Self::LargeRef,
            _ => return None,
        })
    }

    /// Says whether this version applies records of the kind. One that does not must not be skipped either.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for the reserved kinds.
    pub const fn check_supported(self) -> Result<()> {
        match self {
            Self::Write
            | Self::Trim
            | Self::Zero
            | Self::KeyPut
            | Self::KeyDelete
            | Self::StreamDrop
            | Self::Cut
            | Self::Grant => Ok(()),
            Self::LargeRef => Err(Error::Unsupported { what: "record kind", flags: self as u64 }),
        }
    }
}

/// Who made a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum RecordOrigin {
    /// A client's request, or the service on its behalf.
    #[default]
    Client = 1,
    /// The log, to free a segment.
    Reclaim = 2,
    /// Data brought in from elsewhere.
    Import = 3,
}

impl RecordOrigin {
    const fn from_u8(origin: u8) -> Option<Self> {
        Some(match origin {
            1 => Self::Client,
            2 => Self::Reclaim,
            3 => Self::Import,
            _ => return None,
        })
    }
}

/// The descriptor of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// What it does.
    pub kind: RecordKind,
    /// I/O class of the request; 0 is the default class.
    pub class: u8,
    /// Who made it.
    pub origin: RecordOrigin,
    /// Bytes of the payload, padding excluded.
    pub payload_len: u32,
    /// The stream it belongs to; 0 for keys.
    pub stream: StreamId,
    /// Its place in the shard's order of writes (RECORD-1).
    pub wseq: WriteSeq,
    /// First address in the stream, in units of 512 B; 0 where there is no range.
    pub offset_512: u64,
    /// Length in the stream, in units of 512 B; 0 where there is no range.
    pub len_512: u64,
    /// [`payload_checksum`] of the payload.
    pub payload_checksum: u64,
    /// Cut interval of the stream in which it was admitted.
    pub cut: CutNumber,
    /// Connection of the request, 0 when not known.
    pub connection: u32,
    /// Number of the request in its connection, 0 when not known.
    pub request: u64,
}

impl RecordHeader {
    /// Encoded length in bytes.
    pub const LEN: usize = 64;
    /// [`Self::LEN`] as a count in frames.
    pub const BYTES: u32 = 64;

    /// Writes the descriptor to the first [`Self::LEN`] bytes of `out`. Allocates nothing.
    ///
    /// # Panics
    /// When `out` is shorter, or the range or payload does not suit the kind (FORMAT-4).
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        if let Some((field, value)) = self.misfit() {
            panic!("{field} of a {:?} record cannot be {value}", self.kind);
        }
        let mut out = Writer::new(room::<{ Self::LEN }>(out));
        out.u8(self.kind as u8);
        out.u8(self.class);
        out.u8(self.origin as u8);
        out.u8(0); // flags
        out.u32(self.payload_len);
        out.u64(self.stream.get());
        out.u64(self.wseq.get());
        out.u64(self.offset_512);
        out.u64(self.len_512);
        out.u64(self.payload_checksum);
        out.u32(self.cut.0);
        out.u32(self.connection);
        out.u64(self.request);
        assert_eq!(out.position(), Self::LEN); // FORMAT-1
    }

    /// Reads a descriptor. The frame's chain value covers it; nothing in it proves it whole.
    ///
    /// # Errors
    /// Whatever no writer of this version leaves in a descriptor.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        let kind = fields.u8()?;
        let kind = RecordKind::from_u8(kind).ok_or_else(|| fields.unknown(kind))?;
        let class = fields.u8()?;
        let origin = fields.u8()?;
        let origin =
            RecordOrigin::from_u8(origin).ok_or_else(|| fields.bad("origin", u64::from(origin)))?;
        fields.zeros(1)?;
        let header = Self {
            kind,
            class,
            origin,
            payload_len: fields.u32()?,
            stream: fields.id("stream", StreamId::from_untrusted)?,
            wseq: fields.id("wseq", WriteSeq::from_untrusted)?,
            offset_512: fields.u64()?,
            len_512: fields.u64()?,
            payload_checksum: fields.u64()?,
            cut: CutNumber(fields.u32()?),
            connection: fields.u32()?,
            request: fields.u64()?,
        };
        match header.misfit() {
            Some((field, value)) => Err(fields.bad(field, value).into()),
            None => Ok(header),
        }
    }

    /// The first field whose value does not suit the kind.
    #[inline]
    fn misfit(&self) -> Option<(&'static str, u64)> {
        let ranged = match self.kind {
            RecordKind::Write | RecordKind::Trim | RecordKind::Zero => true,
            RecordKind::KeyPut
            | RecordKind::KeyDelete
            | RecordKind::StreamDrop
            | RecordKind::Cut
            | RecordKind::Grant => false,
            RecordKind::LargeRef => {
                return (self.payload_len > FRAME_BYTES_MAX)
                    .then_some(("payload_len", u64::from(self.payload_len)));
            }
        };
        if (self.len_512 > 0) != ranged || self.len_512 > ADDRESS_END {
            return Some(("len_512", self.len_512));
        }
        if self.offset_512 > ADDRESS_END - self.len_512 || (!ranged && self.offset_512 != 0) {
            return Some(("offset_512", self.offset_512));
        }
        let payload_len = u64::from(self.payload_len);
        let fits = match self.kind {
            RecordKind::Write => payload_len == self.len_512 * ADDRESS_UNIT,
            RecordKind::KeyPut | RecordKind::KeyDelete => payload_len >= 2,
            RecordKind::Cut => payload_len == CUT_BYTES as u64,
            RecordKind::Grant => {
                payload_len > 0 && payload_len.is_multiple_of(GRANTED_BYTES as u64)
            }
            _ => payload_len == 0,
        };
        if !fits || self.payload_len > FRAME_BYTES_MAX {
            return Some(("payload_len", payload_len));
        }
        if payload_len == 0 && self.payload_checksum != 0 {
            return Some(("payload_checksum", self.payload_checksum));
        }
        None
    }
}

/// Bytes of the payload of a cut: the stream that is to hold what the record's stream holds.
pub const CUT_BYTES: usize = 8;

/// The payload of a cut to `copy`.
#[must_use]
pub fn encode_cut(copy: StreamId) -> [u8; CUT_BYTES] {
    copy.get().to_le_bytes()
}

/// The copy that a cut's payload names.
///
/// # Errors
/// `DecodeError::Truncated`, or that it is no id of a stream.
pub fn decode_cut(payload: &[u8]) -> Result<StreamId> {
    let mut fields = Reader::new("cut payload", payload);
    Ok(fields.id("copy", StreamId::from_untrusted)?)
}

/// Bytes of a chunk in the payload of a grant.
pub const GRANTED_BYTES: usize = 8;

/// Chunks in a grant at most: their ids are one piece.
pub const GRANTED_MAX: usize = PIECE_BYTES / GRANTED_BYTES;

/// The payload of a grant of chunks.
///
/// # Panics
/// When they are none, or more than [`GRANTED_MAX`] (FORMAT-4).
#[must_use]
pub fn encode_grant(chunks: &[ChunkId]) -> Vec<u8> {
    assert!(!chunks.is_empty(), "a grant names chunks");
    assert!(chunks.len() <= GRANTED_MAX);
    debug_assert!(chunks.iter().all(|chunk| *chunk != ChunkId::ZERO)); // CHUNK-2
    chunks.iter().flat_map(|chunk| chunk.get().to_le_bytes()).collect()
}

/// The chunks that a grant's payload names.
///
/// # Errors
/// That they are too many, or one has no id of a chunk.
pub fn decode_grant(payload: &[u8]) -> Result<Vec<ChunkId>> {
    let mut fields = Reader::new("grant payload", payload);
    let count = payload.len() / GRANTED_BYTES;
    if count > GRANTED_MAX {
        return Err(fields.bad("length", payload.len() as u64).into());
    }
    let chunk = |id| ChunkId::from_untrusted(id).filter(|chunk| *chunk != ChunkId::ZERO);
    let chunks: Result<Vec<_>> = (0..count).map(|_| Ok(fields.id("chunk", chunk)?)).collect();
    let chunks = chunks?;
    fields.end()?;
    Ok(chunks)
}

/// Payload of key records, in frames and in segments: `key_len u16 | key | value`, without a value for a deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPayload<'a> {
    /// The key; any bytes.
    pub key: &'a [u8],
    /// The whole new value; empty for a deletion.
    pub value: &'a [u8],
}

impl<'a> KeyPayload<'a> {
    /// Bytes before the key.
    pub const LEN: usize = 2;

    /// Encoded length in bytes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        Self::LEN + self.key.len() + self.value.len()
    }

    /// Writes the payload to the first [`Self::encoded_len`] bytes of `out`.
    ///
    /// # Panics
    /// When `out` is shorter, or the key longer than 65,535 bytes.
    pub fn encode(&self, out: &mut [u8]) {
        let mut out = Writer::new(out);
        out.u16(u16::try_from(self.key.len()).expect("keys are far below 64 KiB"));
        out.bytes(self.key);
        out.bytes(self.value);
        assert_eq!(out.position(), self.encoded_len());
    }

    /// Reads a payload that is as long as `bytes`.
    ///
    /// # Errors
    /// `DecodeError::Truncated` when the key is cut off.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut fields = Reader::new("key payload", bytes);
        let key_len = fields.u16()?;
        let key = fields.bytes(usize::from(key_len))?;
        let value = fields.bytes(bytes.len().saturating_sub(Self::LEN + key.len()))?;
        Ok(Self { key, value })
    }
}
