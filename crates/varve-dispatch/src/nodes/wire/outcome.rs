//! What came of what a shard was asked to do.
//!
//! ```text
//!  1 Done          2 Read parts: (0, len u32 | 1, data) …      3 NotBegun serves u8, epoch u64      4 NoConnection      5 Failed kind u8, text
//!  6 Status count u32, (len u64, mapped u8) …      7 Diff count u32, (len u64, differs u8) …      8 Value has u8, value      9 Keys count u32, (key, value) …
//!  10 Number u64   11 Wish u8            12 Chunks count u32, (has u8, data) …                           13 Sizes count u32, (has u8, bytes u32) …
//! ```

use varve_engine::{BlockStatus, DiffRun, KeyValue, Mapped, MarkWish};
use varve_types::ErrorKind;

use super::WireError;
use super::fields::{In, Out, position};
use super::operation::{DATA_BYTES_MAX, KEY_BYTES_MAX};

/// Bytes of a text for people at most.
pub const TEXT_BYTES_MAX: usize = 200;

/// Part of what was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// So many zeros.
    Zero(u32),
    /// Bytes.
    Data(Vec<u8>),
}

/// What came of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was done, durably.
    Done,
    /// What was read.
    Read(Vec<Part>),
    /// It was not begun: it may be sent anew, to whom the table names.
    NotBegun {
        /// The epoch of the claim with which the speaker serves the shard; none if it does not.
        serves: Option<u64>,
    },
    /// It was not begun, as its connection is closed.
    NoConnection,
    /// It failed; a change may have happened.
    Failed {
        /// What the caller can act on.
        kind: ErrorKind,
        /// For people; at most [`TEXT_BYTES_MAX`].
        text: String,
    },
    /// What bytes hold, in order; it may stop before the end of what was asked for.
    Status(Vec<BlockStatus>),
    /// Which bytes may differ, in order; it may stop before the end of what was asked for.
    Diff(Vec<DiffRun>),
    /// The value of a key, if there is one.
    Value(Option<Vec<u8>>),
    /// Keys with their values, in order.
    Keys(Vec<KeyValue>),
    /// What was counted.
    Number(u64),
    /// How much a mark pass is wanted.
    Wish(MarkWish),
    /// What chunks hold; none for one that is not there.
    Chunks(Vec<Option<Vec<u8>>>),
    /// What chunks take in segments, in bytes; none for one that is not there.
    Sizes(Vec<Option<u32>>),
}

const MAPPED: [Mapped; 3] = [Mapped::Hole, Mapped::Zero, Mapped::Data];

const WISHES: [MarkWish; 3] = [MarkWish::None, MarkWish::Wanted, MarkWish::Urgent];

const KINDS: [ErrorKind; 12] = [
    ErrorKind::NotFound,
    ErrorKind::Exists,
    ErrorKind::Invalid,
    ErrorKind::Unsupported,
    ErrorKind::Denied,
    ErrorKind::Conflict,
    ErrorKind::NoSpace,
    ErrorKind::Unavailable,
    ErrorKind::Corrupt,
    ErrorKind::Fenced,
    ErrorKind::Closed,
    ErrorKind::Internal,
];

