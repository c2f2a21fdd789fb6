//! Frames: what one write to a journal lane carries. Written by the lane, read by replay.
//!
//! ```text
//! | header 128 | descriptor 64 x n | 0.. to 512 | payload | 0.. to 512 | payload | .. | 0.. to 4096 |
//!  \_____________ header_bytes, covered by chain ____/ \__ each covered by its descriptor's checksum
//! ```
//!
//! FRAME-1. A frame's chain value covers its header, its descriptors and the chain value of the frame before it.
//! FRAME-2. A header says where it belongs: pool, shard, mount, sequence and position. What an earlier lap or another
//!     lane left in its place is therefore never taken for it.
//! FRAME-3. Sizes are functions of the record count and payload lengths, so a frame that verifies has no unexplained
//!     bytes.

use varve_stdx::{DecodeError, Reader, Writer, checksum64, checksum64_seeded};
use varve_types::limits::{MEDIA_ALIGN, REQUEST_BYTES_MAX};
use varve_types::{PoolId, ShardId};

use super::UNIT_BYTES;
use super::checks::{check_pool, check_unencrypted, head, verify};
use super::record::{RecordHeader, payload_checksum};
use crate::{Error, error::Result};

const WHAT: &str = "frame";

/// Alignment and granularity of frames, in bytes.
pub const FRAME_ALIGN: u32 = 4096;

/// Most bytes of a frame: the largest request, and as much again for headers, padding and company.
pub const FRAME_BYTES_MAX: u32 = 64 << 20;

/// Most records of a frame: its header stays below 256 KiB.
pub const FRAME_RECORDS_MAX: u32 = 4000;

const _: () = assert!(FRAME_ALIGN as usize == MEDIA_ALIGN);
const _: () = assert!(FRAME_BYTES_MAX >= 2 * REQUEST_BYTES_MAX);
const _: () = assert!(header_bytes(FRAME_RECORDS_MAX) <= 256 << 10);
const _: () = assert!(FrameHeader::BYTES as usize == FrameHeader::LEN);
const _: () = assert!(FRAME_ALIGN.is_multiple_of(UNIT_BYTES));
const _: () = assert!(FRAME_BYTES_MAX.is_multiple_of(FRAME_ALIGN));

/// Bytes of a frame's header and descriptors, padding included.
///
/// # Panics
/// When `record_count` exceeds [`FRAME_RECORDS_MAX`].
#[must_use]
#[inline]
pub const fn header_bytes(record_count: u32) -> u32 {
    assert!(record_count <= FRAME_RECORDS_MAX, "too many records for a frame");
    (FrameHeader::BYTES + record_count * RecordHeader::BYTES).next_multiple_of(UNIT_BYTES)
}

/// Bytes that a payload of `payload_len` bytes takes in a frame.
///
/// # Panics
/// When it exceeds [`FRAME_BYTES_MAX`].
#[must_use]
#[inline]
pub const fn payload_bytes(payload_len: u32) -> u32 {
    assert!(payload_len <= FRAME_BYTES_MAX, "payload exceeds the largest frame");
    payload_len.next_multiple_of(UNIT_BYTES)
}

/// Bytes of a frame with this header and these payloads.
///
/// # Panics
/// When the sum exceeds [`FRAME_BYTES_MAX`].
#[must_use]
#[inline]
pub const fn frame_bytes(header_bytes: u32, payload_bytes: u32) -> u32 {
    assert!(header_bytes <= FRAME_BYTES_MAX && payload_bytes <= FRAME_BYTES_MAX, "oversized frame");
    let bytes = (header_bytes + payload_bytes).next_multiple_of(FRAME_ALIGN);
    assert!(bytes <= FRAME_BYTES_MAX, "oversized frame");
    bytes
}

/// Where the descriptor of record `index` lies in its frame.
#[must_use]
#[inline]
pub const fn descriptor_offset(index: usize) -> usize {
    FrameHeader::LEN + index * RecordHeader::LEN
}

