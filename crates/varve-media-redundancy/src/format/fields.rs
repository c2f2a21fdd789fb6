//! What all structures share: magic and version in front, the checksum of everything before it at the end.
//!
//! FIELDS-1. A decoder never panics: it reads through [`FieldReader`], and indexes nothing.
//! FIELDS-2. What is decoded encodes to the same bytes: reserved bytes are zero, and each value has one form.

use varve_stdx::{DecodeError, Reader, Writer, checksum64, is_zero};
use varve_types::PoolId;

use super::fault::FormatFault;
use crate::ids::{DriveNumber, Tenancy};

const CHECKSUM_BYTES: usize = 8;

/// What errors call the structure; whoever reads it knows which.
const TABLE: &str = "table";

/// Fields of one structure, read in order.
pub(super) struct FieldReader<'a> {
    reader: Reader<'a>,
}

macro_rules! plain {
    ($($name:ident: $type:ty),*) => {
        $(pub(super) fn $name(&mut self) -> Result<$type, FormatFault> {
            Ok(self.reader.$name()?) // FIELDS-1
        })*
    };
}

impl<'a> FieldReader<'a> {
    /// What stands behind magic and version, up to the checksum.
    pub(super) fn open(bytes: &'a [u8], magic: [u8; 8], version: u16) -> Result<Self, FormatFault> {
        let (need, have) = (CHECKSUM_BYTES, bytes.len());
        let short = DecodeError::Truncated { what: TABLE, need, have };
        let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(short)?;
        let mut reader = Reader::new(TABLE, covered);
        let found = reader.array()?;
        if found != magic {
            return Err(FormatFault::Magic { found: u64::from_le_bytes(found) });
        }
        let (expected, found) = (u64::from_le_bytes(*sum), checksum64(covered));
        if found != expected {
            return Err(FormatFault::Checksum { expected, found });
        }
        match reader.u16()? {
            found if found == version => Ok(Self { reader }),
            found => Err(FormatFault::Version { found }),
        }
    }

    plain!(u8: u8, u16: u16, u24: u32, u32: u32, u64: u64);

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatFault> {
        Ok(self.reader.array()?)
    }

    /// Reserved bytes (FIELDS-2).
    pub(super) fn zeros(&mut self, count: usize) -> Result<(), FormatFault> {
        if !is_zero(self.reader.bytes(count)?) {
            return Err(FormatFault::Reserved);
        }
        Ok(())
    }

    /// The number of all bytes, checksum included.
    pub(super) fn length(&mut self, expected: usize) -> Result<(), FormatFault> {
        let found = self.u32()?;
        if usize::try_from(found) == Ok(expected) {
            return Ok(());
        }
        Err(FormatFault::Field { field: "length", value: found.into() })
    }

    /// The pool that it belongs to.
    pub(super) fn pool(&mut self, expected: PoolId) -> Result<(), FormatFault> {
        if self.array()? == expected.0 {
            return Ok(());
        }
        Err(FormatFault::Misplaced { owner: "pool" })
    }

    pub(super) fn drive(&mut self) -> Result<DriveNumber, FormatFault> {
        let number = self.u8()?;
        DriveNumber::new(number).ok_or(FormatFault::Field { field: "drive", value: number.into() })
    }

    /// A tenancy that something was written under, in four bytes.
    pub(super) fn tenancy(&mut self) -> Result<Tenancy, FormatFault> {
        let value = self.u32()?;
        Tenancy::new(value).ok_or(FormatFault::Field { field: "tenancy", value: value.into() })
    }

    /// Every byte has been read.
    pub(super) fn end(&self) -> Result<(), FormatFault> {
        match self.reader.rest() {
            [] => Ok(()),
            rest => {
                let value = (self.reader.position() + rest.len()) as u64;
                Err(FormatFault::Field { field: "length", value })
            }
        }
    }
}

/// Writes magic, version, what `write` does, and the checksum into `out`.
///
/// # Panics
/// When that is not as long as `out`.
pub(super) fn seal(
    out: &mut [u8],
    magic: [u8; 8],
    version: u16,
    write: impl FnOnce(&mut Writer<'_>),
) {
    let (covered, sum) =
        out.split_last_chunk_mut::<CHECKSUM_BYTES>().expect("the caller gave room for it");
    let mut w = Writer::new(covered);
    w.array(magic);
    w.u16(version);
    write(&mut w);
    assert_eq!(w.position(), covered.len(), "all fields are written, and fill their room");
    *sum = checksum64(covered).to_le_bytes();
}
