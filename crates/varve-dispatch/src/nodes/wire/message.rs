//! Messages of nodes.

use varve_membership::NodeId;
use varve_stdx::{Reader, Short};
use varve_types::{ByteRange, Compression, ErrorKind, PoolId, Reduction, ShardId, StreamId};

use super::WireError;

/// Data of a request or an answer at most, in bytes.
pub const DATA_BYTES_MAX: u32 = 1 << 20;

/// Bytes of a text for people at most.
pub const TEXT_BYTES_MAX: usize = 200;

/// What a node says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The first of a link.
    Hello {
        /// Whose nodes these are.
        pool: PoolId,
        /// Who speaks.
        from: NodeId,
        /// Who is meant.
        to: NodeId,
        /// Rises with each link of the speaker to whom it means.
        link: u64,
        /// The lowest and the highest version that the speaker knows.
        versions: (u16, u16),
    },
    /// The answer to it, once nothing of earlier links is under way.
    Welcome {
        /// The version of all that follows.
        version: u16,
    },
    /// A client's connection has ended: nothing of it is to be begun any more.
    Closed {
        /// Which.
        connection: u64,
    },
    /// Something to be done.
    Request {
        /// Rises within the link.
        request: u64,
        /// The connection that it is for; 0 is the node's own.
        connection: u64,
        /// The epoch of the claim under which it is to happen.
        epoch: u64,
        /// The departures from the table of nodes that the speaker knows of.
        departures: u64,
        /// Where.
        shard: ShardId,
        /// What.
        operation: Operation,
    },
    /// What came of it.
    Answer {
        /// Which request.
        request: u64,
        /// What.
        outcome: Outcome,
    },
    /// The last of a link.
    Goodbye(Farewell),
    /// Asks for an [`Outcome::Done`] once nothing is left of connections that are closed by now.
    Barrier {
        /// The number of the question, which rises as those of requests do.
        request: u64,
    },
}

/// Why a link ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Farewell {
    /// The speaker ends.
    Leaving,
    /// The hello was for another node, or of another pool.
    WrongNode,
    /// No version is known to both.
    NoVersion,
    /// The speaker of the hello has made a newer link already.
    OldLink,
    /// A rule of the protocol was broken.
    Rules,
}

const FAREWELLS: [Farewell; 5] = [
    Farewell::Leaving,
    Farewell::WrongNode,
    Farewell::NoVersion,
    Farewell::OldLink,
    Farewell::Rules,
];

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
}

impl Operation {
    /// The stream that it is about.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        match self {
            Self::Read { stream, .. } | Self::Write { stream, .. } | Self::Clear { stream, .. } => {
                *stream
            }
        }
    }
}

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
}

const LZ4: u8 = 32;

const _: () = assert!(Compression::ZSTD_LEVEL_MAX < LZ4);

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

/// Fields of a body, one after another.
struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("within its limit"));
        self.0.extend(bytes);
    }
}

fn position<T: PartialEq>(known: &[T], value: &T) -> u8 {
    let found = known.iter().position(|one| one == value);
    found.and_then(|at| u8::try_from(at).ok()).expect("all are listed")
}

impl Message {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => 1,
            Self::Welcome { .. } => 2,
            Self::Closed { .. } => 3,
            Self::Request { .. } => 4,
            Self::Answer { .. } => 5,
            Self::Goodbye(_) => 6,
            Self::Barrier { .. } => 7,
        }
    }

    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) {
        let mut out = Out(bytes);
        match self {
            Self::Hello { pool, from, to, link, versions } => {
                out.0.extend(pool.0);
                out.0.extend(from.0.to_le_bytes());
                out.0.extend(to.0.to_le_bytes());
                out.u64(*link);
                out.u16(versions.0);
                out.u16(versions.1);
            }
            Self::Welcome { version } => out.u16(*version),
            Self::Closed { connection } => out.u64(*connection),
            Self::Request { request, connection, epoch, departures, shard, operation } => {
                out.u64(*request);
                out.u64(*connection);
                out.u64(*epoch);
                out.u64(*departures);
                out.u16(shard.0);
                operation.append_to(&mut out);
            }
            Self::Answer { request, outcome } => {
                out.u64(*request);
                outcome.append_to(&mut out);
            }
            Self::Goodbye(farewell) => out.u8(position(&FAREWELLS, farewell)),
            Self::Barrier { request } => out.u64(*request),
        }
    }

    pub(super) fn decode(kind: u8, body: &[u8]) -> Result<Self, WireError> {
        let mut fields = In { kind, reader: Reader::new(body) };
        let message = fields.message()?;
        if !fields.reader.rest().is_empty() {
            return Err(fields.senseless("it is too long"));
        }
        Ok(message)
    }
}