/// Chain value before the first frame of a mount that continues no other chain.
///
/// The mount counter is raised durably before the first frame after each open, so no two chains are alike.
#[must_use]
pub fn chain_seed(pool: PoolId, shard: ShardId, mount: u64) -> u64 {
    let mut bytes = [0; 26];
    let mut out = Writer::new(&mut bytes);
    out.bytes(&pool.0);
    out.u16(shard.0);
    out.u64(mount);
    assert_eq!(out.position(), bytes.len());
    checksum64(&bytes)
}

/// A place in a lane from which frames can be verified one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPosition {
    /// Lane position of the frame, in bytes.
    pub position: u64,
    /// Sequence number of the frame.
    pub frame_seq: u64,
    /// Chain value of the frame before it, or [`chain_seed`].
    pub chain: u64,
}

/// What a frame says about itself, its lane and the segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Number of descriptors.
    pub record_count: u32,
    /// Bytes of the whole frame, a multiple of [`FRAME_ALIGN`].
    pub frame_bytes: u32,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The shard it belongs to.
    pub shard: ShardId,
    /// Open counter of the shard.
    pub mount: u64,
    /// Position of this frame in the lane, in bytes; grows for ever, but for an accepted loss: the lane begins at 0
    /// again.
    pub position: u64,
    /// Number of this frame; grows by one for ever.
    pub frame_seq: u64,
    /// The oldest frame that replay still needs.
    pub tail: LogPosition,
    /// Data segments whose `chain_seq` is at most this are durable in full.
    pub data_witness: u64,
    /// Reclaimed segments whose `chain_seq` is at most this are durable in full.
    pub reclaim_witness: u64,
    /// Chain value of the frame before this one, or [`chain_seed`].
    pub previous_chain: u64,
}

impl FrameHeader {
    /// Encoded length in bytes, descriptors excluded.
    pub const LEN: usize = 128;
    /// [`Self::LEN`] as a count in frames.
    pub const BYTES: u32 = 128;
    /// First bytes of every frame.
    pub const MAGIC: [u8; 8] = *b"VARVFRAM";
    /// Version of the structure.
    pub const VERSION: u16 = 1;

    /// Bytes of header and descriptors, padding included.
    #[must_use]
    #[inline]
    pub const fn header_bytes(&self) -> u32 {
        header_bytes(self.record_count)
    }

    /// Writes the header in front of the descriptors, which are in place at [`descriptor_offset`], zeroes the padding
    /// behind them and returns the chain value of the frame. Costs a checksum of the header bytes.
    ///
    /// # Panics
    /// When `frame` is shorter than the header, or a size breaks FRAME-3.
    pub fn encode(&self, frame: &mut [u8]) -> u64 {
        let header_bytes = self.header_bytes();
        assert!(header_bytes <= self.frame_bytes, "the frame ends in its header");
        assert!(self.frame_bytes <= FRAME_BYTES_MAX, "oversized frame");
        assert!(self.frame_bytes.is_multiple_of(FRAME_ALIGN), "misaligned frame");
        assert!(self.position.is_multiple_of(u64::from(FRAME_ALIGN)), "misaligned position");
        assert!(self.tail.position <= self.position, "the tail lies behind the frame");

        let covered = frame.get_mut(..header_bytes as usize).expect("the caller gave room");
        let descriptors_end = descriptor_offset(self.record_count as usize);
        covered.get_mut(descriptors_end..).expect("header_bytes holds them").fill(0);

        let (header, descriptors) =
            covered.split_first_chunk_mut::<{ Self::LEN }>().expect("header_bytes is larger");
        let mut out = Writer::new(header);
        out.array(Self::MAGIC);
        out.u16(Self::VERSION);
        out.u16(0); // flags
        out.u32(self.record_count);
        out.u32(self.frame_bytes);
        out.u32(header_bytes);
        out.bytes(&self.pool.0);
        out.u16(self.shard.0);
        out.u16(0); // AEAD codec, reserved
        out.u32(0); // key id
        out.u64(self.mount);
        out.u64(self.frame_seq);
        out.u64(self.position);
        out.u64(self.tail.position);
        out.u64(self.tail.frame_seq);
        out.u64(self.tail.chain);
        out.u64(self.data_witness);
        out.u64(self.reclaim_witness);
        out.u64(self.previous_chain);
        assert_eq!(out.position(), Self::LEN - 8); // FORMAT-1
        let chain = chain(header, descriptors, self.previous_chain); // FRAME-1
        *header.last_chunk_mut().expect("a header has eight bytes") = chain.to_le_bytes();
        chain
    }

