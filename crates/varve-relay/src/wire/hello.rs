//! How a link begins: who carries says what for, and who serves answers.
//!
//! ```text
//!  hello    magic 8 B "VARVELNK" | version u16 = 2 | front-end u8 | kind of the client's address u8
//!           | its port u16 | cell u16 | pool 16 B | from 16 B | to 16 B | version of the table u64
//!           | number of the connection u64 | client's address 16 B | checksum u64
//!  answer   magic 8 B "VARVEANS" | version u16 of who answers | code u8 | zeros 5 B
//! ```
//! The client's address is of IPv6, or mapped to it (kind 1); all zeros for a client on a unix socket (kind 0).
//! Front-ends are 1 exports, 2 S3, 3 the admin API. Any other number is of a later version, and answered by
//! [`HelloReply::NoFrontEnd`].

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use varve_membership::NodeId;
use varve_stdx::{DecodeError, Reader, Writer, checksum64};
use varve_types::{CellId, PoolId};

use crate::{Error, Result};

/// Version of what is said on a link. In version 1 whole connections of NBD were carried, and there were no cells.
pub const LINK_VERSION: u16 = 2;

/// Bytes of a hello, in this version and every later one.
pub const HELLO_BYTES: usize = 96 + CHECKSUM_BYTES;

/// Bytes of an answer, in this version and every later one.
pub const ANSWER_BYTES: usize = 16;

/// What errors call it.
const HELLO: &str = "hello of a link";

const CHECKSUM_BYTES: usize = 8;

const HELLO_MAGIC: [u8; 8] = *b"VARVELNK";
const ANSWER_MAGIC: [u8; 8] = *b"VARVEANS";

/// What is carried, by its number: nodes of other versions may have more front-ends than this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FrontEndNumber(pub u8);

/// A front-end that this version has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrontEnd {
    /// Volumes, to a client of NBD that who carries has agreed with.
    Export,
    /// Objects.
    S3,
    /// The admin API.
    Admin,
}

/// Who carries which connection, and to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// What is carried.
    pub front_end: FrontEndNumber,
    /// The pool.
    pub pool: PoolId,
    /// The cell of it.
    pub cell: CellId,
    /// Who carries it.
    pub from: NodeId,
    /// Whom it means: one life of a daemon, not whoever has its address.
    pub to: NodeId,
    /// The version of the table that says so.
    pub table_version: u64,
    /// The connection, among those that `from` carries; never used again.
    pub connection: u64,
    /// Where the client is; `None` on a unix socket.
    pub client: Option<SocketAddr>,
}

/// What who serves says to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloReply {
    /// It is served.
    Accepted,
    /// This node speaks another version.
    OtherVersion {
        /// That one.
        known: u16,
    },
    /// This node has another pool.
    OtherPool,
    /// Another node was meant.
    OtherNode,
    /// Who carries is not in the table, or has another key there.
    NotANode,
    /// This node does not serve that cell, not yet or not any more.
    NotServing,
    /// There are as many links, or connections, as there can be.
    TooMany,
    /// That front-end is not served, or not known.
    NoFrontEnd,
}

impl FrontEnd {
    /// All that there are.
    const ALL: [Self; 3] = [Self::Export, Self::S3, Self::Admin];

    /// Its number on links.
    #[must_use]
    pub fn number(self) -> FrontEndNumber {
        FrontEndNumber(match self {
            Self::Export => 1,
            Self::S3 => 2,
            Self::Admin => 3,
        })
    }
}

impl FrontEndNumber {
    /// The front-end of this number; `None` when this version has none.
    #[must_use]
    pub fn front_end(self) -> Option<FrontEnd> {
        FrontEnd::ALL.into_iter().find(|front_end| front_end.number() == self)
    }
}

