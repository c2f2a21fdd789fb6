//! Frames: what stands before each message, and tells its length.

use varve_stdx::{Reader, Writer, checksum64, checksum64_seeded};

use super::message::Message;
use super::operation::DATA_BYTES_MAX;
use super::{VERSION, WireError};

/// Bytes before the body.
pub const HEADER_BYTES: usize = 20;

/// Bytes of a body at most: the largest data, and the fields beside it, of which each block that was read may have some.
pub const FRAME_BYTES_MAX: u32 = DATA_BYTES_MAX + 4096;

const MAGIC: [u8; 4] = *b"VNOD";
const COVERED_BYTES: usize = 12;

/// What the begin of a frame tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    kind: u8,
    len: u32,
    checksum: u64,
    seed: u64,
}

impl Header {
    /// Reads what stands before the body (W1).
    ///
    /// # Errors
    /// When it is no frame of this version, or too long.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let magic = reader.array::<4>();
        let mut fields = || -> Result<_, varve_stdx::Short> {
            Ok((reader.u16()?, reader.u8()?, reader.u8()?, reader.u32()?, reader.u64()?))
        };
        let (Ok(magic), Ok((version, kind, zero, len, checksum))) = (magic, fields()) else {
            return Err(WireError::Magic);
        };
        if magic != MAGIC {
            return Err(WireError::Magic);
        }
        if version != VERSION {
            return Err(WireError::Version { found: version, known: VERSION });
        }
        if zero != 0 {
            return Err(WireError::Senseless { kind, what: "reserved bits" });
        }
        if len > FRAME_BYTES_MAX {
            return Err(WireError::TooLong { len, limit: FRAME_BYTES_MAX });
        }
        let seed = checksum64(&bytes[..COVERED_BYTES]);
        Ok(Self { kind, len, checksum, seed })
    }

    /// Bytes of the body.
    #[must_use]
    pub fn body_len(&self) -> usize {
        self.len as usize
    }

    /// The message of a whole body.
    ///
    /// # Errors
    /// When it is not what was sent, or makes no sense.
    pub fn message(&self, body: &[u8]) -> Result<Message, WireError> {
        if body.len() != self.body_len() || checksum64_seeded(body, self.seed) != self.checksum {
            return Err(WireError::Checksum { len: body.len() });
        }
        Message::decode(self.kind, body)
    }
}

/// The frame of a message.
///
/// # Panics
/// When the message is over its limits.
#[must_use]
pub fn encode(message: &Message) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    message.append_to(&mut bytes);
    let len = u32::try_from(bytes.len() - HEADER_BYTES).unwrap_or(u32::MAX);
    assert!(len <= FRAME_BYTES_MAX, "a message of {len} bytes");
    let (header, body) = bytes.split_at_mut(HEADER_BYTES);
    let mut out = Writer::new(header);
    out.array(MAGIC);
    out.u16(VERSION);
    out.u8(message.kind());
    out.u8(0);
    out.u32(len);
    let seed = checksum64(&header[..COVERED_BYTES]);
    let checksum = checksum64_seeded(body, seed);
    header[COVERED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The message at the begin of bytes, and how many it takes; nothing while some are missing.
///
/// # Errors
/// As [`Header::decode`] and [`Header::message`].
pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, WireError> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let header = Header::decode(header)?;
    let Some(body) = rest.get(..header.body_len()) else { return Ok(None) };
    Ok(Some((header.message(body)?, HEADER_BYTES + body.len())))
}

#[cfg(test)]
mod tests;