impl Outcome {
    pub(super) fn append_to(&self, out: &mut Out<'_>) {
        match self {
            Self::Done => out.u8(1),
            Self::Read(parts) => {
                out.u8(2);
                for part in parts {
                    match part {
                        Part::Zero(len) => {
                            out.u8(0);
                            out.u32(*len);
                        }
                        Part::Data(data) => {
                            out.u8(1);
                            out.bytes(data);
                        }
                    }
                }
            }
            Self::NotBegun { serves } => {
                out.u8(3);
                out.u8(u8::from(serves.is_some()));
                out.u64(serves.unwrap_or(0));
            }
            Self::NoConnection => out.u8(4),
            Self::Failed { kind, text } => {
                out.u8(5);
                out.u8(position(&KINDS, kind));
                let end = text.floor_char_boundary(TEXT_BYTES_MAX);
                out.bytes(&text.as_bytes()[..end]);
            }
            Self::Status(runs) => {
                out.u8(6);
                out.count(runs.len());
                for BlockStatus { len, mapped } in runs {
                    out.u64(*len);
                    out.u8(position(&MAPPED, mapped));
                }
            }
            Self::Diff(runs) => {
                out.u8(7);
                out.count(runs.len());
                for DiffRun { len, differs } in runs {
                    out.u64(*len);
                    out.u8(u8::from(*differs));
                }
            }
            Self::Value(value) => {
                out.u8(8);
                out.maybe_bytes(value.as_deref());
            }
            Self::Keys(keys) => {
                out.u8(9);
                out.count(keys.len());
                for (key, value) in keys {
                    out.bytes(key);
                    out.bytes(value);
                }
            }
            Self::Number(number) => {
                out.u8(10);
                out.u64(*number);
            }
            Self::Wish(wish) => {
                out.u8(11);
                out.u8(position(&WISHES, wish));
            }
            Self::Chunks(chunks) => {
                out.u8(12);
                out.count(chunks.len());
                chunks.iter().for_each(|chunk| out.maybe_bytes(chunk.as_deref()));
            }
            Self::Sizes(sizes) => {
                out.u8(13);
                out.count(sizes.len());
                for size in sizes {
                    out.u8(u8::from(size.is_some()));
                    out.u32(size.unwrap_or(0));
                }
            }
        }
    }

    pub(super) fn read(fields: &mut In<'_>) -> Result<Self, WireError> {
        Ok(match fields.u8()? {
            1 => Self::Done,
            2 => Self::Read(parts(fields)?),
            3 => {
                let (serves, epoch) = (fields.flag()?, fields.u64()?);
                if !serves && epoch != 0 {
                    return Err(fields.senseless("an epoch of nothing"));
                }
                Self::NotBegun { serves: serves.then_some(epoch) }
            }
            4 => Self::NoConnection,
            5 => {
                let kind = fields.one_of(&KINDS)?;
                let text = String::from_utf8(fields.bytes(TEXT_BYTES_MAX)?);
                Self::Failed { kind, text: text.map_err(|_| fields.senseless("no text"))? }
            }
            6 => {
                let run = |fields: &mut In<'_>| {
                    Ok(BlockStatus { len: fields.u64()?, mapped: fields.one_of(&MAPPED)? })
                };
                Self::Status(fields.items(run)?)
            }
            7 => {
                let run = |fields: &mut In<'_>| {
                    Ok(DiffRun { len: fields.u64()?, differs: fields.flag()? })
                };
                Self::Diff(fields.items(run)?)
            }
            8 => Self::Value(fields.maybe_bytes(KEY_BYTES_MAX)?),
            9 => {
                let pair = |fields: &mut In<'_>| {
                    Ok((fields.bytes(KEY_BYTES_MAX)?, fields.bytes(KEY_BYTES_MAX)?))
                };
                Self::Keys(fields.items(pair)?)
            }
            10 => Self::Number(fields.u64()?),
            11 => Self::Wish(fields.one_of(&WISHES)?),
            12 => {
                let chunk = |fields: &mut In<'_>| fields.maybe_bytes(DATA_BYTES_MAX as usize);
                Self::Chunks(fields.items(chunk)?)
            }
            13 => {
                let size = |fields: &mut In<'_>| {
                    let (is_there, bytes) = (fields.flag()?, fields.u32()?);
                    if !is_there && bytes != 0 {
                        return Err(fields.senseless("a size of nothing"));
                    }
                    Ok(is_there.then_some(bytes))
                };
                Self::Sizes(fields.items(size)?)
            }
            _ => return Err(fields.senseless("the outcome is not known")),
        })
    }
}

fn parts(fields: &mut In<'_>) -> Result<Vec<Part>, WireError> {
    let mut parts = Vec::new();
    let mut room = DATA_BYTES_MAX;
    while !fields.reader.rest().is_empty() {
        let part = if fields.flag()? {
            Part::Data(fields.bytes(room as usize)?)
        } else {
            Part::Zero(fields.u32()?)
        };
        let len = match &part {
            Part::Zero(len) => *len,
            Part::Data(data) => u32::try_from(data.len()).unwrap_or(u32::MAX),
        };
        // Empty parts could be without end.
        room = room.checked_sub(len).filter(|_| len > 0).ok_or_else(|| {
            fields.senseless("a part is empty, or more was read than an answer holds")
        })?;
        parts.push(part);
    }
    Ok(parts)
}
