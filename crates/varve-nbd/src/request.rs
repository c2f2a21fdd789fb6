//! Header of a request in the transmission phase.

use varve_stdx::{DecodeError, Reader};

use crate::constant::{cmd, flag};
use crate::framing::Framing;

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
    /// Bytes concerned, or of payload.
    pub len: u64,
}

/// Outcome of looking for a header at the front of received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodedHeader {
    /// Fewer bytes than a header are there, and they may still become one.
    Incomplete,
    /// The peer does not speak the protocol, or lost its place in it.
    BadMagic(u32),
    /// A header, [`Framing::request_bytes`] long.
    Header(RequestHeader),
}

impl RequestHeader {
    /// Looks for a header at the front of `bytes`.
    #[must_use]
    #[inline]
    pub fn decode(bytes: &[u8], framing: Framing) -> DecodedHeader {
        let mut fields = Reader::big_endian("request", bytes);
        let Ok(magic) = fields.u32() else { return DecodedHeader::Incomplete };
        if magic != framing.request_magic() {
            return DecodedHeader::BadMagic(magic);
        }
        let mut body = || {
            Ok::<_, DecodeError>(Self {
                flags: fields.u16()?,
                command: fields.u16()?,
                cookie: fields.u64()?,
                offset: fields.u64()?,
                len: match framing {
                    Framing::Simple | Framing::Structured => u64::from(fields.u32()?),
                    Framing::Extended => fields.u64()?,
                },
            })
        };
        body().map_or(DecodedHeader::Incomplete, DecodedHeader::Header)
    }

    /// Bytes that follow the header: of a compact request those of a write, else what the flag says.
    #[must_use]
    #[inline]
    pub fn payload_len(&self, framing: Framing) -> u64 {
        let has_payload = match framing {
            Framing::Simple | Framing::Structured => self.command == cmd::WRITE,
            Framing::Extended => self.flags & flag::PAYLOAD_LEN != 0,
        };
        if has_payload { self.len } else { 0 }
    }

    /// The header's bytes, as a client sends them.
    ///
    /// # Panics
    /// When the length does not fit a compact header.
    #[must_use]
    pub fn encode(&self, framing: Framing) -> Vec<u8> {
        let mut out = Vec::with_capacity(framing.request_bytes());
        out.extend_from_slice(&framing.request_magic().to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&self.command.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        match framing {
            Framing::Simple | Framing::Structured => {
                let len = u32::try_from(self.len).expect("compact requests have 32-bit lengths");
                out.extend_from_slice(&len.to_be_bytes());
            }
            Framing::Extended => out.extend_from_slice(&self.len.to_be_bytes()),
        }
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
        len: u32::MAX as u64,
    };

    #[test]
    fn headers_round_trip_and_truncation_is_incomplete() {
        let long = RequestHeader { len: u64::MAX - 1, ..HEADER };
        for (header, framing) in [
            (HEADER, Framing::Simple),
            (HEADER, Framing::Structured),
            (HEADER, Framing::Extended),
            (long, Framing::Extended),
        ] {
            let bytes = header.encode(framing);
            assert_eq!(bytes.len(), framing.request_bytes());
            assert_eq!(RequestHeader::decode(&bytes, framing), DecodedHeader::Header(header));
            for len in 0..bytes.len() {
                let decoded = RequestHeader::decode(&bytes[..len], framing);
                assert_eq!(decoded, DecodedHeader::Incomplete);
            }
        }
    }

    #[test]
    fn a_wrong_magic_shows_after_four_bytes() {
        for framing in [Framing::Simple, Framing::Structured, Framing::Extended] {
            let decoded = RequestHeader::decode(b"GET ", framing);
            assert_eq!(decoded, DecodedHeader::BadMagic(0x4745_5420));
        }
        let compact = HEADER.encode(Framing::Structured);
        let decoded = RequestHeader::decode(&compact, Framing::Extended);
        assert_eq!(decoded, DecodedHeader::BadMagic(0x2560_9513));
        let extended = HEADER.encode(Framing::Extended);
        let decoded = RequestHeader::decode(&extended, Framing::Structured);
        assert_eq!(decoded, DecodedHeader::BadMagic(0x21e4_1c71));
    }

    #[test]
    fn payload_follows_compact_writes_and_what_the_flag_says() {
        let write = RequestHeader { flags: 0, command: cmd::WRITE, len: 9, ..HEADER };
        let trim = RequestHeader { flags: flag::PAYLOAD_LEN, command: cmd::TRIM, len: 9, ..HEADER };
        assert_eq!(write.payload_len(Framing::Simple), 9);
        assert_eq!(write.payload_len(Framing::Extended), 0);
        assert_eq!(trim.payload_len(Framing::Structured), 0);
        assert_eq!(trim.payload_len(Framing::Extended), 9);
    }
}
