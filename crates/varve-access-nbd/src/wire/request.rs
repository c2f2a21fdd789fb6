//! Header of a request in the transmission phase.

use super::Cursor;
use super::constant::REQUEST_MAGIC;

/// A request header as sent; nothing but the magic is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// Command flags.
    pub flags: u16,
    /// Command number.
    pub command: u16,
    /// Chosen by the client, echoed in the reply.
    pub cookie: u64,
    /// First byte concerned.
    pub offset: u64,
    /// Bytes concerned.
    pub len: u32,
}

/// Outcome of looking for a header at the front of received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodedHeader {
    /// Fewer bytes than a header are there, and they may still become one.
    Incomplete,
    /// The peer does not speak the protocol, or lost its place in it.
    BadMagic(u32),
    /// A header, [`RequestHeader::BYTES`] long.
    Header(RequestHeader),
}

impl RequestHeader {
    /// Length on the wire.
    pub const BYTES: usize = 28;

    /// Looks for a header at the front of `bytes`.
    #[must_use]
    #[inline]
    pub fn decode(bytes: &[u8]) -> DecodedHeader {
        let mut cursor = Cursor(bytes);
        let Some(magic) = cursor.u32() else { return DecodedHeader::Incomplete };
        if magic != REQUEST_MAGIC {
            return DecodedHeader::BadMagic(magic);
        }
        let mut body = || {
            Some(Self {
                flags: cursor.u16()?,
                command: cursor.u16()?,
                cookie: cursor.u64()?,
                offset: cursor.u64()?,
                len: cursor.u32()?,
            })
        };
        body().map_or(DecodedHeader::Incomplete, DecodedHeader::Header)
    }

    /// The header's bytes, as a client sends them.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let fields = REQUEST_MAGIC
            .to_be_bytes()
            .into_iter()
            .chain(self.flags.to_be_bytes())
            .chain(self.command.to_be_bytes())
            .chain(self.cookie.to_be_bytes())
            .chain(self.offset.to_be_bytes())
            .chain(self.len.to_be_bytes());
        out.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: RequestHeader = RequestHeader {
        flags: 1,
        command: 6,
        cookie: 0x1122_3344_5566_7788,
        offset: 1 << 40,
        len: u32::MAX,
    };

    #[test]
    fn header_round_trips_and_truncation_is_incomplete() {
        let bytes = HEADER.encode();
        assert_eq!(RequestHeader::decode(&bytes), DecodedHeader::Header(HEADER));
        for len in 0..RequestHeader::BYTES {
            assert_eq!(RequestHeader::decode(&bytes[..len]), DecodedHeader::Incomplete);
        }
    }

    #[test]
    fn a_wrong_magic_shows_after_four_bytes() {
        assert_eq!(RequestHeader::decode(b"GET "), DecodedHeader::BadMagic(0x4745_5420));
    }
}