impl Hello {
    /// The bytes that are sent.
    #[must_use]
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        let mut out = Writer::new(&mut bytes);
        out.array(HELLO_MAGIC);
        out.u16(LINK_VERSION);
        out.u8(self.front_end.0);
        out.u8(u8::from(self.client.is_some()));
        out.u16(self.client.map_or(0, |client| client.port()));
        out.u16(self.cell.0);
        out.array(self.pool.0);
        out.array(self.from.0.to_le_bytes());
        out.array(self.to.0.to_le_bytes());
        out.u64(self.table_version);
        out.u64(self.connection);
        out.array(self.client.map_or([0; 16], |client| match client.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }));
        let covered = HELLO_BYTES - CHECKSUM_BYTES;
        let sum = checksum64(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What the bytes say. The checksum is for mistakes of programs; TLS sees to everything else.
    ///
    /// # Errors
    /// [`Error::Hello`], [`Error::Format`] for another version.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self> {
        let mut whole = Reader::new(HELLO, bytes);
        let covered = whole.bytes(HELLO_BYTES - CHECKSUM_BYTES).map_err(Error::Hello)?;
        let sum = whole.u64().map_err(Error::Hello)?;
        let mut fields = Reader::new(HELLO, covered);
        fields.magic(HELLO_MAGIC).map_err(Error::Hello)?;
        let found = fields.u16().map_err(Error::Hello)?;
        if found != LINK_VERSION {
            return Err(Error::Format { found, known: LINK_VERSION });
        }
        if sum != checksum64(covered) {
            return Err(Error::Hello(fields.inconsistent("checksum mismatch")));
        }
        read(&mut fields).map_err(Error::Hello)
    }
}

/// What stands behind the version.
fn read(fields: &mut Reader<'_>) -> std::result::Result<Hello, DecodeError> {
    let front_end = FrontEndNumber(fields.u8()?);
    let (has_address, port, cell) = (fields.u8()?, fields.u16()?, CellId(fields.u16()?));
    let pool = PoolId(fields.array()?);
    let (from, to) = (NodeId(fields.u128()?), NodeId(fields.u128()?));
    let (table_version, connection) = (fields.u64()?, fields.u64()?);
    let address = Ipv6Addr::from_octets(fields.array()?);
    let client = match (has_address, port) {
        (0, 0) if address.is_unspecified() => None,
        (1, port) => Some(SocketAddr::new(IpAddr::V6(address).to_canonical(), port)),
        _ => return Err(fields.inconsistent("the client has half an address")),
    };
    Ok(Hello { front_end, pool, cell, from, to, table_version, connection, client })
}

impl HelloReply {
    /// The bytes that are sent.
    #[must_use]
    pub fn encode(self) -> [u8; ANSWER_BYTES] {
        let code = match self {
            Self::Accepted => 0,
            Self::OtherVersion { .. } => 1,
            Self::OtherPool => 2,
            Self::OtherNode => 3,
            Self::NotANode => 4,
            Self::NotServing => 5,
            Self::TooMany => 6,
            Self::NoFrontEnd => 7,
        };
        let mut bytes = [0; ANSWER_BYTES];
        let mut out = Writer::new(&mut bytes);
        out.array(ANSWER_MAGIC);
        out.u16(LINK_VERSION);
        out.u8(code);
        bytes
    }

    /// What the bytes say.
    ///
    /// # Errors
    /// [`Error::Hello`].
    pub fn decode(bytes: &[u8; ANSWER_BYTES]) -> Result<Self> {
        Self::read(bytes).map_err(Error::Hello)
    }

    fn read(bytes: &[u8; ANSWER_BYTES]) -> std::result::Result<Self, DecodeError> {
        let mut fields = Reader::new("answer to a hello", bytes);
        fields.magic(ANSWER_MAGIC)?;
        let (known, code) = (fields.u16()?, fields.u8()?);
        // Whatever a later version means by its codes, it is another one.
        if known != LINK_VERSION {
            return Ok(Self::OtherVersion { known });
        }
        fields.zeros(fields.rest().len())?;
        match code {
            0 => Ok(Self::Accepted),
            1 => Ok(Self::OtherVersion { known }),
            2 => Ok(Self::OtherPool),
            3 => Ok(Self::OtherNode),
            4 => Ok(Self::NotANode),
            5 => Ok(Self::NotServing),
            6 => Ok(Self::TooMany),
            7 => Ok(Self::NoFrontEnd),
            code => Err(fields.unknown(code)),
        }
    }
}

