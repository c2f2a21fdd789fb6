//! What a shard is asked to do by another node.
//!
//! ```text
//!  1 Read stream u64, offset u64, len u32         2 Write stream, offset, dedup u8, compression u8, data      3 Clear stream, range, keep u8
//!  4 Status stream, range, max u32                5 Diff from u64, to u64, range, max u32                     6 KeyGet key
//!  7 KeyScan prefix, has after u8, after, max u32 8 KeyPut key, value                                         9 KeyDelete key
//!  10 DropStream stream                           11 CountBlocks stream                                       12 MarkWish
//!  13 Apply                                       14 Cut id u64, count u32, (source u64, copy u64) …          15 ReleaseCut id
//!  16 Reserve stream, blocks u64, pages u64, fresh u8    17 ReleaseReservation stream                         18 PrepareCut count u32, sources
//!  19 ReadChunks count u32, ids u64               20 ChunkSizes count u32, ids u64
//!  range: start u64, end u64                      key, value, data: length u32, bytes
//! ```

use varve_engine::CutPair;
use varve_types::{ByteRange, ChunkId, Reduction, StreamId};

use super::WireError;
use super::fields::{In, Out, compression_number};

/// Data of a request or an answer at most, in bytes.
pub const DATA_BYTES_MAX: u32 = 1 << 20;

/// Bytes of a key, or of its value, at most: more than a leaf takes.
pub const KEY_BYTES_MAX: usize = 2048;

/// Runs, keys, chunks or streams that are asked for, or named, at once.
pub const ITEMS_MAX: u32 = 256;

const _: () = assert!(ITEMS_MAX as usize * (2 * KEY_BYTES_MAX + 8) <= DATA_BYTES_MAX as usize + 4096);

/// What a shard is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads bytes of a stream.
    Read {
        /// Of which.
        stream: StreamId,
        /// From here.
        offset: u64,
        /// So many, at most [`DATA_BYTES_MAX`].
        len: u32,
    },
    /// Writes bytes of a stream.
    Write {
        /// Of which.
        stream: StreamId,
        /// From here.
        offset: u64,
        /// How its blocks are reduced.
        reduction: Reduction,
        /// What, at most [`DATA_BYTES_MAX`].
        data: Vec<u8>,
    },
    /// Makes bytes read as zeros.
    Clear {
        /// Of which stream.
        stream: StreamId,
        /// Which.
        range: ByteRange,
        /// Whether they stay allocated; none for a trim.
        keep_allocated: Option<bool>,
    },
    /// Tells what bytes of a stream hold.
    Status {
        /// Of which.
        stream: StreamId,
        /// Which.
        range: ByteRange,
        /// In so many runs at most; at most [`ITEMS_MAX`].
        max: u32,
    },
    /// Tells which bytes may differ between two streams.
    Diff {
        /// The one.
        from: StreamId,
        /// The other.
        to: StreamId,
        /// Which bytes.
        range: ByteRange,
        /// In so many runs at most; at most [`ITEMS_MAX`].
        max: u32,
    },
    /// Tells the value of a key.
    KeyGet {
        /// Which.
        key: Vec<u8>,
    },
    /// Tells keys in order, with their values.
    KeyScan {
        /// What they begin with.
        prefix: Vec<u8>,
        /// Those behind this one.
        after: Option<Vec<u8>>,
        /// So many at most; at most [`ITEMS_MAX`].
        max: u32,
    },
    /// Sets a key.
    KeyPut {
        /// Which.
        key: Vec<u8>,
        /// To what.
        value: Vec<u8>,
    },
    /// Removes a key.
    KeyDelete {
        /// Which.
        key: Vec<u8>,
    },
    /// Forgets a stream.
    DropStream {
        /// Which.
        stream: StreamId,
    },
    /// Counts the blocks of a stream that hold data.
    CountBlocks {
        /// Of which.
        stream: StreamId,
    },
    /// Tells how much it wants a mark pass.
    MarkWish,
    /// Applies what was acknowledged.
    Apply,
    /// Cuts streams, and holds answers to later writes until the cut is released, or the link has ended.
    Cut {
        /// By which it is released.
        id: u64,
        /// At most [`ITEMS_MAX`].
        pairs: Vec<CutPair>,
    },
    /// Releases a cut.
    ReleaseCut {
        /// Which.
        id: u64,
    },
    /// Promises a stream space.
    Reserve {
        /// Which.
        stream: StreamId,
        /// For so many blocks of it.
        blocks: u64,
        /// And so many pages.
        pages: u64,
        /// It was never written.
        is_fresh: bool,
    },
    /// Promises a stream nothing any more.
    ReleaseReservation {
        /// Which.
        stream: StreamId,
    },
    /// Makes room for what has to be promised anew once streams are cut.
    PrepareCut {
        /// Which; at most [`ITEMS_MAX`].
        sources: Vec<StreamId>,
    },
    /// Reads chunks, for a shard that names them; at most [`ITEMS_MAX`].
    ReadChunks {
        /// Which.
        chunks: Vec<ChunkId>,
    },
    /// Tells what chunks take in segments, for a shard that names them; at most [`ITEMS_MAX`].
    ChunkSizes {
        /// Which.
        chunks: Vec<ChunkId>,
    },
}