    /// Reads the fixed part of a header. Its chain value is not verified: for that, [`Frame::decode`] needs the whole
    /// frame, whose size this header names.
    ///
    /// # Errors
    /// Whatever keeps `bytes` from being the start of a frame of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        fields.magic(Self::MAGIC)?;
        fields.version(Self::VERSION)?;
        let flags = fields.u16()?;
        if flags != 0 {
            return Err(Error::Unsupported { what: WHAT, flags: u64::from(flags) });
        }
        let record_count = fields.u32()?;
        if record_count > FRAME_RECORDS_MAX {
            return Err(fields.bad("record_count", u64::from(record_count)).into());
        }
        let frame_bytes = fields.u32()?;
        let stored_header_bytes = fields.u32()?;
        if stored_header_bytes != header_bytes(record_count) {
            return Err(fields.bad("header_bytes", u64::from(stored_header_bytes)).into()); // FRAME-3
        }
        if frame_bytes < stored_header_bytes
            || frame_bytes > FRAME_BYTES_MAX
            || !frame_bytes.is_multiple_of(FRAME_ALIGN)
        {
            return Err(fields.bad("frame_bytes", u64::from(frame_bytes)).into());
        }
        let pool = PoolId(fields.array()?);
        let shard = ShardId(fields.u16()?);
        let aead = fields.u16()?;
        let key_id = fields.u32()?;
        check_unencrypted(WHAT, u32::from(aead) | key_id)?;
        let mount = fields.u64()?;
        let frame_seq = fields.u64()?;
        let position = fields.u64()?;
        let tail =
            LogPosition { position: fields.u64()?, frame_seq: fields.u64()?, chain: fields.u64()? };
        if !position.is_multiple_of(u64::from(FRAME_ALIGN)) {
            return Err(fields.bad("position", position).into());
        }
        if tail.position > position {
            return Err(fields.bad("tail_position", tail.position).into());
        }
        Ok(Self {
            record_count,
            frame_bytes,
            pool,
            shard,
            mount,
            position,
            frame_seq,
            tail,
            data_witness: fields.u64()?,
            reclaim_witness: fields.u64()?,
            previous_chain: fields.u64()?,
        })
    }

    /// Says whether the frame belongs where it was read (FRAME-2).
    ///
    /// # Errors
    /// `DecodeError::BadField` for the first field that names another place.
    pub fn check_place(&self, pool: PoolId, shard: ShardId, position: u64) -> Result<()> {
        let bad = |field, value| Err(DecodeError::BadField { what: WHAT, field, value }.into());
        check_pool(WHAT, self.pool, pool)?;
        if self.shard != shard {
            return bad("shard", u64::from(self.shard.0));
        }
        if self.position != position {
            return bad("position", self.position);
        }
        Ok(())
    }
}

/// FRAME-1. Two passes, so that header and descriptors need not be joined without the value between them.
fn chain(header: &[u8; FrameHeader::LEN], descriptors: &[u8], previous_chain: u64) -> u64 {
    let covered = header.first_chunk::<{ FrameHeader::LEN - 8 }>();
    let covered = covered.expect("a header has eight bytes");
    checksum64_seeded(descriptors, checksum64_seeded(covered, previous_chain))
}

