//! Live bytes of segments as a checkpoint keeps them: the payload of usage blobs.
//!
//! ```text
//! 0            4             10            16           20      21           24
//! | segment 4  | generation 6 | sealed at 6 | live bytes | flags | reserved 3 |
//! ```

use varve_media::SegmentId;
use varve_stdx::{Reader, Writer};
use varve_types::{Generation, SegmentNumber, WriteSeq};

use super::checks::{head, room};
use crate::{Error, error::Result};

const WHAT: &str = "usage entry";

const FLAG_HAS_PAGES: u8 = 1;

/// One segment that holds something live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageEntry {
    /// Slot and contents.
    pub segment: SegmentId,
    /// Highest write in it: its age.
    pub sealed_at: WriteSeq,
    /// Stored bytes of live units.
    pub live_bytes: u32,
    /// Holds metadata pages.
    pub has_pages: bool,
}

impl UsageEntry {
    /// Encoded length in bytes.
    pub const LEN: usize = 24;

    /// Writes the entry to the first [`Self::LEN`] bytes of `out`.
    ///
    /// # Panics
    /// When `out` is shorter.
    pub fn encode(&self, out: &mut [u8]) {
        let mut out = Writer::new(room::<{ Self::LEN }>(out));
        out.u32(self.segment.number.0);
        out.u48(self.segment.generation.get());
        out.u48(self.sealed_at.get());
        out.u32(self.live_bytes);
        out.u8(if self.has_pages { FLAG_HAS_PAGES } else { 0 });
        out.zeros(3);
        assert_eq!(out.position(), Self::LEN); // FORMAT-1
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// `DecodeError::Truncated`, [`Error::Unsupported`] for unknown flags, `DecodeError::ReservedNotZero`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        let number = SegmentNumber(fields.u32()?);
        let generation = Generation::new(fields.u48()?);
        let sealed_at = WriteSeq::new(fields.u48()?);
        let live_bytes = fields.u32()?;
        let flags = fields.u8()?;
        if flags & !FLAG_HAS_PAGES != 0 {
            return Err(Error::Unsupported { what: WHAT, flags: u64::from(flags) });
        }
        fields.zeros(3)?;
        Ok(Self {
            segment: SegmentId { number, generation },
            sealed_at,
            live_bytes,
            has_pages: flags & FLAG_HAS_PAGES != 0,
        })
    }
}