impl Operation {
    /// Whether it may happen twice between its request and its answer: what was done by others meanwhile stays. What may not is not sent again.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        match self {
            // Its caller has the gate of its home by the same link, which may be another's when it comes again.
            Self::KeyPut { .. } | Self::KeyDelete { .. } => false,
            // A cut that comes again would take in what was answered since.
            Self::Cut { .. } => false,
            Self::Read { .. } | Self::Write { .. } | Self::Clear { .. } => true,
            Self::Status { .. } | Self::Diff { .. } => true,
            Self::KeyGet { .. } | Self::KeyScan { .. } => true,
            Self::DropStream { .. } | Self::CountBlocks { .. } => true,
            Self::MarkWish | Self::Apply | Self::ReleaseCut { .. } => true,
            Self::Reserve { .. } | Self::ReleaseReservation { .. } => true,
            Self::PrepareCut { .. } => true,
            Self::ReadChunks { .. } | Self::ChunkSizes { .. } => true,
        }
    }

    /// Bytes of data that it brings along.
    #[must_use]
    pub fn data_len(&self) -> usize {
        match self {
            Self::Write { data, .. } => data.len(),
            _ => 0,
        }
    }

    pub(super) fn append_to(&self, out: &mut Out<'_>) {
        out.u8(self.number());
        match self {
            Self::Read { stream, offset, len } => {
                out.u64(stream.get());
                out.u64(*offset);
                out.u32(*len);
            }
            Self::Write { stream, offset, reduction, data } => {
                out.u64(stream.get());
                out.u64(*offset);
                out.u8(u8::from(reduction.dedup));
                out.u8(compression_number(reduction.compression));
                out.bytes(data);
            }
            Self::Clear { stream, range, keep_allocated } => {
                out.u64(stream.get());
                out.range(*range);
                out.u8(keep_allocated.map_or(0, |keep| 1 + u8::from(keep)));
            }
            Self::Status { stream, range, max } => {
                out.u64(stream.get());
                out.range(*range);
                out.u32(*max);
            }
            Self::Diff { from, to, range, max } => {
                out.u64(from.get());
                out.u64(to.get());
                out.range(*range);
                out.u32(*max);
            }
            Self::KeyGet { key } | Self::KeyDelete { key } => out.bytes(key),
            Self::KeyScan { prefix, after, max } => {
                out.bytes(prefix);
                out.maybe_bytes(after.as_deref());
                out.u32(*max);
            }
            Self::KeyPut { key, value } => {
                out.bytes(key);
                out.bytes(value);
            }
            Self::DropStream { stream }
            | Self::CountBlocks { stream }
            | Self::ReleaseReservation { stream } => out.u64(stream.get()),
            Self::MarkWish | Self::Apply => {}
            Self::Cut { id, pairs } => {
                out.u64(*id);
                out.count(pairs.len());
                for CutPair { source, copy } in pairs {
                    out.u64(source.get());
                    out.u64(copy.get());
                }
            }
            Self::ReleaseCut { id } => out.u64(*id),
            Self::Reserve { stream, blocks, pages, is_fresh } => {
                out.u64(stream.get());
                out.u64(*blocks);
                out.u64(*pages);
                out.u8(u8::from(*is_fresh));
            }
            Self::PrepareCut { sources } => {
                out.count(sources.len());
                sources.iter().for_each(|source| out.u64(source.get()));
            }
            Self::ReadChunks { chunks } | Self::ChunkSizes { chunks } => {
                out.count(chunks.len());
                chunks.iter().for_each(|chunk| out.u64(chunk.get()));
            }
        }
    }

    fn number(&self) -> u8 {
        match self {
            Self::Read { .. } => 1,
            Self::Write { .. } => 2,
            Self::Clear { .. } => 3,
            Self::Status { .. } => 4,
            Self::Diff { .. } => 5,
            Self::KeyGet { .. } => 6,
            Self::KeyScan { .. } => 7,
            Self::KeyPut { .. } => 8,
            Self::KeyDelete { .. } => 9,
            Self::DropStream { .. } => 10,
            Self::CountBlocks { .. } => 11,
            Self::MarkWish => 12,
            Self::Apply => 13,
            Self::Cut { .. } => 14,
            Self::ReleaseCut { .. } => 15,
            Self::Reserve { .. } => 16,
            Self::ReleaseReservation { .. } => 17,
            Self::PrepareCut { .. } => 18,
            Self::ReadChunks { .. } => 19,
            Self::ChunkSizes { .. } => 20,
        }
    }

    pub(super) fn read(fields: &mut In<'_>) -> Result<Self, WireError> {
        Ok(match fields.u8()? {
            1 => {
                let (stream, offset, len) = (fields.stream()?, fields.u64()?, fields.u32()?);
                if len > DATA_BYTES_MAX || offset.checked_add(len.into()).is_none() {
                    return Err(fields.senseless("more is read than an answer holds"));
                }
                Self::Read { stream, offset, len }
            }
            2 => {
                let (stream, offset) = (fields.stream()?, fields.u64()?);
                let (dedup, compression) = (fields.flag()?, fields.compression()?);
                let data = fields.bytes(DATA_BYTES_MAX as usize)?;
                if offset.checked_add(data.len() as u64).is_none() {
                    return Err(fields.senseless("it ends beyond every stream"));
                }
                Self::Write { stream, offset, reduction: Reduction { dedup, compression }, data }
            }
            3 => {
                let (stream, range) = (fields.stream()?, fields.range()?);
                let keep_allocated = fields.one_of(&[None, Some(false), Some(true)])?;
                Self::Clear { stream, range, keep_allocated }
            }
            4 => {
                let (stream, range) = (fields.stream()?, fields.range()?);
                Self::Status { stream, range, max: fields.number_of_items()? }
            }
            5 => {
                let (from, to, range) = (fields.stream()?, fields.stream()?, fields.range()?);
                Self::Diff { from, to, range, max: fields.number_of_items()? }
            }
            6 => Self::KeyGet { key: fields.bytes(KEY_BYTES_MAX)? },
            7 => Self::KeyScan {
                prefix: fields.bytes(KEY_BYTES_MAX)?,
                after: fields.maybe_bytes(KEY_BYTES_MAX)?,
                max: fields.number_of_items()?,
            },
            8 => Self::KeyPut {
                key: fields.bytes(KEY_BYTES_MAX)?,
                value: fields.bytes(KEY_BYTES_MAX)?,
            },
            9 => Self::KeyDelete { key: fields.bytes(KEY_BYTES_MAX)? },
            10 => Self::DropStream { stream: fields.stream()? },
            11 => Self::CountBlocks { stream: fields.stream()? },
            12 => Self::MarkWish,
            13 => Self::Apply,
            14 => {
                let pair = |fields: &mut In<'_>| {
                    Ok(CutPair { source: fields.stream()?, copy: fields.stream()? })
                };
                Self::Cut { id: fields.u64()?, pairs: fields.items(pair)? }
            }
            15 => Self::ReleaseCut { id: fields.u64()? },
            16 => Self::Reserve {
                stream: fields.stream()?,
                blocks: fields.u64()?,
                pages: fields.u64()?,
                is_fresh: fields.flag()?,
            },
            17 => Self::ReleaseReservation { stream: fields.stream()? },
            18 => Self::PrepareCut { sources: fields.items(In::stream)? },
            19 => Self::ReadChunks { chunks: fields.items(In::chunk)? },
            20 => Self::ChunkSizes { chunks: fields.items(In::chunk)? },
            _ => return Err(fields.senseless("the operation is not known")),
        })
    }
}