/// One record of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRecord<'a> {
    /// Its descriptor.
    pub header: RecordHeader,
    /// Its payload, padding excluded.
    pub payload: &'a [u8],
    /// Where the payload lies in the frame, in bytes.
    pub payload_offset: usize,
}

impl FrameRecord<'_> {
    /// Computes the payload's checksum and compares it with the descriptor's.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    pub fn verify_payload(&self) -> Result<()> {
        verify("record payload", self.header.payload_checksum, payload_checksum(self.payload))
    }
}

/// A frame whose header and descriptors are verified; its payloads are verified one by one.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// The header.
    pub header: FrameHeader,
    /// Chain value of this frame: `previous_chain` of the next.
    pub chain: u64,
    bytes: &'a [u8],
    descriptors: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Verifies the header and every descriptor against the stored chain value, and that the sizes add up (FRAME-1,
    /// FRAME-3).
    ///
    /// Whether `previous_chain` is that of the frame before, and [`FrameHeader::check_place`], is for the caller to
    /// compare.
    ///
    /// # Errors
    /// Whatever keeps `bytes` from starting with a whole frame of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let header = FrameHeader::decode(bytes)?;
        let need = header.frame_bytes as usize;
        let truncated = DecodeError::Truncated { what: WHAT, need, have: bytes.len() };
        let bytes = bytes.get(..need).ok_or(truncated)?;

        let mut fields = Reader::new(WHAT, bytes);
        let fixed = head::<{ FrameHeader::LEN }>(WHAT, fields.bytes(FrameHeader::LEN)?)?;
        let rest = fields.bytes(header.header_bytes() as usize - FrameHeader::LEN)?;
        let stored = fixed.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last));
        verify(WHAT, stored, chain(fixed, rest, header.previous_chain))?;

        let mut fields = Reader::new(WHAT, rest);
        let descriptors = fields.bytes(header.record_count as usize * RecordHeader::LEN)?;
        fields.zeros(rest.len() - descriptors.len())?;

        let frame = Self { header, chain: stored, bytes, descriptors };
        let mut records = frame.records();
        for record in records.by_ref() {
            record?;
        }
        let end = records.payload_offset.next_multiple_of(FRAME_ALIGN as usize);
        if end != bytes.len() {
            return Err(fields.bad("frame_bytes", u64::from(header.frame_bytes)).into()); // FRAME-3
        }
        Ok(frame)
    }

    /// The records, in the order in which they were written. Decodes one at a time; after [`Self::decode`] none fails.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records {
            bytes: self.bytes,
            descriptors: self.descriptors,
            payload_offset: self.header.header_bytes() as usize,
        }
    }

    /// Verifies every payload.
    ///
    /// # Errors
    /// The first that is not what was written.
    pub fn verify_payloads(&self) -> Result<()> {
        self.records().try_for_each(|record| record?.verify_payload())
    }
}

/// Iterates over the records of a [`Frame`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    descriptors: &'a [u8],
    payload_offset: usize,
}

impl<'a> Records<'a> {
    fn decode(&mut self, descriptor: &[u8]) -> Result<FrameRecord<'a>> {
        let header = RecordHeader::decode(descriptor)?;
        let start = self.payload_offset;
        let payload =
            self.bytes.get(start..).and_then(|rest| rest.get(..header.payload_len as usize));
        let payload = payload.ok_or(DecodeError::Truncated {
            what: "record payload",
            need: start.saturating_add(header.payload_len as usize),
            have: self.bytes.len(),
        })?;
        self.payload_offset = start + payload.len().next_multiple_of(UNIT_BYTES as usize);
        Ok(FrameRecord { header, payload, payload_offset: start })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<FrameRecord<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (descriptor, rest) = self.descriptors.split_first_chunk::<{ RecordHeader::LEN }>()?;
        self.descriptors = rest;
        Some(self.decode(descriptor))
    }
}
