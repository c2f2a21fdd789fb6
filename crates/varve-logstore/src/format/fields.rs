//! A reader that knows which structure it reads, so that its errors name it. Used by every decoder of this module.

use varve_stdx::{Reader, Short};
use varve_types::PoolId;

use crate::{Error, error::Result};

/// Fields of one structure, read in order (FORMAT-1).
pub(super) struct Fields<'a> {
    what: &'static str,
    reader: Reader<'a>,
}

macro_rules! plain {
    ($($name:ident: $type:ty),*) => {
        $(#[inline]
        pub(super) fn $name(&mut self) -> Result<$type> {
            self.reader.$name().map_err(|short| self.truncated(short)) // FORMAT-2
        })*
    };
}

impl<'a> Fields<'a> {
    #[inline]
    pub(super) const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, reader: Reader::new(bytes) }
    }

    plain!(u8: u8, u16: u16, u24: u32, u32: u32, u48: u64, u64: u64);

    #[inline]
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        self.reader.bytes(count).map_err(|short| self.truncated(short))
    }

    pub(super) fn pool(&mut self) -> Result<PoolId> {
        self.reader.array().map(PoolId).map_err(|short| self.truncated(short))
    }

    /// A 48-bit id in eight bytes.
    #[inline]
    pub(super) fn id<T>(&mut self, field: &'static str, from: fn(u64) -> Option<T>) -> Result<T> {
        let value = self.u64()?;
        from(value).ok_or_else(|| self.bad(field, value))
    }

    /// Reserved bytes (FORMAT-3).
    #[inline]
    pub(super) fn zeros(&mut self, count: usize) -> Result<()> {
        if self.bytes(count)?.iter().any(|byte| *byte != 0) {
            return Err(Error::ReservedNotZero { what: self.what });
        }
        Ok(())
    }

    /// Key id or AEAD codec: this version encrypts nothing, and must not hand out ciphertext.
    #[inline]
    pub(super) fn unencrypted(&self, value: u32) -> Result<()> {
        if value != 0 {
            return Err(Error::Unsupported { what: self.what, flags: u64::from(value) });
        }
        Ok(())
    }

    pub(super) fn magic(&mut self, magic: [u8; 8]) -> Result<()> {
        let found = self.u64()?;
        if found != u64::from_le_bytes(magic) {
            return Err(Error::BadMagic { what: self.what, found });
        }
        Ok(())
    }

    pub(super) fn version(&mut self, known: u16) -> Result<()> {
        let found = self.u16()?;
        if found != known {
            return Err(Error::BadVersion { what: self.what, found, known });
        }
        Ok(())
    }

    /// Every byte has been read.
    pub(super) fn end(&self) -> Result<()> {
        match self.reader.rest() {
            [] => Ok(()),
            rest => Err(self.bad("length", (self.reader.position() + rest.len()) as u64)),
        }
    }

    #[cold]
    pub(super) fn bad(&self, field: &'static str, value: u64) -> Error {
        Error::BadField { what: self.what, field, value }
    }

    #[cold]
    pub(super) fn unknown(&self, kind: u8) -> Error {
        Error::UnknownKind { what: self.what, kind }
    }

    #[cold]
    fn truncated(&self, short: Short) -> Error {
        Error::Truncated { what: self.what, need: short.need, have: short.have }
    }
}

/// The first `N` bytes, where a structure must have at least as many.
#[inline]
pub(super) fn head<'a, const N: usize>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [u8; N]> {
    bytes.first_chunk().ok_or(Error::Truncated { what, need: N, have: bytes.len() })
}

/// The first `N` bytes of the memory that a caller gave an encoder.
///
/// # Panics
/// When there are fewer.
#[inline]
pub(super) fn room<const N: usize>(out: &mut [u8]) -> &mut [u8; N] {
    out.first_chunk_mut().expect("the caller gave room for the structure")
}

/// Compares a stored checksum with the computed one.
#[inline]
pub(super) fn verify(what: &'static str, expected: u64, found: u64) -> Result<()> {
    if expected != found {
        return Err(Error::BadChecksum { what, expected, found });
    }
    Ok(())
}

/// Compares the pool that a structure names with the one it was read from; the error shows the id's first half.
pub(super) fn check_pool(what: &'static str, found: PoolId, expected: PoolId) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let [a, b, c, d, e, f, g, h, ..] = found.0;
    Err(Error::BadField {
        what,
        field: "pool",
        value: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
    })
}