impl std::fmt::Display for HelloReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted => f.write_str("it is served"),
            Self::OtherVersion { known } => {
                write!(f, "it speaks version {known} of links, not {LINK_VERSION}")
            }
            Self::OtherPool => f.write_str("it has another pool"),
            Self::OtherNode => f.write_str("another node is there"),
            Self::NotANode => f.write_str("it does not know this node, or knows another key of it"),
            Self::NotServing => f.write_str("it does not serve the pool"),
            Self::TooMany => f.write_str("it has as many connections as it can"),
            Self::NoFrontEnd => f.write_str("it does not serve that protocol"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(client: Option<&str>) -> Hello {
        Hello {
            front_end: FrontEnd::S3.number(),
            pool: PoolId([7; 16]),
            cell: CellId(300),
            from: NodeId(1 << 100),
            to: NodeId(5),
            table_version: 9,
            connection: 11,
            client: client.map(|text| text.parse().expect("an address")),
        }
    }

    #[test]
    fn a_hello_comes_back() {
        for client in [None, Some("10.0.0.1:5"), Some("[2001:db8::1]:65535"), Some("[::]:0")] {
            for number in 0..=u8::MAX {
                let hello = Hello { front_end: FrontEndNumber(number), ..hello(client) };
                assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            }
        }
    }

    #[test]
    fn front_ends_keep_their_numbers_and_others_are_none_of_them() {
        let known = [(1, FrontEnd::Export), (2, FrontEnd::S3), (3, FrontEnd::Admin)];
        for (number, front_end) in known {
            assert_eq!(front_end.number(), FrontEndNumber(number));
            let hello = Hello { front_end: front_end.number(), ..hello(None) };
            assert_eq!(hello.encode()[10], number);
        }
        for number in 0..=u8::MAX {
            let found = FrontEndNumber(number).front_end();
            let expected = known.iter().find(|(known, _)| *known == number);
            assert_eq!(found, expected.map(|(_, front_end)| *front_end), "{number}");
        }
    }

    #[test]
    fn every_flip_is_refused_and_another_version_is_told() {
        let bytes = hello(Some("10.0.0.1:5")).encode();
        for bit in 0..HELLO_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = Hello::decode(&bytes).expect_err("bit counts");
            let is_version = matches!(bit / 8, 8 | 9);
            assert_eq!(matches!(error, Error::Format { .. }), is_version, "bit {bit}: {error}");
        }
    }

    #[test]
    fn what_is_decoded_is_encoded_to_the_same_bytes() {
        for client in [None, Some("10.0.0.1:5")] {
            let bytes = hello(client).encode();
            for bit in 0..(HELLO_BYTES - 8) * 8 {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                let sum = checksum64(&bytes[..HELLO_BYTES - 8]);
                bytes[HELLO_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
                if let Ok(hello) = Hello::decode(&bytes) {
                    assert_eq!(hello.encode(), bytes, "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn answers_come_back_and_a_later_version_is_told_whatever_it_says() {
        let all = [
            HelloReply::Accepted,
            HelloReply::OtherVersion { known: LINK_VERSION },
            HelloReply::OtherPool,
            HelloReply::OtherNode,
            HelloReply::NotANode,
            HelloReply::NotServing,
            HelloReply::TooMany,
            HelloReply::NoFrontEnd,
        ];
        for answer in all {
            let mut bytes = answer.encode();
            assert_eq!(HelloReply::decode(&bytes), Ok(answer));
            bytes[15] = 1;
            assert!(HelloReply::decode(&bytes).is_err());
            for known in [1, LINK_VERSION + 1] {
                bytes[8..10].copy_from_slice(&known.to_le_bytes());
                assert_eq!(HelloReply::decode(&bytes), Ok(HelloReply::OtherVersion { known }));
            }
            bytes[0] = 0;
            assert!(HelloReply::decode(&bytes).is_err());
        }
    }
}
