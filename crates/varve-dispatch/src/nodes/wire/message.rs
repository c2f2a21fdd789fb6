//! Messages of nodes.

use varve_membership::NodeId;
use varve_stdx::Reader;
use varve_types::{PoolId, ShardId};

use super::fields::{In, Out, position};
use super::operation::Operation;
use super::outcome::Outcome;
use super::WireError;

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
        let message = Self::read(&mut fields)?;
        if !fields.reader.rest().is_empty() {
            return Err(fields.senseless("it is too long"));
        }
        Ok(message)
    }

    fn read(fields: &mut In<'_>) -> Result<Self, WireError> {
        Ok(match fields.kind {
            1 => Self::Hello {
                pool: PoolId(fields.sixteen()?),
                from: fields.node()?,
                to: fields.node()?,
                link: fields.u64()?,
                versions: (fields.u16()?, fields.u16()?),
            },
            2 => Self::Welcome { version: fields.u16()? },
            3 => Self::Closed { connection: fields.u64()? },
            4 => Self::Request {
                request: fields.u64()?,
                connection: fields.u64()?,
                epoch: fields.u64()?,
                departures: fields.u64()?,
                shard: ShardId(fields.u16()?),
                operation: Operation::read(fields)?,
            },
            5 => Self::Answer { request: fields.u64()?, outcome: Outcome::read(fields)? },
            6 => Self::Goodbye(fields.one_of(&FAREWELLS)?),
            7 => Self::Barrier { request: fields.u64()? },
            _ => return Err(fields.senseless("the kind is not known")),
        })
    }
}