impl Operation {
    fn append_to(&self, out: &mut Out<'_>) {
        match self {
            Self::Read { stream, offset, len } => {
                out.u8(1);
                out.u64(stream.get());
                out.u64(*offset);
                out.u32(*len);
            }
            Self::Write { stream, offset, reduction, data } => {
                out.u8(2);
                out.u64(stream.get());
                out.u64(*offset);
                out.u8(u8::from(reduction.dedup));
                out.u8(compression_number(reduction.compression));
                out.bytes(data);
            }
            Self::Clear { stream, range, keep_allocated } => {
                out.u8(3);
                out.u64(stream.get());
                out.u64(range.start);
                out.u64(range.end);
                out.u8(keep_allocated.map_or(0, |keep| 1 + u8::from(keep)));
            }
        }
    }
}

impl Outcome {
    fn append_to(&self, out: &mut Out<'_>) {
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
        }
    }
}

/// 0 is off, 1 to 19 a level of Zstandard, 32 LZ4.
fn compression_number(compression: Compression) -> u8 {
    match compression {
        Compression::Off => 0,
        Compression::Zstd(level) => level,
        Compression::Lz4 => LZ4,
    }
}

/// Bytes of a peer.
struct In<'a> {
    kind: u8,
    reader: Reader<'a>,
}

impl In<'_> {
    fn senseless(&self, what: &'static str) -> WireError {
        WireError::Senseless { kind: self.kind, what }
    }

    fn whole<T>(&self, read: Result<T, Short>) -> Result<T, WireError> {
        read.map_err(|_| self.senseless("it is too short"))
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        let read = self.reader.u8();
        self.whole(read)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        let read = self.reader.u16();
        self.whole(read)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        let read = self.reader.u32();
        self.whole(read)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        let read = self.reader.u64();
        self.whole(read)
    }

    fn sixteen(&mut self) -> Result<[u8; 16], WireError> {
        let read = self.reader.array();
        self.whole(read)
    }

    fn node(&mut self) -> Result<NodeId, WireError> {
        Ok(NodeId(u128::from_le_bytes(self.sixteen()?)))
    }

    fn stream(&mut self) -> Result<StreamId, WireError> {
        let number = self.u64()?;
        StreamId::from_untrusted(number).ok_or_else(|| self.senseless("no stream has that number"))
    }

    fn bytes(&mut self, limit: usize) -> Result<Vec<u8>, WireError> {
        let len = self.u32()? as usize;
        if len > limit {
            return Err(self.senseless("a field is over its limit"));
        }
        let read = self.reader.bytes(len);
        Ok(self.whole(read)?.to_vec())
    }

    fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.senseless("neither yes nor no")),
        }
    }

    fn one_of<T: Copy>(&mut self, known: &[T]) -> Result<T, WireError> {
        let at = usize::from(self.u8()?);
        known.get(at).copied().ok_or_else(|| self.senseless("a number that is not known"))
    }

    fn compression(&mut self) -> Result<Compression, WireError> {
        match self.u8()? {
            0 => Ok(Compression::Off),
            LZ4 => Ok(Compression::Lz4),
            level if level <= Compression::ZSTD_LEVEL_MAX => Ok(Compression::Zstd(level)),
            _ => Err(self.senseless("a compression that is not known")),
        }
    }

    fn message(&mut self) -> Result<Message, WireError> {
        Ok(match self.kind {
            1 => Message::Hello {
                pool: PoolId(self.sixteen()?),
                from: self.node()?,
                to: self.node()?,
                link: self.u64()?,
                versions: (self.u16()?, self.u16()?),
            },
            2 => Message::Welcome { version: self.u16()? },
            3 => Message::Closed { connection: self.u64()? },
            4 => Message::Request {
                request: self.u64()?,
                connection: self.u64()?,
                epoch: self.u64()?,
                departures: self.u64()?,
                shard: ShardId(self.u16()?),
                operation: self.operation()?,
            },
            5 => Message::Answer { request: self.u64()?, outcome: self.outcome()? },
            6 => Message::Goodbye(self.one_of(&FAREWELLS)?),
            7 => Message::Barrier { request: self.u64()? },
            _ => return Err(self.senseless("the kind is not known")),
        })
    }

    fn operation(&mut self) -> Result<Operation, WireError> {
        let operation = self.u8()?;
        let stream = self.stream()?;
        Ok(match operation {
            1 => {
                let (offset, len) = (self.u64()?, self.u32()?);
                if len > DATA_BYTES_MAX || offset.checked_add(len.into()).is_none() {
                    return Err(self.senseless("more is read than an answer holds"));
                }
                Operation::Read { stream, offset, len }
            }
            2 => {
                let offset = self.u64()?;
                let dedup = self.flag()?;
                let compression = self.compression()?;
                let data = self.bytes(DATA_BYTES_MAX as usize)?;
                if offset.checked_add(data.len() as u64).is_none() {
                    return Err(self.senseless("it ends beyond every stream"));
                }
                let reduction = Reduction { dedup, compression };
                Operation::Write { stream, offset, reduction, data }
            }
            3 => {
                let range = ByteRange { start: self.u64()?, end: self.u64()? };
                if range.start > range.end {
                    return Err(self.senseless("a range ends before it begins"));
                }
                let keep_allocated = self.one_of(&[None, Some(false), Some(true)])?;
                Operation::Clear { stream, range, keep_allocated }
            }
            _ => return Err(self.senseless("the operation is not known")),
        })
    }

    fn outcome(&mut self) -> Result<Outcome, WireError> {
        Ok(match self.u8()? {
            1 => Outcome::Done,
            2 => Outcome::Read(self.parts()?),
            3 => {
                let (serves, epoch) = (self.flag()?, self.u64()?);
                if !serves && epoch != 0 {
                    return Err(self.senseless("an epoch of nothing"));
                }
                Outcome::NotBegun { serves: serves.then_some(epoch) }
            }
            4 => Outcome::NoConnection,
            5 => {
                let kind = self.one_of(&KINDS)?;
                let text = String::from_utf8(self.bytes(TEXT_BYTES_MAX)?);
                Outcome::Failed { kind, text: text.map_err(|_| self.senseless("no text"))? }
            }
            _ => return Err(self.senseless("the outcome is not known")),
        })
    }

    fn parts(&mut self) -> Result<Vec<Part>, WireError> {
        let mut parts = Vec::new();
        let mut room = DATA_BYTES_MAX;
        while !self.reader.rest().is_empty() {
            let part = if self.flag()? {
                Part::Data(self.bytes(room as usize)?)
            } else {
                Part::Zero(self.u32()?)
            };
            let len = match &part {
                Part::Zero(len) => *len,
                Part::Data(data) => u32::try_from(data.len()).unwrap_or(u32::MAX),
            };
            // Empty parts could be without end.
            room = room.checked_sub(len).filter(|_| len > 0).ok_or_else(|| {
                self.senseless("a part is empty, or more was read than an answer holds")
            })?;
            parts.push(part);
        }
        Ok(parts)
    }
}
